"""Conversion of model fields to JSON and CSV: a field's unit defines its name, value and columns.

A field with ``NO_OUTPUT`` as its dataclass metadata is in neither.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from types import NoneType
from typing import Annotated, Any, Final, Protocol, Self, TypeVar, cast, get_args, get_type_hints

from gua.core.moments import to_rfc3339
from gua.core.view import Named
from gua.report.states import MS_PER_HOUR, STATES, States, share

DECIMALS: Final = 6
NO_OUTPUT: Final = {"is_internal": True}
"""Metadata of a dataclass field that is only for gua itself."""
Cell = str | float | None
Cells = Mapping[str, Cell]
Json = dict[str, object]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class _OnCard(Protocol):
    @property
    def host(self) -> str: ...
    @property
    def gpu(self) -> str: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """The output of a value. JSON is rounded to six decimals, CSV has full precision; unknown stays ``None``.

    ``ending`` replaces ``_ms`` in names; ``name`` and ``column`` replace the whole name. A value of several ``columns``
    has ``cells`` for them. A value without ``columns`` and ``cell`` appears only in JSON.
    """

    json: Callable[[Any], object]
    cell: Callable[[Any], Cell] | None = None
    ending: str = "_ms"
    name: str | None = None
    column: str | None = None
    columns: tuple[str, ...] = ()
    cells: Callable[[Any], Cells] | None = None

    def named(self, name: str) -> Self:
        """Return the same unit with a fixed field name in JSON and CSV."""
        return replace(self, name=name)


def state_columns(ending: str) -> tuple[str, ...]:
    """Return a column name for each state."""
    return tuple(f"{state.replace('-', '_')}_{ending}" for state in STATES)


def hours(milliseconds: float) -> float:
    """Return milliseconds as hours, rounded to six decimals as in JSON."""
    return round(milliseconds / MS_PER_HOUR, DECIMALS)


def ratio(value: float | None) -> float | None:
    """Return a ratio rounded to six decimals as in JSON, ``None`` if unknown."""
    return None if value is None else round(value, DECIMALS)


def number(value: float) -> float:
    """Return a number rounded to six decimals, as an integer if it is whole."""
    return int(value) if value == int(value) else round(value, DECIMALS)


def states_json(states: States) -> Json:
    """Return all four states as a JSON object; ``card_ticks`` is left out where ticks are shared."""
    return {
        state: {
            **({} if states[state].card_ticks is None else {"card_ticks": states[state].card_ticks}),
            "gpu_hours": hours(states[state].gpu_ms),
            "share": ratio(share(states, state)),
        }
        for state in STATES
    }


def gpu_hours(states: States) -> dict[str, Cell]:
    """Return the columns of GPU-hours by state."""
    values = (states[state].gpu_ms / MS_PER_HOUR for state in STATES)
    return dict(zip(state_columns("gpu_hours"), values, strict=True))


def shares(states: States) -> dict[str, Cell]:
    """Return the columns of each state's share, 0 to 1."""
    return dict(zip(state_columns("share"), (share(states, state) for state in STATES), strict=True))


def _as_is(value: Cell) -> Cell:
    return value


HOURS: Final = Unit(json=hours, cell=lambda ms: ms / MS_PER_HOUR, ending="_hours")
SECONDS: Final = Unit(json=lambda ms: ms / 1000, cell=lambda ms: ms / 1000, ending="_seconds")
MOMENT: Final = Unit(json=to_rfc3339, cell=to_rfc3339, ending="")
RATIO: Final = Unit(json=ratio, cell=_as_is)
NUMBER: Final = Unit(json=number, cell=_as_is)
AS_IS: Final = Unit(json=_as_is, cell=_as_is)
STATES_UNIT: Final = Unit(json=states_json, columns=state_columns("gpu_hours"), cells=gpu_hours)

Hours = Annotated[T, HOURS]
"""Milliseconds, written as hours."""
Seconds = Annotated[T, SECONDS]
"""Milliseconds, written as seconds."""
Timestamp = Annotated[T, MOMENT]
"""Unix ms, written as RFC 3339 in UTC."""
FirstSeen = Annotated[T, MOMENT.named("first_seen")]
LastSeen = Annotated[T, MOMENT.named("last_seen")]
Ratio = Annotated[T, RATIO]
Number = Annotated[T, NUMBER]
"""A number, written without a fraction if it is whole."""
ByState = Annotated[States, STATES_UNIT]
"""GPU time by state: in CSV a column of GPU-hours for each."""


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    name: str
    unit: Unit | None
    is_cell: bool

    def json(self, model: object) -> object:
        value = getattr(model, self.attribute)
        if self.unit is None:
            return to_json(value)
        return None if value is None else self.unit.json(value)

    @property
    def columns(self) -> tuple[str, ...]:
        if self.unit and self.unit.columns:
            return self.unit.columns
        return (self.unit.column if self.unit and self.unit.column else self.name,) if self.is_cell else ()

    def cells(self, model: object) -> Mapping[str, Cell]:
        value = getattr(model, self.attribute)
        if self.unit and self.unit.cells:
            return dict.fromkeys(self.unit.columns) if value is None else self.unit.cells(value)
        if not self.is_cell:
            return {}
        cell = self.unit.cell if self.unit else None
        return {self.columns[0]: value if value is None or cell is None else cell(value)}


@cache
def _fields(kind: type) -> tuple[_Field, ...]:
    hints, plain, found = get_type_hints(kind, include_extras=True), get_type_hints(kind), []
    for attribute in (one.name for one in fields(kind) if not one.metadata.get("is_internal")):
        hint, name = plain[attribute], attribute
        unit = next((one for one in getattr(hints[attribute], "__metadata__", ()) if isinstance(one, Unit)), None)
        is_cell = set(get_args(hint) or (hint,)) <= {str, int, float, bool, NoneType}
        if unit is not None:
            ended = f"{name.removesuffix('_ms')}{unit.ending}" if name.endswith("_ms") else name
            name, is_cell = unit.name or ended, unit.cell is not None
        found.append(_Field(attribute, name, unit, is_cell))
    return tuple(found)


def to_json(value: object) -> object:
    """Return a JSON value: a model as an object of its fields, a tuple as a list, other values unchanged."""
    if is_dataclass(value):
        return json_of(value)
    if isinstance(value, tuple):
        return [to_json(one) for one in value]
    if isinstance(value, Mapping):
        return {key: to_json(one) for key, one in value.items()}
    return value


def json_of(model: Any) -> Json:  # noqa: ANN401 - any model
    """Return a model as a JSON object of its fields."""
    return {field.name: field.json(model) for field in _fields(model.__class__)}


def filled(
    kind: Callable[..., T],
    /,
    *rows: Any,  # noqa: ANN401 - rows of any view
    **given: object,
) -> T:
    """Return a model built from ``given`` fields; the others come from the first row that has them.

    A row may have a field under the name of its ``Named`` annotation, microseconds and millijoules as ``x_us`` and
    ``x_mj``. A field ``x_ms`` is also read from ``x_us``. A field that no row has keeps its default.
    """
    values = dict(given)
    for name, sources in _sources(cast("Any", kind)).items():
        if name not in given:
            values.update(_found(name, sources, rows))
    return kind(**values)


@cache
def _sources(kind: type) -> Mapping[str, tuple[str, ...]]:
    """Return the names under which rows may have each field of a model class."""
    hints = get_type_hints(kind, include_extras=True)
    names = {}
    for name in (field.name for field in fields(kind) if field.init):
        named = [one.column for one in getattr(hints[name], "__metadata__", ()) if isinstance(one, Named)]
        microseconds = [f"{name.removesuffix('_ms')}_us"] if name.endswith("_ms") else []
        names[name] = (name, *named, *microseconds)
    return names


def _found(name: str, sources: Sequence[str], rows: Iterable[Any]) -> dict[str, object]:
    for row in rows:
        known = getattr(row, "_fields", None) or row.__dataclass_fields__
        for source in sources:
            if source in known:
                value = getattr(row, source)
                return {name: value / 1000 if source != name and source.endswith(("_us", "_mj")) else value}
    return {}


def grouped(rows: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the rows of each key, keys and rows in input order."""
    found: dict[K, list[T]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def of_card(row: _OnCard) -> tuple[str, str]:
    """Return the key of a row's card: host and UUID."""
    return row.host, row.gpu


def columns(kind: type) -> tuple[str, ...]:
    """Return the CSV columns of a model class: one per number, text or moment, four for states."""
    return tuple(column for field in _fields(kind) for column in field.columns)


def cells(model: Any) -> dict[str, Cell]:  # noqa: ANN401 - any model
    """Return a model's cells by CSV column."""
    return {column: cell for field in _fields(model.__class__) for column, cell in field.cells(model).items()}
