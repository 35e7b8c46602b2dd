"""What is told live loses its secrets, encoded and cut into pieces however it may be."""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.plain import plain
from chartloop.run.redact import Redactor
from chartloop.run.redact_events import LONGEST, EventRedactor

KNOWN = 'p@ss:w"rd/Ω-+1x'
KEY = "sk-proj-Zx81mKq04vTbN62pLrYd9sWc4f9d0c7be2"
BLOCK = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\nmore+lines/\n-----END RSA PRIVATE KEY-----"
ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "url": lambda s: urllib.parse.quote(s, safe=""),
    "url path": urllib.parse.quote,
    "url form": urllib.parse.quote_plus,
    "url in small letters": lambda s: re.sub(
        "%..", lambda found: found[0].lower(), urllib.parse.quote(s, safe="")
    ),
    "json": lambda s: json.dumps(s)[1:-1],
    "json as it is": lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    "json twice": lambda s: json.dumps(json.dumps(s)[1:-1])[1:-1],
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 after one": lambda s: base64.b64encode(b"u" + s.encode()).decode(),
    "base64 after two": lambda s: base64.b64encode(b"u:" + s.encode() + b"tail").decode(),
    "base64 for urls": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "hex": lambda s: s.encode().hex(),
    "hex in capitals": lambda s: s.encode().hex().upper(),
}
REDACTOR = Redactor({"DB_PASSWORD": KNOWN}, environ={})
ENCODED = {name: encode(KNOWN) for name, encode in ENCODINGS.items()}


def leaks(text: str) -> list[str]:
    """The encodings in which the secret can be got out of a text."""
    halves = {name: form[4:-4] for name, form in ENCODED.items()}
    return [name for name, form in halves.items() if form in text]


@pytest.mark.parametrize("name", ENCODED)
def test_an_encoded_value_is_hidden_in_text_and_in_json(name: str) -> None:
    text = f"it is {ENCODED[name]} and more"
    assert leaks(text)
    assert leaks(REDACTOR.text(text)) == []
    assert "«redacted:DB_PASSWORD»" in REDACTOR.text(text)
    for data in ({"text": text}, {"text": json.dumps({"a": [text]})}):
        hidden = json.loads(REDACTOR.json(json.dumps(data)))["text"]
        assert leaks(hidden) == []
        assert "it is" in hidden


@given(value=st.text(min_size=8, max_size=40), name=st.sampled_from(sorted(ENCODINGS)))
def test_any_value_is_hidden_in_any_encoding(value: str, name: str) -> None:
    redactor = Redactor({"X": value}, environ={})
    encoded = ENCODINGS[name](value)
    kept = redactor.text(encoded)
    assert "redacted" in kept
    assert encoded not in kept or encoded == kept.replace("«redacted:X»", "")
    left = kept.replace("«redacted:X»", "").rstrip("=")
    assert len(left) <= 4 or name == "base64 after two"  # what base64 shares with its neighbours
    assert len(left) <= 10


WORDS = st.sampled_from([
    *ENCODED.values(), KEY, BLOCK, f"Bearer {KEY}", "https://a:secret-word@host/x?key=correct-horse",
    "hello", "see https://example.com/a?b=c", "s", "A", "sk-learn", "Really?", "\n", "key", "-----",
])  # fmt: skip
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)


@given(text=TEXTS, cuts=st.lists(st.integers(0, 400), max_size=30))
def test_pieces_tell_what_the_whole_would(text: str, cuts: list[int]) -> None:
    redactor, at = EventRedactor(REDACTOR), 0
    told: list[str] = []
    for cut in sorted(cuts):
        told.append(redactor.piece(text[at:cut] if cut > at else ""))
        at = max(at, cut)
    told += [redactor.piece(text[at:]), redactor.rest().get("", "")]
    assert "".join(told) == REDACTOR.text(text)


@given(st.lists(st.text(), max_size=10))
def test_text_without_secrets_is_told_whole(pieces: list[str]) -> None:
    redactor = EventRedactor(REDACTOR)
    told = "".join([*(redactor.piece(piece) for piece in pieces), redactor.rest().get("", "")])
    assert told == REDACTOR.text("".join(pieces))


def test_nothing_is_held_back_for_ever() -> None:
    redactor = EventRedactor(REDACTOR)
    told = sum(len(redactor.piece("x" * 1000)) for _ in range(20)) + len(
        redactor.piece("?" + "y" * 1000)
    )
    assert told > 19_000
    assert sum(len(redactor.piece("y" * 1000)) for _ in range(20)) > 20_000 - LONGEST


def test_plain_data_is_not_touched() -> None:
    data = {"text": "nothing here", "n": [1, 2.5, None, True]}
    assert json.loads(REDACTOR.json(json.dumps(data))) == plain(data)
