from __future__ import annotations

from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.nvml import NO_PERMISSION, Card, FakeDriver, Process
from gua.agent.sampler import Sampler
from gua.app.host import agent_origin
from gua.app.single_tick import notes, summary, tick_after
from gua.cli.daemon import daemon, parse_activity, parse_interval_ms
from gua.core.errors import UnavailableError, UsageError
from gua.core.ports import Mark
from gua.core.tick import Origin
from gua.core.words import Source
from gua.identity.process import Owners, ProcessIdentity
from gua.nvml.reader import NvmlReader


def sampler(clock: FakeClock, *cards: Card) -> Sampler:
    made = Sampler(
        cards=NvmlReader(clock, FakeDriver(*cards)),
        processes=ProcessIdentity(None, Owners(), boot_time_ms=None),
        clock=clock,
        origin=Origin(host="gpu01", source=Source.AGENT, interval_ms=30_000),
        initial_pid_namespace=True,
    )
    clock.advance(250)
    return made


@pytest.mark.parametrize(("text", "interval_ms"), [("1s", 1_000), ("30s", 30_000), ("10m", 600_000)])
def test_an_interval_from_a_second_to_ten_minutes_is_taken(text: str, interval_ms: int) -> None:
    assert parse_interval_ms(text) == interval_ms


@pytest.mark.parametrize("text", ["0s", "1ms", "999ms", "601s", "10d", "soon", ""])
def test_any_other_interval_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_interval_ms(text)


def test_activity_is_read_only_with_gpm_and_other_values_are_refused() -> None:
    assert [parse_activity(text) for text in (None, "", "off", "gpm", " GPM ")] == [False, False, False, True, True]
    with pytest.raises(UsageError, match="take gpm or off"):
        parse_activity("dcgm")


def test_a_place_without_proc_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="--procfs"):
        daemon(once=True, procfs=tmp_path)


def test_one_tick_of_a_whole_host_is_summed_up_in_a_line() -> None:
    cards = Card("GPU-a", compute=[Process(7)]), Card("GPU-b", faults={"nvmlDeviceGetPowerUsage": NO_PERMISSION})
    tick, _ = tick_after(sampler(FakeClock(), *cards), None)
    assert summary(tick) == "1 tick of gpu01: 2 GPUs, 1 process on them, 0.250 s covered"
    assert notes(tick, seen_by_host=True) == ["note: nvmlDeviceGetPowerUsage failed 1 time: NO_PERMISSION"]
    assert "PID namespace" in notes(tick, seen_by_host=False)[0]


def test_a_clock_behind_the_last_tick_is_reported_in_seconds() -> None:
    clock = FakeClock()
    mark = Mark(ts_ms=clock.wall_ms() + 5_250, monotonic_ms=0, boot_id="boot")
    with pytest.raises(UnavailableError, match=r"5\.000 s behind"):
        tick_after(sampler(clock, Card("GPU-a")), mark)


def test_a_tick_within_a_millisecond_of_the_last_one_is_refused() -> None:
    clock = FakeClock()
    agent = sampler(clock, Card("GPU-a"))
    _, mark = tick_after(agent, None)
    clock.wall += 1
    with pytest.raises(UnavailableError, match="less than a millisecond"):
        tick_after(agent, mark)


def test_an_installation_keeps_its_name_and_two_on_one_host_differ(tmp_path: Path) -> None:
    one, again, other = (agent_origin(interval_ms=30_000, home=tmp_path / name) for name in ("a", "a", "b"))
    assert one == again
    assert one.instance_id != other.instance_id
    assert (one.host, one.source) == (other.host, Source.AGENT)
