"""Runs the notebook and writes its outputs into it, so that a code host shows them.

    python examples/generate.py [FILE]        # by default examples/stepping.ipynb

Edit the cells in JupyterLab or by hand, then run this. What it writes holds nothing of the machine
that it ran on. The sources that were run are remembered by a hash: a test compares it, so that
cells which were changed and not run are found.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOK = Path(__file__).resolve().with_name("stepping.ipynb")
WIDGET = "application/vnd.jupyter.widget-view+json"
"""A widget lives as long as its kernel: what is left of it in a file is an error message."""
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def sources_hash(notebook: NotebookNode) -> str:
    """The hash of the sources of all cells, in their order."""
    sources = "\0".join(f"{cell.cell_type}\0{cell.source}" for cell in notebook.cells)
    return hashlib.sha256(sources.encode()).hexdigest()


def up_to_date(path: Path) -> bool:
    """Whether the outputs are those of the sources."""
    notebook = nbformat.read(path, as_version=4)
    return notebook.metadata.get("chartloop", {}).get("sources") == sources_hash(notebook)


def executed(path: Path) -> NotebookNode:
    """The notebook with fresh outputs, run where it stands. Raises what a cell raises."""
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources=where).execute()
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number:02}", {}
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(WIDGET, None)
    notebook.metadata = {
        "chartloop": {"sources": sources_hash(notebook)},
        "kernelspec": KERNEL,
        "language_info": {"name": "python"},
    }
    return notebook


def main() -> None:
    """Run the notebook and write it back."""
    path = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else NOTEBOOK
    nbformat.write(executed(path), path)
    print(f"{path.name}: {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
