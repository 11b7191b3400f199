from __future__ import annotations

from pathlib import Path

import pytest

from gpu_usage_audit.core.ports import RawProcess
from gpu_usage_audit.core.tick import ProcessReading, ProcessType
from gpu_usage_audit.identity.facts import NoProcesses
from gpu_usage_audit.identity.owner import Owners, passwd_name
from gpu_usage_audit.identity.process import DEFAULT_IGNORED, ProcessIdentity, process_type
from gpu_usage_audit.procfs.reader import ProcessRecord, ProcFs

BOOT_MS = 1_700_000_000_000
HOST = ProcFs(Path(__file__).parents[1] / "fixtures" / "proc" / "host")


class Table:
    ticks_per_second = 100

    def __init__(self, *records: ProcessRecord) -> None:
        self._records = {record.pid: record for record in records}

    def process(self, pid: int) -> ProcessRecord | None:
        return self._records.get(pid)


def record(comm: str) -> ProcessRecord:
    return ProcessRecord(pid=7, comm=comm, start_ticks=12_345, uid=1000, cgroup=None)


def raw(pid: int = 7, lists: tuple[str, ...] = ("compute",)) -> RawProcess:
    return RawProcess(pid=pid, lists=frozenset(lists), memory_bytes=5, utilization=0.5)


def owners(**names: int) -> Owners:
    return Owners({uid: name for name, uid in names.items()}.get)


def test_a_process_is_told_by_everything_that_is_known_of_it() -> None:
    found = ProcessIdentity(HOST, owners(root=0), boot_time_ms=BOOT_MS).identify(raw(4545))
    assert found == ProcessReading(
        pid=4545,
        type=ProcessType.COMPUTE,
        created_ms=BOOT_MS + 1_234_500 * 1000 // HOST.ticks_per_second,
        owner="root",
        uid=0,
        comm="python3",
        memory_bytes=5,
        utilization=0.5,
        container_id="3f1c" * 16,
        pod_uid="0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
    )


def test_a_process_that_is_gone_is_still_a_row() -> None:
    found = ProcessIdentity(HOST, owners(), boot_time_ms=BOOT_MS).identify(raw(1, ("graphics",)))
    assert found == ProcessReading(pid=1, type=ProcessType.GRAPHICS, memory_bytes=5, utilization=0.5)


def test_a_process_whose_user_is_hidden_has_no_owner() -> None:
    found = ProcessIdentity(HOST, owners(), boot_time_ms=BOOT_MS).identify(raw(4343))
    assert (found.owner, found.uid, found.comm) == (None, None, "train")


def test_without_the_moment_of_boot_starts_are_unknown() -> None:
    assert ProcessIdentity(HOST, owners(), boot_time_ms=None).identify(raw(4242)).created_ms is None


def test_in_another_pid_namespace_nobody_is_taken_for_somebody_else() -> None:
    found = ProcessIdentity(NoProcesses(), owners(), boot_time_ms=BOOT_MS).identify(raw(4242))
    assert (found.owner, found.comm, found.created_ms) == (None, None, None)


def test_a_user_without_a_name_is_its_number() -> None:
    assert owners(alice=1000).name(1000) == "alice"
    assert owners(alice=1000).name(1234) == "1234"
    assert owners(alice=1000).name(None) is None
    assert passwd_name(0) == "root"
    assert passwd_name(2**40) is None


def test_a_name_is_looked_up_once_and_a_missing_one_again() -> None:
    asked: list[int] = []
    names: dict[int, str] = {}

    def look_up(uid: int) -> str | None:
        asked.append(uid)
        return names.get(uid)

    slow = Owners(look_up)
    assert slow.name(1000) == "1000"
    names[1000] = "alice"
    assert [slow.name(1000), slow.name(1000)] == ["alice", "alice"]
    assert asked == [1000, 1000]


@pytest.mark.parametrize("name", DEFAULT_IGNORED)
def test_display_servers_and_monitors_do_not_count(name: str) -> None:
    table = Table(record(name[:15]))
    found = ProcessIdentity(table, owners(), boot_time_ms=BOOT_MS).identify(raw(lists=("graphics",)))
    assert found.type is ProcessType.IGNORED
    assert found.memory_bytes == 5


def test_only_the_names_that_were_set_do_not_count() -> None:
    identity = ProcessIdentity(Table(record("gpu-burn-monito")), owners(), boot_time_ms=0, ignored=["gpu-burn-monitor"])
    assert identity.identify(raw()).type is ProcessType.IGNORED
    assert ProcessIdentity(Table(record("Xorg")), owners(), boot_time_ms=0, ignored=[]).identify(raw()).type is (
        ProcessType.COMPUTE
    )
    assert ProcessIdentity(Table(record("xorg")), owners(), boot_time_ms=0).identify(raw()).type is ProcessType.COMPUTE


@pytest.mark.parametrize(
    ("lists", "kind"),
    [
        ({"compute"}, ProcessType.COMPUTE),
        ({"graphics"}, ProcessType.GRAPHICS),
        ({"compute", "graphics"}, ProcessType.COMPUTE),
        ({"compute", "mps"}, ProcessType.MPS),
    ],
)
def test_a_process_on_several_lists_has_one_type(lists: set[str], kind: ProcessType) -> None:
    assert process_type(frozenset(lists)) is kind
