#!/bin/sh
# Runs the named tests, JOBS at a time, one line for each; the last line is: N passed, N failed. The exit status is 0 when none failed.
#   stitch-check, stitch, units and checksums are steps of their own; examples/x.c only has to compile; anything else is a test source
#   whose program stands in $BUILD.
# A program that is missing or older than what it is made of (it did not compile), crashes or runs for more than ten
# minutes is one failure.
if [ "$1" != --one ]; then
    results=$BUILD/results
    rm -rf "$results"
    mkdir -p "$results"
    export BUILD INC CC ONLY results
    printf '%s\n' "$@" | xargs -P "${JOBS:-1}" -n 1 sh tests/run.sh --one
    cat "$results"/* /dev/null | awk -v wanted=$# '{ n++; p += $1; f += $2; s += $3 }
      END { if (n < wanted) { print wanted - n " of the tests left no result"; f += wanted - n }
            if (s) print s " skipped"; printf "%d passed, %d failed\n", p, f; exit f != 0 }'
    exit
fi

test=$2
limit=
command -v timeout >/dev/null 2>&1 && limit='timeout 600'
result=$results/$(echo "$test" | tr / .)
log=$result.log
says() { # passed, failed, skipped
    echo "$1 $2 $3" >"$result.tmp" && mv "$result.tmp" "$result"
}
fresh() { # is the program there, and newer than its source and the headers?
    [ -x "$1" ] && [ -z "$(find "$2" "$INC/tinyllm.h" "$INC/tinygnn.h" -newer "$1")" ]
}
case $test in
stitch-check) name=$test; set -- make -s --no-print-directory stitch-check BUILD="$BUILD" INC="$INC" CC="$CC" ;;
stitch) name=tests/units/stitch; set -- sh tests/units/stitch.sh ;;
units) name=tests/units; set -- sh tests/units/run.sh ;;
checksums) name=tests/golden; set -- sh tests/ports/here.sh ;;
*) name=${test%.c}; set -- $limit "$BUILD/$name" ;;
esac
case $name in *"$ONLY"*) ;; *) says 0 0 0; exit 0 ;; esac
case $test in
*.c)
    case $test in examples/*) program=$BUILD/$(basename "$name") ;; *) program=$BUILD/$name ;; esac
    if ! fresh "$program" "$test"; then
        printf '%-32s does not compile\n' "$name"
        says 0 1 0
        exit 0
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
{   # in one piece, since others write too
    printf '%-32s %s\n' "$name" "$last"
    if [ $status -ne 0 ] || [ "${f:-0}" -ne 0 ]; then sed 's/^/    /' "$log" | head -n 60; fi
    sed -n 's/^skipped: /    skipped: /p' "$log"
} >"$log.says"
cat "$log.says"
rm -f "$log" "$log.says"
says "${p:-0}" "${f:-0}" "${s:-0}"
