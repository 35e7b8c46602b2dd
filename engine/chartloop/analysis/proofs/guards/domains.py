"""The domains of facts: ranges, words, and the relations that always hold between them.

A caller may set limits and variables, so a `World` treats a limit as fixed only if it is in its
`limits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from chartloop.core.facts import PARTS
from chartloop.language.expression.tree import Fact, Node
from chartloop.language.intervals.evaluate import judge
from chartloop.language.intervals.interval import Value, number, of_plain

Ends = tuple[float, float]
ANYTHING: Ends = (-inf, inf)
AT_MOST = (
    ("usage.prompt_tokens", "usage.total_tokens"),
    ("usage.completion_tokens", "usage.total_tokens"),
    *((f"usage.{name}", f"usage.{part.of}") for name, part in PARTS.items()),
    ("run.working", "run.elapsed"),
    ("run.idle", "run.elapsed"),
)
"""Pairs of facts of which the first never exceeds the second: `core.fold` sees to that."""


@dataclass(frozen=True)
class World:
    """The facts of one machine, as far as they are known before a run."""

    words: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """The possible values of texts that have only a few: ``last.action``, ``last.state``."""
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values of fixed limits, by path; a limit that is off has none."""

    def value(self, fact: Fact) -> Any:
        """The value of a fixed limit, else None."""
        return self.limits.get(fact.path)

    def range(self, node: Node) -> Ends:
        """The range of a node's value."""
        interval = number(judge(node, self._fixed_value))
        return (interval.low, interval.high) if interval.some else ANYTHING

    def _fixed_value(self, fact: Fact) -> Value | None:
        fixed = self.value(fact)
        return None if fixed is None else of_plain(fixed)
