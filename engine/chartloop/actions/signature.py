"""The signature of a Python function: its parameters, their types, its docstring.

Belongs here: reading functions, and refusing those that cannot be called by name. Never: the specs
of tools, actions or guards.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from chartloop.core.errors import SetupError

MISSING = inspect.Parameter.empty
"""Stands for a missing default and for a missing annotation."""


class Parameter(NamedTuple):
    """A named parameter."""

    name: str
    annotation: Any
    default: Any
    about: str
    """Its description in the docstring."""

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is MISSING


class Signature(NamedTuple):
    """The signature of a function, without the parameter that takes the context."""

    name: str
    place: str
    """The qualified name, for messages: ``package.module.function``."""
    about: str
    """The docstring without its sections."""
    parameters: tuple[Parameter, ...]
    returns: Any
    context: bool
    """Whether its first parameter takes the context of the step."""
    is_async: bool

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, on one line."""
        return " ".join(self.about.partition("\n\n")[0].split())


def place_of(function: Any) -> str:
    """The qualified name of a function, for messages."""
    module: str = getattr(function, "__module__", None) or ""
    name: str = getattr(function, "__qualname__", None) or repr(function)
    return f"{module}.{name}".removeprefix(".")


def check_function(
    function: Any, what: str, *, takes_fields: bool = False
) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function that can be called by name.

    With `takes_fields` it may also have ``**fields``, which is left out.

    Raises:
        SetupError: if it is not a function, yields, or has a parameter that cannot be passed by
            name. `what` is the kind of its declaration: tool, action, guard.
    """
    place = place_of(function)
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        hint = f"decorate a function; `@staticmethod` and the like go above `@{what}`"
        raise SetupError(f"{place}: not a function, so it cannot be a {what}", hint=hint)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SetupError(f"{place}: a {what} returns its result", hint="replace `yield`")
    parameters = dict(inspect.signature(function).parameters)
    for name, parameter in [*parameters.items()]:
        if takes_fields and parameter.kind is inspect.Parameter.VAR_KEYWORD:
            del parameters[name]
            continue
        if stars := _UNNAMED.get(parameter.kind):
            raise SetupError(
                f"{place}: parameter `{stars.format(name)}` cannot be given by name,"
                f" and a {what} is called by name",
                hint="write each parameter out, without `*`, `**` and `/`",
            )
    return parameters


_UNNAMED = {
    inspect.Parameter.VAR_POSITIONAL: "*{}",
    inspect.Parameter.VAR_KEYWORD: "**{}",
    inspect.Parameter.POSITIONAL_ONLY: "{}, /",
}


def is_context(annotation: Any) -> bool:
    """Whether an annotation is the context of a step, `chartloop.run.context.Context`.

    Decided by the name, because the class may be imported for type checkers only.
    """
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.strip("\"' ").rpartition(".")[2] == "Context"


def read_function(
    function: Callable[..., Any], what: str, *, context_first: bool = False,
    fields: type | None = None,
) -> Signature:  # fmt: skip
    """Read the signature of a function.

    With `context_first` the first parameter takes the context, whatever its annotation. `fields`
    is a class whose fields it takes, by parameters of these names or as ``**fields``.

    Raises:
        SetupError: as `check_function`; also if a parameter has no type or one that cannot be
            resolved, or if the context is not the first parameter.
    """
    place = place_of(function)
    parameters = dict(check_function(function, what, takes_fields=fields is not None))
    context = _context(parameters, place, what, context_first)
    parameters.pop(context or "", None)
    more = () if fields is None else parameters_of(fields)
    for one in more:
        parameters.pop(one.name, None)
    about, docs = read_docs(function.__doc__ or "")
    hints = _hints(function, {*parameters, "return"}, place)
    for name, parameter in parameters.items():
        if parameter.annotation is MISSING:
            hint = f"write `{name}: str`, or what it is"
            raise SetupError(f"{place}: parameter `{name}` of a {what} has no type", hint=hint)
    return Signature(
        function.__name__,
        place,
        about,
        (
            *(Parameter(n, hints[n], p.default, docs.get(n, "")) for n, p in parameters.items()),
            *more,
        ),
        hints.get("return", Any),
        context is not None,
        inspect.iscoroutinefunction(function),
    )


def parameters_of(fields: type) -> tuple[Parameter, ...]:
    """The fields of a class, such as a TypedDict or a Struct, as parameters."""
    hints = typing.get_type_hints(fields, include_extras=True)
    required: Collection[str] | None = getattr(fields, "__required_keys__", None)
    docs = read_docs(fields.__doc__ or "")[1]
    if required is not None:
        # `__required_keys__` is wrong under `from __future__ import annotations`
        said = {typing.Required: True, typing.NotRequired: False}
        defaults = {
            name: MISSING if said.get(typing.get_origin(hint), name in required) else None
            for name, hint in hints.items()
        }
    else:
        defaults = {n: p.default for n, p in inspect.signature(fields).parameters.items()}
    return tuple(Parameter(n, hints[n], d, docs.get(n, "")) for n, d in defaults.items())


def _context(
    parameters: Mapping[str, inspect.Parameter], place: str, what: str, context_first: bool
) -> str | None:
    """The name of the parameter that takes the context; None if there is none."""
    first, *rest = parameters or ("",)
    if first == "self" and parameters[first].annotation is MISSING:
        raise SetupError(f"{place}: a method without its object", hint="pass the method of one")
    for name in rest:
        if is_context(parameters[name].annotation):
            hint = f"write `({name}: Context, {first}, ...)`"
            raise SetupError(f"{place}: the context `{name}` is not the first parameter", hint=hint)
    annotation = parameters[first].annotation if first else MISSING
    if is_context(annotation):
        return first
    if not context_first:
        return None
    if not first or first.strip("_") not in ("", "ctx", "context"):
        hint = f"write `({', '.join(['ctx', *parameters])})`"
        raise SetupError(f"{place}: the first parameter of an {what} is the context", hint=hint)
    return first


def _hints(function: Any, wanted: Collection[str], place: str) -> dict[str, Any]:
    """The resolved annotations of the `wanted` names; that of the context may be unresolvable."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    written = {n: a for n, a in inner.__annotations__.items() if n in wanted}
    hints: dict[str, Any] = {}
    for name, annotation in written.items():
        holder = SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= typing.get_type_hints(holder, inner.__globals__, include_extras=True)
        except Exception as error:
            part = "what it returns" if name == "return" else f"parameter `{name}`"
            message = f"{place}: the type of {part}, `{annotation}`, cannot be found: {error}"
            hint = "import or define it in the module of the function, outside `if TYPE_CHECKING`"
            raise SetupError(message, hint=hint) from error
    return hints


_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Params|Other Parameters|Keyword Args|Attributes|Returns?|Raises"
    r"|Yields?|Examples?|Notes?|Warnings?|Warns|See Also|References):"
)
_RULE = re.compile(r"-{3,}\s*")
_ARGUMENTS = ("Args", "Arguments", "Parameters", "Params", "Other Parameters", "Keyword Args")
_GOOGLE = re.compile(r"\*{0,2}(?P<names>\w+)\s*(?:\(.*?\))?:(?P<text>.*)")
_NUMPY = re.compile(r"(?P<names>\*{0,2}\w+(?:, *\*{0,2}\w+)*)(?: *:.*)?(?P<text>)")
_SPHINX = re.compile(r":(?:param|parameter|arg|argument)\s(?:[^:]*\s)?(?P<names>\w+):(?P<text>.*)")
_FIELD = re.compile(r":(?:returns?|rtype|raises?|yields?|type|meta)\b[^:]*:")


def read_docs(doc: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into its text and the descriptions of its parameters.

    The argument section may have Google, NumPy or Sphinx style; other sections are dropped.
    """
    about, docs = "", dict[str, str]()
    for title, entry, body in _sections(inspect.cleandoc(doc).splitlines()):
        if not title:
            about = "\n".join(body).strip()
        elif title in _ARGUMENTS:
            docs |= _entries(textwrap.dedent("\n".join(body)).splitlines(), entry)
    return about, docs


def _sections(lines: Sequence[str]) -> Iterator[tuple[str, re.Pattern[str], list[str]]]:
    """The sections of a docstring: title, pattern of an entry, lines. The first has no title."""
    title, entry, body = "", _GOOGLE, list[str]()
    for line, below in zip(lines, [*lines[1:], ""], strict=False):
        heading = _title(line, below)
        if heading is not None and heading != (title, entry):
            yield title, entry, body
            (title, entry), body = heading, []
        if heading is None or heading[1] is _SPHINX:
            body.append(line)
    yield title, entry, body


def _title(line: str, below: str) -> tuple[str, re.Pattern[str]] | None:
    """The section that a line starts, or that a Sphinx field belongs to; else None."""
    if _SPHINX.match(line):
        return "Args", _SPHINX
    if _FIELD.match(line):
        return line, _SPHINX
    if match := _SECTION.fullmatch(line.rstrip()):
        return match[1], _GOOGLE
    if line[:1].strip() and _RULE.fullmatch(below):
        return line.strip(), _NUMPY
    return None


def _entries(lines: Sequence[str], entry: re.Pattern[str]) -> dict[str, str]:
    """The entries of an argument section; an indented line continues the entry before it."""
    texts: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        if match := entry.fullmatch(line):
            names = re.findall(r"\w+", match["names"])
            texts |= {name: [match["text"]] for name in names}
        elif line[:1].strip():
            names = []
        else:
            for name in names:
                texts[name].append(line)
    return {name: " ".join(" ".join(text).split()) for name, text in texts.items()}
