"""The outline in characters."""

from __future__ import annotations

from chartloop.pictures.flowchart import Arrow, Box, Flowchart, RuleLine
from chartloop.pictures.text.neighborhood import neighbourhood
from chartloop.pictures.text.outline import to_outline


def test_the_outline_has_title_rules_boxes_and_arrows() -> None:
    chart = Flowchart(
        title="Step-based agent",
        boxes=(
            Box("user_message", "user_message", entry=True),
            Box("ask", "Tool\ncalls?", "diamond", "decision"),
            Box("prune", "Prune"),
            Box("done", "Done", "pill", "completed"),
            Box("rules-1", "after every step", role="rules", origin="rule"),
        ),
        arrows=(
            Arrow("user_message", "ask"),
            Arrow("ask", "user_message", "Yes"),
            Arrow("ask", "done", "No", number=2),
            Arrow("rules-1", "done", "run.steps >= 3", kind="rule"),
            Arrow("prune", "rules-1", "return", kind="return"),
        ),
        rules=(
            RuleLine("rules.0", "run.steps >= 3", "stop", "steps_limit", "done"),
            RuleLine("rules.1", "x > 1", "detour", to="prune", before=("ask",)),
            RuleLine("rules.2", "x > 2", "signal", "custom", at=("ask", "prune")),
        ),
    )
    assert to_outline(chart) == (
        "Step-based agent\n"
        "\n"
        "rules\n"
        "    run.steps >= 3 → stop: steps_limit, to done\n"
        "    before ask: x > 1 → to prune\n"
        "    after ask, prune: x > 2 → signal: custom\n"
        "\n"
        "• [user_message]\n"
        "    → ask\n"
        "<ask> Tool calls?\n"
        "    Yes → user_message\n"
        "    2 · No → done\n"
        "[prune] Prune\n"
        "    return → where the run was going\n"
        "(done) Done\n"
    )


def test_nothing_in_a_label_reaches_the_terminal_as_a_command() -> None:
    chart = Flowchart(boxes=(Box("a", "\x1b[2Jx\x07\n\ry"),), arrows=(Arrow("a", "a", "\x9b31m"),))
    assert to_outline(chart) == "[a] \ufffd[2Jx\ufffd y\n    \ufffd31m → a\n"


def test_an_empty_chart_is_an_empty_line() -> None:
    assert to_outline(Flowchart()) == "\n"


def test_a_long_name_leaves_room_for_what_is_said_at_its_arrow() -> None:
    boxes = (Box("a", "x" * 2_000, "rect", "rules"), Box("b", "B"))
    drawing = neighbourhood(Flowchart("t", boxes, (Arrow("a", "b", "yes, it is"),)), "b", width=40)
    lines = drawing.text().splitlines()
    assert max(map(len, lines)) <= 40
    assert any("yes, it is" in line for line in lines)
