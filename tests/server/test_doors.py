"""Doors × rules: every way of answering a question, and every rule that an answer is under.

One place decides (`run.answer`); a door only brings who speaks. So each cell sends the same answer
to the same question through its door, and sees the same refusal, or the answer on the record. What
cannot occur at a door stands in `ELSEWHERE`, with the reason.
"""

from __future__ import annotations

import getpass
import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from chartloop import Machine, Run, load
from chartloop.actions.declare import tool_spec
from chartloop.adapters.journal.opening import journal_of
from chartloop.adapters.notify.log import LogNotifier
from chartloop.core.errors import ChartloopError
from chartloop.hosting.settings import Settings, Token
from chartloop.run.answer_links import links_of, make_link
from chartloop.run.journal import Journal
from chartloop.run.loop import leave
from chartloop.run.requests import StoredRequest
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock
from chartloop.testing.crash import Crashed
from chartloop.ui.notebook.panel.controller import Controller
from chartloop.ui.view_model.orders import Answer
from chartloop.ui.view_model.perform import perform
from tests.cli.shell import Shell, Terminal
from tests.server.conftest import Served, serving, wait_for

SERVER = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django
MCP = pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')  # noqa: S610 - no Django
SLOW = pytest.mark.slow("a program, or a client and its server, for each cell")
CRASHES: set[str] = set()
"""The items at whose first purchase the process is killed."""


def buy(item: str, usd: float) -> str:
    """Buy an item."""
    if item in CRASHES:
        CRASHES.remove(item)
        raise Crashed("in the call")
    return f"bought {item}"


BUY = tool_spec(buy, blocking=False)
SHOP = """\
from chartloop import tool


@tool
def buy(item: str, usd: float) -> str:
    \"\"\"Buy an item.\"\"\"
    return f"bought {item}"
"""
TEXT = """\
chartloop: 1
machine: {name}
model: {{name: scripted}}
tools: [buy]
approve: {{tools: [buy], {rule}}}
limits: {{steps: 20}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  ask: {{do: receive, next: think}}
  think: {{do: infer, next: [{{when: len(last.tool_calls) > 0, to: act}}, {{to: done}}]}}
  act: {{do: call_tools, next: think}}
  done: {{stop: completed}}
"""
PARENT = """\
chartloop: 1
machine: {name}
machines:
  buyer:
{child}
states:
  go: {{do: run_machine, with: {{machine: buyer, task: t}}, next: done}}
  done: {{stop: completed}}
"""
ON = """\
chartloop: 1
machine: plain
states:
  ask: {ask: 'Go on?', on: {yes: done}}
  done: {stop: completed}
"""
BOTH = {"yacht": 900, "car": 800}
ALIKE = {"by": "ann"}


@dataclass(frozen=True)
class Rule:
    """A rule, an answer, and what becomes of it."""

    id: str
    rule: str
    """The keys of `approve`."""
    event: str
    data: Mapping[str, Any]
    says: str = ""
    """A part of the refusal; empty if the answer is taken."""
    asks: str = "gate"
    """What asks: the run's `gate`, that of a `child`, or the question about a call in `doubt`."""
    wait: str = ""
    ahead: str = ""
    items: Mapping[str, float] = field(default_factory=lambda: {"yacht": 900})

    def __str__(self) -> str:
        return self.id


NOT_BY = "not_by: submitter"
RULES = [
    Rule("by-missing", "by: boss", "accept", {}, "needs `by`"),
    Rule("by-blank", "by: boss", "accept", {"by": " "}, "`by` of `accept` is empty"),
    Rule("by-invisible", "by: boss", "accept", {"by": "a\u200bnn"}, "U+200B"),
    Rule("by-named", "by: boss", "accept", ALIKE),
    Rule("by-unknown-event", "by: boss", "agree", ALIKE, "does not take `agree`"),
    Rule("not-by-submitter", NOT_BY, "accept", {"by": "eve"}, "`eve` submitted the run"),
    Rule("not-by-spelled", NOT_BY, "accept", {"by": "\uff25 V E"}, "`eve` submitted the run"),
    Rule("not-by-denies", NOT_BY, "deny", {"by": "eve", "note": "no"}),
    Rule("not-by-another", NOT_BY, "accept", ALIKE),
    Rule("not-by-edits", f"{NOT_BY}, edit: true", "edit",
         {"by": "eve", "calls": {"yacht": {"arguments": {"item": "pen", "usd": 1}}}},
         "`eve` submitted the run"),
    Rule("not-by-remembers", f"{NOT_BY}, remember: true", "accept",
         {"by": "eve", "remember": True}, "`eve` submitted the run"),
    Rule("not-by-some", NOT_BY, "accept",
         {"by": "eve", "calls": {"yacht": "accept", "car": "deny"}}, "`eve` submitted the run",
         items=BOTH),
    Rule("expired", "by: boss, within: 1h", "accept", ALIKE, "expired"),
    Rule("when-not-held", "by: boss, when: call.arguments.usd > 100", "accept",
         {"by": "ann", "calls": {"pen": "accept", "yacht": "accept"}},
         "no call `pen` waits", items={"pen": 2, "yacht": 900}),
    Rule("when-held", "by: boss, when: call.arguments.usd > 100", "accept",
         {"by": "ann", "calls": {"yacht": "accept"}}, items={"pen": 2, "yacht": 900}),
    Rule("edit-not-allowed", "by: boss", "edit",
         {"by": "ann", "calls": {"yacht": {"arguments": {"item": "pen", "usd": 1}}}},
         "does not take `edit`"),
    Rule("edit-in-accept", "by: boss, edit: true", "accept",
         {"by": "ann", "calls": {"yacht": {"arguments": {"item": "pen", "usd": 1}}}},
         "`accept` changes a call"),
    Rule("edit-unfit", "by: boss, edit: true", "edit",
         {"by": "ann", "calls": {"yacht": {"arguments": {"item": "pen", "usd": "x"}}}},
         "do not fit its tool"),
    Rule("edit-allowed", "by: boss, edit: true", "edit",
         {"by": "ann", "calls": {"yacht": {"arguments": {"item": "pen", "usd": 1}}}}),
    Rule("result-not-allowed", "by: boss", "accept",
         {"by": "ann", "calls": {"yacht": {"result": "one"}}}, "takes no `result`"),
    Rule("remember-not-allowed", "by: boss", "accept", {"by": "ann", "remember": True},
         "no field `remember`"),
    Rule("remember-allowed", "by: boss, remember: true", "accept", {"by": "ann", "remember": True}),
    Rule("each-call", "by: boss", "accept",
         {"by": "ann", "calls": {"yacht": "accept", "car": "deny"}}, items=BOTH),
    Rule("each-call-missing", "by: boss", "accept", {"by": "ann", "calls": {"yacht": "accept"}},
         "nothing is decided for", items=BOTH),
    Rule("each-call-against", "by: boss", "deny", {"by": "ann", "note": "", "calls":
         {"yacht": "accept", "car": "deny"}}, "`deny` accepts a call", items=BOTH),
    Rule("doubt-submitter", NOT_BY, "retry", {"by": "eve"}, "`eve` submitted", asks="doubt"),
    Rule("doubt-another", NOT_BY, "fail", ALIKE, asks="doubt"),
    Rule("doubt-nobody", "by: boss", "retry", {}, "needs `by`", asks="doubt"),
    Rule("doubt-invisible", "by: boss", "retry", {"by": "\u2066ann"}, "U+2066", asks="doubt"),
    Rule("doubt-accept", NOT_BY, "accept", ALIKE, "not an answer to a call in doubt", asks="doubt"),
    Rule("child-submitter", NOT_BY, "accept", {"by": "eve"}, "`eve` submitted", asks="child"),
    Rule("child-another", NOT_BY, "accept", ALIKE, asks="child"),
    Rule("child-invisible", NOT_BY, "accept", {"by": "e\u00adve"}, "U+00AD", asks="child"),
    Rule("another-wait", "by: boss", "accept", ALIKE, "wait 99", wait="99"),
    Rule("ahead-of-a-gate", "by: boss", "accept", ALIKE, "no call was shown yet", ahead="approve"),
]  # fmt: skip


def number_of(rule: Rule) -> int:
    return [one.id for one in RULES].index(rule.id)


class Place:
    """A folder with machines, a journal, and what serves them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machines = folder / "machines"
        self.machines.mkdir()
        (folder / "shop.py").write_text(SHOP)
        for number, rule in enumerate(RULES):
            text = TEXT.format(name=f"m{number}", rule=rule.rule)
            if rule.asks == "child":
                lines = text.splitlines()[2:]
                child = "\n".join(f"    {line}" for line in lines)
                text = PARENT.format(name=f"m{number}", child=child)
            (self.machines / f"m{number}.yaml").write_text(text)
        (self.machines / "plain.yaml").write_text(ON)
        self.path = folder / "journal.db"
        self.journal: Journal = journal_of(self.path)
        self.runs = 0
        self.waiting = ""
        """A run that asks, for answers that are refused."""

    def machine(self, rule: Rule) -> Machine:
        return load(self.machines / f"m{number_of(rule)}.yaml", tools=[BUY])

    def asked(self, rule: Rule) -> str:
        """A run that asks, submitted by eve; its calls are named by their items."""
        self.runs += 1
        id = f"r{self.runs}"
        calls = [
            {"id": item, "name": "buy", "arguments": {"item": item, "usd": usd}}
            for item, usd in rule.items.items()
        ]
        more: Any = {"clock": ManualClock()} if rule.id == "expired" else {}
        script = [{"tool_calls": calls}, "end"]
        run = self.machine(rule).start(
            "t", script=script, journal=self.journal, run_id=id, submitter="eve", **more
        )
        if rule.id == "expired":  # the time passes once nobody drives it
            while run.question is None:
                run.advance()
        else:
            run.run()
        if rule.asks == "doubt":
            CRASHES.add("yacht")
            run.send("accept", {"by": "bob"})
            with suppress(Crashed):
                run.run()
            run = self.machine(rule).open(id, journal=self.journal, script=["end"], take_over=True)
            run.run()
        assert run.question is not None
        by_hand(leave(run.session))
        return id

    def open(self, rule: Rule, run: str, **more: Any) -> Run:
        return self.machine(rule).open(run, journal=self.journal, script=["end"] * 3, **more)

    def answers(self, run: str) -> list[tuple[str, str]]:
        """The answers that the run has taken, or will take, by event and person."""
        found, rows = list[tuple[str, str]](), by_hand(self.journal.rows())
        for id in (row.run_id for row in rows if f"{row.run_id}/".startswith(f"{run}/")):
            kept = [r.input for r in by_hand(self.journal.records(id)) if r.kind == "answer"]
            found += [(one.event, str(one.data.get("by", ""))) for one in kept]
            sent = [m.data for m in by_hand(self.journal.inbox(id)) if m.data["kind"] == "answer"]
            found += [(one["event"], str(one["data"].get("by", ""))) for one in sent]
        return [one for one in found if one[1] != "bob"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("doors"))


EVE = Token("eve-edits-0123456789", "edit", "eve")
ANN = Token("ann-answers-012345678", "answer", "ann")
BOB = Token("bob-edits-0123456789", "edit", "bob")
RON = Token("ron-reads-0123456789", "read", "ron")
ANY = Token("anybody-0123456789abc", "edit")


@pytest.fixture(scope="module")
def served(place: Place) -> Iterator[Served]:
    """A server of the place that drives nothing."""
    with serving(settings_of(place, workers=0, tokens=(EVE, ANN, BOB, RON, ANY))) as served:
        served.client.headers["Authorization"] = f"Bearer {ANY.secret}"
        yield served


def settings_of(place: Place, **more: Any) -> Settings:
    given: Any = {"machines": (place.machines,), "journal": place.path, "tools": (BUY,), **more}
    return Settings(**given)


Hand = Callable[[Rule, str], str]
"""Sends the answer of a rule to a run; returns the refusal, or nothing."""


def refusal(act: Callable[[], Any]) -> str:
    try:
        act()
    except ChartloopError as error:
        return error.message
    return ""


def by_python(place: Place, request: pytest.FixtureRequest) -> Hand:
    def hand(rule: Rule, run: str) -> str:
        opened = place.open(rule, run)
        return refusal(lambda: opened.send(rule.event, rule.data, wait=rule.wait, ahead=rule.ahead))

    return hand


def fields_of(data: Mapping[str, Any]) -> Generator[str]:
    """Data as a command line gives them."""
    for name, value in data.items():
        if name != "calls":
            yield f"{name}={json.dumps(value) if isinstance(value, bool) else value}"
            continue
        for key, word in value.items():
            parts = cast("dict[str, Any]", word) if isinstance(word, dict) else {"": word}
            for part, given in parts.items():
                if part == "arguments":
                    yield from (f"{key}.arguments.{n}={v}" for n, v in given.items())
                else:
                    yield f"{key}.{part}={given}".replace(".=", "=")


def by_command(place: Place, request: pytest.FixtureRequest) -> Hand:
    sh: Shell = request.getfixturevalue("sh")

    def hand(rule: Rule, run: str) -> str:
        more = ["--wait", rule.wait] if rule.wait else []
        more += ["--ahead", rule.ahead] if rule.ahead else []
        done = sh(
            "answer", run, rule.event, *fields_of(rule.data), *more,
            "--journal", str(place.path), "--tools", str(place.folder / "shop.py"),
        )  # fmt: skip
        return " ".join(done.err.split()) if done.code else ""

    return hand


def by_order(place: Place, request: pytest.FixtureRequest) -> Hand:
    """What a press on the full screen orders."""

    def hand(rule: Rule, run: str) -> str:
        opened, data = place.open(rule, run), texts_of(rule.data)
        order = Answer(rule.event, data, wait=rule.wait)
        return refusal(lambda: perform(opened, order))

    return hand


def texts_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Data as a form gives them: texts, and boxes that are ticked."""
    return {n: v if isinstance(v, (str, bool)) else json.dumps(v) for n, v in data.items()}


def by_notebook(place: Place, request: pytest.FixtureRequest) -> Hand:
    def hand(rule: Rule, run: str) -> str:
        shows = dict[str, Any]()
        controller = Controller(place.open(rule, run), shows.update)
        assert controller.settle(20)
        asked = {"event": rule.event, "data": texts_of(rule.data), "wait": rule.wait}
        controller.take({"do": "answer", "id": 7, **asked})
        assert controller.settle(20)
        assert shows["heard"] == 7
        return shows["fault"]["message"] if shows.get("fault") else ""

    return hand


def by_http(place: Place, request: pytest.FixtureRequest, **more: Any) -> Hand:
    served: Served = request.getfixturevalue("served")

    def hand(rule: Rule, run: str) -> str:
        data = texts_of(rule.data) if more else rule.data
        body = {"event": rule.event, "data": data, **more}
        body |= {"wait": rule.wait, "ahead": rule.ahead}
        told = served.client.post(f"/runs/{run}/answer", json=body)
        assert told.status_code in (200, 409, 422), told.text
        return "" if told.status_code == 200 else told.json()["detail"]

    return hand


def by_page(place: Place, request: pytest.FixtureRequest) -> Hand:
    """What a press on the run page sends: the texts of its fields."""
    return by_http(place, request, typed=True)


def by_link(place: Place, request: pytest.FixtureRequest) -> Hand:
    """A link that bob makes for the person who answers."""
    served: Served = request.getfixturevalue("served")

    def hand(rule: Rule, run: str) -> str:
        to = {"to": str(rule.data["by"])}
        command = ("link", run, "--to", to["to"], "--by", "bob", "--journal", str(place.path))
        sh: Shell = request.getfixturevalue("sh")
        made = sh(*command, "--tools", str(place.folder / "shop.py"))
        if made.code:
            return " ".join(made.err.split())
        token = made.out.strip().partition("#")[2]
        told = served.client.post(
            "/answer", json={"event": rule.event, "data": dict(rule.data)},
            headers={"Authorization": f"Link {token}"},
        )  # fmt: skip
        assert told.status_code in (200, 409, 422), told.text
        return "" if told.status_code == 200 else told.json()["detail"]

    return hand


def by_mcp_tool(place: Place, request: pytest.FixtureRequest) -> Hand:
    from tests.mcp_server.conftest import play, talking  # noqa: PLC0415

    def hand(rule: Rule, run: str) -> str:
        async def client() -> str:
            more = {"wait": rule.wait} if rule.wait else {}
            more |= {"ahead": rule.ahead} if rule.ahead else {}
            settings = settings_of(place, components={"script": ["end"] * 3})
            async with talking(settings) as talk:
                given: Any = await talk.client.call_tool(
                    "answer", {"run": run, "event": rule.event, "data": dict(rule.data), **more}
                )
                told: Any = given.structured_content
                return told["error"]["detail"] if "error" in told else ""

        return play(client())

    return hand


def by_mcp_form(place: Place, request: pytest.FixtureRequest) -> Hand:
    """A form that the client of the run's own call fills in, twice: it is asked again, or not."""
    from tests.mcp_server.conftest import first_run, person, play, talking  # noqa: PLC0415

    def hand(rule: Rule, run: str) -> str:
        flat = {n: v for n, v in rule.data.items() if n != "calls"}
        keys = [*rule.items]
        for key, word in rule.data.get("calls", {}).items():
            number = f"call_{keys.index(key) + 1}"
            if isinstance(word, str):
                flat[number] = word
            else:
                flat |= {f"{number}_{n}": v for n, v in word.get("arguments", {}).items()}
        asked = person({"answer": rule.event, **flat}, "cancel")
        calls = [
            {"id": item, "name": "buy", "arguments": {"item": item, "usd": usd}}
            for item, usd in rule.items.items()
        ]

        async def client() -> str:
            script = [{"tool_calls": calls}, *["end"] * 3]
            settings = settings_of(
                place, journal=place.folder / f"form{run}.db", components={"script": script}
            )
            async with talking(settings, mode="legacy", elicitation_callback=asked) as talk:
                await talk.client.call_tool(f"m{number_of(rule)}", {"task": "t"})
                started = await first_run(talk.client)
                kept = await journal_of(settings.journal).records(started)
                taken = [r.input for r in kept if r.kind == "answer"]
                for one in taken:
                    by_python(place, request)(rule, run)  # the record that the cell looks for
                    assert one.event == rule.event
                return "" if taken else asked.asked[1][0]

        return play(client())

    return hand


def by_prompt(place: Place, request: pytest.FixtureRequest) -> Hand:
    """The question at a terminal: event, fields, then which calls."""

    def hand(rule: Rule, run: str) -> str:
        command = ("resume", run, "--journal", str(place.path), "--tools", "shop.py")
        (place.folder / "end.yaml").write_text("replies: [end, end]\n")
        with Terminal(*command, "--script", "end.yaml", cwd=place.folder) as t:
            t.expect("answer (number or name")
            t.type(f"{rule.event}\n")
            if rule.says.startswith("does not take"):
                t.expect("is not one of them")
                return rule.says
            for name in ("by", "note", "remember"):
                if name in rule.data:
                    t.expect(f"{name} (")
                    t.type(f"{str(rule.data[name]).lower()}\n")
            calls = rule.data.get("calls", {})
            if len(rule.items) > 1 and rule.event == "accept":
                t.expect("which calls")
                picked = [str(n) for n, i in enumerate(rule.items, 1) if calls.get(i) == "accept"]
                t.type(f"{' '.join(picked)}\n")
                for n in (
                    n for n in range(1, len(rule.items) + 1) if picked and str(n) not in picked
                ):
                    t.expect(f"note on {n} (")
                    t.type("\n")
            changed: list[dict[str, Any]] = [w for w in calls.values() if isinstance(w, dict)]
            for word in changed:
                for name, value in word.get("arguments", {}).items():
                    t.expect(f"{name} [")
                    t.type(f"{value}\n")
            if rule.says:
                t.expect(rule.says)
                return rule.says
            if rule.event == "edit":  # the changed call is asked about in its turn
                t.expect("answer (number or name")
                t.type("\n")
            t.wait()
        return ""

    return hand


class Door(NamedTuple):
    """A way of answering."""

    id: str
    open: Callable[[Place, pytest.FixtureRequest], Hand]
    marks: tuple[Any, ...] = ()


DOORS = [
    Door("python", by_python),
    Door("command", by_command),
    Door("prompt", by_prompt, (SLOW,)),
    Door("screen", by_order),
    Door("notebook", by_notebook),
    Door("http", by_http, (SERVER,)),
    Door("page", by_page, (SERVER,)),
    Door("link", by_link, (SERVER,)),
    Door("mcp-tool", by_mcp_tool, (MCP, SERVER, SLOW)),
    Door("mcp-form", by_mcp_form, (MCP, SERVER, SLOW)),
]
_LINK = "a link's `by` is whom it was made for, and its wait the one that it was made for"
_FORM = "a form offers the fields and events of its question only, and is of its own wait"
_OWN = "a form is asked of who called the tool: `test_a_form_is_answered_by_who_started_the_run`"
_SCREEN = "offers the answers, fields and calls of the question that is shown only"
_LATE = "a prompt that is open when the time is up closes itself: `test_terminal`"
ELSEWHERE: dict[tuple[str, str], str] = {
    **{("link", rule): _LINK for rule in ("by-missing", "doubt-nobody", "another-wait",
                                          "ahead-of-a-gate")},
    **{("mcp-form", rule.id): _OWN for rule in RULES if "not_by" in rule.rule},
    **{("mcp-form", rule): _FORM for rule in (
        "by-unknown-event", "when-not-held", "edit-not-allowed", "result-not-allowed",
        "remember-not-allowed", "another-wait", "ahead-of-a-gate", "edit-in-accept",
        "each-call-missing", "each-call-against", "expired", "doubt-nobody", "doubt-invisible",
        "edit-unfit",
    )},
    **{("prompt", rule): _SCREEN for rule in (
        "by-missing", "doubt-nobody", "when-not-held", "edit-in-accept", "result-not-allowed",
        "remember-not-allowed", "each-call-missing", "each-call-against", "another-wait",
        "ahead-of-a-gate", "when-held", "doubt-accept",
    )},
    ("prompt", "expired"): _LATE,
    ("mcp-tool", "ahead-of-a-gate"): "the tool takes no `ahead`",
    ("screen", "ahead-of-a-gate"): _SCREEN,
    ("notebook", "ahead-of-a-gate"): _SCREEN,
}  # fmt: skip
OWN_WORDS = {
    ("command", "when-not-held"): "`accept` has no field `pen`",
    ("link", "by-blank"): "a link is for one person",
}
"""What a door itself says of an answer that it cannot send."""
CELLS = [
    pytest.param(door, rule, id=f"{door.id}-{rule.id}", marks=door.marks)
    for door in DOORS
    for rule in RULES
    if (door.id, rule.id) not in ELSEWHERE
]


@pytest.fixture
def sh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    return Shell(tmp_path, capsys, monkeypatch)


@pytest.mark.parametrize(("door", "rule"), CELLS)
def test_an_answer_is_under_the_same_rules_at_every_door(
    door: Door, rule: Rule, place: Place, request: pytest.FixtureRequest
) -> None:
    run = place.asked(rule)
    said = door.open(place, request)(rule, run)
    if rule.says:
        assert OWN_WORDS.get((door.id, rule.id), rule.says) in said
        assert place.answers(run) == []
    else:
        assert said == ""
        taken = wait_for(lambda: place.answers(run), 20)
        assert taken == [(rule.event, rule.data["by"])]


def test_every_cell_is_tried_or_has_its_reason() -> None:
    known = {(door.id, rule.id) for door in DOORS for rule in RULES}
    assert set(ELSEWHERE) <= known
    assert len(CELLS) + len(ELSEWHERE) == len(known)


# who speaks -------------------------------------------------------------------------------------


def bearer(token: Token) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.secret}"}


class Speaks(NamedTuple):
    """Who sends `accept` over HTTP, in whose name, and what comes of it."""

    token: Token
    by: str | None
    status: int
    says: str = ""


WHO = {
    "scope": Speaks(RON, "ann", 403, "scope `answer`"),
    "named": Speaks(ANN, None, 200),
    "its-own-name": Speaks(ANN, "ann", 200),
    "blank": Speaks(ANN, " ", 200),
    "another-name": Speaks(ANN, "bob", 403, "is not the name of your token"),
    "own-name-otherwise": Speaks(ANN, "ANN", 403, "is not the name of your token"),
    "submitter": Speaks(EVE, None, 422, "`eve` submitted the run"),
    "submitter-as-another": Speaks(EVE, "ann", 403, "is not the name of your token"),
    "unnamed": Speaks(ANY, "ann", 200),
    "unnamed-as-submitter": Speaks(ANY, "eve", 422, "`eve` submitted the run"),
    "unnamed-as-nobody": Speaks(ANY, None, 422, "needs `by`"),
}
GATE = next(rule for rule in RULES if rule.id == "not-by-another")
ASKS = [rule for rule in RULES if rule.id in ("not-by-another", "child-another", "doubt-another")]


@SERVER
@pytest.mark.parametrize("asks", ASKS)
@pytest.mark.parametrize("who", WHO)
def test_a_token_answers_in_its_own_name(
    who: str, asks: Rule, place: Place, served: Served
) -> None:
    speaks, run = WHO[who], place.asked(asks)
    data = {} if speaks.by is None else {"by": speaks.by}
    event = "retry" if asks.asks == "doubt" else "accept"
    told = served.client.post(
        f"/runs/{run}/answer", json={"event": event, "data": data}, headers=bearer(speaks.token)
    )
    assert (told.status_code, speaks.says in told.json().get("detail", "")) == (speaks.status, True)
    taken = [(event, "ann")] if speaks.status == 200 else []
    assert place.answers(run) == taken


@SERVER
@pytest.mark.parametrize("event", ["yes", "no"])
def test_a_name_is_signed_where_nobody_asked_for_one(
    event: str, place: Place, served: Served
) -> None:
    """Also with an answer that comes before the question, for which its fields are not known."""
    run = load(ON).start(run_id=f"on-{event}", journal=place.journal)
    run.run()
    by_hand(leave(run.session))
    body = {"event": event, "data": {"by": "bob"}}
    told = served.client.post(f"/runs/{run.id}/answer", json=body, headers=bearer(ANN))
    assert told.status_code == 403
    assert place.answers(run.id) == []


@MCP
@SERVER
@SLOW
def test_a_form_is_answered_by_who_started_the_run(place: Place) -> None:
    """Whoever calls the tool has submitted the run, and cannot accept in its form."""
    import httpx2  # noqa: PLC0415
    from mcp import Client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    from tests.mcp_server.conftest import first_run, person, play  # noqa: PLC0415
    from tests.mcp_server.conftest import serving as serving_mcp  # noqa: PLC0415

    asked = person(*({"answer": "accept", "by": by} for by in ("eve", "", "ann")), "cancel")
    call = {"id": "yacht", "name": "buy", "arguments": {"item": "yacht", "usd": 900}}
    journal = place.folder / "eve.db"
    settings = settings_of(
        place, journal=journal, tokens=(EVE,), components={"script": [{"tool_calls": [call]}]}
    )

    async def client(address: str) -> str:
        headers = bearer(EVE)
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            transport = streamable_http_client(address, http_client=http)
            async with Client(transport, mode="legacy", elicitation_callback=asked) as talk:
                told: Any = await talk.call_tool(f"m{number_of(GATE)}", {"task": "t"})
                assert told.is_error
                assert "is not the name of your token" in str(told.content)
                return await first_run(talk)

    with serving_mcp(settings) as address:
        run = play(client(address))
    said = [text.partition(". ")[0] for text, _ in asked.asked]
    assert said[1:] == ["`eve` submitted the run and cannot accept it as well"] * 2
    kept = by_hand(journal_of(journal).records(run))
    assert [one for one in kept if one.kind == "answer"] == []


# links ------------------------------------------------------------------------------------------


class Makes(NamedTuple):
    """Who makes a link, for whom, and what it can do where the submitter cannot accept."""

    by: str
    to: str = "carl"
    says: str = ""
    """Why it accepts nothing; empty if it does."""
    made: bool = True
    """Whether it is made at all today: a journal may hold one of an earlier version."""


MAKERS = {
    "another": Makes("bob"),
    "the-server": Makes("server"),
    "submitter": Makes("eve", says="made by `eve`, who submitted the run", made=False),
    "submitter-spelled": Makes("E v E", says="who submitted the run", made=False),
    "unknown": Makes("", says="does not say who made it", made=False),
    "for-the-submitter": Makes("bob", "Eve", says="`eve` submitted the run"),
    "for-the-submitter-by-herself": Makes("eve", "eve", "`eve` submitted", made=False),
}


@SERVER
@pytest.mark.parametrize("asks", ASKS)
@pytest.mark.parametrize("maker", MAKERS)
def test_who_makes_a_link_counts(maker: str, asks: Rule, place: Place, served: Served) -> None:
    makes, run = MAKERS[maker], place.asked(asks)
    session = place.open(asks, run).session
    made = refusal(lambda: by_hand(make_link(place.journal, session, makes.to, made_by=makes.by)))
    assert (made == "") == makes.made
    stored = StoredLink(place, run).of(makes)
    event = "fail" if asks.asks == "doubt" else "accept"
    headers = {"Authorization": f"Link {stored}"}
    told = served.client.post("/answer", json={"event": event}, headers=headers)
    assert told.status_code == (422 if makes.says else 200), told.text
    if makes.says:
        assert makes.says in told.json()["detail"]
        assert place.answers(run) == []
        if asks.asks != "doubt":  # whoever it is may hold back
            body = {"event": "deny", "data": {"note": ""}}
            assert served.client.post("/answer", json=body, headers=headers).status_code == 200
    else:
        assert place.answers(run) == [(event, makes.to)]


class StoredLink:
    """A link as an earlier version has stored it, whoever made it."""

    def __init__(self, place: Place, run: str) -> None:
        self.place, self.run = place, run

    def of(self, makes: Makes) -> str:
        token = f"{self.run}-{makes.by}-{makes.to}".encode().hex()
        digest = hashlib.sha256(token.encode()).hexdigest()
        row = by_hand(self.place.journal.row(self.run))
        assert row is not None
        assert row.question is not None
        data = {"wait": row.question.wait, "to": makes.to, "by": makes.by, "until": 9e9}
        key = f"link-{digest[:32]}"
        stored = StoredRequest(key, self.run, "link", digest, 0.0, data, {})
        by_hand(self.place.journal.place_request(stored))
        return token


@SERVER
@pytest.mark.parametrize(
    ("token", "says"),
    [(EVE, "made by `eve`, who submitted the run"), (ANY, "does not say who made it"), (BOB, "")],
    ids=["submitter", "unnamed", "another"],
)
def test_a_link_is_refused_where_it_is_asked_for(
    token: Token, says: str, place: Place, served: Served
) -> None:
    run = place.asked(GATE)
    path = f"/runs/{run}/question/link"
    told = served.client.post(path, json={"to": "carl"}, headers=bearer(token))
    assert told.status_code == (422 if says else 201)
    assert says in told.json().get("detail", "")
    assert len(served.get(path)["links"]) == (0 if says else 1)


@pytest.mark.parametrize(("by", "code"), [("eve", 2), ("bob", 0), (None, 0)])
def test_a_command_says_who_makes_a_link(
    by: str | None, code: int, place: Place, sh: Shell
) -> None:
    run = place.asked(GATE)
    named = [] if by is None else ["--by", by]
    tools = str(place.folder / "shop.py")
    told = sh("link", run, "--to", "carl", *named, "--journal", str(place.path), "--tools", tools)
    assert told.code == code
    made = by_hand(links_of(place.journal, run))
    assert [one.made_by for one in made] == ([] if code else [by or getpass.getuser()])


# names ------------------------------------------------------------------------------------------

ODD = {
    "control": "a\x01nn", "line": "a\nnn", "tab": "a\tnn", "escape": "\x1b[1mann",
    "c1": "a\x85nn", "unassigned": "ann\u0378", "noncharacter": "ann\ufdd0",
    "private": "ann\ue000", "zero-width": "a\u200bnn", "joiner": "a\u200dnn",
    "non-joiner": "ann\u200c", "word-joiner": "a\u2060nn", "bom": "\ufeffann",
    "soft-hyphen": "a\u00adnn", "bidi-mark": "ann\u200e", "bidi-override": "\u202eann",
    "bidi-isolate": "\u2066ann", "tag": "ann\U000e0061", "selector": "ann\ufe0f",
    "selector-supplement": "ann\U000e0100", "mongolian-selector": "ann\u180b",
    "grapheme-joiner": "a\u034fnn", "hangul-filler": "ann\u3164", "half-filler": "ann\uffa0",
    "khmer-vowel": "ann\u17b4", "braille-blank": "ann\u2800", "empty-note": "ann\U0001d159",
    "line-separator": "a\u2028nn", "no-break-space": "a\u00a0nn", "wide-space": "a\u3000nn",
    "invisible-plus": "a\u2064nn", "annotation": "ann\ufff9",
}  # fmt: skip
UNSENT = {"surrogate": "ann\ud800", "nul": "a\x00nn"}
"""No text of a request or of a command line has these: it is refused before."""
BLANK = {
    "empty": "",
    "space": " ",
    "spaces": " \u00a0\t",
    "invisible": "\u200b",
    "filler": "\u3164",
}


class Named(NamedTuple):
    """A place that takes a name, and what it says of one that is odd."""

    id: str
    give: Callable[[Place, pytest.FixtureRequest, str], str]
    marks: tuple[Any, ...] = ()
    utf8: bool = False
    """Whether it is given in bytes or arguments, which hold no half of a pair, and no NUL."""


def answered_at(
    door: Callable[[Place, pytest.FixtureRequest], Hand],
) -> Callable[[Place, pytest.FixtureRequest, str], str]:
    def give(place: Place, request: pytest.FixtureRequest, name: str) -> str:
        rule = next(rule for rule in RULES if rule.id == "by-named")
        if not place.waiting:
            place.waiting = place.asked(rule)
        return door(place, request)(replace(rule, data={"by": name}), place.waiting)

    return give


def submitted_in_python(place: Place, request: pytest.FixtureRequest, name: str) -> str:
    return refusal(lambda: place.machine(GATE).start("t", script=["end"], submitter=name))


def submitted_over_http(place: Place, request: pytest.FixtureRequest, name: str) -> str:
    served: Served = request.getfixturevalue("served")
    body = {"machine": place.machine(GATE).name, "submitter": name}
    told = served.client.post("/runs", json=body)
    assert told.status_code == 422
    assert told.json()["errors"][0]["at"] == "/submitter"
    return told.json()["detail"]


def submitted_by_command(place: Place, request: pytest.FixtureRequest, name: str) -> str:
    sh: Shell = request.getfixturevalue("sh")
    path = place.machines / f"m{number_of(GATE)}.yaml"
    done = sh("run", str(path), "t", "--submitter", name, "--model", "gpt-4o-mini",
              "--tools", str(place.folder / "shop.py"), "--no-input")  # fmt: skip
    return " ".join(done.err.split()) if done.code == 2 else ""


def linked_to(place: Place, request: pytest.FixtureRequest, name: str) -> str:
    served: Served = request.getfixturevalue("served")
    run = place.waiting = place.waiting or place.asked(RULES[3])
    told = served.client.post(f"/runs/{run}/question/link", json={"to": name})
    return told.json()["detail"] if told.status_code == 422 else ""


def linked_by(place: Place, request: pytest.FixtureRequest, name: str) -> str:
    sh: Shell = request.getfixturevalue("sh")
    run = place.waiting = place.waiting or place.asked(RULES[3])
    done = sh("link", run, "--to", "carl", "--by", name, "--journal", str(place.path),
              "--tools", str(place.folder / "shop.py"))  # fmt: skip
    return " ".join(done.err.split()) if done.code else ""


def named_by_a_token(place: Place, request: pytest.FixtureRequest, name: str) -> str:
    return refusal(lambda: settings_of(place, tokens=(Token("0123456789abcdef", "edit", name),)))


def asked_to(place: Place, request: pytest.FixtureRequest, name: str) -> str:
    told: Any = {"components": {"notifier": LogNotifier()}, "url": "https://a.example"}
    return refusal(lambda: settings_of(place, ask_to=(name,), **told))


NAMED = [
    Named("by-python", answered_at(by_python)),
    Named("by-command", answered_at(by_command), utf8=True),
    Named("by-screen", answered_at(by_order)),
    Named("by-notebook", answered_at(by_notebook)),
    Named("by-http", answered_at(by_http), (SERVER,), utf8=True),
    Named("by-page", answered_at(by_page), (SERVER,), utf8=True),
    Named("by-mcp-tool", answered_at(by_mcp_tool), (MCP, SERVER, SLOW), utf8=True),
    Named("submitter-python", submitted_in_python),
    Named("submitter-http", submitted_over_http, (SERVER,), utf8=True),
    Named("submitter-command", submitted_by_command, utf8=True),
    Named("link-to", linked_to, (SERVER,), utf8=True),
    Named("link-by", linked_by, utf8=True),
    Named("token", named_by_a_token),
    Named("ask-to", asked_to),
]
NAMED_CELLS = [
    pytest.param(named, kind, id=f"{named.id}-{kind}", marks=named.marks)
    for named in NAMED
    for kind in (ODD if named.utf8 else ODD | UNSENT)
]


@pytest.mark.parametrize(("named", "kind"), NAMED_CELLS)
def test_no_name_holds_what_nobody_sees(
    named: Named, kind: str, place: Place, request: pytest.FixtureRequest
) -> None:
    said = named.give(place, request, (ODD | UNSENT)[kind])
    assert " ".join("which nobody can see".split()) in " ".join(said.split())
    assert said.isprintable()


NOBODY = {
    "submitter-python": "", "submitter-http": "needs to know who submits the run",
    "link-to": "a link is for one person", "ask-to": "names nobody", "token": "",
}  # fmt: skip
"""What becomes of a blank name, by place; everywhere else `by` is empty."""


@pytest.mark.parametrize("kind", BLANK)
@pytest.mark.parametrize(
    "named",
    [
        pytest.param(one, id=one.id, marks=one.marks) for one in NAMED
        if one.id not in ("submitter-command", "link-by", "by-mcp-tool")
    ],
)  # fmt: skip
def test_a_blank_name_is_none(
    named: Named, kind: str, place: Place, request: pytest.FixtureRequest
) -> None:
    if named.id == "link-to" and not BLANK[kind]:
        return  # the shape of the request takes none
    said = named.give(place, request, BLANK[kind])
    assert NOBODY.get(named.id, "is empty") in said
    if named.id in ("submitter-python", "token"):
        assert said == ""
