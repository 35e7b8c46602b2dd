"""Fixtures that several modules of this folder use."""

from __future__ import annotations

import pytest

from tests.provider import SECRET


@pytest.fixture
def provider_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of providers in the environment, and a password that no journal may hold."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-anthropic-key")
    monkeypatch.setenv("OPENAI_API_KEY", "test-openai-key")
    monkeypatch.setenv("THE_PASSWORD", SECRET)
