"""The time zone of this host as an IANA name, as stores need it."""

import logging
import os
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gua.app.output import print_error
from gua.core.errors import UsageError
from gua.core.moments import zone_name

LOCAL: Final = "local"
LOCALTIME: Final = Path("/etc/localtime")
_QUARTER_SECONDS: Final = 91 * 24 * 3600


def chosen_zone(text: str | None, environ: Mapping[str, str], *, or_fail: bool = False) -> str:
    """Return the IANA name of the option's time zone; ``local`` and ``None`` mean this process's.

    If that has no IANA name, return UTC and warn on stderr, or with ``or_fail`` raise UsageError. Raises UsageError for
    an unknown name.
    """
    if text is not None and text.strip().lower() != LOCAL:
        return zone_name(text)
    local = local_zone(environ)
    if local is not None:
        return local
    variable = environ.get("TZ")
    source = LOCALTIME if variable is None else f"TZ={variable!r}"
    message = f"{source} is no zone of the IANA database, times are taken for UTC: name one, --timezone Europe/Berlin"
    if or_fail:
        raise UsageError(message)
    print_error(message)
    return "UTC"


def local_zone(environ: Mapping[str, str]) -> str | None:
    """Return the IANA name of this process's zone, from ``TZ`` or the host's files; ``None`` if it has none."""
    variable = environ.get("TZ")
    if variable is None:
        return _of_host() if LOCALTIME.exists() else "UTC"
    rule = variable.removeprefix(":")
    if rule.startswith("/"):
        rule = os.path.realpath(rule).partition("/zoneinfo/")[2] or rule
    return "UTC" if rule in {"", "UTC0"} else _known(rule)


def _of_host() -> str | None:
    """Return the zone named in the host's files if it had the C library's offset in each quarter of the last year.

    In a container with the host's ``localtime``, /etc/timezone may name another zone: the result is then ``None``.
    """
    from tzlocal import get_localzone_name  # noqa: PLC0415 - only where TZ is not set

    logging.getLogger("tzlocal").disabled = True  # gua prints its own one-line error
    try:
        name = _known(get_localzone_name() or "")
    except ZoneInfoNotFoundError:  # several files name different zones
        return None
    now = time.time()
    for quarter in range(4):
        local = datetime.fromtimestamp(now - quarter * _QUARTER_SECONDS).astimezone()
        if name is None or local.utcoffset() != local.astimezone(ZoneInfo(name)).utcoffset():
            return None
    return name


def _known(name: str) -> str | None:
    try:
        return zone_name(name) if name else None
    except UsageError:
        return None
