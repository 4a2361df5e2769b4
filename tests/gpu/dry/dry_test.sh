#!/bin/bash
# Runs tests of the GPU that need no LibTorch on the dry CUDA:
#   dry_test.sh LIBRARY GPU_DEVICE_TEST GPU_NCCL_TEST
# They must pass, and break no rule but the one that a test breaks on purpose.
set -euo pipefail
library="$PWD/$1"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
# dlopen() finds NCCL by its name.
ln -s "$library" "$folder/libnccl.so.2"
# This test is one case; its programs' are none.
unset XML_OUTPUT_FILE TEST_SHARD_INDEX

for devices in 1 2 4; do
  for program in "$2" "$3"; do
    log="$folder/$devices-$(basename "$program").jsonl"
    echo "== $program, $devices devices"
    env FERRY_REQUIRE_GPU=1 FERRY_DRY_CUDA_DEVICES="$devices" \
      FERRY_DRY_CUDA_LOG="$log" LD_LIBRARY_PATH="$folder" \
      LD_PRELOAD="$library" "$program"
    # GpuDeviceTest.ARegistrationThatFailsIsForgotten
    if grep '"rule"' "$log" | grep -v '"register_overlap"'; then
      echo "$program broke these rules"
      exit 1
    fi
    grep -q '"report"' "$log"
  done
done
