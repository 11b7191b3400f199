"""Audits of a real Prometheus with passwords, certificates, a prefix and limits, and of hostile series in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import trustme

from fakes.prometheus import card
from servers.gua import Gua
from servers.recorded_prometheus import RecordedPrometheus, Series
from servers.tools import MissingToolError

BEGIN_MS = 1_700_006_400_000
WINDOW = ("--since", "2023-11-15", "--until", "2023-11-16")
SECRET = "secret"  # noqa: S105 - of a server of this test
# Of it, in the fewest rounds.
HASHED = "$2b$04$q5pGeqogMkCReryVnS2MCew4rx/XrJcjPEEhZYJdW724COHxygroC"
MARKER = "hunter2marker"
HOSTILE = 'a"b\\c\n\x1b[31m{x}|.*'
Started = Callable[..., RecordedPrometheus]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Return what runs a Prometheus on series until the end of the test."""
    running: list[RecordedPrometheus] = []

    def start(series: Sequence[Series], *options: str) -> RecordedPrometheus:
        try:
            one = RecordedPrometheus(tmp_path / "server", series, options=options)
        except MissingToolError as missing:
            if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        running.append(one)
        one.run()
        return one

    yield start
    for one in running:
        one.kill()


@pytest.fixture
def gua(tmp_path: Path) -> Gua:
    return Gua(tmp_path / "home")


def named(name: str, samples: Sequence[tuple[int, float]], **labels: str) -> Series:
    return name, labels, samples


def of_card(uuid: str = "GPU-a", *, begin_ms: int = BEGIN_MS, count: int = 120, **labels: str) -> list[Series]:
    """Return the series of a card by dcgm-exporter, with an hour's samples if not given."""
    return [
        (
            every["__name__"],
            {key: value for key, value in every.items() if key != "__name__"},
            [(at, float(number)) for at, number in samples],
        )
        for every, samples in card(uuid, begin_ms=begin_ms, count=count, **labels)
    ]


def refusal(gua: Gua, code: int, *arguments: str | Path) -> str:
    """Return the only line that a command says, which ends with the code."""
    done = gua.run(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("gua: ")
    return line.removeprefix("gua: ")


def test_a_password_and_a_client_certificate(started: Started, gua: Gua, tmp_path: Path) -> None:
    issuer = trustme.CA()
    issuer.cert_pem.write_to_path(authority := tmp_path / "authority.pem")
    for name, certificate in (("server", issuer.issue_cert("127.0.0.1")), ("client", issuer.issue_cert("reader"))):
        certificate.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        certificate.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
    config = tmp_path / "web.yml"
    config.write_text(
        "tls_server_config: {cert_file: server.pem, key_file: server.key, client_ca_file: authority.pem,\n"
        "  client_auth_type: RequireAndVerifyClientCert}\n"
        f"basic_auth_users: {{reader: {HASHED}}}\n"
    )
    (right := tmp_path / "right").write_text(f"{SECRET}\n")
    (wrong := tmp_path / "wrong").write_text("guess\n")
    server = started(of_card(), f"--web.config.file={config}")
    import_arguments = ("import", "prometheus", server.url, *WINDOW)
    trusts = ("--ca-file", authority)
    shows = ("--client-cert", tmp_path / "client.pem", "--client-key", tmp_path / "client.key")
    password = ("--user", "reader", "--password-file", right)

    out = gua.must(*import_arguments, *trusts, *shows, *password)
    assert "imported  120 card ticks of 1 card on 1 host (n1)\n" in out
    assert SECRET not in out
    assert refusal(gua, 3, *import_arguments, *trusts, *shows, "--user", "reader", "--password-file", wrong) == (
        f"{server.url} answered 401: give credentials that may query (--token-file, or --user)"
    )
    assert refusal(gua, 3, *import_arguments, *shows, *password).startswith(f"{server.url}: TLS failed (")
    # With TLS 1.3 the server refuses after the handshake.
    assert server.url in refusal(gua, 3, *import_arguments, *trusts, *password)
    plain = server.url.replace("https:", "http:")
    assert refusal(gua, 3, "audit", plain) == (
        f"{plain} speaks TLS: give the URL with https://, and --ca-file if it needs one"
    )
    swapped = ("--client-cert", tmp_path / "client.key", "--client-key", tmp_path / "client.pem")
    assert refusal(gua, 3, *import_arguments, *trusts, *swapped).startswith("cannot read the certificates in ")


def test_a_prefix(started: Started, gua: Gua) -> None:
    server = started(of_card(), "--web.route-prefix=/some/where")
    import_arguments = ("import", "prometheus", *WINDOW)
    assert "imported  120 card ticks of 1 card" in gua.must(*import_arguments, f"{server.url}/")
    assert "skipped   1 day" in gua.must(*import_arguments, f"{server.url}/graph?g0.expr=up")
    bare = server.url.removesuffix("/some/where")
    assert refusal(gua, 3, *import_arguments, bare) == (
        f"{bare} (404) is something else, not Prometheus' API: give the URL of Prometheus; Mimir and some proxies have "
        "a path before /api/v1, as in https://mimir.example/prometheus"
    )


@pytest.mark.parametrize("resolution", ["raw", "5m"])
def test_few_samples_a_query_and_many_other_series(resolution: str, started: Started, gua: Gua) -> None:
    """Other jobs' 5,000 series take no part, and what is too much for one query is read by several."""
    others = [
        named("http_requests_total", [(BEGIN_MS + 60_000, 1.0)], job="web", path=f"/{place}") for place in range(5000)
    ]
    server = started([*of_card(count=2880), *others], "--query.max-samples=400")
    out = gua.must("import", "prometheus", server.url, *WINDOW, "--resolution", resolution)
    assert f"imported  {2880 if resolution == 'raw' else 288:,} card ticks of 1 card on 1 host (n1)\n" in out


def test_a_retention_shorter_than_the_window_is_reported(started: Started, gua: Gua) -> None:
    server = started(of_card(begin_ms=BEGIN_MS + 36_000_000))
    out = gua.must("import", "prometheus", server.url, "--since", "2023-11-11", "--until", "2023-11-16")
    assert "missing   nothing before 2023-11-15T10:00:00Z: no GPU samples, or beyond the retention\n" in out
    steps = gua.must("import", "prometheus", server.url, "--since", "2023-08-11", "--until", "2023-11-16")
    assert "missing   nothing before 2023-11-15T10:00:00Z: no GPU samples, or beyond the retention\n" in steps
    assert refusal(
        gua, 4, "import", "prometheus", server.url, "--since", "2023-01-01", "--until", "2023-02-01"
    ).startswith(f"{server.url} has no GPU metrics that gua knows: looked for ")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--since", "2150-01-01"), "is empty: --since must be earlier"),
        (
            ("--since", "2023-11-16", "--until", "2023-11-15"),
            "the time from 2023-11-16T00:00:00Z to 2023-11-15T00:00:00Z is empty",
        ),
        (
            ("--since", "1d", "--until", "2023-11-15", "--resolution", "7m"),
            "--resolution must be raw, or a part of a day from 1m on, as in 5m or 1h",
        ),
        (("--resolution", "10s"), "--resolution must be raw, or a part of a day from 1m on, as in 5m or 1h"),
        (("--resolution", "2d"), "--resolution must be raw, or a part of a day from 1m on, as in 5m or 1h"),
        (("--resolution", "fine"), "'fine' is not a duration"),
        (("--interval", "soon"), "'soon' is not a duration"),
        (("--until", "soon"), "'soon' is no moment"),
    ],
)
def test_options_of_time(options: tuple[str, ...], line: str, gua: Gua) -> None:
    """They are reported before any connection."""
    assert line in refusal(gua, 2, "audit", "http://127.0.0.1:1", *options)


def test_a_store_that_cannot_be_written(started: Started, gua: Gua, tmp_path: Path) -> None:
    server = started(of_card())
    (file := tmp_path / "file").write_text("")
    for store in ("/proc/gua", str(file / "below")):
        assert store in refusal(gua, 3, "audit", server.url, *WINDOW, "--store", store)


def test_hostile_labels_and_series_of_no_card(started: Started, gua: Gua, tmp_path: Path) -> None:
    long = "x" * 10_000
    server = started(
        [
            *of_card("GPU-a", job=HOSTILE, exported_pod=HOSTILE, exported_namespace=HOSTILE, Hostname=HOSTILE),
            *of_card("GPU-b", job=long, exported_pod=long, exported_namespace=long, Hostname=long, gpu=long),
            *of_card("GPU-c'; DROP", Hostname="n3"),
            named("DCGM_FI_DEV_GPU_UTIL", [(BEGIN_MS + 60_000, -5.0)], UUID="GPU-a", job=HOSTILE, instance="n1:9400"),
            named("kube_pod_owner", [(BEGIN_MS + 60_000, 1.0)], namespace=HOSTILE, pod=HOSTILE, owner_name="owner-a"),
        ]
    )
    done = gua.run("audit", server.url, *WINDOW, "--store", tmp_path / "store")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert "imported  240 card ticks of 2 cards on 2 hosts" in lines[0]
    assert "left out  2 series of dcgm-exporter without the UUID of a card" in [
        line.removeprefix("gua: ") for line in lines
    ]
    assert "left out  1 different values out of range: unknown" in [line.removeprefix("gua: ") for line in lines]
    assert "\x1b" not in done.stdout + done.stderr
    assert max(map(len, lines)) < 1000
    rows = gua.must(
        "sql", "--csv", "--store", str(tmp_path / "store"), "SELECT DISTINCT job_name FROM gua.allocation_ticks"
    )
    assert "owner-a" in rows


def test_of_a_command_line_nothing_but_the_program_is_kept(started: Started, gua: Gua, tmp_path: Path) -> None:
    target = {"job": "nvitop", "instance": "n1:8000", "hostname": "10.0.0.5", "uuid": "GPU-a", "index": "0"}
    times = [BEGIN_MS + 30_000 * place for place in range(1, 121)]
    process = {**target, "pid": "42", "username": "alice"}
    command = f"python train.py password={MARKER} --token {MARKER}"
    series = [
        named("gpu_utilization_Percentage", [(at, 90.0) for at in times], **target),
        named("gpu_memory_used_MiB", [(at, 1000.0) for at in times], **target),
        named("gpu_memory_total_MiB", [(at, 10_000.0) for at in times], **target),
        named("process_gpu_memory_MiB", [(at, 900.0) for at in times], **process),
        named("process_gpu_sm_utilization_Percentage", [(at, 80.0) for at in times], **process),
        named("process_info_info", [(at, 1.0) for at in times], **process, command=command),
    ]
    server = started(series)
    done = gua.run("audit", server.url, *WINDOW, "--store", tmp_path / "store")
    assert done.returncode == 0, done.stderr
    store = ("--store", str(tmp_path / "store"))
    programs = gua.must("sql", "--csv", *store, "SELECT DISTINCT owner, program FROM gua.process_ticks")
    assert "alice,python" in programs.replace('"', "")
    report = gua.must("report", *store, *WINDOW, "--json")
    assert MARKER not in done.stdout + done.stderr + programs + report
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and tmp_path / "server" not in path.parents]
    assert kept
    assert [path for path in kept if MARKER.encode() in path.read_bytes()] == []
