/* src/gnn/graph/form_inside.h - what the reader of whole files (read.c) and the one in pieces (stream.c) have in
 * common */
#ifndef TINYI_GRAPH_FORM_H
#define TINYI_GRAPH_FORM_H
#include "gnn/graph/graph_inside.h"
#include "core/box/box_inside.h"
TINYI_C_BEGIN

typedef enum tinyi_form {
    TINYI_FORM_EDGES,
    TINYI_FORM_MARKET,
    TINYI_FORM_NPY,
    TINYI_FORM_ZIP,
    TINYI_FORM_GZIP,
    TINYI_FORM_TGRAPH
} tinyi_form;
#define TINYI_FORM_BYTES 17                 /* a mark of UTF-8 and %%MatrixMarket */
TINYI_FN tinyi_form tinyi_read_form(
    const unsigned char *bytes, size_t n); /* the first bytes, TINYI_FORM_BYTES of them where the file has so many */

/* A single edge may name node 2147483646, and a node without edges takes no byte: so many nodes a file may have at
 * most, at 16 bytes a node while rows are made. */
#define TINYI_READ_NODES(n_bytes) (((uint64_t)(n_bytes) + 8192) * 32)
TINYI_FN tiny_status tinyi_read_far(tiny_ctx *ctx, const char *name, int32_t most, uint64_t n_bytes);

/* An array as a list of n edges; by_row: (n, 2), else (2, n). Number i of one as a node; 0: it is none. */
TINYI_FN tiny_status tinyi_read_pairs_shape(tiny_ctx *ctx, const char *name, const tiny_tensor *t, tiny_idx *n,
                                            int *by_row);
TINYI_FN int tinyi_read_node(const tiny_tensor *t, tiny_idx i, int32_t *v);
/* edge i names no node */
TINYI_FN tiny_status tinyi_read_pairs_fail(tiny_ctx *ctx, const char *name, tiny_idx i);

/* .tgraph: where the parts begin in the body of the box, and its size; 0: it does not fit this machine. Its first 64
 * bytes. */
#define TINYI_TGRAPH_WEIGHTS 1u
#define TINYI_TGRAPH_NUMBERS 2u
TINYI_UNUSED static const tinyi_box_kind tinyi_tgraph_box = { "graph", ".tgraph file", 2, "tgraph\r\n", 1, 0, 0, 64 };
TINYI_FN int tinyi_tgraph_plan(uint64_t n, uint64_t m, uint32_t flags, size_t part[4], size_t *total);
TINYI_FN void tinyi_tgraph_head(unsigned char head[64], uint32_t flags, uint64_t n_dst, uint64_t n_src, uint64_t m,
                                uint64_t total);

TINYI_C_END
#endif
