"""A JupyterLab and a browser for each file of tests: nothing of them outlives it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.lab import Lab, Tab, browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("lab"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def page(chromium: Browser) -> Iterator[Tab]:
    """A page that several tests use."""
    context = chromium.new_context(viewport={"width": 1400, "height": 1100})
    yield Tab(context)
    context.close()


@pytest.fixture(autouse=True)
def quiet(page: Tab) -> Iterator[None]:
    """Every test comes to its end without an error in the page, and without a request outside."""
    yield
    assert page.outside == []
    assert page.errors == []
