"""Draws the moving picture at the head of the README: a run that stops for an approval and goes on.

    python docs/pictures/hero.py [FILE]        # by default hero.svg beside this file

The run is that of `examples/approve`; each moment is its live picture, and beside it stands what
the run did. It moves by CSS alone, so a forge shows it as an image; who prefers no motion sees the
question. A test compares it with what this would draw.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from runpy import run_path
from types import ModuleType
from typing import NamedTuple

from chartloop import Run, load
from chartloop.cli.script import read_script
from chartloop.pictures.dot.theme import dark_mode_rules
from chartloop.pictures.live.live_picture import LivePicture
from chartloop.run.progress import standing_of
from chartloop.testing import ManualClock

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "approve"
WIDE, ROW = 330, 22
BRIEF, LONG = 1.3, 4.2
"""Seconds that a moment is shown: long where a person decides, and at the end."""
FONT = "Inter,Helvetica,Arial,sans-serif"
LIGHT = (
    ".paper{fill:#fff}.did{fill:#475569}.new{fill:#1e293b;font-weight:bold}"
    ".asks{fill:#fff4cc;stroke:#d99a06}.ends{fill:#e6f6e9;stroke:#1a7f37}.card text{fill:#1e293b}"
)
DARK = (
    ".paper{fill:#0f172a}.did{fill:#94a3b8}.new{fill:#e2e8f0}"
    ".asks{fill:#4a3a0c}.ends{fill:#173a23}.card text{fill:#e2e8f0}"
)
BOLD = ' font-weight="bold"'
LABEL = (
    "A run: the model searches, then wants to buy a report; the run stops until Eve accepts, buys"
    " it, and answers"
)
_BARE = re.compile(r"<title>[^<]*</title>\s*|</?a\b[^>]*>\s*|<desc.*?</desc>\s*", re.DOTALL)
_BOX = re.compile(r'viewBox="0\.00 0\.00 ([\d.]+) ([\d.]+)"')


class Moment(NamedTuple):
    """One picture of the run."""

    svg: str
    did: tuple[str, ...]
    """What the run has done so far."""
    card: tuple[str, ...]
    """What it asks, or its answer; may be empty."""
    kind: str
    """`asks`, `ends` or empty."""


def moments() -> list[Moment]:
    """The run, step by step, and the answer in the middle."""
    tools = ModuleType("approve")
    vars(tools).update(run_path(str(EXAMPLE / "tools.py")))
    script = read_script(str(EXAMPLE / "replies.yaml")).replies
    run = load(EXAMPLE / "machine.yaml", tools=tools).start(
        "How fast does demand for lithium rise?", script=script,
        clock=ManualClock(1_700_000_000), run_id="hero",
    )  # fmt: skip
    did: list[str] = []
    found = [moment(run, did)]
    while not run.ended:
        if run.question is not None:
            run.send("accept", {"by": "Eve"})
            run.step()  # takes the answer
            did.append("Eve accepts")
        else:
            record = run.step()
            assert record is not None
            did.append(label_of(run, record.state))
        found.append(moment(run, did))
    return found


def label_of(run: Run, state: str) -> str:
    """What a state is called on the picture."""
    boxes = {box.id: box for box in run.draw().chart.boxes}
    return " ".join(boxes[state].label.split()) if state in boxes else state


def moment(run: Run, did: Sequence[str]) -> Moment:
    """How the run stands now."""
    number = len(did)
    svg = LivePicture(run.draw().chart, prefix=f"f{number}-").svg(standing_of(run.session), "auto")
    card: tuple[str, ...] = ()
    kind = ""
    if run.question is not None:
        ((call, *_),) = [run.facts.last.tool_calls]
        arguments = [f"{name}: {value}" for name, value in json.loads(call.arguments).items()]
        card, kind = (f"May it call {call.name}?", *arguments, "[ accept ]   [ deny ]"), "asks"
    elif run.ended:
        card, kind = (str(run.result.output), "journal: every step, for good"), "ends"
    return Moment(svg, tuple(did), card, kind)


def draw(found: Sequence[Moment]) -> str:
    """The moments as one SVG, each shown for its time."""
    size = _BOX.search(found[0].svg)
    assert size is not None
    width, height = float(size[1]), float(size[2])
    times = [LONG if one.kind else BRIEF for one in found]
    whole = sum(times)
    rules = [
        ".frame{visibility:hidden}",
        *(f"#frame-{n}{{visibility:visible}}" for n, one in enumerate(found) if one.kind == "asks"),
    ]
    moving: list[str] = []
    begin = 0.0
    for number, time in enumerate(times):
        first, last = (round(100 * at / whole, 2) for at in (begin, begin + time))
        hidden = "visibility:hidden"
        shown = "visibility:visible"
        before = f"0%{{{hidden}}}" if first else ""
        moving.append(
            f"@keyframes k{number}{{{before}{first}%{{{shown}}}{last}%,100%"
            f"{{{hidden if number + 1 < len(times) else shown}}}}}"
            f"#frame-{number}{{animation:k{number} {whole:g}s step-end infinite}}"
        )
        begin += time
    frames = "\n".join(frame(number, one, width) for number, one in enumerate(found))
    style = (
        f"text{{font-family:{FONT}}}{LIGHT}{''.join(rules)}{dark_mode_rules(DARK)}"
        f"@media (prefers-reduced-motion:no-preference){{{''.join(moving)}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{LABEL}"'
        f' viewBox="0 0 {width + WIDE:g} {height:g}"'
        f' width="{width + WIDE:g}" height="{height:g}">\n'
        f"<title>{LABEL}</title>\n<style>{style}</style>\n"
        f'<rect class="paper" width="100%" height="100%" rx="8"/>\n{frames}\n</svg>\n'
    )


def frame(number: int, one: Moment, width: float) -> str:
    """One moment: its picture, and beside it what was done and asked."""
    body = one.svg[one.svg.index("\n", one.svg.index("viewBox")) : one.svg.rindex("</svg>")]
    body = _BARE.sub("", body[body.index("<") :])
    top = 64.0
    lines = [
        f'<text class="{"new" if at == len(one.did) - 1 else "did"}" x="{width + 8:g}"'
        f' y="{top + ROW * at:g}" font-size="13">{at + 1}  {escape(text)}</text>'
        for at, text in enumerate(one.did)
    ]
    if one.card:
        y = top + ROW * len(one.did) - 4
        room = f'x="{width:g}" y="{y:g}" width="{WIDE - 24}" height="{20 * len(one.card) + 16}"'
        bold = (0, len(one.card) - 1) if one.kind == "asks" else (0,)
        words = [
            f'<text x="{width + 14:g}" y="{y + 24 + 20 * at:g}" font-size="13"'
            f"{BOLD if at in bold else ''}>{escape(text)}</text>"
            for at, text in enumerate(one.card)
        ]
        card = f'<rect class="{one.kind}" {room} rx="6"/>{"".join(words)}'
        lines.append(f'<g class="card">{card}</g>')
    return f'<g class="frame" id="frame-{number}">{body}{"".join(lines)}</g>'


def main() -> None:
    """Draw it."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "hero.svg"
    path.write_text(draw(moments()), encoding="utf-8")


if __name__ == "__main__":
    main()
