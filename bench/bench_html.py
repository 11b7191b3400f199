"""A report as a web page: seconds to draw and bytes, of months of many cards made by hand. Run: make bench."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fakes.reports import fleet_report, week_report
from gua.report.forms.html import render_html


def main() -> None:
    reports = {
        "5 cards x 7 days": week_report(),
        "64 cards x 30 days": fleet_report(),
        "64 cards x 30 days, cells of 10 minutes": fleet_report(cell_minutes=10),
        "512 cards x 30 days": fleet_report(hosts=64),
    }
    for label, report in reports.items():
        times = []
        for _ in range(3):
            begun = time.perf_counter()
            page = render_html(report)
            times.append(time.perf_counter() - begun)
        print(f"{label}: {min(times):.2f} s (limit 1), {len(page.encode()) / 1e6:.2f} MB (limit 3)")


if __name__ == "__main__":
    main()
