"""One order that several servers get at the same moment, with one key: all answer alike, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chartloop.api import load
from chartloop.core.errors import RunError, StatusError
from chartloop.hosting.begin import CLAIM, PENDING, claim_order
from chartloop.hosting.callers import Caller
from chartloop.hosting.machines import Machines
from chartloop.hosting.problems import Refusal
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import Settings
from chartloop.run.journal import Journal, MemoryJournal
from chartloop.run.requests import StoredRequest
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock
from chartloop.testing.journal_suite.concurrent import race
from tests.durable.test_starters import another, where

__all__ = ["another", "where"]

MACHINE = """\
chartloop: 1
machine: m
limits: {steps: 50}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  a: {do: receive, next: b}
  b: {ask: 'Go on?', on: {yes: c}}
  c: {stop: completed}
"""
SERVERS = 4
ROUNDS = 6


@dataclass(frozen=True)
class Order:
    """An order, how far its run is before, and what is counted of its effect."""

    id: str
    steps: int
    limits: Mapping[str, int]
    give: Callable[[Runs, str, Caller], Any]
    """Called with the runs of a server, the id of a run and the caller."""
    counts: str
    """`forks`, `messages`, `requests` or `sets`: there must be one of them."""


def message(kind: str, **body: Any) -> Callable[[Runs, str, Caller], Any]:
    def give(runs: Runs, run_id: str, caller: Caller) -> Any:
        return runs.message(kind, run_id, body, caller)

    return give


def retried(runs: Runs, run_id: str, caller: Caller) -> Any:
    plan = runs.retry_plan(run_id)
    return runs.retry(run_id, {"limits": {"steps": 9}, "confirm": plan["digest"]}, caller)


ORDERS = [
    Order("step", 0, {}, lambda r, id, c: r.drive("step", id, {}, c), "requests"),
    Order("run", 0, {}, lambda r, id, c: r.drive("run", id, {}, c), "requests"),
    Order("pause", 0, {}, message("pause"), "messages"),
    Order("cancel", 0, {}, message("cancel"), "messages"),
    Order("enqueue", 0, {}, message("enqueue", tasks=["x"]), "messages"),
    Order("answer", 1, {}, message("answer", event="yes"), "messages"),
    Order("fork", 1, {}, lambda r, id, c: r.fork(id, None, c), "forks"),
    Order("back", 1, {}, lambda r, id, c: r.back(id, 1, c), "forks"),
    Order("set", 0, {}, lambda r, id, c: r.set(id, "limits.steps", 60, c), "sets"),
    Order("retry", 1, {"steps": 1}, retried, "forks"),
]  # fmt: skip


def effects(journal: Journal, run_id: str, what: str) -> int:
    """How often something of an order was done."""
    match what:
        case "forks":
            return len(by_hand(journal.rows(parent=run_id)))
        case "messages":
            return len(by_hand(journal.inbox(run_id)))
        case "requests":
            return len(by_hand(journal.requests(run_id)))
        case _:
            return sum(one.kind == "edit" for one in by_hand(journal.records(run_id)))


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.id)
def test_an_order_at_once_is_done_once_and_answered_alike(
    order: Order, another: Callable[[], Journal], tmp_path: Path
) -> None:
    servers = servers_of(another, tmp_path)
    machine = load(tmp_path / "m.yaml")
    first = servers[0]
    for number in range(ROUNDS):
        run_id, caller = f"r{number}", Caller(key=f"k{number}")
        body = {"machine": "m", "task": "x", "run_id": run_id, "drive": "none"}
        first.start({**body, "limits": dict(order.limits)}, Caller())
        driven = machine.open(run_id, journal=first.journal)
        for _ in range(order.steps):
            driven.step()
        receipts = race(*(partial(order.give, server, run_id, caller) for server in servers))
        assert receipts == [receipts[0]] * SERVERS
        assert isinstance(receipts[0], dict)
        assert effects(first.journal, run_id, order.counts) == 1
        again = order.give(servers[-1], run_id, caller)
        assert again == receipts[0]


def servers_of(another: Callable[[], Journal], folder: Path) -> list[Runs]:
    """Servers of one journal, with the machine."""
    (folder / "m.yaml").write_text(MACHINE)
    made: list[Runs] = []
    for journal in (another() for _ in range(SERVERS)):
        settings = Settings(machines=(folder,), journal=journal, workers=0)
        made.append(Runs(settings, journal, Machines(settings, journal)))
    return made


OTHERS: dict[str, Callable[[Runs, str, Caller, str], Any]] = {
    "run": lambda r, id, c, word: r.drive("run", id, {"until": word}, c),
    "enqueue": lambda r, id, c, word: r.message("enqueue", id, {"tasks": [word]}, c),
    "set": lambda r, id, c, word: r.set(id, "limits.steps", 60 + ord(word), c),
    "start": lambda r, id, c, word: r.start({"machine": "m", "task": id + word}, c)[0],
}
"""Orders that are given at once under one key, each with another word."""


@pytest.mark.parametrize("kind", OTHERS)
def test_of_other_orders_under_one_key_one_is_carried_out(
    kind: str, another: Callable[[], Journal], tmp_path: Path
) -> None:
    servers, words = servers_of(another, tmp_path), ["b", "c", "b", "c"]
    for number in range(ROUNDS):
        run_id, caller = f"r{number}", Caller(key=f"k{number}")
        body = {"machine": "m", "task": "x", "run_id": run_id, "drive": "none"}
        servers[0].start(body, Caller())
        give = OTHERS[kind]
        works = (
            partial(give, server, run_id, caller, word)
            for server, word in zip(servers, words, strict=True)
        )
        replies = race(*works)
        refused = [isinstance(reply, Refusal) and reply.status == 422 for reply in replies]
        assert refused in ([False, True, False, True], [True, False, True, False]), replies
        told = [reply for reply in replies if not isinstance(reply, Refusal)]
        assert told[0] == told[1]


@pytest.mark.parametrize("key", ["", "k"])
def test_a_start_is_not_told_that_the_run_of_another_one_is_its_own(
    key: str, another: Callable[[], Journal], tmp_path: Path
) -> None:
    first, second, *_ = servers_of(another, tmp_path)
    body = {"machine": "m", "task": "x", "run_id": "r", "drive": "none"}
    assert first.start(body, Caller(key=key and "other"))[1]
    for _ in range(2):
        with pytest.raises(RunError, match="there is a run `r` already"):
            second.start(body, Caller(key=key))
    receipt, new = second.start({**body, "if_exists": "use"}, Caller(key=key))
    assert (receipt["run"], new) == ("r", False)
    if key:
        assert not first.start(body, Caller(key="other"))[1]


def test_an_order_that_a_worker_carries_out_is_told_alike(
    another: Callable[[], Journal], tmp_path: Path
) -> None:
    """The run is driven, waits or has ended when the order comes again."""
    first, second, *_ = servers_of(another, tmp_path)
    caller = Caller(key="k")
    first.start({"machine": "m", "task": "x", "run_id": "r", "drive": "none"}, Caller())
    receipt = first.drive("run", "r", {}, caller)
    run = load(tmp_path / "m.yaml").open("r", journal=first.journal)
    run.step()
    assert second.drive("run", "r", {}, caller) == receipt
    run.run()
    assert second.drive("run", "r", {}, caller) == receipt
    run.cancel()
    run.run()
    assert second.drive("run", "r", {}, caller) == receipt
    with pytest.raises(StatusError, match="has ended"):
        second.drive("run", "r", {}, Caller(key="another"))


def test_the_claim_of_a_caller_who_died_ends() -> None:
    clock = ManualClock()
    journal = MemoryJournal(now=clock.now)
    order = StoredRequest("k", "r", "fork", "d", 0.0, {}, {})
    dead = claim_order(journal, order)
    assert PENDING in (dead.outcome or {})
    clock.advance(CLAIM + 1)
    mine = claim_order(journal, order)
    assert PENDING in (mine.outcome or {})
    assert mine.outcome != dead.outcome
    assert not by_hand(journal.settle_request("k", {"made": "late"}, before=dead.outcome))
    assert by_hand(journal.settle_request("k", {"made": "x"}, before=mine.outcome))
    assert claim_order(journal, order).outcome == {"made": "x"}


def test_a_claim_that_has_ended_is_another_callers(another: Callable[[], Journal]) -> None:
    """As the databases keep it: the old caller settles nothing and frees nothing."""
    one, two = another(), another()
    order = StoredRequest("k", "r", "fork", "d", 0.0, {}, {})
    dead = {PENDING: "a caller who died", "until": by_hand(one.now()) - 0.125}
    by_hand(one.place_request(order._replace(outcome=dead)))
    mine = claim_order(two, order)
    assert PENDING in (mine.outcome or {})
    by_hand(one.withdraw_request("k", before=dead))
    assert not by_hand(one.settle_request("k", {"made": "late"}, before=dead))
    assert [request.outcome for request in by_hand(one.requests())] == [mine.outcome]
    by_hand(two.withdraw_request("k", before=mine.outcome))
    assert by_hand(one.requests()) == []


def test_an_order_that_is_refused_frees_its_key(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MACHINE)
    journal = MemoryJournal()
    settings = Settings(machines=(tmp_path,), journal=journal, workers=0)
    runs = Runs(settings, journal, Machines(settings, journal))
    runs.start({"machine": "m", "task": "x", "run_id": "r", "drive": "none"}, Caller())
    with pytest.raises(RunError):
        runs.message("answer", "r", {"event": "yes"}, Caller(key="k"))
    assert by_hand(journal.requests("r")) == []
    load(tmp_path / "m.yaml").open("r", journal=journal).step()
    assert runs.message("answer", "r", {"event": "yes"}, Caller(key="k"))["order"] == "answer"
