"""Problems of hosts: silent, one name used by two agents, a clock that differs from the server's."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from gua.core.parameters import BOUNDS
from gua.core.ports import ViewReader
from gua.core.view import Moment, View
from gua.report.filters import Labels
from gua.report.kit.fields import filled
from gua.report.model import Claim, Claimant, Silent, Skew


class LabelsRow(NamedTuple):
    """A host's labels as of its newest tick."""

    host: str
    labels: Mapping[str, str]


class FleetRow(NamedTuple):
    """A host that is silent, or whose clock differs from the server's by this many ms."""

    host: str
    last_ms: Moment
    is_silent: bool
    ahead_ms: int | None
    behind_ms: int | None


LABELS: Final = View("labels", LabelsRow)
FLEET: Final = View("fleet", FleetRow, BOUNDS)
CLAIMS: Final = View("host_name_conflicts", Claimant, BOUNDS)


def labels(reader: ViewReader) -> Labels:
    """Return every host's labels as of its newest tick."""
    return {row.host: row.labels for row in LABELS.rows(reader, {})}


def troubles(found: Iterable[FleetRow]) -> tuple[tuple[Silent, ...], tuple[Skew, ...]]:
    """Return the silent hosts and the clock differences from rows of the view ``fleet``."""
    rows = sorted(found, key=lambda row: row.host)
    silent = tuple(Silent(host=row.host, since_ms=row.last_ms) for row in rows if row.is_silent)
    skewed = (row for row in rows if row.ahead_ms is not None or row.behind_ms is not None)
    return silent, tuple(filled(Skew, row) for row in skewed)


def claims(found: Iterable[Claimant]) -> tuple[Claim, ...]:
    """Return host names used by several agents at once, with the agents, from the view ``host_name_conflicts``."""
    rows = sorted(found, key=lambda row: (row.host, row.first_ms, row.instance, row.host_id))
    return tuple(Claim(host=host, agents=tuple(group)) for host, group in groupby(rows, key=lambda row: row.host))
