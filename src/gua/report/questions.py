"""Reads several views of a store at the same time, where it takes that, and records which views a report reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from gua.core.ports import Row, ViewReader
from gua.core.view import View

R = TypeVar("R")
# Returns the rows of a question, or raises what it raised.
Answer = Callable[[], Sequence[R]]


def ask(
    reader: ViewReader, view: View[R], parameters: Mapping[str, object], only_if: Callable[[], object] | None = None
) -> Answer[R]:
    """Query the rows of a view; there are none where the answer of ``only_if`` is empty."""
    return start(reader, lambda: view.rows(reader, parameters) if only_if is None or only_if() else ())


def start(reader: ViewReader, rows: Answer[R]) -> Answer[R]:
    """Run a query in a thread; where a reader takes one query at a time, when the rows are wanted.

    A server spends most of a report's time on making plans, one thread a query: queries that do not need each other's
    answers run at once.
    """
    if not reader.is_concurrent:
        return rows
    answer: Future[Sequence[R]] = Future()

    def run() -> None:
        try:
            answer.set_result(rows())
        except BaseException as error:  # noqa: BLE001 - raised where the rows are wanted
            answer.set_exception(error)

    # The thread holds up no exit: a report that was given up does not wait for the server.
    threading.Thread(target=run, daemon=True).start()
    return answer.result


Question = tuple[str, Mapping[str, object]]
"""A view and its parameters."""


class RecordingReader:
    """A store that answers as the one behind it does, and keeps the questions in the order in which they came."""

    def __init__(self, reader: ViewReader) -> None:
        self._reader = reader
        self.questions: list[Question] = []

    @property
    def is_concurrent(self) -> bool:
        """Whether several threads may ask at the same time: the order of questions would be another each time."""
        return False

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        """Return the rows of a view, and remember that it was asked for."""
        self.questions.append((view, dict(parameters)))
        return self._reader.rows(view, parameters)
