"""A recorded run, made into a scenario and played once to prove it.

Belongs here: the order of the work, and its report. Never: reading one record (`replies`,
`scenario_keys`), YAML (`scenarios.text`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from chartloop.actions import builtin
from chartloop.adapters.journal.opening import JournalOrPath, journal_of
from chartloop.api import Run
from chartloop.core.codec import to_json
from chartloop.core.errors import RunError, SetupError
from chartloop.core.records import Record
from chartloop.core.reports import Part, Report
from chartloop.core.text_table import Line
from chartloop.core.units import say_count
from chartloop.language.yaml.reading import Document
from chartloop.pictures.of_machine import OfMachine
from chartloop.pictures.save import write_whole
from chartloop.run.journal import CHILD_MARK, Journal
from chartloop.run.recorded import RecordedRun, Unread, read_run
from chartloop.run.redact import Redactor
from chartloop.run.refold import say_field
from chartloop.run.sync import wait
from chartloop.scenarios.file import scenario_of
from chartloop.scenarios.model_requests import scenario_requests
from chartloop.scenarios.play import play_scenario
from chartloop.scenarios.recorder.scenario_keys import expected_of, keys_of, script_of
from chartloop.scenarios.report import ScenarioReport
from chartloop.scenarios.text import scenario_text
from chartloop.studies.recorded_runs import recorded_runs


@dataclass(frozen=True)
class Recording(Report):
    """The scenario of a run, and its differences from the run."""

    run_id: str
    keys: Mapping[str, Any]
    """The scenario as plain data."""
    text: str
    """The text of its file."""
    differences: tuple[str, ...] = ()
    """The first difference between the played scenario and the run; empty if there is none."""
    lacks: tuple[str, ...] = ()
    """The replies and results that the records do not hold."""

    @property
    def same(self) -> bool:
        """Whether every decision of the played scenario is that of the run."""
        return not self.differences and not self.lacks

    def save(self, path: str | Path) -> Path:
        """Write the file atomically, and make its folder."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(Path(path), self.text.encode())
        return Path(path)

    def parts(self) -> Iterator[Part]:
        """The missing parts and differences, or a summary if there are none."""
        yield from (Line(f"not on the record: {what}", "yellow") for what in self.lacks)
        yield from (Line(difference, "yellow") for difference in self.differences)
        if self.same:
            calls = say_count(len(self.keys.get("replies", ())), "model call")
            results = say_count(sum(map(len, self.keys.get("tools", {}).values())), "tool call")
            yield Line(f"played as it was recorded: {calls}, {results}", "dim")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `chartloop record --format json` prints it, without the file."""
        return {
            "run": self.run_id, "same": self.same, "differences": list(self.differences),
            "lacks": list(self.lacks), "scenario": dict(self.keys),
        }  # fmt: skip

    def __repr__(self) -> str:
        how = "as it was recorded" if self.same else (*self.lacks, *self.differences)[0]
        return f"<Recording of {self.run_id}: {how}>"


def recording(
    run: Run | RecordedRun, machine: OfMachine, *, named: str = "",
    journal: JournalOrPath | None = None, requests: bool = True, redact: Iterable[str] = (),
) -> Recording:  # fmt: skip
    """Make a scenario of a run that has ended, or that waits for an answer.

    `machine` is the one that it ran; `named` is its name in the scenario (a path from the
    scenario's folder, or the name of a shipped machine). `journal`, open or its path, holds the
    runs of child machines. With `requests`, the model requests are kept, so that a replay with
    other requests fails. Secrets, and matches of the patterns of `redact`, are hidden.

    `RunError` if the run cannot be recorded, or the machine does not decide its records.
    """
    recorded = _finished_run(run)
    opened = None if journal is None else journal_of(journal, make=False)
    source = run.session.journal if isinstance(run, Run) else opened
    script = script_of(machine.chart, recorded, _children(source, recorded.run_id))
    keys = keys_of(machine.chart, recorded, named or machine.name, script)
    keys = _hide_secrets(keys, redact)
    # Play it. The reason of a caller's cancel must be expected.
    reason = str(recorded.row.reason or "")
    own = machine.spec.registry.beside(builtin())
    expected = {"kind": None, **({"reason": reason} if reason else {})}
    scenario = {**keys, "machine": machine.name, "expect": expected}
    made = scenario_of(Document(scenario, "", ""), name=machine.name, folder=None)
    report = play_scenario(made, machine.canonical() + "\n", own)
    if report.result is None:
        raise RunError(
            f"the scenario of run `{recorded.run_id}` cannot be played: {report.problems[0]}"
        )
    if requests and report.requests:
        keys["requests"] = scenario_requests(report.requests)
    keys["expect"] = expected_of(report.result)
    text = scenario_text(keys, head=_head(recorded, script.lacks))
    differences = _differences(recorded, report)
    return Recording(recorded.run_id, keys, text, differences, tuple(script.lacks))


def _finished_run(run: Run | RecordedRun) -> RecordedRun:
    (recorded,) = recorded_runs(run)
    if isinstance(recorded, Unread):
        raise RunError(f"run `{recorded.run_id}` cannot be recorded: {recorded.why}")
    row = recorded.row
    if not row.ended and row.status != "paused":
        raise RunError(
            f"run `{row.run_id}` has not ended: it is {row.status} at `{row.state}`",
            hint="a run is recorded that has ended, or that waits for an answer",
        )
    if row.wake_at is not None:
        raise RunError(
            f"run `{row.run_id}` waits at `{row.state}`, and not for ever",
            hint="in a scenario that time passes at once: record the run when it has continued",
        )
    return recorded


def _children(journal: Journal | None, run_id: str) -> list[RecordedRun]:
    if journal is None:
        return []
    rows = wait(journal.rows(prefix=run_id + CHILD_MARK), suspends=journal.suspends)
    read = [wait(read_run(journal, row), suspends=journal.suspends) for row in rows]
    return [run for run in read if isinstance(run, RecordedRun)]


def _hide_secrets(keys: Mapping[str, Any], redact: Iterable[str]) -> dict[str, Any]:
    """Redact the texts of a scenario, but never its keys or the names of tools and events."""
    try:
        patterns = [re.compile(pattern) for pattern in redact]
    except re.error as error:
        hint = "write it as Python's `re` reads it"
        raise SetupError(f"`{error.pattern}` is not a pattern: {error.msg}", hint=hint) from error

    def hide(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub("«redacted»", text)
        return text

    cleaned = cast("dict[str, Any]", json.loads(Redactor().json(to_json(keys))))
    return {**cleaned, **{name: _walk(cleaned[name], hide) for name in TEXTS if name in cleaned}}


TEXTS = ("task", "tasks", "replies", "tools", "events", "vars", "memory", "messages")
"""The keys of a scenario whose values are texts of people, models and tools."""
_WORDS = frozenset({"name", "id", "at", "send", "cancel", "finish_reason", "category", "role"})
"""Names within these whose values a replay needs unchanged."""


def _walk(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        return {n: v if n in _WORDS and isinstance(v, str) else _walk(v, hide) for n, v in entries}
    if isinstance(value, list):
        return [_walk(v, hide) for v in cast("list[Any]", value)]
    return value


def _differences(run: RecordedRun, report: ScenarioReport) -> tuple[str, ...]:
    """The first record in which the played run differs from the recorded one, if any."""
    played: Sequence[Record] = report.run.records if report.run is not None else ()
    for before, now in zip_longest(run.records, played):
        if before is None:
            return (f"the scenario continues with record {now.seq} at `{now.state}`",)
        if now is None:
            problems = (p for p in report.problems if not p.startswith(("kind", "reason")))
            why = next(problems, "the run ends there")
            return (f"the scenario does not reach record {before.seq}: {why}",)
        for what in ("kind", "state", "taken", "next", "status"):
            was, is_now = getattr(before, what), getattr(now, what)
            if was != is_now:
                at = f"record {before.seq} at `{before.state}`"
                return (f"{at}: {what} was {say_field(was)}, played it is {say_field(is_now)}",)
    return ()


def _head(run: RecordedRun, lacks: Sequence[str]) -> Iterator[str]:
    row = run.row
    end = f"stopped for `{row.reason}`" if row.ended else f"waits at `{row.state}`"
    yield f"Recorded from run {row.run_id} of {row.machine}, which {end}."
    yield from (f"Not on the record: {lack}." for lack in lacks)
