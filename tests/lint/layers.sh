#!/usr/bin/env bash
# layers - includes go one way: see 'may' below; no cycles; own header first; written from the root.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

# Which folders a folder may include, itself apart. The only copy of the rule.
declare -A may=(
  [base]=''
  [schedules]='base'
  [model]='base'
  [formats]='base'
  [proto]='base'
  [kernels]='base'
  [coordinator]='base schedules model formats proto'
  [stage]='base schedules model formats proto kernels'
  [cli]='base schedules model formats proto'
)

check_include() { # file line included
  local file=$1 line=$2 included=$3
  local from=${file%%/*} to=${included%%/*}
  if [[ $file == proto/* && $included == *.pb-c.h ]]; then
    return # generated into the build folder
  fi
  if [ "$to" = "$included" ] || [ -z "${may[$to]+known}" ]; then
    finding "$file:$line: \"$included\": write includes from the root, beginning with a product folder"
    return
  fi
  if [ "$from" != "$to" ] && [[ " ${may[$from]} " != *" $to "* ]]; then
    finding "$file:$line: $from may not include $to (\"$included\")"
  fi
  if [ ! -f "$root/$included" ]; then
    finding "$file:$line: \"$included\" does not exist"
  fi
  if [[ $included == */io/* && $file != */io/* && $file != */main.c ]]; then
    finding "$file:$line: only io/ and main.c may include io/ (\"$included\")"
  fi
}

n_files=0
edges=$(mktemp)
trap 'rm -f "$edges"' EXIT
while read -r file; do
  n_files=$((n_files + 1))
  first=
  while IFS=: read -r line text; do
    if [[ $text =~ ^[[:space:]]*\#[[:space:]]*include[[:space:]]*\<([^/\>]+)/ ]]; then
      if [ -n "${may[${BASH_REMATCH[1]}]+known}" ] && [ -d "$root/${BASH_REMATCH[1]}" ]; then
        finding "$file:$line: our own headers are included with quotes"
      fi
    fi
    [[ $text =~ include[[:space:]]*\"([^\"]+)\" ]] || continue
    included=${BASH_REMATCH[1]}
    check_include "$file" "$line" "$included"
    first=${first:-$included}
    [[ $file != *.h ]] || echo "$file $included" >>"$edges"
  done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' "$root/$file" || true)
  own=${file%.*}.h
  if [[ $file != *.h && -f $root/$own && $first != "$own" ]]; then
    finding "$file:1: include the own header \"$own\" first"
  fi
done < <(list_files "${product_folders[@]}" -- c h cu)

if ! loops=$(tsort "$edges" 2>&1 >/dev/null); then
  finding "headers include each other in a cycle: $(sed -n 's/^tsort: \([^ ]*\)$/\1/p' <<<"$loops" | sort -u | tr '\n' ' ')"
fi
finish files "$n_files"
