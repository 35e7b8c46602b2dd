"""`chartloop bound`: show the most that a run can cost, before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chartloop import __version__
from chartloop.cli import completion, console, parameters
from chartloop.cli.error_report import ERROR, MisuseError
from chartloop.cli.journal_access import find_run, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import read_machine
from chartloop.cli.options import PAIR, RunOptions, option, pass_options
from chartloop.cli.printing import print_lines, print_result
from chartloop.core.errors import SetupError, nearest

with at_first_use(__name__):
    from chartloop.analysis.proofs import bound as proofs
    from chartloop.api import bounds
    from chartloop.cli import value_options
    from chartloop.pictures import save as saving
    from chartloop.run import certificate as certificates
    from chartloop.run import sync

if TYPE_CHECKING:
    from chartloop.analysis.proofs.bound import Assume
    from chartloop.analysis.proofs.bound.bound import Certificate

_KNOBS = ("tokens_per_call", "calls_per_reply", "input_price", "output_price")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class BoundOptions(RunOptions):
    """The options of `bound`."""

    of_run: str | None = option(
        "--run",
        metavar="RUN",
        shell_complete=completion.runs,
        help="Show the bound stored when the run started; as a certificate with --format json.",
    )
    assumed: tuple[tuple[str, str], ...] = option(
        "--assume",
        type=PAIR,
        multiple=True,
        help="An assumption about the model: tokens_per_call, calls_per_reply, input_price and "
        "output_price (USD per token).",
    )
    output: str | None = option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Write a certificate: the machine, the proven figures and the assumptions.",
    )


@click.command(
    epilog="""\b
Examples:
  chartloop bound agent
  chartloop bound agent --limit steps=12 --format json
  chartloop bound my.yaml --assume tokens_per_call=8000 --assume calls_per_reply=4
  chartloop bound my.yaml --require usd=2 --require calls=30
  chartloop bound agent -o agent.cert.json
  chartloop bound agent --require requests=9 --draw worst.svg
  chartloop bound --run last

\b
A figure holds in every run for which the assumptions hold; it is proven, not estimated. With
--require the exit code is 1 if a run could exceed a figure; --draw draws
the first of them. docs/bounds.md explains the proof.
"""
)
@click.argument("machine", required=False, shell_complete=completion.machines)
@parameters.options_of(BoundOptions, "of_run")
@parameters.limit_option
@parameters.var_option
@parameters.options_of(BoundOptions, "assumed")
@parameters.require_option("--require")
@parameters.options_of(BoundOptions, "output")
@parameters.draw_option
@parameters.tools_option
@parameters.define_option
@parameters.journal_option
@parameters.format_option()
@pass_options(BoundOptions)
def bound(machine: str | None, options: BoundOptions) -> None:
    """Show what a run of a machine can cost at worst, before it runs.

    Actions, model requests, tool calls, tokens, USD and waiting time; how far a run can exceed each
    limit; what can follow each stop.
    """
    if (machine is None) == (options.of_run is None):
        raise click.UsageError("name a MACHINE, or a recorded run with --run")
    if options.of_run is not None:
        _show_stored(_stored_certificate(options.of_run, options), options.output, options)
        return
    loaded = read_machine(str(machine), options)
    spec = loaded.spec
    result = loaded.bound(
        limits=value_options.values_of({n: x.type for n, x in spec.limits.items()}, options.limit),
        vars=value_options.values_of({n: v.type for n, v in spec.vars.items()}, options.var),
        assume=bounds.with_known_models(_assume(options.assumed), spec, None),
    )
    if options.output is not None:
        saving.write_whole(Path(options.output), f"{result.certificate(__version__)}\n".encode())
        console.say(f"{options.output}: a certificate for {loaded.name} {loaded.hash[:12]}", "dim")
    if options.drawing is not None:
        figure = next((name for name, _ in options.required if name in proofs.WORDS), "actions")
        path = result.draw(figure).save(options.drawing)
        console.say(f"{path}: a path with the most {proofs.WORDS[figure]}", "dim")
    reasons_to_refuse = result.reasons_to_refuse(
        bounds.wanted_bounds(value_options.figures_of(options.required))
    )
    print_result(result, options, added={"refused": list(reasons_to_refuse)})
    if not options.is_json:
        for reason in reasons_to_refuse:
            console.say(f"not proven: {reason}", "red")
    raise click.exceptions.Exit(ERROR if reasons_to_refuse else 0)


def _stored_certificate(run: str, options: RunOptions) -> Certificate:
    """The certificate that was stored when the run started."""
    journal = open_journal(options)
    row = find_run(journal, run)
    text = sync.by_hand(certificates.stored_certificate(journal, row.run_id))
    if text is None:
        hint = "a child has its parent's, and an imported run has none"
        raise SetupError(f"run `{row.run_id}` was stored without a certificate", hint=hint)
    return proofs.Certificate(text)


def _show_stored(certificate: Certificate, output: str | None, options: RunOptions) -> None:
    if output is not None:
        saving.write_whole(Path(output), f"{certificate.text}\n".encode())
        console.say(f"{output}: the certificate of {certificate.name}", "dim")
    if options.is_json:
        console.result(certificate.text)
    else:
        print_lines(certificate.lines(console.width()))


def _assume(pairs: Any) -> Assume | None:
    if not pairs:
        return None
    numbers = {name: value_options.read_number(name, text) for name, text in pairs}
    if wrong := [name for name in numbers if name not in _KNOBS]:
        raise MisuseError(f"nothing can be assumed of `{wrong[0]}`", hint=nearest(wrong[0], _KNOBS))
    priced = {"input_price", "output_price"} & numbers.keys()
    if len(priced) == 1:
        raise MisuseError("a price has two parts", hint="give `input_price` and `output_price`")
    prices = (numbers["input_price"], numbers["output_price"]) if priced else None
    sizes: dict[str, Any] = {n: numbers[n] for n in _KNOBS[:2] if n in numbers}
    return proofs.Assume(**sizes, prices=prices)
