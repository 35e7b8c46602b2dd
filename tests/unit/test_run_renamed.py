"""Runs that were recorded before their file changed: renamed states, and other changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chartloop.actions import builtin
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine, Run
from chartloop.core.errors import MachineChangedError
from chartloop.core.outcome import Outcome
from chartloop.language.load import load
from chartloop.run.journal import InboxMessage, MemoryJournal
from chartloop.run.log import SNAPSHOT_AFTER
from chartloop.run.replay import replay
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock
from tests.support import machine, path

END = "  z: {stop: completed}\n"
OLD = (
    "vars: {n: 0}\nstates:\n  a: {do: act, next: fork}\n"
    '  fork: {ask: "More?", when: vars.n < 1, then: work, else: person}\n'
    "  work: {do: act, set: {vars.n: vars.n + 1}, next: fork}\n"
    "  person: {ask: Well?, on: {yes: late, no: z}}\n  late: {do: act, next: z}\n" + END
)
NEW = (
    OLD.replace("fork", "choice").replace("work", "labour").replace("person", "human")
    + "renamed: {fork: choice, work: labour, person: human}\n"
)
CHANGED = OLD.replace("next: fork}", "next: person}")


def recorded(journal: Any = None, body: str = OLD, **said: list[Outcome]) -> tuple[Machine, Any]:
    """A run of the old machine that waits at `person`."""
    made, journal = machine(body, said), journal or MemoryJournal()
    run = made.start("t", clock=ManualClock(), journal=journal, run_id="r")
    run.run()
    assert run.state == "person"
    return made, journal


def opened(journal: Any, body: str = NEW, **options: Any) -> Run:
    return machine(body).open("r", journal=journal, clock=ManualClock(), **options)


class TestRenamed:
    def test_the_run_stands_at_the_new_name(self) -> None:
        run = opened(recorded()[1])
        assert (run.id, run.state, run.status) == ("r", "human", "paused")
        assert run.result.events == ("yes", "no")
        assert path(run) == "a choice labour choice human"
        visits = {n: count for n, count in run.facts.run.visits.items() if count}
        assert visits == {"a": 1, "choice": 2, "labour": 1, "human": 1}

    def test_records_replay_and_why_speak_of_it(self) -> None:
        run = opened(recorded()[1])
        assert [(r.state, r.next) for r in run.records] == [
            ("a", "a"), ("a", "labour"), ("labour", "human"),
        ]  # fmt: skip
        assert run.records[1].taken == ("a.next.0", "choice.then")
        assert run.replay().same
        assert run.why(1).decision.path == ("choice", "labour")

    def test_the_replay_of_raw_records_does_too(self) -> None:
        made, journal = recorded()
        records = [e.record for e in by_hand(journal.events("r")) if e.record is not None]
        assert records[1].next == "work"
        assert replay(machine(NEW).chart, records, "r").same
        assert not replay(machine(NEW.partition("renamed")[0]).chart, records, "r").same
        assert replay(made.chart, records, "r").same

    def test_reading_it_writes_nothing(self) -> None:
        journal = recorded()[1]
        before = (by_hand(journal.row("r")), by_hand(journal.rows()))
        run = opened(journal)
        assert run.result.status == "paused"
        assert run.records
        run.why()
        assert (by_hand(journal.row("r")), by_hand(journal.rows())) == before

    def test_it_goes_on_as_a_fork(self) -> None:
        """The records of a run belong to one machine."""
        made, journal = recorded()
        run = opened(journal)
        run.send("yes")
        assert run.run().reason == "completed"
        assert (run.id != "r", run.parent, path(run)) == (
            True, "r", "a choice labour choice human late z",
        )  # fmt: skip
        assert run.replay().same
        row = by_hand(journal.row(run.id))
        assert row is not None
        assert row.machine_hash == run.machine.hash
        assert by_hand(journal.blob(row.machine_hash)) == run.machine.canonical()
        old = made.open("r", journal=journal, clock=ManualClock())  # and this stays as it was
        assert (old.state, old.ended) == ("person", False)

    def test_what_was_sent_comes_along(self) -> None:
        journal = recorded()[1]
        answer: dict[str, Any] = {"kind": "answer", "event": "no", "data": {}, "wait": "2"}
        by_hand(journal.send("r", InboxMessage("x", ManualClock().now(), answer)))
        run = opened(journal)
        assert path_after(run) == "a choice labour choice human z"

    def test_the_fork_is_opened_as_any_run(self) -> None:
        journal = recorded()[1]
        run = opened(journal)
        assert run.advance() is None  # it waits: and has moved
        again = machine(NEW).open(run.id, journal=journal, clock=ManualClock())
        assert (again.id, again.state) == (run.id, "human")
        assert [r.next for r in again.records] == ["a", "labour", "human"]
        again.send("yes")
        again.run()
        assert (again.id, again.ended) == (run.id, True)
        assert again.replay().same

    def test_the_way_out_that_the_engine_made_leads_to_the_new_name(self) -> None:
        body = "on_stop: bye\n" + OLD + "  bye: {do: act, next: over}\n  over: {end: by_reason}\n"
        journal = recorded(body=body)[1]
        run = machine(body).open("r", journal=journal, clock=ManualClock())
        run.cancel()
        run.run()
        after = opened(journal, body.replace("bye", "farewell") + "renamed: {bye: farewell}\n")
        assert after.records[-2].taken[0] == "raised.farewell"
        assert after.ended

    def test_a_snapshot_of_the_old_machine_is_left_alone(self) -> None:
        body = OLD.replace("vars.n < 1", f"vars.n < {SNAPSHOT_AFTER}")
        journal = recorded(body=body)[1]
        assert by_hand(journal.snapshot("r")) is not None
        run = opened(journal, NEW.replace("vars.n < 1", f"vars.n < {SNAPSHOT_AFTER}"))
        assert run.state == "human"
        assert run.facts.run.visits["labour"] == SNAPSHOT_AFTER

    def test_errors_of_the_result_name_the_new_state(self) -> None:
        body = OLD.replace("work: {do: act,", "work: {do: act, failed: next,")
        journal = recorded(body=body, work=[Outcome.failure("TRANSIENT", "boom")])[1]
        run = opened(journal, NEW.replace("labour: {do: act,", "labour: {do: act, failed: next,"))
        assert [e["state"] for e in run.result.errors] == ["labour"]

    def test_from_a_file(self, tmp_path: Path) -> None:
        journal = SqliteJournal(tmp_path / "journal.db")
        recorded(journal)
        run = opened(journal)
        run.send("yes")
        assert run.run().reason == "completed"
        assert run.replay().same
        by_hand(journal.close())

    def test_a_file_that_decides_otherwise_is_refused(self) -> None:
        changed = CHANGED.replace("work", "labour") + "renamed: {work: labour}\n"
        with pytest.raises(MachineChangedError, match="record 1 at a") as caught:
            opened(recorded()[1], changed)
        assert "fork" in caught.value.hint

    def test_a_call_in_doubt_is_not_lost_by_moving(self) -> None:
        made, journal = machine(OLD), MemoryJournal()
        run = made.start("t", clock=ManualClock(), journal=journal, run_id="r")
        run.advance()
        run.advance()
        by_hand(run.session.note("intent", "r/work/1", {"state": "work", "action": "act"}, 1.0))
        with pytest.raises(MachineChangedError, match="in doubt") as caught:
            opened(journal)
        assert "until that is settled" in caught.value.hint


def path_after(run: Run) -> str:
    run.run()
    return path(run)


class TestChanged:
    def test_another_machine_is_refused(self) -> None:
        made, journal = recorded()
        same = machine(OLD.replace("Well?", "Now?"))
        with pytest.raises(MachineChangedError, match="another machine") as caught:
            same.open("r", journal=journal)
        assert made.hash[:8] in caught.value.hint
        assert "changed=True" in caught.value.hint

    def test_unless_it_is_meant_and_decides_the_same(self) -> None:
        journal = recorded()[1]
        run = opened(journal, OLD.replace("Well?", "Now?"), changed=True)
        assert (run.state, run.result.question) == ("person", "Now?")
        run.send("no")
        run.run()
        assert (run.parent, path(run)) == ("r", "a fork work fork person z")

    def test_a_state_that_is_gone_is_a_difference(self) -> None:
        gone = OLD.replace("work", "labour")
        with pytest.raises(
            MachineChangedError, match="needs a state map: `work` is `labour` now"
        ) as caught:
            opened(recorded()[1], gone, changed=True)
        assert caught.value.hint == "put `renamed: {work: labour}` into the file"
        assert opened(recorded()[1], gone + "renamed: {work: labour}\n").state == "person"

    def test_attaching_says_the_same(self) -> None:
        made, _ = recorded()
        run = made.start("t", clock=ManualClock())
        kept = run.__reduce__()
        detached = kept[0](*kept[1])
        with pytest.raises(MachineChangedError, match="another machine"):
            machine(CHANGED).attach(detached)

    def test_a_canonical_text_that_is_only_written_otherwise_is_the_same_machine(self) -> None:
        """As one that an earlier version of chartloop has put into the journal."""
        body = "states:\n  a: {do: receive, next: w}\n  w: {ask: Well?, on: {yes: z}}\n" + END
        loaded = load(f"chartloop: 1\nmachine: m\n{body}", "m.yaml", builtin())
        assert loaded.ok
        made, journal = machine(body), MemoryJournal()
        run = made.start("t", clock=ManualClock(), journal=journal, run_id="r")
        other = json.dumps(json.loads(made.canonical()), indent=4)
        run.session.row = run.session.row.replace(machine_hash=by_hand(journal.put_blob(other)))
        run.run()
        again = made.open("r", journal=journal, clock=ManualClock())
        again.send("yes")
        again.run()
        assert (again.id, again.ended) == ("r", True)
