"""Pictures in a real JupyterLab: in a notebook that is trusted, in one that is not, and while a run
is stepped.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.browser.lab import NEEDS, Lab, Open, Tab

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = NEEDS

STEPPING = Path(__file__).resolve().parents[2] / "examples" / "stepping.ipynb"


def pictures(place: Locator) -> list[tuple[str, int]]:
    """The pictures that are seen at a place: their format, and their width in pixels.

    An image without a width is one that the browser could not draw.
    """
    place.locator("img").first.wait_for()
    found: list[dict[str, Any]] = place.locator("img").evaluate_all(
        """async images => {
            await Promise.all(images.map(image => image.decode()));
            return images.map(({ src, naturalWidth }) => ({ src, naturalWidth }));
        }"""
    )
    return [(one["src"].split(";")[0].split(",")[0], one["naturalWidth"]) for one in found]


def test_an_untrusted_notebook_shows_its_pictures_as_png(lab: Lab, page: Tab) -> None:
    opened = Open(lab, page, lab.add("untrusted.ipynb", STEPPING, trusted=False))
    found = pictures(opened.page.locator(".jp-Notebook"))
    assert {form for form, _ in found} == {"data:image/png"}
    assert all(width > 200 for _, width in found)
    assert opened.page.locator(".jp-RenderedSVG").count() == 0


def test_a_trusted_notebook_shows_them_as_svg(lab: Lab, page: Tab) -> None:
    opened = Open(lab, page, lab.add("trusted.ipynb", STEPPING, trusted=True))
    found = pictures(opened.page.locator(".jp-Notebook"))
    assert {form for form, _ in found} == {"data:image/svg+xml"}
    assert all(width > 200 for _, width in found)
