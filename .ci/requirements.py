"""Print what a wheel requires here, one a line, some of it in any version.

    requirements.py WHEEL [NAME ...]

For an index that lags behind: a release that asks for yesterday's certifi is installed without
its dependencies, and these beside it, with `certifi` as NAME.
"""

import sys
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet


def requirements(wheel: str, any_version: list[str]) -> Iterator[Requirement]:
    """The requirements of a wheel without extras, on this machine."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(name).decode())
    for text in headers.get_all("Requires-Dist") or []:
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            wanted.marker = None
            if wanted.name in any_version:
                wanted.specifier = SpecifierSet()
            yield wanted


if __name__ == "__main__":
    for found in requirements(sys.argv[1], sys.argv[2:]):
        print(found)
