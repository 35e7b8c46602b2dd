"""Runs for routes and MCP tools: opening, viewing, starting and ordering them.

Driving is left to a worker: an order is stored in the journal, and the next process that takes it
drives the run. Orders that only write (messages, forks, a changed limit) are done at once.

Belongs here: what each order writes. Never: HTTP, threads.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

from chartloop.adapters.model.scripted import Scripted
from chartloop.api import Machine, PortOptions, Run, StartOptions, new_run_id
from chartloop.api.continuing import first_taken_back
from chartloop.api.retrying import check_retry, retry_plan, retry_run
from chartloop.api.run_messages import post, refuse_resume, tasks_message
from chartloop.api.stored_run import begun_with, recall_start
from chartloop.core.errors import (
    ChartloopError,
    Driven,
    LimitError,
    SetupError,
    StatusError,
    UnknownRunError,
)
from chartloop.core.person_names import person_name
from chartloop.hosting.begin import PENDING, begin_once, claim_order, digest_of, refuse_other
from chartloop.hosting.callers import Caller
from chartloop.hosting.machines import Machines, needs_of
from chartloop.hosting.problems import Refusal, Wrong
from chartloop.hosting.reading import (
    OPENED,
    History,
    OpenRuns,
    count_of,
    records_each,
)
from chartloop.hosting.settings import Settings
from chartloop.language.values import limit_value, raised_limits, var_value
from chartloop.run.answer import say_time, wait_over
from chartloop.run.answer_links import AnswerLink, MadeLink, make_link
from chartloop.run.breakpoints import breakpoint_of
from chartloop.run.journal import CHILD_MARK, Journal, RunRow, duplicate_run_error
from chartloop.run.journal_pages import RunFilter
from chartloop.run.journal_records import PRIORITY
from chartloop.run.lease import Lease, driven, say_restored
from chartloop.run.loop import leave
from chartloop.run.lru_cache import LruCache
from chartloop.run.phases import stand_of, stands_of
from chartloop.run.requests import StoredRequest, start_key
from chartloop.run.succession import refuse_moved, said_of
from chartloop.run.sync import by_hand, wait
from chartloop.run.tenants import (
    in_tenant,
    refuse_stranger,
    tenant_of,
    unknown_run_error,
)
from chartloop.ui.view_model.asking import card_of, label_of
from chartloop.ui.view_model.build import CHILDREN, RECORDS, children_of, record_view, view_run
from chartloop.ui.view_model.family import Origin, child_dict, origin_of, place_dict
from chartloop.ui.view_model.moment import Past
from chartloop.ui.view_model.orders import Answer, refusals_of, waits_for_answer
from chartloop.ui.view_model.perform import answer_data
from chartloop.ui.view_model.run_view import DecisionView, Json
from chartloop.ui.view_model.two_runs import Comparison, compare_runs

SIBLINGS = 1_000
"""The most children of one step that are counted."""
FOLLOWERS = 5
"""The newest runs that were made from one that has ended, which a page is sent."""
FORKS = 20
"""How many forks of forks are followed to the run that was continued."""
ORDERS = ("step", "run", "pause", "resume", "answer", "enqueue", "cancel", "fork", "set", "back")


class Runs:
    """The runs of a journal. Methods may block: call them from worker threads."""

    def __init__(self, settings: Settings, journal: Journal, machines: Machines) -> None:
        self.settings = settings
        self.journal = journal
        if settings.tokens and (hide := getattr(journal, "hide", None)) is not None:
            hide([token.secret for token in settings.tokens])  # a task may hold one
        self.machines = machines
        self._open = OpenRuns(journal, machines, settings.face)
        self._history = LruCache[tuple[str, str, str], History](OPENED)

    # reading -------------------------------------------------------------------------------

    def row(self, run_id: str) -> RunRow:
        """The run's row. Raises `UnknownRunError` if there is none."""
        row = by_hand(self.journal.row(run_id))
        if row is None:
            raise unknown_run_error()
        return row

    def open(self, run_id: str) -> Run:
        """The run as it is now, for reading: shared by all readers, never driven."""
        return self._open.get(self.row(run_id))

    def _fresh(self, row: RunRow) -> Run:
        return self._open.fresh(row)

    def to_drive(self, row: RunRow) -> Run:
        """The run as it is now, with the server's components, for driving."""
        machine = self.machines.to_drive(row)
        run = machine.open(row.run_id, journal=self.journal, **self.settings.components)
        run.session.holder.face = self.settings.face
        return run

    def view(
        self, run_id: str, seq: int | None = None, known: int = -1, limit: int = RECORDS
    ) -> Json:
        """The whole view of a run, as JSON: its `RunView` and its driver.

        Holds the records after number `known`, at most the newest `limit`. `head` is the number
        of the newest record, and `last_event` the event after which the run's stream continues.
        """
        run = self.open(run_id)
        count = count_of(run)
        if seq is not None and seq >= count:
            raise _no_record(seq, count)
        newest = self.past(run, count - 1)
        shown = records_each(run, max(known + 1, count - limit))
        view = view_run(
            run, records=(), shown=[record_view(run.machine.chart, record) for record in shown],
            before=newest.before.facts,
            decision=self._why(run, count - 1 if seq is None else seq, newest),
            children=by_hand(children_of(self.journal, run_id)),
        )  # fmt: skip
        row = run.session.row
        after = self.journal.page(RunFilter(parent=run_id), limit=FOLLOWERS) if row.ended else None
        rows = by_hand(after).rows if after is not None else []
        marks = {
            "head": count - 1, "last_event": str(run.session.head - 1), "parent": row.parent or "",
            "followers": [one.run_id for one in rows], "became": [said_of(one)[0] for one in rows],
            "follows": said_of(row)[1],
        }  # fmt: skip
        stand = by_hand(stand_of(self.journal, row))
        stands = {"phase": stand.phase.name, "parked": row.parked}
        return {**view.to_dict(), **marks, **self.driving(run_id), **stands}

    def past(self, run: Run, seq: int) -> Past:
        """The run at one of its records."""
        row = run.session.row
        key = (run.id, row.machine_hash, str(row.created))
        return self._history.get_or_make(key, History).at(run, seq)

    def _why(self, run: Run, seq: int, newest: Past) -> DecisionView:
        if seq == newest.record.seq:
            return newest.why(run.machine.chart)
        return DecisionView(seq, run.why(seq))

    def driving(self, run_id: str) -> Json:
        """The driver of a run, if there is one, and the newest order to drive it."""
        lease = by_hand(self.journal.living_lease(run_id))
        orders = by_hand(self.journal.requests(run_id, limit=20))
        newest = next((one for one in orders if one.kind in ("run", "step")), None)
        return {
            "driver": None if lease is None else _driver(*lease),
            "request": None if newest is None else public_request(newest),
        }

    def children(self, run_id: str, after: str, limit: int) -> Json:
        """A page of the run's children, the newest first, each with the step that started it."""
        run = self.open(run_id)
        wanted = RunFilter(parent=run_id, prefix=f"{run_id}{CHILD_MARK}", children=True)
        page = by_hand(self.journal.page(wanted, after, limit))
        found = [(row, origin_of(row.run_id)) for row in page.rows]
        steps = {origin.step for _, origin in found if origin is not None}
        numbers = {step: self.number_of_step(run, step) for step in steps}
        stands = by_hand(stands_of(self.journal, page.rows))
        listed = [
            child_dict(
                row,
                stands[row.run_id].phase,
                label_of(run.machine.spec, at.state, run.facts) if at else "",
                numbers[at.step] if at else None,
            )
            for row, at in found
        ]
        return {"children": listed, "next": page.next or None}

    def children_of_step(self, run: Run, past: Past) -> list[Json]:
        """The children that the step of a record started, at most a page of them."""
        state, step = past.record.state, past.before.facts.run.steps
        prefix = f"{run.id}{CHILD_MARK}{state}{CHILD_MARK}{step}"
        rows = by_hand(self.journal.rows(parent=run.id, prefix=prefix, limit=CHILDREN))
        rows.sort(key=lambda row: (row.created, row.run_id))
        origins = ((row, origin_of(row.run_id)) for row in rows)
        own = [row for row, at in origins if at and at.step == step]
        stands = by_hand(stands_of(self.journal, own))
        label, seq = label_of(run.machine.spec, state, run.facts), past.record.seq
        return [child_dict(row, stands[row.run_id].phase, label, seq) for row in own]

    def place(self, run_id: str) -> Json:
        """The way up from a child run, and its neighbours in the step that started it."""
        parents: list[tuple[Origin, Run, int | None]] = []
        above = origin_of(self.row(run_id).run_id)
        beside: list[RunRow] = []
        if above is not None:
            prefix = f"{above.parent}{CHILD_MARK}{above.state}{CHILD_MARK}{above.step}"
            beside = by_hand(self.journal.rows(parent=above.parent, prefix=prefix, limit=SIBLINGS))
            beside.sort(key=lambda row: (row.created, row.run_id))
        while above is not None:
            run = self.open(above.parent)
            parents.insert(0, (above, run, self.number_of_step(run, above.step)))
            above = origin_of(above.parent)
        same = [row.run_id for row in beside if origin_of(row.run_id) is not None]
        return place_dict(parents, same, run_id)

    def number_of_step(self, run: Run, step: int) -> int | None:
        """The number of the record of an action, counted from 0; None while it is in progress."""
        count = count_of(run)
        if not step < run.facts.run.steps:
            return None
        # pauses and answers are records too, so it is not before this one
        first = min(step, count - 1)
        done = self.past(run, first).before.facts.run.steps
        for record in records_each(run, first, count):
            if record.kind == "step":
                if done == step:
                    return record.seq
                done += 1
        return None

    def decision(self, run_id: str, seq: int | None) -> Json:
        """The decision of a record, by default the newest. Raises `Refusal` for an unknown one."""
        run = self.open(run_id)
        last = count_of(run) - 1
        number = last if seq is None else seq
        if not 0 <= number <= last:
            raise _no_record(number, last + 1)
        return self._why(run, number, self.past(run, last)).to_dict()

    def question(self, run_id: str) -> Json:
        """The question of a run, whole, with its digest and what a card shows around it.

        Raises `StatusError` if it has none.
        """
        run = self.open(run_id)
        asked = run.question
        if asked is None:
            raise StatusError("the run waits for nothing")
        return card_of(run, asked)

    def make_link(self, run_id: str, body: Mapping[str, Any], caller: Caller) -> MadeLink:
        """Make a link to the question of a run. `WaitError` if it asks nothing."""
        session = self._fresh(self.row(run_id)).session
        return by_hand(make_link(self.journal, session, **body, made_by=caller.person))

    def link_over(self, link: AnswerLink) -> str:
        """Why a link takes no answer any more, in words for its holder; empty while it does."""
        try:
            run = self._fresh(self.row(link.run))
            over = wait(wait_over(run.session, link.wait), suspends=run.suspends)
        except UnknownRunError:
            return "The run was removed, and its question with it."
        if not over and by_hand(self.journal.now()) >= link.until:
            return f"This link was valid until {say_time(link.until)}. Ask for a new one."
        return over

    def continued_by(self, run_id: str) -> str | None:
        """The run whose conversation a run continues; None for the first, or if it is gone."""
        row = self.row(run_id)
        for _ in range(FORKS):  # a fork continues what the original did
            if row.fork_seq is None or not row.parent:
                break
            row = by_hand(self.journal.row(row.parent)) or row.replace(parent="")
        is_child = row.run_id.startswith(f"{row.parent}{CHILD_MARK}")
        if not row.parent or is_child or row.fork_seq is not None:
            return None
        return None if by_hand(self.journal.row(row.parent)) is None else row.parent

    def compare(self, run_id: str, other: str, start: int | None, limit: int) -> Comparison:
        """Two runs side by side. Raises `Refusal` if the other does not exist."""
        left = self.open(run_id)
        try:
            right = self.open(other)
        except UnknownRunError as error:
            wrong = [Wrong("query.other", error.message, error.hint)]
            raise Refusal(
                404, error.message, hint=error.hint, wrong=wrong, code=error.code
            ) from error
        stands = by_hand(stands_of(self.journal, (left.session.row, right.session.row)))
        return compare_runs(left, right, stands, start=start, limit=limit, read=records_each)

    def can(self, run: Run) -> list[str]:
        """The orders that a run accepts now."""
        refused = refusals_of(run, count_of(run))
        return [order for order in ORDERS if order not in refused]

    # starting ------------------------------------------------------------------------------

    def start(self, body: Mapping[str, Any], caller: Caller) -> tuple[Json, bool]:
        """Start a run and write its first record; returns a receipt and whether the run is new.

        With `drive`, an order to drive it is stored as well.
        """
        machine = self.machines.to_start(body["machine"])
        values = _checked_values(machine, body)
        raised = raised_limits(machine.spec, values.get("limits", {}))
        if raised and caller.scope != "edit":
            raise Refusal(
                403, f"limit `{raised[0]}` above the machine's needs a token with the scope `edit`",
                hint="keep it, or give a lower one", scope="edit",
                wrong=[Wrong(f"/limits/{raised[0]}", "above the machine's limit")],
            )  # fmt: skip
        if (body.get("priority") or PRIORITY) < PRIORITY and (
            caller.scope != "edit" or caller.reach.tenant
        ):
            raise Refusal(
                403,
                f"a priority before {PRIORITY} needs a token with the scope `edit` and no tenant",
                hint="runs of a higher priority keep those of all others waiting: leave it out",
                scope="edit", wrong=[Wrong("/priority", f"before {PRIORITY}")],
            )  # fmt: skip
        submitter = _submitter(machine, caller.sign(body.get("submitter"), "submitter") or "")
        run_id = caller.own_id(body.get("run_id") or new_run_id(), body.get("tenant"))
        if continues := body.get("continues"):
            body = {**body, "continues": self.row(caller.reach.whole(continues)).run_id}
            refuse_stranger(run_id, body["continues"])
        kept = self._remember("start", run_id, body, caller)
        run_id = kept.run_id if kept is not None else run_id
        key = "" if kept is None else kept.key
        told = {**body, "submitter": submitter, "key": key}
        begin = partial(self._begin, machine, run_id, told, values)
        try:
            is_new = begin_once(self.journal, run_id, begin)
        except BaseException:
            if kept is not None and by_hand(self.journal.row(run_id)) is None:
                by_hand(self.journal.withdraw_request(kept.key))
            raise
        row = self.row(run_id)
        if not is_new and body.get("if_exists") != "use":
            # a key that gave the run its id has begun it; else its first record says which one has
            mine = recall_start(self.journal, row).get("order") if body.get("run_id") else key
            if not key or mine != key:
                if kept is not None:
                    by_hand(self.journal.withdraw_request(key))
                raise duplicate_run_error(run_id, "; `if_exists: use` uses this run")
        drive = body.get("drive", "run")
        if drive != "none":
            # the key is the run's: a request repeated after a crash places the missing order
            with suppress(StatusError):  # a run that was there may have another order
                self._place(drive, run_id, {"until": body.get("until", "")}, key=start_key(run_id))
        receipt = {"run": run_id, "machine": row.machine, "hash": row.machine_hash, "drive": drive}
        if (marked := by_hand(self.journal.restored())) and (is_new or row.created > marked):
            receipt["warning"] = f"{say_restored(marked)}: the run may have been started before"
        return receipt, is_new

    def _begin(
        self, machine: Machine, run_id: str, body: Mapping[str, Any], values: Mapping[str, Any]
    ) -> None:
        names = ("agent", "session", "metadata", "memory", "tasks", "continues", "branch",
                 "submitter", "priority", "require_bound")  # fmt: skip
        chosen = {name: body[name] for name in names if body.get(name) is not None}
        components = self.settings.components
        if not self.settings.workers:  # a worker elsewhere has the model, and its key
            components = PortOptions(model=Scripted([]))
        options = {**components, **values, **chosen, "run_id": run_id}
        run = machine.start(
            body.get("task", ""), **cast("StartOptions", {**options, "journal": self.journal})
        )
        run.session.holder.face = self.settings.face
        if body["key"] and run.session.begun is not None:
            run.session.begun = begun_with(run.session.begun, {"order": body["key"]})
        run.advance()
        release(run)

    # orders that a worker carries out ------------------------------------------------------

    def drive(self, kind: str, run_id: str, data: Mapping[str, Any], caller: Caller) -> Json:
        """Order a run to be driven: `step` or `run`. Raises `StatusError` if it cannot be now."""
        row = self.row(run_id)
        key, digest = self._key(kind, run_id, caller), digest_of(kind, run_id, data)
        try:
            refuse_moved(row)
            run = self.open(run_id)
            if row.ended:
                raise StatusError("the run has ended", hint="`back` takes its last record back")
            if waits_for_answer(run):
                raise StatusError("the run waits for an answer", hint="answer its question")
            if until := data.get("until"):
                breakpoint_of(run.machine.chart, until)  # an error here reaches the caller
            self.machines.to_drive(row)
            self._refuse_driven(run_id)
        except ChartloopError:
            # a repeated order changes nothing, even if the first one is being carried out
            if not by_hand(self.journal.requests(key=key)):
                raise
        kept = self._place(kind, run_id, data, key=key, digest=digest)
        refuse_other(kept, digest)
        return receipt_of(kept)

    def _place(
        self, kind: str, run_id: str, data: Mapping[str, Any], *, key: str, digest: str = ""
    ) -> StoredRequest:
        digest = digest or digest_of(kind, run_id, data)
        at, needs = by_hand(self.journal.now()), needs_of(self.journal, self.row(run_id))
        order = StoredRequest(key, run_id, kind, digest, at, dict(data), needs=needs)
        return by_hand(self.journal.place_request(order))

    def _refuse_driven(self, run_id: str) -> None:
        if (lease := by_hand(self.journal.living_lease(run_id))) is not None:
            raise driven(*lease)

    # orders that are done at once ----------------------------------------------------------

    def message(self, kind: str, run_id: str, body: Mapping[str, Any], caller: Caller) -> Json:
        """Send a run a message: `answer`, `enqueue`, `pause`, `resume` or `cancel`."""
        run = self._fresh(self.row(run_id))
        send = partial(self._send, kind, run, body, caller)
        return self._once(kind, run_id, body, caller, send)

    def _send(
        self, kind: str, run: Run, body: Mapping[str, Any], caller: Caller, id: str
    ) -> Json:  # fmt: skip
        if kind == "answer":
            return self._answer(run, body, caller, id)
        if kind == "enqueue":
            message = tasks_message(run.session, body["tasks"], fresh=False)
            self._post(run, message, id)
            return {}
        if kind == "resume":
            if self.row(run.id).parked is not None:
                by_hand(self.journal.enqueue(run.id))
                return {}
            if by_hand(self.journal.message(run.id, id)) is None:
                wait(refuse_resume(run.session), suspends=run.suspends)
        self._post(run, self._request_message(kind, run, body), id)
        if kind in ("resume", "cancel"):
            self._drive_on("run", run, f"{kind}-{id}")  # a cancelled run may have an epilogue
        return {}

    def _post(self, run: Run, message: Mapping[str, Any], id: str) -> None:
        wait(post(run.session, message, message_id=id), suspends=run.suspends)

    def _request_message(self, kind: str, run: Run, body: Mapping[str, Any]) -> dict[str, Any]:
        if kind != "cancel":
            return {"kind": kind}
        reason = body.get("reason", "user_requested")
        known = run.machine.spec.reasons
        if reason not in known:
            raise Refusal(
                422, f"the machine has no reason `{reason}`",
                wrong=[Wrong("/reason", "an unknown reason", f"known: {', '.join(sorted(known))}")],
            )  # fmt: skip
        return {"kind": kind, "reason": reason, "data": {"message": body.get("message", "")}}

    def _answer(self, run: Run, body: Mapping[str, Any], caller: Caller, id: str) -> Json:
        event, data = body["event"], dict(body.get("data") or {})
        ahead, chart = body.get("ahead", ""), run.machine.chart
        fields = run.answers.get(event, {})
        if ahead:
            fields = chart.answer_fields(ahead, event) if ahead in chart.waiting else {}
        if "by" in {*fields, *data} and (by := caller.sign(data.get("by"), "data.by")) is not None:
            data["by"] = by
        if body.get("typed"):
            data = answer_data(run, Answer(event, data))
        wait, shown = body.get("wait", ""), body.get("shown", "")
        sent = run.send(
            event, data, wait=wait, ahead=ahead, shown=shown, link=caller.link, message_id=id
        )
        receipt = {"wait": sent.wait, "run_asked": sent.run}
        if not ahead:
            self._drive_on(body.get("then", "take"), run, f"answer-{id}")
        return receipt

    def _drive_on(self, kind: str, run: Run, key: str) -> None:
        """Place an order to drive the run, unless it is being driven or has an open order."""
        with suppress(StatusError, Driven):
            self._refuse_driven(run.id)
            self._place(kind, run.id, {}, key=key)

    def fork(self, run_id: str, at: int | None, caller: Caller) -> Json:
        """Create a run from the records before number `at`."""
        run = self._fresh(self.row(run_id))
        work = partial(self._make_fork, run, lambda: at)
        return self._once("fork", run_id, {"at": at}, caller, work)

    def back(self, run_id: str, records: int, caller: Caller) -> Json:
        """Create a run without the newest records. Raises `Driven` while the old one is driven."""
        run = self._fresh(self.row(run_id))

        def first() -> int:
            self._refuse_driven(run_id)
            return first_taken_back(run.session, records)

        work = partial(self._make_fork, run, first)
        return self._once("back", run_id, {"records": records}, caller, work)

    def _make_fork(self, run: Run, first: Callable[[], int | None], key: str) -> Json:
        # by the key: a repetition after a crash finds the same fork
        fork_id = in_tenant(tenant_of(run.id), f"f{key[:15]}")
        if by_hand(self.journal.row(fork_id)) is None:
            at = first()
            begin_once(self.journal, fork_id, lambda: run.fork(at, run_id=fork_id))
        return {"made": fork_id}

    def retry_plan(self, run_id: str, *, again: bool = False) -> Json:
        """What trying the run again would keep, and which calls it would make again."""
        run = self.open(run_id)
        plan = retry_plan(run, again=again)
        return {**plan.to_dict(), "label": label_of(run.machine.spec, plan.state, run.facts)}

    def retry(self, run_id: str, body: Mapping[str, Any], caller: Caller) -> Json:
        """Fork the run below its failure, and order the fork to be driven."""
        row = self.row(run_id)
        run = self._fresh(row)

        def work(key: str) -> Json:
            # by the key: a repetition after a crash finds the same fork
            fork_id = in_tenant(tenant_of(run.id), f"f{key[:15]}")
            if by_hand(self.journal.row(fork_id)) is None:
                plan = retry_plan(run, again=body.get("again", False))
                try:
                    limits = check_retry(run, plan, body["limits"], body["confirm"])
                except LimitError as error:
                    raise _value_refusal(error, "/limits") from error
                self.machines.to_drive(row)  # refused before anything is made
                retry_run(run, plan, limits, run_id=fork_id)
            self._place("run", fork_id, {}, key=start_key(fork_id))
            return {"made": fork_id}

        # the plan changes with the retry: a repetition may have another one
        return self._once("retry", run_id, {**body, "confirm": ""}, caller, work)

    def set(self, run_id: str, name: str, value: Any, caller: Caller) -> Json:
        """Change a limit or variable. Raises `Driven` while the run is driven."""
        row = self.row(run_id)
        run = self._fresh(row)

        def work(_: str) -> Json:
            if run.ended:
                raise StatusError("the run has ended")
            try:
                return {"seq": run.set(name, value).seq}
            except LimitError as error:
                at = "/value" if name.partition(".")[0] in ("limits", "vars") else "/name"
                raise _value_refusal(error, at) from error

        return self._once("set", run_id, {"name": name, "value": value}, caller, work)

    # keys ----------------------------------------------------------------------------------

    def _once(
        self, kind: str, run_id: str, body: Mapping[str, Any], caller: Caller,
        work: Callable[[str], Json],
    ) -> Json:  # fmt: skip
        """Do the work unless it was done under the caller's key; returns its receipt."""
        key, digest = self._key(kind, run_id, caller), digest_of(kind, run_id, body)
        begun = StoredRequest(key, run_id, kind, digest, 0.0, dict(body), {})
        if caller.key and (known := by_hand(self.journal.requests(key=key))):
            refuse_other(known[0], digest)
            if PENDING not in (done := known[0].outcome or {}):
                return receipt_of(known[0]) | dict(done)
        refuse_moved(self.row(run_id))
        if not caller.key:
            begun = begun._replace(outcome=work(key), at=by_hand(self.journal.now()))
            by_hand(self.journal.place_request(begun))
            return receipt_of(begun) | dict(begun.outcome or {})
        kept = claim_order(self.journal, begun)
        refuse_other(kept, digest)
        if PENDING in (kept.outcome or {}):
            try:
                outcome = work(key)
            except BaseException:
                # nothing came of it, and the claim may be that of another caller by now
                by_hand(self.journal.withdraw_request(key, before=kept.outcome))
                raise
            by_hand(self.journal.settle_request(key, outcome, before=kept.outcome))
            kept = kept._replace(outcome=outcome)
        return receipt_of(kept) | dict(kept.outcome or {})

    def _remember(
        self, kind: str, run_id: str, body: Mapping[str, Any], caller: Caller
    ) -> StoredRequest | None:
        """Store the request under the caller's key before it is carried out; None without a key."""
        if not caller.key:
            return None
        key, digest = self._key(kind, tenant_of(run_id), caller), digest_of(kind, "", body)
        request = StoredRequest(key, run_id, kind, digest, by_hand(self.journal.now()), {}, {})
        kept = by_hand(self.journal.place_request(request))
        refuse_other(kept, digest)
        return kept

    def _key(self, kind: str, run_id: str, caller: Caller) -> str:
        if not caller.key:
            return secrets.token_hex(16)
        text = "\0".join((caller.name, kind, run_id, caller.key))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def release(run: Run) -> None:
    """Release the run's lease, so that another process may drive it."""
    wait(leave(run.session), suspends=run.suspends)


def receipt_of(request: StoredRequest) -> Json:
    """The receipt of an order, the same for each repetition of the request."""
    return {"run": request.run_id, "order": request.kind, "request": request.key}


def public_request(request: StoredRequest) -> Json:
    """An order as the API shows it."""
    return {
        "request": request.key, "run": request.run_id, "order": request.kind, "at": request.at,
        "open": request.is_open, "outcome": request.outcome,
    }  # fmt: skip


def _driver(of: str, lease: Lease) -> Json:
    return {
        "name": str(lease.driver), "run": of, "since": lease.since, "until": lease.until,
    }  # fmt: skip


def _no_record(seq: int, count: int) -> Refusal:
    return Refusal(404, f"the run has no record {seq}", hint=f"it has {count}, numbered from 0")


def _submitter(machine: Machine, given: str) -> str:
    """Who submits a run. Raises `Refusal` for an odd name, and for none where a gate needs it."""
    try:
        submitter = person_name(given, "`submitter`")
    except SetupError as error:
        raise _value_refusal(error, "/submitter") from error
    if not submitter and machine.spec.needs_submitter:
        raise Refusal(
            422, "this machine needs to know who submits the run",
            hint="give `submitter`, or use a token with a name",
            wrong=[Wrong("/submitter", "missing: the file says `not_by: submitter`")],
        )  # fmt: skip
    return submitter


def _checked_values(machine: Machine, body: Mapping[str, Any]) -> dict[str, Any]:
    """The limits and variables of a body. Raises `Refusal` with the place of a wrong value."""
    checked: dict[str, Any] = {}
    for root, read in (("limits", limit_value), ("vars", var_value)):
        values: Mapping[str, Any] = body.get(root) or {}
        for name, value in values.items():
            try:
                read(machine.spec, name, value)
            except LimitError as error:
                raise _value_refusal(error, f"/{root}/{name}") from error
        if values:
            checked[root] = values
    return checked


def _value_refusal(error: ChartloopError, at: str) -> Refusal:
    wrong = Wrong(at, error.message, error.hint)
    return Refusal(422, error.message, hint=error.hint, wrong=[wrong], code=error.code)
