"""Draws the screens of `docs/stepping.md` anew, by stepping the example of the README.

    python docs/screens.py

A test looks that each is there and shows what the page says.
"""

from __future__ import annotations

import asyncio
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from chartloop import Run, load
from chartloop.cli.step_screen import StepControls

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "pictures"
EXAMPLE = HERE.parent / "examples" / "first"


class Shot(NamedTuple):
    """One screen: keys that are pressed first, and what is to be seen on it."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...]
    shows: str


SHOTS = (
    Shot("step-screen", (130, 40), ("s", "s"), "▶ use_tools"),
    Shot("step-map", (84, 26), ("s", "s", "m"), "▶ Use the tools"),
    Shot("step-said", (130, 40), ("s", "s", "s", "6"), "✓ add(a=2, b=3)"),
    Shot("step-small", (80, 24), ("s", "s", "2"), "edges of think"),
)


def run() -> Run:
    """The calculator, at its first state."""
    tools = runpy.run_path(str(EXAMPLE / "tools.py"))
    script: dict[str, Any] = yaml.safe_load((EXAMPLE / "replies.yaml").read_text("utf-8"))
    machine = load(EXAMPLE / "machine.yaml", tools=[tools["add"]])
    started = machine.start("What is 2 + 3?", script=script["replies"], run_id="example")
    started.advance()
    return started


async def taken(shot: Shot) -> str:
    """The screen as SVG."""
    from chartloop.ui.tui.app import StepApp  # noqa: PLC0415 - an extra

    app = StepApp(StepControls(run()))
    async with app.run_test(size=shot.size) as pilot:
        for key in ("", *shot.keys):
            if key:
                await pilot.press(key)
            await pilot.pause(0.4)
            while app.board is None or app.worker.busy or app.worker.news:
                await pilot.pause(0.1)
        return app.export_screenshot(title="chartloop step")


def own_fonts(svg: str) -> str:
    """Without the fonts of a host elsewhere: a picture of ours asks nobody for anything."""
    plain = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return plain.replace(
        "Fira Code, monospace", "DejaVu Sans Mono, Menlo, Consolas, monospace"
    ).replace("font-family: Fira Code", "font-family: DejaVu Sans Mono")


def main() -> None:
    """Write every screen."""
    PICTURES.mkdir(exist_ok=True)
    for name, svg in screens():
        (PICTURES / f"{name}.svg").write_text(svg, "utf-8")
        print(f"{name}.svg")


def screens() -> Iterator[tuple[str, str]]:
    """Each screen and its SVG."""
    for shot in SHOTS:
        yield shot.name, own_fonts(asyncio.run(taken(shot)))


if __name__ == "__main__":
    main()
