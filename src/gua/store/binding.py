"""Calls of views with bound parameters, for host lists of any length.

A server rejects request fields over 128 KiB (http_max_field_value_size). 2,000 hosts with long names exceed that,
so a long list is sent as several parameters that ``arrayConcat`` joins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gua.core.batches import in_batches

# Quoting and escaping may double the characters of a name, and each takes up to 4 bytes.
_PART_CHARACTERS: Final = 12_000


def bound_call(parameters: Mapping[str, object], types: Mapping[str, str]) -> tuple[str, dict[str, object]]:
    """Return ``(name = {name:Type}, …)`` and the values to bind. The SQL contains only gua's own names."""
    written, values = _bound(parameters, types)
    call = ", ".join(f"{name} = {expression}" for name, expression in written.items())
    return (f"({call})" if call else ""), values


def bound_query(sql: str, parameters: Mapping[str, object], types: Mapping[str, str]) -> tuple[str, dict[str, object]]:
    """Return ``sql`` with its ``{name:Type}`` placeholders for the bound parameters, and the values to bind."""
    written, values = _bound(parameters, types)
    for name, expression in written.items():
        sql = sql.replace(f"{{{name}:{types[name]}}}", expression)
    return sql, values


def _bound(parameters: Mapping[str, object], types: Mapping[str, str]) -> tuple[dict[str, str], dict[str, object]]:
    """Return the SQL expression of each parameter by name, and the values to bind."""
    written: dict[str, str] = {}
    values: dict[str, object] = {}
    for name, value in parameters.items():
        parts: list[object] = [value]
        if isinstance(value, (list, tuple)):
            parts = [*in_batches(value, _PART_CHARACTERS, lambda one: len(str(one)) + 3)]
        if len(parts) <= 1:
            values[name] = value
            written[name] = f"{{{name}:{types[name]}}}"
            continue
        numbered = {f"{name}_{number}": part for number, part in enumerate(parts)}
        values |= numbered
        joined = ", ".join(f"{{{one}:{types[name]}}}" for one in numbered)
        written[name] = f"arrayConcat({joined})"
    return written, values
