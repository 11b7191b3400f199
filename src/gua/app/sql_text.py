"""SQL as text: a report's queries as a clickhouse-client script, and the results of a user's own statement."""

import csv
import datetime as dt
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Final

from gua.core.plaintext import aligned, pad, pad_left, safe
from gua.report.questions import Question
from gua.store.database import REPORT_SETTINGS, view_call
from gua.store.report_views import report_views
from gua.store.user_query import StatementResult

SCHEMA: Final = "gua.sql/1"
_WIDEST: Final = 60
_NUMBERS: Final = ("UInt", "Int", "Float", "Decimal")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def to_text(result: StatementResult) -> str:
    """Return the rows as a table, numbers right-aligned; long values are shortened in the middle, NULL is a dash."""
    rows = [
        [safe(name, _WIDEST) for name in result.names],
        *(["-" if value is None else safe(_text(value), _WIDEST) for value in row] for row in result.rows),
    ]
    kinds = [kind.removeprefix("LowCardinality(").removeprefix("Nullable(") for kind in result.types]
    count = f"{len(result.rows)} row{'' if len(result.rows) == 1 else 's'}"
    lines = aligned(rows, [pad_left if kind.startswith(_NUMBERS) else pad for kind in kinds])
    return "".join(f"{line}\n" for line in (*lines, count))


def to_csv(result: StatementResult) -> str:
    """Return RFC 4180 CSV with a header row; NULL is empty, text that looks like a formula gets a ' prefix."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow([safe(name) for name in result.names])
    writer.writerows([_cell(value) for value in row] for row in result.rows)
    return written.getvalue()


def to_json(result: StatementResult) -> str:
    """Return one object with the typed columns and each row as an object; times are RFC 3339 in UTC."""
    columns = [{"name": name, "type": kind} for name, kind in zip(result.names, result.types, strict=True)]
    rows = [dict(zip(result.names, map(_plain, row), strict=True)) for row in result.rows]
    return json.dumps({"schema": SCHEMA, "columns": columns, "rows": rows}, ensure_ascii=True, allow_nan=False) + "\n"


def _cell(value: object) -> str | int | float:
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    text = safe(_text(value))
    return f"'{text}" if text.startswith(_FORMULA) and isinstance(value, str | bytes) else text


def _text(value: object) -> str:
    plain = _plain(value)
    if isinstance(plain, str):
        return plain
    return f"{plain:.15g}" if isinstance(plain, float) else json.dumps(plain, ensure_ascii=False)


def _plain(value: object) -> object:
    """Return a value as JSON types: NaN and infinity as null, types unknown to JSON as text."""
    match value:
        case None | bool() | int() | str():
            plain: object = value
        case float():
            plain = value if math.isfinite(value) else None
        case dt.datetime():
            moment = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
            timespec = "milliseconds" if moment.microsecond else "seconds"
            plain = moment.isoformat(timespec=timespec).replace("+00:00", "Z")
        case bytes():
            plain = value.decode(errors="replace")
        case Mapping():
            plain = {_text(key): _plain(each) for key, each in value.items()}
        case Sequence():
            plain = [_plain(each) for each in value]
        case _:
            plain = str(value)
    return plain


_HEAD = """\
-- The queries of this report, in their order. Save it as report.sql, then, on a server:
--   clickhouse-client --host HOST --queries-file report.sql
-- on an embedded store, while nothing else uses it:
--   clickhouse local --path STORE/data --queries-file report.sql
"""


def script(questions: Sequence[Question], *, embedded: bool) -> str:
    """Return the queries as an SQL script; for an embedded store it first creates the views and sets the settings."""
    lines = [_HEAD]
    if embedded:
        lines.append(f"SET {', '.join(f'{name} = {quoted(str(value))}' for name, value in REPORT_SETTINGS.items())};\n")
        lines += [f"{sql};\n" for sql in report_views().statements()]
    known: dict[str, str] = {}
    for view, parameters in questions:
        sql, values = view_call(view, parameters)
        for name, value in values.items():
            text = parameter(value)
            if known.get(name) != text:  # parameters persist between queries
                known[name] = text
                lines.append(f"SET param_{name} = {quoted(text)};")
        lines.append(f"{sql};\n")
    return "\n".join(lines)


def parameter(value: object) -> str:
    """Return a value in ClickHouse's query parameter format: TabSeparated, a list as ``['a', 'b']``."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(quoted(one) if isinstance(one, str) else str(one) for one in value)}]"
    return _escaped(value) if isinstance(value, str) else str(value)


def quoted(text: str) -> str:
    """Return text as an SQL string literal."""
    return "'" + _escaped(text).replace("'", "\\'") + "'"


def _escaped(text: str) -> str:
    for character, written in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"), ("\0", "\\0")):
        text = text.replace(character, written)
    # A host's name may contain terminal control sequences.
    return "".join(one if one.isprintable() else "".join(f"\\x{byte:02X}" for byte in one.encode()) for one in text)
