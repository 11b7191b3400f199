"""Asks a store several questions at the same time, where it takes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from gua.core.ports import Row, ViewReader

# Returns the rows of a question, or raises what it raised.
Answer = Callable[[], Iterable[Row]]


def ask(reader: ViewReader, view: str, parameters: Mapping[str, object]) -> Answer:
    """Ask for the rows of a view; a reader that takes one question at a time is asked when the rows are wanted.

    A server spends most of a report's time on making plans, one thread a question: questions that do not need each
    other's answers are asked at once.
    """
    if not reader.is_concurrent:
        return lambda: reader.rows(view, parameters)
    return _Asked(reader, view, parameters)


class _Asked:
    """A question under way. Its thread holds up no exit: a report that was given up does not wait for the server."""

    def __init__(self, reader: ViewReader, view: str, parameters: Mapping[str, object]) -> None:
        self._rows: Iterable[Row] = ()
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._ask, args=(reader, view, parameters), name=f"view-{view}", daemon=True
        )
        self._thread.start()

    def __call__(self) -> Iterable[Row]:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._rows

    def _ask(self, reader: ViewReader, view: str, parameters: Mapping[str, object]) -> None:
        try:
            self._rows = reader.rows(view, parameters)
        except BaseException as error:  # noqa: BLE001 - raised where the rows are wanted
            self._error = error
