#!/bin/sh
# Runs the named tests, one line for each; the last line is: N passed, N failed. The exit status is 0 when none failed.
#   stitch-check, stitch, units and checksums are steps of their own; examples/x.c only has to compile; anything else is a test source
#   whose program stands in $BUILD.
# A program that is missing or older than what it is made of (it did not compile), crashes or runs for more than ten
# minutes is one failure.
passed=0 failed=0 skipped=0
export BUILD INC CC
limit=
command -v timeout >/dev/null 2>&1 && limit='timeout 600'
log=$BUILD/test.log
fresh() { # is the program there, and newer than its source and the headers?
    [ -x "$1" ] && [ -z "$(find "$2" "$INC/tinyllm.h" "$INC/tinygnn.h" -newer "$1")" ]
}
mkdir -p "$BUILD"

for test in "$@"; do
    case $test in
    stitch-check) name=$test; set -- make -s --no-print-directory stitch-check BUILD="$BUILD" INC="$INC" CC="$CC" ;;
    stitch) name=tests/units/stitch; set -- sh tests/units/stitch.sh ;;
    units) name=tests/units; set -- sh tests/units/run.sh ;;
    checksums) name=tests/golden; set -- sh tests/ports/here.sh ;;
    *) name=${test%.c}; set -- $limit "$BUILD/$name" ;;
    esac
    case $name in *"$ONLY"*) ;; *) continue ;; esac
    case $test in
    *.c)
        case $test in examples/*) program=$BUILD/$(basename "$name") ;; *) program=$BUILD/$name ;; esac
        if ! fresh "$program" "$test"; then
            printf '%-32s does not compile\n' "$name"
            failed=$((failed + 1))
            continue
        fi
        case $test in examples/*) set -- echo '1 passed, 0 failed' ;; esac ;;
    esac
    "$@" >"$log" 2>&1
    status=$?
    last=$(sed -n 's/^\([0-9]* passed, [0-9]* failed.*\)$/\1/p' "$log" | tail -n 1)
    if [ "$test" = stitch-check ]; then
        if [ $status -eq 0 ]; then last='1 passed, 0 failed'; else last='0 passed, 1 failed'; fi
    fi
    p=$(echo "$last" | sed -n 's/^\([0-9]*\) passed, .*/\1/p')
    f=$(echo "$last" | sed -n 's/^[0-9]* passed, \([0-9]*\) failed.*/\1/p')
    s=$(echo "$last" | sed -n 's/.*failed, \([0-9]*\) skipped.*/\1/p')
    [ -n "$last" ] || last="ended with status $status and no count"
    if [ $status -ne 0 ] && [ "${f:-0}" -eq 0 ]; then
        f=$((${f:-0} + 1))
        last="$last; it ended with status $status"
    fi
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0})) skipped=$((skipped + ${s:-0}))
    printf '%-32s %s\n' "$name" "$last"
    if [ $status -ne 0 ] || [ "${f:-0}" -ne 0 ]; then sed 's/^/    /' "$log" | head -n 60; fi
    sed -n 's/^skipped: /    skipped: /p' "$log"
done
rm -f "$log"
[ "$skipped" -eq 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
