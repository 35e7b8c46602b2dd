"""Scenarios: whole runs of a machine, written in YAML and played without Python.

    report = run_scenario("tests/adds.scenario.yaml")
    assert report.passed, str(report)

A scenario names a machine, the replies of its model, the results of its tools, the events from
outside, and the expected end of the run. The clock is simulated: waits and back-offs take no time.
A missing or unused reply or result is a failure.

`pytest` collects the files through `scenarios.pytest_plugin`, `chartloop test` runs them from a
shell, and `scenario` takes the same keys in a Python test.

Source: docs/language.md, section 8
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from chartloop import catalog
from chartloop.api import Own
from chartloop.core.codes import finding
from chartloop.core.errors import SetupError, SpecError, nearest
from chartloop.core.visible import short
from chartloop.language.yaml.reading import Document
from chartloop.run.ports import Model
from chartloop.scenarios.file import (
    Scenario,
    read_scenario,
    scenario_of,
)
from chartloop.scenarios.play import play_scenario
from chartloop.scenarios.report import ScenarioFailed, ScenarioReport

SUFFIX = ".scenario.yaml"


def find_scenarios(paths: Iterable[str | Path]) -> list[Path]:
    """Find scenario files: these files, and those in these folders and below; sorted, each once.

    Hidden folders are skipped. `SetupError` for a path that does not exist.
    """
    files: set[Path] = set()
    for path in map(Path, paths):
        if path.is_file():
            files.add(path)
        elif path.is_dir():
            files.update(_below(path))
        else:
            raise SetupError(f"there is no file or folder `{path}`")
    return sorted(files)


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place, name) for name in files if name.endswith(SUFFIX))


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file. Raises `SpecError` with every fault of its format.

    It is checked against its machine when it runs.
    """
    path = Path(path)
    file = catalog.display_path(path)
    name = path.name.removesuffix(SUFFIX)
    text = catalog.read_text(path)
    return read_scenario(text, file=file, name=name, folder=path.parent)


def run_scenario(
    source: str | Path | Scenario, *, tools: Own = (), model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> ScenarioReport:  # fmt: skip
    """Play a scenario and compare its result with the expectations.

    `tools` are the machine's tools, actions, guards and classes that are not built in, except tools
    whose results the scenario gives. `model` with its `settings` replaces the scenario's replies,
    as in `Machine.start`: a `LoopbackServer` gives the same replies over HTTP. Raises `SpecError`
    if the scenario or its machine has faults; all later problems are in the report.
    """
    made = source if isinstance(source, Scenario) else load_scenario(source)
    return play_scenario(made, machine_of(made), tools, model=model, settings=settings)


class ScenarioKeys(TypedDict, total=False):
    """The keys of a scenario file, as `scenario` takes them."""

    replies: Sequence[Any]
    events: Sequence[Mapping[str, Any]]
    tools: Mapping[str, Sequence[Any]]
    tasks: Sequence[Any]
    limits: Mapping[str, Any]
    vars: Mapping[str, Any]
    fleet: Mapping[str, Any]
    memory: Mapping[str, str]
    messages: Sequence[Mapping[str, Any]]
    agent: str
    session: str
    settings: Mapping[str, Any]
    requests: Sequence[Mapping[str, Any]]
    expect: Mapping[str, Any]


def scenario(
    machine: str | Path, task: str = "", *, own: Own = (), **keys: Unpack[ScenarioKeys]
) -> ScenarioReport:
    """Play a scenario in a Python test, with the keys of a file. `ScenarioFailed` if it fails.

        scenario("agent", "Say hello.", replies=["Hello."], expect={"reason": "completed"})

    `machine` is a path, the name of a shipped machine, or YAML text with a newline in it; `own`
    are the tools, actions, guards and classes that it names. Further assertions can use the
    report's `result` and `run`.
    """
    data = {"machine": str(machine), "task": task, **keys}
    document = Document(_to_lists(data), "", "")
    made = scenario_of(document, name="scenario", folder=None)
    report = play_scenario(made, machine, own)
    if not report.passed:
        raise ScenarioFailed(report)
    return report


def _to_lists(value: Any) -> Any:
    """Convert Python data to the form that YAML gives: tuples to lists."""
    if isinstance(value, Mapping):
        return {str(k): _to_lists(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_to_lists(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def machine_of(made: Scenario) -> Path:
    """Find the file of a scenario's machine: relative to the scenario, or a shipped one."""
    beside = (made.folder or Path()) / made.machine
    if os.path.isfile(beside):  # noqa: PTH113  returns False for a name that no file can have
        return beside
    shipped = catalog.shipped_machines()
    if made.machine in shipped:
        return shipped[made.machine]
    hint = nearest(made.machine, shipped, otherwise=f"a path, or one of {', '.join(shipped)}")
    name = short(made.machine)
    message = f"there is no machine `{name}`, neither as a file nor among the shipped ones"
    raise SpecError([finding("CL411", message, made.place("machine"), hint=hint, at="machine")])


__all__ = [
    "SUFFIX",
    "ScenarioFailed",
    "ScenarioKeys",
    "ScenarioReport",
    "find_scenarios",
    "load_scenario",
    "run_scenario",
    "scenario",
]
