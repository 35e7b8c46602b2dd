"""`chartloop step` on a full screen: the real app, a real run, every key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from chartloop import load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Run
from chartloop.cli.step_screen import StepControls
from tests.cli.shell import ADDER, ASKER, LOOPER

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from chartloop.ui.tui.app import StepApp

pytestmark = pytest.mark.extra(  # noqa: S610 - no Django
    "textual", install='pip install -e ".[tui]"'
)

CALLS = [
    {"text": "Let me add.", "tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]},
    {"text": "It is 5."},
]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("adding")  # noqa: T201 - what a tool prints is shown
    return a + b


def adder(script: Any = None, **options: Any) -> Run:
    machine = load(ADDER, tools=[add])
    run = machine.start("What is 2 + 3?", script=script or CALLS, run_id="r", **options)
    run.advance()
    return run


def asker() -> Run:
    run = load(ASKER).start("What is 6 * 7?", script=["forty-one", "forty-two"])
    run.advance()
    return run


class Screen:
    """The app under test, and what is on it."""

    def __init__(self, app: StepApp, pilot: Pilot[None], stepping: StepControls) -> None:
        self.app, self.pilot, self._stepping = app, pilot, stepping

    @property
    def run(self) -> Run:
        return self._stepping.run

    async def press(self, *keys: str) -> None:
        """Press keys, each when what the one before it began is done and shown."""
        for key in keys:
            await self.pilot.press(key)
            await self.rest()

    async def type(self, line: str) -> None:
        await self.pilot.press("colon")
        await self.pilot.pause()
        await self.pilot.press(*(_KEYS.get(c, c) for c in line))
        await self.press("enter")

    async def rest(self) -> None:
        """Wait until it is idle at three looks in a row: a key may not have arrived at the first."""
        idle = 0
        for _ in range(400):
            await self.pilot.pause(0.02)
            worker = self.app.worker
            idle = idle + 1 if self.app.board and not worker.busy and not worker.news else 0
            if idle == 3:
                break

    def text(self, pane: str = "") -> str:
        """What a pane holds, or what the whole screen shows."""
        from textual.widgets import Static  # noqa: PLC0415 - an extra

        if pane:
            parts = self.app.screen_stack[0].query_one(f"#{pane}").query(Static)
            return "\n".join(str(part.content) for part in parts)
        rows = self.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage] - what is on the screen
        return "\n".join(strip.text for strip in rows)

    async def misses(self, text: str) -> None:
        """Wait until the screen does not show a text."""
        for _ in range(200):
            await self.pilot.pause(0.02)
            if text not in self.text():
                return
        raise AssertionError(f"{text!r} is shown:\n{self.text()}")

    async def sees(self, text: str) -> None:
        """Wait until the screen shows a text."""
        for _ in range(200):
            await self.pilot.pause(0.02)
            if text in self.text():
                return
        raise AssertionError(f"{text!r} is not shown, but:\n{self.text()}")


_KEYS = {
    " ": "space", ".": "full_stop", "=": "equals_sign", ">": "greater_than_sign", "'": "apostrophe",
    "_": "underscore", "/": "slash",
}  # fmt: skip


def on_screen(
    run: Run, play: Callable[[Screen], Awaitable[None]], size: tuple[int, int] = (160, 50)
) -> StepApp:
    """Play with a run on a screen of this size; gives the app, closed."""
    from chartloop.ui.tui.app import StepApp  # noqa: PLC0415 - an extra

    stepping = StepControls(run)
    app = StepApp(stepping)

    async def played() -> None:
        async with app.run_test(size=size, notifications=True) as pilot:
            screen = Screen(app, pilot, stepping)
            await screen.rest()
            await play(screen)

    asyncio.run(played())
    assert app.crash is None
    return app


@pytest.mark.slow("plays on a full screen for seconds")
def test_it_shows_where_the_run_is_and_each_step() -> None:
    async def play(screen: Screen) -> None:
        assert "▸ running at receive" in screen.text()
        assert "▶ receive" in screen.text("state")
        assert "╰─▶ [think]" in screen.text("state")
        assert "run.steps  0 of 20" in screen.text("state")
        await screen.press("s")
        assert "running at think   step 2" in screen.text()
        assert "len(last.tool_calls) > 0" not in screen.text("why")
        await screen.press("space")
        assert "✓  len(last.tool_calls) > 0" in screen.text("why")
        assert "Why: record 2, step at think" in screen.text()
        assert "run.steps" in screen.text("facts")
        assert "1 → 2" in screen.text("facts")
        assert "Let me add." in screen.text("log")
        assert "2 step think infer ok, calls add" in " ".join(screen.text("records").split())
        await screen.press("enter")
        assert "adding" in screen.text("log")

    on_screen(adder(), play)


@tool
def broken(n: int) -> str:
    """Look an item up."""
    raise ValueError(f"no such item: {n}")


def test_a_tool_that_raised_is_shown_as_failed() -> None:
    machine = load(ADDER.replace("tools: [add]", "tools: [broken]"), tools=[broken])
    calls = [{"name": "broken", "arguments": {"n": 3}}]
    run = machine.start("x", script=[{"text": "", "tool_calls": calls}, "bye"])
    run.run(until="act")

    async def play(screen: Screen) -> None:
        await screen.press("s")
        assert "1 of 1 calls failed: broken: ValueError: no such item: 3" in screen.text("log")
        assert "1 of 1 calls failed" in " ".join(screen.text("records").split())
        await screen.press("m")
        await screen.sees("↻ 1 recovered")

    on_screen(run, play)


def test_a_run_that_ends_and_what_can_be_done_with_it() -> None:
    async def play(screen: Screen) -> None:
        await screen.press("r")
        assert "✓ done at done" in screen.text()
        assert "It is 5." in screen.text("state")
        assert "Done at" in screen.text("state")
        await screen.press("s")
        assert "error: the run has ended" in screen.text()
        assert "`back` takes its last record back" in screen.text("log")
        await screen.press("b")
        assert "running at think" in screen.text()
        assert screen.run.id != "r"

    on_screen(adder(), play)


def test_a_fork_leaves_the_run_as_it_is() -> None:
    run = adder()

    async def play(screen: Screen) -> None:
        await screen.press("k")
        await screen.press(*"act", "enter")
        await screen.press("f")
        assert "run r stays as it is" in screen.text("log")
        assert screen.run.id != "r"
        assert "1 breakpoint" in screen.text()
        await screen.press("r")
        assert "stopped at the breakpoint `act`" in screen.text("log")
        assert run.facts.run.steps == 0

    on_screen(run, play)


def test_nothing_is_painted_while_nothing_happens() -> None:
    async def play(screen: Screen) -> None:
        await screen.sees("running at receive")
        head = screen.app.query_one("#head", Static)
        shown = head.content
        await screen.pilot.pause(0.3)
        assert head.content is shown

    from textual.widgets import Static  # noqa: PLC0415 - an extra

    on_screen(adder(), play)


@pytest.mark.slow("plays on a full screen for seconds")
def test_run_to_a_state_that_is_chosen() -> None:
    async def play(screen: Screen) -> None:
        await screen.press("t")
        await screen.sees("Run to which state?")
        await screen.press("a", "c", "enter")
        assert "running at act" in screen.text()
        await screen.press("t")
        await screen.press(
            *"run", "full_stop", *"steps", "space", "greater_than_sign", "space", "2", "enter"
        )
        assert screen.run.facts.run.steps == 3

    on_screen(adder(), play)


@pytest.mark.slow("plays on a full screen for seconds")
def test_a_long_question_leaves_room_for_every_answer() -> None:
    run = load(ASKER).start("What is 6 * 7?", script=["a long answer " * 120])
    run.advance()

    async def play(screen: Screen) -> None:
        await screen.press("r")
        await screen.sees("press a to answer")
        await screen.press("a")
        await screen.sees("Answer (wait")
        rows = screen.text()
        assert all(event in rows for event in ("fix   note (str)", "ok", "abort"))
        await screen.press("tab", "end")  # the question scrolls
        await screen.sees("right?")

    on_screen(run, play, (80, 24))


@pytest.mark.slow("plays on a full screen for seconds")
def test_a_question_that_is_cut_is_opened_before_it_is_answered() -> None:
    run = load(ASKER).start("x", script=["a long answer " * 900])
    run.advance()

    async def play(screen: Screen) -> None:
        await screen.press("r")
        await screen.sees("press a to answer")
        await screen.press("a")
        await screen.sees("characters that follow, and then answer")
        assert "fix   note (str)" not in screen.text()
        await screen.press("enter")
        await screen.sees("fix   note (str)")
        await screen.press("down", "enter")
        assert "done at done" in screen.text()

    on_screen(run, play, (100, 30))


@pytest.mark.slow("plays on a full screen for seconds")
def test_an_ended_run_begins_on_the_first_row_of_its_pane() -> None:
    async def play(screen: Screen) -> None:
        await screen.press("r")
        await screen.sees("failed at")
        rows = screen.text().splitlines()
        title = next(at for at, row in enumerate(rows) if "1 State" in row)
        assert "Failed (" in rows[title + 1]

    on_screen(adder([{"error": {"category": "CRITICAL", "message": "no quota"}}]), play, (80, 24))


@pytest.mark.slow("plays on a full screen for seconds")
def test_the_commands_of_the_prompt() -> None:
    async def play(screen: Screen) -> None:
        await screen.type("set limits.steps 2")
        assert "limits.steps = 2" in screen.text("log")
        assert "20 → 2" in screen.text("facts")
        await screen.press("e")
        await screen.press(*"tries", "space", "7", "enter")
        assert screen.run.facts.vars["tries"] == 7
        await screen.type("facts vars.tries")
        assert "vars.tries  7" in screen.text("log")
        await screen.type("frobnicate")
        assert "there is no command `frobnicate`" in screen.text()
        await screen.press("w")
        await screen.press("0", "enter")
        assert "led to  receive, running" in screen.text("log")
        await screen.type("records")
        await screen.type("help")
        assert "break [STATE|GUARD]" in screen.text("log")
        await screen.press("r")
        assert "steps_limit" in screen.text("state")

    on_screen(adder(), play)


@pytest.mark.slow("plays on a full screen for seconds")
def test_an_answer_by_its_form() -> None:
    async def play(screen: Screen) -> None:
        await screen.press("r")
        assert "the run waits: press a to answer" in screen.text()
        await screen.press("a")
        await screen.sees("Is forty-one right?")
        await screen.press("enter")
        await screen.sees("Answer fix")
        await screen.press(*"use", "space", "3", "enter", "x", "enter", "y", "enter")
        assert "`count` is not of type int" in screen.text()
        await screen.press("shift+tab", "backspace", "2", "enter", "enter")
        assert "running at think" in screen.text()
        assert screen.run.facts.vars["note"] == "use 3"
        await screen.press("r")
        await screen.press("a", "down", "enter")
        assert "done at done" in screen.text()
        await screen.press("a")
        await screen.sees("the run waits for nothing")

    on_screen(asker(), play)


GATE = """\
chartloop: 1
machine: gate
tools: [add]
approve: {tools: [add], by: the boss, edit: true, remember: true}
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: act}
  act: {do: call_tools, next: done}
  done: {stop: completed}
"""


@tool(name="add")
def noted(a: int, b: int, more: str) -> str:
    """Add, with a note."""
    return f"{a + b}{more[:0]}"


@pytest.mark.slow("plays on a full screen for seconds")
def test_each_call_of_an_approval_is_changed_and_decided() -> None:
    long = {"a": 1, "b": 1, "more": "a long text " * 20 + "its end"}
    short = {"a": 20, "b": 20, "more": ""}
    calls = [{"name": "add", "arguments": given} for given in (long, short)]
    run = load(GATE, tools=[noted]).start("x", script=[{"tool_calls": calls}])
    run.advance()

    async def play(screen: Screen) -> None:
        await screen.press("r")
        await screen.sees("press a to answer")
        await screen.press("a")
        await screen.sees('2. add {"a": 20, "b": 20, "more": ""}')
        assert "map[" not in screen.text()
        await screen.press("down", "down", "enter")
        await screen.sees("1.arguments.a")
        await screen.press(*"eve", "tab", "tab", "tab", "tab", "end", "1", "ctrl+s")
        await screen.press("r")
        await screen.sees("press a to answer")
        await screen.press("a")
        await screen.sees("(changed by eve)")
        await screen.press("enter")
        await screen.sees("accept 1. add")
        await screen.sees('its end"')  # no argument is cut
        await screen.press("space", "tab", "space", "tab", *"bob", "ctrl+s")
        await screen.sees("no call is accepted")
        await screen.press("shift+tab", "space", "ctrl+s")
        await screen.press("r")

    on_screen(run, play)
    results = [message["content"] for message in run.messages if message["role"] == "tool"]
    assert results[0] == "error: `add` was not approved: it was denied"
    assert results[1].endswith("221")


@pytest.mark.slow("plays on a full screen for seconds")
def test_a_gate_that_asks_nobody_in_particular_is_decided() -> None:
    calls = [{"name": "add", "arguments": {"a": n, "b": n}} for n in (1, 20)]
    approve = GATE.replace(", by: the boss, edit: true, remember: true", "")
    run = load(approve, tools=[add]).start("x", script=[{"tool_calls": calls}])
    run.advance()

    async def play(screen: Screen) -> None:
        await screen.press("r", "a", "enter")
        await screen.sees("Space: accept or deny a call")
        await screen.sees("1.note (for the model, if this call is denied)")
        await screen.press("space", "tab", "tab", *"why", "ctrl+s")
        await screen.press("r")

    on_screen(run, play)
    results = [message["content"] for message in run.messages if message["role"] == "tool"]
    assert results[0] == "error: `add` was not approved: it was denied: why"
    assert not results[1].startswith("error")


@pytest.mark.slow("plays on a full screen for seconds")
@pytest.mark.parametrize("by", ["", ", by: the boss"], ids=["without-by", "with-by"])
def test_a_denial_says_why(by: str) -> None:
    calls = [{"name": "add", "arguments": {"a": n, "b": n}} for n in (1, 20)]
    approve = GATE.replace(", by: the boss, edit: true, remember: true", by)
    run = load(approve, tools=[add]).start("x", script=[{"tool_calls": calls}])
    run.advance()

    async def play(screen: Screen) -> None:
        await screen.press("r", "a", "down", "enter")
        await screen.sees("note (str")
        await screen.press(*([*"eve", "tab"] if by else []), *"why", "enter")
        await screen.press("r")

    on_screen(run, play)
    results = [message["content"] for message in run.messages if message["role"] == "tool"]
    assert results == ["error: `add` was not approved: it was denied: why"] * 2


PASTED = "first line with 日本語\nsecond\tline; it's quit\n\n  third"


@pytest.mark.slow("plays on a full screen for seconds")
def test_an_answer_keeps_every_line_that_is_pasted() -> None:
    from textual import events  # noqa: PLC0415 - an extra

    async def play(screen: Screen) -> None:
        await screen.press("r")
        await screen.press("a", "enter")
        await screen.sees("Answer fix")
        screen.app.post_message(events.Paste(PASTED))
        await screen.sees("third")
        await screen.press("ctrl+j", *"more", "enter", "2", "enter", "n", "enter")
        assert screen.run.facts.vars["note"] == f"{PASTED}\nmore"
        assert "running at think" in screen.text()
        answers = [line for line in screen.text("log").splitlines() if line.startswith("> answer")]
        assert len(answers) == 1

    on_screen(asker(), play)


@pytest.mark.slow("plays on a full screen for seconds")
def test_a_command_of_several_lines_says_what_it_leaves_out() -> None:
    from textual import events  # noqa: PLC0415 - an extra

    async def play(screen: Screen) -> None:
        await screen.pilot.press("colon")
        await screen.pilot.pause()
        screen.app.post_message(events.Paste("facts run.steps\nquit\nquit"))
        await screen.sees("2 more lines left out")
        await screen.press("enter")
        assert "run.steps" in screen.text("log")

    on_screen(adder(), play)


@pytest.mark.slow("plays on a full screen for seconds")
def test_the_whole_picture_the_help_and_the_light() -> None:
    async def play(screen: Screen) -> None:
        await screen.press("m")
        await screen.sees("Adds: the run is at receive")
        assert "┃ ▶ ● receive" in screen.text()
        await screen.press("h", "escape")
        assert len(screen.app.screen_stack) == 1
        await screen.type("draw")
        await screen.sees("Adds: the run is at receive")
        await screen.press("m")
        await screen.press("question_mark")
        await screen.sees("do the current action")
        await screen.press("escape", "l")
        assert screen.app.theme == "textual-light"

    on_screen(adder(), play)


@pytest.mark.slow("plays on a full screen for seconds")
def test_a_picture_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def play(screen: Screen) -> None:
        await screen.press("d")
        await screen.press(*"chart", "full_stop", *"txt", "enter")
        assert "chart.txt is written" in screen.text("log")

    on_screen(adder(), play)
    assert "┃ ▶ ● receive ● NOW ┃" in (tmp_path / "chart.txt").read_text("utf-8")


class Size(NamedTuple):
    """A terminal, and the pane that a key shows where one is shown at a time."""

    id: str
    size: tuple[int, int]


@pytest.mark.slow("plays on a full screen for seconds")
@pytest.mark.parametrize(
    "case", [Size("usual", (80, 24)), Size("tiny", (40, 10))], ids=lambda c: c.id
)
def test_a_small_terminal_shows_one_pane_at_a_time(case: Size) -> None:
    async def play(screen: Screen) -> None:
        await screen.press("s", "s")
        await screen.pilot.resize_terminal(*case.size)
        await screen.rest()
        assert "▶ act" in screen.text()
        assert ("run.steps >=" in screen.text()) == (case.size[1] >= 20)  # why, where there is room
        assert screen.text().rstrip().endswith("? help q quit")
        assert all(len(row) <= case.size[0] for row in screen.text().split("\n"))
        await screen.press("2")
        await screen.sees("rules at")
        await screen.misses("▶ act")
        await screen.press("4")
        await screen.sees("receive")
        await screen.press("5")
        await screen.sees("Let me add.")
        await screen.press("3")
        await screen.sees("→")
        await screen.press("m")
        await screen.sees("▶ act")
        await screen.press("escape", "1")
        await screen.type("facts run.steps")
        await screen.sees("facts run.steps")
        assert "run.steps  2" in screen.text("log")
        await screen.pilot.resize_terminal(160, 50)
        await screen.press("1")
        await screen.sees("rules at think")
        assert "▶ act" in screen.text()

    on_screen(adder(), play)


@pytest.mark.parametrize("size", [(80, 24), (130, 40), (200, 60)])
def test_what_was_said_has_a_pane_with_arguments_and_results(size: tuple[int, int]) -> None:
    async def play(screen: Screen) -> None:
        await screen.pilot.resize_terminal(*size)
        await screen.press("r", "6")
        await screen.sees("It is 5.")
        said = screen.text("said")
        for line in ("#1 Task", "What is 2 + 3?", "Let me add.", "✓ add(a=2, b=3)", "5"):
            assert line in said, line
        assert screen.app.focused is not None
        assert screen.app.focused.id == "said"
        await screen.press("1")
        if size[0] < 164:  # a wider screen shows it beside the others
            await screen.misses("✓ add(a=2, b=3)")

    on_screen(adder(), play)


def test_the_mouse_presses_the_keys_of_the_footer() -> None:
    async def play(screen: Screen) -> None:
        await screen.pilot.click("FooterKey")
        await screen.sees("running at think")

    on_screen(adder(), play)


# while it goes on ---------------------------------------------------------------------------


def slow(count: int = 60, delay: str = "300ms") -> list[dict[str, str]]:
    return [{"text": f"thought {n}", "delay": delay} for n in range(count)]


def looper(script: Any, **options: Any) -> Run:
    run = load(LOOPER).start("x", script=script, run_id="r", **options)
    run.advance()
    return run


@pytest.mark.slow("plays on a full screen for seconds")
def test_the_screen_lives_while_a_run_goes_on_and_a_pause_stops_it() -> None:
    async def play(screen: Screen) -> None:
        await screen.pilot.press("r")
        await screen.sees("thought 1")
        await screen.sees("⠋")
        await screen.pilot.press("s")
        await screen.sees("the run is being driven")
        await screen.press("p")
        steps = screen.run.facts.run.steps
        assert 1 < steps < 60
        await screen.press("1")
        assert screen.run.facts.run.steps == steps

    on_screen(looper(slow()), play)


@pytest.mark.slow("plays on a full screen for seconds")
def test_an_action_that_hangs_is_left_undone() -> None:
    async def play(screen: Screen) -> None:
        await screen.press("s")
        await screen.pilot.press("s")
        await screen.sees(" do ")
        await screen.pilot.press("ctrl+c")
        await screen.sees("stopping before the next action")
        await screen.press("ctrl+c")
        assert "stopped in the middle of the action" in screen.text("log")
        assert screen.run.facts.run.steps == 1

    on_screen(looper(slow(delay="60s")), play)


def test_to_quit_in_the_middle_of_an_action_loses_nothing(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")

    async def play(screen: Screen) -> None:
        await screen.press("s")
        await screen.pilot.press("s")
        await screen.sees(" do ")
        await screen.pilot.press("q")
        await screen.pilot.pause(0.2)

    app = on_screen(looper(slow(delay="60s"), journal=journal), play)
    assert app.rested
    again = load(LOOPER).open("r", journal=journal, script=["enough"])
    assert [r.kind for r in again.records] == ["start", "step"]
    assert again.run().reason == "completed"


@pytest.mark.slow("plays on a full screen for seconds")
def test_quit_is_a_command_too() -> None:
    async def play(screen: Screen) -> None:
        await screen.pilot.press("colon", *"quit", "enter")
        for _ in range(100):
            await screen.pilot.pause(0.02)
            if not screen.app.is_running:
                return
        raise AssertionError("it goes on")

    on_screen(adder(), play)


def test_nothing_that_a_model_says_is_markup() -> None:
    async def play(screen: Screen) -> None:
        await screen.press("r")
        assert "[bold red]x[/] [link=file:///]y" in screen.text("log")

    on_screen(adder(script=["[bold red]x[/] [link=file:///]y"]), play)


# room --------------------------------------------------------------------------------------


class Room(NamedTuple):
    """A size of the screen, and whether the whole picture stands beside the panes."""

    size: tuple[int, int]
    map: bool


@pytest.mark.slow("plays on a full screen for seconds")
@pytest.mark.parametrize(
    "room",
    [
        Room((200, 60), True),
        Room((170, 45), True),
        Room((160, 45), False),
        Room((120, 40), False),
        Room((80, 24), False),
    ],
    ids=lambda room: f"{room.size[0]}x{room.size[1]}",
)
def test_each_pane_has_the_height_of_what_it_holds(room: Room) -> None:
    async def play(screen: Screen) -> None:
        await screen.press("s", "s", "s")
        side = {one.id: one for one in screen.app.query("#why, #facts, #state, #map")}
        assert bool(side["map"].size.height) is room.map
        if room.map:
            assert "▶" in screen.text("map")
            assert "NOW" in screen.text("map")
        if room.size[0] >= 120:
            for name in ("why", "facts", "state"):
                pane = side[name]
                room_left = pane.size.height - pane.virtual_size.height
                assert room_left <= 1, (name, pane.size, pane.virtual_size)

    on_screen(adder(), play, room.size)


@pytest.mark.slow("plays on a full screen for seconds")
def test_the_map_follows_the_run() -> None:
    async def play(screen: Screen) -> None:
        await screen.sees("● NOW")
        before = screen.text("map")
        await screen.press("s", "s")
        assert screen.text("map") != before
        await screen.pilot.resize_terminal(120, 40)
        await screen.rest()
        assert not screen.app.query_one("#map").size.width
        await screen.pilot.resize_terminal(190, 50)
        await screen.rest()
        await screen.sees("● NOW")

    on_screen(adder(), play, (180, 50))
