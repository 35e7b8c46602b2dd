"""Reports, snapshots and notifications: `report`, `save_run`, `notify`.

Source: 003 "Generate Final Report", "Save Final State", "Notify User"; 001 "Save Turn to Store";
000 "Partial results".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from chartloop.actions.declare import action
from chartloop.actions.tasks import reports_of
from chartloop.core.errors import SetupError
from chartloop.core.outcome import Outcome
from chartloop.core.plain import plain
from chartloop.core.traits import BY_FIELDS
from chartloop.core.types import STR, struct
from chartloop.core.units import say_count, say_elapsed
from chartloop.machine.graph import visited_graph
from chartloop.pictures.flowchart import visited_part
from chartloop.run.context import Context


def summary(ctx: Context) -> dict[str, Any]:
    """The key figures of the run so far."""
    facts = ctx.facts
    return {
        "machine": facts.run.machine, "run": facts.run.id, "task": facts.run.task,
        "reason": facts.signals.top, "steps": facts.run.steps, "elapsed": facts.run.elapsed,
        "llm_calls": facts.usage.llm_calls, "tool_calls": facts.usage.tool_calls,
        "total_tokens": facts.usage.total_tokens, "cost": facts.usage.cost,
        "errors": facts.errors.total,
    }  # fmt: skip


TIMELINE = 200
"""The most entries of a report's timeline; of a longer run, the newest ones."""


def account(ctx: Context) -> dict[str, Any]:
    """The data of a report. Times are in seconds, the cost is in USD or None if unknown."""
    facts, tally, queue = ctx.facts, ctx.host.tally, ctx.facts.queue
    return {
        **summary(ctx),
        "signals": ctx.position.signals.to_list(),
        "metrics": {
            "usage": plain(facts.usage), "errors": plain(facts.errors),
            "progress": plain(facts.progress), "reported": dict(reports_of(ctx).metrics),
        },
        "tasks": {
            "done": queue.done, "failed": queue.failed, "waiting": [
                {"id": t.id, "text": t.text, "kind": t.kind, "attempts": t.attempts}
                for t in ctx.queue
            ],
            "results": [*reports_of(ctx).results],
        },
        "failures": [dict(error) for error in tally.errors],
        "timeline": [
            {"at": at, "state": state, "tokens": tokens}
            for at, state, tokens in zip(
                tally.elapsed[-TIMELINE:], tally.acted[-TIMELINE:], tally.tokens[-TIMELINE:],
                strict=True,
            )
        ],
        "path": [*tally.path],
        "picture": _path_picture(ctx),
    }  # fmt: skip


def _path_picture(ctx: Context) -> str:
    """A Mermaid picture of the visited states and taken edges, with counts."""
    visits, taken = ctx.facts.run.visits, ctx.host.tally.taken
    from chartloop.pictures.from_graph import flowchart  # noqa: PLC0415 - few runs report
    from chartloop.pictures.mermaid import to_mermaid  # noqa: PLC0415

    live = visited_graph(ctx.host.chart, ctx.facts, states=visits.keys(), edges=taken.keys())
    return to_mermaid(visited_part(flowchart(live, rules="none", all=True), visits, taken))


def markdown(data: Mapping[str, Any]) -> str:
    """A report's data as Markdown."""
    cost = "not known" if data["cost"] is None else f"${data['cost']:.4f}"
    tasks = data["tasks"]
    count = f"{tasks['done']} done, {tasks['failed']} failed, {len(tasks['waiting'])} left"
    rows = [
        ("Stopped for", data["reason"] or "not stopped"), ("Steps", f"{data['steps']:,}"),
        ("Time", say_elapsed(data["elapsed"])), ("Model calls", f"{data['llm_calls']:,}"),
        ("Tool calls", f"{data['tool_calls']:,}"), ("Tokens", f"{data['total_tokens']:,}"),
        ("Cost", cost), ("Errors", f"{data['errors']:,}"),
        *([("Tasks", count)] if any(tasks.values()) else []),
        *((_cell(name), f"{value:g}") for name, value in data["metrics"]["reported"].items()),
    ]  # fmt: skip
    parts = [
        f"# Report: {data['machine']}", data["task"] or "(no task)",
        "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]),
        _section(
            "Signals", [f"`{s['reason']}` {_cell(s['message'])}".rstrip() for s in data["signals"]]
        ),
        _section("Newest results", [_cell(text, 500) or "(nothing)" for text in tasks["results"]]),
        _section(
            "Tasks that are left",
            [
                f"{_cell(t['text'])} ({t['kind']}, tried {say_count(t['attempts'], 'time')})"
                for t in tasks["waiting"]
            ],
        ),
        _section(
            "Errors",
            [
                f"step {e['step']}, {e['state']}: {e['category']} {_cell(e['message'])}"
                for e in data["failures"]
            ],
        ),
        _section(
            "Timeline", [f"{say_elapsed(m['at'])}: {m['state']}" for m in data["timeline"][-20:]]
        ),
        f"## The way\n\n```mermaid\n{data['picture'].rstrip()}\n```",
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"## {title}", "", *(f"- {line}" for line in lines)]) if lines else ""


def _cell(text: str, longest: int = 200) -> str:
    """Escape any text into a single line of Markdown."""
    short = " ".join(text.split())
    short = short if len(short) <= longest else f"{short[:longest]}…"
    return re.sub(r"([\\`*_|<>\[\]#])", r"\\\1", short)


_TEXT = struct({"text": STR}, keyed=True)


@action(
    work=False, effect="pure", traits=replace(BY_FIELDS, writes="report"), result=_TEXT,
    reads=("error", "result", "reply", "queue", "task", "signals"),
)  # fmt: skip
def report(ctx: Context, text: str = "", partial: bool = False) -> Outcome:
    """Writes a report of the run so far.

    Args:
        text: The report, a template; default: reason, usage and errors.
        partial: Append it to the partial results and the stream.
    """
    data = account(ctx)
    text = text or markdown(data)
    return Outcome(
        result={"text": text, **data}, partial=(text,) if partial else (), progressed=partial
    )


@action(
    work=False, effect="local", traits=replace(BY_FIELDS, writes="snapshot"),
    reads=(),
)  # fmt: skip
def save_run(ctx: Context) -> Outcome:
    """Writes a snapshot of the run, so that opening it need not read its whole log."""
    ctx.save()
    return Outcome(result={"steps": ctx.step})


@action(
    work=False, traits=BY_FIELDS, result=_TEXT, suspends=False, uses="notifier",
    reads="task", data={"sends": "out"},
)  # fmt: skip
async def notify(ctx: Context, text: str = "") -> Outcome:
    """Sends a notice to the terminal, to a webhook, or to your own notifier.

    Args:
        text: The message; default: the reason, or the state.
    """
    if ctx.ports.notifier is None:
        raise SetupError("this run has no notifier", hint="give one: `notifier=`")
    data = summary(ctx)
    title = text or f"{data['machine']}: {data['reason'] or 'at ' + ctx.state.name}"
    await ctx.ports.notifier.notify(title, data)
    return Outcome(result={"text": title})
