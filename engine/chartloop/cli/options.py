"""Command-line options, as typed records.

`RunOptions` holds the options that many commands share. A command with options of its own extends
it with a record in its own module. A field has the name of click's parameter; an option that no
record declares raises `TypeError` when the command is called.

Belongs here: the shared records and `pass_options`. Never: the declarations that fill them
(`parameters`), or what is done with the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options for loading, running and printing."""

    format: str | None = "text"
    """None: chosen by the suffix of the output file."""
    tools: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    define: tuple[tuple[str, str], ...] = ()
    trust: bool = False
    script: str | None = None
    model: str | None = None
    api_base: str | None = None
    clock: str = "system"
    otel: bool = False
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
    submitter: str | None = None
    tenant: str | None = None
    priority: int | None = None
    required: tuple[tuple[str, str], ...] = ()
    """Figures that no run may exceed."""

    @property
    def is_json(self) -> bool:
        """Whether results are printed as data, not as text."""
        return self.format not in ("text", None)


@dataclass(frozen=True, kw_only=True)
class ServerOptions(RunOptions):
    """The options that `serve` and `mcp` share."""

    machines: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    workers: int = 1
    grace: float = 5.0
    token_file: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunCommandOptions(RunOptions):
    """The options of `run`, once or over a file of tasks."""

    inputs: str | None = None
    concurrency: int = 4
    totals: tuple[str, ...] = ()
    continues: str | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(RunOptions):
    """The options of `test --generate`."""

    only: tuple[str, ...] = ()
    dry_run: bool = False
    force: bool = False
    work: int | None = None
    run_actions: bool = False


def pass_options(record: type[RunOptions]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Pass a command its options as one record, `options`, and other parameters by name."""
    names = record.__dataclass_fields__.keys()

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @wraps(command)
        def call(*args: Any, **given: Any) -> R:
            parameters = {name: value for name, value in given.items() if name not in names}
            values = {name: value for name, value in given.items() if name in names}
            return command(*args, **parameters, options=record(**values))

        return call

    return decorate
