"""The program as a whole: help, errors, streams, completion."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple, get_type_hints

import click
import pytest
from click.shell_completion import ShellComplete
from hypothesis import given
from hypothesis import strategies as st

from chartloop.cli.app import COMMANDS, app
from chartloop.cli.options import RunOptions
from tests.cli.shell import ADD, PROGRAM, Shell, environment, program

HEAVY = ["graphviz", "jinja2", "litellm", "networkx", "pydantic", "rich", "sqlite3", "transitions"]


def test_help_imports_none_of_what_commands_need() -> None:
    report = "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))"
    code = f"import atexit, json, sys; {report}; from chartloop.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"],
        capture_output=True, text=True, check=True, env=environment(),
    )  # fmt: skip
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert "chartloop.cli.app" in loaded
    assert [name for name in HEAVY if name in loaded] == []
    ours = {n.removeprefix("chartloop.cli.") for n in loaded if n.startswith("chartloop.cli.")}
    assert ours == {"app", "console", "error_report", "late", "options"}


@pytest.mark.parametrize("command", ["run", "stats", "bound"])
def test_the_help_of_a_command_imports_none_of_what_it_does(command: str) -> None:
    report = "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))"
    code = f"import atexit, json, sys; {report}; from chartloop.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, command, "--help"],
        capture_output=True, text=True, check=True, env=environment(),
    )  # fmt: skip
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert f"chartloop.cli.commands.{command}" in loaded
    late = ["asyncio", "chartloop.api", "chartloop.language.spec", "chartloop.run.loop"]
    assert [name for name in (*HEAVY, *late) if name in loaded] == []


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_were_closed_are_no_fault(closed: str, tmp_path: Path) -> None:
    line = f'exec "$0" -m chartloop info machines {closed}'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable], cwd=tmp_path, capture_output=True, text=True,
        check=False, env=environment(),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


RUN_IDS = {
    "r": True, "2-b_c.D": True, "a" * 100: True, "last": False, "../x": False, "a/b": False,
    "a b": False, "é": False, "\x1b[31m": False, "a" * 101: False, ".a": False, "": False,
}  # fmt: skip


@pytest.mark.parametrize(("given", "taken"), RUN_IDS.items())
def test_what_may_be_the_id_of_a_run(given: str, taken: bool, sh: Shell) -> None:
    done = sh("run", *ADD, f"--run-id={given}")
    assert done.code == (0 if taken else 2)
    assert taken or "an id has letters, digits" in " ".join(done.err.split())


def test_a_command_is_what_the_help_says_of_it(subtests: pytest.Subtests) -> None:
    for name, entry in COMMANDS.items():
        with subtests.test(name):
            command = app.get_command(click.Context(app), name)
            assert command is not None
            assert command.name == name
            assert (command.help or "").split("\n")[0] == entry.about
            assert "Example" in (command.epilog or "")


FOR_EYES = {"chat", "draw", "mcp", "serve", "step", "worker"}
"""A conversation, a picture, a prompt, and servers."""


def test_every_command_speaks_json(subtests: pytest.Subtests) -> None:
    for name in COMMANDS.keys() - FOR_EYES:
        with subtests.test(name):
            command = app.get_command(click.Context(app), name)
            assert command is not None
            own = any(p.name == "format" for p in command.params)
            of_it = [command]
            if isinstance(command, click.Group) and not own:
                of_it = list(command.commands.values())
            for each in of_it:
                formats = next(p for p in each.params if p.name == "format")
                assert isinstance(formats.type, click.Choice)
                assert "json" in formats.type.choices


def test_help_and_version(sh: Shell) -> None:
    done = sh("--help")
    assert done.code == 0
    assert all(f"\n  {name} " in done.out for name in COMMANDS)
    assert "chartloop 0." in sh("--version").out
    assert sh("run", "-h").code == 0


def test_the_examples_of_every_help_keep_their_lines(sh: Shell) -> None:
    """A paragraph with `\\b` written out, not the sign itself, is filled like any other."""
    for name in COMMANDS:
        command = app.get_command(click.Context(app), name)
        below: Iterable[str] = command.commands if isinstance(command, click.Group) else ()
        for words in [[name], *([name, other] for other in below)]:
            assert r"\b" not in sh(*words, "--help").out, words


class Wrong(NamedTuple):
    """A wrong command line, and what is said of it."""

    id: str
    args: tuple[str, ...]
    says: str
    code: int = 2


WRONG = [
    Wrong("command", ("rnu", "agent"), "there is no command `rnu`: did you mean `run`?"),
    Wrong("no-command", (), "Usage:"),
    Wrong("option", ("run", "adder.yaml", "--lmit", "steps=3"), "No such option"),
    Wrong("format", ("runs", "--format", "xml"), "'xml' is not one of"),
    Wrong("pair", ("run", "adder.yaml", "--limit", "steps"), "`steps` is not NAME=VALUE"),
    Wrong("pair-without-name", ("run", "adder.yaml", "--var", "=3"), "is not NAME=VALUE"),
    Wrong("machine", ("run", "addr", "x"), "error[CL607]: there is no machine file `addr`"),
    Wrong("machine-nearest", ("draw", "agnet"), "= help: did you mean `agent`?"),
    Wrong("machine-is-a-folder", ("check", "."), "`.` is a folder"),
    Wrong("machine-of-nul", ("check", "a\0b"), "there is no machine file"),
    Wrong("machine-of-text", ("check", "a\nb"), "named by its file"),
    Wrong("limit", (*("run", *ADD), "--limit", "stps=3"), "error[CL603]: machine `adder` has no limit `stps`"),
    Wrong("limit-nearest", (*("run", *ADD), "--limit", "stps=3"), "did you mean `steps`?"),
    Wrong("limit-value", (*("run", *ADD), "--limit", "steps=many"), "limit `steps` is int: `many` is not"),
    Wrong("limit-off", (*("run", *ADD), "--limit", "steps=off"), "cannot be switched off"),
    Wrong("limit-negative", (*("run", *ADD), "--limit", "steps=-1"), "limit `steps` is int"),
    Wrong("limit-without-its-percent", ("run", "moderator", "x", "--limit", "context=95"), "`95` would be 9500%"),
    Wrong("limit-without-its-percent-hint", ("run", "moderator", "x", "--limit", "context=95"), "write `95%`"),
    Wrong("var", (*("run", *ADD), "--var", "aproach=x"), "did you mean `approach`?"),
    Wrong("var-value", (*("run", *ADD), "--var", "tries=x"), "variable `tries` is int: `x` is not"),
    Wrong("memory", (*("run", *ADD), "--memory", "humann=Ann"), "no memory block `humann`"),
    Wrong("define", (*("run", *ADD), "--define", "lng=true"), "lng", code=1),
    Wrong("tools", ("run", "adder.yaml", "--tools", "tolls.py"), "cannot import tools from `tolls.py`"),
    Wrong("tools-module", ("run", "adder.yaml", "--tools", "no_such_module"), "no_such_module"),
    Wrong("tools-name", ("run", "adder.yaml", "--tools", "tools.py:sub"), "`tools.py` has no `sub`"),
    Wrong("tools-empty", ("check", "adder.yaml", "--tools", "colorsys"), "declares nothing"),
    Wrong("script", ("run", "adder.yaml", "--script", "none.yaml"), "does not exist"),
    Wrong("script-and-model", (*("run", *ADD), "--model", "x/y"), "--script takes the place of a model"),
    Wrong("no-model", ("run", "looper.yaml", "x"), "machine `looper` is scripted"),
    Wrong("no-journal", ("show", "last"), "error[CL604]: there is no journal at `.chartloop/journal.db`"),
    Wrong("total-without-inputs", (*("run", *ADD), "--total-limit", "steps=3"), "--total-limit goes with --inputs"),
    Wrong("new-file-without-file", ("resume", "last", "--use-new-file"), "goes with --machine"),
    Wrong("fact", ("info", "facts", "zzz"), "no fact has `zzz` in it"),
    Wrong("action", ("info", "actions", "infr"), "did you mean `infer`?"),
    Wrong("picture", ("draw", "agent", "-o", "a.jpg"), "does not say which format"),
    Wrong("age", ("runs", "rm", "--older", "soon"), "`soon` is not a duration"),
    Wrong("remove-nothing", ("runs", "rm"), "name runs, or give their age"),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_a_wrong_command_line(sh: Shell, case: Wrong) -> None:
    done = sh(*case.args)
    assert case.says in done.err
    assert done.code == case.code
    assert done.out == ""
    assert "Traceback" not in done.err
    assert sh("runs", "--format", "json").json == []


@pytest.mark.parametrize(
    "args",
    [
        ("runs",), ("show", "last"), ("why", "last"), ("run", *ADD), ("resume", "last"),
        ("answer", "last", "go"), ("pause", "last"), ("replay", "last"), ("runs", "rm", "--older", "1d"),
        ("stats",), ("coverage", "adder.yaml"), ("fork", "last", "--at", "1"), ("doctor",),
        pytest.param(
            ("serve", "--machines", "."),
            marks=pytest.mark.extra("fastapi", install='pip install -e ".[server]"'),  # noqa: S610 - no Django
        ),
        pytest.param(
            ("mcp", "--machines", "."),
            marks=pytest.mark.extra("mcp", install='pip install -e ".[mcp]"'),  # noqa: S610 - no Django
        ),
    ],
    ids=lambda args: " ".join(args[:2]),
)  # fmt: skip
def test_a_url_of_a_journal_that_nothing_opens(sh: Shell, args: tuple[str, ...]) -> None:
    done = sh(*args, "--journal", "mysql://ann:s3cret@localhost/x")
    text = " ".join((done.err + done.out).split())
    assert "`mysql://...` is not the path of a journal, and nothing here opens such URLs" in text
    assert "a plugin may open other URLs: `--plugin NAME`" in text
    assert "s3cret" not in text
    assert "Traceback" not in text
    assert done.code == (1 if args == ("doctor",) else 2)
    assert not (sh.folder / "mysql:").exists()


def test_tools_that_fail_name_their_line(sh: Shell) -> None:
    sh.write("bad.py", "x = 1\ny = x / 0\n")
    done = sh("check", "adder.yaml", "--tools", "bad.py")
    assert "cannot import tools from `bad.py`: ZeroDivisionError" in done.err
    assert "(line 2)" in done.err
    assert done.code == 2


def test_tools_find_their_neighbours(sh: Shell) -> None:
    sh.write("helper_of_tools.py", "from chartloop import tool\n")
    sh.write("more.py", f"import helper_of_tools\n{(sh.folder / 'tools.py').read_text()}")
    assert sh("check", "adder.yaml", "--tools", "more.py").code == 0


def test_a_fault_of_our_own_is_said_without_a_traceback(sh: Shell) -> None:
    sh.write("bad.py", "class A:\n def __getattr__(self, n): raise KeyError(n)\nx = A()\n")
    done = sh("check", "adder.yaml", "--tools", "bad.py:x")
    assert done.code == 2
    assert "Traceback" not in done.err


# streams ------------------------------------------------------------------------------------


def test_a_reader_that_goes_is_no_error(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, "info", "schema"], cwd=folder, stdout=writer, stderr=subprocess.PIPE,
        env=environment(), check=False, text=True,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.slow("starts processes for seconds")
def test_signs_are_written_otherwise_where_there_is_only_ascii(folder: Path) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = program("draw", "agent", cwd=folder, env=ascii_only)
    assert done.code == 0
    assert "- tool calls ---" in done.out
    assert ">| tool_call +--" in done.out
    assert done.out.isascii()
    data = program("info", "facts", "--format", "json", cwd=folder, env=ascii_only)
    assert data.out.isascii()
    assert data.json == program("info", "facts", "--format", "json", cwd=folder).json


def test_text_that_no_encoding_holds_does_not_crash(sh: Shell) -> None:
    sh.write("odd.yaml", 'replies: [{text: "\\ud800 \\u001b[31mred"}]\n')
    done = program("run", "agent", "hm", "--script", "odd.yaml", "--in-memory", cwd=sh.folder)
    assert "Traceback" not in done.err
    assert done.code in (0, 1)


def test_a_task_that_is_no_utf8_does_not_crash(folder: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "run", "adder.yaml", "-", *ADD[2:]], cwd=folder, input=b"\xff\xfe two",
        capture_output=True, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert b"It is 5." in done.stdout


def test_colours_only_where_they_are_wanted(folder: Path) -> None:
    assert "\x1b" not in program("check", "adder.yaml", cwd=folder).out


class Common(NamedTuple):
    """A common option before and after a command."""

    id: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    code: int
    says: str


COMMON = [
    Common("journal", ("--journal", "j.db"), ("runs",), 0, "first"),
    Common("journal-of-a-group", ("--journal", "j.db"), ("runs", "rm", "first", "--yes"), 0, "1 run removed"),
    Common("format", ("--format", "json"), ("info", "facts", "run.steps"), 0, '"fact": "run.steps"'),
    Common("format-of-another-kind", ("--format", "csv"), ("runs",), 2, "'csv' is not one of 'text', 'json'"),
    Common("tools", ("--tools", "tools.py"), ("check", "adder.yaml"), 0, "no mistakes"),
    Common("tools-join", ("--tools", "tools.py"), ("check", "adder.yaml", "--tools", "none.py"), 2, "none.py"),
    Common("the-later-wins", ("--journal", "no.db"), ("runs", "--journal", "j.db"), 0, "first"),
    Common("not-taken", ("--journal", "j.db"), ("check", "adder.yaml"), 2, "`chartloop check` takes no --journal"),
    Common("not-taken-by-a-group", ("--tools", "tools.py"), ("runs",), 2, "`chartloop runs` takes no --tools"),
]  # fmt: skip


@pytest.mark.parametrize("case", COMMON, ids=lambda case: case.id)
def test_a_common_option_may_stand_before_the_command(sh: Shell, case: Common) -> None:
    assert sh("run", *ADD, "--journal", "j.db", "--run-id", "first").code == 0
    done = sh(*case.before, *case.after)
    assert (done.code, case.says in done.out + done.err) == (case.code, True), done


# completion ---------------------------------------------------------------------------------


def complete(*words: str) -> list[str]:
    """What a shell is offered for the last of these words."""
    shell = ShellComplete(app, {}, "chartloop", "_CHARTLOOP_COMPLETE")
    return [str(item.value) for item in shell.get_completions([*words[:-1]], words[-1])]


def test_completion(sh: Shell) -> None:
    assert sh("run", *ADD, "--run-id", "first").code == 0
    waits = sh("run", "asker.yaml", "x", "--script", "guesses.yaml", "--run-id", "second")
    assert waits.code == 4
    assert "resume" in complete("res")
    assert complete("run", "ag")[0] == "agent"
    assert set(complete("show", "")) == {"last", "first", "second"}
    assert complete("show", "f") == ["first"]
    assert set(complete("answer", "second", "")) == {"fix", "ok", "abort"}
    assert complete("run", "asker.yaml", "x", "--limit", "an") == ["answer="]
    assert complete("step", "asker.yaml", "x", "--to", "qu") == ["question"]
    assert complete("info", "actions", "inf") == ["infer"]


def test_completion_makes_nothing(sh: Shell) -> None:
    assert complete("show", "") == ["last"]
    assert complete("answer", "none", "") == []
    assert complete("run", "no.yaml", "x", "--limit", "") == []
    assert not (sh.folder / ".chartloop").exists()


def test_a_shell_is_answered(folder: Path) -> None:
    words = {"COMP_WORDS": "chartloop info actions inf", "COMP_CWORD": "3"}
    done = program(cwd=folder, env={"_CHARTLOOP_COMPLETE": "bash_complete", **words})
    assert (done.out, done.err) == ("plain,infer\n", "")


@given(st.lists(st.text(max_size=12), min_size=1, max_size=4))
def test_no_command_line_crashes(args: list[str]) -> None:
    code = app.main(["check", *(a for a in args if a != "-")], standalone_mode=False)
    assert code in (0, 1, 2)


def test_tools_that_end_the_program_are_said_to(sh: Shell) -> None:
    sh.write("ends.py", "import sys\n\nsys.exit(3)\n")
    done = sh("check", "adder.yaml", "--tools", "ends.py")
    assert done.code == 2
    assert "cannot import tools from `ends.py`: SystemExit: 3 (line 3)" in done.err
    assert "__main__" in done.err


def test_each_option_of_a_command_has_its_field(subtests: pytest.Subtests) -> None:
    """`pass_options` gives a command its record; what no record declares must be a parameter."""
    for name in COMMANDS:
        with subtests.test(name):
            command = app.get_command(click.Context(app), name)
            assert command is not None
            assert command.callback is not None
            whole = inspect.unwrap(command.callback)
            taken = inspect.signature(whole).parameters.keys() - {"options", "ctx"}
            given = {str(param.name) for param in command.params}
            hints = get_type_hints(whole, vars(sys.modules[whole.__module__]))
            record = hints.get("options", RunOptions)
            assert given <= taken | {field.name for field in fields(record)}
            assert not taken & {field.name for field in fields(record)}
