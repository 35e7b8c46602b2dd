"""A model in front of another: everything is passed on, but for what its own class adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chartloop.run.ports import Model, ModelReply, ModelRequest, OnText


class ModelWrapper:
    """Honours the port `Model` by asking another."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def suspends(self) -> bool:
        """As the model."""
        return self.model.suspends

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """As the model."""
        self.model.prepare(settings)

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """As the model."""
        return self.model.context_window(settings)

    def prices(self, settings: Mapping[str, Any]) -> tuple[float, float] | None:
        """As the model, which may know none."""
        known = getattr(self.model, "prices", None)
        return None if known is None else known(settings)

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """As the model."""
        return await self.model.complete(request, on_text)
