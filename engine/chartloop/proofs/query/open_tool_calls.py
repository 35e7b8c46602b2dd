"""Of which tools a call may be open while a run walks the graph.

A state that asks the model opens calls of the tools that it shows, and answers all others itself
(`actions.infer`). A state that carries calls out makes those that are open and that its own
`allow` names. Before the first reply the calls are those of a conversation that the caller
gave, and may be of any tool.

Where this is not sure it says more tools, never fewer.
"""

from __future__ import annotations

from collections.abc import Iterable

from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.abstract.position import Route
from chartloop.machine.abstract.signals import Tools, carried_out


class Offers:
    """Which of the `wanted` tools may have an open call, before and after each route."""

    def __init__(self, spec: MachineSpec, wanted: Iterable[str]) -> None:
        self.spec = spec
        self.wanted = frozenset(wanted)
        self._keeps = _replies_are_kept(spec)

    def after(self, route: Route, open_: Tools) -> Tools:
        """The tools with an open call after a route, given those before it."""
        state = self.spec.states.get(route.state)
        if state is None or state.action is None or not self.wanted or route.outcome == "resumed":
            return open_
        ok = route.outcome == "ok"
        if state.asks_model == "reply":
            shown = self.wanted & frozenset(self.spec.tools if state.allow is None else state.allow)
            return shown if ok and self._keeps and _keeps(state) else open_ | shown
        if state.asks_model == "task":  # whatever the reply asks for stays open, shown or not
            return self.wanted
        if ok and state.calls in ("all", "first"):
            return frozenset()
        return self.wanted if _may_bring_calls(state) else open_

    def tools_called_by(self, state: StateSpec, open_: Tools) -> Tools:
        """The wanted tools that a state's action may call, given the open calls."""
        allowed = self.wanted & carried_out(self.spec, state)
        return allowed if state.calls == "task" else allowed & open_


def _keeps(state: StateSpec) -> bool:
    """Whether a reply without calls surely becomes the newest of the conversation."""
    keep = state.args.get("keep")
    return keep is None or (keep.kind == "constant" and keep.value is True)


def _replies_are_kept(spec: MachineSpec) -> bool:
    """Whether no state sets its own prompt whose reply is not kept."""
    acting = [s for s in spec.states.values() if s.action is not None]
    return all(s.action is not None and s.action.is_builtin for s in acting) and all(
        "keep" in s.args and _keeps(s) for s in acting if s.traits.sets_prompt
    )


def _may_bring_calls(state: StateSpec) -> bool:
    """Whether an action may add calls to the conversation that no state of the file asked for."""
    action = state.action
    if action is None or not action.is_builtin:
        return action is not None
    return action.traits.runs in ("one", "several") and _shares(state)


def _shares(state: StateSpec) -> bool:
    return "messages" in repr([state.args[n] for n in ("share", "children") if n in state.args])
