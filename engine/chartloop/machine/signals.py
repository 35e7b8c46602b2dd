"""The signals of one decision: what waits, what only informs, what was put off.

Source: 002 "Stop Signals", "ExecutionContinuation"; design "language", sections 4 and 7.
"""

from __future__ import annotations

from dataclasses import replace

from chartloop.core.facts import SignalFacts
from chartloop.core.reasons import NO_SIGNALS, StopReason, StopSignal, StopSignals


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
