"""Draws the plots that `docs/studies.md` and `docs/simulation.md` show, by the pages' own lines.

    python docs/pictures/plots.py [FOLDER]       # by default the folder of this file

The files of a page are written to an empty folder, and its commands run there. Needs the extra
`plots`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
PAGES = HERE.parent
_FILE = re.compile(r"^```\w+ title=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Plot(NamedTuple):
    """A plot, and the lines of its page that lead to it."""

    page: str
    lines: tuple[str, ...]
    name: str


PLOTS = (
    Plot(
        "studies.md",
        ("python many.py", "chartloop stats desk.yaml --tools tools.py --plot stats.svg"),
        "stats.svg",
    ),
    Plot(
        "simulation.md",
        ("chartloop simulate gate.yaml --world world.yaml --plot spread.svg",),
        "spread.svg",
    ),
)


def draw(plot: Plot, folder: Path) -> Path:
    """Play the lines of a plot in a folder; gives the plot."""
    for name, text in _FILE.findall((PAGES / plot.page).read_text("utf-8")):
        (folder / name).write_text(text, encoding="utf-8")
    for line in plot.lines:
        program, *arguments = shlex.split(line)
        module = ["-m", "chartloop"] if program == "chartloop" else []
        subprocess.run([sys.executable, *module, *arguments], cwd=folder, check=True)
    return folder / plot.name


def main() -> None:
    """Draw all of them."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for plot in PLOTS:
        with TemporaryDirectory() as folder:
            shutil.copy(draw(plot, Path(folder)), target / plot.name)


if __name__ == "__main__":
    main()
