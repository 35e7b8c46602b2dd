"""The one Markdown comment on all machines that a change touches.

For each: the verdict, the differences as a coloured list, the focus picture as Mermaid, the
findings before and after, and links to the full pictures. The comment stays within GitHub's limit:
if it is too long, the largest parts are left out first, with a note.

Texts from the files under review appear only in code blocks, code spans or Mermaid labels: none is
interpreted as Markdown or HTML.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from chartloop.analysis.versions.diff.align import Pairs
from chartloop.analysis.versions.diff.change import Change
from chartloop.analysis.versions.diff.consent import Consent
from chartloop.analysis.versions.diff.diff import say, where
from chartloop.analysis.versions.diff.diff_picture import ReviewPicture
from chartloop.analysis.versions.diff.merge import Merged, focus, merge
from chartloop.core.errors import Finding
from chartloop.core.units import say_count
from chartloop.pictures.flowchart import Flowchart, one_line, printable
from chartloop.studies.review.changed_machines import Reviewed, Scope

MARKER = "<!-- chartloop review -->"
"""The first line, by which a workflow finds its comment again."""
MOST = 65_536
"""The most characters of a comment on GitHub."""
_ROOM = 2_000
"""The characters that are reserved for additions by a workflow."""
_WIDE = 110
"""The most characters of a line in a code block."""


@dataclass(frozen=True)
class _Section:
    """One machine's part of the comment, with the parts to leave out."""

    reviewed: Reviewed
    links: Mapping[str, str]
    mermaid: str
    alone: bool = False
    """Whether it is the only machine, so that its verdict is in the heading already."""
    listed: int | None = None
    """The number of differences to list; None for all."""
    brief: bool = False

    def text(self) -> str:
        return "\n\n".join(filter(None, self._parts()))

    def _parts(self) -> Iterator[str]:
        yield f"### {code(self.reviewed.path)}"
        yield "" if self.alone else f"**{_escape_markdown(_verdict(self.reviewed))}**"
        if self.brief:
            return
        yield _problem(self.reviewed)
        yield _consent(self.reviewed)
        yield _differences(self.reviewed, self.listed)
        if self.mermaid:
            yield f"```mermaid\n{self.mermaid.rstrip()}\n```"
        elif _merged_chart(self.reviewed) is not None:
            yield "_The picture does not fit into this comment._"
        yield _checks(self.reviewed)
        yield _flows(self.reviewed)
        links = " · ".join(f"[{name}]({url})" for name, url in self.links.items())
        yield f"Pictures: {links}" if links else ""

    def smaller(self) -> _Section | None:
        """Return the section without its largest part; None if nothing can be left out."""
        if self.mermaid:
            return replace(self, mermaid="")
        if self.listed is None or self.listed > 1:
            diff = self.reviewed.diff
            count = len(diff.changes) if diff is not None else 0
            if count > 1:
                return replace(self, listed=(self.listed or count) // 2)
        return None if self.brief else replace(self, brief=True)


def comment(
    scope: Scope, reviewed: Sequence[Reviewed], *, links: Callable[[Reviewed], Mapping[str, str]]
) -> str:
    """Return the comment, ending with a newline. `links` gives those of a machine's pictures."""
    changed = [one for one in reviewed if not one.same]
    base = code(f"{scope.base.name} ({scope.base.short})")
    compared = f"Machines from {base} to {code(scope.now)}, compared by meaning."
    head = f"{MARKER}\n## {_escape_markdown(verdict(reviewed))}\n\n{compared}"
    same = ", ".join(code(one.path) for one in reviewed if one.same)
    tail = f"_Written differently, the same machine: {same}._" if same else ""
    alone = len(changed) == 1 and not changed[0].invalid
    sections = [_Section(one, links(one), _mermaid(one), alone) for one in changed]
    return _fit_sections(head, sections, tail)


def review_data(scope: Scope, reviewed: Sequence[Reviewed]) -> dict[str, Any]:
    """Return the review as plain data, as `chartloop review --format json` prints it."""
    return {
        "format": 1,
        "base": scope.base.commit,
        "head": scope.head.commit if scope.head is not None else None,
        "verdict": verdict(reviewed),
        "machines": [one.to_dict() for one in reviewed],
    }


def verdict(reviewed: Sequence[Reviewed]) -> str:
    """Return the verdict in one line."""
    changed = [one for one in reviewed if not one.same]
    if not changed:
        return "No machine changed"
    invalid = [one for one in changed if one.invalid]
    if len(changed) == 1 and not invalid:
        return _verdict(changed[0])
    wrong = f"; {len(invalid)} cannot be loaded" if invalid else ""
    return f"{say_count(len(changed), 'machine')} changed{wrong}"


def _fit_sections(head: str, sections: list[_Section], tail: str) -> str:
    """Join the parts, shrinking the largest sections until the text is short enough."""
    texts = [section.text() for section in sections]
    room = MOST - _ROOM - len(head) - len(tail)
    dropped = 0
    while sum(map(len, texts)) + 2 * len(texts) > room:
        at = max(range(len(texts)), key=lambda n: len(texts[n]))
        smaller = sections[at].smaller()
        if smaller is None:
            del sections[at], texts[at]
            dropped += 1
            continue
        sections[at], texts[at] = smaller, smaller.text()
    more = f"_{say_count(dropped, 'more machine')} did not fit._" if dropped else ""
    return "\n\n".join(filter(None, (head, *texts, more, tail))) + "\n"


# parts --------------------------------------------------------------------------------------


def _verdict(one: Reviewed) -> str:
    if one.problem:
        return one.problem
    if one.invalid:
        return "cannot be loaded"
    if one.after is None:
        name = one.before.machine.name if one.before and one.before.machine else "a machine"
        return f"{name} was removed"
    if one.diff is not None:
        return one.diff.verdict
    machine = one.after.machine
    assert machine is not None
    states, rules = len(machine.spec.states), len(machine.spec.rules)
    new = "did not load before" if one.before is not None else "a new machine"
    more = "; consent loosened" if one.unasked else ""
    return f"{machine.name}: {new}, {say_count(states, 'state')}, {say_count(rules, 'rule')}{more}"


def _problem(one: Reviewed) -> str:
    """The errors that keep the file from loading."""
    if one.after is None or one.after.machine is not None:
        return ""
    return _block((f.render() for f in one.after.findings if f.is_error), "")


_SIGNS = {"+": "+", "−": "-", "~": "!"}
"""The signs by which GitHub colours a line: green, red, orange."""


def _consent(one: Reviewed) -> str:
    """The effect on the calls that wait for a person."""
    if not one.consent:
        return ""
    counts = Counter(said.kind for said in one.consent if said.kind != "changed")
    head = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "the same calls ask"
    files = ("", "") if one.diff is None else one.diff.files
    lines = ["\n".join(_wrapped(said, files)) for said in one.consent]
    return _listed(f"**Consent: {head}.**", lines)


def _listed(head: str, lines: Sequence[str]) -> str:
    """A heading and the first of some lines of a diff, with the number of the others."""
    more = [f"_and {len(lines) - _FINDINGS} more_"] if len(lines) > _FINDINGS else []
    return "\n\n".join([head, _block(lines[:_FINDINGS], "diff"), *more])


def _wrapped(change: Change | Consent, files: tuple[str, str]) -> list[str]:
    """A change with its place, in lines of a diff."""
    sign, place = _SIGNS[change.sign], where(change, files)
    rows = textwrap.wrap(say(change), _WIDE, break_on_hyphens=False) or [""]
    if place and len(rows[-1]) + len(place) < _WIDE:
        rows[-1] += f"  ({place})"
    elif place:
        rows.append(f"({place})")
    return [f"{sign} {rows[0]}", *(f"{sign}     {row}" for row in rows[1:])]


def _differences(one: Reviewed, most: int | None) -> str:
    if one.diff is None or one.diff.same:
        return ""
    lines: list[str] = []
    left = len(one.diff.changes) if most is None else most
    for group, changes in one.diff.groups.items():
        if not left:
            break
        lines.append(f"@@ {group} @@")
        for change in changes[:left]:
            lines += _wrapped(change, one.diff.files)
        left = max(0, left - len(changes))
    if most is not None and most < len(one.diff.changes):
        lines.append(f"# and {len(one.diff.changes) - most} more")
    return _block(lines, "diff")


def _checks(one: Reviewed) -> str:
    """The findings that have changed."""
    if one.invalid:
        return ""
    appeared, mended = list(one.new_findings), list(one.fixed_findings)
    after = len(one.after.findings) if one.after is not None else 0
    if not appeared and not mended:
        stay = f", as before: {say_count(after, 'finding')}" if after and one.before else ""
        return "" if one.after is None else f"Checks: nothing new{stay}."
    lines = [*(_finding("-", f) for f in appeared), *(_finding("+", f) for f in mended)]
    return _listed(f"Checks: {len(appeared)} new, {len(mended)} fixed.", lines)


_FINDINGS = 20


def _flows(one: Reviewed) -> str:
    """The flows of labelled text that the change lets happen, each with its way."""
    if one.invalid or not (one.new_flows or one.gone_flows):
        return ""
    lines = [f"- new: {label} text to {to}: {way}" for (label, to), way in one.new_flows.items()]
    gone = ", ".join(f"{label} text to {to}" for label, to in one.gone_flows)
    lines += [f"+ gone: {gone}"] if gone else []
    head = f"Data that may leave: {len(one.new_flows)} new, {len(one.gone_flows)} gone."
    return _listed(head, [*map(one_line, lines)])


def _finding(sign: str, finding: Finding) -> str:
    place = f"  ({finding.place.file}:{finding.place.line})" if finding.place.line else ""
    word = "new   " if sign == "-" else "mended"
    message = f"{sign} {word} {finding.severity}[{finding.code}]: {finding.message}{place}"
    return one_line(message)[:400]


# pictures -----------------------------------------------------------------------------------


def pictures(one: Reviewed) -> Mapping[str, ReviewPicture]:
    """Return the pictures of a machine by kind: the changes and the whole, or only the whole."""
    merged = _merged_chart(one)
    if merged is None:
        return {}
    changes = {} if one.diff is None else {"changes": ReviewPicture(focus(merged))}
    return {**changes, "full": ReviewPicture(merged)}


def _merged_chart(one: Reviewed) -> Merged | None:
    if one.invalid or one.after is None or one.after.machine is None:
        return None
    if one.diff is not None:
        return one.diff.merged_chart if one.diff.changes_picture else None
    chart = one.after.machine.draw().chart
    return merge(Flowchart(), chart, Pairs({}, {}, {}), (), title=chart.title)


def _mermaid(one: Reviewed) -> str:
    picture = next(iter(pictures(one).values()), None)
    return picture.mermaid() if picture is not None else ""


def file_names(reviewed: Iterable[Reviewed]) -> Mapping[tuple[str, str], str]:
    """Return unique names for the files of the pictures, by path and kind."""
    out: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for one in reviewed:
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", one.path.rpartition(".")[0]).strip("-.")[:120]
        stem = stem or "machine"
        number, name = 2, stem
        while name in taken:
            name, number = f"{stem}-{number}", number + 1
        taken.add(name)
        for kind in pictures(one):
            out[one.path, kind] = f"{name}.{kind}.svg"
    return out


def link(template: str, name: str) -> str:
    """Return a URL with the name of a picture in place of ``{picture}``."""
    return template.replace("{picture}", quote(name)).replace(")", "%29").replace(" ", "%20")


# Markdown -----------------------------------------------------------------------------------


def code(text: str) -> str:
    """Return any text as a Markdown code span."""
    line = one_line(text) or " "
    fence = _fence(line, 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _block(lines: Iterable[str], language: str) -> str:
    """Any lines as a Markdown code block."""
    text = printable("\n".join(lines))
    fence = _fence(text, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def _fence(text: str, least: int) -> str:
    """More backticks than the text has anywhere in a row."""
    return max(re.findall("`+", text), default="").ljust(least - 1, "`") + "`"


def _escape_markdown(text: str) -> str:
    """Escape a text for Markdown and HTML."""
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}
    return re.sub(
        r"[\\`*_{}\[\]<>#!|~@&$]", lambda m: entities.get(m[0], f"\\{m[0]}"), one_line(text)
    )
