"""Loading a machine from a file, or finding all its mistakes: `load`, `check`, `draw`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from chartloop import catalog
from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.actions.undeclared import assuming
from chartloop.analysis.checker import describe_unsettled
from chartloop.analysis.checker import examine as examine_chart
from chartloop.api.bounds import AT_CHECK
from chartloop.api.drawn import DrawOptions
from chartloop.api.machine import Machine, lifecycle
from chartloop.api.plugins import load_plugins
from chartloop.core.errors import (
    Finding,
    Findings,
    SetupError,
    SpecError,
    finding_lines,
    nearest,
)
from chartloop.core.specs import Registry
from chartloop.core.text_table import Line, text_of
from chartloop.core.units import say_count
from chartloop.language.load import Find, Found
from chartloop.language.load import load as load_text
from chartloop.language.tool_lock import SUFFIX as LOCK
from chartloop.machine.build import Chart

if TYPE_CHECKING:
    from chartloop.pictures.picture import Picture

Own = object
"""What a file names of an application, tools, actions, guards and classes: a function, a class, a
module, a result of `specs_of`, or any nesting of these in lists."""


def find_faults(
    source: str | Path, *, tools: Own = (), actions: Own = (), guards: Own = (),
    define: Mapping[str, str] | None = None, assume: bool = False, plugins: Iterable[str] = (),
) -> tuple[Machine | None, tuple[Finding, ...]]:  # fmt: skip
    """A machine and all its mistakes, errors and warnings, sorted by place.

    The machine is None if there is an error. For the arguments see `load` and `examine`.
    """
    examined = examine(
        source, tools=tools, actions=actions, guards=guards, define=define, assume=assume,
        plugins=plugins,
    )  # fmt: skip
    return examined.machine, examined.findings


class Examined(NamedTuple):
    """A machine, its findings, and the guards left unsettled. Prints as a report."""

    machine: Machine | None
    findings: tuple[Finding, ...]
    unsettled: tuple[str, ...]
    """The places of guards for which the proof did not settle whether they can hold."""
    file: str = ""

    def lines(self, width: int | None = None) -> list[Line]:
        """The findings with their count, then the machine with its notes.

        Only source lines are cut to `width`; sentences are not wrapped.
        """
        lines = finding_lines(self.findings, file=self.file, width=width)
        open_questions = describe_unsettled(self.unsettled)
        if lines and open_questions:
            lines[-1] = Line(f"{lines[-1].text}, {open_questions}")
        if self.machine is None:
            return lines
        spec = self.machine.spec
        states, rules = say_count(len(spec.states), "state"), say_count(len(spec.rules), "rule")
        message = f"{self.file}: {self.machine.name}, {states}, {rules}"
        if self.findings:
            lines.append(Line(message))
        else:
            lines.append(Line(f"{message}: no mistakes", "green"))
            lines += [Line(open_questions)] if open_questions else []
        return [*lines, *(Line(note.text) for note in self.machine.check().notes)]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the output of `chartloop check --format json`."""
        machine = self.machine
        notes = machine.check().notes if machine is not None else ()
        return {
            "machine": machine.name if machine is not None else None,
            "findings": [finding.to_dict() for finding in self.findings],
            "unsettled": list(self.unsettled),
            "notes": [note.to_dict() for note in notes],
            "bound": None if machine is None else _bound_data(machine),
        }

    def __str__(self) -> str:
        return text_of(self.lines())


def _bound_data(machine: Machine) -> dict[str, Any]:
    """The worst that a run can cost, or why the proof found no bound within its steps."""
    bound = machine.bound(effort=AT_CHECK)
    return {"unknown": bound.unknown} if bound.unknown else bound.to_dict()["bounds"]


def examine(
    source: str | Path, *, tools: Own = (), actions: Own = (), guards: Own = (),
    define: Mapping[str, str] | None = None, assume: bool = False,
    plugins: Iterable[str] = (),
) -> Examined:  # fmt: skip
    """Like `find_faults`, with the guards left unsettled.

    `assume` accepts undeclared names of tools, actions and guards: such a machine can only be
    read.
    """
    text, name, folder = _text_of(source)
    own = (
        specs_of(tools, bare="tool"),
        specs_of(actions, bare="action"),
        specs_of(guards, bare="guard"),
        *load_plugins(plugins),
    )
    registry = with_own(specs_of(*own))
    registry = assuming(registry) if assume else registry
    return examine_text(text, name, registry, find=child_file, define=define, folder=folder)


def examine_text(
    text: str, name: str, registry: Registry, *, find: Find,
    define: Mapping[str, str] | None = None, folder: Path | None = None,
) -> Examined:  # fmt: skip
    """Like `examine`, for a text that is already read; `find` returns the files of its children."""
    loaded = load_text(text, name, registry, define=define, find=find)
    if loaded.spec is None:
        return Examined(None, loaded.findings, (), name)
    chart = Chart(loaded.spec, lifecycle())
    report = examine_chart(chart, loaded.tainted, broken=not loaded.ok)
    findings = [*loaded.findings, *report.findings]
    findings = sorted(
        set(findings),
        key=lambda f: (f.place.file, f.place.line, f.place.column, f.code),
    )
    if any(f.is_error for f in findings):
        return Examined(None, tuple(findings), report.unsettled, name)
    machine = Machine(chart, tuple(findings), folder)
    return Examined(machine, tuple(findings), report.unsettled, name)


def _text_of(source: str | Path) -> tuple[str, str, Path | None]:
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        return source, "<text>", None
    path = catalog.find(source)
    return catalog.read_text(path), catalog.display_path(path), path.parent


def child_file(source: str, file: str) -> Found:
    """The file of a child machine: a path from the folder of `file`, or a shipped name."""
    if source.endswith((".yaml", ".yml", LOCK)):
        path = Path(file).parent / source
        if not path.is_file():
            message = f"there is no file `{source}`: looked in {catalog.folder_of(path)}"
            raise SetupError(message, hint=catalog.nearest_file(path))
    elif (found := catalog.shipped_machines().get(source)) is not None:
        path = found
    else:
        known = catalog.shipped_machines()
        hint = nearest(source, known, otherwise=f"write `machines: {{{source}: {source}.yaml}}`")
        raise SetupError(f"there is no child machine `{source}`", hint=hint)
    path = Path(os.path.normpath(path))
    return Found(catalog.read_text(path), catalog.display_path(path))


def load(
    source: str | Path, *, tools: Own = (), actions: Own = (), guards: Own = (),
    define: Mapping[str, str] | None = None, plugins: Iterable[str] = (),
) -> Machine:  # fmt: skip
    """A machine from a file.

    `source` is a path, the name of a shipped machine, or YAML text that contains a newline.
    `tools`, `actions` and `guards` are those that the file may name besides the built-in ones:
    functions, modules that hold some, or lists of these; a decorated function, or a module, may be
    in any of the three. `define` replaces named expressions of the file. `plugins` are names of
    installed plugins; a plugin that is not named is not imported.

    Raises:
        SpecError: the file has an error; holds every finding. Warnings are in
            `Machine.findings`.
        PluginError: a plugin is not installed, cannot be imported, or brings a name that is taken.
        SetupError: the file or shipped machine does not exist, or an argument declares nothing.
    """
    machine, findings = find_faults(
        source, tools=tools, actions=actions, guards=guards, define=define, plugins=plugins
    )
    if machine is None:
        raise SpecError(findings)
    return machine


def check(
    source: str | Path | Machine, *, tools: Own = (), actions: Own = (), guards: Own = (),
    define: Mapping[str, str] | None = None, plugins: Iterable[str] = (),
) -> Findings:  # fmt: skip
    """Find all mistakes of a file, or of a machine's file; nothing is run.

    For the arguments see `load`; a machine needs none.
    """
    if isinstance(source, Machine):
        return source.check()
    examined = examine(
        source, tools=tools, actions=actions, guards=guards, define=define, plugins=plugins
    )
    notes = examined.machine.check().notes if examined.machine is not None else ()
    return Findings(examined.findings, notes)


def draw(
    source: str | Path | Machine, *, tools: Own = (), **options: Unpack[DrawOptions]
) -> Picture:  # fmt: skip
    """The picture of a machine, or of a file that names these `tools`; see `Machine.draw`."""
    machine = source if isinstance(source, Machine) else load(source, tools=tools)
    return machine.draw(**options)
