"""Tenants: teams or customers that share a journal, and must not see each other's runs.

    acme:k3f9               the run `k3f9` of tenant `acme`
    acme:k3f9/ask/3         a child of it
    k3f9                    a run without a tenant

The tenant of a run is part of its id, so ids are unique within a tenant, and whatever holds the id
of a run (events, messages, requests, exports) says whose it is. An id that a caller of a server
gives is completed with the caller's own tenant, so it cannot name a run of another one.

Belongs here: ids, and what a caller may see of them. Never: tokens, tables.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from chartloop.core.errors import RunError, SetupError, UnknownRunError

CHILD_MARK = "/"
"""Separates the parent's id from the rest in the id of a child's run."""
MARK = ":"
"""Separates the tenant from the rest of a run's id. Before the rest, it stands for all runs of the
tenant: ``acme:``; alone it stands for all runs without a tenant."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}", re.ASCII)


def tenant_of(run_id: str) -> str:
    """The tenant of a run; empty for none."""
    before, mark, _ = run_id.partition(CHILD_MARK)[0].partition(MARK)
    return before if mark else ""


def check_tenant(name: str) -> str:
    """The name of a tenant. Raises `SetupError` if it cannot be one."""
    if not NAME.fullmatch(name):
        raise SetupError(
            f"{name!a} cannot be the name of a tenant",
            hint="it has letters, digits and . _ -, starts with a letter or digit, and has at most "
            "40 of them",
        )
    return name


def in_tenant(tenant: str | None, run_id: str) -> str:
    """The whole id of a run of a tenant. Raises `RunError` if the id names another one."""
    if not tenant or tenant_of(run_id) == check_tenant(tenant):
        return run_id
    if of := tenant_of(run_id):
        raise RunError(
            f"run `{run_id}` is of tenant `{of}`, not of `{tenant}`",
            hint="leave the tenant out of the id, or name no other one",
        )
    return f"{tenant}{MARK}{run_id}"


def refuse_stranger(run_id: str, parent: str) -> None:
    """Raise `RunError` if a run would follow, or be a child of, a run of another tenant."""
    own, other = tenant_of(run_id), tenant_of(parent)
    if parent and own != other:
        mine, its = (f"of tenant `{of}`" if of else "without a tenant" for of in (own, other))
        raise RunError(
            f"a run {mine} cannot follow run `{parent}`, which is {its}",
            hint="leave the tenant out: a run has that of the run that it follows",
        )


def covers(name: str, run_id: str) -> bool:
    """Whether a name stands for a run: its id, that of a run above it, or `MARK` after a tenant."""
    if name.endswith(MARK):
        return tenant_of(run_id) == name[: -len(MARK)]
    return name in ("", run_id) or run_id.startswith(name + CHILD_MARK)


class Reach(NamedTuple):
    """The runs that a caller may see: those of one tenant, those without one, or all."""

    tenant: str | None = None
    """Empty for the runs without a tenant; None for all."""

    @property
    def name(self) -> str:
        """The name that stands for all of its runs."""
        return "" if self.tenant is None else f"{self.tenant}{MARK}"

    def sees(self, run_id: str) -> bool:
        """Whether a run that exists is one of these."""
        return covers(self.name, run_id)

    def whole(self, run_id: str) -> str:
        """The whole id of a run that the caller names. `UnknownRunError` if it cannot be one.

        This depends on the id alone, not on the runs that exist.
        """
        if self.tenant and not run_id.startswith(self.name):
            return self.name + run_id
        if not self.sees(run_id):
            raise unknown_run_error()
        return run_id


ALL_TENANTS = Reach()


def unknown_run_error() -> UnknownRunError:
    """The error of a server for a run that its caller cannot see, whether it exists or not."""
    return UnknownRunError("there is no run of this id", hint="`GET /runs` lists them")
