"""Aligns an old file of a machine with a new one: the names of its states, edges and rules there.

The new file's `renamed` counts. Names that only the alignment of the two files finds are proposals,
to be written into the file first. States are paired as in a diff, and then by equal content and
neighbourhood. Upgrades and what-ifs read the records of an old file under these names.

Belongs here: names. `judge` and `studies.whatif.question` decide with them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from chartloop.analysis.versions.diff.align import Pairs
from chartloop.analysis.versions.diff.change import Change
from chartloop.analysis.versions.diff.compare import compare
from chartloop.analysis.versions.diff.machine_parts import Renaming, state_part
from chartloop.core.records import Record
from chartloop.language.file.file import StateShape
from chartloop.language.spec import MachineSpec
from chartloop.run.renaming import START, Names

GONE = ", which is gone"
"""The suffix for the id of an edge or rule that the new machine lacks: no real id has it."""


class Alignment(NamedTuple):
    """Which states, edges and rules of two files correspond, and the differences between them."""

    changes: tuple[Change, ...]
    states: Mapping[str, str]
    """The states of the old file that have one in the new, with its name there."""
    given: Names
    """The names that the new file gives to what a record of the old one names."""
    proposed: Names
    """The names if the file had `lines`."""
    lines: Mapping[str, str]
    """The renamed states that are missing under `renamed`."""


def align_files(old: MachineSpec | None, new: MachineSpec) -> Alignment:
    """Align two files of a machine; without `old`, only the names that `new` gives are known."""
    if old is None or old is new:
        own = Names(new.renamed)
        return Alignment((), {}, own, own, {})
    _, pairs, changes = compare(old, new)
    if more := align_states(old, new, pairs.states):
        _, pairs, changes = compare(old, replace(new, renamed={**new.renamed, **more}))
    # `a: b` in the old file and `a: c` in the new one make `b` `c`
    indirect = {
        middle: new.renamed[first]
        for first, middle in old.renamed.items()
        if first in new.renamed and middle not in new.states
    }
    given = {**indirect, **new.renamed}
    lines = {o: n for o, n in _aligned_names(old, pairs) if o not in given and o not in new.states}
    edges, proposed = dict(_edges(old, pairs)), {**given, **lines}
    return Alignment(changes, pairs.states, Names(given, edges), Names(proposed, edges), lines)


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


# states ---------------------------------------------------------------------------------------


Sign = frozenset[Hashable]


def align_states(old: MachineSpec, new: MachineSpec, known: Mapping[str, str]) -> dict[str, str]:
    """Pair more states, beyond the `known` pairs, by equal content and neighbourhood."""
    pairs: dict[str, str] = {}
    while more := dict(_unique_pairs(old, new, {**known, **pairs})):
        pairs |= more
    return pairs


def _unique_pairs(
    old: MachineSpec, new: MachineSpec, states: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield unpaired states of both machines with the same signature, if it is unique in each."""
    back = {there: here for here, there in states.items()}
    names = Renaming(states)
    ours, theirs = dict[Sign, list[str]](), dict[Sign, list[str]]()
    for name in (n for n in old.states if n not in states):
        sign = _sign(old, name, lambda n: states.get(n, ""), names)
        ours.setdefault(sign, []).append(name)
    for name in (n for n in new.states if n not in back):
        sign = _sign(new, name, lambda n: n if n in back else "", Renaming())
        theirs.setdefault(sign, []).append(name)
    for sign, here in ours.items():
        if len(here) == 1 and len(there := theirs.get(sign, [])) == 1:
            yield here[0], there[0]


def _sign(spec: MachineSpec, name: str, known: Callable[[str], str], names: Renaming) -> Sign:
    """The signature of a state: its aspects and neighbours, in names that both machines have."""
    aspects = state_part(spec.states[name], names).aspects.items()
    sign: set[Hashable] = {("says", n, a.value) for n, a in aspects if n not in StateShape.words()}
    for edge in spec.edges():
        suffix = edge.id[len(edge.source) :]
        if edge.target == name and known(edge.source):
            sign.add(("from", known(edge.source), suffix))
        if edge.source == name:
            sign.add(("to", known(edge.target), suffix))
    leading = (rule for rule in spec.rules if rule.to == name)
    sign |= {("rule", rule.stop, names.text(rule.when.text)) for rule in leading}
    if spec.on_stop == name:
        sign.add("on_stop")
    if spec.on_error is not None and spec.on_error.target == name:
        sign.add("on_error")
    return frozenset(sign)
