"""What a command line said about loading, running and printing, as one record.

Belongs here: the record. Never: the options that fill it (`options`), or what is done with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class How:
    """What the command line said about loading, running and printing."""

    format: str = "text"
    tools: tuple[str, ...] = ()
    define: tuple[tuple[str, str], ...] = ()
    trust: bool = False
    script: str | None = None
    model: str | None = None
    api_base: str | None = None
    clock: str = "system"
    journal: str | None = None
    durability: str | None = None
    in_memory: bool = False
    take_over: bool = False
    notify: str | None = None
    notify_secret: str | None = None
    no_input: bool = False
    verbose: bool = False
    limit: tuple[tuple[str, str], ...] = ()
    var: tuple[tuple[str, str], ...] = ()
    memory: tuple[tuple[str, str], ...] = ()
    tasks: str | None = None
    run_id: str | None = None
    agent: str | None = None
    session: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of one command alone."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> How:
        """From a command's keyword arguments."""
        known = {n: v for n, v in given.items() if n in cls.__dataclass_fields__}
        return cls(**known, more={n: v for n, v in given.items() if n not in known})

    @property
    def is_json(self) -> bool:
        """Whether results are printed for programs."""
        return self.format != "text"
