"""A view of a run in lines of text, for faces that show characters.

Belongs here: which lines, and their colours. Never: a stream, the codes of a terminal's colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chartloop.core.format import json_text
from chartloop.core.phase import PHASES
from chartloop.core.reports import text_lines
from chartloop.core.text_table import Line, Row
from chartloop.core.units import say_count
from chartloop.core.visible import cut
from chartloop.run.question import Question
from chartloop.run.record_text import record_table
from chartloop.run.result import describe_signals, describe_warnings, stands
from chartloop.ui.view_model.table import plain_text, table_lines

if TYPE_CHECKING:
    from chartloop.run.record_text import RecordRow
    from chartloop.run.result import Result
    from chartloop.ui.view_model.run_view import (
        NextAction,
        QuestionView,
        RunView,
        StandingView,
    )

CLOCKS = frozenset({"run.elapsed", "run.working", "run.idle"})
"""Facts that change with every record."""
BARS = 4
"""How many limits are shown: those nearest their bounds."""
LONGEST_FIELD = 160
"""The most characters shown of a field of `with`."""
LONGEST_LINE = 200
"""The most characters shown of a model's last text."""
_CURES = {
    "TRANSIENT": "the same may work later; `retry` at `{state}` tries again by itself",
    "RECOVERABLE": "something has to change first: the input, the prompt or the file",
    "CRITICAL": "fix that first: a key, a quota, a setting; `chartloop doctor` shows what is here",
}
"""The cure for a failure, by its category."""
_NO_TASK = 'say what it is to do: `chartloop run MACHINE "TASK"`'


# where it is ----------------------------------------------------------------------------


def standing_lines(view: StandingView, width: int) -> list[Line]:
    """The status of the run, its next action, and the decision after that."""
    return [*headline(view), *table_lines(next_rows(view), width=width, indent="  ")]


def headline(view: StandingView) -> list[Line]:
    """The step and state of the run, or how it ended."""
    if view.end is not None:
        return [Line(plain_text(line.text), line.colour) for line in view.end.lines]
    head = view.head
    return [Line(f"step {head.step}  at {head.at}, {PHASES[head.phase].word}", "bold")]


def next_rows(view: StandingView, *, edges: bool = True) -> list[Row]:
    """The next action or question, the edges after it if `edges`, and the limits."""
    if view.ended:
        return []
    if view.head.status == "idle":
        return [Row(("does", "start: enters the first state"))]
    if view.question is not None:
        return [Row(cells) for cells in _question_cells(view.question)]
    if view.next is None or not view.next.action:
        return [Row(("does", "nothing: `do` continues"))]
    pause = [("paused", "`do` goes on")] if view.head.status == "paused" else []
    after = _edge_cells(view.next) if edges else ()
    cells = (*pause, *_action_cells(view.next), *after)
    return [*map(Row, cells), *_limit_rows(view)]


def _question_cells(question: QuestionView) -> Iterator[tuple[str, str]]:
    yield from question_lines(question, question.rest, "`question` shows them")
    yield "wait", question.wait
    for answer in question.answers:
        fields = "".join(f" {field.name}={field.type.upper()}" for field in answer.fields)
        to = f"  → {answer.next}" if answer.next else ""
        yield "answer", f"answer {answer.event}{fields}{to}"


def question_lines(
    question: QuestionView | Question, rest: int, how: str
) -> Iterator[tuple[str, str]]:
    """What is asked and what it is about, in lines, and how to see what is not shown at once."""
    for name, text in (("asks", question.text), ("about", question.about)):
        for number, line in enumerate(text.splitlines()):
            yield "" if number else name, line
    if rest:
        yield "", f"… {say_count(rest, 'character')} more: {how}"


def _action_cells(action: NextAction) -> Iterator[tuple[str, str]]:
    yield "does", f"{action.action}: {action.about}" if action.about else action.action
    for name, text in action.args:
        line = " ".join(text.split())
        short = cut(line, LONGEST_FIELD)
        yield "with", f"{name}: {short}"


def _edge_cells(action: NextAction) -> Iterator[tuple[str, str]]:
    alone = len(action.edges) == 1
    for number, edge in enumerate(action.edges):
        guard = "" if alone else f"{edge.guard}  "
        yield "then" if number == 0 else "", f"{guard}→ {edge.target}"


def _limit_rows(view: StandingView) -> Iterator[Row]:
    if view.next is None or view.next.rules is None:
        return
    yield Row(("rules", f"{view.next.rules} evaluated first"))
    fullest = sorted(view.limits, key=lambda limit: limit.share, reverse=True)[:BARS]
    for limit in (one for one in view.limits if one in fullest):
        colour = "" if limit.colour == "green" else limit.colour
        text = f"{limit.bar}  {limit.fact}  {limit.text}"
        yield Row(("", text), colour, hang=len(limit.bar) + 2)


def output_lines(view: StandingView) -> list[Line]:
    """The output of an ended run, after an empty line."""
    output = view.end.output if view.end is not None else None
    if output is None:
        return []
    text = output if isinstance(output, str) else json_text(output, indent=2)
    return [Line(part, "cyan") for part in ["", *plain_text(text).split("\n")]]


# how it ended -------------------------------------------------------------------------------


def outcome_lines(result: Result) -> Iterator[Line]:
    """Why the run stopped, or that it has not; its last error; its warnings."""
    failure = last_failure(result)
    yield Line(stands(result), "" if result.reason is None else result.phase.ink)
    yield from map(Line, describe_signals(result, None if failure is None else failure["message"]))
    if failure is not None:
        where = f"{failure['category']} at `{failure['state']}`, step {failure['step']}"
        yield Line(f"Last error: {where}: {failure['message']}", "red")
        if cure := cure_of(result):
            yield Line(f" = help: {cure}")
    if result.reason is not None and (text := withheld_text(result)):
        yield Line(f"The model's last text, which is not the result: {text}", "dim")
    for warning in describe_warnings(result):
        yield Line(warning, "yellow")


def cure_of(result: Result) -> str:
    """What helps against the failure that ended a run; empty without one."""
    failure = last_failure(result)
    if failure is None or result.kind != "error":
        return ""
    cure = _NO_TASK if lacks_task(result) else _CURES.get(failure["category"], "")
    return cure.format(state=failure["state"])


def withheld_text(result: Result) -> str:
    """The model's last text if it is not the run's output, shortened, on one line."""
    text = "" if result.success or result.output is not None else result.facts.last.text
    line = " ".join(text[: 4 * LONGEST_LINE].split())
    return cut(line, LONGEST_LINE)


def last_failure(result: Result) -> Mapping[str, Any] | None:
    """The newest error of a run that was stopped by an error or a limit; else None."""
    stopped = result.kind in ("error", "limit") and result.errors
    return result.errors[-1] if stopped else None


def lacks_task(result: Result) -> bool:
    """Whether it failed for want of a task: a retry would fail again."""
    error = result.facts.last.error
    return error is not None and error.kind == "no_task" and not result.facts.run.task


# what was recorded --------------------------------------------------------------------------


def record_lines(records: Sequence[RecordRow], width: int, *, brief: bool = False) -> list[Line]:
    """A table of records with a head, each line with its colour.

    `brief` omits the reasons and the middle of long paths.
    """
    table = record_table(records, plain_text, ends=int(brief), reasons=not brief)
    return text_lines([table], width)


def changes(view: RunView) -> list[tuple[str, str, str]]:
    """The facts that the newest record changed: name, old value, new value; clocks last."""
    facts = [fact for fact in view.facts if fact.changed]
    items = [item for fact in facts for item in fact.entries or (fact,)]
    news = [(item.name, item.before, item.value) for item in items if item.before != item.value]
    return sorted(news, key=lambda one: one[0] in CLOCKS)
