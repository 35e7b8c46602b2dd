"""The keys of the page and of the full screen are those that their pages of docs/ name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "engine/chartloop/hosting/server/page/app.js"


def table_of(page: str, head: str) -> set[str]:
    """The keys in the first column of the table under a head line."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    rows = text[text.index(head) :].split("\n\n", 1)[0].splitlines()[2:]
    cells = (row.split("|")[1] for row in rows)
    return {key for cell in cells for key in re.findall(r"[^\s,`]+", cell)} - {"or", "to"}


def test_the_page_and_its_help_name_the_same_keys() -> None:
    listed = re.search(r"const KEYS = \[\n(.*?)\n\];", PAGE.read_text("utf-8"), re.DOTALL)
    assert listed is not None
    rows = re.findall(r'^  \["([^"]+)", "', listed.group(1), re.MULTILINE)
    assert {key for row in rows for key in row.split()} == table_of("run-page.md", "| key | what |")


@pytest.mark.extra("textual", install='pip install -e ".[tui]"')  # noqa: S610 - no Django
def test_the_full_screen_and_its_help_name_the_same_keys() -> None:
    from chartloop.ui.tui.app import KEYS  # noqa: PLC0415 - an extra

    names = {"colon": ":", "question_mark": "?", "ctrl+c": "Ctrl-C", "space": "Space",
             "enter": "Enter"}  # fmt: skip
    own = {names.get(key, key) for one in KEYS for key in one.keys.split(",")}
    documented = table_of("stepping.md", "| key | does |")
    pages = {str(number) for number in range(1, 7)}
    assert documented | pages == (own - {"slash", "f1"}) | {"1", "6"}
