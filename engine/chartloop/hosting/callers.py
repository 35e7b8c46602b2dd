"""Who sends an order: a token with or without a name, a link, or anybody.

Belongs here: what an order is signed with. Never: what it may do to a run (`run.four_eyes`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chartloop.core.visible import is_blank
from chartloop.hosting.problems import Refusal, Wrong
from chartloop.hosting.settings import Scope
from chartloop.run.answer_links import AnswerLink
from chartloop.run.tenants import ALL_TENANTS, Reach, in_tenant


class Caller(NamedTuple):
    """The sender of an order and its idempotency key."""

    key: str = ""
    """The header `Idempotency-Key`; empty for none."""
    name: str = ""
    """The name of the token: the same key of another token is a different key."""
    person: str = ""
    """The name that the token's owner gave it; empty for a token without one."""
    scope: Scope = "edit"
    """What the token allows."""
    reach: Reach = ALL_TENANTS
    """The runs that it may see: ids in the body of an order are its own."""
    link: AnswerLink | None = None
    """The link that its answer comes by; None for any other order."""

    def own_id(self, run_id: str, tenant: str | None) -> str:
        """The whole id of a run that it starts. Raises `Refusal` for a tenant that is not its."""
        if tenant is not None and self.reach.tenant not in (None, tenant):
            raise Refusal(
                403, f"your token is not of tenant `{tenant}`",
                hint="leave `tenant` out: a run gets that of the token",
                wrong=[Wrong("/tenant", "another tenant than the token's")],
            )  # fmt: skip
        return self.reach.whole(in_tenant(tenant, run_id))

    def sign(self, given: Any, field: str) -> Any:
        """Who submits or answers: the token's name. Raises `Refusal` for another one."""
        if not self.person or given == self.person:
            return given
        if given is not None and not (isinstance(given, str) and is_blank(given)):
            raise Refusal(
                403, f"`{given}` is not the name of your token",
                hint=f"leave `{field}` out: it becomes `{self.person}`",
                wrong=[Wrong(f"/{field.replace('.', '/')}", "another name than the token's")],
            )  # fmt: skip
        return self.person
