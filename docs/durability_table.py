"""Writes the tables of `durability.md` from the figures that the tests of kills and faults leave.

    export CHARTLOOP_FIGURES=$PWD/docs/durability.jsonl
    CHARTLOOP_KILLS=300 pytest tests/durable/test_kill_matrix.py
    pytest tests/durable/test_fleet_faults.py
    python docs/durability_table.py [FILE]...      # by default the page beside this file

A line of the figures is a fleet of workers and what became of its runs. A test compares the page
with what this would write.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from page_parts import filled, table

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "durability.jsonl"
BEGIN, END = "<!-- figures: written by docs/durability_table.py -->", "<!-- end of the figures -->"
PLACES = {
    "within-claim": "a claim, not committed", "after-claim": "a claim",
    "after-acquire": "the run's lease", "before-intent": "just before the intent of a paid call",
    "within-intent": "the intent, not committed", "after-intent": "the intent",
    "asked": "in the call", "replied": "the call's effect, not recorded",
    "within-record": "the record, not committed", "after-record": "the record",
    "before-hand_back": "just before handing back", "after-hand_back": "handing back",
    "within-expired": "a wait that ended at its time, not committed",
    "after-expired": "a wait that ended at its time",
    "before-answer": "just before an answer is taken",
    "within-answer": "an answer, not committed", "after-answer": "an answer",
    "after-settle": "the outcome of a run",
    "within-sweep": "a sweep of dead workers, not committed",
    "after-sweep": "a sweep of dead workers",
    "before-doubt": "the deadline, with no doubt noted", "within-doubt": "the doubt, not committed",
    "after-doubt": "the doubt about a call", "before-unknown": "just before the step of that call",
    "within-unknown": "that step, not committed", "after-unknown": "that step",
    **{f"{when}-{what}": said.format(place) for what, place in (
        ("key", "the claim of the key"), ("row", "the run's row"),
        ("begin", "the run's first record"), ("order", "the order to drive the run"),
        ("outcome", "the outcome of the order"),
    ) for when, said in (
        ("before", "just before {}"), ("within", "{}, not committed"), ("after", "{}"))},
}  # fmt: skip
"""What the process had done last when it was killed."""
PAIRS = ("SQLite, table", "PostgreSQL, table", "PostgreSQL, DBOS")
KILLED = {"around a deadline": "a worker, in calls with deadlines", "gives an order": "a starter"}
"""Which process was killed, by what the name of its fault holds; else it is a worker."""


def tables(lines: list[dict[str, Any]]) -> str:
    """Both tables: by fault and pair, and by what a killed worker had done last."""
    grouped = defaultdict[tuple[str, str], list[dict[str, Any]]](list)
    kills = defaultdict[tuple[str, str], list[dict[str, Any]]](list)
    for line in lines:
        grouped[line["fault"], line["pair"]].append(line)
        who = next((who for part, who in KILLED.items() if part in line["fault"]), "a worker")
        for kill in line["kills"]:
            kills[who, kill["place"]].append({**kill, "pair": line["pair"]})
    faults = [
        (
            fault, pair, *(f"{sum(one[key] for one in of):,}" for key in (
                "tries", "runs", "calls", "lost", "again", "twice", "in_flight", "reported")),
            times(back for one in of for back in (*took(one["kills"]), *one["back"])),
        )
        for (fault, pair), of in sorted(grouped.items())
    ]  # fmt: skip
    places = [
        (
            who, PLACES[place], *(str(sum(kill["pair"] == pair for kill in of)) for pair in PAIRS),
            str(sum(kill["runs"] for kill in of)), str(sum(kill["reported"] for kill in of)),
            times(took(of)),
        )
        for who in ("a worker", *KILLED.values())
        for place in PLACES if (of := kills[who, place])
    ]  # fmt: skip
    head = (
        "fault", "journal, schedule", "tries", "runs", "paid calls", "steps lost",
        "calls made again", "recorded calls paid twice", "calls in flight",
        "of them reported in doubt", "went on after, median / most",
    )  # fmt: skip
    by_place = (
        "killed", "after", *PAIRS, "runs it held", "calls reported in doubt",
        "taken up after, median / most",
    )  # fmt: skip
    return f"{total(lines)}\n\n{table(head, faults)}\n\n{table(by_place, places)}"


def total(lines: list[dict[str, Any]]) -> str:
    """All tries in a sentence."""
    killed = sum(len(line["kills"]) for line in lines)
    others = sum(line["tries"] for line in lines if line["back"])
    runs, calls, lost, twice, left, told = (
        f"{sum(line[key] for line in lines):,}"
        for key in ("runs", "calls", "lost", "twice", "in_flight", "reported")
    )
    return (
        f"In all **{killed} kills and {others} outages** of servers, networks and disks, under\n"
        f"{runs} runs with {calls} paid calls: **{lost} steps lost, {twice} recorded calls paid\n"
        f"twice, and of {left} calls left in flight {told} reported**."
    )


def took(kills: list[dict[str, Any]]) -> list[float]:
    """The seconds until others had the runs of killed workers."""
    return [kill["seconds"] for kill in kills if kill["seconds"] is not None]


def times(seconds: Iterable[float]) -> str:
    """The median and the most of times."""
    all_ = [*seconds]
    return f"{median(all_):.1f} s / {max(all_):.1f} s" if all_ else ""


def written(page: str) -> str:
    """The page with the tables of the figures."""
    lines = [json.loads(line) for line in FIGURES.read_text("utf-8").splitlines()]
    return filled(page, BEGIN, END, tables(lines))


def main(files: Iterable[str]) -> None:
    """Write the pages."""
    for page in [Path(file) for file in files] or [HERE / "durability.md"]:
        page.write_text(written(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
