"""The journal's hash chains: every way to write events, and then the chain is computed again.

A journal that keeps no chains gives None for each run, and passes.
"""

from __future__ import annotations

import pytest

from chartloop.core.errors import Fenced, UnknownRunError
from chartloop.run.chain import SIZE, START, Chain
from chartloop.run.journal import Move, RunRow, WholeRun
from chartloop.run.payload import LARGE
from chartloop.run.recorded import check_chain
from chartloop.testing.journal_suite.desk import Desk, intent, step


def whole_chains(desk: Desk, *run_ids: str) -> list[Chain]:
    """The chains of these runs, each checked; empty if the journal keeps none."""
    found: list[Chain] = []
    for run_id in run_ids:
        chain = desk(desk.journal.chain(run_id))
        checked = desk(check_chain(desk.journal, run_id))
        assert (chain is None) == (checked is None)
        if chain is not None and checked is not None:
            assert checked.fault == ""
            assert checked.digest == chain.end[:SIZE].hex()
            assert checked.records == sum(link.digest is not None for link in chain.links)
            found.append(chain)
    return found


class ChainCases:
    """The chains of new, forked, continued, moved and removed runs."""

    def test_a_chain_grows_with_each_event(self, desk: Desk) -> None:
        desk.begin()
        ends = [chain.end for chain in whole_chains(desk, "r")]
        large = step(3, 2, result="é" * (LARGE + 1))
        for head, event in enumerate((step(0), intent(1), step(2, 1), large, intent(4))):
            desk.write("r", head, [event])
            for chain in whole_chains(desk, "r"):
                assert chain.head == len(chain.links) == head + 1
                assert chain.end not in ends
                ends.append(chain.end)
                digests = [link.digest for link in chain.links if link.digest is not None]
                assert chain.end[:SIZE] == digests[-1]

    def test_what_is_written_at_once_has_the_chain_of_what_is_written_in_turn(
        self, desk: Desk
    ) -> None:
        events = [step(0), intent(1), step(2, 1), intent(3)]
        desk.begin("a")
        desk.write("a", 0, events)
        desk.begin("b")
        for head, event in enumerate(events):
            desk.write("b", head, [event])
        desk(desk.journal.create_whole([WholeRun(RunRow("c"), events)]))
        chains = whole_chains(desk, "a", "b", "c")
        assert len({chain.end for chain in chains}) == bool(chains)
        assert all(chain.origin == START for chain in chains)

    def test_a_refused_append_leaves_the_chain(self, desk: Desk) -> None:
        epoch = desk.begin()
        desk.write("r", 0, [step(0)])
        before = whole_chains(desk, "r")
        for head, of in ((0, epoch), (1, epoch - 1)):
            with pytest.raises(Fenced):
                desk(desk.journal.append("r", head, of, [step(1)]))
        desk(desk.journal.append("r", 0, epoch, [step(0)]))  # acknowledged again
        assert whole_chains(desk, "r") == before

    @pytest.mark.parametrize(("at", "kept"), [(0, 0), (1, 1), (2, 3)])
    def test_a_fork_has_the_digests_of_its_records(self, desk: Desk, at: int, kept: int) -> None:
        desk.begin()
        desk.write("r", 0, [step(0), intent(1), step(2, 1), intent(3)])
        desk(desk.journal.fork("r", at, RunRow("new")))
        for old, new in zip(*[iter(whole_chains(desk, "r", "new"))] * 2, strict=True):
            assert new.origin == old.origin
            assert new.links == old.links[:kept]
        desk(desk.journal.acquire("new"))
        desk.write("new", kept, [step(kept, at)])
        whole_chains(desk, "new")

    def test_a_child_begins_with_the_newest_record_of_its_parent(self, desk: Desk) -> None:
        desk.begin()
        desk.begin("early", parent="r")
        desk.write("r", 0, [step(0), intent(1)])
        at_once = [WholeRun(RunRow("whole", parent="r"), [step(0)])]
        desk.begin("child", parent="r")
        desk(desk.journal.create_whole(at_once))
        desk.begin("orphan", parent="nobody")
        desk.write("r", 2, [step(2, 1)])
        desk(desk.journal.fork("r", 1, RunRow("fork")))
        desk.begin("below", parent="fork")
        chains = whole_chains(desk, "r", "early", "child", "whole", "orphan", "below")
        origins = [chain.origin for chain in chains]
        first = chains[0].links[0].digest if chains else None
        assert origins == [START, START, first, first, START, first][: len(chains)]

    def test_a_moved_run_is_continued_by_its_successor(self, desk: Desk) -> None:
        desk.begin()
        desk.write("r", 0, [step(0), intent(1)])
        row = desk.all()[0]
        new = WholeRun(RunRow("new", parent="r"), [step(0)])
        desk(desk.journal.create_whole([new], moves=[Move(row, "new")]))
        for old, later in zip(*[iter(whole_chains(desk, "r", "new"))] * 2, strict=True):
            assert old.links[-1].event[3] == b"moved"
            assert later.origin == old.links[0].digest

    def test_the_chain_of_a_child_outlives_its_parent(self, desk: Desk) -> None:
        desk.begin()
        desk.write("r", 0, [step(0)])
        desk.begin("child", parent="r")
        desk.write("child", 0, [step(0)])
        before = whole_chains(desk, "child")
        desk(desk.journal.remove(["r"]))
        assert whole_chains(desk, "child") == before

    def test_a_run_that_is_not_there_has_no_chain(self, desk: Desk) -> None:
        with pytest.raises(UnknownRunError, match="there is no run `no`"):
            desk(desk.journal.chain("no"))
