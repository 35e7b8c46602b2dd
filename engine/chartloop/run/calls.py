"""Calls with effects: what is known of each, and what a run does where that is nothing.

A call is *not begun*, *in flight*, *done*, *failed* or *unknown*. It is unknown when its intent has
no result and its driver is gone or its deadline has passed, or when its tool says so. An event
`in_doubt` in the log says which calls became unknown; a result that comes later settles one.

Belongs here: the fold of a log into its calls, pure. Never: what is done about one
(`machine.in_doubt`, `run.doubts`).

Source: docs/stuck.md, "A call in doubt"; docs/language.md, `in_doubt`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from chartloop.core.codec import written
from chartloop.core.position import ELICITATION, IN_DOUBT
from chartloop.core.records import Input
from chartloop.run.journal_records import Event, Intent

Standing = Literal["in flight", "done", "failed", "unknown"]
EXPIRED = "expired"
"""The decision on a call in doubt if nobody answers in time: it stays unknown."""


class Begun(NamedTuple):
    """A call that was begun."""

    key: str
    state: str
    at: float
    """When it was begun, in seconds since the epoch."""
    standing: Standing
    data: Mapping[str, Any]
    """That of its intent, or of the newest doubt about it."""

    @property
    def tool(self) -> str:
        """The tool that it calls; empty for an action that calls none."""
        return str(self.data.get("tool", ""))

    @property
    def name(self) -> str:
        """The tool, or the action that made it."""
        return self.tool or str(self.data.get("action", "")) or "a call"


class Calls:
    """The calls of a run's current action, folded from its log."""

    def __init__(self) -> None:
        self.intents: dict[str, Mapping[str, Any] | Intent] = {}
        """The intents since the last record that closed calls, by key."""
        self.results: dict[str, Mapping[str, Any]] = {}
        """The results of these calls that arrived, by key."""
        self.unknown: dict[str, Mapping[str, Any]] = {}
        """The calls of the run that became unknown and were not settled since, by key."""
        self.decided: dict[str, str] = {}
        """The decisions on calls of the current action: `retry`, `fail` or `EXPIRED`."""

    def copy(self) -> Calls:
        """A copy that is folded on by itself."""
        other = Calls()
        for name, known in vars(self).items():
            setattr(other, name, {**known})
        return other

    @property
    def pending(self) -> list[str]:
        """The keys of the calls of the current action that have no result."""
        return [key for key in self.intents if key not in self.results]

    def add(self, type: str, key: str, data: Mapping[str, Any] | Intent) -> None:
        """Fold an intent, a result or a doubt."""
        if type == "intent":
            self.intents[key] = data
            self.unknown.pop(key, None)
            self.decided.pop(key, None)
        elif isinstance(data, Intent):
            raise TypeError(f"{type} {key}")
        elif type == "result":
            self.results[key] = data
            if not data.get("in_doubt"):
                self.unknown.pop(key, None)
        else:
            self.unknown[key] = data

    def close(self, input: Input, doubt: Mapping[str, Any] | None) -> None:
        """Drop the calls that a record settles; `doubt` is the question that it answers, if any.

        While the current action stays the same, its results are kept: no call is made twice.
        """
        kind = input.kind
        if kind == "step":
            self.intents, self.results, self.decided = {}, {}, {}
        elif doubt is not None and kind in ("answer", "expired", "resume"):
            word = "retry" if kind == "resume" else input.event or EXPIRED  # of older rules
            for key in doubt.get("keys") or self.pending:
                self.decided[key] = word
                if word == "fail":
                    self.unknown.pop(key, None)
        elif kind not in ("answer", "blocked") and not self.decided:
            self.intents, self.results = {}, {}
        elif kind == "blocked" and input.data.get("on") not in (ELICITATION, IN_DOUBT):
            known = {**self.results, **self.unknown}  # it is called again
            self.intents = {k: one for k, one in self.intents.items() if k in known}


def begun_in(events: Iterable[Event]) -> dict[str, Begun]:
    """Every call that was begun in a part of a run's log, by key, with its state at the end of it.

    No call goes on after that end: one without a result is unknown.
    """
    found: dict[str, Begun] = {}
    asked = False
    for event in events:
        record, data = event.record, event.data
        if record is None:
            key, type = str(data.get("key", "")), event.type
            known = found.get(key)
            if type == "intent" or (type == "in_doubt" and known is None):
                standing: Standing = "in flight" if type == "intent" else "unknown"
                state = str(data.get("state", ""))
                found[key] = Begun(key, state, event.at, standing, data)
            elif known is not None and type == "in_doubt":
                found[key] = known._replace(standing="unknown", data={**known.data, **data})
            elif known is not None and type == "result" and not data.get("in_doubt"):
                ok = data.get("ok", "error" not in data)
                found[key] = known._replace(standing="done" if ok else "failed")
        elif record.kind == "blocked":
            asked = record.input.data.get("on") == IN_DOUBT
        elif record.kind == "step" and record.outcome is not None:
            ended: Standing = "done" if record.outcome.ok else "failed"
            found = {k: _end(one, "in flight", ended) for k, one in found.items()}
        elif record.kind == "answer" and asked and record.input.event == "fail":
            found = {k: _end(one, "unknown", "failed") for k, one in found.items()}
    return {key: _end(one, "in flight", "unknown") for key, one in found.items()}


def _end(call: Begun, was: Standing, now: Standing) -> Begun:
    return call._replace(standing=now) if call.standing == was else call


DOUBTS = {
    "stopped": "{what} was in the middle of a call when the run was stopped",
    "alive": "{what} was in flight when this run was taken over from {driver}",
    "silent": "{what} was started by {driver}, which has not renewed its lease",
    "cut": "{what} was cut off in the middle of a call",
    "restored": "{what} may have been made before the journal was restored from a backup",
    "said": "{what} does not know how its call ended",
}
"""Why the outcome of a call is not known, by the word in its event."""


def say_doubt(what: str, data: Mapping[str, Any]) -> str:
    """The warning about a call whose outcome is unknown, with the cause: ``infer at think ...``."""
    doubt = DOUBTS.get(data.get("left", ""), "{what} was started before an interruption")
    doubt = doubt.format(what=what, driver=data.get("driver", "another process"))
    return f"{doubt}; whether it happened is not known"


def fields_digest(fields: Mapping[str, Any]) -> str:
    """The digest by which two calls of one state are known to be the same."""
    text = json.dumps(fields, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def doubt_data(intent: Mapping[str, Any] | Intent, why: Mapping[str, Any]) -> dict[str, Any]:
    """The data of the event that says that a call is unknown."""
    known = written(intent) if isinstance(intent, Intent) else intent
    return {**{name: known[name] for name in ("state", "action", "tool") if known.get(name)}, **why}
