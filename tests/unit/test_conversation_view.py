"""What is read of a run: its items in their order, page by page, and long texts to their end."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from chartloop import Image, Machine, Run, load, tool
from chartloop.core.records import Record
from chartloop.ui.view_model.conversation_report import conversation
from chartloop.ui.view_model.conversation_view import (
    CHUNK,
    LONGEST,
    NEAR,
    Item,
    Talk,
    page_of,
    passage,
    talk_of,
)


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def burn(what: str) -> str:
    """Fail."""
    raise ValueError(f"{what} does not burn")


HEAD = """chartloop: 1
machine: talker
model: {{name: scripted, context_window: 2000}}
tools: [add, burn]
memory: {{human: {{value: "", limit: 200}}}}
limits: {{steps: 5000}}
{more}
output: last.text
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
"""
LOOP = """\
  question: {label: Read it, do: receive, next: think}
  think: {label: Model thinks, do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
ASKS = """\
  question: {do: receive, next: think}
  think: {do: infer, next: review}
  review:
    ask: 'Send "{last.text}"?'
    on: {yes: done, no: {to: think, data: {by: str, note: str}}}
  done: {stop: completed}
"""
PRUNES = """\
  question: {do: receive, next: think}
  think: {do: infer, next: prune}
  prune: {do: prune_context, with: {strategy: sliding}, next: done}
  done: {stop: completed}
"""
PARENT = """\
  question: {do: receive, next: both}
  both: {label: Two at once, do: run_machines, with: {children: {left: {machine: child}, right: {machine: child}}}, next: done}
  done: {stop: completed}
machines:
  child:
    model: {name: scripted}
    output: last.text
    limits: {steps: 9}
    rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
    states:
      think: {do: infer, next: done}
      done: {stop: completed}
"""
TIRED = (
    PARENT.replace("steps: 9", "steps: 1").replace("infer, next: done", "infer, next: again")
    + "      again: {do: infer, next: done}\n"
)


def machine(states: str = LOOP, more: str = "") -> Machine:
    return load(HEAD.format(more=more) + states, tools=[add, burn])


def calls(*wanted: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    return {"text": text, "tool_calls": [{"name": n, "arguments": a} for n, a in wanted]}


def dot() -> Image:
    """A picture of one point."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"\0\1\2\3"))
    return Image(b"\x89PNG\r\n\x1a\n" + head + body + chunk(b"IEND", b""))


def line(item: Item) -> str:
    """An item in a line."""
    parts = [f"{item.place} {item.kind}"]
    if item.who and item.kind != "reply":
        parts.append(f"by {item.who}")
    if item.kind == "answer":
        parts.append(item.state)
    if item.reasoning is not None:
        parts.append(f"({item.reasoning.text})")
    if item.text.text:
        parts.append(item.text.text)
    parts += [part.about for part in item.parts]
    if (call := item.call) is not None:
        sign = {True: "✓", False: "✗", None: "?"}[call.ok]
        parts += [call.line, sign, call.result.text if call.result is not None else ""]
    if (child := item.child) is not None:
        parts += [child.machine, child.run.rpartition("/")[2], child.phase, child.reason]
        parts += [child.output.text]
    return " ".join([*parts, "(open)"] if item.open else parts)


class Case(NamedTuple):
    id: str
    run: Callable[[], Run]
    items: Sequence[str]


def ran(script: Sequence[Any], task: Any = "Hi", of: Machine | None = None, **more: Any) -> Run:
    run = (of or machine()).start(task, script=list(script), run_id="r", **more)
    run.run()
    return run


def answered() -> Run:
    run = ran(["Dear Eve", "Dear Adam"], of=machine(ASKS))
    run.send("no", {"by": "bob", "note": "It is Adam."})
    run.run()
    return run


def gated(event: str) -> Run:
    more = "approve: {tools: [add], by: the boss}"
    script = [calls(("add", {"a": 1, "b": 2})), "So be it."]
    run = ran(script, of=machine(more=more))
    if event:
        run.send(event, {"by": "eve", "note": "too dear"} if event == "deny" else {"by": "eve"})
        run.run()
    return run


def continued() -> Run:
    both = calls(("add", {"a": 1, "b": 1}), ("burn", {"what": "it"}))
    first = machine().start("I am Ann.", script=[both, "Nice."])
    first.run()
    second = machine().start("Who am I?", script=["Ann."], continues=first, run_id="r")
    second.run()
    return second


CASES = [
    Case("a-reply", lambda: ran(["Hello **you**"]), ["1.0 task Hi", "2.0 reply Hello **you**"]),
    Case("who-submits", lambda: ran(["Yes"], submitter="eve"), ["1.0 task Hi", "2.0 reply Yes"]),
    Case(
        "reasoning",
        lambda: ran([{"text": "4", "reasoning": "Two and two."}]),
        ["1.0 task Hi", "2.0 reply (Two and two.) 4"],
    ),
    Case(
        "a-call-and-its-result",
        lambda: ran([calls(("add", {"a": 2, "b": 2}), text="I add."), "4"]),
        ["1.0 task Hi", "2.0 reply I add.", "2.1 call add(a=2, b=2) ✓ 4", "4.0 reply 4"],
    ),
    Case(
        "calls-at-once-one-fails",
        lambda: ran([calls(("add", {"a": 1, "b": 2}), ("burn", {"what": "water"})), "No."]),
        ["1.0 task Hi", "2.0 call add(a=1, b=2) ✓ 3",
         '2.1 call burn(what="water") ✗ error: ValueError: water does not burn', "4.0 reply No."],
    ),
    Case(
        "a-model-that-fails",
        lambda: ran([{"error": {"category": "CRITICAL", "message": "no key"}}]),
        ["1.0 task Hi", "2.0 failure CRITICAL: no key"],
    ),
    Case(
        "a-question-is-open",
        lambda: ran(["Dear Eve"], of=machine(ASKS)),
        ["1.0 task Hi", "2.0 reply Dear Eve", '2.1 question Send "Dear Eve"? (open)'],
    ),
    Case(
        "a-question-was-answered",
        answered,
        ["1.0 task Hi", "2.0 reply Dear Eve", '2.1 question Send "…"?',
         "3.0 answer by bob no It is Adam.", "4.0 reply Dear Adam",
         '4.1 question Send "Dear Adam"? (open)'],
    ),
    Case(
        "an-approval-waits",
        lambda: gated(""),
        ["1.0 task Hi", "2.0 call add(a=1, b=2) ?  (open)",
         '3.0 question May this be executed?\n(for the boss)\n  add {"a": 1, "b": 2} (open)'],
    ),
    Case(
        "an-approval-is-denied",
        lambda: gated("deny"),
        ["1.0 task Hi", "2.0 call add(a=1, b=2) ✗ error: `add` was not approved: it was denied: too dear",
         '3.0 question May this be executed?\n(for the boss)\n  add {"a": 1, "b": 2}',
         "4.0 answer by eve deny too dear", "6.0 reply So be it."],
    ),
    Case(
        "children",
        lambda: ran(["A", "B"], of=machine(PARENT)),
        ["1.0 task Hi", "2.0 child child left done completed A",
         "2.1 child child right done completed B"],
    ),
    Case(
        "children-that-reach-a-limit",
        lambda: ran(["A", "B"], of=machine(TIRED)),
        ["1.0 task Hi", "2.0 child child left limited steps_limit A",
         "2.1 child child right limited steps_limit B"],
    ),
    Case(
        "pruned",
        lambda: ran(["x " * 3000], "y " * 2000, of=machine(PRUNES)),
        ["1.0 task " + "y " * 2000, "2.0 reply " + "x " * 2000,
         "3.0 cut The conversation was shortened to 1 message."],
    ),
    Case(
        "a-picture",
        lambda: ran(["A point."], ["What is it?", dot()]),
        ["1.0 task What is it? [image 1 kB]", "2.0 reply A point."],
    ),
    Case(
        "two-turns",
        continued,
        ["0.0 message I am Ann.", "0.1 call add(a=1, b=1) ✓ 2",
         '0.2 call burn(what="it") ✗ error: ValueError: it does not burn', "0.3 reply Nice.",
         "1.0 task Who am I?", "2.0 reply Ann."],
    ),
    Case(
        "nothing-steers-the-screen",
        lambda: ran(["a\u202eb\x1b[31m"]),
        ["1.0 task Hi", "2.0 reply a\\u202eb\\u001b[31m"],
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_run_is_read_in_the_order_in_which_it_was_said(case: Case) -> None:
    page = page_of(talk_of(case.run()), None, 200)
    assert list(map(line, page.items)) == list(case.items)
    assert (page.before, page.after) == (None, None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_joined_are_the_whole(case: Case, limit: int) -> None:
    talk = talk_of(case.run())
    whole = page_of(talk, None, 200).items
    older: tuple[Item, ...] = ()
    before = None
    while True:
        page = page_of(talk, before, limit)
        assert len(page.items) <= limit
        older = page.items + older
        if (before := page.before) is None:
            break
    assert older == whole
    newer: tuple[Item, ...] = ()
    after: str | None = "start"
    while after is not None:
        page = page_of(talk, None, limit, after=after)
        newer += page.items
        after = page.after
    assert newer == whole


def test_what_is_continued_elsewhere_is_not_repeated() -> None:
    page = page_of(talk_of(continued(), earlier="first"), None)
    assert list(map(line, page.items)) == ["1.0 task Who am I?", "2.0 reply Ann."]
    assert page.earlier == "first"


def long_run(rounds: int) -> Run:
    script = [calls(("add", {"a": n, "b": 1}), text=f"Round {n}") for n in range(rounds)]
    return ran([*script, "Done."])


@pytest.mark.parametrize("rounds", [60, 400])
@pytest.mark.parametrize("place", [None, "60.0", "start"])
def test_a_page_reads_a_few_records_however_long_the_run(rounds: int, place: str | None) -> None:
    whole = talk_of(long_run(rounds))
    read: list[int] = []

    def counted(first: int, most: int) -> Sequence[Record]:
        found = whole.read(first, most)
        read.append(len(found))
        return found

    talk = Talk(whole.chart, counted, whole.count)
    page = page_of(talk, None, 20, after=place) if place == "start" else page_of(talk, place, 20)
    assert len(page.items) == 20
    assert sum(read) <= CHUNK + NEAR


def test_a_long_text_is_cut_and_read_to_its_end() -> None:
    long = "word " * LONGEST
    talk = talk_of(
        ran([calls(("burn", {"what": long}), text=long), {"text": long, "reasoning": long}])
    )
    first, call, last = page_of(talk, None).items[1:]
    for item, name, text in (
        (first, "text", first.text), (call, "result", call.call and call.call.result),
        (call, "arguments", call.call and call.call.arguments), (last, "reasoning", last.reasoning),
    ):  # fmt: skip
        assert text is not None
        assert len(text.text) == LONGEST
        whole = passage(talk, item.place, name)
        assert whole is not None
        assert whole.startswith(text.text)
        assert len(whole) == LONGEST + text.rest
    assert passage(talk, "2.0", "reasoning") is None
    assert passage(talk, "99.0", "text") is None


def test_an_image_is_given_by_its_name() -> None:
    talk = talk_of(ran(["A point."], ["What is it?", dot()]))
    assert str(passage(talk, "1.0", "part.0")).startswith("data:image/png;base64,")
    assert passage(talk, "1.0", "part.1") is None
    assert passage(talk, "2.0", "part.0") is None


@pytest.mark.parametrize("place", ["", "1", "1.x", "-1.0", "1.0.0", "9" * 40 + ".0"])
def test_what_is_no_place(place: str) -> None:
    with pytest.raises(ValueError, match="no place of a conversation"):
        page_of(talk_of(ran(["x"])), place)


def test_it_is_printed_and_folded_in_a_notebook() -> None:
    script = [calls(("add", {"a": 1, "b": 2}), ("burn", {"what": "<b>water</b>"})), "See *this*."]
    shown = conversation(ran(script))
    assert str(shown).splitlines() == [
        "#1 Task · Read it", "  Hi", "#2 ✓ add(a=1, b=2)", "  result", "  3",
        '#2 ✗ burn(what="<b>water</b>")', "  result",
        "  error: ValueError: <b>water</b> does not burn", "#4 Model · scripted", "  See *this*.",
    ]  # fmt: skip
    html = shown._repr_mimebundle_()["text/html"]  # pyright: ignore[reportPrivateUsage]
    assert html.count("<details>") == 2
    assert "&lt;b&gt;water&lt;/b&gt; does not burn" in html
    assert "<b>" not in html
    assert "<script" not in html
    assert str(conversation(ran(script), 2)).startswith("… older messages are left out\n#2 ✗")
