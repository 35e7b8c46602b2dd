"""`--notify`: what a run has to say is posted to a webhook."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import Shell
from tests.unit.test_webhook import SECRET, Hook

TELLS = """\
chartloop: 1
machine: tells
states:
  tell: {do: notify, with: {text: Look here.}, next: more}
  more: {ask: More?, on: {yes: tell, no: done}}
  done: {stop: completed}
"""


def test_it_is_told_on_run_and_when_it_is_said_again_on_resume(
    sh: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("CHARTLOOP_NOTIFY_SECRET", "s3cret")
    sh.write("tells.yaml", TELLS)
    with Hook() as hook:
        run = ("run", "tells.yaml", "--run-id", "r", "--no-input")
        done = sh(*run, "--notify", hook.url)
        assert done.code == 4
        assert hook.posted[0].headers["authorization"] == "Bearer s3cret"
        sh("answer", "r", "yes")
        again = sh("resume", "r", "--no-input")
        assert f"this run sent its notices to http://127.0.0.1:{hook.port};" in again.err
        assert len(hook.posted) == 1
        sh("answer", "r", "yes")
        assert "this run told" not in sh("resume", "r", "--no-input", "--notify", hook.url).err
    assert [p.body["text"] for p in hook.posted] == ["Look here.", "Look here."]
    shown = sh("show", "r", "--format", "json").out
    assert json.loads(shown)["records"][0]["data"]["cli"]["notify"].startswith("http://127.0.0.1:")
    kept = b"".join(p.read_bytes() for p in (sh.folder / ".chartloop").iterdir())
    for secret in (SECRET, "s3cret", "/hook"):
        assert secret.encode() not in kept


def test_what_cannot_be_posted_to(sh: Shell) -> None:
    sh.write("tells.yaml", TELLS)
    done = sh("run", "tells.yaml", "--notify", "ftp://x")
    assert (done.code, "not a URL of a webhook" in done.err) == (2, True)
    assert not (sh.folder / ".chartloop").exists()


def test_without_a_webhook_it_is_printed(sh: Shell) -> None:
    sh.write("tells.yaml", TELLS)
    done = sh("run", "tells.yaml", "--no-input")
    assert done.code == 4
    assert "notice: Look here." in done.err.splitlines()
