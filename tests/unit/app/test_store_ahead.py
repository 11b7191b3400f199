"""Which store is opened ahead of a command: the one that it will ask, and none where it may ask something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.app import store_ahead

HOME = Path("/home/u/.gua/store")


@pytest.mark.parametrize(
    ("arguments", "variable", "path"),
    [
        ("", None, HOME),
        ("--since 30d", None, HOME),
        ("--store /a/b --json", None, Path("/a/b")),
        ("--store=chdb:///a/b%20c", None, Path("/a/b c")),
        ("--store /a --store /b", None, Path("/b")),
        ("", "/env", Path("/env")),
        ("--store /a", "/env", Path("/a")),
        ("", "clickhouse://u@host", None),
        ("--store clickhouse://u@host", "/env", None),
        ("--store", None, HOME),
        ("--store what", None, None),
        ("--store chdb://a", None, None),
        ("--socket /run/s", None, None),
        ("--socket=/run/s", "/env", None),
        ("--help", None, None),
        ("-h", None, None),
    ],
)
def test_the_store_that_is_named(
    arguments: str, variable: str | None, path: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []
    monkeypatch.setattr(store_ahead.ahead, "begin", begun.append)
    monkeypatch.setattr(store_ahead, "is_installed", lambda: True)
    monkeypatch.setenv("GUA_HOME", str(HOME.parent))
    monkeypatch.delenv("GUA_STORE", raising=False)
    if variable is not None:
        monkeypatch.setenv("GUA_STORE", variable)
    store_ahead.open_ahead(arguments.split())
    assert begun == ([] if path is None else [path])


def test_nothing_is_begun_without_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Path] = []
    monkeypatch.setattr(store_ahead.ahead, "begin", begun.append)
    monkeypatch.setattr(store_ahead, "is_installed", lambda: False)
    store_ahead.open_ahead(["--store", "/a"])
    assert begun == []
