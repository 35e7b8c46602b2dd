"""One decision in progress: a throwaway cursor that the live machines move.

A `Walk` holds what `evolve` is building: copies, never the position that it was given. Here
are its single moves: fire a status trigger, raise a signal, take an edge, enter a state. Rules
are looked at in `machine.rules`, the way to the next resting state is `machine.transition`'s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chartloop.core.errors import StatusError
from chartloop.core.facts import Facts, Failure
from chartloop.core.position import Position, Return
from chartloop.core.reasons import NO_SIGNALS, StopSignal, StopSignals
from chartloop.core.records import Input
from chartloop.language.expression import GUARD_ERRORS, Expression, GuardFailed
from chartloop.language.spec import HIGHEST, Assign
from chartloop.language.template.template import Template
from chartloop.machine.assignment import set_values, template_names
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision, Look
from chartloop.machine.regions import Answers, Cursor, GuardedTransition
from chartloop.machine.signals import Raising
from chartloop.machine.transition_table import END_ERROR

FAILURES = (*GUARD_ERRORS, GuardFailed)
"""What reading an expression may raise."""


class Walk(Cursor):
    """See the module. Its slots mirror `Position`; what is left over becomes the decision."""

    __slots__ = (
        "attempt", "before_move", "blocked_on", "chart", "chosen", "entered_at", "input", "kept",
        "looks", "messages", "path", "pause_asked", "paused_from", "position", "prompt", "queue",
        "raising", "retry_in", "returns", "skip", "stopping", "taken", "unhandled", "unsaved",
        "waited", "wake_at", "warned", "warnings", "winner",
    )  # fmt: skip

    def __init__(
        self, chart: Chart, position: Position, input: Input, ask: Any, trace: bool
    ) -> None:
        self.chart = chart
        self.position = position
        self.input = input
        facts = position.facts
        self.paused_from, self.stopping = position.paused_from, position.stopping
        self.returns: tuple[Return, ...] = position.returns
        self.skip, self.attempt = position.skip, position.attempt
        self.entered_at, self.wake_at = position.entered_at, position.wake_at
        self.blocked_on, self.waited = position.blocked_on, position.waited
        self.pause_asked, self.warned = position.pause_asked, position.warned
        self.messages, self.prompt = position.messages, position.prompt
        self.queue, self.kept = position.queue, position.kept
        super().__init__(position.state, position.status, facts, Answers(ask, input.opaque))
        self.raising = Raising(
            position.signals, position.soft, position.suppressed, facts.signals.continued
        )
        self.taken: list[str] = []
        self.path: list[str] = []
        self.warnings: tuple[str, ...] = ()
        self.winner = ""
        self.unhandled = False
        self.unsaved: Failure | None = None
        self.retry_in: float | None = None
        self.looks: list[Look] | None = [] if trace else None
        self.before_move = facts
        self.chosen: tuple[str, str, Facts, GuardedTransition | None] | None = None
        """What was chosen last without taking it: trigger, state, facts, edge."""

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
        self.paused_from = before if trigger == "pause" else ""
        run = facts.run.replace(status=self.status, paused_from=self.paused_from)
        self.facts = facts.replace(run=run)

    def pause(self) -> None:
        """Into `paused`, and the clock of `idle` begins."""
        self.fire("pause")
        marks = self.facts.marks
        self.facts = self.facts.replace(
            marks=marks.replace(paused_at=max(marks.now, self.input.at))
        )

    def resume(self) -> None:
        """Out of `paused`, into whichever status was paused."""
        self.fire("resume")
        self.facts = self.facts.replace(marks=self.facts.marks.replace(paused_at=None))
        self.waited = self.wake_at if self.blocked_on else None
        self.wake_at, self.blocked_on = None, ""

    # signals --------------------------------------------------------------------------------

    def signal(self, signal: StopSignal, *, soft: bool = False) -> None:
        """Raise a signal. `soft`: it informs, the file's own decisions judge it."""
        own = self.chart.spec.reason(signal.reason)
        if own is not signal.reason:  # a journal knows the names of reasons, the file their meaning
            signal = replace(signal, reason=own)
        if own not in self.chart.spec.reasons:
            said = f"stop reason `{own}` is not one of the machine's: it stops as `custom` does"
            self.warnings += (said,)
        self.raising.add(signal, soft=soft)
        self.facts = self.facts.replace(signals=self.raising.facts())

    def write(self, message: Template | None, otherwise: str = "") -> str:
        """A signal's message as the file has it. One that cannot be written never fails a run."""
        if message is None:
            return otherwise
        try:
            return message.render(template_names(self.chart.spec, self.facts, message.reads))
        except FAILURES as error:
            return f"{otherwise} (its message could not be written: {error})".lstrip()

    def suppress(self) -> None:
        """Work has begun again: what a continuation put off goes onto the record."""
        self.raising.suppress()
        self.facts = self.facts.replace(signals=self.raising.facts())

    def go_on(self, times: int) -> None:
        """Put the pending signals off, unless that was done so often already."""
        run = self.facts.run
        if run.continuations < times:
            self.raising.continued = True
            run = run.replace(continuations=run.continuations + 1)
            self.facts = self.facts.replace(run=run, signals=self.raising.facts())

    def guard_error(self, text: str, error: BaseException, where: str) -> None:
        """A guard or `set` raised: that is never False, it stops the run."""
        cause = error.cause if isinstance(error, GuardFailed) else error
        message = f"`{text}` raised {type(cause).__name__}: {cause}"
        self.signal(StopSignal(self.chart.spec.reason("guard_error"), message, {}, where))

    # moving ---------------------------------------------------------------------------------

    @property
    def diverted(self) -> bool:
        """Whether a failed action leads elsewhere than the state's own way."""
        return self.retrying or (self.failed and self.state in self.chart.diverting)

    def choose(self, trigger: str) -> GuardedTransition | None:
        """The edge that would be taken, without taking it; None when that cannot be said."""
        event = self.chart.event(trigger)
        if event is None:
            return None
        if self.returns:
            self.aim()
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
        if self.returns:
            self.aim()
        return event.choose(self) if event is not None else None

    def aim(self) -> None:
        """Where `next: return` would go from here."""
        self.returning = self.chart.interruptible.get(self.returns[-1].point, "")

    def took(self, taken: GuardedTransition) -> None:
        """A transition has been taken: its `set` and `stop` happen."""
        self.taken.append(taken.origin)
        if taken.set:
            self.assign(taken.set, taken.origin)
        if taken.stop:
            self.open(taken.stop, taken.origin, taken.message)

    def may_detour(self, id: str) -> bool:
        """Whether a detour may be made now: not straight after itself, not inside itself."""
        return id != self.skip and not any(made.rule == id for made in self.returns)

    def assign(self, assigns: tuple[Assign, ...], where: str) -> None:
        try:
            values = set_values(assigns, self.facts, self.oracle)
        except FAILURES as error:
            text = ", ".join(a.value.text for a in assigns if isinstance(a.value, Expression))
            self.guard_error(text, error, where)
            return
        changed = {n.removeprefix("vars."): v for n, v in values.items()}
        self.facts = self.facts.replace(vars={**self.facts.vars, **changed})

    def open(self, reason: str, where: str, message: Template | None = None) -> None:
        """Open the epilogue: the reason is settled, rules are off."""
        if reason == HIGHEST and message is not None:
            reason = self.raising.top  # it was raised before: the message is for one without
        if reason and reason != HIGHEST:
            said = self.write(message)
            self.signal(StopSignal(self.chart.spec.reason(reason), said, {}, where))
        self.stopping = True
        self.winner = self.raising.top

    def leave(self, reason: str) -> None:
        """Out of a state that cannot go on, to where a stop for this reason goes."""
        target = self.chart.route(reason)
        if self.stopping or target == self.state:  # the file's own way out failed
            target = END_ERROR
        self.stopping = True
        self.winner = reason
        self.failed = self.retrying = False
        self.state = target
        self.taken.append(f"raised.{target}")
        self.enter(target)

    def count(self, name: str) -> None:
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
        self.count(name)
        entry = self.chart.entry.get(name)
        if entry is not None:
            if entry.status and entry.status != self.status:
                self.fire("debug" if entry.status == "debugging" else "recover")
            if entry.set:
                self.assign(entry.set, name)
            if entry.stop:
                self.open(entry.stop, name, entry.message)
        if self.returns and name in self.chart.main:
            self.returns = ()

    # the end of it ----------------------------------------------------------------------------

    def finish(self) -> tuple[Position, Decision]:
        """The new position, and what led there."""
        raising = self.raising
        position = Position(
            self.state, self.status, self.paused_from, self.facts, raising.pending,
            raising.soft, raising.suppressed, self.stopping, self.returns, self.skip, self.attempt,
            self.entered_at, self.wake_at, self.blocked_on, self.waited, self.pause_asked,
            self.warned, self.messages, self.prompt, self.queue, self.kept,
        )  # fmt: skip
        decision = Decision(
            self.position.state, self.input, tuple(self.taken), tuple(self.path),
            StopSignals(raising.new) if raising.new else NO_SIGNALS, self.winner, self.warnings,
            self.state, self.status, tuple(self.looks) if self.looks else (),
            tuple(self.oracle.given), self.unsaved,
        )  # fmt: skip
        return position, decision

    def trace(self) -> None:
        """Keep the facts as they are before a move, for an explanation."""
        self.before_move = self.facts
