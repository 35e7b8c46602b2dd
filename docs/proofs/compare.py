"""Asks four libraries the same: what do you say of this loop before it runs, and when it does?

    python -m venv venv && venv/bin/pip install -e . langgraph autogen-agentchat pydantic-graph
    venv/bin/python docs/proofs/compare.py            # prints what each says
    venv/bin/python docs/proofs/compare.py --write    # writes it into docs/proofs.md

A library that is not installed is left out, and keeps what the page has of it. Every library is
given the same three loops and a model that is never done (`loops.py`), each in the manner of its
own documentation (`of_*.py`). Tests compare the page with what this finds.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module, metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from loops import LOOPS, Library, Model, first_line, root_of  # noqa: E402  beside this file

PAGE = HERE.parent / "proofs.md"
MODULES = {
    "chartloop": "of_chartloop", "langgraph": "of_langgraph", "autogen-agentchat": "of_autogen",
    "pydantic-graph": "of_pydantic",
}  # fmt: skip
_PART = re.compile(r"<!-- (\S+) says -->\n.*?<!-- end of \1 -->", re.DOTALL)


def library(package: str) -> Library | None:
    """A library, where it is installed."""
    try:
        return import_module(MODULES[package]).LIBRARY
    except ImportError:
        return None


def said_of(found: Library, loop: str, *, limited: bool = False) -> list[str]:
    """What a library says of a loop: before a run, and what came of one."""
    model = Model(found.most)
    before = list(found.says(loop, limited=limited)) if found.says else []
    try:
        run = found.build(loop, model, limited=limited)
    except Exception as error:  # noqa: BLE001  whatever it says
        return [f"before: {line}" for line in before or [first_line(root_of(error))]]
    lines = [f"before: {line}" for line in before or ["nothing"]]
    try:
        ended = run()
        said = "it stopped" if ended is None else f"it stopped: {ended}"
    except Exception as error:  # noqa: BLE001
        said = first_line(root_of(error))
    calls = f"{model.asked:,} model call" + ("" if model.asked == 1 else "s")
    if model.asked >= model.most:
        said = "we ended it, it would have gone on"
    return [*lines, f"run: {calls}, then {said}"]


def block(package: str, found: Library) -> str:
    """What a library says, as the page has it."""
    version = "of this tree" if package == "chartloop" else metadata.version(package)
    lines = [f"# {found.name} {version}"]
    for loop in LOOPS:
        lines += ["", loop, *(f"  {line}" for line in said_of(found, loop))]
    if found.limit:
        lines += ["", f"model_decides, with {found.limit}"]
        lines += [f"  {line}" for line in said_of(found, "model_decides", limited=True)]
    body = "\n".join(lines)
    return f"<!-- {package} says -->\n```text\n{body}\n```\n<!-- end of {package} -->"


def written(page: str) -> str:
    """The page with what each library that is here says now."""

    def anew(match: re.Match[str]) -> str:
        found = library(match[1])
        return match[0] if found is None else block(match[1], found)

    return _PART.sub(anew, page)


def main() -> None:
    """Print, or write the page."""
    if "--write" in sys.argv[1:]:
        PAGE.write_text(written(PAGE.read_text("utf-8")), encoding="utf-8")
        return
    for package in MODULES:
        found = library(package)
        print(block(package, found) if found else f"{package} is not installed", end="\n\n")


if __name__ == "__main__":
    main()
