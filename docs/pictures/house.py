"""Draws the rooms of the package from its real imports, for `docs/design.md`.

    python docs/pictures/house.py [FOLDER]       # by default the folder of this file

An arrow goes from a room to one that it imports. An arrow that a longer path already shows is left
out, as in any drawing of an order. `imports_of` reads the files; nothing is imported.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import graphviz

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "engine" / "chartloop"
STOREYS: Mapping[str, str] = {
    "cli": "faces", "hosting": "faces", "ui": "faces", "compat": "faces",
    "interchange": "faces", "scenarios": "tools", "studies": "tools", "testing": "tools",
    "analysis": "tools", "api": "system", "adapters": "system", "actions": "system",
    "run": "running", "pictures": "running", "machine": "rules", "catalog": "rules",
    "extras": "rules", "language": "rules", "core": "rules",
}  # fmt: skip
"""Which storey a room is on. A new room must be named here."""
FILLS: Mapping[str, str] = {
    "faces": "#e8f0fe", "tools": "#e6f4ea", "system": "#fef7e0", "running": "#fce8e6",
    "rules": "#f3e8fd",
}  # fmt: skip


def room_of(module: str) -> str:
    """The room of a module by its full name; empty for the package itself."""
    _, _, inside = module.partition(".")
    return inside.partition(".")[0]


def imports_of(package: Path = PACKAGE) -> dict[str, set[str]]:
    """The rooms, each with those that it imports anywhere, types and functions included."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in package.rglob("*.py"):
        here = path.relative_to(package).with_suffix("").parts[0]
        if here in {"__init__", "__main__"}:
            continue
        found[here].update(name for name in _imported(path, package) if name != here)
    return dict(found)


def _imported(path: Path, package: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            room = room_of(name) if name.startswith("chartloop.") else ""
            if room and ((package / room).is_dir() or (package / f"{room}.py").is_file()):
                yield room


def reduced(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The arrows that no longer path shows. Raises `graphlib.CycleError` for a circle."""
    below: dict[str, set[str]] = {}
    for room in TopologicalSorter(graph).static_order():
        below[room] = set().union(*({n} | below[n] for n in graph.get(room, ())))
    return {
        room: {n for n in graph[room] if not any(n in below[o] for o in graph[room] if o != n)}
        for room in graph
    }


def drawing(graph: Mapping[str, set[str]]) -> graphviz.Digraph:
    """The rooms, the highest at the top."""
    made = graphviz.Digraph("house", graph_attr={"ranksep": "0.3", "nodesep": "0.25"})
    made.attr("node", shape="box", style="filled,rounded", fontname="Inter,Helvetica,Arial")
    made.attr("edge", color="#5f6368", arrowsize="0.6")
    for room in sorted({*graph, *(n for names in graph.values() for n in names)}):
        made.node(room, fillcolor=FILLS[STOREYS[room]], color="#5f6368")
    for room, names in sorted(reduced(graph).items()):
        for name in sorted(names):
            made.edge(room, name)
    return made


def main() -> None:
    """Draw it."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    svg = drawing(imports_of()).pipe(format="svg", encoding="utf-8")
    (folder / "house.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
