"""All benchmarks with one command.

    python benchmarks/run.py [--peers] [--only ROW,ROW...] [--rounds 3] [--write]

The rows `w1`, `w2`, `w3`, `w3 on disk` and `http` are the loop that everybody runs (`loop.py`),
beside other libraries with `--peers`; the others are parts of chartloop alone. Each cell is a
process of its own, and in each round all of them take turns, so that a machine whose speed drifts
drifts for all. What is printed are medians. Each library is in an environment of its own,
`.peers/NAME` beside this file, made when it is first needed.

`--write` keeps the figures in `figures.json` and puts the tables into README.md and
docs/benchmarks.md. A row is always replaced as a whole.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import tables
from tables import CHARTLOOP, FLOOR, PARTS, WORKS, Cell, Found

HERE = Path(__file__).resolve().parent
PEERS = HERE / ".peers"
LANGGRAPH = ("langgraph>=1.2,<2", "langgraph-checkpoint-sqlite>=3,<4")


class Subject(NamedTuple):
    """Who does the work: a script, run by the interpreter of an environment."""

    name: str
    script: str
    environment: str = ""
    """The empty one is that of this process."""
    requirements: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    """The first arguments of the script."""
    lacks: tuple[str, ...] = ()
    """Works that the library has nothing for."""
    engine: str = ""
    """The folder `engine` of another version of chartloop."""


BEFORE = " before"
ON_DISK = ("w2", "w3 on disk")
OURS = Subject(CHARTLOOP, "loop_in_chartloop.py")
INLINE = Subject("chartloop, tool inline", "loop_in_chartloop.py", first=("inline",))
LIBRARIES = (
    Subject("LangGraph", "loop_in_langgraph.py", "langgraph", LANGGRAPH),
    Subject(
        "LangGraph, deltas", "loop_in_langgraph.py", "langgraph", LANGGRAPH, ("deltas",),
        ("w1", "w3", "w3 on disk"),
    ),
    Subject(
        "pydantic-graph 1", "loop_in_pydantic_graph_1.py", "pydantic_graph_1",
        ("pydantic-graph>=1,<2",),
    ),
    Subject(
        "pydantic-graph 2", "loop_in_pydantic_graph_2.py", "pydantic_graph_2",
        ("pydantic-graph>=2,<3",), lacks=ON_DISK,
    ),
    Subject("Burr", "loop_in_burr.py", "burr", ("burr>=0.42,<1",)),
)  # fmt: skip
BARE = Subject(FLOOR, "loop_in_python.py")
WITH_LITELLM = ("litellm", ("-e", f"{HERE.parent}[llm]"))
CALLERS = (
    Subject(CHARTLOOP, "calls.py", *WITH_LITELLM, ("chartloop",)),
    Subject(FLOOR, "calls.py", *WITH_LITELLM, ("litellm",)),
)


def before(engine: str) -> tuple[Subject, Subject]:
    """Another version of chartloop, with its tool on a thread and inline."""
    versions = (one._replace(name=f"{one.name}{BEFORE}", engine=engine) for one in (OURS, INLINE))
    return next(versions), next(versions)


def subjects(
    cell: Cell, *, peers: Iterable[Subject], engine: str = ""
) -> list[tuple[Subject, list[str]]]:
    """Who does the work of a cell, each with the arguments of its script."""
    if cell.work in PARTS:
        ours = Subject(CHARTLOOP, "parts.py")
        both = (ours, ours._replace(name=CHARTLOOP + BEFORE, engine=engine))
        return [(one, [cell.work]) for one in both[: 2 if engine else 1]]
    size = [str(cell.turns), str(cell.agents)]
    if cell.work == "http":
        return [(one, [*one.first, *size]) for one in CALLERS]
    others = before(engine) if engine else ()
    able = [OURS, INLINE, *others, BARE, *peers]
    return [(one, [*one.first, cell.work, *size]) for one in able if cell.work not in one.lacks]


def interpreter(subject: Subject) -> str:
    """The interpreter of the subject's environment, which is made at first use."""
    if not subject.environment:
        return sys.executable
    folder = PEERS / subject.environment
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *subject.requirements], check=True)
        ready.touch()
    return str(python)


def measure(subject: Subject, arguments: list[str], cap: float) -> dict[str, float]:
    """The figures of one process. Another library may take too long, or fail: these are figures."""
    command = [interpreter(subject), str(HERE / subject.script), *arguments]
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        # A process that is cut off leaves its files here.
        variables = {**os.environ, "TMPDIR": folder}
        if subject.engine:
            variables["PYTHONPATH"] = subject.engine
        try:
            done = subprocess.run(
                command, check=False, env=variables, capture_output=True, text=True, timeout=cap
            )
        except subprocess.TimeoutExpired:
            return {"over": cap}
    if done.returncode != 0:
        print(f"{' '.join(command)}\n{done.stderr[-1000:]}", file=sys.stderr)
        if subject not in LIBRARIES:
            raise SystemExit(1)
        return {"failed": 1}
    return json.loads(done.stdout.splitlines()[-1])


def measured(cells: list[Cell], options: argparse.Namespace) -> Found:
    """What all rounds gave: cell, subject, figure, values."""
    found: Found = {}
    for number in range(options.rounds):
        for cell in cells:
            row = found.setdefault(cell.key, {})
            for subject, arguments in subjects(cell, peers=options.peers, engine=options.before):
                known = row.setdefault(subject.name, {})
                if known.keys() & {"over", "failed"}:
                    continue
                cap = options.cap if cell.work in WORKS else 10 * options.cap
                figures = measure(subject, arguments, cap)
                for name, value in figures.items():
                    known.setdefault(name, []).append(float(f"{value:.4g}"))
            print(f"round {number + 1} of {options.rounds}: {cell.key}", file=sys.stderr)
    return found


def versions() -> dict[str, str]:
    """What was measured where."""
    said = {"Python": platform.python_version(), "processors": str(os.cpu_count())}
    for subject in LIBRARIES:
        if not subject.first:
            package = subject.requirements[0].partition(">")[0]
            code = f"import importlib.metadata as m; print(m.version({package!r}))"
            command = [interpreter(subject), "-c", code]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            said[subject.name] = done.stdout.strip()
    return said


def options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [*WORKS, *PARTS]
    parser.add_argument("--only", default=",".join(names), help=f"of: {', '.join(names)}")
    parser.add_argument("--peers", action="store_true", help="the other libraries too")
    parser.add_argument(
        "--before", default="", metavar="ENGINE", type=lambda name: str(Path(name).resolve()),
        help="another version too: its folder `engine`, as `git worktree` gives it",
    )  # fmt: skip
    parser.add_argument("--short", action="store_true", help="without the runs of 25 x the length")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--cap", type=float, default=120,
        help="seconds for a process of the loop (default: 120); a part may take ten times as long",
    )  # fmt: skip
    parser.add_argument("--write", action="store_true", help="put the figures into the pages")
    given = parser.parse_args()
    given.only = given.only.split(",")
    given.peers = LIBRARIES if given.peers else ()
    if unknown := sorted(set(given.only) - set(names)):
        parser.error(f"`{unknown[0]}` is not a row; they are {', '.join(names)}")
    if given.write and not given.peers and not set(given.only) <= {*PARTS, "http"}:
        parser.error("what is written of the loop has all libraries of one run: add `--peers`")
    if given.write and given.short:
        parser.error("what is written has both lengths: leave out `--short`")
    return given


def main() -> None:
    """Measure, print, and write where that is asked for."""
    given = options()
    cells = [cell for name in given.only for cell in tables.cells_of(name)]
    if given.short:
        cells = [cell for cell in cells if not cell.long]
    found = measured(cells, given)
    print(tables.loop_table(found), tables.parts_table(found), sep="\n\n")
    if given.write:
        tables.keep(found, versions())
        tables.write()


if __name__ == "__main__":
    main()
