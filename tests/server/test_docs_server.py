"""`docs/server.md`: its `curl` lines, played against the server that the page starts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from chartloop.cli.machine_loader import own_of
from chartloop.cli.options import RunOptions
from chartloop.cli.script import read_script
from tests.server.conftest import Serve, wait_for

pytestmark = [
    pytest.mark.extra("fastapi", install='pip install -e ".[server]"'),  # noqa: S610 - no Django
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt-get install curl"),
]
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "server.md").read_text()
EXAMPLE = ROOT / "examples" / "approve"


def test_the_first_ten_minutes(serve: Serve) -> None:
    commands = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        for line in block.replace("\\\n", "").splitlines()
        if line.startswith("curl ")
    ]
    served = serve(
        script=read_script(str(EXAMPLE / "replies.yaml")).replies,
        machines=(EXAMPLE,),
        tools=own_of(RunOptions(tools=(str(EXAMPLE / "tools.py"),))),
    )
    base = str(served.client.base_url).rstrip("/")

    def print_of(command: str) -> str:
        line = command.replace("http://127.0.0.1:8000", base)
        return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout

    def play(command: str) -> Any:
        return json.loads(print_of(command))

    start, inbox, answer, result, health, metrics = commands
    told = play(start)
    assert told.get("run") == "lithium", told
    served.until("lithium", "paused")
    (asked,) = play(inbox)["runs"]
    assert (asked["run"], asked["machine"]) == ("lithium", "buyer")
    assert play(answer)["run_asked"] == "lithium"
    wait_for(lambda: served.get("/runs/lithium")["status"] == "completed")
    assert play(result)["reason"] == "completed"
    assert play(health)["status"] == "ok"
    told = print_of(metrics)
    for name in ("requests_total", "request_seconds", "runs_due", "runs_driven", "watchers"):
        assert f"chartloop_{name}" in told, name


def test_the_table_names_every_order_and_view(serve: Serve) -> None:
    paths = serve().get("/openapi.json")["paths"]
    for path in paths:
        last = path.rstrip("}").rpartition("/")[2]
        if path.startswith(("/runs/{run_id}/", "/machines/{name}/")) and last not in OF_THE_PAGE:
            assert f"`{last}`" in PAGE or f"/{last}`" in PAGE, path


OF_THE_PAGE = {"painting", "moment", "timeline", "spending"}
"""What only the run page asks for."""


def test_the_limits_that_the_page_names_are_those_of_the_server() -> None:
    from chartloop.hosting import asking, http_server  # noqa: PLC0415
    from chartloop.hosting.server import Limits  # noqa: PLC0415
    from chartloop.hosting.server.routes_machines import EVENTS, RECENT  # noqa: PLC0415
    from chartloop.hosting.settings import Settings  # noqa: PLC0415
    from chartloop.run.reader import READERS  # noqa: PLC0415

    text, limits = " ".join(PAGE.split()), Limits()
    for said in (
        f"After {'ten' if limits.guesses == 10 else limits.guesses} wrong tokens",
        f"for {'ten' if limits.guess_rate == 0.1 else limits.guess_rate} seconds",
        f"above {limits.body // 1_000_000} MB or {limits.depth} levels",
        f"within {limits.silence:g} seconds",
        f"no request for {limits.silence:g} seconds",
        f"more than {limits.rate:g} requests a second of one caller, after the first {limits.burst:,}",
        f"more than {limits.connections:,} connections, or {limits.watchers} streams",
        f"answer in JSON | {asking.BYTES // 1_000} kB",
        f"{READERS} and {asking.ORDERS}. Orders to one run",
        f"rows of the journal | {asking.ROWS:,}",
        f"scans at the same moment | {asking.SCANS};",
        f"time of a scan | {asking.SECONDS:g} seconds",
        f"the newest {RECENT} runs, as far as they have {EVENTS:,} events",
        f"open requests have {http_server.GRACE} seconds and actions {Settings.grace:g}",
    ):
        assert said in text, said
