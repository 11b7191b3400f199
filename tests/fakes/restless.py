"""A host on which everything happens that is hard to add up, soon and often, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from fakes.attribution import attribute
from gua.core.tick import CardReading, Origin, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, ProcessType, Source

INTERVAL_MS: Final = 30_000
MODE_MS: Final = 80 * 60_000
_MIB: Final = 2**20
_GIB: Final = 2**30
_INSTANCE: Final = 3
_SLICES: Final = 7
_FREE: Final = 4  # the card that is seldom held
_NAMES: Final = ("ana", "bo", "chen", None)
_PROGRAMS: Final = ("python", "ray::IDLE", "serve", None)


@dataclass(frozen=True, kw_only=True)
class _Life:
    """A process as it is between two changes of mind."""

    reading: ProcessReading
    habit: str


def restless(host: str, *, seed: int, ticks: int, end_ms: int, resets: bool = True) -> Iterator[Tick]:
    """Yield ``ticks`` ticks, the last at ``end_ms``, of two whole cards and one that is partitioned by turns.

    While it is, it has an instance. A host with an odd seed has one card more, which is mostly free.

    Ticks come late, cover less than the time since the last one, and stay away for one interval up to ten. Processes
    come, go, are missing for a tick, are on two cards, idle, are unknown, and call themselves by what they do; their
    owners become known late. Cards need a reset and, with ``resets``, show utilization without a process. Cards are
    lost, lists fail, utilization cannot be read, the energy counter starts again.
    """
    rng = Random(f"restless {seed}")  # noqa: S311 - a simulation, no secret
    origin = Origin(host=host, source=Source.AGENT, interval_ms=INTERVAL_MS)
    cards = [_Card(rng, host, number, resets=resets) for number in range(4 + seed % 2)]
    moments = [end_ms]
    for _ in range(ticks - 1):
        away = rng.choice((0,) * 30 + (0, 0.3, 1, 1.5, 2, 2.1, 3, 10))
        moments.append(moments[-1] - INTERVAL_MS - round(away * INTERVAL_MS) - rng.choice((0, 0, 7, -7)))
    moments.reverse()
    before_ms = moments[0] - 11_111
    for ts_ms in moments:
        passed = ts_ms - before_ms
        duration_ms = passed if passed <= 2 * INTERVAL_MS and rng.random() < 0.9 else min(INTERVAL_MS - 9, passed)
        before_ms = ts_ms
        for card in cards:
            card.live(ts_ms)
        if rng.random() < 0.05 and cards[0].lives:
            cards[1].share(cards[0].lives[0])
        # Slices that no instance has, of 7; now and then two more are somebody's.
        left = (4 - 2 * (ts_ms * 4 // MODE_MS % 2)) if (ts_ms // MODE_MS + seed) % 2 == 0 else _SLICES
        here = [card for card in cards if left < _SLICES or card.number != _INSTANCE]
        yield Tick(ts_ms=ts_ms, origin=origin, cards=tuple(card.read(duration_ms, left) for card in here))


class _Card:
    def __init__(self, rng: Random, host: str, number: int, *, resets: bool) -> None:
        self._rng = rng
        self._activity_rng = Random(f"{host}:{number}:activity")  # noqa: S311 - as below
        self._reset_rng = Random(f"{host}:{number}:reset")  # noqa: S311 - as below
        self._idle_rng = Random(f"{host}:{number}:idle")  # noqa: S311 - a simulation, no secret
        self._host = host
        self.number = number
        self._trouble: str | None = None
        self._is_stuck = False
        self._resets = resets
        self._needs_reset = False
        self.lives: list[_Life] = []

    def share(self, life: _Life) -> None:
        """Let a process of another card be on this one as well."""
        if life.reading.pid not in {one.reading.pid for one in self.lives}:
            self.lives.append(life)

    def live(self, ts_ms: int) -> None:
        """Change what is on the card now and then."""
        rng = self._rng
        self.lives = [
            replace(one, habit=rng.choice(("busy", "idle", "idle", "still", "still", "unknown")))
            if rng.random() < 0.06
            else one
            for one in self.lives
            if rng.random() >= 0.012
        ]
        if rng.random() < (0.03 if self.lives else 0.08) / (10 if self.number == _FREE else 1):
            self.lives.append(self._new(ts_ms))
        if rng.random() < 0.04:
            self.lives = [
                replace(one, reading=replace(one.reading, owner=one.reading.owner or "late")) for one in self.lives
            ]
        if self._resets and self._reset_rng.random() < 0.03:
            self._needs_reset = not self._needs_reset
        if rng.random() < 0.05:
            self._trouble = rng.choice((None, None, None, "lost", "list", "utilization", "memory"))

    def _new(self, ts_ms: int) -> _Life:
        rng = self._rng
        inside = rng.choice(("job", "pod", "container", "unit", "user", "user"))
        owner = rng.choice(_NAMES)
        return _Life(
            reading=ProcessReading(
                pid=rng.randint(1000, 999_999),
                type=rng.choice((ProcessType.COMPUTE, ProcessType.COMPUTE, ProcessType.COMPUTE, ProcessType.IGNORED)),
                created_ms=rng.choice((ts_ms - rng.randint(10, 90_000), ts_ms - 86_400_000, None)),
                owner=owner,
                comm=rng.choice(_PROGRAMS),
                memory_bytes=rng.choice((None, 20 * _MIB, 3 * _GIB, 9 * _GIB + 511)),
                slurm_job_id=str(rng.randint(1, 3)) if inside == "job" else None,
                pod_uid=f"pod-{rng.randint(1, 2)}" if inside in {"job", "pod"} else None,
                container_id=f"box-{rng.randint(1, 2)}" if inside in {"pod", "container"} else None,
                systemd_unit="ollama.service" if inside == "unit" else None,
            ),
            habit=rng.choice(("busy", "idle", "still")),
        )

    def read(self, duration_ms: int, left: int) -> CardReading:
        """Return the card as its agent reads it, on a host whose GPU that can be partitioned has ``left`` slices."""
        rng = self._rng
        processes = []
        for one in self.lives:
            if rng.random() < 0.03:
                continue  # missing for a tick
            use = {
                "busy": rng.choice((0.1, 0.55, 1.0)),
                "idle": rng.choice((0.0, 0.03, 0.0999)),
                "still": 0.0,
                "unknown": None,
            }[one.habit]
            memory = one.reading.memory_bytes if rng.random() < 0.97 else None
            comm = one.reading.comm
            if comm == "ray::IDLE" and use:
                comm = "ray::task"
            processes.append(replace(one.reading, comm=comm, utilization=use, memory_bytes=memory))
        uses = [one.utilization for one in processes if one.utilization is not None]
        if self._needs_reset and not self.lives:
            uses.append(0.93)
        seen = max(len(processes), self._reset_rng.choice((0,) * 30 + (1,)))
        held = sum(one.memory_bytes or 0 for one in processes)
        mig = (Mig.NONE, Mig.NONE, Mig.PARENT if left < _SLICES else Mig.NONE, Mig.INSTANCE, Mig.NONE)[self.number]
        share = {Mig.PARENT: left, Mig.INSTANCE: 3, Mig.NONE: _SLICES}[mig]
        known = self._trouble != "list"
        return attribute(
            CardReading(
                uuid=f"GPU-{self._host}-{self.number}",
                duration_ms=duration_ms,
                gpu_time_ms=duration_ms * share // _SLICES,
                process_list=ProcessList.KNOWN if known else ProcessList.FAILED,
                index=self.number,
                name=f"Card {self.number}",
                model="Fast" if self.number % 2 else "Slow",
                mig=mig,
                parent=f"GPU-{self._host}-2" if mig is Mig.INSTANCE else None,
                utilization=None if self._trouble == "utilization" else max(uses, default=0.0),
                utilization_max=None if rng.random() < 0.3 else max(uses, default=0.0) / 2,
                memory_used_bytes=None if self._trouble == "memory" else held + (rng.random() < 0.02) * _GIB,
                memory_limit_bytes=80 * _GIB * share // _SLICES,
                memory_reserved_bytes=300 * _MIB,
                power_watts=None if rng.random() < 0.03 else 70 + 300 * max(uses, default=0.0),
                energy_mj=None if rng.random() < 0.05 else round(duration_ms * (70 + 300 * max(uses, default=0.0))),
                failed=self._trouble == "lost",
                processes_seen=seen if known and self._reset_rng.random() < 0.97 else None,
                processes=tuple(processes) if known else (),
                **self._idle_time(duration_ms),
                **self._health(),
                **self._activity(max(uses, default=0.0)),
            )
        )

    def _idle_time(self, duration_ms: int) -> dict[str, int]:
        """Return the sampled idle seconds: all, a part, nothing, or more than there can be."""
        rng = self._idle_rng
        sampled_ms = rng.choice((duration_ms, duration_ms - 200, duration_ms // 2, duration_ms + 500, 0))
        idle_ms = rng.choice((0, sampled_ms, rng.randint(0, sampled_ms), sampled_ms + 7))
        powered_ms = rng.choice((0, idle_ms, rng.randint(0, idle_ms), idle_ms + 9))
        fields = {"utilization_coverage_ms": sampled_ms}
        if rng.random() < 0.8:
            fields["idle_time_ms"] = idle_ms
        if rng.random() < 0.8:
            fields |= {"idle_energy_coverage_ms": powered_ms, "idle_energy_mj": rng.randint(0, 200) * powered_ms}
            if powered_ms == idle_ms:
                del fields["idle_energy_coverage_ms"]
        return fields

    def _activity(self, use: float) -> dict[str, float]:
        """Return activity counters: nothing, all or some, for minutes few SMs of a busy card."""
        rng = self._activity_rng
        if rng.random() < 0.04:
            self._is_stuck = not self._is_stuck
        fields: dict[str, float] = {}
        for name in ("sm_utilization", "sm_occupancy", "tensor_utilization", "memory_bandwidth_utilization"):
            if rng.random() < 0.97:
                fields[name] = (
                    rng.choice((0.0, 0.03, 0.0949)) if self._is_stuck else use * rng.choice((0.05, 0.1, 0.7, 1))
                )
        return fields

    def _health(self) -> dict[str, int]:
        """Return why it was slow, as far as that is reported: now and then, and together."""
        rng = self._idle_rng
        fields: dict[str, int] = {}
        if rng.random() < 0.8:
            fields["clock_reasons"] = rng.choice((0, 0, 0x01, 0x04, 0x20, 0x44, 0x08, 0xA8))
        if rng.random() < 0.7:
            fields |= {"xid_errors": rng.choice((0, 0, 0, 3)), "row_remap": rng.choice((0, 0, 1, 2))}
            fields["recovery_action"] = self._reset_rng.choice((0, 0, 0, 1, 4, 9))
            if fields["xid_errors"]:
                fields["xid"] = rng.choice((13, 31, 79))
        if rng.random() < 0.7:
            fields["ecc_errors"] = rng.choice((0, 0, 2))
        return fields
