#!/usr/bin/env bash
# size - no file over 500 lines, and no function of the product over 60, its head included.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

file_max=500
function_max=60

# The style puts a function's braces, and nothing else, at column 0. Its head is what stands above
# the opening brace up to a blank line, a comment's end, a preprocessor line or another end.
long_functions() { # file
  awk -v file="$1" -v max=$function_max '
    /^\{/ { open = NR; start = head ? head : NR; name = first }
    /^\}/ && open {
      if (NR - start + 1 > max) {
        printf "%s:%d: function of %d lines, at most %d: %s\n", file, start, NR - start + 1, max, name
      }
      open = 0
    }
    /^$/ || /^[ \t]*#/ || /\*\/[ \t]*$/ || /^\}/ || /;[ \t]*$/ || /^\/\// || /\\$/ { head = 0; next }
    !open && !head { head = NR; first = $0 }
  ' "$root/$1"
}

n_files=0
while read -r file; do
  n_files=$((n_files + 1))
  n_lines=$(wc -l <"$root/$file")
  if [ "$n_lines" -gt $file_max ]; then
    finding "$file:$n_lines: file of $n_lines lines, at most $file_max"
  fi
done < <(list_files "${product_folders[@]}" tests bench script -- c h cu cuh proto sh)

while read -r file; do
  while read -r text; do
    finding "$text"
  done < <(long_functions "$file")
done < <(list_files "${product_folders[@]}" -- c cu)
finish files "$n_files"
