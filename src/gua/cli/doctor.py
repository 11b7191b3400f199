"""``gua doctor``: everything that gua needs on this host, looked at without changing anything."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

from gua.app.doctor import delivery, driver, processes, state, system
from gua.app.doctor.finding import CheckState, Finding, failed
from gua.cli.options import (
    AgentStateOption,
    EndpointOption,
    PidFileOption,
    ProcfsOption,
    StoreOption,
    flag,
)
from gua.core.errors import UnavailableError
from gua.core.plaintext import safe
from gua.core.ports import CardReader
from gua.procfs.reader import ProcFs
from gua.state.directory import Home, home_path

SCHEMA: Final = "gua.doctor/1"
_NARROWEST: Final = 40
_WIDEST: Final = 120
_MARKS: Final = {
    CheckState.OK: "ok",
    CheckState.WARNING: "warning",
    CheckState.FAILED: "FAILED",
    CheckState.SKIPPED: "-",
}
# A driver that is not kept loaded takes seconds a card to wake up.
_START_SECONDS: Final = 30.0

Check = Callable[[], Iterable[Finding]]


def command(
    *,
    store: StoreOption = None,
    endpoint: EndpointOption = None,
    state_dir: AgentStateOption = None,
    procfs: ProcfsOption = Path("/proc"),
    pid_file: PidFileOption = None,
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.doctor/1".')] = False,
) -> int:
    """Check everything that gua needs here, and say what to do.

    Reads only: nothing is made, changed or sent but one empty request to an endpoint. Works without a GPU and
    without the embedded engine.

    Exit codes: 0 nothing failed, though there may be warnings; 3 something that the agent needs failed.

    Example:
        gua doctor
        gua doctor --endpoint https://collector.example:4318
        gua doctor --json
    """
    home = home_path(state_dir, os.environ)
    findings = list(run_checks(checks(store=store, endpoint=endpoint, home=home, procfs=procfs, pid_file=pid_file)))
    sys.stdout.write(render_json(findings) if as_json else render_text(findings, _width()))
    return UnavailableError.exit_code if any(one.state is CheckState.FAILED for one in findings) else 0


def checks(
    *, store: str | None, endpoint: str | None, home: Path, procfs: Path, pid_file: Path | None
) -> list[tuple[str, Check]]:
    """Return every check by what it is about, in the order in which things depend on each other."""
    host = ProcFs(procfs)
    return [
        ("system", system.check_system),
        ("driver", lambda: driver.check_driver(Path("/dev"), lambda: _reader(host))),
        ("processes", lambda: processes.check_processes(host)),
        ("clock", lambda: system.check_clock(time.time(), host.boot_id(), system.kernel_synchronized())),
        ("state", lambda: state.check_state(home)),
        ("delivery", lambda: delivery.check_delivery(store, endpoint, home, os.environ)),
        ("agent", lambda: [state.check_agent(pid_file or Home(home).pid_file, os.environ)]),
        ("systemd", lambda: [state.check_unit(Path("/"), user=_own_home())]),
    ]


def run_checks(named: Sequence[tuple[str, Check]]) -> Iterator[Finding]:
    """Run one check after the other; one that breaks hides none of the others."""
    for name, check in named:
        try:
            yield from check()
        except Exception as error:  # noqa: BLE001 - whatever it is, the rest is worth knowing
            what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            where = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
            yield failed(
                name, name, f"could not be checked: {type(error).__name__}: {what}{where}", "report it, with this line"
            )


def render_json(findings: Sequence[Finding]) -> str:
    """Return the findings as one object."""
    return (
        json.dumps(
            {
                "schema": SCHEMA,
                "healthy": all(one.state is not CheckState.FAILED for one in findings),
                "checks": [
                    {
                        "id": safe(one.id),
                        "title": safe(one.title),
                        "state": one.state.value,
                        "detail": safe(one.detail),
                        "remedy": None if one.remedy is None else safe(one.remedy),
                    }
                    for one in findings
                ],
            },
            indent=2,
        )
        + "\n"
    )


def render_text(findings: Sequence[Finding], width: int) -> str:
    """Return a line a check, what to do below it, and the sum of it."""
    marks = max(map(len, _MARKS.values()))
    titles = max((len(safe(one.title)) for one in findings), default=0)
    margin = " " * (marks + titles + 4)
    lines: list[str] = []
    for one in findings:
        head = f"{_MARKS[one.state]:<{marks}}  {safe(one.title):<{titles}}  "
        lines += _wrapped(safe(one.detail), width, first=head, rest=margin)
        if one.remedy and one.state in {CheckState.WARNING, CheckState.FAILED}:
            lines += _wrapped(safe(one.remedy), width, first=f"{margin}-> ", rest=f"{margin}   ")
    count = {kind: sum(one.state is kind for one in findings) for kind in CheckState}
    warnings = f"{count[CheckState.WARNING]} warning{'' if count[CheckState.WARNING] == 1 else 's'}"
    verdict = f"{count[CheckState.FAILED]} failed" if count[CheckState.FAILED] else "nothing failed"
    return "\n".join([*lines, "", f"{verdict}, {warnings}"]) + "\n"


def _wrapped(text: str, width: int, *, first: str, rest: str) -> list[str]:
    # A path or a uuid is worth more in one piece than within the margin.
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    ) or [first.rstrip()]


def _width() -> int:
    return min(max(shutil.get_terminal_size((100, 24)).columns, _NARROWEST), _WIDEST)


def _reader(host: ProcFs) -> CardReader:
    from gua.nvml.reader import NvmlReader  # noqa: PLC0415 - only where the library loads
    from gua.procfs.clock import SystemClock  # noqa: PLC0415 - as above

    return NvmlReader(SystemClock(host), start_limit_seconds=_START_SECONDS)


def _own_home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None
