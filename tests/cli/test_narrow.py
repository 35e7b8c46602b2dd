"""What the questions about a machine print at a terminal of 80 columns: nothing is wider."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Terminal

LINES = [
    ("bound", "agent"),
    ("bound", "geist"),
    ("query", "moderator", "always state:monitor after start", "reach done"),
]


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_nothing_is_wider_than_the_terminal(line: tuple[str, ...], folder: Path) -> None:
    with Terminal(*line, cwd=folder, columns=80) as shown:
        shown.wait()
        wide = [text for text in shown.shown.splitlines() if len(text) > 80]
    assert shown.shown
    assert not wide
