"""Options of the commands that read flowcharts of documents, and the choice of the chart.

Never here: what is done with the chart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chartloop.cli.error_report import MisuseError
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, option
from chartloop.core.errors import SetupError, SpecError

with at_first_use(__name__):
    from chartloop.interchange import documents
    from chartloop.language import foreign
    from chartloop.language.yaml import reading

if TYPE_CHECKING:
    from chartloop.interchange.documents import Found


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ChartOptions(RunOptions):
    """The options of commands that read a flowchart of a document."""

    chart: str = option(
        "--chart", metavar="N", default="",
        help="The chart of the document: its number, or a part of the heading above it.",
    )  # fmt: skip


def find_chart(document: str, options: ChartOptions) -> Found:
    """Find the chart that `--chart` names. `MisuseError` if it is missing or ambiguous.

    Raises `SpecError` for the file of another framework or tool.
    """
    try:
        text = documents.read_document(document)
        charts = documents.flowcharts(text, file=document)
        if not charts and (other := foreign.foreign(reading.read(text, document))) is not None:
            raise SpecError([other])
        return documents.choose_chart(charts, options.chart, file=document)
    except SetupError as error:
        raise MisuseError(error.message, hint=error.hint) from None
