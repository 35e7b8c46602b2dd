"""`docs/plugins.md`: its distribution is built and installed, and its command run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.plugins.conftest import build, install

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "plugins.md").read_text()

_WHOLE = re.MULTILINE | re.DOTALL
TITLED = re.compile(r"^```\w+ title=(\S+)\n(.*?)^```$", _WHOLE)
COMMAND = re.compile(r"^```sh\nchartloop (.*?)\n```\n\n```text\n(.*?)^```$", _WHOLE)


@pytest.mark.slow("installs a distribution and starts a process")
def test_the_plugin_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    files = dict(TITLED.findall(PAGE))
    project = tomllib.loads(files["pyproject.toml"])["project"]
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    modules = {name: files[name] for name in files if name.endswith(".py")}
    name = project["name"].replace("-", "_")
    install(build(tmp_path, name, modules, points), tmp_path / "site")
    (tmp_path / "buyer.yaml").write_text(files["buyer.yaml"])
    found = COMMAND.search(PAGE)
    assert found is not None
    command, says = found.groups()
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m chartloop {command}"], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, says), done.stderr
