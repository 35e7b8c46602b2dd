"""Figures over many runs: counted from records, margins from facts; tables, frames and plots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from chartloop import stats
from chartloop.actions.declare import action
from chartloop.api import Machine, Run, load
from chartloop.core.errors import SetupError
from chartloop.core.outcome import Outcome, Spent
from chartloop.extras import install
from chartloop.run.context import Context
from chartloop.run.journal import MemoryJournal, RunRow
from chartloop.run.recorded import RecordedRun
from chartloop.studies.stats.figures import Dist
from chartloop.studies.stats.stats import Stats
from chartloop.testing.clock import ManualClock
from tests.laws.test_run_laws import Made, machine_of, made
from tests.laws.test_whatif_laws import limited, limits, lived
from tests.support import failure, machine

PLOTS = install("plots")
BODY = """
limits: {steps: 10, errors: 4}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: errors.consecutive >= limits.errors, stop: error_threshold}
states:
  work:
    do: act
    retry: {times: 3, base: 2s, factor: 1}
    next: [{when: run.visits.work >= 5, to: done}, {to: work}]
  done: {stop: completed}
"""
PAID = Outcome(spent=Spent(1, 60, 40, 0.5, tools={"x": 2}))


def runs_of(body: str, *worlds: Any, **options: Any) -> tuple[Machine, list[Run]]:
    found: list[Run] = []
    for said in worlds:
        run = machine(body, {"work": said}).start("t", clock=ManualClock(1000), **options)
        run.run()
        found.append(run)
    return machine(body), found


def stats_of(body: str, *worlds: Any, **options: Any) -> Stats:
    made, runs = runs_of(body, *worlds, **options)
    return stats(made, runs)


def test_reasons_are_counted_with_their_kinds() -> None:
    found = stats_of(BODY, [PAID] * 5, [PAID] * 5, [failure("CRITICAL", "no")])
    assert [(r.reason, r.kind, r.runs) for r in found.reasons] == [
        ("completed", "natural", 2), ("error", "error", 1),
    ]  # fmt: skip
    assert [r.share for r in found.reasons] == [pytest.approx(2 / 3), pytest.approx(1 / 3)]


def test_what_a_state_did_spent_failed_and_waited() -> None:
    found = stats_of(BODY, [failure(), failure(), PAID, PAID, PAID])
    (work,) = found.states
    assert (work.state, work.action, work.runs, work.actions) == ("work", "act", 1, 5)
    assert (work.failed, work.retries, work.calls) == (2, 2, 9)
    assert work.tokens.total == 300
    assert work.usd.total == pytest.approx(1.5)
    assert work.waits.values == (2.0, 2.0)
    assert found.totals["waiting"].total == pytest.approx(4.0)
    assert (found.failures[0].category, found.failures[0].times) == ("TRANSIENT", 2)


def test_a_counter_in_a_row_has_its_peak_in_the_middle() -> None:
    found = stats_of(BODY, [failure(), failure(), PAID, PAID, PAID])
    margins = {m.fact: m for m in found.margins}
    errors = margins["errors.consecutive"]
    assert (errors.end.most, errors.peak.most, errors.stopped) == (0.0, 0.5, 0)
    assert margins["run.steps"].peak.most == pytest.approx(0.5)


def test_a_limit_says_whom_it_stopped_and_that_it_is_never_near() -> None:
    found = stats_of(BODY, *[[PAID] * 5] * 8, limits={"steps": 3})
    steps = found.margins[0]
    assert (steps.text, steps.values) == ("run.steps ≥ limits.steps", ("3",))
    assert (steps.stopped, steps.says) == (8, "stops 100%")
    assert found.margins[1].says == ""  # eight runs are too few for `never`
    more = stats_of(BODY, *[[PAID] * 5] * 12)
    assert {m.fact: m.says for m in more.margins} == {
        "run.visits.work": "", "run.steps": "", "errors.consecutive": "never near",
    }  # fmt: skip


def test_what_follows_a_stop_brings_no_run_nearer_to_a_limit() -> None:
    body = BODY.replace("rules:", "on_stop: sum_up\nrules:", 1).replace(
        "done: {stop: completed}", "done: {stop: completed, next: sum_up}\n"
        "  sum_up: {do: keep, next: over}\n  over: {end: by_reason}",
    )  # fmt: skip
    steps = stats_of(body, [PAID] * 5, limits={"steps": 3}).margins[0]
    assert steps.peak.most == 1.0


def test_tools_that_failed_are_named() -> None:
    found = stats_of(BODY, [Outcome(tool_errors=("look_up: gone", "x: bad")), PAID])
    assert {(f.category, f.what, f.message) for f in found.failures} == {
        ("tool", "look_up", "gone"), ("tool", "x", "bad"),
    }  # fmt: skip


def test_a_run_that_has_not_ended_is_counted_so() -> None:
    made = machine(BODY)
    run = made.start("t", journal=MemoryJournal())
    run.advance()
    run.advance()
    found = stats(made, run)
    assert [(r.reason, r.kind) for r in found.reasons] == [("", "waiting")]
    assert "not ended" in str(found)


def test_records_that_cannot_be_decided_again_have_no_margins() -> None:
    made, (run,) = runs_of(BODY, [PAID] * 5)
    records = list(run.records)
    records[2] = records[2].replace(next="done")
    row = RunRow("r", "m", made.hash, status="completed", reason="completed")
    found = stats(made, RecordedRun(row, tuple(records), made.canonical()))
    assert (found.unfolded, found.margins, found.states[0].actions) == (("r",), (), 5)
    assert "1 run cannot be decided again" in str(found)


def test_runs_of_other_machines_are_passed_over() -> None:
    made, (run,) = runs_of(BODY, [PAID] * 5)
    found = stats(made, [run, RecordedRun(RunRow("f", "other"), tuple(run.records), "")])
    assert (found.runs, len(found.unread)) == (1, 1)


def test_no_runs() -> None:
    found = stats(machine(BODY), [])
    assert str(found) == "m: 0 runs"
    assert found.to_dict()["reasons"] == []


@pytest.mark.parametrize(
    ("values", "median", "p95", "most"),
    [((), 0, 0, 0), ((3,), 3, 3, 3), ((1, 2), 1.5, 2, 2), (tuple(range(1, 101)), 50.5, 95, 100)],
)
def test_a_distribution(values: tuple[float, ...], median: float, p95: float, most: float) -> None:
    found = Dist.of(reversed(values))
    assert (found.median, found.p95, found.most) == (median, p95, most)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(limited(), made, limits)
def test_the_figures_are_those_of_the_runs(data: Any, what: list[Made], given: Any) -> None:
    machine = machine_of(data, what)
    run = lived(machine, given)
    found = stats(machine, run)
    usage = run.result.facts.usage
    assert not found.unfolded
    assert sum(s.actions for s in found.states) == run.result.steps
    assert sum(s.tokens.total for s in found.states) == usage.total_tokens
    assert found.totals["tokens"].total == usage.total_tokens
    assert found.totals["elapsed"].total == pytest.approx(run.result.elapsed)
    assert found.reasons[0].reason == str(run.result.reason or "")
    for margin in found.margins:
        assert margin.peak.most >= margin.end.most
        assert margin.stopped <= 1


# shown --------------------------------------------------------------------------------------


def html(shown: Any) -> str:
    """What a notebook is given."""
    return shown._repr_mimebundle_()["text/html"]


def test_a_notebook_shows_the_tables() -> None:
    found = stats_of(BODY, [PAID] * 5, [failure("CRITICAL", "<script>alert(1)</script>")])
    shown = html(found)
    assert "why runs stop" in shown
    assert "<script" not in shown
    assert repr(found) == "<Stats of m: 2 runs>"


def test_every_figure_stands_in_a_line() -> None:
    rows = list(stats_of(BODY, [PAID] * 5).rows())
    assert ("m", "state", "work", "actions", 5) in rows
    assert ("m", "margin", "run.steps ≥ limits.steps", "peak.max", 0.5) in rows


@pytest.mark.extra("pandas", install="pip install pandas")  # noqa: S610 - no Django
def test_frames() -> None:
    found = stats_of(BODY, [PAID] * 5)
    assert list(found.frame().index) == ["work"]
    assert found.frame_of("margins").loc["run.steps ≥ limits.steps", "peak.max"] == 0.5
    assert found.frame_of("totals").loc["tokens", "total"] == 500
    assert len(found.frame_of("reasons")) == 1


@action(effect="pure")
def slow(ctx: Context) -> None:
    """Takes a minute."""
    ctx.ports.clock.advance(60)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  simulated here


@pytest.mark.slow("takes seconds")
@pytest.mark.extra("matplotlib", install=PLOTS)  # noqa: S610 - no Django
def test_plots_have_the_figures_and_are_the_same_each_time(tmp_path: Path) -> None:
    found = stats_of(BODY, [PAID] * 5, [failure("CRITICAL", "no")])
    (one,) = found.plot(tmp_path / "a.svg")
    (two,) = found.plot(tmp_path / "b.svg")
    text = one.read_text("utf-8")
    assert text == two.read_text("utf-8")
    for said in ("Why runs stop", "completed", "1  (50%)", "steps", "work", "m, 2 runs"):
        assert said in text
    files = found.plot(tmp_path / "all")
    assert [f.name for f in files] == [
        "reasons.svg", "margins.svg", "time.svg", "cost.svg", "durations.svg", "costs.svg",
    ]  # fmt: skip


@pytest.mark.extra("matplotlib", install=PLOTS)  # noqa: S610 - no Django
def test_a_name_is_no_formula_and_no_markup(tmp_path: Path) -> None:
    text = """chartloop: 1
machine: odd
reasons: {a: {priority: 3, forced: false, status: completed}}
vars: {n: 1}
states:
  work: {do: slow, next: [{when: "run.steps >= vars.n * 1", to: done}, {to: work}]}
  done: {stop: a}
"""
    made = load(text, actions=[slow])
    run = made.start("t", clock=ManualClock(1000))
    run.run()
    row = RunRow("r", "odd", status="completed", reason="$\\frac{<script>}{$")
    found = stats(made, [run, RecordedRun(row, tuple(run.records), "")])
    (file,) = found.plot(tmp_path / "odd.svg")
    assert "<script>" not in file.read_text("utf-8")


@pytest.mark.extra("matplotlib", install=PLOTS)  # noqa: S610 - no Django
def test_no_runs_are_drawn_as_none(tmp_path: Path) -> None:
    (file,) = stats(machine(BODY), []).plot(tmp_path / "none.svg")
    assert "no runs" in file.read_text("utf-8")


def test_other_forms_of_picture_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"not written as `\.gif`"):
        stats_of(BODY, [PAID] * 5).plot(tmp_path / "a.gif")
