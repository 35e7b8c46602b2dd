"""The container file of docs/deploy: it builds, and what it builds serves as a user without rights.

It is built by buildah without a daemon, and run in its own root folder. There the network is that of
this computer and processes are seen: what a container engine isolates is not tested here.

    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm /tmp/base
    CHARTLOOP_BASE=/tmp/base pytest -n 0 tests/deploy/test_container.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deploy.conftest import (
    DEPLOY,
    DRIVES,
    ROOT,
    free_port,
    play,
    settings_folder,
    until_healthy,
)

if TYPE_CHECKING:
    import httpx

BASE = os.environ.get("CHARTLOOP_BASE", "")
pytestmark = [
    pytest.mark.slow("builds an image: minutes"),
    pytest.mark.timeout(900),
    pytest.mark.system("buildah", install="apt-get install buildah"),
    pytest.mark.extra("httpx", install='pip install -e ".[test-all]"'),  # noqa: S610 - no Django
    pytest.mark.skipif(not BASE, reason="needs CHARTLOOP_BASE: a folder made by debootstrap"),
]
USER = "10001:10001"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
BUSY = "sealing memfd copy"
"""What buildah says, before it has begun, when the kernel is still at work on the copy of itself
that it makes at each start."""


class Images:
    """What buildah keeps, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._options = [
            "--root", str(folder / "root"), "--runroot", str(folder / "run"),
            "--storage-driver", "vfs",
        ]  # fmt: skip

    def command(self, *words: str) -> list[str]:
        return ["buildah", *self._options, *words]

    def do(self, *words: str) -> str:
        done = self._call(*words)
        assert done.returncode == 0, (words, done.stdout[-3000:], done.stderr[-3000:])
        return done.stdout.strip()

    def run(self, container: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in a container, as the user of its image."""
        return self._call("run", "--isolation", "chroot", container, "--", *words)

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        while True:
            done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
            if BUSY not in done.stderr:
                return done


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    """With the image `chartloop`, built from the base as the file says."""
    folder = tmp_path_factory.mktemp("images")
    made = Images(folder)
    base = made.do("from", "--isolation", "chroot", "scratch")
    made.do("copy", "--quiet", base, BASE, "/")
    made.do("commit", "--quiet", "--rm", base, "localhost/base")
    # the index of packages may have a certificate that only this computer trusts
    (folder / "pip.conf").write_text(f"[global]\ncert = {AUTHORITIES}.here\n")
    mounts = [f"{AUTHORITIES}:{AUTHORITIES}.here:ro", f"{folder}/pip.conf:/etc/pip.conf:ro"]
    made.do(
        "build", "--isolation", "chroot", "--format", "docker", "--tag", "localhost/chartloop",
        "--build-arg", "BASE=localhost/base", "--build-arg", "EXTRAS=server",
        *(f"--volume={mount}" for mount in mounts if Path(AUTHORITIES).exists()),
        "--file", str(DEPLOY / "Containerfile"), str(ROOT),
    )  # fmt: skip
    yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def container(images: Images) -> Iterator[str]:
    made = images.do("from", "--isolation", "chroot", "localhost/chartloop")
    yield made
    images.do("rm", made)


def config(images: Images) -> dict[str, Any]:
    told = json.loads(images.do("inspect", "--type", "image", "localhost/chartloop"))
    return told["Docker"]["config"]


def test_the_image_says_how_it_is_run(images: Images) -> None:
    found = config(images)
    assert found["User"] == USER
    assert found["Volumes"] == {"/var/lib/chartloop": {}}
    assert found["ExposedPorts"] == {"8000/tcp": {}}
    assert found["StopSignal"] == "SIGTERM"
    assert found["Healthcheck"]["Test"][0] == "CMD"


def test_nothing_is_left_that_builds_or_installs(images: Images, container: str) -> None:
    for program in ("pip", "pip3", "gcc", "cc", "make", "git"):
        assert images.run(container, "sh", "-c", f"command -v {program}").returncode != 0, program
    for module in ("pip", "setuptools", "hatchling", "pytest"):
        look = f"from importlib.util import find_spec; print(find_spec('{module}'))"
        assert images.run(container, "python", "-c", look).stdout.strip() == "None", module
    assert images.run(container, "sh", "-c", "ls -d /src /opt/pip").stdout == ""


def test_its_user_may_write_to_the_volume_alone(images: Images, container: str) -> None:
    assert images.run(container, "id", "-u").stdout.strip() == USER.partition(":")[0]
    assert images.run(container, "touch", "/var/lib/chartloop/x").returncode == 0
    for place in ("/opt/chartloop/x", "/etc/x", "/x", "/usr/bin/x"):
        assert images.run(container, "touch", place).returncode != 0, place


@contextmanager
def serving(
    images: Images, container: str, mounts: Sequence[str], port: int, log: Path
) -> Generator[httpx.Client]:
    """The image's own command with further options, and a client of it."""
    import httpx  # noqa: PLC0415

    volumes = [f"--volume={mount}" for mount in mounts]
    more = ["--port", str(port), "--tools", "/etc/chartloop/tools.py"]
    more += ["--script", "/etc/chartloop/replies.yaml"]
    command = images.command(
        "run", "--isolation", "chroot", *volumes, container, "--",
        *config(images)["Entrypoint"], *more,
    )  # fmt: skip

    def start() -> subprocess.Popen[bytes]:
        with log.open("w") as out:
            return subprocess.Popen(command, stdout=out, stderr=out)

    def ended() -> str | None:
        nonlocal process
        if process.poll() is None:
            return None
        if BUSY not in (text := log.read_text()):
            return text
        process = start()
        return None

    process = start()
    try:
        base = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=base, headers=DRIVES, timeout=30) as client:
            until_healthy(client, ended)
            yield client
    finally:
        # the server itself, which is seen from here: buildah then takes its mounts away
        server = re.search(r"server process \[(\d+)\]", log.read_text())
        if server is not None and process.poll() is None:
            os.kill(int(server[1]), signal.SIGKILL)
        process.wait(30)


def test_it_serves_is_healthy_and_keeps_its_journal(
    images: Images, container: str, tmp_path: Path
) -> None:
    # buildah mounts a volume of the image and one of ours at the same place in any order
    images.do("config", "--volume", "/var/lib/chartloop-", container)
    folder, state = settings_folder(tmp_path / "etc"), tmp_path / "state"
    state.mkdir()
    os.chown(state, 10001, 10001)
    mounts = [
        f"{folder}:/etc/chartloop:ro",
        f"{folder / 'tokens'}:/run/secrets/tokens:ro",
        f"{state}:/var/lib/chartloop",
    ]
    port = free_port()
    _, *healthy = config(images)["Healthcheck"]["Test"]
    healthy = [word.replace(":8000", f":{port}") for word in healthy]
    assert images.run(container, *healthy).returncode != 0
    with serving(images, container, mounts, port, tmp_path / "log") as client:
        assert images.run(container, *healthy).returncode == 0
        assert client.get("/runs", headers={"Authorization": ""}).status_code == 401
        play(client)
        assert (state / "journal.db").stat().st_uid == 10001
    with serving(images, container, mounts, port, tmp_path / "log") as client:  # killed, and again
        assert client.get("/runs/lithium").json()["status"] == "completed"
