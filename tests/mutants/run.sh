#!/bin/sh
# Breaks src/ on purpose, one fault at a time, and looks for a test that turns red. Faults that stay green are printed,
# with their reason if explained.tsv has one, and the table goes into docs/dev/proofs.md. The exit status is 1 when more
# than 3 % stay green without a reason.
#   SEED=1 N=100      faults.c draws N faults with this seed, in addition to those of listed.tsv
#   ONLY=llm/model    faults in files whose path contains that; docs/dev/proofs.md is then left as it is
#   JOBS=2            faults at the same time
#   KEEP=1            after more tests were written: keeps the times and the red verdicts of the last run, and runs only
#                     the other faults
# Each file of src/ is compiled alone. For a fault its file is compiled, linked, and run with the tests of its module:
# those of the same name first, then the rest of the folder, the conformance kit, every test of the same header that
# takes less than a second, and the first ones again under the sanitizers. A fault does not count when it does not
# compile or when the compiler writes the same code for it.
BUILD=${BUILD:-build} SEED=${SEED:-1} N=${N:-100} JOBS=${JOBS:-2} KEEP=${KEEP:-} ONLY=${ONLY:-} CC=${CC:-gcc}
dir=$BUILD/mutants
top=$(pwd)
case $dir in /*) ;; *) dir=$top/$dir ;; esac
here=tests/mutants
export BUILD SEED N JOBS ONLY CC dir top here
tab=$(printf '\t')

if [ "$1" = --baseline ]; then      # a test that passes, and its time in milliseconds
    [ -n "$2" ] || exit 0           # no test is left
    start=$(date +%s%N)
    case $2 in conformance) set -- "$1" "$2" --cases 12 ;; esac
    if timeout 300 "$dir/tests/$2" $3 $4 >"$dir/log/$(echo "$2" | tr / .)" 2>&1; then
        echo "$2 $((($(date +%s%N) - start) / 1000000))" >>"$dir/times"
    else
        echo "not used, it fails without a fault: $2"
    fi
    exit 0
fi

compile() { # a file of src/ below $over: into an object next to it
    # shellcheck disable=SC2086
    (cd "$over" && $CC -std=c99 -O1 -w -fopenmp -DTINYI_OPEN $sanitize -Isrc -I"$top/src" \
        -c "src/$1" -o "${1%.c}.o") >/dev/null 2>&1
}
sanitize=

if [ "$1" = --compile ]; then       # id: leaves objects, or a verdict
    [ ! -e "$dir/verdict/$2" ] || exit 0
    line=$(grep "^$2$tab" "$dir/faults")
    file=$(echo "$line" | cut -f2)
    over=$dir/over/$2
    rm -rf "$over"
    mkdir -p "$over/src/$(dirname "$file")" "$over/$(dirname "$file")"
    "$dir/faults-of" set src "$line" "$over/src/$file" || { echo "does not apply" >"$dir/verdict/$2"; exit 0; }
    case $file in
    *.c) users=$file ;;
    *) users=$(grep -l "src/$file:" $(find "$dir/src" -name '*.d') | sed "s|^$dir/src/||; s|\.d$|.c|") ;;
    esac
    changed=
    for user in $users; do
        mkdir -p "$over/src/$(dirname "$user")" "$over/$(dirname "$user")"
        [ -e "$over/src/$user" ] || ln -s "$top/src/$user" "$over/src/$user"
        compile "$user" || { echo "does not compile" >"$dir/verdict/$2"; rm -rf "$over"; exit 0; }
        if cmp -s "$over/${user%.c}.o" "$dir/src/${user%.c}.o"; then rm "$over/${user%.c}.o"; else changed=1; fi
    done
    [ -n "$changed" ] || { echo "same code" >"$dir/verdict/$2"; rm -rf "$over"; }
    exit 0
fi

if [ "$1" = --run ]; then           # id: which test turns red
    [ ! -e "$dir/verdict/$2" ] || exit 0
    line=$(grep "^$2$tab" "$dir/faults")
    file=$(echo "$line" | cut -f2)
    named=$(echo "$line" | cut -f5 | tr ',' '\n')
    over=$dir/over/$2
    folder=$(dirname "$file")
    base=$(basename "$file" .c)
    base=${base%.simd.h}
    objects=$(find "$over" -name '*.o')
    verdict="green"
    {   [ "$named" = - ] || echo "$named"
        awk -v folder="$folder" -v base="$base" '
          { name = $1; sub(/.*\//, "", name); part = $1; sub(/\/[^\/]*$/, "", part)
            near = base; sub(/_.*/, "", near)
            wing = folder; sub(/\/.*/, "", wing)
            rank = $1 == folder "/" base ? 0 : part == folder && index(name, near) == 1 ? 1 : part == folder ? 2 : \
                   $1 == "conformance" ? 3 : index($1, wing "/") == 1 && $2 < 1000 ? 4 : 5
            if (rank < 5 && !(rank == 2 && $2 > 20000)) printf "%d %d %s\n", rank, $2, $1 }' "$dir/times" |
            sort -k1,1n -k2,2n | cut -d' ' -f3
    } | awk '!seen[$1]++' >"$over/tests"
    try() { # the tests on standard input
        while read -r test; do
            ms=$(awk -v t="$test" '$1 == t { print $2 }' "$dir/times")
            [ -n "$ms" ] || continue
            # a test of one header does not link with a file of the other
            case $file:$(cat "$dir/tests/$test.lib") in llm/*libgnn.a | gnn/*libllm.a) continue ;; esac
            # shellcheck disable=SC2086
            $CC -fopenmp $sanitize "$dir/tests/$test.o" $objects -o "$over/program" "$(cat "$dir/tests/$test.lib")" \
                -pthread -lm 2>/dev/null || { verdict="red: does not link"; break; }
            arguments=
            [ "$test" != conformance ] || arguments='--cases 12'
            # shellcheck disable=SC2086
            if ! (ulimit -f 400000
                timeout -k 1 $((ms / 100 + 10)) "$over/program" $arguments >"$over/log" 2>&1 </dev/null); then
                verdict="red: $test$1"
                break
            fi
        done
    }
    try '' <"$over/tests"
    if [ "$verdict" = green ]; then
        # an access out of bounds can leave every result the same: the changed files again under the sanitizers, as in
        # make asan
        sanitize='-fsanitize=address,undefined -fno-sanitize-recover=undefined'
        for object in $objects; do
            user=${object#"$over/"}
            compile "${user%.o}.c"
        done
        sed -n 1,4p "$over/tests" >"$over/first"
        try ', under the sanitizers' <"$over/first"
    fi
    echo "$verdict" >"$dir/verdict/$2"
    rm -rf "$over"
    [ "$verdict" != green ] || { echo "green: $line" | cut -c1-300; }
    exit 0
fi

# build as well: some tests write files there for any BUILD, and a test that fails without a fault is not used
mkdir -p "$dir/log" build
$CC -O2 -std=c99 $here/faults.c -o "$dir/faults-of" || exit 1
echo "building every file of src/ alone, and the tests"
make -s -k -f $here/Makefile -j"$JOBS" B="$dir" CC="$CC" all || exit 1
[ -n "$KEEP" ] || rm -f "$dir/times"
touch "$dir/times"
echo "running the tests without a fault"
{ find tests/core tests/math tests/llm tests/gnn -name '*.c' | sed 's|^tests/||; s|\.c$||' | sort; echo conformance; } |
    while read -r test; do grep -q "^$test " "$dir/times" || echo "$test"; done |
    xargs -P "$JOBS" -n 1 sh $here/run.sh --baseline

rm -rf "$dir/over"
[ -n "$KEEP" ] || rm -rf "$dir/verdict"
mkdir -p "$dir/over" "$dir/verdict"
find "$dir/verdict" -type f | while read -r verdict; do grep -q '^red' "$verdict" || rm "$verdict"; done
# shellcheck disable=SC2046
"$dir/faults-of" pick "$SEED" $((N * 2 + 40)) \
    $(find src -name '*.c' -o -name '*.simd.h' | grep -v 'src/stitch' | sort) |
    grep "^[^$tab]*$tab[^$tab]*$ONLY" >"$dir/drawn"
grep -v '^#' $here/listed.tsv | grep "^[^$tab]*$tab[^$tab]*$ONLY" >"$dir/listed"
cat "$dir/listed" "$dir/drawn" >"$dir/faults"
cut -f5 "$dir/listed" | tr ',' '\n' | sort -u | while read -r test; do
    [ -e "tests/$test.c" ] || echo "listed.tsv names a test that does not exist: $test"
done
echo "$(wc -l <"$dir/listed") listed faults and up to $N of seed $SEED, $JOBS at a time"
cut -f1 "$dir/faults" | xargs -P "$JOBS" -n 1 sh $here/run.sh --compile
# those that change the code: all of the list, the first N drawn
counts() {
    while read -r id; do
        case $(cat "$dir/verdict/$id" 2>/dev/null) in
        '' | red*) echo "$id" ;;
        *) [ -z "$1" ] || echo "$1 $id: $(cat "$dir/verdict/$id")" >&2 ;;
        esac
    done
}
{
    cut -f1 "$dir/listed" | counts 'listed fault'
    cut -f1 "$dir/drawn" | counts '' | head -n "$N"
} >"$dir/chosen"
xargs -P "$JOBS" -n 1 sh $here/run.sh --run <"$dir/chosen"

while read -r id; do
    echo "$id$tab$(cat "$dir/verdict/$id" 2>/dev/null || echo 'left no verdict')"
done <"$dir/chosen" | awk -F '\t' -v seed="$SEED" '
  FILENAME ~ /explained/ { if (!/^#/) why[$1] = $3; next }
  FILENAME ~ /faults$/ { file[$1] = $2; from[$1] = $3; to[$1] = $4; kind[$1] = $6; next }
  { id = $1; drawn = id ~ /^r[0-9a-f]+$/; part = file[id]; sub(/\/[^\/]*$/, "", part)
    if (!(part in all)) { all[part] = 0; order[++n] = part }
    all[part]++
    if ($2 ~ /^red/) { red[part]++; reds++ }
    else {
      green[part]++; greens++
      if (id in why) { explained[part]++; told++ }
      left = left "| " id " | `" file[id] "` | " kind[id] " | " (id in why ? why[id] : "not explained") " |\n"
    }
    if (drawn) n_drawn++; else n_listed++ }
  END {
    printf "%d faults: %d listed, %d drawn with seed %s. %d red, %d green, %d of them explained.\n\n", \
           n_drawn + n_listed, n_listed, n_drawn, seed, reds, greens, told
    print "| module | faults | red | green | explained |\n|---|---|---|---|---|"
    for (i = 1; i <= n; i++)
      for (j = i + 1; j <= n; j++) if (order[j] < order[i]) { x = order[i]; order[i] = order[j]; order[j] = x }
    for (i = 1; i <= n; i++) {
      part = order[i]
      printf "| %s | %d | %d | %d | %d |\n", part, all[part], red[part], green[part], explained[part]
    }
    if (left != "") printf "\n| fault | file | kind | why it stays green |\n|---|---|---|---|\n%s", left
    exit (greens - told) * 100 > 3 * (n_drawn + n_listed)
  }' $here/explained.tsv "$dir/faults" - >"$dir/table"
status=$?
cat "$dir/table"
if [ -z "$ONLY" ] && grep -q '<!-- mutants -->' docs/dev/proofs.md; then
    awk -v table="$dir/table" '
      /<!-- mutants -->/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
      /<!-- end of mutants -->/ { skip = 0 }
      !skip' docs/dev/proofs.md >"$dir/proofs.md" &&
        cat "$dir/proofs.md" >docs/dev/proofs.md
fi
exit $status
