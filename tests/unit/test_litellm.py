"""The door to litellm, against a real HTTP server on loopback. What fails how: tests/cases."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop.adapters.model.litellm import FALL_BACK_ON, GO_ON, KINDS, LiteLLM
from chartloop.core.errors import Category, ModelError, SetupError
from chartloop.core.facts import ToolCall
from chartloop.extras import install
from chartloop.language.json_schema.reply import in_words
from chartloop.run.ports import Model, ModelReply, ModelRequest
from chartloop.testing.loopback import LoopbackServer
from tests.tool_loop import QUIET, needs_litellm

pytestmark = QUIET

HI = ({"role": "user", "content": "hi"},)
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Sum.",
        "parameters": {"type": "object", "properties": {}},
    },
}
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY")
FOX = "The quick brown fox jumps over the lazy dog."


RUNNER = asyncio.Runner()
"""One event loop for all calls, as a run has: litellm keeps its connections by loop."""


@pytest.fixture(scope="module", autouse=True)
def one_loop() -> Iterator[None]:
    with RUNNER:
        yield


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer() as server:
        yield server


def at(server: LoopbackServer, model: str = "loopback", **more: Any) -> dict[str, Any]:
    """Settings of the file for a model of this server."""
    return {"name": f"openai/{model}", "api_base": server.url, "timeout": 60, **more}


def listener(streamed: bool) -> list[str] | None:
    """Where the pieces of a streamed reply go."""
    return [] if streamed else None


def ask(settings: Mapping[str, Any], pieces: list[str] | None = None, **more: Any) -> ModelReply:
    request = ModelRequest(more.pop("messages", HI), settings=settings, **more)
    on_text = None if pieces is None else pieces.append
    return RUNNER.run(LiteLLM().complete(request, on_text))


def close_clients() -> None:
    """Close what litellm keeps for each server and key: from the 201st on it drops clients open."""
    litellm = importlib.import_module("litellm")
    RUNNER.run(litellm.close_litellm_async_clients())
    litellm.in_memory_llm_clients_cache.flush_cache()


def fail(settings: Mapping[str, Any], pieces: list[str] | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ask(settings, pieces)
    return caught.value


# Without litellm


def run(code: str) -> Any:
    """What a fresh process prints as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_the_adapter_is_a_model_and_loads_nothing() -> None:
    code = (
        "import json, sys; from chartloop.adapters.model.litellm import LiteLLM; LiteLLM();"
        "print(json.dumps('litellm' in sys.modules))"
    )
    assert run(code) is False
    model: Model = LiteLLM()
    assert model.suspends


def test_without_litellm_the_install_line_is_named() -> None:
    code = """
import asyncio, json, sys
sys.modules["litellm"] = None  # as if it were not installed
from chartloop.adapters.model.litellm import LiteLLM
from chartloop.core.errors import ModelError, SetupError
from chartloop.run.ports import ModelRequest
said = [LiteLLM().context_window({"name": "gpt-4o"})]
try:
    LiteLLM().prepare({"name": "gpt-4o"})
except SetupError as error:
    said += [error.message, error.hint]
try:
    asyncio.run(LiteLLM().complete(ModelRequest(())))
except ModelError as error:
    said += [error.kind, error.category, error.message]
print(json.dumps(said))
"""
    window, message, hint, kind, category, text = run(code)
    assert window is None
    assert message == "litellm is not installed"
    assert hint == install("llm")
    assert (kind, category) == ("setup", "CRITICAL")
    assert install("llm") in text


def test_the_fallback_kinds_are_kinds() -> None:
    assert KINDS.keys() > FALL_BACK_ON


# Loading it


@needs_litellm
def test_litellm_is_loaded_quiet_and_offline() -> None:
    code = """
import json, logging, os, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="LOG %(name)s %(message)s")
from chartloop.adapters.model.litellm import LiteLLM
LiteLLM().prepare({"name": "gpt-4o", "api_base": "http://127.0.0.1:1"})
import litellm
names = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
print(json.dumps({
    "handlers": [type(h).__name__ for n in names for h in logging.getLogger(n).handlers],
    "levels": [logging.getLogger(n).getEffectiveLevel() for n in names],
    "debug": litellm.suppress_debug_info,
    "tokenizers": litellm.disable_hf_tokenizer_download,
    "environment": [os.environ["LITELLM_LOCAL_MODEL_COST_MAP"], os.environ["LITELLM_OFFLINE_MODE"]],
}))
"""
    env = {k: v for k, v in os.environ.items() if not k.startswith("LITELLM")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("LOG LiteLLM")] == []
    (told,) = [line for line in lines if line.startswith("{")]
    assert json.loads(told) == {
        "handlers": ["NullHandler"] * 3,
        "levels": [logging.WARNING] * 3,
        "debug": True,
        "tokenizers": True,
        "environment": ["True", "true"],
    }


# What is missing is said before the first call


class Missing(NamedTuple):
    """Settings that cannot work, and words of what is said about them."""

    id: str
    settings: dict[str, Any]
    words: Sequence[str]
    env: Mapping[str, str] = {}


MISSING = [
    Missing("openai", {"name": "openai/gpt-4o"}, ["OPENAI_API_KEY"]),
    Missing("bare-name", {"name": "gpt-4o"}, ["OPENAI_API_KEY"]),
    Missing("anthropic", {"name": "anthropic/claude-x"}, ["ANTHROPIC_API_KEY"]),
    Missing("gemini", {"name": "gemini/x"}, ["GOOGLE_API_KEY", " or ", "GEMINI_API_KEY"]),
    Missing("blank", {"name": "openai/x"}, ["OPENAI_API_KEY"], {"OPENAI_API_KEY": " "}),
    Missing("own-variable", {"name": "openai/x", "api_key_env": "MINE"}, ["`MINE`"]),
    Missing(
        "own-variable-only",
        {"name": "openai/x", "api_key_env": "MINE", "api_base": "http://127.0.0.1:9"},
        ["`MINE`", "not set"],
        {"OPENAI_API_KEY": "sk-other"},
    ),
    Missing(
        "fallback",
        {"name": "openai/x", "api_base": "http://127.0.0.1:9", "fallbacks": ["groq/x"]},
        ["GROQ_API_KEY"],
    ),
    Missing("no-provider", {"name": "gpt-99"}, ["`gpt-99`", "write `provider/model`"]),
    Missing("unknown-provider", {"name": "foo/bar"}, ["`foo/bar`", "not one that litellm knows"]),
    Missing("no-model", {"name": "openai/"}, ["`openai/`"]),
    Missing("no-name", {}, ["not one that litellm knows"]),
    Missing("timeout", {"name": "ollama/x", "timeout": "soon"}, ["timeout", "`soon`"]),
    Missing("timeout-zero", {"name": "ollama/x", "timeout": 0}, ["timeout", "`0`"]),
    Missing("retries", {"name": "ollama/x", "extra": {"num_retries": 3}}, ["`num_retries`"]),
    Missing("other-host", {"name": "ollama/x", "extra": {"base_url": "http://x"}}, ["`base_url`"]),
]


@needs_litellm
@pytest.mark.parametrize("case", MISSING, ids=lambda case: case.id)
def test_what_is_missing_is_said_at_once(case: Missing, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in case.env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SetupError) as caught:
        LiteLLM().prepare(case.settings)
    assert all(word in str(caught.value) for word in case.words), str(caught.value)
    error = fail(case.settings)
    assert (error.kind, error.category) == ("setup", Category.CRITICAL)


@needs_litellm
@pytest.mark.parametrize(
    "settings",
    [
        {"name": "openai/x", "api_base": "http://127.0.0.1:9/v1"},
        {"name": "ollama/llama3"},
        {"name": "bedrock/anthropic.claude-x"},
        {"name": "hosted_vllm/x", "api_base": "http://127.0.0.1:9/v1", "timeout": "1m"},
    ],
    ids=lambda settings: settings["name"],
)
def test_servers_without_a_key_are_allowed(settings: Mapping[str, Any]) -> None:
    LiteLLM().prepare(settings)


@needs_litellm
def test_the_provider_s_variable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    LiteLLM().prepare({"name": "anthropic/claude-x"})


# What is sent


@needs_litellm
@pytest.mark.parametrize("pieces", [None, []], ids=["whole", "streamed"])
def test_the_request_goes_out_as_it_was_given(
    pieces: list[str] | None, server: LoopbackServer
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    messages = (
        {"role": "system", "content": "Be brief."},
        *HI,
        MappingProxyType({"role": "assistant", "content": None, "tool_calls": (call,)}),
        {"role": "tool", "tool_call_id": "c1", "name": "add", "content": "5"},
    )
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    given: dict[str, Any] = {
        "temperature": 0, "top_p": 0.5, "max_tokens": 9, "stop": ["x"], "seed": 7,
    }  # fmt: skip
    settings = at(
        server, **given, extra={"presence_penalty": 0.5, "extra_body": {"own": 1}}, context_window=9
    )
    ask(
        settings,
        pieces,
        messages=messages,
        tools=(MappingProxyType(TOOL),),
        tool_choice="auto",
        output=schema,
    )
    (request,) = server.requests
    body = dict(request.body)
    # litellm leaves a `content` of null out, which says the same.
    asked = {"role": "assistant", "tool_calls": [call]}
    # a server of one's own does not show the model the schema
    told = {
        **messages[0],
        "content": f"{messages[0]['content']}\n\nYour answer is nothing but {in_words(schema)}",
    }
    assert body.pop("messages") == [told, messages[1], asked, messages[3]]
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    assert {k: body.pop(k) for k in streamed if k in body} == ({} if pieces is None else streamed)
    form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
    assert body == {
        "model": "loopback",
        "tools": [TOOL],
        "tool_choice": "auto",
        "response_format": form,
        "presence_penalty": 0.5,
        "own": 1,
        **given,
    }


@needs_litellm
def test_a_run_s_server_key_and_price_are_looked_up_once(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, settings = LiteLLM(), at(server, api_key_env="OF_MINE")
    request = ModelRequest(HI, settings=settings)
    with pytest.raises(ModelError, match="OF_MINE"):
        RUNNER.run(model.complete(request))
    monkeypatch.setenv("OF_MINE", "sk-1")  # what could not work is looked at again
    RUNNER.run(model.complete(request))
    monkeypatch.delenv("OF_MINE")
    assert RUNNER.run(model.complete(request.replace(settings=dict(settings)))).text
    with pytest.raises(ModelError, match="OF_MINE"):
        RUNNER.run(model.complete(request.replace(settings={**settings, "timeout": 4})))


@needs_litellm
def test_nothing_is_sent_that_was_not_set(server: LoopbackServer) -> None:
    ask(at(server))
    assert server.requests[0].body == {"model": "loopback", "messages": [*HI]}


@needs_litellm
def test_what_was_given_is_not_changed(server: LoopbackServer) -> None:
    messages = ({"role": "user", "content": [{"type": "text", "text": "hi"}]},)
    before = json.dumps(messages)
    ask(at(server), messages=messages, tools=(TOOL,))
    assert json.dumps(messages) == before


@needs_litellm
@pytest.mark.parametrize("fault", ["rate_limit", "server_error", "disconnect"])
@pytest.mark.parametrize("pieces", [None, []], ids=["whole", "streamed"])
def test_nothing_is_tried_twice(
    fault: str, pieces: list[str] | None, server: LoopbackServer
) -> None:
    fail(at(server, f"fault-{fault}"), pieces)
    assert len(server.requests) == 1


class Key(NamedTuple):
    """Where a key stands, and which one the server must see."""

    id: str
    env: dict[str, str]
    settings: dict[str, Any]
    sent: str


@needs_litellm
@pytest.mark.parametrize(
    "case",
    [
        Key("provider", {"OPENAI_API_KEY": "sk-provider"}, {}, "sk-provider"),
        Key(
            "named",
            {"MINE": "sk-mine", "OPENAI_API_KEY": "sk-no"},
            {"api_key_env": "MINE"},
            "sk-mine",
        ),
        Key("none", {}, {}, "no-key"),
    ],
    ids=lambda case: case.id,
)
def test_the_key_is_the_one_that_is_meant(case: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in case.env.items():
        monkeypatch.setenv(name, value)
    with LoopbackServer(key=case.sent) as server:
        settings = at(server, **case.settings)
        LiteLLM().prepare(settings)
        assert ask(settings).text


# What comes back

CALLS = [
    {"name": "add", "arguments": {"a": 2, "b": 3}, "id": "x1"},
    {"name": "weather", "arguments": {"city": "São Paulo"}},
]


@needs_litellm
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_reply_is_read_whole(streamed: bool) -> None:
    usage = {"prompt_tokens": 120, "completion_tokens": 18}
    with LoopbackServer([{"text": "Let me add.", "tool_calls": CALLS, "usage": usage}]) as server:
        settings = at(server, input_cost_per_token=0.5, output_cost_per_token=2)
        pieces: list[str] = []
        reply = ask(settings, pieces if streamed else None)
    calls = (
        ToolCall("x1", "add", '{"a": 2, "b": 3}'),
        ToolCall("call_0_1", "weather", '{"city": "São Paulo"}'),
    )
    assert reply == ModelReply("Let me add.", calls, "tool_calls", 120, 18, 96.0, "openai/loopback")
    assert pieces == (["Let ", "me ", "add."] if streamed else [])


@needs_litellm
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_usage_that_was_not_sent_is_unknown(streamed: bool) -> None:
    with LoopbackServer(["Hello."]) as server:
        settings = at(server, input_cost_per_token=1, output_cost_per_token=1)
        reply = ask(settings, listener(streamed))
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cost) == (None, None, None)


class Price(NamedTuple):
    """A model, the file's prices, and the cost of 12 + 9 tokens."""

    id: str
    model: str
    settings: dict[str, Any]
    cost: float | None


@needs_litellm
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "case",
    [
        Price("litellm-s-table", "gpt-4o", {}, 12 * 2.5e-6 + 9 * 1e-5),
        Price("unknown", "loopback", {}, None),
        Price("half-a-price", "loopback", {"input_cost_per_token": 1}, None),
        Price("given", "gpt-4o", {"input_cost_per_token": 1, "output_cost_per_token": 0}, 12),
        Price("free", "gpt-4o", {"input_cost_per_token": 0, "output_cost_per_token": 0}, 0),
        # litellm's table has tiers for the one and nothing for the other, which it calls 0.
        Price("tiers", "qwen-flash", {"name": "dashscope/qwen-flash"}, 4.2e-6),
        Price("no-price", "qwen3-30b-a3b", {"name": "dashscope/qwen3-30b-a3b"}, None),
        Price("free-by-table", "chartloop-free", {}, 0),
    ],
    ids=lambda case: case.id,
)
def test_cost(case: Price, streamed: bool) -> None:
    row = {"litellm_provider": "openai", "input_cost_per_token": 0, "output_cost_per_token": 0}
    importlib.import_module("litellm").register_model({"chartloop-free": row})
    with LoopbackServer(models=[case.model]) as server:
        settings = {**at(server, case.model), **case.settings}
        reply = ask(settings, listener(streamed))
    assert (reply.prompt_tokens, reply.completion_tokens) == (12, 9)
    assert reply.cost == (None if case.cost is None else pytest.approx(case.cost))


@needs_litellm
@pytest.mark.parametrize(
    ("settings", "window"),
    [
        ({"name": "gpt-4o"}, 128_000),
        ({"name": "openai/gpt-4o"}, 128_000),
        ({"name": "gpt-4o", "context_window": 5}, 5),
        ({"name": "openai/nobody-knows"}, None),
        ({"name": "groq/gpt-4o"}, None),
        ({"name": "nobody"}, None),
        ({"name": "ollama/nobody-knows"}, None),
        ({}, None),
    ],
)
def test_context_window(settings: Mapping[str, Any], window: int | None) -> None:
    assert LiteLLM().context_window(settings) == window


TABLE = """
import json, sys
from chartloop.adapters.model.litellm import LiteLLM
names = json.load(sys.stdin)
without = [LiteLLM().worst({"name": name}) for name in names]
assert "litellm" not in sys.modules
import os; os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
print(json.dumps([without, [LiteLLM().worst({"name": name}) for name in names]]))
"""


@needs_litellm
def test_the_table_says_without_litellm_what_litellm_says() -> None:
    names = [
        "openai/gpt-4o-mini", "gpt-4o", "anthropic/claude-opus-4-5-20251101", "gemini/gemini-2.5-pro",
        "azure/gpt-4o", "mistral/mistral-large-latest", "groq/llama-3.3-70b-versatile",
        "openai/a-model-that-no-table-has",
    ]  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TABLE], input=json.dumps(names),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    without, by_litellm = json.loads(ran.stdout.splitlines()[-1])
    assert without == by_litellm
    assert sum(window is not None and prices is not None for window, prices in without) > 4


@needs_litellm
def test_stream_off_gives_the_text_in_one_piece(server: LoopbackServer) -> None:
    pieces: list[str] = []
    reply = ask(at(server, stream=False), pieces)
    assert pieces == [reply.text] == [FOX]
    assert "stream" not in server.requests[0].body


@needs_litellm
def test_an_empty_reply_that_was_meant_is_one() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 0}
    with LoopbackServer([{"text": "", "usage": usage}] * 2) as server:
        whole, streamed = ask(at(server)), ask(at(server), [])
    assert whole == streamed == ModelReply("", (), "stop", 3, 0, None, "openai/loopback")


@needs_litellm
def test_stream_on_needs_no_listener(server: LoopbackServer) -> None:
    assert ask(at(server, stream=True)).text == FOX
    assert server.requests[0].body["stream"] is True


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)
REPLIES = st.fixed_dictionaries(
    {
        "text": TEXTS,
        "tool_calls": st.lists(
            st.fixed_dictionaries(
                {"name": NAMES, "arguments": st.dictionaries(TEXTS, TEXTS, max_size=3)}
            ),
            max_size=3,
        ),
        "usage": st.just({"prompt_tokens": 3, "completion_tokens": 4}),
    }
)


@needs_litellm
@given(reply=REPLIES)
@settings(max_examples=25)
def test_a_streamed_reply_is_the_reply(reply: dict[str, Any]) -> None:
    pieces: list[str] = []
    with LoopbackServer([reply, reply]) as server:
        whole = ask(at(server))
        streamed = ask(at(server), pieces)
        close_clients()
    # Ids hold the number of the request.
    named = tuple(c.replace(id=c.id.replace("_1_", "_0_")) for c in streamed.tool_calls)
    assert streamed.replace(tool_calls=named) == whole
    assert "".join(pieces) == whole.text == reply["text"]
    assert [json.loads(c.arguments) for c in whole.tool_calls] == [
        c["arguments"] for c in reply["tool_calls"]
    ]


class Numbered(BaseHTTPRequestHandler):
    """Some servers call every tool call of a stream number 0."""

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for name, part in (("a", '{"x":'), ("", "1}"), ("b", "{}")):
            given = {"id": name, "type": "function"} if name else {}
            function = {"arguments": part} | ({"name": name} if name else {})
            delta = {"tool_calls": [{"index": 0, **given, "function": function}]}
            self.event({"index": 0, "delta": delta, "finish_reason": None})
        self.event({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, choice: dict[str, Any]) -> None:
        head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        self.wfile.write(f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode())


@needs_litellm
def test_calls_that_a_server_does_not_number_are_kept_apart() -> None:
    with HTTPServer(("127.0.0.1", 0), Numbered) as http:
        thread = threading.Thread(target=http.handle_request)
        thread.start()
        base = f"http://127.0.0.1:{http.server_port}/v1"
        reply = ask({"name": "openai/x", "api_base": base, "timeout": 60}, [])
        thread.join()
    assert reply.tool_calls == (ToolCall("a", "a", '{"x":1}'), ToolCall("b", "b", "{}"))


# Time and cancellation


@needs_litellm
def test_the_timeout_is_for_the_whole_reply(server: LoopbackServer) -> None:
    assert ask(at(server, "fault-slow", timeout=60, idle_timeout=30), []).text == FOX
    error = fail(at(server, "fault-slow", timeout=0.25), [])
    assert (error.kind, error.message) == ("timeout", "openai/fault-slow: no answer within 0.25 s")
    error = fail(at(server, "fault-slow", timeout=0.25))
    assert (error.kind, error.message) == ("timeout", "openai/fault-slow: no answer within 0.25 s")


async def until(holds: Callable[[], bool]) -> None:
    """Wait for it, at most two seconds."""
    for _ in range(3_000):
        if holds():
            return
        await asyncio.sleep(0.02)


@needs_litellm
@pytest.mark.parametrize("fault", ["timeout", "slow"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_cancelling_closes_the_connection(
    fault: str, streamed: bool, server: LoopbackServer
) -> None:
    pieces = listener(streamed)

    async def cancelled() -> None:
        request = ModelRequest(HI, settings=at(server, f"fault-{fault}"))
        on_text = None if pieces is None else pieces.append
        task = asyncio.create_task(LiteLLM().complete(request, on_text))
        await until(lambda: len(server.requests) == 1)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.dropped == 1)

    RUNNER.run(cancelled())
    assert server.dropped == 1
    assert pieces is None or "".join(pieces) != FOX


@needs_litellm
def test_calls_run_side_by_side_and_on_another_loop(server: LoopbackServer) -> None:
    async def many() -> list[ModelReply]:
        request = ModelRequest(HI, settings=at(server, "fault-slow"))
        return await asyncio.gather(*(LiteLLM().complete(request) for _ in range(20)))

    for run in (RUNNER.run, asyncio.run):
        replies = run(asyncio.wait_for(many(), 60))
        assert [reply.text for reply in replies] == [FOX] * 20


# Fallbacks


class Fall(NamedTuple):
    """The models in order, who is asked, and who answers or with which kind it fails."""

    id: str
    names: Sequence[str]
    asked: int
    answers: str = ""
    kind: str = ""
    streamed: bool = False


FALLS = [
    Fall("first-answers", ["loopback", "other"], 1, "loopback"),
    Fall("server", ["fault-server_error", "loopback"], 2, "loopback"),
    Fall("unavailable", ["fault-unavailable", "loopback"], 2, "loopback"),
    Fall("rate-limit", ["fault-rate_limit", "loopback"], 2, "loopback"),
    Fall("not-found", ["no-such-model", "loopback"], 2, "loopback"),
    Fall("third", ["fault-unavailable", "fault-not_found", "loopback"], 3, "loopback"),
    Fall("streamed", ["fault-unavailable", "loopback"], 2, "loopback", streamed=True),
    Fall("not-for-auth", ["fault-unauthorized", "loopback"], 1, kind="auth"),
    Fall("not-for-a-bad-request", ["fault-bad_request", "loopback"], 1, kind="bad_request"),
    Fall("not-for-overflow", ["fault-context_too_long", "loopback"], 1, kind="context_overflow"),
    Fall(
        "not-after-a-word", ["fault-cut_stream", "loopback"], 1, kind="stream_broken", streamed=True
    ),
    Fall(
        "not-after-words-that-stall",
        ["fault-stalled_stream", "loopback"],
        1,
        kind="timeout",
        streamed=True,
    ),
    Fall("stalled-before-a-word", ["fault-timeout", "loopback"], 2, "loopback", streamed=True),
    Fall("transient-wins", ["fault-not_found", "fault-rate_limit"], 2, kind="rate_limit"),
    Fall("transient-wins-first", ["fault-server_error", "fault-not_found"], 2, kind="server"),
    Fall("critical-all", ["fault-not_found", "no-such"], 2, kind="model_not_found"),
]


@needs_litellm
@pytest.mark.parametrize("case", FALLS, ids=lambda case: case.id)
def test_fallbacks(case: Fall, server: LoopbackServer) -> None:
    names = [f"openai/{name}" for name in case.names]
    stalls = not {"fault-timeout", "fault-stalled_stream"}.isdisjoint(case.names)
    timeout = 1.5 if stalls else 30  # the other answers come at once, on a busy machine later
    settings = {**at(server), "name": names[0], "fallbacks": names[1:], "timeout": timeout}
    pieces = listener(case.streamed)
    if case.answers:
        assert ask(settings, pieces).model == f"openai/{case.answers}"
    else:
        error = fail(settings, pieces)
        assert error.kind == case.kind
        assert all(name in error.message for name in names[: case.asked])
    assert len(server.requests) == case.asked


@needs_litellm
def test_what_the_file_sends_besides_is_not_for_another_provider(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may refuse the words, and headers may hold a key."""
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", server.url)
    extra = {"presence_penalty": 0.5, "extra_headers": {"x-own": "of-openai"}}
    names = ["openai/loopback", "hosted_vllm/loopback"]
    settings = at(server, "fault-server_error", extra=extra, fallbacks=names)
    settings["name"] = "openai/fault-server_error"
    ask({**settings, "fallbacks": names[:1]})
    ask({**settings, "fallbacks": names[1:]})
    sent = [
        (request.body.get("presence_penalty"), request.headers.get("x-own"))
        for request in server.requests
    ]
    assert sent == [(0.5, "of-openai")] * 3 + [(None, None)]


# Failures say what happened, and no key


@needs_litellm
@pytest.mark.parametrize("provider", ["openai", "hosted_vllm", "deepseek"])
def test_a_failure_says_what_the_provider_said(provider: str, server: LoopbackServer) -> None:
    name = f"{provider}/fault-quota"
    error = fail({**at(server), "name": name})
    assert error.message == f"{name}: You exceeded your current quota."
    assert (error.status, error.hint) == (429, KINDS["quota"].cure)


@needs_litellm
def test_a_failure_drags_nothing_along(server: LoopbackServer) -> None:
    error = fail(at(server, "fault-unauthorized"))
    assert (error.__cause__, error.__context__) == (None, None)


@needs_litellm
def test_what_the_caller_handles_is_not_taken_for_the_cause(server: LoopbackServer) -> None:
    async def amid() -> ModelError:
        request = ModelRequest(HI, settings=at(server, "fault-server_error"))
        try:
            importlib.import_module("no_such_module")
        except ImportError:
            with pytest.raises(ModelError) as caught:
                await LiteLLM().complete(request)
            return caught.value
        raise AssertionError

    assert RUNNER.run(amid()).kind == "server"


@needs_litellm
def test_what_litellm_cannot_do_is_critical(server: LoopbackServer) -> None:
    error = fail(at(server, extra={"own": object()}))
    assert (error.kind, error.category) == ("unexpected", Category.CRITICAL)


def shown(error: ModelError) -> str:
    return f"{error} {error!r} {error.args} {vars(error)} {error.partial}"


@needs_litellm
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "MINE"])
def test_no_key_is_shown_or_logged(
    streamed: bool,
    variable: str,
    server: LoopbackServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    secret, header = "Zq8-very-secret", "Zq9-header-secret"
    monkeypatch.setenv(variable, secret)
    caplog.set_level(logging.DEBUG)
    own = {} if variable == "OPENAI_API_KEY" else {"api_key_env": variable}
    settings = at(server, "fault-unauthorized", extra={"extra_headers": {"x-own": header}}, **own)
    error = fail(settings, listener(streamed))
    assert server.requests[0].headers["x-own"] == header
    assert "Incorrect API key provided: ***" in error.message
    out, err = capfd.readouterr()
    for text in (shown(error), caplog.text, out, err):
        assert secret not in text
        assert header not in text


@needs_litellm
def test_no_key_of_a_header_of_the_file_is_shown(server: LoopbackServer) -> None:
    headers = {"Authorization": "Bearer Zq9-header-secret"}
    error = fail(at(server, "fault-unauthorized", extra={"extra_headers": headers}))
    assert error.message == "openai/fault-unauthorized: Incorrect API key provided: ***."


@needs_litellm
@given(key=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=60))
@settings(max_examples=25)
def test_no_key_gets_into_a_failure(key: str) -> None:
    with LoopbackServer() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINE", key)
        error = fail(at(server, "fault-unauthorized", api_key_env="MINE"))
        close_clients()
    assert key not in error.message.removeprefix("openai/fault-unauthorized: ")
    assert "***" in error.message


@needs_litellm
@pytest.mark.parametrize("own", [True, False], ids=["a-server-of-ones-own", "the-provider"])
def test_the_schema_is_in_the_instructions_where_a_model_does_not_see_it(
    own: bool, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    settings = at(server)
    settings = settings if own else {n: v for n, v in settings.items() if n != "api_base"}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    RUNNER.run(LiteLLM().complete(ModelRequest(HI, settings=settings, output=schema)))
    (sent,) = server.requests
    assert (in_words(schema) in str(sent.body["messages"][0]["content"])) is own
    assert sent.body["response_format"]["json_schema"]["schema"] == schema


@needs_litellm
@pytest.mark.parametrize(
    ("last", "added"),
    [
        ({"role": "assistant", "content": "The sum is"}, True),
        ({"role": "user", "content": "And now?"}, False),
        ({"role": "tool", "tool_call_id": "c", "content": "3"}, False),
    ],
    ids=["a-reply", "a-question", "a-result"],
)
def test_a_request_never_ends_with_a_reply(
    last: dict[str, Any], added: bool, server: LoopbackServer
) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    asked = {"role": "assistant", "content": "Adding.", "tool_calls": [call]}
    given = [*HI, *([asked] if last["role"] == "tool" else ()), last]
    RUNNER.run(LiteLLM().complete(ModelRequest(given, settings=at(server))))
    assert (server.requests[0].body["messages"][-1] == GO_ON) is added
