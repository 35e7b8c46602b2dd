"""Spans and metrics of runs, as a collector receives them over OTLP."""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from chartloop import Image, Machine, MemoryJournal, OpenTelemetry, load, tool
from chartloop.adapters.tracer.names import TRANSITION, Metric, Name
from chartloop.adapters.tracer.otel import AT_EXIT
from chartloop.adapters.tracer.span_queue import MOST, SpanQueue
from chartloop.core.records import Record
from chartloop.run.journal import Journal, direct_journal
from chartloop.run.redact import Redactor
from chartloop.run.sync import by_hand
from tests.collector import Collector, ReadSpan, roots, tree

pytestmark = pytest.mark.extra(  # noqa: S610 - no Django
    "opentelemetry.exporter.otlp.proto.http", install='pip install -e ".[test-all]"'
)
ROOT = Path(__file__).resolve().parents[2]
SECRET = "sk-live-4242424242424242424242"


class Kept(NamedTuple):
    """Telemetry whose spans and figures a collector keeps."""

    collector: Collector
    telemetry: OpenTelemetry
    provider: Any

    def spans(self) -> list[ReadSpan]:
        """Everything that was sent so far."""
        assert self.telemetry.flush(60)
        return self.collector.spans()


def exporting(collector: Collector, **options: Any) -> OpenTelemetry:
    """Telemetry that sends to a collector, with providers of its own."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    spans = TracerProvider(shutdown_on_exit=False)
    spans.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces"))
    )
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(endpoint=f"{collector.url}/v1/metrics"), export_interval_millis=3_600_000
    )
    meters = MeterProvider([reader], shutdown_on_exit=False)
    made.extend((spans, meters))
    return OpenTelemetry(spans, meters, **options)


made: list[Any] = []
"""The providers of a test: their threads end with it."""


@contextmanager
def collecting(folder: Path, **options: Any) -> Generator[Kept]:
    """A collector, and telemetry that sends to it."""
    with Collector(folder) as collector:
        telemetry = exporting(collector, **options)
        try:
            yield Kept(collector, telemetry, made[0])
        finally:
            for provider in made:  # while there is someone to tell
                provider.shutdown()
            made.clear()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    with collecting(tmp_path / "collected") as kept:
        yield kept


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


PRICES = {"input_cost_per_token": 1.0, "output_cost_per_token": 2.0}
CALL = {"tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}


def calculator() -> Machine:
    return load(ROOT / "examples/first/machine.yaml", tools=[add])


# the tree ---------------------------------------------------------------------------------------

DESK = """
chartloop: 1
machine: desk
model: openai/gpt-4o-mini
tools: [add]
limits: {steps: 20, patience: 2d}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
machines:
  checker:
    tools: [add]
    states:
      task: {do: receive, next: look}
      look: {do: infer, next: [{when: len(last.tool_calls) > 0, to: count}, {to: fine}]}
      count: {do: call_tools, next: look}
      fine: {stop: completed}
states:
  task: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: check}]}
  act: {do: call_tools, next: think}
  check: {do: run_machine, with: {machine: checker, task: "Check {{ last.text }}"}, next: approve}
  approve: {ask: "Publish it?", on: {yes: say, no: think}, within: limits.patience, expired: late}
  say: {do: infer, next: done}
  late: {stop: user_unresponsive}
  done: {stop: completed}
"""


def desk() -> Machine:
    return load(DESK, tools=[add])


def expected(machine: Machine, journal: Journal, run_id: str, since: int = 0) -> list[Any]:
    """What the spans below a run's are to be, told by nothing but its records from `since` on."""
    found: list[Any] = []
    for record in _records(journal, run_id)[since:]:
        if record.kind not in ("step", "blocked"):
            continue
        action = machine.spec.states[record.state].action
        assert action is not None
        found.append((f"{action.name} {record.state}", tuple(_below(machine, journal, record))))
    return found


def _below(machine: Machine, journal: Journal, record: Record) -> Iterator[Any]:
    outcome = record.outcome
    if outcome is None:
        return
    if outcome.reply is not None:
        yield f"chat {machine.spec.model.get('name', '')}".strip(), ()
    result: Any = outcome.result
    if isinstance(result, list):
        calls = cast("list[Any]", result)
        yield from ((f"execute_tool {call['name']}", ()) for call in calls)
    elif "run" in result:
        child = machine.spec.machines[result["machine"]]
        inner = Machine(machine.chart.child(child.name))
        below = tuple(expected(inner, journal, result["run"]))
        yield f"invoke_agent {child.name}", below


def _records(journal: Journal, run_id: str) -> list[Record]:
    events = by_hand(journal.events(run_id))
    return [event.record for event in events if event.record is not None]


def test_the_spans_of_a_run_its_child_and_its_resumed_half_are_its_records(
    kept: Kept, tmp_path: Path
) -> None:
    machine, path = desk(), tmp_path / "runs.db"
    script = [CALL, "5", CALL, "It is right.", "Published."]
    run = machine.start("2 + 3?", script=script, journal=path, tracer=kept.telemetry)
    run.run()
    assert run.status == "paused"
    waited = len(run.records)
    run.send("yes")
    # another process would do the same: it has the journal and a tracer of its own
    again = exporting(kept.collector)
    other = desk().open(run.id, journal=path, script=script, tracer=again)
    assert other.run().reason == "completed"
    assert again.flush(60)

    spans = kept.spans()
    first, second = roots(spans)
    journal = direct_journal(run.session.journal)
    assert tree(spans, first) == (
        "invoke_workflow desk", tuple(expected(machine, journal, run.id)[:5]),
    )  # fmt: skip
    assert tree(spans, second) == (
        "invoke_workflow desk", tuple(expected(machine, journal, run.id, waited)),
    )  # fmt: skip
    assert second.links == [(first.trace, first.id)]
    assert (first.attributes["chartloop.run.resumed"], second.attributes["chartloop.run.resumed"]) == (
        False, True,
    )  # fmt: skip
    assert first.attributes["chartloop.run.status"] == "paused"
    assert "chartloop.stop.reason" not in first.attributes
    assert second.attributes["chartloop.stop.reason"] == "completed"

    seen = [
        event["chartloop.record.seq"]
        for span in spans
        for name, event in span.events
        if name == "chartloop.transition" and span.attributes["chartloop.run.id"] == run.id
    ]
    assert sorted(seen) == [record.seq for record in run.records]
    for span in spans:
        parents = [other for other in spans if other.id == span.parent]
        assert all(p.began <= span.began and span.ended <= p.ended for p in parents), span.name


def test_every_span_of_a_family_is_in_one_trace_and_names_its_run(kept: Kept) -> None:
    run = desk().start("2 + 3?", script=["5", "right", "done"], tracer=kept.telemetry)
    run.run()
    spans = kept.spans()
    assert len({span.trace for span in spans}) == 1
    child = next(span for span in spans if span.name == "invoke_agent checker")
    assert child.attributes["chartloop.run.parent"] == run.id
    assert child.attributes["chartloop.run.depth"] == 1
    assert {span.attributes["chartloop.run.id"] for span in spans} == {
        run.id, child.attributes["chartloop.run.id"],
    }  # fmt: skip


def test_a_session_is_the_conversation_of_all_its_spans(kept: Kept) -> None:
    run = calculator().start("2 + 3?", script=[CALL, "5"], session="s7", tracer=kept.telemetry)
    run.run()
    run.next("And 3 + 4?", script=["7"]).run()
    spans = kept.spans()
    assert {span.attributes["gen_ai.conversation.id"] for span in spans} == {"s7"}
    _, following = roots(spans)
    assert following.attributes["chartloop.run.parent"] == run.id


def test_a_provider_that_is_set_later_is_used_and_flushed() -> None:
    code = """
from opentelemetry import trace
from chartloop import OpenTelemetry, load
telemetry = OpenTelemetry()
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))
trace.set_tracer_provider(provider)
load("agent").run("x", script=["y"], tracer=telemetry)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert '"name": "invoke_agent agent"' in done.stdout


def test_the_decision_is_on_the_span_of_its_action(kept: Kept) -> None:
    run = calculator().start("2 + 3?", script=[CALL, "5"], tracer=kept.telemetry)
    run.run()
    think = next(span for span in kept.spans() if span.name == "infer think")
    ((_, event),) = think.events
    assert event["chartloop.transition.from"] == "think"
    assert event["chartloop.transition.path"] == ["tool_wanted", "use_tools"]
    assert event["chartloop.transition.taken"] == ["think.next.0", "tool_wanted.then"]
    assert event["chartloop.transition.guards"] == ["otherwise", "len(last.tool_calls) > 0"]
    margins = dict(zip(event["chartloop.rules.guards"], event["chartloop.rules.left"], strict=True))
    why = {row.text: row.atoms[0].margin for row in run.why(2).rows if row.kind == "rule"}
    assert margins == why
    assert margins["run.steps >= limits.steps"] == "10"


def test_a_limit_is_no_error_and_its_rule_and_margins_are_on_the_run(kept: Kept) -> None:
    machine = calculator()
    machine.run("2 + 3?", script=[CALL, CALL], limits={"steps": 3}, tracer=kept.telemetry)
    (run,) = roots(kept.spans())
    assert run.attributes["chartloop.stop.reason"] == "steps_limit"
    assert run.attributes["chartloop.stop.kind"] == "limit"
    assert run.attributes["chartloop.stop.rule"] == machine.spec.rules[0].id
    assert run.attributes["chartloop.budget.run.steps"] == "3 of 3"
    assert run.status == 0


def test_a_run_that_ends_in_an_error_has_the_status_error(kept: Kept) -> None:
    @tool
    def breaks() -> int:
        """Break."""
        raise ValueError("the disk of Mrs Smith is full")

    machine = load(
        "chartloop: 1\nmachine: m\ntools: [breaks]\nstates:\n"
        "  go: {do: tool, with: {name: breaks}, next: done}\n  done: {stop: completed}\n",
        tools=[breaks],
    )
    result = machine.run(tracer=kept.telemetry)
    assert result.kind == "error"
    spans = kept.spans()
    assert [(span.name, span.status) for span in spans] == [
        ("invoke_agent m", 2), ("tool go", 2), ("execute_tool breaks", 2),
    ]  # fmt: skip
    assert spans[0].attributes["error.type"] == result.reason
    assert spans[2].attributes["error.type"] == "RECOVERABLE"
    assert b"Mrs Smith" not in kept.collector.bytes  # what an exception says is content


def test_a_denied_call_has_no_span_and_is_no_error(kept: Kept) -> None:
    @tool
    def buy(x: int) -> str:
        """Buy."""
        return f"bought {x}"

    machine = load(
        "chartloop: 1\nmachine: m\nmodel: {name: scripted}\ntools: [buy]\n"
        "approve: {tools: [buy]}\nlimits: {steps: 9}\n"
        "rules: [{when: run.steps >= limits.steps, stop: steps_limit}]\nstates:\n"
        "  ask: {do: receive, next: think}\n  think: {do: infer, next: act}\n"
        "  act: {do: call_tools, next: done}\n  done: {stop: completed}\n",
        tools=[buy],
    )
    calls = [{"id": "ab"[n], "name": "buy", "arguments": {"x": n}} for n in range(2)]
    run = machine.start("x", script=[{"tool_calls": calls}], tracer=kept.telemetry)
    run.run()
    run.send("accept", {"calls": {"a": "accept", "b": "deny"}})
    assert run.run().reason == "completed"
    made = [span for span in kept.spans() if span.name.startswith("execute_tool")]
    assert [span.attributes["gen_ai.tool.call.id"] for span in made] == ["a"]
    assert all(span.status != 2 for span in kept.spans())


def test_a_model_call_has_what_the_conventions_ask_for(kept: Kept) -> None:
    parts = {"cached_tokens": 64, "cache_write_tokens": 5, "reasoning_tokens": 2}
    script = [{"text": "5", "usage": {"prompt_tokens": 70, "completion_tokens": 3, **parts}}]
    calculator().run("2 + 3?", script=script, settings=PRICES, tracer=kept.telemetry)
    chat = next(span for span in kept.spans() if span.name.startswith("chat"))
    assert chat.kind == 3  # CLIENT
    wanted = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "openai/gpt-4o-mini", "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 70, "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 64,
        "gen_ai.usage.cache_creation.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "chartloop.usage.cost": 76.0,
    }  # fmt: skip
    assert wanted.items() <= chat.attributes.items()


# what happens inside is current -----------------------------------------------------------------


@pytest.fixture
def page() -> Iterator[str]:
    """A page on this machine, for HTTP clients in tools."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.mark.extra("opentelemetry.instrumentation.httpx", install='pip install -e ".[test-all]"')  # noqa: S610 - no Django
def test_requests_of_a_tool_are_below_its_span_in_a_thread_and_in_a_coroutine(
    kept: Kept, page: str
) -> None:
    import httpx  # noqa: PLC0415
    from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor  # noqa: PLC0415

    provider = kept.provider

    @tool
    def in_a_thread() -> str:
        """Fetch a page."""
        with httpx.Client() as client:
            HTTPXClientInstrumentor.instrument_client(client, tracer_provider=provider)
            return client.get(page).text

    @tool
    async def in_a_coroutine() -> str:
        """Fetch a page."""
        async with httpx.AsyncClient() as client:
            HTTPXClientInstrumentor.instrument_client(client, tracer_provider=provider)
            return (await client.get(page)).text

    machine = load(
        "chartloop: 1\nmachine: m\ntools: [in_a_thread, in_a_coroutine]\nstates:\n"
        "  go: {do: infer, next: act}\n  act: {do: call_tools, next: done}\n"
        "  done: {stop: completed}\n",
        tools=[in_a_thread, in_a_coroutine],
    )
    both = {"tool_calls": [{"name": "in_a_thread"}, {"name": "in_a_coroutine"}]}
    machine.run("go", script=[both], tracer=kept.telemetry)
    spans = kept.spans()
    act = next(span for span in spans if span.name == "call_tools act")
    assert sorted(tree(spans, act)[1]) == [
        ("execute_tool in_a_coroutine", (("GET", ()),)), ("execute_tool in_a_thread", (("GET", ()),)),
    ]  # fmt: skip


def test_a_run_is_below_the_span_of_whoever_starts_it(kept: Kept) -> None:
    provider = kept.provider
    with provider.get_tracer("app").start_as_current_span("POST /ask"):
        calculator().run("2 + 3?", script=["5"], tracer=kept.telemetry)
    spans = kept.spans()
    (request,) = roots(spans)
    assert tree(spans, request)[1][0][0] == "invoke_agent calculator"


# content ----------------------------------------------------------------------------------------


def test_content_is_off(kept: Kept) -> None:
    machine = load(DESK, tools=[add])
    machine.run("The word is pumpernickel.", script=["pumpernickel"] * 3, tracer=kept.telemetry)
    assert kept.spans()
    assert b"pumpernickel" not in kept.collector.bytes


def test_content_has_the_shape_of_the_conventions(tmp_path: Path) -> None:
    with collecting(tmp_path, content=True) as kept:
        thinks = {**CALL, "reasoning": "I add them."}
        calculator().run("2 + 3?", script=[thinks, "5"], tracer=kept.telemetry)
        spans = kept.spans()
    first, second = (span for span in spans if span.name.startswith("chat"))
    thought = {"type": "reasoning", "content": "I add them."}
    called = {"type": "tool_call", "id": "call_0_0", "name": "add", "arguments": {"a": 2, "b": 3}}
    assert json.loads(first.attributes["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [thought, called], "finish_reason": "tool_calls"}
    ]
    sent = json.loads(second.attributes["gen_ai.input.messages"])
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
    assert sent[2]["parts"] == [thought, called]
    assert sent[1]["parts"] == [{"type": "text", "content": "2 + 3?"}]
    assert sent[3]["parts"] == [{"type": "tool_call_response", "id": "call_0_0", "result": "5"}]
    (call,) = (span for span in spans if span.name == "execute_tool add")
    assert json.loads(call.attributes["gen_ai.tool.call.arguments"]) == {"a": 2, "b": 3}
    assert call.attributes["gen_ai.tool.call.result"] == "5"


@pytest.mark.parametrize("content", [False, True])
def test_no_secret_is_in_any_byte_that_leaves(
    tmp_path: Path, content: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTNER_TOKEN", "correct horse battery")

    @tool
    def leak(text: str, api_key: str) -> dict[str, str]:
        """Give a secret, or fail with one."""
        if text == "fail":
            raise ValueError(f"refused {SECRET} and correct horse battery")
        return {"token": "a-plain-word-0815", "seen": f"{SECRET} correct horse battery"}

    def call(text: str) -> dict[str, Any]:
        arguments = {"text": text, "api_key": "another-plain-word-4711"}
        return {"text": f"I use {SECRET}", "tool_calls": [{"name": "leak", "arguments": arguments}]}

    machine = load(
        "chartloop: 1\nmachine: m\ntools: [leak]\ninstructions: Use correct horse battery.\n"
        "vars: {word: ''}\nstates:\n"
        "  task: {do: receive, next: think}\n"
        f'  think: {{do: infer, next: [{{when: len(last.tool_calls) > 0, to: act}}, {{when: last.text == "{SECRET}", to: done}}, {{to: done}}]}}\n'
        "  act: {do: call_tools, next: think}\n  done: {stop: completed}\n",
        tools=[leak],
    )
    journal = MemoryJournal()
    journal.redactor = Redactor()
    with collecting(tmp_path, content=content) as kept:
        machine.run(
            f"My key is {SECRET}.", script=[call("ok"), call("fail"), SECRET], journal=journal,
            tracer=kept.telemetry, session=f"of {SECRET}",
        )  # fmt: skip
        # a journal in memory hides nothing by itself
        machine.run(f"My key is {SECRET}.", script=[call("ok"), "x"], tracer=kept.telemetry)
        assert len(roots(kept.spans())) == 2
        sent = kept.collector.bytes
    assert SECRET.encode() not in sent
    assert b"correct horse battery" not in sent
    assert b"plain-word" not in sent
    assert b"redacted" in sent


# exporters that misbehave -----------------------------------------------------------------------


@pytest.mark.parametrize("processor", ["BatchSpanProcessor", "SimpleSpanProcessor"])
def test_an_exporter_that_hangs_holds_no_run(tmp_path: Path, processor: str) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider, export  # noqa: PLC0415

    with Collector(tmp_path, hang=threading.Event()) as collector:
        assert collector.hang is not None
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")
        provider.add_span_processor(getattr(export, processor)(exporter))
        telemetry = OpenTelemetry(provider)
        # each run ends while the collector answers nothing: the test would hang with them
        for _ in range(3):
            assert calculator().run("2 + 3?", script=[CALL, "5"], tracer=telemetry).success
        assert not telemetry.flush(0.2)
        assert collector.asked.wait(60)
        assert not collector.hang.is_set()
        collector.hang.set()
        assert telemetry.flush(60)
        assert len(roots(collector.spans())) == 3


def test_what_waits_for_an_exporter_that_hangs_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    queue, release = SpanQueue(), threading.Event()

    def wait() -> None:
        release.wait(60)

    with caplog.at_level(logging.WARNING):
        for _ in range(MOST + 50):
            queue.put(wait)
    assert 48 <= queue.dropped <= 50  # one or none is on its way
    assert caplog.text.count("spans are dropped") == 1
    release.set()
    assert queue.drain(60)


class Fault(NamedTuple):
    """A part of an SDK that raises."""

    where: str
    error: type[BaseException] = RuntimeError


FAULTS = [Fault("on_start"), Fault("on_end"), Fault("on_start", SystemExit), Fault("on_end", SystemExit)]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.where}-{f.error.__name__}")
def test_a_processor_that_raises_fails_no_run(
    fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider  # noqa: PLC0415

    def broken(*given: Any, **more: Any) -> None:
        raise fault.error("broken processor")

    provider = TracerProvider(shutdown_on_exit=False)
    kind = type("Broken", (SpanProcessor,), {fault.where: broken})
    provider.add_span_processor(kind())
    telemetry = OpenTelemetry(provider)
    run = desk().start("2 + 3?", script=[CALL, "5", "fine", "done"], tracer=telemetry)

    def drive() -> None:
        run.run()
        run.send("yes")
        run.run()

    apart(drive)
    assert run.result.reason == "completed"
    assert run.replay().same
    assert telemetry.flush(60)
    assert "broken processor" in caplog.text


def apart(work: Callable[[], object]) -> None:
    """Do work in a thread of its own: in the main one, `SystemExit` is the program's."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_of_an_image_in_a_result_only_its_kind_is_exported(kept: Kept) -> None:
    @tool
    def photograph() -> list[Any]:
        """Take a picture."""
        return ["here", Image(b"\x89PNG\r\n\x1a\n" + bytes(50_000))]

    text = """
chartloop: 1
machine: seeing
model: {name: scripted}
tools: [photograph]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0 and run.steps < 9, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
    telemetry = exporting(kept.collector, content=True)
    call: dict[str, Any] = {"tool_calls": [{"name": "photograph", "arguments": {}}]}
    load(text, tools=[photograph]).run("go", script=[call, "done"], tracer=telemetry)
    assert telemetry.flush(60)
    sent = [str(span) for span in kept.collector.spans()]
    assert "image_url" in "".join(sent)
    assert max(map(len, sent)) < 5_000


def test_without_an_sdk_nothing_is_stored_and_nothing_happens() -> None:
    from opentelemetry.trace import NoOpTracerProvider  # noqa: PLC0415

    run = calculator().start(
        "2 + 3?", script=[CALL, "5"], tracer=OpenTelemetry(NoOpTracerProvider())
    )
    assert run.run().success
    assert "trace" not in run.records[0].input.data


@pytest.mark.parametrize("origin", [{}, {"traceparent": "no"}, {"traceparent": 7}, "text", None])
def test_a_damaged_trace_context_is_no_link(kept: Kept, origin: Any, tmp_path: Path) -> None:
    journal, script = tmp_path / "runs.db", ["5", "fine", "done"]
    run = desk().start("x", script=script, journal=journal, tracer=kept.telemetry)
    run.run()
    stored = json.dumps(run.records[0].input.data["trace"], separators=(",", ":"))
    with closing(sqlite3.connect(journal)) as file, file:  # as if edited by hand
        done = file.execute(
            "UPDATE event SET data = replace(data, ?, ?) WHERE seq = 0",
            (stored, json.dumps(origin)),
        )
        assert done.rowcount == 2
    run.send("yes")
    other = desk().open(run.id, journal=journal, script=script, tracer=kept.telemetry)
    assert other.run().reason == "completed"
    _, span = roots(kept.spans())
    assert (span.links, span.attributes["chartloop.run.resumed"]) == ([], True)


# who follows what -------------------------------------------------------------------------------


def _step(machine: Machine, telemetry: OpenTelemetry) -> None:
    run = machine.start("2 + 3?", script=[CALL, "5"], tracer=telemetry)
    while run.step() is not None:
        pass


def _stream(machine: Machine, telemetry: OpenTelemetry) -> None:
    list(machine.start("2 + 3?", script=[CALL, "5"], tracer=telemetry).stream())


def _run(machine: Machine, telemetry: OpenTelemetry) -> None:
    machine.run("2 + 3?", script=[CALL, "5"], tracer=telemetry)


def _file(machine: Machine, telemetry: OpenTelemetry) -> None:
    machine.run("2 + 3?", script=[CALL, "5"], tracer=telemetry, journal=Path("runs.db"))


@pytest.mark.parametrize("face", [_step, _stream, _run, _file], ids=lambda f: f.__name__[1:])
def test_every_way_to_drive_gives_the_same_tree(
    face: Callable[[Machine, Any], None], kept: Kept, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    face(calculator(), kept.telemetry)
    spans = kept.spans()
    (run,) = roots(spans)
    chat = ("chat openai/gpt-4o-mini", ())
    assert tree(spans, run) == (
        "invoke_agent calculator",
        (
            ("receive question", ()), ("infer think", (chat,)),
            ("call_tools use_tools", (("execute_tool add", ()),)), ("infer think", (chat,)),
        ),
    )  # fmt: skip


def test_without_a_tracer_nothing_of_opentelemetry_is_imported() -> None:
    code = (
        "import sys; from chartloop import load; m = load('agent'); m.run('x', script=['y']);"
        "print([n for n in sys.modules if n.startswith('opentelemetry')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


# figures ----------------------------------------------------------------------------------------


def test_the_metrics(kept: Kept) -> None:
    usage = {"prompt_tokens": 70, "completion_tokens": 3}
    script = [{"text": "5", "usage": usage}]
    calculator().run("2 + 3?", script=script, settings=PRICES, tracer=kept.telemetry)
    waits = desk().start("x", script=["5", "fine", "done"], tracer=kept.telemetry)
    waits.run()
    kept.spans()
    figures = kept.collector.figures()
    assert sum(value for _, value in figures["chartloop.runs.waiting"]) == 1
    assert sum(value for _, value in figures["chartloop.cost"]) == 76.0
    counted = {
        labels["gen_ai.token.type"]: value for labels, value in figures["gen_ai.client.token.usage"]
    }
    assert counted == {"input": 70, "output": 3}
    assert figures["gen_ai.client.operation.duration"]
    ended = {
        (labels["chartloop.machine.name"], labels["chartloop.stop.reason"]): value
        for labels, value in figures["chartloop.runs"]
    }
    assert ended == {("calculator", "completed"): 1, ("checker", "completed"): 1}
    waits.send("yes")
    waits.run()
    kept.spans()
    (waiting,) = kept.collector.figures()["chartloop.runs.waiting"]
    assert waiting[1] == 0


# the command line -------------------------------------------------------------------------------


OTEL = {"CHARTLOOP_OTEL": "1"}


def chartloop(
    *words: str, environ: Mapping[str, str] = {}, collector: Collector | None = None
) -> subprocess.CompletedProcess[str]:
    there = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url} if collector is not None else {}
    return subprocess.run(
        [sys.executable, "-m", "chartloop", *words], capture_output=True, text=True, timeout=110,
        check=False, env={**os.environ, **there, **environ},
    )  # fmt: skip


FIRST = ROOT / "examples" / "first"
ARGUMENTS = (
    str(FIRST / "machine.yaml"), "2 + 3?", "--tools", str(FIRST / "tools.py"),
    "--script", str(FIRST / "replies.yaml"), "--in-memory",
)  # fmt: skip


@pytest.mark.slow("starts commands")
def test_the_command_exports_as_the_environment_says(tmp_path: Path) -> None:
    with Collector(tmp_path) as collector:
        done = chartloop("run", *ARGUMENTS, collector=collector, environ=OTEL)
        assert (done.returncode, done.stdout) == (0, "2 + 3 is 5.\n")
        (run,) = roots(collector.spans())
        assert run.name == "invoke_agent calculator"
        assert collector.figures()["chartloop.runs"]


@pytest.mark.slow("starts commands")
def test_a_run_that_another_process_resumes_is_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("asks.yaml").write_text(
        "chartloop: 1\nmachine: asks\nmodel: {name: scripted}\nstates:\n"
        "  task: {do: receive, next: draft}\n  draft: {do: infer, next: approve}\n"
        '  approve: {ask: "Publish it?", on: {yes: say, no: draft}}\n'
        "  say: {do: infer, next: done}\n  done: {stop: completed}\n"
    )
    Path("replies.yaml").write_text("- A draft.\n- Published.\n")
    script = ("--script", "replies.yaml", "--journal", "runs.db")
    with Collector(tmp_path / "collected") as collector:
        asks = ("run", "asks.yaml", "x", *script, "--no-input")
        first = chartloop(*asks, collector=collector, environ=OTEL)
        assert first.returncode == 4, first.stderr
        answer = chartloop("answer", "last", "yes", "--journal", "runs.db")
        assert answer.returncode == 0, answer.stderr
        second = chartloop("resume", "last", *script, collector=collector, environ=OTEL)
        assert second.returncode == 0, second.stderr
        spans = collector.spans()
    before, after = roots(spans)
    assert [name for name, _ in tree(spans, before)[1]] == ["receive task", "infer draft"]
    assert [name for name, _ in tree(spans, after)[1]] == ["infer say"]
    assert before.trace != after.trace
    assert after.links == [(before.trace, before.id)]


@pytest.mark.slow("starts commands, and waits until one gives up")
def test_a_collector_that_hangs_does_not_keep_the_command(tmp_path: Path) -> None:
    with Collector(tmp_path, hang=threading.Event()) as collector:
        done = chartloop("run", *ARGUMENTS, collector=collector, environ=OTEL)
        assert collector.hang is not None
        assert not collector.hang.is_set()  # the command has ended while its request hung
    assert (done.returncode, done.stdout) == (0, "2 + 3 is 5.\n")
    assert "telemetry: not everything was exported within 5 s" in done.stderr


@pytest.mark.slow("starts commands")
@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"OTEL_TRACES_EXPORTER": "pigeon"}, "no OpenTelemetry exporter `pigeon` of traces"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"}, "cannot be `smoke`"),
    ],
    ids=["exporter", "protocol"],
)
def test_a_wrong_variable_is_named(environ: dict[str, str], says: str) -> None:
    done = chartloop("run", *ARGUMENTS, environ={**OTEL, **environ})
    assert done.returncode != 0
    assert says in done.stderr


def test_the_extra_is_named_where_it_is_missing() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from chartloop import OpenTelemetry, SetupError\n"
        "try: OpenTelemetry()\nexcept SetupError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "needs the extra `otel`" in done.stdout
    assert "help: " in done.stdout


# the page ---------------------------------------------------------------------------------------


def test_the_page_names_only_what_there_is() -> None:
    text = (ROOT / "docs" / "telemetry.md").read_text("utf-8")
    named = set(re.findall(r"`((?:gen_ai|chartloop)\.[a-z_.]+[a-z])`", text))
    known = {str(name) for name in (*Name, *Metric)} | {TRANSITION, f"{Name.BUDGET}.run.steps"}
    assert len(named) > 15
    assert named <= known
    assert f"{MOST:,}" in text
    assert f"{AT_EXIT:.0f} seconds" in text
