# shellcheck shell=bash
# lib - what the checks share. A check is called as CHECK.sh BUILD_FOLDER [ROOT].
#
# Prints one line a finding, "file:line: what is wrong", and ends with 1 when there was any.
set -euo pipefail
export LC_ALL=C
shopt -s extglob

build=${1:?usage: $0 BUILD_FOLDER [ROOT]}
root=${2:-$(cd "$(dirname "$0")/../.." && pwd)}
build=$(cd "$build" && pwd)
root=$(cd "$root" && pwd)

# shellcheck disable=SC2034 # used by the checks
product_folders=(base schedules model formats proto kernels coordinator stage cli)

n_findings=0
finding() {
  echo "$*"
  n_findings=$((n_findings + 1))
}

# finish WHAT COUNT: a check that looked at nothing has not passed.
finish() {
  if [ "$2" -eq 0 ]; then
    finding "nothing to check: no $1 in $root, or nothing is built in $build"
  fi
  if [ "$n_findings" -gt 0 ]; then
    echo "$(basename "$0"): $n_findings findings in $2 $1" >&2
    exit 1
  fi
  echo "$(basename "$0"): $2 $1, nothing found"
  exit 0
}

# list_files FOLDER... -- SUFFIX...: paths relative to the root, sorted.
list_files() {
  local folders=() tests=()
  while [ "$1" != -- ]; do
    [ ! -d "$root/$1" ] || folders+=("$1")
    shift
  done
  shift
  for suffix in "$@"; do
    [ ${#tests[@]} -eq 0 ] || tests+=(-o)
    tests+=(-name "*.$suffix")
  done
  if [ ${#folders[@]} -gt 0 ]; then
    (cd "$root" && find "${folders[@]}" -type f \( "${tests[@]}" \)) | sort
  fi
}

# list_objects: "object<TAB>source" of every compiled product file. Objects without a source in the
# tree are generated code (protoc-c's, which names its own symbols) or left over: not looked at.
list_objects() {
  local folder object source
  for folder in "${product_folders[@]}"; do
    [ ! -d "$build/$folder" ] || find "$build/$folder" -path '*/CMakeFiles/*.dir/*' -name '*.o'
  done | sort | while read -r object; do
    source=${object#"$build/"}
    source=${source/CMakeFiles\/+([^\/]).dir\//}
    source=${source//+([^\/])\/__\//} # CMake's spelling of ../
    source=${source%.o}
    # the build makes an object newer than its source; an older one is of a target that is gone
    if [ -f "$root/$source" ] && [ ! "$root/$source" -nt "$object" ]; then
      printf '%s\t%s\n' "$object" "$source"
    fi
  done
}

# list_symbols NM_OPTION...: "source symbol" of every object that list_objects prints.
list_symbols() {
  local objects
  objects=$(list_objects)
  [ -n "$objects" ] || return 0
  cut -f1 <<<"$objects" | xargs nm -A "$@" | sed -E 's/^(.*\.o):.* ([^ ]+)$/\1\t\2/' |
    awk -F'\t' 'NR == FNR { source[$1] = $2; next } { print source[$1], $2 }' <(cat <<<"$objects") -
}

# Symbols that sanitizers and coverage add.
# shellcheck disable=SC2034
instrumentation='^(__asan_|__odr_asan|__ubsan_|__tsan_|__sanitizer_|__gcov_|__sancov_)'
