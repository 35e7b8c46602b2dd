"""Reading YAML: what plain words mean, where everything stands, and what each mistake is called."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from chartloop.core.errors import Place
from chartloop.language.yaml.reading import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NODES,
    TOO_DEEP,
    Document,
    Path,
    read,
)
from tests.effort import calls


class Word(NamedTuple):
    """A plain scalar and what YAML 1.2 takes it for."""

    text: str
    value: Any


WORDS = [
    *(
        Word(text, text)
        for text in "on off yes no On OFF y n 12:30:45 2026-01-01 1_000_000".split()
    ),
    *(
        Word(text, text)
        for text in "0b11 0o8 0xg 1e +-1 -x . 1.2.3 95% 30m -0x1F nan inf .5.".split()
    ),
    *(Word(text, None) for text in ("", "~", "null", "Null", "NULL")),
    *(Word(text, True) for text in ("true", "True", "TRUE")),
    *(Word(text, False) for text in ("false", "False", "FALSE")),
    Word("0", 0),
    Word("-7", -7),
    Word("+7", 7),
    Word("010", 10),
    Word("0o17", 15),
    Word("0xfF", 255),
    Word("1.10", 1.1),
    Word("1.", 1.0),
    Word(".5", 0.5),
    Word("-1e3", -1000.0),
    Word(".inf", math.inf),
    Word("-.Inf", -math.inf),
    Word('"true"', "true"),
    Word("'12'", "12"),
    Word("|-\n  12", "12"),
]


@pytest.mark.parametrize("case", WORDS, ids=lambda case: repr(case.text))
def test_a_plain_word_means_what_yaml_1_2_says(case: Word) -> None:
    document = read(f"a: {case.text}")
    assert document.findings == ()
    assert document.data == {"a": case.value}
    assert type(document.data["a"]) is type(case.value)


def test_nan_is_a_float() -> None:
    assert math.isnan(read("a: .nan").data["a"])


def test_keys_are_always_strings() -> None:
    text = "{1: a, true: b, null: c, on: d, 1.10: e, ~: f, '': g}"
    assert list(read(text).data) == ["1", "true", "null", "on", "1.10", "~", ""]


def test_aliases_repeat_a_part() -> None:
    document = read("a: &part {x: [1, 2]}\nb: *part\nc: [*part, &word yes, *word]\n&key d: *key\n")
    assert document.findings == ()
    part = {"x": [1, 2]}
    assert document.data == {"a": part, "b": part, "c": [part, "yes", "yes"], "d": "d"}
    assert document.at(("b",)) == Place("<text>", 2, 4, 5, "b: *part")
    assert document.at(("b", "x", 0)) == document.at(("a", "x", 0))


def test_a_byte_order_mark_is_taken_off() -> None:
    document = read("\ufeffa: b")
    assert document.data == {"a": "b"}
    assert document.at(("a",)).column == 4


PLACES = """\
states:
  monitor: {label: "a \\u00e9\\tb", all: [x, "y"]}
  # a comment
  wait:
    on:
      fix: 'it''s'
    empty:
    text: |
      one
        two
    note: &n plain
list:
- a
-
"""


class Spot(NamedTuple):
    """A path, where its value stands and where its key does: line, column, width."""

    id: str
    path: Path
    at: tuple[int, int, int]
    key: tuple[int, int, int]


@pytest.mark.parametrize(
    "case",
    [
        Spot("root", (), (1, 1, 6), (1, 1, 6)),
        Spot("block-mapping-stands-at-its-first-key", ("states",), (2, 3, 7), (1, 1, 6)),
        Spot("flow-mapping", ("states", "monitor"), (2, 12, 37), (2, 3, 7)),
        Spot("quoted", ("states", "monitor", "label"), (2, 20, 13), (2, 13, 5)),
        Spot("flow-list", ("states", "monitor", "all"), (2, 40, 8), (2, 35, 3)),
        Spot("list-item-has-no-key", ("states", "monitor", "all", 1), (2, 44, 3), (2, 44, 3)),
        Spot("natural-word-as-key", ("states", "wait", "on"), (6, 7, 3), (5, 5, 2)),
        Spot("single-quoted", ("states", "wait", "on", "fix"), (6, 12, 7), (6, 7, 3)),
        Spot("nothing-written", ("states", "wait", "empty"), (7, 5, 5), (7, 5, 5)),
        Spot("block-text", ("states", "wait", "text"), (8, 11, 1), (8, 5, 4)),
        Spot("anchored", ("states", "wait", "note"), (11, 14, 5), (11, 5, 4)),
        Spot("block-list", ("list",), (13, 1, 1), (12, 1, 4)),
        Spot("empty-item", ("list", 1), (14, 2, 1), (14, 2, 1)),
        Spot("no-such-key", ("states", "wait", "no", "x"), (5, 5, 2), (4, 3, 4)),
        Spot("no-such-item", ("list", 7), (13, 1, 1), (12, 1, 4)),
        Spot("no-item-before-the-first", ("list", -1), (13, 1, 1), (12, 1, 4)),
        Spot("below-a-scalar", ("list", 0, "x"), (13, 3, 1), (13, 3, 1)),
        Spot("a-word-in-a-list", ("list", "x"), (13, 1, 1), (12, 1, 4)),
        Spot("a-number-in-a-mapping", ("states", 0), (2, 3, 7), (1, 1, 6)),
    ],
    ids=lambda case: case.id,
)
def test_every_part_has_its_place(case: Spot) -> None:
    document = read(PLACES, "m.yaml")
    assert document.findings == ()

    def seen(place: Place) -> tuple[int, int, int]:
        assert place.file == "m.yaml"
        assert place.text == PLACES.splitlines()[place.line - 1]
        return place.line, place.column, place.width

    assert seen(document.at(case.path)) == case.at
    assert seen(document.key(case.path)) == case.key


def test_what_goes_over_several_lines_is_marked_on_its_first() -> None:
    document = read("a: {b: 1,\n  c: 2}\nd: one\n  two\n")
    assert document.at(("a",)) == Place("<text>", 1, 4, 6, "a: {b: 1,")
    assert document.at(("d",)) == Place("<text>", 3, 4, 3, "d: one")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x85", "\u2028", "\u2029"], ids=repr)
def test_lines_end_where_the_parser_ends_them(end: str) -> None:
    document = read(f"a: 1{end}b: [x]{end}c: |{end}  one{end}  two{end}")
    assert document.data == {"a": 1, "b": ["x"], "c": read(f"|{end}  one{end}  two{end}").data}
    assert document.at(("b", 0)) == Place("<text>", 2, 5, 1, "b: [x]")
    assert document.part(("c",), document.raw(("c",)).index("two"), 3).line == 5


def test_text_that_cannot_be_read_has_only_its_file_as_place() -> None:
    document = read("a: [", "m.yaml")
    assert document.data is None
    assert document.at(("a",)) == document.key(("a",)) == Place("m.yaml")
    assert document.part(("a",), 0, 1) == Place("m.yaml")
    assert document.style(("a",)) is None
    assert document.raw(("a",)) == ""


class Part(NamedTuple):
    """A piece of a string's value, and the text that must be under the caret."""

    id: str
    text: str
    find: str
    shown: str
    line: int = 1


@pytest.mark.parametrize(
    "case",
    [
        Part("plain", "a: one two three", "two", "two"),
        Part("plain-in-flow", "{b: x, a: one two}", "two", "two"),
        Part("anchored", "a: &x one two", "two", "two"),
        Part("double", 'a: "one two"', "two", "two"),
        Part("double-behind-an-escape", 'a: "\\u00e9\\n\\"two\\""', "two", "two"),
        Part("double-an-escape-itself", 'a: "x\\u00e9y"', "é", "\\u00e9"),
        Part("double-tab-and-slash", 'a: "\\t\\/\\\\two"', "two", "two"),
        Part("double-wide-escape", 'a: "\\U0001F600\\xe9two"', "two", "two"),
        Part("single", "a: 'one two'", "two", "two"),
        Part("single-behind-an-apostrophe", "a: 'it''s ''two'", "two", "two"),
        Part("single-an-apostrophe-itself", "a: 'it''s'", "'s", "''s"),
        Part("behind-wide-letters", "a: é😀 two", "two", "two"),
        Part("plain-of-several-lines", "a: one\n  two\n\n  three four", "four", "four", 4),
        Part("double-of-several-lines", 'a: "one\n  two\n\n  three four"', "three", "three", 4),
        Part("double-with-escaped-end", 'a: "one\\\n  \\ two"', "two", "two", 2),
        Part("double-with-space-before-the-escaped-end", 'a: "one \\\n  two"', "two", "two", 2),
        Part("single-of-several-lines", "a: 'one\n  it''s two'", "two", "two", 2),
        Part("literal", "a: |\n  one\n  two three\n", "three", "three", 3),
        Part("literal-kept-spaces", "a: |\n  one\n    two\n", "two", "two", 3),
        Part("literal-after-empty-lines", "a: |-\n\n  one\n\n  two\n\n", "two", "two", 5),
        Part("literal-with-indent-sign", "a: |1\n   one\n  two\n", "two", "two", 3),
        Part("literal-in-a-list", "a:\n  - x\nb:\n  - |\n    one\n    two\n", "two", "two", 6),
        Part("folded", "a: >-\n  one\n  two\n\n  three four\n", "four", "four", 5),
        Part("folded-kept-spaces", "a: >\n  one\n    two\n  three\n", "three", "three", 4),
        Part("several-lines-are-marked-on-the-first", "a: |\n  one\n  two\n", "e\ntw", "e", 2),
        Part("folded-line-end", "a: one\n  two", "e t", "e", 1),
    ],
    ids=lambda case: case.id,
)
def test_a_part_of_a_string_is_found_in_the_file(case: Part) -> None:
    document = read(case.text)
    path: Path = ("b", 0) if "b:\n" in case.text else ("a",)
    value = document.raw(path)
    place = document.part(path, value.index(case.find), len(case.find))
    assert place.line == case.line
    assert place.text[place.column - 1 :][: place.width] == case.shown


def test_a_part_never_lies_outside_the_scalar() -> None:
    document = read("a: 'one'\nb: {c: 1}")
    assert document.part(("a",), -5, 2) == Place("<text>", 1, 5, 1, "a: 'one'")
    assert document.part(("a",), 99, 99).column == 8
    assert document.part(("b",), 0, 1) == document.at(("b",))
    assert document.part(("b", "x"), 0, 1) == document.at(("b",))


def test_style_and_raw_text() -> None:
    document = read("a: 1.10\nb: '1.10'\nc: \"x\\ty\"\nd: |\n  z\ne: >\n  z\nf: {g: 0x10}\n")
    kinds = [document.style((key,)) for key in "abcdef"]
    assert kinds == ["plain", "quoted", "quoted", "block", "block", None]
    assert document.style(("nope",)) is None
    assert [document.raw((key,)) for key in "abcdf"] == ["1.10", "1.10", "x\ty", "z\n", ""]
    assert document.raw(("f", "g")) == "0x10"


@pytest.mark.parametrize("text", ["1.10", "010", "0x1F", "1e3", "+5", "1.", "-0"])
def test_a_number_that_is_not_what_was_written_is_told_when_asked(text: str) -> None:
    found = read(f"v: {{version: {text}}}").misread(("v", "version"))
    assert found is not None
    assert (found.code, found.at, found.place.column) == ("CL210", "v.version", 14)
    assert f'`"{text}"`' in found.hint


@pytest.mark.parametrize("text", ["1.1", "12", '"1.10"', "true", "~", "word", "[1.10]", "1.5e+300"])
def test_what_is_read_as_it_is_written_is_no_finding(text: str) -> None:
    assert read(f"v: {text}").misread(("v",)) is None


class Fault(NamedTuple):
    """A bad text, the code of its finding, where it is shown, and words of message and hint."""

    id: str
    text: str
    code: str
    at: tuple[int, int]
    says: str
    hint: str = ""


WHEN = "  when: "
FAULTS = [
    # a text that needs quotes
    Fault(
        "guard-colon", f"a:\n{WHEN}x ? y : z\n", "CL007", (2, 9), "`when`", '`when: "x ? y : z"`'
    ),
    Fault("label-colon", "label: STOP: now", "CL007", (1, 8), "`label`", '`label: "STOP: now"`'),
    Fault("other-colon", "key: STOP: now", "CL001", (1, 6), "`key`", '`key: "STOP: now"`'),
    Fault("dotted-key", "vars.x: a: b", "CL007", (1, 9), "`vars.x`"),
    Fault("flow-colon", "- {when: a: b, to: x}", "CL007", (1, 10), "`:`", '`when: "a: b"`'),
    Fault(
        "flow-quote",
        '- {when: "x" in y, to: z}',
        "CL007",
        (1, 10),
        "closing",
        "`when: '\"x\" in y'`",
    ),
    Fault(
        "flow-bracket", "- {when: x in [1], to: z}", "CL007", (1, 10), "`[`", '`when: "x in [1]"`'
    ),
    Fault(
        "flow-brace", "- {label: a {limits.x}, to: y}", "CL007", (1, 11), "`{`", '"a {limits.x}"'
    ),
    Fault("flow-key-in-quotes", '- {label: "x a: b" c, to: x}', "CL007", (1, 11), "`label`"),
    Fault("flow-last", "- {to: z, when: x in [1]}", "CL007", (1, 17), "`[`", '`when: "x in [1]"`'),
    Fault(
        "flow-comma", "- {label: Yes, Fix, to: y}", "CL007", (1, 16), "`Fix`", '`label: "Yes, Fix"`'
    ),
    Fault(
        "flow-call", "{when: f(x, y) > 0, to: z}", "CL007", (1, 13), "has no value", '"f(x, y) > 0"'
    ),
    Fault("flow-alone", "a: {limits.x}", "CL007", (1, 5), "`limits.x`", "quotes"),
    Fault("flow-hash", "- {when: a #b, to: x}\n- y", "CL007", (1, 12), "comment", '`when: "a #b"`'),
    Fault("hash-elsewhere", "- {k: a #b}\n- y", "CL001", (1, 9), "comment"),
    Fault(
        "block-quote", f'a:\n{WHEN}"x" in y\n', "CL007", (2, 9), "closing", "`when: '\"x\" in y'`"
    ),
    Fault("block-bracket", f"a:\n{WHEN}[x] in y\n", "CL007", (2, 9), "`]`", '"[x] in y"'),
    Fault("block-brace", "label: {limits.x} left", "CL007", (1, 8), "`}`", '"{limits.x} left"'),
    Fault("item-quote", '- "x" in y', "CL001", (1, 7), "closing", "quotes"),
    Fault("template", "user: {{ run.task }}", "CL007", (1, 7), "template", "`|`"),
    Fault(
        "template-and-text",
        "user: {{ run.task }} x",
        "CL007",
        (1, 7),
        "`user`",
        '"{{ run.task }} x"',
    ),
    Fault("template-tag", "user: {% if x %}y", "CL007", (1, 7), "`{`", '"{% if x %}y"'),
    Fault("at-sign", "when: @x", "CL007", (1, 7), "`@`", '"@x"'),
    Fault("at-sign-in-flow", "{when: @x, to: y}", "CL007", (1, 8), "`@`", '`when: "@x"`'),
    Fault("at-sign-in-list", "- @x", "CL001", (1, 3), "`@`", "quotes"),
    Fault("percent", "a: %x", "CL001", (1, 4), "`%`"),
    Fault("star", "a: *.py", "CL001", (1, 4), "`*`"),
    Fault("ampersand", "a: & b", "CL001", (1, 4), "`&`"),
    Fault("greater", f"a:\n{WHEN}> 5", "CL007", (2, 9), "`>`", '"> 5"'),
    Fault("pipe", "a: | x", "CL001", (1, 4), "`|`"),
    Fault("question", "when: ? a", "CL007", (1, 7), "`?`"),
    Fault(
        "long-text",
        f"label: {'x' * 80}: y",
        "CL007",
        (1, 8),
        "`label`",
        "the whole text of `label`",
    ),
    # quotes and brackets
    Fault("open-double", 'a: "b\nc: d', "CL001", (1, 4), "never closed", '`"`'),
    Fault("open-single", "a: 'b\nc: d", "CL001", (1, 4), "never closed", "twice"),
    Fault("open-quote-above", 'a: "b\nc: "d"', "CL001", (1, 4), "not closed", '`"`'),
    Fault("apostrophe", "a: 'it's'", "CL001", (1, 8), "single quote", "twice"),
    Fault("escape", 'a: "\\d+"', "CL001", (1, 5), "`\\d`", "`\\\\d`"),
    Fault("open-brace", "a: {b: 1\nc: 2", "CL001", (2, 1), "before `c`", "line 1"),
    Fault("open-bracket", "a: [1,\n  2\nc: 2", "CL001", (3, 1), "`]`", "line 1"),
    Fault("open-at-the-end", "a: [1,\n", "CL001", (1, 7), "belongs", ""),
    Fault(
        "open-and-nothing-behind", "a: [\n", "CL001", (1, 5), "the line ends where a value", "`]`"
    ),
    Fault("no-comma", "{a: 1 b: 2}", "CL001", (1, 7), "before `b`"),
    Fault("brace-too-many", "a: {b: 1}}", "CL001", (1, 10), "closes nothing"),
    Fault("bracket-as-value", "a: ]", "CL001", (1, 4), "where a value belongs"),
    # lines
    Fault("tab", "a:\n\tb: 1", "CL001", (2, 1), "a tab", "spaces"),
    Fault("tab-deeper", "a:\n  b: 1\n\tc: 2", "CL001", (3, 1), "a tab"),
    Fault("tab-in-list", "-\ta", "CL001", (1, 2), "a tab"),
    Fault("indent-between", "a:\n  b: 1\n c: 2", "CL001", (3, 1), "indented by 1"),
    Fault("indent-deeper", "a:\n  b: 1\n    c: 2", "CL001", (3, 5), "deeper than the one above"),
    Fault("item-among-keys", "a:\n  b: 1\n  - x", "CL001", (3, 3), "list item among keys"),
    Fault("key-among-items", "a:\n  - x\n  b: 1", "CL001", (3, 3), "among list items"),
    Fault("item-behind-key", "a: - b", "CL001", (1, 4), "on the line of its key"),
    Fault("no-colon", "a: 1\nb\nc: 2", "CL001", (2, 1), "not a key with a value"),
    Fault("no-colon-first", "machine foo\na: 1", "CL001", (1, 1), "not a key with a value"),
    Fault("no-space", "a:1\nb: 2", "CL001", (1, 1), "not a key with a value", "`a: 1`"),
    Fault("long-key", "k" * 1100 + ": 1", "CL001", (1, 1101), "1,024"),
    # keys
    Fault("duplicate", "a: 1\nb: 2\na: 3", "CL002", (3, 1), "`a`", "the first"),
    Fault("no-key", "? \n: x", "CL006", (1, 2), "missing"),
    Fault("list-as-key", "{[a]: x}", "CL006", (1, 2), "a list"),
    Fault("map-as-key", "? {a: b}\n: x", "CL006", (1, 3), "a mapping"),
    Fault("alias-as-key", "a: &x b\n*x : c", "CL006", (2, 1), "an alias"),
    Fault("merge", "a: &x {b: 1}\nc: {<<: *x}", "CL004", (2, 5), "<<"),
    # tags, documents, bounds
    Fault("tag-object", "a: !!python/object:os.system x", "CL003", (1, 4), "!!python", "remove"),
    Fault("tag-str", "a: !!str 5", "CL003", (1, 4), "!!str", "quotes"),
    Fault("tag-not", "when: !last.ok", "CL003", (1, 7), "!last.ok", "`not`"),
    Fault("tag-on-a-list", "a: !x [b]", "CL003", (1, 4), "!x"),
    Fault("tag-on-a-key", "!x a: b", "CL003", (1, 1), "!x"),
    Fault("tag-handle", "!foo!bar x", "CL003", (1, 1), "a tag"),
    Fault("no-anchor", "a: *nope", "CL001", (1, 4), "`&nope`", "quotes"),
    Fault("two-documents", "a: 1\n---\nb: 2", "CL001", (2, 1), "second document", "`---`"),
    Fault("behind-the-end", "a: 1\n...\nb: 2", "CL001", (3, 1), "after the end"),
    Fault("directive", "# x\n%YAML 1.1\n---\na: 1", "CL001", (2, 1), "directive"),
    Fault("empty", "", "CL001", (1, 1), "empty"),
    Fault("only-comments", "# nothing\n\n", "CL001", (1, 1), "empty"),
    Fault("null", "---\n~\n", "CL001", (1, 1), "says nothing"),
    Fault("nul", "a: \0", "CL001", (1, 4), "U+0000"),
    Fault("escape-sign", "a:\n  \x1b[0m", "CL001", (2, 3), "U+001B"),
    Fault("surrogate", "a: x\ud800", "CL001", (1, 5), "U+D800", "UTF-8"),
    Fault(
        "not-utf-8",
        b"a: x\xe9".decode("utf-8", "surrogateescape"),
        "CL001",
        (1, 5),
        "0xE9",
        "UTF-8",
    ),
    Fault("mark-inside", "a: x\ufeff", "CL001", (1, 5), "U+FEFF"),
    Fault("huge-int", "a: " + "1" * 10_000, "CL210", (1, 4), "too large", "quotes"),
    Fault("huge-float", "a: 1e999", "CL210", (1, 4), "`1e999`", "quotes"),
]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("a: 1\na: 2", "a"),
        ("s:\n  a: {n: 1, n: 2}", "s.a.n"),
        ("l:\n  - x\n  - {n: 1, n: 2}", "l.1.n"),
        ("s: {when: a, b}", "s.b"),
    ],
)
def test_a_finding_about_a_key_says_which(text: str, at: str) -> None:
    assert [f.at for f in read(text).findings] == [at]


KEEP = "CL002 CL003 CL004 CL006 CL210".split()
"""Findings with which reading goes on."""


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.id)
def test_a_mistake_has_one_finding_with_place_cause_and_cure(case: Fault) -> None:
    document = read(case.text, "m.yaml")
    assert [f.code for f in document.findings] == [case.code], document.findings
    (found,) = document.findings
    assert (found.place.line, found.place.column) == case.at
    assert found.place.text == case.text.splitlines()[found.place.line - 1] if case.text else True
    assert case.says in found.message
    assert case.hint in found.hint
    assert found.is_error
    assert found.render()


def test_the_parser_without_libyaml_says_the_same() -> None:
    """PyYAML's own parser, in a process that has no other, has other words for every mistake."""
    texts = [case.text for case in FAULTS if not case.id.startswith("surrogate")] + [PLACES]
    script = (
        "import json, sys, yaml\n"
        "del yaml.CBaseLoader\n"
        "from chartloop.language.yaml.reading import read\n"
        "said = lambda f: [f.code, f.message, f.hint, f.place.line, f.place.column]\n"
        "for text in json.load(sys.stdin):\n"
        "    document = read(text)\n"
        "    print(json.dumps([document.data, [said(f) for f in document.findings]]))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(texts),
        capture_output=True,
        check=True,
        text=True,
    )
    for text, line in zip(texts, run.stdout.splitlines(), strict=True):
        document = read(text)
        said = [
            [f.code, f.message, f.hint, f.place.line, f.place.column] for f in document.findings
        ]
        assert json.loads(line) == [document.data, said], text


def test_all_findings_come_at_once_sorted_by_place() -> None:
    text = "b: {x: 1, x: 2}\na: !t 1\na: 2\nc: {<<: 1}\n[k]: 1\n"
    document = read(text)
    assert [(f.code, f.place.line) for f in document.findings] == [
        ("CL002", 1), ("CL003", 2), ("CL002", 3), ("CL004", 4), ("CL006", 5)
    ]  # fmt: skip
    assert document.data == {"b": {"x": 1}, "a": 1, "c": {}}
    duplicate = document.findings[0]
    assert duplicate.at == "b.x"
    assert duplicate.related == (
        "first written here",
        Place("<text>", 1, 5, 1, "b: {x: 1, x: 2}"),
    )


@pytest.mark.parametrize("case", [f for f in FAULTS if f.code in KEEP], ids=lambda case: case.id)
def test_small_mistakes_leave_the_rest_readable(case: Fault) -> None:
    if case.id != "tag-handle":
        assert read(case.text).data is not None


def test_the_first_of_two_equal_keys_is_kept() -> None:
    assert read("a: 1\na: {b: 2}").data == {"a": 1}


def test_a_finding_names_its_part_of_the_machine() -> None:
    (found,) = read("states:\n  a:\n    next:\n      - {to: x, to: y}\n").findings
    assert found.at == "states.a.next.0.to"


class Bound(NamedTuple):
    """A text at a bound, and whether it is still read."""

    id: str
    text: str
    read: bool


def _nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def _bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    return "\n".join(lines)


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize(
    "case",
    [
        Bound("size-reached", "a: " + "x" * (MAX_BYTES - 3), read=True),
        Bound("size-passed", "a: " + "x" * (MAX_BYTES - 2), read=False),
        Bound("size-in-bytes", "a: " + "é" * (MAX_BYTES // 2), read=False),
        Bound("depth-reached", _nested(MAX_DEPTH), read=True),
        Bound("depth-passed", _nested(MAX_DEPTH + 1), read=False),
        Bound("depth-of-a-hundred-thousand", "[" * 100_000, read=False),
        Bound("depth-below-a-key", "a: &a " + "[" * 2_000, read=False),
        Bound("depth-of-items", "- " * 100_000, read=False),
        Bound("depth-over-lines", "[\n" * 2_000, read=False),
        Bound("depth-closed-again", _nested(2_000), read=False),
        Bound(
            "depth-in-block", "\n".join(" " * n + "a:" for n in range(MAX_DEPTH + 2)), read=False
        ),
        Bound("depth-by-alias", f"a: &a {_nested(40)}\nb: {'[' * 20}*a{']' * 20}", read=False),
        Bound(
            "depth-by-alias-reached", f"a: &a {_nested(40)}\nb: {'[' * 19}*a{']' * 19}", read=True
        ),
        Bound(
            "depth-by-nested-names",
            f"a: &a [&b {_nested(40)}]\nb: {'[' * 20}*a{']' * 20}",
            read=False,
        ),
        Bound(
            "depth-beside-a-name",
            f"a: {_nested(50)}\nb: &b [x]\nc: {'[' * 20}*b{']' * 20}",
            read=True,
        ),
        Bound("nodes-reached", "[" + "x," * (MAX_NODES - 1) + "]", read=True),
        Bound("nodes-passed", "[" + "x," * MAX_NODES + "]", read=False),
        Bound("alias-bomb", _bomb(9), read=False),
        Bound("aliases-within-bounds", _bomb(4), read=True),
        Bound("recursive-alias", "a: &a [b, *a]", read=False),
        Bound("recursive-mapping", "&a {b: *a}", read=False),
    ],
    ids=lambda case: case.id,
)
def test_bounds(case: Bound) -> None:
    document = read(case.text)
    if case.read:
        assert document.findings == ()
        assert document.data is not None
    else:
        assert [f.code for f in document.findings] == ["CL005"]
        if case.id.startswith("depth"):  # whichever bound is met first, PyYAML's or ours
            assert document.findings[0].message == TOO_DEEP
        assert document.data is None


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"%TAG !a{n}! x\n" for n in range(60_000)) + "---\na",
        "a\n...\n" + "".join(f"%TAG !a{n}! x\n" for n in range(60_000)) + "---\na",
        "'a'\n" + "".join(f"%TAG !a{n}! x\n" for n in range(60_000)) + "---\na",
        "- " * 499_999,
        "{a: " * 249_999,
        "a: " + "1" * 999_000,
        "a: 0x" + "f" * 999_000,
        "".join(f"k{n}: &a{n} *a{n}\n" for n in range(40_000)),
        "? " * 499_999,
        "\n" * 999_999,
        "#\n" * 499_999 + "%",
        "a: |\n" + " x\n" * 300_000,
        "{" + "a," * 499_000 + "}",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_texts_take_no_time(text: str) -> None:
    found: list[object] = []
    assert calls(lambda: found.append(read(text))) < 1_000_000 + 50 * len(text)
    assert isinstance(found[0], Document)


@pytest.mark.slow("takes seconds")
def test_a_part_of_a_long_block_takes_no_quadratic_time() -> None:
    document = read("a: |\n" + "  x y\n" * 100_000)
    found: list[Place] = []
    assert calls(lambda: found.append(document.part(("a",), 399_997, 1))) < 5_000_000
    assert found[0].line == 100_001


def test_reading_ends_after_a_hundred_mistakes() -> None:
    document = read("a:\n" + "  b: 1\n" * 102)
    assert [f.code for f in document.findings] == ["CL002"] * 100 + ["CL005"]
    assert document.data is None
    assert read("a:\n" + "  b: 1\n" * 100).data == {"a": {"b": 1}}


def test_nothing_is_constructed_or_called() -> None:
    before = set(sys.modules)
    document = read("a: !!python/object/apply:antigravity.geohash [1]\nb: !!python/name:this ''")
    assert [f.code for f in document.findings] == ["CL003", "CL003"]
    assert document.data == {"a": [1], "b": ""}
    assert {"antigravity", "this"}.isdisjoint(set(sys.modules) - before)
