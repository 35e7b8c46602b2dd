"""What a decision does, rule by rule of the language: one case for each sentence."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.core.errors import StatusError, WaitError
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.reasons import REASONS, StopReason, StopSignal
from chartloop.testing.clock import ManualClock
from tests.support import OK, Said, failure, path, start


def signal(reason: str) -> Outcome:
    return Outcome(signals=(StopSignal(REASONS[reason], "said so"),))


class Case(NamedTuple):
    """A machine, what its actions say, and where a run of it goes."""

    id: str
    body: str
    said: Said
    path: str
    reason: str
    kind: str = "natural"


END = "  z: {stop: completed}\n"
CASES = [
    Case("first state is the start", "states:\n  a: {do: act, next: z}\n" + END, {}, "a z", "completed"),
    Case("start names another", "start: b\nstates:\n  a: {do: act, next: z}\n  b: {do: act, next: a}\n" + END, {}, "b a z", "completed"),
    Case("first edge that holds", "states:\n  a: {do: act, next: [{when: run.steps >= 2, to: y}, {when: run.steps >= 1, to: z}, {to: y}]}\n  y: {stop: error}\n" + END, {}, "a z", "completed"),
    Case("else", "states:\n  a: {ask: Q?, when: run.steps >= 1, then: y, else: b}\n  b: {do: act, next: z}\n  y: {stop: error}\n" + END, {}, "a b z", "completed"),
    Case("cases and their else", "vars: {w: x}\nstates:\n  a: {ask: Q?, of: vars.w, cases: {p: y, x: b}, else: y}\n  b: {do: act, next: z}\n  y: {stop: error}\n" + END, {}, "a b z", "completed"),
    Case("all right sides read what was before", 'vars: {p: 1, q: 2}\nstates:\n  a: {set: {vars.p: vars.q, vars.q: vars.p}, next: b}\n  b: {ask: Q?, when: vars.p == 2 and vars.q == 1, then: c, else: y}\n  c: {do: act, next: z}\n  y: {stop: error}\n' + END, {}, "a b c z", "completed"),
    Case("a stop rule beats the edge", "rules:\n  - {when: run.steps >= 1, stop: steps_limit}\nstates:\n  a: {do: act, next: b}\n  b: {do: act, next: z}\n" + END, {}, "a end-completed", "steps_limit", "limit"),
    Case("the lower number wins", "rules:\n  - {when: run.steps >= 1, stop: custom}\n  - {when: run.steps >= 1, stop: token_limit}\nstates:\n  a: {do: act, next: z}\n" + END, {}, "a end-completed", "token_limit", "limit"),
    Case("a tie goes by the file", "rules:\n  - {when: run.steps >= 1, stop: steps_limit, to: y}\n  - {when: run.steps >= 1, stop: user_unresponsive}\nstates:\n  a: {do: act, next: z}\n  y: {end: by_reason}\n" + END, {}, "a y", "steps_limit", "limit"),
    Case("a tie: raised before comes first", "rules:\n  - {when: run.steps >= 1, stop: steps_limit, to: y}\nstates:\n  a: {do: act, next: z}\n  y: {end: completed}\n  x: {stop: user_requested}\n" + END, {"a": [signal("user_requested")]}, "a x", "user_requested", "human"),
    Case("stops beat detours", "rules:\n  - {when: run.steps >= 1, to: d}\n  - {when: run.steps >= 1, stop: completed}\nstates:\n  a: {do: act, next: b}\n  b: {do: act, next: z}\n  d: {do: keep, next: return}\n" + END, {}, "a z", "completed"),
    Case("on_stop takes every stop", "on_stop: r\nrules:\n  - {when: run.steps >= 1, stop: steps_limit}\nstates:\n  a: {do: act, next: z}\n  r: {do: keep, next: e}\n  e: {end: by_reason}\n" + END, {}, "a r e", "steps_limit", "limit"),
    Case("to of the rule beats on_stop", "on_stop: r\nrules:\n  - {when: run.steps >= 1, stop: steps_limit, to: e}\nstates:\n  a: {do: act, next: z}\n  r: {do: keep, next: e}\n  e: {end: by_reason}\n" + END, {}, "a e", "steps_limit", "limit"),
    Case("the state that stops for that reason", "rules:\n  - {when: run.steps >= 1, stop: steps_limit}\nstates:\n  a: {do: act, next: z}\n  s: {stop: steps_limit}\n" + END, {}, "a s", "steps_limit", "limit"),
    Case("the end by reason", "rules:\n  - {when: run.steps >= 1, stop: error_rate}\nstates:\n  a: {do: act, next: z}\n  e: {end: by_reason}\n" + END, {}, "a e", "error_rate", "error"),
    Case("at covers only those states", "rules:\n  - {when: run.steps >= 1, stop: custom, at: [b]}\nstates:\n  a: {do: act, next: b}\n  b: {do: act, next: z}\n" + END, {}, "a b end-completed", "custom", "limit"),
    Case("a detour returns to where it was going", "rules:\n  - {when: run.steps >= 1, to: d}\nstates:\n  a: {do: act, next: z}\n  d: {do: keep, next: return}\n" + END, {}, "a d z", "completed"),
    Case("a detour before anything was done returns to the start", "rules:\n  - {when: run.visits.d < 1, to: d}\nstates:\n  q: {ask: Q?, when: run.steps >= 1, then: a, else: z}\n  a: {do: act, next: z}\n  d: {do: keep, next: return}\n" + END, {}, "q d q a z", "completed"),
    Case("before: only when it is about to be entered", "rules:\n  - {when: run.steps >= 1, to: d, before: [c]}\nstates:\n  a: {do: act, next: b}\n  b: {do: act, next: c}\n  c: {do: act, next: z}\n  d: {do: keep, next: return}\n" + END, {}, "a b d c z", "completed"),
    Case("before: behind a decision", "rules:\n  - {when: run.steps >= 1, to: d, before: [c]}\nstates:\n  a: {do: act, next: q}\n  q: {ask: Q?, when: run.steps >= 1, then: c, else: z}\n  c: {do: act, next: z}\n  d: {do: keep, next: return}\n" + END, {}, "a q d c z", "completed"),
    Case("a detour is skipped straight after itself", "rules:\n  - {when: run.steps >= 1, to: d}\nstates:\n  a: {do: act, next: b}\n  b: {do: act, next: z}\n  d: {do: keep, next: return}\n" + END, {}, "a d b d z", "completed"),
    Case("a detour that goes elsewhere is skipped straight after its own target", "rules:\n  - {when: run.steps >= 1 and run.visits.b < 1, to: d}\nstates:\n  a: {do: act, next: z}\n  b: {do: act, next: z}\n  d: {do: keep, next: b}\n" + END, {}, "a d b z", "completed"),
    Case("it may be made again when another action has finished", "rules:\n  - {when: run.steps >= 1 and run.visits.b < 2, to: d}\nstates:\n  a: {do: act, next: z}\n  b: {do: act, next: z}\n  d: {do: keep, next: b}\n" + END, {}, "a d b d b z", "completed"),
    Case("an unhandled failure stops", "states:\n  a: {do: act, next: z}\n" + END, {"a": [failure()]}, "a end-error", "error", "error"),
    Case("failed takes its edge", "states:\n  a: {do: act, failed: b, next: z}\n  b: {do: keep, next: z}\n" + END, {"a": [failure()]}, "a b z", "completed"),
    Case("failed: next goes on", "states:\n  a: {do: act, failed: next, next: z}\n" + END, {"a": [failure()]}, "a z", "completed"),
    Case("a decision behind it handles it", "states:\n  a: {do: act, next: q}\n  q: {ask: Q?, when: last.ok, then: y, else: z}\n  y: {stop: custom}\n" + END, {"a": [failure()]}, "a q z", "completed"),
    Case("a rule about errors handles it", "rules:\n  - {when: errors.total >= 1, stop: completed}\nstates:\n  a: {do: act, next: b}\n  b: {do: act, next: z}\n" + END, {"a": [failure()]}, "a z", "completed"),
    Case("a rule about something else does not", "rules:\n  - {when: run.steps >= 1, stop: steps_limit}\nstates:\n  a: {do: act, next: b}\n  b: {do: act, next: z}\n" + END, {"a": [failure()]}, "a end-error", "error", "error"),
    Case("on_error takes what nobody handles", "on_error: b\nstates:\n  a: {do: act, next: z}\n  b: {do: keep, next: z}\n" + END, {"a": [failure()]}, "a b z", "completed"),
    Case("on_error from a detour keeps where it came from", "on_error: e\nrules:\n  - {when: run.visits.a >= 1 and run.visits.d < 1, to: d}\nstates:\n  a: {do: act, next: z}\n  d: {do: keep, next: return}\n  e: {do: keep, next: return}\n" + END, {"d": [failure()]}, "a d e a z", "completed"),
    Case("retry, then success", "states:\n  a: {do: act, retry: {times: 2}, next: z}\n" + END, {"a": [failure(), failure()]}, "a a a z", "completed"),
    Case("retry is used up", "states:\n  a: {do: act, retry: {times: 2}, next: z}\n" + END, {"a": [failure()] * 3}, "a a a end-error", "error", "error"),
    Case("a retry comes before failed", "states:\n  a: {do: act, retry: {times: 1}, failed: b, next: z}\n  b: {do: keep, next: z}\n" + END, {"a": [failure()]}, "a a z", "completed"),
    Case("failed comes when the retries are used up", "states:\n  a: {do: act, retry: {times: 1}, failed: b, next: z}\n  b: {do: keep, next: z}\n" + END, {"a": [failure()] * 2}, "a a b z", "completed"),
    Case("another category is not retried", "states:\n  a: {do: act, retry: {times: 2}, next: z}\n" + END, {"a": [failure("CRITICAL")]}, "a end-error", "error", "error"),
    Case("a failure in the epilogue goes on", "on_stop: r\nrules:\n  - {when: run.steps >= 1, stop: custom}\nstates:\n  a: {do: act, next: z}\n  r: {do: keep, next: e}\n  e: {end: by_reason}\n" + END, {"r": [failure()]}, "a r e", "custom", "limit"),
    Case("rules are off in the epilogue", "rules:\n  - {when: run.steps >= 2, stop: error}\nstates:\n  a: {do: act, next: {to: r, stop: completed}}\n  r: {do: keep, next: e}\n  e: {end: completed}\n", {}, "a r e", "completed"),
    Case("stop: highest", "rules:\n  - {when: run.steps >= 1, signal: custom}\n  - {when: run.steps >= 1, signal: time_limit}\nstates:\n  a: {do: act, next: [{when: signals.count > 0, to: s}, {to: z}]}\n  s: {stop: highest, next: e}\n  e: {end: by_reason}\n" + END, {}, "a s e", "time_limit", "limit"),
    Case("a signal rule alone stops nothing", "rules:\n  - {when: run.steps >= 1, signal: custom}\nstates:\n  a: {do: act, next: b}\n  b: {do: act, next: z}\n" + END, {}, "a b z", "custom", "limit"),
    Case("a tool's signal stops at once", "states:\n  a: {do: act, next: b}\n  b: {do: act, next: z}\n" + END, {"a": [signal("stop_requested")]}, "a end-completed", "stop_requested", "limit"),
    Case("a continuation puts it off", "rules:\n  - {when: run.steps == 1, stop: steps_limit}\nstates:\n  a: {do: keep, next: b}\n  b: {do: act, next: z}\n" + END, {"a": [Outcome(continued=1)]}, "a b z", "completed"),
    Case("a continuation is spent", "rules:\n  - {when: run.steps >= 1, stop: steps_limit}\nstates:\n  a: {do: keep, next: b}\n  b: {do: act, next: z}\n" + END, {"a": [Outcome(continued=1)]}, "a b end-completed", "steps_limit", "limit"),
    Case("a fork goes on where its branches meet", "states:\n  f: {all: [p, q], next: ~}\n  p: {ask: P?, when: run.steps >= 9, then: y, else: j}\n  q: {ask: Q?, when: run.steps >= 9, then: y, else: j}\n  j: {do: act, next: z}\n  y: {stop: custom}\n" + END, {}, "f p q j z", "completed"),
    Case("a fork takes the highest stop", "states:\n  f: {all: [p, q]}\n  p: {ask: P?, when: run.steps >= 0, then: x, else: j}\n  q: {ask: Q?, when: run.steps >= 0, then: y, else: j}\n  j: {do: act, next: z}\n  x: {stop: custom}\n  y: {stop: time_limit}\n" + END, {}, "f p q y", "time_limit", "limit"),
    Case("equals in a fork: the order of all", "states:\n  f: {all: [p, q]}\n  p: {ask: P?, when: run.steps >= 0, then: x, else: j}\n  q: {ask: Q?, when: run.steps >= 0, then: y, else: j}\n  j: {do: act, next: z}\n  x: {stop: user_requested}\n  y: {stop: steps_limit}\n" + END, {}, "f p q x", "user_requested", "human"),
    Case("a guard that raises is not false", "vars: {n: 0}\nstates:\n  a: {do: act, next: [{when: 1 / vars.n > 0, to: z}, {to: y}]}\n  y: {stop: custom}\n" + END, {}, "a end-error", "guard_error", "error"),
    Case("a rule that raises stops", "vars: {n: 0}\nrules:\n  - {when: 1 / vars.n > 0, stop: custom}\nstates:\n  a: {do: act, next: z}\n" + END, {}, "a end-error", "guard_error", "error"),
    Case("a set that raises stops", "vars: {n: 0, m: 0.0}\nstates:\n  a: {do: act, next: {to: b, set: {vars.m: 1 / vars.n}}}\n  b: {do: act, next: z}\n" + END, {}, "a b end-error", "guard_error", "error"),
    Case("an exception is a failure", "states:\n  a: {do: act, next: z}\n" + END, {"a": [ValueError("odd")]}, "a end-error", "error", "error"),
    Case("end by word without a signal", "states:\n  a: {do: act, next: e}\n  e: {end: error}\n", {}, "a e", "error", "error"),
    Case("the word fixes the status", "states:\n  a: {do: act, next: {to: e, stop: error_rate}}\n  e: {end: completed}\n", {}, "a e", "error_rate", "limit"),
    Case("rules are looked at at the start", "limits: {steps: 0}\nrules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\nstates:\n  a: {do: act, next: z}\n" + END, {}, "a end-completed", "steps_limit", "limit"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_where_a_run_goes(case: Case) -> None:
    run = start(case.body.replace(", next: ~", ""), case.said)
    result = run.run()
    assert (path(run), result.reason, result.kind) == (case.path, case.reason, case.kind)
    assert run.replay().same


WAIT = (
    "states:\n  w:\n    on: {yes: z, no: {to: n, data: {why: str}}}\n    within: 5m\n    expired: x\n  n: {do: keep, next: z}\n  x: {stop: user_unresponsive}\n"
    + END
)


class TestWaits:
    """Waits: answers, expiry, pauses."""

    def test_entering_a_wait_pauses(self) -> None:
        run = start(WAIT)
        run.advance()
        assert (run.state, run.status, run.session.position.paused_from) == (
            "w",
            "paused",
            "running",
        )

    def test_an_answer_resumes_and_leads_on(self) -> None:
        run = start(WAIT)
        run.advance()
        run.send("no", {"why": "so"})
        result = run.run()
        assert path(run) == "w n z"
        assert result.facts.last.answer == {"why": "so"}

    def test_it_expires_on_the_simulated_clock(self) -> None:
        clock = ManualClock()
        run = start(WAIT, clock=clock)
        before = clock.now()
        assert run.run().reason == "user_unresponsive"
        assert clock.now() - before == 300
        assert run.facts.run.idle == 300
        assert run.facts.run.working == 0

    def test_an_answer_that_arrived_in_time_counts(self) -> None:
        clock = ManualClock()
        run = start(WAIT, clock=clock)
        run.advance()
        run.send("yes", at=clock.now() + 299)
        clock.advance(400)
        assert run.run().reason == "completed"

    def test_an_answer_that_came_late_does_not(self) -> None:
        clock = ManualClock()
        run = start(WAIT, clock=clock)
        run.advance()
        clock.advance(400)
        with pytest.raises(WaitError, match="wait 0 expired at"):
            run.send("yes")
        assert run.run().reason == "user_unresponsive"

    def test_resume_at_a_wait_names_its_events(self) -> None:
        run = start(WAIT)
        run.advance()
        with pytest.raises(StatusError, match="`yes`, `no`"):
            run.resume()

    def test_a_pause_at_a_wait_is_kept(self) -> None:
        run = start(WAIT)
        run.advance()
        run.pause()
        run.advance()
        run.send("no", {"why": "x"})
        run.run()
        assert (run.state, run.status) == ("n", "paused")
        run.resume()
        assert run.run().reason == "completed"


class TestStatus:
    """The status region."""

    BODY = (
        "states:\n  a: {do: act, status: debugging, next: b}\n  b: {do: act, next: c}\n  c: {do: act, status: running, next: z}\n"
        + END
    )

    def test_status_sticks_until_another_is_wanted(self) -> None:
        run = start(self.BODY)
        seen = [run.status]
        while run.advance() is not None:
            seen.append(run.status)
        assert seen == ["idle", "debugging", "debugging", "running", "completed"]

    def test_a_pause_comes_back_to_debugging(self) -> None:
        run = start(self.BODY)
        run.advance()
        run.pause()
        run.run()
        assert (run.status, run.state) == ("paused", "a")
        run.resume()
        run.advance()
        assert run.status == "debugging"

    def test_an_ended_run_takes_nothing_more(self) -> None:
        run = start("states:\n" + END)
        run.run()
        assert run.advance() is None
        for call in (run.pause, run.cancel):
            with pytest.raises(StatusError):
                call()


class TestTime:
    """Blocked actions, back-off, clocks that jump."""

    def test_blocked_waits_and_calls_again(self) -> None:
        clock = ManualClock()
        due = clock.now() + 60
        run = start(
            "states:\n  a: {do: act, next: z}\n" + END,
            {"a": [Blocked(due, "child"), OK]},
            clock=clock,
        )
        assert run.run().reason == "completed"
        assert run.facts.run.idle == 60
        assert [r.kind for r in run.records] == ["start", "blocked", "resume", "step"]

    def test_retry_waits_grow(self) -> None:
        clock = ManualClock()
        before = clock.now()
        body = "states:\n  a: {do: act, retry: {times: 3, base: 1s, factor: 2}, next: z}\n" + END
        run = start(body, {"a": [failure()] * 3}, clock=clock)
        run.run()
        assert clock.now() - before == 1 + 2 + 4

    def test_a_clock_that_jumps_back_shrinks_nothing(self) -> None:
        clock = ManualClock(1000)
        run = start(
            "states:\n  a: {do: act, next: b}\n  b: {do: act, next: c}\n  c: {do: act, next: z}\n"
            + END,
            clock=clock,
        )
        run.advance()
        clock.set(1010)
        run.advance()
        clock.set(500)
        run.advance()
        assert run.facts.run.elapsed == 10
        clock.set(1020)
        run.advance()
        assert run.facts.run.elapsed == 20


BROKEN = "vars: {x: '', l: {type: 'list[str]', value: []}}\ndefine: {first: 'vars.l[0]'}\n"


def test_a_definition_that_raises_in_save_fails_the_action() -> None:
    run = start(
        BROKEN + "states:\n  a: {do: act, save: {vars.x: '{{ first }}'}, failed: b, next: z}\n"
        "  b: {do: keep, next: z}\n" + END
    )
    result = run.run()
    assert path(run) == "a b z"
    (error,) = result.errors
    assert "`vars.l[0]` could not be evaluated" in error["message"]
    assert run.facts.errors.total == 1
    assert run.replay().same


def test_a_definition_that_raises_in_the_message_of_a_rule_stops_all_the_same() -> None:
    run = start(
        BROKEN + "rules: [{when: run.steps >= 1, stop: custom, message: '{{ first }}'}]\n"
        "states:\n  a: {do: act, next: z}\n" + END
    )
    result = run.run()
    assert result.reason == "custom"
    assert "its message could not be written" in result.signals[0].message
    assert run.replay().same


class Message(NamedTuple):
    """A machine that stops, and what its signal says."""

    id: str
    body: str
    says: str


CHECKED = (
    "states:\n  f: {do: act, all: [p, q]}\n"
    "  p: {ask: P?, when: run.steps >= 1, then: one, else: a}\n"
    "  q: {ask: Q?, when: run.steps >= 1, then: two, else: a}\n"
    "  a: {do: act, next: f}\n"
    "  one: {stop: custom, message: 'one at {{ run.steps }}'}\n"
    "  two: {stop: token_limit, message: 'two at {{ run.steps }}'}\n"
)
MESSAGES = [
    Message("of-a-state", "states:\n  a: {do: act, next: s}\n  s: {stop: custom, message: '{{ run.steps }} of {{ limits.n }}'}\n", "1 of 2"),
    Message("of-a-state-that-sets", "vars: {x: 0}\nstates:\n  a: {do: act, next: s}\n  s: {stop: custom, set: {vars.x: run.steps + 1}, message: 'x is {{ vars.x }}'}\n", "x is 2"),
    Message("of-an-edge", "vars: {x: 0}\nstates:\n  a: {do: act, next: {to: z, stop: custom, set: {vars.x: 7}, message: 'x is {{ vars.x }}'}}\n" + END, "x is 7"),
    Message("of-on-error", "on_error: {to: z, stop: custom, message: 'it said {{ last.error.message }}'}\nstates:\n  a: {do: act, next: a}\n" + END, "it said boom"),
    Message("with-a-definition", "define: {share: run.steps / 4}\nstates:\n  a: {do: act, next: s}\n  s: {stop: custom, message: '{{ share | percent }} used'}\n", "25% used"),
    Message("of-the-highest-of-a-fork", CHECKED, "two at 1"),
    Message("that-cannot-be-written", BROKEN + "states:\n  a: {do: act, next: s}\n  s: {stop: custom, message: '{{ first }}'}\n", "(its message could not be written: `vars.l[0]` could not be evaluated"),
    Message("of-an-edge-that-cannot-be-written", "states:\n  a: {do: act, next: {to: z, stop: custom, message: '{{ 1 / (run.steps - 1) }}'}}\n" + END, "(its message could not be written: "),
]  # fmt: skip


@pytest.mark.parametrize("case", MESSAGES, ids=lambda case: case.id)
def test_the_message_beside_a_stop_goes_onto_the_signal(case: Message) -> None:
    boom = failure() if case.id == "of-on-error" else OK
    limits = "limits: {n: 2}\nrules: [{when: run.steps >= limits.n, stop: steps_limit}]\n"
    run = start(limits + case.body, {"a": [boom]})
    result = run.run()
    highest = min(result.signals, key=lambda signal: signal.reason.priority)
    wanted = "token_limit" if case.body is CHECKED else "custom"
    assert result.reason == highest.reason == wanted
    assert highest.message.startswith(case.says)
    assert run.replay().same


def test_every_stop_of_a_fork_has_its_own_message() -> None:
    result = start(CHECKED).run()
    assert [s.message for s in result.signals] == ["one at 1", "two at 1"]


class Outside(NamedTuple):
    """A stop from outside, and what its signal says once it has led to a state that stops."""

    id: str
    stop: str
    message: str
    says: str


@pytest.mark.parametrize("case", [
    Outside("the-file", "user_requested", "", "Asked to."),
    Outside("the-caller", "user_requested", "Enough.", "Enough."),
    Outside("the-file-for-the-highest", "highest", "", "Asked to."),
    Outside("the-caller-for-the-highest", "highest", "Enough.", "Enough."),
], ids=lambda case: case.id)  # fmt: skip
def test_a_stop_from_outside_that_says_nothing_says_what_the_file_says(case: Outside) -> None:
    head = "" if case.stop == "user_requested" else "on_stop: s\n"
    s = f"  s: {{stop: {case.stop}, message: Asked to., next: y}}\n  y: {{end: by_reason}}\n"
    run = start(head + "states:\n  a: {do: act, next: a}\n" + s)
    run.cancel(message=case.says if case.message else "")
    result = run.run()
    assert [(s.reason, s.message, s.source) for s in result.signals] == [
        ("user_requested", case.says, "outside")
    ]
    assert run.records[-1].signals.to_list() == result.signals.to_list()
    assert run.replay().same


def test_who_raised_a_reason_first_has_said_why() -> None:
    body = "states:\n  a: {do: act, next: a}\n  s: {stop: custom, message: the file}\n"
    asked = StopSignal(StopReason("custom"), "the tool", {}, "a")
    run = start(body, {"a": [Outcome(signals=(asked,))]})
    result = run.run()
    assert [s.message for s in result.signals] == ["the tool"]


def test_a_signal_from_a_journal_has_the_priority_that_the_file_gives_it() -> None:
    body = (
        "reasons: {odd: {priority: 0, status: error}}\n"
        "rules:\n  - {when: run.steps >= 1, stop: steps_limit}\n"
        "states:\n  a: {do: act, next: z}\n" + END
    )
    read_back = StopSignal(StopReason("odd"), "said so")
    run = start(body, {"a": [Outcome(signals=(read_back,))]})
    result = run.run()
    assert (result.reason, result.status) == ("odd", "error")


def test_machines_with_other_definitions_do_not_share_compiled_rules() -> None:
    body = (
        "define: {long: %s}\nrules:\n  - {when: long, stop: time_limit}\n"
        "states:\n  a: {do: act, next: z}\n" + END
    )
    assert start(body % "run.steps >= 9").run().reason == "completed"
    assert start(body % "run.steps >= 1").run().reason == "time_limit"


def test_a_pause_during_a_back_off_takes_effect_after_it() -> None:
    clock = ManualClock()
    due = clock.now() + 60
    said: Said = {"a": [Blocked(due, "child"), OK]}
    run = start("states:\n  a: {do: act, next: z}\n" + END, said, clock=clock)
    run.advance()
    run.advance()
    assert run.status == "paused"
    run.pause()
    run.run()
    assert (run.state, run.status) == ("a", "paused")
    run.resume()
    assert run.run().reason == "completed"


def test_a_fork_of_an_ended_run_stands_where_it_was_forked() -> None:
    run = start("states:\n  a: {do: act, next: b}\n  b: {do: act, next: z}\n" + END)
    run.run()
    fork = run.fork(2)
    assert (fork.session.row.status, fork.session.row.state, fork.session.row.reason) == (
        "running",
        "b",
        "",
    )
    assert fork.run().reason == "completed"
