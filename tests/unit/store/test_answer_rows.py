"""Answers are kept as the columns that came, and yielded row by row."""

from __future__ import annotations

from array import array

from clickhouse_connect.driver.query import QueryResult

from gua.store.database import AnswerRows, read_rows

HOST, PROGRAM = "a host with a long name", "a program with a long name"


def answer() -> AnswerRows:
    blocks = (
        [(text(HOST), text(HOST)), array("Q", [1, 2]), [None, text(PROGRAM)]],
        [(text(PROGRAM),), array("Q", [2**63]), [None]],
    )
    return read_rows(QueryResult(block_gen=iter(blocks), column_names=("host", "ms", "program")))  # type: ignore[arg-type]


def text(value: str) -> str:
    """Return equal text that is another object, as each value of an answer is."""
    return "".join(value)[:1] + value[1:]


def test_rows_are_those_of_all_blocks_as_often_as_they_are_read() -> None:
    rows = answer()

    expected = [
        {"host": HOST, "ms": 1, "program": None},
        {"host": HOST, "ms": 2, "program": PROGRAM},
        {"host": PROGRAM, "ms": 2**63, "program": None},
    ]
    assert list(rows) == expected
    assert list(rows) == expected
    assert len(rows) == 3


def test_a_text_of_many_rows_is_kept_once() -> None:
    first, second, _ = answer()

    assert text(HOST) is not text(HOST)
    assert first["host"] is second["host"]


def test_an_answer_without_rows_has_none() -> None:
    rows = read_rows(QueryResult(block_gen=iter(()), column_names=("host",)))  # type: ignore[arg-type]

    assert not list(rows)
    assert len(rows) == 0
    assert not rows


def test_a_tuple_of_texts_is_kept_once_and_numbers_stay_as_they_are() -> None:
    owners = [(text(HOST), None), (text(HOST), None)]
    whole, real = [(None,), (1,)], [(None,), (1.0,)]
    first, second = read_rows(
        QueryResult(block_gen=iter([[owners, whole, real]]), column_names=("owner", "whole", "real"))  # type: ignore[arg-type]
    )

    assert first["owner"] is second["owner"]
    assert (type(second["whole"][0]), type(second["real"][0])) == (int, float)
