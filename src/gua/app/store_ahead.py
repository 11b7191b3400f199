"""The store that a command is about to ask is opened while the command's own modules are imported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from gua.app.store_address import store_address
from gua.core.errors import GuaError
from gua.store import ahead
from gua.store.dsn import EmbeddedDsn, parse_dsn
from gua.store.engine import is_installed

_OPTION = "--store"
_ELSEWHERE = frozenset(("-h", "--help", "--socket"))


def open_ahead(arguments: Sequence[str]) -> None:
    """Begin to open the embedded store that these arguments of a command name, or the default one, if it is there.

    Nothing is said and nothing made. A guess that is wrong costs what it takes.
    """
    names = [argument.partition("=")[0] for argument in arguments]
    if _ELSEWHERE.intersection(names):
        return
    given = None
    for name, argument, after in zip(names, arguments, [*arguments[1:], ""], strict=False):
        if name == _OPTION:
            given = after if argument == _OPTION else argument.partition("=")[2]
    with suppress(GuaError, OSError):
        parsed = parse_dsn(store_address(given), password=os.environ.get("GUA_STORE_PASSWORD"))
        if isinstance(parsed, EmbeddedDsn) and is_installed():
            ahead.begin(parsed.path)
