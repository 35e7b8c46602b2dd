"""The reader of rules: stops, signals and detours.

Source: `docs/language.md`, "Rules"
"""

from __future__ import annotations

from chartloop.language.file import file
from chartloop.language.readers.reader import Reader, items
from chartloop.language.spec import RETURN, Rule
from chartloop.language.yaml.reading import Path


def read_rule(reader: Reader, number: int, shape: file.RuleShape) -> Rule | None:
    """Read one rule; None if it is invalid or its target is unknown."""
    path: Path = ("rules", number)
    if not _has_form(reader, path, shape):
        return None
    to = _target(reader, (*path, "to"), shape.to)
    when = reader.guard((*path, "when"), shape.when)
    share = None
    if shape.warn_at is not None:
        share = reader.warn_at(path, shape.warn_at, when)
    rule = Rule(
        f"rules.{number}", when, _reason(reader, (*path, "stop"), shape.stop),
        _reason(reader, (*path, "signal"), shape.signal), to or "",
        _covers(reader, (*path, "at"), shape.at), _covers(reader, (*path, "before"), shape.before),
        warn_at=share, **reader.simple(path, shape),
    )  # fmt: skip
    if to is None or not (rule.stop or rule.signal or rule.to):
        reader.mention(when.text)
        return None
    return rule


def _has_form(reader: Reader, path: Path, shape: file.RuleShape) -> bool:
    """Whether a rule has one of the three forms; reports others."""
    forms = tuple(k for k in ("stop", "signal", "to") if getattr(shape, k) is not None)
    hint = "a rule stops (`stop`, with or without `to`), signals (`signal`), or detours (`to`)"
    if not forms and not shape.lost & {"stop", "signal", "to"}:
        reader.say("CL202", path, "a rule needs `stop`, `signal` or `to`", hint=hint, key=True)
    elif "signal" in forms and len(forms) > 1:
        message = f"`signal` does not go with `{next(f for f in forms if f != 'signal')}`"
        reader.say("CL207", (*path, "signal"), message, hint=hint, key=True)
    elif forms == ("to",) and shape.message is not None:
        message = "a detour raises no signal: it has no `message`"
        reader.say("CL207", (*path, "message"), message, hint="remove it", key=True)
    if shape.at is not None and shape.before is not None:
        message = "`at` and `before` are two moments: a rule has one"
        reader.say("CL207", (*path, "before"), message, hint="write two rules", key=True)
    if not forms or ("signal" in forms and len(forms) > 1):
        reader.unread.words.update(t for t in (shape.to,) if t)
        reader.mention(str(shape.when))
        return False
    return True


def _target(reader: Reader, path: Path, name: str | None) -> str | None:
    if name == RETURN:
        message = "a rule cannot lead to `return`"
        reader.say("CL313", path, message, hint="`return` is for the states of a detour")
        return None
    return "" if name is None else reader.state(path, name)


def _reason(reader: Reader, path: Path, name: str | None) -> str:
    return "" if name is None else reader.reason(path, name)


def _covers(reader: Reader, path: Path, names: list[str] | None) -> tuple[str, ...]:
    given = items(names)
    reader.once(path, given, "state")
    found = [reader.name((*path, n), s, reader.states, "state", "CL301") for n, s in given]
    return tuple(dict.fromkeys(s for s in found if s))
