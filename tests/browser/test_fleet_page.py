"""The page of the fleet, as an operator uses it at three in the morning."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from chartloop.adapters.journal.opening import journal_of
from chartloop.run.sync import by_hand
from tests.browser.lab import SLOW, Tab, expect_text
from tests.browser.test_every_screen import BROKEN, CONTRAST, NODE, SMALL, WIDE
from tests.browser.test_run_page import Seen, Server, pytestmark
from tests.fleet_journal import FACTS, TENANT, Fact, seed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

__all__ = ["pytestmark"]
EVERY, OWN = "every-0123456789ab", "tenant-0123456789a"


class FleetServer(Server):
    """A server over the seeded fleet, which drives nothing."""

    files: ClassVar[dict[str, str]] = {
        "script.yaml": "replies: []\n", "tokens": f"edit {EVERY} op tenant=*\nedit {OWN} eve tenant={TENANT}\n",
    }  # fmt: skip
    options = ("--workers", "0", "--token-file", "tokens")

    def begin(self) -> None:
        if not (self.folder / "journal.db").exists():
            self.seeded = seed(self.folder, size=self.size)
        super().begin()

    size = 1


class LargeFleet(FleetServer):
    """One with 500 runs, of which 80 are parked."""

    size = 10


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetServer]:
    """Nobody changes it."""
    started = FleetServer(tmp_path_factory.mktemp("looked_at"))
    yield started
    started.kill(signal.SIGTERM)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetServer]:
    started = FleetServer(tmp_path)
    yield started
    started.kill(signal.SIGTERM)


def opened(chromium: Browser, server: FleetServer, token: str = EVERY, **more: Any) -> Seen:
    """The page for a token, once it shows the fleet."""
    options: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, **more}
    context = chromium.new_context(**options)
    seen = Seen(Tab(context), server)
    seen.page.add_init_script(f"sessionStorage.setItem('chartloop-token', '{token}')")
    seen.open("/fleet")
    seen.page.locator("[data-part=limits] .inside > *").first.wait_for()
    return seen


@pytest.fixture(scope="module")
def shown(chromium: Browser, looked_at: FleetServer) -> Seen:
    return opened(chromium, looked_at)


def section(seen: Seen, name: str) -> Locator:
    """A section, or what stands above them."""
    return seen.page.locator(
        f".{name}" if name in ("figures", "troubles") else f"[data-part={name}]"
    )


def row(seen: Seen, part: str, name: str) -> Locator:
    """A row of a section, by what its head says."""
    head = seen.page.locator("th[scope=row]", has_text=re.compile(rf"^{re.escape(name)}"))
    return section(seen, part).locator("tbody tr", has=head)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.name)
def test_the_page_shows_what_the_view_tells(shown: Seen, fact: Fact) -> None:
    part, pattern = fact.shown.split(": ", 1)
    said = section(shown, part).inner_text()
    assert re.search(pattern, re.sub(r"[ \t]+", " ", said)), said


def test_a_tenant_sees_its_own_and_no_worker(chromium: Browser, looked_at: FleetServer) -> None:
    seen = opened(chromium, looked_at, OWN)
    said = seen.page.locator(".fleet").inner_text()
    for word in ("east", "west", "example.org", "morning", "writer", "archive", "scan", "worker\n"):
        assert word not in said
    assert f"{TENANT}:poison-1" in said
    assert f"tenant:{TENANT}" in said
    assert not section(seen, "workers").is_visible()
    assert section(seen, "limits").get_by_role("button").count() == 0
    assert seen.tab.errors == []


def test_every_parked_run_is_taken_up_also_those_that_are_not_listed(
    chromium: Browser, tmp_path: Path
) -> None:
    server = LargeFleet(tmp_path)
    seen = opened(chromium, server)
    assert section(seen, "parked").locator("tbody tr").count() == 50
    seen.press("Take up all 80…")
    dialog = seen.page.get_by_role("dialog")
    assert "and 68 more" in dialog.inner_text()
    seen.press("Take up 80 runs", dialog)
    section(seen, "parked").wait_for(state="hidden", timeout=SLOW)
    journal = journal_of(tmp_path / "journal.db")
    assert by_hand(journal.backlog()).parked == []
    by_hand(journal.close())
    assert seen.tab.errors == []
    server.kill(signal.SIGTERM)


def test_ticked_runs_are_cancelled_and_the_others_stay(
    chromium: Browser, fleet: FleetServer
) -> None:
    seen = opened(chromium, fleet)
    for run in ("poison-1", "poison-3"):
        seen.page.get_by_label(f"Tick run {run}", exact=True).check()
    seen.press("Cancel 2…")
    dialog = seen.page.get_by_role("dialog")
    assert "for good" in dialog.inner_text()
    seen.press("Cancel 2 runs", dialog)
    dialog.wait_for(state="hidden", timeout=SLOW)
    assert not seen.page.locator("#notice").is_visible()
    journal = journal_of(fleet.folder / "journal.db")
    told = {run: len(by_hand(journal.inbox(run))) for run in fleet.seeded.parked}
    by_hand(journal.close())
    assert {run for run, messages in told.items() if messages} == {"poison-1", "poison-3"}


def test_a_schedule_is_paused_by_a_press_and_all_of_them_after_a_question(
    chromium: Browser, fleet: FleetServer
) -> None:
    seen = opened(chromium, fleet)
    seen.press("Pause morning")
    expect_text(
        seen.page, row(seen, "schedules", "morning").locator(".cl-status").first, "^paused$"
    )
    assert seen.page.evaluate("document.activeElement.tagName") != "INPUT"
    seen.press("Resume morning")
    seen.page.get_by_role("button", name="Pause morning", exact=True).wait_for()
    seen.press("Pause all 4…")
    seen.press("Pause 4 schedules", seen.page.get_by_role("dialog"))
    seen.page.get_by_role("button", name="Resume poll", exact=True).wait_for()
    seen.press("Remove poll")
    seen.press("Remove poll", seen.page.get_by_role("dialog"))
    row(seen, "schedules", "poll").wait_for(state="detached", timeout=SLOW)
    journal = journal_of(fleet.folder / "journal.db")
    assert {one.name: one.paused for one in by_hand(journal.cron_schedules())} == dict.fromkeys(
        (f"{TENANT}-report", "late", "morning", "weekly"), True
    )
    by_hand(journal.close())


def test_limits_are_set_changed_removed_and_settled(chromium: Browser, fleet: FleetServer) -> None:
    seen = opened(chromium, fleet)
    dialog = seen.page.get_by_role("dialog")
    seen.press("Change fleet: cost per day")
    dialog.get_by_label("the most").fill("90")
    seen.press("Change the limit", dialog)
    expect_text(seen.page, row(seen, "limits", "fleet").locator("[data-label=most]"), r"^\$90\.00$")
    seen.press("Set a limit…")
    dialog.get_by_label("for", exact=True).fill("agent:nobody")
    dialog.locator("[name=what]").select_option("tokens")
    dialog.get_by_label("the most").fill("500")
    seen.press("Set a limit", dialog)
    row(seen, "limits", "agent:nobody").wait_for(timeout=SLOW)
    seen.press("Remove agent:nobody: tokens per day")
    seen.press("Remove agent:nobody: tokens per day", dialog)
    row(seen, "limits", "agent:nobody").wait_for(state="detached", timeout=SLOW)
    seen.press("Settle the call paid-1/go/1")
    dialog.get_by_label("cost in USD").fill("0.25")
    seen.press("Settle the call", dialog)
    seen.page.locator(".doubts").wait_for(state="detached", timeout=SLOW)
    expect_text(seen.page, row(seen, "limits", "fleet").locator("[data-label=used]"), r"^\$31\.50$")
    seen.press("Set a limit…")
    dialog.get_by_label("for", exact=True).fill("everybody")
    dialog.get_by_label("the most").fill("1")
    seen.press("Set a limit", dialog)
    seen.page.locator("#notice", has_text="/scope").wait_for()
    assert seen.tab.errors == []


def test_news_keep_the_focus_what_is_ticked_and_what_is_open(
    chromium: Browser, fleet: FleetServer
) -> None:
    seen = opened(chromium, fleet)
    seen.page.get_by_label("Tick run poison-1", exact=True).check()
    section(seen, "workers").locator("summary").first.click()
    seen.page.get_by_label("Tick run poison-2", exact=True).focus()
    journal = journal_of(fleet.folder / "journal.db")
    by_hand(journal.enqueue("poison-6"))
    by_hand(journal.close())
    row(seen, "parked", "poison-6").wait_for(state="detached", timeout=SLOW)
    assert (
        seen.page.evaluate("document.activeElement.getAttribute('aria-label')")
        == "Tick run poison-2"
    )
    assert seen.page.get_by_label("Tick run poison-1", exact=True).is_checked()
    assert section(seen, "workers").locator("details").first.get_attribute("open") is not None
    assert "Take up 1…" in section(seen, "parked").inner_text()
    seen.page.keyboard.press("1")
    seen.page.wait_for_function("() => location.pathname === '/runs'")
    seen.page.keyboard.press("4")
    seen.page.wait_for_function("() => location.pathname === '/fleet'")
    assert seen.page.locator("header nav a[aria-current]").inner_text() == "Fleet"


@pytest.mark.parametrize("token", [EVERY, OWN], ids=["every", "tenant"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_and_fits(
    chromium: Browser, looked_at: FleetServer, scheme: Any, width: int, token: str
) -> None:
    phone = width < 600
    seen = opened(
        chromium, looked_at, token, viewport={"width": width, "height": 844}, color_scheme=scheme,
        has_touch=phone, is_mobile=phone,
    )  # fmt: skip
    assert seen.page.evaluate(CONTRAST) == []
    assert seen.page.evaluate(WIDE) == []
    assert not phone or seen.page.evaluate(SMALL) == []
    assert seen.fits()


@pytest.mark.node("axe-core")
@pytest.mark.parametrize("width", [1280, 390])
def test_no_rule_of_accessibility_is_broken(
    chromium: Browser, looked_at: FleetServer, width: int
) -> None:
    axe = (NODE / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
    viewport = {"width": width, "height": 844}
    seen = opened(chromium, looked_at, viewport=viewport, bypass_csp=True)
    seen.page.evaluate(f"() => {{ {axe} }}")
    assert seen.page.evaluate(BROKEN) == []


def test_a_worker_that_is_late_is_red(chromium: Browser, fleet: FleetServer) -> None:
    journal = journal_of(fleet.folder / "journal.db")
    late, *_ = by_hand(journal.backlog()).workers
    by_hand(journal.keep(late, ttl=0.5))
    by_hand(journal.close())
    seen = opened(chromium, fleet)
    lease = row(seen, "workers", late.id).locator("[data-until].late")
    expect_text(seen.page, lease, r"late$")
    assert "2 workers" in section(seen, "figures").inner_text()
