"""The shape of the package in figures: its size, its imports, and what one step passes through.

    python benchmarks/house.py [REVISION ...]

One column for each revision, read out of git, and one for the files as they are. The steps are
those of `examples/first`: a state that asks the model, then one that calls a tool. They are played
once to fill caches, then counted with `sys.setprofile`: whatever the package calls in the thread
that drives the run.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Figures = dict[str, float | int]

STEPS = '''
import asyncio, importlib, json, sys
from pathlib import Path
root = Path(sys.argv[1])
sys.path.insert(0, str(root / "engine"))
module = importlib.import_module(sys.argv[2])
load, tool = module.load, module.tool
package = str(root / "engine")

@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

CALL = {"tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}

async def count(run):
    files, functions, calls, depth, deepest = set(), set(), 0, 0, 0
    def profile(frame, event, arg):
        nonlocal calls, depth, deepest
        name = frame.f_code.co_filename
        if not name.startswith(package):
            return
        if event == "call":
            files.add(name), functions.add(frame.f_code)
            calls, depth = calls + 1, depth + 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1
    sys.setprofile(profile)
    await run.astep()
    sys.setprofile(None)
    return {"files": len(files), "functions": len(functions), "calls": calls, "depth": deepest}

async def main():
    machine = load(root / "examples/first/machine.yaml", tools=[add])
    run = machine.start("What is 2 + 3?", script=[CALL, CALL, CALL, "5"])
    counted = {}
    for _ in range(7):
        state = run.state
        counted[state] = await count(run)
    print(json.dumps({"model": counted["think"], "tool": counted["use_tools"]}))

asyncio.run(main())
'''


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revisions", metavar="REVISION", nargs="*")
    revisions: list[str] = parser.parse_args().revisions
    columns: dict[str, Figures] = {}
    for revision in revisions:
        with tempfile.TemporaryDirectory() as name:
            archive = subprocess.run(
                ["git", "archive", revision], cwd=ROOT, check=True, capture_output=True
            ).stdout
            subprocess.run(["tar", "-x", "-C", name], input=archive, check=True)
            columns[revision] = figures(Path(name))
    columns["now"] = figures(ROOT)
    print("| | " + " | ".join(columns) + " |")
    print("| --- |" + " --- |" * len(columns))
    for row in columns["now"]:
        cells = (column.get(row, "") for column in columns.values())
        print(f"| {row} | " + " | ".join(written(cell) for cell in cells) + " |")


def written(cell: Any) -> str:
    """A figure as the table has it."""
    return f"{cell:.1f}" if isinstance(cell, float) else f"{cell:,}" if cell != "" else ""


def figures(root: Path) -> Figures:
    """The rows of one version."""
    (folder,) = (path.parent for path in (root / "engine").glob("*/__init__.py"))
    sources = {path: path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in sources.items()}
    names = {module_of(path, folder): path for path in sources}
    imports = {path: [*internal_imports(tree, folder)] for path, tree in trees.items()}
    top = {path: {m for m, hidden in found if not hidden} for path, found in imports.items()}
    importers = Counter(name for found in top.values() for name in found & names.keys())
    lines = {path: text.count("\n") for path, text in sources.items()}
    alike = Counter(path.name for path in sources if path.name != "__init__.py")
    actions = action_names(root)
    steps = one_step(root, folder.name)
    return {
        "files": len(sources),
        "lines": sum(lines.values()),
        "lines of the longest file": max(lines.values()),
        "imports of the package a file, mean": sum(map(len, top.values())) / len(top),
        "imports of the package in functions": sum(
            hidden for found in imports.values() for _, hidden in found
        ),
        "files under 80 lines that one file imports": sum(
            importers[name] == 1 and lines[path] < 80 and path.name != "__init__.py"
            for name, path in names.items()
        ),
        "file names that stand more than twice": sum(count > 2 for count in alike.values()),
        "functions with one word, a participle, for a name": sum(
            bare_participle(f.name) for tree in trees.values() for f in functions(tree)
        ),
        "names of actions written outside of `actions`": sum(
            named_actions(tree, actions)
            for path, tree in trees.items()
            if folder / "actions" not in path.parents
        ),
        **{f"a step of the model: {what}": n for what, n in steps.get("model", {}).items()},
        **{f"a step of a tool: {what}": n for what, n in steps.get("tool", {}).items()},
    }


def module_of(path: Path, folder: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def internal_imports(tree: ast.Module, folder: Path) -> Iterator[tuple[str, bool]]:
    """The modules of the package that a file imports, and whether inside of a function."""
    inside = {
        id(node) for function in functions(tree) for node in ast.walk(function)
    }  # a function in a function is walked twice: it is a set
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = node.module
            parts = [f"{module}.{alias.name}" for alias in node.names]
            found = [part if file_of(part, folder) is not None else module for part in parts]
        else:
            continue
        for name in dict.fromkeys(found):
            if name.split(".")[0] == folder.name:
                yield name, id(node) in inside


def file_of(name: str, folder: Path) -> Path | None:
    """The file of a module, if there is one."""
    base = folder.parent.joinpath(*name.split("."))
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods of a file."""
    return (n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))


def bare_participle(name: str) -> bool:
    """Whether a function is called by one word such as `_shown` or `told`."""
    word = name.strip("_")
    irregular = {"said", "told", "shown", "drawn", "known", "made", "left", "kept", "held", "taken",
                 "given", "written", "seen", "done", "gone", "sent", "spent", "found",
                 "led", "cut", "met", "begun", "chosen"}  # fmt: skip
    return "_" not in word and (word in irregular or (len(word) > 4 and word.endswith("ed")))


def action_names(root: Path) -> frozenset[str]:
    """The built-in actions: the headings of their page."""
    text = (root / "docs" / "reference" / "actions.md").read_text("utf-8")
    return frozenset(line[3:] for line in text.splitlines() if line.startswith("## "))


def named_actions(tree: ast.Module, actions: frozenset[str]) -> int:
    """How often a file writes the name of an action as a text of its own."""
    return sum(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in actions
        for node in ast.walk(tree)
    )


def one_step(root: Path, package: str) -> dict[str, dict[str, int]]:
    """What a step of the model and one of a tool pass through. Empty where it cannot be played."""
    made = subprocess.run(
        [sys.executable, "-c", STEPS, str(root), package],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return json.loads(made.stdout) if made.returncode == 0 else {}


if __name__ == "__main__":
    main()
