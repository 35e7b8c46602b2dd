"""A question of an MCP server in a run of the command line."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import Shell, started, until
from tests.mcp_peers import calls_of, machine, put_machine, put_server

pytestmark = [pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')]  # noqa: S610 - no Django
REPLIES = """\
replies:
  - tool_calls:
      - name: calc.ask
        arguments:
          message: Who are you?
          schema: {type: object, properties: {name: {type: string}, size: {type: integer}}, required: [name]}
  - done
"""
RUN = ("run", "machine.yaml", "go", "--script", "replies.yaml", "--trust")


@pytest.fixture
def peer(sh: Shell) -> Shell:
    """A folder with a machine, its server and its lock."""
    put_server(sh.folder)
    put_machine(sh.folder, machine())
    sh.write("replies.yaml", REPLIES)
    assert sh("tools", "lock", "machine.yaml", "--trust").code == 0
    return sh


@pytest.mark.slow("starts the program")
def test_a_run_without_a_terminal_stays_for_an_answer_from_elsewhere(peer: Shell) -> None:
    with started(*RUN, cwd=peer.folder) as running:
        asked = until(lambda: peer("runs", "--waiting", "--format", "json").json)[0]
        assert asked["question"] == "MCP server `calc` asks: Who are you?"
        wait = asked["wait"]
        refused = peer("answer", asked["run"], "accept", "size=2", "--wait", wait)
        assert "needs `name`" in refused.err
        done = peer("answer", asked["run"], "accept", "name=Eve", "size=2", "--wait", wait)
        assert done.code == 0, done.err
        again = peer("answer", asked["run"], "decline", "--wait", wait)
        assert again.code != 0
        out, err = running.communicate(timeout=30)
    assert out == "done\n"
    assert running.returncode == 0
    assert "MCP server `calc` asks: Who are you?" in err
    assert f"answer {asked['run']}" in err
    assert "accept name=STR" in err
    assert len(calls_of(peer.folder)) == 1


def test_where_nobody_can_answer_it_is_declined_with_words(peer: Shell) -> None:
    done = peer(*RUN, "--in-memory", "--format", "json")
    assert done.code == 0, done.err
    warnings = json.dumps(done.json["warnings"])
    assert "calc.ask: declined, for no one can answer here: Who are you?" in warnings
