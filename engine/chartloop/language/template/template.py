r"""Templates of prompts and texts; only this module imports Jinja2.

A template reads facts and renders text. It cannot call, import or define anything, and its length,
output and work are bounded, so that an untrusted file is safe to load and to run. The allowed
syntax is in `template_check`, the filters are in `filters`.

- `{{ fact }}` prints a value: None as nothing, lists and maps as JSON.
- `{% if %}`, one level of `{% for %}` with `loop.index`, `loop.first`, `loop.last`.
- A key that a map does not have is an error with the key's name; `| default("")` takes its place.
- Text is kept as written, its last line end too; only `\r\n` becomes `\n` where there are tags.

Jinja2 is imported when the first template with a tag is parsed.

Source: `docs/language.md`, "The file"; `docs/reference/actions.md`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from chartloop.core.types import Type
from chartloop.language.template.filters import (
    FILTERS,
    MISSING,
    Meter,
    check_length,
    each,
    index,
    look_up,
    missing,
    show,
    size,
)
from chartloop.language.template.template_check import (
    TESTS,
    Checker,
    Doubt,
    Moment,
    TemplateFault,
    Token,
)

__all__ = ["MAX_TEXT", "Doubt", "Moment", "Template", "TemplateFault", "doubts", "parse"]

MAX_TEXT = 100_000
"""The most characters of a template."""

_TAG = re.compile(r"\{[{%#]")
_METER = "_meter"
"""The name of the meter among the values of a rendering: private, so no template reads it."""

_SILENT = frozenset("whitespace comment_begin comment comment_end raw_begin raw_end".split())
"""Kinds of tokens that the lexer yields and the parser never gets."""
_FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The exceptions of an operation on unsuitable values."""


@dataclass(frozen=True)
class Template:
    """A text with placeholders for facts. Compared and pickled by its text.

    Made by `parse`. The first rendering checks the syntax again, in case it was made otherwise.
    """

    text: str
    reads: frozenset[str] = field(default=frozenset(), compare=False)
    """The dotted paths of the facts that it reads: `errors.last.message`."""

    @cached_property
    def constant(self) -> bool:
        """Whether it has no tags and renders as written."""
        return _TAG.search(self.text) is None

    def render(self, names: Mapping[str, Any]) -> str:
        """Render with the values of `names`, the sections of facts by root name.

        Raises `ValueError` for a missing value, more than 1,000,000 characters of text, too much
        work, or an operation on unsuitable values.
        """
        if self.constant:
            return self.text
        program = self._program
        pieces: list[str] = []
        length = 0
        try:
            context = program.new_context({**names, _METER: Meter()})
            for piece in program.root_render_func(context):
                length += len(piece)
                check_length(length)
                pieces.append(piece)
        except RecursionError:
            raise ValueError(
                "the template cannot be filled in: a value is nested too deeply"
            ) from None
        except (*_FAULTS, _jinja2().TemplateError) as error:
            raise ValueError(f"the template cannot be filled in: {error}") from None
        return "".join(pieces)

    @cached_property
    def _program(self) -> Any:
        tree, _ = _parse_checked(self.text, None)
        nodes = _jinja2().nodes
        for loop in tree.find_all(nodes.For):
            cost = sum(1 for _ in loop.find_all(nodes.Node))
            loop.iter = _charge(loop.iter, "_each", nodes.Const(cost, lineno=loop.lineno))
        for item in list(tree.find_all(nodes.Getitem)):
            arg = item.arg  # a negative literal counts from the end
            negative = type(arg).__name__ == "Neg" and type(arg.node).__name__ == "Const"
            if not isinstance(arg, nodes.Const) and not negative:
                item.arg = _charge(arg, "_index")
        # Operators are charged for the length of their operands: they compare or join texts.
        for node in list(tree.find_all((nodes.Compare, nodes.Operand, nodes.Concat, nodes.Add))):
            match type(node).__name__:
                case "Compare" | "Operand":
                    node.expr = _charge(node.expr, "_weigh")
                case "Concat":
                    node.nodes = [_charge(part, "_weigh") for part in node.nodes]
                case _:
                    node.left = _charge(node.left, "_weigh")
                    node.right = _charge(node.right, "_weigh")
        return _environment().from_string(tree)

    def __reduce__(self) -> tuple[type[Template], tuple[str, frozenset[str]]]:
        return (Template, (self.text, self.reads))


def parse(
    text: str, roots: Mapping[str, Type], *, extra: Mapping[str, Type] | None = None
) -> Template:
    """Check a template against the existing facts.

    `roots` are the sections of facts by name, `extra` further names with their types. Raises
    `TemplateFault`: CL103 for a fact that does not exist, CL406 for anything else.
    """
    if len(text) > MAX_TEXT:
        message = f"a template of more than {MAX_TEXT:,} characters"
        raise TemplateFault("CL406", message, "shorten it", 0, 1)
    if _TAG.search(text) is None:
        return Template(text)
    _, reads = _parse_checked(text, {**roots, **(extra or {})})
    return Template(text, reads)


def doubts(template: Template, names: Mapping[str, Type], moment: Moment) -> tuple[Doubt, ...]:
    """Return the parts of a template that may fail, or always do, with what is known then.

    `names` are the types by root name that it was parsed with.
    """
    tokens = list(_tokens(template.text))
    checker = Checker(tokens, names, moment)
    try:
        checker.check(_tree(template.text, tokens))
    except TemplateFault as fault:  # of a type that is only known at this moment
        found = (*checker.doubts.values(), *checker.doubt_of(fault))
        return tuple(found)
    return tuple(checker.doubts.values())


def _parse_checked(text: str, names: Mapping[str, Type] | None) -> tuple[Any, frozenset[str]]:
    tokens = list(_tokens(text))
    tree = _tree(text, tokens)
    checker = Checker(tokens, names)
    checker.check(tree)
    return tree, frozenset(checker.reads)


def _tokens(text: str) -> Iterator[Token]:
    """The tokens of a template with their offsets, numbered as in Jinja2's parser."""
    at = 0
    try:
        for _, kind, value in _environment().lex(text):
            start = text.find(value, at)
            if start >= 0:
                at = start + len(value)
            if kind not in _SILENT:
                yield Token(value, max(0, start))
    except _jinja2().TemplateSyntaxError as error:
        raise _unreadable(error.message, Token(text[at : at + 1], at)) from None


def _tree(text: str, tokens: list[Token]) -> Any:
    try:
        return _environment().parse(text)
    except _jinja2().TemplateSyntaxError as error:
        number = min(max(0, error.lineno), len(tokens) - 1)
        raise _unreadable(error.message, tokens[number]) from None
    except RecursionError:
        raise _unreadable("nested too deeply", tokens[0]) from None
    except ValueError:
        raise _unreadable("a number of too many digits", tokens[0]) from None


def _unreadable(why: str, token: Token) -> TemplateFault:
    message = f"the template cannot be read: {why[:1].lower()}{why[1:].rstrip('.')}"
    hint = "to print `{{` or `{%` itself, put it between `{% raw %}` and `{% endraw %}`"
    if "end of template" in why:
        hint = "close it with `}}`, `{% endif %}` or `{% endfor %}`"
    elif "unknown tag" in why:
        hint = "templates have `{% if %}` and one level of `{% for %}`"
    return TemplateFault("CL406", message, hint, token.offset, len(token.text))


def _charge(node: Any, name: str, *args: Any) -> Any:
    return _jinja2().nodes.Filter(node, name, [*args], [], None, None, lineno=node.lineno)


@cache
def _jinja2() -> Any:
    """Jinja2, imported on demand: that takes 30 ms, and most texts have no tags."""
    import jinja2  # noqa: PLC0415

    return jinja2


@cache
def _environment() -> Any:
    """A sandbox with only the names that `template_check` allows."""
    jinja2 = _jinja2()
    environment = _sandbox()(
        autoescape=False,  # the texts are prompts, not HTML
        extensions=[_numbering()],
        finalize=show,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.clear()
    environment.tests = {name: environment.tests[name] for name in TESTS}
    environment.filters = {name: _filter(name, spec.call) for name, spec in FILTERS.items()}
    environment.filters |= {
        "_each": _filter("_each", each),
        "_index": _filter("_index", index),
        "_weigh": _filter("_weigh", Meter.weigh),
    }
    return environment


def _filter(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """A filter for Jinja2 that charges for its input and output."""
    jinja2 = _jinja2()

    @jinja2.pass_context
    def run(context: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(value, jinja2.Undefined):
            value = None if name == "default" else str(value)  # raises the explaining error
        meter: Meter = context[_METER]
        meter.weigh(value)
        result = call(meter, value, *args, **kwargs)
        check_length(size(result))
        return meter.weigh(result)

    return run


def _numbering() -> type[Any]:
    """An extension that replaces the line of each token by its number.

    The nodes of the tree then have an exact place, not only a line.
    """
    from jinja2 import TemplateSyntaxError  # noqa: PLC0415
    from jinja2.ext import Extension  # noqa: PLC0415
    from jinja2.lexer import Token as Lexed  # noqa: PLC0415

    class Numbering(Extension):
        def filter_stream(self, stream: Iterable[Lexed]) -> Iterator[Lexed]:
            number = -1
            try:
                for number, token in enumerate(stream):
                    yield token._replace(lineno=number)
            except TemplateSyntaxError as error:
                error.lineno = number + 2  # the stream reads one ahead
                raise

    return Numbering


def _sandbox() -> type[Any]:
    """Jinja2's sandbox, restricted to data: map keys, list indices, fields of records."""
    from jinja2 import Undefined  # noqa: PLC0415
    from jinja2.runtime import LoopContext  # noqa: PLC0415
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415

    class Sandbox(SandboxedEnvironment):
        def getattr(self, obj: Any, attribute: str) -> Any:
            return self.getitem(obj, attribute)

        def getitem(self, obj: Any, argument: Any) -> Any:
            if isinstance(obj, Undefined):
                return obj  # a field of a missing value is missing too
            value = look_up(obj, argument)
            if value is not MISSING:
                return value
            if isinstance(obj, LoopContext):
                return super().getattr(obj, argument)
            return self.undefined(missing(obj, argument))

    return Sandbox
