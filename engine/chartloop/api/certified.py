"""What was proven of a run before it began."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from chartloop.run.certificate import stored_certificate
from chartloop.run.session import Session

T = TypeVar("T")


class Certified(ABC):
    """The face of `Run` that says what it can cost."""

    session: Session

    @abstractmethod
    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """What was proven of it when it began: bounds, limits, assumptions, by which version.

        It is stored where the journal is a file. None: the run is in memory, has not begun, is
        a child (its parent's holds for it), or was written before there were certificates.
        """
        return self._wait(self.acertificate())

    async def acertificate(self) -> Mapping[str, Any] | None:
        """What was proven of it when it began."""
        session = self.session
        if not session.head:
            return None
        text = await stored_certificate(session.journal, session.run_id)
        return None if text is None else json.loads(text)
