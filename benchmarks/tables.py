"""What the tables show, and the tables of README.md and docs/benchmarks.md.

python benchmarks/tables.py        # writes both again from figures.json
"""

# ruff: noqa: E501 - one row, one line

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "figures.json"
README, PAGE = HERE.parent / "README.md", HERE.parent / "docs" / "benchmarks.md"

CHARTLOOP, FLOOR = "chartloop", "bare loop"
COLUMNS = (
    CHARTLOOP, f"{CHARTLOOP} before", "chartloop, tool inline", "chartloop, tool inline before", FLOOR, "LangGraph", "LangGraph, deltas", "pydantic-graph 1", "pydantic-graph 2", "Burr",
)  # fmt: skip
BRIEF = (CHARTLOOP, "LangGraph", "pydantic-graph 2", "Burr", FLOOR)

Found = dict[str, dict[str, dict[str, list[float]]]]
"""Cell, subject, figure: the values of all rounds. A figure `over` has the seconds of a process
that was cut off, one of a process that broke is called `failed`."""


class Cell(NamedTuple):
    """One process of each subject."""

    work: str
    turns: int = 0
    agents: int = 1
    long: bool = False
    """25 times the length of the usual one."""

    @property
    def key(self) -> str:
        """Its name in the file of figures."""
        return f"{self.work} {self.agents} x {self.turns}" if self.turns else self.work


class Line(NamedTuple):
    """A line of the loop's table."""

    what: str
    unit: str
    cell: Cell
    figure: str
    goal: str = ""
    against: Cell | None = None
    """With this, the figure is divided by that of this cell."""
    brief: str = ""
    """What it is called in the README, if it is there."""


def lengths(work: str, turns: int, agents: int = 1) -> tuple[Cell, Cell]:
    """The usual length and 25 times that, with as many turns of all agents together."""
    more = max(1, agents // 25)
    return Cell(work, turns, agents), Cell(work, 25 * turns, more, long=True)


W1, W1_LONG = lengths("w1", 200)
W2, W2_LONG = lengths("w2", 200)
W3, W3_LONG = lengths("w3", 10, 1_000)
W3_DISK, W3_DISK_LONG = lengths("w3 on disk", 10, 1_000)
HTTP, HTTP_LONG = lengths("http", 10, 100)
WORKS = {
    "w1": (W1, W1_LONG),
    "w2": (W2, W2_LONG),
    "w3": (W3, W3_LONG),
    "w3 on disk": (W3_DISK, W3_DISK_LONG),
    "http": (HTTP, HTTP_LONG),
}
CPU, WALL = "CPU μs a step", "μs a step"
TURN = "CPU μs a turn"
LINES = (
    Line("in memory, 200 turns", CPU, W1, "cpu", "≤ 0.25 × LangGraph", brief="in memory"),
    Line("5,000 turns", CPU, W1_LONG, "cpu", brief="the same, 5,000 turns long"),
    Line("5,000 turns against 200", "×", W1_LONG, "cpu", "≤ 1.15", W1),
    Line("every step on disk, 200 turns", WALL, W2, "wall", "≤ 0.25 × LangGraph", brief="every step on disk"),
    Line("5,000 turns", WALL, W2_LONG, "wall", brief="the same, 5,000 turns long"),
    Line("5,000 turns against 200", "×", W2_LONG, "wall", "≤ 1.15", W2),
    Line("on the disk, 200 turns", "B a step", W2, "bytes", "≤ 2,000", brief="what that takes on the disk"),
    Line("5,000 turns", "B a step", W2_LONG, "bytes"),
    Line("1,000 agents, 10 turns of 50 ms each", "s", W3, "seconds", brief="1,000 agents at once, 10 turns of 50 ms"),
    Line("the same", TURN, W3, "cpu"),
    Line("the same", "kB an agent", W3, "kB an agent", "≤ 20"),
    Line("40 agents, 250 turns each", TURN, W3_LONG, "cpu"),
    Line("250 turns against 10", "×", W3_LONG, "cpu", "≤ 1.15", W3),
    Line("1,000 agents, 10 turns of 50 ms each, on disk", "s", W3_DISK, "seconds", brief="the same, every step on disk"),
    Line("the same", TURN, W3_DISK, "cpu"),
    Line("the same", "kB an agent", W3_DISK, "kB an agent", "≤ 20"),
    Line("40 agents, 250 turns each, on disk", TURN, W3_DISK_LONG, "cpu"),
    Line("250 turns against 10", "×", W3_DISK_LONG, "cpu", "≤ 1.15", W3_DISK),
    Line("a call through litellm, 100 agents, 10 turns", "CPU μs a call", HTTP, "cpu"),
    Line("the same, against litellm alone in the same process", "×", HTTP, "ratio", "≤ 1.05", brief="a call through litellm, against litellm alone in the same process"),
    Line("4 agents, 250 turns", "CPU μs a call", HTTP_LONG, "cpu"),
    Line("the same, against litellm alone in the same process", "×", HTTP_LONG, "ratio", "≤ 1.05"),
)  # fmt: skip


class Part(NamedTuple):
    """A line of the table of chartloop alone."""

    what: str
    unit: str
    work: str
    figure: str
    goal: str = ""


PART_LINES = (
    Part("one step of two actions that do nothing, six rules", "μs", "step", "step", "≤ 14"),
    Part("the same after 5,000 steps, against the first", "×", "step", "growth", "≤ 1.15"),
    Part("one journal append, SQLite, `NORMAL`", "μs", "append", "append NORMAL", "≤ 60"),
    Part("one journal append, SQLite, `FULL`", "μs", "append", "append FULL", "≤ 150"),
    Part("bytes a step, messages of 200 bytes", "B", "append", "bytes per step", "≤ 1,000"),
    Part("1,000 agents × 10 model calls of 50 ms, no tools", "s", "agents in memory", "memory", "≤ 0.9"),
    Part("the same with every step on disk", "s", "agents durable", "durable", "≤ 1.6"),
    Part("memory of one agent", "kB", "weight", "kB per agent", "≤ 20"),
    Part("opening a run of 5,000 steps", "ms", "opening", "open, ms", "≤ 80"),
    Part("the same from its snapshot", "ms", "opening", "open with snapshot, ms", "≤ 10"),
    Part("loading and building 45 states", "ms", "loading", "load and build, ms", "≤ 20"),
    Part("the same with all checks", "ms", "loading", "with checks, ms", "≤ 50"),
    Part("a repaint of the live picture, 45 states", "ms", "painting", "repaint, ms", "≤ 1"),
    Part("a step and its repaint in a notebook", "ms", "painting", "step and show, ms", "≤ 20"),
    Part("the layout before the first of them", "ms", "painting", "layout, ms"),
    Part("`chartloop check` of 45 states, proofs and all", "ms", "checking", "check, ms", "≤ 100"),
    Part("the same of 1,000 states, 5,000 edges", "s", "checking", "hard, s", "≤ 20"),
    Part("the same of 1,000 decisions, 5,000 edges", "s", "checking", "decisions, s", "≤ 20"),
    Part("the same of 200 forks behind each other", "s", "checking", "forks, s", "≤ 20"),
    Part("the same of 8 detours that interrupt each other", "s", "checking", "detours, s", "≤ 20"),
    Part("the same of 60 states, each leading to each", "s", "checking", "complete, s", "≤ 20"),
    Part("memory of these", "MB", "checking", "memory, MB", "≤ 300"),
    Part("the bound of the moderator, 45 states", "ms", "proving", "bound, ms"),
    Part("loading, checking and bounding it", "ms", "proving", "check and bound, ms", "≤ 100"),
    Part("the bound of 1,000 states, 5,000 edges", "s", "proving", "dense, s"),
    Part("two queries of 500 rules", "s", "proving", "two queries of 500 rules, s", "≤ 10"),
    Part("what if, 1,000 runs of 100 steps in SQLite", "s", "what if", "the same, s", "≤ 5"),
    Part("the same where each run stops in its middle", "s", "what if", "stopped in the middle, s", "≤ 5"),
    Part("the same for a sweep of ten limits", "s", "what if", "ten limits, s"),
    Part("the verdicts for 1,000 runs of 100 steps, another limit", "s", "upgrading", "looser, s"),
    Part("the same where a state has another name", "s", "upgrading", "renamed, s"),
    Part("a record counted into a coverage, six rules", "μs", "covering", "count", "≤ 100"),
    Part("the same in a run of 5,000, against one of 500", "×", "covering", "growth", "≤ 1.3"),
    Part("`import chartloop`", "ms", "starting", "import, ms", "≤ 20"),
    Part("`chartloop --help`", "ms", "starting", "--help, ms", "≤ 100"),
    Part("`chartloop run` to its first record, no litellm", "ms", "starting", "first record, ms", "≤ 350"),
)  # fmt: skip
PARTS = tuple(dict.fromkeys(part.work for part in PART_LINES))


def cells_of(name: str) -> Sequence[Cell]:
    """The cells of a row that is asked for by name."""
    return WORKS.get(name) or (Cell(name),)


def loop_table(
    found: Found, lines: Iterable[Line] = LINES, columns: Sequence[str] = COLUMNS
) -> str:
    """The loop beside other libraries, in medians."""
    there = {subject for row in found.values() for subject in row}
    columns = [name for name in columns if name in there]
    rows = [line for line in lines if line.cell.key in found]
    return table(
        ["the loop", "unit", *columns, "goal", "÷ LangGraph"],
        [[line.what, line.unit, *_values(found, line, columns), line.goal, _ratio(found, line)] for line in rows],
    )  # fmt: skip


def parts_table(found: Found) -> str:
    """Chartloop alone."""
    rows: list[list[str]] = []
    for part in PART_LINES:
        if values := found.get(part.work, {}).get(CHARTLOOP, {}).get(part.figure):
            spread = f"{digits(min(values))} to {digits(max(values))}"
            rows.append([part.what, part.unit, f"**{middle(values)}**", spread, part.goal])
    return table(["what", "unit", "median", "least to most", "goal"], rows) if rows else ""


def brief_table(found: Found) -> str:
    """The loop, for the README."""
    rows = [line for line in LINES if line.brief and line.cell.key in found]
    return table(
        ["", "unit", *BRIEF],
        [[line.brief, line.unit, *_values(found, line, BRIEF)] for line in rows],
    )


def _values(found: Found, line: Line, columns: Sequence[str]) -> list[str]:
    said = [_cell(found, line, subject) for subject in columns]
    pairs = zip(columns, said, strict=True)
    return [f"**{value}**" if value and name == CHARTLOOP else value for name, value in pairs]


def _cell(found: Found, line: Line, subject: str) -> str:
    if (value := value_of(found, line, subject)) is not None:
        return digits(value)
    known = found.get(line.cell.key, {}).get(subject, {})
    if line.against is not None or not known.keys() & {"over", "failed"}:
        return ""
    return f"over {known['over'][0]:g} s" if "over" in known else "failed"


def value_of(found: Found, line: Line, subject: str) -> float | None:
    """The median, or its ratio to that of another cell."""
    values = found.get(line.cell.key, {}).get(subject, {}).get(line.figure)
    if not values:
        return None
    if line.against is None:
        return statistics.median(values)
    beside = found.get(line.against.key, {}).get(subject, {}).get(line.figure)
    return statistics.median(values) / statistics.median(beside) if beside else None


def _ratio(found: Found, line: Line) -> str:
    ours, theirs = (value_of(found, line, name) for name in (CHARTLOOP, "LangGraph"))
    return digits(ours / theirs) if ours and theirs and not line.against else ""


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def middle(values: list[float]) -> str:
    """The median."""
    return digits(statistics.median(values))


def digits(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def keep(found: Found, versions: dict[str, str]) -> None:
    """Put new figures beside those that were not measured now."""
    known: dict[str, Any] = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    cells: Found = known.get("cells", {}) | found
    order = [cell.key for name in (*WORKS, *PARTS) for cell in cells_of(name)]
    told = {"versions": versions, "cells": {key: cells[key] for key in order if key in cells}}
    FIGURES.write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def write() -> None:
    """Both pages, from the file of figures."""
    kept = json.loads(FIGURES.read_text("utf-8"))
    found, versions = kept["cells"], kept["versions"]
    said = ", ".join(
        f"{name} {version}" for name, version in versions.items() if name != "processors"
    )
    where = f"{versions['processors']} processors; {said}."
    put(README, {"the loop": brief_table(found)})
    put(PAGE, {"the loop": f"{loop_table(found)}\n\n{where}", "parts": parts_table(found)})


def put(path: Path, told: dict[str, str], *, by: str = "benchmarks/run.py") -> None:
    """Texts between the marks of a page, which name the program that writes them."""
    page = path.read_text("utf-8")
    for name, text in told.items():
        begin, end = f"<!-- {name}: written by {by} -->", f"<!-- end of {name} -->"
        head, found, rest = page.partition(begin)
        _, closed, tail = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"{path.name} has no marks of `{name}`")
        page = f"{head}{begin}\n\n{text}\n\n{end}{tail}"
    path.write_text(page, "utf-8")


if __name__ == "__main__":
    write()
