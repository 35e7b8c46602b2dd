"""Values: the base of the frozen structs for facts, positions, outcomes and records.

Values compare by their fields, can be pickled, and are cheap: a step makes some thirty of them.
They cannot form reference cycles, so the garbage collector need not track them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from msgspec import NODEFAULT, Struct
from msgspec.structs import asdict, astuple, fields


class Value(Struct, frozen=True, gc=False):
    """A frozen struct."""

    if TYPE_CHECKING:

        def replace(self, **changes: Any) -> Self:
            """Return a copy with some fields changed."""
            ...

    else:
        replace = Struct.__replace__

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The default values of the fields, by name."""
        return {f.name: f.default for f in fields(cls) if f.default is not NODEFAULT}

    def to_tuple(self) -> tuple[Any, ...]:
        """The values of the fields, in order."""
        return astuple(self)

    def to_mapping(self) -> dict[str, Any]:
        """The fields by name, in order. Their values are not converted."""
        return asdict(self)
