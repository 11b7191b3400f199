"""MIG instances as GPUs of Slurm: which instance a gres index is, and when that is not known."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fakes.mig import Ids, files, write_capabilities
from fakes.slurm import FakeSlurm, SlurmJob
from gua.allocation.card_names import CardName, CardTable
from gua.allocation.files import AllocationFolder
from gua.allocation.slurm import SlurmReader
from gua.allocation.slurm_conf import GresConf
from gua.allocation.slurm_listing import GresListing, run_slurmd
from gua.allocation.slurm_poll import CommandError, SlurmPoll, parse_job_gres
from gua.core.allocation import CardKey

NOW = 1_800_000_000_000
RECORDED = Path(__file__).parents[2] / "fixtures" / "slurm" / "22.05.8" / "autodetect_mig.json"
WHOLE = CardKey("GPU-1", 1, 1)
MULTIPLE = "AutoDetect=off\nName=gpu Type=1g.5gb MultipleFiles=x,y\n"
"""Only AutoDetect is read of it: the order is that of slurmd -G."""


def instance(uuid: str, ids: Ids) -> CardKey:
    return CardKey(uuid, ids[0], ids[0], None, f"GPU-{ids[0]}", ids[1], ids[2])


def listed(*gpus: tuple[str, str]) -> str:
    """Return the output of slurmd -G for GPUs by type and files."""
    lines = [f"slurmd: Gres Name=gpu Type={kind} Count=1 Index=0 ID=7 File={names} (null)" for kind, names in gpus]
    return "\n".join(['slurmd: s_p_parse_file: file "/etc/slurm/cgroup.conf" is empty', *lines, ""])


A, B, C = (0, 2, 0), (0, 7, 0), (0, 9, 0)


@dataclass
class Node:
    """A node with two GPUs, the first in three MIG instances; ``text`` is what slurmd -G prints."""

    folder: Path
    gres_conf: str = MULTIPLE
    text: str = listed(("1g.5gb", files(B)), ("a100", "/dev/nvidia1"), ("1g.5gb", files(C)), ("3g.20gb", files(A)))
    instances: dict[str, Ids] = field(default_factory=lambda: {"MIG-a": A, "MIG-b": B, "MIG-c": C})
    runs: int = 0
    failure: str | OSError | None = None

    def __post_init__(self) -> None:
        gres = "gpu:1g.5gb:2(S:0-1),gpu:a100:1,gpu:3g.20gb:1"
        self.slurm = FakeSlurm(gres=gres, slurmd_started="2100-01-01T00:00:00")
        self.write()
        self.listing = GresListing(GresConf(self.folder), self.folder / "proc", self._run)
        self.poll = SlurmPoll(run=self.slurm.ask, listing=self.listing.look, wall_ms=lambda: NOW)
        self.reader = SlurmReader(
            AllocationFolder(self.folder / "files"),
            poll=self.poll,
            conf=GresConf(self.folder, procfs=self.folder / "proc"),
        )

    def _run(self, folder: Path, node: str) -> str:
        assert (folder, node) == (self.folder, "node7")
        self.runs += 1
        if isinstance(self.failure, OSError):
            raise self.failure
        if self.failure is not None:
            raise CommandError(self.failure)
        return self.text

    def write(self) -> None:
        (self.folder / "gres.conf").write_text(self.gres_conf)
        write_capabilities(self.folder / "proc", self.instances.values())

    def cards(self) -> tuple[CardKey, ...]:
        return (CardKey("GPU-0", 0, 0), WHOLE, *(instance(uuid, ids) for uuid, ids in self.instances.items()))

    def allocated(self, *places: int) -> tuple[dict[str, list[str]], str | None]:
        """Poll with a job on each gres index; return the cards by job and the source's error."""
        self.slurm.jobs = [SlurmJob(place, f"gpu:1(IDX:{place})", NOW - 60_000) for place in places]
        self.slurm.used = f"gpu:{len(places)}(IDX:{','.join(map(str, places))})"
        self.poll._answer = self.poll.poll()  # noqa: SLF001 - without its thread
        self.poll._stop.set()  # noqa: SLF001 - as above
        look = self.reader.look(NOW - 30_000, NOW, self.cards())
        return {each.id: sorted(each.cards) for each in look.allocations}, look.reason

    def reason(self) -> str | None:
        jobs, reason = self.allocated(0)
        assert jobs == {}, "an index whose instance is not certain allocates no card"
        return None if reason is None else reason.removeprefix("job 0: Slurm's GPU 0 may be any MIG instance: ")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def detecting(tmp_path: Path) -> Node:
    """A node with AutoDetect, whose device files are in a folder of the test and older than slurmd."""
    dev = tmp_path / "dev"
    (dev / "nvidia-caps").mkdir(parents=True)
    made = Node(tmp_path, "AutoDetect=nvml\n")
    made.text = made.text.replace("/dev/", f"{dev}/")
    for ids in (A, B, C):
        for file in files(ids, str(dev)).split(","):
            Path(file).touch()
    (dev / "nvidia1").touch()
    return made


def test_each_index_is_the_instance_whose_device_files_slurmd_lists_there(node: Node) -> None:
    jobs, reason = node.allocated(0, 1, 2, 3)
    assert (jobs, reason) == ({"0": ["MIG-b"], "1": ["GPU-1"], "2": ["MIG-c"], "3": ["MIG-a"]}, None)


def test_what_slurm_gave_its_jobs_by_auto_detect_is_what_the_listing_says(tmp_path: Path) -> None:
    # Recorded from slurmd with AutoDetect=nvml on the simulated driver: two partitioned GPUs alternate, and
    # CUDA_VISIBLE_DEVICES of each job has the UUIDs of its instances.
    recorded = json.loads(RECORDED.read_text())
    ids: dict[str, Ids] = {"02": (0, 2, 0), "07": (0, 7, 0), "09": (0, 9, 0), "11": (2, 11, 0)}
    instances = {f"MIG-00000000-0000-0000-0000-0000000000{name}": each for name, each in ids.items()}
    (tmp_path / "gres.conf").write_text(recorded["gres.conf"])
    write_capabilities(tmp_path / "proc", instances.values())
    text = recorded["slurmd"].replace("/dev/", f"{tmp_path}/dev/")
    (tmp_path / "dev" / "nvidia-caps").mkdir(parents=True)
    for each in (*ids.values(), (1, 0, 0)):
        for file in files(each, f"{tmp_path}/dev").split(","):
            Path(file).touch()
    listing = GresListing(GresConf(tmp_path), tmp_path / "proc", lambda _folder, _node: text)
    order = listing.look("n7", recorded["node"].replace("SlurmdStartTime=2026", "SlurmdStartTime=2100"))
    assert order is not None
    assert order.problem is None
    cards = [CardKey(f"GPU-{minor}", minor, minor) for minor in range(3)]
    cards += [instance(uuid, each) for uuid, each in instances.items()]
    reader = SlurmReader(
        AllocationFolder(tmp_path / "none"), poll=None, conf=GresConf(tmp_path, procfs=tmp_path / "proc")
    )
    table = CardTable(cards)
    reader.conf.refresh(table, order)
    for job in recorded["jobs"]:
        detail = f"Nodes=n7 CPU_IDs=0 Mem=0 GRES={job['gres']}"
        names = [CardName("gres", place) for place in parse_job_gres(detail, "n7").places]
        assert reader.conf.find(table, names) == (frozenset(job["CUDA_VISIBLE_DEVICES"] or ["GPU-1"]), None)


def test_an_instance_that_is_gone_is_unknown_and_the_others_are_not(node: Node) -> None:
    node.allocated(0)
    del node.instances["MIG-b"]
    node.write()
    jobs, reason = node.allocated(0, 3)
    assert jobs == {"3": ["MIG-a"]}
    assert reason == f"job 0: Slurm's GPU 0 may be any MIG instance: no card here has {files(B)}"
    node.instances["MIG-b2"] = B  # created again: the job's device files open it
    node.write()
    assert node.allocated(0) == ({"0": ["MIG-b2"]}, None)


def test_where_slurm_detects_instances_a_change_makes_all_unknown_until_slurmd_restarts(detecting: Node) -> None:
    assert detecting.allocated(0, 3) == ({"0": ["MIG-b"], "3": ["MIG-a"]}, None)
    moved = detecting.instances.pop("MIG-c")
    detecting.write()
    assert detecting.reason() == "GPUs, slurm.conf or gres.conf changed: restart slurmd"
    detecting.instances["MIG-c"] = moved  # slurmd may have detected what was there meanwhile
    detecting.write()
    for _ in range(12):
        assert detecting.reason() == "GPUs, slurm.conf or gres.conf changed: restart slurmd"
    assert detecting.runs == 1
    detecting.slurm.slurmd_started = "2100-01-01T00:05:00"
    assert detecting.allocated(0, 3) == ({"0": ["MIG-b"], "3": ["MIG-a"]}, None)


def test_a_changed_gres_conf_counts_from_the_next_start_of_slurmd(node: Node) -> None:
    assert node.allocated(0)[1] is None
    node.gres_conf += "# changed\n"
    node.write()
    assert node.reason() == "GPUs, slurm.conf or gres.conf changed: restart slurmd"


def start_slurmd(node: Node, file: str, seconds: int) -> None:
    """Start slurmd so many seconds after the second in which a file of the configuration changed."""
    changed = datetime.fromtimestamp((node.folder / file).stat().st_ctime, UTC)
    node.slurm.slurmd_started = f"{changed + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}"


def test_a_gres_conf_that_may_be_newer_than_slurmd_makes_the_order_unknown(node: Node) -> None:
    for seconds in (-50, -1, 0):  # Slurm omits the fraction: the file may be newer in the same second
        start_slurmd(node, "gres.conf", seconds)
        assert node.reason() == f"{node.folder}/gres.conf may be newer than slurmd: restart slurmd"
    start_slurmd(node, "gres.conf", 1)
    assert node.allocated(0) == ({"0": ["MIG-b"]}, None)


def test_the_files_that_slurmd_writes_as_it_starts_may_be_of_the_same_second(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node.folder / "link").symlink_to(node.folder)  # as /run/slurm/conf
    monkeypatch.setattr("gua.allocation.slurm_listing._CONFIGLESS", node.folder / "link")
    start_slurmd(node, "gres.conf", -1)
    assert node.reason() == f"{node.folder}/gres.conf may be newer than slurmd: restart slurmd"
    start_slurmd(node, "gres.conf", 0)
    assert node.allocated(0) == ({"0": ["MIG-b"]}, None)


def test_an_included_file_and_slurm_conf_count_as_gres_conf_does(node: Node) -> None:
    (node.folder / "slurm.conf").write_text("Include nodes.conf\n")
    (node.folder / "nodes.conf").write_text("NodeName=node7\n")
    start_slurmd(node, "nodes.conf", -50)
    assert "may be newer than slurmd: restart slurmd" in (node.reason() or "")
    node.slurm.slurmd_started = "2100-01-01T00:01:00"
    assert node.allocated(0) == ({"0": ["MIG-b"]}, None)
    (node.folder / "nodes.conf").write_text("NodeName=node7 # changed\n")
    assert node.reason() == "GPUs, slurm.conf or gres.conf changed: restart slurmd"
    node.slurm.slurmd_started = "2100-01-01T00:02:00"
    assert node.allocated(0) == ({"0": ["MIG-b"]}, None)
    (node.folder / "nodes.conf").unlink()
    assert node.reason() == "GPUs, slurm.conf or gres.conf changed: restart slurmd"


def test_files_that_include_each_other_end(node: Node) -> None:
    (node.folder / "slurm.conf").write_text("Include a.conf\nInclude missing.conf\n")
    (node.folder / "a.conf").write_text("Include slurm.conf\nInclude a.conf\n")
    assert node.allocated(0) == ({"0": ["MIG-b"]}, None)


def test_a_device_file_that_is_newer_than_slurmd_makes_the_detected_order_unknown(
    detecting: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = detecting.folder / "dev" / "nvidia1"
    others = [path for path in (detecting.folder / "dev").glob("**/nvidia*") if path not in {device, *device.parents}]
    latest = max(path.stat().st_ctime for path in others)
    while device.stat().st_ctime <= latest:
        device.chmod(0o600)
    between = (latest + device.stat().st_ctime) / 2
    monkeypatch.setattr("gua.allocation.slurm_listing._NEWER_SECONDS", between - 1_800_000_000)
    detecting.slurm.slurmd_started = f"{datetime.fromtimestamp(1_800_000_000, UTC):%Y-%m-%dT%H:%M:%S}"
    assert detecting.reason() == f"{device} may be newer than slurmd: restart slurmd"


def test_a_missing_device_file_makes_the_detected_order_unknown(detecting: Node) -> None:
    (detecting.folder / "dev" / "nvidia1").unlink()
    assert detecting.reason() == f"{detecting.folder}/dev/nvidia1 cannot be used (No such file or directory)"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PermissionError(13, "Permission denied", "/etc/slurm"), "/etc/slurm cannot be used (Permission denied)"),
        (OSError(28, "No space left on device"), "a temporary file cannot be used (No space left on device)"),
    ],
)
def test_an_error_of_the_system_is_a_reason_with_the_file(node: Node, error: OSError, reason: str) -> None:
    node.failure = error
    assert node.reason() == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (listed(("1g.5gb", files(B)), ("1g.5gb", files(C))), "slurmd -G lists other GPUs than the controller has"),
        (listed(*[("1g.5gb", files(each)) for each in (A, B, C)], ("a100", "/dev/nvidia1")), "slurmd -G lists other"),
        ("slurmd: Gres Name=gpu Type=(null) Count=4 ID=7696487 (null)\n", "slurmd -G lists GPUs without device files"),
        ("slurmd: Gres Name=gpu Type=a Count=many ID=7 File=/dev/nvidia1\n", "the output of slurmd -G has an unknown"),
        (f"slurmd: Gres Name=gpu Type=a Count={'1' * 5000} ID=7 File=/dev/nvidia1\n", "the output of slurmd -G has an"),
        ("", "slurmd -G lists other GPUs than the controller has"),
    ],
)
def test_a_listing_that_cannot_be_the_running_slurmds_is_not_used(node: Node, text: str, reason: str) -> None:
    node.text = text
    assert (node.reason() or "").startswith(reason)


def test_a_listing_without_types_is_compared_by_its_length(node: Node) -> None:
    node.text = listed(*[("(null)", names) for names in (files(C), files(B), "/dev/nvidia1", files(A))])
    node.slurm.gres = "gpu:4"
    assert node.allocated(0) == ({"0": ["MIG-c"]}, None)
    node.slurm.gres, node.slurm.slurmd_started = "gpu:5", "2100-01-01T09:00:00"
    assert node.reason() == "slurmd -G lists other GPUs than the controller has: restart slurmd"


def test_a_failure_is_the_reason_and_slurmd_is_queried_again_after_ten_polls(node: Node) -> None:
    node.failure = "slurmd: error opening/reading /etc/slurm/gres.conf"
    for _ in range(10):
        assert node.reason() == node.failure
    assert node.runs == 1
    node.failure = None
    assert node.allocated(0) == ({"0": ["MIG-b"]}, None)
    assert node.runs == 2


def test_without_the_start_of_slurmd_nothing_is_known(node: Node) -> None:
    for text in ("None", "2100-01-01", "4102444800"):
        node.slurm.slurmd_started = text
        assert node.reason() == "Slurm does not show when slurmd started"


def test_slurmd_is_not_queried_where_gres_conf_decides(tmp_path: Path) -> None:
    node = Node(tmp_path, "Name=gpu File=/dev/nvidia[0-1]\n", instances={})
    assert node.allocated(0, 1) == ({"0": ["GPU-0"], "1": ["GPU-1"]}, None)
    assert node.runs == 0


A_B = "Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1\n"


@pytest.fixture
def types(tmp_path: Path) -> Node:
    """A node with two whole GPUs of different types, which slurm.conf lists in another order than gres.conf."""
    node = Node(tmp_path, A_B, listed(("b", "/dev/nvidia1"), ("a", "/dev/nvidia0")), instances={})
    node.slurm.gres = "gpu:b:1,gpu:a:1"
    return node


def test_whole_gpus_of_several_types_are_in_the_order_of_slurm_conf(types: Node) -> None:
    assert types.allocated(0, 1) == ({"0": ["GPU-1"], "1": ["GPU-0"]}, None)


def test_gpus_of_several_types_are_unknown_without_a_listing_and_after_a_failure(types: Node) -> None:
    names = [CardName("gres", 0), CardName("uuid", "GPU-1")]
    types.reader.conf.refresh(CardTable(types.cards()))
    reason = "Slurm's GPU 0 may be any card: slurmd -G has not listed its device files"
    assert types.reader.conf.find(CardTable(types.cards()), names) == (frozenset({"GPU-1"}), reason)
    assert types.allocated(0)[1] is None
    types.slurm.slurmd_started, types.failure = "2100-01-01T09:00:00", "slurmd: fatal"
    assert types.allocated(0) == ({}, "job 0: Slurm's GPU 0 may be any card: slurmd: fatal")
    types.slurm.slurmd_started, types.failure = "2100-01-01T10:00:00", None
    assert types.allocated(0)[1] is None
    types.gres_conf += "# changed\n"
    types.write()
    reason = "GPUs, slurm.conf or gres.conf changed: restart slurmd"
    assert types.allocated(0) == ({}, f"job 0: Slurm's GPU 0 may be any card: {reason}")


@pytest.mark.parametrize(
    ("gres_conf", "included"),
    [
        ("Include more.conf # the GPUs\n", "Name=gpu Type=a File=/dev/nvidia[1,0]\n"),
        ("name=gpu type=a File=/dev/nvidia1\n  include more.conf", "Name=gpu Type=A File=/dev/nvidia0"),
        ("Include more.conf\nName=gpu Type=a File=/dev/nvidia0\n", "Name=gpu Type=a \\\n File=/dev/nvidia1"),
        ("Name=gpu File=/dev/nvidia[1,0]\nInclude more.conf\n", ""),
    ],
)
def test_included_files_with_one_type_are_read_in_their_places(tmp_path: Path, gres_conf: str, included: str) -> None:
    (tmp_path / "more.conf").write_text(included)
    node = Node(tmp_path, gres_conf, instances={}, failure="slurmd cannot be started")
    assert node.allocated(0, 1) == ({"0": ["GPU-1"], "1": ["GPU-0"]}, None)
    assert node.runs == 0
    (tmp_path / "more.conf").write_text(f"{A_B}Include gres.conf\n")
    assert node.allocated(0) == ({}, "job 0: Slurm's GPU 0 may be any card: slurmd cannot be started")


@pytest.mark.parametrize("name", ["missing.conf", "*.conf", "%c.conf", "gres.conf", "a\0b", "."])
def test_an_included_file_that_cannot_be_read_may_have_other_types(types: Node, name: str) -> None:
    types.gres_conf, types.failure = f"Name=gpu File=/dev/nvidia[0-1]\nInclude {name}\n", "slurmd: fatal"
    types.write()
    assert types.allocated(0) == ({}, "job 0: Slurm's GPU 0 may be any card: slurmd: fatal")
    types.slurm.slurmd_started, types.failure = "2100-01-01T09:00:00", None
    assert types.allocated(0, 1) == ({"0": ["GPU-1"], "1": ["GPU-0"]}, None)


def test_a_gres_conf_that_cannot_be_read_may_have_several_types_and_an_empty_one_has_none(types: Node) -> None:
    types.failure = "slurmd: fatal"
    (types.folder / "gres.conf").write_text("")
    assert types.allocated(0, 1) == ({"0": ["GPU-0"], "1": ["GPU-1"]}, None)
    (types.folder / "gres.conf").unlink()
    (types.folder / "gres.conf").mkdir()  # root can read any file
    assert types.allocated(0) == ({}, "job 0: Slurm's GPU 0 may be any card: slurmd: fatal")


def test_types_on_continued_lines_count(types: Node) -> None:
    types.gres_conf = A_B.replace("gpu ", "gpu \\\n ") + "# comments are not continued \\\nName=gpu Type=c\n"
    types.write()
    assert types.allocated(0, 1) == ({"0": ["GPU-1"], "1": ["GPU-0"]}, None)
    types.gres_conf = "# not continued \\\nName=gpu Type=a \\\n File=/dev/nvidia[1,0]\n"
    types.write()
    assert types.allocated(0, 1) == ({"0": ["GPU-1"], "1": ["GPU-0"]}, None)


@pytest.mark.parametrize(
    ("names", "cards"),
    [
        (files((0, 2, 1)), ["MIG-second"]),
        (f"{files((0, 2, 0))},{files((0, 7, 0))}", ["MIG-b", "MIG-first"]),
        (f"{files((0, 7, 0))},/dev/nvidia1", ["GPU-1", "MIG-b"]),
        ("/dev/nvidia1", ["GPU-1"]),
        ("/dev/nvidia0", []),  # the GPU of instances, without any of them
        ("/dev/nvidia2", []),
        (files((0, 7, 0)).replace("nvidia0", "nvidia1"), []),  # the GPU of another instance
        (files((0, 7, 0)).replace("/dev/nvidia0,", ""), []),
        ("/dev/nvidia0,/dev/nvidia-caps/nvidia-cap66", []),  # a GPU instance without compute instance
        ("/dev/other7", []),
    ],
)
def test_device_files_identify_compute_instances_and_whole_gpus(node: Node, names: str, cards: list[str]) -> None:
    node.instances = {"MIG-first": (0, 2, 0), "MIG-second": (0, 2, 1), "MIG-b": (0, 7, 0)}
    node.slurm.gres, node.text = "gpu:x:1", listed(("x", names))
    node.write()
    jobs, reason = node.allocated(0)
    assert jobs == ({"0": cards} if cards else {})
    assert (reason is None) is bool(cards)


def test_two_instances_with_one_number_are_both_unknown(node: Node) -> None:
    access = next((node.folder / "proc").glob("**/gi9/ci0/access"))
    access.write_bytes(next((node.folder / "proc").glob("**/gi7/ci0/access")).read_bytes())
    assert node.reason() == f"no card here has {files(B)}"


def test_a_hooks_file_with_a_gres_index_is_on_the_instance_too(node: Node) -> None:
    (node.folder / "files").mkdir(mode=0o755)
    entries = {"source": "slurm", "id": "7", "cards": [{"gres": 2}], "since": NOW / 1000 - 60}
    (node.folder / "files" / "slurm-7.json").write_text(json.dumps(entries))
    assert node.allocated(3)[0] == {"3": ["MIG-a"], "7": ["MIG-c"]}


def test_an_index_beyond_the_listing_is_unknown(node: Node) -> None:
    assert node.allocated(7) == ({}, "job 7: Slurm's GPU 7 may be any MIG instance: no card here has it")


def test_unused_instances_are_free_and_those_of_an_uncertain_job_are_not(node: Node) -> None:
    node.slurm.used = "gpu:1(IDX:0)"
    node.slurm.jobs = []
    node.poll._answer = node.poll.poll()  # noqa: SLF001 - without its thread
    node.poll._stop.set()  # noqa: SLF001 - as above
    assert node.reader.look(NOW - 30_000, NOW, node.cards()).unknown_cards == {"MIG-b"}
    del node.instances["MIG-b"]
    node.write()
    assert node.reader.look(NOW - 30_000, NOW, node.cards()).unknown_cards == {"GPU-0", "GPU-1", "MIG-a", "MIG-c"}


@pytest.fixture
def slurmd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Return a function that installs a slurmd of this text and returns the folder of its configuration."""
    with tempfile.TemporaryDirectory(prefix="gua-test-") as temporary:  # every user may enter it
        folder = Path(temporary)
        folder.chmod(0o755)
        for name in ("bin", "etc"):
            (folder / name).mkdir(mode=0o755)
        for name in ("slurm.conf", "gres.conf", "cgroup.conf"):
            (folder / "etc" / name).write_text(f"# the site's {name}\n")
            (folder / "etc" / name).chmod(0o644)
        monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
        monkeypatch.setenv("SLURM_CONF", str(folder / "etc" / "slurm.conf"))

        def install(text: str) -> Path:
            (folder / "bin" / "slurmd").write_text(f"#!/bin/sh\n{text}\n")
            (folder / "bin" / "slurmd").chmod(0o755)
            return folder / "etc"

        umask = os.umask(0o077)  # that of the service
        yield install
        os.umask(umask)


def test_slurmd_reads_the_sites_files_but_for_cgroups_and_has_no_rights_of_root(slurmd: Callable[[str], Path]) -> None:
    folder = slurmd('id -u >&2; echo "$1 $3 $4 $5"; cd "${2%/*}" && cat slurm.conf gres.conf cgroup.conf')
    user, arguments, *texts = run_slurmd(folder, "node7").splitlines()
    assert user == str(os.geteuid() or 65_534)
    assert arguments == "-f -N node7 -G"
    assert texts == ["# the site's slurm.conf", "# the site's gres.conf", "CgroupPlugin=cgroup/v1"]
    assert (folder / "cgroup.conf").read_text() == "# the site's cgroup.conf\n"


def test_an_error_of_slurmd_names_the_sites_folder(slurmd: Callable[[str], Path]) -> None:
    folder = slurmd('echo "slurmd: fatal: error opening/reading ${2%/*}/gres.conf" >&2; exit 1')
    with pytest.raises(CommandError, match=f"^slurmd: error opening/reading {folder}/gres.conf$"):
        run_slurmd(folder, "node7")


def test_a_slurmd_that_hangs_is_ended(slurmd: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gua.allocation.slurm_listing._SECONDS", 0.2)
    with pytest.raises(CommandError, match=r"^slurmd gives no answer within 0\.2 s$"):
        run_slurmd(slurmd("exec sleep 600"), "node7")


def test_a_host_without_slurmd_is_a_reason(slurmd: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = slurmd("")
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(CommandError, match=r"^slurmd cannot be started \(No such file or directory\)$"):
        run_slurmd(folder, "node7")
