"""The durability of writes to a journal: two guarantees, and their names.

Belongs here: the guarantees. Never: how they are implemented (`adapters`).
Source: 004 "Step checkpointing and recovery".
"""

from __future__ import annotations

from typing import Literal

from chartloop.core.errors import SetupError

Durability = Literal["process", "power"]
"""The failures that a completed write survives.

`process`: the end of the process, even by ``kill -9``. A loss of power may undo the newest writes,
but leaves the journal intact. `power`: the loss of power as well.
"""
DURABILITIES: tuple[Durability, ...] = ("process", "power")


def known_durability(name: str, *, source: str = "durability") -> Durability:
    """The durability of that name. Raises `SetupError` for any other, and names its source."""
    for known in DURABILITIES:
        if name == known:
            return known
    raise SetupError(
        f"`{source}` is {name!r}, which is not one of: {', '.join(DURABILITIES)}",
        hint="`process`: what is written survives `kill -9`; `power`: the loss of power too",
    )
