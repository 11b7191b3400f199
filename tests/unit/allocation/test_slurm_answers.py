"""What Slurm's commands answer, in all the forms that versions and owners of jobs give them."""

from __future__ import annotations

import pytest

from gua.allocation.slurm_conf import GresOrder, expand, matches, parse_gres_conf
from gua.allocation.slurm_poll import (
    Gres,
    parse_job_gres,
    parse_job_name,
    parse_job_workload,
    parse_jobs,
    parse_node_gres,
    parse_node_name,
)


def detail(gres: str, nodes: str = "node7") -> str:
    return f"JobId=1 JobName=a UserId=a(1) GroupId=a(1) JOB_GRES=x   Nodes={nodes} CPU_IDs=0-3 Mem=0 GRES={gres} \n"


def places(*numbers: int, kind: str | None = "gpu", shared: bool = False) -> Gres:
    return Gres(
        places=frozenset(numbers), shared=frozenset(numbers) if shared else frozenset(), kind=kind, is_clear=True
    )


@pytest.mark.parametrize(
    ("gres", "expected"),
    [
        ("gpu:h100:2(IDX:0-1)", places(0, 1)),
        ("gpu:2(IDX:0,3)", places(0, 3)),
        ("gpu:h100:4(IDX:0-2,7)", places(0, 1, 2, 7)),
        ("gpu:a100:1(IDX:0),gpu:t4:1(IDX:4)", places(0, 4)),
        ("gpu:a100_3g.20gb:1(IDX:1)", places(1)),
        ("", places(kind=None)),
        ("lustre:1,nic:1(IDX:0)", places(kind=None)),
        ("gpu:h100:0(IDX:N/A)", places(kind=None)),
        ("shard:h100:3(2/2,1/2,0/2,0/2)", places(0, 1, kind="shard", shared=True)),
        ("shard:1(IDX:2)", places(2, kind="shard", shared=True)),
        ("mps:h100:50(0/100,50/100)", places(1, kind="mps", shared=True)),
        ("gpu:h100:1(IDX:0),shard:h100:2(0/4,2/4)", Gres(places=frozenset({0, 1}), shared=frozenset({1}), kind="gpu")),
        ("gpu:h100:2(CNT:2)", Gres(is_clear=False, unplaced=2)),
        ("gpu:h100(CNT:2)", Gres(is_clear=False, unplaced=2)),
        ("gpu:2", Gres(is_clear=False, unplaced=2)),
        ("gpu:h100:1,shard:h100:3", Gres(is_clear=False, unplaced=2)),
        ("gpu:h100:0,shard:h100:0", Gres(kind=None)),
        ("gpu:2(IDX:0-99999999)", Gres(is_clear=False, unplaced=2)),
        ("gpu:2(IDX:a-b)", Gres(is_clear=False, unplaced=2)),
        ("gpu:h100:0,shard:(null):1(IDX:0)", places(0, kind="shard", shared=True)),
        ("gpu:h100:1(IDX:0),gpu:{new}=1", Gres(places=frozenset({0}), kind="gpu", is_clear=False, unplaced=1)),
    ],
)
def test_the_gpus_of_a_job_are_read(gres: str, expected: Gres) -> None:
    assert parse_job_gres(detail(gres), "node7") == expected


def test_of_a_job_on_several_nodes_only_this_nodes_part_counts() -> None:
    answer = (
        "JobId=1 JobName=a UserId=a(1) GroupId=a(1) JOB_GRES=gpu:6   Nodes=node[01-06,08] CPU_IDs=0 Mem=0 "
        "GRES=gpu:1(IDX:3)   Nodes=node7 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1) MinCPUsNode=1\n"
    )
    assert parse_job_gres(answer, "node7") == places(0, 1)
    assert parse_job_gres(answer, "node08") == places(3)
    assert parse_job_gres(answer, "node9") == Gres()


@pytest.mark.parametrize(
    "name",
    [
        "x Nodes=node7 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3)",
        "x\nJobId=1 JobName=y UserId=bob(2) Nodes=node7 CPU_IDs=0 Mem=0 GRES=gpu:4(IDX:0-3) ",
    ],
)
def test_a_job_whose_name_looks_like_fields_is_ambiguous(name: str) -> None:
    answer = detail("gpu:1(IDX:0)").replace("JobName=a", f"JobName={name}")
    assert not parse_job_gres(answer, "node7").is_clear


def test_a_jobs_name_is_cut_and_may_hold_anything() -> None:
    assert parse_job_name(detail("").replace("JobName=a", f"JobName=a b\n{'c' * 1000}")) == f"a b\n{'c' * 124}"
    assert parse_job_name("") is None


def test_a_jobs_name_and_comment_may_declare_what_it_is_for() -> None:
    answer = detail("gpu:1(IDX:0)")
    assert parse_job_workload(answer) == (None, None)
    assert parse_job_workload(answer.replace("JobName=a", "JobName=night gua.kind=training")) == ("training", None)
    commented = answer + "   Comment=paper; gua.model=org/qwen-32b gua.kind=serving WorkDir=/home/gua.model=no\n"
    assert parse_job_workload(commented) == ("serving", "org/qwen-32b")
    assert parse_job_workload(answer + " Command=/home/gua.kind=no WorkDir=/ gua.kind=no\n") == (None, None)
    assert parse_job_workload("") == (None, None)


def test_jobs_are_read_with_their_times() -> None:
    answer = (
        "12|12|1000|RUNNING|2026-11-22T15:13:58|N/A|alice\n"
        "13|13|1001|COMPLETED|2026-11-22T15:13:58|2026-11-22T15:14:19|DOM\\bob|x\n"
        "14|14|1001|COMPLETING|2026-11-22T15:13:58|2027-11-22T15:14:19|bob\n"
        "15|15|1001|PENDING|N/A|N/A|bob\n"
        "16|16|1001|SOMETHING_NEW|1795360438|N/A|bob\n"
    )
    jobs = parse_jobs(answer, 1_795_400_000_000)
    assert [(job.id, job.since_ms, job.until_ms) for job in jobs] == [
        ("12", 1_795_360_438_000, None),
        ("13", 1_795_360_438_000, 1_795_360_459_000),
        ("14", 1_795_360_438_000, None),
        ("15", 1_795_400_000_000, 1_795_400_000_000),
        ("16", 1_795_360_438_000, None),
    ]
    assert [job.user for job in jobs][1] == "DOM\\bob|x"


@pytest.mark.parametrize(
    "answer",
    [
        "JOBID PARTITION NAME\n",
        "12|12|alice|RUNNING|2026-11-22T15:13:58|N/A|alice\n",
        "12|12|1000|RUNNING|15:13|N/A|alice\n",
        "12|12|1000|RUNNING|2026-99-22T15:13:58|N/A|alice\n",
        '{"jobs": []}',
        "\x00\n",
    ],
)
def test_jobs_in_another_form_are_refused(answer: str) -> None:
    with pytest.raises(ValueError, match="unknown format"):
        parse_jobs(answer, 1_795_400_000_000)


def test_what_a_node_uses_is_read() -> None:
    answer = "NodeName=node7 Arch=x Gres=gpu:4 GresDrain=N/A GresUsed=gpu:h100:2(IDX:0,3),shard:h100:1(0/2,-/2,1/2) X=1"
    assert parse_node_gres(answer, "node7") == Gres(places=frozenset({0, 2, 3}), shared=frozenset({2}), kind="gpu")
    for wrong in ("", "NodeName=node7 Gres=gpu:4", answer.replace("node7", "node8")):
        with pytest.raises(ValueError, match="unknown format"):
            parse_node_gres(wrong, "node7")


def test_the_node_of_a_host_is_found_where_it_is_the_only_one() -> None:
    nodes = "NodeName=a1 Arch=x NodeHostName=host1 V\nNodeName=a2 Arch=x NodeHostName=host2 V\n"
    assert parse_node_name(nodes, "host2.cluster.example") == "a2"
    assert parse_node_name(nodes, "host3") is None
    assert parse_node_name(nodes.replace("host1", "host2"), "host2") is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n1,n2", ["n1", "n2"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-11]x", ["n08x", "n09x", "n10x", "n11x"]),
        ("r[1-2]n[1,3]", ["r1n1", "r1n3", "r2n1", "r2n3"]),
        ("a[1,2],b", ["a1", "a2", "b"]),
        ("n[", ["n["]),
        ("n[x-y]", []),
    ],
)
def test_lists_of_names_are_expanded(text: str, names: list[str]) -> None:
    assert expand(text) == names


def test_an_endless_list_of_names_ends() -> None:
    assert len(expand("n[0-999999999]")) == 65_536
    assert matches("ALL", "anything")


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("Name=gpu File=/dev/nvidia[0-3]", GresOrder(minors=(0, 1, 2, 3))),
        ("Name=gpu Type=a File=/dev/nvidia[2,0]\nName=gpu Type=A File=/dev/nvidia3", GresOrder(minors=(2, 0, 3))),
        ("Name=gpu Type=a File=/dev/nvidia2\nName=gpu File=/dev/nvidia0", GresOrder(minors=(2, 0), is_merged=True)),
        ("NodeName=node7 Name=gpu File=/dev/nvidia3\nName=gpu File=/dev/nvidia1", GresOrder(minors=(1, 3))),
        ("Include gpus.conf\nName=gpu File=/dev/nvidia1", GresOrder(minors=(1,), is_merged=True)),
        ("NodeName=node[6-7] Name=gpu File=/dev/nvidia[4-5] # not 0", GresOrder(minors=(4, 5))),
        ("NodeName=node8 Name=gpu File=/dev/nvidia[4-5]", GresOrder()),
        ("AutoDetect=nvml", GresOrder(by_pci=True, detects=True)),
        ("AutoDetect=nvidia", GresOrder(detects=True)),
        ("AutoDetect=NVML\nName=gpu File=/dev/nvidia[2,0]", GresOrder(minors=(2, 0), by_pci=True, detects=True)),
        ("AutoDetect=nvml\nNodeName=node7 AutoDetect=off Name=gpu File=/dev/nvidia1", GresOrder(minors=(1,))),
        ("NodeName=node7 AutoDetect=off Name=gpu File=/dev/nvidia1\nAutoDetect=nvml", GresOrder(minors=(1,))),
        ("# nothing\nName=nic File=/dev/mlx0", GresOrder()),
    ],
)
def test_gres_conf_gives_the_order(text: str, order: GresOrder) -> None:
    assert parse_gres_conf(text, "node7") == order
