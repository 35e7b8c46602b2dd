"""What is shown of a call is what is executed, and nothing in it hides or imitates another part.

Two tables. Troubles that a model may write against the faces that show a call: each face is what
the terminal, the full screen, the page, a notice, a form or a program reads. And what may change
between the question and its answer: the call is made exactly as it was shown, or it is refused.

Not here: the page in a browser (`tests.browser.test_calls_page`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import AfterValidator, BaseModel, Field

from chartloop import load, tool
from chartloop.api import Machine, Run
from chartloop.api.tool_lock import lock_tools
from chartloop.core.approvals import FOLDED, FURTHER, WIDTH, row_lines
from chartloop.core.errors import AnswerError
from chartloop.hosting.mcp_server.elicitation_form import form_of
from chartloop.run.journal import MemoryJournal
from chartloop.run.question import Question
from tests.mcp_peers import NUMBER, calls_of, offer, put_machine, put_server
from tests.mcp_peers import machine as peer

DONE: list[dict[str, Any]] = []
TEXT = """chartloop: 1
machine: gate
model: {name: scripted}
tools: [TOOLS]
approve: {tools: [TOOLS], by: the boss, edit: trueMORE}
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@tool
def buy(item: Any, usd: float = 50, note: str | None = None, express: bool = False) -> str:
    """Buy."""
    DONE.append({"item": item, "usd": usd, "note": note, "express": express})
    return "bought"


def machine(*tools: Any, more: str = "") -> Machine:
    names = ", ".join(one.__name__ for one in tools)
    return load(TEXT.replace("TOOLS", names).replace("MORE", more), tools=[*tools])


def asks(
    text: str | Mapping[str, Any], *tools: Any, more: str = "", **given: Any
) -> tuple[Run, Question | None]:
    """A run whose model asks for the first tool with these arguments, and its question."""
    tools = tools or (buy,)
    call = {"id": "a", "name": tools[0].__name__, "arguments": text}
    script = [{"text": "", "tool_calls": [call]}, "done"]
    run = machine(*tools, more=more).start("t", script=script, run_id="r", **given)
    run.run()
    return run, run.question


def replies(run: Run) -> list[str]:
    return [str(m["content"]) for m in run.messages if m["role"] == "tool"]


# troubles and faces ---------------------------------------------------------------------------


class Trouble(NamedTuple):
    """Arguments as a model writes them."""

    id: str
    arguments: dict[str, Any]
    """Without `usd`, which is 900,001 unless it stands here."""
    defaults: tuple[str, ...] = ("/note", "/express")


LONG = "lorem ipsum " * 900
FORTY: dict[str, Any] = {f"a{n:02}": n for n in range(40)}
TROUBLES = [
    Trouble("plain", {"item": "chair"}),
    Trouble("line-breaks", {"item": "chair\n\nusd   9.00 USD" + "\n" * 60 + "."}),
    Trouble("carriage-returns", {"item": "chair\r\nusd: 9.00 USD\r\rusd: 9\u2028usd: 9\x85usd: 9"}),
    Trouble("imitates-a-row", {"item": "usd: 9.00 USD"}),
    Trouble("imitates-a-default", {"item": "9.00 USD  (default)"}),
    Trouble("imitates-json", {"item": 'chair", "usd": 9} (default: usd'}),
    Trouble("spaces", {"item": "chair" + " " * 200 + "usd: 9.00 USD"}),
    Trouble("ten-thousand-characters", {"item": LONG}),
    Trouble("invisible", {"item": "cha\u200bir\u3164\u2800\ufe0f\U000e0041"}),
    Trouble("bidi", {"item": "chair \u202e000,1 \u2066x\u2069"}),
    Trouble("tabs-and-escapes", {"item": "\x1b[2J\x1b[1;1Hchair\t\x07"}),
    Trouble("key-with-line-break", {"item": {"x\nusd": 9, "usd\u200b": 9}}),
    Trouble("key-that-imitates", {"item": {"usd ": 9, " usd": 8, "usd: 9": 7, "\u202edsu": 6}}),
    Trouble("huge-key", {"item": {"usd " * 3000: 9}}),
    Trouble("forty-arguments", {"item": FORTY}),
    Trouble("nested", {"item": {"a": [{"note": "x\nusd: 9", "usd": 3}, ["usd: 9", "• usd: 9"]]}}),
    Trouble("deep", {"item": json.loads("[" * 60 + '"usd: 9"' + "]" * 60)}),
    Trouble("nested-long", {"item": {"a": "x\n" * 60, "usd": 3}}),
    Trouble("default-left-out", {"item": "chair", "usd": None}, ("/usd", "/note", "/express")),
    Trouble("null-given", {"item": "chair", "note": None}, ("/express",)),
    Trouble("null-as-text", {"item": "null", "note": "null"}, ("/express",)),
    Trouble("number-as-text", {"item": "9", "usd": "900001"}),
    Trouble("boolean-as-text", {"item": "chair", "express": "yes"}, ("/note",)),
    Trouble("boolean-as-number", {"item": "chair", "express": 1}, ("/note",)),
    Trouble("huge-number", {"item": 10**300}),
    Trouble("empty", {"item": ""}),
]  # fmt: skip


def given_by(trouble: Trouble) -> dict[str, Any]:
    """What the model writes: an amount, unless it is left out."""
    given = {"usd": 900001, **trouble.arguments}
    return {name: v for name, v in given.items() if v is not None or name != "usd"}


class Asked(NamedTuple):
    """A question, and what the model wrote."""

    question: Question
    trouble: Trouble

    @property
    def call(self) -> Any:
        (call,) = self.question.to_dict()["calls"]
        return call

    @property
    def amount(self) -> str:
        return "50" if "/usd" in self.trouble.defaults else "900,001"


def is_seen(text: str) -> bool:
    """Whether nothing in a text steers a screen or hides."""
    return all(line.isprintable() for line in text.split("\n"))


def read_text(asked: Asked) -> dict[str, Any]:
    """The question's text: a call is one line of JSON, which a long text ends."""
    lines = asked.question.text.split("\n")
    assert len(lines) == 3
    line = lines[-1]
    assert line.isprintable()
    value, end = json.JSONDecoder().raw_decode(line.removeprefix("  buy "))
    filled = ", ".join(at[1:] for at in asked.trouble.defaults)
    assert line.removeprefix("  buy ")[end:] == f" (default: {filled})"
    assert line.index('"usd": ') < 200  # whatever is cut off or scrolls away
    return value


def read_json(asked: Asked) -> dict[str, Any]:
    """What a program reads: the arguments, and which of them are defaults."""
    assert asked.call["defaults"] == [*asked.trouble.defaults]
    assert {json.loads(n): json.loads(v) for n, v in asked.call["shown"]} == json.loads(
        asked.call["arguments"]
    )
    return json.loads(asked.call["arguments"])


def read_rows(asked: Asked) -> None:
    """The rows of a card: the amount first, each in its box, a long one counted."""
    rows = asked.call["rows"]
    assert [row["name"] for row in rows][:1] == ["usd"]
    assert sorted(row["name"] for row in rows) == ["express", "item", "note", "usd"]
    assert rows[0]["text"].startswith(asked.amount)
    assert rows[0]["money"]
    defaults = [f"/{row['name']}" for row in rows if row["note"] == "default"]
    assert sorted(defaults) == sorted(asked.trouble.defaults)
    for row in rows:
        assert is_seen(row["text"])
        text = row["text"]
        assert bool(row["long"]) is (text.count("\n") >= FOLDED or len(text) > FOLDED * WIDTH)
        if isinstance(asked.trouble.arguments["item"], str):
            assert all(line.startswith(FURTHER) for line in row["text"].split("\n")[1:])
    if rows[-1]["long"]:
        assert rows[-1]["name"] == "item"


def read_lines(lines: list[str], asked: Asked) -> None:
    """The rows of a text face: folded, the amount in the first line, and no other line like it."""
    assert lines[0].lstrip().startswith(f"usd: {asked.amount}")
    indents = {len(line) - len(line.lstrip()) for line in lines}
    rows = [line.strip() for line in lines if len(line) - len(line.lstrip()) == min(indents)]
    assert sorted(row.split(":")[0] for row in rows) == ["express", "item", "note", "usd"]
    if isinstance(asked.trouble.arguments["item"], str):  # an object has amounts of its own
        assert len([line for line in lines if re.match(r"\s*usd\b", line)]) == 1
    assert len(lines) <= 3 + FOLDED
    assert max(map(len, lines)) < 130
    assert all(line.isprintable() for line in lines)


def read_screen(asked: Asked) -> None:
    read_lines([*row_lines(asked.question.calls[0])], asked)


def read_folded(asked: Asked) -> None:
    """The terminal below a long question, and a notice: the question's text with those rows."""
    head, boss, name, *lines = asked.question.folded().split("\n")
    assert (head, boss, name) == ("May this be executed?", "(for the boss)", "  buy")
    read_lines(lines, asked)


def read_form(asked: Asked) -> None:
    """A form over MCP: its message is the text, its fields are those of the tool's schema."""
    form = form_of(asked.question)
    assert form.message == asked.question.text
    assert is_seen(json.dumps(form.schema, ensure_ascii=False))


FACES: dict[str, Callable[[Asked], dict[str, Any] | None]] = {
    "text": read_text, "json": read_json, "rows": read_rows, "screen": read_screen,
    "folded": read_folded, "form": read_form,
}  # fmt: skip
"""`show`, the link's page, the inbox, the run's page and the notebook read `text` and `rows`."""


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.id)
def test_a_face_shows_what_is_executed(trouble: Trouble, face: str) -> None:
    run, question = asks(given_by(trouble))
    assert question is not None
    read = FACES[face](Asked(question, trouble))
    run.send("accept", {"by": "eve"})
    run.run()
    (done,) = DONE
    assert replies(run) == ["bought"]
    if read is not None:
        assert read == done
        assert [type(v) for v in (read["express"], read["item"])] == [bool, type(done["item"])]


class Wrong(NamedTuple):
    """Arguments that the tool refuses, as a model writes them, and what it is told."""

    id: str
    text: str
    told: str


WRONG = [
    Wrong("wrong-type", '{"item": "x", "usd": "dear"}', "usd: Input should be a valid number"),
    Wrong("missing", '{"usd": 3}', "item: is missing"),
    Wrong("extra", '{"item": "x", "eur": 3}', "eur: there is no such argument"),
    Wrong("extra-imitates", '{"item": "x", "usd ": 3}', "usd : there is no such argument"),
    Wrong("null", '{"item": "x", "usd": null}', "usd: Input should be a valid number"),
    Wrong("twice", '{"item": "x", "usd": 9, "usd": 900001}', '"usd" is given twice'),
    Wrong("nan", '{"item": "x", "usd": NaN}', "NaN is not a JSON number"),
    Wrong("nan-as-text", '{"item": "x", "usd": "NaN"}', "usd: NaN and infinity are not numbers"),
    Wrong("infinite", '{"item": "x", "usd": 1e400}', "too large a number"),
    Wrong("infinite-as-text", '{"item": "x", "usd": "-inf"}', "usd: NaN and infinity are not"),
    Wrong("no-object", '["x", 3]', "must be a JSON object"),
    Wrong("no-json", '{"item": "x"', "cannot be read"),
    Wrong("deep", '{"item": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
    Wrong("half-a-character", '{"item": "\\ud800"}', "Invalid JSON"),
]


@pytest.mark.parametrize("more", ["", ", when: call.arguments.usd > 100", ", remember: true"])
@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_what_the_tool_would_refuse_is_told_to_the_model_and_asked_of_nobody(
    case: Wrong, more: str
) -> None:
    run, question = asks(case.text, more=more)
    assert question is None
    (told,) = replies(run)
    assert told.startswith("error: ")
    assert case.told in told
    assert DONE == []
    assert run.replay().same


def test_a_wrong_call_beside_a_right_one_is_not_part_of_the_question() -> None:
    calls = [
        {"id": "a", "name": "buy", "arguments": {"item": "x", "usd": "dear"}},
        {"id": "b", "name": "buy", "arguments": {"item": "y", "usd": 3}},
    ]
    run = machine(buy).start("t", script=[{"text": "", "tool_calls": calls}, "done"])
    run.run()
    assert run.question is not None
    assert [one["key"] for one in run.question.calls] == ["b"]
    run.send("accept", {"by": "eve"})
    run.run()
    assert [one["item"] for one in DONE] == ["y"]
    assert [text.partition(":")[0] for text in replies(run)] == ["error", "bought"]


# what a tool gets -----------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


class Order(BaseModel):
    item: str
    usd: float = 50


class Aliased(BaseModel):
    usd: float = Field(alias="usdAmount")


COUNTED: list[int] = []


class Counted(BaseModel):
    number: int = Field(default_factory=lambda: COUNTED.append(1) or len(COUNTED))


@tool
def order(orders: list[Order]) -> str:
    """Nested defaults."""
    DONE.append({"orders": [one.model_dump() for one in orders]})
    return "ordered"


@tool
def alias(order: Aliased) -> str:
    """Another name in JSON."""
    DONE.append({"order": {"usdAmount": order.usd}})
    return "ordered"


@tool
def odd(usd: Decimal = Decimal("7.5"), colour: Colour = Colour.RED, at: Path = Path("x")) -> str:
    """Defaults that no JSON has."""
    DONE.append({"usd": float(usd), "colour": colour.value, "at": str(at)})
    return "done"


@tool
def exact(usd: Decimal) -> str:
    """A number with more digits than a float has."""
    DONE.append({"usd": str(usd)})
    return "done"


@tool
def counted(order: Counted) -> str:
    """A default that is another one each time."""
    DONE.append({"order": {"number": order.number}})
    return "done"


class _Unset:
    """A default that is known by itself only."""


UNSET = _Unset()


@tool
def unset(usd: float, note: Any = UNSET) -> str:
    """A default without a value."""
    assert note is UNSET
    DONE.append({"usd": usd, "note": "<_Unset>"})
    return "done"


class Got(NamedTuple):
    """A tool, what the model writes, and what is filled in."""

    id: str
    tool: Any
    arguments: dict[str, Any]
    defaults: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Got("nested", order, {"orders": [{"item": "a", "usd": 3}, {"item": "b"}]},
            ["/orders/1/usd"]),
        Got("alias", alias, {"order": {"usdAmount": "4"}}, []),
        Got("no-json", odd, {}, ["/usd", "/colour", "/at"]),
        Got("no-json-given", odd, {"usd": 9, "at": "y"}, ["/colour"]),
        Got("every-digit", exact, {"usd": "9000000000000000.01"}, []),
        Got("each-time-another", counted, {"order": {}}, ["/order/number"]),
        Got("no-value", unset, {"usd": 3}, ["/note"]),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_what_a_function_gets_is_shown(case: Got) -> None:
    run, question = asks(case.arguments, case.tool)
    assert question is not None
    (call,) = question.calls
    assert call.get("defaults", []) == case.defaults
    run.send("accept", {"by": "eve"})
    run.run()
    assert [json.loads(call["arguments"])] == DONE


# between the question and its answer ----------------------------------------------------------


def shop(**more: Any) -> Any:
    """A tool of the name `shop`, as another version of the application has it."""

    def later(item: str, usd: float = more.get("usd", 50)) -> str:
        """Buy."""
        DONE.append({"item": item, "usd": usd})
        return "bought"

    def renamed(item: str, price: float = 50) -> str:
        """Buy."""
        DONE.append({"item": item, "price": price})
        return "bought"

    def added(item: str, usd: float = 50, copies: int = 9) -> str:
        """Buy."""
        DONE.append({"item": item, "usd": usd, "copies": copies})
        return "bought"

    def whole(item: str, usd: int = 50) -> str:
        """Buy."""
        DONE.append({"item": item, "usd": usd})
        return "bought"

    def required(item: str, usd: float) -> str:
        """Buy."""
        DONE.append({"item": item, "usd": usd})
        return "bought"

    made = {"renamed": renamed, "added": added, "whole": whole, "required": required}
    function = made.get(more.get("form", ""), later)
    function.__name__ = "shop"
    return tool(function)


class Changed(NamedTuple):
    """How the tool differs once the answer comes, what was shown, and what is then executed."""

    id: str
    now: dict[str, Any]
    arguments: dict[str, Any]
    done: list[dict[str, Any]]


CHANGED = [
    Changed("the-same", {}, {"item": "x"}, [{"item": "x", "usd": 50}]),
    Changed("other-default", {"usd": 5000}, {"item": "x"}, [{"item": "x", "usd": 50}]),
    Changed("other-default-not-used", {"usd": 5000}, {"item": "x", "usd": 3},
            [{"item": "x", "usd": 3}]),
    Changed("default-taken-away", {"form": "required"}, {"item": "x"}, [{"item": "x", "usd": 50}]),
    Changed("renamed", {"form": "renamed"}, {"item": "x"}, []),
    Changed("argument-added", {"form": "added"}, {"item": "x"}, []),
    Changed("other-type", {"form": "whole"}, {"item": "x", "usd": 2.5}, []),
]  # fmt: skip


@pytest.mark.parametrize("edited", [False, True], ids=["as-asked", "edited"])
@pytest.mark.parametrize("case", CHANGED, ids=lambda case: case.id)
def test_a_tool_that_changed_since_executes_what_was_shown_or_nothing(
    tmp_path: Path, case: Changed, edited: bool
) -> None:
    journal = tmp_path / "j.db"
    written = {"item": "y", "usd": 1} if edited else case.arguments
    run, question = asks(written, shop(), journal=journal)
    if edited:
        run.send("edit", {"by": "eve", "calls": {"a": {"arguments": case.arguments}}})
        run.run()
        question = run.question
    assert question is not None
    shown = json.loads(question.calls[0]["arguments"])
    later = machine(shop(**case.now)).open("r", journal=journal, script=["", "done"])
    assert later.question == question
    later.send("accept", {"by": "bob"})
    later.run()
    assert case.done == DONE
    assert [shown] * len(DONE) == DONE
    if not DONE:
        assert "would get other arguments than were shown" in replies(later)[0]
    assert later.replay().same


def test_a_change_that_the_tool_refuses_is_not_taken() -> None:
    run, _ = asks({"item": "x"}, strict)
    with pytest.raises(AnswerError, match=r"do not fit its tool: item: .*no item begins with a y"):
        run.send("edit", {"by": "eve", "calls": {"a": {"arguments": {"item": "y"}}}})
    run.send("edit", {"by": "eve", "calls": {"a": {"arguments": {"item": "z"}}}})
    run.run()
    assert run.question is not None
    assert json.loads(run.question.calls[0]["arguments"]) == {"item": "z", "usd": 50}
    assert run.question.calls[0]["defaults"] == ["/usd"]


def _refuse_y(item: str) -> str:
    if item.startswith("y"):
        raise ValueError("no item begins with a y")
    return item


@tool
def strict(item: Annotated[str, AfterValidator(_refuse_y)], usd: float = 50) -> str:
    """A rule that no schema has."""
    DONE.append({"item": item, "usd": usd})
    return "bought"


# servers and child machines -------------------------------------------------------------------

FEE = {"type": "number", "default": 50}


@pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')  # noqa: S610 - no Django
@pytest.mark.parametrize("more", ["", ", when: call.arguments.usd > 100"])
def test_a_default_of_a_server_is_what_it_says_and_no_value(tmp_path: Path, more: str) -> None:
    """Also for `when`: the server may fill in another amount, so that a person is asked."""
    run = served(tmp_path, {"a": 1, "b": 2}, more=more)
    assert run.question is not None
    (call,) = run.question.to_dict()["calls"]
    said = "left out: usd; the server's default is said to be 50"
    assert run.question.text.endswith(f'  calc.add {{"a": 1, "b": 2}} ({said})')
    assert (call["left_out"], "defaults" in call) == ({"usd": 50}, False)
    row = next(row for row in call["rows"] if row["name"] == "usd")
    assert (row["text"], row["note"]) == ("left out", said.partition("; ")[2])
    assert f"  usd: left out  ({row['note']})" in [*row_lines(call)]
    run.send("accept", {})
    run.run()
    assert calls_of(tmp_path) == [["add", {"a": 1, "b": 2}]]


@pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')  # noqa: S610 - no Django
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1, "b": "x"}', "are wrong"),
        ('{"a": 1}', "are wrong"),
        ('{"a": 1, "b": 2, "usd": NaN}', "not finite"),
        ('{"a": 1, "b": 2, "usd": 1e400}', "not finite"),
        ("[1]", "not a JSON object"),
        ("{", "are not JSON"),
    ],
)
def test_what_a_schema_of_a_server_refuses_is_asked_of_nobody(
    tmp_path: Path, text: str, told: str
) -> None:
    run = served(tmp_path, text)
    assert run.question is None
    assert told in replies(run)[0]
    assert calls_of(tmp_path) == []


@pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')  # noqa: S610 - no Django
def test_a_server_that_says_another_default_since_is_not_called(tmp_path: Path) -> None:
    journal = MemoryJournal()
    run = served(tmp_path, {"a": 1, "b": 2}, journal=journal)
    assert run.question is not None
    put_server(tmp_path, [adding({**FEE, "default": 5000})])
    lock_tools(tmp_path / "machine.yaml").write()
    later = load(tmp_path / "machine.yaml").open(
        "r", journal=journal, script=["", "done"], changed=True
    )
    later.send("accept", {})
    later.run()
    assert "would get other arguments than were shown" in replies(later)[0]
    assert calls_of(tmp_path) == []


def adding(usd: Any) -> dict[str, Any]:
    made = offer("add", "Add.", a=NUMBER, b=NUMBER)
    made["inputSchema"]["properties"]["usd"] = usd
    return made


def served(folder: Path, arguments: Any, more: str = "", **given: Any) -> Run:
    """A run that wants a tool of a server behind a gate."""
    put_server(folder, [adding(FEE)])
    head = f"approve: {{tools: [calc.add]{more}}}\n"
    path = put_machine(folder, peer("calc.add", head=head))
    lock_tools(path).write()
    script = [{"text": "", "tool_calls": [{"name": "calc.add", "arguments": arguments}]}, "done"]
    run = load(path).start("t", script=script, run_id="r", **given)
    run.run()
    return run


DESK = """chartloop: 1
machine: desk
model: {name: scripted}
tools: [seller]
approve: {tools: [seller], by: the boss}
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
machines:
  seller:
    about: Sells.
    model: {name: scripted}
    inputs: {item: {}, usd: {}, memory.notes: {}}
    vars: {item: chair, usd: USD}
    memory: {notes: {value: "", limit: 5}}
    output: vars.usd
    states:
      done: {stop: completed}
"""


def sold(arguments: Any, **given: Any) -> Run:
    script = [{"text": "", "tool_calls": [{"name": "seller", "arguments": arguments}]}, "done"]
    run = load(DESK.replace("USD", "50")).start("t", script=script, run_id="r", **given)
    run.run()
    return run


def test_a_child_gets_what_was_shown() -> None:
    run = sold({"item": "desk"})
    assert run.question is not None
    assert run.question.text.endswith('  seller {"item": "desk", "usd": 50} (default: usd)')
    run.send("accept", {"by": "eve"})
    run.run()
    assert replies(run) == ["50"]


def test_a_child_that_has_another_default_since_gets_what_was_shown() -> None:
    journal = MemoryJournal()
    sold({"item": "desk"}, journal=journal)
    other = load(DESK.replace("USD", "5000"))
    later = other.open("r", journal=journal, script=["", "done"], changed=True)
    later.send("accept", {"by": "eve"})
    later.run()
    assert replies(later) == ["50"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"usd": "many"}, "are wrong"),
        ({"eur": 3}, "are wrong"),
        ({"memory_notes": "too long"}, "may hold 5 characters"),
    ],
)
def test_what_a_child_cannot_have_is_asked_of_nobody(arguments: Any, told: str) -> None:
    run = sold(arguments)
    assert run.question is None
    assert told in replies(run)[0]
