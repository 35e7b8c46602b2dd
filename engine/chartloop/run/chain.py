"""The hash chain of a run: a digest for each record, over what is stored of it and all before it.

    notes  = SHA-256(notes before it, number, -1, time, type, NUL, stored text)
    record = SHA-256(record before it, notes between, number, record, time, "record", NUL, text)

Numbers are big-endian with 64 bits, signed, and the time is a float of 64 bits. The text is what
the journal stores: redacted, with the digests of its large payloads. A run begins with 32 zero
bytes, a child, continuation or moved run with its parent's newest record, and a fork with what its
parent began with, since it has copies of its records. Without the notes, which an export leaves
out, their digest is enough to check the records.

There is no key: who can write the journal can compute a new chain. A digest that was noted
elsewhere fixes all that came before it.

Belongs here: computing and checking. Never: how a journal keeps it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol, TypeAlias

from chartloop.core.text_table import Line
from chartloop.core.units import say_count

SIZE = 32
"""The bytes of a digest."""
START = bytes(SIZE)
"""What a run without a parent begins with."""
_numbers = struct.Struct(">qqd").pack


Stored: TypeAlias = tuple[int, int | None, float, bytes, bytes]
"""What is stored of an event: its number, that of its record, its time, its type, its text."""


def follow(chain: bytes, event: Stored) -> bytes:
    """The chain after one more event, which is a note without the number of a record.

    `chain` is the digest of the newest record, followed by the digest of the notes since, if any.
    """
    seq, record, at, type, text = event
    stored = _numbers(seq, -1 if record is None else record, at) + type + b"\0" + text
    if record is None:
        return chain[:SIZE] + sha256(chain[SIZE:] + stored).digest()
    return sha256(chain + stored).digest()


class Link(NamedTuple):
    """An event as it is stored."""

    event: Stored
    digest: bytes | None
    """The digest of a record; None for other events."""


class Chain(NamedTuple):
    """The events of a run as they are stored, with their digests."""

    origin: bytes
    """What it begins with."""
    end: bytes
    """Where it ends: the digest of the newest record, and that of the notes since."""
    head: int
    """The number of its events."""
    follows: bool
    """Whether its origin is in the chain of its parent, or nothing is known of one."""
    links: Sequence[Link]

    def first_fault(self) -> str:
        """The first place where it differs from what was written, in words; empty for none."""
        now = self.origin
        for number, link in enumerate(self.links):
            seq, record = link.event[:2]
            if seq != number:
                return f"event {number} is missing"
            try:
                now = follow(now, link.event)
            except (TypeError, struct.error):
                return f"event {number} cannot be read"
            if link.digest != (None if record is None else now):
                what = f"event {number}" if record is None else f"record {record}"
                return f"{what} or a note before it was changed"
        if len(self.links) != self.head:
            return f"its end is missing: {len(self.links)} of {self.head} events are there"
        if now != self.end:
            return "its end was changed"
        return "" if self.follows else "it does not begin with a record of its parent"


class Checked(NamedTuple):
    """The result of a check of a run's chain."""

    digest: str
    """The digest of its newest record, in hex: note it elsewhere, and all before it is fixed."""
    records: int
    fault: str = ""
    """The first place where the run differs from what was written; empty for none."""

    def line(self) -> Line:
        """The result in words."""
        if self.fault:
            return Line(f"changed since it was written: {self.fault}", "red")
        return Line(f"{say_count(self.records, 'record')} as written, digest {self.digest[:16]}")


class Chains(Protocol):
    """The part of a journal's port that gives chains."""

    async def chain(self, run_id: str) -> Chain | None:
        """The chain of a run, read at one moment; None if the journal keeps none.

        The texts are those that `follow` was given when the events were written.
        """
        ...
