"""``gua status``: what it says, how it is drawn, and how it ends, with real sockets."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.cards import GIB, INTERVAL_MS, MIB, START_MS, allocated, allocation, card, process, tick
from fakes.clock import FakeClock
from fakes.sockets import bound, listening
from gua.agent.status import Board
from gua.cli.main import main
from gua.cli.status import parse_threshold, with_threshold
from gua.core.errors import UsageError
from gua.core.plaintext import cells
from gua.core.tick import AgentReading, ErrorCount
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation
from gua.local_socket.client import query_status
from gua.local_socket.server import PUBLIC_MODE, Listen, LocalServer
from gua.procfs.reader import ProcFs
from gua.report.kit.style import Style
from gua.report.status.text import allocation_in_words, render_status, span
from gua.spool.stats import SpoolStats
from gua.state.pid_file import AgentRecord, PidFile
from servers.user import as_user, other_uid, shared_folder

Golden = Callable[[str, str], None]
POD = {"source": "kubernetes", "owner": None, "uid": None, "pod_name": "train-0", "pod_namespace": "lab"}
HOSTILE = "evil\x1b[31m\u202egnp.exe\x07\nroot"


def lab(clock: FakeClock | None = None) -> Board:
    """Return the board of an agent that has had a day, with cards in every state."""
    clock = clock or FakeClock(wall_ms=START_MS)
    board = Board(
        pid=4242,
        version="0.1.0",
        host="gpu-1",
        started_ms=START_MS,
        interval_ms=INTERVAL_MS,
        destinations=[("store", "chdb:///var/lib/gua/store"), ("endpoint", "https://otel.example:4318")],
        clock=clock,
        in_memory=lambda: 0,
        spool=lambda: SpoolStats(
            ticks=117,
            bytes=496_640,
            dropped=2,
            waiting={"store": 40, "endpoint": 117},
            oldest_ms={"store": clock.wall - 1_200_000, "endpoint": clock.wall - 3_510_000},
            delivered={"store": 960, "endpoint": 0},
            delivered_ms={"store": clock.wall - 12_000},
            refused={"store": 0, "endpoint": 0},
        ),
    )
    errors = (
        ErrorCount(call="nvmlDeviceGetMemoryInfo_v2", code="NOT_SUPPORTED", count=1_200),
        ErrorCount(call="nvmlDeviceGetProcessUtilization", code="NO_PERMISSION", count=2),
    )
    crowd = tuple(process(5000 + n, (9 - n) * GIB, owner=f"user{n}", comm="python3") for n in range(9))
    for number in range(1, 1001):
        clock.advance(INTERVAL_MS)
        long_ago = number <= 900
        board.ticked(
            tick(
                clock.wall,
                card(busy=0.873, held=60 * GIB, power_watts=512.0, **allocated(allocation("4711"))),
                card(
                    "GPU-2",
                    index=1,
                    busy=0.9 if long_ago else 0.0,
                    processes=crowd,
                    memory_used_bytes=45 * GIB,
                    **allocated(
                        allocation("lab/train-0", Relation.BOTH, **POD),
                        *(
                            allocation(f"48{n}", Relation.CO_OWNERS, owner=f"user{n}", job_name="shard")
                            for n in range(4)
                        ),
                    ),
                ),
                card("GPU-3", index=2, **allocated(allocation("4712", Relation.NOBODY))),
                card(
                    "GPU-4",
                    index=3,
                    busy=None,
                    memory_used_bytes=GIB,
                    process_list=ProcessList.PID_NAMESPACE,
                    allocation=AllocationStatus.UNKNOWN,
                ),
                card("GPU-5", index=4, mig=Mig.PARENT),
                card(
                    "MIG-1",
                    index=4,
                    mig=Mig.INSTANCE,
                    parent="GPU-5",
                    name="NVIDIA H100 80GB HBM3 MIG 3g.40gb",
                    memory_limit_bytes=40 * GIB,
                    memory_used_bytes=12 * MIB,
                    **allocated(),
                    processes=(
                        process(6001, None, owner=None, comm=None),
                        process(700, 4 * MIB, owner="root", comm="Xorg", type=ProcessType.IGNORED),
                    ),
                ),
                agent=AgentReading(started_ms=START_MS, tick_duration_seconds=0.0614, errors=errors),
                sources={"files": None, "slurm": None if long_ago else "squeue gives no answer within 3 s"},
            ),
            lateness_ms=4,
        )
    board.skipped("missed", 2)
    board.skipped("driver")
    board.failed("endpoint", "cannot reach https://otel.example:4318 (Connection refused): start it")
    board.note("aside", "the spool was damaged and is kept as /var/lib/gua/spool.db.corrupt-20260325T000000Z")
    clock.advance(12_000)
    return board


def status_of(board: Board) -> dict[str, Any]:
    return json.loads(json.dumps(board.status()))


@pytest.fixture(scope="module")
def status() -> dict[str, Any]:
    return status_of(lab())


@pytest.mark.parametrize("width", [60, 100, 140])
def test_text_of_every_width_is_the_golden_one(status: dict[str, Any], golden: Golden, width: int) -> None:
    golden(f"status-{width}.txt" if width != 100 else "status.txt", render_status(status, Style(width=width)))


def test_plain_text_is_the_golden_one(status: dict[str, Any], golden: Golden) -> None:
    text = render_status(status, Style(width=100, unicode=False))
    assert text.isascii()
    golden("status-ascii.txt", text)


@pytest.mark.parametrize("width", range(60, 141))
def test_no_line_is_wider_than_the_requested_width(status: dict[str, Any], width: int) -> None:
    lines = render_status(status, Style(width=width)).splitlines()
    assert [line for line in lines if cells(line) > width] == []


def test_one_tick_is_written_in_the_singular(status: dict[str, Any]) -> None:
    waiting = {**status["destinations"][0], "waiting_ticks": 1}
    spool = {**status["spool"], "ticks": 1, "in_memory_ticks": 1}
    text = render_status({**status, "spool": spool, "destinations": [waiting]}, Style(width=140))
    assert "  spool        1 tick, " in text
    assert "; 1 tick waits in memory, as the disk does not take more" in text
    assert ": 1 tick waits" in text
    assert "1 ticks" not in text


def test_a_status_without_sources_shows_that_and_an_older_agents_shows_no_allocation(status: dict[str, Any]) -> None:
    text = render_status({**status, "allocation_sources": []}, Style(width=100))
    assert "  allocation   not looked at\n" in text
    older = {name: value for name, value in status.items() if name != "allocation_sources"}
    older["cards"] = [
        {name: value for name, value in one.items() if not name.startswith("allocation")} for one in status["cards"]
    ]
    assert "allocation" not in render_status(older, Style(width=100))


def test_an_active_card_without_a_process_says_how_long(status: dict[str, Any]) -> None:
    one = {
        **status["cards"][0],
        "state": "active",
        "holders": [],
        "holders_total": 0,
        "without_process_seconds": 39_900.0,
    }
    assert "no process for 11h 5m" in render_status({**status, "cards": [one]}, Style(width=140))
    known = {**one, "without_process_seconds": None}
    assert "no process" not in render_status({**status, "cards": [known]}, Style(width=140))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "allocated to ana (slurm 4712, train) 8h 20m ago, empty for 8h 20m"),
        ({"use_is_lower_bound": True}, "allocated to ana (slurm 4712, train) 8h 20m ago, empty for ≥8h 20m"),
        ({"use": "used-by-others", "use_seconds": 61}, "8h 20m ago, used by others for 1m 1s"),
        ({"use": "unknown"}, "8h 20m ago, use unknown"),
        ({"use": None}, "8h 20m ago, use unknown"),
        ({"use_seconds": None}, "8h 20m ago, empty"),
        ({"allocated_seconds": None}, "allocated to ana (slurm 4712, train) - ago, empty"),
        ({"owner": None}, "allocated to 1000 (slurm 4712, train)"),
        ({"owner": None, "uid": None}, "allocated to ? (slurm 4712, train)"),
        ({"owner": None, "uid": 0}, "allocated to 0 (slurm 4712, train)"),
        ({"job_name": None}, "allocated to ana (slurm 4712) 8h"),
        ({"workload_model": "org/qwen"}, "allocated to ana (slurm 4712, train, for org/qwen) 8h"),
        ({"workload_model": "\x1b[2J"}, "allocated to ana (slurm 4712, train, for [2J) 8h"),
        ({"workload_model": 7}, "allocated to ana (slurm 4712, train) 8h"),
        ({"owner": None, "pod_name": "a", "id": "a"}, "allocated to a (slurm, train)"),
    ],
)
def test_an_allocation_in_words(status: dict[str, Any], change: dict[str, object], text: str) -> None:
    one = status["cards"][2]
    changed = {**one, "allocations": [{**one["allocations"][0], **change}]}
    assert text in render_status({**status, "cards": [changed]}, Style(width=100))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "free for 2m, before that allocated to ana"),
        ({"free_is_lower_bound": True, "free_after": None}, "free for ≥2m"),
        ({"free_seconds": None}, ""),
        ({"free_seconds": 18_060.0}, ""),
        ({"state_seconds": None}, ""),
        ({"free_after": {"owner": "\x1b[2J"}}, "free for 2m, before that allocated to [2J"),
        ({"free_after": "ana"}, "free for 2m"),
    ],
)
def test_a_card_that_is_idle_for_longer_than_it_is_free(change: dict[str, object], text: str) -> None:
    free = {"state": "truly-idle", "state_seconds": 18_060.0, "free_seconds": 120.0, "free_is_lower_bound": False}
    one = {**free, "allocation": "unallocated", "free_after": {"owner": "ana"}, **change}
    assert allocation_in_words(one, Style(unicode=True), 80) == text


def test_a_process_that_serves_a_model_says_which(status: dict[str, Any]) -> None:
    one = status["cards"][0]
    (holder, *_) = one["holders"]
    for model, text in (("org/qwen", ", serves org/qwen"), ("\x1b[2J", ", serves [2J"), (7, "GiB"), (None, "GiB")):
        changed = {**one, "holders": [{**holder, "workload_model": model}], "holders_total": 1}
        shown = render_status({**status, "cards": [changed]}, Style(width=200))
        assert text in shown
        assert ("serves" in shown) is isinstance(model, str)
    on = {**status, "agent": {**status["agent"], "detects_models": True}}
    assert "(--detect-models)" in render_status(on, Style(width=200))
    assert "(--detect-models)" not in render_status(status, Style(width=200))


def test_enabled_activity_is_shown_with_its_number_of_cards(status: dict[str, Any]) -> None:
    assert "(--activity)" not in render_status(status, Style(width=200))
    on = {**status, "agent": {**status["agent"], "activity": "gpm"}}
    for cards, text in (
        (7, "; 7 cards in the last tick"),
        (1, "; 1 card in the last tick"),
        (None, "; - in the last tick"),
        ("7", "; - in the last tick"),
    ):
        shown = render_status({**on, "last_tick": {**status["last_tick"], "activity_cards": cards}}, Style(width=200))
        assert f"read by gpm (--activity){text}" in shown
    assert "read by gpm (--activity)\n" in render_status({**on, "last_tick": None}, Style(width=200))


def test_cards_alike_stand_in_one_line_only_where_they_are_allocated_alike(status: dict[str, Any]) -> None:
    one = {**status["cards"][2], "index": 3}
    other = {**one, "index": 4, "allocations": [{**one["allocations"][0], "owner": "bob"}]}
    alike = render_status({**status, "cards": [status["cards"][2], one]}, Style())
    assert "2-3  H100" in alike
    assert alike.count("allocated to ana") == 1
    assert "allocated to bob" in render_status({**status, "cards": [one, other]}, Style())


def test_a_store_elsewhere_is_named_by_its_address_alone(status: dict[str, Any]) -> None:
    where = "chdb:///srv/gua/store"
    elsewhere = {**status["destinations"][0], "name": f"store {where}", "where": where}
    text = render_status({**status, "destinations": [elsewhere]}, Style(width=100))
    assert f"  store        {where}: " in text


def poisoned(value: object) -> object:
    """Return a status in which every text is hostile."""
    if isinstance(value, dict):
        return {key: poisoned(one) for key, one in value.items()}
    if isinstance(value, list):
        return [poisoned(one) for one in value]
    return HOSTILE if isinstance(value, str) else value


@pytest.mark.parametrize("unicode", [True, False])
def test_hostile_names_reach_no_terminal(status: dict[str, Any], *, unicode: bool) -> None:
    hostile = poisoned(status)
    assert isinstance(hostile, dict)
    hostile["ticks"]["skipped"] = {HOSTILE: 1}
    text = render_status(hostile, Style(width=80, unicode=unicode))
    assert {character for character in text if ord(character) < 32} == {"\n"}
    assert "\u202e" not in text
    assert [line for line in text.splitlines() if cells(line) > 80] == []


def replaced(value: object, by: object) -> object:
    """Return a status in which every leaf is something else."""
    if isinstance(value, dict):
        return {key: replaced(one, by) for key, one in value.items()}
    if isinstance(value, list):
        return [replaced(one, by) for one in value]
    return by


@pytest.mark.parametrize("by", [None, True, -1, 1e300, 10**400, "text", [], {}, [[]], {"a": 1}])
def test_whatever_an_agent_answers_is_drawn(status: dict[str, Any], by: object) -> None:
    for strange in (replaced(status, by), dict.fromkeys(status, by)):
        assert isinstance(strange, dict)
        text = render_status(strange, Style(width=80))
        assert [line for line in text.splitlines() if cells(line) > 80] == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0ms"),
        (0.0044, "4ms"),
        (1, "1s"),
        (59.9, "59s"),
        (60, "1m"),
        (90, "1m 30s"),
        (3600, "1h"),
        (11_520, "3h 12m"),
        (86_400 * 2 + 4 * 3600 + 1, "2d 4h"),
    ],
)
def test_a_span_is_short_and_never_longer_than_it_was(seconds: float | None, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("text", "threshold"),
    [
        ("1024", {"held_memory_bytes": GIB}),
        ("1024MiB", {"held_memory_bytes": GIB}),
        ("1024 m", {"held_memory_bytes": GIB}),
        ("1GiB", {"held_memory_bytes": GIB}),
        ("1.5GB", {"held_memory_bytes": 1_500_000_000}),
        ("0", {"held_memory_bytes": 0}),
        ("500 mb", {"held_memory_bytes": 500_000_000}),
        ("4096B", {"held_memory_bytes": 4096}),
        ("5%", {"held_memory_ratio": 0.05}),
        ("0.5 %", {"held_memory_ratio": 0.005}),
        ("100%", {"held_memory_ratio": 1.0}),
    ],
)
def test_a_threshold_is_a_size_or_a_part(text: str, threshold: dict[str, float]) -> None:
    assert parse_threshold(text) == threshold


@pytest.mark.parametrize("text", ["", "x", "-1", "1TB", "1e9", "101%", "nan", "104857600", "1 2", "%", "9" * 400 + "%"])
def test_what_is_no_threshold_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="memory-threshold"):
        parse_threshold(text)


def test_a_threshold_judges_every_card_again(status: dict[str, Any]) -> None:
    judged = with_threshold(status, {"held_memory_bytes": 46 * GIB})
    assert [one["state"] for one in status["cards"]][:3] == ["active", "idle-held", "truly-idle"]
    assert [one["state"] for one in judged["cards"]][:3] == ["active", "truly-idle", "truly-idle"]
    assert [one["state_seconds"] for one in judged["cards"]][:3] == [30_000, None, 30_000]
    assert judged["rules"]["held_memory_bytes"] == 46 * GIB


def test_a_part_of_a_card_of_unknown_size_leaves_the_agents_threshold() -> None:
    board = lab()
    board.ticked(tick(START_MS, card("GPU-9", index=9, memory_limit_bytes=None, held=90 * MIB)), lateness_ms=0)
    judged = with_threshold(status_of(board), {"held_memory_ratio": 0.05})["cards"]
    by_uuid = {one["uuid"]: one["threshold_bytes"] for one in judged}
    assert by_uuid["GPU-9"] == 100 * MIB
    assert by_uuid["GPU-1"] == 4 * GIB


class Ran:
    """What a command printed, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def gua(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Ran]:
    """Return ``gua status`` with a home of its own and none of this host's agents."""
    for name in [name for name in os.environ if name.startswith("GUA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GUA_HOME", str(tmp_path))
    monkeypatch.setenv("GUA_HOST_LOCK", f"test-{os.getpid()}-{tmp_path.name}")
    monkeypatch.setenv("GUA_RUN_DIR", str(tmp_path / "run"))

    def run(*arguments: str) -> Ran:
        code = main(["status", *arguments])
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run


@contextlib.contextmanager
def answering(path: Path, board: Board) -> Iterator[None]:
    server = LocalServer(listen=[Listen(path=path)], status=board.status, answer=None)
    server.start()
    try:
        yield
    finally:
        server.close()


def test_an_agent_that_runs_ends_it_with_0(gua: Callable[..., Ran], tmp_path: Path) -> None:
    with answering(tmp_path / "agent.sock", lab()):
        ran = gua()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("The agent of gpu-1 runs since 2026-03-25 00:00:00 UTC")


def test_times_are_in_the_hosts_zone_and_an_invalid_time_is_shown_as_is(
    status: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        assert "runs since 2026-03-25 01:00:00 CET (" in render_status(status, Style())
    finally:
        monkeypatch.undo()
        time.tzset()
    hostile = {**status, "agent": {**status["agent"], "started": "once\x1b[2J"}}
    assert "runs since once[2J (" in render_status(hostile, Style())


def test_json_is_the_status_object(gua: Callable[..., Ran], tmp_path: Path) -> None:
    board = lab()
    with answering(tmp_path / "agent.sock", board):
        ran = gua("--json")
    assert json.loads(ran.out) == status_of(board)
    assert ran.out.isascii()


def test_a_threshold_shows_in_json_too(gua: Callable[..., Ran], tmp_path: Path) -> None:
    with answering(tmp_path / "agent.sock", lab()):
        reported = json.loads(gua("--json", "--memory-threshold", "46GiB").out)
    assert reported["cards"][1]["state"] == "truly-idle"


def test_the_host_wide_agent_is_queried_if_this_user_has_none(gua: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with answering(tmp_path / "run" / "agent.sock", lab()):
        assert gua().code == 0
        with bound(tmp_path / "agent.sock"):  # of this user's agent, which was killed
            pass
        assert gua().code == 0


def test_a_stalled_agent_is_shown_in_capitals_and_exits_with_1(gua: Callable[..., Ran], tmp_path: Path) -> None:
    clock = FakeClock(wall_ms=START_MS)
    board = lab(clock)
    clock.advance(2 * INTERVAL_MS)
    with answering(tmp_path / "agent.sock", board):
        ran = gua()
        assert gua("--json").code == 1
    assert ran.code == 1
    assert "STALLED" in ran.out


def test_no_agent_ends_it_with_3_and_says_what_to_do(gua: Callable[..., Ran], tmp_path: Path) -> None:
    ran = gua()
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("gua: no agent runs here: ")
    assert "start one with gua daemon" in ran.err
    assert len(ran.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_no_agent_as_json(gua: Callable[..., Ran]) -> None:
    ran = gua("--json")
    reported = json.loads(ran.out)
    assert ran.code == 3
    assert (reported["schema"], reported["running"]) == ("gua.status/1", False)
    assert reported["problem"].startswith("no agent runs here")


def test_a_home_that_is_not_there_is_not_made(gua: Callable[..., Ran], tmp_path: Path) -> None:
    assert gua("--state-dir", str(tmp_path / "none")).code == 3
    assert not (tmp_path / "none").exists()


def test_an_agent_that_does_not_answer_ends_it_with_4(
    gua: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert query_status.__kwdefaults__ is not None
    monkeypatch.setitem(query_status.__kwdefaults__, "timeout_seconds", 0.5)  # it waits so long
    with listening(tmp_path / "agent.sock"):
        began = time.monotonic()
        ran = gua()
        reported = json.loads(gua("--json").out)
    assert (ran.code, ran.out, reported["running"]) == (4, "", None)
    assert "does not answer in time" in ran.err
    assert time.monotonic() - began < 30


def test_an_agent_without_its_socket_is_distinguished_from_no_agent(gua: Callable[..., Ran], tmp_path: Path) -> None:
    own = ProcFs()
    stat = own.stat(os.getpid())
    assert stat is not None
    pid_file = PidFile(tmp_path / "agent.pid")
    pid_file.acquire(
        AgentRecord(
            pid=os.getpid(),
            start_ticks=stat.start_ticks,
            boot_id=own.boot_id(),
            started_ms=START_MS,
            version="0.1.0",
        )
    )
    try:
        ran = gua()
    finally:
        pid_file.release()
    assert ran.code == 4
    assert f"(pid {os.getpid()}) runs and does not listen" in ran.err


def twice(*arguments: str) -> tuple[Ran, Ran]:
    """Return ``gua status`` as this user and as another ran it; in this order, as that one may not read this Python."""

    def run() -> tuple[int, str, str]:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            code = main(["status", *arguments])
        return code, out.getvalue(), err.getvalue()

    return Ran(*run()), Ran(*as_user(other_uid(), run))


def test_a_refused_query_exits_with_4(gua: Callable[..., Ran]) -> None:
    with shared_folder() as folder, answering(folder / "agent.sock", lab()):
        if other_uid() == os.geteuid():
            (folder / "agent.sock").chmod(0)
        _, ran = twice("--socket", str(folder / "agent.sock"))
    assert (ran.code, ran.out) == (4, "")
    assert "its own user and root" in ran.err
    assert gua is not None


@pytest.mark.parametrize("answer", [b'{"running":true}\n', b'{"running":true,"cards":[1],"rules":[]}\n'])
def test_an_answer_of_another_shape_is_no_traceback(gua: Callable[..., Ran], tmp_path: Path, answer: bytes) -> None:
    with listening(tmp_path / "agent.sock") as strange:

        def serve() -> None:
            with contextlib.suppress(OSError):
                for _ in range(2):
                    connection, _ = strange.accept()
                    with connection:
                        connection.recv(4096)
                        connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        assert gua().code == 0
        ran = gua("--memory-threshold", "1GiB")
    assert (ran.code, len(ran.err.splitlines())) == (4, 1)


@pytest.mark.parametrize(
    "arguments", [("--width", "59"), ("--memory-threshold", "much"), ("--nonsense",), ("--width", "x")]
)
def test_wrong_usage_is_one_line(gua: Callable[..., Ran], arguments: tuple[str, ...]) -> None:
    ran = gua(*arguments)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)


def test_another_user_sees_the_agent_of_the_host(gua: Callable[..., Ran]) -> None:
    with shared_folder() as folder:
        path = folder / "agent.sock"
        server = LocalServer(listen=[Listen(path=path, mode=PUBLIC_MODE)], status=lab().status, answer=None)
        server.start()
        own, others = twice("--socket", str(path), "--width", "80")
        server.close()
    assert (others.code, others.err) == (0, "")
    assert others.out == own.out
    assert "H100 80GB HBM3" in others.out
    assert gua is not None


def test_it_loads_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys; from gua.cli.main import main; code = main(['status']);"
        "print(code, sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    environ = {**os.environ, "GUA_HOME": str(tmp_path), "GUA_HOST_LOCK": f"test-{tmp_path.name}", "GUA_SOCKET": "/x/y"}
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environ, timeout=60
    )
    loaded = ran.stdout
    for heavy in ("opentelemetry", "pynvml", "chdb", "clickhouse_connect", "grpc", "requests", "rich", "sqlite3"):
        assert f"'{heavy}'" not in loaded


def test_whole_cards_of_which_all_is_the_same_share_a_line(status: dict[str, Any]) -> None:
    (free,) = [card for card in status["cards"] if card["uuid"] == "GPU-3"]
    more = [{**free, "uuid": f"GPU-{index}", "index": index} for index in (5, 6, 9)]
    other = {**free, "uuid": "GPU-7", "index": 7, "memory_used_bytes": GIB}
    slices = [{**free, "uuid": f"MIG-{place}", "index": 8, "mig": Mig.INSTANCE} for place in range(2)]
    text = render_status({**status, "cards": [free, *more, other, *slices]}, Style(width=100))
    shown = [line.split()[0] for line in text.splitlines() if "truly-idle" in line]
    assert shown == ["2,5-6,9", "7", "8", "8"]


def test_a_card_shows_its_reservations_owner_command_and_end(status: dict[str, Any]) -> None:
    now_ms = time.time_ns() // 1_000_000
    free = next(one for one in status["cards"] if not one["allocations"])
    gpu = free["uuid"]
    reserved = {"id": "c0ffee", "owner": "bo", "uid": 7, "cards": [gpu], "since_ms": now_ms - 90_000}
    until_ms = now_ms + 3_600_000
    for kind, until, words in (
        ("run", None, r"allocated to bo \(gua run\) 1m [345]\ds ago, newer than the last tick"),
        ("manual", until_ms, r"allocated to bo \(gua reserve, until "),
    ):
        reported = {**status, "reservations": [{**reserved, "kind": kind, "until_ms": until}]}
        assert re.search(words, render_status(reported, Style(width=160)))
    ours = {"source": "gua", "id": "c0ffee", "owner": "bo", "kind": "run", "use": "empty", "use_seconds": 60}
    card_ = {**free, "allocation": "allocated", "allocations": [ours], "allocations_total": 1}
    known = {**status, "cards": [card_], "reservations": [{**reserved, "kind": "run", "until_ms": None}]}
    assert "allocated to bo (gua run) - ago, empty for 1m" in render_status(known, Style(width=160))
    # Who has a GPU that was partitioned since has its instances.
    part = {**known, "cards": [{**card_, "uuid": "MIG-1", "mig": Mig.INSTANCE, "parent": gpu}]}
    assert "allocated to bo (gua run) - ago, empty for 1m" in render_status(part, Style(width=160))
    assert "allocated to bo" not in render_status({**known, "reservations": []}, Style(width=160))


@pytest.mark.parametrize("value", [None, 7, "x", [None], [{"cards": 7}], [{"cards": [None], "since_ms": "x"}]])
def test_strange_reservations_are_shown_as_unknown(status: dict[str, Any], value: object) -> None:
    assert "The agent of" in render_status({**status, "reservations": value}, Style(width=80))
    gpu = status["cards"][0]["uuid"]
    strange = [{"cards": [gpu], "owner": HOSTILE, "since_ms": value, "until_ms": 10**30, "kind": value, "id": value}]
    text = render_status({**status, "reservations": strange}, Style(width=80))
    assert not set(text) & {"\x1b", "\u202e", "\x07"}


def test_cards_that_need_recovery_are_named_with_the_command_and_how_long_the_driver_has_said_so() -> None:
    status = {
        "cards": [
            {"index": 0, "uuid": "GPU-0", "recovery_action": 0, "recovery_seconds": None},
            {"index": 1, "uuid": "GPU-1", "recovery_action": None},
            {
                "index": 2,
                "uuid": "GPU-2",
                "recovery_action": 1,
                "recovery_seconds": 7200,
                "recovery_is_lower_bound": True,
            },
            {"index": HOSTILE, "uuid": HOSTILE, "recovery_action": 9, "recovery_seconds": HOSTILE},
            {"index": 4, "uuid": "GPU-4", "recovery_action": HOSTILE},
        ]
    }
    text = render_status(status, Style(width=200))
    assert [line for line in text.splitlines() if line.startswith("!")] == [
        "! GPU 2 needs a reset, reported for ≥2h: end its processes, then nvidia-smi --gpu-reset -i 2.",
        "! GPU - needs attention (recovery action code 9), reported for -: look at nvidia-smi -q and at dmesg.",
    ]


def test_of_many_cards_that_need_recovery_five_are_named_and_the_others_counted() -> None:
    cards = [{"index": n, "recovery_action": 2, "recovery_seconds": 60} for n in range(8)]
    shown = [line for line in render_status({"cards": cards}, Style(width=200)).splitlines() if line.startswith("!")]
    assert shown[0] == "! GPU 0 needs a reboot, reported for 1m: reboot the host."
    assert shown[-1] == "! And 3 more cards that need recovery (--json has all)."
    assert len(shown) == 6
