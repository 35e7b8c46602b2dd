"""Links that answer one question: who holds one answers for the person it was made for, once.

A link is a random token that the journal holds as a hash only, in a request that is closed from
the start (kind ``link``). So it is valid for every server of the journal and after a restart,
without a key that all of them share, and it is removed with its run. It is bound to one wait of
one run: once that wait is answered, has expired or is left, the journal refuses its answer like
any other late one, in the transaction that would write it.

Belongs here: making, finding and revoking links. Never: HTTP, and whether a wait is still open
(`run.answer`).
Source: docs/approval.md, "A link to one question".
"""

from __future__ import annotations

import hashlib
import secrets
from typing import NamedTuple

from chartloop.core.errors import AnswerError, WaitError
from chartloop.core.person_names import person_name
from chartloop.core.units import write_duration
from chartloop.run.four_eyes import refusal_of
from chartloop.run.journal import Journal
from chartloop.run.question import question_of
from chartloop.run.requests import StoredRequest
from chartloop.run.session import Session

KIND = "link"
WEEK = 7 * 86_400.0
"""The default of how long a link is valid, in seconds."""
LONGEST = 90 * 86_400.0
PATH = "/answer"
"""The page that opens a link; the token stands behind `#`, which no browser sends."""


class AnswerLink(NamedTuple):
    """A link, as the journal knows it: everything but its token."""

    id: str
    """The first characters of the hash of its token: names it in lists, and opens nothing."""
    run: str
    wait: str
    to: str
    """Whose answer it gives: the `by` of the answer."""
    made_by: str
    """Who made it; empty if that is not known."""
    at: float
    until: float
    """When it is void, in seconds since the epoch; earlier if the wait is over before."""

    @property
    def via(self) -> str:
        """How its answer comes, as the record says it."""
        return f"link to {self.to}" + (f" made by {self.made_by}" if self.made_by else "")


class MadeLink(NamedTuple):
    """A new link and its token, which is told this once."""

    link: AnswerLink
    token: str

    def url(self, server: str) -> str:
        """The link at a server: ``https://agents.example.com``."""
        return f"{server.rstrip('/')}{PATH}#{self.token}"


async def make_link(
    journal: Journal, session: Session, to: str, *,
    wait: str = "", within: float = WEEK, made_by: str = "",
) -> MadeLink:  # fmt: skip
    """Make a link to the question of a run, for a person, valid for `within` seconds.

    `wait` names the question that is meant; by default it is the current one. `WaitError` if the
    run asks nothing, or something else; `AnswerError` for a name or a time that cannot be, and for
    a maker who may not accept (`run.four_eyes`).
    """
    run_id, question = session.run_id, question_of(session)
    if question is None or (wait and wait != question.wait):
        text = "the run waits for nothing" if question is None else f"wait {wait} is over"
        raise WaitError(text, hint="a link is for the question that a run asks now", wait=wait)
    name = person_name(to, "the person of a link,", AnswerError, place="/to")
    made_by = person_name(made_by, "the maker of a link,", AnswerError)
    if not name:
        raise AnswerError(
            "a link is for one person, whose name or address it has",
            hint="give one, such as `eve@example.org`", place="/to",
        )  # fmt: skip
    if (fault := refusal_of(session, "", made_by)) is not None:
        raise fault
    if not 0 < within <= LONGEST:
        raise AnswerError(f"a link is valid for at most {write_duration(LONGEST)}")
    at = await journal.now()
    until = min(at + within, at + within if question.due is None else question.due)
    token = secrets.token_hex(32)  # hex: no redactor takes it for a credential
    digest = _digest(token)
    data = {"wait": question.wait, "to": name, "by": made_by, "until": until}
    key = _key(digest)
    await journal.place_request(StoredRequest(key, run_id, KIND, digest, at, data, {}))
    return MadeLink(AnswerLink(digest[:12], run_id, question.wait, name, made_by, at, until), token)


async def find_link(journal: Journal, token: str) -> AnswerLink | None:
    """The link of a token; None for one that was revoked, altered or never made."""
    digest = _digest(token)
    found = await journal.requests(key=_key(digest))
    if not found or found[0].kind != KIND or not secrets.compare_digest(found[0].digest, digest):
        return None
    return _link(found[0])


async def links_of(journal: Journal, run_id: str) -> list[AnswerLink]:
    """The links of a run that were not revoked, the newest first."""
    return [_link(one) for one in await journal.requests(run_id) if one.kind == KIND]


async def revoke_links(journal: Journal, run_id: str, id: str = "") -> int:
    """Revoke a link of a run by its id, or all of them; returns how many there were."""
    stored = [one for one in await journal.requests(run_id) if one.kind == KIND]
    meant = [one for one in stored if not id or one.digest[:12] == id]
    for one in meant:
        await journal.withdraw_request(one.key)
    return len(meant)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _key(digest: str) -> str:
    return f"{KIND}-{digest[:32]}"


def _link(stored: StoredRequest) -> AnswerLink:
    data = stored.data
    wait, to, by = (str(data.get(name, "")) for name in ("wait", "to", "by"))
    until = data.get("until")
    end = float(until) if isinstance(until, (int, float)) else 0.0
    return AnswerLink(stored.digest[:12], stored.run_id, wait, to, by, stored.at, end)
