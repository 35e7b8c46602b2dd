"""Tenants that share a server: none learns anything of another one's runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from chartloop.core.errors import SetupError
from chartloop.hosting.settings import Token, read_tokens
from tests.server.conftest import Serve, Served, events_in

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django

ACME = Token("acme-0123456789abcd", "edit", "eve", "acme")
BETA = Token("beta-0123456789abcd", "edit", "eve", "beta")
NOBODY = Token("none-0123456789abcd", "edit", "eve")
EVERYBODY = Token("all--0123456789abcd", "edit", "eve", "*")
TOKENS = (ACME, BETA, NOBODY, EVERYBODY)
SECRET = "zirconium"
BODIES: Mapping[str, Any] = {
    "step": {}, "run": {}, "pause": {}, "resume": {}, "answer": {"event": "approve"},
    "enqueue": {"tasks": ["x"]}, "cancel": {}, "fork": {}, "back": {}, "retry": {},
    "set": {"name": "limits.steps", "value": 9}, "link": {"to": "eve@example.org"},
}  # fmt: skip
"""What each order to a run takes."""


def by(token: Token) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {token.secret}"}}


def start(served: Served, token: Token, status: int = 201, **body: Any) -> Any:
    given = {"machine": "review", "task": "x", "drive": "none", **body}
    return served.post("/runs", given, status, **by(token))


@pytest.fixture
def shared(serve: Serve) -> Served:
    """A server of several tenants, with a waiting run of `beta`."""
    served = serve(tokens=TOKENS)
    started = start(
        served, BETA, run_id="quartz", session=SECRET, agent=SECRET, task=SECRET, drive="run"
    )
    assert started["run"] == "beta:quartz"
    served.client.headers["Authorization"] = f"Bearer {BETA.secret}"
    served.until("quartz", "paused")
    return served


def routes(served: Served) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Every route of the application, from its own description."""
    for path, methods in served.get("/openapi.json")["paths"].items():
        for method, route in methods.items():
            yield method, path, route


def ask(
    served: Served, token: Token, method: str, path: str, body: Any = None, **more: Any
) -> tuple[int, str]:
    answer = served.client.request(
        method, path, json=body if method == "post" else None, **by(token), **more
    )
    return answer.status_code, answer.text


@pytest.mark.parametrize("token", [ACME, NOBODY], ids=["tenant", "none"])
def test_a_run_of_another_tenant_is_as_one_that_does_not_exist(
    shared: Served, token: Token
) -> None:
    start(shared, token, run_id="own")
    seen = 0
    for method, path, _ in routes(shared):
        if "{run_id}" not in path:
            continue
        order = path.rpartition("/")[2]
        body = BODIES[order] if method == "post" else None  # a new order needs a row there
        others = {"compare": {"other": "own"}, "passage": {"place": "0.0"}}.get(order, {})
        for known, unknown in (("beta:quartz", "beta:qqqqqq"), ("quartz", "qqqqqq")):
            asked = [
                ask(shared, token, method, path.replace("{run_id}", name), body, params=others)
                for name in (known, unknown)
            ]
            assert asked[0] == asked[1], (method, path)
            assert asked[0][0] == 404, (method, path, asked)
            seen += 1
    assert seen >= 40
    for name in ("beta:quartz", "quartz"):
        assert ask(shared, token, "get", "/runs/own/compare", params={"other": name})[0] == 404
        refused = start(shared, token, 404, continues=name)
        assert SECRET not in json.dumps(refused)
    assert shared.get("/runs/quartz")["status"] == "paused"


@pytest.mark.parametrize("token", [ACME, NOBODY], ids=["tenant", "none"])
def test_no_list_counts_or_shows_a_run_of_another_tenant(shared: Served, token: Token) -> None:
    own = start(shared, token, run_id="own")["run"]
    start(shared, BETA, run_id="more")
    asked = 0
    for method, path, route in routes(shared):
        streams = "text/event-stream" in json.dumps(route.get("responses", {}))
        if method != "get" or "{run_id}" in path or streams:
            continue
        names = {one["name"] for one in route.get("parameters", ())}
        given = {"{name}": "review", "{request_id}": "start-beta:quartz", "{code}": "CL103"}
        for mark, value in given.items():
            path = path.replace(mark, value)
        assert "{" not in path, f"a new route: say what {path} is asked with"
        wanted = [{}, {"tenant": "beta"}, {"parent": "beta:quartz"}, {"session": SECRET}]
        for query in wanted:
            if query.keys() <= names:
                _, text = ask(shared, token, "get", path, params=query)
                assert not any(word in text for word in ("quartz", "beta", SECRET)), (path, text)
                asked += 1
    assert asked >= 12
    listed = shared.get("/runs", **by(token))["runs"]
    assert [row["run"] for row in listed] == [own]
    assert shared.get("/machines/review/coverage", **by(token))["runs"] == 1
    everything = {row["run"] for row in shared.get("/runs", **by(EVERYBODY))["runs"]}
    assert everything == {own, "beta:quartz", "beta:more"}
    of_beta = shared.get("/runs?tenant=beta", **by(EVERYBODY))["runs"]
    assert {row["tenant"] for row in of_beta} == {"beta"}


def figures(served: Served, token: Token) -> dict[str, float]:
    """What `/metrics` tells a token, without the requests of single routes."""
    status, text = ask(served, token, "get", "/metrics")
    assert status == 200
    lines = [
        line.split(" ") for line in text.splitlines() if line[0] != "#" and "route=" not in line
    ]
    return {name.removeprefix("chartloop_"): float(value) for name, value in lines}


def test_the_figures_of_a_tenant_are_of_its_runs_and_requests(serve: Serve) -> None:
    served = serve(tokens=TOKENS, workers=0)  # what is submitted stays due
    for token, count in ((ACME, 2), (BETA, 1), (NOBODY, 3)):
        for number in range(count):
            start(served, token, run_id=f"due{number}", drive="run")
    assert served.get("/runs/due0", **by(BETA))["run"] == "beta:due0"
    told = [figures(served, token) for token in TOKENS]
    assert [one["runs_due"] for one in told] == [2, 1, 3, 6]
    assert all(one["oldest_due_seconds"] > 0 for one in told)  # by a clock that may be set
    others = ("runs_held", "runs_parked", "runs_driven", "orders_finished_total", "watchers")
    assert all(one[name] == 0 for one in told for name in others)
    assert [one["request_seconds_count"] for one in told[:3]] == [2, 2, 3]
    assert told[3]["request_seconds_count"] >= 10  # those of all tokens, and of probes
    for token, sees in zip(TOKENS, (False, True, False, True), strict=True):
        text = ask(served, token, "get", "/metrics")[1]
        assert ('route="/runs/{run_id}"' in text) == sees  # only `beta` has asked for a run


@pytest.mark.parametrize("token", [ACME, NOBODY, EVERYBODY], ids=["tenant", "none", "all"])
@pytest.mark.parametrize("live", [False, True])
def test_a_stream_of_all_runs_has_those_of_the_tenant(
    shared: Served, token: Token, live: bool
) -> None:
    with shared.client.stream("GET", "/runs/quartz/events", **by(BETA)) as stream:
        assert next(events_in(stream.iter_lines())).data["run"] == "beta:quartz"
    first = shared.get("/events", 410, headers={**by(token)["headers"], "Last-Event-ID": "0-0"})
    headers = {**by(token)["headers"], **({} if live else {"Last-Event-ID": first["oldest"]})}
    with shared.client.stream("GET", "/events", headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": open"
        start(shared, BETA, run_id="later")
        own = start(shared, token, run_id="own")["run"]
        heard = set[str]()
        for event in events_in(lines):
            heard.add(event.data["run"])
            if event.data["run"] == own:
                break
    others = {"beta:later"} if live else {"beta:later", "beta:quartz"}
    if live and token is EVERYBODY:
        heard.discard("beta:quartz")  # whose order may have been settled only now
    assert heard == ({own} | others if token is EVERYBODY else {own})


def test_ids_and_keys_are_unique_within_a_tenant(shared: Served) -> None:
    key = {"Idempotency-Key": "k"}
    for token, run in ((ACME, "acme:quartz"), (NOBODY, "quartz"), (EVERYBODY, "gamma:quartz")):
        own = {"tenant": "gamma"} if token is EVERYBODY else {}
        sent = {"headers": {**by(token)["headers"], **key}}
        body = {"machine": "review", "task": run, "run_id": "quartz", "drive": "none", **own}
        started = shared.post("/runs", body, 201, **sent)
        assert started["run"] == run
        assert shared.post("/runs", body, 201, **sent) == started
        refused = start(shared, token, 422, run_id="quartz", **own)
        assert run in refused["detail"]
    forked = shared.post("/runs/quartz/fork", {}, 201, **by(ACME))
    assert forked["made"].startswith("acme:")
    assert shared.get("/runs/acme:quartz", **by(ACME)) == shared.get("/runs/quartz", **by(ACME))
    assert start(shared, ACME, 403, tenant="beta")["errors"][0]["at"] == "/tenant"
    assert shared.get("/me", **by(ACME)) == {"name": "eve", "scope": "edit", "tenant": "acme"}
    assert shared.get("/me", **by(EVERYBODY))["tenant"] == "*"


def test_only_who_may_change_all_runs_starts_one_before_the_others(shared: Served) -> None:
    for token in (ACME, NOBODY, EVERYBODY):
        start(shared, token, priority=7, run_id=f"later-{token.tenant}".replace("*", "x"))
    refused = start(shared, ACME, 403, priority=4)
    assert refused["errors"][0]["at"] == "/priority"
    start(shared, EVERYBODY, priority=1, run_id="first")
    rows = {row["run"]: row["priority"] for row in shared.get("/runs", **by(EVERYBODY))["runs"]}
    assert rows["first"] == 1
    assert {rows[run] for run in rows if "later" in run} == {7}
    for wrong in (0, 10, "5", 1.5, True):
        start(shared, EVERYBODY, 422, priority=wrong)


def test_an_order_is_shown_to_its_tenant_only(shared: Served) -> None:
    order = shared.post("/runs/quartz/pause", {}, **by(BETA))["request"]
    assert shared.get(f"/requests/{order}", **by(BETA))["run"] == "beta:quartz"
    for token in (ACME, NOBODY):
        asked = [ask(shared, token, "get", f"/requests/{name}") for name in (order, "nothing")]
        assert asked[0] == asked[1]


def test_a_run_of_the_agent_routes_has_the_tenant_of_its_token(serve: Serve) -> None:
    served = serve(script=["Done. TASK_COMPLETE"] * 9, tokens=TOKENS)
    text = served.post("/agent/complete_text", {"prompt": "x"}, **by(ACME))
    assert text["text"]
    assert {row["tenant"] for row in served.get("/runs", **by(EVERYBODY))["runs"]} == {"acme"}


@pytest.mark.parametrize(
    "line", ["read 0123456789abcdef x tenant=a/b", "read 0123456789abcdef tenant="]
)
def test_a_token_file_with_a_bad_tenant_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(line)
    with pytest.raises(SetupError, match="line 1: this is not the name of a tenant"):
        read_tokens(file)


def test_a_token_file_names_tenants(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("read 0123456789abcdef eve tenant=acme\ndrive 1123456789abcdef tenant=*\n")
    assert [(one.name, one.tenant) for one in read_tokens(file)] == [("eve", "acme"), ("", "*")]
