"""`chartloop diff` and `chartloop review`, in a git repository of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.studies.review.comment import MARKER, MOST
from tests.cli.shell import ADDER, Done, Shell, Terminal, program

pytestmark = pytest.mark.system("git", install="apt-get install git")
DOT = pytest.mark.system("dot", install="apt-get install graphviz")

PARENT = """\
chartloop: 1
machine: parent
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
machines: {kid: parts/kid.yaml}
states:
  go: {do: run_machine, with: {machine: kid, task: Hello}, next: done}
  done: {stop: completed}
"""
KID = """\
chartloop: 1
machine: kid
limits: {steps: 5}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  go: {do: receive, next: done}
  done: {stop: completed}
"""


def git(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    name = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *name, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def commit(folder: Path, message: str = "More") -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


@pytest.fixture
def repo(sh: Shell) -> Shell:
    """A repository with machines on `main`, and a branch `work` that has just begun."""
    (sh.folder / "parts").mkdir()
    sh.write("parent.yaml", PARENT)
    sh.write("parts/kid.yaml", KID)
    git(sh.folder, "init", "-q", "-b", "main")
    commit(sh.folder, "First")
    git(sh.folder, "checkout", "-q", "-b", "work")
    return sh


def change(sh: Shell, name: str, old: str, new: str) -> None:
    path = sh.folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# diff ---------------------------------------------------------------------------------------


def test_the_same_machine_gives_nothing(sh: Shell) -> None:
    sh.write("other.yaml", f"# with words\n{ADDER}")
    done = sh("diff", "adder.yaml", "other.yaml")
    assert (done.code, done.out) == (0, "adder: the same machine\n")


def test_a_difference_is_told_with_both_files_and_lines(sh: Shell) -> None:
    sh.write("other.yaml", ADDER.replace("steps: 20", "steps: 10").replace("Adds", "Sums"))
    done = sh("diff", "adder.yaml", "other.yaml")
    assert done.code == 1
    assert done.out == (
        "adder: 1 difference and 1 of words; stops sooner\n"
        "− adder.yaml\n+ other.yaml\n\n"
        "Limits\n  ~ limit `steps`: `20` → `10`: `steps_limit` stops sooner  (line 6)\n\n"
        "Words\n  ~ title: `Adds` → `Sums`  (line 3)\n"
    )
    assert "tool `add`" in done.err


def test_shipped_machines_can_be_compared(sh: Shell) -> None:
    assert sh("diff", "agent", "agent").code == 0
    assert sh("diff", "agent", "team").code == 1


def test_a_file_of_a_format_that_nobody_writes_is_refused(sh: Shell) -> None:
    done = sh("diff", "agent", "team", "-o", "changes.pdf")
    assert done.code == 2
    assert "`.pdf` is not a format: end the name with one of .svg .png" in done.err
    assert not (sh.folder / "changes.pdf").exists()


class Revision(NamedTuple):
    """A way to name a side, from the folder `parts` of the repository."""

    id: str
    source: str


@pytest.mark.parametrize(
    "case",
    [
        Revision("branch", "main:parts/kid.yaml"),
        Revision("from-here", "main:kid.yaml"),
        Revision("from-here-explicitly", "main:./kid.yaml"),
        Revision("relative", "HEAD:kid.yaml"),
        Revision("of-a-parent", "HEAD~0:parts/kid.yaml"),
    ],
    ids=lambda case: case.id,
)
def test_a_revision_is_read(repo: Shell, case: Revision, monkeypatch: pytest.MonkeyPatch) -> None:
    change(repo, "parts/kid.yaml", "steps: 5", "steps: 4")
    monkeypatch.chdir(repo.folder / "parts")
    done = repo("diff", case.source, "kid.yaml")
    assert done.code == 1
    assert "limit `steps`: `5` → `4`" in done.out


def test_a_child_is_taken_from_the_same_revision(repo: Shell) -> None:
    change(repo, "parts/kid.yaml", "steps: 5", "steps: 4")
    done = repo("diff", "main:parent.yaml", "parent.yaml")
    assert done.code == 1
    assert "`kid` → limit `steps`: `5` → `4`: `steps_limit` stops sooner" in done.out
    assert "main:parts/kid.yaml:3 → parts/kid.yaml:3" in done.out
    assert repo("diff", "main:parent.yaml", "HEAD:parent.yaml").code == 0


class Wrong(NamedTuple):
    """A side that cannot be had, and what is said."""

    id: str
    source: str
    says: str


WRONG = [
    Wrong("revision", "nowhere:adder.yaml", "there is no revision `nowhere`"),
    Wrong("path", "main:adder.yml", "there is no file `adder.yml` in `main`"),
    Wrong("folder", "main:parts", "is not a file"),
    Wrong("option", "--output=x:adder.yaml", "there is no revision `--output=x`"),
    Wrong("option-path", "main:--all", "there is no file `--all` in `main`"),
    Wrong("magic-path", "main::(top)adder.yaml", "there is no file"),
    Wrong("range", "main..work:adder.yaml", "there is no revision `main..work`"),
    Wrong("empty-path", "main:", "is not a REV:PATH"),
    Wrong("outside", "main:../adder.yaml", "there is no file"),
    Wrong("absolute", "main:/etc/passwd", "there is no file"),
    Wrong("nul", "ma\0in:adder.yaml", "there is no revision"),
    Wrong("file", "addr.yaml", "there is no machine file `addr.yaml`"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_a_side_that_is_not_there(repo: Shell, case: Wrong) -> None:
    done = repo("diff", "--", case.source, "adder.yaml")
    assert done.code == 2
    assert case.says in done.err
    assert not (repo.folder / "x").exists()


def test_outside_of_a_repository_a_revision_is_refused(
    sh: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(sh.folder.parent))
    done = sh("diff", "main:adder.yaml", "adder.yaml")
    assert done.code == 2
    assert "is in no git repository" in done.err
    assert "written REV:PATH" in done.err
    done = sh("review", "main")
    assert done.code == 2
    assert "is in no git repository" in done.err
    assert "run it inside the repository" in done.err
    assert "REV:PATH" not in done.err


def test_without_git_that_is_said(
    sh: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = sh("diff", "main:adder.yaml", "adder.yaml")
    assert done.code == 2
    assert "git cannot be started" in done.err
    assert "install git, or compare files" in done.err


def test_a_side_that_is_no_machine_is_told_with_its_findings(sh: Shell) -> None:
    sh.write("broken.yaml", ADDER.replace("run.working", "run.wrking"))
    for arguments in (("broken.yaml", "adder.yaml"), ("adder.yaml", "broken.yaml")):
        done = sh("diff", *arguments)
        assert done.code == 2
        assert done.out == ""
        assert "broken.yaml cannot be compared" in done.err
        assert "error[CL103]: unknown fact `run.wrking`" in done.err
        assert "1 error in broken.yaml" in done.err


@pytest.mark.parametrize(
    "data", [b"\x00\x01\xff", b"", b"just text", b"[1, 2]", b"a: {", b"\xff\xfe"]
)
def test_a_file_that_is_no_machine_at_all(sh: Shell, data: bytes) -> None:
    (sh.folder / "other.yaml").write_bytes(data)
    done = sh("diff", "adder.yaml", "other.yaml")
    assert done.code == 2
    assert "other.yaml cannot be compared" in done.err


def test_json_has_its_documented_shape(sh: Shell) -> None:
    sh.write("other.yaml", ADDER.replace("steps: 20", "steps: 10"))
    told = sh("diff", "adder.yaml", "other.yaml", "--format", "json").json
    assert told | {"before": 0, "after": 0, "changes": 0} == {
        "format": 1, "same": False, "verdict": "adder: 1 difference; stops sooner",
        "before": 0, "after": 0, "changes": 0, "consent": [],
    }  # fmt: skip
    assert set(told["before"]) == {"name", "file", "hash", "states"}
    assert told["before"]["hash"] != told["after"]["hash"]
    (one,) = told["changes"]
    assert one == {
        "kind": "changed", "what": "limit", "aspect": "value", "group": "Limits", "only_words": False,
        "within": [],
        "before": {"name": "steps", "text": "20", "id": "steps", "file": "adder.yaml", "line": 6, "column": 17},
        "after": {"name": "steps", "text": "10", "id": "steps", "file": "other.yaml", "line": 6, "column": 17},
        "effects": [{"who": "steps_limit", "way": "sooner"}],
        "words": "limit `steps`: `20` → `10`: `steps_limit` stops sooner",
    }  # fmt: skip


@pytest.mark.slow("starts processes for seconds")
@DOT
def test_every_format(sh: Shell) -> None:
    sh.write(
        "other.yaml",
        ADDER.replace(
            "  act: {do: call_tools, next: think}", "  act: {do: call_tools, next: done}"
        ),
    )
    for suffix, begins in (("svg", b"<svg"), ("png", b"\x89PNG"), ("mmd", b"flowchart TD"), ("dot", b"digraph"), ("json", b"{"), ("txt", b"adder: ")):  # fmt: skip
        done = sh("diff", "adder.yaml", "other.yaml", "-o", f"d.{suffix}")
        assert (done.code, done.out) == (1, "")
        assert (sh.folder / f"d.{suffix}").read_bytes().startswith(begins)
        assert f"d.{suffix}: adder: 1 difference" in done.err
    assert len(sh("diff", "adder.yaml", "other.yaml", "--format", "dot", "--full").out) > len(
        sh("diff", "adder.yaml", "other.yaml", "--format", "dot").out
    )
    assert sh("diff", "adder.yaml", "other.yaml", "--format", "mermaid").out.startswith("flowchart")
    piped = program("diff", "adder.yaml", "other.yaml", "--format", "png", cwd=sh.folder)
    assert piped.out.startswith("\udc89PNG")


def test_a_picture_without_an_engine_is_not_taken_for_a_difference(
    sh: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    sh.write("other.yaml", ADDER.replace("next: think}\n  done", "next: done}\n  done"))
    monkeypatch.setattr("chartloop.pictures.picture.find_engine", lambda: "mermaid")
    done = sh("diff", "adder.yaml", "other.yaml", "-o", "d.svg")
    assert done.code == 2
    assert "there is no Graphviz" in done.err


def test_at_a_terminal_it_has_colours_and_fits(sh: Shell) -> None:
    sh.write(
        "other.yaml",
        ADDER.replace('"1h"', '"30m"').replace("steps: 20", "steps: 10"),
    )
    terminal = Terminal("diff", "adder.yaml", "other.yaml", cwd=sh.folder, columns=60)
    assert terminal.wait() == 1
    assert "\x1b[" in terminal.raw
    assert "definition long loosened" in " ".join(terminal.shown.split())
    assert max(map(len, terminal.shown.splitlines())) <= 60


def test_what_a_file_says_is_no_order_to_a_terminal(sh: Shell) -> None:
    sh.write("other.yaml", ADDER.replace("Adds", '"Adds \\x1b[2J \\u202e x"'))
    done = sh("diff", "adder.yaml", "other.yaml")
    assert done.code == 1
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out


# review -------------------------------------------------------------------------------------


def reviewed(sh: Shell, *arguments: str) -> Done:
    done = sh("review", *(arguments or ("main",)))
    assert done.out.startswith(MARKER) or done.code == 2
    return done


def test_where_nothing_changed_nothing_is_said(repo: Shell) -> None:
    repo.write("notes.yaml", "just: notes\n")
    repo.write("readme.md", "chartloop: 1\n")
    done = reviewed(repo)
    assert done.code == 0
    assert "## No machine changed" in done.out
    assert "###" not in done.out


def test_a_changed_machine_has_its_section(repo: Shell) -> None:
    change(repo, "asker.yaml", "steps: 10", "steps: 5")
    done = reviewed(repo)
    assert done.code == 1
    assert "## asker: 1 difference; stops sooner\n" in done.out
    assert "### `asker.yaml`" in done.out
    assert "! limit `steps`: `10` → `5`: `steps_limit` stops sooner  (line 5)" in done.out
    assert re.search(r"^```mermaid\n(%%.*\n)?flowchart TD$", done.out, re.MULTILINE)
    assert "Checks: nothing new" in done.out


def test_it_is_compared_with_where_the_branch_began(repo: Shell) -> None:
    change(repo, "asker.yaml", "steps: 10", "steps: 5")
    commit(repo.folder)
    git(repo.folder, "checkout", "-q", "main")
    change(repo, "looper.yaml", "steps: 500", "steps: 400")
    commit(repo.folder)
    git(repo.folder, "checkout", "-q", "work")
    done = reviewed(repo)
    assert "asker.yaml" in done.out
    assert "looper.yaml" not in done.out


def test_a_revision_as_head(repo: Shell) -> None:
    change(repo, "asker.yaml", "steps: 10", "steps: 5")
    commit(repo.folder)
    change(repo, "asker.yaml", "steps: 5", "steps: 10")
    assert "limit `steps`: `10` → `5`" in reviewed(repo, "main..work").out
    assert reviewed(repo).code == 0


def test_new_gone_and_moved_machines(repo: Shell) -> None:
    repo.write("new machine.yaml", ADDER.replace("machine: adder", "machine: fresh"))
    (repo.folder / "looper.yaml").unlink()
    git(repo.folder, "mv", "asker.yaml", "parts/moved.yaml")
    done = reviewed(repo)
    assert done.code == 1
    assert "## 2 machines changed" in done.out
    assert "### `new machine.yaml`\n\n**fresh: a new machine, 4 states, 3 rules**" in done.out
    assert "**looper was removed**" in done.out
    assert "the same machine: `parts/moved.yaml`" in done.out


def test_a_changed_child_touches_its_parent(repo: Shell) -> None:
    change(repo, "parts/kid.yaml", "steps: 5", "steps: 4")
    for head in ("", "..work"):
        done = reviewed(repo, f"main{head}")
        assert "### `parent.yaml`" in done.out
        assert "`kid` → limit `steps`: `5` → `4`" in done.out
        assert "### `parts/kid.yaml`" in done.out
        if not head:
            commit(repo.folder)


def test_a_child_that_is_gone_makes_its_parent_invalid(repo: Shell) -> None:
    (repo.folder / "parts" / "kid.yaml").unlink()
    done = reviewed(repo)
    assert done.code == 2
    assert "### `parts/kid.yaml`" in done.out
    assert "**kid was removed**" in done.out


def test_only_what_is_asked_for(repo: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    change(repo, "asker.yaml", "steps: 10", "steps: 5")
    change(repo, "parts/kid.yaml", "steps: 5", "steps: 4")
    assert "asker.yaml" not in reviewed(repo, "main", "parts").out
    assert "kid.yaml" not in reviewed(repo, "main", "asker.yaml").out
    monkeypatch.chdir(repo.folder / "parts")
    assert "asker.yaml" not in reviewed(repo, "main", ".").out
    assert "asker.yaml" in reviewed(repo, "main", "../asker.yaml").out


@pytest.mark.parametrize("path", ["nosuch.yaml", "partss", "..", "../.."])
def test_a_path_that_is_not_there_is_no_review_of_nothing(repo: Shell, path: str) -> None:
    change(repo, "asker.yaml", "steps: 10", "steps: 5")
    done = repo("review", "main", path)
    assert (done.code, done.out) == (2, "")
    assert f"there is no `{path}` in `main` or the working tree" in done.err


def test_a_path_that_is_gone_was_there(repo: Shell) -> None:
    (repo.folder / "asker.yaml").unlink()
    assert "asker was removed" in reviewed(repo, "main", "asker.yaml").out


def test_a_machine_that_does_not_load_is_told_and_gives_2(repo: Shell) -> None:
    change(repo, "asker.yaml", "run.steps >= limits.steps", "run.stps >= limits.steps")
    done = reviewed(repo)
    assert done.code == 2
    assert "**cannot be loaded**" in done.out
    assert "error[CL103]: unknown fact `run.stps`" in done.out
    git(repo.folder, "commit", "-qam", "Broken")
    git(repo.folder, "branch", "broken")
    change(repo, "asker.yaml", "run.stps", "run.steps")
    mended = reviewed(repo, "broken")
    assert mended.code == 1
    assert "did not load before" in mended.out
    assert "+ mended error[CL103]: unknown fact `run.stps`" in mended.out


def test_a_difference_may_pass(repo: Shell) -> None:
    change(repo, "asker.yaml", "steps: 10", "steps: 5")
    assert repo("review", "main", "--fail-on", "invalid").code == 0
    change(repo, "asker.yaml", "run.steps", "run.stps")
    assert repo("review", "main", "--fail-on", "invalid").code == 2


def test_what_the_checks_say_before_and_after(repo: Shell) -> None:
    change(
        repo, "asker.yaml", "rules: [{when: run.steps >= limits.steps, stop: steps_limit}]\n", ""
    )
    change(repo, "asker.yaml", "steps: 10, ", "")
    done = reviewed(repo)
    assert "Checks: 1 new, 0 fixed." in done.out
    assert "- new warning[CL316]:" in done.out
    commit(repo.folder)
    git(repo.folder, "branch", "without")
    git(repo.folder, "checkout", "-q", "main", "--", "asker.yaml")
    assert "+ mended warning[CL316]:" in reviewed(repo, "without").out


@DOT
def test_pictures_and_their_links(repo: Shell) -> None:
    change(repo, "asker.yaml", "ok: done", "ok: done\n      again: think")
    repo.write("new.yaml", KID)
    done = reviewed(
        repo, "main", "--pictures", "out/pictures", "--link", "https://x.example/{picture}?a=(1)"
    )
    names = {path.name for path in (repo.folder / "out" / "pictures").iterdir()}
    assert names == {"asker.changes.svg", "asker.full.svg", "new.full.svg"}
    for name in names:
        assert f"(https://x.example/{name}?a=(1%29)" in done.out
        ET.parse(repo.folder / "out" / "pictures" / name)  # noqa: S314 - ours


def test_a_picture_that_cannot_be_drawn_costs_no_comment(
    repo: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(repo, "asker.yaml", "ok: done", "ok: done\n      again: think")
    monkeypatch.setattr("chartloop.pictures.picture.find_engine", lambda: "mermaid")
    done = repo("review", "main", "--pictures", "out", "--link", "https://x.example/{picture}")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "not drawn: asker.changes.svg, asker.full.svg: there is no Graphviz" in done.err
    assert "### `asker.yaml`" in done.out
    assert "x.example" not in done.out
    assert list((repo.folder / "out").iterdir()) == []


def test_json_and_a_file(repo: Shell) -> None:
    change(repo, "asker.yaml", "steps: 10", "steps: 5")
    done = repo("review", "main", "--format", "json", "-o", "told.json")
    assert (done.code, done.out) == (1, "")
    told = json.loads((repo.folder / "told.json").read_text())
    assert told["verdict"] == "asker: 1 difference; stops sooner"
    assert told["head"] is None
    (one,) = told["machines"]
    assert one["path"] == "asker.yaml"
    assert one["diff"]["changes"][0]["what"] == "limit"
    assert one["new"] == one["mended"] == []


def test_what_cannot_be_written_is_not_taken_for_a_difference(repo: Shell) -> None:
    change(repo, "asker.yaml", "steps: 10", "steps: 5")
    for args in (
        ("diff", "main:asker.yaml", "asker.yaml", "-o", "no/such/d.json"),
        ("review", "main", "-o", "no/such/comment.md"),
        ("review", "main", "--pictures", "asker.yaml/pictures"),
    ):
        done = repo(*args)
        assert done.code == 2
        assert "cannot be" in done.err


@pytest.mark.slow("starts processes for seconds")
def test_a_name_that_is_no_text(repo: Shell) -> None:
    (repo.folder / os.fsdecode(b"caf\xe9.yaml")).write_text(KID)
    (repo.folder / os.fsdecode(b"bad\xe9.yaml")).write_text(KID.replace("run.steps", "run.stps"))
    for form in ("markdown", "json"):
        done = repo("review", "main", "--format", form, "-o", "told")
        assert done.code == 2
        assert "run.stps" in (repo.folder / "told").read_text("utf-8")
        piped = program("review", "main", "--format", form, cwd=repo.folder)
        assert piped.code == 2
        assert "run.stps" in piped.out


@pytest.mark.parametrize("base", ["nowhere", "--output=x", "main:asker.yaml", ""])
def test_a_base_that_is_no_revision(repo: Shell, base: str) -> None:
    done = repo("review", "--", base)
    assert done.code == 2
    assert "there is no revision" in done.err
    assert not (repo.folder / "x").exists()


def test_histories_that_never_met_are_compared_as_they_are(repo: Shell) -> None:
    git(repo.folder, "checkout", "-q", "--orphan", "apart")
    change(repo, "asker.yaml", "steps: 10", "steps: 5")
    commit(repo.folder)
    assert "limit `steps`: `10` → `5`" in reviewed(repo).out


# hostile ------------------------------------------------------------------------------------

NASTY = [
    "with space.yaml", "line\nbreak.yaml", "`tick`.yaml", "``.yaml", "<img src=x onerror=alert(1)>.yaml",
    "--all.yaml", ":(top).yaml", "@someone #1.yaml", "| a | b |.yaml", "[x](javascript:alert(1)).yaml", "ü ☕.yaml",
    "\\x.yaml", '"q".yaml', "*.yaml",
]  # fmt: skip


@DOT
@pytest.mark.parametrize("name", NASTY)
def test_a_name_of_a_file_is_only_a_name(repo: Shell, name: str) -> None:
    repo.write(name, KID)
    commit(repo.folder)
    git(repo.folder, "branch", "with-it")
    repo.write(name, KID.replace("steps: 5", "steps: 4"))
    done = reviewed(repo, "with-it", "--pictures", "pictures")
    assert done.code == 1
    assert "limit `steps`: `5` → `4`" in done.out
    (heading,) = [line for line in done.out.splitlines() if line.startswith("### ")]
    fence = re.match(r"### (`+)", heading)
    assert fence is not None
    assert heading.endswith(fence[1])
    inside = heading[4 + len(fence[1]) : -len(fence[1])]
    assert fence[1] not in re.split(r"[^`]+", inside)
    assert inside.strip() == " ".join(name.split())


def test_texts_of_a_machine_break_out_of_nothing(repo: Shell) -> None:
    evil = '"```\\n</details><script>alert(1)</script> @team [x](javascript:x) ~~~ `````"'
    change(repo, "asker.yaml", "title: Asks before it goes on", f"title: {evil}")
    change(repo, "asker.yaml", "Is {{ last.text }} right?", "``` <img src=x> {{ last.text }}")
    change(repo, "asker.yaml", "  stopped: {", f"  stopped: {{label: {evil}, ")
    done = reviewed(repo)
    assert done.code == 1
    inside, fence = False, ""
    for line in done.out.splitlines():
        opened = re.match(r"(`{3,})(\w*)$", line)
        if not inside and opened:
            inside, fence = True, opened[1]
        elif inside and line == fence:
            inside = False
        elif not inside:
            assert "<script" not in line
            assert "<img" not in line
            assert "javascript" not in line
            assert not re.search(r"(?<![`\w])@team", line)
    assert not inside
    for chart in re.findall(r"^```mermaid\n(.*?)^```$", done.out, re.MULTILINE | re.DOTALL):
        assert "<script" not in chart
        read_mermaid(
            re.sub(r":::\w+$|^\s*(?:classDef|linkStyle).*$", "", chart, flags=re.MULTILINE)
        )


def test_links_lead_nowhere_outside(repo: Shell, tmp_path: Path) -> None:
    secret = tmp_path.parent / f"{tmp_path.name}-secret.yaml"
    secret.write_text("chartloop: 1\npassword: hunter2\n")
    (repo.folder / "leak.yaml").symlink_to(secret)
    repo.write("asks.yaml", PARENT.replace("parts/kid.yaml", f"../{secret.name}"))
    for head in ("", "..work"):
        if head:
            commit(repo.folder)
        done = reviewed(repo, f"main{head}")
        assert done.code == 2
        assert "hunter2" not in done.out + done.err
        assert "leads out of the repository" in done.out
    (repo.folder / "round.yaml").symlink_to("round.yaml")
    commit(repo.folder)
    assert "hunter2" not in reviewed(repo, "main..work").out


def test_a_link_within_the_repository_is_followed(repo: Shell) -> None:
    (repo.folder / "same.yaml").symlink_to("parts/kid.yaml")
    commit(repo.folder)
    assert repo("diff", "work:same.yaml", "main:parts/kid.yaml").code == 0
    assert "kid: a new machine" in reviewed(repo, "main..work", "same.yaml").out


@pytest.mark.parametrize(
    "data", [b"chartloop: 1\n\x00\xff", b"chartloop: 1", b"chartloop: [", b"\xffchartloop: 1\n"]
)
def test_a_file_that_means_to_be_a_machine_and_is_none(repo: Shell, data: bytes) -> None:
    (repo.folder / "odd.yaml").write_bytes(data)
    done = reviewed(repo)
    assert done.code in (0, 2)
    assert "odd.yaml" in done.out or done.code == 0


def test_nothing_of_the_repository_is_run(repo: Shell) -> None:
    marker = repo.folder / "ran"
    repo.write("evil.py", f"open({str(marker)!r}, 'w')\n")
    repo.write("evil.sh", f"#!/bin/sh\ntouch {marker}\n")
    (repo.folder / "evil.sh").chmod(0o755)
    repo.write(".gitattributes", "*.yaml diff=evil filter=evil\n")
    git(repo.folder, "config", "diff.evil.command", "./evil.sh")
    git(repo.folder, "config", "diff.evil.textconv", "./evil.sh")
    change(repo, "adder.yaml", "tools: [add]", "tools: [add, evil]")
    done = reviewed(repo)
    assert done.code == 1
    assert "+ tool `evil` added" in done.out
    assert not marker.exists()


@pytest.mark.slow("takes seconds")
def test_a_comment_is_never_too_long(repo: Shell) -> None:
    states = "".join(
        f"  s{n}: {{ask: {'x' * 60}{n}, when: run.steps >= {n}, then: s{n + 1}, else: done}}\n"
        for n in range(300)
    )
    big = f"chartloop: 1\nmachine: big\nstates:\n  go: {{do: receive, next: s0}}\n{states}  s300: {{do: nothing, next: done}}\n  done: {{stop: completed}}\n"
    for number in range(6):
        repo.write(f"big{number}.yaml", big)
    commit(repo.folder)
    git(repo.folder, "branch", "with-it")
    for number in range(6):
        repo.write(f"big{number}.yaml", re.sub(r"x(\d+),", r"y\1,", big))
    done = reviewed(repo, "with-it")
    assert done.code == 1
    assert len(done.out) < MOST
    assert "## 6 machines changed" in done.out
    assert all(f"### `big{number}.yaml`" in done.out for number in range(6))
    assert "The picture does not fit into this comment" in done.out or "mermaid" in done.out
    assert "more" in done.out


# data that may leave -------------------------------------------------------------------------

MAILER = """\
chartloop: 1
machine: mailer
model: {name: scripted, context_window: 1000}
tools: [fetch, customer, mail]
data: {fetch: {from: untrusted}, customer: {reads: private}, mail: {sends: out}}
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think: {do: infer, allow: [fetch, customer], next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, allow: [fetch, customer], next: think}
  done: {stop: completed}
"""


def test_a_review_lists_the_flows_that_are_new(repo: Shell) -> None:
    git(repo.folder, "checkout", "-q", "main")
    repo.write("mailer.yaml", MAILER)
    commit(repo.folder)
    git(repo.folder, "checkout", "-q", "-B", "work")
    everywhere = MAILER.replace(", allow: [fetch, customer]", "")
    repo.write("mailer.yaml", everywhere)
    done = repo("review", "main")
    assert "Data that may leave: 2 new, 0 gone." in done.out
    for label, tool in (("private", "customer"), ("untrusted", "fetch")):
        assert (
            f"- new: {label} text to mail: tool `{tool}` → the conversation after `act` "
            "→ the reply after `think` → tool `mail`"
        ) in done.out
    (machine,) = json.loads(repo("review", "main", "--format", "json").out)["machines"]
    assert [(f["label"], f["to"]) for f in machine["new_flows"]] == [
        ("private", "mail"), ("untrusted", "mail"),
    ]  # fmt: skip
    assert machine["gone_flows"] == []


def test_flows_that_are_gone_stand_in_one_line_and_others_nowhere(repo: Shell) -> None:
    git(repo.folder, "checkout", "-q", "main")
    everywhere = MAILER.replace(", allow: [fetch, customer]", "")
    repo.write("mailer.yaml", everywhere)
    commit(repo.folder)
    git(repo.folder, "checkout", "-q", "-B", "work")
    repo.write("mailer.yaml", MAILER)
    done = repo("review", "main")
    assert "Data that may leave: 0 new, 2 gone." in done.out
    assert "+ gone: private text to mail, untrusted text to mail\n" in done.out
    repo.write("mailer.yaml", everywhere.replace("steps: 9", "steps: 8"))
    assert "Data that may leave" not in repo("review", "main").out
