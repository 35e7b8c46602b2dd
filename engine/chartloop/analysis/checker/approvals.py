"""Checks of `approve`: paths around it, and tools that need none."""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.checker.tool_arguments import tool_tasks
from chartloop.analysis.checker.waits import region_of
from chartloop.analysis.proofs.guards.prover import Claim
from chartloop.core.digraph import reachable
from chartloop.core.specs import Effect
from chartloop.language.spec import Approve, MachineSpec, StateSpec
from chartloop.language.yaml.document import Path
from chartloop.machine.abstract.signals import carried_out


def check_approvals(context: CheckContext) -> None:
    """Find calls of a tool that needs an approval but may be executed without one."""
    _answered_ahead(context)
    approve = context.spec.approve
    if approve is not None:
        _named_by_the_file(context, approve)
        _in_children(context, approve)
        _never_asked(context, approve)
        _never_held(context, approve)
        _carried_out_before(context)


def _answered_ahead(context: CheckContext) -> None:
    """Find waits of the file whose answer, or silence, leads to a call before the model is asked.

    Such an answer is consent to the call, and may be given ahead of it.
    """
    spec = context.spec
    for wait in (s for s in spec.states.values() if s.job == "wait" and s.name not in spec.gates):
        answers = {e.target: _call_after(spec, wait, e.target) for e in wait.edges_of("on")}
        paid = next((c for c in answers.values() if c is not None and c[2]), None)
        if paid is not None:
            name, tool, _ = paid
            message = f"`{wait.name}` may be answered ahead, before the call of `{tool}`"
            message += f" that `{name}` makes was seen"
            hint = f"write `approve: {{tools: [{tool}]}}` instead: its answer is for the call"
            context.say("CL360", ("states", wait.name), message, hint=hint, key=True)
        silent = next((e for e in wait.edges_of("expired")), None)
        call = _call_after(spec, wait, silent.target) if silent is not None else None
        if silent is not None and call in answers.values() and None in answers.values() and call:
            message = f"silence approves: with no answer in time `{call[0]}` calls `{call[1]}`, "
            message += f"as after an answer to `{wait.name}`"
            hint = "lead `expired` where a refusal leads"
            context.say("CL365", silent.path, message, hint=hint, key=True)


def _call_after(spec: MachineSpec, wait: StateSpec, target: str) -> tuple[str, str, bool] | None:
    """The call with an effect that follows before the model is asked again or anyone answers.

    The state that makes it, its tool, and whether it is paid; a paid one rather than another. Of a
    tool that is only named it is not known whether it has an effect.
    """
    found: tuple[str, str, bool] | None = None
    states, known = spec.states, spec.registry.tools

    def onward(name: str) -> Iterator[str]:
        if states[name].job != "wait" and states[name].traits.asks == "never":
            yield from (e.target for e in states[name].edges if e.target in states)

    for name in reachable([target] if target in states else [], onward):
        if name == wait.name or states[name].calls == "task":
            continue
        effects = {t: known[t].effect for t in sorted(carried_out(spec, states[name]) & {*known})}
        paid = [t for t, effect in effects.items() if effect is Effect.PAID]
        if paid:
            return name, paid[0], True
        local = [t for t, effect in effects.items() if effect is not Effect.PURE]
        found = found or ((name, local[0], False) if local else None)
    return found


def _named_by_the_file(context: CheckContext, approve: Approve) -> None:
    for name, state in context.spec.states.items():
        if (tool := state.named_tool) in approve.tools:
            message = f"`{name}` calls `{tool}` itself, without approval"
            hint = "put your own wait before it, and take the tool out of `approve`"
            context.say("CL338", ("states", name, "with", "name"), message, hint=hint)
    for path, task, tool in tool_tasks(context):
        if tool.name in approve.tools:
            message = f"task `{task.get('id', task['text'])}` fails whenever it is begun: "
            message += f"`{tool.name}` needs an approval, which a task cannot have"
            hint = "let the model call it, or take it out of `approve`"
            context.say("CL364", path, message, hint=hint)


def _carried_out_before(context: CheckContext) -> None:
    """Report a detour that carries out the calls of a question before it is asked."""
    for rule in context.spec.rules:
        if rule.kind == "detour" and not rule.at and not rule.before:
            states = [context.spec.states[name] for name in region_of(context, rule)]
            if any(state.calls in ("all", "first") for state in states):
                message = f"`{rule.to}` may carry out the calls that a person is asked about, and "
                message += "return to the question: it is then about nothing"
                hint = "say where the detour is made: `before: [...]`, or `at: [...]`"
                context.say("CL340", (*rule.path, "to"), message, hint=hint)


def _in_children(context: CheckContext, approve: Approve) -> None:
    for name, child in context.spec.machines.items():
        for tool in sorted(set(_tools_without_approval(child)).intersection(approve.tools)):
            message = f"child machine `{name}` executes `{tool}`, without approval"
            hint = f"write `approve: {{tools: [{tool}]}}` in the child, too"
            path: Path = ("machines", name) if child.base else ("approve",)
            context.say("CL339", path, message, hint=hint, key=True)


def _tools_without_approval(spec: MachineSpec) -> Iterator[str]:
    """Yield the tools that a machine or its children call without approval."""
    gated = spec.approve.tools if spec.approve is not None else ()
    for state in spec.states.values():
        yield from (tool for tool in carried_out(spec, state) if tool not in gated)
    for child in spec.machines.values():
        yield from _tools_without_approval(child)


def _never_asked(context: CheckContext, approve: Approve) -> None:
    executed: set[str] = set()
    for state in approve.states.values():
        executed |= carried_out(context.spec, state)
    for number, tool in enumerate(approve.tools):
        if tool not in executed:
            message = f"no state executes calls of `{tool}`: there is nothing to approve"
            hint = "lead to a state with `do: call_tools` that allows it, or take it out"
            context.say("CL340", ("approve", "tools", number), message, hint=hint)


def _never_held(context: CheckContext, approve: Approve) -> None:
    path: Path = ("approve", "when")
    if approve.when is None or context.broken or context.has_finding_at(path):
        return
    if context.prover.ask((Claim(approve.when.root),), at=context.full(path)).possible is False:
        message = f"`{approve.when.text}` can never hold: no call waits for an approval"
        hint = "compare with something else, or leave `when` out: then all calls wait"
        context.say("CL340", path, message, hint=hint)
