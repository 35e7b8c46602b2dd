"""Laws of telemetry: whatever a machine does, its spans say what its records say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop.api import Machine, Run
from chartloop.core.records import Record
from chartloop.run.journal import MemoryJournal
from chartloop.run.sync import by_hand
from tests.collector import Spans, roots
from tests.driving import ROUNDS, Made, begin, help_on, machine_of, made
from tests.laws.test_children_laws import SmallSteps, shapes
from tests.strategies import machines

pytestmark = pytest.mark.extra("opentelemetry.sdk", install='pip install -e ".[test-all]"')  # noqa: S610 - no Django


def as_it_was(record: Record) -> str:
    """A record without what only a traced run has."""
    data = {name: value for name, value in record.input.data.items() if name != "trace"}
    return record.replace(input=record.input.replace(data=data)).to_json()


def to_the_end(run: Run, clock: Any, *, by_steps: bool) -> None:
    for _ in range(ROUNDS):
        if by_steps:
            while run.advance() is not None:
                pass
        else:
            run.run()
        if run.ended:
            return
        help_on(run, clock)


@given(machines(), made, st.booleans())
@settings(max_examples=40)
def test_the_spans_of_a_run_are_its_records(data: Any, what: list[Made], by_steps: bool) -> None:
    machine = machine_of(data, what)
    plain, clock = begin(machine)
    to_the_end(plain, clock, by_steps=by_steps)
    spans = Spans()
    run, clock = begin(machine)
    run.session.ports.tracer = spans.telemetry
    to_the_end(run, clock, by_steps=by_steps)
    assert [as_it_was(r) for r in run.records] == [as_it_was(r) for r in plain.records]

    found = spans.all()
    stretches = roots(found)
    actions = {span.id: span for span in found if span.parent}
    assert {span.parent for span in actions.values()} <= {span.id for span in stretches}
    events = {
        event["chartloop.record.seq"]: (span, event) for span in found for _, event in span.events
    }
    assert sum(len(span.events) for span in found) == len(events) == len(run.records)
    for record in run.records:
        span, event = events[record.seq]
        assert (span.id in actions) == (record.kind in ("step", "blocked"))
        assert event["chartloop.record.kind"] == record.kind
        assert event["chartloop.transition.from"] == record.state
        assert event["chartloop.transition.to"] == record.next
        assert (*event.get("chartloop.transition.taken", ()),) == record.taken
        assert event["chartloop.run.status"] == record.status
        if span.id in actions:
            failed = record.outcome is not None and not record.outcome.ok
            assert (span.status == 2) == failed
    assert len(actions) == sum(r.kind in ("step", "blocked") for r in run.records)
    first, *later = stretches
    assert all(span.links == [(first.trace, first.id)] for span in later)
    ended = [span for span in stretches if "chartloop.stop.reason" in span.attributes]
    assert len(ended) == run.ended
    if run.ended:
        reason, kind = run.result.reason, run.result.kind
        assert ended[0].attributes["chartloop.stop.reason"] == reason
        assert (ended[0].status == 2) == (kind == "error")


@given(shapes, st.lists(st.sampled_from(["yes", "no"]), max_size=6))
@settings(max_examples=25)
def test_a_child_is_below_the_action_that_drives_it(machine: Machine, answers: list[str]) -> None:
    spans, journal, clock = Spans(), MemoryJournal(), SmallSteps()
    run = machine.start(journal=journal, clock=clock, tracer=spans.telemetry)
    run.run()
    for answer in answers:
        if run.ended or answer not in run.answers:
            break
        run.send(answer)
        run.run()
    found = spans.all()
    known = {span.id: span for span in found}
    for row in by_hand(journal.rows()):
        own = [span for span in found if span.attributes["chartloop.run.id"] == row.run_id]
        stretches = [span for span in own if span.name.startswith("invoke_")]
        assert len(stretches) >= 1
        for span in stretches:
            if row.run_id == run.id:
                assert not span.parent
            else:
                above = known[span.parent]
                assert above.attributes["chartloop.run.id"] == row.parent
                assert above.attributes["chartloop.action"] in (
                    "run_machine",
                    "run_machines",
                    "work",
                )
        records = [event.record for event in by_hand(journal.events(row.run_id)) if event.record]
        seen = [event["chartloop.record.seq"] for span in own for _, event in span.events]
        assert sorted(seen) == [record.seq for record in records]
