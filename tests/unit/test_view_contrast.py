"""Texts and lines of every look pass WCAG AA, measured in the SVG that is rendered.

A text needs 4.5 to 1 on what it stands on (1.4.3), a border, an arrow or a swatch 3 to 1 (1.4.11).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from chartloop import diff, live, load
from chartloop.api import Run
from chartloop.pictures.dot.theme import PAPER
from chartloop.pictures.live.live_picture import LivePicture
from chartloop.pictures.live.progress import Standing

pytestmark = pytest.mark.system("dot", install="apt-get install graphviz")
SVG = "{http://www.w3.org/2000/svg}"
SHAPES = ("path", "polygon", "ellipse", "polyline")
TEXT, GRAPHIC = 4.5, 3.0
WHITE = (255.0, 255.0, 255.0)
Colour = tuple[float, float, float]
NAMES = {"white": "#ffffff", "black": "#000000", "transparent": ""}


def colour_of(text: str) -> Colour | None:
    """A colour as SVG writes it; None for none."""
    text = NAMES.get(text, text)
    if len(text) == 4 and text[0] == "#":
        text = "#" + "".join(2 * c for c in text[1:])
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", text):
        assert text in ("", "none"), f"what colour is {text}?"
        return None
    red, green, blue = (float(int(text[at : at + 2], 16)) for at in (1, 3, 5))
    return red, green, blue


def over(top: Colour, below: Colour, opacity: float) -> Colour:
    """What is seen of a colour that lets the one below it through."""
    red, green, blue = (opacity * t + (1 - opacity) * b for t, b in zip(top, below, strict=True))
    return red, green, blue


def luminance(colour: Colour) -> float:
    parts = [c / 255 for c in colour]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    """The ratio of WCAG: 1 for the same colour, 21 for black on white."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_ratio_is_that_of_wcag() -> None:
    assert contrast((0, 0, 0), WHITE) == pytest.approx(21)
    assert contrast((118, 118, 118), WHITE) == pytest.approx(4.54, abs=0.01)


# what an SVG shows ------------------------------------------------------------------------------


class Rule(NamedTuple):
    """One rule of a stylesheet: the simple selectors from the outside in, and what it says."""

    parts: tuple[str, ...]
    says: Mapping[str, str]


PREFERRED = re.compile(r"@media \(prefers-color-scheme: dark\)\{((?:[^{}]+\{[^{}]*\})*)\}")


def rules_of(style: str, *, dark: bool = False) -> Iterator[Rule]:
    for block in PREFERRED.sub(r"\1" if dark else "", style).split("}"):
        selectors, _, body = block.partition("{")
        declared = (one.partition(":") for one in body.split(";"))
        said = {name.strip(): value.strip() for name, sign, value in declared if sign}
        for selector in selectors.split(","):
            if selector.strip():
                yield Rule(tuple(selector.split()), said)


def fits(element: ET.Element, simple: str) -> bool:
    if attribute := re.fullmatch(r'\[(\w+)="([^"]+)"\]', simple):
        return element.get(attribute[1]) == attribute[2]
    found = re.fullmatch(r"(#[\w-]+)?(\.[\w-]+)?(\w+)?", simple)
    assert found, f"what does {simple} choose?"
    name, kind, tag = found.groups()
    return (
        (not name or element.get("id") == name[1:])
        and (not kind or element.get("class") == kind[1:])
        and (not tag or element.tag == f"{SVG}{tag}")
    )


def chosen(way: tuple[ET.Element, ...], rule: Rule) -> bool:
    """Whether a rule is for the last element of this way from the root."""
    if not fits(way[-1], rule.parts[-1]):
        return False
    wanted = list(rule.parts[:-1])
    for element in reversed(way[:-1]):
        if wanted and fits(element, wanted[-1]):
            wanted.pop()
    return not wanted


class Part(NamedTuple):
    """An element that is seen, and how."""

    tag: str
    says: Mapping[str, str]
    text: str
    inside: str
    """The class of the group it stands in: `node`, `edge` or `graph`."""
    group: str
    """The id of that group."""


def parts_of(svg: str, *, dark: bool = False) -> list[Part]:
    root = ET.fromstring(svg)  # noqa: S314 - our own
    rules = [r for e in root.iter(f"{SVG}style") for r in rules_of(e.text or "", dark=dark)]
    rules.sort(key=lambda rule: "#" in rule.parts[0])  # an id weighs more than attributes
    return [*_parts(root, (), rules, {"fill": "black"}, ("", ""))]


def _parts(
    element: ET.Element, above: tuple[ET.Element, ...], rules: list[Rule],
    inherited: Mapping[str, str], group: tuple[str, str],
) -> Iterator[Part]:  # fmt: skip
    way = (*above, element)
    said = dict(inherited) | {
        n: element.attrib[n] for n in ("fill", "stroke") if n in element.attrib
    }
    for rule in rules:
        if chosen(way, rule):
            said |= {n: v for n, v in rule.says.items() if n in ("fill", "stroke", "fill-opacity")}
    if element.get("class") in ("node", "edge", "graph"):
        group = (element.get("class", ""), element.get("id", ""))
    tag = element.tag.removeprefix(SVG)
    if tag in (*SHAPES, "text", "tspan"):
        yield Part(tag, said, (element.text or "").strip(), *group)
    for child in element:
        passed = (
            {n: said[n] for n in ("fill", "stroke") if n in said} if tag == "text" else inherited
        )
        yield from _parts(child, way, rules, passed, group)


def faint(svg: str, *, dark: bool = False) -> list[str]:
    """Everything in a picture that is too faint, with its ratio."""
    found: list[str] = []
    grounds: dict[str, Colour] = {}
    paper = (colour_of(PAPER) if dark else None) or WHITE
    for part in parts_of(svg, dark=dark):
        ground = grounds.get(part.group, paper)
        fill, stroke = colour_of(part.says.get("fill", "")), colour_of(part.says.get("stroke", ""))
        if part.tag in ("text", "tspan"):
            if part.text and fill is not None:
                found += too_faint(part, fill, ground, TEXT)
            continue
        if part.inside == "graph":
            continue
        if part.inside == "node" and part.group not in grounds:
            opacity = float(part.says.get("fill-opacity", "1"))
            grounds[part.group] = paper if fill is None else over(fill, paper, opacity)
            if part.says.get("stroke") not in ("none", "transparent", None) and stroke is not None:
                found += too_faint(part, stroke, paper, GRAPHIC)
        elif stroke is not None:
            found += too_faint(part, stroke, ground, GRAPHIC)
        elif fill is not None and fill != WHITE:
            found += too_faint(part, fill, ground, GRAPHIC)
    return sorted(set(found))


def too_faint(part: Part, colour: Colour, ground: Colour, least: float) -> list[str]:
    ratio = contrast(colour, ground)
    said = f"{part.inside} {part.tag} {part.text or part.says} {ratio:.2f} of {least}"
    return [said] if ratio < least else []


# every look -------------------------------------------------------------------------------------


def ended(machine: str = "agent", **limits: int) -> Run:
    call = {"text": "", "tool_calls": [{"name": "send_message", "arguments": {"message": "Hi"}}]}
    run = load(machine).start("Say hi.", script=[call, call, "Done."], limits=limits)
    run.run()
    return run


def stepped(steps: int) -> Run:
    call: dict[str, Any] = {"text": "", "tool_calls": [{"name": "nothing", "arguments": {}}]}
    usage = {"prompt_tokens": 41_000, "completion_tokens": 200}
    replies: list[Any] = [{**call, "usage": usage}, {**call, "usage": usage}, "Done."]
    run = load("agent").start("Look.", script=replies, limits={"steps": 5})
    for _ in range(steps):
        run.advance()
    return run


def painted(run: Run) -> str:
    """The picture of a notebook, whose style is written anew for each moment."""
    return LivePicture(run.draw().chart).svg(live(run).standing, "auto")


def failing() -> Run:
    run = load("agent").start("x", script=[{"error": {"category": "CRITICAL", "message": "no"}}])
    run.run()
    return run


def change() -> str:
    return diff(load("moderator"), load("moderator_full")).picture(full=True).svg()


LOOKS: dict[str, Callable[[], str]] = {
    "plain": lambda: load("agent").draw().svg(),
    "plain-moderator": lambda: load("moderator").draw().svg(),
    "chain": lambda: load("moderator").draw(rules="chain", all=True).svg(),
    "live-at-the-start": lambda: stepped(1).draw(look="live").svg(),
    "live-in-the-middle": lambda: stepped(4).draw(look="live").svg(),
    "live-ended": lambda: ended().draw(look="live").svg(),
    "live-stopped": lambda: ended(steps=3).draw(look="live").svg(),
    "live-failed": lambda: failing().draw(look="live").svg(),
    "page-at-the-start": lambda: painted(stepped(1)),
    "page-in-the-middle": lambda: painted(stepped(4)),
    "page-ended": lambda: painted(ended()),
    "page-stopped": lambda: painted(ended(steps=3)),
    "page-failed": lambda: painted(failing()),
    "page-of-nothing": lambda: LivePicture(load("moderator").draw().chart).svg(Standing(), "auto"),
    "live-chain": lambda: stepped(4).draw(look="live", rules="chain").svg(),
    "way": lambda: load("agent").bound().draw().svg(),
    "diff": change,
    "diff-focus": lambda: diff(load("moderator"), load("moderator_full")).picture().svg(),
}  # fmt: skip


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_every_text_and_line_can_be_seen(look: Callable[[], str]) -> None:
    svg = look()
    assert len(parts_of(svg)) > 20
    assert faint(svg) == []


@pytest.mark.parametrize("look", [look for look in LOOKS if look.startswith("page-")])
def test_every_text_and_line_of_a_page_can_be_seen_in_the_dark(look: str) -> None:
    svg = LOOKS[look]()
    assert faint(svg, dark=True) == []
    turned = [part.says.get("fill") for part in parts_of(svg, dark=True)]
    assert not {"#fff", "#ffffff", "white", "#1e293b", "#fde68a"} & {*turned}


# not by colour alone ----------------------------------------------------------------------------


def test_a_changed_arrow_has_a_sign_as_a_new_one_has() -> None:
    signs = {"added": "+", "changed": "~"}
    before = load(MACHINE.format(guard="run.steps > 3", more=""))
    after = load(MACHINE.format(guard="run.steps > 4", more="{when: run.steps > 9, to: c},"))
    svg = diff(before, after).picture(full=True).svg()
    for sign in signs.values():
        assert any(part.text.startswith(sign) for part in parts_of(svg) if part.inside == "edge")


MACHINE = """
chartloop: 1
machine: m
states:
  a: {{do: nothing, next: [{more} {{when: "{guard}", to: b}}, {{to: c}}]}}
  b: {{stop: completed}}
  c: {{stop: user_requested}}
"""
