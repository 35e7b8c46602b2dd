"""Checks of `approve`: the ways around it, and one that nothing reaches."""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.checker.check_context import CheckContext
from chartloop.language.spec import Approve, MachineSpec
from chartloop.language.yaml.document import Path
from chartloop.machine.abstract.signals import carried_out


def check_approvals(context: CheckContext) -> None:
    """Every way on which a tool that needs an approval could be executed without one."""
    given = context.spec.approve
    if given is not None:
        _named_by_the_file(context, given)
        _in_children(context, given)
        _never_asked(context, given)


def _named_by_the_file(context: CheckContext, given: Approve) -> None:
    for name, state in context.spec.states.items():
        if (tool := state.named_tool) in given.tools:
            message = f"`{name}` calls `{tool}` itself, without approval"
            hint = "put your own wait before it, and take the tool out of `approve`"
            context.say("CL338", ("states", name, "with", "name"), message, hint=hint)


def _in_children(context: CheckContext, given: Approve) -> None:
    for name, child in context.spec.machines.items():
        for tool in sorted(set(_tools_without_approval(child)).intersection(given.tools)):
            message = f"child machine `{name}` executes `{tool}`, without approval"
            hint = f"write `approve: {{tools: [{tool}]}}` in the child, too"
            path: Path = ("machines", name) if child.base else ("approve",)
            context.say("CL339", path, message, hint=hint, key=True)


def _tools_without_approval(spec: MachineSpec) -> Iterator[str]:
    """The tools that a machine or its children call without approval."""
    held = spec.approve.tools if spec.approve is not None else ()
    for state in spec.states.values():
        yield from (tool for tool in carried_out(spec, state) if tool not in held)
    for child in spec.machines.values():
        yield from _tools_without_approval(child)


def _never_asked(context: CheckContext, given: Approve) -> None:
    carried: set[str] = set()
    for state in given.states.values():
        carried |= carried_out(context.spec, state)
    for number, tool in enumerate(given.tools):
        if tool not in carried:
            message = f"no state executes calls of `{tool}`: there is nothing to approve"
            hint = "lead to a state with `do: call_tools` that allows it, or take it out"
            context.say("CL340", ("approve", "tools", number), message, hint=hint)
