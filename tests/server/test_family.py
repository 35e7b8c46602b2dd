"""Children of a run over HTTP: by pages, with the step that started them, and the way up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.adapters.journal.opening import journal_of
from chartloop.run.journal import RunRow
from chartloop.run.sync import by_hand
from chartloop.testing import MemoryJournal
from chartloop.ui.view_model.family import Origin, origin_of
from tests.server.conftest import Served, serving

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django

CREW = """\
chartloop: 1
machine: crew
title: A lead and its workers
model: {name: scripted}
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
machines:
  worker:
    model: {name: scripted}
    limits: {steps: 9}
    output: last.text
    rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
    states:
      take: {do: receive, next: think}
      think: {do: infer, next: done}
      done: {stop: completed}
states:
  take: {do: receive, next: ask}
  ask: {ask: Go on?, on: {yes: split}}
  split:
    label: Workers at once
    do: run_machines
    with:
      children:
        one: {machine: worker, task: First.}
        two: {machine: worker, task: Second.}
        three: {machine: worker, task: Third.}
    next: again
  again: {label: One more, do: run_machine, with: {machine: worker, task: Fourth.}, next: done}
  done: {stop: completed}
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    from chartloop.hosting.server import Settings  # noqa: PLC0415

    (tmp_path / "crew.yaml").write_text(CREW)
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "cost": 0.5}
    script = [{"text": f"part {n}", "usage": usage} for n in range(4)]
    settings = Settings(
        machines=(tmp_path,), journal=MemoryJournal(), components={"script": script}
    )
    with serving(settings) as server:
        yield server


def crew(served: Served) -> str:
    run = served.start("crew", run_id="r")
    served.until(run, "paused")
    served.post(f"/runs/{run}/answer", {"event": "yes"})
    served.until(run, "completed")
    return run


def test_children_come_by_pages_with_the_step_that_started_them(served: Served) -> None:
    run = crew(served)
    first = served.get(f"/runs/{run}/children", params={"limit": 3})
    second = served.get(f"/runs/{run}/children", params={"limit": 3, "after": first["next"]})
    found = [*first["children"], *second["children"]]
    assert second["next"] is None
    assert len(found) == 4
    newest, *others = found
    assert (newest["label"], newest["name"], newest["task"]) == ("One more", "", "Fourth.")
    assert {one["name"]: one["task"] for one in others} == {
        "one": "First.", "two": "Second.", "three": "Third.",
    }  # fmt: skip
    records = served.get(f"/runs/{run}/records")["records"]
    for child in found:
        assert records[child["seq"]]["state"] == child["state"]
        assert records[child["seq"]]["kind"] == "step"
        assert (child["tokens"], child["cost"], child["phase"]) == (10, 0.5, "done")
        assert child["begun"] <= child["changed"]
    moment = served.get(f"/runs/{run}/moment", params={"seq": others[0]["seq"]})
    assert {one["run"] for one in moment["children"]} == {one["run"] for one in others}
    assert served.get(f"/runs/{run}/moment", params={"seq": 1})["children"] == []


def test_a_child_that_nobody_drives_says_so_in_every_list(served: Served) -> None:
    run = crew(served)
    left = f"{run}/split/1/four"
    row = RunRow(left, machine="worker", status="running", parent=run)
    by_hand(journal_of(served.settings.journal).create(row))
    children = served.get(f"/runs/{run}/children")["children"]
    (child,) = [one for one in children if one["run"] == left]
    assert (child["phase"], child["word"]) == ("unattended", "driven by nobody")
    lists = (
        served.get("/runs", params={"children": True})["runs"],
        served.get(f"/runs/{run}")["children"],
        served.get(f"/runs/{run}/moment", params={"seq": child["seq"]})["children"],
    )
    for found in lists:
        assert {one["run"]: one["phase"] for one in found}[left] == "unattended"


def test_a_child_knows_its_place(served: Served) -> None:
    run = crew(served)
    places = {name: served.get(f"/runs/{run}/split/1/{name}/place") for name in ("one", "three")}
    above = places["one"]["above"]
    assert [(up["run"], up["title"], up["label"]) for up in above] == [
        (run, "A lead and its workers", "Workers at once")
    ]
    order = sorted(["one", "two", "three"])  # they were begun at once: by name
    for name, place in places.items():
        assert place["of"] == 3
        at = place["number"] - 1
        assert place["previous"] in (None, *(f"{run}/split/1/{one}" for one in order))
        assert (place["previous"] is None) == (at == 0), name
        assert (place["next"] is None) == (at == 2), name
    alone = served.get(f"/runs/{run}/again/2/place")
    assert (alone["of"], alone["previous"], alone["next"]) == (1, None, None)
    assert served.get(f"/runs/{run}/place")["above"] == []
    served.get("/runs/nobody/place", 404)


class Id(NamedTuple):
    """An id, and where it says that its run comes from."""

    run: str
    origin: Origin | None


@pytest.mark.parametrize(
    "case",
    [
        Id("r", None),
        Id("r/split/4", Origin("r", "split", 4, "")),
        Id("r/split/4/writer", Origin("r", "split", 4, "writer")),
        Id("r/split/4/writer/deep/0", Origin("r/split/4/writer", "deep", 0, "")),
        Id("acme:r/split/4/3", Origin("acme:r", "split", 4, "3")),
        Id("r/odd", None),
    ],
    ids=lambda case: case.run,
)
def test_an_id_says_where_a_child_comes_from(case: Id) -> None:
    assert origin_of(case.run) == case.origin
