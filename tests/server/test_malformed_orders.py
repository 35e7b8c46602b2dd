"""Malformed orders: every route that takes a body, every place in it, every kind of bad value.

What no order may hold is a 4xx with its place and is never recorded. What only another field could
take is never a fault of the server, and leaves runs that can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import pytest

from chartloop import Run, load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.strict_json import LARGEST, pointer
from tests.server.conftest import Served

pytestmark = [
    pytest.mark.extra("fastapi", install='pip install -e ".[server]"'),  # noqa: S610  no Django
    pytest.mark.slow("thousands of requests"),
]

GATE = """\
chartloop: 1
machine: gate
model: {name: scripted}
tools: [pay]
limits: {steps: 50, patience: 1h}
vars: {n: 1, share: 0.5, names: {type: "list[str]", value: []}, any: {type: any, value: 0}}
memory: {notes: none}
approve: {tools: [pay], edit: true, remember: true, within: limits.patience, expired: done}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  think: {do: infer, next: act}
  act: {do: call_tools, next: done}
  done: {stop: completed}
"""
CALLS = {"tool_calls": [{"id": "c1", "name": "pay", "arguments": {"n": 1}}]}
BODIES: dict[str, Any] = {
    "/runs": {
        "machine": "gate", "task": "t", "limits": {"steps": 9, "patience": "2h"},
        "vars": {"n": 2, "share": 0.25, "names": ["a"], "any": {"deep": [1]}},
        "memory": {"notes": "x"}, "tasks": ["one", {"prompt": "two"}], "agent": "a",
        "session": "s", "metadata": {"a": [1, {"b": "c"}]}, "submitter": "eve", "priority": 6,
        "require_bound": {"calls": 1000}, "branch": False, "drive": "none", "until": "",
    },
    "/runs/{run}/step": {},
    "/runs/{run}/run": {"until": "done"},
    "/runs/{run}/pause": {},
    "/runs/{run}/resume": {},
    "/runs/{run}/answer": {
        "event": "accept", "wait": "", "typed": False, "then": "take", "shown": "",
        "data": {"by": "eve", "calls": {"c1": {"decision": "accept", "remember": True}}},
    },
    "/runs/{run}/enqueue": {"tasks": ["a", {"prompt": "b", "priority": 1}]},
    "/runs/{run}/cancel": {"reason": "user_requested", "message": "x"},
    "/runs/{run}/fork": {"at": 1},
    "/runs/{run}/retry": {"confirm": "x", "again": False, "limits": {"steps": 60}},
    "/runs/{run}/back": {"records": 1},
    "/runs/{run}/set": {"name": "limits.steps", "value": 60},
    "/runs/{run}/question/link": {"to": "eve", "wait": "", "within": 60.0},
    "/agent/initialize_task_and_tick": {
        "task": "t", "agent_settings": {"max_tokens": 5, "temperature": 0.5},
    },
    "/agent/complete_text": {"prompt": "t", "settings": {"max_tokens": 5}},
    "/limits": {"scope": "agent:a", "what": "cost", "per": "day", "most": 5.0},
    "/limits/settle": {"run": "r", "call": "c", "cost": 1.0, "tokens": 5},
    "/agent/execute/stream": {"task": "t", "stopping_conditions": {"max_iterations": 1}},
    "/agent/execute": {
        "task": "t", "stopping_conditions": {"max_iterations": 1, "timeout_seconds": 5.0},
    },
}  # fmt: skip
"""A body of each route: `DELETE` takes none."""
NEVER = {
    "NaN": "NaN", "Infinity": "-Infinity", "digits": "1" + "0" * 400, "past-a-float": "1e309",
    "past-64-bits": str(-(2**63) - 1), "half": '"a\\ud83d"', "nul": '"a\\u0000"',
    "twice": '{"x": 1, "x": 2}', "deep": "[" * 70 + "]" * 70, "a-half-name": '{"\\udc00": 1}',
    "in-a-list": '[[{"a": 1e999}]]',
}  # fmt: skip
"""What no order may hold anywhere."""
ODD: dict[str, Any] = {
    "null": None, "true": True, "minus-one": -1, "zero": 0, "large": 2**63 - 1, "float": 1e300,
    "empty": "", "text": "x", "number-as-text": "1" + "_000" * 130, "list": [], "lists": [[[]]],
    "object": {}, "decision": {"decision": []}, "long": "x" * 300_000,
}  # fmt: skip
"""What some fields take, and others do not."""


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Every place of a value."""
    yield path
    if isinstance(value, dict):
        for name, below in cast("dict[str, Any]", value).items():
            yield from places(below, *path, name)
    elif isinstance(value, list):
        for number, below in enumerate(cast("list[Any]", value)):
            yield from places(below, *path, number)


def with_at(value: Any, path: tuple[Any, ...], put: str) -> str:
    """A value as JSON, with other JSON at a place."""
    mark = "\N{SNOWMAN}"

    def copied(one: Any, *at: Any) -> Any:
        if at == path:
            return mark
        if isinstance(one, dict):
            return {n: copied(v, *at, n) for n, v in cast("dict[str, Any]", one).items()}
        if isinstance(one, list):
            return [copied(v, *at, n) for n, v in enumerate(cast("list[Any]", one))]
        return one

    return json.dumps(copied(value), ensure_ascii=False).replace(f'"{mark}"', put)


class Cell(NamedTuple):
    """A route, and a place in its body."""

    route: str
    path: tuple[Any, ...]


CELLS = [
    pytest.param(Cell(route, path), id=f"{route}#{pointer(*path)}")
    for route, body in BODIES.items()
    for path in places(body)
]


@tool
def pay(n: int) -> int:
    """Pay."""
    return n


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from chartloop.hosting.server import Settings  # noqa: PLC0415
    from tests.server.conftest import serving  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("gated")
    (folder / "gate.yaml").write_text(GATE)
    settings: Any = {
        "machines": (folder,), "journal": folder / "journal.db", "tools": [pay], "workers": 0,
        "components": {"script": ["x"]},
    }  # fmt: skip
    from chartloop.hosting.settings import Limits  # noqa: PLC0415

    with serving(Settings(**settings, limits=Limits(rate=1e6, burst=10**6))) as served:
        yield served


def waiting(served: Served) -> Run:
    """A new run that waits for the approval of a call."""
    machine = load(GATE, tools=[pay])
    run = machine.start(
        "t", script=[CALLS], journal=SqliteJournal(cast("Any", served.settings.journal))
    )
    run.run()
    assert run.question is not None
    return run


def send(served: Served, cell: Cell, run: str, put: str) -> Any:
    """Send the body of a route with other JSON at a place."""
    body = with_at(BODIES[cell.route], cell.path, put)
    return served.client.post(
        cell.route.format(run=run), content=body.encode(),
        headers={"Content-Type": "application/json"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def unchanged(gated: Served) -> Iterator[str]:
    """A run to which nothing happens."""
    run = waiting(gated)
    runs = len(gated.get("/runs?limit=500")["runs"])
    yield run.id
    assert len(gated.get("/runs?limit=500")["runs"]) >= runs
    assert len(gated.get(f"/runs/{run.id}/records")["records"]) == len(run.records)


def test_every_route_that_takes_a_body_is_here(gated: Served) -> None:
    paths: dict[str, Any] = gated.get("/openapi.json")["paths"]
    taking = {
        path.replace("{run_id}", "{run}") for path, of in paths.items() if of.keys() - {"get"}
    }
    # the body of a link's answer is that of an answer; a link alone opens it
    assert taking - BODIES.keys() == {"/answer", "/schedules/{name}/{order}"}
    assert "requestBody" not in paths["/schedules/{name}/{order}"]["post"]


@pytest.mark.parametrize("cell", CELLS)
def test_what_no_order_may_hold_is_refused_with_its_place(
    cell: Cell, gated: Served, unchanged: str
) -> None:
    before = gated.get("/runs?limit=500")["runs"]
    for name, put in NEVER.items():
        answer = send(gated, cell, unchanged, put)
        said = f"{name}: {answer.status_code} {answer.text[:300]}"
        assert 400 <= answer.status_code < 500, said
        (wrong, *_) = answer.json()["errors"]
        if name != "deep":  # of the whole body
            assert wrong["at"].startswith(pointer(*cell.path)), said
        assert wrong["message"], said
    assert gated.get("/runs?limit=500")["runs"] == before


@pytest.mark.parametrize("cell", CELLS)
def test_what_a_field_does_not_take_is_no_fault_of_the_server(cell: Cell, gated: Served) -> None:
    run = waiting(gated)
    for name, value in ODD.items():
        answer = send(gated, cell, run.id, json.dumps(value))
        said = f"{name}: {answer.status_code} {answer.text[:300]}"
        assert answer.status_code < 500 or answer.status_code == 502, said
        if answer.status_code == 422 and not cell.route.startswith("/agent"):
            assert answer.json().get("errors"), said
        made = answer.json().get("run") or run.id if answer.status_code < 300 else run.id
        gated.get(f"/runs/{made}")
        if answer.status_code < 300:
            run = waiting(gated)


PUT = 0
LIMITS: dict[str, tuple[Any, Any]] = {
    "steps": (LARGEST, LARGEST + 1),
    "patience": (float(LARGEST), "99999999999d"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_has_a_bound_at_each_door(name: str, gated: Served) -> None:
    most, over = LIMITS[name]
    run = waiting(gated)
    start = {"machine": "gate", "limits": {name: PUT}, "drive": "none"}
    change = {"name": f"limits.{name}", "value": PUT}
    doors = {
        f"/limits/{name}": ("/runs", start, ("limits", name)),
        "/value": (f"/runs/{run.id}/set", change, ("value",)),
    }
    for at, (path, body, where) in doors.items():
        bodies = [json.loads(with_at(body, where, json.dumps(value))) for value in (over, most)]
        refused = gated.post(path, bodies[0], 422)
        assert [wrong["at"] for wrong in refused["errors"]] == [at]
        taken = gated.client.post(path, json=bodies[1])
        assert taken.status_code < 300, taken.text
        gated.get(f"/runs/{taken.json()['run']}")


QUERIES = ("nan", "inf", "-1e999", "1e309", "1" + "0" * 400, "x", "", "[]", "-1", "null")


def test_no_number_of_a_query_is_a_fault_of_the_server(gated: Served) -> None:
    run = waiting(gated)
    paths: dict[str, Any] = gated.get("/openapi.json")["paths"]
    tried = 0
    for path, methods in paths.items():
        for field in methods.get("get", {}).get("parameters", []):
            if field["in"] != "query" or path in ("/events", "/runs/{run_id}/events"):
                continue
            for value in QUERIES:
                given = path.replace("{run_id}", run.id).replace("{name}", "gate")
                answer = gated.client.get(given, params={field["name"]: value})
                said = (path, field["name"], value[:20], answer.status_code, answer.text[:200])
                assert answer.status_code < 500, said
                tried += 1
    assert tried > 100
