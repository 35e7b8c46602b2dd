"""Draws the pictures of this folder anew: the machines that ship, and the examples.

    python diagrams/draw.py

Each as Mermaid and as SVG. A test compares the committed Mermaid texts with the live machines, as
graphs.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from types import ModuleType

from chartloop import Machine, load
from chartloop.catalog import shipped_machines

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"


def pictures() -> dict[str, Machine]:
    """The machines that are drawn, by the name of their picture."""
    return {name: load(name) for name in shipped_machines()} | {
        file.parent.name: example(file.parent) for file in sorted(EXAMPLES.glob("*/machine.yaml"))
    }


def example(folder: Path) -> Machine:
    """The machine of an example, with the tools beside it."""
    tools = ModuleType(folder.name)
    if (folder / "tools.py").exists():
        vars(tools).update(runpy.run_path(str(folder / "tools.py")))
    return load(folder / "machine.yaml", tools=tools)


def main() -> None:
    """Write every picture."""
    for name, machine in pictures().items():
        picture = machine.draw().with_theme("auto")
        for suffix in ("mmd", "svg"):
            picture.save(HERE / f"{name}.{suffix}")
        print(f"{name}: {len(machine.spec.states)} states, drawn with {picture.engine}")


if __name__ == "__main__":
    main()
