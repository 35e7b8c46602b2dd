"""Which amounts are believed, of tokens, calls and money that someone reports.

Limits are held against these amounts, and rest on facts that only grow: an amount below zero
would buy a run room that it does not have. So one that cannot be is never added up, whether a
provider, a model port, an action, a child or a file says it.

Belongs here: what an amount may be. Never: what is put in the place of one that is not believed.

Source: 003 "Monitoring"; design "language", section 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from chartloop.core.facts import EMPTY

if TYPE_CHECKING:
    from chartloop.core.outcome import Spent

MOST_TOKENS = 10**9
"""Tokens of one side of one model call. The largest windows hold a few million."""
MOST_COST = 10**6
"""USD for one model call."""
MOST = 1e15
"""What no count and no sum of money goes beyond, of whatever was added up."""


def is_tokens(value: object) -> bool:
    """Whether so many tokens can have been sent or written in one model call."""
    return type(value) is int and 0 <= value <= MOST_TOKENS


def is_cost(value: object) -> bool:
    """Whether one model call can have cost so many USD."""
    return isinstance(value, (int, float)) and 0 <= value <= MOST_COST


def problem_with(spent: Spent) -> str:
    """What is wrong with what an action says that it used, in words; empty when it can be so."""
    asked, sent, written = spent.llm_calls, spent.prompt_tokens, spent.completion_tokens
    paid, tools = spent.cost, spent.tools
    if not (
        type(asked) is type(sent) is type(written) is int
        and 0 <= asked <= MOST and 0 <= sent <= MOST and 0 <= written <= MOST
    ):  # fmt: skip
        counts = {"llm_calls": asked, "prompt_tokens": sent, "completion_tokens": written}
        for name, count in counts.items():
            if not _is_count(count):
                return f"{name} {say(count)}"
    if paid is not None and not (_is_number(paid) and paid <= MOST):
        return f"cost {say(paid)}"
    if tools is EMPTY:  # nearly always, and asked about every step
        return ""
    if not isinstance(tools, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  a file may hold anything
        return f"tools {say(tools)}"
    for tool, count in tools.items():
        if not (isinstance(tool, str) and _is_count(count)):  # pyright: ignore[reportUnnecessaryIsInstance]
            return f"tools {say(tool)}: {say(count)}"
    return ""


def say(value: object) -> str:
    """A value that is not believed, as a warning names it: short, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 60:
        return f"a number of about {int(value.bit_length() * math.log10(2)) + 1:,} digits"
    if isinstance(value, (int, float)):
        return f"{value:,}"
    return ascii(value[:40]) if isinstance(value, str) else f"of type {type(value).__name__}"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= MOST


def _is_number(value: object) -> bool:
    """A number from 0 on. NaN is none."""
    return isinstance(value, (int, float)) and 0 <= value < math.inf
