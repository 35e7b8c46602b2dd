"""The tools that may have an open call while a run walks the graph.

A state that asks the model opens calls of the tools that it offers, and answers all others itself
(`actions.infer`). A state that executes calls takes the open ones that its own `allow` names.
Before the first reply, calls come from the caller's conversation and may be of any tool.

In doubt the set is larger, never smaller.
"""

from __future__ import annotations

from collections.abc import Iterable

from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.abstract.position import Route
from chartloop.machine.abstract.signals import Tools, carried_out


class Offers:
    """The `wanted` tools that may have an open call, before and after each route."""

    def __init__(self, spec: MachineSpec, wanted: Iterable[str]) -> None:
        self.spec = spec
        self.wanted = frozenset(wanted)
        acting = [s for s in spec.states.values() if s.action is not None]
        self._keeps = all(s.action is not None and s.action.is_builtin for s in acting) and all(
            "keep" in s.args and _keeps(s) for s in acting if s.traits.sets_prompt
        )
        """Whether every state that sets its own prompt keeps its reply."""

    def after(self, route: Route, open_: Tools) -> Tools:
        """The tools with an open call after a route, given those before it."""
        state = self.spec.states.get(route.state)
        if state is None or state.action is None or not self.wanted or route.outcome == "resumed":
            return open_
        ok = route.outcome == "ok"
        if state.asks_model == "reply":
            offers = self.spec.offered(state)
            offered = self.wanted & frozenset(offers)
            return offered if ok and self._keeps and _keeps(state) else open_ | offered
        if state.asks_model == "task":  # the calls of the reply stay open, offered or not
            return self.wanted
        if ok and state.calls in ("all", "first"):
            return frozenset()
        return self.wanted if _may_bring_calls(state) else open_

    def tools_called_by(self, state: StateSpec, open_: Tools) -> Tools:
        """The wanted tools that a state's action may call, given the open calls."""
        allowed = self.wanted & carried_out(self.spec, state)
        return allowed if state.calls == "task" else allowed & open_


def _keeps(state: StateSpec) -> bool:
    """Whether a reply without calls always becomes the newest message."""
    keep = state.args.get("keep")
    return keep is None or (keep.kind == "constant" and keep.value is True)


def _may_bring_calls(state: StateSpec) -> bool:
    """Whether an action may add calls that no state of the file asked for."""
    action = state.action
    if action is None or not action.is_builtin:
        return action is not None
    shared = repr([state.args[n] for n in ("share", "children") if n in state.args])
    return action.traits.runs in ("one", "several") and "messages" in shared
