"""What a condition on calls reads of an argument whose type is no JSON: its data, and not its repr.

A row is a type, a value as the model writes it, and the data of that value. For each, the gate of a
run, `implies` and `query` compare the argument with the data and with the texts that Python has for
the value; the value is written, or it is the default that the model leaves out.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from ipaddress import IPv4Address
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from chartloop import load
from chartloop.actions.declare import tool_spec
from chartloop.analysis.proofs.guards.implication import implies, still_holds
from chartloop.core.specs import ToolSpec
from chartloop.core.types import BOOL
from chartloop.language.approval import call_type
from chartloop.language.expression import Expression, ExpressionFault, Scope, parse
from chartloop.language.readers.reader import NULLABLE


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Kind(StrEnum):
    CARD = "card"
    CASH = "cash"


class Account(BaseModel):
    usd: int = Field(alias="usdAmount")


@dataclass
class Point:
    x: int


class Row(NamedTuple):
    """A value of a type, as the model writes it, and its data if that is something else."""

    id: str
    value: Any
    written: Any
    data: Any = None
    part: str = ""
    """The part of the argument that is compared, if it is not all of it."""

    @property
    def reads(self) -> Any:
        """What the condition reads."""
        return self.written if self.data is None else self.data


ID = "0000002a-0000-0000-0000-000000000000"
ROWS = [
    Row("enum", Colour.RED, "red"),
    Row("enum-of-numbers", Level.HIGH, 2),
    Row("enum-of-texts", Kind.CASH, "cash"),
    Row("uuid", UUID(ID), ID),
    Row("uuid-in-capitals", UUID(ID), ID.upper(), ID),
    Row("path", Path("a/b"), "a/b"),
    Row("path-with-a-dot", Path("a/b"), "./a/b", "a/b"),
    Row("timedelta", timedelta(hours=1), "PT1H"),
    Row("timedelta-in-minutes", timedelta(hours=1), "PT60M", "PT1H"),
    Row("date", date(2026, 1, 2), "2026-01-02"),
    Row("datetime", datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
    Row("time", time(12, 30), "12:30:00"),
    Row("decimal", Decimal("7.5"), 7.5),
    Row("decimal-as-text", Decimal("7.5"), "7.5", 7.5),
    Row("bytes", b"ab", "ab"),
    Row("address", IPv4Address("1.2.3.4"), "1.2.3.4"),
    Row("class", Account(usdAmount=5), {"usdAmount": 5}, 5, ".usdAmount"),
    Row("dataclass", Point(5), {"x": 5}, 5, ".x"),
]


def tool_for(row: Row, *, is_default: bool) -> ToolSpec:
    """A tool with an argument `x` of the row's type, with the value as its default, or required."""

    def pay(*, x: Any) -> str:
        """Pay."""
        return repr(x)

    pay.__annotations__["x"] = type(row.value) if row.id[:4] != "path" else Path
    if is_default:
        pay.__kwdefaults__ = {"x": row.value}
    return tool_spec(pay)


def texts_of(row: Row) -> list[str]:
    """The texts that Python has for the value, where they are not its data."""
    whole = {repr(row.value), str(row.value), repr(row.value)[1:-1]}
    return sorted(whole - {row.reads})


def machine(tool: ToolSpec, when: Expression) -> Any:
    """A machine with a gate for the calls of the tool."""
    text = {
        "chartloop": 1, "machine": "m", "model": {"name": "scripted"}, "tools": ["pay"],
        "approve": {"tools": ["pay"], "when": when.text},
        "states": {
            "think": {"do": "infer", "next": "act"},
            "act": {"do": "call_tools", "next": "done"}, "done": {"stop": "completed"},
        },
    }  # fmt: skip
    return load(json.dumps(text), tools=[tool])


def is_asked(tool: ToolSpec, when: Expression, arguments: dict[str, Any]) -> bool:
    reply = {"text": "", "tool_calls": [{"id": "c", "name": "pay", "arguments": arguments}]}
    run = machine(tool, when).start("x", script=[reply])
    run.run()
    return run.state == "approve"


def conditions(row: Row, tool: ToolSpec) -> dict[str, Expression]:
    """What the language lets a condition ask of the argument: its data, and Python's texts.

    It refuses what may be left out, a `Decimal`, which may also be written as a text, a number
    beside a text, and words that an enum does not have.
    """
    found: dict[str, Expression] = {}
    scope = Scope({}, known=NULLABLE, extra={"call": call_type({"pay": tool.parameters})})
    for value in (row.reads, *texts_of(row)):
        for op in ("==", "!="):
            with suppress(ExpressionFault):
                text = f"call.arguments.x{row.part} {op} {value!r}"
                found[f"{op} {value}"] = parse(text, scope, want=BOOL)
    return found


CELLS = [
    (row, is_default)
    for row in ROWS
    for is_default in (False, True)
    if conditions(row, tool_for(row, is_default=is_default))
]
IDS = [f"{row.id}-{'default' if is_default else 'written'}" for row, is_default in CELLS]


@pytest.mark.parametrize(("row", "is_default"), CELLS, ids=IDS)
def test_a_condition_reads_the_data_of_an_argument(row: Row, is_default: bool) -> None:
    tool = tool_for(row, is_default=is_default)
    given = {} if is_default else {"x": row.written}
    asked = conditions(row, tool)
    is_not = f"!= {row.reads}"
    right = {n for n in asked if n != is_not and (n[0] == "!" or n == f"== {row.reads}")}
    assert {name for name, when in asked.items() if is_asked(tool, when, given)} == right
    for one, other in product(right, asked):
        proved = implies(asked[one], asked[other], tool).holds
        query = f"each tool:pay when {asked[one].text} after its own accept"
        assert bool(machine(tool, asked[other]).query(query)) is (proved is True)
        assert proved or one != other
        if other not in right:
            assert not proved
            assert not still_holds(asked[one], asked[other], tool).holds


@pytest.mark.parametrize(("row", "is_default"), CELLS, ids=IDS)
def test_a_counterexample_is_one_for_the_run(row: Row, is_default: bool) -> None:
    tool = tool_for(row, is_default=is_default)
    for when in conditions(row, tool).values():
        found = implies(None, when, tool)
        assert found.holds is not True
        assert found.holds is None or not is_asked(tool, when, dict(found.arguments or {}))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_language_compares_what_is_always_there(row: Row) -> None:
    """So that no cell is empty by mistake."""
    assert bool(conditions(row, tool_for(row, is_default=False))) is not row.id.startswith(
        "decimal"
    )
    tool = tool_for(row, is_default=True)
    assert bool(conditions(row, tool)) is ("default" in tool.parameters["properties"]["x"])
