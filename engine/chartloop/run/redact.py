"""The one redactor: what is written to a journal or a log passes here and loses its secrets.

Hidden are (a) values of environment variables, and of mapping entries, whose name says that
they are secret; (b) values that the caller gives, those of ``${VAR}`` in a machine file; (c)
what looks like a credential, by one table of patterns. What is hidden reads
``«redacted:NAME»``; nothing else changes.

Only strings are hidden, never numbers: ``max_tokens: 4096`` is no secret. Words by which a
replay finds its way (states, edges, reasons, ids of calls) stay as they are where `STRUCTURE`
says that such words stand.

The common case is that there is nothing to hide: a few searches for literal beginnings decide
it. Only a text that fails them is decoded, walked and encoded again.

Belongs here: names, patterns, hiding. Never: files, journals, logging.
Source: design "architecture", section 4.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from chartloop.core.credentials import PATTERNS
from chartloop.core.records import to_json

SHORTEST = 8
"""Characters. A shorter value is not hidden: it would be found inside ordinary words."""

SECRET_WORDS = ("key", "token", "secret", "password")
"""A name that ends in one of these is secret; so is one in capitals that has it anywhere."""


_HINTS = tuple(
    (sign, re.compile(hint).search)
    for sign, hint in (
        ("-", r"-(?:(?<=sk-)|(?<=xox[a-z]-)|(?<=glpat-)|----BEGIN )"),
        ("_", "g(?:h[pousr]_|ithub_pat_)"),
        ("A", "A(?:[KS]IA|Iza)"),
        ("J", "J(?<=eyJ)"),
        ("@", "://[^/]{0,322}@"),
        (" ", "earer |Basic "),
        ("=", "[?&](?i:[a-z_-]{0,32}(?:key|token|secret|password)=)"),
    )
)
"""A text in which none of these is found matches no pattern. The sign is there to skip the search:
to look for a single character costs next to nothing."""

_Part: TypeAlias = tuple[Any, str, Mapping[str, Any]]
"""A list or mapping, the secret name above it if there is one, and what is kept in it."""
_Entry: TypeAlias = tuple[Any, Any, str, Mapping[str, Any]]

_NOTHING: Mapping[str, Any] = {}
_KEEP: Mapping[str, Any] = {}
_CALL = {"id": _KEEP, "name": _KEEP}
_FAILURE = {"category": _KEEP, "state": _KEEP, "kind": _KEEP}
_SIGNAL = {"reason": _KEEP, "source": _KEEP}
_TASK = {"id": _KEEP, "kind": _KEEP}
_MESSAGE = {"role": _KEEP, "name": _KEEP, "tool_call_id": _KEEP, "tool_calls": {"id": _KEEP}}
_OUTCOME = {
    "error": _FAILURE,
    "reply": {"finish_reason": _KEEP, "model": _KEEP, "tool_calls": _CALL},
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
    # records, intents and letters
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
        "moments": _KEEP,
        "signals": _SIGNAL,
        "errors": _FAILURE,
    },
}
"""Where the journal's documents hold words that a replay needs.

A leaf is a word or a list of words; lists on the way are passed through.
"""


class Redactor:
    """Hides secrets in text and in JSON text.

    `values` are secrets, by name where it is a mapping; `names` the words that make the name
    of a variable or of a mapping entry secret; `environ` the variables whose values are hidden
    when their name says so: those of this process by default, read once. Immutable, so one
    may serve many threads.
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
        known = os.environ if environ is None else environ
        found = {value: name for name, value in known.items() if self._is_secret(name)}
        found.update(_by_value(values))
        self._names = {value: name for value, name in found.items() if len(value) >= SHORTEST}
        self._finder = _finder(self._names)
        self._fragments = tuple({_plainest(value) for value in self._names})

    def text(self, text: str) -> str:
        """Plain text without its secrets: a log line, an error, a file."""
        return self._hide_values(_hide_patterns(text))

    def json(self, text: str, kept: Mapping[str, Any] = STRUCTURE) -> str:
        """The text of a JSON object without its secrets.

        Words that stand where `kept` says are left alone.
        """
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
        """Hide in place; whether anything changed. A stack, since data may be nested deeply."""
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
                elif _has_parts(value):
                    stack.append((value, name, below))
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
        """A string that is itself JSON, as the arguments of a tool call are."""
        if not self._suspects(text):
            return text
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return to_json(data) if self._clean(data, _NOTHING) else text

    def _hide_values(self, text: str) -> str:
        return text if self._finder is None else self._finder.sub(self._marked, text)

    def _marked(self, match: re.Match[str]) -> str:
        found = match.group()
        name = self._names.get(found)
        return found if name is None else mark(name)


def mark(name: str) -> str:
    """What stands in place of a secret."""
    return f"«redacted:{_UNFIT.sub('_', name)[:64]}»"


_UNFIT = re.compile(r"[^\w.-]")
_MARKED = re.compile("«redacted:[^»]*»")


def _hide_patterns(text: str) -> str:
    for sign, hint in _HINTS:
        if sign in text and hint(text):
            break
    else:
        return text
    for name, regex, before, after in PATTERNS:
        text = regex.sub(f"{before}{mark(name)}{after}", text)
    return text


def _has_parts(value: object) -> bool:
    return isinstance(value, (dict, list))


def _by_value(values: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    if isinstance(values, Mapping):
        return {value: name for name, value in cast("Mapping[str, str]", values).items()}
    return dict.fromkeys(values, "value")


def _finder(values: Iterable[str]) -> re.Pattern[str] | None:
    """Finds the values, and what is hidden already, so that it is not hidden twice."""
    # longest first: one secret may begin with another
    parts = [re.escape(value) for value in sorted(values, key=len, reverse=True)]
    return re.compile("|".join([_MARKED.pattern, *parts])) if parts else None


def _probe(word: str, *, alone: bool) -> Callable[[str], object]:
    """Finds, in JSON text in lower case, entries whose name may be secret by `word`.

    `alone` says whether the word on its own is such a name. Where it is not (``key``, which
    every intent has) the probe passes over it.
    """
    name = re.escape(word) if alone else rf'{re.escape(word)}(?<!"{re.escape(word)})'
    return re.compile(rf'{name}[^"\\]{{0,128}}\\*"\s*:\s*[\\"\[{{]').search


def _secret_names(words: Iterable[str]) -> Callable[[str], bool]:
    """Whether a name says that its value is secret.

    ``api_key accessToken DB_PASSWORD OPENAI_API_KEY_2`` do; ``key`` and ``keys`` alone name
    entries of any mapping, ``total_tokens`` and ``MAX_TOKENS`` amounts, and ``key_findings``
    what a model has found.
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


def _plainest(value: str) -> str:
    """The longest part of a secret that is written the same in JSON, however deeply nested."""
    return max(re.split(r'["\\/\x00-\x1f\x7f-\U0010ffff]', value), key=len)
