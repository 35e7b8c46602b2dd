"""What is missing is said, and under ``CHARTLOOP_TESTS=all`` nothing is skipped.

The suite's own `conftest.py` runs here in a second pytest of this process, over a few small files.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest
from hypothesis import settings

TESTS = Path(__file__).parents[1]

ALLOWED = "test_sample.py::test_allowed | in its own place | tried elsewhere"

SAMPLE = """
    import pytest

    def test_passes(): ...

    @pytest.mark.system("no-such-program", install="apt-get install it")
    def test_system(): ...

    @pytest.mark.system("sh", install="nothing")
    def test_present_system(): ...

    @pytest.mark.extra("no_such_module", install="pip install it")
    def test_extra(): ...

    @pytest.mark.extra("json", install="nothing")
    def test_present_extra(): ...

    def test_allowed():
        pytest.skip("runs in its own place")

    @pytest.mark.xfail(reason="not yet")
    def test_expected():
        assert False
"""

SKIPS_ITSELF = """
    import pytest
    pytest.importorskip("no_such_module")
"""


def write(pytester: pytest.Pytester, name: str, text: str) -> None:
    (pytester.path / name).write_text(dedent(text))


def run(pytester: pytest.Pytester, *args: str, allowed: str = ALLOWED) -> pytest.RunResult:
    """The files of the folder under the suite's own rules."""
    write(pytester, "conftest.py", (TESTS / "conftest.py").read_text())
    write(pytester, "pyproject.toml", (TESTS.parent / "pyproject.toml").read_text())
    write(pytester, "allowed_skips.txt", allowed)
    name = settings.get_current_profile_name()
    profile = settings.get_profile(name)
    try:
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "--tb=short", *args)
    finally:  # the second `conftest.py` has loaded one for the whole process
        settings.register_profile(name, profile)
        settings.load_profile(name)


def test_what_is_missing_skips_and_names_the_install_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHARTLOOP_TESTS", raising=False)
    write(pytester, "test_sample.py", SAMPLE)
    result = run(pytester, "test_sample.py")
    assert result.parseoutcomes() == {"passed": 3, "skipped": 3, "xfailed": 1}
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines_random(
        [
            "SKIPPED*needs no-such-program: apt-get install it",
            "SKIPPED*needs no_such_module: pip install it",
        ]
    )


class Where(NamedTuple):
    """Where the tests run: what a worker process refuses must be seen by the one that counts."""

    id: str
    args: tuple[str, ...]


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.parametrize(
    "case",
    [Where("here", args=()), Where("in-workers", args=("-n", "1"))],
    ids=lambda case: case.id,
)
def test_under_all_only_a_listed_skip_is_allowed(
    case: Where, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHARTLOOP_TESTS", "all")
    write(pytester, "test_sample.py", SAMPLE)
    result = run(pytester, "test_sample.py", *case.args)
    # A marker skips before the test: an error of its set-up. The expected failure fails.
    assert result.parseoutcomes() == {"passed": 3, "skipped": 1, "errors": 2, "failed": 1}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(
        [
            "*needs no-such-program: apt-get install it",
            "*needs no_such_module: pip install it",
            "*expected to fail: not yet",
        ]
    )


SLOW = """
    import pytest

    def test_quick(): ...

    @pytest.mark.slow("starts a browser")
    def test_slow(): ...
"""


class Run(NamedTuple):
    """A command, and how many tests it runs."""

    id: str
    args: tuple[str, ...]
    passed: int
    all: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Run("nothing-named", args=(), passed=1),
        Run("folder-named", args=(".",), passed=1),
        Run("in-workers", args=("-n", "1"), passed=1),
        Run("file-named", args=("test_slow.py",), passed=2),
        Run("file-named-in-workers", args=("-n", "1", "test_slow.py"), passed=2),
        Run("test-named", args=("test_slow.py::test_slow",), passed=1),
        Run("all", args=(), passed=2, all="all"),
        Run("all-in-workers", args=("-n", "1"), passed=2, all="all"),
    ],
    ids=lambda case: case.id,
)
@pytest.mark.slow("starts processes for seconds")
def test_slow_tests_run_under_all_or_when_their_file_is_named(
    case: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHARTLOOP_TESTS", case.all)
    write(pytester, "test_slow.py", SLOW)
    result = run(pytester, "-o", "testpaths=.", *case.args)
    assert result.parseoutcomes()["passed"] == case.passed
    assert result.ret == pytest.ExitCode.OK
    more = "*Slow tests run with CHARTLOOP_TESTS=all, or when their file is named.*"
    if case.all:
        result.stdout.no_fnmatch_line(more)
    else:
        result.stdout.fnmatch_lines([more])


def test_slow_without_a_reason_is_refused(pytester: pytest.Pytester) -> None:
    write(pytester, "test_slow.py", SLOW.replace('"starts a browser"', ""))
    result = run(pytester, "test_slow.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_slow.py::test_slow: want `slow(reason)`*"])


def test_under_all_a_file_that_skips_itself_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHARTLOOP_TESTS", "all")
    write(pytester, "test_itself.py", SKIPS_ITSELF)
    result = run(pytester, "test_itself.py")
    assert result.parseoutcomes() == {"errors": 1}
    assert result.ret != pytest.ExitCode.OK


def test_a_mistyped_switch_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHARTLOOP_TESTS", "ALL")
    write(pytester, "test_sample.py", SAMPLE)
    result = run(pytester, "test_sample.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*CHARTLOOP_TESTS is `all` or not set, not `ALL`*"])


def test_examples_that_are_no_number_are_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHARTLOOP_EXAMPLES", "1e3")
    write(pytester, "test_sample.py", SAMPLE)
    result = run(pytester, "test_sample.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*CHARTLOOP_EXAMPLES is a number of examples, not `1e3`*"])


def test_an_allowance_without_a_reason_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHARTLOOP_TESTS", "all")
    write(pytester, "test_sample.py", SAMPLE)
    result = run(pytester, "test_sample.py", allowed="test_sample.py::* | in its own place")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*want `glob | skip text | reason`*"])
