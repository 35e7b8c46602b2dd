"""The stack of detours as text: what snapshots of earlier versions hold is read as it was meant."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.core.position import Position, Return, ReturnPoint


class Case(NamedTuple):
    """One entry of the stack, as text and as a record."""

    id: str
    text: str
    made: Return


CASES = [
    Case("a-state", "rules.0:=act", Return("rules.0", ReturnPoint("state", "act"))),
    Case("an-edge", "rules.0:act.next", Return("rules.0", ReturnPoint("edge", "act.next"))),
    Case("an-event", "r:ask.on.yes", Return("r", ReturnPoint("edge", "ask.on.yes"))),
    Case("an-event-called-all", "r:ask.on.all", Return("r", ReturnPoint("edge", "ask.on.all"))),
    Case("a-branch", "r:act.all.0", Return("r", ReturnPoint("edge", "act.all.0"))),
    Case("a-fork", "r:act.all", Return("r", ReturnPoint("fork", "act"))),
    Case("on-error", "r:on_error", Return("r", ReturnPoint("edge", "on_error"))),
    Case("a-first-retry", "r:act.retry#0", Return("r", ReturnPoint("edge", "act.retry"), 0)),
    Case("a-retry", "r:act.retry#12", Return("r", ReturnPoint("edge", "act.retry"), 12)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_return_is_written_and_read_back(case: Case) -> None:
    assert Return.from_text(case.text) == case.made
    assert case.made.to_text() == case.text


def test_a_position_keeps_its_stack_as_text() -> None:
    position = Position("tidy", returns=tuple(case.made for case in CASES))
    written = position.to_dict()
    assert written["returns"] == [case.text for case in CASES]
    assert Position.from_dict(written) == position
