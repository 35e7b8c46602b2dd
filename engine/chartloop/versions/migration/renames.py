"""Which state, edge and rule of an old machine is which of a new one, for reading its records.

What the new file says under `renamed` counts. What it does not say, and the alignment of the two
files finds, is a proposal: it goes into the file first.

Belongs here: names. Never: deciding anything with them (`upgrade`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from chartloop.core.records import Record
from chartloop.language.spec import MachineSpec
from chartloop.run.renaming import START, Names
from chartloop.versions.diff.align import Pairs

GONE = ", which is gone"
"""Behind the id of an edge or rule that the new machine does not have: no id is like it."""


class Naming(NamedTuple):
    """The names that the new file gives, and those that it would have to give."""

    given: Names
    proposed: Names
    """With `lines` in the file."""
    lines: Mapping[str, str]
    """States that are called otherwise now, and the file does not say so."""


def naming(old: MachineSpec | None, new: MachineSpec, pairs: Pairs) -> Naming:
    """The names of `old`'s states, edges and rules in `new`. Without `old`, what the file says."""
    if old is None:
        return Naming(Names(new.renamed), Names(new.renamed), {})
    given = {**dict(_through(old, new)), **new.renamed}
    lines = {o: n for o, n in _aligned_names(old, pairs) if o not in given and o not in new.states}
    edges = dict(_edges(old, pairs))
    return Naming(Names(given, edges), Names({**given, **lines}, edges), lines)


def _through(old: MachineSpec, new: MachineSpec) -> Iterator[tuple[str, str]]:
    """``a: b`` in the old file and ``a: c`` in the new one: what was recorded as `b` is `c`."""
    return (
        (middle, new.renamed[first])
        for first, middle in old.renamed.items()
        if first in new.renamed and middle not in new.states
    )


def _aligned_names(old: MachineSpec, pairs: Pairs) -> Iterator[tuple[str, str]]:
    """Each name that a record may have, with its aligned name of now."""
    yield from ((o, n) for o, n in pairs.states.items() if o != n)
    for first, middle in old.renamed.items():
        if middle in pairs.states:
            yield first, pairs.states[middle]


def _edges(old: MachineSpec, pairs: Pairs) -> Iterator[tuple[str, str]]:
    """The edges and rules by id, as any record may name them."""
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
    """Those of the lines that these records need."""
    named: set[str] = set()
    for record in records:
        named |= {record.state, record.next, str(record.input.data.get(START, ""))}
        named |= {_state_of(id) for id in record.taken}
    return {old: new for old, new in lines.items() if old in named}


def _state_of(id: str) -> str:
    head, _, rest = id.partition(".")
    return rest if head == "raised" else head


def block(lines: Mapping[str, str]) -> str:
    """The lines as they are in a machine's file."""
    return "".join(["renamed:\n", *(f"  {old}: {new}\n" for old, new in lines.items())])
