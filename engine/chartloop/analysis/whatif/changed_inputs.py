"""Which actions would have been given something else, when limits or the file are others.

An outcome that was recorded says what a model answered to what it was sent. Where the prompt or
a field of `with` reads what has changed, the answer might be another one, and a what-if must stop
being sure there. What a child is given is another module's.

Belongs here: the names that changed, followed through `set` and `save`, and the states whose
actions read one. Never: decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from chartloop.checker.unused import parts_of, reads_of
from chartloop.core.facts import Task
from chartloop.core.plain import plain
from chartloop.language.expression import Expression
from chartloop.language.spec import MachineSpec, StateSpec

_PROMPTED = frozenset({"model"})
"""Actions that use this port send the model what the head of the file says."""


def asks_guards(spec: MachineSpec) -> bool:
    """Whether an expression of the file asks a registered Python guard."""
    parts = (part for part, _ in parts_of(spec))
    return any(isinstance(part, Expression) and part.opaque for part in parts)


def unknown_action(spec: MachineSpec) -> str:
    """An action that the file names and no one here has declared; empty where there is none.

    Whether it is work is part of its declaration, and decides what counts as a failure in a row.
    """
    actions = (state.action for state in spec.states.values() if state.action is not None)
    return next((action.name for action in actions if action.run is None), "")


def affected_names(spec: MachineSpec, changed: frozenset[str]) -> frozenset[str]:
    """The changed facts, and the variables whose values depend on them."""
    found = set(changed)
    while True:
        more = {
            target for part, target in parts_of(_assigning(spec))
            if target and target not in found and _about(reads_of(spec, part), found)
        }  # fmt: skip
        if not more:
            return frozenset(found)
        found |= more


def _assigning(spec: MachineSpec) -> list[Any]:
    """Everything in the file that gives a variable its value."""
    edges = [edge.set for edge in spec.edges()]
    return [*edges, *(part for s in spec.states.values() for part in (s.set, s.save))]


def told_otherwise(spec: MachineSpec, changed: frozenset[str]) -> dict[str, str]:
    """For each state whose action reads what changed: what that is, in words."""
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
    """The inputs of a state's action, each with where the file gives it."""
    assert state.action is not None
    yield f"`with` of `{state.name}`", state.args
    if _PROMPTED & (state.action.uses | state.action.may_use):
        yield "`instructions`", spec.instructions
        yield "`memory`", spec.memory


def _about(reads: frozenset[str], names: frozenset[str] | set[str]) -> str:
    """The first of the facts read that is among the names, or holds one, or is part of one."""
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
"""What `evolve` reads of a file: a record is decided again with it."""
TOLD = frozenset({"instructions", "model", "memory", "tools", "servers", "machines", "approve"})
"""What actions are given: see `rewritten`."""
SHOWN = frozenset({
    "name", "title", "about", "source", "metadata", "output", "ignore", "deviations", "in_doubt",
})  # fmt: skip
"""What changes no record: texts, what a result shows, and what is done after a kill."""
_OF_STATES = frozenset({
    "name", "job", "edges", "of", "all", "retry", "within", "failed_next", "set", "save", "status",
    "stop", "end", "action", "args", "allow", "label", "ask", "about", "role", "shape",
    "warn_at", "message", "in_doubt",
})  # fmt: skip
"""The same of a state: `evolve` decides with it, `rewritten` compares it, or it is shown."""


def unsupported_change(old: MachineSpec, new: MachineSpec, tasks: object) -> str:
    """The first change of the file that a what-if cannot follow; empty where there is none.

    A key of the file that no one has put under `DECIDED`, `TOLD` or `SHOWN` is such. `tasks` are
    those that the run started with: of others than the file's own, given by its caller, a change
    of the file's is no matter.
    """
    known = DECIDED | TOLD | SHOWN | {"tasks", "agent"}
    names = [f.name for f in fields(MachineSpec) if f.compare and f.name not in known]
    names += ["tasks"] if _own_tasks(old, tasks) else []
    names += ["agent"] if _reads_agent(new) else []
    found = next((name for name in names if _differ(old, new, name)), "")
    return f"the run started with another `{found}` than the file has now" if found else ""


def _reads_agent(spec: MachineSpec) -> bool:
    parts = (part for part, _ in parts_of(spec))
    return any(read in ("run", "run.agent") for part in parts for read in reads_of(spec, part))


def _own_tasks(spec: MachineSpec, begun: object) -> bool:
    """Whether a run may have started with the tasks of its file."""
    if isinstance(spec.tasks, str):
        return True
    own = [Task(**t).to_dict() for t in spec.tasks or ()]
    return plain(begun) == plain(own)


def rewritten(old: MachineSpec, new: MachineSpec) -> dict[str, str]:
    """For each state of `new` that acts: what the file says of its action unlike `old`."""
    before = {new.renamed.get(name, name): state for name, state in old.states.items()}
    sent_parts = ("instructions", "model", "memory", "tools", "servers")
    head = [name for name in sent_parts if _differ(old, new, name)]
    carried = [name for name in head if name in ("memory", "tools", "servers")]
    if _approved_tools(old) != _approved_tools(new):
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


def _approved_tools(spec: MachineSpec) -> tuple[str, ...]:
    """The tools whose calls need an approval. The rest of `approve` is in its states."""
    return spec.approve.tools if spec.approve is not None else ()


def begun_otherwise(old: MachineSpec, new: MachineSpec) -> frozenset[str]:
    """The definitions, and the variables by `set` and `save`, that two files write otherwise."""
    found = {n for n, e in new.define.items() if n in old.define and old.define[n] != e}
    before = {new.renamed.get(name, name): state for name, state in old.states.items()}
    for name, state in new.states.items():
        if (was := before.get(name)) is not None:
            found |= {target for target, _ in _assignments(state) ^ _assignments(was)}
    return frozenset(found)


def _assignments(state: StateSpec) -> set[tuple[str, str]]:
    """What a state and its edges assign, each with how, in the words of the file."""
    assigns = [*state.set, *(a for edge in state.edges for a in edge.set)]
    return {(a.target, f"{a.value} {a.append}") for a in assigns} | {
        (s.target, f"{s.path} {s.template} {s.append}") for s in state.save
    }


def _differ(old: MachineSpec, new: MachineSpec, name: str) -> bool:
    return getattr(old, name) != getattr(new, name)


Sections = Mapping[str, Mapping[str, Any]]
"""Values by section and name."""


def changed_names(old: Sections, new: Sections) -> frozenset[str]:
    """The facts that start with another value: ``limits.steps``, ``vars.rounds``."""
    return frozenset(
        f"{root}.{name}" for root, values in new.items() for name, value in values.items()
        if name not in old[root] or old[root][name] != value
    )  # fmt: skip
