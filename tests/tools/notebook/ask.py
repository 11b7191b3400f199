"""Query through SQLAlchemy's dialect of clickhouse-connect, as Superset does: queries and answers are JSON lines.

Argument: the URL for SQLAlchemy. Questions: {"views": DATABASE}, {"columns": VIEW, "of": DATABASE}, {"sql": …,
"values": {…}}, {"whole": VIEW, "of": DATABASE}. It runs with the Python of an environment of its own.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from sqlalchemy import Engine, MetaData, Table, create_engine, inspect, select, text


def answer(engine: Engine, question: dict[str, Any]) -> object:
    if "views" in question:
        return inspect(engine).get_view_names(schema=question["views"])
    if "columns" in question:
        found = inspect(engine).get_columns(question["columns"], schema=question["of"])
        return [[each["name"], str(each["type"]), each["comment"]] for each in found]
    with engine.connect() as connection:
        if "whole" in question:
            table = Table(question["whole"], MetaData(), schema=question["of"], autoload_with=engine)
            return sum(1 for _ in connection.execute(select(table)))
        rows = connection.execute(text(question["sql"]), question.get("values") or {})
        return [list(map(plain, row)) for row in rows] if rows.returns_rows else []


def plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def main() -> None:
    engine = create_engine(sys.argv[1])
    for line in sys.stdin:
        try:
            response = {"rows": answer(engine, json.loads(line))}
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            response = {"error": str(error)}
        sys.stdout.write(json.dumps(response) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
