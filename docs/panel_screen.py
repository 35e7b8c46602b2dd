"""Takes the picture of `docs/panel.md` anew: the panel of the notebook's shop, in JupyterLab.

    python docs/panel_screen.py [FILE]           # by default docs/pictures/panel.png

It drives a real JupyterLab with Chromium, as the tests of `tests/browser` do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NOTEBOOK = ROOT / "examples" / "stepping.ipynb"
PICTURE = HERE / "pictures" / "panel.png"
WIDE, HIGH = 1_552, 1_600
"""The window of the browser; beside the notebook stands the list of files."""

sys.path.insert(0, str(ROOT))  # its tests know how a JupyterLab is driven


def source() -> str:
    """What the first cell runs: the shop of the example, its replies, and a panel of a new run."""
    found = list(cells())
    (shop,) = [cell for cell in found if cell.startswith("from chartloop import")]
    (replies,) = [cell for cell in found if cell.startswith("REPLIES")]
    (panel,) = [cell for cell in found if cell.endswith("panel(again)")]
    return "\n\n".join([shop, replies.partition("\nrun = ")[0], panel])


def cells() -> Iterator[str]:
    """The code of the notebook, cell by cell."""
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"]).strip()


def take(path: Path) -> None:
    """Run the shop to its question, and take the panel."""
    from tests.browser.lab import Lab, Open, Tab, browser, expect_text, notebook  # noqa: PLC0415

    with TemporaryDirectory() as home, browser() as chromium:
        lab = Lab(Path(home))
        try:
            tab = Tab(chromium.new_context(viewport={"width": WIDE, "height": HIGH}))
            opened = Open(lab, tab, lab.add("shop.ipynb", notebook(source()), trusted=False))
            opened.wait_for_kernel()
            opened.run(0)
            panel = opened.page.locator(".cl-panel")
            panel.locator(".cl-picture svg").wait_for()
            panel.get_by_role("button", name="Run", exact=True).click()
            expect_text(opened.page, panel.locator(".cl-status"), "^paused$")
            expect_text(opened.page, panel.locator(".cl-busy"), "^$")
            panel.locator(".cl-asks button").first.wait_for()
            opened.page.mouse.move(0, 0)
            panel.screenshot(path=path, animations="disabled")
        finally:
            lab.stop()


def main() -> None:
    """Take it."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    take(path)
    print(path)


if __name__ == "__main__":
    main()
