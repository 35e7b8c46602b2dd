"""Edits of memory blocks by the file itself that fail: too long, or of a text that is not there.

Belongs here: what a state does to a block that it names. Never: the memory calls of a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from chartloop.analysis.checker.check_context import CheckContext, ranges_of, value_of
from chartloop.analysis.checker.knowledge import groups, guard_of
from chartloop.language.expression import GUARD_ERRORS
from chartloop.language.intervals.evaluate import judge, surely
from chartloop.language.spec import Assign, StateSpec
from chartloop.language.yaml.reading import Path
from chartloop.machine.abstract.signals import carried_out

_FIELDS = ("append", "old", "new")


def check_memory(context: CheckContext) -> None:
    """Find edits that the block's limit or its value never allows."""
    spec = context.spec
    states = [spec.states[name] for name in context.in_order(context.reached)]
    for state in states:
        block = _block(context, state)
        field = "append" if "append" in state.args else "new"  # then nothing is replaced
        most = spec.memory[block].limit if block and field in state.args else None
        for text in value_of(state.args[field].value, {}) if most is not None else ():
            if len(text) > (most or 0):
                message = f"`{state.name}` always fails: it writes {len(text)} characters, and "
                message += f"`{block}` may hold {most}"
                hint = "write a shorter text, or set the limit of the block higher"
                context.say("CL363", ("states", state.name, "with", field), message, hint=hint)
    first = {f"memory.{n}": block.value for n, block in spec.memory.items()}
    first = {path: value for path, value in first.items() if path not in context.given}
    with suppress(*GUARD_ERRORS):  # what has no value is a finding of its own
        for state in states:
            block, others = _block(context, state), [s for s in states if s is not state]
            if block and not any(_edits(context, other, block) for other in others):
                own = f"memory.{block}"
                _edit(context, state, block, {p: v for p, v in first.items() if p == own})
        _replay(context, first)


MOST = 400
"""The most states of the way that is followed."""


def _replay(context: CheckContext, first: Mapping[str, str]) -> None:
    """Make the edits on the way that every run takes, as far as the file alone decides it."""
    spec, name = context.spec, context.spec.start
    known: dict[str, Any] = {f"vars.{n}": var.value for n, var in spec.vars.items()}
    known = {**first, **{path: v for path, v in known.items() if path not in context.given}}
    followed = spec.memory and not any(rule.kind == "detour" for rule in spec.rules)
    for _ in range(MOST if followed else 0):
        if (state := spec.states.get(name)) is None or state.all:
            return
        _assign(known, state.set)
        for block in spec.memory:
            if _edits(context, state, block):
                known |= {f"memory.{block}": _edit(context, state, block, known)}
        for field in (*state.args, *(save.target for save in state.save)):
            known.pop(field, None)
        if state.action is not None and state.action.writes_any_variable:
            known = {path: value for path, value in known.items() if path.startswith("memory.")}
        edges = [e for group in groups(state) for e in group if e.role != "failed"]
        for edge in edges:
            guard = guard_of(state, edge)
            holds = guard is None or surely(judge(guard, ranges_of(known)))
            if holds is None or edge.trigger != edges[0].trigger:
                return
            if holds:
                _assign(known, edge.set)
                name = edge.target
                break
        else:
            return


def _assign(known: dict[str, Any], sets: Sequence[Assign]) -> None:
    """Make assignments; a variable whose new value is not known is forgotten."""
    made = {one.target: () if one.append else value_of(one.value, known) for one in sets}
    for target, values in made.items():
        known.pop(target, None)
        known.update((target, value) for value in values)


def _edit(
    context: CheckContext, state: StateSpec, block: str, known: Mapping[str, Any]
) -> str | None:
    """The block after the edit of a state; None if that is not known, or if it fails.

    Reports an edit that fails.
    """
    given = [value_of(state.args[f].value, known) if f in state.args else ("",) for f in _FIELDS]
    text, most = known.get(f"memory.{block}"), context.spec.memory[block].limit
    if text is None or () in given or not _block(context, state):
        return None
    (append,), (old,), (new,) = given
    made = text.replace(old, new, 1) if old in text else None
    if append:
        made = f"{text}\n{append}" if text else append
    if made is not None and (most is None or len(made) <= most):
        return made
    why = "the block does not hold that text there"
    if made is not None:
        why = f"that would make {len(made)} characters, and `{block}` may hold {most}"
    path: Path = ("states", state.name, "with")
    if not any(context.has_finding_at((*path, field)) for field in state.args):
        message = f"`{state.name}` fails unless a caller gives `{block}` another value: {why}"
        field = next((f for f in _FIELDS if f in state.args), "block")
        hint = "name a text that the block holds then, or write a shorter one"
        context.say("CL364", (*path, field), message, hint=hint)
    return None


def _block(context: CheckContext, state: StateSpec) -> str:
    """The name of the block that a state edits; empty if it names none."""
    named = state.args.get(state.action.naming("block")) if state.action is not None else None
    return str(named.value) if named and str(named.value) in context.spec.memory else ""


def _edits(context: CheckContext, state: StateSpec, block: str) -> bool:
    """Whether a state may edit a block."""
    action = state.action
    if action is None:
        return False
    if not action.is_builtin or state.calls == "task":
        return True
    if not any(fact.startswith("memory.") for fact in action.changes):
        return False
    if (named := state.args.get(action.naming("block"))) is not None:
        return str(named.value) == block
    if state.traits.runs != "none":
        shares = state.args.get("share")
        return shares is not None and "memory" in shares.value
    return any(_may_edit(context, tool) for tool in carried_out(context.spec, state))


def _may_edit(context: CheckContext, tool: str) -> bool:
    """Whether a tool may edit memory: an application's own may change anything."""
    spec = context.spec.registry.tools.get(tool)
    return spec is None or spec.memory or tool in context.spec.registry.own_tools
