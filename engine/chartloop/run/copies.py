"""Whole runs as a journal stores them: read from one, as lines of a file, and put into another.

The lines hold the stored text, never what was read from it, so the digests stay what they were.
A run is put with its children, in one transaction: a driver never finds a parent without the child
that it has started. A lease stays behind, and so does a worker's claim.

The lines of a run are its row and its records, and after them what only an import needs: lines
with a ``part``. `run.recorded` steps over them.

Belongs here: the lines, and what is checked on the way. Never: SQL, files.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any, NamedTuple, cast

from chartloop.core.codec import to_json
from chartloop.core.errors import ChartloopError, JournalCorrupt, RunError
from chartloop.core.plain import plain
from chartloop.run.chain import SIZE, Chain, Link, Stored, follow
from chartloop.run.journal import CHILD_MARK, Journal, RunRow, digest
from chartloop.run.journal_records import DAMAGED
from chartloop.run.lease import driven
from chartloop.run.payload import is_whole, pack, references, unpack
from chartloop.run.raw_run import RawMessage, RawRequest, RawRun, RawSnapshot, Text
from chartloop.run.redact import has_marks
from chartloop.run.shared_copies import LIMIT, SCHEDULE
from chartloop.run.validate_record import UNFIT, as_row


def text_of(link: Link) -> str:
    """The stored text of an event."""
    return link.event[-1].decode("utf-8", "surrogatepass")


def fault_of(run: RawRun) -> str:
    """The first place where a run differs from what was written, in words; empty for none."""
    if found := run.chain.first_fault():
        return found
    if len(run.epochs) != run.row.head:
        return f"its row counts {run.row.head} events, and there are {len(run.epochs)}"
    for key, text in run.texts.items():
        if digest(text.data) != key and not (text.kept and has_marks(text.data)):
            return f"the text that is kept as {key[:12]} was changed"
    for link in run.chain.links:
        if missing := references(text_of(link)) - run.texts.keys():
            return f"payload {min(missing)[:12]} of event {link.event[0]} is not there"
    return ""


_CERTIFICATE = re.compile(r'"certificate": ?"([0-9a-f]{64})"')


def texts_wanted(row: RunRow, links: Sequence[Link]) -> list[str]:
    """The hashes of all texts that a run refers to, in order."""
    wanted = {row.machine_hash} if row.machine_hash else set[str]()
    for link in links:
        wanted |= references(text_of(link))
    first = next((text_of(link) for link in links if link.digest is not None), "")
    return sorted(wanted.union(_CERTIFICATE.findall(first)))


async def read_tree(journal: Journal, run_id: str) -> list[RawRun]:
    """A run and its children, each after its parent. Raises if one is driven or was changed."""
    below = await journal.rows(prefix=run_id + CHILD_MARK)
    ids = [run_id, *sorted((row.run_id for row in below), key=lambda id: (id.count("/"), id))]
    before, found = await journal.chain_ends(ids), list[RawRun]()
    for one in ids:
        if (lease := await journal.living_lease(one)) is not None:
            raise driven(*lease)
        if (run := await journal.raw(one)) is None:
            raise RunError(f"`{journal.name}` keeps no text of its runs, so none can be exported")
        if fault := fault_of(run):
            raise JournalCorrupt(
                f"run `{one}` was changed since it was written: {fault}",
                hint=f"nothing of it was exported; `chartloop replay {one}` checks it",
            )
        found.append(run)
    if await journal.chain_ends(ids) != before:
        raise RunError(f"run `{run_id}` went on while it was read", hint="repeat the command")
    return found


class Put(NamedTuple):
    """What became of a run of a file, with its children."""

    new: int
    """How many of them the journal did not have."""
    every: int
    resting: Sequence[str]
    """The new ones that a worker would drive if they did not rest."""


async def put_tree(target: Journal, runs: Sequence[RawRun], *, go_on: bool) -> Put:
    """Write a run of a file and its children.

    Without `go_on` their open orders are parked: no worker takes the runs until somebody lets them
    go on. With it they keep the due times of the file, and those that rest here since an earlier
    import go on. `RunError` if the journal has one of them that ends otherwise.
    """
    ends = {run.row.run_id: run.chain.end for run in runs}
    there = await target.chain_ends([*ends])
    for run_id, end in there.items():
        if end != ends[run_id]:
            raise RunError(
                f"run `{run_id}` is in `{target.name}` already, with other records",
                hint="one of the two went on: keep that one, and remove the other, "
                f"`chartloop runs rm {run_id}`",
            )
    missing = [run for run in runs if run.row.run_id not in there]
    try:
        if missing:
            await target.put_raw(missing if go_on else [_at_rest(run) for run in missing])
    except RunError:
        if await target.chain_ends([*ends]) == there:
            raise
        return await put_tree(target, runs, go_on=go_on)  # another import has written some of them
    ordered = [run.row.run_id for run in runs if any(one.outcome is None for one in run.requests)]
    if go_on:
        for run_id in there.keys() & ordered:
            await target.enqueue(run_id)
    resting = [run_id for run_id in ordered if not go_on and run_id not in there]
    return Put(len(missing), len(ends), resting)


def _at_rest(run: RawRun) -> RawRun:
    parked = {"due": None, "lapses": "[]", "parked": True}
    orders = [one._replace(**parked) if one.outcome is None else one for one in run.requests]
    return run._replace(requests=orders)


# lines --------------------------------------------------------------------------------------

ROW = b'{"run":'
PART = '{"part":'
"""How the lines begin that only an import needs."""
_NOT_IN_A_LINE = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BAD = (*UNFIT, RecursionError, struct.error)


def lines_of(run: RawRun) -> Iterator[str]:
    """A run that has no fault as lines of JSON: its row, its records and notes, the parts."""
    summed = sha256()
    for line in _lines(run):
        # what a reader of lines takes for their end, what turns the writing of a terminal round,
        # and what UTF-8 does not have
        line = _NOT_IN_A_LINE.sub(lambda found: f"\\u{ord(found[0]):04x}", line)
        summed.update(line.encode() + b"\n")
        yield line
    yield _part("end", sha256=summed.hexdigest())


def _lines(run: RawRun) -> Iterator[str]:
    now, inside = run.chain.origin, set[str]()
    head = {"run": run.row.run_id, **plain(run.row.replace(parked=None)), "origin": now.hex()}
    yield to_json({**head, "chain": run.chain.end.hex()})
    for link in run.chain.links:
        notes, now = now[SIZE:], follow(now, link.event)
        number, seq, at, type, _ = link.event
        text = text_of(link)
        if link.digest is None:
            yield _part("note", number=number, type=type.decode(), written=at, data=text)
            continue
        if not is_whole(text):
            inside |= references(text)
            text = to_json(unpack(text, lambda key: run.texts[key].data))
        marks = {"seq": seq, "number": number, "written": at, "notes": notes.hex()}
        yield f"{to_json({**marks, 'digest': now.hex()})[:-1]},{text[1:]}"
    runs_of = [(epoch, len([*same])) for epoch, same in groupby(run.epochs)]
    yield _part("epochs", data=runs_of)
    if run.question is not None:
        yield _part("question", data=run.question)
    for key, text in run.texts.items():
        if text.kept or key not in inside:
            yield _part("text", hash=key, **text._asdict())
    for message in run.messages:
        yield _part("message", **message._asdict())
    if run.snapshot is not None:
        yield _part("snapshot", **run.snapshot._asdict())
    for request in run.requests:
        yield _part("request", **request._asdict())


def _part(name: str, **more: Any) -> str:
    return to_json({"part": name, **more})


def restored(data: Mapping[str, Any], line: str) -> tuple[Stored, Mapping[str, str]]:
    """What was stored of an exported record, and its payloads.

    Printing may have escaped characters beyond ASCII.
    """

    def restore(found: re.Match[str]) -> str:
        code = int(found[1] or "0", 16)
        return chr(code) if code >= 0x7F else found[0]

    _, _, rest = line.partition(f'"{data["digest"]}",')
    text = _ESCAPE.sub(restore, "{" + rest).encode("utf-16", "surrogatepass")
    packed = pack(text.decode("utf-16", "surrogatepass"))
    stored = packed.text.encode("utf-8", "surrogatepass")
    at = float(data["written"])
    return (int(data["number"]), int(data["seq"]), at, b"record", stored), packed.blobs


_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|.)")


def row_of(data: Mapping[str, Any]) -> RunRow | None:
    """The row in an exported line; None if a column has the wrong type or the id is missing."""
    columns = {"run_id": "", **RunRow.defaults(), **data}
    row = as_row(columns[name] for name in RunRow.__struct_fields__)
    return row if row.run_id and row.status != DAMAGED else None


class _Builder:
    """A run that is read line by line."""

    def __init__(self, head: Mapping[str, Any], line: bytes) -> None:
        row = row_of(head)
        if row is None:
            raise ValueError("the line is not a run's row")
        self.row = row
        self.links, self.epochs = list[Link](), list[int]()
        self.texts: dict[str, Text] = {}
        self.parts: dict[str, list[dict[str, Any]]] = {}
        self.origin, self.end = bytes.fromhex(head["origin"]), bytes.fromhex(head["chain"])
        self.summed = sha256(line + b"\n")
        self.now = self.origin

    def add(self, data: dict[str, Any], line: bytes) -> RawRun | None:
        """One more line; the run with its last."""
        part = data.pop("part", "")
        if part == "end":
            if data["sha256"] != self.summed.hexdigest():
                raise ValueError("a line of the run was changed, or is missing")
            return self._run()
        self.summed.update(line + b"\n")
        if part == "note":
            text = data["data"].encode("utf-8", "surrogatepass")
            at = float(data["written"])
            self._event((data["number"], None, at, data["type"].encode(), text))
        elif part == "epochs":
            self.epochs = [epoch for epoch, count in data["data"] for _ in range(count)]
        elif part == "text":
            self.texts[data["hash"]] = Text(data["data"], data["kept"])
        elif part:
            self.parts.setdefault(part, []).append(data)
        else:
            event, payloads = restored(data, line.decode())
            self._event(event)
            for key, text in payloads.items():
                self.texts.setdefault(key, Text(text, kept=False))
            if self.now.hex() != data["digest"]:
                raise ValueError(f"record {data['seq']} was changed")
        return None

    def _event(self, event: Stored) -> None:
        self.now = follow(self.now, event)
        self.links.append(Link(event, None if event[1] is None else self.now))

    def _run(self) -> RawRun:
        of = self.parts.get
        if unknown := self.parts.keys() - {"question", "message", "snapshot", "request"}:
            raise ValueError(f"a newer version wrote its part `{min(unknown)}`")
        chain = Chain(self.origin, self.end, self.row.head, follows=True, links=self.links)
        run = RawRun(
            self.row, next((one["data"] for one in of("question", [])), None), chain, self.epochs,
            dict(sorted(self.texts.items())), [RawMessage(**one) for one in of("message", [])],
            next((RawSnapshot(**one) for one in of("snapshot", [])), None),
            [RawRequest(**one) for one in of("request", [])],
        )  # fmt: skip
        if fault := fault_of(run):
            raise ValueError(fault)
        return run


def read_trees(lines: Iterable[bytes], source: str) -> Iterator[list[RawRun] | ChartloopError]:
    """The runs of a file, each with its children, or why they cannot be read.

    `source` names the file. Lines of `run.shared_copies` are passed over.
    """
    root_of: Callable[[tuple[str, object]], str] = lambda read: read[0].partition(CHILD_MARK)[0]  # noqa: E731
    for _, tree in groupby(_runs(lines, source), root_of):
        found = [run for _, run in tree]
        bad = next((run for run in found if isinstance(run, ChartloopError)), None)
        yield bad or [run for run in found if isinstance(run, RawRun)]


def _runs(lines: Iterable[bytes], source: str) -> Iterator[tuple[str, RawRun | ChartloopError]]:
    """The runs of a file after their ids, each from its row to its end."""
    block: list[tuple[int, bytes]] = []
    for at, line in enumerate(lines, 1):
        if not (text := line.rstrip(b"\r\n")) or text.startswith((SCHEDULE, LIMIT)):
            continue
        if block and text.startswith(ROW):
            yield _read(block, source)
            block = []
        block.append((at, text))
    if block:
        yield _read(block, source)


def _read(block: Sequence[tuple[int, bytes]], source: str) -> tuple[str, RawRun | ChartloopError]:
    (at, first), *rest = block
    run_id, run = "", cast("RawRun | None", None)
    try:
        builder = _Builder(json.loads(first), first)
        run_id = builder.row.run_id
        for number, line in rest:
            at = number
            if run is not None:
                raise ValueError("the line belongs to no run")
            run = builder.add(json.loads(line), line)
        if run is None:
            raise ValueError("its end is missing")
    except _BAD as error:
        known = type(error) is ValueError
        why = str(error) if known else f"{type(error).__name__} {error}"
        whom = f"run `{run_id}`" if run_id else "the line"
        return run_id, JournalCorrupt(
            f"{source}:{at}: {whom} cannot be imported: {why}",
            hint="nothing of it was written; `chartloop journal export` writes whole runs",
        )
    return run_id, run
