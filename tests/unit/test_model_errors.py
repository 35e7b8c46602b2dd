"""What a failure of a model call says, before litellm is asked."""

from __future__ import annotations

from chartloop.adapters.model.errors import classify_error
from chartloop.adapters.model.reply import ReceivedReply
from chartloop.adapters.model.target import Target
from chartloop.adapters.model.wire import Wire

KEY = "correct-horse-battery-staple"


def test_a_key_is_hidden_before_a_message_is_cut() -> None:
    last = "KeyError: " + "x" * 270 + KEY
    error = ValueError(f"bad reply\nTraceback (most recent call last):\n  File ...\n{last}")
    target = Target("openai/x", {"api_key": KEY}, 1, 1, 9, {}, {})
    failed = classify_error(error, target, ReceivedReply(None, 9), Wire(9, streamed=False), None)
    assert "KeyError" in failed.message
    assert KEY[:4] not in failed.message
