"""Loads a machine for review: from a file, a shipped name, or a revision of a repository.

Files that a machine refers to are read from the same revision. Undeclared names of tools, actions
and guards are assumed to exist: none of them is imported or run.

Belongs here: from a source to a machine or its findings. Never: comparing, calling git.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from chartloop import catalog
from chartloop.actions import with_own
from chartloop.actions.undeclared import assumed_in, assuming
from chartloop.api import Machine, child_file, examine_text, find_faults
from chartloop.core.errors import Finding, SetupError
from chartloop.core.specs import Registry
from chartloop.language.load import Found
from chartloop.language.tool_lock import SUFFIX as LOCK
from chartloop.studies.review.git import Repository, Revision

SUFFIXES = (".yaml", ".yml", LOCK)


class Side(NamedTuple):
    """A machine on one side of a comparison, or the errors that prevent it from loading."""

    name: str
    """Its name: a path, or ``REV:PATH``."""
    machine: Machine | None
    findings: tuple[Finding, ...]
    """All findings; if one is an error, there is no machine."""

    @property
    def undeclared_names(self) -> tuple[str, ...]:
        """The undeclared tools, actions and guards that the review assumes to exist."""
        return assumed_in(self.machine.spec) if self.machine is not None else ()


@dataclass(frozen=True)
class Looking:
    """The settings for reading files: the caller's tools, and replacements for `define`."""

    own: Registry = field(default_factory=Registry)
    define: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def registry(self) -> Registry:
        """A registry that accepts any name."""
        return assuming(with_own(self.own))

    def at(self, source: str) -> Side:
        """Load a path, a shipped name or ``REV:PATH``. Raises `SetupError` if it does not exist."""
        revision, path = _split(source)
        if revision is None:
            return self.file(source)
        return self.in_revision(revision, path)

    def file(self, source: str) -> Side:
        """Load a file, or a shipped machine."""
        path = catalog.find(source)
        machine, findings = find_faults(path, tools=[self.own], define=self.define, assume=True)
        return Side(catalog.display_path(path), machine, findings)

    def in_revision(self, revision: Revision, path: str) -> Side:
        """Load a file of a revision."""
        text = _text(revision, path)
        name = f"{revision.name}:{path}"
        finder = _InRevision(revision)
        read = examine_text(text, name, self.registry, find=finder.child, define=self.define)
        return Side(name, read.machine, read.findings)

    def in_tree(self, repository: Repository, path: str) -> Side:
        """Load a file of the working tree. It and its children must be in the repository."""
        root = repository.root.resolve()
        file = _in_repository(root, root / path)
        text = catalog.read_text(file)

        def child(source: str, of: str) -> Found:
            if source.endswith(SUFFIXES):
                beside = Path(root, of).parent / source
                _in_repository(root, beside)
                return Found(
                    catalog.read_text(beside), os.path.relpath(os.path.normpath(beside), root)
                )
            return child_file(source, of)

        read = examine_text(text, path, self.registry, find=child, define=self.define)
        return Side(path, read.machine, read.findings)

    @staticmethod
    def tree_text(repository: Repository, path: str) -> bytes | None:
        """Return the content of a file of the working tree; None if there is no such file."""
        root = repository.root.resolve()
        if not (root / path).is_file():
            return None
        return catalog.read_text(_in_repository(root, root / path)).encode(errors="surrogateescape")


def _in_repository(root: Path, path: Path) -> Path:
    """Return the path. Raises `SetupError` if it leads out of the repository, also by a link."""
    if not path.resolve().is_relative_to(root):
        raise SetupError(f"`{path.name}` leads out of the repository")
    if not path.is_file():
        raise SetupError(f"there is no file `{os.path.relpath(path, root)}`")
    return path


def _split(source: str) -> tuple[Revision | None, str]:
    """Split ``REV:PATH``. A file or shipped machine of that name takes precedence."""
    name, colon, path = source.partition(":")
    try:
        exists = Path(source).exists()
    except (OSError, ValueError):
        exists = False
    if exists or not colon or source in catalog.shipped_machines():
        return None, source
    if not name or not path:
        raise SetupError(f"`{source}` is not a REV:PATH", hint="write `main:machines/agent.yaml`")
    repository = Repository.at(
        Path.cwd(), hint="a revision is written REV:PATH, inside the repository that has it"
    )
    revision = repository.revision(name)
    return revision, _from_root(repository, revision, path)


def _from_root(repository: Repository, revision: Revision, path: str) -> str:
    """Resolve a path in a revision: from the root, as git does, else from the current folder."""
    here = os.path.relpath(Path.cwd(), repository.root.resolve())
    from_here = posixpath.normpath(posixpath.join(Path(here).as_posix(), path))
    from_root = posixpath.normpath(path)
    candidates = [from_here] if path.startswith(("./", "../")) else [from_root, from_here]
    for candidate in candidates:
        if not candidate.startswith(("../", "/")) and revision.read(candidate) is not None:
            return candidate
    raise SetupError(
        f"there is no file `{path}` in `{revision.name}`",
        hint="a path is taken from the root of the repository, or from here",
    )


def _text(revision: Revision, path: str) -> str:
    data = revision.read(path)
    if data is None:
        raise SetupError(f"there is no file `{path}` in `{revision.name}`")
    return data.decode("utf-8", errors="surrogateescape")


@dataclass(frozen=True)
class _InRevision:
    """A finder of child machines' files in the same revision."""

    revision: Revision

    def child(self, source: str, file: str) -> Found:
        """See `language.load.Find`."""
        if not source.endswith(SUFFIXES) or not file.startswith(f"{self.revision.name}:"):
            return child_file(source, file)  # a shipped machine, or a child of one
        folder = posixpath.dirname(file.removeprefix(f"{self.revision.name}:"))
        path = posixpath.normpath(posixpath.join(folder, source))
        if path.startswith(("../", "/")):
            raise SetupError(f"`{source}` leads out of the repository")
        if self.revision.read(path) is None:
            hint = f"it is taken from {folder or 'the root'} in `{self.revision.name}`"
            raise SetupError(f"there is no file `{source}`", hint=hint)
        return Found(_text(self.revision, path), f"{self.revision.name}:{path}")
