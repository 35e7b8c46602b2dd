"""The standing of a run for its pictures: its place and its counts, as plain data.

Belongs here: the record that painters receive. Never: the run itself, its journal, a colour. It
holds counts instead of the path, so that the cost of a repaint does not grow with the run.

Source: docs/notebook.md, "A picture that follows the run"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Standing(NamedTuple):
    """The place of a run and its counts. The default is that of an unknown run."""

    state: str = ""
    """The current state."""
    visits: Mapping[str, int] = {}
    """How often each state was entered."""
    taken: Mapping[str, int] | None = None
    """How often each edge and rule was taken, by id; None without counts."""
    how: str = ""
    """The name of the phase in which it ended; empty while it continues."""
    reason: str = ""
    """Why it ended: the name of a stop reason."""
    by: str = ""
    """The rule, state or caller that raised the reason."""
    failed: Mapping[str, int] = {}
    """The failures in each state, of its action or of tool calls."""
    caption: str = ""
    """Its status in words, for the line under the title."""
    last_state: str = ""
    """The state of the file at which it is or ended, if `state` is an end of the engine."""
