"""A journal of a fleet with everything that its view tells: for the view's tests and pictures.

Three workers on other hosts, two versions of a machine, one that only a single worker can drive and
one that none can, runs of a tenant, parked runs, schedules, limits and a call in doubt. All of it is
written by the journal's own port, on a clock of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from chartloop import Machine, load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.hosting.machines import needs_of
from chartloop.hosting.runs import release
from chartloop.run.cron import CronSchedule
from chartloop.run.fleet import FleetLimit, Reservation
from chartloop.run.journal import Event, Journal
from chartloop.run.lease import Driver
from chartloop.run.processes import Process
from chartloop.run.requests import start_order
from chartloop.run.schedule import LAPSES, WorkerRow
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock

DESK = """\
chartloop: 1
machine: desk
title: Answers letters
limits: {{steps: {steps}}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  read: {{label: Read the letter, do: nothing, next: approve}}
  approve: {{ask: "Send this answer to {{run.task}}?", on: {{yes: done}}}}
  done: {{stop: completed}}
"""
OTHER = """\
chartloop: 1
machine: {name}
title: {title}
limits: {{steps: 9}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  go: {{do: nothing, next: done}}
  done: {{stop: completed}}
"""
TITLES = {
    "digest": "A digest of the day",
    "scan": "Reads scanned letters",
    "archive": "Files what is done",
}
EAST, WEST, NEW = "east-4711-ab12cd", "west-12-3fa9c1", "new-881-0be77a"
LACKS = "no tool `ocr` is here: `--tools` names the file that has it"
TENANT = "acme"


class Seeded(NamedTuple):
    """What was written."""

    path: Path
    now: float
    old: Machine
    new: Machine
    parked: list[str]
    doubt: str
    """The run of the call in doubt."""


def seed(folder: Path, *, size: int = 1) -> Seeded:  # noqa: PLR0915  one fleet, in the order of time
    """Write `folder/journal.db`, with some fifty runs for each `size`, and the machines that are served."""
    now = time.time()
    clock = ManualClock(now - 3_600.0)
    journal = SqliteJournal(folder / "journal.db", now=clock.now)
    (folder / "machines").mkdir(exist_ok=True)
    machine = {
        "old": load(DESK.format(steps=8)), "new": load(DESK.format(steps=9)),
        **{
            name: load(OTHER.format(name=name, title=title)) for name, title in TITLES.items()
        },
    }  # fmt: skip
    (folder / "machines" / "desk.yaml").write_text(DESK.format(steps=9))
    (folder / "machines" / "digest.yaml").write_text(
        OTHER.format(name="digest", title=TITLES["digest"])
    )
    needs = dict[str, str]()

    def start(
        of: str, name: str, number: int, *, due: float | None = 0.0, until: str = "",
        tenant: str | None = None, priority: int = 5,
    ) -> list[str]:  # fmt: skip
        """Runs that were begun; due in so many seconds, or with None without an order."""
        made = list[str]()
        for n in range(number):
            run = machine[of].start(
                f"{name} {n + 1}", run_id=f"{name}-{n + 1}", tenant=tenant, priority=priority,
                journal=journal,
            )  # fmt: skip
            run.advance()
            while until and run.status != until:
                run.step()
            release(run)
            row = run.session.row
            needs[of] = needs_of(journal, row)
            if due is not None:
                by_hand(
                    journal.place_request(start_order(row.run_id, clock.now() + due, needs[of]))
                )
            made.append(row.run_id)
        return made

    workers = [
        WorkerRow(id, "chartloop worker", Process(f"{id.partition('-')[0]}.example.org", 4711, "-", "-"), 20)
        for id in (EAST, WEST, NEW)
    ]  # fmt: skip

    # those that killed their workers
    parked = [
        *start("digest", "poison", 6 * size), *start("digest", "poison", 2 * size, tenant=TENANT)
    ]  # fmt: skip
    for lapse in range(1 + LAPSES):  # the first beside others, which counts for none of them
        dead = workers[0]._replace(id=f"gone-{lapse}-77aa{lapse}{lapse}")
        by_hand(journal.keep(dead, ttl=30.0))
        by_hand(journal.claim(dead.id, 999, {needs["digest"]: True}, alone=lapse > 0))
        clock.advance(31.0)
        by_hand(journal.sweep())
    # those that wait: a worker claimed them, and handed them back
    start("old", "letter", 7 * size, until="paused")
    start("new", "mail", 14 * size, until="paused")
    start("new", "mail", 4 * size, until="paused", tenant=TENANT)
    start("scan", "page", 2 * size)
    last = workers[0]._replace(id="last-1-aaaaaa")
    by_hand(journal.keep(last, ttl=30.0))
    can = dict.fromkeys(needs.values(), True)
    for run in by_hand(journal.claim(last.id, 999, can)).runs:
        by_hand(
            journal.hand_back(
                last.id, run, now + 7_200.0 if run.request.run_id.startswith("page") else None
            )
        )
    by_hand(journal.keep(last, ttl=0.0))
    start("new", "note", 2 * size, due=None, until="paused")  # nobody was asked to drive these
    clock.advance(now - 700.0 - clock.now())
    # those that are held
    start("new", "held", 2 * size)
    start("new", "held", 1, tenant=TENANT)
    known = {needs["new"]: "", needs["old"]: "", needs["digest"]: "", needs["scan"]: LACKS}
    lacks = [known, {**known, needs["scan"]: ""}, {needs["new"]: "", needs["scan"]: LACKS}]
    start("archive", "file", size)
    for worker, lacking in zip(workers, lacks, strict=True):
        lacking[needs["archive"]] = "no file in its folders is this machine `archive`"
        by_hand(journal.keep(worker._replace(lacks=lacking), ttl=3_600.0 + 700.0))
        by_hand(journal.claim(worker.id, 1 + size * 3 // 4, {needs["new"]: True}))
        clock.advance(60.0)
    # those that are due
    for priority, of, name, number in (
        (1, "new", "urgent", 1),
        (5, "new", "mail-in", 5),
        (9, "digest", "daily", 6),
    ):
        start(of, name, number * size, priority=priority)
        clock.advance(120.0)
    start("new", "mail-in", 2 * size, tenant=TENANT)
    # those that have ended count nowhere
    for number in range(3 * size):
        machine["digest"].start("x", run_id=f"ended-{number}", journal=journal).run()
    doubt = _limits(journal, clock, start("digest", "paid", 2, due=None))
    clock.advance(now - clock.now())
    _schedules(journal, machine, now, start("digest", "morning", 1))
    by_hand(journal.close())
    return Seeded(folder / "journal.db", now, machine["old"], machine["new"], parked, doubt)


def _limits(journal: Journal, clock: ManualClock, runs: list[str]) -> str:
    """Limits with what is used, reserved and in doubt; gives the run whose call is in doubt."""
    for limit in (
        FleetLimit("fleet", "cost", "day", 50.0, 31.25),
        FleetLimit("agent:writer", "tokens", "all", 5_000_000.0, 4_600_000.0),
        FleetLimit("model:openai/gpt-4o", "requests", "minute", 600.0),
        FleetLimit(f"tenant:{TENANT}", "cost", "day", 20.0, 20.0),
        FleetLimit(f"session:{TENANT}:chat", "tokens", "all", 9_000.0, 100.0),
    ):
        by_hand(journal.set_limit(limit))
    for number, run_id in enumerate(runs):
        row, _ = by_hand(journal.acquire(run_id, Driver("a")))
        key, scopes = f"{run_id}/go/1", ("fleet",)
        by_hand(
            journal.reserve(Reservation(run_id, row.epoch, row.head, key, scopes, {"cost": 2.5}))
        )
        if number == 0:  # its driver wrote that it calls, and died
            intent = Event(row.head, "intent", clock.now(), None, {"key": key, "state": "go"})
            by_hand(journal.append(run_id, row.head, row.epoch, [intent]))
            by_hand(journal.acquire(run_id, Driver("b"), take_over=True))
    return runs[0]


def _schedules(journal: Journal, machine: dict[str, Machine], now: float, ran: list[str]) -> None:
    digest, hour = machine["digest"], 3_600.0

    def made(name: str, **more: Any) -> CronSchedule:
        start = {"task": "x", "tenant": more.pop("tenant", None)}
        following = more.pop("next", now + hour)
        return CronSchedule(
            name, digest.name, digest.hash, (start,), now - 9 * hour, following, **more
        )  # fmt: skip

    for one in (
        made(
            "morning", cron="0 9 * * 1-5", timezone="Europe/Berlin", last=now - hour, runs=(*ran,)
        ),
        made(
            "poll",
            every=900.0,
            next=now + 300.0,
            last=now - 600.0,
            note="the tick of 2026-11-30T09:00:00Z was skipped: run `poll-1` has not ended",
        ),
        made("late", every=300.0, next=now - 400.0),
        made("weekly", cron="0 6 * * 1", paused=True),
        made(f"{TENANT}-report", every=86_400.0, tenant=TENANT),
    ):
        by_hand(journal.put_cron(None, one))


@dataclass(frozen=True)
class Fact:
    """Something that is true of the seeded fleet, with `size` 1, for each who asks."""

    name: str
    read: Callable[[Any], Any]
    """Takes it out of the view."""
    every: Any
    """For who sees all tenants."""
    house: Any
    """For a token without a tenant."""
    tenant: Any
    """For a token of `TENANT`."""
    shown: str = ""
    """What the page shows of it to who sees all, in its section or above: `section: pattern`."""
    watched: str = ""
    """What a line of `runs --watch` says of it."""


def _each(part: str, *fields: str) -> Callable[[Any], Any]:
    """Fields of the rows of a list."""
    return lambda view: [tuple(one[field] for field in fields) for one in view[part]]


POISON = [f"poison-{n + 1}" for n in range(6)]
OWN_POISON = [f"{TENANT}:poison-1", f"{TENANT}:poison-2"]
ARCHIVE = "no file in its folders is this machine `archive`"
FLEET_LIMIT, WRITER, MODEL = (
    ("fleet", "cost", 33.75, 2.5, 13.75), ("agent:writer", "tokens", 4_600_000.0, 0.0, 400_000.0),
    ("model:openai/gpt-4o", "requests", 0.0, 0.0, 600.0),
)  # fmt: skip
OWN_LIMITS = [
    (f"session:{TENANT}:chat", "tokens", 100.0, 0.0, 8_900.0), (f"tenant:{TENANT}", "cost", 20.0, 0.0, 0.0)
]  # fmt: skip
SCHEDULES = ["late", "morning", "poll", "weekly"]
SKIPPED = "the tick of 2026-11-30T09:00:00Z was skipped: run `poll-1` has not ended"

DIED = {"its process died 6 times, without a new record"}
WORKERS = [
    (id, "chartloop worker", f"{id.partition('-')[0]}.example.org", 20) for id in (EAST, NEW, WEST)
]

FACTS = (
    Fact("due", lambda v: v["due"], 16, 14, 2, r"figures: 16 due", "16 due"),
    Fact("oldest", lambda v: round(v["oldest_due_seconds"] - v["at"] + v["seeded"]), 700, 700, 160, r"figures: oldest for 1[12] min", "(oldest 1"),
    Fact("held", lambda v: v["held"], 3, 2, 1, r"figures: 3 held", "3 held"),
    Fact("resting", lambda v: v["resting"], 27, 23, 4, r"figures: 27 resting", "27 resting"),
    Fact("parked", _each("parked", "run"), [(run,) for run in OWN_POISON + POISON], [(run,) for run in POISON], [(run,) for run in OWN_POISON], r"parked: poison-6", "8 parked"),
    Fact("why-parked", lambda v: {one["why"] for one in v["parked"]}, DIED, DIED, DIED, r"parked: its process died 6 times", "died without a new record"),
    Fact("queue", _each("queue", "priority", "machine", "runs"),
         [(1, "desk", 1), (5, "archive", 1), (5, "desk", 7), (5, "digest", 1), (9, "digest", 6)],
         [(1, "desk", 1), (5, "archive", 1), (5, "desk", 5), (5, "digest", 1), (9, "digest", 6)], [(5, "desk", 2)], r"queue: 9\s+digest \w+\s+6"),
    Fact("nobody-can", lambda v: [one["lacks"] for one in v["queue"] if one["lacks"]], [ARCHIVE], [ARCHIVE], [], r"queue: no worker can drive it: no file", "no worker can drive 1 run: no file"),
    Fact("troubles", lambda v: v["troubles"], [f"no worker can drive 1 run: {ARCHIVE}"], [f"no worker can drive 1 run: {ARCHIVE}"], [], r"troubles: no worker can drive 1 run", "no worker can drive 1 run"),
    Fact("workers", _each("workers", "id", "program", "host", "room"), WORKERS, WORKERS, [], r"workers: west-12-3fa9c1\s+chartloop worker on west.example.org", "3 workers"),
    Fact("holds", lambda v: {one["id"]: [held["run"] for held in one["runs"]] for one in v["workers"]},
         {EAST: ["held-1"], NEW: ["held-2"], WEST: [f"{TENANT}:held-1"]}, {EAST: ["held-1"], NEW: ["held-2"], WEST: []}, {}, r"workers: 1 of 20"),
    Fact("alive", lambda v: {one["alive"] for one in v["workers"]}, {True}, {True}, set(), r"workers: 1 h"),
    Fact("may-end", lambda v: {one["id"]: one["may_end"] for one in v["workers"]}, {EAST: "yes", NEW: "yes", WEST: "no"}, {EAST: "yes", NEW: "yes", WEST: "no"}, {}, r"workers: no other worker can drive: 2 runs of scan"),
    Fact("versions", _each("versions", "machine", "runs"), [("desk", 31), ("digest", 17), ("desk", 7), ("scan", 2), ("archive", 1)], [("desk", 24), ("digest", 15), ("desk", 7), ("scan", 2), ("archive", 1)], [("desk", 7), ("digest", 2)], r"versions: desk \w+\s+31"),
    Fact("phases", lambda v: v["versions"][0]["phases"], {"waiting": 20, "queued": 8, "running": 3}, {"waiting": 16, "queued": 6, "running": 2}, {"waiting": 4, "queued": 2, "running": 1}, r"versions: waits for someone 20"),
    Fact("drivers", lambda v: {one["machine"]: one["workers"] for one in v["versions"]}["digest"], [EAST, WEST], [EAST, WEST], [], r"versions: east-4711-ab12cd, west-12-3fa9c1"),
    Fact("schedules", _each("schedules", "name"), [(name,) for name in [f"{TENANT}-report", *SCHEDULES]], [(name,) for name in SCHEDULES], [(f"{TENANT}-report",)], r"schedules: weekly"),
    Fact("paused", lambda v: [one["name"] for one in v["schedules"] if one["paused"]], ["weekly"], ["weekly"], [], r"schedules: paused"),
    Fact("next", lambda v: [round((one["next"] - v["seeded"]) / 60) for one in v["schedules"] if one["next"]], [60, -7, 60, 5], [-7, 60, 5], [60], r"schedules: 6 min \d+ s late|schedules: 7 min( \d+ s)? late"),
    Fact("ticked", lambda v: [(one["run"], one["phase"]) for one in v["schedules"] if one["run"]], [("morning-1", "queued")], [("morning-1", "queued")], [], r"schedules: morning-1"),
    Fact("notes", lambda v: [one["note"] for one in v["schedules"] if one["note"]], ["no worker has taken its tick", SKIPPED], ["no worker has taken its tick", SKIPPED], [], r"schedules: was skipped: run poll-1 has not ended"),
    Fact("limits", _each("limits", "scope", "what", "used", "held", "left"), [WRITER, FLEET_LIMIT, MODEL, *OWN_LIMITS], [WRITER, FLEET_LIMIT, MODEL], OWN_LIMITS, r"limits: \$33\.75\s+\$2\.50\s+\$2\.50\s+\$13\.75\s+\$50\.00"),
    Fact("resets", lambda v: {one["scope"]: one["resets"] and one["resets"] % 86_400 for one in v["limits"] if one["what"] == "cost"}, {"fleet": 0, f"tenant:{TENANT}": 0}, {"fleet": 0}, {f"tenant:{TENANT}": 0}, r"limits: \d+ (h|min|s)"),
    Fact("in-doubt-of-limits", lambda v: [one["in_doubt"] for one in v["limits"] if one["in_doubt"]], [2.5], [2.5], [], r"limits: \$2\.50"),
    Fact("in-doubt", _each("in_doubt", "run_id", "key"), [("paid-1", "paid-1/go/1")], [("paid-1", "paid-1/go/1")], [], r"limits: a call of paid-1 is in doubt"),
)  # fmt: skip
"""The truth about the seeded fleet. Every reader is held against the same table."""
