"""Scenarios: whole runs of a machine, written down in YAML and played without Python.

    report = run_scenario("tests/adds.scenario.yaml")
    assert report.passed, str(report)

A scenario names a machine, what its model and its tools answer, what comes from outside, and
what the run must come to. The clock is simulated: waits and back-offs take no time. Replies and
results must fit exactly: one too few or left over is a failure.

`pytest` collects the files through `scenarios.pytest_plugin`; `chartloop test` runs them
from a shell; `scenario` is the same thing written in a Python test.

Source: design "language", section 10
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
from chartloop.language.yaml.document import short
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
    """The scenario files among these, and in these folders and all below; each once, sorted.

    Hidden folders are skipped. `SetupError` for a path that is not there.
    """
    found: set[Path] = set()
    for given in map(Path, paths):
        if given.is_file():
            found.add(given)
        elif given.is_dir():
            found.update(_below(given))
        else:
            raise SetupError(f"there is no file or folder `{given}`")
    return sorted(found)


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place, name) for name in files if name.endswith(SUFFIX))


def load_scenario(path: str | Path) -> Scenario:
    """The scenario of a file. Raises `SpecError` with every fault of its form.

    Whether the machine has what the scenario names is checked when it is run.
    """
    path = Path(path)
    shown = catalog.display_path(path)
    name = path.name.removesuffix(SUFFIX)
    text = catalog.read_text(path)
    return read_scenario(text, file=shown, name=name, folder=path.parent)


def run_scenario(
    source: str | Path | Scenario, *, tools: Own = (), model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> ScenarioReport:  # fmt: skip
    """Play a scenario, and compare.

    `tools` are the tools, actions and guards that the machine names and that are not built in;
    a tool for which the scenario gives results needs none. `model` with its `settings` takes the
    place of the scenario's replies, as in `Machine.start`: a `LoopbackServer` gives the same ones
    over HTTP. Raises `SpecError` when the scenario
    or its machine has faults; whatever goes wrong after that is in the report.
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
    """A scenario in a Python test, with the keys of a file. `ScenarioFailed` when it is not met.

        scenario("agent", "Say hello.", replies=["Hello."], expect={"reason": "completed"})

    `machine` is a path, the name of a shipped machine, or YAML text with a newline in it; `own`
    are the tools, actions and guards that it names. What `expect` leaves out can be asserted on
    the report's `result` and `run`.
    """
    data = {"machine": str(machine), "task": task, **keys}
    document = Document(_to_lists(data), "", "")
    made = scenario_of(document, name="scenario", folder=None)
    report = play_scenario(made, machine, own)
    if not report.passed:
        raise ScenarioFailed(report)
    return report


def _to_lists(value: Any) -> Any:
    """Python data as YAML would give it: tuples as lists."""
    if isinstance(value, Mapping):
        return {str(k): _to_lists(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_to_lists(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def machine_of(made: Scenario) -> Path:
    """The file of a scenario's machine: next to the scenario, or a shipped one."""
    beside = (made.folder or Path()) / made.machine
    if os.path.isfile(beside):  # noqa: PTH113  a name that no file can have is not an error here
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
