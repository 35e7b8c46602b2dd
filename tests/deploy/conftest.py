"""What is deployed is played as docs/server.md says: a run is started, asks, is answered, and ends."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.server.conftest import wait_for

if TYPE_CHECKING:
    import httpx

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "docs" / "deploy"
EXAMPLE = ROOT / "examples" / "approve"
TOKEN = "edit-0123456789abcdef"
DRIVES = {"Authorization": f"Bearer {TOKEN}"}


def settings_folder(folder: Path) -> Path:
    """What a person puts into /etc/chartloop: machines, tools, tokens; and scripted replies."""
    (folder / "machines").mkdir(parents=True)
    shutil.copy(EXAMPLE / "machine.yaml", folder / "machines" / "buyer.yaml")
    for name in ("tools.py", "replies.yaml"):
        shutil.copy(EXAMPLE / name, folder / name)
    (folder / "tokens").write_text(f"edit {TOKEN} tests\n")
    return folder


def free_port() -> int:
    """A port of loopback at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def until_healthy(client: httpx.Client, ended: Any) -> None:
    """Wait for the server; `ended()` says what it wrote where it has ended."""
    import httpx  # noqa: PLC0415

    def look() -> bool:
        if (text := ended()) is not None:
            raise AssertionError(text)
        try:
            return client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    wait_for(look, 60)


def play(client: httpx.Client, run: str = "lithium") -> None:
    """One run from its start to its result, with a question in between."""
    told = client.post("/runs", json={"machine": "buyer", "task": "Lithium?", "run_id": run})
    assert told.status_code == 201, told.text
    wait_for(lambda: client.get("/runs", params={"waiting": True}).json()["runs"])
    answer = {"event": "accept", "data": {"by": "tests"}}  # the name of the token
    assert client.post(f"/runs/{run}/answer", json=answer).status_code == 200
    wait_for(lambda: client.get(f"/runs/{run}").json()["status"] == "completed")
    assert client.get(f"/runs/{run}/result").json()["reason"] == "completed"
    picture = client.get(f"/runs/{run}/picture")  # drawn by another program, with fonts
    assert picture.text.startswith("<svg"), picture.text
