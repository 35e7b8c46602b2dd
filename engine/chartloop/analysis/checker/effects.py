"""The facts that a state can change, by the traits of its action.

Checks that something never moves, in a loop, in a detour or in the whole file, ask here. A fact
that is not yielded cannot change in the state; one that is may.
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.core.facts import PARTS
from chartloop.core.specs import ActionSpec
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.abstract.failures import is_sure
from chartloop.machine.abstract.signals import asks_to_stop, carried_out
from chartloop.machine.build import Chart

RISES, FALLS, EITHER = "-", "+", "-+"
"""The `Expression.direction` that a guard must have for a change to make it false: the fact rises,
falls, or may do either."""
OF_A_CALL = tuple(
    f"usage.{name}"
    for name in ("llm_calls", "prompt_tokens", "completion_tokens", "total_tokens", "cost", *PARTS)
)
"""The facts that every model call adds to, a child's too."""
OF_CALLS = ("last.tool_calls", "last.wants_memory", "last.calls_dropped", "progress.repeats")
"""The facts about the tool calls that a reply asks for."""
OF_DENIALS = ("approvals.denied", "last.denied")
_OF_A_REPLY = ("last.text", "last.finish_reason", "last.model", *OF_CALLS)
_CONVERSATION = ("usage.messages", "usage.context_tokens", "usage.context_ratio")


def is_part(read: str, fact: str) -> bool:
    """Whether a change of `fact` changes `read`."""
    return fact in ("*", read) or f"{read}.".startswith(f"{fact}.")


class Effects:
    """The facts that each state of a machine may change, with the direction."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        self._of: dict[str, tuple[tuple[str, str], ...]] = {}
        self._spent_below: dict[int, frozenset[str]] = {}

    def of(self, state: StateSpec) -> tuple[tuple[str, str], ...]:
        """The facts that a state may change."""
        if state.name not in self._of:
            self._of[state.name] = tuple(self._find(state))
        return self._of[state.name]

    def _find(self, state: StateSpec) -> Iterator[tuple[str, str]]:
        yield f"run.visits.{state.name}", RISES
        yield "run.idle", RISES  # anybody may pause a run
        yield "fleet", EITHER  # by the calls of other runs
        for assign in (*state.set, *(a for e in state.edges for a in e.set)):
            yield assign.target, EITHER
        for save in state.save:
            yield save.target, EITHER
        if state.status:
            yield "run.status", EITHER
        if state.job == "wait":
            yield "last.answer", EITHER
            yield "run.elapsed", RISES
            yield from ((f"queue.{n}", EITHER) for n in ("size", "primary_done"))  # by a caller
        if state.action is not None and not state.action.is_builtin:
            yield "*", EITHER
        elif state.action is not None:
            yield from self._of_action(state, state.action)

    def _of_action(self, state: StateSpec, action: ActionSpec) -> Iterator[tuple[str, str]]:
        yield from ((f"run.{n}", RISES) for n in ("steps", "elapsed", "working"))
        yield from ((f"last.{n}", EITHER) for n in ("state", "action", "result"))
        yield "progress.stalled_for", EITHER
        for fact in action.changes:
            yield fact.removesuffix(".*"), EITHER
            if fact == "usage.context_tokens":
                yield "usage.context_ratio", EITHER
        if "conversation" in action.supplies:
            yield from ((fact, RISES) for fact in _CONVERSATION)
            yield "usage.prunable", EITHER
        sure = is_sure(self._chart, state)
        if not sure:
            yield from (("last.ok", EITHER), ("last.error", EITHER))
            yield from (("errors.total", RISES), ("errors.last", EITHER))
        if action.work:
            yield from ((f"progress.{n}", EITHER) for n in ("stalled_steps", "recent"))
            yield from ((f"errors.{n}", FALLS) for n in ("consecutive", "retries", "rate"))
            yield from ((f"errors.{n}", RISES) for n in ("consecutive", "rate") if not sure)
        yield from ((fact, RISES) for fact in self._spent(self._chart.spec, state))
        if state.asks_model in ("reply", "task"):
            yield from ((fact, EITHER) for fact in _OF_A_REPLY)
            yield "last.denied", FALLS
        if state.calls in ("all", "first"):
            yield "last.calls_dropped", RISES
            if self._chart.spec.approve is not None:
                yield from ((fact, RISES) for fact in OF_DENIALS)
        if asks_to_stop(state) or state.traits.runs != "none":
            yield "signals", EITHER

    def _spent(self, spec: MachineSpec, state: StateSpec) -> Iterator[str]:
        """Yield the counters of model and tool calls that a state raises, by its children too."""
        tools, known = carried_out(spec, state), spec.registry.tools
        servers = {known[name].server for name in tools if name in known}
        sampling = any(s.sampling for name, s in spec.servers.items() if name in servers)
        if state.asks_model != "never" or sampling:
            yield from OF_A_CALL
        if tools:
            yield "usage.tool_calls"
            yield from (f"usage.calls.{name}" for name in tools)
        if state.action is not None and not state.action.is_builtin:
            yield "usage"
        for child in spec.machines.values() if state.traits.runs != "none" else ():
            if id(child) not in self._spent_below:
                below = (self._spent(child, inner) for inner in child.states.values())
                self._spent_below[id(child)] = frozenset(fact for facts in below for fact in facts)
            yield from self._spent_below[id(child)]
