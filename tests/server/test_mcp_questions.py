"""A question of an MCP server in a run that `chartloop serve` drives."""

from __future__ import annotations

from pathlib import Path

import pytest

from chartloop.api.tool_lock import lock_tools
from tests.mcp_peers import call, calls_of, machine, put_server
from tests.server.conftest import Serve, Served, wait_for

pytestmark = [
    pytest.mark.extra("mcp", install='pip install -e ".[mcp]"'),  # noqa: S610 - no Django
    pytest.mark.extra("fastapi", install='pip install -e ".[server]"'),  # noqa: S610 - no Django
]
FIELDS = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SCRIPT = [call("calc.ask", message="Who are you?", schema=FIELDS), "done"]


def stands(served: Served, run: str, steps: int) -> bool:
    """Whether the run rests after so many steps."""
    (seen,) = (one for one in served.get("/runs")["runs"] if one["run"] == run)
    return seen["steps"] == steps and seen["driver"] is None


@pytest.mark.parametrize("drive", ["run", "step"])
def test_it_is_listed_shown_and_answered_over_http(
    serve: Serve, machines: Path, drive: str
) -> None:
    put_server(machines)
    path = machines / "peer.yaml"
    text = machine()
    for name in ("server.py", "calc.json"):  # a worker has the machine from the journal
        text = text.replace(f'"{name}"', f'"{machines / name}"')
    path.write_text(text)
    lock_tools(path).write()
    served = serve(SCRIPT, trust=True)
    run = served.start("peer", drive="run" if drive == "run" else "none")
    if drive == "step":
        for steps in (1, 2, 3):
            served.post(f"/runs/{run}/step", status=202)
            if steps < 3:
                wait_for(lambda n=steps: stands(served, run, n))
    asked = wait_for(lambda: served.get("/runs", params={"waiting": "true"})["runs"])
    assert [one["run"] for one in asked] == [run]
    question = asked[0]["question"]
    assert question["text"] == "MCP server `calc` asks: Who are you?"
    assert question["answers"]["accept"] == {"name": "str"}
    shown = served.get(f"/runs/{run}")
    assert shown["status"] == "paused"
    assert shown["driver"] is not None
    answer = {"event": "accept", "data": {"name": "Eve"}, "wait": question["wait"]}
    served.post(f"/runs/{run}/answer", {**answer, "data": {}}, 422)
    served.post(f"/runs/{run}/answer", answer)
    served.post(f"/runs/{run}/answer", answer, 409)
    if drive == "step":
        wait_for(lambda: served.get(f"/runs/{run}")["driver"] is None)
        served.post(f"/runs/{run}/run", status=202)
    assert served.until(run, "completed", "error")["status"] == "completed"
    assert len(calls_of(machines)) == 1
