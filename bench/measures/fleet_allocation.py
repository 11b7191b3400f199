"""What allocation costs a fleet: bytes a card tick, as idle seconds, and the report with it beside the same without."""

from __future__ import annotations

from measures.figures import middle, show, spread
from measures.fleet_report import Timed, asked, timed
from measures.fleet_seed import Fleet, copy_hours, roll_up, seed_hours, seed_ticks, store_source
from measures.fleet_server import ROLLUPS, FleetServer

BYTES_LIMIT, SLOWER_LIMIT = 4.0, 1.15
TURNS = 3
_SHOWN_MS = 10
_OF_ALLOCATION = ("allocation", "unallocated_gpu_time_ms")
_OF_IDLE_TIME = ("idle_time_ms", "idle_energy_mj", "idle_energy_coverage_ms")
_OF_HEALTH = ("clock_reasons", "xid_errors", "ecc_errors", "xid", "row_remap", "recovery_action")
_OF_ACTIVITY = ("sm_utilization", "sm_occupancy", "tensor_utilization", "memory_bandwidth_utilization")
_COLUMNS = """
SELECT sum(column_bytes_on_disk)
FROM system.parts_columns
WHERE active AND database = 'gua' AND table = 'card_ticks' AND column IN ({})
"""
_TABLES = ("allocation_intervals", "hourly_sources")


def show_allocation(server: FleetServer, fleet: Fleet, source: Fleet, *, times: int) -> None:
    """Show the stored bytes of ``source``, and reports of ``fleet`` whose hours are copied from it, in turn."""
    server.clear()
    seed_ticks(server, source)
    for statement in ("idle_times", "health", "allocation_ticks", "allocation_sources", "allocation_cards"):
        server.run(statement)
    _show_bytes(server)
    roll_up(server)
    store_source(server)
    server.clear()
    seed_hours(server, fleet, source)
    server.merge(*ROLLUPS)
    found: dict[bool, list[Timed]] = {False: [], True: []}
    for _ in range(TURNS):
        for has_allocations, made in found.items():
            for table in _TABLES:
                server.query(f"TRUNCATE TABLE gua.{table}")
            if has_allocations:
                copy_hours(server, fleet, source, _TABLES)
                server.merge(*_TABLES)
            made.append(timed(server, asked(fleet, early_ms=60_000), times=times))
    for has_allocations, made in found.items():
        walls = [seconds for one in made for seconds in one.queries_s]
        name = "with allocation" if has_allocations else "without"
        cpu_s = [one.server_cpu_s for one in made]
        show(f"all queries of a report, {name}", middle(walls), "s", note=spread(walls))
        show("  CPU of the server for one", middle(cpu_s), "s", note=spread(cpu_s))
    without, with_ = ([seconds for one in found[told] for seconds in one.queries_s] for told in (False, True))
    show("  with beside without, on the clock", middle(with_) / middle(without), "", SLOWER_LIMIT)
    without, with_ = ([one.server_cpu_s for one in found[told]] for told in (False, True))
    show("  with beside without, CPU", middle(with_) / middle(without), "", SLOWER_LIMIT)
    for view in found[True][0].cpu_ms_by_view:
        cpu_ms = [middle([one.cpu_ms_by_view.get(view, 0.0) for one in found[told]]) for told in (False, True)]
        if cpu_ms[1] - cpu_ms[0] > _SHOWN_MS:
            show(f"    {view}, CPU", cpu_ms[1], "ms", note=f"{cpu_ms[0]:,.0f} ms without")
    # The growth of other fleets has a source of its own.
    server.query("DROP TABLE gua.bench_rollups")


def _show_bytes(server: FleetServer) -> None:
    server.merge("card_ticks", "allocation_ticks", "allocation_source_ticks")
    ticks = server.parts("card_ticks")[1]
    tables = sum(server.parts(table)[2] for table in ("allocation_ticks", "allocation_source_ticks"))
    of_allocation, of_idle_time, of_health, of_activity = (
        int(server.query(_COLUMNS.format(", ".join(f"'{name}'" for name in names)), user="watcher"))
        for names in (_OF_ALLOCATION, _OF_IDLE_TIME, _OF_HEALTH, _OF_ACTIVITY)
    )
    note = f"{ticks:,} card ticks, merged"
    show("allocation: bytes a card tick", (tables + of_allocation) / ticks, "B", BYTES_LIMIT, note)
    told = of_idle_time + of_health
    show("idle seconds and their energy: bytes a card tick", of_idle_time / ticks, "B", BYTES_LIMIT)
    show("  with clock reasons and errors", told / ticks, "B", BYTES_LIMIT)
    show(
        "  with activity, where it is on",
        (told + of_activity) / ticks,
        "B",
        BYTES_LIMIT,
        f"{of_activity / ticks:.2f} B of it",
    )
