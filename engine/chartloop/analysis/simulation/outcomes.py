"""The possible outcomes of an action at a position, in a world, with their probabilities.

Each state has one table of cases, made once, from which the simulator draws. A case fixes what
guards can distinguish (which failure, how many calls, which value); its amounts (tokens, seconds)
are drawn after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from functools import cache, partial
from itertools import accumulate, product
from math import comb, prod
from typing import Any, NamedTuple, cast

from chartloop.actions.approval import Gate
from chartloop.actions.call_tools import drop_excess, drop_others
from chartloop.actions.tasks import Attempt, attempt_outcome
from chartloop.analysis.simulation.assumptions import (
    Assumption,
    asks_for_itself,
    default_behaviour,
    family_of,
    in_words,
    keys_of,
    plain_value,
)
from chartloop.analysis.simulation.cases import Case, Cases, Wait
from chartloop.analysis.simulation.dependencies import facts_read, reads_texts
from chartloop.analysis.simulation.distributions import NOTHING
from chartloop.analysis.simulation.pure_actions import PureAction
from chartloop.analysis.simulation.world import UNSPECIFIED, Behaviour, Choice, World
from chartloop.core.approvals import keyed
from chartloop.core.conversation import open_calls, tool_reply
from chartloop.core.errors import SetupError
from chartloop.core.facts import EMPTY, Failure, ToolCall
from chartloop.core.outcome import (
    NOTHING_SPENT,
    Blocked,
    Message,
    Outcome,
    Reply,
    Spent,
    ToolResult,
)
from chartloop.core.position import REPAIRED, Position, repair_count
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.build import Chart

MOST_RESULTS = 2_000
"""Maximum number of distinct results of one state."""
_NOT_OFFERED = "error: the tool was not offered"
_REPLY_MESSAGES: tuple[Message, ...] = ({"role": "assistant", "content": ""},)


class _Batch(NamedTuple):
    """The open calls of the newest reply at a state that executes calls."""

    calls: tuple[ToolCall, ...]
    """Those that it answers, the first so many."""
    refused: dict[int, str]
    """The numbers of the calls that it does not execute, and what the model reads instead."""
    excess: tuple[ToolCall, ...]
    kept: Mapping[str, Any] = EMPTY
    """What is kept of an approval once its calls are answered."""


class Outcomes:
    """The possible outcomes at each state of a machine in a world."""

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
        """Whether the machine reads results of actions."""
        self._most = int(self.spec.model.get("max_tokens") or 0)
        self.assumptions: list[Assumption] = []
        self.unplayed = tuple(s.name for s in chart.spec.states.values() if family_of(s) == "child")
        """The states whose child machines are not simulated: the world gives their results."""
        self._at: dict[str, Callable[[Position], Cases]] = {}
        self._so_far: dict[str, Callable[[Position], Outcome]] = {}
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
        begun = self._so_far.get(position.state)
        return Outcome() if begun is None else begun(position)

    # families -----------------------------------------------------------------------------------

    def _source(self, state: StateSpec, behaviour: Behaviour) -> Callable[[Position], Cases]:
        match family_of(state):
            case "model":
                return _always([*self._replies(state, behaviour), *_failures(behaviour, 1, state)])
            case "tools":
                return self._tools(state, behaviour)
            case "child":
                late = Outcome(result=self._child_result(state, "time_limit", status="late"))
                self._so_far[state.name] = lambda _: late
                return _always([*self._children(state, behaviour), *_failures(behaviour, 0)])
            case "work":
                return _always([*self._work(state, behaviour)])
            case "pure":
                action = PureAction(self.chart, state)
                duration = behaviour.duration or NOTHING
                return _always([Case(1.0, partial(_do_action, action), duration)])
            case "prune":
                keep = partial(_prune_outcome, state)
                done = Case(_succeeds(behaviour), keep, behaviour.duration or NOTHING)
                return _always([done, *_failures(behaviour, 0)])
            case family:
                only = {"text": (("", 1.0),)} if family == "report" else behaviour.results or {}
                requests = int(asks_for_itself(state))
                return _always(
                    [*self._own(state, behaviour, only), *_failures(behaviour, requests)]
                )

    def _own(
        self, state: StateSpec, behaviour: Behaviour, results: Mapping[str, Choice]
    ) -> Iterator[Case]:
        spent = NOTHING_SPENT
        if state.calls == "named":
            spent = Spent(tools={state.named_tool: 1})
        make = partial(self._outcome_of_call, behaviour.usd) if asks_for_itself(state) else _same
        for result, weight in _results(results):
            outcome = Outcome(result=result, spent=spent)
            yield Case(
                weight * _succeeds(behaviour), partial(make, outcome),
                behaviour.duration or NOTHING, behaviour.prompt_tokens or NOTHING,
                behaviour.completion_tokens or NOTHING,
            )  # fmt: skip

    def _outcome_of_call(
        self, usd: float | None, outcome: Outcome, _: Position, sent: float, written: float
    ) -> Outcome:
        """The outcome of an action that made one model call of its own."""
        sent, written = max(int(sent), 1), int(min(written, self._most or written))
        return outcome.replace(
            spent=outcome.spent.replace(
                llm_calls=1, prompt_tokens=sent, completion_tokens=written,
                cost=self._cost(usd, sent, written),
            )
        )  # fmt: skip

    # models -------------------------------------------------------------------------------------

    def _replies(self, state: StateSpec, behaviour: Behaviour) -> Iterator[Case]:
        """The cases of a reply: number of calls, tool, repeated or new, data, text."""
        ok, repeats = _succeeds(behaviour), behaviour.repeats or 0.0
        hidden = self.spec.registry.tools.keys() - self.chart.tools_at(state.name).keys()
        structured = [*_results(behaviour.results or {})]
        for (text, p), (data, q) in product(behaviour.texts or (), structured):
            for calls, tool, again, share in _call_cases(behaviour, repeats):
                make = partial(
                    self._reply, str(text), calls, tool, again, data, behaviour.grows,
                    behaviour.usd, hidden,
                )  # fmt: skip
                yield Case(
                    ok * p * q * share, make, behaviour.duration or NOTHING,
                    behaviour.prompt_tokens or NOTHING, behaviour.completion_tokens or NOTHING,
                )  # fmt: skip

    def _reply(  # noqa: PLR0913, PLR0917  all but the last three are bound by the case
        self, text: str, count: int, tool: str, again: bool, data: Any, grows: bool | None,
        usd: float | None, hidden: Set[str], position: Position, sent: float, written: float,
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
            # unique arguments, so that guards on repeated calls see a new one
            calls = _new_calls(count, tool, facts.run.steps)
            reply = Reply(text, "tool_calls", calls, tool in self._memory)
        result: Any = None  # unless the machine reads it
        if self._looked_at:
            result = {**reply.result, "data": data} if data else reply.result
        messages, refused = _REPLY_MESSAGES, ()
        if reply.tool_calls:
            refused = tuple(call for call in reply.tool_calls if call.name in hidden)
            messages = (reply.message, *(tool_reply(call, _NOT_OFFERED) for call in refused))
        return Outcome(
            result=result, reply=reply, messages=messages,
            tool_errors=(_NOT_OFFERED,) * len(refused),
            spent=Spent(1, sent, written, self._cost(usd, sent, written)),
            context_tokens=sent + written if position.prompt is None else None,
        )  # fmt: skip

    def _cost(self, usd: float | None, sent: int, written: int) -> float | None:
        if usd is not None:
            return usd
        price = self._price
        return None if price is None else sent * price[0] + written * price[1]

    # tools --------------------------------------------------------------------------------------

    def _tools(self, state: StateSpec, behaviour: Behaviour) -> Callable[[Position], Cases]:
        """The cases of executing the newest reply's open calls, by the number of failed ones."""
        ok, share = _succeeds(behaviour), behaviour.call_fails or 0.0
        batch = self._batches(state)

        @cache
        def of(count: int) -> Cases:
            cases = [
                Case(
                    ok * comb(count, bad) * share**bad * (1 - share) ** (count - bad),
                    partial(self._execute_calls, state, batch, bad),
                    (behaviour.duration or NOTHING) if count else NOTHING,
                    behaviour.adds or NOTHING,
                )
                for bad in range(count + 1)
            ]
            return Cases([*cases, *_failures(behaviour, 0)])

        def at(position: Position) -> Cases:
            calls, refused, *_ = batch(position)
            return of(len(calls) - len(refused))

        return at

    def _batches(self, state: StateSpec) -> Callable[[Position], _Batch]:
        """What a state does with the open calls of each position."""
        spec, approve = self.spec, self.spec.approve
        tools = self.chart.tools_at(state.name).keys()
        most = 1 if state.calls == "first" else state.most_calls
        action = PureAction(self.chart, state)

        def batch(position: Position) -> _Batch:
            calls = open_calls(position.messages, spec.wire_names)
            if state.calls == "memory":
                calls = tuple(c for c in calls if c.name in tools and c.name in self._memory)
            calls, excess = calls[:most], calls[most:]
            refused = {n: _NOT_OFFERED for n, c in enumerate(calls) if c.name not in tools}
            if approve is None:
                return _Batch(calls, refused, excess)
            gate = Gate(action.call_arguments(position)[0], approve.when)
            cleared = [gate.clear(key, call) for key, call in keyed(calls)]
            refused |= {n: c.text for n, c in enumerate(cleared) if isinstance(c, ToolResult)}
            return _Batch(calls, refused, excess, gate.kept_after_use)

        return batch

    def _execute_calls(
        self, state: StateSpec, batch: Callable[[Position], _Batch], bad: int,
        position: Position, adds: float, _: float,
    ) -> Outcome:  # fmt: skip
        calls, refused, excess, kept = batch(position)
        facts, made = position.facts, [n for n in range(len(calls)) if n not in refused]
        failed = refused | dict.fromkeys(made[:bad], "error: a tool failed")
        changes: dict[str, Any] = {}
        if self._block and any(calls[n].name in self._memory for n in made[bad:]):
            changes[self._block] = str(facts.run.steps)
        result: list[dict[str, Any]] = [
            {"id": c.id, "name": c.name, "ok": n not in failed, "content": failed.get(n, ""),
             "result": None}
            for n, c in enumerate(calls)
            if self._looked_at
        ]  # fmt: skip
        outcome = Outcome(
            result=result,
            messages=tuple([tool_reply(c, failed.get(n, "")) for n, c in enumerate(calls)]),
            changes=changes, kept=kept, tool_errors=tuple([failed[n] for n in sorted(failed)]),
            spent=Spent(tools=Counter(calls[n].name for n in made)) if made else NOTHING_SPENT,
            context_tokens=facts.usage.context_tokens + int(adds) * len(made),
        )  # fmt: skip
        on_error = state.args.get("on_error")
        if failed and on_error is not None and on_error.value == "fail":
            error = Failure("RECOVERABLE", "a tool failed", "", "tool")
            outcome = outcome.replace(ok=False, error=error, tool_errors=())
        if not excess:
            return outcome
        if state.calls == "first":
            return drop_others(outcome, position.messages, (*calls, *excess))
        return drop_excess(outcome, excess, len(calls))

    # children and tasks -------------------------------------------------------------------------

    def _child_result(self, state: StateSpec, reason: str, **more: Any) -> dict[str, Any]:
        """A result of the state's type, for a child that ended for that reason."""
        ends = self.spec.reason(reason)
        return {
            **{name: plain_value(type) for name, type in state.result.fields},
            "reason": reason, "kind": ends.kind, "success": ends.kind == "natural",
            "status": ends.status, **more,
        }  # fmt: skip

    def _children(self, state: StateSpec, behaviour: Behaviour) -> Iterator[Case]:
        counts = behaviour.calls or NOTHING
        for reason, p in behaviour.reasons or ():
            for result, q in _results(behaviour.results or {}):
                data = self._child_result(
                    state, str(reason), output=result or None, outputs=result or {}
                )
                for count, r in zip(counts.values, counts.weights, strict=True):
                    make = partial(self._child, int(count), data, behaviour.usd)
                    yield Case(
                        _succeeds(behaviour) * p * q * r, make, behaviour.duration or NOTHING,
                        behaviour.prompt_tokens or NOTHING, behaviour.completion_tokens or NOTHING,
                    )  # fmt: skip

    def _child(
        self, calls: int, data: Any, usd: float | None, _: Position, sent: float, written: float
    ) -> Outcome:
        sent, written = int(sent) * calls, int(written) * calls
        cost = self._cost(usd, sent, written)
        if usd is not None and cost is not None:
            cost *= calls
        return Outcome(result=data, spent=Spent(calls, sent, written, cost))

    def _work(self, state: StateSpec, behaviour: Behaviour) -> Iterator[Case]:
        action = PureAction(self.chart, state)
        self._so_far[state.name] = partial(_cut_off, action)

        def make(
            category: str, result: Any, position: Position, sent: float, written: float
        ) -> Outcome:
            ctx, fields = action.call_arguments(position)
            queue = ctx.queue
            by: Mapping[str, Any] = queue[0].by if queue else EMPTY
            written = int(min(written, self._most or written))
            window = position.facts.usage.context_window  # the maximum size of a call
            sent = max(int(min(sent, window - written) if window else sent), 1)
            spent = Spent(1, sent, written, self._cost(behaviour.usd, sent, written))
            if "tool" in by:
                spent = Spent(tools={str(by["tool"]): 1})
            error = _failure(category, "it failed", "task") if category else None
            unanswered = 0 if error is None or "tool" in by else 1
            outcome = Outcome(
                ok=error is None, error=error, spent=NOTHING_SPENT if error else spent,
                unanswered=unanswered,
            )  # fmt: skip
            return attempt_outcome(ctx, Attempt(outcome, "", result), **fields)

        amounts = (behaviour.prompt_tokens or NOTHING, behaviour.completion_tokens or NOTHING)
        duration = behaviour.duration or NOTHING
        for result, weight in _results(behaviour.results or {}):
            ok = weight * _succeeds(behaviour)
            yield Case(ok, partial(make, "", result or ""), duration, *amounts)
        for category, weight in (behaviour.fails or {}).items():
            yield Case(weight, partial(make, category, ""), duration, *amounts)


def _cut_off(action: PureAction, position: Position) -> Outcome:
    """The outcome of an attempt at a task that its deadline cuts off: a failed attempt."""
    ctx, fields = action.call_arguments(position)
    unanswered = 0 if ctx.queue and "tool" in ctx.queue[0].by else 1  # a model call was in flight
    failure = Outcome.failure("TRANSIENT", "cut off", kind="timeout", unanswered=unanswered)
    return attempt_outcome(ctx, Attempt(failure), **fields)


_PAYING = ("model", "child", "work")
_OVERFLOW = Outcome.failure(
    "RECOVERABLE", "the conversation is longer than the window", kind="context_window", unanswered=1
)


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


def _do_action(action: PureAction, position: Position, _a: float, _b: float) -> Outcome | Blocked:
    return action.do(position)


def _same(outcome: Outcome, _position: Position, _a: float, _b: float) -> Outcome:
    return outcome


def _succeeds(behaviour: Behaviour) -> float:
    return max(0.0, 1.0 - sum((behaviour.fails or {}).values()))


def _failure(named: str, message: str, kind: str = "") -> Failure:
    """The failure that a world names by its category, or `EMPTY`, an empty reply."""
    if named == "EMPTY":
        return Failure("TRANSIENT", message, "", "empty")
    return Failure(named, message, "", kind)


def _failures(
    behaviour: Behaviour, requests: int, state: StateSpec | None = None
) -> Iterator[Case]:
    """The failure cases, each with this many model calls without a reply.

    Where a state repairs replies that break its schema, a recoverable failure is such a reply.
    """
    for category, weight in (behaviour.fails or {}).items():
        error = _failure(category, f"it failed ({category})")
        outcome = Outcome(ok=False, error=error, unanswered=requests)
        make = partial(_same, outcome)
        if state is not None and state.repairs and category == "RECOVERABLE":
            make = partial(_broken, outcome, state)
        yield Case(weight, make, behaviour.duration or NOTHING)


def _broken(
    outcome: Outcome, state: StateSpec, position: Position, _a: float, _b: float
) -> Outcome:
    """A reply that breaks its schema, repeated up to the state's `repair`."""
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


def _call_cases(behaviour: Behaviour, repeats: float) -> Iterator[tuple[int, str, bool, float]]:
    """Number of calls, tool, whether they repeat the previous ones, and probability."""
    counts = behaviour.tool_calls or NOTHING
    for count, p in zip(counts.values, counts.weights, strict=True):
        if not count or not behaviour.tools:
            yield 0, "", False, p
            continue
        for tool, q in behaviour.tools:
            yield int(count), str(tool), False, p * q * (1 - repeats)
        if repeats:
            first = str(behaviour.tools[0][0])
            yield int(count), first, True, p * repeats


def _new_calls(count: int, tool: str, step: int) -> tuple[ToolCall, ...]:
    if count == 1:
        return (ToolCall("call_0", tool, f'{{"n":{step}}}'),)
    return tuple(ToolCall(f"call_{n}", tool, f'{{"n":"{step}.{n}"}}') for n in range(count))


def _wait(behaviour: Behaviour) -> Wait:
    data = [*_results(behaviour.data or {})]
    answers = tuple(
        (str(event), values, p * q) for event, p in behaviour.answers or () for values, q in data
    )
    steps = (*accumulate(share for *_, share in answers[:-1]),)
    return Wait(answers, behaviour.delay or NOTHING, steps)


def _prune_outcome(state: StateSpec, position: Position, _a: float, _b: float) -> Outcome:
    """The outcome of shortening the conversation, in the figures that guards can read."""
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
        unchanged = {"before": before, "after": before, "removed": 0}
        return Outcome(result=unchanged, prunable=False)
    left = max(2, count * target // max(before, 1))
    result = {"before": before, "after": target, "removed": count - left}
    spent = NOTHING_SPENT
    if args.get("strategy") == "summarize":
        spent = Spent(1, max(before, 1), 200)
    return Outcome(
        result=result, rewrite=position.messages.whole()[-left:], context_tokens=target + keep,
        prunable=left > 2, spent=spent,
    )  # fmt: skip
