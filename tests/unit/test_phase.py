"""How a run stands: the one table of words, and the one decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.phase import (
    CONTINUED,
    ENDINGS,
    OVER,
    PARKED,
    PHASES,
    Phase,
    PhaseName,
    ending_of,
    phase_if_followed,
    phase_if_parked,
    phase_of,
)
from chartloop.core.reasons import REASONS, StopReason, StopSignal
from chartloop.run.journal_records import DAMAGED, MOVED, RunRow


class Case(NamedTuple):
    """What is known of a run, and its phase."""

    id: str
    phase: str
    status: str
    reason: str | None = None
    known: Mapping[str, Any] = {}


CASES = [
    Case("idle", "idle", "idle"),
    Case("idle-and-queued", "queued", "idle", None, {"driven": False, "queued": True}),
    Case("running-as-far-as-known", "running", "running"),
    Case("running-driven", "running", "running", None, {"driven": True}),
    Case("running-by-nobody", "unattended", "running", None, {"driven": False}),
    Case("running-queued", "queued", "running", None, {"driven": False, "queued": True}),
    Case("running-backs-off", "sleeping", "running", None, {"driven": False, "wakes": True}),
    Case("stepped", "stepped", "debugging"),
    Case("stepped-by-a-process", "stepped", "debugging", None, {"driven": True}),
    Case("paused", "paused", "paused"),
    Case("paused-with-a-question", "waiting", "paused", None, {"asks": True, "wakes": True}),
    Case("paused-until-a-time", "sleeping", "paused", None, {"wakes": True}),
    Case("moved", "moved", MOVED, "completed"),
    Case("damaged", "damaged", DAMAGED, "`steps` of its row cannot be 'x'"),
    Case("done", "done", "completed", "completed"),
    Case("answered", "done", "completed", "answer_submitted"),
    Case("lost-tasks", "gave_up", "completed", "completed", {"lost": 1}),
    Case("a-limit-with-lost-tasks", "limited", "completed", "steps_limit", {"lost": 1}),
    Case("a-limit", "limited", "completed", "cost_limit"),
    Case("a-condition-of-the-file", "limited", "completed", "custom"),
    Case("a-reason-of-the-file", "limited", "completed", "out_of_stock"),
    Case("no-answer-in-time", "limited", "completed", "user_unresponsive"),
    Case("a-person", "stopped", "completed", "user_requested"),
    Case("stagnation", "gave_up", "completed", "stagnation"),
    Case("a-tool-asked", "gave_up", "completed", "stop_requested"),
    Case("an-error-ended-as-completed", "gave_up", "completed", "retry_limit"),
    Case("an-error", "failed", "error", "error"),
    Case("a-limit-ended-as-error", "failed", "error", "steps_limit"),
    Case("a-person-ended-as-error", "failed", "error", "user_requested"),
    Case("stored", "gave_up", "completed", "completed", {"ending": "gave_up"}),
    Case("stored-by-a-newer-version", "done", "completed", "completed", {"ending": "dreams"}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_run_has_one_phase(case: Case) -> None:
    assert phase_of(case.status, case.reason, **case.known).name == case.phase


@pytest.mark.parametrize("name", PHASES)
def test_a_run_that_was_not_done_went_on_as_the_one_that_follows_it(name: str) -> None:
    ended = name in ("limited", "stopped", "gave_up", "failed")
    assert phase_if_followed(PHASES[name], "other").name == ("continued" if ended else name)
    assert phase_if_followed(PHASES[name], "").name == name


@pytest.mark.parametrize("name", PHASES)
def test_a_parked_run_is_taken_up_by_nobody_unless_it_is_over_or_driven(name: str) -> None:
    phase = PHASES[name]
    parked = phase_if_parked(phase, True)
    assert parked is (phase if phase in OVER else PARKED)
    assert phase_if_parked(phase, True, driven=False) is parked
    assert phase_if_parked(phase, True, driven=True) is phase
    assert phase_if_parked(phase, False) is phase


def test_every_phase_has_a_case_and_can_be_told_from_the_others() -> None:
    assert (
        {*(case.phase for case in CASES), CONTINUED.name, PARKED.name}
        == set(PHASES)
        == set(get_args(PhaseName))
    )
    for field in ("word", "sign", "about"):
        values = [getattr(phase, field) for phase in PHASES.values()]
        assert len({*values}) == len(values)
    assert all(len(phase.sign) == 1 and phase.ink is not None for phase in PHASES.values())


def test_a_reason_of_the_file_may_be_a_success() -> None:
    sold = StopReason("sold_out", forced=False)
    assert ending_of("completed", sold).name == "done"
    assert ending_of("completed", "sold_out").name == "limited"  # its name alone does not say so


def test_what_is_raised_from_outside_is_a_persons_stop() -> None:
    asked = StopSignal(StopReason("wrong_customer"), source="outside")
    assert ending_of("completed", asked).name == "stopped"
    assert ending_of("error", asked).name == "failed"
    assert (
        ending_of("completed", StopSignal(REASONS["steps_limit"], source="rules.0")).name
        == "limited"
    )


@pytest.mark.law
@given(
    status=st.sampled_from(["idle", "running", "debugging", "paused", "completed", "error", MOVED]),
    reason=st.sampled_from([None, *REASONS, "of_the_file"]),
    lost=st.integers(0, 2),
    asks=st.booleans(),
    wakes=st.booleans(),
    driven=st.sampled_from([None, False, True]),
    queued=st.booleans(),
)
def test_the_phase_agrees_with_the_status(
    status: str, reason: str | None, lost: int, **known: Any
) -> None:
    phase = phase_of(status, reason, lost=lost, **known)
    assert PHASES[phase.name] is phase
    assert (phase in ENDINGS) is (status in ("completed", "error"))
    kind = (REASONS.get(reason or "unknown") or StopReason(reason or "")).kind_of_end(status, lost)
    allowed: dict[str, set[str]] = {
        "natural": {"done"}, "error": {"failed"}, "human": {"stopped", "limited"},
        "limit": {"limited", "gave_up"},
    }  # fmt: skip
    if phase in ENDINGS:
        assert phase.name in allowed[kind]
        row = RunRow("r", status=status, reason=reason or "", ending=phase.name)
        assert row.phase(driven=known["driven"]) == phase


def test_only_a_failure_is_red_and_only_success_is_green() -> None:
    red = [phase.name for phase in PHASES.values() if phase.colour == "red"]
    green: list[Phase] = [phase for phase in PHASES.values() if phase.colour == "green"]
    assert red == ["failed", "damaged"]
    assert [phase.name for phase in green] == ["done"]
