#!/usr/bin/env bash
# selftest - each check passes on a sound small tree and fails, with the right message, on every
# planted fault.
#
# Usage: selftest.sh layers|names|pure|size|exit_codes      CC is the compiler (default cc)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
check=${1:?usage: selftest.sh CHECK}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree build=$work/build
mkdir "$tree" "$build"
n_faults=0

put() { # file; text on stdin
  mkdir -p "$tree/$(dirname "$1")"
  cat >"$tree/$1"
}

make_unit() { # folder/stem: a header and a source that keep every rule
  local stem=${1##*/}
  put "$1.h" <<<"int sc_${stem}_get(const char *text);"
  put "$1.c" <<END
#include "$1.h"

#include <string.h>

int sc_${stem}_get(const char *text)
{
    return (int)strlen(text);
}
END
}

make_tree() {
  rm -rf "${tree:?}"/*
  local unit
  for unit in base/status base/log schedules/table model/spec kernels/backends coordinator/planner \
    coordinator/io/store stage/executor stage/io/compute cli/cmd; do
    make_unit $unit
  done
  put cli/main.c <<'END'
#include "cli/cmd.h"

int main(void)
{
    return sc_cmd_get("");
}
END
  mkdir -p "$tree/docs"
  cp "$here/../../base/status.h" "$tree/base/status.h"
  cp "$here/../../docs/exit-codes.md" "$tree/docs/exit-codes.md"
}

# Compiles what changed since the last time into the places where CMake puts objects.
compile() {
  local source object
  find "$build" -name '*.o' | while read -r object; do
    [ -f "$(cat "$object.from")" ] || rm "$object"
  done
  (cd "$tree" && find . -name '*.c' -printf '%P\n') | while read -r source; do
    object=$build/${source%%/*}/CMakeFiles/sc_${source%%/*}.dir/${source#*/}.o
    if [ -f "$object" ] && cmp -s "$tree/$source" "$object.source"; then
      touch "$object"
      continue
    fi
    mkdir -p "$(dirname "$object")"
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -w -I"$tree" -c "$tree/$source" -o "$object"
    cp "$tree/$source" "$object.source"
    echo "$tree/$source" >"$object.from"
  done
}

run_check() {
  if [ "$check" = names ] || [ "$check" = pure ]; then
    compile
  fi
  "$here/$check.sh" "$build" "$tree" 2>&1
}

expect_pass() { # what
  local output
  if ! output=$(run_check); then
    echo "FAIL: $check on $1: $output"
    exit 1
  fi
}

# fault TEXT: the tree as it is now must fail with a finding that contains TEXT; then it is made anew.
fault() {
  local output
  if output=$(run_check); then
    echo "FAIL: $check passes a tree that should give '$1'"
    exit 1
  fi
  if ! grep -qF -- "$1" <<<"$output"; then
    echo "FAIL: $check says the wrong thing instead of '$1': $output"
    exit 1
  fi
  n_faults=$((n_faults + 1))
  make_tree
}

include() { # file header: adds an include behind the own header
  sed -i "1a #include \"$2\"" "$tree/$1"
}

test_layers() {
  include schedules/table.c base/status.h
  include stage/executor.c schedules/table.h
  include stage/io/compute.c kernels/backends.h
  include cli/cmd.c schedules/table.h
  include coordinator/io/store.c coordinator/planner.h
  expect_pass 'includes that go the right way'
  make_tree
  local pair
  for pair in base/status.c:schedules/table.h schedules/table.c:model/spec.h model/spec.c:kernels/backends.h \
    kernels/backends.c:schedules/table.h coordinator/planner.c:stage/executor.h \
    stage/executor.c:coordinator/planner.h coordinator/planner.c:kernels/backends.h \
    cli/cmd.c:kernels/backends.h cli/cmd.c:coordinator/planner.h stage/executor.c:cli/cmd.h; do
    local file=${pair%%:*} included=${pair##*:}
    include "$file" "$included"
    fault "$file:2: ${file%%/*} may not include ${included%%/*}"
  done
  include coordinator/planner.c coordinator/io/store.h
  fault 'coordinator/planner.c:2: only io/ and main.c may include io/'
  include stage/executor.c table.h
  fault 'write includes from the root'
  include stage/executor.c schedules/gone.h
  fault '"schedules/gone.h" does not exist'
  sed -i '1a #include <schedules/table.h>' "$tree/stage/executor.c"
  fault 'our own headers are included with quotes'
  sed -i '1i #include "base/log.h"' "$tree/stage/executor.c"
  fault 'include the own header "stage/executor.h" first'
  include schedules/table.h schedules/cell.h
  put schedules/cell.h <<<'#include "schedules/table.h"'
  fault 'in a cycle: schedules/cell.h schedules/table.h'
}

test_names() {
  put schedules/shared.c <<'END'
static int sum;
int sc_shared_add(int x);
int sc_shared_add(int x)
{
    return sum += x;
}
const int sc_shared = 3;
END
  expect_pass 'sound names'
  make_tree
  sed -i 's/sc_table_get/sc_tables_get/' "$tree/schedules/table.c"
  fault 'schedules/table.c: defines sc_tables_get'
  sed -i 's/sc_store_get/store_get/' "$tree/coordinator/io/store.c"
  fault 'coordinator/io/store.c: defines store_get'
  echo 'int sc_global_counter;' >>"$tree/stage/executor.c"
  fault 'stage/executor.c: defines sc_global_counter'
  echo 'int main(void) { return 0; }' >>"$tree/stage/executor.c"
  fault 'stage/executor.c: defines main'
  make_unit stage/table
  fault 'the base name table is not unique'
  put model/executor.h <<<'/* another */'
  fault 'the base name executor is not unique'
  find "$tree" -name '*.c' -delete
  fault 'nothing to check'
}

add_call() { # file includes statement
  sed -i "1a $2" "$tree/$1"
  sed -i "s/    return (int)strlen/    $3\n    return (int)strlen/" "$tree/$1"
}

test_pure() {
  add_call schedules/table.c '#include <stdio.h>' 'char s[9]; snprintf(s, 9, "%s", text);'
  add_call coordinator/planner.c '#include "schedules/table.h"' 'sc_table_get(text);'
  add_call coordinator/io/store.c '#include <stdio.h>' 'puts(text);'
  add_call stage/io/compute.c '#include <time.h>' 'time(NULL);'
  expect_pass 'impure code only where it may be'
  make_tree
  add_call schedules/table.c '#include <time.h>' 'time(NULL);'
  fault 'schedules/table.c: uses time,'
  add_call coordinator/planner.c '#include <time.h>' 'struct timespec t; clock_gettime(0, \&t);'
  fault 'coordinator/planner.c: uses clock_gettime,'
  add_call model/spec.c '#include <stdio.h>' 'printf("%d %s", 1, text);'
  fault 'model/spec.c: uses printf,'
  add_call model/spec.c '#include <stdio.h>' 'puts(text);'
  fault 'model/spec.c: uses puts,'
  add_call model/spec.c '#include <stdio.h>' 'fprintf(stderr, "%d", 1);'
  fault 'model/spec.c: uses stderr,'
  add_call stage/executor.c '#include <stdlib.h>' 'getenv(text);'
  fault 'stage/executor.c: uses getenv,'
  add_call stage/executor.c '#include <unistd.h>' 'write(1, text, 1);'
  fault 'stage/executor.c: uses write,'
  add_call schedules/table.c '#include <fcntl.h>' 'open(text, 0);'
  fault 'schedules/table.c: uses open,'
  add_call schedules/table.c '#include <sys/socket.h>' 'socket(1, 1, 1);'
  fault 'schedules/table.c: uses socket,'
  add_call schedules/table.c 'int zmq_poll(void);' 'zmq_poll();'
  fault 'schedules/table.c: uses zmq_poll,'
  add_call schedules/table.c 'int rand(void);' 'rand();'
  fault 'schedules/table.c: uses rand,'
  add_call coordinator/planner.c 'void *fy_document_build_from_file(void);' 'fy_document_build_from_file();'
  fault 'coordinator/planner.c: uses fy_document_build_from_file,'
  add_call model/spec.c '#include "base/log.h"' 'sc_log_get(text);'
  fault 'model/spec.c: uses sc_log_get of base/log.c, which is not pure'
  add_call coordinator/planner.c 'int sc_store_get(const char *text);' 'sc_store_get(text);'
  fault 'uses sc_store_get of coordinator/io/store.c, which is not pure'
  add_call coordinator/planner.c 'int sc_gone_get(const char *text);' 'sc_gone_get(text);'
  fault 'uses sc_gone_get, which no object defines'
  find "$tree" -name '*.c' -delete
  fault 'nothing to check'
}

repeat() { # count text
  seq "$1" | sed "s|.*|$2|"
}

add_function() { # file lines
  {
    printf '\nstatic int filler(int x)\n{\n'
    repeat $(($2 - 4)) '    x++;'
    printf '    return x;\n}\n'
  } >>"$tree/$1"
}

test_size() {
  add_function schedules/table.c 60
  repeat 499 '/* x */' >>"$tree/model/spec.h"
  repeat 400 '/* x */' | put tests/test_long.c
  add_function tests/test_long.c 90
  expect_pass 'a function of 60 lines and a file of 500'
  make_tree
  add_function schedules/table.c 61
  fault 'function of 61 lines, at most 60: static int filler'
  printf '/* why */\n' >>"$tree/schedules/table.c"
  add_function schedules/table.c 300
  add_function schedules/table.c 20
  fault 'function of 300 lines'
  repeat 500 '/* x */' >>"$tree/model/spec.h"
  fault 'model/spec.h:501: file of 501 lines'
  repeat 501 '/* x */' | put tests/test_long.c
  fault 'tests/test_long.c:501'
  repeat 501 '# x' | put tests/lint/long.sh
  fault 'tests/lint/long.sh:501'
}

test_exit_codes() {
  expect_pass 'the real header and page'
  sed -i 's/^| 8 |/| 18 |/' "$tree/docs/exit-codes.md"
  fault "no row for '8 timed out'"
  sed -i '/^| 9 |/d' "$tree/docs/exit-codes.md"
  fault "no row for '9 a worker failed'"
  echo '| 12 | tired | |' >>"$tree/docs/exit-codes.md"
  fault "'12 tired' is not in base/status.h"
}

make_tree
expect_pass 'the sound tree'
"test_$check"
echo "selftest: $check finds all $n_faults planted faults"
