"""``gua status``: whether the agent is running, and the cards' current state."""

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

from gua.app.local_agent import first_response, other_agent, places
from gua.cli.options import (
    AgentStateOption,
    PidFileOption,
    SocketOption,
    StoreOption,
    WidthOption,
    check_width,
    flag,
    style_for,
    value,
)
from gua.core.errors import DataError, GuaError, UnavailableError, UsageError
from gua.local_socket.client import NobodyError, query_status
from gua.state.directory import Home, reading_home

STALLED: Final = 1
NARROWEST: Final = 60
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?i?b?|%)", re.ASCII | re.IGNORECASE)
_LARGEST_BYTES: Final = 10 * 2**40


class StatusUnknownError(GuaError):
    """Whether the agent works is unknown; 4 is the Linux Standard Base's exit code for that."""

    exit_code = 4


def command(
    *,
    as_json: Annotated[
        bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.status/1", or "gua.status.all/1".')
    ] = False,
    memory_threshold: Annotated[
        str | None,
        value(
            "SIZE",
            "GUA_MEMORY_THRESHOLD",
            "Judge the cards by this much held memory (512MiB, 1.5GB, or 5% of the card; a number alone is MiB) "
            "instead of the agent's own threshold.",
        ),
    ] = None,
    every: Annotated[
        bool, flag("--all", "GUA_ALL", "Every host of the store that --store names, instead of this host's agent.")
    ] = False,
    store: StoreOption = None,
    socket: SocketOption = None,
    state_dir: AgentStateOption = None,
    pid_file: PidFileOption = None,
    width: WidthOption = None,
) -> int:
    """Show whether the agent of this host runs, and the cards as they are now.

    FOR is how long a card has been in its state as far as the agent saw it: with a >= it may be longer.

    Exit codes, as systemctl has them: 0 the agent runs; 1 it runs and makes no ticks; 3 none runs; 4 it is
    unknown whether it works, as it does not answer or denies access. 2 is wrong usage.

    With --all, a line a host of the store: 1 if any agent's host is silent (no tick for 3 intervals and 5 minutes),
    3 if the store cannot be read.

    Example:
        gua status
        gua status --all --store clickhouse://gua_reader@clickhouse:8123
        gua status --json --memory-threshold 1024MiB
    """
    check_width(width, narrowest=NARROWEST)
    if every:
        if memory_threshold not in {None, os.environ.get("GUA_MEMORY_THRESHOLD")}:
            msg = "--memory-threshold is for the cards of this host: those of --all are judged by the store's rules"
            raise UsageError(msg)
        return _all(store, width, as_json=as_json)
    threshold = None if memory_threshold is None else parse_threshold(memory_threshold)
    home = reading_home(state_dir, os.environ)
    tried = places(socket, home)
    try:
        status = first_response(tried, query_status)
    except GuaError as error:
        _give_up(error, tried, Home(home), pid_file, as_json=as_json)
    from gua.report.status.text import render_status  # noqa: PLC0415 - after the response

    try:
        status = status if threshold is None else with_threshold(status, threshold)
        style = style_for(sys.stdout, width, os.environ, narrowest=NARROWEST)
        text = json.dumps(status, indent=2) + "\n" if as_json else render_status(status, style)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, UsageError):
        raise DataError("the agent's answer is not what this gua understands: use the same version for both") from None
    sys.stdout.write(text)
    return STALLED if status.get("stalled") else 0


def _all(store: str | None, width: int | None, *, as_json: bool) -> int:
    from gua.app import opening  # noqa: PLC0415 - a store, only for --all
    from gua.report.status import fleet  # noqa: PLC0415 - a store, only for --all

    with opening.open_reader(store) as reader:
        hosts = fleet.hosts_now(reader)
    style = style_for(sys.stdout, width, os.environ, narrowest=NARROWEST)
    sys.stdout.write(fleet.to_json(hosts) if as_json else fleet.to_text(hosts, style))
    return fleet.SILENT if any(host["silent"] for host in hosts) else 0


def parse_threshold(text: str) -> dict[str, Any]:
    """Return the setting of the rules: bytes, or a ratio (0 to 1) of the card's memory. Raises UsageError.

    A number alone is MiB, as in canhazgpu.
    """
    from gua.imports.values import BYTES_PER_UNIT, MIB  # noqa: PLC0415 - only with this option

    match = _SIZE.fullmatch(text.strip())
    number, unit = (match.group(1), match.group(2).lower()) if match else ("", "?")
    if unit == "%" and float(number) <= 100:
        return {"held_memory_ratio": float(number) / 100}
    factor = MIB if not unit else BYTES_PER_UNIT.get(unit, BYTES_PER_UNIT.get(f"{unit}ib"))
    if factor is None or float(number) * factor > _LARGEST_BYTES:
        raise UsageError(f"--memory-threshold {text!r} is no size of memory: write it as in 512MiB, 1.5GB or 5%")
    return {"held_memory_bytes": round(float(number) * factor)}


def with_threshold(status: dict[str, Any], threshold: dict[str, Any]) -> dict[str, Any]:
    """Return the status with its cards classified by another threshold, as :func:`parse_threshold` returns it.

    The agent's own threshold remains for a ratio of a card with unknown memory.
    """
    from gua.agent.card_status import parse_rules, reclassify  # noqa: PLC0415 - only for another threshold

    own = parse_rules(status["rules"])
    held = {"held_memory_bytes": 0, "held_memory_ratio": 0.0, **threshold}
    judged = replace(own, **held)
    is_ratio = "held_memory_ratio" in threshold
    return {
        **status,
        "rules": {**status["rules"], **held},
        "cards": [
            reclassify(card, own if is_ratio and card["memory_limit_bytes"] is None else judged)
            for card in status["cards"]
        ],
    }


def _give_up(error: GuaError, tried: Sequence[Path], home: Home, pid_file: Path | None, *, as_json: bool) -> NoReturn:
    """Raise UnavailableError if no agent runs, StatusUnknownError if one may run and does not answer."""
    if isinstance(error, NobodyError):
        problem = _silent_agent(tried, home, pid_file or home.pid_file)
    else:
        problem = StatusUnknownError(str(error)) if isinstance(error, UnavailableError) else error
    if as_json:
        runs = False if isinstance(problem, UnavailableError) else None
        status = {"schema": "gua.status/1", "running": runs, "problem": str(problem)}
        sys.stdout.write(json.dumps(status, indent=2) + "\n")
    raise problem from None


def _silent_agent(tried: Sequence[Path], home: Home, pid_file: Path) -> GuaError:
    from gua.procfs.reader import ProcFs  # noqa: PLC0415 - as above
    from gua.state.pid_file import last_failure, running  # noqa: PLC0415 - only if no agent answers

    try:
        agent = running(pid_file, ProcFs())
    except UnavailableError as error:
        return StatusUnknownError(str(error))
    if agent is not None:
        return StatusUnknownError(
            f"the agent (pid {agent.pid}) runs and does not listen at {tried[0]}: it is starting or stopping, or its "
            "socket was removed; see its log, or gua stop and gua start"
        )
    elsewhere = other_agent(os.environ)
    if elsewhere is not None:
        return StatusUnknownError(elsewhere)
    failure = last_failure(home.log_file)
    if failure is not None:
        msg = f"no agent runs here, as the last start failed ({failure}); all that it needs is checked by gua doctor"
        return UnavailableError(msg)
    where = " or ".join(map(str, tried))
    return UnavailableError(f"no agent runs here: none listens at {where}; start one with gua daemon")
