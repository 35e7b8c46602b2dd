"""The tables of docs/scale.md, from the figures that `fleet.py` has kept.

    python benchmarks/fleet_tables.py        # writes them again

Belongs here: what a row says, and the simulation of what was measured. Never: measuring.
"""

# ruff: noqa: E501 - one row, one line

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import fleet_model as model
from tables import digits, put, table

HERE = Path(__file__).resolve().parent
FIGURES, PAGE = HERE / "fleet.json", HERE.parent / "docs" / "scale.md"
Figures = dict[str, float]
RUNS, TURNS = 1_000, 9
"""The runs of a fleet, and the calls of the tool in each."""
STEPS = 2 * TURNS + 2
AGENTS, AGENT_TURNS = 50, 10
"""The agents of other libraries, and the turns of the model in each."""
LIBRARIES = ("chartloop", "LangGraph, Postgres saver", "pydantic-ai on DBOS", "DBOS steps")


class Row(NamedTuple):
    """A row of the page."""

    what: str
    unit: str
    measure: str
    figure: str
    goal: str = ""


CARRIES = (
    Row("one run after another, 1 process", "appends/s", "appends", "alone 1"),
    Row("the same, 4 processes", "appends/s", "appends", "alone 4"),
    Row("the same, 16 processes", "appends/s", "appends", "alone 16"),
    Row("50 runs at once in groups, 1 process", "appends/s", "appends", "groups 1"),
    Row("the same, 4 processes", "appends/s", "appends", "groups 4"),
    Row("the same, 16 processes", "appends/s", "appends", "groups 16"),
    Row("the counter alone, 16 connections, one append a commit", "commits/s", "counter", "commits of 1"),
    Row("the same, 50 appends a commit", "commits/s", "counter", "commits of 50"),
    Row("50 runs at once, round trip as it is", "appends/s", "far", "near"),
    Row("the same, 1 ms more", "appends/s", "far", "far", "≥ 1,000"),
    Row("that round trip", "ms", "far", "far trip, ms"),
    Row("two idle workers, 10,000 runs wait", "statements/s", "waiting", "statements/s", "< 20"),
)  # fmt: skip
WORKS = (
    Row("1,000 runs × 20 steps on two workers, Postgres", "s", "fleet", "Postgres seconds"),
    Row("the same", "steps/s", "fleet", "Postgres steps/s"),
    Row("the same, SQLite", "steps/s", "fleet", "SQLite steps/s"),
    Row("a step, processor time of a worker, Postgres", "μs", "fleet", "Postgres worker μs"),
    Row("a step, processor time of the server", "μs", "fleet", "server μs"),
    Row("a step on the disk, with indexes, Postgres", "bytes", "fleet", "Postgres bytes"),
    Row("the same, SQLite", "bytes", "fleet", "SQLite bytes"),
    Row("a model of 1 s: one worker, 10 runs at once, 40 runs", "s", "second", "1, s"),
    Row("the same, two workers", "s", "second", "2, s"),
    Row("what the second worker gains", "×", "second", "gain", "≥ 1.8"),
)  # fmt: skip
OPERATIONS = ("append", "submit", "claim", "hand back", "sweep")
COMMANDS = ("runs", "runs of a status", "runs --waiting", "why", "stats")


def service_of(found: dict[str, Figures]) -> model.Service:
    """The service times in the figures."""
    one, fifty = (1 / found["counter"][f"commits of {size}"] for size in (1, 50))
    event = max(0.0, (fifty - one) / 49)
    fleet = found["fleet"]
    return model.Service(
        step_cpu=fleet["Postgres worker μs"] / 1e6, server_cpu=fleet["server μs"] / 1e6,
        commit=one - event, event=event, appends=fleet["appends a step"],
        stored=fleet["Postgres bytes"], alone=found["operations"]["Postgres append"] / 1e3,
    )  # fmt: skip


def simulated(found: dict[str, Figures], cores: int) -> Figures:
    """What the simulation says of measures, by measure and figure."""
    if not {"counter", "fleet", "operations"} <= found.keys():
        return {}
    service, figures = service_of(found), Figures()
    fleet = model.simulate(model.Fleet(2, 20, RUNS, STEPS, cores=cores), service)
    figures["Postgres seconds"], figures["Postgres steps/s"] = fleet[:2]
    for workers in (1, 2):
        one = model.Fleet(workers, 10, 40, 8, model_seconds=1.0, cores=cores)
        figures[f"{workers}, s"] = model.simulate(one, service).seconds
    figures["gain"] = figures["1, s"] / figures["2, s"]
    if "far" in found:
        far = found["far"]
        more = (far["far trip, ms"] - far["near trip, ms"]) / 1e3
        figures["far"] = model.rate_from_afar(far["near"], 50, more)
    return figures


def figures_table(rows: tuple[Row, ...], found: dict[str, Figures], beside: Figures) -> str:
    """Measured figures, with those of the simulation."""
    return table(
        ["", "unit", "measured", "simulated", "goal"],
        [
            [row.what, row.unit, f"**{digits(found[row.measure][row.figure])}**",
             digits(beside[row.figure]) if row.figure in beside else "", row.goal]
            for row in rows
            if row.figure in found.get(row.measure, {})
        ],
    )  # fmt: skip


def kinds_table(names: tuple[str, ...], unit: str, found: Figures) -> str:
    """Figures of both databases."""
    return table(
        [unit, "SQLite", "Postgres"],
        [
            [name, *(digits(found[f"{kind} {name}"]) for kind in ("SQLite", "Postgres"))]
            for name in names
            if f"SQLite {name}" in found and f"Postgres {name}" in found
        ],
    )


def peers_table(found: Figures) -> str:
    """The libraries."""
    ours = found.get("chartloop", 0.0)
    return table(
        [f"{AGENTS} agents × {2 * AGENT_TURNS - 1} steps", "steps/s", "against chartloop"],
        [
            [one, digits(found[one]), f"{digits(found[one] / ours)} ×"]
            if ours and one in found
            else [one, "failed", ""]
            for one in LIBRARIES
        ],
    )


PLANNED: tuple[tuple[str, Callable[[model.Demand, model.Plan], str]], ...] = (
    ("steps a second, at the peak", lambda _, plan: digits(plan.steps_per_second)),
    ("runs at once", lambda _, plan: digits(plan.runs_at_once)),
    ("workers", lambda asked, plan: f"{plan.workers:,} of {asked.at_once} runs at once"),
    ("cores of workers", lambda _, plan: digits(plan.worker_cores)),
    ("connections, at most", lambda _, plan: f"{plan.connections:,}"),
    ("the counter is held, each append alone", lambda _, plan: f"{plan.counter:.0%}"),
    ("the same in the groups that form", lambda _, plan: f"{plan.counter_in_groups:.0%}"),
    ("journals", lambda _, plan: str(plan.journals)),
    ("cores of the server", lambda _, plan: digits(plan.server_cores)),
    ("disk", lambda asked, plan: f"{digits(plan.gb_per_day)} GB a day, {digits(plan.gb)} GB in {asked.days:g} days"),
    ("money, without the model", lambda _, plan: f"{digits(plan.usd_month)} USD a month"),
)  # fmt: skip
EXAMPLES = (
    model.Demand(10_000, 10, 2.0), model.Demand(1_000_000, 10, 2.0),
    model.Demand(10_000_000, 10, 2.0),
)  # fmt: skip


def plans_table(demands: tuple[model.Demand, ...], service: model.Service) -> str:
    """What demands need, a column for each."""
    plans = [(asked, model.plan(asked, service)) for asked in demands]
    heads = [
        f"{asked.runs_per_day:,.0f} runs a day of {asked.steps} steps, model {asked.model_seconds:g} s"
        for asked in demands
    ]
    return table(["", *heads], [[what, *(say(*one) for one in plans)] for what, say in PLANNED])


def tables(kept: dict[str, Any]) -> dict[str, str]:
    """The tables of the page, as far as they were measured."""
    found: dict[str, Figures] = {name: one["figures"] for name, one in kept.items()}
    beside = simulated(found, os.cpu_count() or 1)
    loads = ", ".join(f"{name} {one['load']:.1f}" for name, one in kept.items())
    told = {
        "carries": figures_table(CARRIES, found, beside),
        "works": figures_table(WORKS, found, beside),
        "operations": kinds_table(OPERATIONS, "ms, median", found.get("operations", {})),
        "finished": "Not measured yet: `python benchmarks/fleet.py --only finished --write`.",
        "peers": peers_table(found.get("peers", {})),
        "load": f"{os.cpu_count()} processors. The load of the machine before each measure: {loads}.",
    }
    if beside:
        told["plans"] = plans_table(EXAMPLES, service_of(found))
    if "finished" in found:
        counts = found["finished"]
        head = {kind: f"{counts[f'{kind} filled']:,.0f} runs" for kind in ("SQLite", "Postgres")}
        told["finished"] = kinds_table(
            COMMANDS, "s, with the start of the command", counts
        ).replace("SQLite | Postgres", f"SQLite, {head['SQLite']} | Postgres, {head['Postgres']}")
    return told


def kept_figures() -> dict[str, Any]:
    """The figures of each measure, with the load before it."""
    return json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}


def write() -> None:
    """The page, from the file of figures."""
    put(PAGE, tables(kept_figures()), by="benchmarks/fleet.py")


if __name__ == "__main__":
    write()
