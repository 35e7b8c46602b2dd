"""Runs over HTTP: started, looked at, driven, answered."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api.stored_run import begun_with
from chartloop.core.errors import SetupError
from chartloop.hosting.machines import Machines
from chartloop.hosting.settings import Settings
from chartloop.run.lease import Driver
from chartloop.run.processes import Process
from chartloop.run.sync import by_hand
from tests.server.conftest import Serve, Served, serving, wait_for

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django


def test_a_run_is_started_waits_and_is_answered(served: Served) -> None:
    run = served.start(task="Write.")
    seen = served.until(run, "paused")
    assert (seen["state"], seen["question"]) == ("approve", 'Publish "First."?')
    (listed,) = served.get("/runs", params={"waiting": True})["runs"]
    assert (listed["run"], listed["question"]["wait"]) == (run, seen["wait"])
    served.post(f"/runs/{run}/answer", {"event": "approve", "wait": seen["wait"]})
    assert served.until(run, "completed")["output"] == "First."
    assert served.get(f"/runs/{run}/result")["reason"] == "completed"
    assert served.get("/runs", params={"waiting": True})["runs"] == []


def test_one_step_at_a_time(served: Served) -> None:
    run = served.start(drive="none")
    assert [r["kind"] for r in served.get(f"/runs/{run}/records")["records"]] == ["start"]
    told = served.post(f"/runs/{run}/step", params={"wait": 20})
    assert (told["order"], told["outcome"]["state"]) == ("step", "draft")
    served.post(f"/runs/{run}/step", params={"wait": 20})
    problem = served.post(f"/runs/{run}/step", status=409)
    assert (problem["code"], problem["detail"]) == ("CL601", "the run waits for an answer")
    assert {"answer", "cancel", "fork"} <= set(problem["can"])
    assert "step" not in problem["can"]


def test_a_run_stops_where_it_is_told_to(served: Served) -> None:
    run = served.start(drive="none")
    told = served.post(f"/runs/{run}/run", {"until": "draft"}, params={"wait": 20})
    assert (told["outcome"]["state"], told["outcome"]["status"]) == ("draft", "running")
    problem = served.post(f"/runs/{run}/run", {"until": "nowhere"}, 422)
    assert "nowhere" in problem["detail"]


def test_an_answer_leads_on_and_a_second_is_refused(served: Served) -> None:
    run = served.start()
    wait = served.until(run, "paused")["wait"]
    body = {"event": "reject", "data": {"note": "shorter"}, "wait": wait}
    served.post(f"/runs/{run}/answer", body)
    problem = served.post(f"/runs/{run}/answer", body, 409)
    assert problem["code"] in ("CL615", "CL616")
    wait_for(lambda: served.get(f"/runs/{run}")["question"] == 'Publish "Second."?')
    problem = served.post(f"/runs/{run}/answer", {"event": "reject", "data": {"note": 7}}, 422)
    assert problem["code"] == "CL602"
    assert served.post(f"/runs/{run}/answer", {"event": "burn"}, 422)["code"] == "CL602"


@pytest.mark.parametrize("order", ["answer", "enqueue", "cancel", "pause", "fork", "back", "set"])
def test_orders_for_a_machine_whose_model_is_far_away(
    serve: Serve, machines: Path, order: str
) -> None:
    """Reading such a run gives the event loop away; sending to it must too."""
    text = (machines / "review.yaml").read_text().replace("name: scripted", "name: openai/gpt-4o")
    (machines / "review.yaml").write_text(text)
    served = serve()
    run = served.start()
    served.until(run, "paused")
    bodies = {
        "answer": {"event": "approve"}, "enqueue": {"tasks": ["more"]},
        "set": {"name": "limits.steps", "value": 9},
    }  # fmt: skip
    status = 201 if order in ("fork", "back") else 200
    assert served.post(f"/runs/{run}/{order}", bodies.get(order, {}), status)["order"] == order


def test_cancel_pause_and_resume(served: Served) -> None:
    run = served.start(drive="none")
    served.post(f"/runs/{run}/pause")
    told = served.post(f"/runs/{run}/run", params={"wait": 20})
    assert told["outcome"]["status"] == "paused"
    assert served.post(f"/runs/{run}/resume")["order"] == "resume"
    wait_for(lambda: served.get(f"/runs/{run}")["state"] == "approve")
    served.until(run, "paused")
    served.post(f"/runs/{run}/cancel", {"message": "wrong customer"})
    seen = served.until(run, "completed")
    assert "wrong customer" in seen["explanation"]
    assert served.post(f"/runs/{run}/cancel", status=409)["can"] == ["fork", "back"]


def test_a_fork_a_step_back_and_another_limit(served: Served) -> None:
    run = served.start()
    served.until(run, "paused")
    fork = served.post(f"/runs/{run}/fork", {"at": 2}, 201)["made"]
    assert served.get(f"/runs/{fork}")["state"] == "draft"
    back = served.post(f"/runs/{run}/back", {"records": 1}, 201)["made"]
    assert served.get(f"/runs/{back}")["state"] == "draft"
    served.post(f"/runs/{back}/set", {"name": "limits.steps", "value": 9})
    view = served.get(f"/runs/{back}")
    assert {"name": "limits.steps", "type": "int", "value": "9"} in view["editable"]
    problem = served.post(f"/runs/{back}/set", {"name": "limits.steps", "value": "many"}, 422)
    assert [one["at"] for one in problem["errors"]] == ["/value"]
    assert served.post(f"/runs/{run}/fork", {"at": 99}, 422)["hint"]


def test_every_view_of_a_run(served: Served) -> None:
    run = served.start()
    served.until(run, "paused")
    page = served.get(f"/runs/{run}/records", params={"limit": 2})
    assert ([r["seq"] for r in page["records"]], page["next"]) == ([0, 1], 2)
    decision = served.get(f"/runs/{run}/decision", params={"seq": 1})
    assert decision["seq"] == 1
    assert any(row["left"] for group in decision["groups"] for row in group["rows"])  # a margin
    assert served.get(f"/runs/{run}/trace")["steps"]
    assert served.get(f"/runs/{run}/picture").startswith("<svg")
    served.get(f"/runs/{run}/decision", 404, params={"seq": 99})


class Missing(NamedTuple):
    method: str
    path: str
    status: int = 404


@pytest.mark.parametrize(
    "case",
    [
        Missing("GET", "/runs/nothing"),
        Missing("GET", "/runs/nothing/events"),
        Missing("GET", "/runs/nothing/records"),
        Missing("POST", "/runs/nothing/step"),
        Missing("POST", "/runs/nothing/cancel"),
        Missing("GET", "/machines/nothing"),
        Missing("GET", "/machines/..%2f..%2fetc%2fpasswd"),
        Missing("GET", "/runs/..%2f..%2fetc%2fpasswd"),
        Missing("GET", "/machines/replies"),
        Missing("GET", "/requests/nothing"),
        Missing("GET", "/nowhere"),
        Missing("DELETE", "/runs", 405),
    ],
    ids=lambda case: f"{case.method} {case.path}",
)
def test_what_is_not_there_is_a_problem(served: Served, case: Missing) -> None:
    answer = served.client.request(
        case.method, case.path, json={} if case.method == "POST" else None
    )
    assert (answer.status_code, answer.headers["content-type"]) == (
        case.status,
        "application/problem+json",
    )
    assert answer.json()["status"] == case.status


class Unfit(NamedTuple):
    body: Any
    at: str


@pytest.mark.parametrize(
    "case",
    [
        Unfit({}, "/machine"),
        Unfit({"machine": "review", "tsk": "x"}, "/tsk"),
        Unfit({"machine": "review", "limits": {"steps": "many"}}, "/limits/steps"),
        Unfit({"machine": "review", "limits": {"cost": 1}}, "/limits/cost"),
        Unfit({"machine": "review", "vars": {"x": 1}}, "/vars/x"),
        Unfit({"machine": "review", "run_id": "../x"}, "/run_id"),
        Unfit({"machine": "review", "drive": "fast"}, "/drive"),
        Unfit([], ""),
    ],
    ids=lambda case: case.at or "list",
)
def test_a_field_that_is_not_accepted_is_named(served: Served, case: Unfit) -> None:
    problem = served.post("/runs", case.body, 422)
    assert [one["at"] for one in problem["errors"]] == [case.at]


def test_a_key_makes_repeating_harmless(served: Served) -> None:
    key = {"Idempotency-Key": "order-7"}
    body = {"machine": "review", "task": "once"}
    first = served.post("/runs", body, 201, headers=key)
    assert served.post("/runs", body, 201, headers=key) == first
    problem = served.post("/runs", {**body, "task": "twice"}, 422, headers=key)
    assert problem["errors"][0]["at"] == "header.Idempotency-Key"
    assert len(served.get("/runs")["runs"]) == 1
    run = first["run"]
    served.until(run, "paused")
    made = served.post(f"/runs/{run}/fork", {"at": 2}, 201, headers=key)
    assert served.post(f"/runs/{run}/fork", {"at": 2}, 201, headers=key) == made
    stepped = served.post(f"/runs/{made['made']}/step", status=202, headers=key)
    assert served.post(f"/runs/{made['made']}/step", status=202, headers=key) == stepped


def test_a_run_may_have_been_started_before_the_journal_was_restored(served: Served) -> None:
    journal = served.settings.journal
    assert isinstance(journal, Path)
    journal = SqliteJournal(journal)
    body = {"machine": "review", "task": "once"}
    assert served.post("/runs", body, 201)["warning"] == ""
    by_hand(journal.mark_restored())
    key = {"Idempotency-Key": "order-7"}
    started = served.post("/runs", body, 201, headers=key)
    assert started["warning"].startswith("the journal was restored from a backup, ")
    assert started["warning"].endswith(": the run may have been started before")
    assert served.post("/runs", body, 201, headers=key) == started
    by_hand(journal.mark_restored(lift=True))
    assert served.post("/runs", body, 201)["warning"] == ""


def test_a_double_click_has_one_effect(serve: Serve) -> None:
    served = serve(script=[{"text": "Slow.", "delay": 1.0}])
    run = served.start()
    wait_for(lambda: served.get(f"/runs/{run}")["driver"])
    for order in ("run", "step"):
        problem = served.post(f"/runs/{run}/{order}", status=409)
        assert problem["code"] in ("CL601", "CL613")
    assert served.until(run, "paused")["question"] == 'Publish "Slow."?'


def test_a_run_that_somebody_else_drives_names_the_driver(served: Served, tmp_path: Path) -> None:
    run = served.start(drive="none")
    journal = SqliteJournal(tmp_path / "journal.db")
    other = Process("elsewhere", 7, "another-place", "long ago")
    by_hand(journal.acquire(run, Driver("token", "chartloop run", other)))
    for order in ("step", "run"):
        problem = served.post(f"/runs/{run}/{order}", status=409)
        assert (problem["code"], problem["driver"]["host"]) == ("CL613", "elsewhere")
        assert problem["until"] > problem["since"]
    assert served.get(f"/runs/{run}")["driver"]["name"] == "`chartloop run`, pid 7 on elsewhere"
    by_hand(journal.close())


def test_a_server_without_workers_starts_and_answers_runs_that_others_drive(serve: Serve) -> None:
    showing = serve(workers=0, components={})  # neither a model nor its key
    run = showing.start()
    assert "chartloop_runs_due 1\n" in showing.get("/metrics")
    stepped = showing.start(drive="none")
    showing.post(f"/runs/{stepped}/step", status=202)
    serve()  # comes later, and finds them
    wait = showing.until(run, "paused")["wait"]
    assert {row["run"] for row in showing.get("/runs", params={"waiting": True})["runs"]} == {run}
    showing.post(f"/runs/{run}/answer", {"event": "approve", "wait": wait})
    showing.until(run, "completed")
    wait_for(lambda: len(showing.get(f"/runs/{stepped}/records")["records"]) == 2)
    showing.post(f"/runs/{stepped}/cancel")
    showing.until(stepped, "completed")


def test_the_next_server_goes_on_with_what_the_last_one_drove(
    machines: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.db"
    components: Any = {"script": [{"text": "Slow.", "delay": 0.6}]}
    settings = Settings(machines=(machines,), journal=journal, components=components)
    with serving(settings) as first:
        run = first.start()
        wait_for(lambda: first.get(f"/runs/{run}")["driver"])
    with serving(settings) as second:
        assert second.until(run, "paused")["question"] == 'Publish "Slow."?'
        kinds = [r["kind"] for r in second.get(f"/runs/{run}/records")["records"]]
        assert kinds.count("step") == 2


def test_a_locked_journal_is_tried_again_later(machines: Path, tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", wait=0.2)
    with serving(Settings(machines=(machines,), journal=journal, workers=0)) as served:
        with sqlite3.connect(journal.path, isolation_level=None) as other:
            other.execute("BEGIN EXCLUSIVE")
            answer = served.client.post("/runs/x/pause", json={})
            assert answer.status_code == 404  # reading waits for nobody
            run_id = "r"
            other.execute("ROLLBACK")
            by_hand(
                load(str(machines / "review.yaml"))
                .start("x", script=["Hm."], journal=journal, run_id=run_id)
                .aadvance()
            )
            other.execute("BEGIN EXCLUSIVE")
            answer = served.client.post(f"/runs/{run_id}/pause", json={})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            other.execute("ROLLBACK")
        other.close()
    by_hand(journal.close())


@pytest.mark.parametrize(
    "order", ["", "pause", "answer", "cancel", "enqueue", "fork", "set", "step"]
)
def test_every_order_meets_a_locked_journal(machines: Path, tmp_path: Path, order: str) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", wait=0.2)
    settings = Settings(machines=(machines,), journal=journal, components={"script": ["Hm."]})
    bodies = {
        "": {"machine": "review"}, "answer": {"event": "approve"}, "enqueue": {"tasks": ["more"]},
        "set": {"name": "limits.steps", "value": 9},
    }  # fmt: skip
    with serving(settings) as served:
        run = served.start(drive="none" if order == "step" else "run")
        if order != "step":
            served.until(run, "paused")
        with sqlite3.connect(journal.path, isolation_level=None) as other:
            other.execute("BEGIN EXCLUSIVE")
            path = f"/runs/{run}/{order}" if order else "/runs"
            answer = served.client.post(path, json=bodies.get(order, {}))
            assert (answer.status_code, answer.headers.get("retry-after")) == (503, "5"), (
                answer.text
            )
            assert served.get(f"/runs/{run}")["status"]
            other.execute("ROLLBACK")
        other.close()
    by_hand(journal.close())


def test_machines_are_served_from_the_named_folders_only(served: Served, machines: Path) -> None:
    (listed,) = served.get("/machines")["machines"]
    assert (listed["name"], listed["errors"]) == ("review", 0)
    one = served.get("/machines/review")
    assert one["text"].startswith("chartloop: 1")
    assert one["facts"]["run"]["steps"]["type"] == "int"
    assert served.get("/machines/review/bound")
    assert served.get("/machines/review/picture").startswith("<svg")
    assert served.get("/machines/review/findings")["findings"] is not None
    (machines / "broken.yaml").write_text("chartloop: 1\nmachine: broken\nstates: {a: {next: b}}\n")
    assert served.get("/machines/broken/findings")["findings"][0]["code"].startswith("CL")
    problem = served.post("/runs", {"machine": "broken"}, 422)
    assert {found["file"] for found in problem["findings"]} == {"broken.yaml"}  # and no folder
    served.get("/machines/broken/bound", 422)


def test_the_server_says_how_it_is(served: Served) -> None:
    assert served.get("/readyz")["status"] == "ok"
    served.until(served.start(), "paused")
    metrics = served.get("/metrics")
    assert 'chartloop_requests_total{method="GET",route="/readyz",status="200"} 1' in metrics
    assert "chartloop_runs_driven 0" in metrics
    assert served.get("/livez")["status"] == "ok"
    assert served.get("/problems/CL601")["cure"]


PARENT = """\
chartloop: 1
machine: parent
machines: {inner: ./review.yaml}
states:
  hand_over: {do: run_machine, with: {machine: inner, task: x}, next: done}
  done: {stop: completed}
"""


def started_parent(serve: Serve, machines: Path) -> tuple[Served, str, str]:
    """A server, a run whose child asks, and that child."""
    (machines / "parent.yaml").write_text(PARENT)
    served = serve()
    run = served.start("parent")
    served.until(run, "paused")
    (child,) = served.get(f"/runs/{run}")["children"]
    return served, run, child["run"]


def test_a_child_is_driven_by_whoever_drives_the_run_above_it(
    serve: Serve, machines: Path, tmp_path: Path
) -> None:
    served, run, child = started_parent(serve, machines)
    with_lease = Driver("token", "chartloop run", Process("elsewhere", 7, "another", "long ago"))
    journal = SqliteJournal(tmp_path / "journal.db")
    by_hand(journal.acquire(run, with_lease))
    driver = served.get(f"/runs/{child}")["driver"]
    assert (driver["run"], driver["name"]) == (run, "`chartloop run`, pid 7 on elsewhere")
    problem = served.post(f"/runs/{child}/back", {"records": 1}, 409)
    assert (problem["code"], problem["driver"]["pid"]) == ("CL613", 7)
    by_hand(journal.close())


def test_a_child_of_a_scripted_run_is_driven_where_that_was_begun(
    machines: Path, tmp_path: Path
) -> None:
    """Its own first record does not say that the model was scripted: the first one above does."""
    (machines / "parent.yaml").write_text(PARENT)
    journal = SqliteJournal(tmp_path / "journal.db")
    run = load(machines / "parent.yaml").start("x", script=["A."], journal=journal, run_id="r")
    begun = run.session.begun
    assert begun is not None
    run.session.begun = begun_with(begun, {"script": "replies.yaml"})
    run.run()
    (child,) = by_hand(journal.rows(prefix="r/"))
    served = Machines(Settings(machines=(machines,), journal=journal), journal)
    with pytest.raises(SetupError, match="run `r` was started with a script"):
        served.to_drive(child)
    by_hand(journal.close())
