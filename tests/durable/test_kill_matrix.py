"""`kill -9` of workers and of starters at every boundary of a run's life, over the three pairs.

    CHARTLOOP_KILLS=300 CHARTLOOP_FIGURES=docs/durability.jsonl pytest tests/durable/test_kill_matrix.py

Three workers drive runs. At each try two runs are submitted and a place is armed: whichever worker
comes there first kills itself, the others go on, and a new one is started. So does the first
process that drives a run alone there. All the while a run is there that ends each of its
processes: it is parked, and no other. When all runs have ended
the file of the effects and the journal are compared. The same is done while deadlines cut calls
off, and to the processes that give an order with a key while others give the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chartloop.run.sync import by_hand
from tests.durable.fleet import Fleet, fleet_of, report, until_answering
from tests.durable.pairs import DBOS, DBOS_NEEDED, PAIRS, place_of
from tests.postgres import NEEDED, Cluster

pytestmark = [*NEEDED, pytest.mark.slow("kills processes")]

PLACES = (
    "within-claim", "after-claim", "after-acquire", "before-intent", "within-intent",
    "after-intent", "asked", "replied", "within-record", "after-record", "before-hand_back",
    "after-hand_back", "within-expired", "after-expired", "before-answer", "within-answer",
    "after-answer", "after-settle", "within-sweep", "after-sweep",
)  # fmt: skip
"""Where a worker dies: before a transaction, within it (written, not committed), or after it."""
CUT_PLACES = (
    "before-intent", "within-intent", "after-intent", "asked", "before-doubt", "within-doubt",
    "after-doubt", "before-unknown", "within-unknown", "after-unknown",
)  # fmt: skip
"""The same around a deadline that cuts a call off: the call, the doubt about it, and the step."""
BEGUN = [f"{when}-{what}" for what in ("key", "row", "begin", "order")
         for when in ("before", "within", "after")]  # fmt: skip
"""Where a process dies that starts a run: the claim of its key, the run's row, its first record and
the order to drive it."""
RETRIED = [place.replace("begin", "outcome") for place in BEGUN]
"""The same for one that tries a run again: the run is written whole, and the outcome comes last."""
STARTERS = {"submit": BEGUN, "start": BEGUN, "retry": RETRIED}
KILLS = int(os.environ.get("CHARTLOOP_KILLS", "20"))
"""How often a worker is killed. With 60 each place is tried on each pair, of all campaigns."""
CLAIM = 30.0 if "CHARTLOOP_FIGURES" in os.environ else 4.0
"""The seconds after which the claim of a dead process ends: published are those with the real one.
"""
SLACK = 15.0
"""The seconds that an answer may take beyond that, for processes that start on a busy machine."""
AT_ONCE = 4
"""The kills of one fleet."""


def places_of(pair: str, places: Sequence[str] = PLACES, kills: int = KILLS) -> list[str]:
    """The places of a pair: with few kills every third of all, with more in the end all."""
    number, every = PAIRS.index(pair), len(places)
    spread = ((n % every, n // every) for n in range(kills))
    return [places[at] for at, lap in spread if (at + lap) % len(PAIRS) == number]


def fleets(places: Sequence[str] = PLACES, kills: int = KILLS) -> list[Any]:
    """Who delivers the runs, and where workers are killed."""
    return [
        pytest.param(pair, mine[at : at + AT_ONCE], marks=DBOS_NEEDED if pair == DBOS else ())
        for pair in PAIRS
        for mine in [places_of(pair, places, kills)]
        for at in range(0, len(mine), AT_ONCE)
    ]


def starters() -> list[Any]:
    """Each pair with each way to start a run, and the places where its starters are killed."""
    return [
        pytest.param(pair, by, mine, marks=DBOS_NEEDED if pair == DBOS else ())
        for pair in PAIRS
        for by, places in STARTERS.items()
        for mine in [places_of(pair, places, len(places) * min(3, max(1, KILLS // 20)))]
    ]


@pytest.mark.parametrize("places", [PLACES, CUT_PLACES, BEGUN, RETRIED])
def test_the_tries_are_spread_over_pairs_and_places(places: Sequence[str]) -> None:
    for kills in (len(places), 3 * len(places), KILLS):
        tried = [places_of(pair, places, kills) for pair in PAIRS]
        assert sum(map(len, tried)) == kills
        if kills >= len(places):
            assert {place for mine in tried for place in mine} == {*places}
        if kills >= 3 * len(places):
            assert all({*mine} == {*places} for mine in tried)


@pytest.mark.parametrize(("pair", "places"), fleets())
def test_a_worker_that_is_killed_loses_nothing_and_pays_nothing_twice(
    pair: str, places: list[str], postgres: Cluster, tmp_path: Path
) -> None:
    with fleet_of(tmp_path, place_of(pair, postgres, tmp_path), workers=3) as fleet:
        fleet.poison()
        kill_workers(fleet, places, "errand")
        report("kill -9 of a worker", pair, fleet, len(places))


@pytest.mark.parametrize(("pair", "places"), fleets(CUT_PLACES, KILLS // 2))
def test_a_worker_that_is_killed_around_a_deadline_repeats_no_call_and_denies_none(
    pair: str, places: list[str], postgres: Cluster, tmp_path: Path
) -> None:
    with fleet_of(tmp_path, place_of(pair, postgres, tmp_path), workers=3) as fleet:
        kill_workers(fleet, places, "cut")
        story = fleet.story()
        assert story.again == 0
        assert story.reported.total() >= 2 * len(fleet.runs)  # those that each run has cut
        report("kill -9 of a worker around a deadline", pair, fleet, len(places))


def kill_workers(fleet: Fleet, places: list[str], machine: str) -> None:
    """Kill one of three workers at each place, with two runs of a machine, until all have ended."""
    for place in places:
        dying = 1 + ("sweep" in place)  # which finds a dead worker, and dies of it
        until_answering(fleet, lambda dying=dying: fleet.working() > dying)
        before = fleet.dead()
        fleet.submit(2, machine)
        fleet.arm(f"apart:{place}")
        fleet.arm(place)
        if dying > 1:
            fleet.arm("after-acquire")
        until_answering(fleet, lambda to=before + dying: fleet.dead() == to)
        fleet.start(dying)
    fleet.finish()


@pytest.mark.parametrize(("pair", "by", "places"), starters())
def test_a_key_gives_one_run_whoever_dies_of_it(
    pair: str, by: str, places: list[str], postgres: Cluster, tmp_path: Path
) -> None:
    where = place_of(pair, postgres, tmp_path)
    with fleet_of(tmp_path, where, workers=2, VICTIM_CLAIM=str(CLAIM)) as fleet:
        giving = dict[str, list[Any]]()
        failed = 0
        for number, place in enumerate(places):
            key = f"k{number}"
            if by == "submit":
                words = [
                    "submit", "errand.yaml", key, "--key", key, "--tools", "pay.py",
                    "--journal", where, "--format", "json",
                ]  # fmt: skip
            else:
                failed += by == "retry"
                body = fleet.fail() if by == "retry" else {"machine": "errand", "task": key}
                words = ["order", by, key, json.dumps(body), where]
            fleet.arm(f"{key}:{place}")
            giving[key] = [fleet.give(key, *words) for _ in range(3)]
            until_answering(fleet, lambda to=number + 1: len(fleet.kills()) == to)
            giving[key].append(fleet.give(key, *words))  # it comes when one of them is dead
        everyone = [one for those in giving.values() for one in those]
        until_answering(fleet, lambda: all(one.poll() is not None for one in everyone))
        said = {one.pid: one.communicate()[0].decode() for one in everyone}
        ended = {line[-2]: line[-1] for line in fleet.trace() if line[0] == "answered"}
        answered = dict[int, float]()
        for kill, those in zip(fleet.kills(), giving.values(), strict=True):
            others = {one.pid: one.returncode for one in those if one.pid != kill.pid}
            assert {*others.values()} == {0}, said
            fleet.runs.append(same_answer(by, [json.loads(said[pid]) for pid in others]))
            answered[kill.pid] = max(ended[pid] for pid in others) - kill.at
        assert max(answered.values()) < CLAIM + SLACK
        fleet.finish()
        assert len({*fleet.runs}) == len(places)
        assert len(by_hand(fleet.journal.rows())) == len(places) + failed
        report(f"kill -9 of a process that gives an order: {by}", pair, fleet, len(places),
               answered=answered)  # fmt: skip
        assert fleet.story().again == 0


def same_answer(by: str, said: list[Any]) -> str:
    """The run that everyone was told of who gave the same order; at most one says that it is new."""
    if by == "submit":
        said = [[*one["runs"], None, bool(one["submitted"])] for one in said]
    assert all(one[:2] == said[0][:2] for one in said)
    assert sum(one[2] for one in said) <= 1
    return said[0][0]
