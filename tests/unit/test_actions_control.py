"""`back_off`, `ask_user`, `signal`, `continue_run`, `prune_context`, `nothing`, `report`,
`save_run`, `notify`, `python`: what each does, and what it leaves alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from chartloop.core.outcome import Message, Outcome
from chartloop.run.journal import MemoryJournal
from chartloop.run.ports import SandboxResult
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock
from tests.support import failure, machine, path, start
from tests.talks import outcomes, talk, written

END = "  z: {stop: completed}\n"


class TestBackOff:
    BODY = (
        "states:\n  a: {do: act, failed: b, next: z}\n  b: {do: back_off, with: {base: 2s, factor: 3, most: 10s}, next: a}\n"
        + END
    )

    def test_waits_grow_up_to_the_longest_and_work_resets_them(self) -> None:
        clock = ManualClock()
        begun = clock.now()
        run = start(self.BODY, {"a": [failure()] * 4}, clock=clock)
        assert run.run().reason == "completed"
        waited = [o.result["waited"] for o in outcomes(run, "b")]
        assert waited == [2, 6, 10, 10]
        assert clock.now() - begun == 28
        assert (run.facts.errors.retries, run.facts.errors.consecutive, run.facts.errors.total) == (
            0,
            0,
            4,
        )
        assert run.facts.run.idle == 28
        assert run.facts.run.steps == 9

    def test_it_forgives_and_counts(self) -> None:
        run = start(self.BODY, {"a": [failure()]})
        while run.advance() is not None and run.facts.run.steps < 2:
            pass
        assert (run.facts.errors.consecutive, run.facts.errors.retries) == (0, 1)

    def test_resumed_early_it_goes_on_waiting(self) -> None:
        clock = ManualClock()
        run = start(self.BODY, {"a": [failure()]}, clock=clock)
        for _ in range(3):
            run.advance()
        assert (run.status, run.session.position.blocked_on) == ("paused", "back-off")
        run.resume()
        run.advance()
        run.advance()
        assert (run.status, run.session.position.wake_at) == ("paused", clock.now() + 2)
        assert run.run().reason == "completed"
        assert run.facts.run.idle == 2

    def test_without_a_wait_it_is_done_at_once(self) -> None:
        run = start(self.BODY.replace("base: 2s", "base: 0s"), {"a": [failure()]})
        run.run()
        assert [r.kind for r in run.records] == ["start", "step", "step", "step"]


def test_ask_user_puts_the_question_of_the_wait() -> None:
    body = (
        "vars: {n: 3}\nstates:\n  a: {do: ask_user, with: {text: 'Is {{ vars.n }} right?'}, next: w}\n  w: {ask: Well?, on: {yes: z, no: w2}}\n  w2: {ask: Still?, on: {yes: z}}\n"
        + END
    )
    run = start(body)
    assert run.run().question == "Is 3 right?"
    assert run.result.events == ("yes", "no")
    run.send("no")
    assert run.run().question == "Still?"  # the question was that of one wait


def test_signal_stops_at_the_next_decision() -> None:
    body = (
        "states:\n  a: {do: signal, with: {reason: custom, message: 'after {{ run.steps }}'}, next: b}\n  b: {do: act, next: z}\n"
        + END
    )
    run = start(body)
    result = run.run()
    assert (path(run), result.reason) == ("a end-completed", "custom")
    assert (result.signals[0].message, result.signals[0].source) == ("after 0", "a")


class Continue(NamedTuple):
    """How often a run may be continued, and how far it comes."""

    times: int
    path: str
    granted: list[bool]


@pytest.mark.parametrize(
    "case", [Continue(0, "a c end-completed", [False]), Continue(1, "a c a c end-completed", [True, False]), Continue(2, "a c a c a c end-completed", [True, True, False])],
    ids=lambda case: str(case.times),
)  # fmt: skip
def test_continue_run(case: Continue) -> None:
    body = (
        f"rules:\n  - {{when: run.steps >= 1, signal: custom, at: [a]}}\nstates:\n  a: {{do: act, next: c}}\n  c: {{do: continue_run, with: {{times: {case.times}}}, next: [{{when: signals.continued, to: a}}, {{to: s}}]}}\n  s: {{stop: highest, next: e}}\n  e: {{end: by_reason}}\n"
        + END
    )
    run = start(body)
    result = run.run()
    assert [o.result["granted"] for o in outcomes(run, "c")] == case.granted
    assert result.facts.run.continuations == case.times
    assert len(run.session.position.suppressed) == case.times
    assert path(run).replace("s e", "end-completed") == case.path


def said(*texts: str) -> list[Message]:
    return [{"role": "user", "content": t} for t in texts]


class Prune(NamedTuple):
    """How a conversation of six messages of 104 tokens each is shortened."""

    id: str
    fields: str
    kept: str


PRUNES = [
    Prune("sliding keeps the first two", "target: 50%", "01 45"),
    Prune("keep one", "target: 50%, keep_first: 1", "0 345"),
    Prune("truncate", "strategy: truncate, target: 50%", "2345"),
    Prune("nothing to do", "target: 100%", "012345"),
    Prune("room for the reply", "target: 50%, response_tokens: 200", "0 5"),
    Prune("less than anything", "target: 1%", "5"),
]  # fmt: skip


@pytest.mark.parametrize("case", PRUNES, ids=lambda case: case.id)
def test_prune_context(case: Prune) -> None:
    body = (
        f"model: {{name: none, context_window: 840}}\nstates:\n  a: {{do: prune_context, with: {{{case.fields}}}, next: z}}\n"
        + END
    )
    messages = said(*(str(n) * 400 for n in range(6)))
    run = talk(body, messages=messages)
    run.run()
    kept = [m["content"][0] for m in run.messages]
    assert "".join(kept) == case.kept.replace(" ", "")
    result = outcomes(run, "a")[0].result
    assert result["removed"] == 6 - len(kept)
    assert (result["before"], result["after"]) == (624, 104 * len(kept))
    assert run.facts.usage.messages == len(kept)
    assert run.facts.usage.context_tokens == 104 * len(kept)
    written(run)


def test_when_nothing_can_be_pruned_it_says_so() -> None:
    run = talk(
        "model: {name: none, context_window: 40}\nstates:\n  a: {do: prune_context, next: z}\n"
        + END,
        messages=said("x" * 400),
    )
    run.run()
    assert (run.facts.usage.prunable, len(run.messages)) == (False, 1)


def test_nothing_does_nothing() -> None:
    run = start("states:\n  a: {do: nothing, next: z}\n" + END)
    run.run()
    assert outcomes(run, "a") == [Outcome()]
    assert (run.facts.run.steps, run.facts.progress.recent) == (1, ())


class TestReport:
    def test_it_says_how_the_run_stands(self) -> None:
        run = start(
            "on_stop: r\nstates:\n  a: {do: act, next: {to: r, stop: custom}}\n  r: {do: report, next: e}\n  e: {end: by_reason}\n"
            + END
        )
        result = run.run()
        report = outcomes(run, "r")[0].result
        assert (report["reason"], report["steps"], report["task"]) == ("custom", 1, "task")
        assert [signal["reason"] for signal in report["signals"]] == ["custom"]
        assert report["cost"] is None
        assert "| Stopped for | custom |" in report["text"]
        assert "| Cost | not known |" in report["text"]
        assert result.partial == ()

    def test_partial_adds_to_the_partial_results(self) -> None:
        body = (
            "states:\n  a: {do: report, with: {text: 'at {{ run.steps }}', partial: true}, next: b}\n  b: {do: report, with: {text: 'at {{ run.steps }}', partial: true}, next: z}\n"
            + END
        )
        assert start(body).run().partial == ("at 0", "at 1")


def test_save_run_writes_a_snapshot() -> None:
    journal = MemoryJournal()
    run = start(
        "states:\n  a: {do: act, next: b}\n  b: {do: save_run, next: c}\n  c: {do: act, next: z}\n"
        + END,
        journal=journal,
    )
    run.advance()
    run.advance()
    assert by_hand(journal.snapshot(run.id)) is None
    run.advance()
    kept = by_hand(journal.snapshot(run.id))
    assert kept is not None
    assert (kept.seq, kept.record_seq, kept.data["position"]["state"]) == (3, 3, "c")


class Listener:
    """Notes down what it is told, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.error = error

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        if self.error is not None:
            raise self.error
        self.heard.append((text, data["steps"]))


def test_notify_tells_somebody() -> None:
    listener = Listener()
    body = (
        "states:\n  a: {do: notify, with: {text: 'hi {{ run.task }}'}, next: b}\n  b: {do: notify, next: z}\n"
        + END
    )
    start(body, notifier=listener).run()
    assert listener.heard == [("hi task", 0), ("m: at b", 1)]


def test_a_notifier_that_fails_fails_the_action() -> None:
    run = start(
        "states:\n  a: {do: notify, next: z}\n" + END, notifier=Listener(OSError("no line"))
    )
    result = run.run()
    assert (result.reason, result.errors[0]["message"]) == ("error", "OSError: no line")


class Sandbox:
    """Gives results in order; keeps what it was asked."""

    suspends = False

    def __init__(self, *results: SandboxResult) -> None:
        self.results = list(results)
        self.asked: list[tuple[str, bytes | None, float | None]] = []

    async def run(
        self, code: str, *, session: bytes | None, timeout: float | None
    ) -> SandboxResult:
        self.asked.append((code, session, timeout))
        return self.results.pop(0)


class TestPython:
    BODY = (
        "vars: {code: '1 + 1'}\nstates:\n  a: {do: python, with: {code: vars.code}, within: 3s, failed: next, next: b}\n  b: {do: python, with: {code: vars.code}, failed: next, next: z}\n"
        + END
    )

    def test_the_result_has_all_its_fields(self) -> None:
        sandbox = Sandbox(SandboxResult(True, 2, "out", "err", session=b"s1"), SandboxResult(True))
        run = start(self.BODY, sandbox=sandbox)
        run.run()
        assert outcomes(run, "a")[0].result == {
            "value": 2,
            "stdout": "out",
            "stderr": "err",
            "error": "",
            "session_lost": False,
        }
        assert sandbox.asked == [("1 + 1", None, 2.75), ("1 + 1", b"s1", 59.75)]
        written(run)

    def test_an_error_fails_it_with_what_was_printed(self) -> None:
        run = start(
            self.BODY,
            sandbox=Sandbox(
                SandboxResult(False, None, "out", "", "line 1: bad"), SandboxResult(True)
            ),
        )
        run.run()
        (outcome,) = outcomes(run, "a")
        assert outcome.error is not None
        assert (outcome.ok, outcome.error.category, outcome.error.message) == (
            False,
            "RECOVERABLE",
            "line 1: bad",
        )
        assert outcome.result["stdout"] == "out"

    def test_lost_variables_are_said(self) -> None:
        lost = SandboxResult(False, error="time is up", session_lost=True)
        sandbox = Sandbox(SandboxResult(True, session=b"s1"), lost)
        run = start(self.BODY, sandbox=sandbox)
        result = run.run()
        assert sandbox.asked[1][1] == b"s1"
        assert run.session.position.kept == {"python": ""}
        assert any("variables were lost" in w for w in result.warnings)
        assert outcomes(run, "b")[0].result["session_lost"] is True

    def test_a_session_that_was_saved_survives_a_restart(self) -> None:
        journal = MemoryJournal()
        sandbox = Sandbox(SandboxResult(True, session=b"\x00\xff"), SandboxResult(True))
        run = start(self.BODY, sandbox=sandbox, journal=journal)
        run.advance()
        run.advance()
        again = machine(self.BODY).open(
            run.id, journal=journal, sandbox=sandbox, clock=ManualClock()
        )
        again.run()
        assert sandbox.asked[1][1] == b"\x00\xff"
