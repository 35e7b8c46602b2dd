"""Small distributions with entry points of chartloop, installed into a folder."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

SHOP = """\
import os
from pathlib import Path

from chartloop import Context, action, tool

with Path(os.environ["SHOP_IMPORTED"]).open("a") as file:
    file.write("imported\\n")


@tool(effect="pure")
def price(title: str) -> float:
    \"\"\"The price of a report.\"\"\"
    return 49.0


@action(effect="pure")
def greet(context: Context, name: str) -> str:
    \"\"\"Greet somebody.\"\"\"
    return f"Hello {name}!"
"""
MODEL = """\
from chartloop.run.ports import ModelReply


class Echo:
    suspends = False

    def prepare(self, settings):
        pass

    def context_window(self, settings):
        return None

    async def complete(self, request, on_text=None):
        text = f"{request.settings['name']}: {request.messages[-1]['content']}"
        return ModelReply(text, prompt_tokens=1, completion_tokens=1, model="echo")
"""
JOURNAL = """\
from chartloop import MemoryJournal

KEPT = {}


def open_journal(url, *, make):
    return KEPT.setdefault(url, MemoryJournal())
"""
FILES = {"shop_plugin.py": SHOP, "shop_model.py": MODEL, "shop_journal.py": JOURNAL}
POINTS = """\
[chartloop.tools]
shop = shop_plugin

[chartloop.actions]
shop = shop_plugin

[chartloop.models]
shop = shop_model:Echo

[chartloop.journals]
shop = shop_journal:open_journal
"""
USES_SHOP = """\
chartloop: 1
machine: buyer
model: {name: shop/small}
tools: [price]
output: last.text
states:
  ask: {do: receive, next: hello}
  hello: {do: greet, with: {name: eve}, next: think}
  think: {do: infer, next: done}
  done: {stop: completed}
"""


def build(folder: Path, name: str, files: Mapping[str, str], points: str) -> Path:
    """A wheel of a distribution, as a build tool makes it."""
    info = f"{name}-1.2.dist-info"
    parts = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": points,
    }
    record = "".join(f"{path},,\n" for path in (*parts, f"{info}/RECORD"))
    wheel = folder / f"{name}-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for path, text in {**parts, f"{info}/RECORD": record}.items():
            file.writestr(path, text)
    return wheel


def install(wheel: Path, site: Path) -> None:
    """Unpack a wheel into a folder of the path, as an installer does with a pure one."""
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)


Offer = Callable[..., Path]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """Puts a distribution onto the path of this process; its modules are forgotten afterwards."""
    before = set(sys.modules)

    def put(
        name: str = "shop_tools", files: Mapping[str, str] = FILES, points: str = POINTS
    ) -> Path:  # fmt: skip
        site = tmp_path / f"site-{name}"
        install(build(tmp_path, name, files, points), site)
        monkeypatch.setattr(sys, "path", [str(site), *sys.path])
        return site

    monkeypatch.setenv("SHOP_IMPORTED", str(tmp_path / "imported"))
    yield put
    for module in set(sys.modules) - before:
        if module.startswith(("shop_", "bad_", "other_")):
            del sys.modules[module]
