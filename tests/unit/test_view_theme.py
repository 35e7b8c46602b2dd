"""Light and dark pictures: what can be read on what, and where a page may choose."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from chartloop import load
from chartloop.core.errors import RunError
from chartloop.pictures.dot.theme import PAPER, dark, to_dark
from chartloop.pictures.dot.write import INK, PAINTS, to_dot
from chartloop.pictures.flowchart import Arrow, Box, Flowchart
from chartloop.pictures.picture import Picture
from chartloop.studies.coverage.heatmap import NEVER, SHADES

DOT = pytest.mark.system("dot", install="apt-get install graphviz")


def contrast(one: str, other: str) -> float:
    """Source: WCAG 2.2, "contrast ratio"."""
    light, deep = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (deep + 0.05)


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("role", PAINTS)
def test_in_the_dark_words_and_borders_can_be_seen(role: str) -> None:
    paint = PAINTS[role]  # pyright: ignore[reportArgumentType]
    assert contrast(dark(INK), dark(paint.fill)) >= 4.5
    assert contrast(dark(paint.border), PAPER) >= 3


@pytest.mark.parametrize("ink", ["#475569", "#64748b", INK])
def test_in_the_dark_what_stands_on_arrows_can_be_read(ink: str) -> None:
    assert contrast(dark(ink), PAPER) >= 4.5


@pytest.mark.parametrize("shade", [*SHADES, NEVER])
def test_in_the_dark_a_heat_map_can_be_read(shade: tuple[str, str, str, str]) -> None:
    fill, ink, _, _ = shade
    assert contrast(dark(ink), dark(fill)) >= 4.5


def test_only_colours_are_turned() -> None:
    label = 'color="#ff0000" and fontcolor=#00ff00'
    chart = Flowchart("T", (Box("a", label),), (Arrow("a", "a", label),))
    turned = to_dark(to_dot(chart))
    assert turned.count('color=\\"#ff0000\\" and fontcolor=#00ff00') == 5
    assert f'bgcolor="{PAPER}"' in turned
    assert PAINTS["action"].fill not in turned


@pytest.mark.slow("takes seconds")
@DOT
@pytest.mark.parametrize("name", ["agent", "moderator"])
def test_an_adaptive_svg_has_a_dark_colour_for_each_of_its_own(name: str) -> None:
    svg = load(name).draw().with_theme("auto").svg()
    root = ET.fromstring(svg)  # noqa: S314 - our own
    style = root.findtext("{http://www.w3.org/2000/svg}style") or ""
    assert style.startswith("@media (prefers-color-scheme: dark){")
    used = set(re.findall(r' (fill|stroke)="(#\w{6}|white)"', svg))
    assert used
    for what, colour in used:
        assert f'[{what}="{colour}"]{{{what}:{dark(colour)}}}' in style
    light = load(name).draw().svg()
    assert svg.replace(f"<style>{style.replace('>', '&gt;')}</style>\n", "") == light


@DOT
def test_a_theme_changes_no_other_picture() -> None:
    picture = Picture(Flowchart("T", (Box("a", "A"),)))
    light, night = picture.svg(), picture.with_theme("dark").svg()
    assert night != light == picture.svg()
    assert f'fill="{PAPER}"' in night
    assert picture.with_theme("dark").with_theme("light").svg() == light
    assert picture.with_theme("auto").png() == picture.png() != picture.with_theme("dark").png()
    with pytest.raises(RunError, match="theme"):
        picture.with_theme("drak")  # pyright: ignore[reportArgumentType]
