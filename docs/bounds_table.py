"""Writes the table of `bounds.md`: what each shipped machine can cost at worst.

    python docs/bounds_table.py [FILE]        # by default the page beside this file

The figures come from the machines as they ship, with their own limits. A test compares the page
with what this would write.
"""

from __future__ import annotations

import sys
from pathlib import Path

from page_parts import filled

from chartloop import catalog, load
from chartloop.analysis.proofs.bound import Figure

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- bounds: written by docs/bounds_table.py -->", "<!-- end of bounds -->"
COLUMNS = ("actions", "requests", "tool_calls", "tokens", "waiting")


def table() -> str:
    """The machines, one a line."""
    lines = [
        "| machine | actions | requests | tool calls | tokens | waiting |",
        "|---|---|---|---|---|---|",
    ]
    for name in sorted(catalog.shipped_machines()):
        figures = load(name).bound().figures
        cells = " | ".join(_cell(figures[column]) for column in COLUMNS)
        lines.append(f"| `{name}` | {cells} |")
    return "\n".join(lines)


def _cell(figure: Figure) -> str:
    return figure.text.removeprefix("at most ")


def written(page: str) -> str:
    """The page with the table as it is now."""
    return filled(page, BEGIN, END, table())


def main() -> None:
    """Write the page."""
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "bounds.md"
    page.write_text(written(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
