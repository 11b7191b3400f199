"""The tests' own ClickHouse server does what a released one does, where it would not as a library."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from servers.clickhouse import ClickHouseServer
from servers.shards import UNREPLICATED, Shards

pytestmark = pytest.mark.pipeline


def test_it_outlives_queries_of_another_that_leave_its_rows_unread(tmp_path: Path) -> None:
    """Which end a connection with a reset at times: as a library it ended after some 20 of them."""
    shards = Shards(tmp_path)
    try:
        shards.start()
        shards.apply_schema({**UNREPLICATED, "SETTLE_SECONDS": "0"})
        for server in shards.servers:
            server.query(
                "INSERT INTO gua.card_info_local (host, gpu, ts) "
                "SELECT 'node', toString(number), toDateTime64('2026-03-25 12:00:00', 3) FROM numbers(20)"
            )
        for _ in range(200):
            assert shards.servers[1].query("SELECT 1 FROM gua.card_info LIMIT 1") == "1"
    finally:
        shards.kill()


def test_it_has_the_native_protocol_on_each_address_that_it_listens_on(tmp_path: Path) -> None:
    server = ClickHouseServer(tmp_path)
    hosts = ("127.0.0.1", "127.0.0.2")
    server.configure(f"<listen_host>{hosts[1]}</listen_host>")
    try:
        server.start()
        for host in hosts:
            with socket.create_connection((host, server.tcp_port), timeout=60) as connection:
                # Its answer to an HTTP request sent by mistake.
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert b"is for clickhouse-client program" in connection.recv(4_096)
    finally:
        server.kill()
