"""The screen of `chartloop step`: a run in panes, stepped by keys and by commands.

Belongs here: which key does which command, and which pane shows its output. Never: what a command
does.

Source:       issue 4, item 5
"""

from __future__ import annotations

import shlex
import time
from typing import Any, ClassVar, NamedTuple

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Footer, Input, Static

from chartloop.core.approvals import DENY
from chartloop.core.phase import PHASES
from chartloop.core.text_table import Line
from chartloop.core.units import say_count
from chartloop.pictures.flowchart import one_line
from chartloop.ui.tui.board import Board, Controls
from chartloop.ui.tui.panes import (
    Log,
    MapPane,
    Pane,
    StatePane,
    facts_of,
    records_of,
    said_of,
    why_of,
)
from chartloop.ui.tui.screens import (
    EventScreen,
    FieldsScreen,
    HelpScreen,
    PictureScreen,
    StateScreen,
)
from chartloop.ui.tui.styles import LINES
from chartloop.ui.tui.worker import Crashed, Failed, ModelText, News, PictureWanted, Worker
from chartloop.ui.view_model.run_view import DecisionView

POLL = 1 / 20
"""Seconds between two polls for news from the run."""
WIDE, HIGH = 116, 28
"""The fewest columns and rows for showing all panes side by side."""
ROOMY = 164
"""The fewest columns for the whole picture as a pane beside the others."""
TALL = 20
"""The fewest rows for showing two panes, one above the other, on a narrow screen."""
PAGES = ("state", "why", "facts", "records", "log", "said")
PRINTING = frozenset({"why", "facts", "records", "help", "break"})
"""Commands that print text: a narrow screen then switches to the log."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Key(NamedTuple):
    """A key, its action, and its line in the help."""

    keys: str
    action: str
    short: str
    about: str
    shown: bool = True


KEYS = (
    Key("s,space,enter", "order('do')", "step", "do the current action"),
    Key("r", "order('run')", "run", "continue to the end, a question or a breakpoint"),
    Key("t", "run_to", "to", "continue to a state that you choose"),
    Key("p,ctrl+c", "pause", "pause", "stop before the next action; pressed twice: at once"),
    Key("a", "answer", "answer", "answer the question of the run"),
    Key("b", "order('back')", "back", "take back the newest record, as a new run"),
    Key("w", "type('why ')", "why", "why a record led where it did: type its number"),
    Key("m", "picture", "map", "the whole picture"),
    Key("e", "type('set ')", "set", "change a limit or variable", False),
    Key("f", "order('fork')", "fork", "continue as a new run; this one stays as it is", False),
    Key("k", "type('break ')", "break", "set or remove a breakpoint: a state or a guard", False),
    Key("d", "type('draw ')", "draw", "write the picture into a file", False),
    Key("colon,slash", "type('')", "type", "type a command"),
    Key("1,2,3,4,5,6", "", "pane", "state, why, facts, records, log, said", False),
    Key("l", "light", "light", "light or dark", False),
    Key("question_mark,f1", "help", "help", "this list"),
    Key("q", "quit_run", "quit", "leave; the run can be resumed"),
)
_NAMES = {
    "question_mark": "?",
    "colon": ":",
    "slash": "/",
    "ctrl+c": "Ctrl-C",
    "f1": "F1",
    "space": "Space",
    "enter": "Enter",
}


class CommandLine(Input):
    """The command line. Takes the first of several pasted lines, with a warning."""

    def on_paste(self, event: events.Paste) -> None:
        """Warn that all lines but the first are left out."""
        if (left := len(event.text.strip().splitlines()) - 1) > 0:
            message = f"{say_count(left, 'more line')} left out: a command is one line"
            self.notify(f"{message}. `a` opens an answer that takes several", severity="warning")


_LEFT_OUT = ("w", "m", "b", "t", "colon", "p", "a")
"""Keys that a narrow key line omits, in this order; the help lists all."""


class KeyLine(Footer):
    """The footer of keys: as many as fit."""

    _fewer = False

    def compose(self) -> ComposeResult:
        """The keys that fit."""
        keys: list[Any] = list(super().compose())
        self._fewer = False
        spare = [k for name in _LEFT_OUT for k in keys if k.key == name]
        while spare and sum(map(_width, keys)) > self.screen.size.width:
            keys.remove(spare.pop(0))
            self._fewer = True
        yield from keys

    async def on_resize(self) -> None:
        """Choose the keys again after the width has changed."""
        keys: list[Any] = list(self.query("FooterKey"))
        if self._fewer or sum(map(_width, keys)) > self.screen.size.width:
            await self.recompose()


def _width(key: Any) -> int:
    return len(key.key_display) + len(key.description) + 2


def _why_title(decision: DecisionView | None) -> str:
    if decision is None:
        return "Why"
    return f"Why: record {decision.seq}, {decision.explanation.title}"


class StepApp(App[None]):
    """One run on a full screen."""

    CSS_PATH = "app.tcss"
    TITLE = "chartloop step"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(
                key.keys, key.action, key.short, show=key.shown,
                key_display=_NAMES.get(key.keys.split(",")[0]),
            )
            for key in KEYS if key.action
        ),
        *(Binding(str(n), f"page('{p}')", show=False) for n, p in enumerate(PAGES, start=1)),
        Binding("escape", "panes", show=False, priority=True),
    ]  # fmt: skip

    def __init__(self, controls: Controls) -> None:
        super().__init__()
        self.worker = Worker(controls)
        self.board: Board | None = None
        self.crash: BaseException | None = None
        self.rested = True
        """Whether the run was at rest when the screen closed."""
        self._controls = controls
        self._frame = 0
        self._head_parts: list[tuple[str, str]] = []
        self._printing = ""

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        with Horizontal(id="main"):
            with Vertical(id="left", classes="side"):
                yield StatePane("state", "1 State")
                yield Log()
            with Vertical(id="right", classes="side"):
                yield Pane("why", "2 Why", why_of)
                yield Pane("facts", "3 Facts that changed", facts_of)
                yield Pane("records", "4 Records", records_of)
            with Vertical(id="talk", classes="side"):
                yield MapPane("map", "Map")
                yield Pane("said", "6 Said", said_of)
        yield Static(id="ticker")
        yield CommandLine(id="line", placeholder="1 to 6: panes   : a command   ? help")
        yield KeyLine(compact=True)

    def on_mount(self) -> None:
        self.query_one(Log).border_title = "5 Log"
        self.begin_capture_print(self)
        self.action_page("state")
        self.worker.start()
        self.set_interval(POLL, self._poll)

    # news from the run ----------------------------------------------------------------------

    def _poll(self) -> None:
        """Show the news since the last poll."""
        if not self.query("#head"):  # the screen is being closed
            return
        log, has_news = self.query_one(Log), False
        boards: list[Board] = []
        while self.worker.news:
            news = self.worker.news.popleft()
            if isinstance(news, Board):
                boards.append(news)
            else:
                has_news = self._take(news, log) or has_news
        if has_news:
            log.refresh_lines()
            self.query_one("#ticker", Static).update(Content(log.last))
        if boards:
            self._show(boards[-1])
        self._head()
        if self._controls.has_quit:
            self.exit()

    def _take(self, news: News, log: Log) -> bool:
        match news:
            case Line():
                log.say(news)
            case ModelText():
                log.hear(news.text)
            case Failed():
                self.notify(news.text, severity="error", markup=False)
                return False
            case PictureWanted():
                self.call_later(self.action_picture)
                return False
            case Crashed():
                self.crash = news.error
                self.exit()
                return False
            case _:
                return False
        return True

    def _show(self, board: Board) -> None:
        first = self.board is None
        self.board = board
        self.query_one("#why", Pane).border_title = f"2 {_why_title(board.view.decision)}"
        for pane in self.query(Pane):
            pane.show(board)
            if pane.id in ("records", "said"):
                pane.call_after_refresh(pane.scroll_end, animate=False)
            elif not first and pane.id != "map":
                pane.scroll_home(animate=False)
        if board.view.question is not None and not self.worker.busy:
            self.query_one("#state", Pane).border_subtitle = "the run waits: press a to answer"
        else:
            self.query_one("#state", Pane).border_subtitle = ""

    def _head(self) -> None:
        board = self.board
        if board is None:
            return
        head, ended = board.view.head, board.view.ended
        phase = PHASES[head.phase]
        colour = LINES.get(phase.ink, "$text-primary")
        parts: list[tuple[str, str]] = [
            (f" {board.title or head.machine} ", "bold"),
            (f"  {phase.marked} at ", colour),
            (head.at, f"bold {colour}"),
            (f"   after {head.step - 1} steps" if ended else f"   step {head.step}", ""),
            (f"   run {head.run}", "$foreground-muted"),
        ]
        if self.worker.busy:
            self._frame += 1
            took = time.monotonic() - self.worker.since
            spin = _SPINNER[self._frame // 2 % len(_SPINNER)]
            parts.append((f"   {spin} {self.worker.busy} {took:.0f} s", "bold $text-warning"))
        if breakpoints := board.view.breakpoints:
            message = say_count(len(breakpoints), "breakpoint")
            parts.append((f"   {message}", "$foreground-muted"))
        if parts != self._head_parts:  # each update repaints the whole screen
            self._head_parts = parts
            self.query_one("#head", Static).update(Content.assemble(*parts))

    @on(events.Print)
    def _log_print(self, event: events.Print) -> None:
        """Log the output of tools."""
        *whole, self._printing = (self._printing + event.text).split("\n")
        log = self.query_one(Log)
        for line in whole:
            log.say(Line(one_line(line), "dim"))
        log.refresh_lines()

    # keys -----------------------------------------------------------------------------------

    def action_order(self, line: str) -> None:
        """Do a command."""
        self._order(line)

    def _order(self, line: str) -> None:
        if self.worker.busy:
            self.notify("the run is being driven: p pauses it", severity="warning")
            return
        self.query_one(Log).say(Line(f"> {one_line(line)}", "dim"))
        self.worker.width = self.query_one(Log).room or max(20, self.size.width - 5)
        self.worker.order(line)
        prints = line.partition(" ")[0] in PRINTING
        if prints and self.screen_stack[0].has_class("narrow"):
            self.action_page("log")

    def action_pause(self) -> None:
        """Stop before the next action; on the second call, at once."""
        if not self.worker.busy:
            self.notify("nothing is being done; q leaves")
        elif self.worker.pause():
            self.notify("stopping in the middle of the action", severity="warning")
        else:
            self.notify("stopping before the next action; again: now")

    def action_type(self, text: str) -> None:
        """Focus the command line, with the beginning of a command."""
        line = self.query_one("#line", Input)
        line.value = text
        line.focus()
        self.call_after_refresh(line.action_end)

    def action_panes(self) -> None:
        """Leave the command line, or close the open dialog."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
            return
        self.query_one("#line", Input).value = ""
        self._focus_page()

    def action_page(self, page: str) -> None:
        """Show a pane, or focus it if all are shown."""
        for name in PAGES:
            self.query_one(f"#{name}").set_class(name == page, "current")
        self.screen_stack[0].set_class(page == "state", "at-state")
        for side in self.query(".side"):
            side.set_class(bool(side.query(".pane.current")), "current")
        self._focus_page()

    def _focus_page(self) -> None:
        self.query_one(".pane.current").focus()

    def action_picture(self) -> None:
        """Show the whole picture."""
        if self.board is not None and len(self.screen_stack) == 1:
            self.push_screen(PictureScreen(self.board, self.size.width))

    def action_run_to(self) -> None:
        """Choose a state, and continue to it."""
        if self.board is not None:
            self.push_screen(
                StateScreen(self.board), lambda to: self._order(f"run to {to}") if to else None
            )

    def action_answer(self) -> None:
        """Answer the question of the wait."""
        question = self.board.view.question if self.board is not None else None
        if question is None:
            self.notify("the run waits for nothing")
            return
        self.push_screen(EventScreen(question), self._answer_with)

    def _answer_with(self, event: str | None) -> None:
        question = self.board.view.question if self.board is not None else None
        if event is None or question is None:
            return
        answer = next((one for one in question.answers if one.event == event), None)
        to = f"answer --wait {shlex.quote(question.wait)}"
        if question.whole is not None:
            to += f" --shown {question.whole.digest}"
        asks_calls = question.whole is not None and bool(question.whole.calls)
        if answer is not None and (answer.fields or (asks_calls and event != DENY)):
            screen = FieldsScreen(to, answer, self._controls.fault, question.whole)
            self.push_screen(screen, lambda line: self._order(line) if line else None)
        else:
            self._order(f"{to} {event}")

    def action_light(self) -> None:
        """Switch between light and dark."""
        self.theme = "textual-dark" if self.theme == "textual-light" else "textual-light"

    def action_help(self) -> None:
        """Show the keys and commands."""
        keys = [
            (", ".join(_NAMES.get(k, k) for k in key.keys.split(",")), key.about) for key in KEYS
        ]
        self.push_screen(HelpScreen(keys, self._controls.commands))

    def action_quit_run(self) -> None:
        """Quit; an action in progress is abandoned."""
        self.exit()

    @on(Input.Submitted, "#line")
    def _submit_line(self, event: Input.Submitted) -> None:
        self.query_one("#line", Input).value = ""
        self._focus_page()
        if event.value.strip():
            self._order(event.value.strip())

    def on_resize(self, event: events.Resize) -> None:
        """Show panes side by side if there is room, else one at a time."""
        narrow = event.size.width < WIDE or event.size.height < HIGH
        self.screen_stack[0].set_class(narrow, "narrow")
        self.screen_stack[0].set_class(not narrow and event.size.width >= ROOMY, "roomy")
        self.screen_stack[0].set_class(event.size.height < 14, "low")
        self.screen_stack[0].set_class(event.size.height >= TALL, "tall")

    async def on_unmount(self) -> None:
        """Stop the run before the screen closes."""
        self.rested = self.worker.close()
