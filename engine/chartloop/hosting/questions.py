"""Telling people that a run asks: one notice for each wait, with a link for each person.

    a worker leaves a run that waits ─▶ a link for each of `Settings.ask_to` ─▶ the notifier

The links stand in the text too: a chat shows nothing else of a notice. Whoever reads the channel of
several people can open the links of all, and so could who submitted the run. A question that they
cannot accept (`not_by: submitter`) leads there to the inbox, which asks who answers.

The run is kept for its notice for at most `PROMPT` seconds: then the worker gives it back, and goes
on telling. The order to drive the run stays open meanwhile, and is due again after `LOST` seconds,
so that another worker tells where this one dies. A notice that arrived is marked in the journal. A
wait is told again if the process dies between the two, or if the reply of the webhook is lost:
rather twice than never. A notice that did not arrive is logged, and its links are revoked.

Belongs here: the notice of a question. Never: sending it (`adapters.notify`), answering.
Source: docs/approval.md, "A link to one question".
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from typing import Any

from chartloop.api import Run
from chartloop.core.errors import ChartloopError
from chartloop.core.visible import cut
from chartloop.hosting.settings import Settings
from chartloop.run.answer_links import AnswerLink, make_link, revoke_links
from chartloop.run.four_eyes import needs_another, refusal_of
from chartloop.run.journal import Journal
from chartloop.run.requests import StoredRequest

KIND = "asked"
SERVER = "server"
"""The maker of the links in a notice."""
PROMPT = 0.2
"""Seconds that a run is kept for its notice."""
LOST = 30.0
"""Seconds after which a run whose notice is on its way is looked at again."""
LONGEST = 2_000
"""The most characters of a question, and of what it is about, in a notice."""
_log = logging.getLogger(__name__)


def notice_of(settings: Settings, run: Run) -> str:
    """The digest of the wait that people are to be told of; empty if there is none."""
    if not settings.ask_to or "notifier" not in settings.components or run.question is None:
        return ""
    return hashlib.sha256(f"{run.id}\0{run.question.wait}".encode()).hexdigest()


async def tell_question(settings: Settings, journal: Journal, run: Run) -> bool:
    """Post the question of a run that waits, with a link for each person, unless it was told.

    Returns whether it has arrived. Whatever the notifier raises is logged.
    """
    notifier, question, digest = (
        settings.components.get("notifier"), run.question, notice_of(settings, run)
    )  # fmt: skip
    if not digest or notifier is None or question is None:
        return True
    key = f"{KIND}-{digest[:32]}"
    made: list[AnswerLink] = []
    try:
        if await journal.requests(key=key):
            return True
        links, inbox = list[dict[str, Any]](), f"{settings.url.rstrip('/')}/inbox"
        asked = question.text if len(question.text) <= LONGEST else question.folded()
        text, session = [cut(asked, LONGEST), ""], run.session
        is_channel = len(settings.ask_to) > 1 and needs_another(session)
        for to in settings.ask_to:
            if is_channel or refusal_of(session, to, SERVER) is not None:
                continue
            link = await make_link(journal, session, to, made_by=SERVER)
            made.append(link.link)
            links.append({"to": to, "url": link.url(settings.url), "until": link.link.until})
            text.append(f"Answer as {to}: {links[-1]['url']}")
        if not links:
            text.append(f"Answer in the inbox: {inbox}")
        data = {
            "kind": "question", "run": run.id, "wait": question.wait,
            "machine": run.machine.name, "title": run.machine.spec.title or run.machine.name,
            "question": cut(asked, LONGEST), "about": cut(question.about, LONGEST),
            "answers": list(question.answers), "due": question.due, "links": links,
            "inbox": inbox,
        }  # fmt: skip
        await notifier.notify("\n".join(text), data)
        made.clear()
        now = await journal.now()
        await journal.place_request(StoredRequest(key, run.id, KIND, digest, now, {}, {}))
    except Exception as error:  # noqa: BLE001  a notifier may be anybody's
        why = error.message if isinstance(error, ChartloopError) else f"{type(error).__name__}"
        _log.warning("the question of run `%s` was not told: %s", run.id, why)
        with suppress(ChartloopError):
            for link in made:
                await revoke_links(journal, run.id, link.id)
        return False
    return True
