"""What a picture shows of a run: where it is and what it went through, as plain data.

Belongs here: the record that painters are given. Never: the run itself, its journal, a colour.
It holds counts, not the path: what a repaint costs does not grow with the length of the run.

Source:       design "traps" (pictures and notebooks)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

How = Literal["", "natural", "human", "limit", "error"]
"""How a run ended, as `Result.kind` counts it; empty while it continues."""


class Standing(NamedTuple):
    """Where a run is. The default is one of which nothing is known."""

    state: str = ""
    """The state it is in."""
    visits: Mapping[str, int] = {}
    """How often each state was entered."""
    taken: Mapping[str, int] | None = None
    """How often each edge and rule was taken, by id; None where no one counted."""
    how: How = ""
    reason: str = ""
    """Why it ended: the name of a stop reason."""
    by: str = ""
    """The rule, state or caller that raised the reason."""
    failed: Mapping[str, int] = {}
    """How often something failed in each state: its action, or a call of a tool."""
    said: str = ""
    """How it is in words, for the line under the title."""


class Meter(NamedTuple):
    """What a decision, a rule or a wait reads now."""

    said: str
    """The value against its bound: `412,318 / 1,000,000`; or a value alone."""
    share: float | None = None
    """How much of the bound is used; None for what has none."""
