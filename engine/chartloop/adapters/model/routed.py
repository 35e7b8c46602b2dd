"""Models of plugins beside the default one: the prefix of a model's name selects the plugin.

Belongs here: the choice of the model for a call. Never: the content of a reply.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from chartloop.core.errors import ChartloopError, PluginError
from chartloop.run.exceptions import describe
from chartloop.run.ports import Model, ModelReply, ModelRequest, OnText


class Routed:
    """Routes calls of ``shop/small`` to the model of the plugin `shop`, others to the default.

    A plugin's model is created when it is first needed, once per run.
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
            with _plugin_errors(name, "cannot make its model"):
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
        with _plugin_errors(_plugin(settings), "refuses its model's settings"):
            return model.prepare(settings)

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        model = self._for(settings)
        if model is self._usual:
            return model.context_window(settings)
        name = _plugin(settings)
        with _plugin_errors(name, "cannot say the window of its model"):
            window: object = model.context_window(settings)
        if window is None or (type(window) is int and window > 0):
            return window
        message = f"plugin `{name}` says that the window of its model is `{window!r}`"
        raise PluginError(message, hint="it is a number of tokens, or None")

    def prices(self, settings: Mapping[str, Any]) -> Any:
        """USD per prompt token and per completion token, if the model reports them."""
        prices = getattr(self._for(settings), "prices", None)
        return None if prices is None else prices(settings)

    def worst(self, settings: Mapping[str, Any]) -> tuple[int | None, Any]:
        """The most tokens of a call and the highest prices, if the model reports them."""
        worst = getattr(self._for(settings), "worst", None)
        return (None, None) if worst is None else worst(settings)

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        return await self._for(request.settings).complete(request, on_text)


_HONOUR = "it must honour `chartloop.run.ports.Model`"


def _plugin(settings: Mapping[str, Any]) -> str:
    return str(settings.get("name", "")).partition("/")[0]


@contextmanager
def _plugin_errors(name: str, what: str) -> Generator[None]:
    """Raise `PluginError` for any exception of a plugin that is not one of chartloop's."""
    try:
        yield
    except ChartloopError:
        raise
    except (Exception, SystemExit) as error:
        message = f"plugin `{name}` {what}: {describe(error)}"
        raise PluginError(message, hint="the plugin itself fails: ask its authors") from error
