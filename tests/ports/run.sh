#!/bin/sh
# The same bits everywhere: builds tests/ports/checksums.c for each platform, runs it there (emulated if needed) and
# compares the output with tests/golden/*-checksums.txt. Also runs the conformance kit over the SIMD targets of the
# platform, and a program with both headers in two units. A platform whose tools are missing is "not run", never passed.
#   run.sh [NAME...]    only the platforms whose name contains one of these
#   run.sh record       writes the golden files from a build of this machine
#   run.sh --check      only the row of tcc, to see that this script works: seconds
# JOBS platforms at a time (one for each processor). The table is printed and written to $BUILD/ports/table.md.
BUILD=${BUILD:-build} INC=${INC:-.}
dir=$BUILD/ports
mkdir -p "$dir/simde-only"
# the system's SIMDe and nothing else of its headers, for the cross compilers
[ ! -d /usr/include/simde ] || [ -e "$dir/simde-only/simde" ] || ln -s /usr/include/simde "$dir/simde-only/simde"
here=$(pwd)
case $BUILD in /*) full=$BUILD/ports ;; *) full=$here/$BUILD/ports ;; esac
oracle=$(sh tests/place.sh oracle/llm/index.tsv)

if [ "$1" = record ]; then
    ${CC:-cc} -O1 -std=c99 -DPORT_IMPLEMENTATION -I"$INC" tests/ports/checksums.c tests/ports/models.c \
        tests/ports/procedures.c -o "$dir/record" -lm || exit 1
    "$dir/record" --models $oracle >"$dir/recorded" || exit 1
    put() { # file, first line, what
        { echo "$2"; cat; } >"$dir/golden" && mv "$dir/golden" "$1" && echo "recorded $(grep -vc '^#' "$1") checksums"
    }
    grep -v '^OK \|^model:' "$dir/recorded" | put tests/golden/reference-checksums.txt \
        '# operation, seed, checksum of the reference: see tests/ports/checksums.c'
    if [ $oracle = tests/golden/oracle/llm ]; then
        echo 'model-checksums.txt is not written: not all of its models are here'
        exit 0
    fi
    grep '^model:' "$dir/recorded" | put tests/golden/model-checksums.txt \
        '# model of the oracle, 0, checksum of its logits by the reference: see tests/ports/models.c'
    exit 0
fi
[ "$1" != --check ] || set -- "$(uname -m) tcc"
printf '#define TINYLLM_ALL\n#define TINYLLM_IMPLEMENTATION\n#include "tinyllm.h"\n' >"$dir/library.c"
golden=$dir/expected
sh tests/ports/golden.sh $oracle >"$golden"

table=$dir/table.md
passed=0 failed=0 notrun=0
line() { printf '| %-26s | %-34s | %-22s | %-24s | %-10s |\n' "$@"; }
{
    line platform compiler 'reference bits' 'targets within bounds' 'two units'
    line --- --- --- --- ---
} | tee "$table"

has() { command -v "$1" >/dev/null 2>&1; }
wanted() { # name: is it named on the command line?
    [ -n "$only" ] || return 0
    echo "$only" | while read -r o; do case $1 in *"$o"*) echo yes ;; esac; done | grep -q yes
}
only=$(for o in "$@"; do echo "$o"; done)

jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}
queued=0 printed=0 two_done=
drain() { # waits for the running jobs and prints their rows in order
    wait
    while [ $printed -lt $queued ]; do
        printed=$((printed + 1))
        tee -a "$table" <"$dir/job.$printed"
        sed 's/^/    /' "$dir/job.$printed.says"
        case $(cat "$dir/job.$printed.verdict") in
        passed) passed=$((passed + 1)) ;;
        'not run') notrun=$((notrun + 1)) ;;
        *) failed=$((failed + 1)) ;;
        esac
    done
}
# platform NAME RUNNER COMPILER FLAGS: RUNNER is a command before the program's path, "" for this machine. Two units are
# tried once for each platform, with its first compiler.
platform() {
    wanted "$1" || return 0
    with_units=yes
    [ "$1" != "$two_done" ] || with_units=
    two_done=$1
    queued=$((queued + 1))
    : >"$dir/job.$queued.says"
    echo failed >"$dir/job.$queued.verdict"
    run_platform "$dir/job.$queued" "$with_units" "$@" >"$dir/job.$queued" 2>>"$dir/job.$queued.says" &
    [ $((queued - printed)) -lt "$jobs" ] || drain
}
# NAME WHY [SENTENCE]: the row of a platform whose tools are missing
missing() {
    wanted "$1" || return 0
    line "$1" - "not run: $2" - - | tee -a "$table"
    [ -z "${3:-}" ] || echo "    $3"
    notrun=$((notrun + 1))
}
# JOB WITH_UNITS, then as platform: prints the row
run_platform() {
    job=$1 with_units=$2 name=$3 runner=$4 cc=$5 flags=$6
    shown="$(echo "$cc" | sed 's/.*\///') $(echo "$flags" | sed 's/-DTINY_NO_AVX512 -DTINY_NO_VNNI//' |
        sed 's/-I[^ ]*//g; s/-static//; s/-std=c99//; s/-lm//; s/-D_WASI[^ ]*//g; s/  */ /g')"
    row() { line "$name" "$shown" "$1" "$2" "$3"; echo "$4" >"$job.verdict"; }
    for tool in "${cc%% *}" "${runner%% *}"; do
        if [ -n "$tool" ] && ! has "$tool"; then row "not run: no $tool" - - 'not run'; return; fi
    done
    exe=$dir/$(echo "$name$flags" | tr -c 'a-zA-Z0-9\n' '_' | cut -c1-60)$suffix
    # with -ffast-math gcc links a start file that flushes denormals in the whole process: compiled with it, linked
    # without it
    # shellcheck disable=SC2086
    if ! { $cc $flags -I"$INC" -c "$dir/library.c" -o "$exe.library.o" &&
        $cc $flags -I"$INC" -c tests/ports/checksums.c -o "$exe.o" &&
        $cc $flags -I"$INC" -c tests/ports/models.c -o "$exe.models.o" &&
        $cc $flags -I"$INC" -c tests/ports/procedures.c -o "$exe.procedures.o" &&
        $cc $(echo "$flags" | sed 's/-ffast-math//') "$exe.o" "$exe.models.o" "$exe.procedures.o" \
            "$exe.library.o" -o "$exe" $libs; } >"$exe.log" 2>&1; then
        if grep -q -e 'cannot find -l' -e 'stdio.h.*o such file' -e 'stdio.h.*not found' -e 'libc-header-start.h' \
            -e 'cannot find crt' -e 'unable to find library' -e 'cannot open .*crt' "$exe.log"; then
            row 'not run: no C library' - - 'not run'
        else
            row 'DOES NOT COMPILE' - - failed
            grep -m 3 error "$exe.log" >&2
        fi
        return
    fi
    # shellcheck disable=SC2086
    $limit $runner "$exe" --run $oracle >"$exe.out" 2>"$exe.err"
    status=$?
    # a runner that cannot print hello counts as a missing tool, not as a wrong result
    if [ ! -s "$exe.out" ] && [ -n "$runner" ] && ! hello; then
        row "not run: ${runner%% *} fails" - - 'not run'
        return
    fi
    verdict=passed
    grep -v '^target' "$exe.out" >"$exe.sums"
    if said=$(sh tests/ports/compare.sh "$exe.sums" "$golden"); then
        bits="same, $(echo "$said" | tail -n 1 | sed 's/ passed.*//')"
    elif ! float_products; then
        row "not run: faulty emulator" - - 'not run'
        echo "${runner%% *} multiplies two floats to an incorrect double (MDEB of s390x under QEMU 7.2);" \
            "QEMU_S390X=... names a newer one" >&2
        return
    else
        bits=DIFFERENT verdict=failed
        { echo "$said" | head -n 4; head -n 4 "$exe.err"; } >&2
    fi
    targets=$(tr -d '\r' <"$exe.out" | sed -n 's/^target \([a-z0-9]*\) passed$/\1/p' | tr '\n' ' ')
    wrong=$(tr -d '\r' <"$exe.out" | sed -n 's/^target \([a-z0-9]*\) FAILED$/\1/p' | tr '\n' ' ')
    if [ -n "$wrong" ] || { [ $status -ne 0 ] && [ "$bits" != DIFFERENT ]; }; then
        targets="${targets}FAILED: ${wrong:-status $status}"
        verdict=failed
    fi
    [ -z "$blocks" ] || block_tests 'borders eight format matmul pass sparse' "" || verdict=failed
    two=-
    [ -z "$with_units" ] || two=$(two_units)
    case $two in passed | -) ;; *) verdict=failed ;; esac
    row "$bits" "$targets" "$two" "$verdict"
}

hello() {
    printf '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n' >"$job.c"
    # shellcheck disable=SC2086
    $cc $flags "$job.c" -o "$job.hello$suffix" $libs >/dev/null 2>&1 &&
        [ "$($runner "$job.hello$suffix" 2>/dev/null | tr -d '\r')" = hello ]
}

# TESTS RUNNER-END...: tests of products with block formats, once for each end of the runner; says which failed
block_tests() {
    bad= tests=$1
    shift
    for t in $tests; do
        # shellcheck disable=SC2086
        if ! $cc $flags -I"$INC" -Itests tests/llm/block/$t.c "$exe.library.o" -o "$exe.$t$suffix" $libs \
            >"$exe.$t.log" 2>&1; then
            bad="$bad $t (no build)"
            continue
        fi
        for more in "$@"; do
            # shellcheck disable=SC2086
            $limit $runner $more "$exe.$t$suffix" >"$exe.$t.log" 2>&1 || bad="$bad $t${more:+ ($more)}"
        done
    done
    [ -z "$bad" ] || echo "tests/llm/block failed:$bad" >&2
    [ -z "$bad" ]
}
# PROCESSOR...: the conformance kit on the widest target of each, which ends the runner; says which failed
kit() {
    bad=
    # shellcheck disable=SC2086
    if ! $cc $flags -I"$INC" -I. tests/conformance.c "$exe.library.o" -o "$exe.kit" $libs >"$exe.kit.log" 2>&1; then
        echo 'tests/conformance.c: no build' >&2
        return 1
    fi
    for more in "$@"; do
        # shellcheck disable=SC2086
        $limit $runner $more "$exe.kit" --target neon --cases 8 >"$exe.kit.log" 2>&1 || bad="$bad $more"
    done
    [ -z "$bad" ] || echo "the conformance kit failed:$bad" >&2
    [ -z "$bad" ]
}
# NAME RUNNER COMPILER FLAGS PROCESSOR...: the shorter tests of tests/llm/block and the conformance kit on each of these
# processors, which end the runner; nothing else is compared there
levels() {
    wanted "$1" || return 0
    drain
    name=$1 runner=$2 cc=$3 flags=$4 exe=$dir/levels bits=- ran=FAILED
    shift 4
    for tool in "$cc" "${runner%% *}"; do
        if ! has "$tool"; then missing "$name" "no $tool"; return; fi
    done
    # shellcheck disable=SC2086
    if ! $cc $flags -I"$INC" -c "$dir/library.c" -o "$exe.library.o" >"$exe.log" 2>&1; then bits='DOES NOT COMPILE'
    elif block_tests 'borders eight format pass' "$@" && kit "$@"; then ran=$(echo "$@" | sed 's/cortex-//g'); fi
    line "$name" "$cc" "$bits" "$ran" - | tee -a "$table"
    if [ "$ran" = FAILED ]; then failed=$((failed + 1)); else passed=$((passed + 1)); fi
}

# QEMU 7.2 reads the first operand of MDEB and MDEBR of s390x (two floats multiplied to a double) as a double: 1.5 * 3
# is 0.375. clang uses these instructions (in the scans of recurrent models, in flash_matmul, gptq and plain rounding),
# gcc does not. The same program is right under QEMU 10. Called only where bits differ.
float_products() {
    cat >"$job.c" <<'END'
static double product(float a, float b) { return (double)a * (double)b; }
static double (*volatile wide)(float, float) = product;
int main(void) { return !(wide(1.5f, 3.0f) == 4.5); }
END
    # shellcheck disable=SC2086
    ! $cc $flags "$job.c" -o "$job.wide$suffix" $libs >/dev/null 2>&1 || $runner "$job.wide$suffix" >/dev/null 2>&1
}

# both headers implemented in one unit, declarations of both in a second
two_units() {
    # shellcheck disable=SC2086
    $cc $flags -O0 -I"$INC" -DUNIT=u1 -DSHAPE_LG -DTINY_NO_SIMD -c tests/units/unit.c -o "$job.u1.o" >"$job.log" 2>&1 &&
        $cc $flags -O0 -I"$INC" -DUNIT=u2 -DSHAPE_gl -c tests/units/unit.c -o "$job.u2.o" >>"$job.log" 2>&1 &&
        $cc $flags '-DUNITS=X(u1) X(u2)' -c tests/units/main.c -o "$job.um.o" >>"$job.log" 2>&1 &&
        $cc $flags "$job.um.o" "$job.u1.o" "$job.u2.o" -o "$job.u$suffix" $libs >>"$job.log" 2>&1 ||
        { echo 'NO BUILD'; return; }
    # shellcheck disable=SC2086
    if $limit $runner "$job.u$suffix" >/dev/null 2>&1; then echo passed; else echo FAILED; fi
}

limit=
has timeout && limit='timeout 1800'
suffix= libs=-lm
simde=-I$dir/simde-only
blocks=                                     # not empty: tests/llm/block too

machine=$(uname -m)
# vector code that this processor cannot run takes half of the compile time: only the first row compiles it
few=
if [ -r /proc/cpuinfo ] && ! grep -q avx512f /proc/cpuinfo; then few='-DTINY_NO_AVX512 -DTINY_NO_VNNI'; fi
platform "$machine gcc" '' gcc '-std=c99 -O0'
for o in '-O3' '-O3 -march=native' '-O2 -ffast-math'; do platform "$machine gcc" '' gcc "-std=c99 $o $few"; done
for o in -O0 '-O3' '-O3 -march=native'; do platform "$machine clang" '' clang "-std=c99 $o $few"; done
platform "$machine tcc" '' tcc '-std=c99'
platform "$machine without SIMDe" '' gcc "-std=c99 -O2 -DTINY_NO_SIMDE $few"
# tiles of AMX in plain C, on a processor that has the vectors of the target amx
if [ "$machine" = x86_64 ] && grep -q avx512_bf16 /proc/cpuinfo 2>/dev/null && grep -q avx512vbmi /proc/cpuinfo; then
    platform "$machine amx in C" '' gcc '-std=c99 -O1 -include tests/llm/block/amx_in_c.h'
fi
# products of bfloat16 in plain C, on a processor that has the other vectors of avx512
if [ "$machine" = x86_64 ] && grep -q avx512_vnni /proc/cpuinfo 2>/dev/null; then
    platform "$machine bf16 in C" '' gcc '-std=c99 -O1 -include tests/llm/block/bf16_in_c.h'
fi
[ "$machine" != x86_64 ] || platform "$machine w128 by SIMDe" '' gcc "-std=c99 -O2 -DTINYI_W128_SIMDE $few"

cross() { # name, triple, qemu, flags for both compilers, flags for gcc
    platform "$1 gcc" "$3" "$2-gcc" "-std=c99 -static -O0 $4 $5 $simde"
    platform "$1 gcc" "$3" "$2-gcc" "-std=c99 -static -O3 $4 $5 $simde"
    if has "$2-gcc"; then platform "$1 clang" "$3" clang "--target=$2 -std=c99 -static -O3 $4 $simde"; fi
}
cross aarch64 aarch64-linux-gnu 'qemu-aarch64-static -cpu max'
levels 'aarch64 processors' 'qemu-aarch64-static -cpu' aarch64-linux-gnu-gcc "-std=c99 -static -O1 $simde" \
    cortex-a53 cortex-a72 cortex-a76 max
cross 'armhf (32-bit)' arm-linux-gnueabihf 'qemu-arm-static -cpu max' -mfpu=neon
i386=
[ "$machine" = x86_64 ] || i386=qemu-i386-static
cross 'i386 (32-bit)' i686-linux-gnu "$i386" "-msse2 -mfpmath=sse $few"
cross riscv64 riscv64-linux-gnu qemu-riscv64-static
cross 's390x (big-endian)' s390x-linux-gnu "${QEMU_S390X:-qemu-s390x-static}" '' -fexcess-precision=fast

# WebAssembly: Debian's emscripten needs the path of its node modules, and node 18 or newer without its own fetch
NODE_PATH=${NODE_PATH:-}$(for d in /usr/share/nodejs /usr/lib/nodejs /usr/lib/*/nodejs; do
    [ ! -d "$d" ] || printf ':%s' "$d"
done)
export NODE_PATH
node=node
! node --no-experimental-fetch -e 0 >/dev/null 2>&1 || node='node --no-experimental-fetch'
drain
suffix=.js libs='-sALLOW_MEMORY_GROWTH=1 -sSTACK_SIZE=1048576 -sEXIT_RUNTIME=1 -sNODERAWFS=1'
emcc_works() {
    printf 'int main(void) { return 0; }' >"$dir/hello.c"
    emcc "$dir/hello.c" -sSTACK_SIZE=1048576 -o "$dir/hello.js" >/dev/null 2>&1
}
if has emcc && ! emcc_works; then
    libs='-sALLOW_MEMORY_GROWTH=1 -sTOTAL_STACK=1048576 -sEXIT_RUNTIME=1 -sNODERAWFS=1'
fi
platform 'wasm, no SIMD' "$node" emcc "-std=c99 -O0 $simde"
platform 'wasm' "$node" emcc "-std=c99 -O3 -msimd128 $simde"

# Relaxed SIMD, which the compiler of emscripten 3.1.6 does not know: a newer clang with wasi-libc, and a Node.js that
# computes it. Node.js 20, with its flag, loses the 5 of this product.
drain
suffix=.wasm blocks=yes
libs='-lwasi-emulated-mman -lwasi-emulated-signal -Wl,-z,stack-size=1048576'
libs="$libs -O0"                            # no wasm-opt, which may be older than the instructions
relaxed='--target=wasm32-wasi -msimd128 -mrelaxed-simd -D_WASI_EMULATED_MMAN -D_WASI_EMULATED_SIGNAL'
cat >"$dir/relaxed.c" <<'END'
#include <stdio.h>
typedef signed char bytes __attribute__((vector_size(16)));
typedef int ints __attribute__((vector_size(16)));
int main(int argc, char **argv)
{
    const bytes a = (signed char)(-127 - argc) - (bytes){ 0 }, b = (signed char)127 - (bytes){ 0 };
    const ints c = 5 - (ints){ 0 }, y = __builtin_wasm_relaxed_dot_i8x16_i7x16_add_s_i32x4(a, b, c);
    puts(argv && y[0] == 4 * -128 * 127 + 5 ? "right" : "wrong");
    return 0;
}
END
relaxed_clang() { # prints the compiler
    for cc in clang-22 clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang; do
        # shellcheck disable=SC2086
        if has $cc && $cc $relaxed -O2 -c "$dir/relaxed.c" -o "$dir/relaxed.o" &&
            $cc $relaxed "$dir/relaxed.o" -o "$dir/relaxed.wasm"; then
            echo "found $cc"
            return
        fi
    done
}
if wanted 'wasm, relaxed SIMD'; then
    cc=$(relaxed_clang 2>/dev/null | sed -n 's/^found //p')
    node="${NODE_WASI:-node} --no-warnings tests/ports/wasi.mjs"
    if [ -z "$cc" ]; then
        missing 'wasm, relaxed SIMD' 'no clang 16' 'clang 16 or newer with lld, wasi-libc and a runtime for wasm32'
    elif [ "$($node "$dir/relaxed.wasm" 2>/dev/null)" != right ]; then
        missing 'wasm, relaxed SIMD' 'Node.js lacks it' 'NODE_WASI=/path/node names one that has relaxed SIMD'
    else
        platform 'wasm, relaxed SIMD' "$node" "$cc" "$relaxed -std=gnu99 -O3 $simde"
    fi
fi

# Windows
blocks=
wine=wine64
has wine64 || wine=wine
has $wine || [ ! -x /usr/lib/wine/wine64 ] || wine=/usr/lib/wine/wine64
export WINEPREFIX="$full/wine" WINEDEBUG=-all DISPLAY= WINEDLLOVERRIDES='mscoree,mshtml='
drain
suffix=.exe libs=-lws2_32
platform 'windows x86_64' $wine x86_64-w64-mingw32-gcc "-std=c99 -static -O0 $few"
platform 'windows x86_64' $wine x86_64-w64-mingw32-gcc "-std=c99 -static -O3 $few"

drain
[ $notrun -eq 0 ] || echo "$notrun not run"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
