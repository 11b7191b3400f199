"""What ``gua run`` does once its options are read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gua.app.labels import labels_of
from gua.app.local_agent import places
from gua.app.output import say
from gua.app.reserving import become, described, environment, patience, reserve, wanted
from gua.core.durations import parse_duration_ms
from gua.core.errors import UsageError
from gua.state.directory import asking_home


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """The options of ``gua run`` and its command, as they were given."""

    program: tuple[str, ...]
    gpus: int | None = None
    gpu_ids: str | None = None
    timeout: str | None = None
    note: str | None = None
    label: tuple[str, ...] | None = None
    wait: str | None = None
    nonblock: bool = False
    visible: str = "index"
    accept_unknown: bool = False
    beside_scheduler: bool = False
    socket: Path | None = None
    state_dir: Path | None = None


def run_with_cards(options: RunOptions) -> NoReturn:
    """Reserve cards and become the command. Raises GuaError where that cannot be."""
    if options.visible not in {"index", "uuid"}:
        msg = f"--visible is {options.visible!r}: give index or uuid"
        raise UsageError(msg)
    timeout_ms = None if options.timeout is None else parse_duration_ms(options.timeout)
    request = {
        "kind": "run",
        **wanted(options.gpus, options.gpu_ids),
        "note": options.note,
        "labels": labels_of(options.label or ()),
        "wait_ms": patience(options.wait, nonblock=options.nonblock),
        "accept_unknown": options.accept_unknown,
        "beside_scheduler": options.beside_scheduler,
    }
    tried = places(options.socket, asking_home(options.state_dir, os.environ))
    grant = reserve(tried, request, say=lambda line: say(f"gua: {line}", to_stderr=True))
    say(f"gua: reserved {described(grant.reservation)}", to_stderr=True)
    environ = environment(grant, os.environ, by_uuid=options.visible == "uuid")
    become(options.program, grant, environ, timeout_ms=timeout_ms)
