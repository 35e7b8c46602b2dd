"""Machines whose stops compete, for the law of queries.

Rules that only signal, for reasons of every rank; stops for the highest of what was raised; edges
that stop; signals that actions raise and continuations put off. The rest of each machine is one
of `strategies.costly_machines` or `harder.harder_machines`.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.harder import harder_machines
from tests.strategies import costly_machines

Data = dict[str, Any]
NAMES = ("first", "custom", "token_limit", "steps_limit", "other", "last")
"""Reasons that rules and states of these machines name."""


@st.composite
def competing_machines(draw: st.DrawFn) -> Data:
    """See the module."""
    data: Data = draw(st.one_of(costly_machines(), harder_machines()))
    reason = st.sampled_from(NAMES)
    data["reasons"] = {
        name: {"priority": draw(st.integers(1, 9)), "status": draw(st.sampled_from(ENDS))}
        for name in ("first", "custom", "other", "last")
    }
    for rule in data["rules"]:
        for key in ("stop", "signal"):
            if key in rule:
                rule[key] = draw(reason)
        if "stop" in rule and draw(st.booleans()):
            rule["to"] = "stopped"
    data["states"]["stopped"]["stop"] = draw(st.one_of(reason, st.just("highest")))
    if draw(st.booleans()):
        data["states"]["done"]["stop"] = draw(st.sampled_from(["highest", *NAMES]))
    quiet = draw(st.booleans())
    for state in data["states"].values():
        if quiet and state.get("do") in CALLING:
            state["do"] = "nothing"
            state.pop("with", None)
            state.pop("retry", None)
        _compete(draw, state)
    return data


ENDS = ("completed", "error")
CALLING = ("call_tools", "call_tool", "tool", "work", "run_machine", "run_machines")
"""Actions that may ask to stop for any reason: beside them no reason is out of reach."""


def _compete(draw: st.DrawFn, state: Data) -> None:
    """Give a state's signal and its edges that stop some reason."""
    if state.get("do") == "signal":
        state["with"] = {"reason": draw(st.sampled_from(NAMES))}
    for edge in state["next"] if isinstance(state.get("next"), list) else ():
        if "stop" in edge and not isinstance(edge, str):
            edge["stop"] = draw(st.sampled_from(NAMES))
