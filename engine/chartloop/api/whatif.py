"""`machine.whatif` and `machine.sweep`: recorded runs decided again, without effects.

Belongs here: what a caller gives, made into questions. Never: verdicts (`studies.whatif.asking`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from chartloop.api.bounds import checked_values
from chartloop.core.errors import LimitError
from chartloop.core.types import Type
from chartloop.core.units import write_duration
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.machine.guard_text import say_value
from chartloop.view.of_machine import OfMachine

if TYPE_CHECKING:
    from chartloop.api.recorded import Runs
    from chartloop.run.recorded import Recorded
    from chartloop.studies.whatif.result import Sweep, WhatIf

Tick = Callable[[], object]
"""Called after each run, for whoever shows how far it has come."""


class HasWhatIf:
    """What a `Machine` can be asked about its recorded runs."""

    def whatif(self: OfMachine, runs: Runs, *, limits: Mapping[str, Any] | None = None) -> WhatIf:
        """What recorded runs would have done under other limits, or as this machine.

            load("agent").whatif(".chartloop/journal.db", limits={"steps": 8})

        Every record is decided again, from its inputs alone: nothing is run. `runs` are a journal
        or the path of one, runs, exported ``.jsonl`` files, or a list of these. `limits` take the
        place of those that a run was started with. `LimitError` for one that the machine refuses.
        """
        from chartloop.api.recorded import recorded_runs  # noqa: PLC0415  when it is asked for

        return asked(self, recorded_runs(runs, self.name), [limits or {}])[0]

    def sweep(
        self: OfMachine, runs: Runs, limit: str, values: Iterable[Any], *,
        limits: Mapping[str, Any] | None = None,
    ) -> Sweep:  # fmt: skip
        """The same question for many values of one limit: ``sweep(runs, "steps", range(4, 21))``.

        `limits` are others, which stay. `LimitError` for a value that the machine refuses.
        """
        from chartloop.api.recorded import recorded_runs  # noqa: PLC0415  when it is asked for
        from chartloop.studies.whatif.result import Sweep  # noqa: PLC0415

        points = [{**(limits or {}), limit: value} for value in values]
        if not points:
            raise LimitError(f"no value of `{limit}` is given", hint="give a range of them")
        found = asked(self, recorded_runs(runs, self.name), points)
        return Sweep(limit, tuple(found))


def asked(
    machine: OfMachine, runs: Iterable[Recorded], points: Sequence[Mapping[str, Any]],
    tick: Tick | None = None,
) -> list[WhatIf]:  # fmt: skip
    """The answer to each question, in one reading of the runs: `points` are limits."""
    from chartloop.run.recorded import Unread  # noqa: PLC0415  when it is asked for
    from chartloop.studies.whatif.asking import Question, Subject, reading  # noqa: PLC0415
    from chartloop.studies.whatif.result import WhatIf  # noqa: PLC0415
    from chartloop.studies.whatif.values import BROKEN  # noqa: PLC0415

    chart, name = machine.chart, machine.name
    checked = [checked_values(machine.spec, limits, None)[0] for limits in points]
    questions = [Question(chart, limits) for limits in checked]
    older, names = older_charts(chart), reading(chart)
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
            subject = Subject(chart, run, older, names, several=len(questions) > 1)
            assumed += not (
                subject.is_old and (run.machine or run.row.machine_hash == machine.hash)
            )
            try:
                found = [question.ask(subject) for question in questions]
            except BROKEN as error:
                why = f"its records cannot be decided: {type(error).__name__}: {error}"
                unread.append(Unread(run.run_id, why))
                continue
            for answers, answer in zip(judged, found, strict=True):
                answers.append(answer)
        if tick is not None:
            tick()
    said = [{n: _written(v, machine.spec.limits[n].type) for n, v in p.items()} for p in checked]
    return [
        WhatIf(name, limits, tuple(answers), tuple(unread), assumed)
        for limits, answers in zip(said, judged, strict=True)
    ]


def _written(value: Any, type: Type) -> str:
    """The value of a limit as a file would have it."""
    if value is None:
        return "off"
    return write_duration(value) if type.kind == "duration" else say_value(value, type)


def older_charts(chart: Chart) -> Callable[[str], Chart | None]:
    """The charts of machines as they were when runs were recorded, each made once."""

    @cache
    def made(text: str) -> Chart | None:
        spec = load(text, "<canonical>", chart.spec.registry).spec
        return None if spec is None else Chart(spec, chart.lifecycle)

    return made
