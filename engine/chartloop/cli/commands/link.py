"""`chartloop link`: a link that lets one person answer the question of a run, once."""

from __future__ import annotations

from dataclasses import dataclass

import click

from chartloop.cli import console, parameters
from chartloop.cli.journal_access import find_run, machine_of, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.options import AGE, RunOptions, option, pass_options
from chartloop.cli.run_factory import own_name
from chartloop.core.person_names import same_person
from chartloop.core.units import say_count

with at_first_use(__name__):
    from chartloop.run import answer, answer_links, sync


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LinkOptions(RunOptions):
    """The options of `link`."""

    to: str | None = option(
        "--to", metavar="PERSON",
        help="Who answers with it, by name or address: the `by` of the answer.",
    )  # fmt: skip
    by: str | None = option(
        "--by", metavar="NAME",
        help="Who makes it. Default: the user of this process, where the file says `not_by`.",
    )  # fmt: skip
    url: str = option(
        "--url", metavar="URL", default="http://127.0.0.1:8000", show_default=True,
        help="Where people reach `chartloop serve`.",
    )  # fmt: skip
    within: float | None = option(
        "--within", type=AGE, metavar="DURATION",
        help="How long it is valid, at most until the question expires. Default: 7d.",
    )  # fmt: skip
    wait: str | None = option(
        "--wait", metavar="ID", help="The wait that you mean. Default: the current one."
    )
    revoke: bool = option(
        "--revoke", is_flag=True, help="Revoke the links of the run; with --to those of a person."
    )


@click.command(
    epilog="""\b
Examples:
  chartloop link last --to eve@example.org --url https://agents.example.com
  chartloop link 3kf --to eve@example.org --within 2d
  chartloop link 3kf --revoke

\b
Send the link by mail or chat to that person only: whoever has it answers the question in this name,
once. Opening it answers nothing. It ends with its question, and the journal holds a hash of it.
"""
)
@parameters.run_argument
@parameters.options_of(LinkOptions)
@parameters.tools_option
@parameters.journal_option
@parameters.format_option()
@pass_options(LinkOptions)
def link(run: str, options: LinkOptions) -> None:
    """Make a link that lets one person answer the question of a run, once."""
    journal = open_journal(options)
    row = find_run(journal, run)
    if options.revoke:
        links = sync.by_hand(answer_links.links_of(journal, row.run_id))
        meant = [one.id for one in links if options.to is None or same_person(options.to, one.to)]
        for id in meant:
            sync.by_hand(answer_links.revoke_links(journal, row.run_id, id))
        if options.is_json:
            console.result(console.as_json({"run": row.run_id, "revoked": len(meant)}))
        else:
            console.say(f"{say_count(len(meant), 'link')} revoked")
        return
    if not options.to:
        raise click.UsageError("say for whom the link is: --to PERSON")
    opened = machine_of(journal, row, options).open(row.run_id, journal=journal)
    made = sync.by_hand(
        answer_links.make_link(
            journal, opened.session, options.to, wait=options.wait or "",
            within=answer_links.WEEK if options.within is None else options.within,
            made_by=own_name(opened.machine.spec, options.by),
        )
    )  # fmt: skip
    told = made.link
    url = made.url(options.url)
    if options.is_json:
        facts = {"run": told.run, "wait": told.wait, "to": told.to, "until": told.until}
        console.result(console.as_json({**facts, "link": told.id, "url": url}))
    else:
        console.result(url)
        until = answer.say_time(told.until)
        console.say(f"for {console.plain(told.to)}, wait {told.wait}, once, until {until}")
