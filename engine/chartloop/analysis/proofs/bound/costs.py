"""The amounts of each resource that an action uses, at most and at least.

Actions declare traits (`core.traits`); this module turns them into amounts. An outcome uses an
amount within a *range*; where a budget counts the resource, only the ends of the range are tried
(one token, or a whole window), because every amount between is a mixture of the two. A model call
of unknown size counts as `UNIT`, and the bound then reads "1,000 and 3 model calls".

Source:       actions.talking, actions.calling, actions.children, actions.tasks, run.act
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from chartloop.analysis.proofs.bound.list_lengths import longest_list
from chartloop.core.errors import LimitError
from chartloop.core.facts import PARTS
from chartloop.core.specs import ActionSpec
from chartloop.core.units import say_count
from chartloop.language.expression import Expression, Scope, parse
from chartloop.language.expression.tree import Fact, Items
from chartloop.language.intervals.evaluate import judge
from chartloop.language.intervals.interval import INF, number, of_plain
from chartloop.language.server_tools import Sampling
from chartloop.language.spec import Given, MachineSpec, StateSpec
from chartloop.machine.abstract.counters import UNKNOWN
from chartloop.machine.abstract.signals import carried_out
from chartloop.machine.abstract.thresholds import World
from chartloop.machine.child_budget import AT_ONCE
from chartloop.machine.in_doubt import decides

UNIT = 10**15
"""The stand-in for the unknown size of one model call."""
STEPS, CALLS, TOOLS = "run.steps", "requests", "usage.tool_calls"
DOUBT = "in doubt"
"""The part of `WAITING` that a time limit ends: for who decides on calls in doubt."""
_TIMES = ("run.elapsed", "run.working")
TOKENS, COST, WAITING = "usage.total_tokens", "usage.cost", "waiting"
RESOURCES = (STEPS, CALLS, TOOLS, TOKENS, COST, WAITING)
MOST_CHILDREN = 1_000
"""The most children of one `run_machines`; see `actions.run_machines`."""

Ends = tuple[float, float]
"""A range: at least, at most."""


class KnownModel(NamedTuple):
    """The window (tokens) and prices (USD a token, in and out) of a model according to `source`."""

    longest: int | None
    prices: tuple[float, float] | None
    source: str


@dataclass(frozen=True)
class Assume:
    """Assumptions about a model and its replies, where the file does not say.

    Raises `LimitError` for an invalid size or price.
    """

    tokens_per_call: int | None = None
    """The tokens of the longest call, reply included; else the model's context window."""
    calls_per_reply: int | None = None
    """The most tool calls that one reply asks for."""
    prices: tuple[float, float] | None = None
    """USD for a token that is sent and for one that is written."""
    settings: Mapping[str, Any] | None = None
    """The caller's settings, which override `model` of the file and of each child."""
    models: Mapping[str, KnownModel] | None = None
    """Windows and prices by model name, for those that the file does not give."""

    def __post_init__(self) -> None:
        sizes = {"tokens_per_call": self.tokens_per_call, "calls_per_reply": self.calls_per_reply}
        for name, size in sizes.items():
            if size is not None and not (size == int(size) and 1 <= size < UNIT // 1000):
                raise LimitError(f"`{name}` must be a whole number of at least 1, not `{size}`")
        for price in self.prices or ():
            if not 0 <= price < INF:
                raise LimitError(f"a price must be an amount of USD for one token, not `{price}`")

    def to_dict(self) -> dict[str, Any]:
        """Return the assumptions that are set, as plain data."""
        values = {
            "tokens_per_call": self.tokens_per_call, "calls_per_reply": self.calls_per_reply,
            "prices": None if self.prices is None else list(self.prices),
            "settings": None if self.settings is None else dict(self.settings),
            "models": {n: m._asdict() for n, m in self.models.items()} if self.models else None,
        }  # fmt: skip
        return {name: value for name, value in values.items() if value is not None}


class Uses(NamedTuple):
    """The amounts that one outcome of an action uses, as a range for each counter."""

    ends: Mapping[str, Ends]
    handed: Mapping[str, Handed] = {}
    """The budgets of which a child gets what the run has left, by counter."""

    def spread(self, counter: str) -> Iterator[Uses]:
        """Split the range of a counter into outcomes that use a fixed amount of it.

        The amounts are the ends of the range, and what a child may use if nothing is left for it.
        """
        low, high = self.ends.get(counter, (0, 0))
        if high == INF:
            yield self
            return
        handed = self.handed.get(counter)
        points = {low, high}
        if handed is not None:
            points.add(min(handed.past, high))
        for amount in sorted(points):
            yield self._replace(ends={**self.ends, counter: (amount, amount)})


class Handed(NamedTuple):
    """A budget whose remainder a child gets."""

    limit: float
    """The whole budget."""
    past: float
    """The most by which the child exceeds its share."""
    once: float = INF
    """The most that one of its actions uses."""
    wrap: float = INF
    """The most that it uses after a stop."""


class Child(NamedTuple):
    """The most that a child machine uses, by resource."""

    most: Mapping[str, float]
    handed: Mapping[str, Handed]
    why: Mapping[str, str]


ChildOf = Callable[[str, Mapping[str, Given], int], Child]
"""Return the bound of a child by its name, its `with` fields, and how many run at once."""


class ModelCall(NamedTuple):
    """The most that one model call uses."""

    longest: int
    """Tokens of the call and its reply."""
    reply: int
    """Tokens of the reply."""
    requests: int
    """Requests to providers, fallbacks included."""
    prices: tuple[float, float] | None
    """USD of a token that is sent, and of one that is written."""


_OWN = ("model", "fallbacks", "max_tokens")
"""The fields by which a state overrides the file's model, as far as figures depend on them."""


@dataclass
class Spending:
    """The amounts that the states of one machine use."""

    spec: MachineSpec
    world: World
    assume: Assume
    child: ChildOf
    why: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """By resource and state: why the amount is unknown."""
    fastest: float = 0
    """The seconds that a model call takes at least; 0: no action is assumed to take any time."""
    assumed: dict[str, str] = field(default_factory=dict[str, str])
    """The assumptions that figures rest on, by keyword."""

    def __post_init__(self) -> None:
        model = {**self.spec.model, **(self.assume.settings or {})}
        window = model.get("context_window")
        assumed, known = self.assume.tokens_per_call, self._worst_model(model)
        longest = known.longest if known is not None else None
        self.longest = assumed or (int(window) if window else longest or UNIT)
        """The most tokens of one call."""
        most = model.get("max_tokens")
        self.reply = min(int(most) if most else self.longest, self.longest)
        self.asked = self.assume.calls_per_reply or UNIT
        """The most tool calls of one reply, executed or not."""
        own = (model.get("input_cost_per_token"), model.get("output_cost_per_token"))
        written = None not in own and not model.get("fallbacks")
        self.prices: tuple[float, float] | None = (
            self.assume.prices or (own if written else known.prices if known else None)  # pyright: ignore[reportAttributeAccessIssue]
        )
        self.sources = {
            word: f"{what} of `{model.get('name')}` is the one that {known.source} knows"
            for word, what, theirs in (
                ("window", "the window", not (assumed or window)),
                ("price", "the price", not (self.assume.prices or written)),
            )
            if known is not None and theirs
        }  # fmt: skip
        self.requests = 1 + len(model.get("fallbacks") or ())
        self._model = model

    def call_of(self, state: StateSpec) -> ModelCall:
        """Return the model call of a state, which may override the file's model.

        The file's window and prices do not apply to a model or fallback that the state names.
        """
        usual = ModelCall(self.longest, self.reply, self.requests, self.prices)
        own = {name: state.args[name] for name in _OWN if name in state.args}
        if not own:
            return usual
        model = dict(self._model)
        longest, prices = self.longest, self.prices
        if "model" in own or "fallbacks" in own:
            if "fallbacks" in own:
                model["fallbacks"] = own["fallbacks"].value
            if "model" in own:
                template = own["model"].value
                model["name"] = template.text if template.constant else None
            same = model["name"] == self._model.get("name") and not model.get("fallbacks")
            known = self._worst_model(model)
            if not same:
                longest = self.assume.tokens_per_call or (known and known.longest) or UNIT
                prices = self.assume.prices or (known and known.prices) or None
        reply = min(self.reply if "max_tokens" not in own else longest, longest)
        if "max_tokens" in own:
            reply = min(self._most(own["max_tokens"]), longest)
        elif not self._model.get("max_tokens"):
            reply = longest
        return ModelCall(longest, int(reply), 1 + len(model.get("fallbacks") or ()), prices)

    def _most(self, given: Given) -> float:
        """The highest value of a number in `with`."""
        highest = self.seconds(given.value) if given.kind == "value" else given.value
        return max(float(highest), 1)

    def _worst_model(self, model: Mapping[str, Any]) -> KnownModel | None:
        """The worst case of the models that may be asked; None unless all are known."""
        names = [model.get("name"), *(model.get("fallbacks") or ())]
        models = [(self.assume.models or {}).get(str(name)) for name in names]
        known = [model for model in models if model is not None]
        if not known or len(known) < len(names):
            return None
        sizes = [one.longest for one in known if one.longest is not None]
        prices = [one.prices for one in known if one.prices is not None]
        longest = max(sizes) if len(sizes) == len(known) else None
        dearest = max((p[0] for p in prices), default=0), max((p[1] for p in prices), default=0)
        return KnownModel(longest, dearest if len(prices) == len(known) else None, known[0].source)

    # what states use --------------------------------------------------------------------------

    def uses(self, state: StateSpec, outcome: str) -> list[Uses]:
        """Return the alternatives of what an outcome uses; a run has one, or a mixture."""
        action = state.action
        if action is None:
            longest = self.seconds(state.within)
            if longest == INF:
                self._say(WAITING, state, f"nothing bounds how long `{state.name}` waits")
            computed = isinstance(state.within, Expression)
            least = longest if outcome == "expired" and not computed else 0
            return [Uses({WAITING: (least, longest), "run.elapsed": (least, longest)})]
        if outcome == "resumed":
            return [Uses({WAITING: (0, self._wait_of(state, action)), "run.elapsed": (0, 0)})]
        failed = outcome != "ok"
        base: dict[str, Ends] = {STEPS: (1, 1)}
        if failed:
            base["errors.total"] = (1, 1)
        return [u._replace(ends={**base, **u.ends}) for u in self._of(state, action, failed)]

    def seconds(self, given: Expression | float | None) -> float:
        """The longest that a deadline may be, in seconds; infinite for None."""
        if given is None:
            return INF
        if isinstance(given, Expression):
            interval = number(judge(given.root, self.world.known_facts()))
            return INF if interval.none else max(interval.high, 0)
        return given

    def _wait_of(self, state: StateSpec, action: ActionSpec) -> float:
        waits = action.traits.waits
        if waits is None:
            return 0
        name, default = waits
        value = state.args[name].value if name in state.args else default
        most = self.seconds(value) if isinstance(value, (int, float, Expression)) else INF
        if most == INF:
            self._say(WAITING, state, f"nothing bounds how long `{state.name}` backs off")
        return most

    def _least_wait(self, state: StateSpec, action: ActionSpec) -> float:
        """The least time of a back-off, if its waits never get shorter."""
        if action.traits.waits is None or "factor" in state.args or not self.fastest:
            return 0
        args, (longest, _) = {a.name: a for a in action.args}, action.traits.waits
        given = [
            state.args[n].value if n in state.args else args[n].default
            for n in (longest, args[longest].at_least)
        ] + [state.within or INF]
        known = self.world.known_facts()
        ranges = (judge(v.root, known) if isinstance(v, Expression) else of_plain(v) for v in given)
        return max(min(number(range).low for range in ranges), 0)

    def _of(self, state: StateSpec, action: ActionSpec, failed: bool) -> Iterator[Uses]:
        if not action.is_builtin:
            yield self._of_own(state, action)
            return
        moved: dict[str, Ends] = {
            count.counter: (count.least, count.most)
            for count in action.traits.counts
            if count.on in ("both", "failed" if failed else "ok")
        }
        for uses in self._together(state, action, failed):
            yield uses._replace(ends={**moved, **uses.ends})

    def _together(self, state: StateSpec, action: ActionSpec, failed: bool) -> Iterator[Uses]:
        """Combine everything that an action does: its calls, children, waits."""
        parts = [
            [*self._of_model(state, action, failed)], [*self._of_calls(state, failed)],
            [*self._of_runs(state)], [*self._of_task(action, failed)],
            [Uses({WAITING: (self._least_wait(state, action), waits)})]
            if (waits := self._wait_of(state, action)) else [],
            [*self._of_servers(state)], [*self._of_doubts(state)],
        ]  # fmt: skip
        nonempty = [part for part in parts if part]
        if len(nonempty) == 1:
            yield from nonempty[0]
            return
        for combination in product(*nonempty):
            ends = dict[str, Ends]()
            every = (end for uses in combination for end in uses.ends.items())
            for counter, (least, most) in every:
                low, high = ends.get(counter, (0, 0))
                ends[counter] = (low + least, high + most)
            yield Uses(ends)  # without `handed`: the bound stays true, if less tight

    def _of_model(self, state: StateSpec, action: ActionSpec, failed: bool) -> Iterator[Uses]:
        match state.asks_model:
            case "reply":
                by_schema = any(a.kind == "schema" and a.name in state.args for a in action.args)
                judged = by_schema or bool(state.save)
                call = self.call_of(state)
                yield from self._of_call(failed, answered=judged or not failed, call=call)
            case "text":
                yield Uses({})
                yield from self._of_call(failed, call=self.call_of(state))
            case "never" | "task":
                return

    def _of_calls(self, state: StateSpec, failed: bool) -> Iterator[Uses]:
        match state.calls:
            case "all":
                yield from self._of_tools(state, self._batch(state), failed)
            case "first":
                yield from self._of_tools(state, 1, failed)
            case "memory":
                yield from self._of_tools(state, self._batch(state), failed)
            case "named":
                once = (0 if failed else 1, 1)
                yield Uses({TOOLS: once, f"usage.calls.{state.named_tool}": once})
            case "none" | "task":
                return

    def _of_runs(self, state: StateSpec) -> Iterator[Uses]:
        if state.traits.runs in ("one", "several"):
            yield from self._of_children(state, [*self._children(state)])
        elif names := self.spec.children_of(state) if state.traits.runs == "calls" else ():
            most = self._batch(state) if state.calls == "all" else 1
            yield from self._of_children(state, [self._called(names)] * most)

    def _of_task(self, action: ActionSpec, failed: bool) -> Iterator[Uses]:
        """A task of the queue: it may be done by the model, a tool or any child machine."""
        traits = action.traits
        if traits.asks == "task":
            yield from self._of_call(failed)
        if traits.calls == "task":
            yield Uses({TOOLS: (0, 1)})
        if traits.runs == "task":
            for name in self.spec.machines:
                child = self.child(name, {}, 1)
                for resource, why in child.why.items():
                    self._say_of(resource, name, why)
                yield self._of_child(child)

    # model calls ------------------------------------------------------------------------------

    def _of_call(
        self, failed: bool, *, answered: bool = True, call: ModelCall | None = None
    ) -> Iterator[Uses]:
        """A model call without a reply, with the shortest and with the longest.

        A failed action has a reply (`answered`) only if that was validated afterwards.
        """
        call = call or ModelCall(self.longest, self.reply, self.requests, self.prices)
        if failed:
            yield Uses({CALLS: (0, call.requests), WAITING: (self.fastest, self.fastest)})
        if not answered:
            return
        base: dict[str, Ends] = {
            CALLS: (1, call.requests), "usage.llm_calls": (1, 1),
            WAITING: (self.fastest, self.fastest),
            "errors.total": (int(failed), self.asked + failed),  # calls that were not offered
        }  # fmt: skip
        self._assume("token", "a model call uses at least one token")
        if call.longest != UNIT:
            message = f"a model call and its reply are at most {call.longest:,} tokens"
            self._assume("window", message)
            if "window" in self.sources:
                self._assume("window's source", self.sources["window"])
        if call.reply < call.longest and call.prices is not None:  # what is written costs more
            message = f"a reply is at most {call.reply:,} tokens, the `max_tokens` of its call"
            self._assume(f"reply of {call.reply}", message)
        if call.requests > 1:
            self._assume("fallbacks", "each model of `fallbacks` may be asked in each call")
        ends_of = {
            (1, 1),
            (1, 0),
            (call.reply, call.reply),
            (call.longest, call.reply),
            (call.longest, 0),
        }
        for tokens, written in sorted(ends_of):
            ends = {**base, TOKENS: (tokens, tokens), **self._cost(tokens, written, call.prices)}
            ends["usage.prompt_tokens"] = (0 if written == tokens else 1, tokens)
            ends["usage.completion_tokens"] = (0, tokens)
            for part in PARTS:  # whatever a provider does with its cache
                ends[f"usage.{part}"] = (0, tokens)
            yield Uses(ends)

    def _cost(
        self, tokens: int, written: int, prices: tuple[float, float] | None
    ) -> dict[str, Ends]:
        if prices is None and self.prices is not None:
            message = "the price of a model that a state names is not known: assume "
            self._say_of(COST, "", f"{message}`input_price` and `output_price`")
            return {COST: (0, INF)}
        if prices is None:
            message = "the model's price is not known: give `input_cost_per_token` and "
            self._say_of(COST, "", f"{message}`output_cost_per_token` under `model`")
            return {COST: (0, INF)}
        if tokens >= UNIT // 1000:
            message = "nothing says how large a model call is: give `context_window` under `model`"
            self._say_of(COST, "", message)
            return {COST: (0, INF)}
        dear = [f"{price * 1_000_000:,.6g} USD" for price in prices]
        if "price" in self.sources:
            self._assume("price's source", self.sources["price"])
        self._assume("price", f"a million tokens cost {dear[0]} sent, {dear[1]} written")
        sent, wrote = (Fraction(repr(p)) for p in prices)
        exact = sent * (tokens - written) + wrote * written
        return {COST: (exact, exact)}  # pyright: ignore[reportReturnType]  exact, where floats are not

    # tools ------------------------------------------------------------------------------------

    def _batch(self, state: StateSpec) -> int:
        """The most tool calls of one reply that are executed."""
        return min(self.assume.calls_per_reply or state.most_calls, state.most_calls)

    def _of_tools(self, state: StateSpec, asked: int, failed: bool) -> Iterator[Uses]:
        most = asked if state.calls == "memory" or carried_out(self.spec, state) else 0
        if most > 1 and most == self.assume.calls_per_reply:
            self._assume("batch", f"a reply asks for at most {most} tool calls")
        elif most > 1:
            message = f"at most {most} tool calls of one reply are executed"
            self._assume("batch", message)
        if most:
            self._assume("tools", "a tool makes no model calls itself")
        for count in sorted({0, 1, most} if most else {0}):
            # a refused call is not counted as executed
            ends: dict[str, Ends] = {TOOLS: (count, count), "approvals.denied": (0, asked)}
            yield Uses({**ends, "errors.total": (int(failed), asked + failed)})

    def _of_doubts(self, state: StateSpec) -> Iterator[Uses]:
        """The wait for who decides on calls in doubt."""
        if (asked := decides(self.spec, state)) is None:
            return
        limits = [b for guard in self.spec.guards() for b in guard.bounds if b.fact in _TIMES]
        scope = Scope(self.spec.roots)
        ends = (self.seconds(parse(limit.bound_text, scope)) for limit in limits)
        longest = min(self.seconds(asked.within), *ends, INF)
        if longest == INF:
            message = f"nothing bounds how long a call in doubt waits at `{state.name}`"
            self._say(WAITING, state, message)
        yield Uses({WAITING: (0, longest), DOUBT: (0, longest)})

    def _of_servers(self, state: StateSpec) -> Iterator[Uses]:
        """The elicitations and model calls of the MCP servers of a state's tools."""
        tools = self.spec.registry.tools
        names = {tools[name].server for name in carried_out(self.spec, state) if name in tools}
        servers = [server for name, server in self.spec.servers.items() if name in names]
        if not servers:
            return
        most = self._batch(state) if state.calls == "all" else 1
        ends: dict[str, Ends] = {}
        if waits := max(s.elicitation.within * s.elicitation.questions for s in servers):
            ends[WAITING] = (0, min(most * waits, self.seconds(state.within)))
        sampling = [server.sampling for server in servers if server.sampling is not None]
        if sampling:
            calls = most * max(allowed.calls for allowed in sampling)
            tokens = most * max(self._sampled(allowed) for allowed in sampling)
            ends |= {
                CALLS: (0, calls * self.requests), "usage.llm_calls": (0, calls),
                TOKENS: (0, tokens), **{f"usage.{part}": (0, tokens) for part in PARTS},
                "usage.prompt_tokens": (0, tokens), "usage.completion_tokens": (0, tokens),
            }  # fmt: skip
            costs = [self._cost(tokens, written, self.prices) for written in (0, tokens)]
            ends[COST] = (0, max(cost[COST][1] for cost in costs))
        if ends:
            yield Uses(ends)

    def _sampled(self, allowed: Sampling) -> int:
        """The most tokens that a server's model calls use during one tool call."""
        whole = allowed.calls * self.longest
        return whole if allowed.tokens is None else min(whole, allowed.tokens + self.longest)

    def _of_own(self, state: StateSpec, action: ActionSpec) -> Uses:
        """A custom action of an application."""
        asks = "model" in action.uses | action.may_use
        if asks:
            for resource in (CALLS, TOKENS, COST):
                message = f"`{action.name}`, your own action, may call a model as often as it likes"
                self._say(resource, state, message)
            return Uses({CALLS: (0, INF), TOKENS: (0, INF), COST: (0, INF)})
        message = "your own action spends a step, and neither stops nor continues a run"
        self._assume("own", message)
        return Uses({})

    # children ---------------------------------------------------------------------------------

    def _of_children(self, state: StateSpec, children: Sequence[Child]) -> Iterator[Uses]:
        most, handed = dict[str, float](), dict[str, Handed]()
        for child in children:
            for resource, amount in child.most.items():
                most[resource] = most.get(resource, 0) + amount
            for resource, why in child.why.items():
                self._say(resource, state, why)
        for counter in set[str]().union(*(c.handed for c in children)):
            if all(counter in c.handed for c in children):
                handed[counter] = shared = _combine_handed([c.handed[counter] for c in children])
                most[counter] = min(most.get(counter, 0), shared.limit + shared.past)
        yield self._of_child(Child(most, handed, {}))

    def _called(self, names: Sequence[str]) -> Child:
        """The worst of several children, any of which a model may call with any arguments."""
        most, why = dict[str, float](), dict[str, str]()
        children: list[Child] = []
        for name in names:
            child = self.spec.machines[name]
            unknown = {n: Given("constant", UNKNOWN) for n in child.inputs or () if n in child.vars}
            children.append(worst := self.child(name, {"vars": Given("values", unknown)}, 1))
            why = {**worst.why, **why}
            for resource, amount in worst.most.items():
                most[resource] = max(most.get(resource, 0), amount)
        shared = set(children[0].handed).intersection(*(child.handed for child in children))
        handed = {
            counter: Handed(*map(max, zip(*(c.handed[counter] for c in children), strict=True)))
            for counter in shared
        }
        return Child(most, handed, why)

    def _children(self, state: StateSpec) -> Iterator[Child]:
        args = state.args
        several: Mapping[str, Mapping[str, Given]] = (
            args["children"].value if "children" in args else {}
        )
        each = args.get("each")
        items = self._items(each, args.get("most"))
        # of a list that may be shorter, fewer children share what is left, and each gets more
        fixed = all(map(_is_fixed, (each, args.get("most"))))
        least = items if fixed else 1
        among = max(len(several) + least, 1)
        if each is not None:
            name = str(args["machine"].value)
            given = {n: args[n] for n in ("limits",) if n in args}
            if not _gives_texts(each):  # an item that may be a mapping can set any variable
                unknown = dict.fromkeys(self.spec.machines[name].vars, Given("constant", UNKNOWN))
                given["vars"] = Given("values", unknown)
            yield from [self.child(name, given, among)] * items
        elif "machine" in args:
            yield self.child(str(args["machine"].value), args, among)
        for given in several.values():
            yield self.child(str(given["machine"].value), given, among)

    def _items(self, each: Given | None, most: Given | None) -> int:
        """The most items of `each` that get a child."""
        if each is None:
            return 0
        root = each.value.root if isinstance(each.value, Expression) else None
        highest = MOST_CHILDREN if most is None else int(min(self._most(most), MOST_CHILDREN))
        if isinstance(root, Items):
            return min(len(root.items), highest)
        if isinstance(root, Fact) and (longest := longest_list(self.spec, root.path)) is not None:
            if longest < highest:
                text = f"`{root.path}` has at most {say_count(longest, 'item')}, as in the file"
                self._assume(root.path, f"{text}: a caller gives no longer list")
                return longest
        if highest == MOST_CHILDREN:
            self._assume(
                "each",
                f"a list under `each` has at most {highest:,} items: the engine takes no more",
            )
        return highest

    def _of_child(self, child: Child) -> Uses:
        ends = {r: (0.0, m) for r, m in child.most.items() if r != STEPS}
        return Uses(ends, child.handed)

    # words ------------------------------------------------------------------------------------

    def _say(self, resource: str, state: StateSpec, why: str) -> None:
        self._say_of(resource, state.name, why)

    def _say_of(self, resource: str, state: str, why: str) -> None:
        self.why.setdefault(resource, {}).setdefault(state, why)

    def _assume(self, keyword: str, assumption: str) -> None:
        self.assumed.setdefault(keyword, assumption)


def _is_fixed(given: Given | None) -> bool:
    """Whether a field has a length or a number that no run changes."""
    value = None if given is None else given.value
    return not isinstance(value, Expression) or value.constant or isinstance(value.root, Items)


def _gives_texts(each: Given) -> bool:
    """Whether all items of a list are texts: a text is a task and sets no variable."""
    items = each.value
    if isinstance(items, Expression):
        of = items.root.type.of
        return of is not None and of.kind == "str"
    return all(isinstance(item, str) for item in items)


def _combine_handed(handed: Sequence[Handed]) -> Handed:
    """Combine children that share a budget, see `run.shared_budget`.

    Once it is spent, each child finishes the action that it is in, and each wraps up.
    """
    alone = sum(each.past for each in handed)
    if len(handed) == 1:
        return handed[0]
    at_once = sorted((each.once for each in handed), reverse=True)[:AT_ONCE]
    together = sum(at_once) + sum(each.wrap for each in handed)
    return Handed(handed[0].limit, min(alone, together))
