"""Phases: the one vocabulary for how a run stands, in every face.

A run has a status, a reason and perhaps a question, a driver or a wake-up time. People want one
word. The table `PHASES` has it, with its colour and its sign, and `phase_of` decides which row is
that of a run; nothing else decides it. Programs read `status` and `reason` beside its name.

Belongs here: the words and the decision. Never: how a face paints a colour, or where it puts a
word.

Source: docs/run-page.md, "How a run stands"; `phase` as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from chartloop.core.reasons import REASONS, StopReason, StopSignal

Colour = Literal["green", "orange", "violet", "red", "amber", "blue", "grey"]
"""The name of a colour; each face has a paint for it."""
PhaseName = Literal[
    "done", "limited", "stopped", "gave_up", "failed", "waiting", "running", "unattended", "queued",
    "sleeping", "paused", "parked", "stepped", "idle", "moved", "continued", "damaged",
]  # fmt: skip


class Phase(NamedTuple):
    """How a run stands, for people."""

    name: PhaseName
    """As programs read it: the field `phase`."""
    word: str
    """As people read it."""
    colour: Colour
    sign: str
    """One character, beside the word or in place of it."""
    about: str
    """A sentence."""

    @property
    def ink(self) -> str:
        """The nearest of the colours that reports, tables and terminals have."""
        return _INKS[self.colour]

    @property
    def marked(self) -> str:
        """The sign and the word: ``✗ failed``."""
        return f"{self.sign} {self.word}"


_INKS: Mapping[Colour, str] = {
    "green": "green", "orange": "yellow", "violet": "cyan", "red": "red", "amber": "yellow",
    "blue": "", "grey": "dim",
}  # fmt: skip

DONE = Phase("done", "done", "green", "✓", "It came to its natural end.")
LIMITED = Phase(
    "limited", "stopped by a limit", "orange", "■",
    "A limit, or another stop rule of the file, ended it before it was done.",
)  # fmt: skip
STOPPED = Phase("stopped", "stopped by a person", "violet", "□", "It was cancelled from outside.")
GAVE_UP = Phase(
    "gave_up", "gave up", "orange", "⊘",
    "The machine ended it without success: no progress, lost tasks, a reply that was cut off, or "
    "an error that it survived.",
)  # fmt: skip
FAILED = Phase("failed", "failed", "red", "✗", "An error ended it.")
WAITING = Phase("waiting", "waits for someone", "amber", "?", "It has a question.")
RUNNING = Phase("running", "running", "blue", "▸", "A process drives it.")
UNATTENDED = Phase(
    "unattended", "driven by nobody", "grey", "○",
    "It could go on, and no process drives it: resume it.",
)  # fmt: skip
QUEUED = Phase("queued", "waits for a worker", "grey", "…", "The next free worker takes it up.")
SLEEPING = Phase(
    "sleeping", "waits for a time", "blue", "◷", "It goes on by itself: a timer, or a back-off."
)
PAUSED = Phase("paused", "paused", "amber", "‖", "It rests until somebody resumes it.")
PARKED = Phase(
    "parked", "parked", "orange", "†",
    "No worker takes it up: processes died with it, or it was imported. Resume it.",
)  # fmt: skip
STEPPED = Phase("stepped", "stepped by hand", "blue", "◆", "Somebody does one step at a time.")
IDLE = Phase("idle", "not begun", "grey", "·", "It was created, and has done nothing yet.")
MOVED = Phase("moved", "moved to another run", "grey", "→", "Another run continues it.")
CONTINUED = Phase(
    "continued", "went on as another run", "grey", "»",
    "It ended before it was done. It was tried again, or the next message came.",
)  # fmt: skip
DAMAGED = Phase("damaged", "damaged", "red", "!", "Its row in the journal cannot be read.")

PHASES: Mapping[str, Phase] = MappingProxyType(
    {
        phase.name: phase
        for phase in (
            DONE, LIMITED, STOPPED, GAVE_UP, FAILED, WAITING, RUNNING, UNATTENDED, QUEUED,
            SLEEPING, PAUSED, PARKED, STEPPED, IDLE, MOVED, CONTINUED, DAMAGED,
        )
    }
)  # fmt: skip
"""Every phase by its name, the endings first."""
ENDINGS = (DONE, LIMITED, STOPPED, GAVE_UP, FAILED)
"""Those of a run that has ended."""
OVER = (*ENDINGS, MOVED, CONTINUED, DAMAGED)
"""Those of a run that does not go on under its id."""
RETRIED = (LIMITED, GAVE_UP, FAILED)
"""Those of a run that people may want to try again."""

_GIVES_UP: frozenset[str] = frozenset(
    "stop_requested stagnation no_progress health_critical diminishing_returns".split()
)
"""Reasons for which the machine ends itself, though no limit was reached and nothing failed."""


Why = StopSignal | StopReason | str | None
"""What ended a run: its deciding signal, or as much of it as is known."""


def ending_of(status: str, why: Why, lost: int = 0) -> Phase:
    """The phase of a run that has ended with `status`; `lost` is its `Facts.unfinished`.

    The name of a reason is looked up among the built-in ones. An error as the status is a failure.
    Else the kind of the reason decides: natural is done, unless something is missing. What was
    raised from outside is a person's stop, whatever its reason. An error that ended as
    `completed`, and a reason by which the machine ends itself, is giving up. One who did not answer
    in time is a limit, and so is everything else: also the reasons of the file, which its rules
    raise.
    """
    outside = isinstance(why, StopSignal) and why.source == "outside"
    reason = why.reason if isinstance(why, StopSignal) else why
    if not isinstance(reason, StopReason):
        reason = REASONS.get(reason or "") or StopReason(reason or "unknown")
    kind = reason.kind
    if status == "error":
        return FAILED
    if kind == "natural":
        return GAVE_UP if lost else DONE
    if outside:
        return STOPPED
    if kind == "error" or reason in _GIVES_UP:
        return GAVE_UP
    return STOPPED if kind == "human" and reason != "user_unresponsive" else LIMITED


def phase_of(
    status: str, why: Why = None, *, lost: int = 0, ending: str = "",
    asks: bool = False, wakes: bool = False, driven: bool | None = None, queued: bool = False,
) -> Phase:  # fmt: skip
    """The phase of a run.

    `why` and `lost` are those of `ending_of`; `ending` is the name of the phase in which the run
    ended, where that is stored. `asks`: it has a question. `wakes`: it has a wake-up time.
    `driven`: whether a process drives it, None if that is not known. `queued`: a worker is asked to
    drive it.
    """
    if status in ("completed", "error"):
        return PHASES.get(ending) or ending_of(status, why, lost)
    if status in ("moved", "damaged"):
        return PHASES[status]
    if asks:
        return WAITING
    if driven:
        return STEPPED if status == "debugging" else RUNNING
    if wakes and status in ("paused", "running"):
        return SLEEPING
    if status == "running" and driven is None and not queued:
        return RUNNING
    if queued and status in ("idle", "running"):
        return QUEUED
    by_status = {"idle": IDLE, "paused": PAUSED, "debugging": STEPPED}
    return by_status.get(status, UNATTENDED)


def phase_if_parked(phase: Phase, parked: object, driven: bool | None = None) -> Phase:
    """The phase of a run that no worker takes up if it is `parked`; a process may drive it."""
    return PARKED if parked and not driven and phase not in OVER else phase


def phase_if_followed(phase: Phase, followed: object) -> Phase:
    """The phase of a run that another one may follow: its own, if it was done."""
    return CONTINUED if followed and phase in ENDINGS and phase is not DONE else phase
