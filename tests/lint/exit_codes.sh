#!/usr/bin/env bash
# exit_codes - docs/exit-codes.md says what base/status.h says.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

header=$root/base/status.h
page=$root/docs/exit-codes.md

# "code text" of each status, in the header's order; the table's rows are "| code | text | ... |".
in_header=$(sed -nE 's/^ *X\([A-Z_]+, ([0-9]+), "([^"]+)"\).*/\1 \2/p' "$header")
in_page=$(sed -nE 's/^\| *([0-9]+) *\| *([^|]*[^| ]) *\|.*/\1 \2/p' "$page")

while read -r row; do
  grep -qxF -- "$row" <<<"$in_page" || finding "docs/exit-codes.md: no row for '$row' of base/status.h"
done <<<"$in_header"
while read -r row; do
  grep -qxF -- "$row" <<<"$in_header" || finding "docs/exit-codes.md: '$row' is not in base/status.h"
done <<<"$in_page"
finish codes "$(grep -c . <<<"$in_header" || true)"
