"""What an import costs: a module of tools loads what declares them, and nothing that runs them."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import pytest

from chartloop import actions


class Import(NamedTuple):
    """A line, and what it must not load."""

    line: str
    spares: tuple[str, ...]


HEAVY = (
    "asyncio",
    "anyio",
    "jinja2",
    "pydantic",
    "transitions",
    "networkx",
    "graphviz",
    "yaml",
    "litellm",
    "jsonschema_rs",
)


@pytest.mark.parametrize(
    "case",
    [
        Import("from chartloop import tool", (*HEAVY, "chartloop.actions.call_tools")),
        Import("from chartloop import action, guard", (*HEAVY, "chartloop.actions.infer")),
        Import("from chartloop import tool; tool(lambda: 1)", HEAVY),
        Import("from chartloop import StopReason, Outcome", (*HEAVY, "chartloop.actions")),
    ],
    ids=lambda case: case.line,
)
def test_what_it_spares(case: Import) -> None:
    code = f"import sys; {case.line}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=True
    )
    assert not {*case.spares} & {*done.stdout.split()}


def test_the_registry_is_there_when_it_is_asked_for() -> None:
    code = "from chartloop import actions; print('infer' in actions.builtin().actions)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=True
    )
    assert done.stdout.strip() == "True"


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        actions.nothing  # noqa: B018
