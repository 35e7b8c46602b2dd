"""Which real components a run uses: made here from what the caller gave, and nowhere else.

Imported by: api.machine, api.run
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from interlock.adapters.clock import SystemClock
from interlock.adapters.litellm import LiteLLM
from interlock.adapters.monty import MontySandbox
from interlock.adapters.notify import LogNotifier
from interlock.adapters.scripted import Scripted
from interlock.api.values import model_settings
from interlock.core.errors import SetupError
from interlock.core.facts import Task
from interlock.core.specs import ActionSpec
from interlock.language.spec import MachineSpec
from interlock.run.context import Ports
from interlock.run.ports import Cancel, Clock, Model, Notifier, Sandbox, Tokenizer
from interlock.run.session import Session


class PortOptions(TypedDict, total=False):
    """The components that a caller may give instead of the usual ones."""

    model: Model | str | None
    """A litellm model name, or anything that honours the `Model` port."""
    script: Any
    """Scripted replies instead of a model: a list as ``docs/language.md``, section 8, writes it."""
    settings: Mapping[str, Any] | None
    """Settings over the file's `model`: temperature, timeout, api_base ... `model` wins over a
    ``name`` among them, and a state's `with` over them all."""
    clock: Clock | None
    cancel: Cancel | None
    """Looked at before each action; the run stops when it is requested."""
    sandbox: Sandbox | None
    notifier: Notifier | None
    tokenizer: Tokenizer | None


def uses_of(spec: MachineSpec, tasks: Sequence[Task] = ()) -> frozenset[str]:
    """The ports that a machine cannot do without, with these as the queue's first tasks."""
    by_prompt = any("prompt" in (task.by or {"prompt": ""}) for task in tasks)
    return frozenset(
        use
        for action in _actions(spec)
        for use in (action.uses | action.may_use if by_prompt else action.uses)
    )


def _actions(spec: MachineSpec) -> list[ActionSpec]:
    return [s.action for s in spec.states.values() if s.action is not None]


def make_ports(spec: MachineSpec, folder: Path | None, given: PortOptions) -> Ports:
    """The components of a run. None of them is asked for anything yet; see `prepare`."""
    uses = uses_of(spec)
    clock = given.get("clock") or SystemClock()
    named, settings = given.get("model"), model_settings(given.get("settings") or {})
    made = Ports(
        clock,
        notifier=given.get("notifier") or LogNotifier(),
        tokenizer=given.get("tokenizer"),
        settings={**settings, "name": named} if isinstance(named, str) else settings,
        folder=folder,
    )
    if "model" in uses or any("model" in a.may_use for a in _actions(spec)):
        made.model = _model({**spec.model, **made.settings}, given, clock)
    made.sandbox = given.get("sandbox")
    return made


def _model(settings: Mapping[str, Any], given: PortOptions, clock: Clock) -> Model | None:
    script, model = given.get("script"), given.get("model")
    if script is not None:
        return script if isinstance(script, Scripted) else Scripted(script, clock=clock)
    if model is not None and not isinstance(model, str):
        return model
    return None if settings.get("name", "scripted") == "scripted" else LiteLLM()


def prepare(spec: MachineSpec, ports: Ports, tasks: Sequence[Task] = ()) -> None:
    """`SetupError` now for what would fail at some step: no model, no key, a later action."""
    for state in spec.states.values():
        if state.action is not None and state.action.run is None:
            raise SetupError(
                f"`{state.name}` does `{state.action.name}`, which this version does not carry out",
                hint="the file can be checked, drawn and reviewed; it cannot be run yet",
            )
    uses = uses_of(spec, tasks)
    if "sandbox" in uses and ports.sandbox is None:
        ports.sandbox = MontySandbox()
    if "model" not in uses:
        return
    if ports.model is None:
        named = "is scripted" if spec.model.get("name") == "scripted" else "names no model"
        raise SetupError(
            f"machine `{spec.name}` {named}",
            hint="give `model=` or `script=` (`--model NAME` or `--script FILE`)",
        )
    ports.model.prepare({**spec.model, **ports.settings})


def window_of(spec: MachineSpec, ports: Ports) -> int | None:
    """The context window of the run's model, when it is known."""
    settings: Mapping[str, Any] = {**spec.model, **ports.settings}
    return ports.model.context_window(settings) if ports.model is not None else None


def suspends(session: Session) -> bool:
    """Whether anything that a run may do gives the event loop away."""
    ports = session.ports
    if session.journal.suspends:
        return True
    for state in session.chart.spec.states.values():
        action = state.action
        if action is None:
            continue
        if action.suspends or (action.may_wait and ports.clock.suspends):
            return True
        if state.retry is not None and ports.clock.suspends:
            return True
        used = [getattr(ports, name) for name in action.uses if name in ("model", "sandbox")]
        if any(port is not None and port.suspends for port in used):
            return True
    return False
