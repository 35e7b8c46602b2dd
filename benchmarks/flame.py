"""Flame graphs of one turn of the loop, in memory and on disk, for docs/benchmarks.md.

    python benchmarks/flame.py [--engine FOLDER] [--suffix=-before]

py-spy, from an environment of its own below `.peers`, looks at a process that plays runs of 200
turns. Only what a run does is kept: all threads, without imports, the loading of the machine, and
threads that wait. A box is as wide as its share of the time, and what it calls is below it.
`--engine` is the folder `engine` of another version, as `git worktree` gives it.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from run import Subject, interpreter

HERE = Path(__file__).resolve().parent
PICTURES = HERE.parent / "docs" / "pictures"
SPY = Subject("py-spy", "", "flame", ("py-spy>=0.4,<1",))
TURNS, SECONDS, RATE = 200, 8.0, 400

WIDTH, ROW, LEAST, CHARACTER = 1200, 17, 1.5, 6.2
COLOURS = {
    "actions": "#f4a261", "run": "#e9c46a", "machine": "#90be6d", "core": "#a8dadc",
    "adapters": "#f28482", "language": "#b8c0ff", "api": "#cdb4db",
}  # fmt: skip
OTHER = "#d9d9d9"
"""Python's own modules, other libraries, and the benchmark's model and tool."""
FRAME = re.compile(r"^(?P<name>.+) \((?P<file>[^():]+)(?::\d+)?\)$")
WAITING = (
    "wait (threading", "select (selectors", "_worker (concurrent/", "_wait (chartloop/run/lease",
    "get (queue", "run (chartloop/run/workers",
)  # fmt: skip
"""What a thread is in that does nothing; py-spy takes some of them for working ones."""
NOT_A_RUN = ("importlib", "_find_and_load", "machine (loop_in_chartloop.py")


class Frame(NamedTuple):
    """A function, and the module that it is in."""

    name: str
    module: str

    @property
    def colour(self) -> str:
        """That of its folder of chartloop."""
        parts = self.module.split(".")
        return COLOURS.get(parts[1], OTHER) if parts[0] == "chartloop" and parts[1:] else OTHER


class Box(NamedTuple):
    """A part of a row."""

    left: float
    width: float
    depth: int
    frame: Frame


Stack = tuple[Frame, ...]
ROUND = Frame("event loop, threads, model and tool", "")
"""All that no function of chartloop has called."""


def play(work: str) -> None:
    """Play runs for some seconds, and print how much CPU time a turn took."""
    import loop_in_chartloop as ours  # noqa: PLC0415 - only the process that is looked at has it
    from loop import Loop  # noqa: PLC0415

    began, cpu, turns = time.monotonic(), 0.0, 0
    while time.monotonic() - began < SECONDS or not turns:
        with tempfile.TemporaryDirectory() as name:
            loop = Loop(TURNS)
            run = ours.memory(loop) if work == "w1" else ours.disk(loop, Path(name))
            before = time.process_time()
            run()
            cpu, turns = cpu + time.process_time() - before, turns + TURNS
            loop.prove()
    print(json.dumps(cpu / turns * 1e6))


def record(work: str, engine: Path) -> tuple[Counter[Stack], float]:
    """The stacks that were seen, and the CPU microseconds of a turn."""
    spy = Path(interpreter(SPY)).with_name("py-spy")
    with tempfile.TemporaryDirectory() as name:
        raw = Path(name) / "stacks.txt"
        command = [spy, "record", "-r", str(RATE), "-f", "raw", "-o", raw, "--"]
        command += [sys.executable, HERE / "flame.py", "--play", work]
        variables = {**os.environ, "PYTHONPATH": str(engine)}
        done = subprocess.run(command, check=True, env=variables, stdout=subprocess.PIPE, text=True)
        turn = next(float(said) for said in done.stdout.splitlines() if said[:1].isdigit())
        return stacks(raw.read_text("utf-8")), turn


def stacks(text: str) -> Counter[Stack]:
    """What py-spy wrote, without what is not part of a run."""
    found: Counter[Stack] = Counter()
    for line in text.splitlines():
        written, _, count = line.rpartition(" ")
        frames = written.split(";")
        if any(word in frame for frame in frames for word in NOT_A_RUN):
            continue
        if any(word in frames[-1] for word in WAITING):
            continue
        start = next((n for n, f in enumerate(frames) if f.startswith("run (loop_in_")), None)
        if start is not None or any("_bootstrap" in frame for frame in frames):
            found[inner(tuple(map(frame_of, frames[start or 0 :])))] += int(count)
    return found


def inner(stack: Stack) -> Stack:
    """A stack from its first function of chartloop on."""
    ours = (n for n, frame in enumerate(stack) if frame.module.startswith("chartloop."))
    start = next(ours, None)
    return (ROUND,) if start is None else stack[start:]


def frame_of(text: str) -> Frame:
    match = FRAME.match(text)
    if match is None:
        return Frame(text, "")
    file = match["file"].removesuffix(".py").removesuffix("/__init__")
    return Frame(match["name"], file.split("engine/")[-1].replace("/", "."))


def boxes(found: Counter[Stack]) -> Iterator[Box]:
    """What is drawn: equal callers side by side, the widest first."""

    def below(rows: list[tuple[Stack, int]], left: float, depth: int) -> Iterator[Box]:
        groups: dict[Frame, list[tuple[Stack, int]]] = {}
        for stack, count in rows:
            if stack:
                groups.setdefault(stack[0], []).append((stack[1:], count))
        sizes = {frame: sum(count for _, count in group) for frame, group in groups.items()}
        for frame in sorted(groups, key=lambda frame: -sizes[frame]):
            width = sizes[frame] * scale
            if width >= LEAST:
                yield Box(left, width, depth, frame)
                yield from below(groups[frame], left, depth + 1)
            left += width

    scale = WIDTH / max(1, found.total())
    yield from below(list(found.items()), 0, 0)


def draw(found: Counter[Stack], turn: float, title: str) -> str:
    """The picture, as SVG without scripts."""
    drawn = list(boxes(found))
    height = (3 + max((box.depth for box in drawn), default=0)) * ROW + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        "<style>text { font: 11px ui-monospace, monospace }</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="4" y="13" font-weight="bold">{html.escape(title)}: {turn:,.0f} μs of CPU</text>',
    ]
    right = float(WIDTH)
    for name, colour in [*reversed(COLOURS.items()), ("other", OTHER)]:
        right -= (len(name) + 3) * CHARACTER
        lines.append(f'<rect x="{right:.0f}" y="4" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{right + 13:.0f}" y="13">{name}</text>')
    lines += [_boxed(box, turn) for box in drawn]
    return "\n".join([*lines, "</svg>", ""])


def _boxed(box: Box, turn: float) -> str:
    y = (box.depth + 1) * ROW + 4
    cost = f"{box.width / WIDTH * turn:,.0f} μs"
    where = f"{box.frame.module}." if box.frame.module else ""
    label = f"{box.frame.name} {cost}"
    room = int((box.width - 4) / CHARACTER)
    shown = label if len(label) <= room else box.frame.name[: max(0, room - 1)] + "…"
    text = f'<text x="{box.left + 2:.1f}" y="{y + 12}">{html.escape(shown)}</text>'
    return (
        f"<g><title>{html.escape(where + label)}</title>"
        f'<rect x="{box.left:.1f}" y="{y}" width="{box.width - 0.5:.1f}" height="{ROW - 1}" '
        f'fill="{box.frame.colour}"/>{text if room >= 3 else ""}</g>'
    )


def main() -> None:
    """Write both pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--engine", type=Path, default=HERE.parent / "engine")
    parser.add_argument("--suffix", default="", help="of the files' names")
    parser.add_argument("--play", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        play(given.play)
        return
    for work, title in (("w1", "One turn in memory"), ("w2", "One turn on disk")):
        found, turn = record(work, given.engine.resolve())
        path = PICTURES / f"turn-{work}{given.suffix}.svg"
        path.write_text(draw(found, turn, title), "utf-8")
        print(f"{path.name}: {found.total()} samples, {turn:,.0f} μs of CPU a turn")


if __name__ == "__main__":
    main()
