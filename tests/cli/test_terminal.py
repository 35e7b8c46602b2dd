"""At a terminal: the live view, questions in place, Ctrl-C, colours. A real pseudo-terminal."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from chartloop.extras import install
from tests.cli.shell import ADD, ASK, ASKER, ROOT, Shell, Terminal, program, slowly


def row_of(sh: Shell, run: str = "r") -> dict[str, Any]:
    rows = sh("runs", "--format", "json").json
    return next(r for r in rows if r["run"] == run)


@pytest.mark.slow("plays at a terminal for seconds")
def test_the_live_view_shows_state_budgets_and_the_last_decision(folder: Path) -> None:
    (folder / "slow.yaml").write_text(
        slowly("700ms", 3).replace("hm", "thinking aloud") + "  - enough\n"
    )
    with Terminal(
        "run", "looper.yaml", "x", "--script", "slow.yaml", "--run-id", "r", cwd=folder
    ) as t:
        t.expect("looper · r")
        t.expect("think  running  step 2: infer")
        t.expect("run.steps")
        t.expect("░░░░░░░░░░")
        t.expect("1 of 500")
        t.expect("last   receive → think")
        t.expect("Ctrl-C stops before the next action")
        t.expect("step 3: infer")
        t.expect("2 of 500")
        t.expect('last   think → done  because last.text == "enough"')
        t.expect("enough\r\n")
        t.expect("Done at `done` after 5 steps")
        assert t.wait() == 0


@pytest.mark.slow("plays at a terminal for seconds")
def test_time_passes_in_the_view_while_an_action_takes_it(folder: Path) -> None:
    (folder / "slow.yaml").write_text(slowly("3s", 1) + "  - enough\n")
    text = (folder / "looper.yaml").read_text().replace("{steps: 500}", "{time: 5s}")
    rule = "rules: [{when: run.working >= limits.time, stop: time_limit}]"
    text = re.sub("^rules:.*$", rule, text, flags=re.MULTILINE)
    (folder / "looper.yaml").write_text(text)
    with Terminal("run", "looper.yaml", "x", "--script", "slow.yaml", cwd=folder) as t:
        t.expect("step 2: infer")
        t.expect("██░░░░░░░░  1")  # a second of five, while the first call is made
        t.expect("enough")
        assert t.wait() == 0


@pytest.mark.slow("plays at a terminal for seconds")
def test_a_budget_turns_amber_and_red(folder: Path) -> None:
    script = slowly("600ms", 3).replace("prompt_tokens: 5", "prompt_tokens: 899")
    (folder / "slow.yaml").write_text(script)
    text = (folder / "looper.yaml").read_text()
    text = text.replace("{steps: 500}", "{steps: 500, tokens: 2000}")
    text = text.replace(
        "stop: steps_limit}]",
        "stop: steps_limit}, {when: usage.total_tokens >= limits.tokens, stop: token_limit}]",
    )
    (folder / "looper.yaml").write_text(text)
    with Terminal("run", "looper.yaml", "x", "--script", "slow.yaml", cwd=folder) as t:
        t.expect("900 of 2,000")
        t.expect("1,800 of 2,000")
        assert t.wait() == 3
        assert "\x1b[32m████░░░░░░" in t.raw
        assert "\x1b[33m█████████░" in t.raw


LONG = "{when: last.text == 'a long text that nobody ever says' and run.stps >= 1, to: done}"


@pytest.mark.slow("plays at a terminal for seconds")
def test_a_long_line_is_shown_round_its_mistake(folder: Path) -> None:
    text = (folder / "looper.yaml").read_text()
    (folder / "bad.yaml").write_text(text.replace('{when: last.text == "enough", to: done}', LONG))
    with Terminal("check", "bad.yaml", cwd=folder, columns=60) as t:
        assert t.wait() == 1
        lines = t.shown.replace("\r", "").splitlines()
    source = next(n for n, line in enumerate(lines) if "run.stps >=" in line)
    assert max(map(len, lines)) <= 60
    assert "| …" in lines[source]
    at = lines[source].index("run.stps")
    assert lines[source + 1][at : at + 8] == "^" * 8
    assert lines[source + 1].count("^") == 8
    piped = program("check", "bad.yaml", cwd=folder).out
    assert LONG in piped


def test_sentences_fit_a_narrow_terminal_and_commands_stay_whole(folder: Path) -> None:
    (folder / "fails.yaml").write_text(
        "replies: [{error: {category: CRITICAL, message: the key that was given is not known}}]\n"
    )
    args = ("run", *ADD[:4], "--script", "fails.yaml", "--run-id", "r", "--journal")
    journal = "a-folder-with-a-name/that-is-long/journal.db"
    with Terminal(*args, journal, "-v", cwd=folder, columns=60) as t:
        assert t.wait() == 1
        said = t.shown.replace("\r", "")
    assert (
        "Last error: CRITICAL at `think`, step 2: the key that was\n  given is not known\n" in said
    )
    assert f"  chartloop retry r --journal {journal} --tools tools.py\n" in said


@pytest.mark.slow("plays at a terminal for seconds")
def test_no_view_where_the_terminal_is_dumb_or_lines_are_wanted(folder: Path) -> None:
    with Terminal("run", *ADD, cwd=folder, TERM="dumb") as t:
        assert t.wait() == 0
        assert "\x1b" not in t.raw
        assert "It is 5." in t.shown
    with Terminal("run", *ADD, "-v", cwd=folder) as t:
        t.expect("  2  think  infer ok, calls add  → act")
        assert t.wait() == 0


@pytest.mark.slow("plays at a terminal for seconds")
def test_no_colour_where_none_is_wanted(folder: Path) -> None:
    with Terminal("check", "agent", cwd=folder) as t:
        assert t.wait() == 0
        assert "\x1b[32m" in t.raw
    with Terminal("check", "agent", cwd=folder, NO_COLOR="1") as t:
        assert t.wait() == 0
        assert "\x1b" not in t.raw


@pytest.mark.slow("plays at a terminal for seconds")
def test_what_a_model_says_cannot_steer_the_terminal(folder: Path) -> None:
    (folder / "evil.yaml").write_text('replies: ["\\e]0;owned\\a\\e[2J hello \\u202e \\r gone"]\n')
    with Terminal(
        "run", "agent", "x", "--script", "evil.yaml", "--run-id", "r", "-v", cwd=folder
    ) as t:
        assert t.wait() == 0
        assert "\x1b]0;" not in t.raw
        assert "\x1b[2J" not in t.raw
        assert "\u202e" not in t.raw
    with Terminal("show", "r", cwd=folder) as t:
        assert t.wait() == 0
        assert "\x1b]0;" not in t.raw
    run = ("run", "agent", "x", "--script", "evil.yaml")
    assert "\x1b" not in program(*run, cwd=folder).out  # a pipe may end at a terminal
    data = json.loads(program(*run, "--format", "json", cwd=folder).out)
    assert data["output"].startswith("\x1b]0;owned\a")  # a program gets what was said


# asking -------------------------------------------------------------------------------------


@pytest.mark.slow("plays at a terminal for seconds")
def test_a_question_is_asked_in_place(folder: Path, sh: Shell) -> None:
    with Terminal("run", *ASK, "--run-id", "r", cwd=folder) as t:
        t.expect("Is forty-one right?")
        t.expect("1  fix   note (str), count (int), sure (bool)")
        t.expect("2  ok")
        t.expect("no answer within 5 min")
        t.expect("leave it waiting): ")
        t.type("maybe\n")
        t.expect("`maybe` is not one of them")
        t.expect("leave it waiting): ")
        t.type("1\n")
        t.expect("note (str): ")
        t.type("use 3\n")
        t.expect("count (int): ")
        t.type("three\n")
        t.expect("that is not of type int")
        t.expect("count (int): ")
        t.type("3\n")
        t.expect("sure (bool): ")
        t.type("y\n")
        t.expect("Is forty-two right?")
        t.expect("leave it waiting): ")
        t.type("ok\n")
        assert t.wait() == 0
    records = sh("show", "r", "--format", "json").json["records"]
    answers = [r["data"] for r in records if r["kind"] == "answer" and "data" in r]
    assert answers == [{"note": "use 3", "count": 3, "sure": True}]


@pytest.mark.slow("plays at a terminal for seconds")
def test_an_answer_of_several_lines_is_pasted(folder: Path, sh: Shell) -> None:
    with Terminal("run", *ASK, "--run-id", "r", cwd=folder) as t:
        t.expect("leave it waiting): ")
        t.type("fix\n")
        t.expect("note (str): ")
        t.type("first\nok\n\n  third")
        t.expect("`.` on its own line ends them")
        t.type(" line\n.\n")
        t.expect("count (int): ")
        t.type("3\n")
        t.expect("sure (bool): ")
        t.type("y\n")
        t.expect("Is forty-two right?")
        t.expect("leave it waiting): ")
        t.type("ok\n")
        assert t.wait() == 0
    records = sh("show", "r", "--format", "json").json["records"]
    (answer,) = (r["data"] for r in records if r["kind"] == "answer" and "data" in r)
    assert answer["note"] == "first\nok\n\n  third line"


@pytest.mark.slow("plays at a terminal for seconds")
@pytest.mark.parametrize("key", ["\n", "\x04", "\x03"], ids=["enter", "ctrl-d", "ctrl-c"])
def test_a_question_may_be_left(folder: Path, sh: Shell, key: str) -> None:
    with Terminal("run", *ASK, "--run-id", "r", cwd=folder) as t:
        t.expect("leave it waiting): ")
        t.ctrl_c() if key == "\x03" else t.type(key)
        t.expect("chartloop answer r ok")
        assert t.wait() == 4
    assert row_of(sh)["status"] == "paused"


def test_nothing_is_asked_where_nobody_wants_to_be(folder: Path) -> None:
    with Terminal("run", *ASK, "--no-input", cwd=folder) as t:
        assert t.wait() == 4
        assert "leave it waiting" not in t.shown


@pytest.mark.slow("plays at a terminal for seconds")
def test_a_question_expires_while_it_is_asked(folder: Path, sh: Shell) -> None:
    (folder / "asker.yaml").write_text(ASKER.replace("answer: 5m", "answer: 1500ms"))
    with Terminal("run", *ASK, "--run-id", "r", cwd=folder) as t:
        t.expect("leave it waiting): ")
        assert t.wait() == 5
    assert row_of(sh)["reason"] == "user_unresponsive"


@pytest.mark.slow("plays at a terminal for seconds")
def test_an_answer_may_come_from_elsewhere(folder: Path, sh: Shell) -> None:
    (folder / "guesses.yaml").write_text("replies: [forty-two]\n")
    with Terminal("run", *ASK, "--run-id", "r", cwd=folder) as t:
        t.expect("leave it waiting): ")
        sh.patient()
        sent = sh("answer", "r", "ok")
        assert "run r has taken the answer: done at done" in sent.err
        assert t.wait() == 0


# interruptions ------------------------------------------------------------------------------


@pytest.mark.slow("plays at a terminal for seconds")
def test_ctrl_c_at_the_terminal(folder: Path, sh: Shell) -> None:
    (folder / "slow.yaml").write_text(slowly("2s", 9))
    args = ("run", "looper.yaml", "x", "--script", "slow.yaml", "--run-id", "r")
    with Terminal(*args, cwd=folder) as t:
        t.expect("step 2: infer")
        t.ctrl_c()
        t.expect("stopping before the next action")
        assert t.wait() == 130
        assert "^C" not in t.raw  # it would shift the frame
    assert row_of(sh)["reason"] == "user_requested"
    with Terminal(*args[:-1], "s", cwd=folder) as t:
        t.expect("step 2: infer")
        t.ctrl_c()
        t.expect("stopping before the next action")
        t.ctrl_c()
        t.expect("continue with:  chartloop resume s")
        assert t.wait() == 130
        assert t.raw.rindex("\x1b[?25h") > t.raw.rindex("\x1b[?25l")  # the cursor is back
    assert row_of(sh, "s")["status"] == "running"


@pytest.mark.slow("plays at a terminal for seconds")
def test_ctrl_c_at_the_prompt_leaves_the_run(folder: Path, sh: Shell) -> None:
    with Terminal("step", "--plain", *ADD, "--run-id", "r", cwd=folder) as t:
        t.expect("adder> ")
        t.type("\n")
        t.expect("step 2  at think")
        t.expect("adder> ")
        t.ctrl_c()
        t.expect("continue with:  chartloop resume r --tools tools.py")
        assert t.wait() == 130
    assert row_of(sh)["steps"] == 1


@pytest.mark.slow("plays at a terminal for seconds")
def test_the_prompt_has_history(folder: Path) -> None:
    with Terminal("step", "--plain", *ADD, cwd=folder) as t:
        t.expect("adder> ")
        t.type("facts run.steps\n")
        t.expect("run.steps  0")
        t.expect("adder> ")
        t.type("\x1b[A\n")  # the key up
        t.expect("run.steps  0")
        t.type("quit\n")
        assert t.wait() == 0


def test_rm_asks(sh: Shell) -> None:
    sh("run", *ADD, "--run-id", "r")
    with Terminal("runs", "rm", "r", cwd=sh.folder) as t:
        t.expect("remove 1 run from .chartloop/journal.db? [y/N]: ")
        t.type("n\n")
        assert t.wait() == 130
    assert row_of(sh)["run"] == "r"
    with Terminal("runs", "rm", "r", cwd=sh.folder) as t:
        t.expect("[y/N]: ")
        t.type("y\n")
        assert t.wait() == 0
    assert sh("runs", "--format", "json").json == []


# step ---------------------------------------------------------------------------------------

SCREEN = pytest.mark.extra(  # noqa: S610 - no Django
    "textual", install='pip install -e ".[tui]"'
)


@pytest.mark.slow("plays at a terminal for seconds")
@SCREEN
def test_step_is_a_full_screen(folder: Path, sh: Shell) -> None:
    with Terminal("step", *ADD, "--run-id", "r", cwd=folder, columns=120) as t:
        t.expect("running at receive")
        t.expect("1 State")
        t.expect("▶ receive")
        t.type("s")
        t.expect("running at think")
        t.type("r")
        t.expect("done at done")
        t.type("q")
        assert t.wait() == 0
        assert "\x1b[?1049h" in t.raw
        assert "\x1b[?1049l" in t.raw
        assert "Done at `done`" in t.shown
    assert row_of(sh)["reason"] == "completed"


@pytest.mark.slow("plays at a terminal for seconds")
@SCREEN
def test_ctrl_c_on_the_screen_stops_before_the_next_action(folder: Path, sh: Shell) -> None:
    args = ("looper.yaml", "x", "--script", "slow.yaml", "--run-id", "r")
    with Terminal("step", *args, cwd=folder, columns=120) as t:
        t.expect("running at receive")
        t.type("r")
        t.expect("infer: ok")
        t.ctrl_c()
        t.expect("stopping before the next action")
        time.sleep(1)
        t.type("q")
        assert t.wait() == 0
        assert "continue with:  chartloop resume r" in t.shown
    assert 1 < row_of(sh)["steps"] < 60


@pytest.mark.slow("plays at a terminal for seconds")
@SCREEN
def test_a_run_that_is_left_in_the_middle_of_an_action_goes_on_later(
    folder: Path, sh: Shell
) -> None:
    (folder / "slow.yaml").write_text(slowly("90s", 1))
    args = ("looper.yaml", "x", "--script", "slow.yaml", "--run-id", "r")
    with Terminal("step", *args, "--to", "think", cwd=folder, columns=120) as t:
        t.expect("running at think")
        t.type("s")
        t.expect(" do ")
        t.type("q")
        assert t.wait() == 0
        assert "continue with:  chartloop resume r" in t.shown
    (folder / "slow.yaml").write_text("replies: [enough]\n")
    assert sh("resume", "r", "--script", "slow.yaml").code == 0
    assert row_of(sh)["reason"] == "completed"


@pytest.mark.slow("plays at a terminal for seconds")
@pytest.mark.parametrize("plain", [("--plain", ""), ("", "dumb")], ids=["asked-for", "dumb"])
def test_step_is_a_prompt_where_a_screen_is_not_wanted(
    folder: Path, plain: tuple[str, str]
) -> None:
    option, terminal = plain
    args = ("step", *ADD, "--run-id", "r", *([option] if option else []))
    with Terminal(*args, cwd=folder, TERM=terminal or "xterm-256color") as t:
        t.expect("adder> ")
        t.type("do\n")
        t.expect("step 2  at think, running")
        t.expect("adder> ")
        t.type("draw\n")
        t.expect("┃ ▶ think")
        t.expect("adder> ")
        t.type("break act\n")
        t.expect("`run` stops before the state `act`")
        t.type("run\n")
        t.expect("stopped at the breakpoint `act`")
        t.type("fork\n")
        t.expect("run r stays as it is; now run ")
        t.type("quit\n")
        assert t.wait() == 0
        assert "\x1b[?1049h" not in t.raw


def test_step_without_textual_says_what_brings_the_screen(folder: Path) -> None:
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['textual'] = None\n")
    path = f"{hidden}:{ROOT / 'engine'}"
    with Terminal("step", *ADD, cwd=folder, PYTHONPATH=path) as t:
        t.expect(f"a full screen needs textual:  {install('tui')}")
        t.expect("adder> ")
        t.type("quit\n")
        assert t.wait() == 0


# draw ---------------------------------------------------------------------------------------


@pytest.mark.slow("plays at a terminal for seconds")
def test_a_picture_is_as_wide_as_the_terminal_and_in_colours(folder: Path) -> None:
    for columns in (80, 120):
        with Terminal("draw", "moderator", cwd=folder, columns=columns) as t:
            assert t.wait() == 0
            lines = t.shown.replace("\r", "").splitlines()
        assert max(map(len, lines)) <= columns
        assert any("■ STOP: Token Limit" in line for line in lines)
        assert "\x1b[31m" in t.raw
    with Terminal("draw", "moderator", cwd=folder, columns=40) as t:
        assert t.wait() == 0
        assert "[stop_tokens]" in t.shown
        assert "an outline:" in t.shown


@pytest.mark.extra("textual", install=install("tui"))  # noqa: S610 - no Django
def test_keys_that_come_before_the_step_screen_leave_no_trace(folder: Path) -> None:
    (folder / "slow.yaml").write_text("- enough\n")
    with Terminal("step", "looper.yaml", "x", "--script", "slow.yaml", cwd=folder) as t:
        t.expect("journal")
        t.type("hkyzz")
        t.expect("1 State")
        t.type("q")
        t.expect("continue with")
        assert t.wait() == 0
        assert "hkyzz" not in t.raw


LETTER = "The letter begins. " + "word " * 2_500 + "The letter ends."


def test_a_long_question_is_answered_once_it_was_shown(folder: Path, sh: Shell) -> None:
    (folder / "long.yaml").write_text(json.dumps({"replies": [LETTER]}))
    rests = sh("run", "asker.yaml", "x", "--script", "long.yaml", "--run-id", "r", "--no-input")
    assert rests.code == 4
    refused = sh("answer", "r", "ok")
    assert (refused.code, "were not shown" in refused.err) == (2, True)
    shown = sh("show", "r").out
    assert "chartloop show r --question" in shown
    assert "The letter ends." not in shown.partition("--question")[0]
    whole = sh("show", "r", "--question")
    assert "The letter ends. right?" in whole.out
    digest = whole.err.rsplit("--shown ", 1)[1].strip()
    assert sh("answer", "r", "ok", "--shown", digest).code == 0


@pytest.mark.slow("plays at a terminal for seconds")
@pytest.mark.parametrize("shows", [True, False])
def test_the_prompt_asks_to_show_the_rest_of_a_question(folder: Path, shows: bool) -> None:
    (folder / "long.yaml").write_text(json.dumps({"replies": [LETTER]}))
    with Terminal(
        "run", "asker.yaml", "x", "--script", "long.yaml", "--run-id", "r", cwd=folder
    ) as t:
        t.expect("more follow")
        t.expect("show them")
        t.type("y\n" if shows else "\n")
        if shows:
            t.expect("The letter ends. right?")
            t.expect("answer (number or name")
            t.type("ok\n")
        assert t.wait() == (0 if shows else 4)


def test_a_run_says_who_submitted_it(folder: Path, sh: Shell) -> None:
    (folder / "ok.yaml").write_text("replies: [hm]\n")
    command = ("run", "asker.yaml", "x", "--script", "ok.yaml", "--run-id", "r", "--no-input")
    assert sh(*command, "--submitter", "ann").code == 4
    assert re.search(r"submitter +ann", sh("show", "r").out)


@pytest.mark.slow("plays at a terminal for seconds")
def test_many_runs_have_a_bar_with_failures_cost_and_time_left(folder: Path) -> None:
    lines = "".join(f'{{"task": "task {n}"}}\n' for n in range(10))
    (folder / "tasks.jsonl").write_text(lines)
    (folder / "quick.yaml").write_text("replies: [{text: enough, delay: 300ms}]\n")
    many = ("run", "looper.yaml", "--inputs", "tasks.jsonl", "--script", "quick.yaml")
    with Terminal(*many, "--concurrency", "2", cwd=folder, columns=120) as t:
        t.expect("██████████░░░░░░░░░░ 5 of 10 · 1 running · 0 failed · about ")
        t.expect(" s left · cost not known")
        t.expect("10 of 10 · 0 running · 0 failed · cost")
        t.expect("10 of 10 run: 10 natural")
        assert t.wait() == 0
