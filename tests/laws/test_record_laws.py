"""The law of `record`: what was played and recorded is played again as it was.

The runs are those that `generate` makes of generated machines: with failures, tool calls, waits that
are answered or not, cancels, other limits and variables at the start.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings

from chartloop.scenarios import generate, recording, run_scenario
from tests.laws.test_generate_laws import accepted, now_and_then, poke, small_machines
from tests.strategies import costly_machines

OWN = [poke, now_and_then]


def play_again(folder: Path, data: dict[str, Any], work: int) -> None:
    """Generate, play, record and play again."""
    (folder / "again").mkdir()
    assume(accepted(folder / "m.yaml", data))
    made = generate(folder / "m.yaml", folder / "made", tools=OWN, work=work)
    for path in made.write():
        first = run_scenario(path, tools=OWN)
        assert first.run is not None
        again = recording(first.run, first.run.machine, named="../m.yaml")
        assert (again.differences, again.lacks) == ((), ()), f"{path.read_text()}\n{again.text}"
        report = run_scenario(again.save(folder / "again" / path.name), tools=OWN)
        assert report.passed, f"{again.text}\n{report}"
        assert report.run is not None
        assert report.run.result.path == first.run.result.path
        assert report.run.result.reason == first.run.result.reason


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(costly_machines())
@settings(deadline=None, max_examples=15)
def test_a_recorded_run_of_any_machine_is_played_as_it_was(data: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        play_again(Path(folder), data, work=200)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(small_machines())
@settings(deadline=None, max_examples=15)
def test_a_recorded_run_with_waits_is_played_as_it_was(data: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        play_again(Path(folder), data, work=300)
