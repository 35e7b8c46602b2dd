"""The result of `generate`: scenarios that passed, and unreached targets with the reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from chartloop.catalog import display_path
from chartloop.core.errors import RunError
from chartloop.core.reports import Notebook, Part, Report, Table, Terminal
from chartloop.core.text_table import Cell, Line, Row, Span
from chartloop.core.units import say_count, say_number, say_some
from chartloop.scenarios.generator.file_names import is_ours
from chartloop.scenarios.generator.search_targets import Target

_NAMED = 3
"""How many targets of a scenario are listed."""
Why = Literal["proven", "opaque", "own action", "not writable", "budget", "nothing left", "stopped"]


class Unreached(NamedTuple):
    """A target that no scenario shows."""

    target: Target
    why: Why
    text: str
    """The reason, for people."""


class Written(NamedTuple):
    """A generated scenario, which was played and passed."""

    file: str
    """The name of its file, after the first of `shows`."""
    text: str
    shows: tuple[Target, ...]
    """The targets that no scenario before it shows by as short a run."""
    records: int
    """The number of records of its run."""
    shortest: bool
    """Whether no shorter run shows any of `shows`, as far as the search distinguishes runs."""


@dataclass(frozen=True, repr=False)
class Generated(Report):
    """The missing scenarios of a machine. `write` writes their files."""

    machine: str
    folder: Path
    scenarios: tuple[Written, ...]
    covered: frozenset[Target] = frozenset()
    """The targets that existing scenarios show."""
    targets: tuple[Target, ...] = ()
    """The targets that were asked for."""
    unreached: tuple[Unreached, ...] = ()
    unread: tuple[str, ...] = ()
    """Existing scenarios of this machine that do not pass, and do not count."""
    tried: int = 0
    """The work that the search did, in moves and answers."""
    work: int = field(default=0)
    """The work that the search was allowed."""
    stopped: bool = False
    """Whether Ctrl-C ended the search early."""

    def write(self, *, force: bool = False) -> list[Path]:
        """Write all files, or none; returns their paths.

        Unless `force`, `RunError` if a file exists that a person wrote or changed.
        """
        paths = [self.folder / one.file for one in self.scenarios]
        taken = [path for path in paths if not force and path.exists() and not _ours(path)]
        if taken:
            names = ", ".join(path.name for path in taken)
            raise RunError(
                f"not overwritten, because a person wrote or changed it: {names}",
                hint="move it away, or give `force=True` (`--force`)",
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        for path, one in zip(paths, self.scenarios, strict=True):
            path.write_text(one.text, encoding="utf-8")
        return paths

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `chartloop test --generate --format json` prints it."""
        return {
            "machine": self.machine, "folder": str(self.folder),
            "targets": len(self.targets),
            "covered": self.there,
            "scenarios": [
                {
                    "file": one.file, "shows": [_plain(t) for t in one.shows],
                    "records": one.records, "shortest": one.shortest, "text": one.text,
                }
                for one in self.scenarios
            ],
            "unreached": [
                {**_plain(u.target), "why": u.why, "text": u.text} for u in self.unreached
            ],
            "unread": list(self.unread), "tried": self.tried, "work": self.work,
            "stopped": self.stopped,
        }  # fmt: skip

    def parts(self, *, written: bool = False) -> Iterator[Part]:
        """Each scenario with its targets, the unreached targets with reasons, and the summary.

        `written`: the files have been written.
        """
        lines, rows = list[Line](), list[Row]()
        for one in self.scenarios:
            names = [target.name for target in one.shows]
            sign = Span("+", "green") if written else "·"
            lines.append(Line.of(sign, f" {display_path(self.folder / one.file)}"))
            lines.append(Line(f"    {say_some(names, _NAMED)}", "dim"))
            rows.append(Row((Cell(one.file, "code"), ", ".join(names), f"{one.records}")))
        for left in self.unreached:
            sign = Span("·", "dim") if left.why == "proven" else Span("✗", "red")
            lines.append(Line.of(sign, f" {left.target}: {left.text}"))
            rows.append(Row((Cell(str(left.target), "code"), left.text, "")))
        yield Terminal(lines)
        yield Notebook([Table(rows, ("scenario", "shows", "records"), {2})])
        yield Line(self.summary(written=written))

    def summary(self, *, written: bool = False) -> str:
        """The number of targets: shown before, by new scenarios, and left."""
        all_ = say_number(len(self.targets))
        if self.there == len(self.targets):
            return f"{self.machine}: all {all_} edges, rules and stop reasons are shown already"
        new = sum(len(one.shows) for one in self.scenarios)
        files = say_count(len(self.scenarios), "scenario")
        verb = "show" if written else "would show"
        left = f", {len(self.unreached)} are left" if self.unreached else ""
        return (
            f"{self.machine}: of {all_} edges, rules and stop reasons {self.there} were shown,"
            f" {files} {verb} {new} more{left}"
        )

    @property
    def there(self) -> int:
        """The number of targets that existing scenarios show."""
        return sum(target in self.covered for target in self.targets)

    def __repr__(self) -> str:
        new = sum(len(one.shows) for one in self.scenarios)
        shown = f"{self.there + new} of {len(self.targets)} edges, rules and stop reasons"
        return f"<Generated {self.machine}: {shown}, {new} of them new>"


def _ours(path: Path) -> bool:
    try:
        return is_ours(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def _plain(target: Target) -> dict[str, str]:
    return {"kind": target.kind, "name": target.name}
