"""Reading of samples: raw ones by instant queries of range selectors, or means and counts of steps."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from gua.core.errors import DataError, UnavailableError
from gua.core.moments import format_duration, to_rfc3339
from gua.imports.prometheus.cards import Labels
from gua.imports.prometheus.client import MOST_AT_ONCE, Client, TooMuchError

MOST_POINTS: Final = 11_000
"""Largest number of steps that Prometheus evaluates in one range query."""
_LEAST_MS: Final = 60_000


class Samples(NamedTuple):
    """Samples of one series: times [Unix ms] in ascending order, and values as Prometheus writes them."""

    labels: Labels
    times: list[int]
    values: list[str]


class SampleReader:
    """Reads samples after one time, up to another [Unix ms]; halves the time of a query that is too much."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._pool = ThreadPoolExecutor(max_workers=MOST_AT_ONCE, thread_name_prefix="prometheus")
        self._most_ms: dict[str, int] = {}
        self.keeps_left_edge = True

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def every(self, reads: Sequence[Callable[[], list[Samples]]]) -> list[list[Samples]]:
        """Return the results of all reads, which run at the same time as far as the server's limit allows."""
        waiting = [self._pool.submit(read) for read in reads]
        try:
            return [one.result() for one in waiting]
        finally:
            for one in waiting:
                one.cancel()

    def find_edge(self, metric: str, series: Samples) -> None:
        """Find out whether a range includes a sample at its left edge: Prometheus 2 does, Prometheus 3 does not.

        By the newest sample of one series: after it only others have samples.
        """
        labels = {name: value for name, value in series.labels.items() if name != "__name__"}
        counted = self.client.query(f"count_over_time({metric}[1s])", series.times[-1] + 1000)
        self.keeps_left_edge = any(one["metric"] == labels for one in counted)

    def raw(self, selector: str, since_ms: int, until_ms: int) -> list[Samples]:
        """Return the raw samples of a selector's series."""

        def read(start_ms: int, end_ms: int) -> list[dict[str, Any]]:
            return self.client.query(f"{selector}[{end_ms - start_ms}ms]", end_ms)

        return self._halving(selector, since_ms, until_ms, _LEAST_MS, read)

    def newest(self, selector: str, since_ms: int, until_ms: int) -> list[Samples]:
        """Return the newest sample of each of a selector's series, after older ones where one query was too much."""

        def read(start_ms: int, end_ms: int) -> list[dict[str, Any]]:
            return self.client.query(f"last_over_time({selector}[{end_ms - start_ms}ms])", end_ms)

        return self._halving(f"last_over_time {selector}", since_ms, until_ms, _LEAST_MS, read)

    def steps(self, function: str, selector: str, since_ms: int, until_ms: int, step_ms: int) -> list[Samples]:
        """Return ``function`` (as in ``avg_over_time``) of each step; a step's time is its end.

        A step has the samples after its start, up to its end.
        """
        # Where the left edge belongs to the range, a range shorter by 1 ms leaves out the step before's last sample.
        range_ms = step_ms - 1 if self.keeps_left_edge else step_ms
        expression = f"{function}({selector}[{range_ms}ms])"

        def read(start_ms: int, end_ms: int) -> list[dict[str, Any]]:
            return self.client.query_range(expression, start_ms + step_ms, end_ms, step_ms)

        return self._halving(f"{function} {selector}", since_ms, until_ms, step_ms, read)

    def _halving(
        self, name: str, since_ms: int, until_ms: int, least_ms: int, read: Callable[[int, int], list[dict[str, Any]]]
    ) -> list[Samples]:
        merged: dict[tuple[tuple[str, str], ...], Samples] = {}
        start_ms = since_ms
        while start_ms < until_ms:
            end_ms = min(start_ms + self._most_ms.get(name, until_ms), until_ms)
            try:
                series = read(start_ms, end_ms)
            except TooMuchError as error:
                half_ms = (end_ms - start_ms) // 2 // least_ms * least_ms
                if half_ms < least_ms:
                    raise UnavailableError(
                        f"{self.client.url} cannot answer {format_duration(end_ms - start_ms)} of {name} at "
                        f"{to_rfc3339(end_ms)} ({error}): raise its limits, or use a coarser --resolution"
                    ) from None
                self._most_ms[name] = half_ms
                continue
            times_of = _Times()
            for one in series:
                try:
                    samples = _samples(one, (start_ms, end_ms), times_of)
                except (TypeError, ValueError, OverflowError):
                    raise DataError(f"{self.client.url} answered {name} with samples of another shape") from None
                if samples is not None:
                    key = tuple(sorted(samples.labels.items()))
                    before = merged.get(key)
                    if before is not None:
                        samples = Samples(before.labels, before.times + samples.times, before.values + samples.values)
                    merged[key] = samples
            start_ms = end_ms
        return list(merged.values())


class _Times:
    """Converts times of samples to Unix ms; series that were scraped together have one list of times."""

    def __init__(self) -> None:
        self._known: dict[tuple[float, float, int], tuple[tuple[float, ...], list[int]]] = {}

    def unix_ms(self, seconds: tuple[float, ...]) -> list[int]:
        """Return the times in ms. Callers must not change the list."""
        key = seconds[0], seconds[-1], len(seconds)
        known = self._known.get(key)
        if known is None or known[0] != seconds:
            times = [round(at * 1000) for at in seconds]
            if times != sorted(times):
                raise ValueError
            known = self._known[key] = seconds, times
        return known[1]


def _samples(one: dict[str, Any], window: tuple[int, int], times_of: _Times) -> Samples | None:
    """Return the samples of a series in an answer that are after the window's start, ``None`` without any.

    Prometheus 2 also returns a sample at that time. Raises ValueError, TypeError, OverflowError for an answer of
    another shape: values that are no numbers, times that do not ascend or are later than the window [Unix ms].
    """
    start_ms, end_ms = window
    points = one.get("values") or ([one["value"]] if "value" in one else [])
    if not points:
        return None
    seconds, values = zip(*points, strict=True)
    times, texts = times_of.unix_ms(seconds), list(values)
    for text in set(texts):
        float(text)
    if times[-1] > end_ms:
        raise ValueError
    if times[0] <= start_ms:
        skipped = bisect_right(times, start_ms)
        times, texts = times[skipped:], texts[skipped:]
    return Samples(one["metric"], times, texts) if times else None
