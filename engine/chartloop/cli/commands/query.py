"""`chartloop query`: ask which paths a run can take, and which never."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.error_report import ERROR, USAGE, say_error
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import read_machine
from chartloop.cli.options import PAIR, RunOptions, option, pass_options
from chartloop.cli.printing import print_lines

with at_first_use(__name__):
    from chartloop.analysis.proofs import query as path_queries
    from chartloop.cli import value_options

if TYPE_CHECKING:
    from chartloop.api.drawn import DrawnAnswer


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class QueryOptions(RunOptions):
    """The options of `query`."""

    limit: tuple[tuple[str, str], ...] = option(
        "--limit", type=PAIR, multiple=True, shell_complete=completion.pairs("limits"),
        help="Ask only of runs with this limit. Only action counts are modelled. Default: the "
        "answer holds for every limit.",
    )  # fmt: skip
    no_cancel: bool = option(
        "--no-cancel", is_flag=True, help="Assume that the run is not stopped from outside."
    )


@click.command(
    epilog="""\b
Examples:
  chartloop query agent "reach done"
  chartloop query my.yaml "never publish before approve"
  chartloop query my.yaml "always report after publish" --format json
  chartloop query my.yaml "never publish before approve" --draw shown.svg
  chartloop query my.yaml "each tool:refund after its own accept"
  chartloop query my.yaml "avoid tool:delete" "never action:infer after state:answer"
  chartloop query my.yaml "no flow untrusted to tool:send_mail"

\b
Forms: reach A, avoid A, never A before B, never A after B, always B after A,
each TOOL after its own EVENT, each TOOL when CONDITION after its own EVENT,
no flow LABEL to TOOL, no flow LABEL to TOOL unless STATE (labels: private, untrusted; or a
tool:x, an input:x; TOOL may be `out`). A name is a state, an event, an action, a tool, a stop
reason or the id of an edge or rule; `state:x` says which.

\b
Exit codes: 0 every query holds, 1 one does not, 2 a query is invalid.
"""
)
@parameters.machine_argument
@click.argument("queries", nargs=-1, required=True)
@parameters.options_of(QueryOptions)
@parameters.draw_option
@parameters.tools_option
@parameters.define_option
@parameters.format_option()
@pass_options(QueryOptions)
def query(machine: str, queries: tuple[str, ...], options: QueryOptions) -> None:
    """Ask which paths a run of a machine can take, and which never.

    What cannot happen in the graph of the machine cannot happen in a run, except by a cancel: a
    caller may cancel a run for any reason at any moment. An answer that this would change says
    `unless`. If something can happen, the shortest ordinary path is shown; guards may forbid it.
    """
    loaded = read_machine(machine, options)
    limits = value_options.values_of(
        {n: x.type for n, x in loaded.spec.limits.items()}, options.limit
    )
    try:
        questions = loaded.questions(limits=limits)
        answers = [questions.ask(text, cancels=not options.no_cancel) for text in queries]
    except path_queries.QueryFault as error:
        say_error(error)
        raise click.exceptions.Exit(USAGE) from None
    if options.drawing is not None:
        _draw(answers, options.drawing)
    if options.is_json:
        data = [answer.to_dict() for answer in answers]
        console.result(console.as_json(data[0] if len(data) == 1 else data))
    else:
        for answer in answers:
            print_lines(answer.lines(titled=len(answers) > 1))
        assumed = dict.fromkeys(text for answer in answers for text in answer.assumptions)
        if assumed:
            console.say(f"assumed: {'; '.join(assumed)}", "dim")
        if not options.no_cancel and any(
            path_queries.OUTSIDE in answer.reason for answer in answers
        ):
            console.say("--no-cancel asks only of runs that are not stopped from outside", "dim")
    raise click.exceptions.Exit(0 if all(answers) else ERROR)


def _draw(answers: Sequence[DrawnAnswer], file: str) -> None:
    """Draw the run that shows the answer to a single query."""
    if len(answers) > 1:
        raise click.UsageError("--draw draws one query; ask them one by one")
    path = answers[0].draw().save(file)
    what = "a run that shows it" if answers[0].witness else "no run is needed to show it"
    console.say(f"{path}: {what}", "dim")
