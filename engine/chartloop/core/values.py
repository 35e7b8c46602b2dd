"""Values: the base of the frozen structs for facts, positions, outcomes and records.

Values compare by their fields, can be pickled, and are cheap: a step makes some thirty of them.
They cannot form reference cycles, so the garbage collector need not track them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import asdict, astuple, fields

Time: TypeAlias = Annotated[float, Meta(ge=0, le=1e15)]
"""A time or a duration in seconds. A stored one in another range is damaged."""
Money: TypeAlias = Annotated[float, Meta(ge=0, le=1e15)]
"""An amount of USD, with the same range."""
Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**15)]
"""A number of things, with the same range."""


class Value(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A frozen struct. `core.codec` writes it without the fields that have their default."""

    if TYPE_CHECKING:

        def replace(self, **changes: Any) -> Self:
            """Return a copy with some fields changed."""
            ...

    else:
        replace = Struct.__replace__

    def __reduce__(self) -> tuple[Any, ...]:
        # fields that have their default keep it: the codec leaves out what is the default itself
        unset = self.defaults()
        given = {n: v for n, v in asdict(self).items() if n not in unset or v is not unset[n]}
        return partial(type(self), **given), ()

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
