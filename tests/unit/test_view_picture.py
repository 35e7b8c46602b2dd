"""A picture in a notebook and in files."""

from __future__ import annotations

import base64
import os
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from chartloop import load
from chartloop.core.errors import RunError, SetupError
from chartloop.extras import install
from chartloop.pictures.flowchart import Arrow, Box, Flowchart
from chartloop.pictures.mermaid import to_mermaid, too_large
from chartloop.pictures.picture import Picture
from chartloop.pictures.save import write_whole

CHART = Flowchart("A <title>", (Box("a", "A"), Box("b", "B")), (Arrow("a", "b", "x"),))
PYGRAPHVIZ = pytest.mark.extra(  # noqa: S610 - no Django
    "pygraphviz", install='pip install -e ".[diagrams]"'
)


def picture(chart: Flowchart = CHART) -> Picture:
    return Picture(chart, engine="pygraphviz")


def test_the_formats_that_need_no_engine() -> None:
    shown = Picture(CHART, engine="mermaid")
    assert shown.mermaid().startswith("flowchart TD\n")
    assert shown.dot().startswith("digraph {")
    assert shown.text().startswith("A <title>\n\n┌────┐\n│ A  │\n")
    assert shown.outline().startswith("A <title>\n\n[a] A\n")
    assert repr(shown) == "<Picture 'A <title>': 2 boxes, 1 arrows>"


@PYGRAPHVIZ
def test_svg_is_an_element_for_a_page() -> None:
    svg = picture().svg()
    assert svg.startswith("<svg ")
    assert svg.rstrip().endswith("</svg>")
    assert "<!DOCTYPE" not in svg


@PYGRAPHVIZ
def test_a_notebook_gets_svg_and_png_and_text() -> None:
    bundle = picture()._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage] - IPython's name
    assert set(bundle) == {"image/svg+xml", "image/png", "text/plain"}
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")


@PYGRAPHVIZ
def test_a_large_chart_has_an_image_in_html_instead_of_a_png() -> None:
    large = Flowchart("A <title>", boxes=tuple(Box(f"s{n}", "x") for n in range(61)))
    bundle = picture(large)._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert set(bundle) == {"image/svg+xml", "text/html", "text/plain"}
    shown = re.fullmatch(
        r'<img alt="A &lt;title&gt;" src="data:image/svg\+xml;base64,([^"]+)" style="[a-z0-9%:;-]+">',
        bundle["text/html"],
    )
    assert shown is not None
    assert base64.b64decode(shown[1]).decode() == bundle["image/svg+xml"]


@PYGRAPHVIZ
def test_what_graphviz_cannot_draw_is_shown_as_text_with_the_reason() -> None:
    shown = Picture(CHART, engine="pygraphviz", timeout=0.0001)
    bundle = shown._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert set(bundle) == {"text/plain"}
    assert "│ A  │" in bundle["text/plain"]
    assert "Graphviz" in bundle["text/plain"].splitlines()[-2]


def test_without_graphviz_a_notebook_gets_mermaid() -> None:
    shown = Picture(CHART, engine="mermaid")
    bundle = shown._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert set(bundle) == {"text/vnd.mermaid", "text/plain"}
    assert bundle["text/plain"].endswith(f"For a picture: {install('diagrams')}\n")
    assert shown.engine == "mermaid"
    with pytest.raises(SetupError, match="there is no Graphviz"):
        shown.svg()


@pytest.mark.slow("takes seconds")
def test_what_mermaid_would_not_draw_is_left_to_the_text() -> None:
    many = replace(CHART, arrows=tuple(Arrow("a", "b", str(n)) for n in range(501)))
    long = replace(CHART, boxes=tuple(Box(f"n{n}", "long " * 300) for n in range(40)), arrows=())
    for chart, says in ((many, "501 arrows"), (long, "characters")):
        bundle = Picture(chart, engine="mermaid").bundle()
        assert set(bundle) == {"text/plain"}
        assert says in too_large(to_mermaid(chart))
    assert not too_large(to_mermaid(replace(many, arrows=many.arrows[:500])))


@pytest.mark.system("dot", install="apt-get install graphviz")
def test_dot_goes_before_all_other_engines() -> None:
    assert Picture(CHART).engine == "dot"


@PYGRAPHVIZ
def test_without_dot_pygraphviz_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    shown = Picture(CHART)
    assert shown.engine == "pygraphviz"
    assert shown.svg().startswith("<svg ")


def test_pictures_of_different_charts_can_share_a_page() -> None:
    first, again = Picture(CHART), Picture(CHART)
    other = Picture(Flowchart("Another", CHART.boxes, CHART.arrows))
    assert first.prefix == again.prefix != other.prefix
    assert Picture(CHART, prefix="run7-").prefix == "run7-"
    assert 'id="run7-node-a"' in Picture(CHART, prefix="run7-").dot()


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.mmd", b"flowchart TD\n"),
        ("x.mermaid", b"flowchart TD\n"),
        ("x.dot", b"digraph {"),
        ("x.gv", b"digraph {"),
        ("x.txt", b"A <title>\n"),
        pytest.param("x.svg", b"<svg ", marks=PYGRAPHVIZ),
        pytest.param("X.PNG", b"\x89PNG", marks=PYGRAPHVIZ),
    ],
)
def test_the_suffix_says_the_format(tmp_path: Path, name: str, start: bytes) -> None:
    path = picture().save(tmp_path / name)
    assert path == tmp_path / name
    assert path.read_bytes().startswith(start)
    assert [found.name for found in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["x.pdf", "x", "x.svg.gz"])
def test_an_unknown_suffix_is_refused_with_those_that_are_known(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match="does not say which format") as refused:
        picture().save(str(tmp_path / name))
    assert ".svg .png .mmd" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_drawn_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    path.write_text("before")
    with pytest.raises(SetupError):
        Picture(CHART, engine="mermaid").save(path)
    assert path.read_text() == "before"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_whole(pipe, b"whole")
    reader.join(5)
    assert read == [b"whole"]
    assert pipe.is_fifo()


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.mmd"
    path.write_text("before" * 1_000)
    assert picture().save(path).read_text() == picture().mermaid()
    assert [found.name for found in tmp_path.iterdir()] == ["x.mmd"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nowhere.*cannot be written: No such file"):
        picture().save(tmp_path / "nowhere" / "x.mmd")


def test_a_folder_in_the_place_of_the_file_stays(tmp_path: Path) -> None:
    (tmp_path / "x.mmd").mkdir()
    with pytest.raises(RunError, match="cannot be written"):
        picture().save(tmp_path / "x.mmd")
    assert [found.name for found in tmp_path.iterdir()] == ["x.mmd"]


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target.mmd"
    link = tmp_path / "link.mmd"
    link.symlink_to(target)
    picture().save(link)
    assert link.is_symlink()
    assert target.read_text().startswith("flowchart TD")


def pixels(png: bytes) -> tuple[int, int]:
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


@pytest.mark.system("dot", install="apt-get install graphviz")
def test_a_png_has_as_many_times_the_pixels_as_it_is_told() -> None:
    machine = load("agent")
    (wide, high), (wider, higher) = (pixels(machine.draw(scale=n).png()) for n in (1, 2))
    assert abs(wider - 2 * wide) <= 2
    assert abs(higher - 2 * high) <= 2
    run = machine.start("Hi.", script=[])
    live = pixels(run.draw(look="live", scale=2).with_theme("dark").png())
    assert live[0] > 1.5 * pixels(run.draw(look="live").png())[0]
    for scale in (0.0, 11.0):
        with pytest.raises(RunError, match="no picture has the scale"):
            machine.draw(scale=scale)
