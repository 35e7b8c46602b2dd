"""Themes: a picture in light or dark colours, or in those that its page prefers.

Belongs here: the dark version of a colour, and finding colours in DOT, SVG and CSS. Never: which
element has which colour.
"""

from __future__ import annotations

import colorsys
import re
from typing import Literal

Theme = Literal["light", "dark", "auto"]
"""`auto` is an SVG that is dark if its reader prefers that (`prefers-color-scheme`); other formats
are light."""

PAPER = "#0f172a"
"""The dark background."""
_FILLS = 0.75
"""The lightness above which a colour is a fill. Text and lines must contrast with fills."""
_WORDS = {"white": PAPER, "#ffffff": PAPER, "#fff": PAPER, "black": "#f1f5f9"}
_IN_DOT = re.compile(r'((?i:color|fillcolor|fontcolor|bgcolor)=)"(#[0-9a-fA-F]{6})"')
"""A colour attribute. It cannot occur in a text, whose quotation marks are escaped."""
_IN_SVG = re.compile(r' (fill|stroke)="(#[0-9a-fA-F]{6}|white|black)"')
_IN_CSS = re.compile(r"(?<=[{;])(fill|stroke):(#[0-9a-fA-F]{6}|#fff)(?=[;}])")


def dark(colour: str) -> str:
    """The dark version of a colour: the same hue, with the same contrast to the background."""
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
    """An SVG that is dark if its reader prefers that; `chart` is the id of its outermost group."""
    style = f"<style>{dark_mode_rules(dark_attributes(svg, chart))}</style>\n"
    return svg.replace("</desc>\n", f"</desc>\n{style}", 1)


def dark_mode_rules(rules: str) -> str:
    """CSS rules that apply only if a dark page is preferred."""
    return f"@media (prefers-color-scheme: dark){{{rules}}}"


def dark_attributes(svg: str, chart: str) -> str:
    """CSS rules that darken the colours in the attributes of an SVG."""
    colours = sorted({(found[1], found[2]) for found in _IN_SVG.finditer(svg)})
    return "".join(
        f'[id="{chart}"] [{what}="{colour}"]{{{what}:{dark(colour)}}}' for what, colour in colours
    )


def dark_rules(css: str) -> str:
    """CSS rules in dark colours."""
    return _IN_CSS.sub(lambda found: f"{found[1]}:{dark(found[2])}", css)
