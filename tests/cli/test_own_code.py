"""One registry, one way in: every command that takes `--tools` takes classes, actions, guards and tools.

The commands are those of the program: a new one with `--tools` fails here until it has its row.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from chartloop import load
from chartloop.cli.app import app
from chartloop.scenarios import generate, run_scenario, scenario
from tests.cli.shell import Shell, program
from tests.server.test_serve_command import command

MACHINE = """\
chartloop: 1
machine: tick
model: {name: scripted}
tools: [stamp]
limits: {steps: 9}
vars: {urgency: 0}
output: vars.urgency
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  mail: {do: receive, next: read}
  read: {do: infer, with: {output: Ticket}, save: {vars.urgency: result.data.urgency}, next: noted}
  noted: {do: note, next: judge}
  judge: {ask: "Urgent?", when: is_urgent(vars.urgency), then: mark, else: done}
  mark: {do: tool, with: {name: stamp, arguments: {text: now}}, next: ok}
  ok: {ask: "OK?", on: {yes: done}}
  done: {stop: completed}
"""
OWN = '''\
from pydantic import BaseModel

from chartloop import Context, Outcome, action, guard, tool


class Ticket(BaseModel):
    urgency: int


@tool(effect="pure")
def stamp(text: str) -> str:
    """Stamp a text."""
    return text


@action(work=False, effect="pure")
def note(context: Context) -> Outcome:
    """Note it."""
    return Outcome()


@guard
def is_urgent(urgency: int) -> bool:
    """Whether it cannot wait."""
    return urgency > 3
'''
REPLY = '{"urgency": 5}'
SCENARIO = f"""\
machine: m.yaml
task: Down!
replies: ['{REPLY}']
events: [{{after: 4, send: yes}}]
expect: {{reason: completed, output: 5}}
"""


class Row(NamedTuple):
    """A command line without `--tools`, and its exit code."""

    line: str
    code: int = 0


ROWS = [
    Row("check m.yaml"),
    Row("bound m.yaml"),
    Row("query m.yaml |never tool:stamp before read"),
    Row("draw m.yaml"),
    Row("test s.scenario.yaml"),
    Row("test --coverage s.scenario.yaml"),
    Row("test m.yaml --generate"),
    Row("diff m.yaml other/m.yaml", 1),  # they differ
    Row("review HEAD"),
    Row("verify d.mmd m.yaml", 1),  # its rules are not in the picture
    Row("run m.yaml Down! --script r.yaml --run-id x", 4),  # it waits
    Row("chat m.yaml Down! --script r.yaml", 4),  # it waits, and nobody is at a terminal
    Row("step m.yaml Down! --script r.yaml"),
    Row("answer r yes"),
    Row("link r --to eve"),
    Row("enqueue r more"),
    Row("show r"),
    Row("why r"),
    Row("fork r"),
    Row("retry r --dry-run"),
    Row("coverage m.yaml"),
    Row("replay r"),
    Row("stats m.yaml"),
    Row("whatif m.yaml --limit steps=5"),
    Row("upgrade m.yaml other/m.yaml"),
    Row("resume r", 4),
    Row("record r"),
    Row("info actions note"),
    Row("submit m.yaml Down!"),
    Row("schedule add daily m.yaml Down! --every 1d"),
    Row("schedule add often m.yaml --every 1d"),
    Row("worker --until-idle --script r.yaml"),
]
SERVING = {"serve", "mcp"}
"""Commands that go on: they have tests of their own below."""


def taking_tools(group: click.Command, *before: str) -> Iterator[str]:
    """The names of all commands with an option `--tools`."""
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            one = group.get_command(context, name)
            assert one is not None
            yield from taking_tools(one, *before, name)
    elif any("--tools" in option.opts for option in group.params):
        yield " ".join(before)


@pytest.fixture
def folder(sh: Shell) -> Path:
    """The machine, everything that it names in `own.py`, and a run `r` that waits."""
    sh.write("m.yaml", MACHINE)
    (sh.folder / "other").mkdir()
    sh.write("other/m.yaml", MACHINE.replace("OK?", "Fine?"))
    sh.write("own.py", OWN)
    sh.write("r.yaml", f"replies: ['{REPLY}']")
    sh.write("s.scenario.yaml", SCENARIO)
    return sh.folder


def test_every_command_with_tools_has_a_row() -> None:
    tried = {
        name for name in taking_tools(app) for row in ROWS if f"{row.line} ".startswith(f"{name} ")
    }
    assert tried | SERVING == set(taking_tools(app))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.line)
def test_a_command_takes_classes_actions_guards_and_tools(
    folder: Path, sh: Shell, row: Row
) -> None:
    made = sh("run", "m.yaml", "Down!", "--script", "r.yaml", "--run-id", "r", "--tools", "own.py")
    assert made.code == 4, made.err
    if row.line.startswith("verify"):
        drawn = sh("draw", "m.yaml", "--tools", "own.py", "--format", "mermaid")
        sh.write("d.mmd", drawn.out)
    if row.line.startswith("review"):
        for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm a"):
            subprocess.run(["git", *words.split()], cwd=folder, check=True)
    words, _, last = row.line.partition("|")
    done = sh(*words.split(), *([last] if last else []), "--tools", "own.py")
    assert done.code == row.code, done.err
    assert not re.search(r"error\[|unknown (?:class|tool|action|guard)|CL4\d\d", done.err), done.err


@pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django
def test_serve_takes_them(folder: Path) -> None:
    (folder / "machines").mkdir()
    (folder / "m.yaml").rename(folder / "machines" / "m.yaml")
    with command(folder, "--tools", "own.py", "--script", "r.yaml") as server:
        started = server.client.post("/runs", json={"machine": "tick", "task": "Down!"})
        assert started.status_code < 300, started.text


@pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')  # noqa: S610 - no Django
def test_mcp_takes_them(folder: Path) -> None:
    done = program("mcp", "--machines", "other", "--tools", "own.py", cwd=folder)
    assert done.code == 0, done.err


def test_functions_take_them(folder: Path) -> None:
    space: dict[str, object] = {"__name__": "own_code"}
    exec(compile(OWN, "own.py", "exec", dont_inherit=True), space)  # noqa: S102  written above
    own = [space[name] for name in ("Ticket", "stamp", "note", "is_urgent")]
    load(folder / "m.yaml", tools=own)
    assert run_scenario(folder / "s.scenario.yaml", tools=own).passed
    for machine in (folder / "m.yaml", MACHINE):
        assert scenario(
            machine, "Down!", own=own, replies=[REPLY], events=[{"after": 4, "send": "yes"}],
            expect={"output": 5},
        ).passed  # fmt: skip
    made = generate(folder / "m.yaml", folder, own)
    assert made.written
    assert not made.left


def test_the_pytest_plugin_takes_them(folder: Path) -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--chartloop-tools", "own.py"]
    done = subprocess.run(
        [sys.executable, *words, "s.scenario.yaml"], cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_a_registry_is_built_in_one_place() -> None:
    """Everywhere else one is made from another by `replace`, which drops nothing."""
    root = Path(__file__).parents[2] / "engine" / "chartloop"
    built = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"\bRegistry\((?!\)|plugins=)", path.read_text())
    }
    assert built == {"actions/declare.py", "actions/registry.py"}
