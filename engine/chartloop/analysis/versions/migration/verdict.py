"""The verdict on one run of an old machine under a new one.

    unchanged   the same machine, or one that differs only in words
    safe        every record is decided as it was, and the run's data fit
    map         the same, once the file gives the new names of states under `renamed`
    unsafe      a record is decided differently, or the run's data do not fit

Belongs here: the values, and their text. Never: finding a verdict (`judge`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from chartloop.core.errors import NOWHERE, Place
from chartloop.core.facts import EMPTY
from chartloop.core.reports import Part, Shown, pairs
from chartloop.core.text_table import Cell
from chartloop.run.renaming import Names

Kind = Literal["unchanged", "safe", "map", "unsafe"]

KINDS: tuple[Kind, ...] = ("unchanged", "safe", "map", "unsafe")
"""The kinds, from best to worst."""

LABELS: Mapping[Kind, str] = MappingProxyType(
    {"unchanged": "unchanged", "safe": "safe", "map": "needs a state map", "unsafe": "unsafe"}
)
COLOURS: Mapping[Kind, str] = MappingProxyType(
    {"unchanged": "dim", "safe": "green", "map": "yellow", "unsafe": "red"}
)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a run cannot continue under the new file."""

    what: str
    """``record 5 at `think`: it continued to `act`; now it stops for `steps_limit`: ...``"""
    cure: str = ""
    record: int | None = None
    """The number of the first record that is decided differently; None if there is none."""
    place: Place = NOWHERE
    """The place in the new file that decides it."""

    def __str__(self) -> str:
        return f"{self.what} ({self.place})" if self.place.line else self.what

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        place = self.place
        return {
            "what": self.what, "cure": self.cure or None, "record": self.record,
            "file": place.file or None, "line": place.line or None, "column": place.column or None,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ahead:
    """One change between the files that the run may still meet."""

    words: str
    where: str = ""
    """``new.yaml:12``, or the lines of both files."""

    def __str__(self) -> str:
        return f"{self.words} ({self.where})" if self.where else self.words


@dataclass(frozen=True)
class Verdict(Shown):
    """Whether one recorded run may continue under a new file, and why. Truthy if it may."""

    run_id: str
    kind: Kind
    why: str
    """The reason: one sentence without a full stop."""
    state: str = ""
    """The state of the run, by its recorded name."""
    status: str = ""
    records: int = 0
    cause: Cause | None = None
    """The cause, if the run is unsafe."""
    renamed: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """The lines that are missing under `renamed`: old name to new name."""
    stops: str = ""
    """The reason for which it stops when rules are next evaluated; empty if it continues."""
    ahead: tuple[Ahead, ...] = ()
    """The changes that it may still meet; empty if it has ended."""
    notes: tuple[str, ...] = ()
    """Values that differ under the new file, and questions that stay open."""
    names: Names = field(default=Names(), repr=False, compare=False)
    """The new names of the states and edges in its records."""

    @property
    def goes_on(self) -> bool:
        """Whether the run may continue under the new file as it is."""
        return self.kind in ("unchanged", "safe")

    def __bool__(self) -> bool:
        return self.goes_on

    def __str__(self) -> str:
        return f"{LABELS[self.kind]}: {self.why}"

    @property
    def title(self) -> str:
        """The run and its verdict: ``run 3kf: safe``."""
        return f"run {self.run_id}: {LABELS[self.kind]}"

    @property
    def flow(self) -> str:
        """The missing lines as one line of YAML: ``{work: labour}``."""
        return f"{{{', '.join(f'{old}: {new}' for old, new in self.renamed.items())}}}"

    def details(self) -> list[tuple[str, str]]:
        """Return everything known as lines of a name and a text; names may repeat."""
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
        """Return the public JSON shape of the verdict."""
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
        """Return the data that the `start` of the continuing run keeps about this one."""
        return {
            "run": self.run_id, "machine": row_hash, "verdict": self.kind, "why": self.why,
            "ahead": [one.words for one in self.ahead],
        }  # fmt: skip

    def parts(self) -> Iterator[Part]:
        """The verdict and its details."""
        label = Cell(LABELS[self.kind], COLOURS[self.kind])
        yield pairs((("run", Cell(self.run_id, "code")), ("verdict", label), *self.details()))

    def text(self) -> str:
        """Return the verdict and its details, line by line."""
        return "\n".join((self.title, *(f"  {name:<8}{text}" for name, text in self.details())))

    plain_text = text
