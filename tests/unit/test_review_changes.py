"""What each kind of difference is called: a part of a file before and after, and the words."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.actions.undeclared import assuming
from chartloop.analysis.versions.diff.diff import Diff, diff
from chartloop.api import Machine, child_file, examine_text
from chartloop.core.errors import SpecError

HEAD = "chartloop: 1\nmachine: m\n"
STATES = """\
states:
  go: {do: receive, next: think}
  think: {do: infer, next: done}
  done: {stop: completed}
"""
LIMITED = """\
limits: {steps: 50}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
"""

WAITS = """\
limits: {reply: 5m}
states:
  ask: {ask: "Yes?", on: {yes: done}, within: limits.reply, expired: done}
  done: {stop: completed}
"""


def machine(body: str, file: str = "m.yaml") -> Machine:
    text = HEAD + body + ("" if "states:" in body else STATES)
    registry = assuming(with_own(specs_of()))
    read = examine_text(text, file, registry, find=child_file)
    if read.machine is None:
        raise SpecError(read.findings)
    return read.machine


def between(before: str, after: str) -> Diff:
    return diff(machine(before, "old.yaml"), machine(after, "new.yaml"))


class Case(NamedTuple):
    """What stands in the file before and after, and everything that is said of it."""

    id: str
    before: str
    after: str
    says: tuple[str, ...]


def deciding(guard: str, *, then: str = "stopped", other: str = "think", more: str = "") -> str:
    """A machine with one guard, behind which it stops or goes on."""
    return f"""\
{more}vars: {{n: 1, word: ""}}
states:
  go: {{do: receive, next: think}}
  think: {{do: infer, next: sure}}
  sure: {{ask: "Sure?", when: {guard!r}, then: {then}, else: {other}}}
  stopped: {{stop: completed}}
"""


def ways(*edges: str) -> str:
    listed = "".join(f"      - {edge}\n" for edge in edges)
    return f"""\
vars: {{n: 1}}
states:
  go: {{do: receive, next: think}}
  think:
    do: infer
    next:
{listed}  other: {{do: infer, next: done}}
  done: {{stop: completed}}
"""


ONCE = """\
vars: {n: 1}
states:
  urgent: {ask: "Urgent?", when: vars.n >= %d, then: page, else: done}
  page: {do: infer, next: done}
  done: {stop: completed}
"""
"""A decision with an end on one side that no path leads back to: its guard stops nothing."""

GUARDS = [
    Case("sooner", deciding("vars.n >= 20"), deciding("vars.n >= 15"), ("guard of state `sure` loosened: `vars.n >= 20` → `vars.n >= 15`: stops sooner",)),
    Case("later", deciding("vars.n >= 15"), deciding("vars.n >= 20"), ("guard of state `sure` tightened: `vars.n >= 15` → `vars.n >= 20`: stops later",)),
    Case("where-it-does-not", deciding("vars.n >= 15", then="think", other="stopped"), deciding("vars.n >= 20", then="think", other="stopped"), ("guard of state `sure` tightened: `vars.n >= 15` → `vars.n >= 20`: stops sooner",)),
    Case("reached-or-passed", deciding("vars.n >= 20"), deciding("vars.n > 20"), ("guard of state `sure` tightened: `vars.n >= 20` → `vars.n > 20`: stops later",)),
    Case("turned-round", deciding("20 <= vars.n"), deciding("vars.n >= 15"), ("guard of state `sure` loosened: `20 <= vars.n` → `vars.n >= 15`: stops sooner",)),
    Case("one-part-more", deciding("vars.n >= 2"), deciding("vars.n >= 2 and last.ok"), ("guard of state `sure` tightened: `vars.n >= 2` → `vars.n >= 2 and last.ok`: stops later",)),
    Case("another-way-in", deciding("vars.n >= 2"), deciding("vars.n >= 2 or last.ok"), ("guard of state `sure` loosened: `vars.n >= 2` → `vars.n >= 2 or last.ok`: stops sooner",)),
    Case("under-a-not", deciding("not vars.n < 20"), deciding("not vars.n < 15"), ("guard of state `sure` loosened: `not vars.n < 20` → `not vars.n < 15`: stops sooner",)),
    Case("of-a-list", deciding('vars.word in ["a"]'), deciding('vars.word in ["a", "b"]'), ("guard of state `sure` loosened: `vars.word in [\"a\"]` → `vars.word in [\"a\", \"b\"]`: stops sooner",)),
    Case("by-a-limit", deciding("vars.n >= limits.most", more="limits: {most: 50}\n"), deciding("vars.n >= 20", more="limits: {most: 50}\nrules: [{when: run.steps >= limits.most, stop: steps_limit}]\n"), ("guard of state `sure` loosened: `vars.n >= limits.most` → `vars.n >= 20`: stops sooner", "rule `steps_limit` added: when run.steps >= limits.most: stop steps_limit")),
    Case("that-chooses-a-way", ONCE % 4, ONCE % 3, ("guard of state `urgent` loosened: `vars.n >= 4` → `vars.n >= 3`: holds in more cases",)),
    Case("otherwise", deciding("vars.n >= 20"), deciding("run.steps >= 20"), ("guard of state `sure`: `vars.n >= 20` → `run.steps >= 20`",)),
    Case("both-ways", deciding("vars.n >= 20 and run.steps >= 5"), deciding("vars.n >= 15 and run.steps >= 6"), ("guard of state `sure`: `vars.n >= 20 and run.steps >= 5` → `vars.n >= 15 and run.steps >= 6`",)),
    Case("never-more-than-is-shown", deciding("min(vars.n, 5) >= 5"), deciding("min(vars.n, 6) > 5"), ("guard of state `sure`: `min(vars.n, 5) >= 5` → `min(vars.n, 6) > 5`",)),
    Case("as-it-was", deciding("vars.n>=20"), deciding("vars.n >= 20"), ()),
]  # fmt: skip

LIMITS = [
    Case("lower", LIMITED, LIMITED.replace("50", "20"), ("limit `steps`: `50` → `20`: `steps_limit` stops sooner",)),
    Case("higher", LIMITED, LIMITED.replace("50", "80"), ("limit `steps`: `50` → `80`: `steps_limit` stops later",)),
    Case("off", LIMITED, LIMITED.replace("50", "{type: int, value: null}"), ("limit `steps`: `50` → `off`: `steps_limit` is no longer in force",)),
    Case("on", LIMITED.replace("50", "{type: int, value: null}"), LIMITED, ("limit `steps`: `off` → `50`: `steps_limit` is now in force",)),
    Case("type", LIMITED, LIMITED.replace("50", "50.0"), ("type of limit `steps`: `int` → `float`",)),
    Case("deadline", WAITS, WAITS.replace("5m", "10m"), ("limit `reply`: `5 min` → `10 min`: `ask` is given more time",)),
    Case("duration", LIMITED.replace("50", "30m").replace("run.steps", "run.elapsed"), LIMITED.replace("50", "24h").replace("run.steps", "run.elapsed"), ("limit `steps`: `30 min` → `24 hours`: `steps_limit` stops later",)),
    Case("new", LIMITED, LIMITED.replace("50}", "50, tokens: 9}") + "  - {when: usage.total_tokens >= limits.tokens, stop: token_limit}\n", ("rule `token_limit` added: when usage.total_tokens >= limits.tokens: stop token_limit", "limit `tokens` added: 9")),
]  # fmt: skip

RULES = [
    Case("another-reason", LIMITED, LIMITED.replace("steps_limit", "time_limit"), ("stop reason of rule `time_limit`: `steps_limit` → `time_limit`",)),
    Case("warning", LIMITED, LIMITED.replace("stop: steps_limit", "stop: steps_limit, warn_at: 80%"), ("share that warns of rule `steps_limit` added: `80%`",)),
    Case("message", LIMITED, LIMITED.replace("stop: steps_limit", "stop: steps_limit, message: Too many"), ("message of rule `steps_limit` added: `Too many`",)),
    Case("moment", LIMITED, LIMITED.replace("stop: steps_limit", "stop: steps_limit, at: [think]"), ("states after which it is evaluated of rule `steps_limit` added: `think`",)),
    Case(
        "order",
        "rules:\n  - {when: run.steps >= 5, stop: steps_limit}\n  - {when: errors.total >= 3, stop: error_threshold}\n",
        "rules:\n  - {when: errors.total >= 3, stop: error_threshold}\n  - {when: run.steps >= 5, stop: steps_limit}\n",
        ("order of the rules: `steps_limit, error_threshold` → `error_threshold, steps_limit`",),
    ),
    Case("gone", "rules: [{when: run.steps >= 5, stop: steps_limit}]\n", "", ("rule `steps_limit` removed: when run.steps >= 5: stop steps_limit",)),
    Case("definition", "define: {big: run.steps >= 9}\nrules: [{when: big, stop: steps_limit}]\n", "define: {big: run.steps >= 5}\nrules: [{when: big, stop: steps_limit}]\n", ("definition `big` loosened: `run.steps >= 9` → `run.steps >= 5`",)),
]  # fmt: skip

STATE = "states:\n  go: {do: receive, next: think}\n  think: {do: infer, %snext: done}\n  done: {stop: completed%s}\n"


def state(think: str = "", done: str = "") -> str:
    return STATE % (think and f"{think}, ", done and f", {done}")


STATES_SAID = [
    Case("new", STATES, STATES.replace("next: done}", "next: look}\n  look: {do: nothing, next: done}"), ("state `look` added: acts: nothing; to done", "edge `think.next` leads to `look` instead of `done`")),
    Case("gone", STATES.replace("next: done}", "next: look}\n  look: {do: nothing, next: done}"), STATES, ("state `look` removed: acts: nothing; to done", "edge `think.next` leads to `done` instead of `look`")),
    Case("renamed", STATES, STATES.replace("think", "ponder"), ("state `think` renamed to `ponder`",)),
    Case("renamed-as-it-says", STATES, "renamed: {think: quite_other}\n" + STATES.replace("think: {do: infer", "quite_other: {do: nothing").replace("think", "quite_other"), ("state `think` renamed to `quite_other`", "action of state `quite_other`: `infer` → `nothing`", "`renamed.think` added: quite_other")),
    Case("action", state(), state().replace("infer", "nothing"), ("action of state `think`: `infer` → `nothing`",)),
    Case("with", state(), state("with: {temperature: 0.5}"), ("`with.temperature` of state `think` added: `0.5`",)),
    Case("retry-new", state(), state("retry: {times: 2}"), ("retries of state `think` added: `2, after 1s × 2, on TRANSIENT`",)),
    Case("retry", state("retry: {times: 2}"), state("retry: {times: 3}"), ("`retry.times` of state `think`: `2` → `3`",)),
    Case("deadline", state("within: 30s, expired: done"), state("within: 5m, expired: done"), ("longest time of state `think`: `30s` → `5m`",)),
    Case("expired", state("within: 30s, expired: done"), state("within: 30s, expired: think"), ("edge `think.expired` leads to `think` instead of `done`",)),
    Case("failed", state(), state("failed: next"), ("`failed` of state `think` added: `next`",)),
    Case("status", state(), state("status: debugging"), ("status of state `think` added: `debugging`",)),
    Case("reason", state(), state().replace("stop: completed", "stop: user_requested"), ("stop reason of state `done`: `completed` → `user_requested`",)),
    Case("message", state(), state(done="message: All done"), ("message of the stop of state `done` added: `All done`",)),
    Case("label", state("label: Think"), state("label: Think hard"), ("label of state `think`: `Think` → `Think hard`",)),
    Case("in-doubt", state(), state("in_doubt: ask"), ("`in_doubt` of state `think` added: `ask`",)),
    Case("set", "vars: {n: 1}\n" + state("set: {vars.n: vars.n + 1}"), "vars: {n: 1}\n" + state("set: {vars.n: vars.n + 2}"), ("`set.vars.n` of state `think`: `vars.n + 1` → `vars.n + 2`",)),
    Case("start", STATES, "start: think\n" + STATES.replace("go: {do: receive, next: think}\n  ", "").replace("done}", "go}\n  go: {do: receive, next: done}"), ("start state: `go` → `think`", "edge `go.next` leads to `done` instead of `think`", "edge `think.next` leads to `go` instead of `done`")),
]  # fmt: skip

ASKS = "states:\n  ask: {ask: Ok?, on: {yes: done, no: done}, within: 5m, expired: done}\n  done: {stop: completed}\n"

WAYS = [
    Case("new", ways("{when: vars.n > 1, to: other}", "done"), ways("{when: vars.n > 1, to: other}", "{when: vars.n > 5, to: think}", "done"), ("edge `think.next.1` added: to think when vars.n > 5",)),
    Case("order", ways("{when: vars.n > 1, to: other}", "{when: last.ok, to: think}", "done"), ways("{when: last.ok, to: think}", "{when: vars.n > 1, to: other}", "done"), ("order of the edges of state `think`: `other, think, done` → `think, other, done`",)),
    Case("guard", ways("{when: vars.n > 1, to: other}", "done"), ways("{when: vars.n > 3, to: other}", "done"), ("guard of edge `think.next.0` tightened: `vars.n > 1` → `vars.n > 3`: holds in fewer cases",)),
    Case("retargeted", ways("{when: vars.n > 1, to: other}", "done"), ways("{when: vars.n > 1, to: think}", "{when: last.ok, to: other}", "done"), ("edge `think.next.0` leads to `think` instead of `other`", "edge `think.next.1` added: to other when last.ok")),
    Case("stop", ways("{when: vars.n > 1, to: done}", "other"), ways("{when: vars.n > 1, to: done, stop: user_requested}", "other"), ("stop reason of edge `think.next.0` added: `user_requested`",)),
    Case("event", ASKS, ASKS.replace("no: done", "no: done, maybe: done"), ("edge `ask.on.maybe` added: to done",)),
    Case("data", ASKS, ASKS.replace("yes: done", "yes: {to: done, data: {note: str}}"), ("`data.note` of edge `ask.on.yes` added: `str`",)),
    Case("question", ASKS, ASKS.replace("Ok?", "Sure?"), ("question of state `ask`: `Ok?` → `Sure?`",)),
]  # fmt: skip

CHILD = "machines:\n  child:\n    limits: {steps: %s}\n    rules: [{when: run.steps >= limits.steps, stop: steps_limit}]\n    states: {in: {do: receive, next: out}, out: {stop: completed}}\n"
RUNS = "states:\n  kid: {do: run_machine, with: {machine: child, task: Go.}, next: done}\n  done: {stop: completed}\n"
FILE = [
    Case("tools", "tools: [look, act]\n", "tools: [act, buy]\n", ("tool `look` removed", "tool `buy` added")),
    Case("tools-order", "tools: [look, act]\n", "tools: [act, look]\n", ("order of the tools: `look, act` → `act, look`",)),
    Case("model", "model: {name: a/b}\n", "model: {name: a/c, temperature: 0.2}\n", ("`model.name`: `a/b` → `a/c`", "`model.temperature` added: 0.2")),
    Case("instructions", "instructions: Be kind.\n", "instructions: Be brief.\n", ("instructions: `Be kind.` → `Be brief.`",)),
    Case("variable", "vars: {n: 1}\n", "vars: {n: 2}\n", ("variable `n`: `1` → `2`",)),
    Case("memory", "memory: {human: Ann}\n", "memory: {human: Bea}\n", ("value of memory block `human`: `Ann` → `Bea`",)),
    Case("reason", "reasons: {mine: {priority: 6}}\n", "reasons: {mine: {priority: 5}}\n", ("priority of stop reason `mine`: `6` → `5`",)),
    Case("task", "tasks: [One]\n", "tasks: [One, Two]\n", ("task `task_2` added: Two",)),
    Case("output", "output: last.text\n", "output: run.task\n", ("output: `last.text` → `run.task`",)),
    Case("default", "", "in_doubt: ask\n", ("`in_doubt` added: `ask`",)),
    Case("on-stop", "on_stop: done\n", "", ("`on_stop` removed: `done`",)),
    Case("on-error", "on_error: think\n", "on_error: done\n", ("edge `on_error` leads to `done` instead of `think`",)),
    Case("child", CHILD % 5 + RUNS, CHILD % 9 + RUNS, ("`child` → limit `steps`: `5` → `9`: `steps_limit` stops later",)),
    Case("title", "title: A\n", "title: B\n", ("title: `A` → `B`",)),
    Case("metadata", "metadata: {a: 1}\n", "metadata: {a: 2}\n", ("`metadata.a`: `1` → `2`",)),
    Case("comments", "vars: {a: 1, b: 2}\n", "# now with words\nvars:\n  b: 2 # two\n  'a': 1\n", ()),
]  # fmt: skip

TABLES = {
    "guard": GUARDS,
    "limit": LIMITS,
    "rule": RULES,
    "state": STATES_SAID,
    "way": WAYS,
    "file": FILE,
}
ALL = [case._replace(id=f"{table}-{case.id}") for table, cases in TABLES.items() for case in cases]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_what_is_said(case: Case) -> None:
    found = between(case.before, case.after)
    assert sorted(map(str, found.changes)) == sorted(case.says)
    assert found.same == (not case.says)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_the_other_way_round_the_opposite_is_said(case: Case) -> None:
    there, back = between(case.before, case.after), between(case.after, case.before)
    turned = {change.mirror() for change in back.changes}
    assert sorted(map(str, turned)) == sorted(map(str, there.changes))


def test_a_change_has_its_place_in_both_files() -> None:
    (change,) = between(LIMITED, "# one line more\n" + LIMITED.replace("50", "20")).changes
    assert change.before is not None
    assert change.after is not None
    assert (change.before.place.file, change.before.place.line) == ("old.yaml", 3)
    assert (change.after.place.file, change.after.place.line) == ("new.yaml", 4)


class Verdict(NamedTuple):
    """Two files, and the line that is shown first."""

    id: str
    before: str
    after: str
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Verdict("same", "", "", "m: the same machine"),
        Verdict("written", "vars: {a: 1, b: 2}\n", "vars: {b: 2, a: 1}\n", "m: the same machine, written differently"),
        Verdict("guard-written", LIMITED, LIMITED.replace("run.steps >= limits.steps", "run.steps>=limits.steps"), "m: the same machine, written differently"),
        Verdict("words", "title: A\n", "title: B\n", "m: does the same; 1 difference of words"),
        Verdict("sooner", LIMITED, LIMITED.replace("50", "20"), "m: 1 difference; stops sooner"),
        Verdict("longer", WAITS, WAITS.replace("5m", "10m"), "m: 1 difference; waits longer"),
        Verdict("shorter", WAITS, WAITS.replace("5m", "1m"), "m: 1 difference; waits shorter"),
        Verdict("and-words", "title: A\n" + LIMITED, "title: B\n" + LIMITED.replace("50", "80"), "m: 1 difference and 1 of words; stops later"),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_the_verdict(case: Verdict) -> None:
    found = between(case.before, case.after)
    assert found.verdict == case.says
    assert str(found).startswith(case.says)
    assert bool(found) == bool(found.changes)
