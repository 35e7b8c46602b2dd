"""Tasks that a run begins with: from the machine, from a file, from the caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import Run, SpecError, load
from chartloop.actions import builtin
from chartloop.core.errors import SetupError, TaskError
from chartloop.language.task_file import load_tasks
from chartloop.testing import MemoryJournal
from tests.found import Spot, spot, unmarked
from tests.playing import JSON, played

MACHINE = """chartloop: 1
machine: worker
model: {name: scripted}
tasks: %s
states:
  left: {ask: Left?, when: queue.size > 0, then: work, else: done}
  work: {do: work, failed: next, next: left}
  done: {stop: completed}
"""
OWN = "[{text: its own}]"


def started(folder: Path, own: str, **options: Any) -> Run:
    """A run of the machine with these tasks."""
    path = folder / "worker.yaml"
    path.write_text(MACHINE % own)
    given: dict[str, Any] = {"script": [], **options}
    return load(path).start(**given)


def waiting(run: Run) -> list[tuple[str, str, str]]:
    """The queue of a run that has begun: id, text and kind."""
    run.advance()
    return [(task.id, task.text, task.kind) for task in run.session.position.queue]


# what is taken ------------------------------------------------------------------------------


class Taken(NamedTuple):
    """What the machine and the caller say, and the queue that it gives."""

    id: str
    tasks: str
    given: Sequence[Any] | None
    queue: list[tuple[str, str, str]]


@pytest.mark.parametrize(
    "case",
    [
        Taken("the-machine's", OWN, None, [("task_1", "its own", "primary")]),
        Taken("texts", OWN, ["a", "b"], [("task_1", "a", "primary"), ("task_2", "b", "primary")]),
        Taken(
            "mapping",
            OWN,
            [{"id": "x", "text": "a", "kind": "improvement"}],
            [("x", "a", "improvement")],
        ),
        Taken("none-at-all", OWN, [], []),
        Taken("in-place-of-a-file-that-is-not-there", "{file: no.yaml}", ["a"], [("task_1", "a", "primary")]),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_what_the_caller_gives_replaces_what_the_file_has(case: Taken, tmp_path: Path) -> None:
    assert waiting(started(tmp_path, case.tasks, tasks=case.given)) == case.queue


class NoTask(NamedTuple):
    id: str
    given: Any
    says: str
    cure: str
    number: int = 0


@pytest.mark.parametrize(
    "case",
    [
        NoTask("number", [1], "task 1 is int", "write `{text"),
        NoTask("second", ["a", {"txt": "b"}], "task 2 has `txt`", "did you mean `text`?", 1),
        NoTask(
            "machine",
            ["a", {"text": "b", "by": {"machine": "x"}}],
            "task 2: unknown machine `x`",
            "",
            1,
        ),
        NoTask(
            "tool",
            [{"text": "a", "by": {"tool": "send_mesage"}}],
            "task 1: unknown tool `send_mesage`",
            "did you mean `send_message`?",
        ),
    ],
    ids=lambda case: case.id,
)
def test_what_is_no_task_is_refused_before_anything_runs(case: NoTask, tmp_path: Path) -> None:
    journal = MemoryJournal()
    with pytest.raises(TaskError, match=case.says) as caught:
        started(tmp_path, OWN, tasks=case.given, journal=journal, run_id="r")
    assert case.cure in caught.value.hint
    assert caught.value.number == case.number
    with pytest.raises(Exception, match="no run"):
        load(tmp_path / "worker.yaml").open("r", journal=journal)


def test_a_task_by_prompt_needs_a_model_and_says_so_at_once(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="is scripted"):
        started(tmp_path, "[]", script=None, tasks=["a"])
    by_tool = {"text": "a", "by": {"tool": "send_message"}}
    assert waiting(started(tmp_path, OWN, script=None, tasks=[by_tool]))


# a file of tasks ----------------------------------------------------------------------------


def test_a_file_of_tasks_is_read_when_the_run_starts(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "tasks.yaml").write_text("- one\n- {id: t, text: two, acceptance: seen}\n")
    run = started(tmp_path, "{file: more/tasks.yaml}")
    assert waiting(run) == [("task_1", "one", "primary"), ("t", "two", "primary")]
    assert run.session.position.queue[1].acceptance == "seen"
    (tmp_path / "more" / "tasks.yaml").unlink()
    assert run.replay().same  # what was read is on the record


PARENT = """chartloop: 1
machine: parent
machines:
  child:
    tasks: {file: t.yaml}
    states:
      count: {ask: Any?, when: queue.size == 2, then: done, else: none}
      none: {stop: error}
      done: {stop: completed}
tasks: {file: own.yaml}
states:
  go: {do: run_machine, with: {machine: child}, next: work}
  work: {do: work, next: done}
  done: {stop: completed}
"""


def test_a_child_machine_reads_its_own_file_and_a_task_may_name_a_child(tmp_path: Path) -> None:
    path = tmp_path / "parent.yaml"
    path.write_text(PARENT)
    (tmp_path / "own.yaml").write_text("- {text: again, by: {machine: child}}\n")
    with pytest.raises(SpecError, match=r"t\.yaml` is not a file"):  # before anything runs
        load(path).start()
    (tmp_path / "t.yaml").write_text("- one\n- two\n")
    result = load(path).run()
    assert (result.reason, result.path) == ("completed", ("go", "work", "done"))


class BadFile(NamedTuple):
    """A file of tasks with its faults marked, and what is said of each."""

    id: str
    text: str
    says: list[str]


@pytest.mark.parametrize(
    "case",
    [
        BadFile("not-yaml", "- [a«»\n", ["CL001"]),
        BadFile("nothing", "«»\n", ["CL001"]),
        BadFile("only-a-comment", "«»# none yet\n", ["CL001"]),
        BadFile("a-mapping", "«tasks»: [a]\n", ["CL203"]),
        BadFile("a-text", "«mend it»\n", ["CL203"]),
        BadFile("yaml-1.1-words", "- «3»\n- yes\n", ["CL203"]),
        BadFile("a-tag", "- «!!python/object» x\n", ["CL003"]),
        BadFile("key-twice", "- {text: a, «text»: b}\n", ["CL002"]),
        BadFile("unknown-key", "- {text: a, «priority»: 1}\n", ["CL201"]),
        BadFile("no-text", "- «{id: a}»\n", ["CL202"]),
        BadFile("text-is-a-list", "- text: «[a]»\n", ["CL203"]),
        BadFile("version", "- text: «1.10»\n", ["CL210"]),
        BadFile("kind", "- {text: a, kind: «later»}\n", ["CL208"]),
        BadFile("by-two", "- {text: a, «by»: {tool: send_message, prompt: b}}\n", ["CL207"]),
        BadFile("by-tool", "- {text: a, by: {tool: «send_mesage»}}\n", ["CL405"]),
        BadFile("by-machine", "- {text: a, by: {machine: «helper»}}\n", ["CL409"]),
        BadFile("id-twice", "- {id: x, text: a}\n- «{id: x, text: b}»\n", ["CL211"]),
        BadFile("all-at-once", "- «2»\n- {text: a, «siz»: 1}\n- {text: b, kind: «c»}\n", ["CL203", "CL201", "CL208"]),
        BadFile("a-file-of-files", "- «{«file»: other.yaml}»\n", ["CL202", "CL201"]),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_a_bad_file_of_tasks_is_a_finding_with_its_place(case: BadFile, tmp_path: Path) -> None:
    text, spots = unmarked(case.text)
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        started(tmp_path, "{file: t.yaml}")
    found = caught.value.findings
    assert [f.code for f in found] == case.says, str(caught.value)
    assert all(f.place.file.endswith("t.yaml") for f in found)
    assert [spot(f)[:2] for f in found] == [Spot(*s)[:2] for s in spots], str(caught.value)


def test_a_task_by_a_machine_says_where_the_machine_is_named() -> None:
    text = "- {text: a, by: {machine: helpr}}\n"
    hints = [
        load_tasks(text, "t.yaml", builtin(), machines)[1][0].hint for machines in ((), ("helper",))
    ]
    assert hints == [
        "name it under `machines` in the machine's own file",
        "did you mean `helper`?",
    ]


def _folder(path: Path) -> None:
    path.mkdir()


def _too_large(path: Path) -> None:
    path.write_text("- " + "x" * 1_000_001)


def _no_text(path: Path) -> None:
    path.write_bytes(b"- \xff\xfe\n")


def _locked(path: Path) -> None:
    path.symlink_to(path)


class Unreadable(NamedTuple):
    id: str
    make: Callable[[Path], None] | None
    code: str
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Unreadable("missing", None, "CL411", "is not a file"),
        Unreadable("a-folder", _folder, "CL411", "is not a file"),
        Unreadable("a-link-to-itself", _locked, "CL411", "is not a file"),
        Unreadable("too-large", _too_large, "CL005", "larger than 1,000,000 bytes"),
        Unreadable("not-utf-8", _no_text, "CL001", "0xFF"),
    ],
    ids=lambda case: case.id,
)
def test_a_file_that_cannot_be_read_is_one_error(case: Unreadable, tmp_path: Path) -> None:
    if case.make is not None:
        case.make(tmp_path / "t.yaml")
    with pytest.raises(SpecError) as caught:
        started(tmp_path, "{file: t.yaml}")
    (found,) = caught.value.findings
    assert (found.code, case.says in found.message) == (case.code, True), str(caught.value)
    if case.code == "CL411":  # the machine's own place, and the cure
        assert (found.place.line, found.hint) == (4, "the path is taken from the machine's folder")


@given(st.text(max_size=60) | JSON.map(str))
def test_no_text_does_more_than_give_findings(text: str) -> None:
    tasks, findings = load_tasks(text, "t.yaml", builtin())
    assert findings or isinstance(tasks, tuple)


# in a scenario ------------------------------------------------------------------------------


def test_a_scenario_gives_tasks_in_place_of_the_machine_its_own(tmp_path: Path) -> None:
    (tmp_path / "worker.yaml").write_text(MACHINE % "{file: no.yaml}")
    report = played(
        tmp_path,
        """machine: worker.yaml
tasks: [mend it, {id: t, text: test it}]
replies: [mended, tested]
expect: {reason: completed, facts: {queue.done: 2}}
""",
    )
    assert report.passed, str(report)


def test_a_scenario_without_tasks_leaves_those_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "worker.yaml").write_text(MACHINE % OWN)
    keys = "replies: [a]\nexpect: {facts: {queue.done: %d}}\n"
    assert played(tmp_path, "machine: worker.yaml\n" + keys % 1).passed
    none = "machine: worker.yaml\ntasks: []\nexpect: {facts: {queue.done: 0, queue.size: 0}}\n"
    assert played(tmp_path, none).passed
