"""The candidate replies of a model to a request: the plain reply first, then variants.

Belongs here: replies as a script writes them. Never: which of them is given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from chartloop.core.errors import Category
from chartloop.core.types import Type
from chartloop.core.units import write_duration
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.run.ports import ModelRequest
from chartloop.scenarios.generator.hints import Hints

Scripted = dict[str, Any] | str
"""A reply as a script writes it."""
PLAIN = "Done."
_CODE = ("print(1)", "1 / 0")


class Replies:
    """The candidate replies to the requests of one machine."""

    def __init__(self, spec: MachineSpec, hints: Hints) -> None:
        self._spec = spec
        self._hints = hints
        self._working = {
            state.name
            for part in spec.family()
            for state in part.states.values()
            if state.asks_model == "task"
        }
        """The states that work on tasks of the queue, where a reply may be a report."""
        self.results: tuple[Any, ...] = (
            *_RESULTS, *hints.all_words(), *REPORTS,
            *({"delay": write_duration(delay), "result": "ok"} for delay in hints.delays),
        )  # fmt: skip
        """The candidate results of a tool."""
        self._known: dict[tuple[Any, ...], tuple[Scripted, ...]] = {}

    def to(self, request: ModelRequest) -> tuple[Scripted, ...]:
        """The candidate replies to a request."""
        state = request.key.rpartition("/")[0].rpartition("/")[2]
        names = tuple(str(tool["function"]["name"]) for tool in request.tools)
        key = (names, json.dumps(request.output, sort_keys=True), state)
        if key not in self._known:
            candidates = self._candidates(request, state)
            unique = {json.dumps(reply, sort_keys=True): reply for reply in candidates}
            self._known[key] = tuple(unique.values())
        return self._known[key]

    def _candidates(self, request: ModelRequest, state: str) -> Iterator[Scripted]:
        texts = self._texts(request.output, state)
        yield from texts
        calls = [_call(tool["function"]) for tool in request.tools]
        yield from ({"tool_calls": [call]} for call in calls)
        for call, tool in zip(calls, request.tools, strict=True):
            yield from ({"tool_calls": [c]} for c in self._judged(call, tool["function"]))
        with_arguments = (
            t["function"] for t in request.tools if t["function"]["parameters"].get("required")
        )
        yield from ({"tool_calls": [{"name": t["name"]}]} for t in list(with_arguments)[:1])
        for category in Category:
            yield {"error": {"category": str(category), "message": "it failed"}}
        first: list[Mapping[str, Any]] = [{"text": texts[0]}]
        first += [{"tool_calls": [call]} for call in calls[:1]]
        for base in first:
            yield from ({**base, **more} for more in self._more())

    def _judged(
        self, call: Mapping[str, Any], tool: Mapping[str, Any]
    ) -> Iterator[Mapping[str, Any]]:
        """Variants of a call with the values that `when` of `approve` compares arguments with."""
        hints, arguments = self._hints, call.get("arguments", {})
        numbers = [n for bound in hints.numbers.get("call", ()) for n in (bound, bound + 1)]
        properties: Mapping[str, Any] = tool["parameters"].get("properties") or {}
        for name, field in properties.items():
            kind = _kind(field)
            words = hints.words.get("call", ()) if kind == "string" else ()
            for value in numbers if kind in ("integer", "number") else words:
                whole = int(value) if kind == "integer" else value
                yield {**call, "arguments": {**arguments, name: whole}}

    def _more(self) -> Iterator[dict[str, Any]]:
        """Variants of a reply's usage, delay and finish reason."""
        hints = self._hints
        for size in hints.tokens:
            yield {"usage": {"prompt_tokens": size, "completion_tokens": 0}}
        for cost in hints.costs:
            yield {"usage": {"prompt_tokens": 10, "completion_tokens": 10, "cost": cost}}
        for delay in hints.delays:
            yield {"delay": delay}
        for reason in hints.finishes:
            yield {"finish_reason": reason}

    # texts ----------------------------------------------------------------------------------

    def _texts(self, schema: Mapping[str, Any] | None, state: str) -> list[str]:
        if schema is not None:
            return [*(_as_json(v) for v in self._of_schema(schema)), PLAIN]
        working = state in self._working
        texts = [PLAIN] if working or not self._parsable_texts else [*self._parsable_texts, PLAIN]
        if working:
            texts += [_as_json(report) for report in REPORTS]
        return list(
            dict.fromkeys((*texts, *self._hints.near.get(state, ()), *self._hints.all_words()))
        )

    def _of_schema(self, schema: Mapping[str, Any], depth: int = 3) -> list[Any]:
        """Data that a schema allows: plain data first, then variants in one place each."""
        if "enum" in schema:
            return list(schema["enum"])
        if "const" in schema:
            return [schema["const"]]
        match _kind(schema):
            case "object" if depth:
                properties: Mapping[str, Any] = schema.get("properties") or {}
                parts = {n: self._of_schema(s, depth - 1) for n, s in properties.items()}
                return list(_variations(parts))
            case "array" if depth:
                items = self._of_schema(schema.get("items") or {"type": "string"}, depth - 1)
                return [items[:1], []]
            case "boolean":
                return [True, False]
            case "integer" | "number":
                numbers = [n for some in self._hints.numbers.values() for n in some]
                return list(dict.fromkeys((0, 1, *numbers, *(n + 1 for n in numbers))))[:8]
            case _:
                return ["ok", *self._hints.all_words()]

    @cached_property
    def _parsable_texts(self) -> list[str]:
        """Texts that the machine's parsers can read."""
        texts: list[str] = []
        for part in self._spec.family():
            for state in part.states.values():
                if state.traits.reads_reply:
                    texts += self._for_parser(part, state)
        return list(dict.fromkeys(texts))[:24]

    def _for_parser(self, spec: MachineSpec, state: StateSpec) -> Iterator[str]:
        rules: dict[str, Mapping[str, Any]] = {}
        for name, given in state.args.items():
            value: Any = given.value
            rules[name] = {"json": ""} if value == "json" else value
        marked = {n: r for n, r in rules.items() if "json" not in r}
        plain = {n: r for n, r in rules.items() if "json" in r}
        values = {n: self._for_target(spec, n, r) for n, r in rules.items()}
        if plain:
            data = {str(r["json"] or ""): values[n] for n, r in plain.items()}
            yield from (_as_json(_nest_paths(one)) for one in _variations(data))
        for one in _variations({n: values[n] for n in marked}) if marked else ():
            yield "\n".join(t for n, v in one.items() if (t := _wrap_part(marked[n], v)))

    def _for_target(self, spec: MachineSpec, name: str, rule: Mapping[str, Any]) -> list[Any]:
        """Candidate values of one variable; None leaves its part out of the reply."""
        if "json" in rule:
            return self._of_type(spec.vars[name.removeprefix("vars.")].type, name)
        if "fence" in rule:
            return [*_CODE, None]
        if rule.get("as") == "pairs":
            return [*self._pairs(spec, name), None]
        words = self._hints.words.get(name, ())
        return ["ok", *words, None]

    def _pairs(self, spec: MachineSpec, name: str) -> Iterator[dict[str, str]]:
        """Key-value pairs: for each adopted key, the texts that its variable is compared with."""
        keys: dict[str, str] = {}
        for state in spec.states.values():
            if state.traits.adopts:
                keys |= cast("dict[str, str]", state.args[state.traits.adopts].value)
        values = {key: ["ok", *self._hints.words.get(to, ())] for key, to in keys.items()}
        yield from _variations(values or {"Status": ["ok"]})

    def _of_type(self, type: Type, name: str) -> list[Any]:
        words = self._hints.words.get(name) or self._hints.all_words()
        match type.kind:
            case "bool":
                return [True, False]
            case "int" | "float" | "duration" | "fraction":
                own = self._hints.numbers.get(name, ())
                return list(dict.fromkeys((0, 1, *own, *(n + 1 for n in own))))
            case "list":
                part = self._of_type(type.of, name) if type.of is not None else ["ok"]
                return [[part[0]], [], *([p] for p in part[1:])]
            case "map" | "struct" | "any":
                return [{}]
            case _:
                return ["ok", *words]


_RESULTS: tuple[Any, ...] = (
    "ok",
    {"error": "it failed"},
    {"error": "it failed", "category": "TRANSIENT"},
    {"error": "it failed", "category": "CRITICAL"},
    {"stop": "enough"},
)
REPORTS: Sequence[Mapping[str, Any]] = (
    {"improvements": ["make it better"], "metrics": {"quality": 1.0}},
    {"metrics": {"quality": 1.0}},
    {"metrics": {"quality": 2.0}, "improvements": ["make it better still"]},
    {"tasks": ["do the rest"]},
)
"""The candidate reports of work on a task."""


def _variations(parts: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """The first value of each part, then variants that differ in one part each."""
    first = {name: values[0] for name, values in parts.items() if values}
    yield first
    for name, values in parts.items():
        yield from ({**first, name: value} for value in values[1:])


def _nest_paths(flat: Mapping[str, Any]) -> Any:
    """Nest dotted paths as mappings; the empty path is the whole value."""
    out: dict[str, Any] = {}
    for path, value in flat.items():
        if not path:
            return value
        *above, last = path.split(".")
        at = out
        for part in above:
            at = at.setdefault(part, {})
        at[last] = value
    return out


def _wrap_part(rule: Mapping[str, Any], value: Any) -> str:
    """A part of a reply in the form that its parser reads; empty for a part that is left out."""
    if value is None:
        return ""
    if "fence" in rule:
        return f"```{rule['fence'] or ''}\n{value}\n```"
    text = value
    if isinstance(value, Mapping):
        text = "\n".join(f"{k}: {v}" for k, v in cast("Mapping[str, str]", value).items())
    return f"<{rule['tag']}>\n{text}\n</{rule['tag']}>"


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# calls of tools ------------------------------------------------------------------------------


def _call(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A call of a tool with only its required arguments."""
    schema: Mapping[str, Any] = tool["parameters"]
    needed: Iterable[str] = schema.get("required") or ()
    properties: Mapping[str, Any] = schema.get("properties") or {}
    arguments = {name: _sample(properties.get(name) or {}, schema) for name in needed}
    return {"name": str(tool["name"]), **({"arguments": arguments} if arguments else {})}


def _kind(schema: Mapping[str, Any]) -> str:
    """The type of a schema; the first if there are several."""
    kind: object = schema.get("type")
    return str(
        cast("list[object]", kind)[0] if isinstance(kind, list) and kind else cast(Any, kind)
    )


def _sample(schema: Mapping[str, Any], whole: Mapping[str, Any], depth: int = 4) -> Any:
    """A plain value that a schema allows."""
    if not depth:
        return None
    reference: Any = schema.get("$ref")
    if reference is not None:
        named: Mapping[str, Any] = whole.get("$defs") or {}
        target: Mapping[str, Any] = named.get(str(reference).rpartition("/")[2]) or {}
        return _sample(target, whole, depth - 1)
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    if "const" in schema:
        return schema["const"]
    if schema.get("anyOf"):
        return _sample(schema["anyOf"][0], whole, depth - 1)
    match _kind(schema):
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            fewest = int(schema.get("minItems", 0))
            return [_sample(schema.get("items") or {}, whole, depth - 1)] * fewest
        case "object":
            properties: Mapping[str, Any] = schema.get("properties") or {}
            needed: Iterable[str] = schema.get("required") or ()
            return {n: _sample(properties.get(n) or {}, whole, depth - 1) for n in needed}
        case "null":
            return None
        case _:
            return "x" * max(1, int(schema.get("minLength", 1)))
