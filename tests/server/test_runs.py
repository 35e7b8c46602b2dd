"""Runs over HTTP: started, looked at, driven, answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.server.conftest import Served

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django


def test_a_run_is_started_waits_and_is_answered(served: Served) -> None:
    run = served.start(task="Write.")
    seen = served.until(run, "paused")
    assert (seen["state"], seen["question"]) == ("approve", 'Publish "First."?')
    (listed,) = served.get("/runs", params={"waiting": True})["runs"]
    assert (listed["run"], listed["question"]["wait"]) == (run, seen["wait"])
    served.post(f"/runs/{run}/answer", {"event": "approve", "wait": seen["wait"]})
    assert served.until(run, "completed")["output"] == "First."
    assert served.get(f"/runs/{run}/result")["reason"] == "completed"
    assert served.get("/runs", params={"waiting": True})["runs"] == []
