"""`chartloop limits`: what the runs of a journal may spend together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chartloop.cli import console, parameters
from chartloop.cli.journal_access import open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.options import AMOUNT, RunOptions, at_least, option, pass_options
from chartloop.cli.printing import Row, print_table
from chartloop.run.fleet import WHATS, FleetLimit
from chartloop.run.tenants import NAME

with at_first_use(__name__):
    from chartloop.run import sync

if TYPE_CHECKING:
    from chartloop.run.fleet import Per, What


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LimitOptions(RunOptions):
    """The options of `limits`: how much of what, and for which time."""

    cost: float | None = option(
        "--cost", type=AMOUNT, metavar="USD", help="The most that they cost."
    )
    tokens: int | None = option("--tokens", type=at_least(1), metavar="N", help="The most tokens.")
    requests: int | None = option(
        "--requests", type=at_least(1), metavar="N", help="The most model calls."
    )
    per: Per | None = option(
        "--per",
        type=click.Choice(("minute", "day", "all")),
        help="The time that they are for: a minute, a day of UTC, or all. Default: `minute` for a"
        " model, else `all`.",
    )

    @property
    def given(self) -> dict[What, float]:
        """What was given of each."""
        all: dict[What, float | None] = {
            "cost": self.cost, "tokens": self.tokens, "requests": self.requests,
        }  # fmt: skip
        return {what: most for what, most in all.items() if most is not None}

    def time_of(self, scope: str) -> Per:
        """The time that the limits are for."""
        return self.per or ("minute" if scope.startswith("model:") else "all")


class _Scope(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  only since click 8.3
    """Whose limit it is."""

    name = "scope"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:  # fmt: skip
        kind, sign, name = str(value).partition(":")
        if (kind == "fleet" and not sign) or (kind in ("agent", "session", "model") and name):
            return str(value)
        if kind == "tenant" and NAME.fullmatch(name):
            return str(value)
        return self.fail(
            f"`{value}` is no scope: say fleet, tenant:NAME, agent:NAME, session:NAME or "
            "model:NAME",
            param, ctx,
        )  # fmt: skip


_USED: Mapping[str, str] = {"cost": " --cost USD", "tokens": " --tokens N"}
_SCOPE = click.argument("scope", type=_Scope(), metavar="SCOPE")


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  chartloop limits set fleet --cost 50 --per day
  chartloop limits set model:openai/gpt-4o --requests 600 --tokens 200000
  chartloop limits set agent:writer --tokens 5000000
  chartloop limits set tenant:acme --cost 20 --per day
  chartloop limits
  chartloop limits rm fleet --cost --per day

\b
SCOPE is `fleet`, all runs of the journal; `tenant:NAME`, those of a tenant; `agent:NAME`, those of
an agent, or of a machine where they name no agent; `session:NAME`, in a tenant
`session:TENANT:NAME`; or `model:NAME`, the calls of a model.
""",
)
@parameters.journal_option
@parameters.format_option()
@click.pass_context
@pass_options(RunOptions)
def limits(ctx: click.Context, options: RunOptions) -> None:
    """List, set and remove what the runs of a journal may spend together.

    Each model call reserves the most that it can use, and settles what it used. A call in doubt is
    used at the most, in its day, until `limits settle` says what it used. A call that must wait
    lets its run rest; one that a budget does not allow ends its run, with `cost_limit` or
    `token_limit`. Running processes know a changed limit after a second.
    """
    if ctx.invoked_subcommand is not None:
        return
    journal = open_journal(options)
    found, doubts = sync.by_hand(journal.limits()), sync.by_hand(journal.doubts())
    if options.is_json:
        data = [_public(limit) for limit in found]
        console.result(
            console.as_json({"limits": data, "in_doubt": [one._asdict() for one in doubts]})
        )
        return
    rows = [
        Row((
            one.scope, f"{one.what} {'in all' if one.per == 'all' else f'per {one.per}'}",
            *(
                one.say(amount) if one.what == "cost" else f"{round(amount):,}"
                for amount in (one.most, one.used, one.in_doubt, one.held, one.left)
            ),
        ), "" if one.left > one.most / 10 else "yellow" if one.left else "red")
        for one in found
    ]  # fmt: skip
    heads = ("scope", "limit", "most", "used", "in doubt", "in flight", "left")
    print_table(rows, heads, right=(2, 3, 4, 5, 6))
    if not rows:
        console.say("no limits", "dim")
    for one in doubts:
        settle = "".join(_USED[what] for what in _USED if what in one.amounts)
        text = f"in doubt, and counted whole: `chartloop limits settle {one.key}{settle}`"
        console.say(console.plain(text), "yellow")


def _public(limit: FleetLimit) -> dict[str, Any]:
    shown = limit._asdict()
    del shown["at"], shown["edition"]
    return {**shown, "left": limit.left}


@limits.command("set")
@_SCOPE
@parameters.options_of(LimitOptions, "cost", "tokens", "requests")
@parameters.options_of(LimitOptions, "per")
@parameters.journal_option
@parameters.format_option()
@pass_options(LimitOptions)
def set_(scope: str, options: LimitOptions) -> None:
    """Set limits, or change them. What they have counted stays.

    To begin at nothing, remove a limit and set it again: calls in flight count for the removed one.
    """
    wanted = options.given
    if not wanted:
        raise click.UsageError("say how much: --cost, --tokens or --requests")
    per = options.time_of(scope)
    if per == "minute" and "cost" in wanted:
        raise click.UsageError("a limit of cost is for a day or in all: --per day, --per all")
    journal = open_journal(options, make=True)
    for what, most in wanted.items():
        sync.by_hand(journal.set_limit(FleetLimit(scope, what, per, float(most))))
    _tell(scope, per, wanted, options, "set")


@limits.command("rm")
@_SCOPE
@click.option("--cost", is_flag=True, help="That of cost.")
@click.option("--tokens", is_flag=True, help="That of tokens.")
@click.option("--requests", is_flag=True, help="That of model calls.")
@parameters.options_of(LimitOptions, "per")
@parameters.journal_option
@parameters.format_option()
@pass_options(LimitOptions)
def remove(scope: str, options: LimitOptions) -> int:
    """Remove limits. Without --cost, --tokens or --requests, all three of that time."""
    per, journal = options.time_of(scope), open_journal(options)
    given: list[What] = [what for what, chosen in options.given.items() if chosen]
    gone: dict[What, float] = {
        what: 0.0 for what in given or WHATS if sync.by_hand(journal.remove_limit(scope, what, per))
    }
    _tell(scope, per, gone, options, "removed")
    return 0 if gone else 1


@limits.command()
@click.argument("call", metavar="CALL")
@click.option(
    "--cost", type=AMOUNT, metavar="USD", default=0.0, show_default=True,
    help="What it cost.",
)  # fmt: skip
@click.option(
    "--tokens", type=at_least(0), metavar="N", default=0, show_default=True,
    help="The tokens that it used.",
)  # fmt: skip
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def settle(call: str, cost: float, tokens: int, options: RunOptions) -> int:
    """Say what a call in doubt has used, as the provider's bill has it.

    CALL is its key, as `chartloop limits` shows it. Until then it counts as the most that it could
    use. Only the day in which it was made changes. Of a call that was made again, say what all its
    attempts used.
    """
    journal, used = open_journal(options), {"cost": cost, "tokens": float(tokens)}
    run_ids = [one.run_id for one in sync.by_hand(journal.doubts()) if one.key == call]
    done = [run_id for run_id in run_ids if sync.by_hand(journal.settle_call(run_id, call, used))]
    if options.is_json:
        console.result(console.as_json({"settled": len(done)}))
    else:
        told = "settled" if done else "not in doubt: it was settled before, or never was"
        console.say(console.plain(f"{call}: {told}"))
    return 0 if done else 1


def _tell(
    scope: str, per: Per, limits: Mapping[What, float], options: RunOptions, done: str
) -> None:  # fmt: skip
    if options.is_json:
        console.result(console.as_json({done: [*limits], "scope": scope, "per": per}))
        return
    names: Iterable[str] = limits
    time = "in all" if per == "all" else f"per {per}"
    text = f"{scope}: {', '.join(names)} {time} {done}" if limits else f"{scope}: no such limit"
    console.say(console.plain(text))
