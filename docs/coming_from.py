"""Runs the examples of other libraries on `coming-from.md`, and compares what they print.

    python docs/coming_from.py      # with the libraries installed that the page names

An example is a block of Python with a file name; the block of text after it is its output. Each
runs in an empty folder of its own. The chartloop examples of the page run in the test suite.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).with_name("coming-from.md")
_EXAMPLE = re.compile(
    r"^```python title=(\S+)\n((?:(?!```).*\n)*)```\n\n```text\n((?:(?!```).*\n)*)```", re.MULTILINE
)


def main() -> int:
    """How many examples print something else than the page says."""
    wrong = 0
    for name, code, expected in _EXAMPLE.findall(PAGE.read_text("utf-8")):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,
            )
        same = done.stdout == expected
        print("as shown" if same else "DIFFERS ", name)
        if not same:
            wrong += 1
            print(done.stdout, done.stderr[-500:], sep="\n")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
