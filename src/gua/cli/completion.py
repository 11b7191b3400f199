"""Completion by Tab: what may stand next on a command line of gua."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from zoneinfo import available_timezones

from gua.cli.commands import COMMANDS, load
from gua.cli.install_completion import OPTION, SCRIPTS
from gua.core.moments import WEEKDAYS
from gua.report.section_list import ALL, section_names
from gua.report.top.model import Snapshot
from gua.report.top.view import SORTS
from gua.report.window import USAGE_BY

LIMIT_SECONDS: Final = 1.5
# A name is typed for the user, who may not look: nothing that a shell would read as more than a word.
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@%+,/-]*", re.ASCII)


def print_completions(words: Sequence[str]) -> int:
    """Print, a line each, what may stand in the place of the last of the words after ``gua``; never an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    timer = threading.Timer(LIMIT_SECONDS, os._exit, (0,))  # whatever an engine or a server is at
    timer.daemon = True
    timer.start()
    try:
        found = completions(words)
    except Exception:  # noqa: BLE001 - nothing to propose is no reason to disturb who is typing
        return 0
    sys.stdout.write("".join(f"{word}\n" for word in found))
    return 0


def completions(words: Sequence[str]) -> list[str]:
    """Return what may stand in the place of the last of ``words``, which follow ``gua``."""
    *before, current = words or [""]
    before = [word for word in before if word != "="]  # bash makes a word of it
    current = "" if current == "=" else current
    option, equals, value = current.partition("=")
    if equals and option.startswith("--"):
        return [f"{option}={word}" for word in completions([*before, option, value])]
    if before[:1] == ["help"]:
        del before[0]
    if not before:
        shown = [name for name, entry in COMMANDS.items() if entry.summary]
        return _beginning(current, [*shown, "help"] if not current.startswith("-") else ["--help", "--version", OPTION])
    if before[0] == OPTION:
        return _beginning(current, SCRIPTS)
    if before[0] not in COMMANDS:
        return []
    from typer.main import get_command  # noqa: PLC0415 - the names of commands need none of it

    command: Any = get_command(load(before[0]))
    if not COMMANDS[before[0]].group:
        return _of_command(command, before[1:], current)
    below = command.commands[before[0]].commands
    return _beginning(current, below) if len(before) == 1 else _of_command(below[before[1]], before[2:], current)


def _of_command(command: Any, before: Sequence[str], current: str) -> list[str]:  # noqa: ANN401 - the library keeps the class private
    options = {name: one for one in command.params for name in one.opts if one.param_type_name == "option"}
    valued = {name: one for name, one in options.items() if not one.is_flag}
    if before and before[-1] in valued:
        return _values(valued[before[-1]].envvar, before, current)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    place = sum(last not in valued and not word.startswith("-") for last, word in pairwise(("", *before)))
    if current.startswith("-") or not arguments:
        return _beginning(current, options)
    return _values(arguments[min(place, len(arguments) - 1)].metavar, before, current)


def _values(kind: str, before: Sequence[str], current: str) -> list[str]:
    listed, comma, last = current.rpartition(",")
    values = filter(_PLAIN.fullmatch, _VALUES.get(kind, _fixed())(before))
    return [f"{listed}{comma}{word}" for word in _beginning(last, values)]


def _beginning(current: str, words: Iterable[str]) -> list[str]:
    return sorted({word for word in words if word.startswith(current)})


def _now(before: Sequence[str]) -> Snapshot:
    """Return what the agent knows, or the store that is named on the line or is this user's own."""
    from gua.cli.top import open_source  # noqa: PLC0415 - a store or an agent, only for names from there

    given = dict(pairwise(before))
    store, socket = given.get("--store") or os.environ.get("GUA_STORE"), given.get("--socket")
    with open_source(store, Path(socket) if socket else None, ()) as source:
        return source.ask()


def _hosts(before: Sequence[str]) -> Iterable[str]:
    return _now(before).hosts


def _host_or_card(before: Sequence[str]) -> Iterable[str]:
    """Return the cards of the host that was typed, else all hosts, and the cards by names that tell them apart."""
    now = _now(before)
    cards = [card for card in now.cards if card.host in before] or now.cards
    one_host = len({card.host for card in cards}) == 1
    indexes = [str(card.index) for card in cards if one_host and card.index is not None]
    return [*(() if cards is not now.cards else now.hosts), *indexes, *(card.gpu for card in cards)]


def _owners(before: Sequence[str]) -> Iterable[str]:
    return [holder.owner for holder in _now(before).holders if holder.owner]


def _fixed(*words: str) -> Callable[[Sequence[str]], Iterable[str]]:
    return lambda _before: words


# By the variable of an option, or the word that stands for an argument in the help.
_VALUES: Final[Mapping[str, Callable[[Sequence[str]], Iterable[str]]]] = {
    "GUA_SECTION": _fixed(*section_names(), ALL),
    "GUA_DEMO_SECTION": _fixed(*section_names(), ALL),
    "GUA_CSV": _fixed(*section_names()),
    "GUA_BY": _fixed(*USAGE_BY, "user", "host", "model", "cluster"),
    "GUA_SINCE": _fixed("today", "yesterday", *WEEKDAYS),
    "GUA_UNTIL": _fixed("today", "yesterday", *WEEKDAYS),
    "GUA_TIMEZONE": lambda _before: {*available_timezones(), "local"},
    "GUA_TOP_SORT": _fixed(*SORTS),
    "GUA_TOP_FILTER": _owners,
    "GUA_HOST": _hosts,
    "[HOST] CARD [TIME]": _host_or_card,
}
