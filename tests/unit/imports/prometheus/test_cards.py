"""Cards, hosts, pods, jobs and programs of labels, as exporters and scrape configurations write them."""

from __future__ import annotations

import pytest

from gua.core.words import Mig
from gua.imports.prometheus.cards import Directory, card_uuid, program_of, whole_number
from gua.imports.prometheus.exporters import EXPORTERS

BY_NAME = {one.name: one for one in EXPORTERS}
DCGM, NVITOP, SMI, JOBSTATS = (
    BY_NAME[name]
    for name in ("dcgm-exporter", "nvitop-exporter", "nvidia_gpu_exporter", "nvidia_gpu_prometheus_exporter")
)
UUID = "12345678-90ab-cdef-1234-567890abcdef"
TARGET = {"job": "dcgm", "instance": "10.0.0.5:9400"}
LONG = "x" * 10_000
HOSTILE = 'a"b\\c\n\x1b[31md\x00\ud800'


@pytest.mark.parametrize(
    ("labels", "pod"),
    [
        # Without honor_labels: the card's pod is exported_pod, and pod is the exporter's own.
        ({"pod": "dcgm-x7", "namespace": "gpu-operator"}, None),
        (
            {"pod": "dcgm-x7", "namespace": "gpu-operator", "exported_pod": "train-0", "exported_namespace": "ml"},
            ("ml", "train-0"),
        ),
        # With it: an empty label removes the target's, and a card's pod stands in pod.
        ({}, None),
        ({"pod": "train-0", "namespace": "ml"}, ("ml", "train-0")),
        # dcgm-exporter's old names.
        ({"pod_name": "train-0", "pod_namespace": "ml"}, ("ml", "train-0")),
        ({"pod": "", "exported_pod": "", "pod_name": ""}, None),
        ({"exported_pod": "train-0"}, ("", "train-0")),
    ],
)
def test_the_pod_of_a_card_is_not_the_exporters(labels: dict[str, str], pod: tuple[str, str] | None) -> None:
    directory = Directory()
    directory.target_pods["dcgm", "10.0.0.5:9400"].update({"dcgm-x7", "dcgm-before"})
    assert directory.pod(DCGM, TARGET | labels) == pod


def test_a_target_without_a_pod_has_only_the_cards_own() -> None:
    """As with a static configuration."""
    assert Directory().pod(DCGM, TARGET | {"pod": "train-0", "namespace": "ml"}) == ("ml", "train-0")


def test_without_up_a_pod_is_the_cards_only_if_it_was_renamed() -> None:
    directory = Directory(unclear={"dcgm"})
    assert directory.pod(DCGM, TARGET | {"pod": "train-0", "namespace": "ml"}) is None
    renamed = {"pod": "dcgm-x7", "exported_pod": "train-0", "exported_namespace": "ml"}
    assert directory.pod(DCGM, TARGET | renamed) == ("ml", "train-0")
    assert directory.pod(DCGM, TARGET | {"job": "other", "pod": "train-0", "namespace": "ml"}) == ("ml", "train-0")


def test_a_pod_of_an_exporter_that_knows_no_pods_is_none() -> None:
    assert Directory().pod(SMI, TARGET | {"exported_pod": "train-0"}) is None


@pytest.mark.parametrize(
    ("exporter", "labels", "uuid"),
    [
        (DCGM, {"UUID": "GPU-a1"}, "GPU-a1"),
        (DCGM, {"uuid": "GPU-a1"}, "GPU-a1"),
        (SMI, {"uuid": UUID}, f"GPU-{UUID}"),
        (SMI, {"uuid": f"GPU-{UUID}"}, f"GPU-{UUID}"),
        (JOBSTATS, {"uuid": f"MIG-{UUID}"}, f"MIG-{UUID}"),
        (DCGM, {}, None),
        (DCGM, {"UUID": ""}, None),
        (NVITOP, {"uuid": "N/A"}, None),
        (DCGM, {"UUID": "0"}, None),
        (DCGM, {"UUID": f"GPU-{LONG}"}, None),
        (DCGM, {"UUID": "GPU-a'; DROP TABLE x"}, None),
        (DCGM, {"UUID": "GPU-a\n"}, None),
        (DCGM, {"UUID": "GPU-a1", "GPU_I_ID": "0/../../x"}, None),
        (DCGM, {"UUID": "GPU-a1", "GPU_I_ID": LONG}, None),
    ],
)
def test_only_what_the_driver_names_cards_by_is_a_uuid(
    exporter: object, labels: dict[str, str], uuid: str | None
) -> None:
    assert card_uuid(exporter, labels) == uuid  # type: ignore[arg-type]
    card = Directory().card(exporter, labels)  # type: ignore[arg-type]
    assert (card is None) == (uuid is None)


@pytest.mark.parametrize(
    ("model", "profile", "slices", "total"),
    [
        ("NVIDIA A100-SXM4-80GB", "1g.10gb", 1, 7),
        ("NVIDIA A100-SXM4-80GB", "3g.40gb", 3, 7),
        ("NVIDIA H100 80GB HBM3", "7g.80gb", 7, 7),
        ("NVIDIA H100 80GB HBM3", "1g.10gb+me", 1, 7),
        ("NVIDIA A30", "2g.12gb", 2, 4),
        ("NVIDIA A30", "4g.24gb", 4, 4),
        ("NVIDIA A30", "9g.24gb", 4, 4),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "1g.24gb", 1, 4),
        ("NVIDIA A100-SXM4-80GB", "", 0, 7),
        ("NVIDIA A100-SXM4-80GB", HOSTILE, 0, 7),
    ],
)
def test_a_mig_instance_is_its_slices_of_the_gpu(model: str, profile: str, slices: int, total: int) -> None:
    labels = TARGET | {"UUID": "GPU-a", "GPU_I_ID": "9", "GPU_I_PROFILE": profile, "modelName": model}
    card = Directory().card(DCGM, labels)
    assert card is not None
    assert (card.uuid, card.parent, card.mig) == ("MIG-GPU-a/9/0", "GPU-a", Mig.INSTANCE)
    assert (card.slices, card.total) == (slices, total)


def test_a_mig_instance_of_guas_own_exporter_has_its_slices_in_its_name() -> None:
    gua = next(one for one in EXPORTERS if one.name == "gua")
    labels = TARGET | {"hw_id": "MIG-1", "hw_parent": "GPU-a", "gua_gpu_mig": "instance", "hw_model": "NVIDIA H100"}
    card = Directory().card(gua, labels | {"hw_name": "NVIDIA H100 MIG 3g.40gb"})
    assert card is not None
    assert (card.mig, card.parent, card.slices, card.total) == (Mig.INSTANCE, "GPU-a", 3, 7)


@pytest.mark.parametrize(
    ("driver", "is_old"), [("470.57.02", True), ("509", True), ("510.39", False), ("580.1", False), ("", False)]
)
def test_a_driver_before_510_counts_its_reserve(driver: str, is_old: bool) -> None:  # noqa: FBT001
    card = Directory().card(DCGM, TARGET | {"UUID": "GPU-a", "DCGM_FI_DRIVER_VERSION": driver})
    assert card is not None
    assert card.has_old_driver is is_old


@pytest.mark.parametrize(
    ("labels", "host"),
    [
        ({"Hostname": "n1"}, "n1"),
        ({"hostname": "n1"}, "n1"),
        ({"node": "n1"}, "n1"),
        ({}, "10.0.0.5"),
        ({"Hostname": "dcgm-x7", "node": "n1"}, "n1"),  # in a container: the name of its pod
        ({"Hostname": "dcgm-x7"}, "10.0.0.5"),
        ({"Hostname": LONG}, "x" * 256),
        ({"instance": "[fd00::5]:9400"}, "[fd00::5]"),
    ],
)
def test_the_host_of_a_card(labels: dict[str, str], host: str) -> None:
    directory = Directory()
    directory.target_pods["dcgm", "10.0.0.5:9400"].add("dcgm-x7")
    assert directory.own_host(DCGM, TARGET | labels) == host


def test_hosts_of_two_clusters_are_two() -> None:
    labels = TARGET | {"UUID": "GPU-a", "Hostname": "n1", "cluster": "west"}
    assert Directory().own_host(DCGM, labels) == "n1"
    several = Directory(has_clusters=True)
    assert several.own_host(DCGM, labels) == "west/n1"
    assert several.own_host(DCGM, labels | {"cluster": "east"}) == "east/n1"
    assert several.own_host(DCGM, labels | {"cluster": ""}) == "n1"


def test_hostile_labels_are_bounded_and_storable() -> None:
    names = ("Hostname", "modelName", "cluster", "pci_bus_id", "pod", "namespace", "gpu", "hw_name", "hw_parent")
    labels = TARGET | dict.fromkeys(names, HOSTILE + LONG)
    directory = Directory(has_clusters=True)
    card = directory.card(DCGM, labels | {"UUID": "GPU-a"})
    assert card is not None
    attribution = directory.attribution(DCGM, labels)
    assert attribution is not None
    texts = [text for text in (*card, *attribution) if isinstance(text, str)]
    assert len(texts) >= 9
    assert max(map(len, texts)) <= 2 * 256 + 1  # namespace/name
    assert not any("\x00" in text or "\ud800" in text for text in texts)
    assert card.gpu_index is None


@pytest.mark.parametrize(
    ("labels", "job"),
    [
        ({"jobid": "4711", "userid": "1001"}, ("4711", 1001)),
        ({"jobid": "4711", "userid": ""}, ("4711", None)),
        ({"jobid": "4711", "userid": "99999999999999999999"}, ("4711", None)),
        ({"jobid": "4711", "userid": "9" * 5000}, ("4711", None)),
        ({"jobid": "4711", "userid": "\u0664"}, ("4711", None)),
        ({"jobid": "0", "userid": "0"}, None),
        ({"jobid": ""}, None),
        ({}, None),
    ],
)
def test_the_job_of_jobstats_labels(labels: dict[str, str], job: tuple[str, int | None] | None) -> None:
    found = Directory().attribution(JOBSTATS, TARGET | {"uuid": "GPU-a"} | labels)
    assert (None if found is None else (found.id, found.uid)) == job


def test_hpc_job_of_dcgm_is_a_slurm_job_and_goes_before_a_pod() -> None:
    found = Directory().attribution(DCGM, TARGET | {"hpc_job": "4711", "exported_pod": "train-0"})
    assert found is not None
    assert (found.source, found.id) == ("slurm", "4711")


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("python train.py password=hunter2", "python"),
        ("python train.py --token=hunter2", "python"),
        ("/usr/bin/python3 -c 'print(hunter2)'", "python3"),
        ("'/opt/my tools/bin/train' hunter2", "train"),
        ('"/opt/my tools/bin/train" hunter2', "train"),
        ("  torchrun\thunter2", "torchrun"),
        ("/usr/lib/xorg/Xorg", "Xorg"),
        ("'unfinished hunter2", "'unfinished"),
        ("bash\nhunter2", "bash"),
        ("/home/hunter2/", "hunter2"),
        (LONG, "x" * 64),
        ("", None),
        ("N/A", None),
    ],
)
def test_of_a_command_line_the_programs_name_is_kept(command: str, program: str | None) -> None:
    assert program_of(NVITOP, {"command": command}) == program


def test_a_process_name_of_nvidia_smi_may_have_spaces() -> None:
    assert program_of(SMI, {"process_name": "/opt/my tools/my train"}) == "my train"


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("4294967295", 2**32 - 1), ("4294967296", None), ("-1", None), ("9" * 5000, None), ("", None)],
)
def test_numbers_of_labels_have_32_bits(text: str, number: int | None) -> None:
    assert whole_number(text) == number
