"""Laws of `generate`, over generated machines: what is written passes, and is the shortest.

The brute force makes every run up to a length, and takes no two of them for alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from chartloop.api import load
from chartloop.run.sync import wait
from chartloop.scenarios import run_scenario
from chartloop.scenarios.generator.generate import generate
from chartloop.scenarios.generator.moves import Moves, Node
from chartloop.scenarios.generator.search import Search
from chartloop.scenarios.generator.search_targets import Target, shown_by, targets_of
from chartloop.scenarios.generator.starts import Start
from chartloop.scenarios.generator.unreached import impossible
from chartloop.scenarios.generator.world import World
from chartloop.testing import ManualClock
from tests.laws.test_record_laws import accepted, now_and_then, poke
from tests.strategies import costly_machines, small_machines

WORK = 400


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(costly_machines())
@settings(deadline=None, max_examples=30)
def test_every_scenario_passes_and_shows_what_it_is_for(data: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        machine = Path(folder) / "m.yaml"
        assume(accepted(machine, data))
        made = generate(machine, folder, tools=[poke, now_and_then], work=WORK)
        shown: set[Target] = set()
        for one, path in zip(made.scenarios, made.write(), strict=True):
            report = run_scenario(path, tools=[poke, now_and_then])
            assert report.passed, f"{one.text}\n{report}"
            assert report.run is not None
            assert set(one.shows) <= shown_by(report.run), one.text
            assert not shown & set(one.shows), "shown twice"
            shown |= set(one.shows)
        left = {one.target for one in made.unreached}
        assert shown | left == set(made.targets)
        assert not shown & left, "what is proven impossible was shown"


# the shortest -------------------------------------------------------------------------------

DEPTH = 6


def moves_of(folder: str | Path) -> Moves:
    path = Path(folder) / "m.yaml"
    clock = ManualClock()
    return Moves(load(path), World(clock), clock, run_own=False)


async def every_run(moves: Moves, start: Start, longest: int) -> dict[Target, int]:
    """The length of the shortest whole run that shows each target, by making all of them."""
    found: dict[Target, int] = {}
    layer = [node] if (node := await moves.begin(start)) is not None else []
    while layer:
        behind: list[Node] = []
        for node in layer:
            if node.rests:
                for target in (t for at in node.lineage() for t in at.shown):
                    found[target] = min(node.length, found.get(target, node.length))
            if node.length < longest:
                behind += [after async for after in moves.behind(node) if after.length <= longest]
        layer = behind if len(behind) < 4_000 else []
    return found


def different(found: dict[Target, int], search: Search) -> Iterator[str]:
    for target, length in found.items():
        candidate = search.candidates.get(target)
        if candidate is None:
            yield f"{target} was not found, and there is a run of {length}"
        elif candidate.end.length > length:
            yield f"{target} takes {candidate.end.length}, and there is a run of {length}"


STARTS = (Start(), Start(limits={"few": 1}), Start(task=""), Start(vars={"flag": True}))


def small(rules: list[Any], states: dict[str, Any]) -> dict[str, Any]:
    """One such machine, written out."""
    ends = {"done": {"stop": "completed"}, "stopped": {"stop": "stagnation"}}
    head: dict[str, Any] = {"chartloop": 1, "machine": "small", "model": {"name": "scripted"}}
    more = {"limits": {"few": 1}, "vars": {"n": 0, "flag": False}}
    return {**head, **more, "rules": rules, "states": {**states, **ends}}


ALWAYS = "run.steps >= 1"
SIGNALLED = small(
    [{"when": ALWAYS, "signal": "custom"}],
    {"s0": {"do": "infer", "next": [{"when": ALWAYS, "to": "done"}, {"when": ALWAYS, "to": "s0"}, "s0"]}},
)  # fmt: skip
"""A reason that only a signal rule raises was called impossible: signals are no arrows."""
ALIKE = small([], {
    "s0": {"do": "infer", "next": ["s1"]},
    "s1": {"on": {"yes": "s1", "no": "s1"}, "within": "30s", "expired": "done"},
})  # fmt: skip
"""Two answers that leave the run as it was: what one has shown is not what the other has."""


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(small_machines(), st.sampled_from(STARTS))
@example(SIGNALLED, Start())
@example(ALIKE, Start())
@settings(deadline=None, max_examples=200)
def test_no_shorter_run_shows_it(data: dict[str, Any], start: Start) -> None:
    with TemporaryDirectory() as folder:
        assume(accepted(Path(folder) / "m.yaml", data))
        moves = moves_of(folder)
        found = wait(every_run(moves, start, DEPTH - 2), suspends=True)
        search = Search(moves, frozenset(found), work=8_000)
        wait(search.run(), suspends=True)
        assert list(different(found, search)) == []
        proven = impossible(moves.chart, targets_of(moves.chart))
        assert not found.keys() & proven.keys(), "what is proven impossible was shown"


def test_the_brute_force_finds_something(tmp_path: Path) -> None:
    """Else the law above would hold of nothing."""
    states = {
        "s0": {"do": "infer", "next": [{"when": "run.steps >= 2", "to": "done"}, "s0"]},
        "done": {"stop": "completed"},
    }
    data: dict[str, Any] = {"chartloop": 1, "machine": "small", "model": {"name": "scripted"}}
    data |= {"rules": [], "states": states}
    assert accepted(tmp_path / "m.yaml", data)
    moves = moves_of(tmp_path)
    found = wait(every_run(moves, Start(), DEPTH), suspends=True)
    assert found[Target("reason", "completed")] == 3
    assert found[Target("edge", "s0.next.1")] == 3
