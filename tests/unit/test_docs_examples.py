"""Every block of code in the README and in `docs/` does what the page says.

A page is played from top to bottom in an empty folder, as its reader would:

    ```console          commands behind `$`, each with what it prints; a line `...` stands for any
    ```pycon            a session with Python, with what it prints
    ```python           a program of its own, that must end without an error
    ```yaml             a machine must load without a finding; anything else must be readable
    ```json             must be readable
    ```LANG title=FILE  the page's reader saves it as FILE; the commands that follow use it
    ```mermaid          is what a command has written into a file
    ```js title=FILE    is run by a test of its own, as is ```html
    ```sh               to paste; only what is known to need nothing but this clone is run

Ids of runs (on a page with a letter and a digit at least), times and dates differ from one run to
the next and are not compared, nor is white space. Generated pages have a test of their own (`tests/golden/test_docs.py`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

from chartloop import SpecError, load
from chartloop.language.file import file
from chartloop.language.file.keys import Part
from chartloop.language.yaml.reading import read

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "examples" / "README.md",
    ROOT / "README.md",
    *(p for p in sorted((ROOT / "docs").glob("*.md")) if p.name != "testing.md"),
    *sorted((ROOT / "docs" / "geist").glob("*.md")),
    *sorted((ROOT / "docs" / "documents").glob("*.md")),
]
LINKING = [
    *PAGES,
    ROOT / "docs" / "testing.md",
    *sorted((ROOT / "docs" / "reference").glob("*.md")),
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "llms.txt",
]
TEST_LINE = (
    'python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e ".[test]"'
    " && .venv/bin/python -m pytest -q -n auto"
)

_FENCE = re.compile(r"^```(\w*)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
_RUN = re.compile(r"\b(?=[0-9a-z]*\d)(?=[0-9a-z]*[a-z])[0-9a-z]{12}\b")
_TIME = re.compile(r"(?:\b\d+(?:\.\d+)? (?:ms|s|min|hours?)\b ?)+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")


class Block(NamedTuple):
    """One fenced block of a page."""

    line: int
    language: str
    title: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(line, found[1], found[2] or "", found[3])


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


NEEDS = {"telemetry.md": "opentelemetry.sdk"}
"""Pages that need a module which the core does not bring."""


def _with_needs(page: Path) -> ParameterSet | Path:
    if page.name not in NEEDS:
        return page
    install = 'pip install -e ".[test-all]"'
    needs = pytest.mark.extra(NEEDS[page.name], install=install)  # noqa: S610 - no Django
    return pytest.param(page, marks=needs)


# console ------------------------------------------------------------------------------------


class Command(NamedTuple):
    """A command of a console block, and what the page says that it prints."""

    line: str
    prints: str


def commands(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        head, _, rest = part.partition("\n")
        while head.endswith("\\"):
            more, _, rest = rest.partition("\n")
            head = f"{head}\n{more}"
        yield Command(head, rest)


class Reader:
    """Somebody who follows a page in a folder of their own."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._programs = programs
        programs.mkdir()
        for name, module in (
            ("chartloop", "-m chartloop"),
            ("python", ""),
            ("pytest", "-m pytest"),
        ):
            shim = programs / name
            shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            shim.chmod(0o755)

    def do(self, line: str) -> str:
        """What a command prints, on both streams. A `cd` holds for what follows."""
        if line.startswith("cd "):
            self.folder /= line.removeprefix("cd ")
            return ""
        return self._start("bash", "-c", line).stdout

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Python, where the reader is."""
        return self._start(sys.executable, *arguments)

    def _start(self, *command: str) -> subprocess.CompletedProcess[str]:
        theirs = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
        theirs.pop("PYTEST_ADDOPTS", None)
        env = {
            **theirs,
            "PATH": f"{self._programs}{os.pathsep}{theirs['PATH']}",
            "COLUMNS": "100",
            "PYTHONUTF8": "1",
        }
        return subprocess.run(
            command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, encoding="utf-8", timeout=60, check=False,
        )  # fmt: skip

    def runs(self) -> list[str]:
        """The ids of the runs recorded where the reader is."""
        path = self.folder / ".chartloop" / "journal.db"
        if not path.is_file():
            return []
        with closing(sqlite3.connect(path)) as db:
            return [row[0] for row in db.execute("select run_id from run")]


def alike(text: str) -> str:
    """A text without what differs from one run to the next."""
    text = _DATE.sub("DATE", _TIME.sub("TIME ", _RUN.sub("RUN", text)))
    return " ".join(text.replace("just now", "TIME ago").split())


def fits(expected: str, actual: str) -> bool:
    """Whether a command printed what the page says."""
    parts = [re.escape(alike(p)) for p in re.split(r"^\.\.\.$", expected, flags=re.MULTILINE)]
    return re.fullmatch(r"\s*.*\s*".join(parts), alike(actual), re.DOTALL) is not None


def play_console(block: Block, reader: Reader) -> None:
    for command in commands(block.text):
        printed = reader.do(command.line)
        for run in reader.runs():
            printed = printed.replace(run, "0run0id0here")
        assert fits(command.prints, printed), f"line {block.line}: $ {command.line}\n{printed}"


# other blocks -------------------------------------------------------------------------------


def play_yaml(block: Block, reader: Reader) -> None:
    if re.search(r"^chartloop: 1$", block.text, re.MULTILINE):
        assert load(block.text).findings == (), f"line {block.line}"
    else:
        found = read(block.text, f"line {block.line}").findings
        assert not found, "\n".join(f.render() for f in found)


def play_json(block: Block, reader: Reader) -> None:
    json.loads(block.text)


def play_python(block: Block, reader: Reader) -> None:
    done = reader.python("-c", block.text)
    assert done.returncode == 0, f"line {block.line}\n{done.stdout}"


def play_session(block: Block, reader: Reader) -> None:
    session = reader.folder / "session.txt"
    session.write_text(block.text, "utf-8")
    options = ("-o", "ELLIPSIS", "-o", "NORMALIZE_WHITESPACE")
    done = reader.python("-m", "doctest", *options, session.name)
    assert done.returncode == 0, f"line {block.line}\n{done.stdout}"


def play_mermaid(block: Block, reader: Reader) -> None:
    drawn = [path.read_text("utf-8") for path in reader.folder.glob("*.mmd")]
    assert block.text in drawn, f"line {block.line} is not what was drawn"


PLAYS = {
    "console": play_console,
    "json": play_json,
    "mermaid": play_mermaid,
    "pycon": play_session,
    "python": play_python,
    "yaml": play_yaml,
}


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copytree(
        ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns(".*", "__*")
    )
    return Reader(folder, tmp_path / "programs")


@pytest.mark.slow("plays whole pages in processes of their own")
@pytest.mark.system("bash", install="apt-get install bash")
@pytest.mark.system("timeout", install="apt-get install coreutils")
@pytest.mark.parametrize("page", [_with_needs(page) for page in PAGES], ids=_name)
def test_a_page_does_what_it_says(page: Path, reader: Reader) -> None:
    for block in blocks(page):
        if block.title:
            (reader.folder / block.title).write_text(block.text, "utf-8")
        elif block.language in PLAYS:
            PLAYS[block.language](block, reader)


def test_a_page_has_only_blocks_that_are_played(subtests: pytest.Subtests) -> None:
    known = {*PLAYS, "html", "js", "markdown", "sh", "sql", "text"}
    for page in PAGES:
        with subtests.test(_name(page)):
            assert [b for b in blocks(page) if b.language not in known] == []


# the README's lines -------------------------------------------------------------------------


def test_the_line_that_runs_an_agent_prints_its_answer(reader: Reader) -> None:
    line = next(b.text for b in blocks(ROOT / "README.md") if b.language == "sh")
    install, _, run = line.strip().rpartition(" && ")
    assert install == "python3 -m venv .venv && .venv/bin/pip install -q -e ."
    assert reader.do(run.replace(".venv/bin/", "")).startswith("2 + 3 is 5.\n")


def test_the_line_that_runs_the_tests_is_the_one_that_must_pass() -> None:
    lines = [b.text.replace(" \\\n  ", " ") for b in blocks(ROOT / "README.md")]
    assert f"{TEST_LINE}\n" in lines
    assert (ROOT / ".ci" / "run").read_text("utf-8").endswith(TEST_LINE + "\n")


# what the pages leave out, and where they lead ----------------------------------------------

SHAPES: list[type[Part]] = [
    file.FileShape, file.StateShape, file.EdgeShape, file.OnShape, file.RetryShape, file.RuleShape,
    file.ModelShape, file.BlockShape, file.TypedValue, file.TaskShape, file.ReasonShape,
    file.IgnoreShape, file.DeviationShape, file.Append,
]  # fmt: skip


def test_the_language_page_names_every_key(subtests: pytest.Subtests) -> None:
    text = (ROOT / "docs" / "language.md").read_text("utf-8")
    for shape in SHAPES:
        with subtests.test(shape.__name__):
            assert [key for key in shape.table() if not re.search(rf"\b{key}\b", text)] == []


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_link_leads_somewhere() -> None:
    broken: list[str] = []
    for page in LINKING:
        text = _FENCE.sub("", page.read_text("utf-8"))
        for link in (a or b for a, b in _LINK.findall(text)):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists():
                broken.append(f"{_name(page)}: {link} leads nowhere")
            elif anchor and anchor not in _anchors(target):
                broken.append(f"{_name(page)}: {link}: no such heading")
    assert broken == []


# the player itself --------------------------------------------------------------------------


class Case(NamedTuple):
    id: str
    expected: str
    actual: str
    same: bool


@pytest.mark.parametrize(
    "case",
    [
        Case("the-same", "a b\n", "a b\n", True),
        Case("other-ids", "run 3kf9qx2m4w1z", "run 0run0id0here", True),
        Case("other-times", "took 25 ms, of 5 min", "took 1.2 s, of 5 min", True),
        Case("other-widths", "a    b", "a b", True),
        Case("left-out", "a\n...\nc\n", "a\nb\nb\nc\n", True),
        Case("other-words", "a b", "a c", False),
        Case("more-than-said", "a", "a b", False),
        Case("less-than-said", "a\n...\nc\n", "a\nb\n", False),
        Case("other-numbers", "4 steps", "5 steps", False),
    ],
    ids=lambda case: case.id,
)
def test_what_fits(case: Case) -> None:
    assert fits(case.expected, case.actual) is case.same


def test_a_wrong_page_is_found(tmp_path: Path, reader: Reader) -> None:
    page = tmp_path / "wrong.md"
    page.write_text("```console\n$ echo one\ntwo\n```\n", "utf-8")
    with pytest.raises(AssertionError, match="echo one"):
        test_a_page_does_what_it_says(page, reader)


def test_a_machine_that_does_not_load_is_found(tmp_path: Path, reader: Reader) -> None:
    page = tmp_path / "wrong.md"
    page.write_text("```yaml\nchartloop: 1\nmachine: x\nstates: {a: {next: b}}\n```\n", "utf-8")
    with pytest.raises(SpecError, match="unknown state"):
        test_a_page_does_what_it_says(page, reader)
