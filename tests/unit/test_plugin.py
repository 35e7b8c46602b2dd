"""The pytest plugin, in real pytest processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PASSES = "machine: agent\ntask: Hello.\nreplies: [Hi.]\nexpect: {reason: completed}\n"
FAILS = PASSES.replace("reason: completed", "output: Ho.")
MACHINE = """chartloop: 1
machine: adder
tools: [add]
states:
  work: {do: tool, with: {name: add, arguments: {a: "2", b: "3"}}, save: {vars.sum: result}, next: done}
  done: {stop: completed}
vars: {sum: 0}
output: vars.sum
"""
ADDS = "machine: adder.yaml\nexpect: {output: 5}\n"
TOOLS = """from chartloop import tool

@tool
def add(a: int, b: int) -> int:
    "Add."
    return a + b
"""


def pytest_in(folder: Path, *options: str) -> tuple[int, str]:
    """Exit code and output of pytest with this plugin alone."""
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "chartloop.scenarios.pytest_plugin", *options]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=100
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow("starts pytest")
def test_scenarios_are_collected_and_run(tmp_path: Path) -> None:
    (tmp_path / "a.scenario.yaml").write_text(PASSES)
    (tmp_path / "other.yaml").write_text("not: a scenario")
    code, output = pytest_in(tmp_path, "-v")
    assert (code, "a.scenario.yaml::a PASSED" in output) == (0, True), output
    assert "1 passed" in output


@pytest.mark.slow("starts pytest")
def test_a_failure_is_the_report_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "a.scenario.yaml").write_text(FAILS)
    code, output = pytest_in(tmp_path)
    assert code == 1
    assert "scenario a" in output
    assert "output  (a.scenario.yaml:4:18)" in output
    assert "≠ Ho.        Hi." in output
    assert "Traceback" not in output
    assert "runtest" not in output


@pytest.mark.slow("starts pytest")
def test_a_fault_is_the_finding_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "a.scenario.yaml").write_text(PASSES + "tsk: x\n")
    code, output = pytest_in(tmp_path)
    assert code == 1
    assert " --> a.scenario.yaml:5:1" in output
    assert "did you mean `task`?" in output
    assert "Traceback" not in output


@pytest.mark.slow("starts pytest")
@pytest.mark.parametrize("name", ["tools.py", "tools.py:add", "tools", "tools:add"])
def test_own_tools_are_named_on_the_command_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "adder.yaml").write_text(MACHINE)
    (tmp_path / "adds.scenario.yaml").write_text(ADDS)
    (tmp_path / "tools.py").write_text(TOOLS)
    code, output = pytest_in(tmp_path, "--chartloop-tools", name)
    assert code == 0, output


@pytest.mark.slow("starts pytest")
def test_own_tools_are_named_in_the_settings(tmp_path: Path) -> None:
    sub = tmp_path / "sub"
    sub.mkdir()
    (sub / "adder.yaml").write_text(MACHINE)
    (sub / "adds.scenario.yaml").write_text(ADDS)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nchartloop_tools = tools.py\n")
    assert pytest_in(tmp_path)[0] == 0
    assert pytest_in(sub)[0] == 0  # files are taken from the root folder


class BadTools:
    """Names that give no tools, and what is said of them."""

    CASES = (
        ("none.py", "cannot import tools from `none.py`: FileNotFoundError"),
        ("nowhere.tools", "cannot import tools from `nowhere.tools`: ModuleNotFoundError"),
        ("broken.py", "cannot import tools from `broken.py`: ZeroDivisionError"),
        ("broken.py", "give a module, a file such as `tools.py`, or `module:name`"),
        ("tools.py:sub", "`tools.py` has no `sub`"),
    )


@pytest.mark.slow("starts pytest")
@pytest.mark.parametrize(("name", "says"), BadTools.CASES)
def test_tools_that_cannot_be_had_fail_the_scenario(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.scenario.yaml").write_text(PASSES)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    code, output = pytest_in(tmp_path, "--chartloop-tools", name)
    assert code == 1
    assert says in output
    assert "runtest" not in output


def test_pytest_pays_nothing_for_the_plugin_where_there_is_no_scenario(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import sys\n"
        "def test_a(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.hasplugin('chartloop.scenarios.pytest_plugin')\n"
        "    late = ['pydantic', 'transitions', 'yaml', 'chartloop.api', 'chartloop.language']\n"
        "    assert [name for name in late if name in sys.modules] == []\n"
    )
    code, output = pytest_in(tmp_path)
    assert code == 0, output


# coverage -----------------------------------------------------------------------------------


@pytest.mark.slow("starts pytest")
def test_the_coverage_of_a_session(tmp_path: Path) -> None:
    (tmp_path / "a.scenario.yaml").write_text(PASSES)
    code, output = pytest_in(tmp_path, "--chartloop-coverage")
    assert code == 0, output
    assert "chartloop coverage" in output
    assert "edges" in output
    assert "2/8" in output
    assert "run.steps >= limits.steps" in output


@pytest.mark.slow("starts pytest")
def test_a_threshold_fails_the_session(tmp_path: Path) -> None:
    (tmp_path / "a.scenario.yaml").write_text(PASSES)
    code, output = pytest_in(tmp_path, "--chartloop-coverage-fail-under", "100")
    assert code == 1, output
    assert "1 passed" in output
    assert "FAILED: `agent`: 2/8 edges are 25 %, below 100 %" in output
    assert pytest_in(tmp_path, "--chartloop-coverage-fail-under=20")[0] == 0


@pytest.mark.slow("starts pytest")
def test_a_machine_that_nothing_runs_is_reported_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.scenario.yaml").write_text(PASSES)
    code, output = pytest_in(
        tmp_path, "--chartloop-coverage=team", "--chartloop-coverage-save=c.json"
    )
    assert code == 0, output
    assert "0/16" in output
    assert "agent:" not in output
    assert '"machine": "team"' in (tmp_path / "c.json").read_text()


@pytest.mark.slow("starts pytest")
def test_scenarios_in_python_count_too(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from chartloop.scenarios import scenario\n\n"
        "def test_it():\n"
        "    scenario('agent', 'x', replies=['Hi.'], expect={'reason': 'completed'})\n"
    )
    _, output = pytest_in(tmp_path, "--chartloop-coverage")
    assert "2/8" in output


@pytest.mark.slow("starts pytest")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--chartloop-coverage", "."], "`.` is a folder and no machine"),
        (["--chartloop-coverage=agnt"], "did you mean `agent`?"),
        (["--chartloop-coverage-fail-under=lots"], "`lots` is not a percentage"),
    ],
)
def test_a_wrong_option_is_said_before_any_test(
    tmp_path: Path, options: list[str], said: str
) -> None:
    (tmp_path / "a.scenario.yaml").write_text(PASSES)
    code, output = pytest_in(tmp_path, *options)
    assert code == 4, output
    assert said in output
    assert "Traceback" not in output


@pytest.mark.slow("starts pytest")
def test_workers_hand_their_part_to_the_controller(tmp_path: Path) -> None:
    (tmp_path / "a.scenario.yaml").write_text(PASSES)
    (tmp_path / "b.scenario.yaml").write_text(PASSES.replace("Hi.", "Hi there."))
    alone, together = tmp_path / "alone.json", tmp_path / "together.json"
    assert pytest_in(tmp_path, f"--chartloop-coverage-save={alone}")[0] == 0
    code, output = pytest_in(
        tmp_path, "-p", "xdist", "-n", "2", f"--chartloop-coverage-save={together}"
    )
    assert code == 0, output
    assert "2 runs, 6 records" in output
    assert alone.read_text() == together.read_text()
