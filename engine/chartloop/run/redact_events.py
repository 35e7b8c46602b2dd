"""Events for listeners, with the same secrets removed as in records.

A model's text comes in pieces, and a secret may be cut anywhere. A possible beginning of one is
held back until the next piece decides; the end of the action releases the rest.

Belongs here: hiding secrets in live events. Never: what is secret (`run.redact`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from chartloop.core.codec import from_json
from chartloop.core.reasons import StopReason
from chartloop.core.records import Record
from chartloop.run.redact import Redactor

LONGEST = 8_192
"""The most characters held back: more than a private key has."""


class EventRedactor:
    """Hides secrets in the events of one run."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: dict[Hashable, str] = {}
        """Text held back, by part of the reply: text, reasoning, arguments of each call."""

    def piece(self, text: str, of: Hashable = "") -> str:
        """The part of a growing text that can be sent by now. May be empty."""
        text = self._held.get(of, "") + text
        end = self._redactor.sure(text)
        if len(text) - end > LONGEST:
            end = len(text)
        self._held[of] = text[end:]
        return self._redactor.text(text[:end])

    def rest(self) -> dict[Hashable, str]:
        """Release the text held back, at the end of a reply."""
        if not self._held:
            return {}
        held, self._held = self._held, {}
        return {of: self._redactor.text(text) for of, text in held.items() if text}

    def record(self, record: Record, reasons: Mapping[str, StopReason]) -> Record:
        """The record as a journal stores it."""
        text = record.to_json()
        hidden = self._redactor.json(text)
        if hidden == text:
            return record
        return Record.from_dict(record.seq, from_json(hidden), reasons)
