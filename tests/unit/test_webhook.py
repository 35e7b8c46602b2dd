"""The webhook: what it posts, when it tries again, what it never says. Over real HTTP."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

import pytest

from chartloop import load
from chartloop.adapters.notify.webhook import WebhookNotifier
from chartloop.core.errors import Category, SetupError, ToolError

SECRET = "tok3n-in-the-query"
DROP, SLOW = 0, -1
"""In place of a status: the connection is closed without an answer; the answer never comes."""


class Posted(NamedTuple):
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Hook:
    """Somebody who is told: answers these, one after the other, then 200."""

    def __init__(self, *answers: int, to: str = "") -> None:
        self.answers, self.to = list(answers), to
        self.posted: list[Posted] = []
        self.stopping = threading.Event()

    def __enter__(self) -> Self:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, self))
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook?key={SECRET}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, hook: Hook, *args: Any) -> None:
        self.hook = hook
        super().__init__(*args)

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_POST(self) -> None:
        hook = self.hook
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        hook.posted.append(Posted(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        status = hook.answers.pop(0) if hook.answers else 200
        if status == SLOW:
            hook.stopping.wait()
        if status <= 0:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("location", hook.to or "/other")
        self.send_header("content-length", "0")
        self.end_headers()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def told(hook: Hook, data: dict[str, Any] | None = None, **options: Any) -> Exception | None:
    """What came of one notice: the error, or None."""
    given: dict[str, Any] = {"pause": 0.01, "timeout": 5.0, **options}
    notifier = WebhookNotifier(hook.url, **given)
    try:
        asyncio.run(notifier.notify("It is done.", data or {"run": "r", "steps": 3}))
    except ToolError as error:
        return error
    return None


# what is posted, and what is made of the answer ---------------------------------------------


def test_a_notice_is_one_post_of_json() -> None:
    with Hook() as hook:
        assert told(hook) is None
    (one,) = hook.posted
    assert one.path == f"/hook?key={SECRET}"
    assert one.body == {"text": "It is done.", "data": {"run": "r", "steps": 3}, "run": "r"}
    assert one.headers["content-type"] == "application/json"
    assert "authorization" not in one.headers


class Answer(NamedTuple):
    """Answers in order, how often it is posted, and what is said in the end."""

    id: str
    answers: tuple[int, ...]
    posts: int
    says: str = ""
    category: Category | None = None


ANSWERS = [
    Answer("ok", (200,), 1),
    Answer("accepted", (202,), 1),
    Answer("nothing-to-say", (204,), 1),
    Answer("once-500", (500, 200), 2),
    Answer("twice-503", (503, 503, 200), 3),
    Answer("always-500", (500, 500, 500, 200), 3, "answered 500", Category.TRANSIENT),
    Answer("dropped-once", (DROP, 200), 2),
    Answer("always-dropped", (DROP, DROP, DROP), 3, "cannot be reached", Category.TRANSIENT),
    Answer("not-found", (404, 200), 1, "answered 404", Category.RECOVERABLE),
    Answer("forbidden", (403, 200), 1, "answered 403", Category.RECOVERABLE),
    Answer("too-many", (429, 200), 1, "answered 429", Category.TRANSIENT),
    Answer("moved-as-get", (302, 200), 1, "a redirect that is not followed", Category.RECOVERABLE),
    Answer("moved-on-its-host", (307, 200), 2),
    Answer("moved-for-ever", (308,) * 9, 4, "answered 308", Category.RECOVERABLE),
]


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case.id)
def test_what_is_made_of_an_answer(case: Answer) -> None:
    with Hook(*case.answers) as hook:
        error = told(hook)
    assert len(hook.posted) == case.posts
    assert case.says in str(error)
    assert (error is None) == (case.category is None)
    if isinstance(error, ToolError):
        assert error.category == case.category
    assert all(p.body["text"] == "It is done." for p in hook.posted)  # a redirect keeps the body


def test_a_redirect_to_another_host_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "s3cret")
    with Hook() as other, Hook(307, to=f"http://127.0.0.1:{other.port}/steal") as hook:
        error = told(hook, secret_env="HOOK")
        assert "a redirect that is not followed" in str(error)
        assert other.posted == []


def test_nobody_is_there() -> None:
    with Hook() as hook:
        pass
    error = told(hook)
    assert isinstance(error, ToolError)
    assert (error.category, "Connection refused" in error.message) == (Category.TRANSIENT, True)


def test_one_that_is_too_slow_is_given_up_and_not_repeated() -> None:
    with Hook(SLOW) as hook:
        error = told(hook, timeout=0.3)
    assert len(hook.posted) == 1
    assert isinstance(error, ToolError)
    assert error.category == Category.TRANSIENT
    assert "has not answered within 0.3 s" in error.message


def test_the_loop_goes_on_meanwhile() -> None:
    async def both() -> int:
        notifier = WebhookNotifier(hook.url, timeout=0.5)
        notice = asyncio.create_task(notifier.notify("x", {}))
        turns = 0
        while not notice.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert isinstance(notice.exception(), ToolError)
        return turns

    with Hook(SLOW) as hook:
        assert asyncio.run(both()) > 5


# secrets ------------------------------------------------------------------------------------


def test_the_secret_of_a_variable_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", " s3cret\n")
    with Hook(500) as hook:
        assert told(hook, secret_env="HOOK") is None
    assert [p.headers["authorization"] for p in hook.posted] == ["Bearer s3cret"] * 2


@pytest.mark.parametrize("answers", [(404,), (500,) * 3, (DROP,) * 3, (SLOW,)], ids=str)
def test_what_may_be_secret_is_never_said(
    answers: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Hook(*answers) as hook:
        error = told(hook, timeout=0.3)
        notifier = WebhookNotifier(hook.url)
    assert f"http://127.0.0.1:{hook.port}" in str(error)
    for said in (repr(error), str(error), repr(notifier), caplog.text):
        assert SECRET not in said
        assert "/hook" not in said


def test_what_is_posted_is_redacted() -> None:
    key = "sk-proj-" + "a1b2c3d4" * 5
    with Hook() as hook:
        told(hook, {"run": "r", "task": f"use {key}"})
    assert hook.posted[0].body["data"]["task"] == "use «redacted:openai-key»"


class Bad(NamedTuple):
    id: str
    url: str
    env: str
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Bad("nothing", "", "", "not a URL of a webhook"),
        Bad("no-scheme", "example.com/x", "", "not a URL of a webhook"),
        Bad("a-file", "file:///etc/passwd", "", "not a URL of a webhook"),
        Bad("no-host", "http:///x", "", "not a URL of a webhook"),
        Bad("a-space", "http://h/a b", "", "not a URL of a webhook"),
        Bad("a-line-break", "http://h/\r\nX: y", "", "not a URL of a webhook"),
        Bad("no-port", "http://h:port/x", "", "not a URL of a webhook"),
        Bad("brackets", "http://[::1/x", "", "not a URL of a webhook"),
        Bad("password", "http://me:pa55@h/x", "", "holds no password"),
        Bad("variable-not-set", "http://h/x", "NO_SUCH", "`NO_SUCH`, which holds the webhook"),
        Bad("variable-of-two-lines", "http://h/x", "LINES", "holds what no header can"),
    ],
    ids=lambda case: case.id,
)
def test_what_cannot_work_is_said_at_once(case: Bad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "a\nX-Evil: b")
    with pytest.raises(SetupError, match=case.says) as caught:
        WebhookNotifier(case.url, secret_env=case.env)
    assert "pa55" not in str(caught.value)
    assert "Evil" not in str(caught.value)


# in a run -----------------------------------------------------------------------------------

TELLS = """chartloop: 1
machine: tells
states:
  tell: {do: notify, with: {text: Look here.}, %snext: done}
  worse: {stop: error}
  done: {stop: completed}
"""
EPILOGUE = """chartloop: 1
machine: tells
states:
  begin: {do: nothing, next: finished}
  finished: {stop: completed, next: tell}
  tell: {do: notify, next: over}
  over: {end: by_reason}
"""


@pytest.fixture
def broken() -> Iterator[Hook]:
    """A hook that always answers 404."""
    with Hook(*[404] * 9) as hook:
        yield hook


def test_a_run_tells_what_it_has_to_say() -> None:
    with Hook() as hook:
        result = load(TELLS % "").start(notifier=WebhookNotifier(hook.url), run_id="r").run()
    assert (result.reason, hook.posted[0].body["text"]) == ("completed", "Look here.")
    assert hook.posted[0].body["run"] == "r"


def test_a_notice_that_fails_fails_only_its_action(broken: Hook) -> None:
    notifier = WebhookNotifier(broken.url)
    result = load(TELLS % "failed: worse, ").run(notifier=notifier)
    assert result.path == ("tell", "worse")
    assert result.errors[0]["category"] == "RECOVERABLE"
    assert result.errors[0]["message"] == f"the webhook at {notifier.shown} answered 404"
    assert load(TELLS % "failed: next, ").run(notifier=notifier).reason == "completed"


def test_in_an_epilogue_it_is_a_warning(broken: Hook) -> None:
    result = load(EPILOGUE).run(notifier=WebhookNotifier(broken.url))
    assert (result.reason, result.kind) == ("completed", "natural")
    assert "tell failed after the stop: the webhook at" in result.warnings[0]


def test_the_async_face_and_a_retry_of_the_state() -> None:
    with Hook(429) as hook:
        machine = load(TELLS % "retry: {times: 1, base: 10ms, on: [TRANSIENT]}, ")
        result = asyncio.run(machine.arun(notifier=WebhookNotifier(hook.url)))
    assert (result.reason, len(hook.posted)) == ("completed", 2)
