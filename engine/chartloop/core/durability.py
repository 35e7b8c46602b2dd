"""The durability of a write to a journal: two promises, and their names.

Belongs here: the promises. Never: how one is kept (`adapters`).
Source: 004 "Step checkpointing and recovery".
"""

from __future__ import annotations

from typing import Literal

from chartloop.core.errors import SetupError

Durability = Literal["process", "power"]
"""The failures that a write survives once it has returned.

`process`: the end of the process, by ``kill -9`` too. A loss of power may take the newest writes
back, and leaves a whole journal. `power`: the loss of power as well.
"""
DURABILITIES: tuple[Durability, ...] = ("process", "power")


def known_durability(given: str) -> Durability:
    """The durability of that name. `SetupError` where there is none."""
    for known in DURABILITIES:
        if given == known:
            return known
    raise SetupError(
        f"`durability` is {given!r}, which is not one of: {', '.join(DURABILITIES)}",
        hint="`process`: what is written survives `kill -9`; `power`: the loss of power too",
    )
