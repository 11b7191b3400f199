"""Recorded samples come back from Prometheus and VictoriaMetrics as they were given, but for what each is known to do.

At a sample's own time Prometheus 2.42 gives both edges of a range, VictoriaMetrics leaves out the left one. NaN is not
kept by VictoriaMetrics.
"""

from __future__ import annotations

import base64
import json
import math
import os
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from servers.recorded_prometheus import RecordedPrometheus, Series, VictoriaMetrics, openmetrics
from servers.tools import MissingToolError

Server = RecordedPrometheus | VictoriaMetrics

# Long ago: VictoriaMetrics answers queries of the last 30 seconds (search.latencyOffset) of an earlier time.
BEGIN_MS = 1_700_000_000_125
STEP_MS = 30_000
AT_MS = BEGIN_MS + 2 * STEP_MS
ODD = 'a "quoted" \\ back\\nslash\nand a line, {braces}'
WHOLE: Series = ("m", {"card": "0", "label": ODD}, [(BEGIN_MS + at * STEP_MS, 0.1 + at) for at in range(3)])
# Of this one the middle sample is not there.
HOLED: Series = ("m", {"card": "1"}, [(BEGIN_MS, 5), (AT_MS, math.nan)])
OTHER: Series = ("other", {"empty": ""}, [(BEGIN_MS, math.inf), (AT_MS, 1e300)])
SERIES = [WHOLE, OTHER, HOLED]
Answer = dict[tuple[tuple[str, str], ...], list[tuple[float, str]]]
both = pytest.mark.parametrize("kind", [RecordedPrometheus, VictoriaMetrics], ids=["prometheus", "victoria-metrics"])
SECRET = "secret"  # noqa: S105 - of a server of this test
# Of it, in the fewest rounds.
HASHED = "$2b$04$q5pGeqogMkCReryVnS2MCew4rx/XrJcjPEEhZYJdW724COHxygroC"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Return what runs a server on the series until the end of the test."""
    running: list[Server] = []

    def start(kind: type[Server], *options: str) -> Server:
        try:
            one = kind(tmp_path / "server", SERIES, options=options)
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


def instant(server: Server, expression: str, *, password: str = "", authority: Path | None = None) -> Answer:
    """Return the samples of each series that an instant query of a range finds."""
    query_string = urllib.parse.urlencode({"query": expression, "time": f"{AT_MS / 1000:.3f}"})
    user = base64.b64encode(f"reader:{password}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{server.url}/api/v1/query?{query_string}", headers={"Authorization": f"Basic {user}"} if password else {}
    )
    context = ssl.create_default_context(cafile=authority) if authority else None
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:  # noqa: S310 - as above
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return {
        tuple(sorted(one["metric"].items())): [(float(time), value) for time, value in one["values"]] for one in found
    }


def given(*, left: bool, nan: bool) -> Answer:
    """Return the samples of ``m``, with or without the oldest and NaN."""
    answer = {
        tuple(sorted({"__name__": name, **labels}.items())): [
            (time / 1000, "NaN" if math.isnan(value) else f"{value:g}")
            for time, value in samples
            if (left or time > BEGIN_MS) and (nan or not math.isnan(value))
        ]
        for name, labels, samples in (WHOLE, HOLED)
    }
    return {labels: samples for labels, samples in answer.items() if samples}


@both
def test_samples_come_back_at_their_times_and_again_after_a_restart(
    kind: type[Server], started: Callable[..., Server]
) -> None:
    server = started(kind)
    prometheus = kind is RecordedPrometheus
    assert instant(server, "m[60s]") == given(left=prometheus, nan=prometheus)
    # A millisecond more reaches the oldest sample in both.
    assert instant(server, "m[60001ms]") == given(left=True, nan=prometheus)
    [(labels, samples)] = instant(server, "other[2m]").items()
    assert labels == (("__name__", "other"),)  # an empty label is none
    assert [(time, float(value)) for time, value in samples] == [(BEGIN_MS / 1000, math.inf), (AT_MS / 1000, 1e300)]

    server.restart()
    assert instant(server, "m[60s]") == given(left=prometheus, nan=prometheus)


@pytest.mark.parametrize(
    ("kind", "option"),
    [(RecordedPrometheus, "--web.route-prefix=/some/where"), (VictoriaMetrics, "-http.pathPrefix=/some/where")],
    ids=["prometheus", "victoria-metrics"],
)
def test_the_url_has_the_prefix(kind: type[Server], option: str, started: Callable[..., Server]) -> None:
    server = started(kind, option)
    assert server.url.endswith("/some/where")
    assert len(instant(server, "m[61s]")) == 2


def test_prometheus_is_ready_behind_a_password_and_tls(started: Callable[..., Server], tmp_path: Path) -> None:
    issuer = trustme.CA()
    issuer.cert_pem.write_to_path(authority := tmp_path / "authority.pem")
    certificate = issuer.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    config = tmp_path / "web.yml"
    config.write_text(
        "tls_server_config: {cert_file: certificate.pem, key_file: key.pem}\n"
        f"basic_auth_users: {{reader: {HASHED}}}\n"
    )
    server = started(RecordedPrometheus, f"--web.config.file={config}")
    assert server.url.startswith("https://")
    assert len(instant(server, "m[61s]", password=SECRET, authority=authority)) == 2


def test_a_query_of_more_samples_than_allowed_is_refused(started: Callable[..., Server]) -> None:
    server = started(RecordedPrometheus, "--query.max-samples=3")
    with pytest.raises(urllib.error.HTTPError) as refused:
        instant(server, "m[61s]")
    assert refused.value.code == 422
    assert "too many samples" in json.load(refused.value)["error"]


def test_the_text_has_the_series_of_a_name_together_and_ends_so() -> None:
    assert list(openmetrics(SERIES)) == [
        "# TYPE m unknown\n",
        'm{card="0",label="a \\"quoted\\" \\\\ back\\\\nslash\\nand a line, {braces}"} 0.1 1700000000.125\n',
        'm{card="0",label="a \\"quoted\\" \\\\ back\\\\nslash\\nand a line, {braces}"} 1.1 1700000030.125\n',
        'm{card="0",label="a \\"quoted\\" \\\\ back\\\\nslash\\nand a line, {braces}"} 2.1 1700000060.125\n',
        'm{card="1"} 5.0 1700000000.125\n',
        'm{card="1"} NaN 1700000060.125\n',
        "# TYPE other unknown\n",
        "other +Inf 1700000000.125\n",
        "other 1e+300 1700000060.125\n",
        "# EOF\n",
    ]
