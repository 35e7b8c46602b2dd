"""What laws of whole runs share: generated machines that end, begun and helped on where they wait."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.api import Machine, Run, lifecycle
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.specs import ActionSpec, Effect
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run.context import Context
from chartloop.run.journal import Journal
from chartloop.testing.clock import ManualClock
from tests.strategies import outcomes

Made = Outcome | Blocked | None
"""What an action comes to; None: it raises."""
made = st.lists(
    st.one_of(outcomes, st.just(Blocked(None, "child")), st.none()), min_size=1, max_size=12
)

ROUNDS = 60
"""How often a run that waits is helped on: more than any run of at most `STEPS` steps needs."""
STEPS = 15


def machine_of(data: dict[str, Any], what: Sequence[Made]) -> Machine:
    """A generated machine, bounded, whose actions come to `what`, by the number of the step."""

    def act(ctx: Context) -> Made:
        ctx.ports.clock.advance(1.5)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  simulated here
        found = what[ctx.step % len(what)]
        if found is None:
            raise ValueError("odd")
        facts = ctx.position.facts.run
        if facts.elapsed >= 4 * STEPS:  # upkeep under a continuation would go on for ever
            return Blocked(None, "child")
        if isinstance(found, Blocked) and facts.idle:  # nor does this last
            return Outcome()
        return found

    anything = frozenset({"vars.*"})
    actions = [
        ActionSpec("act", act, effect=Effect.PURE, suspends=False, changes=anything),
        ActionSpec("keep", act, work=False, effect=Effect.PURE, suspends=False, changes=anything),
    ]
    # Upkeep counts no step, but it takes its time: the second half bounds a loop of upkeep.
    over = f'run.steps >= {STEPS} or run.elapsed >= duration("{2 * STEPS}s")'
    bound = {"when": over, "stop": "steps_limit"}
    text = json.dumps(data | {"rules": [bound, *data["rules"]]})
    loaded = load(text, "generated.yaml", with_own(specs_of(actions)))
    errors = [f.render() for f in loaded.findings if f.is_error]
    assert not errors, "\n\n".join(errors)
    assert loaded.spec is not None
    return Machine(Chart(loaded.spec, lifecycle()))


def begin(machine: Machine, journal: Journal | None = None) -> tuple[Run, ManualClock]:
    clock = ManualClock(1000)
    return machine.start("t", clock=clock, journal=journal, run_id="r"), clock


def help_on(run: Run, clock: ManualClock) -> None:
    """What somebody outside does for a run that waits."""
    clock.advance(1)
    if run.result.events:
        run.send(run.result.events[0])
    else:
        run.resume()
