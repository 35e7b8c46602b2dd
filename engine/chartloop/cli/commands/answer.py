"""`chartloop answer`: answer the question of a waiting run, from any process."""

from __future__ import annotations

from dataclasses import dataclass

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.inbox import Posted, report_message
from chartloop.cli.journal_access import find_run, machine_of, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.options import PAIR, RunOptions, option, pass_options
from chartloop.core.errors import RunError
from chartloop.core.position import DECISIONS
from chartloop.core.units import say_count

with at_first_use(__name__):
    from chartloop.cli import value_options
    from chartloop.run import sync


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class AnswerOptions(RunOptions):
    """The options of `answer`."""

    wait: str | None = option(
        "--wait",
        metavar="ID",
        help="The id of the wait, shown with the question. Default: the current wait.",
    )
    ahead: str | None = option(
        "--ahead",
        metavar="STATE",
        help="Answer before the question is asked: the first wait of this state takes it. A state"
        " that"
        " `approve` made takes none.",
    )
    shown: str | None = option(
        "--shown",
        metavar="DIGEST",
        help="The digest of a long question, as `chartloop show RUN --question` prints it.",
    )
    in_doubt: str | None = option(
        "--in-doubt",
        type=click.Choice(DECISIONS),
        help="With --all: what becomes of calls in doubt. `retry` makes them again; `fail` says"
        " that they were not carried out.",
    )
    every: bool = option(
        "--all", is_flag=True, help="Answer every run that waits because a call is in doubt."
    )


@click.command(
    epilog="""\b
Examples:
  chartloop answer last abort
  chartloop answer 3kf fix note="use 3"
  chartloop answer 3kf accept by=eve --wait 5
  chartloop answer 3kf yes --ahead review
  chartloop answer 3kf accept 1=accept 2=deny
  chartloop answer 3kf edit 1.arguments.usd=40
  chartloop answer --in-doubt fail --all by=eve

\b
`chartloop show RUN` shows the question and the id of its wait. An answer for another wait, for a
wait that has ended or for a run that does not wait is refused (exit code 2).

\b
Where tool calls wait for an approval, `1=deny` decides on the first of them, by its number or its
key. `1.arguments.usd=40` changes an argument and `1.result="done by hand"` answers in the tool's
place, if the file allows it; `1.remember=true` accepts equal calls to come.
"""
)
@click.argument("run", shell_complete=completion.runs, required=False)
@click.argument("event", required=False, shell_complete=completion.events)
@click.argument("fields", nargs=-1, type=PAIR, metavar="[NAME=VALUE]...")
@parameters.options_of(AnswerOptions)
@parameters.message_id_option
@parameters.tools_option
@parameters.journal_option
@parameters.format_option()
@pass_options(AnswerOptions)
def answer(
    run: str | None, event: str | None, fields: tuple[tuple[str, str], ...], options: AnswerOptions
) -> None:
    """Answer the question of a waiting run.

    EVENT is an event that the wait accepts. Give its data field by field.
    """
    if options.in_doubt or options.every:
        if not (options.in_doubt and options.every):
            raise click.UsageError("--in-doubt goes with --all, and --all with --in-doubt")
        given = [PAIR.convert(one, None, None) for one in (run, event) if one is not None]
        answer_doubts(options.in_doubt, dict([*given, *fields]), options)
        return
    if run is None or event is None:
        raise click.UsageError("name a run and an event: chartloop answer RUN EVENT")
    wait, ahead = options.wait or "", options.ahead or ""
    if wait and ahead:
        raise click.UsageError("--wait answers a question, --ahead one to come: give one of them")
    journal = open_journal(options)
    row = find_run(journal, run)
    opened = machine_of(journal, row, options).open(row.run_id, journal=journal)
    taken = opened.answers.get(event, {})
    if ahead:
        taken = opened.machine.chart.answer_fields(ahead, event)
    question = opened.question
    calls = question.calls if question is not None else ()
    data = value_options.answer_data(event, taken, fields, calls=calls)
    sent = opened.send(
        event, data, wait=wait, ahead=ahead, shown=options.shown or "",
        message_id=options.message_id,
    )  # fmt: skip
    message = {"kind": "answer", "event": event, "data": data}
    message |= {"ahead": ahead} if ahead else {"wait": sent.wait}
    report_message(journal, row, options, Posted(message, sent.run, sent.message_id, sent.new))


def answer_doubts(word: str, data: dict[str, str], options: AnswerOptions) -> None:
    """Answer every run that waits because a call is in doubt; exit with 1 if one refuses it."""
    journal, answered, refused = open_journal(options), list[str](), dict[str, str]()
    rows = sync.by_hand(journal.rows(status="paused"))
    for row in rows:
        if row.question is None or {*row.question.answers} != {*DECISIONS}:
            continue
        opened = machine_of(journal, row, options).open(row.run_id, journal=journal)
        asked, position = opened.question, opened.session.position
        child = position.child_question
        if asked is None or (position.doubt is None and (child is None or child.doubt is None)):
            continue
        taken = asked.answers[word]
        try:
            opened.send(word, {n: text for n, text in data.items() if n in taken}, wait=asked.wait)
        except RunError as error:
            refused[row.run_id] = str(error)
        else:
            answered.append(row.run_id)
    if options.is_json:
        console.result(console.as_json({"answer": word, "answered": answered, "refused": refused}))
    for run_id in answered:
        console.say(f"{run_id}: {word}")
    for run_id, why in refused.items():
        console.say(f"{run_id}: {why}", "error")
    console.say(
        f"{say_count(len(answered), 'run')} answered; `chartloop resume RUN` or a worker goes on"
    )
    if refused:
        raise SystemExit(1)
