"""`kill -9` of workers at every boundary of a run's life, over the three pairs.

    CHARTLOOP_KILLS=300 CHARTLOOP_FIGURES=docs/durability.jsonl pytest tests/durable/test_kill_matrix.py

Three workers drive runs. At each try two runs are submitted and a place is armed: whichever worker
comes there first kills itself, the others go on, and a new one is started. When all runs have ended
the file of the effects and the journal are compared.
"""

from __future__ import annotations

import os
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.durable.fleet import fleet_of, report, until_answering
from tests.durable.pairs import PAIRS, POSTGRES, SQLITE, WITH_DBOS, place_of
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


def places_of(pair: str) -> list[str]:
    """The places of a pair: every third of all, so that a few kills are spread over them."""
    return [*islice(cycle(PLACES), PAIRS.index(pair), KILLS, len(PAIRS))]


def test_the_tries_are_spread_over_pairs_and_places() -> None:
    tried = [places_of(pair) for pair in PAIRS]
    assert sum(map(len, tried)) == KILLS
    assert {place for places in tried for place in places} == {*PLACES}


@pytest.mark.timeout(120 + 20 * KILLS)
@pytest.mark.parametrize("pair", [SQLITE, POSTGRES, WITH_DBOS])
def test_a_worker_that_is_killed_loses_nothing_and_pays_nothing_twice(
    pair: str, postgres: Cluster, tmp_path: Path
) -> None:
    places = places_of(pair)
    with fleet_of(tmp_path, place_of(pair, postgres, tmp_path), workers=3) as fleet:
        for place in places:
            until_answering(fleet, lambda: fleet.working() == 3)
            fleet.submit(2)
            fleet.arm(place)
            dead = 1
            if "sweep" in place:  # which finds a dead worker, and dies of it
                fleet.arm("after-acquire")
                dead = 2
            until_answering(fleet, lambda dead=dead: fleet.working() == 3 - dead)
            fleet.start(dead)
        fleet.finish()
        report("kill -9 of a worker", pair, fleet, len(places))
