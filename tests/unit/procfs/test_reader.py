from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from fakes.patience import at_most
from gua.procfs.reader import (
    ProcFs,
    Stat,
    SystemClock,
    machine_id,
    parse_boot_time_ms,
    parse_stat,
    parse_uid,
    stored_boot_time_ms,
)

TREES = Path(__file__).parents[2] / "fixtures" / "proc"
BOOT_ID = "7f4e1d1c-0a3b-4b0e-9a51-2f6f8a1c9d10"
TAIL = "S 1 4242 4242 0 -1 4194304 1 0 0 0 10 20 0 0 20 0 33 0 987654 18446744073709551615 500 1 1"


@pytest.mark.parametrize("comm", ["python3", "a b", "(sd-pam)", "x) R 1 2", "", ")(", "naïve"])
def test_a_name_may_hold_spaces_and_parentheses(comm: str) -> None:
    assert parse_stat(f"4242 ({comm}) {TAIL}\n") == Stat(comm=comm, start_ticks=987654, parent=1)


@pytest.mark.parametrize("text", ["", "4242", "4242 (python3", "4242 (python3) S 1 2", "4242 )x( S 1", "x" * 5000])
def test_a_stat_that_is_cut_or_something_else_says_nothing(text: str) -> None:
    assert parse_stat(text) is None


@pytest.mark.parametrize(
    ("text", "uid"),
    [
        ("Name:\tpython3\nUid:\t1000\t0\t0\t0\n", 1000),
        ("Name:\tUid:\nUid:\t0\t0\t0\t0\n", 0),
        ("Name:\tpython3\n", None),
        ("Uid:\n", None),
        ("Uid:\tx\n", None),
    ],
)
def test_the_user_is_the_real_uid(text: str, uid: int | None) -> None:
    assert parse_uid(text) == uid


@pytest.mark.parametrize(
    ("text", "moment"), [("cpu 1 2\nbtime 1700000000\n", 1_700_000_000_000), ("cpu 1\n", None), ("btime x\n", None)]
)
def test_boot_time_is_in_the_systems_stat(text: str, moment: int | None) -> None:
    assert parse_boot_time_ms(text) == moment


def test_a_saved_tree_is_read_like_the_real_one() -> None:
    tree = ProcFs(TREES / "host")
    notebook = tree.process(4242)
    assert notebook is not None
    assert (notebook.comm, notebook.start_ticks, notebook.uid) == ("jupyter (lab) x", 987654, 1000)
    assert notebook.cgroup == "0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service\n"
    assert tree.boot_id() == BOOT_ID
    assert tree.boot_time_ms() == 1_700_000_000_000
    assert tree.in_initial_pid_namespace()
    assert tree.is_there()


def test_a_process_that_is_gone_hidden_or_half_there_does_not_stop_anything() -> None:
    tree = ProcFs(TREES / "host")
    assert tree.process(1) is None
    dying = tree.process(4343)
    assert dying is not None
    assert (dying.comm, dying.uid, dying.cgroup) == ("train", None, None)


def test_a_name_that_is_no_text_is_shown_anyway() -> None:
    found = ProcFs(TREES / "host").process(4444)
    assert found is not None
    assert found.comm == "caf\ufffd"


def test_a_container_is_not_in_the_initial_pid_namespace() -> None:
    assert not ProcFs(TREES / "container").in_initial_pid_namespace()


def test_a_place_without_a_procfs_says_so(tmp_path: Path) -> None:
    empty = ProcFs(tmp_path)
    assert not empty.is_there()
    assert (empty.boot_id(), empty.boot_time_ms(), empty.process(1)) == (None, None, None)
    assert not empty.in_initial_pid_namespace()


def test_a_pid_reused_meanwhile_yields_no_process(tmp_path: Path) -> None:
    class Reused(ProcFs):
        starts = iter((100, 200))

        def stat(self, pid: int) -> Stat | None:
            return Stat(f"p{pid}", next(self.starts))

    assert Reused(tmp_path).process(7) is None


def test_this_process_is_found_under_the_real_root() -> None:
    mine = ProcFs().process(os.getpid())
    assert mine is not None
    assert mine.uid == os.getuid()


def test_command_lines_and_environments_are_never_opened(tmp_path: Path) -> None:
    for name in ("stat", "status", "cgroup"):
        (tmp_path / "7").mkdir(exist_ok=True)
        (tmp_path / "7" / name).write_text(f"7 (a) {TAIL}")
    for name in ("cmdline", "environ"):
        os.mkfifo(tmp_path / "7" / name)  # whoever opens it waits for ever
    assert ProcFs(tmp_path).process(7) is not None


@pytest.mark.parametrize(("state", "dead"), [("S", False), ("R", False), ("D", False), ("Z", True), ("X", True)])
def test_a_process_that_only_waits_to_be_reaped_is_dead(state: str, dead: bool) -> None:  # noqa: FBT001 - a case
    found = parse_stat(f"7 (a) {TAIL.replace('S', state, 1)}")
    assert found is not None
    assert found.is_dead is dead


def mountinfo(*roots: tuple[str, str], proc: str = "rw") -> str:
    lines = [f"27 1 {device} {folder} / rw,relatime - ext4 /dev/vda rw" for device, folder in roots]
    return "\n".join(["22 27 0:21 / /proc rw,relatime shared:5 - proc proc " + proc, *lines, "28 27 0:30 / /tmp rw -"])


@pytest.mark.parametrize(
    ("mine", "first", "shared"),
    [
        (mountinfo(("254:0", "/")), mountinfo(("254:0", "/")), True),
        (mountinfo(("0:99", "/")), mountinfo(("254:0", "/")), False),
        (mountinfo(("254:0", "/containers/a")), mountinfo(("254:0", "/")), False),
        (mountinfo(("0:1", "/"), ("254:0", "/")), mountinfo(("254:0", "/")), True),
        (mountinfo(), mountinfo(), False),
        ("garbage\n\n", None, False),
    ],
)
def test_only_the_first_process_s_root_makes_users_the_hosts(
    tmp_path: Path,
    mine: str,
    first: str | None,
    shared: bool,  # noqa: FBT001 - a case
) -> None:
    for name, text in (("self", mine), ("1", first)):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "mountinfo").write_text(text)
    assert ProcFs(tmp_path).shares_host_root() is shared


@pytest.mark.parametrize(
    ("proc", "hidden"),
    [("rw", None), ("rw,hidepid=2", "2"), ("rw,hidepid=invisible,gid=5", "invisible"), ("rw,hidepid=0", None)],
)
def test_a_procfs_reports_whether_it_hides_processes(tmp_path: Path, proc: str, hidden: str | None) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(mountinfo(proc=proc))
    assert ProcFs(tmp_path).hidepid() == hidden


@pytest.mark.parametrize(
    ("uid_map", "inside", "outside"),
    [
        ("         0          0 4294967295\n", 65534, 65534),
        ("", 1000, 1000),
        ("0 1000 1\n1 100000 65536\n", 0, 1000),
        ("0 1000 1\n1 100000 65536\n", 34, 100033),
        ("0 1000 1\n1 100000 65536\n", 65534, None),
        ("0 1000 1\n1 100000 65536\n", 99999, None),
        ("garbage\n", 7, 7),
    ],
)
def test_a_user_is_reported_by_the_id_on_the_host(
    tmp_path: Path, uid_map: str, inside: int, outside: int | None
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "uid_map").write_text(uid_map)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) {TAIL}")
    (tmp_path / "7" / "status").write_text(f"Uid:\t{inside}\t0\t0\t0\n")
    found = ProcFs(tmp_path).process(7)
    assert found is not None
    assert found.uid == outside


class MovingBoot(ProcFs):
    def __init__(self, boot_id: str | None, *answers: int | None) -> None:
        super().__init__()
        self._boot_id = boot_id
        self._answers = iter(answers)

    def boot_id(self) -> str | None:
        return self._boot_id

    def boot_time_ms(self) -> int | None:
        return next(self._answers)


def test_the_first_boot_time_is_kept_until_another_boot(tmp_path: Path) -> None:
    path = tmp_path / "boot.json"
    assert stored_boot_time_ms(MovingBoot("a", 1_000, 2_000), path) == 1_000
    assert stored_boot_time_ms(MovingBoot("a", 2_000), path) == 1_000
    assert stored_boot_time_ms(MovingBoot("b", 9_000), path) == 9_000
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", json.dumps({"boot_id": "a"}), json.dumps({"boot_id": "a", "boot_time_ms": True})]
)
def test_a_file_that_makes_no_sense_is_written_anew(tmp_path: Path, content: str) -> None:
    path = tmp_path / "boot.json"
    path.write_text(content)
    assert stored_boot_time_ms(MovingBoot("a", 5_000), path) == 5_000
    assert json.loads(path.read_text()) == {"boot_id": "a", "boot_time_ms": 5_000}


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "brackets", "endless"])
def test_what_is_no_file_of_the_agent_s_is_not_waited_for_nor_followed(tmp_path: Path, kind: str) -> None:
    path, elsewhere = tmp_path / "boot.json", tmp_path / "elsewhere"
    elsewhere.write_text(json.dumps({"boot_id": "a", "boot_time_ms": 1_000}))
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(elsewhere)
        case "folder":
            path.mkdir()
        case "brackets":
            path.write_text("[" * 100_000)
        case _:
            path.symlink_to("/dev/zero")
    with at_most(20):
        assert stored_boot_time_ms(MovingBoot("a", 5_000), path) == 5_000
    assert json.loads(elsewhere.read_text())["boot_time_ms"] == 1_000


def test_where_nothing_can_be_kept_the_answer_is_that_of_now(tmp_path: Path) -> None:
    assert stored_boot_time_ms(MovingBoot("a", 5_000), tmp_path / "missing" / "boot.json") == 5_000
    assert stored_boot_time_ms(MovingBoot(None, 6_000), tmp_path / "boot.json") == 6_000
    assert stored_boot_time_ms(MovingBoot("a", None), tmp_path / "boot.json") is None
    assert list(tmp_path.iterdir()) == []


def test_the_clocks_are_those_of_the_system() -> None:
    clock = SystemClock(ProcFs(TREES / "host"))
    assert abs(clock.wall_ms() - time.time() * 1000) < 1000
    assert clock.monotonic_ms() <= clock.monotonic_ms()
    assert clock.boot_id() == BOOT_ID


def test_the_machine_has_an_id_or_none(tmp_path: Path) -> None:
    path = tmp_path / "machine-id"
    assert machine_id(path) is None
    path.write_text("\n")
    assert machine_id(path) is None
    path.write_text("0123456789abcdef0123456789abcdef\n")
    assert machine_id(path) == "0123456789abcdef0123456789abcdef"
