"""Light and dark: the same picture in other colours, or in those that a page prefers.

Belongs here: what a colour is in the dark, and where colours are in DOT, SVG and CSS. Never:
what has which colour.
"""

from __future__ import annotations

import colorsys
import re
from typing import Literal

Theme = Literal["light", "dark", "auto"]
"""`auto` is an SVG that is dark where its reader prefers that (`prefers-color-scheme`); a format
that cannot ask is light."""

PAPER = "#0f172a"
"""What is behind everything in the dark."""
_FILLS = 0.75
"""Lighter colours are fills; words and lines have to stand out from them and from the paper."""
_WORDS = {"white": PAPER, "#ffffff": PAPER, "#fff": PAPER, "black": "#f1f5f9"}
_IN_DOT = re.compile(r'((?i:color|fillcolor|fontcolor|bgcolor)=)"(#[0-9a-fA-F]{6})"')
"""A colour as an attribute. In a text its quotation mark would be written as a code."""
_IN_SVG = re.compile(r' (fill|stroke)="(#[0-9a-fA-F]{6}|white|black)"')
_IN_CSS = re.compile(r"(?<=[{;])(fill|stroke):(#[0-9a-fA-F]{6}|#fff)(?=[;}])")


def dark(colour: str) -> str:
    """A colour of the light picture in the dark: the same hue, as far from the paper as before."""
    if (known := _WORDS.get(colour.lower())) is not None:
        return known
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    hue, light, full = colorsys.rgb_to_hls(red, green, blue)
    turned = min(0.19, 0.8 - 0.7 * light) if light > _FILLS else max(0.66, 0.96 - 0.8 * light)
    parts = colorsys.hls_to_rgb(hue, turned, full * 0.7)
    return "#" + "".join(f"{round(part * 255):02x}" for part in parts)


def to_dark(dot: str) -> str:
    """A DOT text in dark colours."""
    turned = _IN_DOT.sub(lambda found: f'{found[1]}"{dark(found[2])}"', dot)
    return turned.replace("\tgraph [", f'\tgraph [bgcolor="{PAPER}" ', 1)


def adaptive(svg: str, chart: str) -> str:
    """An SVG that is dark where that is preferred; `chart` is the id of its outermost group."""
    style = f"<style>{dark_mode_rules(dark_attributes(svg, chart))}</style>\n"
    return svg.replace("</desc>\n", f"</desc>\n{style}", 1)


def dark_mode_rules(rules: str) -> str:
    """CSS rules that apply where a dark page is preferred."""
    return f"@media (prefers-color-scheme: dark){{{rules}}}"


def dark_attributes(svg: str, chart: str) -> str:
    """Rules of CSS that turn the colours which are on the elements of an SVG."""
    colours = sorted({(found[1], found[2]) for found in _IN_SVG.finditer(svg)})
    return "".join(
        f'[id="{chart}"] [{what}="{colour}"]{{{what}:{dark(colour)}}}' for what, colour in colours
    )


def dark_rules(css: str) -> str:
    """Rules of CSS in the colours of the dark."""
    return _IN_CSS.sub(lambda found: f"{found[1]}:{dark(found[2])}", css)
