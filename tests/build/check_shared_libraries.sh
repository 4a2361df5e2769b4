#!/bin/bash
# check_shared_libraries.sh PROGRAM NEVER ALWAYS: as check_labels.sh, for the
# shared libraries that the dynamic linker loads for PROGRAM.
set -euo pipefail

ldd "$1" >"$TEST_TMPDIR/libraries"
exec "$(dirname "$0")/check_labels.sh" "$TEST_TMPDIR/libraries" "$2" "$3"
