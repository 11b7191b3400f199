"""The texts of /proc, read into values; proc(5) describes each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# include/linux/proc_ns.h: PROC_PID_INIT_INO, the same on every Linux host.
INITIAL_PID_NAMESPACE: Final = "pid:[4026531836]"
_START_FIELD: Final = 22
_FIRST_FIELD_AFTER_COMM: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Stat:
    """``/proc/<pid>/stat``: the process's name and its start in clock ticks since boot."""

    comm: str
    start_ticks: int


def parse_stat(text: str) -> Stat | None:
    """Return what ``/proc/<pid>/stat`` says, ``None`` if it is cut or is something else.

    The name stands in parentheses and may hold spaces and parentheses itself: it ends at the last one.
    """
    opened, closed = text.find("("), text.rfind(")")
    if opened < 0 or closed < opened:
        return None
    fields = text[closed + 1 :].split()
    try:
        start_ticks = int(fields[_START_FIELD - _FIRST_FIELD_AFTER_COMM])
    except (IndexError, ValueError):
        return None
    return Stat(comm=text[opened + 1 : closed], start_ticks=start_ticks)


def parse_uid(text: str) -> int | None:
    """Return the real user id in ``/proc/<pid>/status``: who started the process, also of a set-uid program."""
    for line in text.splitlines():
        name, _, values = line.partition(":")
        if name == "Uid":
            fields = values.split()
            return int(fields[0]) if fields and fields[0].isdecimal() else None
    return None


def parse_boot_time_ms(text: str) -> int | None:
    """Return the moment of boot in ``/proc/stat`` as Unix time in ms (whole seconds)."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "btime" and value.strip().isdecimal():
            return int(value) * 1000
    return None
