"""The time zone of this host, by the name that stores know it by."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from importlib import resources
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from gua.app.output import print_error
from gua.core.errors import UsageError
from gua.core.zones import zone, zone_name

LOCAL: Final = "local"
LOCALTIME: Final = Path("/etc/localtime")
# A POSIX rule without a summer time: JST-9, <+03>-3, UTC0. Its sign is that of the names in Etc/.
_FIXED: Final = re.compile(r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)([+-]?)0*([0-9]{1,2})(?::00)*", re.ASCII)
_MOST_LINKS: Final = 40
_OLDEST: Final = datetime(1890, 1, 1, tzinfo=UTC)
_WEEKS: Final = 52 * 147


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalZone:
    """A zone's IANA name; ``doubt`` says why it is UTC where the host has one that no name stands for."""

    name: str
    doubt: str | None = None


def local_zone(environ: Mapping[str, str], localtime: Path = LOCALTIME) -> LocalZone:
    """Return the zone of this process as the C library tells it: by ``TZ``, else by ``/etc/localtime``, else UTC."""
    given = environ.get("TZ")
    rule = (given or "").removeprefix(":")
    name: str | None = "UTC"
    if given is None or rule.startswith("/"):
        path = localtime if given is None else Path(rule)
        if given is not None or path.is_symlink() or path.exists():
            name = _of_links(path) or _of_content(path)
    elif rule:
        name = _of_rule(rule)
    if name is not None:
        return LocalZone(name=name)
    whose = f"{localtime} is" if given is None else f"TZ={given!r} is"
    return LocalZone(
        name="UTC",
        doubt=f"{whose} no zone of the IANA database, times are taken for UTC: name one, --timezone Europe/Berlin",
    )


def asked_zone(text: str | None, environ: Mapping[str, str], *, or_fail: bool = False) -> str:
    """Return the IANA name of the zone that an option names; ``local`` and ``None`` are this process's.

    Where that has no name it is UTC, and standard error says so; with ``or_fail`` a UsageError does. Raises UsageError
    for an unknown name.
    """
    if text is not None and text.strip().lower() != LOCAL:
        return zone_name(text)
    found = local_zone(environ)
    if found.doubt is not None:
        if or_fail:
            raise UsageError(found.doubt)
        print_error(found.doubt)
    return found.name


def _of_rule(rule: str) -> str | None:
    found = _known(rule)
    fixed = None if found else _FIXED.fullmatch(rule)
    if fixed is None:
        return found
    return _known(f"Etc/GMT{fixed[1] or '+'}{fixed[2]}") if int(fixed[2]) else "UTC"


def _known(name: str) -> str | None:
    try:
        return zone_name(name) if name else None
    except UsageError:
        return None


def _of_links(path: Path) -> str | None:
    """Return the name in the first path of a chain of links that has one: what it leads to may be another's name."""
    for _ in range(_MOST_LINKS):
        found = _known(os.path.normpath(path).partition("/zoneinfo/")[2])
        if found is not None or not path.is_symlink():
            return found
        path = path.parent / path.readlink()
    return None


def _of_content(path: Path) -> str | None:
    """Return the name of the zone that a file's rules are: a copy, as containers are given one, has no other name."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            here = ZoneInfo.from_file(file)
    except (OSError, ValueError, struct.error):
        return None
    return next((name for name in _names() if _is_same(here, zone(name))), None)


def _names() -> Iterator[str]:
    """Yield the main name of every zone that ever differed from the others."""
    yield "UTC"
    listed = resources.files("tzdata").joinpath("zoneinfo/zone1970.tab").read_text("utf-8")
    yield from (line.split("\t")[2] for line in listed.splitlines() if not line.startswith("#"))


def _is_same(one: tzinfo, other: tzinfo) -> bool:
    moments = (_OLDEST + timedelta(weeks=week) for week in range(_WEEKS))
    return all(moment.astimezone(one).utcoffset() == moment.astimezone(other).utcoffset() for moment in moments)
