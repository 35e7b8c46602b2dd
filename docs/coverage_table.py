"""Writes the table of `coverage.md`: what our scenarios show of the machines that ship.

    python docs/coverage_table.py [FILE]...      # by default the page beside this file

A page is written where it has the two marks. Every scenario of
`tests/scenarios` is played. A test compares the page with what this would write.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from page_parts import filled

from chartloop import catalog
from chartloop.scenarios import Covering, collecting, find_scenarios, run_scenario
from chartloop.studies.coverage.coverage import Coverage
from chartloop.studies.coverage.targets import Kind

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE.parent / "tests" / "scenarios"
BEGIN, END = "<!-- coverage: written by docs/coverage_table.py -->", "<!-- end of coverage -->"
COLUMNS: dict[Kind, str] = {
    "state": "states", "edge": "edges", "rule": "rules", "reason": "stop reasons",
    "child": "children", "atom": "guard atoms, each way",
}  # fmt: skip


@cache
def coverages() -> tuple[Coverage, ...]:
    """What the scenarios show, by the name of the machine."""
    covering = Covering()
    with collecting(covering):
        for path in find_scenarios([SCENARIOS]):
            report = run_scenario(path)
            if not report.passed:
                raise SystemExit(str(report))
    found = {one.machine: one for one in covering.coverages()}
    return tuple(found[name] for name in sorted(catalog.shipped_machines()))


def table() -> str:
    """The machines, one a line; what a machine has none of is left empty."""
    lines = [
        f"| machine | runs | {' | '.join(COLUMNS.values())} |",
        f"|---|{'---|' * (1 + len(COLUMNS))}",
    ]
    lines += [_line(one) for one in coverages()]
    lines.append(f"| **all** | {sum(one.runs for one in coverages())} | {_totals()} |")
    return "\n".join(lines)


def _line(one: Coverage) -> str:
    cells = (str(one.figures[kind]) if kind in one.figures else "" for kind in COLUMNS)
    return f"| `{one.machine}` | {one.runs} | {' | '.join(cells)} |"


def _totals() -> str:
    cells: list[str] = []
    for kind in COLUMNS:
        figures = [one.figures[kind] for one in coverages() if kind in one.figures]
        seen, whole = sum(f.seen for f in figures), sum(f.all for f in figures)
        cells.append(f"**{seen}/{whole}**, {int(1000 * seen / whole) / 10:g} %")
    return " | ".join(cells)


def written(page: str) -> str:
    """The page with the table as it is now; one without marks as it is."""
    if BEGIN not in page:
        return page
    return filled(page, BEGIN, END, table())


def main(files: Iterable[str]) -> None:
    """Write the pages."""
    for page in [Path(file) for file in files] or [HERE / "coverage.md"]:
        page.write_text(written(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
