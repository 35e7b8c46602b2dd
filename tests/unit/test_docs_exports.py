"""The program in JavaScript on the page about exports prints what the page says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from chartloop.api import load
from chartloop.interchange.xstate import to_xstate
from tests.exporting import NODE
from tests.unit.test_docs_examples import ROOT, blocks


@pytest.mark.node("xstate")
def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    page = list(blocks(ROOT / "docs" / "exports.md"))
    (place,) = [n for n, block in enumerate(page) if block.title == "drive.mjs"]
    (tmp_path / "drive.mjs").write_text(page[place].text, "utf-8")
    (tmp_path / "agent.json").write_text(to_xstate(load("agent")), "utf-8")
    (tmp_path / "node_modules").symlink_to((NODE / "node_modules").resolve())
    done = subprocess.run(
        ["node", "drive.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout == page[place + 1].text
