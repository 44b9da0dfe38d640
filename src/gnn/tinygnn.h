/* tinygnn.h - graph networks in one C header, version @version
 *
 * The shortest program that works. It averages the features of each node over its neighbourhood (APPNP, a layer without
 * weights): the graph is in edges.txt, the features are in features.npy, the result goes to answer.npy.
 *
 *     #define TINYGNN_IMPLEMENTATION
 *     #include "tinygnn.h"
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         static tgnn_layer spread;
 *         tgnn_graph *graph = NULL, *sums = NULL;
 *         tgnn_array x = { 0 };
 *         tiny_tensor y = { 0 };
 *         tiny_ctx *ctx = NULL;
 *         tiny_status st = tiny_ctx_open(NULL, &ctx);
 *         spread.kind = TGNN_LAYER_APPNP;
 *         if (!st) st = tgnn_graph_read(ctx, "edges.txt", NULL, &graph);
 *         if (!st) st = tgnn_array_read(ctx, "features.npy", NULL, &x);
 *         if (!st) st = tgnn_layer_graph(ctx, &spread, graph, NULL, 0, &sums);
 *         if (!st) y = x.t, y.data = tiny_alloc(ctx, sizeof(float) * (size_t)tiny_tensor_count(&x.t));
 *         if (!st && !y.data) st = tiny_ctx_status(ctx);
 *         if (!st) st = tgnn_layer_run(ctx, &spread, sums, &x.t, NULL, &y, NULL);
 *         if (!st) st = tgnn_array_write(ctx, "answer.npy", &y);
 *         if (st) puts(ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
 *         tiny_free(ctx, y.data);
 *         tgnn_array_free(ctx, &x);
 *         tgnn_graph_close(ctx, sums);
 *         tgnn_graph_close(ctx, graph);
 *         tiny_ctx_close(ctx);
 *         return st != TINY_OK;
 *     }
 *
 * How to include it
 *     Define TINYGNN_IMPLEMENTATION before the include in exactly one .c or .cpp file of a program. Include the header
 *     without it in all other files. C99 and later, C++11 and later. There is no library to link. -fopenmp gives
 *     threads. SIMDe on the include path gives vector code on processors other than x86 and 64-bit ARM.
 *     A program may also include tinyllm.h, in the same file or in another, in any order. The types are shared. A
 *     function that both contain, such as tiny_run, is taken from the header included last. Both headers must have the
 *     same version.
 *     If you rename the header, define TINYGNN_FILE to the new name in quotes: the header includes itself.
 *
 * Options (define them before the include, the same in all files of a program)
 *     TINY_STATIC        every function is static: a private copy in each file that defines TINYGNN_IMPLEMENTATION
 *     TINYGNN_LINKED     TINYGNN_IMPLEMENTATION has no effect: another object file has the bodies
 *     TINYGNN_PARTS      splits the bodies over this many files, 1 to 12, which make -j compiles in parallel. Each file
 *                        defines TINYGNN_IMPLEMENTATION, its own TINYGNN_PART (1, 2 ...) and the same other options
 *     TINY_NO_OPENMP     no OpenMP, even if the compiler offers it
 *     TINY_PTHREAD       uses POSIX threads even without OpenMP; link with -pthread
 *     TINY_NO_SIMD       only the scalar target
 *     TINY_NO_SIMDE      no w128 target through SIMDe (x86 has a native one)
 *     TINY_ARM_FLUSH     the w128 target on 32-bit ARM too, although its vectors flush denormal numbers to zero
 *     TINY_NO_W128, TINY_NO_AVX2, TINY_NO_AVX512, TINY_NO_AMX
 *                        without these targets and those that build on them; docs/guide/limits.md has program sizes
 *     TINY_ONLY_TARGET   only this target, one of scalar, w128, neon, avx2, avx512: -DTINY_ONLY_TARGET=avx2; implies
 *                        TINY_NO_CONFORM
 *     TINY_NO_VNNI       no VNNI kernels in the avx2 target, for processors with VNNI but without AVX-512
 *     TINY_NO_STDIO      no files: bytes come from memory only
 *     TINY_NO_MALLOC     no default allocator: every context needs one from the program
 *     TINY_NO_HUGE_PAGES  no pages of 2 MB for large blocks of the default allocator (Linux)
 *     TINY_NO_MESSAGES   no specific error sentences: the message of a context is the text of its status
 *     TINY_ASSERT(x)     checks the library's own invariants; empty unless defined
 *
 * Features (docs/guide/options.md)
 *     The default is to read graphs and to run layers and nets. TINYGNN_TOOLS adds training, partitioning and
 *     conversion. TINYGNN_LAB adds implementations of published systems. TINYGNN_ALL adds both. TINYGNN_WITH_X adds
 *     feature X and those that it needs. TINYGNN_NO_X removes X and the features that need it. All functions are always
 *     declared, but a call of a removed one does not link. Only the file with TINYGNN_IMPLEMENTATION reads these
 *     switches. A file that holds the bodies of both headers defines both IMPLEMENTATION macros before its first
 *     include.
 *     OPS, SPARSE and EDGES below are always on, because graphs need them. A feature of both headers has TINY_WITH_X
 *     and TINY_NO_X.
@features
 *
 * Memory
 *     All memory comes from the allocator of the context, by default realloc and free. Kernels never allocate. Close or
 *     free every object before tiny_ctx_close.
 *
 * Threads
 *     Only one thread at a time may call with a context. Two contexts share nothing. The description of a context sets
 *     its number of threads and may give a pool. Without a pool, a context starts its own POSIX threads, or uses OpenMP
 *     where there are none. That needs -fopenmp, or TINY_PTHREAD and -pthread; otherwise only a pool gives more than
 *     one thread. The threads of a context sleep between calls and end in tiny_ctx_close.
 *
 * Errors
 *     Every call that can fail returns a tiny_status, 0 for success. tiny_ctx_message has the sentence. The library
 *     never prints, exits or aborts. A call that fails frees everything that it allocated. The pointer to a new
 *     object is then NULL.
 *
 * Formats and limits
 *     Tensors have up to four dimensions, of f32, f16, bf16, f64 or integers, with any strides. Sizes are ptrdiff_t.
 *
 *     Graphs are read from edge lists, Matrix Market, .npz, .npy and .tgraph files (gnn/graph/read.h). They have up to
 *     2^31 - 1 nodes, and may have more edges than that. Edge lists larger than memory are converted to .tgraph in
 *     pieces (gnn/graph/stream.h). Networks are read from safetensors with a description in JSON (gnn/layer/net.h). The
 *     weights of a single layer are read from .npz (gnn/layer/layer.h).
 *
 * What is not there
 *     Training and sampling on graphs that do not fit into the address space; training with edge features; quantization
 *     of attention layers.
 *
 * Changes
 *     0.2.0  a program chooses its features; packages; see CHANGELOG.md
 *     0.1.0  the first version
 *
 * Licence
 *     MIT, at the end of this file.
 */
#ifndef TINYI_TINYGNN_H
#define TINYI_TINYGNN_H
#include "math/all.h"
#include "gnn/ops.h"
#include "gnn/graph/graph.h"
#include "gnn/graph/community.h"
#include "gnn/graph/partition.h"
#include "gnn/graph/halo.h"
#include "gnn/graph/sample.h"
#include "gnn/graph/npy.h"
#include "gnn/graph/read.h"
#include "gnn/graph/stream.h"
#include "gnn/layer/layer.h"
#include "gnn/layer/net.h"
#include "gnn/layer/pool.h"
#include "gnn/train/train.h"
#include "gnn/quant/bits.h"
#include "gnn/quant/a2q.h"
#include "gnn/quant/a2q_net.h"
#include "gnn/quant/packed.h"
#include "gnn/quant/quant.h"
#include "gnn/embed/fastrp.h"
#include "gnn/equivariant/irreps.h"
#include "gnn/equivariant/so3.h"
#include "gnn/equivariant/harmonics.h"
#include "gnn/equivariant/product.h"
#include "gnn/equivariant/cp.h"
#include "gnn/equivariant/paths.h"
#include "gnn/equivariant/layers.h"
#include "gnn/equivariant/tdn.h"
#include "gnn/equivariant/neighbours.h"
#include "gnn/equivariant/mace.h"
#include "gnn/operator/modes.h"
#include "gnn/operator/spectral.h"
#include "gnn/operator/fno.h"
#include "gnn/prune/cnn.h"
#include "gnn/prune/group.h"
#include "gnn/prune/meta.h"
#include "gnn/operator/lines.h"
#include "gnn/operator/oneway.h"
#include "gnn/operator/unet.h"
#include "gnn/operator/deeponet.h"
#include "gnn/render/nerf.h"
#include "gnn/train/data.h"
#endif
