"""`chartloop simulate`: play thousands of runs of a machine, without a model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.error_report import ERROR
from chartloop.cli.options import pass_options
from chartloop.cli.printing import Line, print_lines, print_result
from chartloop.cli.run_selection import SelectionOptions
from chartloop.core.units import parse_fraction

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


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(SelectionOptions):
    """The options of `simulate`."""

    world: str | None = None
    learn_from: tuple[str, ...] = ()
    smooth: float = 0.0
    write_world: str | None = None
    guards: tuple[tuple[str, str], ...] = ()
    runs: int = 10_000
    seed: int = 0
    jobs: int = 1
    at_most: float | None = None
    longest: int = 10_000
    keep: bool = False
    plot: str | None = None


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
@click.option(
    "--world", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="The events from outside, with their probabilities.",
)  # fmt: skip
@click.option(
    "--from", "learn_from", metavar="RUN", multiple=True, shell_complete=completion.runs,
    help="Learn the world from a recorded run: an id, `last`, an exported .jsonl file, or `all`"
    " runs of the machine in the journal. Repeatable.",
)  # fmt: skip
@click.option(
    "--smooth", type=click.FloatRange(min=0), default=0.0, metavar="N",
    help="With --from: add N samples of the default assumptions for each state.",
)  # fmt: skip
@click.option(
    "--write-world", type=click.Path(dir_okay=False), metavar="FILE",
    help="Write the world, learnt or given, to a file that you can edit; simulate nothing.",
)  # fmt: skip
@click.option(
    "--guard", "guards", type=parameters.PAIR, multiple=True, metavar="NAME=SHARE",
    help="How often a Python guard holds: is_sound=90%. Repeatable.",
)  # fmt: skip
@click.option(
    "--runs", type=click.IntRange(min=1), default=10_000, show_default=True, metavar="N",
    help="Play this many runs.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
    help="The random seed; the same seed gives the same runs.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, metavar="N",
    help="Split the runs among N processes.",
)  # fmt: skip
@click.option(
    "--at-most", type=SHARE, metavar="SHARE",
    help="Suggest limits that stop at most this share of the runs that would end by themselves.",
)  # fmt: skip
@click.option(
    "--longest", type=click.IntRange(min=1), default=10_000, show_default=True, metavar="STEPS",
    help="End a run after this number of steps.",
)  # fmt: skip
@click.option(
    "--run", "number", type=click.IntRange(min=0), metavar="N",
    help="Show run number N, record by record.",
)  # fmt: skip
@click.option(
    "--keep", is_flag=True,
    help="With --run: keep the run in the journal, for `why`, `draw --run`, `fork`.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE",
    help="Draw a heat map of how often the runs took each edge: heat.svg, heat.png.",
)  # fmt: skip
@click.option(
    "--plot", type=click.Path(), metavar="PATH",
    help="Plot stop reasons and the distributions of calls, cost and time: one page for a .svg or"
    " .png; else PATH is a folder for one file per plot. Needs the extra `plots`.",
)  # fmt: skip
@parameters.limit_option
@parameters.var_option
@parameters.tasks_option
@parameters.tools_option
@parameters.define_option
@parameters.journal_option
@parameters.format_option()
@pass_options(SimulateOptions)
def simulate(
    machine: str, number: int | None, output: str | None, options: SimulateOptions
) -> None:
    """Play thousands of runs of a machine, without a model.

    The clock is simulated and nothing is called. Shows how often each stop reason occurs, and what
    runs cost and how long they take, next to the proven bound.
    """
    from chartloop.cli.machine_loader import read_machine
    from chartloop.cli.value_options import values_of
    from chartloop.studies.simulation.simulate import simulate as play

    loaded = read_machine(machine, options)
    world = _world(loaded, options)
    if options.write_world is not None:
        _write(world, Path(options.write_world))
        return
    spec = loaded.spec
    settings: dict[str, Any] = {
        "seed": options.seed, "tasks": _tasks(loaded, options),
        "limits": values_of({n: x.type for n, x in spec.limits.items()}, options.limit),
        "vars": values_of({n: v.type for n, v in spec.vars.items()}, options.var),
    }  # fmt: skip
    if number is not None:
        _show_run(loaded, number, world, settings, options)
        return
    with _progress(_plays(spec, options), options) as tick:
        simulation = play(
            loaded, world, runs=options.runs, jobs=options.jobs, at_most=options.at_most,
            longest=options.longest, progress=tick, **settings,
        )  # fmt: skip
    if output is not None:
        _draw(loaded, simulation, Path(output))
    if options.plot is not None:
        for file in simulation.plot(options.plot):
            console.say(f"wrote {console.plain(str(file))}", "dim")
    print_result(simulation, options)
    raise click.exceptions.Exit(ERROR if simulation.bound_violations else 0)


# input --------------------------------------------------------------------------------------


def _world(machine: Machine, options: SimulateOptions) -> World:
    from dataclasses import replace

    from chartloop.cli.error_report import MisuseError
    from chartloop.studies.simulation.simulate import world_for

    if options.world is not None and options.learn_from:
        raise MisuseError("a world is given or learnt", hint="leave out --world or --from")
    runs = _select_recorded(machine, options.learn_from, options) if options.learn_from else []
    world = world_for(machine, options.world, runs, options.smooth)
    if not options.guards:
        return world
    shares = {name: SHARE.convert(text, None, None) for name, text in options.guards}
    return replace(world, guards={**world.guards, **shares})


def _select_recorded(
    machine: Machine, names: tuple[str, ...], options: SimulateOptions
) -> list[RecordedRun]:
    from chartloop.cli.run_selection import select_runs
    from chartloop.core.errors import SetupError

    selection = select_runs(names, options, machine.name)
    runs = [run for run in selection if run.row.machine == machine.name]
    selection.say_unread()
    if not runs:
        hint = "`chartloop runs` lists what the journal holds"
        raise SetupError(f"there is no recorded run of `{machine.name}` to learn from", hint=hint)
    return runs


def _tasks(machine: Machine, options: SimulateOptions) -> list[dict[str, Any]] | None:
    from chartloop.api.caller_values import read_tasks_file

    return None if options.tasks is None else read_tasks_file(Path(options.tasks), machine.spec)


def _plays(spec: MachineSpec, options: SimulateOptions) -> int:
    """The number of runs to play. `--at-most` adds three batches of `RUNS` for each limit."""
    from chartloop.studies.simulation.limits import RUNS, limits_watched

    suggested = 0 if options.at_most is None else 3 * RUNS * len(limits_watched(spec))
    return options.runs + suggested


def _write(world: World, path: Path) -> None:
    from chartloop.pictures.save import write_whole
    from chartloop.studies.simulation.world_file import write_world

    write_whole(path, write_world(world).encode())
    console.say(f"{path}: a world of {len(world.states)} states. {world.about}".rstrip(), "dim")


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
    from chartloop.cli.journal_access import open_journal
    from chartloop.studies.simulation.simulate import simulated_run
    from chartloop.ui.view_model.build import record_view
    from chartloop.ui.view_model.text import record_lines

    journal = open_journal(options, make=True) if options.keep else None
    run = simulated_run(machine, number, world, journal=journal, **settings)
    records = run.records
    if options.is_json:
        listed = [{"seq": r.seq, **r.to_dict()} for r in records]
        console.result(console.as_json({**run.result.to_dict(), "records": listed}))
        return
    views = [record_view(machine.chart, record) for record in records]
    print_lines([*record_lines(views, console.width()), Line(""), Line(run.result.explain())])
    if journal is not None:
        console.say(f"kept as {run.id}: `chartloop why {run.id} --record 1`", "dim")


def _draw(machine: Machine, simulation: Simulation, path: Path) -> None:
    from chartloop.pictures.live.progress import Standing
    from chartloop.pictures.report.run_picture import RunPicture

    standing = Standing(
        visits=simulation.sample.visits, taken=simulation.sample.taken,
        caption=f"{simulation.runs:,} simulated runs",
    )  # fmt: skip
    RunPicture(machine.draw().chart, standing).save(path)
    console.say(f"{path}: how often {simulation.runs:,} runs took each edge", "dim")
