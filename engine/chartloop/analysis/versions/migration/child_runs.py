"""Whether the children of the current action fit the new machine of their parent.

A child is identified by its id, which starts with its parent's: a repeated action resumes it. So
the action must still run that child, with exactly the same machine: otherwise its work is done
again, or judged by other rules. All children that the current action has started are checked, ended
ones included, whether or not the parent's records mention them.

Belongs here: children. Never: other data of a run (`compatibility`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chartloop.analysis.versions.migration.verdict import Cause
from chartloop.core.conversation import open_calls
from chartloop.core.position import Asked, Position
from chartloop.language.dump import canonical
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.run.journal import CHILD_MARK, RunRow, digest

CURE = "continue with the machine that the run was started with until {}"
_ENDED = CURE.format("the child has ended, or start a fork before the child")


def misfit_children(
    spec: MachineSpec, old: MachineSpec | None, position: Position, rows: Sequence[RunRow],
    was: str,
) -> Iterator[Cause]:  # fmt: skip
    """Yield a cause for each child that does not fit. `was`: the parent's state under `old`."""
    if not rows and position.child_question is not None:
        yield from _asking_child(spec, old, position.child_question, position.state)
        return
    state = spec.states[position.state]
    before = None if old is None else old.states.get(was)
    if rows and before is not None and _each(before) not in ("", _each(state)):
        what = (
            f"`each` of `{state.name}` is another now, and its children were started by the old one"
        )
        path = ("states", state.name, "with", "each")
        yield Cause(what, _ENDED, place=spec.place(path))
    for row in rows:
        yield from _child(spec, state, position, row)


def _child(spec: MachineSpec, state: StateSpec, position: Position, row: RunRow) -> Iterator[Cause]:
    message = f"its child `{row.run_id}` {_describe_state(row)}, and"
    at = spec.place(("states", state.name), key=True)
    machine = _machine_of(spec, state, position, row)
    if machine is None:
        yield Cause(f"{message} `{state.name}` does not run it any more", _ENDED, place=at)
        return
    child = spec.machines.get(machine)
    if child is None:
        yield Cause(f"{message} machine `{machine}` is gone", _ENDED, place=at)
    elif digest(canonical(child)) != row.machine_hash:
        here = spec.place(("machines", machine), key=True)
        yield Cause(f"{message} machine `{machine}` has changed", _ENDED, place=here)


def _describe_state(row: RunRow) -> str:
    if row.ended:
        return f"has ended at `{row.state}`"
    return f"waits at `{row.state}`" if row.status == "paused" else f"was started, at `{row.state}`"


def _machine_of(
    spec: MachineSpec, state: StateSpec, position: Position, row: RunRow
) -> str | None:  # fmt: skip
    """The name of the machine that the action runs under the child's id; None if it runs none."""
    steps = position.facts.run.steps
    behind = row.run_id.removeprefix(row.parent).partition(f"{CHILD_MARK}{steps}")[2]
    name = behind.removeprefix(CHILD_MARK)
    match state.traits.runs:
        case "one":
            return None if name else _machine_name(state.args)
        case "several":
            given = state.args.get("children")
            fields: Mapping[str, Any] = {} if given is None else given.value
            if name in fields:
                return _machine_name(fields[name])
            return _machine_name(state.args) if "each" in state.args and name else None
        case "calls":
            tools = {tool.name: tool for tool in spec.tools_at(state)}
            calls = enumerate(open_calls(position.messages, spec.wire_names), 1)
            called = next((call.name for n, call in calls if str(n) == name), "")
            return (tools[called].machine or None) if called in tools else None
        case "task":
            return next((t.by.get("machine") for t in position.queue if t.id == name), None)
        case "none":
            return None


def _machine_name(fields: Mapping[str, Any]) -> str | None:
    return str(fields["machine"].value) if "machine" in fields else None


def _each(state: StateSpec) -> str:
    given = state.args.get("each")
    return "" if given is None else str(getattr(given.value, "text", given.value))


def _asking_child(
    spec: MachineSpec, old: MachineSpec | None, question: Asked, state: str
) -> Iterator[Cause]:
    """The cause for a child that asks, if an export holds only the records of its parent."""
    if old is None or not question.machines:
        return
    name = question.machines[0]
    before, now = old.machines.get(name), spec.machines.get(name)
    if before is None or (now is not None and canonical(before) == canonical(now)):
        return
    how = "is gone" if now is None else "has changed"
    path = ("machines", name) if now is not None else ("states", state)
    what = f"its child `{question.run}` waits at `{question.state}`, and machine `{name}` {how}"
    yield Cause(what, _ENDED, place=spec.place(path, key=True))
