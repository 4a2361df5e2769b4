# Sourced by the scripts of tools/: where things are kept, and how a folder of
# installed packages comes to be there whole or not at all.

ferry_cache="${XDG_CACHE_HOME:-$HOME/.cache}/ferry"

say() {
  echo "$(basename "$0"): $*" >&2
}

# hash_of FILE: a short name for the file's content.
hash_of() {
  sha256sum "$1" | cut -c1-16
}

# install_once DIRECTORY COMMAND…: runs `COMMAND… DIRECTORY` unless a run
# before has finished. A marker file comes last, so what an interrupted run
# left is removed and made anew. Two runs at once: the second waits.
install_once() {
  local directory="$1"
  shift
  if [[ -e "$directory/.complete" ]]; then
    return
  fi
  mkdir -p "$(dirname "$directory")"
  (
    flock 9
    if [[ ! -e "$directory/.complete" ]]; then
      rm -rf "$directory"
      "$@" "$directory" >&2
      touch "$directory/.complete"
    fi
  ) 9>"$directory.lock"
}
