#!/bin/sh
# make test-mpi: the transport over MPI and the programs of $PROGRAMS, with 2, 4 and 8 processes of this machine, for
# each MPI that is here: Open MPI and MPICH by the names of Debian, else the mpicc and mpirun of the PATH. Without any
# it says so in one line. The last line is: N passed, N failed.
#   RANKS="2 4"       these numbers of processes
#   KINDS="openmpi"   only this one
BUILD=${BUILD:-build} INC=${INC:-.} MAKE=${MAKE:-make} PROGRAMS=${PROGRAMS:-ranks} RANKS=${RANKS:-2 4 8}
KINDS=${KINDS:-openmpi mpich}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# processes of one container may not read each other's memory; they copy through shared memory then
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_hwloc_base_binding_policy=none
export OMP_NUM_THREADS=1 UCX_LOG_LEVEL=error
log=$(mktemp)
trap 'rm -f "$log" "$log.lines"' EXIT
limit=
command -v timeout >/dev/null 2>&1 && limit='timeout -k 5 90'
passed=0 failed=0

tried() { # what, status; the log says why
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        printf '%-60s %s\n' "$1" \
            "$(grep -E '^([0-9]* passed|the same|check: |compared|one rank|rank [0-9])' "$log" | tail -n 1)"
    else
        failed=$((failed + 1))
        printf '%-60s failed with status %s\n' "$1" "$2"
        sed 's/^/    /' "$log" | head -n 40
    fi
}
runs() { # number, command: its output in the log
    # shellcheck disable=SC2086
    $limit "$mpirun" -n "$@" >"$log" 2>&1 </dev/null
}
# what a program is run with on $n processes: a line for each run
lines_of() {
    story=examples/models/story.gguf mixture=tests/golden/oracle/llm/mixtral.gguf
    case $1 in
    ranks)
        [ "$n" -gt 2 ] && echo "$BUILD/mpi/model.gguf --tokens 20" || echo $story
        [ "$n" -gt 2 ] && echo "$BUILD/mpi/model.gguf --rules" || echo "$story --rules"
        ;;
    prima) echo run $story Once --n 8 ;;
    distserve) echo run $story --requests 10 --rate 100 --prompt 32 --output 8 ;;
    onebyte)
        echo blobs --steps 40
        echo story examples/models/story-small.gguf --steps 2 --samples 1
        ;;
    noloco) echo --steps 40 --inner 10 ;;
    sbp)
        echo run --width 64
        echo stages --items 100
        ;;
    pipeline)
        echo
        [ "$n" -ne 4 ] || {
            echo --tensor 2 --steps 20
            echo --data 2 --steps 20
            echo --chunks 2 --steps 20
        }
        ;;
    moe_fold)
        echo
        [ "$n" -gt 4 ] && echo "$mixture --etp 2" || echo "$mixture"
        echo "$mixture --drop probs"
        ;;
    easyspec) echo $story --draft $story --n 16 ;;
    energon) echo $story --texts 8 ;;
    *) echo ;;
    esac
}
all() { # name, mpicc, mpirun
    name=$1 mpirun=$3 at=$BUILD/mpi/$1
    if ! $MAKE -s --no-print-directory mpi MPI="$at" MPICC="$2" >"$log" 2>&1; then
        tried "$name: building" 1
        return
    fi
    for n in $RANKS; do
        runs "$n" "$at/net"
        tried "$name, $n ranks: the transport" $?
        for program in $PROGRAMS; do
            case "$program $n" in 'prima 8' | 'energon 8') continue ;; esac     # its model has 4 layers
            lines_of "$program" >"$log.lines"
            while IFS= read -r line; do
                # shellcheck disable=SC2086
                runs "$n" "$at/$program" $line --check
                tried "$name, $n ranks: $program${line:+ $line} --check" $?
            done <"$log.lines"
        done
    done
    # a process that dies without a word: mpirun ends the run, unless it was told not to
    runs 3 "$at/net" die
    tried "$name: a rank is killed, all end" $(($? == 0 || $? == 124))
    # Here the ranks live on: Open MPI was told so; the mpirun of MPICH sees a shell that has not ended.
    rm -f "$at"/die.*
    # shellcheck disable=SC2016
    case $name in
    mpich) how='behind a shell' && $limit "$mpirun" -n 3 sh -c '"$0/net" die >"$0/die.$$" 2>&1; sleep 4' "$at" ;;
    *) how=--enable-recovery && $limit "$mpirun" $how -n 3 sh -c 'exec "$0/net" die >"$0/die.$$"' "$at" ;;
    esac >/dev/null 2>&1
    told=0
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        cat "$at"/die.* >"$log" 2>/dev/null
        told=$(grep -cE '^rank [02]: (PEER|TIMEOUT), rank [0-9]' "$log")
        [ "$told" -lt 2 ] || break
        sleep 1
    done
    tried "$name: a rank is killed, $how" $((told != 2))
}

mkdir -p "$BUILD/mpi"
[ -e "$BUILD/mpi/model.gguf" ] || {
    $MAKE -s --no-print-directory "$BUILD/make-model" &&
        "$BUILD/make-model" --shape 2M --type F16 "$BUILD/mpi/model.gguf"
} >"$log" 2>&1 || { tried 'making a model' 1; }
found=
for name in $KINDS; do
    command -v mpicc.$name >/dev/null 2>&1 && command -v mpirun.$name >/dev/null 2>&1 || continue
    found=1
    all "$name" "mpicc.$name" "mpirun.$name"
done
if [ -z "$found" ]; then
    if command -v mpicc >/dev/null 2>&1 && command -v mpirun >/dev/null 2>&1; then
        mpirun --version 2>&1 | grep -q 'Open MPI' && name=openmpi || name=mpich
        all "$name" mpicc mpirun
    else
        echo 'test-mpi: no mpicc and mpirun here (Debian: libopenmpi-dev openmpi-bin, or mpich): nothing was tried'
        echo '0 passed, 0 failed, 1 skipped'
        exit 0
    fi
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
