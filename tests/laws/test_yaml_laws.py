"""What holds for every YAML text: it is read or refused with a reason, and nothing is misplaced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from yaml.composer import ComposerError

from chartloop.core.errors import Place
from chartloop.language.yaml.reading import Document, Path, read
from chartloop.language.yaml.scalar import BREAK

STRINGS: type[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""The same parser as ours, every scalar a string."""

FRAGMENTS = (
    "a", "b", "when", "states", ":", ": ", "- ", ", ", "{", "}", "[", "]", '"', "'", "#", " #", "\n",
    "\n  ", "\n    ", "\t", "&x ", "*x", "!t ", "!!str ", "<<", "|\n  ", ">\n  ", "? ", "---\n", "...\n",
    "%TAG", "1.10", "~", "true", "{{ ", " }}", "é", "😀", "\\", "\\n", "''", "\u2028", "\0", "\ufeff",
)  # fmt: skip
soup = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join)
"""Texts that are nearly YAML."""

letters = st.characters(
    exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters="\ufeff\ufffe\uffff"
)
"""What may stand unescaped in a text."""
words = st.text(letters, max_size=20)
prose = st.text(st.one_of(letters, st.sampled_from(" \n\t'\"\\")), max_size=60)
numbers = st.one_of(
    st.integers(-(10**18), 10**18), st.floats(allow_nan=False, allow_infinity=False)
)
data = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(words, inner, max_size=5)),
    max_leaves=20,
)
"""Plain data, keys being strings."""


def paths(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every path of plain data, with what stands there."""
    yield path, value
    if isinstance(value, dict):
        for key, below in cast("dict[str, Any]", value).items():
            yield from paths(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(cast("list[Any]", value)):
            yield from paths(below, (*path, index))


def shown(place: Place) -> str:
    """The text under the caret."""
    return place.text[place.column - 1 :][: place.width]


@given(st.one_of(soup, st.text(max_size=80)))
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    document = read(text, "m.yaml")
    assert document.data is not None or document.findings
    lines = BREAK.split(document.text)
    for found in document.findings:
        assert found.is_error
        assert found.message
        assert found.hint or found.code == "CL001"
        assert found.place.text == lines[found.place.line - 1]
        assert 1 <= found.place.column <= len(found.place.text) + 1
        assert found.render()
    places = [(f.place.line, f.place.column) for f in document.findings]
    assert places == sorted(places)


@given(soup)
def test_what_is_read_is_what_pyyaml_reads(text: str) -> None:
    """The same mappings, lists and raw texts; only the meaning of plain words is ours."""
    document = read(text)
    assume(document.data is not None and not document.findings)
    loader = STRINGS(document.text)
    try:
        theirs = loader.get_data()
    except ComposerError:
        assume(False)  # a name that is given twice: YAML allows it, PyYAML does not
    else:
        assert _raw(document) == theirs


def _raw(document: Document, path: Path = ()) -> Any:
    value = document.data
    for part in path:
        value = value[part]
    if isinstance(value, dict):
        return {key: _raw(document, (*path, key)) for key in cast("dict[str, Any]", value)}
    if isinstance(value, list):
        return [_raw(document, (*path, n)) for n in range(len(cast("list[Any]", value)))]
    return document.raw(path)


@given(data, st.sampled_from([None, 2]))
def test_json_is_read_as_what_it_says(value: Any, indent: int | None) -> None:
    document = read(json.dumps({"value": value}, ensure_ascii=False, indent=indent))
    assert document.findings == ()
    assert document.data == {"value": value}
    assert json.dumps(document.data) == json.dumps({"value": value})


@given(data)
def test_every_part_has_a_place_inside_the_text(value: Any) -> None:
    text = yaml.safe_dump({"value": value}, allow_unicode=True)
    document = read(text)
    assume(not document.findings)
    lines = BREAK.split(text)
    for path, below in paths(document.data):
        for place in (document.at(path), document.key(path)):
            assert place.text == lines[place.line - 1]
            assert 1 <= place.column <= max(1, len(place.text))
        if path and document.style(path) == "plain" and "\n" not in text[:-1] and below is not None:
            assert shown(document.at(path)) == document.raw(path)
        assert document.at((*path, "no such key")) == document.at(path)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), min_size=1, max_size=8))
def test_of_equal_keys_the_first_is_kept_and_each_other_reported(
    rows: list[tuple[str, int]],
) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in rows)
    document = read(text)
    assert document.data == dict(reversed(rows))
    assert list(document.data) == list(dict.fromkeys(key for key, _ in rows))
    repeated = [n for n, (key, _) in enumerate(rows) if key in dict(rows[:n])]
    assert [(f.code, f.place.line - 1) for f in document.findings] == [
        ("CL002", n) for n in repeated
    ]


@given(prose, st.sampled_from([None, "'", '"', "|", ">"]), st.integers(20, 90))
def test_every_character_of_a_string_is_found_where_it_is_written(
    value: str, style: str | None, width: int
) -> None:
    text = yaml.safe_dump(
        {"a": {"b": [value]}}, default_style=style, allow_unicode=True, width=width
    )
    document = read(text)
    path: Path = ("a", "b", 0)
    assume(document.data == {"a": {"b": [value]}})
    last = (0, 0)
    for offset, char in enumerate(value):
        place = document.part(path, offset, 1)
        assert (place.line, place.column) >= last
        last = (place.line, place.column)
        under = shown(place)
        if char not in " \n\t":
            assert under[0] in (char, "\\")
            assert under in (char, "''") or under.startswith("\\")


@given(prose)
def test_reading_twice_gives_the_same(value: str) -> None:
    text = yaml.safe_dump({"a": value})
    first, second = read(text), read(text)
    assert first.data == second.data
    assert first.findings == second.findings
