"""Document 000 in Python: its names, its fields with their defaults, and its five examples.

The examples are taken out of the document. Only their import lines are rewritten, and the agent
is given a script in place of its model.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import AgentStop, load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.compat import geist
from chartloop.compat.geist import (
    AgentContext,
    AgentExecutionResult,
    AgentExecutor,
    AgentSettings,
    AgentStoppingConditions,
    ExecutionError,
    GPT4Agent,
    StoppingReason,
)
from chartloop.core.errors import RunError, SetupError
from chartloop.core.plain import plain
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.testing import Scripted
from tests.cases.test_geist import BAD, DONE, FOUR, SAME, calling, reply, tick
from tests.cases.test_lines import document


class SendgridAdapter:
    """The adapter that the document names."""

    def send_email(self, to: str) -> str:
        """Sends a mail."""
        return f"sent to {to}"

    def _connect(self) -> None: ...


def agent(script: Sequence[Any], **context: Any) -> GPT4Agent:
    """An agent with a scripted model."""
    known = AgentContext(execution_classes=[SendgridAdapter], **context)
    return GPT4Agent(script=list(script), agent_context=known)


def execute(script: Sequence[Any], task: str | None = "Write.", **conditions: Any) -> Any:
    """An execution under these conditions."""
    return AgentExecutor(agent(script), AgentStoppingConditions(**conditions)).execute(task)


# the examples of the document ---------------------------------------------------------------

MAIL = [*SAME[:2], calling(("SendgridAdapter_send_email", {"to": "ann"}))]


def example(number: int) -> str:
    """The code of an example, without its imports."""
    text = "\n".join(document("000"))
    found = re.search(
        rf"^### Example {number}: .*?^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return re.sub(r"^from agents\.\w+ import \w+\n", "", found[1], flags=re.MULTILINE)


class Example(NamedTuple):
    """An example of the document, what its model says, and what it prints."""

    number: int
    script: Sequence[Any]
    prints: Sequence[str]
    result: Mapping[str, Any]


EXAMPLES = [
    Example(
        1, [*FOUR[:3], *tick(tasks=())],
        ["Stopped: StoppingReason.TASK_COMPLETE", "Iterations: 2", "Success: True"],
        {"stopping_reason": StoppingReason.TASK_COMPLETE, "iterations_completed": 2},
    ),
    Example(
        2, [{**r, "usage": {"prompt_tokens": 14_000, "completion_tokens": 0}} for r in FOUR[:6]]
        + DONE,
        ["Warnings: ['usage.total_tokens is at 84,000, near its bound limits.max_tokens (100,000)']"],
        {"success": True, "tokens_used": 84_300},
    ),
    Example(
        3, [*SAME, *MAIL], [],
        {"stopping_reason": StoppingReason.CUSTOM_CONDITION, "iterations_completed": 2},
    ),
    Example(
        4, [*FOUR[:6], *DONE],
        [
            f"Iteration {n}: {{'world_context': ['It rains.'], 'task_context': ['Write'],"
            f" 'execution_context': ['{said}']}}"
            for n, said in ((1, "Line 0."), (2, "Line 1."), (3, "TASK_COMPLETE: done"))
        ],
        {"stopping_reason": StoppingReason.TASK_COMPLETE, "iterations_completed": 3},
    ),
    Example(
        5, BAD * 3,
        ["Failed after 3 errors", *["  - `geist_tick` stopped for `error`: `geist_phase` stopped for `retry_limit`"] * 3],
        {"stopping_reason": StoppingReason.ERROR_THRESHOLD, "success": False},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: f"example-{case.number}")
def test_an_example_of_the_document_runs(
    case: Example, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none-of-ours")
    names = {"os": os, "script": list(case.script), **{n: getattr(geist, n) for n in geist.__all__}}
    code = example(case.number).replace("GPT4Agent(", "GPT4Agent(script=script, ")
    if "agent = " not in code:
        names["agent"] = agent(case.script)
    exec(compile(code, "document 000", "exec"), names)  # noqa: S102  the document's own code
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(case.prints)
    for line, begins in zip(printed, case.prints, strict=True):
        assert line.startswith(begins)
    came: Any = names.get("final") or names["result"]
    assert {name: getattr(came, name) for name in case.result} == case.result


def test_the_other_end_of_the_last_example(capsys: pytest.CaptureFixture[str]) -> None:
    names = {"agent": agent(DONE), **{n: getattr(geist, n) for n in geist.__all__}}
    exec(compile(example(5), "document 000", "exec"), names)  # noqa: S102
    assert capsys.readouterr().out == "Completed successfully: TASK_COMPLETE: done\n"


# names, fields and defaults -----------------------------------------------------------------


def fields_in_the_document(name: str) -> dict[str, str]:
    """Fields of a class as the document writes them, with their defaults; the last one counts."""
    found: dict[str, str] = {}
    for body in re.findall(
        rf"^class {name}.*?:\n(.*?)(?=^\S|\Z)", "\n".join(document("000")), re.MULTILINE | re.DOTALL
    ):
        body = body.split("    def ")[0]
        for field, default in re.findall(
            r"^    (\w+): [^=#\n]+(?:= ([^#\n]+))?", body, re.MULTILINE
        ):
            found[field] = default.strip() or found.get(field, "")
    return found


def test_the_reasons_are_those_of_the_document() -> None:
    text = "\n".join(document("000"))
    written = dict(re.findall(r'^    ([A-Z_]+) = "(\w+)"$', text, re.MULTILINE))
    assert {reason.name: reason.value for reason in StoppingReason} == written
    assert set(geist.REASONS.values()) == set(StoppingReason)


def test_the_conditions_are_those_of_the_document_with_its_defaults() -> None:
    written = fields_in_the_document("AgentStoppingConditions")
    assert len(written) == 10
    for name, default in written.items():
        value = getattr(AgentStoppingConditions(), name)
        assert value == eval(default), name  # noqa: S307  literals of the document


@pytest.mark.parametrize("name", ["AgentExecutionResult", "AgentContext"])
def test_the_fields_are_those_of_the_document(name: str) -> None:
    written = fields_in_the_document(name)
    assert len(written) >= 11
    ours = {field.name for field in dataclasses.fields(getattr(geist, name))}
    assert written.keys() <= ours


def test_the_machine_has_a_limit_or_variable_for_each_condition() -> None:
    spec = load("geist").spec
    known = {*spec.limits, *spec.vars, *spec.define}
    assert fields_in_the_document("AgentStoppingConditions").keys() <= known


@pytest.mark.parametrize("field", AgentStoppingConditions().limits)
def test_a_limit_of_the_machine_has_the_documents_default(field: str) -> None:
    default = AgentStoppingConditions().limits[field]
    limit = plain(load("geist").spec.limits[field].value)
    assert limit == default


# stopping -----------------------------------------------------------------------------------


def writes(context: AgentContext) -> bool:
    return "Write" in context.task_context


class Stops(NamedTuple):
    id: str
    conditions: Mapping[str, Any]
    script: Sequence[Any]
    reason: StoppingReason
    ticks: int


@pytest.mark.parametrize(
    "case",
    [
        Stops("iterations", {"max_iterations": 2}, SAME * 2, StoppingReason.MAX_ITERATIONS, 2),
        Stops("iterations-none", {"max_iterations": None}, DONE, StoppingReason.TASK_COMPLETE, 1),
        Stops("iterations-zero-is-off", {"max_iterations": 0}, DONE, StoppingReason.TASK_COMPLETE, 1),
        Stops("tokens", {"max_tokens": 300}, SAME, StoppingReason.MAX_TOKENS, 1),
        Stops("tokens-zero-is-off", {"max_tokens": 0}, DONE, StoppingReason.TASK_COMPLETE, 1),
        Stops("timeout", {"timeout_seconds": 0.05}, [*SAME[:2], reply("x", delay="2s")], StoppingReason.TIMEOUT, 0),
        Stops("timeout-zero-is-off", {"timeout_seconds": 0}, DONE, StoppingReason.TASK_COMPLETE, 1),
        Stops("errors-in-a-row", {"max_consecutive_errors": 2}, BAD * 2, StoppingReason.ERROR_THRESHOLD, 0),
        Stops("errors-in-all", {"max_total_errors": 1}, BAD, StoppingReason.ERROR_THRESHOLD, 0),
        Stops("no-progress", {"require_progress_every_n_ticks": 2}, SAME * 2, StoppingReason.NO_PROGRESS, 2),
        Stops("no-progress-zero-is-off", {"require_progress_every_n_ticks": 0, "max_iterations": 6}, SAME * 6, StoppingReason.MAX_ITERATIONS, 6),
        Stops("custom", {"custom_condition": writes}, SAME, StoppingReason.CUSTOM_CONDITION, 1),
        Stops("marker", {"completion_markers": ["Line 1"]}, FOUR[:6], StoppingReason.TASK_COMPLETE, 2),
        Stops("queue", {}, tick(tasks=()), StoppingReason.TASK_COMPLETE, 1),
        Stops("queue-not-looked-at", {"stop_when_task_queue_empty": False, "max_iterations": 2}, tick(tasks=()) * 2, StoppingReason.MAX_ITERATIONS, 2),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_it_stops(case: Stops) -> None:
    result = execute(case.script, **case.conditions)
    assert (result.stopping_reason, result.iterations_completed) == (case.reason, case.ticks)
    assert result.success is (case.reason is StoppingReason.TASK_COMPLETE)


def test_without_conditions_it_has_those_of_the_document() -> None:
    result = AgentExecutor(agent(SAME * 5)).execute("Write.")
    assert result.stopping_reason is StoppingReason.NO_PROGRESS


def test_a_marker_ends_the_steps_of_the_document() -> None:
    text = "\n".join(document("000"))
    found = re.search(r'^# In execution_context\n(\[".*?"\])', text, re.MULTILINE | re.DOTALL)
    assert found is not None
    steps = json.loads(found[1])
    result = execute(tick(*steps))
    assert result.stopping_reason is StoppingReason.TASK_COMPLETE
    assert result.final_context.execution_context == steps
    assert result.final_context.completion_message == "TASK_COMPLETE: Research finished"


def test_a_task_that_waits_needs_none_to_be_given() -> None:
    known = agent(DONE)
    known.initialize("Write.")
    assert AgentExecutor(known).execute().iterations_completed == 1
    assert AgentExecutor(agent([])).execute().iterations_completed == 0


@dataclasses.dataclass(slots=True)
class OwnContext(AgentContext):
    """A context with a field of the application."""

    asked: int = 0


class Asked(Scripted):
    """A scripted model that keeps what it was asked."""

    def __init__(self, replies: Sequence[Any]) -> None:
        super().__init__(replies)
        self.requests: list[str] = []

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """Keep the request as text; reply."""
        self.requests.append(str(request.messages))
        return await super().complete(request, on_text)


def test_a_custom_condition_gets_the_agents_own_context() -> None:
    seen: list[AgentContext] = []

    def watches(context: AgentContext) -> bool:
        assert isinstance(context, OwnContext)
        context.asked += 1
        seen.append(context)
        return context.asked == 3

    own = OwnContext(
        execution_classes=[SendgridAdapter],
        subprocess_id=7,
        settings=AgentSettings(temperature=0.3),
    )
    known = GPT4Agent(agent_context=own, script=SAME * 3)
    conditions = AgentStoppingConditions(custom_condition=watches)
    result = AgentExecutor(known, conditions).execute("Write.")
    assert (result.stopping_reason, result.iterations_completed) == (
        StoppingReason.CUSTOM_CONDITION, 2,
    )  # fmt: skip
    assert all(context is own for context in seen)
    assert own.asked == 3
    assert isinstance(result.final_context, OwnContext)


@pytest.mark.parametrize("way", ["execute", "aexecute", "stream"])
def test_what_a_custom_condition_writes_stays(way: str) -> None:
    def writes_down(context: AgentContext) -> bool:
        context.execution_context.append("looked at")
        context.function_log.append(f"condition {len(context.function_log)}")
        return len(context.function_log) == 3

    model = Asked(SAME * 4)
    known = GPT4Agent(model=model, agent_context=AgentContext())
    executor = AgentExecutor(known, AgentStoppingConditions(custom_condition=writes_down))
    if way == "execute":
        result = executor.execute("Write.")
    elif way == "aexecute":
        result = asyncio.run(executor.aexecute("Write."))
    else:
        *_, result = executor.execute("Write.", stream_updates=True)
    assert (result.stopping_reason, result.iterations_completed) == (
        StoppingReason.CUSTOM_CONDITION, 2,
    )  # fmt: skip
    assert result.final_context.function_log == ["condition 0", "condition 1", "condition 2"]
    assert result.final_context.execution_context[-1] == "looked at"
    # the model is told in the next tick, and a replay decides the same without asking again
    assert "looked at" in model.requests[0]
    assert "condition 1" in model.requests[len(SAME)]
    assert executor.run is not None
    assert executor.run.replay().same
    assert len(known.agent_context.function_log) == 3


def test_another_thread_interrupts_it() -> None:
    executor = AgentExecutor(agent(FOUR))

    def impatient(context: AgentContext) -> bool:
        thread = threading.Thread(target=executor.interrupt)
        thread.start()
        thread.join()
        return False

    executor.conditions.custom_condition = impatient
    result = executor.execute("Write.")
    assert (result.stopping_reason, result.success) == (StoppingReason.USER_INTERRUPT, False)


def test_ctrl_c_interrupts_it() -> None:
    executor = AgentExecutor(agent(SAME))

    def press(context: AgentContext) -> bool:
        if context.execution_context:
            os.kill(os.getpid(), signal.SIGINT)
            until = time.monotonic() + 10
            while not executor._interrupts.is_requested() and time.monotonic() < until:  # pyright: ignore[reportPrivateUsage]
                time.sleep(0.01)
        return False

    executor.conditions.custom_condition = press
    assert executor.execute("Write.").stopping_reason is StoppingReason.USER_INTERRUPT


def test_a_custom_condition_that_raises_raises_to_the_caller() -> None:
    def broken(context: AgentContext) -> bool:
        raise LookupError("a mistake of mine")

    with pytest.raises(LookupError, match="a mistake of mine"):
        execute(SAME, custom_condition=broken)


def test_an_adapter_stops_it() -> None:
    def halt() -> str:
        """Stops."""
        raise AgentStop("enough")

    known = GPT4Agent(
        script=[*SAME[:2], calling(("halt", {}))],
        agent_context=AgentContext(execution_classes=[halt]),
    )
    result = AgentExecutor(known).execute("Write.")
    assert result.stopping_reason is StoppingReason.CUSTOM_CONDITION
    assert result.iterations_completed == len(result.tick_history) == 1
    assert result.final_context.function_log == ["halt {} -> enough"]


def test_early_stopping_has_two_words() -> None:
    with pytest.raises(ValueError, match="force or generate"):
        AgentStoppingConditions(early_stopping="never")  # pyright: ignore[reportArgumentType]
    result = execute([*SAME, reply("An answer.")], max_iterations=1, early_stopping="generate")
    assert (result.result, result.success) == ("An answer.", False)


# the result ---------------------------------------------------------------------------------


def test_every_field_of_the_result() -> None:
    result = execute([*BAD, *FOUR[:3], *MAIL, *DONE], max_tokens=1_000, max_consecutive_errors=5)
    assert result.success
    assert (result.iterations_completed, result.tokens_used) == (3, 1_200)
    assert 0 < result.execution_time_seconds < 60
    assert [t["execution_context"] for t in result.tick_history] == result.partial_results == [
        ["Line 0."], ["[SendgridAdapter_send_email]"], ["TASK_COMPLETE: done"],
    ]  # fmt: skip
    assert [t["tokens_used"] for t in result.tick_history] == [300] * 3
    assert result.function_calls == [
        {
            "iteration": 2,
            "name": "SendgridAdapter_send_email",
            "arguments": {"to": "ann"},
            "ok": True,
            "result": "sent to ann",
        }
    ]
    assert [type(e) for e in result.errors] == [ExecutionError]
    assert result.result == "TASK_COMPLETE: done"
    assert result.warnings == [
        "usage.total_tokens is at 900, near its bound limits.max_tokens (1,000)"
    ]
    assert result.token_usage_timeline == [600, 900, 1_200]
    assert result.execution_timeline == sorted(result.execution_timeline)
    assert len(result.execution_timeline) == 3


def test_calls_of_a_failed_tick_are_on_the_result() -> None:
    wrong = calling(("SendgridAdapter_send_email", {"to": "ann"}), ("fly", {}))
    result = execute([*SAME[:2], wrong, *DONE])
    calls = [(c["iteration"], c["name"], c["ok"]) for c in result.function_calls]
    assert calls == [(1, "SendgridAdapter_send_email", True), (1, "fly", False)]
    assert "sent to ann" in str(result.errors[0])


def test_the_context_is_left_as_the_last_tick_left_it() -> None:
    known = agent([*MAIL, *DONE], world_context=["It snows."])
    result = AgentExecutor(known).execute("Write.")
    context = known.agent_context
    assert result.final_context == context
    assert context.world_context == ["It rains."]
    assert context.function_log == ['SendgridAdapter_send_email {"to": "ann"} -> sent to ann']
    assert (context.is_complete, context.completion_message) == (True, "TASK_COMPLETE: done")
    assert context.total_tokens_used == 600
    assert context.execution_start_time is not None


def test_a_stream_gives_each_tick_and_then_the_result() -> None:
    executor = AgentExecutor(agent([*FOUR[:6], *DONE]))
    given = list(executor.execute("Write.", stream_updates=True))
    assert [r.iterations_completed for r in given] == [1, 2, 3]
    assert [r.stopping_reason for r in given] == [None, None, StoppingReason.TASK_COMPLETE]
    assert [r.current_state["execution_context"] for r in given] == [
        ["Line 0."], ["Line 1."], ["TASK_COMPLETE: done"],
    ]  # fmt: skip


def test_leaving_a_stream_interrupts_it() -> None:
    executor = AgentExecutor(agent(FOUR))
    for partial in executor.execute("Write.", stream_updates=True):
        assert partial.iterations_completed == 1
        break
    assert executor.run is not None
    assert str(executor.run.result.reason) == "user_requested"
    assert executor.run.result.tokens == 300  # nothing was executed ahead


def test_a_run_asks_why_and_is_kept_in_a_journal(tmp_path: Any) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    executor = AgentExecutor(agent(DONE), journal=journal)
    executor.execute("Write.")
    assert executor.run is not None
    assert executor.run.replay().same
    assert "marker → complete → result" in str(executor.run.why(1))


# agents -------------------------------------------------------------------------------------


def test_a_single_tick_is_still_one() -> None:
    known = agent(tick("step", tasks=["Write.", "Read."]))
    known.initialize("Write.")
    assert known.tick() == {
        "world_context": ["It rains."],
        "task_context": ["Write.", "Read."],
        "execution_context": ["step"],
    }
    assert known.agent_context.total_tokens_used == 300
    with pytest.raises(RunError, match="no task"):
        agent([]).tick()
    with pytest.raises(RunError, match="geist_phase"):
        agent(BAD, task_context=["Write."]).tick()


def test_the_settings_reach_the_model() -> None:
    known = GPT4Agent(agent_context=AgentContext(settings=AgentSettings(1000, 0.7)))
    assert known.components == {
        "settings": {"max_tokens": 1000, "temperature": 0.7},
        "model": "openai/gpt-4o",
    }


def test_the_world_is_left_out_when_the_settings_say_so() -> None:
    settings = AgentSettings(include_world_processing=False)
    known = agent(DONE[1:], settings=settings, world_context=["It snows."])
    result = AgentExecutor(known).execute("Write.")
    assert (result.success, result.final_context.world_context) == (True, ["It snows."])


def test_the_public_methods_of_adapters_are_tools() -> None:
    def plain(a: int) -> int:
        """A function."""
        return a

    known = GPT4Agent(agent_context=AgentContext(execution_classes=[SendgridAdapter(), plain]))
    assert [t.name for t in known.tools] == ["SendgridAdapter_send_email", "plain"]


def test_a_key_in_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "one-key")
    GPT4Agent(api_key="one-key")
    with pytest.raises(SetupError, match="environment"):
        GPT4Agent(api_key="another-key")


def test_tokens_that_were_used_elsewhere_are_counted_in() -> None:
    class Usage:
        total_tokens = 7

    class Completion:
        usage = Usage()

    context = AgentContext()
    context.add_completion_tokens(Completion())
    context.add_completion_tokens(object())
    assert context.total_tokens_used == 7


def test_a_result_is_plain_data() -> None:
    result = execute(DONE)
    assert isinstance(result, AgentExecutionResult)
    data = result.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert list(data) == [field.name for field in dataclasses.fields(AgentExecutionResult)]
    assert (data["stopping_reason"], data["iterations_completed"]) == ("task_complete", 1)


def test_a_result_has_the_shape_of_the_documents_answer() -> None:
    text = "\n".join(document("000"))
    answer = text.partition("# Response: Execution result\n")[2].partition("```")[0]
    written = re.findall(r'^    "(\w+)":', answer, re.MULTILINE)
    assert len(written) == 8
    assert set(written) <= execute(DONE).to_dict().keys()


def test_errors_and_settings_are_plain_data_too() -> None:
    data = execute(BAD * 3).to_dict()
    assert [set(error) for error in data["errors"]] == [{"message", "step"}] * 3
    assert json.loads(json.dumps(data)) == data
    conditions = AgentStoppingConditions(custom_condition=writes).to_dict()
    assert fields_in_the_document("AgentStoppingConditions").keys() <= conditions.keys()
    assert conditions["custom_condition"] == "writes"
    context = agent([]).agent_context.to_dict()
    assert context["execution_classes"] == ["SendgridAdapter"]
    assert json.loads(json.dumps([context, conditions])) == [context, conditions]


# phases of an agent's own ---------------------------------------------------------------------


class Looks(GPT4Agent):
    """An agent that looks at the world itself."""

    def tick_world(self) -> None:
        self.agent_context.world_context.append("I looked.")


class AddsTasks(GPT4Agent):
    """An agent that reasons as usual, and adds to that."""

    def tick_tasks(self) -> None:
        super().tick_tasks()
        self.agent_context.task_context.append("and read it again")


class Executes(GPT4Agent):
    """An agent without a model in any phase."""

    tick_world = Looks.tick_world

    def tick_tasks(self) -> None:
        self.agent_context.task_context = []

    def tick_execution(self) -> None:
        self.agent_context.execution_context.append("done by hand")
        self.agent_context.function_log.append("hand {} -> done")


class Fails(GPT4Agent):
    """An agent whose world cannot be reached."""

    def tick_world(self) -> None:
        raise OSError("no world today")


def test_a_phase_of_its_own_is_called_in_a_tick() -> None:
    known = Looks(script=FOUR[1:3])
    known.initialize("Write.")
    assert known.tick()["world_context"] == ["I looked."]


def test_a_phase_of_its_own_is_called_in_every_tick_of_an_execution() -> None:
    result = AgentExecutor(Looks(script=[*FOUR[1:3], *DONE[1:]])).execute("Write.")
    assert (result.success, result.iterations_completed) == (True, 2)
    assert result.final_context.world_context == ["I looked.", "I looked."]
    assert result.tokens_used == 400  # of the two other phases


@pytest.mark.slow("takes seconds")
def test_a_phase_may_call_the_one_it_overrides_and_its_tokens_count() -> None:
    executor = AgentExecutor(AddsTasks(script=[*FOUR[:3], *DONE]))
    result = executor.execute("Write.")
    assert result.final_context.task_context == ["Write", "and read it again"]
    assert (result.success, result.tokens_used) == (True, 600)


def test_all_phases_may_be_the_agents_own() -> None:
    result = AgentExecutor(Executes(script=[])).execute("Write.")
    assert (result.stopping_reason, result.tokens_used) == (StoppingReason.TASK_COMPLETE, 0)
    assert result.final_context.execution_context == ["done by hand"]
    assert result.final_context.function_log == ["hand {} -> done"]


def test_a_phase_of_its_own_that_fails_is_a_failed_tick() -> None:
    result = AgentExecutor(Fails(script=[])).execute("Write.")
    assert (result.stopping_reason, len(result.errors)) == (StoppingReason.ERROR_THRESHOLD, 3)
    assert "no world today" in str(result.errors[0])


def test_the_world_of_its_own_is_left_out_too_when_the_settings_say_so() -> None:
    context = AgentContext(settings=AgentSettings(include_world_processing=False))
    result = AgentExecutor(Looks(script=DONE[1:], agent_context=context)).execute("Write.")
    assert (result.success, result.final_context.world_context) == (True, [])


def test_the_picture_shows_whose_phase_it_is() -> None:
    executor = AgentExecutor(Executes(script=[]))
    executor.execute("Write.")
    assert executor.run is not None
    tick = executor.run.session.chart.child("geist_tick").spec
    done_by = [tick.states[n].action for n in ("world", "tasks", "execution")]
    assert [a.name for a in done_by if a] == ["tick_world", "tick_tasks", "tick_execution"]


def test_what_would_never_be_called_is_refused() -> None:
    class Ticks(GPT4Agent):
        def tick(self, *, journal: Any = None) -> dict[str, list[str]]:
            return {}

    with pytest.raises(SetupError, match=r"never calls `Ticks\.tick`"):
        AgentExecutor(Ticks())
    with pytest.raises(SetupError, match="would never be called"):

        class Own(AgentExecutor):  # pyright: ignore[reportUnusedClass]
            def _has_made_progress(self) -> bool:
                return True


# the async face, completion, journal ------------------------------------------------------------


@pytest.mark.slow("takes seconds")
def test_an_execution_inside_an_event_loop() -> None:
    async def main() -> tuple[AgentExecutionResult, list[int], dict[str, list[str]]]:
        result = await AgentExecutor(agent([*FOUR[:3], *DONE])).aexecute("Write.")
        stream = AgentExecutor(agent([*FOUR[:3], *DONE])).astream("Write.")
        parts = [part.iterations_completed async for part in stream]
        known = agent(FOUR[:3])
        known.initialize("Write.")
        return result, parts, await known.atick()

    result, parts, came = asyncio.run(main())
    assert (result.success, result.iterations_completed, parts) == (True, 2, [1, 2])
    assert came["world_context"] == ["It rains."]


def test_a_text_is_completed_by_one_call() -> None:
    known = agent([{"text": "Hello.", "usage": {"prompt_tokens": 5, "completion_tokens": 2}}])
    assert known.complete_text("Say hello.") == "Hello."
    assert known.agent_context.total_tokens_used == 7
    assert asyncio.run(agent(["Bye."]).acomplete_text("Say bye.")) == "Bye."
    with pytest.raises(RunError, match="no key"):
        agent([{"error": {"category": "CRITICAL", "message": "no key"}}]).complete_text("Hm.")


def test_a_tick_is_kept_where_initialize_says(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    known = agent([*FOUR[:3]])
    known.initialize("Write.", journal=journal)
    known.tick()
    rows = [row.machine for row in asyncio.run(_rows(journal))]
    assert "geist_tick" in rows


async def _rows(journal: SqliteJournal) -> Any:
    return await journal.rows()


def test_the_executor_knows_of_itself_what_the_documents_does() -> None:
    executor = AgentExecutor(agent([*FOUR[:3], *BAD, *DONE]))
    assert (executor.iteration_count, executor.token_count, executor.start_time) == (0, 0, None)
    executor.execute("Write.")
    assert (executor.iteration_count, executor.error_count, executor.consecutive_errors) == (
        2,
        1,
        0,
    )
    assert (len(executor.tick_history), executor.last_progress_tick) == (2, 0)
    assert executor.token_count > 0


# what is left at an early stop --------------------------------------------------------------


def test_a_final_answer_in_plain_text_is_kept() -> None:
    said = {**SAME[0], "text": "The report has three parts."}
    result = execute([*SAME, said], max_iterations=1, early_stopping="generate")
    assert (result.result, result.warnings) == ("The report has three parts.", [])


def test_a_tick_that_is_cut_off_keeps_its_calls_apart_from_errors() -> None:
    over = threading.Event()

    class Slow:
        def send(self, to: str) -> str:
            """Sends."""
            return f"sent to {to}"

        def wait(self) -> str:
            """Waits until the test is over."""
            over.wait(60)
            return "waited"

    context = AgentContext(execution_classes=[Slow])
    script = [*SAME[:2], calling(("Slow_send", {"to": "ann"}), ("Slow_wait", {}))]
    known = GPT4Agent(script=script, agent_context=context)
    result = AgentExecutor(known, AgentStoppingConditions(timeout_seconds=5)).execute("Write.")
    over.set()
    assert result.stopping_reason is StoppingReason.TIMEOUT
    assert result.function_calls[0]["name"] == "Slow_send"
    log = result.final_context.function_log
    assert log[0] == 'Slow_send {"to": "ann"} -> sent to ann'
    assert not any(line.startswith("tick took too long") for line in log)
    assert "took too long" in str(result.errors[0])
