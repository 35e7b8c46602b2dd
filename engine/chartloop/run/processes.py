"""Processes of this machine: the current one, and whether another is still alive.

A process is identified by its pid, the scope of that pid (a boot of a machine, and a container on
it) and its start time, since pids are reused.

Belongs here: what the system knows of processes. Never: the consequences for a run.
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
"""States of a process that has ended and that its parent has not yet reaped."""
_BORN = 19
"""The field of ``/proc/PID/stat`` with the start time, counted after the process's name."""


class Process(NamedTuple):
    """A process. Empty fields are unknown."""

    host: str = ""
    """The machine's name, for people."""
    pid: int = 0
    place: str = ""
    """The scope of the pid: processes of the same place can see each other."""
    born: str = ""
    """Its start time, in the system's own units."""


_this: list[Process] = []


def this_process() -> Process:
    """The current process. A fork of it is another."""
    if not _this or _this[-1].pid != os.getpid():
        pid = os.getpid()
        _this[:] = [Process(socket.gethostname(), pid, _place(), (_stat(pid) or ("", ""))[1])]
    return _this[-1]


def is_mine(process: Process) -> bool:
    """Whether it is the current process."""
    return process == this_process()


def is_gone(process: Process) -> bool:
    """Whether it has certainly ended. False if unknown, as for one of another machine."""
    here = this_process()
    if not process.pid or not process.place or process.place != here.place:
        return False
    if sys.platform != "win32":  # on Windows signal 0 would end the process
        try:
            os.kill(process.pid, 0)
        except ProcessLookupError:
            return True
        except OverflowError:
            return False
        except OSError:  # another user's: it exists
            pass
    stat = _stat(process.pid)
    if stat is None:
        return False
    state, born = stat
    return state in _DEAD or process.born not in ("", born)


def _place() -> str:
    """The boot id and the pid namespace, if the system has them; else the machine's name."""
    try:
        return f"{_BOOT.read_text('ascii').strip()} {_PIDS.readlink()}"
    except OSError:
        return "" if sys.platform == "win32" else socket.gethostname()


def _stat(pid: int) -> tuple[str, str] | None:
    """The state and start time of a process; None if the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the process's name before it may hold anything
    return (fields[0], fields[_BORN]) if len(fields) > _BORN else None
