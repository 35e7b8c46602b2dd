"""The configuration of a server: machines, tools, journal, tokens and limits.

Belongs here: values, and their validation at the start. Never: anything of a request.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

from chartloop.adapters.journal.opening import JournalOrPath
from chartloop.api import Own, PortOptions
from chartloop.core.errors import SetupError, nearest
from chartloop.core.person_names import person_name
from chartloop.run.tenants import ALL_TENANTS, NAME, Reach

Scope: TypeAlias = Literal["read", "answer", "drive", "edit"]
"""`read` allows reading, `answer` answering questions, `drive` starting runs and sending them other
messages, `edit` changing a run's history or limits: `set`, `back`, `fork`. Each includes those
before it."""

SCOPES: tuple[Scope, ...] = get_args(Scope)
SHORTEST_TOKEN = 16
EVERY = "*"
"""In place of a tenant's name: the runs of all, and those without one."""
LINE = "SCOPE TOKEN [NAME] [tenant=TENANT]"


class Token(NamedTuple):
    """A secret that a caller sends as ``Authorization: Bearer ...``, and what it allows."""

    secret: str
    scope: Scope
    name: str = ""
    """The owner's name: who submits the runs and gives the answers that come with this token."""
    tenant: str = ""
    """Whose runs it sees; empty for those without a tenant, `EVERY` for all."""

    def __repr__(self) -> str:
        return f"Token({self.name or 'unnamed'}, {self.scope}, {self.tenant or 'no tenant'})"

    @property
    def reach(self) -> Reach:
        """The runs that it sees."""
        return ALL_TENANTS if self.tenant == EVERY else Reach(self.tenant)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a server. Sizes in bytes, times in seconds."""

    body: int = 1_000_000
    depth: int = 60
    """The deepest nesting of JSON."""
    rate: float = 200.0
    """Requests per second that one caller may send, on average."""
    burst: int = 1_000
    """Requests that one caller may send at once."""
    guess_rate: float = 0.1
    """Wrong tokens per second that one address may send, on average."""
    guesses: int = 10
    """Wrong tokens that one address may send at once."""
    connections: int = 1_000
    silence: float = 10.0
    """How long a caller may take to send the head of a request, and any body; and how long it may
    take nothing of a response that waits for it."""
    watchers: int = 200
    """Streams of events that may be open at once."""
    queue: int = 64_000_000
    """Bytes that all streams together may hold: one half for the newest events, the other for what
    readers are being sent. Beyond it, the streams end whose readers have waited longest."""
    at_once: int = 64
    """Runs that one worker drives at the same time."""
    wait: float = 30.0
    """The longest that a request may wait for an outcome."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The configuration of a server.

    Raises `SetupError` for an address other than loopback without a token, and for folders that do
    not exist.
    """

    machines: tuple[Path, ...]
    """Folders whose machine files are served, subfolders excluded."""
    journal: JournalOrPath
    tools: Own = ()
    """Tools, actions and other names that the machines may use: see `chartloop.load`."""
    components: PortOptions = field(default_factory=PortOptions)
    """The model, script, settings and other components of every run that this server drives."""
    workers: int = 1
    """Threads that drive runs. With 0 other processes on the journal drive what is started here."""
    grace: float = 5.0
    """Seconds that actions in progress are given to finish when the workers stop."""
    serves: bool = True
    """False for a worker, which answers no requests: it needs no folder of machines, and drives
    only the runs of those in the folders that it is given."""
    trust: bool = False
    """Whether machine files may name hosts, keys and paths outside their folder."""
    tokens: tuple[Token, ...] = ()
    """Without tokens, every process of this computer may do everything."""
    host: str = "127.0.0.1"
    port: int = 8000
    names: tuple[str, ...] = ()
    """Further host names by which the server may be addressed."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose ``X-Forwarded-For`` names the caller. From anyone else
    the header means nothing, or each request could name another address and be counted anew."""
    url: str = ""
    """The address by which people reach it, for links: ``https://agents.example.com``. Empty for
    that of the request that makes a link."""
    ask_to: tuple[str, ...] = ()
    """People to whom each question of a run that this process drives is told, with a link for each:
    the `notifier` of the components gets it."""
    limits: Limits = field(default_factory=Limits)
    command: tuple[str, ...] = ()
    """What starts this program once more, for a run whose process has died: it is driven in a
    process of its own. Empty for a program that has no such command: it drives the run itself,
    while it drives nothing else."""
    face: str = "chartloop serve"
    """The name of the driver that a lease shows to others."""

    def __post_init__(self) -> None:
        named = [t._replace(name=person_name(t.name, "the token of")) for t in self.tokens]
        people = [person_name(to, "`--ask-to`") for to in self.ask_to]
        if "" in people:
            raise SetupError("`--ask-to` names nobody", hint="give a name: `eve@example.org`")
        object.__setattr__(self, "tokens", (*named,))
        object.__setattr__(self, "ask_to", (*people,))
        if self.workers < 0:
            raise SetupError(f"{self.workers} workers cannot drive", hint="give 0 or more")
        if self.ask_to and not (self.url and self.components.get("notifier")):
            raise SetupError(
                "links to questions need a webhook and the address of the server",
                hint="give `--notify URL` and `--url https://HOST` with `--ask-to`",
            )
        if self.url and not re.match(r"https?://[^\s/?#@]+/?\Z", self.url):
            hint = "write `https://HOST` or `https://HOST:PORT`"
            raise SetupError(f"`{self.url}` is not the address of a server", hint=hint)
        if not self.machines and self.serves:
            raise SetupError("no folder of machines is named", hint="give one: `--machines FOLDER`")
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError as error:
                hint = "name an address or a network: `--proxy 127.0.0.1`, `--proxy 10.0.0.0/8`"
                raise SetupError(f"`{proxy}` is not the address of a proxy", hint=hint) from error
        for folder in self.machines:
            if not folder.is_dir():
                raise SetupError(f"`{folder}` is not a folder", hint="name a folder of machines")
        if not self.tokens and not is_loopback(self.host):
            raise SetupError(
                f"the address `{self.host}` can be reached from other computers",
                hint="give tokens, `--token-file FILE`, or listen on 127.0.0.1",
            )

    @property
    def hosts(self) -> frozenset[str]:
        """The names that the header `Host` may hold, without a port."""
        own = () if self.host in ("0.0.0.0", "::", "") else (self.host,)  # noqa: S104  compared
        return frozenset(n.lower() for n in ("localhost", "127.0.0.1", "[::1]", *own, *self.names))


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this computer."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Read the tokens of a file: a line for each, as `LINE`; ``#`` begins a comment.

    `SetupError` gives the number of a line that cannot be read, never its content.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"cannot read the tokens of `{path}`: {error}") from None
    tokens = tuple(_tokens(path, lines))
    if not tokens:
        raise SetupError(f"`{path}` holds no token", hint=f"a line is `{LINE}`")
    return tokens


def _tokens(path: Path, lines: Iterable[str]) -> Iterable[Token]:
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        where, tenant = f"`{path}`, line {number}", ""
        if len(words) > 2 and words[-1].startswith("tenant="):
            tenant = words.pop().removeprefix("tenant=")
            if tenant != EVERY and not NAME.fullmatch(tenant):
                hint = f"write `{LINE}`, with a plain name or `tenant=*`"
                raise SetupError(f"{where}: this is not the name of a tenant", hint=hint)
        if len(words) not in (2, 3):
            raise SetupError(f"{where}: this is not a token", hint=f"write `{LINE}`")
        scope, secret, name = *words[:2], words[2] if len(words) == 3 else ""
        if scope not in SCOPES:
            raise SetupError(f"{where}: unknown scope", hint=nearest(scope, SCOPES))
        if len(secret) < SHORTEST_TOKEN:
            hint = f"use {SHORTEST_TOKEN} characters or more: `openssl rand -hex 24` makes one"
            raise SetupError(f"{where}: the token is too short", hint=hint)
        yield Token(secret, scope, name, tenant)
