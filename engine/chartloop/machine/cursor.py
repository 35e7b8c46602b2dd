"""One decision in progress: what a live machine moves from one position to the next.

A `Cursor` never changes the position that it was given. Here are its single moves: fire a status
trigger, raise a signal, take an edge, enter a state; `Signals` are those of this decision: what
waits, what only informs, what was put off. Rules are evaluated in `machine.rules`; the
way to the next resting state is in `machine.transition`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chartloop.core.errors import StatusError
from chartloop.core.facts import Facts, Failure, SignalFacts
from chartloop.core.position import Position
from chartloop.core.reasons import NO_SIGNALS, StopReason, StopSignal, StopSignals
from chartloop.core.records import Input
from chartloop.language.expression import GUARD_ERRORS, Expression, GuardFailed
from chartloop.language.spec import HIGHEST, Assign
from chartloop.language.template.template import Template
from chartloop.machine.assignment import set_values, template_names
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision, Look
from chartloop.machine.regions import Answers, Configuration, GuardedTransition
from chartloop.machine.transition_table import END_ERROR

FAILURES = (*GUARD_ERRORS, GuardFailed)
"""What reading an expression may raise."""


class Cursor(Configuration):
    """What a decision changes, and what is known of how it came about.

    What events move and guards read has its own attribute: `state`, `status`, `facts` and
    `signals`. All else that a position holds is changed by name, in `draft`.
    """

    # most decisions leave these as they are
    warnings: tuple[str, ...] = ()
    winner = ""
    unhandled = False
    unsaved: Failure | None = None
    retry_in: float | None = None
    chosen: tuple[str, str, Facts, GuardedTransition | None] | None = None
    """What was chosen last without taking it: trigger, state, facts, edge."""

    def __init__(
        self, chart: Chart, position: Position, input: Input, ask: Any, trace: bool
    ) -> None:
        facts = position.facts
        super().__init__(position.state, position.status, facts, Answers(ask, input.opaque))
        self.chart = chart
        self.input = input
        self.position = position
        """Where the decision started."""
        self.draft = position
        """What it has changed so far. Its state, status, facts and signals are put in by
        `finish`: until then read them from the cursor."""
        self.signals = Signals(
            position.signals, position.soft, position.suppressed, facts.signals.continued
        )
        self.taken: list[str] = []
        self.path: list[str] = []
        self.looks: list[Look] | None = [] if trace else None
        self.before_move = facts

    def keep(self, more: Mapping[str, Any]) -> None:
        """Add to what the position keeps."""
        self.draft = self.draft.replace(kept={**self.draft.kept, **more})

    # status ---------------------------------------------------------------------------------

    def fire(self, trigger: str) -> None:
        """A trigger of the status region. `StatusError` when the table does not have it."""
        event = self.chart.status.triggers.get(trigger)
        before, facts = self.status, self.facts
        taken = event.trigger(self) if event is not None else None
        if taken is None:
            raise StatusError(f"cannot {trigger}: the run is {before}")
        if self.looks is not None:
            look = Look("status", before, trigger, facts, (), taken.origin, "", self.oracle)
            self.looks.append(look)
        paused_from = before if trigger == "pause" else ""
        self.draft = self.draft.replace(paused_from=paused_from)
        run = facts.run.replace(status=self.status, paused_from=paused_from)
        self.facts = facts.replace(run=run)

    def pause(self) -> None:
        """Into `paused`, and the clock of `idle` starts."""
        self.fire("pause")
        marks = self.facts.marks
        self.facts = self.facts.replace(
            marks=marks.replace(paused_at=max(marks.now, self.input.at))
        )

    def resume(self) -> None:
        """Out of `paused`, into whichever status was paused."""
        self.fire("resume")
        self.facts = self.facts.replace(marks=self.facts.marks.replace(paused_at=None))
        waited = self.draft.wake_at if self.draft.blocked_on else None
        self.draft = self.draft.replace(waited=waited, wake_at=None, blocked_on="")

    # signals --------------------------------------------------------------------------------

    def raise_signal(self, signal: StopSignal, *, soft: bool = False) -> None:
        """Raise a signal. `soft`: it informs, the file's own decisions judge it."""
        own = self.chart.spec.reason(signal.reason)
        if own is not signal.reason:  # a journal knows the names of reasons, the file their meaning
            signal = replace(signal, reason=own)
        if own not in self.chart.spec.reasons:
            message = f"stop reason `{own}` is not one of the machine's: it stops as `custom` does"
            self.warnings += (message,)
        self.signals.add(signal, soft=soft)
        self.facts = self.facts.replace(signals=self.signals.facts())

    def render_message(self, message: Template | None, otherwise: str = "") -> str:
        """A signal's message as the file has it. One that cannot be written never fails a run."""
        if message is None:
            return otherwise
        try:
            return message.render(template_names(self.chart.spec, self.facts, message.reads))
        except FAILURES as error:
            return f"{otherwise} (its message could not be written: {error})".lstrip()

    def suppress(self) -> None:
        """Work has started again: what a continuation put off goes onto the record."""
        self.signals.suppress()
        self.facts = self.facts.replace(signals=self.signals.facts())

    def continue_run(self, times: int) -> None:
        """Put the pending signals off, unless that was done so often already."""
        run = self.facts.run
        if run.continuations < times:
            self.signals.continued = True
            run = run.replace(continuations=run.continuations + 1)
            self.facts = self.facts.replace(run=run, signals=self.signals.facts())

    def raise_guard_error(self, text: str, error: BaseException, where: str) -> None:
        """A guard or `set` raised: that is never False, it stops the run."""
        cause = error.cause if isinstance(error, GuardFailed) else error
        message = f"`{text}` raised {type(cause).__name__}: {cause}"
        self.raise_signal(StopSignal(self.chart.spec.reason("guard_error"), message, {}, where))

    # moving ---------------------------------------------------------------------------------

    @property
    def leaves_for_failure(self) -> bool:
        """Whether a failed action is retried or leaves by another edge."""
        return self.retrying or (self.failed and self.state in self.chart.diverting)

    def choose(self, trigger: str) -> GuardedTransition | None:
        """The edge that would be taken, without taking it; None when that cannot be said."""
        event = self.chart.event(trigger)
        if event is None:
            return None
        if self.draft.returns:
            self.find_return()
        asked = len(self.oracle.known)
        try:
            taken = event.choose(self)
        except FAILURES:  # the move itself says so
            return None
        if len(self.oracle.known) == asked:  # what Python guards say may change, and is recorded
            self.chosen = (trigger, self.state, self.facts, taken)
        return taken

    def choose_now(self, trigger: str) -> GuardedTransition | None:
        """The edge to take. Guards are not asked anew where nothing has changed since."""
        if self.chosen is not None and self.branch is None:
            before, state, facts, taken = self.chosen
            if facts is self.facts and state == self.state and before == trigger:
                return taken
        event = self.chart.event(trigger)
        if self.draft.returns:
            self.find_return()
        return event.choose(self) if event is not None else None

    def find_return(self) -> None:
        """Where `next: return` would go from here."""
        self.returning = self.chart.interruptible.get(self.draft.returns[-1].point, "")

    def perform(self, taken: GuardedTransition) -> None:
        """A transition has been taken: its `set` and `stop` happen."""
        self.taken.append(taken.origin)
        if taken.set:
            self.assign(taken.set, taken.origin)
        if taken.stop:
            self.open_epilogue(taken.stop, taken.origin, taken.message)

    def may_detour(self, id: str) -> bool:
        """Whether a detour may be made now: not straight after itself, not inside itself."""
        return id != self.draft.skip and not any(made.rule == id for made in self.draft.returns)

    def assign(self, assigns: tuple[Assign, ...], where: str) -> None:
        try:
            values = set_values(assigns, self.facts, self.oracle)
        except FAILURES as error:
            text = ", ".join(a.value.text for a in assigns if isinstance(a.value, Expression))
            self.raise_guard_error(text, error, where)
            return
        changed = {n.removeprefix("vars."): v for n, v in values.items()}
        self.facts = self.facts.replace(vars={**self.facts.vars, **changed})

    def open_epilogue(self, reason: str, where: str, message: Template | None = None) -> None:
        """Open the epilogue: the reason is settled, rules are off."""
        if reason == HIGHEST and message is not None:
            reason = self.signals.top  # it was raised before: the message is for one without
        if reason and reason != HIGHEST:
            said = self.render_message(message)
            self.raise_signal(StopSignal(self.chart.spec.reason(reason), said, {}, where))
        self.draft = self.draft.replace(stopping=True)
        self.winner = self.signals.top

    def leave(self, reason: str) -> None:
        """Out of a state that cannot continue, to where a stop for this reason goes."""
        target = self.chart.route(reason)
        if self.draft.stopping or target == self.state:  # the file's own way out failed
            target = END_ERROR
        self.draft = self.draft.replace(stopping=True)
        self.winner = reason
        self.failed = self.retrying = False
        self.state = target
        self.taken.append(f"raised.{target}")
        self.enter(target)

    def count_entry(self, name: str) -> None:
        """Count an entry of a state. Visits are a copy of this decision's own."""
        run = self.facts.run
        visits: Any = run.visits
        if visits is self.position.facts.run.visits or self.looks is not None:
            visits = dict(visits)
            self.facts = self.facts.replace(run=run.replace(visits=visits))
        visits[name] = visits.get(name, 0) + 1
        self.path.append(name)

    def enter(self, name: str) -> None:
        """Enter a state: visits, status, set, stop."""
        self.count_entry(name)
        entry = self.chart.entry.get(name)
        if entry is not None:
            if entry.status and entry.status != self.status:
                self.fire("debug" if entry.status == "debugging" else "recover")
            if entry.set:
                self.assign(entry.set, name)
            if entry.stop:
                self.open_epilogue(entry.stop, name, entry.message)
        if self.draft.returns and name in self.chart.main:
            self.draft = self.draft.replace(returns=())

    # the end of it ----------------------------------------------------------------------------

    def finish(self) -> tuple[Position, Decision]:
        """The new position, and what led there."""
        signals = self.signals
        position = self.draft.replace(
            state=self.state, status=self.status, facts=self.facts,
            signals=signals.pending, soft=signals.soft, suppressed=signals.suppressed,
        )  # fmt: skip
        decision = Decision(
            state=self.position.state, input=self.input, taken=tuple(self.taken),
            path=tuple(self.path), signals=StopSignals(signals.new) if signals.new else NO_SIGNALS,
            winner=self.winner, warnings=self.warnings, next=self.state, status=self.status,
            looks=tuple(self.looks) if self.looks else (), opaque=tuple(self.oracle.given),
            unsaved=self.unsaved,
        )  # fmt: skip
        return position, decision

    def keep_facts(self) -> None:
        """Keep the facts as they are before a move, for an explanation."""
        self.before_move = self.facts


class Signals:
    """Signals as they are being raised.

    `pending` wait; those named in `soft` came from `signal` rules and are judged by the file's
    own decisions; `suppressed` were put off by a continuation; `new` were raised just now.
    """

    __slots__ = ("continued", "new", "pending", "soft", "suppressed")

    def __init__(
        self, pending: StopSignals, soft: tuple[str, ...], suppressed: StopSignals, continued: bool
    ) -> None:
        self.pending = pending
        self.soft = soft
        self.suppressed = suppressed
        self.continued = continued
        self.new: list[StopSignal] = []

    def add(self, signal: StopSignal, *, soft: bool = False) -> None:
        """Raise a signal. One for a reason that waits already only hardens it.

        What has just been raised without a word, a stop from outside, takes its message.
        """
        reason = signal.reason
        found = [s for s in self.pending if s.reason == reason]
        if found:
            waiting = found[0]
            if signal.message and not waiting.message and waiting in self.new:
                self._add_message(waiting, signal.message)
            if not soft and reason in self.soft:
                self.soft = tuple(r for r in self.soft if r != reason)
                self.new.append(signal)
            return
        self.pending = self.pending.add(signal)
        self.new.append(signal)
        if soft:
            self.soft = (*self.soft, str(reason))

    def _add_message(self, signal: StopSignal, message: str) -> None:
        written = replace(signal, message=message)
        self.pending = StopSignals(written if s is signal else s for s in self.pending)
        self.new = [written if s is signal else s for s in self.new]

    def suppress(self) -> None:
        """A continuation takes effect: what waited goes onto the record."""
        self.suppressed = StopSignals((*self.suppressed, *self.pending))
        self.pending, self.soft, self.continued = NO_SIGNALS, (), False

    @property
    def hard(self) -> StopReason | None:
        """The highest reason that stops by itself; None while a continuation is asked for."""
        if not self.pending or self.continued:
            return None
        hard = [s.reason for s in self.pending if s.reason not in self.soft]
        return min(hard, key=lambda r: r.priority) if hard else None

    @property
    def top(self) -> str:
        """The highest reason of all that wait; empty when none does."""
        highest = self.pending.highest
        return "" if highest is None else str(highest.reason)

    def facts(self) -> SignalFacts:
        """The section of the facts that says so."""
        pending = self.pending
        highest = pending.highest
        if highest is None:
            return SignalFacts(continued=self.continued)
        return SignalFacts(
            len(pending), str(highest.reason), tuple([str(s.reason) for s in pending]),
            highest.reason.status, self.continued,
        )  # fmt: skip
