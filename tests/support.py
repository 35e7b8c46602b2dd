"""What the tests of machines share: small machines whose actions return what a test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.api import Machine, Run, lifecycle
from chartloop.core.errors import SpecError
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.specs import ActionSpec, Effect
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run.context import Context
from chartloop.testing.clock import ManualClock

Said = Mapping[str, Sequence[Outcome | Blocked | BaseException]]
"""What the action of each state returns, in order; `Outcome()` when the list is used up."""

OK = Outcome()


def failure(category: str = "TRANSIENT", message: str = "boom") -> Outcome:
    """An outcome of an action that failed."""
    return Outcome.failure(category, message)


def actions(said: Said) -> tuple[ActionSpec, ...]:
    """`act` is work, `keep` is upkeep; both return what the test says for their state."""
    left = {state: list(outcomes) for state, outcomes in said.items()}

    def act(ctx: Context) -> Any:
        waiting = left.get(ctx.state.name)
        if not waiting:
            return OK
        made = waiting.pop(0)
        if isinstance(made, BaseException):
            raise made
        return made

    anything = frozenset({"vars.*", "memory.*", "queue.*", "progress.*"})
    return (
        ActionSpec("act", act, effect=Effect.PURE, suspends=False, changes=anything),
        ActionSpec("keep", act, work=False, effect=Effect.PURE, suspends=False, changes=anything),
    )


def machine(body: str, said: Said | None = None) -> Machine:
    """A machine of the YAML that follows `machine:`, with the actions `act` and `keep`."""
    text = f"chartloop: 1\nmachine: m\n{body}"
    loaded = load(text, "m.yaml", with_own(specs_of(actions(said or {}))))
    if loaded.spec is None or not loaded.ok:
        raise SpecError(loaded.findings)
    # not through the checker: decisions that it warns of must be sound all the same
    return Machine(Chart(loaded.spec, lifecycle()))


def start(body: str, said: Said | None = None, **options: Any) -> Run:
    """A run of such a machine on a simulated clock."""
    options.setdefault("clock", ManualClock())
    return machine(body, said).start("task", **options)


def path(run: Run) -> str:
    """The states entered so far, as one line."""
    return " ".join(run.result.path)
