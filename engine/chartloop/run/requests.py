"""Requests to a run, stored in the journal by the key that the caller chose.

A key makes repetition harmless: placing a request whose key is stored returns the stored one. A
request without an outcome is open: some process has to drive the run for it, and another one takes
over if that one dies. A run has at most one open request. Only the driver of the run settles it:
the transaction that writes the outcome checks the run's epoch and lease, so a process that was
frozen and replaced changes nothing.

Belongs here: the record, the port, and the rule that every journal applies. Never: tables, HTTP,
drivers (`run.lease`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from chartloop.core.errors import StatusError


class StoredRequest(NamedTuple):
    """A request to a run, as stored."""

    key: str
    """Identifies the request: a repetition with this key gets the stored one."""
    run_id: str
    kind: str
    """``run``, ``step``, ``start``, ``fork`` ..."""
    digest: str
    """The hash of its content: the same key with another digest is a mistake."""
    at: float
    data: Mapping[str, Any]
    outcome: Mapping[str, Any] | None = None
    """Its outcome; None while it is open."""
    needs: str = ""
    """What a worker must have to drive the run (`api.needs`); empty if any may try."""

    @property
    def is_open(self) -> bool:
        """Whether the run must still be driven for it."""
        return self.outcome is None


def start_key(run_id: str) -> str:
    """The key of the order to drive a run that was just started: whoever repeats it finds it."""
    return f"start-{run_id}"


def start_order(run_id: str, at: float, needs: str) -> StoredRequest:
    """The order to drive a run that was just started, due at a time, to its end."""
    key = start_key(run_id)
    return StoredRequest(key, run_id, "run", key, at, {"until": ""}, needs=needs)


class Requests(Protocol):
    """The journal's operations on requests."""

    async def place_request(self, request: StoredRequest) -> StoredRequest:
        """Store a request; returns the one stored under its key, which may be an earlier one.

        For an open request: `StatusError` if the run has another open one, `MovedError` if it
        continues as another run.
        """
        ...

    async def settle_request(
        self, key: str, outcome: Mapping[str, Any], epoch: int = 0, *,
        before: Mapping[str, Any] | None = None,
    ) -> bool:  # fmt: skip
        """Set the outcome of an open request, for the driver of its run since `epoch`.

        False, with nothing written, if the request is not open, or if another driver has the run
        or has had it since: then the request is that driver's to settle. With `before` the outcome
        takes the place of that one, whoever drives the run; False if there is another one.
        """
        ...

    async def withdraw_request(self, key: str, *, before: Mapping[str, Any] | None = None) -> None:
        """Delete a request that had no effect: its key may be used again.

        With `before` only while that is its outcome.
        """
        ...

    async def requests(
        self, run_id: str | None = None, *, key: str | None = None, open_only: bool = False,
        limit: int | None = None,
    ) -> list[StoredRequest]:  # fmt: skip
        """The requests of a run, of a key, or all; newest first."""
        ...


def refuse_second(request: StoredRequest, before: StoredRequest | None) -> None:
    """Raise `StatusError` for an open request if an earlier one is still open."""
    if request.is_open and before is not None:
        raise StatusError(
            f"run `{request.run_id}` is being driven: `{before.kind}` was asked before",
            hint="pause it, or wait until it rests",
        )
