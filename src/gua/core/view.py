"""Declarations of views: rows and parameters, from which reading, validation and tests derive.

A row is a class with typed fields (a NamedTuple or a dataclass), one for each column that is read. The annotations
define valid values: plain types, the kinds below, ``| None`` if unknown is possible, ``tuple[Row, ...]`` for an
array of tuples. Dataclass fields with a default are not columns of the view.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar, get_args, get_origin, get_type_hints

from gua.core.errors import UnavailableError
from gua.core.ports import Row, ViewReader
from gua.core.rules import ProcessState, State
from gua.core.untrusted import (
    Check,
    is_count,
    is_flag,
    is_labels,
    is_like,
    is_list_of,
    is_moment,
    is_number,
    is_row_of,
    is_text,
    is_whole,
    is_within,
    is_word_of,
    or_unknown,
)

R = TypeVar("R")


# Types with the check of a value beyond its type.
Count = Annotated[int, is_count]
Moment = Annotated[int, is_moment]
HourOfDay = Annotated[int, is_within(0, 23)]
Weekday = Annotated[int, is_within(1, 7)]
Date = Annotated[str, is_like(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")]
StateName = Annotated[str, is_word_of(*State)]
ProcessStateName = Annotated[str, is_word_of(*ProcessState)]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the check for untrusted values, the conversion to a field's value, and its ClickHouse types (a regex).

    ``is_text``: it holds only strings or tuples of strings, so that equal values can share one object. ``field`` is the
    row's field, if it has another name.
    """

    check: Check
    read: Callable[[Any], Any]
    types: str
    is_text: bool = False
    field: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """An annotation: the view's name of a column, where it differs from the field's."""

    column: str


@dataclass(frozen=True, slots=True)
class View(Generic[R]):
    """A view of ``gua_report``: its name, the class of its rows, and its parameters."""

    name: str
    row: Callable[..., R]
    parameters: tuple[str, ...] = ()

    @property
    def columns(self) -> Mapping[str, Column]:
        """Return the columns that are read, by name."""
        return _columns(self.row)

    def rows(self, reader: ViewReader, parameters: Mapping[str, object]) -> list[R]:
        """Return the view's rows from a store; parameters that the view does not have are left out."""
        return self.parsed(reader.rows(self.name, {name: parameters[name] for name in self.parameters}))

    def parsed(self, rows: Iterable[Row]) -> list[R]:
        """Return rows from a store as objects of the row class.

        Raises UnavailableError if a column is missing, as with the views of another version.
        """
        columns = [(column.field or name, name, _reading(column)) for name, column in self.columns.items()]
        try:
            return [
                self.row(**{field: row[name] if read is None else read(row[name]) for field, name, read in columns})
                for row in rows
            ]
        except KeyError as error:
            if error.args[0] not in self.columns:
                raise
            raise UnavailableError(
                f"the view {self.name} is of another version of gua, it lacks {error.args[0]}: "
                "on a server run gua schema apply with this version"
            ) from None


def _same(value: object) -> object:
    return value


def _reading(column: Column) -> Callable[[Any], Any] | None:
    """Return the conversion of a column's values; ``None`` if they need none."""
    if column.read is _same:
        return None
    return _each_once(column.read) if column.is_text else column.read


def _each_once(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a conversion that yields one shared object for equal tuples of strings, which agents send as lists."""
    made: dict[tuple[str | None, ...], Any] = {}

    def of(value: Any) -> Any:  # noqa: ANN401 - as annotations
        if value is None:
            return None
        key = tuple(value)
        if key not in made:
            made[key] = read(value)
        return made[key]

    return of


_PLAIN: Final[Mapping[object, Column]] = {
    int: Column(is_whole, _same, r"U?Int\d+"),
    float: Column(is_number, _same, r"Float64|U?Int\d+"),
    bool: Column(is_flag, bool, "UInt8|Bool"),
    str: Column(is_text, _same, "String", is_text=True),
    Mapping[str, str]: Column(is_labels, dict, r"Map\(String, String\)"),
}


@cache
def _columns(row: Callable[..., object]) -> Mapping[str, Column]:
    defaults = {one.name for one in fields(row) if one.default is not MISSING} if is_dataclass(row) else set()
    columns = {}
    for name, annotation in get_type_hints(row, include_extras=True).items():
        named = next((one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Named)), None)
        if name not in defaults:
            columns[named.column if named else name] = replace(_column(annotation), field=name)
    return columns


def _column(annotation: Any) -> Column:  # noqa: ANN401 - annotations have no type of their own
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin is Annotated:
        known = _column(arguments[0])
        checks = [one for one in arguments[1:] if callable(one)]  # units of output are not
        return replace(known, check=checks[0]) if checks else known
    if type(None) in arguments:
        known = _column(next(argument for argument in arguments if argument is not type(None)))
        read = _same if known.read is _same else lambda value: None if value is None else known.read(value)
        return Column(or_unknown(known.check), read, rf"Nullable\((?:{known.types})\)", known.is_text)
    if origin is tuple:
        item = _column(arguments[0])
        return Column(
            is_list_of(item.check), lambda values: tuple(map(item.read, values)), rf"Array\((?:{item.types})\)"
        )
    parts = tuple(_columns(annotation).values())
    return Column(
        is_row_of(*(part.check for part in parts)),
        lambda values: annotation(*(part.read(value) for part, value in zip(parts, values, strict=True))),
        r"Tuple\({}\)".format(", ".join(f"(?:{part.types})" for part in parts)),
        all(part.is_text for part in parts),
    )
