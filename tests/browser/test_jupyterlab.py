"""Pictures in a real JupyterLab: in a notebook that is trusted, in one that is not, and while a run
is stepped.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.lab import NEEDS, Lab, Open, Tab, expect_text, notebook

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = NEEDS

STEPPING = Path(__file__).resolve().parents[2] / "examples" / "stepping.ipynb"
PICTURES = 4
"""The machine, the live one, and two runs as they stand."""
SAVED = PICTURES + 1
"""In a saved notebook the panel is a picture too, until a kernel runs."""


MACHINE = """
from chartloop import live, load
run = load('''
chartloop: 1
machine: small
states:
  look: {label: Look, do: nothing, next: work}
  work: {label: Work, do: nothing, next: done}
  done: {label: Done, stop: completed}
''').start()
live(run)
"""


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
    return [(re.split("[;,]", one["src"])[0], one["naturalWidth"]) for one in found]


def now(place: Locator) -> str:
    """The label of the box that is marked in the only picture of a place."""
    svg: str = place.locator("img").evaluate(
        """async image => {
            await image.decode();
            return await (await fetch(image.src)).text();
        }"""
    )
    marked = [part for part in svg.split("<g id=") if re.search(r"● NOW|✓ ", part)]
    assert len(marked) == 1
    return re.findall(r"<text[^>]*>([^<]+)</text>", marked[0])[0]


def test_an_untrusted_notebook_shows_all_its_pictures_and_no_svg_of_its_own(
    lab: Lab, page: Tab
) -> None:
    opened = Open(lab, page, lab.add("untrusted.ipynb", STEPPING, trusted=False))
    found = pictures(opened.page.locator(".jp-Notebook"))
    assert [form for form, _ in found].count("data:image/png") == 1
    assert len(found) == SAVED
    assert all(width > 200 for _, width in found)
    assert opened.page.locator(".jp-RenderedSVG").count() == 0
    expect_text(
        opened.page, opened.page.locator(".jp-Notebook table").first, "rule|looked at|record"
    )


def test_a_trusted_notebook_shows_them_as_svg(lab: Lab, page: Tab) -> None:
    opened = Open(lab, page, lab.add("trusted.ipynb", STEPPING, trusted=True))
    found = pictures(opened.page.locator(".jp-Notebook"))
    assert [form for form, _ in found] == ["data:image/svg+xml"] * SAVED
    assert all(width > 200 for _, width in found)
    assert opened.page.locator(".jp-RenderedSVG").count() == 1


@pytest.mark.parametrize("trusted", [True, False])
def test_the_picture_follows_each_step(lab: Lab, page: Tab, trusted: bool) -> None:
    name = f"live-{trusted}.ipynb"
    cells = notebook(MACHINE, "run.advance()", "run.advance()", "run.run()")
    opened = Open(lab, page, lab.add(name, cells, trusted=trusted))
    opened.wait_for_kernel()
    opened.run(0)
    seen = [now(opened.output(0))]
    for cell in (1, 2, 3):
        opened.run(cell)
        seen.append(now(opened.output(0)))
    assert seen == ["Look", "Look", "Work", "Done"]


def test_a_live_picture_goes_by_the_theme_of_the_notebook(lab: Lab, page: Tab) -> None:
    opened = Open(lab, page, lab.add("dark.ipynb", notebook(MACHINE), trusted=True))
    opened.wait_for_kernel()
    opened.run(0)
    found = opened.output(0).locator("img")
    scheme = "image => getComputedStyle(image).colorScheme"
    assert found.evaluate(scheme) == "light"
    opened.page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    assert found.evaluate(scheme) == "dark"


def test_the_whole_notebook_runs_in_the_browser(lab: Lab, page: Tab) -> None:
    opened = Open(lab, page, lab.add("whole.ipynb", STEPPING, trusted=False))
    opened.wait_for_kernel()
    opened.run_all()
    opened.page.locator(".cl-panel .cl-picture svg").wait_for()
    assert opened.page.locator(".jp-RenderedText[data-mime-type*=error]").count() == 0
    found = pictures(opened.page.locator(".jp-Notebook"))
    assert len(found) == PICTURES
    assert all(width > 200 for _, width in found)
