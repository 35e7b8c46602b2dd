"""Events as whoever listens hears them: without the secrets that records do not have either.

A model's text comes in pieces, and a secret may be cut anywhere. What may be the beginning of one
is held back until the next piece shows what it is; the end of the action lets the rest go.

Belongs here: hiding in what is told live. Never: what is secret (`run.redact`).
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping

from chartloop.core.reasons import StopReason
from chartloop.core.records import Record, to_json
from chartloop.run.journal import Journal
from chartloop.run.redact import Redactor

LONGEST = 8_192
"""Characters that are held back at most: a private key has fewer."""


def event_redactor(journal: Journal) -> EventRedactor | None:
    """Hides secrets from listeners; None if the journal keeps them too."""
    redactor: Redactor | None = getattr(journal, "redactor", None)
    return None if redactor is None else EventRedactor(redactor)


class EventRedactor:
    """Hides secrets in the events of one run."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: dict[Hashable, str] = {}
        """By what is told: the text, the reasoning, the arguments of each call."""

    def piece(self, text: str, of: Hashable = "") -> str:
        """The part of a continuing text that may be sent by now. May be empty."""
        text = self._held.get(of, "") + text
        end = self._redactor.sure(text)
        if len(text) - end > LONGEST:
            end = len(text)
        self._held[of] = text[end:]
        return self._redactor.text(text[:end])

    def rest(self) -> dict[Hashable, str]:
        """The text that was held back, now that nothing follows."""
        if not self._held:
            return {}
        held, self._held = self._held, {}
        return {of: self._redactor.text(text) for of, text in held.items() if text}

    def record(self, record: Record, reasons: Mapping[str, StopReason]) -> Record:
        """The record as a journal keeps it."""
        text = to_json(record.to_dict())
        hidden = self._redactor.json(text)
        if hidden == text:
            return record
        return Record.from_dict(record.seq, json.loads(hidden), reasons)
