"""One version's part of bench_versions.py: it makes its own stores, and measures with its own code on request.

Run by its own Python, with this folder and its own tests on the path: python -m measures.version FOLDER SETTINGS. Reads
the name of a row a line, makes what that row needs the first time, measures it once, and answers with a line of JSON:
``{"figures": {name: number}}``, or ``{"cannot": "why"}``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from measures.beside_agent import agent_with, typed
from measures.child import Ran, ran
from measures.cost import on_foot, tick_told
from measures.figures import additions_ms, middle
from measures.fleet_report import GUA, asked, report_command, together
from measures.fleet_seed import Fleet, roll_up, seed_hours, seed_ticks, store_source
from measures.fleet_server import ROLLUPS, FleetServer, fleet_server
from measures.fleet_storage import stored
from measures.host import BENCH

from gua.store.database import open_store

Figures = dict[str, float]
Measure = Callable[[], Figures]
ADDITIONS = "a million additions, ms"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The input of both versions; ``shared`` has the databases and the spool that both get."""

    shared: Path
    days: int
    cards: int
    large: str
    import_days: int
    ticks: int


class Version:
    """What a version has made: its stores, its server, and what measures each row."""

    def __init__(self, held: ExitStack, folder: Path, settings: Settings) -> None:
        self._held = held
        self._folder = folder
        self._settings = settings
        self._ready: dict[str, Measure] = {}
        self._server: FleetServer | None = None
        self._has: Fleet | None = None

    def measure(self, row: str) -> Figures:
        """Measure a row once, with what it takes to add a million numbers beside it."""
        if row not in self._ready:
            self._ready[row] = ROWS[row](self)
        return {**self._ready[row](), ADDITIONS: additions_ms()}

    def _gua(self, *command: str | Path) -> Ran:
        return ran(GUA, *command, output=self._folder / "output")

    def _imported(self, name: str) -> str:
        """Return the store into which this version imported a database, made once."""
        store = self._folder / name
        if not store.exists():
            self._gua("import", "gua-sqlite", self._settings.shared / f"{name}.db", "--store", store)
        return str(store)

    def report(self) -> Measure:
        return self._commands("many", f"{self._settings.days}d")

    def hour(self) -> Measure:
        return self._commands("hour", "1d")

    def _commands(self, name: str, since: str) -> Measure:
        """Measure commands of an embedded store, beside the command that needs least of it."""
        store = ("--store", self._imported(name))
        commands = {
            "gua report": ("report", "--since", since),
            "gua explain": ("explain", "0"),
            "gua prices list": ("prices", "list"),
        }
        least = ("sql", "SELECT 1")
        for command in (*commands.values(), least):
            self._gua(*command, *store)

        def measured() -> Figures:
            floor = self._gua(*least, *store)
            figures = _of("gua sql 'SELECT 1'", floor)
            for label, command in commands.items():
                found = self._gua(*command, *store)
                figures |= _of(label, found) | {
                    f"{label} / 'SELECT 1', clock": found.wall_s / floor.wall_s,
                    f"{label} / 'SELECT 1', CPU": found.cpu_s / floor.cpu_s,
                }
            return figures

        return measured

    def agent(self) -> Measure:
        agent = self._held.enter_context(agent_with(Path(self._imported("hour"))))
        command = ("prices", "list")
        typed(agent, *command, output=self._folder / "output")
        return lambda: _of("gua prices list", typed(agent, *command, output=self._folder / "output"))

    def imports(self) -> Measure:
        card_ticks = 8 * 2_880 * self._settings.import_days

        def measured() -> Figures:
            with self._emptied("import") as store:
                found = self._gua("import", "gua-sqlite", self._settings.shared / "few.db", "--store", store)
            figures = _of("gua import", found)
            return {"card ticks a second of CPU": card_ticks / found.cpu_s, **figures}

        return measured

    def demo(self) -> Measure:
        self._gua("demo", "--json")
        return lambda: _of("gua demo", self._gua("demo", "--json"))

    def tick(self) -> Measure:
        driver, clock = self._held.enter_context(on_foot())

        def measured() -> Figures:
            figures = {}
            with _one_cpu():
                for way, name in (("store", "made and spooled"), ("HTTP", "delivered")):
                    data = tick_told(driver, clock, way, self._settings.ticks)
                    for key, what in (("ours_ms", "CPU"), ("nvml_ms", "its driver's calls")):
                        figures[f"{name}: {what}, ms"] = middle([block[key] for block in data["blocks"]])
            return figures

        return measured

    def landing(self) -> Measure:
        environ = {**os.environ, "PYTHONPATH": str(BENCH)}
        output = self._folder / "output"

        def measured() -> Figures:
            with self._emptied("landing") as store:
                self._gua("schema", "apply", "--store", store)
                spool = store.with_suffix(".db")
                shutil.copy(self._settings.shared / "spool.db", spool)
                landing = (sys.executable, "-m", "measures.landing", spool, f"chdb://{store}")
                found = ran(*landing, output=output, environ=environ)
                spool.unlink()
            data = json.loads(output.read_text())
            of_reading = data["land_cpu_ms"] / data["read_cpu_ms"]
            return {
                "landing a tick: CPU, ms": data["land_cpu_ms"],
                "of reading the same bytes": of_reading,
                "memory, MB": found.peak_mb,
            }

        return measured

    def fleet(self) -> Measure:
        """Measure the default report of ticks on a server, and what hours take."""
        fleet, server = self._fleet()
        found = stored(server)
        request = asked(fleet)
        report_command(server, request)

        def measured() -> Figures:
            return {
                **_request(server, fleet, early_ms=0),
                **_of("gua report", report_command(server, request, "--width", "80")),
                "hours beside ticks, %": 100 * found.hours / found.ticks,
            }

        return measured

    def page(self) -> Measure:
        """Measure the page of that fleet, with every section; a server ends a question after a minute."""
        fleet, server = self._fleet()
        page = self._folder / "page.html"
        options = ("--html", str(page))
        report_command(server, asked(fleet), *options)

        def measured() -> Figures:
            found = _of("gua report --html", report_command(server, asked(fleet), *options))
            return {**found, "its page, MB": page.stat().st_size / 1e6}

        return measured

    def large(self) -> Measure:
        """Measure the default report of copied hours."""
        cards, days = map(int, self._settings.large.split("x"))
        fleet, source = Fleet(cards=cards, days=days), Fleet(cards=min(16, self._settings.cards), days=min(10, days))
        server = self._filled(source)
        store_source(server)
        self._has = None
        server.clear()
        seed_hours(server, fleet, source)
        server.merge(*ROLLUPS, "hour_marks")
        request = asked(fleet, early_ms=60_000)
        report_command(server, request)

        def measured() -> Figures:
            return {
                **_request(server, fleet, early_ms=60_000),
                **_of("gua report", report_command(server, request, "--width", "80")),
                **_of("gua report --json", report_command(server, request)),
            }

        return measured

    def _fleet(self) -> tuple[Fleet, FleetServer]:
        """Return the fleet whose ticks are made, and the server that has them."""
        fleet = Fleet(cards=self._settings.cards, days=self._settings.days)
        if self._server is None or self._has != fleet:
            self._server = self._filled(fleet)
        return fleet, self._server

    def _filled(self, fleet: Fleet) -> FleetServer:
        """Return this version's server with a fleet's ticks alone, and their hours."""
        if self._server is None:
            self._server = self._held.enter_context(fleet_server(self._folder / "server"))
        self._server.clear()
        seed_ticks(self._server, fleet)
        roll_up(self._server)
        self._has = fleet
        return self._server

    @contextmanager
    def _emptied(self, name: str) -> Iterator[Path]:
        """Yield where a store may be made that goes away."""
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=self._folder) as folder:
            yield Path(folder, "store")


ROWS: dict[str, Callable[[Version], Measure]] = {
    "report": Version.report,
    "hour": Version.hour,
    "agent": Version.agent,
    "import": Version.imports,
    "demo": Version.demo,
    "tick": Version.tick,
    "landing": Version.landing,
    "fleet": Version.fleet,
    "page": Version.page,
    "large": Version.large,
}


def _of(name: str, found: Ran) -> Figures:
    return {f"{name}: CPU, s": found.cpu_s, f"{name}: clock, s": found.wall_s, f"{name}: memory, MB": found.peak_mb}


def _request(server: FleetServer, fleet: Fleet, *, early_ms: int) -> Figures:
    """Return what all questions of a default report take, warm."""
    with open_store(server.dsn("gua_reader")) as store:
        (seconds,), server_cpu_s = together(server, store, asked(fleet, early_ms=early_ms), times=1)
    return {
        "all questions: clock, s": seconds,
        "all questions, million additions": seconds * 1000 / additions_ms(),
        "all questions: CPU of the server, s": server_cpu_s,
    }


@contextmanager
def _one_cpu() -> Iterator[None]:
    """Keep what is started within to one CPU: of two, threads that hand the interpreter to each other take more."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def main() -> None:
    folder, data = sys.argv[1:]
    given = json.loads(data)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    with ExitStack() as held:
        version = Version(held, Path(folder), Settings(**{**given, "shared": Path(given["shared"])}))
        for row in sys.stdin:
            try:
                answer: dict[str, object] = {"figures": version.measure(row.strip())}
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the row says why it has no figures
                answer = {"cannot": f"{type(error).__name__}: {str(error).strip()[-300:]}"}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
