"""Every law of the suite with many examples and several seeds, and the table of what came out.

    python tests/long_laws.py RESULTS --examples 1000 --seeds 1-10 --processes 2 [FILE...]
    python tests/long_laws.py RESULTS --table                          # nothing is run
    python tests/long_laws.py RESULTS --write tests/laws/README.md     # the table of that page

A law is a test that hypothesis feeds. Each law and seed becomes one line of the file RESULTS: how
many examples passed, why hypothesis stopped, the time, the commit, and the failure if it failed.
Started again with the same file it leaves out what has passed with as many examples, so it can be
stopped at any time; a law that failed is run again. One seed of all files comes before the next.

This file is also the pytest plugin that runs the laws of one file: `pytest -p tests.long_laws`.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis.statistics import collector, describe_statistics

ROOT = Path(__file__).resolve().parent.parent
LAWS = re.compile(r"^\s*@given\b|run_state_machine_as_test", re.MULTILINE)
RESULTS, EXAMPLES, SEED, COMMIT = (
    "CHARTLOOP_LAW_RESULTS", "CHARTLOOP_EXAMPLES", "CHARTLOOP_LAW_SEED", "CHARTLOOP_LAW_COMMIT"
)  # fmt: skip
BEGIN, END = "<!-- laws: written by tests/long_laws.py -->", "<!-- end of laws -->"
ENDINGS = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}
"""How pytest ends where every law has its line, be it because all of them had it before."""
STOPPED = {pytest.ExitCode.INTERRUPTED, -signal.SIGTERM, -signal.SIGINT}
"""How it ends where whoever started the run stopped it: the law that ran has no line."""
LONGEST = 4 * 60 * 60
"""Seconds after which a law fails that does not end."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One law with one seed."""

    law: str
    seed: int
    examples: int
    """How many were asked for."""
    passed: int
    """How many hypothesis says passed: fewer where it had no more, or where the law failed."""
    stopped: str
    """Why hypothesis stopped."""
    seconds: float
    cpu: float
    """Seconds of a core, those of ended child processes too."""
    outcome: str
    """`passed`, `failed`, or `ended`: the process of its file ended before the law did."""
    commit: str
    failure: str = ""

    @property
    def file(self) -> str:
        return self.law.split("::", maxsplit=1)[0]


def read(path: Path) -> list[Result]:
    """The newest result of each law and seed, in the order in which they came."""
    if not path.exists():
        return []
    found: dict[tuple[str, int], Result] = {}
    for line in path.read_text().splitlines():
        result = Result(**json.loads(line))
        for earlier in (result.law, result.file):  # a process that ended, and went on later
            found.pop((earlier, result.seed), None)
        found[result.law, result.seed] = result
    return list(found.values())


def append(path: Path, result: Result) -> None:
    """One line in one write: several processes append."""
    line = json.dumps(asdict(result)) + "\n"
    opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(opened, line.encode())
    finally:
        os.close(opened)


# -- the plugin ----------------------------------------------------------------------------------


class Recorder:
    """Runs the laws that have no result yet and appends what comes of each."""

    def __init__(self, path: Path, *, seed: int, examples: int, commit: str) -> None:
        self.path, self.seed, self.examples, self.commit = path, seed, examples, commit

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        done = {
            one.law
            for one in read(self.path)
            if one.seed == self.seed and one.outcome == "passed" and one.examples >= self.examples
        }
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
        items[:] = [item for item in items if item.nodeid not in done]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Of a law that asks hypothesis by hand the statistics are kept as of any other."""
        texts: list[str] = []
        since = _cpu()
        of_run: Any = collector
        with of_run.with_value(lambda found: texts.append(describe_statistics(found))):  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
            try:
                return (yield)
            finally:
                vars(item)["law_cpu"] = _cpu() - since
                if texts:
                    vars(item)["hypothesis_statistics"] = "\n".join(texts)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "call" or not report.passed:
            passed, stopped = _counted(getattr(item, "hypothesis_statistics", ""))
            append(
                self.path,
                Result(
                    law=item.nodeid, seed=self.seed, examples=self.examples, passed=passed,
                    stopped=stopped, seconds=round(call.duration, 2),
                    cpu=round(getattr(item, "law_cpu", 0.0), 2), outcome=report.outcome,
                    commit=self.commit, failure="" if report.passed else report.longreprtext,
                ),
            )  # fmt: skip
        return report


def _cpu() -> float:
    return sum(os.times()[:4])


def _counted(statistics: str) -> tuple[int, str]:
    """How many examples passed, and why there were no more: of hypothesis' own statistics."""
    phases = re.findall(r"during (\w+) phase.*?- (\d+) passing", statistics, re.DOTALL)
    stopped = re.search(r"Stopped because (.*)", statistics)
    passed = sum(int(number) for phase, number in phases if phase != "shrink")
    return passed, stopped.group(1) if stopped else "nothing was tried"


def pytest_configure(config: pytest.Config) -> None:
    """As a plugin: what to run is in the environment, as it is for the laws themselves."""
    recorder = Recorder(
        Path(os.environ[RESULTS]), seed=int(os.environ[SEED]),
        examples=int(os.environ[EXAMPLES]), commit=os.environ[COMMIT],
    )  # fmt: skip
    config.pluginmanager.register(recorder)


# -- the program ---------------------------------------------------------------------------------


def files_with_laws() -> list[str]:
    """All test files that have a law."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in paths if LAWS.search(path.read_text())]


class LongRun:
    """The laws of many files, each file and seed in a process of its own."""

    def __init__(self, results: Path, *, examples: int) -> None:
        self.results, self.examples = results, examples
        self._running: set[subprocess.Popen[str]] = set()

    def run(self, files: Sequence[str], seeds: Sequence[int], *, processes: int) -> None:
        """One seed after the other. Ctrl-C or a SIGTERM ends it with its processes."""
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        pool = ThreadPoolExecutor(processes)
        try:
            jobs = [pool.submit(self.run_file, file, seed) for seed in seeds for file in files]
            for job in jobs:
                job.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in [*self._running]:
                process.terminate()

    def run_file(self, file: str, seed: int) -> None:
        """What has no result yet of one file and seed."""
        before, since = _size(self.results), time.monotonic()
        command = [
            sys.executable, "-m", "pytest", "-p", "tests.long_laws", "-m", "law", "-q", "-n", "0",
            "-p", "no:cacheprovider", "-p", "no:schemathesis",
            "-o", f"timeout={LONGEST}", "-o", "faulthandler_timeout=0",
            f"--hypothesis-seed={seed}", file,
        ]  # fmt: skip
        commit = _commit()
        more = {
            RESULTS: str(self.results), EXAMPLES: str(self.examples), SEED: str(seed), COMMIT: commit
        }  # fmt: skip
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "CHARTLOOP_TESTS": "all", **more}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._running.add(process)
        output, _ = process.communicate()
        self._running.remove(process)
        seconds = round(time.monotonic() - since, 2)
        if process.returncode not in ENDINGS | STOPPED:
            lost = Result(
                law=file, seed=seed, examples=self.examples, passed=0, stopped="the process ended",
                seconds=seconds, cpu=0.0, outcome="ended", commit=commit,
                failure=f"ended with {process.returncode}\n{output[-8000:]}",
            )  # fmt: skip
            append(self.results, lost)
        newer = [
            one for one in _newer(self.results, before) if (one.file, one.seed) == (file, seed)
        ]
        failed = [one for one in newer if one.outcome != "passed"]
        print(f"{file} seed {seed}: {seconds} s, {len(failed)} failed", flush=True)
        for one in failed:
            print(f"{one.law} seed {one.seed}\n{one.failure}\n", flush=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _newer(results: Path, before: int) -> Iterator[Result]:
    with results.open("rb") as opened:
        opened.seek(before)
        for line in opened.read().decode().splitlines():
            yield Result(**json.loads(line))


def _commit() -> str:
    """What is checked out; empty outside of a repository."""
    command = ["git", "-c", "safe.directory=*", "describe", "--always", "--dirty"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip()


def table(results: Sequence[Result]) -> str:
    """One line a file, with what all its laws and seeds came to, and each law that did not pass."""
    files = {one.file: [r for r in results if r.file == one.file] for one in results}
    head = ("file", "laws", "seeds", "examples", "CPU seconds", "not passed")
    rows = [head, *(_row(file, found) for file, found in sorted(files.items()))]
    rows.append(_row("**all**", results))
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|---" * len(head) + "|")
    bad = [f"- `{r.law}`, seed {r.seed}: {r.outcome}" for r in results if r.outcome != "passed"]
    return "\n".join([*lines, "", *bad]).rstrip()


def _row(name: str, found: Sequence[Result]) -> tuple[str, ...]:
    seeds: dict[str, int] = {}
    for one in found:
        seeds[one.law] = seeds.get(one.law, 0) + 1
    fewest, most = min(seeds.values(), default=0), max(seeds.values(), default=0)
    numbers = (
        f"{len(seeds)}", f"{fewest}" if fewest == most else f"{fewest}–{most}",
        f"{sum(one.passed for one in found):,}", f"{sum(one.cpu for one in found):,.0f}",
        f"{sum(one.outcome != 'passed' for one in found)}",
    )  # fmt: skip
    return (name, *numbers)


def page(text: str, results: Sequence[Result]) -> str:
    """A page with the table between its marks, and what has no result yet."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"the page lacks the lines `{BEGIN}` and `{END}`")
    files = files_with_laws()
    left = [file for file in files if file not in {one.file for one in results}]
    told = [
        f"{len(files) - len(left)} of {len(files)} files with laws have results, of the commits "
        + ", ".join(f"`{name}`" for name in dict.fromkeys(one.commit for one in results)) + ".",
        table(results),
        *([f"Without a result: {', '.join(f'`{file}`' for file in left)}."] if left else []),
    ]  # fmt: skip
    return "\n\n".join([f"{before}{BEGIN}", *told, f"{END}{after}"])


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every result is a pass."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "results", type=Path, metavar="RESULTS", help="one line of JSON a law and seed"
    )
    parser.add_argument("--examples", type=int, default=1000, help="of each law and seed (1000)")
    parser.add_argument("--seeds", type=_seeds, default=range(1, 11), metavar="A-B", help="(1-10)")
    parser.add_argument("--processes", type=int, default=1, help="how many files at a time (1)")
    parser.add_argument("--table", action="store_true", help="print what there is, run nothing")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="write it to a page, run nothing"
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="of tests; otherwise all with a law"
    )
    asked: Any = parser.parse_intermixed_args(arguments)
    results: Path = asked.results.resolve()
    if asked.write is not None:
        asked.write.write_text(page(asked.write.read_text(), read(results)))
        return 0
    if not asked.table:
        run = LongRun(results, examples=asked.examples)
        try:
            run.run(asked.files or files_with_laws(), asked.seeds, processes=asked.processes)
        except KeyboardInterrupt:
            print("stopped: the same command continues", flush=True)
    found = read(results)
    print(table(found))
    return int(any(one.outcome != "passed" for one in found))


if __name__ == "__main__":
    sys.exit(main())
