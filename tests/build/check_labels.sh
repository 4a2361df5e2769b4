#!/bin/bash
# check_labels.sh FILE NEVER ALWAYS: fails if a line of FILE matches NEVER, or
# none matches ALWAYS. An empty expression checks nothing.
set -euo pipefail

if [[ -n "$2" ]] && grep -E "$2" "$1"; then
  echo "The lines above must not be reached."
  exit 1
fi
if [[ -n "$3" ]] && ! grep -qE "$3" "$1"; then
  echo "Nothing reached matches $3."
  exit 1
fi
