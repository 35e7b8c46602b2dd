"""Whatever a model answers, the moderator stops, for a reason of the document, and reports."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from chartloop import load
from tests.cases.moderating import BROKEN, BUSY, REFUSED, late, moderated, reply

REPORTS = [
    "Done.",
    "",
    "no JSON {",
    "[1, 2]",
    '{"tasks": ["More."]}',
    '{"tasks": [3]}',
    '{"tasks": "More.", "improvements": ["Better.", {"text": "Best."}]}',
    '{"metrics": {"speed": 1}}',
    '{"metrics": {"speed": 0}, "improvements": ["Better."]}',
    '{"metrics": "good"}',
    '{"tasks": [{"text": "x", "by": {"tool": "none"}}]}',
    '{"drift": 0.9}',
    '{"drift": "far"}',
]


def _answers(text: str, delay: float) -> dict[str, Any]:
    return reply(text, tokens=50_000, delay=delay)


REPLIES: st.SearchStrategy[Any] = st.one_of(
    st.builds(_answers, st.sampled_from(REPORTS), st.sampled_from([0.0, 59.5, 1800.0, 7200.0])),
    st.builds(late, st.sampled_from([BUSY, REFUSED, BROKEN]), st.sampled_from([0.0, 700.0])),
)
ENDS = {
    "token_limit", "time_limit", "diminishing_returns", "error_rate", "stagnation",
    "context_overflow", "critical_failure", "user_requested", "user_unresponsive",
    "health_critical", "completed",
}  # fmt: skip


@pytest.mark.slow("tries hundreds of examples for seconds")
@pytest.mark.parametrize("name", ["moderator", "moderator_full"])
@settings(max_examples=40)
@given(st.lists(REPLIES, min_size=1, max_size=12), st.sampled_from(["", "Write a parser."]))
def test_it_ends_for_a_reason_of_the_document_and_reports(
    name: str, replies: list[Any], task: str
) -> None:
    run = moderated(*(replies * 40), task=task, tasks=["a", "b", "c"], machine=load(name))
    result = run.run()
    event(str(result.reason))
    assert str(result.reason) in ENDS, result.explain()
    assert result.path[-4:] == ("report", "save_state", "notify_end", "end")
    assert all(signal.message for signal in result.signals)
    assert result.output.startswith(f"# Report: {name}")
    queue = run.facts.queue
    assert len(run.session.position.queue) >= queue.size
    assert run.replay().same
