"""What a model call costs, and the most that it can use.

Belongs here: prices and lengths. Never: a call, a limit's arithmetic (`run.fleet`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chartloop.core.errors import Category, ToolError
from chartloop.core.transcript import estimate, estimate_tokens
from chartloop.run.fleet import FleetLimit, What
from chartloop.run.ports import Model, ModelRequest


def cost_of(
    name: str, settings: Mapping[str, Any], model: Model, tokens: tuple[int, int]
) -> float | None:
    """The cost of a call in USD by the file's prices, else by the port's; None if unknown.

    `name` is the model that answered. After a fallback the file's prices are not used.
    """
    prices = settings.get("input_cost_per_token"), settings.get("output_cost_per_token")
    other = settings.get("fallbacks") and name != settings.get("name")
    if None in prices or other:
        prices_of = getattr(model, "prices", None)
        if prices_of is None:
            return None
        prices = prices_of({**settings, "name": name or settings.get("name")}) or (None, None)
    cost = sum(n * price for n, price in zip(tokens, prices, strict=True) if price is not None)
    return None if None in prices else cost


def most_of(
    request: ModelRequest, model: Model, names: Sequence[str], limits: Iterable[FleetLimit]
) -> dict[What, float]:
    """The most that a call can use of what the limits count. `ToolError` if that is unknown."""
    settings, what = request.settings, {limit.what: limit for limit in limits}
    most: dict[What, float] = {"requests": 1.0}
    if what.keys() <= {"requests"}:
        return most
    tools = estimate_tokens(json.dumps(request.tools, default=str)) if request.tools else 0
    sent = estimate(request.messages) + tools
    written = settings.get("max_tokens")
    if written is None and (window := model.context_window(settings)) is not None:
        written = max(window - sent, 1)
    if written is None:
        limit = what.get("tokens") or what["cost"]
        raise ToolError(UNBOUNDED.format(limit.name), category=Category.CRITICAL)
    most["tokens"] = float(sent + written)
    if (limit := what.get("cost")) is not None:
        costs = [cost_of(name, settings, model, (sent, int(written))) for name in names or ("",)]
        for name, cost in zip(names or ("",), costs, strict=True):
            if cost is None:
                raise ToolError(UNPRICED.format(limit.name, name), category=Category.CRITICAL)
            most["cost"] = max(most.get("cost", 0.0), cost)
    return most


UNBOUNDED = (
    "the limit `{}` needs the longest reply of a model call, which is unknown: say `max_tokens` in "
    "`model`"
)
UNPRICED = (
    "the limit `{}` needs the price of a model call, and `{}` has none: say `input_cost_per_token` "
    "and `output_cost_per_token` in `model`"
)
