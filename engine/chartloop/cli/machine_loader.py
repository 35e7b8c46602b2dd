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

from chartloop.cli import console
from chartloop.cli.error_report import MisuseError, UntrustedError
from chartloop.core.errors import Finding, SetupError, SpecError

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
    from chartloop.actions.undeclared import assumed_in
    from chartloop.api import find_faults

    if options.tools or options.plugins:
        return read_machine(source, options)
    locate(source)
    machine, findings = find_faults(source, define=dict(options.define), assume=True)
    if machine is None:
        raise SpecError(with_tools_hint(findings, options))
    say_assumed(assumed_in(machine.spec))
    return machine


def say_assumed(names: Iterable[str]) -> None:
    """Print the names of undeclared tools, actions and guards."""
    if listed := ", ".join(names):
        text = f"undeclared, accepted by name: {console.plain(listed)}; --tools FILE declares them"
        for line in console.wrap_to_terminal(text, sys.stderr):
            console.say(line, "dim")


def read_machine(source: str, options: RunOptions) -> Machine:
    """Load a machine, by path or shipped name, with all its tools declared."""
    from chartloop.api import load

    own = own_of(options)
    locate(source)
    try:
        return load(source, tools=own, define=dict(options.define))
    except SpecError as error:
        raise SpecError(with_tools_hint(error.findings, options)) from None


def with_tools_hint(findings: Iterable[Finding], options: RunOptions) -> list[Finding]:
    """Add a hint on --tools to findings about undeclared tools and actions."""
    if options.tools:
        return list(findings)
    return [replace(f, hint=_tools_hint(f)) if _may_be_own(f) else f for f in findings]


def _may_be_own(finding: Finding) -> bool:
    return finding.code in ("CL108", "CL401") or finding.message.startswith("unknown tool `")


def _tools_hint(finding: Finding) -> str:
    has_guess = finding.hint.startswith("did you mean")
    if has_guess:
        return f"{finding.hint} Or give your own with --tools FILE"
    return "give it with --tools FILE"


def locate(source: str) -> Path:
    """Find the file of a path or shipped name. Raises `MisuseError` if there is none."""
    from chartloop import catalog

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
    from chartloop.api.caller_values import read_tasks_file

    if options.tasks is None:
        return None
    try:
        return read_tasks_file(Path(options.tasks), spec)
    except SpecError as error:
        raise SpecError(with_tools_hint(error.findings, options)) from None


# trust --------------------------------------------------------------------------------------


def refuse_untrusted(machine: Machine, options: RunOptions) -> None:
    """Raise `UntrustedError` if the file needs `--trust` and it was not given."""
    from chartloop.analysis.checker.trust import needs_trust

    reasons = needs_trust(machine.spec)
    if reasons and not options.trust:
        name = machine.spec.file or machine.name
        hint = "read the file, then add --trust"
        raise UntrustedError(f"{name} {'; '.join(reasons)}", hint=hint)


# tools --------------------------------------------------------------------------------------


def own_of(options: RunOptions) -> list[Registry]:
    """Load the registries of `--tools` and `--plugin`."""
    from chartloop.api.plugins import load_plugins

    with redirect_stdout(sys.stderr):  # stdout is for results, often JSON
        return [*load_tools(options.tools), *load_plugins(options.plugins)]


def load_tools(sources: tuple[str, ...]) -> list[Registry]:
    """Load the declarations of each source: a module, a file, or one name of either."""
    return [_load_registry(source) for source in sources]


def _load_registry(source: str) -> Registry:
    from chartloop.actions.declare import specs_of

    registry = specs_of(_import_source(source))
    if not (registry.tools or registry.actions or registry.guards or registry.types):
        hint = "decorate functions with `@tool`, `@action` or `@guard` from chartloop"
        raise SetupError(f"`{source}` declares nothing", hint=hint)
    return registry


def _import_source(source: str) -> object:
    from chartloop.api.user_code import own_from

    where = source.partition(":")[0]
    file = Path(where).absolute() if where.endswith(".py") else None
    folder = str(file.parent if file is not None else Path.cwd())
    if folder not in sys.path:  # tools may import modules beside them, as scripts do
        sys.path.insert(0, folder)
    try:
        return own_from(source)
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
