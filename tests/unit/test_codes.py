"""Every code has a file that gives it, and every code that is given is in the table."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from interlock.core.codes import CODES
from interlock.core.errors import Finding, Severity, SpecError
from interlock.testing import scenario
from tests.found import END, found, whole

PACKAGE = Path(__file__).parents[2] / "engine" / "interlock"
CASES = Path(__file__).parents[1] / "cases" / "check"
A = "states:\n  a: {%s}\n" + END
GUARD = (
    "vars: {n: 0, l: {type: 'list[str]', value: []}, x: {type: any, value: 0}}\nlimits: {off: {type: int, value: null}}\nrules: [{when: run.steps >= limits.off, stop: custom}]\nstates:\n  a: {do: nothing, next: [{when: '%s', to: z}, z]}\n"
    + END
)
SCRIPTED = "model: {name: scripted}\n"


class Example(NamedTuple):
    """A file in which a code is found."""

    code: str
    body: str


EXAMPLES = [
    Example("IL001", "title: [\n"),
    Example("IL002", "title: a\ntitle: b\n"),
    Example("IL003", "title: !!str 5\n"),
    Example("IL004", "metadata: {<<: {a: 1}}\n"),
    Example("IL005", "metadata: " + "[" * 80 + "]" * 80 + "\n"),
    Example("IL006", "metadata: {[a]: 1}\n"),
    Example("IL007", A % 'do: nothing, next: [{when: "x" in last.text, to: z}, z]'),
    Example("IL101", GUARD % "run.steps >"),
    Example("IL102", GUARD % "run.steps ** 2 > 3"),
    Example("IL103", GUARD % "run.stepz > 3"),
    Example("IL104", GUARD % 'run.steps > "5"'),
    Example("IL105", GUARD % "errors.last.category == 'CRITICAL'".replace("'", '"')),
    Example("IL106", GUARD % "run.steps"),
    Example("IL107", GUARD % " and ".join(["last.ok"] * 400)),
    Example("IL108", GUARD % "eval(last.text)"),
    Example("IL109", GUARD % "limits.off > 3"),
    Example("IL110", GUARD % "vars.x > 3"),
    Example("IL111", GUARD % 'run.status == "runing"'),
    Example("IL112", "define: {p: q, q: p}\n"),
    Example("IL113", "vars: {s: ''}\n" + A % "do: nothing, set: {vars.s: Running}, next: z"),
    Example("IL201", "titel: x\n"),
    Example("IL202", A % "do: nothing, next: {label: L}"),
    Example("IL203", "limits: 5\n"),
    Example("IL204", "vars: {My: 1}\n"),
    Example("IL205", "mcp_servers: {x: {command: y}}\n"),
    Example("IL206", "interlock: 7\nmachine: m\n"),
    Example("IL207", A % "do: nothing, on: {yes: z}"),
    Example("IL208", "in_doubt: maybe\n"),
    Example("IL209", A % "do: nothing, within: 5, next: z"),
    Example("IL210", "title: 1.10\n"),
    Example("IL211", "tools: [send_message, send_message]\n"),
    Example("IL301", A % "do: nothing, next: nowhere"),
    Example("IL302", "states: {}\n"),
    Example("IL303", "start: nowhere\n"),
    Example("IL304", A % "do: nothing, next: z" + "  b: {do: nothing, next: z}\n"),
    Example("IL305", A % "do: nothing"),
    Example("IL306", "states:\n  a: {end: completed, next: a}\n"),
    Example("IL307", A % "do: nothing, next: [{when: last.ok, to: z}, {when: last.ok, to: z}, z]"),
    Example("IL308", A % "next: b" + "  b: {next: a}\n"),
    Example("IL309", A % "do: nothing, next: [{when: last.ok, to: z}]"),
    Example("IL310", "states:\n  f: {all: [p, q]}\n  p: {next: x}\n  q: {next: y}\n  x: {do: nothing, next: z}\n  y: {do: nothing, next: z}\n" + END),
    Example("IL311", "states:\n  f: {all: [p, q]}\n  p: {do: nothing, next: j}\n  q: {next: j}\n  j: {do: nothing, next: z}\n" + END),
    Example("IL312", A % "stop: custom, next: b" + "  b: {do: nothing, next: a}\n"),
    Example("IL313", A % "do: nothing, next: return"),
    Example("IL314", A % "do: nothing, next: e" + "  e: {end: by_reason}\n"),
    Example("IL315", "limits: {n: 5}\n"),
    Example("IL316", A % "do: infer, next: [{when: last.wants_memory, to: a}, z]"),
    Example("IL317", A % "ask: 'Steps > 3?', when: run.steps >= 3, then: z, else: z"),
    Example("IL318", SCRIPTED + "limits: {n: 5}\nrules: [{when: usage.cost >= limits.n, stop: cost_limit}]\n"),
    Example("IL319", "states:\n  a: {do: nothing, next: a}\n"),
    Example("IL320", A % "on: {advance: z}"),
    Example("IL321", A % "do: nothing, next: [z, {when: last.ok, to: z}]"),
    Example("IL322", A % "ask: Q?, of: last.ok, cases: {true: z}"),
    Example("IL323", SCRIPTED + "rules: [{when: usage.context_ratio > 0.9, stop: custom}]\n"),
    Example("IL324", "model: {name: x/y, api_base: http://127.0.0.1}\n"),
    Example("IL325", "ignore: [{code: IL301, reason: r}]\n"),
    Example("IL401", A % "do: dance, next: z"),
    Example("IL402", A % "do: nothing, with: {x: 1}, next: z"),
    Example("IL403", A % "do: signal, next: z"),
    Example("IL404", A % "do: prune_context, with: {strategy: all}, next: z"),
    Example("IL405", "tools: [hammer]\n"),
    Example("IL406", "instructions: '{% macro x() %}{% endmacro %}'\n"),
    Example("IL407", "vars: {s: ''}\n" + A % "do: notify, save: {vars.s: result.texxt}, next: z"),
    Example("IL408", A % "do: nothing, next: s" + "  s: {stop: boredom}\n"),
    Example("IL409", A % "do: run_machine, with: {machine: nobody}, next: z"),
]  # fmt: skip


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case.code)
def test_a_file_gives_the_code(case: Example) -> None:
    findings = found(whole(case.body))
    hits = [f for f in findings if f.code == case.code]
    assert hits, [str(f.code) for f in findings]
    assert all(f.severity is CODES[f.code].severity for f in findings)


def _in_a_scenario(machine: str, **keys: object) -> tuple[Finding, ...]:
    with pytest.raises(SpecError) as raised:
        scenario(machine, expect={"reason": "completed"}, **keys)  # pyright: ignore[reportArgumentType]
    return raised.value.findings


OF_SCENARIOS: dict[str, Callable[[], tuple[Finding, ...]]] = {
    "IL410": lambda: _in_a_scenario(whole(""), events=[{"after": 0, "send": "yes"}]),
}


@pytest.mark.parametrize("code", OF_SCENARIOS)
def test_a_scenario_gives_the_code(code: str) -> None:
    assert code in [f.code for f in OF_SCENARIOS[code]()]


def test_every_code_of_a_file_has_an_example() -> None:
    of_files = {code for code in CODES if code < "IL5"}
    elsewhere = {*OF_SCENARIOS, "IL411", "IL412"}  # see test_scenario, test_view_read_mermaid
    by_cases = {path.name[:5] for path in CASES.glob("*-has-*.yaml")}
    assert of_files == {e.code for e in EXAMPLES} | elsewhere | by_cases


def _strings(path: Path) -> set[str]:
    """The codes that stand in the code of a module; its docstrings and comments do not count."""
    tree = ast.parse(path.read_text())
    texts = {
        n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    return {t for t in texts if re.fullmatch(r"IL\d{3}", t)}


def test_every_code_that_is_given_is_in_the_table_and_the_other_way_round() -> None:
    table = PACKAGE / "core" / "codes.py"
    given = set[str]().union(*(_strings(p) for p in PACKAGE.rglob("*.py") if p != table))
    assert given - CODES.keys() == set()
    assert CODES.keys() - given == set()


@pytest.mark.parametrize("code", CODES)
def test_a_row_says_what_and_how_to_mend_it(code: str) -> None:
    row = CODES[code]
    assert row.code == code
    assert row.title
    assert not row.title.endswith(".")
    assert row.cause.endswith(".")
    assert row.cure.endswith((".", "`"))
    assert row.severity in Severity
