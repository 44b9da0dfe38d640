/* src/gnn/graph/read.c - the readers of graphs
 *
 * Formats  Matrix Market: R. Boisvert, R. Pozo, K. Remington, "The Matrix Market Exchange Formats", NISTIR 5935, 1996.
 *          .tgraph, a box "graph 2" (core/box/box_inside.h); its body, all numbers little-endian:
 *              0   12 zeros, u32 flags              1 weights, 2 numbers of edges
 *              16  u64 destinations n, u64 sources, u64 edges m
 *              40  u64 bytes of the body, 16 zeros
 *              64  i64 offset[n + 1], i32 source[m], f32 weight[m], i64 number[m]; each begins at a multiple of 64,
 *                  zeros between; the sources of a destination ascend
 *              older: the same without a box, and "tgraph\r\n", u32 1 in place of the 12 zeros
 * Checks   Every count is compared with the bytes of the file before memory is allocated. Graphs that are read go
 *          through the checks of tgnn_graph_make, mapped files through tiny_sparse_check. If a mapped file changes
 *          between calls, no call leaves its arrays: each call checks the numbers that it uses. docs/guide/limits.md
 *          has the case of a file that changes during a call.
 * Left out Matrix Market arrays and complex or skew-symmetric matrices: they are not graphs. */
#include <stdio.h>
#include <string.h>
#include "gnn/graph/read.h"
#include "gnn/graph/graph_inside.h"
#include "gnn/graph/inflate_inside.h"
#include "gnn/graph/npy.h"
#include "gnn/graph/words_inside.h"
#include "gnn/graph/form_inside.h"
#include "core/box/box_inside.h"
#include "core/half_inside.h"

/* Edges on the way from a file; e has the matrix' own size where the file says it, nodes: sources and destinations at
 * least. */
typedef struct tinyi_read_edges {
    tgnn_edges e;
    int32_t *src, *dst, nodes[2];
    float *weight;
    int both;
} tinyi_read_edges;

static void tinyi_read_free(tiny_ctx *ctx, tinyi_read_edges *r)
{
    tiny_free(ctx, r->src);
    tiny_free(ctx, r->dst);
    tiny_free(ctx, r->weight);
    memset(r, 0, sizeof *r);
}

static tiny_status tinyi_read_take(tiny_ctx *ctx, tinyi_read_edges *r, size_t n, int weighted)
{
    r->src = (int32_t *)tinyi_alloc(ctx, n, sizeof *r->src);
    if (r->src) r->dst = (int32_t *)tinyi_alloc(ctx, n, sizeof *r->dst);
    if (r->dst && weighted) r->weight = (float *)tinyi_alloc(ctx, n, sizeof *r->weight);
    return r->dst && (r->weight || !weighted) ? TINY_OK : tiny_ctx_status(ctx);
}

static tiny_status tinyi_read_finish(tiny_ctx *ctx, const char *name, tinyi_read_edges *r, const tgnn_graph_desc *desc,
                                     tgnn_graph **out)
{
    tgnn_graph_desc d;
    char says[TINYI_MESSAGE_BYTES];
    int64_t i;
    tiny_status st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    d.symmetrize |= r->both;
    r->e.src = r->src;
    r->e.dst = r->dst;
    r->e.weight = r->weight;
    for (i = 0; r->weight && i < r->e.n; i++)
        if (!(r->weight[i] - r->weight[i] == 0.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "%s: edge %lld: its weight is not a finite number", name,
                              (long long)i);
    st = tgnn_graph_make(ctx, &r->e, &d, out);
    if (!st) return st;
    memcpy(says, ctx->message, sizeof says);
    says[sizeof says - 1] = 0;
    return tinyi_fail(ctx, st, "%.200s: %.300s", name, says);
}

/* ---- text */

static tiny_status tinyi_edge_list_read(tiny_ctx *ctx, const char *name, const unsigned char *bytes, size_t n_bytes,
                                        int two_sets, tinyi_read_edges *r)
{
    tinyi_text_file f = tinyi_text_make(ctx, name, bytes, n_bytes);
    tinyi_word line;
    int64_t v[2];
    int weighted = -1;
    tiny_status st = TINY_OK;
    while (!st && tinyi_text_edge_line(&f, &line, two_sets, r->nodes, &st)) {
        float w;
        st = tinyi_text_edge(&f, line, &weighted, v, &w);
        if (!st && !r->src) st = tinyi_read_take(ctx, r, tinyi_text_lines(&f) + 1, weighted);
        if (st) break;
        r->src[r->e.n] = (int32_t)v[0];
        r->dst[r->e.n] = (int32_t)v[1];
        if (weighted) r->weight[r->e.n] = w;
        r->e.n++;
    }
    return st;
}

static tiny_status tinyi_market_read(tiny_ctx *ctx, const char *name, const unsigned char *bytes, size_t n_bytes,
                                     tinyi_read_edges *r)
{
    tinyi_text_file f = tinyi_text_make(ctx, name, bytes, n_bytes);
    tinyi_word line, word;
    int64_t size[3], v[2];
    int k, pattern = 0, ok;
    tiny_status st;
    ok = tinyi_text_line(&f, "", &line) && tinyi_word_next(&line, &word) && tinyi_word_is(word, "%%matrixmarket") &&
         tinyi_word_next(&line, &word) && tinyi_word_is(word, "matrix");
    if (!ok) return tinyi_text_fail(&f, word, "%%MatrixMarket matrix");
    if (!tinyi_word_next(&line, &word) || !tinyi_word_is(word, "coordinate"))
        return tinyi_text_fail(&f, word, "coordinate (an array is not a graph)");
    if (!tinyi_word_next(&line, &word)) return tinyi_text_fail(&f, word, "pattern, real or integer");
    pattern = tinyi_word_is(word, "pattern");
    if (!pattern && !tinyi_word_is(word, "real") && !tinyi_word_is(word, "integer"))
        return tinyi_text_fail(&f, word, "pattern, real or integer");
    if (!tinyi_word_next(&line, &word)) return tinyi_text_fail(&f, word, "general or symmetric");
    r->both = tinyi_word_is(word, "symmetric");
    if (!r->both && !tinyi_word_is(word, "general")) return tinyi_text_fail(&f, word, "general or symmetric");
    memset(&word, 0, sizeof word);
    if (!tinyi_text_line(&f, "%", &line))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: it ends before the line of its size", name);
    for (k = 0; k < 3; k++)
        if (!tinyi_word_next(&line, &word) || !tinyi_word_int(word, &size[k]) || size[k] < 0 ||
            (k < 2 && size[k] > 0x7fffffff))
            return tinyi_text_fail(&f, word, "the number of rows, columns or entries");
    if (tinyi_word_next(&line, &word)) return tinyi_text_fail(&f, word, "the end of the line");
    if ((uint64_t)size[2] > (uint64_t)(f.end - f.at) / 3 + 1)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %lld entries are too many for the %td bytes after it", name,
                          (long long)size[2], f.end - f.at);
    /* an empty row has no byte in the file: what nodes may cost is bounded by what is there */
    for (k = 0; k < 2; k++)
        if ((uint64_t)size[k] > ((uint64_t)n_bytes + 4096) * 8)
            return tinyi_fail(ctx, TINY_E_OVERFLOW,
                              "%s: %lld rows or columns are too many for a file of %zu bytes", name,
                              (long long)size[k], n_bytes);
    st = tinyi_read_take(ctx, r, (size_t)size[2], !pattern);
    if (st) return st;
    r->e.n_src = (tiny_idx)size[0];
    r->e.n_dst = (tiny_idx)size[1];
    while (tinyi_text_line(&f, "%", &line)) {
        float w = 1.0f;
        for (k = 0; k < 2; k++)
            if (!tinyi_word_next(&line, &word) || !tinyi_word_int(word, &v[k]) || v[k] < 1 || v[k] > size[k])
                return tinyi_text_fail(
                    &f, word, k ? "a column of the matrix, counted from 1" : "a row of the matrix, counted from 1");
        if (!pattern && (!tinyi_word_next(&line, &word) || !tinyi_word_float(word, &w)))
            return tinyi_text_fail(&f, word, "a number");
        if (tinyi_word_next(&line, &word)) return tinyi_text_fail(&f, word, "the end of the line");
        if (r->e.n == size[2])
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: line %lld has an entry more than the %lld in the header",
                              name, (long long)f.line, (long long)size[2]);
        r->src[r->e.n] = (int32_t)(v[0] - 1);
        r->dst[r->e.n] = (int32_t)(v[1] - 1);
        if (!pattern) r->weight[r->e.n] = w;
        r->e.n++;
    }
    if (r->e.n != size[2])
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %lld entries, but the header says %lld", name, (long long)r->e.n,
                          (long long)size[2]);
    return TINY_OK;
}

/* ---- arrays */

/* number i of an integer array; 0: it is none */
static int tinyi_read_whole(const tiny_tensor *t, tiny_idx i, int64_t *x)
{
    int32_t x4;
    int16_t x2;
    switch (t->dtype) {
    case TINY_I64: memcpy(x, (const int64_t *)t->data + i, 8); return 1;
    case TINY_I32: memcpy(&x4, (const int32_t *)t->data + i, 4); *x = x4; return 1;
    case TINY_I16: memcpy(&x2, (const int16_t *)t->data + i, 2); *x = x2; return 1;
    case TINY_I8: *x = ((const signed char *)t->data)[i]; return 1;
    case TINY_U8: *x = ((const unsigned char *)t->data)[i]; return 1;
    default: return 0;
    }
}

/* the same as a node; 0: it is none */
int tinyi_read_node(const tiny_tensor *t, tiny_idx i, int32_t *v)
{
    int64_t x;
    if (!tinyi_read_whole(t, i, &x) || x < 0 || x > 0x7ffffffe) return 0;
    *v = (int32_t)x;
    return 1;
}

tiny_status tinyi_read_pairs_shape(tiny_ctx *ctx, const char *name, const tiny_tensor *t, tiny_idx *n, int *by_row)
{
    char text[96];
    if (t->rank != 2 || (t->dim[0] != 2 && t->dim[1] != 2) ||
        (t->dtype != TINY_I64 && t->dtype != TINY_I32 && t->dtype != TINY_I16 && t->dtype != TINY_U8))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: an array %s is no list of edges; it must be 2 x m or m x 2 integers",
                          name, tinyi_shape_text(t, text));
    *by_row = t->dim[1] == 2 && t->dim[0] != 2;     /* 2 x 2 is read as sources, then destinations */
    *n = *by_row ? t->dim[0] : t->dim[1];
    return TINY_OK;
}

tiny_status tinyi_read_pairs_fail(tiny_ctx *ctx, const char *name, tiny_idx i)
{
    return tinyi_fail(ctx, TINY_E_FORMAT, "%s: edge %td names a node below 0 or above 2147483646", name, i);
}

static tiny_status tinyi_read_pairs(tiny_ctx *ctx, const char *name, const tiny_tensor *t, tinyi_read_edges *r)
{
    tiny_idx n = 0, i;
    int by_row = 0;
    tiny_status st = tinyi_read_pairs_shape(ctx, name, t, &n, &by_row);
    if (!st) st = tinyi_read_take(ctx, r, (size_t)n, 0);
    if (st) return st;
    for (i = 0; i < n; i++)
        if (!tinyi_read_node(t, by_row ? 2 * i : i, &r->src[i]) ||
            !tinyi_read_node(t, by_row ? 2 * i + 1 : n + i, &r->dst[i]))
            return tinyi_read_pairs_fail(ctx, name, i);
    r->e.n = n;
    return TINY_OK;
}

/* one array of a matrix that scipy wrote, with n numbers (n < 0: any) */
static tiny_status tinyi_read_part(tiny_ctx *ctx, const char *name, const unsigned char *bytes, size_t n_bytes,
                                   const char *member, int64_t n, tgnn_array *a)
{
    tiny_status st = tgnn_array_read_memory(ctx, name, bytes, n_bytes, member, a);
    if (st) return st;
    if (a->t.rank != 1 || (n >= 0 && a->t.dim[0] != (tiny_idx)n)) {
        char text[96];
        st = n < 0 ? tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s is %s, it must have one axis", name, member,
                                tinyi_shape_text(&a->t, text))
                   : tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s is %s, it must have one axis of %lld", name, member,
                                tinyi_shape_text(&a->t, text), (long long)n);
        tgnn_array_free(ctx, a);
    }
    return st;
}

static tiny_status tinyi_read_floats(tiny_ctx *ctx, const char *name, const tiny_tensor *t, float *w)
{
    tiny_idx i;
    for (i = 0; i < t->dim[0]; i++) {
        int64_t v = 0;
        if (t->dtype == TINY_F32) w[i] = ((const float *)t->data)[i];
        else if (t->dtype == TINY_F64) w[i] = (float)((const double *)t->data)[i];
        else if (tinyi_read_whole(t, i, &v)) w[i] = (float)v;
        else
            return tinyi_fail(ctx, TINY_E_DTYPE, "%s: value %td of type %s is not a valid weight", name, i,
                              tiny_dtype_name(t->dtype));
    }
    return TINY_OK;
}

static tiny_status tinyi_scipy_read(tiny_ctx *ctx, const char *name, const unsigned char *bytes, size_t n_bytes,
                                    tinyi_read_edges *r)
{
    tgnn_array shape, value, at, other;
    unsigned char *format = NULL;
    size_t n_format = 0, i, j = 0;
    int32_t dim[2] = { 0, 0 }, v = 0;
    int by_column, known = 0, coo = tinyi_zip_has(bytes, n_bytes, "row.npy");
    int64_t n;
    tiny_status st;
    memset(&shape, 0, sizeof shape);
    memset(&value, 0, sizeof value);
    memset(&at, 0, sizeof at);
    memset(&other, 0, sizeof other);
    /* format.npy is a text of NumPy: the letters csr, csc or coo stand behind its head, as bytes or (<U3, >U3) as
     * numbers of 4 bytes, of which 3 are zero */
    st = tinyi_zip_member(ctx, name, bytes, n_bytes, "format.npy", &format, &n_format);
    by_column = 0;
    for (i = j = 0; !st && i < n_format; i++)
        if (format[i]) format[j++] = format[i];
    for (i = 0; !st && i + 3 <= j; i++) {
        by_column |= !memcmp(format + i, "csc", 3);
        known |= by_column || !memcmp(format + i, "csr", 3) || !memcmp(format + i, "coo", 3);
    }
    if (!st && !known)
        st = tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                        "%s: its format is none of csr, csc and coo; tocsr() of scipy makes one of them", name);
    tiny_free(ctx, format);
    if (!st) st = tinyi_read_part(ctx, name, bytes, n_bytes, "shape", 2, &shape);
    if (!st && (!tinyi_read_node(&shape.t, 0, &dim[0]) || !tinyi_read_node(&shape.t, 1, &dim[1])))
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: its shape must be two sizes below 2147483647", name);
    for (i = 0; !st && i < 2; i++)
        if ((uint64_t)dim[i] > ((uint64_t)n_bytes + 4096) * 64)
            st = tinyi_fail(ctx, TINY_E_OVERFLOW,
                            "%s: %ld rows or columns are too many for a file of %zu bytes", name, (long)dim[i],
                            n_bytes);
    if (!st) st = tinyi_read_part(ctx, name, bytes, n_bytes, "data", -1, &value);
    n = st ? 0 : (int64_t)value.t.dim[0];
    if (!st) st = tinyi_read_part(ctx, name, bytes, n_bytes, coo ? "col" : "indices", n, &at);
    if (!st)
        st = tinyi_read_part(ctx, name, bytes, n_bytes, coo ? "row" : "indptr", coo ? n : (int64_t)dim[by_column] + 1,
                             &other);
    if (!st) st = tinyi_read_take(ctx, r, (size_t)n, 1);
    if (!st) st = tinyi_read_floats(ctx, name, &value.t, r->weight);
    if (!st) {
        int32_t *line = by_column ? r->dst : r->src, *cross = by_column ? r->src : r->dst;
        tiny_idx k, p = 0;
        for (k = 0; !st && k < (tiny_idx)n; k++)
            if (!tinyi_read_node(&at.t, k, &cross[k]))
                st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: entry %td has no column below 2147483647", name, k);
        for (k = 0; !st && coo && k < (tiny_idx)n; k++)
            if (!tinyi_read_node(&other.t, k, &line[k]))
                st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: entry %td has no row below 2147483647", name, k);
        for (k = 0; !st && !coo && k <= (tiny_idx)dim[by_column]; k++) {
            if (!tinyi_read_node(&other.t, k, &v) || v < p || v > n || (k == 0 && v) ||
                (k == (tiny_idx)dim[by_column] && v != n))
                st = tinyi_fail(ctx, TINY_E_FORMAT,
                                "%s: indptr[%td] is not in %td to %lld; it must ascend from 0 to the number of entries",
                                name, k, p, (long long)n);
            else for (; p < v; p++) line[p] = (int32_t)(k - 1);
        }
        r->e.n = n;
        r->e.n_src = dim[0];
        r->e.n_dst = dim[1];
    }
    tgnn_array_free(ctx, &shape);
    tgnn_array_free(ctx, &value);
    tgnn_array_free(ctx, &at);
    tgnn_array_free(ctx, &other);
    return st;
}

/* ---- ours */

static size_t tinyi_tgraph_up(size_t n) { return TINYI_BOX_UP(n, 64); }

int tinyi_tgraph_plan(uint64_t n, uint64_t m, uint32_t flags, size_t part[4], size_t *total)
{
    if (n > 0x7fffffffu || n > (uint64_t)TINY_IDX_MAX / 64 || m > (uint64_t)TINY_IDX_MAX / 64) return 0;
    part[0] = 64;
    part[1] = tinyi_tgraph_up(part[0] + ((size_t)n + 1) * 8);
    part[2] = tinyi_tgraph_up(part[1] + (size_t)m * 4);
    part[3] = flags & TINYI_TGRAPH_WEIGHTS ? tinyi_tgraph_up(part[2] + (size_t)m * 4) : part[2];
    *total = flags & TINYI_TGRAPH_NUMBERS ? tinyi_tgraph_up(part[3] + (size_t)m * 8) : part[3];
    return 1;
}

void tinyi_tgraph_head(unsigned char head[64], uint32_t flags, uint64_t n_dst, uint64_t n_src, uint64_t m,
                       uint64_t total)
{
    tinyi_writer w;
    memset(head, 0, 64);
    w.at = head;
    w.n = 12;
    tinyi_wr(&w, flags, 4);
    tinyi_wr(&w, n_dst, 8);
    tinyi_wr(&w, n_src, 8);
    tinyi_wr(&w, m, 8);
    tinyi_wr(&w, total, 8);
}

#define TINYI_TGRAPH_NUMBER ((int64_t)1 << 48)  /* of an edge, below this: a batch of 32768 graphs still counts on */

/* rows ascend: links are looked for by halves; edges at one place may follow each other */
static tiny_status tinyi_tgraph_ascends(tiny_ctx *ctx, const char *name, const tiny_sparse *a)
{
    tiny_idx r;
    int64_t p, end;
    for (r = 0; r < a->n_rows; r++) {
        tinyi_row_range(a, r, &p, &end);
        for (p++; p < end; p++)
            if (a->col[p] < a->col[p - 1])
                return tinyi_fail(
                    ctx, TINY_E_FORMAT,
                    "%s: edge %lld of node %td comes from %ld, the one before from %ld; sources of a node must ascend",
                    name, (long long)p, r, (long)a->col[p], (long)a->col[p - 1]);
    }
    return TINY_OK;
}

tiny_status tinyi_read_far(tiny_ctx *ctx, const char *name, int32_t most, uint64_t n_bytes)
{
    if ((uint64_t)((int64_t)most + 1) <= TINYI_READ_NODES(n_bytes)) return TINY_OK;
    return tinyi_fail(ctx, TINY_E_OVERFLOW,
                      "%s: it names node %ld in %llu bytes; set n_nodes if there are really that many", name,
                      (long)most, (unsigned long long)n_bytes);
}

/* keep: the file that the bytes are of, when the graph may use them in place */
static tiny_status tinyi_tgraph_read(tiny_ctx *ctx, const char *name, const unsigned char *bytes, size_t n_bytes,
                                     const tgnn_graph_desc *desc, tiny_file *keep, tgnn_graph **out)
{
    tinyi_cursor c;
    const unsigned char *skip;
    uint32_t flags = 0;
    uint64_t n_dst = 0, n_src = 0, m = 0, size = 0, p;
    size_t part[4], total;
    tiny_sparse a;
    char says[TINYI_MESSAGE_BYTES];
    int old;
    tiny_status st = tinyi_box_body(ctx, name, &tinyi_tgraph_box, bytes, n_bytes, 0, &c, &old);
    if (st) return st;
    bytes = c.at;
    n_bytes = c.left;
    (void)(tinyi_rd_bytes(&c, 12, &skip) && tinyi_rd_u32(&c, &flags) && tinyi_rd_u64(&c, &n_dst) &&
           tinyi_rd_u64(&c, &n_src) && tinyi_rd_u64(&c, &m) && tinyi_rd_u64(&c, &size));
    if (flags & ~(TINYI_TGRAPH_WEIGHTS | TINYI_TGRAPH_NUMBERS))
        return tinyi_fail(ctx, TINY_E_VERSION, "%s: flags 0x%lx of the .tgraph format; up to 0x3 are known", name,
                          (unsigned long)flags);
    if (n_src > 0x7fffffffu || !tinyi_tgraph_plan(n_dst, m, flags, part, &total))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: %llu destinations, %llu sources, %llu edges are too many", name,
                          (unsigned long long)n_dst, (unsigned long long)n_src, (unsigned long long)m);
    if (size != total || n_bytes != total)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: %llu nodes and %llu edges need %zu bytes, its header says %llu, it has %zu", name,
                          (unsigned long long)n_dst, (unsigned long long)m, total, (unsigned long long)size, n_bytes);
    if (n_src != n_dst && !(desc && desc->bipartite))
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "%s: %llu sources and %llu destinations are not one set of nodes; bipartite reads two sets",
                          name, (unsigned long long)n_src, (unsigned long long)n_dst);
    if (n_src && !(desc && n_src <= (uint64_t)desc->n_nodes)) {        /* a source takes no byte of the file */
        st = tinyi_read_far(ctx, name, (int32_t)(n_src - 1), n_bytes);
        if (st) return st;
    }
    memset(&a, 0, sizeof a);
    a.form = TINY_CSR;
    a.n_rows = (tiny_idx)n_dst;
    a.n_cols = (tiny_idx)n_src;
    a.n = (int64_t)m;
    if (keep && tinyi_little_endian() && (uintptr_t)bytes % 8 == 0) {
        union { const unsigned char *from; void *to; } at[4];  /* a read-only mapping */
        int k;
        for (k = 0; k < 4; k++) at[k].from = bytes + part[k];
        a.offset = (int64_t *)at[0].to;
        a.col = (int32_t *)at[1].to;
        if (flags & TINYI_TGRAPH_WEIGHTS) a.value = (float *)at[2].to;
        if (flags & TINYI_TGRAPH_NUMBERS) a.source = (int64_t *)at[3].to;
    } else {
        keep = NULL;
        a.owned = 1;
        a.offset = (int64_t *)tinyi_alloc(ctx, (size_t)n_dst + 1, 8);
        a.col = (int32_t *)tinyi_alloc(ctx, (size_t)m, 4);
        a.value = flags & TINYI_TGRAPH_WEIGHTS ? (float *)tinyi_alloc(ctx, (size_t)m, 4) : NULL;
        a.source = flags & TINYI_TGRAPH_NUMBERS ? (int64_t *)tinyi_alloc(ctx, (size_t)m, 8) : NULL;
        if (!a.offset || !a.col || (!a.value && flags & TINYI_TGRAPH_WEIGHTS) ||
            (!a.source && flags & TINYI_TGRAPH_NUMBERS)) {
            tiny_sparse_free(ctx, &a);
            return tiny_ctx_status(ctx);
        }
        c = tinyi_cursor_make(bytes + part[0], n_bytes - part[0]);
        for (p = 0; p <= n_dst; p++) {
            uint64_t v = 0;
            (void)tinyi_rd_u64(&c, &v);
            a.offset[p] = v > (uint64_t)INT64_MAX ? -1 : (int64_t)v;
        }
        c = tinyi_cursor_make(bytes + part[1], n_bytes - part[1]);
        for (p = 0; p < m; p++) {
            uint32_t v = 0;
            (void)tinyi_rd_u32(&c, &v);
            a.col[p] = v > 0x7fffffffu ? -1 : (int32_t)v;
        }
        c = tinyi_cursor_make(bytes + part[2], n_bytes - part[2]);
        for (p = 0; a.value && p < m; p++) (void)tinyi_rd_f32(&c, &a.value[p]);
        c = tinyi_cursor_make(bytes + part[3], n_bytes - part[3]);
        for (p = 0; a.source && p < m; p++) {
            uint64_t v = 0;
            (void)tinyi_rd_u64(&c, &v);
            a.source[p] = v <= (uint64_t)INT64_MAX ? (int64_t)v : -1 - (int64_t)~v;
        }
    }
    st = tiny_sparse_check(ctx, &a);
    if (st) {
        memcpy(says, ctx->message, sizeof says);
        says[sizeof says - 1] = 0;
        st = tinyi_fail(ctx, st, "%.200s: %.300s", name, says);
    }
    if (!st) st = tinyi_tgraph_ascends(ctx, name, &a);
    for (p = 0; !st && a.value && p < m; p++)
        if (!(a.value[p] - a.value[p] == 0.0f))
            st = tinyi_fail(ctx, TINY_E_NUMERIC, "%s: edge %llu: its weight is not a finite number", name,
                            (unsigned long long)p);
    for (p = 0; !st && a.source && p < m; p++)
        if (a.source[p] < -1 || a.source[p] >= TINYI_TGRAPH_NUMBER)
            st = tinyi_fail(ctx, TINY_E_FORMAT,
                            "%s: edge %llu has the number %lld; numbers are below 2^48, -1 for a loop that was added",
                            name, (unsigned long long)p, (long long)a.source[p]);
    if (st) {
        tiny_sparse_free(ctx, &a);
        return st;
    }
    st = tinyi_graph_wrap(ctx, &a, out);
    if (!st && keep) {
        (*out)->file = *keep;
        memset(keep, 0, sizeof *keep);
    }
    return st;
}

/* are the numbers of the edges 0 to n - 1, each once? seen: room for n */
static int tinyi_tgraph_in_order(const tiny_sparse *a, int32_t *seen)
{
    int64_t p;
    for (p = 0; p < a->n; p++) seen[p] = 0;
    for (p = 0; a->source && p < a->n; p++)
        if (a->source[p] < 0 || a->source[p] >= a->n || seen[a->source[p]]++) return 0;
    return a->source != NULL;
}

/* What a .tgraph file holds, changed as desc asks: from its edges in the order of their numbers, so that it is what the
 * edges as they were given would make; where numbers are missing or doubled, in the order of the rows. Edges keep their
 * numbers. */
static tiny_status tinyi_graph_again(tiny_ctx *ctx, const char *name, tgnn_graph *g, const tgnn_graph_desc *desc,
                                     tgnn_graph **out)
{
    tinyi_read_edges r;
    tiny_idx i;
    int64_t p, at;
    int in_order = 0;
    tiny_status st;
    memset(&r, 0, sizeof r);
    st = tinyi_read_take(ctx, &r, (size_t)g->in.n, g->in.value != NULL);
    if (!st) {
        in_order = tinyi_tgraph_in_order(&g->in, r.src);
        for (i = 0; i < g->in.n_rows; i++)
            for (p = g->in.offset[i]; p < g->in.offset[i + 1]; p++) {
                at = in_order ? g->in.source[p] : p;
                r.src[at] = g->in.col[p];
                r.dst[at] = (int32_t)i;
                if (r.weight) r.weight[at] = g->in.value[p];
            }
        r.e.n = g->in.n;
        r.e.n_src = g->in.n_cols;
        r.e.n_dst = g->in.n_rows;
        st = tinyi_read_finish(ctx, name, &r, desc, out);
        for (p = 0; !st && !in_order && g->in.source && p < (*out)->in.n; p++)
            if ((*out)->in.source[p] >= 0) (*out)->in.source[p] = g->in.source[(*out)->in.source[p]];
    }
    tinyi_read_free(ctx, &r);
    return st;
}

tinyi_form tinyi_read_form(const unsigned char *bytes, size_t n)
{
    tinyi_word first;
    if (tinyi_box_is(bytes, n) || (n >= 8 && !memcmp(bytes, tinyi_tgraph_box.magic, 8))) return TINYI_FORM_TGRAPH;
    if (n >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) return TINYI_FORM_GZIP;
    if (n >= 6 && !memcmp(bytes, "\x93NUMPY", 6)) return TINYI_FORM_NPY;
    if (n >= 6 && !memcmp(bytes, "PK\3\4", 4)) return TINYI_FORM_ZIP;
    first.at = bytes + tinyi_text_bom(bytes, n);
    first.n = TINYI_MIN(n - (size_t)(first.at - bytes), (size_t)14);       /* %% alone begins a remark */
    return tinyi_word_is(first, "%%matrixmarket") ? TINYI_FORM_MARKET : TINYI_FORM_EDGES;
}

static tiny_status tinyi_graph_read(tiny_ctx *ctx, const char *name, const unsigned char *bytes, size_t n_bytes,
                                    const tgnn_graph_desc *desc, tiny_file *keep, int depth, tgnn_graph **out)
{
    const tinyi_form form = tinyi_read_form(bytes, n_bytes);
    tinyi_read_edges r;
    tiny_status st;
    memset(&r, 0, sizeof r);
    if (form == TINYI_FORM_TGRAPH) {
        tgnn_graph *g;
        int asks =
            desc && (desc->n_nodes || desc->duplicates || desc->symmetrize || desc->drop_loops || desc->add_loops);
        st = tinyi_tgraph_read(ctx, name, bytes, n_bytes, desc, asks ? NULL : keep, &g);
        if (st) return st;
        if (!asks) {
            *out = g;
            return TINY_OK;
        }
        st = tinyi_graph_again(ctx, name, g, desc, out);
        tgnn_graph_close(ctx, g);
        return st;
    }
    if (form == TINYI_FORM_GZIP) {
        unsigned char *plain;
        size_t n, most = n_bytes < (SIZE_MAX - TGNN_UNPACK_EXTRA) / TGNN_UNPACK_TIMES
                             ? n_bytes * TGNN_UNPACK_TIMES + TGNN_UNPACK_EXTRA
                             : SIZE_MAX;
        if (depth) return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: it is compressed by gzip twice", name);
        st = tinyi_gunzip(ctx, name, bytes, n_bytes, most, &plain, &n);
        if (st) return st;
        st = tinyi_graph_read(ctx, name, plain, n, desc, NULL, 1, out);
        tiny_free(ctx, plain);
        return st;
    }
    if (form == TINYI_FORM_NPY || form == TINYI_FORM_ZIP) {
        tgnn_array a;
        const char *member = NULL;
        int zip = form == TINYI_FORM_ZIP;
        if (zip && tinyi_zip_has(bytes, n_bytes, "edges.npy")) member = "edges";
        else if (zip && tinyi_zip_has(bytes, n_bytes, "edge_index.npy")) member = "edge_index";
        if (zip && !member && tinyi_zip_has(bytes, n_bytes, "format.npy"))
            st = tinyi_scipy_read(ctx, name, bytes, n_bytes, &r);
        else {
            st = tgnn_array_read_memory(ctx, name, bytes, n_bytes, member, &a);
            if (!st) {
                st = tinyi_read_pairs(ctx, name, &a.t, &r);
                tgnn_array_free(ctx, &a);
            }
        }
    } else if (form == TINYI_FORM_MARKET) st = tinyi_market_read(ctx, name, bytes, n_bytes, &r);
    else st = tinyi_edge_list_read(ctx, name, bytes, n_bytes, desc && desc->bipartite, &r);
    /* a single edge may name node 2147483646: the rows that it asks for are counted against the size of the file */
    if (!st && !r.e.n_src && !r.e.n_dst) {
        int32_t most[2];
        int64_t i;
        for (i = 0; i < 2; i++) most[i] = r.nodes[i] - 1;
        for (i = 0; i < r.e.n; i++) {
            most[0] = TINYI_MAX(most[0], r.src[i]);
            most[1] = TINYI_MAX(most[1], r.dst[i]);
        }
        if (!desc || TINYI_MAX(most[0], most[1]) >= desc->n_nodes)
            st = tinyi_read_far(ctx, name, TINYI_MAX(most[0], most[1]), n_bytes);
        if (!(desc && desc->bipartite)) most[0] = most[1] = TINYI_MAX(most[0], most[1]);
        r.e.n_src = (tiny_idx)most[0] + 1;
        r.e.n_dst = (tiny_idx)most[1] + 1;
    }
    if (!st) st = tinyi_read_finish(ctx, name, &r, desc, out);
    tinyi_read_free(ctx, &r);
    return st;
}

TINY_API tiny_status tgnn_graph_read_memory(tiny_ctx *ctx, const char *name, const void *bytes, size_t n_bytes,
                                            const tgnn_graph_desc *desc, tgnn_graph **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out || (!bytes && n_bytes))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: the bytes or the output pointer is missing");
    return tinyi_graph_read(ctx, name ? name : "graph", (const unsigned char *)bytes, n_bytes, desc, NULL, 0, out);
}

TINY_API tiny_status tgnn_graph_read(tiny_ctx *ctx, const char *path, const tgnn_graph_desc *desc, tgnn_graph **out)
{
    tiny_file f;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: the output pointer is missing");
    st = tiny_file_open(ctx, path, &f);
    if (st) return st;
    st = tinyi_graph_read(ctx, path, f.bytes, f.n_bytes, desc, &f, 0, out);
    tiny_file_close(ctx, &f);
    return st;
}

/* ---- writing */

TINY_API tiny_status tgnn_graph_write(tiny_ctx *ctx, const char *path, const tgnn_graph *g)
{
    unsigned char *box, *bytes;
    const tiny_sparse *a;
    tinyi_writer w;
    size_t part[4], total;
    uint32_t flags;
    int64_t p;
    tiny_idx r;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!g) return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: the graph to write is missing");
    a = &g->in;
    flags = (a->value ? TINYI_TGRAPH_WEIGHTS : 0) | (a->source ? TINYI_TGRAPH_NUMBERS : 0);
    if (!tinyi_tgraph_plan((uint64_t)a->n_rows, (uint64_t)a->n, flags, part, &total))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "graph: %lld edges are too many for a file", (long long)a->n);
    box = (unsigned char *)tiny_alloc(ctx, TINYI_BOX_BYTES(total));
    if (!box) return tiny_ctx_status(ctx);
    bytes = box + TINYI_BOX_FRONT;
    memset(bytes, 0, total);
    tinyi_tgraph_head(bytes, flags, (uint64_t)a->n_rows, (uint64_t)a->n_cols, (uint64_t)a->n, (uint64_t)total);
    w.n = 0;
    w.at = bytes + part[0];
    for (r = 0; r <= a->n_rows; r++) tinyi_wr(&w, (uint64_t)a->offset[r], 8);
    for (w.at = bytes + part[1], w.n = 0, p = 0; p < a->n; p++) tinyi_wr(&w, (uint32_t)a->col[p], 4);
    for (w.at = bytes + part[2], w.n = 0, p = 0; a->value && p < a->n; p++)
        tinyi_wr(&w, tinyi_f32_bits(a->value[p]), 4);
    for (w.at = bytes + part[3], w.n = 0, p = 0; a->source && p < a->n; p++) tinyi_wr(&w, (uint64_t)a->source[p], 8);
    tinyi_box_seal(&tinyi_tgraph_box, box, total);
    st = tiny_file_write(ctx, path, box, TINYI_BOX_BYTES(total));
    tiny_free(ctx, box);
    return st;
}

TINY_API tiny_status tgnn_graph_write_text(tiny_ctx *ctx, const char *path, const tgnn_graph *g)
{
    /* two numbers of 11 letters at most, a weight, and what stands between */
    const size_t each = 2 * 12 + TINYI_WORD_FLOAT;
    const tiny_sparse *a;
    char *text, *head;
    size_t n, n_head, room;
    int64_t p, end, put = 0, last[2] = { -1, -1 };
    tiny_idx r;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!g) return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: the graph to write is missing");
    a = &g->in;
    if (!tinyi_size_mul((size_t)a->n + 1, each, &room))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "graph: %lld edges are too many for a text", (long long)a->n);
    text = (char *)tiny_alloc(ctx, room);
    if (!text) return tiny_ctx_status(ctx);
    head = text;                            /* room for the remark is left before the edges */
    for (n = each, r = 0; !st && r < a->n_rows; r++)
        for (tinyi_row_range(a, r, &p, &end); !st && p < end; p++) {
            const int32_t c = a->col[p];
            if (put++ == a->n || c < 0 || c >= a->n_cols) {
                st = tinyi_fail(
                    ctx, TINY_E_FORMAT,
                    "graph: edge %lld is not among its %lld edges, or its source is invalid: the file of the graph "
                    "has changed",
                    (long long)p, (long long)a->n);
                break;
            }
            last[0] = TINYI_MAX(last[0], (int64_t)c);
            last[1] = (int64_t)r;
            n += (size_t)snprintf(text + n, each, a->value ? "%ld\t%ld\t" : "%ld\t%ld\n", (long)c, (long)r);
            if (!a->value) continue;
            n += tinyi_word_of_float(a->value[p], text + n);
            text[n++] = '\n';
        }
    if (!st && put != a->n)
        st = tinyi_fail(ctx, TINY_E_FORMAT,
                        "graph: its rows have %lld edges, not %lld: the file of the graph has changed",
                        (long long)put, (long long)a->n);
    n_head = 0;
    if (a->n_rows != a->n_cols && (last[0] + 1 < a->n_cols || last[1] + 1 < a->n_rows))
        n_head = (size_t)snprintf(head, each, "# nodes %td %td\n", a->n_cols, a->n_rows);
    else if (TINYI_MAX(last[0], last[1]) + 1 < a->n_rows)
        n_head = (size_t)snprintf(head, each, "# nodes %td\n", a->n_rows);
    memmove(head + each - n_head, head, n_head);
    if (!st) st = tiny_file_write(ctx, path, text + each - n_head, n - each + n_head);
    tiny_free(ctx, text);
    return st;
}

/* ---- folders */

static tiny_status tinyi_data_path(tiny_ctx *ctx, char path[600], const char *folder, const char *file)
{
    int n = snprintf(path, 600, "%s/%s", folder, file);
    return n > 0 && n < 600 ? TINY_OK : tinyi_fail(ctx, TINY_E_ARGUMENT, "%.40s...: the path is too long", folder);
}

#ifndef TINY_NO_STDIO
static int tinyi_data_there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    (void)fclose(f);
    return 1;
}
#else
static int tinyi_data_there(const char *path) { (void)path; return 0; }
#endif

/* n integers of the file, if it is there; *most: the largest and one */
static tiny_status tinyi_data_integers(tiny_ctx *ctx, const char *folder, const char *file, tiny_idx n, int32_t **out,
                                       int32_t *most)
{
    char path[600];
    tiny_idx have, i;
    tiny_status st = tinyi_data_path(ctx, path, folder, file);
    if (st || !tinyi_data_there(path)) return st;
    st = tgnn_integers_read(ctx, path, out, &have);
    if (st) return st;
    if (n >= 0 && have != n) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %td lines, there must be %td", path, have, n);
    for (i = 0; i < have; i++) {
        if ((*out)[i] < -1)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: line %td is %ld, the minimum is -1", path, i + 1, (long)(*out)[i]);
        if (most && (*out)[i] == 0x7fffffff)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: line %td is %ld, which is too large", path, i + 1, (long)(*out)[i]);
        if (most) *most = TINYI_MAX(*most, (*out)[i] + 1);
    }
    return TINY_OK;
}

static tiny_status tinyi_data_splits(tiny_ctx *ctx, const char *folder, tgnn_data *d)
{
    char path[600];
    tiny_file f;
    tinyi_text_file t;
    tinyi_word line, word;
    tiny_idx at = 0;
    size_t i;
    tiny_status st = tinyi_data_path(ctx, path, folder, "splits.txt");
    if (st || !tinyi_data_there(path)) return st;
    st = tiny_file_open(ctx, path, &f);
    if (st) return st;
    t = tinyi_text_make(ctx, path, f.bytes, f.n_bytes);
    while (!st && tinyi_text_line(&t, "", &line)) {
        int words;
        (void)tinyi_word_next(&line, &word);
        words = tinyi_word_is(word, "train")  ? 'r'
                : tinyi_word_is(word, "val")  ? 'v'
                : tinyi_word_is(word, "test") ? 't'
                : tinyi_word_is(word, "none") ? '-'
                                              : 0;
        if (!d->split) {
            size_t n;
            d->n_split = words ? 1 : (tiny_idx)word.n;
            /* a mark is a byte of the file: what the first line promises for all nodes must be there */
            if (!tinyi_size_mul((size_t)d->n_nodes, (size_t)d->n_split, &n) || n > f.n_bytes) {
                st = tinyi_fail(
                    ctx, TINY_E_FORMAT,
                    "%s: line %lld has %td marks, which for %td nodes are more than the %zu bytes of the file", path,
                    (long long)t.line, d->n_split, d->n_nodes, f.n_bytes);
                break;
            }
            d->split = (char *)tiny_alloc(ctx, n);
            if (!d->split) { st = tiny_ctx_status(ctx); break; }
        }
        if (at == d->n_nodes)
            st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: line %lld is one more than the %td nodes", path, (long long)t.line,
                            d->n_nodes);
        else if (words && d->n_split == 1) d->split[at] = (char)words;
        else if ((tiny_idx)word.n != d->n_split) st = tinyi_text_fail(&t, word, "as many marks as the first line has");
        else {
            for (i = 0; i < word.n && strchr("rvt-", word.at[i]) && word.at[i]; i++)
                d->split[at * d->n_split + (tiny_idx)i] = (char)word.at[i];
            if (i < word.n)
                st = tinyi_text_fail(&t, word, "train, val, test, none, or a mark r, v, t, - for each split");
        }
        at++;
    }
    if (!st && at != d->n_nodes)
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: %td lines for %td nodes", path, at, d->n_nodes);
    tiny_file_close(ctx, &f);
    return st;
}

/* bytes of all files of the folder that are read: a node or a graph may take no byte, but what they cost is bounded by
 * what is there */
static tiny_status tinyi_data_bytes(tiny_ctx *ctx, const char *folder, uint64_t *n)
{
    static const char *const file[] = { "meta.txt",         "edges.tsv",  "features.coo",      "features.npy",
                                        "labels.txt",       "splits.txt", "graph_of_node.txt", "node_labels.txt",
                                        "graph_labels.txt", "folds.txt" };
    char path[600];
    tinyi_in in;
    size_t i;
    tiny_status st = TINY_OK;
    *n = 0;
    for (i = 0; !st && i < sizeof file / sizeof *file; i++) {
        st = tinyi_data_path(ctx, path, folder, file[i]);
        if (st || !tinyi_data_there(path)) continue;
        st = tinyi_in_open(ctx, path, &in);
        if (st) continue;
        *n += in.n_bytes;
        tinyi_in_close(&in);
    }
    return st;
}

static tiny_status tinyi_data_fill(tiny_ctx *ctx, const char *folder, tgnn_data *d)
{
    tgnn_graph_desc gd;
    tgnn_array a;
    tiny_file f;
    char path[600];
    int64_t v;
    tiny_status st = tinyi_data_path(ctx, path, folder, "meta.txt");
    if (!st && tinyi_data_there(path)) {
        tinyi_text_file t;
        tinyi_word line, key, word;
        uint64_t n_bytes;
        st = tinyi_data_bytes(ctx, folder, &n_bytes);
        if (!st) st = tiny_file_open(ctx, path, &f);
        if (st) return st;
        t = tinyi_text_make(ctx, path, f.bytes, f.n_bytes);
        while (!st && tinyi_text_line(&t, "#", &line)) {
            (void)tinyi_word_next(&line, &key);
            if (!tinyi_word_next(&line, &word)) continue;
            if (tinyi_word_is(key, "nodes") || tinyi_word_is(key, "graphs") || tinyi_word_is(key, "directed")) {
                if (!tinyi_word_int(word, &v) || v < 0 || v > 0x7fffffff)
                    st = tinyi_text_fail(&t, word, "a whole number");
                else if ((uint64_t)v > TINYI_READ_NODES(n_bytes))
                    st = tinyi_fail(ctx, TINY_E_OVERFLOW,
                                    "%s: line %lld: %lld are too many for the %llu bytes of the folder", path,
                                    (long long)t.line, (long long)v, (unsigned long long)n_bytes);
                else if (tinyi_word_is(key, "nodes")) d->n_nodes = (tiny_idx)v;
                else if (tinyi_word_is(key, "graphs")) d->n_graphs = (tiny_idx)v;
                else d->directed = v != 0;
            }
        }
        tiny_file_close(ctx, &f);
    }
    memset(&gd, 0, sizeof gd);
    gd.n_nodes = d->n_nodes;
    gd.symmetrize = !d->directed;
    gd.duplicates = d->directed ? TINY_DUPLICATES_KEEP : TINY_DUPLICATES_FIRST;
    if (!st) st = tinyi_data_path(ctx, path, folder, "edges.tsv");
    if (!st) st = tgnn_graph_read(ctx, path, &gd, &d->graph);
    if (st) return st;
    if (d->n_nodes && tgnn_graph_nodes(d->graph) != d->n_nodes)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: it has node %td, but meta.txt says %td nodes", path,
                          tgnn_graph_nodes(d->graph) - 1, d->n_nodes);
    d->n_nodes = tgnn_graph_nodes(d->graph);
    st = tinyi_data_path(ctx, path, folder, "features.coo");
    if (!st && !tinyi_data_there(path)) st = tinyi_data_path(ctx, path, folder, "features.npy");
    if (!st && tinyi_data_there(path)) {
        st = tgnn_array_read(ctx, path, NULL, &a);
        if (!st) {
            char text[96];
            d->x = a.t;
            if (a.t.dtype != TINY_F32 || a.t.rank != 2 || a.t.dim[0] != d->n_nodes)
                st =
                    tinyi_fail(ctx, TINY_E_SHAPE, "%s: features %s for %td nodes; they must be f32 with a row for each",
                               path, tinyi_shape_text(&a.t, text), d->n_nodes);
            for (v = 0; !st && v < (int64_t)tiny_tensor_count(&a.t); v++) {
                float x = ((const float *)a.t.data)[v];
                if (!(x - x == 0.0f))
                    st = tinyi_fail(ctx, TINY_E_NUMERIC, "%s: feature %lld of node %lld is not a finite number", path,
                                    (long long)(v % a.t.dim[1]), (long long)(v / a.t.dim[1]));
            }
        }
    }
    if (!st) st = tinyi_data_integers(ctx, folder, "labels.txt", d->n_nodes, &d->label, &d->n_class);
    if (!st) st = tinyi_data_splits(ctx, folder, d);
    if (!st) st = tinyi_data_integers(ctx, folder, "graph_of_node.txt", d->n_nodes, &d->graph_of_node, NULL);
    if (!st) st = tinyi_data_integers(ctx, folder, "node_labels.txt", d->n_nodes, &d->node_label, NULL);
    if (!st) st = tinyi_data_integers(ctx, folder, "graph_labels.txt", d->n_graphs, &d->graph_label, &d->n_graph_class);
    if (!st) st = tinyi_data_integers(ctx, folder, "folds.txt", d->n_graphs, &d->fold, NULL);
    for (v = 0; !st && d->graph_of_node && v < (int64_t)d->n_nodes; v++)
        if (d->graph_of_node[v] < 0 || d->graph_of_node[v] >= d->n_graphs ||
            (v && d->graph_of_node[v] < d->graph_of_node[v - 1]))
            st = tinyi_fail(ctx, TINY_E_FORMAT,
                            "%s/graph_of_node.txt: line %lld is %ld; graphs count from 0 to %td and ascend", folder,
                            (long long)v + 1, (long)d->graph_of_node[v], d->n_graphs - 1);
    return st;
}

TINY_API tiny_status tgnn_data_read(tiny_ctx *ctx, const char *folder, tgnn_data *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!folder || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "data: the folder or the output pointer is missing");
    memset(out, 0, sizeof *out);
    st = tinyi_data_fill(ctx, folder, out);
    if (st) tgnn_data_free(ctx, out);
    return st;
}

TINY_API void tgnn_data_free(tiny_ctx *ctx, tgnn_data *d)
{
    if (!d) return;
    tgnn_graph_close(ctx, d->graph);
    tiny_free(ctx, d->x.data);
    tiny_free(ctx, d->label);
    tiny_free(ctx, d->split);
    tiny_free(ctx, d->graph_of_node);
    tiny_free(ctx, d->node_label);
    tiny_free(ctx, d->graph_label);
    tiny_free(ctx, d->fold);
    memset(d, 0, sizeof *d);
}
