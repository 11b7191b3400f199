"""clickhouse-connect's SQLAlchemy dialect and polars, in the Python that tools like Superset and Jupyter run in."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.tools import ROOT, notebook

SCRIPT = ROOT / "tests" / "tools" / "notebook" / "ask.py"


class AlchemyError(Exception):
    """What the dialect raised."""


class Alchemy:
    """An engine of SQLAlchemy for a user."""

    def __init__(self, server: ClickHouseServer, user: str = "gua_bi", *, database: str = "gua_public") -> None:
        password = urllib.parse.quote(PASSWORDS[user], safe="")
        self._process = subprocess.Popen(
            [str(notebook()), str(SCRIPT), f"clickhousedb://{user}:{password}@127.0.0.1:{server.http_port}/{database}"],
            env={"PATH": os.environ["PATH"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, **question: object) -> Any:  # noqa: ANN401 - what JSON holds
        """Return the answer to a query of ``ask.py``. Raises AlchemyError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        response = json.loads(self._process.stdout.readline())
        if "error" in response:
            raise AlchemyError(response["error"])
        return response["rows"]


def run_cells(cells: str, folder: Path, **settings: str) -> str:
    """Run a notebook's cells, one after the other, and return what they printed."""
    done = subprocess.run(
        [str(notebook()), "-c", cells],
        env={"PATH": os.environ["PATH"], **settings},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
