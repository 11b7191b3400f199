#!/usr/bin/env bash
# promtool 2.42.0 (github.com/prometheus/prometheus v0.42.0), 2026-11-28.
# `promtool tsdb create-blocks-from openmetrics` reads and parses the whole input once for each block of 2 hours, so that
# the time grows with the square of the days: a month of 173,000 samples took 74 s here. The flag
# --max-block-duration=168h, which --help does not list, makes it 2 s. One guesses a single pass over a sorted file.
# Seen: 2h blocks take more than five times as long as 168h blocks of the same 30 days.
# Needs go; compiles promtool (some minutes).
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
GOBIN="$folder" GOPATH="$folder/go" GOFLAGS=-modcacherw CGO_ENABLED=0 \
  go install github.com/prometheus/prometheus/cmd/promtool@v0.42.0
python3 - >openmetrics <<'PY'
print("# TYPE m unknown")
for at in range(1_700_000_000, 1_700_000_000 + 30 * 86_400, 60):
    print(f"m {at % 97} {at}")
print("# EOF")
PY
seconds() {
  local begin end
  begin=$(date +%s%N)
  ./promtool tsdb create-blocks-from openmetrics --quiet "$@" >/dev/null
  end=$(date +%s%N)
  echo $(((end - begin) / 1000000))
}
short=$(seconds openmetrics short)
long=$(seconds --max-block-duration=168h openmetrics long)
listed=$(./promtool tsdb create-blocks-from openmetrics --help 2>&1 | grep -c max-block-duration || true)
echo "2h blocks: $short ms, 168h blocks: $long ms, flag in the help: $listed"
[ "$short" -gt $((5 * long)) ] && [ "$listed" = 0 ]
