#!/bin/sh
# The compile cost of the headers: processor seconds and KB of object code at -O2, of each tier, and of each feature on
# top of RUN.
#   compile.sh                  writes docs/dev/options.tsv, which `make docs` prints into docs/guide/options.md
#   compile.sh tiers            the tiers only, printed; RUNS=3 takes the least of three runs
#   BASE=FOLDER compile.sh ...  also the headers in FOLDER, whole, in turns with these
BUILD=${BUILD:-build} INC=${INC:-.} CC=${CC:-cc} RUNS=${RUNS:-1} FLAGS=${FLAGS:--O2 -std=c99 -fopenmp}
dir=$BUILD/compile
mkdir -p "$dir"

# cost HEADER FOLDER flags: seconds of this compiler, KB of text and data
cost() {
    header=$1 folder=$2
    shift 2
    # shellcheck disable=SC2086
    seconds=$( (printf '#include "%s.h"\n' "$header" |
        $CC $FLAGS -I"$folder" "$@" -x c -c - -o "$dir/cost.o" || echo failed >&2; times) |
        awk 'NR == 2 { split($1, t, /[ms]/); printf "%.2f", 60 * t[1] + t[2] }')
    echo "$seconds $(size "$dir/cost.o" | awk 'NR == 2 { printf "%.0f", ($1 + $2) / 1024 }')"
}
least() { # the same, the least of RUNS
    for _ in $(seq "$RUNS"); do cost "$@"; done | sort -n | head -n 1
}
row() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4"; }

tiers() {
    for header in tinyllm tinygnn; do
        up=$(echo $header | tr a-z A-Z)
        # shellcheck disable=SC2046
        row $header DECLARATIONS $(least $header "$INC")
        for tier in RUN TOOLS LAB ALL; do
            # shellcheck disable=SC2046
            row $header $tier $(least $header "$INC" -D${up}_IMPLEMENTATION -D${up}_$tier)
        done
        # shellcheck disable=SC2046
        [ -z "$BASE" ] || row $header BASE $(least $header "$BASE" -D${up}_IMPLEMENTATION)
    done
}

if [ "$1" = tiers ]; then tiers; exit; fi
tiers >"$dir/options.tsv"
"$BUILD/stitch" src features "$dir/features" || exit 1
while read -r wing tier part _; do
    [ "$tier" != BASE ] && [ "$tier" != RUN ] || continue
    case $wing in
    all) macro=TINY header=tinyllm ;;
    llm) macro=TINYLLM header=tinyllm ;;
    gnn) macro=TINYGNN header=tinygnn ;;
    esac
    [ "$part" != EDGES ] && [ "$part" != SPARSE ] || header=tinyllm
    up=$(echo $header | tr a-z A-Z)
    # shellcheck disable=SC2046
    set -- $(cost $header "$INC" -D${up}_IMPLEMENTATION -D${macro}_WITH_$part) \
        $(awk -v h=$header '$1 == h && $2 == "RUN" { print $3, $4 }' "$dir/options.tsv")
    row $header $part "$(awk -v a="$1" -v b="$3" 'BEGIN { d = a - b; printf "%.0f", d < 0 ? 0 : d }')" $(($2 - $4))
done <"$dir/features" >>"$dir/options.tsv"
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
{
    printf '# header\twhat\tprocessor seconds\tKB; a feature: on top of RUN, with what it needs. %s, %s, %s\n' \
        "$FLAGS" "$($CC --version | head -n 1)" "$cpu"
    cat "$dir/options.tsv"
} >docs/dev/options.tsv
