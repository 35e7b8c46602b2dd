"""One decision in progress: the cursor that live machines move from one position to the next.

A `Cursor` never changes the position that it starts from. This module has its single moves: fire a
status trigger, raise a signal, take an edge, enter a state. Rules are evaluated in `machine.rules`;
the path to the next resting state is in `machine.transition`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chartloop.core.errors import StatusError
from chartloop.core.facts import Facts, Failure, SignalFacts
from chartloop.core.position import IN_DOUBT, RETRY, Position
from chartloop.core.reasons import NO_SIGNALS, StopReason, StopSignal, StopSignals
from chartloop.core.records import Input
from chartloop.language.expression import GUARD_ERRORS, Expression, GuardFailed
from chartloop.language.spec import HIGHEST, Assign
from chartloop.language.template.template import Template
from chartloop.machine.assignment import set_values, template_names
from chartloop.machine.build import Chart
from chartloop.machine.decision import Look
from chartloop.machine.regions import NO_ANSWERS, Answers, Configuration, GuardedTransition
from chartloop.machine.transition_table import END_ERROR

FAILURES = (*GUARD_ERRORS, GuardFailed)
"""The exceptions that evaluating an expression may raise."""


class Cursor(Configuration):
    """The changes of a decision so far, and how they came about.

    `state`, `status` and `facts`, which events move and guards read, are attributes. The rest of
    the position is changed in `draft`.
    """

    def __init__(
        self, chart: Chart, position: Position, input: Input, ask: Any, trace: bool
    ) -> None:
        self.state, self.status, self.facts = position.state, position.status, position.facts
        if input.fleet is not None:
            self.facts = self.facts.replace(fleet=input.fleet)
        self.chart = chart
        self.input = input
        self.position = position
        """The position before the decision."""
        self.draft = position
        """The position so far, without the changes of state, status and facts."""
        asks = chart.spec.registry.guards or input.opaque
        self.oracle = Answers(ask, input.opaque) if asks else NO_ANSWERS
        self.branch: int | None = None
        self.failed = self.retrying = self.unhandled = False
        self.taken: tuple[str, ...] = ()
        self.path: tuple[str, ...] = ()
        self.new: tuple[StopSignal, ...] = ()
        """The signals that this decision raised."""
        self.warnings: tuple[str, ...] = ()
        self.winner = ""
        self.unsaved: Failure | None = None
        self.retry_in: float | None = None
        self.chosen: tuple[str, str, Facts, GuardedTransition | None] | None = None
        """The last choice that was not taken: trigger, state, facts, edge.

        It is valid for these very facts. A visit that was counted in place is not seen, which is
        right because no decision comes to a deciding state twice (CL308).
        """
        self.before_move = self.facts
        """The facts before the newest move, for an explanation."""
        self.looks: list[Look] | None = [] if trace else None
        """The evaluations so far, if the decision is traced."""

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
            look = Look("status", before, trigger, facts, (), taken.origin, self.oracle)
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
        if draft.blocked_on in ("", RETRY, IN_DOUBT):  # not the action's own wait: it begins now
            draft = draft.replace(entered_at=self.input.at, waited=None)
        else:
            draft = draft.replace(waited=draft.wake_at)
        self.draft = draft.replace(wake_at=None, blocked_on="")

    # signals --------------------------------------------------------------------------------

    def raise_signal(self, signal: StopSignal, *, soft: bool = False) -> None:
        """Raise a signal. A `soft` one only informs: the file's decisions judge it.

        If its reason is pending already, it only hardens that. It gives its message to a new one
        without a message, such as a stop from outside.
        """
        own = self.chart.spec.reason(signal.reason)
        if own is not signal.reason:  # a journal has only the names of reasons
            signal = replace(signal, reason=own)
        if own not in self.chart.spec.reasons:
            message = f"stop reason `{own}` is not one of the machine's: it stops as `custom` does"
            self.warnings += (message,)
        draft = self.draft
        pending = next((s for s in draft.signals if s.reason == own), None)
        if pending is None:
            informing = (*draft.soft, str(own)) if soft else draft.soft
            self.draft = draft.replace(signals=draft.signals.add(signal), soft=informing)
            self.new += (signal,)
        else:
            if signal.message and not pending.message and pending in self.new:
                said = replace(pending, message=signal.message)
                signals = StopSignals(said if s is pending else s for s in draft.signals)
                self.draft = draft.replace(signals=signals)
                self.new = tuple(said if s is pending else s for s in self.new)
            if not soft and own in draft.soft:
                informing = tuple(r for r in draft.soft if r != own)
                self.draft = self.draft.replace(soft=informing)
                self.new += (signal,)
        self._count_signals(continued=self.facts.signals.continued)

    def raise_reason(self, reason: str, message: str, where: str) -> None:
        """Raise the signal of a reason of the machine."""
        self.raise_signal(StopSignal(self.chart.spec.reason(reason), message, {}, where))

    def _count_signals(self, *, continued: bool) -> None:
        """Bring the `signals` section of the facts up to date."""
        pending = self.draft.signals
        highest = pending.highest
        section = SignalFacts(continued=continued)
        if highest is not None:
            section = SignalFacts(
                len(pending), str(highest.reason), tuple([str(s.reason) for s in pending]),
                highest.reason.status, continued,
            )  # fmt: skip
        self.facts = self.facts.replace(signals=section)

    @property
    def hard(self) -> StopReason | None:
        """The highest reason that stops by itself; None during a continuation."""
        if self.facts.signals.continued:
            return None
        hard = [s.reason for s in self.draft.signals if s.reason not in self.draft.soft]
        return min(hard, key=lambda r: r.priority) if hard else None

    @property
    def top(self) -> str:
        """The highest pending reason; empty if there is none."""
        highest = self.draft.signals.highest
        return "" if highest is None else str(highest.reason)

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
        deferred = StopSignals((*self.draft.suppressed, *self.draft.signals))
        self.draft = self.draft.replace(suppressed=deferred, signals=NO_SIGNALS, soft=())
        self._count_signals(continued=False)

    def continue_run(self, times: int) -> None:
        """Defer the pending signals, at most `times` times in a run."""
        run = self.facts.run
        if run.continuations < times:
            self.facts = self.facts.replace(run=run.replace(continuations=run.continuations + 1))
            self._count_signals(continued=True)

    def raise_guard_error(self, text: str, error: BaseException, where: str) -> None:
        """Stop the run because a guard or `set` raised, which never counts as False."""
        cause = error.cause if isinstance(error, GuardFailed) else error
        message = f"`{text}` raised {type(cause).__name__}: {cause}"
        self.raise_reason("guard_error", message, where)

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

    def find_return(self) -> None:
        """Set the state that `next: return` would go to from here."""
        self.returning = self.chart.interruptible.get(self.draft.returns[-1].point, "")

    def take(self, taken: GuardedTransition, dest: str) -> None:
        """Record a transition as taken, apply its `set` and `stop`, and enter the state."""
        self.state = dest
        self.failed = self.retrying = False
        self.taken += taken.ids
        if taken.set:
            self.assign(taken.set, taken.origin)
        if taken.stop:
            self.open_epilogue(taken.stop, taken.origin, taken.message)
        self.enter(dest)

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
            reason = self.top  # raised before; the message is added if it has none
        if reason and reason != HIGHEST:
            self.raise_reason(reason, self.render_message(message), where)
        self.draft = self.draft.replace(stopping=True)
        self.winner = self.top

    def leave(self, reason: str) -> None:
        """Leave a state that cannot continue, for the target of a stop for this reason."""
        target = self.chart.route(reason)
        if self.draft.stopping or target == self.state:  # the file's own exit failed
            target = END_ERROR
        self.draft = self.draft.replace(stopping=True)
        self.winner = reason
        self.failed = self.retrying = False
        self.state = target
        self.taken += (f"raised.{target}",)
        self.enter(target)

    def count_entry(self, name: str) -> None:
        """Count a visit, in a copy of the counts that belongs to this decision."""
        run = self.facts.run
        visits: Any = run.visits
        if visits is self.position.facts.run.visits or self.looks is not None:
            visits = dict(visits)
            self.facts = self.facts.replace(run=run.replace(visits=visits))
        visits[name] = visits.get(name, 0) + 1
        self.path += (name,)

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
