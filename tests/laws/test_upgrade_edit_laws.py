"""Laws of upgrade verdicts, held against brute force: both files decide every record, both go on.

A machine is drawn, a run of it stopped anywhere, and an edit of the file. What the verdict says is
then compared with what the two machines really do:

    it goes on        both decide every record alike, and stand in the same place; it can go on;
                      where nothing is said to differ, both go on alike to the end
    unsafe            the record that is named is the first that is decided differently
    needs a state map with its lines in the file it is safe
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, event, given, reject, settings
from hypothesis import strategies as st

from chartloop.analysis.versions.migration.judge import Upgrade
from chartloop.analysis.versions.migration.verdict import Verdict
from chartloop.api import Machine
from chartloop.core.errors import StatusError
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision
from chartloop.machine.evolve import evolve
from chartloop.run.recorded import RecordedRun
from chartloop.run.renaming import Names, as_now
from chartloop.testing.clock import ManualClock
from tests.driving import Made, machine_of, made
from tests.laws.test_upgrade_laws import begun, moments, recorded, said, to_the_end
from tests.strategies import guards, machines

Data = dict[str, Any]


# edits ----------------------------------------------------------------------------------------


class Edit(NamedTuple):
    """A changed file."""

    what: str
    data: Data
    names: Mapping[str, str] = {}
    """What states were really renamed to."""


def _listed(edges: Any) -> list[Any]:
    return [*edges] if isinstance(edges, list) else [edges]


def _retarget(data: Data, old: str, new: str) -> Data:
    """Every mention of a state as another one."""
    text = json.dumps(data)
    text = re.sub(rf'"{old}"(?!:)', f'"{new}"', text)
    return json.loads(re.sub(rf"run\.visits\.{old}\b", f"run.visits.{new}", text))


def _renamed(draw: st.DrawFn, data: Data) -> Edit:
    some = draw(st.lists(st.sampled_from([*data["states"]]), min_size=1, max_size=2, unique=True))
    names = {old: f"quite_new_{n}" for n, old in enumerate(some)}
    for old, new in names.items():
        data = _retarget(data, old, new)
        data["states"] = {(new if n == old else n): s for n, s in data["states"].items()}
    if draw(st.booleans()):
        data["renamed"] = names
    return Edit("rename-state", data, names)


def _removed(draw: st.DrawFn, data: Data) -> Edit:
    names = [*data["states"]]
    gone, instead = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    assume(gone != instead)
    del data["states"][gone]
    return Edit("remove-state", _retarget(data, gone, instead))


def _acting(draw: st.DrawFn, data: Data) -> Data:
    found = [s for s in data["states"].values() if "do" in s and s["next"] != "return"]
    assume(found)
    return draw(st.sampled_from(found))


def _edge(draw: st.DrawFn, data: Data) -> Edit:
    state, names = _acting(draw, data), [*data["states"]]
    more = {"when": draw(guards(names)), "to": draw(st.sampled_from(names))}
    edges = _listed(state["next"])
    edges.insert(draw(st.integers(0, len(edges) - 1)), more)
    state["next"] = edges
    return Edit("add-edge", data)


def _reordered(draw: st.DrawFn, data: Data) -> Edit:
    found = [s for s in data["states"].values() if isinstance(s.get("next"), list)]
    found = [s for s in found if len(s["next"]) > 2]
    if not found or (draw(st.booleans()) and len(data["rules"]) > 1):
        data["rules"] = draw(st.permutations(data["rules"]))
        return Edit("reorder-rules", data)
    state = draw(st.sampled_from(found))
    *guarded, last = state["next"]
    state["next"] = [*draw(st.permutations(guarded)), last]
    return Edit("reorder-edges", data)


def _guard(draw: st.DrawFn, data: Data) -> Edit:
    places = list(data["rules"])
    places += [s for s in data["states"].values() if "when" in s]
    places += [
        e for s in data["states"].values() for e in _listed(s.get("next", [])) if "when" in e
    ]
    assume(places)
    draw(st.sampled_from(places))["when"] = draw(guards([*data["states"]]))
    return Edit("change-guard", data)


def _limit(draw: st.DrawFn, data: Data) -> Edit:
    name, value = draw(
        st.sampled_from(
            [("tokens", 0), ("tokens", 40), ("tokens", 900), ("tokens", None), ("time", "5s"),
             ("time", "10m"), ("cost", 0.1), ("cost", 9), ("off", 2),
             ("off", {"type": "float", "value": 0.5}), ("tokens", 70.5)]
        )
    )  # fmt: skip
    data["limits"][name] = value
    return Edit("change-limit", data)


_VARIABLES: tuple[tuple[str, Any], ...] = (
    ("n", 2), ("n", 0), ("n", 1.5), ("flag", True), ("word", "b"), ("word", 3), ("flag", 1),
    ("n", {"type": "duration", "value": "2s"}), ("list", ["x"]), ("new", "x"),
    ("list", {"type": "list[int]", "value": []}),
)  # fmt: skip


def _variable(draw: st.DrawFn, data: Data) -> Edit:
    name, value = draw(st.sampled_from(_VARIABLES))
    data["vars"][name] = value
    return Edit("change-variable", data)


def _put(part: Data, key: str, value: Any) -> None:
    """Give a part of a file a value; None takes it away."""
    if value is None:
        part.pop(key, None)
    else:
        part[key] = value


def _job(draw: st.DrawFn, data: Data) -> Edit:
    """A part of a state that acts, waits or passes."""
    names = [*data["states"]]
    state = data["states"][draw(st.sampled_from(names))]
    key, value = draw(
        st.sampled_from(
            [("retry", {"times": 2, "base": "0s"}), ("retry", {"times": 1, "base": "9s"}),
             ("retry", None), ("failed", "next"), ("failed", draw(st.sampled_from(names))),
             ("failed", None), ("do", "act"), ("do", "keep"), ("within", "5s"), ("within", "10m"),
             ("expired", draw(st.sampled_from(names))), ("set", {"vars.n": "vars.n + 2"}),
             ("set", None), ("status", "debugging"), ("status", None), ("stop", "custom"),
             ("next", draw(st.sampled_from(names))), ("label", "Said otherwise")]
        )
    )  # fmt: skip
    _put(state, key, value)
    return Edit(f"state-{key}", data)


def _head(draw: st.DrawFn, data: Data) -> Edit:
    names = [*data["states"]]
    key, value = draw(
        st.sampled_from(
            [("instructions", "Be brief."), ("title", "Other"), ("tools", ["poke"]),
             ("on_stop", draw(st.sampled_from(names))), ("on_error", draw(st.sampled_from(names))),
             ("start", draw(st.sampled_from(names))), ("on_error", None), ("on_stop", None),
             ("memory", {"human": "Ann"}),
             ("reasons", {"custom": {"priority": 0, "forced": True, "status": "error"}})]
        )
    )  # fmt: skip
    _put(data, key, value)
    return Edit(f"head-{key}", data)


def _rule(draw: st.DrawFn, data: Data) -> Edit:
    if data["rules"] and draw(st.booleans()):
        data["rules"].pop(draw(st.integers(0, len(data["rules"]) - 1)))
        return Edit("remove-rule", data)
    kind = draw(st.sampled_from(["stop", "signal"]))
    rule = {
        "when": draw(guards([*data["states"]])),
        kind: draw(st.sampled_from(["custom", "error"])),
    }
    data["rules"].insert(draw(st.integers(0, len(data["rules"]))), rule)
    return Edit("add-rule", data)


EDITS: Sequence[Callable[[st.DrawFn, Data], Edit]] = (
    _renamed, _removed, _edge, _reordered, _guard, _limit, _variable, _job, _head, _rule,
)  # fmt: skip


@st.composite
def edited(draw: st.DrawFn, data: Data) -> Edit:
    """The machine after an edit, or two."""
    found = Edit("", json.loads(json.dumps(data)))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        one = draw(st.sampled_from(EDITS))(draw, found.data)
        found = Edit(f"{found.what} {one.what}".strip(), one.data, {**found.names, **one.names})
    return found


# brute force ----------------------------------------------------------------------------------


class Fold(NamedTuple):
    """All records decided by one machine, as far as it can."""

    positions: list[Position]
    """Before the first record, and after each."""
    decisions: list[Decision]


def folded(chart: Chart, records: Sequence[Record], names: Names) -> Fold:
    found = Fold([chart.position("r")], [])
    for record in records:
        try:
            position, decision = evolve(chart, found.positions[-1], as_now(record, *names).input)
        except (StatusError, KeyError):
            break
        found.positions.append(position)
        found.decisions.append(decision)
    return found


def first_otherwise(old: Fold, new: Fold, names: Names) -> int | None:
    """The first record that the two do not decide alike, by what comes of it."""
    for number, (was, now) in enumerate(zip(old.decisions, new.decisions, strict=False)):
        before, after = old.positions[number + 1], new.positions[number + 1]
        ours = (names.state(before.state), before.status, [names.state(n) for n in was.path])
        theirs = (after.state, after.status, [*now.path])
        if ours != theirs or was.signals.reasons != now.signals.reasons:
            return number
    return None if len(new.decisions) == len(old.decisions) else len(new.decisions)


SAME = (
    "status", "paused_from", "stopping", "attempt", "entered_at", "blocked_on", "waited",
    "pause_asked", "soft",
)  # fmt: skip
"""What is the same of two positions, whatever they have noted in variables."""


def stands_alike(old: Position, new: Position, names: Names) -> bool:
    ours = {n: getattr(old, n) for n in SAME}
    visits = {names.state(n): count for n, count in old.facts.run.visits.items() if count}
    return (
        names.state(old.state) == new.state
        and ours == {n: getattr(new, n) for n in SAME}
        and visits == {n: count for n, count in new.facts.run.visits.items() if count}
        and old.facts.run.replace(visits={}) == new.facts.run.replace(visits={})
        and old.facts.usage == new.facts.usage
        and old.signals.reasons == new.signals.reasons
    )


# the law --------------------------------------------------------------------------------------


def machine_after(edit: Edit, what: list[Made]) -> Machine:
    """The machine of an edited file."""
    try:
        return machine_of(edit.data, what)
    except (AssertionError, KeyError):  # no machine: a part does not fit the others
        reject()


def judge(old: Machine, new: Machine, run: RecordedRun, now: float) -> Verdict:
    return Upgrade(old.chart, new.chart).judge(run, now=now)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), made, moments, st.data())
@settings(max_examples=200)
def test_a_verdict_is_what_both_machines_do(
    data: Data, what: list[Made], steps: int, more: st.DataObject
) -> None:
    edit = more.draw(edited(data))
    old = machine_of(data, what)
    new = machine_after(edit, what)
    journal, clock = begun(old, steps)
    run = recorded(journal)
    verdict = judge(old, new, run, clock.now())
    event(f"{verdict.kind}: {edit.what}")
    if verdict.kind == "map":
        told = machine_of(edit.data | {"renamed": dict(verdict.renamed)}, what)
        assert judge(old, told, run, clock.now()).kind == "safe"
        new, verdict = told, replace(verdict, kind="safe")
    names = verdict.names
    ours, theirs = folded(old.chart, run.records, Names()), folded(new.chart, run.records, names)
    called = Names({**edit.names, **names.states}, names.edges)  # those not yet met, too
    at = first_otherwise(ours, theirs, called)
    if not verdict.goes_on:
        refused_for_a_reason(verdict, at, new.chart)
        return
    assert at is None, verdict.text()
    before, after = ours.positions[-1], theirs.positions[-1]
    assert stands_alike(before, after, called), verdict.text()

    its_clock = ManualClock(clock.now())
    there = new.open("r", journal=journal, changed=True, clock=its_clock)
    goes_on = to_the_end(there, its_clock)
    assert there.replay().same
    if verdict.stops:
        assert verdict.stops in there.result.signals.reasons, verdict.text()
    if there.id != "r" and not (verdict.ahead or verdict.stops or verdict.notes):
        unmoved, clock = begun(old, steps)  # a run that was moved goes on as its successor only
        would = to_the_end(old.open("r", journal=unmoved, clock=clock), clock)
        # Of an ended run nothing lies ahead; which of two rules raised its reason is not said.
        since = len(run.records) if before.ended else 0
        told_of = [said(as_now(record, *called)) for record in would[since:]]
        assert told_of == [said(record) for record in goes_on[since:]], verdict.text()


def refused_for_a_reason(verdict: Verdict, at: int | None, new: Chart) -> None:
    cause = verdict.cause
    assert cause is not None
    assert cause.what
    assert cause.cure
    if cause.record is None:
        assert at is None, "a record is decided differently, and the verdict does not say which"
        assert cause.place.line, verdict.text()
        return
    # a way that is not there any more may lead where it led: no record before it may differ
    assert at is None or at >= cause.record, f"record {at} differs: {verdict.text()}"
    gone = re.search(r"`\w+` is gone|which is gone", cause.what)
    assert cause.place.line or gone or verdict.status in ("completed", "error"), verdict.text()
