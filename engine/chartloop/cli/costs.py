"""The cost of model calls and the data of an answer, in words.

Texts about a record are in `run.record_text`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from chartloop.core.units import say_count

if TYPE_CHECKING:
    from chartloop.core.facts import Facts
    from chartloop.core.types import Type


def fields_of(fields: Mapping[str, Type]) -> str:
    """The data that an answer carries: ``note (str), force (bool)``."""
    return ", ".join(f"{name} ({type})" for name, type in fields.items())


def calls_and_cost(facts: Facts, failed: int = 0) -> str:
    """Number and cost of model calls: ``3 model calls, 1 more failed, 1,204 tokens, $0.0123``."""
    usage = facts.usage
    if not usage.llm_calls:
        return f"{say_count(failed, 'model call')} failed" if failed else "no model calls"
    calls = say_count(usage.llm_calls, "model call") + (f", {failed} more failed" * bool(failed))
    cost = "cost unknown" if usage.cost is None else say_cost(usage.cost)
    return f"{calls}, {usage.tokens}, {cost}"


def say_cost(cost: float) -> str:
    """US dollars: two decimals, or four significant digits below 1."""
    if cost >= 1 or cost == 0:
        return f"${cost:.2f}"
    digits = 4 - math.ceil(math.log10(cost))  # four significant digits, never 4.2e-05
    return "$" + f"{cost:.{digits}f}".rstrip("0").rstrip(".")
