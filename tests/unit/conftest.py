"""Fixtures that several modules of this folder use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journals import KINDS, Desk, open_desk
from tests.provider import SECRET


@pytest.fixture(params=KINDS)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    """Every journal, one after another."""
    with open_desk(request.param, tmp_path) as desk:
        yield desk


@pytest.fixture
def provider_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of providers in the environment, and a password that no journal may hold."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-anthropic-key")
    monkeypatch.setenv("OPENAI_API_KEY", "test-openai-key")
    monkeypatch.setenv("THE_PASSWORD", SECRET)
