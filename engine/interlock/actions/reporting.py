"""Saying and keeping: `report`, `save_run`, `notify`.

Source: 003 "Generate Final Report", "Save Final State", "Notify User"; 001 "Save Turn to Store";
000 "Partial results".
"""

from __future__ import annotations

from typing import Any

from interlock.core.errors import SetupError
from interlock.core.outcome import Outcome
from interlock.core.specs import ActionSpec, ArgSpec, Effect
from interlock.core.types import BOOL, STR, struct
from interlock.core.units import say_elapsed
from interlock.run.context import Context


def summary(ctx: Context) -> dict[str, Any]:
    """How the run stands, as plain data."""
    facts = ctx.facts
    return {
        "machine": facts.run.machine, "run": facts.run.id, "task": facts.run.task,
        "reason": facts.signals.top, "signals": list(facts.signals.reasons),
        "steps": facts.run.steps, "elapsed": facts.run.elapsed,
        "llm_calls": facts.usage.llm_calls, "tool_calls": facts.usage.tool_calls,
        "total_tokens": facts.usage.total_tokens, "cost": facts.usage.cost,
        "errors": facts.errors.total,
    }  # fmt: skip


def markdown(data: dict[str, Any]) -> str:
    """The same for people."""
    cost = "not known" if data["cost"] is None else f"${data['cost']:.4f}"
    rows = [
        ("Stopped for", data["reason"] or "not stopped"), ("Steps", data["steps"]),
        ("Time", say_elapsed(data["elapsed"])), ("Model calls", data["llm_calls"]),
        ("Tool calls", data["tool_calls"]), ("Tokens", f"{data['total_tokens']:,}"),
        ("Cost", cost), ("Errors", data["errors"]),
    ]  # fmt: skip
    lines = [
        f"# Report: {data['machine']}",
        "",
        data["task"] or "(no task)",
        "",
        "| | |",
        "|---|---|",
    ]
    return "\n".join(lines + [f"| {name} | {value} |" for name, value in rows]) + "\n"


def report(ctx: Context, text: str = "", partial: bool = False) -> Outcome:
    """A report of the run as it stands; `partial` adds it to the partial results."""
    data = summary(ctx)
    written = text or markdown(data)
    return Outcome(
        result={"text": written, **data}, partial=(written,) if partial else (), progressed=partial
    )


def save_run(ctx: Context) -> Outcome:
    """The run, written through to the disk with a snapshot before it goes on."""
    ctx.save()
    return Outcome(result={"steps": ctx.step})


async def notify(ctx: Context, text: str = "") -> Outcome:
    """Tell somebody: whoever the run's notifier reaches."""
    if ctx.ports.notifier is None:
        raise SetupError("this run has no notifier", hint="give one: `notifier=`")
    data = summary(ctx)
    said = text or f"{data['machine']}: {data['reason'] or 'at ' + ctx.state.name}"
    await ctx.ports.notifier.notify(said, data)
    return Outcome(result={"text": said})


_TEXT = struct({"text": STR}, keyed=True)
ACTIONS = (
    ActionSpec(
        "report",
        report,
        (
            ArgSpec(
                "text",
                "text",
                STR,
                about="The report, a template; default: reason, usage and errors.",
            ),
            ArgSpec(
                "partial", "value", BOOL, about="Append it to the partial results and the stream."
            ),
        ),
        result=_TEXT,
        work=False,
        effect=Effect.PURE,
        suspends=False,
        about="Writes a report of the run as it stands.",
    ),
    ActionSpec(
        "save_run",
        save_run,
        work=False,
        effect=Effect.LOCAL,
        suspends=False,
        about="Writes the run through to the disk, with a snapshot.",
    ),
    ActionSpec(
        "notify",
        notify,
        (ArgSpec("text", "text", STR, about="What to say; default: the reason, or the state."),),
        result=_TEXT,
        work=False,
        effect=Effect.PAID,
        suspends=False,
        uses=frozenset({"notifier"}),
        about="Tells somebody: a log, a webhook, a terminal.",
    ),
)
