"""What is said of one run of an old machine under a new one.

    unchanged   the same machine, or one that differs only in words
    safe        every record is decided as it was, and what the run holds fits
    map         the same, once the file says under `renamed` which state is which
    unsafe      a record is decided differently, or what the run holds does not fit

Belongs here: the values, and how they are written. Never: finding a verdict (`upgrade`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from chartloop.core.errors import NOWHERE, Place
from chartloop.core.facts import EMPTY
from chartloop.core.html_table import Cell, Tone, bundle, pairs
from chartloop.run.renaming import Names

Kind = Literal["unchanged", "safe", "map", "unsafe"]

KINDS: tuple[Kind, ...] = ("unchanged", "safe", "map", "unsafe")
"""From the best to the worst."""

SAID: Mapping[Kind, str] = MappingProxyType(
    {"unchanged": "unchanged", "safe": "safe", "map": "needs a state map", "unsafe": "unsafe"}
)
_TONES: Mapping[Kind, Tone] = MappingProxyType(
    {"unchanged": "dim", "safe": "good", "map": "warn", "unsafe": "bad"}
)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a run cannot continue under the new file."""

    what: str
    """``record 5 at `think`: it continued to `act`; now it stops for `steps_limit`: ...``"""
    cure: str = ""
    record: int | None = None
    """The first record that is decided differently; None where all are decided as they were."""
    place: Place = NOWHERE
    """Where in the new file that is decided."""

    def __str__(self) -> str:
        return f"{self.what} ({self.place})" if self.place.line else self.what

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        place = self.place
        return {
            "what": self.what, "cure": self.cure or None, "record": self.record,
            "file": place.file or None, "line": place.line or None, "column": place.column or None,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ahead:
    """One difference of the files that the run has still before it."""

    words: str
    where: str = ""
    """``new.yaml:12``, or the lines of both files."""

    def __str__(self) -> str:
        return f"{self.words} ({self.where})" if self.where else self.words


@dataclass(frozen=True)
class Verdict:
    """What a new file means for one recorded run. True where the run may continue with it."""

    run_id: str
    kind: Kind
    why: str
    """One sentence without its full stop."""
    state: str = ""
    """Where the run is, by the name that it was recorded under."""
    status: str = ""
    records: int = 0
    cause: Cause | None = None
    """Of an unsafe run."""
    renamed: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """The lines that are missing under `renamed`, old name to new."""
    stops: str = ""
    """The reason for which it stops when the rules are next evaluated; empty when it continues."""
    ahead: tuple[Ahead, ...] = ()
    """What differs from here on; nothing of a run that has ended."""
    notes: tuple[str, ...] = ()
    """What the run holds now that it did not hold before, and what no one can tell."""
    names: Names = field(default=Names(), repr=False, compare=False)
    """What its records' states and edges are called in the new machine."""

    @property
    def goes_on(self) -> bool:
        """Whether the run may continue with the new file as it is."""
        return self.kind in ("unchanged", "safe")

    def __bool__(self) -> bool:
        return self.goes_on

    def __str__(self) -> str:
        return f"{SAID[self.kind]}: {self.why}"

    @property
    def title(self) -> str:
        """The run, and what is said of it: ``run 3kf: safe``."""
        return f"run {self.run_id}: {SAID[self.kind]}"

    @property
    def flow(self) -> str:
        """The missing lines in one: ``{work: labour}``."""
        return f"{{{', '.join(f'{old}: {new}' for old, new in self.renamed.items())}}}"

    def details(self) -> list[tuple[str, str]]:
        """All that is known, a name and a text for each line; the first names may repeat."""
        cause = self.cause
        stops = (
            f"it stops for `{self.stops}` when the rules are next evaluated" if self.stops else ""
        )
        return [
            (name, text)
            for name, text in (
                ("why", "" if cause else self.why),
                ("because", str(cause) if cause else ""),
                ("cure", cause.cure if cause else ""),
                *(("renamed", f"{old}: {new}") for old, new in self.renamed.items()),
                ("stops", stops),
                *(("note", note) for note in self.notes),
                *(("ahead", str(one)) for one in self.ahead),
            )
            if text
        ]

    def to_dict(self) -> dict[str, Any]:
        """The public JSON shape of one run's verdict."""
        return {
            "run": self.run_id,
            "verdict": self.kind,
            "goes_on": self.goes_on,
            "why": self.why,
            "state": self.state,
            "status": self.status,
            "records": self.records,
            "cause": self.cause.to_dict() if self.cause else None,
            "renamed": dict(self.renamed),
            "stops": self.stops or None,
            "ahead": [{"words": one.words, "where": one.where or None} for one in self.ahead],
            "notes": list(self.notes),
        }

    def origin(self, row_hash: str) -> dict[str, Any]:
        """What the `start` of a run keeps that continues from this one under the new file."""
        return {
            "run": self.run_id, "machine": row_hash, "verdict": self.kind, "why": self.why,
            "ahead": [one.words for one in self.ahead],
        }  # fmt: skip

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What a notebook shows: the verdict, then what belongs to it."""
        head = (("run", Cell(self.run_id, "code")), ("verdict", Cell(SAID[self.kind], self.tone)))
        return bundle(pairs((*head, *self.details())), self.text())

    @property
    def tone(self) -> Tone:
        """The colour of the verdict."""
        return _TONES[self.kind]

    def text(self) -> str:
        """The verdict, and what belongs to it, a line for each."""
        return "\n".join((self.title, *(f"  {name:<8}{text}" for name, text in self.details())))
