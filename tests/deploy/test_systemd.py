"""The unit of docs/deploy: systemd accepts it, confines it, and what it starts serves."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chartloop.hosting.settings import SCOPES, read_tokens
from tests.deploy.conftest import (
    DEPLOY,
    DRIVES,
    ROOT,
    free_port,
    play,
    settings_folder,
    until_healthy,
)

UNIT = DEPLOY / "chartloop.service"
MOST_EXPOSED = 15
"""What `systemd-analyze security` may find, in tenths: 100 is a service without any limits."""
SYSTEMD = pytest.mark.system("systemd-analyze", install="apt-get install systemd")


def settings() -> dict[str, list[str]]:
    """The unit's settings, each with its values in order."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@SYSTEMD
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    (command,) = settings()["ExecStart"]
    program = tmp_path / command.split()[0].lstrip("/")
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    system = tmp_path / "etc" / "systemd" / "system"
    system.mkdir(parents=True)
    shutil.copy(UNIT, system)
    for name in ("network-online", "multi-user", "sysinit", "basic", "shutdown"):
        (system / f"{name}.target").write_text(f"[Unit]\nDescription={name}\n")
    for name in ("-.slice", "system.slice"):
        (system / name).write_text("[Unit]\nDescription=x\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", f"--root={tmp_path}", "--recursive-errors=no", "chartloop.service"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@SYSTEMD
def test_systemd_finds_it_confined() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", f"--threshold={MOST_EXPOSED}", "--no-pager", str(UNIT)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def expand(text: str, values: dict[str, str]) -> str:
    """``${NAME}`` of the unit."""
    return re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], text)


def command_line(folder: Path, options: str) -> tuple[list[str], dict[str, str]]:
    """What systemd runs, with folders of this test for its own, and the environment of it."""
    given = settings()
    places = {"%S": folder / "state", "%C": folder / "cache"}
    for place in places.values():
        (place / "chartloop").mkdir(parents=True)
    credentials = folder / "credentials"
    credentials.mkdir()
    for credential in given["LoadCredential"]:
        name, _, source = credential.partition(":")
        shutil.copy(folder / source.lstrip("/"), credentials / name)
    env = {
        "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8",
        "STATE_DIRECTORY": str(places["%S"] / "chartloop"),
        "CREDENTIALS_DIRECTORY": str(credentials),
    }  # fmt: skip
    for word in " ".join(given["Environment"]).split():
        name, _, value = word.partition("=")
        for sign, place in places.items():
            value = value.replace(sign, str(place))
        env[name] = value
    (command,) = given["ExecStart"]
    words: list[str] = []
    for word in shlex.split(command):
        words += shlex.split(options) if word == "$OPTIONS" else [expand(word, env)]
    program, *rest = words
    assert program == "/opt/chartloop/bin/chartloop"
    rest = [w.replace("/etc/chartloop", str(folder / "etc" / "chartloop")) for w in rest]
    return [sys.executable, "-m", "chartloop", *rest], env


NO_NEW_PRIVILEGES, NO_WRITABLE_CODE = 38, 65
"""Of prctl(2): `NoNewPrivileges` and `MemoryDenyWriteExecute`; an old kernel refuses the second."""


def confine() -> None:
    """What the unit takes away, as far as a process may take it away from itself."""
    os.umask(0o077)
    libc = ctypes.CDLL(None)
    for option in (NO_NEW_PRIVILEGES, NO_WRITABLE_CODE):
        libc.prctl(option, 1, 0, 0, 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings_folder(tmp_path / "etc" / "chartloop")
    return tmp_path


@pytest.mark.slow("starts processes")
@pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django
@pytest.mark.extra("httpx", install='pip install -e ".[test-all]"')  # noqa: S610 - no Django
def test_what_it_starts_serves_and_starts_again(folder: Path) -> None:
    """Not under systemd: its ExecStart, with the folders and the environment that it would give."""
    import httpx  # noqa: PLC0415

    port = free_port()
    options = f"--port {port} --tools /etc/chartloop/tools.py --script /etc/chartloop/replies.yaml"
    command, env = command_line(folder, options)
    for number in range(2):
        with (folder / "log").open("w+") as log:
            process = subprocess.Popen(
                command, cwd=env["STATE_DIRECTORY"], env=env, stdout=log, stderr=log,
                preexec_fn=confine,  # noqa: PLW1509  no threads here
            )  # fmt: skip

            def ended(process: subprocess.Popen[bytes] = process) -> str | None:
                return None if process.poll() is None else (folder / "log").read_text()

            try:
                base = f"http://127.0.0.1:{port}"
                with httpx.Client(base_url=base, headers=DRIVES, timeout=30) as client:
                    until_healthy(client, ended)
                    assert httpx.get(f"{base}/runs").status_code == 401
                    if number == 0:
                        play(client)
                    assert client.get("/runs/lithium").json()["status"] == "completed"
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(30)
    state = Path(env["STATE_DIRECTORY"])
    assert {path.name for path in state.iterdir()} >= {"journal.db"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in state.iterdir() if path.is_file())
    assert list((folder / "etc" / "chartloop").rglob("*.db")) == []


@pytest.mark.system("openssl", install="apt-get install openssl")
def test_the_page_makes_a_token_for_each_scope(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "deploying.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("(umask")]
    subprocess.run(["sh", "-c", line.replace("/etc/chartloop", str(tmp_path))], check=True)
    assert [token.scope for token in read_tokens(tmp_path / "tokens")] == list(SCOPES)
    for name in ("tokens", "environment"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_the_page_names_the_files_of_the_unit() -> None:
    page = (ROOT / "docs" / "deploying.md").read_text()
    for path in re.findall(r"/(?:etc|opt|var)/[\w/]+", UNIT.read_text()):
        assert path in page, path
