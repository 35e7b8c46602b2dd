"""Modules that a command's file imports at its top, and loads at first use."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from chartloop.cli.late import at_first_use

LATE = """\
from chartloop.cli.late import at_first_use
with at_first_use(__name__):
    from late_package import far, missing
    from late_package import far as renamed
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "late_package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "far.py").write_text("HERE = 1\n")
    (folder / "user.py").write_text(LATE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in [n for n in sys.modules if n.partition(".")[0] == "late_package"]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def user() -> ModuleType:
    return import_module("late_package.user")


def test_a_module_is_loaded_when_a_name_in_it_is_read(package: Path) -> None:
    late = user()
    assert "late_package.far" not in sys.modules
    assert (late.far.HERE, late.renamed.HERE) == (1, 1)
    assert late.far.HERE is sys.modules["late_package.far"].HERE


def test_a_name_that_is_not_there_is_said_as_everywhere(package: Path) -> None:
    late = user()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        late.far.nothing  # noqa: B018
    with pytest.raises(ModuleNotFoundError, match=r"late_package\.missing"):
        late.missing.nothing  # noqa: B018


def test_other_files_import_as_always(package: Path) -> None:
    with at_first_use("some.other.file"):
        far = import_module("late_package.far")
    assert far is sys.modules["late_package.far"]
