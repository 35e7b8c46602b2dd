"""Plugins: asked for by name, never loaded because they are installed, refused with a reason."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop import MissingPluginError, PluginError, SpecError, load
from chartloop.actions.undeclared import used_plugins
from chartloop.api.plugins import installed_plugins, load_plugins
from tests.plugins.conftest import FILES, POINTS, USES_SHOP, Offer, build, install


def test_what_is_installed_is_listed_and_not_imported(offer: Offer, tmp_path: Path) -> None:
    offer()
    (shop,) = (p for p in installed_plugins() if p.name == "shop")
    assert str(shop) == "shop (shop_tools 1.2: tools, actions, journals, models)"
    with pytest.raises(SpecError):
        load(USES_SHOP)
    assert not (tmp_path / "imported").exists()


def test_a_plugin_brings_tools_actions_a_model_and_a_journal(offer: Offer) -> None:
    offer()
    machine = load(USES_SHOP, plugins=["shop"])
    run = machine.start("What is it?", journal="shop://here", run_id="r1")
    assert run.run().output == "shop/small: What is it?"
    again = load(USES_SHOP, plugins=["shop"]).open("r1", journal="shop://here")
    assert again.result.output == "shop/small: What is it?"
    (plugin,) = pickle.loads(pickle.dumps(machine)).spec.registry.plugins  # noqa: S301  our own
    assert (plugin.name, plugin.source) == ("shop", "shop_tools 1.2")


def test_a_run_says_which_plugin_it_misses(offer: Offer, tmp_path: Path) -> None:
    offer()
    text = USES_SHOP.replace("tools: [price]\n", "").replace(
        "hello: {do: greet, with: {name: eve}, next: think}", "hello: {on: {go: think}}"
    )
    path = tmp_path / "journal.db"
    load(text, plugins=["shop"]).start("What is it?", journal=path, run_id="r1").run()
    run = load(text).open("r1", journal=path)  # it loads without: only its model is the plugin's
    assert run.state == "hello"
    run.send("go")
    with pytest.raises(MissingPluginError, match=r"plugin `shop` \(shop_tools 1.2\)") as caught:
        run.run()
    assert (caught.value.code, caught.value.plugins) == ("CL642", ("shop",))
    assert "--plugin shop" in caught.value.hint
    with_it = load(text, plugins=["shop"]).open("r1", journal=path)
    assert with_it.run().output == "shop/small: What is it?"


def test_a_state_may_name_the_model_of_a_plugin(offer: Offer) -> None:
    offer()
    text = """\
chartloop: 1
machine: m
model: {name: openai/gpt-4o-mini}
output: last.text
states:
  ask: {do: receive, next: think}
  think: {do: infer, with: {model: shop/large}, next: done}
  done: {stop: completed}
"""
    assert used_plugins(load(text, plugins=["shop"]).spec) == {"shop": "shop_tools 1.2"}


def test_a_run_that_uses_nothing_of_a_plugin_does_not_miss_it(
    offer: Offer, tmp_path: Path
) -> None:  # fmt: skip
    offer()
    text = "chartloop: 1\nmachine: m\nstates:\n  a: {on: {go: b}}\n  b: {stop: completed}\n"
    path = tmp_path / "journal.db"
    load(text, plugins=["shop"]).start("", journal=path, run_id="r1").run()
    run = load(text).open("r1", journal=path)
    run.send("go")
    assert run.run().success


class Bad(NamedTuple):
    """A plugin that cannot be used, and what the error says."""

    id: str
    module: str
    points: str
    says: str


TOOL = "from chartloop import tool\n@tool\ndef {}(x: str) -> str:\n    return x\n"
INCOMPLETE = """\
from chartloop.core.specs import ActionSpec
done = ActionSpec("done", None)
"""
CONTRADICTS = """\
from dataclasses import replace
from chartloop.actions import builtin
done = replace(builtin().actions["nothing"], name="done")
done = replace(done, declares=replace(done.declares, asks="text"))
"""
BAD = [
    Bad("raises", "raise ValueError('no disk')", "[chartloop.tools]\nbad = bad_module", "cannot be imported from `bad_module`: ValueError: no disk"),
    Bad("ends", "raise SystemExit(3)", "[chartloop.tools]\nbad = bad_module", "cannot be imported"),
    Bad("base", "class Odd(BaseException): pass\nraise Odd('no')", "[chartloop.tools]\nbad = bad_module", "cannot be imported from `bad_module`: Odd: no"),
    Bad("unsayable", "class Odd(Exception):\n  def __str__(self): raise self\nraise Odd", "[chartloop.tools]\nbad = bad_module", "cannot be imported from `bad_module`: Odd"),
    Bad("missing", "", "[chartloop.tools]\nbad = bad_module:nothing", "has no attribute 'nothing'"),
    Bad("no-module", "", "[chartloop.tools]\nbad = bad_elsewhere", "No module named 'bad_elsewhere'"),
    Bad("declares-nothing", "x = 1", "[chartloop.tools]\nbad = bad_module", "declares no tool under `chartloop.tools`"),
    Bad("built-in-tool", TOOL.format("core_memory_append"), "[chartloop.tools]\nbad = bad_module", "brings the tool `core_memory_append`, which chartloop itself has already"),
    Bad("no-function", INCOMPLETE, "[chartloop.actions]\nbad = bad_module", "action `done` has no function"),
    Bad("wrong-traits", CONTRADICTS, "[chartloop.actions]\nbad = bad_module", "action `done` declares `asks`"),
    Bad("journal-no-call", "x = 1", "[chartloop.journals]\nbad = bad_module:x", "cannot be called"),
]  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_a_plugin_that_cannot_be_used_says_why_and_whose_it_is(case: Bad, offer: Offer) -> None:
    offer("bad_tools", {"bad_module.py": case.module}, case.points)
    with pytest.raises(PluginError) as caught:
        load_plugins(["bad"])
    assert case.says in caught.value.message
    assert "bad" in caught.value.message
    assert (caught.value.code, bool(caught.value.hint)) == ("CL641", True)


class BadModel(NamedTuple):
    """A plugin's model that is none, as `bad_module.make`, and what the error says."""

    id: str
    text: str
    says: str


ABLE = """\
class make:
    suspends = False
    def prepare(self, settings): {}
    def context_window(self, settings): {}
    async def complete(self, request, on_text=None): ...
"""
BAD_MODELS = [
    BadModel("raises", "def make(): raise ValueError('no disk')", "cannot make its model: ValueError: no disk"),
    BadModel("ends", "def make(): raise SystemExit(0)", "cannot make its model: SystemExit: 0"),
    BadModel("no-model", "make = int", "gave a int, not a model"),
    BadModel("settings", ABLE.format("raise KeyError('size')", "return None"), "refuses its model's settings: KeyError: 'size'"),
    BadModel("window", ABLE.format("pass", "return 'big'"), "says that the window of its model is `'big'`"),
]  # fmt: skip


@pytest.mark.parametrize("case", BAD_MODELS, ids=lambda case: case.id)
def test_a_model_that_is_none_is_an_error_of_its_plugin(case: BadModel, offer: Offer) -> None:
    offer("bad_tools", {"bad_module.py": case.text}, "[chartloop.models]\nbad = bad_module:make\n")
    text = (
        "chartloop: 1\nmachine: m\nmodel: {name: bad/small}\n"
        "states:\n  a: {do: receive, next: b}\n  b: {do: infer, next: c}\n  c: {stop: completed}\n"
    )
    with pytest.raises(PluginError) as caught:
        load(text, plugins=["bad"]).run("hi")
    assert caught.value.message.startswith("plugin `bad` ")
    assert case.says in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("what", ["raise ValueError('no')", "raise SystemExit(0)"])
def test_a_journal_that_cannot_be_opened_is_an_error_of_its_plugin(what: str, offer: Offer) -> None:
    module = f"def make(url, *, make):\n    {what}\n"
    offer("bad_tools", {"bad_module.py": module}, "[chartloop.journals]\nbad = bad_module:make\n")
    text = "chartloop: 1\nmachine: m\nstates: {a: {stop: completed}}\n"
    with pytest.raises(PluginError, match="plugin `bad` cannot open its journal"):
        load(text, plugins=["bad"]).start("", journal="bad://there")


def test_an_unknown_plugin_is_told_what_is_installed(offer: Offer) -> None:
    offer()
    with pytest.raises(PluginError, match="there is no plugin `shopp`") as caught:
        load_plugins(["shopp"])
    assert "shop (shop_tools 1.2: tools, actions, journals, models)" in caught.value.message
    assert caught.value.hint == "did you mean `shop`?"


def test_two_plugins_with_one_tool_clash(offer: Offer) -> None:
    offer()
    other = {"other_module.py": TOOL.format("price")}
    offer("other_tools", other, "[chartloop.tools]\nother = other_module\n")
    with pytest.raises(PluginError, match="`other` brings the tool `price`, which plugin `shop`"):
        load(USES_SHOP, plugins=["shop", "other"])


def test_two_distributions_with_one_plugin_clash(offer: Offer) -> None:
    offer()
    other = {"other_module.py": TOOL.format("other")}
    offer("other_tools", other, "[chartloop.tools]\nshop = other_module\n")
    with pytest.raises(PluginError, match="two distributions have a plugin `shop`"):
        load_plugins(["shop"])


@pytest.mark.slow("installs a distribution and starts processes")
def test_an_installed_plugin_is_imported_when_a_command_names_it(tmp_path: Path) -> None:
    site, marker = tmp_path / "site", tmp_path / "imported"
    install(build(tmp_path, "shop_tools", FILES, POINTS), site)
    assert (site / "shop_tools-1.2.dist-info" / "entry_points.txt").is_file()
    (tmp_path / "buyer.yaml").write_text(USES_SHOP)
    env = {**os.environ, "PYTHONPATH": str(site), "SHOP_IMPORTED": str(marker)}

    def chartloop(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "chartloop", *arguments], cwd=tmp_path, env=env,
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    refused = chartloop("check", "buyer.yaml")
    assert refused.returncode == 1, refused.stderr
    assert chartloop("draw", "buyer.yaml", "-o", "buyer.mmd").returncode == 0
    listed = " ".join(chartloop("doctor").stdout.split())
    assert "shop (shop_tools 1.2: tools, actions, journals, models)" in listed
    assert not marker.exists()
    assert chartloop("check", "buyer.yaml", "--plugin", "shop").returncode == 0
    assert marker.exists()
    done = chartloop(
        "run",
        "buyer.yaml",
        "What is it?",
        "--plugin",
        "shop",
        "--journal",
        "j.db",
        "--run-id",
        "r1",
    )
    assert done.stdout.strip() == "shop/small: What is it?", done.stderr
    forked = chartloop("fork", "r1", "--at", "2", "--run-id", "r2", "--journal", "j.db")
    assert forked.returncode == 0, forked.stderr
    marker.unlink()
    missing = chartloop("resume", "r2", "--journal", "j.db")
    assert missing.returncode == 2
    assert "was started with the plugin `shop` (shop_tools 1.2)" in missing.stderr
    assert "--plugin shop" in missing.stderr
    assert not marker.exists()
    again = chartloop("resume", "r2", "--journal", "j.db", "--plugin", "shop")
    assert again.stdout.strip() == "shop/small: What is it?", again.stderr


@pytest.mark.slow("starts pytest")
def test_scenarios_use_the_plugins_that_the_settings_of_pytest_name(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(build(tmp_path, "shop_tools", FILES, POINTS), site)
    (tmp_path / "buyer.yaml").write_text(USES_SHOP)
    (tmp_path / "a.scenario.yaml").write_text(
        "machine: buyer.yaml\ntask: What?\nreplies: [A report.]\nexpect: {output: A report.}\n"
    )
    env = {
        **os.environ, "PYTHONPATH": str(site), "SHOP_IMPORTED": str(tmp_path / "imported"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }  # fmt: skip

    def code() -> int:
        command = [sys.executable, "-m", "pytest", "-p", "chartloop.scenarios.pytest_plugin"]
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, check=False
        ).returncode  # fmt: skip

    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    assert code() == 1
    (tmp_path / "pytest.ini").write_text("[pytest]\nchartloop_plugins = shop\n")
    assert code() == 0
