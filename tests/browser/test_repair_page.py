"""Who repairs: a run that failed, its retry, its children and the way up, its output, the keys."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.browser.lab import Tab, expect_text
from tests.browser.test_run_page import Seen, Server, pytestmark, refused

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["pytestmark", "refused"]

CLERK = """\
chartloop: 1
machine: clerk
title: Clerk
model: {name: scripted}
limits: {steps: 20}
output: last.text
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  take: {label: Take the order, do: receive, next: draft}
  draft: {label: Write a draft, do: infer, next: polish}
  polish: {label: Polish it, do: infer, next: done}
  done: {label: Done, stop: completed}
"""
WRITER = """\
chartloop: 1
machine: writer
model: {name: scripted}
limits: {steps: 20}
output: last.text
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  take: {do: receive, next: draft}
  draft: {do: infer, next: done}
  done: {stop: completed}
"""
REPORT = """\
chartloop: 1
machine: report
model: {name: scripted}
limits: {steps: 20}
output: {answer: last.text, whole: run.steps > 1, missing: last.error, sources: queue.size}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  take: {do: receive, next: draft}
  draft: {do: infer, next: done}
  done: {stop: completed}
"""
LONG = """\
chartloop: 1
machine: long
limits: {steps: 450}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  take: {do: receive, next: take}
"""
CREW = """\
chartloop: 1
machine: crew
title: A lead and two workers
model: {name: scripted}
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
machines:
  worker:
    title: Worker
    model: {name: scripted}
    limits: {steps: 9}
    output: last.text
    rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
    states:
      take: {do: receive, next: think}
      think: {label: Think, do: infer, next: done}
      done: {stop: completed}
states:
  take: {label: Take the order, do: receive, next: split}
  split:
    label: Two workers at once
    do: run_machines
    with:
      children:
        finder: {machine: worker, task: Find three facts.}
        critic: {machine: worker, task: Say what is weak.}
    next: done
  done: {stop: completed}
"""
SCRIPT = """\
replies:
  - {text: "# Lithium\\n\\n- it rises\\n- <b>fast</b>", usage: {prompt_tokens: 90, completion_tokens: 10, cost: 0.25}}
  - {error: {category: CRITICAL, message: "quota exceeded: 429"}}
"""


class Broken(Server):
    """A server whose model fails at the second call."""

    files: ClassVar[dict[str, str]] = {
        "machines/clerk.yaml": CLERK, "machines/writer.yaml": WRITER, "machines/long.yaml": LONG,
        "machines/report.yaml": REPORT, "machines/crew.yaml": CREW, "script.yaml": SCRIPT,
    }  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Broken(tmp_path_factory.mktemp("broken"))
    yield started
    started.kill(signal.SIGTERM)


@pytest.fixture
def seen(page: Tab, server: Server) -> Seen:
    return Seen(page, server)


def ended(server: Server, machine: str, **more: Any) -> str:
    run = server.start(machine, **more)
    while not server.ask(f"/runs/{run}")["ended"]:
        pass
    return run


# a failure ----------------------------------------------------------------------------------------


def test_a_failed_run_opens_at_its_failure(seen: Seen) -> None:
    run = ended(seen.server, "clerk", task="Write about lithium.")
    seen.open(f"/runs/{run}")
    failure = seen.banner.locator(".failure")
    expect_text(seen.page, failure.locator("dd").first, "^quota exceeded: 429$")
    assert failure.inner_text().split("\n") == [
        "what", "quota exceeded: 429", "kind", "CRITICAL", "where", "Polish it polish, step 3",
        "help", "fix that first: a key, a quota, a setting; chartloop doctor shows what is here",
    ]  # fmt: skip
    expect_text(seen.page, seen.page.locator(".steps .cl-chosen .state"), "^Polish it")
    error = seen.page.locator(".step details[data-name='Error']")
    error.locator("p", has_text="quota exceeded: 429").wait_for()
    assert error.get_attribute("open") is not None
    assert seen.banner.locator(".cl-main").all_inner_texts() == ["Try again from here"]


def test_what_is_paid_again_is_read_before_it_works(seen: Seen) -> None:
    run = ended(seen.server, "clerk", task="Write about lithium.")
    seen.open(f"/runs/{run}")
    seen.press("Try again from here")
    dialog = seen.page.locator("#dialog")
    said = dialog.inner_text()
    assert "2 finished steps kept; it starts at polish, in a new run" in said
    assert "Again: 1 model call at polish, which failed: cost not known" in said
    assert len([one for one in seen.server.ask("/runs")["runs"] if one["parent"] == run]) == 0
    seen.press("I agree: try again", dialog)
    seen.page.wait_for_url(lambda url: run not in url)
    expect_text(seen.page, seen.banner.locator(".failure dd").first, "^quota exceeded: 429$")
    (made,) = [one for one in seen.server.ask("/runs")["runs"] if one["parent"] == run]
    assert seen.page.url.endswith(made["run"])
    assert made["cost"] == 0.25
    both = [seen.server.ask(f"/runs/{one}/records")["records"] for one in (run, made["run"])]
    assert both[0][:3] == both[1][:3]


def test_a_limit_is_raised_where_it_stopped_the_run(seen: Seen) -> None:
    run = ended(seen.server, "clerk", limits={"steps": 2})
    seen.open(f"/runs/{run}")
    seen.page.locator("h1", has_text="Clerk").wait_for()
    seen.page.get_by_role("button", name="Try again from here").wait_for()
    seen.page.keyboard.press("t")
    dialog = seen.page.locator("#dialog")
    field = dialog.get_by_label("limits.steps")
    assert field.input_value() == "4"
    assert "it was 2 of 2" in dialog.inner_text()
    field.fill("15")
    seen.press("Raise it and try again", dialog)
    seen.page.wait_for_url(lambda url: run not in url)
    expect_text(seen.page, seen.banner.locator(".failure dd").first, "^quota exceeded: 429$")
    made = seen.page.url.rpartition("/")[2]
    kinds = [one["kind"] for one in seen.server.ask(f"/runs/{made}/records")["records"]]
    assert kinds == ["start", "step", "edit", "step", "step"]
    assert seen.server.ask(f"/runs/{made}/result")["usage"]["cost"] == 0.25


def test_a_run_that_is_done_offers_no_retry(seen: Seen) -> None:
    run = ended(seen.server, "writer")
    seen.open(f"/runs/{run}")
    seen.banner.locator(".output").wait_for()
    assert seen.banner.locator(".repair").count() == 0


# children -----------------------------------------------------------------------------------------


def test_children_are_a_table_on_one_axis_with_ways_down_and_up(seen: Seen) -> None:
    run = ended(seen.server, "crew", task="Write about lithium.")
    seen.open(f"/runs/{run}")
    rows = seen.page.locator("table.children tbody tr")
    rows.nth(1).wait_for()
    texts = [" ".join(row.split()) for row in rows.all_inner_texts()]
    finder = next(text for text in texts if text.startswith("finder"))
    critic = next(text for text in texts if text.startswith("critic"))
    assert "Find three facts." in finder
    assert "✓ done" in finder
    assert "100 $0.25" in finder
    assert "✗ failed" in critic
    assert "quota exceeded: 429" in critic
    bars = rows.locator(".span-bar .spent").evaluate_all(
        "all => all.map(one => [one.x.baseVal.value, one.width.baseVal.value])"
    )
    assert len(bars) == 2
    assert bars[0][0] < bars[1][0] + bars[1][1]
    assert bars[1][0] < bars[0][0] + bars[0][1]
    here = seen.page.locator(".started li")
    here.nth(1).wait_for()
    assert [line.split()[0] for line in here.all_inner_texts()] == ["critic", "finder"]
    rows.locator("button", has_text="Two workers at once").first.click()
    assert seen.page.url.endswith("?step=2")
    rows.locator("a", has_text="finder").click()
    up = seen.page.locator(".way-up")
    way = r"^A lead and two workers \S Two workers at once \S Worker 2 of 2 ← previous"
    expect_text(seen.page, up, way)
    up.locator("a", has_text="previous").click()
    seen.page.wait_for_url(f"**/runs/{run}/split/1/critic")
    expect_text(seen.page, seen.page.locator(".way-up"), "1 of 2 .*next →")
    refused = seen.banner.locator(".repair")
    expect_text(seen.page, refused.locator("p"), "would not hear of it")
    seen.page.locator(".way-up a", has_text="Two workers at once").click()
    seen.page.wait_for_url(f"**/runs/{run}?step=2")


def test_the_page_of_a_family_fits_a_phone(chromium: Browser, server: Server) -> None:
    run = ended(server, "crew", task="x" * 300)
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    seen = Seen(Tab(context), server)
    for link in (f"/runs/{run}", f"/runs/{run}/split/1/critic"):
        seen.open(link)
        seen.banner.locator(".repair :is(button, p)").first.wait_for()
        assert seen.fits()
    context.close()


# the output ---------------------------------------------------------------------------------------


def test_an_output_of_data_is_json(seen: Seen) -> None:
    run = ended(seen.server, "report")
    seen.open(f"/runs/{run}")
    shown = seen.banner.locator(".output pre")
    found = json.loads(shown.inner_text())
    assert found == {
        "answer": "# Lithium\n\n- it rises\n- <b>fast</b>", "whole": True, "missing": None,
        "sources": 0,
    }  # fmt: skip
    assert '\n  "whole": true,\n' in shown.inner_text()


def test_an_output_is_copied_and_downloaded(seen: Seen, tmp_path: Path) -> None:
    run = ended(seen.server, "writer")
    seen.open(f"/runs/{run}")
    written = "# Lithium\n\n- it rises\n- <b>fast</b>"
    with seen.page.expect_download() as loading:
        seen.press("Download .md", seen.banner)
    loading.value.save_as(tmp_path / "got.md")
    assert loading.value.suggested_filename == f"{run}.md"
    assert (tmp_path / "got.md").read_text("utf-8") == written
    seen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    seen.press("Copy", seen.banner)
    seen.banner.get_by_role("button", name="Copied").wait_for()
    assert seen.page.evaluate("navigator.clipboard.readText()") == written


# keys ---------------------------------------------------------------------------------------------


def test_g_goes_to_the_start_of_a_long_run(seen: Seen) -> None:
    run = ended(seen.server, "long")
    seen.open(f"/runs/{run}")
    seen.page.locator(".steps .cl-chosen").wait_for()
    seen.page.keyboard.press("g")
    expect_text(seen.page, seen.page.locator(".steps .cl-chosen .seq"), "^0$")
    assert seen.page.url.endswith("?step=0")


def test_a_box_that_is_ticked_keeps_no_keys(seen: Seen) -> None:
    seen.server.start("writer")
    seen.open("/runs")
    seen.page.locator(".runs input[type=checkbox]").first.focus()
    seen.page.keyboard.press("?")
    seen.page.locator("#dialog", has_text="try a run that failed again").wait_for()
    seen.page.keyboard.press("Escape")
    seen.page.locator(".runs input[type=checkbox]").first.focus()
    seen.page.keyboard.press("2")
    seen.page.wait_for_url("**/inbox")
