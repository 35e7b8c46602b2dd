"""What no edge or rule of a file says: which signals are raised by themselves, and where they lead.

Imported by:  checker.paths.routes, checker.subject, checker.unused
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.language.spec import MachineSpec, Rule, StateSpec
from interlock.machine.build import Chart

OUTSIDE = ("user_requested", "stop_requested", "error", "guard_error")
"""Reasons that may be raised at any moment without the file's doing."""
OF_A_CHILD = "time_limit"
"""One more, where a machine runs as a child: its parent's time is up."""


def deals(rule: Rule) -> bool:
    """Whether a rule may be about a failure. See `machine.looking`."""
    reads = rule.when.reads
    times = {"run.elapsed", "run.working", "last.ok"}
    return bool(reads & times) or any(r.startswith(("last.error", "errors.")) for r in reads)


def signalled(spec: MachineSpec) -> Iterator[str]:
    """Reasons that the file's own actions raise."""
    for state in spec.states.values():
        for arg in state.action.args if state.action is not None else ():
            if arg.names == "reason" and arg.name in state.args:
                yield str(state.args[arg.name].value)


def raised_to(chart: Chart) -> tuple[str, ...]:
    """Where signals lead that the file's rules do not raise."""
    spec = chart.spec
    reasons = [*OUTSIDE, OF_A_CHILD, *signalled(spec)]
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
