"""The items of a machine that runs can cover: the denominators of its coverage.

An item has the id that records use: ``think`` (a state), ``tool_wanted.then`` (an edge),
``rules.0``. An atom's id is that of its edge or rule with its number in the guard:
``tool_wanted.then#0``; it is two items, one for each value with which it can decide.

Belongs here: which items a chart has, their texts and places. Never: a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from chartloop.core.errors import Place
from chartloop.core.facts import Facts
from chartloop.core.plain import plain
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import Opaque, walk
from chartloop.language.readers.states import case_value
from chartloop.language.spec import HIGHEST, Edge, MachineSpec, Rule, StateSpec
from chartloop.language.yaml.reading import Path
from chartloop.machine.build import Chart

Kind = Literal["state", "edge", "rule", "atom", "guard", "reason", "child"]
"""`guard`: an atom that calls a registered Python guard, whose inside is not covered."""

KINDS: tuple[Kind, ...] = ("state", "edge", "rule", "atom", "guard", "reason", "child")
_UNREAD = "<"
"""First character of a file name that stands for a text: of a caller, or from a journal."""


class Item(NamedTuple):
    """One part of a machine that a run can cover."""

    kind: Kind
    id: str
    way: bool | None = None
    """The value with which an atom decides; None for other items."""
    role: str = ""
    """The job of a state, the role of an edge, or `stop`, `signal` or `detour` of a rule."""
    text: str = ""
    """The guard of an edge or a rule, the atom, or the label of a state."""
    source: str = ""
    """The state that an edge leaves, or the edge or rule that an atom belongs to."""
    to: str = ""
    """The target of an edge or a rule."""
    file: str = ""
    line: int = 0
    reason: str = ""
    """The reason that a rule stops for or signals."""

    @property
    def key(self) -> str:
        """The identity of the item within its machine: ``atom:think.then#0=true``."""
        way = "" if self.way is None else f"={str(self.way).lower()}"
        return f"{self.kind}:{self.id}{way}"

    @property
    def place(self) -> str:
        """``machine.yaml:12``; empty if unknown."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def meaning(self) -> str:
        """The content of the item without its place: items of different meanings are different."""
        text = self.text if self.kind in ("edge", "rule", "atom", "guard") else ""
        return " ".join(part for part in (self.role, text, self.to) if part)


class Guard(NamedTuple):
    """The guard of an edge or a rule, whose atoms are items."""

    owner: str
    """The id of the edge or rule."""
    expression: Expression
    path: Path
    """Its path in the machine."""


def items_of(chart: Chart) -> tuple[Item, ...]:
    """All items of a chart that runs can cover, in the order of the file."""
    spec, facts = chart.spec, chart.position("").facts
    items = [_state(spec, state, facts) for state in spec.states.values()]
    items += _edges(spec)
    items += [_rule(chart, number, rule) for number, rule in enumerate(spec.rules)]
    for guard in guards_of(spec):
        items += _atoms(spec, guard)
    items += _reasons(spec)
    items += _children(spec)
    return tuple(items)


def _at(place: Place) -> dict[str, Any]:
    known = place.line and not place.file.startswith(_UNREAD)
    return {"file": place.file, "line": place.line} if known else {}


def _state(spec: MachineSpec, state: StateSpec, facts: Facts) -> Item:
    label = state.ask or state.label
    where = _at(spec.place(("states", state.name), key=True))
    text = "" if label is None else " ".join(label.show(facts).split())
    return Item("state", state.name, role=state.job, text=text, **where)


def _edges(spec: MachineSpec) -> Iterator[Item]:
    for state in spec.states.values():
        if attempts := state.attempts_label:
            key = ("retry",) if state.retry is not None else ("with",)
            where = _at(spec.place(("states", state.name, *key), key=True))
            yield Item("edge", f"{state.name}.retry", None, "retry", attempts, state.name,
                       state.name, **where)  # fmt: skip
        for edge in state.edges:
            role = "return" if edge.target == "return" else edge.role
            yield Item("edge", edge.id, None, role, edge_text(state, edge), edge.source,
                       edge.target, **_at(spec.place(edge.path)))  # fmt: skip
    if (edge := spec.on_error) is not None:
        where = _at(spec.place(edge.path or ("on_error",)))
        yield Item("edge", "on_error", None, "error", "failed, not handled", "", edge.target,
                   **where)  # fmt: skip


def edge_text(state: StateSpec, edge: Edge) -> str:
    """When an edge is taken, in the words of the file; empty for a state's only `next`."""
    guard = f" when {edge.when.text}" if edge.when is not None else ""
    match edge.role:
        case "case" if state.of is not None:
            return f"{state.of.text} == {case_value(state.of.type, edge.case)!r}"
        case "on":
            return f"on {edge.trigger}{guard}"
        case "expired":
            return f"expired{guard}"
        case "failed":
            return f"the action failed{guard}"
        case "all":
            return f"branch {int(edge.id.rpartition('.')[2]) + 1}"
        case _:
            alone = edge.role == "next" and len(list(state.edges_of("next"))) == 1
            return edge.when.text if edge.when is not None else "" if alone else "otherwise"


def _rule(chart: Chart, number: int, rule: Rule) -> Item:
    where = _at(chart.spec.place(("rules", number)))
    to = rule.to or (chart.route(rule.stop) if rule.stop else "")
    reason = rule.stop or rule.signal
    return Item("rule", rule.id, None, rule.kind, rule.when.text, "", to, **where, reason=reason)


# atoms --------------------------------------------------------------------------------------


def guards_of(spec: MachineSpec) -> Iterator[Guard]:
    """Every guard whose atoms are items. The cases of an `of` are counted as edges."""
    for edge in spec.edges():
        if edge.when is not None:
            yield Guard(edge.id, edge.when, edge.guard_path)
    for rule in spec.rules:
        yield Guard(rule.id, rule.when, (*rule.path, "when"))


@lru_cache(maxsize=4_096)
def atom_kind(expression: Expression, number: int) -> Kind:
    """`guard` for an atom that calls a registered Python guard, else `atom`."""
    atom = expression.atoms[number]
    sides = (atom.left, *(() if atom.link is None else (atom.link.right,)))
    asks = any(isinstance(node, Opaque) for side in sides for node in walk(side))
    return "guard" if asks else "atom"


def _atoms(spec: MachineSpec, guard: Guard) -> Iterator[Item]:
    for number, atom in enumerate(guard.expression.atoms):
        where = _at(spec.place(guard.path, of=atom.text))
        kind = atom_kind(guard.expression, number)
        for way in (True, False):
            yield Item(kind, f"{guard.owner}#{number}", way, "", atom.text, guard.owner, "",
                       **where)  # fmt: skip


# reasons ------------------------------------------------------------------------------------


def _reasons(spec: MachineSpec) -> Iterator[Item]:
    """The reasons that the file itself can stop for, each with the ids of its sources.

    Sources are rules, states, edges, and `stop` and `signal` actions; `completed` and `error` come
    from an end that is reached without a signal. A reason that only the engine or the outside
    raises, such as `user_requested`, is not among them.
    """
    raised_by: dict[str, list[str]] = {}
    for rule in spec.rules:
        if reason := rule.stop or rule.signal:
            raised_by.setdefault(reason, []).append(rule.id)
    for state in spec.states.values():
        for reason in _of_state(state):
            raised_by.setdefault(reason, []).append(state.name)
        for edge in state.edges:
            if edge.stop:
                raised_by.setdefault(edge.stop, []).append(edge.id)
    if spec.on_error is not None and spec.on_error.stop:
        raised_by.setdefault(spec.on_error.stop, []).append("on_error")
    raised_by.pop(HIGHEST, None)
    paths: dict[str, Path] = {name: ("states", name) for name in spec.states}
    paths |= {rule.id: ("rules", number) for number, rule in enumerate(spec.rules)}
    paths |= {edge.id: edge.path for edge in spec.edges()}
    for reason, sources in raised_by.items():
        where = _at(spec.place(paths.get(sources[0], ("on_error",)), key=True))
        yield Item("reason", reason, text=", ".join(sources), **where)


def _of_state(state: StateSpec) -> Iterator[str]:
    if state.stop:
        yield state.stop
    elif state.end in ("completed", "error"):
        yield state.end
    for arg in state.action.args if state.action is not None else ():
        if arg.names == "reason" and arg.name in state.args:
            yield str(plain(state.args[arg.name].value))


# children -----------------------------------------------------------------------------------


def _children(spec: MachineSpec) -> Iterator[Item]:
    for state in spec.states.values():
        for name in spec.children_of(state) if state.traits.runs != "task" else ():
            child = spec.machines.get(name)
            if child is not None:
                where = _at(spec.place(("states", state.name), key=True))
                yield Item("child", f"{state.name}/{child.name}", role=name, source=state.name,
                           to=child.name, **where)  # fmt: skip


__all__ = ["KINDS", "Guard", "Item", "Kind", "atom_kind", "edge_text", "guards_of", "items_of"]
