"""A world and a position to the outcomes that may come, each with its probability.

One table of cases for each state, made once: the simulator draws from it. A case is what can be
told apart (which failure, how many calls, which word); amounts (tokens, seconds) belong to a case
and are drawn after it.

Source: actions.talking, actions.calling, actions.children, actions.tasks
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import accumulate, product
from math import comb, prod
from typing import Any, NamedTuple, cast

from chartloop.actions.tasks import Attempt, attempt_outcome
from chartloop.analysis.simulation.assumptions import (
    Assumption,
    asks_for_itself,
    default_behaviour,
    family_of,
    in_words,
    keys_of,
)
from chartloop.analysis.simulation.cases import Case, Cases, Wait
from chartloop.analysis.simulation.dependencies import facts_read, reads_texts
from chartloop.analysis.simulation.distributions import NOTHING
from chartloop.analysis.simulation.pure_actions import Doing
from chartloop.analysis.simulation.world import SAYS_NOTHING, Choice, Happens, World
from chartloop.core.errors import SetupError
from chartloop.core.facts import EMPTY, Failure, ToolCall
from chartloop.core.outcome import NOTHING_SPENT, Blocked, Message, Outcome, Reply, Spent
from chartloop.core.position import REPAIRED, Position, repair_count
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.abstract.signals import carried_out
from chartloop.machine.build import Chart

MOST_RESULTS = 2_000
"""Different results of one state."""
_SAID: tuple[Message, ...] = ({"role": "assistant", "content": ""},)
_TOLD: Message = {"role": "tool", "content": ""}


class _Carrying(NamedTuple):
    """How a state carries calls out. `failing`: one that fails fails the action."""

    allowed: frozenset[str]
    failing: bool

    def open(self, position: Position) -> tuple[ToolCall, ...]:
        """The calls of the newest reply that the state executes."""
        return tuple(c for c in position.facts.last.tool_calls if c.name in self.allowed)


class Outcomes:
    """What may come at each state of a machine in a world."""

    def __init__(self, chart: Chart, world: World) -> None:
        self.chart = chart
        self.spec = chart.spec
        prices = world.prices or prices_of(chart.spec)
        self._price = prices
        self._memory = frozenset(n for n, t in chart.spec.registry.tools.items() if t.memory)
        self._block = f"memory.{[*self.spec.memory][-1]}" if self.spec.memory else ""
        reads = facts_read(self.spec)
        saves = any(state.save for state in self.spec.states.values())
        self._looked_at = saves or any(n == "last" or n.startswith("last.result") for n in reads)
        """Whether anybody looks at the results of actions."""
        self._most = int(self.spec.model.get("max_tokens") or 0)
        self.assumptions: list[Assumption] = []
        self.unplayed = tuple(s.name for s in chart.spec.states.values() if family_of(s) == "child")
        """The states whose child machines are not played: they are what the world says."""
        self._at: dict[str, Callable[[Position], Cases]] = {}
        self._so_far: dict[str, Callable[[Position], Outcome]] = {}
        self.waits: dict[str, Wait] = {}
        self.told: dict[str, Happens] = {}
        """What the world says of each state, and what was assumed of it."""
        states_by_text: dict[str, list[str]] = {}
        unread = frozenset[str]() if reads_texts(self.spec) else {"texts"}
        for state in self.spec.states.values():
            if state.action is None and state.job != "wait":
                continue
            happens = stated_behaviour(world, state)
            missing = keys_of(state) - happens.set_fields - unread
            for line in in_words(self.spec, state, missing):
                states_by_text.setdefault(line, []).append(state.name)
            happens = self.told[state.name] = happens.over(default_behaviour(self.spec, state))
            if state.action is None:
                self.waits[state.name] = _wait(happens)
            else:
                self._at[state.name] = self._source(state, happens)
        self.assumptions += [
            Assumption(line, tuple(names)) for line, names in states_by_text.items()
        ]
        states = self.spec.states.values()
        if prices is None and any(family_of(s) in _PAYING or asks_for_itself(s) for s in states):
            self.assumptions.append(Assumption("no price is known: the USD are left out", ("all",)))

    def at(self, position: Position) -> Cases:
        """What may come of the current action."""
        return self._at[position.state](position)

    def so_far(self, position: Position) -> Outcome:
        """What the current action has come to when its deadline cuts it off."""
        begun = self._so_far.get(position.state)
        return Outcome() if begun is None else begun(position)

    # families -----------------------------------------------------------------------------------

    def _source(self, state: StateSpec, happens: Happens) -> Callable[[Position], Cases]:
        match family_of(state):
            case "model":
                return _always([*self._replies(happens), *_failures(happens, 1, state)])
            case "tools":
                return self._tools(state, happens)
            case "child":
                return _always([*self._children(happens), *_failures(happens, 0)])
            case "work":
                return _always([*self._work(state, happens)])
            case "pure":
                doing = Doing(self.chart, state)
                duration = happens.duration or NOTHING
                return _always([Case(1.0, partial(_do_action, doing), duration)])
            case "prune":
                keep = partial(_prune_outcome, state)
                done = Case(_succeeds(happens), keep, happens.duration or NOTHING)
                return _always([done, *_failures(happens, 0)])
            case family:
                only = {"text": (("", 1.0),)} if family == "said" else happens.results or {}
                asked = int(asks_for_itself(state))
                return _always([*self._own(state, happens, only), *_failures(happens, asked)])

    def _own(
        self, state: StateSpec, happens: Happens, results: Mapping[str, Choice]
    ) -> Iterator[Case]:
        spent = NOTHING_SPENT
        if state.calls == "named":
            spent = Spent(tools={state.named_tool: 1})
        make = partial(self._outcome_of_call, happens.usd) if asks_for_itself(state) else _same
        for result, weight in _results(results):
            outcome = Outcome(result=result, spent=spent)
            yield Case(
                weight * _succeeds(happens), partial(make, outcome), happens.duration or NOTHING,
                happens.prompt_tokens or NOTHING, happens.completion_tokens or NOTHING,
            )  # fmt: skip

    def _outcome_of_call(
        self, usd: float | None, outcome: Outcome, _: Position, sent: float, written: float
    ) -> Outcome:
        """The outcome of an action that has asked the model once, for itself."""
        sent, written = max(int(sent), 1), int(min(written, self._most or written))
        return outcome.replace(
            spent=outcome.spent.replace(
                llm_calls=1, prompt_tokens=sent, completion_tokens=written,
                cost=self._cost(usd, sent, written),
            )
        )  # fmt: skip

    # models -------------------------------------------------------------------------------------

    def _replies(self, happens: Happens) -> Iterator[Case]:
        """Each kind of reply: how many calls, of which tool, asked before or not, data, text."""
        ok, repeats = _succeeds(happens), happens.repeats or 0.0
        structured = [*_results(happens.results or {})]
        for (text, p), (data, q) in product(happens.texts or (), structured):
            for calls, tool, again, share in _call_cases(happens, repeats):
                make = partial(
                    self._reply, str(text), calls, tool, again, data, happens.grows, happens.usd
                )
                yield Case(
                    ok * p * q * share, make, happens.duration or NOTHING,
                    happens.prompt_tokens or NOTHING, happens.completion_tokens or NOTHING,
                )  # fmt: skip

    def _reply(  # noqa: PLR0913, PLR0917  all but the last three are the case's own
        self, text: str, count: int, tool: str, again: bool, data: Any, grows: bool | None,
        usd: float | None, position: Position, sent: float, written: float,
    ) -> Outcome:  # fmt: skip
        facts = position.facts
        usage = facts.usage
        if grows and position.prompt is None:
            sent = max(sent, usage.context_tokens)
        if self._most and written > self._most:
            written = self._most
        if usage.context_window and sent + written > usage.context_window:
            return _OVERFLOW
        sent, written = max(int(sent), 1), int(written)
        if not count:
            reply = Reply(text)
        elif again and facts.last.tool_calls:
            reply = Reply(text, "tool_calls", facts.last.tool_calls, facts.last.wants_memory)
        else:
            # arguments that no earlier call had: of a new call, guards see that it is one
            calls = _new_calls(count, tool, facts.run.steps)
            reply = Reply(text, "tool_calls", calls, tool in self._memory)
        result: Any = None  # no one looks at it
        if self._looked_at:
            result = {**reply.result, "data": data} if data else reply.result
        return Outcome(
            result=result, reply=reply, messages=_SAID,
            spent=Spent(1, sent, written, self._cost(usd, sent, written)),
            context_tokens=sent + written if position.prompt is None else None,
        )  # fmt: skip

    def _cost(self, usd: float | None, sent: int, written: int) -> float | None:
        if usd is not None:
            return usd
        price = self._price
        return None if price is None else sent * price[0] + written * price[1]

    # tools --------------------------------------------------------------------------------------

    def _tools(self, state: StateSpec, happens: Happens) -> Callable[[Position], Cases]:
        """The calls of the newest reply: of so many, so many fail."""
        most = 1 if state.calls == "first" else state.most_calls
        given = state.args.get("on_error")
        failing = given is not None and given.value == "fail"
        how = _Carrying(carried_out(self.spec, state), failing)
        ok, share = _succeeds(happens), happens.call_fails or 0.0

        @cache
        def of(count: int) -> Cases:
            cases = [
                Case(
                    ok * comb(count, bad) * share**bad * (1 - share) ** (count - bad),
                    partial(self._carried_out, how, count, bad),
                    happens.duration or NOTHING,
                    happens.adds or NOTHING,
                )
                for bad in range(count + 1)
            ]
            return Cases([*cases, *_failures(happens, 0)])

        def at(position: Position) -> Cases:
            return of(min(len(how.open(position)), most))

        return at

    def _carried_out(
        self, how: _Carrying, count: int, bad: int, position: Position, adds: float, _: float
    ) -> Outcome:
        facts, failing = position.facts, how.failing
        open_ = how.open(position)
        calls, refused = open_[:count], len(facts.last.tool_calls) - len(open_)
        changes: dict[str, Any] = {}
        if self._block and any(call.name in self._memory for call in calls[bad:]):
            changes[self._block] = str(facts.run.steps)
        tools = Counter(call.name for call in calls) if count != 1 else {calls[0].name: 1}
        result = [
            {"id": c.id, "name": c.name, "ok": n >= bad, "content": "", "result": None}
            for n, c in enumerate(calls)
            if self._looked_at
        ]
        return Outcome(
            ok=not (failing and bad),
            error=Failure("RECOVERABLE", "a tool failed", "", "tool") if failing and bad else None,
            result=result, messages=(_TOLD,) * count, changes=changes,
            spent=Spent(tools=tools) if count else NOTHING_SPENT,
            tool_errors=("a tool failed",) * (bad + refused), dropped=open_[count:],
            context_tokens=facts.usage.context_tokens + int(adds) * count,
        )  # fmt: skip

    # children and tasks -------------------------------------------------------------------------

    def _children(self, happens: Happens) -> Iterator[Case]:
        counts = happens.calls or NOTHING
        for reason, p in happens.reasons or ():
            kind = self.spec.reason(str(reason)).kind
            for result, q in _results(happens.results or {}):
                output = result or None
                data: dict[str, Any] = {
                    "reason": reason, "kind": kind, "success": kind == "natural", "text": "",
                    "output": output, "children": [], "outputs": output or {},
                }  # fmt: skip
                for count, r in zip(counts.values, counts.weights, strict=True):
                    make = partial(self._child, int(count), data, happens.usd)
                    yield Case(
                        _succeeds(happens) * p * q * r, make, happens.duration or NOTHING,
                        happens.prompt_tokens or NOTHING, happens.completion_tokens or NOTHING,
                    )  # fmt: skip

    def _child(
        self, calls: int, data: Any, usd: float | None, _: Position, sent: float, written: float
    ) -> Outcome:
        sent, written = int(sent) * calls, int(written) * calls
        cost = self._cost(usd, sent, written)
        if usd is not None and cost is not None:
            cost *= calls
        return Outcome(result=data, spent=Spent(calls, sent, written, cost))

    def _work(self, state: StateSpec, happens: Happens) -> Iterator[Case]:
        doing = Doing(self.chart, state)
        self._so_far[state.name] = partial(_cut_off, doing)

        def make(
            category: str, result: Any, position: Position, sent: float, written: float
        ) -> Outcome:
            ctx, fields = doing.call_arguments(position)
            queue = ctx.queue
            by: Mapping[str, Any] = queue[0].by if queue else EMPTY
            written = int(min(written, self._most or written))
            window = position.facts.usage.context_window  # no call is longer than that
            sent = max(int(min(sent, window - written) if window else sent), 1)
            spent = Spent(1, sent, written, self._cost(happens.usd, sent, written))
            if "tool" in by:
                spent = Spent(tools={str(by["tool"]): 1})
            error = Failure(category, "it failed", "", "task") if category else None
            asked = 0 if error is None or "tool" in by else 1
            made = Outcome(
                ok=error is None, error=error, spent=NOTHING_SPENT if error else spent,
                unanswered=asked,
            )  # fmt: skip
            return attempt_outcome(ctx, Attempt(made, "", result), **fields)

        amounts = (happens.prompt_tokens or NOTHING, happens.completion_tokens or NOTHING)
        duration = happens.duration or NOTHING
        for result, weight in _results(happens.results or {}):
            ok = weight * _succeeds(happens)
            yield Case(ok, partial(make, "", result or ""), duration, *amounts)
        for category, weight in (happens.fails or {}).items():
            yield Case(weight, partial(make, category, ""), duration, *amounts)


def _cut_off(doing: Doing, position: Position) -> Outcome:
    """An attempt at a task that its deadline cuts off: it counts as one that failed."""
    ctx, fields = doing.call_arguments(position)
    asked = 0 if ctx.queue and "tool" in ctx.queue[0].by else 1  # else a model was being asked
    failure = Outcome.failure("TRANSIENT", "cut off", kind="timeout", unanswered=asked)
    return attempt_outcome(ctx, Attempt(failure), **fields)


_PAYING = ("model", "child", "work")
_OVERFLOW = Outcome.failure(
    "RECOVERABLE", "the conversation is longer than the window", kind="context_window", unanswered=1
)


def stated_behaviour(world: World, state: StateSpec) -> Happens:
    """What a world says of a state, by its name and by its action."""
    by_name = world.states.get(state.name, SAYS_NOTHING)
    if state.action is None:
        return by_name
    return by_name.over(world.actions.get(state.action.name, SAYS_NOTHING))


def prices_of(spec: MachineSpec) -> tuple[float, float] | None:
    """What a token costs by the file, sent and written; None where it does not say that of each."""
    model = spec.model
    sent, written = model.get("input_cost_per_token"), model.get("output_cost_per_token")
    if sent is None or written is None or model.get("fallbacks"):
        return None
    return (float(sent), float(written))


def _always(cases: list[Case]) -> Callable[[Position], Cases]:
    made = Cases(cases)
    return lambda _: made


def _do_action(doing: Doing, position: Position, _a: float, _b: float) -> Outcome | Blocked:
    return doing.do(position)


def _same(outcome: Outcome, _position: Position, _a: float, _b: float) -> Outcome:
    return outcome


def _succeeds(happens: Happens) -> float:
    return max(0.0, 1.0 - sum((happens.fails or {}).values()))


def _failures(happens: Happens, asked: int, state: StateSpec | None = None) -> Iterator[Case]:
    """The failures, which cost a model call each where one is made.

    Where a state asks again for a reply that breaks its schema, a failure that something can be
    done about is such a reply.
    """
    for category, weight in (happens.fails or {}).items():
        outcome = Outcome.failure(category, f"it failed ({category})", unanswered=asked)
        make = partial(_same, outcome)
        if state is not None and state.repairs and category == "RECOVERABLE":
            make = partial(_broken, outcome, state)
        yield Case(weight, make, happens.duration or NOTHING)


def _broken(
    outcome: Outcome, state: StateSpec, position: Position, _a: float, _b: float
) -> Outcome:
    """A reply that breaks its schema, asked for again while the state says so."""
    times = repair_count(position.kept, state.name, position.attempt)
    if times >= state.repairs or position.stopping:
        return outcome
    note = {REPAIRED: {"state": state.name, "times": times + 1}}
    return outcome.replace(again=True, kept=note)


def _results(fields: Mapping[str, Choice]) -> Iterator[tuple[Any, float]]:
    """Every result that the fields can make, each field independent of the others."""
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


def _call_cases(happens: Happens, repeats: float) -> Iterator[tuple[int, str, bool, float]]:
    """How many calls a reply asks for, of which tool, and whether it repeats the ones before."""
    counts = happens.tool_calls or NOTHING
    for count, p in zip(counts.values, counts.weights, strict=True):
        if not count or not happens.tools:
            yield 0, "", False, p
            continue
        for tool, q in happens.tools:
            yield int(count), str(tool), False, p * q * (1 - repeats)
        if repeats:
            first = str(happens.tools[0][0])
            yield int(count), first, True, p * repeats


def _new_calls(count: int, tool: str, step: int) -> tuple[ToolCall, ...]:
    if count == 1:
        return (ToolCall("call_0", tool, f'{{"n":{step}}}'),)
    return tuple(ToolCall(f"call_{n}", tool, f'{{"n":"{step}.{n}"}}') for n in range(count))


def _wait(happens: Happens) -> Wait:
    data = [*_results(happens.data or {})]
    answers = tuple(
        (str(event), values, p * q) for event, p in happens.answers or () for values, q in data
    )
    steps = (*accumulate(share for *_, share in answers[:-1]),)
    return Wait(answers, happens.delay or NOTHING, steps)


def _prune_outcome(state: StateSpec, position: Position, _a: float, _b: float) -> Outcome:
    """The conversation, shortened to its share of the window: as far as guards can tell."""
    usage = position.facts.usage
    args = {name: given.value for name, given in state.args.items() if given.kind == "constant"}
    window = usage.context_window or usage.context_tokens
    keep = int(args.get("system_tokens", 0))
    target = int(window * float(args.get("target", 0.5))) - keep
    target = max(0, target - int(args.get("response_tokens", 0)))
    before, count = usage.context_tokens, len(position.messages)
    if args.get("strategy") == "essentials":
        target = min(target, 200)
    if before <= target or count <= 2:
        done = {"before": before, "after": before, "removed": 0}
        return Outcome(result=done, prunable=False)
    left = max(2, count * target // max(before, 1))
    result = {"before": before, "after": target, "removed": count - left}
    spent = NOTHING_SPENT
    if args.get("strategy") == "summarize":
        spent = Spent(1, max(before, 1), 200)
    return Outcome(
        result=result, rewrite=_SAID * left, context_tokens=target + keep, prunable=left > 2,
        spent=spent,
    )  # fmt: skip
