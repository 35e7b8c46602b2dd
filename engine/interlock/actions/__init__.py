"""What states do: the actions and tools that every machine may name.

One file per family. An action is a function from a context and the fields of `with` to an
`Outcome`; the description beside it is what files are checked against.
"""

from __future__ import annotations

from functools import cache

from interlock.actions import calling, code, control, later, reading, reporting, talking
from interlock.actions.builtin_tools import TOOLS
from interlock.actions.declare import specs_of
from interlock.core.specs import Registry


@cache
def builtin() -> Registry:
    """The registry that every file starts with."""
    families = (talking, calling, reading, code, control, reporting, later)
    actions = {a.name: a for family in families for a in family.ACTIONS}
    return Registry(actions, specs_of(TOOLS).tools, {})


def with_own(own: Registry) -> Registry:
    """The built-in registry with an application's own entries, which win over it."""
    base = builtin()
    return Registry(
        {**base.actions, **own.actions}, {**base.tools, **own.tools}, {**base.guards, **own.guards}
    )
