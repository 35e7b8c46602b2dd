"""One line of progress for many runs: what it counts, and what it leaves out where it is narrow."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.cli.progress_bar import BatchProgress

HALF = BatchProgress(done=32, total=50, running=3, failed=1, tokens=6_656, cost=0.4211, elapsed=8.0)


class Case(NamedTuple):
    """A width, and the line that fits."""

    columns: int
    line: str


@pytest.mark.parametrize(
    "case",
    [
        Case(120, "████████████░░░░░░░░ 32 of 50 · 3 running · 1 failed · about 4 s left"
                  " · $0.4211 · 6,656 tokens"),
        Case(79, "32 of 50 · 3 running · 1 failed · about 4 s left · $0.4211 · 6,656 tokens"),
        Case(60, "32 of 50 · 3 running · 1 failed · about 4 s left · $0.4211"),
        Case(40, "32 of 50 · 1 failed · about 4 s left"),
        Case(25, "32 of 50 · 1 failed"),
        Case(9, "32 of 50"),
        Case(4, "32 o"),
    ],
    ids=lambda case: str(case.columns),
)  # fmt: skip
def test_the_line_fits(case: Case) -> None:
    assert HALF.line(case.columns) == case.line
    assert len(HALF.line(case.columns)) <= case.columns


class Left(NamedTuple):
    """How far it is, and the time that is left."""

    id: str
    done: int
    elapsed: float
    seconds: float | None


@pytest.mark.parametrize(
    "left",
    [
        Left("too-few-are-done", 2, 5.0, None),
        Left("the-others-take-as-long", 10, 20.0, 80.0),
        Left("all-are-done", 50, 9.0, None),
        Left("no-time-has-passed", 10, 0.0, None),
    ],
    ids=lambda left: left.id,
)
def test_time_is_estimated_once_it_can_be(left: Left) -> None:
    progress = HALF._replace(done=left.done, elapsed=left.elapsed)
    assert progress.time_left == left.seconds
    assert ("left" in progress.line(200)) == (left.seconds is not None)


def test_a_cost_that_is_not_known_is_said() -> None:
    assert "cost not known" in HALF._replace(cost=None).line(200)


def test_a_long_time_is_rough() -> None:
    assert "about 25 min left" in HALF._replace(elapsed=2_670.0).line(200)
