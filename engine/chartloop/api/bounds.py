"""Bounds of a machine: proven once, cached, and compared with the caller's requirements."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from chartloop.adapters.model.litellm import LiteLLM
from chartloop.analysis.checker.unused import variables_read
from chartloop.analysis.proofs.bound import EFFORT, Assume, Bound, KnownModel, bound
from chartloop.api.caller_values import model_settings
from chartloop.api.drawn import DrawnBound, drawn_bound
from chartloop.core.errors import LimitError, SetupError, nearest
from chartloop.core.version import __version__
from chartloop.language.spec import MachineSpec
from chartloop.run.components import Ports
from chartloop.run.lru_cache import LruCache

if TYPE_CHECKING:
    from chartloop.pictures.of_machine import OfMachine

RESOURCES = ("actions", "requests", "tool_calls", "tokens", "usd", "waiting")
"""The resources for which a bound has a figure."""
SHORT = {"calls": "requests", "steps": "actions", "cost": "usd", "tools": "tool_calls"}
"""Aliases of resources."""
AT_CHECK = 2_000_000
"""Proof steps for a check: a few seconds at most. `chartloop bound` takes more."""
AT_START = 500_000
"""Proof steps for the certificate of a run: under a second, mostly a few hundredths."""
REMEMBERED = 64
"""The number of bounds that a machine caches: runs with the same limits share one."""


class Bounds:
    """The most recently requested bounds of one machine."""

    def __init__(self, machine: OfMachine) -> None:
        self._machine = machine
        self._known = LruCache[str, DrawnBound](REMEMBERED)

    @cached_property
    def _read(self) -> frozenset[str]:
        """The variables that an expression reads; no figure depends on any other."""
        return variables_read(self._machine.chart.spec)

    def of(
        self, limits: Mapping[str, Any], vars: Mapping[str, Any], assume: Assume | None, *,
        brief: bool = False, effort: int = 0,
    ) -> DrawnBound:  # fmt: skip
        """The bound for these limits and initial values. `brief`: figures and assumptions only.

        `effort`: the most steps that the proof may take; 0 for the default.
        """
        vars = {name: value for name, value in vars.items() if name in self._read}
        key = json.dumps([limits, vars, str(assume), brief, effort], sort_keys=True, default=str)
        known = self._known.get(key)
        if known is None:
            machine = self._machine
            proven = bound(
                machine.chart, limits=limits, vars=vars, assume=assume, hash=machine.hash,
                brief=brief, effort=effort or EFFORT,
            )  # fmt: skip
            known = drawn_bound(proven, machine)
            self._known.put(key, known)
        return known

    def require(self, figures: Mapping[str, Any], ports: Ports, **values: Any) -> None:
        """Raise `SetupError` if a run with these values may exceed one of the figures."""
        wanted, assume = wanted_bounds(figures), model_assumptions(ports.settings)
        if {"tokens", "usd"} & wanted.keys():
            assume = with_known_models(assume, self._machine.spec, ports.settings, ports.model)
        refuse_unbounded(self.of(**values, assume=assume, brief=True), wanted)

    def certificate(self, ports: Ports, **values: Any) -> Callable[[], str]:
        """A function that proves and returns the certificate of a run with these values."""
        assume = model_assumptions(ports.settings)
        prove = partial(self.of, **values, assume=assume, brief=True, effort=AT_START)
        return lambda: prove().certificate(__version__)


_COSTS = (
    "context_window", "max_tokens", "input_cost_per_token", "output_cost_per_token", "fallbacks",
)  # fmt: skip
"""The model settings on which figures depend."""


def model_assumptions(settings: Mapping[str, Any] | None) -> Assume | None:
    """The caller's model settings on which figures depend; None without any."""
    overrides = {n: v for n, v in model_settings(settings or {}).items() if n in _COSTS}
    if not overrides:
        return None
    return Assume(settings=overrides)


def with_known_models(
    assume: Assume | None, spec: MachineSpec, settings: Mapping[str, Any] | None, model: Any = None
) -> Assume | None:
    """The assumptions, completed by the windows and prices that the model's port knows.

    `model` is the run's; by default litellm, if installed. It is loaded only if something is
    missing, since that takes seconds.
    """
    assume, known = assume or Assume(), dict[str, KnownModel]()
    worst: Any = getattr(LiteLLM() if model is None else model, "worst", None)
    if worst is None:
        return assume
    for part in spec.family():
        merged: dict[str, Any] = {**part.model, **(settings or {})}
        own = _own_models(part)
        if _is_priced(merged, assume) and not own:
            continue
        for name in (merged.get("name"), *(merged.get("fallbacks") or ()), *own):
            if name and name != "scripted":
                longest, prices = worst({"name": name})
                known[name] = KnownModel(longest, prices, "litellm")
    if named := (settings or {}).get("name"):  # its price, and not that of the file's model
        assume = replace(assume, settings={**(assume.settings or {}), "name": named})
    return replace(assume, models=known) if known else assume


def _own_models(spec: MachineSpec) -> list[str]:
    """The models that states name themselves; templates are left out."""
    names: list[str] = []
    for state in spec.states.values():
        if (model := state.args.get("model")) is not None and state.asks_model == "reply":
            names += [model.value.text] if model.value.constant else []
        if (others := state.args.get("fallbacks")) is not None:
            names += others.value
    return names


def _is_priced(model: Mapping[str, Any], assume: Assume) -> bool:
    """Whether the size and the price of a call are given."""
    sized = assume.tokens_per_call or model.get("context_window")
    each = model.get("input_cost_per_token"), model.get("output_cost_per_token")
    return bool(sized and (assume.prices or (None not in each and not model.get("fallbacks"))))


def wanted_bounds(given: Mapping[str, Any]) -> dict[str, float]:
    """The bounds that a run must keep, by resource. `LimitError` for an unknown or invalid one."""
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


def refuse_unbounded(proven: Bound, wanted: Mapping[str, float]) -> None:
    """Raise `SetupError` if a run could exceed its required bounds."""
    if reasons := proven.reasons_to_refuse(wanted):
        raise SetupError(
            f"`{proven.machine}` is not started: {'; '.join(reasons)}",
            hint="`chartloop bound` shows the worst case and what bounds it",
        )
