"""Telling people that a run asks: one notice for each wait, with a link for each person.

    a worker leaves a run that waits ─▶ a link for each of `Settings.ask_to` ─▶ the notifier

It happens before the order to drive the run is settled, so that another worker does it where this
one dies. A notice that arrived is marked in the journal. A wait is told again if the process dies
between the two, or if the reply of the webhook is lost: rather twice than never. A notice that did
not arrive is logged, and its links are revoked.

Belongs here: the notice of a question. Never: sending it (`adapters.notify`), answering.
Source: docs/approval.md, "A link to one question".
"""

from __future__ import annotations

import hashlib
import logging
from typing import Any

from chartloop.api import Run
from chartloop.core.errors import ChartloopError
from chartloop.core.visible import cut
from chartloop.hosting.settings import Settings
from chartloop.run.answer_links import AnswerLink, make_link, revoke_links
from chartloop.run.journal import Journal
from chartloop.run.requests import StoredRequest

KIND = "asked"
LONGEST = 2_000
"""The most characters of a question, and of what it is about, in a notice."""
_log = logging.getLogger(__name__)


async def tell_question(settings: Settings, journal: Journal, run: Run) -> None:
    """Post the question of a run that waits, with a link for each person, unless it was told."""
    notifier, question = settings.components.get("notifier"), run.question
    if not settings.ask_to or notifier is None or question is None:
        return
    digest = hashlib.sha256(f"{run.id}\0{question.wait}".encode()).hexdigest()
    key = f"{KIND}-{digest[:32]}"
    made: list[AnswerLink] = []
    try:
        if await journal.requests(key=key):
            return
        links: list[dict[str, Any]] = []
        for to in settings.ask_to:
            link = await make_link(journal, run.id, question, to)
            made.append(link.link)
            links.append({"to": link.link.to, "url": link.url(settings.url),
                          "until": link.link.until})  # fmt: skip
        data = {
            "kind": "question", "run": run.id, "wait": question.wait,
            "machine": run.machine.name, "title": run.machine.spec.title or run.machine.name,
            "question": cut(question.text, LONGEST), "about": cut(question.about, LONGEST),
            "answers": list(question.answers), "due": question.due, "links": links,
        }  # fmt: skip
        await notifier.notify(cut(question.text, LONGEST), data)
        made.clear()
        now = await journal.now()
        await journal.place_request(StoredRequest(key, run.id, KIND, digest, now, {}, {}))
    except ChartloopError as error:
        _log.warning("the question of run `%s` was not told: %s", run.id, error.message)
        for link in made:
            await revoke_links(journal, run.id, link.id)
