"""Processes of this machine: which one this is, and whether another is still there.

A process is known by its pid, by where that pid counts (a boot of a machine, and a container on
it) and by when it started: pids are used again.

Belongs here: what the system says of processes. Never: what follows for a run.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import NamedTuple

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PIDS = Path("/proc/self/ns/pid")
_DEAD = frozenset("ZX")
"""States of a process that has ended and was not yet collected by its parent."""
_BORN = 19
"""The field of ``/proc/PID/stat`` with the start time, counted behind the process's name."""


class Process(NamedTuple):
    """A process. What is empty is not known."""

    host: str = ""
    """The machine's name, for people."""
    pid: int = 0
    place: str = ""
    """Where the pid counts: two processes with the same place see each other."""
    born: str = ""
    """When it started, as the system counts."""


_this: list[Process] = []


def this_process() -> Process:
    """This process. A fork of it is another."""
    if not _this or _this[-1].pid != os.getpid():
        pid = os.getpid()
        _this[:] = [Process(socket.gethostname(), pid, _place(), (_stat(pid) or ("", ""))[1])]
    return _this[-1]


def is_mine(process: Process) -> bool:
    """Whether it is this very process."""
    return process == this_process()


def is_gone(process: Process) -> bool:
    """Whether it has certainly ended. Not known, for one of another machine: no."""
    here = this_process()
    if not process.pid or not process.place or process.place != here.place:
        return False
    if sys.platform != "win32":  # there, a signal of 0 is none: it ends the process
        try:
            os.kill(process.pid, 0)
        except ProcessLookupError:
            return True
        except OverflowError:
            return False
        except OSError:  # someone else's: it is there
            pass
    found = _stat(process.pid)
    if found is None:
        return False
    state, born = found
    return state in _DEAD or process.born not in ("", born)


def _place() -> str:
    """The boot and the pid namespace, where the system tells; else the machine's name."""
    try:
        return f"{_BOOT.read_text('ascii').strip()} {_PIDS.readlink()}"
    except OSError:
        return "" if sys.platform == "win32" else socket.gethostname()


def _stat(pid: int) -> tuple[str, str] | None:
    """State and start time; None where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return (fields[0], fields[_BORN]) if len(fields) > _BORN else None
