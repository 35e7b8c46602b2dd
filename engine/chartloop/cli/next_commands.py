"""The commands that go on with a run: those that mend what failed, answer and resume it.

Belongs here: lines with commands. Never: how a run ended (`view_model.text`), driving one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from chartloop.cli.journal_access import line_for
from chartloop.core.text_table import Line
from chartloop.view_model.text import lacks_task, last_failure

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.cli.options import RunOptions
    from chartloop.run.result import Result


def how_to_mend(run: Run, result: Result, options: RunOptions) -> Iterator[Line]:
    """The commands that try again what ended a run in an error."""
    if result.kind != "error" or options.in_memory or lacks_task(result):
        return
    failure = last_failure(result)
    at = failure["state"] if failure is not None else None
    failed = [r.seq for r in run.records if r.kind == "step" and r.state == at]
    if not failed:
        yield Line(f"see why:  {line_for('why', run.id, options)}")
        return
    yield Line("try again from before the failed step:")
    yield Line(f"  {line_for('fork', run.id, options, '--at', str(failed[-1]))}")
    yield Line(f"  {line_for('resume', 'last', options)}")


def how_to_go_on(run: Run, result: Result, options: RunOptions) -> Iterator[Line]:
    """The commands that answer and resume a run that has not ended."""
    if options.in_memory:
        yield Line("the run was kept in memory only: it is gone")
        return
    if not result.events:
        yield Line(f"go on with:  {line_for('resume', run.id, options)}")
        return
    wait = result.wait or ""
    yield Line("answer with:")
    for event, fields in run.answers.items():
        given = [f"{name}={str(type).upper()}" for name, type in fields.items()]
        yield Line(f"  {line_for('answer', run.id, options, event, *given, '--wait', wait)}")
    yield Line(f"then:  {line_for('resume', run.id, options)}")
