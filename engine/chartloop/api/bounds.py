"""Bounds and queries of a machine: asked once, remembered, and held against what a caller wants."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from chartloop.adapters.model.litellm import LiteLLM
from chartloop.api.caller_values import StartValues, model_settings
from chartloop.api.drawn import DrawnBound, drawn_bound
from chartloop.checker.unused import variables_read
from chartloop.core.errors import LimitError, SetupError, nearest
from chartloop.core.version import __version__
from chartloop.language.spec import MachineSpec
from chartloop.proofs.bound import EFFORT, Assume, Bound, KnownModel, bound
from chartloop.run.context import Ports
from chartloop.run.lru_cache import LruCache

if TYPE_CHECKING:
    from chartloop.view.of_machine import OfMachine

RESOURCES = ("actions", "requests", "tool_calls", "tokens", "usd", "waiting")
"""The resources that a bound has a figure for."""
SHORT = {"calls": "requests", "steps": "actions", "cost": "usd", "tools": "tool_calls"}
"""Other words for some of them."""
AT_CHECK = 2_000_000
"""Steps of the proof for a check: some seconds at most. `chartloop bound` takes more."""
AT_START = 500_000
"""Steps of the proof for the certificate of a run: under a second, and mostly some hundredths."""
REMEMBERED = 64
"""Bounds that a machine remembers: runs with the same limits share one."""


class Bounds:
    """The bounds of one machine that were asked for lately."""

    def __init__(self, machine: OfMachine) -> None:
        self._machine = machine
        self._known = LruCache[str, DrawnBound](REMEMBERED)

    @cached_property
    def _read(self) -> frozenset[str]:
        """The variables that an expression reads: no figure depends on others."""
        return variables_read(self._machine.chart.spec)

    def of(
        self, limits: Mapping[str, Any], vars: Mapping[str, Any], assume: Assume | None, *,
        brief: bool = False, effort: int = 0,
    ) -> DrawnBound:  # fmt: skip
        """The bound with these limits and first values. `brief`: figures and assumptions only.

        `effort`: the steps that the proof may take; 0 as many as usual.
        """
        vars = {name: value for name, value in vars.items() if name in self._read}
        key = json.dumps([limits, vars, str(assume), brief, effort], sort_keys=True, default=str)
        found = self._known.get(key)
        if found is None:
            machine = self._machine
            proven = bound(
                machine.chart, limits=limits, vars=vars, assume=assume, hash=machine.hash,
                brief=brief, effort=effort or EFFORT,
            )  # fmt: skip
            found = drawn_bound(proven, machine)
            self._known.put(key, found)
        return found

    def require(self, figures: Mapping[str, Any], values: StartValues, ports: Ports) -> None:
        """`SetupError` when a run with these values may go past one of the figures."""
        wanted, assume = wanted_bounds(figures), model_assumptions(ports.settings)
        if {"tokens", "usd"} & wanted.keys():
            assume = with_known_models(assume, self._machine.spec, ports.settings, ports.model)
        refuse_unbounded(self.of(values.limits, values.vars, assume, brief=True), wanted)

    def certificate(self, values: StartValues, ports: Ports) -> Callable[[], str]:
        """Makes the certificate of a run with these values, when it is called."""
        prove = partial(
            self.of, values.limits, values.vars, model_assumptions(ports.settings), brief=True,
            effort=AT_START,
        )  # fmt: skip
        return lambda: prove().certificate(__version__)


_COSTS = (
    "context_window", "max_tokens", "input_cost_per_token", "output_cost_per_token", "fallbacks",
)  # fmt: skip
"""The settings of a model that figures depend on."""


def model_assumptions(settings: Mapping[str, Any] | None) -> Assume | None:
    """The caller's model settings over the file's, as far as figures depend on them."""
    overrides = {n: v for n, v in model_settings(settings or {}).items() if n in _COSTS}
    if not overrides:
        return None
    return Assume(settings=overrides)


def with_known_models(
    assume: Assume | None, spec: MachineSpec, settings: Mapping[str, Any] | None, model: Any = None
) -> Assume | None:
    """The same, with what the model's port knows of windows and prices that no one wrote down.

    `model` is the run's; by default litellm, where it is installed. It is loaded only if something
    is missing: that takes seconds.
    """
    assume, known = assume or Assume(), dict[str, KnownModel]()
    worst: Any = getattr(LiteLLM() if model is None else model, "worst", None)
    if worst is None:
        return assume
    for part in spec.family():
        merged: dict[str, Any] = {**part.model, **(settings or {})}
        own = _own_models(part)
        if _is_said(merged, assume) and not own:
            continue
        for name in (merged.get("name"), *(merged.get("fallbacks") or ()), *own):
            if name and name != "scripted":
                longest, prices = worst({"name": name})
                known[name] = KnownModel(longest, prices, "litellm")
    if named := (settings or {}).get("name"):  # its price, and not that of the file's model
        assume = replace(assume, settings={**(assume.settings or {}), "name": named})
    return replace(assume, models=known) if known else assume


def _own_models(spec: MachineSpec) -> list[str]:
    """The models that states name themselves, as far as the file says which."""
    names: list[str] = []
    for state in spec.states.values():
        if (model := state.args.get("model")) is not None and state.asks_model == "reply":
            names += [model.value.text] if model.value.constant else []
        if (others := state.args.get("fallbacks")) is not None:
            names += others.value
    return names


def _is_said(model: Mapping[str, Any], assume: Assume) -> bool:
    """Whether the size and the price of a call are written down."""
    sized = assume.tokens_per_call or model.get("context_window")
    each = model.get("input_cost_per_token"), model.get("output_cost_per_token")
    return bool(sized and (assume.prices or (None not in each and not model.get("fallbacks"))))


def wanted_bounds(given: Mapping[str, Any]) -> dict[str, float]:
    """The bounds that a run must keep, by resource. `LimitError` for an unknown figure."""
    out: dict[str, float] = {}
    for name, value in given.items():
        resource = SHORT.get(name, name)
        if resource not in RESOURCES:
            hint = nearest(name, (*RESOURCES, *SHORT))
            raise LimitError(f"there is no bound on `{name}`", hint=hint)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 <= value < math.inf:
            raise LimitError(f"a bound on `{name}` is a number: `{value}` is not")
        out[resource] = value
    return out


def refuse_unbounded(found: Bound, wanted: Mapping[str, float]) -> None:
    """`SetupError` when a run could go past what it must stay within."""
    if reasons := found.reasons_to_refuse(wanted):
        raise SetupError(
            f"`{found.machine}` is not started: {'; '.join(reasons)}",
            hint="`chartloop bound` shows the worst case and what bounds it",
        )
