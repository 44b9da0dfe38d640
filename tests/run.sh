#!/bin/sh
# Runs the named tests, JOBS at a time, one line for each; the last line is: N passed, N failed. The exit status is 0
# when none failed.
#   stitch-check, stitch, units-shapes, units-compilers, units-nulls, units-install, units-docs and checksums are steps
#   of their own; examples/x.c only has to compile; anything else is a test source whose program stands in $BUILD.
# A program that is missing or older than what it is made of (it did not compile), crashes or runs for more than ten
# minutes is one failure. The lines before the last one list, for each system of the catalogue, which of its proofs
# these tests show (T_PROOF of tests/t.h), and on which targets:
#   attention 3 (DeFT): 14 proofs on scalar w128 avx2
#   graphs 1 (A2Q): 13 proofs: 12 on scalar w128 avx2, 1 once; not shown: "worked row"
# What a program with a failure claims is not shown, whichever of its tests failed.
# AGAIN=1: these tests once more, after a run of all; the last lines count all, those that did not run again as they
# were, and proofs are not listed again. MOST_SKIPPED=n: more skipped tests are a failure.
# On a terminal one line, rewritten in place, reports progress. TIMES=1: processor time after each test.
#   run.sh --build make ...   builds the programs, with such a line
progress=
if [ -n "$PROGRESS" ] || { [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; }; then progress=1; fi
if [ "$1" = --build ]; then
    shift
    [ -n "$progress" ] || exec "$@" -s
    start=$(date +%s)
    of=$("$@" -n 2>/dev/null | grep -c ' -o ')
    "$@" 2>&1 | awk -v of="$of" -v start="$start" '
        /^(printf|up=|rm -f|ar |make)/ && !/ -o / { next }
        / -o [^ ]/ && !/: / {
            what = $0; sub(/.* -o /, "", what); sub(/ .*/, "", what)
            "date +%s" | getline now; close("date +%s")
            printf "\r\033[K%s", substr("compiling " (++n) " of " of ": " what ", " now - start " s", 1, 79)
            fflush(); next
        }
        { printf "\r\033[K%s\n", $0; fflush() }
        END { printf "\r\033[K" }'
    exit
fi
claims() { sed -n 's/.*T_PROOF("\([^"]*\)", "\([^"]*\)").*/\1: \2/p' "$1"; }
entries='attention 0 (plain family)
attention 1 (Two-Pass Softmax)
attention 2 (FuseMax)
attention 3 (DeFT)
attention 4 (GLA)
attention 5 (SATA, TWIST)
attention 6 (SReT)
attention 7 (PLM)
attention 8 (Ladder-residual)
attention 9 (PYRA, ToMe)
attention 10 (CacheGen)
quantization 0 (plain family)
quantization 1 (VPTQ)
quantization 3 (Bipolar-INT)
quantization 4 (bit weights)
quantization 7 (MLWeaving)
quantization 8 (Flash-LLM)
compression 1 (SliceGPT)
compression 2 (gradual pruning)
compression 3 (pruning baselines)
compression 4 (RPS, ROAST, STABLE-RPS)
compression 5 (TAS)
compression 6 (meta pruning)
compression 7 (SN-Net)
compression 8 (one-way filters)
compression 9 (robustness lottery)
compression 10 (GradSign)
compression 11 (slimmable encoders)
graphs 0 (plain family)
graphs 1 (A2Q)
graphs 7 (FastRP)
geometry 0 (rotations, harmonics, couplings)
geometry 1 (Price of Freedom)
geometry 2 (TDN)
geometry 3 (MG-TFNO)
geometry 4 (MT-DeepONet)
geometry 5 (SpikingNeRF)
distributed 0 (plain family)
distributed 1 (TPI-LLM)
distributed 2 (Megatron-LM)
distributed 3 (GPipe)
distributed 4 (Redco)
distributed 5 (MoE parallel folding)
distributed 6 (NoLoCo)
distributed 7 (Just One Byte)
distributed 8 (OneFlow)
distributed 10 (ZeRO-topo)
serving 1 (Flover)
serving 2 (EnergonAI)
serving 3 (speculative sampling, EasySpec)
serving 4 (DistServe)'
if [ "$1" != --one ]; then
    results=$BUILD/results
    [ -n "$AGAIN" ] || rm -rf "$results"
    mkdir -p "$results"
    export BUILD INC CC ONLY results
    ticker=
    if [ -n "$progress" ]; then
        export PROGRESS=1
        : >"$results/.start"
        (
            start=$(date +%s)
            while sleep 1; do
                cd "$results" || exit
                ended=$(find . -type f -newer .start ! -name '.*' ! -name '*.log*' ! -name '*.tmp' | wc -l)
                now=$(ls | sed -n 's/\.log$//p' | sed 's/^tests\.//; s/\.c$//' | tr '.\n' '/ ')
                printf '\r\033[K%.79s' "$((ended)) of $# tests, $(($(date +%s) - start)) s: $now"
                cd - >/dev/null || exit
            done
        ) &
        ticker=$!
    fi
    printf '%s\n' "$@" | xargs -P "${JOBS:-1}" -n 1 sh tests/run.sh --one
    [ -z "$ticker" ] || { kill $ticker; printf '\r\033[K'; }
    [ -n "$AGAIN" ] || {   echo "$entries"
        for test in "$@"; do
            case $test in *"$ONLY"*.c) claims "$test" | sed 's/^/claimed: /' ;; esac
        done
        cat "$results"/.proofs.* /dev/null 2>/dev/null
    } | awk '
      !/^(claimed|proof|broken): / { key = $0; sub(/ \(.*/, "", key); entry[++n_entry] = key; name[key] = $0; next }
      { kind = $1; sub(/^[a-z]*: /, "") }
      kind == "broken:" { broken[$0] = 1; next }
      kind == "proof:" { target = $0; sub(/.* \[/, "", target); sub(/\]$/, "", target); sub(/ \[[^[]*$/, "")
                         if (!seen[$0, target]++ && target != "once") on[$0] = on[$0] " " target }
      !($0 in known) { known[$0] = ++n; item[n] = $0 }
      END {
        for (e = 1; e <= n_entry; e++) {
          sum = lacking = sets = 0; which = ""; split("", count); split("", set)
          for (i = 1; i <= n; i++) {
            if (index(item[i], entry[e] ": ") != 1) continue
            text = substr(item[i], length(entry[e]) + 3)
            if (!(item[i] in on) && (item[i], "once") in seen) on[item[i]] = " once"
            if (item[i] in broken || !(item[i] in on)) {
              which = which (lacking++ ? ", " : "") "\"" text "\""
              continue
            }
            sum++
            if (!count[on[item[i]]]++) set[++sets] = on[item[i]]
          }
          if (!sum && !lacking) continue
          line = name[entry[e]] ": " sum " proofs"
          for (i = 1; i <= sets; i++) {
            line = line (sets == 1 ? "" : (i == 1 ? ": " : ", ") count[set[i]])
            line = line (set[i] == " once" ? "" : " on") set[i]
          }
          print line (lacking ? "; not shown: " which : "")
        }
      }'
    cat "$results"/* /dev/null | awk -v wanted=$# -v most="$MOST_SKIPPED" '{ n++; p += $1; f += $2; s += $3 }
      END { if (most != "" && s > most + 0) { print "more than " most " skipped"; f++ }
            if (n < wanted) { print wanted - n " of the tests left no result"; f += wanted - n }
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
fresh() { # is the program there, and newer than its source and the headers that make builds it for?
    case $2 in tests/gnn/*) header=tinygnn.h ;; tests/*/*) header=tinyllm.h ;; *) header='tinyllm.h tinygnn.h' ;; esac
    ! grep -q 'define T_INTERNALS' "$2" || header=tinygnn.h
    [ -x "$1" ] || return
    for h in $header; do [ -z "$(find "$2" "$INC/$h" -newer "$1")" ] || return 1; done
}
case $test in
stitch-check) name=$test; set -- make -s --no-print-directory stitch-check BUILD="$BUILD" INC="$INC" CC="$CC" ;;
stitch) name=tests/units/stitch; set -- sh tests/units/stitch.sh ;;
units-nulls) name=tests/units/nulls; set -- sh tests/units/nulls.sh ;;
units-install) name=tests/units/install; set -- sh tests/units/install.sh ;;
units-docs) name=tests/units/docs; set -- sh tests/units/docs.sh ;;
units-*) name=tests/units/${test#units-}; set -- sh tests/units/run.sh "${test#units-}" ;;
checksums) name=tests/golden; set -- sh tests/ports/here.sh ;;
*) name=${test%.c}; set -- $limit "$BUILD/$name" ;;
esac
case $name in *"$ONLY"*) ;; *) says 0 0 0; exit 0 ;; esac
case $test in
*.c)
    case $test in examples/*) program=$BUILD/$(basename "$name") ;; *) program=$BUILD/$name ;; esac
    if ! fresh "$program" "$test"; then
        printf '%-32s does not compile\n' "$name"
        claims "$test" | sed 's/^/broken: /' >"$results/.proofs.$(echo "$name" | tr / .)"
        says 0 1 0
        exit 0
    fi
    case $test in examples/*) set -- echo '1 passed, 0 failed' ;; esac ;;
esac
"$@" >"$log" 2>&1
status=$?
times >"$log.times"
[ -z "$TIMES" ] || seconds=$(awk 'NR == 2 {
    split($1, u, /[ms]/); split($2, s, /[ms]/); printf "%.1f s", 60 * u[1] + u[2] + 60 * s[1] + s[2] }' "$log.times")
rm -f "$log.times"
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
    [ -z "$progress" ] || printf '\r\033[K'
    printf '%-32s %s\n' "$name" "$last${seconds:+  $seconds}"
    if [ $status -ne 0 ] || [ "${f:-0}" -ne 0 ]; then sed '/^proof: /d; s/^/    /' "$log" | head -n 60; fi
    sed -n 's/^skipped: /    skipped: /p' "$log"
    sed -n 's/^in part: //p' "$log" | sort -u |
        awk '{ text = text (n++ ? ", " : "") $0 } END { if (n) print "    files that were here: " text }'
    sed -n 's/^without: //p' "$log" | sort -u | awk '{ n++; if (n <= 4) names = names " " $0 }
      END { if (n) print "    without:" names (n > 4 ? " and " n - 4 " more" : "") }'
} >"$log.says"
cat "$log.says"
case $test in
*.c)
    {
        if [ $status -eq 0 ] && [ "${f:-0}" -eq 0 ] && [ "${p:-0}" -gt 0 ]; then
            grep '^proof: ' "$log"
        else
            claims "$test" | sed 's/^/broken: /'
        fi
    } >"$results/.proofs.$(echo "$name" | tr / .)" ;;
esac
rm -f "$log" "$log.says"
says "${p:-0}" "${f:-0}" "${s:-0}"
