"""Budgets that belong to their day: what every end of a call does to which figure of which limit.

The table is the test: `EVENTS` x `WHENS` x `KINDS` x journals. A small model of its own, which keeps
every call with its day and edition, says what each cell must show. Beside the call of the cell,
others have used and reserved of the same limit, so that what is taken from them shows.

Columns that there are not: a limit of an hour, a week or a month, and one of calls at once (`What`
and `Per` have none); a day in a time zone or with DST (a day is one of UTC, on the journal's clock).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import Fenced
from chartloop.run.fleet import DAY, FleetLimit, Per, Reservation, What
from chartloop.run.journal import Event, InboxMessage, MemoryJournal, Move, RunRow, WholeRun
from chartloop.testing import ManualClock
from chartloop.testing.journal_suite.concurrent import lost, race
from chartloop.testing.journal_suite.desk import Desk, step
from tests.postgres import NEEDED, Cluster

ASKED, ROUNDS = 10.0, 15


# the model ----------------------------------------------------------------------------------


@dataclass
class Call:
    """A call as the model keeps it: all that is ever known of it."""

    at: float
    edition: int
    amount: float
    used: float | None = None
    """None while it is in flight or in doubt."""
    doubt: bool = False


@dataclass
class Model:
    """The figures of one limit, from its calls alone."""

    per: Per
    most: float
    edition: int = 0
    calls: list[Call] = field(default_factory=list[Call])

    def reserve(self, at: float, amount: float) -> Call:
        """A call that has reserved."""
        self.calls.append(Call(at, self.edition, amount))
        return self.calls[-1]

    def figures(self, now: float) -> tuple[float, float, float]:
        """What is used, reserved and in doubt of a budget at a time."""
        mine = [one for one in self.calls if one.edition == self.edition]
        if self.per == "day":
            day = max([now, *(one.at for one in self.calls)]) // DAY  # a clock set back ends no day
            mine = [one for one in mine if one.at // DAY == day]
        used = sum(one.used for one in mine if one.used is not None)
        doubt = sum(one.amount for one in mine if one.doubt and one.used is None)
        held = sum(one.amount for one in mine if not one.doubt and one.used is None)
        return used + doubt, held, doubt

    def levels(self, now: float) -> tuple[float, float]:
        """How full a bucket is, had each call taken what it used; and had it taken the most."""
        limit, found = FleetLimit("fleet", "tokens", "minute", self.most), list[float]()
        for whole in (False, True):
            level, at = 0.0, 0.0
            for one in (one for one in self.calls if one.edition == self.edition):
                level, at = max(0.0, level - (one.at - at) * limit.rate), one.at
                least = one.amount if one.used is None else one.used
                level += max(one.amount, least) if whole else least
            found.append(max(0.0, level - (now - at) * limit.rate))
        return found[0], found[1]


# the journal --------------------------------------------------------------------------------


class Kind(NamedTuple):
    """A kind of limit."""

    what: What
    per: Per
    most: float = 1000.0


KINDS = [
    Kind("cost", "day"), Kind("tokens", "day"), Kind("requests", "day"), Kind("cost", "all"),
    Kind("tokens", "all"), Kind("tokens", "minute", 6000.0), Kind("requests", "minute", 6000.0),
]  # fmt: skip


class Cell:
    """One limit of a journal, the run of a call beside its neighbours, and the model of them."""

    names = count()

    def __init__(self, do: Desk, clock: ManualClock, kind: Kind) -> None:
        self.do, self.clock, self.kind = do, clock, kind
        self.name = f"c{next(self.names)}"
        self.scope = f"session:{self.name}"
        self.model = Model(kind.per, kind.most)
        clock.set((clock.now() // DAY + 2) * DAY + 3600.0)
        self.set(kind.most)
        self.amount = 1.0 if kind.what == "requests" else ASKED
        for run_id in ("call", "other", "call/think/1"):
            do.begin(f"{self.name}-{run_id}", parent="" if "/" not in run_id else self.run())
        self.neighbour(2.0, 3.0)

    def run(self, name: str = "call") -> str:
        """The id of a run."""
        return f"{self.name}-{name}"

    def set(self, most: float) -> None:
        """Set the limit."""
        self.do(self.do.journal.set_limit(FleetLimit(self.scope, *self.kind[:2], most)))
        self.model.most = most

    def renew(self) -> None:
        """Remove the limit, and set it again."""
        assert self.do(self.do.journal.remove_limit(self.scope, *self.kind[:2]))
        self.set(self.model.most)
        self.model.edition += 1

    def reserve(self, run_id: str, head: int, key: str, amount: float) -> Call:
        """Reserve in the present epoch of a run."""
        row = self.do(self.do.journal.row(run_id))
        assert row is not None
        given = Reservation(run_id, row.epoch, head, key, [self.scope], {self.kind.what: amount})
        assert self.do(self.do.journal.reserve(given)).by is None
        return self.model.reserve(self.clock.now(), amount)

    def neighbour(self, used: float, held: float) -> None:
        """Others settle a call in the present period, and have one in flight."""
        n = len(self.model.calls)
        if self.kind.what == "requests":
            used = held = 1.0
        call = self.reserve(self.run("other"), 0, f"settled{n}", used + 1)
        spent = {self.kind.what: used}
        assert self.do(self.do.journal.settle_call(self.run("other"), f"settled{n}", spent, head=0))
        call.used = used
        self.reserve(self.run("other"), 0, f"open{n}", held)

    def begin(self, run_id: str = "call", *, sent: bool = True, head: int = 0) -> Call:
        """The call of the cell: it reserves, and its intent is written."""
        self.at, self.key = self.run(run_id), f"{self.run(run_id)}/think/0"
        call = self.reserve(self.at, head, self.key, self.amount)
        if sent:
            self.do.write(
                self.at, head, [Event(head, "intent", self.clock.now(), None, {"key": self.key})]
            )
        return call

    def settle(self, share: float | None, call: Call, *, head: int | None = 0) -> bool:
        """Settle the call at a share of what it reserved. A request is used whole."""
        spent = None if share is None else share * self.amount
        used = None if spent is None else {"cost": spent, "tokens": spent}
        done = self.do(self.do.journal.settle_call(self.at, self.key, used, head=head))
        if done and spent is None:
            call.doubt = True
        elif done:
            call.used = self.amount if self.kind.what == "requests" else spent
        return done

    def take_up(self, call: Call, run_id: str = "call", *, sent: bool = True) -> None:
        """Another driver takes a run up."""
        self.do(self.do.journal.acquire(self.run(run_id)))
        call.doubt, call.used = sent, None if sent else 0.0

    def remove(self, call: Call, *, sent: bool = True) -> None:
        """Remove the run: what is not known stays used whole, and nobody can settle it."""
        assert self.do(self.do.journal.remove([self.run()])) == 1
        call.used = self.amount if sent else 0.0

    def doubts(self) -> dict[str, float]:
        """The calls of the run and its children that are in doubt, with what they hold."""
        found = self.do(self.do.journal.doubts())
        return {
            one.key: one.amounts[self.kind.what] for one in found
            if one.run_id.startswith(self.run())
        }  # fmt: skip

    def check(self) -> None:
        """The limit has the figures of the model."""
        (found,) = (x for x in self.do(self.do.journal.limits()) if x.scope == self.scope)
        if self.kind.per == "minute":
            if self.clock.now() >= max(one.at for one in self.model.calls):
                least, most = self.model.levels(self.clock.now())
                assert least - 1e-6 <= found.used <= most + 1e-6
            assert 0 <= found.wait(self.amount) <= 60  # whatever a clock has said
            assert (found.held, found.in_doubt) == (0.0, 0.0)
        else:
            figures = (found.used, found.held, found.in_doubt)
            assert figures == pytest.approx(self.model.figures(self.clock.now()), abs=1e-9)


# the rows: what happens to a call -----------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """What happens to a call before and after the moment of the column."""

    id: str
    before: Callable[[Cell], Call]
    after: Callable[[Cell, Call], Any]
    doubt: float = 0.0
    """How much of what it reserved is listed as in doubt at the end."""


def begun(cell: Cell) -> Call:
    return cell.begin()


def unsent(cell: Cell) -> Call:
    return cell.begin(sent=False)


def doubted(cell: Cell) -> Call:
    cell.take_up(call := cell.begin())
    return call


def unanswered(cell: Cell) -> Call:
    call = cell.begin()
    assert cell.settle(None, call)
    return call


def settles(share: float | None, *, head: int | None = 0) -> Callable[[Cell, Call], Any]:
    """Settle once, and once more, which changes nothing."""

    def settle(cell: Cell, call: Call) -> None:
        assert cell.settle(share, call, head=head)
        cell.check()
        if share is None:
            assert not cell.settle(None, call)
            return
        assert not cell.settle(0.3, call, head=None)
        assert not cell.settle(0.3, call)

    return settle


def child_in_flight(cell: Cell) -> Call:
    return cell.begin("call/think/1")


def child_unsent(cell: Cell) -> Call:
    return cell.begin("call/think/1", sent=False)


def parent_is_taken_up(cell: Cell, call: Call, *, sent: bool = True) -> None:
    """The child may never be driven again: its call is settled, and its old driver is fenced."""
    row = cell.do(cell.do.journal.row(cell.at))
    assert row is not None
    cell.take_up(call, sent=sent)
    with pytest.raises(Fenced):
        cell.do(cell.do.journal.append(cell.at, row.head, row.epoch, [step(row.head)]))


def forked(cell: Cell, call: Call) -> None:
    cell.do(cell.do.journal.fork(cell.run(), 5, RunRow(cell.run("fork"))))
    cell.do(cell.do.journal.acquire(cell.run("fork")))
    assert not cell.do(cell.do.journal.settle_call(cell.run("fork"), cell.key, {}))


def moved(cell: Cell, call: Call) -> None:
    row = cell.do(cell.do.journal.row(cell.run()))
    new = WholeRun(RunRow(cell.run("new")))
    cell.do(cell.do.journal.create_whole([new], moves=[Move(row, cell.run("new"))]))  # type: ignore[arg-type]
    call.doubt = True


def cancelled(cell: Cell, _: Call) -> None:
    cell.do(cell.do.journal.send(cell.run(), InboxMessage("m", 1.0, {"kind": "cancel"})))
    cell.do(cell.do.journal.sweep())


def went_on(cell: Cell, _: Call) -> None:
    cell.do.write(cell.run(), 1, [step(1, 0)])
    cell.do(cell.do.journal.acquire(cell.run()))


def made_again(cell: Cell) -> Call:
    """Two attempts of a call are in doubt: they count twice, and have one bill."""
    cell.take_up(first := cell.begin())
    cell.take_up(cell.begin(head=1))
    return first


def made_again_under_one_intent(cell: Cell) -> Call:
    """The next call of an action whose intent stands, after one without an answer."""
    first = unanswered(cell)
    again = cell.reserve(cell.at, 0, cell.key, cell.amount)
    assert cell.settle(0.5, again)
    return first


def one_bill(cell: Cell, first: Call) -> None:
    newest = cell.model.calls[-1]
    for one in cell.model.calls:
        newest = one if one.doubt else newest
    assert cell.settle(0.3, first, head=None)
    newest.used = first.used
    if cell.kind.what != "requests":
        first.used = 0.0


ROWS = [
    Row("returns", begun, settles(0.5)),
    Row("returns-above", begun, settles(1.5)),
    Row("is-refused", begun, settles(0.0)),
    Row("gets-no-answer", begun, settles(None), 1.0),
    Row("was-never-sent", unsent, lambda cell, call: cell.take_up(call, sent=False)),
    Row("its-driver-dies", begun, lambda cell, call: cell.take_up(call), 1.0),
    *(Row(f"settled-at-{share:g}", doubted, settles(share, head=None)) for share in (0.0, 0.4, 1.0, 1.6)),
    *(
        Row(f"unanswered-settled-at-{share:g}", unanswered, settles(share, head=None))
        for share in (0.0, 0.4, 1.0, 1.6)
    ),
    Row("returns-late", doubted, settles(0.5)),
    Row("returns-late-above", doubted, settles(1.5)),
    Row("unanswered-returns-late", unanswered, settles(0.5)),
    Row("made-again", made_again, one_bill),
    Row("next-of-one-intent", made_again_under_one_intent, settles(0.4, head=None)),
    Row("run-cancelled", begun, cancelled),
    Row("run-cancelled-in-doubt", doubted, cancelled, 1.0),
    Row("run-goes-on", doubted, went_on, 1.0),
    Row("run-forked", doubted, forked, 1.0),
    Row("run-forked-in-flight", begun, forked),
    Row("run-moved", begun, moved, 1.0),
    Row("run-moved-in-doubt", doubted, moved, 1.0),
    Row("run-removed", begun, lambda cell, call: cell.remove(call)),
    Row("run-removed-in-doubt", doubted, lambda cell, call: cell.remove(call)),
    Row("run-removed-unanswered", unanswered, lambda cell, call: cell.remove(call)),
    Row("run-removed-unsent", unsent, lambda cell, call: cell.remove(call, sent=False)),
    Row("childs-parent-taken-up", child_in_flight, parent_is_taken_up, 1.0),
    Row(
        "unsent-childs-parent-taken-up", child_unsent,
        lambda cell, call: parent_is_taken_up(cell, call, sent=False),
    ),
    Row("childs-parent-removed", child_in_flight, lambda cell, call: cell.remove(call)),
]  # fmt: skip


# the columns: when --------------------------------------------------------------------------


def at_once(cell: Cell) -> None:
    return None


def soon(cell: Cell) -> None:
    cell.clock.advance(0.05)  # a part of a bucket has leaked


def same_day(cell: Cell) -> None:
    cell.clock.advance(3600.0)


def next_day(cell: Cell) -> None:
    cell.clock.advance(DAY)


def midnight(cell: Cell) -> None:
    cell.clock.set((cell.clock.now() // DAY + 1) * DAY)


def next_week(cell: Cell) -> None:
    cell.clock.advance(7 * DAY)


def renewed(cell: Cell) -> None:
    cell.renew()


def renewed_next_day(cell: Cell) -> None:
    cell.clock.advance(DAY)
    cell.renew()


def raised(cell: Cell) -> None:
    cell.set(cell.model.most * 2) if cell.kind.per != "minute" else None


def lowered_below_what_is_used(cell: Cell) -> None:
    cell.set(4000.0 if cell.kind.per == "minute" else 60.0)
    cell.clock.advance(30.0)


def other_period(cell: Cell) -> None:
    """A limit for another time is another limit."""
    other: Per = "day" if cell.kind.per == "all" else "all"
    limit = FleetLimit(cell.scope, cell.kind.what, other, 1e6)
    cell.do(cell.do.journal.set_limit(limit))
    assert cell.do(cell.do.journal.remove_limit(cell.scope, cell.kind.what, other))


def forth_and_back(cell: Cell) -> None:
    """The clock is two days ahead while somebody calls, and is set right."""
    cell.clock.advance(2 * DAY)
    cell.neighbour(1.0, 1.0)
    cell.clock.advance(-2 * DAY)


WHENS = [
    at_once, soon, same_day, midnight, next_day, next_week, renewed, renewed_next_day, raised,
    lowered_below_what_is_used, other_period, forth_and_back,
]  # fmt: skip


def opened(request: Any, kind: str, clock: ManualClock, folder: Path) -> Any:
    """A journal of each kind."""
    if kind == "memory":
        return MemoryJournal(now=clock.now)
    if kind == "sqlite":
        return SqliteJournal(folder / "journal.db", redactor=None, now=clock.now)
    from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415

    cluster: Cluster = request.getfixturevalue("postgres")
    return PostgresJournal(cluster.of(folder), redactor=None, now=clock.now)


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the journal."""
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=NEEDED)])
def desk(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Desk]:
    """A journal of each kind."""
    do = Desk(opened(request, request.param, clock, tmp_path))
    yield do
    do.close()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_call_changes_its_own_day_and_edition_alone(
    row: Row, desk: Desk, clock: ManualClock, subtests: pytest.Subtests
) -> None:
    for when in WHENS:
        for kind in KINDS:
            with subtests.test(f"{when.__name__}-{kind.what}-{kind.per}"):
                cell = Cell(desk, clock, kind)
                call = row.before(cell)
                cell.check()
                when(cell)
                cell.check()
                if when is not forth_and_back:
                    cell.neighbour(3.0, 2.0)
                row.after(cell, call)
                cell.check()
                expected = {cell.key: row.doubt * cell.amount} if row.doubt else {}
                assert cell.doubts() == expected


def test_what_is_given_back_is_there_for_others(desk: Desk, clock: ManualClock) -> None:
    """The cell of the finding: today's budget is not paid back what yesterday reserved."""
    cell = Cell(desk, clock, Kind("cost", "day", 10.0 + 6.0))
    call = doubted(cell)
    next_day(cell)
    cell.reserve(cell.run("other"), 0, "today", 15.0)
    assert cell.settle(0.0, call, head=None)
    row = desk(desk.journal.row(cell.run("other")))
    assert row is not None
    more = Reservation(row.run_id, row.epoch, 0, "more", [cell.scope], {"cost": 1.5})
    assert desk(desk.journal.reserve(more)).by is not None


# any order ----------------------------------------------------------------------------------


class Order:
    """Four runs that do anything in any order, each with one key."""

    def __init__(self, do: Desk, clock: ManualClock, kind: Kind) -> None:
        clock.set(1_700_000_000.0)
        self.cell, self.clock = Cell(do, clock, kind), clock
        self.calls: list[list[tuple[int, Call]]] = [[], [], [], []]
        self.heads = [0, 0, 0, 0]
        for n in range(4):
            do.begin(self.cell.run(f"r{n}"))

    def open(self, n: int) -> list[tuple[int, Call]]:
        """The calls of a run that are in flight or in doubt, with their heads."""
        cell = self.cell
        cell.at, cell.key = cell.run(f"r{n}"), cell.run(f"r{n}/key")
        return [(head, call) for head, call in self.calls[n] if call.used is None]

    def call(self, n: int, _: float, *, sent: bool = False) -> None:
        if all(call.doubt for _, call in self.open(n)):
            cell, head = self.cell, self.heads[n]
            call = cell.reserve(cell.at, head, cell.key, cell.amount)
            self.calls[n].append((head, call))
            if sent:
                intent = Event(head, "intent", 1.0, None, {"key": cell.key})
                self.heads[n] = cell.do.write(cell.at, head, [intent])

    def sent(self, n: int, share: float) -> None:
        self.call(n, share, sent=True)

    def settle(self, n: int, share: float) -> None:
        for head, call in self.open(n)[-1:]:
            if not call.doubt or self.heads[n] != head:
                self.cell.settle(share, call, head=head)

    def no_answer(self, n: int, _: float) -> None:
        for head, call in self.open(n)[-1:]:
            assert self.cell.settle(None, call, head=head) or call.doubt

    def take_up(self, n: int, _: float) -> None:
        mine = self.open(n)
        self.cell.do(self.cell.do.journal.acquire(self.cell.at))
        for head, call in mine:
            if not call.doubt:
                call.doubt = head < self.heads[n]
                call.used = None if call.doubt else 0.0

    def by_hand(self, n: int, share: float) -> None:
        unknown = [call for _, call in self.open(n) if call.doubt]
        newest = {call.edition: call for call in unknown}  # that of each edition has the bill
        cell, spent = self.cell, share * self.cell.amount
        used = {"cost": spent, "tokens": spent}
        done = cell.do(cell.do.journal.settle_call(cell.at, cell.key, used))
        assert done == bool(unknown)
        for call in unknown:
            call.used = spent if newest[call.edition] is call else 0.0
            if cell.kind.what == "requests":
                call.used = cell.amount

    def hours(self, n: int, _: float) -> None:
        self.clock.advance(9 * 3600.0 * (n + 1))

    def renew(self, _: int, __: float) -> None:
        self.cell.renew()

    def raised(self, _: int, __: float) -> None:
        self.cell.set(self.cell.model.most + 1)


WORDS = "call sent settle no_answer take_up by_hand hours renew raised".split()


@given(
    kind=st.sampled_from([kind for kind in KINDS if kind.per != "minute"]),
    steps=st.lists(
        st.tuples(st.sampled_from(WORDS), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0, 1.5]))
    ),
)
@settings(deadline=None)
def test_any_order_has_the_figures_of_the_calls_alone(
    kind: Kind, steps: list[tuple[str, int, float]]
) -> None:
    clock = ManualClock()
    with TemporaryDirectory() as folder:
        file = SqliteJournal(Path(folder, "journal.db"), redactor=None, now=clock.now)
        for do in (Desk(MemoryJournal(now=clock.now)), Desk(file)):
            order = Order(do, clock, kind)
            for word, n, share in steps:
                getattr(order, word)(n, share)
                order.cell.check()
            do.close()


# at once ------------------------------------------------------------------------------------


def driver_settles(do: Desk, cell: Cell) -> Any:
    return do(do.journal.settle_call(cell.at, cell.key, {"cost": 4.0}, head=0))


def hand_settles(do: Desk, cell: Cell) -> Any:
    return do(do.journal.settle_call(cell.at, cell.key, {"cost": 1.0}))


def taken_up(do: Desk, cell: Cell) -> Any:
    return do(do.journal.acquire(cell.run()))[0].run_id


def run_removed(do: Desk, cell: Cell) -> Any:
    return do(do.journal.remove([cell.run()]))


def limit_renewed(do: Desk, cell: Cell) -> Any:
    do(do.journal.remove_limit(cell.scope, "cost", "all"))
    return do(do.journal.set_limit(FleetLimit(cell.scope, "cost", "all", 1000.0)))


class Race(NamedTuple):
    """Two that act on one reservation at the same moment, and the figures that may come of it."""

    id: str
    before: Callable[[Cell], Call]
    acts: tuple[Callable[[Desk, Cell], Any], Callable[[Desk, Cell], Any]]
    ends: list[tuple[float, float, float]]


_ALONE = (0.0, 0.0, 0.0)
"""Of a new edition."""
RACES = [
    Race("settle-settle", doubted, (driver_settles, hand_settles), [(4, 0, 0), (1, 0, 0)]),
    Race("settle-take-up", begun, (driver_settles, taken_up), [(4, 0, 0)]),
    Race("settle-remove", begun, (driver_settles, run_removed), [(4, 0, 0), (10, 0, 0)]),
    Race("hand-remove", doubted, (hand_settles, run_removed), [(1, 0, 0), (10, 0, 0)]),
    Race("settle-renew", begun, (driver_settles, limit_renewed), [_ALONE]),
    Race("hand-renew", doubted, (hand_settles, limit_renewed), [_ALONE]),
    Race("take-up-renew", begun, (taken_up, limit_renewed), [_ALONE]),
    Race("take-up-take-up", begun, (taken_up, taken_up), [(10, 0, 10)]),
    Race("child-settles-take-up", child_in_flight, (driver_settles, taken_up), [(4, 0, 0)]),
    Race("child-settles-remove", child_in_flight, (driver_settles, run_removed), [(4, 0, 0), (10, 0, 0)]),
]  # fmt: skip


@pytest.mark.parametrize("where", ["sqlite", pytest.param("postgres", marks=NEEDED)])
@pytest.mark.parametrize("case", RACES, ids=lambda case: case.id)
def test_a_reservation_is_taken_once(
    case: Race, where: str, request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> None:
    one, two = (Desk(opened(request, where, clock, tmp_path)) for _ in range(2))
    for _ in range(ROUNDS):
        cell = Cell(one, clock, Kind("cost", "all"))
        limit_renewed(one, cell)  # without neighbours
        case.before(cell)
        lost(race(lambda: case.acts[0](one, cell), lambda: case.acts[1](two, cell)), Fenced)  # noqa: B023
        (found,) = (x for x in one(one.journal.limits()) if x.scope == cell.scope)
        assert (found.used, found.held, found.in_doubt) in case.ends
        expected = {} if found.in_doubt == 0 else {cell.key: ASKED}
        assert cell.doubts() == expected or _ALONE in case.ends
    one.close()
    two.close()
