"""Models of plugins beside the usual one: each call goes to whoever has the name's beginning.

Belongs here: which model a call is for. Never: what a model answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chartloop.run.ports import Model, ModelReply, ModelRequest, OnText


class Routed:
    """Calls of ``shop/small`` go to the model that the plugin `shop` makes, others to the usual.

    A plugin's model is made when it is first called, once for a run.
    """

    def __init__(self, usual: Model, own: Mapping[str, Callable[[], Model]]) -> None:
        self._usual = usual
        self._own = own
        self._made: dict[str, Model] = {}

    def _for(self, settings: Mapping[str, Any]) -> Model:
        name = str(settings.get("name", "")).partition("/")[0]
        if name not in self._own:
            return self._usual
        if name not in self._made:
            self._made[name] = self._own[name]()
        return self._made[name]

    @property
    def suspends(self) -> bool:
        return True

    def prepare(self, settings: Mapping[str, Any]) -> None:
        self._for(settings).prepare(settings)

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        return self._for(settings).context_window(settings)

    def prices(self, settings: Mapping[str, Any]) -> Any:
        """USD for a token that is sent and for one that is written, where the model says it."""
        prices = getattr(self._for(settings), "prices", None)
        return None if prices is None else prices(settings)

    def worst(self, settings: Mapping[str, Any]) -> tuple[int | None, Any]:
        """The longest reply in tokens and the prices, where the model says them."""
        worst = getattr(self._for(settings), "worst", None)
        return (None, None) if worst is None else worst(settings)

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        return await self._for(request.settings).complete(request, on_text)
