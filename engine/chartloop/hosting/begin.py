"""Orders that several processes get at the same moment: done once.

The journal refuses the second of two starts. That is right for a program that wants a new run. One
that repeats an order, by a key or by a file of lines, wants to know that the run is there.

Any other order with a key is claimed under that key before it is carried out.

Belongs here: waiting for another process, and whose error is raised. The journal decides who is
first (`run.log`, `place_request`).
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from chartloop.core.errors import Driven, Fenced, RunError
from chartloop.hosting.problems import Refusal, Wrong
from chartloop.run.journal import Journal
from chartloop.run.lease import TTL
from chartloop.run.requests import StoredRequest
from chartloop.run.sync import by_hand

PATIENCE = TTL + 10.0
"""Seconds to wait for the first record of a run that another process begins: longer than the lease
of one that has died on another machine."""
PENDING = "pending"
"""The key in the outcome of an order that is being carried out: the caller who does it."""
CLAIM = 30.0
"""Seconds after which the claim of a caller who has died ends."""
PAUSE = 0.02
"""Seconds between two looks at what another process does."""


def begin_once(journal: Journal, run_id: str, begin: Callable[[], object]) -> bool:
    """Begin a run unless it has been begun; returns whether this call did.

    While another process is about to write the first record, this one waits for it. `begin` starts
    the run and writes its first record. Its error is raised here, unless another process has begun
    the run.
    """
    until = time.monotonic() + PATIENCE
    while True:
        row = by_hand(journal.row(run_id))
        if row is not None and row.head:
            return False
        try:
            begin()
        except RunError as error:
            row = by_hand(journal.row(run_id))
            if row is not None and row.head:
                return False
            if not isinstance(error, (Driven, Fenced)) or time.monotonic() > until:
                raise
        else:
            return True
        time.sleep(PAUSE)


def claim_order(journal: Journal, order: StoredRequest) -> StoredRequest:
    """Claim an order by its key, or wait for who has claimed it; returns the stored order.

    It is `PENDING` if the caller is to carry it out now, and has its outcome otherwise. An order
    whose caller has died is claimed after `CLAIM` seconds: what is done for an order is found by
    its key, so nothing is done twice then.
    """
    while True:
        now = by_hand(journal.now())
        mine = {PENDING: secrets.token_hex(8), "until": now + CLAIM}
        kept = by_hand(journal.place_request(order._replace(at=now, outcome=mine)))
        pending = kept.outcome or {}
        if pending == mine or PENDING not in pending or kept.digest != order.digest:
            return kept
        if now > pending["until"] and by_hand(
            journal.settle_request(order.key, mine, before=pending)
        ):
            return kept._replace(outcome=mine)
        time.sleep(PAUSE)


def digest_of(kind: str, run_id: str, body: Mapping[str, Any]) -> str:
    """The hash of what an order says."""
    text = json.dumps([kind, run_id, body], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def refuse_other(known: StoredRequest, digest: str) -> None:
    """Raise `Refusal` if a key was given to another order."""
    if known.digest != digest:
        raise Refusal(
            422, "this Idempotency-Key was used for another request",
            hint="give each request a key of its own, and repeat it only with the same body",
            wrong=[Wrong("header.Idempotency-Key", "used before, with another body")],
        )  # fmt: skip
