"""Servers that are no Prometheus, refuse, break off or answer with something else: one line each, nothing stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.patience import at_most
from fakes.prometheus import TOO_MANY, Asked, FakePrometheus, Reply, as_json, card, refusal
from gua.cli.main import main
from gua.core.errors import DataError, TransientError, UnavailableError
from gua.imports.prometheus import client as client_module
from gua.imports.prometheus.client import Access, Client
from gua.imports.prometheus.samples import SampleReader

BEGIN_MS = 1_700_000_000_000
HTML = {"Content-Type": "text/html; charset=UTF-8"}
LOGIN = b"<!DOCTYPE html>\n<html lang='en'><head><title>Grafana</title></head><body>Loading Grafana</body></html>"
PLAIN = {"Content-Type": "text/plain"}
UNAUTHORIZED = b'{"extra":null,"message":"Unauthorized","messageId":"auth.unauthorized","statusCode":401,"traceID":""}'
ALERTMANAGER = b'{"status":"deprecated","error":"The Alertmanager v1 API was deprecated in version 0.16.0"}'
NO_API = (
    "{url} (%s) is %s, not Prometheus' API: give the URL of Prometheus; Mimir and some proxies have a path before "
    "/api/v1, as in https://mimir.example/prometheus"
)
GRAFANA = (
    "{url} is Grafana (401): give the URL of Prometheus, or with --token-file that of Grafana's data source "
    "(https://GRAFANA/api/datasources/proxy/uid/UID)"
)
BROKEN = "{url}: the connection ended within an answer (ProtocolError): see its log, and that of proxies before it"
SILENT = "{url} does not answer the smallest query (%s): check the URL and the server's load"
CREDENTIALS = "{url} answered %s: give credentials that may query (--token-file, or --user)"
CUT = as_json(list(range(1000)))

# Each answers every query.
ANSWERS = {
    "something-else": (Reply(body=b"hello", headers=PLAIN), 3, NO_API % (200, "something else")),
    "json-of-something-else": (Reply(body=b'{"version": 1}'), 3, NO_API % (200, "something else")),
    "deeply-nested": (Reply(body=b"[" * 100_000), 3, NO_API % (200, "something else")),
    "a-web-page": (Reply(body=b"<html><body>Welcome</body></html>", headers=HTML), 3, NO_API % (200, "a web page")),
    "grafana-login": (Reply(body=LOGIN, headers=HTML), 3, NO_API % (200, "Grafana")),
    "grafana-api": (Reply(body=UNAUTHORIZED, status=401), 3, GRAFANA),
    "alertmanager": (Reply(body=b"404 page not found\n", status=404), 3, NO_API % (404, "something else")),
    "alertmanager-v1": (
        Reply(body=ALERTMANAGER, status=410),
        3,
        "{url} refused a query (410): The Alertmanager v1 API was deprecated in version 0.16.0",
    ),
    "401": (Reply(status=401), 3, CREDENTIALS % 401),
    "403": (refusal(403, "forbidden"), 3, CREDENTIALS % 403),
    "404": (Reply(status=404), 3, NO_API % (404, "something else")),
    "413": (Reply(status=413), 3, SILENT % "a proxy answered 413"),
    "422": (refusal(422, TOO_MANY), 3, SILENT % TOO_MANY),
    "422-else": (refusal(422, "no such tenant"), 3, "{url} refused a query (422): no such tenant"),
    "429": (Reply(status=429), 3, "{url} answered 429 6 times: it is busy, try later"),
    "500": (Reply(status=500), 3, "{url} answered 500: see its log, and that of proxies before it"),
    "500-json": (
        refusal(500, "expanding series: disk full"),
        3,
        "{url} refused a query (500): expanding series: disk full",
    ),
    "502": (
        Reply(body=b"<html>Bad Gateway</html>", status=502),
        3,
        "{url} answered 502 6 times: it is busy, try later",
    ),
    "503": (Reply(status=503), 3, "{url} answered 503 6 times: it is busy, try later"),
    "503-timeout": (
        refusal(503, "query timed out in expression evaluation"),
        3,
        SILENT % "query timed out in expression evaluation",
    ),
    "504": (Reply(status=504), 3, SILENT % "a proxy answered 504"),
    "redirect": (
        Reply(status=302, headers={"Location": "https://sso.example/login?state=abc"}),
        3,
        "{url} redirects to https://sso.example/login, as login pages do: give the URL of Prometheus itself",
    ),
    "tls-wanted": (
        Reply(body=b"Client sent an HTTP request to an HTTPS server.\n", status=400),
        3,
        "{url} speaks TLS: give the URL with https://, and --ca-file if it needs one",
    ),
    "connection-ends": (Reply(body=CUT.body, missing_bytes=900), 3, BROKEN),
    "answer-is-cut": (
        Reply(body=CUT.body[:-900]),
        3,
        "{url} ended an answer in the middle: try again, or see proxies before it",
    ),
    "silent": (Reply(after_seconds=60), 3, SILENT % "no answer within 0.2 s"),
    "huge": (as_json("x" * 3_000_000), 3, SILENT % "an answer of more than 2 MiB"),
    "no-data": (Reply(body=b'{"status":"success"}'), 4, "{url} did not answer with data: is it Prometheus?"),
    "null-data": (as_json(None), 4, "{url} answered a query without series: is it Prometheus?"),
    "data-of-numbers": (as_json([1, 2]), 4, "{url} answered a query without series: is it Prometheus?"),
    "no-metric": (
        as_json({"result": [{"value": [1, "2"]}]}),
        4,
        "{url} answered a query without series: is it Prometheus?",
    ),
    "labels-of-numbers": (
        as_json({"result": [{"metric": {"UUID": 5}, "value": [1, "2"]}]}),
        4,
        "{url} answered a query without series: is it Prometheus?",
    ),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_PAUSES_SECONDS", (0.01,) * 5)
    monkeypatch.setattr(client_module, "_FIRST_ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(client_module, "_MOST_BYTES", 2 * 2**20)


@pytest.fixture
def served() -> Iterator[Callable[..., FakePrometheus]]:
    running: list[FakePrometheus] = []

    def serve(*arguments: object, **named: object) -> FakePrometheus:
        running.append(FakePrometheus(*arguments, **named).__enter__())  # type: ignore[arg-type]
        return running[-1]

    yield serve
    for one in running:
        one.__exit__()


@pytest.mark.parametrize("case", ANSWERS)
def test_an_error_is_printed_in_one_line_and_nothing_is_created(
    case: str, served: Callable[..., FakePrometheus], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    reply, code, line = ANSWERS[case]
    fake = served(card(begin_ms=BEGIN_MS), lambda _: reply)
    store = tmp_path / "store"
    with at_most(20):
        ended = main(["audit", fake.url, "--since", "2023-11-14", "--until", "2023-11-15", "--store", str(store)])
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"gua: {line.format(url=fake.url)}\n")
    assert ended == code
    assert not store.exists()


# Each answers the queries of samples of a server that is else in order.
SAMPLES = {
    "values-null": ({"metric": {"UUID": "GPU-a"}, "values": None}, None),
    "no-values": ({"metric": {"UUID": "GPU-a"}}, None),
    "value-is-a-number": ({"metric": {"UUID": "GPU-a"}, "value": 5}, "samples of another shape"),
    "values-of-numbers": ({"metric": {"UUID": "GPU-a"}, "values": [1, 2]}, "samples of another shape"),
    "times-of-text": ({"metric": {"UUID": "GPU-a"}, "values": [["soon", "1"]]}, "samples of another shape"),
    "time-is-infinite": ({"metric": {"UUID": "GPU-a"}, "values": [[float("inf"), "1"]]}, "samples of another shape"),
    "time-is-later": ({"metric": {"UUID": "GPU-a"}, "values": [[BEGIN_MS, "1"]]}, "samples of another shape"),
    "times-go-back": ({"metric": {"UUID": "GPU-a"}, "values": [[9, "1"], [8, "1"]]}, "samples of another shape"),
    "value-is-a-word": ({"metric": {"UUID": "GPU-a"}, "values": [[9, "many"]]}, "samples of another shape"),
    "value-is-null": ({"metric": {"UUID": "GPU-a"}, "values": [[9, None]]}, "samples of another shape"),
    "value-is-a-list": ({"metric": {"UUID": "GPU-a"}, "values": [[9, []]]}, "samples of another shape"),
    "values-is-text": ({"metric": {"UUID": "GPU-a"}, "values": "many"}, "samples of another shape"),
}


@pytest.mark.parametrize("case", SAMPLES)
def test_samples_of_another_shape_are_refused(case: str, served: Callable[..., FakePrometheus]) -> None:
    series, why = SAMPLES[case]
    fake = served(instead=lambda _: as_json({"result": [series]}))
    reader = SampleReader(Client(Access.of(fake.url)))
    if why is None:
        assert reader.raw("m", 0, 10_000) == []
        return
    with pytest.raises(DataError) as refused:
        reader.raw("m", 0, 10_000)
    assert str(refused.value) == f"{fake.url} answered m with {why}"


@pytest.mark.engine
@pytest.mark.parametrize("case", ["values-of-numbers", "value-is-a-word", "time-is-infinite"])
def test_nothing_is_half_written(
    case: str,
    served: Callable[..., FakePrometheus],
    capsys: pytest.CaptureFixture[str],
    made_store: Callable[[Path], str],
    tmp_path: Path,
) -> None:
    bad = as_json({"result": [SAMPLES[case][0]]})
    fake = served(
        card(begin_ms=BEGIN_MS),
        lambda asked: bad if asked.path == "query" and "FB_FREE" in asked.one("query") else None,
    )
    store = made_store(tmp_path / "store")
    ended = main(["import", "prometheus", fake.url, "--since", "2023-11-14", "--until", "2023-11-15", "--store", store])
    [line] = capsys.readouterr().err.splitlines()
    assert (ended, line) == (4, f"gua: {fake.url} answered DCGM_FI_DEV_FB_FREE with samples of another shape")
    for table in ("card_ticks", "card_info", "card_seen", "allocation_ticks", "backfilled_days"):
        assert main(["sql", "--store", store, f"SELECT count() FROM gua.{table}"]) == 0
        assert "0" in capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("path", "data", "expected"),
    [
        ("label/__name__/values", {"a": 1}, "a list of metric names"),
        ("label/__name__/values", [1], "a list of metric names"),
        ("series", None, "a list of series"),
        ("series", [1], "a list of series"),
        ("series", [{"UUID": None}], "a list of series"),
    ],
)
def test_lists_of_another_shape_are_refused(
    path: str,
    data: object,
    expected: str,
    served: Callable[..., FakePrometheus],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    fake = served(card(begin_ms=BEGIN_MS), lambda asked: as_json(data) if asked.path == path else None)
    assert main(["audit", fake.url, "--since", "1d", "--store", str(tmp_path / "store")]) == 4
    assert capsys.readouterr().err == f"gua: {fake.url} did not answer with {expected}: is it Prometheus?\n"
    assert not (tmp_path / "store").exists()


def test_the_time_is_halved_until_the_samples_fit(served: Callable[..., FakePrometheus]) -> None:
    series = card(begin_ms=BEGIN_MS, count=1000)
    fake = served(series, most_samples=100)
    reader = SampleReader(Client(Access.of(fake.url)))
    [found] = reader.raw("DCGM_FI_DEV_GPU_UTIL", BEGIN_MS, BEGIN_MS + 1000 * 30_000)
    assert list(zip(found.times, found.values, strict=True)) == list(series[0][1])
    before = len(fake.asked)
    # The size that fitted is remembered: a second reading requests no more than that.
    reader.raw("DCGM_FI_DEV_GPU_UTIL", BEGIN_MS, BEGIN_MS + 1000 * 30_000)
    assert len(fake.asked) - before == before - 4


def test_a_minute_that_exceeds_the_limits_is_reported(served: Callable[..., FakePrometheus]) -> None:
    fake = served(card(begin_ms=BEGIN_MS), most_samples=0)
    with pytest.raises(UnavailableError) as refused:
        SampleReader(Client(Access.of(fake.url))).raw("DCGM_FI_DEV_GPU_UTIL", BEGIN_MS, BEGIN_MS + 60_000)
    assert str(refused.value) == (
        f"{fake.url} cannot answer 1m of DCGM_FI_DEV_GPU_UTIL at 2023-11-14T22:14:20Z ({TOO_MANY}): raise its limits, "
        "or use a coarser --resolution"
    )


@pytest.mark.parametrize(
    ("status", "header", "pauses"),
    [
        (429, "7", [7.0]),
        (503, "0", [0.1]),
        (503, "99999", [60.0]),
        (429, "nan", [0.01]),
        (429, "Wed, 21 Oct 2026 07:28:00 GMT", [0.01]),
        (502, None, [0.01]),
    ],
)
def test_a_busy_server_is_queried_again_after_its_retry_after(
    status: int, header: str | None, pauses: list[float], served: Callable[..., FakePrometheus]
) -> None:
    first = Reply(status=status, headers={} if header is None else {"Retry-After": header})
    replies = [first]
    fake = served(card(begin_ms=BEGIN_MS), lambda _: replies.pop() if replies else None)
    slept: list[float] = []
    client = Client(Access.of(fake.url), sleep=slept.append)
    assert "up" in client.metric_names(BEGIN_MS, BEGIN_MS + 1)
    assert slept == pauses


def test_a_connection_that_ends_is_tried_again(served: Callable[..., FakePrometheus]) -> None:
    replies = [Reply(body=CUT.body, missing_bytes=900)]
    fake = served(card(begin_ms=BEGIN_MS), lambda _: replies.pop() if replies else None)
    slept: list[float] = []
    assert "up" in Client(Access.of(fake.url), sleep=slept.append).metric_names(BEGIN_MS, BEGIN_MS + 1)
    assert slept == [0.01]


def test_names_and_series_that_are_too_many_are_listed_in_parts(served: Callable[..., FakePrometheus]) -> None:
    def instead(asked: Asked) -> Reply | None:
        if asked.path not in {"series", "label/__name__/values"}:
            return None
        length = float(asked.one("end")) - float(asked.one("start"))
        return refusal(422, "the query time range exceeds the limit") if length > 86_400 else None

    from gua.imports.prometheus.survey import survey  # noqa: PLC0415

    fake = served(card(begin_ms=BEGIN_MS), instead)
    found = survey(Client(Access.of(fake.url)), BEGIN_MS - 10 * 86_400_000, BEGIN_MS)
    assert (found.cards, found.hosts) == (1, {"n1"})


@pytest.mark.parametrize("path", ["series", "label/__name__/values"])
def test_an_hour_that_cannot_be_listed_is_reported(path: str, served: Callable[..., FakePrometheus]) -> None:
    from gua.imports.prometheus.survey import survey  # noqa: PLC0415

    fake = served(card(begin_ms=BEGIN_MS), lambda asked: Reply(status=504) if asked.path == path else None)
    with pytest.raises(UnavailableError, match=r"cannot list an hour of .* \(a proxy answered 504\): raise its limits"):
        survey(Client(Access.of(fake.url)), BEGIN_MS - 86_400_000, BEGIN_MS)


def test_warnings_are_kept_and_other_shapes_of_them_ignored(served: Callable[..., FakePrometheus]) -> None:
    given: list[object] = [
        ["no store for \x1b[31mtenant\n2", "no store for \x1b[31mtenant\n2"],
        5,
        "text",
        None,
        {"a": 1},
    ]
    fake = served(instead=lambda _: as_json([], warnings=given.pop()))
    client = Client(Access.of(fake.url))
    while given:
        client.metric_names(0, 1)
    assert client.warnings == {"no store for [31mtenant 2"}


def test_long_parameters_are_posted(served: Callable[..., FakePrometheus]) -> None:
    fake = served(card(begin_ms=BEGIN_MS))
    client = Client(Access.of(fake.url))
    for name in ("DCGM_FI_DEV_GPU_UTIL", f'DCGM_FI_DEV_GPU_UTIL{{job=~"{"x" * 10_000}"}}'):
        assert [one["UUID"] for one in client.series([name], BEGIN_MS, BEGIN_MS + 1)] == ["GPU-a"]
    assert [(one.method, one.length < 4200) for one in fake.asked] == [("GET", True), ("POST", True)]


def test_closing_ends_what_waits(served: Callable[..., FakePrometheus]) -> None:
    """After Ctrl-C the command does not wait for a query that a server still works at, or for a pause."""
    import threading  # noqa: PLC0415

    fake = served(instead=lambda asked: Reply(after_seconds=60) if asked.path == "series" else Reply(status=503))
    client = Client(Access.of(fake.url))
    ended: list[str] = []

    def send(read: Callable[[], object]) -> None:
        try:
            read()
        except (UnavailableError, TransientError) as error:
            ended.append(str(error))

    reads = (lambda: client.series(["m"], 0, 1), lambda: client.metric_names(0, 1))
    client_module._PAUSES_SECONDS = (60.0,) * 5  # noqa: SLF001 - put back by the fixture
    threads = [threading.Thread(target=send, args=(read,)) for read in reads]
    for one in threads:
        one.start()
    while len(fake.asked) < 2:
        time.sleep(0.01)
    time.sleep(0.1)
    begin = time.monotonic()
    client.close()
    for one in threads:
        one.join(10)
    assert time.monotonic() - begin < 5
    assert ended == [f"{fake.url} was closed"] * 2
