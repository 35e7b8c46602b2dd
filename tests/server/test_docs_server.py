"""`docs/server.md`: its `curl` lines, played against the server that the page starts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from chartloop.cli.machine_loader import load_tools
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
        tools=load_tools((str(EXAMPLE / "tools.py"),)),
    )
    base = str(served.client.base_url).rstrip("/")

    def play(command: str) -> Any:
        line = command.replace("http://127.0.0.1:8000", base)
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    start, inbox, answer, result = commands
    told = play(start)
    assert told.get("run") == "lithium", told
    served.until("lithium", "paused")
    (asked,) = play(inbox)["runs"]
    assert (asked["run"], asked["machine"]) == ("lithium", "buyer")
    assert play(answer)["run_asked"] == "lithium"
    wait_for(lambda: served.get("/runs/lithium")["status"] == "completed")
    assert play(result)["reason"] == "completed"


def test_the_table_names_every_order_and_view(serve: Serve) -> None:
    paths = serve().get("/openapi.json")["paths"]
    for path in paths:
        last = path.rstrip("}").rpartition("/")[2]
        if path.startswith(("/runs/{run_id}/", "/machines/{name}/")) and last not in OF_THE_PAGE:
            assert f"`{last}`" in PAGE or f"/{last}`" in PAGE, path


OF_THE_PAGE = {"painting", "moment", "timeline", "spending"}
"""What only the run page asks for."""
