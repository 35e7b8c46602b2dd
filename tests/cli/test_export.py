"""`chartloop export`."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from chartloop.api import load
from chartloop.interchange.scxml import to_scxml
from chartloop.interchange.xstate import to_xstate
from tests.cli.shell import Shell, program


def read(sh: Shell, name: str) -> str:
    return (sh.folder / name).read_text("utf-8")


def test_a_machine_on_stdout(sh: Shell) -> None:
    assert sh("export", "agent", "--to", "scxml").out == to_scxml(load("agent"))
    done = sh("export", "agent", "--to", "xstate", "--all", "--status")
    assert (done.code, done.out) == (0, to_xstate(load("agent"), all=True, status=True))


def test_the_name_of_the_output_says_the_language(sh: Shell) -> None:
    done = sh("export", "adder.yaml", "--tools", "tools.py", "-o", "adder.json")
    assert (done.code, done.out) == (0, "")
    assert json.loads(read(sh, "adder.json"))["id"] == "adder"
    lines = len(read(sh, "adder.json").splitlines())
    assert done.err == f"adder.json: {lines} lines\n"
    sh("export", "adder.yaml", "--tools", "tools.py", "-o", "adder.SCXML")
    assert ET.fromstring(read(sh, "adder.SCXML")).get("name") == "adder"  # noqa: S314 - our own


def test_a_file_that_is_there_is_written_anew_as_a_whole(sh: Shell) -> None:
    sh.write("agent.scxml", "x" * 100_000)
    assert sh("export", "agent", "-o", "agent.scxml").code == 0
    assert read(sh, "agent.scxml") == to_scxml(load("agent"))


@pytest.mark.slow("starts processes for seconds")
def test_stdout_is_utf8_whatever_the_terminal_speaks(sh: Shell) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = program("export", "agent", "--to", "scxml", cwd=sh.folder, env=ascii_only)
    assert "retry ≤ 3" in done.out


def test_no_format_and_an_unknown_suffix(sh: Shell) -> None:
    unknown = "`x.txt` has an unknown suffix"
    for more, cause in (((), "no format is given"), (("-o", "x.txt"), unknown)):
        done = sh("export", "agent", *more)
        assert done.code == 2
        assert done.err.startswith(f"error[CL607]: {cause}\n")
        assert "say --to xstate or --to scxml" in done.err


def test_an_unknown_language_machine_or_folder(sh: Shell) -> None:
    assert "'foo' is not one of 'xstate', 'scxml'" in sh("export", "agent", "--to", "foo").err
    assert "did you mean `agent`?" in sh("export", "agnt", "--to", "scxml").err
    done = sh("export", "agent", "-o", "no/such/folder.json")
    assert done.code == 1
    assert "`no/such/folder.json` cannot be written: No such file or directory" in done.err


def test_a_file_with_a_mistake_is_not_exported(sh: Shell) -> None:
    sh.write("bad.yaml", "chartloop: 1\nmachine: bad\nstates: {a: {next: b}}\n")
    done = sh("export", "bad.yaml", "-o", "bad.json")
    assert done.code == 1
    assert "error[CL301]" in done.err
    assert not (sh.folder / "bad.json").exists()
