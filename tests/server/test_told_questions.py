"""Questions that a webhook is told, with a link for each person who may answer."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio
import pytest

from chartloop.actions.declare import tool_spec
from chartloop.adapters.notify.log import LogNotifier
from chartloop.adapters.notify.webhook import WebhookNotifier
from chartloop.api import load
from chartloop.core.errors import SetupError
from chartloop.hosting.questions import tell_question
from chartloop.hosting.settings import Settings
from chartloop.run.answer_links import find_link, links_of
from chartloop.run.journal import MemoryJournal
from chartloop.run.sync import by_hand
from chartloop.testing.crash import CrashAt, Crashed
from tests.server.conftest import Serve, Served, wait_for
from tests.server.conftest import serving as serving_of

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django
PEOPLE = ("eve@example.org", "bob@example.org")
URL = "https://agents.example.com"
ASKS = """\
chartloop: 1
machine: m
states:
  a: {ask: 'Go on?', on: {yes: d}}
  d: {stop: completed}
"""

GATE = """\
chartloop: 1
machine: gate
model: {{name: scripted}}
tools: [buy]
approve: {{tools: [buy], {rule}}}
limits: {{steps: 20}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  ask: {{do: receive, next: think}}
  think: {{do: infer, next: [{{when: len(last.tool_calls) > 0, to: act}}, {{to: done}}]}}
  act: {{do: call_tools, next: think}}
  done: {{stop: completed}}
"""


class Hook:
    """A webhook on loopback: what it was told, and what it answers."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.status = 204
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.told.append(json.loads(body))
                self.send_response(hook.status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def hook() -> Iterator[Hook]:
    started = Hook()
    yield started
    started.server.shutdown()
    started.server.server_close()


def serving(serve: Serve, hook: Hook, **more: Any) -> Served:
    notifier = WebhookNotifier(hook.url, retries=0)
    components = {"script": ["First.", "Second."], "notifier": notifier}
    return serve(components=components, ask_to=PEOPLE, url=URL, **more)


def test_each_person_is_sent_a_link_of_their_own(serve: Serve, hook: Hook, tmp_path: Path) -> None:
    served = serving(serve, hook)
    run = served.start()
    served.until(run, "paused")
    (notice,) = wait_for(lambda: [*hook.told])
    data = notice["data"]
    said = [f"Answer as {one['to']}: {one['url']}" for one in data["links"]]
    text = "\n".join(['Publish "First."?', "", *said])
    assert (notice["run"], notice["text"]) == (run, text)
    assert (data["kind"], data["wait"], data["answers"]) == ("question", "2", ["approve", "reject"])
    assert [one["to"] for one in data["links"]] == [*PEOPLE]
    tokens: list[str] = []
    for one in data["links"]:
        parts = urlsplit(str(one["url"]))
        assert f"{parts.scheme}://{parts.netloc}" == URL
        tokens.append(parts.fragment)
    assert len({*tokens}) == 2
    bob: dict[str, Any] = {"headers": {"Authorization": f"Link {tokens[1]}"}}
    served.post("/answer", {"event": "reject", "data": {"note": "warmer"}}, **bob)
    # the next question is another wait, with other links
    first, second = wait_for(lambda: hook.told if len(hook.told) == 2 else None)
    assert second["text"].startswith('Publish "Second."?\n\nAnswer as ')
    assert second["data"]["wait"] != first["data"]["wait"]
    records = served.get(f"/runs/{run}/records")["records"]
    via = f"link to {PEOPLE[1]} made by server"
    assert [one["via"] for one in records if one["kind"] == "answer"] == [via]
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("journal.db*"))
    assert [token for token in tokens if token.encode() in stored] == []


def test_a_wait_is_told_once(serve: Serve, hook: Hook) -> None:
    served = serving(serve, hook)
    run = served.start()
    served.until(run, "paused")
    wait_for(lambda: hook.told)
    served.post(f"/runs/{run}/pause")
    served.post(f"/runs/{run}/resume")
    served.until(run, "paused")
    asks = served.start()
    served.until(asks, "paused")
    wait_for(lambda: len(hook.told) >= 2)
    assert [one["run"] for one in hook.told] == [run, asks]


def test_a_notice_that_did_not_arrive_leaves_no_link(serve: Serve, hook: Hook) -> None:
    hook.status = 400
    served = serving(serve, hook)
    run = served.start()
    served.until(run, "paused")
    wait_for(lambda: hook.told)
    wait_for(lambda: served.get(f"/runs/{run}/question/link")["links"] == [])
    token = urlsplit(str(hook.told[0]["data"]["links"][0]["url"])).fragment
    served.get("/answer/question", 401, headers={"Authorization": f"Link {token}"})


class Told:
    """A notifier that keeps what it is told."""

    suspends = False

    def __init__(self) -> None:
        self.told: list[Mapping[str, Any]] = []
        self.told_texts: list[tuple[str, Mapping[str, Any]]] = []

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        self.told.append(data)
        self.told_texts.append((text, data))


@pytest.mark.parametrize("write", [1, 2, 3])
@pytest.mark.parametrize("before", [True, False])
def test_a_notice_comes_at_most_twice_after_a_crash_and_never_not_at_all(
    write: int, before: bool, tmp_path: Path
) -> None:
    (tmp_path / "m.yaml").write_text(ASKS)
    journal, told = MemoryJournal(), Told()
    run = load(tmp_path / "m.yaml").start(run_id="r", journal=journal)
    run.step()
    settings = Settings(
        machines=(tmp_path,), journal=journal, components={"notifier": told}, ask_to=PEOPLE, url=URL
    )
    with pytest.raises(Crashed):
        by_hand(tell_question(settings, CrashAt(journal, write, before=before), run))
    for _ in range(2):
        by_hand(tell_question(settings, journal, run))
    assert len(told.told) == (2 if (write, before) == (3, True) else 1)
    assert {(one["run"], one["wait"]) for one in told.told} == {("r", "0")}


class Sent(NamedTuple):
    """Whom a notice is for, and what it leads to."""

    rule: str
    people: tuple[str, ...]
    links: tuple[str, ...]
    """For whom it has a link; none: it leads to the inbox."""
    submitter: str = "eve"


EVE, BOB = "eve", "bob"
SENT = {
    "one": Sent("by: boss", (BOB,), (BOB,)),
    "several": Sent("by: boss", (EVE, BOB), (EVE, BOB)),
    "one-who-submitted": Sent("by: boss", (EVE,), (EVE,)),
    "four-eyes-one": Sent("not_by: submitter", (BOB,), (BOB,)),
    "four-eyes-channel": Sent("not_by: submitter", (BOB, "ann"), ()),
    "four-eyes-channel-with-the-submitter": Sent("not_by: submitter", (EVE, BOB), ()),
    "four-eyes-the-submitter": Sent("not_by: submitter", ("E V E",), ()),
    "four-eyes-submitted-by-nobody": Sent("not_by: submitter", (BOB,), (), submitter=""),
}


def buy(x: int) -> str:
    """Buy."""
    return f"bought {x}"


BUY = tool_spec(buy, blocking=False)


@pytest.mark.parametrize("notifier", ["own", "webhook", "log"])
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_a_notice_says_how_to_answer_in_its_text(
    sent: Sent, notifier: str, tmp_path: Path, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "chartloop.notify")
    told, journal = Told(), MemoryJournal()
    each = {"own": told, "webhook": WebhookNotifier(hook.url), "log": LogNotifier()}
    (tmp_path / "m.yaml").write_text(GATE.format(rule=sent.rule))
    call = {"tool_calls": [{"id": "c", "name": "buy", "arguments": {"x": 1}}]}
    run = load(tmp_path / "m.yaml", tools=[BUY]).start(
        "t", script=[call, "end"], run_id="r", journal=journal, submitter=sent.submitter
    )
    run.run()
    settings = Settings(
        machines=(tmp_path,), journal=journal, components={"notifier": each[notifier]},
        ask_to=sent.people, url=f"{URL}/",
    )  # fmt: skip
    assert anyio.run(tell_question, settings, journal, run)
    if notifier == "own":
        ((text, data),) = told.told_texts
        assert [one["to"] for one in data["links"]] == [*sent.links]
        assert data["inbox"] == f"{URL}/inbox"
    else:
        text = hook.told[0]["text"] if notifier == "webhook" else caplog.messages[-1]
    asked, _, ways = text.partition("\n\n")
    assert asked.endswith('buy {"x": 1}')
    tokens = list[str]()
    for to, way in zip(sent.links, ways.splitlines(), strict=bool(sent.links)):
        assert way.startswith(f"Answer as {to}: {URL}/answer#")
        tokens.append(way.partition("#")[2])
    if not sent.links:
        assert ways == f"Answer in the inbox: {URL}/inbox"
    made = by_hand(links_of(journal, "r"))
    assert {(one.to, one.made_by) for one in made} == {(to, "server") for to in sent.links}
    for token in tokens[:1]:
        link = by_hand(find_link(journal, token))
        assert link is not None
        run.send("accept", {"by": link.to}, link=link)
        assert run.run().status == "completed"


@pytest.mark.parametrize("url", ["", "agents.example.com", "https://a.example/x", "https://a@b"])
def test_links_need_the_address_of_the_server(serve: Serve, hook: Hook, url: str) -> None:
    with pytest.raises(SetupError, match="address of"):
        serve(components={"notifier": WebhookNotifier(hook.url)}, ask_to=PEOPLE, url=url)


def test_links_need_a_webhook(serve: Serve) -> None:
    with pytest.raises(SetupError, match="need a webhook"):
        serve(ask_to=PEOPLE, url=URL)


class Wrong:
    """A webhook that misbehaves until it is let go."""

    def __init__(self, how: str) -> None:
        self.how, self.asked, self.let_go = how, 0, threading.Event()
        wrong = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                wrong.asked += 1
                self.rfile.read(int(self.headers["content-length"]))
                if how == "hangs":
                    wrong.let_go.wait(60)
                elif how == "drips":
                    with contextlib.suppress(OSError):
                        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                        while not wrong.let_go.wait(0.1):
                            self.wfile.write(b"X: y\r\n")
                    return
                self.send_response({"fails": 500, "redirects": 307}.get(how, 200))
                if how == "redirects":
                    self.send_header("Location", "/hook")
                self.end_headers()
                with contextlib.suppress(OSError):
                    while how == "sends much" and not wrong.let_go.is_set():
                        self.wfile.write(b"x" * 1_000_000)

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def notifier(self) -> Any:
        if self.how == "refuses":
            self.close()
        return self if self.how in OWN else WebhookNotifier(self.url, timeout=60, pause=20)

    suspends = True

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """What a notifier of one's own may do: look a name up for ever, or raise anything."""
        self.asked += 1
        if self.how == "raises":
            raise ValueError(text)
        await anyio.to_thread.run_sync(self.let_go.wait, 60, abandon_on_cancel=True)

    def close(self) -> None:
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()


OWN = ("never resolves", "raises")
ENDS = {"answered": "approve", "cancelled": ""}


@pytest.mark.slow("servers that wait")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "how", ["hangs", "drips", "fails", "redirects", "sends much", "refuses", *OWN]
)
def test_no_webhook_holds_up_a_run(how: str, end: str, machines: Path, tmp_path: Path) -> None:
    wrong = Wrong(how)
    settings = Settings(
        machines=(machines,), journal=tmp_path / "journal.db", ask_to=PEOPLE, url=URL,
        components={"script": ["First.", "Second."], "notifier": wrong.notifier()},
    )  # fmt: skip
    began = time.monotonic()
    with serving_of(settings) as served:
        run, other = served.start(), served.start()
        for one in (run, other):  # each is asked, and neither waits for the other's notice
            wait_for(lambda one=one: served.get(f"/runs/{one}")["state"] == "approve")
        wait_for(lambda: wrong.asked or how == "refuses")
        if end == "answered":
            served.post(f"/runs/{run}/answer", {"event": ENDS[end]})
        else:
            served.post(f"/runs/{run}/cancel")
        wait_for(lambda: served.get(f"/runs/{run}")["status"] == "completed")
        assert served.get(f"/runs/{other}")["state"] == "approve"
        served.post(f"/runs/{other}/answer", {"event": "reject", "data": {"note": "no"}})
        wait_for(lambda: len(served.get(f"/runs/{other}/records")["records"]) >= 5)
    assert (
        time.monotonic() - began < 60
    )  # the server ended too, beside a webhook that may take 60 s
    if how != "refuses":
        wrong.close()


@pytest.mark.slow("a server that is stopped")
def test_a_notice_that_a_stop_cut_off_is_sent_by_the_next_worker(
    machines: Path, tmp_path: Path, hook: Hook
) -> None:
    wrong, told = Wrong("hangs"), WebhookNotifier(hook.url)
    given: Any = {
        "machines": (machines,), "journal": tmp_path / "journal.db", "ask_to": PEOPLE, "url": URL,
    }  # fmt: skip
    components: Any = {"script": ["First.", "Second."], "notifier": wrong.notifier()}
    with serving_of(Settings(**given, components=components)) as served:
        run = served.start()
        wait_for(lambda: wrong.asked)
    with serving_of(Settings(**given, components=components | {"notifier": told})):
        wait_for(lambda: [one["run"] for one in hook.told] == [run])
    wrong.close()
