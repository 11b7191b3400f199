"""Asks a store several questions at the same time, where it takes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from gua.core.ports import ViewReader
from gua.core.view import View

R = TypeVar("R")
# Returns the rows of a question, or raises what it raised.
Answer = Callable[[], Sequence[R]]


def ask(reader: ViewReader, view: View[R], parameters: Mapping[str, object]) -> Answer[R]:
    """Ask for the rows of a view; a reader that takes one question at a time is asked when the rows are wanted.

    A server spends most of a report's time on making plans, one thread a question: questions that do not need each
    other's answers are asked at once.
    """
    if not reader.is_concurrent:
        return lambda: view.rows(reader, parameters)
    return _Asked(reader, view, parameters)


def ask_if(
    reader: ViewReader, wanted: Callable[[], object], view: View[R], parameters: Mapping[str, object]
) -> Answer[R]:
    """Ask for the rows of a view once another question's answer is there and not empty; else there are none."""
    if not reader.is_concurrent:
        return lambda: view.rows(reader, parameters) if wanted() else ()
    return _Asked(reader, view, parameters, wanted)


class _Asked(Generic[R]):
    """A question under way. Its thread holds up no exit: a report that was given up does not wait for the server."""

    def __init__(
        self,
        reader: ViewReader,
        view: View[R],
        parameters: Mapping[str, object],
        wanted: Callable[[], object] = lambda: True,
    ) -> None:
        self._wanted = wanted
        self._rows: Sequence[R] = ()
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._ask, args=(reader, view, parameters), name=f"view-{view.name}", daemon=True
        )
        self._thread.start()

    def __call__(self) -> Sequence[R]:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._rows

    def _ask(self, reader: ViewReader, view: View[R], parameters: Mapping[str, object]) -> None:
        try:
            if self._wanted():
                self._rows = view.rows(reader, parameters)
        except BaseException as error:  # noqa: BLE001 - raised where the rows are wanted
            self._error = error
