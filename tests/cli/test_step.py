"""`chartloop step`: the prompt, piped."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.cli.shell import ADD, ASK, Done, Shell


def stepped(sh: Shell, *commands: str, args: tuple[str, ...] = ADD) -> Done:
    return sh("step", *args, "--run-id", "r", stdin="".join(f"{c}\n" for c in commands))


def said(done: Done, command: str, prompt: str = "adder> ") -> list[str]:
    """What followed a command, spaces made one."""
    after = done.out.split(f"{prompt}{command}\n", 1)[1].split(f"\n{prompt}")[0]
    return [" ".join(line.split()) for line in after.splitlines()]


def test_it_shows_what_comes_and_what_would_be_decided(sh: Shell) -> None:
    done = stepped(sh, "do", "quit")
    first = [" ".join(line.split()) for line in done.out.split("adder> ")[0].splitlines()]
    assert first[0] == "step 1 at receive, running"
    assert "does receive: Puts the task into the conversation." in first
    assert "then → think" in first
    assert "rules 3 evaluated first" in first
    assert "░░░░░░░░░░ run.steps 0 of 20" in first
    then = said(done, "do")
    assert then[0] == "1 receive: ok → think"
    assert then[1] == "step 2 at think, running"
    assert "then len(last.tool_calls) > 0 → act" in then
    assert "otherwise → done" in then
    assert "continue with: chartloop resume r --tools tools.py" in " ".join(done.err.split())
    assert done.code == 0


def test_enter_next_and_n_do_the_action(sh: Shell) -> None:
    done = stepped(sh, "", "next", "n", "do")
    assert "Done at `done`" in done.out
    assert done.code == 0
    assert sh("show", "r", "--format", "json").json["steps"] == 4


def test_the_text_of_the_model_is_shown_as_it_comes(sh: Shell) -> None:
    assert "Let me add." in said(stepped(sh, "", "do"), "do")


def test_why_and_facts(sh: Shell) -> None:
    done = stepped(sh, "", "", "why", "why 1", "facts usage.total", "facts zzz", "why 99")
    assert "✓ len(last.tool_calls) > 0 1 against 0 act" in said(done, "why")
    assert "led to receive → think, running" in said(done, "why 1")
    assert said(done, "facts usage.total") == ["usage.total_tokens 60"]
    assert "no fact has `zzz`" in said(done, "facts zzz")[0]
    assert "records are numbered 0 to 2" in " ".join(said(done, "why 99"))


def test_a_value_is_no_order_to_a_terminal(sh: Shell) -> None:
    done = stepped(sh, "set vars.approach \x1b[31mred\x9b", "facts vars.approach")
    assert "vars.approach = \ufffd[31mred\ufffd" in done.out
    assert not {"\x1b", "\x9b"} & set(done.out)


def test_set_changes_a_limit_on_the_record(sh: Shell) -> None:
    done = stepped(sh, "set steps 2", "set vars.tries 9", "facts vars.tries", "run", "records")
    assert said(done, "set steps 2") == ["limits.steps = 2"]
    assert said(done, "facts vars.tries") == ["vars.tries 9"]
    assert "Stopped by a limit (`steps_limit`)" in "\n".join(said(done, "run"))
    assert done.code == 3
    kinds = [r["kind"] for r in sh("show", "r", "--format", "json").json["records"]]
    assert kinds == ["start", "edit", "edit", "step", "step"]


class Refused(NamedTuple):
    """A command that cannot be done, and what is said."""

    id: str
    command: str
    says: str


REFUSED = [
    Refused("unknown", "frobnicate", "there is no command `frobnicate`"),
    Refused("nearest", "recrods", "did you mean `records`?"),
    Refused("limit", "set limits.stps 3", "did you mean `steps`?"),
    Refused("value", "set steps many", "limit `steps` is int: `many` is not"),
    Refused("no-value", "set steps", "a value is missing"),
    Refused("root", "set usage.cost 3", "cannot be set"),
    Refused("state", "run to actt", "did you mean `act`?"),
    Refused("no-state", "run to", "is not understood"),
    Refused("answer", "answer ok", "the run waits for nothing"),
    Refused("answer-nothing", "answer", "the run waits for nothing"),
    Refused("back", "back 9", "9 records cannot be taken back"),
    Refused("number", "back two", "`two` is not a number"),
    Refused("do", "do it", "`do` takes no argument"),
    Refused("private", "_step", "there is no command `_step`"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_what_cannot_be_done_is_said_and_the_prompt_goes_on(sh: Shell, case: Refused) -> None:
    done = stepped(sh, case.command, "facts run.steps")
    assert case.says in " ".join(said(done, case.command))
    assert said(done, "facts run.steps") == ["run.steps 0"]


class Keyed(NamedTuple):
    """A key of the full screen, and what it comes to at the prompt."""

    key: str
    says: str


KEYED = [
    Keyed("s", "1  receive: ok"), Keyed("r", "Done at"), Keyed("t act", "at act, running"),
    Keyed("a", "the run waits for nothing"), Keyed("b 9", "9 records cannot be taken back"),
    Keyed("w 0", "led to"), Keyed("m", "▶ ● receive"), Keyed("e steps 7", "limits.steps = 7"),
    Keyed("f", "stays as it is; now run"), Keyed("k act", "stops before the state `act`"),
    Keyed("d now.txt", "now.txt is written"), Keyed("q", "continue with"),
]  # fmt: skip


@pytest.mark.parametrize("case", KEYED, ids=lambda case: case.key)
def test_the_keys_of_the_screen_are_commands(sh: Shell, case: Keyed) -> None:
    done = stepped(sh, case.key)
    assert case.says in done.out + done.err


def test_back_takes_records_back_as_a_new_run(sh: Shell) -> None:
    done = stepped(sh, "", "", "", "back 2", "run")
    back = said(done, "back 2")
    assert back[0].startswith("back before the last 2 records; now run ")
    assert back[1] == "step 2 at think, running"
    assert "Done at" in "\n".join(said(done, "run"))
    rows = {r["run"]: r for r in sh("runs", "--format", "json").json}
    assert rows["r"]["steps"] == 3
    assert len(rows) == 2


def test_run_to_a_state(sh: Shell) -> None:
    done = stepped(sh, "run to act", "draw")
    assert "step 3 at act, running" in said(done, "run to act")
    assert "│ ▶ act" in "\n".join(said(done, "draw")).replace("┃", "│")
    assert "step 3 at act" in " ".join(sh("step", *ADD, "--to", "act").out.split())


def test_an_answer_before_the_wait_is_not_kept_and_does_nothing(sh: Shell) -> None:
    done = stepped(sh, "answer ok", "facts run.steps", "run", args=ASK)
    assert "the run waits for nothing" in " ".join(said(done, "answer ok", "asker> "))
    assert said(done, "facts run.steps", "asker> ") == ["run.steps 0"]
    assert "asks Is forty-one right?" in said(done, "run", "asker> ")


def test_an_answer_says_which(sh: Shell) -> None:
    done = stepped(sh, "run", "answer", "answer ok =x", "answer ok 'x", args=ASK)
    assert "a field is written NAME=VALUE" in " ".join(said(done, "answer ok =x", "asker> "))
    assert "name the event: fix, ok, abort" in " ".join(said(done, "answer", "asker> "))
    assert "this cannot be read" in " ".join(said(done, "answer ok 'x", "asker> "))


def test_answers(sh: Shell) -> None:
    done = stepped(
        sh, "run", "do", "answer fix note='use 3' count=2 sure=yes", "answer fix note='use 3' count=2 sure=true",
        "run", "answer ok", "do", args=ASK,
    )  # fmt: skip
    waits = said(done, "run", "asker> ")
    assert "asks Is forty-one right?" in waits
    assert "answer answer fix note=STR count=INT sure=BOOL → goes on to “think”" in waits
    assert "the run waits" in said(done, "do", "asker> ")[0]
    assert "`sure` of `fix` is bool" in done.out
    assert "Done at" in "\n".join(said(done, "answer ok", "asker> "))
    assert "the run has ended" in done.out
    assert done.code == 0


def test_draw_into_a_file(sh: Shell) -> None:
    stepped(sh, "draw chart.mmd")
    assert (
        (sh.folder / "chart.mmd")
        .read_text()
        .startswith('%%{init: {"flowchart": {"wrappingWidth": 480}}}%%\nflowchart')
    )


def test_help_names_every_command(sh: Shell) -> None:
    told = "\n".join(said(stepped(sh, "help"), "help"))
    for word in (
        "do",
        "why",
        "facts",
        "set",
        "back",
        "run to",
        "answer",
        "draw",
        "records",
        "quit",
    ):
        assert word in told


def test_an_answer_of_several_lines(sh: Shell) -> None:
    note = "answer fix note='use 3,\n\nnot 4' count=3 sure=true"
    done = stepped(sh, "run", note, "facts vars.note", "quit", args=ASK)
    assert "a quote is open: close it, or press Ctrl-C to give up" in done.out
    assert 'vars.note  "use 3,\\n\\nnot 4"' in done.out


def test_an_answer_whose_quote_never_ends_is_refused(sh: Shell) -> None:
    done = stepped(sh, "run", "answer fix note='use 3", "quit", args=ASK)
    assert "this cannot be read: No closing quotation" in done.out
    assert sh("show", "r", "--format", "json").json["wait"] == "3"


RAISES = """\
from chartloop import tool


@tool(effect="pure")
def add(a: int, b: int) -> int:
    \"""Add two numbers.\"""
    raise ValueError("no such item: 3")
"""


def test_a_tool_that_raised_is_shown_as_failed(sh: Shell) -> None:
    sh.write("tools.py", RAISES)
    done = stepped(sh, "", "", "", "records", "draw", "quit")
    came = "1 of 1 calls failed: add: ValueError: no such item: 3"
    assert f"3  call_tools: {came}  → think" in done.out
    assert "1 of 1 calls failed" in " ".join(said(done, "records"))
    assert "↻ 1 recovered" in " ".join(said(done, "draw"))
    assert "1 of 1 calls failed" in " ".join(sh("show", "r").out.split())


def test_a_failed_call_is_shown_and_can_be_done_again(sh: Shell) -> None:
    sh.write(
        "busy.yaml", "replies:\n  - {error: {category: TRANSIENT, message: busy}}\n  - It is 5.\n"
    )
    done = stepped(sh, "", "do", args=(*ADD[:-1], "busy.yaml"))
    assert "2 infer: failed: TRANSIENT busy" in " ".join(said(done, "do"))
    assert done.code == 1
