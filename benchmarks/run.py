"""All benchmarks with one command; prints the table that stands in the README.

    python benchmarks/run.py [--rounds 5] [--peers]

Every figure is the median over rounds in which the subjects take turns, each in a process of its
own, so that a machine whose speed drifts drifts for all. ``--peers`` makes an environment for
LangGraph beside this file (`.peers`, not committed) and measures the same workloads there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
PEERS = HERE / ".peers"
LANGGRAPH = "langgraph>=1,<2"

Figures = dict[str, float]


def measure(python: str, script: str, workload: str) -> Figures:
    """One workload in one process."""
    done = subprocess.run(
        [python, str(HERE / script), workload], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def peers() -> str:
    """The interpreter of the peers' environment, made at first use."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        venv.create(PEERS, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", LANGGRAPH], check=True)
    return str(python)


class Row(NamedTuple):
    """One line of the table."""

    what: str
    unit: str
    workload: str
    figure: str
    target: str = ""
    peer: str = ""
    """The figure of LangGraph that stands beside it, of the same workload."""


ROWS = (
    Row("one step in memory, six rules", "μs", "step", "step", "≤ 15", peer="step"),
    Row("the same after 5,000 steps, against the first", "×", "step", "growth", "≤ 1.3"),
    Row("one journal append, SQLite, `NORMAL`", "μs", "append", "append NORMAL", "≤ 60"),
    Row("one journal append, SQLite, `FULL`", "μs", "append", "append FULL", "≤ 150"),
    Row("bytes a step, messages of 200 bytes", "B", "append", "bytes per step", "≤ 1,000"),
    Row(
        "1,000 agents × 10 turns of 50 ms, in memory", "s", "agents in memory", "memory",
        "≤ 0.7", peer="memory",
    ),
    Row(
        "the same with every step on disk", "s", "agents durable", "durable", "≤ 1.6",
        peer="checkpointed in memory",
    ),
    Row("memory of one agent", "kB", "weight", "kB per agent", "≤ 20"),
    Row("opening a run of 5,000 steps", "ms", "opening", "open, ms", "≤ 80"),
    Row("the same from its snapshot", "ms", "opening", "open with snapshot, ms", "≤ 10"),
    Row("loading and building 45 states", "ms", "loading", "load and build, ms", "≤ 20"),
    Row("the same with all checks", "ms", "loading", "with checks, ms", "≤ 50"),
    Row("a repaint of the live picture, 45 states", "ms", "painting", "repaint, ms", "≤ 1"),
    Row("a step and its repaint in a notebook", "ms", "painting", "step and show, ms", "≤ 20"),
    Row("the layout before the first of them", "ms", "painting", "layout, ms"),
    Row("`chartloop check` of 45 states, proofs and all", "ms", "checking", "check, ms", "≤ 100"),
    Row("the same of 1,000 states, 5,000 edges", "s", "checking", "hard, s", "≤ 20"),
    Row("the same of 1,000 decisions, 5,000 edges", "s", "checking", "decisions, s", "≤ 20"),
    Row("the same of 200 forks behind each other", "s", "checking", "forks, s", "≤ 20"),
    Row("the same of 8 detours that interrupt each other", "s", "checking", "detours, s", "≤ 20"),
    Row("the same of 60 states, each leading to each", "s", "checking", "complete, s", "≤ 20"),
    Row("memory of these", "MB", "checking", "memory, MB", "≤ 300"),
    Row("the bound of the moderator, 45 states", "ms", "proving", "bound, ms"),
    Row("loading, checking and bounding it", "ms", "proving", "check and bound, ms", "≤ 100"),
    Row("the bound of 1,000 states, 5,000 edges", "s", "proving", "dense, s"),
    Row("simulated steps a second, one core", "1/s", "simulating", "alike, 1/s", "≥ 50,000"),
    Row("the same where no two replies are alike", "1/s", "simulating", "unlike, 1/s", "≥ 50,000"),
    Row("what if, 1,000 runs of 100 steps in SQLite", "s", "what if", "the same, s", "≤ 5"),
    Row(
        "the same where each run stops in its middle", "s", "what if", "stopped in the middle, s",
        "≤ 5",
    ),
    Row("the same for a sweep of ten limits", "s", "what if", "ten limits, s"),
    Row("the verdicts for 1,000 runs of 100 steps, another limit", "s", "upgrading", "looser, s"),
    Row("the same where a state has another name", "s", "upgrading", "renamed, s"),
    Row("a record counted into a coverage, six rules", "μs", "covering", "count", "≤ 100"),
    Row("the same in a run of 5,000, against one of 500", "×", "covering", "growth", "≤ 1.3"),
    Row("scenarios for the whole moderator, 93 things to show", "s", "generating", "moderator, s"),
    Row("the same of 1,000 states, 5,000 edges, 20,000 moves", "s", "generating", "talking, s"),
    Row("memory of these", "MB", "generating", "memory, MB"),
    Row("`import chartloop`", "ms", "starting", "import, ms"),
    Row("`chartloop --help`", "ms", "starting", "--help, ms"),
)  # fmt: skip
OURS, PEER = ("chartloop", "workloads.py"), ("LangGraph", "peer_langgraph.py")
RAW = ("raw loop", "workloads.py", "raw")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", action="store_true", help="measure LangGraph too")
    options = parser.parse_args()
    subjects = [RAW, *dict.fromkeys((*OURS, row.workload) for row in ROWS)]
    python = sys.executable
    if options.peers:
        subjects += [(*PEER, row.workload) for row in ROWS if row.peer]
    found: dict[tuple[str, str, str], list[float]] = {}
    for number in range(options.rounds):
        for subject, script, workload in subjects:
            runs = peers() if subject == PEER[0] else python
            for name, value in measure(runs, script, workload).items():
                found.setdefault((subject, workload, name), []).append(value)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    print("| what | unit | chartloop | least to most | target | LangGraph |")
    print("|---|---|---|---|---|---|")
    for row in ROWS:
        values = found[OURS[0], row.workload, row.figure]
        beside = found.get((PEER[0], row.workload, row.peer))
        print(
            f"| {row.what} | {row.unit} | **{said(statistics.median(values))}** "
            f"| {said(min(values))} to {said(max(values))} | {row.target} "
            f"| {said(statistics.median(beside)) if beside else ''} |"
        )
    (raw,) = (
        statistics.median(values) for (subject, *_), values in found.items() if subject == RAW[0]
    )
    print(f"\nA bare loop over a counter and the same replies takes {said(raw)} μs a step.")


def said(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main()
