"""All checks in order of dependency; a crashing check does not stop the others."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from gua.app.doctor import allocation, delivery, driver, state
from gua.app.doctor.finding import Finding, failed
from gua.app.settings import AllocationSettings, source_openers
from gua.core.ports import CardReader
from gua.procfs.reader import ProcFs
from gua.state.directory import Home

# A driver without persistence mode takes seconds a card to initialize.
_START_SECONDS: Final = 30.0
Check = Callable[[], Iterable[Finding]]


def checks(
    *,
    store: str | None,
    endpoint: str | None,
    home: Path,
    procfs: Path,
    pid_file: Path | None,
    allocations: AllocationSettings,
) -> list[tuple[str, Check]]:
    """Return every check with its subject, in order of dependency."""
    host = ProcFs(procfs)
    own_home = None
    with suppress(RuntimeError):
        own_home = Path.home()
    return [
        ("system", state.check_system),
        ("driver", lambda: driver.check_driver(Path("/dev"), lambda: _reader(host, with_activity=True))),
        ("processes", lambda: state.check_processes(host)),
        ("clock", lambda: state.check_clock(time.time(), host.boot_id(), state.kernel_synchronized())),
        ("state", lambda: state.check_state(home)),
        ("delivery", lambda: delivery.check_delivery(store, endpoint, home, os.environ)),
        ("agent", lambda: [state.check_agent(pid_file or Home(home).pid_file, Home(home).log_file, os.environ)]),
        (
            "allocation",
            lambda: allocation.check_allocation(
                source_openers(allocations),
                lambda: allocation.status_of_agent(home),
                lambda: allocation.card_keys(lambda: _reader(host)),
            ),
        ),
        ("models", lambda: state.check_models(allocation.status_of_agent(home))),
        ("utilization", lambda: state.check_utilization(allocation.status_of_agent(home))),
        ("systemd", lambda: [state.check_unit(Path("/"), user=own_home)]),
    ]


def run_checks(named: Sequence[tuple[str, Check]]) -> Iterator[Finding]:
    """Yield the findings of each check; a crashing check yields a failed finding."""
    for name, check in named:
        try:
            yield from check()
        except Exception as error:  # noqa: BLE001 - other checks must still run
            what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            where = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
            yield failed(
                name, f"could not be checked: {type(error).__name__}: {what}{where}", "report it, with this line"
            )


def _reader(host: ProcFs, *, with_activity: bool = False) -> CardReader:
    from gua.nvml.reader import NvmlReader  # noqa: PLC0415 - only if the library loads
    from gua.procfs.reader import SystemClock  # noqa: PLC0415 - as above

    return NvmlReader(SystemClock(host), start_limit_seconds=_START_SECONDS, with_activity=with_activity)
