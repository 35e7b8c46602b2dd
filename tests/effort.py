"""How much work something is, counted in calls: the same on every machine, however busy it is.

And how much work a law is to be: the examples that it gets.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

EXAMPLES = int(os.environ.get("CHARTLOOP_EXAMPLES", "0"))
"""How many examples each law gets, whatever it says itself; 0: as many as it says."""


def examples(own: int) -> int:
    """For a law that hypothesis is asked for by hand: its own number, unless all get another."""
    return EXAMPLES or own


def calls(work: Callable[[], object]) -> int:
    """How many functions `work` calls in this thread, Python's own and those written in C.

    What runs for ever inside of one C function is not counted: the suite's timeout ends it.
    """
    count = 0

    def count_call(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
