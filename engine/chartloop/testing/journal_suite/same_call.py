"""The same call from several connections at the same moment: it is done once.

Each row of `CALLS` is a write of the port. A write that looks before it acts goes wrong here unless
a lock, a condition in the write or a unique index holds between the two.

Not in the table: `create` by one id, `acquire`, `append`, `claim` and `place_request`, whose
callers differ in what they give (`concurrent`); `renew`, `release`, `put_snapshot`, `enqueue`,
`keep` and `hand_back`, which are one statement about the caller's own lease, claim or run;
`mark_restored`, which each caller does, and whose race is one with `acquire`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from chartloop.core.errors import Fenced, RunError, UnknownRunError
from chartloop.run.fleet import FleetLimit, Reservation, Reserved
from chartloop.run.journal import InboxMessage, Move, RunRow, WholeRun
from chartloop.run.schedule import WorkerRow
from chartloop.testing.journal_suite.concurrent import CALLERS, FAR, ROUNDS, Another, lost, race
from chartloop.testing.journal_suite.crons import NIGHTLY
from chartloop.testing.journal_suite.desk import Desk, intent, step
from chartloop.testing.journal_suite.fleet import counted, limit, sent
from chartloop.testing.journal_suite.requests import asked


def _always(_do: Desk, _run_id: str) -> bool:
    return True


@dataclass(frozen=True)
class SameCall:
    """A call that several connections make at once."""

    id: str
    prepare: Callable[[Desk, str], Any]
    """What must be there before, for a run id; what it returns is given to the calls."""
    call: Callable[[Desk, str, Any], Any]
    did: Callable[[Any], bool]
    """Whether an outcome says that this caller did it. An error says that it did not."""
    holds: Callable[[Desk, str], bool] = _always
    """What must be true afterwards."""


def _run(do: Desk, run_id: str) -> RunRow:
    """A run with one record that this process has driven."""
    do.begin(run_id)
    do.write(run_id, 0, [step(0)])
    row = do(do.journal.row(run_id))
    assert row is not None
    return row


def _stored(do: Desk, run_id: str) -> Any:
    """A run as it was stored before it was removed."""
    _run(do, run_id)
    raw = do(do.journal.raw(run_id))
    do(do.journal.remove([run_id]))
    return raw


def _reserved(do: Desk, run_id: str) -> Reservation:
    """A budget, and a call that has reserved 1 USD of it and was sent."""
    limit(do, 100.0)
    do(do.journal.remove_limit("fleet", "cost", "all"))
    limit(do, 100.0)
    given = Reservation(run_id, do.begin(run_id), 0, "k", ("fleet",), {"cost": 1.0})
    do(do.journal.reserve(given))
    return given


def _reservation(do: Desk, run_id: str) -> Reservation:
    given = _reserved(do, run_id)
    do(do.journal.settle_call(run_id, "k", {"cost": 0.0}, head=0))
    return given


def _sent(do: Desk, run_id: str) -> None:
    _reserved(do, run_id)
    do.write(run_id, 0, [sent("k")])


def _doubted(do: Desk, run_id: str) -> None:
    """A call that was sent by a driver who is gone."""
    _sent(do, run_id)
    do(do.journal.acquire(run_id))


def _move(do: Desk, run_id: str, row: Any) -> None:
    do(
        do.journal.create_whole(
            [WholeRun(RunRow(f"new-{run_id}"))], moves=[Move(row, f"new-{run_id}")]
        )
    )


CALLS: list[SameCall] = [
    SameCall(
        "fork", _run,
        lambda do, run_id, _: do(do.journal.fork(run_id, 1, RunRow(f"fork-{run_id}"))),
        lambda outcome: outcome == 1,
        lambda do, run_id: len(do(do.journal.events(f"fork-{run_id}"))) == 1,
    ),
    SameCall("move", _run, _move, lambda outcome: outcome is None),
    SameCall(
        "follow", _run,
        lambda do, run_id, _: do(do.journal.create(
            RunRow(f"{run_id}-{id(do)}", parent=run_id, follows="next", created=1e12)
        )), lambda outcome: outcome is None,
        lambda do, run_id: len(do(do.journal.rows(parent=run_id))) == 1,
    ),
    SameCall(
        "import", _stored, lambda do, _, raw: do(do.journal.put_raw([raw])),
        lambda outcome: outcome is None,
        lambda do, run_id: len(do(do.journal.events(run_id))) == 1,
    ),
    SameCall(
        "add-schedule", lambda _, name: NIGHTLY.replace(name=name),
        lambda do, _, after: do(do.journal.put_cron(None, after)), lambda outcome: outcome is True,
    ),
    SameCall(
        "change-schedule",
        lambda do, name: do(do.journal.put_cron(None, NIGHTLY.replace(name=name))),
        lambda do, name, _: do(do.journal.put_cron(
            NIGHTLY.replace(name=name), NIGHTLY.replace(name=name, note="x")
        )), lambda outcome: outcome is True,
    ),
    SameCall(
        "settle-order", lambda do, run_id: do(do.journal.place_request(asked(run_id, run_id))),
        lambda do, key, _: do(do.journal.settle_request(key, {"status": "x"}, 0)),
        lambda outcome: outcome is True,
    ),
    SameCall(
        "finish-claimed-order",
        lambda do, key: do(do.journal.place_request(asked(key)._replace(outcome={"by": "a"}))),
        lambda do, key, _: do(do.journal.settle_request(key, {"made": "x"}, before={"by": "a"})),
        lambda outcome: outcome is True,
        lambda do, key: do(do.journal.requests(key=key))[0].outcome == {"made": "x"},
    ),
    SameCall(
        "message", _run,
        lambda do, run_id, _: do(do.journal.send(run_id, InboxMessage("m", 1.0, {}))),
        lambda outcome: outcome is True, lambda do, run_id: len(do(do.journal.inbox(run_id))) == 1,
    ),
    SameCall(
        "settle-call", _reserved,
        lambda do, run_id, _: do(do.journal.settle_call(run_id, "k", {"cost": 0.5}, head=0)),
        lambda outcome: outcome is True, lambda do, _: counted(do) == (0.5, 0.0),
    ),
    SameCall(
        "settle-doubt", _doubted,
        lambda do, run_id, _: do(do.journal.settle_call(run_id, "k", {"cost": 0.25})),
        lambda outcome: outcome is True, lambda do, _: counted(do) == (0.25, 0.0),
    ),
    SameCall(
        "add-limit", lambda _, name: FleetLimit(f"session:{name}", "cost", "all", 5.0),
        lambda do, _, given: do(do.journal.set_limit(given, only_new=True)),
        lambda outcome: outcome is True,
    ),
    SameCall(
        "remove-run", _sent, lambda do, run_id, _: do(do.journal.remove([run_id])),
        lambda outcome: outcome == 1, lambda do, _: counted(do) == (1.0, 0.0),
    ),
    SameCall(
        "remove-limit", lambda do, name: limit(do, 1.0, scope=f"session:{name}"),
        lambda do, name, _: do(do.journal.remove_limit(f"session:{name}", "cost", "all")),
        lambda outcome: outcome is True,
    ),
]  # fmt: skip


class SameCallCases:
    """What must hold when several processes do the same at the same moment."""

    @pytest.mark.parametrize("case", CALLS, ids=lambda case: case.id)
    def test_the_same_call_at_once_is_done_once(self, another: Another, case: SameCall) -> None:
        desks = [another() for _ in range(CALLERS)]
        for number in range(ROUNDS):
            name = f"r{number}"
            given = case.prepare(desks[0], name)
            works = (lambda do=do: case.call(do, name, given) for do in desks)  # noqa: B023
            outcomes = race(*works)
            lost(outcomes, RunError)  # any other error is raised
            assert sum(case.did(outcome) for outcome in outcomes) == 1, outcomes
            assert case.holds(desks[0], name)

    def test_a_call_that_is_reserved_twice_counts_once(self, another: Another) -> None:
        desks = [another() for _ in range(CALLERS)]
        for number in range(ROUNDS):
            given = _reservation(desks[0], f"r{number}")
            works = (lambda do=do: do(do.journal.reserve(given)) for do in desks)  # noqa: B023
            assert race(*works) == [Reserved()] * CALLERS
            assert counted(desks[0]) == (0.0, 1.0)

    def test_who_takes_a_run_up_during_the_mark_is_fenced_or_knows_of_it(
        self, another: Another
    ) -> None:
        """The mark of a journal that was restored from a backup."""
        one, two = another(), another()
        for number in range(ROUNDS):
            one(one.journal.create(RunRow(f"r{number}")))
            _, (row, acquired) = race(
                lambda: one(one.journal.mark_restored()),
                lambda number=number: two(two.journal.acquire(f"r{number}")),
            )
            if not acquired.restored:
                with pytest.raises(Fenced):
                    two(two.journal.append(f"r{number}", 0, row.epoch, [intent(0)]))
            one(one.journal.mark_restored(lift=True))

    def test_a_limit_that_is_set_twice_is_one(self, another: Another) -> None:
        desks = [another() for _ in range(CALLERS)]
        for number in range(ROUNDS):
            given = FleetLimit(f"session:r{number}", "cost", "all", 5.0)
            race(*(lambda do=do: do(do.journal.set_limit(given)) for do in desks))  # noqa: B023
        assert len(desks[0](desks[0].journal.limits())) == ROUNDS

    def test_a_limit_that_is_set_while_it_is_added_has_the_figure_that_was_set(
        self, another: Another
    ) -> None:
        one, two = another(), another()
        for number in range(ROUNDS):
            given = FleetLimit(f"session:r{number}", "cost", "all", 5.0)
            race(
                lambda given=given: one(one.journal.set_limit(given, only_new=True)),
                lambda given=given: two(two.journal.set_limit(given._replace(most=7.0))),
            )
        assert {limit.most for limit in one(one.journal.limits())} == {7.0}

    def test_a_worker_that_says_it_lives_during_a_sweep_stays_on_the_list(
        self, another: Another
    ) -> None:
        sweeper, *workers = (another() for _ in range(CALLERS))
        for number in range(ROUNDS):
            rows = [WorkerRow(f"w{number}-{n}", "f", FAR.process) for n in range(len(workers))]
            for row in rows:  # long dead
                sweeper(sweeper.journal.keep(row, ttl=1e-9))
            race(
                lambda: sweeper(sweeper.journal.sweep()),
                *(
                    lambda do=do, row=row: do(do.journal.keep(row))
                    for do, row in zip(workers, rows, strict=True)
                ),
            )
            listed = {worker.id for worker in sweeper(sweeper.journal.backlog()).workers}
            assert {row.id for row in rows} <= listed

    def test_of_a_move_and_a_step_one_is_refused(self, another: Another) -> None:
        one, two = another(), another()
        for number in range(ROUNDS):
            row = _run(one, run_id := f"r{number}")
            outcomes = race(
                lambda run_id=run_id, row=row: _move(one, run_id, row),
                lambda run_id=run_id: two(two.journal.append(run_id, 1, row.epoch, [step(1)])),  # noqa: B023
            )
            assert len(lost(outcomes, Fenced)) == 1

    def test_a_fork_of_a_run_that_is_being_removed_is_whole_or_refused(
        self, another: Another
    ) -> None:
        one, two = another(), another()
        for number in range(ROUNDS):
            run_id, fork_id = f"r{number}", f"f{number}"
            _run(one, run_id)
            forked, removed = race(
                lambda run_id=run_id, to=fork_id: one(one.journal.fork(run_id, 1, RunRow(to))),
                lambda run_id=run_id: two(two.journal.remove([run_id])),
            )
            assert removed == 1
            if isinstance(forked, UnknownRunError):
                assert one(one.journal.row(fork_id)) is None
            else:
                assert forked == 1
                assert len(one(one.journal.events(fork_id))) == 1

    def test_a_call_that_is_reserved_while_its_run_is_removed_holds_nothing(
        self, another: Another
    ) -> None:
        one, two = another(), another()
        for number in range(ROUNDS):
            given = _reservation(one, f"r{number}")
            _, removed = race(
                lambda given=given: one(one.journal.reserve(given)),
                lambda given=given: two(two.journal.remove([given.run_id])),
            )
            assert removed == 1
            assert counted(one) == (0.0, 0.0)
