"""Requests that a journal keeps: what was asked of a run, by the key that its caller gave.

A key makes repeating harmless: a request of a key that is kept gives the one that is there. A
request without an outcome is open: somebody is to drive the run for it, whichever process takes it
next, and goes on with it after the one before has died. A run has one open request at a time.

Belongs here: the record, the port, and the rule that every journal asks. Never: tables, HTTP, who
drives (`run.lease`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from chartloop.core.errors import StatusError


class StoredRequest(NamedTuple):
    """A request to a run, as stored."""

    key: str
    """Whoever asks again with this key is answered from here."""
    run_id: str
    kind: str
    """``run``, ``step``, ``start``, ``fork`` ..."""
    digest: str
    """The hash of everything that was asked: the same key with another one is a mistake."""
    at: float
    data: Mapping[str, Any]
    outcome: Mapping[str, Any] | None = None
    """Its outcome; None while it is open."""

    @property
    def is_open(self) -> bool:
        """Whether the run is still to be driven for it."""
        return self.outcome is None


class Requests(Protocol):
    """The journal's operations on requests."""

    async def place_request(self, request: StoredRequest) -> StoredRequest:
        """Keep a request; gives the one that is kept under its key, which may be an earlier one.

        `StatusError` for an open one where the run has another that is open.
        """
        ...

    async def settle_request(self, key: str, outcome: Mapping[str, Any]) -> None:
        """Say what came of an open request. Nothing happens where it is not open."""
        ...

    async def withdraw_request(self, key: str) -> None:
        """Forget a request that nothing came of: its key may be used again."""
        ...

    async def requests(
        self, run_id: str | None = None, *, key: str | None = None, open_only: bool = False,
        limit: int | None = None,
    ) -> list[StoredRequest]:  # fmt: skip
        """Those of a run, of a key, or all; the newest first."""
        ...


def refuse_second(request: StoredRequest, before: StoredRequest | None) -> None:
    """`StatusError` where a run is to be driven for an earlier request."""
    if request.is_open and before is not None:
        raise StatusError(
            f"run `{request.run_id}` is being driven: `{before.kind}` was asked before",
            hint="pause it, or wait until it rests",
        )


class MemoryRequests:
    """The requests of a journal in memory."""

    def __init__(self, note: Callable[[], None]) -> None:
        self._requests: dict[str, StoredRequest] = {}
        self._note = note
        """Called when something changed."""

    async def place_request(self, request: StoredRequest) -> StoredRequest:
        if (known := self._requests.get(request.key)) is not None:
            return known
        before = await self.requests(request.run_id, open_only=True, limit=1)
        refuse_second(request, before[0] if before else None)
        self._requests[request.key] = request
        self._note()
        return request

    async def settle_request(self, key: str, outcome: Mapping[str, Any]) -> None:
        if (found := self._requests.get(key)) is not None and found.is_open:
            self._requests[key] = found._replace(outcome=outcome)
            self._note()

    async def withdraw_request(self, key: str) -> None:
        self._requests.pop(key, None)

    async def requests(
        self, run_id: str | None = None, *, key: str | None = None, open_only: bool = False,
        limit: int | None = None,
    ) -> list[StoredRequest]:  # fmt: skip
        found = [
            one
            for one in reversed(list(self._requests.values()))
            if (run_id is None or one.run_id == run_id)
            and (key is None or one.key == key)
            and (one.is_open or not open_only)
        ]
        return found[:limit]

    def forget_requests(self, run_id: str) -> None:
        """A run is gone."""
        for key in [key for key, one in self._requests.items() if one.run_id == run_id]:
            del self._requests[key]
