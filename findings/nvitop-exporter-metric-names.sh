#!/usr/bin/env bash
# nvitop-exporter 1.7.2, 2026-11-28.
# Names of its metrics end with the unit as prometheus_client appends it, in the spelling of the code: percentages are
# "_Percentage", memory is "_MiB" (neither is a base unit), and the info metric process_info becomes process_info_info.
# One guesses gpu_utilization_percent, gpu_memory_used_bytes and process_info. gpu_memory_utilization_Percentage is the
# use of the memory's bandwidth, gpu_memory_percent_Percentage how full the memory is.
# The series of process_info_info have the label "command": the whole command line, with all its options.
# Seen: gpu_memory_used_MiB gpu_utilization_Percentage process_gpu_memory_MiB process_info_info{...,command}
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check nvitop-exporter==1.7.2 prometheus-client==0.26.0
"$folder/venv/bin/python" - <<'PY'
import sys
from pathlib import Path
from unittest import mock

from prometheus_client import CollectorRegistry, generate_latest
from nvitop_exporter import exporter

# Without a GPU: the exporter of no devices registers the same metrics.
registry = CollectorRegistry()
with mock.patch.object(exporter.Device, "count", return_value=0), mock.patch.object(
    exporter.Device, "driver_version", return_value="0"
), mock.patch.object(exporter.Device, "cuda_driver_version", return_value="0"):
    made = exporter.PrometheusExporter(devices=[], hostname="host", registry=registry, interval=1.0)
families = {family.name: family for family in registry.collect()}
text = generate_latest(registry).decode()
expected = {"gpu_utilization_Percentage", "gpu_memory_used_MiB", "gpu_memory_utilization_Percentage",
            "gpu_memory_percent_Percentage", "process_gpu_memory_MiB", "process_gpu_sm_utilization_Percentage"}
# What the code gives to Info.info() becomes labels besides these.
source = Path(exporter.__file__).read_text()
has_command = "'command': host_snapshot.command" in source
missing = sorted(name for name in expected if f"# TYPE {name} gauge" not in text)
print("missing:", missing, "process_info_info:", "# TYPE process_info_info gauge" in text, "command line as label:", has_command)
sys.exit(bool(missing) or "# TYPE process_info_info gauge" not in text or not has_command)
PY
