"""A link to one question: who holds it answers that question once, and learns nothing else."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from chartloop import tool
from chartloop.adapters.journal.opening import journal_of
from chartloop.hosting.settings import Limits, Token
from chartloop.run.sync import by_hand
from tests.server.conftest import Serve, Served, wait_for

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django
BOSS = Token("boss-0123456789abcd", "edit", "boss")
CLERK = Token("clerk0123456789abcd", "answer", "clerk")
ACME = Token("acme-0123456789abcd", "edit", "ann", "acme")
BETA = Token("beta-0123456789abcd", "edit", "bob", "beta")
EVE = "eve@example.org"


def bearer(token: Token) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.secret}"}


def held(token: str) -> dict[str, Any]:
    """As who holds a link asks."""
    return {"headers": {"Authorization": f"Link {token}"}}


def linked(served: Served, run: str, status: int = 201, **body: Any) -> Any:
    return served.post(f"/runs/{run}/question/link", {"to": EVE, **body}, status)


def token_of(made: Any) -> str:
    parts = urlsplit(str(made["url"]))
    assert (parts.path, parts.query) == ("/answer", "")
    return parts.fragment


def waiting(served: Served, **body: Any) -> str:
    run = served.start(**body)
    served.until(run, "paused")
    return run


@pytest.fixture
def asked(served: Served) -> tuple[Served, str, str]:
    """A server, a run that asks, and the token of a link to its question."""
    run = waiting(served)
    return served, run, token_of(linked(served, run))


def test_who_holds_a_link_answers_in_the_name_of_whom_it_is_for(serve: Serve) -> None:
    served = serve(script=["First."], tokens=(BOSS, CLERK))
    served.client.headers.update(bearer(BOSS))
    run = waiting(served)
    made = linked(served, run)
    del served.client.headers["authorization"]
    token = token_of(made)
    card = served.get("/answer/question", **held(token))
    assert (card["to"], card["over"], card["question"]["text"]) == (EVE, "", 'Publish "First."?')
    served.post("/answer", {"event": "approve"}, **held(token))
    served.client.headers.update(bearer(BOSS))
    served.until(run, "completed")
    answered = served.get(f"/runs/{run}/records")["records"][-1]
    assert (answered["event"], answered["via"]) == ("approve", f"link to {EVE} made by boss")
    (line,) = [
        one["outcome"]
        for one in served.get(f"/runs/{run}/timeline")["records"]
        if one["kind"] == "answer"
    ]
    assert line == f"approve via link to {EVE} made by boss"


def test_opening_a_link_answers_nothing(asked: tuple[Served, str, str]) -> None:
    served, run, token = asked
    for method in ("GET", "HEAD"):
        for headers in ({}, {"Accept": "text/html"}, {"Purpose": "prefetch"}):
            page = served.client.request(method, "/answer", headers=headers)
            assert page.status_code == 200, (method, headers)
            assert page.headers["content-type"].startswith("text/html")
            assert page.headers["referrer-policy"] == "no-referrer"
        asks = served.client.request(method, "/answer/question", **held(token))
        assert asks.status_code in (200, 405)
    assert served.get(f"/runs/{run}")["status"] == "paused"
    served.post("/answer", {"event": "approve"}, **held(token))


def test_it_answers_once_and_says_who_did(asked: tuple[Served, str, str]) -> None:
    served, run, token = asked
    served.post("/answer", {"event": "approve"}, **held(token))
    refused = served.post("/answer", {"event": "reject", "data": {"note": "x"}}, 409, **held(token))
    assert f"answered already: `approve` via link to {EVE}" in refused["detail"]
    served.until(run, "completed")
    card = served.get("/answer/question", **held(token))
    assert card["question"] is None
    assert f"answered already: `approve` via link to {EVE}" in card["over"]


def test_the_same_answer_sent_again_has_one_effect(asked: tuple[Served, str, str]) -> None:
    served, run, token = asked
    again: dict[str, Any] = {"headers": {**held(token)["headers"], "Idempotency-Key": "k1"}}
    first = served.post("/answer", {"event": "approve"}, **again)
    assert served.post("/answer", {"event": "approve"}, **again)["request"] == first["request"]
    served.until(run, "completed")


def test_two_servers_take_one_of_two_answers_at_once(serve: Serve) -> None:
    servers = serve(script=["First."], workers=0), serve(script=["First."])
    for _ in range(8):
        run = waiting(servers[1])
        token = token_of(linked(servers[0], run))
        start = threading.Barrier(2)

        def send(
            served: Served, event: Any, start: threading.Barrier = start, token: str = token
        ) -> int:
            start.wait()
            return served.client.post("/answer", json=event, **held(token)).status_code

        events = ({"event": "approve"}, {"event": "reject", "data": {"note": "no"}})
        with ThreadPoolExecutor(2) as pool:
            seen = [*pool.map(send, servers, events)]
        assert sorted(seen) == [200, 409]


def test_it_is_valid_after_a_restart_and_at_another_server(serve: Serve) -> None:
    first = serve(script=["First."])
    run = waiting(first)
    token = token_of(linked(first, run))
    first.server.should_exit = True
    second = serve(script=[])
    second.post("/answer", {"event": "approve"}, **held(token))
    second.until(run, "completed")


def test_it_is_for_one_wait(asked: tuple[Served, str, str]) -> None:
    served, run, token = asked
    before = served.get(f"/runs/{run}")["wait"]
    served.post(f"/runs/{run}/answer", {"event": "reject", "data": {"note": "warmer"}})
    wait_for(lambda: served.get(f"/runs/{run}")["wait"] not in ("", before))
    refused = served.post("/answer", {"event": "approve"}, 409, **held(token))
    assert "answered already: `reject`" in refused["detail"]
    assert "Second" not in json.dumps(refused)  # what the run asks now is not of this link
    assert served.get("/answer/question", **held(token))["question"] is None
    served.post("/answer", {"event": "approve", "wait": "9"}, 422, **held(token))


def test_it_ends_with_the_run(asked: tuple[Served, str, str]) -> None:
    served, run, token = asked
    served.post(f"/runs/{run}/cancel")
    served.until(run, "completed")
    refused = served.post("/answer", {"event": "approve"}, 409, **held(token))
    assert "ended with a stop" in refused["detail"]
    assert "error" not in json.dumps(served.get("/answer/question", **held(token)))


def test_it_ends_when_it_expires_and_when_it_is_revoked(served: Served) -> None:
    run = waiting(served)
    short, long = (token_of(linked(served, run, within=w)) for w in (0.2, 60))
    wait_for(lambda: served.get("/answer/question", **held(short))["over"])
    assert (
        "valid until" in served.post("/answer", {"event": "approve"}, 409, **held(short))["detail"]
    )
    listed = served.get(f"/runs/{run}/question/link")["links"]
    assert [one["to"] for one in listed] == [EVE, EVE]
    assert long not in json.dumps(listed)
    gone = served.client.delete(f"/runs/{run}/question/link", params={"link": listed[0]["link"]})
    assert gone.json() == {"revoked": 1}
    assert "revoked" in served.get("/answer/question", 401, **held(long))["detail"]
    served.post("/answer", {"event": "approve"}, 401, **held(long))


def test_it_opens_nothing_else(asked: tuple[Served, str, str]) -> None:
    served, run, token = asked
    paths = ("/runs", f"/runs/{run}", f"/runs/{run}/question", "/me", "/machines", "/events",
             "/metrics", f"/runs/{run}/question/link")  # fmt: skip
    for path in paths:
        assert served.client.get(path, **held(token)).status_code == 403, path
    for order, body in {"cancel": {}, "answer": {"event": "approve"}, "fork": {}}.items():
        served.post(f"/runs/{run}/{order}", body, 403, **held(token))
    assert "task" not in served.get("/answer/question", **held(token))


CHANGES: dict[str, Callable[[str], str]] = {
    "short": lambda token: token[:-1], "other": lambda token: token[:-1] + "g",
    "case": lambda token: token.upper() + "A", "none": lambda _: "x",
    "twice": lambda token: f"{token} {token}", "key": lambda _: "link-0",
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_an_altered_link_is_none(asked: tuple[Served, str, str], change: str) -> None:
    served, run, token = asked
    served.post("/answer", {"event": "approve"}, 401, **held(CHANGES[change](token)))
    assert served.get(f"/runs/{run}")["status"] == "paused"


def test_the_hash_that_the_journal_holds_opens_nothing(
    asked: tuple[Served, str, str], tmp_path: Path
) -> None:
    served, run, token = asked
    (link,) = served.get(f"/runs/{run}/question/link")["links"]
    served.get("/answer/question", 401, **held(link["link"]))
    served.post("/answer", {"event": "approve"}, **held(token))
    served.until(run, "completed")
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("journal.db*"))
    assert token.encode() not in stored
    assert EVE.encode() in stored


def test_who_guesses_links_is_slowed_down(serve: Serve) -> None:
    served = serve(limits=Limits(guesses=3))
    codes = [
        served.client.get("/answer/question", **held(f"{n:064x}")).status_code for n in range(5)
    ]
    assert codes == [401, 401, 401, 429, 429]


@pytest.mark.parametrize("dead", ["revoked", "removed", "cut", "altered", "used"])
def test_a_dead_link_that_is_opened_again_locks_nobody_out(dead: str, serve: Serve) -> None:
    served = serve(script=["First."] * 2, tokens=(BOSS, CLERK), limits=Limits(guesses=3))
    served.client.headers.update(bearer(BOSS))
    run, other = waiting(served), waiting(served)
    token, right = token_of(linked(served, run)), token_of(linked(served, other))
    if dead == "revoked":
        served.client.delete(f"/runs/{run}/question/link")
    elif dead == "removed":
        by_hand(journal_of(served.settings.journal).remove([run]))
    elif dead == "used":
        served.post("/answer", {"event": "approve"}, **held(token))
    token = {"cut": token[:-1], "altered": token[:-1] + "g"}.get(dead, token)
    codes = {served.client.get("/answer/question", **held(token)).status_code for _ in range(20)}
    assert codes == {200 if dead == "used" else 401}
    assert served.client.get("/answer/question", **held(right)).status_code == 200
    served.get("/runs")
    guessed = [served.client.get("/answer/question", **held(f"{n:064x}")) for n in range(4)]
    assert guessed[-1].status_code == 429


def test_it_needs_the_scope_edit(serve: Serve) -> None:
    served = serve(tokens=(BOSS, CLERK))
    served.client.headers.update(bearer(BOSS))
    run = waiting(served)
    served.client.headers.update(bearer(CLERK))
    linked(served, run, 403)


def test_nobody_makes_or_uses_one_of_another_tenant(serve: Serve) -> None:
    served = serve(script=["First."] * 2, tokens=(ACME, BETA))
    served.client.headers.update(bearer(ACME))
    run = waiting(served, run_id="same")
    served.client.headers.update(bearer(BETA))
    linked(served, run, 404)
    other = waiting(served, run_id="same")
    token = token_of(linked(served, other))
    served.post("/answer", {"event": "approve"}, **held(token))
    served.until(other, "completed")
    served.client.headers.update(bearer(ACME))
    assert served.get("/runs/same")["status"] == "paused"


def test_a_page_of_another_site_answers_nothing(asked: tuple[Served, str, str]) -> None:
    served, run, token = asked
    foreign = {"Origin": "https://evil.example", **held(token)["headers"]}
    served.post("/answer", {"event": "approve"}, 403, headers=foreign)
    form = served.client.post("/answer", data={"event": "approve"}, **held(token))
    assert form.status_code == 415
    assert served.client.post("/answer", json={"event": "approve"}).status_code == 401  # no cookie
    assert served.get(f"/runs/{run}")["status"] == "paused"


def test_its_token_is_in_no_log(
    asked: tuple[Served, str, str], caplog: pytest.LogCaptureFixture
) -> None:
    served, run, token = asked
    with caplog.at_level(logging.DEBUG):
        served.get("/answer/question", **held(token))
        served.post("/answer", {"event": "nonsense"}, 422, **held(token))
        served.post("/answer", {"event": "approve"}, **held(token))
        served.until(run, "completed")
    assert token not in caplog.text
    assert token not in served.get("/metrics")
    assert token not in json.dumps(served.get(f"/runs/{run}"))


def test_by_is_the_person_it_is_for(serve: Serve, machines: Path) -> None:
    text = (machines / "review.yaml").read_text()
    signed = text.replace("approve: done", "approve: {to: done, data: {by: str}}")
    (machines / "review.yaml").write_text(signed)
    served = serve()
    run = waiting(served)
    token = token_of(linked(served, run))
    other = {"event": "approve", "data": {"by": "mallory"}}
    served.post("/answer", other, 403, **held(token))
    served.post("/answer", {"event": "approve"}, **held(token))
    served.until(run, "completed")
    assert served.get(f"/runs/{run}/records")["records"][-1]["data"] == {"by": EVE}
    over = served.get("/answer/question", **held(token))["over"]
    assert f"`approve` by {EVE} via link, at" in over


@pytest.mark.parametrize("to", ["", "  ", "a\u202eb", "x" * 201, "a\x00b"])
def test_it_is_for_somebody(served: Served, to: str) -> None:
    linked(served, waiting(served), 422, to=to)


def test_a_run_that_asks_nothing_has_no_link(served: Served) -> None:
    run = served.start(drive="none")
    assert "waits for nothing" in linked(served, run, 409)["detail"]
    asks = waiting(served)
    assert "is over" in linked(served, asks, 409, wait="99")["detail"]


GATE = """
chartloop: 1
machine: gate
model: {name: scripted}
tools: [buy]
approve: {tools: [buy]BY}
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""


@tool
def buy(x: int) -> str:
    """Buy."""
    return f"bought {x}"


@pytest.mark.parametrize("by", ["", ", by: the boss"], ids=["without-by", "with-by"])
def test_a_denial_may_say_why_over_http_and_by_a_link(
    serve: Serve, machines: Path, by: str
) -> None:
    (machines / "gate.yaml").write_text(GATE.replace("BY", by))
    calls = [{"id": "ab"[n], "name": "buy", "arguments": {"x": n}} for n in range(2)]
    served = serve(script=[{"tool_calls": calls}, "Well."], tools=[buy])
    note = {"decision": "deny", "note": "too dear"}
    no = "error: `buy` was not approved: it was denied"
    parts: list[tuple[str, dict[str, Any], str]] = [
        ("deny", {"note": "too dear"}, f"{no}: too dear"),
        ("deny", {"calls": {"a": "deny", "b": note}}, no),
        ("accept", {"calls": {"a": "accept", "b": note}}, "bought 0"),
    ]
    for door in ("http", "link"):
        for event, data, first in parts:
            run = waiting(served, machine="gate")
            if door == "link":
                token = token_of(linked(served, run))
                (form,) = [
                    one for one in served.get("/answer/question", **held(token))["question"]["forms"]
                    if one["event"] == "deny"
                ]  # fmt: skip
                assert "note" in [field["name"] for field in form["fields"]]
                served.post("/answer", {"event": event, "data": data}, **held(token))
            else:
                signed = {"by": "eve"} if by else {}
                served.post(f"/runs/{run}/answer", {"event": event, "data": data | signed})
            served.until(run, "completed")
            records = served.get(f"/runs/{run}/records")["records"]
            (result,) = [r["outcome"] for r in records if "approved" in str(r.get("outcome"))]
            told = [one["content"] for one in result["result"]]
            assert told == [first, f"{no}: too dear"], (door, event, data)
            (answer,) = [r for r in records if r["kind"] == "answer"]
            assert "too dear" in json.dumps(answer["data"])
