"""`whatif` and `sweep`: recorded runs decided again under other limits, without effects.

Belongs here: turning a caller's arguments into questions. Never: verdicts
(`studies.whatif.question`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from chartloop.api.caller_values import checked_values
from chartloop.api.machine import Machine
from chartloop.core.errors import LimitError
from chartloop.core.types import Type
from chartloop.core.units import write_duration
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.machine.guard_text import say_value
from chartloop.run.recorded import Recorded, Unread
from chartloop.studies.recorded_runs import Runs, recorded_runs
from chartloop.studies.whatif.question import Question, RecordedCase, reading
from chartloop.studies.whatif.result import Sweep, WhatIf
from chartloop.studies.whatif.verdict import BROKEN

Tick = Callable[[], object]
"""Called after each run, to show progress."""


def whatif(machine: Machine, runs: Runs, *, limits: Mapping[str, Any] | None = None) -> WhatIf:
    """Decide recorded runs again under other limits, or by this version of their machine.

        whatif(load("agent"), ".chartloop/journal.db", limits={"steps": 8})

    Every record is decided again from its inputs; nothing runs. `runs` are a journal or its path,
    runs, exported ``.jsonl`` files, or a list of these. `limits` replace those that a run was
    started with. `LimitError` for a limit that the machine refuses.
    """
    return whatif_each(machine, recorded_runs(runs, machine.name), [limits or {}])[0]


def sweep(
    machine: Machine, runs: Runs, limit: str, values: Iterable[Any], *,
    limits: Mapping[str, Any] | None = None,
) -> Sweep:  # fmt: skip
    """Ask `whatif` for many values of one limit.

        sweep(load("agent"), ".chartloop/journal.db", "steps", range(4, 21))

    `limits` are further limits, equal for all values. `LimitError` for a value that the machine
    refuses.
    """
    points = [{**(limits or {}), limit: value} for value in values]
    if not points:
        raise LimitError(f"no value of `{limit}` is given", hint="give a range of them")
    return Sweep(limit, tuple(whatif_each(machine, recorded_runs(runs, machine.name), points)))


def whatif_each(
    machine: Machine, runs: Iterable[Recorded], points: Sequence[Mapping[str, Any]],
    tick: Tick | None = None,
) -> list[WhatIf]:  # fmt: skip
    """Answer one question for each mapping of limits in `points`, reading the runs once."""
    chart, name = machine.chart, machine.name
    checked = [checked_values(machine.spec, limits, None)[0] for limits in points]
    questions = [Question(chart, limits) for limits in checked]
    older, alignments = older_charts(chart), reading(chart)
    unread, assumed = list[Unread](), 0
    judged: list[list[Any]] = [[] for _ in questions]
    for run in runs:
        if isinstance(run, Unread):
            unread.append(run)
        elif run.row.machine != name:
            unread.append(
                Unread(run.run_id, f"it is a run of `{run.row.machine}`, not of `{name}`")
            )
        else:
            case = RecordedCase(chart, run, older, alignments, several=len(questions) > 1)
            assumed += not (case.is_old and (run.machine or run.row.machine_hash == machine.hash))
            try:
                verdicts = [question.ask(case) for question in questions]
            except BROKEN as error:
                why = f"its records cannot be decided: {type(error).__name__}: {error}"
                unread.append(Unread(run.run_id, why))
                continue
            for answers, verdict in zip(judged, verdicts, strict=True):
                answers.append(verdict)
        if tick is not None:
            tick()
    texts = [
        {n: _format_limit(v, machine.spec.limits[n].type) for n, v in p.items()} for p in checked
    ]
    return [
        WhatIf(name, limits, tuple(answers), tuple(unread), assumed)
        for limits, answers in zip(texts, judged, strict=True)
    ]


def _format_limit(value: Any, type: Type) -> str:
    """Format the value of a limit as a file writes it."""
    if value is None:
        return "off"
    return write_duration(value) if type.kind == "duration" else say_value(value, type)


def older_charts(chart: Chart) -> Callable[[str], Chart | None]:
    """Return a cached function that compiles recorded machine texts; None for unreadable ones."""

    @cache
    def load_chart(text: str) -> Chart | None:
        spec = load(text, "<canonical>", chart.spec.registry).spec
        return None if spec is None else Chart(spec, chart.lifecycle)

    return load_chart
