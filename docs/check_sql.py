"""Check the form of the SQL in clickhouse/; prints one line a fault and exits with 1 if there is any.

Run as `.venv/bin/python docs/check_sql.py`. ClickHouse's own `formatQuery` is the judge of every statement as it goes
to an embedded store and to a cluster: it must parse, and have the words and operators that the engine writes, in its
order. Where lines break is the author's, as the engine knows no comments and no line of a sensible length; of that are
checked 140 characters a line, and that the lists of SELECT, GROUP BY and ORDER BY have an entry a line.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import chdb

from gua.store.statements import EMBEDDED_TOKENS, Statement, cluster_tokens, load, schema_directory

MOST_CHARACTERS: Final = 140
_LIST: Final = re.compile(r" *(?:SELECT(?: DISTINCT)?|GROUP BY|ORDER BY) (?P<entries>.+)")
_TOKEN: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'|`[^`]*`|\w+|[^\s\w]")
_TEXT_OF_COMMENT: Final = re.compile(r"\bCOMMENT '(?:[^'\\]|''|\\.)*'")
_ELEMENT: Final = "tupleElement("
_ELEMENT_NAME: Final = re.compile(r"(?P<of>.*), (?:'(?P<name>\w+)'|(?P<place>\d+))", re.DOTALL)


def main() -> int:
    """Print the faults of all files and of what is made of them, and return the exit code."""
    faults = [fault for file in _files(schema_directory()) for fault in of_layout(file)]
    # The engine writes the cluster's name without quotes.
    on_cluster = {
        name: text.replace("CLUSTER 'lab'", "CLUSTER lab")
        for name, text in cluster_tokens("lab", raw_days=None).items()
    }
    statements = [*load(EMBEDDED_TOKENS), *load(on_cluster)]
    for statement, formatted in zip(statements, _formatted(statements), strict=True):
        faults.extend(f"{statement.name}: {fault}" for fault in of_form(statement.sql, formatted))
    sys.stdout.writelines(f"{fault}\n" for fault in dict.fromkeys(faults))
    return 1 if faults else 0


def of_layout(file: Path) -> Iterator[str]:
    """Yield what is wrong with the lines of one file."""
    text = file.read_text("utf-8")
    if not text.endswith("\n") or text.endswith("\n\n"):
        yield f"{file}: ends with one line break"
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > MOST_CHARACTERS:
            yield f"{file}:{number}: {len(line)} characters, {MOST_CHARACTERS} at most"
        if line != line.rstrip() or "\t" in line:
            yield f"{file}:{number}: a space at its end, or a tab"
        listed = _LIST.fullmatch(line)
        if listed and _has_several(listed["entries"]):
            yield f"{file}:{number}: one entry a line"


def of_form(sql: str, formatted: str | None) -> Iterator[str]:
    """Yield where a statement is not written as the engine writes it; ``formatted`` is the engine's, if it can."""
    if formatted is None:
        yield "the engine cannot read it"
        return
    ours, engines = _words(sql), _words(formatted)
    for number, (word, of_engine) in enumerate(zip(ours, engines, strict=False)):
        if word != of_engine:
            yield f"{' '.join(ours[max(number - 3, 0) : number + 1])}: the engine writes {of_engine}"
            return
    if len(ours) != len(engines):
        yield "the engine writes more or less"


def _files(root: Path) -> list[Path]:
    return sorted([*root.rglob("*.sql"), *root.rglob("*.part")])


def _has_several(entries: str) -> bool:
    depth = 0
    for character in entries:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            return True
    return False


def _formatted(statements: list[Statement]) -> list[str | None]:
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps({"number": number, "sql": one.sql}) + "\n" for number, one in enumerate(statements))
        file.flush()
        answer = chdb.query(  # type: ignore[no-untyped-call]
            "SELECT formatQueryOrNull(sql) AS formatted "
            "FROM file({file:String}, JSONEachRow, 'number UInt16, sql String') ORDER BY number",
            "JSONEachRow",
            params={"file": file.name},
        )
    return [json.loads(line)["formatted"] for line in str(answer).splitlines()]


def _words(sql: str) -> list[str]:
    """Return the words but for what the engine adds, leaves out or moves: parentheses, ASC, comments, quotes."""
    code = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--"))
    words = (_plain(token) for token in _TOKEN.findall(_TEXT_OF_COMMENT.sub("", _with_dots(code))))
    return [part for word in words for part in word if part not in {"(", ")", "ASC"}]


def _plain(token: str) -> list[str]:
    if token.startswith("`"):  # of a parameterised view the engine quotes database and name as one
        return re.findall(r"\w+|[^\s\w]", token.strip("`"))
    if token.startswith("'"):
        return [" ".join(token.replace("''", "'").replace("\\'", "'").replace("\\n", " ").split())]
    return [token]


def _with_dots(code: str) -> str:
    """Return ``tupleElement(each, 'name')`` as ``each.name``, one by place as ``each.1``."""
    while (start := code.find(_ELEMENT)) >= 0:
        inside = start + len(_ELEMENT)
        depth, end = 1, inside
        while depth:
            depth += (code[end] == "(") - (code[end] == ")")
            end += 1
        element = _ELEMENT_NAME.fullmatch(code[inside : end - 1])
        if element is None:
            return code
        code = f"{code[:start]}({element['of']}).{element['name'] or element['place']}{code[end:]}"
    return code


if __name__ == "__main__":
    sys.exit(main())
