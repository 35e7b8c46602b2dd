"""Actions, tools and guards that a machine may name, as the language sees them.

These are descriptions. `actions.declare` makes them from typed Python functions; the language
checks files against them; the run calls what they hold. A file can only ever name one.

Source: design "language", section 8; 004 "Step Types"; 000 "Adapters".
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from chartloop.core.facts import wire_name
from chartloop.core.text_table import Line, Row, lay_out
from chartloop.core.traits import UNDECLARED, ActionTraits
from chartloop.core.types import ANY, Type


class Effect(enum.StrEnum):
    """The effect of doing an action twice; decides how the journal guards it."""

    PURE = "pure"
    """Nothing: it may be repeated."""
    LOCAL = "local"
    """The same as once, by the key that it is given."""
    PAID = "paid"
    """It costs again, or the outside sees it again: an intent is written first."""


MOST_CALLS = 32
"""How many tool calls of one reply are executed, where nothing else is said."""

ArgKind = Literal[
    "text", "texts", "value", "values", "enum", "name", "duration", "data", "fields", "schema"
]  # fmt: skip
"""How a field of `with` is written.

`text` a template; `texts` a mapping or list of templates; `value` an expression; `values` a
mapping of expressions; `enum` one of a few words; `name` the literal name of a thing;
`duration` a duration or an expression that gives one; `data` literal JSON data; `fields` a
mapping of names to their own fields; `schema` a JSON Schema, or the name of a class.
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

Supply = Literal["conversation", "tasks", "checkpoint"]
"""Things that one action leaves in a run for another: messages, tasks, kept variables."""


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
    """What a `name` names: ``tool``, ``machine``, ``state``, ``variable``, ``block`` or
    ``reason``."""
    check: Callable[[Any], str | None] | None = field(default=None, compare=False)
    """For `data`, and for a `value` that is written plainly: what is wrong with it, or None."""
    fields: tuple[ArgSpec, ...] = ()
    """For `fields`: what is under each name."""
    needs: str = ""
    """Another field, without which this one means nothing."""
    at_least: str = ""
    """Another field: below its value this one leaves it without effect."""
    arguments_of: str = ""
    """The field that names the tool whose arguments these are."""

    @property
    def written_as(self) -> str:
        """How a file writes it: ``template (str)``, ``name of a tool``, ``a | b``."""
        if self.choices:
            return " | ".join(self.choices)
        word = _WRITTEN.get(self.kind, self.kind)
        return f"{word} of a {self.names}" if self.names else f"{word} ({self.type})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `chartloop actions --format json` prints it."""
        return {
            "field": self.name, "written": self.kind, "type": str(self.type),
            "required": self.required, "default": self.default, "choices": list(self.choices),
            "about": self.about,
        }  # fmt: skip


CacheMark = Literal["instructions", "tools", "conversation"]
"""The parts of a request that may be marked for the provider's cache."""
CACHED: tuple[str, ...] = get_args(CacheMark)


NOT_EXTRA = frozenset(
    "model messages tools tool_choice functions function_call response_format temperature top_p "
    "max_tokens max_completion_tokens n best_of stop seed stream timeout request_timeout cache "
    "api_base base_url api_key fallbacks model_list num_retries max_retries retry_policy "
    "retry_strategy mock_response callbacks custom_llm_provider".split()
)
"""What `extra` of a model may not hold: it has its own key, or would hide calls, hosts or retries.

More replies, or longer ones, than `max_tokens` says would make a bound untrue.
"""
_NOT_BODY = frozenset("model messages max_tokens max_completion_tokens n best_of stream".split())
"""What its ``extra_body`` may not hold, which is merged into the request."""


def refused_extra(extra: Mapping[str, Any]) -> str | None:
    """A name that `extra` may not hold, in it or in its ``extra_body``."""
    body: Any = extra.get("extra_body")
    inner = _NOT_BODY & cast("Mapping[str, Any]", body).keys() if isinstance(body, Mapping) else ()
    return min({*(NOT_EXTRA & extra.keys()), *inner}, default=None)


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """Something that a state can do.

    `run` is called with a context and the evaluated fields of `with`, and returns an `Outcome`,
    a `Blocked`, or plain data that becomes the outcome's result. It may be a coroutine function.
    """

    name: str
    run: Callable[..., Any] | None = field(compare=False)
    """None stands for an action that a file names and no one has registered."""
    args: tuple[ArgSpec, ...] = ()
    targets: Callable[[str, Any], str | None] | None = field(default=None, compare=False)
    """For actions whose `with` has variables as keys: what is wrong with one entry, or None."""
    target_kind: ArgKind = "data"
    """How the entries of such a `with` are written."""
    result: Type = ANY
    work: bool = True
    """Work moves `errors.consecutive` and `progress`; upkeep does not."""
    effect: Effect = Effect.PAID
    own_intents: bool = False
    """The action writes an intent for each of its calls itself."""
    settles_itself: bool = False
    """With `own_intents`: before anything that is not a paid call it calls `Context.settle`."""
    changes: frozenset[str] = frozenset()
    """The facts that its outcomes may change."""
    suspends: bool = True
    """Whether it may give the event loop away. False lets a run be driven by hand, faster."""
    uses: frozenset[str] = frozenset()
    """The ports it cannot do without: ``model``, ``sandbox``, ``notifier``."""
    may_use: frozenset[str] = frozenset()
    """The ports it uses where the run has them."""
    leaves: bool = False
    """It ends at once when it is cancelled: whatever may not, it leaves behind by itself."""
    sound: bool = False
    """Its outcomes are valid whatever a model or a tool gave: they are not checked again."""
    own_deadline: bool = False
    """The action ends in time by itself: it is not cut off."""
    repairs: str = ""
    """The field that says how often it may ask to be done again: see `Outcome.again`."""
    most_calls: str = ""
    """The field that says how many calls of one reply it executes; see `MOST_CALLS`."""
    needs: Supply | None = None
    """The supply that must be in the run first: without it the action fails, or sends nothing."""
    supplies: frozenset[Supply] = frozenset()
    """The supplies that it may leave in the run."""
    for_wait: bool = False
    """Whether it prepares the wait that follows."""
    may_wait: bool = False
    """It may return `Blocked` with a time, which a driver sleeps out."""
    about: str = ""
    """For `chartloop actions`: what it does, first line short."""
    declares: ActionTraits | None = None
    """Its traits, if known; None for an application's own action."""

    @property
    def is_builtin(self) -> bool:
        """Whether what it does is known. Of an application's own action the worst is assumed."""
        return self.declares is not None

    @property
    def traits(self) -> ActionTraits:
        """Its traits; an application's own action has none that can be relied on."""
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

    def lines(self, width: int = 100) -> list[Line]:
        """Its description, and how the fields of its `with` are written."""
        about = {
            "kind": f"{self.kind}, {_EFFECTS[self.effect]}", "result": str(self.result),
            "changes": ", ".join(sorted(self.changes)), "needs": ", ".join(sorted(self.uses)),
        }  # fmt: skip
        rows = [Row((name, value)) for name, value in about.items() if value]
        head = [Line(self.name, "bold"), Line(self.about), Line("")]
        return [*head, *lay_out(rows, width=width), Line(""), *self._field_lines(width)]

    def _field_lines(self, width: int) -> list[Line]:
        if self.targets is not None:
            return [Line("with: one entry for each variable, as in `vars.plan: ...`")]
        if not self.args:
            return [Line("with: nothing")]
        rows = [Row(("with", "written as", "", "what it is"), "dim")]
        for arg in self.args:
            needed = "required" if arg.required else ""
            rows.append(Row((arg.name, arg.written_as, needed, arg.about)))
        return lay_out(rows, width=width)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what `chartloop actions --format json` prints of an action."""
        return {
            "action": self.name, "about": self.about, "available": self.run is not None,
            "work": self.work, "effect": str(self.effect), "result": str(self.result),
            "changes": sorted(self.changes), "uses": sorted(self.uses),
            "with": [arg.to_dict() for arg in self.args],
        }  # fmt: skip

    def naming(self, thing: str) -> str:
        """The first field that names such a thing; empty where there is none."""
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
    """A plain function that may take its time: it is called in another thread."""
    suspends: bool = True
    """Whether a call may give the event loop away. False: it is called on the thread that drives
    the run, which waits for it; no deadline can cut it off."""
    effect: Effect = Effect.PAID
    memory: bool = False
    """It edits memory blocks: a reply that asks for nothing else `wants_memory`."""
    wants_context: bool = False
    """Its first parameter is the context of the step."""
    server: str = ""
    """The MCP server that carries it out; empty for a function of Python."""

    def for_model(self) -> dict[str, Any]:
        """The tool as chat APIs take it."""
        return {
            "type": "function",
            "function": {
                "name": wire_name(self.name),
                "description": self.description,
                "parameters": dict(self.parameters),
            },
        }


@dataclass(frozen=True, slots=True)
class GuardSpec:
    """A registered Python predicate. Drawn by its name; proofs call it opaque and leave it out."""

    name: str
    params: tuple[Type, ...] | None
    """None: any number of values of any type."""
    call: Callable[..., bool] = field(compare=False)
    about: str = ""


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A Python class that a model's reply may have to be: a pydantic model or dataclass."""

    name: str
    source: type | None = field(compare=False)
    """None stands for a class that a file names and no one has given."""
    schema: Callable[[], Mapping[str, Any]] = field(compare=False)
    """Its JSON Schema. Raises `SetupError` where JSON Schema cannot say it."""
    make: Callable[[Any], Any] = field(compare=False)
    """Plain data to what the class makes of it, as plain data. Raises `ValueError`, whose text is
    for the model."""


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """A plugin that somebody asked for by name, and what it brings."""

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
    """Makes the model whose names begin with the plugin's: ``shop/small``."""

    @property
    def source(self) -> str:
        """The distribution that it is of, with its version: what a record keeps."""
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True, slots=True)
class Registry:
    """Everything that a file may name, by name."""

    actions: Mapping[str, ActionSpec] = field(default_factory=dict[str, ActionSpec])
    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    guards: Mapping[str, GuardSpec] = field(default_factory=dict[str, GuardSpec])
    own_tools: tuple[str, ...] = ()
    """The tools that an application brings, in its order: a file names them all as ``*``."""
    types: Mapping[str, TypeSpec] = field(default_factory=dict[str, TypeSpec])
    plugins: tuple[PluginSpec, ...] = ()
    """The plugins that some of it is of."""


Own = Iterable[Any]
"""Tools, actions or guards of an application: decorated functions, their specs, or modules that
hold them."""
