"""A real ClickHouse server with the project's own users, listening on free ports of 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import signal
import string
import sys
import urllib.error
import urllib.request
from pathlib import Path

from servers.process import ServerProcess, free_ports, http_answers
from servers.tools import ROOT, clickhouse_library

HERE = Path(__file__).resolve().parent
# Passwords that a careless config reader would take for a number, or for syntax.
PASSWORDS = {
    "gua_owner": "owner'\"$1",
    "gua_writer": "00042",
    "gua_reader": "reader",
    "gua_bi": "00x7",
    "site": "of another's",
    "views_alone": "views",
    "views_and_version": "views, too",
    "query_watcher": "watches",
}


def serving(config: Path, tcp_port: int) -> list[str]:
    """Return the command line of a server; clients have ``tcp_port``, and the configuration another."""
    arguments = (clickhouse_library(), config, tcp_port)
    return [sys.executable, str(HERE / "serve_clickhouse.py"), *map(str, arguments)]


class ClickHouseServer:
    """One server with its data below ``folder``; it survives ``stop``/``kill`` and ``start``.

    Clients have the native protocol on ``tcp_port``; the server itself knows its ``own_tcp_port``.
    """

    def __init__(self, folder: Path, *, without_password: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.http_port, self.tcp_port, self.own_tcp_port = free_ports(3)
        self.patience_seconds = 60.0
        users = folder / "users.xml"
        shutil.copy(HERE / "users.xml", users)
        (folder / "users.d").mkdir(exist_ok=True)
        shutil.copy(ROOT / "deploy" / "clickhouse" / "users.xml", folder / "users.d" / "gua.xml")
        shutil.copy(ROOT / "deploy" / "clickhouse" / "users-bi.xml", folder / "users.d" / "gua-bi.xml")
        self.folder = folder
        self.configure()
        config = folder / "config.xml"
        self._process = ServerProcess(
            "clickhouse",
            serving(config, self.tcp_port),
            {
                **os.environ,
                **{
                    f"{user.upper()}_PASSWORD": password
                    for user, password in PASSWORDS.items()
                    if user != without_password
                },
            },
            folder,
        )

    def configure(self, more: str = "") -> None:
        """Write the configuration, with ``more`` XML in it; the next start reads it."""
        template = string.Template((HERE / "clickhouse.xml").read_text())
        (self.folder / "config.xml").write_text(
            template.substitute(
                http_port=self.http_port,
                tcp_port=self.own_tcp_port,
                path=self.data,
                users=self.folder / "users.xml",
                more=more,
            )
        )

    @property
    def data(self) -> Path:
        """Where it keeps what it stores."""
        return self.folder / "data"

    @property
    def endpoint(self) -> str:
        """Where the Collector's native client connects."""
        return f"tcp://127.0.0.1:{self.tcp_port}"

    def dsn(self, user: str = "gua_owner", *, password: str | None = None) -> str:
        """Return the DSN that gua takes, over HTTP."""
        secret = urllib.request.quote(PASSWORDS[user] if password is None else password, safe="")
        return f"clickhouse://{user}:{secret}@127.0.0.1:{self.http_port}"

    def start(self) -> None:
        self._process.start(lambda: http_answers(f"http://127.0.0.1:{self.http_port}/ping"))

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def query(self, sql: str, *, user: str = "gua_owner") -> str:
        """Run one statement over HTTP and return its answer, tab separated, without the closing newline."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port}/",
            data=sql.encode(),
            headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": PASSWORDS.get(user, "")},
        )
        try:
            with urllib.request.urlopen(request, timeout=self.patience_seconds) as answer:  # noqa: S310 - see above
                return str(answer.read().decode()).removesuffix("\n")
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None
