"""The bodies of requests and answers, for checking and for the OpenAPI document.

Belongs here: fields, their bounds and examples. Never: what is done with them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

LONGEST = 200_000
"""Characters of a task or prompt."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
Text = Annotated[str, Field(max_length=LONGEST)]
Short = Annotated[str, Field(max_length=1_000)]
RunId = Annotated[str, Field(pattern=NAME)]
Json = dict[str, Any]


class Body(BaseModel):
    """A request's body: fields that it does not have are refused."""

    model_config = ConfigDict(extra="forbid")


class StartBody(Body):
    """A run to be started."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"machine": "agent", "task": "What is 2 + 2?"}]},
    )
    machine: Short
    """A machine of `GET /machines`."""
    task: Text = ""
    limits: dict[str, Any] | None = None
    vars: dict[str, Any] | None = None
    memory: dict[str, Text] | None = None
    tasks: list[Any] | None = None
    agent: Short | None = None
    session: Short | None = None
    metadata: dict[str, Any] | None = None
    continues: Short | None = None
    """A run that has ended, whose conversation is continued."""
    require_bound: dict[str, float] | None = None
    """Figures that no run may go past, proven: the run is not started where they are not."""
    run_id: RunId | None = None
    drive: Literal["run", "step", "none"] = "run"
    """Drive it to its end or a wait, one action, or not yet."""
    until: Short = ""
    """A state, an edge, a rule or a guard at which a run stops."""


class RunBody(Body):
    """Drive a run on."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{}, {"until": "usage.cost > 0.10"}]}
    )
    until: Short = ""


class AnswerBody(Body):
    """The answer to what a run asks."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"event": "approve", "wait": "3"}]},
    )
    event: Short
    data: dict[str, Any] | None = None
    wait: Short = ""
    """The id of the wait whose question you saw; empty for the one at hand."""
    ahead: Short = ""
    """A state that will ask, in place of a wait."""
    typed: bool = False
    """The data are texts as a person typed them: each is read by its field's type."""


class EnqueueBody(Body):
    """Tasks for the end of a run's queue."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"tasks": ["Write the tests."]}]}
    )
    tasks: Annotated[list[Any], Field(min_length=1, max_length=1_000)]


class CancelBody(Body):
    """A stop before the next action."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{}, {"message": "wrong customer"}]}
    )
    reason: Short = "user_requested"
    message: Short = ""


class ForkBody(Body):
    """A new run with the first records of this one."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"at": 3}]})
    at: Annotated[int, Field(ge=1, le=2**31)] | None = None
    """The first record that is left out; null keeps all."""


class BackBody(Body):
    """A new run without the newest records."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"records": 1}]})
    records: Annotated[int, Field(ge=1, le=2**31)] = 1


class SetBody(Body):
    """Another value for a limit or a variable."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "limits.steps", "value": 20}]}
    )
    name: Short
    value: Any


class EmptyBody(Body):
    """Nothing."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{}]})


# answers ----------------------------------------------------------------------------------------


class ErrorAt(BaseModel):
    """One thing that is wrong with a request."""

    at: str
    """A JSON pointer into the body, or ``query.NAME``, ``header.NAME``."""
    message: str
    hint: str | None = None


class ProblemBody(BaseModel):
    """A problem document of RFC 9457."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "/problems/CL601",
                    "title": "Not in this status",
                    "status": 409,
                    "detail": "the run waits for an answer",
                    "hint": "answer its question",
                    "code": "CL601",
                    "can": ["answer", "cancel", "fork"],
                }
            ]
        },
    )
    type: str
    title: str
    status: int
    detail: str
    hint: str | None = None
    code: str | None = None
    """The code of the error; `GET /problems/CODE` explains it."""
    can: list[str] | None = None
    """The orders that the run takes now."""
    errors: list[ErrorAt] | None = None


class Accepted(BaseModel):
    """An order that was taken."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"run": "k3f9", "order": "run", "request": "9f2c7a"}]},
    )
    run: str
    order: str
    request: str
    """Its id: `GET /requests/ID` says what came of it."""
    outcome: Json | None = None
    """What came of it, where the caller waited for that."""


class StartedRun(BaseModel):
    """A run that was started."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"run": "k3f9", "machine": "agent", "hash": "1f…", "drive": "run"}]
        }
    )
    run: str
    machine: str
    hash: str
    drive: str


class Question(BaseModel):
    """What a run asks."""

    wait: str
    text: str
    answers: dict[str, dict[str, str]]
    run: str
    state: str
    due: float | None = None


class RunSummary(BaseModel):
    """A run in a list."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "run": "k3f9",
                    "machine": "review",
                    "status": "completed",
                    "state": "done",
                    "reason": "completed",
                    "steps": 3,
                    "created": 1.7e9,
                    "updated": 1.7e9,
                    "head": 9,
                }
            ]
        },
    )
    run: str
    machine: str
    status: str
    state: str
    reason: str | None
    steps: int
    created: float
    updated: float
    head: int
    """How many events it has."""
    agent: str = ""
    session: str = ""
    parent: str = ""
    wake_at: float | None = None
    tokens: int | None = None
    cost: float | None = None
    driver: str | None = None
    """Who drives it now; null where nobody does."""
    question: Question | None = None


class RunList(BaseModel):
    """A page of runs, the newest first."""

    runs: list[RunSummary]
    next: str | None = None
    """The cursor of the next page; null: this is the last."""


class RecordList(BaseModel):
    """Records of a run."""

    records: list[Json]
    next: int | None = None
    """The number of the next record, where there are more."""


class ComparedRun(BaseModel):
    """How one of two runs stands."""

    model_config = ConfigDict(extra="allow")
    run: str
    machine: str
    status: str
    state: str
    ended: bool
    said: str
    """Why it stopped, or where it is."""
    spent: str


class ComparedRecords(BaseModel):
    """The records of one number in two runs."""

    seq: int
    same: bool
    """Both did the same, it came to the same and led to the same states."""
    left: Json | None = None
    """As in `GET /runs/ID`; null where the run has no such record."""
    right: Json | None = None


class ComparedValue(BaseModel):
    """A fact whose value is not the same in both runs."""

    name: str
    left: str
    right: str


_COMPARED: Json = {
    "machine": "review", "status": "completed", "state": "done", "ended": True,
    "said": "Stopped for `completed` at `done`.", "spent": "3 steps",
}  # fmt: skip


class Comparison(BaseModel):
    """Two runs side by side."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "said": "They differ from the start.",
                    "first": 0,
                    "left": _COMPARED | {"run": "k3f9"},
                    "right": _COMPARED | {"run": "f81a", "state": "draft", "ended": False},
                    "steps": [{"seq": 0, "same": False, "right": {"seq": 0, "at": ""}}],
                    "facts": [{"name": "run.steps", "left": "2", "right": "3"}],
                }
            ]
        }
    )
    said: str
    first: int | None = None
    """The first record that differs, or that only one of them has; null: they went the same way."""
    left: ComparedRun
    right: ComparedRun
    steps: list[ComparedRecords]
    next: int | None = None
    """The number of the next row, where there are more."""
    facts: list[ComparedValue]
    """Facts that are not the same now; what a clock changes is left out."""
