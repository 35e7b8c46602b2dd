"""Why a flowchart's box ends a run, as far as its words say.

Belongs here: words to stop reasons. Never: what a reason means (`core.reasons`).

Source:       the labels of the documents 000 to 004; `core.reasons`
"""

from __future__ import annotations

import re

_WORDS = (
    (r"token", "token_limit"),
    (r"cost|budget|money|price|spend", "cost_limit"),
    (r"diminish", "diminishing_returns"),
    (r"health", "health_critical"),
    (r"context|overflow|window", "context_overflow"),
    (r"stagnat", "stagnation"),
    (r"no progress|stuck|same again", "no_progress"),
    (r"unresponsive|no (?:answer|response|reply)|nobody", "user_unresponsive"),
    (
        r"\b(?:user|human|person|operator|manual\w*|abort\w*|cancel\w*|interrupt\w*)\b",
        "user_requested",
    ),
    (r"retr(?:y|ies)", "retry_limit"),
    (r"error rate", "error_rate"),
    (r"(?:too many|consecutive|max\w*) (?:errors|failures)|error threshold", "error_threshold"),
    (r"\b(?:run)?time(?:out| ?limit)?\b|runtime|deadline|duration|\bhours?\b", "time_limit"),
    (r"turns|iterations|\bsteps\b|rounds|cycles|attempts|\bmax", "steps_limit"),
    (r"critical|fatal", "critical_failure"),
    (r"\b(?:fail\w*|errors?|crash\w*|exception|reject\w*|invalid|denied)\b", "error"),
)
_WELL = re.compile(r"\b(?:complet\w*|done|success\w*|succeed\w*|achiev\w*|finish\w*|approved)\b")
_STOPS = re.compile(r"\b(?:stop\w*|terminat\w*|halt\w*|abort\w*|giv\w* up)\b")


def ends_well(label: str) -> bool:
    """Whether the words of a box say that the work is done."""
    return _WELL.search(label.lower()) is not None


def says_stop(label: str) -> bool:
    """Whether the words of a box say that the run is cut short, or why."""
    return _STOPS.search(label.lower()) is not None or reason_of(label) != "custom"


def reason_of(label: str) -> str:
    """The stop reason that the words of a box name; `custom` where they name none."""
    words = label.lower()
    return next((reason for pattern, reason in _WORDS if re.search(pattern, words)), "custom")
