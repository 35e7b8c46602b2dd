"""A picture that is opened by its own link: its styles apply, although the policy allows no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.conftest import REVIEW, Served, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

INSTALL = 'pip install -e ".[test-all]"'
pytestmark = [
    pytest.mark.slow("starts a server and a browser"),
    pytest.mark.extra("fastapi", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.extra("playwright", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.system("chromium", install="apt-get install chromium"),
    pytest.mark.system("dot", install="apt-get install graphviz"),
    pytest.mark.xdist_group("browser"),
]
FILL = "getComputedStyle(document.querySelector('svg > g > polygon, g text')).fill"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    from chartloop.hosting.server import Settings  # noqa: PLC0415

    (tmp_path / "machines").mkdir()
    text = REVIEW.replace("  draft: {", '  draft: {label: "A < B & C > D", ')
    (tmp_path / "machines" / "review.yaml").write_text(text)
    components: Any = {"script": ["First."]}
    settings = Settings(
        machines=(tmp_path / "machines",), journal=tmp_path / "j.db", components=components
    )
    with serving(settings) as started:
        yield started


def test_a_picture_is_dark_where_that_is_preferred(chromium: Browser, served: Served) -> None:
    run = served.start()
    served.until(run, "paused")
    base = str(served.client.base_url)
    fills: dict[str, str] = {}
    for scheme in ("light", "dark"):
        with chromium.new_context(color_scheme=scheme) as context:
            page = context.new_page()
            refused: list[str] = []
            page.on("console", lambda message, refused=refused: refused.append(message.text))
            page.goto(f"{base}/runs/{run}/picture?theme=auto")
            fills[scheme] = page.evaluate(FILL)
            assert refused == []
    assert fills["light"] != fills["dark"]
