"""The pytest plugin: every ``NAME.scenario.yaml`` that pytest finds is a test.

    pytest tests                                  # the scenarios with the other tests
    pytest --interlock-tools tools.py tests       # with the tools that the machines name

    [tool.pytest.ini_options]
    interlock_tools = ["tools.py"]                # files are taken from pytest's root folder

It is loaded wherever interlock and pytest are installed, and imports next to nothing before it
meets a scenario.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from interlock import testing
from interlock.core.errors import InterlockError

SUFFIX = ".scenario.yaml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--interlock-tools`, and the same as a setting."""
    about = "tools, actions and guards of scenarios' machines: a module, a file or module:name"
    group = parser.getgroup("interlock")
    group.addoption("--interlock-tools", action="append", default=[], metavar="TOOLS", help=about)
    parser.addini("interlock_tools", about, type="args", default=[])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Scenario files are collected; all others are somebody else's."""
    if not file_path.name.endswith(SUFFIX):
        return None
    return ScenarioFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]


class ScenarioFile(pytest.File):
    """A file with one scenario."""

    def collect(self) -> Iterable[pytest.Item]:
        name = self.path.name.removesuffix(SUFFIX)
        yield ScenarioItem.from_parent(self, name=name)  # pyright: ignore[reportUnknownMemberType]


class ScenarioItem(pytest.Item):
    """A scenario as a test."""

    def runtest(self) -> None:
        """Play it. Faults of its file or its machine fail it too."""
        config = self.config
        named: list[str] = config.getoption("--interlock-tools") or config.getini("interlock_tools")
        own = [testing.own_from(name, folder=config.rootpath) for name in named]
        report = testing.run_scenario(self.path, tools=own)
        if not report.passed:
            raise testing.ScenarioFailed(report)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What was expected and what came; for faults, the findings. No traceback."""
        if isinstance(excinfo.value, (testing.ScenarioFailed, InterlockError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """How pytest calls it."""
        return self.path, 0, f"scenario {self.name}"
