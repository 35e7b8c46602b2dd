"""The limits of `whatif`, one of which may be a sweep: ``steps=4..20``, ``time=1m..10m:1m``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from chartloop.cli.error_report import MisuseError
from chartloop.cli.value_options import Pairs, values_of
from chartloop.core.types import Type
from chartloop.language.spec import MachineSpec
from chartloop.language.values import limit_value

MOST = 200
"""The most values of a sweep."""
USUAL = 12
"""About the number of values of a sweep without a stride."""
ALL = 24
"""A range of whole numbers below this span is swept with stride 1."""


def points_of(spec: MachineSpec, pairs: Pairs) -> tuple[str, list[dict[str, Any]]]:
    """The name of the swept limit, or empty, and the limits at each point of the sweep."""
    types = {name: limit.type for name, limit in spec.limits.items()}
    all_pairs = list(pairs)
    swept = [(name, text) for name, text in all_pairs if ".." in text]
    fixed = values_of(types, (pair for pair in all_pairs if pair not in swept))
    if not swept:
        return "", [fixed]
    if len(swept) > 1:
        raise MisuseError(
            "only one limit can be swept at a time", hint="give the others one value each"
        )
    name, text = swept[0]
    values = _values(spec, name, text, types)
    return name, [{**fixed, name: value} for value in values]


def _values(spec: MachineSpec, name: str, text: str, types: Mapping[str, Type]) -> list[float]:
    ends, _, stride = text.partition(":")
    low, _, high = ends.partition("..")
    if not (low.strip() and high.strip()):
        hint = f"write `{name}=LOW..HIGH`, or `{name}=LOW..HIGH:STRIDE`"
        raise MisuseError(f"`{name}={text}` lacks one of its ends", hint=hint)
    least, most = (_number(spec, name, part, types) for part in (low, high))
    whole = spec.limits[name].type.kind == "int"
    step = _number(spec, name, stride, types) if stride else _stride(least, most, whole=whole)
    if most < least or step <= 0:
        hint = f"write `{name}=LOW..HIGH`, or `{name}=LOW..HIGH:STRIDE`"
        raise MisuseError(f"`{name}={text}` has no values", hint=hint)
    count = math.floor((most - least) / step + 1e-9) + 1
    if count > MOST:
        raise MisuseError(
            f"`{name}={text}` has {count:,} values", hint=f"give a stride: the most is {MOST}"
        )
    values: Iterable[float] = (least + number * step for number in range(count))
    return [int(value) if whole else round(value, 12) for value in values]


def _number(spec: MachineSpec, name: str, text: str, types: Mapping[str, Type]) -> float:
    value = limit_value(spec, name, values_of(types, [(name, text.strip())])[name])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise MisuseError(f"limit `{name}` cannot be swept from `{text}`", hint="write two numbers")
    return value


def _stride(least: float, most: float, *, whole: bool) -> float:
    """A round number that gives about `USUAL` values."""
    span = most - least
    if whole and span < ALL:
        return 1
    if span <= 0:
        return 1
    rough = span / USUAL
    size = 10.0 ** math.floor(math.log10(rough))
    stride = next(size * n for n in (1, 2, 5, 10) if size * n >= rough * (1 - 1e-9))
    return max(1, round(stride)) if whole else stride
