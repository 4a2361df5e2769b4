#!/bin/bash
# Without a GPU every GPU test says why it does nothing, and succeeds.
set -euo pipefail
export CUDA_VISIBLE_DEVICES=
unset FERRY_REQUIRE_GPU
# This test is one case; its programs' are none.
unset XML_OUTPUT_FILE
for program in "$@"; do
  output="$("$program" 2>&1)" || {
    echo "$output"
    exit 1
  }
  if grep -q "\[       OK \]" <<<"$output" ||
    ! grep -qE "NVIDIA driver" <<<"$output"; then
    echo "$output"
    echo "$program: ran a test, or does not say why not"
    exit 1
  fi
done
