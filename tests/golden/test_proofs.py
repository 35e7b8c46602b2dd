"""The page on loops says what the libraries say: ours always, the others where they are installed."""

from __future__ import annotations

import importlib
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "proofs.md").read_text("utf-8")


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script of the page, which stands beside its machines."""
    monkeypatch.setattr(sys, "path", [str(DOCS / "proofs"), *sys.path])
    return importlib.import_module("compare")


def part(package: str) -> str:
    """What the page has of a library."""
    begin, end = f"<!-- {package} says -->", f"<!-- end of {package} -->"
    return f"{begin}{PAGE.partition(begin)[2].partition(end)[0]}{end}"


def test_what_the_page_says_of_chartloop(compare: Any) -> None:
    assert compare.block("chartloop", compare.library("chartloop")) == part("chartloop"), (
        "run: python docs/proofs/compare.py --write"
    )


def test_what_the_page_says_of_those_others_that_are_here(compare: Any) -> None:
    """Mostly none is: the page says how it is run with all of them."""
    for package in ("langgraph", "autogen-agentchat", "pydantic-graph"):
        if (found := compare.library(package)) is not None:
            assert f" {metadata.version(package)}\n" in part(package), "of another version"
            assert compare.block(package, found) == part(package)


def test_what_the_page_has_of_a_library_that_is_not_here_stays(compare: Any) -> None:
    page = "<!-- nobody says -->\nas it was\n<!-- end of nobody -->\n"
    compare.MODULES["nobody"] = "of_nobody"
    assert compare.written(page) == page
