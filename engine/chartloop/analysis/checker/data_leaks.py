"""The check for private and untrusted text that a tool may send out.

Source: docs/data.md, "What is asked".
"""

from __future__ import annotations

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.proofs.query import Questions
from chartloop.analysis.proofs.query.data_flow import DataFlow
from chartloop.analysis.proofs.query.data_movements import Sent, Source
from chartloop.analysis.proofs.query.flow_answer import say_way
from chartloop.core.specs import DataUse
from chartloop.language.spec import MachineSpec
from chartloop.machine.abstract.position import TooLarge


def check_leaks(context: CheckContext) -> None:
    """Find senders that may be given private and untrusted text, by what is declared alone."""
    spec = context.spec
    uses = [use for part in spec.family() for use in _declared(part)]
    labels = {label for use in uses for label in use.labels}
    if not {"private", "untrusted"} <= labels or not any(use.sends_out for use in uses):
        return
    try:
        flow = Questions(context.chart).flow()
    except TooLarge:
        return
    seen: set[str] = set()
    for _, one, origins in flow.sent():
        sources = [o for o in origins if isinstance(o, Source) and o.use.declared]
        found = {label for source in sources for label in source.use.labels}
        if one.use.declared and one.use.sends_out and found >= labels and one.to not in seen:
            seen.add(one.to)
            _say(context, flow, one)


def _say(context: CheckContext, flow: DataFlow, sent: Sent) -> None:
    spec, name = context.spec, sent.to.partition(":")[2]
    ways = [
        flow.way(
            lambda source, label=label: source.use.declared and label in source.use.labels,
            lambda one: (one.to, one.child) == (sent.to, sent.child),
        )
        for label in ("untrusted", "private")
    ]
    shown = ", and ".join(say_way(flow, way) for way in ways if way is not None)
    path = ("data", name) if name in spec.data else ("tools",)
    message = f"`{name}` sends out, and may be given what is private and what is untrusted: {shown}"
    hint = "offer them in different states, or hold the tool back with `approve`"
    context.say("CL366", path, message, hint=hint, key=True)


def _declared(spec: MachineSpec) -> list[DataUse]:
    """What is declared of the machine's tools, actions and inputs."""
    known, acting = spec.registry.tools, [s.action for s in spec.states.values()]
    tools = [spec.use_of(tool) for tool in known.values()]
    actions = [spec.use_of(action) for action in acting if action is not None]
    return [use for use in (*tools, *actions, *(spec.inputs or {}).values()) if use.declared]
