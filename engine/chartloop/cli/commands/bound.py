"""`chartloop bound`: show the most that a run can cost, before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.error_report import ERROR, MisuseError
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.printing import print_lines, print_result

if TYPE_CHECKING:
    from chartloop.analysis.proofs.bound import Assume
    from chartloop.analysis.proofs.bound.bound import Certificate

_FIGURES = ("actions", "requests", "tool_calls", "tokens", "usd", "waiting")
_KNOBS = ("tokens_per_call", "calls_per_reply", "input_price", "output_price")


@dataclass(frozen=True, kw_only=True)
class BoundOptions(RunOptions):
    """The options of `bound`."""

    assumed: tuple[tuple[str, str], ...] = ()
    drawing: str | None = None
    figure: str = "actions"


@click.command(
    epilog="""\b
Examples:
  chartloop bound agent
  chartloop bound agent --limit steps=12 --format json
  chartloop bound my.yaml --assume tokens_per_call=8000 --assume calls_per_reply=4
  chartloop bound my.yaml --require usd=2 --require calls=30
  chartloop bound agent -o agent.cert.json
  chartloop bound agent --draw worst.svg --figure requests
  chartloop bound --run last

\b
A figure holds in every run for which the assumptions hold; it is proven, not estimated. With
--require the exit code is 1 if a run could exceed a figure. docs/bounds.md explains the proof.
"""
)
@click.argument("machine", required=False, shell_complete=completion.machines)
@click.option(
    "--run", "of_run", metavar="RUN", shell_complete=completion.runs,
    help="Show the bound stored when the run started; as a certificate with --format json.",
)  # fmt: skip
@parameters.limit_option
@parameters.var_option
@click.option(
    "--assume", "assumed", type=parameters.PAIR, multiple=True,
    help="An assumption about the model: tokens_per_call, calls_per_reply, input_price and "
    "output_price (USD per token).",
)  # fmt: skip
@parameters.require_option("--require")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE",
    help="Write a certificate: the machine, the proven figures and the assumptions.",
)  # fmt: skip
@parameters.draw_option
@click.option(
    "--figure", type=click.Choice(_FIGURES), default="actions", show_default=True,
    help="With --draw: draw the worst path for this figure.",
)  # fmt: skip
@parameters.tools_option
@parameters.define_option
@parameters.journal_option
@parameters.format_option()
@pass_options(BoundOptions)
def bound(
    machine: str | None, of_run: str | None, output: str | None, options: BoundOptions
) -> None:
    """Show what a run of a machine can cost at worst, before it runs.

    Actions, model requests, tool calls, tokens, USD and waiting time; how far a run can exceed each
    limit; what can follow each stop.
    """
    from chartloop import __version__
    from chartloop.analysis.proofs.bound.bound import WORDS
    from chartloop.api.bounds import wanted_bounds, with_known_models
    from chartloop.cli.machine_loader import read_machine
    from chartloop.cli.value_options import figures_of, values_of
    from chartloop.pictures.save import write_whole

    if (machine is None) == (of_run is None):
        raise click.UsageError("name a MACHINE, or a recorded run with --run")
    if of_run is not None:
        _show_stored(_stored_certificate(of_run, options), output, options)
        return
    loaded = read_machine(str(machine), options)
    spec = loaded.spec
    result = loaded.bound(
        limits=values_of({n: x.type for n, x in spec.limits.items()}, options.limit),
        vars=values_of({n: v.type for n, v in spec.vars.items()}, options.var),
        assume=with_known_models(_assume(options.assumed), spec, None),
    )
    if output is not None:
        write_whole(Path(output), f"{result.certificate(__version__)}\n".encode())
        console.say(f"{output}: a certificate for {loaded.name} {loaded.hash[:12]}", "dim")
    if options.drawing is not None:
        path = result.draw(options.figure).save(options.drawing)
        console.say(f"{path}: a path with the most {WORDS[options.figure]}", "dim")
    reasons_to_refuse = result.reasons_to_refuse(wanted_bounds(figures_of(options.required)))
    print_result(result, options, added={"refused": list(reasons_to_refuse)})
    if not options.is_json:
        for reason in reasons_to_refuse:
            console.say(f"not proven: {reason}", "red")
    raise click.exceptions.Exit(ERROR if reasons_to_refuse else 0)


def _stored_certificate(run: str, options: RunOptions) -> Certificate:
    """The certificate that was stored when the run started."""
    from chartloop.analysis.proofs.bound.bound import Certificate
    from chartloop.cli.journal_access import find_run, open_journal
    from chartloop.core.errors import SetupError
    from chartloop.run.certificate import stored_certificate
    from chartloop.run.sync import by_hand

    journal = open_journal(options)
    row = find_run(journal, run)
    text = by_hand(stored_certificate(journal, row.run_id))
    if text is None:
        hint = "a child has its parent's, and an imported run has none"
        raise SetupError(f"run `{row.run_id}` was stored without a certificate", hint=hint)
    return Certificate(text)


def _show_stored(certificate: Certificate, output: str | None, options: RunOptions) -> None:
    from chartloop.pictures.save import write_whole

    if output is not None:
        write_whole(Path(output), f"{certificate.text}\n".encode())
        console.say(f"{output}: the certificate of {certificate.name}", "dim")
    if options.is_json:
        console.result(certificate.text)
    else:
        print_lines(certificate.lines(console.width()))


def _assume(pairs: Any) -> Assume | None:
    from chartloop.analysis.proofs.bound import Assume
    from chartloop.cli.value_options import read_number
    from chartloop.core.errors import nearest

    if not pairs:
        return None
    numbers = {name: read_number(name, text) for name, text in pairs}
    if wrong := [name for name in numbers if name not in _KNOBS]:
        raise MisuseError(f"nothing can be assumed of `{wrong[0]}`", hint=nearest(wrong[0], _KNOBS))
    priced = {"input_price", "output_price"} & numbers.keys()
    if len(priced) == 1:
        raise MisuseError("a price has two parts", hint="give `input_price` and `output_price`")
    prices = (numbers["input_price"], numbers["output_price"]) if priced else None
    sizes: dict[str, Any] = {n: numbers[n] for n in _KNOBS[:2] if n in numbers}
    return Assume(**sizes, prices=prices)
