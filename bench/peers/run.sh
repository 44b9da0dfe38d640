#!/bin/sh
# make bench-peers: OpenBLAS, oneDNN, METIS (Debian's) and MKL (PyPI, the library under PyTorch's products), in turns with ours; then whole models, graphs and training.
# Everything is installed into build/peers or as a system package; what cannot be had is left out, and said so.
set -u
BUILD=${BUILD:-build}
peers=$BUILD/peers
mkdir -p "$peers"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get install -y --no-install-recommends libopenblas0-pthread libdnnl2 libmetis5 python3-venv >/dev/null 2>&1 || echo "peers: apt-get could not install OpenBLAS, oneDNN and METIS"
fi
if [ ! -d "$peers/venv" ]; then
    python3 -m venv "$peers/venv" >/dev/null 2>&1 && "$peers/venv/bin/pip" -q install mkl >/dev/null 2>&1 || echo "peers: MKL could not be installed from PyPI"
fi
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
    [ -n "$path" ] || echo "peers: $name is not here and has no rows"
done
make -s --no-print-directory "$BUILD/bench" && for section in matmul matvec matmul_i8 graph; do "$BUILD/bench" --only "$section" --keep "peers-$section"; done
# model files: what the gguf and safetensors packages of PyPI say about ours, and we about theirs
if [ ! -d "$peers/gguf" ]; then
    python3 -m venv "$peers/gguf" >/dev/null 2>&1 && "$peers/gguf/bin/pip" -q install gguf safetensors >/dev/null 2>&1 || echo "peers: gguf and safetensors could not be installed from PyPI"
fi
if "$peers/gguf/bin/python" -c 'import gguf, safetensors' 2>/dev/null; then
    make -s --no-print-directory "$BUILD/inspect" "$BUILD/libtinyllm.a" && CC=${CC:-cc} "$peers/gguf/bin/python" bench/peers/gguf_check.py "$BUILD"
else
    echo "peers: gguf and safetensors are not here and say nothing"
fi
# whole models: llama.cpp by way of its Python package, compiled here for this processor (a quarter of an hour), on files of random weights
if [ ! -d "$peers/llama" ]; then
    python3 -m venv "$peers/llama" >/dev/null 2>&1 && CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF" "$peers/llama/bin/pip" -q install --no-binary llama-cpp-python llama-cpp-python >/dev/null 2>&1 ||
        echo "peers: llama-cpp-python could not be built"
fi
if "$peers/llama/bin/python" -c 'import llama_cpp' 2>/dev/null; then
    make -s --no-print-directory "$BUILD/make-model" "$BUILD/bench-model" || exit 1
    plain=
    grep -q amx_tile /proc/cpuinfo 2>/dev/null && plain=--plain     # compiled by gcc 12 its AMX buffers crash
    # compare SHAPE TYPE OPTIONS: a file at a time, since those of 1.1B are large
    compare() {
        file=$peers/$1-$2.gguf
        "$BUILD/make-model" --shape "$1" --type "$2" "$file" || return
        shift 2
        "$peers/llama/bin/python" bench/peers/models.py --build "$BUILD" --rows docs/speed.tsv $plain "$@" "$file"
        rm -f "$file"
    }
    for type in Q4_0 Q4_K_M Q8_0 Q5_0 Q6_K F16 F32; do compare 110M $type; done
    for type in Q4_0 Q4_K_M Q8_0 F16 F32; do compare 1.1B $type; done
    for type in Q4_K Q5_0 Q6_K BF16; do compare 1.1B $type --alone -p 0; done          # their share of the bandwidth
    for type in Q4_0 Q4_K Q8_0 F16; do compare 110M $type --batch 1,2,4,8,16,32,64; done
    # the nearest single header: its library compiled for this processor, as ours is
    [ -d "$peers/quantcpp" ] || { python3 -m venv "$peers/quantcpp" >/dev/null 2>&1 && "$peers/quantcpp/bin/pip" -q install quantcpp >/dev/null 2>&1; }
    header=$(first "$peers"/quantcpp/lib/python3*/site-packages/quantcpp/_quant.h)
    QUANTCPP_LIB=$PWD/$peers/libquant.so
    export QUANTCPP_LIB
    if [ -n "$header" ] && printf '#define QUANT_IMPLEMENTATION\n#include "%s"\n' "$PWD/$header" | ${CC:-cc} -O3 -march=native -w -shared -fPIC -x c - -o "$QUANTCPP_LIB" -lm -lpthread; then
        "$BUILD/make-model" --shape 110M --type Q4_0 "$peers/110M-Q4_0.gguf" && "$peers/quantcpp/bin/python" bench/peers/models.py --build "$BUILD" --rows docs/speed.tsv --quantcpp "$peers/110M-Q4_0.gguf"
        rm -f "$peers/110M-Q4_0.gguf"
    else
        echo "peers: quantcpp is not here and has no rows"
    fi
    "$peers/llama/bin/python" bench/peers/models.py --rows docs/speed.tsv --page docs/speed.md --curve docs/batch.svg
else
    echo "peers: llama-cpp-python is not here and has no rows"
fi
# the story models: the same files on llama.cpp (xllamacpp), and their trainer beside PyTorch
if [ ! -d "$peers/story" ]; then
    python3 -m venv "$peers/story" >/dev/null 2>&1 && "$peers/story/bin/pip" -q install numpy xllamacpp >/dev/null 2>&1 || echo "peers: xllamacpp could not be installed from PyPI"
fi
if "$peers/story/bin/python" -c 'import numpy, xllamacpp' 2>/dev/null; then
    make -s --no-print-directory "$BUILD/story-gen" "$BUILD/tokenize" "$BUILD/logits" "$BUILD/quantize" && "$peers/story/bin/python" bench/peers/story.py --build "$BUILD"
else
    echo "peers: xllamacpp is not here and says nothing of the story models"
fi
if [ ! -d "$peers/torch" ]; then
    python3 -m venv "$peers/torch" >/dev/null 2>&1 && "$peers/torch/bin/pip" -q install numpy torch >/dev/null 2>&1 || echo "peers: torch could not be installed from PyPI"
fi
if "$peers/torch/bin/python" -c 'import torch' 2>/dev/null; then
    make -s --no-print-directory "$BUILD/train-story" && "$peers/torch/bin/python" bench/peers/train.py --build "$BUILD"
else
    echo "peers: torch is not here and has no rows"
fi
# graphs: sums over edges, Cora, FastRP. DGL's last package for this Python runs without its graphbolt; torch_sparse is compiled here (a quarter of an hour)
if [ ! -d "$peers/graphs" ]; then
    python3 -m venv "$peers/graphs" >/dev/null 2>&1 && "$peers/graphs/bin/pip" -q install numpy scipy torch torch_geometric python-graphblas 'suitesparse-graphblas<10' wheel setuptools >/dev/null 2>&1 ||
        echo "peers: numpy, scipy, torch, torch_geometric and python-graphblas could not be installed from PyPI"
    "$peers/graphs/bin/pip" -q install dgl pandas pyyaml pydantic >/dev/null 2>&1 || echo "peers: dgl could not be installed from PyPI"
    "$peers/graphs/bin/pip" -q install --no-deps --no-build-isolation torch_sparse >/dev/null 2>&1 || echo "peers: torch_sparse could not be built"
fi
if "$peers/graphs/bin/python" -c 'import numpy, scipy' 2>/dev/null; then
    make -s --no-print-directory "$BUILD/gnn" "$BUILD/graph" "$BUILD/fastrp" "$BUILD/libtinygnn.a" || exit 1
    INC=${INC:-.} CC=${CC:-cc} "$peers/graphs/bin/python" -W ignore bench/peers/spmm.py --build "$BUILD" --page docs/graphs.md
    "$peers/graphs/bin/python" bench/peers/fastrp.py --build "$BUILD" --page docs/fastrp.md
    if "$peers/graphs/bin/python" -c 'import torch_geometric' 2>/dev/null; then
        "$peers/graphs/bin/python" -W ignore bench/peers/gnn.py --build "$BUILD" --page docs/graphs.md
    else
        echo "peers: torch_geometric is not here and has no rows"
    fi
else
    echo "peers: numpy and scipy are not here: no rows of graphs"
fi
