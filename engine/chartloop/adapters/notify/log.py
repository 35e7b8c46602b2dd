"""The notifier that writes to Python's logging, which every run has by default."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

_log = logging.getLogger("chartloop.notify")


class LogNotifier:
    """Writes each notice to the logger `chartloop.notify`, at level INFO."""

    suspends = False

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """Log a notice."""
        _log.info(text, extra={"chartloop": dict(data)})
