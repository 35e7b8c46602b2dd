"""Names, units and number formats of a simulation's figures."""

from __future__ import annotations

from chartloop.analysis.proofs.bound.bound import say_amount
from chartloop.core.units import say_elapsed

NAMES = {
    "actions": "actions", "requests": "requests", "tool_calls": "tool calls",
    "tokens": "tokens", "usd": "USD", "elapsed": "time", "waiting": "of it waiting",
}  # fmt: skip
"""The names of a run's figures, for people."""
UNITS = {
    "requests": "requests a run, failed ones too", "tool_calls": "calls a run", "usd": "USD a run",
    "tokens": "tokens a run (no price is known)",
    "elapsed": "from start to end, waiting included",
}  # fmt: skip
"""The labels of the plots' axes."""


def say(name: str, value: float) -> str:
    """Format a figure to stand next to its name: USD without the unit."""
    if name in ("elapsed", "waiting"):
        return say_elapsed(value)
    if name == "usd":
        return say_amount("usd", float(f"{value:.4g}")).removesuffix(" USD")
    return f"{value:,.0f}" if value >= 1_000 or value == int(value) else f"{value:,.1f}"
