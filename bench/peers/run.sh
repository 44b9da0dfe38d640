#!/bin/sh
# make bench-peers: OpenBLAS, oneDNN, METIS (from Debian) and MKL (from PyPI, the library under PyTorch's products) in
# turns with ours, then whole models, graphs and training.
# Everything is installed into build/peers or as a system package. A missing peer is skipped with one line.
#   run.sh --check    every command of this script in its smallest size, in a minute or two. Only small Python packages
#                     are installed, missing peers are skipped, and no page of docs/ changes. The last line is:
#                     N passed, N failed, N skipped
set -u
BUILD=${BUILD:-build}
peers=$BUILD/peers
check=
[ "${1:-}" != --check ] || check=yes
mkdir -p "$peers"
passed=0 failed=0 skipped=0
skip() { skipped=$((skipped + 1)); echo "peers: $*"; }
# run NAME COMMAND...: a step; a failure is reported and the script goes on
run() {
    name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "peers: $name FAILED: $*"; fi
}
# size FULL SHORT: the options for a measurement, or those for --check
size() { if [ -n "$check" ]; then echo "$2"; else echo "$1"; fi; }
# venv NAME PACKAGE...: installs the packages, prints its python; --check has one venv with the small packages
venv() {
    if [ -n "$check" ]; then echo "$peers/check/bin/python"; return; fi
    name=$1
    shift
    if [ ! -d "$peers/$name" ]; then
        { python3 -m venv "$peers/$name" && "$peers/$name/bin/pip" -q install "$@"; } >/dev/null 2>&1 ||
            echo "peers: $* could not be installed from PyPI" >&2
    fi
    echo "$peers/$name/bin/python"
}
has() { "$1" -c "import $2" >/dev/null 2>&1; }
pages=docs/papers
if [ -n "$check" ]; then
    if [ ! -d "$peers/check" ]; then
        { python3 -m venv "$peers/check" &&
            "$peers/check/bin/pip" -q install numpy scipy gguf safetensors xllamacpp; } >/dev/null 2>&1 ||
            echo "peers: the small Python packages could not be installed"
    fi
    pages=$peers/pages
    mkdir -p "$pages"
    cp docs/papers/*.md docs/dev/*.md docs/dev/*.tsv "$pages"
    if [ ! -x "$peers/check/bin/python" ]; then
        echo 'peers: no python3 with venv, so nothing was run'
        echo '0 passed, 0 failed, 1 skipped'
        exit 0
    fi
    PYTHONPYCACHEPREFIX=$PWD/$peers/pycache
    export PYTHONPYCACHEPREFIX
    run 'syntax of the scripts' "$peers/check/bin/python" -m py_compile bench/peers/*.py tests/llm/model/*.py \
        tests/llm/token/*.py
elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get install -y --no-install-recommends libopenblas0-pthread libdnnl2 libmetis5 python3-venv >/dev/null 2>&1 ||
        echo "peers: apt-get could not install OpenBLAS, oneDNN and METIS"
fi
[ -n "$check" ] || venv venv mkl >/dev/null
first() { for f in "$@"; do if [ -e "$f" ]; then echo "$f"; return; fi; done; }
B_OPENBLAS=$(first /usr/lib/*/openblas-pthread/libopenblas.so.0 /usr/lib/*/libopenblas.so.0)
B_ONEDNN=$(first /usr/lib/*/libdnnl.so.2 /usr/lib/*/libdnnl.so.3)
B_MKL=$(first "$PWD/$peers"/venv/lib/libmkl_rt.so.* "$peers"/venv/lib/libmkl_rt.so.*)
B_METIS=$(first /usr/lib/*/libmetis.so.5)
export B_OPENBLAS B_ONEDNN B_MKL B_METIS
LD_LIBRARY_PATH=$PWD/$peers/venv/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
for name in OPENBLAS ONEDNN MKL METIS; do
    eval "path=\$B_$name"
    [ -n "$path" ] || skip "$name is not installed: no rows for it"
done
make -s --no-print-directory "$BUILD/bench" || exit 1
for section in $(size 'matmul matvec matmul_i8 graph' matvec); do
    # shellcheck disable=SC2046
    run "bench $section" "$BUILD/bench" --only "$section" $(size "--keep peers-$section" '--quick --no-save')
done
# sums over TCP loopback next to those of Open MPI
if command -v mpicc.openmpi >/dev/null 2>&1 && command -v mpirun.openmpi >/dev/null 2>&1; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    run 'sums and MPI' make -s --no-print-directory bench-mpi \
        MPI="$BUILD/mpi/openmpi" MPICC=mpicc.openmpi MPIRUN=mpirun.openmpi ROUNDS="$(size 21 1)" \
        MPI_RANKS="$(size '2 4 8' 2)"
else
    skip 'Open MPI is not installed: sums are not compared with it'
fi
# model files: the gguf and safetensors packages of PyPI read ours, and we read theirs
python=$(venv gguf gguf safetensors)
if has "$python" 'gguf, safetensors'; then
    make -s --no-print-directory "$BUILD/inspect" "$BUILD/libtinyllm.a" &&
        CC=${CC:-cc} run gguf_check "$python" bench/peers/gguf_check.py "$BUILD"
else
    skip 'gguf and safetensors are not installed: files are not compared'
fi
# whole models: llama.cpp and ik_llama.cpp through their Python packages, compiled here for this processor (a quarter of
# an hour each), on files of random weights
native=-DGGML_NATIVE=ON
# its AMX buffers crash when gcc 12 or clang 14 compiles them: all else of such a processor, then
if grep -q amx_tile /proc/cpuinfo 2>/dev/null; then
    native='-DGGML_NATIVE=OFF -DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON'
fi
if [ -z "$check" ] && [ ! -d "$peers/llama" ]; then
    { python3 -m venv "$peers/llama" && CMAKE_ARGS="$native -DLLAVA_BUILD=OFF" \
        "$peers/llama/bin/pip" -q install --no-binary llama-cpp-python llama-cpp-python; } >/dev/null 2>&1 ||
        echo "peers: llama-cpp-python could not be built"
fi
# The source package of ik-llama-cpp-python lacks a file of its command-line programs. So the binary package is
# installed, for AVX2, and its library replaced by one that is compiled from the sources
IK_LLAMA_CPP_LIB_PATH=$PWD/$peers/ik-sources/build/src/libllama.so
if [ -z "$check" ] && [ ! -d "$peers/ik" ]; then
    venv ik ik-llama-cpp-python >/dev/null
    "$peers/ik/bin/pip" -q download --no-deps --no-binary :all: -d "$peers/ik-sources" ik-llama-cpp-python \
        >/dev/null 2>&1 &&
        tar -xzf "$peers"/ik-sources/*.tar.gz -C "$peers/ik-sources" --strip-components=1 &&
        cmake -S "$peers/ik-sources/vendor/ik_llama.cpp" -B "$peers/ik-sources/build" -DCMAKE_BUILD_TYPE=Release \
            -DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF >/dev/null &&
        cmake --build "$peers/ik-sources/build" --target llama -j "$(nproc)" >/dev/null 2>&1
fi
if [ -e "$IK_LLAMA_CPP_LIB_PATH" ]; then export IK_LLAMA_CPP_LIB_PATH
elif [ -z "$check" ]; then echo 'peers: ik_llama.cpp was not compiled here: its package for AVX2 is used'
fi
python=$(size "$peers/llama/bin/python" "$peers/check/bin/python")
if [ -n "$check" ]; then
    # ours alone, then the table and the curve of the rows in the file
    make -s --no-print-directory "$BUILD/make-model" "$BUILD/bench-model" || exit 1
    skip 'llama-cpp-python, ik-llama-cpp-python, litert-lm and quantcpp are not part of --check'
    alone() {
        run "$1" "$python" bench/peers/models.py --build "$BUILD" --rows "$pages/speed.tsv" --alone --rounds 1 -n 4 \
            -t 1 "$2" "$3" examples/models/story-small.gguf
    }
    alone models -p 16
    alone 'models, batches' --batch 1,2
    run 'models, page' "$python" bench/peers/models.py --rows "$pages/speed.tsv" --page "$pages/speed.md" \
        --curve "$peers/batch.svg"
elif has "$python" llama_cpp; then
    make -s --no-print-directory "$BUILD/make-model" "$BUILD/bench-model" || exit 1
    ik=$peers/ik/bin/python
    has "$ik" ik_llama_cpp || { ik=; skip 'ik-llama-cpp-python is not installed: no rows for it'; }
    # compare SHAPE TYPE OPTIONS: one file at a time, since those of 1.1B are large
    compare() {
        file=$peers/$1-$2.gguf
        "$BUILD/make-model" --shape "$1" --type "$2" "$file" || return
        name="$1 $2"
        shift 2
        run "models $name" "$python" bench/peers/models.py --build "$BUILD" --rows docs/dev/speed.tsv \
            "$@" "$file"
        case "$*" in *--alone*) ;; *) [ -z "$ik" ] || run "ik $name" "$ik" bench/peers/models.py --build "$BUILD" \
            --rows docs/dev/speed.tsv --ik "$@" "$file" ;; esac
        rm -f "$file"
    }
    for type in Q4_0 Q4_K_M Q8_0 Q5_0 Q6_K IQ4_XS MXFP4 F16 BF16 F32; do compare 110M $type; done
    for type in Q4_0 Q4_K_M Q8_0 F16 F32; do compare 1.1B $type; done
    for type in Q4_K Q5_0 Q6_K BF16; do compare 1.1B $type --alone -p 0; done          # share of the bandwidth only
    for type in Q4_0 Q4_K Q8_0 F16; do compare 110M $type --batch 1,2,4,8,16,32,64; done
    # LiteRT-LM: its converter makes a file of the same shape (8 GB of packages)
    lite=$(venv litert litert-torch litert-lm)
    if has "$lite" 'litert_lm, litert_torch'; then
        for type in Q4_0 Q8_0; do
            file=$peers/110M-$type
            "$BUILD/make-model" --type $type "$file.gguf" &&
                "$lite" bench/peers/litert.py 110M $type "$file.litertlm" >/dev/null 2>&1 &&
                run "litert $type" "$lite" bench/peers/models.py --build "$BUILD" --rows docs/dev/speed.tsv --litert \
                    "$file.gguf" || skip "litert-torch made no file of type $type"
            rm -f "$file.gguf" "$file.litertlm"
        done
    else
        skip 'litert-torch and litert-lm are not installed: no rows for LiteRT-LM'
    fi
    # the nearest single header: its library compiled for this processor, as ours is
    other=$(venv quantcpp quantcpp)
    header=$(first "$peers"/quantcpp/lib/python3*/site-packages/quantcpp/_quant.h)
    QUANTCPP_LIB=$PWD/$peers/libquant.so
    export QUANTCPP_LIB
    if [ -n "$header" ] && printf '#define QUANT_IMPLEMENTATION\n#include "%s"\n' "$PWD/$header" |
        ${CC:-cc} -O3 -march=native -w -shared -fPIC -x c - -o "$QUANTCPP_LIB" -lm -lpthread; then
        "$BUILD/make-model" --shape 110M --type Q4_0 "$peers/110M-Q4_0.gguf" &&
            run quantcpp "$other" bench/peers/models.py --build "$BUILD" --rows docs/dev/speed.tsv --quantcpp \
                "$peers/110M-Q4_0.gguf"
        rm -f "$peers/110M-Q4_0.gguf"
    else
        skip 'quantcpp is not installed: no rows for it'
    fi
    run 'models, page' "$python" bench/peers/models.py --rows docs/dev/speed.tsv --page docs/dev/speed.md \
        --curve docs/img/batch.svg
else
    skip 'llama-cpp-python is not installed: no rows for it'
fi
# one model on two processes: DLLAMA is the program of distributed-llama. Without it --check runs ours alone
if [ -n "${DLLAMA:-}$check" ] && command -v taskset >/dev/null 2>&1; then
    make -s --no-print-directory "$BUILD/make-model" "$BUILD/generate" "$BUILD/cluster" "$BUILD/tokenize" || exit 1
    # shellcheck disable=SC2046,SC2086
    "$BUILD/make-model" --shape "$(size 1.1B 2M)" --type Q4_0 "$peers/two.gguf" &&
        run dllama python3 bench/peers/dllama.py "$peers/two.gguf" ${DLLAMA:+--dllama "$DLLAMA"} --build "$BUILD" \
            $(size '' '--rounds 1 --tokens 8')
    rm -f "$peers/two.gguf"
else
    skip 'DLLAMA is not set: no comparison with distributed-llama'
fi
# the story models: the same files on llama.cpp (xllamacpp), and the trainer compared with PyTorch
python=$(venv story numpy xllamacpp)
if has "$python" 'numpy, xllamacpp'; then
    make -s --no-print-directory "$BUILD/story-gen" "$BUILD/tokenize" "$BUILD/logits" "$BUILD/quantize" || exit 1
    # shellcheck disable=SC2046
    run story "$python" bench/peers/story.py --build "$BUILD" $(size '' examples/models/story-small.gguf)
    # two servers under the same load
    make -s --no-print-directory "$BUILD/serve" "$BUILD/load" "$BUILD/make-model" || exit 1
    if [ -n "$check" ]; then
        run serve "$python" bench/peers/serve.py --build "$BUILD" examples/models/story-small.gguf --clients 2 \
            --requests 1 --rounds 1 --prompt 5 --answer 4 --context 128
    else
        for shape in 110M 1.1B; do
            "$BUILD/make-model" --shape $shape --type Q4_0 "$peers/served.gguf" &&
                run "serve $shape" "$python" bench/peers/serve.py --build "$BUILD" "$peers/served.gguf" --repack
            rm -f "$peers/served.gguf"
        done
    fi
else
    skip 'xllamacpp is not installed: the story models are not compared'
fi
python=$(venv torch numpy torch)
make -s --no-print-directory "$BUILD/train-story" "$BUILD/train" || exit 1
if [ -n "$check" ]; then
    run nets "$python" bench/peers/nets.py --build "$BUILD" --alone --rounds 1 --epochs 1
    run train "$python" bench/peers/train.py --build "$BUILD" --alone --rounds 1 --steps 1 \
        --config examples/story-small.cfg
elif has "$python" torch; then
    run train "$python" bench/peers/train.py --build "$BUILD"
    run nets "$python" bench/peers/nets.py --build "$BUILD"
    run nets "$python" bench/peers/nets.py --build "$BUILD" --net conv --epochs 2
else
    skip 'torch is not installed: no rows for it'
fi
# graphs: sums over edges, Cora, FastRP. DGL's last package for this Python runs without its graphbolt; torch_sparse is
# compiled here (a quarter of an hour)
if [ -z "$check" ] && [ ! -d "$peers/graphs" ]; then
    venv graphs numpy scipy torch torch_geometric python-graphblas 'suitesparse-graphblas<10' wheel \
        setuptools >/dev/null
    "$peers/graphs/bin/pip" -q install dgl pandas pyyaml pydantic >/dev/null 2>&1 ||
        echo "peers: dgl could not be installed from PyPI"
    "$peers/graphs/bin/pip" -q install --no-deps --no-build-isolation torch_sparse >/dev/null 2>&1 ||
        echo "peers: torch_sparse could not be built"
fi
python=$(size "$peers/graphs/bin/python" "$peers/check/bin/python")
make -s --no-print-directory "$BUILD/gnn" "$BUILD/graph" "$BUILD/fastrp" "$BUILD/libtinygnn.a" || exit 1
if has "$python" 'numpy, scipy'; then
    INC=${INC:-.} CC=${CC:-cc}
    export INC CC
    # shellcheck disable=SC2046
    run spmm "$python" -W ignore bench/peers/spmm.py --build "$BUILD" --page "$pages/graphs.md" \
        $(size '' '--nodes 4096 --f 16 --seconds 0.2')
    small='--made 300 -d 32 --seeds 2 --shuffles 2'
    # shellcheck disable=SC2046
    run fastrp "$python" bench/peers/fastrp.py --build "$BUILD" --page "$pages/fastrp.md" $(size '' "$small")
    if [ -n "$check" ]; then
        # shellcheck disable=SC2086
        run 'fastrp, deepwalk' "$python" bench/peers/fastrp.py --build "$BUILD" --page "$pages/fastrp.md" \
            --deepwalk $small
        run 'fastrp, speed' "$python" bench/peers/fastrp.py --build "$BUILD" --speed 4096 --seeds 1
        run gnn "$python" bench/peers/gnn.py --build "$BUILD" --data /nowhere --alone --rounds 1 --most 3 \
            --page "$pages/graphs.md"
    elif has "$python" torch_geometric; then
        run gnn "$python" -W ignore bench/peers/gnn.py --build "$BUILD" --page docs/papers/graphs.md
    else
        skip 'torch_geometric is not installed: no rows for it'
    fi
else
    skip 'numpy and scipy are not installed: no rows for graphs'
fi
if has "$python" 'numpy, torch, dgl'; then
    "$BUILD/graph" make rmat "$peers/rmat.tgraph" --nodes "$(size 1048576 4096)" --degree 16 --seed 1 >/dev/null &&
        run sample "$python" bench/peers/sample.py "$peers/rmat.tgraph"
    rm -f "$peers/rmat.tgraph"
else
    skip 'DGL is not installed: its sampler is not measured'
fi
if has "$python" e3nn; then
    run products "$python" bench/peers/products.py --seconds "$(size 1 0.01)"
else
    skip 'e3nn is not installed: its products are not measured'
fi
if has "$python" 'mace, ase, safetensors'; then
    run mace "$python" -W ignore bench/peers/mace.py --build "$BUILD" --atoms "$(size 64,1000 8)" --rounds "$(size 3 1)"
else
    skip 'mace-torch is not installed: its potential is not measured'
fi
printf '%d passed, %d failed' $passed $failed
[ $skipped -eq 0 ] || printf ', %d skipped' $skipped
echo
[ $failed -eq 0 ]
