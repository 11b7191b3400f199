"""The queries of a report as a script that clickhouse-client runs: each with its parameters set before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gua.report.recording import Question
from gua.store.database import REPORT_SETTINGS, call_of
from gua.store.report_views import report_views

_HEAD = """\
-- What this report asks of its store, in this order. Save it as report.sql, then, on a server:
--   clickhouse-client --host HOST --queries-file report.sql
-- on an embedded store, while nothing else uses it:
--   clickhouse local --path STORE/data --queries-file report.sql
"""


def script(questions: Sequence[Question], *, embedded: bool) -> str:
    """Return the questions as SQL; an embedded store needs the views, too, and the settings of a server's user."""
    return _HEAD + "\n" + "\n".join(_lines(questions, embedded=embedded))


def _lines(questions: Sequence[Question], *, embedded: bool) -> Iterator[str]:
    if embedded:
        yield f"SET {', '.join(f'{name} = {quoted(str(value))}' for name, value in REPORT_SETTINGS.items())};\n"
        yield from (f"{sql};\n" for sql in report_views().statements())
    known: dict[str, str] = {}
    for view, parameters in questions:
        sql, values = call_of(view, parameters)
        yield from _changed(known, values)
        yield f"{sql};\n"


def _changed(known: dict[str, str], values: Mapping[str, object]) -> Iterator[str]:
    """Yield what must be set for the next query, and keep it in mind."""
    for name, value in values.items():
        text = parameter(value)
        if known.get(name) != text:
            known[name] = text
            yield f"SET param_{name} = {quoted(text)};"


def parameter(value: object) -> str:
    """Return a value as ClickHouse reads a query parameter: TabSeparated, a list as ``['a', 'b']``."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(quoted(one) if isinstance(one, str) else str(one) for one in value)}]"
    return _escaped(value) if isinstance(value, str) else str(value)


def quoted(text: str) -> str:
    """Return text as a string of SQL."""
    return "'" + _escaped(text).replace("'", "\\'") + "'"


def _escaped(text: str) -> str:
    for character, written in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"), ("\0", "\\0")):
        text = text.replace(character, written)
    # A host's name may hold what a terminal obeys.
    return text if text.isprintable() else "".join(one if one.isprintable() else _bytes(one) for one in text)


def _bytes(character: str) -> str:
    return "".join(f"\\x{byte:02X}" for byte in character.encode())
