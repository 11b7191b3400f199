"""One outage and the account of it; with the project's own settings, and with settings that must lose ticks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from servers.collector import CONFIG
from servers.process import poll
from soak.accounts import Account
from soak.fleet import Fleet, fleet
from soak.run import settled

Outage = Callable[[Fleet, float], object]

# Once nothing waits any more; a batch that is on its way takes less.
_SETTLES_SECONDS = 15


def changed_config(folder: Path, changes: Mapping[str, str]) -> Path:
    """Return a copy of the Collector's config in which some of it is changed; fails if it does not stand there."""
    text = CONFIG.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert text.count(old) == 1, f"{CONFIG} has {text.count(old)} times: {old}"
        text = text.replace(old, new)
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / "collector.yaml"
    copy.write_text(text, encoding="utf-8")
    return copy


def impatient(folder: Path) -> Path:
    """Return the config of a Collector that drops what it could not deliver for 2 s."""
    # The Collector refuses a pause between two tries that is longer than the time for all of them.
    return changed_config(
        folder, {"max_elapsed_time: 0s": "max_elapsed_time: 2s", "max_interval: 30s": "max_interval: 2s"}
    )


def of_default_patience(folder: Path) -> Path:
    """Return the config of a Collector that is as patient as the exporter is by default, which is 300 s."""
    return changed_config(folder, {"max_elapsed_time: 0s": "# max_elapsed_time: 300s"})


def forgetful(folder: Path) -> Path:
    """Return the config of a Collector with its queue in memory."""
    return changed_config(folder, {"      storage: file_storage\n": ""})


def of_the_server(made: Fleet, seconds: float) -> None:
    """Kill the server and start it again so many seconds later."""
    made.server.kill()
    time.sleep(seconds)
    made.server.start()


def of_the_collector(made: Fleet, seconds: float) -> None:
    """Kill the Collector for so long; in the middle of that each agent is killed too, and started again."""
    _of_the_collector(made, seconds, spools_last=True)


def of_the_collector_without_spools(made: Fleet, seconds: float) -> None:
    """As before, but the agents' state directories end with them."""
    _of_the_collector(made, seconds, spools_last=False)


def _of_the_collector(made: Fleet, seconds: float, *, spools_last: bool) -> None:
    made.collector.kill()
    time.sleep(seconds / 2)
    for host in made.hosts:
        host.kill()
        if not spools_last:
            host.forget()
        host.start()
    time.sleep(seconds / 2)
    made.collector.start()


def of_both(made: Fleet, seconds: float) -> None:
    """Kill the server, and some seconds later the Collector, which has accepted ticks by then; start both."""
    made.server.kill()
    time.sleep(seconds)
    made.wait_until_sent()
    made.collector.kill()
    made.server.start()
    made.collector.start()


def after(
    outage: Outage,
    folder: Path,
    *,
    seconds: float,
    hosts: int = 3,
    config: Path = CONFIG,
    settles_seconds: float = _SETTLES_SECONDS,
) -> Account:
    """Return the account of a fleet after the outage, once nothing is on its way any more.

    An account that stays uneven is returned after ``settles_seconds``.
    """
    with fleet(folder, hosts=hosts, interval="1s", config=config) as made:
        made.start()
        made.wait_for_ticks(2)
        outage(made, seconds)
        made.wait_for_ticks(2)
        made.drain()
        poll(
            lambda: made.collector.own_metric("otelcol_exporter_queue_size") == 0,
            f"the Collector's queue to empty; see {made.collector.log}",
            seconds=180,
        )
        return settled(made, seconds=settles_seconds)
