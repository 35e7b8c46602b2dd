"""Worlds, amounts, outcomes, learning and suggestions: the parts of a simulation, one by one."""

from __future__ import annotations

import math
import re
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from chartloop import SpecError, guard, load, simulate, simulated_run
from chartloop.actions.registry import check_traits
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.catalog import shipped_machines
from chartloop.core.errors import SetupError
from chartloop.core.specs import ActionSpec
from chartloop.core.traits import ASKS_MODEL
from chartloop.language.yaml.reading import read
from chartloop.run.journal import MemoryJournal
from chartloop.run.recorded import RecordedRun, read_run
from chartloop.run.sync import by_hand, wait
from chartloop.studies.simulation.distributions import (
    Amount,
    constant,
    drawing,
    empirical,
    weighted_values,
)
from chartloop.studies.simulation.learn import learn
from chartloop.studies.simulation.limits import limits_watched, rounded_up
from chartloop.studies.simulation.statistics import quantile, share, spread
from chartloop.studies.simulation.world import World
from chartloop.studies.simulation.world_file import read_world, world_data, world_of, write_world

ASKING = """chartloop: 1
machine: asking
model: {name: scripted}
tools: [conversation_search]
limits: {steps: 30, patience: 5m}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  question: {do: receive, next: think}
  think:
    do: infer
    with: {output: {type: object, properties: {mood: {enum: [good, bad]}, sure: {type: boolean}}, required: [mood]}}
    failed: confirm
    next: [{when: len(last.tool_calls) > 0, to: act}, {to: confirm}]
  act: {do: call_tools, next: think}
  confirm: {ask: Good?, on: {yes: done, no: think}, within: limits.patience, expired: late}
  late: {stop: user_unresponsive}
  done: {stop: completed}
"""


def asking() -> Any:
    return load(ASKING)


# amounts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "mean"),
    [
        (constant(3), 3.0),
        (weighted_values({0: 1, 10: 3}), 7.5),
        (Amount("even", (1.0, 3.0)), 2.0),
        (Amount("lognormal", (100.0, 300.0)), 100 * math.exp((math.log(3) / 1.6448536269514722) ** 2 / 2)),
    ],
    ids=["fixed", "weighted", "even", "lognormal"],
)  # fmt: skip
def test_draws_have_the_mean_that_the_amount_says(amount: Amount, mean: float) -> None:
    chance, draw = Random(1), drawing(amount)  # noqa: S311 - no secret
    drawn = [draw(chance) for _ in range(40_000)]
    assert amount.mean == pytest.approx(mean)
    assert sum(drawn) / len(drawn) == pytest.approx(mean, rel=0.02)


def test_the_95th_percentile_of_a_lognormal_is_as_written() -> None:
    chance = Random(2)  # noqa: S311 - no secret
    draw = drawing(Amount("lognormal", (100.0, 300.0)))
    drawn = sorted(draw(chance) for _ in range(40_000))
    assert quantile(drawn, 0.5) == pytest.approx(100, rel=0.03)
    assert quantile(drawn, 0.95) == pytest.approx(300, rel=0.05)


def test_many_different_values_are_thinned_out_to_quantiles() -> None:
    found = empirical(range(10_000))
    assert len(found.values) == 200
    assert found.mean == pytest.approx(5_000, rel=0.01)


# numbers ------------------------------------------------------------------------------------


def test_a_share_and_its_interval_as_wilson_gives_them() -> None:
    found = share(10, 100)
    assert (found.value, round(found.low, 4), round(found.high, 4)) == (0.1, 0.0552, 0.1744)
    assert (share(0, 50).low, round(share(0, 50).high, 4)) == (0.0, 0.0713)
    assert share(50, 50).high == 1.0


def test_how_values_are_spread() -> None:
    found = spread([4.0, 1.0, 2.0, 3.0])
    assert found is not None
    assert (found.mean, found.median, found.p95, found.most) == (2.5, 2.0, 4.0, 4.0)
    assert found.deviation == pytest.approx(math.sqrt(5 / 3))
    assert spread([]) is None


# the world file -----------------------------------------------------------------------------

WHOLE = """world: 1
about: What we saw.
task: Is it good?
prices: {prompt: 0.000001, completion: 2e-6}
states:
  think:
    fails: {TRANSIENT: 2%, CRITICAL: 0.1%}
    tool_calls: {counts: {0: 40%, 1: 60%}}
    tools: {conversation_search: 1}
    repeats: 10%
    results: {mood: {good: 3, bad: 1}, sure: {"true": 1}}
    prompt_tokens: 1_000
    completion_tokens: {median: 200, p95: 800}
    duration: {low: 1s, high: 2500ms}
  confirm: {answers: {yes: 7, no: 1, nobody: 2}, delay: [1m, 2m, 2m]}
actions:
  call_tools: {call_fails: 5%, adds: 100, duration: 1s}
"""


def test_a_world_file_is_read_and_written_back() -> None:
    world = read_world(WHOLE, file="world.yaml", spec=asking().spec)
    think, confirm = world.states["think"], world.states["confirm"]
    assert think.fails == {"TRANSIENT": 0.02, "CRITICAL": 0.001}
    assert think.tool_calls == weighted_values({0.0: 0.4, 1.0: 0.6})
    assert think.results == {"mood": (("good", 0.75), ("bad", 0.25)), "sure": ((True, 1.0),)}
    assert think.duration == Amount("even", (1.0, 2.5))
    assert confirm.answers == (("yes", 0.7), ("no", 0.1), ("nobody", 0.2))
    assert confirm.delay is not None
    assert confirm.delay.mean == pytest.approx(100)
    assert world.prices == (0.000001, 2e-6)
    again = read_world(write_world(world), file="again.yaml", spec=asking().spec)
    assert world_data(again) == world_data(world)


class Wrong(NamedTuple):
    """One mistake: the text, and the finding with the place where it stands."""

    id: str
    text: str
    code: str
    said: str
    at: str


MISTAKES = (
    Wrong("no-version", "task: x", "CL202", "lacks the key `world`", ""),
    Wrong("another-version", "world: 2", "CL203", "`world` takes `1`", ":1:8"),
    Wrong("unknown-key", "world: 1\nstate: {}", "CL201", "unknown key `state`", ":2:1"),
    Wrong("unknown-word", "world: 1\nstates: {think: {fail: 1%}}", "CL201", "unknown key `fail`", ":2:18"),
    Wrong("unknown-state", "world: 1\nstates: {thnk: {fails: 1%}}", "CL301", "no state `thnk`", ":2:10"),
    Wrong("only-decides", "world: 1\nstates: {done: {fails: 1%}}", "CL207", "`done`: it only decides", ":2:10"),
    Wrong("unknown-action", "world: 1\nactions: {inf: {fails: 1%}}", "CL401", "no action `inf`", ":2:11"),
    Wrong("unknown-guard", "world: 1\nguards: {sound: 50%}", "CL103", "no guard `sound`", ":2:10"),
    Wrong("unknown-event", "world: 1\nstates: {confirm: {answers: {maybe: 1}}}", "CL410", "no event `maybe`", ":2:30"),
    Wrong("unknown-tool", "world: 1\nstates: {think: {tools: {dig: 1}}}", "CL405", "no tool `dig`", ":2:26"),
    Wrong("says-nothing", "world: 1\nstates: {act: {tool_calls: 1}}", "CL207", "`tool_calls` says nothing of `act`", ":2:16"),
    Wrong("no-share", "world: 1\nstates: {think: {repeats: 200%}}", "CL209", "a share", ":2:27"),
    Wrong("too-much", "world: 1\nstates: {think: {fails: {TRANSIENT: 60%, CRITICAL: 50%}}}", "CL209", "more than 100%", ":2:25"),
    Wrong("no-category", "world: 1\nstates: {think: {fails: {FATAL: 1%}}}", "CL209", "`FATAL` is not a category", ":2:25"),
    Wrong("no-duration", "world: 1\nstates: {think: {duration: 3}}", "CL209", "a duration", ":2:28"),
    Wrong("upside-down", "world: 1\nstates: {think: {duration: {low: 3s, high: 1s}}}", "CL209", "`low` is more than `high`", ":2:28"),
    Wrong("no-median", "world: 1\nstates: {think: {prompt_tokens: {median: 0, p95: 3}}}", "CL209", "above 0", ":2:33"),
    Wrong("all-zero", "world: 1\nstates: {confirm: {answers: {yes: 0}}}", "CL209", "all weights are 0", ":2:29"),
    Wrong("negative", "world: 1\nprices: {prompt: -1, completion: 1}", "CL209", "a number, 0 or more", ":2:18"),
    Wrong("too-many-calls", "world: 1\nstates: {think: {tool_calls: 1_000_000}}", "CL209", "at most 100", ":2:30"),
    Wrong("half-a-call", "world: 1\nstates: {think: {tool_calls: 0.5}}", "CL209", "whole number", ":2:30"),
    Wrong("no-mapping", "[1]", "CL203", "a world file is a mapping", ":1:1"),
    Wrong("a-tag", "world: !!python/object:os.system 1", "CL", "", ""),
)  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case.id)
def test_a_mistake_is_said_with_its_place(case: Wrong) -> None:
    with pytest.raises(SpecError) as raised:
        read_world(case.text, file="w.yaml", spec=asking().spec)
    found = raised.value.findings[0]
    assert found.code.startswith(case.code)
    assert case.said in found.message
    assert str(found.place).endswith(case.at)


def test_every_mistake_is_said_at_once() -> None:
    text = "world: 1\nstates: {think: {repeats: 2, fails: x, tool_calls: y}}"
    with pytest.raises(SpecError) as raised:
        world_of(read(text, "w.yaml"), asking().spec)
    assert len(raised.value.findings) == 3


def test_a_wrong_key_hides_no_wrong_value() -> None:
    text = "world: 1\ntaks: x\nstates: {think: {fail: 1%, repeats: 2, grows: 3}}"
    with pytest.raises(SpecError) as raised:
        world_of(read(text, "w.yaml"), asking().spec)
    found = [(f.code, f.at) for f in raised.value.findings]
    assert found == [
        ("CL201", "taks"), ("CL201", "states.think.fail"), ("CL209", "states.think.repeats"),
        ("CL209", "states.think.grows"),
    ]  # fmt: skip


# simulations --------------------------------------------------------------------------------


def test_a_machine_is_simulated_at_once_and_says_what_it_assumed() -> None:
    found = simulate(asking(), runs=400)
    said = "\n".join(map(str, found.assumptions))
    assert "think: the action fails: 2% TRANSIENT" in said
    assert "confirm: answers: 45% yes, 45% no, 10% nobody, after a minute" in said
    assert "no price is known" in said
    assert {"completed", "user_unresponsive"} <= set(found.reasons)
    assert not found.bound_violations
    assert "usd" not in found.figures


def test_what_the_world_says_is_not_assumed() -> None:
    world = read_world(WHOLE, file="world.yaml", spec=asking().spec)
    found = simulate(asking(), world, runs=300)
    assert found.figures["usd"].mean > 0
    assert [str(a) for a in found.assumptions if "confirm" in a.states] == []


def test_more_results_than_anybody_can_count_are_refused() -> None:
    mood = {str(n): 1 for n in range(50)}
    fields = {"mood": mood, "sure": mood}
    with pytest.raises(SetupError, match="can be 2,500 things together"):
        simulate(asking(), {"world": 1, "states": {"think": {"results": fields}}}, runs=1)


def test_a_sure_world_leaves_one_way() -> None:
    world: dict[str, Any] = {
        "world": 1,
        "states": {"think": {"fails": {}, "tool_calls": 0}, "confirm": {"answers": {"nobody": 1}}},
    }
    found = simulate(asking(), world, runs=20)
    assert [*found.reasons] == ["user_unresponsive"]
    assert found.figures["waiting"].mean == 300


@guard
def is_sound(steps: int) -> bool:
    """A guard that only Python knows."""
    return steps > 0


OPAQUE = """chartloop: 1
machine: opaque
limits: {steps: 10}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  look: {do: nothing, next: [{when: is_sound(run.steps), to: done}, {to: look}]}
  done: {stop: completed}
"""


def test_an_opaque_guard_needs_a_probability() -> None:
    machine = load(OPAQUE, guards=[is_sound])
    with pytest.raises(SetupError, match="how often it holds is unknown"):
        simulate(machine, runs=10)
    found = simulate(machine, {"world": 1, "guards": {"is_sound": "25%"}}, runs=4_000)
    # the budget is looked at before the edge: nine looks, then the tenth step stops the run
    share = found.reasons["steps_limit"]
    assert share.low < 0.75**9 < share.high


def test_a_wait_that_nobody_answers_has_no_end() -> None:
    text = ASKING.replace(", within: limits.patience, expired: late", "").replace(
        "  late: {stop: user_unresponsive}\n", ""
    ).replace(", patience: 5m", "")  # fmt: skip
    world = {"world": 1, "states": {"confirm": {"answers": {"nobody": 1}}}}
    found = simulate(load(text), world, runs=50)
    assert [*found.kinds] == ["waiting"]


def test_a_run_that_nothing_ends_is_left() -> None:
    text = "chartloop: 1\nmachine: m\nstates:\n  a: {do: nothing, next: a}\n  b: {end: completed}\nignore: [{code: CL304, at: states.b, reason: x}]"
    found = simulate(load(text), runs=3, longest=50)
    assert [*found.reasons] == ["unfinished"]
    assert found.unfinished_runs == 3


# learning -----------------------------------------------------------------------------------


def recorded(machine: Any, count: int, world: Any = None) -> list[RecordedRun]:
    """Simulated runs as recorded ones."""
    journal = MemoryJournal()
    for number in range(count):
        simulated_run(machine, number, world, seed=3, journal=journal)
    found = [by_hand(read_run(journal, row)) for row in by_hand(journal.rows())]
    return [run for run in found if isinstance(run, RecordedRun)]


@pytest.mark.slow("takes seconds")
def test_a_world_is_learnt_back_from_the_runs_that_it_made() -> None:
    machine = asking()
    world = read_world(
        WHOLE.replace("{median: 200, p95: 800}", "[200, 300]"), file="w", spec=machine.spec
    )
    found = learn(machine.chart, recorded(machine, 800, world))
    think, confirm = found.states["think"], found.states["confirm"]
    assert found.runs == 800
    assert found.samples["think"] > 1_000
    assert think.fails is not None
    assert think.fails["TRANSIENT"] == pytest.approx(0.02, abs=0.01)
    assert think.tool_calls is not None
    assert think.tool_calls.mean == pytest.approx(0.6, abs=0.03)
    assert think.completion_tokens is not None
    assert think.completion_tokens.mean == pytest.approx(250, rel=0.02)
    assert think.prompt_tokens == constant(1_000)
    assert think.repeats == pytest.approx(0.1, abs=0.05)
    assert dict(confirm.answers or ())["yes"] == pytest.approx(0.7, abs=0.05)
    assert confirm.delay is not None
    assert confirm.delay.mean == pytest.approx(100, rel=0.05)
    calm: dict[str, Any] = {"world": 1, "states": {"think": {"fails": {}}}}
    told = learn(machine.chart, recorded(machine, 3, calm), smooth=10).states["think"].fails
    assert told is not None
    assert 0 < told["TRANSIENT"] < 0.02


def test_a_learnt_world_says_from_how_much() -> None:
    machine = asking()
    found = simulate(machine, learn_from=recorded(machine, 5), runs=100)
    assert found.learnt == "Learnt from 5 recorded runs of asking."
    assert 0 < found.thin["confirm"] < 30


def test_a_world_is_learnt_from_a_journal_by_its_path(tmp_path: Path) -> None:
    machine, path = asking(), tmp_path / "journal.db"
    journal = SqliteJournal(path)
    for number in range(3):
        simulated_run(machine, number, journal=journal)
    wait(journal.close(), suspends=journal.suspends)
    found = simulate(machine, learn_from=path, runs=100)
    assert found.learnt == "Learnt from 3 recorded runs of asking."


PRICED = """chartloop: 1
machine: priced
model: {name: openai/gpt-4o-mini, input_cost_per_token: 0.001, output_cost_per_token: 0.002}
states:
  ask: {do: infer, next: done}
  done: {stop: completed}
"""


def test_where_the_file_has_a_price_the_costs_of_recorded_runs_are_not_learnt() -> None:
    """An average cost of a call beside the tokens of each would go past the proven bound."""
    script = [{"text": "hm", "usage": {"prompt_tokens": 10, "completion_tokens": 1, "cost": 5.0}}]
    for text, dear in ((PRICED, False), (re.sub(r", input_cost.*}", "}", PRICED), True)):
        machine = load(text)
        run = machine.start("Say it.", script=script)
        run.run()
        assert (simulate(machine, learn_from=run, runs=10).figures["usd"].most == 5) is dear


def test_runs_of_another_machine_are_left_out() -> None:
    assert learn(load("agent").chart, recorded(asking(), 3)).runs == 0


# suggestions --------------------------------------------------------------------------------


@pytest.mark.slow("takes seconds")
def test_the_suggested_limit_stops_as_few_as_was_asked_for() -> None:
    found = simulate(load("agent"), runs=100, at_most=0.02)
    steps = next(s for s in found.suggestions if s.limit == "steps")
    assert steps.now == 50
    assert steps.suggested < 25
    assert steps.stops is not None
    assert steps.stops.value <= 0.02
    assert steps.bound["actions"] == steps.suggested
    below = simulate(load("agent"), runs=2_000, limits={"steps": steps.suggested - 1})
    assert 1 - below.kinds["natural"].value > 0.02


def test_a_limit_that_is_read_in_another_way_is_left_alone() -> None:
    found = simulate(load("moderator"), runs=100, at_most=0.01)
    tokens = next(s for s in found.suggestions if s.limit == "tokens")
    assert tokens.suggested is None
    assert "reads it differently" in tokens.because


def test_a_detour_stops_nothing() -> None:
    assert "context" not in [one.limit for one in limits_watched(load("agent").spec)]


@pytest.mark.parametrize(
    ("value", "up"), [(0.213, 0.22), (47.3, 48), (0, 0.01), (999, 1000), (0.22, 0.23)]
)
def test_a_little_more_in_two_digits(value: float, up: float) -> None:
    assert rounded_up(value) == up


# how it shows itself --------------------------------------------------------------------------


def test_a_simulation_shows_itself_and_obeys_no_text() -> None:
    evil = ASKING.replace("machine: asking", "machine: asking\ntitle: <script>alert(1)</script>")
    found = simulate(load(evil), runs=100, at_most=0.05)
    shown = found._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert "<script" not in shown["text/html"]
    assert "proven bound" in shown["text/html"]
    assert repr(found).startswith("<Simulation of asking: 100 runs, mostly ")
    assert "95% confidence" in shown["text/html"]
    assert len(found.rows()) == 100
    told = found.to_dict()
    assert told["figures"]["actions"]["bound"] == 30
    assert told["assumptions"]
    assert World() == World()


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("name", sorted(set(shipped_machines()) - {"lifecycle"}))
def test_every_shipped_machine_is_simulated_at_once(name: str) -> None:
    found = simulate(load(name), runs=150)
    assert found.runs == 150
    assert found.bound_violations == ()
    assert found.assumptions


# frames and plots ---------------------------------------------------------------------------


@pytest.mark.extra("pandas", install="pip install pandas")  # noqa: S610 - no Django
def test_a_frame_has_a_row_for_each_run() -> None:
    found = simulate(asking(), runs=30)
    frame = found.frame()
    assert list(frame.index) == [*range(30)]
    assert frame["tokens"].sum() == sum(run.tokens for run in found.sample.runs)
    assert dict(frame["reason"].value_counts()) == {n: s.count for n, s in found.reasons.items()}


@pytest.mark.slow("takes seconds")
@pytest.mark.extra("matplotlib", install='pip install -e ".[plots]"')  # noqa: S610 - no Django
def test_plots_have_the_figures_and_are_the_same_each_time(tmp_path: Path) -> None:
    found = simulate(asking(), runs=200)
    texts = [found.plot(tmp_path / name)[0].read_text("utf-8") for name in ("a.svg", "b.svg")]
    assert texts[0] == texts[1]
    top, share = next(iter(found.reasons.items()))
    calls = found.figures["requests"]
    for said in (
        "asking, 200 simulated runs, seed 0", top, f"{share.count:,}  ({share.value:.2%})",
        f"median {calls.median:.0f}", "proven bound", "What runs cost", "How long runs take",
    ):  # fmt: skip
        assert said in texts[0]
    files = found.plot(tmp_path / "all")
    assert [f.name for f in files] == [
        "reasons.svg", "requests.svg", "tokens.svg", "elapsed.svg",
    ]  # fmt: skip


@pytest.mark.extra("matplotlib", install='pip install -e ".[plots]"')  # noqa: S610 - no Django
def test_runs_that_are_all_alike_and_call_nobody_are_drawn(tmp_path: Path) -> None:
    text = (
        "chartloop: 1\nmachine: m\nstates:\n  a: {do: nothing, next: b}\n  b: {stop: completed}\n"
    )
    files = simulate(load(text), runs=5).plot(tmp_path / "plots")
    assert [f.name for f in files] == ["reasons.svg"]


# children -----------------------------------------------------------------------------------

PARENT = """chartloop: 1
machine: parent
model: {name: scripted, context_window: 8_000}
limits: {tokens: 10_000}
rules: [{when: usage.total_tokens >= limits.tokens, stop: token_limit}]
machines:
  kid:
    model: {name: scripted, context_window: 8_000}
    limits: {tokens: 5_000}
    rules: [{when: usage.total_tokens >= limits.tokens, stop: token_limit}]
    states: {a: {do: infer, next: [{when: len(last.text) > 3, to: d}, {to: a}]}, d: {stop: completed}}
states:
  ask_kid: {do: run_machine, with: {machine: kid, task: x}, next: done}
  done: {stop: completed}
"""


def test_children_are_said_not_to_be_played() -> None:
    found = simulate(load(PARENT), {"world": 1, "states": {"ask_kid": {"calls": 2}}}, runs=50)
    assert (found.unplayed, found.bound_violations) == (("ask_kid",), ())
    said = str(found)
    assert "not played: the child machines of ask_kid" in said
    assert found.to_dict()["unplayed"] == ["ask_kid"]
    assert simulate(asking(), runs=5).unplayed_note() == ""


def test_a_child_that_spends_more_than_it_could_is_named_where_the_bound_is_passed() -> None:
    found = simulate(load(PARENT), {"world": 1, "states": {"ask_kid": {"calls": 100}}}, runs=5)
    assert found.bound_violations
    assert (
        "the children of `ask_kid` are not played, and no limit held them"
        in found.bound_violations[0]
    )


# actions that ask the model for themselves ---------------------------------------------------

SUMMARIZING = """chartloop: 1
machine: summarizing
model: {name: scripted, input_cost_per_token: 0.001, output_cost_per_token: 0.01}
limits: {steps: 3}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  read: {do: receive, next: sum_up}
  sum_up: {do: sum_up, failed: done, next: sum_up}
  done: {stop: completed}
"""


def summarizing() -> Any:
    """A machine with a made-up action that asks the model for a text of its own."""
    made = ActionSpec("sum_up", None, uses=frozenset({"model"}), declares=ASKS_MODEL)
    check_traits(made)
    return load(SUMMARIZING, actions=[made])


def test_an_action_that_asks_the_model_for_itself_spends_its_call() -> None:
    found = simulate(summarizing(), runs=200)
    for run in found.sample.runs:
        assert run.requests == run.actions - 1  # all but the `receive`
    assert found.spread("tokens").most == 700 * found.spread("requests").most
    assert found.spread("usd").most == pytest.approx(2.5 * found.spread("requests").most)
    assert "sum_up: a model call sends 500 tokens, and gets 200" in map(str, found.assumptions)
    assert not found.bound_violations


def test_a_world_says_what_the_call_of_such_an_action_takes() -> None:
    sizes: dict[str, Any] = {"fails": {}, "prompt_tokens": 90, "completion_tokens": 10}
    world = {"world": 1, "states": {"sum_up": sizes}}
    found = simulate(summarizing(), world, runs=20)
    assert found.spread("tokens").most == 100 * found.spread("requests").most == 200
