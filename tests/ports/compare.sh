#!/bin/sh
# compare.sh OUTPUT GOLDEN: compares the lines of a checksums program with the recorded ones. The last line is:
# N passed, N failed.
awk '
    { sub(/\r$/, "") }
    NR == FNR { if (NF == 3 && $1 !~ /^#/) { want[$1 " " $2] = $3; n_want++ } next }
    $1 == "OK" { ended = 1; next }
    $1 == "target" { if ($3 == "passed") passed++; else { failed++; print "target " $2 " " $3 } next }
    NF == 3 && ($1 " " $2) in want {
        seen[$1 " " $2] = 1
        if (want[$1 " " $2] == $3) passed++
        else { failed++; print $1 ": " $3 ", recorded is " want[$1 " " $2] }
        next
    }
    NF >= 2 { failed++; print "not recorded: " $0 }
    END {
        for (k in want) if (!(k in seen)) { failed++; print "missing: " k }
        if (!ended) { failed++; print "the program did not finish" }
        printf "%d passed, %d failed\n", passed, failed
        exit failed != 0
    }' "$2" "$1"
