#!/bin/bash
# check_symbols.sh PROGRAM NEVER ALWAYS: as check_labels.sh, for what PROGRAM
# defines, and for texts about faults in it.
set -euo pipefail

nm --defined-only --demangle "$1" >"$TEST_TMPDIR/symbols"
grep -aoE "FERRY_FAULTS|must start with crash@" "$1" >>"$TEST_TMPDIR/symbols" || true
exec "$(dirname "$0")/check_labels.sh" "$TEST_TMPDIR/symbols" "$2" "$3"
