"""What a notebook is given of each thing that a run has or is."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any, NamedTuple, cast

import pytest

from chartloop import Finding, Record, Run, check, load
from chartloop.api.tables import Records
from chartloop.core.errors import Findings, Place, SetupError, Severity
from chartloop.core.facts import Facts
from chartloop.core.reasons import Continuation, StopSignals
from chartloop.extras import install
from chartloop.testing import ManualClock
from tests.unit.test_core_html import Strict

PYGRAPHVIZ = pytest.mark.extra(  # noqa: S610 - no Django
    "pygraphviz", install='pip install -e ".[diagrams]"'
)
IPYTHON = pytest.mark.extra("IPython", install="pip install ipython")  # noqa: S610 - no Django
PANDAS = pytest.mark.extra("pandas", install="pip install pandas")  # noqa: S610 - no Django
EVIL = "</td><script>alert(1)</script>"
WARNS = "chartloop: 1\nmachine: m\nstates:\n  a: {do: nothing, next: z}\n  z: {stop: completed}\n"


def shown(thing: Any) -> dict[str, Any]:
    """The bundle, as IPython asks for it."""
    bundle: dict[str, Any] = thing._repr_mimebundle_(include=None, exclude=None)
    return bundle


def words(thing: Any) -> str:
    """What its table says."""
    return " ".join("".join(f"{part} " for part in Strict(shown(thing)["text/html"]).said).split())


@pytest.fixture(scope="module")
def run() -> Run:
    """A run that ended, in which the model said something that wants to be a script."""
    script = [{"text": EVIL, "usage": {"prompt_tokens": 90_000, "completion_tokens": 1}}]
    made = load("agent").start(EVIL, script=script, clock=ManualClock(1_700_000_000))
    made.run()
    return made


class Shows(NamedTuple):
    """A part of a run, and what its table says."""

    id: str
    says: tuple[str, ...]


def parts(run: Run) -> dict[str, Any]:
    """What a run has that shows itself, by the name of its row."""
    return {
        "result": run.result,
        "records": run.records,
        "some-records": run.records[1:],
        "record": run.records[2],
        "facts": run.facts,
        "explanation": run.why(),
        "decision": run.why().decision,
        "signals": run.result.signals,
        "no-signals": StopSignals(),
        "continuation": run.continuation,
        "nothing-to-continue": Continuation(),
    }


@pytest.mark.parametrize(
    "case",
    [
        Shows("result", ("Done at", "output", "90,001 tokens", EVIL)),
        Shows("records", ("# kind state action outcome duration", "infer", "user_message")),
        Shows("some-records", ("step llm_inference infer ok",)),
        Shows("record", ("record 2 step", "at llm_inference", f"reply {EVIL}", "next done")),
        Shows("facts", ("usage.total_tokens 90,001", "more with their initial values")),
        Shows(
            "explanation",
            (
                "step at llm_inference",
                "rules at llm_inference",
                "90,001 against 100,000 9,999 stop: token_limit",
                "led to llm_inference → done, ✓ done",
            ),
        ),
        Shows("decision", ("at llm_inference", "path done", "stopped for completed")),
        Shows("signals", ("✓ 8 completed",)),
        Shows("no-signals", ("no stop signals",)),
        Shows("continuation", ("The run stops: completed",)),
        Shows("nothing-to-continue", ("the run continues",)),
    ],
    ids=lambda case: case.id,
)
def test_it_shows_a_table(run: Run, case: Shows) -> None:
    thing = parts(run)[case.id]
    said = words(thing)
    for text in case.says:
        assert text in said
    assert set(shown(thing)) == {"text/html", "text/plain"}
    assert shown(thing)["text/plain"]


def test_findings_keep_the_notes_beside_them() -> None:
    found = load(WARNS.replace("machine: m", "machine: m\nvars: {n: 1}\noutput: vars.n")).check()
    assert [(note.kind, note.names) for note in found.notes] == [
        ("failures", ()), ("parameters", ("vars.n",)),
    ]  # fmt: skip
    for same in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):  # noqa: S301
        assert (same, same.notes) == (found, found.notes)
    assert check(WARNS).notes == load(WARNS).check().notes
    assert check(WARNS.replace("next: z", "next: nowhere")).notes == ()


def test_findings_are_a_table_and_a_tuple() -> None:
    found = check(WARNS.replace("next: z", "next: nowhere"))
    assert isinstance(found, Findings)
    assert isinstance(found, tuple)
    said = words(found)
    assert "code at what is wrong line" in said
    for finding in found:
        assert finding.code in said
        assert finding.message in said
        assert finding.code in words(finding)
    assert "-->" in shown(found)["text/plain"]


def test_a_machine_without_findings_says_so() -> None:
    assert words(load("agent").check()) == "no findings"
    assert check(load("agent")) == ()


def test_hostile_findings_stay_words() -> None:
    finding = Finding("CL103", Severity.ERROR, EVIL, Place(EVIL, 1, 1, text=EVIL), hint=EVIL)
    assert EVIL in words(Findings((finding,)))


@PYGRAPHVIZ
def test_a_machine_shows_its_picture() -> None:
    bundle = shown(load("agent"))
    assert set(bundle) == {"image/svg+xml", "image/png", "text/plain"}
    assert bundle["text/plain"].startswith("<Machine agent")


def test_a_machine_that_cannot_be_drawn_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> bytes:
        raise SetupError("Graphviz has no mind to")

    monkeypatch.setattr("chartloop.pictures.picture.find_engine", lambda: "dot")
    monkeypatch.setattr("chartloop.pictures.dot.clear.render", refuses)
    bundle = shown(load("agent"))
    assert set(bundle) == {"text/plain"}
    assert "Graphviz has no mind to" in bundle["text/plain"]
    assert "llm_inference" in bundle["text/plain"]


@PYGRAPHVIZ
def test_a_run_shows_where_it_stands_also_where_svg_is_not_drawn(run: Run) -> None:
    bundle = shown(run)
    assert set(bundle) == {"image/svg+xml", "text/html", "text/plain"}
    assert "✓ completed" in bundle["image/svg+xml"]
    _, image = bundle["text/html"].split("</style>")  # it follows the notebook's theme
    assert image.startswith(
        '<img alt="Flowchart of Step-based agent: done at done · 2 steps; it went '
    )
    assert bundle["text/plain"] == repr(run)


def test_without_graphviz_a_run_shows_itself_in_characters(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chartloop.pictures.live.live_picture.find_engine", lambda: "mermaid")
    fresh = run.fork()
    bundle = shown(fresh)
    assert set(bundle) == {"text/plain"}
    assert "▶ done  ✓ completed" in bundle["text/plain"]
    assert install("diagrams") in bundle["text/plain"]


class TestRecords:
    def test_they_are_the_list_that_they_were(self, run: Run) -> None:
        records = run.records
        assert isinstance(records, list)
        assert records == list(records)
        assert isinstance(records[0], Record)
        assert isinstance(records[1:], Records)
        assert next(reversed(records)) is records[-1]

    def test_they_pickle_and_copy_as_a_list(self, run: Run) -> None:
        assert pickle.loads(pickle.dumps(run.records)) == run.records  # noqa: S301 - our own
        assert copy.copy(run.records) == run.records

    @PANDAS
    def test_as_a_frame(self, run: Run) -> None:
        frame = run.records.frame()
        assert list(frame.index) == [0, 1, 2]
        assert list(frame.columns[:5]) == ["kind", "state", "action", "outcome", "ok"]
        assert frame.loc[2, "tokens"] == 90_001
        assert str(frame.loc[0, "at"]) == "2023-11-14 22:13:20+00:00"
        assert len(run.records[:0].frame()) == 0

    def test_without_pandas_it_says_what_to_install(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(SetupError, match="pip install pandas"):
            run.records.frame()


class TestFacts:
    def test_they_are_the_facts_that_they_were(self, run: Run) -> None:
        assert isinstance(run.facts, Facts)
        assert run.facts == run.session.position.facts
        assert type(run.facts.replace(vars={})) is type(run.facts)
        assert pickle.loads(pickle.dumps(run.facts)) == run.facts  # noqa: S301 - our own

    def test_every_fact_by_its_name(self, run: Run) -> None:
        listed = dict(run.facts.items())
        assert listed["usage.total_tokens"] == 90_001
        assert listed["limits.steps"] == 50
        assert not any(name.startswith("marks") for name in listed)

    @PANDAS
    def test_as_a_frame(self, run: Run) -> None:
        frame = run.facts.frame()
        assert frame.loc["usage.total_tokens", "value"] == 90_001


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("explanation", "✓  otherwise"),
        ("records", "2  step   llm_inference  infer"),
        ("result", "Done at"),
    ],
)
@IPYTHON
def test_ipython_prints_a_table_in_a_terminal(run: Run, name: str, says: str) -> None:
    from IPython.core.formatters import DisplayFormatter  # noqa: PLC0415 - an extra

    formatter: Any = DisplayFormatter()
    bundle, _ = formatter.format(parts(run)[name])
    assert says in bundle["text/plain"]


@IPYTHON
def test_ipython_prints_findings_as_compilers_do() -> None:
    from IPython.lib import pretty as printing  # noqa: PLC0415 - an extra

    printed = cast(Any, printing).pretty
    assert printed(load("agent").check()) == "no findings"
    assert "-->" in printed(check(WARNS.replace("next: z", "next: nowhere")))
