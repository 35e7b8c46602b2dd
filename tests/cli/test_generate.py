"""`chartloop test MACHINE --generate`."""

from __future__ import annotations

from tests.cli.shell import Shell

HEAD = "chartloop: 1\nmachine: adder\nmodel: {name: scripted}\n"
WHOLE = HEAD + "states:\n  think: {do: infer, next: done}\n  done: {stop: completed}\n"
LOST = HEAD + """\
ignore: [{code: CL304, reason: a test}]
states:
  think: {do: infer, next: done}
  lost: {do: nothing, next: done}
  done: {stop: completed}
"""  # fmt: skip


def test_it_writes_once_and_says_what(sh: Shell) -> None:
    sh.write("adder.yaml", WHOLE)
    done = sh("test", "adder.yaml", "--generate", "found")
    assert done.code == 0, done.err
    assert "+ adder-state-think.scenario.yaml" in done.out
    assert "adder: 4 of 4 parts missing, 4 shown by 1 new scenario" in done.out
    assert sh("test", "found").code == 0
    again = sh("test", "adder.yaml", "--generate", "found")
    assert (again.code, again.out) == (0, "adder: none of 4 parts missing\n")


def test_the_exit_code_says_that_something_is_left(sh: Shell) -> None:
    sh.write("adder.yaml", LOST)
    done = sh("test", "adder.yaml", "--generate", "--format", "json")
    assert done.code == 1
    assert [one["part"] for one in done.json["left"]] == ["state lost", "edge lost.next.0"]
    assert [one["file"] for one in done.json["written"]] == ["adder-state-think.scenario.yaml"]


def test_what_does_not_go_together_is_refused(sh: Shell) -> None:
    sh.write("adder.yaml", WHOLE)
    assert "takes one MACHINE" in sh("test", "--generate").err
    assert "takes one MACHINE" in sh("test", "--generate", "adder.yaml").err
    assert "coverage goes without --generate" in sh(
        "test", "adder.yaml", "--generate", "--coverage"
    ).err  # fmt: skip
    assert "there is no machine file `nobody`" in sh("test", "nobody", "--generate").err
    sh.write("own.yaml", WHOLE.replace("do: infer", "do: mine"))
    assert "--tools FILE" in sh("test", "own.yaml", "--generate").err
