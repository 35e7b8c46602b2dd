"""A run as people read it: what was asked, said, called and answered, one item after the other.

    records ─▶ items of a record ─▶ page (the newest, those before or after a place, those around)

Every item has a place, ``SEQ.N``: the number of its record and its own in it. It stays the same as
the run goes on, so a page of items joins the one before it. A call has its result, although that
came with a later record; a question knows whether it was answered.

A page reads its own records and a few beside them, however long the run is. Long texts are cut;
`passage` reads one to its end.

Belongs here: which items a record gives, what is read for a page. Never: the look of an item.
Source: docs/run-page.md, "The conversation"; docs/server.md, "The conversation".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from chartloop.api import Run
from chartloop.core.conversation import arguments_of, calls_of
from chartloop.core.facts import ToolCall
from chartloop.core.media_parts import is_media, say_part, url_of
from chartloop.core.outcome import CallResult, Message, Outcome, child_results, made_of_calls
from chartloop.core.phase import IDLE, LIMITED, ending_of
from chartloop.core.plain import plain
from chartloop.core.position import ENDED
from chartloop.core.reasoning import reasoning_text
from chartloop.core.records import Input, Record
from chartloop.core.units import say_count
from chartloop.core.visible import short, visible
from chartloop.machine.build import Chart
from chartloop.run.question import question_of

Read = Callable[[int, int], Sequence[Record]]
"""Reads at most so many records from a number on."""

PAGE = 50
"""The items of a page, if the reader names no other number."""
LONGEST = 4_000
"""The characters of a text that a page holds; `passage` reads the rest."""
NEAR = 32
"""The records after a page in which the results of its calls are looked for."""
CHUNK = 64
"""The records that are read at once."""
MOST_READ = 2_000
"""The records after which a page ends, even if they gave few items."""
PARTS = 20
"""The most images and files of an item."""
_LINE = 160
"""The characters of the line that says a call."""
_VALUE = re.compile(r"\{\{|\}\}|\{[^{}]*\}")
"""A brace of a label, or a value in it."""
_NO_ITEM = 999_999
"""A number above those of all items of a record."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text, or its beginning."""

    text: str
    rest: int = 0
    """The characters that follow."""


@dataclass(frozen=True, slots=True)
class Part:
    """An image or a file."""

    kind: str
    """``image`` or ``file``."""
    about: str
    """In words: ``[image 12 kB]``."""
    name: str
    """Its name for `passage`, which gives its ``data:`` URL. Empty if it is elsewhere."""


@dataclass(frozen=True, slots=True)
class Child:
    """A child run that has ended."""

    run: str
    machine: str
    status: str
    """One of `run.children.STATUSES`."""
    phase: str
    """The name of the phase in which it was left."""
    reason: str
    output: Text


@dataclass(frozen=True, slots=True)
class CallView:
    """A call of a tool, and its result once there is one."""

    id: str
    name: str
    line: str
    """As code: ``fetch(url="https://…")``."""
    arguments: Text
    """As JSON, or as the model wrote them."""
    ok: bool | None = None
    """None until there is a result."""
    result: Text | None = None
    result_seq: int | None = None
    """The number of the record that holds the result."""
    parts: tuple[Part, ...] = ()
    children: tuple[Child, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that was said or done."""

    place: str
    """Its place in the run, ``SEQ.N``: the number of its record, and its own in it."""
    seq: int
    """The number of its record: the step."""
    kind: str
    """``task``, ``message``, ``reply``, ``call``, ``failure``, ``question``, ``answer``, ``child``,
    ``prompt``, ``memory`` or ``cut``."""
    at: float
    """When it came, in seconds since the epoch."""
    state: str
    """The state, by its label."""
    who: str = ""
    """A model, the submitter of a task, who answered; empty if that is not known."""
    text: Text = Text("")
    parts: tuple[Part, ...] = ()
    reasoning: Text | None = None
    call: CallView | None = None
    child: Child | None = None
    open: bool = False
    """A question that waits for its answer, or a call for its result."""


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """Items, the oldest first, and the places at which to read on."""

    items: tuple[Item, ...]
    before: str | None
    """The place before which there may be older items; None at the start of the run."""
    after: str | None
    """The place after which there are newer items; None at its newest."""
    earlier: str | None
    """The run whose conversation this one continues; its items come before these."""


# pages --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Talk:
    """A run whose conversation is read."""

    chart: Chart
    read: Read
    count: int
    """The number of its records."""
    question: tuple[int, str] | None = None
    """The number of the record that asked what the run waits for now, and the whole question."""
    earlier: str | None = None
    """The run that it continues, if the reader can read it: its start then leaves out the copy."""


def talk_of(run: Run, read: Read | None = None, *, earlier: str | None = None) -> Talk:
    """The conversation of a run, which `read` reads; by default all of its records at once."""
    if read is None:
        records = run.records
        read = lambda first, most: records[first : first + most]  # noqa: E731
    session = run.session
    asked = question_of(session)
    question = None if asked is None else (session.tally.rest, asked.text)
    return Talk(run.machine.chart, read, session.tally.records, question, earlier)


def page_of(
    talk: Talk,
    before: str | None = None,
    limit: int = PAGE,
    *,
    after: str | None = None,
    longest: int = LONGEST,
) -> ConversationPage:
    """The newest items, the newest of those before a place, or the oldest of those after one.

    `after` may be ``start``. `ValueError` for what is no place.
    """
    found: list[Item] = []
    if after is not None:
        begin, number = (0, -1) if after == "start" else _place(after)
        start = begin
        while start < talk.count and len(found) < limit and start - begin < MOST_READ:
            end = min(talk.count, start + CHUNK)
            reader = _Reader(talk, longest).after(end)
            parts = [(r.seq, reader.items(r)) for r in reversed(talk.read(start, end - start))]
            for seq, items in reversed(parts):
                found += items[number + 1 :] if seq == begin else items
            start = end
        more, found = len(found) > limit or start < talk.count, found[:limit]
        last = found[-1].place if len(found) == limit else f"{start - 1}.{_NO_ITEM}"
        oldest = found[0].place if found else after
        return ConversationPage(tuple(found), oldest, last if more else None, talk.earlier)
    end, number = (talk.count, 0) if before is None else _place(before)
    start = first_read = min(end + 1, talk.count)
    reader = _Reader(talk, longest).after(start)
    while start > 0 and len(found) < limit and first_read - start < MOST_READ:
        first = max(0, start - CHUNK)
        for record in reversed(talk.read(first, start - first)):
            items = reader.items(record)
            found += reversed(items[:number] if record.seq == end else items)
        start = first
    more, found = len(found) > limit or start > 0, found[:limit][::-1]
    oldest = found[0].place if len(found) == limit else f"{start}.0"
    newer = None if before is None or not found else found[-1].place
    return ConversationPage(tuple(found), oldest if more else None, newer, talk.earlier)


def passage(talk: Talk, place: str, name: str) -> str | None:
    """A text of an item to its end, or the ``data:`` URL of an image; None if there is none.

    Names are ``text``, ``reasoning``, ``arguments``, ``result``, ``output`` and those of parts.
    """
    seq, number = _place(place)
    page = page_of(talk, f"{seq}.{number + 1}", 1, longest=2**40)
    found = next((item for item in page.items if item.place == place), None)
    if found is None:
        return None
    call = found.call
    if name.startswith(("part", "result.part")):
        record = seq if name.startswith("part") else call.result_seq if call is not None else None
        return None if record is None else _urls(talk.read(record, 1)[0], found).get(name)
    child = found.child
    texts = {
        "text": found.text, "reasoning": found.reasoning,
        "arguments": call.arguments if call is not None else None,
        "result": call.result if call is not None else None,
        "output": child.output if child is not None else None,
    }  # fmt: skip
    text = texts.get(name)
    return None if text is None else text.text


def items_of(chart: Chart, messages: Iterable[Message]) -> list[Item]:
    """The items of a conversation as a model call is sent it; they have no places in a run."""
    nothing = Talk(chart, lambda _first, _most: (), 0)
    sent = Record(0, "", Input("start", data={"messages": list(messages)}), status="running")
    return _Reader(nothing, LONGEST).items(sent)


def _place(place: str) -> tuple[int, int]:
    seq, _, number = place.partition(".")
    if not (seq.isdecimal() and number.isdecimal() and len(place) < 24):
        raise ValueError(f"`{place[:40]}` is no place of a conversation")
    return int(seq), int(number)


# items of a record --------------------------------------------------------------------------------


class _Reader:
    """Makes the items of records, which are given from the newest to the oldest."""

    def __init__(self, talk: Talk, longest: int) -> None:
        self._talk, self._longest = talk, longest
        self._results: dict[str, tuple[int, CallResult, tuple[Part, ...]]] = {}
        """Results whose calls are in older records, by the calls' ids."""
        self._received: list[str] = []
        """Tasks that the run took up in the records just read."""

    def after(self, end: int) -> _Reader:
        """The reader, with what the records from a number on say of those before."""
        for record in reversed(self._talk.read(end, NEAR)):
            self.items(record)
        return self

    def items(self, record: Record) -> list[Item]:
        """The items of a record, in their order."""
        self._record = record
        self._items: list[Item] = []
        self._state = self._label(record.state)
        data = dict(record.input.data)
        if record.kind == "start":
            task, files = str(data.get("task") or ""), data.get("files") or ()
            self._messages(() if self._talk.earlier else data.get("messages") or ())
            if (task or files) and task not in self._received:
                who = str(data.get("submitter") or "")
                self._add("task", who=who, text=self._cut(task), parts=_parts(files))
        elif record.kind == "answer":
            who, via = str(data.pop("by", "") or ""), record.input.via
            if via:
                who = f"{who} by link" if who and who in via else f"{who} via {via}".strip()
            texts = [value for value in data.values() if isinstance(value, str)]
            rows = [f"{n}: {_say(value)}" for n, value in data.items() if value not in ("", None)]
            text = texts[0] if len(data) == 1 and texts else "\n".join(rows)
            self._add("answer", who=who, state=record.input.event, text=self._cut(text))
        elif record.outcome is not None:
            self._step(record.outcome)
        self._asked(record)
        return self._items

    def _add(self, kind: str, **fields: Any) -> None:
        record = self._record
        fields.setdefault("state", self._state)
        place = f"{record.seq}.{len(self._items)}"
        self._items.append(Item(place, record.seq, kind, record.input.at, **fields))

    def _cut(self, text: str) -> Text:
        shown = visible(text[: self._longest])
        return Text(shown, max(0, len(text) - self._longest))

    def _label(self, state: str) -> str:
        spec = self._talk.chart.spec.states.get(state)
        label = spec.label if spec is not None else None
        return _static(label.text) if label is not None else state

    def _step(self, outcome: Outcome) -> None:
        record, reply = self._record, outcome.reply
        result = outcome.held_result
        if outcome.rewrite is not None:
            left = say_count(len(outcome.rewrite), "message")
            self._add("cut", text=Text(f"The conversation was shortened to {left}."))
        if reply is not None:
            text, calls = self._cut(reply.text), reply.tool_calls
            self._said(calls, reply.reasoning, who=reply.model, text=text)
        elif made_of_calls(result):
            self._keep_results(result, outcome.messages)
        else:
            answers = [m for m in outcome.messages if m.get("role") == "tool"]
            self._keep_results([_result_of(m) for m in answers], answers)
            for child in child_results(result):
                self._add("child", child=self._child(child))
        for dropped in outcome.dropped:
            unmade = CallResult(dropped.id, dropped.name, False, "The call was not made.")
            self._results[dropped.id] = (record.seq, unmade, ())
        if reply is None:
            self._messages(m for m in outcome.messages if m.get("role") != "tool")
        for message in (outcome.prompt or ())[-1:]:
            self._add("prompt", text=self._cut(_text(message)), parts=_parts(message["content"]))
        for text in outcome.partial:
            self._add("reply", text=self._cut(text))
        memory = {n: v for n, v in outcome.changes.items() if n.startswith("memory.")}
        if memory:
            lines = "\n".join(f"{n.removeprefix('memory.')}: {_say(v)}" for n, v in memory.items())
            self._add("memory", text=self._cut(lines))
        shown = reply is None and made_of_calls(result) and not all(one.ok for one in result)
        for failure in () if outcome.ok and shown else record.failures:
            self._add("failure", text=self._cut(failure))

    def _messages(self, messages: Iterable[Message]) -> None:
        """Messages of a conversation; instructions are left out, and calls get their results."""
        listed = list(messages)
        answers = [m for m in listed if m.get("role") == "tool"]
        self._keep_results([_result_of(m) for m in answers], answers)
        outcome = self._record.outcome
        taken = outcome.held_result if outcome is not None else None
        taken = cast("Mapping[str, Any]", taken).get("text") if isinstance(taken, Mapping) else None
        for message in listed:
            role, text = message.get("role"), _text(message)
            parts = _parts(message.get("content"))
            if role == "user":
                kind = "task" if taken == text else "message"
                if kind == "task":
                    self._received = [text, *self._received[:7]]
                self._add(kind, text=self._cut(text), parts=parts)
            elif role == "assistant":
                thought: Mapping[str, Any] = message.get("reasoning") or {}
                self._said(calls_of(message), thought, text=self._cut(text), parts=parts)

    def _said(
        self, calls: Sequence[ToolCall], thought: Mapping[str, Any], *, text: Text, **fields: Any
    ) -> None:
        """A reply of the model, unless it only makes calls, and each of its calls."""
        if thought:
            hidden = "The provider hides it."
            fields["reasoning"] = self._cut(reasoning_text(thought) or hidden)
        if text.text or not calls or thought or fields.get("parts"):
            self._add("reply", text=text, **fields)
        for call in calls:
            self._call(call)

    def _keep_results(self, results: Sequence[CallResult], messages: Sequence[Message]) -> None:
        parts = {
            str(m.get("tool_call_id")): _parts(m.get("content"), "result.part") for m in messages
        }
        for one in results:
            self._results[one.id] = (self._record.seq, one, parts.get(one.id, ()))

    def _call(self, call: ToolCall) -> None:
        arguments = arguments_of(call)
        name = visible(call.name)
        whole = call.arguments
        if isinstance(arguments, Mapping):
            given = cast("Mapping[str, Any]", arguments)
            whole = json.dumps(arguments, indent=2, ensure_ascii=False)
            values = ((n, v[:80] if isinstance(v, str) else v) for n, v in given.items())
            shown = ((n, json.dumps(v, ensure_ascii=False)[:90]) for n, v in values)
            line = ", ".join(f"{n}={short(text)}" for n, text in shown)
        else:
            line = " ".join(whole[:_LINE].split())
        view = CallView(call.id, name, short(visible(f"{name}({line})"), _LINE), self._cut(whole))
        found = self._results.pop(call.id, None)
        if found is not None:
            seq, result, parts = found
            children = tuple(self._child(one) for one in child_results(result))
            view = replace(
                view, ok=result.ok, result=self._cut(result.content), result_seq=seq, parts=parts,
                children=children,
            )  # fmt: skip
        open_ = found is None and self._record.status not in ENDED
        self._add("call", call=view, open=open_)

    def _child(self, result: Mapping[str, Any]) -> Child:
        output: Any = result.get("output")
        text = output if isinstance(output, str) else "" if output is None else _say(output)
        run, machine, status, reason = (
            visible(str(result.get(name) or "")) for name in ("run", "machine", "status", "reason")
        )
        phase = LIMITED  # at the deadline of its parent, or with its budget
        if status in ENDED:
            phase = ending_of(status, reason)
        elif status == "unstarted":
            phase = IDLE
        return Child(run, machine, status, phase.name, reason, self._cut(text))

    def _asked(self, record: Record) -> None:
        """The question at which a record left the run, if it did."""
        chart, now = self._talk.chart, self._talk.question
        if now is not None and now[0] == record.seq:
            self._add("question", state=self._label(record.next), text=self._cut(now[1]), open=True)
            return
        if record.status != "paused" or record.next not in chart.waiting:
            return
        if record.kind not in ("start", "step", "answer"):
            return  # what is written while it waits asks nothing new
        kept: Mapping[str, Any] = record.outcome.kept if record.outcome is not None else {}
        texts = (_asks(one) for one in kept.values())
        text = next(filter(None, texts), "")
        if not text:
            spec = chart.spec.states[record.next]
            label = spec.ask or spec.label
            text = _static(label.text) if label is not None else record.next
        self._add("question", state=self._label(record.next), text=self._cut(text))


def _asks(kept: Any) -> str:
    """The question of an approval, as the action that asked it keeps it."""
    text: Any = cast("Mapping[str, Any]", kept).get("text") if isinstance(kept, Mapping) else None
    return text if isinstance(text, str) else ""


def _static(template: str) -> str:
    """A label without its values: those of a past moment are not known from one record."""
    shown = _VALUE.sub(lambda found: found[0][0] if found[0] in ("{{", "}}") else "…", template)
    return " ".join(shown.replace("\\n", " ").split())


def _text(message: Message) -> str:
    """The text of a message without its images and files."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return content
    texts = (p if isinstance(p, str) else p.get("text") for p in content or () if not is_media(p))
    return "\n".join(text for text in texts if isinstance(text, str))


def _result_of(message: Message) -> CallResult:
    """The result of a call, of which only the message is left: it says whether the call failed."""
    call, name, text = message.get("tool_call_id"), message.get("name"), _text(message)
    return CallResult(str(call or ""), str(name or ""), not text.startswith("error: "), text)


def _media(content: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(content, str):
        yield from (part for part in content or () if is_media(part))


def _parts(content: Any, prefix: str = "part") -> tuple[Part, ...]:
    """The images and files of a message's content, without their data."""
    found: list[Part] = []
    for number, part in zip(range(PARTS), _media(content), strict=False):
        kind = "image" if part.get("type") == "image_url" else "file"
        inline = kind == "image" and url_of(part).startswith("data:image/")
        about = visible(say_part(part))
        found.append(Part(kind, about, f"{prefix}.{number}" if inline else ""))
    return tuple(found)


def _urls(record: Record, item: Item) -> dict[str, str]:
    """The data of an item's images, by name."""
    data, outcome = record.input.data, record.outcome
    messages = list(outcome.messages) if outcome is not None else list(data.get("messages") or ())
    if item.call is not None:
        answers = [m for m in messages if m.get("tool_call_id") == item.call.id]
        contents, prefix = [m.get("content") for m in answers[:1]], "result.part"
    elif outcome is None and item.kind == "task":
        contents, prefix = [data.get("files")], "part"
    else:
        said = [m for m in [*messages, *((outcome.prompt or ()) if outcome else ())]
                if _parts(m.get("content")) and visible(_text(m)) == item.text.text]  # fmt: skip
        contents, prefix = [m.get("content") for m in said[:1]], "part"
    media = [part for content in contents for part in _media(content)]
    return {f"{prefix}.{number}": url_of(part) for number, part in enumerate(media)}


def _say(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
