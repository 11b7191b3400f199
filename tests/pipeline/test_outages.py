"""The server, the Collector or both are down: no tick is lost; where ticks must be lost, the test finds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from servers.collector import CONFIG
from soak import outage
from soak.outage import Outage

# Three times as long as the impatient Collector waits.
SECONDS = 6
HOSTS = 2

Say = Callable[[str], None]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Say:
    """Return what prints a figure of docs/reliability.md."""

    def print_one(line: str) -> None:
        with capsys.disabled():
            print(f"\n{request.node.callspec.id}: {line}", end="", flush=True)  # noqa: T201 - see above

    return print_one


@pytest.mark.usefixtures("_built")
@pytest.mark.parametrize(
    "which",
    [
        pytest.param(outage.of_the_server, id="server down"),
        pytest.param(outage.of_the_collector, id="collector down, agents killed meanwhile"),
        pytest.param(outage.of_both, id="server down, then collector killed"),
    ],
)
def test_an_outage_costs_no_tick(which: Outage, tmp_path: Path, say: Say) -> None:
    account = outage.after(which, tmp_path / "fleet", seconds=SECONDS, hosts=HOSTS)
    say(account.summary())
    assert account.lost == 0
    assert account.settled, account.differences()


@pytest.mark.usefixtures("_built")
@pytest.mark.parametrize(
    ("which", "config"),
    [
        pytest.param(outage.of_the_server, outage.impatient, id="server down, collector gives up after 2 s"),
        pytest.param(
            outage.of_the_collector_without_spools,
            lambda _: CONFIG,
            id="collector down, agents killed meanwhile with their spools",
            marks=pytest.mark.wide,
        ),
        pytest.param(
            outage.of_both,
            outage.forgetful,
            id="server down, then collector killed with its queue",
            marks=pytest.mark.wide,
        ),
    ],
)
def test_the_same_outage_costs_ticks_that_are_stored_nowhere(
    which: Outage, config: Callable[[Path], Path], tmp_path: Path, say: Say
) -> None:
    changed = config(tmp_path)
    # What is lost never arrives: the account stays uneven however long one waits.
    account = outage.after(which, tmp_path / "fleet", seconds=SECONDS, hosts=HOSTS, config=changed, settles_seconds=1)
    say(account.summary())
    assert account.lost > 0
