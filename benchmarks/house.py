"""The shape of the package in figures: its size, its dust, and what one step passes through.

    python benchmarks/house.py [REVISION ...]
    python benchmarks/house.py --dust [ROOM ...]

One column for each revision, read out of git, and one for the files as they are. Dust is a function
with one caller that would fit into it: `--dust` lists each of some rooms, or of all. The steps are
those of `examples/first`: a state that asks the model, then one that calls a tool. They are played
once to fill caches, then counted with `sys.setprofile`: whatever the package calls in the thread
that drives the run.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
Figures = dict[str, float | int]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Sources = Mapping[Path, str]
FITS, FITS_DEEP = 25, 40
"""Lines of a body, without its docstring, up to which a caller could take a function back."""

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
    parser.add_argument("--dust", metavar="ROOM", nargs="*", help="list the dust of rooms")
    asked = parser.parse_args()
    if asked.dust is not None:
        print_dust(package_of(ROOT), asked.dust)
        return
    revisions: list[str] = asked.revisions
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
    folder = package_of(root)
    sources = read(folder)
    trees = {path: ast.parse(text) for path, text in sources.items()}
    names = {module_of(path, folder): path for path in sources}
    imports = {path: [*internal_imports(tree, folder)] for path, tree in trees.items()}
    top = {path: {m for m, hidden in found if not hidden} for path, found in imports.items()}
    importers = Counter(name for found in top.values() for name in found & names.keys())
    lines = {path: text.count("\n") for path, text in sources.items()}
    alike = Counter(path.name for path in sources if path.name != "__init__.py")
    actions = action_names(root)
    steps = one_step(root, folder.name)
    defined = [f for tree in trees.values() for f in functions(tree)]
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return {
        "files": len(sources),
        "lines": sum(lines.values()),
        "tokens, without comments, docstrings, layout and imports": sum(
            tokens(text, trees[path]) for path, text in sources.items()
        ),
        "functions": len(defined),
        "functions in a thousand lines": 1000 * len(defined) / sum(lines.values()),
        f"private, with one caller that stays within {FITS} lines": len(dust(sources, FITS)),
        f"private, with one caller that stays within {FITS_DEEP} lines": len(
            dust(sources, FITS_DEEP)
        ),
        f"public, with one caller that stays within {FITS} lines": len(
            dust(sources, FITS, public=True)
        ),
        "`_repr_mimebundle_` written by hand": sum(f.name == "_repr_mimebundle_" for f in defined),
        "`lines` written by hand": sum(f.name == "lines" for f in defined),
        "names of public classes that are defined more than once": sum(
            count > 1 for count in classes.values()
        ),
        "imports in functions": sum(imports_inside(tree) for tree in trees.values()),
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


def package_of(root: Path) -> Path:
    """The folder of the package."""
    (folder,) = (path.parent for path in (root / "engine").glob("*/__init__.py"))
    return folder


def read(folder: Path) -> dict[Path, str]:
    """The text of each file."""
    return {path: path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))}


def tokens(text: str, tree: ast.Module) -> int:
    """How much a file says: renaming, moving and reflowing leave the number as it is."""
    silent = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENCODING, tokenize.ENDMARKER,
    }  # fmt: skip
    off: set[int] = set()
    for node in ast.walk(tree):
        alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if (alone and isinstance(node.value.value, str)) or isinstance(
            node, (ast.Import, ast.ImportFrom)
        ):
            off.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        token.type not in silent and token.string != "," and token.start[0] not in off
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
    )


class Grain(NamedTuple):
    """A function that its only caller could take back."""

    path: Path
    line: int
    name: str
    caller: str
    size: int
    """Lines of its body, without the docstring."""
    caller_size: int
    """Those of the caller, with what it took back before."""


def dust(sources: Sources, most: int, *, public: bool = False) -> list[Grain]:
    """Functions that are named once, in a call, by a function which stays within `most` lines.

    A private one is looked for in its own file, a public one in the package. Left out is what
    cannot return as it is: a generator, a decorated one, one that returns at several places, one of
    several statements that is called inside an expression, and what is used as a value.
    """
    surveys = {path: survey(text) for path, text in sources.items()}
    everywhere = sum((found.names for found in surveys.values()), Counter[str]())
    twice = Counter(f.name for found in surveys.values() for f in found.functions)
    homes = {
        name: path
        for path, found in surveys.items()
        for name in found.names
        if everywhere[name] == twice[name] == 1
    }  # of what is named once, and defined once
    sizes = {id(f): len_of(f) for found in surveys.values() for f in found.functions}
    grains: list[Grain] = []
    for path, found in surveys.items():
        for function in found.functions:
            name = function.name
            if name.startswith("__") or name.startswith("_") == public:
                continue
            home = homes.get(name) if public else path if found.names[name] == 1 else None
            if home is None or not returns_once(function):
                continue
            caller, hard = surveys[home].calls.get(name, (function, True))
            body = body_of(function)
            single = len(body) == 1 and isinstance(body[0], ast.Return)
            size, there = sizes[id(function)], sizes[id(caller)]
            if caller is not function and (single or not hard) and size + there <= most:
                grains.append(Grain(path, function.lineno, name, caller.name, size, there))
                sizes[id(caller)] += size - 1
    return grains


class Survey(NamedTuple):
    """What dust is told by in one file."""

    functions: list[Function]
    names: Counter[str]
    """How often each name is read or written, also as an attribute."""
    calls: dict[str, tuple[Function, bool]]
    """The last function that calls a name, the innermost, and whether inside an expression."""


HARD = (
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda, ast.IfExp, ast.BoolOp
)  # fmt: skip
"""Expressions in which there is no place for statements."""


@cache
def survey(text: str) -> Survey:
    """Read a file for its dust."""
    found = Survey([], Counter(), {})
    left: list[tuple[ast.AST, Function | None, bool]] = [(ast.parse(text), None, False)]
    while left:
        node, within, hard = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.functions.append(node)
            within, hard = node, False
        elif isinstance(node, ast.Name):
            found.names[node.id] += 1
        elif isinstance(node, ast.Attribute):
            found.names[node.attr] += 1
        elif isinstance(node, ast.Call) and within is not None:
            called = node.func
            if isinstance(called, (ast.Name, ast.Attribute)):
                name = called.id if isinstance(called, ast.Name) else called.attr
                found.calls[name] = within, hard
        elif isinstance(node, HARD):
            hard = True
        elif isinstance(node, ast.While):
            left.append((node.test, within, True))
            left += [(part, within, hard) for part in (*node.body, *node.orelse)]
            continue
        left += [(part, within, hard) for part in ast.iter_child_nodes(node)]
    found.functions.reverse()
    return found


def body_of(function: Function) -> list[ast.stmt]:
    """The statements of a function after its docstring."""
    return function.body[ast.get_docstring(function) is not None :]


def len_of(function: Function) -> int:
    """The lines of a body, without its docstring."""
    body = body_of(function)
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def returns_once(function: Function) -> bool:
    """Whether the lines of a function could stand where it is called."""
    nodes = [*ast.walk(function)]
    return (
        bool(body_of(function))
        and all(
            isinstance(d, ast.Name) and d.id in {"staticmethod", "classmethod"}
            for d in function.decorator_list
        )
        and not any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes)
        and sum(isinstance(node, ast.Return) for node in nodes) <= 1
    )


def print_dust(folder: Path, rooms: list[str]) -> None:
    """Each function that could return to its caller, with both sizes and where both fit."""
    sources = read(folder)
    for title, public in (("private", False), ("public", True)):
        near = {grain[:3] for grain in dust(sources, FITS, public=public)}
        for grain in dust(sources, FITS_DEEP, public=public):
            if rooms and grain.path.relative_to(folder).parts[0] not in rooms:
                continue
            print(
                f"{grain.path.relative_to(folder)}:{grain.line}\t{title}\t{grain.name}"
                f"\tinto {grain.caller}\t{grain.size} + {grain.caller_size}"
                f"\t{FITS if grain[:3] in near else FITS_DEEP}"
            )


def imports_inside(tree: ast.Module) -> int:
    """How many import statements stand in functions."""
    return len(
        {
            id(node)
            for function in functions(tree)
            for node in ast.walk(function)
            if isinstance(node, (ast.Import, ast.ImportFrom))
        }
    )


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


def functions(tree: ast.Module) -> Iterator[Function]:
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
