"""`chartloop chat`: messages from a terminal or a pipe, replies as they arrive, questions in place."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.shell import PROGRAM, Shell, Terminal
from tests.cli.test_answer_calls import BUYS, GATE, SHOP

TALK = """\
chartloop: 1
machine: talk
model: {name: scripted}
limits: {turns: 5}
rules: [{when: run.visits.think >= limits.turns, stop: steps_limit}]
states:
  hear: {ask: "{last.text}", on: {say: {to: listen, data: {text: str}}, bye: done}}
  listen: {do: prompt, with: {user: "{{ last.answer.text }}", keep: true}, next: think}
  think: {do: infer, next: hear}
  done: {stop: completed}
"""
ECHO = """\
chartloop: 1
machine: echo
model: {name: scripted}
limits: {steps: 3}
vars: {word: ""}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  hear: {do: receive, next: think}
  think: {do: infer, next: [{when: 'last.text == "again"', to: think}, {to: done}]}
  done: {stop: completed}
"""


BUYING = ("gate.yaml", "--tools", "shop.py", "--script", "buys.yaml", "--run-id", "c")


@pytest.fixture
def chats(sh: Shell) -> Path:
    files = {
        "gate.yaml": GATE, "shop.py": SHOP, "buys.yaml": BUYS, "talk.yaml": TALK, "echo.yaml": ECHO,
        "two.yaml": "replies: [Hello Ann., You are Ann.]\n",
        "late.yaml": "replies: [again, again, You are Ann.]\n",
    }  # fmt: skip
    for name, text in files.items():
        sh.write(name, text)
    return sh.folder


def test_each_line_is_a_message_that_continues_the_one_before(chats: Path, sh: Shell) -> None:
    done = sh(
        "chat", "echo.yaml", "--script", "two.yaml", "--run-id", "c", "--var", "word=x",
        "--session", "ann", stdin="I am Ann.\n\nWho am I?\n",
    )  # fmt: skip
    assert (done.code, done.out) == (0, "Hello Ann.\nYou are Ann.\n"), done.err
    assert "continue with:  chartloop chat echo.yaml --continue " in done.err
    rows = sh("runs", "--session", "ann", "--format", "json").json
    assert len(rows) == 2
    newest = next(row["run"] for row in rows if row["run"] != "c")
    shown = sh("show", newest, "--format", "json").json
    assert "I am Ann." in json.dumps(shown)


def test_a_message_on_the_command_line_comes_first_and_another_run_goes_on(
    chats: Path, sh: Shell
) -> None:
    first = sh("chat", "echo.yaml", "I am Ann.", "--script", "two.yaml", "--run-id", "c")
    assert first.out == "Hello Ann.\n"
    (chats / "rest.yaml").write_text("replies: [You are Ann.]\n")
    then = sh("chat", "echo.yaml", "--continue", "c", "--script", "rest.yaml", stdin="Who?\n")
    assert (then.code, then.out) == (0, "You are Ann.\n"), then.err


def test_a_stop_by_a_limit_is_said_and_the_conversation_goes_on(chats: Path, sh: Shell) -> None:
    done = sh("chat", "echo.yaml", "--script", "late.yaml", stdin="Go.\nWho am I?\n")
    assert done.code == 0
    assert done.out == "again\nagain\nYou are Ann.\n"
    assert "Stopped by a limit (`steps_limit`)" in done.err


def test_a_conversation_in_memory_cannot_be_continued(chats: Path, sh: Shell) -> None:
    done = sh("chat", "echo.yaml", "--in-memory", "--continue", "c")
    assert done.code == 2
    assert "--continue goes with the journal" in done.err


def test_a_question_without_a_terminal_is_left_waiting_with_the_commands(
    chats: Path, sh: Shell
) -> None:
    done = sh("chat", *BUYING, stdin="Buy.\n")
    assert done.code == 4
    assert "chartloop answer c accept" in done.err


def test_lines_that_come_at_once_are_messages_while_the_pipe_stays_open(chats: Path) -> None:
    arguments = [*PROGRAM, "chat", "echo.yaml", "--script", "two.yaml"]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=chats
    ) as chat:
        assert chat.stdin is not None
        assert chat.stdout is not None
        chat.stdin.write("I am Ann.\nWho am I?\n")
        chat.stdin.flush()
        assert [chat.stdout.readline(), chat.stdout.readline()] == [
            "Hello Ann.\n",
            "You are Ann.\n",
        ]
        chat.stdin.close()
        assert chat.wait(30) == 0


def test_a_message_is_not_lost_on_a_run_that_waits(chats: Path, sh: Shell) -> None:
    sh("chat", *BUYING, stdin="Buy.\n")
    done = sh("chat", "gate.yaml", "Well?", "--tools", "shop.py", "--continue", "c")
    assert done.code == 2
    assert "leave MESSAGE out" in done.err


@pytest.mark.slow("talks at a terminal")
def test_a_machine_that_waits_for_messages_is_talked_to_in_one_run(chats: Path, sh: Shell) -> None:
    with Terminal("chat", "talk.yaml", "--script", "two.yaml", "--run-id", "c", cwd=chats) as t:
        t.expect("(or /bye)")
        t.expect("you> ")
        t.type("I am Ann.\n")
        t.expect("Hello Ann.")
        t.expect("you> ")
        t.type("/nothing\n")
        t.expect("1  say")
        t.expect("answer (number or name")
        t.type("1\n")
        t.expect("text (str): ")
        t.type("Who?\n")
        t.expect("You are Ann.")
        t.expect("you> ")
        t.type("/bye\n")
        t.expect("chartloop chat talk.yaml --continue c")
        assert t.wait() == 0
    shown = sh("show", "c", "--format", "json").json
    assert shown["reason"] == "completed"


@pytest.mark.slow("talks at a terminal")
def test_an_approval_is_asked_in_its_place(chats: Path) -> None:
    with Terminal(
        "chat", "gate.yaml", "--tools", "shop.py", "--script", "buys.yaml", cwd=chats
    ) as t:
        t.expect("Ctrl-D leaves")
        t.expect("you> ")
        t.type("Buy.\n")
        t.expect('· buy(item="chair", usd=490)')
        t.expect("accept")
        t.expect("answer (number or name")
        t.type("accept\n")
        t.expect("by (str): ")
        t.type("eve\n")
        t.expect("remember (bool, empty to leave it out): ")
        t.type("\n")
        t.expect("which calls (1 3; empty for all): ")
        t.type("2\n")
        t.expect("note on 1 (")
        t.type("\n")
        t.expect("Done.")
        t.expect("you> ")
        t.type("\x04")
        assert t.wait() == 0
    assert (chats / "bought.txt").read_text() == "desk 200.0\n"


@pytest.mark.slow("talks at a terminal")
def test_a_paste_of_several_lines_is_one_message(chats: Path, sh: Shell) -> None:
    with Terminal("chat", "echo.yaml", "--script", "two.yaml", "--run-id", "c", cwd=chats) as t:
        t.expect("you> ")
        t.type("I am Ann.\nThat is\nall.\n")
        t.expect("Hello Ann.")
        t.expect("you> ")
        t.type("\x04")
        t.wait()
    shown = sh("show", "c", "--format", "json").out
    assert json.loads(shown)["records"][0]["data"]["task"] == "I am Ann.\nThat is\nall."
