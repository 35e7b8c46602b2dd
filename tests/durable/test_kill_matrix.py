"""`kill -9` of workers at every boundary of a run's life, over the three pairs.

    CHARTLOOP_KILLS=300 CHARTLOOP_FIGURES=docs/durability.jsonl pytest tests/durable/test_kill_matrix.py

Three workers drive runs. At each try two runs are submitted and a place is armed: whichever worker
comes there first kills itself, the others go on, and a new one is started. When all runs have ended
the file of the effects and the journal are compared.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.durable.fleet import fleet_of, report, until_answering
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
KILLS = int(os.environ.get("CHARTLOOP_KILLS", "20"))


AT_ONCE = 4
"""The kills of one fleet."""


def places_of(pair: str) -> list[str]:
    """The places of a pair: with few kills every third of all, with more in the end all."""
    number, every = PAIRS.index(pair), len(PLACES)
    return [PLACES[n % every] for n in range(KILLS) if (n + n // every) % len(PAIRS) == number]


def fleets() -> list[Any]:
    """Who delivers the runs, and where workers are killed."""
    return [
        pytest.param(pair, places[at : at + AT_ONCE], marks=DBOS_NEEDED if pair == DBOS else ())
        for pair in PAIRS
        for places in [places_of(pair)]
        for at in range(0, len(places), AT_ONCE)
    ]


def test_the_tries_are_spread_over_pairs_and_places() -> None:
    tried = [places_of(pair) for pair in PAIRS]
    assert sum(map(len, tried)) == KILLS
    assert {place for places in tried for place in places} == {*PLACES}


@pytest.mark.parametrize(("pair", "places"), fleets())
def test_a_worker_that_is_killed_loses_nothing_and_pays_nothing_twice(
    pair: str, places: list[str], postgres: Cluster, tmp_path: Path
) -> None:
    with fleet_of(tmp_path, place_of(pair, postgres, tmp_path), workers=3) as fleet:
        for place in places:
            dying = 1 + ("sweep" in place)  # which finds a dead worker, and dies of it
            until_answering(fleet, lambda dying=dying: fleet.working() > dying)
            before = fleet.dead()
            fleet.submit(2)
            fleet.arm(place)
            if dying > 1:
                fleet.arm("after-acquire")
            until_answering(fleet, lambda to=before + dying: fleet.dead() == to)
            fleet.start(dying)
        fleet.finish()
        report("kill -9 of a worker", pair, fleet, len(places))
