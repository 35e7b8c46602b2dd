"""What gives the values that the condition of a gate reads: the file, its caller, its parent.

Compared as text: where two machines say the same of a variable, a limit or a memory block, its
value at the gate comes about alike. Other facts follow from the whole machine and are not compared.

Belongs here: where a value comes from. Never: what that means for consent (`consent`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chartloop.language.spec import Given, MachineSpec
from chartloop.machine.abstract.signals import carried_out


class Placed(NamedTuple):
    """A machine, and the one that runs it as a child of this name."""

    spec: MachineSpec
    name: str = ""
    above: Placed | None = None


def caller_sets(at: Placed, fact: str) -> bool:
    """Whether the caller of a run, or the model that calls an agent, may set it at the start."""
    (root, name), inputs = _parts(fact), at.spec.inputs
    child = at.above is not None and at.name not in at.above.spec.tools
    if child or root not in ("vars", "memory"):
        return False
    return at.above is None if inputs is None else (name if root == "vars" else fact) in inputs


def sources(
    at: Placed, fact: str, names: Mapping[str, str], seen: tuple[str, ...] = ()
) -> set[str]:
    """What sets a variable, limit or memory block, and what that in turn is made of, as text.

    `names` are the new names of renamed states. The file's own value of a limit that the condition
    itself reads is left out: the conditions are compared with it.
    """
    (root, name), spec, here = _parts(fact), at.spec, f"{at.name}.{fact}"
    roots: dict[str, Any] = {"vars": spec.vars, "limits": spec.limits, "memory": spec.memory}
    if name not in roots.get(root, ()) or here in seen:
        return set()
    found = {repr(roots[root][name])} if root != "limits" or seen else set[str]()
    values: list[tuple[Placed, Any]] = []
    for state in spec.states.values():
        if sets := [one for part in (state, *state.edges) for one in _sets(part, fact)]:
            own, *to = (names.get(n, n) for n in (state.name, *(e.target for e in state.edges)))
            ways = [(e.trigger, _text(e.when), _sets(e, fact)) for e in state.edges]
            found.add(repr((own, to, ways)))
            values += [(at, getattr(one, "value", one)) for one in sets]
            values += [(at, edge.when) for edge in state.edges]
        if state.action is not None and f"{root}.*" in state.action.changes:
            known = map(spec.registry.tools.get, sorted(carried_out(spec, state)))
            edits = [tool.name for tool in known if tool is not None and tool.memory]
            shown = state.args if state.calls in ("none", "memory") else edits
            found.add(f"{state.action.name} {shown}")
    if spec.on_error is not None:
        values += [(at, getattr(one, "value", one)) for one in _sets(spec.on_error, fact)]
    if at.above is not None:
        for given in _given(at.above.spec, at.name):
            table: Mapping[str, Given] = given[root].value if root in given else {}
            both = [table.get(name), given.get("each")]
            values += [(at.above, one.value) for one in both if one is not None]
            if "share" in given and root in given["share"].value:
                found |= sources(at.above, fact, names, (*seen, here))
    for where, value in values:
        found.add(_text(value))
        for read in getattr(value, "reads", ()):
            found |= sources(where, read, names, (*seen, here))
    return found


def _given(spec: MachineSpec, child: str) -> Iterator[Mapping[str, Given]]:
    """The fields of `with` of each state that runs a child."""
    for state in spec.states.values():
        if child in spec.children_of(state):
            yield state.args
            yield from state.args["children"].value.values() if "children" in state.args else ()


def _text(value: Any) -> str:
    """A value or an expression, with what its definitions stand for."""
    return repr(getattr(value, "root", value))


def _parts(fact: str) -> tuple[str, str]:
    root, _, rest = fact.partition(".")
    return root, rest.partition(".")[0]


def _sets(part: Any, fact: str) -> list[Any]:
    """The assignments of a state or an edge to it, or to the whole that it is a part of."""
    both = (*getattr(part, "set", ()), *getattr(part, "save", ()))
    return [one for one in both if f"{fact}.".startswith(f"{one.target}.")]
