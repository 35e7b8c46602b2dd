"""Every screen of the server in light and dark, wide and on a phone: it can be read, and it fits.

What used to be computed by hand: the contrast of each text with what is behind it (WCAG 2.2 AA),
that nothing has to be scrolled sideways, and on a phone, that a finger finds what can be pressed.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.lab import Tab
from tests.browser.population import Populated
from tests.browser.test_run_page import Seen, pytestmark

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["pytestmark"]
SCREENS = {
    "runs": "/runs",
    "inbox": "/inbox",
    "machines": "/machines",
    "fleet": "/fleet",
    "machine": "/machines/calculator",
    "machine-team": "/machines/team",
    "done": "/runs/sum-0",
    "limit": "/runs/loops",
    "failed": "/runs/fails",
    "person": "/runs/stopped",
    "undriven": "/runs/half",
    "approval": "/runs/buy-0",
    "question": "/runs/ticket-0",
    "long": "/runs/long",
    "long-past": "/runs/long?step=7",
    "children": "/runs/team",
    "image": "/runs/image",
    "compare": "/compare?a=loops&b=fails",
    "absent": "/runs/nothing",
}
TALKS = {
    f"talk-{name}": f"/runs/{run}?view=conversation"
    for name, run in (("long", "long"), ("image", "image"), ("team", "team"), ("waits", "buy-1"))
}
NODE = Path(__file__).parents[1] / "node"
BROKEN = """async () => {
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const { violations } = await axe.run(document, { runOnly: tags });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 90)}`));
}"""
"""The rules of axe that a screen breaks: WCAG 2.2 A and AA, and its best practices."""
CONTRAST = """() => {
  const light = colour => {
    const part = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(colour[0]) + 0.7152 * part(colour[1]) + 0.0722 * part(colour[2]);
  };
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const read = words => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = words;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, below) => below.map((value, at) => value * (1 - top[3] / 255) + top[at] * (top[3] / 255));
  const behind = element => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      const colour = read(getComputedStyle(one).backgroundColor);
      if (colour[3]) layers.push(colour);
      if (colour[3] === 255) break;
    }
    return layers.reverse().reduce((base, layer) => over(layer, base), [255, 255, 255]);
  };
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const words = texts.currentNode.textContent.trim();
    if (!words || !element || element.closest("svg, script, style, [disabled], [aria-disabled=true]")) continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const style = getComputedStyle(element);
    const below = behind(element);
    const colour = read(style.color);
    colour[3] *= Number(style.opacity);
    const [one, other] = [light(over(colour, below)), light(below)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)} ${element.className || element.tagName}: ${words.slice(0, 40)}`);
  }
  return faint;
}"""
"""The texts that are too faint, with their contrast; those of what is disabled are exempt."""
WIDE = """() => [...document.body.querySelectorAll("*")]
  .filter(one => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1)
  .filter(one => { for (let up = one.parentElement; up; up = up.parentElement)
     if (getComputedStyle(up).overflowX !== "visible") return false; return true; })
  .map(one => `${one.tagName}.${one.className}`).slice(0, 5)"""
"""What reaches over the right edge, and stands in nothing that scrolls by itself."""
SMALL = """() => [...document.querySelectorAll("button, summary, input, select, textarea")]
  .filter(one => one.checkVisibility({ visibilityProperty: true }) && !one.closest(".spans"))
  .filter(one => {
    const { width, height } = one.getBoundingClientRect();
    const field = one.matches("input:not([type=checkbox], [type=radio]), select, textarea");
    return (Math.max(width, height) < 24 && !one.matches("[type=checkbox], [type=radio]")) || Math.min(width, height) < 18
      || (field && parseFloat(getComputedStyle(one).fontSize) < 16);
  }).map(one => `${one.tagName}.${one.className} ${one.textContent.trim().slice(0, 20)}`)"""
"""What a finger misses, and fields that a phone zooms in to."""

SETTLED = """() => new Promise(done => {
  let quiet = setTimeout(done, 400);
  new MutationObserver(() => { clearTimeout(quiet); quiet = setTimeout(done, 400); })
    .observe(document.body, { childList: true, subtree: true });
  setTimeout(done, 8000);
})"""
"""Until nothing has been added for a while."""


@pytest.fixture(scope="module")
def populated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Populated]:
    started = Populated(tmp_path_factory.mktemp("populated"))
    yield started
    started.kill(signal.SIGTERM)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_can_be_read_and_fits(
    chromium: Browser, populated: Populated, scheme: Any, width: int
) -> None:
    phone = width < 600
    context = chromium.new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme, has_touch=phone,
        is_mobile=phone,
    )  # fmt: skip
    seen = Seen(Tab(context), populated)
    faults: dict[str, object] = {}
    for name, link in SCREENS.items():
        seen.open(link)
        seen.page.evaluate(SETTLED)
        faint, wide = seen.page.evaluate(CONTRAST), seen.page.evaluate(WIDE)
        small: list[str] = seen.page.evaluate(SMALL) if phone else []
        if faint or wide or small or not seen.fits():
            faults[name] = {"faint": faint, "wide": wide, "small": small, "fits": seen.fits()}
    errors = seen.tab.errors
    context.close()
    assert (faults, errors) == ({}, [])


@pytest.mark.node("axe-core")
@pytest.mark.parametrize("width", [1280, 390])
def test_no_rule_of_accessibility_is_broken(
    chromium: Browser, populated: Populated, width: int
) -> None:
    axe = (NODE / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
    context = chromium.new_context(viewport={"width": width, "height": 844}, bypass_csp=True)
    seen = Seen(Tab(context), populated)
    broken: dict[str, set[str]] = {}
    for name, link in {**SCREENS, **TALKS}.items():
        seen.open(link)
        seen.page.evaluate(SETTLED)
        seen.page.evaluate(f"() => {{ {axe} }}")
        if found := seen.page.evaluate(BROKEN):
            broken[name] = set(found)
    context.close()
    assert broken == {}
