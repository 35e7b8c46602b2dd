"""What a journal says of a run without opening it, and why without folding all: as if it had."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.machine.explain import explain
from chartloop.run.journal import MemoryJournal
from chartloop.run.question import question_of
from chartloop.run.refold import refold
from chartloop.run.sync import by_hand
from tests.driving import ROUNDS, Made, begin, help_on, machine_of, made
from tests.strategies import machines


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(data=machines(), what=made)
def test_a_row_says_what_the_run_says(data: dict[str, Any], what: list[Made]) -> None:
    """At every record: what it asks, what it used, how it stands."""
    machine, journal = machine_of(data, what), MemoryJournal()
    run, clock = begin(machine, journal)
    for _ in range(ROUNDS):
        if (record := run.advance()) is None:
            if run.ended:
                break
            help_on(run, clock)
            continue
        row = by_hand(journal.row(run.id))
        assert row is not None
        asked, facts = question_of(run.session), run.facts
        assert row.question == (None if asked is None else asked.to_row())
        assert (row.status, row.state, row.steps) == (run.status, run.state, facts.run.steps)
        assert row.tokens == facts.usage.total_tokens
        assert row.cost == (facts.usage.cost if facts.usage.llm_calls else 0.0)
        assert record.seq == run.records[-1].seq
        again = machine.open(run.id, journal=journal)
        assert again.question == run.question


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(
    data=machines(),
    what=made,
    saves=st.sets(st.integers(0, 20)),
    asks=st.randoms(use_true_random=False),
)
def test_why_is_the_same_from_a_snapshot_and_from_the_beginning(
    data: dict[str, Any], what: list[Made], saves: set[int], asks: Any
) -> None:
    """Asked while the run goes on and at its end, in any order, kept or not."""
    machine, journal = machine_of(data, what), MemoryJournal()
    run, clock = begin(machine, journal)
    for number in range(ROUNDS):
        if number in saves:
            run.session.ask_to_save()
        if run.advance() is None:
            if run.ended:
                break
            help_on(run, clock)
        elif asks.random() < 0.3:
            run.why(asks.randrange(len(run.records)))
    records = list(run.records)
    numbers = [r.seq for r in records]
    asks.shuffle(numbers)
    opened = machine.open(run.id, journal=journal)
    steps = [*refold(machine.chart, records, machine.chart.position(run.id), trace_from=0)]
    for seq in numbers:
        whole = explain(machine.chart, steps[seq].decision).to_dict()
        assert opened.why(seq).to_dict() == whole
        assert run.why(seq).to_dict() == whole
    assert str(run.why()) == str(opened.why(records[-1].seq))
