"""Parsing and formatting of quantities: durations, fractions, numbers.

At run time a duration is a float in seconds and a fraction a float with 1 as the whole, so that
guards are plain arithmetic; the types of the language keep them apart (`core.types`).

Source: docs/language.md, "Limits and variables"; the wordings of labels are those of 003.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(
    r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9}(?:\.\d{1,6})?)s)?(?:(\d{1,9})ms)?",
    re.ASCII,
)
_FRACTION = re.compile(r"\d{1,9}(?:\.\d{1,9})?%", re.ASCII)
_NUMBER = re.compile(r"[-+]?\d{1,3}(?:_\d{3})+|[-+]?\d{1,18}", re.ASCII)


def say_count(number: int, what: str) -> str:
    """A count with its noun: ``1 rule``, ``1,204 tokens``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def say_some(names: Sequence[object], most: int, joint: str = "and") -> str:
    """The first names, and how many more there are: ``a, b and 3 more``."""
    more = f" {joint} {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def parse_duration(text: str) -> float | None:
    """Parse ``1d``, ``24h``, ``1h30m``, ``1.5s`` or ``250ms`` to seconds; None if invalid."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        return None
    parts = zip(match.groups(), _UNITS.values(), strict=True)
    return sum(float(n) * unit for n, unit in parts if n is not None)


def read_duration(value: object) -> float | None:
    """Read a duration of a file, ``30s`` or a number, in seconds; None if invalid."""
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < math.inf else None


def parse_fraction(text: str) -> float | None:
    """Parse ``95%`` to 0.95; None if invalid."""
    return float(text[:-1]) / 100 if _FRACTION.fullmatch(text) else None


def parse_number(text: str) -> int | None:
    """Parse ``1_000_000`` to an int; None if invalid. Underscores must separate groups of three."""
    return int(text.replace("_", "")) if _NUMBER.fullmatch(text) else None


def write_duration(seconds: float) -> str:
    """Write a duration as `parse_duration` reads it, to the millisecond: ``1h30m``."""
    if seconds == 0:
        return "0s"
    millis = round(seconds * 1000)
    out: list[str] = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        count, millis = divmod(millis, size)
        if count:
            out.append(f"{count}{unit}")
    return "".join(out) or "0s"


def say_duration(seconds: float) -> str:
    """A duration as in labels: ``24 hours``, ``30 min``, ``60 s``, ``250 ms``."""
    if seconds == math.inf:
        return "for ever"
    if seconds >= 3 * 86_400 and seconds % 86_400 == 0:
        return f"{seconds / 86_400:.0f} days"
    if seconds >= 3_600 and seconds % 3_600 == 0:
        hours = round(seconds / 3_600)
        return f"{hours} hour" if hours == 1 else f"{hours} hours"
    if seconds >= 120 and seconds % 60 == 0:
        return f"{seconds / 60:.0f} min"
    if seconds >= 1 or seconds == 0:
        return f"{seconds:.0f} s" if seconds == int(seconds) else f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms"


def say_elapsed(seconds: float) -> str:
    """A measured time in short form: ``3 h 12 min``, ``4 min 10 s``, ``12.3 s``, ``80 ms``."""
    if seconds == math.inf:
        return "for ever"
    if round(seconds * 1000) < 1000:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def say_fraction(value: float) -> str:
    """A fraction as in labels: ``95%``, ``2.5%``."""
    return f"{value * 100:.10g}%"


def say_number(value: float) -> str:
    """A number with thousands separators: ``1,000,000``, ``0.25``."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.6g}"
