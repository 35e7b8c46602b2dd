"""Fakes for tests of machines and runs: time, failure and a provider. Each implements its port.

    from chartloop.testing import ManualClock

For whole runs written in YAML see `chartloop.scenarios`. All public names are imported from here,
and loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chartloop.adapters.model.scripted import Scripted
    from chartloop.run.journal import MemoryJournal
    from chartloop.testing.clock import HostClock, ManualClock
    from chartloop.testing.crash import CrashAt, Crashed
    from chartloop.testing.journal_suite import JournalSuite, SharedJournalSuite
    from chartloop.testing.loopback import LoopbackServer

_WHERE = {
    "CrashAt": "chartloop.testing.crash",
    "Crashed": "chartloop.testing.crash",
    "HostClock": "chartloop.testing.clock",
    "JournalSuite": "chartloop.testing.journal_suite",
    "LoopbackServer": "chartloop.testing.loopback",
    "ManualClock": "chartloop.testing.clock",
    "MemoryJournal": "chartloop.run.journal",
    "Scripted": "chartloop.adapters.model.scripted",
    "SharedJournalSuite": "chartloop.testing.journal_suite",
}

__all__ = [
    "CrashAt",
    "Crashed",
    "HostClock",
    "JournalSuite",
    "LoopbackServer",
    "ManualClock",
    "MemoryJournal",
    "Scripted",
    "SharedJournalSuite",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module `chartloop.testing` has no attribute `{name}`")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
