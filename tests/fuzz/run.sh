#!/bin/sh
# Each fuzz target for a while, under the address and undefined behaviour sanitizers: FUZZ_SECONDS=60 by default.
# With clang's libFuzzer the engine looks for new paths; without it the targets draw random bytes of their own.
set -u
BUILD=${BUILD:-build} INC=${INC:-.} CC=${CC:-cc} SECONDS_EACH=${FUZZ_SECONDS:-60}
out=$BUILD/fuzz
mkdir -p "$out"
failed=0
ran=0
for source in tests/fuzz/*.c; do
    name=$(basename "$source" .c)
    flags="-O1 -g -std=c99 -I$INC -DTINYLLM_IMPLEMENTATION -DTINY_NO_OPENMP"
    if command -v clang >/dev/null 2>&1 && clang $flags -DWITH_LIBFUZZER -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined "$source" -o "$out/$name" -pthread 2>/dev/null; then
        mkdir -p "$out/$name.found"
        "$out/$name" -max_total_time="$SECONDS_EACH" -max_len=512 -timeout=20 -print_final_stats=0 -verbosity=0 -artifact_prefix="$out/$name." "$out/$name.found" || failed=$((failed + 1))
        ran=$((ran + 1))
        echo "fuzz $name: libFuzzer, ${SECONDS_EACH} s"
        flags="$flags"
    fi
    $CC $flags -fsanitize=address,undefined -fno-sanitize-recover=undefined "$source" -o "$out/$name-random" -pthread || { failed=$((failed + 1)); continue; }
    "$out/$name-random" "$SECONDS_EACH" || failed=$((failed + 1))
    ran=$((ran + 1))
done
echo "$ran fuzz runs, $failed found something"
[ "$failed" -eq 0 ]
