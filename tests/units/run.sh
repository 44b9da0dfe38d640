#!/bin/sh
# Both headers in one unit, two units, ten units; C99, C++11 and C++17; every order; static copies; tcc; renamed; with
# every option. Each program is built without a warning, linked and run.
#   run.sh            what `make test` runs: every shape with one compiler, the main ones with the others
#   run.sh shapes     the first half of that, and the manuals of the headers; `make test` runs the halves in parallel
#   run.sh compilers  the second half: vector code by every compiler, tcc, options
#   run.sh all        everything with every compiler
BUILD=${BUILD:-build} INC=${INC:-.} full=$1
case $full in shapes | compilers) half=$full ;; *) half= ;; esac
dir=$BUILD/units$half
here=tests/units
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
passed=0 failed=0 skipped=0
rm -rf "$dir"
mkdir -p "$dir"

good() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED: $1"; shift; [ -z "$1" ] || head -n 6 "$1" | sed 's/^/    /'; }
skip() { skipped=$((skipped + 1)); echo "skipped: $1"; }

# compiler and flags for a short name
compiler() {
    case $1 in
    gcc) echo "gcc -std=c99 $warnings" ;;
    clang) echo "clang -std=c99 $warnings" ;;
    gcc11) echo "gcc -std=c11 $warnings" ;;
    g++) echo "g++ -x c++ -std=c++17 $warnings" ;;
    g++11) echo "g++ -x c++ -std=c++11 $warnings" ;;
    clang++) echo "clang++ -x c++ -std=c++17 $warnings" ;;
    clang++11) echo "clang++ -x c++ -std=c++11 $warnings" ;;
    tcc) echo "tcc -std=c99 -Wall" ;;
    cc) echo "${CC:-cc} -std=c99" ;;
    esac
}
there() { set -- $(compiler "$1"); command -v "$1" >/dev/null 2>&1; }

# unit COMPILER OBJECT SHAPE [flags]: makes $dir/OBJECT.o, whose function is OBJECT; a warning is a failure.
# With quick=tcc the compiler only has to be silent, and the object is made by tcc, a hundred times faster.
quick=
unit() {
    c=$1 object=$2 shape=$3
    shift 3
    make=-c
    [ -z "$quick" ] || make=-fsyntax-only
    set -- -I"$INC" -DUNIT=$object -DSHAPE_$shape "$@"
    # shellcheck disable=SC2046,SC2086
    if ! $(compiler $c) "$@" $make $here/unit.c -o "$dir/$object.o" >"$dir/log" 2>&1 ||
        { [ -n "$quick" ] && ! $(compiler $quick) "$@" -c $here/unit.c -o "$dir/$object.o" >"$dir/log" 2>&1; }; then
        bad "$c: a unit of shape $shape $* does not compile" "$dir/log"
        return 1
    fi
    if grep -q 'warning' "$dir/log"; then
        bad "$c: a unit of shape $shape $* gives a warning" "$dir/log"
        return 1
    fi
}
# program COMPILER NAME OBJECT...: links them with a main that calls each, and runs it
program() {
    c=${quick:-$1} name=$2
    shift 2
    list= objects=
    for o in "$@"; do list="$list X($o)"; objects="$objects $dir/$o.o"; done
    for o in "$@"; do [ -e "$dir/$o.o" ] || { bad "$c: $name: $o is missing"; return 1; }; done
    # shellcheck disable=SC2046,SC2086
    case $c in *++*) cxx="$(compiler $c | cut -d' ' -f1)" ;; *) cxx="$(compiler $c)" ;; esac
    # shellcheck disable=SC2086
    if ! { $cxx -DUNITS="$list" -x c -c $here/main.c -o "$dir/main.o" 2>/dev/null ||
        $(compiler $c) -DUNITS="$list" -c $here/main.c -o "$dir/main.o"; } >"$dir/log" 2>&1 ||
        ! $cxx "$dir/main.o" $objects $pthread -o "$dir/program" >>"$dir/log" 2>&1; then
        bad "$c: $name does not link" "$dir/log"
    elif ! "$dir/program" >"$dir/log" 2>&1; then
        bad "$c: $name does not run" "$dir/log"
    else
        good
    fi
}

# every shape with one compiler: fast, because the bodies are compiled without vector code
shapes() {
    c=$1 p=$2
    for s in L G LG GL lG gL Lg Gl l g lg gl lL Lgl; do unit "$c" "$p$s" $s -O0 -DTINY_NO_SIMD $3; done
    for s in L G LG; do unit "$c" "${p}s$s" $s -O0 -DTINY_NO_SIMD -DTINY_STATIC $3; done
    for i in 1 2 3 4 5 6 7 8 9; do unit "$c" "${p}ten$i" l -O0; done
    unit "$c" "${p}sl" l -O0 -DTINY_STATIC
    parts "$c" $p $3
    program "$c" "one header, one unit" ${p}L
    program "$c" "one header, the other shape" ${p}G
    program "$c" "both headers in one unit" ${p}LG
    program "$c" "both headers in one unit, the other order" ${p}GL
    program "$c" "two units, a header each" ${p}L ${p}G
    program "$c" "two units, one without the implementation" ${p}L ${p}l
    program "$c" "ten units" ${p}L ${p}ten1 ${p}ten2 ${p}ten3 ${p}ten4 ${p}ten5 ${p}ten6 ${p}ten7 ${p}ten8 ${p}ten9
    program "$c" "both implementations in one unit, declarations of each and of both in others" ${p}LG ${p}l ${p}g \
        ${p}lg ${p}gl
    program "$c" "the same, the other order" ${p}GL ${p}l ${p}g ${p}lg ${p}gl
    program "$c" "an implementation each, declarations of both" ${p}L ${p}G ${p}lg ${p}gl
    program "$c" "declarations of one before the implementation of the other, and the reverse" ${p}lG ${p}gL
    program "$c" "declarations of one after the implementation of the other, and the reverse" ${p}Lg ${p}Gl
    program "$c" "implementation after declarations of the same header" ${p}lL ${p}l
    program "$c" "the first header again after the second" ${p}Lgl ${p}G
    program "$c" "static copies next to an exported one" ${p}sL ${p}sG ${p}sLG ${p}LG ${p}g
    exported "$c" ${p}L '^tinyllm_\|^tllm_' ${p}L
    exported "$c" ${p}G '^tinygnn_\|^tgnn_' ${p}G
    exported "$c" ${p}sLG '^none$' ${p}sLG
}
# the bodies in several units of the program; two headers split in one program share no name, and a missing part is a
# link error that names it
parts() {
    one=$1
    for i in 1 2 3; do
        unit "$one" "$2part$i" L -O0 -DTINY_NO_SIMD -DUNIT_MORE -DTINYLLM_ALL -DTINYLLM_PARTS=3 -DTINYLLM_PART=$i $3
        [ $i = 3 ] || unit "$one" "$2gpart$i" G -O0 -DTINY_NO_SIMD -DUNIT_MORE -DTINYGNN_ALL -DTINYGNN_PARTS=2 \
            -DTINYGNN_PART=$i $3
    done
    program "$one" "an implementation in three units" ${2}part1 ${2}part2 ${2}part3
    program "$one" "both implementations, each in several units" ${2}part1 ${2}part2 ${2}part3 ${2}gpart1 ${2}gpart2
    # shellcheck disable=SC2046
    if $(compiler ${quick:-$one}) "$dir/${2}part1.o" "$dir/${2}part3.o" $pthread -o "$dir/program" \
        >"$dir/log" 2>&1; then
        bad "$one: a missing part is accepted"
    elif grep -q 'tinyllm_part_2_of_3_all' "$dir/log"; then
        good
    else
        bad "$one: a missing part" "$dir/log"
    fi
}
# every exported name has the prefix of its header (or is the unit's own function)
exported() {
    command -v nm >/dev/null 2>&1 || return 0
    names=$(nm -g --defined-only "$dir/$2.o" 2>/dev/null | awk '{ print $NF }' | sed 's/^_//' | grep -v "$3" |
        grep -v "^$4\$" | tr '\n' ' ')
    if [ -z "$names" ]; then good; else bad "$1: $2 exports $names"; fi
}

pthread=-pthread
first=
for c in gcc clang cc; do
    if there $c; then first=$c; break; fi
done
shapes_of_first() {
    if [ "$full" != all ] && there tcc; then quick=tcc; fi
    shapes $first "c_"
    quick=
}
compilers() {
    unit $first other_L L -O0 -DTINY_NO_SIMD

    # the whole thing: no compiler warns about both headers in one unit with all vector code. Its code without vectors
    # runs, alone and linked with code of another compiler. Vector code is run from clang; all other tests run gcc's.
    for c in gcc clang g++ clang++ gcc11 g++11 clang++11; do
        if ! there $c; then skip "no $c"; continue; fi
        p=$(echo "w_$c" | tr '+' 'p')_
        if [ "$full" = all ]; then
            shapes $c "$p"
            for o in O0 O2 O3; do
                unit $c "$p$o" LG -$o && program $c "both headers in one unit at -$o" "$p$o"
            done
            unit $c "${p}_openmp" LG -O2 -fopenmp && pthread='-pthread -fopenmp' &&
                program $c "with OpenMP" "${p}_openmp"
            pthread=-pthread
        else
            case $c in *11) continue ;; esac
            unit $c "${p}vector" LG -fsyntax-only -DUNIT_ALL && good
            scalar=-DTINY_NO_SIMD
            [ $c != clang ] || scalar=
            unit $c "${p}LG" LG -O0 $scalar && program $c "both headers in one unit" "${p}LG"
            unit $c "${p}l" l -O0 && program $c "the implementation from another compiler" other_L "${p}l"
        fi
    done

    if there tcc; then
        pthread='-pthread'
        unit tcc tcc_L L && unit tcc tcc_l l && program tcc "scalar under tcc" tcc_L tcc_l
        unit tcc tcc_LG LG && program tcc "both headers in one unit under tcc" tcc_LG
    else
        skip "no tcc"
    fi

    # every option, alone and together
    pthread=-pthread
    options='TINY_NO_OPENMP TINY_NO_SIMD TINY_NO_SIMDE TINY_NO_STDIO TINY_NO_MALLOC TINY_NO_HUGE_PAGES TINY_NO_CONFORM'
    options="$options TINY_NO_W128 TINY_NO_AVX2 TINY_NO_AVX512 TINY_NO_AMX TINY_NO_VNNI TINYLLM_FEW_FORMATS"
    all=
    for o in $options; do all="$all -D$o"; done
    light
    # shellcheck disable=SC2086
    unit $first opt_all LG -O0 -DMY_ALLOCATOR $all && program $first "all options" opt_all
    quick=
    # shellcheck disable=SC2086
    reads opt_read LG -DMY_ALLOCATOR $all
    # shellcheck disable=SC2086
    if there g++; then unit g++ optpp_all LG -O0 -DMY_ALLOCATOR $all && program g++ "all options in C++" optpp_all; fi
    # parts that only tinyllm.h can omit, with the vector code of one target, as in a small program
    one=scalar
    [ "$(uname -m)" != x86_64 ] || one=w128
    # the smallest chat program, and one target with all the rest
    small="-DTINY_ONLY_TARGET=scalar -DTINYLLM_FEW_FORMATS -DTINYLLM_ONLY_CHAT -DTINYLLM_NO_TEMPLATES"
    small="$small -DTINY_NO_MESSAGES"
    # shellcheck disable=SC2086
    unit $first opt_chat L -O1 $small -DTINYLLM_ONLY_ARCH=llama -DTINYLLM_ONLY_TOKENIZER=RWKV &&
        program $first "the smallest chat program" opt_chat
    light
    # shellcheck disable=SC2086
    unit $first opt_archs L -O0 $small && program $first "a chat program for all architectures" opt_archs
    quick=
    # shellcheck disable=SC2086
    reads opt_archs_read L $small
    unit $first opt_target L -O0 -DTINY_ONLY_TARGET=$one && program $first "option TINY_ONLY_TARGET" opt_target
    if [ "$(uname -m)" = x86_64 ]; then
        for o in avx2 avx512; do unit $first opt_$o LG -fsyntax-only -DUNIT_ALL -DTINY_ONLY_TARGET=$o && good; done
    fi
    features
    if [ "$full" = all ]; then
        for o in $options; do unit $first opt_$o L -O0 -DMY_ALLOCATOR -D$o && program $first "option $o" opt_$o; done
    fi
}

# With clang and tcc, the first compiler only has to accept a choice without a warning, clang reports unused parts, and
# tcc's code runs. gcc's code runs in the shapes above, and at -O2 in all other tests.
light() { if [ "$full" != all ] && there tcc && there clang; then quick=tcc; fi; }
reads() { # object, shape, flags
    there clang || return 0
    object_of_reads=$1 shape_of_reads=$2
    shift 2
    unit clang "$object_of_reads" "$shape_of_reads" -fsyntax-only "$@" && good
}

# Features (src/features.txt). Each feature alone on top of the base, all but one, and the tiers: no warning, and no
# call to a missing function. A compiler checks each choice; the tiers are linked as well.
features() {
    command -v "$BUILD/stitch" >/dev/null 2>&1 && "$BUILD/stitch" src features "$dir/features" 2>"$dir/log" || {
        skip "features: no build/stitch or no src/"
        return
    }
    for t in TOOLS LAB ALL; do
        light
        unit $first tier_$t LG -O0 -DTINY_NO_SIMD -DUNIT_MORE -DTINYLLM_$t -DTINYGNN_$t &&
            program $first "tier $t" tier_$t
        quick=
        for c in clang g++ clang++; do
            there $c || continue
            unit $c "tier_$(echo $c | tr + p)$t" L -fsyntax-only -DTINY_NO_SIMD -DTINYLLM_$t && good
        done
        reads tier_both$t LG -DTINY_NO_SIMD -DUNIT_MORE -DTINYLLM_$t -DTINYGNN_$t
    done
    light
    unit $first all_L L -O0 -DTINY_NO_SIMD -DUNIT_ALL && program $first "all of tinyllm.h" all_L
    unit $first all_G G -O0 -DTINY_NO_SIMD -DUNIT_ALL && program $first "all of tinygnn.h" all_G
    quick=
    reads all_readG G -DTINY_NO_SIMD -DUNIT_ALL
    refuses "a feature without the one it needs" 'TINYLLM_WITH_GPTQ, and' L -DTINYLLM_WITH_GPTQ -DTINY_NO_LINALG
    refuses "a graph without edges" 'cannot do without EDGES' G -DTINY_NO_EDGES
    refuses "chat and everything" 'choose one' L -DTINYLLM_ONLY_CHAT -DTINYLLM_ALL
    # a chat program with more features
    unit $first chat_more L -O0 $small -DTINYLLM_WITH_GRAMMAR -DTINYLLM_WITH_ADAPTERS -DTINY_WITH_OPS -fsyntax-only &&
        good
    refuses "the old name of the default" 'is the default: do not define it' L -DTINY_ONLY_MODELS
    refuses "a second header after a smaller shared part" 'before the first of the two headers' Lg -DUNIT_LATE
    # each alone: by tcc, which is fast; `run.sh all` takes a compiler that warns
    one=tcc
    [ "$full" != all ] || one=$first
    there $one || { skip "no tcc: features one by one"; return; }
    while read -r wing tier part _; do
        case $wing in
        all) macro=TINY shapes='L G' ;;
        llm) macro=TINYLLM shapes=L ;;
        gnn) macro=TINYGNN shapes=G ;;
        esac
        [ "$tier" != BASE ] || continue
        for s in $shapes; do
            case $s$part in GEDGES | GSPARSE | GOPS | LDOC) continue ;; esac      # tinygnn.h and schemas need these
            unit $one "with_$part$s" $s -O0 -DTINY_NO_SIMD -DUNIT_MORE -D${macro}_WITH_$part &&
                program $one "feature $part alone" "with_$part$s"
            unit $one "no_$part$s" $s -O0 -DTINY_NO_SIMD -DUNIT_MORE -DTINYLLM_ALL -DTINYGNN_ALL -D${macro}_NO_$part ||
                continue
            # without OPS unit.c has nothing to call
            if [ $part = OPS ]; then good; else program $one "everything but $part" "no_$part$s"; fi
        done
    done <"$dir/features"
}
# refuses NAME SENTENCE SHAPE flags: an #error with this sentence
refuses() {
    what=$1 sentence=$2 shape=$3
    shift 3
    # shellcheck disable=SC2046
    if $(compiler $first) -I"$INC" -DUNIT=x -DSHAPE_$shape "$@" -Wfatal-errors -fsyntax-only \
        $here/unit.c >"$dir/log" 2>&1; then
        bad "$what is accepted"
    elif grep -q "error.*$sentence" "$dir/log"; then
        good
    else
        bad "$what" "$dir/log"
    fi
}

# features.npy for the program of the manual: (3, 2) numbers f4, 1 2 3 4 5 6
manual_x() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"
    printf '\0\0\200\077\0\0\0\100\0\0\100\100\0\0\200\100\0\0\240\100\0\0\300\100'
}
# a header under another file name in another folder, the programs of the manuals, sentences for invalid options
manners() {
    by=$first
    if [ "$full" != all ] && there tcc; then by=tcc; fi
    mkdir -p "$dir/renamed"
    cp "$INC/tinyllm.h" "$dir/renamed/my_llm.h"
    printf '%s\n' '#define TINYLLM_FILE "my_llm.h"' '#define TINYLLM_IMPLEMENTATION' '#include "renamed/my_llm.h"' \
        'int renamed(void);' 'int renamed(void) { return tiny_op_find("add") == NULL; }' >"$dir/renamed.c"
    # shellcheck disable=SC2046
    if $(compiler $by) -O0 -DTINY_NO_SIMD -I"$dir" -c "$dir/renamed.c" -o "$dir/renamed.o" >"$dir/log" 2>&1; then
        program $by "under another file name" renamed
    else
        bad "under another file name" "$dir/log"
    fi

    # the shortest program of each manual compiles and runs: one continues a text, one answers for each node of a graph
    mkdir -p "$dir/manual"
    cp examples/models/story.gguf "$dir/manual/model.gguf"
    printf '0 1\n1 2\n2 0\n' >"$dir/manual/edges.txt"
    manual_x >"$dir/manual/features.npy"
    for h in tinyllm tinygnn; do
        awk '/^ \*     #define TINY/ { on = 1 }
             /^ \* How to include/ { exit }
             on { sub(/^ \*     ?/, ""); sub(/^ \*$/, ""); print }' "$INC/$h.h" >"$dir/manual/$h.c"
        # shellcheck disable=SC2046
        $(compiler $by) -O0 -DTINY_NO_SIMD -I"$INC" "$dir/manual/$h.c" $pthread -o "$dir/manual/$h" \
            >"$dir/log" 2>&1 && (cd "$dir/manual" && ./$h) >"$dir/log" 2>&1
        status=$?
        case $h in
        tinyllm) grep -q '[a-z] [a-z]' "$dir/log" || status=1 ;;
        tinygnn)
            sum=$(tail -c 24 "$dir/manual/answer.npy" | od -An -tf4 |
                awk '{ for (i = 1; i <= NF; i++) s += $i } END { printf "%.3f", s }')
            [ "$sum" = 21.000 ] || status=1
            ;;
        esac
        if [ $status -eq 0 ]; then good; else bad "the shortest program in the manual of $h.h" "$dir/log"; fi
    done

    # an unknown name is refused with the list of the known names and no other error; each row has its name
    # shellcheck disable=SC2046
    $(compiler $first) -I"$INC" -DTINY_ONLY_TARGET=AVX2 -DTINYLLM_ONLY_ARCH=gemma-embedding \
        -DTINYLLM_ONLY_TOKENIZER=spm -DTINY_NO_SIMD -DUNIT=x -DSHAPE_L -fsyntax-only $here/unit.c 2>&1 |
        grep 'error:\|warning:' >"$dir/log"
    for o in TINY_ONLY_TARGET TINYLLM_ONLY_ARCH TINYLLM_ONLY_TOKENIZER; do
        if grep -q "tiny: $o must be .*, .* or \|tiny: $o must be one of .*, " "$dir/log"; then
            good
        else
            bad "an unknown name in $o" "$dir/log"
        fi
    done
    if [ "$(grep -c . "$dir/log")" = 3 ]; then good; else bad "unknown names give other errors too" "$dir/log"; fi
    sed -n 's/^ *ROW(\([a-z0-9_]*\), "[^"]*", .*/\1/p' "$INC/tinyllm.h" >"$dir/rows"
    sed -n 's/^#define TINYI_LM_KNOWS_\([a-z0-9_]*\) 1$/\1/p' "$INC/tinyllm.h" >"$dir/known"
    sed -n 's/.*TINYLLM_ONLY_ARCH must be one of \([a-z0-9_, ]*\).*/\1/p' "$dir/log" | tr -d ' ' | tr ',' '\n' \
        >"$dir/said"
    if [ -s "$dir/rows" ] && cmp -s "$dir/rows" "$dir/known" && cmp -s "$dir/rows" "$dir/said"; then
        good
    else
        bad "the names of TINYLLM_ONLY_ARCH are not those of the rows"
    fi

    # two versions in one unit are refused with a sentence
    mkdir -p "$dir/other"
    cp "$INC/tinyllm.h" "$dir/other/"
    sed 's/0x\([0-9a-f]*\)$/0x1/' "$INC/tinygnn.h" >"$dir/other/tinygnn.h"
    # shellcheck disable=SC2046
    if $(compiler $first) -I"$dir/other" -DUNIT=x -DSHAPE_lg -fsyntax-only $here/unit.c >"$dir/log" 2>&1; then
        bad "two versions in one unit are accepted"
    elif grep -q 'different versions' "$dir/log"; then
        good
    else
        bad "two versions in one unit" "$dir/log"
    fi
}

if [ "$half" != compilers ]; then shapes_of_first; manners; fi
if [ "$half" != shapes ]; then compilers; fi
[ $failed -ne 0 ] || rm -rf "$dir"
printf '%d passed, %d failed' $passed $failed
[ $skipped -eq 0 ] || printf ', %d skipped' $skipped
echo
[ $failed -eq 0 ]
