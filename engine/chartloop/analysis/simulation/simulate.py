"""`simulate` and `simulated_run`: a world is read or learnt, then runs are played.

Belongs here: putting this folder together with the bound, tasks and values of a machine. Never: a
simulation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from chartloop import catalog
from chartloop.analysis.recorded_runs import Runs, recorded_runs
from chartloop.analysis.simulation.learn import learn
from chartloop.analysis.simulation.limits import suggestions
from chartloop.analysis.simulation.sample import Plan, sample
from chartloop.analysis.simulation.simulation import Simulation
from chartloop.analysis.simulation.world import World
from chartloop.analysis.simulation.world_file import read_world, world_of
from chartloop.api.caller_values import checked_values, first_tasks
from chartloop.api.machine import Machine
from chartloop.api.run import Run
from chartloop.api.wiring import JournalOrPath, journal_of
from chartloop.core.facts import EMPTY
from chartloop.core.records import Record
from chartloop.language.yaml.document import Document
from chartloop.run.journal import Event, Journal, MemoryJournal, RunRow, Update
from chartloop.run.question import update_at
from chartloop.run.recorded import RecordedRun
from chartloop.run.replay import moment_before
from chartloop.run.session import start_data
from chartloop.run.sync import wait

Given: TypeAlias = "World | Mapping[str, Any] | str | Path | None"
"""A world: itself, what a world file holds, or the path of one."""
LONGEST = 10_000
"""Steps after which a run is left."""
RUNS = 10_000
"""Of a simulation, unless someone says how many."""
THIN = 30
"""Samples below which a learnt state is said to be little known."""


def simulate(  # noqa: PLR0913  each is one thing that a caller may say
    machine: Machine,
    world: Given = None,
    *,
    runs: int = RUNS,
    seed: int = 0,
    limits: Mapping[str, Any] | None = None,
    vars: Mapping[str, Any] | None = None,
    tasks: Sequence[Any] | None = None,
    learn_from: Runs = (),
    smooth: float = 0.0,
    at_most: float | None = None,
    jobs: int = 1,
    longest: int = LONGEST,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """The results of thousands of runs, on a simulated clock and without effects.

        simulate(machine, runs=10_000, seed=0)
        simulate(machine, "world.yaml", at_most=0.01).suggestions

    `world` says what comes from outside, with which probability: a `World`, the path of a
    world file, or what such a file holds; what it leaves open is assumed, and said. It may be
    learnt: `learn_from` is a journal or the path of its file, a run, an exported ``.jsonl``, or
    a list of these, `smooth`ed with so many samples of what is assumed; runs that cannot be
    read are left out.
    `at_most` asks for suggestions: limits that stop at most so large a share of the runs that
    would have ended by themselves. The same seed gives the same runs, whatever `jobs`, the
    number of processes. A run is left after its `longest` steps, where nothing ends it before.

    Raises:
        SpecError: what is wrong with the world file.
        SetupError: a Python guard of which no one says how often it holds.
        LimitError: a limit or variable that a run would refuse.
    """
    made = world_for(machine, world, learn_from, smooth)
    chosen, first = checked_values(machine.spec, limits, vars)
    plan = make_plan(machine, made, seed, limits=chosen, vars=first, tasks=tasks)
    plan = replace(plan, longest=longest)
    player = plan.player()
    played = sample(plan, runs, jobs=jobs, progress=progress)
    suggested = () if at_most is None else suggestions(
        plan, at_most=at_most, progress=progress,
        bound=lambda more: machine.bound(limits={**chosen, **more}, vars=first),
    )  # fmt: skip
    thin = {name: count for name, count in made.samples.items() if count < THIN}
    return Simulation(
        machine.spec.name, machine.hash, played, seed, machine.bound(limits=chosen, vars=first),
        tuple(player.outcomes.assumptions), made.about if made.runs else "", thin, suggested,
        at_most, player.outcomes.unplayed,
    )  # fmt: skip


def simulated_run(  # noqa: PLR0913  as `simulate`
    machine: Machine,
    number: int,
    world: Given = None,
    *,
    seed: int = 0,
    limits: Mapping[str, Any] | None = None,
    vars: Mapping[str, Any] | None = None,
    tasks: Sequence[Any] | None = None,
    learn_from: Runs = (),
    smooth: float = 0.0,
    journal: JournalOrPath | None = None,
) -> Run:
    """One of the simulated runs, to be looked at: `simulate` with this seed has it, too.

    It is a run as any other, with records, `why` and a picture, under the id
    ``sim-SEED-NUMBER`` in `journal`, by default in memory. Its clock started in 1970.
    """
    chosen, first = checked_values(machine.spec, limits, vars)
    made = world_for(machine, world, learn_from, smooth)
    records: list[Record] = []
    player = make_plan(machine, made, seed, limits=chosen, vars=first, tasks=tasks).player()
    found = player.play(seed, number, records)
    kept = MemoryJournal() if journal is None else journal_of(journal)
    run_id = f"sim-{seed}-{number}"
    row = RunRow(run_id, machine.spec.name, machine.hash, state=machine.spec.start)
    there = moment_before(machine.chart, records, len(records), run_id)
    stands = update_at(machine.chart, run_id, there.position, there.rest, reason=found.reason)
    wait(_keep(kept, row, machine.canonical(), records, stands), suspends=kept.suspends)
    return machine.open(run_id, journal=kept)


async def _keep(
    journal: Journal, row: RunRow, text: str, records: Sequence[Record], update: Update
) -> None:
    """Put a simulated run into a journal."""
    await journal.put_blob(text)
    await journal.create(row)
    row, _ = await journal.acquire(row.run_id)
    events = [
        Event(n, "record", record.input.at, record, EMPTY, row.epoch)
        for n, record in enumerate(records)
    ]
    await journal.append(row.run_id, 0, row.epoch, events, update=update)


def make_plan(
    machine: Machine, world: World, seed: int, *, limits: Mapping[str, Any],
    vars: Mapping[str, Any], tasks: Sequence[Any] | None,
) -> Plan:  # fmt: skip
    """The plan of a simulation: each run starts as a real one does."""
    queue = first_tasks(machine.spec, machine.folder or Path(), tasks)
    start = start_data(
        task=world.task, limits=limits, vars=vars, tasks=[task.to_dict() for task in queue]
    )
    return Plan(machine, world, start, seed)


def world_for(machine: Machine, given: Given, learn_from: Runs = (), smooth: float = 0.0) -> World:
    """The world that someone gives, as a file, as data or as recorded runs."""
    if isinstance(given, World):
        return given
    if isinstance(given, Mapping):
        return world_of(Document({**given}, "", ""), machine.spec)
    if given is not None:
        path = Path(given)
        return read_world(
            catalog.read_text(path), file=catalog.display_path(path), spec=machine.spec
        )
    found = recorded_runs(learn_from, machine.spec.name)
    runs = [run for run in found if isinstance(run, RecordedRun)]
    return learn(machine.chart, runs, smooth=smooth) if runs else World()
