"""The dialogs: the whole picture, the choice of a state, an answer, the help.

A dialog returns its choice or a line of command, or None.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Footer, Input, Label, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from chartloop.core.approvals import ACCEPT, DENY, EDIT, row_lines
from chartloop.core.text_table import Line, Row, lay_out
from chartloop.core.visible import visible, visible_json
from chartloop.run.question import Question
from chartloop.ui.tui.board import Board
from chartloop.ui.tui.styles import of_drawing, of_lines
from chartloop.ui.view_model.run_view import AnswerView, QuestionView

_MORE = "\0more"
"""The id of the option that shows the rest of a question; no event has it."""
_CLOSE = Binding("escape", "dismiss(None)", "close")


class PictureScreen(ModalScreen[None]):
    """The whole picture; the arrow keys scroll it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _CLOSE, Binding("m,q", "dismiss(None)", "close", show=False),
        Binding("h", "here", "current state"),
    ]  # fmt: skip

    def __init__(self, board: Board, width: int) -> None:
        super().__init__()
        self._board = board
        self._drawing = board.picture.drawing(width=max(60, width - 4), here=board.state)

    def compose(self) -> ComposeResult:
        drawing = self._drawing
        if drawing is None:
            content = of_lines(Line(t) for t in self._board.picture.outline().splitlines())
        else:
            content = of_drawing(drawing, self._board.state)
        with ScrollableContainer(id="picture"):
            yield Static(content, classes="drawing")
        yield Footer()

    def on_mount(self) -> None:
        box = self.query_one("#picture")
        box.border_title = f"{self._board.title}: the run is at {self._board.state}"
        box.focus()
        self.call_after_refresh(self.action_here)

    def action_here(self) -> None:
        """Scroll to the current state."""
        box = self.query_one("#picture", ScrollableContainer)
        area = self._drawing.areas.get(self._board.state) if self._drawing else None
        if area is not None:
            middle = (area.top + area.bottom) // 2 - box.size.height // 2
            box.scroll_to(y=max(0, middle), animate=False)


class StateScreen(ModalScreen[str | None]):
    """The choice of a state to run to; typing filters the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _CLOSE, Binding("down", "cursor_down", show=False), Binding("up", "cursor_up", show=False),
    ]  # fmt: skip

    def __init__(self, board: Board) -> None:
        super().__init__()
        self._board = board

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as box:
            box.border_title = "Run to which state?"
            yield Input(placeholder="a state, or a guard such as run.steps >= 5")
            yield OptionList()

    def on_mount(self) -> None:
        self._list("")
        self.query_one(Input).focus()

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        self._list(event.value)

    def _list(self, typed: str) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        view, labels = self._board.view, self._board.labels
        wide = max((len(name) for name in view.states), default=0)
        for name in view.states:
            label = labels.get(name, name)
            if typed.lower() in f"{name} {label}".lower():
                stop = " ●" if name in view.breakpoints else ""
                message = "" if label == name else label
                options.add_option(Option(Content(f"{name:<{wide}}  {message}{stop}"), id=name))
        options.highlighted = 0 if options.option_count else None

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        options = self.query_one(OptionList)
        typed = event.value.strip()
        if options.highlighted is not None:
            self.dismiss(options.get_option_at_index(options.highlighted).id)
        elif typed:
            self.dismiss(typed)

    @on(OptionList.OptionSelected)
    def _close_with_choice(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_cursor_down(self) -> None:
        """Go to the next state of the list."""
        self.query_one(OptionList).action_cursor_down()

    def action_cursor_up(self) -> None:
        """Go to the previous state of the list."""
        self.query_one(OptionList).action_cursor_up()


class EventScreen(ModalScreen[str | None]):
    """The question of a wait and the choice of an event."""

    BINDINGS: ClassVar[list[BindingType]] = [_CLOSE]

    def __init__(self, question: QuestionView) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as box:
            box.border_title = f"Answer (wait {self._question.wait})"
            with VerticalScroll(classes="asks"):
                yield Label(Content(self._question.text), classes="question")
                yield Label(Content(self._question.about), classes="about")
            yield OptionList()

    def on_mount(self) -> None:
        self._offer(self._question.rest)
        self.query_one(OptionList).focus()

    def _offer(self, rest: int) -> None:
        """Offer the answers; while characters of the question are not shown, only to show them."""
        options = self.query_one(OptionList).clear_options()
        if rest:
            more = f"Show the {rest:,} characters that follow, and then answer"
            options.add_option(Option(Content(more), id=_MORE))
        else:
            options.add_options(map(self._option, self._question.answers))
        options.highlighted = 0

    def _option(self, answer: AnswerView) -> Option:
        fields = ", ".join(f"{field.name} ({field.type})" for field in answer.fields)
        text = f"{answer.event}   {fields}" if fields else answer.event
        text += f"   → {answer.next}" if answer.next else ""
        return Option(Content(text), id=answer.event)

    @on(OptionList.OptionSelected)
    def _close_with_choice(self, event: OptionList.OptionSelected) -> None:
        if event.option_id != _MORE:
            self.dismiss(event.option_id)
        elif (whole := self._question.whole) is not None:
            self.query_one(".question", Label).update(Content(whole.text))
            self.query_one(".about", Label).update(Content(whole.about))
            self._offer(0)


class Field(TextArea):
    """A text field of several lines. Enter submits it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", show=False, priority=True),
        Binding("ctrl+j,shift+enter,alt+enter", "new_line", show=False, priority=True),
    ]

    class Submitted(Message):
        """The user pressed Enter in the field."""

        def __init__(self, field: Field) -> None:
            super().__init__()
            self.field = field

    def __init__(self, id: str, placeholder: str, text: str = "") -> None:
        super().__init__(
            text, id=id, placeholder=placeholder, compact=True, highlight_cursor_line=False,
            theme="css",
        )  # fmt: skip

    def action_submit(self) -> None:
        """Submit the field."""
        self.post_message(self.Submitted(self))

    def action_new_line(self) -> None:
        """Start a new line."""
        self.insert("\n")


class FieldsScreen(ModalScreen[str | None]):
    """The fields of an answer. An approval also has a choice or the arguments of each call."""

    BINDINGS: ClassVar[list[BindingType]] = [_CLOSE, Binding("ctrl+s", "send", "send")]

    def __init__(
        self, to: str, answer: AnswerView, fault: Callable[[str, Mapping[str, str]], str],
        question: Question | None = None,
    ) -> None:  # fmt: skip
        """`to` is the command, up to the event."""
        super().__init__()
        self._to, self._event, self._fault = to, answer.event, fault
        self._calls: list[dict[str, Any]] = question.to_dict()["calls"] if question else []
        self._fields = {field.name: field for field in answer.fields}
        self._given: dict[str, str] = {}
        """The text that a field about a call starts with, by its name in the command; one that is
        not changed is not sent."""
        for number, call in enumerate(self._calls, 1):
            schema: Mapping[str, Any] = call.get("schema", {}).get("properties", {})
            if self._event == EDIT:
                given = {json.loads(name): value for name, value in call["shown"] if name}
                for name in dict.fromkeys([*given, *schema]):
                    value, declared = given.get(name, ""), schema.get(name, {})
                    is_text = declared.get("type") == "string" and value.startswith('"')
                    text = visible(json.loads(value)) if is_text else value
                    self._given[f"{number}.arguments.{name}"] = text
            elif self._event == ACCEPT:
                several = len(self._calls) > 1
                self._given |= {f"{number}.result": ""} if "schema" in call else {}
                self._given |= {f"{number}.note": ""} if several else {}

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog") as box:
            box.border_title = f"Answer {self._event}"
            several = len(self._calls) > 1
            for number, call in enumerate(self._calls, 1):
                title = f"{number}. {call['name']}"
                if self._event == ACCEPT and several:
                    yield Checkbox(f"accept {title}", True, compact=True, id=f"call-{number}")
                else:
                    yield Label(Content(title))
                yield Label(Content("\n".join(row_lines(call))), classes="call")
            for number, name in enumerate((*self._fields, *self._given)):
                field = self._fields.get(name)
                about = f" ({field.type})" if field else ""
                if name.endswith(".result"):
                    about = " (answer in the tool's place; empty: execute it)"
                elif name.endswith(".note"):
                    about = " (for the model, if this call is denied)"
                yield Label(Content(f"{visible_json(name)[1:-1]}{about}"))
                hint = "" if field is None else "yes or no" if field.kind == "bool" else field.type
                yield Field(f"field-{number}", hint, self._given.get(name, ""))
            yield Label("", id="fault")
            message = "Enter: the next field; sends after the last.  Ctrl-J: new line"
            if self._event == ACCEPT and several:
                message = "Space: accept or deny a call.  Tab: the next.  Ctrl-S: send"
            yield Label(message, classes="hint")

    def on_mount(self) -> None:
        self.query("Checkbox, Field").first().focus()

    @on(Field.Submitted)
    def _next(self, event: Field.Submitted) -> None:
        inputs = list(self.query(Field))
        at = inputs.index(event.field)
        if at + 1 < len(inputs):
            inputs[at + 1].focus()
        else:
            self.action_send()

    def action_send(self) -> None:
        """Send the answer, unless a field is wrong."""
        inputs = self.query(Field)
        texts = {
            name: box.text for name, box in zip((*self._fields, *self._given), inputs, strict=True)
        }
        values: dict[str, str] = {}
        for name, field in self._fields.items():
            if not field.optional or texts[name].strip():
                text = texts[name]
                words = {"y": "true", "yes": "true", "n": "false", "no": "false"}
                values[name] = (
                    words.get(text.strip().lower(), text) if field.kind == "bool" else text
                )
        fault = self._fault(self._event, values)
        values |= {name: texts[name] for name, was in self._given.items() if texts[name] != was}
        boxes = {str(box.id).removeprefix("call-"): box.value for box in self.query(Checkbox)}
        if boxes and not any(boxes.values()):
            fault = "no call is accepted: close this and choose deny"
        if fault:
            self.query_one("#fault", Label).update(Content.styled(fault, "$text-error"))
            return
        values |= {number: ACCEPT if accepts else DENY for number, accepts in boxes.items()}
        message = " ".join(shlex.quote(f"{name}={value}") for name, value in values.items())
        self.dismiss(f"{self._to} {self._event} {message}")


class HelpScreen(ModalScreen[None]):
    """The keys and the commands."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _CLOSE,
        Binding("question_mark,q", "dismiss(None)", show=False),
    ]

    def __init__(
        self, keys: Sequence[tuple[str, str]], commands: Sequence[tuple[str, str]]
    ) -> None:
        super().__init__()
        self._keys, self._commands = keys, commands

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog wide") as box:
            box.border_title = "Help"
            yield Static(classes="content")

    def on_mount(self) -> None:
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        width = max(30, self.query_one(Static).size.width)
        lines = [
            Line("Keys", "bold"), *lay_out([Row(k) for k in self._keys], width=width, indent="  "),
            Line(""), Line("Commands, typed after `:`", "bold"),
            *lay_out([Row(c) for c in self._commands], width=width, indent="  "),
        ]  # fmt: skip
        self.query_one(Static).update(of_lines(lines))
