"""`chartloop tools lock`, and what reads the lock afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.cli.test_review import commit, git
from tests.mcp_peers import ADD, OFFERS, machine, put_machine, put_server

needs_mcp = pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')  # noqa: S610 - no Django
REPLIES = """\
replies:
  - tool_calls: [{name: calc.add, arguments: {a: 2, b: 3}}]
  - "5"
"""


@pytest.fixture
def peer(sh: Shell) -> Shell:
    """A folder with a machine and its server."""
    put_server(sh.folder)
    put_machine(sh.folder, machine("calc.add"))
    sh.write("replies.yaml", REPLIES)
    return sh


def lock_of(sh: Shell) -> Path:
    return sh.folder / "machine.tools.lock.json"


def test_a_file_that_starts_a_program_needs_trust(peer: Shell) -> None:
    done = peer("tools", "lock", "machine.yaml")
    assert done.code == 2
    assert "starts `" in done.err
    assert "--trust" in done.err
    assert not lock_of(peer).exists()
    assert not (peer.folder / "calc.json.calls").exists()


def test_a_machine_without_servers(sh: Shell) -> None:
    done = sh("tools", "lock", "adder.yaml", "--trust")
    assert done.code == 2
    assert "adder.yaml declares no MCP servers" in done.err


@needs_mcp
def test_lock_check_run_and_a_change(peer: Shell) -> None:
    assert peer("tools", "lock", "machine.yaml", "--trust", "--check").code == 1
    assert not lock_of(peer).exists()
    done = peer("tools", "lock", "machine.yaml", "--trust")
    assert (done.code, done.out) == (0, "+ calc.add: Add two numbers.\n")
    assert peer("tools", "lock", "machine.yaml", "--trust", "--check").out == (
        "machine.tools.lock.json fits: 1 tool\n"
    )
    assert peer("check", "machine.yaml").code == 0
    run = ("run", "machine.yaml", "2 + 3?", "--script", "replies.yaml", "--trust")
    assert peer(*run).out == "5\n"

    put_server(peer.folder, [{**ADD, "description": "Subtract."}, *OFFERS[1:]])
    done = peer(*run)
    assert done.code == 1
    assert "error[CL631]" in done.err
    assert '~ calc.add description: "Add two numbers." → "Subtract."' in done.err
    done = peer("tools", "lock", "machine.yaml", "--trust", "--check")
    assert done.code == 1
    assert "does not hold what the servers offer" in done.err
    told = peer("tools", "lock", "machine.yaml", "--trust", "--format", "json").json
    assert told["found"] == "differs"
    assert told["differences"] == ['~ calc.add description: "Add two numbers." → "Subtract."']
    assert peer(*run).out == "5\n"


@needs_mcp
def test_a_pattern_that_no_tool_fits_is_said(peer: Shell) -> None:
    put_machine(peer.folder, machine("calc.add, calc.zz_*"))
    done = peer("tools", "lock", "machine.yaml", "--trust")
    assert "no tool fits `calc.zz_*`" in done.err


@needs_mcp
@pytest.mark.system("git", install="apt-get install git")
def test_a_review_shows_a_lock_that_changed_alone(peer: Shell) -> None:
    peer("tools", "lock", "machine.yaml", "--trust")
    git(peer.folder, "init", "-q", "-b", "main")
    commit(peer.folder)
    git(peer.folder, "checkout", "-q", "-b", "work")
    put_server(peer.folder, [{**ADD, "description": "Subtract."}])
    peer("tools", "lock", "machine.yaml", "--trust")
    commit(peer.folder)
    done = peer("review", "main")
    assert "description of tool `calc.add`: `Add two numbers.` → `Subtract.`" in done.out
    assert "machine.yaml" in done.out
    done = peer("diff", "main:machine.yaml", "machine.yaml", "--format", "json")
    (change,) = done.json["changes"]
    assert (change["what"], change["aspect"]) == ("tool", "description")


def test_a_lock_is_json_in_the_order_of_names() -> None:
    example = Path(__file__).parents[2] / "examples/mcp/machine.tools.lock.json"
    held = json.loads(example.read_text())
    assert list(held["servers"]) == sorted(held["servers"])
