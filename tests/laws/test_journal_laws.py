"""Laws of journals: what holds for every sequence of calls and for every text."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.codec import from_json, to_json, to_json_fast
from chartloop.core.errors import ChartloopError, Driven, UnknownRunError
from chartloop.core.facts import Failure, Task, ToolCall
from chartloop.core.outcome import Outcome, Reply, Spent
from chartloop.core.reasons import REASONS, StopSignal, StopSignals
from chartloop.core.records import KINDS, Input, Record
from chartloop.run.journal import (
    Event,
    InboxMessage,
    Journal,
    MemoryJournal,
    RunRow,
    Snapshot,
    Update,
    digest,
)
from chartloop.run.journal_pages import RunFilter
from chartloop.run.journal_records import OpenQuestion
from chartloop.run.lease import Driver
from chartloop.run.payload import LARGE, pack, unpack
from chartloop.run.processes import Process
from chartloop.run.redact import PATTERNS, STRUCTURE, Redactor
from chartloop.run.sync import by_hand
from tests.effort import examples

# -- what may stand in a record ------------------------------------------------------------------


def repeated(text: str, times: int) -> str:
    return text * times


TEXTS = st.text(st.characters(codec=None), max_size=12)
"""Any text at all: NUL and lone surrogates too."""
HUGE = st.builds(repeated, st.text(min_size=1, max_size=3), st.integers(LARGE, LARGE + 2))
STRANGE_KEYS = st.sampled_from(["$blob", "$$blob", "blob", "$", "$blob\0", "$blob$", '$blob"'])
FLOATS = st.floats(allow_nan=False)
AMOUNTS = st.floats(0, 1e15)
"""Times, and USD: a record with another one is damaged, and not read."""
LEAVES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | FLOATS | TEXTS | STRANGE_KEYS | HUGE
)


def lists_and_mappings(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    mappings = st.dictionaries(TEXTS | STRANGE_KEYS, inner, max_size=3)
    return st.lists(inner, max_size=3) | mappings


JSON = st.recursive(LEAVES, lists_and_mappings, max_leaves=8)
MAPPINGS = st.dictionaries(TEXTS | STRANGE_KEYS, JSON, max_size=3)
WORDS = st.sampled_from(["think", "act", "done"])
SIGNALS = st.builds(StopSignal, st.sampled_from(list(REASONS.values())), TEXTS, MAPPINGS, TEXTS)
CALLS = st.builds(ToolCall, TEXTS, TEXTS, TEXTS)
TASKS = st.tuples(TEXTS, TEXTS).map(lambda words: Task(*words))
MESSAGES = st.lists(MAPPINGS, max_size=2).map(tuple)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "ok": st.booleans(),
    "error": st.none() | st.builds(Failure, TEXTS, TEXTS, TEXTS, TEXTS),
    "result": JSON,
    "reply": st.builds(Reply, TEXTS | HUGE, TEXTS, st.lists(CALLS, max_size=2).map(tuple)),
    "messages": MESSAGES,
    "rewrite": st.none() | MESSAGES,
    "spent": st.builds(Spent, st.integers(0, 9), cost=st.none() | AMOUNTS),
    "changes": MAPPINGS,
    "queue": st.none() | st.lists(TASKS, max_size=2).map(tuple),
    "kept": MAPPINGS,
    "signals": st.lists(SIGNALS, max_size=2).map(tuple),
}
_ANY = st.fixed_dictionaries({}, optional=FIELDS).map(lambda fields: Outcome(**fields))


def _as_said(outcome: Outcome, result: bool, message: bool) -> Outcome:
    """As `infer` returns it: what the model said stands in the result, or among the messages."""
    if outcome.reply is None:
        return outcome
    said = (*outcome.messages, outcome.reply.message) if message else outcome.messages
    return outcome.replace(result=outcome.reply.result if result else outcome.result, messages=said)


OUTCOMES = st.builds(_as_said, _ANY, st.booleans(), st.booleans())
INPUTS = st.builds(
    Input, st.sampled_from(KINDS), TEXTS, st.none() | OUTCOMES, AMOUNTS, AMOUNTS, MAPPINGS,
    st.lists(st.booleans(), max_size=2).map(tuple),
)  # fmt: skip
RECORDS = st.builds(
    Record, st.just(0), WORDS, INPUTS, st.lists(TEXTS, max_size=2).map(tuple),
    st.lists(SIGNALS, max_size=2).map(StopSignals), WORDS, WORDS, st.none() | AMOUNTS,
    st.lists(TEXTS, max_size=2).map(tuple),
)  # fmt: skip


FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where a file costs nothing: hundreds are made here, and none needs to outlive the power."""


@contextmanager
def file_journal(redactor: Redactor | None = None) -> Generator[SqliteJournal]:
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        journal = SqliteJournal(Path(folder) / "journal.db", redactor=redactor)
        yield journal
        by_hand(journal.close())


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(records=st.lists(RECORDS, min_size=1, max_size=3), data=MAPPINGS)
def test_what_was_appended_is_read_back(records: list[Record], data: Mapping[str, Any]) -> None:
    events = [
        Event(n, "record", record.input.at, record.replace(seq=n), {}, 1)
        for n, record in enumerate(records)
    ]
    events.append(Event(len(events), "result", 1.5, None, data, 1))
    with file_journal() as journal:
        by_hand(journal.create(RunRow("r")))
        by_hand(journal.acquire("r"))
        by_hand(journal.append("r", 0, 1, events))
        by_hand(journal.put_snapshot("r", Snapshot(1, 1, data)))
        by_hand(journal.send("r", InboxMessage("m", 0.1, data)))
        assert by_hand(journal.events("r")) == events
        assert by_hand(journal.snapshot("r")) == Snapshot(1, 1, data)
        assert by_hand(journal.inbox("r")) == [InboxMessage("m", 0.1, data)]


@given(data=MAPPINGS)
def test_fast_json_says_what_json_says(data: Mapping[str, Any]) -> None:
    assert from_json(to_json_fast(data)) == data
    assert json.loads(to_json_fast(data)) == json.loads(to_json(data))
    assert from_json(to_json(data)) == json.loads(to_json(data))


FOREIGN: list[Any] = [
    date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), timedelta(1), UUID(int=1), Decimal(1),
    b"bytes", {"set"}, frozenset({1}), 1j, object(), ValueError,
]  # fmt: skip


@pytest.mark.parametrize("value", FOREIGN, ids=lambda value: type(value).__name__)
def test_what_is_no_json_is_refused_and_not_made_into_some(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        to_json({"x": value})
    with pytest.raises((TypeError, ValueError)):
        to_json_fast({"x": value})


@given(text=TEXTS | HUGE)
def test_a_text_that_was_put_is_read_back(text: str) -> None:
    with file_journal() as journal:
        assert by_hand(journal.blob(by_hand(journal.put_blob(text)))) == text


# -- one behaviour -------------------------------------------------------------------------------

IDS = st.sampled_from(["a", "ab", "a%", "a_", "A", "é", "b"])
PREFIXES = st.sampled_from(["", "a", "a%", "_", "A", "é", "z"])
SHORT = st.sampled_from(["", "x", "y"])
CREATED = st.integers(0, 2).map(float)
ROWS = st.tuples(IDS, SHORT, SHORT, SHORT, SHORT, CREATED).map(
    lambda c: RunRow(c[0], c[1], status=c[2], agent=c[3], session=c[4], created=c[5])
)
DRIVERS = st.sampled_from(
    [Driver(name, "python", Process("far", n)) for n, name in enumerate(("me", "you"), 1)]
)
"""Of another machine: whether they are still there only the clock can say."""
TEXT = st.builds(repeated, st.sampled_from(["x", "é"]), st.sampled_from([1, LARGE + 1]))


class OneBehaviour(RuleBasedStateMachine):
    """Every journal answers every sequence of calls as the one in memory does."""

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=FAST)
        self.runner = asyncio.Runner()
        self.now = 1_000.0
        folder, now = Path(self.folder.name), lambda: self.now
        by_itself = SqliteJournal(folder / "one.db", redactor=None, now=now)
        shared = SqliteJournal(folder / "two.db", redactor=None, now=now)
        flushed = SqliteJournal(folder / "three.db", durability="power", redactor=None, now=now)
        self.files = [by_itself, shared, flushed]
        # `Runner.run` would set up and take down a signal handler for each of thousands of calls
        of_loop = self.runner.get_loop().run_until_complete
        self.desks: list[tuple[Journal, Callable[[Coroutine[Any, Any, Any]], Any]]] = [
            (MemoryJournal(now=now), by_hand),
            (by_itself, by_hand),
            (shared.grouped, of_loop),
            (flushed.grouped, of_loop),
        ]
        self.last: dict[str, tuple[int, int, list[Event]]] = {}
        self.behind = False
        """There are events that were not read although nothing changed."""
        self.seen = [("", "") for _ in self.desks]
        """Of each journal, how far its events were followed, and the token of that."""
        self.until: dict[str, tuple[str, float]] = {}
        """Whose lease a run has, and until when, as far as its journal was told."""

    def teardown(self) -> None:
        for journal in self.files:
            by_hand(journal.close())
        self.runner.close()
        self.folder.cleanup()

    def call(self, method: str, *args: Any, **more: Any) -> Any:
        """The same call of every journal; they must agree."""
        answers: list[Any] = []
        for journal, run in self.desks:
            try:
                answers.append(run(getattr(journal, method)(*args, **more)))
            except ChartloopError as error:
                answers.append((type(error), str(error)))
        assert answers[1:] == answers[:1] * (len(answers) - 1), method
        return answers[0]

    @rule(row=ROWS)
    def create(self, row: RunRow) -> None:
        self.call("create", row)

    @rule(run_id=IDS)
    def acquire(self, run_id: str) -> None:
        """Nobody in particular: only where no driver is in the way."""
        self._acquired(run_id, None, self.call("acquire", run_id))

    @rule(run_id=IDS, driver=DRIVERS, ttl=st.sampled_from([1.0, 30.0]), take_over=st.booleans())
    def drive(self, run_id: str, driver: Driver, ttl: float, take_over: bool) -> None:
        """Of two drivers one has the lease, and another gets it by force or when it has lapsed."""
        more = {"ttl": ttl, "take_over": take_over}
        got = self.call("acquire", run_id, driver, **more)
        if self._acquired(run_id, driver, got, take_over=take_over):
            self.until[run_id] = (driver.token, self.now + ttl)

    def _acquired(
        self, run_id: str, driver: Driver | None, got: Any, *, take_over: bool = False
    ) -> bool:
        whose, until = self.until.get(run_id, ("", 0.0))
        other = whose != (driver.token if driver else "") and self.now < until
        refused = isinstance(got[0], type)
        if refused:
            known = self.call("row", run_id) is not None
            assert got[0] is (Driven if known else UnknownRunError)
            assert not known or (other and not take_over)
            return False
        assert take_over or not other
        assert (got[1].left == "alive") is other
        self.until.pop(run_id, None)
        assert (got[1].before is None) is (whose in ("", driver.token if driver else ""))
        return True

    @rule(run_id=IDS, driver=DRIVERS, ttl=st.sampled_from([1.0, 30.0]))
    def renew(self, run_id: str, driver: Driver, ttl: float) -> None:
        mine = self.until.get(run_id, ("", 0.0))[0] == driver.token
        assert self.call("renew", run_id, driver, ttl=ttl) is mine
        if mine:
            self.until[run_id] = (driver.token, self.now + ttl)

    @rule(run_id=IDS, driver=DRIVERS)
    def release(self, run_id: str, driver: Driver) -> None:
        self.call("release", run_id, driver)
        if self.until.get(run_id, ("", 0.0))[0] == driver.token:
            del self.until[run_id]
            assert self.call("lease", run_id) is None

    @rule(seconds=st.sampled_from([0.5, 1.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(
        run_id=IDS,
        texts=st.lists(TEXT, max_size=2),
        off=st.sampled_from([0, 0, 0, 0, 1, -1]),
        behind=st.sampled_from([0, 0, 0, 0, 1]),
        consumed=st.lists(SHORT, max_size=2),
    )
    def append(
        self,
        run_id: str,
        texts: list[str],
        off: int,
        behind: int,
        consumed: list[str],
    ) -> None:
        row = self.call("row", run_id)
        head, epoch = (row.head + off, row.epoch - behind) if row else (0, 0)
        seen: list[Event] = self.call("events", run_id) if row else []
        number = sum(event.record is not None for event in seen)
        events: list[Event] = []
        for text in texts:
            at = float(max(head, 0) + len(events))
            events.append(Event(head + len(events), "intent", at, None, {"key": text}))
            record = Record(number, "s", Input("step", data={"$blob": text}, at=at), status="x")
            events.append(Event(head + len(events), "record", at, record))
            number += 1
        update = None
        if texts:
            asked = OpenQuestion("1", texts[0], {"e": {"n": "int"}}) if number % 2 else None
            status, reason = ("paused", "") if asked else ("running", "x" if number % 3 else "")
            update = Update(
                status, "s", reason, number, question=asked, tokens=number,
                ending="failed" if reason else "", message=texts[0], last_state=texts[-1],
            )  # fmt: skip
        self.last[run_id] = (head, epoch, events)
        more = {"update": update, "consumed": consumed}
        self.call("append", run_id, head, epoch, events, **more)

    @rule(run_id=IDS)
    def append_again(self, run_id: str) -> None:
        if run_id in self.last:
            self.call("append", run_id, *self.last[run_id])

    @rule(
        run_id=IDS, message=st.builds(InboxMessage, SHORT, st.just(1.0), st.just({"kind": "pause"}))
    )
    def send(self, run_id: str, message: InboxMessage) -> None:
        self.call("send", run_id, message)

    @rule(text=SHORT)
    def put_blob(self, text: str) -> None:
        self.call("blob", self.call("put_blob", text))

    @rule(run_id=IDS, n=st.integers(0, 3))
    def put_snapshot(self, run_id: str, n: int) -> None:
        self.call("put_snapshot", run_id, Snapshot(n, n, {"n": n}))

    @rule(run_id=IDS, at=st.integers(0, 4), row=ROWS)
    def fork(self, run_id: str, at: int, row: RunRow) -> None:
        self.call("fork", run_id, at, row)

    @rule(run_ids=st.lists(IDS, max_size=2))
    def remove(self, run_ids: list[str]) -> None:
        self.call("remove", run_ids)
        for run_id in run_ids:
            self.until.pop(run_id, None)

    @rule(
        wanted=st.fixed_dictionaries(
            {},
            optional={
                **dict.fromkeys(("machine", "status", "agent", "session"), SHORT),
                "prefix": PREFIXES,
                "limit": st.integers(0, 3),
            },
        )
    )
    def rows(self, wanted: dict[str, Any]) -> None:
        self.call("rows", **wanted)

    @rule(
        filter=st.builds(
            RunFilter,
            **dict.fromkeys(("machine", "agent", "session"), st.none() | SHORT),
            status=st.sampled_from([None, "", "x", "running", "paused"]),
            reason=st.sampled_from([None, None, "", "x"]),
            prefix=st.none() | PREFIXES,
            parent=st.none() | IDS | SHORT,
            waiting=st.sampled_from([None, None, False, True]),
            created_from=st.none() | CREATED,
            created_to=st.none() | CREATED,
            updated_from=st.none() | CREATED,
            updated_to=st.none() | CREATED,
            children=st.booleans(),
        ),
        limit=st.integers(1, 3),
    )
    def pages(self, filter: RunFilter, limit: int) -> None:
        """Page by page it is what one page has, and what fits."""
        whole, cursor = self.call("page", filter, "", 999), ""
        assert {r.run_id for r in whole.rows} == {
            r.run_id for r in self.call("rows") if filter.fits(r)
        }
        found: list[RunRow] = []
        while True:
            rows, cursor = self.call("page", filter, cursor, limit)
            found += rows
            if not cursor:
                break
        assert found == whole.rows

    @rule(limit=st.integers(0, 3))
    def follow(self, limit: int) -> None:
        """Whoever follows the events gets what every other journal's follower gets."""
        told: list[Any] = []
        for number, (journal, run) in enumerate(self.desks):
            cursor, token = self.seen[number]
            now = run(journal.changed(token))
            tail = run(journal.tail(cursor, limit))
            assert now is not None or not tail.events or limit == 0 or self.behind
            self.seen[number] = (tail.cursor, now or token)
            told.append(([(e.run_id, e.event) for e in tail.events], tail.cursor == tail.newest))
        assert told[1:] == told[:1] * (len(told) - 1)
        self.behind = not told[0][1]

    @invariant()
    def everything_is_the_same(self) -> None:
        for row in self.call("rows"):
            events = self.call("events", row.run_id)
            assert row.head == len(events)
            self.call("events", row.run_id, row.head // 2)
            self.call("inbox", row.run_id)
            self.call("lease", row.run_id)
            self.call("snapshot", row.run_id)
            self.call("blob", digest("x"))


@pytest.mark.law
@pytest.mark.slow("takes seconds")
def test_every_journal_behaves_as_the_one_in_memory() -> None:
    run_state_machine_as_test(OneBehaviour, settings=settings(max_examples=examples(30)))


# -- payloads ------------------------------------------------------------------------------------


@given(data=MAPPINGS)
def test_what_was_packed_is_unpacked(data: dict[str, Any]) -> None:
    packed = pack(to_json(data))
    assert unpack(packed.text, packed.blobs.__getitem__) == data
    assert all(digest(text) == key and len(text) > LARGE for key, text in packed.blobs.items())


@given(data=MAPPINGS)
def test_nothing_large_stays_in_an_event(data: dict[str, Any]) -> None:
    """And whatever looks like a reference is one of ours."""
    packed = pack(to_json(data))
    found: list[str] = []

    def look(node: dict[str, Any]) -> dict[str, Any]:
        if "$blob" in node:
            found.append(node["$blob"])
        return node

    left = json.loads(packed.text, object_hook=look)
    assert set(found) == set(packed.blobs)
    assert max(map(len, strings(left)), default=0) <= LARGE


def strings(value: Any) -> Iterator[str]:
    """Every string in JSON data, those in JSON inside strings too."""
    if isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            try:
                yield from strings(json.loads(value))
            except (ValueError, RecursionError):
                return
    elif isinstance(value, (dict, list)):
        inner: Any = value  # pyright: ignore[reportUnknownVariableType]
        for part in inner.values() if isinstance(inner, dict) else inner:  # pyright: ignore[reportUnknownVariableType]
            yield from strings(part)


# -- secrets -------------------------------------------------------------------------------------

SECRETS = st.text(st.characters(exclude_characters="«»:redacted"), min_size=8, max_size=20)
AROUND = st.text(st.sampled_from('01 \n"\\{}[]«»'), max_size=4)
HIDING_PLACES: list[Callable[[str], dict[str, Any]]] = [
    lambda text: {"data": {"vars": {"x": [text]}}},
    lambda text: {"outcome": {"result": text}},
    lambda text: {"outcome": {"messages": [{"role": "tool", "content": text}]}},
    lambda text: {"outcome": {"reply": {"tool_calls": [{"arguments": to_json({"q": [text]})}]}}},
    lambda text: {"outcome": {"result": json.dumps([{"q": json.dumps({"p": text})}])}},
    lambda text: {"signals": [{"message": text, "context": {"vars.x": text}}]},
]


@given(secret=SECRETS, before=AROUND, after=AROUND, place=st.sampled_from(HIDING_PLACES))
def test_a_known_secret_survives_nowhere(
    secret: str, before: str, after: str, place: Callable[[str], dict[str, Any]]
) -> None:
    redactor = Redactor([secret], environ={})
    cleaned = redactor.json(to_json(place(f"{before}{secret}{after}")))
    assert not any(secret in text for text in strings(json.loads(cleaned)))
    assert redactor.json(cleaned) == cleaned
    assert secret not in redactor.text(f"{before}{secret}{after}")


@given(data=MAPPINGS, secret=SECRETS)
def test_what_holds_no_secret_is_left(data: dict[str, Any], secret: str) -> None:
    text = to_json({"outcome": {"result": data}})
    if not any(secret in found for found in strings(json.loads(text))):
        redactor = Redactor([secret], names=(), environ={})  # what a name says is another law
        assert json.loads(redactor.json(text)) == json.loads(text)


PIECES = st.sampled_from(
    ["sk-", "sk-ant-", "AKIA", "ghp_", "github_pat_", "xoxb-", "AIza", "eyJ", "Bearer ", "://", ":", "@",
     "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "a1B2c3D4e5F6g7H8i9J0k", ".", "/",
     '"', "\\", "\n", "{", "}", "[", '"api_key":', '{"token":"', "correct-horse", "«redacted:x»"]
)  # fmt: skip
PATCHWORK = st.lists(PIECES, max_size=10)
CREDENTIALS = [
    "sk-ant-api03-a1B2c3D4e5F6g7H8", "sk-a1B2c3D4e5F6g7H8i9J0k", "eyJhbGciOiJI.eyJzdWIiOiIx.abc",
    "Bearer a1B2c3D4e5F6g7H8", "postgres://me:pass@db", "correct-horse", "«redacted:x»",
    "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----", '{"api_key": "a-b-c-d-e-f"}',
]  # fmt: skip


@given(pieces=PATCHWORK, inner=PATCHWORK)
def test_json_stays_json_of_the_same_shape(pieces: list[str], inner: list[str]) -> None:
    redactor = Redactor(["correct-horse"], environ={})
    text, nested = "".join(pieces), to_json({"b": "".join(inner)})
    data = {"outcome": {"result": [text, 1, {"a": text}], "reply": {"text": nested}}}
    after = json.loads(redactor.json(to_json(data)))
    assert after["outcome"]["result"][1] == 1
    assert list(after["outcome"]["result"][2]) == ["a"]
    assert list(json.loads(after["outcome"]["reply"]["text"])) == ["b"]


@given(words=st.lists(st.sampled_from(CREDENTIALS) | PIECES, max_size=10))
def test_hidden_twice_is_hidden_once(words: list[str]) -> None:
    redactor = Redactor(["correct-horse"], environ={})
    text = " ".join(words)
    cleaned = redactor.json(to_json({"result": text, "arguments": to_json({"token": text})}))
    assert redactor.json(cleaned) == cleaned
    assert redactor.text(redactor.text(text)) == redactor.text(text)


@pytest.mark.slow("tries hundreds of examples for seconds")
@pytest.mark.parametrize("number", range(len(PATTERNS)))
@given(data=st.data())
def test_every_pattern_is_looked_for(number: int, data: st.DataObject) -> None:
    """The cheap look at a text, before the patterns, misses nothing that they would find."""
    regex = PATTERNS[number].regex
    match = data.draw(st.from_regex(regex, fullmatch=True))
    text = f" {match} "
    found = regex.search(text)
    if found is not None:
        assert found.group() not in Redactor(environ={}).text(text)


@given(word=SECRETS)
def test_words_that_a_replay_needs_are_left(word: str) -> None:
    def fill(tree: Mapping[str, Any]) -> Any:
        return {name: fill(inner) for name, inner in tree.items()} if tree else [word, word]

    document = to_json({**fill(STRUCTURE), "text": word})
    cleaned = json.loads(Redactor({"NAME": word}, environ={}).json(document))
    assert cleaned == {**json.loads(document), "text": "«redacted:NAME»"}
