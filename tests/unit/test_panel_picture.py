"""The picture of a panel: laid out when it must be, and in characters where it cannot be."""

from __future__ import annotations

from chartloop import Run, load
from chartloop.extras import install
from chartloop.ui.notebook.panel.panel_picture import PanelPicture

SMALL = """
chartloop: 1
machine: small
title: Small
limits: {steps: 5}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  look: {label: Look, do: nothing, next: done}
  done: {label: Done, stop: completed}
"""


def start() -> Run:
    return load(SMALL).start()


def test_the_picture_is_whole_at_first_and_then_painted() -> None:
    run, picture = start(), PanelPicture()
    first = picture.sheet(run)
    assert first["picture"].startswith("<svg")
    assert {"look", "done"} <= set(first["boxes"].values())
    run.advance()
    again = picture.sheet(run)
    assert [*again] == ["paint"]
    assert again["paint"]["style"]


def test_a_limit_that_a_label_names_is_drawn_anew() -> None:
    run, picture = start(), PanelPicture()
    before = picture.sheet(run)["picture"]
    run.set("limits.steps", 3)
    after = picture.sheet(run)["picture"]
    assert "(5)" in before
    assert "(3)" in after


def test_without_graphviz_it_is_in_characters_and_says_what_to_install() -> None:
    run, picture = start(), PanelPicture("mermaid")
    first = picture.sheet(run)
    assert first["picture"] == ""
    assert "look" in first["outline"]
    assert install("diagrams") in first["outline"]
    assert picture.paint(run) == {}
    run.run()
    assert picture.sheet(run)["outline"] != first["outline"], "it follows the run all the same"


def test_a_layout_that_fails_says_why_and_is_not_tried_at_every_step() -> None:
    run, picture = start(), PanelPicture(timeout=1e-9)
    first = picture.sheet(run)
    assert first["outline"].startswith("Graphviz did not lay the chart out")
    assert "Look" in first["outline"]
    run.advance()
    assert picture.sheet(run)["outline"].startswith("Graphviz did not lay the chart out")
    assert picture.paint(run) == {}
