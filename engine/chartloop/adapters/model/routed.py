"""Models of plugins beside the usual one: each call goes to whoever has the name's beginning.

Belongs here: which model a call is for. Never: what a model answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from chartloop.core.errors import ChartloopError, PluginError
from chartloop.run.exceptions import describe
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
        name = _plugin(settings)
        if name not in self._own:
            return self._usual
        if name not in self._made:
            with _told(name, "cannot make its model"):
                made = self._own[name]()
            if not (hasattr(made, "prepare") and hasattr(made, "complete")):
                kind = type(made).__name__
                raise PluginError(f"plugin `{name}` gave a {kind}, not a model", hint=_HONOUR)
            self._made[name] = made
        return self._made[name]

    @property
    def suspends(self) -> bool:
        return True

    def prepare(self, settings: Mapping[str, Any]) -> None:
        model = self._for(settings)
        if model is self._usual:
            return model.prepare(settings)
        with _told(_plugin(settings), "refuses its model's settings"):
            return model.prepare(settings)

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        model = self._for(settings)
        if model is self._usual:
            return model.context_window(settings)
        name = _plugin(settings)
        with _told(name, "cannot say the window of its model"):
            window: object = model.context_window(settings)
        if window is None or (type(window) is int and window > 0):
            return window
        message = f"plugin `{name}` says that the window of its model is `{window!r}`"
        raise PluginError(message, hint="it is a number of tokens, or None")

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


_HONOUR = "it must honour `chartloop.run.ports.Model`"


def _plugin(settings: Mapping[str, Any]) -> str:
    return str(settings.get("name", "")).partition("/")[0]


@contextmanager
def _told(name: str, what: str) -> Generator[None]:
    """`PluginError` for whatever else the code of a plugin raises."""
    try:
        yield
    except ChartloopError:
        raise
    except (Exception, SystemExit) as error:
        message = f"plugin `{name}` {what}: {describe(error)}"
        raise PluginError(message, hint="the plugin itself fails: ask its authors") from error
