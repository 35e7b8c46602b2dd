"""The redactor, which removes secrets from everything written to a journal or a log.

Hidden are (a) the values of environment variables and mapping entries with a secret name; (b)
values that the caller gives, and those of ``${VAR}`` in a machine file; (c) anything that looks
like a credential, by one table of patterns. Values of variables and of (b) are also hidden when
encoded: for JSON, for a URL, in base64, in hex. A hidden value becomes ``«redacted:NAME»``; nothing
else changes.

Only strings are hidden, never numbers: ``max_tokens: 4096`` is not a secret. Words that a replay
needs (states, edges, reasons, ids of calls) are left alone in the places listed in `STRUCTURE`.

Usually there is nothing to hide, which a few searches for literal prefixes settle. Only a text that
fails them is decoded, walked and encoded again.

Belongs here: names, patterns, hiding. Never: files, journals, logging.
Source: docs/production.md.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Any, TypeAlias, cast
from urllib.parse import quote

from chartloop.core.codec import to_json
from chartloop.core.credentials import PATTERNS

SHORTEST = 8
"""Characters. A shorter value is not hidden: it would occur inside ordinary words."""

SECRET_WORDS = ("key", "token", "secret", "password")
"""A name that ends in one of these is secret; so is one in capitals that contains one."""


_HINTS = tuple(
    (sign, re.compile(hint).search if hint else None)
    for sign, hint in (
        ("-", r"-(?:(?<=sk-)|(?<=xox[a-z]-)|(?<=glpat-)|----BEGIN )"),
        ("_", "g(?:h[pousr]_|ithub_pat_)"),
        ("A", "A(?:[KS]IA|Iza)"),
        ("J", "J(?<=eyJ)"),
        ("@", "://[^/]{0,322}@"),
        ("earer ", ""),
        ("Basic ", ""),
        ("=", "[?&](?i:[a-z_-]{0,32}(?:key|token|secret|password)=)"),
    )
)
"""A text that contains none of these matches no pattern. The literal sign is searched first, since
that costs next to nothing."""

OPENINGS = (
    "-----BEGIN ", "sk-", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
    "glpat-", "xoxb-", "xoxa-", "xoxp-", "AIza", "eyJ", "earer ", "Basic ", "://",
)  # fmt: skip
"""The literal prefixes of credentials in the table."""
_OPEN = re.compile(
    r"-----BEGIN (?:(?!-----END [A-Z ]{0,60}-----)[\s\S])*\Z"
    r"|(?:sk-|A[KS]IA|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AIza|eyJ|earer +|Basic +|://|[?&])\S*\Z"
)
"""An unfinished credential at the end of a text."""

_KEY_END = re.compile(r"-----END [A-Z ]{0,60}-----\Z")

_Part: TypeAlias = tuple[Any, str, Mapping[str, Any]]
"""A list or mapping, the secret name above it if any, and the part of `STRUCTURE` for it."""
_Entry: TypeAlias = tuple[Any, Any, str, Mapping[str, Any]]

_NOTHING: Mapping[str, Any] = {}
_KEEP: Mapping[str, Any] = {}
_CALL = {"id": _KEEP, "name": _KEEP}
_FAILURE = {"category": _KEEP, "state": _KEEP, "kind": _KEEP}
_SIGNAL = {"reason": _KEEP, "source": _KEEP}
_TASK = {"id": _KEEP, "kind": _KEEP}
_REASONING = {"provider": _KEEP, "model": _KEEP}
_MESSAGE = {
    **dict.fromkeys("role name tool_call_id".split(), _KEEP),
    "tool_calls": {"id": _KEEP},
    "reasoning": _REASONING,
}
_OUTCOME = {
    "error": _FAILURE,
    "reply": {
        "finish_reason": _KEEP,
        "model": _KEEP,
        "tool_calls": _CALL,
        "reasoning": _REASONING,
    },
    "messages": _MESSAGE,
    "rewrite": _MESSAGE,
    "prompt": _MESSAGE,
    "queue": _TASK,
    "signals": _SIGNAL,
    "dropped": _CALL,
}
_FACTS = {
    "run": dict.fromkeys("id machine agent session status paused_from".split(), _KEEP),
    "errors": {"last": _FAILURE},
    "progress": {"recent": _KEEP},
    "last": {
        **dict.fromkeys("state action finish_reason".split(), _KEEP),
        "error": _FAILURE,
        "tool_calls": _CALL,
    },
    "queue": {"current": _TASK},
    "signals": {"top": _KEEP, "reasons": _KEEP},
}
_POSITION = {
    **dict.fromkeys("state status paused_from soft returns skip blocked_on warned".split(), _KEEP),
    "facts": _FACTS,
    "signals": _SIGNAL,
    "suppressed": _SIGNAL,
    "messages": _MESSAGE,
    "prompt": _MESSAGE,
    "queue": _TASK,
}
STRUCTURE: Mapping[str, Any] = {
    # records, intents and messages
    **dict.fromkeys("kind state event taken next status key action reason".split(), _KEEP),
    "outcome": _OUTCOME,
    "signals": _SIGNAL,
    "tasks": _TASK,
    "data": {"tasks": _TASK},
    # snapshots
    "machine": _KEEP,
    "position": _POSITION,
    "tally": {
        "path": _KEEP,
        "taken": _KEEP,
        "acted": _KEEP,
        "signals": _SIGNAL,
        "errors": _FAILURE,
    },
}
"""The places in the journal's documents with words that a replay needs.

A leaf is a word or a list of words; lists on the way to it are passed through.
"""


class Redactor:
    """Hides secrets in text and in JSON text.

    `values` are secrets, by name if given as a mapping; `names` are the words that make the name
    of a variable or of a mapping entry secret; `environ` are the variables to examine, by default
    those of this process, read once. Immutable, so threads can share one.
    """

    def __init__(
        self,
        values: Mapping[str, str] | Iterable[str] = (),
        *,
        names: Iterable[str] = SECRET_WORDS,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        words = tuple(name.lower() for name in names)
        self._is_secret = _secret_names(words)
        self._probes = tuple(_probe(word, alone=self._is_secret(word)) for word in words)
        variables = os.environ if environ is None else environ
        secrets = {value: name for name, value in variables.items() if self._is_secret(name)}
        secrets.update(_by_value(values))
        self._names: dict[str, str] = {}
        self._add(secrets)

    def also(self, values: Mapping[str, str] | Iterable[str]) -> Redactor:
        """A redactor that hides these values too."""
        more = copy(self)
        more._add(_by_value(values))
        return more

    def _add(self, secrets: Mapping[str, str]) -> None:
        long = {value: name for value, name in secrets.items() if len(value) >= SHORTEST}
        forms = {form: name for value, name in long.items() for form in forms_of(value)}
        self._names = {**self._names, **forms}
        self._finder = _finder(self._names)
        self._fragments = _fragments(self._names)
        self._begins = dict[str, list[str]]()
        for text in (*self._names, *OPENINGS):
            self._begins.setdefault(text[0], []).append(text)
        self._longest = max(map(len, (*self._names, *OPENINGS)))

    def text(self, text: str) -> str:
        """Remove secrets from plain text: a log line, an error, a file."""
        return self._hide_values(_hide_patterns(text))

    def markup(self, text: str) -> str:
        """Remove secrets from markup, or JSON that holds some, also those written with entities.

        Graphviz writes a hyphen as an entity. A text without secrets is returned unchanged.
        """
        plain = _HYPHEN.sub(lambda match: match[1] or "-", text)
        hidden = self.text(plain)
        for value, name in self._names.items():
            for form in _markup_forms(value):
                hidden = hidden.replace(form, mark(name))
        return text if hidden == plain else hidden

    def sure(self, text: str) -> int:
        """The length of a growing text up to a possible beginning of a secret at its end."""
        match = _OPEN.search(text)
        end = len(text) if match is None else match.start()
        if _KEY_END.search(text, max(0, end - 80), end):
            return end  # these dashes end a key, they do not start one
        for at in range(max(0, end - self._longest), end):
            for begin in self._begins.get(text[at], ()):
                if begin.startswith(text[at:end]):
                    return at
        return end

    def json(self, text: str, kept: Mapping[str, Any] = STRUCTURE) -> str:
        """Remove secrets from the text of a JSON object, except in the places of `kept`."""
        text = _hide_patterns(text)
        if not self._suspects(text):
            return text
        data = json.loads(text)
        return to_json(data) if self._clean(data, kept) else text

    def _suspects(self, text: str) -> bool:
        """Whether JSON text may hold a known value or an entry with a secret name."""
        for fragment in self._fragments:  # a loop: half the time of `any`
            if fragment in text:
                return True
        lower = text.lower()
        for probe in self._probes:  # noqa: SIM110
            if probe(lower):
                return True
        return False

    def _clean(self, data: Any, kept: Mapping[str, Any]) -> bool:
        """Hide in place; returns whether anything changed. Not recursive: data may be deep."""
        changed = False
        stack: list[_Part] = [(data, "", kept)]
        while stack:
            node, secret, kept = stack.pop()
            for at, value, name, below in self._entries(node, secret, kept):
                if below is _KEEP:
                    continue
                if isinstance(value, str):
                    if (hidden := self._hide(value, name)) != value:
                        node[at] = hidden
                        changed = True
                elif isinstance(value, (dict, list)):
                    stack.append((cast(Any, value), name, below))
        return changed

    def _entries(self, node: Any, secret: str, kept: Mapping[str, Any]) -> Iterator[_Entry]:
        if isinstance(node, list):
            for number, value in enumerate(cast("list[Any]", node)):
                yield number, value, secret, kept
        else:
            for key, value in cast("dict[str, Any]", node).items():
                name = secret or (key if self._is_secret(key) else "")
                yield key, value, name, kept.get(key, _NOTHING)

    def _hide(self, value: str, name: str) -> str:
        if name and len(value) >= SHORTEST:
            return value if _MARKED.fullmatch(value) else mark(name)
        if value[:1] in ("{", "["):
            value = self._hide_inside(value)
        return self._hide_values(value)

    def _hide_inside(self, text: str) -> str:
        """Hide secrets in a string that is itself JSON, such as the arguments of a tool call."""
        if not self._suspects(text):
            return text
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return to_json(data) if self._clean(data, _NOTHING) else text

    def _hide_values(self, text: str) -> str:
        return text if self._finder is None else self._finder.sub(self._mark_for, text)

    def _mark_for(self, match: re.Match[str]) -> str:
        text = match.group()
        name = self._names.get(text)
        return text if name is None else mark(name)


def mark(name: str) -> str:
    """The text that replaces a secret."""
    return f"«redacted:{_UNFIT.sub('_', name)[:64]}»"


def has_marks(text: str) -> bool:
    """Whether a text has hidden secrets."""
    return _MARKED.search(text) is not None


_UNFIT = re.compile(r"[^\w.-]")
_MARKED = re.compile("«redacted:[^»]*»")


def _hide_patterns(text: str) -> str:
    for sign, hint in _HINTS:
        if sign in text and (hint is None or hint(text)):
            break
    else:
        return text
    for name, regex, before, after in PATTERNS:
        text = regex.sub(f"{before}{mark(name)}{after}", text)
    return text


def _by_value(values: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    if isinstance(values, Mapping):
        return {value: name for name, value in cast("Mapping[str, str]", values).items()}
    return dict.fromkeys(values, "value")


def _finder(forms: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern for the forms, and for marks, so that nothing is hidden twice."""
    # longest first: one secret may start with another
    parts = [re.escape(form) for form in sorted(forms, key=len, reverse=True)]
    return re.compile("|".join([_MARKED.pattern, *parts])) if parts else None


def forms_of(value: str) -> Iterator[str]:
    """A secret as it is, and as programs encode it: for JSON, for a URL, in base64, in hex.

    Base64 encodes groups of three bytes, so it has three forms, by the secret's offset in the
    data, without the characters that also depend on neighbouring bytes.
    """
    raw = value.encode("utf-8", "surrogatepass")
    yield value
    quoted = json.dumps(value)[1:-1]
    yield from (quoted, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(quoted)[1:-1])
    for safe in ("", "/", "-._~!*'()"):
        encoded = quote(raw, safe=safe)
        yield from (encoded, encoded.replace("%20", "+"), _LOWER.sub(_lower, encoded))
    for before in range(3):
        text = b64encode(bytes(before) + raw).decode()
        inner = text[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        yield from (inner, inner.replace("+", "-").replace("/", "_"))
    yield from (raw.hex(), raw.hex().upper())


_HYPHEN = re.compile(r"(<!--.*?-->)|&#45;", re.DOTALL)


def _markup_forms(value: str) -> Iterator[str]:
    """A secret as markup writes it; nothing if none of its characters needs an entity."""
    if not _ENTITIES.search(value):
        return
    text = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for quotes in ('"', "&quot;", "&#34;", '\\"'):
        for apostrophe in ("'", "&#39;", "&#x27;", "&apos;"):
            yield text.replace('"', quotes).replace("'", apostrophe)


_ENTITIES = re.compile("[&<>'\"]")

_LOWER = re.compile("%[0-9A-F]{2}")


def _lower(match: re.Match[str]) -> str:
    return match[0].lower()


def _probe(word: str, *, alone: bool) -> Callable[[str], object]:
    """A search, in lower-case JSON text, for entries whose name `word` may make secret.

    `alone`: the word on its own is such a name. If it is not (``key``, which every intent has),
    the probe skips it.
    """
    name = re.escape(word) if alone else rf'{re.escape(word)}(?<!"{re.escape(word)})'
    return re.compile(rf'{name}[^"\\]{{0,128}}+\\*+"\s*+:\s*+[\\"\[{{]').search


def _secret_names(words: Iterable[str]) -> Callable[[str], bool]:
    """A function that tells whether a name is that of a secret.

    ``api_key accessToken DB_PASSWORD OPENAI_API_KEY_2`` are; ``key`` and ``keys`` alone name
    entries of any mapping, ``total_tokens`` and ``MAX_TOKENS`` amounts, and ``key_findings`` a
    model's findings.
    """
    any_word = "|".join(map(re.escape, words)) or "(?!)"
    ends = re.compile(rf".*(?:{any_word})s?[0-9_-]*", re.IGNORECASE | re.DOTALL)
    capitals = re.compile(rf"[^a-z]*(?:{any_word.upper()})[^a-z]*")
    amounts = re.compile(r"keys?|.*tokens", re.IGNORECASE | re.DOTALL)

    def is_secret(name: str) -> bool:
        if len(name) > 128 or amounts.fullmatch(name):
            return False
        return bool(ends.fullmatch(name) or capitals.fullmatch(name))

    return is_secret


def _fragments(forms: Iterable[str]) -> tuple[str, ...]:
    """The fewest texts of which every form of a secret contains one.

    Each is the longest part of a form that JSON writes unchanged, however deeply nested.
    """
    parts = {max(_WRITTEN_ELSE.split(form), key=len) for form in forms}
    return tuple(part for part in parts if not any(o != part and o in part for o in parts))


_WRITTEN_ELSE = re.compile(r'["\\/+%_\x00-\x1f\x7f-\U0010ffff-]')
