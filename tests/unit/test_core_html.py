"""Tables for notebooks: whole without trust, and nothing in a cell is obeyed."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import chartloop
from chartloop.core.html_table import LONGEST, MOST, image
from chartloop.core.reports import (
    Group,
    Illustration,
    Note,
    Notebook,
    Part,
    Report,
    Table,
    Terminal,
    html_of,
    more,
    pairs,
)
from chartloop.core.text_table import Cell, Line, Row, Span

ALLOWED = {
    "table", "thead", "tbody", "tr", "th", "td", "p", "br", "img", "details", "summary", "span",
}  # fmt: skip
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


def table(*rows: tuple[str, ...], head: tuple[str, ...] = (), right: tuple[int, ...] = ()) -> str:
    """The HTML of a table."""
    return html_of([Table([Row(cells) for cells in rows], head, right)])


def test_each_cell_says_its_own_room() -> None:
    shown = table(("a", Cell("b", "green code")), head=("x", "y"))
    assert shown.count("padding:4px 8px") == 4
    assert "color:#16a34a;font-family:monospace" in shown


def test_a_row_and_its_cells_have_colours() -> None:
    shown = html_of([Table([Row(("a", Cell("b", "code"), Cell("c", "red")), "green")])])
    assert re.findall(r"color:#\w+[^\"]*", shown) == [
        "color:#16a34a", "color:#16a34a;font-family:monospace", "color:#16a34a;color:#dc2626",
    ]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_stands_in_a_cell_is_shown(text: str) -> None:
    folded = Group("", [pairs([(text, text)])], folded=text)
    shown = table((text, Cell(text, "red")), head=(text,)) + html_of([Line(text, "dim"), folded])
    said = "".join(Strict(shown + html_of([Line.of(Span(text, "red"), "")])).said)
    assert said.count(re.sub(r"[\x00\x1b\u202e\ud800]", "\ufffd", text)) == 8


@pytest.mark.parametrize("text", HOSTILE)
def test_the_words_beside_an_image_stay_words(text: str) -> None:
    Strict(image("<svg/>", text))


def test_lines_stay_lines() -> None:
    assert "a<br>b" in table(("a\nb",))


def test_a_long_cell_is_cut() -> None:
    (cell,) = Strict(table(("x" * 5_000,))).said[2:3]
    assert len(cell) == LONGEST
    assert cell.endswith("…")


def test_of_a_long_table_the_first_and_the_last_rows_are_shown() -> None:
    said = "".join(Strict(table(*((f"row {n}",) for n in range(5_000)))).said)
    assert "row 0" in said
    assert "row 4999" in said
    assert f"… {5_000 - MOST:,} more …" in said
    assert said.count("row ") == MOST


def test_a_name_without_a_value_is_left_out() -> None:
    said = Strict(html_of([pairs([("here", "1"), ("gone", ""), ("away", Cell("", "red"))])])).said
    assert "here" in said
    assert not {"gone", "away"} & set(said)


def test_numbers_stand_at_the_right() -> None:
    shown = table(("a", "1"), head=("name", "n"), right=(1,))
    assert shown.count("text-align:right") == 2


class Everything(Report):
    """A report with a part of each kind."""

    def parts(self, rows: int = 2) -> list[Part]:
        """Each kind once."""
        table = Table(
            [Row((f"r{n}", "", "·")) for n in range(rows)], ("a", "b", "c"), optional={1, 2}
        )
        return [
            Line("title", "bold"), Line(""), table, Note("one two three"), Terminal([Line("typed")]),
            Notebook([Line("seen")]), Group("group", [Line("inside")]),
            Group(Line("long"), [Line("deep")], "short"),
            *more(Line("and 1 more"), [Line("rest")]),
            Illustration(lambda: {"text/plain": "no Graphviz"}, "a picture"),
        ]  # fmt: skip


def test_a_report_is_lines_text_and_html() -> None:
    report = Everything()
    lines = ["title", "", "a", "r0", "r1", "one two", "  three", "typed", "group", "inside"]
    lines += ["long", "deep", "and 1 more"]
    assert [line.text for line in report.lines(10)] == lines
    assert "r2" in "".join(line.text for line in report.lines(10, rows=3))
    bundle = report._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert bundle["text/plain"] == str(report) == "\n".join(line.text for line in report.lines())
    said = [text for text in Strict(bundle["text/html"]).said if text.strip()]
    assert said == [
        "title", "a", "r0", "r1", "one two three", "seen", "group", "inside", "short", "deep",
        "and 1 more", "rest", "no Graphviz",
    ]  # fmt: skip
    assert bundle["text/html"].count("<details>") == 2


def test_an_indent_is_kept() -> None:
    assert html_of([Line("  a")]) == "<p>&nbsp; a</p>"


PICTURES = {
    "analysis/versions/diff/diff.py", "api/machine.py", "api/run.py", "pictures/picture.py",
    "ui/notebook/live.py", "ui/notebook/panel/widget.py",
}  # fmt: skip
"""The files of the things that a notebook shows as a picture, with bundles of their own."""


def test_every_report_is_rendered_in_one_place() -> None:
    package = Path(chartloop.__file__).parent
    own = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if "def _repr_mimebundle_" in file.read_text("utf-8")
    }
    assert own == PICTURES | {"core/reports.py"}
