"""Every code has a file that gives it, and every code that is given is in the table."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.core.codes import CODES
from chartloop.core.errors import Finding, Severity, SpecError
from chartloop.scenarios import scenario
from tests.found import END, found, whole

PACKAGE = Path(__file__).parents[2] / "engine" / "chartloop"
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
    Example("CL001", "title: [\n"),
    Example("CL002", "title: a\ntitle: b\n"),
    Example("CL003", "title: !!str 5\n"),
    Example("CL004", "metadata: {<<: {a: 1}}\n"),
    Example("CL005", "metadata: " + "[" * 80 + "]" * 80 + "\n"),
    Example("CL006", "metadata: {[a]: 1}\n"),
    Example("CL007", A % 'do: nothing, next: [{when: "x" in last.text, to: z}, z]'),
    Example("CL101", GUARD % "run.steps >"),
    Example("CL102", GUARD % "run.steps ** 2 > 3"),
    Example("CL103", GUARD % "run.stepz > 3"),
    Example("CL104", GUARD % 'run.steps > "5"'),
    Example("CL105", GUARD % "errors.last.category == 'CRITICAL'".replace("'", '"')),
    Example("CL106", GUARD % "run.steps"),
    Example("CL107", GUARD % " and ".join(["last.ok"] * 400)),
    Example("CL108", GUARD % "eval(last.text)"),
    Example("CL109", GUARD % "limits.off > 3"),
    Example("CL110", GUARD % "vars.x > 3"),
    Example("CL111", GUARD % 'run.status == "runing"'),
    Example("CL114", "vars: {s: red}\n" + A % "do: nothing, set: {vars.s: '\"green\"'}, next: [{when: 'vars.s == \"gren\"', to: z}, z]"),
    Example("CL115", "vars: {s: red}\n" + A % "do: nothing, set: {vars.s: '\"green\"'}, next: [{when: 'vars.s == \"blue\"', to: z}, z]"),
    Example("CL116", "vars: {n: 1}\n" + A % "for: vars.x, in: vars.n, each: z, then: z"),
    Example("CL418", A % "do: prompt, with: {user: 'Do {run.task}'}, next: z"),
    Example("CL419", A % "label: 'Step {{ run.steps }}', do: nothing, next: z"),
    Example("CL112", "define: {p: q, q: p}\n"),
    Example("CL113", "vars: {s: ''}\n" + A % "do: nothing, set: {vars.s: Running}, next: z"),
    Example("CL201", "titel: x\n"),
    Example("CL202", A % "do: nothing, next: {label: L}"),
    Example("CL203", "limits: 5\n"),
    Example("CL204", "vars: {My: 1}\n"),
    Example("CL206", "chartloop: 7\nmachine: m\n"),
    Example("CL207", A % "do: nothing, on: {yes: z}"),
    Example("CL208", "in_doubt: maybe\n"),
    Example("CL209", A % "do: nothing, within: 5, next: z"),
    Example("CL210", "title: 1.10\n"),
    Example("CL211", "tools: [send_message, send_message]\n"),
    Example("CL301", A % "do: nothing, next: nowhere"),
    Example("CL302", "states: {}\n"),
    Example("CL303", "start: nowhere\n"),
    Example("CL304", A % "do: nothing, next: z" + "  b: {do: nothing, next: z}\n"),
    Example("CL305", A % "do: nothing"),
    Example("CL306", "states:\n  a: {end: completed, next: a}\n"),
    Example("CL307", A % "do: nothing, next: [{when: last.ok, to: z}, {when: last.ok, to: z}, z]"),
    Example("CL308", A % "next: b" + "  b: {next: a}\n"),
    Example("CL309", A % "do: nothing, next: [{when: last.ok, to: z}]"),
    Example("CL310", "states:\n  f: {all: [p, q]}\n  p: {next: x}\n  q: {next: y}\n  x: {do: nothing, next: z}\n  y: {do: nothing, next: z}\n" + END),
    Example("CL311", "states:\n  f: {all: [p, q]}\n  p: {do: nothing, next: j}\n  q: {next: j}\n  j: {do: nothing, next: z}\n" + END),
    Example("CL312", A % "stop: custom, next: b" + "  b: {do: nothing, next: a}\n"),
    Example("CL313", A % "do: nothing, next: return"),
    Example("CL314", A % "do: nothing, next: e" + "  e: {end: by_reason}\n"),
    Example("CL315", "limits: {n: 5}\n"),
    Example("CL316", A % "do: infer, next: [{when: last.wants_memory, to: a}, z]"),
    Example("CL317", A % "ask: 'Steps > 3?', when: run.steps >= 3, then: z, else: z"),
    Example("CL318", SCRIPTED + "limits: {n: 5}\nrules: [{when: usage.cost >= limits.n, stop: cost_limit}]\n"),
    Example("CL319", "states:\n  a: {do: nothing, next: a}\n"),
    Example("CL320", A % "on: {advance: z}"),
    Example("CL321", A % "do: nothing, next: [z, {when: last.ok, to: z}]"),
    Example("CL322", A % "ask: Q?, of: last.ok, cases: {true: z}"),
    Example("CL323", SCRIPTED + "rules: [{when: usage.context_ratio > 0.9, stop: custom}]\n"),
    Example("CL324", "model: {name: x/y, api_base: http://127.0.0.1}\n"),
    Example("CL325", "ignore: [{code: CL301, reason: r}]\n"),
    Example("CL401", A % "do: dance, next: z"),
    Example("CL402", A % "do: nothing, with: {x: 1}, next: z"),
    Example("CL403", A % "do: signal, next: z"),
    Example("CL404", A % "do: prune_context, with: {strategy: all}, next: z"),
    Example("CL405", "tools: [hammer]\n"),
    Example("CL406", "instructions: '{% macro x() %}{% endmacro %}'\n"),
    Example("CL407", "vars: {s: ''}\n" + A % "do: notify, save: {vars.s: result.texxt}, next: z"),
    Example("CL408", A % "do: nothing, next: s" + "  s: {stop: boredom}\n"),
    Example(
        "CL417",
        "tools: [send_message]\napprove: {tools: [send_message]}\n" + A % "do: call_tools, next: approve"
        + "  approve: {do: nothing, next: z}\n",
    ),
    Example("CL413", A % "do: infer, with: {output: {type: strin}}, next: z"),
    Example("CL414", A % "do: infer, with: {output: Answer}, next: z"),
    Example("CL430", "mcp_servers: {calc: {command: npx, args: [calc-server]}}\ntools: [calc.*]\n"),
    Example("CL431", "mcp_servers: {calc: {command: npx, lock: {tools: [add]}}}\n"),
    Example("CL432", "mcp_servers: {calc: {command: npx, lock: {definition: 'sha256:0', tools: {}}}}\n"),
    Example("CL409", A % "do: run_machine, with: {machine: nobody}, next: z"),
]  # fmt: skip


def test_a_file_gives_the_code(subtests: pytest.Subtests) -> None:
    for case in EXAMPLES:
        with subtests.test(case.code):
            findings = found(whole(case.body))
            hits = [f for f in findings if f.code == case.code]
            assert hits, [str(f.code) for f in findings]
            assert all(f.severity is CODES[f.code].severity for f in findings)


def _in_a_scenario(machine: str, **keys: object) -> tuple[Finding, ...]:
    with pytest.raises(SpecError) as raised:
        scenario(machine, expect={"reason": "completed"}, **keys)  # pyright: ignore[reportArgumentType]
    return raised.value.findings


OF_SCENARIOS: dict[str, Callable[[], tuple[Finding, ...]]] = {
    "CL410": lambda: _in_a_scenario(whole(""), events=[{"after": 0, "send": "yes"}]),
}


@pytest.mark.parametrize("code", OF_SCENARIOS)
def test_a_scenario_gives_the_code(code: str) -> None:
    assert code in [f.code for f in OF_SCENARIOS[code]()]


def test_every_code_of_a_file_has_an_example() -> None:
    of_files = {code for code in CODES if code < "CL5"}
    # see test_scenario, test_view_read_mermaid, test_reply_classes, test_state_charts, test_mcp_lock
    elsewhere = {*OF_SCENARIOS, "CL411", "CL412", "CL415", "CL420", "CL433", "CL434"}
    by_cases = {path.name[:5] for path in CASES.glob("*-has-*.yaml")}
    assert of_files == {e.code for e in EXAMPLES} | elsewhere | by_cases


def _strings(path: Path) -> set[str]:
    """The codes that stand in the code of a module; its docstrings and comments do not count."""
    tree = ast.parse(path.read_text())
    texts = {
        n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    return {t for t in texts if re.fullmatch(r"CL\d{3}", t)}


@pytest.mark.slow("takes seconds")
def test_every_code_that_is_given_is_in_the_table_and_the_other_way_round() -> None:
    table = PACKAGE / "core" / "codes.py"
    given = set[str]().union(*(_strings(p) for p in PACKAGE.rglob("*.py") if p != table))
    assert given - CODES.keys() == set()
    assert CODES.keys() - given == set()


def test_a_row_says_what_and_how_to_mend_it(subtests: pytest.Subtests) -> None:
    for code, row in CODES.items():
        with subtests.test(code):
            assert row.code == code
            assert row.title
            assert not row.title.endswith(".")
            assert row.cause.endswith(".")
            assert row.cure.endswith((".", "`"))
            assert row.severity in Severity
