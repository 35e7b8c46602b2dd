"""Declaration of tools, actions and guards as typed Python functions.

    @tool
    def add(a: int, b: int = 0) -> int:
        "Add two numbers."

A decorator only sets an attribute on the function and returns it. It registers nothing: a machine
may name only the entries of its `Registry`, which `specs_of` makes from functions and modules.

Belongs here: the way from a signature to a spec. Never: what an action does.
Source: 000 "Adapters", 004 "Step Types"; docs/language.md, section 9.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType, ModuleType
from typing import (
    Any,
    Literal,
    NamedTuple,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
)

from chartloop.actions.annotations import (
    Data,
    Duration,
    Field,
    Fraction,
    Name,
    Texts,
    Value,
    Values,
    Variables,
    has_word_for,
    mark_of,
    meaning_of,
    type_from,
)
from chartloop.actions.arguments import arguments_of, data_check, is_described, type_spec
from chartloop.actions.signature import (
    Parameter,
    check_function,
    parameters_of,
    place_of,
    read_function,
)
from chartloop.core.errors import SetupError
from chartloop.core.facts import sections
from chartloop.core.specs import (
    ActionSpec,
    ArgSpec,
    DataUse,
    Effect,
    GuardSpec,
    PluginSpec,
    Registry,
    Supply,
    ToolSpec,
    TypeSpec,
)
from chartloop.core.traits import (
    ASKS_MODEL,
    BY_FIELDS,
    OUTSIDE,
    RUNS_CHILD,
    SURE,
    ActionTraits,
    StepType,
)
from chartloop.core.types import ANY, STR, Type

__all__ = [
    "ASKS_MODEL",
    "BY_FIELDS",
    "OUTSIDE",
    "RUNS_CHILD",
    "SURE",
    "ActionFacts",
    "ActionTraits",
    "Data",
    "Duration",
    "Field",
    "Fraction",
    "Name",
    "Texts",
    "Value",
    "Values",
    "Variables",
    "action",
    "action_spec",
    "guard",
    "guard_spec",
    "specs_of",
    "tool",
    "tool_spec",
    "type_from",
]

F = TypeVar("F", bound=Callable[..., Any])
W = TypeVar("W", bound=str)
Spec = ActionSpec | ToolSpec | GuardSpec | TypeSpec
EffectWord = Effect | Literal["pure", "local", "paid"]
Port = Literal["model", "sandbox", "notifier"]
Intents = Literal["run", "own", "careful"]
What = Literal["tool", "action", "guard"]

ATTRIBUTE = "__chartloop__"
"""The function attribute where a decorator stores a `Declared`."""


class Declared(NamedTuple):
    """The declaration of a function: its kind, and how to make its spec."""

    what: What
    make: Callable[[Callable[..., Any]], Spec]


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str = ...,
    effect: EffectWord = ...,
    memory: bool = ...,
    blocking: bool = ...,
    data: Mapping[str, str] = ...,
) -> Callable[[F], F]: ...
def tool(
    function: Any = None, /, *, name: str = "", effect: EffectWord = "paid", memory: bool = False,
    blocking: bool = True, data: Mapping[str, str] = MappingProxyType({}),
) -> Any:  # fmt: skip
    """Declare a function that a model may call. The parameters are those of `tool_spec`."""
    make = partial(
        tool_spec, name=name, effect=effect, memory=memory, blocking=blocking, data=data
    )  # fmt: skip
    return _declare(function, Declared("tool", make))


class MoreFacts(TypedDict, total=False):
    """What few actions decide; the built-in ones do."""

    within: float | None
    """The seconds that it may take at a state without `within`."""
    fields: type
    """A class whose annotations and docstring are the fields that it takes as ``**fields``."""
    needs: Supply | None
    needs_if: Callable[[Mapping[str, Any]], bool] | None
    supplies: Supply | Iterable[Supply]
    reads: str | Iterable[str]
    """The parts of the run whose text it reads: see `ActionTraits.reads`; by default any."""
    data: Mapping[str, str]
    """What it does with data, in the words of `DataUse.read`."""
    for_wait: bool
    intents: Intents
    """Who writes down that it begins: the run, the action for each of its calls itself, or the
    action with care: it also settles what is held, and its outcomes need no further check."""
    details: str
    """What the first line of the docstring leaves out, for `chartloop info actions`."""
    example: str
    """A state of a machine file that does it."""


class ActionFacts(MoreFacts, total=False):
    """What is decided of an action, besides its signature: see `action_spec`."""

    name: str
    work: bool
    effect: EffectWord
    changes: Iterable[str]
    suspends: bool | None
    uses: Port | Iterable[Port]
    result: Any
    traits: ActionTraits | None


@overload
def action(function: F, /) -> F: ...
@overload
def action(**facts: Unpack[ActionFacts]) -> Callable[[F], F]: ...
def action(  # noqa: PLR0913  as the reference shows it
    function: Any = None,
    /,
    *,
    name: str = "",
    work: bool = True,
    effect: EffectWord = "paid",
    changes: Iterable[str] = (),
    suspends: bool | None = None,
    uses: Port | Iterable[Port] = (),
    result: Any = None,
    traits: ActionTraits | None = None,
    **more: Unpack[MoreFacts],
) -> Any:
    """Declare an action that a state can do. The parameters are those of `action_spec`."""
    make = partial(
        action_spec, name=name, work=work, effect=effect, changes=_words(changes),
        suspends=suspends, uses=_words(uses), result=result, traits=traits, **more,
    )  # fmt: skip
    return _declare(function, Declared("action", make), takes_fields="fields" in more)


@overload
def guard(function: F, /) -> F: ...
@overload
def guard(*, name: str = ...) -> Callable[[F], F]: ...
def guard(function: Any = None, /, *, name: str = "") -> Any:
    """Declare a predicate that guards may call. See `guard_spec` for the requirements."""
    return _declare(function, Declared("guard", partial(guard_spec, name=name)))


def tool_spec(
    function: Callable[..., Any],
    *,
    name: str = "",
    effect: EffectWord = "paid",
    memory: bool = False,
    blocking: bool = True,
    data: Mapping[str, str] = MappingProxyType({}),
) -> ToolSpec:
    """Make the spec of a tool from a function.

    The docstring describes the tool and, in a section in Google, NumPy or Sphinx style, its
    arguments. If the first parameter is of type `Context`, it takes the context of the step and
    is not an argument. Arguments are parsed leniently (``"3"`` is 3); unknown ones are refused.

    `name` defaults to the function's name; `effect` is the effect of calling it twice; `memory`
    means that it edits memory blocks. `data` says what it does with data, in the words of
    `DataUse.read`: ``{"from": "untrusted"}``; a tool that says nothing makes answers about flows
    unknown.

    A plain function is called in another thread, so that it may block, and a deadline can end the
    wait for it. With ``blocking=False`` it must not block: it is called on the thread that drives
    the run, which saves up to 40 microseconds, and no deadline can cut it off.

    Raises:
        SetupError: if a parameter has no type, or a type that JSON cannot express.
    """
    signature = read_function(function, "tool")
    tool_name = _name(name or signature.name, signature.place, _TOOL_NAME)
    arguments = arguments_of(tool_name, signature.parameters, signature.place)
    return ToolSpec(
        tool_name,
        signature.about,
        arguments.schema,
        arguments.parse,
        function,
        blocking=blocking and not signature.is_async,
        suspends=blocking or signature.is_async,
        effect=_effect(effect, signature.place),
        memory=memory,
        wants_context=signature.context,
        data=_data(data, effect, signature.place),
        result=_returned(signature.returns),
    )


def _returned(annotation: Any) -> Type:
    """The type of a tool's result. One that returns nothing returns the text ``done``."""
    try:
        made = type_from(annotation)
    except Exception:  # noqa: BLE001 - a class may name what only type checkers import
        return ANY
    return STR if made.kind in ("none", "str") else made


def action_spec(function: Callable[..., Any], **facts: Unpack[ActionFacts]) -> ActionSpec:
    """Make the spec of an action from a function.

    The first parameter is the context of the step, the others are the fields of `with`: a `str`
    is a template; numbers, lists and mappings are expressions; a `Literal` is one of a few words;
    markers declare other notations.

    `work` distinguishes work from upkeep; `effect` is the effect of doing it twice; `changes` names
    the facts that its outcomes may change, e.g. ``vars.plan``; `suspends` tells whether it may
    yield to the event loop, by default whether it is a coroutine function; `uses` names the ports
    that it requires; `result` is the `Type` or an annotation of the result, by default the return
    annotation.

    `traits` are what the action promises, e.g. `ASKS_MODEL`: proofs rely on them, and assume the
    worst of an action without traits. `MoreFacts` has what few actions decide, such as `within`,
    its deadline in seconds if the state gives none.

    Raises:
        SetupError: if there is no context, or a field has a type that a file cannot express.
    """
    taken = facts.get("fields")
    signature = read_function(function, "action", context_first=True, fields=taken)
    place, given = signature.place, signature.parameters
    returned = signature.returns if facts.get("result") is None else facts.get("result")
    variables = next((v for p in given if (v := mark_of(p.annotation, Variables))), None)
    args = () if variables is not None else tuple(_field(p, place) for p in given)
    changes, uses = _changes(facts.get("changes", ()), place), _uses(facts.get("uses", ()), place)
    roles = {m.role: p for p in given if (m := mark_of(p.annotation, Field)) and m.role}
    named = {role: p.name for role, p in roles.items()}
    needs, intents = facts.get("needs"), facts.get("intents", "run")
    more: dict[str, Any] = {}
    if (traits := facts.get("traits")) is not None:
        step: StepType = (
            "llm-inference" if traits.asks == "reply"
            else "memory-update" if traits.calls == "memory"
            else "tool-call" if traits.calls in ("all", "first", "named")
            else "user-message" if needs == "task"
            else "system"
        )  # fmt: skip
        wait = (named["waits"], float(roles["waits"].default)) if "waits" in roles else None
        declared = replace(
            traits, step=step, waits=wait,
            continues=named.get("continues", ""), adopts=named.get("adopts", ""),
            reads_reply=needs == "reply" and variables is not None,
            reads=frozenset(_words(facts["reads"])) if "reads" in facts else None,
        )  # fmt: skip
        uses |= {"model"} if traits.asks == "reply" else EMPTY_SET
        changes |= {"run.continuations"} if "continues" in roles else EMPTY_SET
        more = {
            "declares": declared,
            "may_use": frozenset({"model"} - uses if traits.asks in ("text", "task") else ()),
            "may_wait": wait is not None or traits.runs != "none",
            "own_deadline": traits.runs in ("one", "several"),
            "leaves": traits.calls not in ("none", "task"),
        }
    if variables is not None:
        entry = () if variables.entry is None else parameters_of(variables.entry)
        more |= {
            "targets": variables.check, "target_kind": variables.kind,
            "entry": tuple(_field(p, place) for p in entry),
        }  # fmt: skip
    suspends = facts.get("suspends")
    return ActionSpec(
        _name(facts.get("name") or signature.name, place),
        function,
        args,
        result=returned if isinstance(returned, Type) else type_from(returned),
        work=facts.get("work", True),
        effect=_effect(facts.get("effect", "paid"), place),
        changes=changes,
        suspends=signature.is_async if suspends is None else suspends,
        uses=uses,
        within=facts.get("within"),
        repairs=named.get("repairs", ""),
        most_calls=named.get("most_calls", ""),
        needs=needs,
        needs_if=facts.get("needs_if"),
        supplies=frozenset(_words(facts.get("supplies", ()))),
        for_wait=facts.get("for_wait", False),
        own_intents=intents != "run",
        settles_itself=intents == "careful",
        sound=intents == "careful",
        about=signature.summary,
        details=facts.get("details", ""),
        example=facts.get("example", ""),
        data=_data(facts.get("data", {}), facts.get("effect", "paid"), place),
        **more,
    )


def guard_spec(function: Callable[..., bool], *, name: str = "") -> GuardSpec:
    """Make the spec of a guard from a predicate such as ``(plan: str) -> bool``.

    Raises:
        SetupError: if it is a coroutine function or may return anything but a bool, or if a
            parameter has a default or a type that no fact has.
    """
    signature = read_function(function, "guard")
    place = signature.place
    if signature.is_async or signature.context:
        wrong = "a coroutine function" if signature.is_async else "given the context"
        raise SetupError(f"{place}: a guard is not {wrong}", hint="it judges what it is given")
    if signature.returns is not bool:
        raise SetupError(f"{place}: a guard returns a bool", hint="annotate it `-> bool`")
    for p in signature.parameters:
        if not p.required or not has_word_for(p.annotation):
            wrong = "is of a type that no fact has" if p.required else "has a default"
            raise SetupError(f"{place}: parameter `{p.name}` of a guard {wrong}")
    params = tuple(type_from(p.annotation) for p in signature.parameters)
    return GuardSpec(_name(name or signature.name, place), params, function, signature.summary)


def specs_of(*sources: object, bare: What | None = None) -> Registry:
    """Collect the declarations of functions, specs, registries, modules and iterables of these.

    A module contributes the declared functions, specs and pydantic classes among its names.
    `bare` is the kind of a function without a decorator; None refuses it.

    Raises:
        SetupError: if two different declarations of one kind have the same name, or a source
            declares nothing.
    """
    entries: dict[type[Any], dict[str, Any]] = {kind: {} for kind in get_args(Spec)}
    plugins = dict.fromkeys(_plugins(sources))
    for spec in _specs(sources, bare):
        other = entries[type(spec)].setdefault(spec.name, spec)
        if other is not spec and _code(other) != _code(spec):
            kind = _KINDS[type(spec)]
            raise SetupError(
                f"two {kind} are called `{spec.name}`: {_where(other)} and {_where(spec)}",
                hint="rename one of them"
                if isinstance(spec, TypeSpec)
                else f'give one of them another name: `@{kind[:-1]}(name="...")`',
            )
    return Registry(
        entries[ActionSpec], entries[ToolSpec], entries[GuardSpec], types=entries[TypeSpec],
        plugins=tuple(plugins),
    )  # fmt: skip


def _plugins(source: object) -> Iterator[PluginSpec]:
    """The plugins of the registries among the sources."""
    if isinstance(source, Registry):
        yield from source.plugins
    elif isinstance(source, (list, tuple)):
        for one in cast("Iterable[object]", source):
            yield from _plugins(one)


_KINDS = {ActionSpec: "actions", ToolSpec: "tools", GuardSpec: "guards", TypeSpec: "classes"}


def _declare(function: Any, declared: Declared, *, takes_fields: bool = False) -> Any:
    def mark(target: F) -> F:
        check_function(target, declared.what, takes_fields=takes_fields)
        if earlier := _declaration_of(target):
            hint = f"make the second spec by hand: `{declared.what}_spec(...)`"
            raise SetupError(f"{place_of(target)} is already a {earlier.what}", hint=hint)
        setattr(target, ATTRIBUTE, declared)
        return target

    return mark if function is None else mark(function)


def _declaration_of(thing: object) -> Declared | None:
    """The declaration that a decorator stored on a function, read without running any code."""
    function = thing.__func__ if inspect.ismethod(thing) else thing
    value = inspect.getattr_static(function, ATTRIBUTE, None)
    return value if isinstance(value, Declared) and inspect.isroutine(thing) else None


_MAKERS: dict[What, Callable[[Callable[..., Any]], Spec]] = {
    "tool": tool_spec,
    "action": action_spec,
    "guard": guard_spec,
}


def _specs(source: object, bare: What | None) -> Iterator[Spec]:
    if isinstance(source, Spec):
        yield source
    elif isinstance(source, Registry):
        for named in (source.actions, source.tools, source.guards, source.types):
            yield from named.values()
    elif isinstance(source, ModuleType):
        for thing in vars(source).values():
            if isinstance(thing, Spec) or _declaration_of(thing) or is_described(thing):
                yield from _specs(thing, None)
    elif is_described(source):
        assert isinstance(source, type)
        yield type_spec(source)
    elif inspect.isroutine(source):
        declared = _declaration_of(source)
        if declared is None and bare is None:
            hint = "decorate it with `@tool`, `@action` or `@guard`"
            raise SetupError(f"{place_of(source)} declares nothing", hint=hint)
        yield declared.make(source) if declared else _MAKERS[bare or "tool"](source)
    elif isinstance(source, Iterable) and not isinstance(source, (str, bytes)):
        for thing in source:  # pyright: ignore[reportUnknownVariableType]
            yield from _specs(thing, bare)  # pyright: ignore[reportUnknownArgumentType]
    else:
        hint = "give functions, modules, or lists of them"
        raise SetupError(f"{str(source)[:80]!r} declares nothing", hint=hint)


def _code(spec: Spec) -> Any:
    """The function or class behind a spec; specs with the same one count as the same."""
    if isinstance(spec, TypeSpec):
        return spec.source
    return spec.run if isinstance(spec, ActionSpec) else spec.call


def _where(spec: Spec) -> str:
    return "an action without a function" if _code(spec) is None else place_of(_code(spec))


EMPTY_SET = frozenset[str]()
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The function names that providers accept."""


def _name(name: str, place: str, allowed: re.Pattern[str] = _NAME) -> str:
    if not allowed.fullmatch(name):
        hint = "up to 64 letters, digits and underscores; give it another with `name=`"
        raise SetupError(f"{place}: `{name[:80]}` cannot be a name in a machine", hint=hint)
    return name


def _effect(word: EffectWord, place: str) -> Effect:
    try:
        return Effect(word)
    except ValueError:
        raise SetupError(f"{place}: an effect is `pure`, `local` or `paid`, not {word!r}") from None


def _data(words: Mapping[str, str], effect: EffectWord, place: str) -> DataUse:
    """What a function does with data, checked."""
    try:
        use = DataUse.read(words)
    except ValueError as error:
        raise SetupError(f"{place}: {error}") from None
    if effect == Effect.PURE and use.sends == "out":
        hint = "what sends something is `local` or `paid`"
        raise SetupError(f"{place}: what is pure sends nothing", hint=hint)
    return use


def _words(words: W | Iterable[W]) -> tuple[W, ...]:
    """Words as a tuple; a single word may be passed alone."""
    all_words: Iterable[Any] = (words,) if isinstance(words, str) else words
    return tuple(all_words)


def _changes(names: Iterable[str], place: str) -> frozenset[str]:
    """The facts that an action changes, checked."""
    facts = frozenset(_words(names))
    roots = {*sections(), "memory", "vars"}
    for name in sorted(facts):
        root, _, field = name.partition(".")
        if root not in roots or not (field == "*" or _NAME.fullmatch(field)):
            hint = "name facts: `vars.plan`, `memory.persona`, `queue.size`"
            raise SetupError(f"{place}: an action cannot change `{name}`", hint=hint)
    return facts


def _uses(ports: Port | Iterable[Port], place: str) -> frozenset[str]:
    used = frozenset(_words(ports))
    if unknown := sorted(used - set(get_args(Port))):
        hint = f"the ports are {', '.join(get_args(Port))}"
        raise SetupError(f"{place}: an action cannot use `{unknown[0]}`", hint=hint)
    return used


def _field(p: Parameter, place: str) -> ArgSpec:
    meaning, said = meaning_of(p.annotation), mark_of(p.annotation, Field) or Field()
    if meaning is None:
        raise SetupError(
            f"{place}: parameter `{p.name}` is of a type that a file cannot write",
            hint=f"say how it is written: `{p.name}: Annotated[..., Data]`, or `Value` for an"
            " expression",
        )
    by_type = meaning.kind == "data" and said.kind is None
    return ArgSpec(
        p.name,
        meaning.kind,
        meaning.type,
        p.required,
        None if p.required else p.default,
        p.about or said.about,
        meaning.choices,
        meaning.names,
        data_check(p, place) if by_type else said.check,
        () if said.fields is None else tuple(_field(q, place) for q in parameters_of(said.fields)),
        said.needs,
        said.at_least,
        said.arguments_of,
    )
