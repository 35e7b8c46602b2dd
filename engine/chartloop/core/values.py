"""Values: the frozen records that facts, positions, outcomes and log entries are made of.

Compared by their fields, picklable, and cheap: a step makes some thirty of them. They cannot hold
themselves, so the garbage collector need not look at them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from msgspec import NODEFAULT, Struct
from msgspec.structs import asdict, astuple, fields


class Value(Struct, frozen=True, gc=False):
    """The base of these records."""

    if TYPE_CHECKING:

        def replace(self, **changes: Any) -> Self:
            """The same with other values in some of its fields."""
            ...

    else:
        replace = Struct.__replace__

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The values of the fields that need not be given, by name."""
        return {f.name: f.default for f in fields(cls) if f.default is not NODEFAULT}

    def to_tuple(self) -> tuple[Any, ...]:
        """The values of its fields, in their order."""
        return astuple(self)

    def to_mapping(self) -> dict[str, Any]:
        """Its fields by name, in their order. What is in them stays as it is."""
        return asdict(self)
