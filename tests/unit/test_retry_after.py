"""A provider that asks to be left alone for a while is: on the record, and not for ever."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from chartloop.core.errors import Category, ModelError
from chartloop.run.ports import ModelReply
from chartloop.testing.clock import ManualClock
from tests.talks import Listening, talk, written


def busy(seconds: float | None) -> dict[str, Any]:
    error: dict[str, Any] = {"category": "TRANSIENT", "message": "busy", "kind": "rate_limit"}
    return {"error": error if seconds is None else {**error, "retry_after": seconds}}


BODY = """
model: {{name: scripted}}
limits: {{time: {time}}}
rules: [{{when: run.elapsed >= limits.time, stop: time_limit}}]
states:
  a: {{do: receive, next: b}}
  b: {{do: infer, {more}retry: {{times: 2, base: 2s, {retry}}}, next: z}}
  z: {{stop: completed}}
"""


class Wait(NamedTuple):
    id: str
    asked: list[float | None]
    reason: str
    elapsed: float
    calls: int
    retry: str = ""
    time: str = "1h"
    more: str = ""
    said: str = ""


WAITS = [
    Wait("not-asked", [None], "completed", 2, 2),
    Wait("shorter-than-the-back-off", [1], "completed", 2, 2),
    Wait("longer", [30], "completed", 30, 2, said="asked to wait 30.0 s"),
    Wait("each-time", [30, 3], "completed", 34, 3, said="asked to wait 30.0 s"),
    Wait("as-long-as-may-be", [300], "completed", 300, 2),
    Wait("too-long", [301], "error", 0, 1, said="waits at most 5 min"),
    Wait("too-long-for-the-file", [11], "error", 0, 1, "most: 10s", said="at most 10.0 s"),
    Wait("for-ever", [1e300], "error", 0, 1, said="waits at most"),
    Wait("in-time", [30], "completed", 30, 2, time="31s"),
    Wait("past-the-time-limit", [60], "time_limit", 20, 1, time="20s"),
    Wait("within-bounds-the-call", [60], "completed", 60, 2, more="within: 5s, "),
]


@pytest.mark.parametrize("case", WAITS, ids=lambda case: case.id)
def test_the_longer_of_both_waits_is_waited(case: Wait) -> None:
    body = BODY.format(retry=case.retry, time=case.time, more=case.more)
    replies = [*map(busy, case.asked), "done"]
    clock = ManualClock(1000)
    run = talk(body, replies, clock=clock)
    result = run.run()
    assert result.reason == case.reason
    assert run.facts.run.elapsed == pytest.approx(case.elapsed, abs=0.01)
    assert run.facts.usage.llm_calls + run.session.tally.failed_calls == case.calls
    assert run.replay().same
    written(run)
    assert not case.said or any(case.said in warning for warning in result.warnings)
    assert not case.said or any(case.said in str(run.why(r.seq)) for r in run.records)


def test_a_back_off_waits_as_long_as_the_provider_asks() -> None:
    body = """
model: {name: scripted}
on_error: rest
limits: {tries: 5}
rules: [{when: errors.retries >= limits.tries, stop: error_threshold}]
states:
  a: {do: receive, next: b}
  b: {do: infer, next: z}
  rest: {do: back_off, with: {base: 1s, most: 40s}, next: b}
  z: {stop: completed}
"""
    run = talk(body, [busy(30), busy(900), busy(None), "done"], clock=ManualClock(1000))
    result = run.run()
    assert result.reason == "completed"
    assert run.facts.run.elapsed == 30 + 40 + 4
    assert [w for w in result.warnings if "asked to wait" in w] == [
        "the provider asked to wait 30.0 s", "the provider asked to wait 15 min",
    ]  # fmt: skip


@pytest.mark.parametrize("asked", ["3", True, float("nan"), -1, 0, None])
def test_a_wait_that_is_none_is_not_asked_for(asked: Any) -> None:
    class Busy(Listening):
        async def complete(self, request: Any, on_text: Any = None) -> Any:
            if not self.asked:
                self.asked.append(request)
                raise ModelError("busy", category=Category.TRANSIENT, retry_after=asked)
            return await super().complete(request, on_text)

    run = talk(BODY.format(retry="", time="1h", more=""), model=Busy(ModelReply("done")))
    assert run.run().reason == "completed"
    assert run.facts.run.elapsed == 2
