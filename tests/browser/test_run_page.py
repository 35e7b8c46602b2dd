"""The server's pages in a real browser, over a real server: what a person presses, and what they see.

The server is a process of its own, which is killed and begun again. Its model is a script that
takes its time.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.browser.lab import SLOW, Tab, expect_pressable, expect_text, free_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route

INSTALL = 'pip install -e ".[test-all]"'
pytestmark = [
    pytest.mark.slow("starts servers and a browser"),
    pytest.mark.extra("fastapi", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.extra("playwright", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.system("chromium", install="apt-get install chromium"),
    pytest.mark.xdist_group("browser"),
]
WORDY = "x" * 900
"""A text without a place to break it."""
HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'>"
MACHINE = f"""\
chartloop: 1
machine: review
title: "A draft that <b>somebody</b> approves"
model: {{name: scripted}}
limits: {{steps: 40, tokens: 100_000, patience: 1h}}
vars: {{note: {{type: str, value: ""}}}}
output: last.text
rules:
  - {{when: run.steps >= limits.steps, stop: steps_limit}}
  - {{when: usage.total_tokens >= limits.tokens, stop: token_limit}}
states:
  take: {{label: "{HOSTILE}", do: receive, next: draft}}
  draft: {{label: Write a draft, do: infer, next: approve}}
  approve:
    ask: 'Publish "{{last.text}}"?'
    within: limits.patience
    on:
      approve: done
      reject: {{to: draft, data: {{note: str, score: int, hard: bool}}, set: {{vars.note: last.answer.note}}}}
    expired: lapsed
  lapsed: {{stop: user_unresponsive}}
  done: {{stop: completed}}
"""
WRITER = """\
chartloop: 1
machine: writer
title: Six drafts
model: {name: scripted}
limits: {steps: 7}
output: last.text
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  take: {do: receive, next: draft}
  draft: {label: Write a draft, do: infer, next: draft}
"""
SCRIPT = f"""\
replies:
  - {{text: "Draft {HOSTILE}", delay: 3.0, usage: {{prompt_tokens: 90, completion_tokens: 10, cost: 0.01}}}}
""" + "".join(
    f"  - {{text: Draft {n}, delay: 2.0, usage: {{prompt_tokens: 90, completion_tokens: {n}}}}}\n"
    for n in range(2, 12)
)


class Server:
    """`chartloop serve` as a process, at one address whenever it is begun."""

    files: ClassVar[dict[str, str]] = {
        "machines/review.yaml": MACHINE, "machines/writer.yaml": WRITER, "script.yaml": SCRIPT
    }  # fmt: skip
    options: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "machines").mkdir()
        for name, text in self.files.items():
            (folder / name).write_text(text)
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.begin()

    def begin(self) -> None:
        command = (
            sys.executable, "-m", "chartloop", "serve", "--machines", "machines", "--journal",
            "journal.db", "--script", "script.yaml", "--port", str(self.port), *self.options,
        )  # fmt: skip
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(OSError):
                self.ask("/readyz")
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "server.log").read_text()[-4000:])

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.wait(20)

    def ask(self, path: str, body: Any = None) -> Any:
        """What another program gets."""
        import httpx  # noqa: PLC0415

        try:
            if body is None:
                answer = httpx.get(self.address + path, timeout=30)
            else:
                answer = httpx.post(self.address + path, json=body, timeout=30)
        except httpx.TransportError as error:
            raise OSError(str(error)) from error
        assert answer.status_code < 300, answer.text
        return answer.json()

    def start(self, machine: str = "review", **more: Any) -> str:
        return self.ask("/runs", {"machine": machine, "task": HOSTILE, **more})["run"]

    def waiting(self, run: str) -> str:
        """Wait until a run asks; gives its wait."""
        end = time.monotonic() + 40
        while time.monotonic() < end:
            if wait := self.ask(f"/runs/{run}")["wait"]:
                return wait
            time.sleep(0.1)
        raise AssertionError("it asks nothing")


class Seen:
    """The page, as somebody who looks at it."""

    def __init__(self, tab: Tab, server: Server) -> None:
        self.tab, self.page, self.server = tab, tab.page, server
        self.banner = self.page.locator(".banner")

    def open(self, link: str) -> None:
        self.page.goto(self.server.address + link)
        self.page.evaluate("window.kept = true")
        expect_text(self.page, self.page.locator("#link"), "^live$")

    def same_page(self) -> bool:
        """Whether it was never loaded again."""
        return self.page.evaluate("window.kept === true")

    def press(self, name: str, inside: Locator | None = None) -> None:
        (inside or self.page).get_by_role("button", name=name, exact=True).click()

    def status(self, words: str) -> None:
        expect_text(self.page, self.page.locator(".title .cl-status"), f"^{words}$")

    def now_at(self, state: str) -> None:
        """Wait until the picture says that the run is in a state."""
        self.page.wait_for_function(
            """state => [...document.querySelectorAll(".cl-picture g.node")].some(node =>
               node.id.endsWith(`node-${state}`) && node.textContent.includes("NOW"))""",
            arg=state, timeout=SLOW,
        )  # fmt: skip

    def sign(self, name: str) -> None:
        """Say who answers, whether somebody has answered in this tab before or not."""
        change = self.page.get_by_role("button", name="change", exact=True)
        self.page.locator(".signer").wait_for()
        if change.is_visible():
            change.click()
        self.page.locator("[name=by]:visible").fill(name)

    def opened(self, run: str) -> Locator:
        """The card of a run in the inbox, opened."""
        card = self.page.locator(".card:not(.leaving)", has_text=run)
        head = card.locator("button.asks")
        head.wait_for()
        self.page.wait_for_timeout(300)  # the first one opens by itself
        if head.get_attribute("aria-expanded") == "false":
            head.click()
        card.locator(".opened .question").wait_for()
        return self.page.locator(".card", has_text=run)

    def fits(self) -> bool:
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("served"))
    yield started
    started.kill(signal.SIGTERM)


@pytest.fixture
def seen(page: Tab, server: Server) -> Seen:
    return Seen(page, server)


@pytest.fixture(autouse=True)
def refused(page: Tab) -> Iterator[list[str]]:
    """Nothing that the page does is against its own policy, and no script of a text was run."""
    told: list[str] = []
    page.page.on("console", lambda message: told.append(message.text))
    yield told
    assert [words for words in told if "Content Security Policy" in words] == []
    assert page.page.evaluate("window.hit") is None


def test_a_run_is_started_watched_and_answered(seen: Seen) -> None:
    seen.open("/runs")
    seen.page.get_by_text("Start a run").click()
    seen.page.get_by_label("Machine", exact=True).select_option("review")
    seen.page.get_by_label("Task").fill(HOSTILE)
    seen.press("Start")
    seen.now_at("draft")
    seen.now_at("approve")
    seen.status("waits for someone")
    expect_text(seen.page, seen.banner.locator(".due"), r"^(1 h|\d+ min.*) left$")
    form = seen.banner.locator("form", has_text="note")
    form.get_by_label("note").fill("<i>warmer</i>")
    form.get_by_label("score").fill("7")
    form.get_by_label("hard").check()
    seen.press("reject", form)
    seen.now_at("draft")
    seen.now_at("approve")
    expect_text(seen.page, seen.banner.locator(".cl-question"), "Draft 2")
    seen.press("approve", seen.banner)
    seen.status("done")
    expect_text(seen.page, seen.banner, "Done at done.*")
    expect_text(seen.page, seen.page.locator(".meters"), r"cost\$0\.01")
    assert seen.same_page()


def test_a_deadline_counts_down_and_expires(seen: Seen) -> None:
    run = seen.server.start(limits={"patience": "4s"})
    seen.server.waiting(run)
    seen.open(f"/runs/{run}")
    expect_text(seen.page, seen.banner.locator(".due"), r"^[1-4] s left$")
    expect_text(seen.page, seen.banner, "user_unresponsive")
    seen.status("stopped by a (limit|person)")


def test_a_run_is_cancelled_by_a_second_press(seen: Seen) -> None:
    run = seen.server.start()
    seen.server.waiting(run)
    seen.open(f"/runs/{run}")
    seen.press("Cancel")
    seen.press("Really cancel?")
    seen.status("stopped by a person")
    expect_text(seen.page, seen.banner, "user_requested")
    for name in ("Step", "Run", "Cancel"):
        button = seen.page.get_by_role("button", name=name, exact=True)
        expect_pressable(button, False)


def test_a_step_is_a_link_and_a_run_is_forked_there(seen: Seen) -> None:
    run = seen.server.start()
    seen.server.waiting(run)
    seen.open(f"/runs/{run}?step=1")
    expect_text(seen.page, seen.page.locator(".step"), "Decision.*step 1: step at take")
    seen.now_at("draft")
    assert seen.page.locator(".steps .cl-chosen .seq").inner_text() == "1"
    seen.page.keyboard.press("j")
    expect_text(seen.page, seen.page.locator(".step"), "step 2: step at draft")
    assert seen.page.url.endswith("?step=2")
    seen.page.keyboard.press("k")
    seen.page.keyboard.press("ArrowUp")
    expect_text(seen.page, seen.page.locator(".step"), "step 0: start at take")
    seen.page.keyboard.press("j")
    expect_text(seen.page, seen.page.locator(".step"), "step 1: step at take")
    seen.press("Fork at 1")
    seen.page.wait_for_function("old => !location.pathname.endsWith(old)", arg=run)
    label = re.escape(HOSTILE)
    expect_text(
        seen.page,
        seen.page.locator(".steps"),
        f"^0start→ {label}1{label} takereceive→ Write a draft.{{0,9}}$",
    )
    seen.now_at("draft")
    assert seen.server.ask(f"/runs/{run}")["state"] == "approve"


def test_the_step_shows_what_was_decided_changed_sent_and_received(seen: Seen) -> None:
    run = seen.server.start()
    seen.server.waiting(run)
    seen.open(f"/runs/{run}?step=2")
    step = seen.page.locator(".step")
    expect_text(seen.page, step, r"run\.steps >= limits\.steps2 against 4038stop: steps_limit")
    expect_text(seen.page, step, r"usage\.total_tokens0 → 100")
    assert not step.get_by_text("window.hit = 1", exact=False).last.is_visible()
    step.locator("summary", has_text="Prompt").click()
    expect_text(seen.page, step.locator(".said").first, f"To the model{re.escape(HOSTILE)}")
    step.locator("summary", has_text="Reply").click()
    expect_text(seen.page, step.locator("details[open] .md").last, "Draft <script>")


def test_the_inbox_is_answered_in_place(seen: Seen) -> None:
    first, second = seen.server.start(), seen.server.start()
    seen.server.waiting(first)
    seen.server.waiting(second)
    seen.open("/inbox")
    card = seen.opened(first)
    expect_text(seen.page, seen.page.locator("#waiting"), r"^\d+$")
    badge = int(seen.page.locator("#waiting").inner_text())
    seen.press("approve", card)
    expect_text(seen.page, card, "Answered: approve")
    card.wait_for(state="detached")
    assert seen.page.locator(".card", has_text=second).count() == 1
    expect_text(seen.page, seen.page.locator("#waiting"), f"^{badge - 1}$")
    assert seen.server.ask(f"/runs/{first}")["ended"]
    assert seen.same_page()


def test_who_comes_second_is_told_what_can_be_done(seen: Seen) -> None:
    run = seen.server.start()
    wait = seen.server.waiting(run)
    seen.open(f"/runs/{run}")
    seen.banner.get_by_role("button", name="approve").wait_for()

    def before(route: Route) -> None:
        seen.server.ask(f"/runs/{run}/answer", {"event": "approve", "wait": wait})
        while not seen.server.ask(f"/runs/{run}")["ended"]:
            time.sleep(0.05)
        route.continue_()

    seen.page.route("**/answer", before)
    seen.press("approve", seen.banner)
    expect_text(seen.page, seen.page.get_by_role("alert"), "Now it takes: .*fork")
    seen.page.unroute("**/answer")
    seen.status("done")


def test_an_answer_that_was_not_sent_says_so_and_is_sent_again_once(seen: Seen) -> None:
    run = seen.server.start()
    seen.server.waiting(run)
    seen.open(f"/runs/{run}")
    form = seen.banner.locator("form", has_text="note")
    form.get_by_label("note").fill("warmer")
    form.get_by_label("score").fill("7")
    lost: list[str] = []

    def lose(route: Route) -> None:
        lost.append(route.request.headers["idempotency-key"])
        route.abort()

    seen.page.route("**/answer", lose)
    seen.press("reject", form)
    note = seen.banner.get_by_role("status")
    expect_text(seen.page, note, "reject was NOT sent: the server does not answer")
    assert seen.server.ask(f"/runs/{run}")["wait"]  # and the run still waits
    seen.page.unroute("**/answer")
    with seen.page.expect_request("**/answer") as again:
        seen.press("Send reject again")
    assert again.value.headers["idempotency-key"] == lost[0]
    seen.now_at("draft")
    answers = [
        r for r in seen.server.ask(f"/runs/{run}/records")["records"] if r["kind"] == "answer"
    ]
    assert [r["data"]["note"] for r in answers] == ["warmer"]
    assert seen.page.locator("#notice").is_hidden()


def test_an_order_that_was_not_sent_is_sent_again(seen: Seen) -> None:
    run = seen.server.start()
    seen.server.waiting(run)
    seen.open(f"/runs/{run}")
    seen.page.route("**/fork", lambda route: route.abort())
    seen.press("Fork")
    expect_text(seen.page, seen.page.locator("#notice"), "Fork here was NOT sent")
    seen.page.unroute("**/fork")
    seen.press("Send again")
    seen.page.wait_for_function("old => !location.pathname.endsWith(old)", arg=run)
    assert seen.page.locator("#notice").is_hidden()


def test_nothing_is_answered_while_the_server_is_away_and_no_notice_stays(seen: Seen) -> None:
    run = seen.server.start()
    seen.server.waiting(run)
    for link in (f"/runs/{run}", "/inbox"):
        seen.open(link)
        card = seen.page.locator(".question", has=seen.page.get_by_role("button", name="approve"))
        button = card.first.get_by_role("button", name="approve", exact=True)
        button.wait_for()
        seen.server.kill()
        expect_text(seen.page, seen.page.locator("#link"), "no connection")
        expect_pressable(button, False)
        seen.server.begin()
        expect_text(seen.page, seen.page.locator("#link"), "^live$")
        expect_pressable(button, True)
        seen.page.locator("#notice").wait_for(state="hidden")
        assert seen.same_page()
    seen.press("approve", card.filter(has_text="Publish").last)


LETTER = "Dear customer,\n\nyou get 100 \u202eDSU.\n" + "A line of the letter.\n" * 600 + "The end"


def test_who_answers_reads_all_of_it_first(seen: Seen, tmp_path: Path) -> None:
    (seen.server.folder / "letter.yaml").write_text(json.dumps({"replies": [LETTER]}))
    run = "letter-1"
    command = (
        sys.executable, "-m", "chartloop", "run", "machines/review.yaml", "x", "--run-id", run,
        "--script", "letter.yaml", "--journal", "journal.db", "--no-input",
    )  # fmt: skip
    rests = subprocess.run(command, cwd=seen.server.folder, check=False, capture_output=True)
    assert rests.returncode == 4, rests.stderr
    seen.open(f"/runs/{run}")
    about = seen.banner.locator(".cl-decided")
    assert about.inner_text().startswith("Dear customer,\n\nyou get 100 \\u202eDSU.\n")
    approve = seen.banner.get_by_role("button", name="approve", exact=True)
    expect_pressable(approve, False)
    approve.dispatch_event("click")
    assert seen.server.ask(f"/runs/{run}")["wait"]
    seen.banner.get_by_role("button", name="characters that follow").click()
    expect_text(seen.page, about, "The end$")
    seen.press("approve", seen.banner)
    expect_text(seen.page, seen.banner, "Answered: approve")


def test_the_page_catches_up_after_the_server_was_killed(seen: Seen) -> None:
    run = seen.server.start("writer")
    seen.open(f"/runs/{run}")
    seen.now_at("draft")
    expect_text(seen.page, seen.page.locator(".steps"), "2Write a draft")
    seen.server.kill()
    expect_text(seen.page, seen.page.locator("#link"), "no connection")
    seen.server.begin()
    expect_text(seen.page, seen.page.locator("#link"), "^live$")
    expect_text(seen.page, seen.banner, "steps_limit.*7 against 7")
    seen.status("stopped by a limit")
    assert seen.page.locator(".steps li").count() == len(
        seen.server.ask(f"/runs/{run}/records")["records"]
    )
    assert seen.same_page()


def test_a_list_is_filtered_and_new_runs_come_by_themselves(seen: Seen) -> None:
    seen.server.start("writer", drive="none")
    seen.open("/runs?machine=writer")
    rows = seen.page.locator(".runs tbody tr")
    choice = seen.page.locator("select[name=machine]")
    choice.locator("option[value=review]").wait_for(state="attached")
    rows.first.wait_for()
    before = rows.count()
    run = seen.server.start("writer", drive="none")
    other = seen.server.start(drive="none")
    rows.filter(has_text=run).wait_for()
    assert rows.count() == before + 1
    assert rows.filter(has_text=other).count() == 0
    choice.select_option("review")
    rows.filter(has_text=other).wait_for()
    assert rows.filter(has_text=run).count() == 0
    assert "machine=review" in seen.page.url


def test_two_runs_are_compared(seen: Seen) -> None:
    one, other = seen.server.start(), seen.server.start()
    seen.server.waiting(one)
    seen.server.ask(f"/runs/{other}/answer", {"event": "reject", "wait": seen.server.waiting(other),
                    "data": {"note": "n", "score": 1, "hard": False}})  # fmt: skip
    seen.open(f"/compare?a={one}&b={other}")
    expect_text(seen.page, seen.page.locator("main"), "step 3 is the first that differs")
    seen.page.locator(".side .cl-picture svg").nth(1).wait_for()
    assert seen.page.locator("tr.first").count() == 1


def test_a_comparison_needs_two_runs(seen: Seen) -> None:
    seen.open("/compare")
    expect_text(seen.page, seen.page.locator("main"), "Tick two runs in the list of runs")


def test_a_failed_run_names_its_last_error(seen: Seen) -> None:
    seen.open(f"/runs/{seen.server.start('writer', task='')}")
    banner = seen.page.locator(".banner")
    expect_text(seen.page, banner, "Failed")
    expect_text(seen.page, banner, "take, step 1")


def test_a_long_task_is_shown_whole(seen: Seen) -> None:
    task = "Write about the parcel, " * 20 + "and about 'quotes'"
    seen.open(f"/runs/{seen.server.start(task=task)}")
    expect_text(seen.page, seen.page.locator(".task"), f"^{task}$")


def test_a_machine_has_a_page(seen: Seen) -> None:
    seen.server.waiting(seen.server.start())
    seen.open("/machines")
    seen.page.get_by_role("link", name="review").click()
    main = seen.page.locator("main")
    for part in ("Findings", "Bound.*at most 40", "Coverage.*states", "Changes"):
        expect_text(seen.page, main, part)
    seen.page.locator(".cl-picture svg").wait_for()
    assert seen.page.locator("main :is(b, i, script, img)").count() == 0


def test_no_text_becomes_markup(seen: Seen) -> None:
    run = seen.server.start()
    seen.server.waiting(run)
    for link in ("/runs", "/inbox", f"/runs/{run}", f"/compare?a={run}&b={HOSTILE}"):
        seen.open(link)
        expect_text(seen.page, seen.page.locator("main"), "window.hit|somebody")
        assert seen.page.locator("main :is(b, i, script, img, foreignObject)").count() == 0, link


def test_a_picture_that_could_act_cannot(seen: Seen, refused: list[str]) -> None:
    hostile = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        ' onload="window.hit = 1"><script>window.hit = 2</script><style>main {display: none}</style>'
        '<image href="http://192.0.2.1/x.png"/><a xlink:href="javascript:window.hit = 3"/>'
        '<foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="x"'
        ' onerror="window.hit = 4"/></foreignObject><g id="kept" style="fill: red"/></svg>'
    )
    told: dict[str, object] = {"layout": "x", "svg": hostile, "boxes": {}, "state": "", "about": ""}
    run = seen.server.start(drive="none")

    def answer(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), "picture": told})

    seen.page.route("**/moment*", answer)
    seen.open(f"/runs/{run}")
    seen.page.locator("#kept").wait_for(state="attached")
    markup = seen.page.locator(".cl-picture").inner_html()
    parts = ("script", "image", "foreignObject", "javascript", "onload", "style")
    assert [part for part in parts if part in markup] == []
    assert seen.page.locator("main").is_visible()
    seen.page.unroute("**/moment*")
    assert [words for words in refused if "event handler" in words]
    refused.clear()  # here the policy had something to refuse, while the text was read


def test_orders_that_need_words(seen: Seen) -> None:
    run = seen.server.start(drive="none")
    seen.open(f"/runs/{run}")
    expect_text(seen.page, seen.page.locator(".cl-status"), "driven by nobody")
    seen.page.keyboard.press("m")
    form = seen.page.locator("form.order", has_text="Another value")
    form.locator("select").select_option("limits.steps")
    form.locator("input").fill("9")
    form.locator("button").click()
    expect_text(seen.page, seen.page.locator(".meters"), "of 9")
    seen.page.keyboard.press("m")
    form = seen.page.locator("form.order", has_text="Go on, and rest")
    form.locator("input").fill("draft")
    form.locator("button").click()
    expect_text(seen.page, seen.page.locator(".cl-state"), "draft")
    expect_text(seen.page, seen.page.locator(".cl-status"), "driven by nobody")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone(chromium: Browser, server: Server, scheme: Any) -> None:
    run, wordy = server.start(), server.start(task=WORDY)
    server.waiting(run)
    server.waiting(wordy)
    server.ask(f"/runs/{wordy}/cancel", {"message": f"{WORDY} somebody"})
    context = chromium.new_context(viewport={"width": 400, "height": 800}, color_scheme=scheme)
    seen = Seen(Tab(context), server)
    for link in (
        "/runs",
        "/inbox",
        f"/runs/{run}",
        f"/runs/{wordy}",
        f"/compare?a={run}&b={run}",
        f"/compare?a={wordy}&b={run}",
        "/machines/review",
    ):
        seen.open(link)
        expect_text(seen.page, seen.page.locator("main"), "review|somebody")
        if "/review" in link or run in link:
            seen.page.locator(".cl-picture svg").last.wait_for()
        assert seen.fits(), link
        paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 25, 31)"}[scheme]
    assert seen.tab.errors == []
    context.close()


def test_it_is_read_and_driven_without_a_mouse(seen: Seen) -> None:
    run = seen.server.start(drive="none")
    seen.open(f"/runs/{run}")
    seen.now_at("take")
    for role in ("banner", "main", "navigation", "toolbar"):
        assert seen.page.get_by_role(role).first.is_visible(), role
    name = seen.page.locator(".cl-picture").get_attribute("aria-label")
    assert name is not None
    assert "at take" in name
    step = seen.page.get_by_role("button", name="Step", exact=True)
    step.focus()
    seen.page.keyboard.press("s")
    seen.now_at("draft")
    assert step.evaluate("button => button === document.activeElement")
    expect_text(seen.page, seen.page.locator("#spoken"), f"Run {run}: ")
    seen.page.keyboard.press("r")
    seen.now_at("approve")
    expect_text(seen.page, seen.page.locator("#spoken"), "waits for someone at")
    seen.page.keyboard.press("a")
    assert seen.page.evaluate("document.activeElement.textContent") == "approve"
    seen.page.keyboard.press("Enter")
    seen.status("done")


def test_a_page_is_asked_for_a_token(chromium: Browser, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("drive a-token-of-23-letters-x\n")
    port = free_port()
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines" / "review.yaml").write_text(MACHINE)
    command = (
        sys.executable, "-m", "chartloop", "serve", "--machines", "machines", "--journal", "j.db",
        "--token-file", "tokens", "--port", str(port), "--workers", "0",
    )  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    context = chromium.new_context()
    try:
        tab = Tab(context)
        _reach(tab.page, f"http://127.0.0.1:{port}/machines")
        tab.page.get_by_label("Token", exact=True).last.fill("a-token-of-23-letters-x")
        tab.page.get_by_role("button", name="Go on").click()
        expect_text(tab.page, tab.page.locator("#link"), "^live$")
        expect_text(tab.page, tab.page.locator("main"), "review")
    finally:
        context.close()
        process.kill()
        process.wait(20)


def _reach(page: Page, url: str) -> None:
    """Open a page of a server that begins."""
    from playwright.sync_api import Error  # noqa: PLC0415

    end = time.monotonic() + 60
    while True:
        try:
            page.goto(url)
        except Error:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return
