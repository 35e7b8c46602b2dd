"""Apache in front of the server, as docs/deploy/apache.conf says: TLS, sign-in, and streams.

Apache is Debian's, with Debian's own configuration around the file; the provider of sign-in is a real
one on loopback, and a browser goes through it. Names and ports are those of the test.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.deploy.conftest import DEPLOY, ROOT, free_port
from tests.server.conftest import REVIEW, Served, serving, wait_for

if TYPE_CHECKING:
    import httpx
    from playwright.sync_api import Browser, BrowserContext

INSTALL = 'pip install -e ".[test-all]"'
APACHE = "apt-get install apache2 libapache2-mod-auth-openidc"
pytestmark = [
    pytest.mark.slow("starts a server, a proxy, a provider and a browser"),
    pytest.mark.extra("fastapi", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.extra("oidc_provider_mock", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.extra("playwright", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.system("chromium", install="apt-get install chromium"),
    pytest.mark.system("apache2", install=APACHE),
    pytest.mark.system("a2enmod", install=APACHE),
    pytest.mark.skipif(
        not Path("/usr/lib/apache2/modules/mod_auth_openidc.so").exists(),
        reason=f"needs mod_auth_openidc: {APACHE}",
    ),
    pytest.mark.xdist_group("browser"),
]
NAME = "agents.example.com"
READ, EDIT = "read-0123456789abcdef", "edit-0123456789abcdef"
PEOPLE = (
    '{"sub": "eve", "email": "eve@example.com", "groups": ["staff", "agents"]}',
    '{"sub": "bob", "email": "bob@example.com", "groups": ["staff", "non-agents"]}',
)


class Site(NamedTuple):
    """What is reached from outside, and the server behind it."""

    port: int
    certificate: Path
    served: Served

    @property
    def address(self) -> str:
        return f"https://{NAME}:{self.port}"

    def client(self, cookies: Any = None) -> httpx.Client:
        """A program that trusts the certificate and finds the name on loopback."""
        import httpx  # noqa: PLC0415

        context = ssl.create_default_context(cafile=self.certificate)

        def named(request: httpx.Request) -> None:
            request.extensions["sni_hostname"] = NAME

        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.port}", verify=context, timeout=30,
            headers={"Host": f"{NAME}:{self.port}"}, event_hooks={"request": [named]},
            cookies=cookies,
        )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with ExitStack() as stack:
        served = stack.enter_context(serving(_settings(folder)))
        provider, port = free_port(), free_port()
        command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(provider)]
        for person in PEOPLE:
            command += ["--user-claims", person]
        stack.enter_context(_process(command, folder / "provider.log", dict(os.environ)))
        certificate = _certificate(folder)
        confdir, env = _apache(folder, port, provider, served.client.base_url.port or 0)
        command = ["apache2", "-D", "FOREGROUND", "-d", str(confdir), "-f", "apache2.conf"]
        stack.enter_context(_process(command, folder / "apache.log", env))
        made = Site(port, certificate, served)
        wait_for(lambda: _answers(f"http://127.0.0.1:{provider}/.well-known/openid-configuration"))
        wait_for(lambda: _answers(f"https://127.0.0.1:{port}/"))
        yield made


def _settings(folder: Path) -> Any:
    from chartloop.hosting.server import Settings, Token  # noqa: PLC0415

    machines = folder / "machines"
    machines.mkdir()
    (machines / "review.yaml").write_text(REVIEW)
    components: Any = {"script": ["First.", "Second.", "Third.", "Fourth."]}
    return Settings(
        machines=(machines,), journal=folder / "journal.db", components=components, names=(NAME,),
        tokens=(Token(READ, "read"), Token(EDIT, "edit")),
    )  # fmt: skip


class _process:  # noqa: N801  a context
    """A process that ends with the test."""

    def __init__(self, command: list[str], log: Path, env: dict[str, str]) -> None:
        self._command, self._log, self._env = command, log, env

    def __enter__(self) -> None:
        with self._log.open("w") as out:
            self._started = subprocess.Popen(self._command, stdout=out, stderr=out, env=self._env)

    def __exit__(self, *_: object) -> None:
        self._started.send_signal(signal.SIGTERM)
        self._started.wait(30)


def _answers(url: str) -> bool:
    import httpx  # noqa: PLC0415

    try:
        return httpx.get(url, verify=False, timeout=5).status_code < 500  # noqa: S501  is it there?
    except httpx.TransportError:
        return False


def _certificate(folder: Path) -> Path:
    path = folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-keyout", str(folder / "key.pem"), "-out", str(path), "-subj", f"/CN={NAME}",
         "-addext", f"subjectAltName=DNS:{NAME}"],
        check=True, capture_output=True,
    )  # fmt: skip
    return path


def _apache(folder: Path, port: int, provider: int, behind: int) -> tuple[Path, dict[str, str]]:
    """Debian's configuration with the page's file as its only site; and Apache's environment."""
    (folder / "secrets.conf").write_text(
        f"Define CHARTLOOP_READ {READ}\nDefine CHARTLOOP_EDIT {EDIT}\n"
        "Define OIDC_SECRET of-this-client\nDefine OIDC_PASSPHRASE long-and-random\n"
    )
    text = (DEPLOY / "apache.conf").read_text()
    for name, here in {
        "/etc/chartloop/apache-secrets.conf": str(folder / "secrets.conf"),
        f"/etc/ssl/certs/{NAME}.pem": str(folder / "cert.pem"),
        f"/etc/ssl/private/{NAME}.key": str(folder / "key.pem"),
        "<VirtualHost *:443>": f"<VirtualHost 127.0.0.1:{port}>",
        "https://login.example.com/": f"http://127.0.0.1:{provider}/",
        f"https://{NAME}/": f"https://{NAME}:{port}/",
        "http://127.0.0.1:8000/": f"http://127.0.0.1:{behind}/",
    }.items():
        assert name in text, name
        text = text.replace(name, here)
    confdir = folder / "apache2"
    shutil.copytree("/etc/apache2", confdir, symlinks=True)
    for path in (confdir / "sites-enabled").iterdir():
        path.unlink()
    (confdir / "sites-enabled" / "agents.conf").write_text(text)
    (confdir / "ports.conf").write_text(f"Listen 127.0.0.1:{port}\nServerName {NAME}\n")
    user = "www-data" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    names = ("APACHE_RUN_DIR", "APACHE_LOCK_DIR", "APACHE_LOG_DIR")
    env = {
        **os.environ, **dict.fromkeys(names, str(folder)), "APACHE_CONFDIR": str(confdir),
        "APACHE_RUN_USER": user, "APACHE_RUN_GROUP": user, "APACHE_PID_FILE": str(folder / "pid"),
    }  # fmt: skip
    line = re.search(r"a2enmod (.*)", text)
    assert line is not None
    done = subprocess.run(
        ["a2enmod", *line[1].split()], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return confdir, env


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser that finds the site's name on loopback, and nothing else."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))))
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", f"--host-resolver-rules=MAP {NAME} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )  # fmt: skip
        yield browser
        browser.close()


def sign_in(browser: Browser, site: Site, person: str, link: str = "/runs") -> BrowserContext:
    """A person opens a link, is sent to the provider, says who they are and comes back."""
    context = browser.new_context(ignore_https_errors=True)
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.goto(site.address + link)
    assert "/oauth2/authorize" in page.url
    page.get_by_role("button", name=person, exact=True).click()
    page.wait_for_url(site.address + link)
    return context


def signed_in(context: BrowserContext, site: Site) -> httpx.Client:
    """A program with the cookies of a browser."""
    import httpx  # noqa: PLC0415

    cookies = httpx.Cookies()
    for cookie in context.cookies():
        cookies.set(str(cookie.get("name")), str(cookie.get("value")))
    return site.client(cookies)


def test_whoever_has_not_signed_in_gets_nothing(site: Site) -> None:
    with site.client() as client:
        for name, value in (
            ("X", "y"),
            ("Authorization", f"Bearer {EDIT}"),
            ("OIDC_CLAIM_groups", "agents"),
        ):
            headers = {name: value}
            for path in ("/runs", "/events", "/readyz", "/page/app.js", "/openapi.json"):
                assert client.get(path, headers=headers).status_code == 401, path
            answer = client.post("/runs", json={"machine": "review"}, headers=headers)
            assert answer.status_code == 401
        page = client.get("/runs", headers={"Accept": "text/html"})
        assert (page.status_code, "/oauth2/authorize" in page.headers["location"]) == (302, True)
        assert client.get("/runs", headers={"Cookie": "mod_auth_openidc_session=x"}).is_error


def test_a_person_signs_in_starts_a_run_and_watches_it(chromium: Browser, site: Site) -> None:
    with sign_in(chromium, site, "eve") as context:
        page = context.pages[0]
        run = _start(context, site)
        page.goto(f"{site.address}/runs/{run}")
        page.get_by_role(
            "button", name="approve", exact=True
        ).click()  # what was asked came by itself
        page.get_by_text("Done at").first.wait_for()
        page.locator(".cl-picture svg").wait_for()


def _start(context: BrowserContext, site: Site) -> str:
    with signed_in(context, site) as client:
        told = client.post("/runs", json={"machine": "review", "task": "x"})
        assert told.status_code == 201, told.text
        return told.json()["run"]


def test_streams_pass_as_they_come(chromium: Browser, site: Site) -> None:
    with (
        sign_in(chromium, site, "eve") as context,
        signed_in(context, site) as client,
        client.stream("GET", "/events") as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next(lines) == ": open"  # nothing else has been sent, and this has come
        told = client.post("/runs", json={"machine": "review", "drive": "none"})
        assert told.status_code == 201, told.text
        assert told.json()["run"] in next(line for line in lines if line.startswith("data:"))


def test_what_a_person_may_do_is_said_by_their_group(chromium: Browser, site: Site) -> None:
    for person, status in (("bob", 403), ("eve", 201)):
        with sign_in(chromium, site, person) as context, signed_in(context, site) as client:
            assert client.get("/runs").status_code == 200
            body = {"machine": "review", "drive": "none"}
            # a token or a claim of their own does not help
            own = {"Authorization": f"Bearer {EDIT}", "OIDC-CLAIM-groups": "agents"}
            told = client.post("/runs", json=body, headers=own)
            assert told.status_code == status, told.text


def test_a_page_of_another_site_starts_nothing(chromium: Browser, site: Site) -> None:
    with sign_in(chromium, site, "eve") as context, signed_in(context, site) as client:
        body = {"machine": "review", "drive": "none"}
        for origin, status in (("https://evil.example", 403), (site.address, 201)):
            told = client.post("/runs", json=body, headers={"Origin": origin})
            assert told.status_code == status
        assert client.get("/runs", headers={"Host": "evil.example"}).is_error


def settings_of(text: str) -> list[str]:
    """Its lines without comments and empty ones."""
    return [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def blocks(language: str) -> list[str]:
    text = (ROOT / "docs" / "deploying.md").read_text()
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)


def test_the_page_prints_the_file_and_its_modules() -> None:
    text = (DEPLOY / "apache.conf").read_text()
    assert settings_of(text) in [settings_of(block) for block in blocks("text")]
    line = re.search(r"a2enmod .*", text)
    assert line is not None
    assert line[0] in "\n".join(blocks("sh")).splitlines()
    needed = set(re.findall(r"\$\{(\w+)\}", text))
    secrets = next(block for block in blocks("text") if "Define" in block)
    assert set(re.findall(r"Define (\w+)", secrets)) == needed


@pytest.mark.system("caddy", install="apt-get install caddy")
def test_caddy_adds_tls_and_lets_streams_pass(tmp_path: Path) -> None:
    """The page's file, with a certificate that Caddy makes itself, since no authority is reached."""
    import httpx  # noqa: PLC0415

    (block,) = [block for block in blocks("text") if "reverse_proxy" in block]
    port = free_port()
    with ExitStack() as stack:
        served = stack.enter_context(serving(_settings(tmp_path)))
        block = block.replace("127.0.0.1:8000", f"127.0.0.1:{served.client.base_url.port}")
        block = block.replace(NAME, f"https://{NAME}:{port}").replace("{", "{\n    tls internal", 1)
        options = "{\n    admin off\n    skip_install_trust\n    auto_https disable_redirects\n}\n"
        (tmp_path / "Caddyfile").write_text(options + block)
        env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
        command = [
            "caddy",
            "run",
            "--config",
            str(tmp_path / "Caddyfile"),
            "--adapter",
            "caddyfile",
        ]
        stack.enter_context(_process(command, tmp_path / "caddy.log", env))
        authority = tmp_path / "caddy" / "pki" / "authorities" / "local" / "root.crt"
        wait_for(authority.exists)
        site = Site(port, authority, served)
        with site.client() as client:

            def look() -> bool:
                try:
                    return client.get("/readyz").status_code == 200
                except httpx.TransportError:
                    return False

            wait_for(look)
            assert client.get("/runs").status_code == 401
            client.headers["Authorization"] = f"Bearer {EDIT}"
            with client.stream("GET", "/events") as stream:
                lines = stream.iter_lines()
                assert next(lines) == ": open"
                told = client.post("/runs", json={"machine": "review", "drive": "none"})
                assert told.status_code == 201, told.text
                assert told.json()["run"] in next(x for x in lines if x.startswith("data:"))
