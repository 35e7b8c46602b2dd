"""What facts can be: ranges, words, and what always holds between them.

A `World` is open about limits and variables, which a caller may give: a limit counts as what the
file says only in a world that is `valued`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from chartloop.language.expression.tree import Fact, Node
from chartloop.language.intervals.evaluate import judge
from chartloop.language.intervals.interval import Value, number, of_plain

Ends = tuple[float, float]
ANYTHING: Ends = (-inf, inf)
AT_MOST = (
    ("usage.prompt_tokens", "usage.total_tokens"),
    ("usage.completion_tokens", "usage.total_tokens"),
    ("usage.cached_tokens", "usage.prompt_tokens"),
    ("usage.cache_write_tokens", "usage.prompt_tokens"),
    ("usage.reasoning_tokens", "usage.completion_tokens"),
    ("run.working", "run.elapsed"),
    ("run.idle", "run.elapsed"),
)
"""Pairs of facts of which the first is never above the second: `core.fold` adds them up so."""


@dataclass(frozen=True)
class World:
    """The facts of one machine, as far as they are known before a run."""

    words: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Texts that can only be one of a few words: ``last.action``, ``last.state``."""
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values of limits that count as fixed, by path; of one that is off there is none."""

    def value(self, fact: Fact) -> Any:
        """The fixed value of a limit; None when it is not fixed."""
        return self.limits.get(fact.path)

    def range(self, node: Node) -> Ends:
        """Between which numbers the value of a node lies."""
        found = number(judge(node, self._fixed_value))
        return (found.low, found.high) if found.some else ANYTHING

    def _fixed_value(self, fact: Fact) -> Value | None:
        fixed = self.value(fact)
        return None if fixed is None else of_plain(fixed)
