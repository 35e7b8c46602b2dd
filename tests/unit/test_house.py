"""The house keeps its own rules: those that no linter knows."""

from __future__ import annotations

import ast
import builtins
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import chartloop
import chartloop.testing
from chartloop.core import errors
from chartloop.run import events, ports

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "engine" / "chartloop"
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_at(name: str) -> Any:
    """A script of the repository, imported."""
    spec = spec_from_file_location(Path(name).stem, ROOT / name)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LONGEST = 700
LONG_FILES: dict[str, str] = {}
"""Longer files, each with the reason why it is still one room."""


def test_no_file_is_longer_than_a_room() -> None:
    lines = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: n for name, n in lines.items() if n > LONGEST}.keys() == LONG_FILES.keys()


def test_what_the_design_points_to_is_there() -> None:
    """Each row of "Where it is decided" names a file of the package, and a name that it defines."""
    page = (ROOT / "docs" / "design.md").read_text("utf-8")
    rows = page.partition("## Where it is decided")[2].partition("\n## ")[0].splitlines()
    cells = [line.split("|") for line in rows if line.startswith("|") and "`" in line]
    assert len(cells) > 12
    for _, question, files, names, _ in cells:
        texts = [(PACKAGE / file).read_text() for file in re.findall(r"`([\w/]+\.py)`", files)]
        for name in re.findall(r"`(\w+)`", names):
            defined = re.compile(rf"^ *(?:async )?def {name}\(|^{name}\b", re.MULTILINE)
            assert any(defined.search(text) for text in texts), f"{question}: no `{name}`"


def test_dust_is_told_from_what_is_worth_a_name() -> None:
    """`_sum` could stand where it is used. Others have two callers, two returns, or are values."""
    house = module_at("benchmarks/house.py")
    text = """
def use(a):
    total = _sum(a)
    for one in a:
        total += _sign(one) + _twice(one)
    return sorted(a, key=_key), _twice(total)

def _sum(a):
    made = [one + 1 for one in a]
    return sum(made)

def _sign(one):
    if one < 0:
        return -1
    return 1

def _twice(one):
    return one * 2

def _key(one):
    return -one
"""
    sources = {Path("a.py"): text}
    assert [(g.name, g.caller) for g in house.dust(sources, 25)] == [("_sum", "use")]
    assert house.dust(sources, 5) == []  # four lines and two


@pytest.mark.slow("takes seconds")
def test_every_module_says_what_it_is() -> None:
    silent = [
        name_of(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_the_source_root_is_no_package() -> None:
    assert not (ROOT / "engine" / "__init__.py").exists()
    assert (PACKAGE / "py.typed").exists()


def written() -> Iterator[tuple[str, int, str]]:
    """Each line of each text file that is, or will be, in the repository.

    The documents under test are not ours: they say what they say.
    """
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if name.startswith("tests/cases/sources/"):
            continue
        if path.is_file() and b"\0" not in (data := path.read_bytes()):
            for number, line in enumerate(data.decode().splitlines(), 1):
                yield name, number, line


class Unwanted(NamedTuple):
    """Something that no file of the repository may say, and a text that says it, in pieces."""

    id: str
    pattern: str
    example: tuple[str, str]
    may: frozenset[str] = frozenset()
    """Files that may say it."""


SKELETONS = frozenset(
    {
        "docs/documents.md",
        "engine/chartloop/interchange/import_chart.py",
        "engine/chartloop/interchange/machine_text.py",
        "tests/cli/test_documents.py",
    }
)
"""`chartloop import` writes notes for whoever finishes the file; here they are its words."""

UNWANTED = [
    Unwanted("notes-to-self", r"\b(?:[T]ODO|[F]IXME|[X]XX)\b", ("# TO", "DO: later"), SKELETONS),
    Unwanted("paths-of-a-machine", r"(?<![\w./~])/(?:work|root|home|Users)/\w", ("at /ro", "ot/x")),
    Unwanted("marks-of-a-merge", r"^(?:<{7}|>{7})", ("<<<<", "<<< HEAD")),
]


@pytest.mark.system("git", install="apt-get install git")
@pytest.mark.parametrize("case", UNWANTED, ids=lambda case: case.id)
def test_no_file_says(case: Unwanted) -> None:
    pattern = re.compile(case.pattern)
    assert pattern.search("".join(case.example))
    found = [(n, i, line) for n, i, line in written() if pattern.search(line)]
    assert [f"{n}:{i}: {line}" for n, i, line in found if n not in case.may] == []
    assert case.may <= {n for n, _, _ in found}


def test_public_names_are_there_and_hide_no_module() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    names = chartloop.__all__
    assert len(names) == len(set(names))
    assert set(names) & modules == set()
    assert [n for n in names if isinstance(getattr(chartloop, n), ModuleType)] == []
    assert set(names) <= set(dir(chartloop))


LATE = ["graphviz", "jinja2", "jsonschema_rs", "litellm", "networkx", "pydantic", "rich"]
"""Imported by what needs them, when it does."""


class Start(NamedTuple):
    """A way in, and what it must not load."""

    id: str
    code: str
    never: list[str]


STARTS = [
    Start("import", "import chartloop", never=LATE),
    Start(
        "help",
        "from chartloop.cli import main; sys.argv = ['chartloop', '--help']; main()",
        never=["graphviz", "jsonschema_rs", "litellm", "networkx", "rich"],
    ),
]


@pytest.mark.parametrize("case", STARTS, ids=lambda case: case.id)
def test_starting_loads_little(case: Start) -> None:
    report = "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))"
    code = f"import atexit, json, sys; {report}; {case.code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded: list[str] = json.loads(done.stderr.splitlines()[-1])
    assert "chartloop" in loaded
    assert [name for name in case.never if name in loaded] == []


def needed(distribution: str, extras: frozenset[str] = frozenset()) -> Iterator[str]:
    """What a distribution needs here, with repetitions, itself left out."""
    for text in metadata.requires(distribution) or []:
        wanted = Requirement(text)
        if wanted.marker is None or any(
            wanted.marker.evaluate({"extra": extra}) for extra in extras or {""}
        ):
            yield canonicalize_name(wanted.name)
            yield from needed(wanted.name, frozenset(wanted.extras))


CORE_DISTRIBUTIONS = 21
"""What `pip install chartloop` brings, counted whole. `jsonschema-rs` is in it because gates rest on
a complete JSON Schema, `graphviz` because it was asked for by name, `msgspec` because a step makes
and writes some thirty records, at a tenth of what named tuples and `json` take. Before the number grows, see
whether the newcomer can be an extra."""


def test_the_core_is_no_larger_than_is_said() -> None:
    assert 9 <= len(set(needed("chartloop"))) <= CORE_DISTRIBUTIONS


def test_the_number_of_distributions_is_the_one_that_pages_name() -> None:
    pages = ("docs/install.md", "CONTRIBUTING.md", "pyproject.toml")
    named = [
        int(number)
        for page in pages
        for number in re.findall(r"(\d+) distributions, counted", (ROOT / page).read_text())
    ]
    assert set(named) == {CORE_DISTRIBUTIONS}


def commands(text: str) -> list[str]:
    """Lines of a script, without comments and blank ones."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def test_ci_ends_with_the_command_of_the_readme() -> None:
    last = commands((ROOT / ".ci" / "run").read_text())[-1]
    assert "pytest" in last
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    whole = [
        re.sub(r" \\\n *", " ", block) for block in blocks
    ]  # a command may go on in a next line
    assert last in [line for block in whole for line in commands(block)]


def locked(file: Path) -> dict[str, str]:
    """The versions of a constraints file by name. It names versions alone: no index, no path."""
    versions: dict[str, str] = {}
    for line in commands(file.read_text()):
        match = re.fullmatch(r"([a-z0-9-]+)==([^\s;]+)(?: ; .+)?", line)
        assert match, f"{file.name}: {line}"
        versions[match[1]] = match[2]
    return versions


def test_tests_install_versions_that_no_other_release_changes() -> None:
    """A new release of another project must not make `.ci/run` or the README's command red."""
    calls = re.findall(
        r"^ *(?:environment|\S*.+pip install) .+",
        (ROOT / ".ci" / "run").read_text().replace("\\\n", " "),
        re.MULTILINE,
    )
    assert len(calls) > 6
    free = [call.strip() for call in calls if " -c " not in call and '"${@:2}"' not in call]
    assert [call.split()[1] for call in free] == ["newest"], free


def test_the_constraints_fit_the_project() -> None:
    """They are renewed when the project asks for something else: `.ci/renew`."""
    versions = locked(ROOT / "constraints.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [
        *project["build-system"]["requires"], *project["project"]["dependencies"],
        *(text for extra in project["project"]["optional-dependencies"].values() for text in extra),
    ]  # fmt: skip
    for wanted in map(Requirement, asked):
        if wanted.name != "chartloop":
            assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)]), wanted
    for name, *packages in map(str.split, commands((ROOT / ".ci" / "environments").read_text())):
        versions = locked(ROOT / ".ci" / "constraints" / f"{name}.txt")
        exact = [package.split("==") for package in packages if "==" in package]
        assert {n: versions[n] for n, _ in exact} == dict(exact)


def test_what_is_allowed_to_skip_runs_elsewhere_in_ci() -> None:
    """In another environment of `.ci/run`, or what the machine cannot do is tried as the line says."""
    allowed = commands((ROOT / "tests" / "allowed_skips.txt").read_text())
    ci = (ROOT / ".ci" / "run").read_text()
    for test, _, why in (line.split(" | ") for line in allowed):
        name, elsewhere = test.split("::")[0], re.findall(r"tests/\S+\.py", why)
        for path in (name, *elsewhere):
            assert (ROOT / path).is_file(), f"{path} is named in a line on skips and not there"
        assert elsewhere or name in ci, f"{name} is allowed to skip and .ci/run does not run it"


def test_no_test_asserts_a_time() -> None:
    """What a machine does in a second says nothing of the next one: count calls, `tests.effort`."""
    clock = re.compile(r"assert .*(?:monotonic|perf_counter|process_time|time\.time)\(")
    tests = (path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))
    asserted = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tests
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if clock.search(line)
    ]
    assert asserted == []


def classes(module: ModuleType) -> set[str]:
    """The public classes that a module defines."""
    here = (name for name, value in vars(module).items() if isinstance(value, type))
    return {n for n in here if vars(module)[n].__module__ == module.__name__ and n[0] != "_"}


@pytest.mark.parametrize("module", [errors, ports, events], ids=lambda module: module.__name__)
def test_errors_ports_and_events_are_public(module: ModuleType) -> None:
    """Who catches, implements or receives one imports it from `chartloop`."""
    may = {"Cancel", "OnText"}  # `Cancellation` is what a caller makes
    assert classes(module) - may <= set(chartloop.__all__)


def test_errors_that_the_pages_name_are_public() -> None:
    pages = "\n".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    named = set(re.findall(r"`([A-Z]\w+Error|Fenced|Driven|Journal[A-Z]\w+)`", pages))
    assert named
    public = {*chartloop.__all__, *chartloop.testing.__all__}
    assert named - set(dir(builtins)) - {"JournalFace"} <= public


def test_the_drawn_house_is_the_real_one() -> None:
    """`docs/pictures/house.svg` shows each import between rooms; none goes up or round."""
    house = module_at("docs/pictures/house.py")
    graph: dict[str, set[str]] = house.imports_of()
    drawn = (ROOT / "docs" / "pictures" / "house.svg").read_text("utf-8")
    edges = set(re.findall(r"<title>(\w+)&#45;&gt;(\w+)</title>", drawn))
    assert edges == {(room, name) for room, names in house.reduced(graph).items() for name in names}
    assert house.STOREYS.keys() == graph.keys() | {n for names in graph.values() for n in names}


MOST_OF_A_NAME = 2


def test_a_file_name_says_which_file_is_meant() -> None:
    """No name of a file more than twice in the package: a search for it finds the file."""
    names = [path.name for path in MODULES if path.name != "__init__.py"]
    often = sorted({name for name in names if names.count(name) > MOST_OF_A_NAME})
    assert often == []
