"""How findings are accepted, and that nothing is wrong with what we ship.

What the checker finds, and what looks like it and is right, stands in `tests/cases/check`.
"""

from __future__ import annotations

import pytest

from chartloop import catalog
from chartloop.api import find_faults
from chartloop.machine.build import Chart
from tests.found import END, found, spec, whole

KID = "machines: {kid: {%s}}\n"


def test_a_finding_can_be_accepted_where_it_stands() -> None:
    body = (
        "ignore: [{code: CL304, at: states.b, reason: later}]\nstates:\n  a: {do: nothing, next: z}\n  b: {end: error}\n  c: {end: error}\n"
        + END
    )
    assert [f.at for f in found(whole(body))] == ["states.c"]


@pytest.mark.parametrize(
    ("first", "then"), [("run.steps >= 2", "run.steps >= 5"), ("last.ok", "last.ok")]
)
def test_the_edge_that_is_asked_first_is_shown_with_the_one_that_it_hides(
    first: str, then: str
) -> None:
    ways = f"      - {{when: {first}, to: z}}\n      - {{when: {then}, to: z}}\n      - b\n"
    body = f"states:\n  a:\n    do: nothing\n    next:\n{ways}  b: {{stop: custom}}\n" + END
    (one,) = found(whole(body))
    assert f"`{first}`" in one.message
    assert one.related is not None
    assert (one.related[0], one.related[1].line) == ("asked first", one.place.line - 1)
    assert "asked first" in one.render()


def test_a_child_accepts_its_own_findings() -> None:
    kid = "ignore: [{code: CL304, at: states.x, reason: later}], states: {e: {end: completed}, x: {end: error}}"
    assert found(whole(f"ignore: [{{code: CL353, reason: later}}]\n{KID % kid}")) == []


def test_an_accepted_error_of_the_file_is_not_accepted() -> None:
    body = "ignore: [{code: CL301, reason: no}]\nstates:\n  a: {do: nothing, next: nowhere}\n" + END
    machine, findings = find_faults(whole(body))
    assert machine is None
    assert "CL325" in [f.code for f in findings]


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("name", sorted(catalog.shipped_machines()))
def test_nothing_is_wrong_with_what_we_ship(name: str) -> None:
    machine, findings = find_faults(name)
    assert findings == ()
    assert machine is not None
    assert Chart(machine.spec).spec == spec_again(name)


def spec_again(name: str) -> object:
    machine, _ = find_faults(name)
    assert machine is not None
    return machine.spec


def test_a_file_of_one_state_is_enough() -> None:
    assert spec("states:\n  z: {end: completed}\n").start == "z"


def test_a_retry_of_a_state_that_does_nothing_is_a_finding() -> None:
    body = "limits: {steps: 5}\nrules: [{when: run.steps >= limits.steps, stop: steps_limit}]\n"
    _, findings = find_faults(whole(f"{body}states:\n  a: {{next: z, retry: {{times: 3}}}}\n{END}"))
    assert [f.code for f in findings] == ["CL207"]
