"""One simulated run: draw an outcome, let `evolve` decide, repeat until it ends.

The clock is simulated. Each run has its own seeded random generator: the same seed and number give
the same run, whatever other runs there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from chartloop.analysis.simulation.assumptions import family_of
from chartloop.analysis.simulation.cases import Cases
from chartloop.analysis.simulation.distributions import drawing
from chartloop.analysis.simulation.outcomes import Outcomes
from chartloop.analysis.simulation.world import NOBODY, World
from chartloop.core.errors import SetupError, nearest
from chartloop.core.facts import EMPTY, Facts, FleetFacts
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.position import Position
from chartloop.core.records import Input, Record
from chartloop.language.expression import Oracle
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision
from chartloop.machine.evolve import evolve
from chartloop.machine.rules import time_allowed
from chartloop.run.exceptions import too_long

LONGEST = 10_000
"""Steps after which a run is abandoned."""
KEPT = 10_000
"""Capacity of the cache of moments, some 40 MB: runs take the same paths at first."""
UNFINISHED, WAITING = "unfinished", "waiting"
"""The reasons of a run that was abandoned, and of one whose wait is never answered."""
BEGIN = 1.0
"""The clock's first reading, in seconds; 0 would mean that there is no reading."""
NO_TASK = "no_task"
"""The kind of failure of `work` when the queue is empty."""
A_HAIR = 1e-9
"""Seconds past its deadline at which an action is cut off, so that rounding cannot undo it."""
ROUNDING = 1e-6
"""Seconds by which an action may be late, because only rounding and hairs add up to them."""
_SPREAD = 2**32

Watch = tuple[str, Callable[[Facts], Any]]
"""A name, and a function of the facts whose greatest value over the steps is kept."""


class Simulated(NamedTuple):
    """The figures of one run. Times in seconds; `usd` is None without prices."""

    number: int
    reason: str
    kind: str
    """`natural`, `human`, `limit`, `error`, `waiting`, or `unfinished`."""
    state: str
    actions: int
    requests: int
    """Model calls, including failed ones."""
    tool_calls: int
    tokens: int
    usd: float | None
    elapsed: float
    waiting: float
    """The part of `elapsed` spent waiting or backing off."""
    most: tuple[Any, ...] = ()
    """The greatest value of each watch."""


class _Moment:
    """A position with the input that led to it, and a cache of the moments that followed."""

    __slots__ = ("asked", "cases", "decision", "input", "kept", "onward", "position")

    def __init__(self, input: Input, position: Position, decision: Decision) -> None:
        self.input = input
        self.position = position
        self.decision = decision
        self.asked = 0 if input.outcome is None else input.outcome.unanswered
        self.cases: Cases | None = None
        """What may come of its action, once known."""
        self.kept = False
        """Whether the moment is in the cache, so that other runs pass it too."""
        self.onward: dict[int, _Moment] | None = None
        """The next moments by the number of the case, for cases without drawn amounts."""

    def after(self, number: int) -> _Moment | None:
        """The cached next moment in that case; None if there is none."""
        return None if self.onward is None else self.onward.get(number)

    def keep(self, number: int, after: _Moment) -> None:
        """Cache the next moment in that case."""
        if self.onward is None:
            self.onward = {}
        self.onward[number] = after
        after.kept = True


class Player:
    """A simulator of one machine in one world, which counts the states, edges and rules taken."""

    def __init__(
        self, chart: Chart, world: World, start: Mapping[str, Any] = EMPTY, *,
        longest: int = LONGEST, watch: Sequence[Watch] = (),
    ) -> None:  # fmt: skip
        self.chart = chart
        self.world = world
        self.longest = longest
        self.watch = tuple(read for _, read in watch)
        self.outcomes = Outcomes(chart, world)
        data = {"task": world.task, **start}
        self.begun = Input("start", started=BEGIN, at=BEGIN, data=data)
        self.visits: dict[str, int] = dict.fromkeys(chart.step.nodes, 0)
        self.taken: dict[str, int] = dict.fromkeys(chart.by_origin, 0)
        self.steps = 0
        spec = chart.spec
        self._delays = {name: drawing(w.delay) for name, w in self.outcomes.waits.items()}
        self._chance = Random()  # noqa: S311  no secret; seeded for each run
        self._opaque = opaque_guards(chart)
        refuse_unknown_guards(self._opaque, world)
        self._oracle = self._guessing() if self._opaque else None
        self.idle = chart.position("simulated")
        self.room = KEPT
        """How many more moments fit into the cache."""
        self._fleet = {name: drawing(amount) for name, amount in world.fleet.items()}
        same = all(amount.single_value is not None for amount in world.fleet.values())
        self._first = self._begin() if same and not self._opaque else None
        if self._first is not None:
            self._first.kept = True
        self._timed = {
            s.name: s for s in spec.states.values()
            if s.action is not None and family_of(s) != "pure" and (s.within or chart.time_left)
        }  # fmt: skip

    # one run ------------------------------------------------------------------------------------

    def play(self, seed: int, number: int, records: list[Record] | None = None) -> Simulated:
        """Play the run of this number. Its records are appended to `records`."""
        chance = self._chance
        chance.seed(seed * _SPREAD + number)
        visits, taken = self.visits, self.taken
        moment = self._first or self._begin()
        most: list[Any] | None = [None] * len(self.watch) if self.watch else None
        asked = steps = 0
        before = self.idle
        while True:
            position, decision = moment.position, moment.decision
            for name in decision.path:
                visits[name] += 1
            for origin in decision.taken:
                taken[origin] = taken.get(origin, 0) + 1
            asked += moment.asked
            if most is not None:
                _note(most, self.watch, position.facts)
            if records is not None:
                records.append(_record(steps, before.state, moment))
            if position.ended or steps >= self.longest:
                break
            after = self._after(moment, chance)
            if after is None:
                break
            before, moment = position, after
            steps += 1
        self.steps += steps
        return summary(number, position, asked, tuple(most or ()))

    def _after(self, moment: _Moment, chance: Random) -> _Moment | None:
        """The next moment; None when the run waits for an answer that never comes."""
        position = moment.position
        if position.status != "paused":
            if (cases := moment.cases) is None:
                cases = moment.cases = self.outcomes.at(position)
            number = bisect_right(cases.steps, chance.random())
            same = cases.fixed[number]
            if same and (known := moment.after(number)) is not None:
                return known
            made, duration = cases.come(number, position, chance)
            input = self.finish_input(position, made, duration)
        elif position.state in self.chart.waiting:
            wait = self.outcomes.waits[position.state]
            number = bisect_right(wait.steps, chance.random())
            same = wait.delay.single_value is not None
            if same and (known := moment.after(number)) is not None:
                return known
            event, data, _ = wait.answers[number]
            delay = self._delays[position.state](chance)
            input = self.answer_input(position, event, data, delay)
        else:
            number, same, due = 0, True, position.wake_at
            if (known := moment.after(number)) is not None:
                return known
            input = None if due is None else Input("resume", at=max(position.facts.marks.now, due))
        if input is None:
            return None
        after = _Moment(input, *evolve(self.chart, position, input, oracle=self._oracle))
        if same and moment.kept and self.room and self._oracle is None:
            # `evolve` is pure: the same position and input give the same decision again
            self.room -= 1
            moment.keep(number, after)
        return after

    def _begin(self) -> _Moment:
        """The moment after a run's start."""
        begun = self.begun
        if self._fleet:  # records without `fleet` keep its facts
            drawn: dict[str, Any] = {n: draw(self._chance) for n, draw in self._fleet.items()}
            if "tokens_left" in drawn:
                drawn["tokens_left"] = round(drawn["tokens_left"])
            begun = begun.replace(fleet=FleetFacts(**drawn))
        return _Moment(begun, *evolve(self.chart, self.idle, begun, oracle=self._oracle))

    def finish_input(self, position: Position, made: Outcome | Blocked, duration: float) -> Input:
        """The input that ends an action, cut off at its deadline."""
        now = position.facts.marks.now
        if isinstance(made, Blocked):
            data = {n: v for n, v in (("until", made.until), ("on", made.on)) if v is not None}
            return Input("blocked", started=now, at=now, data=data)
        if made.error is not None and made.error.kind == NO_TASK:
            duration = 0.0  # without a task nothing starts that could take time
        if position.state in self._timed:
            state = self._timed[position.state]
            allowed = time_allowed(self.chart, state, position)
            if allowed is not None and duration > allowed + ROUNDING:
                assert state.action is not None
                error = too_long(state.action.name, allowed)
                begun = self.outcomes.so_far(position)
                asked = max(begun.unanswered, 1 if "model" in state.action.uses else 0)
                made = begun.replace(ok=False, error=error, timed_out=True, unanswered=asked)
                return Input("step", "", made, now, now + allowed + A_HAIR)
        return Input("step", "", made, now, now + duration)

    def answer_input(
        self, position: Position, event: str, data: Mapping[str, Any], delay: float
    ) -> Input | None:
        """The answer after this delay, or the wait's expiry if earlier; None if it never ends."""
        now, due = position.facts.marks.now, position.wake_at
        if due is not None and (event == NOBODY or now + delay >= due):
            return Input("expired", at=max(now, due))
        return None if event == NOBODY else Input("answer", event, at=now + delay, data=data)

    def _guessing(self) -> Oracle:
        """An oracle that answers for Python guards with the world's probabilities."""
        guards, chance = self.world.guards, self._chance
        return lambda name, _: chance.random() < guards[name]


def _record(number: int, state: str, moment: _Moment) -> Record:
    input, decision = moment.input, moment.decision
    if decision.opaque:
        input = input.replace(opaque=decision.opaque)
    return Record(
        number, state, input, decision.taken, decision.signals, decision.next, decision.status,
        moment.position.wake_at, decision.warnings,
    )  # fmt: skip


def _note(most: list[Any], watch: Sequence[Callable[[Facts], Any]], facts: Facts) -> None:
    for n, read in enumerate(watch):
        value = read(facts)
        if value is not None and (most[n] is None or value > most[n]):
            most[n] = value


def summary(number: int, position: Position, asked: int, most: tuple[Any, ...]) -> Simulated:
    """The figures of a run at a position. `asked` counts model calls without a reply."""
    facts = position.facts
    run, usage = facts.run, facts.usage
    top = position.signals.highest
    if position.ended and top is not None:
        reason = str(top.reason)
        kind = top.reason.kind_of_end(position.status, facts.queue.failed)
    else:
        reason = kind = WAITING if position.status == "paused" else UNFINISHED
    return Simulated(
        number, reason, kind, position.state, run.steps, usage.llm_calls + asked,
        usage.tool_calls, usage.total_tokens, usage.cost, run.elapsed, run.idle, most,
    )  # fmt: skip


# opaque guards ------------------------------------------------------------------------------


def opaque_guards(chart: Chart) -> tuple[str, ...]:
    """The registered Python guards that the machine's guards call."""
    spec = chart.spec
    guards = [rule.when for rule in spec.rules]
    guards += [edge.when for edge in spec.edges() if edge.when is not None]
    guards += [state.of for state in spec.states.values() if state.of is not None]
    return tuple(dict.fromkeys(name for guard in guards for name in sorted(guard.opaque)))


def refuse_unknown_guards(opaque: Sequence[str], world: World) -> None:
    """Raise `SetupError` for a Python guard without a probability, or for an unknown guard."""
    if missing := [name for name in opaque if name not in world.guards]:
        raise SetupError(
            f"guard `{missing[0]}` is Python: how often it holds is unknown",
            hint=f"say it: `--guard {missing[0]}=50%`, or under `guards` in the world file",
        )
    if more := [name for name in world.guards if name not in opaque]:
        raise SetupError(f"no guard `{more[0]}` is asked", hint=nearest(more[0], opaque))
