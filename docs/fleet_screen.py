"""Takes the pictures of the page of the fleet anew: three workers and 500 runs.

    python docs/fleet_screen.py [FOLDER]         # by default docs/pictures

The fleet is that of its tests; the leases of its workers are renewed for each picture.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

from chartloop.adapters.journal.opening import journal_of
from chartloop.run.sync import by_hand

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # its tests know how a browser is driven


class Shot(NamedTuple):
    """One picture."""

    name: str
    context: dict[str, Any]


SHOTS = (
    Shot("fleet", {"viewport": {"width": 1_280, "height": 1_000}}),
    Shot("fleet-dark", {"viewport": {"width": 1_280, "height": 1_000}, "color_scheme": "dark"}),
    Shot("fleet-phone", {"viewport": {"width": 390, "height": 844}, "is_mobile": True}),
)


def take(folder: Path) -> None:
    """Take every picture."""
    from tests.browser.lab import browser, free_port  # noqa: PLC0415
    from tests.fleet_journal import seed  # noqa: PLC0415

    with TemporaryDirectory() as home, browser() as chromium:
        seeded, port = seed(Path(home), size=10), free_port()
        command = [
            sys.executable, "-m", "chartloop", "serve", "--machines", Path(home, "machines"),
            "--journal", seeded.path, "--workers", "0", "--port", str(port),
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        address = f"http://127.0.0.1:{port}"
        while process.poll() is None:
            try:
                httpx.get(f"{address}/readyz")
                break
            except httpx.TransportError:
                time.sleep(0.1)
        for name, context in SHOTS:
            journal = journal_of(seeded.path)
            for worker, ttl in zip(by_hand(journal.backlog()).workers, (24, 27, 29), strict=True):
                by_hand(journal.keep(worker, ttl=ttl))
            by_hand(journal.close())
            page = chromium.new_context(**context).new_page()
            page.goto(f"{address}/fleet")
            page.locator("[data-part=limits] .inside > *").first.wait_for()
            full = name != "fleet-phone"
            page.screenshot(path=folder / f"{name}.png", full_page=full, animations="disabled")
            print(folder / f"{name}.png")
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "pictures")
