"""A machine that calls tools until the model calls none, and what its tests over HTTP need."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from chartloop.actions.declare import tool
from chartloop.api import Machine, load

needs_litellm = pytest.mark.extra(  # noqa: S610 - no Django
    "litellm", install='pip install -e ".[llm]"'
)
QUIET = pytest.mark.filterwarnings(
    "ignore:.*using the `ReadOnly` qualifier", "ignore:Accessing the 'model_"
)
"""Warnings that litellm causes inside itself; it silences the first, pytest puts it back."""
WITH_KEYS = [pytest.mark.usefixtures("provider_keys"), QUIET]
"""The marks of a module that calls a provider: its key in the environment, litellm quiet."""

CLAUDE = "claude-sonnet-4-5"


@tool
def add(x: int) -> str:
    """Add.

    Args:
        x: What.
    """
    return f"{x}"


LIMITS = {
    "steps": ("run.steps", "steps_limit"),
    "tokens": ("usage.total_tokens", "token_limit"),
    "cost": ("usage.cost", "token_limit"),
}
"""The fact that each limit is compared with, and the reason of its stop."""


def http_model(name: str, url: str, more: str = "") -> str:
    """The model of a machine file: `name` at `url`, with `more` settings of YAML."""
    timeout = "" if "timeout" in more else "timeout: 20s, "
    return f"name: {name}, api_base: '{url}', {timeout}{more}"


def tool_loop(
    model: str = "name: scripted",
    given: Any = add,
    *,
    state: str = "",
    top: str = "",
    limits: Mapping[str, object] = MappingProxyType({"steps": 20}),
) -> Machine:
    """The machine, with this model, one tool, and YAML of a test's own.

    Args:
        model: The settings of `model`, without their braces.
        given: The tool.
        state: Fields of the state that calls the model, with a comma after each.
        top: Whole lines of the top level.
        limits: The limits of the file. Each has a rule that stops the run.
    """
    rules = "".join(
        f"  - {{when: {LIMITS[name][0]} >= limits.{name}, stop: {LIMITS[name][1]}}}\n"
        for name in limits
    )
    text = f"""
chartloop: 1
machine: m
model: {{{model}}}
tools: [{given.__name__}]
{top}limits: {{{", ".join(f"{name}: {value}" for name, value in limits.items())}}}
rules:
{rules}states:
  q: {{do: receive, next: a}}
  a: {{do: infer, {state}next: w}}
  w: {{ask: 'Tools?', when: len(last.tool_calls) > 0, then: u, else: d}}
  u: {{do: call_tools, next: a}}
  d: {{stop: completed}}
"""
    return load(text, tools=[given])
