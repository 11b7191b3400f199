"""A report of a window that is rolled up reads no view of ticks, on a server, where planning one takes 100 ms."""

from __future__ import annotations

from gua.report.hours import tick_hours
from gua.store.report_views import report_views, without_ticks
from gua.store.statements import EMBEDDED_TOKENS, load


def test_views_of_ticks_are_read_where_an_hour_is_not_rolled_up_and_not_elsewhere() -> None:
    created = [one.creates for one in load(EMBEDDED_TOKENS) if one.creates]
    for query in [report_views().query(view) for database, view in created if database == "gua_report"]:
        assert without_ticks(query, {"tick_hours": [493_000]}) == query
        assert "gua_report.tick_" not in without_ticks(query, {"tick_hours": tick_hours([])})
