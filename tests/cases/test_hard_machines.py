"""Machines made to be hard: the work grows as they do, and what takes too much is `unknown`.

Work is counted in calls of Python functions, the same on every computer. The machines are those
that `benchmarks/` measures, smaller: there a thousand states take some seconds.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from chartloop.analysis.checker.loops import LOOPS
from chartloop.analysis.proofs.bound import bound
from chartloop.analysis.proofs.query import Questions
from chartloop.api import Machine, examine

_FILE = Path(__file__).parents[2] / "benchmarks" / "machines.py"


def _made(name: str) -> Callable[..., str]:
    spec = importlib.util.spec_from_file_location("benchmarks_machines", _FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


class Hard(NamedTuple):
    """A machine of a size, and how much more work one of twice the size may be."""

    maker: str
    size: tuple[int, ...]
    twice: tuple[int, ...]
    factor: float
    """4 where the edges are as many as the square of the states, and so on."""
    loop: bool = True
    """Whether there is a loop that no budget cuts."""


MACHINES = [
    Hard("dense", (30, 150), (60, 300), 4, loop=False),
    Hard("hard", (30,), (60,), 4, loop=False),
    Hard("decisions", (20,), (40,), 4, loop=False),
    Hard("forks", (15,), (30,), 4),
    Hard("complete", (8,), (16,), 10),
    Hard("detours", (2,), (3,), 10),
]


def counted(work: Callable[[], Any]) -> tuple[int, Any]:
    """How many functions were called, and what came of it."""
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = work()
    finally:
        sys.setprofile(before)
    return calls, found


def _asked(machine: Machine) -> str:
    states = list(machine.spec.states)
    return str(Questions(machine.chart).ask(f"always state:{states[-1]} after state:{states[0]}"))


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("hard", MACHINES, ids=lambda hard: hard.maker)
def test_the_work_grows_as_the_machine(hard: Hard) -> None:
    make = _made(hard.maker)
    examine(make(*hard.size))  # what is made once is made
    spent: list[tuple[int, int, int]] = []
    for size in (hard.size, hard.twice):
        checking, found = counted(lambda size=size: examine(make(*size)))
        assert found.machine is not None
        assert any(f.code == "CL316" for f in found.findings) == hard.loop
        machine: Machine = found.machine
        proving, proven = counted(lambda machine=machine: bound(machine.chart))
        assert not proven.unknown
        assert bool(proven.loop) == hard.loop
        asking, answer = counted(lambda machine=machine: _asked(machine))
        assert answer.startswith(("yes", "no"))
        spent.append((checking, proving, asking))
    small, large = spent
    grown = [b / a for a, b in zip(small, large, strict=True)]
    assert max(grown) <= hard.factor, (small, large)


@pytest.mark.slow("takes seconds")
def test_too_many_ways_are_unknown_with_the_reason() -> None:
    found = examine(_made("detours")(8))
    assert found.machine is not None
    assert LOOPS in found.unsettled
    proven = found.machine.bound()
    assert proven.unknown == "it has more than 150,000 paths"
    assert proven.reasons_to_refuse({"usd": 2}) == ("usd: it has more than 150,000 paths",)
    assert str(found.machine.query("reach d0")) == "unknown: it has more than 150,000 paths"


def test_guards_at_the_bound() -> None:
    """2,000 characters and 300 parts are allowed, and such a guard is judged; more are refused."""
    parts = [f"usage.total_tokens * {n} + run.steps >= {n + 3}" for n in range(90)]
    assert len(" or ".join(parts[:42])) > 1_800
    machine = examine(_asking(" or ".join(parts[:42]))).machine
    assert machine is not None
    assert machine.bound()["actions"].value == 3
    assert [f.code for f in examine(_asking(" or ".join(parts))).findings] == ["CL107"]


def _asking(guard: str) -> str:
    return f"""chartloop: 1
machine: m
model: {{name: scripted}}
states:
  a: {{do: infer, failed: next, next: q}}
  q: {{ask: Enough?, when: "{guard}", then: z, else: a}}
  z: {{stop: completed}}
"""
