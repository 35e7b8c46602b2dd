"""git as a subprocess: the files of a revision, and the files that changed since one.

Names from a caller follow `--end-of-options` or are hashes by then, and paths are literal: no name
is ever parsed as an option or a pattern. Nothing is written, and no hook or filter of the
repository runs.

Belongs here: calling git. Never: machines.
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
"""The timeout of one call, in seconds."""
_LARGEST = 4_000_000
"""The most bytes of a file, above the language's own limit."""
_HOPS = 8
"""The most symbolic links that are followed in a row."""


@dataclass(frozen=True)
class Repository:
    """A repository with its working tree at `root`."""

    root: Path

    @classmethod
    def at(cls, folder: Path, *, hint: str) -> Repository:
        """Return the repository of a folder. Raises `SetupError` with this hint if it has none."""
        done = _run(folder, ("rev-parse", "--show-toplevel"))
        if done.returncode:
            raise SetupError(
                f"`{folder}` is in no git repository that can be read: {_error_line(done.stderr)}",
                hint=hint,
            )
        return cls(Path(os.fsdecode(done.stdout.rstrip(b"\n"))))

    def revision(self, name: str) -> Revision:
        """Return a commit by any name that git accepts. Raises `SetupError` if there is none."""
        command = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        output = None if "\0" in name else _git(self.root, *command)
        if output is None:
            raise SetupError(
                f"there is no revision `{name[:80]}`",
                hint="name a branch, tag or commit; a shallow clone has few: fetch it first",
            )
        return Revision(self, output.decode().strip(), name)

    def common(self, one: Revision, other: Revision | None) -> Revision:
        """Return the merge base of two revisions (None: the working tree), or `one` without any."""
        head = other.commit if other is not None else "HEAD"
        output = _git(self.root, "merge-base", one.commit, head)
        return one if output is None else Revision(self, output.decode().strip(), one.name)

    def changed_files(self, base: Revision, head: Revision | None) -> Iterator[FileChange]:
        """Yield the files that differ between two revisions, or from the working tree."""
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
            untracked = _must(self.root, "ls-files", "-z", "--others", "--exclude-standard")
            yield from (
                FileChange(None, os.fsdecode(path)) for path in untracked.split(b"\0") if path
            )

    def holding(self, pattern: str, head: Revision | None) -> list[str]:
        """Return the YAML files with a line that matches an extended regular expression."""
        where = [head.commit] if head is not None else []
        untracked = [] if head is not None else ["--untracked"]
        output = _git(
            self.root, "grep", "-l", "-z", "-I", "-E", "--full-name", *untracked, "-e", pattern,
            *where, "--", "*.yaml", "*.yml", literal=False,
        )  # fmt: skip
        names = (os.fsdecode(name) for name in (output or b"").split(b"\0") if name)
        prefix = f"{where[0]}:" if where else ""
        return sorted(name.removeprefix(prefix) for name in names)


class FileChange(NamedTuple):
    """A changed file: its path before and now, None if it does not exist there."""

    before: str | None
    after: str | None


@dataclass(frozen=True)
class Revision:
    """One commit of a repository."""

    repository: Repository
    commit: str
    """The hash of the commit."""
    name: str
    """The caller's name for it."""

    @property
    def short(self) -> str:
        """The first digits of the hash."""
        return self.commit[:9]

    def has(self, path: str) -> bool:
        """Whether there is a file or folder at a path from the root."""
        return path == "." or bool(_git(self.repository.root, "ls-tree", self.commit, "--", path))

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, following links; None if it does not exist.

        Raises `SetupError` if it is not a file, is too large, or is a link that leads out of the
        repository.
        """
        for _ in range(_HOPS):
            listed = _must(self.repository.root, "ls-tree", "-z", self.commit, "--", path)
            if not listed:
                return None
            mode, kind, blob = listed.split(b"\t")[0].split()
            if kind != b"blob":
                raise SetupError(f"`{self.name}:{path}` is not a file")
            size = int(_must(self.repository.root, "cat-file", "-s", blob.decode()))
            if size > _LARGEST:
                message = f"`{self.name}:{path}` is too large for a machine: {size:,} bytes"
                raise SetupError(message)
            data = _must(self.repository.root, "cat-file", "blob", blob.decode())
            if mode != b"120000":
                return data
            link, folder = path, posixpath.dirname(path)
            path = posixpath.normpath(posixpath.join(folder, os.fsdecode(data)))
            if path.startswith(("../", "/")) or path == "..":
                raise SetupError(f"`{link}` is a link that leads out of the repository")
        raise SetupError(f"`{self.name}:{path}` is a link that leads round in a circle")


def _must(folder: Path, *arguments: str) -> bytes:
    """Return the output of git. Raises `SetupError` with git's own message if it fails."""
    done = _run(folder, arguments)
    if done.returncode:
        raise SetupError(f"git {arguments[0]} failed: {_error_line(done.stderr)}")
    return done.stdout


def _error_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[0].removeprefix("fatal: ") if lines else "git gave no reason"


def _git(folder: Path, *arguments: str, literal: bool = True) -> bytes | None:
    """Return the output of git, or None if it fails."""
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
