"""The served machines: the files of the configured folders, and the machines of recorded runs.

A file is read again when it has changed. A run continues with the machine that it was started with,
from the journal, whatever has happened to the file.

Belongs here: which text becomes a `Machine`, and with which tools. Never: a path or text from a
request.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from chartloop import catalog
from chartloop.actions.declare import specs_of
from chartloop.analysis.checker.trust import needs_trust
from chartloop.api import Machine, find_faults, load
from chartloop.api.plugins import recall_plugins, refuse_missing
from chartloop.api.stored_run import (
    machine_text,
    machine_to_drive,
    machine_to_read,
    recall_start,
    recall_upkeep,
    top_row,
)
from chartloop.core.errors import Finding, SetupError, SpecError, nearest
from chartloop.hosting.problems import Refusal
from chartloop.hosting.settings import Settings
from chartloop.language.tool_lock import lock_name
from chartloop.machine.evolve import RULES
from chartloop.run.cron import CronSchedule
from chartloop.run.journal import Journal, RunRow
from chartloop.run.lru_cache import LruCache
from chartloop.run.rules_version import is_known, rules_of, say_rules
from chartloop.run.sync import by_hand

RECORDED = 64
"""How many machines of recorded runs are cached."""
_MACHINE = re.compile(r"^chartloop\s*:", re.MULTILINE)
_NAME = re.compile(r"""^machine\s*:\s*["']?([A-Za-z_][\w-]*)""", re.MULTILINE)


class ServedFile(NamedTuple):
    """A machine file as it was last read."""

    name: str
    """The declared name, even if the file has errors; else the file's stem."""
    text: str
    machine: Machine | None
    """None if the file has errors."""
    findings: tuple[Finding, ...]


class Machines:
    """The machines of a server. Methods may block: call them from worker threads."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self._settings = settings
        self._journal = journal
        self._lock = threading.Lock()
        self._files: dict[Path, tuple[tuple[int, ...], ServedFile]] = {}
        self._recorded = LruCache[tuple[str, ...], Machine](RECORDED)
        known: dict[str, Path] = {}
        for name, path in self._named_paths():
            if (other := known.setdefault(name, path)) != path:
                message = f"`{other}` and `{path}` both declare the machine `{name}`"
                raise SetupError(message, hint="rename one of them")

    # files of the folders -----------------------------------------------------------------------

    def _named_paths(self) -> Iterator[tuple[str, Path]]:
        for folder in self._settings.machines:
            for path in sorted(folder.iterdir()):
                if path.suffix in (".yaml", ".yml") and path.is_file():
                    text = catalog.read_text(path)
                    if _MACHINE.search(text):  # scripts and tasks are YAML too
                        yield _declared_name(text) or path.stem, path

    def listing(self) -> list[ServedFile]:
        """Every machine file of the folders, in order."""
        return [self._read(name, path) for name, path in self._named_paths()]

    def file(self, name: str) -> ServedFile:
        """The machine file of that name. Raises `Refusal` if there is none."""
        known: dict[str, Path] = {}
        for declared, path in self._named_paths():
            known.setdefault(declared, path)
        if name not in known:
            hint = nearest(name, known, otherwise="`GET /machines` lists them")
            raise Refusal(404, "there is no machine of this name", hint=hint)
        return self._read(name, known[name])

    def to_start(self, name: str) -> Machine:
        """The machine of that name, to start a run. Raises `SpecError` if its file has errors."""
        file = self.file(name)
        if file.machine is None:
            raise SpecError(file.findings)
        self._refuse_untrusted(file.machine)
        return file.machine

    def _read(self, name: str, path: Path) -> ServedFile:
        stamp = (*_stamp(path), *_stamp(path.with_name(lock_name(path.name))))
        with self._lock:
            known = self._files.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        machine, findings = find_faults(path, tools=self._settings.tools)
        text = catalog.read_text(path).encode("utf-8", "replace").decode()
        file = ServedFile(name, text, machine, findings)
        with self._lock:
            self._files[path] = (stamp, file)
        return file

    def _refuse_untrusted(self, machine: Machine) -> None:
        if not self._settings.trust and (wants := needs_trust(machine.spec)):
            message = f"the file of machine `{machine.name}` {'; '.join(wants)}"
            raise SetupError(message, hint="look at the file, then start the server with `--trust`")

    # machines of recorded runs ------------------------------------------------------------------

    def to_read(self, row: RunRow) -> Machine:
        """The machine of a recorded run, for reading: its tools need not be installed."""
        upkeep = recall_upkeep(self._journal, row)
        read = partial(machine_to_read, self._journal, row, self._settings.tools)
        return self._get_or_make(("read", row.machine_hash, *upkeep), read)

    def to_drive(self, row: RunRow) -> Machine:
        """The machine of a recorded run, with the server's tools.

        Raises `SetupError` if only the command line that started the run can drive it.
        """
        options = recall_start(self._journal, top := top_row(self._journal, row))
        if {"script", "clock"} & options.keys():
            raise SetupError(
                f"run `{top.run_id}` was started with a script or a simulated clock",
                hint=f"`chartloop resume {top.run_id}` goes on with it",
            )
        return self._get_or_make(("drive", row.machine_hash), lambda: self._runnable(row))

    def to_tick(self, schedule: CronSchedule) -> Machine:
        """The machine of a cron schedule, with the server's tools.

        Raises `SetupError` or `SpecError` if this process cannot start its runs.
        """
        self._refuse_unserved(schedule.machine, schedule.machine_hash)

        def make() -> Machine:
            of, tools = f"schedule `{schedule.name}`", self._settings.tools
            refuse_missing(schedule.name, schedule.plugins, specs_of(tools).plugins)
            text = machine_text(self._journal, schedule.machine_hash, of)
            machine = load(text, tools=tools)
            self._refuse_untrusted(machine)
            return machine

        return self._get_or_make(("tick", schedule.needs), make)

    def _refuse_unserved(self, name: str, machine_hash: str) -> None:
        """Raise `SetupError` if a worker's folders do not have this machine."""
        if self._settings.machines and not self._settings.serves:
            served = [file.machine for file in self.listing() if file.machine is not None]
            if machine_hash not in {machine.hash for machine in served}:
                raise SetupError(f"no file in its folders is this machine `{name}`")

    def lacks(self, row: RunRow) -> str:
        """Why this process cannot drive a run that needs the same as this one; empty if it can."""
        for record in by_hand(self._journal.records(row.run_id, limit=1)):
            if not is_known(rules_of(record.input)):
                return f"it has the rules {RULES}, not {say_rules(record.input)}"
        try:
            self._refuse_unserved(row.machine, row.machine_hash)
            self._get_or_make(("drive", row.machine_hash), lambda: self._runnable(row))
        except (SetupError, SpecError) as error:
            return error.message
        return ""

    def _get_or_make(self, key: tuple[str, ...], make: Callable[[], Machine]) -> Machine:
        machine = self._recorded.get(key)
        if machine is None:
            machine = make()
            self._recorded.put(key, machine)
        return machine

    def _runnable(self, row: RunRow) -> Machine:
        machine = machine_to_drive(self._journal, row, self._settings.tools)
        self._refuse_untrusted(machine)
        return machine


def needs_of(journal: Journal, row: RunRow) -> str:
    """What a worker must have to drive a run: its machine, decision rules and plugins."""
    started = by_hand(journal.records(row.run_id, limit=1))
    rules = [f"rules={rules_of(record.input)}" for record in started]
    return " ".join((row.machine_hash, *rules, *sorted(recall_plugins(journal, row.run_id))))


def _stamp(path: Path) -> tuple[int, ...]:
    """The modification time and size of a file; empty if there is none."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_mtime_ns, stat.st_size


def _declared_name(text: str) -> str:
    """The name that a file declares for its machine; empty if it declares none."""
    match = _NAME.search(text)
    return match[1] if match else ""
