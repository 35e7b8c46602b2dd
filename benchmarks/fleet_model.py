"""What a fleet needs, computed from measured service times: a plan, and a simulation of events.

    steps ─▶ workers ─▶ groups of appends ─▶ the commit counter of the journal's database
             CPU a step  round trips         one commit at a time: flush + events

A commit holds the counter (`journal.newest`) until it is on the disk, so commits of all workers
stand in one line. What they write together is a group, and a group is one commit.

Belongs here: arithmetic on service times. Never: a database, a clock, a file.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Generator
from itertools import count
from typing import NamedTuple, TypeAlias

DAY = 86_400.0
BUSY = 0.6
"""The share of the time for which a part is planned to work. Beyond it, waits grow fast."""
CONNECTIONS = 5
"""The most connections of a worker: four that work, one that listens."""


class Service(NamedTuple):
    """Measured service times, in seconds, and sizes, in bytes."""

    step_cpu: float
    """Processor time of a worker for a step."""
    server_cpu: float
    """Processor time of the database for a step."""
    commit: float
    """How long a commit holds the counter, whatever it writes."""
    event: float
    """How much longer for each append in it."""
    appends: float
    """Appends of a step."""
    stored: float
    """Bytes of a step on the disk, with its indexes."""
    alone: float
    """An append of a run that writes alone, from call to answer."""


class Demand(NamedTuple):
    """What is asked of a fleet."""

    runs_per_day: float
    steps: int
    model_seconds: float
    """The time of a model call. Every other step is one."""
    peak: float = 3.0
    """The busiest hour against the mean."""
    at_once: int = 20
    """Runs at once in a worker."""
    days: float = 30.0
    """How long runs are kept."""
    usd_core_month: float = 30.0
    usd_gb_month: float = 0.12


class Plan(NamedTuple):
    """What that needs."""

    steps_per_second: float
    """At the peak, as everything below."""
    runs_at_once: float
    workers: int
    worker_cores: float
    connections: int
    counter: float
    """The share of the time for which the counter is held if each append commits alone."""
    counter_in_groups: float
    """The same with the groups that form while commits wait for each other."""
    journals: int
    """Into how many journals to split."""
    server_cores: float
    gb_per_day: float
    gb: float
    usd_month: float


def plan(demand: Demand, service: Service) -> Plan:
    """The fleet for a demand, with no part busier than `BUSY` at the peak."""
    runs = demand.runs_per_day / DAY * demand.peak
    steps = runs * demand.steps
    length = demand.steps * (demand.model_seconds / 2 + service.appends * service.alone)
    at_once = runs * length
    cores = steps * service.step_cpu
    workers = max(1, math.ceil(max(at_once / demand.at_once, cores / BUSY)))
    appends = steps * service.appends
    alone = appends * (service.commit + service.event)
    # an append finds the counter free, or joins what its worker writes next
    size = group_size(appends / workers, service, workers)
    grouped = appends * (service.commit / size + service.event)
    server = steps * service.server_cpu
    per_day = demand.runs_per_day * demand.steps * service.stored / 1e9
    kept = per_day * demand.days
    rented = math.ceil(cores / BUSY) + math.ceil(server / BUSY)
    return Plan(
        steps, at_once, workers, cores, workers * CONNECTIONS, alone, grouped,
        max(1, math.ceil(grouped / BUSY)), server, per_day, kept,
        rented * demand.usd_core_month + kept * demand.usd_gb_month,
    )  # fmt: skip


def group_size(rate: float, service: Service, workers: int) -> float:
    """The appends in a commit of a worker that makes `rate` a second, one of several.

    A group holds what arrives while the one before is written: a round of the line.
    """
    size = 1.0
    for _ in range(50):
        busy = min(0.99, rate * workers * (service.commit / size + service.event))
        took = (service.commit + size * service.event) / (1 - busy)
        size = 0.5 * size + 0.5 * max(1.0, min(rate * took, 1e4))
    return size


def counter_rate(service: Service, group: float) -> float:
    """The appends a second at which the counter is held all the time, in groups of this size."""
    return group / (service.commit + group * service.event)


def rate_from_afar(near: float, runs: int, more: float) -> float:
    """The appends a second of runs that write in one group, with a longer round trip.

    A group has two: what it reads, and its commit.
    """
    return runs / (runs / near + 2 * more)


# simulation ---------------------------------------------------------------------------------------


class Fleet(NamedTuple):
    """What is simulated."""

    workers: int
    at_once: int
    runs: int
    steps: int
    model_seconds: float = 0.0
    round_trip: float = 0.0
    cores: float = math.inf
    """Of the machine that all of it shares."""


class Simulated(NamedTuple):
    """What came of it."""

    seconds: float
    steps_per_second: float
    group: float
    """Appends in a commit, on average."""


class Station:
    """Servers with one line before them."""

    def __init__(self, simulation: Simulation, servers: float = 1) -> None:
        self._simulation, self._free = simulation, servers
        self._line: deque[Process] = deque()

    def take(self, process: Process) -> None:
        """Serve a process now, or when it is its turn."""
        self._line.append(process)
        self._serve()

    def give(self) -> None:
        """Be free again."""
        self._free += 1
        self._serve()

    def _serve(self) -> None:
        while self._line and self._free > 0:
            self._free -= 1
            self._simulation.later(0.0, self._line.popleft())


Process: TypeAlias = "Generator[float | Station | None, None, None]"
"""It yields the seconds that it takes, a station that it needs, or None until somebody wakes it."""


class Simulation:
    """Processes in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self.current: Process
        self._events: list[tuple[float, int, Process]] = []
        self._order = count()

    def later(self, seconds: float, process: Process) -> None:
        """Go on with a process after a while."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), process))

    def run(self) -> None:
        """Until nothing is left to do."""
        while self._events:
            self.now, _, self.current = heapq.heappop(self._events)
            wanted = next(self.current, None)
            if isinstance(wanted, Station):
                wanted.take(self.current)
            elif wanted is not None:
                self.later(wanted, self.current)


class Worker:
    """A simulated worker: a loop that drives runs, and a journal that writes in groups."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self._loop = shared, Station(shared.simulation)
        self._waiting: list[Process] = []
        self._writes = False

    def drive(self) -> Process:
        """Drive one run after another while there are any."""
        simulation, fleet, service, *_ = shared = self._shared
        while shared.due:
            shared.due.pop()
            for step in range(fleet.steps):
                if step % 2 and fleet.model_seconds:
                    yield fleet.model_seconds
                yield self._loop
                yield from shared.work(service.step_cpu)
                self._loop.give()
                for _ in range(int((step + 1) * service.appends) - int(step * service.appends)):
                    self._waiting.append(simulation.current)
                    if not self._writes:
                        self._writes = True
                        simulation.later(0.0, self._write())
                    yield None

    def _write(self) -> Process:
        """Write what waits, in groups, until nothing does."""
        simulation, fleet, service, *_ = shared = self._shared
        while group := self._waiting:
            self._waiting = []
            shared.groups.append(len(group))
            yield 2 * fleet.round_trip
            yield from shared.work(len(group) * service.server_cpu / service.appends)
            yield shared.counter
            yield service.commit + len(group) * service.event
            shared.counter.give()
            for process in group:
                simulation.later(0.0, process)
        self._writes = False


class Shared(NamedTuple):
    """What simulated workers share."""

    simulation: Simulation
    fleet: Fleet
    service: Service
    cores: Station
    counter: Station
    due: list[int]
    groups: list[int]
    """The appends of each commit."""

    def work(self, seconds: float) -> Process:
        """Use a core."""
        yield self.cores
        yield seconds
        self.cores.give()


def simulate(fleet: Fleet, service: Service) -> Simulated:
    """Drive the runs of a fleet. Every other step asks the model."""
    simulation = Simulation()
    cores, counter = Station(simulation, fleet.cores), Station(simulation)
    shared = Shared(simulation, fleet, service, cores, counter, [*range(fleet.runs)], [])
    for worker in [Worker(shared) for _ in range(fleet.workers)]:
        for _ in range(fleet.at_once):
            simulation.later(0.0, worker.drive())
    simulation.run()
    rate = fleet.runs * fleet.steps / simulation.now
    return Simulated(simulation.now, rate, sum(shared.groups) / len(shared.groups))
