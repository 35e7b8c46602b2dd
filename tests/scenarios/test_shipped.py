"""The scenarios of the shipped machines: they pass, and together they take every edge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from chartloop.api import load
from chartloop.catalog import shipped_machines
from chartloop.core.facts import FACTS
from chartloop.core.plain import plain
from chartloop.language.yaml.reading import Document
from chartloop.scenarios import (
    Covering,
    ScenarioReport,
    collecting,
    find_scenarios,
    load_scenario,
    run_scenario,
)
from chartloop.scenarios.file import scenario_of
from chartloop.studies.coverage.targets import Kind

pytestmark = pytest.mark.slow("runs every shipped scenario several times")

SHIPPED = find_scenarios([Path(__file__).parent])


COVERING = Covering()
"""What the scenarios show of their machines, and of the machines that these run."""


@cache
def reports() -> dict[str, list[ScenarioReport]]:
    """The reports of all shipped scenarios, by machine."""
    out: dict[str, list[ScenarioReport]] = {}
    with collecting(COVERING):
        for path in SHIPPED:
            out.setdefault(load_scenario(path).machine, []).append(run_scenario(path))
    return out


def test_the_shipped_scenarios_pass() -> None:
    failed = [str(r) for found in reports().values() for r in found if not r.passed]
    assert failed == []
    assert len(SHIPPED) > 20


@pytest.mark.parametrize("machine", sorted(shipped_machines().keys() - {"lifecycle"}))
def test_the_scenarios_reach_every_edge(machine: str) -> None:
    chart = load(machine).chart
    every = {t.origin for t in chart.step.transitions()}
    records = [
        record
        for report in reports()[machine]
        if report.run is not None
        for record in report.run.records
    ]
    taken = {origin for record in records for origin in record.taken}
    emitting = {rule.id for rule in chart.spec.rules if rule.kind == "signal"}  # they lead nowhere
    raised = {signal.source for record in records for signal in record.signals} & emitting
    # edges, retries, rules, detours, returns, and what the engine adds
    assert taken | raised == every


def test_the_scenarios_show_every_shipped_machine_whole() -> None:
    """All but atoms of guards, of which some cannot decide in a run; docs/coverage.md names them."""
    assert all(reports().values())
    found = {coverage.machine: coverage for coverage in COVERING.coverages()}
    assert found.keys() == shipped_machines().keys()
    assert COVERING.skipped_runs == ()
    whole: dict[Kind, float] = dict.fromkeys(("state", "edge", "rule", "reason", "child"), 100)
    assert [said for coverage in found.values() for said in coverage.below(whole)] == []
    assert all(coverage.figures["edge"].all > 0 for coverage in found.values())


def plain_facts(report: ScenarioReport) -> Iterator[tuple[str, Any]]:
    """Every fact that the language can name, at the end of a run."""
    assert report.result is not None
    facts = plain(report.result.facts)
    for name in FACTS:
        root, field = name.split(".")
        value = facts[root][field]
        if not isinstance(value, dict):
            yield name, value


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name.removesuffix(".scenario.yaml"))
def test_what_a_run_came_to_meets_itself_and_nothing_else(path: Path) -> None:
    made, report = load_scenario(path), run_scenario(path)
    assert report.result is not None
    came = {
        "reason": str(report.result.reason),
        "kind": report.result.kind,
        "path": list(report.result.path),
        "output": plain(report.result.output),
    }
    facts = {n: v for n, v in plain_facts(report) if n != "run.id" and not isinstance(v, list)}
    data: Mapping[str, Any] = made.document.data
    same_again = dict(data, expect=dict(came, facts=facts))
    assert run_scenario(scenario_of(_document(same_again), name="s", folder=path.parent)).passed
    wrong = {"path": [*came["path"], "end-error"], "output": {"no": "such"}}
    changed = dict(data, expect={**came, **wrong})
    report = run_scenario(scenario_of(_document(changed), name="s", folder=path.parent))
    assert len(report.problems) == len(wrong)
    assert all(any(said.startswith(key) for said in report.problems) for key in wrong)


def _document(data: Mapping[str, Any]) -> Document:
    return Document(json.loads(json.dumps(data)), "", "")
