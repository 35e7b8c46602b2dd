"""Which rules of deciding a run was decided by, and whether this engine still has them.

A `start` records the version of chartloop that wrote it, and the number of its rules
(`machine.evolve.RULES`). A run of rules that this engine has is opened by them. Any other is
refused, with what would be decided differently; it is not damaged.

    number known        opened; a record that is decided differently was changed: damaged
    number not known    refused
    no number (before)  opened where every record is decided as it was recorded, else refused
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chartloop.core.errors import RulesChangedError, StatusError
from chartloop.core.records import Input, Record
from chartloop.core.units import say_count
from chartloop.machine.build import Chart
from chartloop.machine.evolve import RULES
from chartloop.run.renaming import Names
from chartloop.run.replay import Replay, replay

ENGINE = "engine"
"""In the data of a `start`: the version of chartloop that wrote it."""
RULES_KEY = "rules"
"""There too: the number of the rules that it decides by."""
_KNOWN = frozenset({RULES})


class Otherwise(Exception):
    """A record of a run of unknown rules is decided differently."""


OTHERWISE = (Otherwise, KeyError, StatusError)
"""The exceptions of deciding a record under rules that are not its own."""


def rules_of(start: Input) -> int | None:
    """The number that a `start` records; None for one from before there were numbers."""
    found: Any = start.data.get(RULES_KEY)
    return found if found is None or isinstance(found, int) else -1


def is_known(rules: int | None) -> bool:
    """Whether this engine can open runs of these rules. Without a number, the records show it."""
    return rules is None or rules in _KNOWN


def marks(engine: str) -> dict[str, Any]:
    """The versions that a `start` records."""
    return {ENGINE: engine, RULES_KEY: RULES}


def say_rules(start: Input) -> str:
    """The versions that a run was decided by, for people."""
    rules, engine = rules_of(start), start.data.get(ENGINE) or "of an unknown version"
    if rules is None:
        return "a version of chartloop that recorded no number of its rules"
    return f"rules {rules} of chartloop {engine}"


def other_rules(
    chart: Chart, records: Sequence[Record], run_id: str, names: Names, version: str
) -> RulesChangedError:
    """The refusal, with what this engine decides differently of what was recorded."""
    start = records[0].input
    found = replay(chart, records, run_id, names=names)
    engine = start.data.get(ENGINE)
    there = f"chartloop {engine}" if isinstance(engine, str) and engine else "the version before"
    return RulesChangedError(
        f"run `{run_id}` was decided by {say_rules(start)}; this is chartloop {version}, which "
        f"has rules {RULES}: {_verdict(found)}",
        hint=f"continue it under {there}, or start a new run; nothing was written",
        rules=rules_of(start), engine=str(engine or ""), replay=found,
    )  # fmt: skip


def _verdict(found: Replay) -> str:
    if found.same:
        records = say_count(found.records, "record")
        return f"its {records} so far come out the same, what follows may not"
    return f"decided otherwise, {found.differences[0]}"
