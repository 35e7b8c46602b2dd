"""`interlock why`: everything that was looked at when a record was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from interlock.cli import options, out
from interlock.cli.how import How
from interlock.cli.table import Row, table

if TYPE_CHECKING:
    from interlock.machine.build import Chart
    from interlock.machine.explain import Atom, Explanation
    from interlock.machine.explain import Row as Looked

MARKS = {True: "✓", False: "✗", None: "·"}
"""What held, what did not, and what was not looked at or could not be evaluated."""


@click.command(
    epilog="""\b
Examples:
  interlock why last
  interlock why last --step 3
  interlock why 3kf --step 3 --format json

\b
✓ held, ✗ did not, · was not looked at: an edge before it was taken. `left` is what was left until
the guard turns.
"""
)
@options.run_argument
@click.option(
    "--step", type=click.IntRange(min=0), metavar="N",
    help="The record, as `interlock show` numbers them. Default: the newest.",
)  # fmt: skip
@options.tools_option
@options.journal_option
@options.format_option()
def why(run: str, step: int | None, **given: Any) -> None:
    """Show why a run went where it went.

    Every rule and edge that was looked at, with the values that its guard read, taken or not.
    """
    from interlock.cli.stored import find_run, machine_of, open_journal

    how = How.of(given)
    journal = open_journal(how)
    row = find_run(journal, run)
    opened = machine_of(journal, row, how).open(row.run_id, journal=journal)
    found = opened.why(step)
    if how.is_json:
        out.result(out.as_json(found.to_dict()))
        return
    number = step if step is not None else opened.session.tally.records - 1
    out.result(out.style(f"record {number} of run {row.run_id}: {_what(found)}", bold=True))
    for line in explain(opened.machine.chart, found):
        out.result(line)


def _what(found: Explanation) -> str:
    event = found.decision.input.event
    return f"{found.kind}{f' `{event}`' if event else ''} at {found.state}"


def explain(chart: Chart, found: Explanation) -> list[str]:
    """The tables of a decision, and where it led."""
    lines: list[str] = []
    for title, looked in _groups(found):
        rows = [cells for row in looked for cells in _cells(chart, row)]
        lines += ["", *table(rows, ("", title, "values", "left", "leads to"), right={3})]
    return [*lines, "", *_led(found)]


def _groups(found: Explanation) -> list[tuple[str, list[Looked]]]:
    """The rows by what they belong to: rules at a state, edges of a state, in order."""
    groups: list[tuple[str, list[Looked]]] = []
    for row in found.rows:
        title = f"rules at {row.state}" if row.kind == "rule" else f"edges of {row.state}"
        if not groups or groups[-1][0] != title:
            groups.append((title, []))
        groups[-1][1].append(row)
    return groups


def _cells(chart: Chart, row: Looked) -> list[Row]:
    colour = "green" if row.taken else "dim" if row.holds is None else ""
    mark = "!" if any(a.error for a in row.atoms) else MARKS[row.holds]
    if len(row.atoms) == 1:
        atom = row.atoms[0]
        return [Row((mark, row.text, _values(atom), atom.margin, _to(chart, row)), colour)]
    cells = [Row((mark, row.text, "", "", _to(chart, row)), colour)]
    for atom in row.atoms:
        said = f"  {MARKS[atom.holds]} {atom.text}"
        cells.append(Row(("", said, _values(atom), atom.margin, ""), colour))
    return cells


def _values(atom: Atom) -> str:
    if atom.error:
        return atom.error
    return f"{atom.left} against {atom.right}" if atom.right else atom.left


def _to(chart: Chart, row: Looked) -> str:
    if row.kind == "edge":
        return row.to
    number = row.id.removeprefix("rules.")
    rules = chart.spec.rules
    rule = rules[int(number)] if number.isdecimal() and int(number) < len(rules) else None
    if rule is None:
        return row.to
    reason = rule.stop or rule.signal
    return f"{rule.kind}: {reason}" if reason else row.to


def _led(found: Explanation) -> list[str]:
    d = found.decision
    lines = [f"signal   {signal}" for signal in d.signals]
    lines += [f"warning  {warning}" for warning in d.warnings]
    path = " → ".join([found.state, *d.path]) if d.path else f"stays at {d.next}"
    lines.append(f"led to   {path}, {d.status}" + (f", stopped for {d.winner}" if d.winner else ""))
    return [out.plain(line) for line in lines]
