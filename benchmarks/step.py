"""What one step passes through and what it costs, before and after, beside the peers: one table.

    python benchmarks/step.py [--before ENGINE] [--peers] [--rounds 3]
    python benchmarks/step.py --path think|use_tools

`--before` is the folder `engine` of another version, as `git worktree` gives it. The loop is that
of `run.py`, in the same rounds: `tool inline` is what the other libraries do, who call the tool on
the thread that drives the run; the thread of its own is chartloop's alone. `--path` prints each
call of a model step or a tool step, by file and function, instead.

Belongs here: counts, and ratios within one run. Never: a figure of a single version on its own,
which `run.py` has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tables
from run import BEFORE, HERE, LIBRARIES, Subject, interpreter, measured
from tables import CHARTLOOP, FLOOR, W1, W1_LONG, W2, W3, W3_DISK, Found, Line, digits, value_of

from chartloop import load, tool

THREAD, INLINE = CHARTLOOP, "chartloop, tool inline"
LANGGRAPH, PYDANTIC_GRAPH = "LangGraph", "pydantic-graph 2"
STEPS = {"think": "a model step", "use_tools": "a tool step"}
MACHINE = HERE.parent / "examples" / "first" / "machine.yaml"


class Call(NamedTuple):
    """One call of a function of chartloop."""

    depth: int
    file: str
    function: str
    line: int


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def calls(state: str) -> list[Call]:
    """The calls of a warm step of `examples/first`, on the thread that drives the run."""
    call = {"tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}
    run = load(MACHINE, tools=[add]).start("What is 2 + 3?", script=[call, call, call, "5"])
    package = f"{Path(str(sys.modules['chartloop'].__file__)).parent}/"
    seen: list[Call] = []
    depth = 0

    def see(frame: Any, event: str, _: object) -> None:
        nonlocal depth
        code = frame.f_code
        if code.co_filename.startswith(package) and event in ("call", "return"):
            if event == "call":
                file = code.co_filename.removeprefix(package)
                seen.append(Call(depth, file, code.co_qualname, code.co_firstlineno))
            depth += 1 if event == "call" else -1

    for _ in range(7):
        here = run.state
        seen, depth = ([], 0) if here == state else (seen, depth)
        sys.setprofile(see if here == state else None)
        await run.astep()
        sys.setprofile(None)
    return seen


def show(state: str) -> None:
    """Print the path of a step, then its functions by file."""
    path = asyncio.run(calls(state))
    print(*(f"{'  ' * call.depth}{call.file}: {call.function}" for call in path), sep="\n")
    files = Counter(file for file, _, _ in {call[1:] for call in path})
    print(*(f"{count:4} functions of {file}" for file, count in files.most_common()), sep="\n")


def counted(state: str) -> dict[str, float]:
    """How many functions, files and calls a step has."""
    path = asyncio.run(calls(state))
    return {
        "functions": len({call[1:] for call in path}), "files": len({call.file for call in path}),
        "calls": len(path),
    }  # fmt: skip


def elsewhere(engine: str, *arguments: str) -> dict[str, float]:
    """What this program finds out in a process of its own, with that version."""
    command = [sys.executable, __file__, "--count", *arguments]
    variables = {**os.environ, "PYTHONPATH": engine}
    done = subprocess.run(command, check=True, env=variables, capture_output=True, text=True)
    return json.loads(done.stdout)


def instructions(engine: str) -> float | None:
    """Machine instructions of a step, tool inline: of 600 turns less those of 100, by valgrind."""
    if shutil.which("valgrind") is None:
        return None
    counts: list[int] = []
    for turns in (100, 600):
        code = (
            "import sys; sys.argv = ['', 'inline']; import loop_in_chartloop as ours; "
            f"from loop import Loop; ours.memory(Loop(50))(); ours.memory(Loop({turns}))()"
        )
        command = [
            "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
            sys.executable, "-c", code,
        ]  # fmt: skip
        folders = os.pathsep.join((engine, str(HERE)))
        variables = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": folders}
        done = subprocess.run(command, check=True, env=variables, capture_output=True, text=True)
        found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
        assert found is not None, done.stderr
        counts.append(int(found[1].replace(",", "")))
    return (counts[1] - counts[0]) / 1000


def starts(
    engines: dict[str, str], peers: Sequence[Subject], rounds: int
) -> dict[str, list[float]]:
    """Seconds until the first record, in turns with a bare Python and the import of LangGraph."""
    from parts import first_record  # noqa: PLC0415 - of this version, but run by the other

    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as cache:
        compiled = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        compiled.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(1 + 3 * rounds):  # the first compiles
            taken: dict[str, float] = {}
            for name, engine in engines.items():
                taken[name] = first_record({**compiled, "PYTHONPATH": engine})
            taken["python"] = _wall([sys.executable, "-c", "pass"], compiled)
            if peers:
                taken[LANGGRAPH] = _wall(
                    [interpreter(peers[0]), "-c", "import langgraph.graph"], compiled
                )
            for name, seconds in taken.items() if number else ():
                found.setdefault(name, []).append(seconds)
    return found


def _wall(command: list[str], variables: dict[str, str]) -> float:
    since = time.perf_counter()
    subprocess.run(command, check=True, env=variables)
    return time.perf_counter() - since


class Ratio(NamedTuple):
    """A line of the table made of the loop: the figure of chartloop, divided by another's."""

    what: str
    figure: Line
    subject: str
    beside: str = ""
    """Whose figure it is divided by; without one it is printed as it is."""
    less: str = ""
    """Whose figure is taken away first."""
    times: float = 1.0
    same: str = "the same work"


def _of(cell: tables.Cell, figure: str, against: tables.Cell | None = None) -> Line:
    return Line("", "", cell, figure, against=against)


OWN_THREAD = "a thread of its own"
RATIOS = (
    Ratio("in memory, 200 turns, CPU", _of(W1, "cpu"), INLINE, LANGGRAPH),
    Ratio("in memory, 200 turns, CPU", _of(W1, "cpu"), INLINE, PYDANTIC_GRAPH),
    Ratio("in memory, 200 turns, CPU", _of(W1, "cpu"), THREAD, LANGGRAPH, same=OWN_THREAD),
    Ratio(
        "what the thread adds to a call, beside a step", _of(W1, "cpu"), THREAD, LANGGRAPH, INLINE,
        2, OWN_THREAD,
    ),
    Ratio("5,000 turns against 200, CPU", _of(W1_LONG, "cpu", W1), INLINE, same=""),
    Ratio("every step on disk, 200 turns, wall", _of(W2, "wall"), INLINE, LANGGRAPH),
    Ratio(
        "every step on disk, 200 turns, wall", _of(W2, "wall"), THREAD, LANGGRAPH, same=OWN_THREAD
    ),
    Ratio("bytes a step", _of(W2, "bytes"), INLINE, same=""),
    Ratio("1,000 agents, 10 turns of 50 ms, wall", _of(W3, "seconds"), INLINE, FLOOR),
    Ratio("1,000 agents, 10 turns of 50 ms, wall", _of(W3, "seconds"), INLINE, LANGGRAPH),
    Ratio("the same on disk", _of(W3_DISK, "seconds"), INLINE, FLOOR),
    Ratio("the same on disk", _of(W3_DISK, "seconds"), INLINE, LANGGRAPH),
    Ratio("kB an agent", _of(W3, "kB an agent"), INLINE, same=""),
)  # fmt: skip


def ratio(found: Found, line: Ratio, version: str) -> str:
    """The figure of a line for a version, `` before`` or this one."""
    value = value_of(found, line.figure, line.subject + version)
    less = value_of(found, line.figure, line.less + version) if line.less else 0.0
    beside = value_of(found, line.figure, line.beside) if line.beside else 1.0
    if value is None or less is None or not beside:
        return ""
    return digits((value - less) * line.times / beside) + (" ×" if line.beside else "")


def rows(given: argparse.Namespace) -> list[list[str]]:
    """The table, a row for each measure: before, after, and what is the same work."""
    engines = {BEFORE: given.before} if given.before else {}
    engines[""] = str(HERE.parent / "engine")
    out: list[list[str]] = []

    def add_row(what: str, beside: str, same: str, said: dict[str, str]) -> None:
        out.append([what, said.get(BEFORE, ""), said.get("", ""), beside, same])

    for state, name in STEPS.items():
        found = {version: elsewhere(engine, state) for version, engine in engines.items()}
        for key in found[""]:
            add_row(f"{key} of {name}", "", "", {v: digits(each[key]) for v, each in found.items()})
    costs = {version: instructions(engine) for version, engine in engines.items()}
    said = {v: "no valgrind here" if n is None else digits(n) for v, n in costs.items()}
    add_row("instructions a step, tool inline", "", "", said)

    cells = [W1, W1_LONG, W2, W3, W3_DISK]
    figures = measured(cells, given)
    for line in RATIOS:
        said = {version: ratio(figures, line, version) for version in engines}
        if any(said.values()):
            add_row(line.what, line.beside, line.same, said)

    times = starts(engines, given.peers, given.rounds)
    for other in ("python", LANGGRAPH):
        if other in times:
            bare = statistics.median(times[other])
            said = {v: f"{digits(statistics.median(times[v]) / bare)} ×" for v in engines}
            beside = f"import of {other}" if other == LANGGRAPH else "`python -c pass`"
            add_row("`chartloop run` to its first record, wall", beside, "", said)
    return out


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--before", default="", metavar="ENGINE",
        type=lambda name: str(Path(name).resolve()), help="the folder `engine` of another version",
    )  # fmt: skip
    parser.add_argument("--peers", action="store_true", help="LangGraph and pydantic-graph too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cap", type=float, default=120, help="seconds for a process of the loop")
    parser.add_argument("--path", choices=STEPS, help="print the path of a step instead")
    parser.add_argument("--count", choices=STEPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    beside = [one for one in LIBRARIES if one.name in (LANGGRAPH, PYDANTIC_GRAPH)]
    given.peers = beside if given.peers else []
    if given.path:
        show(given.path)
    elif given.count:
        print(json.dumps(counted(given.count)))
    else:
        head = ["measure", "before", "after", "beside", "the same work?"]
        print(tables.table(head, rows(given)))


if __name__ == "__main__":
    main()
