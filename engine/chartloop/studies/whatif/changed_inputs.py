"""The actions whose inputs differ under other limits or by another file.

A recorded outcome answers the inputs that the action had. If the prompt or a field of `with` reads
a changed value, the outcome might have been another, and a what-if is no longer sure. Another
module (`child_limits`) deals with the limits that children get.

Belongs here: the changed names, followed through `set` and `save`, and the states whose actions
read one. Never: decisions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from chartloop.analysis.checker.check_context import parts_of, reads_of
from chartloop.core.facts import Task
from chartloop.core.plain import plain
from chartloop.language.expression import Expression
from chartloop.language.file.file import StateShape
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.run.renaming import Names

_PROMPTED = frozenset({"model"})
"""Ports whose actions send the head of the file to the model."""


def asks_guards(spec: MachineSpec) -> bool:
    """Whether an expression of the file calls a registered Python guard."""
    parts = (part for part, _ in parts_of(spec))
    return any(isinstance(part, Expression) and part.opaque for part in parts)


def unknown_action(spec: MachineSpec) -> str:
    """An action that the file names and that is not declared here; empty if there is none.

    Its declaration says whether it is work, which decides how failures in a row are counted.
    """
    actions = (state.action for state in spec.states.values() if state.action is not None)
    return next((action.name for action in actions if action.run is None), "")


def affected_names(spec: MachineSpec, changed: frozenset[str]) -> frozenset[str]:
    """The changed facts, and the variables whose values depend on them."""
    affected = set(changed)
    while True:
        more = {
            target for part, target in parts_of(_assigning(spec))
            if target and target not in affected and _about(reads_of(spec, part), affected)
        }  # fmt: skip
        if not more:
            return frozenset(affected)
        affected |= more


def _assigning(spec: MachineSpec) -> list[Any]:
    """All parts of the file that assign variables."""
    edges = [edge.set for edge in spec.edges()]
    return [*edges, *(part for s in spec.states.values() for part in (s.set, s.save))]


def changed_inputs(spec: MachineSpec, changed: frozenset[str]) -> dict[str, str]:
    """The states whose action reads a changed name, each with a description of the reading."""
    names = affected_names(spec, changed)
    out: dict[str, str] = {}
    for name, state in spec.states.items():
        if state.action is not None and (why := _why(spec, state, names)):
            out[name] = why
    return out


def _why(spec: MachineSpec, state: StateSpec, names: frozenset[str]) -> str:
    for where, part in _action_inputs(spec, state):
        for inner, _ in parts_of(part):
            if read := _about(reads_of(spec, inner), names):
                return f"{where} reads `{read}`"
    return ""


def _action_inputs(spec: MachineSpec, state: StateSpec) -> Iterator[tuple[str, Any]]:
    """The inputs of a state's action, each with its place in the file."""
    assert state.action is not None
    yield f"`with` of `{state.name}`", state.args
    if _PROMPTED & (state.action.uses | state.action.may_use):
        yield "`instructions`", spec.instructions
        yield "`memory`", spec.memory


def _about(reads: frozenset[str], names: frozenset[str] | set[str]) -> str:
    """The first fact read that is one of the names, contains one or is part of one; or empty."""
    for read in sorted(reads):
        for name in names:
            if read == name or name.startswith(f"{read}.") or read.startswith(f"{name}."):
                return read
    return ""


# two versions of a file ---------------------------------------------------------------------

DECIDED = frozenset({
    "states", "start", "start_given", "rules", "limits", "vars", "define", "reasons",
    "own_reasons", "on_stop", "on_error", "renamed",
})  # fmt: skip
"""The fields that `evolve` reads; records are decided again with them."""
INPUTS = frozenset({"instructions", "model", "memory", "tools", "servers", "machines", "approve"})
"""The fields that are inputs of actions: see `rewritten_actions`."""
INERT = frozenset({
    "name", "title", "about", "source", "metadata", "output", "ignore", "deviations", "in_doubt",
    "data", "inputs", "resume_at", "continues",
})  # fmt: skip
"""The fields that change no record: texts, the form of the result, recovery after a kill."""
_OF_STATES = StateShape.words() | {
    "name", "job", "edges", "of", "all", "retry", "within", "failed_next", "set", "save", "status",
    "stop", "end", "action", "args", "allow", "warn_at", "message", "in_doubt",
}  # fmt: skip
"""The same of a state: read by `evolve`, compared by `rewritten_actions`, or inert."""


def unsupported_change(old: MachineSpec, new: MachineSpec, tasks: object) -> str:
    """The first change of the file that a what-if cannot follow; empty if there is none.

    Any field outside `DECIDED`, `INPUTS` and `INERT` is such. `tasks` are those that the run
    started with: if its caller gave them, a change of the file's tasks does not matter.
    """
    known = DECIDED | INPUTS | INERT | {"tasks", "agent"}
    names = [f.name for f in fields(MachineSpec) if f.compare and f.name not in known]
    names += ["tasks"] if _own_tasks(old, tasks) else []
    names += ["agent"] if _reads_agent(new) else []
    changed = next((name for name in names if _differ(old, new, name)), "")
    return f"the run started with another `{changed}` than the file has now" if changed else ""


def _reads_agent(spec: MachineSpec) -> bool:
    parts = (part for part, _ in parts_of(spec))
    return any(read in ("run", "run.agent") for part in parts for read in reads_of(spec, part))


def _own_tasks(spec: MachineSpec, tasks: object) -> bool:
    """Whether these may be the tasks of the file."""
    if isinstance(spec.tasks, str):
        return True
    own = [Task(**t).to_dict() for t in spec.tasks or ()]
    return plain(tasks) == plain(own)


def rewritten_actions(old: MachineSpec, new: MachineSpec, names: Names) -> dict[str, str]:
    """The states of `new` whose action has other inputs than in `old`, with the difference.

    `names` are the new names of the old states.
    """
    before = {names.state(name): state for name, state in old.states.items()}
    sent_parts = ("instructions", "model", "memory", "tools", "servers")
    head = [name for name in sent_parts if _differ(old, new, name)]
    carried = [name for name in head if name in ("memory", "tools", "servers")]
    if _gate(old) != _gate(new):
        carried.append("approve")
    out: dict[str, str] = {}
    for name, state in new.states.items():
        was = before.get(name)
        if state.action is None or was is None:
            continue
        if was.action is None or was.action.name != state.action.name:
            out[name] = f"`{name}` does another action"
        elif was.args != state.args or was.allow != state.allow:
            out[name] = f"`{name}` gives its action something else"
        elif head and _PROMPTED & (state.action.uses | state.action.may_use):
            out[name] = f"the file's `{head[0]}` differs"
        elif carried and state.calls not in ("none", "named"):
            out[name] = f"the file's `{carried[0]}` differs"
        elif other := [f.name for f in fields(StateSpec) if f.compare and f.name not in _OF_STATES
                       and getattr(was, f.name) != getattr(state, f.name)]:  # fmt: skip
            out[name] = f"`{other[0]}` of `{name}` differs"
        elif state.traits.runs != "none" and old.machines != new.machines:
            out[name] = "the file's `machines` differ"
    return out


def _gate(spec: MachineSpec) -> tuple[object, ...]:
    """What decides which calls need an approval. The rest of `approve` is in its states."""
    given = spec.approve
    return () if given is None else (given.tools, given.when, given.remember)


def rewritten_definitions(old: MachineSpec, new: MachineSpec, names: Names) -> frozenset[str]:
    """The definitions, and the targets of `set` and `save`, that differ between two files."""
    rewritten = {n for n, e in new.define.items() if n in old.define and old.define[n] != e}
    before = {names.state(name): state for name, state in old.states.items()}
    for name, state in new.states.items():
        if (was := before.get(name)) is not None:
            rewritten |= {target for target, _ in _assignments(state) ^ _assignments(was)}
    return frozenset(rewritten)


def _assignments(state: StateSpec) -> set[tuple[str, str]]:
    """The assignments of a state and its edges: target, and value as the file writes it."""
    assigns = [*state.set, *(a for edge in state.edges for a in edge.set)]
    return {(a.target, f"{a.value} {a.append}") for a in assigns} | {
        (s.target, f"{s.path} {s.template} {s.append}") for s in state.save
    }


def _differ(old: MachineSpec, new: MachineSpec, name: str) -> bool:
    return getattr(old, name) != getattr(new, name)
