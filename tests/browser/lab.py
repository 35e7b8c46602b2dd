"""A real JupyterLab on loopback, and a real browser in front of it: for the tests of this folder.

Both have folders, settings and a token of their own. The browser reaches loopback only: every other
request is stopped and remembered, so that a test can say that there was none.

Belongs here: starting, opening and ending. Never: what a notebook should show.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route, WebSocket

INSTALL = 'pip install -e ".[test-all]"'
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
"""What a browser may be called."""
START = 60.0
"""Seconds that JupyterLab may take until it answers."""
SLOW = 50_000
"""Milliseconds that something in the page may take."""

NEEDS = [
    pytest.mark.slow("starts JupyterLab or marimo, and a browser"),
    pytest.mark.extra("jupyterlab", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.extra("ipykernel", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.extra("playwright", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.system("chromium", install="apt-get install chromium"),
    pytest.mark.xdist_group("browser"),
]
"""What every test with a JupyterLab needs."""


class Lab:
    """A running JupyterLab: the folder that it shows, and how it is reached."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "notebooks"
        self.folder.mkdir(parents=True)
        self.log = home / "lab.log"
        self.token = secrets.token_hex(16)
        self.env = _environment(home)
        self.port = free_port()
        self._process = self._start(home)
        self._wait()

    def _start(self, home: Path) -> subprocess.Popen[bytes]:
        settings = home / "config" / "jupyter_server_config.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps(_settings(self.folder, self.port, self.token)), "utf-8")
        ours = home / "config" / "labconfig" / "default_setting_overrides.json"
        ours.parent.mkdir()
        ours.write_text(json.dumps(OVERRIDES), "utf-8")
        command = (sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root")
        with self.log.open("wb") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def _wait(self) -> None:
        end = time.monotonic() + START
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urlopen(f"{self.address}/api/status?token={self.token}", timeout=5):  # noqa: S310 - loopback
                    return
            except OSError:
                time.sleep(0.1)
        self.stop()
        raise AssertionError(f"JupyterLab did not start:\n{self.log.read_text('utf-8')[-4000:]}")

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def url(self, notebook: str) -> str:
        """Where a notebook of its folder is opened, alone."""
        return f"{self.address}/lab/tree/{notebook}?token={self.token}&reset"

    def add(self, name: str, notebook: dict[str, Any] | Path, *, trusted: bool) -> str:
        """Put a notebook into the folder; who trusts it runs what its outputs hold."""
        path = self.folder / name
        if isinstance(notebook, Path):
            shutil.copy(notebook, path)
        else:
            path.write_text(json.dumps(notebook), "utf-8")
        if trusted:
            command = (sys.executable, "-m", "jupyter", "trust", name)
            done = subprocess.run(
                command, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        return name

    def stop(self) -> None:
        """End it, with its kernels."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)


OVERRIDES: dict[str, dict[str, Any]] = {
    "@jupyterlab/apputils-extension:notification": {
        "checkForUpdates": False,
        "doNotDisturbMode": True,
        "fetchNews": "false",
    },
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}
"""No news and no updates; every cell stands in the page, seen or not."""


def _settings(folder: Path, port: int, token: str) -> dict[str, Any]:
    return {
        "ServerApp": {"ip": "127.0.0.1", "port": port, "port_retries": 0, "root_dir": str(folder)},
        "IdentityProvider": {"token": token},
        "LabApp": {
            "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
            "extension_manager": "readonly",
            "news_url": None,
        },
        "TerminalsExtensionApp": {},
    }


def _environment(home: Path) -> dict[str, str]:
    """That of this process, with all folders of Jupyter's and IPython's elsewhere."""
    theirs = ("JUPYTER", "IPYTHON", "PYTEST", "PYTHONWARNINGS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    places = {
        f"JUPYTER_{what}_DIR": str(home / what.lower()) for what in ("CONFIG", "DATA", "RUNTIME")
    }
    return {**kept, **places, "HOME": str(home), "IPYTHONDIR": str(home / "ipython")}


def free_port() -> int:
    """A port of loopback that nobody listens to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


class Tab:
    """A page of the browser, and what it asked for that is not on loopback."""

    def __init__(self, context: BrowserContext) -> None:
        self.outside: list[str] = []
        self.errors: list[str] = []
        context.set_default_timeout(SLOW)
        context.route("**/*", self._gate)
        self.page: Page = context.new_page()
        self.page.on("websocket", self._socket)
        self.page.on("pageerror", self._error)

    def _socket(self, opened: WebSocket) -> None:
        self._see(opened.url)

    def _error(self, error: object) -> None:
        self.errors.append(str(error))

    def _gate(self, route: Route) -> None:
        if self._see(route.request.url):
            route.continue_()
        else:
            route.abort()

    def _see(self, url: str) -> bool:
        parts = urlsplit(url)
        inside = parts.scheme in ("data", "blob", "about") or parts.hostname == "127.0.0.1"
        if not inside:
            self.outside.append(url)
        return inside


@contextmanager
def browser() -> Generator[Browser]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an extra

    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    with sync_playwright() as playwright:
        # as root there is no sandbox; it sees loopback only
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


class Open:
    """A notebook that is open in JupyterLab."""

    def __init__(self, lab: Lab, tab: Tab, name: str) -> None:
        self.tab, self.page = tab, tab.page
        self.page.goto(lab.url(name))
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")

    def wait_for_kernel(self) -> None:
        """Until the kernel listens: what is run before is lost."""
        self.page.wait_for_selector(".jp-StatusBar-Widget >> text=/\\| Idle/")

    def clear(self) -> None:
        """Take everything away that cells have shown."""
        self.page.evaluate("document.querySelectorAll('.cl-panel').forEach(part => part.remove())")

    def run(self, cell: int, source: str | None = None) -> None:
        """Run a cell of code, by its place in the notebook, to its end."""
        place = self.page.locator(".jp-Notebook .jp-Cell").nth(cell)
        prompt = place.locator(".jp-InputPrompt")
        prompt.evaluate("prompt => { prompt.textContent = ''; }")  # a restart counts from 1 again
        if source is None:
            place.locator(".cm-content").click()
        else:
            place.locator(".cm-content").fill(source)
        self.page.keyboard.press("Control+Enter")
        expect_text(self.page, prompt, r"^\[\d+\]:$")

    def run_all(self) -> None:
        """Run every cell to its end."""
        self.page.locator(".lm-MenuBar-item", has_text="Run").click()
        self.page.locator(".lm-Menu-item[data-command='runmenu:run-all']").click()
        last = self.page.locator(".jp-CodeCell .jp-InputPrompt").last
        expect_text(self.page, last, r"^\[\d+\]:$")

    def restart(self) -> None:
        """Restart the kernel, and wait until it listens."""
        self.page.locator(".lm-MenuBar-item", has_text="Kernel").click()
        self.page.locator(".lm-Menu-item[data-command='kernelmenu:restart']").click()
        with self.page.expect_response(lambda answer: "/restart" in answer.url):
            self.page.locator("button.jp-mod-accept").click()
        self.wait_for_kernel()

    def output(self, cell: int) -> Any:
        """What a cell shows."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-OutputArea-output")


def expect_text(page: Page, place: Any, pattern: str) -> None:
    """Wait until a place says something."""
    from playwright.sync_api import expect  # noqa: PLC0415 - an extra

    cast(Any, expect(place)).to_have_text(re.compile(pattern), timeout=SLOW)


def expect_pressable(button: Any, pressable: bool) -> None:
    """Wait until a button says that it can, or cannot, be pressed."""
    from playwright.sync_api import expect  # noqa: PLC0415 - an extra

    disabled = "false" if pressable else "true"
    cast(Any, expect(button)).to_have_attribute("aria-disabled", disabled, timeout=SLOW)


def notebook(*cells: str) -> dict[str, Any]:
    """A notebook of these cells of code, never run."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made: list[dict[str, Any]] = [
        {
            "cell_type": "code", "id": f"cell-{number}", "source": source,
            "execution_count": None, "metadata": {}, "outputs": [],
        }
        for number, source in enumerate(cells)
    ]  # fmt: skip
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
