"""What limits across runs leave, as facts: read when a record is made, and never again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.model.scripted import Scripted
from chartloop.api import Machine, Run, load
from chartloop.core.errors import SpecError
from chartloop.core.facts import Facts, FleetFacts
from chartloop.core.records import Record
from chartloop.run.fleet import FleetLimit, Reservation
from chartloop.run.fleet_calls import forget_limits
from chartloop.run.journal import Journal, MemoryJournal
from chartloop.run.sync import by_hand
from chartloop.scenarios import recording, scenario
from chartloop.studies.whatif.verdict import Verdict
from chartloop.studies.whatif.whatif import whatif
from chartloop.testing import ManualClock
from chartloop.ui.view_model.build import fact_views
from tests.postgres import NEEDED, Cluster

TEXT = """
chartloop: 1
machine: thrifty
model: {name: m, max_tokens: 100, input_cost_per_token: 0.001, output_cost_per_token: 0.001}
states:
  read:
    do: receive
    next:
      - {when: fleet.usd_left is not None and fleet.usd_left < 1.0, to: cheap}
      - {to: dear}
  cheap: {do: infer, next: done}
  dear: {do: infer, next: done}
  done: {stop: completed}
"""
CHEAP, DEAR = ("read", "cheap", "done"), ("read", "dear", "done")
REPLY = {"text": "x", "usage": {"prompt_tokens": 150, "completion_tokens": 50}}
"""Two hundred tokens, for 0.2 USD."""


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the runs and of their journal."""
    return ManualClock()


@pytest.fixture(params=["memory", "file", pytest.param("postgres", marks=NEEDED)])
def journal(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[Journal]:
    """A journal of each kind."""
    forget_limits()
    opened: Any = MemoryJournal(now=clock.now)
    if request.param == "file":
        opened = SqliteJournal(tmp_path / "journal.db", now=clock.now)
    elif request.param == "postgres":
        from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415

        cluster: Cluster = request.getfixturevalue("postgres")
        opened = PostgresJournal(cluster.of(tmp_path), redactor=None, now=clock.now)
    yield opened
    if request.param != "memory":
        by_hand(opened.close())


@pytest.fixture
def memory(clock: ManualClock) -> MemoryJournal:
    """A journal in memory."""
    forget_limits()
    return MemoryJournal(now=clock.now)


def limit(journal: Journal, *given: FleetLimit) -> None:
    """Limits, known at once."""
    for one in given:
        by_hand(journal.set_limit(one))
    forget_limits()


def start(journal: Journal, clock: ManualClock, text: str = TEXT, **options: Any) -> Run:
    """A run of one model call."""
    model = Scripted([REPLY] * 9, clock=clock)
    return machine(text).start("Go.", journal=journal, model=model, clock=clock, **options)


@cache
def machine(text: str = TEXT) -> Machine:
    """The machine of these runs."""
    return load(text)


def recorded(run: Run) -> list[FleetFacts | None]:
    """The facts that the records of a run hold."""
    return [record.input.fleet for record in run.records]


# what they say ------------------------------------------------------------------------------


class Case(NamedTuple):
    """Limits, and what they leave for the first record of a run."""

    id: str
    limits: list[FleetLimit]
    left: FleetFacts
    text: str = TEXT
    tenant: str | None = None


OF_TWO = TEXT.replace("dear: {do: infer,", "dear: {do: infer, with: {model: large},")
CASES = [
    Case("none", [], FleetFacts()),
    Case("budget", [FleetLimit("fleet", "cost", "all", 5.0)], FleetFacts(5.0)),
    Case("day", [FleetLimit("fleet", "tokens", "day", 9.0)], FleetFacts(tokens_left=9)),
    Case(
        "smallest",
        [FleetLimit("fleet", "cost", "all", 5.0), FleetLimit("agent:thrifty", "cost", "day", 2.0)],
        FleetFacts(2.0),
    ),
    Case("session", [FleetLimit("session:s", "cost", "all", 3.0)], FleetFacts(3.0)),
    Case("other-session", [FleetLimit("session:t", "cost", "all", 3.0)], FleetFacts()),
    Case("other-agent", [FleetLimit("agent:other", "cost", "all", 3.0)], FleetFacts()),
    Case("tenant", [FleetLimit("tenant:acme", "cost", "all", 3.0)], FleetFacts(3.0), tenant="acme"),
    Case(
        "other-tenant", [FleetLimit("tenant:beta", "cost", "all", 3.0)], FleetFacts(), tenant="acme"
    ),
    Case("without-tenant", [FleetLimit("tenant:acme", "cost", "all", 3.0)], FleetFacts()),
    Case("model", [FleetLimit("model:m", "tokens", "all", 7.0)], FleetFacts(tokens_left=7)),
    Case("other-model", [FleetLimit("model:n", "tokens", "all", 7.0)], FleetFacts()),
    Case("one-of-two-models", [FleetLimit("model:m", "cost", "all", 7.0)], FleetFacts(), OF_TWO),
    Case("rate-of-tokens", [FleetLimit("fleet", "tokens", "minute", 600.0)], FleetFacts()),
    Case("rate", [FleetLimit("fleet", "requests", "minute", 6.0)], FleetFacts(requests_wait=0.0)),
    Case("budget-of-requests", [FleetLimit("fleet", "requests", "day", 6.0)], FleetFacts()),
    Case("beyond-what-is-stored", [FleetLimit("fleet", "cost", "all", 1e20)], FleetFacts(1e15)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_limits_leave(case: Case, memory: MemoryJournal, clock: ManualClock) -> None:
    limit(memory, *case.limits)
    run = start(memory, clock, case.text, session="s", tenant=case.tenant)
    run.step()
    assert recorded(run)[0] == case.left
    assert Record.from_json(0, run.records[0].to_json()) == run.records[0]


def test_every_journal_says_the_same(journal: Journal, clock: ManualClock) -> None:
    limit(
        journal, FleetLimit("fleet", "cost", "all", 1.1), FleetLimit("fleet", "tokens", "day", 900),
        FleetLimit("model:m", "requests", "minute", 6.0),
    )  # fmt: skip
    run = start(journal, clock)
    assert run.run().path == DEAR
    before, after = FleetFacts(1.1, 900, 0.0), FleetFacts(0.9, 700, 10.0)
    assert recorded(run) == [before, before, after.replace(usd_left=pytest.approx(0.9))]
    assert run.replay().same


def test_what_calls_in_flight_hold_is_not_left(memory: MemoryJournal, clock: ManualClock) -> None:
    limit(memory, FleetLimit("fleet", "cost", "all", 1.2))
    other = start(memory, clock, run_id="other")
    other.step()
    held = Reservation("other", other.session.epoch, 9, "other/dear/1", ["fleet"], {"cost": 0.5})
    assert by_hand(memory.reserve(held)).by is None
    run = start(memory, clock)
    assert run.run().path == CHEAP


def test_two_runs_share_what_is_left(journal: Journal, clock: ManualClock) -> None:
    limit(journal, FleetLimit("fleet", "cost", "all", 1.1))
    assert start(journal, clock).run().path == DEAR
    run = start(journal, clock)
    assert run.run().path == CHEAP
    assert "0.9 against 1" in str(run.why(1))


def test_pages_show_it_beside_the_other_facts(memory: MemoryJournal, clock: ManualClock) -> None:
    limit(memory, FleetLimit("fleet", "cost", "all", 0.7))
    run = start(memory, clock)
    run.advance()
    run.advance()
    (shown,) = (f for f in fact_views(run, Facts(), run.facts) if f.name == "fleet.usd_left")
    assert (shown.value, shown.guarded, shown.changed) == ("0.7", True, True)


def test_a_machine_that_names_none_reads_nothing(memory: MemoryJournal, clock: ManualClock) -> None:
    text = TEXT.replace("fleet.usd_left is not None and fleet.usd_left < 1.0", "run.steps > 5")
    limit(memory, FleetLimit("fleet", "cost", "all", 5.0))
    run = start(memory, clock, text)
    run.run()
    assert recorded(run) == [None, None, None]
    assert run.facts.fleet == FleetFacts()
    assert '"fleet"' not in run.records[1].to_json()


NAMING = [
    TEXT.replace("do: receive", "do: prompt\n    with: {user: '{{ fleet.usd_left }}'}"),
    TEXT.replace("states:", "instructions: '{{ fleet.tokens_left }} left'\nstates:", 1),
    TEXT.replace("done: {stop: completed}", "done: {stop: completed, message: '{{ fleet.usd_left }}'}"),
    TEXT.replace(
        "states:", "define: {short: fleet.usd_left is not None}\nvars: {x: false}\nstates:", 1
    ).replace("cheap: {", "cheap: {set: {vars.x: short}, "),
]  # fmt: skip


@pytest.mark.parametrize("text", NAMING, ids=["prompt", "instructions", "message", "definition"])
def test_a_template_or_a_definition_names_it_too(text: str) -> None:
    plain = text.replace("fleet.usd_left is not None and fleet.usd_left < 1.0", "run.steps > 5")
    assert machine(plain).chart.fleet_reads


def test_a_prompt_says_what_is_left(memory: MemoryJournal, clock: ManualClock) -> None:
    text = TEXT.replace("do: receive", "do: prompt\n    with: {user: 'Left {{ fleet.usd_left }}'}")
    limit(memory, FleetLimit("fleet", "cost", "all", 0.75))
    run = start(memory, clock, text)
    run.run()
    assert run.records[1].outcome is not None
    assert run.records[1].outcome.prompt[0]["content"] == "Left 0.75"  # pyright: ignore[reportOptionalSubscript]


def test_none_has_to_be_allowed_for() -> None:
    with pytest.raises(SpecError) as error:
        machine(TEXT.replace("fleet.usd_left is not None and ", ""))
    assert [f.code for f in error.value.findings] == ["CL105"]


# replay -------------------------------------------------------------------------------------


@given(
    lefts=st.lists(st.none() | st.floats(0, 5), min_size=3, max_size=3),
    then=st.none() | st.floats(0, 5),
)
def test_a_replay_decides_by_what_was_read(lefts: list[float | None], then: float | None) -> None:
    clock = ManualClock()
    journal = MemoryJournal(now=clock.now)
    run = start(journal, clock)
    for left in [*lefts, then]:  # the limit changes before each record, and after the last
        by_hand(journal.remove_limit("fleet", "cost", "all"))
        if left is not None:
            limit(journal, FleetLimit("fleet", "cost", "all", left))
        run.advance()
    decided = lefts[1]
    assert run.session.tally.path[1] == ("cheap" if decided is not None and decided < 1 else "dear")
    assert run.replay().same
    again = machine().open(run.id, journal=journal)
    assert again.facts == run.facts


def test_a_what_if_decides_by_what_was_read(memory: MemoryJournal, clock: ManualClock) -> None:
    text = TEXT.replace("< 1.0", "< limits.short").replace(
        "states:", "limits: {short: 1.0}\nstates:"
    )
    limit(memory, FleetLimit("fleet", "cost", "all", 0.7))
    run = start(memory, clock, text)
    assert run.run().path == CHEAP
    limit(memory, FleetLimit("fleet", "cost", "all", 5.0))
    same, other = (whatif(machine(text), run, limits={"short": n}).runs[0] for n in (0.8, 0.5))
    assert same.verdict is Verdict.SAME
    assert (other.verdict, other.state) == (Verdict.ELSEWHERE, "dear")


def test_a_child_reads_it_for_itself(memory: MemoryJournal, clock: ManualClock) -> None:
    head, states = TEXT.split("states:")
    model = head[head.index("model:") :]
    inner = states.replace("\n", "\n    ")
    text = f"""
chartloop: 1
machine: parent
{model}machines:
  inner:
    {model}    states:{inner}
states:
  ask: {{do: run_machine, with: {{machine: inner, task: Go.}}, next: done}}
  done: {{stop: completed}}
"""
    limit(memory, FleetLimit("agent:parent", "cost", "all", 0.7))
    run = start(memory, clock, text)
    run.run()
    assert recorded(run) == [None, None]
    (row,) = by_hand(memory.rows(prefix=run.id + "/"))
    records = by_hand(memory.records(row.run_id))
    assert [r.next for r in records] == ["read", "cheap", "done"]
    assert records[0].input.fleet == FleetFacts(0.7)


# studies ------------------------------------------------------------------------------------


def test_a_bound_rests_on_none_and_says_so() -> None:
    found = machine().bound()
    assert found["actions"].value == 2
    assert "`fleet.usd_left` may be anything: nothing rests on it" in found.assumptions


@pytest.mark.parametrize(
    ("fleet", "path"),
    [({}, DEAR), ({"usd_left": 0.4}, CHEAP), ({"usd_left": [5, 0.4]}, CHEAP),
     ({"usd_left": [0.4, None]}, DEAR)],
)  # fmt: skip
def test_a_scenario_says_what_is_left(
    fleet: dict[str, Any], path: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "m.yaml").write_text(TEXT)
    scenario(tmp_path / "m.yaml", "Go.", fleet=fleet, replies=["x"], expect={"path": [*path]})


@pytest.mark.parametrize(
    ("fleet", "code"),
    [({"left": 1}, "CL103"), ({"usd_left": "much"}, "CL603"), ({"tokens_left": -1}, "CL603"),
     ({"tokens_left": [1, 0.5]}, "CL603")],
)  # fmt: skip
def test_a_scenario_that_cannot_be_is_refused(
    fleet: dict[str, Any], code: str, tmp_path: Path
) -> None:
    (tmp_path / "m.yaml").write_text(TEXT)
    with pytest.raises(SpecError) as error:
        scenario(tmp_path / "m.yaml", "Go.", fleet=fleet, replies=["x"], expect={"path": []})
    assert [f.code for f in error.value.findings] == [code]


def test_a_recorded_run_becomes_a_scenario_with_it(
    memory: MemoryJournal, clock: ManualClock, tmp_path: Path
) -> None:
    (tmp_path / "m.yaml").write_text(TEXT)
    limit(memory, FleetLimit("fleet", "cost", "all", 0.7))
    run = start(memory, clock)
    assert run.run().path == CHEAP
    text = recording(run, machine(), named=str(tmp_path / "m.yaml")).text
    assert "fleet: {usd_left: [0.7, 0.7, 0.4999" in text
