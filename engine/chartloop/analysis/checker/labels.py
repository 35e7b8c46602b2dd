"""Labels that contradict their guard: a limit or a comparison that the guard lacks.

Source: docs/checks.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.language.approval import HERE as APPROVE
from chartloop.language.expression import Expression
from chartloop.language.label import Label
from chartloop.language.yaml.reading import Path

_SIGNS = {"≥": ">=", "≤": "<="}
_COMPARISON = re.compile(r"(?:^|\s)(≥|≤|>=|<=|<|>)(?=\s)")
_INVERSE = {">=": "<", "<": ">=", ">": "<=", "<=": ">"}
_NEGATED = re.compile(r"\bnot\b")


def check_labels(context: CheckContext) -> None:
    """Check the questions of decisions, and the labels of guarded edges."""
    for state in context.spec.states.values():
        guards = [e.when for e in state.edges if e.when is not None]
        guards += [state.of] if state.of is not None else []
        generated = ("states", state.name) in context.spec.made  # its guard is not in the file
        if state.ask is not None and state.job == "decide" and guards and not generated:
            _check(context, ("states", state.name, "ask"), state.ask, guards)
        for edge in state.edges:
            own = edge.role != "then" and edge.path != APPROVE  # `when` of that is no guard of it
            if own and edge.label is not None and edge.when is not None:
                _check(context, (*edge.path, "label"), edge.label, [edge.when])


def _check(context: CheckContext, path: Path, label: Label, guards: Sequence[Expression]) -> None:
    reads = frozenset[str]().union(*(g.reads for g in guards))
    for name in sorted(label.reads - reads):
        text = f"the label shows `{name}`, which its guard does not read"
        hint = "show what the guard reads"
        context.say("CL317", path, text, hint=hint, of=name)
    signs: list[str] = _COMPARISON.findall(label.text)
    for sign in dict.fromkeys(signs):
        if not any(_says(guard, _SIGNS.get(sign, sign)) for guard in guards):
            text = f"the label says `{sign}`, and its guard does not"
            context.say("CL317", path, text, hint="make the label say what the guard does", of=sign)


def _says(guard: Expression, sign: str) -> bool:
    """Whether a guard has a comparison: as written, with sides swapped, or doubly negated."""
    if sign in guard.ops or any((">" if b.strict else ">=") == sign for b in guard.bounds):
        return True
    return _INVERSE[sign] in guard.ops and _NEGATED.search(guard.text) is not None
