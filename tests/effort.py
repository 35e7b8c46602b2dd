"""How much work something is, counted in calls: the same on every machine, however busy it is.

And how much work a law is to be: the examples that it gets.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from hypothesis import settings


def many() -> bool:
    """Whether each law gets as many examples as `CHARTLOOP_EXAMPLES` says."""
    return settings.get_current_profile_name() == "many"


def examples(own: int) -> int:
    """For a law that asks hypothesis by hand: its own number, unless all get another."""
    return settings().max_examples if many() else own


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
