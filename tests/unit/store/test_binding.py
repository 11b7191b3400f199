"""Parameters of views: short lists as they are, long ones in parts that no server refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.store.database import open_store
from gua.store.report_views import bound_call

TYPES = {"since_ms": "Int64", "hosts": "Array(String)"}
FIELD_BYTES = 128 * 1024  # http_max_field_value_size


def test_what_is_short_is_bound_as_it_is() -> None:
    assert bound_call({}, TYPES) == ("", {})
    assert bound_call({"since_ms": 1, "hosts": []}, TYPES) == (
        "(since_ms = {since_ms:Int64}, hosts = {hosts:Array(String)})",
        {"since_ms": 1, "hosts": []},
    )
    assert bound_call({"hosts": ["a", "b"]}, TYPES)[1] == {"hosts": ["a", "b"]}


@pytest.mark.parametrize("name", ["n" * 253, "\U0001f600" * 253, "\\'\n" * 84])
def test_a_long_list_goes_in_parts_that_fit_into_a_field(name: str) -> None:
    hosts = [f"{number:05d}{name}" for number in range(10_000)]
    call, values = bound_call({"hosts": hosts}, TYPES)
    assert call.startswith("(hosts = arrayConcat({hosts_0:Array(String)}, {hosts_1:Array(String)}, ")
    assert [host for part in values.values() for host in part] == hosts  # type: ignore[attr-defined]
    assert max(len(repr(part).encode()) for part in values.values()) < FIELD_BYTES


@pytest.mark.engine
def test_the_embedded_engine_joins_the_parts(tmp_path: Path) -> None:
    hosts = [f"{number:05d}{'n' * 253}" for number in range(2_000)]
    with open_store(f"chdb://{tmp_path / 'store'}") as store:
        store.insert_json("card_seen", [{"host": host, "gpu": "GPU-1"} for host in (hosts[1_999], "another")])
        assert [row["host"] for row in store.rows("extent", {"hosts": hosts})] == [hosts[1_999]]
