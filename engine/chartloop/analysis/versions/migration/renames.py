"""The names of an old machine's states, edges and rules in a new one, for reading its records.

The new file's `renamed` counts. Names that only the alignment of the two files finds are proposals,
to be written into the file first.

Belongs here: names. Never: deciding anything with them (`judge`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from chartloop.analysis.versions.diff.align import Pairs
from chartloop.core.records import Record
from chartloop.language.spec import MachineSpec
from chartloop.run.renaming import START, Names

GONE = ", which is gone"
"""The suffix for the id of an edge or rule that the new machine lacks: no real id has it."""


class Naming(NamedTuple):
    """The names that the new file gives, and those that it lacks."""

    given: Names
    proposed: Names
    """The names if the file had `lines`."""
    lines: Mapping[str, str]
    """The renamed states that are missing under `renamed`."""


def naming(old: MachineSpec | None, new: MachineSpec, pairs: Pairs) -> Naming:
    """Return the names of `old`'s states, edges and rules in `new`; without `old`, those given."""
    if old is None:
        return Naming(Names(new.renamed), Names(new.renamed), {})
    # `a: b` in the old file and `a: c` in the new one make `b` `c`
    indirect = {
        middle: new.renamed[first]
        for first, middle in old.renamed.items()
        if first in new.renamed and middle not in new.states
    }
    given = {**indirect, **new.renamed}
    lines = {o: n for o, n in _aligned_names(old, pairs) if o not in given and o not in new.states}
    edges = dict(_edges(old, pairs))
    return Naming(Names(given, edges), Names({**given, **lines}, edges), lines)


def _aligned_names(old: MachineSpec, pairs: Pairs) -> Iterator[tuple[str, str]]:
    """Yield each name that a record may have, with its aligned new name."""
    yield from ((o, n) for o, n in pairs.states.items() if o != n)
    for first, middle in old.renamed.items():
        if middle in pairs.states:
            yield first, pairs.states[middle]


def _edges(old: MachineSpec, pairs: Pairs) -> Iterator[tuple[str, str]]:
    """Yield the id of each edge and rule, as any record may have it, with its new id."""
    known = {**pairs.edges, **pairs.rules}
    before: dict[str, list[str]] = {}
    for first, middle in old.renamed.items():
        before.setdefault(middle, []).append(first)
    ids = [edge.id for edge in old.edges()] + [rule.id for rule in old.rules]
    ids += [old.on_error.id] if old.on_error is not None else []
    for id in ids:
        now = known.get(id, f"{id}{GONE}")
        yield id, now
        state, dot, rest = id.partition(".")
        yield from ((f"{first}{dot}{rest}", now) for first in before.get(state, ()))


def used(records: Iterable[Record], lines: Mapping[str, str]) -> dict[str, str]:
    """Return the lines that these records need."""
    names: set[str] = set()
    for record in records:
        names |= {record.state, record.next, str(record.input.data.get(START, ""))}
        names |= {_state_of(id) for id in record.taken}
    return {old: new for old, new in lines.items() if old in names}


def _state_of(id: str) -> str:
    head, _, rest = id.partition(".")
    return rest if head == "raised" else head


def block(lines: Mapping[str, str]) -> str:
    """Return the lines as YAML for a machine's file."""
    return "".join(["renamed:\n", *(f"  {old}: {new}\n" for old, new in lines.items())])
