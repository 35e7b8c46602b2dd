"""Loops over a list: the expansion of one state of the file into two.

    steps: {for: vars.step, in: vars.plan, each: carry_out, then: done}

``steps`` starts the loop: it stores the list and sets the position to 0. ``steps_next`` decides
whether there is another item, takes it and counts. Both are ordinary states with ordinary
variables, so that proofs, pictures and records need no special case. An edge back to ``steps`` from
a state that can only be reached with an item leads to ``steps_next`` instead.

Belongs here: the expansion of a loop. Never: running it.

Source: issue 12, section 6
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from chartloop.core.digraph import reachable
from chartloop.core.types import ANY, INT, Type, list_of, parse_type, type_of
from chartloop.language.expression import Expression, ExpressionFault, Scope, parse
from chartloop.language.expression.tree import Items
from chartloop.language.file import file
from chartloop.language.readers.reader import NULLABLE, Reader
from chartloop.language.readers.saves import type_text
from chartloop.language.spec import Edge, MachineSpec, VarSpec
from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import Path

States = Mapping[str, file.StateShape | None]

_WORDS = file.StateShape.words() - {"ask", "shape"}
_KEYS = frozenset("for in each most then ask status".split()) | _WORDS
"""The keys of a loop state."""
_EMPTY: Mapping[str, Any] = {
    "str": "", "int": 0, "float": 0.0, "bool": False, "duration": 0.0, "fraction": 0.0,
    "list": (), "map": {},
}  # fmt: skip
"""The initial value of the item variable, by the kind of its type."""


class Loop(NamedTuple):
    """A loop of a machine, with the names that its expansion adds."""

    name: str
    item: str
    """The variable that takes each item."""
    shape: file.StateShape

    @property
    def asking(self) -> str:
        """The state that decides whether there is another item."""
        return f"{self.name}_next"

    @property
    def items(self) -> str:
        """The variable that keeps the list."""
        return f"{self.name}_list"

    @property
    def at(self) -> str:
        """The variable that counts the items taken."""
        return f"{self.name}_at"


def find_loops(reader: Reader, states: States) -> list[Loop]:
    """Find the loops of a machine, and report faults in their keys."""
    loops: list[Loop] = []
    for name, shape in states.items():
        if not shape or shape.for_ is None:
            continue
        path: Path = ("states", name)
        target = shape.for_.removeprefix("vars.")
        if not shape.for_.startswith("vars.") or not target.isidentifier():
            message = f"`{short(shape.for_)}` is not a variable"
            reader.say("CL116", (*path, "for"), message, hint="write `for: vars.item`")
            target = "item"
        loops.append(Loop(name, target, shape))
        _check_keys(reader, path, shape)
        if loops[-1].asking in states:
            message = f"the loop `{name}` makes a state `{name}_next`, and there is one already"
            reader.say("CL116", path, message, hint="rename one of them", key=True)
    return loops


def _check_keys(reader: Reader, path: Path, shape: file.StateShape) -> None:
    for key in file.StateShape.table():
        if key in shape and key not in _KEYS:
            message = f"a state has one job, and has `for` and `{key}`"
            hint = f"write `{key}` into the state that `each` or `then` leads to"
            reader.say("CL207", (*path, key), message, hint=hint, key=True)
    for key in ("in", "each", "then"):
        if not shape.wrote(key):
            reader.say(
                "CL202", (*path, "for"), f"`for` needs `{key}`", hint=f"add `{key}:`", key=True
            )
            reader.lose(path)


def with_loops(states: States, loops: Iterable[Loop]) -> dict[str, file.StateShape | None]:
    """The states of the machine, with each loop expanded into its two states."""
    made = {loop.name: loop for loop in loops}
    out: dict[str, file.StateShape | None] = {}
    for name, shape in states.items():
        if name not in made:
            out[name] = shape
            continue
        loop = made[name]
        given, sets = loop.shape, None
        if given.in_ is not None:
            sets = {f"vars.{loop.items}": given.in_, f"vars.{loop.at}": 0}
        words = {word: getattr(given, word) for word in _WORDS}
        out[name] = file.StateShape(**words, status=given.status, set=sets, next=loop.asking)
        out.setdefault(loop.asking, _asking(loop))
    return out


def _asking(loop: Loop) -> file.StateShape:
    shape, edge = loop.shape, loop.shape.each
    if not isinstance(edge, file.EdgeShape):
        edge = file.EdgeShape(to=edge) if edge is not None else None
    if edge is not None:
        taken = {
            f"vars.{loop.item}": f"vars.{loop.items}[vars.{loop.at}]",
            f"vars.{loop.at}": f"vars.{loop.at} + 1",
        }
        edge = edge.but(set={**taken, **(edge.set or {})})
    guard = f"vars.{loop.at} < len(vars.{loop.items})"
    if shape.most is not None:
        most = str(shape.most)
        word = most.replace("_", "").replace(".", "").isalnum()
        guard += f" and vars.{loop.at} < {most if word else f'({most})'}"
    return file.StateShape(
        ask=shape.ask or f"Another {loop.item.replace('_', ' ')}?",
        when=guard,
        then=edge,
        else_=shape.then,
        lost=frozenset(m for m, g in (("then", "each"), ("else", "then")) if g in shape.lost),
    )


def places(loops: Iterable[Loop]) -> Iterator[tuple[Path, Path]]:
    """The paths of the parts that loops generate, to their origin in the file."""
    for loop in loops:
        here: Path = ("states", loop.name)
        asking: Path = ("states", loop.asking)
        yield (*here, "set", f"vars.{loop.items}"), (*here, "in")
        yield (*here, "set"), here
        yield (*here, "next"), here
        yield asking, here
        yield (*asking, "when"), (*here, "in")
        yield (*asking, "then", "set", f"vars.{loop.item}"), (*here, "for")
        yield (*asking, "then", "set", f"vars.{loop.at}"), here
        yield (*asking, "then"), (*here, "each")
        yield (*asking, "else"), (*here, "then")
        for name in (loop.items, loop.at):
            yield ("vars", name), here


# variables ----------------------------------------------------------------------------------


def declare_loops(
    reader: Reader, loops: list[Loop], variables: dict[str, VarSpec], scope: Scope
) -> list[Loop]:
    """Add the variables that loops generate, with types from their lists.

    The list of a nested loop may be the item of the outer one, so the loops are read repeatedly
    until no new type is found. Returns the loops, with `most` for those with a literal list.
    """
    left, done = list(loops), list[Loop]()
    while left:
        found = [
            (loop, known) for loop in left if (known := _list_type(reader, loop, variables, scope))
        ]
        for loop, (element, count) in found or [(left[0], (ANY, None))]:
            _declare(reader, loop, variables, element)
            if count is not None and loop.shape.most is None:
                loop = loop._replace(shape=loop.shape.but(most=count))
            done.append(loop)
            left = [other for other in left if other.name != loop.name]
    return done


def _list_type(
    reader: Reader, loop: Loop, variables: Mapping[str, VarSpec], scope: Scope
) -> tuple[Type, int | None] | None:
    """The type of the items, with their number if the list is literal; None if unknown."""
    value = loop.shape.in_
    if isinstance(value, list):
        found = type_of(value)
        return found.of or ANY, len(value)
    vars = replace(scope.roots["vars"], fields=tuple((n, v.type) for n, v in variables.items()))
    here = replace(scope, roots={**scope.roots, "vars": vars})
    here = reader.flow.scope(here, loop.name, "entry") if reader.flow is not None else here
    try:
        made = parse(str(value), here.narrow(NULLABLE))
    except ExpressionFault:
        return None
    if made.type.kind != "list":
        return ANY, None
    count = len(made.root.items) if isinstance(made.root, Items) and made.constant else None
    return parse_type(type_text(made.type.of or ANY)) or ANY, count


def _declare(
    reader: Reader, loop: Loop, variables: dict[str, VarSpec], element: Type
) -> None:  # fmt: skip
    if element.kind == "map" and element.of == ANY:
        element = ANY  # records of several types: a template reads them, a guard does not
    for name, type in ((loop.items, list_of(element)), (loop.at, INT)):
        if name in variables:
            message = f"the loop `{loop.name}` makes a variable `{name}`, and there is one already"
            reader.say("CL116", ("states", loop.name), message, hint="rename one of them", key=True)
        variables[name] = VarSpec(type, 0 if type is INT else ())
    if loop.item not in variables:
        variables[loop.item] = VarSpec(element, _EMPTY.get(element.kind))


def check_loop(reader: Reader, loop: Loop) -> Loop:
    """Check the list and `most` of a loop in place, and remove invalid ones."""
    path: Path = ("states", loop.name)
    scope = reader.at(loop.name, "entry")
    if isinstance(loop.shape.in_, str):
        try:
            found = parse(loop.shape.in_, scope.narrow(NULLABLE))
        except ExpressionFault:
            found = None  # reported when the state is read
        if found is not None and found.type.kind not in ("list", "any"):
            message = f"`in` is {found.type}, not a list"
            reader.say("CL116", (*path, "in"), message, hint="go through a list: `in: vars.plan`")
            loop = loop._replace(shape=loop.shape.but(in_=None))
    if loop.shape.most is not None and not _is_count(reader, path, loop.shape.most, scope):
        return loop._replace(shape=loop.shape.but(most=None))
    return loop


def _is_count(reader: Reader, path: Path, most: Any, scope: Scope) -> bool:
    if isinstance(most, int) and not isinstance(most, bool) and most > 0:
        return True
    if isinstance(most, str):
        return reader.expression((*path, "most"), most, INT, scope) is not None
    message = f"`{short(str(most))}` is not a number of items"
    reader.say("CL116", (*path, "most"), message, hint="write `most: 20`")
    return False


# the way back -------------------------------------------------------------------------------


def lead_back(spec: MachineSpec, loops: Iterable[Loop]) -> MachineSpec:
    """Redirect the edges that return to a loop to its deciding state."""
    states = dict(spec.states)
    for loop in loops:
        asking = spec.states.get(loop.asking)
        item = next(asking.edges_of("then"), None) if asking is not None else None
        if item is None:
            continue
        inside = _reachable_states(spec) - _reachable_states(spec, without=item)
        begin = spec.states[loop.name]
        reads = (a.value.reads for a in begin.set if isinstance(a.value, Expression))
        lists = frozenset(path for found in reads for path in found if path.startswith("vars."))
        for name in inside:
            # Edges lead to the next item, unless they restart the loop with a new list.
            state = states[name]
            written = {one.target for one in (*state.set, *state.save) if not one.append}
            edges = tuple(
                replace(edge, target=loop.asking)
                if edge.target == loop.name
                and not lists & (written | {a.target for a in edge.set if not a.append})
                else edge
                for edge in state.edges
            )
            states[name] = replace(state, edges=edges)
    return replace(spec, states=states)


def _reachable_states(spec: MachineSpec, without: Edge | None = None) -> set[str]:
    """The states that a run can reach by edges, rules and failures."""
    starts = [*spec.entries, spec.on_stop, *(rule.to for rule in spec.rules)]
    starts += [spec.on_error.target] if spec.on_error is not None else []

    def onward(name: str) -> Iterator[str]:
        edges = (edge for edge in spec.states[name].edges if edge is not without)
        yield from (edge.target for edge in edges if edge.target in spec.states)

    return set(reachable((name for name in starts if name in spec.states), onward))
