"""Cooperative cancellation. Source: 002 "Cooperative Cancellation"."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.adapters.cancel import Cancellation, FileCancellation, SignalCancellation
from chartloop.core.facts import RunFacts
from chartloop.run.ports import Cancel
from tests.support import path, start

LINE = "states: {a: {do: act, next: b}, b: {do: act, next: z}, z: {stop: completed}}"
RUN = RunFacts(id="r1", agent="scout", session="s")


class Scoped(NamedTuple):
    id: str
    asked: dict[str, str]
    covers: bool


SCOPES = [
    Scoped("every-run", {}, True),
    Scoped("its-agent", {"agent": "scout"}, True),
    Scoped("its-id", {"run": "r1"}, True),
    Scoped("its-session", {"session": "s"}, True),
    Scoped("all-of-it", {"agent": "scout", "run": "r1", "session": "s"}, True),
    Scoped("another-agent", {"agent": "cook"}, False),
    Scoped("another-run", {"run": "r2"}, False),
    Scoped("another-session", {"session": "t"}, False),
    Scoped("its-agent-in-another-session", {"agent": "scout", "session": "t"}, False),
]


@pytest.mark.parametrize("case", SCOPES, ids=lambda case: case.id)
def test_whom_a_request_means(case: Scoped) -> None:
    cancel = Cancellation()
    cancel.request(**case.asked)
    assert cancel.is_requested(RUN) is case.covers
    assert cancel.is_requested()


def test_reset_forgets_every_request() -> None:
    cancel = Cancellation()
    assert not cancel.is_requested()
    cancel.request()
    cancel.request(agent="scout")
    cancel.reset()
    assert not cancel.is_requested(RUN)


class Written(NamedTuple):
    id: str
    text: str | None
    covers: bool


FILES = [
    Written("no-file", None, False),
    Written("empty", "", True),
    Written("blank", "\n \n", True),
    Written("its-agent", '{"agent": "scout"}', True),
    Written("another-run", '{"run": "r2"}', False),
    Written("one-of-two", '{"run": "r2"}\n\n{"session": "s"}\n', True),
    Written("no-json", "please stop", True),
    Written("no-mapping", "[1]", True),
    Written("unknown-key", '{"user": "me"}', True),
]


@pytest.mark.parametrize("case", FILES, ids=lambda case: case.id)
def test_whom_a_file_means(case: Written, tmp_path: Path) -> None:
    file = tmp_path / "stop"
    if case.text is not None:
        file.write_text(case.text)
    cancel = FileCancellation(file)
    assert cancel.is_requested(RUN) is case.covers
    assert cancel.is_requested() is (case.text is not None)


def test_a_folder_in_place_of_the_file_stops_runs(tmp_path: Path) -> None:
    assert FileCancellation(tmp_path).is_requested(RUN)


def test_a_signal_of_the_system_is_a_request() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with SignalCancellation() as cancel:
        assert not cancel.is_requested(RUN)
        os.kill(os.getpid(), signal.SIGTERM)
        assert cancel.is_requested(RUN)
    assert signal.getsignal(signal.SIGTERM) is before


def test_it_is_looked_at_before_the_run_and_before_each_action(tmp_path: Path) -> None:
    cancel: Cancel
    for cancel in (Cancellation(), FileCancellation(tmp_path / "stop")):
        run = start(LINE, cancel=cancel)
        run.advance()
        run.advance()
        if isinstance(cancel, Cancellation):
            cancel.request(run=run.id)
        else:
            cancel.path.touch()
        assert run.run().reason == "user_requested"
        assert path(run).startswith("a b ")
        assert run.facts.run.steps == 1
        again = start(LINE, cancel=cancel, run_id=run.id)
        assert again.run().reason == "user_requested"
        assert again.facts.run.steps == 0
