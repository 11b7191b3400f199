"""Write docs/metrics.md from the metric catalogue, or with --check say whether it is current.

Run: .venv/bin/python docs/generate_metrics.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gua.core.metrics import (
    ALLOCATION_ATTRIBUTES,
    CATALOGUE,
    PROCESS_ATTRIBUTES,
    SCOPE,
    Metric,
    MetricKind,
    Subject,
)

PAGE = Path(__file__).parent / "metrics.md"
TABLES = {
    Subject.CARD: "gua.card_ticks",
    Subject.PROCESS: "gua.process_ticks",
    Subject.ALLOCATION: "gua.allocation_ticks",
    Subject.SOURCE: "gua.allocation_source_ticks",
}
BASE = {
    Subject.CARD: ("hw.id",),
    Subject.PROCESS: PROCESS_ATTRIBUTES,
    Subject.ALLOCATION: ALLOCATION_ATTRIBUTES,
    Subject.SOURCE: ("gua.allocation.source",),
    Subject.AGENT: (),
}
HEADINGS = {
    Subject.CARD: "Cards",
    Subject.PROCESS: "Processes on cards",
    Subject.ALLOCATION: "Allocations of cards",
    Subject.SOURCE: "Sources of allocations",
    Subject.AGENT: "The agent",
}
INTRODUCTION = f"""<!-- Written by docs/generate_metrics.py from src/gua/core/metrics.py: edit that. -->

# Metrics

For people who store or alert on gua's metrics. gua sends them over OTLP, scope `{SCOPE}`; the
[page for Prometheus](prometheus.md) has most of them:

```sh
curl http://127.0.0.1:9835/metrics   # of gua daemon --prometheus
```

One tick is one `ExportMetricsServiceRequest`, and its points have the time of the tick. An unknown value has no point;
zero is a value. A *delta sum* is the amount of one tick, between the point's start and time. *Cumulative sums* are
totals, *up-down sums* are current amounts. `stored in` names columns of database `gua`: the column holds
round(value x scale).

Prometheus' own OTLP endpoint refuses delta sums: put the Collector's `deltatocumulative` processor before it.

Resource attributes: `service.name` (`gua` unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES say otherwise),
`service.version`, `service.instance.id`, `host.name`, `host.id`, `gua.sample.interval` (seconds), `gua.source`
(`agent`, `import`, `program` or `simulator`), `k8s.*` in Kubernetes, and those of OTEL_RESOURCE_ATTRIBUTES.
"""
KINDS = {
    MetricKind.GAUGE: "gauge",
    MetricKind.DELTA: "delta sum",
    MetricKind.COUNTER: "cumulative sum",
    MetricKind.AMOUNT: "up-down sum",
}


def main() -> None:
    """Write the page, or exit with 1 and a line saying that it is not current."""
    parser = argparse.ArgumentParser(description="Write docs/metrics.md from the metric catalogue.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the page is not current")
    if not parser.parse_args().check:
        PAGE.write_text(render(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != render():
        sys.exit("docs/metrics.md is not current: run .venv/bin/python docs/generate_metrics.py")


def render() -> str:
    """Return the whole page."""
    return INTRODUCTION + "".join(_section(subject) for subject in Subject)


def _section(subject: Subject) -> str:
    metrics = [metric for metric in CATALOGUE if metric.subject is subject]
    common = ", ".join(f"`{name}`" for name in BASE[subject])
    lines = [
        f"\n## {HEADINGS[subject]}\n",
        f"Attributes of every point: {common}.\n" if common else "",
        "| metric | kind, unit | meaning | further attributes | stored in |",
        "|---|---|---|---|---|",
        *(_row(metric) for metric in metrics),
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _row(metric: Metric) -> str:
    attributes = ", ".join(f"`{name}`" for name in metric.attributes)
    scales = {column.scale for column in metric.columns}
    columns = ", ".join(f"`{TABLES[metric.subject]}.{column.name}`" for column in metric.columns)
    stored = columns + "".join(f" x {scale:,}" for scale in scales if scale != 1)
    kind = f"{KINDS[metric.kind]}, `{metric.unit}`"
    return f"| `{metric.name}` | {kind} | {metric.description} | {attributes} | {stored} |"


if __name__ == "__main__":
    main()
