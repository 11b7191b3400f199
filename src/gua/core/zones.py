"""Time zones by their IANA names."""

from __future__ import annotations

import difflib
from datetime import tzinfo
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from gua.core.errors import UsageError

UTC_NAMES: Final = frozenset({"Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu"})


def zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name. Raises UsageError."""
    if name == "localtime":  # a file of some systems, and no zone's name
        raise _unknown(name)
    try:
        found = ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # a folder of the database is an OSError
        raise _unknown(name) from None
    if name.startswith("right/"):
        msg = f"time zone {name!r} counts leap seconds, which no tick does: leave right/ out"
        raise UsageError(msg)
    return found


def zone_name(text: str) -> str:
    """Return the IANA name that is meant, whatever its case; every name of UTC is UTC. Raises UsageError."""
    name = text.strip().removeprefix("posix/")
    try:
        zone(name)
    except UsageError:
        others = available_timezones() - {name}
        name = next((one for one in others if one.casefold() == name.casefold()), "")
        if not name:
            raise
    return "UTC" if name in UTC_NAMES else name


def _unknown(name: str) -> UsageError:
    by_case = {one.casefold(): one for one in available_timezones()}
    near = difflib.get_close_matches(name.casefold(), by_case, n=1)
    hint = f"did you mean {by_case[near[0]]}?" if near else "as in Europe/Berlin or America/New_York"
    return UsageError(f"unknown time zone {name!r}: give an IANA name, {hint}, or UTC or local")
