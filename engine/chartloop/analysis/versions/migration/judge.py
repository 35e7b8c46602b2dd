"""Judges whether recorded runs can continue under a new file: a verdict for each, with the reason.

    records ─▶ replayed by the new machine, under the new names ─▶ as recorded?
       yes ─▶ does the data of the run fit? ─▶ safe, with the changes ahead
       no  ─▶ with the names that aligning the files proposes? ─▶ needs a state map
              else ─▶ unsafe: the first record that is decided differently

Nothing is run or written. A run that may continue does so as a fork, whose records are those of the
new machine.

Source:      the issue "Proofs", 5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from chartloop.analysis.versions.migration.cause import NEVER, cause_of
from chartloop.analysis.versions.migration.compatibility import Standing, misfit, notes, stops
from chartloop.analysis.versions.migration.pending_changes import Reach, ahead, changed_routes
from chartloop.analysis.versions.migration.renames import Alignment, align_files, used
from chartloop.analysis.versions.migration.verdict import Ahead, Cause, Verdict
from chartloop.core.facts import EMPTY
from chartloop.core.position import Position
from chartloop.core.units import say_count
from chartloop.machine.build import Chart
from chartloop.run.journal import digest
from chartloop.run.recorded import RecordedRun
from chartloop.run.renaming import Names
from chartloop.run.replay import Replay, replay

ENDED = ("completed", "error")
OVER = "the run is over: it is read with the machine that it was started with"


class Upgrade:
    """The step from an old machine to a new one, which judges each run of the old.

    Without `old`, if it was not kept, runs are replayed all the same, but renamed states and the
    changes ahead are unknown.
    """

    def __init__(self, old: Chart | None, new: Chart) -> None:
        self.old = old
        self.new = new

    @cached_property
    def hash(self) -> str:
        """The hash of the new machine's canonical text."""
        return digest(self.new.text)

    @cached_property
    def alignment(self) -> Alignment:
        """Which states, edges and rules of the two files correspond, and their differences."""
        return align_files(None if self.old is None else self.old.spec, self.new.spec)

    @cached_property
    def only_words(self) -> bool:
        """Whether no change affects a run."""
        return self.old is not None and all(c.only_words for c in self.alignment.changes)

    @cached_property
    def only_names(self) -> bool:
        """Whether only the names of states affect a run."""
        changes = self.alignment.changes
        return self.old is not None and all(c.only_words or c.kind == "renamed" for c in changes)

    def judge(self, run: RecordedRun, *, begun: bool = False, now: float | None = None) -> Verdict:
        """Return the verdict for one run.

        `begun`: an action was started and has no record yet. `now` is the time at which the run
        would continue, in seconds since the epoch, for its time limits.
        """
        in_doubt = begun or any(event.type == "intent" for event in run.pending)
        return _Judge(self, run, in_doubt, now).verdict()


class _Undecidable(Exception):
    """A record that cannot be from any run."""


class _Judge:
    """The judgement of one run."""

    def __init__(self, upgrade: Upgrade, run: RecordedRun, begun: bool, now: float | None) -> None:
        self.upgrade = upgrade
        self.run = run
        self.begun = begun
        self.now = now
        last = run.records[-1]
        self.base = Verdict(
            run.run_id, "unchanged", "it is the same machine", last.next, last.status,
            len(run.records), names=Names(upgrade.new.spec.renamed),
        )  # fmt: skip

    def verdict(self) -> Verdict:
        """See `Upgrade.judge`."""
        if self.run.row.machine_hash == self.upgrade.hash:
            return self.base
        try:
            return self._decide()
        except _Undecidable as error:
            return self._unsafe(Cause(f"its records cannot be decided: {error}", NEVER))

    def _decide(self) -> Verdict:
        names = self.upgrade.alignment
        replayed = self._replay(names.given)
        if replayed.same:
            return self._fitting(replayed.position, names.given, {})
        if not (lines := used(self.run.records, names.lines)):
            return self._otherwise(replayed, names.given)
        mapped = self._replay(names.proposed)
        if mapped.same:
            return self._fitting(mapped.position, names.proposed, lines)
        return self._otherwise(mapped, names.proposed)

    def _replay(self, names: Names) -> Replay:
        try:
            return replay(self.upgrade.new, self.run.records, self.run.run_id, names=names)
        except Exception as error:  # an export may hold anything
            raise _Undecidable(f"{type(error).__name__}: {error}") from error

    def _otherwise(self, replayed: Replay, names: Names) -> Verdict:
        return self._unsafe(cause_of(self.upgrade.new, self.run.records, replayed, names))

    def _unsafe(self, cause: Cause) -> Verdict:
        if self.base.status in ENDED:
            cause = replace(cause, cure=OVER)
        return replace(self.base, kind="unsafe", why=str(cause), cause=cause)

    def _fitting(self, position: Position, names: Names, lines: Mapping[str, str]) -> Verdict:
        """The verdict if every record is decided as it was: it depends on the run's data."""
        upgrade = self.upgrade
        before = position if upgrade.only_names else self._before()
        standing = Standing(
            upgrade.new, position, upgrade.old, before, self.begun, self.now,
            self.run.children, self.base.state,
        )  # fmt: skip
        if (cause := misfit(standing)) is not None:
            return self._unsafe(cause)
        verdict = replace(self.base, names=names)
        if upgrade.only_words and not lines:
            words = len(upgrade.alignment.changes)
            why = f"it differs in words only: {say_count(words, 'difference')}" if words else ""
            return replace(verdict, why=why or "it is the same machine, written differently")
        reason, why = stops(standing)
        data = self.run.records[0].input.data
        return replace(
            verdict, kind="map" if lines else "safe", why=self._why(lines), renamed=lines,
            stops=reason, ahead=self._ahead(standing), cause=None,
            notes=(*((f"{why}: it stops for `{reason}`",) if reason else ()),
                   *notes(standing, data)),
        )  # fmt: skip

    def _why(self, lines: Mapping[str, str]) -> str:
        was = "every record is decided as it was"
        if not lines:
            return was
        message = ", ".join(f"`{old}` is `{new}`" for old, new in lines.items())
        return f"{message} now, which the file does not say; then {was}"

    def _before(self) -> Position | None:
        """The position under the machine that the run was started with."""
        old = self.upgrade.old
        if old is None:
            return None
        replayed = replay(old, self.run.records, self.run.run_id)
        return replayed.position if replayed.same else None

    def _ahead(self, standing: Standing) -> tuple[Ahead, ...]:
        old, position = self.upgrade.old, standing.position
        if old is None or position.ended:
            return ()
        back = {new: old for old, new in self.upgrade.alignment.states.items()}
        pending = [standing.chart.interruptible.get(one.point, "") for one in position.returns]
        here = [position.state, *pending]
        reach = [Reach(old, [back.get(name, name) for name in here]), Reach(standing.chart, here)]
        chosen: Mapping[str, object] = self.run.records[0].input.data.get("limits") or EMPTY
        files = (old.spec.file, standing.chart.spec.file)
        alignment = self.upgrade.alignment
        met = ahead(alignment.changes, *reach, given=chosen, files=files)
        return (*met, *changed_routes(old, standing.chart, alignment.states))
