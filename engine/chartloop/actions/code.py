"""Execution of code that a model wrote: `python`.

Source: 001 "Code Execution": a restricted environment, a time limit, stdout and stderr fed back.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any

from chartloop.actions.annotations import Value
from chartloop.actions.declare import action
from chartloop.core.errors import Category, SetupError
from chartloop.core.outcome import Outcome
from chartloop.core.traits import OUTSIDE
from chartloop.core.types import ANY, BOOL, STR, struct
from chartloop.extras import install
from chartloop.run.context import Context

EARLY = 0.25
"""Seconds before its deadline at which code is stopped, so that its output is not lost."""
SESSION = "python"
"""The key of `Position.kept` for the sandbox's variables, in base64."""


@action(
    effect="local", traits=OUTSIDE, uses="sandbox", within=60.0,
    result=struct(
        {"value": ANY, "stdout": STR, "stderr": STR, "error": STR, "session_lost": BOOL}, keyed=True
    ),
    reads="session",
)  # fmt: skip
async def python(ctx: Context, code: Annotated[str, Value]) -> Outcome:
    """Runs Python code in the sandbox; its output is the result, its variables are kept.

    An error in the code fails the action. The output is the result even if the code failed or was
    stopped at the deadline.

    Args:
        code: An expression that gives the code: `vars.code`.
    """
    if ctx.ports.sandbox is None:
        raise SetupError("this run has no sandbox", hint=install("sandbox"))
    kept = ctx.kept.get(SESSION)
    session = base64.b64decode(kept) if kept else None
    timeout = None
    if ctx.deadline is not None:
        allowed = ctx.deadline - ctx.now
        timeout = max(0.001, allowed - min(EARLY, allowed / 10))
    result = await ctx.ports.sandbox.run(code, session=session, timeout=timeout)
    after: dict[str, Any] = {}
    if result.session is not None:
        after = {SESSION: base64.b64encode(result.session).decode("ascii")}
    elif result.session_lost:
        after = {SESSION: ""}
    data = {
        "value": result.value, "stdout": result.stdout, "stderr": result.stderr,
        "error": result.error, "session_lost": result.session_lost,
    }  # fmt: skip
    outcome = Outcome(result=data, kept=after)
    if result.session_lost:
        outcome = outcome.replace(warnings=("the sandbox's variables were lost; it started again",))
    if result.ok:
        return outcome
    if result.timed_out and ctx.deadline is not None:
        ctx.so_far = lambda: outcome
        clock = ctx.ports.clock
        while (left := ctx.deadline - clock.now()) > 0:
            await clock.sleep(left)
        raise TimeoutError
    category = Category.RECOVERABLE
    failure = Outcome.failure(category, result.error or "the code failed", kind="code")
    return outcome.replace(ok=False, error=failure.error)
