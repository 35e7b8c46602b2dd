"""`docs/testing.md`, from its first line to its last, in an empty folder.

A block whose first line names a file is written there; what stands in a `console` block is
typed, and the lines below it must come, in that order; any other Python block is run, and any other
YAML block is a file that a command has written.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


class Block(NamedTuple):
    """A fenced block of the page."""

    language: str
    text: str

    @property
    def file(self) -> str:
        """The file that its first line names, or nothing."""
        match = re.match(r"# ([\w.]+\.(?:yaml|py|ini))\n", self.text)
        return match[1] if match else ""


def blocks() -> list[Block]:
    found = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [Block(*pair) for pair in found]


def run(folder: Path, *command: str) -> str:
    """The output of a command, both streams; the plugin is loaded as in an installation."""
    env = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p chartloop.scenarios.pytest_plugin -p no:cacheprovider",
        "NO_COLOR": "1",
        "COLUMNS": "80",
    }
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=280
    )
    return done.stdout + done.stderr


def typed(folder: Path, line: str) -> str:
    """What a command line of the page prints."""
    program, *given = shlex.split(line)
    if program == "rm":
        (folder / given[0]).unlink()
        return ""
    return run(folder, sys.executable, "-m", program, *given)


def sessions(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it is said to print."""
    for part in text.split("$ ")[1:]:
        command, *lines = part.splitlines()
        yield command, [line for line in lines if line.strip() and line != "..."]


@pytest.mark.slow("plays a whole page in processes of its own")
def test_every_example_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    done = 0
    for block in blocks():
        done += 1
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        elif block.language == "console":
            for command, lines in sessions(block.text):
                printed = iter(output := typed(tmp_path, command).splitlines())
                for line in lines:
                    came = any(p.rstrip().startswith(line.rstrip()) for p in printed)
                    assert came, f"$ {command}\nnever printed:\n{line}\nbut:\n" + "\n".join(output)
        elif block.language == "yaml":
            assert block.text in [path.read_text() for path in tmp_path.glob("*.yaml")]
        else:
            assert block.language == "python"
            assert run(tmp_path, sys.executable, "-c", block.text) == ""
    assert done > 15
