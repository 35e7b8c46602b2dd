"""Routes of the fleet: its view, and the orders to limits and schedules that it shows.

The order to a run is `routes_runs`'. A token of a tenant orders its own schedules, and no limit:
those bound it.
"""

from __future__ import annotations

from typing import Any, Literal

from chartloop.hosting.cron_orders import CHANGES, change_schedule
from chartloop.hosting.problems import Refusal, Wrong
from chartloop.hosting.server.common import (
    ANY,
    EDIT,
    READ,
    Rooms,
    TheParts,
    TheReach,
    problems,
)
from chartloop.hosting.server.common import (
    CHANGES as CHANGED,
)
from chartloop.hosting.server.shapes import LimitBody, SettleBody
from chartloop.run.fleet import FleetLimit
from chartloop.run.sync import by_hand
from chartloop.run.tenants import Reach
from chartloop.ui.view_model.fleet_view import fleet_view, read_fleet, tenant_of_limit

router = Rooms(tags=["fleet"])
ORDERED = problems(*CHANGED)


@router.get("/fleet", responses=problems(*ANY), dependencies=[READ])
def fleet(parts: TheParts, reach: TheReach) -> dict[str, Any]:
    """What waits, who works, what is limited, and whether a worker may end.

    A list has at most 50 rows, and `more` counts the others. `may_end` is `unknown` while another
    worker has not met a run that the one can drive.
    """
    files = (file.machine for file in parts.machines.listing())
    served = {machine.hash for machine in files if machine is not None}
    return fleet_view(by_hand(read_fleet(parts.journal, reach)), served)


@router.post("/limits", responses=ORDERED, dependencies=[EDIT])
def limit(body: LimitBody, parts: TheParts, reach: TheReach) -> dict[str, bool]:
    """Set a limit across runs; without `most`, remove it. A changed limit keeps its counts."""
    _refuse_tenant(reach, body.scope)
    if body.per == "minute" and body.what == "cost":
        wrong = [Wrong("/per", "a limit of cost is for a day or in all")]
        raise Refusal(422, wrong[0].message, wrong=wrong)
    if body.most is None:
        done = parts.journal.remove_limit(body.scope, body.what, body.per)
    else:
        done = parts.journal.set_limit(FleetLimit(body.scope, body.what, body.per, body.most))
    return {"done": by_hand(done)}


@router.post("/limits/settle", responses=ORDERED, dependencies=[EDIT])
def settle(body: SettleBody, parts: TheParts, reach: TheReach) -> dict[str, bool]:
    """Say what a call in doubt has used. `done` is false if it was settled before."""
    _refuse_tenant(reach)
    used = {"cost": body.cost, "tokens": float(body.tokens)}
    run_id = reach.whole(body.run)
    return {"done": by_hand(parts.journal.settle_call(run_id, body.call, used))}


@router.post("/schedules/{name}/{order}", responses=ORDERED, dependencies=[EDIT])
def schedule(
    name: str, order: Literal["pause", "resume", "remove"], parts: TheParts, reach: TheReach
) -> dict[str, str]:
    """Pause a schedule, let it go on, or remove it. Its runs stay."""
    change_schedule(parts.journal, name, CHANGES[order], reach)
    return {"schedule": name, "done": order}


def _refuse_tenant(reach: Reach, scope: str = "") -> None:
    if reach.tenant or reach.tenant not in (None, tenant_of_limit(scope)):
        raise Refusal(
            403, "a limit is set by those who run the server",
            hint="this needs a token of no tenant, or of all: `tenant=*`",
        )  # fmt: skip
