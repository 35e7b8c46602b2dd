"""The default behaviour of states where a world says nothing, with its wording.

Round figures, the same for every machine, so that they are easy to name and to replace. Each
assumption that a simulation used is listed with its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

from chartloop.actions.imagine import plain_value
from chartloop.core.approvals import CALLS
from chartloop.core.specs import Effect
from chartloop.core.types import Type
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.studies.simulation.distributions import NOTHING, constant, weighted_values
from chartloop.studies.simulation.world import NOBODY, Behaviour, Choice, choice

Family = Literal["model", "tools", "child", "work", "imagined", "pure", "own", "judged", "wait"]
"""What a world says of a state.

`model`: a reply; `tools`: how a reply's calls end; `child`: how children end; `work`: how a task
ends; `imagined`: only whether it fails; `pure`: nothing, the action is done as it is; `own`: a
result; `wait`: an answer.
"""
_ANY = frozenset({"fails", "duration", "results"})
_TOKENS = frozenset({"prompt_tokens", "completion_tokens", "usd"})
KEYS: Mapping[Family, frozenset[str]] = {
    "model": _ANY | _TOKENS | {"tool_calls", "tools", "repeats", "texts", "grows"},
    "tools": frozenset({"fails", "duration", "call_fails", "adds"}),
    "child": _ANY | _TOKENS | {"calls", "reasons"},
    "work": _ANY | _TOKENS,
    "imagined": frozenset({"fails", "duration"}),
    "pure": frozenset({"duration"}),
    "own": _ANY,
    "judged": _ANY,
    "wait": frozenset({"answers", "delay", "data"}),
}
"""The keys that a world file may have for states of each family."""


class Assumption(NamedTuple):
    """One assumption, and the states that it was made for."""

    text: str
    states: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.states)}: {self.text}"


def keys_of(state: StateSpec) -> frozenset[str]:
    """The keys that a world file may have for a state."""
    own = KEYS[family_of(state)]
    own |= _TOKENS if asks_for_itself(state) or runs_called_children(state) else frozenset()
    return own | {"calls"} if runs_called_children(state) else own


def runs_called_children(state: StateSpec) -> bool:
    """Whether the tool calls of a state may run child machines."""
    return family_of(state) == "tools" and state.traits.runs == "calls"


def asks_for_itself(state: StateSpec) -> bool:
    """Whether the state's action has a drawn result that costs a model call."""
    return family_of(state) in ("own", "judged") and state.asks_model != "never"


def family_of(state: StateSpec) -> Family:
    """What a world says of a state: what the traits of its action ask for, if it imagines it."""
    action, traits = state.action, state.traits
    if action is None:
        return "wait"
    if action.imagine is None:
        known = action.is_builtin and action.effect is Effect.PURE and traits.stays_inside
        return "pure" if known else "own"
    if traits.by_result:
        return "judged"
    if traits.calls in ("all", "first", "memory"):
        return "own" if state.calls == "none" else "tools"
    if traits.runs in ("one", "several"):
        return "child"
    asks: Mapping[str, Family] = {"reply": "model", "task": "work"}
    return asks.get(traits.asks, "imagined")


def default_behaviour(spec: MachineSpec, state: StateSpec) -> Behaviour:
    """The assumed behaviour of a state."""
    results = {} if state.action is None else result_of(state.result, known=state.action.is_builtin)
    match family_of(state):
        case "model":
            tools = _tools(spec, state)
            schema = state.args.get("output")
            return Behaviour(
                {"TRANSIENT": 0.02}, weighted_values({0: 0.5, 1: 0.5}) if tools else NOTHING,
                choice(dict.fromkeys(tools, 1.0)), 0.05, (("", 1.0),),
                {} if schema is None else data_of(schema.value), constant(500), constant(200), True,
                duration=constant(2.0),
            )  # fmt: skip
        case "tools":
            tools = Behaviour({}, call_fails=0.05, adds=constant(100), duration=constant(1.0))
            if not runs_called_children(state):
                return tools
            return replace(
                tools, calls=constant(3), prompt_tokens=constant(500),
                completion_tokens=constant(200),
            )  # fmt: skip
        case "child":
            return Behaviour(
                {"RECOVERABLE": 0.05}, results=_output(spec, state), prompt_tokens=constant(500),
                completion_tokens=constant(200), calls=constant(3), reasons=(("completed", 1.0),),
                duration=constant(10.0),
            )  # fmt: skip
        case "work":
            return Behaviour(
                {"TRANSIENT": 0.02, "RECOVERABLE": 0.05}, results={}, prompt_tokens=constant(500),
                completion_tokens=constant(200), duration=constant(30.0),
            )  # fmt: skip
        case "imagined":
            return Behaviour({}, duration=NOTHING)
        case "pure":
            return Behaviour(duration=NOTHING)
        case "wait":
            events = dict.fromkeys((e.trigger for e in state.edges_of("on")), 1.0)
            silent = {NOBODY: len(events) / 9} if state.within is not None else {}
            made = spec.approve.made if spec.approve is not None else ()
            fields = {n: t for e in state.edges_of("on") for n, t in e.data}
            if state.name in made:
                fields.pop(CALLS, None)  # an answer without it decides on every call
            return Behaviour(
                answers=choice(events | silent), delay=constant(60.0),
                data={n: ((plain_value(t), 1.0),) for n, t in fields.items()},
            )  # fmt: skip
        case _:
            sizes = (constant(500), constant(200)) if asks_for_itself(state) else (None, None)
            return Behaviour(
                {"RECOVERABLE": 0.05}, results=results, prompt_tokens=sizes[0],
                completion_tokens=sizes[1], duration=constant(1.0),
            )  # fmt: skip


def _output(spec: MachineSpec, state: StateSpec) -> dict[str, Choice]:
    """The assumed output of a child machine, by field."""
    named = state.args.get("machine")
    child = spec.machines.get(str(named.value)) if named is not None else None
    output = child.output if child is not None else None
    if not isinstance(output, Mapping):
        return {}
    return {name: ((plain_value(part.type), 1.0),) for name, part in output.items()}


def in_words(spec: MachineSpec, state: StateSpec, missing: frozenset[str]) -> list[str]:
    """The assumptions about a state's missing keys, in words."""
    own = default_behaviour(spec, state)
    out: list[str] = []
    if "fails" in missing and own.fails:
        share = ", ".join(f"{p:.0%} {c}" for c, p in own.fails.items())
        out.append(f"the action fails: {share}")
    if "tool_calls" in missing and own.tools:
        out.append("half of the replies ask for one tool call, each tool alike")
    if "repeats" in missing and own.tools:
        out.append("5% of the replies with calls ask for the same calls again")
    if "texts" in missing:
        out.append("a reply has no text that a guard or `parse` could read")
    if {"prompt_tokens", "completion_tokens"} & missing and own.prompt_tokens is not None:
        grows = ", or the conversation" if own.grows else ""
        out.append(f"a model call sends 500 tokens{grows}, and gets 200")
    if "call_fails" in missing and own.call_fails:
        out.append("5% of the tool calls fail, and tell the model so")
    if "adds" in missing and own.adds is not None:
        out.append("a tool's result adds 100 tokens to the conversation")
    if "calls" in missing and own.calls is not None:
        out.append("a child makes 3 model calls and completes, its output empty texts and zeros")
    if (
        "results" in missing
        and "calls" not in missing
        and any(len(c) > 1 for c in (own.results or {}).values())
    ):
        assert own.results is not None
        fields = ", ".join(f"`{p}` {_describe_choice(c)}" for p, c in own.results.items())
        out.append(f"of its result {fields}")
    if "answers" in missing and own.answers is not None:
        share = ", ".join(f"{p:.0%} {w}" for w, p in own.answers)
        out.append(f"answers: {share}, after a minute")
    if "duration" in missing and own.duration is not None and own.duration.mean:
        out.append(f"it takes {own.duration.mean:.0f} s")
    return out


def _describe_choice(values: Choice) -> str:
    return "is " + " or ".join(repr(value) for value, _ in values)


def _tools(spec: MachineSpec, state: StateSpec) -> tuple[str, ...]:
    names = spec.offered(state)
    return tuple(n for n in names if n in spec.registry.tools)


# values of a type -----------------------------------------------------------------------------


def result_of(type: Type, *, known: bool) -> dict[str, Choice]:
    """The assumed result of a type: enums and flags evenly, all else neutral.

    `known`: the action is built in; its flags mark rare cases, and are assumed to be false.
    """
    if known:
        value = plain_value(type)
        return {} if value is None else {"": ((value, 1.0),)}
    if type.kind != "struct":
        return {"": _of_type(type)}
    return {name: _of_type(inner) for name, inner in type.fields}


def _of_type(type: Type) -> Choice:
    if type.kind == "bool":
        return ((True, 0.5), (False, 0.5))
    if type.kind == "enum":
        return choice(dict.fromkeys(type.values, 1.0))
    return ((plain_value(type), 1.0),)


_PLAIN: Mapping[str, Any] = {
    "string": "", "integer": 0, "number": 0.0, "array": [], "object": {}, "null": None,
}  # fmt: skip


def data_of(schema: object) -> dict[str, Choice]:
    """The assumed data of a JSON Schema, by field."""
    fields = cast("dict[str, Any]", schema) if isinstance(schema, dict) else dict[str, Any]()
    parts = cast("Mapping[str, Any]", fields.get("properties") or {})
    return {name: _of_schema(cast("Mapping[str, Any]", part)) for name, part in parts.items()}


def _of_schema(part: Mapping[str, Any]) -> Choice:
    words = part.get("enum") or ([True, False] if part.get("type") == "boolean" else None)
    if words:
        return tuple((word, 1 / len(words)) for word in words)
    return ((_PLAIN.get(str(part.get("type", "string")), ""), 1.0),)
