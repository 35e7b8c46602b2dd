"""What the checker finds in the structure of a machine, and what looks like it and is right."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from interlock.api import find_faults
from interlock.core.specs import ActionSpec, Effect
from interlock.machine.build import Chart
from tests.found import END, Fault, expect, found, spec, whole

FREE = ActionSpec("free", None, effect=Effect.PURE)
J = "  j: {do: nothing, next: z}\n"
BUDGET = "limits: {n: 5}\nrules: [{when: run.steps >= limits.n, stop: steps_limit}]\n"
LOOP = "states:\n  a: {do: infer, next: [{when: last.wants_memory, to: a}, z]}\n" + END
KID = "machines: {kid: {%s}}\n"


class Right(NamedTuple):
    """A file in which nothing is wrong, though it looks like one in which something is."""

    id: str
    body: str


FAULTS = [
    Fault("never-reached", "states:\n  a: {do: nothing, next: z}\n  «b»: {do: nothing, next: z}\n" + END, "IL304", "state `b` is never reached", "remove it"),
    Fault("island-that-goes-round", "states:\n  a: {do: nothing, next: z}\n  «b»: {do: nothing, next: [{when: last.ok, to: c}, z]}\n  c: {do: nothing, next: b}\n" + END, "IL304", "`b` is never reached, nor `c` behind it"),
    Fault("stop-that-nobody-raises", "states:\n  a: {do: nothing, next: z}\n  «s»: {stop: token_limit}\n" + END, "IL304", "`s`"),
    Fault("dead-end", "states:\n  a: {do: nothing, next: [{when: last.ok, to: z}, b]}\n  «b»: {do: nothing}\n" + END, "IL305", "`b` has no way on"),
    Fault("wait-for-nothing", "states:\n  a: {do: nothing, next: [{when: last.ok, to: z}, b]}\n  «b»: {on: {}}\n" + END, "IL305", "`b` has no way on"),
    Fault("no-way-to-an-end", "states:\n  «a»: {do: nothing, next: b}\n  b: {do: nothing, next: a}\n", "IL319", "from `a` no end can be reached, nor from `b`"),
    Fault("branches-that-never-meet", "states:\n  f: {«all»: [p, q]}\n  p: {next: x}\n  q: {next: y}\n  x: {do: nothing, next: z}\n  y: {do: nothing, next: z}\n" + END, "IL310", "the branches of `f`"),
    Fault("branch-that-goes-round-the-join", "states:\n  f: {«all»: [p, q]}\n  p: {ask: P?, when: last.ok, then: j, else: k}\n  q: {next: j}\n  k: {do: nothing, next: z}\n" + J + END, "IL310", "the branches of `f`"),
    Fault("branch-with-an-action", "states:\n  f: {all: [p, q]}\n  «p»: {do: nothing, next: j}\n  q: {next: j}\n" + J + END, "IL311", "`p` stands in a branch of `f` and has an action"),
    Fault("action-behind-a-branch", "states:\n  f: {all: [p, q]}\n  p: {next: x}\n  q: {next: j}\n  «x»: {do: nothing, next: j}\n" + J + END, "IL311", "`x` stands in a branch"),
    Fault("branch-with-a-wait", "states:\n  f: {all: [p, q]}\n  «p»: {on: {yes: j}}\n  q: {next: j}\n" + J + END, "IL311", "a wait"),
    Fault("branch-with-set", "vars: {n: 0}\nstates:\n  f: {all: [p, q]}\n  «p»: {set: {vars.n: 1}, next: j}\n  q: {next: j}\n" + J + END, "IL311", "`set`"),
    Fault("branch-with-an-edge-that-sets", "vars: {n: 0}\nstates:\n  f: {all: [p, q]}\n  «p»: {next: {to: j, set: {vars.n: 1}}}\n  q: {next: j}\n" + J + END, "IL311", "an edge with `set`"),
    Fault("branch-with-an-edge-that-stops", "states:\n  f: {all: [p, q]}\n  «p»: {ask: P?, when: last.ok, then: {to: z, stop: custom}, else: j}\n  q: {next: j}\n" + J + END, "IL311", "an edge with `stop`"),
    Fault("fork-in-a-branch", "states:\n  f: {all: [p, q]}\n  «p»: {all: [q]}\n  q: {next: j}\n" + J + END, "IL311", "another `all`"),
    Fault("stop-that-goes-on", "states:\n  a: {do: nothing, next: [{when: last.ok, to: s}, z]}\n  «s»: {stop: custom, next: a}\n" + END, "IL312", "after the stop at `s`"),
    Fault("report-that-goes-round", "on_stop: r\nstates:\n  a: {do: nothing, next: z}\n  «r»: {do: report, next: [{when: last.ok, to: e}, r]}\n  e: {end: by_reason}\n" + END, "IL312", "goes round in a circle: r → r"),
    Fault("stop-edge-that-goes-round", "states:\n  «a»: {do: nothing, next: [{when: last.ok, to: a, stop: custom}, z]}\n" + END, "IL312", "after the stop at `a`"),
    Fault("on-error-that-stops-and-goes-round", "on_error: {to: r, stop: error}\nstates:\n  a: {do: nothing, next: z}\n  «r»: {do: report, next: k}\n  k: {do: save_run, next: r}\n" + END, "IL312", "after the stop at `r` it goes round in a circle: r → k → r"),
    Fault("wait-in-an-epilogue-that-goes-round", "states:\n  a: {do: nothing, next: [{when: last.ok, to: s}, z]}\n  «s»: {stop: custom, next: w}\n  w: {on: {yes: z}, within: 1h, expired: w}\n" + END, "IL312", "w → w"),
    Fault("on-error-without-a-reason", "on_error: r\nstates:\n  a: {do: nothing, next: z}\n  r: {do: report, next: e}\n  «e»: {end: by_reason}\n" + END, "IL314", "`e`"),
    Fault("return-in-the-main-line", "states:\n  a: {do: nothing, next: [{when: last.ok, to: «return»}, z]}\n" + END, "IL313", "entered other than by a detour"),
    Fault("return-without-a-detour", "on_stop: r\nstates:\n  a: {do: nothing, next: z}\n  r: {do: report, next: [{when: last.ok, to: e}, {to: «return»}]}\n  e: {end: by_reason}\n" + END, "IL313", "entered by no detour"),
    Fault("end-without-a-reason", "states:\n  a: {do: nothing, next: e}\n  «e»: {end: by_reason}\n", "IL314", "`e` can be reached with no reason"),
    Fault("detour-to-an-end-without-a-reason", BUDGET.replace("stop: steps_limit", "to: e") + "states:\n  a: {do: nothing, next: z}\n  «e»: {end: by_reason}\n" + END, "IL314", "`e`"),
    Fault("same-guard-twice", "states:\n  a: {do: nothing, next: [{when: run.steps > 3, to: z}, «{when: run.steps  >  3, to: a}», z]}\n" + END, "IL307", "one before it holds whenever it does"),
    Fault("guard-that-never-holds", "states:\n  a: {do: nothing, next: [«{when: false, to: a}», z]}\n" + END, "IL307", "its guard never holds"),
    Fault("else-of-what-always-holds", "states:\n  a: {ask: Q?, when: true, then: z, else: «z»}\n" + END, "IL307", "one before it holds"),
    Fault("rule-twice", "limits: {n: 5}\nrules: [{when: run.steps >= limits.n, stop: custom}, «{when: run.steps >= limits.n, stop: custom}»]\n", "IL307", "the same as `rules.0`"),
    Fault("rule-that-always-holds", "rules: [{when: «true», stop: custom}]\n", "IL307", "always holds"),
    Fault("only-edge-with-a-guard", "states:\n  a: {do: nothing, «next»: {when: last.ok, to: z}}\n" + END, "IL309", "the only edge"),
    Fault("loop-of-one", "states:\n  a: {do: nothing, next: [{when: last.ok, to: z}, p]}\n  «p»: {next: p}\n" + END, "IL308", "p → p"),
    Fault("loop-of-decisions", "states:\n  a: {do: nothing, next: p}\n  «p»: {ask: P?, when: last.ok, then: z, else: q}\n  q: {ask: Q?, when: last.ok, then: z, else: p}\n" + END, "IL308", "p → q → p"),
    Fault("paid-loop", LOOP.replace("  a:", "  «a»:"), "IL316", "`a` can be done over and over"),
    Fault("paid-loop-of-a-state-that-reports-too", "on_stop: r\nstates:\n  «a»: {do: infer, failed: r, next: z}\n  r: {do: report, failed: a, next: e}\n  e: {end: error}\n" + END, "IL316", "no budget"),
    Fault("paid-loop-that-only-time-ends", "limits: {t: 5m}\nrules: [{when: run.elapsed >= limits.t, stop: time_limit}]\n" + LOOP.replace("  a:", "  «a»:"), "IL316", "no budget"),
    Fault("paid-loop-with-a-budget-elsewhere", "limits: {n: 5}\nrules: [{when: run.steps >= limits.n, stop: steps_limit, at: [b]}]\n" + LOOP.replace("  a:", "  «a»:").replace("z]}", "b]}") + "  b: {do: nothing, next: z}\n", "IL316", "no budget"),
    Fault("limit-without-a-reader", "limits: {«n»: 5}\n", "IL315", "limit `n`"),
    Fault("limit-only-in-a-label", "limits: {«n»: 5}\nstates:\n  a: {label: '{limits.n}', do: nothing, next: z}\n" + END, "IL315", "limit `n`"),
    Fault("cost-of-a-scripted-model", "model: {name: scripted}\nlimits: {c: 5}\nrules: [{when: «usage.cost» >= limits.c, stop: cost_limit}]\n", "IL318", "price is not known"),
    Fault("window-of-a-scripted-model", "model: {name: scripted}\nrules: [{when: «usage.context_ratio» > 0.9, stop: custom}]\n", "IL323", "window is not known"),
    Fault("host", "model: {name: x/y, api_base: «http://10.0.0.1»}\n", "IL324", "the host `http://10.0.0.1`"),
    Fault("host-among-extras", "model: {name: x/y, extra: {proxy: «http://10.0.0.1»}}\n", "IL324", "names the host"),
    Fault("path-outside", "tasks: {file: «../tasks.yaml»}\n", "IL324", "outside its folder"),
    Fault("path-from-the-root", "tasks: {file: «/etc/tasks.yaml»}\n", "IL324", "outside its folder"),
    Fault("label-of-an-edge", "limits: {n: 5, k: 6}\nrules: [{when: run.steps >= limits.k, stop: custom}]\nstates:\n  a: {do: nothing, next: [{when: run.steps >= limits.n, label: 'over {«limits.k»}', to: z}, z]}\n" + END, "IL317", "shows `limits.k`"),
    Fault("label-of-another-definition", "limits: {n: 5}\nrules: [{when: run.steps >= limits.n, stop: custom}]\ndefine: {most: limits.n}\nstates:\n  a: {do: nothing, next: q}\n  q: {ask: «'under {most}?'», when: last.ok, then: a, else: z}\n" + END, "IL317", "shows `limits.n`"),
    Fault("child-with-a-mistake", KID % "limits: {«n»: 5}, states: {e: {end: completed}}", "IL315", "limit `n`"),
    Fault("child-of-a-child", KID % "states: {e: {end: completed}}, machines: {two: {states: {e: {end: completed}, «x»: {end: error}}}}", "IL304", "`x`"),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.id)
def test_fault(case: Fault) -> None:
    finding = expect(case, own=[FREE])
    assert finding.at


RIGHT = [
    Right("reached-by-a-rule", "limits: {n: 5}\nrules: [{when: run.steps >= limits.n, stop: custom, to: s}]\nstates:\n  a: {do: nothing, next: z}\n  s: {stop: custom}\n" + END),
    Right("reached-by-its-reason", BUDGET + "states:\n  a: {do: nothing, next: z}\n  s: {stop: steps_limit}\n" + END),
    Right("reached-by-a-cancel", "states:\n  a: {do: nothing, next: z}\n  s: {stop: user_requested}\n" + END),
    Right("reached-by-a-signal-of-the-file", "states:\n  a: {do: signal, with: {reason: custom}, next: z}\n  s: {stop: custom}\n" + END),
    Right("reached-by-on-error", "on_error: e\nstates:\n  a: {do: nothing, next: z}\n  e: {do: nothing, next: z}\n" + END),
    Right("reached-by-failed", "states:\n  a: {do: nothing, failed: e, next: z}\n  e: {do: nothing, next: z}\n" + END),
    Right("reached-by-a-detour", BUDGET.replace("stop: steps_limit", "to: d") + "states:\n  a: {do: nothing, next: z}\n  d: {do: nothing, next: return}\n" + END),
    Right("ended-by-a-rule-only", BUDGET + "states:\n  a: {do: nothing, next: a}\n"),
    Right("branches-that-meet", "states:\n  f: {all: [p, q]}\n  p: {ask: P?, when: last.ok, then: s, else: j}\n  q: {ask: Q?, when: last.ok, then: r, else: j}\n  r: {ask: R?, when: last.ok, then: s, else: j}\n  s: {stop: custom}\n" + J + END),
    Right("branches-that-meet-at-a-decision", "states:\n  f: {all: [p, q]}\n  p: {next: m}\n  q: {next: m}\n  m: {ask: M?, when: last.ok, then: j, else: z}\n" + J + END),
    Right("epilogue-in-a-line", "on_stop: r\nstates:\n  a: {do: nothing, next: z}\n  r: {do: report, next: k}\n  k: {do: save_run, next: e}\n  e: {end: by_reason}\n" + END),
    Right("retry-in-an-epilogue", "on_stop: r\nstates:\n  a: {do: nothing, next: z}\n  r: {do: report, retry: {times: 2}, next: e}\n  e: {end: by_reason}\n" + END),
    Right("on-error-is-off-in-an-epilogue", "on_stop: r\non_error: s\nstates:\n  a: {do: nothing, next: z}\n  s: {do: nothing, stop: error, next: r}\n  r: {do: report, next: e}\n  e: {end: by_reason}\n" + END),
    Right("on-error-that-stops-gives-a-reason", "on_error: {to: r, stop: error}\nstates:\n  a: {do: nothing, next: s}\n  s: {stop: completed, next: r}\n  r: {do: report, next: e}\n  e: {end: by_reason}\n"),
    Right("failed-is-off-in-an-epilogue", "on_stop: r\nstates:\n  a: {do: nothing, next: z}\n  r: {do: report, failed: k, next: e}\n  k: {do: save_run, next: r}\n  e: {end: error}\n" + END),
    Right("expired-is-off-in-an-epilogue", "on_stop: r\nstates:\n  a: {do: nothing, next: z}\n  r: {do: report, within: 1m, expired: r, next: e}\n  e: {end: error}\n" + END),
    Right("end-with-a-reason-on-every-way", "states:\n  a: {do: nothing, next: [{when: last.ok, to: s}, {to: e, stop: custom}]}\n  s: {stop: completed, next: e}\n  e: {end: by_reason}\n"),
    Right("guards-that-differ", "states:\n  a: {do: nothing, next: [{when: run.steps > 3, to: z}, {when: run.steps > 2, to: z}, z]}\n" + END),
    Right("rules-at-two-places", "limits: {n: 5}\nrules: [{when: run.steps >= limits.n, stop: custom, at: [a]}, {when: run.steps >= limits.n, stop: custom, at: [b]}]\nstates:\n  a: {do: nothing, next: b}\n  b: {do: nothing, next: z}\n" + END),
    Right("rule-at-a-wait", "limits: {n: 5}\nrules: [{when: run.steps >= limits.n, stop: custom, at: [b]}]\nstates:\n  a: {do: nothing, next: b}\n  b: {on: {yes: z}}\n" + END),
    Right("rule-at-the-start", "limits: {n: 5}\nrules: [{when: run.steps >= limits.n, stop: custom, at: [a]}]\nstates:\n  a: {next: b}\n  b: {do: nothing, next: z}\n" + END),
    Right("opposites", "states:\n  a: {do: nothing, next: [{when: run.steps >= 3, to: z}, {when: run.steps < 3, to: z}]}\n" + END),
    Right("loop-with-an-action", "states:\n  a: {do: free, next: p}\n  p: {ask: P?, when: last.ok, then: z, else: a}\n" + END),
    Right("loop-with-a-wait", "states:\n  a: {on: {yes: p}}\n  p: {ask: P?, when: last.ok, then: z, else: a}\n" + END),
    Right("free-loop-without-a-budget", LOOP.replace("do: infer", "do: free")),
    Right("paid-loop-with-a-rule", BUDGET + LOOP),
    Right("paid-loop-with-a-rule-at-it", BUDGET.replace("stop: steps_limit", "stop: steps_limit, at: [a]") + LOOP),
    Right("paid-loop-with-a-guard-in-it", "limits: {n: 5}\nstates:\n  a: {do: infer, next: q}\n  q: {ask: Q?, when: run.visits.a >= limits.n, then: z, else: a}\n" + END),
    Right("paid-loop-with-the-opposite-guard", "limits: {n: 5}\nstates:\n  a: {do: infer, next: q}\n  q: {ask: Q?, when: run.visits.a < limits.n, then: a, else: z}\n" + END),
    Right("retry-is-counted", "states:\n  a: {do: infer, retry: {times: 3}, next: z}\n" + END),
    Right("limit-in-a-definition", "limits: {n: 5}\ndefine: {far: run.steps >= limits.n}\nrules: [{when: far, stop: custom}]\n"),
    Right("limit-in-within", "limits: {t: 5m}\nstates:\n  a: {do: nothing, within: limits.t, next: z}\n" + END),
    Right("limit-in-with", "limits: {t: 5m}\nstates:\n  a: {do: back_off, with: {base: limits.t}, next: z}\n" + END),
    Right("limit-in-a-template", "limits: {n: 5}\nstates:\n  a: {do: prompt, with: {user: 'At most {{ limits.n }}'}, next: z}\n" + END),
    Right("limit-in-a-definition-in-a-template", "limits: {n: 5}\ndefine: {left: limits.n - run.steps}\nstates:\n  a: {do: prompt, with: {user: '{{ left }}'}, next: z}\n" + END),
    Right("label-of-a-definition", "limits: {n: 5}\ndefine: {left: limits.n - run.steps}\nstates:\n  a: {do: nothing, next: q}\n  q: {ask: '{left} left?', when: left > 0, then: a, else: z}\n" + END),
    Right("limit-for-a-child", "limits: {n: 5}\n" + KID % "limits: {m: 3}, rules: [{when: run.steps >= limits.m, stop: custom}], states: {e: {end: completed}}" + "states:\n  a: {do: run_machine, with: {machine: kid, limits: {m: limits.n}}, next: z}\n" + END),
    Right("limit-that-a-child-enforces", "limits: {n: 5}\n" + KID % "limits: {n: 3}, rules: [{when: run.steps >= limits.n, stop: custom}], states: {e: {end: completed}}"),
    Right("price-is-given", "model: {name: scripted, input_cost_per_token: 0.1, output_cost_per_token: 0.1}\nlimits: {c: 5}\nrules: [{when: usage.cost >= limits.c, stop: cost_limit}]\n"),
    Right("window-is-given", "model: {name: scripted, context_window: 100}\nrules: [{when: usage.context_ratio > 0.9, stop: custom}]\n"),
    Right("path-inside", "tasks: {file: more/tasks.yaml}\n"),
    Right("label-in-other-words", "limits: {n: 5}\nstates:\n  a: {do: nothing, next: q}\n  q: {ask: 'Steps ≥ {limits.n}?', when: limits.n <= run.steps, then: z, else: a}\n" + END),
    Right("label-of-another-negation", "limits: {n: 5}\nstates:\n  a: {do: nothing, next: q}\n  q: {ask: 'Steps < {limits.n}?', when: not run.steps >= limits.n, then: a, else: z}\n" + END),
    Right("label-of-a-negation", "limits: {n: 5}\nstates:\n  a: {do: nothing, next: q}\n  q: {ask: 'Steps ≥ {limits.n}?', when: not run.steps < limits.n, then: z, else: a}\n" + END),
]  # fmt: skip


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.id)
def test_right(case: Right) -> None:
    findings = found(whole(case.body), own=[FREE])
    assert findings == [], "\n\n".join(f.render() for f in findings)


def test_a_finding_can_be_accepted_where_it_stands() -> None:
    body = (
        "ignore: [{code: IL304, at: states.b, reason: later}]\nstates:\n  a: {do: nothing, next: z}\n  b: {end: error}\n  c: {end: error}\n"
        + END
    )
    assert [f.at for f in found(whole(body))] == ["states.c"]


def test_a_child_accepts_its_own_findings() -> None:
    kid = "ignore: [{code: IL304, at: states.x, reason: later}], states: {e: {end: completed}, x: {end: error}}"
    assert found(whole(KID % kid)) == []


def test_an_accepted_error_of_the_file_is_not_accepted() -> None:
    body = "ignore: [{code: IL301, reason: no}]\nstates:\n  a: {do: nothing, next: nowhere}\n" + END
    machine, findings = find_faults(whole(body))
    assert machine is None
    assert "IL325" in [f.code for f in findings]


@pytest.mark.parametrize("name", ["agent", "executive", "lifecycle"])
def test_nothing_is_wrong_with_what_we_ship(name: str) -> None:
    machine, findings = find_faults(name)
    assert findings == ()
    assert machine is not None
    assert Chart(machine.spec).spec == spec_again(name)


def spec_again(name: str) -> object:
    machine, _ = find_faults(name)
    assert machine is not None
    return machine.spec


def test_a_file_of_one_state_is_enough() -> None:
    assert spec("states:\n  z: {end: completed}\n").start == "z"
