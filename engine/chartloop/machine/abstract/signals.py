"""The signals that may be raised without an edge or rule of the file, and their sources."""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.language.spec import MachineSpec, Rule, StateSpec
from chartloop.machine.rules import is_about_failure

OUTSIDE = ("user_requested", "stop_requested", "error", "guard_error")
"""The reasons that may be raised at any moment, whatever the file says."""
FROM_ANYBODY = ("user_requested",)
"""The reason of a stop from outside whose caller names none."""
OF_A_GUARD = ("guard_error",)
"""The reasons that may be raised where only guards and `set` are evaluated."""
OF_AN_ACTION = ("error", "guard_error", "time_limit")
"""The reasons that may be raised after any action; `time_limit` in a child whose parent's time is
up."""
Tools = frozenset[str]


def carried_out(spec: MachineSpec, state: StateSpec) -> Tools:
    """Return the tools whose calls a state may execute, according to its `allow`.

    Empty for a custom action: the calls that it makes itself are invisible.
    """
    allowed, known = spec.offered(state), spec.registry.tools
    match state.calls:
        case "none":
            return frozenset()
        case "named":
            return frozenset((state.named_tool,))
        case "task":
            held = frozenset(spec.approve.tools if spec.approve is not None else ())
            return frozenset((*spec.tools, *spec.registry.own_tools)) - held
        case "memory":
            return frozenset(tool for tool in allowed if tool in known and known[tool].memory)
        case "all" | "first":
            return frozenset(allowed)


def concerns_failure(rule: Rule) -> bool:
    """Whether a rule may be about a failure."""
    return is_about_failure(rule.when.reads, timed_out=True)


def raised_by_states(spec: MachineSpec) -> Iterator[str]:
    """Yield the reasons that the file's states give to their actions."""
    for state in spec.states.values():
        yield from _reason_arguments(state)


def _reason_arguments(state: StateSpec) -> Iterator[str]:
    for arg in state.action.args if state.action is not None else ():
        if arg.names == "reason" and arg.name in state.args:
            yield str(state.args[arg.name].value)


def raised_after(
    spec: MachineSpec, state: StateSpec | None, *, sure: bool = False, breaks: bool = True
) -> tuple[str, ...]:
    """Return the reasons, other than those of rules, that may be raised after a state.

    `sure`: its action cannot fail. `breaks`: a guard, `set` or wait after it may fail.
    """
    of_guards = OF_A_GUARD if breaks else ()
    if state is None or state.action is None:
        return of_guards
    if asks_to_stop(state):
        return tuple(spec.reasons)
    return (*(of_guards if sure else OF_AN_ACTION), *_reason_arguments(state))


def asks_to_stop(state: StateSpec) -> bool:
    """Whether a state runs an application's code, which may ask to stop for any reason."""
    action = state.action
    return action is not None and (state.calls != "none" or not action.is_builtin)


def signalled_behind(spec: MachineSpec, state: StateSpec) -> tuple[str, ...]:
    """Return the reasons that a state may raise after a stop, where failures raise none."""
    return tuple(spec.reasons) if asks_to_stop(state) else tuple(_reason_arguments(state))


def hands_down(spec: MachineSpec, state: StateSpec) -> bool:
    """Whether a state runs children, which may see a stop from outside before their parent."""
    runs = state.traits.runs
    return runs != "none" and (runs != "task" or bool(spec.machines))


def longest_wait(state: StateSpec, attempt: int) -> float:
    """Return the longest back-off in seconds: a provider may ask for more than the file."""
    retry, action = state.retry, state.action
    if retry is None or action is None:
        return 0.0
    asks = "model" in action.uses | action.may_use or not action.is_builtin
    return max(retry.wait(attempt), retry.most if asks else 0.0)
