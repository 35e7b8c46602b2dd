"""What the tests of crashes share: runs whose every outside call is counted, and their stories.

A `World` is what outlives a process: the journal's store, the clock, the provider and the shop. A
`Case` is a run in it. Whatever is paid answers by what it is asked, never by how often, so that
only the count tells a repeated call.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from chartloop.actions.declare import tool_spec
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.model.scripted import Scripted
from chartloop.api import Machine, Run, load
from chartloop.core.durability import Durability
from chartloop.core.outcome import ToolResult
from chartloop.core.plain import plain
from chartloop.core.specs import ToolSpec
from chartloop.run.context import Context
from chartloop.run.exceptions import AgentStop
from chartloop.run.journal import Journal, MemoryJournal
from chartloop.run.model_wrapper import ModelWrapper
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.run.sync import wait
from chartloop.testing import ManualClock

RUN = "r"

Replies = Sequence[Mapping[str, Any] | str]


class Store(Protocol):
    """Where runs are kept when their process is gone."""

    def open(self) -> Journal:
        """The journal, as a new process opens it."""
        ...

    def close(self) -> None: ...


class Memory:
    """One journal in memory: a crash leaves it as it is."""

    def __init__(self, folder: Path) -> None:
        self.journal = MemoryJournal()

    def open(self) -> Journal:
        return self.journal

    def close(self) -> None:
        return None


class Sqlite:
    """A file, opened anew by each process."""

    grouped = False
    durability: Durability = "process"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.db"
        self.opened: list[SqliteJournal] = []

    def open(self) -> Journal:
        self.close()
        journal = SqliteJournal(self.path, durability=self.durability)
        self.opened.append(journal)
        return journal.grouped if self.grouped else journal

    def close(self) -> None:
        for journal in self.opened:
            wait(journal.close(), suspends=journal.suspends)
        self.opened.clear()


class Grouped(Sqlite):
    """The same for event loops: a journal whose calls suspend."""

    grouped = True


class Flushed(Sqlite):
    """A file that is kept through the loss of power."""

    durability = "power"


class FlushedGrouped(Flushed):
    """The same for event loops."""

    grouped = True


STORES: dict[str, Callable[[Path], Store]] = {
    "memory": Memory,
    "sqlite": Sqlite,
    "grouped": Grouped,
    "sqlite-power": Flushed,
    "grouped-power": FlushedGrouped,
}


class Provider(ModelWrapper):
    """A scripted model whose calls are paid for by their key."""

    def __init__(self, replies: Replies, clock: ManualClock, pay: Callable[[str], None]) -> None:
        super().__init__(Scripted(replies, clock=clock))
        self._pay = pay

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        self._pay(request.key)
        return await super().complete(request, on_text)


class Case(NamedTuple):
    """A run that comes to the same end every time."""

    id: str
    machine: str
    """A shipped name, or the text of a file."""
    replies: Replies
    answers: Mapping[str, tuple[str, Mapping[str, Any]]] = {}
    """What is answered at each wait."""
    options: Mapping[str, Any] = {}


class World:
    """What a crash does not touch. `pay` is told the key of each call that is really made."""

    def __init__(self, case: Case, store: Store, pay: Callable[[str], None] | None = None) -> None:
        self.case = case
        self.store = store
        self.clock = ManualClock()
        self.paid: Counter[str] = Counter()
        """How often each call was really made, by the key of its intent."""
        self._pay = pay or self._count
        self.model = Provider(case.replies, self.clock, self._pay)

    @property
    def machine(self) -> Machine:
        """The machine of the case, whose tools pay in this world from now on."""
        machine, shop = _loaded(self.case.machine)
        shop.pay = self._pay
        return machine

    def _count(self, key: str) -> None:
        self.paid[key] += 1

    def start(self, journal: Journal) -> Run:
        """The run at its beginning."""
        return self.machine.start(
            "Go on.", model=self.model, journal=journal, clock=self.clock, run_id=RUN,
            **self.case.options,
        )  # fmt: skip

    def resume(self, journal: Journal) -> Run:
        """The run where it stands; from its beginning when it had none."""
        row = wait(journal.row(RUN), suspends=journal.suspends)
        if row is None or not row.head:
            return self.start(journal)
        return self.machine.open(RUN, journal=journal, model=self.model, clock=self.clock)

    def drive(self, run: Run) -> None:
        """To its end, answering what it waits for. An answer that is sent twice counts once."""
        run.run()
        while not run.ended:
            event, data = self.case.answers[run.state]
            visit = run.facts.run.visits[run.state]
            run.send(event, data, message_id=f"{run.state}-{visit}")
            run.run()


class Shop:
    """Where the tools of a machine pay: in the world that was used last."""

    pay: Callable[[str], None]

    def tools(self) -> Iterator[ToolSpec]:
        """The tools that a machine is loaded with."""

        async def pay(ctx: Context, what: str) -> str:
            """Pay for something; the very first time there is no money."""
            self.pay(_key(ctx, what))
            if what == "entry" and not ctx.facts.errors.total:
                raise ValueError("no money yet")
            return what

        async def publish(ctx: Context, what: str) -> ToolResult:
            """Make something known, which is more than a text for the model."""
            self.pay(_key(ctx, what))
            return ToolResult(what, partial=(what,), changes={"memory.news": what})

        async def send_message(ctx: Context, message: str) -> str:
            """Tell somebody."""
            self.pay(_key(ctx, message))
            return f"told {message}"

        async def halt(ctx: Context, what: str) -> str:
            """Ask the run to stop."""
            self.pay(_key(ctx, what))
            raise AgentStop("enough", reason="custom")

        yield from map(tool_spec, (pay, publish, send_message, halt))


@cache
def _loaded(machine: str) -> tuple[Machine, Shop]:
    """A machine is loaded once: to load it takes longer than to run it."""
    shop = Shop()
    tools = [*shop.tools()]
    if "in_doubt" in machine:
        return load(machine, tools=tools), shop
    # what was cut off by a death is made again
    text = json.loads(load(machine, tools=tools).canonical())
    return load(json.dumps({**text, "in_doubt": "retry"}), tools=tools), shop


def _key(ctx: Context, what: str) -> str:
    """The key of a call's intent: the scripts name each call of a reply by its argument."""
    batch = ctx.state.action is not None and ctx.state.action.own_intents
    assert not batch or ctx.key.endswith(f"/{what}") or ctx.state.calls == "task", ctx.key
    return ctx.key


def story(run: Run) -> dict[str, Any]:
    """Everything that must be the same however often the process died."""
    result = run.result
    return {
        "path": result.path,
        "facts": _without_doubt(plain(result.facts)),
        "output": result.output,
        "reason": str(result.reason),
        "signals": result.signals.to_list(),
        "errors": plain(result.errors),
        "partial": result.partial,
        "messages": plain(run.messages),
        "records": [_told(r.to_dict()) for r in run.records],
        "children": children(run),
    }


def _without_doubt(data: Any) -> Any:
    """A child that was interrupted says so in its warnings, which its parent passes on."""
    if isinstance(data, dict):
        given = cast("dict[str, Any]", data)
        return {name: _without_doubt(value) for name, value in given.items()}
    if isinstance(data, list):
        items = cast("list[Any]", data)
        return [_without_doubt(x) for x in items if "before an interruption" not in str(x)[:200]]
    return data


def _told(record: dict[str, Any]) -> dict[str, Any]:
    """A record as it must be the same: the sandbox's checkpoint holds how long its code took."""
    record = _without_doubt(record)
    outcome = record.get("outcome", {})
    kept = {k: v for k, v in outcome.get("kept", {}).items() if k != "python"}
    return {**record, "outcome": {**outcome, "kept": kept}} if outcome else record


def doubts(journal: Journal) -> Counter[str]:
    """How often each call of the run and its children was found in doubt."""
    found: Counter[str] = Counter()
    for row in wait(journal.rows(prefix=RUN), suspends=journal.suspends):
        events = wait(journal.events(row.run_id), suspends=journal.suspends)
        keys = (str(e.data["key"]) for e in events if e.type == "in_doubt")
        found.update(_own_key(row.run_id, key) for key in keys)
    return found


def _own_key(run_id: str, key: str) -> str:
    """The action's key and, behind it, the id of the call: whatever stands between does not count."""
    parts = key.removeprefix(f"{run_id}/").split("/")
    return "/".join([run_id, *parts[:2], *parts[2:][-1:]])


def children(run: Run) -> dict[str, Any]:
    """The records of its children's runs."""
    journal = run.session.journal
    rows = wait(journal.rows(prefix=f"{run.id}/"), suspends=journal.suspends)
    events = {
        row.run_id: wait(journal.events(row.run_id), suspends=journal.suspends) for row in rows
    }
    return {
        name: [_told(e.record.to_dict()) for e in found if e.record is not None]
        for name, found in events.items()
    }


AGENT = Case(
    "agent",
    "agent",
    [
        {"error": {"category": "TRANSIENT", "message": "overloaded"}},
        {
            "text": "Both.",
            "tool_calls": [
                {"name": "send_message", "arguments": {"message": "one"}, "id": "one"},
                {"name": "send_message", "arguments": {"message": "two"}, "id": "two"},
            ],
            "usage": {"prompt_tokens": 20_000, "completion_tokens": 18},
        },
        {
            "tool_calls": [
                {"name": "core_memory_append", "arguments": {"block_name": "human", "content": "x"}}
            ]
        },
        "Done.",
    ],
    options={"limits": {"context": 0.1}},
)

EXECUTIVE = Case(
    "executive",
    "executive",
    [
        "<PLAN>a</PLAN>\n```python\nx = 6 * 7\nprint(x)\n```\n<STATE_UPDATE>\nStatus: Running\n</STATE_UPDATE>",
        "<PLAN>b</PLAN>\n```python\nprint(x + 1)\n```",
        "<PLAN>c</PLAN>\n```python\n1 / 0\n```",
        "<PLAN>[FINALIZE]</PLAN>",
    ],
    options={"vars": {"constitution": "Be exact."}},
)

ERRANDS = Case(
    "errands",
    """
chartloop: 1
machine: errands
model: {name: scripted}
tools: [pay, send_message]
limits: {steps: 40}
vars: {note: "", bought: {type: "list[str]", value: []}}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.tool_calls >= 3 and run.visits.tidy < 1, to: tidy, before: [think]}
states:
  hello: {do: receive, next: enter}
  enter:
    do: tool
    with: {name: pay, arguments: {what: entry}}
    save: {vars.bought: {append: "{{ result }}"}}
    failed: nap
    next: think
  nap: {do: back_off, with: {base: 5s}, next: enter}
  think:
    do: infer
    next:
      - {when: len(last.tool_calls) > 0, to: shop}
      - {to: confirm}
  shop: {do: call_tools, status: debugging, next: think}
  tidy: {do: prune_context, next: return}
  confirm:
    ask: Was that all?
    on:
      more: {to: think, data: {note: str}}
      done: {to: linger, data: {note: str}, set: {vars.note: last.answer.note}}
  linger: {ask: Anything else?, on: {more: think}, within: 1d, expired: save}
  save: {do: save_run, status: running, next: bye}
  bye: {do: report, with: {text: "{{ vars.note }}"}, next: finished}
  finished: {stop: completed}
output: {note: vars.note, bought: vars.bought}
""",
    [
        {
            "tool_calls": [
                {"name": "pay", "arguments": {"what": "bread"}, "id": "bread"},
                {"name": "send_message", "arguments": {"message": "tea"}, "id": "tea"},
                {"name": "pay", "arguments": {"what": "milk"}, "id": "milk"},
            ]
        },
        "Is that all?",
    ],
    answers={"confirm": ("done", {"note": "thanks"})},
)

HALTED = Case(
    "halted",
    """
chartloop: 1
machine: halted
model: {name: scripted}
tools: [halt, pay, publish]
memory: {news: ""}
limits: {steps: 9}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  begin: {do: report, next: think}
  think: {do: infer, next: shop}
  shop: {do: call_tools, next: think}
""",
    [
        {
            "tool_calls": [
                {"name": "publish", "arguments": {"what": "rain"}, "id": "rain"},
                {"name": "halt", "arguments": {"what": "all"}, "id": "all"},
            ]
        },
        "not reached",
    ],
)

MENDED = Case(
    "mended",
    """
chartloop: 1
machine: mended
model: {name: scripted}
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  hello: {do: receive, next: think}
  think:
    do: infer
    with:
      output: {type: object, required: [city], properties: {city: {type: string}}}
      repair: 3
    retry: {times: 1, base: 1s, on: [TRANSIENT]}
    save: {vars.city: result.data.city}
    next: again
  again: {do: infer, with: {output: {type: object, required: [n]}, repair: 1}, failed: next, next: done}
  done: {stop: completed}
vars: {city: ""}
output: vars.city
""",
    [
        "Paris, I think.",
        {"error": {"category": "TRANSIENT", "message": "overloaded"}},
        '{"town": "Paris"}',
        '{"city": "Paris"}',
        "[]",
        "still none",
    ],
)

FAMILY = Case(
    "family",
    """
chartloop: 1
machine: family
in_doubt: retry
model: {name: scripted}
tools: [pay, send_message]
limits: {steps: 40, tokens: 9_000}
vars: {said: "", all: {type: map, value: {}}}
tasks: [{id: t, text: Fetch it., by: {machine: errand}}]
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.total_tokens >= limits.tokens, stop: token_limit}
machines:
  errand:
    in_doubt: retry
    model: {name: scripted}
    tools: [pay]
    limits: {tokens: 5_000}
    rules: [{when: usage.total_tokens >= limits.tokens, stop: token_limit}]
    output: last.text
    states:
      hear: {do: receive, next: think}
      think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: shop}, confirm]}
      shop: {do: call_tools, next: think}
      confirm: {ask: "Was it right?", on: {yes: done, no: think}}
      done: {stop: completed}
  note:
    model: {name: scripted}
    states:
      hear: {do: receive, next: think}
      think: {do: infer, next: done}
      done: {stop: completed}
states:
  hello: {do: receive, next: send}
  send:
    do: run_machine
    with: {machine: errand, task: "{{ run.task }}", share: [messages]}
    save: {vars.said: result.text}
    next: fetch
  fetch: {do: work, next: notes}
  notes:
    do: run_machines
    with: {machine: note, each: '["left", "right"]'}
    save: {vars.all: result.outputs}
    next: done
  done: {stop: completed}
output: {said: vars.said, all: vars.all}
""",
    [
        {"tool_calls": [{"name": "pay", "arguments": {"what": "tea"}, "id": "tea"}]},
        "There.",
        "Fetched.",
        "One.",
        "Two.",
    ],
    answers={"send": ("yes", {}), "fetch": ("yes", {})},
)
