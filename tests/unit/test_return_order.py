"""Edges of a state are asked in the order of the file, the one that returns from a detour too."""

from __future__ import annotations

import json
from itertools import permutations, product

import pytest

from chartloop import load

EDGES: tuple[str, ...] = ("return", "other", "done")
ORDERS = list(permutations(EDGES))


def machine(order: tuple[str, ...]) -> str:
    """A detour whose edges stand in this order, each behind a variable of its own."""
    edges = [{"when": f"vars.to_{to}", "to": to} for to in order]
    return json.dumps(
        {
            "chartloop": 1, "machine": "m", "model": {"name": "scripted"},
            "vars": {"n": 0, **{f"to_{to}": False for to in EDGES}},
            "rules": [{"when": "vars.n == 0", "to": "side"}],
            "states": {
                "a": {"do": "receive", "next": "b"},
                "b": {"do": "nothing", "next": "done"},
                "side": {
                    "do": "nothing", "set": {"vars.n": "vars.n + 1"},
                    "next": [*edges, {"to": "left"}],
                },
                "other": {"do": "nothing", "next": "done"},
                "left": {"do": "nothing", "next": "done"},
                "done": {"stop": "completed"},
            },
        }
    )  # fmt: skip


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_the_first_edge_that_holds_is_taken(order: tuple[str, ...]) -> None:
    made = load(machine(order))
    for truths in product((True, False), repeat=len(EDGES)):
        holds: dict[str, bool] = dict(zip(EDGES, truths, strict=True))
        first = next((to for to in order if holds[to]), "left")
        run = made.start("x", script=[], vars={f"to_{to}": holds[to] for to in EDGES})
        run.run()
        (after,) = [record.next for record in run.records if record.state == "side"]
        assert after == ("a" if first == "return" else first), truths  # `a` was interrupted
