"""The view of a fleet: what is true of it, whoever asks, and whether a worker may end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from chartloop.adapters.journal.opening import journal_of
from chartloop.run.cron import CronSchedule
from chartloop.run.journal import Journal
from chartloop.run.processes import Process
from chartloop.run.schedule import COUNTED, Backlog, LivingRuns, Place, WorkerRow
from chartloop.run.sync import by_hand
from chartloop.run.tenants import ALL_TENANTS, Reach
from chartloop.ui.view_model.fleet_view import (
    MOST,
    FleetRows,
    fleet_view,
    read_fleet,
    tenant_of_limit,
)
from tests.fleet_journal import FACTS, TENANT, Fact, Seeded, seed

REACHES = {"every": ALL_TENANTS, "house": Reach(""), "tenant": Reach(TENANT)}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    return seed(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def journal(seeded: Seeded) -> Iterator[Journal]:
    journal = journal_of(seeded.path)
    yield journal
    by_hand(journal.close())


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.name)
def test_the_view_tells_each_what_it_may_know(
    journal: Journal, seeded: Seeded, fact: Fact, reach: str
) -> None:
    view = fleet_view(by_hand(read_fleet(journal, REACHES[reach])))
    assert fact.read({**view, "seeded": seeded.now}) == getattr(fact, reach)


def test_a_tenant_is_told_of_no_worker_and_no_other_run(journal: Journal) -> None:
    view = fleet_view(by_hand(read_fleet(journal, REACHES["tenant"])))
    told = str(view)
    for word in ("east", "west", "example.org", "gone-", "poll", "writer", "archive", "scan"):
        assert word not in told


# whether a worker may end -----------------------------------------------------------------------

CAN, LACKS, UNMET = {"n": ""}, {"n": "no tool"}, {"other": ""}


class End(NamedTuple):
    """A worker, another one, a run, and whether the first may end."""

    id: str
    mine: dict[str, str]
    other: dict[str, str] | None
    """None: there is no other."""
    ends: str
    place: Place = "rests"
    needs: str = "n"
    lives: bool = True
    """Whether the other is alive."""


ENDS = (
    End("it-alone-can", CAN, None, "no"),
    End("another-can", CAN, CAN, "yes"),
    End("another-lacks-something", CAN, LACKS, "no"),
    End("another-has-met-none", CAN, UNMET, "unknown"),
    End("another-is-dead", CAN, CAN, "no", lives=False),
    End("it-cannot-itself", LACKS, None, "yes"),
    End("none-can", LACKS, LACKS, "yes"),
    End("it-has-met-none-and-another-can", UNMET, CAN, "yes"),
    End("it-has-met-none-and-is-alone", UNMET, None, "unknown"),
    End("none-has-met-one", UNMET, UNMET, "unknown"),
    End("it-has-met-none-and-another-lacks", UNMET, LACKS, "unknown"),
    End("any-may-drive-it", UNMET, UNMET, "yes", needs=""),
    End("any-may-and-it-is-alone", UNMET, None, "no", needs=""),
    End("no-order-is-open", CAN, None, "yes", place=""),
    *(End(f"it-alone-can-{place}", CAN, None, "no", place=place) for place in ("due", "held", "parked")),
)  # fmt: skip
NOTHING = Backlog(0, None, 0, 0, 0, [], {}, [], [])


def fleet(*living: LivingRuns, workers: list[WorkerRow], **more: Any) -> FleetRows:
    """A fleet at the moment 100."""
    backlog = NOTHING._replace(workers=workers)
    return FleetRows(
        more.get("reach", ALL_TENANTS), 100.0, backlog, [*living], more.get("schedules", []), {}, [], []
    )  # fmt: skip


def living(
    runs: int, *, needs: str = "n", place: Place = "rests", tenant: str = ""
) -> LivingRuns:  # fmt: skip
    return LivingRuns(
        tenant, "m", "h", needs, 5, place, "paused", False, False, runs, 1.0, "r"
    )  # fmt: skip


def worker(id: str, lacks: dict[str, str], until: float = 120.0) -> WorkerRow:
    return WorkerRow(id, "chartloop worker", Process("h"), 4, lacks, until)


@pytest.mark.parametrize("case", ENDS, ids=lambda case: case.id)
def test_a_worker_may_end_when_no_run_needs_it_alone(case: End) -> None:
    runs = living(3, needs=case.needs, place=case.place)
    workers = [worker("mine", case.mine)]
    if case.other is not None:
        workers.append(worker("other", case.other, 120.0 if case.lives else 90.0))
    mine, *_ = fleet_view(fleet(runs, workers=workers))["workers"]
    assert mine["may_end"] == case.ends
    named = [{"machine": "m", "hash": "h", "runs": 3}] if case.ends != "yes" else []
    assert mine["needed_for"] == named


def test_runs_of_tenants_keep_a_worker_without_being_counted() -> None:
    runs = living(3, place="due", tenant="acme")
    (mine,) = fleet_view(fleet(runs, workers=[worker("mine", CAN)], reach=Reach("")))["workers"]
    assert (mine["may_end"], mine["needed_for"]) == ("no", [])


# bounds -----------------------------------------------------------------------------------------


def test_a_list_has_at_most_fifty_rows_and_counts_the_others() -> None:
    schedules = [CronSchedule(f"s{n}", "m", "h", (), 0.0, 200.0) for n in range(MOST + 3)]
    workers = [worker(f"w{n:03}", CAN) for n in range(MOST + 1)]
    view = fleet_view(fleet(workers=workers, schedules=schedules))
    assert len(view["schedules"]) == len(view["workers"]) == MOST
    assert view["more"] == {"schedules": 3, "workers": 1}


@pytest.mark.parametrize(("runs", "counted"), [(COUNTED - 1, True), (COUNTED, False)])
def test_more_runs_than_are_counted_are_said_to_be_there(runs: int, counted: bool) -> None:
    of = living(runs)
    assert fleet_view(fleet(of, workers=[]))["all_counted"] is counted


@pytest.mark.parametrize(
    ("scope", "tenant"),
    [("fleet", ""), ("tenant:acme", "acme"), ("session:acme:chat", "acme"), ("session:chat", ""),
     ("agent:acme", ""), ("model:acme:7b", "")],
)  # fmt: skip
def test_a_limit_is_of_a_tenant_by_its_scope(scope: str, tenant: str) -> None:
    assert tenant_of_limit(scope) == tenant


def test_a_tenant_is_not_told_what_workers_lack() -> None:
    schedule = CronSchedule("s", "m", "n", ({"tenant": TENANT},), 0.0, 200.0)
    told = {
        reach: fleet_view(
            fleet(
                living(3, place="due", tenant=TENANT), workers=[worker("w", LACKS)],
                schedules=[schedule], reach=REACHES[reach],
            )
        )
        for reach in ("every", "tenant")
    }  # fmt: skip
    lacks = {
        reach: [one["lacks"] for part in ("queue", "schedules") for one in view[part]]
        for reach, view in told.items()
    }
    assert lacks == {"every": ["no tool", "no tool"], "tenant": ["", ""]}
