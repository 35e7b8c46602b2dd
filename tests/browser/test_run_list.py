"""The list of runs, as somebody uses it who watches forty of them."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from chartloop.core.phase import PHASES
from tests.browser.lab import SLOW, Tab, expect_pressable, expect_text
from tests.browser.population import Populated
from tests.browser.test_run_page import Seen, pytestmark, refused

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

__all__ = ["pytestmark", "refused"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Populated]:
    started = Populated(tmp_path_factory.mktemp("served"))
    yield started
    started.kill(signal.SIGTERM)


@pytest.fixture
def seen(page: Tab, server: Populated) -> Seen:
    return Seen(page, server)


def row(seen: Seen, run: str) -> Locator:
    """The row of a run."""
    return seen.page.locator(".runs tbody tr", has=seen.page.locator(f'a[href="/runs/{run}"]'))


def listed(seen: Seen) -> list[str]:
    """The ids of the runs that are shown, from the top."""
    links = seen.page.locator(".runs tbody a").all()
    return [(link.get_attribute("href") or "").removeprefix("/runs/") for link in links]


def wait_for_rows(seen: Seen, number: int) -> None:
    """Wait until that many runs are shown."""
    seen.page.wait_for_function(
        "number => document.querySelectorAll('.runs tbody tr').length === number",
        arg=number, timeout=SLOW,
    )  # fmt: skip


def test_a_row_says_what_was_asked_and_what_came_of_it(seen: Seen) -> None:
    seen.open("/runs")
    row(seen, "fails").wait_for()
    for run, task, phase, said in (
        ("fails", "Fail, please.", "failed", "503 Service Unavailable"),
        ("loops", "Keep adding one for ever.", "stopped by a limit", "12 against 12"),
        ("sum-1", "What is 2 + 1?", "done", r"2 \+ 1 is 3"),
        ("stopped", "What is 7 + 7?", "stopped by a person", "wrong question"),
        ("ticket-0", "Ticket 0: my parcel is late.", "waits for someone", "Send this"),
    ):
        cells = row(seen, run)
        assert cells.locator(".task a").inner_text() == task
        assert cells.locator(".task .id").inner_text() == run
        assert cells.locator(".cl-status").inner_text() == phase
        assert re.search(said, cells.locator(".reason").inner_text())
        assert "end-" not in cells.inner_text()


def test_page_terminal_and_program_read_the_same_phase(seen: Seen) -> None:
    told = {one["run"]: one["phase"] for one in seen.server.ask("/runs")["runs"]}
    assert {"done", "failed", "limited", "stopped", "waiting"} <= {*told.values()}
    seen.open("/runs")
    row(seen, "fails").wait_for()
    for run, phase in told.items():
        chip = row(seen, run).locator(".cl-status")
        shown = [chip.get_attribute(f"data-{name}") for name in ("phase", "sign", "colour")]
        assert shown == [phase, PHASES[phase].sign, PHASES[phase].colour]
        assert seen.server.ask(f"/runs/{run}")["phase"] == phase


def test_heads_sort_and_the_link_keeps_the_order(seen: Seen) -> None:
    seen.open("/runs")
    steps = seen.page.get_by_role("columnheader", name="steps")
    steps.get_by_role("button").click()
    seen.page.wait_for_function(
        "() => document.querySelector('.runs tbody a')?.pathname === '/runs/long'"
    )
    assert steps.get_attribute("aria-sort") == "descending"
    assert "sort=steps" in seen.page.url
    steps.get_by_role("button").click()
    seen.page.wait_for_function(
        "() => document.querySelector('.runs tbody a')?.pathname !== '/runs/long'"
    )
    assert steps.get_attribute("aria-sort") == "ascending"
    link = seen.page.url
    seen.open(link.removeprefix(seen.server.address))
    row(seen, "fails").wait_for()
    numbers = [int(one.inner_text()) for one in seen.page.locator("td.steps").all()]
    assert numbers == sorted(numbers)


def test_words_of_a_task_find_it_and_the_link_keeps_them(seen: Seen) -> None:
    seen.open("/runs")
    row(seen, "fails").wait_for()
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("PARCEL")
    wait_for_rows(seen, 3)
    assert sorted(listed(seen)) == ["ticket-0", "ticket-1", "ticket-2"]
    assert "search=PARCEL" in seen.page.url
    seen.open("/runs?search=parcel&phase=failed")
    seen.page.get_by_text("No run is like this.").wait_for()
    seen.open("/runs?phase=stopped&search=7")
    wait_for_rows(seen, 1)
    assert listed(seen) == ["stopped"]


def test_a_run_that_was_searched_is_opened_by_the_first_press(seen: Seen) -> None:
    seen.open("/runs")
    row(seen, "fails").wait_for()
    seen.page.get_by_label("Search").fill("parcel is late")
    wait_for_rows(seen, 3)
    seen.page.locator(".runs tbody a").first.click()  # leaves the field, which changed
    seen.page.wait_for_function("() => location.pathname.startsWith('/runs/ticket-')")


def test_a_period_is_a_link_and_a_span_of_the_bar_narrows_it(seen: Seen) -> None:
    seen.open("/runs?period=24h")
    row(seen, "fails").wait_for()
    every = len(listed(seen))
    spans = seen.page.locator(".spans button:not([disabled])")
    spans.first.wait_for()
    assert "failed" in " ".join(one.get_attribute("title") or "" for one in spans.all())
    spans.last.click()
    seen.page.wait_for_function("() => location.search.includes('since=')")
    wait_for_rows(seen, every)
    seen.page.get_by_label("started").select_option("between")
    assert seen.page.get_by_label("From", exact=True).is_visible()
    seen.open("/runs?until=1000")
    seen.page.get_by_text("No run is like this.").wait_for()


def test_the_words_below_the_bar_count_and_narrow_what_it_shows(seen: Seen) -> None:
    seen.open("/runs")
    row(seen, "fails").wait_for()
    every, failed = len(listed(seen)), seen.page.locator(".legend button", has_text="failed")
    number = int(failed.inner_text().split()[-1])
    assert 0 < number < every
    failed.click()
    wait_for_rows(seen, number)
    assert "phase=failed" in seen.page.url
    expect_text(seen.page, seen.page.locator(".legend"), rf"^{number} began in .*failed {number}$")
    assert failed.get_attribute("aria-pressed") == "true"
    seen.page.wait_for_function("() => document.activeElement.textContent.startsWith('failed')")
    seen.page.keyboard.press("Enter")
    wait_for_rows(seen, every)
    assert "phase" not in seen.page.url
    seen.page.set_viewport_size({"width": 1400, "height": 500})
    scrolled = seen.page.evaluate("() => { scrollTo(0, 400); return scrollY; }")
    run = seen.server.start("calculator", task="One more", drive="none")
    expect_text(seen.page, seen.page.locator(".legend"), rf"^{every + 1} began ")
    assert seen.page.evaluate("scrollY") >= scrolled == 400
    assert "failed" in seen.page.evaluate("document.activeElement.textContent")
    seen.server.ask(f"/runs/{run}/cancel", {})
    seen.page.set_viewport_size({"width": 1400, "height": 1100})


def test_keys_go_through_the_list_also_from_a_box(seen: Seen) -> None:
    seen.open("/runs")
    row(seen, "fails").wait_for()
    first, second = listed(seen)[:2]
    press = seen.page.keyboard.press
    press("j")
    press("x")
    assert row(seen, first).locator("input").is_checked()
    row(seen, first).locator("input").focus()
    press("j")
    press("x")
    assert row(seen, second).locator("input").is_checked()
    press("k")
    press("?")
    expect_text(seen.page, seen.page.locator("dialog"), "tick")
    press("Escape")
    press("Enter")
    seen.page.wait_for_url(f"**/runs/{first}")


def test_several_are_cancelled_after_it_is_said_how_many(seen: Seen) -> None:
    runs = [seen.server.start("triage", task=f"Leave it {n}", drive="none") for n in range(2)]
    seen.open("/runs?search=leave+it")
    wait_for_rows(seen, 2)
    cancel = seen.page.get_by_role("button", name="Cancel…")
    assert cancel.get_attribute("aria-disabled") == "true"
    seen.page.get_by_label("Tick every run that is shown").check()
    seen.press("Cancel 2…")
    dialog = seen.page.locator("dialog")
    expect_text(seen.page, dialog, "Cancel 2 runs.*Leave it 0|Cancel 2 runs.*Leave it 1")
    seen.press("Close", dialog)
    assert [seen.server.ask(f"/runs/{run}")["ended"] for run in runs] == [False, False]
    seen.press("Cancel 2…")
    seen.press("Cancel 2 runs", dialog)
    for run in runs:
        expect_text(seen.page, row(seen, run).locator(".cl-status"), "stopped by a person")


def test_a_failed_run_is_tried_again_after_its_calls_are_counted(seen: Seen) -> None:
    seen.open("/runs?search=fail")
    wait_for_rows(seen, 1)
    row(seen, "fails").locator("input").check()
    seen.press("Try 1 again…")
    dialog = seen.page.locator("dialog")
    expect_text(seen.page, dialog, "1 paid call is made again")
    before = len(seen.server.ask("/runs?search=fail")["runs"])
    seen.press("Try 1 run again", dialog)
    wait_for_rows(seen, before + 1)
    assert row(seen, "fails").locator(".cl-status").inner_text() == "went on as another run"


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_and_numbers_stand_under_their_heads(
    chromium: Browser, server: Populated, width: int
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.goto(f"{server.address}/runs")
    page.locator(".runs tbody tr").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if width > 390:
        for name in ("steps", "took"):
            ends = page.evaluate(
                """name => ['th.number', `td.${name}`].map(what => [...document.querySelectorAll(what)]
                   .find(one => one.tagName === 'TD' || one.textContent.startsWith(name)))
                   .map(one => getComputedStyle(one).textAlign)""",
                name,
            )
            assert ends == ["right", "right"]
    context.close()


def test_an_answer_of_the_inbox_drives_on_a_run_that_nobody_drives(seen: Seen) -> None:
    seen.open("/inbox")
    card = seen.page.get_by_role("listitem", name="Question of run buy-0")
    card.locator("button.asks").click()
    card.get_by_role("button", name="accept", exact=True).click()
    expect_text(seen.page, card, "Answered")
    for _ in range(200):
        if seen.server.ask("/runs/buy-0")["state"] == "think":  # behind the call
            return
        seen.page.wait_for_timeout(100)
    raise AssertionError("nobody drives it")


def test_a_tab_says_how_its_run_stands_and_what_it_is_about(seen: Seen) -> None:
    titles = ("fails", "✗ Fail, please."), ("buy-2", "? How fast does demand for metal 2 rise?")
    for run, title in titles:
        seen.open(f"/runs/{run}")
        seen.page.wait_for_function(
            "title => document.title === title", arg=f"{title} · chartloop", timeout=SLOW
        )


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_clock_that_is_wrong_here_moves_no_deadline(
    seen: Seen, chromium: Browser, hours: int
) -> None:
    context = chromium.new_context()
    context.add_init_script(f"const real = Date.now; Date.now = () => real() + {hours} * 3600e3")
    page = context.new_page()
    page.goto(f"{seen.server.address}/runs?search=ticket-1")
    late = page.locator(".runs tbody tr", has_text="ticket-1")
    expect_text(page, late.locator(".due"), r"^1 h \d+ min left$")
    expect_text(page, late.locator(".begun"), r"^(now|\d+ s ago|[1-5] min.* ago)$")
    page.goto(f"{seen.server.address}/runs/ticket-1")
    expect_text(page, page.locator(".question .due"), r"^1 h \d+ min left$")
    expect_pressable(page.locator(".question .cl-tone").first, True)
    context.close()


def test_ten_tabs_of_a_browser_show_their_pages_and_hear_news(seen: Seen) -> None:
    tabs = [seen.page, *(seen.page.context.new_page() for _ in range(9))]
    for tab in tabs:
        tab.goto(f"{seen.server.address}/runs?search=eleven")
        tab.locator("h1", has_text="Runs").wait_for()
    asking, live = r"^every 3 s$", "^live$"

    def hear(*has_stream: Page) -> None:
        for tab in tabs:
            expect_text(tab, tab.locator("#link"), live if tab in has_stream else asking)

    hear(*tabs[6:])
    run = seen.server.ask("/runs", {"machine": "calculator", "task": "eleven", "drive": "none"})
    for tab in tabs:
        tab.locator(f'.runs a[href="/runs/{run["run"]}"]').wait_for()
    assert seen.server.ask(f"/runs/{run['run']}/cancel", {})["run"] == run["run"]
    tabs[0].evaluate("dispatchEvent(new Event('focus'))")
    hear(tabs[0], *tabs[7:])
    for tab in tabs[7:]:
        tab.goto("about:blank")
    del tabs[7:]
    hear(tabs[0], *tabs[4:])
    for tab in tabs[1:]:
        tab.close()


def test_the_way_back_leads_to_where_the_list_was_left(seen: Seen) -> None:
    page = seen.page
    for number in range(70):
        body = {"machine": "calculator", "task": f"dozen {number}", "drive": "none"}
        seen.server.ask("/runs", body)
    seen.open("/runs?search=dozen")
    page.get_by_role("button", name="More runs").click()
    wait_for_rows(seen, 70)
    link = page.locator(".runs .task a", has_text="dozen 3").last
    link.scroll_into_view_if_needed()
    scrolled = page.evaluate("scrollY")
    assert scrolled > 1_000
    for leave in (link.click, lambda: page.keyboard.press("Enter")):
        leave()
        expect_text(page, page.locator("p.task"), "^dozen 3$")
        assert page.evaluate("scrollY") < 100
        page.go_back()
        wait_for_rows(seen, 70)
        page.wait_for_function(
            "() => document.activeElement.textContent === 'dozen 3'", timeout=SLOW
        )
        assert abs(page.evaluate("scrollY") - scrolled) < 50
    page.reload()
    wait_for_rows(seen, 70)
    page.wait_for_function("scrolled => Math.abs(scrollY - scrolled) < 50", arg=scrolled)


def test_a_list_that_stays_open_keeps_the_newest_runs(seen: Seen) -> None:
    seen.open("/runs?search=baker")
    seen.page.get_by_text("No run is like this.").wait_for()
    for number in range(320):
        body = {"machine": "calculator", "task": f"baker {number}", "drive": "none"}
        seen.server.ask("/runs", body)
        if number % 20 == 19:
            seen.page.locator(".runs .task a", has_text=f"baker {number}").first.wait_for()
    assert 50 <= len(listed(seen)) <= 300
    seen.page.get_by_role("button", name="More runs").click()
    seen.page.locator(".runs .task a", has_text="baker 200").wait_for()
    tasks = seen.page.locator(".runs .task a").all_inner_texts()
    assert tasks == [f"baker {319 - place}" for place in range(len(tasks))]
