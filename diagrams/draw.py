"""Draws the pictures of this folder anew: every shipped machine, as Mermaid and as SVG.

    python diagrams/draw.py

A test compares the committed Mermaid texts with the live machines, as graphs.
"""

from __future__ import annotations

from pathlib import Path

from interlock import Machine, load
from interlock.catalog import shipped

HERE = Path(__file__).resolve().parent


def pictures() -> dict[str, Machine]:
    """The machines that are drawn, by the name of their picture."""
    return {name: load(name) for name in shipped()}


def main() -> None:
    """Write every picture."""
    for name, machine in pictures().items():
        picture = machine.draw()
        for suffix in ("mmd", "svg"):
            picture.save(HERE / f"{name}.{suffix}")
        print(f"{name}: {len(machine.spec.states)} states, drawn with {picture.engine}")


if __name__ == "__main__":
    main()
