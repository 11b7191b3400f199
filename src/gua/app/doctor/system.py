"""The system and its clock."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from typing import Final

from gua.app.doctor.finding import Finding, failed, ok, warning

# adjtimex(2): struct timex of a 64-bit system; ``status`` stands after five longs, and the call fills 208 bytes.
_TIMEX_BYTES: Final = 208
_STATUS_OFFSET: Final = 40
_STA_UNSYNC: Final = 0x40
_FIRST_SANE_YEAR: Final = 2024
_LAST_SANE_YEAR: Final = 2100


def check_system() -> list[Finding]:
    """Look at the operating system and the installed versions."""
    system = f"{_distribution()}, kernel {platform.release()}, {platform.machine()}"
    if platform.system() != "Linux":
        return [failed("system", "system", system, "run the agent on Linux; gua report works anywhere")]
    versions = f"gua {metadata.version('gua-otel')}, Python {platform.python_version()}"
    return [ok("system", "system", system), ok("versions", "versions", versions)]


def check_clock(now_s: float, boot_id: str | None, synchronized: bool | None) -> list[Finding]:
    """Judge the wall clock (Unix time), the boot id, and whether the kernel calls its clock synchronized."""
    now = datetime.fromtimestamp(now_s, UTC)
    shown = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    if not _FIRST_SANE_YEAR <= now.year < _LAST_SANE_YEAR:
        found = [failed("clock", "clock", f"it says {shown}", "set the clock, then let NTP keep it (timedatectl)")]
    elif synchronized is False:
        found = [
            warning(
                "clock",
                "clock",
                f"{shown}, not synchronized: ticks of several hosts do not fit together, and a step costs ticks",
                "let NTP keep it (timedatectl set-ntp true, or chrony)",
            )
        ]
    else:
        found = [ok("clock", "clock", shown + (", synchronized" if synchronized else ", NTP not known"))]
    if boot_id is None:
        found.append(
            warning(
                "boot",
                "boot id",
                "not readable: after a restart of the agent no tick continues the one before",
                "make <procfs>/sys/kernel/random/boot_id readable",
            )
        )
    return found


def kernel_synchronized(adjtimex: Callable[[ctypes.Array[ctypes.c_char]], int] | None = None) -> bool | None:
    """Return what the kernel says of its clock; ``None`` if it does not tell. Asks only, changes nothing."""
    if ctypes.sizeof(ctypes.c_long) != 8:
        return None
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)  # modes = 0: read only
    try:
        if adjtimex is None:
            adjtimex = ctypes.CDLL(None).adjtimex
        if adjtimex(timex) < 0:
            return None
    except (OSError, AttributeError):
        return None
    status = int.from_bytes(timex.raw[_STATUS_OFFSET : _STATUS_OFFSET + 4], "little")
    return not status & _STA_UNSYNC


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return os.uname().sysname
