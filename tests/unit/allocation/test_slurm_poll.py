"""Polling Slurm: which commands, how often, and what becomes of answers that fail or lie."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from fakes.slurm import FakeSlurm, SlurmJob
from gua.allocation.slurm_poll import CommandError, SlurmPoll

NOW = 1_800_000_000_000
RECORDED = Path(__file__).parents[2] / "fixtures" / "slurm" / "22.05.8"


def poll_of(slurm: FakeSlurm, **more: object) -> SlurmPoll:
    return SlurmPoll(run=slurm.ask, wall_ms=lambda: NOW, **more)  # type: ignore[arg-type]


def test_jobs_are_reported_with_their_gpus_and_times() -> None:
    slurm = FakeSlurm([SlurmJob(12, "gpu:h100:2(IDX:0-1)", NOW - 60_000)], used="gpu:h100:2(IDX:0-1)")
    answer = poll_of(slurm).poll()
    assert (answer.reason, answer.node, answer.at_ms, answer.unexplained) == (None, "node7", NOW, frozenset())
    job = answer.jobs["12"]
    assert (job.uid, job.user, job.name, job.since_ms, job.until_ms) == (1000, "alice", "train", NOW - 60_000, None)
    assert (job.gres.places, job.gres.kind) == ({0, 1}, "gpu")


def test_the_gpus_of_a_job_are_queried_once() -> None:
    slurm = FakeSlurm([SlurmJob(12, "gpu:h100:2(IDX:0-1)", NOW - 60_000)], used="gpu:h100:2(IDX:0-1)")
    poll = poll_of(slurm)
    poll.poll()
    slurm.asked.clear()
    poll.poll()
    assert [each.split()[0:3] for each in slurm.asked] == [["scontrol", "show", "node"], ["squeue", "-h", "-t"]]


def test_jobs_that_can_have_no_gpu_are_not_queried() -> None:
    slurm = FakeSlurm([SlurmJob(number, "", NOW - 60_000) for number in range(50)])
    answer = poll_of(slurm).poll()
    assert len(slurm.asked) == 3
    assert len(answer.jobs) == 50


def test_an_ended_job_keeps_its_gpus_and_has_slurms_end() -> None:
    job = SlurmJob(12, "gpu:h100:2(IDX:0-1)", NOW - 60_000)
    slurm = FakeSlurm([job], used="gpu:h100:2(IDX:0-1)")
    poll = poll_of(slurm)
    poll.poll()
    job.state, job.until_ms, job.gres, slurm.used = "COMPLETED", NOW - 7_000, "", "gpu:h100:0(IDX:N/A)"
    job_now = poll.poll().jobs["12"]
    assert (job_now.until_ms, job_now.gres.places) == (NOW - 7_000, {0, 1})


def test_an_end_that_lies_ahead_of_the_clock_is_now() -> None:
    job = SlurmJob(12, "gpu:h100:1(IDX:0)", NOW - 60_000)
    slurm = FakeSlurm([job], used="gpu:h100:1(IDX:0)")
    poll = poll_of(slurm)
    poll.poll()
    job.state, job.until_ms, slurm.used = "COMPLETED", NOW + 60_000, "gpu:h100:0(IDX:N/A)"
    assert poll.poll().jobs["12"].until_ms == NOW


def test_a_requeued_job_is_queried_anew_and_counts_as_running() -> None:
    job = SlurmJob(12, "gpu:h100:1(IDX:0)", NOW - 60_000)
    slurm = FakeSlurm([job], used="gpu:h100:1(IDX:0)")
    poll = poll_of(slurm)
    poll.poll()
    again = SlurmJob(12, "gpu:h100:1(IDX:3)", NOW - 5_000)
    slurm.jobs, slurm.used = [again, SlurmJob(12, "", NOW - 60_000, "COMPLETED", NOW - 9_000)], "gpu:h100:1(IDX:3)"
    # scontrol reports only the newer run
    asked, slurm.ask = (
        slurm.ask,
        lambda command: FakeSlurm([again]).ask(command) if "job" in command else asked(command),
    )  # type: ignore[method-assign]
    poll.run = slurm.ask
    job_now = poll.poll().jobs["12"]
    assert (job_now.since_ms, job_now.until_ms, job_now.gres.places) == (NOW - 5_000, None, {3})


def test_gpus_in_use_without_a_visible_job_are_reported_as_unexplained() -> None:
    slurm = FakeSlurm([SlurmJob(12, "gpu:h100:1(IDX:0)", NOW)], used="gpu:h100:3(IDX:0,2-3)")
    assert poll_of(slurm).poll().unexplained == {2, 3}


def test_a_job_that_ended_between_two_questions_is_not_missed() -> None:
    slurm = FakeSlurm(used="gpu:h100:1(IDX:0)")

    def ask(command: Sequence[str]) -> str:
        answer = slurm.ask(command)
        if command[0] == "squeue":
            slurm.used = "gpu:h100:0(IDX:N/A)"
        return answer

    assert SlurmPoll(run=ask).poll().unexplained == frozenset()


def test_a_job_that_hides_its_gpus_behind_its_name_is_named_and_they_are_not_explained() -> None:
    name = "x Nodes=node7 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3)"
    slurm = FakeSlurm([SlurmJob(12, "gpu:h100:1(IDX:0)", NOW, name=name)], used="gpu:h100:1(IDX:0)")
    answer = poll_of(slurm).poll()
    assert (answer.unclear, answer.unexplained) == (("12",), {0})


def test_each_array_task_and_each_part_of_a_heterogeneous_job_is_queried_separately() -> None:
    jobs = [
        SlurmJob(1, "gpu:h100:1(IDX:1)", NOW, part="1_1"),  # the last task has the array's own id
        SlurmJob(2, "gpu:h100:1(IDX:0)", NOW, part="1_0"),
        SlurmJob(3, "gpu:h100:1(IDX:2)", NOW, part="3+0"),
        SlurmJob(4, "gpu:h100:1(IDX:3)", NOW, part="3+1"),
    ]
    answer = poll_of(FakeSlurm(jobs, used="gpu:h100:4(IDX:0-3)")).poll()
    assert (answer.unclear, answer.unexplained) == ((), frozenset())
    assert {job.id: set(job.gres.places) for job in answer.jobs.values()} == {"1": {1}, "2": {0}, "3": {2}, "4": {3}}


@pytest.mark.parametrize(
    ("case", "jobs"),
    [
        ("array", {"1": ("gpu", {1}), "2": ("gpu", {0})}),
        ("heterogeneous", {"1": ("gpu", {0})}),
        ("shard", {"3": ("shard", {0}), "4": ("shard", {0}), "5": ("gpu", {1})}),
        ("mps", {"1": ("mps", {0}), "2": ("mps", {0}), "3": ("gpu", {1})}),
        # A node that has not registered since the controller began reports only how many are in use.
        ("restarted", {"3": ("shard", {0}), "4": ("shard", {0}), "5": ("gpu", {1})}),
    ],
)
def test_what_a_real_slurm_answered_is_read(case: str, jobs: dict[str, tuple[str, set[int]]]) -> None:
    recorded = json.loads((RECORDED / f"{case}.json").read_text())

    def ask(command: Sequence[str]) -> str:
        match command:
            case ["squeue", *_]:
                return str(recorded["squeue"])
            case ["scontrol", "show", "node", *_]:
                return str(recorded["node"])
        return str(recorded["jobs"][command[-1]])

    answer = SlurmPoll(run=ask, node="gpunode7").poll()
    assert (answer.reason, answer.unclear, answer.unexplained, answer.unplaced) == (None, (), frozenset(), 0)
    live = [job for job in answer.jobs.values() if job.until_ms is None]
    assert {job.id: (job.gres.kind, set(job.gres.places)) for job in live} == jobs
    assert {job.user for job in live} == {"daemon"}


def test_if_a_node_reports_only_how_many_gpus_are_in_use_jobs_show_which() -> None:
    jobs = [SlurmJob(12, "gpu:h100:1(IDX:0)", NOW)]
    assert poll_of(FakeSlurm(jobs, used="gpu:h100:1,shard:0")).poll().unplaced == 0
    assert poll_of(FakeSlurm(jobs, used="gpu:h100:3,shard:0")).poll().unplaced == 2
    assert poll_of(FakeSlurm(used="gpu:h100:1")).poll().unplaced == 1
    shards = [SlurmJob(13, "shard:2(IDX:0)", NOW)]
    assert poll_of(FakeSlurm(shards, used="gpu:h100:0,shard:2")).poll().unplaced == 0


def test_gpus_that_are_placed_only_in_the_second_answer_are_not_explained() -> None:
    slurm = FakeSlurm(used="gpu:h100:1")

    def ask(command: Sequence[str]) -> str:
        answer = slurm.ask(command)
        if command[0] == "squeue":
            slurm.used = "gpu:h100:1(IDX:2)"
        return answer

    answer = SlurmPoll(run=ask).poll()
    assert (answer.unexplained, answer.unplaced) == ({2}, 0)


def test_shards_are_queried_if_any_are_in_use() -> None:
    jobs = [SlurmJob(1, "shard:2(2/4,0/4)", NOW), SlurmJob(2, "shard:1(1/4,0/4)", NOW)]
    answer = poll_of(FakeSlurm(jobs, used="gpu:h100:0(IDX:N/A),shard:3(3/4,0/4)")).poll()
    assert [(job.gres.places, job.gres.kind) for job in answer.jobs.values()] == [({0}, "shard")] * 2


def test_new_jobs_beyond_the_limit_of_one_query_stay_unexplained() -> None:
    jobs = [SlurmJob(number, f"gpu:1(IDX:{number})", NOW) for number in range(80)]
    slurm = FakeSlurm(jobs, used="gpu:h100:80(IDX:0-79)")
    poll = poll_of(slurm)
    assert len(poll.poll().unexplained) == 16
    assert poll.poll().unexplained == frozenset()


def test_the_node_is_found_by_slurmd_then_by_the_controller_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm()
    poll = poll_of(slurm)
    for _ in range(2):
        assert poll.poll().node == "node7"
    assert slurm.asked.count("scontrol show slurmd") == 1

    def without_slurmd(command: Sequence[str]) -> str:
        if list(command[1:]) == ["show", "slurmd"]:
            msg = "scontrol: no slurmd"
            raise CommandError(msg)
        if list(command[1:]) == ["show", "node", "-o"]:
            return slurm.ask(["scontrol", "show", "node", "-d", "-o", "node7"])
        return slurm.ask(command)

    monkeypatch.setattr("platform.node", lambda: "host7")
    assert SlurmPoll(run=without_slurmd).poll().node == "node7"
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    assert SlurmPoll(run=without_slurmd).poll().reason == "this host is no node of Slurm's: set its node name"


def test_a_node_that_was_renamed_is_found_again_after_a_failure() -> None:
    slurm = FakeSlurm()
    poll = poll_of(slurm)
    assert poll.poll().node == "node7"
    slurm.node = "node8"
    assert poll.poll().reason == "scontrol: Node node7 not found"
    assert poll.poll().node == "node8"


def test_a_wrong_node_is_a_failure() -> None:
    assert poll_of(FakeSlurm(), node="nosuch").poll().reason == "scontrol: Node nosuch not found"


@pytest.mark.parametrize("answer", ["", "garbage\n", '{"jobs": []}', "\udcff", "NodeName=node7 GresUsed=x\n" * 3])
def test_garbage_is_a_failure(answer: str) -> None:
    assert SlurmPoll(run=lambda _: answer).poll().reason is not None


@pytest.mark.parametrize("answer", ["garbage\n", "JOBID PARTITION NAME\n", '{"jobs": []}', "12|12|alice|RUNNING\n"])
def test_garbage_of_squeue_alone_is_a_failure_with_its_reason(answer: str) -> None:
    slurm = FakeSlurm()
    poll = SlurmPoll(run=lambda command: answer if command[0] == "squeue" else slurm.ask(command))
    assert poll.poll().reason == "the output of squeue has an unknown format"


def test_whatever_is_raised_is_a_failure() -> None:
    def ask(_: Sequence[str]) -> str:
        raise MemoryError

    assert SlurmPoll(run=ask).poll().reason == "unexpected MemoryError"


def test_the_newest_answer_holds_and_a_failed_one_too() -> None:
    slurm = FakeSlurm([SlurmJob(12, "gpu:1(IDX:0)", NOW)], used="gpu:1(IDX:0)")
    asked = threading.Semaphore(0)
    waiting = threading.Event()

    def ask(command: Sequence[str]) -> str:
        if command[0] == "squeue":
            asked.release()
            waiting.wait(5)
        return slurm.ask(command)

    poll = SlurmPoll(run=ask, period_seconds=0.01)
    try:
        assert poll.answer().reason == "no answer yet"
        assert asked.acquire(timeout=60)
        assert poll.answer().reason == "no answer yet"
        waiting.set()
        for _ in range(3):
            assert asked.acquire(timeout=60)
        assert poll.answer().jobs.keys() == {"12"}
        slurm.failure = "squeue: Unable to contact slurm controller (connect failure)"
        _until(lambda: poll.answer().reason == slurm.failure)
        slurm.failure = None
        _until(lambda: poll.answer().reason is None)
    finally:
        poll.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "gua-slurm"]


def test_an_answer_that_is_too_old_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = poll_of(FakeSlurm())
    moment = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: moment[0])
    try:
        poll.answer()
        _until(lambda: poll.answer().reason is None)
        moment[0] += 500
        assert poll.answer().reason == "the last answer is 500 s old"
    finally:
        poll.close()


def _until(holds: object) -> None:
    pause = threading.Event()
    for _ in range(500):
        if holds():  # type: ignore[operator]
            return
        pause.wait(0.01)
    raise AssertionError
