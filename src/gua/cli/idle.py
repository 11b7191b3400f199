"""``gua idle``: whether a card, or what somebody has on cards, has been idle for some time, as exit code."""

import json
import os
import sys
from dataclasses import asdict
from typing import Annotated, Final

from gua.app.local_agent import first_response, places
from gua.app.output import safe
from gua.cli.options import AgentStateOption, SocketOption, flag, value
from gua.core.errors import DataError, GuaError, UsageError
from gua.core.moments import parse_duration_ms
from gua.local_socket.client import query_status
from gua.report.status.idle import Idleness, IdleVerdict, JudgedPart, idleness
from gua.state.directory import reading_home

SCHEMA: Final = "gua.idle/1"
EXIT_CODES: Final = {IdleVerdict.IDLE: 0, IdleVerdict.IN_USE: 1, IdleVerdict.UNKNOWN: 3}


def command(
    *,
    duration: Annotated[str, value("DURATION", "GUA_IDLE_FOR", "For how long, as in 30m.", "--for")] = "30m",
    card: Annotated[str | None, value("GPU", "GUA_IDLE_CARD", "Index or UUID of a card.")] = None,
    pid: Annotated[str | None, value("PID", "GUA_IDLE_PID", "A process.")] = None,
    user: Annotated[str | None, value("NAME", "GUA_IDLE_USER", "A user: name or uid.")] = None,
    job: Annotated[str | None, value("ID", "GUA_IDLE_JOB", "A Slurm job.")] = None,
    pod: Annotated[str | None, value("NAMESPACE/NAME", "GUA_IDLE_POD", "A pod, also by its uid.")] = None,
    container: Annotated[str | None, value("ID", "GUA_IDLE_CONTAINER", "A container, by its whole id.")] = None,
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.idle/1".')] = False,
    socket: SocketOption = None,
    state_dir: AgentStateOption = None,
) -> int:
    """Tell whether cards have been idle for some time, by the agent of this host: for cullers and job scripts.

    Cards are idle while idle-held or truly-idle; a process while its own utilization is low; an allocation while it has
    no process. Without an option all cards are meant.

    Exit codes: 0 idle for that long; 1 in use, or not for that long; 3 unknown, as when the agent does not run, a value
    cannot be read, or the time was not observed. Never treat 3 as idle.

    Example:
        gua idle --for 30m --card 0
        gua idle --for 2h --job 4711 --json
        gua idle --for 1h --pod team-a/notebook-0 && echo "its GPU is idle"
    """
    for_ms = parse_duration_ms(duration)
    options = {"card": card, "pid": pid, "user": user, "job": job, "pod": pod, "container": container}
    selected = [(kind, text) for kind, text in options.items() if text is not None]
    if len(selected) > 1:
        raise UsageError(f"one thing is judged at a time: give --{selected[0][0]} or --{selected[1][0]}, not both")
    kind, text = selected[0] if selected else ("", "")
    try:
        status = first_response(places(socket, reading_home(state_dir, os.environ)), query_status)
        answer = idleness(status, kind, text, for_ms=for_ms)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError("the agent's answer is not what this gua understands: use the same version for both") from None
    except GuaError as error:
        part = JudgedPart(what="agent", verdict=IdleVerdict.UNKNOWN, why=str(error))
        answer = Idleness(verdict=IdleVerdict.UNKNOWN, reason=str(error), parts=(part,))
    if as_json:
        known = {IdleVerdict.IDLE: True, IdleVerdict.IN_USE: False}.get(answer.verdict)
        parts = [asdict(part) for part in answer.parts]
        made = {"schema": SCHEMA, "idle": known, "for_seconds": for_ms / 1000, "reason": answer.reason, "parts": parts}
        sys.stdout.write(json.dumps(made, indent=2) + "\n")
    else:
        sys.stdout.write(f"{answer.verdict}: {safe(answer.reason)}\n")
    return EXIT_CODES[answer.verdict]
