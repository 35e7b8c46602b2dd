"""Coverage of small machines: each kind of item, sums, what is refused, the heat map."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from chartloop import coverage, guard, load
from chartloop.api import Machine
from chartloop.core.errors import RunError, SetupError
from chartloop.pictures.ids import safe_ids
from chartloop.run.journal import MemoryJournal
from chartloop.run.recorded import RecordedRun
from chartloop.scenarios import Covering, collecting, scenario
from chartloop.studies.coverage.coverage import Coverage, from_json, to_json, wanted_of
from chartloop.studies.coverage.figures import Figure
from chartloop.studies.coverage.heatmap import NEVER, SHADES, HeatPicture, Scale, Shade
from chartloop.studies.coverage.measure import coverage_of
from chartloop.testing import ManualClock

SHOP = """\
chartloop: 1
machine: shop
model: {name: scripted}
limits: {steps: 20, tokens: 1000}
vars: {kind: {type: str, value: ""}, tries: 0}
machines: {helper: helper.yaml}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.total_tokens >= limits.tokens and run.steps > 1, to: trim}
  - {when: errors.total >= 2, signal: error_threshold}
states:
  ask: {do: infer, retry: {times: 1, base: 1s}, failed: sorry, next: kind}
  kind:
    of: vars.kind
    cases: {a: help, b: approve}
    else: done
  help: {do: run_machine, with: {machine: helper, task: x}, failed: next, next: done}
  approve: {ask: "Well?", on: {yes: both, no: sorry}, within: 1h, expired: sorry}
  both: {all: [left, right]}
  left: {when: vars.tries > 3, then: sorry, else: joined}
  right: {next: joined}
  joined: {next: done}
  trim: {do: checkpoint, next: return}
  sorry: {stop: error_threshold}
  done: {stop: completed}
"""
HELPER = """\
chartloop: 1
machine: helper
model: {name: scripted}
states:
  work: {do: infer, next: done}
  done: {stop: completed}
"""
LONG = {"text": "x", "usage": {"prompt_tokens": 2000, "completion_tokens": 1}}


@pytest.fixture
def shop(tmp_path: Path) -> Machine:
    (tmp_path / "helper.yaml").write_text(HELPER)
    (tmp_path / "shop.yaml").write_text(SHOP)
    return load(tmp_path / "shop.yaml")


def seen(measured: Coverage) -> set[str]:
    return {c.item.key for c in measured.covered if c.times}


def of_run(machine: Machine, **options: Any) -> Coverage:
    clock = ManualClock()
    answer = options.pop("answer", None)
    run = machine.start("t", clock=clock, **options)
    while answer and run.state != "approve":
        run.advance()
    if answer and answer != "late":  # a simulated clock does not wait: nobody answers in time
        run.send(answer)
    run.run()
    return coverage(machine, run)


# what is seen -------------------------------------------------------------------------------


def test_states_edges_and_the_reason(shop: Machine) -> None:
    measured = of_run(shop, script=["Hi."])
    found = seen(measured)
    assert {"state:ask", "state:kind", "state:done", "edge:ask.next.0", "edge:kind.else"} <= found
    assert "reason:completed" in found
    assert not {"edge:kind.a", "state:help", "rule:rules.0", "reason:error_threshold"} & found
    assert (measured.runs, measured.records) == (1, 2)


def test_a_case_a_child_and_its_own_coverage(shop: Machine) -> None:
    measured = of_run(shop, script=["Hi.", "Helped."], vars={"kind": "a"})
    assert {"edge:kind.cases.a", "child:help/helper"} <= seen(measured), seen(measured)
    (helper,) = measured.inside
    assert helper.machine == "helper"
    assert str(helper.figures["edge"]) == "1/1"
    assert helper.runs == 1


@pytest.mark.parametrize(
    ("answer", "edge"),
    [("yes", "approve.on.yes"), ("no", "approve.on.no"), ("late", "approve.expired")],
)
def test_events_and_time_outs(shop: Machine, answer: str, edge: str) -> None:
    measured = of_run(shop, script=["Hi."], vars={"kind": "b"}, answer=answer)
    assert f"edge:{edge}" in seen(measured), seen(measured)
    assert measured.roles("edge")["expired"].seen == (answer == "late")
    assert measured.roles("edge")["all"].seen == (2 if answer == "yes" else 0)


def test_a_retry_a_failure_and_a_signal_rule(shop: Machine) -> None:
    broken = {"error": {"category": "TRANSIENT", "message": "no"}}
    measured = of_run(shop, script=[broken, broken])
    assert {"edge:ask.retry", "edge:ask.failed", "rule:rules.2"} <= seen(measured)
    assert "reason:error_threshold" in seen(measured)
    assert measured.times("edge")["ask.retry"] == 1


def test_a_detour_and_the_way_back(shop: Machine) -> None:
    measured = of_run(shop, script=["Hi.", LONG], vars={"kind": "a"})
    assert {"rule:rules.1", "state:trim", "edge:trim.next.0"} <= seen(measured)
    assert measured.roles("rule")["detour"].seen == 1
    assert "edge:help.next.0" in seen(measured), "the edge that the detour put off"


def test_atoms_count_when_they_decide(shop: Machine) -> None:
    """`tokens >= limit and steps > 1`: with both false neither decides."""
    alone = of_run(shop, script=["Hi."])
    assert not {k for k in seen(alone) if k.startswith("atom:rules.1#")}
    both = of_run(shop, script=["Hi.", LONG], vars={"kind": "a"})
    assert {k for k in seen(both) if k.startswith("atom:rules.1#")} == {
        "atom:rules.1#0=true", "atom:rules.1#1=true",
    }  # fmt: skip


def test_a_guard_behind_the_way_that_was_taken_was_not_looked_at() -> None:
    body = HELPER.replace(
        "next: done}",
        "next: [{when: run.steps >= 1, to: done}, {when: run.steps >= 2, to: done}, {to: work}]}",
    )
    machine = load(body)
    found = seen(coverage(machine, machine_run(machine)))
    assert "atom:work.next.0#0=true" in found
    assert not {key for key in found if key.startswith("atom:work.next.1#")}


def test_a_run_ends_for_one_reason_however_long_its_epilogue() -> None:
    measured = of_run(load("moderator"), script=["Done."])
    assert measured.times("reason")["completed"] == 1
    assert sum(measured.times("reason").values()) == measured.runs == 1
    assert measured.times("state")["report"] == 1


def test_what_is_none_of_the_files_stands_beside(shop: Machine) -> None:
    run = shop.start("t", script=["Hi."], clock=ManualClock())
    run.cancel()
    run.run()
    measured = coverage(shop, run)
    assert measured.beside["reason:user_requested"] == 1
    assert not any(c.item.id == "user_requested" for c in measured.covered)
    assert "also stopped for user_requested ×1" in str(measured)


def test_python_guards_are_apart(tmp_path: Path) -> None:
    @guard
    def odd(steps: int) -> bool:
        return steps % 2 == 1

    @guard
    def big(steps: int) -> bool:
        return steps > 100

    body = HELPER.replace(
        "next: done}", "next: [{when: big(run.steps) or odd(run.steps), to: done}, {to: work}]}"
    )
    machine = load(body, guards=[odd, big])
    measured = coverage(machine, machine_run(machine))
    assert [str(f) for f in (measured.figures["guard"], measured.figures.get("atom"))] == [
        "1/4",
        "None",
    ]
    # `big or odd` at step 1: `odd` decides by being true, `big` by nothing
    assert {k for k in seen(measured) if k.startswith("guard:")} == {"guard:work.next.0#1=true"}
    assert "Python guards, not seen inside" in str(measured)


def machine_run(machine: Machine) -> Any:
    run = machine.start("t", script=["a", "b", "c"], clock=ManualClock())
    run.run()
    return run


# sums, files, thresholds --------------------------------------------------------------------


def test_it_adds_up_and_is_written(shop: Machine, tmp_path: Path) -> None:
    one, other = (
        of_run(shop, script=["Hi."]),
        of_run(shop, script=["Hi.", "Yes."], vars={"kind": "a"}),
    )
    both = one + other
    assert both.runs == 2
    assert both.times("edge")["ask.next.0"] == 2
    file = tmp_path / "c.json"
    file.write_text(to_json([one, *one.inside]))
    assert coverage(shop, saved=[file, other]) == both


def test_other_items_are_refused_and_named(shop: Machine) -> None:
    other = load(SHOP.replace("vars.tries > 3", "vars.tries > 4").replace(
        "  right: {next: joined}\n", "  right: {next: more}\n  more: {next: joined}\n"
    ).replace("machines: {helper: helper.yaml}\n", "").replace(
        "do: run_machine, with: {machine: helper, task: x}, failed: next", "do: infer"))  # fmt: skip
    with pytest.raises(RunError) as refused:
        _both = coverage(shop) + coverage(other)
    said = str(refused.value)
    assert "new: `state more`, `edge more.next.0`" in said
    assert "gone: `child help/helper`" in said
    assert "changed: `edge left.then`, `edge right.next.0`, `atom left.then#0`" in said


def test_limits_and_labels_change_nothing_that_counts(shop: Machine, tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(SHOP.replace("steps: 20", "steps: 30"))
    later = load(file)
    journal = MemoryJournal()
    shop.run("t", script=["Hi."], journal=journal, clock=ManualClock())
    assert later.hash != shop.hash
    assert coverage(later, journal).runs == 1


def test_a_run_of_a_changed_machine_is_passed_over_with_what_changed(
    shop: Machine, tmp_path: Path
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(SHOP.replace("vars.tries > 3", "vars.tries > 4"))
    later = load(file)
    journal = MemoryJournal()
    run = shop.start("t", script=["Hi."], journal=journal, clock=ManualClock())
    run.run()
    measured = coverage(later, journal)
    assert measured.runs == 0
    (said,) = measured.skipped_runs
    assert said.startswith(f"run `{run.id}` is not counted: the machine has changed since: ")
    assert "`edge left.then`, `atom left.then#0`" in said


def test_a_record_that_is_none_of_the_machines_passes_the_run_over(shop: Machine) -> None:

    run = shop.start("t", script=["Hi."], clock=ManualClock())
    run.run()
    records = list(run.records)
    broken = records[1].replace(taken=("kind.cases.a",))
    row = run.session.row
    found = coverage_of(shop, [RecordedRun(row, (records[0], broken))])
    assert (found.runs, found.records, seen(found)) == (0, 0, set())
    assert "record 1 at `ask` is decided differently" in found.skipped_runs[0]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"machines": 3}', '{"machines": [{"format": "other"}]}', "[" * 100_000,
     '{"machines": [{"format": "chartloop-coverage/1", "items": [{"kind": "x", "id": "y", "times": 1}]}]}'],
)  # fmt: skip
def test_what_is_no_coverage_is_refused(text: str) -> None:
    with pytest.raises(SetupError):
        from_json(text)


def test_thresholds(shop: Machine) -> None:
    assert wanted_of(["90", "atoms=75.5", "states=100%"]) == {
        "edge": 90,
        "atom": 75.5,
        "state": 100,
    }
    measured = of_run(shop, script=["Hi."])
    (said,) = measured.below(wanted_of(["50"]))
    assert said.startswith("`shop`: 2/")
    assert measured.below(wanted_of(["1"])) == ()
    for wrong in ("edgs=3", "101", "many"):
        with pytest.raises(SetupError):
            wanted_of([wrong])


def test_all_but_one_of_a_thousand_is_not_everything() -> None:

    assert Figure(9_999, 10_000).percent == 99.9
    assert (Figure(3, 3).percent, Figure(0, 0).percent) == (100, 100)


# scenarios ----------------------------------------------------------------------------------


def test_scenarios_count_while_somebody_collects() -> None:
    said: Any = {"replies": ["Hi."], "expect": {"reason": "completed"}}
    with collecting() as found:
        scenario("agent", "Hello.", **said)
    scenario("agent", "Hello.", **said)
    (one,) = found.coverages()
    assert (one.machine, one.runs) == ("agent", 1)


def test_a_named_machine_is_there_without_a_run_and_others_are_not() -> None:
    covering = Covering([load("step_choice")])
    with collecting(covering):
        scenario("agent", "Hello.", replies=["Hi."], expect={"reason": "completed"})
    (one,) = covering.coverages()
    assert (one.machine, one.runs, one.figures["edge"].seen) == ("step_choice", 0, 0)


def test_the_status_of_every_run_counts_for_the_lifecycle() -> None:
    covering = Covering([load("lifecycle")])
    with collecting(covering):
        scenario("agent", "Hello.", replies=["Hi."], expect={"reason": "completed"})
    (one,) = covering.coverages()
    taken = {id: times for id, times in one.times("edge").items() if times}
    assert taken == {"idle.on.start": 1, "running.on.complete": 1}
    assert one.times("state")["completed"] == one.times("reason")["completed"] == one.runs == 1


# pictures -----------------------------------------------------------------------------------


def test_the_scale_is_logarithmic_and_says_its_ranges() -> None:
    scale = Scale([1, 5, 100_000, 0])
    assert [said for said, _ in scale.ranges] == [
        "1–10", "11–100", "101–1,000", "1,001–10,000", "10,001–100,000",
    ]  # fmt: skip
    assert [scale.shade(n) for n in (1, 10, 11, 100_000)] == [
        SHADES[0],
        SHADES[0],
        SHADES[1],
        SHADES[4],
    ]
    assert scale.shade(0) is NEVER
    assert [said for said, _ in Scale([1, 2]).ranges] == ["1", "2"]
    assert Scale([]).ranges == []


@pytest.mark.parametrize("name", ["agent", "moderator", "team"])
def test_the_legend_is_made_of_the_fills_of_the_boxes(name: str) -> None:
    machine = load(name)
    counts = (0, 1, 3, 14, 200, 5_000)
    covered = tuple(
        c._replace(times=counts[n % len(counts)]) for n, c in enumerate(coverage(machine).covered)
    )
    dot = HeatPicture(machine.draw().chart, covered).dot()
    legend = re.findall(r'BGCOLOR="(#\w+)".*?POINT-SIZE="10">([^<]+)<', dot)
    names = dict(legend)
    drawn = dict(re.findall(r'^\t(\w+) \[label=.*?fillcolor="(#\w+)"', dot, re.MULTILINE))
    states = {c.item.id: c for c in covered if c.item.kind == "state"}
    assert states.keys() & drawn.keys()
    for state, found in states.items():
        fill = drawn[safe_ids([state])[state]]
        low, _, high = names[fill].replace(",", "").partition("–")
        assert found.times == 0 if low == "never" else int(low) <= found.times <= int(high or low)


def test_counts_stand_on_the_map(shop: Machine) -> None:
    measured = of_run(shop, script=["Hi."])
    dot = measured.draw().dot()
    for state, times in measured.times("state").items():
        assert re.search(
            rf'^\t{state} \[label="[^"]*\\n{f"×{times}" if times else "[(]never"}',
            dot,
            re.MULTILINE,
        )
    rules = dot.splitlines()[-20:]
    assert all("(never)" in line for line in rules if "stop: " in line)


@pytest.mark.parametrize("shade", [*SHADES, NEVER])
def test_words_can_be_read_on_every_shade(shade: Shade) -> None:
    light, dark = sorted((_luminance(shade.fill), _luminance(shade.ink)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def _luminance(colour: str) -> float:
    """Source: WCAG 2.2, "relative luminance"."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_never_seen_is_red_and_dashed_and_explained(shop: Machine) -> None:
    dot = of_run(shop, script=["Hi."]).draw().dot()
    assert "never" in dot
    line = next(line for line in dot.splitlines() if line.lstrip().startswith("help ["))
    assert "dashed" in line
    assert NEVER.line in line


def test_text_and_mermaid_say_how_often(shop: Machine) -> None:
    picture = of_run(shop, script=["Hi."]).draw()
    assert "×1" in picture.outline()
    assert "(never)" in picture.mermaid()


def test_a_coverage_that_was_read_back_is_drawn_when_it_is_added(shop: Machine) -> None:
    (read,) = from_json(to_json([of_run(shop, script=["Hi."])]))
    with pytest.raises(SetupError, match="cannot be drawn"):
        read.draw()
    assert "×1" in (read + coverage(shop)).draw().outline()


@pytest.mark.system("dot", install="apt-get install graphviz")
def test_a_hostile_label_stays_a_text() -> None:
    body = HELPER.replace("work: {", 'work: {label: "<script>alert(1)</script>]]>", ')
    measured = coverage(load(body))
    html = measured._repr_mimebundle_()["text/html"]  # pyright: ignore[reportPrivateUsage]
    assert "&lt;script" in html
    assert "<script" not in html
    assert "<script" not in measured.draw().svg()


def test_it_shows_itself(shop: Machine) -> None:
    measured = of_run(shop, script=["Hi."])
    assert repr(measured).startswith("<Coverage of shop by 1 run: 3/")
    bundle = measured._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert "not seen" in bundle["text/html"]
    assert "vars.tries &gt; 3" in bundle["text/html"]
    assert "vars.tries > 3 → sorry" in str(measured)
    assert re.search(r"right\.next\.0 +→ joined", str(measured))
    (left,) = (c.item for c in measured.missing if c.item.key == "edge:left.then")
    assert re.fullmatch(r".*shop\.yaml:20", left.place), left.place


@pytest.mark.extra("pandas", install="pip install pandas")  # noqa: S610 - no Django
def test_a_frame(shop: Machine) -> None:
    frame = of_run(shop, script=["Hi."]).frame()
    assert frame.loc["edge:ask.next.0", "times"] == 1
    assert json.loads(json.dumps(list(frame.columns)))
