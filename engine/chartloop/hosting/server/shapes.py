"""The bodies of requests and responses, for validation and for the OpenAPI document.

Belongs here: fields, their bounds and examples. Never: behaviour.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from chartloop.core.person_names import LONGEST as LONGEST_NAME
from chartloop.core.strict_json import LARGEST
from chartloop.run.answer_links import LONGEST as LONGEST_LINK
from chartloop.run.answer_links import WEEK
from chartloop.run.fleet import Per, What
from chartloop.run.journal_records import OpenQuestion, RunRow
from chartloop.run.retry import CallAgain, CallInDoubt, LimitReached, RetryPlan

LONGEST = 200_000
"""The most characters of a task or prompt."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
TENANT = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$"
SCOPE = rf"^(fleet|(agent|session|model):.+|tenant:{TENANT[1:-1]})$"
Text = Annotated[str, Field(max_length=LONGEST)]
Short = Annotated[str, Field(max_length=1_000)]
Amount = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Moment = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
"""A time in epoch seconds."""
RunId = Annotated[str, Field(pattern=NAME)]
Json = dict[str, Any]


class Body(BaseModel):
    """The body of a request: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class StartBody(Body):
    """The run to start."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"machine": "agent", "task": "What is 2 + 2?"}]},
    )
    machine: Short
    """A machine of `GET /machines`."""
    task: Text = ""
    limits: dict[str, Any] | None = None
    """Values of limits, by name: at most 10^15, in any unit."""
    vars: dict[str, Any] | None = None
    """Values of variables. Here and in all other data whole numbers have at most 64 bits."""
    memory: dict[str, Text] | None = None
    tasks: list[Any] | None = None
    agent: Short | None = None
    session: Short | None = None
    metadata: dict[str, Any] | None = None
    submitter: Short | None = None
    """Who submits the run; a token with a name submits under that name."""
    continues: Short | None = None
    """A run that has ended, whose conversation the new run continues: 409 with its `successor` if
    another run of the session does."""
    branch: bool = False
    """Start another conversation from that run, beside the one that goes on."""
    require_bound: dict[str, Amount] | None = None
    """Bounds by name, `usd` say: the run starts only if they are proven for the machine."""
    run_id: RunId | None = None
    """Its id within the tenant of the token."""
    if_exists: Literal["refuse", "use"] | None = None
    """For a `run_id` that has a run: `refuse`, the default, refuses the request, and `use` gives
    that run."""
    tenant: Annotated[str, Field(pattern=TENANT)] | None = None
    """For a token of all tenants: whose run it is."""
    priority: Annotated[int, Field(ge=1, le=9, strict=True)] | None = None
    """When workers take the run up, of all that are due: 1 first, 9 last, by default 5. Before 5
    only for a token with the scope `edit` and without a tenant, or of all."""
    drive: Literal["run", "step", "none"] = "run"
    """Drive it to its end or a wait, for one action, or not at all yet."""
    until: Short = ""
    """A breakpoint: a state, an edge, a rule or a guard."""


class RunBody(Body):
    """How far to drive a run."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{}, {"until": "usage.cost > 0.10"}]}
    )
    until: Short = ""


class AnswerBody(Body):
    """The answer to a run's question."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"event": "approve", "wait": "3"},
                {
                    "event": "accept",
                    "data": {"by": "eve", "calls": {"c1": "accept", "c2": "deny"}},
                },
                {
                    "event": "edit",
                    "data": {"by": "eve", "calls": {"c1": {"arguments": {"usd": 80}}}},
                },
            ]
        },
    )
    event: Short
    data: dict[str, Any] | None = None
    """The fields of that event. In an approval `calls` decides on each call by its key: "accept",
    "deny", or an object with `decision` and `note`, `result`, `remember` or `arguments`."""
    wait: Short = ""
    """The id of the wait whose question you saw; empty for the present one."""
    ahead: Short = ""
    """A state that will ask, in place of a wait."""
    typed: bool = False
    """Whether the data are texts typed by a person, to be parsed by the types of their fields."""
    then: Literal["take", "run"] = "take"
    """What follows: a run that was being driven goes on; with `run`, one that nobody drives too."""
    shown: Short = ""
    """The `digest` of the question, from `/runs/ID/question`: a question with a `rest` takes no
    answer without it."""


class LinkBody(Body):
    """For whom a link to the question of a run is."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"to": "eve@example.org"}]}
    )
    to: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    """Who answers with it: the `by` of the answer."""
    wait: Short = ""
    """The id of the wait whose question you saw; empty for the present one."""
    within: Annotated[float, Field(gt=0, le=LONGEST_LINK)] = WEEK
    """Seconds for which it is valid; at most until the question expires."""


class LinkAnswerBody(Body):
    """The answer of who holds a link: to its question, in the name of the person it is for."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"event": "approve"}]}
    )
    event: Short
    data: dict[str, Any] | None = None
    """The fields of that event, as in an answer with a token."""
    typed: bool = False
    """Whether the data are texts typed by a person."""
    shown: Short = ""
    """The `digest` of the question."""


class EnqueueBody(Body):
    """Tasks to append to a run's queue."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"tasks": ["Write the tests."]}]}
    )
    tasks: Annotated[list[Any], Field(min_length=1, max_length=1_000)]


class CancelBody(Body):
    """The reason to stop for."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{}, {"message": "wrong customer"}]}
    )
    reason: Short = "user_requested"
    message: Short = ""


class ForkBody(Body):
    """Where to fork a run."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"at": 3}]})
    at: Annotated[int, Field(ge=1, le=2**31)] | None = None
    """The first record to leave out; null keeps all."""


class RetryBody(Body):
    """How to try a run again."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"confirm": "9f2c7a01b3d4e5f6", "limits": {"steps": 40}}]},
    )
    confirm: Short = ""
    """The `digest` of the plan, from `GET /runs/ID/retry`: what is agreed to."""
    again: bool = False
    """Make another attempt, although the run was tried again before: with the `digest` of
    `GET /runs/ID/retry?again=true`."""
    limits: dict[str, Any] = {}
    """New values of limits, by name, at most 10^15: those that stopped the run would stop it
    again."""


class BackBody(Body):
    """How many of the newest records to leave out."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"records": 1}]})
    records: Annotated[int, Field(ge=1, le=2**31)] = 1


class SetBody(Body):
    """A new value for a limit or a variable."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "limits.steps", "value": 20}]}
    )
    name: Short
    value: Any
    """That of a limit is at most 10^15."""


class LimitBody(Body):
    """A limit across runs."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"scope": "fleet", "what": "cost", "per": "day", "most": 50}]
        },
    )
    scope: Annotated[str, Field(pattern=SCOPE, max_length=1_000)]
    """`fleet`, `tenant:NAME`, `agent:NAME`, `session:NAME` or `model:NAME`."""
    what: What
    per: Per
    most: Amount | None = None
    """The most; null removes the limit."""


class SettleBody(Body):
    """The use of a call in doubt, by the bill of its provider."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"run": "k3f9", "call": "k3f9/think/3", "cost": 0.02}]},
    )
    run: Short
    call: Short
    """Its key, as `GET /fleet` has it."""
    cost: Amount = 0.0
    """In USD."""
    tokens: Annotated[int, Field(ge=0, le=LARGEST)] = 0


class EmptyBody(Body):
    """A body without fields."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{}]})


# answers ----------------------------------------------------------------------------------------


class ErrorAt(BaseModel):
    """One error in a request."""

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
    """The orders that the run accepts now."""
    errors: list[ErrorAt] | None = None


class Accepted(BaseModel):
    """An order that was accepted."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"run": "k3f9", "order": "run", "request": "9f2c7a"}]},
    )
    run: str
    order: str
    request: str
    """The order's id: `GET /requests/ID` returns its outcome."""
    outcome: Json | None = None
    """The outcome, if the caller waited for it."""


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
    warning: str = ""
    """Why it may have been started before; empty for none."""


def _fields(record: type[Any], *left_out: str) -> dict[str, Any]:
    """The fields of a record, each with its type: an answer gives all of them."""
    types = get_type_hints(record)
    return {name: (type, ...) for name, type in types.items() if name not in left_out}


class Question(create_model("OpenQuestion", **_fields(OpenQuestion))):
    """The question of a run that waits, with its first 10,000 characters."""


class WholeQuestion(Question):
    """A question to its end, and the digest that its answer names.

    Its calls have the `schema` of arguments that may be changed, and each argument as people read
    it (`shown`).
    """

    digest: str
    title: str
    """The title of the machine that asks, or its name."""
    task: str
    place: str
    """The label of the state that asks."""
    since: float
    forms: list[Json]
    """Each answer with its fields, its `target`, and what happens `next` in words."""


class OpenLink(BaseModel):
    """A link to the question of a run, without its token."""

    link: str
    """Its id, which opens nothing."""
    wait: str
    to: str
    made_by: str
    at: float
    until: float
    """When it is void; earlier if its question is over before."""


class MadeLinkBody(OpenLink):
    """A link that was made."""

    url: str
    """What is sent to the person: it is told this once."""


class LinkList(BaseModel):
    """The links of a run."""

    links: list[OpenLink]


class Revoked(BaseModel):
    """How many links were revoked."""

    revoked: int


class LinkAnswered(BaseModel):
    """An answer that a link gave."""

    event: str
    by: str
    request: str
    """Its id: the same for a request that is repeated under its `Idempotency-Key`."""


class LinkCard(BaseModel):
    """What a link shows."""

    to: str
    """Whose answer it gives."""
    until: float
    over: str
    """Why it takes no answer any more, in words; empty while it does."""
    question: WholeQuestion | None


class Me(BaseModel):
    """Who asks."""

    name: str
    """The name of the token, which fills `by`; empty without one."""
    scope: str
    tenant: str
    """Whose runs it sees; empty for those without a tenant, `*` for all."""


_INNER = ("run_id", "epoch", "machine_hash", "fork_seq", "question", "ending", "last_state")


class RunSummary(create_model("RunRow", **_fields(RunRow, *_INNER))):
    """A run in a list."""

    run: str
    tenant: str
    reason: str | None
    question: Question | None
    driver: str | None
    """The process that drives it now; null if none does."""
    phase: str
    """How it stands, in one word: the name of its phase."""
    at: str
    """The state of the file at which it is or ended."""


class CallAgainBody(create_model("CallAgain", **_fields(CallAgain))):
    """Calls of one kind that a retry would make again."""


class CallInDoubtBody(create_model("CallInDoubt", **_fields(CallInDoubt))):
    """A paid call of which nobody knows whether it was carried out."""


class LimitReachedBody(create_model("LimitReached", **_fields(LimitReached))):
    """A limit that would stop the retry as it stopped the run."""


class RetryPlanBody(create_model("RetryPlan", **_fields(RetryPlan, "calls", "doubts", "limits"))):
    """What trying a run again would keep, and which calls it would make again."""

    calls: list[CallAgainBody]
    doubts: list[CallInDoubtBody]
    limits: list[LimitReachedBody]
    cost: float | None
    """What these calls cost before, in USD; null if it is not known."""
    tokens: int
    digest: str
    """What somebody agrees to: the `confirm` of `POST /runs/ID/retry`."""
    needs_confirmation: bool
    lines: list[str]
    """The plan in words."""
    label: str
    """The label of the state, as the picture shows it."""


class RunList(BaseModel):
    """A page of runs, the newest first."""

    runs: list[RunSummary]
    next: str | None = None
    """The cursor of the next page; null on the last."""


class RunSpan(BaseModel):
    """The runs that began in a span of time."""

    at: float
    """Its beginning, in epoch seconds."""
    runs: dict[str, int]
    """How many, by the name of their phase."""


class RunCounts(BaseModel):
    """How many runs began when; spans without a run are left out."""

    since: float
    until: float
    width: float
    """The seconds of each span."""
    spans: list[RunSpan]


class RecordList(BaseModel):
    """Records of a run."""

    records: list[Json]
    next: int | None = None
    """The number of the next record; null on the last page."""
