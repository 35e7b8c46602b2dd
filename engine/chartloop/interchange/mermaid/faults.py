"""The messages for faults of a Mermaid text.

Belongs here: the wording of faults and their cures. Never: finding them (`grammar`, `lexer`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from chartloop.interchange.mermaid.chains import read_chain
from chartloop.interchange.mermaid.lexer import END, Token
from chartloop.interchange.mermaid.source import STRIPPED, Source

NO_CHART = "this is not a Mermaid flowchart"
FIRST_LINE = "the first line is `flowchart TD`, or `graph TD`"
QUOTE_IT = "put the label in quotes"

_CLOSING = dict(
    pair.split()
    for pair in (
        *("[ ]", "( )", "{ }", "([ ])", "(( ))", "[[ ]]", "{{ }}", "> ]", "((( )))", "[( )]"),
        *("(- -)", "[/ /]", "[\\ \\]", "| |", "[| ]"),
    )
)
_KEYWORDS = frozenset(
    "STYLE LINKSTYLE INTERPOLATE CLASSDEF CLASS CLICK GRAPH subgraph end HREF LINK_TARGET".split()
)
_ENDS = frozenset({"NEWLINE", "SEMI", "EOF"})
_MEANT = {
    "SPACE": "a space",
    "NEWLINE": "the end of the line",
    "STR": "a text in quotes",
    "NUM": "a number",
    "LINK": "the end of a link",
    "LINK_TARGET": "one of `_self _blank _parent _top`",
    "end": "`end`",
    "DIR": "one of TB TD BT RL LR",
    "text": "a text",
    "string": "a name",
    "an id": "the id of a box",
    "acc_descr_multiline_value": "the id of a box",
    "acc_title_value": "a title",
    "STYLE_SEPARATOR": "`:::`",
}


def fail_unexpected(
    source: Source, token: Token, meant: Collection[str], opened: Token | None
) -> NoReturn:
    """Raise `SpecError` for a misplaced token. `opened` is the token that opened its label."""
    at = token.at + len(token.text) - len(token.text.lstrip(STRIPPED))
    if token.kind in (END, "EOF"):
        at = len(source.text.rstrip(STRIPPED))
    if opened is not None and opened.kind == "START_LINK":
        _in_link(source, at, opened)
    if opened is not None:
        _in_label(source, at, opened, token.kind)
    word = token.text.strip(STRIPPED)
    if token.kind == "end" and "acc_descr_multiline_value" in meant:
        source.fail(at, "`end` closes no subgraph", "an id has another name: `end_`", width=3)
    if token.kind in _KEYWORDS and "an id" in meant:
        source.fail(
            at,
            f"`{word}` is a keyword of Mermaid and cannot be an id",
            f"call it `{word}_` and give it a label",
            width=len(word),
        )
    if meant == ("DIR",):
        source.fail(at, "the direction is one of TB TD BT RL LR", "write `flowchart TD`")
    here = _here(source, at)
    if set(meant) >= _ENDS and token.kind != END:
        cure = "write each statement on its own line"
        if token.kind == "LINK_ID":
            cure = "the id of a link comes before the link: `A e1@--> B`"
        source.fail(at, f"{here} is where the statement should end", cure)
    words = " or ".join(dict.fromkeys(_MEANT.get(kind, kind) for kind in meant))
    source.fail(at, f"{here} is where {words} belongs")


def unreadable(source: Source, at: int, state: str, opened: Token | None) -> NoReturn:
    """Raise `SpecError` for a sign that starts no token."""
    if state in ("edgeText", "thickEdgeText", "dottedEdgeText"):
        source.fail(at, "Mermaid cannot read the text of this link", "put it in quotes")
    at += len(source.text[at:]) - len(source.text[at:].lstrip(STRIPPED))
    if opened is not None and opened.kind == "START_LINK":
        _in_link(source, at, opened)
    if opened is not None and state != "INITIAL":
        _in_label(source, at, opened, "")
    if state == "dir":
        source.fail(at, "the direction is one of TB TD BT RL LR", "write `flowchart TD`")
    if state in ("shapeData", "shapeDataStr"):
        source.fail(at, f"{_here(source, at)} is not allowed within `@{{ }}`", "put it in quotes")
    cure = 'put it in quotes, as the label of a box: `A["..."]`'
    source.fail(at, f"{_here(source, at)} is not allowed outside a label", cure)


def _in_link(source: Source, at: int, opened: Token) -> NoReturn:
    begin = opened.text.strip(STRIPPED)
    at_start = opened.at + opened.text.index(begin)
    if source.text[at - 1 : at] == '"':
        source.fail(at - 1, '`"` is within the text of a link', "put all of it in the quotes")
    source.fail(
        at_start,
        f"the link that starts with `{begin}` never ends",
        "end it with `-->`; a text that has such signs in it needs quotes",
        width=len(begin),
    )


def _in_label(source: Source, at: int, opened: Token, kind: str) -> NoReturn:
    opening = opened.text.strip(STRIPPED)
    closing = _CLOSING[opening]
    begin = opened.at + opened.text.index(opening[0]) + len(opening)
    written = source.text[begin:]
    quoted = written.startswith('"')
    if kind == END:
        if quoted:
            source.fail(begin, "the quote is never closed", f'close it with `"{closing}`')
        source.fail(begin - len(opening), "the label is never closed", f"close it with `{closing}`")
    if written.startswith((closing, '""')):
        source.fail(at, "the label is empty, which Mermaid does not read", 'write `" "`')
    if kind in ("STR", "MD_STR"):
        at = source.text.rindex('"', begin, at)
    here = _here(source, at)
    if quoted:
        source.fail(at, f"{here} is where `{closing}` belongs", "put all of it in the quotes")
    first = source.text.rfind("\n", 0, begin) + 1
    line = source.text[first:].split("\n", 1)[0]
    chain = read_chain(line)
    cure = QUOTE_IT
    for label in chain.labels if chain is not None and chain.sure and "ﬂ°" not in line else ():
        meant = line[label.start : label.end]
        if label.opening and label.start <= begin - first <= label.end and '"' not in meant:
            cure += f': `{label.opening}"{meant}"{label.closing}`'
    source.fail(at, f"{here} needs quotes in a label: Mermaid reads it as a sign", cure)


def _here(source: Source, at: int) -> str:
    sign = source.sign(at)
    if at >= len(source.text.rstrip("\n")):
        return "the end of the text"
    return "the end of the line" if sign in ("\n", "\r") else f"`{sign}`"
