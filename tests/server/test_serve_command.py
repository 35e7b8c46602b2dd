"""`chartloop serve` as a process: killed in mid-run, begun again, sharing a journal."""

from __future__ import annotations

import gc
import os
import re
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.conftest import wait_for

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django
SLOW = '- {text: "Slow.", delay: 2.0}\n'


class Process:
    """A server of its own, and a client of it."""

    def __init__(self, process: subprocess.Popen[str], client: httpx.Client) -> None:
        self.process = process
        self.client = client

    def run(self, run: str) -> Any:
        return self.client.get(f"/runs/{run}").json()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)


@contextmanager
def command(folder: Path, *more: str) -> Generator[Process]:
    arguments = [
        sys.executable, "-m", "chartloop", "serve", "--machines", "machines", "--journal",
        "journal.db", "--port", "0", *more,
    ]  # fmt: skip
    process = subprocess.Popen(
        arguments, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stderr is not None
    seen = ""
    try:
        for line in process.stderr:
            seen += line
            if found := re.search(r"running on (http://\S+)", line):
                break
        else:
            raise AssertionError(seen)
        import httpx  # noqa: PLC0415

        with httpx.Client(base_url=found[1], timeout=30) as client:
            yield Process(process, client)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(20)
        process.stderr.close()


@pytest.mark.slow("starts processes")
def test_a_server_that_is_killed_in_mid_run_goes_on_when_it_is_started(
    machines: Path, tmp_path: Path
) -> None:
    (tmp_path / "replies.yaml").write_text(SLOW)
    options = ("--script", "replies.yaml")
    with command(tmp_path, *options) as first:
        run = first.client.post("/runs", json={"machine": "review", "task": "x"}).json()["run"]
        wait_for(lambda: first.run(run)["driver"])
        first.kill()
    with command(tmp_path, *options) as second:
        paused = wait_for(lambda: (seen := second.run(run))["status"] == "paused" and seen)
        assert paused["state"] in ("approve", "draft")
        events = [answer["event"] for answer in paused["answers"]]
        if events == ["retry", "fail"]:  # the call was in doubt: the machine's file decides
            second.client.post(f"/runs/{run}/answer", json={"event": "retry"})
            wait_for(lambda: second.run(run)["state"] == "approve")
        assert (
            second.client.post(f"/runs/{run}/answer", json={"event": "approve"}).status_code == 200
        )
        wait_for(lambda: second.run(run)["status"] == "completed")
        assert second.process.poll() is None
    assert second.process.returncode in (0, -signal.SIGTERM)


@pytest.mark.slow("starts processes")
def test_what_cannot_be_served_is_said_before_anything_is(machines: Path, tmp_path: Path) -> None:
    def said(*more: str) -> tuple[int, str]:
        arguments = [sys.executable, "-m", "chartloop", "serve", "--machines", "machines", *more]
        done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    code, text = said("--host", "0.0.0.0")  # noqa: S104  refused
    assert (code, "can be reached from other computers" in text) == (2, True)
    (tmp_path / "tokens").write_text("everything 0123456789abcdef\n")
    code, text = said("--token-file", "tokens")
    assert (code, "line 1: unknown scope" in text) == (2, True)
    assert said("--clock", "simulated")[0] == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, text = said("--port", port)
    assert (code, f"cannot listen at 127.0.0.1:{port}: another program" in text) == (2, True)
    assert f"`ss -ltnp 'sport = :{port}'` names it" in " ".join(text.split())
    assert text.count("error") == 1
    assert "Started server process" not in text
    (machines / "sub").mkdir()
    (machines / "review.yml").write_text((machines / "review.yaml").read_text())
    code, text = said()
    assert (code, "both declare the machine `review`" in text) == (2, True)


def test_an_application_that_is_never_started_leaves_nothing_open(tmp_path: Path) -> None:
    """Built and dropped: no event loop, no connection is left for the garbage collector."""
    from chartloop.hosting.settings import Settings  # noqa: PLC0415
    from chartloop.server.application import create_app  # noqa: PLC0415

    settings = Settings(machines=(tmp_path,), journal=str(tmp_path / "journal.db"), workers=2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        app = create_app(settings)
        del app
        gc.collect()
    assert [str(one.message) for one in seen if "loop" in str(one.message)] == []
