"""The version of the decision rules of a run, and whether this version of chartloop has them.

A `start` records the version of chartloop that wrote it, and the number of its decision rules
(`machine.evolve.RULES`). A run with other rules is not damaged, but refused, with the first record
that would be decided differently.

    known number        opened; a record that is decided differently was altered: damaged
    unknown number      refused
    no number (old)     opened if every record is decided as recorded, else refused
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chartloop.core.errors import RulesChangedError, StatusError
from chartloop.core.records import Input, Record
from chartloop.core.units import say_count
from chartloop.machine.build import Chart
from chartloop.machine.evolve import RULES, RULES_KEY
from chartloop.run.renaming import Names
from chartloop.run.replay import Replay, replay

ENGINE = "engine"
"""Key in the data of a `start`: the version of chartloop that wrote it."""
_KNOWN = range(1, RULES + 1)


class Otherwise(Exception):
    """A record of a run with unknown rules is decided differently."""


OTHERWISE = (Otherwise, KeyError, StatusError)
"""The exceptions that deciding a record by other rules than its own may raise."""


def rules_of(start: Input) -> int | None:
    """The number that a `start` records; None if it is too old to have one, -1 if invalid."""
    number: Any = start.data.get(RULES_KEY)
    return number if number is None or isinstance(number, int) else -1


def is_known(rules: int | None) -> bool:
    """Whether runs with these rules can be opened. Without a number, their records show it."""
    return rules is None or rules in _KNOWN


def marks(engine: str) -> dict[str, Any]:
    """The versions that a `start` records."""
    return {ENGINE: engine, RULES_KEY: RULES}


def say_rules(start: Input) -> str:
    """The rules and the version that a run was decided by, in words."""
    rules, engine = rules_of(start), start.data.get(ENGINE) or "of an unknown version"
    if rules is None:
        return "a version of chartloop that recorded no number of its rules"
    return f"rules {rules} of chartloop {engine}"


def other_rules(
    chart: Chart, records: Sequence[Record], run_id: str, names: Names, version: str
) -> RulesChangedError:
    """The error for a run of other rules, with the first record that would differ."""
    start = records[0].input
    outcome = replay(chart, records, run_id, names=names)
    engine = start.data.get(ENGINE)
    there = f"chartloop {engine}" if isinstance(engine, str) and engine else "the version before"
    return RulesChangedError(
        f"run `{run_id}` was decided by {say_rules(start)}; this is chartloop {version}, which "
        f"has rules {RULES}: {_verdict(outcome)}",
        hint=f"continue it under {there}, or start a new run; nothing was written",
        rules=rules_of(start), engine=str(engine or ""), replay=outcome,
    )  # fmt: skip


def _verdict(outcome: Replay) -> str:
    if outcome.same:
        records = say_count(outcome.records, "record")
        return f"its {records} so far come out the same, what follows may not"
    return f"decided otherwise, {outcome.differences[0]}"
