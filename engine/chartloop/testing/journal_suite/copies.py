"""Whole runs, as they are stored: what is given is what can be put, and all of it.

A journal that keeps no text gives None for each run, and passes.
"""

from __future__ import annotations

import pytest

from chartloop.core.errors import JournalError, RunError, UnknownRunError
from chartloop.run.copies import fault_of, lines_of, read_trees
from chartloop.run.journal import InboxMessage, RunRow, Snapshot
from chartloop.run.payload import LARGE
from chartloop.run.raw_run import RawRun
from chartloop.run.requests import StoredRequest
from chartloop.testing.journal_suite.desk import Desk, intent, step


def full_run(desk: Desk) -> RawRun | None:
    """A run that has something in every table, as it is stored; None if nothing is."""
    machine = desk(desk.journal.put_blob('{"machine": "desk"}'))
    desk.begin("r", machine="desk", machine_hash=machine)
    large = "\u2028\ud800" + "x" * LARGE
    desk.write("r", 0, [step(0), intent(1), step(2, 1, result={"text": large, "$blob": "no"})])
    for msg_id in ("used", "open"):
        desk(desk.journal.send("r", InboxMessage(msg_id, 1.5, {"kind": "answer", "text": "\x85"})))
    desk.write("r", 3, [intent(3)], consumed=["used"])
    desk(desk.journal.put_snapshot("r", Snapshot(4, 2, {"a": 1.0})))
    desk(desk.journal.place_request(StoredRequest("old", "r", "run", "d", 1.0, {}, {"ok": 1})))
    desk(desk.journal.place_request(StoredRequest("new", "r", "run", "d", 2.0, {"a": "b"})))
    return desk(desk.journal.raw("r"))


class CopyCases:
    """Cases that give the tests of a journal."""

    def test_a_whole_run_is_given_and_put_back_as_it_was(self, desk: Desk) -> None:
        raw = full_run(desk)
        if raw is None:
            return
        before, requests = desk.all(), desk(desk.journal.requests("r"))
        assert fault_of(raw) == ""
        assert (len(raw.texts), len(raw.messages), len(raw.requests)) == (2, 2, 2)
        assert raw.snapshot is not None
        ends = desk(desk.journal.chain_ends(["r", "nobody"]))
        assert ends == {"r": raw.chain.end}
        desk(desk.journal.remove(["r"]))
        desk(desk.journal.put_raw([raw]))
        assert desk(desk.journal.raw("r")) == raw
        assert desk.all() == before
        assert desk(desk.journal.requests("r")) == requests
        assert desk(desk.journal.message("r", "used"))
        assert desk(desk.journal.claim("w", 1, {})).runs[0].request.key == "new"
        desk(desk.journal.acquire("r"))
        desk.write("r", 4, [step(4, 2)])  # it goes on

    def test_the_lines_of_a_run_hold_all_of_it(self, desk: Desk) -> None:
        raw = full_run(desk)
        if raw is None:
            return
        lines = [line.encode() for line in lines_of(raw)]
        assert all(len(line.decode().splitlines()) == 1 for line in lines)
        assert list(read_trees(lines, "r.jsonl")) == [[raw]]

    def test_a_run_that_is_there_is_not_put_again(self, desk: Desk) -> None:
        raw = full_run(desk)
        if raw is None:
            return
        other = raw._replace(row=raw.row.replace(run_id="other"))
        before = desk.all()
        for runs in ([raw], [other, raw], [other]):  # the last has a key of this one's requests
            with pytest.raises(RunError):
                desk(desk.journal.put_raw(runs))
        assert desk.all() == before
        assert desk(desk.journal.row("other")) is None

    def test_a_run_that_is_not_there_is_not_given(self, desk: Desk) -> None:
        with pytest.raises(UnknownRunError, match="there is no run `no`"):
            desk(desk.journal.raw("no"))

    def test_a_changed_line_gives_no_run(self, desk: Desk) -> None:
        raw = full_run(desk)
        if raw is None:
            return
        lines = [line.encode() for line in lines_of(raw)]
        for at, line in enumerate(lines):
            changed = line.replace(b"1", b"2", 1) if b"1" in line else line + b" "
            for bad in ([*lines[:at], changed, *lines[at + 1 :]], [*lines[:at], *lines[at + 1 :]]):
                found = list(read_trees(bad, "r.jsonl"))
                assert all(isinstance(one, JournalError) for one in found), (at, line)
                assert found
                assert "r.jsonl:" in str(found[0])

    def test_a_copy_is_due_to_workers_as_the_run_was(self, desk: Desk) -> None:
        desk(desk.journal.create(RunRow("r")))
        desk(desk.journal.place_request(StoredRequest("k", "r", "run", "d", 0.0, {})))
        [run] = desk(desk.journal.claim("w", 1, {})).runs
        if (raw := desk(desk.journal.raw("r"))) is None:
            return
        desk(desk.journal.hand_back("w", run, None))  # it waits
        waits = desk(desk.journal.raw("r"))
        assert waits is not None
        for given, due in ((raw, 1), (waits, 0)):
            desk(desk.journal.remove(["r"]))
            desk(desk.journal.put_raw([given]))
            assert len(desk(desk.journal.claim("w", 1, {})).runs) == due
