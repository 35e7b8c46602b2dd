"""Runs of other rules of deciding: opened by them, or refused with what is decided differently."""

from __future__ import annotations

from typing import Any

import pytest

from chartloop import __version__, load
from chartloop.core.errors import JournalCorrupt, RulesChangedError
from chartloop.machine.evolve import RULES
from chartloop.run.journal import MemoryJournal
from chartloop.run.recorded import Unread, read_run
from chartloop.run.sync import by_hand


class Altered(MemoryJournal):
    """A journal in which a run stands as another version, or another hand, has left it."""

    def alter(self, start: dict[str, Any], *, otherwise: bool) -> None:
        log = self._log("r")
        given = log.events[0].record
        assert given is not None
        data = {n: v for n, v in {**given.input.data, **start}.items() if v is not None}
        made = given.replace(input=given.input.replace(data=data))
        log.events[0] = log.events[0].replace(record=made)
        second = log.events[1].record
        if otherwise and second is not None:
            log.events[1] = log.events[1].replace(record=second.replace(next="done"))


def ended() -> Altered:
    journal = Altered()
    load("agent").run("Hi.", script=["Hello."], journal=journal, run_id="r")
    return journal


def test_a_start_records_the_version_and_the_rules() -> None:
    (event, *_) = by_hand(ended().events("r"))
    assert event.record is not None
    data = event.record.input.data
    assert (data["engine"], data["rules"]) == (__version__, RULES)


NONE = {"rules": None, "engine": None}


@pytest.mark.parametrize("start", [{}, NONE], ids=["of-these", "without-a-number"])
def test_what_is_decided_as_it_was_recorded_is_opened(start: dict[str, Any]) -> None:
    journal = ended()
    journal.alter(start, otherwise=False)
    assert load("agent").open("r", journal=journal).state == "done"


@pytest.mark.parametrize("rules", [0, RULES + 1, "one"])
@pytest.mark.parametrize("otherwise", [True, False])
def test_a_run_of_rules_that_are_not_known_is_refused(rules: Any, otherwise: bool) -> None:
    journal = ended()
    journal.alter({"rules": rules, "engine": "9.9"}, otherwise=otherwise)
    with pytest.raises(RulesChangedError) as refused:
        load("agent").open("r", journal=journal)
    error = refused.value
    assert error.engine == "9.9"
    assert "chartloop 9.9" in error.hint
    assert error.replay.same is not otherwise
    said = "decided otherwise, record 1 at user_message: next was done, now it is llm_inference"
    assert (said in error.message) is otherwise
    assert "damaged" not in str(error)
    row = by_hand(journal.row("r"))
    assert row is not None
    assert isinstance(by_hand(read_run(journal, row)), Unread)


def test_without_a_number_the_refusal_names_what_is_decided_otherwise() -> None:
    journal = ended()
    journal.alter(NONE, otherwise=True)
    with pytest.raises(RulesChangedError, match="record 1 at user_message: next was done") as no:
        load("agent").open("r", journal=journal)
    assert (no.value.rules, no.value.engine) == (None, "")


def test_a_record_that_was_changed_by_hand_is_still_damage() -> None:
    journal = ended()
    journal.alter({}, otherwise=True)
    with pytest.raises(JournalCorrupt, match="is damaged: record 1 went to `done`"):
        load("agent").open("r", journal=journal)
