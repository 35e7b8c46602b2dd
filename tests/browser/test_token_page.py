"""The token that a server wants, given in a browser: also in one that may keep no site data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.lab import expect_text
from tests.browser.test_run_page import pytestmark, refused
from tests.server.conftest import REVIEW, Served, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["pytestmark", "refused"]
SECRET = "edit-me-0123456789"
BLOCKED = """for (const name of ["localStorage", "sessionStorage"])
  Object.defineProperty(window, name, { get() { throw new DOMException("blocked", "SecurityError"); } });
"""
"""What a browser does that is told to block all site data."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    from chartloop.hosting.server import Settings, Token  # noqa: PLC0415

    (tmp_path / "review.yaml").write_text(REVIEW)
    settings = Settings(
        machines=(tmp_path,), journal=tmp_path / "journal.db", tokens=(Token(SECRET, "edit"),),
        components={"script": ["First."]},
    )  # fmt: skip
    with serving(settings) as started:
        started.client.headers["Authorization"] = f"Bearer {SECRET}"
        yield started


@pytest.mark.parametrize("blocked", [False, True])
def test_a_token_is_asked_for_once(served: Served, chromium: Browser, blocked: bool) -> None:
    run = served.start(task="Guarded.")
    served.until(run, "paused")
    context = chromium.new_context()
    errors: list[str] = []
    if blocked:
        context.add_init_script(BLOCKED)
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{served.client.base_url}/runs")
    given = page.get_by_label("Token", exact=True).last
    for secret, said in (("no-such-token-0123456789", "does not accept"), (SECRET, "")):
        given.fill(secret)
        given.press("Enter")
        if said:
            page.get_by_text(said).wait_for()
    page.locator(".runs tbody tr", has_text="Guarded.").wait_for()
    expect_text(page, page.locator("#link"), "^live$")
    page.get_by_role("link", name="Guarded.").click()
    expect_text(page, page.locator(".title .cl-status"), "^waits for someone$")
    page.get_by_role("button", name="approve", exact=True).click()
    expect_text(page, page.locator(".title .cl-status"), "^done$")
    page.locator("#theme").click()
    assert page.locator("html").get_attribute("class") in ("dark", "light")
    assert errors == []
    context.close()
