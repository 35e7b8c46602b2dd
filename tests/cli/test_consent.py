"""`diff` and `review` on a change of a gate: the section *Consent*, its exit code, recorded calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.cli.test_review import change, commit, git

pytestmark = pytest.mark.system("git", install="apt-get install git")

DESK = """\
chartloop: 1
machine: desk
model: openai/gpt-4o-mini
tools: [refund]
approve: {tools: [refund], when: call.arguments.usd > 100, within: 1h}
rules: [{when: run.steps >= 20, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
SHOP = '''\
from chartloop import tool


@tool
def refund(order: str, usd: float) -> str:
    """Pay."""
    return "done"
'''
LOOSE, TIGHT = "> 1000", "> 10"
EXITS = [
    ("differs", LOOSE, 1), ("loosened", LOOSE, 7), ("invalid", LOOSE, 0),
    ("differs", TIGHT, 1), ("loosened", TIGHT, 0), ("invalid", TIGHT, 0),
    ("differs", "> 100", 0), ("loosened", "> 100", 0), ("invalid", "> 100", 0),
    ("differs", "> nowhere", 2), ("loosened", "> nowhere", 2), ("invalid", "> nowhere", 2),
]  # fmt: skip


@pytest.fixture
def desk(sh: Shell) -> Shell:
    """A repository with a gate on `main`, and its tool beside it."""
    sh.write("desk.yaml", DESK)
    sh.write("old.yaml", DESK)
    sh.write("shop.py", SHOP)
    git(sh.folder, "init", "-q", "-b", "main")
    commit(sh.folder, "First")
    return sh


@pytest.mark.parametrize(
    "command", [("diff", "old.yaml", "desk.yaml"), ("review", "main", "desk.yaml")]
)
@pytest.mark.parametrize(("fail_on", "now", "code"), EXITS)
def test_the_exit_code(
    desk: Shell, command: tuple[str, ...], fail_on: str, now: str, code: int
) -> None:
    change(desk, "desk.yaml", "> 100", now)
    assert desk(*command, "--tools", "shop.py", "--fail-on", fail_on).code == code


@pytest.mark.parametrize("tools", [(), ("--tools", "shop.py")])
def test_the_comment_says_it_first_with_a_call(desk: Shell, tools: tuple[str, ...]) -> None:
    change(desk, "desk.yaml", "> 100, within: 1h", "> 1000, within: 1h, expired: act")
    shown = desk("review", "main", *tools).out
    assert "consent loosened\n" in shown
    assert "**Consent: 2 loosened.**" in shown
    assert "- loosened: refund: 100 < usd ≤ 1000 no longer asks, as in `refund(usd=500)`" in shown
    assert shown.index("**Consent") < shown.index("@@ Consent @@")
    assert ("the schema of `refund` is not" in shown) is not tools or bool(tools)


UNREAD = [
    ("by-a-limit", "call.arguments.usd > limits.big", "limits: {big: 100}\n", "limits: {big: 1000}\n", "100 < usd ≤ 1000 no longer asks"),
    ("by-two-arguments", 'call.arguments.usd > 100 and call.arguments.order == "a"', "", "", ""),
    ("of-types-that-no-text-tells", "call.arguments.usd == call.arguments.order.usd", "define: {spare: run.steps > 1}\n", "define: {spare: run.steps > 2}\n", "whether calls with"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("when", "old", "new", "says"), [row[1:] for row in UNREAD], ids=[row[0] for row in UNREAD]
)
def test_conditions_of_tools_that_are_not_here(
    desk: Shell, when: str, old: str, new: str, says: str
) -> None:
    for name, more in (("a.yaml", old), ("b.yaml", new)):
        desk.write(name, DESK.replace("call.arguments.usd > 100", f"'{when}'") + more)
    done = desk("diff", "a.yaml", "b.yaml", "--fail-on", "loosened")
    assert done.code == (7 if says else 0), done.out
    assert says in done.out


def test_the_data_of_both_has_the_section(desk: Shell) -> None:
    change(desk, "desk.yaml", "> 100", LOOSE)
    whole = json.loads(
        desk("diff", "old.yaml", "desk.yaml", "--tools", "shop.py", "--format", "json").out
    )
    reviewed = json.loads(desk("review", "main", "--tools", "shop.py", "--format", "json").out)
    (one,) = whole["consent"]
    assert one["kind"] == "loosened"
    assert one["tools"] == "refund"
    assert one["arguments"] == {"usd": 500}
    assert one["says"] == "100 < usd ≤ 1000 no longer asks"
    assert (
        one["words"] == "loosened: refund: 100 < usd ≤ 1000 no longer asks, as in `refund(usd=500)`"
    )
    assert (one["before"]["line"], one["after"]["line"]) == (5, 5)
    (same,) = reviewed["machines"][0]["diff"]["consent"]
    assert same["words"] == one["words"]


def record(desk: Shell, run: str, arguments: str, machine: str = "old.yaml") -> None:
    """A run that stops at its question, or goes through."""
    call = f"{{name: refund, arguments: {arguments}}}"
    desk.write("script.yaml", f"replies:\n  - tool_calls: [{call}]\n  - Done.\n")
    tools = ("--tools", "shop.py", "--script", "script.yaml")
    desk("run", machine, "Go", *tools, "--run-id", run, "--journal", "j.db", "--no-input")


def test_recorded_calls_are_decided_on_by_both_files(desk: Shell) -> None:
    for run, usd in (("small", 49), ("middle", 250), ("more", 700), ("large", 5000)):
        record(desk, run, f"{{order: A, usd: {usd}}}")
    change(desk, "desk.yaml", "> 100", LOOSE)
    there = desk("diff", "old.yaml", "desk.yaml", "--journal", "j.db").out
    assert "loosened: refund: 2 of 4 recorded calls asked and no longer would (run more: " in there
    assert '{"order": "A", "usd": 250}' in there
    back = desk("diff", "desk.yaml", "old.yaml", "--journal", "j.db", "--tools", "shop.py").out
    assert "tightened: refund: 2 of 4 recorded calls did not ask and would now" in back
    comment = desk("review", "main", "--journal", "j.db").out
    assert "- loosened: refund: 2 of 4 recorded calls" in comment
    data = json.loads(
        desk("diff", "old.yaml", "desk.yaml", "--journal", "j.db", "--format", "json").out
    )
    (recorded,) = [one["recorded"] for one in data["consent"] if one["recorded"]]
    assert [run for run, _ in recorded] == ["more", "middle"]


def test_accepted_calls_and_calls_that_went_through_count_once(desk: Shell) -> None:
    record(desk, "paid", "{order: A, usd: 250}")
    tools = ("--tools", "shop.py", "--journal", "j.db")
    desk("answer", "paid", "accept", *tools)
    desk("resume", "paid", *tools, "--script", "script.yaml")
    change(desk, "desk.yaml", "> 100", LOOSE)
    assert (
        "1 of 1 recorded call asked"
        in desk("diff", "old.yaml", "desk.yaml", "--journal", "j.db").out
    )


def test_recorded_text_is_bounded_and_hides_nothing(desk: Shell) -> None:
    hostile = json.dumps({"order": "```\n\u202e<b>@all</b>\u200b" + "x" * 500, "usd": 200})
    record(desk, "evil", hostile)
    change(desk, "desk.yaml", "> 100", LOOSE)
    comment = desk("review", "main", "--journal", "j.db").out
    (line,) = [row for row in comment.splitlines() if "recorded call" in row]
    assert "x" * 100 not in comment
    for sign in ("\u202e", "\u200b"):
        assert sign not in comment
    assert line.startswith("- loosened: refund: 1 of 1 recorded call")
    assert comment.count("\n```") % 2 == 0


def test_a_journal_that_is_not_there_is_said(desk: Shell, tmp_path: Path) -> None:
    change(desk, "desk.yaml", "> 100", LOOSE)
    assert desk("diff", "old.yaml", "desk.yaml", "--journal", "none.db").code == 2


FREE = DESK.replace("approve: {tools: [refund], when: call.arguments.usd > 100, within: 1h}\n", "")
ALONE = (
    FREE.replace("tools: [refund]", "tools: []")
    .replace(
        "think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}",
        "think: {do: infer, next: done}",
    )
    .replace("  act: {do: call_tools, next: think}\n", "")
)
IN_A_CHILD = """\
chartloop: 1
machine: desk
model: openai/gpt-4o-mini
states:
  hand: {do: run_machine, with: {machine: kid, task: "{{ run.task }}"}, next: done}
  done: {stop: completed}
machines:
  kid:
""" + "".join(f"    {line}\n" for line in FREE.splitlines()[3:])
COPIES = {
    "without-a-gate": (FREE, 7), "with-its-gate": (DESK, 0), "without-the-tool": (ALONE, 0),
    "with-the-tool-in-a-child": (IN_A_CHILD, 7),
}  # fmt: skip


@pytest.mark.parametrize("gone", [False, True], ids=["beside-the-old-one", "in-its-place"])
@pytest.mark.parametrize("copy", COPIES)
def test_a_new_machine_that_does_not_ask(desk: Shell, copy: str, gone: bool) -> None:
    text, code = COPIES[copy]
    desk.write("copy.yaml", text.replace("machine: desk", "machine: copy"))
    if gone:
        (desk.folder / "desk.yaml").unlink()
    done = desk("review", "main", "copy.yaml", "--tools", "shop.py", "--fail-on", "loosened")
    assert done.code == code, done.out
    says = "- loosened: refund: asks nobody in this new machine, and does in `desk.yaml`"
    assert (says in done.out) is (code == 7)
    assert ("; consent loosened" in done.out) is (code == 7)
