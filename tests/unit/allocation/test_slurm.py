"""Slurm's jobs by hooks, by files that sites have and by polling, and how these check each other."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from fakes.slurm import FakeSlurm, SlurmJob
from gua.allocation.files import AllocationFolder, FilesReader
from gua.allocation.slurm import CardFiles, SlurmReader, SlurmSettings, gpustat, job_mapping, openers
from gua.allocation.slurm_conf import GresConf
from gua.allocation.slurm_poll import PollAnswer, SlurmPoll
from gua.allocation.sources import ReaderLook
from gua.core.allocation import CardKey

CARDS = tuple(CardKey(f"GPU-{number}", number, number) for number in range(4))
NOW = 1_800_000_000_000
TICK = 30_000


class SteppedPoll(SlurmPoll):
    """A poll that queries when a test says so."""

    def __init__(self, slurm: FakeSlurm) -> None:
        super().__init__(run=slurm.ask, wall_ms=lambda: self.now_ms)
        self.now_ms = NOW
        self.newest = PollAnswer(at_ms=0, reason="no answer yet")

    def ask_at(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.newest = self.poll()

    def answer(self) -> PollAnswer:
        return self.newest


class Node:
    """A node with hooks and Slurm's commands; each look is a tick of 30 s later."""

    def __init__(self, path: Path, *, polls: bool = True, site_files: Sequence[CardFiles] = ()) -> None:
        self.folder = path / "allocations"
        self.folder.mkdir(mode=0o755)
        self.slurm = FakeSlurm()
        self.poll = SteppedPoll(self.slurm)
        self.reader = SlurmReader(
            AllocationFolder(self.folder),
            poll=self.poll if polls else None,
            site_files=site_files,
            conf=GresConf(path),
        )
        self.now_ms = NOW

    def prolog(self, job: int, gpus: list[int], at_ms: int, **more: object) -> Path:
        entries = {"source": "slurm", "id": str(job), "uid": 1000, "owner": "alice", "since": at_ms / 1000, **more}
        file = self.folder / f"slurm-{job}.json"
        file.write_text(json.dumps({"cards": [{"gres": gpu} for gpu in gpus], **entries}))
        return file

    def epilog(self, job: int, at_ms: int) -> None:
        file = self.folder / f"slurm-{job}.json"
        entries = json.loads(file.read_text())
        (self.folder / f"slurm-{job}.ended.json").write_text(json.dumps({**entries, "until": at_ms / 1000}))
        file.unlink()

    def runs(self, *jobs: SlurmJob, used: str) -> None:
        self.slurm.jobs, self.slurm.used = list(jobs), f"gpu:h100:{len(jobs)}(IDX:{used})"

    def look(self) -> ReaderLook:
        self.now_ms += TICK
        return self.reader.look(self.now_ms - TICK, self.now_ms, CARDS)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def brief(look: ReaderLook) -> list[tuple[str, list[str], int, int | None]]:
    return [(each.id, sorted(each.cards), each.since_ms, each.until_ms) for each in look.allocations]


def test_a_polled_job_is_an_allocation_with_slurms_start(node: Node) -> None:
    node.runs(SlurmJob(12, "gpu:h100:2(IDX:0-1)", NOW - 60_000), used="0-1")
    node.poll.ask_at(NOW)
    [allocation] = node.look().allocations
    assert allocation.key == ("slurm", "12")
    assert (allocation.cards, allocation.since_ms, allocation.until_ms) == ({"GPU-0", "GPU-1"}, NOW - 60_000, None)
    assert (allocation.owner, allocation.uid, allocation.kind, allocation.job_name) == ("alice", 1000, "gpu", "train")
    assert allocation.slurm_job_id == "12"


def test_the_last_good_answer_holds_between_polls_and_a_failed_one_fails_at_once(node: Node) -> None:
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 60_000), used="0")
    assert node.look().reason == "no answer yet"
    node.poll.ask_at(node.now_ms)
    for _ in range(3):
        look = node.look()
        assert (look.reason, [each.id for each in look.allocations]) == (None, ["12"])
    node.slurm.failure = "squeue: Unable to contact slurm controller (connect failure)"
    node.poll.ask_at(node.now_ms)
    for _ in range(2):
        look = node.look()
        assert (look.reason, look.allocations) == (node.slurm.failure, ())
    node.slurm.failure = None
    node.poll.ask_at(node.now_ms)
    assert [each.id for each in node.look().allocations] == ["12"]


def test_a_job_in_both_stands_once_with_the_files_times_and_slurms_name(node: Node) -> None:
    node.prolog(12, [0], NOW - 59_877)
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 60_000), used="0")
    node.poll.ask_at(NOW)
    look = node.look()
    assert brief(look) == [("12", ["GPU-0"], NOW - 59_877, None)]
    assert (look.allocations[0].job_name, look.allocations[0].kind, look.notes) == ("train", "gpu", ())


def test_an_ended_file_is_exact_and_an_older_poll_does_not_bring_the_job_back(node: Node) -> None:
    node.prolog(12, [0], NOW - 60_000)
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 60_000), used="0")
    node.poll.ask_at(NOW)
    node.look()
    node.epilog(12, node.now_ms + 11_111)
    assert brief(node.look()) == [("12", ["GPU-0"], NOW - 60_000, NOW + TICK + 11_111)]
    assert brief(node.look()) == []
    (node.folder / "slurm-12.ended.json").unlink()
    assert brief(node.look()) == []


def test_a_job_that_slurm_still_has_long_after_its_epilog_counts_again(node: Node) -> None:
    node.prolog(12, [0], NOW - 60_000)
    node.epilog(12, NOW - 50_000)
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 60_000, "COMPLETING"), used="0")
    node.poll.ask_at(NOW)
    assert [each.id for each in node.look().allocations] == ["12"]


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_file_left_behind_is_ended_by_the_poll_and_named(node: Node, *, is_remembered: bool) -> None:
    node.prolog(12, [0], NOW - 600_000)
    ended = SlurmJob(12, "", NOW - 600_000, "CANCELLED", NOW + 21_000)
    node.slurm.jobs = [ended] if is_remembered else []
    node.poll.ask_at(NOW + 25_000)
    until_ms = NOW + (21_000 if is_remembered else 25_000)
    look = node.look()
    assert brief(look) == [("12", ["GPU-0"], NOW - 600_000, until_ms)]
    assert (look.reason, look.notes) == (None, ("slurm-12.json was left behind: Slurm's job 12 has ended",))
    node.poll.ask_at(node.now_ms)
    look = node.look()
    assert (brief(look), len(look.notes)) == ([], 1)
    node.slurm.failure = "squeue: gone"
    node.poll.ask_at(node.now_ms)
    look = node.look()
    assert (brief(look), look.reason) == ([], "squeue: gone")


def test_a_file_that_is_new_is_not_judged_by_a_poll_from_before(node: Node) -> None:
    node.poll.ask_at(NOW)
    node.prolog(12, [0], NOW + 1_000)
    assert (brief(node.look()), node.look().notes) == ([("12", ["GPU-0"], NOW + 1_000, None)], ())


@pytest.mark.parametrize("set_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_was_set_frees_no_card_of_a_job_that_goes_on(node: Node, *, set_ms: int) -> None:
    node.prolog(12, [0], NOW - 60_000)
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 60_000), used="0")
    node.poll.ask_at(NOW)
    node.look()
    node.now_ms += set_ms
    node.prolog(13, [1], node.now_ms + 5_000)  # by the clock as it goes now, which the poll is not of
    for _ in range(2):
        look = node.look()
        ends = {each.id: each.until_ms for each in look.allocations}
        assert ends.keys() == {"12", "13"}
        assert all(until_ms is None or until_ms >= node.now_ms for until_ms in ends.values())
    node.runs(*(SlurmJob(job, f"gpu:1(IDX:{job - 12})", NOW - 60_000) for job in (12, 13)), used="0,1")
    node.poll.ask_at(node.now_ms)
    assert {each.id: each.until_ms for each in node.look().allocations} == {"12": None, "13": None}


def test_files_still_count_while_slurm_cannot_be_queried(node: Node) -> None:
    node.prolog(12, [0], NOW - 60_000)
    node.slurm.failure = "squeue: gone"
    node.poll.ask_at(NOW)
    look = node.look()
    assert (brief(look), look.reason) == ([("12", ["GPU-0"], NOW - 60_000, None)], "squeue: gone")


def test_a_job_without_a_file_is_counted_and_the_hooks_are_named(node: Node) -> None:
    jobs = [SlurmJob(number, f"gpu:1(IDX:{number})", NOW - 60_000) for number in range(4)]
    node.runs(*jobs, used="0-3")
    node.poll.ask_at(NOW)
    look = node.look()
    assert len(look.allocations) == 4
    assert look.notes == (f"the hooks are silent: no file of job 0, 1, 2 and 1 more in {node.folder}",)


def test_a_missing_hook_folder_is_no_problem_while_polling_works(node: Node) -> None:
    node.folder.rmdir()
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 60_000), used="0")
    node.poll.ask_at(NOW)
    look = node.look()
    assert (look.reason, look.notes, [each.id for each in look.allocations]) == (None, (), ["12"])


def test_a_job_that_just_began_or_has_no_gpu_is_not_missed(node: Node) -> None:
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 3_000), SlurmJob(13, "", NOW - 60_000), used="0")
    node.poll.ask_at(NOW)
    assert node.look().notes == ()


def test_a_file_with_other_cards_than_slurm_says_is_named(node: Node) -> None:
    node.prolog(12, [1], NOW - 60_000)
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 60_000), used="0")
    node.poll.ask_at(NOW)
    assert node.look().notes == ("slurm-12.json has other cards than Slurm reports",)


def test_cards_in_use_without_a_visible_job_are_unknown(node: Node) -> None:
    node.slurm.used = "gpu:h100:2(IDX:1,3)"
    node.prolog(12, [1], NOW - 5_000)
    node.poll.ask_at(NOW)
    look = node.look()
    assert (look.reason, look.unknown_cards) == (None, {"GPU-3"})


def test_where_slurm_says_only_how_many_are_in_use_no_card_is_free(node: Node) -> None:
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 5_000), used="")
    node.slurm.used = "gpu:h100:2"
    node.poll.ask_at(NOW)
    look = node.look()
    assert (look.reason, look.unknown_cards) == (None, {"GPU-1", "GPU-2", "GPU-3"})


def test_a_torn_file_of_the_hooks_fails_slurm_and_a_foreign_one_does_not(node: Node) -> None:
    node.poll.ask_at(NOW)
    (node.folder / "other.json").write_text("{")
    assert node.look().reason is None
    (node.folder / "slurm-12.json").write_text("{")
    assert node.look().reason == "slurm-12.json: no JSON, or torn"


def test_a_number_that_no_card_has_fails_slurm(node: Node) -> None:
    node.runs(SlurmJob(12, "gpu:1(IDX:7)", NOW - 60_000), used="7")
    node.poll.ask_at(NOW)
    assert node.look().reason == "job 12: no card gres 7 here"


def test_on_a_partitioned_host_only_uuids_identify_the_instance(node: Node) -> None:
    cards = (*CARDS, CardKey("MIG-x", 0, 0, None, "GPU-0", 1))
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 60_000), used="0")
    node.poll.ask_at(NOW)
    look = node.reader.look(NOW, NOW + TICK, cards)
    assert look.reason == ("job 12: Slurm's GPU 0 may be any MIG instance: slurmd -G has not listed its device files")
    node.prolog(12, [], NOW - 60_000, cards=["MIG-x"])
    look = node.reader.look(NOW + TICK, NOW + 2 * TICK, cards)
    assert (look.reason, brief(look)) == (None, [("12", ["MIG-x"], NOW - 60_000, None)])


def test_gres_conf_says_which_cards_the_numbers_mean(node: Node, tmp_path: Path) -> None:
    (tmp_path / "gres.conf").write_text("NodeName=node7 Name=gpu File=/dev/nvidia[2-3]\n")
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 60_000), used="0")
    node.poll.ask_at(NOW)
    assert [sorted(each.cards) for each in node.look().allocations] == [["GPU-2"]]


def test_the_files_of_hooks_serve_without_slurms_commands(tmp_path: Path) -> None:
    node = Node(tmp_path, polls=False)
    node.prolog(12, [0], NOW - 60_000)
    look = node.look()
    assert (look.reason, brief(look)) == (None, [("12", ["GPU-0"], NOW - 60_000, None)])
    (node.folder / "slurm-12.json").unlink()
    node.folder.rmdir()
    assert node.look().reason == f"{node.folder}: No such file or directory"


def stamp(path: Path, at_ms: int) -> None:
    os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))


def test_gpustat_files_yield_jobs_and_their_times(tmp_path: Path) -> None:
    folder = tmp_path / "gpustat"
    folder.mkdir(mode=0o755)
    node = Node(tmp_path, polls=False, site_files=[gpustat(folder)])
    node.folder.rmdir()
    for card in (0, 1):
        (folder / str(card)).write_text("42 1000\n")
        stamp(folder / str(card), NOW - 60_000 + card)
    (folder / "notes").write_text("not one of them")
    look = node.look()
    assert (look.reason, brief(look)) == (None, [("42", ["GPU-0", "GPU-1"], NOW - 60_000, None)])
    assert (look.allocations[0].uid, look.allocations[0].slurm_job_id) == (1000, "42")
    for card in (0, 1):
        (folder / str(card)).unlink()
    stamp(folder, node.now_ms + 9_000)
    assert brief(node.look()) == [("42", ["GPU-0", "GPU-1"], NOW - 60_000, NOW + TICK + 9_000)]
    assert brief(node.look()) == []


def test_the_job_mapping_yields_one_job_per_line_and_instances(tmp_path: Path) -> None:
    folder = tmp_path / "mapping"
    folder.mkdir(mode=0o755)
    node = Node(tmp_path, polls=False, site_files=[job_mapping(folder)])
    cards = (*CARDS, CardKey("MIG-x", 2, 2, None, "GPU-2", 1))
    (folder / "0").write_text("42\n43\n")
    (folder / "2.1").write_text("44\n")
    look = node.reader.look(NOW - TICK, NOW, cards)
    entries = {each.id: each for each in look.allocations}
    assert {job: each.cards for job, each in entries.items()} == {"42": {"GPU-0"}, "43": {"GPU-0"}, "44": {"MIG-x"}}
    (folder / "0").write_text("42\n")
    stamp(folder / "0", NOW + 4_000)
    look = node.reader.look(NOW, NOW + TICK, cards)
    assert {each.id: (each.since_ms, each.until_ms) for each in look.allocations} == {
        "42": (entries["42"].since_ms, None),
        "43": (entries["43"].since_ms, NOW + 4_000),
        "44": (entries["44"].since_ms, None),
    }


@pytest.mark.parametrize("content", ["forty-two", "42 alice", "\x00\xff", "9" * 70_000])
def test_a_bad_file_of_a_site_fails_slurm(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "gpustat"
    folder.mkdir(mode=0o755)
    node = Node(tmp_path, polls=False, site_files=[gpustat(folder)])
    (folder / "0").write_text(content)
    reason = node.look().reason
    assert reason is not None
    assert reason.startswith(f"{folder}/0: ")


def test_the_polls_uid_completes_a_job_mapping(tmp_path: Path) -> None:
    folder = tmp_path / "mapping"
    folder.mkdir(mode=0o755)
    node = Node(tmp_path, site_files=[job_mapping(folder)])
    (folder / "0").write_text("12\n")
    node.runs(SlurmJob(12, "gpu:1(IDX:0)", NOW - 60_000), used="0")
    node.poll.ask_at(NOW)
    [allocation] = node.look().allocations
    assert (allocation.uid, allocation.owner) == (1000, "alice")


def test_files_of_slurm_jobs_are_read_by_the_slurm_source_only(tmp_path: Path) -> None:
    folder = tmp_path / "allocations"
    folder.mkdir(mode=0o755)
    settings = SlurmSettings(poll_seconds=0, gpustat=tmp_path / "none")
    (folder / "slurm-1.json").write_text('{"source": "slurm", "id": "1", "cards": [{"gres": 0}], "since": 1700000000}')
    (folder / "lab-1.json").write_text('{"source": "lab", "id": "1", "cards": [1], "since": 1700000000}')
    files, _ = openers(AllocationFolder(folder), settings)
    alone = files.open()
    assert [each.source for each in alone.look(NOW, NOW + TICK, CARDS).allocations] == ["lab", "slurm"]
    files, slurm = openers(AllocationFolder(folder), settings)
    reader, other = files.open(), slurm.open()
    assert isinstance(reader, FilesReader)
    assert [each.source for each in reader.look(NOW, NOW + TICK, CARDS).allocations] == ["lab"]
    assert [each.source for each in other.look(NOW, NOW + TICK, CARDS).allocations] == ["slurm"]
