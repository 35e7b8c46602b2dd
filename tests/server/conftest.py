"""A real server on loopback, asked over HTTP."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    import httpx

    from chartloop.hosting.server import Settings
    from chartloop.hosting.server.serve import Server
    from chartloop.hosting.server.watch import Page

REVIEW = """\
chartloop: 1
machine: review
title: A draft that somebody approves
model: {name: scripted}
limits: {steps: 50}
output: last.text
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  take: {do: receive, next: draft}
  draft: {do: infer, next: approve}
  approve:
    ask: 'Publish "{last.text}"?'
    on: {approve: done, reject: {to: draft, data: {note: str}}}
  done: {stop: completed}
"""


@pytest.fixture
def machines(tmp_path: Path) -> Path:
    """A folder with one machine."""
    folder = tmp_path / "machines"
    folder.mkdir()
    (folder / "review.yaml").write_text(REVIEW)
    (folder / "replies.yaml").write_text("- not a machine\n")
    return folder


class Served:
    """A server that runs, and a client of it."""

    def __init__(self, client: httpx.Client, settings: Settings, server: Server) -> None:
        self.client = client
        self.settings = settings
        self.server = server

    def get(self, path: str, status: int = 200, **more: Any) -> Any:
        return self._read(self.client.get(path, **more), status)

    def post(self, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        return self._read(self.client.post(path, json={} if body is None else body, **more), status)

    def _read(self, answer: httpx.Response, status: int) -> Any:
        assert answer.status_code == status, (answer.status_code, answer.text)
        if (
            answer.headers["content-type"].startswith("text/")
            or "svg" in answer.headers["content-type"]
        ):
            return answer.text
        return answer.json()

    def start(self, machine: str = "review", **body: Any) -> str:
        return self.post("/runs", {"machine": machine, "task": "x", **body}, 201)["run"]

    def until(self, run: str, *statuses: str) -> Mapping[str, Any]:
        """Wait until the run has one of these statuses, and rests."""
        return wait_for(lambda: self._resting(run, statuses))

    def _resting(self, run: str, statuses: Sequence[str]) -> Mapping[str, Any] | None:
        seen = self.get(f"/runs/{run}")
        return seen if seen["status"] in statuses and seen["driver"] is None else None


def wait_for(look: Callable[[], Any], seconds: float = 100.0) -> Any:
    """What `look` gives once it gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


@contextmanager
def serving(settings: Settings) -> Generator[Served]:
    """A real uvicorn on a free port of loopback, in a thread."""
    import httpx  # noqa: PLC0415

    from chartloop.hosting.server.serve import Server  # noqa: PLC0415

    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(settings, log_level="warning")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_for(lambda: server.started or not thread.is_alive())
    port = listener.getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            yield Served(client, settings, server)
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


class Heard(NamedTuple):
    """An event of a stream."""

    id: str
    event: str
    data: Any


def events_in(lines: Iterable[str]) -> Iterator[Heard]:
    """The events of a stream, as they come."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield Heard(fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"]))
            fields = {}


def events_of(page: Page) -> list[Heard]:
    """The events of a page."""
    return [*events_in(b"".join(page.parts).decode().split("\n"))]


Serve = Callable[..., Served]


@pytest.fixture
def serve(machines: Path, tmp_path: Path) -> Iterator[Serve]:
    """Starts servers on the journal of this test; all end with it."""
    from chartloop.hosting.server import Settings  # noqa: PLC0415

    with ExitStack() as stack:

        def start(script: Sequence[Any] = ("First.", "Second."), **settings: Any) -> Served:
            given: Any = {
                "machines": (machines,), "journal": tmp_path / "journal.db",
                "components": {"script": list(script)}, **settings,
            }  # fmt: skip
            return stack.enter_context(serving(Settings(**given)))

        yield start


@pytest.fixture
def served(serve: Serve) -> Served:
    """One server with the usual settings."""
    return serve()
