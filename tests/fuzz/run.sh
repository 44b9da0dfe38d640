#!/bin/sh
# Runs each fuzz target under the address and undefined behaviour sanitizers: a minute each, or HOURS=n shared among
# them. ONLY=gguf runs one. The seed inputs of a target are the files of corpus/NAME. With clang, libFuzzer searches for
# new paths. Without it the targets mutate their corpus, or draw random bytes, on their own.
#   run.sh --check   every target for a second, without libFuzzer; links the sanitized libraries of `make asan` if built
set -u
BUILD=${BUILD:-build} INC=${INC:-.} CC=${CC:-cc} HOURS=${HOURS:-} ONLY=${ONLY:-}
out=$BUILD/fuzz
check=
if [ "${1:-}" = --check ]; then check=yes FUZZ_SECONDS=1; fi
mkdir -p "$out"
sources=
for source in tests/fuzz/*.c; do
    name=$(basename "$source" .c)
    if [ -z "$ONLY" ] || [ "$ONLY" = "$name" ]; then sources="$sources $source"; fi
done
set -- $sources
seconds=${FUZZ_SECONDS:-60}
[ -z "$HOURS" ] || seconds=$(awk "BEGIN { printf \"%d\", $HOURS * 3600 / $# }")

flags="-O1 -g -std=c99 -I$INC -Itests -Itests/fuzz -DTINY_NO_OPENMP"
flags="$flags -fsanitize=address,undefined -fno-sanitize-recover=undefined"
bodies() { # compiler, further flags: the implementation once for all targets of a header
    for header in $headers; do
        up=$(echo $header | tr a-z A-Z)
        printf '#define %s_ALL\n#define %s_IMPLEMENTATION\n#include <%s.h>\n' $up $up $header |
            $1 $flags $2 -x c -c - -o "$out/$header.o" && ar rcs "$out/$header.a" "$out/$header.o" || return 1
    done
}
header_of() { # the header that a target includes
    if grep -q '"tinygnn.h"' "$1"; then echo tinygnn; else echo tinyllm; fi
}
headers=$(for source in "$@"; do header_of "$source"; done | sort -u)
engine= open=
sanitized=$BUILD/asan
if [ -n "$check" ] && [ -e "$sanitized/libtinyllm.a" ] && [ -e "$sanitized/libtinygnn.a" ]; then
    for header in tinyllm tinygnn; do cp "$sanitized/lib$header.a" "$out/$header.a"; done
    flags="$flags -fopenmp" open=-DTINYI_OPEN       # as the Makefile compiles tinygnn.h there
elif [ -n "$check" ]; then
    bodies "$CC" '-DTINY_NO_SIMD' || exit 1
elif command -v clang >/dev/null 2>&1 &&
    echo 'int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n) { return p && n ? 0 : 0; }' |
    clang -x c - -fsanitize=fuzzer,address,undefined -o "$out/probe" 2>/dev/null; then
    engine=libFuzzer
    bodies clang -fsanitize=fuzzer-no-link || exit 1
else
    bodies "$CC" '' || exit 1
fi

failed=0 ran=0
for source in "$@"; do
    name=$(basename "$source" .c)
    corpus=tests/fuzz/corpus/$name
    log=$out/$name.log
    ran=$((ran + 1))
    if [ "$engine" ]; then
        clang $flags -DWITH_LIBFUZZER -fsanitize=fuzzer "$source" "$out/$(header_of "$source").a" -o "$out/$name" \
            -pthread -lm || { failed=$((failed + 1)); continue; }
        mkdir -p "$out/$name.found"
        length=512
        [ -d "$corpus" ] && length=16384 || corpus=
        "$out/$name" -max_total_time="$seconds" -max_len=$length -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
            -artifact_prefix="$out/$name." "$out/$name.found" $corpus >"$log" 2>&1
        status=$?
        n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
        echo "fuzz $name: ${n:-no} executions, ${covered:-?} edges, $seconds s, libFuzzer"
    else
        header=$(header_of "$source")
        # shellcheck disable=SC2046
        $CC $flags $([ "$header" = tinyllm ] || echo "$open") "$source" "$out/$header.a" -o "$out/$name-random" \
            -pthread -lm || { failed=$((failed + 1)); continue; }
        files=
        [ -d "$corpus" ] && files=$(find "$corpus" -type f)
        "$out/$name-random" "$seconds" 1 $files >"$log" 2>&1
        status=$?
        tail -n 1 "$log"
    fi
    if [ "$status" -ne 0 ]; then
        failed=$((failed + 1))
        tail -n 40 "$log"
    fi
done
echo "$ran fuzz targets ran, $failed found something"
echo "$((ran - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
