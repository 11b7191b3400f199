"""Prometheus and VictoriaMetrics that hold given samples of the past and scrape nothing."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import yaml

from servers.process import ServerProcess, free_ports
from servers.prometheus import prometheus_program
from servers.promtool import promtool
from servers.tools import victoria_metrics_binary

# The name of a metric, its labels, and its samples of (Unix time in ms, value), oldest first.
Series = tuple[str, dict[str, str], Sequence[tuple[int, float]]]

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_SPELT = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}
# promtool reads the whole file once for each block: with its own 2 hours that is 360 times for a month.
_BLOCK = "168h"
_LINES_AT_ONCE = 10_000


def openmetrics(series: Iterable[Series]) -> Iterator[str]:
    """Yield the lines of the series as OpenMetrics text, those of one name together, each with its line end."""
    families: dict[str, list[Series]] = {}
    for each in series:
        families.setdefault(each[0], []).append(each)
    for name, family in families.items():
        yield f"# TYPE {name} unknown\n"
        yield from _lines(family, lambda time_ms: f"{time_ms // 1000}.{time_ms % 1000:03d}")
    yield "# EOF\n"


def _lines(series: Iterable[Series], stamp: Callable[[int], str]) -> Iterator[str]:
    for name, labels, samples in series:
        # A scrape drops empty labels, too; promtool would store them.
        pairs = ",".join(f'{label}="{value.translate(_ESCAPED)}"' for label, value in labels.items() if value)
        before = f"{name}{{{pairs}}}" if pairs else name
        for time_ms, value in samples:
            number = repr(float(value))
            yield f"{before} {_SPELT.get(number, number)} {stamp(time_ms)}\n"


class _Recorded(ServerProcess):
    """A server that is ready when its log says so: it may require a password or have a certificate of its own."""

    def __init__(self, command: Sequence[str], folder: Path, says_when_ready: str) -> None:
        super().__init__(Path(command[0]).name, command, dict(os.environ), folder)
        self._says_when_ready = says_when_ready.encode()

    def run(self) -> None:
        """Start, also after a stop, and return once it answers queries."""
        before = self.log.stat().st_size if self.log.exists() else 0
        self.start(lambda: self._says_when_ready in self.log.read_bytes()[before:])

    def restart(self) -> None:
        """Stop, and run on the same port and data."""
        self.stop()
        self.run()


class RecordedPrometheus(_Recorded):
    """Prometheus on blocks that promtool makes of the series. Raises MissingToolError.

    ``options`` are further ones, each as ``--name=value``. ``url`` has what they say of a prefix and of TLS.
    """

    def __init__(self, folder: Path, series: Iterable[Series], *, options: Sequence[str] = ()) -> None:
        program = prometheus_program()
        data = folder / "data"
        data.mkdir(parents=True)
        text = folder / "series.txt"
        try:
            with text.open("w", encoding="utf-8") as file:
                file.writelines(openmetrics(series))
            promtool(
                "tsdb", "create-blocks-from", "openmetrics", "--quiet", f"--max-block-duration={_BLOCK}", text, data
            )
        finally:
            text.unlink(missing_ok=True)
        (folder / "prometheus.yml").write_text("scrape_configs: []\n", encoding="utf-8")
        [port] = free_ports(1)
        self.url = f"{_scheme(options)}://127.0.0.1:{port}{_given('--web.route-prefix', options).rstrip('/')}"
        command = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address=127.0.0.1:{port}",
            *options,
        ]
        super().__init__(command, folder, "Server is ready to receive web requests.")


class VictoriaMetrics(_Recorded):
    """VictoriaMetrics that takes the series when it runs first; NaN it does not keep. Raises MissingToolError."""

    def __init__(self, folder: Path, series: Iterable[Series], *, options: Sequence[str] = ()) -> None:
        program = str(victoria_metrics_binary())
        folder.mkdir(parents=True)
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}{_given('-http.pathPrefix', options).rstrip('/')}"
        self._untaken: Iterable[Series] = series
        command = [
            program,
            f"-storageDataPath={folder / 'data'}",
            "-retentionPeriod=10y",
            f"-httpListenAddr=127.0.0.1:{port}",
            *options,
        ]
        super().__init__(command, folder, "started VictoriaMetrics in")

    def run(self) -> None:
        """Start, also after a stop, and return once it answers queries of all samples."""
        super().run()
        lines, self._untaken = _lines(self._untaken, str), ()
        # What it has not taken in is not to be found before the flush.
        while part := "".join(islice(lines, _LINES_AT_ONCE)):
            self._ask("/api/v1/import/prometheus", part.encode())
        self._ask("/internal/force_flush")

    def _ask(self, path: str, body: bytes | None = None) -> None:
        with urllib.request.urlopen(self.url + path, body, timeout=60):  # noqa: S310 - our own server
            pass


def _given(name: str, options: Sequence[str]) -> str:
    """Return the value of an option, empty if it is not there."""
    values = [option.partition("=")[2] for option in options if option.startswith(f"{name}=")]
    return values[-1] if values else ""


def _scheme(options: Sequence[str]) -> str:
    file = _given("--web.config.file", options)
    return "https" if file and "tls_server_config" in yaml.safe_load(Path(file).read_text("utf-8")) else "http"
