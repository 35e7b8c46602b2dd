"""What the tests of the command line share: machines to run, and ways to call the program.

`Shell` calls it in this process, `program` in one of its own, `Terminal` at a terminal.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop.cli import inbox
from chartloop.cli.app import app

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "chartloop"]

ADDER = """\
chartloop: 1
machine: adder
title: Adds
model: {name: scripted}
tools: [add]
limits: {steps: 20, tokens: 1000}
vars: {approach: "", tries: 3}
define: {long: 'run.working >= duration("1h")'}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.total_tokens >= limits.tokens, stop: token_limit, warn_at: 80%}
  - {when: long, stop: time_limit}
states:
  receive: {do: receive, next: think}
  think:
    do: infer
    next:
      - {when: len(last.tool_calls) > 0, label: tool calls, to: act}
      - {to: done}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""

TOOLS = '''\
from chartloop import tool


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("adding")
    return a + b
'''

ADDS = """\
replies:
  - {text: Let me add., tool_calls: [{name: add, arguments: {a: 2, b: 3}}], usage: {prompt_tokens: 50, completion_tokens: 10}}
  - {text: It is 5., usage: {prompt_tokens: 70, completion_tokens: 5}}
"""

ASKER = """\
chartloop: 1
machine: asker
title: Asks before it goes on
model: {name: scripted}
limits: {steps: 10, answer: 5m}
vars: {note: "", count: 0}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  receive: {do: receive, next: think}
  think: {do: infer, next: question}
  question: {do: ask_user, with: {text: "Is {{ last.text }} right?"}, next: wait}
  wait:
    on:
      fix:
        to: think
        data: {note: str, count: int, sure: bool}
        set: {vars.note: last.answer.note, vars.count: last.answer.count}
      ok: done
      abort: stopped
    within: limits.answer
    expired: late
  done: {stop: completed}
  stopped: {stop: user_requested}
  late: {stop: user_unresponsive}
"""

GUESSES = """\
replies:
  - {text: forty-one, usage: {prompt_tokens: 60, completion_tokens: 8}}
  - {text: forty-two, usage: {prompt_tokens: 80, completion_tokens: 9}}
"""

LOOPER = """\
chartloop: 1
machine: looper
model: {name: scripted}
limits: {steps: 500}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  receive: {do: receive, next: think}
  think: {do: infer, next: [{when: last.text == "enough", to: done}, {to: think}]}
  done: {stop: completed}
"""


ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def slowly(delay: str, count: int = 60) -> str:
    """A script of so many replies, each of which takes so long."""
    usage = "usage: {prompt_tokens: 5, completion_tokens: 1}"
    return "replies:\n" + f"  - {{text: hm, delay: {delay}, {usage}}}\n" * count


FILES = {
    "adder.yaml": ADDER, "tools.py": TOOLS, "adds.yaml": ADDS, "asker.yaml": ASKER,
    "guesses.yaml": GUESSES, "looper.yaml": LOOPER, "slow.yaml": slowly("500ms"),
}  # fmt: skip
ADD = ("adder.yaml", "What is 2 + 3?", "--tools", "tools.py", "--script", "adds.yaml")
"""Arguments of a run that ends by itself."""
ASK = ("asker.yaml", "What is 6 * 7?", "--script", "guesses.yaml")
"""Arguments of a run that waits."""


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What is on stdout, as data."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The lines of stdout, each as data."""
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """Calls the command line in this process, in a folder with `FILES`.

    What is sent to a run waits a moment, and not seconds, for a process to take it: few tests have
    one, and those are `patient`.
    """

    def __init__(
        self,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.folder = folder
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        write_files(folder)
        monkeypatch.chdir(folder)
        self._patience = inbox.PATIENCE
        monkeypatch.setattr(inbox, "PATIENCE", 0.05)
        for name in ("NO_COLOR", "CHARTLOOP_JOURNAL", "CHARTLOOP_DURABILITY", "COLUMNS"):
            monkeypatch.delenv(name, raising=False)

    def __call__(self, *args: str, stdin: str = "") -> Done:
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        self._capsys.readouterr()
        code = app.main(list(args), prog_name="chartloop", standalone_mode=False)
        seen = self._capsys.readouterr()
        return Done(code, seen.out, seen.err)

    def patient(self) -> None:
        """From now on wait for a process that takes what is sent, as long as the program does."""
        self._monkeypatch.setattr(inbox, "PATIENCE", self._patience)

    def write(self, name: str, text: str) -> None:
        """A file of this test's own."""
        (self.folder / name).write_text(text)

    def last(self) -> str:
        """The id of the newest run."""
        return self("runs", "--limit", "1", "--format", "json").json[0]["run"]


def call(*args: str, cwd: Path) -> Done:
    """Call the command line in this process, for a fixture that the tests of a module share."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "stdin", io.StringIO())
        patch.setattr(inbox, "PATIENCE", 0.05)
        code = app.main(list(args), prog_name="chartloop", standalone_mode=False)
    seen = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return Done(code, *seen)


def write_files(folder: Path) -> None:
    """Put `FILES` into a folder."""
    for name, text in FILES.items():
        (folder / name).write_text(text)


def environment(**more: str) -> dict[str, str]:
    """The variables of a process of its own."""
    kept = {n: v for n, v in os.environ.items() if n not in ("NO_COLOR", "COLUMNS", "LINES")}
    return {**kept, "PYTHONPATH": str(ROOT / "engine"), **more}


def program(*args: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Done:
    """The program in a process of its own, with pipes."""
    done = subprocess.run(
        [*PROGRAM, *args], cwd=cwd, input=stdin, capture_output=True, check=False, timeout=60,
        env=environment(**(env or {})), encoding="utf-8", errors="surrogateescape",
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def started(*args: str, cwd: Path) -> subprocess.Popen[str]:
    """The program in a process of its own that goes on beside the test."""
    with signals_heard():
        return subprocess.Popen(
            [*PROGRAM, *args], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip


@contextlib.contextmanager
def signals_heard() -> Generator[None]:
    """Children started here do by default what a signal says, also where `nohup` runs the tests."""
    signals = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    ignored = [number for number in signals if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def until(holds: Any, patience: float = 20.0) -> Any:
    """Wait for something to be true; gives it."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with contextlib.suppress(Exception):
            if found := holds():
                return found
        time.sleep(0.05)
    raise AssertionError("it never came to be")


class Terminal:
    """The program at a terminal of its own.

    `shown` is what came since the last text that was expected, without colours and the like;
    `raw` is everything, with them.
    """

    def __init__(self, *args: str, cwd: Path, columns: int = 100, **env: str) -> None:
        self.raw = self.shown = ""
        self._seen, self._bytes = 0, b""
        self._fd = -1
        pid, fd = pty.fork()
        if not pid:
            os.chdir(cwd)
            given = {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "30", **env}
            os.execve(sys.executable, [*PROGRAM, *args], environment(**given))  # noqa: S606  no shell is wanted
        self.pid, self._fd = pid, fd

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    def expect(self, text: str, patience: float = 20.0) -> str:
        """Read until a text is shown; gives what came before it and since the last time."""
        end = time.monotonic() + patience
        while text not in self.shown:
            if time.monotonic() > end or not self._read(end - time.monotonic()):
                raise AssertionError(f"{text!r} was not shown, but:\n{self.shown}")
        before, _, self.shown = self.shown.partition(text)
        self._seen += len(before) + len(text)
        return before

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._fd, text.encode())

    def ctrl_c(self) -> None:
        """Interrupt, a moment after what was shown.

        A prompt stands on the screen a few instructions before its program listens: a key that
        came in between would wait there for the next one. No person is that fast.
        """
        time.sleep(0.2)
        self.type("\x03")

    def wait(self, patience: float = 20.0) -> int:
        """Read to the end; gives the exit code."""
        end = time.monotonic() + patience
        while self._read(max(0.0, end - time.monotonic())):
            pass
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._fd], [], [], max(0.0, seconds))[0]:
            return False
        try:
            data = os.read(self._fd, 65_536)
        except OSError:  # the other side has gone
            return False
        self._bytes += data
        self.raw = self._bytes.decode("utf-8", errors="replace")
        self.shown = ESCAPE.sub("", self.raw)[self._seen :]
        return bool(data)
