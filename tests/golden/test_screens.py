"""The screens of the pages: each is there, shows what it is for, and asks nobody for anything."""

from __future__ import annotations

import html
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT: dict[str, Any] = runpy.run_path(str(DOCS / "screens.py"))


def shown(svg: str) -> str:
    """The words of a screen."""
    return html.unescape(re.sub(r"<[^>]+>", "", svg)).replace("\xa0", " ")


@pytest.mark.parametrize("shot", SCRIPT["SHOTS"], ids=lambda shot: shot.name)
def test_the_committed_screen_shows_what_the_page_says(shot: Any) -> None:
    svg = (DOCS / "pictures" / f"{shot.name}.svg").read_text("utf-8")
    assert shot.shows in shown(svg)
    assert f"pictures/{shot.name}.svg" in (DOCS / "stepping.md").read_text("utf-8")
    assert "@font-face" not in svg
    assert "<script" not in svg


@pytest.mark.slow("draws the screens again")
@pytest.mark.extra("textual", install='pip install -e ".[tui]"')  # noqa: S610 - no Django
def test_the_script_draws_them() -> None:
    drawn = dict(SCRIPT["screens"]())
    for shot in SCRIPT["SHOTS"]:
        assert shot.shows in shown(drawn[shot.name])


def test_the_panel_is_taken_of_the_notebook_s_shop() -> None:
    """A browser takes it; here is what it would run, up to the panel."""
    script = runpy.run_path(str(DOCS / "panel_screen.py"))
    shop, _, panel = script["source"]().rpartition("\n")
    assert panel == "panel(again)"
    names: dict[str, Any] = {}
    exec(shop, names)  # noqa: S102 - the notebook that ships
    assert names["again"].run().status == "paused"
    assert script["PICTURE"].read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow("needs the library that asks the server")
@pytest.mark.extra("httpx", install='pip install -e ".[test-all]"')  # noqa: S610 - no Django
def test_the_run_page_is_taken_of_the_server_that_the_docs_start() -> None:
    """A browser takes it; here is what it would open."""
    script = runpy.run_path(str(DOCS / "run_page_screen.py"))
    page = (DOCS / "server.md").read_text("utf-8")
    folder = script["EXAMPLE"].relative_to(script["ROOT"]).as_posix()
    assert (
        f"serve --machines {folder} --tools {folder}/tools.py --script {folder}/replies.yaml"
        in page
    )
    assert script["TASK"] in page
    assert script["PICTURE"].read_bytes().startswith(b"\x89PNG")


def test_the_comment_on_consent_is_taken_of_the_page_s_files() -> None:
    """A browser takes it; here is what it would run."""
    script = runpy.run_path(str(DOCS / "consent_screen.py"))
    assert list(script["files"]()) == ["refunds.yaml", "shop.py", "r49.yaml", "r250.yaml"]
    assert [line.split()[0] for line in script["commands"]()] == ["chartloop", "chartloop", "sed"]
    assert f"pictures/{script['PICTURE'].name}" in script["PAGE"].read_text("utf-8")
    assert script["PICTURE"].read_bytes().startswith(b"\x89PNG")
