"""Malformed orders of the command line: an error with the place, and nothing is recorded."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop import load
from chartloop.core.errors import ArgumentsError, LimitError
from chartloop.core.strict_json import LARGEST, WHOLE, UnfitError, read_strictly
from chartloop.language.values import limit_value, var_value
from tests.cli.shell import Shell

MACHINE = """\
chartloop: 1
machine: m
limits: {steps: 9, patience: 1h}
vars: {n: 1, x: 0.5}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  a: {ask: "Go?", on: {yes: {to: done, data: {n: int}}}, within: limits.patience, expired: done}
  done: {stop: completed}
"""
LONG = "1" + "0" * 400
GROUPS = "1" + "_000" * 130


class Unread(NamedTuple):
    """A text, the place of what is wrong in it, and why."""

    text: str
    at: str
    why: str


UNREAD = {
    "nan": Unread('{"a": NaN}', "/a", "finite"),
    "infinity": Unread("[0, -Infinity]", "/1", "finite"),
    "past-a-float": Unread('{"a": {"b/c": [1e309]}}', "/a/b~1c/0", "finite"),
    "digits": Unread(f"[{LONG}]", "/0", "finite"),
    "past-64-bits": Unread(f"[{WHOLE + 1}]", "/0", f"{WHOLE:,}"),
    "half": Unread('{"a~": "x\\ud83d"}', "/a~0", "half a character"),
    "nul": Unread('["\\u0000"]', "/0", "NUL"),
    "a-name": Unread('{"a": {"\\udc00": 1}}', "/a", "a name"),
    "twice": Unread('[{"a": 1, "b": 2, "a": 1}]', "/0", "given twice"),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_no_order_may_hold_has_a_place(name: str) -> None:
    text, at, why = UNREAD[name]
    with pytest.raises(UnfitError, match=why) as refused:
        read_strictly(text)
    assert refused.value.unfit.at == at


@pytest.mark.parametrize(
    "text", [f"[{WHOLE}, -{WHOLE}, 1.7e308, 5e-324, 1e-400]", '"\\ud83d\\ude00 \\\\ud83d"', "{}"]
)
def test_what_has_a_bound_is_read(text: str) -> None:
    assert read_strictly(text) is not None


BAD_LINES = {
    **{name: (f'{{"task": "t", "vars": {case.text}}}', case.why) for name, case in UNREAD.items()},
    "a-limit": (f'{{"task": "t", "limits": {{"steps": {LARGEST + 1}}}}}', "at most"),
    "a-duration": ('{"task": "t", "limits": {"patience": "99999999999d"}}', "patience"),
    "groups": (f'{{"task": "t", "vars": {{"x": "{GROUPS}"}}}}', "finite"),
    "a-list": ('["t"]', "not a JSON object"),
    "nested": ('{"task": ' + "[" * 100_000, "jobs.jsonl:1"),
}  # fmt: skip
DOORS = {
    "submit": ("submit", "m.yaml", "--inputs", "jobs.jsonl"),
    "run": ("run", "m.yaml", "--inputs", "jobs.jsonl"),
    "schedule": ("schedule", "add", "s", "m.yaml", "--every", "1h", "--inputs", "jobs.jsonl"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", BAD_LINES)
def test_a_malformed_line_is_named_and_records_nothing(name: str, door: str, sh: Shell) -> None:
    line, why = BAD_LINES[name]
    sh.write("m.yaml", MACHINE)
    sh.write("jobs.jsonl", line)
    done = sh(*DOORS[door])
    assert done.code in (1, 2), done.err
    assert why in done.err + done.out
    assert "fault in chartloop" not in done.err
    assert sh("runs").out + sh("schedule", "list").out == ""


ORDERS = {
    "limit": ("submit", "m.yaml", "t", "--limit", f"steps={LARGEST + 1}"),
    "limit-digits": ("submit", "m.yaml", "t", "--limit", f"steps={LONG}"),
    "limit-groups": ("submit", "m.yaml", "t", "--limit", f"steps={GROUPS}"),
    "limit-duration": ("submit", "m.yaml", "t", "--limit", "patience=99999999999d"),
    "var-digits": ("submit", "m.yaml", "t", "--var", f"n={LONG}"),
    "var-groups": ("submit", "m.yaml", "t", "--var", f"x={GROUPS}"),
    "var-inf": ("submit", "m.yaml", "t", "--var", "x=1e309"),
    "var-nan": ("submit", "m.yaml", "t", "--var", "x=NaN"),
    "priority": ("submit", "m.yaml", "t", "--priority", LONG),
    "every": ("schedule", "add", "s", "m.yaml", "t", "--every", "999999999d"),
    "fleet-nan": ("limits", "set", "fleet", "--cost", "nan"),
    "fleet-inf": ("limits", "set", "fleet", "--cost", "inf"),
    "fleet-cost": ("limits", "set", "fleet", "--cost", "1e300"),
    "fleet-tokens": ("limits", "set", "fleet", "--tokens", LONG),
    "fleet-requests": ("limits", "set", "fleet", "--requests", str(LARGEST + 1)),
    "settle": ("limits", "settle", "x", "--cost", "nan"),
    "list": ("runs", "--limit", LONG),
    "fork": ("fork", "r", "--at", LONG),
    "answer-digits": ("answer", "r", "yes", f"n={LONG}"),
    "answer-bits": ("answer", "r", "yes", f"n={WHOLE + 1}"),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_a_number_without_a_bound_is_a_mistake_of_the_user(name: str, sh: Shell) -> None:
    sh.write("m.yaml", MACHINE)
    sh("run", "m.yaml", "t", "--run-id", "r", "--no-input")
    before = sh("runs", "--format", "json").out
    done = sh(*ORDERS[name])
    assert done.code in (1, 2), done.err
    assert done.err
    assert "fault in chartloop" not in done.err
    assert "Traceback" not in done.err
    assert sh("runs", "--format", "json").out == before
    assert "fleet" not in sh("limits").out
    assert len(done.err) < 2_000


def test_a_task_with_half_a_character_from_the_shell_is_submitted_once(sh: Shell) -> None:
    sh.write("m.yaml", MACHINE)
    line = ("submit", "m.yaml", "a\udc83", "--key", "k\udc83")
    assert [sh(*line).code for _ in range(2)] == [0, 0]
    assert len(sh("runs", "--format", "json").json) == 1


@pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')  # noqa: S610  no Django
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, -(2**64), "\ud83d", "\0"])
def test_a_tool_call_is_refused_with_its_place(value: object) -> None:
    from chartloop.hosting.mcp_server.machine_tools import OWN, refuse_arguments  # noqa: PLC0415

    for name, shape in OWN.items():
        for field in shape.input["properties"]:
            with pytest.raises(ArgumentsError, match=f"`{name}` does not take this: /{field}"):
                refuse_arguments(shape, {field: {"deep": [value]}})


@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), GROUPS, [10**400]])
def test_values_of_python_have_the_same_bounds(value: object) -> None:
    spec = load(MACHINE).spec
    for name in spec.limits:
        with pytest.raises(LimitError, match=f"limit `{name}`"):
            limit_value(spec, name, value)
    for name in spec.vars:
        with pytest.raises(LimitError, match=f"variable `{name}`"):
            var_value(spec, name, value)
