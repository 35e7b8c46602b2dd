"""Writes the tables of `data.md`: the flows of three mail agents and of the shipped machines.

    python docs/flows_table.py [FILE]        # by default the page beside this file

The answers are those of `chartloop query`. A test compares the page with what this would write.
"""

from __future__ import annotations

import sys
from pathlib import Path
from runpy import run_path

from page_parts import filled

from chartloop import catalog, load
from chartloop.analysis.proofs.query import Questions

HERE = Path(__file__).resolve().parent
MAIL = HERE.parent / "examples" / "mail"
BEGIN, END = "<!-- flows: written by docs/flows_table.py -->", "<!-- end of flows -->"
TOOLS = [
    run_path(str(MAIL / "tools.py"))[n]
    for n in ("read_inbox", "search_web", "customer_record", "send_mail")
]
LABELS = ("untrusted", "private")
GUARDS = {
    "react": ("", ""),
    "research": ("the screen clears", "      clears: [untrusted]\n"),
    "triage": ("a person accepts each mail", "approve: {tools: [send_mail]}\n"),
}
"""What holds data back in each design, and the line of the file that says so."""


def table() -> str:
    """The mail agents, two lines each, and the shipped machines, one a line."""
    lines = [
        "| design | query | answer | without its guard |",
        "|---|---|---|---|",
    ]
    for name, (guard, line) in GUARDS.items():
        text = (MAIL / f"{name}.yaml").read_text("utf-8")
        whole, bare = _asked(text), _asked(text.replace(line, "")) if line else None
        for label in LABELS:
            link = f"[{name}](../examples/mail/{name}.yaml)"
            held = "no guard" if bare is None else f"{bare.ask(_query(label)).word} ({guard})"
            found = whole.ask(_query(label))
            shown = f"no: {found.reason.partition(': ')[2]}" if found.word == "no" else found.word
            lines.append(f"| {link} | `{_query(label)}` | {shown} | {held} |")
    lines += ["", "| shipped machine | tools | untrusted | private |", "|---|---|---|---|"]
    for name in sorted(catalog.shipped_machines()):
        machine = load(name)
        asked = Questions(machine.chart)
        words = " | ".join(asked.ask(f"no flow {label} to out").word for label in LABELS)
        tools = ", ".join(f"`{tool}`" for tool in machine.spec.tools) or "none"
        lines.append(f"| `{name}` | {tools} | {words} |")
    return "\n".join(lines)


def _asked(text: str) -> Questions:
    return Questions(load(text, tools=TOOLS).chart)


def _query(label: str) -> str:
    return f"no flow {label} to send_mail"


def written(page: str) -> str:
    """The page with the tables as they are now."""
    return filled(page, BEGIN, END, table())


def main() -> None:
    """Write the page."""
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "data.md"
    page.write_text(written(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
