"""A server that cannot be used: one line with what to do, exit code 3, no traceback."""

from __future__ import annotations

import pytest

from servers.clickhouse import ClickHouseServer
from servers.gua import Gua


def refusal(gua: Gua, *arguments: str) -> str:
    """Return the line on standard error, which must be the only one."""
    done = gua.run(*arguments)
    assert done.returncode == 3, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("gua: ")
    return line


@pytest.mark.parametrize("command", [("report",), ("report", "--json"), ("schema", "apply")])
class TestServer:
    def test_that_is_down(self, gua: Gua, clickhouse: ClickHouseServer, command: tuple[str, ...]) -> None:
        clickhouse.kill()
        assert str(clickhouse.http_port) in refusal(gua, *command, "--store", clickhouse.dsn())

    def test_that_refuses_the_password(self, gua: Gua, clickhouse: ClickHouseServer, command: tuple[str, ...]) -> None:
        line = refusal(gua, *command, "--store", clickhouse.dsn(password="wrong-secret"))  # noqa: S106 - it must be wrong
        assert "password" in line
        assert "wrong-secret" not in line


def test_a_server_without_the_schema_is_refused_with_the_command_that_applies_it(
    gua: Gua, clickhouse: ClickHouseServer
) -> None:
    assert "gua schema apply" in refusal(gua, "report", "--store", clickhouse.dsn())


@pytest.mark.usefixtures("applied")
def test_the_collectors_user_may_not_read(gua: Gua, clickhouse: ClickHouseServer) -> None:
    refusal(gua, "report", "--store", clickhouse.dsn("gua_writer"))
