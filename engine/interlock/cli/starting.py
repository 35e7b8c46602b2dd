"""A run from what the command line said: its model, its clock, its script.

Imported by: run, batch, step, resume
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from interlock.cli import out
from interlock.cli.values import values_of

if TYPE_CHECKING:
    from interlock.api import Machine, Run
    from interlock.cli.how import How
    from interlock.cli.script import Script
    from interlock.run.journal import Journal
    from interlock.run.ports import Cancel, Clock, ModelReply, ModelRequest, OnText


class Served:
    """The real model at another server: `--api-base`, over the file's own settings."""

    suspends = True

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from interlock.adapters.litellm import LiteLLM

        self.settings = settings
        self._model = LiteLLM()

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Raise `SetupError` for what would fail later, with what the command line said."""
        self._model.prepare({**settings, **self.settings})

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        return self._model.context_window({**settings, **self.settings})

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        return await self._model.complete(request, on_text)


def clock_of(how: How, *, not_before: float = 0.0) -> Clock:
    """The clock that is meant. A simulated one begins now, or later where the run has been."""
    if how.clock == "simulated":
        from interlock.testing.clock import ManualClock

        return ManualClock(max(time.time(), not_before))
    from interlock.adapters.clock import SystemClock

    return SystemClock()


def script_of(how: How) -> Script | None:
    """The script that is meant."""
    if how.script is None:
        return None
    if how.model or how.api_base:
        raise click.UsageError("--script takes the place of a model: leave --model and --api-base")
    from interlock.cli.script import read_script

    return read_script(how.script)


def start(
    machine: Machine, task: str, how: How, journal: Journal, *,
    cancel: Cancel | None = None, script: Script | None = None,
    more: Mapping[str, Any] | None = None,
) -> Run:  # fmt: skip
    """A run at its very beginning. `more` are limits and variables beside those of `how`."""
    clock, spec, more = clock_of(how), machine.spec, more or {}
    limits = values_of({n: x.type for n, x in spec.limits.items()}, how.limit)
    variables = values_of({n: v.type for n, v in spec.vars.items()}, how.var)
    _announce(machine, script)
    run = machine.start(
        task, **_model(how, script, clock), clock=clock, journal=journal, cancel=cancel,
        limits={**limits, **more.get("limits", {})}, vars={**variables, **more.get("vars", {})},
        run_id=how.run_id, agent=how.agent, session=how.session,
    )  # fmt: skip
    _settle(run, how)
    return run


def go_on(
    machine: Machine, run_id: str, how: How, journal: Journal, *,
    cancel: Cancel | None = None, script: Script | None = None, not_before: float = 0.0,
) -> Run:  # fmt: skip
    """A run that is in the journal, ready to be driven."""
    clock = clock_of(how, not_before=not_before)
    model = _model(how, script, clock)
    run = machine.open(run_id, journal=journal, clock=clock, cancel=cancel, **model)
    _settle(run, how)
    return run


def _announce(machine: Machine, script: Script | None) -> None:
    """Say what takes a few seconds: the model's library is loaded before the first step."""
    from interlock.api.wiring import uses_of

    real = script is None and "model" in uses_of(machine.spec)
    if real and "litellm" not in sys.modules and out.is_terminal(sys.stderr):
        out.say("loading litellm ...", "dim")


def _model(how: How, script: Script | None, clock: Clock) -> dict[str, Any]:
    if script is not None:
        return {"script": script.model(clock)}
    if how.api_base:
        return {"model": Served(_settings(how))}
    return {"model": how.model} if how.model else {}


def _settings(how: How) -> dict[str, Any]:
    given = {"name": how.model, "api_base": how.api_base}
    return {n: v for n, v in given.items() if v}


def _settle(run: Run, how: How) -> None:
    """What the command line says about the model wins over the file, in every call."""
    if how.api_base:
        run.session.ports.settings = _settings(how)
