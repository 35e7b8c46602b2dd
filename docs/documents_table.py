"""Writes the last part of each page in `documents/`: what is different from the document, and why.

    python docs/documents_table.py [FOLDER]      # by default `documents` beside this file

The differences stand where they are tested: in the tables of lines, `tests/cases/lines`, and under
`deviations` in the machines. A page is written where it has the two marks. A test compares the
pages with what this would write.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from page_parts import table

from chartloop import Machine, load
from chartloop.catalog import shipped_machines

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.cases.test_lines import TABLES, Row, rows  # noqa: E402

SOURCES = HERE.parent / "tests" / "cases" / "sources"
BEGIN, END = (
    "<!-- differences: written by docs/documents_table.py -->",
    "<!-- end of differences -->",
)
PAGES = {
    "000": "geist.md", "001": "executive.md", "002": "stop-conditions.md", "003": "moderator.md",
    "004": "gerbil.md",
}  # fmt: skip
"""The page of each document, by its number."""
LONGEST = 90
"""Characters of a document's line that are quoted."""


SKIPPED = ("```", "# ", ";;", '"""')
"""How lines begin that say nothing by themselves: fences, comments."""


def lines_of(number: str) -> list[str]:
    """The lines of a document, from the copy in the repository."""
    (path,) = SOURCES.glob(f"{number}_*.txt")
    return path.read_text(encoding="utf-8").splitlines()


def differences(number: str) -> str:
    """The part of a page between the marks."""
    (lines,) = (path for path in TABLES if path.name.startswith(number))
    text = lines_of(number)
    found: dict[str, list[Row]] = {}
    for row in rows(lines):
        if row.what == "deviation":
            found.setdefault(row.says, []).append(row)
    told = [
        (", ".join(_span(row) for row in same), _quote(text, same[0]), reason)
        for reason, same in found.items()
    ]
    parts = [table(("line", "in the document", "here, and why"), told)]
    if drawn := _of_the_pictures(number):
        parts += ["In the pictures:", table(("machine", "why", "difference"), drawn)]
    return "\n\n".join(parts)


def _span(row: Row) -> str:
    return str(row.first) if row.first == row.last else f"{row.first}–{row.last}"


def _quote(text: list[str], row: Row) -> str:
    """The first line of a stretch that says something, as code."""
    said = (line.strip() for line in text[row.first - 1 : row.last])
    first = next(
        line for line in said if re.search(r"\w{3}", line) and not line.startswith(SKIPPED)
    )
    cut = first if len(first) <= LONGEST else f"{first[:LONGEST].rstrip()}…"
    return f"`` {cut} ``" if "`" in cut else f"`{cut}`"


def _of_the_pictures(number: str) -> list[tuple[str, str, str]]:
    """What the machines of a document declare, one reason a row."""
    out: list[tuple[str, str, str]] = []
    for name in sorted(shipped_machines()):
        machine = load(name)
        if machine.spec.source.startswith(f"{number}_"):
            out += _declared(name, machine)
    return out


def _declared(name: str, machine: Machine) -> list[tuple[str, str, str]]:
    by_reason: dict[str, list[str]] = {}
    for one in machine.spec.deviations:
        by_reason.setdefault(one.reason, []).append(one.difference)
    return [
        (f"[{name}](../../machines/{name}.yaml)", reason, "; ".join(dict.fromkeys(all_)))
        for reason, all_ in by_reason.items()
    ]


def with_differences(number: str, page: str) -> str:
    """A page with its last part written anew."""
    head, mark, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"the page of document {number} lacks its two marks")
    return f"{head}{BEGIN}\n{differences(number)}\n{END}{tail}"


def main() -> None:
    """Write the pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "documents"
    for number, name in PAGES.items():
        path = folder / name
        path.write_text(with_differences(number, path.read_text("utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
