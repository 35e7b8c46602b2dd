"""Two runs side by side, over HTTP."""

from __future__ import annotations

import pytest

from tests.server.conftest import Serve, Served

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django


def test_a_run_beside_one_that_was_answered_otherwise(serve: Serve) -> None:
    served = serve(script=["First."] * 4)
    runs = [served.start(), served.start()]
    for run, body in zip(
        runs, ({"event": "approve"}, {"event": "reject", "data": {"note": "x"}}), strict=True
    ):
        served.until(run, "paused")
        served.post(f"/runs/{run}/answer", body)
        served.until(run, "completed" if body["event"] == "approve" else "paused")
    served.until(runs[0], "completed")
    left, right = runs
    found = served.get(f"/runs/{left}/compare", params={"other": right})
    first = found["first"]
    row = next(row for row in found["steps"] if row["seq"] == first)
    assert (row["left"]["outcome"], row["right"]["outcome"]) == ("approve", "reject")
    assert all(row["same"] for row in found["steps"] if row["seq"] < first)
    assert (found["left"]["run"], found["right"]["run"]) == (left, right)
    assert found["left"]["ended"]
    page = served.get(f"/runs/{left}/compare", params={"other": right, "start": first, "limit": 1})
    assert ([row["seq"] for row in page["steps"]], page["next"]) == ([first], first + 1)


def test_each_stands_as_the_list_says(serve: Serve) -> None:
    served = serve(script=["First."])
    waits, left = served.start(), served.start(drive="none")
    served.until(waits, "paused")
    found = served.get(f"/runs/{waits}/compare", params={"other": left})
    listed = {row["run"]: row["phase"] for row in served.get("/runs")["runs"]}
    for side in ("left", "right"):
        assert found[side]["phase"] == listed[found[side]["run"]]
    assert found["right"]["explanation"] == "driven by nobody at `take`"


def test_a_run_that_there_is_not(served: Served) -> None:
    run = served.start(drive="none")
    assert served.get("/runs/none/compare", 404, params={"other": run})["code"] == "CL604"
    problem = served.get(f"/runs/{run}/compare", 404, params={"other": "none"})
    assert problem["errors"][0]["at"] == "query.other"
    assert served.get(f"/runs/{run}/compare", 422)["errors"][0]["at"] == "query.other"
