"""A base class for models that wrap another and pass everything on by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chartloop.run.ports import Model, ModelReply, ModelRequest, OnText


class ModelWrapper:
    """A `Model` that delegates to another."""

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
        """As the model; None if it knows no prices."""
        known = getattr(self.model, "prices", None)
        return None if known is None else known(settings)

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """As the model."""
        return await self.model.complete(request, on_text)
