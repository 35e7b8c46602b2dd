"""`docs/review.md` and `examples/review`: the comment is the one that is made, the workflow holds."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from packaging.requirements import Requirement

from chartloop.analysis.versions.diff.change import Effect
from chartloop.language.yaml.reading import read
from tests.cli.test_review import KID, commit, git
from tests.unit.test_docs_examples import blocks

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "review"
PAGE = ROOT / "docs" / "review.md"
pytestmark = pytest.mark.system("git", install="apt-get install git")
DOT = pytest.mark.system("dot", install="apt-get install graphviz")


def data(text: str) -> Any:
    found = read(text, "page.yaml")
    assert not found.findings
    return found.data


def block(title: str) -> str:
    (found,) = [b.text for b in blocks(PAGE) if b.title == title]
    return found


def drawn(path: Path) -> set[str]:
    """The boxes and arrows of an SVG, by their ids."""
    svg = path.read_text("utf-8").replace("&#45;", "-")
    return {re.sub(r"^m[0-9a-f]{8}-", "", name) for name in re.findall(r' id="([^"]+)"', svg)}


@pytest.mark.slow("starts processes for seconds")
@DOT
def test_the_comment_of_the_example_is_the_one_that_is_made(tmp_path: Path) -> None:
    made = runpy.run_path(str(EXAMPLE / "make.py"))
    cast(Callable[[Path], None], made["make"])(tmp_path)
    for name in ("comment.md",):
        fresh = (tmp_path / name).read_text("utf-8")
        assert (EXAMPLE / name).read_text("utf-8") == fresh, "run: python examples/review/make.py"
    for name in ("changes.svg", "full.svg"):
        fresh_ids = drawn(tmp_path / name)
        assert len(fresh_ids) > 20
        assert drawn(EXAMPLE / name) == fresh_ids, "run: python examples/review/make.py"


# the workflow -------------------------------------------------------------------------------


def workflow() -> dict[str, Any]:
    return data(block("machines.yml"))


def test_the_workflow_runs_nothing_of_a_fork() -> None:
    found = workflow()
    assert set(found["on"]) == {"pull_request_target"}
    assert found["permissions"] == {"contents": "read", "pull-requests": "write"}
    steps = found["jobs"]["review"]["steps"]
    (checkout,) = [s for s in steps if s.get("uses", "").startswith("actions/checkout@")]
    assert "ref" not in checkout["with"]
    assert checkout["with"]["persist-credentials"] is False
    scripts = [step["run"] for step in steps if "run" in step]
    assert scripts
    for script in scripts:
        assert "--tools" not in script
        assert "git checkout" not in script
        assert "git switch" not in script
        assert "${{" not in script  # what an event says reaches a script as a variable only


def test_the_workflow_installs_nothing_by_its_bare_name() -> None:
    """The name is free on the package index: whoever takes it would run in the workflow."""
    (name, found), *more = re.findall(
        r"pip install [\"']?(\S+) ?([^\"'\n]*)", block("machines.yml")
    )
    assert (name, found, more) == ("chartloop[diagrams]", "@ $CHARTLOOP", [])
    source = workflow()["jobs"]["review"]["env"]["CHARTLOOP"]
    assert re.fullmatch(r"git\+https://github\.com/OWNER/REPOSITORY@COMMIT", source)
    said = f"chartloop[diagrams] @ {source}"
    assert Requirement(said).url == source


@pytest.mark.system("bash", install="apt-get install bash")
def test_the_scripts_of_the_workflow_are_scripts() -> None:
    for step in workflow()["jobs"]["review"]["steps"]:
        if "run" in step:
            subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


def script(name: str) -> str:
    steps = workflow()["jobs"]["review"]["steps"]
    (found,) = [step["run"] for step in steps if step.get("name") == name]
    return found


@pytest.fixture
def pull(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A clone at the base, whose origin has a pull request, and the variables of the workflow."""
    origin, clone, programs = tmp_path / "origin", tmp_path / "clone", tmp_path / "programs"
    origin.mkdir()
    programs.mkdir()
    shim = programs / "chartloop"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m chartloop "$@"\n')
    shim.chmod(0o755)
    git(origin, "init", "-q", "-b", "main")
    (origin / "kid.yaml").write_text(KID)
    commit(origin)
    git(tmp_path, "clone", "-q", str(origin), str(clone))
    git(origin, "checkout", "-q", "--detach")
    (origin / "kid.yaml").write_text(KID.replace("steps: 5", "steps: 4"))
    commit(origin)
    git(origin, "update-ref", "refs/pull/7/head", "HEAD")
    variables = {
        **os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "NUMBER": "7",
        "BASE": git(origin, "rev-parse", "main").strip(), "HEAD": git(origin, "rev-parse", "HEAD").strip(),
        "GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_SERVER_URL": "https://example.org",
        "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "1",
    }  # fmt: skip
    return clone, variables


@pytest.mark.slow("starts processes for seconds")
@DOT
@pytest.mark.system("bash", install="apt-get install bash")
def test_the_workflow_reviews_a_pull_request(pull: tuple[Path, dict[str, str]]) -> None:
    clone, variables = pull
    for name in ("Fetch the change", "Review"):
        command = ["bash", "-e", "-o", "pipefail", "-c", script(name)]
        subprocess.run(command, cwd=clone, env=variables, check=True, timeout=200)
    assert "code=1" in Path(variables["GITHUB_OUTPUT"]).read_text()
    told = (clone / "comment.md").read_text("utf-8")
    assert "limit `steps`: `5` → `4`" in told
    assert "(https://example.org/a/b/actions/runs/1#artifacts)" in told
    assert (clone / "kid.yaml").read_text() == KID
    assert list((clone / "pictures").iterdir())


def test_the_comment_is_found_again_by_its_first_line() -> None:
    first = (EXAMPLE / "comment.md").read_text("utf-8").splitlines()[0]
    assert f'startswith("{first}")' in script("Comment")


# the hooks ----------------------------------------------------------------------------------


def test_both_hooks_are_the_same() -> None:
    (ours,) = data((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    (theirs,) = data(block("pre-commit-config.yaml"))["repos"][0]["hooks"]
    for key in ("id", "name", "entry", "files", "pass_filenames", "verbose"):
        assert ours[key] == theirs[key]


@pytest.mark.slow("starts processes for seconds")
def test_the_hook_shows_a_change_and_stops_a_broken_one(pull: tuple[Path, dict[str, str]]) -> None:
    clone, variables = pull
    (hook,) = data(block("pre-commit-config.yaml"))["repos"][0]["hooks"]

    def hooked() -> subprocess.CompletedProcess[str]:
        git(clone, "add", "-A")
        return subprocess.run(
            shlex.split(hook["entry"]), cwd=clone, env=variables, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip

    (clone / "kid.yaml").write_text(KID.replace("steps: 5", "steps: 4"))
    shown = hooked()
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "limit `steps`: `5` → `4`" in shown.stdout
    (clone / "kid.yaml").write_text(KID.replace("run.steps", "run.stps"))
    broken = hooked()
    assert broken.returncode == 2
    assert "unknown fact `run.stps`" in broken.stdout


# the words ----------------------------------------------------------------------------------


@pytest.mark.parametrize("alias", ["Kind", "What"])
def test_the_page_names_every_word_of_the_json(alias: str) -> None:
    source = (
        ROOT / "engine" / "chartloop" / "analysis" / "versions" / "diff" / "change.py"
    ).read_text("utf-8")
    found = re.search(rf"^{alias} = Literal\[(.*?)\]", source, re.MULTILINE | re.DOTALL)
    assert found is not None
    words = re.findall(r'"(\w+)"', found[1])
    assert len(words) > 5
    assert [w for w in words if not re.search(rf"[` ]{w}[` ]", PAGE.read_text("utf-8"))] == []
    assert str(Effect("", "x", "sooner")) == "`x` stops sooner"
