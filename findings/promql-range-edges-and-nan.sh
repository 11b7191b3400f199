#!/usr/bin/env bash
# Prometheus 2.53.5 (github.com/prometheus/prometheus v0.53.5) and VictoriaMetrics 1.151.0, 2026-11-28.
# The same samples and the same instant query m[60s], at the time of a sample, samples 30 s apart:
# - Prometheus 2 returns both edges of the range (3 samples), VictoriaMetrics leaves out the left one (2), as Prometheus 3
#   does. Adding up ranges end to end counts a sample twice in the one, and not in the other.
# - VictoriaMetrics does not keep NaN: where the exporter said "unknown" there is no sample at all. Prometheus has it.
# - VictoriaMetrics' /api/v1/status/buildinfo answers with a version 2.24.0: a client that tells edges by the version of
#   Prometheus takes it for Prometheus 2.
# Needs go and curl; compiles both programs (some minutes).
set -euo pipefail
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
export GOBIN="$folder/bin" GOPATH="$folder/go" GOFLAGS=-modcacherw CGO_ENABLED=0
go install github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics@v1.151.0
go install github.com/prometheus/prometheus/cmd/prometheus@v0.53.5
go install github.com/prometheus/prometheus/cmd/promtool@v0.53.5
at=1700000000
printf '# TYPE m unknown\nm 1 %d\nm NaN %d\nm 3 %d\n# EOF\n' $((at - 60)) $((at - 30)) $at >openmetrics
bin/promtool tsdb create-blocks-from openmetrics openmetrics data >/dev/null
touch prometheus.yml
bin/prometheus --config.file=prometheus.yml --storage.tsdb.path=data --storage.tsdb.retention.time=20y \
  --web.listen-address=127.0.0.1:19090 2>prometheus.log &
bin/victoria-metrics -storageDataPath=vm -retentionPeriod=20y -httpListenAddr=127.0.0.1:18428 2>vm.log &
for url in 127.0.0.1:19090/-/ready 127.0.0.1:18428/health; do
  until curl -sf "http://$url" >/dev/null; do sleep 0.2; done
done
printf 'm 1 %d000\nm NaN %d000\nm 3 %d000\n' $((at - 60)) $((at - 30)) $at |
  curl -sf --data-binary @- http://127.0.0.1:18428/api/v1/import/prometheus
curl -sf http://127.0.0.1:18428/internal/force_flush
query() { curl -sf "http://$1/api/v1/query" --data-urlencode "query=m[60s]" --data-urlencode "time=$at"; }
query 127.0.0.1:19090 | tee prometheus.json
echo
query 127.0.0.1:18428 | tee vm.json
echo
curl -sf http://127.0.0.1:18428/api/v1/status/buildinfo | tee buildinfo.json
echo
python3 - <<'PY'
import json
import sys

values = {name: json.load(open(f"{name}.json"))["data"]["result"][0]["values"] for name in ("prometheus", "vm")}
texts = {name: [value for _, value in points] for name, points in values.items()}
print(texts)
version = json.load(open("buildinfo.json"))["data"]["version"]
sys.exit(texts != {"prometheus": ["1", "NaN", "3"], "vm": ["3"]} or not version.startswith("2."))
PY
