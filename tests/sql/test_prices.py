"""``gua prices`` on a server: the schema's owner sets them, readers read them."""

from __future__ import annotations

import pytest

from gua.cli.main import main
from servers.clickhouse import ClickHouseServer

pytestmark = [pytest.mark.pipeline, pytest.mark.xdist_group("sql-served")]


def test_the_owner_sets_prices_and_a_reader_only_reads_them(
    server: ClickHouseServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GUA_STORE", "GUA_STORE_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    server.query("TRUNCATE TABLE gua.prices")
    owner, reader = server.dsn(), server.dsn("gua_reader")
    expected_text = "L4: 0.8 EUR per GPU-hour from the beginning (list)\n"
    assert (
        main(["prices", "set", "L4", "0.8", "--currency", "EUR", "--source", "list", "--store", owner, "--force"]) == 0
    )
    assert capsys.readouterr().out == expected_text
    assert main(["prices", "set", "L4", "0.1", "--currency", "EUR", "--store", reader]) == 3
    refused = capsys.readouterr()
    assert (refused.out, len(refused.err.splitlines())) == ("", 1)
    assert "the user may not do this" in refused.err
    assert main(["prices", "list", "--store", reader]) == 0
    assert "L4     0.8 EUR       the beginning         list" in capsys.readouterr().out
    assert main(["prices", "remove", "L4", "--store", owner]) == 0
    assert capsys.readouterr().out == f"removed: {expected_text}"
    assert server.query("SELECT count() FROM gua_report.prices") == "0"
