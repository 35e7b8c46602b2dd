"""Draws the spans of a run as `docs/telemetry.md` shows them: a run, its child, its resumed half.

    python docs/pictures/trace.py [FILE]        # by default trace.svg beside this file

The spans are those of a real run, with the times that it took: two pictures differ in them.
Needs the extra `test-all`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from chartloop import OpenTelemetry, load, tool

MACHINE = """
chartloop: 1
machine: press
model: openai/gpt-4o-mini
tools: [search, prices]
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
machines:
  editor:
    model: openai/gpt-4o-mini
    states:
      text: {do: receive, next: judge}
      judge: {do: infer, next: fine}
      fine: {stop: completed}
states:
  task: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: look}, {to: edit}]}
  look: {do: call_tools, next: think}
  edit: {do: run_machine, with: {machine: editor, task: "{{ last.text }}"}, next: approve}
  approve: {ask: "Publish it?", on: {yes: publish, no: think}}
  publish: {do: infer, next: done}
  done: {stop: completed}
"""
ROW, LABELS, BARS, PAD = 24, 250, 470, 12
COLOURS = {"invoke": "#4c6ef5", "chat": "#0ca678", "execute": "#f08c00"}
ACTION = "#adb5bd"
GAP = 150_000_000
"""Nanoseconds between two traces of one run, on the picture: in truth it waited for somebody."""


@tool
def search(text: str) -> str:  # noqa: ARG001  for the model
    """Search the web."""
    time.sleep(0.5)
    return "Three articles."


@tool
def prices(metal: str) -> str:  # noqa: ARG001  for the model
    """Look up a price."""
    time.sleep(0.25)
    return "12 USD"


class Line(NamedTuple):
    """One row of the picture."""

    depth: int
    span: ReadableSpan
    start: int
    """Nanoseconds on the picture's axis."""
    took: int


def traced() -> tuple[ReadableSpan, ...]:
    """The spans of a run that was answered by somebody."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = OpenTelemetry(provider)
    calls = [
        {"name": "search", "arguments": {"text": "lithium"}},
        {"name": "prices", "arguments": {"metal": "lithium"}},
    ]
    script = [
        {"tool_calls": calls, "delay": 0.4}, {"text": "A draft.", "delay": 0.6},
        {"text": "It reads well.", "delay": 0.35}, {"text": "Published.", "delay": 0.3},
    ]  # fmt: skip
    machine = load(MACHINE, tools=[search, prices])
    run = machine.start("Write about lithium.", script=script, tracer=telemetry)
    run.run()
    run.send("yes")
    run.run()
    telemetry.flush()
    return exporter.get_finished_spans()


def lines(spans: tuple[ReadableSpan, ...]) -> Iterator[Line]:
    """The spans as rows, each below its parent; a trace begins a little after the one before."""
    offset = 0
    for root in sorted((span for span in spans if span.parent is None), key=_start):
        yield from _below(root, spans, 0, offset - _start(root))
        offset += _end(root) - _start(root) + GAP


def _below(
    span: ReadableSpan, spans: tuple[ReadableSpan, ...], depth: int, moved: int
) -> Iterator[Line]:
    yield Line(depth, span, _start(span) + moved, _end(span) - _start(span))
    for below in sorted(spans, key=_start):
        if below.parent is not None and below.parent.span_id == span.context.span_id:
            yield from _below(below, spans, depth + 1, moved)


def _start(span: ReadableSpan) -> int:
    return span.start_time or 0


def _end(span: ReadableSpan) -> int:
    return span.end_time or 0


def drawn(rows: list[Line]) -> str:
    """The picture as SVG."""
    whole = max(row.start + row.took for row in rows)
    width, height = LABELS + BARS + 2 * PAD + 80, len(rows) * ROW + 2 * PAD
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}"'
            ' font-family="Inter,Helvetica,Arial,sans-serif" font-size="12">'
        ),
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, row in enumerate(rows):
        top = PAD + number * ROW
        word = row.span.name.split("_")[0].split(" ")[0]
        colour = COLOURS.get(word, ACTION)
        left = PAD + LABELS + row.start / whole * BARS
        long = max(2.0, row.took / whole * BARS)
        bold = ' font-weight="600"' if word == "invoke" else ""
        if number % 2:
            parts.append(f'<rect y="{top}" width="{width}" height="{ROW}" fill="#f8f9fa"/>')
        parts += [
            (
                f'<text x="{PAD + 14 * row.depth}" y="{top + 16}"{bold} fill="#212529">'
                f"{escape(row.span.name)}</text>"
            ),
            (
                f'<rect x="{left:.1f}" y="{top + 6}" width="{long:.1f}" height="12" rx="2"'
                f' fill="{colour}"/>'
            ),
            (
                f'<text x="{left + long + 5:.1f}" y="{top + 16}" fill="#495057" font-size="11">'
                f"{_said(row)}</text>"
            ),
        ]
    return "\n".join([*parts, "</svg>\n"])


def _said(row: Line) -> str:
    took = row.took / 1e9
    said = f"{took:.2f} s" if took >= 0.01 else "&lt; 10 ms"
    return f"{said}, linked" if row.span.links else said


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("trace.svg")
    target.write_text(drawn([*lines(traced())]), "utf-8")
