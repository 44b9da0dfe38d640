#!/bin/sh
# The checksums of this machine's own build against the recorded ones; the last line is N passed, N failed.
BUILD=${BUILD:-build}
oracle=$(sh tests/place.sh oracle/llm/index.tsv)
[ "$oracle" != tests/golden/oracle/llm ] || echo 'without: the models that are not in tests/golden'
"$BUILD/checksums" --models $oracle >"$BUILD/checksums.out"
sh tests/ports/golden.sh $oracle >"$BUILD/checksums.golden"
sh tests/ports/compare.sh "$BUILD/checksums.out" "$BUILD/checksums.golden"
