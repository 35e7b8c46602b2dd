"""Specs: descriptions of the actions, tools, guards and classes that a machine may name.

`actions.declare` makes them from typed Python functions; the language checks files against them;
the run calls their functions. A file can only name one, never define one.

Source: docs/language.md, "Your own tools, actions and guards"; 004 "Step Types"; 000 "Adapters".
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast, get_args

from chartloop.core.facts import wire_name
from chartloop.core.reports import Part, Report, Table, pairs
from chartloop.core.text_table import Cell, Line, Row
from chartloop.core.traits import UNDECLARED, ActionTraits
from chartloop.core.types import ANY, Type
from chartloop.core.units import write_duration


class Effect(enum.StrEnum):
    """What doing an action twice would do; the journal guards the action accordingly."""

    PURE = "pure"
    """Nothing happens outside: it may be repeated."""
    LOCAL = "local"
    """Twice has the same effect as once, because the action uses the key that it is given."""
    PAID = "paid"
    """It costs twice, or has its effect twice: an intent is written first."""


Label = Literal["private", "untrusted"]
"""What is known of a text: that it is not for everybody, or that anybody may have written it."""
LABELS: tuple[Label, ...] = get_args(Label)
DATA_WORDS: Mapping[str, tuple[str, str]] = {
    "reads": ("private", "public"), "from": ("untrusted", "trusted"), "sends": ("out", "nowhere"),
}  # fmt: skip
"""What may be said of data, by key: the word that means care, and the harmless one."""


class DataUse(NamedTuple):
    """What a tool, an action or an input says of its data; empty where it says nothing.

    `reads`: whether what comes from it is not for everybody; `from`: whether anybody may have
    written it; `sends`: whether what it is given may leave the system.
    """

    reads: Literal["", "private", "public"] = ""
    origin: Literal["", "untrusted", "trusted"] = ""
    """The key `from`."""
    sends: Literal["", "out", "nowhere"] = ""
    hints: frozenset[str] = frozenset()
    """The same words, as an MCP server claims them: they count, but declare nothing."""

    @classmethod
    def read(cls, words: Mapping[str, str]) -> DataUse:
        """What a mapping such as ``{"reads": "private"}`` says. Raises `ValueError`."""
        for key, word in words.items():
            if key not in DATA_WORDS:
                raise ValueError(f"of data one says `reads`, `from` or `sends`, not `{key}`")
            if word not in DATA_WORDS[key]:
                raise ValueError(f"`{key}` is `{'` or `'.join(DATA_WORDS[key])}`, not `{word}`")
        given: Any = [words.get(key, "") for key in DATA_WORDS]
        return cls(*given)

    @property
    def declared(self) -> bool:
        """Whether anything is declared; what then is left out is harmless."""
        return bool(self.reads or self.origin or self.sends)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of what comes out of it."""
        said = {self.reads, self.origin} if self.declared else self.hints
        return tuple(label for label in LABELS if label in said)

    @property
    def sends_out(self) -> bool:
        """Whether what it is given may leave the system."""
        return (self.sends == "out") if self.declared else "out" in self.hints

    def to_dict(self) -> dict[str, str]:
        """The declared words, by their keys in a file."""
        words = {"reads": self.reads, "from": self.origin, "sends": self.sends}
        return {key: word for key, word in words.items() if word}


UNSAID = DataUse()
HARMLESS = DataUse("public", "trusted", "nowhere")
MOST_CALLS = 32
"""The default number of tool calls of one reply that are executed."""

ArgKind = Literal[
    "text", "texts", "value", "values", "enum", "name", "duration", "data", "fields", "schema"
]  # fmt: skip
"""The notation of a field of `with`.

`text`: a template; `texts`: a mapping or list of templates; `value`: an expression; `values`: a
mapping of expressions; `enum`: one of a few words; `name`: a literal name; `duration`: a duration
or an expression of one; `data`: literal JSON data; `fields`: a mapping of names to mappings of
fields; `schema`: a JSON Schema, or the name of a class.
"""


_WRITTEN: Mapping[str, str] = {
    "text": "template", "texts": "templates", "value": "expression", "values": "expressions",
    "enum": "word", "name": "name", "duration": "duration", "data": "data",
    "fields": "names, and fields",
}  # fmt: skip
_EFFECTS: Mapping[Effect, str] = {
    Effect.PURE: "pure: it may be repeated",
    Effect.LOCAL: "local: done twice it is the same as once",
    Effect.PAID: "paid: written down before it is done, never repeated once recorded",
}

Supply = Literal["conversation", "tasks", "checkpoint", "reply", "task"]
"""What an action leaves in the run for a later one: messages, tasks, saved variables, a reply.
`task` is the run's own, or messages in its place."""


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """One field of an action's `with`."""

    name: str
    kind: ArgKind
    type: Type = ANY
    required: bool = False
    default: Any = None
    about: str = ""
    choices: tuple[str, ...] = ()
    """The words of an `enum`."""
    names: str = ""
    """The kind of thing that a `name`, or each value of a mapping of `data`, refers to: ``tool``,
    ``machine``, ``state``, ``variable``, ``block`` or ``reason``."""
    check: Callable[[Any], str | None] | None = field(default=None, compare=False)
    """Returns the error in `data` or in a constant `value`, or None."""
    fields: tuple[ArgSpec, ...] = ()
    """For `fields`: the fields of each entry."""
    needs: str = ""
    """The field without which this one has no meaning."""
    at_least: str = ""
    """The field that has no effect if this one is below its value."""
    arguments_of: str = ""
    """The field that names the tool which takes these arguments."""

    @property
    def written_as(self) -> str:
        """The notation in words: ``template (str)``, ``name of a tool``, ``a | b``."""
        if self.choices:
            return " | ".join(self.choices)
        word = _WRITTEN.get(self.kind, self.kind)
        named = self.names and self.kind == "name"
        return f"{word} of a {self.names}" if named else f"{word} ({self.type})"

    def to_dict(self) -> dict[str, Any]:
        """The field as plain data, as `chartloop info actions --format json` prints it."""
        return {
            "field": self.name, "written": self.kind, "type": str(self.type),
            "required": self.required, "default": self.default, "choices": list(self.choices),
            "about": self.about,
        }  # fmt: skip


CacheMark = Literal["instructions", "tools", "conversation"]
"""A part of a request that may be marked for the provider's cache."""
CACHED: tuple[str, ...] = get_args(CacheMark)


NOT_EXTRA = frozenset(
    "model messages tools tool_choice functions function_call response_format temperature top_p "
    "max_tokens max_completion_tokens n best_of stop seed stream timeout request_timeout cache "
    "api_base base_url api_key fallbacks model_list num_retries max_retries retry_policy "
    "retry_strategy mock_response callbacks custom_llm_provider".split()
)
"""Names that `extra` of a model may not contain.

They have a key of their own, would hide calls, hosts or retries, or would make bounds untrue by
more or longer replies.
"""
_NOT_BODY = frozenset("model messages max_tokens max_completion_tokens n best_of stream".split())
"""Names that ``extra_body`` may not contain, because it is merged into the request."""


def refused_extra(extra: Mapping[str, Any]) -> str | None:
    """The first name in `extra` or its ``extra_body`` that is not allowed; None if all are."""
    body: Any = extra.get("extra_body")
    inner = _NOT_BODY & cast("Mapping[str, Any]", body).keys() if isinstance(body, Mapping) else ()
    return min({*(NOT_EXTRA & extra.keys()), *inner}, default=None)


@dataclass(frozen=True, slots=True)
class ActionSpec(Report):
    """An action that a state can do.

    `run` takes a context and the evaluated fields of `with`, and returns an `Outcome`, a
    `Blocked`, or plain data that becomes the outcome's result. It may be a coroutine function.
    """

    name: str
    run: Callable[..., Any] | None = field(compare=False)
    """None for an action that a file names and that is not registered."""
    args: tuple[ArgSpec, ...] = ()
    targets: Callable[[str, Any, Type], str | None] | None = field(default=None, compare=False)
    """For a `with` whose keys are variables: returns the error in the entry of a variable of that
    type, or None."""
    target_kind: ArgKind = "data"
    """The notation of the entries of such a `with`."""
    entry: tuple[ArgSpec, ...] = ()
    """The fields of an entry of such a `with`, if it is a mapping."""
    example: str = ""
    """A state of a machine file that does it: for actions with keys that the file chooses."""
    result: Type = ANY
    work: bool = True
    """Whether it is work, which updates `errors.consecutive` and `progress`, or upkeep."""
    effect: Effect = Effect.PAID
    own_intents: bool = False
    """Whether it writes an intent for each of its calls itself."""
    settles_itself: bool = False
    """With `own_intents`: whether it calls `Context.settle` before anything but a paid call."""
    changes: frozenset[str] = frozenset()
    """The facts that its outcomes may change."""
    suspends: bool = True
    """Whether it may yield to the event loop. If not, the run can be driven by hand, faster."""
    uses: frozenset[str] = frozenset()
    """The ports that it requires: ``model``, ``sandbox``, ``notifier``."""
    may_use: frozenset[str] = frozenset()
    """The ports that it uses if the run has them."""
    leaves: bool = False
    """Whether it ends at once when cancelled, abandoning by itself whatever does not."""
    sound: bool = False
    """Whether its outcomes are valid for every model and tool, and need no further check."""
    within: float | None = None
    """The seconds that it may take at a state without `within`; `within: none` takes them away."""
    own_deadline: bool = False
    """Whether it keeps its deadline by itself, and so is not cut off."""
    repairs: str = ""
    """The field with the number of extra attempts that it may request: see `Outcome.again`."""
    most_calls: str = ""
    """The field with the number of calls of one reply that it executes; see `MOST_CALLS`."""
    needs: Supply | None = None
    """The supply that the run must have: without it the action fails, or sends nothing."""
    needs_if: Callable[[Mapping[str, Any]], bool] | None = field(default=None, compare=False)
    """Whether it needs the supply with these fields, as written; None: always."""
    supplies: frozenset[Supply] = frozenset()
    """The supplies that it may leave in the run."""
    for_wait: bool = False
    """Whether it prepares the wait that follows."""
    may_wait: bool = False
    """Whether it may return `Blocked` with a time, until which a driver sleeps."""
    about: str = ""
    """The description for `chartloop info actions`: one short line."""
    details: str = ""
    """What that line leaves out."""
    data: DataUse = UNSAID
    """What it does with data."""
    declares: ActionTraits | None = None
    """The traits of an action that promises something; None: the worst is assumed."""

    @property
    def is_builtin(self) -> bool:
        """Whether its behaviour is known. For an application's own action the worst is assumed."""
        return self.declares is not None

    @property
    def traits(self) -> ActionTraits:
        """The declared traits; `UNDECLARED` for an application's own action."""
        return UNDECLARED if self.declares is None else self.declares

    @property
    def writes_any_variable(self) -> bool:
        """Whether it may change variables besides those that are keys of its `with`."""
        by_key = self.is_builtin and self.targets is not None
        return not by_key and any("vars" in fact for fact in self.changes)

    @property
    def kind(self) -> str:
        """``work`` or ``upkeep``."""
        return "work" if self.work else "upkeep"

    def parts(self) -> Iterator[Part]:
        """The description, and the notation of each field of `with`."""
        yield from (Line(self.name, "bold"), Line(self.about))
        if self.details:
            yield Line(self.details)
        yield Line("")
        yield pairs(
            (
                ("kind", f"{self.kind}, {_EFFECTS[self.effect]}"),
                ("result", str(self.result)),
                ("changes", ", ".join(sorted(self.changes))),
                ("needs", ", ".join(sorted(self.uses))),
                (
                    "within",
                    "" if self.within is None else f"{write_duration(self.within)}, if not given",
                ),
            )
        )
        yield Line("")
        if self.targets is not None:
            yield Line(f"with: {self.with_variables}")
        elif not self.args:
            yield Line("with: nothing")
        rows = [
            Row((Cell(a.name, "code"), Cell(a.written_as, "code"),
                 "required" if a.required else "", a.about))
            for a in self.args or self.entry
        ]  # fmt: skip
        yield Table(rows, ("with" if self.args else "entry", "written as", "", "what it is"))
        if self.example:
            yield Line("")
            yield from map(Line, self.example.splitlines())

    @property
    def with_variables(self) -> str:
        """The notation of a `with` whose keys are variables."""
        notation = "an expression" if self.target_kind == "value" else "a mapping with"
        return f"`vars.NAME: ...` for each variable, {notation}" + (
            " " + ", ".join(f"`{a.name}`" for a in self.entry) if self.entry else ""
        )

    def to_dict(self) -> dict[str, Any]:
        """The action as plain data, as `chartloop info actions --format json` prints it."""
        return {
            "action": self.name, "about": self.about, "details": self.details,
            "available": self.run is not None, "work": self.work, "effect": str(self.effect),
            "result": str(self.result), "changes": sorted(self.changes), "uses": sorted(self.uses),
            "within": self.within, "with": [arg.to_dict() for arg in self.args],
            "entry": [arg.to_dict() for arg in self.entry], "example": self.example,
        }  # fmt: skip

    def naming(self, thing: str) -> str:
        """The first field that names such a thing; empty if there is none."""
        return next((a.name for a in self.args if a.names == thing), "")

    def arg(self, name: str) -> ArgSpec | None:
        """The field of that name, or None."""
        return next((a for a in self.args if a.name == name), None)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A function that a model may call.

    `parse` turns the JSON text that the model wrote into keyword arguments, or raises
    `ValueError` with a text for the model. `call` takes them; it may be a coroutine function.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(compare=False)
    """JSON Schema of the arguments."""
    parse: Callable[[str], dict[str, Any]] = field(compare=False)
    call: Callable[..., Any] = field(compare=False)
    blocking: bool = True
    """Whether it is a plain function that may block, and so is called in another thread."""
    suspends: bool = True
    """Whether a call may yield to the event loop. If not, the thread that drives the run makes the
    call and waits for it; no deadline can cut it off."""
    effect: Effect = Effect.PAID
    memory: bool = False
    """Whether it edits memory blocks: a reply that calls only such tools `wants_memory`."""
    wants_context: bool = False
    """Whether its first parameter is the context of the step."""
    server: str = ""
    """The MCP server that executes it; empty for a Python function."""
    machine: str = ""
    """The child machine that a call runs; empty for a function."""
    stand_in: bool = False
    """Whether it takes the place of a child machine of its name, in a scenario."""
    data: DataUse = UNSAID
    """What it does with data."""
    result: Type = field(default=ANY, compare=False)
    """The type of what it returns, as plain data."""

    def for_task(self, text: str, id: str = "", acceptance: str = "") -> dict[str, str]:
        """The arguments with which it does a task: by name, else the text as the first."""
        names = list(self.parameters.get("properties", ()))
        fields = {"task": text, "text": text, "id": id, "acceptance": acceptance}
        return {n: fields[n] for n in names if n in fields} or dict.fromkeys(names[:1], text)

    def for_model(self, blocks: Sequence[str] = ()) -> dict[str, Any]:
        """The tool in the format of chat APIs; a memory tool names the `blocks` of the machine."""
        parameters = dict(self.parameters)
        fields = parameters.get("properties", {})
        if blocks and self.name in MEMORY_TOOLS and "block_name" in fields:
            known = {**fields["block_name"], "enum": [*blocks]}
            parameters["properties"] = {**fields, "block_name": known}
        function = {"name": wire_name(self.name), "description": self.description}
        return {"type": "function", "function": {**function, "parameters": parameters}}


MEMORY_TOOLS = frozenset({"core_memory_read", "core_memory_append", "core_memory_replace"})
"""The built-in tools that take the name of a block."""


@dataclass(frozen=True, slots=True)
class GuardSpec:
    """A registered Python predicate. Pictures show its name; to proofs it is opaque."""

    name: str
    params: tuple[Type, ...] | None
    """The types of its parameters; None accepts any number of values of any type."""
    call: Callable[..., bool] = field(compare=False)
    about: str = ""


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A Python class for structured replies: a pydantic model or dataclass."""

    name: str
    source: type | None = field(compare=False)
    """None for a class that a file names and that was not passed."""
    schema: Callable[[], Mapping[str, Any]] = field(compare=False)
    """Returns its JSON Schema. Raises `SetupError` if JSON Schema cannot express the class."""
    make: Callable[[Any], Any] = field(compare=False)
    """Validates plain data by the class, and returns plain data. Raises `ValueError` with a text
    for the model."""


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """A plugin that was requested by name, and its contents."""

    name: str
    distribution: str
    version: str
    actions: frozenset[str] = frozenset()
    """The names of its actions."""
    names: frozenset[str] = frozenset()
    """The names of its tools, guards and classes."""
    opens: Callable[..., Any] | None = field(default=None, compare=False)
    """Opens a journal whose URL has the plugin's name as its scheme: ``(url, *, make)``."""
    model: Callable[[], Any] | None = field(default=None, compare=False)
    """Makes the model for names that start with the plugin's: ``shop/small``."""

    @property
    def source(self) -> str:
        """The distribution and its version, as records keep them."""
        return f"{self.distribution} {self.version}"


KINDS = ("actions", "tools", "guards", "types")
"""What a registry holds by name."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The actions, tools, guards and classes that a file may name, by name."""

    actions: Mapping[str, ActionSpec] = field(default_factory=dict[str, ActionSpec])
    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    guards: Mapping[str, GuardSpec] = field(default_factory=dict[str, GuardSpec])
    own_tools: tuple[str, ...] = ()
    """The application's tools, in its order; a file names all of them with ``*``."""
    types: Mapping[str, TypeSpec] = field(default_factory=dict[str, TypeSpec])
    plugins: tuple[PluginSpec, ...] = ()
    """The plugins that contributed entries."""
    assumed: bool = False
    """Whether every name that is missing has a stand-in: the machine can only be read."""

    def beside(self, base: Registry) -> Registry:
        """The entries of this registry whose names `base` does not have."""
        mine = {kind: (getattr(self, kind), getattr(base, kind)) for kind in KINDS}
        only = {k: {n: v for n, v in own.items() if n not in of} for k, (own, of) in mine.items()}
        return replace(self, **cast("dict[str, Any]", only))
