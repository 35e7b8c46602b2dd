"""The page on local models: its names are known, and none of them asks for a key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chartloop import load
from chartloop.adapters.model.litellm import LiteLLM
from tests.tool_loop import QUIET, needs_litellm

PAGE = Path(__file__).resolve().parents[2] / "docs" / "local-models.md"
LINES = re.findall(r"--model (\S+) --api-base (\S+)$", PAGE.read_text("utf-8"), re.MULTILINE)


def test_the_page_has_three_servers_of_three_lines() -> None:
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert [len(block.splitlines()) for block in blocks] == [3, 3, 3]
    assert len(LINES) == 3


@pytest.mark.slow("loads litellm")
@needs_litellm
@QUIET
@pytest.mark.parametrize(("model", "url"), LINES)
def test_a_local_server_needs_no_key(model: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HOSTED_VLLM_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    LiteLLM().prepare({"name": model, "api_base": url})
    load("agent").start("Hello", model=model, settings={"api_base": url})
