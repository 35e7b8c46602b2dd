"""The view of a fleet: what waits, who works, what is limited, and what needs somebody.

    journal ──read_fleet──▶ FleetRows ──fleet_view──▶ JSON ──▶ `runs --watch`, `GET /fleet`

Each fact is worked out here, once. A list has at most `MOST` rows, and `more` counts the others. A
caller of a tenant is told of its own runs, limits and schedules, and of no worker.

Belongs here: what is known of a fleet, in plain data. Never: how a face shows it, an order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from chartloop.core.units import say_count
from chartloop.run.cron import LATE, CronSchedule
from chartloop.run.fleet import DAY, SESSION, TENANT, Doubt, FleetLimit
from chartloop.run.journal import Journal
from chartloop.run.lease import say_time
from chartloop.run.phases import Stand, stands_of
from chartloop.run.schedule import COUNTED, Backlog, LivingRuns, WorkerRow
from chartloop.run.tenants import ALL_TENANTS, MARK, Reach
from chartloop.ui.view_model.run_view import Json

MOST = 50
"""The most rows of a list."""
_OF_SCHEDULE = "name machine machine_hash cron timezone every paused last".split()


class FleetRows(NamedTuple):
    """The state of a fleet at one moment, as far as its reader may know it."""

    reach: Reach
    now: float
    backlog: Backlog
    living: list[LivingRuns]
    """Those of a tenant alone; else of all, to tell whether a worker may end."""
    schedules: list[CronSchedule]
    ticked: Mapping[str, Stand]
    """How the newest run of each schedule stands, by its id."""
    limits: list[FleetLimit]
    doubts: list[Doubt]


async def read_fleet(journal: Journal, reach: Reach = ALL_TENANTS) -> FleetRows:
    """Read what a journal says of a fleet; of a tenant only what is its own."""
    of, now = reach.tenant, await journal.now()
    backlog, living = await journal.backlog(), await journal.living(reach.name if of else "")
    schedules = [one for one in await journal.cron_schedules() if of in (None, one.tenant)]
    if of is not None:  # the figures of all tell nothing of a tenant
        own = [one for one in living if one.tenant == of]
        at, needs = Counter[str](), Counter[str]()
        for one in own:
            at[one.place] += one.runs
            if one.place == "due":
                needs[one.needs] += one.runs
        oldest = min((one.due for one in own if one.place == "due" and one.due), default=None)
        parked = [one for one in backlog.parked if reach.sees(one.run_id)]
        holds = [one for one in backlog.holds if reach.sees(one.run_id)]
        backlog = Backlog(
            at["due"], oldest, at["held"], at["rests"], 0, parked, needs, backlog.workers, holds
        )
    newest = [await journal.row(one.runs[-1]) for one in schedules[:MOST] if one.runs]
    return FleetRows(
        reach, now, backlog, living, schedules,
        await stands_of(journal, [row for row in newest if row is not None]),
        [one for one in await journal.limits() if of in (None, tenant_of_limit(one.scope))],
        [one for one in await journal.doubts() if reach.sees(one.run_id)],
    )  # fmt: skip


def tenant_of_limit(scope: str) -> str:
    """Whose limit it is: a tenant's own, or one of its sessions; empty for all others."""
    name = scope.removeprefix(TENANT).removeprefix(SESSION)
    of, mark, _ = name.partition(MARK)
    return "" if name == scope or (scope.startswith(SESSION) and not mark) else of


def fleet_view(found: FleetRows, served: Collection[str] | None = None) -> Json:
    """The view of a fleet as JSON. `served`: the hashes of the machines in a server's folders."""
    reach, now, backlog, living, *_ = found
    own = [one for one in living if reach.tenant in (None, one.tenant)]
    house = not reach.tenant  # who is of a tenant learns nothing of the workers
    alive = [one for one in backlog.workers if one.until > now] if house else []
    lists: dict[str, list[Json]] = {
        "queue": _queue(found, own),
        "workers": _workers(found, alive) if house else [],
        "parked": [
            {
                "run": one.run_id,
                "since": one.lapses[-1].until if one.lapses else None,
                "why": f"its process died {len(one.lapses)} times, without a new record"
                if one.lapses else "it rests since it was imported",
            }
            for one in backlog.parked
        ],
        "versions": _versions(own, alive, served),
        "schedules": [*_schedules(found)],
        "limits": [
            {
                **one._asdict(), "left": one.left,
                "resets": (now // DAY + 1) * DAY if one.per == "day" else None,
            }
            for one in found.limits
        ],
        "in_doubt": [one._asdict() for one in found.doubts],
    }  # fmt: skip
    return {
        "at": now, "sees_workers": house, "due": backlog.due,
        "oldest_due_seconds": None if backlog.oldest is None else max(0.0, now - backlog.oldest),
        "held": backlog.held, "resting": backlog.resting, "parked_runs": len(backlog.parked),
        "all_counted": sum(one.runs for one in living) < COUNTED,
        "troubles": [*troubles(backlog)] if house else [],
        "more": {name: len(rows) - MOST for name, rows in lists.items() if len(rows) > MOST},
        **{name: rows[:MOST] for name, rows in lists.items()},
    }  # fmt: skip


def _queue(found: FleetRows, own: list[LivingRuns]) -> list[Json]:
    """The due runs by priority and version, in the order in which workers claim them."""
    lines = dict[tuple[int, str, str, str], list[LivingRuns]]()
    for one in own:
        if one.place == "due":
            key = one.priority, one.machine, one.machine_hash, one.needs
            lines.setdefault(key, []).append(one)
    return [
        {
            "priority": priority, "machine": machine, "hash": hash,
            "runs": sum(one.runs for one in line), "due": min(one.due or 0.0 for one in line),
            "lacks": "" if found.reach.tenant else what_all_lack(found.backlog.workers, needs),
        }
        for (priority, machine, hash, needs), line in sorted(lines.items())
    ]  # fmt: skip


def _workers(found: FleetRows, alive: list[WorkerRow]) -> list[Json]:
    """The workers, what each holds, and whether it may end.

    It may not while a run has an open order that it can drive, and no other living worker. It is
    `unknown` while another one has not met such a run.
    """
    needed = {
        (one.id, end): Counter[tuple[str, str]]()
        for one in found.backlog.workers for end in ("no", "unknown")
    }  # fmt: skip
    for of in found.living if alive else ():
        lacks = {one.id: one.lacks.get(of.needs) if of.needs else "" for one in alive}
        can = [id for id, why in lacks.items() if why == ""]
        unmet = [id for id, why in lacks.items() if why is None]
        for id in (can or unmet) if of.place and len(can) < 2 else ():
            seen = found.reach.tenant in (None, of.tenant)
            version = of.machine, of.machine_hash
            needed[id, "unknown" if unmet else "no"][version] += of.runs if seen else 0
    listed = list[Json]()
    for one in found.backlog.workers:
        end = next((end for end in ("no", "unknown") if needed[one.id, end]), "yes")
        holds = [held for held in found.backlog.holds if held.worker == one.id]
        listed.append({
            "id": one.id, "program": one.face, "host": one.process.host, "pid": one.process.pid,
            "room": one.room, "until": one.until, "alive": one in alive,
            "lease_left_seconds": round(one.until - found.now, 1),
            "lacks": [*dict.fromkeys(filter(None, one.lacks.values()))], "may_end": end,
            "needed_for": [
                {"machine": machine, "hash": hash, "runs": runs}
                for (machine, hash), runs in needed.get((one.id, end), Counter()).items() if runs
            ],
            "holds": len(holds),
            "runs": [
                {"run": held.run_id, "since": held.since, "priority": held.priority}
                for held in holds[:MOST]
            ],
        })  # fmt: skip
    return listed


def what_all_lack(workers: list[WorkerRow], needs: str) -> str:
    """Why no worker can drive what needs this; empty if one can, or may."""
    whys = [worker.lacks.get(needs) for worker in workers]
    return "; ".join(dict.fromkeys(why for why in whys if why)) if whys and all(whys) else ""


def _versions(
    own: list[LivingRuns], alive: list[WorkerRow], served: Collection[str] | None
) -> list[Json]:  # fmt: skip
    """The versions of machines that have runs which have not ended, most runs first."""
    counts = dict[tuple[str, str], Counter[str]]()
    for one in own:
        phases = counts.setdefault((one.machine, one.machine_hash), Counter())
        phases["parked" if one.place == "parked" else one.phase.name] += one.runs
    able = {
        (worker.id, needs.partition(" ")[0])
        for worker in alive for needs, why in worker.lacks.items() if not why
    }  # fmt: skip
    return [
        {
            "machine": machine, "hash": hash, "runs": phases.total(), "phases": dict(phases),
            "workers": [worker.id for worker in alive if (worker.id, hash) in able],
            "served": None if served is None else hash in served,
        }
        for (machine, hash), phases in sorted(
            counts.items(), key=lambda one: (-one[1].total(), one[0])
        )
    ]  # fmt: skip


def _schedules(found: FleetRows) -> Iterator[Json]:
    house, workers = not found.reach.tenant, found.backlog.workers
    for one in found.schedules:
        stand = found.ticked.get(one.runs[-1]) if one.runs else None
        late = not one.paused and found.now - one.next > LATE
        yield {
            **{name: getattr(one, name) for name in _OF_SCHEDULE},
            "next": None if one.paused else one.next, "run": one.runs[-1] if one.runs else None,
            "phase": None if stand is None else stand.phase.name,
            "note": one.note or ("no worker has taken its tick" if late else ""),
            "lacks": what_all_lack(workers, one.needs) if house else "",
        }  # fmt: skip


def troubles(backlog: Backlog) -> Iterator[str]:
    """What keeps due runs from being driven: no worker, or what all workers lack."""
    if backlog.due and not backlog.workers:
        runs = say_count(backlog.due, "run")
        yield f"{runs} due, and no worker is there: `chartloop worker` drives them"
    for needs, count in backlog.needs.items():
        if why := what_all_lack(backlog.workers, needs):
            yield f"no worker can drive {say_count(count, 'run')}: {why}"


def say_parked(backlog: Backlog) -> Iterator[str]:
    """Which runs no worker claims, and what takes them up."""
    if resting := sum(not parked.lapses for parked in backlog.parked):
        runs = say_count(resting, "run")
        verb = "rests since it was" if resting == 1 else "rest since they were"
        yield f"{runs} {verb} imported: `chartloop journal import FILE --go-on` lets them go on"
    for parked in backlog.parked:
        if not parked.lapses:
            continue
        died = ", ".join(f"{lapse.worker} {say_time(lapse.until)}" for lapse in parked.lapses)
        yield (
            f"run {parked.run_id} is parked: its processes died without a new record ({died}); "
            f"`chartloop resume {parked.run_id}` drives it here, `chartloop resume --parked` lets "
            "workers take up all that are"
        )
