"""Edits of memory blocks by the file itself that fail: too long, or of a text that is not there.

Belongs here: what a state does to a block that it names. Never: the memory calls of a model.
"""

from __future__ import annotations

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.core.specs import ArgSpec
from chartloop.language.spec import BlockSpec, StateSpec
from chartloop.language.template.template import Template
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
    spec = context.spec
    for state in spec.states.values():
        action = state.action
        if action is None or state is own:
            continue
        if not action.is_builtin or state.calls == "task":
            return True
        if not any(fact.startswith("memory.") for fact in action.changes):
            continue
        if (named := state.args.get(action.naming("block"))) is not None:
            if str(named.value) == block:
                return True
        elif state.traits.runs != "none":
            shares = state.args.get("share")
            if shares is not None and "memory" in shares.value:
                return True
        elif any(_may_edit(context, tool) for tool in carried_out(spec, state)):
            return True
    return False


def _may_edit(context: CheckContext, tool: str) -> bool:
    """Whether a tool may edit memory: an application's own may change anything."""
    spec = context.spec.registry.tools.get(tool)
    return spec is None or spec.memory or tool in context.spec.registry.own_tools
