from __future__ import annotations

import os
from pathlib import Path

import pytest

from gua.core.ports import RawProcess
from gua.core.tick import ProcessReading
from gua.core.words import ProcessType
from gua.identity.process import DEFAULT_IGNORED, Owners, ProcessIdentity, process_type
from gua.procfs.reader import ProcFs

BOOT_MS = 1_700_000_000_000
HOST = ProcFs(Path(__file__).parents[2] / "fixtures" / "proc" / "host")
TAIL = "1 1 1 0 -1 4194304 1 0 0 0 10 20 0 0 20 0 1 0 {start} 1 1 1"


class Tree:
    """A procfs of our own making, and a clock that ticks on demand."""

    def __init__(self, root: Path, *, uids: bool = True) -> None:
        self.root = root
        self.now = 0.0
        self._uids = uids

    def put(self, pid: int, comm: str = "python3", *, start: int = 100, state: str = "S", uid: int = 1000) -> None:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(f"{pid} ({comm}) {state} {TAIL.format(start=start)}\n")
        if self._uids:
            (folder / "status").write_text(f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
            (folder / "cgroup").write_text(f"0::/system.slice/job-{uid}.service\n")

    def end(self, pid: int) -> None:
        for file in (self.root / str(pid)).iterdir():
            file.unlink()
        (self.root / str(pid)).rmdir()

    def identity(self, **names: int) -> ProcessIdentity:
        return ProcessIdentity(ProcFs(self.root), owners(**names), boot_time_ms=BOOT_MS, monotonic=lambda: self.now)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def raw(pid: int = 7, lists: tuple[str, ...] = ("compute",)) -> RawProcess:
    return RawProcess(pid=pid, lists=frozenset(lists), memory_bytes=5, utilization=0.5)


def owners(**names: int) -> Owners:
    return Owners(local={uid: name for name, uid in names.items()}.get, look_up=lambda _: None)


def test_a_process_is_reported_with_everything_known() -> None:
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


def test_in_another_pid_namespace_no_process_is_mistaken_for_another() -> None:
    found = ProcessIdentity(None, owners(), boot_time_ms=BOOT_MS).identify(raw(4242))
    assert (found.owner, found.comm, found.created_ms) == (None, None, None)


@pytest.mark.parametrize("name", DEFAULT_IGNORED)
def test_display_servers_and_monitors_do_not_count(tree: Tree, name: str) -> None:
    tree.put(7, name[:15])
    found = tree.identity().identify(raw(lists=("graphics",)))
    assert found.type is ProcessType.IGNORED
    assert found.memory_bytes == 5


def test_only_the_names_that_were_set_do_not_count(tree: Tree) -> None:
    def kind(comm: str, ignored: tuple[str, ...]) -> ProcessType:
        tree.put(7, comm)
        return ProcessIdentity(ProcFs(tree.root), owners(), boot_time_ms=0, ignored=ignored).identify(raw()).type

    assert kind("gpu-burn-monito", ("gpu-burn-monitor",)) is ProcessType.IGNORED
    assert kind("Xorg", ()) is ProcessType.COMPUTE
    assert kind("xorg", DEFAULT_IGNORED) is ProcessType.COMPUTE


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


@pytest.mark.parametrize("comm", ["a (b) c", ")) S 1", "\x1b[31mred", "two\nlines", "\u202eevil"])
def test_a_hostile_name_is_kept_as_it_is(tree: Tree, comm: str) -> None:
    tree.put(7, comm)
    assert tree.identity().identify(raw()).comm == comm


def test_a_reused_pid_is_another_process(tree: Tree) -> None:
    identity = tree.identity(alice=1000, bob=1001)
    tree.put(7, "train", start=100, uid=1000)
    first = identity.identify(raw())
    tree.now += 30
    tree.put(7, "train", start=101, uid=1001)
    second = identity.identify(raw())
    assert (first.owner, second.owner) == ("alice", "bob")
    assert first.created_ms != second.created_ms


def test_a_process_that_ended_since_it_was_listed_is_who_it_was_for_one_tick(tree: Tree) -> None:
    identity = tree.identity(alice=1000)
    tree.put(7)
    before = identity.identify(raw())
    tree.end(7)
    tree.now += 30
    assert identity.identify(raw()) == before
    assert identity.identify(raw()) == before  # on another card, in the same tick
    tree.now += 30
    assert identity.identify(raw()).owner is None


def test_a_new_name_is_seen_at_once_and_a_new_user_with_it(tree: Tree) -> None:
    identity = tree.identity(root=0, alice=1000)
    tree.put(7, "sudo", uid=0)
    assert identity.identify(raw()).owner == "root"
    tree.now += 30
    tree.put(7, "train", uid=1000)
    found = identity.identify(raw())
    assert (found.comm, found.owner) == ("train", "alice")


def test_a_new_user_or_cgroup_is_seen_within_five_minutes(tree: Tree) -> None:
    identity = tree.identity(root=0, alice=1000)
    tree.put(7, uid=0)
    identity.identify(raw())
    tree.put(7, uid=1000)
    seen = {}
    for _ in range(10):
        tree.now += 30
        found = identity.identify(raw())
        seen[tree.now] = (found.owner, found.systemd_unit)
    assert seen[30] == ("root", "job-0.service")
    assert seen[300] == ("alice", "job-1000.service")


def test_full_looks_are_spread_over_the_ticks(tree: Tree) -> None:
    class Counting(ProcFs):
        asked = 0

        def process(self, pid: int):  # noqa: ANN202 - as the method it counts
            self.asked += 1
            return super().process(pid)

    table = Counting(tree.root)
    identity = ProcessIdentity(table, owners(), boot_time_ms=0, monotonic=lambda: tree.now)
    for pid in range(1, 81):
        tree.put(pid)
    looks = []
    for _ in range(41):
        table.asked = 0
        for pid in range(1, 81):
            identity.identify(raw(pid))
        looks.append(table.asked)
        tree.now += 30
    assert looks[0] == 80
    assert max(looks[1:]) <= 20
    assert sum(looks[1:]) == pytest.approx(80 * 40 * 30 / 300, rel=0.2)


def test_a_dead_process_keeps_the_place_it_had(tree: Tree) -> None:
    identity = tree.identity(alice=1000)
    tree.put(7)
    identity.identify(raw())
    tree.put(7, state="Z")
    (tree.root / "7" / "cgroup").write_text("0::/\n")
    tree.now += 600
    found = identity.identify(raw())
    assert (found.owner, found.systemd_unit) == ("alice", "job-1000.service")


def test_an_unreadable_file_is_read_again_and_known_values_stay(tree: Tree) -> None:
    identity = tree.identity(alice=1000)
    tree.put(7)
    (tree.root / "7" / "status").rename(tree.root / "7" / "hidden")
    assert identity.identify(raw()).owner is None
    (tree.root / "7" / "hidden").rename(tree.root / "7" / "status")
    tree.now += 30
    assert identity.identify(raw()).owner == "alice"
    (tree.root / "7" / "status").unlink()
    (tree.root / "7" / "cgroup").unlink()
    tree.now += 600
    found = identity.identify(raw())
    assert (found.owner, found.systemd_unit) == ("alice", "job-1000.service")


def test_a_hundred_thousand_processes_leave_nothing_behind(tmp_path: Path) -> None:
    class Endless(ProcFs):
        def _text(self, path: str) -> str | None:
            pid = path.partition("/")[0]
            return f"{pid} (p{pid}) S {TAIL.format(start=pid)}\nUid:\t{pid}\n" if path[0].isdigit() else None

        def stat(self, pid: int):  # noqa: ANN202 - as the method it stands for
            from gua.procfs.reader import Stat  # noqa: PLC0415 - only here

            return Stat(f"p{pid}", pid)

    now = [0.0]
    names = Owners(local=lambda uid: f"user{uid}")
    identity = ProcessIdentity(Endless(tmp_path), names, boot_time_ms=0, monotonic=lambda: now[0])
    for tick in range(1_000):
        now[0] += 1
        for pid in range(tick * 100 + 1, tick * 100 + 101):
            identity.identify(raw(pid))
    cache = identity._cache  # noqa: SLF001 - memory is no behaviour that a caller sees
    assert len(cache._now.keys() | cache._before.keys()) == 200  # noqa: SLF001 - as above
    assert len(names._answers) <= 1_024  # noqa: SLF001 - as above


def test_nothing_but_four_files_of_a_process_is_opened(tree: Tree) -> None:
    tree.put(7)
    for secret in ("cmdline", "environ", "maps", "auxv"):
        os.mkfifo(tree.root / "7" / secret)  # whoever opens it waits for ever
    assert tree.identity(alice=1000).identify(raw()).owner == "alice"
    assert sorted(file.name for file in (tree.root / "7").iterdir() if file.is_file()) == ["cgroup", "stat", "status"]
