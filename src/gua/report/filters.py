"""Selection of a report's hosts by name, cluster and label; labels are resource attributes of their agents."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gua.core.errors import UsageError
from gua.core.plaintext import few
from gua.report.model import Filter

HOST_KEY: Final = "host.name"
CLUSTER_KEY: Final = "k8s.cluster.name"
_MOST_NAMED: Final = 12
_LONGEST: Final = 60
# Attributes that every agent sets; listed last, because users look for their own labels.
_OWN: Final = ("gua.", "host.", "process.", "service.", "telemetry.")

Labels = Mapping[str, Mapping[str, str]]
"""The labels of every host, by host name."""


Conditions = Mapping[str, frozenset[str]]
"""The labels that a host must have: for each key one of its values."""


def parse_conditions(clusters: Sequence[str], where: Sequence[str]) -> Conditions:
    """Return the conditions of ``--cluster NAME`` and ``--where KEY=VALUE``. Raises UsageError for a bad pair."""
    wanted: dict[str, frozenset[str]] = {}
    pairs = [(CLUSTER_KEY, name) for name in clusters]
    for text in where:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--where {short(text)!r} is no label: write KEY=VALUE, as in team=vision")
        pairs.append((key.strip(), value))
    for key, value in pairs:
        wanted[key] = wanted.get(key, frozenset()) | {value}
    return wanted


def choose_hosts(conditions: Conditions, hosts: Iterable[str], labels: Labels) -> list[str]:
    """Return the hosts that meet every condition, sorted.

    Raises UsageError for a label that no host has, and where no host meets all of them; it lists the existing ones.
    """
    among = {host: labels.get(host, {}) for host in hosts}
    for key, values in sorted(conditions.items()):
        check_key(key, among)
        if not any(of_host.get(key) in values for of_host in among.values()):
            counted = Counter(of_host[key] for of_host in among.values() if key in of_host)
            counts = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
            known = few([short(f"{short(value)} ({count})") for value, count in counts], _MOST_NAMED)
            raise UsageError(f"no host has {_or(key, values)}: {key} is {known}")
    chosen = [
        host for host in sorted(among) if all(among[host].get(key) in values for key, values in conditions.items())
    ]
    if not chosen:
        together = " and ".join(_or(key, values) for key, values in sorted(conditions.items()))
        raise UsageError(f"no host has {together} together: leave one of them out")
    return chosen


def filters(hosts: Sequence[str], conditions: Conditions, *, known: Iterable[str]) -> tuple[Filter, ...]:
    """Return the requested filters sorted by key, for printing; a list of all known hosts is no filter."""
    named = {HOST_KEY: frozenset(hosts)} if hosts and set(known) - set(hosts) else {}
    return tuple(
        Filter(key=key, values=tuple(sorted(values))) for key, values in sorted({**conditions, **named}.items())
    )


def check_key(key: str, labels: Labels) -> None:
    """Raise UsageError, listing the existing labels, if no host has a label with this key."""
    known = {one for of_host in labels.values() for one in of_host}
    if key not in known:
        ordered = sorted(known, key=lambda one: (one.startswith(_OWN), one))
        none = "none at all: set OTEL_RESOURCE_ATTRIBUTES for the agents"
        labels_known = few([*map(short, ordered)], _MOST_NAMED) or none
        raise UsageError(f"no host has a label {short(key)!r}: there are {labels_known}")


def _or(key: str, values: Iterable[str]) -> str:
    return " or ".join(f"{key}={short(value)}" for value in sorted(values))


def short(text: str) -> str:
    """Return text cut to 60 characters."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
