"""Parked runs in every face, and one order that takes them all up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chartloop.hosting.settings import Settings
from chartloop.run.schedule import LAPSES
from chartloop.run.sync import by_hand
from tests.cli.working import PAYS, Place
from tests.postgres import NEEDED, Cluster
from tests.server.conftest import serving

pytestmark = [*NEEDED]
IDS = {"r": "", "s": "", "acme:r": "acme"}
DIED = LAPSES + 1


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Two runs that are parked, one of a tenant that is, one that came by an import, and one more."""
    server: Cluster = request.getfixturevalue("postgres")
    place = Place(tmp_path, server.of(tmp_path) if request.param == "postgres" else "")
    for run, tenant in IDS.items():
        place.submit("--run-id", run.rpartition(":")[2], *(("--tenant", tenant) if tenant else ()))
    with place.journal() as journal:
        (request_, *_) = by_hand(journal.requests("r"))
        for number in range(DIED):
            can = {request_.needs: True}
            assert len(by_hand(journal.claim("w", 9, can, alone=number > 0)).runs) == len(IDS)
            assert by_hand(journal.sweep()) == len(IDS)
    other = tmp_path / "elsewhere"
    other.mkdir()
    there = Place(other)
    there.submit("--run-id", "imported")
    there.call("journal", "export", "--to", str(tmp_path / "export.jsonl"))
    place.call("journal", "import", "export.jsonl")
    place.submit("--run-id", "waits")
    return place


def parked_of(place: Place) -> set[str]:
    told = json.loads(place.call("runs", "--phase", "parked", "--format", "json"))
    assert {run["phase"] for run in told} <= {"parked"}
    return {run["run"] for run in told}


def test_the_command_line_says_it(place: Place) -> None:
    lines = place.call("runs").splitlines()
    for run in IDS:
        (line,) = (line for line in lines if line.startswith(f"{run} "))
        assert "† parked" in line
    assert parked_of(place) == {*IDS, "imported"}
    told = {run["run"]: run for run in json.loads(place.call("runs", "--format", "json"))}
    assert (told["waits"]["phase"], told["waits"]["parked"]) == ("queued", None)
    assert [len(told[run]["parked"]) for run in (*IDS, "imported")] == [DIED] * len(IDS) + [0]
    assert f"its process died {DIED} times, the last 20" in place.call("show", "r")
    assert "it rests since it was imported" in place.call("show", "imported")
    assert json.loads(place.call("show", "r", "--format", "json"))["phase"] == "parked"
    for phase in ("running", "queued", "unattended", "idle", "waiting", "paused"):
        listed = place.call("runs", "--phase", phase, "--format", "json")
        assert ([run["run"] for run in json.loads(listed)] == ["waits"]) is (phase == "queued")


@pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610  no Django
def test_the_server_says_it_and_takes_one_up(place: Place) -> None:
    (place.folder / "m").mkdir()
    (place.folder / "m" / "pays.yaml").write_text(PAYS)
    folders = (place.folder / "m",)
    with serving(Settings(machines=folders, journal=place.where, workers=0)) as served:
        listed = {run["run"]: run for run in served.get("/runs?phase=parked")["runs"]}
        assert listed.keys() == {*IDS, "imported"}
        assert [len(listed[run]["parked"]) for run in IDS] == [DIED] * len(IDS)
        spans = served.get("/counts?since=0&phase=parked")["spans"]
        assert sum(span["runs"].get("parked", 0) for span in spans) == len(IDS) + 1
        assert all(span["runs"].keys() == {"parked"} for span in spans)
        seen = served.get("/runs/r")
        assert (seen["phase"], len(seen["parked"]), "resume" in seen["cannot"]) == (
            "parked", DIED, False,
        )  # fmt: skip
        assert f"chartloop_runs_parked {len(IDS) + 1}" in served.get("/metrics")
        served.post("/runs/r/resume")
        seen = served.get("/runs/r")
        assert (seen["phase"], seen["parked"]) == ("queued", None)
        assert "resume" in seen["cannot"]
    assert parked_of(place) == {*IDS, "imported"} - {"r"}


@pytest.mark.parametrize(
    ("words", "taken"),
    [((), {*IDS}), (("--tenant", "acme"), {"acme:r"}), (("--tenant", "beta"), set[str]())],
)
def test_one_order_takes_up_those_whose_processes_died(
    place: Place, words: tuple[str, ...], taken: set[str]
) -> None:
    if taken:
        refused = place.call("resume", "--parked", *words, code=2)
        assert f"this would resume {len(taken)} run" in refused
        assert parked_of(place) == {*IDS, "imported"}
    said = place.call("resume", "--parked", "--yes", *words)
    assert all(f"{run}: its process died {DIED} times" in said for run in taken)
    assert f"{len(taken)} run{'' if len(taken) == 1 else 's'} resumed" in said
    assert ("1 run left that came by an import" in said) is (not words)
    assert parked_of(place) == {*IDS, "imported"} - taken
    with place.journal() as journal:  # each is driven alone again
        (request, *_) = by_hand(journal.requests("r"))
        can = {request.needs: True}
        beside, alone = (
            {one.request.run_id for one in by_hand(journal.claim("w", 9, can, alone=alone)).runs}
            for alone in (False, True)
        )
    assert (beside, alone) == ({"waits"}, taken)


@pytest.mark.parametrize("words", [("r", "--parked"), ()])
def test_it_is_one_run_or_all_that_are_parked(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert "name" in Place(tmp_path).call("resume", *words, code=2)
