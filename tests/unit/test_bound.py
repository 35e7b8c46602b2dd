"""The bound, one construct of the language after the other: what it says, and that runs reach it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import SpecError, load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.analysis.proofs.bound import Assume, Bound, bound
from chartloop.analysis.proofs.bound.unbounded_loops import uncut_loops
from chartloop.api import Machine
from chartloop.api.bounds import AT_START
from chartloop.catalog import shipped_machines
from chartloop.core.errors import LimitError, SetupError
from tests.exploring import adversaries, built, playing

MODEL = (
    "model: {name: scripted, context_window: 5, max_tokens: 2, input_cost_per_token: 0.5,"
    " output_cost_per_token: 2.0}\n"
)
STEPS = "{when: run.steps >= limits.steps, stop: steps_limit}"
LOOP = "states: {a: {do: infer, failed: next, next: a}}\n"


class Case(NamedTuple):
    """A machine, and what it comes to at most. All figures are reached, but those in `above`."""

    id: str
    body: str
    most: dict[str, float | None]
    above: tuple[str, ...] = ()


def machine(body: str) -> Machine:
    return built(f"chartloop: 1\nmachine: m\ntools: [poke]\n{MODEL}{body}")


def of(body: str, **given: Any) -> Bound:
    return bound(machine(body).chart, assume=Assume(calls_per_reply=2), **given)


CASES = [
    Case("a-path", "states: {a: {do: infer, next: b}, b: {do: infer, next: c}, c: {stop: completed}}",
         {"actions": 2, "requests": 2, "tokens": 10, "usd": 11.0, "waiting": 0}),
    Case("a-rule-over-steps", f"limits: {{steps: 7}}\nrules: [{STEPS}]\n{LOOP}",
         {"actions": 7, "requests": 7, "tokens": 35}),
    Case("a-rule-that-must-be-passed", f"limits: {{steps: 7}}\nrules: [{{when: run.steps > limits.steps, stop: steps_limit}}]\n{LOOP}",
         {"actions": 8, "requests": 8}),
    Case("arithmetic-in-a-guard", f"limits: {{steps: 7}}\nrules: [{{when: 2 * run.steps + 1 >= limits.steps, stop: steps_limit}}]\n{LOOP}",
         {"actions": 3}),
    Case("a-guard-joined-by-or", f"limits: {{steps: 4}}\nrules: [{{when: 'whim(1) or run.steps >= limits.steps', stop: steps_limit}}]\n{LOOP}",
         {"actions": 4}),
    Case("a-guard-joined-by-and-bounds-nothing", f"limits: {{steps: 4}}\nrules: [{{when: 'whim(1) and run.steps >= limits.steps', stop: steps_limit}}]\n{LOOP}",
         {"actions": None, "requests": None}),
    Case("a-limit-that-is-off", f"limits: {{steps: null}}\nrules: [{STEPS}]\n{LOOP}", {"actions": None}),
    Case("a-limit-of-zero", f"limits: {{steps: 0}}\nrules: [{STEPS}]\n{LOOP}", {"actions": 0, "requests": 0}),
    Case("calls-that-fail-are-not-counted", f"limits: {{calls: 3}}\nrules: [{{when: usage.llm_calls >= limits.calls, stop: custom}}]\n{LOOP}",
         {"actions": None, "requests": None, "tokens": 15}),
    Case("calls-where-a-failure-stops", "limits: {calls: 3}\nrules: [{when: usage.llm_calls >= limits.calls, stop: custom}]\nstates: {a: {do: infer, next: a}}\n",
         {"actions": 3, "requests": 3, "tokens": 15, "usd": 16.5}),
    Case("tokens-and-the-last-call", "limits: {tokens: 12}\nrules: [{when: usage.total_tokens >= limits.tokens, stop: token_limit}]\nstates: {a: {do: infer, next: a}}\n",
         {"tokens": 16, "requests": 12}),
    Case("dollars-and-the-last-call", "limits: {usd: 3.5}\nrules: [{when: usage.cost >= limits.usd, stop: cost_limit}]\nstates: {a: {do: infer, next: a}}\n",
         {"usd": 9.0, "requests": 8}, above=("usd", "requests")),
    Case("visits-in-a-decision", "limits: {turns: 4}\nstates:\n  d: {ask: 'Again?', when: run.visits.a < limits.turns, then: a, else: z}\n  a: {do: infer, failed: next, next: b}\n  b: {do: nothing, next: d}\n  z: {stop: completed}\n",
         {"actions": 8, "requests": 4}),
    Case("two-budgets-one-for-each-way", "limits: {few: 2}\nstates:\n  a: {do: infer, failed: next, next: d}\n  d:\n    ask: 'Ok?'\n    when: last.ok\n    then: good\n    else: bad\n  good: {ask: 'More?', when: usage.llm_calls >= limits.few, then: z, else: a}\n  bad: {ask: 'More?', when: errors.total >= limits.few, then: z, else: a}\n  z: {stop: completed}\n",
         {"actions": 3, "requests": 3}),
    Case("a-variable-that-is-counted-up", "limits: {few: 3}\nvars: {n: 0}\nstates:\n  a: {do: infer, failed: next, set: {vars.n: vars.n + 1}, next: d}\n  d: {ask: 'More?', when: vars.n >= limits.few, then: z, else: a}\n  z: {stop: completed}\n",
         {"actions": 3}),
    Case("a-variable-that-is-set-back", "limits: {few: 3}\nvars: {n: 0}\nstates:\n  a: {do: infer, failed: next, set: {vars.n: vars.n + 1}, next: d}\n  d: {ask: 'More?', when: vars.n >= limits.few, then: z, else: b}\n  b: {do: nothing, set: {vars.n: 0}, next: a}\n  z: {stop: completed}\n",
         {"actions": None}),
    Case("a-retry", "states: {a: {do: infer, retry: {times: 3, base: 2s, most: 1s}, next: z}, z: {stop: completed}}",
         {"actions": 4, "requests": 4, "waiting": 14.0, "tokens": 5}),
    Case("a-retry-as-the-provider-asks", "states: {a: {do: infer, retry: {times: 3, base: 2s, most: 5s}, next: z}, z: {stop: completed}}",
         {"actions": 4, "requests": 4, "waiting": 18.0}, above=("waiting",)),
    Case("a-retry-that-no-provider-delays", "states: {a: {do: tool, with: {name: poke}, retry: {times: 1, base: 2s, on: [TRANSIENT, RECOVERABLE]}, next: z}, z: {stop: completed}}",
         {"actions": 2, "requests": 0, "waiting": 2.0}),
    Case("a-retry-within-a-budget", f"limits: {{steps: 6}}\nrules: [{STEPS}]\nstates: {{a: {{do: infer, retry: {{times: 3, base: 0s}}, next: b}}, b: {{do: nothing, next: a}}}}\n",
         {"actions": 6, "requests": 5}),
    Case("a-wait", "states: {w: {on: {yes: z}, within: 30s, expired: z}, z: {stop: completed}}", {"actions": 0, "waiting": 30.0}),
    Case("a-wait-without-a-deadline", "states: {w: {on: {yes: z}}, z: {stop: completed}}", {"actions": 0, "waiting": None}),
    Case("a-wait-in-a-loop-that-time-cuts", "limits: {time: 50s}\nrules: [{when: run.elapsed >= limits.time, stop: time_limit}]\nstates: {w: {on: {yes: w}, within: 30s, expired: w}}\n",
         {"waiting": 80.0}, above=("waiting",)),
    Case("a-wait-in-a-loop-with-work", f"limits: {{steps: 3}}\nrules: [{STEPS}]\nstates: {{a: {{do: nothing, next: w}}, w: {{on: {{yes: a}}, within: 30s, expired: a}}}}\n",
         {"actions": 3, "waiting": 60.0}),
    Case("a-back-off", f"limits: {{steps: 4}}\nrules: [{STEPS}]\nstates: {{a: {{do: back_off, with: {{base: 8s, most: 8s}}, next: a}}}}\n",
         {"actions": 4, "waiting": 32.0}),
    Case("a-detour-that-returns", f"limits: {{steps: 5}}\nrules: [{STEPS}, {{when: whim(1), to: side, before: [a]}}]\nstates: {{a: {{do: infer, failed: next, next: b}}, b: {{do: nothing, next: a}}, side: {{do: infer, failed: next, next: return}}}}\n",
         {"actions": 5, "requests": 4}),
    Case("a-detour-without-a-budget", "limits: {few: 2}\nrules: [{when: whim(1), to: side}]\nstates:\n  d: {ask: 'More?', when: run.visits.a < limits.few, then: a, else: z}\n  a: {do: infer, failed: next, next: d}\n  side: {do: infer, failed: next, next: return}\n  z: {stop: completed}\n",
         {"actions": 5, "requests": 5}),
    Case("a-fork-cuts-by-any-branch", "limits: {few: 3}\nstates:\n  a: {do: infer, failed: next, next: f}\n  f: {all: [x, y]}\n  x: {ask: 'Q?', when: run.visits.a >= limits.few, then: z, else: a}\n  y: {ask: 'Q?', when: whim(1), then: z, else: a}\n  z: {stop: completed}\n",
         {"actions": 3}),
    Case("tools-of-one-reply", f"limits: {{steps: 6}}\nrules: [{STEPS}]\nstates: {{a: {{do: infer, next: b}}, b: {{do: call_tools, next: a}}}}\n",
         {"actions": 6, "requests": 3, "tool_calls": 6}),
    Case("the-first-tool-of-a-reply", f"limits: {{steps: 6}}\nrules: [{STEPS}]\nstates: {{a: {{do: infer, next: b}}, b: {{do: call_tool, next: a}}}}\n",
         {"tool_calls": 3}),
    Case("tool-calls-and-the-last-batch", "limits: {tools: 3}\nrules: [{when: usage.tool_calls >= limits.tools, stop: custom}]\nstates: {a: {do: tool, with: {name: poke}, next: b}, b: {do: infer, next: c}, c: {do: call_tools, next: a}}\n",
         {"tool_calls": 4}),
    Case("the-epilogue-is-counted", f"limits: {{steps: 3}}\non_stop: wrap\nrules: [{STEPS}]\nstates: {{a: {{do: infer, failed: next, next: a}}, wrap: {{do: infer, next: over}}, over: {{end: by_reason}}}}\n",
         {"actions": 4, "requests": 4, "tokens": 20}),
    Case("a-signal-that-a-decision-judges", "limits: {steps: 3}\nrules: [{when: run.steps >= limits.steps, signal: steps_limit}]\nstates: {a: {do: infer, failed: next, next: d}, d: {ask: 'Stop?', when: signals.count > 0, then: z, else: a}, z: {stop: highest}}\n",
         {"actions": 3}),
    Case("a-continuation-puts-a-stop-off", f"limits: {{steps: 3}}\nrules: [{STEPS}]\nstates: {{a: {{do: infer, failed: next, next: b}}, b: {{do: continue_run, with: {{times: 1}}, next: c}}, c: {{do: nothing, next: a}}}}\n",
         {"actions": 5, "requests": 2}, above=("actions",)),
    Case("upkeep-while-a-stop-is-put-off", f"limits: {{steps: 3}}\nrules: [{STEPS}]\nstates: {{a: {{do: continue_run, next: b}}, b: {{do: nothing, next: b}}}}\n",
         {"actions": None}),
    Case("two-loops-of-which-one-is-taken", "limits: {few: 3}\nstates:\n  d: {ask: 'Q?', when: whim(1), then: a, else: b}\n  a: {do: infer, failed: next, next: [{when: run.visits.a >= limits.few, to: z}, a]}\n  b: {do: infer, failed: next, next: [{when: run.visits.b >= limits.few, to: z}, b]}\n  z: {stop: completed}\n",
         {"actions": 3, "requests": 3}),
    Case("a-child-has-what-is-left", f"limits: {{tokens: 6}}\nrules: [{{when: usage.total_tokens >= limits.tokens, stop: token_limit}}]\nmachines:\n  kid:\n    {MODEL.strip()}\n    limits: {{tokens: 100}}\n    rules: [{{when: usage.total_tokens >= limits.tokens, stop: token_limit}}]\n    states: {{t: {{do: infer, next: t}}}}\nstates: {{a: {{do: run_machine, with: {{machine: kid, task: x}}, next: a}}}}\n",
         {"tokens": 10}),
    Case("a-guard-that-leaves-it-to-the-time", "limits: {few: 3, time: 50s}\nstates:\n  a: {do: infer, failed: next, next: w}\n  w: {on: {yes: d}, within: 30s, expired: d}\n  d: {ask: 'Q?', when: run.visits.a >= limits.few and not (run.elapsed >= limits.time and whim(1)), then: z, else: t}\n  t: {ask: 'Late?', when: run.elapsed >= limits.time, then: z, else: a}\n  z: {stop: completed}\n",
         {"actions": 3}),
    Case("on-error-leads-back", f"limits: {{steps: 3}}\non_error: a\nrules: [{STEPS}]\nstates: {{a: {{do: infer, next: z}}, z: {{stop: completed}}}}\n",
         {"actions": 3}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_bound(case: Case) -> None:
    found = of(case.body)
    assert {name: found[name].value for name in case.most} == case.most, str(found)


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.id != "a-limit-that-is-off"], ids=lambda case: case.id
)
def test_a_run_reaches_it(case: Case) -> None:
    wanted = {n: v for n, v in case.most.items() if v is not None and n not in case.above}
    asyncio.run(_reached(machine(case.body), wanted))


async def _reached(machine: Machine, wanted: dict[str, float]) -> None:
    best = dict.fromkeys(wanted, 0.0)
    for choices in adversaries(3, 150):
        _, spent = await playing(machine, choices)
        best = {name: max(most, spent._asdict()[name]) for name, most in best.items()}
    assert best == pytest.approx(wanted)


# words --------------------------------------------------------------------------------------


def test_a_loop_that_nothing_cuts_is_named() -> None:
    found = of(LOOP)
    assert found.loop == ("a",)
    assert found["actions"].why == "no budget cuts the loop a → a"
    assert found["tokens"].value is None


def test_a_loop_is_named_with_the_loops_inside_it() -> None:
    """What costs may be in one of those: found by the law of loops, seed 1, 1,000 examples."""
    text = """\
chartloop: 1
machine: m
model: {name: scripted}
vars: {things: {type: 'list[str]', value: []}}
states:
  begin: {do: nothing, next: each}
  each: {for: vars.thing, in: [a], each: ask, then: again}
  ask: {do: infer, set: {vars.things: {append: '"c"'}}, next: each}
  again: {do: nothing, next: begin}
"""
    chart = built(text).chart
    found = bound(chart, brief=True)
    assert "ask" in found.loop
    assert found.loop in [*uncut_loops(chart)]
    assert found["actions"].why.endswith(" → ".join((*found.loop, found.loop[0])))


def test_what_is_not_known_is_said() -> None:
    text = "chartloop: 1\nmachine: m\nmodel: {name: openai/x}\nstates: {a: {do: infer, next: z}, z: {stop: completed}}"
    found = bound(built(text).chart)
    assert found["tokens"].text == "at most 1 model call"
    assert found["tokens"].why.startswith("nothing says how large a model call is: give `context_")
    assert "price is not known" in found["usd"].why
    told = bound(built(text).chart, assume=Assume(tokens_per_call=100, prices=(0.01, 0.02)))
    assert (told["tokens"].value, told["usd"].value) == (100, 2.0)


FORKED = """chartloop: 1
machine: m
model: {name: scripted}
limits: {tokens: 1}
vars: {things: {type: "list[str]", value: []}}
states:
  s0: {do: infer, next: fork}
  fork: {all: [left, right]}
  left: {ask: "Q?", when: usage.total_tokens >= limits.tokens, then: done, else: s0}
  right: {ask: "Q?", when: usage.total_tokens >= limits.tokens, then: done, else: s0}
  s4: {for: vars.s4, each: s4_do, then: s4_after, in: vars.things}
  s4_do: {do: infer, next: s4, set: {vars.things: {append: '"c"'}}, failed: s4}
  s4_after: {do: nothing, next: s0}
  done: {stop: completed}
"""


def test_what_only_things_of_unknown_size_end_has_no_figure() -> None:
    found = bound(built(FORKED).chart)
    for name in ("actions", "requests"):
        assert found[name].value is None
        assert found[name].why.startswith("what ends it counts things of unknown size: give `cont")
    told = bound(built(FORKED).chart, assume=Assume(tokens_per_call=100, calls_per_reply=4))
    assert told["actions"].value is not None


def test_how_far_past_a_limit() -> None:
    (steps,) = of(f"limits: {{steps: 7}}\nrules: [{STEPS}]\n{LOOP}").overshoots
    assert (steps.past, steps.where, steps.text) == (0, "after every action", "never past it")
    body = "limits: {tokens: 12}\nrules: [{when: usage.total_tokens >= limits.tokens, stop: token_limit}]\n"
    (tokens,) = of(body + "states: {a: {do: infer, next: a}}\n").overshoots
    assert (tokens.past, tokens.text) == (4, "at most 4 past it")


def test_which_stops_report_and_save() -> None:
    found = load("moderator").bound()
    assert len({w.to for w in found.wraps}) == len(found.wraps)
    wraps = {w.to: w for w in found.wraps}
    assert {(w.reports, w.saves) for w in wraps.values() if w.to.startswith("stop_")} == {
        ("always", "always")
    }
    assert wraps["stop_tokens"].costs == {"actions": 3}


def test_children_and_what_they_are_given() -> None:
    told = load("team").bound().children["agent"]
    assert told["actions"] == 10
    assert told["limits"]["tokens"] == 20_000


def test_the_witness_can_be_painted() -> None:
    agent = load("agent")
    edges = agent.bound()["actions"].witness.edges
    assert sum(edges.values()) >= 48
    known = {t.origin for t in agent.chart.step.transitions()}
    assert edges.keys() <= known


def test_a_certificate() -> None:
    agent = load("agent")
    found = agent.bound(limits={"steps": 12})
    data = json.loads(found.certificate("9.9"))
    assert data["hash"] == agent.hash
    assert data["limits"]["steps"] == 12
    assert data["bounds"]["actions"]["value"] == 12
    assert data["chartloop"] == "9.9"
    assert data["assumptions"]


def test_a_run_knows_its_certificate(tmp_path: Path) -> None:
    agent = load("agent")
    run = agent.start("x", script=["4"], journal=SqliteJournal(tmp_path / "j.db"))
    assert run.certificate is None  # nothing is stored before it begins
    run.run()
    found = run.certificate
    assert found is not None
    assert (found["hash"], found["bounds"]["actions"]["value"]) == (agent.hash, 50)
    assert agent.start("x", script=["4"]).certificate is None


# requiring a bound --------------------------------------------------------------------------


def test_a_run_that_could_cost_more_is_not_started() -> None:
    agent = load("agent")
    with pytest.raises(SetupError, match="requests: at most 40, and 30 is wanted; lower `limits"):
        agent.start("x", script=["4"], require_bound={"calls": 30})
    run = agent.start("x", script=["4"], limits={"steps": 20}, require_bound={"calls": 30})
    assert run.run().success


def test_what_cannot_be_required() -> None:
    agent = load("agent")
    with pytest.raises(SetupError, match="price is not known"):
        agent.start("x", script=["4"], require_bound={"usd": 2})
    prices = {"input_cost_per_token": 1e-7, "output_cost_per_token": 4e-7}
    assert agent.start("x", script=["4"], settings=prices, require_bound={"usd": 2}).run().success
    with pytest.raises(LimitError, match="no bound on `dollars`"):
        agent.start("x", script=["4"], require_bound={"dollars": 2})
    with pytest.raises(LimitError, match="no limit `stepz`"):
        agent.bound(limits={"stepz": 2})


def test_bounds_are_remembered() -> None:
    agent = load("agent")
    assert agent.bound(limits={"steps": 12}) is agent.bound(limits={"steps": 12})
    assert agent.bound(limits={"steps": 13}) is not agent.bound(limits={"steps": 12})


@pytest.mark.parametrize("name", sorted(shipped_machines()))
def test_the_proof_for_a_certificate_is_short(name: str) -> None:
    assert not bound(load(name).chart, effort=AT_START // 2, brief=True).unknown


# hard machines ------------------------------------------------------------------------------


def dense(states: int, edges: int, rule: str = STEPS) -> str:
    """A machine of so many states in which each leads to several others."""
    each = edges // states
    lines = [
        f"chartloop: 1\nmachine: dense\nmodel: {{name: scripted}}\nlimits: {{steps: 50}}\nrules: [{rule}]\nstates:"
    ]
    for n in range(states):
        ways = ", ".join(
            f"{{when: run.visits.s{(n * 7 + k) % states} >= {k + 2}, to: s{(n * 13 + k * 31) % states}}}"
            for k in range(each - 1)
        )
        lines.append(f"  s{n}: {{do: infer, failed: next, next: [{ways}, s{(n + 1) % states}]}}")
    return "\n".join(lines)


@pytest.mark.slow("takes seconds")
def test_a_thousand_states_are_answered_or_unknown() -> None:
    found = bound(built(dense(1_000, 5_000)).chart, brief=True)
    assert found.unknown or found["actions"].value == 50


def test_too_much_is_unknown_with_a_reason() -> None:
    found = bound(built(dense(60, 300)).chart, effort=1_000)
    assert found.unknown == "the proof takes more steps than it may"
    assert "unknown" in str(found)
    assert found.reasons_to_refuse({"actions": 3}) == (
        "actions: the proof takes more steps than it may",
    )


def test_a_file_with_a_mistake_has_no_bound() -> None:
    with pytest.raises(SpecError):
        load("chartloop: 1\nmachine: m\nstates: {a: {do: infer, next: nowhere}}\n").bound()


def test_what_no_expression_reads_needs_no_proof_of_its_own() -> None:
    machine = load(
        "chartloop: 1\nmachine: m\nmodel: {name: scripted}\n"
        'vars: {topic: "", rounds: 3}\n'
        'instructions: "About {{ vars.topic }}."\n'
        "states:\n  ask: {do: infer, failed: next, next: again}\n"
        "  again: {ask: Done?, when: run.visits.ask >= vars.rounds, then: done, else: ask}\n"
        "  done: {stop: completed}\n"
    )
    first = machine.bound(vars={"topic": "tea"})
    assert machine.bound(vars={"topic": "bread"}) is first
    more = machine.bound(vars={"topic": "tea", "rounds": 5})
    assert (first["actions"].value, more["actions"].value) == (3, 5)


def test_in_a_prompt_a_bound_is_a_line_and_a_figure_a_sentence() -> None:
    found = load("agent").bound()
    assert repr(found).startswith(
        "<Bound of agent: actions 50, requests 40, tool calls 784, tokens"
    )
    assert str(found["actions"]) == "actions at most 50 by run.steps >= limits.steps"
    assert str(found["tool_calls"]).startswith("tool_calls at most 784")


def test_a_figure_that_there_is_not_says_which_there_are() -> None:
    with pytest.raises(KeyError, match="no figure `dollars`; there are actions, requests"):
        load("agent").bound()["dollars"]
