#!/usr/bin/env bash
# nvidia-ml-py 12.560.30, 12.570.86, 13.580.126, 13.595.45, 13.610.43 and 13.615.71, 2026-11-28.
# The number 5 of NVML's GPU recovery actions has two names: GPU_RESET_BUS in 13.580, none in 13.590 and 13.595,
# RECOVER_IMEX_DOMAIN from 13.610 on, where the reset of the bus becomes BUS_RESET = 6.
# One guesses that the numbers of an enumeration in a C interface are only ever added to, so that names of the newest
# package fit every driver. 5 of a driver 580 would then be shown as an action for a rack's IMEX domain.
# NVML_FI_DEV_GET_GPU_RECOVERY_ACTION is 230 in all of them from 12.570 on; 12.560 lacks the name.
# Seen: 12.560.30 - | 12.570.86 230 - - | 13.580.126 230 GPU_RESET_BUS - | 13.595.45 230 - - |
#       13.610.43 230 RECOVER_IMEX_DOMAIN - | 13.615.71 230 RECOVER_IMEX_DOMAIN BUS_RESET
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
seen=""
for version in 12.560.30 12.570.86 13.580.126 13.595.45 13.610.43 13.615.71; do
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$folder/$version" \
        "nvidia-ml-py==$version"
    seen+=$(PYTHONPATH="$folder/$version" "$folder/venv/bin/python" - "$version" <<'PY'
import sys

import pynvml

prefix = "NVML_GPU_RECOVERY_ACTION_"
names = {number: name.removeprefix(prefix) for name, number in vars(pynvml).items() if name.startswith(prefix)}
field = getattr(pynvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", "-")
print(sys.argv[1], field, *([names.get(5, "-"), names.get(6, "-")] if names else []), end=" | ")
PY
    )
done
echo "$seen"
expected="12.560.30 - | 12.570.86 230 - - | 13.580.126 230 GPU_RESET_BUS - | 13.595.45 230 - - | "
expected+="13.610.43 230 RECOVER_IMEX_DOMAIN - | 13.615.71 230 RECOVER_IMEX_DOMAIN BUS_RESET | "
[ "$seen" = "$expected" ]
