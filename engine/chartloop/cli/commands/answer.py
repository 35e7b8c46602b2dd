"""`chartloop answer`: answer the question of a waiting run, from any process."""

from __future__ import annotations

from dataclasses import dataclass

import click

from chartloop.cli import completion, parameters
from chartloop.cli.inbox import Posted, report_message
from chartloop.cli.journal_access import find_run, machine_of, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.options import PAIR, RunOptions, option, pass_options

with at_first_use(__name__):
    from chartloop.cli import value_options


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


@click.command(
    epilog="""\b
Examples:
  chartloop answer last abort
  chartloop answer 3kf fix note="use 3"
  chartloop answer 3kf accept by=eve --wait 5
  chartloop answer 3kf yes --ahead review
  chartloop answer 3kf accept 1=accept 2=deny
  chartloop answer 3kf edit 1.arguments.usd=40

\b
`chartloop show RUN` shows the question and the id of its wait. An answer for another wait, for a
wait that has ended or for a run that does not wait is refused (exit code 2).

\b
Where tool calls wait for an approval, `1=deny` decides on the first of them, by its number or its
key. `1.arguments.usd=40` changes an argument and `1.result="done by hand"` answers in the tool's
place, if the file allows it; `1.remember=true` accepts equal calls to come.
"""
)
@parameters.run_argument
@click.argument("event", shell_complete=completion.events)
@click.argument("fields", nargs=-1, type=PAIR, metavar="[NAME=VALUE]...")
@parameters.options_of(AnswerOptions)
@parameters.message_id_option
@parameters.tools_option
@parameters.journal_option
@parameters.format_option()
@pass_options(AnswerOptions)
def answer(
    run: str, event: str, fields: tuple[tuple[str, str], ...], options: AnswerOptions
) -> None:
    """Answer the question of a waiting run.

    EVENT is an event that the wait accepts. Give its data field by field.
    """
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
