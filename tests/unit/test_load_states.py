"""What a state may say: one case for each sentence of "language", section 2."""

from __future__ import annotations

from typing import Any

import pytest

from chartloop.core.facts import Facts
from chartloop.language.spec import StateSpec
from tests.found import END, Fault, Says, expect, found, spec, value, whole

ASK = "limits: {n: 5}\nstates:\n  a: {do: nothing, next: q}\n  q: {ask: Q?, "
BUDGET = "when: run.steps >= limits.n, then: z, else: a"


def a(body: str, before: str = "") -> str:
    """A file with a state `a`, and an end."""
    return f"{before}states:\n  a: {{{body}}}\n{END}"


def _edges(state: StateSpec) -> Any:
    return [(e.id, e.target, e.role, e.trigger, value(e.when)) for e in state.edges]


VARS = "vars: {n: 0, s: '', d: {type: duration, value: 1s}, on: false, l: {type: 'list[str]', value: []}}\n"
TOOLS = "tools: [send_message, conversation_search]\n"
SAYS: list[Says[StateSpec]] = [
    Says("act", a("do: nothing, next: z"), lambda s: (s.job, s.action and s.action.name, _edges(s)), ("act", "nothing", [("a.next.0", "z", "next", "advance", None)])),
    Says("decide-by-a-guard", a("ask: Q?, when: last.ok, then: z, else: z"), lambda s: (s.job, _edges(s)), ("decide", [("a.then", "z", "then", "advance", "last.ok"), ("a.else", "z", "else", "advance", None)])),
    Says("decide-by-value", a("ask: Q?, of: run.status, cases: {running: z}, else: z"), lambda s: (s.job, value(s.of), [(e.case, e.target) for e in s.edges]), ("decide", "run.status", [("running", "z"), ("", "z")])),
    Says("decide-by-a-list", a("ask: Q?, next: [{when: last.ok, to: z}, z]"), lambda s: (s.job, len(s.edges)), ("decide", 2)),
    Says("a-list-without-a-question-is-no-decision", a("next: [{when: last.ok, to: z}, z]"), lambda s: s.job, "pass"),
    Says("wait", a("on: {yes: z, no: {to: z, label: N}}"), lambda s: (s.job, s.rests, [(e.id, e.trigger) for e in s.edges]), ("wait", True, [("a.on.yes", "yes"), ("a.on.no", "no")])),
    Says("wait-that-expires", a("on: {yes: z}, within: 5m, expired: {to: z, label: late}"), lambda s: (s.within, _edges(s)[-1]), (300.0, ("a.expired", "z", "expired", "expired", None))),
    Says("wait-without-a-time", a("ask: Q?, on: {yes: z}"), lambda s: (s.job, s.within), ("wait", None)),
    Says("check-all", "states:\n  a: {all: [p, q]}\n  p: {ask: P?, when: last.ok, then: j, else: j}\n  q: {next: j}\n  j: {do: nothing, next: z}\n" + END, lambda s: (s.job, s.all, [e.id for e in s.edges]), ("fork", ("p", "q"), ["a.all.0", "a.all.1"])),
    Says("check-all-after-an-action", "states:\n  a: {do: nothing, all: [p]}\n  p: {next: j}\n  j: {do: nothing, next: z}\n" + END, lambda s: (s.job, s.all), ("act", ("p",))),
    Says("pass", a("next: z"), lambda s: (s.job, s.rests), ("pass", False)),
    Says("end-completed", "states:\n  a: {end: completed}\n", lambda s: (s.job, s.end), ("end", "completed")),
    Says("end-error", "states:\n  a: {end: error}\n", lambda s: (s.job, s.end), ("end", "error")),
    Says("stop-without-next-is-an-end", "states:\n  a: {stop: custom}\n", lambda s: (s.job, s.end, s.stop), ("end", "by_reason", "custom")),
    Says("stop-with-next-is-none", a("stop: custom, next: z"), lambda s: (s.job, s.end, s.stop), ("pass", None, "custom")),
    Says("stop-with-a-message", a("stop: custom, message: '{{ run.steps }} steps', next: z"), lambda s: value(s.message), "{{ run.steps }} steps"),
    Says("an-end-with-a-message", "states:\n  a: {stop: custom, message: Over}\n", lambda s: (s.job, value(s.message)), ("end", "Over")),
    Says("edge-with-a-message", a("do: nothing, next: {to: z, stop: custom, message: '{{ vars.n }}'}", VARS), lambda s: (s.edges[0].stop, value(s.edges[0].message)), ("custom", "{{ vars.n }}")),
    Says("stop-highest-with-a-message", "on_stop: a\nstates:\n  b: {do: nothing, next: z}\n  a: {stop: highest, message: Asked to, next: z}\n" + END, lambda s: (s.stop, value(s.message)), ("highest", "Asked to")),
    Says("stop-highest", "rules: [{when: run.steps > 2, signal: custom}]\n" + a("do: nothing, next: [{when: signals.count > 0, to: h}, z]") + "  h: {stop: highest}\n", lambda s: len(s.edges), 2),
    Says("label", a(r"label: 'Two\nlines', do: nothing, next: z"), lambda s: s.label and s.label.show(Facts()), "Two\nlines"),
    Says("label-with-a-limit", a("label: '≥ {limits.t}', do: nothing, next: z", "limits: {t: 24h}\nrules: [{when: run.elapsed >= limits.t, stop: time_limit}]\n"), lambda s: s.label and s.label.show(Facts(limits={"t": 86_400.0})), "≥ 24 hours"),
    Says("empty-label-is-none", a("label: '', do: nothing, next: z"), lambda s: s.label, None),
    Says("for-people", a("about: A, role: hub, shape: pill, next: z"), lambda s: (s.about, s.role, s.shape), ("A", "hub", "pill")),
    Says("drawn-as-a-box", a("shape: rect, next: z"), lambda s: s.shape, "rect"),
    Says("status", a("status: debugging, next: z"), lambda s: s.status, "debugging"),
    Says("set-constants", a("set: {vars.on: true, vars.n: 3, vars.d: 30m}, next: z", VARS), lambda s: [(x.target, x.value, x.constant) for x in s.set], [("vars.on", True, True), ("vars.n", 3, True), ("vars.d", 1800.0, True)]),
    Says("set-expressions", a("set: {vars.s: '\"x\"', vars.n: vars.n + 1}, next: z", VARS), lambda s: [(x.target, value(x.value)) for x in s.set], [("vars.s", '"x"'), ("vars.n", "vars.n + 1")]),
    Says("set-append", a("set: {vars.l: {append: last.text}}, next: z", VARS), lambda s: [(x.append, value(x.value)) for x in s.set], [(True, "last.text")]),
    Says("set-an-empty-list", a("set: {vars.l: []}, next: z", VARS), lambda s: s.set[0].value, ()),
    Says("retry", a("do: nothing, retry: {times: 3, base: 500ms, factor: 3, on: [TRANSIENT, RECOVERABLE]}, next: z"), lambda s: s.retry, ...),
    Says("retry-in-short", a("do: nothing, retry: {times: 1}, next: z"), lambda s: s.retry and (s.retry.base, s.retry.factor, s.retry.on), (1.0, 2.0, ("TRANSIENT",))),
    Says("within-a-duration", a("do: nothing, within: 90s, next: z"), lambda s: s.within, 90.0),
    Says("within-a-limit", a("do: nothing, within: limits.t, next: z", "limits: {t: 5m}\n"), lambda s: value(s.within), "limits.t"),
    Says("within-an-expression", a("do: nothing, within: limits.t * 2, next: z", "limits: {t: 5m}\n"), lambda s: getattr(getattr(s.within, "type", None), "kind", None), "duration"),
    Says("within-with-expired-on-an-action", a("do: nothing, within: 5m, expired: z, next: z"), lambda s: [e.role for e in s.edges], ["next", "expired"]),
    Says("failed-edge", a("do: nothing, failed: z, next: z"), lambda s: _edges(s)[0], ("a.failed", "z", "failed", "advance", None)),
    Says("failed-edge-in-full", a("do: nothing, failed: {to: z, label: broken, set: {vars.s: last.error.message}}, next: z", VARS), lambda s: (value(s.edges[0].label), value(s.edges[0].set[0].value)), ("broken", "last.error.message")),
    Says("failed-next", a("do: nothing, failed: next, next: z"), lambda s: (s.failed_next, len(s.edges)), (True, 1)),
    Says("allow", a("do: infer, allow: [send_message], next: z", TOOLS), lambda s: s.allow, ("send_message",)),
    Says("allow-nothing", a("do: infer, allow: [], next: z", TOOLS), lambda s: s.allow, ()),
    Says("in-doubt", a("do: infer, in_doubt: fail, next: z"), lambda s: s.in_doubt, "fail"),
    Says("return", "rules: [{when: run.steps > 3, to: a}]\nstates:\n  b: {do: nothing, next: z}\n  a: {do: nothing, next: return}\n" + END, lambda s: s.edges[0].target, "return"),
    Says("edge-in-full", a("do: nothing, next: [{to: z, label: L, when: last.ok, set: {vars.n: 1}, stop: custom}, {to: z, stop: completed}]", VARS), lambda s: (value(s.edges[0].label), s.edges[0].stop, s.edges[0].set[0].value), ("L", "custom", 1)),
    Says("one-guarded-edge-and-a-plain-one", a("do: nothing, next: [{when: run.steps > 2, to: z}, a]"), lambda s: [value(e.when) for e in s.edges], ["run.steps > 2", None]),
    Says("cases-cover-an-enum", a("ask: Q?, of: '\"A\" if last.ok else \"B\"', cases: {A: z, B: z}"), lambda s: str(s.of and s.of.type), "A | B"),
    Says("cases-of-a-bool", a("ask: Q?, of: last.ok, cases: {true: z, false: z}"), lambda s: len(s.edges), 2),
    Says("cases-of-a-number", a("ask: Q?, of: run.steps, cases: {1: z, '-2': z}, else: z"), lambda s: len(s.edges), 3),
    Says("nullable-of-with-else", a("ask: Q?, of: errors.last.category if errors.last is not None else None, cases: {CRITICAL: z}, else: z"), lambda s: s.of and s.of.type.nullable, True),
    Says("answer-data", a("on: {fix: {to: z, data: {note: str, score: int}, set: {vars.n: last.answer.score}}}", VARS), lambda s: [(n, str(t)) for n, t in s.edges[0].data], [("note", "str"), ("score", "int")]),
    Says("guarded-answers", a("on: {fix: [{to: z, when: last.answer.score > 3, data: {score: int}}, a]}"), lambda s: [(e.id, value(e.when), len(e.data)) for e in s.edges], [("a.on.fix.0", "last.answer.score > 3", 1), ("a.on.fix.1", None, 1)]),
    Says("warn-at", ASK.replace("q: {ask", "a2: {ask").replace("next: q", "next: a2") + "warn_at: 80%, " + BUDGET + "}\n" + END, lambda s: s.job, "act"),
    Says("opposite-guards-need-no-else", a("do: nothing, next: [{when: last.ok, to: z}, {when: not last.ok, to: z}]"), lambda s: len(s.edges), 2),
    Says("narrowed-by-the-edge-before", a("do: nothing, next: [{when: errors.last is None, to: z}, {when: errors.last.category == 'CRITICAL', to: z}, z]"), lambda s: len(s.edges), 3),
]  # fmt: skip


@pytest.mark.parametrize("case", SAYS, ids=lambda case: case.id)
def test_says(case: Says[StateSpec]) -> None:
    got = case.reads(spec(case.body).states["a"])
    if case.id == "retry":
        assert (got.times, got.base, got.factor, got.on) == (
            3,
            0.5,
            3.0,
            ("TRANSIENT", "RECOVERABLE"),
        )
    else:
        assert got == case.means


FAULTS = [
    Fault("two-jobs", "states:\n  «a»: {do: nothing, on: {yes: z}, next: z}\n" + END, "CL207", "`do` and `on`"),
    Fault("two-decisions", "states:\n  «a»: {ask: Q?, when: last.ok, then: z, else: z, of: last.ok, cases: {true: z, false: z}}\n" + END, "CL207", "`when` and `of`"),
    Fault("wait-and-all", "states:\n  «a»: {on: {yes: z}, all: [p]}\n  p: {next: z}\n" + END, "CL207", "`on` and `all`"),
    Fault("next-of-a-wait", a("on: {yes: z}, «next»: z"), "CL207", "`next` has no part"),
    Fault("next-of-a-decision", a("ask: Q?, when: last.ok, then: z, else: z, «next»: z"), "CL207", "`next` has no part"),
    Fault("question-without-an-answer", a("«ask»: Q?"), "CL202", "`ask` needs"),
    Fault("question-of-an-action", a("do: nothing, «ask»: Q?, next: z"), "CL207", "goes with a decision"),
    Fault("when-without-then", a("ask: Q?, «when»: last.ok, else: z"), "CL202", "`when` needs `then`"),
    Fault("when-without-else", a("ask: Q?, «when»: last.ok, then: z"), "CL309", "`when` needs `else`"),
    Fault("of-without-cases", a("ask: Q?, «of»: last.ok, else: z"), "CL202", "`of` needs `cases`"),
    Fault("then-alone", a("«then»: z, next: z"), "CL207", "`then` goes with `when`"),
    Fault("save-alone", a("«save»: {vars.s: result.text}, next: z", VARS), "CL207", "`save` goes with `do`"),
    Fault("message-alone", a("«message»: Over, next: z"), "CL207", "`message` goes with `stop`", "add `stop`"),
    Fault("message-of-an-end", "states:\n  a: {do: nothing, next: e}\n  e: {end: completed, «message»: Over}\n", "CL207", "`message` goes with `stop`"),
    Fault("message-of-an-edge-alone", a("do: nothing, next: {to: z, «message»: Over}"), "CL207", "`message` goes with `stop`", "add `stop`"),
    Fault("message-template", a("stop: custom, message: '{{ «run.stepz» }}', next: z"), "CL103", "run.stepz"),
    Fault("message-template-of-an-edge", a("do: nothing, next: {to: z, stop: custom, message: '{{ «run.stepz» }}'}"), "CL103", "run.stepz"),
    Fault("message-is-a-number", a("stop: custom, message: «5», next: z"), "CL210", "`5` is a number"),
    Fault("expired-alone", a("do: nothing, «expired»: z, next: z"), "CL207", "`expired` goes with `within`"),
    Fault("wait-that-expires-nowhere", a("on: {yes: z}, «within»: 5m"), "CL202", "`within` needs `expired`"),
    Fault("within-of-a-decision", a("ask: Q?, when: last.ok, then: z, else: z, «within»: 5m"), "CL207", "`within` goes with `do` or `on`"),
    Fault("edge-out-of-an-end", "states:\n  a: {do: nothing, next: [{when: last.ok, to: z}, e]}\n  e: {end: completed, «next»: a}\n" + END, "CL306", "`e` is an end"),
    Fault("action-of-an-end", "states:\n  a: {do: nothing, next: e}\n  e: {end: completed, «do»: report}\n", "CL306", "`do` is never used"),
    Fault("state-called-next", "states:\n  a: {do: nothing, next: next}\n  «next»: {do: nothing, next: z}\n" + END, "CL204", "a word of the language"),
    Fault("unknown-target", a("do: nothing, next: «zz»"), "CL301", "unknown state `zz`", "`z`"),
    Fault("unknown-target-like-no-other", a("do: nothing, next: «nowhere»"), "CL301", "unknown state `nowhere`", "known: `a`, `z`"),
    Fault("unknown-target-in-an-edge", a("do: nothing, next: [{when: last.ok, to: «nowhere»}, a]"), "CL301", "nowhere"),
    Fault("target-is-a-number", a("do: nothing, next: «5»"), "CL203", "takes text, not a number", "a list of these"),
    Fault("target-is-missing", a("do: nothing, «next»: {label: L}"), "CL202", "lacks the key `to`", "an edge is"),
    Fault("misspelt-key-of-an-edge", a("do: nothing, next: {«too»: z}"), "CL201", "too", "`to`"),
    Fault("guard-that-is-a-list", a("do: nothing, next: [{when: «[1]», to: z}, z]"), "CL203", "takes one value, not a list"),
    Fault("plain-edge-before-others", a("do: nothing, next: [«z», {when: last.ok, to: a}]"), "CL321", "can never be taken"),
    Fault("plain-answer-before-others", a("on: {yes: [«z», {when: last.ok, to: z}]}"), "CL321", "can never be taken"),
    Fault("guard-of-then", a("ask: Q?, when: last.ok, then: {to: z, «when»: last.ok}, else: z"), "CL207", "under `then` takes no guard"),
    Fault("guard-of-a-case", a("ask: Q?, of: last.ok, cases: {true: {to: z, «when»: last.ok}, false: z}"), "CL207", "under `cases` takes no guard"),
    Fault("way-back-with-set", "rules: [{when: run.steps > 3, to: b}]\nvars: {n: 0}\nstates:\n  a: {do: nothing, next: z}\n  b: {do: nothing, next: {to: return, «set»: {vars.n: 1}}}\n" + END, "CL207", "`return` takes no `set` or `stop`"),
    Fault("failed-return", "rules: [{when: run.steps > 3, to: b}]\nstates:\n  a: {do: nothing, next: z}\n  b: {do: nothing, failed: «return», next: return}\n" + END, "CL313", "`failed` cannot lead to `return`"),
    Fault("status", a("status: «debuging», next: z"), "CL208", "debuging", "`debugging`"),
    Fault("role", a("role: «center», next: z"), "CL208", "center"),
    Fault("end-word", "states:\n  a: {do: nothing, next: e}\n  e: {end: «complete»}\n", "CL208", "complete", "`completed`"),
    Fault("set-unknown", a("set: {«vars.m»: 1}, next: z", "vars: {n: 0}\n"), "CL103", "unknown variable `vars.m`"),
    Fault("set-without-vars", a("set: {«n»: 1}, next: z", "vars: {n: 0}\n"), "CL103", "unknown variable `n`"),
    Fault("set-bare-word", a("set: {vars.s: «Running»}, next: z", VARS), "CL113", "bare word", "write '\"Running\"'"),
    Fault("set-another-type", a("set: {vars.n: «true»}, next: z", VARS), "CL104", "`True` is not of type int"),
    Fault("set-nothing", a("set: {vars.n: «null»}, next: z", VARS), "CL104", "nothing is not of type int"),
    Fault("set-expression-of-another-type", a("set: {vars.n: «last.text»}, next: z", VARS), "CL104", "this is str, where int is wanted"),
    Fault("set-a-map", a("set: {vars.m: «{k: 1}»}, next: z", "vars: {m: {type: map, value: {}}}\n"), "CL203", "a map is written as an expression"),
    Fault("append-to-a-number", a("set: {vars.n: {append: «1»}}, next: z", VARS), "CL104", "not a list"),
    Fault("append-another-type", a("set: {vars.l: {append: «run.steps»}}, next: z", VARS), "CL104", "this is int, where str is wanted"),
    Fault("unknown-reason", "states:\n  a: {do: nothing, next: s}\n  s: {stop: «step_limit»}\n", "CL408", "step_limit", "`steps_limit`"),
    Fault("retry-times", a("do: nothing, retry: {times: «0»}, next: z"), "CL203", "at least 1"),
    Fault("retry-without-times", a("do: nothing, «retry»: {base: 1s}, next: z"), "CL202", "lacks the key `times`"),
    Fault("retry-category", a("do: nothing, retry: {times: 1, on: [«TIMEOUT»]}, next: z"), "CL208", "TIMEOUT"),
    Fault("retry-category-twice", a("do: nothing, retry: {times: 1, on: [TRANSIENT, «TRANSIENT»]}, next: z"), "CL211", "named twice"),
    Fault("retry-wait-by-a-limit", a("do: nothing, retry: {times: 1, base: «limits.t»}, next: z", "limits: {t: 1s}\nrules: [{when: run.elapsed > limits.t, stop: time_limit}]\n"), "CL209", "are written out"),
    Fault("retry-wait-without-a-unit", a("do: nothing, retry: {times: 1, base: «5»}, next: z"), "CL209", "not a duration", "`5s`"),
    Fault("within-without-a-unit", a("do: nothing, within: «30», next: z"), "CL209", "not a duration", "`30s`"),
    Fault("within-a-number", a("do: nothing, within: «run.steps», next: z"), "CL104", "this is int, where duration is wanted"),
    Fault("unknown-action", a("do: «infr», next: z"), "CL401", "infr", "`infer`"),
    Fault("allow-another-tool", a("do: infer, allow: [«conversation_search»], next: z", "tools: [send_message]\n"), "CL405", "unknown tool of this machine"),
    Fault("allow-twice", a("do: infer, allow: [send_message, «send_message»], next: z", TOOLS), "CL211", "named twice"),
    Fault("all-of-nothing", "states:\n  a: {all: «[]»}\n  b: {end: completed}\n", "CL203", "is empty"),
    Fault("all-twice", "states:\n  a: {all: [p, «p»]}\n  p: {next: j}\n  j: {do: nothing, next: z}\n" + END, "CL211", "branch `p` is named twice"),
    Fault("unknown-branch", "states:\n  a: {all: [p, «pp»]}\n  p: {next: j}\n  j: {do: nothing, next: z}\n" + END, "CL301", "unknown state `pp`"),
    Fault("reserved-event", a("on: {«expired»: z}"), "CL320", "of the engine itself"),
    Fault("event-with-a-bad-name", a("on: {«Yes»: z}"), "CL204", "`Yes`", "`yes`"),
    Fault("answer-of-no-type", a("on: {fix: {to: z, data: {note: «text»}}}"), "CL209", "`text` is not a type"),
    Fault("answer-of-two-types", a("on: {fix: [{to: z, when: last.answer.n == 1, data: {n: int}}, {to: z, data: {n: «str»}}]}"), "CL104", "`n` is int"),
    Fault("answer-without-the-field", a("on: {fix: {to: z, data: {note: str}, when: «last.answer.nte» == 'x'}}"), "CL103", "has no `nte`", "note"),
    Fault("case-that-cannot-be", a("ask: Q?, of: run.status, cases: {«runing»: z}, else: z"), "CL111", "never `runing`", "`running`"),
    Fault("case-of-a-number", a("ask: Q?, of: run.steps, cases: {«many»: z}, else: z"), "CL111", "`many` is not of type int"),
    Fault("case-twice", a("ask: Q?, of: last.ok, cases: {true: z, «True»: z, false: z}"), "CL307", "second case"),
    Fault("cases-of-a-share", a("ask: Q?, of: «errors.rate», cases: {x: z}, else: z"), "CL104", "a case is a word"),
    Fault("case-missing", a("ask: Q?, «of»: '\"A\" if last.ok else \"B\"', cases: {A: z}"), "CL322", "no case for `B`"),
    Fault("bool-case-missing", a("ask: Q?, «of»: last.ok, cases: {true: z}"), "CL322", "no case for `false`"),
    Fault("number-without-else", a("ask: Q?, «of»: run.steps, cases: {1: z}"), "CL322", "any other int"),
    Fault("none-without-else", a("ask: Q?, «of»: progress.magnitude, cases: {custom: z}").replace("progress.magnitude", "signals.top"), "CL322", "None"),
    Fault("warn-at-without-a-bound", a("ask: Q?, «warn_at»: 80%, when: last.ok, then: z, else: z"), "CL207", "goes with a guard `fact >= bound`"),
    Fault("warn-at-over-1", ASK + "warn_at: «80», " + BUDGET + "}\n" + END, "CL209", "not a share", "`80%`"),
    Fault("guard-syntax", a("ask: Q?, when: run.steps «=>» 3, then: z, else: z"), "CL101", "=>", ">="),
    Fault("guard-unknown", a("ask: Q?, when: «run.stepz» > 3, then: z, else: z"), "CL103", "run.stepz", "run.steps"),
    Fault("guard-no-bool", a("ask: Q?, when: «run.steps», then: z, else: z"), "CL106", "not true or false"),
    Fault("label-unknown", a("label: 'max {«limits.x»}', do: nothing, next: z", "limits: {y: 1}\nrules: [{when: run.steps > limits.y, stop: custom}]\n"), "CL103", "limits.x", "limits.y"),
    Fault("guard-cut-by-yaml", a('do: nothing, next: [{when: «"x" in last.text», to: z}, z]'), "CL007", "needs quotes", "`when: '\"x\" in last.text'`"),
    Fault("misspelt-key", a("do: nothing, nxet: z").replace("nxet", "«nxet»"), "CL201", "nxet", "`next`"),
    Fault("word-of-another-tool", a("«action»: nothing, next: z"), "CL201", "action", "`do`"),
    Fault("key-of-a-machine", a("do: nothing, next: z, «rules»: []"), "CL201", "rules", "a key of the machine"),
    Fault("state-is-a-text", "states:\n  a: «go»\n  z: {end: completed}\n", "CL203", "takes a mapping, not text"),
    Fault("states-are-a-list", "states: «[a, b]»\n", "CL203", "takes a mapping, not a list"),
    Fault("state-with-a-bad-name", "states:\n  «Think-Hard»: {do: nothing, next: z}\n" + END, "CL204", "`Think-Hard`", "`think_hard`"),
    Fault("state-twice", "states:\n  a: {do: nothing, next: z}\n  «a»: {do: nothing, next: y}\n  y: {stop: custom}\n" + END, "CL002", "`a` appears twice"),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.id)
def test_fault(case: Fault) -> None:
    expect(case)


@pytest.mark.parametrize("word", ["return", "next"])
def test_words_of_the_language_name_no_state(word: str) -> None:
    text = whole(
        f"states:\n  a: {{do: nothing, next: z}}\n  {word}: {{do: nothing, next: z}}\n" + END
    )
    assert "CL204" in [f.code for f in found(text)]
