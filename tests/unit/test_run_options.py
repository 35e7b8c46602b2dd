"""What a caller may say to a machine and a run: settings of the model, listeners, own tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from chartloop.actions.declare import action, guard, specs_of, tool
from chartloop.api import Run, check, draw, find_faults, load
from chartloop.core.errors import LimitError, RunError, SetupError, SpecError
from chartloop.run.context import Context
from chartloop.run.events import Delta, Event, Recorded, Started
from chartloop.run.journal import MemoryJournal
from chartloop.run.ports import ModelReply
from chartloop.testing.clock import ManualClock
from tests.talks import Listening, machine, talk

END = "  z: {stop: completed}\n"
ASK = (
    "model: {name: scripted, temperature: 0.1, max_tokens: 10}\nstates:\n  a: {do: receive, next: b}\n  b: {do: infer, next: z}\n"
    + END
)


class TestSettings:
    def test_they_are_merged_over_the_file(self) -> None:
        model = Listening(ModelReply("hi"))
        machine(ASK).run(
            "t", model=model, clock=ManualClock(),
            settings={"temperature": 0.9, "timeout": "30s", "api_base": "http://127.0.0.1:1/v1"},
        )  # fmt: skip
        assert model.asked[0].settings == {
            "name": "scripted", "max_tokens": 10, "temperature": 0.9, "timeout": 30.0,
            "api_base": "http://127.0.0.1:1/v1",
        }  # fmt: skip

    def test_open_and_arun_take_them_too(self) -> None:
        made, journal = machine(ASK), MemoryJournal()
        model = Listening(ModelReply("hi"), ModelReply("ho"))
        made.start("t", model=model, clock=ManualClock(), journal=journal, run_id="r").advance()
        made.open("r", journal=journal, model=model, settings={"seed": 7}).run()
        assert model.asked[0].settings["seed"] == 7
        asyncio.run(made.arun("t", model=model, clock=ManualClock(), settings={"seed": 8}))
        assert model.asked[1].settings["seed"] == 8

    def test_a_state_says_more_than_they_do(self) -> None:
        """`with` is about one call; the settings are about the run."""
        model = Listening(ModelReply("hi"))
        own = ASK.replace("do: infer,", "do: infer, with: {temperature: 1.5},")
        machine(own).run("t", model=model, clock=ManualClock(), settings={"temperature": 0.9})
        assert model.asked[0].settings["temperature"] == 1.5

    def test_the_name_of_the_model_wins(self) -> None:
        model = Listening(ModelReply("hi"))
        run = machine(ASK).start("t", model=model, settings={"name": "x/y"}, clock=ManualClock())
        run.run()
        assert model.asked[0].settings["name"] == "x/y"
        made = machine(ASK).start(
            "t",
            model="openai/a",
            settings={"name": "x/y", "api_base": "http://127.0.0.1:1"},
            script=[],
        )
        assert made.session.ports.settings["name"] == "openai/a"

    def test_the_context_window_is_a_fact(self) -> None:
        run = talk(ASK, ["hi"], settings={"context_window": "32_000"})
        run.advance()
        assert run.facts.usage.context_window == 32_000

    @pytest.mark.parametrize(
        ("settings", "says"),
        [
            ({"temprature": 1}, "did you mean `temperature`"),
            ({"temperature": 3}, "`temperature` is at most 2.0, not 3"),
            ({"temperature": "hot"}, "temperature"),
            ({"timeout": "soon"}, "timeout"),
            ({"timeout": -1}, "timeout"),
            ({"max_tokens": 1.5}, "max_tokens"),
            ({"context_window": "0"}, "context_window"),
            ({"api_key": "sk-verysecret123"}, "api_key"),
        ],
        ids=["misspelt", "too-high", "no-number", "no-duration", "negative", "no-whole-number",
             "zero", "a-key"],
    )  # fmt: skip
    def test_what_the_file_may_not_say_they_may_not(self, settings: Any, says: str) -> None:
        with pytest.raises(LimitError) as caught:
            talk(ASK, ["hi"], settings=settings)
        assert says in str(caught.value)
        assert "verysecret" not in str(caught.value)


def kinds(events: list[Event]) -> list[str]:
    return [type(e).__name__ for e in events]


ALL = ["Recorded", "Started", "Recorded", "Started", "Delta", "Recorded"]


def chat() -> Run:
    return talk(ASK, ["hi"])


def arun(run: Run) -> object:
    return asyncio.run(run.arun())


def stream(run: Run) -> object:
    return [*run.stream()]


class TestListen:
    @pytest.mark.parametrize(
        "drive",
        [Run.run, arun, stream],
        ids=["run", "arun", "stream"],
    )
    def test_typed_events_of_whoever_drives(self, drive: Callable[[Run], object]) -> None:
        heard: list[Event] = []
        run = chat()
        run.listen(heard.append)
        drive(run)
        assert kinds(heard) == ALL
        assert isinstance(heard[1], Started)
        assert isinstance(heard[4], Delta)
        assert isinstance(heard[5], Recorded)
        assert (heard[1].action, heard[4].text, heard[5].record.next) == ("receive", "hi", "z")

    def test_by_hand_and_across_a_stream(self) -> None:
        heard: list[Event] = []
        run = chat()
        run.listen(heard.append)
        run.advance()
        for _ in run.stream():
            break  # left: the run is cancelled, and whoever listens hears of it
        assert run.ended
        assert kinds(heard)[0] == "Recorded"
        said = len(heard)
        again = run.back(1)
        again.run()
        assert len(heard) > said

    def test_a_stream_leaves_whoever_listened_before(self) -> None:
        heard: list[Event] = []
        run = chat()
        run.session.listener = heard.append
        assert [*run.stream()] == heard
        assert run.session.listener == heard.append

    def test_several_and_each_until_it_says_so(self) -> None:
        one: list[Event] = []
        two: list[Event] = []
        run = chat()
        stop = run.listen(one.append)
        run.listen(two.append)
        run.advance()
        stop()
        stop()
        run.run()
        assert (kinds(one), kinds(two)) == (ALL[:1], ALL)

    def test_nobody_listens_once_all_have_gone(self) -> None:
        run = chat()
        run.listen(lambda _: None)()
        run.run()
        assert run.session.listener is None

    def test_a_listener_that_fails_does_not_fail_the_run(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Else a mistake in it would stand on the record as a failure of the model."""
        heard: list[Event] = []

        def broken(event: Event) -> None:
            raise ZeroDivisionError(type(event).__name__)

        run = chat()
        run.listen(broken)
        run.listen(heard.append)
        with caplog.at_level(logging.ERROR, logger="chartloop"):
            assert run.run().reason == "completed"
        assert kinds(heard) == ALL
        assert run.result.errors == ()
        assert [r.levelname for r in caplog.records] == ["ERROR"]  # said once: it hears no more


def bare(n: int) -> int:
    """Twice n."""
    return 2 * n


@tool
def marked(n: int) -> int:
    """Twice n."""
    return 2 * n


@action
def act(ctx: Context) -> str:
    """Something."""
    return "done"


@guard
def sound(plan: str) -> bool:
    """Whether it is."""
    return bool(plan)


USES = "chartloop: 1\nmachine: m\ntools: [%s]\nstates:\n  a: {do: receive, next: z}\n  z: {stop: completed}\n"


def module() -> ModuleType:
    made = ModuleType("shop")
    made.__dict__["marked"] = marked
    return made


class TestOwn:
    @pytest.mark.parametrize(
        ("own", "name"),
        [
            (marked, "marked"),
            ([marked], "marked"),
            (bare, "bare"),
            ([bare], "bare"),
            (module(), "marked"),
            ([module()], "marked"),
            (specs_of(marked), "marked"),
            ([specs_of(marked)], "marked"),
            (specs_of(marked).tools["marked"], "marked"),
            ((m for m in [[marked], module()]), "marked"),
        ],
        ids=["function", "list", "undecorated", "undecorated-list", "module", "modules", "registry",
             "registries", "spec", "nested"],
    )  # fmt: skip
    def test_tools_take_whatever_declares_some(self, own: object, name: str) -> None:
        assert load(USES % name, tools=own).spec.registry.tools[name].call(n=2) == 4

    def test_check_and_draw_take_them_too(self) -> None:
        assert check(USES % "bare", tools=bare) == ()
        assert draw(USES % "bare", tools=bare).mermaid().startswith("flowchart")
        with pytest.raises(SpecError, match="bare"):
            draw(USES % "bare")
        text = (USES % "").replace("states:", "define: {late: run.steps >= 3}\nstates:")
        assert [f.code for f in check(text, define={"late": "run.stepz >= 3"})] == ["CL103"]

    def test_a_module_brings_its_actions_and_guards(self) -> None:
        shop = module()
        shop.__dict__.update(act=act, sound=sound)
        made = load(USES.replace("do: receive", "do: act") % "marked", tools=shop)
        registry = made.spec.registry
        assert ("act" in registry.actions, "sound" in registry.guards) == (True, True)

    def test_actions_and_guards_take_plain_functions(self) -> None:
        def act(ctx: Context) -> str:
            return "done"

        def sound(plan: str) -> bool:
            return bool(plan)

        made = load(USES.replace("do: receive", "do: act") % "", actions=act, guards=[sound])
        assert made.run(clock=ManualClock()).reason == "completed"
        assert "sound" in made.spec.registry.guards

    def test_what_declares_nothing_is_an_error(self) -> None:
        with pytest.raises(SetupError, match="declares nothing"):
            load(USES % "", tools="tools.py")


IGNORING = (
    "chartloop: 1\nmachine: m\nignore: [{code: CL304, at: states.x, reason: kept}]\nstates:\n  a: {do: receive, next: z}\n"
    "  x: {do: receive, next: z}\n  xy: {do: receive, next: z}\n" + END
)


def test_what_is_accepted_at_one_state_is_not_at_one_that_begins_alike() -> None:
    found = find_faults(IGNORING)[1]
    assert [(f.code, f.at) for f in found] == [("CL304", "states.xy")]


@pytest.mark.parametrize("way", ["start", "run", "open"])
def test_a_misspelt_option_is_refused(way: str) -> None:
    machine: Any = load("agent")
    given = {"limit": {"steps": 1}, "script": ["4"], "journal": MemoryJournal()}
    with pytest.raises(RunError, match="there is no option `limit`") as caught:
        getattr(machine, way)("x", **given)
    assert "`limits`" in caught.value.hint
