"""The report views that may be asked for over the local socket, and what a question and an answer may hold.

Both ends check with it: the answering one every parameter, the asking one every row, as neither knows the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

Check = Callable[[object], bool]

_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999, where calendars stop
_MOST_HOSTS: Final = 10_000
_MOST_HOURS: Final = 100_000
_MOST_TICKS: Final = 10_000
_LONGEST_NAME: Final = 1_024
_ZONE: Final = re.compile(r"[A-Za-z0-9_+\-/]{1,64}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_STATES: Final = ("active", "idle-held", "truly-idle", "unknown")


@dataclass(frozen=True, slots=True)
class View:
    """A view of ``gua_report``: the parameters that must be given, and the columns that its readers use."""

    parameters: frozenset[str]
    columns: Mapping[str, Check]


def is_number(value: object) -> bool:
    """Return whether this is a number and not infinite, nor a truth value."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def is_moment(value: object) -> bool:
    """Return whether this is a Unix time in ms that a calendar can tell."""
    return type(value) is int and 0 <= value <= _LAST_MS


def is_count(value: object) -> bool:
    """Return whether this is a whole number, 0 or more, of 64 bits."""
    return type(value) is int and 0 <= value < 2**64


def is_text(value: object) -> bool:
    """Return whether this is text."""
    return isinstance(value, str)


def _or_unknown(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _is_flag(value: object) -> bool:
    return value in (0, 1)


def _is_whole(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _are_hours(value: object) -> bool:
    return isinstance(value, list) and len(value) <= _MOST_HOURS and all(map(_is_whole, value))


def _is_hour(value: object) -> bool:
    return type(value) is int and 0 <= value < 24


def _is_weekday(value: object) -> bool:
    return type(value) is int and 1 <= value <= 7


def _is_date(value: object) -> bool:
    return isinstance(value, str) and _DATE.fullmatch(value) is not None


def _is_state(value: object) -> bool:
    return value in _STATES


def _is_row_of(*checks: Check) -> Check:
    return lambda row: (
        isinstance(row, (list, tuple))
        and len(row) == len(checks)
        and all(check(value) for check, value in zip(checks, row, strict=True))
    )


def _is_list_of(check: Check) -> Check:
    return lambda rows: isinstance(rows, (list, tuple)) and all(map(check, rows))


def _is_labels(value: object) -> bool:
    return isinstance(value, dict) and all(is_text(one) for pair in value.items() for one in pair)


_ratio = _or_unknown(is_number)
_name = _or_unknown(is_text)
_moment = _or_unknown(is_moment)
_count = _or_unknown(is_count)
_bounds: Final = frozenset(("since_ms", "until_ms", "hosts"))
_read: Final = _bounds | {"ticked", "stored"}
_card: Final = frozenset(("host", "gpu", "since_ms", "until_ms"))
_PARTIES: Final = ("identity", "owner", "program", "container", "pod", "job", "host", "model")
_MOST_LIMITS: Final = 100
_PROCESS_TYPES: Final = ("compute", "graphics", "mps", "ignored")

VIEWS: Final[Mapping[str, View]] = MappingProxyType(
    {
        "extent": View(
            frozenset(("hosts",)),
            {
                "host": is_text,
                "source": is_text,
                "cards": is_count,
                "first_ms": is_moment,
                "last_ms": is_moment,
                "interval_ms": _or_unknown(is_count),
            },
        ),
        "rules": View(frozenset(), {"key": is_text, "value": is_number, "is_default": _is_flag}),
        "overview": View(
            _read,
            {
                "is_total": _is_flag,
                "host": _name,
                "gpu": _name,
                "gpu_index": _or_unknown(is_count),
                "name": _name,
                "model": _name,
                "mig": _name,
                "parent": _name,
                "observed_ms": is_number,
                "elapsed_ms": is_number,
                "expected_gpu_ms": is_number,
                "observed_gpu_ms": is_number,
                "unobserved_gpu_ms": is_number,
                "ratio": _ratio,
                "gaps": is_count,
                "effective_since_ms": _moment,
                "effective_until_ms": _moment,
                **{f"{state.replace('-', '_')}_gpu_ms": is_number for state in _STATES},
                **{f"{state.replace('-', '_')}_card_ticks": is_count for state in _STATES},
                "states": _is_list_of(_is_row_of(_is_state, is_count, is_number, _ratio, _ratio)),
                "reasons": _is_list_of(_is_row_of(is_text, is_count, is_number)),
            },
        ),
        "hours": View(_bounds, {"hour": _is_whole, "is_counted": _is_flag, "card_ticks": is_count}),
        "labels": View(frozenset(), {"host": is_text, "labels": _is_labels}),
        "fleet": View(
            _bounds,
            {
                "host": is_text,
                "last_ms": is_moment,
                "is_silent": _is_flag,
                "ahead_ms": _or_unknown(_is_whole),
                "behind_ms": _or_unknown(_is_whole),
            },
        ),
        "claims": View(
            _bounds,
            {
                "host": is_text,
                "instance": is_text,
                "host_id": is_text,
                "first_ms": is_moment,
                "last_ms": is_moment,
            },
        ),
        "identities": View(
            _read | {"part"},
            {
                "kind": is_text,
                "owner": _name,
                "program": _name,
                "active_us": _is_whole,
                "idle_held_us": _is_whole,
                "unknown_us": _is_whole,
                "durations_ms": is_count,
            },
        ),
        "older_rule": View(
            _bounds,
            {
                "host": is_text,
                "gpu": is_text,
                "theirs": lambda value: value in (*_STATES[:3], "not-counted"),
                "ours": _is_state,
                "why": is_text,
                "card_ticks": is_count,
                "gpu_time_ms": is_count,
            },
        ),
        "explain_cards": View(
            frozenset(("hosts",)),
            {
                "host": is_text,
                "gpu": is_text,
                "gpu_index": _count,
                **dict.fromkeys(("name", "mig", "parent", "driver_version", "pci"), _name),
                "source": is_text,
                "interval_ms": _count,
                "first_ms": is_moment,
                "last_ms": is_moment,
            },
        ),
        "explain_moments": View(_card | {"at_ms", "most"}, {"ts_ms": is_moment, "duration_ms": is_count}),
        "explain_ticks": View(
            _card,
            {
                "ts_ms": is_moment,
                "duration_ms": is_count,
                "gpu_time_ms": is_count,
                "state": _is_state,
                **dict.fromkeys(("reason", "process_list", "mig", "source"), _name),
                "busiest_utilization": _count,
                "threshold_bytes": is_count,
                "held_lower_bytes": is_count,
                "held_upper_bytes": _count,
                "unattributed_lower_bytes": is_count,
                **{f"utilization{part}": _count for part in ("", "_encoder", "_decoder", "_max", "_coverage_ms")},
                **{f"memory_{part}_bytes": _count for part in ("used", "limit", "reserved")},
                **{
                    f"process_{what}": _count
                    for kind in _PROCESS_TYPES
                    for what in (f"count_{kind}", f"memory_{kind}_bytes", f"unknown_{kind}")
                },
                "process_utilization_max": _count,
                "power_mw": _count,
                "temperature_celsius": _or_unknown(_is_whole),
                "energy_total_mj": _count,
                "energy_mj": _count,
                "failed": _count,
                "memory_shared": _or_unknown(_is_flag),
                "interval_ms": _count,
            },
        ),
        "explain_processes": View(
            _card,
            {
                "ts_ms": is_moment,
                "pid": is_count,
                "created_ms": _moment,
                **dict.fromkeys(
                    ("owner", "program", "type", "container_id", "pod_uid", "slurm_job_id", "systemd_unit"), _name
                ),
                "uid": _count,
                "duration_ms": is_count,
                **dict.fromkeys(("gpu_time_ms", "memory_bytes", "utilization"), _count),
                "state": lambda value: value in ("active", "idle", "unknown"),
            },
        ),
        "card_streaks": View(
            _read | {"timezone", "long_ms"},
            {
                "host": is_text,
                "gpu": is_text,
                "state": lambda value: value in (*_STATES, ""),
                "as_of_ms": is_moment,
                "newest_span_ms": is_count,
                "since_ms": _moment,
                "in_state_ms": _count,
                "in_state_us": _count,
                "is_at_least": _is_flag,
                **dict.fromkeys(
                    ("never_used_us", "never_used_long_us", "low_us", "low_long_us", "not_kept_us"), is_count
                ),
                "usual": _ratio,
            },
        ),
        "who": View(
            _read | {"by"},
            {
                "name": _name,
                "program": _name,
                **dict.fromkeys(("active_us", "idle_held_us", "unknown_us", "durations_ms", "sessions"), is_count),
                "first_ms": _moment,
                "last_ms": _moment,
                "longest_idle_ms": _count,
                "holders": _is_list_of(
                    _is_row_of(
                        is_text,
                        is_text,
                        is_count,
                        _is_whole,
                        _is_row_of(_name, _name, _name, _name, _name, _name),
                        is_moment,
                        _is_flag,
                        _count,
                        _moment,
                        _count,
                        _is_flag,
                        _count,
                        is_count,
                        is_count,
                        is_count,
                    )
                ),
            },
        ),
        "streaks": View(
            _read | {"limits_ms", "again_ms"},
            dict.fromkeys(
                ("limit_ms", "episodes", "holders", "idle_ms", "idle_held_us", "given_back_us", "false_alarms"),
                is_count,
            ),
        ),
        "contention": View(
            _read,
            {
                "is_total": _is_flag,
                "host": is_text,
                **dict.fromkeys(
                    ("cards", "free_ms", "contended_ms", "busy_ms", "unknown_ms", "contended_us"), is_count
                ),
            },
        ),
        "timeline": View(
            _read | {"cell_ms"},
            {
                "host": is_text,
                "gpu": is_text,
                "cells": _is_list_of(_is_row_of(is_count, is_count, is_count, is_count, is_count)),
            },
        ),
        "presences": View(
            _read | {"most"},
            {
                "host": is_text,
                "gpu": is_text,
                "pid": is_count,
                "owner": _name,
                "program": _name,
                "first_ms": is_moment,
                "last_ms": is_moment,
                **dict.fromkeys(("idle_ms", "unknown_ms", "processes", "place"), is_count),
            },
        ),
        "time_of_day": View(
            _read | {"timezone"}, {"hour": _is_hour, "state": _is_state, "gpu_ms": is_number, "card_ticks": is_count}
        ),
        "costs": View(
            _read,
            {
                "model": _name,
                "currency": _name,
                "per_gpu_hour": _ratio,
                "valid_from_ms": _moment,
                "source": _name,
                **{f"{state.replace('-', '_')}_gpu_ms": is_number for state in _STATES},
                **{f"{state.replace('-', '_')}_cost": _ratio for state in _STATES},
            },
        ),
        "energy": View(
            _read,
            {
                "host": is_text,
                "gpu": is_text,
                "gpu_index": _or_unknown(is_count),
                "model": _name,
                "states": _is_list_of(_is_row_of(_is_state, is_count, is_count, is_count, is_count, is_count)),
                "bare_watts": _ratio,
                "held_watts": _ratio,
                "added_joules": _ratio,
            },
        ),
        "calendar": View(
            _read | {"timezone"},
            {
                "is_week": _is_flag,
                "weekday": _or_unknown(_is_weekday),
                "hour": _or_unknown(_is_hour),
                "date": _or_unknown(_is_date),
                "state": _is_state,
                "gpu_ms": is_number,
                "card_ticks": is_count,
            },
        ),
    }
)
"""What gua report and gua explain ask, column by column."""


def _is_host(value: object) -> bool:
    """Return whether this can be a host's name: text that UTF-8 can hold, and not endless."""
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        return False
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)


_PARAMETERS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "since_ms": is_moment,
        "until_ms": is_moment,
        "hosts": lambda value: isinstance(value, list) and len(value) <= _MOST_HOSTS and all(map(_is_host, value)),
        "ticked": _are_hours,
        "part": _are_hours,
        "stored": _is_flag,
        "host": _is_host,
        "gpu": _is_host,
        "at_ms": is_moment,
        "most": lambda value: type(value) is int and 1 <= value <= _MOST_TICKS,
        "by": lambda value: isinstance(value, str) and value in _PARTIES,
        "long_ms": is_moment,
        "again_ms": is_moment,
        "cell_ms": lambda value: is_moment(value) and value != 0,
        "limits_ms": lambda value: (
            isinstance(value, list) and len(value) <= _MOST_LIMITS and all(map(is_moment, value))
        ),
        "timezone": lambda value: isinstance(value, str) and _ZONE.fullmatch(value) is not None,
    }
)


def checked_question(view: object, parameters: object) -> tuple[str, dict[str, object]]:
    """Return a question's view and parameters. Raises ValueError, with the fault in words, for any other."""
    if not isinstance(view, str) or view not in VIEWS:
        msg = "no such view for reports"
        raise ValueError(msg)
    if not isinstance(parameters, dict) or set(parameters) != VIEWS[view].parameters:
        msg = f"the view {view} has the parameters {', '.join(sorted(VIEWS[view].parameters)) or 'none'}"
        raise ValueError(msg)
    for name, value in parameters.items():
        if not _PARAMETERS[name](value):
            msg = f"the parameter {name} of {view} cannot be used"
            raise ValueError(msg)
    return view, parameters


def checked_row(view: str, row: object) -> dict[str, Any]:
    """Return the known columns of a row. Raises ValueError where one is missing or is not what it should be."""
    if not isinstance(row, dict):
        msg = f"a row of {view} is no object"
        raise ValueError(msg)  # noqa: TRY004 - one error for whatever is wrong in an answer
    for column, check in VIEWS[view].columns.items():
        if column not in row or not check(row[column]):
            msg = f"the column {column} of {view} is not what it should be"
            raise ValueError(msg)
    return {column: row[column] for column in VIEWS[view].columns}
