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


SUBJECTS: list[tuple[str, str, str]] = [
    ("raw loop", "workloads.py", "raw"),
    ("interlock", "workloads.py", "step"),
    ("interlock", "workloads.py", "append"),
    ("interlock", "workloads.py", "agents in memory"),
    ("interlock", "workloads.py", "agents durable"),
    ("interlock", "workloads.py", "weight"),
    ("interlock", "workloads.py", "opening"),
    ("interlock", "workloads.py", "loading"),
    ("interlock", "workloads.py", "starting"),
    ("LangGraph", "peer_langgraph.py", "step"),
    ("LangGraph", "peer_langgraph.py", "agents in memory"),
    ("LangGraph", "peer_langgraph.py", "agents durable"),
]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", action="store_true", help="measure LangGraph too")
    options = parser.parse_args()
    pythons = {"interlock": sys.executable, "raw loop": sys.executable}
    if options.peers:
        pythons["LangGraph"] = peers()
    found: dict[tuple[str, str, str], list[float]] = {}
    for number in range(options.rounds):
        for subject, script, workload in SUBJECTS:
            if subject not in pythons:
                continue
            for name, value in measure(pythons[subject], script, workload).items():
                found.setdefault((subject, workload, name), []).append(value)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    print("| subject | workload | figure | median | min | max |\n|---|---|---|---|---|---|")
    for (subject, workload, name), values in found.items():
        low, middle, high = min(values), statistics.median(values), max(values)
        print(f"| {subject} | {workload} | {name} | {middle:.4g} | {low:.4g} | {high:.4g} |")


if __name__ == "__main__":
    main()
