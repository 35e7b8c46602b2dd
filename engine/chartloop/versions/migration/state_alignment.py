"""Renamed states that say too little to be known by what they say: ends, forks, states that pass.

A comparison of files takes a state for renamed where it still says half of the same. `over: {end:
by_reason}` says nothing but its name. Here such a state is known by where it is: the same ways
lead to it and from it, and what it says is the same. It is a proposal, held against the records.

Belongs here: pairs beyond those of `versions.diff.align`. Never: whether they are right.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from chartloop.language.spec import MachineSpec
from chartloop.versions.diff.machine_parts import Renaming, state_part

_FOR_PEOPLE = frozenset({"label", "ask", "about", "role", "shape"})

Sign = frozenset[Hashable]


def align_states(old: MachineSpec, new: MachineSpec, known: Mapping[str, str]) -> dict[str, str]:
    """The states, next to the `known` pairs, that are in the same place and look alike."""
    found: dict[str, str] = {}
    while more := dict(_unique_pairs(old, new, {**known, **found})):
        found |= more
    return found


def _unique_pairs(
    old: MachineSpec, new: MachineSpec, states: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Unpaired states of both that look alike, where no third one does."""
    back = {there: here for here, there in states.items()}
    names = Renaming(states)
    ours, theirs = dict[Sign, list[str]](), dict[Sign, list[str]]()
    for name in (n for n in old.states if n not in states):
        sign = _sign(old, name, lambda n: states.get(n, ""), names)
        ours.setdefault(sign, []).append(name)
    for name in (n for n in new.states if n not in back):
        sign = _sign(new, name, lambda n: n if n in back else "", Renaming())
        theirs.setdefault(sign, []).append(name)
    for sign, found in ours.items():
        if len(found) == 1 and len(there := theirs.get(sign, [])) == 1:
            yield found[0], there[0]


def _sign(spec: MachineSpec, name: str, known: Callable[[str], str], names: Renaming) -> Sign:
    """What a state says and where it is, in names that both machines have."""
    said = state_part(spec.states[name], names).aspects.items()
    sign: set[Hashable] = {("says", n, a.value) for n, a in said if n not in _FOR_PEOPLE}
    for edge in spec.edges():
        way = edge.id[len(edge.source) :]
        if edge.target == name and known(edge.source):
            sign.add(("from", known(edge.source), way))
        if edge.source == name:
            sign.add(("to", known(edge.target), way))
    led = (rule for rule in spec.rules if rule.to == name)
    sign |= {("rule", rule.stop, names.text(rule.when.text)) for rule in led}
    if spec.on_stop == name:
        sign.add("on_stop")
    if spec.on_error is not None and spec.on_error.target == name:
        sign.add("on_error")
    return frozenset(sign)
