"""Draws the plot of `docs/studies.md` and the map of `docs/coverage.md`.

    python docs/pictures/plots.py [FOLDER]       # by default the folder of this file

The files of a page are written to an empty folder, and the page's own commands run there. Needs the
extra `plots`, and Graphviz.
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
        "coverage.md",
        (
            (
                "chartloop test *.scenario.yaml --fail-under 100 --fail-under atoms=60"
                " --save tests.json"
            ),
            "chartloop coverage gate.yaml --with tests.json --draw coverage.svg",
        ),
        "coverage.svg",
    ),
)


def expand(word: str, folder: Path) -> list[str]:
    """A word of a command, or the files of the folder that it is a pattern of."""
    return sorted(path.name for path in folder.glob(word)) if "*" in word else [word]


def draw(plot: Plot, folder: Path) -> Path:
    """Play the lines of a plot in a folder; gives the plot."""
    for name, text in _FILE.findall((PAGES / plot.page).read_text("utf-8")):
        (folder / name).write_text(text, encoding="utf-8")
    for line in plot.lines:
        program, *words = shlex.split(line)
        arguments = [name for word in words for name in expand(word, folder)]
        module = ["-m", "chartloop"] if program == "chartloop" else []
        last = line == plot.lines[-1]  # one before it may fail on purpose, as `--fail-under` does
        subprocess.run([sys.executable, *module, *arguments], cwd=folder, check=last)
    return folder / plot.name


def main() -> None:
    """Draw all of them."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for plot in PLOTS:
        with TemporaryDirectory() as folder:
            shutil.copy(draw(plot, Path(folder)), target / plot.name)


if __name__ == "__main__":
    main()
