"""The page of `docs/streaming.md`, in a real browser, before a real server."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.lab import SLOW, free_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

INSTALL = 'pip install -e ".[test-all]"'
pytestmark = [
    pytest.mark.slow("starts a server and a browser"),
    pytest.mark.extra("fastapi", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.extra("playwright", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.system("chromium", install="apt-get install chromium"),
    pytest.mark.xdist_group("browser"),
]
ROOT = Path(__file__).resolve().parents[2]
FIRST = ROOT / "examples" / "first"
PAGE = re.search(
    r"^```html title=chat.html\n(.*?)^```$",
    (ROOT / "docs" / "streaming.md").read_text("utf-8"),
    re.MULTILINE | re.DOTALL,
)
SCRIPT = """\
replies:
  - {reasoning: I add the two., delay: 3.0, tool_calls: [{name: add, arguments: {a: 2, b: 3}}]}
  - {text: 2 + 3 is 5., delay: 0.5}
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    port = free_port()
    command = (
        sys.executable, "-m", "chartloop", "serve", "--machines", str(FIRST), "--tools",
        str(FIRST / "tools.py"), "--journal", "journal.db", "--script", "script.yaml", "--port",
        str(port),
    )  # fmt: skip
    with (tmp_path / "server.log").open("ab") as log:
        server = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
    try:
        yield _until_it_answers(f"http://127.0.0.1:{port}", tmp_path / "server.log")
    finally:
        server.kill()
        server.wait(20)


def _until_it_answers(address: str, log: Path) -> str:
    import httpx  # noqa: PLC0415

    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(httpx.TransportError):
            httpx.get(f"{address}/readyz", timeout=5)
            return address
        time.sleep(0.1)
    raise AssertionError(log.read_text()[-4000:])


def test_the_page_shows_a_run_as_it_happens(chromium: Browser, address: str) -> None:
    assert PAGE is not None
    page = chromium.new_page()
    told: list[str] = []

    def serve(route: Route) -> None:
        route.fulfill(body=PAGE[1] if PAGE else "", content_type="text/html")

    page.route(f"{address}/chat.html", serve)
    page.on("pageerror", lambda error: told.append(str(error)))
    page.goto(f"{address}/chat.html")
    page.evaluate(
        """() => {
          window.seen = {};
          for (const id of ["reasoning", "calls", "text"])
            new MutationObserver(() => {
              const text = document.getElementById(id).textContent;
              if (text) (window.seen[id] ??= []).push(text);
            }).observe(document.getElementById(id), { childList: true });
        }"""
    )
    page.fill("#task", "What is 2 + 3?")
    page.click("#ask")
    page.wait_for_function(
        "document.getElementById('text').textContent === '2 + 3 is 5.'", timeout=SLOW
    )
    page.wait_for_function("window.seen.calls", timeout=SLOW)
    seen = page.evaluate("window.seen")
    assert seen["reasoning"][-1] == "I add the two."
    assert seen["calls"][-1] == '{"a": 2, "b": 3}'
    assert seen["text"][-1] == "2 + 3 is 5."
    assert told == []
    page.close()
