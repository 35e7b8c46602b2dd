"""Script and style shared by pages of runs: tables, answer forms, and the live picture.

The notebook panel and the server's pages use them. They are files for a browser, without a build:
the script is prepended to another one, or loaded as a module.

Belongs here: elements made from data. Never: a request, an order, a whole page.
"""

from __future__ import annotations

import json
from pathlib import Path

from chartloop.core.phase import OVER, PHASES, RETRIED

_FOLDER = Path(__file__).parent
_SCRIPTS = ("elements.js", "questions.js", "picture.js")
_TABLE = {
    name: {**phase._asdict(), "over": phase in OVER, "retried": phase in RETRIED}
    for name, phase in PHASES.items()
}
SCRIPT = "\n".join(
    (f"const PHASES = {json.dumps(_TABLE)};", *((_FOLDER / n).read_text("utf-8") for n in _SCRIPTS))
)
STYLE = (_FOLDER / "style.css").read_text("utf-8")
NAMES = (
    "PHASES, Sheet, answerForms, askedParts, columns, decisionRows, factRow, h, isDark, ledLine, "
    "part, pictureOf, readable, readably, scrolled, showPhase, text, ticked"
)
"""The exports of the script."""
MODULE = f"{SCRIPT}\nexport {{ {NAMES} }};\n"
"""The script as a module."""
