"""The pytest plugin: every ``NAME.scenario.yaml`` that pytest finds is a test.

    pytest tests                                  # the scenarios with the other tests
    pytest --chartloop-tools tools.py tests       # with the tools that the machines name

    pytest --chartloop-coverage tests/scenarios   # which parts of their machines they go through
    pytest --chartloop-coverage=agent --chartloop-coverage-fail-under=100 tests

    [tool.pytest.ini_options]
    chartloop_tools = ["tools.py"]                # files are taken from pytest's root folder

pytest loads it wherever chartloop is installed, so it imports almost nothing before the first
scenario.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chartloop import scenarios
from chartloop.core.errors import ChartloopError
from chartloop.pictures.flowchart import printable

if TYPE_CHECKING:
    from chartloop.studies.coverage.coverage import Coverage

SUFFIX = ".scenario.yaml"
_COVERAGE, _FAIL_UNDER = "--chartloop-coverage", "--chartloop-coverage-fail-under"
_WORKER_KEY = "chartloop_coverage"
"""The key of `workeroutput` under which a worker of pytest-xdist sends its coverage."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for tools and plugins, which are settings too, and for coverage."""
    about = (
        "what scenarios' machines name of yours, tools and classes: a module, a file or module:name"
    )
    group = parser.getgroup("chartloop")
    group.addoption("--chartloop-tools", action="append", default=[], metavar="TOOLS", help=about)
    parser.addini("chartloop_tools", about, type="args", default=[])
    plugins = "installed plugins that scenarios' machines may use, by name"
    group.addoption("--chartloop-plugin", action="append", default=[], metavar="NAME", help=plugins)
    parser.addini("chartloop_plugins", plugins, type="args", default=[])
    group.addoption(
        _COVERAGE, action="append", nargs="?", const="", default=[], metavar="MACHINE",
        help="show which parts of their machines scenarios go through; =MACHINE, a file or the name"
        " of a shipped one, shows that one only, also where nothing runs it",
    )  # fmt: skip
    group.addoption(
        _FAIL_UNDER, action="append", default=[], metavar="[WHAT=]PERCENT",
        help="fail where less was seen of a machine: 100 is of the edges; states=, atoms= ...",
    )  # fmt: skip
    group.addoption(
        "--chartloop-coverage-save", metavar="FILE",
        help="write what was counted, to be added up with `chartloop coverage --with`",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Register the coverage plugin if one of its options is given."""
    named: list[str] = config.getoption(_COVERAGE) or []
    wanted: list[str] = config.getoption(_FAIL_UNDER) or []
    if named or wanted or config.getoption("--chartloop-coverage-save"):
        try:
            plugin = CoveragePlugin(config, [name for name in named if name], wanted)
        except ChartloopError as error:
            raise pytest.UsageError(str(error)) from None
        config.pluginmanager.register(plugin, "chartloop-coverage")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Collect scenario files."""
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
        """Play the scenario; faults of its file or its machine fail the test."""
        report = scenarios.run_scenario(self.path, tools=_own(self.config))
        if not report.passed:
            raise scenarios.ScenarioFailed(report)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The report or the findings, without a traceback."""
        if isinstance(excinfo.value, (scenarios.ScenarioFailed, ChartloopError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The heading of the test in pytest's report."""
        return self.path, 0, f"scenario {self.name}"


def _own(config: pytest.Config) -> list[object]:
    """The tools, actions and guards that the options or the settings name."""
    names: list[str] = config.getoption("--chartloop-tools") or config.getini("chartloop_tools")
    plugins: list[str] = config.getoption("--chartloop-plugin") or config.getini(
        "chartloop_plugins"
    )
    from chartloop.api.plugins import load_plugins  # noqa: PLC0415  pytest starts without it
    from chartloop.api.user_code import own_from  # noqa: PLC0415

    return [*(own_from(name, folder=config.rootpath) for name in names), *load_plugins(plugins)]


class CoveragePlugin:
    """The coverage of all scenarios of a session; workers of pytest-xdist send their parts."""

    def __init__(self, config: pytest.Config, named: list[str], wanted: list[str]) -> None:
        from chartloop.api import load  # noqa: PLC0415  when it is asked for
        from chartloop.studies.coverage.coverage import wanted_of  # noqa: PLC0415

        if folders := [name for name in named if Path(name).is_dir()]:
            text = f"`{folders[0]}` is a folder and no machine"
            raise pytest.UsageError(f"{text}: write {_COVERAGE} after it, or {_COVERAGE}=MACHINE")
        self._config = config
        self._wanted = wanted_of(wanted)
        own = _own(config)
        self._covering = scenarios.Covering(load(name, tools=own) for name in named)
        self._collecting = scenarios.collecting(self._covering)
        self._parts: list[str] = []
        self._totals: tuple[Coverage, ...] = ()
        self._shortfalls: list[str] = []

    def pytest_sessionstart(self) -> None:
        """Start counting."""
        self._collecting.__enter__()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take the part of a finished worker of pytest-xdist."""
        del error
        if (part := getattr(node, "workeroutput", {}).get(_WORKER_KEY)) is not None:
            self._parts.append(part)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the part of a worker, or add all up and compare with the thresholds."""
        from chartloop.studies.coverage.coverage import from_json, to_json, total  # noqa: PLC0415

        self._collecting.__exit__(None, None, None)
        mine = self._covering.coverages()
        output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_WORKER_KEY] = to_json(mine)
            return
        self._totals = total((*mine, *(one for part in self._parts for one in from_json(part))))
        self._shortfalls = [text for one in self._totals for text in one.below(self._wanted)]
        if file := self._config.getoption("--chartloop-coverage-save"):
            Path(file).write_text(to_json(self._totals), "utf-8")
        if self._shortfalls and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, the skipped runs and the shortfalls."""
        from chartloop.studies.coverage.coverage import coverage_lines  # noqa: PLC0415  when it is asked for

        terminalreporter.section("chartloop coverage")
        for line in coverage_lines(self._totals):
            terminalreporter.write_line(printable(line.text))
        for note in self._covering.skipped_runs:
            terminalreporter.write_line(printable(note), yellow=True)
        for shortfall in self._shortfalls:
            terminalreporter.write_line(f"FAILED: {printable(shortfall)}", red=True)
