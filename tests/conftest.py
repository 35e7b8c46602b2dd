"""What the suite does where something is missing.

A test that needs a program or an optional dependency says so with a marker, and skips, with the
line that installs it, where that is missing::

    @pytest.mark.system("dot", install="apt-get install graphviz")
    @pytest.mark.extra("litellm", install='pip install -e ".[llm]"')
    @pytest.mark.node("mermaid")  # a package of tests/node

A test that takes seconds, a browser, a kernel, another library or very many machines is marked with
its reason, and is left out of an ordinary run unless the command names its file::

    @pytest.mark.slow("starts JupyterLab")

A law is a test that hypothesis feeds; ``-m law`` selects them, and ``CHARTLOOP_EXAMPLES=1000`` gives
each as many examples. `tests/long_laws.py` runs them so with many seeds.

With ``CHARTLOOP_TESTS=all`` every test runs and nothing is skipped: a skip or an expected
failure counts as a failure, unless `allowed_skips.txt` lists it with its reason. A test of an extra
imports it inside its functions, so that the file can be collected without it.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings

ALLOWED = Path(__file__).with_name("allowed_skips.txt")
NODE = Path(__file__).with_name("node")
"""The npm packages whose word counts: what Mermaid reads, what MCP allows, what a browser shows."""
ALL = os.environ.get("CHARTLOOP_TESTS", "") == "all"
_ASKED = os.environ.get("CHARTLOOP_EXAMPLES", "0")
EXAMPLES = int(_ASKED) if _ASKED.isdecimal() else 0
"""How many examples each law gets, whatever it says itself; 0: as many as it says."""

# No deadline and no complaint of slowness: the cores are shared. Where everything must pass the
# examples are the same each time, and one that fails is printed as it was found: making it smaller
# can take minutes, in which its process would be ended for the test's timeout. Elsewhere examples
# are new ones, and what fails is remembered.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", _PATIENT)
settings.register_profile(
    "all", _PATIENT, derandomize=True, print_blob=True,
    phases=[phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)],
)  # fmt: skip
settings.register_profile(
    "many", _PATIENT, max_examples=max(EXAMPLES, 1), database=None, print_blob=True
)
settings.load_profile("many" if EXAMPLES else "all" if ALL else "dev")


class AllowedSkip(NamedTuple):
    """One line of `allowed_skips.txt`."""

    tests: str
    says: str
    why: str

    def covers(self, nodeid: str, reason: str) -> bool:
        return fnmatchcase(nodeid, self.tests) and self.says in reason


def read_allowed(text: str) -> list[AllowedSkip]:
    """The lines that are no comments. A line without its three parts is an error."""
    allowed: list[AllowedSkip] = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != len(AllowedSkip._fields) or not all(parts):
            raise pytest.UsageError(f"{ALLOWED.name}: want `glob | skip text | reason`: {line}")
        allowed.append(AllowedSkip(*parts))
    return allowed


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--whole``: the tables of which a covering part is tried otherwise."""
    parser.addoption("--whole", action="store_true", help="whole tables, not a covering part")


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether whole tables are asked for."""
    return bool(request.config.getoption("--whole"))


def pytest_configure(config: pytest.Config) -> None:
    """Refuse values of the environment that would be taken for nothing."""
    if (value := os.environ.get("CHARTLOOP_TESTS", "")) not in ("", "all"):
        raise pytest.UsageError(f"CHARTLOOP_TESTS is `all` or not set, not `{value}`")
    if not _ASKED.isdecimal():
        raise pytest.UsageError(f"CHARTLOOP_EXAMPLES is a number of examples, not `{_ASKED}`")
    config.stash[_ALLOWED] = read_allowed(ALLOWED.read_text()) if ALL else []
    # What processes of the tests have compiled is there for those that come after them.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # A fifth of the time went into looking for garbage among the thousands of tests.
    gc.set_threshold(50_000, 50, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """``-n auto``: two processes a core, three where the tests run that wait for servers and clocks."""
    return (3 if ALL else 2) * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A process that has nothing left takes tests from the others: some last for a minute."""
    from xdist.scheduler import WorkStealingScheduling  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

    return WorkStealingScheduling(config, log)


_ALLOWED = pytest.StashKey[list[AllowedSkip]]()


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a law as one, and give it the examples that are asked for."""
    test: Any = getattr(item, "function", None)
    if not is_hypothesis_test(test):
        return
    item.add_marker("law")
    if EXAMPLES:
        own: settings = test._hypothesis_internal_use_settings
        test._hypothesis_internal_use_settings = settings(
            own, max_examples=EXAMPLES, derandomize=False, database=None, deadline=None
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out, unless all are to run or their file is named."""
    named = {Path(config.invocation_params.dir, arg.split("::")[0]) for arg in config.args}
    out: list[pytest.Item] = []
    for item in items:
        for mark in item.iter_markers("slow"):
            if len(mark.args) != 1 or mark.kwargs:
                raise pytest.UsageError(f"{item.nodeid}: want `slow(reason)`")
            if not ALL and item.path not in named:
                out.append(item)
                break
    if out:
        left = set(out)
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that there is more: the workers of pytest-xdist do not tell what they leave out."""
    if not ALL:
        terminalreporter.write_line(
            "Slow tests run with CHARTLOOP_TESTS=all, or when their file is named."
        )


def _missing_program(program: str, *, install: str) -> str | None:
    return None if shutil.which(program) else f"needs {program}: {install}"


def _missing_module(module: str, *, install: str) -> str | None:
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # of a module inside a package that is missing
        found = None
    return None if found else f"needs {module}: {install}"


def _missing_package(package: str) -> str | None:
    there = (NODE / "node_modules" / package).is_dir() and shutil.which("node")
    return None if there else f"needs the npm package {package}: npm ci --prefix tests/node"


_MISSING: dict[str, Callable[..., str | None]] = {
    "system": _missing_program,
    "extra": _missing_module,
    "node": _missing_package,
}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot run here, before any fixture is made."""
    for name, missing in _MISSING.items():
        for mark in item.iter_markers(name):
            if reason := missing(*mark.args, **mark.kwargs):
                pytest.skip(reason)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    expected: str | None = getattr(report, "wasxfail", None)
    if expected is not None:
        return f"expected to fail: {expected}"
    # Of a skip: its path, its line and its text.
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


def _refuse(report: Any, allowed: list[AllowedSkip]) -> None:
    reason = _reason(report)
    if any(line.covers(report.nodeid, reason) for line in allowed):
        return
    report.outcome = "failed"
    report.longrepr = f"{reason}\n(CHARTLOOP_TESTS=all allows only what {ALLOWED.name} lists)"
    if hasattr(report, "wasxfail"):
        del report.wasxfail


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under `all`, a skipped test fails unless it is allowed."""
    report = yield
    if ALL and report.skipped:
        _refuse(report, item.config.stash[_ALLOWED])
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Under `all`, a file that skips itself fails unless it is allowed."""
    report = yield
    if ALL and report.skipped:
        _refuse(report, collector.config.stash[_ALLOWED])
    return report


# Libraries whose word counts, each in a process of its own, which ends with the module: other tests
# count the children of this process.


@pytest.fixture(scope="session")
def postgres() -> Generator[Any]:
    """A PostgreSQL of this process: a `tests.postgres.Cluster`."""
    from tests.postgres import Cluster  # noqa: PLC0415

    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="module")
def mermaid() -> Generator[Any]:
    """What Mermaid reads: a `tests.mermaid.Oracle`."""
    from tests.mermaid import Oracle  # noqa: PLC0415

    with closing(Oracle()) as oracle:
        yield oracle
