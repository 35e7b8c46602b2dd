"""Tables for notebooks: whole without trust, and nothing in a cell is obeyed."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from chartloop.core.html_table import (
    LONGEST,
    MOST,
    Cell,
    bundle,
    details_element,
    image,
    line,
    pairs,
    table,
)

ALLOWED = {"table", "thead", "tbody", "tr", "th", "td", "p", "br", "img", "details", "summary"}
MORE = {"img": {"alt", "src", "style"}}
STYLES = {
    "text-align",
    "vertical-align",
    "color",
    "opacity",
    "font-family",
    "font-weight",
    "padding",
}


class Strict(HTMLParser):
    """Reads HTML; what JupyterLab would take out of a notebook without trust is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        assert {name for name, _ in attrs} <= MORE.get(tag, {"style"})
        for name, value in attrs:
            if name == "style" and tag != "img":
                assert {part.split(":")[0] for part in (value or "").split(";")} <= STYLES
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)


HOSTILE = (
    "<script>alert(1)</script>",
    "</td></table><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "'><svg onload=alert(1)>",
    "&lt;b&gt;",
    "]]>",
    "a\x00\x1b[2J\u202eb\ud800",
    "🎉 שלום 你好",
)


def test_each_cell_says_its_own_room() -> None:
    shown = table([("a", Cell("b", "good", code=True))], head=("x", "y"))
    assert shown.count("padding:4px 8px") == 4
    assert "color:#16a34a;font-family:monospace" in shown


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_stands_in_a_cell_is_shown(text: str) -> None:
    shown = table([(text, Cell(text, "bad"))], head=(text,)) + line(text, "dim")
    said = "".join(Strict(shown + details_element(text, pairs([(text, text)]))).said)
    assert said.count(re.sub(r"[\x00\x1b\u202e\ud800]", "\ufffd", text)) == 7


@pytest.mark.parametrize("text", HOSTILE)
def test_the_words_beside_an_image_stay_words(text: str) -> None:
    Strict(image("<svg/>", text))


def test_lines_stay_lines() -> None:
    assert "a<br>b" in table([("a\nb",)])


def test_a_long_cell_is_cut() -> None:
    (cell,) = Strict(table([("x" * 5_000,)])).said[2:3]
    assert len(cell) == LONGEST
    assert cell.endswith("…")


def test_of_a_long_table_the_first_and_the_last_rows_are_shown() -> None:
    said = "".join(Strict(table([(f"row {n}",) for n in range(5_000)])).said)
    assert "row 0" in said
    assert "row 4999" in said
    assert f"… {5_000 - MOST:,} more …" in said
    assert said.count("row ") == MOST


def test_a_name_without_a_value_is_left_out() -> None:
    said = Strict(pairs([("here", "1"), ("gone", ""), ("away", Cell("", "bad"))])).said
    assert "here" in said
    assert not {"gone", "away"} & set(said)


def test_numbers_stand_at_the_right() -> None:
    shown = table([("a", "1")], head=("name", "n"), right={1})
    assert shown.count("text-align:right") == 2


def test_a_bundle_has_both() -> None:
    assert bundle("<p>x</p>", "x") == {"text/html": "<p>x</p>", "text/plain": "x"}
