"""The marimo notebook in a real marimo: its pictures, its slider and the panel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from tests.browser.lab import INSTALL, NEEDS, Tab, expect_text, free_port

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [*NEEDS, pytest.mark.extra("marimo", install=INSTALL)]  # noqa: S610 - no Django

STEPPING = Path(__file__).resolve().parents[2] / "examples" / "stepping_marimo.py"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a marimo shows the notebook, on loopback."""
    home, port = tmp_path_factory.mktemp("marimo"), free_port()
    command = (
        sys.executable, "-m", "marimo", "-q", "run", shutil.copy(STEPPING, home), "--headless",
        "--no-token", "--host", "127.0.0.1", "--port", str(port),
    )  # fmt: skip
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    log = (home / "log").open("wb")
    with log, subprocess.Popen(
        command, cwd=home, env={**env, "HOME": str(home)}, stdin=subprocess.DEVNULL, stdout=log,
        stderr=subprocess.STDOUT,
    ) as server:  # fmt: skip
        try:
            _wait(server, f"http://127.0.0.1:{port}/", home / "log")
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        try:
            with urlopen(url, timeout=5):  # noqa: S310 - loopback
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"marimo did not start:\n{log.read_text('utf-8')[-4000:]}")


@pytest.fixture(scope="module")
def shown(address: str, page: Tab) -> Page:
    """The notebook, every cell of which was run."""
    page.page.goto(address)
    page.page.locator(".cl-panel .cl-picture svg").wait_for()
    return page.page


def test_the_machine_and_the_runs_are_drawn(shown: Page) -> None:
    widths: list[int] = shown.locator("img[src^='data:image'], svg:has(g.graph)").evaluate_all(
        "drawn => drawn.map(one => one.getBoundingClientRect().width)"
    )
    assert len(widths) == 4
    assert all(width > 200 for width in widths)


def test_the_panel_is_stepped(shown: Page) -> None:
    state = shown.locator(".cl-state")
    step = shown.get_by_role("button", name="Step", exact=True)
    for wanted in ("think", "use_tools"):
        step.click()
        expect_text(shown, state, f"^{wanted}$")
        expect_text(shown, shown.locator(".cl-busy"), "^$")
    expect_text(shown, shown.locator(".cl-picture g.node", has_text="NOW"), "Use the tools")


def test_the_slider_goes_back_in_the_run(shown: Page) -> None:
    said = shown.locator("text=/(Stopped by a limit|Done at)/").last
    expect_text(shown, said, "token_limit")
    slider = shown.get_by_role("slider").first
    slider.focus()
    shown.keyboard.press("End")
    expect_text(shown, said, "Done at")
