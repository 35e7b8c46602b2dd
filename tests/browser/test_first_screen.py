"""The first screen of a run: its picture shows where it is, at every size, and nothing covers that."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chartloop import load
from chartloop.core.errors import ChartloopError
from tests.browser.lab import SLOW, Tab, expect_text
from tests.browser.test_run_page import Seen, Server, pytestmark, refused

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["pytestmark", "refused"]
EXAMPLE = Path(__file__).parents[2] / "examples" / "first"
SIZES = [(1280, 800), (1440, 900), (1920, 1080), (390, 844)]
LONG = "A paragraph that is decided about, and that must be read to its end. " * 30
GATE = """\
chartloop: 1
machine: gate
title: A long question
model: {name: scripted}
limits: {steps: 40}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  take: {do: receive, next: draft}
  draft: {label: Write a draft, do: infer, next: approve}
  approve: {ask: "Send this to the customer?\\n\\n{last.text}", on: {accept: done, deny: draft}}
  done: {stop: completed}
"""
LINE = "".join(
    f"  s{n}: {{label: The state with number {n}, do: infer, next: s{n + 1}}}\n" for n in range(40)
)
DEEP = f"""\
chartloop: 1
machine: deep
title: Forty states in a line
model: {{name: scripted}}
limits: {{steps: 30}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  take: {{do: receive, next: s0}}
{LINE}  s40: {{stop: completed}}
"""
SAID = {"text": "Read.", "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
CALLS = {**SAID, "tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}
BROKEN = {"error": {"category": "CRITICAL", "message": "server down"}}
RUNS = {
    "asks": ("gate", [{**SAID, "text": LONG}], 9),
    "deep": ("deep", [SAID] * 30, 25),
    "limit": ("deep", [SAID] * 40, 0),
    "done": ("calculator", [CALLS, SAID], 0),
    "failed": ("calculator", [CALLS, BROKEN], 0),
}
"""The machine, what its model says, and after how many steps it rests; 0 for its end."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Served(Server):
    """Runs that stand at many places, of small machines and of a large one."""

    files = {  # noqa: RUF012 - as its base
        "machines/gate.yaml": GATE,
        "machines/deep.yaml": DEEP,
        "machines/first.yaml": (EXAMPLE / "machine.yaml").read_text(),
        "script.yaml": "replies: []\n",
        "tools.py": (EXAMPLE / "tools.py").read_text(),
    }
    options = ("--tools", "tools.py", "--workers", "0")

    def begin(self) -> None:
        machines = {
            name: load(self.folder / "machines" / f"{file}.yaml", tools=[add])
            for name, file in (("gate", "gate"), ("deep", "deep"), ("calculator", "first"))
        }
        for name, (machine, script, steps) in RUNS.items():
            run = machines[machine].start(
                "Read it.", script=script, journal=self.folder / "journal.db", run_id=name
            )
            try:
                for _ in range(steps or 999):
                    if run.ended or run.question:
                        break
                    run.step()
            except ChartloopError:
                pass
        super().begin()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    started = Served(tmp_path_factory.mktemp("served"))
    yield started
    started.kill(signal.SIGTERM)


NOW = """() => {
  const said = [...document.querySelectorAll('.cl-picture [id$="-said"]')];
  const here = said.find((one) => one.closest("g.node") && /NOW|✓|■|✗/.test(one.textContent));
  if (!here) return null;
  const shape = here.closest("g.node").querySelector("polygon, path, ellipse");
  const [box, frame] = [shape, shape.closest(".cl-picture")].map((one) => one.getBoundingClientRect());
  const points = [[0.5, 0.5], [0.5, 0.1], [0.5, 0.9], [0.1, 0.5], [0.9, 0.5]];
  const seen = points.map(([x, y]) => document.elementFromPoint(box.left + box.width * x, box.top + box.height * y));
  return {
    onScreen: box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight && box.right <= innerWidth,
    inFrame: box.top >= frame.top && box.bottom <= frame.bottom && box.left >= frame.left - 1 && box.right <= frame.right + 1,
    bare: seen.every((one) => one?.closest("svg")),
    sideways: document.documentElement.scrollWidth - innerWidth,
    scrolled: scrollY,
  };
}"""
"""Where the box is that says how the run stands, and whether anything lies over it."""

COVERED = """() => {
  const touch = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const found = [];
  for (const frame of document.querySelectorAll(".cl-picture")) {
    const seen = frame.getBoundingClientRect();
    for (const shape of frame.querySelectorAll("g.node :is(polygon, path, ellipse)")) {
      const box = shape.getBoundingClientRect();
      if (!touch(box, seen)) continue;
      for (const control of frame.parentElement.querySelectorAll("button")) {
        const over = control.getBoundingClientRect();
        if (touch(over, box) && touch(over, seen)) found.push(control.textContent);
      }
    }
  }
  return found;
}"""
"""The controls of a picture that lie over a box of it."""
GOOD = {"onScreen": True, "inFrame": True, "bare": True, "sideways": 0, "scrolled": 0}


def looked_at(seen: Seen, run: str) -> dict[str, Any]:
    """Where a run's box is, once the picture has come to rest."""
    seen.open(f"/runs/{run}")
    seen.page.wait_for_function(NOW, timeout=SLOW)
    settle(seen.page)
    return seen.page.evaluate(NOW)


def settle(page: Page) -> None:
    """Until nothing moves: the same place in three frames."""
    page.evaluate("""async () => {
      const place = () => JSON.stringify([...document.querySelectorAll('.cl-picture svg')].map((svg) => Object.values(svg.getBoundingClientRect().toJSON())));
      let [known, same] = ["", 0];
      while (same < 5) {
        await new Promise((after) => setTimeout(after, 40));
        same = place() === known ? same + 1 : 0;
        known = place();
      }
    }""")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_first_screen_shows_where_a_run_is(
    chromium: Browser, served: Served, size: tuple[int, int]
) -> None:
    context = chromium.new_context(viewport={"width": size[0], "height": size[1]})
    seen = Seen(Tab(context), served)
    for run in RUNS:
        assert looked_at(seen, run) == GOOD, (run, size)
        assert seen.page.evaluate(COVERED) == [], (run, size)
    context.close()


def test_a_chosen_step_is_seen_too(chromium: Browser, served: Served) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    seen = Seen(Tab(context), served)
    assert looked_at(seen, "deep?step=3") == GOOD
    context.close()


@pytest.mark.parametrize("size", [SIZES[0], SIZES[3]], ids=["1280", "390"])
def test_the_picture_fills_the_window_and_goes_back(
    chromium: Browser, served: Served, size: tuple[int, int]
) -> None:
    context = chromium.new_context(viewport={"width": size[0], "height": size[1]})
    seen = Seen(Tab(context), served)
    page = seen.page
    looked_at(seen, "deep")
    filled = """() => {
      const { width, height } = document.querySelector(".cl-whole .cl-picture").getBoundingClientRect();
      return width > innerWidth - 40 && height > innerHeight - 80;
    }"""
    for opened in (
        lambda: page.keyboard.press("z"),
        lambda: seen.press("Picture in the whole window"),
    ):
        opened()
        page.wait_for_function(filled)
        settle(page)
        assert page.evaluate(NOW) == GOOD
        assert page.evaluate(COVERED) == []
        page.keyboard.press("c")  # no order is given from behind it
        page.keyboard.press("Escape")
        page.locator(".cl-whole").wait_for(state="detached")
        assert page.evaluate("document.activeElement.textContent") == "Whole window"
        assert page.evaluate("document.querySelectorAll('.cl-left .cl-picture').length") == 1
    assert page.locator(".cl-sure").count() == 0
    page.keyboard.press("z")
    page.keyboard.press("k")  # a step is chosen there
    page.wait_for_function("() => location.search.includes('step=')")
    page.keyboard.press("z")
    page.locator(".cl-whole").wait_for(state="detached")
    context.close()


def test_fit_shows_the_whole_picture(chromium: Browser, served: Served) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    seen = Seen(Tab(context), served)
    seen.open("/runs/deep")
    settle(seen.page)
    room = """() => { const frame = document.querySelector(".cl-picture");
      return frame.scrollHeight - frame.clientHeight + frame.scrollWidth - frame.clientWidth; }"""
    assert seen.page.evaluate(room) > 100
    seen.press("Fit the whole picture")
    assert seen.page.evaluate(room) <= 2
    context.close()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_both_pictures_show_where_two_runs_part(
    chromium: Browser, served: Served, size: tuple[int, int]
) -> None:
    context = chromium.new_context(viewport={"width": size[0], "height": size[1]})
    seen = Seen(Tab(context), served)
    for pair in ("a=done&b=failed", "a=deep&b=limit"):
        seen.open(f"/compare?{pair}")
        seen.page.wait_for_function("() => document.querySelectorAll('.cl-marked').length === 2")
        settle(seen.page)
        places = """[...document.querySelectorAll('.cl-marked')].map((one) => {
          const [box, frame] = [one, one.closest(".cl-picture")].map((part) => part.getBoundingClientRect());
          return box.top >= frame.top && box.bottom <= Math.min(frame.bottom, innerHeight)
            && box.left >= frame.left && box.right <= frame.right;
        })"""
        assert seen.page.evaluate(places) == [True, True], (pair, size)
        assert seen.page.evaluate(COVERED) == []
    context.close()


@pytest.mark.parametrize("size", [SIZES[0], SIZES[3]], ids=["1280", "390"])
def test_the_page_of_a_machine_says_all_of_it(
    chromium: Browser, served: Served, size: tuple[int, int]
) -> None:
    context = chromium.new_context(viewport={"width": size[0], "height": size[1]})
    seen = Seen(Tab(context), served)
    page = seen.page
    seen.open("/machines")
    row = page.locator("tr", has_text="calculator")
    assert row.locator("td").nth(2).text_content() in ("2", "3")
    row.locator("td").nth(3).get_by_role("link").click()
    page.wait_for_url("**/runs/failed")
    seen.open("/machines/calculator")
    expect_text(page, page.locator(".cl-right"), "Runs.*all [23].*The last that failed: Read it")
    expect_text(page, page.locator(".cl-right"), "Tools.*add.*acts outside.*Instructions")
    expect_text(page, page.locator(".cl-right"), "errors.consecutive >= limits.errors → stop")
    assert "rules.0#" not in str(page.locator(".cl-right").text_content())
    page.locator(".cl-picture svg").wait_for()
    assert "never" not in str(page.locator(".cl-picture").text_content())
    page.keyboard.press("h")
    expect_text(page, page.locator(".cl-picture"), "never")
    assert page.locator("[data-look=heat]").get_attribute("aria-pressed") == "true"
    assert page.evaluate(COVERED) == []
    assert seen.fits()
    seen.press("Flowchart")
    page.wait_for_function(
        "() => !document.querySelector('.cl-picture').textContent.includes('never')"
    )
    page.locator("summary", has_text="Start a run").click()
    page.get_by_label("Task").fill("What is 1 + 1?")
    seen.press("Start, and wait")
    page.wait_for_url("**/runs/*")
    expect_text(page, page.locator(".task"), r"^What is 1 \+ 1\?$")
    context.close()
