"""The machines that a change touches: those whose file, or the file of a child, changed.

Belongs here: from a revision to pairs of machines. Never: the differences in a pair, Markdown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from chartloop.analysis.proofs.query import Questions
from chartloop.analysis.proofs.query.data_movements import declared_uses
from chartloop.analysis.versions.diff.consent import Consent, asks_of
from chartloop.analysis.versions.diff.diff import Diff
from chartloop.api import Machine
from chartloop.core.errors import Finding, SetupError
from chartloop.language.tool_lock import SUFFIX as LOCK
from chartloop.machine.abstract.position import TooLarge
from chartloop.studies.review.git import FileChange, Repository, Revision
from chartloop.studies.review.sources import SUFFIXES, Looking, Side

_MACHINE = re.compile(r"""^\ufeff?(?:.*\{\s*)?["']?chartloop["']?\s*:""", re.MULTILINE)
_HAS_CHILDREN = r"""["']?machines["']?[[:space:]]*:"""
"""An extended regular expression that matches a file with child machines."""
_HAS_GATE = r"""["']?approve["']?[[:space:]]*:"""
"""One that matches a file in which calls wait for a person."""


@dataclass(frozen=True)
class Scope:
    """The two sides of a comparison: the base, and a revision or the working tree."""

    repository: Repository
    base: Revision
    head: Revision | None = None

    @classmethod
    def of(cls, folder: Path, base: str, head: str | None = None) -> Scope:
        """Compare the merge base with `base` to `head`, or to the working tree if None."""
        hint = "run it inside the repository whose machines changed"
        repository = Repository.at(folder, hint=hint)
        first = repository.revision(base)
        last = repository.revision(head) if head else None
        return cls(repository, repository.common(first, last), last)

    def has(self, path: str) -> bool:
        """Whether a path from the root is a file or folder on either side."""
        if path == ".." or path.startswith("../"):
            return False
        if self.head is not None:
            now = self.head.has(path)
        else:
            now = os.path.lexists(self.repository.root / path)
        return now or self.base.has(path)

    @property
    def now(self) -> str:
        """The name of the newer side."""
        return self.head.name if self.head is not None else "the working tree"


class Reviewed(NamedTuple):
    """One machine file that a change touches."""

    path: str
    """The path from the repository's root; of a removed file, its former path."""
    before: Side | None
    """None if the file is new, or was not a machine."""
    after: Side | None
    """None if the file was removed, or is no longer a machine."""
    diff: Diff | None
    """None unless both sides are machines."""
    problem: str = ""
    """The reason why the file could not be read; empty if it could."""
    unasked: tuple[Consent, ...] = ()
    """Of a new machine: the tools of which it asks about no call, and another machine does."""
    old_flows: Mapping[tuple[str, str], str] = {}
    """How labelled text reaches what may send it out on the older side, by label and tool."""
    flows: Mapping[tuple[str, str], str] = {}
    """The same of the newer side. See docs/data.md; a machine too large to follow has none."""

    @property
    def invalid(self) -> bool:
        """Whether the file does not load now."""
        return bool(self.problem) or (self.after is not None and self.after.machine is None)

    @property
    def same(self) -> bool:
        """Whether both sides are the same machine."""
        return self.diff is not None and self.diff.same

    @property
    def consent(self) -> tuple[Consent, ...]:
        """What the change does to the calls that wait for a person."""
        return self.unasked if self.diff is None else self.diff.consent

    @property
    def new_findings(self) -> tuple[Finding, ...]:
        """The findings that are new."""
        return _less(self.after, self.before)

    @property
    def fixed_findings(self) -> tuple[Finding, ...]:
        """The findings that are gone."""
        return _less(self.before, self.after) if self.after is not None else ()

    @property
    def gone_flows(self) -> tuple[tuple[str, str], ...]:
        """The flows of the older side, by label and tool, that the newer one does not have."""
        return tuple(flow for flow in self.old_flows if flow not in self.flows)

    @property
    def new_flows(self) -> Mapping[tuple[str, str], str]:
        """The flows of the newer side, with their ways, that the older one does not have."""
        return {flow: way for flow, way in self.flows.items() if flow not in self.old_flows}

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, as in `chartloop review --format json`."""
        return {
            "path": self.path,
            "invalid": self.invalid,
            "problem": self.problem or None,
            "diff": self.diff.to_dict() if self.diff is not None else None,
            "consent": [said.to_dict() for said in self.consent],
            "before": None if self.before is None else _as_data(self.before.findings),
            "after": None if self.after is None else _as_data(self.after.findings),
            "new": _as_data(self.new_findings),
            "mended": _as_data(self.fixed_findings),
            "new_flows": [
                {"label": label, "to": to, "way": way}
                for (label, to), way in self.new_flows.items()
            ],
            "gone_flows": [{"label": label, "to": to} for label, to in self.gone_flows],
        }


def _flows(side: Side | None) -> Mapping[tuple[str, str], str]:
    if side is None or side.machine is None:
        return {}
    spec = side.machine.spec
    if not any(use.labels for part in spec.family() for use in declared_uses(part)):
        return {}
    try:
        return Questions(side.machine.chart).ways_out()
    except TooLarge:
        return {}


def _as_data(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    return [finding.to_dict() for finding in findings]


def _less(side: Side | None, other: Side | None) -> tuple[Finding, ...]:
    """The findings of a side that the other does not have, whatever their place."""
    unmatched = [_key(finding) for finding in other.findings] if other is not None else []
    out: list[Finding] = []
    for finding in side.findings if side is not None else ():
        if _key(finding) in unmatched:
            unmatched.remove(_key(finding))
        else:
            out.append(finding)
    return tuple(out)


def _key(finding: Finding) -> tuple[str, str]:
    return finding.code, finding.message


def review(scope: Scope, looking: Looking, paths: Sequence[str] = ()) -> Iterator[Reviewed]:
    """Yield every machine that a change touches, by path. `paths` restricts files and folders."""
    files = scope.repository.changed_files(scope.base, scope.head)
    changed = [moved for moved in files if _path(moved).endswith(SUFFIXES)]
    moved = [m for m in changed if not _path(m).endswith(LOCK)]
    known = set(map(_path, moved))
    for path in dict.fromkeys(p for m in changed for p in _locked_by(scope, m) if p not in known):
        moved.append(FileChange(path, path))
    selected = {_path(m): m for m in moved if _within(_path(m), paths)}
    touched = {path for m in moved for path in m if path is not None}
    if touched:
        for parent in _parents(scope, looking, touched, set(selected)):
            if _within(parent, paths):
                selected[parent] = FileChange(parent, parent)
    for path in sorted(selected):
        reviewed = _review_file(scope, looking, selected[path])
        if reviewed is not None:
            yield reviewed


def _path(moved: FileChange) -> str:
    return moved.after or moved.before or ""


def _locked_by(scope: Scope, moved: FileChange) -> Iterator[str]:
    """Yield the machines whose MCP tools a file locks: a changed tool changes the machine."""
    path = _path(moved)
    if path.endswith(LOCK):
        names = (path.removesuffix(LOCK) + suffix for suffix in (".yaml", ".yml"))
        yield from (name for name in names if scope.has(name))


def _within(path: str, paths: Iterable[str]) -> bool:
    wanted = [p.rstrip("/") for p in paths]
    return not wanted or any(path == p or path.startswith(f"{p}/") or p == "." for p in wanted)


def _parents(
    scope: Scope, looking: Looking, touched: Collection[str], known: Collection[str]
) -> Iterator[str]:
    """Yield the unchanged machines that have a child in a changed file."""
    for path in scope.repository.holding(_HAS_CHILDREN, scope.head):
        if path in known or path in touched:
            continue
        if any(file in touched for file in _files(scope, looking, path)):
            yield path


def _files(scope: Scope, looking: Looking, path: str) -> Iterator[str]:
    """Yield the files of a machine and its children, now and before."""
    for revision in (scope.head, scope.base):
        try:
            side = _at(scope, revision, looking, path)
        except SetupError:
            continue
        machine, prefix = side.machine, f"{revision.name}:" if revision is not None else ""
        files = [spec.file for spec in machine.spec.family()] if machine is not None else []
        files += [finding.place.file for finding in side.findings]
        yield from (file.removeprefix(prefix) for file in files)


def _review_file(scope: Scope, looking: Looking, moved: FileChange) -> Reviewed | None:
    """Load both sides of a file. None if neither is a machine."""
    path = moved.after or moved.before or ""
    try:
        before = _machine_at(scope.base, looking, moved.before)
        after = _now(scope, looking, moved.after)
    except SetupError as error:
        return Reviewed(path, None, None, None, problem=error.message)
    if before is None and after is None:
        return None
    diff, unasked = None, ()
    if after and after.machine is not None and (before is None or before.machine is None):
        unasked = tuple(_unasked(scope, looking, after.machine))
    if before and after and before.machine is not None and after.machine is not None:
        names = (f"{scope.base.name} ({scope.base.short})", scope.now)
        diff = Diff(before.machine, after.machine, names)
    return Reviewed(
        path, before, after, diff, unasked=unasked, old_flows=_flows(before), flows=_flows(after)
    )


def _unasked(scope: Scope, looking: Looking, new: Machine) -> Iterator[Consent]:
    """Yield the tools of which a new machine asks about no call, and one of the base does."""
    free = {n for part in new.spec.family() for n, asks in asks_of(part).items() if asks is False}
    for path in scope.repository.holding(_HAS_GATE, scope.base) if free else ():
        try:
            old = looking.in_revision(scope.base, path).machine
        except SetupError:
            continue
        for part in old.spec.family() if old is not None else ():
            asked = {name for name, asks in asks_of(part).items() if asks is not False} & free
            says = f"asks nobody in this new machine, and does in `{path}`"
            yield from (Consent("loosened", name, says) for name in sorted(asked))
            free -= asked


def _machine_at(revision: Revision, looking: Looking, path: str | None) -> Side | None:
    data = revision.read(path) if path is not None else None
    if path is None or data is None or not _is_machine(data):
        return None
    return looking.in_revision(revision, path)


def _now(scope: Scope, looking: Looking, path: str | None) -> Side | None:
    if path is None:
        return None
    if scope.head is not None:
        return _machine_at(scope.head, looking, path)
    text = looking.tree_text(scope.repository, path)
    return looking.in_tree(scope.repository, path) if text and _is_machine(text) else None


def _at(scope: Scope, revision: Revision | None, looking: Looking, path: str) -> Side:
    if revision is not None:
        return looking.in_revision(revision, path)
    return looking.in_tree(scope.repository, path)


def _is_machine(data: bytes) -> bool:
    """Whether a YAML file is meant as a machine: it has our key for the format version."""
    return b"\0" not in data and bool(_MACHINE.search(data.decode("utf-8", errors="replace")))
