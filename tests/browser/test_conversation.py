"""The conversation of a run in a real browser: read, followed while it arrives, and written."""

from __future__ import annotations

import base64
import runpy
import signal
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop import Machine, load
from chartloop.adapters.model.scripted import Scripted
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from tests.browser.lab import SLOW, Tab, expect_text
from tests.browser.test_run_page import INSTALL, Seen, Server, refused
from tests.server.conftest import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["refused"]
pytestmark = [
    pytest.mark.slow("starts a server and a browser"),
    pytest.mark.extra("fastapi", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.extra("playwright", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.system("chromium", install="apt-get install chromium"),
    pytest.mark.xdist_group("browser"),
]
HEAD = """\
chartloop: 1
machine: {name}
title: {title}
model: {{name: scripted}}
tools: [add, burn]
limits: {{steps: 9000}}
output: last.text
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
"""
LOOP = """\
  message: {label: Read the message, do: receive, next: think}
  think: {label: The model thinks, do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {label: Use the tools, do: call_tools, next: think}
  done: {stop: completed}
"""
ASKS = """\
  message: {do: receive, next: think}
  think: {do: infer, next: [{when: run.steps > 6, to: done}, {to: listen}]}
  listen: {ask: What is next?, on: {message: {to: think, data: {text: str}}}}
  done: {stop: completed}
"""
TOOLS = '''\
"""Tools of these tests."""

from chartloop import tool


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effect="pure")
def burn(what: str) -> str:
    """Fail."""
    raise ValueError(f"{what} does not burn")
'''
SCRIPT = r"""replies:
  - text: "I **add**, and burn."
    reasoning: Two and two.
    tool_calls:
      - {name: add, arguments: {a: 2, b: 2}}
      - {name: burn, arguments: {what: water}}
    usage: {prompt_tokens: 9, completion_tokens: 9}
  - text: "# Four\n\nIt is `4`: see [the proof](https://example.com/a), [not this](javascript:alert(1)) and <b>this</b>.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    usage: {prompt_tokens: 9, completion_tokens: 9}
  - text: "\u202eturned"
    usage: {prompt_tokens: 9, completion_tokens: 9}
"""


def png() -> str:
    """A picture of one point, as a `data:` URL."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"\0\1\2\3"))
    whole = b"\x89PNG\r\n\x1a\n" + head + body + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(whole).decode()


class TalkServer(Server):
    files: ClassVar[dict[str, str]] = {
        "machines/talk.yaml": HEAD.format(name="talk", title="A talk") + LOOP,
        "machines/asks.yaml": HEAD.format(name="asks", title="It asks") + ASKS,
        "tools.py": TOOLS, "script.yaml": SCRIPT,
    }  # fmt: skip
    options = ("--tools", "tools.py")

    def ended(self, run: str) -> str:
        """Wait until a run has ended; gives its id."""
        end = time.monotonic() + 40
        while time.monotonic() < end:
            if self.ask(f"/runs/{run}")["ended"]:
                return run
            time.sleep(0.05)
        raise AssertionError(run)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TalkServer]:
    started = TalkServer(tmp_path_factory.mktemp("talking"))
    yield started
    started.kill(signal.SIGTERM)


@pytest.fixture
def seen(page: Tab, server: TalkServer) -> Seen:
    return Seen(page, server)


def own_tools(folder: Path) -> list[Any]:
    """The tools of the server's folder."""
    named = runpy.run_path(str(folder / "tools.py"))
    return [named["add"], named["burn"]]


def server_machine(folder: Path) -> Machine:
    """The machine of the server's folder, to make a run in its journal."""
    return load(folder / "machines/talk.yaml", tools=own_tools(folder))


@pytest.fixture(scope="module")
def talk(server: TalkServer) -> str:
    """A run that has ended: a call that succeeded, one that failed, two replies."""
    return server.ended(server.start("talk", task="What is **2** + 2?"))


def said(page: Page) -> list[str]:
    """The items that are shown, each by its kind and its place."""
    found = page.locator(".talk .said").evaluate_all(
        "all => all.map(one => `${one.dataset.place} ${one.dataset.kind}`)"
    )
    return list(found)


def opened(seen: Seen, run: str, more: str = "") -> Page:
    seen.open(f"/runs/{run}?view=conversation{more}")
    seen.page.locator(".talk .said").first.wait_for()
    return seen.page


# reading ------------------------------------------------------------------------------------------


def test_a_run_is_read_as_a_conversation(seen: Seen, talk: str) -> None:
    page = opened(seen, talk)
    assert said(page) == ["1.0 task", "2.0 reply", "2.1 call", "2.2 call", "4.0 reply"]
    task, first, call, failed, last = page.locator(".talk .said").all()
    assert "What is **2** + 2?" in task.inner_text(), "what a person wrote stays as it was"
    assert first.locator("strong", has_text="add").count() == 1
    assert not first.get_by_text("Two and two.").is_visible()
    first.get_by_text("Reasoning").click()
    assert first.get_by_text("Two and two.").is_visible()
    assert call.locator("summary").inner_text() == "✓add(a=2, b=2)"
    call.locator("summary").click()
    assert [one.inner_text() for one in call.locator("pre").all()][-1] == "4"
    assert "ValueError: water does not burn" in failed.locator(".said-fault").inner_text()
    red = failed.locator(".said-fault").evaluate("one => getComputedStyle(one).color")
    assert red == "rgb(201, 42, 42)"
    assert last.locator("h3").inner_text() == "Four"
    assert last.locator("td").all_inner_texts() == ["1", "2"]
    (link,) = last.locator("a").all()
    assert link.get_attribute("rel") == "noopener noreferrer"
    assert last.locator(".md-host").inner_text().strip() == "(example.com)"
    assert "[not this](javascript:alert(1)) and <b>this</b>" in last.inner_text()
    page.get_by_label("as written").check()
    assert "# Four" in page.locator(".talk .said").last.inner_text()


def test_the_picture_stands_beside_it_or_is_a_tab_away(
    chromium: Browser, server: TalkServer, talk: str
) -> None:
    for width, beside in ((1280, True), (390, False)):
        context = chromium.new_context(viewport={"width": width, "height": 800})
        seen = Seen(Tab(context), server)
        page = opened(seen, talk)
        if beside:
            page.locator(".cl-picture svg").wait_for()
        assert page.locator(".cl-left").is_visible() == beside
        assert page.locator(".talk-scroll").is_visible()
        assert seen.fits()
        page.keyboard.press("v")
        assert not page.locator(".talk").is_visible()
        assert page.locator(".cl-picture").is_visible()
        assert page.url.endswith(f"/runs/{talk}")
        seen.press("Conversation")
        assert page.url.endswith("?view=conversation")
        assert (
            page.get_by_role("button", name="Conversation").get_attribute("aria-pressed") == "true"
        )
        context.close()


def test_an_item_chooses_its_step_and_a_step_its_item(seen: Seen, talk: str) -> None:
    page = opened(seen, talk)
    page.locator('.talk .said[data-place="2.0"] p').click()
    expect_text(page, page.locator(".step"), "step 2: ")
    assert "step=2" in page.url
    assert page.locator(".talk .said.cl-chosen").evaluate_all("all => all.map(one => one.dataset.place)") == [
        "2.0", "2.1", "2.2"
    ]  # fmt: skip
    page.get_by_role("button", name="Step 4: show it").click()
    expect_text(page, page.locator(".step"), "step 4: ")
    page.keyboard.press("g")
    expect_text(page, page.locator(".step"), "step 0: ")
    page.keyboard.press("j")
    assert page.locator(".talk .said.cl-chosen").get_attribute("data-kind") == "task"


def test_an_image_of_the_journal_is_shown(seen: Seen) -> None:
    from chartloop import Image  # noqa: PLC0415

    data = base64.b64decode(png().partition(",")[2])
    folder = seen.server.folder
    machine = server_machine(folder)
    run = machine.start(
        ["What is it?", Image(data)], script=["A point."], journal=str(folder / "journal.db")
    )
    run.run()
    page = opened(seen, run.id)
    image = page.locator(".talk .said-image img")
    image.wait_for()
    assert image.evaluate("one => one.naturalWidth") == 1
    assert str(image.get_attribute("src")) == png()


def test_nothing_in_a_text_turns_it_round(seen: Seen, server: TalkServer) -> None:
    run = server.start("talk", task="a\u202eb")
    page = opened(seen, server.ended(run))
    assert "a\\u202eb" in page.locator(".talk .said").first.inner_text()


# what arrives, and what is written ----------------------------------------------------------------


class Piecewise(Scripted):
    """A scripted model that writes the next piece of its reply once `shown` is released."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.shown = threading.Semaphore(0)

    @property
    def suspends(self) -> bool:
        return True

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        if on_text is not None and request.number == 0:
            hear: Any = on_text
            hear.reasoning("I think slowly.")
            await self._until_shown()
            for piece in ("A **first** sentence. ", "And a second one."):
                hear(piece)
                await self._until_shown()
            hear.call(0, "c1", "add", '{"a": 2, ')
            await self._until_shown()
        return await super().complete(request)

    async def _until_shown(self) -> None:
        await anyio.to_thread.run_sync(partial(self.shown.acquire, timeout=SLOW / 1000))


def test_what_the_model_writes_is_seen_as_it_arrives(
    chromium: Browser, server: TalkServer, tmp_path: Path
) -> None:
    from chartloop.hosting.server import Settings  # noqa: PLC0415

    call = {"name": "add", "arguments": {"a": 2, "b": 2}}
    model = Piecewise([{"text": "A **first** sentence.", "tool_calls": [call]}, "Done."])
    given: Any = {
        "machines": (server.folder / "machines",), "journal": tmp_path / "journal.db",
        "components": {"model": model}, "tools": own_tools(server.folder),
    }  # fmt: skip
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    with serving(Settings(**given)) as served:
        run = served.start("talk", task="Slowly", drive="none")
        tab = Tab(context)
        tab.page.goto(f"{served.client.base_url}/runs/{run}?view=conversation")
        tab.page.locator(".talk .said").first.wait_for()
        expect_text(tab.page, tab.page.locator("#link"), "^live$")
        served.post(f"/runs/{run}/run", status=202)
        live = tab.page.locator(".talk .said-live")
        for piece in (
            r"I think slowly\.$", r"A \*\*first\*\* sentence\. $",
            r"And a second one\.$", r'add\(\{"a": 2, $',
        ):  # fmt: skip
            expect_text(tab.page, live, piece)
            model.shown.release()
        expect_text(tab.page, tab.page.locator(".talk .said").last, "Done.")
        assert live.is_hidden()
        assert said(tab.page) == ["1.0 task", "2.0 reply", "2.1 call", "4.0 reply"]
        assert tab.errors == []
    context.close()


def test_the_next_message_continues_the_same_conversation(seen: Seen, talk: str) -> None:
    page = opened(seen, talk)
    box = page.get_by_label("The next message")
    box.fill("And")
    box.press("Shift+Enter")
    box.press_sequentially("then?")
    box.press("Enter")
    page.wait_for_url(lambda url: talk not in url)
    page.wait_for_function(
        "() => document.querySelectorAll('.talk .said').length >= 2", timeout=SLOW
    )
    run = page.url.partition("/runs/")[2].partition("?")[0]
    assert seen.server.ask(f"/runs/{run}/conversation")["earlier"] == talk
    expect_text(page, page.locator(".talk .said").filter(has_text="then?"), r"And\s+then\?$")
    page.wait_for_function(
        "() => document.querySelectorAll('.talk .said').length >= 7", timeout=SLOW
    )
    assert said(page)[:2] == ["1.0 task", "2.0 reply"]
    expect_text(page, page.locator(".talk .said-turn"), f"Continued as run {run}")
    assert page.locator(".talk .said").first.inner_text().endswith("What is **2** + 2?")


def test_earlier_turns_stay_when_the_first_item_of_a_run_arrives(
    seen: Seen, server: TalkServer, talk: str
) -> None:
    run = server.start("talk", continues=talk, branch=True, drive="none", task="And then?")
    page = seen.page
    seen.open(f"/runs/{run}?view=conversation")
    expect_text(page, page.locator(".talk .said-turn"), f"Continued as run {run}")
    earlier = len(said(page))  # with the task, which no record has yet
    assert earlier >= 5
    server.ask(f"/runs/{run}/run", {})
    server.ended(run)
    page.wait_for_function(
        "least => document.querySelectorAll('.talk .said').length >= least",
        arg=earlier + 1,
        timeout=SLOW,
    )
    assert said(page)[:2] == ["1.0 task", "2.0 reply"]
    assert page.locator(".talk .said").filter(has_text="And then?").count() == 1


def test_a_question_for_one_text_is_answered_at_the_foot(seen: Seen, server: TalkServer) -> None:
    run = server.start("asks", task="Begin")
    server.waiting(run)
    page = opened(seen, run)
    assert page.locator(".talk .said").last.get_attribute("data-kind") == "question"
    box = page.get_by_label("Your answer")
    box.fill("Go on.")
    box.press("Enter")
    answer = page.locator('.talk .said[data-kind="answer"]')
    expect_text(page, answer, "Somebody answered message")
    assert answer.inner_text().endswith("Go on.")


# long and hostile ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_run(server: TalkServer) -> str:
    """A run of 5,000 steps and 2,500 messages."""
    folder = server.folder
    turn = {"text": "Round", "tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 1}}]}
    machine = server_machine(folder)
    run = machine.start(
        "For long", script=[*[turn] * 2_500, "The end."], journal=str(folder / "journal.db"),
        run_id="long",
    )  # fmt: skip
    run.run()
    assert len(run.records) > 5_000
    return run.id


def test_a_long_conversation_is_read_by_pages_without_a_shift(seen: Seen, long_run: str) -> None:
    page = seen.page
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if "/conversation" in one.url else None)
    opened(seen, long_run)
    assert [url for url in asked if "before=" in url] == [], "the newest page fills the screen"
    assert page.locator(".talk .said").last.inner_text().endswith("The end.")
    scroll = page.locator(".talk-scroll")
    most = 0
    for _ in range(12):
        asked.clear()
        first = page.locator(".talk .said").first.get_attribute("data-place")
        before = scroll.evaluate(
            """box => { box.scrollTop = 300; const top = box.getBoundingClientRect().top;
            const one = [...box.querySelectorAll(".said")].find(one => one.getBoundingClientRect().top > top);
            window.watched = one; return one.getBoundingClientRect().top; }"""
        )
        page.wait_for_function(
            "first => document.querySelector('.talk .said').dataset.place !== first",
            arg=first,
            timeout=SLOW,
        )
        assert page.evaluate("window.watched.isConnected")
        assert abs(page.evaluate("window.watched.getBoundingClientRect().top") - before) <= 1
        assert len([url for url in asked if "before=" in url]) == 1
        most = max(most, page.locator(".talk *").count())
    assert page.locator(".talk .said").count() <= 160
    assert most < 4_000
    page.get_by_role("button", name="Newest").click()
    expect_text(page, page.locator(".talk .said").last, "The end.")
    seen.open(f"/runs/{long_run}?view=conversation&step=2500")
    page.locator(".talk .said.cl-chosen").first.wait_for()
    assert page.locator(".talk .said").count() <= 160
    last = page.locator(".talk .said").last.get_attribute("data-place")
    scroll.evaluate("box => { box.scrollTop = box.scrollHeight; }")
    page.wait_for_function(
        "last => [...document.querySelectorAll('.talk .said')].at(-1).dataset.place !== last", arg=last,
        timeout=SLOW,
    )  # fmt: skip


def test_it_follows_the_newest_at_the_foot_only(seen: Seen, server: TalkServer) -> None:
    run = server.start("talk", task="line\n" * 80, drive="step")
    page = opened(seen, run)
    scroll = page.locator(".talk-scroll")
    server.ask(f"/runs/{run}/run?wait=20", {})
    expect_text(page, page.locator(".talk .said").last, "Four")
    page.wait_for_function(
        "() => { const b = document.querySelector('.talk-scroll'); return b.scrollHeight - b.scrollTop - b.clientHeight < 2; }"
    )
    scroll.evaluate("box => { box.scrollTop = 50; }")
    again = page.get_by_role("button", name="Newest")
    again.wait_for()
    assert scroll.evaluate("box => box.scrollTop") == 50
    again.click()
    assert scroll.evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight") < 2


def test_who_reads_older_messages_is_not_moved_by_many_new_ones(
    seen: Seen, server: TalkServer
) -> None:
    folder = server.folder
    turn = {"text": "Round", "tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 1}}]}
    run = server_machine(folder).start(
        "line\n" * 80, script=[*[turn] * 200, "The end."], journal=str(folder / "journal.db")
    )
    for _ in range(20):
        run.step()
    page = opened(seen, run.id)
    scroll = page.locator(".talk-scroll")
    scroll.evaluate("box => { box.scrollTop = 50; }")
    page.get_by_role("button", name="Newest").wait_for()
    run.run()
    seen.status("done")
    page.get_by_role("button", name="Later").wait_for()
    assert scroll.evaluate("box => box.scrollTop") == 50
    assert said(page)[0] == "1.0 task"
    page.get_by_role("button", name="Newest").click()
    expect_text(page, page.locator(".talk .said").last, "The end.")


ALLOWED = set(
    "DIV P H3 H4 H5 H6 UL OL LI STRONG EM CODE PRE TABLE THEAD TBODY TR TH TD BLOCKQUOTE A HR SPAN".split()
)
RENDER = """async source => {
  const { markdown } = await import("/page/markdown.js");
  const made = markdown(source);
  const found = { names: [...made.querySelectorAll("*")].map(one => one.tagName), text: made.textContent,
                  links: [...made.querySelectorAll("a")].map(one => [one.protocol, one.rel, one.target]) };
  made.querySelectorAll(".md-host").forEach(one => one.remove());
  return { ...found, plain: made.textContent };
}"""
PIECES = st.sampled_from([
    "word", "two words", "**", "*", "_", "__", "`", "```\n", "~~~", "# ", "> ", "- ", "1. ", "\n", "\n\n",
    "    ", "| a | b |\n|---|---|\n", "|", "[x](http://1.2)", "![y](http://1.2/3)", "[z](javascript:4)",
    "<script>hit</script>", "<img src=x onerror=hit>", "\\", "&lt;", "[", "](", ")", "---\n", "\u202e", "é漢",
])  # fmt: skip


def letters(text: str) -> str:
    return "".join(sign for sign in text if sign.isalpha())


@given(st.lists(PIECES, max_size=24).map("".join))
@settings(max_examples=150, deadline=None)
def test_what_is_rendered_says_what_was_written(markdown_page: Page, source: str) -> None:
    found: Any = markdown_page.evaluate(RENDER, source)
    assert set(found["names"]) <= ALLOWED
    for protocol, rel, target in found["links"]:
        assert (protocol, rel, target) == ("http:", "noopener noreferrer", "_blank")
    written = source.replace("(http://1.2)", "").replace("(http://1.2/3)", "")
    rendered = found["plain"].replace("http://1.2/3", "").replace("http://1.2", "")
    assert letters(rendered) == letters(written)


@pytest.fixture(scope="module")
def markdown_page(chromium: Browser, server: TalkServer) -> Iterator[Page]:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{server.address}/runs")
    yield page
    context.close()


HOSTILE = {
    "a-megabyte": "word **b** `c` " * 70_000,
    "quotes": ">" * 10_000 + " x",
    "quoted-lines": (">" * 100 + " x\n") * 900,
    "brackets": "[" * 100_000,
    "links": "[a](" * 25_000,
    "stars": "**a " * 25_000,
    "signs": "*a_b" * 25_000,
    "backticks": "x".join("`" * n for n in range(400)),
    "lists": "\n".join(" " * 2 * n + "- a" for n in range(300)),
    "tables": ("|a" * 50 + "|\n" + "|-" * 50 + "|\n") * 400,
    "paragraphs": "a\n\n" * 33_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_makes_few_elements(markdown_page: Page, name: str) -> None:
    found: Any = markdown_page.evaluate(RENDER, HOSTILE[name])
    assert len(found["names"]) < 4_200
    assert set(found["names"]) <= ALLOWED
    assert letters(found["text"]) == letters(HOSTILE[name])


def test_a_reply_of_a_megabyte_is_shown_cut_then_whole(seen: Seen) -> None:
    folder = seen.server.folder
    huge = ">" * 10_000 + "\n\n" + "word **b** " * 90_000 + "the very end"
    run = server_machine(folder).start("Much", script=[huge], journal=str(folder / "journal.db"))
    run.run()
    page = opened(seen, run.id)
    reply = page.locator('.talk .said[data-kind="reply"]')
    assert len(reply.inner_text()) < 5_000
    reply.get_by_role("button", name="Show all").click()
    expect_text(page, reply.locator(".md > pre"), "the very end")
    assert reply.locator("*").count() < 4_200
    assert seen.fits()


CONTRAST = """() => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (one) => { for (let at = one; at; at = at.parentElement) {
    const found = parse(getComputedStyle(at).backgroundColor); if (found.length === 3 || found[3] > 0) return found; } return [255, 255, 255]; };
  const low = [];
  const walker = document.createTreeWalker(document.querySelector(".talk"), NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !one.checkVisibility() || one.closest(".unseen")) continue;
    seen += 1;
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(walker.currentNode.data.slice(0, 40));
  }
  return { seen, low };
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_text_of_it_can_be_read(
    chromium: Browser, server: TalkServer, talk: str, scheme: Any, width: int
) -> None:
    asks = server.start("asks", task="Begin")
    server.waiting(asks)
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    seen = Seen(Tab(context), server)
    for run in (talk, asks):
        page = opened(seen, run)
        page.locator(".talk textarea").wait_for()
        for fold in page.locator(".talk summary").all():
            fold.click()
        found = page.evaluate(CONTRAST)
        assert found["low"] == []
        assert found["seen"] > 5
        assert seen.fits()
    context.close()
