"""Parsing of text to Python's syntax tree, within bounds, and the places of its nodes.

`ast.parse` neither compiles nor runs anything. Text that would make it warn, hang or drop
characters (control characters, odd escapes, comments, numbers joined to words, deep brackets) is
refused beforehand.

Belongs here: bounds, and hints about the syntax of other languages. Never: names, types.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable
from typing import NamedTuple

from chartloop.core.units import parse_duration
from chartloop.language.expression.scope import ExpressionFault

MAX_CHARS = 2_000
MAX_NODES = 300
MAX_DEPTH = 40
MAX_INLINED = 3_000
"""The most nodes with all definitions inlined, which bounds the cost of an evaluation."""


class Source:
    """A text with the places of its nodes."""

    __slots__ = ("_bytes", "_lead", "body", "text")

    def __init__(self, text: str, body: str, lead: int) -> None:
        self.text = text
        self.body = body
        """The text on one line and stripped, as `ast` parsed it."""
        self._lead = lead
        self._bytes = None if body.isascii() else body.encode()

    def _char(self, column: int) -> int:
        # ast counts columns in bytes of UTF-8
        return column if self._bytes is None else len(self._bytes[:column].decode())

    def slice(self, node: ast.expr) -> str:
        """The text of a node."""
        end = node.end_col_offset or node.col_offset
        return self.body[self._char(node.col_offset) : self._char(end)]

    def fault(self, code: str, message: str, node: ast.expr, *, hint: str = "") -> ExpressionFault:
        """A fault at a node."""
        start = self._char(node.col_offset)
        width = self._char(node.end_col_offset or node.col_offset) - start
        return self.at(code, message, start, width, hint=hint)

    def at(
        self, code: str, message: str, start: int, width: int, *, hint: str = ""
    ) -> ExpressionFault:
        """A fault at a place of `body`."""
        return ExpressionFault(
            code, message, hint=hint, offset=self._lead + start, width=max(1, width)
        )


def read(text: str) -> tuple[ast.expr, Source]:
    """Parse a text to a syntax tree, of which only the size is checked.

    Raises `ExpressionFault` with CL101, CL107 or CL113.
    """
    if len(text) > MAX_CHARS:
        raise ExpressionFault(
            "CL107",
            f"the expression has {len(text):,} characters; {MAX_CHARS:,} are allowed",
            hint="name parts of it under `define`",
            width=MAX_CHARS,
        )
    odd = _ODD.search(text) is not None
    if odd and (control := _CONTROL.search(text)):
        message = f"the character U+{ord(control[0]):04X} is not allowed in an expression"
        raise ExpressionFault("CL101", message, offset=control.start())
    line = text.translate(_ONE_LINE) if odd else text
    body = line.strip(" ")
    source = Source(text, body, len(line) - len(line.lstrip(" ")))
    if not body:
        raise ExpressionFault("CL101", "the expression is empty")
    if odd:
        _refuse_odd(source)
    _refuse_nesting(source)
    try:
        return ast.parse(body, mode="eval").body, source
    except SyntaxError as error:
        raise _explain(error, source) from None
    except ValueError as error:
        raise source.at("CL101", f"cannot be read: {error}", 0, len(body)) from None
    except (RecursionError, MemoryError):
        raise source.at("CL107", "nested too deeply", 0, len(body)) from None


_ONE_LINE = dict.fromkeys(map(ord, "\n\r\t"), " ")
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_ODD = re.compile(r"[#\\\x00-\x1f\x7f]|[^\x00-\x7f]|\d[A-Za-z]|\d\.[A-Za-z]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(.?)")
_ESCAPES = frozenset("\\\"'nrtuUx")
_GLUED = re.compile(
    r"(?<![\w.])0[xXoObB]"
    r"|(?:(?<![\w.])\d[\d_]*+\.?+[\d_]*+|\.\d[\d_]*+)(?:[eE][+-]?[\d_]++)?[jJ]?"
    r"(?:and|or|if|else|in|is|not|for)"
)
_SIGNS = {
    "≥": "`>=`", "≤": "`<=`", "≠": "`!=`", "×": "`*`", "÷": "`/`", "−": "`-`", "–": "`-`",
    "“": '`"`', "”": '`"`', "„": '`"`', "‘": "`'`", "’": "`'`", "\xa0": "a plain blank",
}  # fmt: skip


def mask_strings(body: str) -> str:
    """Replace string literals by blanks, without changing any column."""
    if '"' not in body and "'" not in body:
        return body
    return _STRINGS.sub(lambda m: '"' + " " * (len(m[0]) - 2) + '"', body)


def _refuse_odd(source: Source) -> None:
    body = source.body
    for match in _ESCAPE.finditer(body):
        if match[1] not in _ESCAPES:
            raise source.at(
                "CL101",
                f"the escape `{match[0]}` is not known",
                match.start(),
                len(match[0]),
                hint=r"write `\\` for a backslash",
            )
    bare = mask_strings(body)
    for match in re.finditer(r"[^\x00-\x7f]", bare):
        hint = _SIGNS.get(match[0])
        raise source.at(
            "CL101",
            f"`{match[0]}` is allowed only inside quoted text",
            match.start(),
            1,
            hint=f"write {hint}" if hint else "",
        )
    if "#" in bare:
        at = bare.index("#")
        raise source.at(
            "CL101",
            "an expression has no comments",
            at,
            len(body) - at,
            hint="write the comment after the value in YAML",
        )
    if match := _GLUED.search(bare):
        raise source.at(
            "CL101",
            f"`{match[0]}` is not a number",
            match.start(),
            len(match[0]),
            hint="write decimal numbers, with a blank before the next word",
        )
    for quoted in _STRINGS.finditer(source.text):
        if "\n" in quoted[0] or "\r" in quoted[0]:
            raise source.at("CL101", "a quoted text ends on its line", 0, len(body))


def _refuse_nesting(source: Source) -> None:
    body = source.body
    if body.count("(") + body.count("[") + body.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for at, sign in enumerate(mask_strings(body)):
        depth += (sign in "([{") - (sign in ")]}")
        if depth > MAX_DEPTH:
            raise source.at("CL107", f"nested more than {MAX_DEPTH} levels deep", at, 1)


class _Slip(NamedTuple):
    """A common mistake from another language, with its hint."""

    pattern: re.Pattern[str]
    message: str
    hint: str | Callable[[re.Match[str]], str]
    code: str = "CL101"


def _slip(
    pattern: str, message: str, hint: str | Callable[[re.Match[str]], str], code: str = "CL101"
) -> _Slip:
    return _Slip(re.compile(pattern), message, hint, code)


def _share(match: re.Match[str]) -> str:
    return f"write `{float(match[1]) / 100:g}`, or compare with a limit of `{match[1]}%`"


def _duration(match: re.Match[str]) -> str:
    text = match[0]
    return f'write `duration("{text}")`' if parse_duration(text) is not None else ""


_KEYWORDS = "|".join(keyword.kwlist)
_SLIPS = (
    _slip(r"&&", "`&&` is not an operator here", "write `and`"),
    _slip(r"\|\|", "`||` is not an operator here", "write `or`"),
    _slip(r"[!=]==", "there is no such operator", lambda m: f"write `{m[0][:2]}`"),
    _slip(r"!(?!=)", "`!` is not an operator here", "write `not`"),
    _slip(r"<>", "`<>` is not an operator here", "write `!=`"),
    _slip(r"=>", "`=>` is not an operator here", "write `>=`"),
    _slip(r"=<", "`=<` is not an operator here", "write `<=`"),
    _slip(
        r"(?<![\w.])(?:AND|OR|NOT|IN|IS|And|Or|Not|IF|ELSE)(?!\w)",
        "operators are written in small letters",
        lambda m: f"write `{m[0].lower()}`",
    ),
    _slip(r"(?<![=!<>:])=(?!=)", "`=` does not compare", "write `==`"),
    _slip(
        r"(?<![\w.])(\d+(?:\.\d+)?)\s*%(?=\s*(?:$|[)\],]|and\b|or\b|if\b|else\b))",
        "`%` is the remainder of a division here",
        _share,
    ),
    _slip(
        r"(?<![\w.])(?:\d+(?:\.\d+)?(?:ms|[dhms]))+\b",
        "a duration needs its function",
        _duration,
    ),
    _slip(
        r"\{\{|\}\}|\$\{|\$",
        "an expression is not a template",
        "write the name of the fact alone",
    ),
    _slip(
        r"(?<![\w.])0[\d_]*[1-9]\d*",
        "a number does not start with 0",
        lambda m: f"write `{int(m[0].replace('_', ''))}`",
    ),
    _slip(r"\?", "`? :` is not an operator here", "write `x if condition else y`"),
    _slip(
        rf"\.({_KEYWORDS})(?!\w)",
        "this name is a word of the language",
        lambda m: f'write `["{m[1]}"]` in place of `.{m[1]}`',
    ),
    _slip(r"^\s*if\b", "a guard is the condition alone", "leave `if` out"),
    _slip(r"\bthen\b", "there is no `then` in an expression", "write `x if condition else y`"),
    _slip(r"\b(?:contains|matches)\b", "there is no such operator", 'write `"word" in last.text`'),
    _slip(r";", "an expression is one line of one value", ""),
)  # fmt: skip
_WORDS = re.compile(r"[A-Za-z][\w'-]*(?:[,.!]? [A-Za-z][\w'-]*)+[.!]?")


def _explain(error: SyntaxError, source: Source) -> ExpressionFault:
    body = source.body
    bare = mask_strings(body)
    for slip in _SLIPS:
        if match := slip.pattern.search(bare):
            hint = slip.hint if isinstance(slip.hint, str) else slip.hint(match)
            return source.at(slip.code, slip.message, match.start(), len(match[0]), hint=hint)
    if _WORDS.fullmatch(body):
        return source.at(
            "CL113", f"`{body}` reads as bare words", 0, len(body), hint=f"write '\"{body}\"'"
        )
    start = min(max(0, (error.offset or 1) - 1), len(body) - 1)
    end = (error.end_offset or 0) - 1 if error.end_lineno == error.lineno else 0
    message = (error.msg or "invalid syntax").removesuffix(". Perhaps you forgot a comma?")
    return source.at("CL101", f"cannot be read: {message}", start, min(end, len(body)) - start)
