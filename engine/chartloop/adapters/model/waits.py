"""How long a provider asks to wait, in each spelling.

Belongs here: headers and bodies of refused requests. Never: whether to wait.
Source: RFC 9110 "Retry-After"; the error references of OpenAI, Azure, Anthropic, Gemini, Groq,
OpenRouter.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")  # OpenAI and Azure
_SECONDS = ("retry-after", "x-retry-after", "ratelimit-reset-after", "x-ratelimit-reset-after")
_RESETS = ("ratelimit-reset", "x-ratelimit-reset")  # seconds, or a time since 1970
_YEAR = 365 * 86_400
_NAMED = re.compile(
    r'"(?:retryDelay|quotaResetDelay|retry_?after(?P<ms>_?ms)?(?:_?s(?:ec(?:ond)?s?)?)?)"'
    r'\s*:\s*"?(?P<time>[\d.]+[a-z\d.]*)"?',
    re.IGNORECASE,
)
"""A field of a body: Gemini's `retryDelay: 34.07s`, and `retry_after: 20` of many gateways."""
_TOLD = re.compile(
    r"(?:(?:re)?try(?: again)?|reset|wait)(?: in| after| for)?\s+(?:about |at least )?"
    r"(?P<time>(?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?"
    r"|h(?:ours?)?|d(?:ays?)?)\b\s*,?\s*(?:and )?)+|(?:\d+(?:\.\d+)?(?:ms|[smhd]))+)",
    re.IGNORECASE,
)
"""A sentence: "Please try again in 1m2.5s", "Please retry after 26 seconds"."""
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+", re.IGNORECASE)
_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|[smhd])", re.IGNORECASE)
_SIZES = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def wait_asked(headers: Mapping[str, str], body: str = "") -> float | None:
    """The seconds to wait, by the headers or the body of a refusal; None where nothing says it.

    Names of headers are lower-case. A header that cannot be read counts as missing.
    """
    for name in _MILLISECONDS:
        if (found := _number(headers.get(name, ""))) is not None:
            return found / 1000
    for name in _SECONDS:
        if (found := seconds_of(headers.get(name, ""))) is not None:
            return found
    for name in _RESETS:
        if (found := _until(headers.get(name, ""))) is not None:
            return found
    if (named := _NAMED.search(body)) is not None:
        number = _number(named["time"])
        if number is not None:
            return number / 1000 if named["ms"] else number
        return _duration(named["time"])
    return None if (told := _TOLD.search(body)) is None else _duration(told["time"])


def seconds_of(header: str) -> float | None:
    """The seconds of a `Retry-After` header: a number, a duration, a date; None if invalid."""
    if (seconds := _number(header)) is not None:
        return seconds
    if _DURATION.fullmatch(header.strip()):
        return _duration(header)
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    return None


def _until(header: str) -> float | None:
    """The seconds of a reset: a duration, or a time since 1970 in seconds or milliseconds."""
    number = seconds_of(header)
    if number is None or number < _YEAR:
        return number
    now = time.time()
    return max(0.0, (number / 1000 if number > now * 100 else number) - now)


def _duration(text: str) -> float | None:
    """The seconds of a duration as providers write it: ``6m0s``, ``7.66s``, ``26 seconds``."""
    parts = _UNIT.findall(text)
    return sum(float(n) * _SIZES[unit.lower()] for n, unit in parts) if parts else None


def _number(text: str) -> float | None:
    with contextlib.suppress(ValueError):
        return number if 0 <= (number := float(text)) < math.inf else None
    return None
