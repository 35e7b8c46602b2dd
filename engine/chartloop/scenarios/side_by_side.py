"""Expected and actual lines side by side, with their differences marked.

    expected         got
    user_message     user_message
    llm_inference    llm_inference
  ≠ tool_call        done
  ≠ llm_inference

The table is bounded: long lists are cut to the context of the first differences, long lines to the
part where they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from chartloop.core.visible import cut

WIDEST = 44
"""Maximum width of a column, in characters."""
_LONGEST = 400
"""How many lines of each side are compared, from the first difference on."""
_AROUND = 3
"""How many equal lines are shown before and after a difference."""

Row = tuple[str, str, str]
"""A mark, the expected line, the actual line."""


def beside(expected: Sequence[str], got: Sequence[str]) -> list[str]:
    """The lines of a table of both sides, with `≠` where they differ."""
    rows: list[Row] = [(" ", "expected", "got"), *_rows(expected, got)]
    width = max(len(row[1]) for row in rows)
    return [f"{mark} {left:{width}}   {right}".rstrip() for mark, left, right in rows]


def _rows(expected: Sequence[str], got: Sequence[str]) -> Iterator[Row]:
    same = common(expected, got)
    start = max(0, same - _AROUND)
    if start:
        yield _skip_row(start)
    left, right = expected[start : start + _LONGEST], got[start : start + _LONGEST]
    groups = SequenceMatcher(None, left, right, autojunk=False).get_grouped_opcodes(_AROUND)
    before = 0
    for group in groups:
        if between := group[0][1] - before:
            yield _skip_row(between)
        before = group[-1][2]
        for kind, a, b, c, d in group:
            for one, other in zip_longest(left[a:b], right[c:d], fillvalue=""):
                # both lines from shortly before their first difference
                wide = max(len(one), len(other)) > WIDEST
                part = max(0, common(one, other) - WIDEST // 2) if wide else 0
                sign = " " if kind == "equal" else "≠"
                yield (sign, _part(one, part), _part(other, part))
    if rest := max(len(expected), len(got)) - start - max(len(left), len(right)):
        yield _skip_row(rest)


def common(left: Sequence[object], right: Sequence[object]) -> int:
    """The length of the common prefix."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(left), len(right)))


def _skip_row(count: int) -> Row:
    text = f"… {count} more"
    return (" ", text, text)


def _part(line: str, start: int) -> str:
    text = "…" + line[start + 1 :] if start and len(line) > start else line
    return cut(text, WIDEST)
