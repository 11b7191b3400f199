"""Remembers what a report asks of a store, for those who want to ask it themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gua.core.ports import Row, ViewReader

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
