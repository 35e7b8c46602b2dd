"""The tasks file of `chartloop run --inputs`, and the total budget of its runs.

    {"task": "Sum 1 to 10.", "vars": {"style": "short"}, "limits": {"steps": 20}}

Each line is one run; the command line gives the values that a line omits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import click

from chartloop.cli.error_report import MisuseError
from chartloop.core.errors import nearest
from chartloop.core.facts import Facts
from chartloop.core.strict_json import read_strictly
from chartloop.core.units import parse_number

FIELDS = ("task", "vars", "limits")
TOTALS = ("tokens", "cost", "steps")


class Job(NamedTuple):
    """One line of the file: the task of one run, with its variables and limits."""

    line: int
    task: str = ""
    vars: Mapping[str, Any] = {}
    limits: Mapping[str, Any] = {}


def read_jobs(source: str) -> list[Job]:
    """Read the lines of a file, or of stdin for ``-``. `MisuseError` lists the bad ones."""
    if source == "-":
        text = sys.stdin.read()
    else:
        text = Path(source).read_text(encoding="utf-8", errors="replace")
    jobs: list[Job] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            jobs.append(_job(number, line))
        except (ValueError, RecursionError) as error:
            problems.append(f"{source}:{number}: {error}")
    if problems:
        more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
        hint = 'a line is {"task": "...", "vars": {...}, "limits": {...}}'
        raise MisuseError("\n  ".join(["bad lines:", *problems[:20]]) + more, hint=hint)
    if not jobs:
        raise MisuseError(f"{source} holds no tasks")
    return jobs


def _job(number: int, line: str) -> Job:
    data: Any = read_strictly(line)
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  a line is data, not an argument
    fields = cast("dict[str, Any]", data)
    for name in fields:
        if name not in FIELDS:
            raise ValueError(f"unknown field `{name}`: {nearest(name, FIELDS)}")
    for name, kind in (("task", str), ("vars", dict), ("limits", dict)):
        if not isinstance(fields.get(name, kind()), kind):
            raise ValueError(f"`{name}` must be {'a text' if kind is str else 'an object'}")  # noqa: TRY004
    return Job(number, **fields)


class Totals(NamedTuple):
    """What runs have spent or may spend together. None means unknown or unbounded."""

    tokens: float | None = None
    cost: float | None = None
    """USD."""
    steps: float | None = None

    def limits_reached(self, bounds: Totals) -> list[str]:
        """The names of the bounds that these totals reach."""
        pairs = zip(TOTALS, self, bounds, strict=True)
        return [n for n, own, bound in pairs if bound is not None and (own or 0) >= bound]


def read_totals(options: Iterable[str]) -> Totals:
    """Parse `--total-limit`: ``tokens=100_000,cost=2.50``."""
    bounds: dict[str, float] = {}
    for part in (p.strip() for text in options for p in text.split(",")):
        name, _, text = part.partition("=")
        if name not in TOTALS:
            raise click.UsageError(
                f"--total-limit has no `{name}`: it is one of {', '.join(TOTALS)}"
            )
        value = _amount(text, whole=name != "cost")
        if value is None:
            raise click.UsageError(f"--total-limit {name} cannot be `{text}`")
        bounds[name] = value
    return Totals(**bounds)


def _amount(text: str, *, whole: bool) -> float | None:
    number: float | None = parse_number(text)
    if number is None and not whole:
        try:
            number = float(text)
        except ValueError:
            return None
    return number if number is not None and 0 <= number < math.inf else None


def sum_spending(all_facts: Iterable[Facts]) -> Totals:
    """Add up the spending of runs. The cost covers only calls whose price is known."""
    tokens, cost, steps = 0, None, 0
    for facts in all_facts:
        tokens += facts.usage.total_tokens
        steps += facts.run.steps
        if facts.usage.cost is not None:
            cost = (cost or 0.0) + facts.usage.cost
    return Totals(tokens, cost, steps)
