"""Takes the picture of the comment in `docs/review.md` anew: a pull request that loosens a gate.

    python docs/consent_screen.py [FILE]           # by default docs/pictures/consent.png

The files and runs are those of the page. Chromium takes the picture, as in `tests/browser`.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from markdown_it import MarkdownIt

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGE = HERE / "review.md"
PICTURE = HERE / "pictures" / "consent.png"
STYLE = """
body { font: 15px/1.5 'DejaVu Sans', sans-serif; color: #1f2328; margin: 0; padding: 20px 24px }
h2 { font-size: 22px; border-bottom: 1px solid #d1d9e0; padding-bottom: 6px } h3 { font-size: 17px }
code { font: 13px 'DejaVu Sans Mono', monospace; background: #eff1f3; padding: 2px 5px }
pre { background: #f6f8fa; border-radius: 6px; padding: 12px }
pre code { background: none; padding: 0; font-size: 12.5px }
.minus { background: #ffebe9; color: #82071e } .plus { background: #dafbe1; color: #116329 }
.note { color: #953800 } .at { color: #8250df; font-weight: bold } img { max-width: 560px }
"""


def commands() -> list[str]:
    """What the page types, up to the comparison."""
    page = PAGE.read_text("utf-8").partition("## Consent")[2]
    return re.findall(r"^\$ (chartloop run .*?|sed .*?)(?:; echo .*)?$", page, re.MULTILINE)


def files() -> dict[str, str]:
    """The files of the page, by name."""
    page = PAGE.read_text("utf-8").partition("## Consent")[2].partition("\n## ")[0]
    return dict(re.findall(r"```\w+ title=(\S+)\n(.*?)```", page, re.DOTALL))


def comment(folder: Path) -> str:
    """The comment on a branch that changes the machine as the page does."""
    fixed = {"NAME": "Ann", "EMAIL": "ann@example.org", "DATE": "2026-01-01T00:00:00Z"}
    env = os.environ | {
        f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in fixed.items()
    }
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}

    def call(command: str) -> None:
        subprocess.run(command, shell=True, cwd=folder, env=env, check=False, capture_output=True)  # noqa: S602 - of our own page

    for name, text in files().items():
        (folder / name).write_text(text, "utf-8")
    call("git init -q -b main && git add refunds.yaml && git commit -q -m First")
    for command in commands():
        call(command)
    call("mv change.yaml refunds.yaml")
    review = "chartloop review main refunds.yaml --tools shop.py --journal shop.db"
    call(f"{review} -o comment.md --pictures .")
    return (folder / "comment.md").read_text("utf-8")


def html(text: str, folder: Path) -> str:
    """The comment as a page of a forge shows it: coloured lines, and the picture drawn."""
    picture = base64.b64encode((folder / "refunds.changes.svg").read_bytes()).decode()
    text = re.sub(
        r"```mermaid\n.*?```", f"![](data:image/svg+xml;base64,{picture})", text, flags=re.DOTALL
    )
    made = MarkdownIt()
    made.validateLink = lambda _: True
    page = made.render(text)

    def colour(block: re.Match[str]) -> str:
        kinds = {"-": "minus", "+": "plus", "!": "note", "@": "at"}
        last, lines = "", list[str]()
        for line in block[1].rstrip("\n").split("\n"):
            last = kinds.get(line[:1], "")
            lines.append(f'<span class="{last}">{line}</span>')
        return "<pre><code>" + "\n".join(lines) + "</code></pre>"

    page = re.sub(
        r'<pre><code class="language-diff">(.*?)</code></pre>', colour, page, flags=re.DOTALL
    )
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><body>{page}"


def take(path: Path) -> None:
    """Write the comment, and take the picture."""
    sys.path.insert(0, str(ROOT))  # its tests know how a browser is driven
    from tests.browser.lab import browser  # noqa: PLC0415

    with TemporaryDirectory() as made, browser() as chromium:
        folder = Path(made)
        page = chromium.new_context(viewport={"width": 880, "height": 400}).new_page()
        page.set_content(html(comment(folder), folder))
        page.screenshot(path=path, full_page=True)


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
