"""What an MCP server asks of a run in the middle of a call: a person, the model, folders."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from chartloop import Machine, Run, diff, load
from chartloop.api.tool_lock import lock_tools
from chartloop.core.errors import AnsweredError, AnswerError, UnknownRunError, WaitError
from chartloop.run.journal import MemoryJournal
from chartloop.run.question import question_of
from chartloop.run.record_text import outcome_of
from chartloop.testing import CrashAt, Crashed
from tests.mcp_peers import call, calls_of, machine, put_machine, put_server
from tests.unit.test_mcp_servers import (
    EVERYTHING,
    NODE,
    answers,
    free_port,
    locked,
    reference_server,
)

pytestmark = [pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')]  # noqa: S610 - no Django

FIELDS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "fast": {"type": "boolean"},
    },
    "required": ["name", "size"],
}
ASK = call("calc.ask", message="Who are you?", schema=FIELDS)


def asking(
    folder: Path, *, more: str = "", head: str = "", script: Any = (ASK, "done"), **given: Any
) -> Run:
    """A run that has come to the question of its server."""
    run = locked(folder, machine(more=more, head=head)).start("go", script=list(script), **given)
    result = run.run()
    assert result.reason is None, result.explain()
    return run


# a question -----------------------------------------------------------------------------------


def test_a_question_of_a_server_is_a_question_of_the_run(tmp_path: Path) -> None:
    run = asking(tmp_path)
    question = question_of(run.session)
    assert question is not None
    assert question.text == "MCP server `calc` asks: Who are you?"
    assert {e: {n: str(t) for n, t in f.items()} for e, f in question.answers.items()} == {
        "accept": {
            "name": "str", "size": "int", "colour": "red | green | None", "fast": "bool | None",
        },
        "decline": {}, "cancel": {},
    }  # fmt: skip
    assert question.due is not None
    blocked = run.records[-1].input
    assert blocked.started + 600 <= question.due <= blocked.at + 600
    assert (run.status, run.state, run.result.wait) == ("paused", "act", question.wait)

    run.send("accept", {"name": "Eve", "size": 3}, wait=question.wait)
    assert run.run().reason == "completed"
    (text,) = answers(run)
    assert json.loads(text) == {
        "action": "accept", "content": {"colour": "red", "name": "Eve", "size": 3},
    }  # fmt: skip
    assert len(calls_of(tmp_path)) == 1
    assert [r.kind for r in run.records[-5:]] == ["step", "blocked", "answer", "step", "step"]
    assert run.replay().same
    assert run.facts.run.idle > 0
    assert outcome_of(run.records[3]) == question.text
    assert "accept" in str(run.why(4))
    (made,) = run.trace().calls
    assert (made.name, made.ok) == ("calc.ask", True)


def answered(run: Run, event: str, data: Any = None) -> Any:
    """What the server got, once the run has come to its end."""
    run.send(event, data or {})
    assert run.run().reason == "completed", run.result.explain()
    return json.loads(answers(run)[-1])


@pytest.mark.parametrize("event", ["decline", "cancel"])
def test_a_question_may_be_declined_or_dismissed(tmp_path: Path, event: str) -> None:
    assert answered(asking(tmp_path), event) == {"action": event}


def test_an_answer_is_held_against_the_form(tmp_path: Path) -> None:
    run = asking(tmp_path)
    for data, wrong in (
        ({"name": "Eve"}, "needs `size`"),
        ({"name": "Eve", "size": "3"}, "`size` of `accept` is int"),
        ({"name": "Eve", "size": 3, "age": 4}, "no field `age`"),
        ({"name": "Eve", "size": 30}, "maximum"),
        ({"name": "E", "size": 3}, "minLength"),
        ({"name": "Eve", "size": 3, "colour": "blue"}, "`colour`"),
    ):
        with pytest.raises(AnswerError, match=wrong):
            run.send("accept", data)
    with pytest.raises(AnswerError, match="does not take `yes`"):
        run.send("yes")
    with pytest.raises(WaitError, match="there is no wait 99"):
        run.send("accept", {"name": "Eve", "size": 3}, wait="99")
    run.send("decline")
    with pytest.raises(AnsweredError):
        run.send("accept", {"name": "Eve", "size": 3})
    assert run.run().reason == "completed"


def test_a_question_expires(tmp_path: Path) -> None:
    run = asking(tmp_path, more=", elicitation: {within: 1s}")
    time.sleep(1.1)
    with pytest.raises(WaitError, match="expired"):
        run.send("decline")
    result = run.run()
    assert result.reason == "completed"
    assert json.loads(answers(run)[-1]) == {"action": "cancel"}
    assert result.warnings == ("calc.ask: no answer came in time to: Who are you?",)
    assert run.replay().same


def test_one_call_asks_twice_and_a_second_call_asks_the_same(tmp_path: Path) -> None:
    twice = {"text": "", "tool_calls": [ASK["tool_calls"][0], ASK["tool_calls"][0]]}
    run = asking(tmp_path, script=[twice, "done"])
    first = run.question
    run.send("accept", {"name": "Eve", "size": 1})
    assert run.run().reason is None
    second = run.question
    assert first is not None
    assert second is not None
    assert first.wait != second.wait
    with pytest.raises(WaitError):
        run.send("decline", wait=first.wait)
    run.send("accept", {"name": "Mallory", "size": 2}, wait=second.wait)
    assert run.run().reason == "completed"
    names = {json.loads(text)["content"]["name"] for text in answers(run)}
    assert names == {"Eve", "Mallory"}
    assert len(calls_of(tmp_path)) == 2


@pytest.mark.parametrize(
    ("arguments", "more", "why"),
    [
        ({"more": {"mode": "url", "url": "https://example.org", "elicitationId": "1"}}, "", "by URL"),
        ({"schema": {"type": "object", "properties": {"a": {"type": "object"}}}}, "", "is not a text"),
        ({"message": "a" * 5000}, "", "longer than 4,000"),
        ({}, ", elicitation: {questions: 0}", "Elicitation not supported"),
    ],
    ids=["url", "nested", "long", "off"],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_with_words(
    tmp_path: Path, arguments: Any, more: str, why: str
) -> None:
    run = locked(tmp_path, machine(more=more)).start(
        "go", script=[call("calc.ask", **arguments), "done"]
    )
    result = run.run()
    assert result.reason == "completed"
    (text,) = answers(run)
    assert why in text + "".join(result.warnings)


def test_folders_are_refused(tmp_path: Path) -> None:
    run = locked(tmp_path).start("go", script=[call("calc.folders"), "done"])
    assert run.run().reason == "completed"
    assert answers(run) == ["error: List roots not supported"]


def test_where_no_one_can_answer_the_server_is_told_so_at_once(tmp_path: Path) -> None:
    run = locked(tmp_path).start("go", script=[ASK, "done"])
    run.session.ports.questions = "decline"
    result = run.run()
    assert result.reason == "completed"
    assert json.loads(answers(run)[0]) == {"action": "decline"}
    assert result.warnings == ("calc.ask: declined, for no one can answer here: Who are you?",)


def test_a_tool_without_a_model_asks_too(tmp_path: Path) -> None:
    states = """\
  say: {do: tool, with: {name: calc.ask, arguments: {message: "Sure?"}}, save: {vars.out: result}, next: done}
  done: {stop: completed}
"""
    head = "vars: {out: {type: any, value: null}}\noutput: vars.out\n"
    run = locked(tmp_path, machine("calc.ask", states=states, head=head)).start()
    assert run.run().reason is None
    run.send("accept")
    assert run.run().reason == "completed"
    assert "accept" in str(run.result.output)
    assert len(calls_of(tmp_path)) == 1


def test_a_pause_and_a_cancel_while_the_question_stands(tmp_path: Path) -> None:
    run = asking(tmp_path)
    run.pause()
    run.send("accept", {"name": "Eve", "size": 3})
    assert run.run().reason is None
    assert run.status == "paused"
    assert run.question is None
    run.resume()
    assert run.run().reason == "completed"
    assert json.loads(answers(run)[0])["action"] == "accept"
    assert len(calls_of(tmp_path)) == 1

    (tmp_path / "second").mkdir()
    other = asking(tmp_path / "second")
    other.cancel()
    result = other.run()
    assert result.reason == "user_requested"
    (warning,) = result.warnings
    assert warning == (
        "calc.ask at act was in the middle of a call when the run was stopped; "
        "whether it happened is not known"
    )


def test_time_of_waiting_is_not_time_of_working(tmp_path: Path) -> None:
    run = asking(tmp_path)
    time.sleep(1.2)
    run.send("decline")
    run.run()
    facts = run.facts.run
    assert facts.idle >= 1.2
    assert facts.working == pytest.approx(facts.elapsed - facts.idle)


def waiting(made: Machine, id: str, path: Path) -> Run | None:
    """The run as another process reads it, once it asks something."""
    time.sleep(0.05)
    with suppress(UnknownRunError):
        seen = made.open(id, journal=path, script=[])
        return seen if seen.session.row.question is not None else None
    return None


def test_what_is_asked_is_in_the_row_and_answered_from_elsewhere(tmp_path: Path) -> None:
    """The run is driven on in one thread; another process looks at the journal and answers."""
    path = tmp_path / "journal.db"
    made = locked(tmp_path)
    run = made.start("go", script=[ASK, "done"], journal=path)
    run.session.ports.questions = "stay"
    driver = threading.Thread(target=run.run)
    driver.start()
    seen = next(filter(None, (waiting(made, run.id, path) for _ in range(400))))
    row = seen.session.row
    assert row.question is not None
    assert row.question.text == "MCP server `calc` asks: Who are you?"
    assert row.status == "paused"
    seen.send("accept", {"name": "Eve", "size": 3}, wait=row.question.wait)
    driver.join(20)
    assert not driver.is_alive()
    assert run.result.reason == "completed"
    assert json.loads(answers(run)[0])["content"]["name"] == "Eve"
    assert len(calls_of(tmp_path)) == 1


def end_servers(run: Run) -> None:
    """End the servers of a run, as the end of its process does."""
    servers = run.session.ports.servers
    assert servers is not None
    asyncio.run(servers.close())


def test_an_answer_that_was_recorded_is_used_when_the_call_is_made_again(tmp_path: Path) -> None:
    """The process ends while the question stands: the call is in doubt, the answer is not lost."""
    path = tmp_path / "journal.db"
    run = asking(tmp_path, head="in_doubt: retry\n", journal=path)
    id, made = run.id, locked(tmp_path, machine(head="in_doubt: retry\n"))
    end_servers(run)
    del run
    again = made.open(id, journal=path, script=[ASK, "done"])
    again.send("accept", {"name": "Eve", "size": 3})
    result = again.run()
    assert result.reason == "completed", result.explain()
    assert json.loads(answers(again)[0])["content"]["name"] == "Eve"
    assert len(calls_of(tmp_path)) == 2
    assert any("whether" in text or "doubt" in text for text in result.warnings)
    assert again.replay().same


# the model --------------------------------------------------------------------------------------

SAMPLE = call("calc.model", texts=["one", "two"])


def sampling(folder: Path, more: str, *, script: Any, head: str = "", **given: Any) -> Run:
    text = machine(more=f", sampling: {more}", head=head)
    return locked(folder, text).start("go", script=script, **given)


def test_a_server_uses_the_model_of_the_run_and_it_is_counted(tmp_path: Path) -> None:
    run = sampling(tmp_path, "{calls: 2}", script=[SAMPLE, "eins", "zwei", "done"])
    result = run.run()
    assert result.reason == "completed"
    (text,) = answers(run)
    assert json.loads(text)["content"] == {"type": "text", "text": "zwei"}
    assert run.facts.usage.llm_calls == 4
    spent = [r.input.outcome.spent for r in run.records if r.input.outcome is not None]
    assert [one.llm_calls for one in spent] == [0, 1, 2, 1]
    assert run.facts.usage.total_tokens == sum(
        one.prompt_tokens + one.completion_tokens for one in spent
    )
    assert run.replay().same


def test_a_machine_without_a_model_call_of_its_own_has_a_model_for_its_server(
    tmp_path: Path,
) -> None:
    states = """\
  say: {do: tool, with: {name: calc.model, arguments: {texts: [one]}}, save: {vars.out: result}, next: done}
  done: {stop: completed}
"""
    head = "vars: {out: {type: any, value: null}}\noutput: vars.out\n"
    text = machine("calc.model", states=states, head=head, more=", sampling: {calls: 1}")
    run = locked(tmp_path, text).start(script=["eins"])
    assert "eins" in str(run.run().output)
    assert run.facts.usage.llm_calls == 1


def test_without_leave_a_server_gets_no_model_call(tmp_path: Path) -> None:
    run = locked(tmp_path).start("go", script=[SAMPLE, "done"])
    assert run.run().reason == "completed"
    assert answers(run) == ["error: Sampling not supported"]
    assert run.facts.usage.llm_calls == 2


@pytest.mark.parametrize(
    ("more", "head", "why"),
    [
        ("{calls: 1}", "", "`sampling` allows 1 model calls"),
        ("{calls: 9, tokens: 1}", "", "`sampling` allows 1 tokens"),
        (
            "{calls: 9}",
            "limits: {calls: 2}\nrules: [{when: usage.llm_calls >= limits.calls, stop: custom}]\n",
            "`limits.calls` of the run is spent",
        ),
    ],
    ids=["calls", "tokens", "limit"],
)
def test_past_its_cap_or_a_limit_a_model_call_is_refused(
    tmp_path: Path, more: str, head: str, why: str
) -> None:
    run = sampling(tmp_path, more, script=[SAMPLE, "eins", "done"], head=head)
    result = run.run()
    assert result.facts.usage.llm_calls == (3 if not head else 2)
    assert result.reason == ("completed" if not head else "custom")
    assert why in answers(run)[0]
    assert any(why in warning for warning in result.warnings)


# what follows from it ---------------------------------------------------------------------------


def bounds(folder: Path, more: str) -> dict[str, Any]:
    rules = "rules: [{when: run.steps >= 20, stop: steps_limit}]\n"
    text = machine(more=more, head=rules).replace(
        "{name: scripted}",
        "{name: scripted, context_window: 1000, max_tokens: 100, input_cost_per_token: 0.001,"
        " output_cost_per_token: 0.001}",
    )
    return {name: f.value for name, f in locked(folder, text).bound().figures.items()}


def test_a_bound_knows_what_a_server_may_ask(tmp_path: Path) -> None:
    """Nine times thirty-two calls of tools, each with two questions, or with three model calls."""
    off = bounds(tmp_path, ", elicitation: {questions: 0}")
    asks = bounds(tmp_path, ", elicitation: {within: 1m, questions: 2}")
    samples = bounds(tmp_path, ", elicitation: {questions: 0}, sampling: {calls: 3, tokens: 10}")
    assert off["waiting"] == 0
    assert 9 * 32 * 2 * 60 <= asks["waiting"] <= 10 * 32 * 2 * 60
    assert off["requests"] == asks["requests"] == 10
    assert samples["requests"] > off["requests"] + 9 * 32 * 3 - 1
    assert samples["tokens"] >= off["tokens"] + 9 * 32 * 1010
    assert samples["usd"] > off["usd"]


def test_a_diff_says_whether_a_server_may_ask_more(tmp_path: Path) -> None:
    old = locked(tmp_path, machine())
    new = locked(
        tmp_path, machine(more=", sampling: {calls: 5, tokens: 1000}, elicitation: {within: 1h}")
    )
    newer = locked(tmp_path, machine(more=", sampling: {calls: 2, tokens: 1000}"))
    assert [(c.group, str(c)) for c in diff(old, new).changes] == [
        ("Actions", "model calls of MCP server `calc` added: `{calls: 5, tokens: 1,000}`"),
        ("Actions", "`elicitation.within` of MCP server `calc` loosened: `10m` → `1h`"),
    ]
    assert [str(c) for c in diff(new, newer).changes] == [
        "`elicitation.within` of MCP server `calc` tightened: `1h` → `10m`",
        "`sampling.calls` of MCP server `calc` tightened: `5` → `2`",
    ]
    assert load(new.canonical()).spec == new.spec


def test_a_question_of_a_child_is_one_of_its_parent(tmp_path: Path) -> None:
    child = machine().replace("machine: peer", "machine: inner")
    put_server(tmp_path)
    (tmp_path / "inner.yaml").write_text(child)
    lock_tools(tmp_path / "inner.yaml").write()
    outer = tmp_path / "outer.yaml"
    outer.write_text(OUTER)
    run = load(outer).start("go", script=[ASK, "done"])
    assert run.run().reason is None
    assert run.question is not None
    assert run.question.text == "MCP server `calc` asks: Who are you?"
    assert [*run.question.answers] == ["accept", "decline", "cancel"]
    with pytest.raises(AnswerError, match="minLength"):
        run.send("accept", {"name": "E", "size": 3})
    run.send("accept", {"name": "Eve", "size": 3})
    assert run.run().reason == "completed", run.result.explain()
    assert len(calls_of(tmp_path)) == 1
    assert run.replay().same


OUTER = """\
chartloop: 1
machine: outer
model: {name: scripted}
machines: {inner: inner.yaml}
states:
  work: {do: run_machine, with: {machine: inner, task: go}, next: done}
  done: {stop: completed}
"""


# real servers -----------------------------------------------------------------------------------

MODERN = """\
import sys
from typing import Annotated
import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, Resolve, Sample
from pydantic import BaseModel

server = MCPServer("shop", log_level="WARNING")


class Size(BaseModel):
    size: int


async def ask(what: str) -> Elicit[Size]:
    return Elicit(f"Which size of {what}?", Size)


async def think(what: str) -> Sample:
    content = types.TextContent(type="text", text=f"Describe {what}.")
    return Sample([types.SamplingMessage(role="user", content=content)], max_tokens=20)


@server.tool()
def order(what: str, size: Annotated[Size, Resolve(ask)]) -> str:
    '''Order something.'''
    return f"{what} of size {size.size}"


@server.tool()
def describe(what: str, said: Annotated[types.CreateMessageResult, Resolve(think)]) -> str:
    '''Describe something.'''
    return f"{what}: {said.content.text}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
"""


@contextmanager
def shop(folder: Path, *, http: bool) -> Generator[str]:
    """The declaration of a server of the protocol of 2026."""
    (folder / "shop.py").write_text(MODERN)
    if not http:
        yield f"command: {json.dumps(sys.executable)}, args: [shop.py]"
        return
    port = free_port()
    command = [sys.executable, str(folder / "shop.py"), str(port)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:  # fmt: skip
        for _ in range(400):
            with socket.socket() as there:
                if there.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f'url: "http://127.0.0.1:{port}/mcp"'
        process.kill()


@pytest.mark.parametrize("http", [False, True], ids=["stdio", "http"])
@pytest.mark.slow("starts servers with the package `mcp`")
def test_a_server_of_2026_has_its_call_made_again_with_the_answer(
    tmp_path: Path, http: bool
) -> None:
    with shop(tmp_path, http=http) as declared:
        text = machine("shop.*").replace(
            machine().split("calc: ")[1].split("\n")[0], "{" + declared + ", sampling: {calls: 3}}"
        ).replace("calc: ", "shop: ")  # fmt: skip
        path = put_machine(tmp_path, text)
        lock_tools(path).write()
        both = {"text": "", "tool_calls": [
            {"name": "shop.order", "arguments": {"what": "shoes"}},
            {"name": "shop.describe", "arguments": {"what": "socks"}},
        ]}  # fmt: skip
        run = load(path).start("go", script=[both, "soft", "done"])
        assert run.run().reason is None
        assert run.question is not None
        assert run.question.text == "MCP server `shop` asks: Which size of shoes?"
        run.send("accept", {"size": 44})
        assert run.run().reason == "completed", run.result.explain()
        assert answers(run) == ["shoes of size 44", "socks: soft"]
        assert run.facts.usage.llm_calls == 3
        assert run.replay().same


@pytest.mark.node("@modelcontextprotocol/server-everything")
@pytest.mark.slow("starts the reference server twice")
def test_the_reference_server_asks_over_stdio_and_http(tmp_path: Path) -> None:
    with reference_server(free_port()) as address:
        text = NODE.format(path=EVERYTHING, url=address).replace(
            "tools: [local.echo", 'tools: ["local.trigger-*", "remote.trigger-*"'
        )
        text = text.replace("{{WORD: hello}}", "{WORD: hello}")
        text = text.replace("WORD: hello}}", "WORD: hello}, sampling: {calls: 1}}")
        text = text.replace("chartloop}}", "chartloop}, sampling: {calls: 1}}")
        path = put_machine(tmp_path, text)
        lock_tools(path).write()
        script: list[Any] = []
        for server in ("local", "remote"):
            script.append(call(f"{server}.trigger-elicitation-request"))
            script += [
                call(f"{server}.trigger-sampling-request", prompt="hi", maxTokens=9),
                "hello",
            ]
        run = load(path).start("go", script=[*script, "done"])
        for _ in range(2):
            assert run.run().reason is None
            run.send("accept", {"name": "Eve"})
        assert run.run().reason == "completed", run.result.explain()
        asked, sampled, *others = answers(run)
        assert "Eve" in asked
        assert "hello" in sampled
        assert "Eve" in others[0]
        assert "hello" in others[1]


# kills ------------------------------------------------------------------------------------------


def to_the_end(run: Run) -> Run:
    """Driven to its end, each question answered."""
    while run.run().reason is None:
        run.send("accept", {"name": "Eve", "size": 3})
    return run


@pytest.mark.slow("starts servers for every write")
def test_a_kill_at_any_write_loses_neither_an_answer_nor_a_model_call(tmp_path: Path) -> None:
    """What was recorded is not asked again, of a person or of the model; all of it is counted."""
    both = {"text": "", "tool_calls": [*SAMPLE["tool_calls"], *ASK["tool_calls"]]}
    script = [both, "eins", "zwei", "done"]
    made = locked(tmp_path, machine(more=", sampling: {calls: 5}", head="in_doubt: retry\n"))
    whole = CrashAt(MemoryJournal())
    to_the_end(made.start("go", script=script, journal=whole))
    assert whole.writes > 8
    for n in range(1, whole.writes + 1):
        journal = MemoryJournal()
        run = made.start("go", script=script, journal=CrashAt(journal, n), run_id="killed")
        with pytest.raises(Crashed):
            to_the_end(run)
        end_servers(run)
        if not asyncio.run(journal.rows()):
            continue
        again = made.open("killed", journal=journal, script=script, take_over=True)
        if not again.session.head:
            continue
        again = to_the_end(again)
        assert again.result.reason == "completed"
        sampled, asked = answers(again)
        assert json.loads(sampled)["content"]["text"] == "zwei", n
        assert json.loads(asked)["content"]["name"] == "Eve", n
        assert again.facts.usage.llm_calls == 4, n
        assert again.replay().same, n
