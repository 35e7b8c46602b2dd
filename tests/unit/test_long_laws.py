"""The long run of all laws: many examples, several seeds, one line each, and it can be continued.

The suite's own `conftest.py` and `long_laws.py` run here over a small suite.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.shell import signals_heard
from tests.long_laws import BEGIN, END, Result, append, main, page, read, table

TESTS = Path(__file__).parents[1]
LAWS = """
    from pathlib import Path

    import pytest
    from hypothesis import given, settings, strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

    from tests.effort import examples

    @given(st.integers())
    @settings(max_examples=3, derandomize=True)
    def test_holds(n): ...

    @given(st.booleans())
    def test_has_two_examples(b): ...

    @pytest.mark.parametrize("by", [1, 2])
    @given(n=st.integers(0, 10**9))
    def test_is_broken_until_mended(n, by):
        assert by == 1 or Path("mended").exists() or n < 1_000

    class Machine(RuleBasedStateMachine):
        @rule()
        def nothing(self): ...

    @pytest.mark.law
    def test_by_hand():
        run_state_machine_as_test(Machine, settings=settings(max_examples=examples(2)))

    def test_is_no_law():
        assert False
"""
ENDS = """
    import os
    from pathlib import Path
    from hypothesis import given, strategies as st

    @given(st.booleans())
    def test_ends_its_process(b):
        if not Path("mended").exists():
            os._exit(7)
"""
LASTS = """
    import time
    from pathlib import Path
    from hypothesis import given, strategies as st

    @given(st.booleans())
    def test_a(b): ...

    @given(st.booleans())
    def test_b(b):
        Path("begun").touch()
        time.sleep(1 if Path("mended").exists() else 1_000)
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite with the rules of this one."""
    (tmp_path / "tests").mkdir()
    for name in ("__init__.py", "conftest.py", "long_laws.py", "effort.py"):
        shutil.copy(TESTS / name, tmp_path / "tests" / name)
    (tmp_path / "tests" / "allowed_skips.txt").touch()
    shutil.copy(TESTS.parent / "pyproject.toml", tmp_path)
    (tmp_path / "tests" / "test_laws.py").write_text(dedent(LAWS))
    (tmp_path / "tests" / "test_plain.py").write_text("def test_plain(): assert False\n")
    return tmp_path


def run(suite: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tests/long_laws.py", "laws.jsonl", *args]
    return subprocess.run(command, cwd=suite, capture_output=True, text=True, check=False)


def found(suite: Path) -> dict[tuple[str, int], Result]:
    return {(r.law.partition("::")[2], r.seed): r for r in read(suite / "laws.jsonl")}


@pytest.mark.slow("starts pytest nine times")
def test_every_law_has_its_examples_with_every_seed_and_passes_once(suite: Path) -> None:
    ended = run(suite, "--examples", "150", "--seeds", "1-2", "--processes", "2")
    assert ended.returncode == 1, ended.stderr
    assert "test_is_broken_until_mended[2]" in ended.stdout
    first = found(suite)
    laws = {"test_holds", "test_has_two_examples", "test_by_hand"}
    broken = "test_is_broken_until_mended"
    assert set(first) == {
        (law, n) for law in (*laws, f"{broken}[1]", f"{broken}[2]") for n in (1, 2)
    }
    assert first["test_holds", 1].passed == first["test_by_hand", 2].passed == 150
    assert first["test_has_two_examples", 1].passed == 2
    assert first["test_has_two_examples", 1].stopped == "nothing left to do"
    failed = first[f"{broken}[2]", 1]
    assert failed.outcome == "failed"
    assert "n = 1000, by = 2" in failed.failure, "the smallest"
    assert failed.failure in ended.stdout

    (suite / "mended").touch()
    assert run(suite, "--examples", "150", "--seeds", "1-2").returncode == 0
    lines = Counter(line.split('"')[3] for line in (suite / "laws.jsonl").read_text().splitlines())
    assert {law.partition("::")[2]: n for law, n in lines.items() if n > 2} == {f"{broken}[2]": 4}

    run(suite, "--examples", "151", "--seeds", "2", "tests/test_laws.py")
    assert {r.seed for r in found(suite).values() if r.examples == 151} == {2}


@pytest.mark.slow("starts pytest twice")
def test_a_process_that_ends_is_no_pass(suite: Path) -> None:
    (suite / "tests" / "test_ends.py").write_text(dedent(ENDS))
    ended = run(suite, "--examples", "5", "--seeds", "3", "tests/test_ends.py")
    assert ended.returncode == 1
    ((law, seed),) = found(suite)
    assert (law, seed) == ("", 3)
    assert "ended with 7" in found(suite)[law, seed].failure
    assert "tests/test_ends.py`, seed 3: ended" in ended.stdout

    (suite / "mended").touch()
    assert run(suite, "--examples", "5", "--seeds", "3", "tests/test_ends.py").returncode == 0
    assert set(found(suite)) == {("test_ends_its_process", 3)}


@pytest.mark.slow("starts pytest twice")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_ends_what_it_started_and_continues(
    suite: Path, sign: signal.Signals
) -> None:
    (suite / "tests" / "test_lasts.py").write_text(dedent(LASTS))
    arguments = ("--examples", "5", "--seeds", "1-3", "tests/test_lasts.py")
    command = [sys.executable, "tests/long_laws.py", "laws.jsonl", *arguments]
    with signals_heard():
        process = subprocess.Popen(command, cwd=suite, stdout=subprocess.PIPE, text=True)
    with process:
        while not (suite / "begun").exists():
            time.sleep(0.05)
        process.send_signal(sign)
        output, _ = process.communicate(timeout=60)
    assert "stopped: the same command continues" in output
    assert set(found(suite)) == {("test_a", 1)}
    (suite / "mended").touch()
    assert run(suite, *arguments).returncode == 0
    assert set(found(suite)) == {(law, n) for law in ("test_a", "test_b") for n in (1, 2, 3)}


def test_the_table_adds_up() -> None:
    def result(law: str, seed: int, passed: int, outcome: str = "passed") -> Result:
        return Result(
            law=law, seed=seed, examples=1_000, passed=passed, stopped="", seconds=3.0, cpu=1.5,
            outcome=outcome, commit="c",
        )  # fmt: skip

    results = [
        result("b.py::one", 1, 1_000), result("b.py::one", 2, 1_000), result("b.py::two", 1, 4),
        result("a.py::one", 1, 7, "failed"),
    ]  # fmt: skip
    assert table(results).splitlines() == [
        "| file | laws | seeds | examples | CPU seconds | not passed |",
        "|---|---|---|---|---|---|",
        "| a.py | 1 | 1 | 7 | 2 | 1 |",
        "| b.py | 2 | 1–2 | 2,004 | 4 | 0 |",
        "| **all** | 3 | 1–2 | 2,011 | 6 | 1 |",
        "",
        "- `a.py::one`, seed 1: failed",
    ]


def test_the_table_is_written_to_a_page(tmp_path: Path) -> None:
    done = Result(
        law="tests/laws/test_span_laws.py::one", seed=1, examples=9, passed=9, stopped="",
        seconds=1.0, cpu=1.0, outcome="passed", commit="abc",
    )  # fmt: skip
    text = page(f"# Before\n\n{BEGIN}\nold\n{END}\n\nAfter\n", [done])
    assert text.startswith(f"# Before\n\n{BEGIN}\n\n1 of ")
    assert text.endswith(f"\n\n{END}\n\nAfter\n")
    assert "of the commits `abc`." in text
    assert "| tests/laws/test_span_laws.py | 1 | 1 | 9 | 1 | 0 |" in text
    assert "Without a result: `tests/browser/test_conversation.py`" in text
    assert "old" not in text
    assert page(text, [done]) == text
    written, results = tmp_path / "page.md", tmp_path / "laws.jsonl"
    written.write_text(f"{BEGIN}\n{END}\n")
    append(results, done)
    assert main([str(results), "--write", str(written)]) == 0
    assert "| tests/laws/test_span_laws.py | 1 | 1 | 9 | 1 | 0 |" in written.read_text()
    assert main([str(results), "--table"]) == 0
    with pytest.raises(SystemExit, match="the page lacks the lines"):
        page("# No marks", [done])
