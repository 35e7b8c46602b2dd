"""The example with two MCP servers: locked, proven, run, and reviewed after one of them changed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chartloop import load
from chartloop.analysis.versions.diff.diff import Diff
from chartloop.api.tool_lock import lock_tools
from chartloop.core.errors import ToolsChangedError

EXAMPLE = Path(__file__).parents[2] / "examples" / "mcp"
PRICE = {"number": "A17", "usd": 49.0}
SCRIPT = [
    {"text": "", "tool_calls": [{"name": "orders.find", "arguments": {"number": "A17"}}]},
    {"text": "", "tool_calls": [{"name": "payments.refund", "arguments": PRICE}]},
    "You get 49 USD back.",
]


def test_it_is_proven_from_the_lock() -> None:
    made = load(EXAMPLE / "machine.yaml")
    assert made.spec.tools == ("orders.count", "orders.find", "payments.refund")
    assert made.query("never tool:payments.refund before state:approve").holds
    assert not made.findings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the example, with its server over HTTP on a free port."""
    here = tmp_path / "mcp"
    shutil.copytree(EXAMPLE, here, ignore=shutil.ignore_patterns("__*"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("PAYMENTS_PORT", str(port))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    command = [sys.executable, str(here / "payments.py")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        for _ in range(600):
            with socket.socket() as there:
                if there.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield here
        process.kill()


@pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')  # noqa: S610 - no Django
@pytest.mark.slow("starts two servers of the package mcp")
def test_it_runs_with_both_servers_and_stops_when_one_changes(folder: Path) -> None:
    file = folder / "machine.yaml"
    assert lock_tools(file).fits  # the lock in the repository is what the servers offer
    before = load(file)
    run = before.start("My lamp (order A17) arrived broken.", script=SCRIPT)
    run.run()
    assert run.state == "approve"
    assert run.question is not None
    assert "payments.refund" in run.question.text
    run.send("accept", {"by": "kim"})
    assert run.run().output == "You get 49 USD back."
    found, paid = (m["content"] for m in run.messages if m["role"] == "tool")
    assert "arrived broken" in found
    assert paid == "49.00 USD paid back for A17"

    orders = folder / "orders.py"
    orders.write_text(orders.read_text().replace("by its number.", "by its number or its name."))
    with pytest.raises(ToolsChangedError, match=r"~ orders\.find description"):
        before.run("Again", script=SCRIPT)
    lock_tools(file).write()
    changes = Diff(before, load(file), ("before", "after")).changes
    (change,) = changes
    assert str(change) == (
        "description of tool `orders.find`: `Find an order by its number.` → "
        "`Find an order by its number or its name.`"
    )
