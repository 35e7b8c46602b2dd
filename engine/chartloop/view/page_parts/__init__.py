"""Script and style that pages of runs share: tables, answer forms, and the live picture.

The panel of a notebook and the pages of the server are made of them. They are files for a browser,
without a build: the script is put in front of another one, or read as a module.

Belongs here: elements made of data. Never: a request, an order, a whole page.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent
SCRIPT = "\n".join((_FOLDER / name).read_text("utf-8") for name in ("elements.js", "picture.js"))
STYLE = (_FOLDER / "style.css").read_text("utf-8")
NAMES = (
    "Sheet, answerForm, columns, decisionRows, factRow, h, isDark, ledLine, part, pictureOf, "
    "scrolled, text, ticked"
)
"""What the script has for others."""
MODULE = f"{SCRIPT}\nexport {{ {NAMES} }};\n"
"""The script as a module."""
