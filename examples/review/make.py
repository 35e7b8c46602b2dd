"""Writes the comment and the pictures of this folder anew.

    python examples/review/make.py

Makes a repository with `before.yaml` on `main` and `after.yaml` on a branch, both as
`refunds.yaml`, and lets `chartloop review` look at it. A test compares what stands here with that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PICTURES = ("changes", "full")


def git(folder: Path, *arguments: str) -> None:
    """One call of git, which gives the same commits each time."""
    fixed = {"NAME": "Ann", "EMAIL": "ann@example.org", "DATE": "2026-01-01T00:00:00Z"}
    env = {
        f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in fixed.items()
    }
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *arguments], cwd=folder, env=os.environ | env, check=True)


def make(target: Path) -> None:
    """Write `comment.md`, `changes.svg` and `full.svg` into a folder."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        machine = folder / "refunds.yaml"
        git(folder, "init", "-q", "-b", "main")
        for message, source in (("Refunds", "before.yaml"), ("A clerk approves", "after.yaml")):
            machine.write_text((HERE / source).read_text("utf-8"), "utf-8")
            git(folder, "add", "-A")
            git(folder, "commit", "-q", "-m", message)
            if source == "before.yaml":
                git(folder, "checkout", "-q", "-b", "approval")
        comment = ["review", "main..approval", "-o", "comment.md"]
        links = ["--pictures", ".", "--link", "{picture}"]
        command = [sys.executable, "-m", "chartloop", *comment, *links, "--fail-on", "invalid"]
        subprocess.run(command, cwd=folder, check=True)
        text = (folder / "comment.md").read_text("utf-8")
        for kind in PICTURES:
            drawn = (folder / f"refunds.{kind}.svg").read_text("utf-8")
            (target / f"{kind}.svg").write_text(drawn, "utf-8")
            text = text.replace(f"(refunds.{kind}.svg)", f"({kind}.svg)")
        (target / "comment.md").write_text(text, "utf-8")


if __name__ == "__main__":
    make(HERE)
