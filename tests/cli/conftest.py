"""The command line, called in a folder with a few machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Shell, write_files


@pytest.fixture
def sh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """Calls commands in this process: ``sh("run", "adder.yaml", ...)``."""
    return Shell(tmp_path, capsys, monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a few machines, for processes of their own."""
    write_files(tmp_path)
    return tmp_path
