"""Edits of memory blocks by the file itself that fail: too long, or of a text that is not there.

Belongs here: what a state does to a block that it names. Never: the memory calls of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from chartloop.analysis.checker.check_context import CheckContext, value_of
from chartloop.analysis.checker.knowledge import groups, guard_of
from chartloop.core.specs import ArgSpec
from chartloop.language.expression import GUARD_ERRORS
from chartloop.language.expression.tree import Fact
from chartloop.language.intervals.evaluate import judge, surely
from chartloop.language.intervals.interval import Value, of_plain
from chartloop.language.spec import Assign, BlockSpec, StateSpec
from chartloop.language.template.template import Template
from chartloop.language.yaml.reading import Path
from chartloop.machine.abstract.signals import carried_out


def check_memory(context: CheckContext) -> None:
    """Find edits that the block's limit or its value never allows."""
    for state in context.spec.states.values():
        action = state.action
        named = state.args.get(action.naming("block")) if action is not None else None
        block = context.spec.memory.get(str(named.value)) if named is not None else None
        if action is None or named is None or block is None or state.name not in context.reached:
            continue
        given = [arg for arg in action.args if arg.name in state.args]
        ends = [arg for arg in given if arg.into_block == "end"]  # then nothing is replaced
        for arg in ends or given:
            if arg.into_block:
                _written(context, state, arg, str(named.value), block)
            if arg.in_block:
                _found(context, state, arg, str(named.value), block)
    with suppress(*GUARD_ERRORS):  # what has no value is a finding of its own
        _replay(context)


MOST = 400
"""The most states of the way that is followed."""


def _replay(context: CheckContext) -> None:
    """Make the edits on the way that every run takes, as far as the file alone decides it."""
    spec, name = context.spec, context.spec.start
    known: dict[str, Any] = {f"memory.{n}": block.value for n, block in spec.memory.items()}
    known |= {f"vars.{n}": var.value for n, var in spec.vars.items()}
    followed = spec.memory and not any(rule.kind == "detour" for rule in spec.rules)
    for _ in range(MOST if followed else 0):
        if (state := spec.states.get(name)) is None or state.all:
            return
        _assign(known, state.set)
        for block, limit in spec.memory.items():
            path = f"memory.{block}"
            if path in known and _edits(context, state, block):
                text, after = known.pop(path), _edit(known, state)
                made = after(text) if after is not None else text
                if made is None or (limit.limit is not None and len(made) > limit.limit):
                    _fails(context, state, block, gone=made is None)
                    return
                known |= {path: made} if after is not None else {}
        for field in (*state.args, *(save.target for save in state.save)):
            known.pop(field, None)
        if state.action is not None and state.action.writes_any_variable:
            known = {path: value for path, value in known.items() if path.startswith("memory.")}
        edges = [e for group in groups(state) for e in group if e.role != "failed"]
        for edge in edges:
            guard = guard_of(state, edge)
            holds = guard is None or surely(judge(guard, partial(_range, known)))
            if holds is None or edge.trigger != edges[0].trigger:
                return
            if holds:
                _assign(known, edge.set)
                name = edge.target
                break
        else:
            return


def _fails(context: CheckContext, state: StateSpec, block: str, *, gone: bool) -> None:
    path: Path = ("states", state.name, "with")
    if not any(context.has_finding_at((*path, field)) for field in state.args):
        why = "does not hold that text any more" if gone else "has no room left for that text"
        message = f"`{state.name}` fails unless a caller gives `{block}` another value: by what "
        message += f"the file does before, the block {why}"
        context.say("CL364", path, message, hint="follow the edits of the block from the start")


def _edit(known: Mapping[str, Any], state: StateSpec) -> Callable[[str], str | None] | None:
    """The edit that a state makes of its block; None if it is not known."""
    given = {name: value_of(state.args[name].value, known) for name in state.args}
    fields = [next(iter(given.get(name, ("",))), None) for name in ("append", "old", "new")]
    if None in fields or state.action is None or state.action.naming("block") not in given:
        return None
    append, old, new = cast("list[str]", fields)
    if append:
        return lambda text: f"{text}\n{append}" if text else append
    return lambda text: text.replace(old, new, 1) if old in text else None


def _range(known: Mapping[str, Any], fact: Fact) -> Value | None:
    return of_plain(known[fact.path]) if fact.path in known else None


def _assign(known: dict[str, Any], sets: Sequence[Assign]) -> None:
    """Make assignments; a variable whose new value is not known is forgotten."""
    made = {one.target: () if one.append else value_of(one.value, known) for one in sets}
    for target, values in made.items():
        known.pop(target, None)
        for value in values:
            known[target] = value


def _written(
    context: CheckContext, state: StateSpec, arg: ArgSpec, name: str, block: BlockSpec
) -> None:
    """Report a text that is longer than the block may be, alone or after what is in it."""
    text = _constant(state, arg.name)
    if text is None or block.limit is None:
        return
    if len(text) > block.limit:
        code, when, length = "CL363", "always fails: it writes", len(text)
    elif arg.into_block == "end" and block.value and not _edited(context, state, name):
        code, length = "CL364", len(block.value) + 1 + len(text)
        when = f"fails unless a caller gives `{name}` another value: that would make"
    else:
        return
    if length > block.limit:
        message = f"`{state.name}` {when} {length} characters, and `{name}` may hold {block.limit}"
        hint = "write a shorter text, or set the limit of the block higher"
        context.say(code, ("states", state.name, "with", arg.name), message, hint=hint)


def _found(
    context: CheckContext, state: StateSpec, arg: ArgSpec, name: str, block: BlockSpec
) -> None:
    """Report a text that is to be replaced and that the block never holds."""
    text = _constant(state, arg.name)
    if text and text not in block.value and not _edited(context, state, name):
        message = f"`{state.name}` fails unless a caller gives `{name}` another value: the block "
        message += "does not hold that text, and nothing else edits it"
        hint = "name a text of the block"
        context.say("CL364", ("states", state.name, "with", arg.name), message, hint=hint)


def _constant(state: StateSpec, field: str) -> str | None:
    given = state.args.get(field)
    value = given.value if given is not None else None
    return value.text if isinstance(value, Template) and value.constant else None


def _edited(context: CheckContext, own: StateSpec, block: str) -> bool:
    """Whether another state may edit a block."""
    return any(s is not own and _edits(context, s, block) for s in context.spec.states.values())


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
