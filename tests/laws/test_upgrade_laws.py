"""Laws of changed files: what is safe goes on as it would have, what is unsafe has a reason."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chartloop.analysis.versions.migration.judge import Upgrade
from chartloop.analysis.versions.migration.verdict import Verdict
from chartloop.api import Machine, Run
from chartloop.core.reasons import StopSignals
from chartloop.core.records import Record
from chartloop.machine.build import Chart
from chartloop.run.journal import MemoryJournal
from chartloop.run.recorded import RecordedRun, read_run
from chartloop.run.renaming import as_now
from chartloop.run.replay import replay
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock
from tests.driving import Made, begin, help_on, machine_of, made
from tests.strategies import machines

LONGEST = 200
"""Steps after which a run is taken to have no end."""


Data = dict[str, Any]

moments = st.integers(0, 6)
"""After how many records a run stands still, and the file is changed."""


def begun(machine: Machine, steps: int) -> tuple[MemoryJournal, ManualClock]:
    """A journal with the run `r`, driven so far."""
    journal = MemoryJournal()
    run, clock = begin(machine, journal)
    run.advance()
    for _ in range(steps):
        if run.advance() is None:
            if run.ended:
                break
            help_on(run, clock)
    return journal, clock


def recorded(journal: MemoryJournal) -> RecordedRun:
    row = by_hand(journal.row("r"))
    assert row is not None
    found = by_hand(read_run(journal, row))
    assert isinstance(found, RecordedRun)
    return found


def to_the_end(run: Run, clock: ManualClock) -> list[Record]:
    """To its end, or as far as one goes that has none: an edit may take away what stops it."""
    for _ in range(LONGEST):
        if run.advance() is None:
            if run.ended:
                break
            help_on(run, clock)
    return list(run.records)


def said(record: Record) -> str:
    """A record without where it came from, and without the texts in which states are named."""
    aside = ("upgraded", "certificate")
    data = {name: value for name, value in record.input.data.items() if name not in aside}
    signals = StopSignals(replace(s, message="", context={}) for s in record.signals)
    given = record.input.replace(data=data)
    return record.replace(input=given, signals=signals, warnings=()).to_json()


def renamed(data: Data, names: dict[str, str]) -> Data:
    """The machine with other names for its states."""
    either = "|".join(names)
    text = re.sub(rf'"({either})"', lambda m: f'"{names[m[1]]}"', json.dumps(data))
    text = re.sub(rf"run\.visits\.({either})\b", lambda m: f"run.visits.{names[m[1]]}", text)
    return json.loads(text)


@st.composite
def renamings(draw: st.DrawFn, data: Data) -> dict[str, str]:
    """New names for some states, or all."""
    some = draw(st.lists(st.sampled_from([*data["states"]]), min_size=1, unique=True))
    new = draw(st.permutations([f"quite_new_{n}" for n in range(len(some))]))
    return dict(zip(some, new, strict=True))


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), made, moments, st.data())
def test_a_renamed_machine_goes_on_as_the_old_one(
    data: Data, what: list[Made], steps: int, more: st.DataObject
) -> None:
    names = more.draw(renamings(data))
    old = machine_of(data, what)
    new = machine_of(renamed(data, names) | {"renamed": names}, what)
    journal, clock = begun(old, steps)
    verdict = Upgrade(old.chart, new.chart).judge(recorded(journal))
    assert (verdict.kind, verdict.ahead, verdict.stops) == ("safe", (), ""), str(verdict)

    its_clock = ManualClock(clock.now())
    there = new.open("r", journal=journal, clock=its_clock)
    here = old.open("r", journal=journal, clock=clock)
    assert there.state == names.get(here.state, here.state)
    assert {names.get(n, n): c for n, c in here.facts.run.visits.items()} == there.facts.run.visits
    assert {names.get(n, n) for n in here.session.tally.profile} == {*there.session.tally.profile}
    theirs = to_the_end(there, its_clock)
    unmoved, clock = begun(old, steps)  # a run that was moved goes on as its successor only
    ours = to_the_end(old.open("r", journal=unmoved, clock=clock), clock)
    assert [said(as_now(record, names)) for record in ours] == [said(record) for record in theirs]
    assert there.replay().same
    if there.id != "r":  # and without a word about the old names
        plain = machine_of(renamed(data, names), what)
        row = by_hand(journal.row(there.id))
        assert row is not None
        found = by_hand(read_run(journal, row))
        assert isinstance(found, RecordedRun)
        assert replay(plain.chart, found.records, there.id).same


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), made, moments, st.data())
def test_the_lines_that_are_missing_make_it_safe(
    data: Data, what: list[Made], steps: int, more: st.DataObject
) -> None:
    names = more.draw(renamings(data))
    old, after = machine_of(data, what), renamed(data, names)
    journal, _ = begun(old, steps)
    run = recorded(journal)
    verdict = Upgrade(old.chart, machine_of(after, what).chart).judge(run)
    if verdict.kind == "map":
        told = machine_of(after | {"renamed": dict(verdict.renamed)}, what)
        assert Upgrade(old.chart, told.chart).judge(run).kind == "safe"
        assert replay(told.chart, run.records, "r").same


# other edits ----------------------------------------------------------------------------------


@st.composite
def edits(draw: st.DrawFn, data: Data) -> Data:
    """The machine after a change of some of its parts."""
    made: Data = json.loads(json.dumps(data))
    kind = draw(
        st.sampled_from(["guard", "guard", "state", "rule", "less", "limit", "edge", "retry"])
    )
    name = draw(st.sampled_from([*made["states"]]))
    state = made["states"][name]
    match kind:
        case "guard":
            text = json.dumps(made)
            old, new = (str(draw(st.integers(0, 4))) for _ in "ab")
            return json.loads(re.sub(rf">= {old}\b", f">= {new}", text))
        case "state":
            other = draw(machines())["states"].get(name)
            made["states"][name] = other or state
        case "rule":
            rules = draw(machines())["rules"]
            made["rules"][:0] = [r for r in rules if r.get("to") in (None, *made["states"])][:1]
        case "less":
            made["rules"] = made["rules"][1:]
        case "limit":
            made["limits"]["tokens"] = draw(st.sampled_from([10, 50, 1000]))
        case "edge" if "next" in state and "do" in state:
            first = {"when": "run.steps >= 3", "to": "done"}
            tail = state["next"] if isinstance(state["next"], list) else [state["next"]]
            state["next"] = [first, *tail]
        case "retry" if "do" in state:
            state["retry"] = {"times": draw(st.integers(1, 3)), "base": "0s"}
        case _:
            made["vars"]["n"] = 2
    return made


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), made, moments, st.data())
@settings(max_examples=150)
def test_after_any_edit_a_safe_run_goes_on_and_an_unsafe_one_has_its_record(
    data: Data, what: list[Made], steps: int, more: st.DataObject
) -> None:
    after = more.draw(edits(data))
    old = machine_of(data, what)
    try:
        new = machine_of(after, what)
    except AssertionError:  # no machine: a part names what is not there
        assume(False)
        return
    journal, clock = begun(old, steps)
    run = recorded(journal)
    verdict = Upgrade(old.chart, new.chart).judge(run)
    if verdict.goes_on:
        its_clock = ManualClock(clock.now())
        there = new.open("r", journal=journal, changed=True, clock=its_clock)
        to_the_end(there, its_clock)
        assert there.replay().same
    elif verdict.kind == "unsafe":
        assert differs(old.chart, new.chart, run, verdict)


def differs(old: Chart, new: Chart, run: RecordedRun, verdict: Verdict) -> bool:
    """Whether the record that is named differs, and none before it does."""
    cause = verdict.cause
    assert cause is not None
    assert cause.record is not None, str(verdict)
    below = run._replace(records=run.records[: cause.record])
    if below.records:
        assert Upgrade(old, new).judge(below).kind != "unsafe"
    record = run.records[cause.record]
    found = replay(new, run.records, "r")
    if not found.same:
        return True
    return any(meaning(old, id) != meaning(new, id) for id in record.taken)


def meaning(chart: Chart, id: str) -> str:
    """What an edge or rule of that id says."""
    edge = chart.by_origin.get(id)
    return "" if edge is None else f"{edge.source} {edge.dest} {[g.__name__ for g in edge.guards]}"
