"""Loading machines: files and shipped names, the user's own tools, and trust.

Belongs here: making a `Machine` from command-line options. Never: running one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chartloop import catalog
from chartloop.cli import console
from chartloop.cli.error_report import MisuseError, UntrustedError
from chartloop.cli.late import at_first_use
from chartloop.core.errors import Finding, SetupError, SpecError

with at_first_use(__name__):
    from chartloop import api
    from chartloop.actions import declare, undeclared
    from chartloop.analysis.checker import trust
    from chartloop.api import caller_values, user_code
    from chartloop.api import plugins as api_plugins

if TYPE_CHECKING:
    from chartloop.api import Machine
    from chartloop.cli.options import RunOptions
    from chartloop.core.specs import Registry
    from chartloop.language.spec import MachineSpec


def load_machine(source: str, options: RunOptions) -> Machine:
    """Load a machine, by path or shipped name, to run it; see `refuse_untrusted`."""
    machine = read_machine(source, options)
    refuse_untrusted(machine, options)
    return machine


def seen_machine(source: str, options: RunOptions) -> Machine:
    """Load a machine, by path or shipped name, to read it; it must not be run.

    Without --tools, undeclared tools, actions and guards are accepted and listed on stderr.
    """
    if options.tools or options.plugins:
        return read_machine(source, options)
    locate(source)
    machine, findings = api.find_faults(source, define=dict(options.define), assume=True)
    if machine is None:
        raise SpecError(with_tools_hint(findings, options))
    say_assumed(undeclared.assumed_in(machine.spec))
    return machine


def say_assumed(names: Iterable[str]) -> None:
    """Print the names of undeclared tools, actions and guards."""
    if listed := ", ".join(names):
        text = f"undeclared, accepted by name: {console.plain(listed)}; --tools FILE declares them"
        for line in console.wrap_to_terminal(text, sys.stderr):
            console.say(line, "dim")


def read_machine(source: str, options: RunOptions) -> Machine:
    """Load a machine, by path or shipped name, with all its tools declared."""
    own = own_of(options)
    locate(source)
    try:
        return api.load(source, tools=own, define=dict(options.define))
    except SpecError as error:
        raise SpecError(with_tools_hint(error.findings, options)) from None


def with_tools_hint(findings: Iterable[Finding], options: RunOptions) -> list[Finding]:
    """Add a hint on --tools to findings about undeclared tools and actions."""
    if options.tools:
        return list(findings)
    hinted: list[Finding] = []
    for one in findings:
        if one.code in ("CL108", "CL401") or one.message.startswith("unknown tool `"):
            guessed = one.hint.startswith("did you mean")
            give = f"{one.hint} Or give your own" if guessed else "give it"
            one = replace(one, hint=f"{give} with --tools FILE")
        hinted.append(one)
    return hinted


def locate(source: str) -> Path:
    """Find the file of a path or shipped name. Raises `MisuseError` if there is none."""
    if "\n" in source:
        raise MisuseError("a machine is named by its file, or by the name of a shipped one")
    try:
        return catalog.find(source)
    except SetupError as error:
        raise MisuseError(error.message, hint=error.hint) from None
    except (OSError, ValueError) as error:
        raise MisuseError(f"there is no machine file `{source[:80]}`: {error}") from None


def tasks_of(spec: MachineSpec, options: RunOptions) -> list[dict[str, Any]] | None:
    """Read the tasks of the file of `--tasks`; None without the option."""
    if options.tasks is None:
        return None
    try:
        return caller_values.read_tasks_file(Path(options.tasks), spec)
    except SpecError as error:
        raise SpecError(with_tools_hint(error.findings, options)) from None


# trust --------------------------------------------------------------------------------------


def refuse_untrusted(machine: Machine, options: RunOptions) -> None:
    """Raise `UntrustedError` if the file needs `--trust` and it was not given."""
    reasons = trust.needs_trust(machine.spec)
    if reasons and not options.trust:
        name = machine.spec.file or machine.name
        hint = "read the file, then add --trust"
        raise UntrustedError(f"{name} {'; '.join(reasons)}", hint=hint)


# tools --------------------------------------------------------------------------------------


def own_of(options: RunOptions) -> list[Registry]:
    """Load the registries of `--tools` and `--plugin`."""
    with redirect_stdout(sys.stderr):  # stdout is for results, often JSON
        return [*map(_load_registry, options.tools), *api_plugins.load_plugins(options.plugins)]


def _load_registry(source: str) -> Registry:
    """Load the declarations of a source: a module, a file, or one name of either."""
    where = source.partition(":")[0]
    file = Path(where).absolute() if where.endswith(".py") else None
    folder = str(file.parent if file is not None else Path.cwd())
    if folder not in sys.path:  # tools may import modules beside them, as scripts do
        sys.path.insert(0, folder)
    try:
        own = user_code.own_from(source)
    except SetupError as error:
        cause = error.__cause__
        if not isinstance(cause, (Exception, SystemExit)) or _is_missing(cause, where):
            raise MisuseError(error.message, hint=error.hint) from None
        line = _line_of(where if file is None else str(file), cause)
        at = f" (line {line})" if line else ""
        hint = "the module itself fails"
        if isinstance(cause, SystemExit):
            hint = 'put what ends the program under `if __name__ == "__main__":`'
        raise SetupError(f"{error.message}{at}", hint=hint) from cause
    registry = declare.specs_of(own)
    if not (registry.tools or registry.actions or registry.guards or registry.types):
        hint = "decorate functions with `@tool`, `@action` or `@guard` from chartloop"
        raise SetupError(f"`{source}` declares nothing", hint=hint)
    return registry


def _is_missing(cause: BaseException, where: str) -> bool:
    name = cause.name if isinstance(cause, ModuleNotFoundError) else None
    return isinstance(cause, FileNotFoundError) or (name is not None and where.startswith(name))


def _line_of(source: str, error: BaseException) -> int | None:
    """The line of the user's file at which the error was raised; None for a syntax error."""
    line, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file == source or trace.tb_frame.f_globals.get("__name__") == source:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
