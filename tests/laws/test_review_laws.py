"""Laws of comparing machines: nothing that a file says is skipped, and both ways say the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.actions.undeclared import assuming
from chartloop.analysis.versions.diff.change import GROUPS
from chartloop.analysis.versions.diff.compare import compare
from chartloop.api import load as load_machine
from chartloop.language.dump import dump
from chartloop.language.load import load
from chartloop.language.spec import MachineSpec
from tests.strategies import machines
from tests.support import actions

ROOT = Path(__file__).parents[2]
Data = Any
Place = tuple[Any, ...]

EVERYTHING: Data = {
    "chartloop": 1, "machine": "everything", "title": "T", "about": "A", "source": "S",
    "metadata": {"owner": "ann"}, "instructions": "Be {{ vars.word }}.", "agent": "me",
    "model": {"name": "x/y", "temperature": 0.5, "timeout": "30s", "fallbacks": ["a", "b"], "extra": {"k": [1, 2]}, "context_window": 9000},
    "tools": ["core_memory_read", "core_memory_append"], "in_doubt": "ask",
    "memory": {"human": {"value": "Ann", "limit": 100, "label": "who", "template": "{{ label }}: {{ value }}", "on_demand": True}},
    "tasks": [{"id": "one", "text": "First", "kind": "primary", "acceptance": "seen", "by": {"prompt": "Do it"}}, "Second"],
    "limits": {"steps": 50, "time": "30m", "share": "95%", "off": {"type": "int", "value": None}, "langs": ["en", "de"]},
    "vars": {"word": "calm", "n": 1, "found": {"type": "list[str]", "value": []}, "since": {"type": "duration", "value": "5s"}},
    "define": {"busy": "run.steps > 3", "left": "limits.steps - run.steps"},
    "reasons": {"handed": {"priority": 6, "forced": False, "status": "completed"}},
    "on_stop": "report", "on_error": {"to": "report", "set": {"vars.n": "3"}},
    "output": {"said": "last.text", "n": "vars.n"},
    "ignore": [{"code": "CL316", "at": "states.think", "reason": "bounded"}],
    "deviations": [{"difference": "node x added", "reason": "told"}], "renamed": {"thought": "think"},
    "rules": [
        {"when": "run.steps >= limits.steps", "stop": "steps_limit", "warn_at": "80%", "message": "{{ run.steps }} steps", "to": "report"},
        {"when": "run.elapsed >= limits.time", "signal": "time_limit", "at": ["think"]},
        {"when": "busy and vars.n > 2", "to": "tidy", "before": ["think", "use"]},
    ],
    "machines": {
        "child": {"limits": {"steps": 5}, "rules": [{"when": "run.steps >= limits.steps", "stop": "steps_limit"}], "states": {"go": {"do": "receive", "next": "gone"}, "gone": {"stop": "completed"}}},
        "spare": {"states": {"go": {"do": "receive", "next": "gone"}, "gone": {"stop": "completed"}}},
    },
    "start": "begin",
    "states": {
        "begin": {"do": "receive", "label": "Begin", "shape": "pill", "about": "first", "next": "think"},
        "think": {
            "do": "prompt", "with": {"user": "{{ run.task }}", "keep": True}, "role": "hub",
            "save": {"vars.word": "result.text", "vars.found": {"append": "result.text"}}, "set": {"vars.n": "vars.n + 1"},
            "retry": {"times": 2, "base": "2s", "factor": 3, "on": ["TRANSIENT", "RECOVERABLE"]}, "within": "limits.time",
            "expired": "report", "failed": "report", "allow": ["core_memory_read"], "in_doubt": "fail", "status": "debugging",
            "next": [
                {"when": "len(last.tool_calls) > 0", "to": "use", "label": "tools", "set": {"vars.n": "0"}},
                {"when": "vars.n > 4", "to": "report", "stop": "handed", "message": "n is {{ vars.n }}"},
                {"to": "sure"},
            ],
        },
        "use": {"do": "call_tools", "failed": "next", "next": "think"},
        "sure": {"ask": "Sure ≥ {limits.steps}?", "when": "vars.n >= 2", "warn_at": "50%", "then": "which", "else": {"to": "wait", "label": "No"}},
        "which": {"ask": "Which?", "of": "vars.word", "cases": {"calm": "all", "wild": "report"}, "else": "wait"},
        "wait": {"ask": "Go on?", "on": {"yes": {"to": "think", "data": {"note": "str"}}, "no": "report"}, "within": "5m", "expired": "report"},
        "all": {"all": ["left", "right"]},
        "left": {"ask": "L?", "when": "vars.n > 1", "then": "kid", "else": "report"},
        "right": {"ask": "R?", "when": "vars.n > 2", "then": "kid", "else": "report"},
        "kid": {"do": "run_machine", "with": {"machine": "child", "task": "{{ run.task }}", "limits": {"steps": 3}}, "next": "report"},
        "tidy": {"do": "nothing", "next": "return"},
        "report": {"stop": "handed", "message": "over", "end": "by_reason"},
    },
}  # fmt: skip
"""A machine that says everything that a file can say."""


@cache
def registry() -> Any:
    return assuming(with_own(specs_of(actions({}))))


def spec_of(data: Data) -> MachineSpec | None:
    loaded = load(json.dumps(data, indent=1), "m.yaml", registry())
    return loaded.spec if loaded.ok else None


SHIPPED = sorted(path.stem for path in ROOT.glob("machines/*.yaml"))
NAMES = sorted(["everything", *SHIPPED])


@cache
def shipped(name: str) -> Data:
    """A machine that we ship, or the one that says everything, as plain data."""
    return EVERYTHING if name == "everything" else dump(load_machine(name).spec)


def entries(data: Data) -> Iterator[tuple[Any, Data]]:
    """What stands in a mapping or a list, each with its key."""
    if isinstance(data, dict):
        yield from cast("dict[str, Data]", data).items()
    elif isinstance(data, list):
        yield from enumerate(cast("list[Data]", data))


def nodes(data: Data, at: Place = ()) -> Iterator[Place]:
    """Where anything stands."""
    for key, value in entries(data):
        yield (*at, key)
        yield from nodes(value, (*at, key))


def leaves(data: Data) -> Iterator[Place]:
    """Where a value stands that holds no other."""
    found = [*nodes(data)]
    inner = {at[:-1] for at in found}
    yield from (at for at in found if at not in inner)


def changed(data: Data, at: Place, value: Any) -> Data:
    """A copy with another value there; `...` takes the entry away."""
    copy = json.loads(json.dumps(data))
    inner = copy
    for part in at[:-1]:
        inner = inner[part]
    if value is ...:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return copy


UNORDERED = ("at", "before", "allow", "on")


def meaning(data: Data, key: str = "") -> str:
    """Canonical data without the order of what has none."""
    if isinstance(data, dict):
        return json.dumps({k: meaning(v, k) for k, v in entries(data)}, sort_keys=True)
    if isinstance(data, list):
        said = [meaning(v) for _, v in entries(data)]
        return json.dumps(sorted(said) if key in UNORDERED else said)
    return json.dumps(data)


def meaning_of(spec: MachineSpec) -> str:
    """What a spec says, in another way than comparing reads it."""
    data = dump(spec)
    if data.get("start") == next(iter(data["states"]), None):
        data.pop("start", None)
    for inner in (data, *data.get("machines", {}).values()):
        if "start" not in inner:
            inner["start"] = next(iter(inner["states"]))
    return meaning(data)


OTHERS: tuple[Any, ...] = (
    "zzz", "other {{ run.steps }}", "7s", "run.steps >= 7", "vars.n > 9", 7, 0.25, True, False, "90%",
    "report", "think", "user_requested", "nothing", "by_reason", "error", "fail", "retry", "running", ["core_memory_read"], "CL317", "spare", "improvement", "float", "str", "list[any]", "core_memory_replace",
    'vars.word if vars.n > 2 else "calm"',
)  # fmt: skip


def sound(a: MachineSpec, b: MachineSpec) -> None:
    """What holds for any two machines."""
    there, back = compare(a, b).changes, compare(b, a).changes
    assert {c.mirror() for c in back} == set(there)
    assert sorted(str(c.mirror()) for c in back) == sorted(str(c) for c in there)
    for change in there:
        assert change.mirror().mirror() == change
        assert str(change)
        assert change.group in GROUPS
        json.dumps(change.to_dict())
        for side, spec in ((change.before, a), (change.after, b)):
            if side is not None and spec.document is not None:
                assert 0 <= side.place.line <= len(spec.document.text.splitlines())
    assert (there == ()) == (meaning_of(a) == meaning_of(b)), [str(c) for c in there]


def test_the_machine_that_says_everything_loads() -> None:
    assert spec_of(EVERYTHING) is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_differs_in_nothing_from_itself(name: str) -> None:
    one = spec_of(shipped(name))
    other = spec_of(dict(reversed(shipped(name).items())) | {"chartloop": 1})
    assert one is not None
    assert compare(one, one).changes == ()
    if other is not None:
        assert compare(one, other).changes == ()


PARTS = 8
NEEDED = {("chartloop",), ("tools", 0)}  # there is one version; two keys need the tool


@pytest.mark.slow("loads thousands of machines")
@pytest.mark.parametrize("part", range(PARTS))
def test_no_key_is_passed_over(part: int) -> None:
    """Every value of the machine that says everything, in every other way that still loads."""
    before = spec_of(EVERYTHING)
    assert before is not None
    here = [*nodes(EVERYTHING)][part::PARTS]
    seen: set[Place] = set()
    for at in here:
        for value in (..., *OTHERS):
            after = spec_of(changed(EVERYTHING, at, value))
            if after is None or meaning_of(after) == meaning_of(before):
                continue
            assert compare(before, after).changes, (at, value)
            seen.add(at)
            if value is not ...:
                break
    assert {at for at in leaves(EVERYTHING) if at in here and at not in seen} == NEEDED & {*here}


@pytest.mark.slow("tries hundreds of examples for seconds")
@settings(max_examples=40)
@given(st.data())
def test_a_changed_machine_differs_both_ways(data: st.DataObject) -> None:
    before = after = shipped(data.draw(st.sampled_from(NAMES)))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.sampled_from([*nodes(after)]))
        tried = changed(after, at, data.draw(st.sampled_from([*OTHERS, ...])))
        after = tried if spec_of(tried) is not None else after
    a, b = spec_of(before), spec_of(after)
    assert a is not None
    assert b is not None
    sound(a, b)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), machines())
def test_any_two_machines_can_be_compared(one: Data, other: Data) -> None:
    a, b = spec_of(one), spec_of(other)
    assume(a is not None and b is not None)
    assert a is not None
    assert b is not None
    sound(a, b)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), st.data())
def test_a_renamed_state_is_renamed_and_nothing_else(machine: Data, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*machine["states"]]))
    text = json.dumps(machine)
    renamed = text.replace(f'"{name}"', '"quite_new"').replace(
        f"run.visits.{name}", "run.visits.quite_new"
    )
    after = json.loads(renamed) | {"renamed": {name: "quite_new"}}
    a, b = spec_of(machine), spec_of(after)
    assume(a is not None and b is not None)
    assert a is not None
    assert b is not None
    changes = [c for c in compare(a, b).changes if c.what != "note"]
    assert [(c.kind, c.what) for c in changes] == [("renamed", "state")]
