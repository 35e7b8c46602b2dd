"""Questions that a webhook is told, with a link for each person who may answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from chartloop.adapters.notify.webhook import WebhookNotifier
from chartloop.api import load
from chartloop.core.errors import SetupError
from chartloop.hosting.questions import tell_question
from chartloop.hosting.settings import Settings
from chartloop.run.journal import MemoryJournal
from chartloop.run.sync import by_hand
from chartloop.testing.crash import CrashAt, Crashed
from tests.server.conftest import Serve, Served, wait_for

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
    assert (notice["run"], notice["text"]) == (run, 'Publish "First."?')
    data = notice["data"]
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
    assert second["text"] == 'Publish "Second."?'
    assert second["data"]["wait"] != first["data"]["wait"]
    records = served.get(f"/runs/{run}/records")["records"]
    assert [one["via"] for one in records if one["kind"] == "answer"] == [f"link to {PEOPLE[1]}"]
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

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        self.told.append(data)


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


@pytest.mark.parametrize("url", ["", "agents.example.com", "https://a.example/x", "https://a@b"])
def test_links_need_the_address_of_the_server(serve: Serve, hook: Hook, url: str) -> None:
    with pytest.raises(SetupError, match="address of"):
        serve(components={"notifier": WebhookNotifier(hook.url)}, ask_to=PEOPLE, url=url)


def test_links_need_a_webhook(serve: Serve) -> None:
    with pytest.raises(SetupError, match="need a webhook"):
        serve(ask_to=PEOPLE, url=URL)
