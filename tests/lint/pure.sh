#!/usr/bin/env bash
# pure - the pure files reach no clock, file, socket, environment or log: their undefined symbols are
# in a short list, or defined by other pure files.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

# The only list of what is pure.
is_pure() { # source
  case $1 in
    */io/* | */main.c) return 1 ;;
    schedules/* | model/* | formats/* | proto/* | coordinator/*) return 0 ;;
    stage/executor.c | stage/executor_*.c | stage/slots.c | stage/tail.c | stage/batch.c) return 0 ;;
    base/status.c | base/arena.c | base/rng.c) return 0 ;;
  esac
  return 1
}

# Of the C library: memory, text, numbers, sorting. fprintf and its like only reach a stream that
# was made in memory, since fopen, stdout and stderr are not here.
allowed_libc='^(mem[a-z]+|str[a-z0-9_]+|__mem[a-z]+_chk|__str[a-z]+_chk|__(v?sn?printf|v?asprintf|v?fprintf)_chk
|v?sn?printf|v?asprintf|(__isoc99_)?sscanf|__xpg_strerror_r|malloc|calloc|realloc|reallocarray|free
|aligned_alloc|posix_memalign|qsort|bsearch|abs|labs|to(lower|upper)|is[a-z]+|__ctype_[a-z_]+
|__errno_location|__assert_fail|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_
|open_memstream|fmemopen|v?fprintf|fput[cs]|putc|fwrite|fflush|ferror|fclose
|(sqrt|log|log2|log10|log1p|exp|exp2|expm1|pow|sin|cos|tanh|floor|ceil|trunc|round|lround|llround|rint
|lrint|llrint|fabs|fmin|fmax|fmod|fma|hypot|cbrt|frexp|ldexp|scalbn|modf|nextafter|__isnan|__isinf|__finite)f?)$'
allowed_libc=${allowed_libc//$'\n'/}

# Of the folders' own libraries; what reads or writes files is taken out again.
allowed_library() { # source symbol
  case $1:$2 in
    coordinator/*:fy_*_file | coordinator/*:fy_*_fp | coordinator/*:fy_*_fd) return 1 ;;
    coordinator/*:fy_* | coordinator/*:cJSON_* | formats/*:cJSON_*) return 0 ;;
    proto/*:protobuf_c_* | proto/*:stagecoach__*) return 0 ;;
  esac
  return 1
}

declare -A defined_by=()
while read -r source symbol; do
  defined_by[$symbol]=$source
done < <(list_symbols -g --defined-only)

while read -r source symbol; do
  is_pure "$source" || continue
  definer=${defined_by[$symbol]:-}
  if [ -n "$definer" ]; then
    is_pure "$definer" || finding "$source: uses $symbol of $definer, which is not pure"
  elif [[ $symbol == sc_* ]]; then
    finding "$source: uses $symbol, which no object defines: build everything first"
  elif [[ ! $symbol =~ $instrumentation && ! $symbol =~ $allowed_libc ]]; then
    allowed_library "$source" "$symbol" || finding "$source: uses $symbol, which a pure file may not"
  fi
done < <(list_symbols -u)

n_objects=0
while IFS=$'\t' read -r _ source; do
  if is_pure "$source"; then
    n_objects=$((n_objects + 1))
  fi
done < <(list_objects)
finish objects "$n_objects"
