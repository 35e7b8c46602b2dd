"""`chartloop limits`: what it shows of calls in doubt, and what settling one changes."""

from __future__ import annotations

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.fleet import FleetLimit, Reservation, What
from chartloop.run.journal import RunRow
from chartloop.run.sync import by_hand
from tests.cli.shell import Shell

WHATS: list[What] = ["cost", "tokens"]


def test_it_shows_how_much_of_what_is_used_is_in_doubt(sh: Shell) -> None:
    journal = SqliteJournal(sh.folder / "a.db")
    for what in WHATS:
        by_hand(journal.set_limit(FleetLimit("fleet", what, "day", 10.0, 2.0)))
    by_hand(journal.create(RunRow("r")))
    epoch = by_hand(journal.acquire("r"))[0].epoch
    for n, key in enumerate(("r/t/1", "r/t/2", "r/t/3")):
        amounts = {"cost": 1.0 + n, "tokens": 1.0}
        by_hand(journal.reserve(Reservation("r", epoch, 0, key, ["fleet"], amounts)))
    by_hand(journal.settle_call("r", "r/t/1", None, head=0))
    by_hand(journal.settle_call("r", "r/t/2", {}, head=0))
    by_hand(journal.close())
    at = ("--journal", "a.db")
    listed = sh("limits", *at)
    shown = listed.out
    heads, row = (line.split("  ") for line in shown.splitlines()[:2])
    assert [head.strip() for head in heads if head] == [
        "scope", "limit", "most", "used", "in doubt", "in flight", "left",
    ]  # fmt: skip
    assert [cell.strip() for cell in row if cell] == [
        "fleet", "cost per day", "10 USD", "5 USD", "1 USD", "3 USD", "2 USD",
    ]  # fmt: skip
    assert "`chartloop limits settle r/t/1 --cost USD --tokens N`" in listed.err
    data = sh("limits", *at, "--format", "json").json
    assert data["in_doubt"] == [
        {"run_id": "r", "key": "r/t/1", "amounts": {"cost": 1.0, "tokens": 1.0}}
    ]
    assert data["limits"][0] == {
        "scope": "fleet", "what": "cost", "per": "day", "most": 10.0, "used": 5.0, "held": 3.0,
        "in_doubt": 1.0, "left": 2.0,
    }  # fmt: skip
    settle = ("limits", "settle", "r/t/1", "--cost", "0.25", *at)
    assert [sh(*settle).code, sh(*settle).code] == [0, 1]
    after = sh("limits", *at, "--format", "json").json
    assert after["in_doubt"] == []
    assert [(one["used"], one["in_doubt"]) for one in after["limits"]] == [(4.25, 0.0), (3.0, 0.0)]
