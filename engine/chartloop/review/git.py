"""The door to git: files of a revision, and which files changed since one.

Git runs as its own program. What a caller names goes behind `--end-of-options` or is a hash by
then, and paths are taken literally: no name is ever read as an option or a pattern. Nothing is
written, no hook or filter of the repository runs.

Belongs here: calling git. Never: what a machine is.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from chartloop.core.errors import SetupError

_PATIENCE = 60.0
"""Seconds for one call."""
_LARGEST = 4_000_000
"""Bytes of a file that are read; the language says that it is too large."""
_HOPS = 8
"""Links that are followed from one to the next."""


@dataclass(frozen=True)
class Repository:
    """A repository with its files at `root`."""

    root: Path

    @classmethod
    def at(cls, folder: Path, *, hint: str) -> Repository:
        """The repository that a folder is in. `SetupError`, with this hint, when it is in none."""
        done = _run(folder, ("rev-parse", "--show-toplevel"))
        if done.returncode:
            raise SetupError(
                f"`{folder}` is in no git repository that can be read: {_error_line(done.stderr)}",
                hint=hint,
            )
        return cls(Path(os.fsdecode(done.stdout.rstrip(b"\n"))))

    def revision(self, name: str) -> Revision:
        """A commit by whatever name git has for it. `SetupError` when there is none."""
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        found = None if "\0" in name else _git(self.root, *asked)
        if found is None:
            raise SetupError(
                f"there is no revision `{name[:80]}`",
                hint="name a branch, tag or commit; a shallow clone has few: fetch it first",
            )
        return Revision(self, found.decode().strip(), name)

    def common(self, one: Revision, other: Revision | None) -> Revision:
        """Where the second, None for the working tree, left the first; it where they never met."""
        head = other.commit if other is not None else "HEAD"
        found = _git(self.root, "merge-base", one.commit, head)
        return one if found is None else Revision(self, found.decode().strip(), one.name)

    def changed_files(self, base: Revision, head: Revision | None) -> Iterator[FileChange]:
        """The files that differ between two revisions, or a revision and the working tree."""
        options = ("-r", "-z", "-M", "--name-status")
        command = ("diff-tree", *options, base.commit, head.commit) if head else (
            "diff-index", *options, base.commit
        )  # fmt: skip
        words = iter(_must(self.root, *command).split(b"\0"))
        for status in words:
            if not status:
                continue
            path = os.fsdecode(next(words))
            if status[:1] in (b"R", b"C"):
                after = os.fsdecode(next(words))
                yield FileChange(path if status[:1] == b"R" else None, after)
            else:
                yield FileChange(None if status == b"A" else path, None if status == b"D" else path)
        if head is None:
            unknown = _must(self.root, "ls-files", "-z", "--others", "--exclude-standard")
            yield from (
                FileChange(None, os.fsdecode(path)) for path in unknown.split(b"\0") if path
            )

    def holding(self, pattern: str, head: Revision | None) -> list[str]:
        """The YAML files in which a line fits an extended regular expression."""
        where = [head.commit] if head is not None else []
        untracked = [] if head is not None else ["--untracked"]
        found = _git(
            self.root, "grep", "-l", "-z", "-I", "-E", "--full-name", *untracked, "-e", pattern,
            *where, "--", "*.yaml", "*.yml", literal=False,
        )  # fmt: skip
        names = (os.fsdecode(name) for name in (found or b"").split(b"\0") if name)
        prefix = f"{where[0]}:" if where else ""
        return sorted(name.removeprefix(prefix) for name in names)


class FileChange(NamedTuple):
    """A file that changed: its path before and now, None where it was or is not there."""

    before: str | None
    after: str | None


@dataclass(frozen=True)
class Revision:
    """One commit of a repository."""

    repository: Repository
    commit: str
    """Its hash."""
    name: str
    """The caller's name for it."""

    @property
    def short(self) -> str:
        """The beginning of its hash."""
        return self.commit[:9]

    def has(self, path: str) -> bool:
        """Whether there is a file or a folder at a path from the root."""
        return path == "." or bool(_git(self.repository.root, "ls-tree", self.commit, "--", path))

    def read(self, path: str) -> bytes | None:
        """The content of a file, of a link that of what it leads to; None when there is none.

        `SetupError` when it is not a file, is too large, or a link that leads out of the
        repository.
        """
        for _ in range(_HOPS):
            listed = _must(self.repository.root, "ls-tree", "-z", self.commit, "--", path)
            if not listed:
                return None
            mode, kind, blob = listed.split(b"\t")[0].split()
            if kind != b"blob":
                raise SetupError(f"`{self.name}:{path}` is not a file")
            data = self._blob(blob.decode(), path)
            if mode != b"120000":
                return data
            path = _inside(posixpath.join(posixpath.dirname(path), os.fsdecode(data)), path)
        raise SetupError(f"`{self.name}:{path}` is a link that leads round in a circle")

    def _blob(self, name: str, path: str) -> bytes:
        size = int(_must(self.repository.root, "cat-file", "-s", name))
        if size > _LARGEST:
            raise SetupError(f"`{self.name}:{path}` is too large for a machine: {size:,} bytes")
        return _must(self.repository.root, "cat-file", "blob", name)


def _inside(target: str, link: str) -> str:
    path = posixpath.normpath(target)
    if path.startswith(("../", "/")) or path == "..":
        raise SetupError(f"`{link}` is a link that leads out of the repository")
    return path


def _must(folder: Path, *arguments: str) -> bytes:
    """The output of git; `SetupError` with git's own words if it fails."""
    done = _run(folder, arguments)
    if done.returncode:
        raise SetupError(f"git {arguments[0]} failed: {_error_line(done.stderr)}")
    return done.stdout


def _error_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[0].removeprefix("fatal: ") if lines else "git gave no reason"


def _git(folder: Path, *arguments: str, literal: bool = True) -> bytes | None:
    """The output of git; None if it fails."""
    done = _run(folder, arguments, literal=literal)
    return None if done.returncode else done.stdout


def _run(
    folder: Path, arguments: tuple[str, ...], *, literal: bool = True
) -> subprocess.CompletedProcess[bytes]:
    settings = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    if literal:
        settings["GIT_LITERAL_PATHSPECS"] = "1"
    quiet = ("-c", "core.quotePath=false", "-c", "core.fsmonitor=false")
    command = ["git", "--no-pager", *quiet, *arguments]
    try:
        return subprocess.run(
            command, cwd=folder, env={**os.environ, **settings}, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SetupError(f"git {arguments[0]} did not end within {_PATIENCE:g} s") from None
    except OSError as error:
        hint = "install git, or compare files"
        raise SetupError(f"git cannot be started: {error.strerror or error}", hint=hint) from None
