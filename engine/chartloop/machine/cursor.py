"""One decision in progress: the cursor that live machines move from one position to the next.

A `Cursor` never changes the position that it starts from. This module has its single moves: fire a
status trigger, raise a signal, take an edge, enter a state. `Signals` are those of the decision:
pending, informing, deferred. Rules are evaluated in `machine.rules`; the path to the next resting
state is in `machine.transition`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chartloop.core.errors import StatusError
from chartloop.core.facts import Facts, Failure, SignalFacts
from chartloop.core.position import RETRY, Position
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
"""The exceptions that evaluating an expression may raise."""


class Cursor(Configuration):
    """The changes of a decision so far, and how they came about.

    `state`, `status`, `facts` and `signals`, which events move and guards read, are attributes. The
    rest of the position is changed in `draft`.
    """

    # defaults on the class, because most decisions never set them
    warnings: tuple[str, ...] = ()
    winner = ""
    unhandled = False
    unsaved: Failure | None = None
    retry_in: float | None = None
    chosen: tuple[str, str, Facts, GuardedTransition | None] | None = None
    """The last choice that was not taken: trigger, state, facts, edge."""

    def __init__(
        self, chart: Chart, position: Position, input: Input, ask: Any, trace: bool
    ) -> None:
        facts = position.facts
        super().__init__(position.state, position.status, facts, Answers(ask, input.opaque))
        self.chart = chart
        self.input = input
        self.position = position
        """The position before the decision."""
        self.draft = position
        """The position so far. `finish` adds state, status, facts and signals: until then, read
        these from the cursor."""
        self.signals = Signals(
            position.signals, position.soft, position.suppressed, facts.signals.continued
        )
        self.taken: list[str] = []
        self.path: list[str] = []
        self.looks: list[Look] | None = [] if trace else None
        self.before_move = facts

    def keep(self, more: Mapping[str, Any]) -> None:
        """Add to the data that the position keeps."""
        self.draft = self.draft.replace(kept={**self.draft.kept, **more})

    # status ---------------------------------------------------------------------------------

    def fire(self, trigger: str) -> None:
        """Fire a trigger of the status region. Raises `StatusError` if the status refuses it."""
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
        """Enter `paused`, and start the clock of idle time."""
        self.fire("pause")
        marks = self.facts.marks
        self.facts = self.facts.replace(
            marks=marks.replace(paused_at=max(marks.now, self.input.at))
        )

    def resume(self) -> None:
        """Leave `paused` for the status before it."""
        self.fire("resume")
        self.facts = self.facts.replace(marks=self.facts.marks.replace(paused_at=None))
        draft = self.draft
        if draft.blocked_on in ("", RETRY):  # not the action's own wait: it begins now
            draft = draft.replace(entered_at=self.input.at, waited=None)
        else:
            draft = draft.replace(waited=draft.wake_at)
        self.draft = draft.replace(wake_at=None, blocked_on="")

    # signals --------------------------------------------------------------------------------

    def raise_signal(self, signal: StopSignal, *, soft: bool = False) -> None:
        """Raise a signal. A `soft` one only informs: the file's decisions judge it."""
        own = self.chart.spec.reason(signal.reason)
        if own is not signal.reason:  # a journal has only the names of reasons
            signal = replace(signal, reason=own)
        if own not in self.chart.spec.reasons:
            message = f"stop reason `{own}` is not one of the machine's: it stops as `custom` does"
            self.warnings += (message,)
        self.signals.add(signal, soft=soft)
        self.facts = self.facts.replace(signals=self.signals.facts())

    def render_message(self, message: Template | None, otherwise: str = "") -> str:
        """Render the message of a signal. A message that cannot be rendered never fails a run."""
        if message is None:
            return otherwise
        try:
            return message.render(template_names(self.chart.spec, self.facts, message.reads))
        except FAILURES as error:
            return f"{otherwise} (its message could not be written: {error})".lstrip()

    def suppress(self) -> None:
        """Suppress the signals that a continuation deferred, because work has started again."""
        self.signals.suppress()
        self.facts = self.facts.replace(signals=self.signals.facts())

    def continue_run(self, times: int) -> None:
        """Defer the pending signals, at most `times` times in a run."""
        run = self.facts.run
        if run.continuations < times:
            self.signals.continued = True
            run = run.replace(continuations=run.continuations + 1)
            self.facts = self.facts.replace(run=run, signals=self.signals.facts())

    def raise_guard_error(self, text: str, error: BaseException, where: str) -> None:
        """Stop the run because a guard or `set` raised, which never counts as False."""
        cause = error.cause if isinstance(error, GuardFailed) else error
        message = f"`{text}` raised {type(cause).__name__}: {cause}"
        self.raise_signal(StopSignal(self.chart.spec.reason("guard_error"), message, {}, where))

    # moving ---------------------------------------------------------------------------------

    @property
    def leaves_for_failure(self) -> bool:
        """Whether a failed action is retried or leaves by another edge."""
        return self.retrying or (self.failed and self.state in self.chart.diverting)

    def choose(self, trigger: str) -> GuardedTransition | None:
        """Return the edge that would be taken, without taking it; None if it is unknown."""
        event = self.chart.event(trigger)
        if event is None:
            return None
        if self.draft.returns:
            self.find_return()
        calls = len(self.oracle.known)
        try:
            taken = event.choose(self)
        except FAILURES:  # the move itself reports it
            return None
        if len(self.oracle.known) == calls:  # a choice that called Python guards is not reusable
            self.chosen = (trigger, self.state, self.facts, taken)
        return taken

    def choose_now(self, trigger: str) -> GuardedTransition | None:
        """Return the edge to take, reusing the last choice if nothing has changed since."""
        if self.chosen is not None and self.branch is None:
            before, state, facts, taken = self.chosen
            if facts is self.facts and state == self.state and before == trigger:
                return taken
        event = self.chart.event(trigger)
        if self.draft.returns:
            self.find_return()
        return event.choose(self) if event is not None else None

    def find_return(self) -> None:
        """Set the state that `next: return` would go to from here."""
        self.returning = self.chart.interruptible.get(self.draft.returns[-1].point, "")

    def perform(self, taken: GuardedTransition) -> None:
        """Record a transition as taken, and apply its `set` and `stop`."""
        self.taken.append(taken.origin)
        if taken.set:
            self.assign(taken.set, taken.origin)
        if taken.stop:
            self.open_epilogue(taken.stop, taken.origin, taken.message)

    def may_detour(self, id: str) -> bool:
        """Whether a detour may be made now: not right after itself, not inside itself."""
        return id != self.draft.skip and not any(back.rule == id for back in self.draft.returns)

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
        """Open the epilogue, in which rules are off, and fix the reason of the stop."""
        if reason == HIGHEST and message is not None:
            reason = self.signals.top  # raised before; the message is added if it has none
        if reason and reason != HIGHEST:
            text = self.render_message(message)
            self.raise_signal(StopSignal(self.chart.spec.reason(reason), text, {}, where))
        self.draft = self.draft.replace(stopping=True)
        self.winner = self.signals.top

    def leave(self, reason: str) -> None:
        """Leave a state that cannot continue, for the target of a stop for this reason."""
        target = self.chart.route(reason)
        if self.draft.stopping or target == self.state:  # the file's own exit failed
            target = END_ERROR
        self.draft = self.draft.replace(stopping=True)
        self.winner = reason
        self.failed = self.retrying = False
        self.state = target
        self.taken.append(f"raised.{target}")
        self.enter(target)

    def count_entry(self, name: str) -> None:
        """Count a visit, in a copy of the counts that belongs to this decision."""
        run = self.facts.run
        visits: Any = run.visits
        if visits is self.position.facts.run.visits or self.looks is not None:
            visits = dict(visits)
            self.facts = self.facts.replace(run=run.replace(visits=visits))
        visits[name] = visits.get(name, 0) + 1
        self.path.append(name)

    def enter(self, name: str) -> None:
        """Enter a state: count the visit, then apply `status`, `set` and `stop`."""
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
        """Return the new position, and the decision that led there."""
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
        """Keep the facts before a move, for an explanation."""
        self.before_move = self.facts


class Signals:
    """The signals of a decision in progress.

    `pending` are in force; those in `soft` came from `signal` rules and are judged by the file's
    own decisions; `suppressed` were deferred by a continuation; `new` were raised by this decision.
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
        """Raise a signal. If its reason is pending already, it only hardens that.

        It gives its message to a new one without a message, such as a stop from outside.
        """
        reason = signal.reason
        same = [s for s in self.pending if s.reason == reason]
        if same:
            pending = same[0]
            if signal.message and not pending.message and pending in self.new:
                self._add_message(pending, signal.message)
            if not soft and reason in self.soft:
                self.soft = tuple(r for r in self.soft if r != reason)
                self.new.append(signal)
            return
        self.pending = self.pending.add(signal)
        self.new.append(signal)
        if soft:
            self.soft = (*self.soft, str(reason))

    def _add_message(self, signal: StopSignal, message: str) -> None:
        complete = replace(signal, message=message)
        self.pending = StopSignals(complete if s is signal else s for s in self.pending)
        self.new = [complete if s is signal else s for s in self.new]

    def suppress(self) -> None:
        """Move the pending signals to `suppressed`, where the record shows them."""
        self.suppressed = StopSignals((*self.suppressed, *self.pending))
        self.pending, self.soft, self.continued = NO_SIGNALS, (), False

    @property
    def hard(self) -> StopReason | None:
        """The highest reason that stops by itself; None during a continuation."""
        if not self.pending or self.continued:
            return None
        hard = [s.reason for s in self.pending if s.reason not in self.soft]
        return min(hard, key=lambda r: r.priority) if hard else None

    @property
    def top(self) -> str:
        """The highest pending reason; empty if there is none."""
        highest = self.pending.highest
        return "" if highest is None else str(highest.reason)

    def facts(self) -> SignalFacts:
        """The `signals` section of the facts."""
        pending = self.pending
        highest = pending.highest
        if highest is None:
            return SignalFacts(continued=self.continued)
        return SignalFacts(
            len(pending), str(highest.reason), tuple([str(s.reason) for s in pending]),
            highest.reason.status, self.continued,
        )  # fmt: skip
