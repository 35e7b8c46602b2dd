"""The format of world files: text to a `World`, or every error in it at once.

    world: 1
    about: What we saw in May.
    task: Book a flight.
    prices: {prompt: 0.00000015, completion: 0.0000006}   # USD a token
    states:
      think:
        fails: {TRANSIENT: 2%}                 # the rest succeeds
        tool_calls: {counts: {0: 40%, 1: 60%}} # how many calls a reply asks for
        tools: {search: 3, book: 1}            # of which tool, by weight
        completion_tokens: {median: 200, p95: 800}
        duration: {median: 2s, p95: 9s}
      confirm: {answers: {yes: 70%, no: 10%, nobody: 20%}, delay: 2m}
    actions:
      call_tools: {call_fails: 5%, adds: 100}  # for every state that does it
    guards: {is_sound: 90%}                    # Python guards: how often they hold
    fleet: {usd_left: {low: 0, high: 5}}       # what limits across runs leave, for a whole run

Belongs here: keys, kinds of values, places, names of the machine. Never: simulating.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, cast

from chartloop.core.codes import finding
from chartloop.core.errors import RETRY_ON, Finding, SpecError, nearest
from chartloop.core.facts import FleetFacts
from chartloop.core.units import parse_duration, parse_fraction, parse_number
from chartloop.language.file.keys import LOST, REQUIRED, Json, MapOf, Names, Part, Text, key
from chartloop.language.file.shape import Data, read_part
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.language.yaml.document import Document
from chartloop.language.yaml.reading import Path as At
from chartloop.language.yaml.reading import read
from chartloop.studies.simulation.assumptions import keys_of
from chartloop.studies.simulation.distributions import NOTHING, Amount, constant, weighted_values
from chartloop.studies.simulation.world import NOBODY, Behaviour, Choice, World, choice

_ROUNDED = 0.01
"""Tolerance for the sum of shares: three times 33% counts as 100%."""


class _Wrong(ValueError):
    """A value of the wrong kind; the text describes a right one."""


MOST_CALLS = 100
"""Maximum number of tool calls of one reply, and of model calls of one child."""


# values -------------------------------------------------------------------------------------


def _number(given: Any) -> float:
    if isinstance(given, str) and (whole := parse_number(given)) is not None:
        given = whole
    if isinstance(given, str) and re.fullmatch(r"\d+(\.\d+)?([eE][-+]?\d+)?", given, re.ASCII):
        given = float(given)
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < 1e15:
        raise _Wrong("a number, 0 or more")
    return given


def _share(given: Any) -> float:
    value = parse_fraction(given) if isinstance(given, str) else given
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _Wrong("a share: `5%`, or 0.05")
    return float(value)


def _weight(given: Any) -> float:
    value = parse_fraction(given) if isinstance(given, str) else None
    return _number(given) if value is None else value


def _seconds(given: Any) -> float:
    seconds = parse_duration(given) if isinstance(given, str) else None
    if seconds is None:
        raise _Wrong("a duration: `2s`, `1m30s`, `250ms`")
    return seconds


def _fails(given: Any) -> dict[str, float]:
    if not isinstance(given, Mapping):
        return {"TRANSIENT": _share(given)}
    shares = {str(n): _share(v) for n, v in cast("Mapping[str, Any]", given).items()}
    if wrong := [name for name in shares if name not in RETRY_ON]:
        raise _Wrong(f"`{wrong[0]}` is not a category: {', '.join(RETRY_ON)}")
    if sum(shares.values()) > 1 + 1e-9:
        raise _Wrong("the shares add up to more than 100%")
    return shares


def _amount(one: Callable[[Any], float]) -> Callable[[Any], Amount]:
    def reading(given: Any) -> Amount:
        if isinstance(given, list) and given:
            values = [one(value) for value in cast("list[Any]", given)]
            return weighted_values({v: values.count(v) for v in values})
        if not isinstance(given, Mapping):
            return constant(float(one(given)))
        fields = cast("Mapping[str, Any]", given)
        match sorted(fields):
            case ["counts"] if isinstance(fields["counts"], Mapping) and fields["counts"]:
                counts = cast("Mapping[str, Any]", fields["counts"])
                return weighted_values({float(one(v)): w for v, w in _weights(counts).items()})
            case ["high", "low"] if one is not _few:
                low, high = one(fields["low"]), one(fields["high"])
                if low > high:
                    raise _Wrong("`low` is more than `high`")
                return Amount("even", (low, high)) if low < high else constant(low)
            case ["median", "p95"] if one is not _few:
                median, p95 = one(fields["median"]), one(fields["p95"])
                if not 0 < median <= p95:
                    raise _Wrong("`median` is above 0, and `p95` at least the median")
                return Amount("lognormal", (median, p95)) if median < p95 else constant(median)
            case _:
                forms = "{low, high}, {median, p95}, or {counts: {VALUE: WEIGHT}}"
                raise _Wrong(f"a number, a list of them, {forms}")

    return reading


def _weights(given: Mapping[str, Any]) -> dict[str, float]:
    """Read weights by name; if all are written as shares, they must add up to 100%."""
    weights = {name: _weight(weight) for name, weight in given.items()}
    total = sum(weights.values())
    if not total:
        raise _Wrong("all weights are 0")
    shares = all(isinstance(w, str) and w.strip().endswith("%") for w in given.values())
    if shares and abs(total - 1) > _ROUNDED:
        raise _Wrong(
            f"shares that add up to 100%, not to {100 * total:.4g}%; or weights, without `%`"
        )
    return weights


def _choice(given: Any) -> Choice:
    if isinstance(given, Mapping) and given:
        weights = {str(n): w for n, w in cast("Mapping[str, Any]", given).items()}
        return choice(_weights(weights))
    if isinstance(given, list) and given:
        return choice(dict.fromkeys(map(str, cast("list[Any]", given)), 1.0))
    if isinstance(given, str):
        return ((given, 1.0),)
    raise _Wrong("values with weights: `{a: 2, b: 1}`, a list, or one of them")


def _one_of(given: Any) -> Choice:
    """Read a field of a result: a value, weights by value, or `{one_of: [[value, weight]]}`."""
    if isinstance(given, Mapping) and set(cast("Mapping[str, Any]", given)) == {"one_of"}:
        return _pairs(cast("Mapping[str, Any]", given)["one_of"])
    if isinstance(given, Mapping):
        weights = _weights(cast("Mapping[str, Any]", given))
        return choice({_datum(name): weight for name, weight in weights.items()})
    return ((given, 1.0),)


def _pairs(given: Any) -> Choice:
    pairs = cast("list[Any]", given) if isinstance(given, list) else []
    if not pairs or not all(isinstance(p, list) and len(cast("list[Any]", p)) == 2 for p in pairs):
        raise _Wrong("`one_of` takes a list of `[value, weight]`")
    total = sum(_weight(weight) for _, weight in pairs)
    if not total:
        raise _Wrong("all weights are 0")
    return tuple((value, _weight(weight) / total) for value, weight in pairs)


def _datum(text: str) -> Any:
    """Read a key as JSON (`true`, `3`, `null`), else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _flag(given: Any) -> bool:
    if not isinstance(given, bool):
        raise _Wrong("`true` or `false`")
    return given


def _fields(given: Any) -> dict[str, Choice]:
    if not isinstance(given, Mapping):
        raise _Wrong("a mapping of fields")
    return {str(name): _one_of(value) for name, value in cast("Mapping[str, Any]", given).items()}


def _few(given: Any) -> float:
    value = _number(given)
    if value != int(value) or value > MOST_CALLS:
        raise _Wrong(f"a whole number of calls, at most {MOST_CALLS}")
    return value


_TOKENS, _TIME, _CALLS = _amount(_number), _amount(_seconds), _amount(_few)
_READ: Mapping[str, Callable[[Any], Any]] = {
    "fails": _fails, "tool_calls": _CALLS, "tools": _choice, "repeats": _share, "texts": _choice,
    "results": _fields, "prompt_tokens": _TOKENS, "completion_tokens": _TOKENS, "grows": _flag,
    "usd": _number, "call_fails": _share, "adds": _TOKENS, "calls": _CALLS, "reasons": _choice,
    "duration": _TIME, "answers": _choice, "delay": _TIME, "data": _fields,
}  # fmt: skip
Behaves = Annotated[Data, MapOf(names=Names(words=tuple(_READ)))]
"""The behaviour of a state or an action; see `studies.simulation.world.Behaviour`."""


# reading ------------------------------------------------------------------------------------


class PricesShape(Part):
    """USD for one token."""

    prompt: Json
    completion: Json


class WorldShape(Part, noun="a world file"):
    """A world file."""

    world: Json = key(cure="a world file starts with `world: 1`", default=REQUIRED)
    about: Text = ""
    task: Text = "a task"
    prices: PricesShape | None = None
    states: dict[str, Behaves] | None = None
    actions: dict[str, Behaves] | None = None
    guards: dict[str, Json] | None = None
    fleet: dict[str, Json] | None = None


def read_world(text: str, *, file: str, spec: MachineSpec) -> World:
    """Read a world for a machine from text. Raises `SpecError` with every finding."""
    return world_of(read(text, file), spec)


def world_of(document: Document, spec: MachineSpec) -> World:
    """Read a world for a machine from a document. Raises `SpecError` with every finding."""
    shape, findings = read_part(document, WorldShape, cure="it starts with `world: 1`")
    reading = _Reading(document, spec, findings)
    world = reading.world(shape)
    if findings:
        raise SpecError(sorted(findings, key=lambda f: (f.place.line, f.place.column, f.code)))
    return world


class _Reading:
    """A reader of the values of one world file, which adds to its findings."""

    def __init__(self, document: Document, spec: MachineSpec, findings: list[Finding]) -> None:
        self.document, self.spec, self.findings = document, spec, findings

    def world(self, shape: WorldShape) -> World:
        """The world, without the values that have findings."""
        if vars(shape).get("world", 1) != 1 or shape.world is True:
            message, place = "`world` takes `1`", self.document.at(("world",))
            self.findings.append(finding("CL203", message, place, at="world"))
        prices = None
        if shape.prices:
            sent = self._value(("prices", "prompt"), shape.prices.prompt, _number)
            written = self._value(("prices", "completion"), shape.prices.completion, _number)
            prices = (sent or 0.0, written or 0.0)
        guards: dict[str, float] = {}
        for name, value in (shape.guards or {}).items():
            often = self._value(("guards", name), value, _share)
            guards[name] = 0.0 if often is None else often
            self._check_name(name, ("guards", name), self.spec.registry.guards, "CL103", "guard")
        fleet: dict[str, Amount] = {}
        for name, value in (shape.fleet or {}).items():
            if self._check_name(name, ("fleet", name), FleetFacts.defaults(), "CL103", "fact"):
                reading = _TIME if name == "requests_wait" else _TOKENS
                fleet[name] = self._value(("fleet", name), value, reading) or NOTHING
        return World(
            dict(self._states(shape.states or {})), dict(self._actions(shape.actions or {})),
            guards, fleet, prices, shape.task, shape.about,
        )  # fmt: skip

    def _states(self, given: Mapping[str, Data]) -> Iterator[tuple[str, Behaviour]]:
        possible = {n: s for n, s in self.spec.states.items() if s.action or s.job == "wait"}
        for name, behaviour in given.items():
            path: At = ("states", name)
            if name in self.spec.states and name not in possible:
                message = f"nothing comes from outside at `{name}`: it only decides"
                self.findings.append(finding("CL207", message, self.document.key(path)))
                continue
            if self._check_name(name, path, possible, "CL301", "state"):
                yield name, self._behaviour(behaviour, path, [possible[name]])

    def _actions(self, given: Mapping[str, Data]) -> Iterator[tuple[str, Behaviour]]:
        doing: dict[str, list[StateSpec]] = {}
        for state in self.spec.states.values():
            if state.action is not None:
                doing.setdefault(state.action.name, []).append(state)
        for name, behaviour in given.items():
            if self._check_name(name, ("actions", name), doing, "CL401", "action"):
                yield name, self._behaviour(behaviour, ("actions", name), doing[name])

    def _check_name(
        self, name: str, path: At, known: Mapping[str, Any], code: str, what: str
    ) -> bool:
        if name in known:
            return True
        message = f"the machine has no {what} `{name}`"
        place = self.document.key(path)
        self.findings.append(finding(code, message, place, hint=nearest(name, known)))
        return False

    def _behaviour(self, given: Data, path: At, states: list[StateSpec]) -> Behaviour:
        takes = frozenset[str]().union(*(keys_of(state) for state in states))
        values: dict[str, Any] = {}
        for name, value in given.items() if given else ():
            if value is None or value is LOST:
                continue
            if name not in takes:
                message = f"`{name}` says nothing of `{path[-1]}`"
                hint = f"it may say {', '.join(sorted(takes))}"
                place = self.document.key((*path, name))
                self.findings.append(finding("CL207", message, place, hint=hint))
                continue
            read = self._value((*path, name), value, _READ[name])
            if read is not None:
                values[name] = read
        self._words(values, path, states)
        return Behaviour(**values)

    def _words(self, values: Mapping[str, Any], path: At, states: list[StateSpec]) -> None:
        """Check the tools, events and reasons among the values against the machine."""
        events = dict.fromkeys(e.trigger for s in states for e in s.edges_of("on"))
        for field, known, code, what in (
            ("tools", self.spec.registry.tools, "CL405", "tool"),
            ("answers", {**events, NOBODY: None}, "CL410", "event"),
            ("reasons", self.spec.reasons, "CL408", "reason"),
        ):
            for name, _ in values.get(field, ()):
                self._check_name(str(name), (*path, field, str(name)), known, code, what)

    def _value(self, path: At, given: Any, reading: Callable[[Any], Any]) -> Any:
        try:
            return reading(given)
        except _Wrong as error:
            where = ".".join(map(str, path))
            message = f"`{where}`: {error}"
            self.findings.append(finding("CL209", message, self.document.at(path), at=where))
            return None


# writing ------------------------------------------------------------------------------------


def world_data(world: World) -> dict[str, Any]:
    """The data of a world file, which `world_of` reads back."""
    out: dict[str, Any] = {"world": 1}
    if world.about:
        out["about"] = world.about
    out["task"] = world.task
    if world.prices is not None:
        out["prices"] = {"prompt": world.prices[0], "completion": world.prices[1]}
    for part, group in (("states", world.states), ("actions", world.actions)):
        if data := {name: _behaviour_data(b) for name, b in group.items() if b.set_fields}:
            out[part] = data
    if world.guards:
        out["guards"] = {name: _percent(p) for name, p in world.guards.items()}
    if world.fleet:
        amounts = world.fleet.items()
        out["fleet"] = {n: a.to_data(seconds=n == "requests_wait") for n, a in amounts}
    return out


def _behaviour_data(behaviour: Behaviour) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in sorted(behaviour.set_fields, key=[*_READ].index):
        value = getattr(behaviour, name)
        if isinstance(value, Amount):
            out[name] = value.to_data(seconds=name in ("duration", "delay"))
        elif name == "fails":
            out[name] = {category: _percent(p) for category, p in value.items()}
        elif name in ("repeats", "call_fails"):
            out[name] = _percent(value)
        elif name in ("results", "data"):
            out[name] = {n: {"one_of": [[v, round(w, 6)] for v, w in c]} for n, c in value.items()}
        elif name in ("tools", "texts", "reasons", "answers"):
            out[name] = {str(word): round(weight, 6) for word, weight in value}
        else:
            out[name] = value
    return out


def _percent(share: float) -> str:
    return f"{share * 100:.9f}".rstrip("0").rstrip(".") + "%"


def write_world(world: World) -> str:
    """Write a world as the text of a world file."""
    out: list[str] = []
    for part, value in world_data(world).items():
        if isinstance(value, dict) and part != "prices":
            out.append(f"{part}:")
            inner = cast("dict[str, Any]", value)
            for name, entry in inner.items():
                note = f"  # {world.samples[name]:,} samples" if name in world.samples else ""
                out += [f"  {json.dumps(name)}:{note}"] if isinstance(entry, dict) else []
                if not isinstance(entry, dict):
                    out.append(f"  {json.dumps(name)}: {json.dumps(entry)}")
                    continue
                fields = cast("dict[str, Any]", entry)
                out += [f"    {n}: {json.dumps(v, ensure_ascii=False)}" for n, v in fields.items()]
        else:
            out.append(f"{part}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(out) + "\n"
