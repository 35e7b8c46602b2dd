"""Takes the picture of the run page anew: the buyer of `examples/approve`, waiting for an answer.

    python docs/run_page_screen.py [FILE]        # by default docs/pictures/run-page.png

It starts `chartloop serve` with the command of `docs/server.md` and opens the run in Chromium.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
EXAMPLE = ROOT / "examples" / "approve"
PICTURE = HERE / "pictures" / "run-page.png"
TASK = "How fast does demand for lithium rise?"
WIDE, HIGH = 1_280, 1_000
"""The window of the browser."""

sys.path.insert(0, str(ROOT))  # its tests know how a browser is driven


@contextmanager
def server(journal: Path) -> Iterator[str]:
    """The address of a server of the example."""
    from tests.browser.lab import free_port  # noqa: PLC0415

    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [
        sys.executable, "-m", "chartloop", "serve", "--machines", EXAMPLE, "--tools",
        EXAMPLE / "tools.py", "--script", EXAMPLE / "replies.yaml", "--journal", journal,
        "--port", str(port),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            try:
                httpx.get(f"{address}/readyz")
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def start(address: str) -> None:
    """Start the run of `docs/server.md`."""
    body = {"machine": "buyer", "task": TASK, "run_id": "lithium"}
    httpx.post(f"{address}/runs", json=body).raise_for_status()


def take(path: Path) -> None:
    """Run the buyer to its question, and take the page."""
    from tests.browser.lab import browser, expect_text  # noqa: PLC0415

    with TemporaryDirectory() as home, server(Path(home, "journal.db")) as address:
        start(address)
        with browser() as chromium:
            context = chromium.new_context(
                viewport={"width": WIDE, "height": HIGH}, device_scale_factor=2
            )
            page = context.new_page()
            page.goto(f"{address}/runs/lithium")
            expect_text(page, page.locator(".title .cl-status"), "waits for someone$")
            page.locator(".cl-picture svg").wait_for()
            page.locator(".banner button:visible").first.wait_for()
            page.screenshot(path=path, animations="disabled")


def main() -> None:
    """Take it."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    take(path)
    print(path)


if __name__ == "__main__":
    main()
