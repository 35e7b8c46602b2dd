"""The job of a state, and the keys that go with it.

Source: `docs/language.md`, "States"
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


def job_of(reader: Reader, path: Path, shape: StateShape) -> Job:
    """The job of a state, with a finding if it has several."""
    marks: list[tuple[Job, str]] = [(j, k) for j, k in _MARKS if k in shape]
    if "all" in shape and [job for job, _ in marks] != ["act"]:
        marks.append(("fork", "all"))
    if len(marks) > 1:
        keys = " and ".join(f"`{key}`" for _, key in marks)
        message = f"a state has one job, and has {keys}"
        reader.say("CL207", path, message, hint="split it into states of one job each", key=True)
    if marks:
        return marks[0][0]
    if "ask" in shape and "next" in shape:
        return "decide"
    if "end" in shape or ("stop" in shape and not any(k in shape for k in _WAYS)):
        return "end"
    return "pass"


def check_keys(reader: Reader, path: Path, shape: StateShape, job: Job) -> None:
    """Report keys that lack another key or do not go with the job."""
    for key, needs in NEEDS.items():
        if key in shape and not any(shape.wrote(n) for n in needs):
            message = f"`{key}` goes with {' or '.join(f'`{n}`' for n in needs)}"
            hint = f"add `{needs[0]}`, or remove `{key}`"
            reader.say("CL207", (*path, key), message, hint=hint, key=True)
    _complete(reader, path, shape, job)
    if "end" in shape:
        extra = next((k for k in (*_WAYS, "do") if k in shape), None)
        if extra is not None:
            message = f"`{path[-1]}` is an end: `{extra}` is never used"
            hint = f"remove `{extra}`, or `end`"
            reader.say("CL306", (*path, extra), message, hint=hint, key=True)
    elif "next" in shape and _is_decided(shape, job):
        why = "it continues where the branches meet" if shape.all else "its edges lead on"
        message = f"`next` has no part in this state: {why}"
        reader.say("CL207", (*path, "next"), message, hint="remove `next`", key=True)


def _is_decided(shape: StateShape, job: Job) -> bool:
    asks = "when" in shape or "of" in shape
    return job in ("wait", "fork") or asks or (job == "act" and "all" in shape)


def _complete(reader: Reader, path: Path, shape: StateShape, job: Job) -> None:
    """Report the missing keys of a job."""

    def lacks(key: str, *, code: str = "CL202", by: str) -> None:
        if not shape.wrote(key):
            hint = f"add `{key}:`"
            reader.say(code, (*path, by), f"`{by}` needs `{key}`", hint=hint, key=True)
            reader.lose(path)

    if "when" in shape:
        lacks("then", by="when")
        lacks("else", by="when", code="CL309")
    if "of" in shape:
        lacks("cases", by="of")
    if job == "wait" and "within" in shape:
        lacks("expired", by="within")
    if "ask" in shape and job not in ("decide", "wait"):
        if job == "act" or "all" in shape:
            message, hint = "`ask` goes with a decision or a wait", "write `label` here"
            reader.say("CL207", (*path, "ask"), message, hint=hint, key=True)
        elif not shape.lost & {"when", "of", "on", "next"}:
            hint = "add `when:` with `then:` and `else:`, or `of:` with `cases:`"
            message = "`ask` needs `when`, `of`, `on` or `next`"
            reader.say("CL202", (*path, "ask"), message, hint=hint, key=True)
            reader.lose(path)
