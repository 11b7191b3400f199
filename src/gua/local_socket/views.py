"""The report views that may be asked for over the local socket, and what a question and an answer may hold.

Both ends check with it: the answering one every parameter, the asking one every row, as neither knows the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gua.local_socket.checks import (
    STATES,
    Check,
    are_hours,
    is_count,
    is_count_or_unknown,
    is_date,
    is_flag,
    is_host,
    is_hour,
    is_labels,
    is_list_of,
    is_moment,
    is_moment_or_unknown,
    is_name,
    is_number,
    is_ratio,
    is_row_of,
    is_state,
    is_text,
    is_weekday,
    is_whole,
    or_unknown,
)

_MOST_HOSTS: Final = 10_000
_MOST_TICKS: Final = 10_000
_MOST_LIMITS: Final = 100
_ZONE: Final = re.compile(r"[A-Za-z0-9_+\-/]{1,64}")
_PARTIES: Final = ("identity", "owner", "program", "container", "pod", "job", "host", "model")
_PROCESS_TYPES: Final = ("compute", "graphics", "mps", "ignored")
_bounds: Final = frozenset(("since_ms", "until_ms", "hosts"))
_read: Final = _bounds | {"ticked", "stored"}
_card: Final = frozenset(("host", "gpu", "since_ms", "until_ms"))


@dataclass(frozen=True, slots=True)
class View:
    """A view of ``gua_report``: the parameters that must be given, and the columns that its readers use."""

    parameters: frozenset[str]
    columns: Mapping[str, Check]


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
                "interval_ms": or_unknown(is_count),
            },
        ),
        "rules": View(frozenset(), {"key": is_text, "value": is_number, "is_default": is_flag}),
        "overview": View(
            _read,
            {
                "is_total": is_flag,
                "host": is_name,
                "gpu": is_name,
                "gpu_index": or_unknown(is_count),
                "name": is_name,
                "model": is_name,
                "mig": is_name,
                "parent": is_name,
                "observed_ms": is_number,
                "elapsed_ms": is_number,
                "expected_gpu_ms": is_number,
                "observed_gpu_ms": is_number,
                "unobserved_gpu_ms": is_number,
                "ratio": is_ratio,
                "gaps": is_count,
                "effective_since_ms": is_moment_or_unknown,
                "effective_until_ms": is_moment_or_unknown,
                **{f"{state.replace('-', '_')}_gpu_ms": is_number for state in STATES},
                **{f"{state.replace('-', '_')}_card_ticks": is_count for state in STATES},
                "states": is_list_of(is_row_of(is_state, is_count, is_number, is_ratio, is_ratio)),
                "reasons": is_list_of(is_row_of(is_text, is_count, is_number)),
            },
        ),
        "hours": View(_bounds, {"hour": is_whole, "is_counted": is_flag, "card_ticks": is_count}),
        "labels": View(frozenset(), {"host": is_text, "labels": is_labels}),
        "fleet": View(
            _bounds,
            {
                "host": is_text,
                "last_ms": is_moment,
                "is_silent": is_flag,
                "ahead_ms": or_unknown(is_whole),
                "behind_ms": or_unknown(is_whole),
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
                "owner": is_name,
                "program": is_name,
                "active_us": is_whole,
                "idle_held_us": is_whole,
                "unknown_us": is_whole,
                "durations_ms": is_count,
            },
        ),
        "older_rule": View(
            _bounds,
            {
                "host": is_text,
                "gpu": is_text,
                "theirs": lambda value: value in (*STATES[:3], "not-counted"),
                "ours": is_state,
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
                "gpu_index": is_count_or_unknown,
                **dict.fromkeys(("name", "mig", "parent", "driver_version", "pci"), is_name),
                "source": is_text,
                "interval_ms": is_count_or_unknown,
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
                "state": is_state,
                **dict.fromkeys(("reason", "process_list", "mig", "source"), is_name),
                "busiest_utilization": is_count_or_unknown,
                "threshold_bytes": is_count,
                "held_lower_bytes": is_count,
                "held_upper_bytes": is_count_or_unknown,
                "unattributed_lower_bytes": is_count,
                **{
                    f"utilization{part}": is_count_or_unknown
                    for part in ("", "_encoder", "_decoder", "_max", "_coverage_ms")
                },
                **{f"memory_{part}_bytes": is_count_or_unknown for part in ("used", "limit", "reserved")},
                **{
                    f"process_{what}": is_count_or_unknown
                    for kind in _PROCESS_TYPES
                    for what in (f"count_{kind}", f"memory_{kind}_bytes", f"unknown_{kind}")
                },
                "process_utilization_max": is_count_or_unknown,
                "power_mw": is_count_or_unknown,
                "temperature_celsius": or_unknown(is_whole),
                "energy_total_mj": is_count_or_unknown,
                "energy_mj": is_count_or_unknown,
                "failed": is_count_or_unknown,
                "memory_shared": or_unknown(is_flag),
                "interval_ms": is_count_or_unknown,
            },
        ),
        "explain_processes": View(
            _card,
            {
                "ts_ms": is_moment,
                "pid": is_count,
                "created_ms": is_moment_or_unknown,
                **dict.fromkeys(
                    ("owner", "program", "type", "container_id", "pod_uid", "slurm_job_id", "systemd_unit"), is_name
                ),
                "uid": is_count_or_unknown,
                "duration_ms": is_count,
                **dict.fromkeys(("gpu_time_ms", "memory_bytes", "utilization"), is_count_or_unknown),
                "state": lambda value: value in ("active", "idle", "unknown"),
            },
        ),
        "card_streaks": View(
            _read | {"timezone", "long_ms"},
            {
                "host": is_text,
                "gpu": is_text,
                "state": lambda value: value in (*STATES, ""),
                "as_of_ms": is_moment,
                "newest_span_ms": is_count,
                "since_ms": is_moment_or_unknown,
                "in_state_ms": is_count_or_unknown,
                "in_state_us": is_count_or_unknown,
                "is_at_least": is_flag,
                "watched_since_ms": is_moment,
                **dict.fromkeys(
                    ("never_used_us", "never_used_long_us", "low_us", "low_long_us", "not_kept_us"), is_count
                ),
                "usual": is_ratio,
            },
        ),
        "who": View(
            _read | {"by"},
            {
                "name": is_name,
                "program": is_name,
                **dict.fromkeys(("active_us", "idle_held_us", "unknown_us", "durations_ms", "sessions"), is_count),
                "first_ms": is_moment_or_unknown,
                "last_ms": is_moment_or_unknown,
                "longest_idle_ms": is_count_or_unknown,
                "holders": is_list_of(
                    is_row_of(
                        is_text,
                        is_text,
                        is_count,
                        is_whole,
                        is_row_of(is_name, is_name, is_name, is_name, is_name, is_name),
                        is_moment,
                        is_flag,
                        is_count_or_unknown,
                        is_moment_or_unknown,
                        is_count_or_unknown,
                        is_count_or_unknown,
                        is_count_or_unknown,
                        is_moment,
                        is_count_or_unknown,
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
                "is_total": is_flag,
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
                "cells": is_list_of(is_row_of(is_count, is_count, is_count, is_count, is_count)),
            },
        ),
        "presences": View(
            _read | {"most"},
            {
                "host": is_text,
                "gpu": is_text,
                "pid": is_count,
                "owner": is_name,
                "program": is_name,
                "first_ms": is_moment,
                "last_ms": is_moment,
                **dict.fromkeys(("idle_ms", "unknown_ms", "processes", "place"), is_count),
            },
        ),
        "time_of_day": View(
            _read | {"timezone"}, {"hour": is_hour, "state": is_state, "gpu_ms": is_number, "card_ticks": is_count}
        ),
        "costs": View(
            _read,
            {
                "model": is_name,
                "currency": is_name,
                "per_gpu_hour": is_ratio,
                "valid_from_ms": is_moment_or_unknown,
                "source": is_name,
                **{f"{state.replace('-', '_')}_gpu_ms": is_number for state in STATES},
                **{f"{state.replace('-', '_')}_cost": is_ratio for state in STATES},
            },
        ),
        "energy": View(
            _read,
            {
                "host": is_text,
                "gpu": is_text,
                "gpu_index": or_unknown(is_count),
                "model": is_name,
                "states": is_list_of(is_row_of(is_state, is_count, is_count, is_count, is_count, is_count)),
                "bare_watts": is_ratio,
                "held_watts": is_ratio,
                "added_joules": is_ratio,
            },
        ),
        "calendar": View(
            _read | {"timezone"},
            {
                "is_week": is_flag,
                "weekday": or_unknown(is_weekday),
                "hour": or_unknown(is_hour),
                "date": or_unknown(is_date),
                "state": is_state,
                "gpu_ms": is_number,
                "card_ticks": is_count,
            },
        ),
    }
)
"""What gua report and gua explain ask, column by column."""


_PARAMETERS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "since_ms": is_moment,
        "until_ms": is_moment,
        "hosts": lambda value: isinstance(value, list) and len(value) <= _MOST_HOSTS and all(map(is_host, value)),
        "ticked": are_hours,
        "part": are_hours,
        "stored": is_flag,
        "host": is_host,
        "gpu": is_host,
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
