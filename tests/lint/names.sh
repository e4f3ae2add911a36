#!/usr/bin/env bash
# names - the name of a symbol is the name of its file: what x.c defines begins with sc_x; base names
# are unique.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

# The only list of exemptions: "source pattern|symbol pattern|reason". protoc-c's output is not in
# the tree, so lib.sh leaves it out.
exemptions=(
  '^.*main\.c$|^main$|the C language names it'
  '^.*main\.c$|^argp_program_[a-z_]+$|the C library reads it'
  '^stage/alloc_wrap\.c$|^__wrap_[a-z_]+$|the linker names what --wrap leads to'
)

is_exempt() { # source symbol
  local entry source_pattern symbol_pattern
  for entry in "${exemptions[@]}"; do
    IFS='|' read -r source_pattern symbol_pattern _ <<<"$entry"
    if [[ $1 =~ $source_pattern && $2 =~ $symbol_pattern ]]; then
      return 0
    fi
  done
  return 1
}

while read -r source symbol; do
  stem=${source##*/}
  stem=${stem%.*}
  if [[ ! $symbol =~ $instrumentation && ! $symbol =~ ^sc_$stem([_.]|$) ]]; then
    is_exempt "$source" "$symbol" ||
      finding "$source: defines $symbol, which should begin with sc_$stem or be static"
  fi
done < <(list_symbols -g --defined-only)

while read -r stem; do
  finding "$(list_files "${product_folders[@]}" -- c h cu | grep -E "(^|/)$stem\.(c|h|cu)$" |
    tr '\n' ' '): the base name $stem is not unique"
done < <(list_files "${product_folders[@]}" -- c h cu | sed -E 's/\.(c|h|cu)$//' | sort -u |
  awk -F/ '$NF != "main" { print $NF }' | sort | uniq -d)

finish objects "$(list_objects | wc -l)"
