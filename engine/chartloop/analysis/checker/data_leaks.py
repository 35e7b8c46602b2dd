"""The check for private and untrusted text that a tool may send out.

Source: docs/data.md, "What is asked".
"""

from __future__ import annotations

from collections.abc import Mapping

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.proofs.query import Questions
from chartloop.analysis.proofs.query.data_flow import DataFlow
from chartloop.analysis.proofs.query.data_movements import Sent, Source, declared_uses
from chartloop.analysis.proofs.query.flow_answer import say_way
from chartloop.machine.abstract.position import TooLarge


def check_leaks(context: CheckContext) -> None:
    """Find senders that may be given private and untrusted text, by what is declared alone."""
    spec = context.spec
    uses = [use for part in spec.family() for use in declared_uses(part)]
    labels = {label for use in uses for label in use.labels}
    if not {"private", "untrusted"} <= labels or not any(use.sends_out for use in uses):
        return
    questions, reached = Questions(context.chart), list[set[tuple[int, str]]]()
    try:
        flows = {label: questions.flow("", label) for label in ("untrusted", "private")}
    except TooLarge:
        return
    for label, flow in flows.items():
        reached.append({
            (route, one.to) for route, one, origins in flow.sent()
            if any(isinstance(o, Source) and _has(o, label) for o in origins)
        })  # fmt: skip
    both, seen = reached[0] & reached[1], set[str]()
    for route, one, _ in flows["private"].sent():
        if (
            (route, one.to) in both and one.to not in seen
            and one.use.declared and one.use.sends_out
        ):  # fmt: skip
            seen.add(one.to)
            _say(context, flows, one)


def _has(source: Source, label: str) -> bool:
    return source.use.declared and label in source.use.labels


def _say(context: CheckContext, flows: Mapping[str, DataFlow], sent: Sent) -> None:
    spec, name = context.spec, sent.to.partition(":")[2]
    ways: list[str] = []
    for label, flow in flows.items():
        way = flow.way(
            lambda source, label=label: _has(source, label),
            lambda one: (one.to, one.child) == (sent.to, sent.child),
        )
        ways += [] if way is None else [say_way(flow, way)]
    shown = ", and ".join(ways)
    path = ("data", name) if name in spec.data else ("tools",)
    message = f"`{name}` sends out, and may be given what is private and what is untrusted: {shown}"
    hint = "offer them in different states, or hold the tool back with `approve`"
    context.say("CL366", path, message, hint=hint, key=True)
