"""What a survey finds in series of any form, and what it says of what is missing, odd or hostile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from fakes.prometheus import FakePrometheus, card
from gua.core.errors import DataError
from gua.imports.prometheus.client import Access, Client
from gua.imports.prometheus.survey import Inventory, any_of, missing, survey

BEGIN_MS = 1_700_000_000_000
END_MS = BEGIN_MS + 3_600_000
HOSTILE_JOB = 'a"b\\c\n{x}|.*'
Surveyed = Callable[..., Inventory]


@pytest.fixture
def surveyed() -> Iterator[Surveyed]:
    running: list[FakePrometheus] = []

    def of(series: Sequence[Any], **options: Any) -> Inventory:  # noqa: ANN401 - as survey takes them
        running.append(FakePrometheus(series).__enter__())
        return survey(Client(Access.of(running[-1].url)), BEGIN_MS, END_MS, **options)

    yield of
    for one in running:
        one.__exit__()


def series(name: str, **labels: str) -> tuple[dict[str, str], list[tuple[int, str]]]:
    return {"__name__": name, **labels}, [(BEGIN_MS + 1000, "1")]


def test_series_without_a_uuid_are_counted_once_each(surveyed: Surveyed) -> None:
    without = [series("DCGM_FI_DEV_GPU_UTIL", gpu=str(gpu), instance="n1:9400", job="dcgm") for gpu in range(3)]
    found = surveyed([*card(begin_ms=BEGIN_MS), *without])
    assert found.cards == 1
    assert found.directory.left_out == {"series of dcgm-exporter without the UUID of a card": 3}


def test_series_without_any_uuid_are_an_error(surveyed: Surveyed) -> None:
    with pytest.raises(DataError) as refused:
        surveyed([series("DCGM_FI_DEV_GPU_UTIL", gpu="0", job="dcgm", instance="n1:9400")])
    assert re.sub(r":\d+ has", " has", str(refused.value)) == (
        "http://127.0.0.1 has series of dcgm-exporter, but none with the UUID of a card, which an import needs: see "
        "whether the exporter or relabeling drops it"
    )


def test_similar_names_are_listed_if_no_known_one_exists(surveyed: Surveyed) -> None:
    others = [series(f"other_{place}") for place in range(20)]
    with pytest.raises(DataError) as refused:
        surveyed([*others, series("node_gpu_busy"), series("DCGM_custom"), series("nvidia_\x1b[31m" + "x" * 10_000)])
    line = str(refused.value)
    assert line.split(" has no GPU metrics that gua knows: ")[1].startswith("looked for gua_gpu_info (gua), DCGM_FI")
    assert "; it has DCGM_custom, node_gpu_busy, nvidia_[31mxxx" in line
    assert len(line) < 800


def test_the_number_of_other_metrics_is_reported_if_no_name_is_similar(surveyed: Surveyed) -> None:
    with pytest.raises(DataError, match=r"; none of its 20 metrics is like these$"):
        surveyed([series(f"other_{place}") for place in range(20)])


def test_without_honor_labels_pods_are_those_that_up_does_not_have(surveyed: Surveyed) -> None:
    own = {"pod": "dcgm-x7", "namespace": "gpu-operator"}
    free = card("GPU-a", begin_ms=BEGIN_MS, **own)
    taken = card("GPU-b", begin_ms=BEGIN_MS, **own, exported_pod="train-0", exported_namespace="ml")
    up = series("up", job="dcgm", instance="n1:9400", **own)
    found = surveyed([*free[:3], *taken[:3], up])
    directory = found.directory
    assert directory.target_pods == {("dcgm", "n1:9400"): {"dcgm-x7"}}
    [exporter] = found.exporters
    assert directory.pod(exporter, free[0][0]) is None
    assert directory.pod(exporter, taken[0][0]) == ("ml", "train-0")
    assert (directory.mapped, directory.unclear) == ({("dcgm-exporter", "dcgm"): "kubernetes"}, set())


def test_a_job_without_up_is_reported_and_its_pods_are_not_assigned_to_cards(surveyed: Surveyed) -> None:
    found = surveyed(card(begin_ms=BEGIN_MS, pod="train-0", namespace="ml", job=HOSTILE_JOB + "\x1b[31m")[:3])
    assert found.directory.mapped == {}
    [line] = [what for what, setting in missing(found) if setting == "store up for this job"]
    assert line == 'job a"b\\c {x}|.*[31m: pods of cards and of the exporter look alike without the metric up'


def test_one_cluster_leaves_the_names_of_hosts_and_two_do_not(surveyed: Surveyed) -> None:
    one = surveyed(card(begin_ms=BEGIN_MS, cluster="west"))
    assert (one.hosts, one.clusters) == ({"n1"}, {"west"})
    two = surveyed(
        [*card("GPU-a", begin_ms=BEGIN_MS, cluster="west"), *card("GPU-b", begin_ms=BEGIN_MS, cluster="east")]
    )
    assert two.hosts == {"west/n1", "east/n1"}


@pytest.mark.parametrize("job", [HOSTILE_JOB, "\ud800", "x" * 10_000, "\x1b[31m"])
def test_hostile_jobs_do_not_break_a_survey(job: str, surveyed: Surveyed) -> None:
    assert surveyed(card(begin_ms=BEGIN_MS, job=job)).cards == 1


def test_hostile_namespaces_do_not_break_a_survey(surveyed: Surveyed) -> None:
    pods = [(f"GPU-{place}", f"{place}{text}") for place, text in enumerate(['"', "\\", "\n", "{}", "|", "x" * 10_000])]
    cards = [
        one for uuid, name in pods for one in card(uuid, begin_ms=BEGIN_MS, exported_pod=name, exported_namespace=name)
    ]
    owner = series("kube_pod_owner", namespace='0"', pod='0"', owner_kind="Job", owner_name="train", uid="u-1")
    found = surveyed([*cards, owner])
    [exporter] = found.exporters
    attribution = found.directory.attribution(exporter, cards[0][0])
    assert attribution is not None
    assert (attribution.pod_name, attribution.job_name, attribution.pod_uid) == ('0"', "train", "u-1")


def test_the_label_of_an_owner_is_read(surveyed: Surveyed) -> None:
    taken = card(begin_ms=BEGIN_MS, exported_pod="train-0", exported_namespace="ml")
    labels = series("kube_pod_labels", namespace="ml", pod="train-0", label_team="vision")
    found = surveyed([*taken, labels], owner_label="team")
    assert found.directory.pod_owner == {("ml", "train-0"): "vision"}


@pytest.mark.parametrize(
    ("values", "texts", "others"),
    [
        ([HOSTILE_JOB], [HOSTILE_JOB], ['a"b\\c\n{x}', "", "a"]),
        (["a.b", "c+"], ["a.b", "c+"], ["axb", "cc", "a.b|c+"]),
        (["\t\x1b\x00\u00e4"], ["\t\x1b\x00\u00e4"], ["t"]),
    ],
)
def test_a_matcher_of_values_matches_these_alone(values: list[str], texts: list[str], others: list[str]) -> None:
    """Read back as PromQL does, whose escapes in double quotes include those of JSON."""
    pattern = re.compile(json.loads(any_of(values)))
    assert all(pattern.fullmatch(text) for text in texts)
    assert not any(pattern.fullmatch(text) for text in others)
