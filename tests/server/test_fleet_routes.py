"""The fleet over HTTP and in `runs --watch`: one view, and the orders that go with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop.adapters.journal.opening import journal_of
from chartloop.hosting.settings import Token
from chartloop.run.journal import Journal
from chartloop.run.sync import by_hand
from tests.cli.shell import PROGRAM
from tests.fleet_journal import FACTS, TENANT, Seeded, seed
from tests.server.conftest import Served, serving

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django

TOKENS = {
    "every": Token("every-0123456789ab", "edit", "op", "*"), "house": Token("house-0123456789ab", "edit", "op"),
    "tenant": Token("tenant-0123456789a", "edit", "eve", TENANT), "drive": Token("drive-0123456789ab", "drive", "bob", "*"),
}  # fmt: skip


class Fleet(NamedTuple):
    """The seeded fleet, behind a server that drives nothing."""

    seeded: Seeded
    served: Served
    journal: Journal

    def get(self, by: str, path: str = "/fleet") -> Any:
        return self.served.get(path, headers=self._headers(by))

    def post(self, by: str, path: str, body: Any = None, status: int = 200) -> Any:
        return self.served.post(path, body, status, headers=self._headers(by))

    @staticmethod
    def _headers(by: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKENS[by].secret}"}


def made(folder: Path) -> Iterator[Fleet]:
    from chartloop.hosting.server import Settings  # noqa: PLC0415

    seeded = seed(folder)
    given: Any = {
        "machines": (folder / "machines",),
        "journal": seeded.path,
        "workers": 0,
        "tokens": tuple(TOKENS.values()),
    }
    journal = journal_of(seeded.path)
    with serving(Settings(**given)) as served:
        yield Fleet(seeded, served, journal)
    by_hand(journal.close())


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Nobody changes it."""
    yield from made(tmp_path_factory.mktemp("looked_at"))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    yield from made(tmp_path)


@pytest.mark.parametrize("reach", ["every", "house", "tenant"])
def test_the_route_tells_what_the_view_tells(
    looked_at: Fleet, reach: str, subtests: pytest.Subtests
) -> None:
    view = {**looked_at.get(reach), "seeded": looked_at.seeded.now}
    for fact in FACTS:
        with subtests.test(fact.name):
            wanted = json.loads(json.dumps(getattr(fact, reach), default=list))
            assert json.loads(json.dumps(fact.read(view), default=list)) == wanted


def test_the_server_says_which_versions_it_has_in_its_folders(looked_at: Fleet) -> None:
    found = {one["hash"]: one["served"] for one in looked_at.get("every")["versions"]}
    assert found[looked_at.seeded.new.hash] is True
    assert found[looked_at.seeded.old.hash] is False


@pytest.mark.slow("starts a process")
@pytest.mark.parametrize("form", ["json", "text"])
def test_watch_tells_what_the_view_tells(
    looked_at: Fleet, form: str, subtests: pytest.Subtests
) -> None:
    command = [
        *PROGRAM,
        "runs",
        "--watch",
        "--format",
        form,
        "--journal",
        str(looked_at.seeded.path),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        lines = [watch.stdout.readline() for _ in range(1 if form == "json" else 10)]
        watch.kill()
    view = {**json.loads(lines[0]), "seeded": looked_at.seeded.now} if form == "json" else {}
    for fact in FACTS:
        with subtests.test(fact.name):
            if form == "json":
                wanted = json.loads(json.dumps(fact.every, default=list))
                assert json.loads(json.dumps(fact.read(view), default=list)) == wanted
            else:
                assert fact.watched in "".join(lines)


# orders -----------------------------------------------------------------------------------------


def limits(fleet: Fleet) -> dict[tuple[str, str, str], float]:
    return {one[:3]: one.most for one in by_hand(fleet.journal.limits())}


def schedules(fleet: Fleet) -> dict[str, bool]:
    """Whether each is paused."""
    return {one.name: one.paused for one in by_hand(fleet.journal.cron_schedules())}


def test_a_limit_is_set_changed_and_removed(fleet: Fleet) -> None:
    day = {"scope": "fleet", "what": "cost", "per": "day"}
    assert fleet.post("every", "/limits", {**day, "most": 80}) == {"done": True}
    assert limits(fleet)["fleet", "cost", "day"] == 80.0
    (changed,) = [one for one in fleet.get("every")["limits"] if one["scope"] == "fleet"]
    assert (changed["used"], changed["left"]) == (33.75, 80 - 33.75 - 2.5)  # what it counted stays
    assert fleet.post("every", "/limits", {**day, "per": "all", "most": 0.5})["done"]
    assert fleet.post("every", "/limits", day) == {"done": True}
    assert ("fleet", "cost", "day") not in limits(fleet)
    assert fleet.post("every", "/limits", day) == {"done": False}


def test_a_call_in_doubt_is_settled_once(fleet: Fleet) -> None:
    (doubt,) = fleet.get("every")["in_doubt"]
    body = {"run": doubt["run_id"], "call": doubt["key"], "cost": 0.25}
    assert fleet.post("every", "/limits/settle", body) == {"done": True}
    assert fleet.post("every", "/limits/settle", body) == {"done": False}
    view = fleet.get("every")
    assert view["in_doubt"] == []
    assert [one["used"] for one in view["limits"] if one["scope"] == "fleet"] == [31.5]


def test_a_schedule_is_paused_resumed_and_removed(fleet: Fleet) -> None:
    assert fleet.post("every", "/schedules/morning/pause") == {
        "schedule": "morning",
        "done": "pause",
    }
    assert schedules(fleet)["morning"]
    fleet.post("every", "/schedules/morning/pause")
    fleet.post("every", "/schedules/late/pause")
    fleet.post("every", "/schedules/late/resume")
    (late,) = [one for one in fleet.get("every")["schedules"] if one["name"] == "late"]
    assert late["next"] > fleet.seeded.now  # what it missed is not made up for
    fleet.post("every", "/schedules/weekly/remove")
    assert "weekly" not in schedules(fleet)


class Refused(NamedTuple):
    """An order, who gives it, and the status of the answer."""

    id: str
    by: str
    path: str
    body: Any
    status: int
    says: str = ""


DAY: dict[str, Any] = {"scope": "fleet", "what": "cost", "per": "day", "most": 9}
SETTLE = {"run": "paid-1", "call": "paid-1/go/1"}
REFUSED = (
    Refused("limit-by-drive", "drive", "/limits", DAY, 403, "edit"),
    Refused("settle-by-drive", "drive", "/limits/settle", SETTLE, 403, "edit"),
    Refused("schedule-by-drive", "drive", "/schedules/morning/pause", None, 403, "edit"),
    Refused("limit-by-tenant", "tenant", "/limits", DAY, 403, "no tenant"),
    Refused("own-limit-by-tenant", "tenant", "/limits", {**DAY, "scope": f"tenant:{TENANT}"}, 403, "no tenant"),
    Refused("settle-by-tenant", "tenant", "/limits/settle", SETTLE, 403, "no tenant"),
    Refused("limit-of-a-tenant-by-the-house", "house", "/limits", {**DAY, "scope": f"tenant:{TENANT}"}, 403, "no tenant"),
    Refused("settle-of-a-tenant-by-the-house", "house", "/limits/settle", {"run": f"{TENANT}:x", "call": "c"}, 404),
    Refused("schedule-of-the-house-by-a-tenant", "tenant", "/schedules/morning/pause", None, 404, "morning"),
    Refused("schedule-of-a-tenant-by-the-house", "house", f"/schedules/{TENANT}-report/remove", None, 404),
    Refused("no-such-schedule", "every", "/schedules/nothing/pause", None, 404, "nothing"),
    Refused("no-such-order", "every", "/schedules/morning/run", None, 422, "order"),
    Refused("cost-per-minute", "every", "/limits", {**DAY, "per": "minute"}, 422, "/per"),
    Refused("below-zero", "every", "/limits", {**DAY, "most": -1}, 422, "/most"),
    Refused("more-than-numbers-hold", "every", "/limits", {**DAY, "most": 1e300}, 422, "/most"),
    Refused("no-scope", "every", "/limits", {**DAY, "scope": "everything"}, 422, "/scope"),
    Refused("scope-without-name", "every", "/limits", {**DAY, "scope": "agent:"}, 422, "/scope"),
    Refused("no-tenants-name", "every", "/limits", {**DAY, "scope": "tenant:a b"}, 422, "/scope"),
    Refused("unknown-field", "every", "/limits", {**DAY, "cost": 9}, 422, "/cost"),
    Refused("settled-below-zero", "every", "/limits/settle", {**SETTLE, "cost": -1}, 422, "/cost"),
)  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_an_order_that_is_refused_changes_nothing(looked_at: Fleet, case: Refused) -> None:
    before = limits(looked_at), schedules(looked_at)
    answer = looked_at.post(case.by, case.path, case.body, case.status)
    assert case.says in json.dumps(answer)
    assert (limits(looked_at), schedules(looked_at)) == before
    assert len(by_hand(looked_at.journal.doubts())) == 1


def test_parked_runs_are_taken_up_by_their_orders(fleet: Fleet) -> None:
    for run in fleet.seeded.parked:
        fleet.post("every", f"/runs/{run}/resume")
    view = fleet.get("every")
    assert (view["parked"], view["due"]) == ([], 16 + len(fleet.seeded.parked))
