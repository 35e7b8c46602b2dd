"""`simulate` and `simulated_run`: a world is read or learnt, then runs are played.

Belongs here: combining this folder with the bound, tasks and values of a machine. Never: the
simulation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from chartloop import catalog
from chartloop.adapters.journal.opening import JournalOrPath, journal_of
from chartloop.api.caller_values import checked_values, first_tasks
from chartloop.api.machine import Machine
from chartloop.api.run import Run
from chartloop.core.facts import EMPTY
from chartloop.core.records import Record
from chartloop.language.yaml.document import Document
from chartloop.run.journal import Event, Journal, MemoryJournal, RunRow, Update
from chartloop.run.question import update_at
from chartloop.run.recorded import RecordedRun
from chartloop.run.replay import moment_before
from chartloop.run.session import start_data
from chartloop.run.sync import wait
from chartloop.studies.recorded_runs import Runs, recorded_runs
from chartloop.studies.simulation.learn import learn
from chartloop.studies.simulation.limits import suggestions
from chartloop.studies.simulation.sample import Plan, sample
from chartloop.studies.simulation.simulation import Simulation
from chartloop.studies.simulation.world import World
from chartloop.studies.simulation.world_file import read_world, world_of

Given: TypeAlias = "World | Mapping[str, Any] | str | Path | None"
"""A world, the data of a world file, or the path of one."""
LONGEST = 10_000
"""Steps after which a run is abandoned."""
RUNS = 10_000
"""Default number of runs."""
THIN = 30
"""Below this many samples, a learnt state is reported as thin."""


def simulate(  # noqa: PLR0913  each is one independent option of a caller
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
    """Simulate thousands of runs on a simulated clock, without effects.

        simulate(machine, runs=10_000, seed=0)
        simulate(machine, "world.yaml", at_most=0.01).suggestions

    `world` gives the probabilities of what comes from outside: a `World`, the path of a world
    file, or the data of one. Whatever it leaves open is assumed, and listed in the result. A world
    can be learnt instead: `learn_from` is a journal or its path, a run, an exported ``.jsonl``, or
    a list of these; unreadable runs are left out. `smooth` adds this many samples of the default
    assumptions.

    `at_most` asks for suggestions: limits that stop at most this share of the runs that would have
    ended by themselves. The same seed gives the same runs, whatever the number of processes,
    `jobs`. A run is abandoned after `longest` steps.

    Raises:
        SpecError: the world file has errors.
        SetupError: the world gives no probability for a Python guard.
        LimitError: a run would refuse a limit or a variable.
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
    """One run of `simulate` with this seed, opened for inspection.

    It has records, `why` and a picture like any run, under the id ``sim-SEED-NUMBER`` in `journal`,
    by default in memory. Its clock starts in 1970.
    """
    chosen, first = checked_values(machine.spec, limits, vars)
    made = world_for(machine, world, learn_from, smooth)
    records: list[Record] = []
    player = make_plan(machine, made, seed, limits=chosen, vars=first, tasks=tasks).player()
    played = player.play(seed, number, records)
    target = MemoryJournal() if journal is None else journal_of(journal)
    run_id = f"sim-{seed}-{number}"
    row = RunRow(run_id, machine.spec.name, machine.hash, state=machine.spec.start)
    end = moment_before(machine.chart, records, len(records), run_id)
    update = update_at(machine.chart, run_id, end.position, end.rest, reason=played.reason)
    wait(_store(target, row, machine.canonical(), records, update), suspends=target.suspends)
    return machine.open(run_id, journal=target)


async def _store(
    journal: Journal, row: RunRow, text: str, records: Sequence[Record], update: Update
) -> None:
    """Write a simulated run into a journal."""
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
    """Make the plan of a simulation, whose runs start as real ones do."""
    queue = first_tasks(machine.spec, machine.folder or Path(), tasks)
    start = start_data(
        task=world.task, limits=limits, vars=vars, tasks=[task.to_dict() for task in queue]
    )
    return Plan(machine, world, start, seed)


def world_for(machine: Machine, given: Given, learn_from: Runs = (), smooth: float = 0.0) -> World:
    """The world from a file, from data, or learnt from recorded runs; empty without any."""
    if isinstance(given, World):
        return given
    if isinstance(given, Mapping):
        return world_of(Document({**given}, "", ""), machine.spec)
    if given is not None:
        path = Path(given)
        return read_world(
            catalog.read_text(path), file=catalog.display_path(path), spec=machine.spec
        )
    recorded = recorded_runs(learn_from, machine.spec.name)
    runs = [run for run in recorded if isinstance(run, RecordedRun)]
    return learn(machine.chart, runs, smooth=smooth) if runs else World()
