"""What no edge or rule of a file says: where signals lead that are raised by themselves.

Imported by:  checker.paths.routes
"""

from __future__ import annotations

from interlock.language.spec import Rule, StateSpec
from interlock.machine.build import Chart

OUTSIDE = ("user_requested", "stop_requested", "error", "guard_error", "time_limit")
"""Reasons that may be raised at any moment without the file's doing."""


def deals(rule: Rule) -> bool:
    """Whether a rule may be about a failure. See `machine.looking`."""
    reads = rule.when.reads
    times = {"run.elapsed", "run.working", "last.ok"}
    return bool(reads & times) or any(r.startswith(("last.error", "errors.")) for r in reads)


def raised_to(chart: Chart) -> tuple[str, ...]:
    """Where signals lead that the file's rules do not raise."""
    spec = chart.spec
    reasons: list[str] = list(OUTSIDE)
    for state in spec.states.values():
        for arg in state.action.args if state.action is not None else ():
            if arg.names == "reason" and arg.name in state.args:
                reasons.append(str(state.args[arg.name].value))
    if spec.tools or spec.registry.own_tools or any(_calls(s) for s in spec.states.values()):
        reasons += spec.reasons
    return tuple(dict.fromkeys(chart.route(r) for r in reasons))


def _calls(state: StateSpec) -> bool:
    """Whether an action may ask to stop for any reason: it calls what an application brings."""
    return state.action is not None and state.action.name in (
        "call_tools",
        "call_tool",
        "tool",
        "work",
    )
