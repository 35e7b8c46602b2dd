"""Calls with effects that a deadline may cut in two, before the model decides again.

The model then reads that the outcome is not known, and may ask for the same call once more.
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.core.digraph import reachable
from chartloop.core.specs import Effect
from chartloop.machine.in_doubt import policy


def check_cut_calls(context: CheckContext) -> None:
    """Find states whose `within` may cut a call, with a way back to the model.

    A state or file that says what becomes of such a call, with `in_doubt`, was thought about.
    """
    spec = context.spec

    def onward(name: str) -> Iterator[str]:
        if spec.states[name].job != "wait":
            yield from (e.target for e in spec.states[name].edges if e.target in spec.states)

    for state in spec.states.values():
        if state.within is None or state.action is None or state.calls not in ("all", "first"):
            continue
        if state.in_doubt or spec.in_doubt:
            continue
        known = (spec.registry.tools.get(name) for name in spec.offered(state))
        paid = (tool for tool in known if tool is not None and tool.effect is Effect.PAID)
        told = [t.name for t in paid if policy(spec, state, state.action, t) == "tell"]
        behind = reachable([e.target for e in state.edges if e.target in spec.states], onward)
        model = next((name for name in behind if spec.states[name].traits.asks == "reply"), None)
        if not told or model is None:
            continue
        message = f"`within` may cut a call of `{told[0]}` in two; `{model}` then decides again, "
        message += "and does not know whether the call was carried out"
        hint = "give the tool a shorter timeout of its own, or write at the state what becomes of "
        hint += "such a call: `in_doubt: ask`, `tell` or `fail`"
        context.say("CL367", ("states", state.name, "within"), message, hint=hint, key=True)
