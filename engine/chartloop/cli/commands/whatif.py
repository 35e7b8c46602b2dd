"""`chartloop whatif`: decide recorded runs again under different limits or a changed file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from chartloop.cli import completion, parameters
from chartloop.cli.error_report import ERROR
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import seen_machine
from chartloop.cli.options import PAIR, at_least, option, pass_options
from chartloop.cli.printing import print_result
from chartloop.cli.progress_bar import progress_bar
from chartloop.cli.run_selection import (
    SelectionOptions,
    choice_options,
    refuse_undeclared,
    runs_argument,
)

with at_first_use(__name__):
    from chartloop.cli import run_selection, sweeps
    from chartloop.studies.whatif import result as whatif_results
    from chartloop.studies.whatif import whatif as whatifs

if TYPE_CHECKING:
    from chartloop.studies.whatif.result import WhatIf

_GATES = ("lost", "changed", "unsure")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WhatIfOptions(SelectionOptions):
    """The options of `whatif`."""

    limit: tuple[tuple[str, str], ...] = option(
        "--limit", type=PAIR, multiple=True, shell_complete=completion.pairs("limits"),
        help="Override a limit: steps=8, time=5m, tokens=off. One may be a sweep: "
        "steps=4..20, or with a stride time=1m..10m:1m.",
    )  # fmt: skip
    first: int = option(
        "--first",
        type=at_least(0),
        default=10,
        metavar="N",
        show_default=True,
        help="List at most this many of the runs that change.",
    )
    fail_on: tuple[str, ...] = option(
        "--fail-on",
        type=click.Choice(_GATES),
        multiple=True,
        help="Exit with 1 if an answer is lost, a run changes, or its end is not sure. Repeatable.",
    )


@click.command(
    epilog="""\b
Examples:
  chartloop whatif agent --limit steps=8
  chartloop whatif my.yaml --tools tools.py --limit steps=8 --limit tokens=50_000 --newest 200
  chartloop whatif agent --limit steps=4..20
  chartloop whatif agent --limit time=1m..10m:1m --since 30d
  chartloop whatif changed.yaml 3kf last old.jsonl
  chartloop whatif agent --limit steps=8 --fail-on lost

\b
Nothing is run: no model, no tool. The recorded inputs are decided again. After a decision that
differs, the later records no longer apply: a stop is known, a further course is not, and the
answer says so.

\b
Exit codes: 0, or 1 if --fail-on applies.
"""
)
@parameters.machine_argument
@runs_argument
@parameters.options_of(WhatIfOptions)
@choice_options
@parameters.tools_option
@parameters.define_option
@parameters.format_option()
@pass_options(WhatIfOptions)
def whatif(machine: str, runs: tuple[str, ...], options: WhatIfOptions) -> None:
    """Show what recorded runs would have done under different limits.

    Which would have stopped earlier, later or elsewhere; what that saves; which answers are lost;
    and how much of it is sure. MACHINE may be a changed file, not only the one that they were
    recorded with. Without RUN: all of its runs in the journal.
    """
    loaded = seen_machine(machine, options)
    refuse_undeclared(loaded.spec)
    swept, points = sweeps.points_of(loaded.spec, options.limit)
    selection = run_selection.select_runs(runs, options, loaded.name)
    with progress_bar("deciding again", len(selection)) as tick:
        answers = whatifs.whatif_each(loaded, selection, points, tick)
    selection.unread += answers[0].unread
    selection.say_unread()
    answers = [replace(answer, unread=tuple(selection.unread)) for answer in answers]
    result = whatif_results.Sweep(swept, tuple(answers)) if swept else answers[0]
    print_result(result, options, listed=options.first)
    gates = options.fail_on
    raise click.exceptions.Exit(ERROR if any(_holds(a, g) for a in answers for g in gates) else 0)


def _holds(answer: WhatIf, gate: str) -> bool:
    if gate == "lost":
        return bool(answer.lost)
    return bool(answer.changes) if gate == "changed" else answer.sure < 1
