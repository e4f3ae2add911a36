#!/usr/bin/env bash
# paced_grid - runs every schedule for p 1..6 and m 1..13 with the real programs: none may hang, and
# equal pipelines must have equal losses. ctest runs a sample of it (test_hang_grid); this takes
# minutes.
#   bench/paced_grid.sh [PRESET]      (default release)
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
cmake --preset "$preset" > /dev/null
cmake --build --preset "$preset" --target test_hang_grid
exec "build/$preset/tests/multiproc/test_hang_grid" all
