"""Trying a failed run again over HTTP: what is listed before, and what is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chartloop.testing import MemoryJournal, Scripted
from tests.server.conftest import Served, serving

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django

MACHINE = """\
chartloop: 1
machine: clerk
model: {name: scripted}
limits: {steps: 4}
output: last.text
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  take: {do: receive, next: think}
  think: {do: infer, next: write}
  write: {do: infer, next: done}
  done: {stop: completed}
"""
LOOPS = """\
chartloop: 1
machine: loops
model: {name: scripted}
limits: {steps: 4}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  take: {do: receive, next: think}
  think: {do: infer, next: think}
"""
PAID = {"text": "First.", "usage": {"prompt_tokens": 9, "completion_tokens": 1, "cost": 0.5}}
DOWN = {"error": {"category": "CRITICAL", "message": "server down"}}


REPLIES: list[Any] = [PAID, DOWN, "Second.", "Third."]


@pytest.fixture
def model() -> Scripted:
    """It fails at its second call, until `repaired` mends it."""
    return Scripted(REPLIES)


def repaired(model: Scripted) -> None:
    model.replies = Scripted([PAID, "Second."]).replies


@pytest.fixture
def served(tmp_path: Path, model: Scripted) -> Iterator[Served]:
    from chartloop.hosting.server import Settings  # noqa: PLC0415

    (tmp_path / "clerk.yaml").write_text(MACHINE)
    (tmp_path / "loops.yaml").write_text(LOOPS)
    settings = Settings(machines=(tmp_path,), journal=MemoryJournal(), components={"model": model})
    with serving(settings) as server:
        yield server


def failed(served: Served) -> str:
    run = served.start("clerk")
    served.until(run, "error")
    return run


def test_a_plan_lists_the_call_that_would_be_made_again(served: Served) -> None:
    run = failed(served)
    plan = served.get(f"/runs/{run}/retry")
    assert (plan["at"], plan["failed"], plan["state"], plan["kept"]) == (3, 3, "write", 2)
    assert plan["error"]["message"] == "server down"
    assert [(c["kind"], c["times"], c["failed"]) for c in plan["calls"]] == [("model", 1, 1)]
    assert plan["needs_confirmation"]
    assert plan["lines"][0] == "2 finished steps kept; it starts at `write`, in a new run"


def test_nothing_is_made_again_that_nobody_agreed_to(served: Served) -> None:
    run = failed(served)
    problem = served.post(f"/runs/{run}/retry", {}, 409)
    assert problem["detail"] == "these calls would be made again, and nobody has agreed to that"
    assert served.get(f"/runs/{run}/retry")["digest"] in problem["hint"]
    assert len(served.get("/runs")["runs"]) == 1


def test_a_retry_and_its_origin_lead_to_each_other(served: Served, model: Scripted) -> None:
    run = failed(served)
    assert served.get(f"/runs/{run}")["followers"] == []
    repaired(model)
    digest = served.get(f"/runs/{run}/retry")["digest"]
    made = served.post(f"/runs/{run}/retry", {"confirm": digest}, 201)["made"]
    served.until(made, "completed")
    assert served.get(f"/runs/{run}")["followers"] == [made]
    assert served.get(f"/runs/{made}")["parent"] == run


def test_a_retry_keeps_what_was_done_and_is_driven(served: Served, model: Scripted) -> None:
    run = failed(served)
    repaired(model)
    digest = served.get(f"/runs/{run}/retry")["digest"]
    key = {"Idempotency-Key": "once"}
    made = served.post(f"/runs/{run}/retry", {"confirm": digest}, 201, headers=key)["made"]
    again = served.post(f"/runs/{run}/retry", {"confirm": digest}, 201, headers=key)["made"]
    assert again == made
    ended = served.until(made, "completed")
    assert ended["facts"]
    records = served.get(f"/runs/{made}/records")["records"]
    before = served.get(f"/runs/{run}/records")["records"]
    assert records[:3] == before[:3]
    assert served.get(f"/runs/{made}/result")["usage"]["cost"] == pytest.approx(0.5)
    assert len(served.get("/runs")["runs"]) == 2


def test_a_limit_is_raised_and_the_newest_step_is_not_paid_again(
    served: Served, model: Scripted
) -> None:
    model.replies = Scripted([PAID] * 20).replies
    run = served.start("loops")
    served.until(run, "completed")
    plan = served.get(f"/runs/{run}/retry")
    assert (plan["kind"], plan["keeps_outcome"], plan["calls"]) == ("limit", True, [])
    (limit,) = plan["limits"]
    assert (limit["name"], limit["used"], limit["raised"]) == ("steps", "4 of 4", 8)
    problem = served.post(f"/runs/{run}/retry", {}, 409)
    assert problem["hint"] == "raise it: steps: 8"
    wrong = served.post(f"/runs/{run}/retry", {"limits": {"steps": "many"}}, 422)
    assert wrong["errors"][0]["at"] == "/limits"
    for stranger in ("", "0" * 16):
        body = {"limits": {"steps": 8}, "confirm": stranger}
        refused = served.post(f"/runs/{run}/retry", body, 409)
        assert plan["digest"] in refused["hint"]
        assert "No call is made a second time" in refused["hint"]
    body = {"limits": {"steps": 8}, "confirm": plan["digest"]}
    made = served.post(f"/runs/{run}/retry", body, 201)["made"]
    served.until(made, "completed")
    spent = [served.get(f"/runs/{one}/result")["usage"]["cost"] for one in (run, made)]
    assert spent == [pytest.approx(1.5), pytest.approx(3.5)]


def test_a_run_that_did_not_fail_is_not_tried_again(served: Served) -> None:
    run = served.start("clerk", drive="none")
    plan = served.get(f"/runs/{run}/retry")
    assert plan["refusal"] == "The run has not ended"
    assert served.post(f"/runs/{run}/retry", {}, 409)["detail"] == "the run has not ended"


def test_a_second_retry_is_refused_with_the_first_unless_it_insists(
    served: Served, model: Scripted
) -> None:
    run = failed(served)
    repaired(model)
    plan = served.get(f"/runs/{run}/retry")
    made = served.post(f"/runs/{run}/retry", {"confirm": plan["digest"]}, 201)["made"]
    served.until(made, "completed")
    second = served.get(f"/runs/{run}/retry")
    for confirm in (plan["digest"], second["digest"]):
        problem = served.post(f"/runs/{run}/retry", {"confirm": confirm}, 409)
        assert (problem["code"], problem["successor"]) == ("CL624", made)
        said = f"run `{run}` was tried again as run `{made}`: done; made there: 1 call of the model"
        assert problem["detail"] == said
    assert served.get("/runs?phase=failed")["runs"] == []
    (row,) = served.get("/runs?phase=continued")["runs"]
    assert (row["run"], row["successor"]) == (run, made)
    told = served.get(f"/runs/{run}/retry?again=true")
    assert told["lines"][1] == f"Before: {said}"
    refused = served.post(f"/runs/{run}/retry", {"confirm": plan["digest"], "again": True}, 409)
    assert told["digest"] in refused["hint"]
    body = {"confirm": told["digest"], "again": True}
    other = served.post(f"/runs/{run}/retry", body, 201)["made"]
    assert served.post(f"/runs/{run}/retry", body, 409)["hint"]
    assert served.get(f"/runs/{run}/retry")["successor"] == other


def test_a_second_next_message_is_refused_with_the_first_unless_it_branches(
    served: Served, model: Scripted
) -> None:
    repaired(model)
    first = served.start("clerk", session="ann")
    served.until(first, "completed")
    body = {"machine": "clerk", "task": "And then?", "continues": first, "session": "ann"}
    second = served.post("/runs", body, 201)["run"]
    problem = served.post("/runs", body, 409)
    assert (problem["code"], problem["successor"]) == ("CL624", second)
    assert served.post("/runs", {**body, "branch": True}, 201)["run"] != second
