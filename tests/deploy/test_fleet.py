"""The fleets of docs/deploy do their work: each service of compose.yaml, each pod of kubernetes.yaml.

No container engine is here: what the files start is started as processes, by their own commands,
with their environment, mounts and probes. Three things are changed, and nothing else: the database
is a PostgreSQL of the tests, ports are free ones of this computer, and workers have a script in the
place of a model.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pytest
import yaml

from chartloop.cli.commands.serve import ServeOptions
from tests.deploy.conftest import DEPLOY, DRIVES, ROOT, free_port, play, settings_folder
from tests.postgres import NEEDED, PROGRAMS, Cluster
from tests.server.conftest import wait_for

pytestmark = [
    *NEEDED,
    pytest.mark.extra("fastapi", install='pip install -e ".[server]"'),  # noqa: S610 - no Django
    pytest.mark.extra("httpx", install='pip install -e ".[test-all]"'),  # noqa: S610 - no Django
    pytest.mark.slow("starts fleets"),
]
Mounts = Mapping[str, Path]
BOARD = (DEPLOY / "grafana.json").read_text()


class Program(NamedTuple):
    """A program of a service or pod, as the file starts it."""

    words: Sequence[str]
    env: Mapping[str, str]
    mounts: Mounts
    port: int = 0
    """Where it listens in its container; 0 for one that does not."""

    def here(self, port: int) -> list[str]:
        """Its command on this computer."""
        assert self.words[0] == "chartloop"
        words = [re.sub(rf"\b{self.port}\Z", str(port), word) for word in self.words[1:]]
        for place, source in self.mounts.items():
            words = [re.sub(rf"\A{place}(?=/|\Z)", str(source), word) for word in words]
        if words[0] == "serve":  # at its default port
            assert self.port == ServeOptions.port
            words += ["--port", str(port)]
        if words[0] == "worker":
            words += ["--script", str(ROOT / "examples/approve/replies.yaml")]
        return [sys.executable, "-m", "chartloop", *words]


@contextmanager
def started(program: Program, folder: Path, port: int = 0) -> Generator[subprocess.Popen[bytes]]:
    """A program, which ends well when it is told to."""
    log = folder / f"{program.words[1]}-{port}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            program.here(port), cwd=folder, stdout=file, stderr=file,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **program.env},
        )  # fmt: skip
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM), log.read_text()
    finally:
        process.kill()
        process.wait()


def text_at(port: int, path: str, headers: Mapping[str, str]) -> str:
    """What a server of this computer answers; empty while it does not."""
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}{path}", headers=dict(headers)), timeout=30) as told:  # fmt: skip
            return told.read().decode()
    except OSError:
        return ""


def play_a_run(server: int, workers: Sequence[int]) -> None:
    """A run from its start to its result; then everything that the dashboard asks is exported."""
    import httpx  # noqa: PLC0415

    with httpx.Client(base_url=f"http://127.0.0.1:{server}", headers=DRIVES, timeout=30) as client:
        play(client)
    told = [text_at(port, "/metrics", {}) for port in workers]
    assert sum("chartloop_orders_finished_total 0" not in text for text in told)
    told.append(text_at(server, "/metrics", DRIVES))
    exported = set(re.findall(r"^(chartloop_\w+)", "\n".join(told), re.MULTILINE))
    asked = set(re.findall(r"chartloop_\w+", " ".join(re.findall(r'"expr": "(.*)"', BOARD))))
    assert len(asked) > 5
    assert asked <= exported


def test_the_services_of_the_compose_file_play_a_run(tmp_path: Path) -> None:
    settings, database = settings_folder(tmp_path / "etc"), Cluster()
    shell = {"CHARTLOOP_PASSWORD": "s3cret", "CHARTLOOP_SETTINGS": str(settings)}

    def value(variable: re.Match[str]) -> str:
        name, mark, otherwise = variable.groups()
        assert name in shell or mark == "-", f"{name}: {otherwise}"
        return shell.get(name, otherwise)

    text = re.sub(r"\$\{(\w+):([-?])([^}]*)\}", value, (DEPLOY / "compose.yaml").read_text())
    given = yaml.safe_load(text)
    services: dict[str, Any] = given["services"]
    wanted = services["db"]["environment"]
    image = (DEPLOY / "Containerfile").read_text()

    def healthy(name: str, port: int) -> bool:
        """Whether its check, or its image's, says so."""
        (own,) = re.findall(r"^HEALTHCHECK .*\\\n\s+CMD (.*)", image, re.MULTILINE)
        kind, program, *words = services[name].get("healthcheck", {}).get("test") or [
            "CMD", *json.loads(own),
        ]  # fmt: skip
        assert kind == "CMD"
        inside = {"db": 5432, "worker": 8081, "serve": 8000}[name]
        words = [word.replace(f":{inside}/", f":{port}/") for word in words]
        found = {"python": sys.executable, "pg_isready": str(PROGRAMS / "pg_isready")}[program]
        env = {"PGHOST": "127.0.0.1", "PGPORT": str(database.port)}
        done = subprocess.run([found, *words], env=env, capture_output=True, check=False)
        return done.returncode == 0

    def program(name: str, port: int = 0) -> Program:
        one = services[name]
        mounts = dict(part.split(":")[1::-1] for part in one["volumes"])
        mounts |= {f"/run/secrets/{key}": given["secrets"][key]["file"] for key in one.get("secrets", ())}  # fmt: skip
        env = {key: str(said) for key, said in one["environment"].items()}
        url = env["CHARTLOOP_JOURNAL"]
        assert url.count("@db/") == 1
        env["CHARTLOOP_JOURNAL"] = url.replace("@db/", f"@127.0.0.1:{database.port}/")
        words = [*one["entrypoint"], *one.get("command", ())]
        return Program(words, env, {at: Path(source) for at, source in mounts.items()}, port)

    try:
        database.execute(  # as the image makes them
            f"CREATE ROLE {wanted['POSTGRES_USER']} SUPERUSER LOGIN"
            f" PASSWORD '{wanted['POSTGRES_PASSWORD']}'"
        )
        database.execute(f"CREATE DATABASE {wanted['POSTGRES_DB']}")
        assert services["migrate"]["depends_on"] == {"db": {"condition": "service_healthy"}}
        assert healthy("db", database.port)
        for name in ("worker", "serve"):
            assert services[name]["depends_on"] == {
                "migrate": {"condition": "service_completed_successfully"}
            }
        with started(program("migrate"), tmp_path) as migrate:
            assert migrate.wait(60) == 0
        workers = [free_port() for _ in range(services["worker"]["deploy"]["replicas"])]
        server = free_port()
        with ExitStack() as stack:
            for port in workers:
                stack.enter_context(started(program("worker", 8081), tmp_path, port))
            stack.enter_context(started(program("serve", 8000), tmp_path, server))
            for name, port in [("serve", server), *(("worker", port) for port in workers)]:
                wait_for(lambda name=name, port=port: healthy(name, port), 90)
            play_a_run(server, workers)
        assert not healthy("serve", server)
    finally:
        database.end()


def probed(container: dict[str, Any], port: int) -> None:
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        asks = container[kind]["httpGet"]
        assert asks["port"] == container["ports"][0]["name"]
        headers = {one["name"]: one["value"] for one in asks.get("httpHeaders", ())}
        wait_for(lambda asks=asks, headers=headers: text_at(port, asks["path"], headers), 90)


def told(page: str, language: str) -> str:
    """The statements of a page that give rights."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    (found,) = (block for block in blocks if "GRANT USAGE ON SCHEMA" in block)
    return found


def test_the_pods_of_the_kubernetes_file_play_a_run_and_are_counted_for_keda(
    tmp_path: Path,
) -> None:
    import psycopg  # noqa: PLC0415  an extra

    settings, database = settings_folder(tmp_path / "etc"), Cluster()
    (tmp_path / "tokens").mkdir()
    (settings / "tokens").rename(tmp_path / "tokens" / "tokens")
    sources = {
        "chartloop-settings": settings, "chartloop-machines": settings / "machines",
        "chartloop-tokens": tmp_path / "tokens",
    }  # fmt: skip
    (secret, job, worker, _, serve, service) = yaml.safe_load_all(
        (DEPLOY / "kubernetes.yaml").read_text()
    )
    for name in sources:  # the head of the file says how they are made
        assert re.search(rf"^#  .* create \w.* {name} --from-file=", (DEPLOY / "kubernetes.yaml").read_text(), re.MULTILINE)  # fmt: skip
    urls = {
        key: re.sub(r"db\.example\.org/runs\?.*", f"127.0.0.1:{database.port}/runs", url)
        for key, url in secret["stringData"].items()
    }

    def program(one: dict[str, Any]) -> tuple[Program, dict[str, Any]]:
        pod = one["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        env = {e["name"]: urls[e["valueFrom"]["secretKeyRef"]["key"]] for e in container["env"]}
        volumes = {
            v["name"]: v.get("configMap", {}).get("name") or v.get("secret", {}).get("secretName")
            for v in pod.get("volumes", ())
        }
        mounts = {
            mount["mountPath"]: sources[volumes[mount["name"]]]
            for mount in container.get("volumeMounts", ()) if volumes[mount["name"]]
        }  # fmt: skip
        (port,) = container.get("ports") or [{"containerPort": 0}]
        words = [*container["command"], *container.get("args", ())]
        return Program(words, env, mounts, port["containerPort"]), container

    try:
        for role in ("worker", "submitter", "reader"):
            database.execute(f"CREATE ROLE {role} LOGIN")
        database.execute("CREATE ROLE owner LOGIN; CREATE ROLE nobody")
        database.execute("CREATE DATABASE runs OWNER owner")
        migrate, _ = program(job)
        with started(migrate, tmp_path) as process:
            assert process.wait(60) == 0
        with psycopg.connect(
            database.url().removesuffix("postgres") + "runs", autocommit=True
        ) as db:
            db.execute(told("postgres.md", "sql").encode())
            db.execute(told("operating.md", "text").encode())
        ports = free_port(), free_port()
        with ExitStack() as stack:
            for one, port in zip((worker, serve), ports, strict=True):
                made, container = program(one)
                stack.enter_context(started(made, tmp_path, port))
                probed(container, port)
            assert worker["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] == "8081"  # fmt: skip
            assert service["spec"]["ports"][0]["targetPort"] == "http"
            play_a_run(ports[1], ports[:1])
            *_, scaled = yaml.safe_load_all((DEPLOY / "keda.yaml").read_text())
            (trigger,) = scaled["spec"]["triggers"]
            with psycopg.connect(urls["scaler"]) as db:
                assert db.execute(trigger["metadata"]["query"].encode()).fetchall() == [(0,)]
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    db.execute("SELECT * FROM chartloop.run")
    finally:
        database.end()
