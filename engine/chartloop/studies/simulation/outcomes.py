"""The possible outcomes of an action at a position, in a world, with their probabilities.

Each state has one table of cases, made once, from which the simulator draws. A case fixes what
guards can distinguish (which failure, how many calls, which value); its amounts (tokens, seconds)
are drawn after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import accumulate, product
from math import comb, prod
from typing import Any, cast

from chartloop.actions.call_tools import imagined_batch
from chartloop.actions.imagine import ChildUse, Drawn, Scene, failure_named
from chartloop.core.errors import SetupError
from chartloop.core.outcome import NOTHING_SPENT, Outcome
from chartloop.core.position import REPAIRED, Position, repair_count
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.build import Chart
from chartloop.studies.simulation.assumptions import (
    Assumption,
    asks_for_itself,
    default_behaviour,
    family_of,
    in_words,
    keys_of,
    runs_called_children,
)
from chartloop.studies.simulation.cases import Case, Cases, Make, Wait
from chartloop.studies.simulation.dependencies import facts_read, reads_texts
from chartloop.studies.simulation.distributions import NOTHING
from chartloop.studies.simulation.world import UNSPECIFIED, Behaviour, Choice, World

MOST_RESULTS = 2_000
"""Maximum number of distinct results of one state."""


class Outcomes:
    """The possible outcomes at each state of a machine in a world."""

    def __init__(self, chart: Chart, world: World) -> None:
        self.chart = chart
        self.spec = chart.spec
        prices = world.prices or prices_of(chart.spec)
        self._price = prices
        reads = facts_read(self.spec)
        saves = any(state.save for state in self.spec.states.values())
        self._looked_at = saves or any(n == "last" or n.startswith("last.result") for n in reads)
        """Whether the machine reads results of actions."""
        self.assumptions: list[Assumption] = []
        self.unplayed = tuple(
            s.name for s in chart.spec.states.values()
            if family_of(s) == "child" or runs_called_children(s)
        )  # fmt: skip
        """The states whose child machines are not simulated: the world gives their results."""
        self._at: dict[str, Callable[[Position], Cases]] = {}
        self._so_far: dict[str, Make] = {}
        self.waits: dict[str, Wait] = {}
        self.behaviours: dict[str, Behaviour] = {}
        """The behaviour of each state: of the world, completed by assumptions."""
        states_by_text: dict[str, list[str]] = {}
        unread = frozenset[str]() if reads_texts(self.spec) else {"texts"}
        for state in self.spec.states.values():
            if state.action is None and state.job != "wait":
                continue
            behaviour = stated_behaviour(world, state)
            missing = keys_of(state) - behaviour.set_fields - unread
            for line in in_words(self.spec, state, missing):
                states_by_text.setdefault(line, []).append(state.name)
            behaviour = behaviour.over(default_behaviour(self.spec, state))
            self.behaviours[state.name] = behaviour
            if state.action is None:
                self.waits[state.name] = _wait(behaviour)
            else:
                self._at[state.name] = self._source(state, behaviour)
        self.assumptions += [
            Assumption(line, tuple(names)) for line, names in states_by_text.items()
        ]
        if unset := tuple(n for n in chart.fleet_reads if n[6:] not in world.fleet):
            self.assumptions.append(Assumption("None, as without limits across runs", unset))
        states = self.spec.states.values()
        if prices is None and any(family_of(s) in _PAYING or asks_for_itself(s) for s in states):
            self.assumptions.append(Assumption("no price is known: the USD are left out", ("all",)))

    def at(self, position: Position) -> Cases:
        """The possible outcomes of the current action."""
        return self._at[position.state](position)

    def so_far(self, position: Position) -> Outcome:
        """The outcome of the current action when its deadline cuts it off."""
        late = self._so_far.get(position.state)
        cut_off = None if late is None else late(position, 0.0, 0.0)
        return cut_off if isinstance(cut_off, Outcome) else Outcome()

    def _source(self, state: StateSpec, behaviour: Behaviour) -> Callable[[Position], Cases]:
        """The cases of a state: what the world says of it, each imagined by its action."""
        action, family = state.action, family_of(state)
        assert action is not None
        scene = Scene(
            self.chart, state, self._price, behaviour.usd,
            grows=bool(behaviour.grows), is_read=self._looked_at,
        )  # fmt: skip
        imagine, ok, duration = action.imagine, _succeeds(behaviour), behaviour.duration or NOTHING
        first, second = behaviour.prompt_tokens or NOTHING, behaviour.completion_tokens or NOTHING
        if family == "pure":
            return _always([Case(1.0, scene.do, duration)])
        if imagine is None or family in ("own", "judged"):
            own = partial(_own, scene)
            cases = [
                Case(weight * ok, partial(own, result), duration, first, second)
                for result, weight in _results(behaviour.results or {})
            ]
            return _always([*cases, *_failures(behaviour, int(asks_for_itself(state)))])

        def case(weight: float, drawn: Drawn) -> Case:
            return Case(weight, partial(imagine, scene, drawn), duration, first, second)

        if family == "tools":
            if runs_called_children(state):
                amounts = (behaviour.calls or NOTHING, first, second)
                scene.child = ChildUse(*(round(amount.mean) for amount in amounts))
            return self._tools(scene, behaviour)
        late: Make = partial(imagine, scene, Drawn(late=True))
        structured = [*_results(behaviour.results or {})]
        match family:
            case "model":
                return _always([
                    *(
                        case(ok * p * q * share, Drawn(data, "", False, str(text), *calls))
                        for (text, p), (data, q) in product(behaviour.texts or (), structured)
                        for calls, share in _call_cases(behaviour)
                    ),
                    *_failures(behaviour, 1, state),
                ])  # fmt: skip
            case "child":
                counts = behaviour.calls or NOTHING
                self._so_far[state.name] = late
                return _always([
                    *(
                        case(ok * p * q * r, Drawn(result, calls=int(count), reason=str(reason)))
                        for reason, p in behaviour.reasons or ()
                        for result, q in structured
                        for count, r in zip(counts.values, counts.weights, strict=True)
                    ),
                    *_failures(behaviour, 0),
                ])  # fmt: skip
            case "work":
                self._so_far[state.name] = late
                fails = (behaviour.fails or {}).items()
                return _always([
                    *(case(weight * ok, Drawn(result)) for result, weight in structured),
                    *(case(weight, Drawn(fails=category)) for category, weight in fails),
                ])  # fmt: skip
            case _:
                return _always([Case(ok, scene.do, duration), *_failures(behaviour, 0)])

    def _tools(self, scene: Scene, behaviour: Behaviour) -> Callable[[Position], Cases]:
        """The cases of executing the newest reply's open calls, by the number of failed ones."""
        ok, share = _succeeds(behaviour), behaviour.call_fails or 0.0
        assert scene.state.action is not None
        imagine = scene.state.action.imagine
        assert imagine is not None

        @cache
        def of(count: int) -> Cases:
            cases = [
                Case(
                    ok * comb(count, bad) * share**bad * (1 - share) ** (count - bad),
                    partial(imagine, scene, Drawn(calls=bad)),
                    (behaviour.duration or NOTHING) if count else NOTHING,
                    behaviour.adds or NOTHING,
                )
                for bad in range(count + 1)
            ]
            return Cases([*cases, *_failures(behaviour, 0)])

        return lambda position: of(imagined_batch(scene, position).made)


def _own(scene: Scene, result: Any, position: Position, sent: float, written: float) -> Outcome:
    """The outcome of an action whose result is drawn, with the model call of its own."""
    spent = scene.spent(sent, written) if asks_for_itself(scene.state) else NOTHING_SPENT
    if scene.state.calls == "named":
        spent = spent.replace(tools={scene.state.named_tool: 1})
    action = scene.state.action
    if action is not None and action.imagine is not None and action.traits.by_result:
        made = action.imagine(scene, Drawn(result), position, sent, written)
        return made.replace(spent=spent)
    return Outcome(result=result, spent=spent)


_PAYING = ("model", "child", "work")


def stated_behaviour(world: World, state: StateSpec) -> Behaviour:
    """The behaviour that a world gives to a state, by its name and by its action."""
    by_name = world.states.get(state.name, UNSPECIFIED)
    if state.action is None:
        return by_name
    return by_name.over(world.actions.get(state.action.name, UNSPECIFIED))


def prices_of(spec: MachineSpec) -> tuple[float, float] | None:
    """USD for a token sent and a token written; None if the file does not give both prices."""
    model = spec.model
    sent, written = model.get("input_cost_per_token"), model.get("output_cost_per_token")
    if sent is None or written is None or model.get("fallbacks"):
        return None
    return (float(sent), float(written))


def _always(cases: list[Case]) -> Callable[[Position], Cases]:
    table = Cases(cases)
    return lambda _: table


def _succeeds(behaviour: Behaviour) -> float:
    return max(0.0, 1.0 - sum((behaviour.fails or {}).values()))


def _failures(
    behaviour: Behaviour, requests: int, state: StateSpec | None = None
) -> Iterator[Case]:
    """The failure cases, each with this many model calls without a reply.

    Where a state repairs replies that break its schema, a recoverable failure is such a reply.
    """
    for category, weight in (behaviour.fails or {}).items():
        error = failure_named(category, f"it failed ({category})")
        outcome = Outcome(ok=False, error=error, unanswered=requests)
        again = state if category == "RECOVERABLE" else None
        yield Case(weight, partial(_failed, outcome, again), behaviour.duration or NOTHING)


def _failed(
    outcome: Outcome, state: StateSpec | None, position: Position, _a: float, _b: float
) -> Outcome:
    """A failure; at a state that repairs replies, one repeated up to the state's `repair`."""
    if state is None or not state.repairs:
        return outcome
    times = repair_count(position.kept, state.name, position.attempt)
    if times >= state.repairs or position.stopping:
        return outcome
    note = {REPAIRED: {"state": state.name, "times": times + 1}}
    return outcome.replace(again=True, kept=note)


def _results(fields: Mapping[str, Choice]) -> Iterator[tuple[Any, float]]:
    """Every combination of the fields' values, with its probability; fields are independent."""
    if (size := prod(len(values) for values in fields.values())) > MOST_RESULTS:
        raise SetupError(
            f"{', '.join(fields)} can be {size:,} things together, more than {MOST_RESULTS:,}",
            hint="name fewer fields, or fewer values of each, under `results` or `data`",
        )
    for values in product(*fields.values()):
        weight = 1.0
        result: Any = {}
        for path, (value, share) in zip(fields, values, strict=True):
            weight *= share
            result = _with(result, path.split(".") if path else [], value)
        yield result, weight


def _with(data: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    inner = dict(cast("Mapping[str, Any]", data)) if isinstance(data, Mapping) else {}
    return {**inner, path[0]: _with(inner.get(path[0], {}), path[1:], value)}


def _call_cases(behaviour: Behaviour) -> Iterator[tuple[tuple[int, str, bool], float]]:
    """Number of calls, tool, whether they repeat the previous ones; and their probability."""
    counts, repeats = behaviour.tool_calls or NOTHING, behaviour.repeats or 0.0
    for count, p in zip(counts.values, counts.weights, strict=True):
        if not count or not behaviour.tools:
            yield (0, "", False), p
            continue
        for tool, q in behaviour.tools:
            yield (int(count), str(tool), False), p * q * (1 - repeats)
        if repeats:
            yield (int(count), str(behaviour.tools[0][0]), True), p * repeats


def _wait(behaviour: Behaviour) -> Wait:
    data = [*_results(behaviour.data or {})]
    answers = tuple(
        (str(event), values, p * q) for event, p in behaviour.answers or () for values, q in data
    )
    steps = (*accumulate(share for *_, share in answers[:-1]),)
    return Wait(answers, behaviour.delay or NOTHING, steps)
