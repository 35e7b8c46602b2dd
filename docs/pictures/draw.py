"""Draws the picture of a run that `docs/notebook.md` shows.

    python docs/pictures/draw.py [FOLDER]        # by default the folder of this file

A test compares it with what this would draw: as graphs, never as bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from chartloop import Run, load
from chartloop.pictures.live.live_picture import LivePicture
from chartloop.run.progress import standing_of
from chartloop.testing import ManualClock

HERE = Path(__file__).resolve().parent
CALLS = {"text": "", "tool_calls": [{"name": "send_message", "arguments": {"message": "Moment."}}]}


def pictured() -> Run:
    """A run of the agent that has used a tool twice and is about to ask its model again."""
    usage = {"prompt_tokens": 41_000, "completion_tokens": 200}
    script = [{**CALLS, "usage": usage}, {**CALLS, "usage": usage}, "Done."]
    run = load("agent").start(
        "Look it up.", script=script, limits={"steps": 8}, clock=ManualClock(1_700_000_000),
        run_id="pictured",
    )  # fmt: skip
    while run.facts.run.steps < 5:
        run.advance()
    return run


def live(run: Run) -> str:
    """The live picture, with ids that are the same each time."""
    return LivePicture(run.draw().chart, prefix="live-").still(standing_of(run.session))


def main() -> None:
    """Draw it."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    (folder / "live.svg").write_text(live(pictured()), encoding="utf-8")


if __name__ == "__main__":
    main()
