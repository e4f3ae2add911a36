#!/usr/bin/env bash
# paced_grid - every schedule, p 1..8, v 1..4, m 1..4p+1 as real paced processes. A run must end well (its
# workers check the hash chain of every message, the coordinator that the executed order is the plan's) or be
# refused with a reason before it starts; runs with the same number of stages and m must have equal losses.
#
# Usage: bench/paced_grid.sh [PRESET [P...]]      (default: release 1 2 3 4 5 6 7 8)
#
# Takes tens of minutes. Results go to build/PRESET/paced_grid.tsv, a line a run: schedule, p, v, m, result,
# stages, loss or reason. What is there already is not run again; failures are, on the next call.
# Prints failures and a count; exits with 1 when there is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true
ranks=("$@")
[ ${#ranks[@]} -gt 0 ] || ranks=(1 2 3 4 5 6 7 8)
steps=2
patience=120 # seconds a run may take

bin=build/$preset/bin
results=build/$preset/paced_grid.tsv
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" --target stagecoach stagecoach-coordinator stagecoach-stage >/dev/null

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/job.yaml" <<YAML
name: grid
device: paced
schedule: 1f1b
parallel:
  pipeline_parallel: 1
batch:
  num_microbatches: 1
train:
  steps: $steps
paced:
  forward_ms: 0
  backward_input_ms: 0
  backward_weight_ms: 0
workers:
  pin: false
YAML

declare -A done_before
touch "$results"
grep -vP '\tFAILED\t' "$results" >"$work/kept" || true
cp "$work/kept" "$results"
while IFS=$'\t' read -r schedule p v m _; do
  done_before["$schedule $p $v $m"]=1
done <"$results"

# One run; prints its line.
run_one() {
  local schedule=$1 p=$2 v=$3 m=$4 code=0 run=$work/runs/grid
  rm -rf "$work/runs"
  timeout "$patience" "$bin/stagecoach" run "$work/job.yaml" -q --runs-dir "$work/runs" --set "schedule=$schedule" \
    --set "parallel.pipeline_parallel=$p" --set "parallel.virtual_stages=$v" --set "batch.num_microbatches=$m" \
    >"$work/out" 2>"$work/err" || code=$?
  printf '%s\t%s\t%s\t%s\t' "$schedule" "$p" "$v" "$m"
  local last
  last=$(grep -v '^$' "$work/err" | head -1 | sed -E 's/^[0-9TZ:.-]+ coordinator error: //; s/\t/ /g')
  if [ "$code" = 0 ] && [ "$(wc -l <"$run/metrics.jsonl")" = "$steps" ]; then
    printf 'ok\t%s\t%s\n' $((p * v)) "$(sed -E 's/.*"loss": ?([^,}]+).*/\1/' "$run/metrics.jsonl" | paste -sd' ')"
  elif { [ "$code" = 3 ] || [ "$code" = 6 ]; } && [ ! -e "$run" ] && [ -n "$last" ]; then
    printf 'refused\t-\t%s\n' "$last"
  else
    printf 'FAILED\t%s\t%s\n' "$code" "$last"
  fi
}

mapfile -t schedules < <("$bin/stagecoach" schedule list | grep -oP '^\S+')
for p in "${ranks[@]}"; do
  for schedule in "${schedules[@]}"; do
    for v in 1 2 3 4; do
      for ((m = 1; m <= 4 * p + 1; m++)); do
        [ -z "${done_before["$schedule $p $v $m"]:-}" ] || continue
        run_one "$schedule" "$p" "$v" "$m" | tee -a "$results" | grep -P '\tFAILED\t' || true
      done
    done
  done
  echo "p = $p done, $(wc -l <"$results") results so far" >&2
done

# Losses depend on the number of stages and on m alone.
code=0
awk -F'\t' '
  { n[$5]++ }
  $5 == "ok" && !(($6, $4) in loss) { loss[$6, $4] = $7; first[$6, $4] = $1 " p " $2 " v " $3 }
  $5 == "ok" && loss[$6, $4] != $7 { print $1 " p " $2 " v " $3 " m " $4 ": losses differ from those of " first[$6, $4]; bad++ }
  END {
    printf "%d ran, %d refused with a reason, %d failed, %d with other losses\n", n["ok"], n["refused"], n["FAILED"], bad
    exit n["FAILED"] + bad > 0
  }' "$results" || code=$?
echo "reasons of refusals:"
awk -F'\t' '$5 == "refused" { gsub(/ [0-9]+/, " N", $7); n[$1 ": " $7]++ } END { for (r in n) print "  " n[r] "\t" r }' "$results" | sort -k2
exit "$code"
