#!/bin/sh
# The checksums of this machine's own build against the recorded ones; the last line is N passed, N failed.
BUILD=${BUILD:-build}
oracle=../shared/oracle/llm
if [ ! -e $oracle/index.tsv ]; then
    echo 'skipped: no ../shared: the models of tests/golden only'
    oracle=tests/golden/oracle/llm
fi
"$BUILD/checksums" --models $oracle >"$BUILD/checksums.out"
sh tests/ports/golden.sh $oracle >"$BUILD/checksums.golden"
sh tests/ports/compare.sh "$BUILD/checksums.out" "$BUILD/checksums.golden"
