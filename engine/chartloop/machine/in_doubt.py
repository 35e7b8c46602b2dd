"""The key `in_doubt`: the treatment of a call whose outcome is not known.

Where a person decides, the wait is an edge of its state: pictures draw it, `bound` counts how long
it may take, and queries see its answers.

Belongs here: the policy for each call, pure. Never: which calls are in doubt (`run.calls`).

Source: docs/language.md, `in_doubt`; docs/stuck.md, "A call in doubt".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chartloop.core.facts import EMPTY
from chartloop.core.specs import ActionSpec, Effect, ToolSpec
from chartloop.language.expression import Expression
from chartloop.language.spec import InDoubt, MachineSpec, StateSpec
from chartloop.machine.evolve import RULES


class Decides(NamedTuple):
    """The people who decide on the calls in doubt of a state, and the time that they have."""

    by: str
    within: Expression | float | None


def policy(
    spec: MachineSpec, state: StateSpec, action: ActionSpec, tool: ToolSpec | None, *,
    rules: int | None = RULES,
) -> InDoubt:  # fmt: skip
    """The treatment of a call whose outcome is not known, unless a person decides otherwise.

    `rules` is the version of the run's decision rules: under the first one calls were repeated.
    """
    if tool is not None and tool.effect is not Effect.PAID:
        return "retry"
    if given := state.in_doubt or spec.in_doubt:
        return given
    if rules is None or rules < 2:
        return "retry"
    if tool is None:
        asks = "model" in action.uses | action.may_use
        return "retry" if asks and not provider_acts(spec, state) else "tell"
    return "ask" if spec.approve is not None and tool.name in spec.approve.tools else "tell"


_ACTS = frozenset({"tools", "mcp_servers", "container"})
"""The fields of a request by which a provider executes tools itself."""


def provider_acts(spec: MachineSpec, state: StateSpec) -> bool:
    """Whether the provider of a state's model executes tools within the call."""
    given = state.args.get("extra")
    extra: Mapping[str, Any] = {
        **(spec.model.get("extra") or EMPTY), **(given.value if given is not None else EMPTY),
    }  # fmt: skip
    return not _ACTS.isdisjoint({*extra, *(extra.get("extra_body") or ())})


def decides(spec: MachineSpec, state: StateSpec) -> Decides | None:
    """The people who decide on the calls in doubt of a state; None if nobody is asked."""
    action, approve = state.action, spec.approve
    if action is None or action.effect is not Effect.PAID:
        return None
    asked = [tool for tool in _called(spec, state) if policy(spec, state, action, tool) == "ask"]
    if not asked:
        return None
    gated = approve is not None and all(t is not None and t.name in approve.tools for t in asked)
    if approve is None or not gated:
        return Decides("", None)
    return Decides(approve.by, approve.within)


def _called(spec: MachineSpec, state: StateSpec) -> Iterator[ToolSpec | None]:
    """The tools with effects that the action of a state may call; None for the action itself."""
    if state.calls in ("all", "first"):
        offered = (spec.registry.tools.get(name) for name in spec.offered(state))
        yield from (t for t in offered if t is not None and t.effect is Effect.PAID)
    else:
        yield spec.registry.tools.get(state.named_tool)
