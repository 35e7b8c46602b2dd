"""What rules may say: one case for each sentence of "language", section 4."""

from __future__ import annotations

import pytest

from chartloop.language.spec import Rule
from tests.found import END, Fault, Says, expect, found, spec, value, whole

LIMITS = "limits: {n: 5, share: 90%}\n"
DETOUR = "states:\n  a: {do: nothing, next: z}\n  d: {do: nothing, next: return}\n" + END


def rule(body: str, states: str = "") -> str:
    """A file with one rule."""
    return f"{LIMITS}rules:\n  - {{{body}}}\n  - {{when: usage.context_ratio > limits.share, stop: custom}}\nmodel: {{name: scripted, context_window: 9}}\n{states}"


BUDGET = "when: run.steps >= limits.n"
SAYS: list[Says[Rule]] = [
    Says("stop", rule(f"{BUDGET}, stop: steps_limit"), lambda r: (r.id, r.kind, r.stop, r.to), ("rules.0", "stop", "steps_limit", "")),
    Says("stop-to", rule(f"{BUDGET}, stop: steps_limit, to: z"), lambda r: (r.kind, r.to), ("stop", "z")),
    Says("stop-with-a-message", rule(f"{BUDGET}, stop: steps_limit, message: '{{{{ run.steps }}}} steps'"), lambda r: value(r.message), "{{ run.steps }} steps"),
    Says("warn-at-a-share", rule(f"{BUDGET}, stop: steps_limit, warn_at: 80%"), lambda r: r.warn_at, 0.8),
    Says("warn-at-a-limit", rule(f"{BUDGET}, stop: steps_limit, warn_at: limits.share"), lambda r: value(r.warn_at), "limits.share"),
    Says("signal", rule(f"{BUDGET}, signal: steps_limit"), lambda r: (r.kind, r.signal), ("signal", "steps_limit")),
    Says("detour", rule(f"{BUDGET}, to: d", DETOUR), lambda r: (r.kind, r.to), ("detour", "d")),
    Says("at", rule(f"{BUDGET}, stop: steps_limit, at: [a]"), lambda r: r.at, ("a",)),
    Says("before", rule(f"{BUDGET}, to: d, before: [a]", DETOUR), lambda r: r.before, ("a",)),
    Says("reason-of-the-file", "reasons: {mine: {}}\n" + rule(f"{BUDGET}, stop: mine"), lambda r: r.stop, "mine"),
]  # fmt: skip


@pytest.mark.parametrize("case", SAYS, ids=lambda case: case.id)
def test_says(case: Says[Rule]) -> None:
    assert case.reads(spec(case.body).rules[0]) == case.means


FAULTS = [
    Fault("no-form", f"{LIMITS}rules: [«{{when: run.steps >= limits.n and errors.rate > limits.share}}»]\n", "CL202", "needs `stop`, `signal` or `to`"),
    Fault("signal-and-stop", rule(f"{BUDGET}, «signal»: custom, stop: custom"), "CL207", "`signal` does not go with `stop`"),
    Fault("signal-and-to", rule(f"{BUDGET}, «signal»: custom, to: z"), "CL207", "`signal` does not go with `to`"),
    Fault("message-of-a-detour", rule(f"{BUDGET}, to: d, «message»: hi", DETOUR), "CL207", "has no `message`"),
    Fault("at-and-before", rule(f"{BUDGET}, stop: custom, at: [a], «before»: [a]"), "CL207", "two moments"),
    Fault("no-guard", f"{LIMITS}rules: [«{{stop: custom}}», {{when: run.steps >= limits.n and errors.rate > limits.share, stop: custom}}]\n", "CL202", "lacks the key `when`"),
    Fault("guard-syntax", rule("when: run.steps «=>» limits.n, stop: custom"), "CL101", "=>"),
    Fault("guard-unknown-fact", rule("when: «run.stepz» >= limits.n, stop: custom"), "CL103", "run.stepz"),
    Fault("guard-misspelt-limit", rule("when: run.steps >= «limits.nn», stop: custom"), "CL103", "limits.nn"),
    Fault("guard-misspelt-limits", rule("when: run.steps >= «limit».n, stop: custom"), "CL103", "unknown fact `limit`", "`limits`"),
    Fault("guard-no-bool", rule("when: «run.steps + limits.n», stop: custom"), "CL106", "not true or false"),
    Fault("unlike-types", rule("when: «run.elapsed >= limits.n», stop: custom"), "CL104", "duration"),
    Fault("may-be-none", rule("when: «errors.last».category == 'CRITICAL' and run.steps > limits.n, stop: custom"), "CL105", "may be None"),
    Fault("unknown-reason", rule(f"{BUDGET}, stop: «step_limit»"), "CL408", "step_limit", "`steps_limit`"),
    Fault("highest-is-no-reason-of-a-rule", rule(f"{BUDGET}, stop: «highest»"), "CL408", "highest"),
    Fault("unknown-signal", rule(f"{BUDGET}, signal: «nothing_of_ours»"), "CL408", "nothing_of_ours"),
    Fault("unknown-target", rule(f"{BUDGET}, stop: custom, to: «nowhere»"), "CL301", "nowhere"),
    Fault("return", rule(f"{BUDGET}, to: «return»"), "CL313", "a rule cannot lead to `return`"),
    Fault("unknown-at", rule(f"{BUDGET}, stop: custom, at: [a, «bb»]"), "CL301", "bb"),
    Fault("at-twice", rule(f"{BUDGET}, stop: custom, at: [a, «a»]"), "CL211", "named twice"),
    Fault("at-a-state-that-does-nothing", rule(f"{BUDGET}, stop: custom, at: [«p»]", "states:\n  a: {do: nothing, next: p}\n  p: {next: z}\n" + END), "CL307", "`p` has no action"),
    Fault("at-nothing", rule(f"{BUDGET}, stop: custom, at: «[]»"), "CL203", "is empty"),
    Fault("message-template", rule(f"{BUDGET}, stop: custom, message: '{{{{ «run.stepz» }}}}'"), "CL103", "run.stepz"),
    Fault("message-is-a-number", rule(f"{BUDGET}, stop: custom, message: «5»"), "CL210", "`5` is a number"),
    Fault("warn-at-without-a-bound", rule("when: last.ok and run.steps < limits.n, stop: custom, «warn_at»: 80%"), "CL207", "fact >= bound"),
    Fault("warn-at-too-much", rule(f"{BUDGET}, stop: custom, warn_at: «150%»"), "CL209", "not a share"),
    Fault("warn-at-a-number-of-things", rule(f"{BUDGET}, stop: custom, warn_at: «limits.n»"), "CL104", "int"),
    Fault("misspelt-key", rule(f"{BUDGET}, «stopp»: custom"), "CL201", "stopp", "`stop`"),
    Fault("word-of-another-tool", rule("«condition»: run.steps >= limits.n, stop: custom"), "CL201", "condition", "`when`"),
    Fault("rule-is-a-text", f"{LIMITS}rules: [«stop», {{when: run.steps >= limits.n and errors.rate > limits.share, stop: custom}}]\n", "CL203", "takes a mapping, not text", "{when: guard, stop: reason}"),
    Fault("rules-are-a-mapping", "rules: «{when: last.ok}»\n", "CL203", "takes a list, not a mapping"),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.id)
def test_fault(case: Fault) -> None:
    expect(case)


def test_a_part_that_cannot_be_read_hides_nothing_else() -> None:
    body = "limits: {n: 5}\nrules:\n  - {when: [1], stop: custom}\n  - {when: run.stepz >= limits.n, stop: custom}\n"
    body += "states:\n  a: {do: nothing, next: {to: 5}}\n  b: {do: noting, next: z}\n" + END
    assert [f.code for f in found(whole(body))] == ["CL203", "CL103", "CL203", "CL401"]
