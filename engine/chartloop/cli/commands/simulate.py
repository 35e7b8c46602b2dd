"""`chartloop simulate`: what thousands of runs of a machine come to, without a model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.error_report import ERROR
from chartloop.cli.options import How
from chartloop.cli.table import Row, table
from chartloop.core.units import parse_fraction

if TYPE_CHECKING:
    from chartloop.analysis.simulation.limits import Suggestion
    from chartloop.analysis.simulation.result import Simulation
    from chartloop.analysis.simulation.world import World
    from chartloop.api import Machine
    from chartloop.language.spec import MachineSpec
    from chartloop.run.recorded import RecordedRun

CELLS = 24
"""Of a bar."""
_FIRST = 5
"""Runs past the bound that are listed."""
_COLOURS = {"natural": "green", "limit": "yellow", "error": "red", "human": "cyan"}


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
            self.fail(f"`{value}` is no share: write 1% or 0.01", param, ctx)
        return found


SHARE = Share()


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
real run. Anything the world omits gets a default, which is listed. See `docs/simulation.md`.

\b
Exit codes: 0, or 1 if a run exceeded the proven bound.
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
    help="With --from: mix in what would be assumed, as N samples more for each state.",
)  # fmt: skip
@click.option(
    "--write-world", type=click.Path(dir_okay=False), metavar="FILE",
    help="Write the world that was learnt or given, to be edited, and simulate nothing.",
)  # fmt: skip
@click.option(
    "--guard", "guards", type=parameters.PAIR, multiple=True, metavar="NAME=SHARE",
    help="How often a Python guard says yes: is_sound=90%.",
)  # fmt: skip
@click.option("--runs", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, help="Processes that share the runs."
)
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
    help="Show this one of the runs, record by record.",
)  # fmt: skip
@click.option(
    "--keep", is_flag=True,
    help="With --run: put it into the journal, for `why`, `draw --run`, `fork`.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE",
    help="Draw the machine with how often the runs went each way: heat.svg, heat.png.",
)  # fmt: skip
@click.option(
    "--plot", type=click.Path(), metavar="PATH",
    help="Draw why runs stop and how their calls, cost and time are spread: one page for a .svg or"
    " .png, a file for each plot in any other folder. Needs the extra `plots`.",
)  # fmt: skip
@parameters.limit_option
@parameters.var_option
@parameters.tasks_option
@parameters.tools_option
@parameters.define_option
@parameters.journal_option
@parameters.format_option()
def simulate(machine: str, number: int | None, output: str | None, **given: Any) -> None:
    """Play thousands of runs of a machine, without a model.

    The clock is simulated, nothing is called. Shows which stop reasons come how often, what runs
    cost, and how long they take against the proven bound.
    """
    from chartloop.analysis.simulation.simulate import simulate as play
    from chartloop.cli.machine_loader import read_machine
    from chartloop.cli.values import values_of

    how = How.of(given)
    more = how.more
    loaded = read_machine(machine, how)
    world = _world(loaded, how)
    if more["write_world"] is not None:
        _write(world, Path(more["write_world"]))
        return
    spec = loaded.spec
    chosen: dict[str, Any] = {
        "seed": more["seed"], "tasks": _tasks(loaded, how),
        "limits": values_of({n: x.type for n, x in spec.limits.items()}, how.limit),
        "vars": values_of({n: v.type for n, v in spec.vars.items()}, how.var),
    }  # fmt: skip
    if number is not None:
        _show_run(loaded, number, world, chosen, how)
        return
    with _progress(_plays(spec, how), how) as tick:
        found = play(
            loaded, world, runs=more["runs"], jobs=more["jobs"], at_most=more["at_most"],
            longest=more["longest"], progress=tick, **chosen,
        )  # fmt: skip
    if output is not None:
        _draw(loaded, found, Path(output))
    if more["plot"] is not None:
        for file in found.plot(more["plot"]):
            console.say(f"wrote {console.plain(str(file))}", "dim")
    if how.is_json:
        console.result(console.as_json(found.to_dict()))
    else:
        for line in said(found):
            console.result(line)
    raise click.exceptions.Exit(ERROR if found.exceeded else 0)


# what is given ------------------------------------------------------------------------------


def _world(machine: Machine, how: How) -> World:
    from dataclasses import replace

    from chartloop.analysis.simulation.simulate import world_for
    from chartloop.cli.error_report import MisuseError

    more = how.more
    if more["world"] is not None and more["learn_from"]:
        raise MisuseError("a world is given or learnt", hint="leave out --world or --from")
    runs = _recorded(machine, more["learn_from"], how) if more["learn_from"] else []
    world = world_for(machine, more["world"], runs, more["smooth"])
    if not how.more["guards"]:
        return world
    said = {name: SHARE.convert(text, None, None) for name, text in more["guards"]}
    return replace(world, guards={**world.guards, **said})


def _recorded(machine: Machine, names: tuple[str, ...], how: How) -> list[RecordedRun]:
    from chartloop.cli.run_selection import chosen
    from chartloop.core.errors import SetupError

    found = chosen(names, how, machine.name)
    runs = [run for run in found if run.row.machine == machine.name]
    found.say_unread()
    if not runs:
        hint = "`chartloop runs` lists what the journal holds"
        raise SetupError(f"there is no recorded run of `{machine.name}` to learn from", hint=hint)
    return runs


def _tasks(machine: Machine, how: How) -> list[dict[str, Any]] | None:
    from chartloop.api.tasks import read_tasks_file

    return None if how.tasks is None else read_tasks_file(Path(how.tasks), machine.spec)


def _plays(spec: MachineSpec, how: How) -> int:
    """How many runs are played: for a suggestion each limit has three times some of its own."""
    from chartloop.analysis.simulation.limits import RUNS, limits_watched

    suggested = 0 if how.more["at_most"] is None else 3 * RUNS * len(limits_watched(spec))
    return how.more["runs"] + suggested


def _write(world: World, path: Path) -> None:
    from chartloop.analysis.simulation.world_file import write_world
    from chartloop.view.save import write_whole

    write_whole(path, write_world(world).encode())
    console.say(f"{path}: a world of {len(world.states)} states. {world.about}".rstrip(), "dim")


class _progress:  # noqa: N801  used as a function
    """A bar on stderr where somebody looks at it; what it gives is told of runs that are done."""

    def __init__(self, runs: int, how: How) -> None:
        wanted = console.is_terminal(sys.stderr) and not how.is_json
        self._bar: Any = click.progressbar(
            length=runs, label="simulating", file=console.behind(sys.stderr), hidden=not wanted
        )

    def __enter__(self) -> Callable[[int], None]:
        return self._bar.__enter__().update

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)


# what is shown ------------------------------------------------------------------------------


def _show_run(
    machine: Machine, number: int, world: World, chosen: dict[str, Any], how: How
) -> None:
    from chartloop.analysis.simulation.simulate import simulated_run
    from chartloop.cli.journal_access import open_journal
    from chartloop.cli.record_table import records_table

    journal = open_journal(how, make=True) if how.more["keep"] else None
    run = simulated_run(machine, number, world, journal=journal, **chosen)
    records = run.records
    if how.is_json:
        listed = [{"seq": r.seq, **r.to_dict()} for r in records]
        console.result(console.as_json({**run.result.to_dict(), "records": listed}))
        return
    for line in (*records_table(machine.chart, records), ""):
        console.result(line)
    console.result(console.plain(run.result.explain()))
    if journal is not None:
        console.say(f"kept as {run.id}: `chartloop why {run.id} --step 1`", "dim")


def _draw(machine: Machine, found: Simulation, path: Path) -> None:
    from chartloop.view.live.progress import Standing
    from chartloop.view.report.picture import RunPicture

    standing = Standing(
        visits=found.sample.visits, taken=found.sample.taken,
        said=f"{found.runs:,} simulated runs",
    )  # fmt: skip
    RunPicture(machine.draw().chart, standing).save(path)
    console.say(f"{path}: how often {found.runs:,} runs went each way", "dim")


def said(found: Simulation) -> Iterator[str]:
    """The result for people."""
    from chartloop.analysis.simulation.format import NAMES, say

    yield console.style(found.head(), bold=True)
    if found.learnt:
        yield console.plain(found.learnt)
    yield ""
    kinds = {run.reason: run.kind for run in found.sample.runs}
    rows = [
        Row(
            (reason, bar(s.value), f"{s.value:.2%}", f"{s.low:.2%} to {s.high:.2%}"),
            _COLOURS.get(kinds[reason], ""),
        )
        for reason, s in found.reasons.items()
    ]
    yield from table(rows, ("stops with", "", "share", "95% confidence"), right={2})
    yield ""
    figures = [
        Row((
            NAMES[n], *(say(n, v) for v in (s.mean, s.median, s.p95, s.most)),
            "" if (most := found.most(n)) is None else say(n, most),
        ))
        for n, s in found.figures.items()
    ]  # fmt: skip
    head = ("", "mean", "median", "p95", "max", "proven bound")
    yield from table(figures, head, right={1, 2, 3, 4, 5})
    yield ""
    yield from _exceeded(found)
    if unplayed := found.unplayed_said():
        for line in console.fitted(console.plain(unplayed), sys.stdout):
            yield console.style(line, "yellow")
    if found.suggestions:
        yield ""
        yield from _suggested(found.suggestions)
    yield ""
    yield "in a world where"
    for one in found.assumptions:
        yield from console.fitted(f"  {console.plain(str(one))}", sys.stdout)
    for name, count in found.thin.items():
        yield console.style(f"  {name}: learnt from {count} samples only", "yellow")


def _exceeded(found: Simulation) -> Iterator[str]:
    """Runs that went past the bound: the first of them, and what that means."""
    shown = found.exceeded[:_FIRST]
    for line in shown:
        yield console.style(f"past the bound: {line}", "red")
    if more := len(found.exceeded) - len(shown):
        yield console.style(f"and {more:,} more", "red")
    if shown:
        said = "the world gives what the bound takes for impossible: `chartloop bound` lists that"
        yield from console.fitted(said, sys.stdout)


def _suggested(suggestions: tuple[Suggestion, ...]) -> Iterator[str]:
    asked = max((s.stops.of for s in suggestions if s.stops is not None), default=0)
    yield console.style("what would be enough, in this world", bold=True)
    said = f"for each limit: of up to {asked:,} runs that end by themselves when it is off"
    yield console.style(said, "dim")
    rows = [
        Row((s.limit, s.text(s.now), *_columns(s)), "dim" if s.suggested is None else "")
        for s in suggestions
    ]
    head = ("limit", "now", "enough", "would stop", "saves a run", "proves")
    yield from table(rows, head, right={1, 2, 3}, spare=(5, 4))


def _columns(suggestion: Suggestion) -> tuple[str, str, str, str]:
    """The limit that is enough, what it stops, what it saves on average and proves lower."""
    from chartloop.analysis.simulation.format import NAMES, say

    if suggestion.stops is None:
        return "", "", "", console.plain(suggestion.because)
    saves = [
        f"{'' if v > 0 else '−'}{say(n, abs(v))} {NAMES[n]}"
        for n, v in suggestion.saves.items()
        if n in ("llm_calls", "tokens") and abs(v) >= 0.05
    ]
    proves = [
        f"{NAMES[n].removeprefix('of it ')} ≤ {say(n, value)}"
        for n, value in suggestion.bound.items()
        if value is not None and value != suggestion.before.get(n)
    ]
    stops = f"{suggestion.stops.value:.2%}"
    return suggestion.text(suggestion.suggested), stops, ", ".join(saves), ", ".join(proves)


def bar(share: float) -> str:
    """A share as a bar of `CELLS` cells; what happened at all shows at least one eighth."""
    eighths = max(round(share * CELLS * 8), 1 if share > 0 else 0)
    whole, rest = divmod(eighths, 8)
    part = "▏▎▍▌▋▊▉"[rest - 1] if rest else ""
    if not console.speaks_unicode(sys.stdout):
        whole, part = round(share * CELLS), ""
    return f"{'█' * whole}{part}"
