"""What a run came to, in words: why it stopped, what failed last, and how to go on.

Belongs here: lines about a result, with their colours, and the commands that they name. Never:
driving a run, or what is printed on stdout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from chartloop.cli.journal_access import line_for
from chartloop.run.result import raised, stands, warned

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.cli.options import How
    from chartloop.run.result import Result

_CURES = {
    "TRANSIENT": "the same may work later; `retry` at `{state}` tries again by itself",
    "RECOVERABLE": "something has to change first: the input, the prompt or the file",
    "CRITICAL": "mend it first: a key, a quota, a setting; `chartloop doctor` shows what is here",
}
"""What to do about a failure, by its category."""
_NO_TASK = 'say what it is to do: `chartloop run MACHINE "TASK"`'


class Said(NamedTuple):
    """A line for the person at the terminal."""

    text: str
    colour: str = ""


def ending(result: Result) -> Iterator[Said]:
    """Why the run stopped, or that it has not; what failed last; its warnings."""
    failure = last_failure(result)
    yield Said(stands(result))
    yield from map(Said, raised(result, None if failure is None else failure["message"]))
    if failure is not None:
        where = f"{failure['category']} at `{failure['state']}`, step {failure['step']}"
        yield Said(f"Last error: {where}: {failure['message']}", "red")
        cure = _NO_TASK if _had_no_task(result) else _CURES.get(failure["category"])
        if result.kind == "error" and cure:
            yield Said(f" = help: {cure.format(state=failure['state'])}")
    if result.reason is not None and (text := unpassed(result)):
        yield Said(f"The model's last text, which is not the result: {text}", "dim")
    for warning in warned(result):
        yield Said(warning, "yellow")


def unpassed(result: Result) -> str:
    """The last text of the model where it is not what the run came to: its beginning, on a line."""
    text = "" if result.success or result.output is not None else result.facts.last.text
    line = " ".join(text[: 4 * _LINE].split())
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"


_LINE = 200


def last_failure(result: Result) -> Mapping[str, Any] | None:
    """The newest error of a run that was not ended by itself or by a person."""
    told = result.kind in ("error", "limit") and result.errors
    return result.errors[-1] if told else None


def _had_no_task(result: Result) -> bool:
    """Whether it failed for want of a task: then the same again fails again."""
    error = result.facts.last.error
    return error is not None and error.kind == "no_task" and not result.facts.run.task


def how_to_mend(run: Run, result: Result, how: How) -> Iterator[Said]:
    """The commands that try again what ended a run in an error."""
    if result.kind != "error" or how.in_memory or _had_no_task(result):
        return
    failure = last_failure(result)
    at = failure["state"] if failure is not None else None
    failed = [r.seq for r in run.records if r.kind == "step" and r.state == at]
    if not failed:
        yield Said(f"see why:  {line_for('why', run.id, how)}")
        return
    yield Said("try again from before the failed step:")
    yield Said(f"  {line_for('fork', run.id, how, '--at', str(failed[-1]))}")
    yield Said(f"  {line_for('resume', 'last', how)}")


def how_to_go_on(run: Run, result: Result, how: How) -> Iterator[Said]:
    """The commands that answer and resume a run that has not ended."""
    if how.in_memory:
        yield Said("the run was kept in memory only: it is gone")
        return
    if not result.events:
        yield Said(f"go on with:  {line_for('resume', run.id, how)}")
        return
    wait = result.wait or ""
    yield Said("answer with:")
    for event, fields in run.answers.items():
        given = [f"{name}={str(type).upper()}" for name, type in fields.items()]
        yield Said(f"  {line_for('answer', run.id, how, event, *given, '--wait', wait)}")
    yield Said(f"then:  {line_for('resume', run.id, how)}")
