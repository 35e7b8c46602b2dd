"""`chartloop simulate`: play thousands of runs of a machine, without a model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.error_report import ERROR, MisuseError
from chartloop.cli.journal_access import open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import read_machine
from chartloop.cli.options import PAIR, option, pass_options
from chartloop.cli.printing import Line, print_lines, print_result
from chartloop.cli.run_selection import SelectionOptions
from chartloop.core.errors import SetupError
from chartloop.core.units import parse_fraction

with at_first_use(__name__):
    from chartloop.api import caller_values
    from chartloop.cli import run_selection, value_options
    from chartloop.pictures import save as saving
    from chartloop.pictures.live import progress
    from chartloop.pictures.report import run_picture
    from chartloop.studies.simulation import limits, world_file
    from chartloop.studies.simulation import simulate as playing
    from chartloop.ui.view_model import build
    from chartloop.ui.view_model import text as run_text

if TYPE_CHECKING:
    from chartloop.api import Machine
    from chartloop.language.spec import MachineSpec
    from chartloop.run.recorded import RecordedRun
    from chartloop.studies.simulation.simulation import Simulation
    from chartloop.studies.simulation.world import World


class Share(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  only since click 8.3
    """A share: ``1%``, or 0.01."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = parse_fraction(str(value))
        try:
            found = float(value) if found is None else found
        except ValueError:
            found = -1.0
        if not 0 <= found <= 1:
            self.fail(f"`{value}` is not a share: write 1% or 0.01", param, ctx)
        return found


SHARE = Share()


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SimulateOptions(SelectionOptions):
    """The options of `simulate`."""

    world: str | None = option(
        "--world",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="The events from outside, with their probabilities.",
    )
    learn_from: tuple[str, ...] = option(
        "--from",
        metavar="RUN",
        multiple=True,
        shell_complete=completion.runs,
        help="Learn the world from a recorded run: an id, `last`, an exported .jsonl file, or `all`"
        " runs of the machine in the journal. Repeatable.",
    )
    smooth: float = option(
        "--smooth",
        type=click.FloatRange(min=0),
        default=0.0,
        metavar="N",
        help="With --from: add N samples of the default assumptions for each state.",
    )
    write_world: str | None = option(
        "--write-world",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Write the world, learnt or given, to a file that you can edit; simulate nothing.",
    )
    guards: tuple[tuple[str, str], ...] = option(
        "--guard",
        type=PAIR,
        multiple=True,
        metavar="NAME=SHARE",
        help="How often a Python guard holds: is_sound=90%. Repeatable.",
    )
    runs: int = option(
        "--runs",
        type=click.IntRange(min=1),
        default=10_000,
        show_default=True,
        metavar="N",
        help="Play this many runs.",
    )
    seed: int = option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="N",
        help="The random seed; the same seed gives the same runs.",
    )
    jobs: int = option(
        "--jobs",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="Split the runs among N processes.",
    )
    at_most: float | None = option(
        "--at-most",
        type=SHARE,
        metavar="SHARE",
        help="Suggest limits that stop at most this share of the runs that would end by"
        " themselves.",
    )
    longest: int = option(
        "--longest",
        type=click.IntRange(min=1),
        default=10_000,
        show_default=True,
        metavar="STEPS",
        help="End a run after this number of steps.",
    )
    number: int | None = option(
        "--run",
        type=click.IntRange(min=0),
        metavar="N",
        help="Show run number N, record by record.",
    )
    keep: bool = option(
        "--keep",
        is_flag=True,
        help="With --run: keep the run in the journal, for `why`, `draw --run`, `fork`.",
    )
    output: str | None = option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Draw a heat map of how often the runs took each edge: heat.svg, heat.png.",
    )
    plot: str | None = option(
        "--plot",
        type=click.Path(),
        metavar="PATH",
        help="Plot stop reasons and the distributions of calls, cost and time: one page for a"
        " .svg or"
        " .png; else PATH is a folder for one file per plot. Needs the extra `plots`.",
    )


@click.command(
    epilog="""\b
Examples:
  chartloop simulate agent
  chartloop simulate my.yaml --world world.yaml --runs 50000 --jobs 2
  chartloop simulate my.yaml --from all --write-world world.yaml
  chartloop simulate agent --at-most 1%
  chartloop simulate agent --run 17
  chartloop simulate my.yaml --guard is_sound=90% --limit steps=20 -o heat.svg
  chartloop simulate agent --plot spread.svg

\b
A world describes the events from outside, never which edge is taken: guards are decided as in a
real run. What the world omits gets a default, which is listed. See docs/simulation.md.

\b
Exit codes: 0, or 1 if a run exceeded its proven bound.
"""
)
@parameters.machine_argument
@parameters.options_of(SimulateOptions)
@parameters.limit_option
@parameters.var_option
@parameters.tasks_option
@parameters.tools_option
@parameters.define_option
@parameters.journal_option
@parameters.format_option()
@pass_options(SimulateOptions)
def simulate(machine: str, options: SimulateOptions) -> None:
    """Play thousands of runs of a machine, without a model.

    The clock is simulated and nothing is called. Shows how often each stop reason occurs, and what
    runs cost and how long they take, next to the proven bound.
    """
    loaded = read_machine(machine, options)
    world = _world(loaded, options)
    if options.write_world is not None:
        path = Path(options.write_world)
        saving.write_whole(path, world_file.write_world(world).encode())
        about = f"a world of {len(world.states)} states. {world.about}".rstrip()
        console.say(f"{path}: {about}", "dim")
        return
    spec, tasks = loaded.spec, options.tasks
    typed = value_options.values_of
    settings: dict[str, Any] = {
        "seed": options.seed,
        "tasks": None if tasks is None else caller_values.read_tasks_file(Path(tasks), spec),
        "limits": typed({n: x.type for n, x in spec.limits.items()}, options.limit),
        "vars": typed({n: v.type for n, v in spec.vars.items()}, options.var),
    }  # fmt: skip
    if options.number is not None:
        _show_run(loaded, options.number, world, settings, options)
        return
    with _progress(_plays(spec, options), options) as tick:
        simulation = playing.simulate(
            loaded, world, runs=options.runs, jobs=options.jobs, at_most=options.at_most,
            longest=options.longest, progress=tick, **settings,
        )  # fmt: skip
    if options.output is not None:
        _draw(loaded, simulation, Path(options.output))
    if options.plot is not None:
        for file in simulation.plot(options.plot):
            console.say(f"wrote {console.plain(str(file))}", "dim")
    print_result(simulation, options)
    raise click.exceptions.Exit(ERROR if simulation.bound_violations else 0)


# input --------------------------------------------------------------------------------------


def _world(machine: Machine, options: SimulateOptions) -> World:
    if options.world is not None and options.learn_from:
        raise MisuseError("a world is given or learnt", hint="leave out --world or --from")
    runs = _select_recorded(machine, options.learn_from, options) if options.learn_from else []
    world = playing.world_for(machine, options.world, runs, options.smooth)
    if not options.guards:
        return world
    shares = {name: SHARE.convert(text, None, None) for name, text in options.guards}
    return replace(world, guards={**world.guards, **shares})


def _select_recorded(
    machine: Machine, names: tuple[str, ...], options: SimulateOptions
) -> list[RecordedRun]:
    selection = run_selection.select_runs(names, options, machine.name)
    runs = [run for run in selection if run.row.machine == machine.name]
    selection.say_unread()
    if not runs:
        hint = "`chartloop runs` lists what the journal holds"
        raise SetupError(f"there is no recorded run of `{machine.name}` to learn from", hint=hint)
    return runs


def _plays(spec: MachineSpec, options: SimulateOptions) -> int:
    """The number of runs to play. `--at-most` adds three batches of `RUNS` for each limit."""
    suggested = 0 if options.at_most is None else 3 * limits.RUNS * len(limits.limits_watched(spec))
    return options.runs + suggested


class _progress:  # noqa: N801  used as a function
    """A progress bar on stderr, shown on a terminal. Yields a function that adds finished runs."""

    def __init__(self, runs: int, options: SimulateOptions) -> None:
        wanted = console.is_terminal(sys.stderr) and not options.is_json
        self._bar: Any = click.progressbar(
            length=runs, label="simulating", file=console.behind(sys.stderr), hidden=not wanted
        )

    def __enter__(self) -> Callable[[int], None]:
        return self._bar.__enter__().update

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)


# output -------------------------------------------------------------------------------------


def _show_run(
    machine: Machine, number: int, world: World, settings: dict[str, Any], options: SimulateOptions
) -> None:
    journal = open_journal(options, make=True) if options.keep else None
    run = playing.simulated_run(machine, number, world, journal=journal, **settings)
    records = run.records
    if options.is_json:
        listed = [{"seq": r.seq, **r.to_dict()} for r in records]
        console.result(console.as_json({**run.result.to_dict(), "records": listed}))
        return
    views = [build.record_view(machine.chart, record) for record in records]
    print_lines(
        [*run_text.record_lines(views, console.width()), Line(""), Line(run.result.explain())]
    )
    if journal is not None:
        console.say(f"kept as {run.id}: `chartloop why {run.id} --record 1`", "dim")


def _draw(machine: Machine, simulation: Simulation, path: Path) -> None:
    standing = progress.Standing(
        visits=simulation.sample.visits, taken=simulation.sample.taken,
        caption=f"{simulation.runs:,} simulated runs",
    )  # fmt: skip
    run_picture.RunPicture(machine.draw().chart, standing).save(path)
    console.say(f"{path}: how often {simulation.runs:,} runs took each edge", "dim")
