"""The job of a state, and the keys that go with it.

Source: design "language", section 2, the table of jobs.
"""

from __future__ import annotations

from chartloop.language.file.file import NEEDS, StateShape
from chartloop.language.readers.reader import Reader
from chartloop.language.spec import Job
from chartloop.language.yaml.reading import Path

_MARKS: tuple[tuple[Job, str], ...] = (
    ("act", "do"),
    ("wait", "on"),
    ("decide", "when"),
    ("decide", "of"),
)
_WAYS = ("next", "then", "else", "cases", "on", "all", "failed", "expired")


FIELDS = {"with": "with_", "else": "else_", "for": "for_", "in": "in_"}
"""The keys that are keywords of Python, with their names in the shape."""


def has_key(shape: StateShape, key: str) -> bool:
    """Whether the file has a key for the state."""
    return getattr(shape, FIELDS.get(key, key)) is not None


def job_of(reader: Reader, path: Path, shape: StateShape) -> Job:
    """The job of a state, with a finding if it has several."""
    marks: list[tuple[Job, str]] = [(j, k) for j, k in _MARKS if has_key(shape, k)]
    if has_key(shape, "all") and [job for job, _ in marks] != ["act"]:
        marks.append(("fork", "all"))
    if len(marks) > 1:
        keys = " and ".join(f"`{key}`" for _, key in marks)
        message = f"a state has one job, and has {keys}"
        reader.say("CL207", path, message, hint="split it into states of one job each", key=True)
    if marks:
        return marks[0][0]
    if has_key(shape, "ask") and has_key(shape, "next"):
        return "decide"
    if has_key(shape, "end") or (
        has_key(shape, "stop") and not any(has_key(shape, k) for k in _WAYS)
    ):
        return "end"
    return "pass"


def check_keys(reader: Reader, path: Path, shape: StateShape, job: Job) -> None:
    """Report keys that lack another key or do not go with the job."""
    for key, needs in NEEDS.items():
        if has_key(shape, key) and not any(_meant(reader, path, shape, n) for n in needs):
            message = f"`{key}` goes with {' or '.join(f'`{n}`' for n in needs)}"
            hint = f"add `{needs[0]}`, or remove `{key}`"
            reader.say("CL207", (*path, key), message, hint=hint, key=True)
    _complete(reader, path, shape, job)
    if has_key(shape, "end"):
        extra = next((k for k in (*_WAYS, "do") if has_key(shape, k)), None)
        if extra is not None:
            message = f"`{path[-1]}` is an end: `{extra}` is never used"
            hint = f"remove `{extra}`, or `end`"
            reader.say("CL306", (*path, extra), message, hint=hint, key=True)
    elif has_key(shape, "next") and _is_decided(shape, job):
        why = "it continues where the branches meet" if shape.all else "its edges lead on"
        message = f"`next` has no part in this state: {why}"
        reader.say("CL207", (*path, "next"), message, hint="remove `next`", key=True)


def _meant(reader: Reader, path: Path, shape: StateShape, key: str) -> bool:
    return has_key(shape, key) or reader.is_gone((*path, key))


def _is_decided(shape: StateShape, job: Job) -> bool:
    asks = has_key(shape, "when") or has_key(shape, "of")
    return job in ("wait", "fork") or asks or (job == "act" and has_key(shape, "all"))


def _complete(reader: Reader, path: Path, shape: StateShape, job: Job) -> None:
    """Report the missing keys of a job."""

    def lacks(key: str, *, code: str = "CL202", by: str) -> None:
        if not _meant(reader, path, shape, key):
            hint = f"add `{key}:`"
            reader.say(code, (*path, by), f"`{by}` needs `{key}`", hint=hint, key=True)
            reader.lose(path)

    if has_key(shape, "when"):
        lacks("then", by="when")
        lacks("else", by="when", code="CL309")
    if has_key(shape, "of"):
        lacks("cases", by="of")
    if job == "wait" and has_key(shape, "within"):
        lacks("expired", by="within")
    if has_key(shape, "ask") and job not in ("decide", "wait"):
        if job == "act" or has_key(shape, "all"):
            message, hint = "`ask` goes with a decision or a wait", "write `label` here"
            reader.say("CL207", (*path, "ask"), message, hint=hint, key=True)
        elif not any(reader.is_gone((*path, k)) for k in ("when", "of", "on", "next")):
            hint = "add `when:` with `then:` and `else:`, or `of:` with `cases:`"
            message = "`ask` needs `when`, `of`, `on` or `next`"
            reader.say("CL202", (*path, "ask"), message, hint=hint, key=True)
            reader.lose(path)
