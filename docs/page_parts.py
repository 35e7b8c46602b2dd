"""What generated pages are written with: tables, links."""

from __future__ import annotations

import re
from collections.abc import Iterable


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = (" ".join(cell.replace("|", "\\|").split()) for cell in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def filled(page: str, begin: str, end: str, text: str) -> str:
    """A page with this text between two marks. `ValueError` if it lacks them."""
    if begin not in page or end not in page:
        raise ValueError(f"the page lacks `{begin}` or `{end}`")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}"


def anchor(heading: str) -> str:
    """The link to a heading, as GitHub makes it."""
    return "#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def link(name: str) -> str:
    """A link to the section of a name, on the same page."""
    return f"[`{name}`]({anchor(name)})"
