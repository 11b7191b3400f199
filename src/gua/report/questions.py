"""Query several views of a store concurrently, where the reader supports it; record the views of a report."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from gua.core.ports import Row, ViewReader
from gua.core.view import View

R = TypeVar("R")
T = TypeVar("T")
# Returns the rows of a query, or raises its error.
Answer = Callable[[], Sequence[R]]


def ask(reader: ViewReader, view: View[R], parameters: Mapping[str, object]) -> Answer[R]:
    """Start the query of a view and return a callable for its rows."""
    return start(reader, lambda: view.rows(reader, parameters))


def start(reader: ViewReader, rows: Answer[R]) -> Answer[R]:
    """Start a query in a thread; without a concurrent reader it starts when its rows are used.

    A server spends most of a report's time on query planning, one thread per query. Independent queries therefore run
    concurrently.
    """
    return in_thread(rows).result if reader.is_concurrent else rows


def in_thread(call: Callable[[], T]) -> Future[T]:
    """Start a call in a thread and return its future result."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is used
            future.set_exception(error)

    # A daemon thread does not delay the exit: a cancelled report does not wait for the server.
    threading.Thread(target=run, daemon=True).start()
    return future


Question = tuple[str, Mapping[str, object]]
"""A view and its parameters."""


class RecordingReader:
    """A reader that forwards to another one and records the queries in order."""

    is_concurrent = False  # concurrent queries would be recorded in random order

    def __init__(self, reader: ViewReader) -> None:
        self._reader = reader
        self.is_embedded = reader.is_embedded
        self.questions: list[Question] = []

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        """Return the rows of a view and record the query."""
        self.questions.append((view, dict(parameters)))
        return self._reader.rows(view, parameters)
