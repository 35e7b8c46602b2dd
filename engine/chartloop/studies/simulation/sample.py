"""Thousands of simulated runs, in this process or in several.

A run is drawn from the seed and its own number, so that the result is the same however the runs
are divided among processes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, Protocol

from chartloop.core.errors import SetupError
from chartloop.machine.build import Chart
from chartloop.studies.simulation.play import LONGEST, Player, Simulated, Watch
from chartloop.studies.simulation.world import World

PART = 500
"""Runs between two reports of progress."""

Progress = Callable[[int], None]
"""Called with the number of runs finished since the last call."""


class HasChart(Protocol):
    """An object with a chart, such as a `Machine`; it is pickled for other processes."""

    @property
    def chart(self) -> Chart:
        """The compiled machine."""
        ...


@dataclass
class Sample:
    """Simulated runs, with counters of the states, edges and rules that they took."""

    runs: list[Simulated] = field(default_factory=list[Simulated])
    visits: dict[str, int] = field(default_factory=dict[str, int])
    """How often each state was entered."""
    taken: dict[str, int] = field(default_factory=dict[str, int])
    """How often each edge and rule was taken, by id."""
    steps: int = 0
    """The records of all runs, without the first of each."""

    def add(self, other: Sample) -> None:
        """Add the runs of another sample."""
        self.runs += other.runs
        for mine, theirs in ((self.visits, other.visits), (self.taken, other.taken)):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
        self.steps += other.steps


@dataclass(frozen=True)
class Plan:
    """The inputs of a simulation."""

    machine: HasChart
    world: World
    start: Mapping[str, Any]
    """The data of each run's `start`: limits, variables, tasks."""
    seed: int = 0
    longest: int = LONGEST

    def player(self, watch: Sequence[Watch] = ()) -> Player:
        """Make a player for its runs."""
        return Player(self.machine.chart, self.world, self.start, longest=self.longest, watch=watch)


def sample(plan: Plan, runs: int, *, jobs: int = 1, progress: Progress | None = None) -> Sample:
    """Play this many runs in `jobs` processes; they come in the order of their numbers."""
    progress = progress or _silent
    parts = [range(n, min(n + PART, runs)) for n in range(0, runs, PART)]
    whole = Sample()
    if jobs <= 1 or len(parts) < 2:
        player = plan.player()
        for part in parts:
            whole.runs += [player.play(plan.seed, number) for number in part]
            progress(len(part))
        whole.visits, whole.taken, whole.steps = player.visits, player.taken, player.steps
        return whole
    packed = _pickle_plan(plan)
    spread = [parts[n::jobs] for n in range(min(jobs, len(parts)))]
    with ProcessPoolExecutor(len(spread), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_play_in_worker, packed, some) for some in spread]
        for future in as_completed(futures):
            part_sample = future.result()
            whole.add(part_sample)
            progress(len(part_sample.runs))
    whole.runs.sort(key=lambda run: run.number)
    return whole


def sample_runs(
    plan: Plan, runs: int, watch: Sequence[Watch], progress: Progress | None = None
) -> Sample:
    """Play this many runs, each with the greatest value of each watch."""
    player, whole = plan.player(watch), Sample()
    for number in range(runs):
        whole.runs.append(player.play(plan.seed, number))
        if progress is not None and (number + 1) % PART == 0:
            progress(PART)
    whole.visits, whole.taken, whole.steps = player.visits, player.taken, player.steps
    return whole


def _pickle_plan(plan: Plan) -> bytes:
    """Pickle the plan for another process."""
    try:
        return pickle.dumps(plan)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SetupError(
            f"the machine cannot go to another process: {error}",
            hint="use one process, or bring its tools from a module that can be imported",
        ) from error


def _silent(_: int) -> None:
    """Report no progress."""


def _play_in_worker(packed: bytes, parts: Sequence[range]) -> Sample:
    plan: Plan = pickle.loads(packed)  # noqa: S301  written by our own parent process
    player, whole = plan.player(), Sample()
    for part in parts:
        whole.runs += [player.play(plan.seed, number) for number in part]
    whole.visits, whole.taken, whole.steps = player.visits, player.taken, player.steps
    return whole
