/* tinygnn.h - graph networks in one C header, version @version: every algorithm as a readable reference and as a fast
 * form
 *
 * The shortest program that works
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
 *     Define TINYGNN_IMPLEMENTATION before the include in exactly one .c or .cpp file of a program; include it without
 *     in all others. C99 and later, C++11 and later. No library to link; -fopenmp gives threads without a pool of your
 *     own, and SIMDe on the include path gives vector code where there is no native form.
 *     tinyllm.h may stand beside it, in the same file or in another, before or after: the types are shared, and tiny_x
 *     calls the x of the header that was included last. Both must come from the same version.
 *     Under another file name, define TINYGNN_FILE to that name in quotes: the header includes itself.
 *
 * Options (each defined before the include, the same in all files of a program)
 *     TINY_STATIC        every function static: a private copy in each file that defines TINYGNN_IMPLEMENTATION
 *     TINYGNN_LINKED     TINYGNN_IMPLEMENTATION asks for nothing: the bodies are linked from elsewhere
 *     TINYGNN_PARTS      the bodies come in this many files of the program, 1 to 12, each with TINYGNN_IMPLEMENTATION
 *                        and its TINYGNN_PART, from 1 on, and the same other options: make -j compiles them side by
 *                        side
 *     TINY_NO_OPENMP     no OpenMP even where the compiler offers it
 *     TINY_NO_SIMD       the scalar target only
 *     TINY_NO_SIMDE      no w128 target through SIMDe (x86 has a native one)
 *     TINY_ARM_FLUSH     the w128 target on 32-bit ARM too, whose vectors turn denormal numbers into zero
 *     TINY_NO_W128, TINY_NO_AVX2, TINY_NO_AVX512, TINY_NO_AMX
 *                        these targets, and those that stand on them; see docs/guide/limits.md for what each costs
 *     TINY_NO_STDIO      no files: bytes come from memory only
 *     TINY_NO_MALLOC     no default allocator: the context must be given one
 *     TINY_NO_HUGE_PAGES  large blocks of the default allocator are not asked for in pages of 2 MB (Linux)
 *     TINY_NO_MESSAGES   no sentences about what is wrong: the message of a context is the text of its status
 *     TINY_ASSERT(x)     the check of our own promises; empty unless defined
 *
 * Features (docs/guide/options.md)
 *     What reads graphs and runs layers and nets over them is on by default. TINYGNN_TOOLS adds what trains, cuts and
 *     converts, TINYGNN_LAB the published systems, TINYGNN_ALL both. One by one: TINYGNN_WITH_X adds X and what it
 *     needs, TINYGNN_NO_X leaves X out and what needs it. Everything is declared whatever is chosen; a call of what is
 *     left out does not link. Only the file with TINYGNN_IMPLEMENTATION reads these switches. A unit with both
 *     implementations defines both before the first include.
@features
 *
 * Memory
 *     All memory comes from the allocator of the context: realloc and free, unless you give one. Kernels never
 *     allocate.
 *     What you opened or read, you close or free before tiny_ctx_close.
 *
 * Threads
 *     One context serves one caller at a time. Two contexts share nothing. A context uses as many threads as its
 *     description says: its own where the system has POSIX threads, those of OpenMP elsewhere, or your pool. Compile
 *     with -fopenmp or define TINY_PTHREAD. Threads of the context sleep between calls and end in tiny_ctx_close.
 *
 * Errors
 *     Every call that can fail returns a tiny_status, 0 for success; tiny_ctx_message has the sentence. Nothing prints,
 *     exits or aborts. A call that failed leaves nothing behind.
 *
 * Formats and limits
 *     Tensors have up to four dimensions, of f32, f16, bf16, f64 or integers, with any strides. Sizes are ptrdiff_t.
 *
 *     Graphs come from edge lists, Matrix Market, .npz, .npy and .tgraph files (gnn/graph/read.h), with up to 2^31 - 1
 *     nodes and more edges than that; edge lists larger than memory become .tgraph files in pieces
 *     (gnn/graph/stream.h); networks from safetensors with a description in JSON (gnn/layer/net.h), weights of one
 *     layer from .npz.
 *
 * What is not there
 *     Training and sampling of graphs that do not fit into the address space, training of features of edges,
 *     quantization of attention.
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
#include "gnn/train/data.h"
#endif
