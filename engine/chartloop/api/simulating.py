"""Simulations of a machine: a world is read or learnt, runs are played.

A part of `Machine`. Belongs here: putting the folder `simulation` together with bound, tasks and
values of a machine. Never: a simulation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from chartloop import catalog
from chartloop.api.bounds import checked_values
from chartloop.api.journals import JournalOrPath, journal_of
from chartloop.api.tasks import first_tasks
from chartloop.core.facts import EMPTY
from chartloop.core.records import Record
from chartloop.language.spec import MachineSpec
from chartloop.language.yaml.document import Document
from chartloop.machine.build import Chart
from chartloop.run.journal import Event, Journal, MemoryJournal, RunRow, Update
from chartloop.run.recorded import RecordedRun
from chartloop.run.session import start_data
from chartloop.run.sync import wait

if TYPE_CHECKING:
    from chartloop.analysis.simulation.play import Simulated as Played
    from chartloop.analysis.simulation.result import Simulation
    from chartloop.analysis.simulation.sample import Plan
    from chartloop.analysis.simulation.world import World
    from chartloop.api.recorded import Runs
    from chartloop.api.run import Run
    from chartloop.proofs.bound import Bound

    Given = World | Mapping[str, Any] | str | Path | None

LONGEST = 10_000
"""Steps after which a run is left."""
RUNS = 10_000
"""Of a simulation, unless somebody says how many."""
THIN = 30
"""Samples below which a learnt state is said to be little known."""


class Simulated(Protocol):
    """What a simulation needs of its machine. `Machine` is one."""

    chart: Chart
    folder: Path | None

    @property
    def spec(self) -> MachineSpec:
        """What its file says."""
        ...

    @property
    def hash(self) -> str:
        """The hash of its canonical text."""
        ...

    def canonical(self) -> str:
        """Its canonical text."""
        ...

    def open(self, run_id: str, *, journal: Journal) -> Run:
        """A run that is in the journal."""
        ...

    def bound(
        self, *, limits: Mapping[str, Any] | None = None, vars: Mapping[str, Any] | None = None
    ) -> Bound:
        """The worst that a run can cost."""
        ...


class HasSimulation:
    """The methods of a machine that simulate it."""

    def simulate(  # noqa: PLR0913  each is one thing that a caller may say
        self: Simulated,
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
        """What thousands of runs come to, on a simulated clock and without effects.

            machine.simulate(runs=10_000, seed=0)
            machine.simulate("world.yaml", at_most=0.01).suggestions

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
            SetupError: a Python guard of which nobody says how often it holds.
            LimitError: a limit or variable that a run would refuse.
        """
        from chartloop.analysis.simulation.limits import suggestions  # noqa: PLC0415  when it is asked for
        from chartloop.analysis.simulation.result import Simulation  # noqa: PLC0415
        from chartloop.analysis.simulation.sample import sample  # noqa: PLC0415

        made = world_for(self, world, learn_from, smooth)
        chosen, first = checked_values(self.spec, limits, vars)
        plan = planned(self, made, seed, limits=chosen, vars=first, tasks=tasks)
        plan = replace(plan, longest=longest)
        player = plan.player()
        played = sample(plan, runs, jobs=jobs, progress=progress)
        suggested = () if at_most is None else suggestions(
            plan, at_most=at_most, progress=progress,
            bound=lambda more: self.bound(limits={**chosen, **more}, vars=first),
        )  # fmt: skip
        thin = {name: count for name, count in made.samples.items() if count < THIN}
        return Simulation(
            self.spec.name, self.hash, played, seed, self.bound(limits=chosen, vars=first),
            tuple(player.outcomes.assumptions), made.about if made.runs else "", thin, suggested,
            at_most, player.outcomes.unplayed,
        )  # fmt: skip

    def simulated_run(  # noqa: PLR0913  as `simulate`
        self: Simulated,
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
        ``sim-SEED-NUMBER`` in `journal`, by default in memory. Its clock began in 1970.
        """
        chosen, first = checked_values(self.spec, limits, vars)
        made = world_for(self, world, learn_from, smooth)
        records: list[Record] = []
        player = planned(self, made, seed, limits=chosen, vars=first, tasks=tasks).player()
        found = player.play(seed, number, records)
        kept = MemoryJournal() if journal is None else journal_of(journal)
        run_id = f"sim-{seed}-{number}"
        row = RunRow(run_id, self.spec.name, self.hash, state=self.spec.start)
        wait(_keep(kept, row, self.canonical(), records, found), suspends=kept.suspends)
        return self.open(run_id, journal=kept)


async def _keep(
    journal: Journal, row: RunRow, text: str, records: Sequence[Record], found: Played
) -> None:
    """Put a simulated run into a journal."""
    await journal.put_blob(text)
    await journal.create(row)
    row, _ = await journal.acquire(row.run_id)
    last = records[-1]
    update = Update(last.status, last.next, found.reason, found.actions, last.wake_at)
    events = [
        Event(n, "record", record.input.at, record, EMPTY, row.epoch)
        for n, record in enumerate(records)
    ]
    await journal.append(row.run_id, 0, row.epoch, events, update=update)


def planned(
    machine: Simulated, world: World, seed: int, *, limits: Mapping[str, Any],
    vars: Mapping[str, Any], tasks: Sequence[Any] | None,
) -> Plan:  # fmt: skip
    """What is simulated: each run begins as a real one does."""
    from chartloop.analysis.simulation.sample import Plan  # noqa: PLC0415

    queue = first_tasks(machine.spec, machine.folder or Path(), tasks)
    start = start_data(
        task=world.task, limits=limits, vars=vars, tasks=[task.to_dict() for task in queue]
    )
    return Plan(machine, world, start, seed)


def world_for(
    machine: Simulated, given: Given, learn_from: Runs = (), smooth: float = 0.0
) -> World:
    """The world that somebody gives, as a file, as data or as recorded runs."""
    from chartloop.analysis.simulation.learn import learn  # noqa: PLC0415
    from chartloop.analysis.simulation.world import World  # noqa: PLC0415
    from chartloop.analysis.simulation.world_file import read_world, world_of  # noqa: PLC0415
    from chartloop.api.recorded import recorded_runs  # noqa: PLC0415  it needs `api.run`

    if isinstance(given, World):
        return given
    if isinstance(given, Mapping):
        return world_of(Document({**given}, "", ""), machine.spec)
    if given is not None:
        path = Path(given)
        return read_world(catalog.read_text(path), file=catalog.shown(path), spec=machine.spec)
    found = recorded_runs(learn_from, machine.spec.name)
    runs = [run for run in found if isinstance(run, RecordedRun)]
    return learn(machine.chart, runs, smooth=smooth) if runs else World()
