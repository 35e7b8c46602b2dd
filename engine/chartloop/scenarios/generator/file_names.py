"""Names, heads and checksums of generated files.

The last line of the head has a checksum of the rest of the file. A file whose checksum does not
match was changed by a person, and is not overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256

from chartloop.machine.build import Chart
from chartloop.scenarios.generator.search_targets import Target
from chartloop.scenarios.runner import SUFFIX

_STAMP = re.compile(r"^# Written by chartloop test --generate; .* ([0-9a-f]{12})\n", re.MULTILINE)
_SAFE = re.compile(r"[^A-Za-z0-9_-]+")
_MORE = 8
"""How many further targets a head lists."""


def file_name(target: Target) -> str:
    """The file name: `stops-for-steps_limit.scenario.yaml`, `takes-think-1.scenario.yaml`."""
    if target.kind == "reason":
        return f"stops-for-{_safe(target.name)}{SUFFIX}"
    parts = [part for part in target.name.split(".") if part != "next"]
    return f"takes-{_safe('-'.join(parts))}{SUFFIX}"


def _safe(name: str) -> str:
    return _SAFE.sub("-", name).strip("-")[:80] or "it"


def head(chart: Chart, targets: Sequence[Target]) -> Iterator[str]:
    """The comments on a file's targets: the first on its own line, the others as a list."""
    first, *others = [_describe_target(chart, target) for target in targets]
    yield f"{first[:1].upper()}{first[1:]}."
    if others:
        yield "The shortest that was found for these too:"
        yield from (f"  {other}" for other in others[:_MORE])
    if len(others) > _MORE:
        yield f"  and {len(others) - _MORE} more"


def _describe_target(chart: Chart, target: Target) -> str:
    if target.kind == "reason":
        return f"stops for `{target.name}`"
    if target.kind == "rule":
        rule = next(r for r in chart.spec.rules if r.id == target.name)
        return f"{rule.kind} rule `{target.name}` holds: {_one_line(rule.when.text)}"
    move = chart.by_origin.get(target.name)
    if move is None:
        return f"takes `{target.name}`"
    guards = " and ".join(_one_line(g.__name__) for g in move.guards)
    why = f", {guards}" if guards else ""
    return f"takes `{target.name}`: {move.source} → {move.dest}{why}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:120]


# checksums ----------------------------------------------------------------------------------


def stamp_checksum(text: str) -> str:
    """Insert the checksum after the comments of the head."""
    lines = text.splitlines(keepends=True)
    at = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    stamp = f"# Written by chartloop test --generate; changed, it is yours. {_sum(text)}\n"
    return "".join((*lines[:at], stamp, *lines[at:]))


def is_ours(text: str) -> bool:
    """Whether a file is unchanged since it was generated."""
    stamps = list(_stamps(text))
    return len(stamps) == 1 and stamps[0][1] == _sum(stamps[0][0])


def _stamps(text: str) -> Iterator[tuple[str, str]]:
    """Each stamp: the text without it, and its checksum."""
    for match in _STAMP.finditer(text):
        yield text[: match.start()] + text[match.end() :], match[1]


def _sum(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]
