"""What a server refuses before it looks at a request, and what never leaves it."""

from __future__ import annotations

import gzip
import html
import json
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import SetupError
from chartloop.hosting.safety import CALLERS, Rates, address_of, depth_of
from chartloop.hosting.settings import Limits, Settings, Token, read_tokens
from chartloop.run.sync import by_hand
from tests.server.conftest import REVIEW, Serve, Served, wait_for

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django

READ = Token("read-me-0123456789", "read", "reader")
DRIVE = Token("drive-0123456789abc", "drive")
EDIT = Token("edit-me-0123456789", "edit")
ANSWER = Token("answer-me-0123456789", "answer", "eve")


def bearer(token: Token) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.secret}"}


# who answers ------------------------------------------------------------------------------------

SIGNED = """\
chartloop: 1
machine: signed
model: {name: scripted}
tools: [send_message]
approve: {tools: [send_message], not_by: submitter}
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  take: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
BOB = Token("bob-drives-0123456789", "drive", "bob")
CALL = {"tool_calls": [{"name": "send_message", "arguments": {"message": "hi \u202e"}}]}


def signed(serve: Serve, machines: Path, *replies: Any, **settings: Any) -> Served:
    (machines / "signed.yaml").write_text(SIGNED)
    return serve(replies or (CALL, "end"), **settings)


def test_the_name_of_a_token_signs_runs_and_answers(serve: Serve, machines: Path) -> None:
    served = signed(serve, machines, tokens=(BOB, ANSWER))
    bob: Any = {"headers": bearer(BOB)}
    eve: Any = {"headers": bearer(ANSWER)}
    assert served.get("/me", **eve) == {"name": "eve", "scope": "answer", "tenant": ""}
    body = {"machine": "signed", "task": "x", "run_id": "r"}
    refused = served.post("/runs", {**body, "submitter": "eve"}, 403, **bob)
    assert refused["errors"][0]["at"] == "/submitter"
    served.post("/runs", body, 201, **bob)
    waiting = wait_for(lambda: (seen := served.get("/runs/r", **bob))["wait"] and seen)
    assert waiting["question"].endswith(r'send_message {"message": "hi \u202e"}')
    accept = {"event": "accept", "wait": waiting["wait"]}
    own = served.post("/runs/r/answer", accept, 422, **bob)
    assert "`bob` submitted the run" in own["detail"]
    ahead = served.post("/runs/r/answer", {"event": "accept", "ahead": "approve"}, 409, **eve)
    assert "no call was shown yet" in ahead["detail"]
    other = served.post("/runs/r/answer", {**accept, "data": {"by": "ann"}}, 403, **eve)
    assert (other["errors"][0]["at"], "becomes `eve`" in other["hint"]) == ("/data/by", True)
    served.post("/runs/r/answer", {**accept, "data": {"by": " "}}, **eve)
    wait_for(lambda: served.get("/runs/r", **bob)["status"] == "completed")
    records = served.get("/runs/r/records", **bob)["records"]
    assert next(r["data"] for r in records if r["kind"] == "answer") == {"by": "eve"}


def test_without_names_the_caller_says_who_it_is(serve: Serve, machines: Path) -> None:
    served = signed(serve, machines)
    assert served.get("/me") == {"name": "", "scope": "edit", "tenant": "*"}
    missing = served.post("/runs", {"machine": "signed", "task": "x"}, 422)
    assert missing["errors"][0]["at"] == "/submitter"
    run = served.start("signed", submitter="bob")
    wait_for(lambda: served.get(f"/runs/{run}")["wait"])
    for by in ({}, {"by": ""}, {"by": "Bob"}):
        served.post(f"/runs/{run}/answer", {"event": "accept", "data": by}, 422)
    served.post(f"/runs/{run}/answer", {"event": "accept", "data": {"by": "ann"}})
    served.until(run, "completed")


def test_a_long_question_takes_an_answer_once_it_was_opened(serve: Serve, machines: Path) -> None:
    call = {"name": "send_message", "arguments": {"message": "x" * 20_000}}
    served = signed(serve, machines, {"tool_calls": [call]}, "end")
    run = served.start("signed", submitter="bob")
    seen = wait_for(lambda: (now := served.get(f"/runs/{run}"))["wait"] and now)
    listed = served.get("/runs?waiting=true")["runs"][0]["question"]
    assert (len(seen["question"]), len(listed["text"])) == (10_000, 10_000)
    assert seen["rest"] == listed["rest"] > 10_000
    answer = {"event": "accept", "data": {"by": "ann"}}
    refused = served.post(f"/runs/{run}/answer", answer, 422)
    assert "more characters of the question were not shown" in refused["detail"]
    whole = served.get(f"/runs/{run}/question")
    assert len(whole["text"]) == 10_000 + seen["rest"]
    served.post(f"/runs/{run}/answer", {**answer, "shown": whole["digest"]})
    served.until(run, "completed")
    served.get(f"/runs/{run}/question", 409)


# tokens -----------------------------------------------------------------------------------------


class Reach(NamedTuple):
    method: str
    path: str
    body: Any
    reads: int
    answers: int
    drives: int
    edits: int


@pytest.mark.parametrize(
    "case",
    [
        Reach("GET", "/runs", None, 200, 200, 200, 200),
        Reach("GET", "/machines/review", None, 200, 200, 200, 200),
        Reach("GET", "/metrics", None, 200, 200, 200, 200),
        Reach("GET", "/openapi.json", None, 200, 200, 200, 200),
        Reach("POST", "/runs", {"machine": "review", "drive": "none"}, 403, 403, 201, 201),
        Reach("POST", "/runs/x/step", {}, 403, 403, 404, 404),
        Reach("POST", "/runs/x/cancel", {}, 403, 403, 404, 404),
        Reach("POST", "/runs/x/answer", {"event": "e"}, 403, 404, 404, 404),
        Reach("POST", "/agent/execute", {"task": ""}, 403, 403, 422, 422),
        Reach("POST", "/runs/x/fork", {}, 403, 403, 403, 404),
        Reach("POST", "/runs/x/back", {}, 403, 403, 403, 404),
        Reach("POST", "/runs/x/set", {"name": "limits.x", "value": 1}, 403, 403, 403, 404),
    ],
    ids=lambda case: f"{case.method} {case.path}",
)
def test_a_token_reaches_as_far_as_its_scope(serve: Serve, case: Reach) -> None:
    tokens = (READ, ANSWER, DRIVE, EDIT)
    served = serve(tokens=tokens)
    for token, status in zip(tokens, case[3:], strict=True):
        answer = served.client.request(
            case.method, case.path, json=case.body, headers=bearer(token)
        )
        assert answer.status_code == status, (token.scope, answer.text)
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {EDIT.secret}"},
    ):
        answer = served.client.request(case.method, case.path, json=case.body, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"][:6]) == (401, "Bearer")
    assert served.client.get("/readyz").status_code == 200


class Limited(NamedTuple):
    id: str
    limits: dict[str, Any]
    drives: int


@pytest.mark.parametrize(
    "case",
    [
        Limited("lower", {"steps": 10}, 201),
        Limited("the machine's own", {"steps": 50}, 201),
        Limited("above", {"steps": 51}, 403),
        Limited("far above", {"steps": 10**9}, 403),
        Limited("one of two", {"time": "1h", "steps": 10}, 403),
        Limited("in another unit", {"time": "90s"}, 403),
        Limited("in another unit, lower", {"time": "59s"}, 201),
        Limited("one that is off", {"tokens": 5_000}, 201),
    ],
    ids=lambda case: case.id,
)
def test_a_start_above_the_limits_of_the_machine_needs_edit(
    serve: Serve, machines: Path, case: Limited
) -> None:
    text = (machines / "review.yaml").read_text()
    for old, new in {
        "limits: {steps: 50}": "limits: {steps: 50, time: 1m, tokens: {type: int, value: null}}",
        "rules:\n": "rules:\n  - {when: run.working >= limits.time, stop: time_limit}\n"
        "  - {when: usage.total_tokens >= limits.tokens, stop: token_limit}\n",
    }.items():
        text = text.replace(old, new)
    (machines / "review.yaml").write_text(text)
    served = serve(tokens=(DRIVE, EDIT))
    body = {"machine": "review", "drive": "none", "limits": case.limits}
    answer = served.client.post("/runs", json=body, headers=bearer(DRIVE))
    assert answer.status_code == case.drives, answer.text
    if case.drives == 403:
        assert answer.json()["scope"] == "edit"
        assert answer.json()["errors"][0]["at"].startswith("/limits/")
    served.post("/runs", body, 201, headers=bearer(EDIT))


def test_keys_of_another_token_are_other_keys(serve: Serve) -> None:
    served = serve(tokens=(DRIVE, EDIT))
    body = {"machine": "review", "drive": "none"}
    made = {
        served.post("/runs", body, 201, headers={"Idempotency-Key": "k", **bearer(token)})["run"]
        for token in (DRIVE, EDIT)
    }
    assert len(made) == 2


def test_an_address_that_others_reach_needs_a_token(machines: Path, tmp_path: Path) -> None:
    given: Any = {"machines": (machines,), "journal": tmp_path / "j.db"}
    for host in ("0.0.0.0", "::", "192.168.1.7", "agents.example.com"):  # noqa: S104  refused
        with pytest.raises(SetupError, match="other computers"):
            Settings(host=host, **given)
        Settings(host=host, tokens=(EDIT,), **given)
    for host in ("127.0.0.1", "127.3.2.1", "::1", "localhost"):
        Settings(host=host, **given)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("read short", "line 1: the token is too short"),
        ("# a comment\nall 0123456789abcdef", "line 2: unknown scope"),
        ("read 0123456789abcdef a b", "line 1: this is not a token"),
        ("# nothing\n\n", "holds no token"),
    ],
)
def test_a_token_file_that_cannot_be_read_names_its_line(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    with pytest.raises(SetupError, match=says) as error:
        read_tokens(path)
    assert "0123456789abcdef" not in str(error.value)
    path.write_text("read 0123456789abcdef reader  # whose\nedit fedcba9876543210\n")
    assert [(t.scope, t.name) for t in read_tokens(path)] == [("read", "reader"), ("edit", "")]


# browsers ---------------------------------------------------------------------------------------


class From(NamedTuple):
    id: str
    headers: dict[str, str]
    status: int


@pytest.mark.parametrize(
    "case",
    [
        From("a program", {}, 201),
        From("the page itself", {"Origin": "http://HOST"}, 201),
        From("another site", {"Origin": "https://evil.example"}, 403),
        From("a sandboxed page", {"Origin": "null"}, 403),
        From("another port", {"Origin": "http://127.0.0.1:1"}, 403),
        From("another site, without Origin", {"Sec-Fetch-Site": "cross-site"}, 403),
        From("the same site, another host", {"Sec-Fetch-Site": "same-site"}, 403),
        From("rebound", {"Host": "evil.example"}, 421),
        From("rebound, with a port", {"Host": "evil.example:8000"}, 421),
        From("a port that is none", {"Host": "127.0.0.1:80@evil.example"}, 421),
        From("a name for a port", {"Host": "evil.example:127.0.0.1"}, 421),
        From("a port too long", {"Host": "127.0.0.1:800000"}, 421),
        From("another port of this name", {"Host": "localhost:9999"}, 201),
        From("a form", {"Content-Type": "text/plain"}, 415),
        From("another form", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
    ids=lambda case: case.id,
)
def test_a_page_of_another_site_starts_nothing(served: Served, case: From) -> None:
    host = served.client.base_url.netloc.decode()
    headers = {n: v.replace("HOST", host) for n, v in case.headers.items()}
    body = json.dumps({"machine": "review", "drive": "none"})
    headers = {"Content-Type": "application/json", **headers}
    answer = served.client.post("/runs", content=body, headers=headers)
    assert answer.status_code == case.status, answer.text
    assert len(served.get("/runs")["runs"]) == (1 if case.status == 201 else 0)


def test_every_answer_has_the_headers(served: Served) -> None:
    picture = "/machines/review/picture?theme=auto"
    for path in ("/runs", "/nowhere", picture, "/metrics", "/openapi.json"):
        headers = served.client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "script-src" not in policy
        assert ("style-src" in policy) == (path == picture)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


# bodies -----------------------------------------------------------------------------------------


class Sent(NamedTuple):
    id: str
    body: bytes
    status: int


@pytest.mark.parametrize(
    "case",
    [
        Sent("too large", b'{"machine": "' + b"x" * 1_000_000 + b'"}', 413),
        Sent("too deep", b'{"machine": ' + b"[" * 61 + b"]" * 61 + b"}", 413),
        Sent("far too deep", b"[" * 500_000, 413),
        Sent("not JSON", b"{machine}", 400),
        Sent("cut", b'{"machine": "re', 400),
        Sent("not UTF-8", b'{"machine": "\xff"}', 400),
        Sent("not a number", b'{"machine": NaN}', 400),
        Sent("half a character", b'{"machine": "\\ud800"}', 422),
        Sent("packed", gzip.compress(b'{"machine": "review"}'), 400),
        Sent("empty", b"", 422),
    ],
    ids=lambda case: case.id,
)
def test_a_body_that_cannot_be_taken_is_a_problem(served: Served, case: Sent) -> None:
    headers = {"Content-Type": "application/json"}
    answer = served.client.post("/runs", content=case.body, headers=headers)
    assert answer.status_code == case.status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    chunked = served.client.post("/runs", content=iter([case.body]), headers=headers)
    assert chunked.status_code == case.status


DATA: Any = st.recursive(
    st.none() | st.text('[]{}\\"a'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}\\"'), inner),
)


def depth(data: Any) -> int:
    if not isinstance(data, (dict, list)):
        return 0
    inner: list[Any] = [*cast("Any", data.values() if isinstance(data, dict) else data)]
    return 1 + max(map(depth, inner), default=0)


@given(DATA)
def test_depth_is_that_of_the_data(data: Any) -> None:
    assert depth_of(json.dumps(data).encode(), 1_000) == depth(data)


@given(st.lists(st.floats(0, 2), max_size=60))
def test_no_caller_sends_more_than_its_rate(pauses: list[float]) -> None:
    now = [0.0]
    rates = Rates(2.0, 3, now=lambda: now[0])
    taken: list[float] = []
    for number, pause in enumerate(pauses):
        now[0] += pause
        if not (after := rates.wait("a")):
            rates.take("a")
            taken.append(now[0])
        else:
            assert 0 < after <= 0.5 + 1e-9
        assert rates.wait(f"another {number}") == 0  # is not held up by it
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            assert last - first + 1 <= 3 + 2.0 * (taken[last] - taken[first]) + 1e-6


def test_a_caller_who_sends_too_often_is_told_when_to_come_again(serve: Serve) -> None:
    served = serve(limits=Limits(rate=0.5, burst=3))
    statuses = [served.client.get("/runs") for _ in range(4)]
    assert [one.status_code for one in statuses] == [200, 200, 200, 429]
    assert int(statuses[-1].headers["retry-after"]) >= 1


def test_who_guesses_tokens_is_slowed_down(serve: Serve) -> None:
    """Also the right one is not looked at for a while: else guessing would go on."""
    served = serve(tokens=(READ, EDIT), limits=Limits(guess_rate=0.01, guesses=3))
    wrong = {"Authorization": "Bearer guessed-0123456789"}
    statuses = [served.client.get("/runs", headers=wrong).status_code for _ in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    answer = served.client.get("/runs", headers=bearer(EDIT))
    assert (answer.status_code, answer.headers["content-type"]) == (429, "application/problem+json")
    assert 1 <= int(answer.headers["retry-after"]) <= 100
    assert answer.json()["hint"] == "this address has sent wrong tokens"
    for number in range(3):  # what any program can say, unless it is a proxy that is named
        elsewhere = {"X-Forwarded-For": f"203.0.113.{number}"}
        assert served.client.get("/runs", headers={**wrong, **elsewhere}).status_code == 429
    assert served.client.get("/runs").status_code == 401  # without a token nothing was guessed
    assert served.client.get("/readyz").status_code == 200


def test_a_proxy_that_is_named_says_who_guesses(serve: Serve) -> None:
    served = serve(
        tokens=(READ,), limits=Limits(guess_rate=0.01, guesses=1), proxies=("127.0.0.0/8",)
    )
    wrong = {"Authorization": "Bearer guessed-0123456789", "X-Forwarded-For": "203.0.113.7"}
    statuses = [served.client.get("/runs", headers=wrong).status_code for _ in range(2)]
    assert statuses == [401, 429]
    elsewhere = {**bearer(READ), "X-Forwarded-For": "203.0.113.7, 198.51.100.1"}
    assert served.client.get("/runs", headers=elsewhere).status_code == 200


def test_the_rates_of_callers_without_a_token_are_not_voided_by_a_header(serve: Serve) -> None:
    served = serve(limits=Limits(rate=0.01, burst=2))
    said = [{"X-Forwarded-For": f"203.0.113.{number}"} for number in range(4)]
    assert [served.client.get("/runs", headers=one).status_code for one in said] == [200, 200, 429, 429]  # fmt: skip


def test_a_proxy_is_named_by_its_address(machines: Path, tmp_path: Path) -> None:
    for name in ("*", "proxy.example.com", "127.0.0.1/33", ""):
        with pytest.raises(SetupError, match="not the address of a proxy"):
            Settings(machines=(machines,), journal=tmp_path / "j.db", proxies=(name,))


def test_requests_without_a_token_are_counted_too(serve: Serve) -> None:
    served = serve(tokens=(READ,), limits=Limits(rate=0.01, burst=2))
    statuses = [served.client.get("/runs").status_code for _ in range(3)]
    assert statuses == [401, 401, 429]
    assert served.client.get("/runs", headers=bearer(READ)).status_code == 200


def test_callers_of_long_ago_are_forgotten() -> None:
    rates = Rates(1.0, 1, now=lambda: 0.0)
    for number in range(CALLERS + 10):
        rates.take(str(number))
    assert (rates.wait("0"), rates.wait(str(CALLERS))) == (0, 1)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("203.0.113.7", "203.0.113.8", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:203.0.113.7", "203.0.113.7", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("not:an:address", "another", False),
    ],
)
def test_a_customer_has_many_ipv6_addresses(one: str, other: str, same: bool) -> None:
    found = [address_of({"client": (address, 1)}) for address in (one, other)]
    assert (found[0] == found[1]) == same


# connections ------------------------------------------------------------------------------------


def test_too_many_connections_are_a_problem(serve: Serve) -> None:
    served = serve(limits=Limits(connections=3))
    address = served.client.base_url.host, served.client.base_url.port or 0
    served.get("/readyz")
    others = [socket.create_connection(address) for _ in range(3)]
    answer = wait_for(lambda: (a := served.client.get("/runs")).status_code == 503 and a)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == "5"
    assert answer.headers["connection"] == "close"
    for one in others:
        one.close()
    wait_for(lambda: served.client.get("/runs").status_code == 200)


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET /runs HT", b"GET /runs HTTP/1.1\r\nHost: 127.0.0.1\r\n"],
    ids=["nothing", "half a line", "half a head"],
)
def test_a_connection_that_sends_no_request_is_closed(serve: Serve, begun: bytes) -> None:
    served = serve(limits=Limits(silence=0.2))
    address = served.client.base_url.host, served.client.base_url.port or 0
    with socket.create_connection(address, timeout=30) as silent:
        silent.sendall(begun)
        assert silent.recv(1_000) == b""
    assert served.get("/readyz")


def test_a_second_head_that_does_not_arrive_ends_the_connection(serve: Serve) -> None:
    """However it drips: each byte is one more that has come, and yet no request."""
    served = serve(limits=Limits(silence=0.3))
    address = served.client.base_url.host, served.client.base_url.port or 0
    whole = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection(address, timeout=30) as one:
        for _ in range(2):
            one.sendall(whole)
            wait_for(lambda: one.recv(10_000).endswith(b"}"))
        one.settimeout(0.02)
        for at in range(1_500):
            with suppress(TimeoutError):
                try:
                    one.sendall(whole[at : at + 1] if at < 30 else b"x")
                    if one.recv(1_000) == b"":
                        break
                except ConnectionError:
                    break
        else:
            raise AssertionError("the connection stays open")
    assert served.get("/readyz")


def test_a_connection_serves_one_request_after_the_other(serve: Serve) -> None:
    served = serve(limits=Limits(silence=0.2))
    for _ in range(4):
        served.get("/readyz")
        time.sleep(0.1)  # longer together than a head may take
    assert len(served.server.server_state.connections) == 1


def test_a_request_with_two_lengths_is_refused_and_what_follows_is_not_read(served: Served) -> None:
    body = b'{"machine": "review", "drive": "none"}'
    smuggled = b"GET /machines HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    address = served.client.base_url.host, served.client.base_url.port or 0
    for method in (b"POST", b"GET"):
        with socket.create_connection(address, timeout=30) as one:
            one.sendall(
                method + b" /runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
                % (len(body), len(body), body) + smuggled
            )  # fmt: skip
            answer = one.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 400"), answer
        assert answer.count(b"HTTP/1.1") == 1
        assert b"connection: close" in answer.lower()
    assert served.get("/runs")["runs"] == []


def test_a_body_that_does_not_arrive_is_a_problem(serve: Serve) -> None:
    served = serve(limits=Limits(silence=0.2))
    address = served.client.base_url.host, served.client.base_url.port or 0
    head = b"POST /runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with socket.create_connection(address, timeout=30) as slow:
        slow.sendall(head + b"Content-Length: 20\r\n\r\n{")
        answer = slow.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"application/problem+json" in answer


def test_a_stream_outlives_the_time_that_a_request_may_take(serve: Serve) -> None:
    served = serve(limits=Limits(silence=0.2))
    with served.client.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        next(lines)
        served.client.get("/readyz")
        time.sleep(0.5)
        served.start()
        assert next(line for line in lines if line.startswith("event:"))


# secrets ----------------------------------------------------------------------------------------

SECRET = "s3cret-of-the-environment-42"


def test_a_token_of_the_server_is_in_no_byte_of_the_journal(serve: Serve, tmp_path: Path) -> None:
    served = serve(script=[f"You gave me {EDIT.secret}."] * 2, tokens=(EDIT,))
    served.client.headers.update(bearer(EDIT))
    run = served.start(task=f"with {EDIT.secret}", metadata={"note": EDIT.secret})
    served.until(run, "paused")
    served.post(f"/runs/{run}/answer", {"event": "reject", "data": {"note": EDIT.secret}})
    served.until(run, "paused")
    files = [path.read_bytes() for path in tmp_path.glob("journal.db*")]
    assert files
    assert not [data for data in files if EDIT.secret.encode() in data]


def test_a_secret_of_the_environment_is_in_no_byte_that_leaves(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, machines: Path
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    text = (machines / "review.yaml").read_text().replace("somebody approves", SECRET)
    (machines / "review.yaml").write_text(text)
    served = serve(script=[f"The key is {SECRET}."], tokens=(EDIT,))
    served.client.headers.update(bearer(EDIT))
    run = served.start(task=SECRET)
    served.until(run, "paused")
    served.post(f"/runs/{run}/cancel", {"message": SECRET})
    served.until(run, "completed")
    paths = [
        "/runs", "/machines", "/machines/review", "/machines/review/picture", "/events",
        *(f"/runs/{run}{end}" for end in ("", "/records", "/decision", "/result", "/trace", "/picture", "/events")),
        f"/runs/{SECRET}", f"/machines/{SECRET}",
    ]  # fmt: skip
    seen = b""
    for path in paths:
        if path == "/events":
            continue
        seen += served.client.get(path).content
    seen += served.client.post("/runs", json={"machine": SECRET, SECRET: 1}).content
    assert b"redacted:SOME_API_KEY" in seen
    assert SECRET.encode() not in seen
    assert EDIT.secret.encode() not in seen


WRITTEN_ELSE = r"""pass'"w&rd<>\é-0123"""
LIKE_A_KEY = "sk-0123456789abcdefghijklmnopqrst"


@pytest.mark.parametrize("secret", [SECRET, WRITTEN_ELSE, LIKE_A_KEY])
@pytest.mark.parametrize("look", ["plain", "live"])
def test_a_picture_hides_a_secret_however_it_is_written(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, machines: Path, secret: str, look: str
) -> None:
    """Graphviz writes some characters as entities, a hyphen among them."""
    monkeypatch.setenv("SOME_API_KEY", secret)
    text = (machines / "review.yaml").read_text()
    label = json.dumps(f"Draft {secret}", ensure_ascii=False)
    text = text.replace("draft: {do", f"draft: {{label: {label}, do")
    (machines / "review.yaml").write_text(text)
    served = serve()
    run = served.start(drive="none")
    for path in (f"/runs/{run}/picture?look={look}&theme=auto", "/machines/review/picture"):
        seen = html.unescape(served.get(path))
        assert secret[:10] not in seen, path
        assert "redacted" in seen
    for path in (f"/runs/{run}/painting", "/machines/review", f"/runs/{run}/timeline"):
        seen = html.unescape(json.dumps(served.get(path), ensure_ascii=False))
        assert json.dumps(secret, ensure_ascii=False)[1:-1] not in seen


def test_script_in_texts_stays_text(serve: Serve, machines: Path, tmp_path: Path) -> None:
    """In a label, a task, a reply, what an answer says, a run's id: text in JSON, and in a picture."""
    attack = "</text><script>alert(1)</script><svg onload='alert(2)'>\"]]>"
    text = (machines / "review.yaml").read_text()
    label = json.dumps(attack)
    (machines / "review.yaml").write_text(
        text.replace("draft: {do", f"draft: {{label: {label}, do")
    )
    served = serve(script=[attack] * 4)
    journal = SqliteJournal(tmp_path / "journal.db")
    odd = load(machines / "review.yaml").start(
        attack, run_id="<script>alert(3)", journal=journal, script=[attack]
    )
    odd.advance()
    by_hand(journal.close())
    run = served.start(task=attack)
    served.until(run, "paused")
    served.post(f"/runs/{run}/answer", {"event": "reject", "data": {"note": attack}})
    served.post("/runs", {"machine": "review", "run_id": "<script>"}, 422)
    for one in (run, "%3Cscript%3Ealert(3)"):
        for path in (f"/runs/{one}/picture?look={look}" for look in ("plain", "live")):
            elements = list(ET.fromstring(served.get(path)).iter())  # noqa: S314  ours
            names = {str(element.tag).rpartition("}")[2] for element in elements}
            assert "script" not in names
            assert not [name for e in elements for name in e.attrib if name.startswith("on")]
        for path in ("", "/records", "/timeline", "/painting", "/result", "/trace", "/events"):
            with served.client.stream("GET", f"/runs/{one}{path}") as answer:
                kind = answer.headers["content-type"].partition(";")[0]
                assert (answer.status_code, kind) == (
                    200,
                    "text/event-stream" if path == "/events" else "application/json",
                )


class Given(NamedTuple):
    body: dict[str, Any]
    status: int
    at: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Given({"machine": REVIEW}, 404),
        Given({"machine": "review.yaml"}, 404),
        Given({"machine": "../machines/review"}, 404),
        Given({"machine": "/etc/passwd"}, 404),
        Given({"machine": "geist"}, 404),  # it ships, and is not served
        Given({"machine": "review", "tools": ["os:system"]}, 422, "/tools"),
        Given({"machine": "review", "actions": ["os:system"]}, 422, "/actions"),
        Given({"machine": "review", "script": ["x"]}, 422, "/script"),
        Given({"machine": "review", "model": "openai/gpt-4o"}, 422, "/model"),
        Given(
            {"machine": "review", "settings": {"api_base": "http://192.0.2.1"}}, 422, "/settings"
        ),
        Given({"machine": "review", "journal": "/tmp/j.db"}, 422, "/journal"),
        Given({"machine": "review", "define": {"x": "1"}}, 422, "/define"),
        Given({"machine": "review", "continues": "../../etc/passwd"}, 404),
    ],
    ids=lambda case: f"{case.at or case.body['machine'][:20]}",
)
def test_no_path_python_or_machine_comes_with_a_request(serve: Serve, case: Given) -> None:
    served = serve()
    answer = served.client.post("/runs", json=case.body)
    assert answer.status_code == case.status, answer.text
    if case.at:
        assert [one["at"] for one in answer.json()["errors"]] == [case.at]
    assert served.get("/runs")["runs"] == []
    assert "root:" not in answer.text


def test_an_application_refuses_a_journal_as_every_door_does(tmp_path: Path) -> None:
    from chartloop.hosting.server import create_app  # noqa: PLC0415

    url = "mysql://ann:s3cret@db/runs"
    with pytest.raises(SetupError) as opened:
        load("agent").open("r", journal=url)
    with pytest.raises(SetupError) as served:
        create_app(Settings(machines=(tmp_path,), journal=url))
    assert str(served.value) == str(opened.value)
    assert "s3cret" not in str(served.value)
