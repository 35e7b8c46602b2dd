"""The directory `check`: small machines, each with what the checker must say of it.

A file is named ``CODE-KIND-what-it-is.yaml``; the kind is ``has``, ``nearly`` (it looks like it and
is right) or ``hidden`` (behind another part of the file). Its first lines say what is expected:

    # expects: CL304 at states.b
    #   under: b
    #   says: state `b` is never reached

`under` is what the caret stands under. ``# expects: nothing`` says that nothing is to be found.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop import guard, tool
from chartloop.api import examine
from chartloop.core.codes import CODES
from chartloop.core.specs import ActionSpec, Effect

HERE = Path(__file__).parent / "check"
FILES = sorted(HERE.glob("*.yaml"))
CHECKER = Path(__file__).parents[2] / "engine" / "chartloop" / "analysis" / "checker"
KINDS = ("has", "nearly", "hidden")
LATER = re.compile(r"# expects: (CL\d{3}) at (.*)\n#   under: (.*)\n#   says: (.*)\n")


@guard
def is_sound(text: str) -> bool:
    """A guard of an application: nobody but it knows what it says."""
    return bool(text)


@tool
def spend(usd: float) -> str:
    """A tool of an application: it costs something."""
    return str(usd)


@tool(effect="pure")
def look() -> str:
    """A tool of an application that only reads."""
    return ""


OWN = [ActionSpec("free", None, effect=Effect.PURE), is_sound]
TOOLS = {"CL360": [spend, look], "CL367": [spend, look]}
"""Further tools that the cases of a code know."""


class Expected(NamedTuple):
    """One finding."""

    code: str
    at: str
    under: str
    says: str


def expected(path: Path) -> list[Expected]:
    """What the first lines of a file say that is found in it."""
    return [Expected(*found) for found in LATER.findall(path.read_text("utf-8"))]


def said(path: Path) -> list[Expected]:
    """What is found in a file."""
    tools = [*OWN, *TOOLS.get(path.name[:5], ())]
    found = examine(path.read_text("utf-8"), tools=tools).findings
    return [
        Expected(f.code, f.at, f.place.text[f.place.column - 1 :][: f.place.width], f.message)
        for f in found
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_file_has_what_its_first_lines_say(path: Path) -> None:
    code, kind, _ = path.stem.split("-", 2)
    assert code in CODES
    assert kind in KINDS
    wanted = expected(path)
    codes = {e.code for e in wanted}
    assert (code in codes) == (kind != "nearly")
    assert ("# expects: nothing\n" in path.read_text("utf-8")) == (not codes)

    assert said(path) == wanted


def test_every_finding_has_its_three() -> None:
    sources = [
        p for p in CHECKER.rglob("*.py") if "query" not in p.parts
    ]  # it has errors of its own
    codes = {c for p in sources for c in re.findall(r'"(CL\d{3})"', p.read_text())}
    found = Counter(tuple(p.stem.split("-", 2)[:2]) for p in FILES)
    missing = [(code, kind) for code in sorted(codes) for kind in KINDS if not found[code, kind]]
    assert missing == []
