"""Patterns of credentials: one table, for redaction and for detection.

Belongs here: the formats of keys, tokens and passwords. Never: how a match is handled.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Pattern(NamedTuple):
    """A kind of credential with a recognisable format."""

    name: str
    regex: re.Pattern[str]
    before: str = ""
    """The start of the match, kept so that a reader sees where the secret was.

    A literal text, or a reference to a group: ``\\1``.
    """
    after: str = ""
    """The literal end of the match that is kept."""

    def span(self, match: re.Match[str]) -> tuple[int, int]:
        """The start and end of the secret itself in the text."""
        start = match.end(1) if match.re.groups else match.start() + len(self.before)
        return start, match.end() - len(self.after)


def _word(opening: str, rest: str) -> re.Pattern[str]:
    """A pattern of `opening` at the start of a word, then `rest`.

    The look-behind comes after the opening because `re` searches fast for a literal prefix. The
    letter of a JSON escape before it is not part of the word.
    """
    edge = rf"(?:(?<![A-Za-z0-9_-]{opening})|(?<=\\[nrtbf]{opening}))"
    return re.compile(opening + edge + rest)


_KEY_BLOCK = "[A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

PATTERNS = (
    Pattern(
        "private-key",
        re.compile(
            rf"-----BEGIN {_KEY_BLOCK}"
            r"(?:[A-Za-z0-9+/=:,.\s]|-(?!----)|\\+[nrt])*"
            rf"(?:-----END {_KEY_BLOCK})?"
        ),
    ),
    Pattern("anthropic-key", _word("sk-ant-", "[A-Za-z0-9_-]{16,}")),
    Pattern(
        "openai-key",
        _word("sk-", "(?:(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{20,})"),
    ),
    Pattern("aws-key", _word("A[KS]IA", "[0-9A-Z]{16}(?![0-9A-Za-z])")),
    Pattern("github-token", _word("gh[pousr]_", "[A-Za-z0-9]{20,}")),
    Pattern("github-token", _word("github_pat_", "[A-Za-z0-9_]{20,}")),
    Pattern("gitlab-token", _word("glpat-", "[A-Za-z0-9_-]{20,}")),
    Pattern("slack-token", _word("xox[a-z]-", "[A-Za-z0-9-]{10,}")),
    Pattern("google-key", _word("AIza", "[A-Za-z0-9_-]{30,}")),
    Pattern("jwt", _word("eyJ", r"[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")),
    Pattern(
        "bearer-token",
        re.compile(
            "earer +(?:(?=[A-Za-z._~+/=-]{0,64}[0-9])[A-Za-z0-9._~+/=-]{16,}|[A-Za-z]{20,})"
        ),
        "earer ",
    ),
    Pattern(
        "basic-password",
        re.compile(
            r"""(uthorization\\{0,4}["']? {0,4}[:=] {0,4}\\{0,4}["']?Basic )"""
            "[A-Za-z0-9+/]{8,}={0,2}"
        ),
        r"\1",
    ),
    Pattern(
        "url-key",
        re.compile(
            r"""([?&][A-Za-z_-]{0,32}(?:key|token|secret|password)=)[^&#\s"'\\«»]{8,}""",
            re.IGNORECASE,
        ),
        r"\1",
    ),
    Pattern(
        "url-password",
        re.compile(r"""://[^/?#\s:@"'\\«]{0,64}:[^/?#\s"'\\]{1,256}@"""),
        "://",
        "@",
    ),
)
"""The patterns of all credentials. Each takes time linear in the length of any text.

No match contains a quote or ends in a backslash, so that JSON text stays JSON after a
replacement. The order matters: another credential may start where a key block ends.
"""
