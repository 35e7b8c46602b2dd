"""`chartloop show`: show a recorded run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from chartloop.cli import completion, console, costs, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.journal_access import ago, find_run, machine_of, moment, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.printing import Line, Row, print_lines, print_table
from chartloop.cli.terminal_picture import colour_lines
from chartloop.core.errors import nearest
from chartloop.core.phase import PHASES
from chartloop.core.units import say_count, say_elapsed
from chartloop.core.visible import cut

with at_first_use(__name__):
    from chartloop.machine import transition_table
    from chartloop.run import migrate, phases, succession, sync
    from chartloop.ui.view_model import asking, build, state_drawing
    from chartloop.ui.view_model import text as run_text

if TYPE_CHECKING:
    from chartloop.api import Machine, Run
    from chartloop.core.records import Record
    from chartloop.run.journal import Journal, RunRow
    from chartloop.run.phases import Stand
    from chartloop.run.result import Result

CHILDREN = 12
"""The most child runs that are listed, the oldest first."""


@click.command(
    epilog="""\b
Examples:
  chartloop show last
  chartloop show last --state think
  chartloop show 3kf --format json
"""
)
@parameters.run_argument
@click.option(
    "--state", metavar="NAME", shell_complete=completion.states_of_run,
    help="Draw this state instead: the edges to it, and how its guards were decided last.",
)  # fmt: skip
@click.option("--question", is_flag=True, help="Print its question to the end, and the digest.")
@parameters.tools_option
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def show(run: str, state: str | None, question: bool, options: RunOptions) -> None:
    """Show a run: its result, its records, its path.

    RUN is an id, the beginning of one, or `last`. The record numbers are those of `why --record`
    and `fork --at`.
    """
    journal = open_journal(options)
    row = find_run(journal, run)
    machine = machine_of(journal, row, options)
    opened = machine.open(row.run_id, journal=journal)
    if state is not None:
        _show_state(opened, state, options)
        return
    if question:
        _show_question(opened, options)
        return
    records = opened.records
    stand = sync.by_hand(phases.stand_of(journal, row))
    if options.is_json:
        listed = [{"seq": r.seq, **r.to_dict()} for r in records]
        told = {**opened.result.to_dict(), "phase": stand.phase.name, "records": listed}
        console.result(console.as_json(told))
        return
    beside = [("child", line) for line in _children(journal, row)]
    if (after := sync.by_hand(journal.row(row.successor))) is not None:
        beside.insert(0, ("then", f"→ {succession.said_of(after)[0]} {after.run_id}"))
    beside += [("inbox", line) for line in _inbox(journal, opened)]
    print_table(_head(row, machine, opened, _parent(row, records), beside, stand=stand))
    views = [build.record_view(machine.chart, record) for record in records]
    path = " → ".join(
        state for state in opened.result.path if state not in transition_table.ENGINE_ENDS
    )
    table = run_text.record_lines(views, console.width())
    print_lines([Line(""), *table, Line(""), Line(f"path  {path}")])


def _show_question(run: Run, options: RunOptions) -> None:
    asked = run.question
    if asked is None:
        raise MisuseError(f"run `{run.id}` waits for nothing")
    if options.is_json:
        console.result(console.as_json(asking.card_of(run, asked)))
        return
    for line in (*asked.text.splitlines(), *asked.about.splitlines()):
        console.result(console.plain(line))
    console.say(f"answer with:  --wait {asked.wait} --shown {asked.digest}")


def _show_state(run: Run, state: str, options: RunOptions) -> None:
    states = run.machine.spec.states
    if options.is_json:
        raise click.UsageError("--state draws: leave --format json")
    if state not in states:
        raise MisuseError(f"there is no state `{state}`", hint=nearest(state, states))
    drawn = state_drawing.state_as_left(run, state, run.draw(look="live").chart)
    for line in colour_lines(drawn(console.width()).lines) if drawn is not None else ():
        console.result(line)


def _children(journal: Journal, row: RunRow) -> list[str]:
    """Lines about the child runs, the oldest first, with their stop reasons."""
    own = sync.by_hand(build.children_of(journal, row.run_id))
    lines = [f"{r.run} of {r.machine}: {PHASES[r.phase].word}" for r in own[:CHILDREN]]
    more = len(own) - len(lines)
    return [*lines, *([f"and {more} more: chartloop runs --children"] if more else [])]


def _parent(row: RunRow, records: Sequence[Record]) -> str:
    """The run that this one was forked from; with a changed file, also the verdict on it."""
    origin: Any = records[0].input.data.get(migrate.ORIGIN, {}) if records else {}
    is_attempt = row.follows.startswith("attempt")
    message = f"{succession.said_of(row)[1]} {row.parent}" if is_attempt else row.parent
    message += "" if row.fork_seq is None else f", from record {row.fork_seq}"
    changed = row.parent and origin.get("run") == row.parent and "verdict" in origin
    return f"{message}, with a changed file: {origin['verdict']}" if changed else message


def _head(
    row: RunRow, machine: Machine, run: Run, parent: str, beside: list[tuple[str, str]],
    *, stand: Stand,
) -> list[Row]:  # fmt: skip
    result, title = run.result, machine.spec.title
    took = f"{say_elapsed(result.elapsed)}, {say_count(result.steps, 'step')}"
    calls = costs.calls_and_cost(result.facts, run.session.tally.failed_calls)
    newest = ago(row.updated, run.session.ports.clock.now())
    ended = "ended" if result.reason is not None else "now"
    lines = [
        ("run", f"{row.run_id} of {machine.name}" + (f" ({title})" if title else "")),
        ("task", _short(result.facts.run.task)),
        (ended, _how_it_stands(result, stand)),
        ("began", f"{moment(row.created)}, last record {newest}"),
        ("took", f"{took}, {calls}"),
        ("parent", parent),
        ("agent", row.agent), ("session", row.session),
        ("submitter", run.submitter), *_asked(run),
        ("output", _short(result.output)), ("last text", _last_text(result)),
    ]  # fmt: skip
    lines += [("signal", str(s)) for s in result.signals]
    lines += beside
    lines += [("warning", w) for w in result.warnings]
    lines += [
        ("error", f"{e['category']}: {e['message']} (step {e['step']}, {e['state']})")
        for e in result.errors
    ]
    colours = {"ended": stand.phase.ink, "error": "red", "warning": "yellow"}
    return [Row((name, text), colours.get(name, "")) for name, text in lines if text]


def _asked(run: Run) -> Iterator[tuple[str, str]]:
    """The question of a run, as much as is shown at once, and the id of its wait."""
    if (asked := run.question) is None:
        return
    how = f"chartloop show {run.id} --question"
    for name, line in run_text.question_lines(asked.begin(), asked.rest, how):
        yield ("waits" if name == "asks" else name), line
    yield "wait", asked.wait


def _last_text(result: Result) -> str:
    text = run_text.withheld_text(result)
    return text and f"{text} (not the result)"


def _inbox(journal: Journal, run: Run) -> list[str]:
    """Lines about the answers in the inbox that the run has not taken."""
    lines: list[str] = []
    for message in sync.by_hand(journal.inbox(run.id)):
        data = message.data
        if data.get("kind") == "answer":
            given = f"given ahead for {data['ahead']}" if "ahead" in data else "not taken yet"
            late = ", which it did not reach" if "ahead" in data else ", too late: it is dropped"
            lines.append(f"answer {data.get('event')}, {given}{late if run.ended else ''}")
    return lines


def _how_it_stands(result: Result, stand: Stand) -> str:
    """The phase, the state and the reason, without repetitions."""
    said = f"{stand.phase.marked} at {result.stopped_at}"
    if result.moved_to:
        return f"{said}: {result.moved_to}"
    if stand.driver:
        return f"{said}, {stand.driver}"
    if stand.about:
        return f"{said}: {stand.about}"
    return said if result.reason in (None, "completed") else f"{said}: {result.reason}"


def _short(value: object) -> str:
    text = (
        value
        if isinstance(value, str)
        else ""
        if value is None
        else console.as_json(value, indent=None)
    )
    return cut(text, 400)
