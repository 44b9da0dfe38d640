/* src/gnn/graph/stream.c - graphs larger than memory: sorted runs, and their merge
 * Method   Edges are read once, and symmetrize and drop_loops are applied as they go into a run. A full run is sorted
 *          by destination, then source (two stable radix sorts of math/sort.h), and added to a file. A heap of
 *          their first edges merges runs (D. Knuth, TAOCP 3, 5.4.1), as many at a time as fit into memory with 4 KB
 *          each. The last merge writes the rows. Runs are in the order of the input, and of equal edges the one of the
 *          earlier run comes first. So duplicate edges keep their order, as in the stable sort of whole graphs.
 *          If duplicates are merged or loops added, the last merge runs twice: the first time it only counts, because
 *          the offsets in the file depend on the counts.
 * Cost     36 bytes of memory for each edge of a run. With r runs that are merged k at a time, the edges are written 1
 *          + ceil(log_k r) times.
 * Left out Matrix Market, .npz and packed arrays: they are read as a whole (tgnn_graph_read). */
#include <stdio.h>
#include <string.h>
#include "gnn/graph/stream.h"
#include "gnn/graph/form_inside.h"
#include "gnn/graph/inflate_inside.h"
#include "gnn/graph/npy.h"
#include "gnn/graph/words_inside.h"
#include "core/bytes.h"
#include "core/half_inside.h"
#include "math/rows_inside.h"
#include "math/sort.h"

#define TINYI_BULK_SLACK ((size_t)16 << 10)     /* names of files, and what the allocator adds */
#define TINYI_BULK_LINE ((size_t)80 << 10)      /* the longest line, and the largest head of an array */
#define TINYI_BULK_PACKED ((size_t)16 << 10)    /* gzip is read in such pieces */
#define TINYI_BULK_BLOCK ((size_t)4 << 10)      /* of a run in a merge, at least */

/* key: destination, source */
typedef struct tinyi_bulk_edge { uint64_t key; int64_t number; float weight; } tinyi_bulk_edge;
#define TINYI_BULK_BYTES(weighted) ((weighted) > 0 ? (size_t)20 : (size_t)16)       /* of an edge in a run */

typedef struct tinyi_bulk {
    tiny_ctx *ctx;
    const char *name;
    tgnn_graph_desc d;
    tgnn_convert_info info;
    unsigned char *room;                    /* all the memory there is */
    size_t n_room;
    tinyi_in in;
    uint64_t n_in, n_text;                  /* bytes read of the file, and of the text in it */
    int weighted;                           /* -1: not known yet */
    /* a run that is filled */
    uint32_t *src, *dst;
    int64_t *number;
    float *weight;
    uint64_t *item, *scratch;
    size_t n, most;
    int64_t seen[2];                        /* the largest source and destination */
    int32_t nodes[2];                       /* sources and destinations that a remark counts */
    /* text on its way */
    unsigned char *line, *window, *packed;
    size_t n_line, room_line;
    int64_t lines;
    /* runs: edge i stands in run i / length */
    tinyi_out runs[2];
    tinyi_in look;
    int at;                                 /* which of the two */
    int64_t n_edges, length;
    /* the graph */
    tinyi_out out;
    uint64_t done, to_do;                   /* edges that merges have taken, for the progress */
    double told;                            /* the last progress */
} tinyi_bulk;

static tiny_status tinyi_bulk_heard(tinyi_bulk *c, double done)
{
    const tiny_ctx_desc *d = &c->ctx->desc;
    if (d->progress && (done >= c->told + 0.001 || done >= 1.0))
        d->progress(d->user, "convert", c->told = TINYI_MIN(done, 1.0));
    if (d->cancel && d->cancel(d->user))
        return tinyi_fail(c->ctx, TINY_E_CANCELLED, "convert: the cancel callback asked to stop");
    return TINY_OK;
}

/* the runs lie in files, and files have other writers */
static tiny_status tinyi_bulk_changed(const tinyi_bulk *c)
{
    return tinyi_fail(c->ctx, TINY_E_IO, "%s: the file changed while it was being read", c->look.path);
}

/* ---- runs */

static void *tinyi_bulk_part(unsigned char **at, size_t n, size_t bytes)
{
    unsigned char *p = *at;
    *at = p + (n * bytes + 63) / 64 * 64;
    return p;
}

/* the memory of a run: what text needs comes first */
static void tinyi_bulk_fill_room(tinyi_bulk *c, int gzip)
{
    unsigned char *at = c->room;
    size_t left;
    c->room_line = TINYI_MAX(TINYI_BULK_LINE, TINYI_MIN(c->n_room / 16, (size_t)1 << 20));
    c->line = (unsigned char *)tinyi_bulk_part(&at, c->room_line, 1);
    if (gzip) {
        c->window = (unsigned char *)tinyi_bulk_part(&at, TINYI_GUNZIP_WINDOW, 1);
        c->packed = (unsigned char *)tinyi_bulk_part(&at, TINYI_BULK_PACKED, 1);
    }
    left = c->n_room - (size_t)(at - c->room);
    /* 4 + 4 + 8 + 4 + 8 + 8 bytes; numbers within a run have 32 bits */
    c->most = TINYI_MIN((left - 6 * 64) / 36, (size_t)1 << 30);
    c->item = (uint64_t *)tinyi_bulk_part(&at, c->most, 8);
    c->scratch = (uint64_t *)tinyi_bulk_part(&at, c->most, 8);
    c->number = (int64_t *)tinyi_bulk_part(&at, c->most, 8);
    c->src = (uint32_t *)tinyi_bulk_part(&at, c->most, 4);
    c->dst = (uint32_t *)tinyi_bulk_part(&at, c->most, 4);
    c->weight = (float *)tinyi_bulk_part(&at, c->most, 4);
    c->length = (int64_t)c->most;
}

static void tinyi_bulk_store(unsigned char *to, const tinyi_bulk_edge *e, size_t bytes)
{
    memcpy(to, &e->key, 8);
    memcpy(to + 8, &e->number, 8);
    if (bytes > 16) memcpy(to + 16, &e->weight, 4);
}

static void tinyi_bulk_load(const unsigned char *from, tinyi_bulk_edge *e, size_t bytes)
{
    memcpy(&e->key, from, 8);
    memcpy(&e->number, from + 8, 8);
    e->weight = 1.0f;
    if (bytes > 16) memcpy(&e->weight, from + 16, 4);
}

static tiny_status tinyi_bulk_spill(tinyi_bulk *c)
{
    const size_t bytes = TINYI_BULK_BYTES(c->weighted), fit = c->n * 8 / bytes;
    unsigned char *to = (unsigned char *)(void *)c->scratch;
    size_t i, k = 0;
    tiny_status st = TINY_OK;
    if (!c->n) return TINY_OK;
    for (i = 0; i < c->n; i++) c->item[i] = (uint64_t)c->src[i] << 32 | (uint64_t)i;
    tinyi_sort_pairs(c->item, c->scratch, c->n);
    for (i = 0; i < c->n; i++) {
        const uint32_t at = (uint32_t)(c->item[i] & 0xffffffffu);
        c->item[i] = (uint64_t)c->dst[at] << 32 | (uint64_t)at;
    }
    tinyi_sort_pairs(c->item, c->scratch, c->n);
    for (i = 0; !st && i < c->n; i++) {
        const uint32_t at = (uint32_t)(c->item[i] & 0xffffffffu);
        tinyi_bulk_edge e;
        e.key = (uint64_t)c->dst[at] << 32 | c->src[at];
        e.number = c->number[at];
        e.weight = c->weight[at];
        if (fit) tinyi_bulk_store(to + k++ * bytes, &e, bytes);
        else {                              /* a run of one or two edges */
            unsigned char one[20];
            tinyi_bulk_store(one, &e, bytes);
            st = tinyi_out_add(c->ctx, &c->runs[0], one, bytes);
        }
        if (k && (k == fit || i + 1 == c->n)) {
            st = tinyi_out_add(c->ctx, &c->runs[0], to, k * bytes);
            k = 0;
        }
    }
    c->n_edges += (int64_t)c->n;
    c->info.n_runs++;
    c->n = 0;
    return st;
}

static tiny_status tinyi_bulk_put(tinyi_bulk *c, int32_t s, int32_t t, float w, int64_t number)
{
    c->src[c->n] = (uint32_t)s;
    c->dst[c->n] = (uint32_t)t;
    c->weight[c->n] = w;
    c->number[c->n++] = number;
    return c->n == c->most ? tinyi_bulk_spill(c) : TINY_OK;
}

static tiny_status tinyi_bulk_edge_in(tinyi_bulk *c, int32_t s, int32_t t, float w)
{
    const int64_t number = c->info.n_given++;
    tiny_status st = TINY_OK;
    if ((uint64_t)number >= (uint64_t)TINY_IDX_MAX / 64)
        return tinyi_fail(c->ctx, TINY_E_OVERFLOW, "%s: %lld edges", c->name, (long long)c->info.n_given);
    if (!(w - w == 0.0f))
        return tinyi_fail(c->ctx, TINY_E_NUMERIC, "%s: edge %lld: its weight is not a finite number", c->name,
                          (long long)number);
    c->seen[0] = TINYI_MAX(c->seen[0], (int64_t)s);
    c->seen[1] = TINYI_MAX(c->seen[1], (int64_t)t);
    if (s == t && c->d.drop_loops) return TINY_OK;
    st = tinyi_bulk_put(c, s, t, w, number);
    if (!st && c->d.symmetrize && s != t) st = tinyi_bulk_put(c, t, s, w, number);
    return st;
}

/* ---- reading */

/* the whole lines of what is there; at the end of the file the rest is one */
static tiny_status tinyi_bulk_lines(tinyi_bulk *c, int last)
{
    size_t n = c->n_line;
    tinyi_text_file f;
    tinyi_word line;
    tiny_status st = TINY_OK;
    while (!last && n && c->line[n - 1] != '\n') n--;
    if (!n && c->n_line == c->room_line)
        return tinyi_fail(c->ctx, TINY_E_UNSUPPORTED, "%s: line %lld is longer than %zu bytes, the limit",
                          c->name, (long long)c->lines + 1, c->room_line);
    f = tinyi_text_make(c->ctx, c->name, c->line, n);
    f.line = c->lines;
    while (!st && tinyi_text_edge_line(&f, &line, c->d.bipartite, c->nodes, &st)) {
        int64_t v[2];
        float w;
        st = tinyi_text_edge(&f, line, &c->weighted, v, &w);
        if (!st) st = tinyi_bulk_edge_in(c, (int32_t)v[0], (int32_t)v[1], w);
    }
    c->lines = f.line;
    c->n_line -= n;
    memmove(c->line, c->line + n, c->n_line);
    return st;
}

static tiny_status tinyi_bulk_read(tinyi_bulk *c, void *to, size_t room, size_t *n)
{
    tiny_status st = tinyi_bulk_heard(c, c->in.n_bytes ? 0.5 * (double)c->n_in / (double)c->in.n_bytes : 0.0);
    *n = 0;
    if (!st) st = tinyi_in_read(c->ctx, &c->in, to, room, n);
    c->n_in += *n;
    return st;
}

/* n_line bytes of the text stand in line already */
static tiny_status tinyi_bulk_text(tinyi_bulk *c)
{
    size_t n = 1;
    tiny_status st;
    c->n_text = c->n_line;
    st = tinyi_bulk_lines(c, 0);         /* after which there is room for more */
    while (!st && n) {
        st = tinyi_bulk_read(c, c->line + c->n_line, c->room_line - c->n_line, &n);
        c->n_line += n;
        c->n_text += n;
        if (!st) st = tinyi_bulk_lines(c, !n);
    }
    return st;
}

static tiny_status tinyi_bulk_more(void *arg, const unsigned char **bytes, size_t *n)
{
    tinyi_bulk *c = (tinyi_bulk *)arg;
    *bytes = c->packed;
    return tinyi_bulk_read(c, c->packed, TINYI_BULK_PACKED, n);
}

static tiny_status tinyi_bulk_take(void *arg, const unsigned char *bytes, size_t n)
{
    tinyi_bulk *c = (tinyi_bulk *)arg;
    tiny_status st = TINY_OK;
    while (!st && n) {
        const size_t k = TINYI_MIN(n, c->room_line - c->n_line);
        memcpy(c->line + c->n_line, bytes, k);
        bytes += k;
        n -= k;
        c->n_line += k;
        /* the first piece of a text that is not tiny has so many */
        if (c->n_text < TINYI_FORM_BYTES && c->n_text + k >= TINYI_FORM_BYTES) {
            const tinyi_form form = tinyi_read_form(c->line, c->n_line);
            if (form == TINYI_FORM_GZIP)
                return tinyi_fail(c->ctx, TINY_E_UNSUPPORTED, "%s: it is compressed by gzip twice", c->name);
            if (form != TINYI_FORM_EDGES)
                return tinyi_fail(c->ctx, TINY_E_UNSUPPORTED,
                                  "%s: of gzip files, only edge lists can be read in pieces", c->name);
        }
        c->n_text += k;
        if (c->n_line == c->room_line) st = tinyi_bulk_lines(c, 0);
    }
    return st;
}

static tiny_status tinyi_bulk_gzip(tinyi_bulk *c)
{
    tinyi_gunzip_pipe p;
    tiny_status st = tinyi_in_seek(c->ctx, &c->in, 0);
    c->n_line = 0;
    c->n_in = 0;
    p.more = tinyi_bulk_more;
    p.take = tinyi_bulk_take;
    p.arg = c;
    p.window = c->window;
    p.n_window = TINYI_GUNZIP_WINDOW;
    p.most = c->in.n_bytes < (UINT64_MAX - TGNN_UNPACK_EXTRA) / TGNN_UNPACK_TIMES
                 ? c->in.n_bytes * TGNN_UNPACK_TIMES + TGNN_UNPACK_EXTRA
                 : UINT64_MAX;
    if (!st) st = tinyi_gunzip_by(c->ctx, c->name, &p);
    return st ? st : tinyi_bulk_lines(c, 1);
}

/* n_line bytes of the file stand in line */
static tiny_status tinyi_bulk_npy(tinyi_bulk *c)
{
    tinyi_npy_head h;
    tiny_idx n, i, k, got;
    int by_row, side, pairs;
    size_t room, each;
    unsigned char *raw = c->line;
    tiny_status st = tinyi_npy_open(c->ctx, c->name, c->line, c->n_line, c->in.n_bytes, &h);
    if (!st) st = tinyi_read_pairs_shape(c->ctx, c->name, &h.t, &n, &by_row);
    if (st) return st;
    c->weighted = 0;
    pairs = by_row != h.fortran;            /* source and destination side by side, or all sources first */
    each = (size_t)h.size;
    /* edges of a piece: 16 bytes in the file at most, then 16 as they are handed out */
    room = c->room_line / 32;
    for (i = 0; !st && i < n; i += got) {
        unsigned char *number = raw + room * 16;
        tiny_tensor t;
        got = TINYI_MIN((tiny_idx)room, n - i);
        st = tinyi_bulk_heard(c, 0.5 * (double)i / (double)n);
        for (side = 0; !st && side < (pairs ? 1 : 2); side++) {
            const size_t want = (size_t)got * each * (pairs ? 2 : 1);
            size_t there = 0;
            st = tinyi_in_seek(c->ctx, &c->in,
                               h.at + (pairs ? 2 * (uint64_t)i : (uint64_t)side * (uint64_t)n + (uint64_t)i) * each);
            if (!st) st = tinyi_in_read(c->ctx, &c->in, raw + (size_t)side * (size_t)got * each, want, &there);
            if (!st && there != want) st = tinyi_fail(c->ctx, TINY_E_IO,
                                                      "%s: it ended while it was being read", c->name);
        }
        for (k = 0; !st && k < 2 * got; k++) {
            const uint64_t in_file =
                pairs ? 2 * (uint64_t)i + (uint64_t)k : (uint64_t)(k / got) * (uint64_t)n + (uint64_t)(i + k % got);
            st = tinyi_npy_take(c->ctx, c->name, &h, in_file, raw + (size_t)k * each,
                                number + (size_t)k * tiny_dtype_bytes(h.t.dtype));
        }
        t = tiny_tensor_1d(number, h.t.dtype, 2 * got);
        for (k = 0; !st && k < got; k++) {
            int32_t v[2];
            if (!tinyi_read_node(&t, pairs ? 2 * k : k, &v[0]) ||
                !tinyi_read_node(&t, pairs ? 2 * k + 1 : got + k, &v[1]))
                st = tinyi_read_pairs_fail(c->ctx, c->name, i + k);
            else st = tinyi_bulk_edge_in(c, v[0], v[1], 1.0f);
        }
    }
    c->n_text = c->in.n_bytes;
    return st;
}

static tiny_status tinyi_bulk_edges(tinyi_bulk *c)
{
    tinyi_form form;
    tiny_status st;
    int k;
    tinyi_bulk_fill_room(c, 0);
    st = tinyi_bulk_read(c, c->line, TINYI_BULK_LINE, &c->n_line);
    if (st) return st;
    form = tinyi_read_form(c->line, c->n_line);
    if (form == TINYI_FORM_TGRAPH || form == TINYI_FORM_ZIP || form == TINYI_FORM_MARKET)
        return tinyi_fail(c->ctx, TINY_E_UNSUPPORTED,
                          "%s: %s cannot be read in pieces; only edge lists and .npy can", c->name,
                          form == TINYI_FORM_TGRAPH ? "a .tgraph file"
                          : form == TINYI_FORM_ZIP  ? "an .npz file"
                                                    : "a Matrix Market file");
    if (form != TINYI_FORM_EDGES && !c->in.n_bytes)
        return tinyi_fail(c->ctx, TINY_E_UNSUPPORTED,
                          "%s: arrays and compressed texts cannot be read from a pipe", c->name);
    if (form == TINYI_FORM_GZIP) {
        tinyi_bulk_fill_room(c, 1);
        st = tinyi_bulk_gzip(c);
    } else st = form == TINYI_FORM_NPY ? tinyi_bulk_npy(c) : tinyi_bulk_text(c);
    for (k = 0; k < 2; k++) c->seen[k] = TINYI_MAX(c->seen[k], (int64_t)c->nodes[k] - 1);
    if (!st && TINYI_MAX(c->seen[0], c->seen[1]) >= (int64_t)c->d.n_nodes)
        st = tinyi_read_far(c->ctx, c->name, (int32_t)TINYI_MAX(c->seen[0], c->seen[1]), c->n_text);
    return st ? st : tinyi_bulk_spill(c);
}

/* ---- merging */

typedef struct tinyi_bulk_run {          /* one of those that are merged */
    int64_t next, end;                      /* edges of the file that are not in its block yet */
    unsigned char *block;
    /* edges of the block: the first that is not taken, and how many there are */
    size_t at, n;
    tinyi_bulk_edge e;                   /* the edge at at */
} tinyi_bulk_run;

/* the next edge of the run; *there 0: it has ended */
static tiny_status tinyi_bulk_next(tinyi_bulk *c, tinyi_bulk_run *r, size_t fit, int *there)
{
    const size_t bytes = TINYI_BULK_BYTES(c->weighted);
    *there = 1;
    if (++r->at >= r->n) {
        size_t n = 0;
        tiny_status st;
        if (r->next == r->end) {
            *there = 0;
            return TINY_OK;
        }
        r->n = (size_t)TINYI_MIN((int64_t)fit, r->end - r->next);
        r->at = 0;
        st = tinyi_bulk_heard(c, 0.5 + 0.5 * (double)c->done / (double)(c->to_do ? c->to_do : 1));
        if (!st) st = tinyi_in_seek(c->ctx, &c->look, (uint64_t)r->next * bytes);
        if (!st) st = tinyi_in_read(c->ctx, &c->look, r->block, r->n * bytes, &n);
        if (!st && n != r->n * bytes)
            st = tinyi_fail(c->ctx, TINY_E_IO, "%s: it is shorter than the data that were written", c->look.path);
        if (st) return st;
        c->done += (uint64_t)r->n;
        r->next += (int64_t)r->n;
    }
    tinyi_bulk_load(r->block + r->at * bytes, &r->e, bytes);
    if (r->e.key >> 32 >= (uint64_t)c->info.n_dst || (r->e.key & 0xffffffffu) >= (uint64_t)c->info.n_src)
        return tinyi_bulk_changed(c);
    return TINY_OK;
}

static int tinyi_bulk_before(const tinyi_bulk_run *run, int32_t a, int32_t b)
{
    return run[a].e.key != run[b].e.key ? run[a].e.key < run[b].e.key : a < b;
}

static void tinyi_bulk_sink(const tinyi_bulk_run *run, int32_t *heap, int32_t n, int32_t i)
{
    const int32_t moved = heap[i];
    for (;;) {
        int32_t k = 2 * i + 1;
        if (k >= n) break;
        if (k + 1 < n && tinyi_bulk_before(run, heap[k + 1], heap[k])) k++;
        if (!tinyi_bulk_before(run, heap[k], moved)) break;
        heap[i] = heap[k];
        i = k;
    }
    heap[i] = moved;
}

typedef tiny_status (*tinyi_bulk_fn)(tinyi_bulk *c, void *arg, const tinyi_bulk_edge *e);

/* hands the edges of n runs from the first-th on to fn, in order; room: for the runs, the heap and the blocks */
static tiny_status tinyi_bulk_merge(tinyi_bulk *c, int64_t first, int32_t n, unsigned char *room, size_t n_room,
                                    tinyi_bulk_fn fn, void *arg)
{
    const size_t bytes = TINYI_BULK_BYTES(c->weighted);
    tinyi_bulk_run *run = (tinyi_bulk_run *)tinyi_bulk_part(&room, (size_t)n, sizeof *run);
    int32_t *heap = (int32_t *)tinyi_bulk_part(&room, (size_t)n, sizeof *heap), i, left = 0;
    const size_t taken = ((size_t)n * sizeof *run + 63) / 64 * 64 + ((size_t)n * sizeof *heap + 63) / 64 * 64,
                 block = (n_room - taken) / (size_t)n / 64 * 64;
    int there;
    tiny_status st = TINY_OK;
    for (i = 0; !st && i < n; i++) {
        run[i].next = (first + i) * c->length;
        run[i].end = TINYI_MIN(run[i].next + c->length, c->n_edges);
        run[i].block = room + (size_t)i * block;
        run[i].at = run[i].n = 0;
        st = tinyi_bulk_next(c, &run[i], block / bytes, &there);
        if (!st && there) heap[left++] = i;
    }
    for (i = left / 2; i-- > 0;) tinyi_bulk_sink(run, heap, left, i);
    while (!st && left) {
        tinyi_bulk_run *r = &run[heap[0]];
        st = fn(c, arg, &r->e);
        if (!st) st = tinyi_bulk_next(c, r, block / bytes, &there);
        if (!st && !there) heap[0] = heap[--left];
        if (!st && left) tinyi_bulk_sink(run, heap, left, 0);
    }
    return st;
}

typedef struct tinyi_bulk_again { unsigned char *at; size_t n, room; } tinyi_bulk_again;

static tiny_status tinyi_bulk_again_put(tinyi_bulk *c, void *arg, const tinyi_bulk_edge *e)
{
    const size_t bytes = TINYI_BULK_BYTES(c->weighted);
    tinyi_bulk_again *a = (tinyi_bulk_again *)arg;
    tiny_status st = TINY_OK;
    if (a->n + bytes > a->room) {
        st = tinyi_out_add(c->ctx, &c->runs[!c->at], a->at, a->n);
        a->n = 0;
    }
    tinyi_bulk_store(a->at + a->n, e, bytes);
    a->n += bytes;
    return st;
}

/* The rows as they are merged. Where only is set they are counted, not written. */
typedef struct tinyi_bulk_rows {
    int only, pending, merged, weights;
    tinyi_bulk_edge e;                   /* pending: the edge that may still be added to */
    double sum;
    int64_t many;                           /* edges at its place */
    int64_t row, m;                         /* rows that are closed, and edges written */
    int loop;                               /* the row has one, or its place is passed */
    /* offsets, sources, weights, numbers on their way into the file */
    struct { unsigned char *at; size_t n, room; uint64_t place; } part[4];
} tinyi_bulk_rows;

static tiny_status tinyi_bulk_flush(tinyi_bulk *c, tinyi_bulk_rows *w, int k)
{
    tiny_status st = tinyi_out_seek(c->ctx, &c->out, w->part[k].place);
    if (!st) st = tinyi_out_add(c->ctx, &c->out, w->part[k].at, w->part[k].n);
    w->part[k].place += w->part[k].n;
    w->part[k].n = 0;
    return st;
}

static tiny_status tinyi_bulk_number(tinyi_bulk *c, tinyi_bulk_rows *w, int k, uint64_t v, int bytes)
{
    tinyi_writer to;
    tiny_status st = TINY_OK;
    if (w->only) return TINY_OK;
    if (w->part[k].n + (size_t)bytes > w->part[k].room) st = tinyi_bulk_flush(c, w, k);
    to.at = w->part[k].at + w->part[k].n;
    to.n = 0;
    tinyi_wr(&to, v, bytes);
    w->part[k].n += (size_t)bytes;
    return st;
}

static tiny_status tinyi_bulk_edge_out(tinyi_bulk *c, tinyi_bulk_rows *w, int32_t s, float weight, int64_t number)
{
    tiny_status st = tinyi_bulk_number(c, w, 1, (uint32_t)s, 4);
    if (!st && w->weights) st = tinyi_bulk_number(c, w, 2, tinyi_f32_bits(weight), 4);
    if (!st) st = tinyi_bulk_number(c, w, 3, (uint64_t)number, 8);
    w->m++;
    return st;
}

/* row w->row gets the loop that it lacks, once its place has come */
static tiny_status tinyi_bulk_loop(tinyi_bulk *c, tinyi_bulk_rows *w, int64_t up_to)
{
    if (!c->d.add_loops || w->loop || w->row > up_to) return TINY_OK;
    w->loop = 1;
    return tinyi_bulk_edge_out(c, w, (int32_t)w->row, 1.0f, -1);
}

/* closes the rows before to */
static tiny_status tinyi_bulk_close(tinyi_bulk *c, tinyi_bulk_rows *w, int64_t to)
{
    tiny_status st = TINY_OK;
    while (!st && w->row < to) {
        st = tinyi_bulk_loop(c, w, INT64_MAX);
        w->row++;
        w->loop = 0;
        if (!st) st = tinyi_bulk_number(c, w, 0, (uint64_t)w->m, 8);
        if (!st && w->row % 65536 == 0)
            st = tinyi_bulk_heard(c, 0.5 + 0.5 * (double)c->done / (double)(c->to_do ? c->to_do : 1));
    }
    return st;
}

static tiny_status tinyi_bulk_settle(tinyi_bulk *c, tinyi_bulk_rows *w)
{
    const int64_t row = (int64_t)(w->e.key >> 32), s = (int64_t)(w->e.key & 0xffffffffu);
    tiny_status st;
    if (!w->pending) return TINY_OK;
    w->pending = 0;
    w->merged |= w->many > 1;
    st = tinyi_bulk_close(c, w, row);
    if (s == row) w->loop = 1;
    if (!st) st = tinyi_bulk_loop(c, w, s - 1);
    return st ? st
              : tinyi_bulk_edge_out(c, w, (int32_t)s,
                                    c->d.duplicates == TINY_DUPLICATES_SUM && w->many > 1 ? tinyi_round_f32(w->sum)
                                                                                          : w->e.weight,
                                    w->e.number);
}

static tiny_status tinyi_bulk_row_put(tinyi_bulk *c, void *arg, const tinyi_bulk_edge *e)
{
    tinyi_bulk_rows *w = (tinyi_bulk_rows *)arg;
    tiny_status st;
    if (w->pending && w->e.key == e->key && c->d.duplicates != TINY_DUPLICATES_KEEP) {
        w->many++;
        w->sum += (double)e->weight;
        if (c->d.duplicates == TINY_DUPLICATES_MAX && e->weight > w->e.weight) w->e = *e;
        return TINY_OK;
    }
    st = tinyi_bulk_settle(c, w);
    w->pending = 1;
    w->e = *e;
    w->sum = (double)e->weight;
    w->many = 1;
    return st;
}

/* the rows of the runs that are left, written or counted */
static tiny_status tinyi_bulk_last(tinyi_bulk *c, tinyi_bulk_rows *w, int only)
{
    const size_t each = c->n_room / 4 / 4 / 64 * 64;       /* a quarter of the memory for the four parts */
    const int64_t n_runs = c->n_edges ? (c->n_edges + c->length - 1) / c->length : 0;
    tiny_status st = TINY_OK;
    int k;
    w->only = only;
    w->pending = w->loop = 0;
    w->row = w->m = 0;
    for (k = 0; k < 4; k++) {
        w->part[k].at = c->room + (size_t)k * each;
        w->part[k].room = each;
        w->part[k].n = 0;
    }
    st = tinyi_bulk_number(c, w, 0, 0, 8);
    if (!st && n_runs)
        st = tinyi_bulk_merge(c, 0, (int32_t)n_runs, c->room + 4 * each, c->n_room - 4 * each, tinyi_bulk_row_put, w);
    if (!st) st = tinyi_bulk_settle(c, w);
    return st ? st : tinyi_bulk_close(c, w, (int64_t)c->info.n_dst);
}

/* what is left in the parts, and zeros up to the next one; part and total as in the file */
static tiny_status tinyi_bulk_ends(tinyi_bulk *c, tinyi_bulk_rows *w, const size_t part[4], size_t total)
{
    static const unsigned char zero[64] = { 0 };
    tiny_status st = TINY_OK;
    int k;
    for (k = 0; !st && k < 4; k++) {
        const uint64_t end = k < 3 ? (uint64_t)part[k + 1] : (uint64_t)total;
        if (k == 2 && !w->weights) continue;
        st = tinyi_bulk_flush(c, w, k);
        if (!st && (w->part[k].place > end || end - w->part[k].place >= sizeof zero)) st = tinyi_bulk_changed(c);
        if (!st) st = tinyi_out_add(c->ctx, &c->out, zero, (size_t)(end - w->part[k].place));
    }
    return st;
}

/* the end of the box, for which the file is read once more: its parts were not written one after the other */
static tiny_status tinyi_bulk_seal(tinyi_bulk *c, uint64_t total)
{
    unsigned char end[TINYI_BOX_END];
    tinyi_hash hash;
    tinyi_in in;
    size_t n = c->n_room;
    tiny_status st = tinyi_out_look(c->ctx, &c->out, &in);
    tinyi_hash_start(&hash);
    while (!st && n == c->n_room) {
        st = tinyi_in_read(c->ctx, &in, c->room, c->n_room, &n);
        if (!st) tinyi_hash_add(&hash, c->room, n);
    }
    tinyi_in_close(&in);
    if (!st && hash.n_bytes != total) st = tinyi_bulk_changed(c);
    if (!st) st = tinyi_out_seek(c->ctx, &c->out, total);
    tinyi_box_end(2, total + TINYI_BOX_END, &hash, end);
    return st ? st : tinyi_out_add(c->ctx, &c->out, end, sizeof end);
}

/* the number of edges is known before the last merge only where each edge stays one */
static int tinyi_bulk_twice(const tinyi_bulk *c) { return c->d.duplicates != TINY_DUPLICATES_KEEP || c->d.add_loops; }

static tiny_status tinyi_bulk_write(tinyi_bulk *c, const char *out)
{
    tinyi_bulk_rows w;
    unsigned char front[TINYI_BOX_FRONT], head[64];
    size_t part[4], total;
    uint32_t flags;
    int k;
    tiny_status st = TINY_OK;
    memset(&w, 0, sizeof w);
    w.weights = c->weighted > 0;
    w.m = c->n_edges;
    if (tinyi_bulk_twice(c)) st = tinyi_bulk_last(c, &w, 1);
    /* sums of ones are no news where nothing was added: as in whole graphs */
    w.weights |= c->d.duplicates == TINY_DUPLICATES_SUM && w.merged;
    c->info.n = w.m;
    flags = TINYI_TGRAPH_NUMBERS | (w.weights ? TINYI_TGRAPH_WEIGHTS : 0);
    if (!st && !tinyi_tgraph_plan((uint64_t)c->info.n_dst, (uint64_t)w.m, flags, part, &total))
        st = tinyi_fail(c->ctx, TINY_E_OVERFLOW, "graph: %lld edges are too many for a file", (long long)w.m);
    if (!st) st = tinyi_out_open(c->ctx, out, &c->out);
    if (st) return st;
    tinyi_tgraph_head(head, flags, (uint64_t)c->info.n_dst, (uint64_t)c->info.n_src, (uint64_t)w.m, (uint64_t)total);
    tinyi_box_front(&tinyi_tgraph_box, total, front);
    st = tinyi_out_add(c->ctx, &c->out, front, sizeof front);
    if (!st) st = tinyi_out_add(c->ctx, &c->out, head, sizeof head);
    for (k = 0; k < 4; k++) w.part[k].place = part[k] += TINYI_BOX_FRONT;
    total += TINYI_BOX_FRONT;
    if (!st) st = tinyi_bulk_last(c, &w, 0);
    if (!st) st = tinyi_bulk_ends(c, &w, part, total);
    if (!st) st = tinyi_bulk_seal(c, total);
    if (!st) st = tinyi_bulk_heard(c, 1.0);
    if (!st) return tinyi_out_finish(c->ctx, &c->out);
    tinyi_out_abandon(c->ctx, &c->out);
    return st;
}

/* merges until one merge is left, then writes */
static tiny_status tinyi_bulk_runs(tinyi_bulk *c, const char *out, char name[2][600])
{
    const int64_t most = (int64_t)(c->n_room / 4 * 3 / (TINYI_BULK_BLOCK + 128));       /* of the runs in a merge */
    int64_t levels = 1 + tinyi_bulk_twice(c), n, i;
    tiny_status st = TINY_OK;
    for (n = (c->n_edges + c->length - 1) / c->length; n > most; n = (n + most - 1) / most) levels++;
    c->to_do = (uint64_t)c->n_edges * (uint64_t)levels;
    while (!st && (n = (c->n_edges + c->length - 1) / c->length) > most) {
        tinyi_bulk_again a;
        a.at = c->room;
        a.room = c->n_room / 4;
        a.n = 0;
        st = tinyi_out_open(c->ctx, name[!c->at], &c->runs[!c->at]);
        if (!st) st = tinyi_out_look(c->ctx, &c->runs[c->at], &c->look);
        for (i = 0; !st && i < n; i += most)
            st = tinyi_bulk_merge(c, i, (int32_t)TINYI_MIN(most, n - i), c->room + (a.room + 63) / 64 * 64,
                                  c->n_room - (a.room + 63) / 64 * 64, tinyi_bulk_again_put, &a);
        if (!st) st = tinyi_out_add(c->ctx, &c->runs[!c->at], a.at, a.n);
        tinyi_in_close(&c->look);
        if (st) return st;
        tinyi_out_abandon(c->ctx, &c->runs[c->at]);
        c->at = !c->at;
        c->length *= most;
        c->info.n_merges++;
    }
    st = tinyi_out_look(c->ctx, &c->runs[c->at], &c->look);
    if (!st) st = tinyi_bulk_write(c, out);
    tinyi_in_close(&c->look);
    return st;
}

/* the file that stands beside `out` until it is done */
static int tinyi_bulk_is_part(const char *path, const char *out)
{
    const size_t n = strlen(out);
    return !strncmp(path, out, n) && !strcmp(path + n, ".part");
}

TINY_API tiny_status tgnn_graph_convert(tiny_ctx *ctx, const char *in, const char *out, const tgnn_convert_desc *desc,
                                        tgnn_convert_info *info)
{
    tinyi_bulk c;
    size_t memory = desc && desc->memory ? desc->memory : TGNN_CONVERT_USUAL;
    char name[2][600];
    int k, n;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!in || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "convert: the path to read or to write is missing");
    if (memory < TGNN_CONVERT_LEAST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "convert: a memory of %zu bytes; the minimum is %zu", memory,
                          TGNN_CONVERT_LEAST);
    memset(&c, 0, sizeof c);
    c.ctx = ctx;
    c.name = in;
    if (desc) c.d = desc->graph;
    st = tinyi_graph_desc_check(ctx, &c.d);
    for (k = 0; !st && k < 2; k++) {
        n = snprintf(name[k], sizeof name[k], "%s.runs%d", out, k);
        if (n < 0 || (size_t)n >= sizeof name[k] - 8)
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%.40s...: the path is too long", out);
        else if (tinyi_bulk_is_part(in, name[k]))
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: it would be overwritten by the sorted runs of %s", in, out);
    }
    if (!st && tinyi_bulk_is_part(in, out))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: it would be overwritten on the way to %s", in, out);
    if (!st && tinyi_file_special(out))
        st = tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                        "%s: it is not a regular file, so it cannot be written out of order", out);
    if (st) return st;
    c.weighted = -1;
    c.seen[0] = c.seen[1] = -1;
    st = tinyi_in_open(ctx, in, &c.in);
    if (!st) {
        c.n_room = memory - TINYI_BULK_SLACK;
        c.room = (unsigned char *)tiny_alloc(ctx, c.n_room);
        if (!c.room) st = tiny_ctx_status(ctx);
    }
    if (!st) st = tinyi_out_open(ctx, name[0], &c.runs[0]);
    if (!st) st = tinyi_bulk_edges(&c);
    if (!st) {
        int64_t nodes[2];
        for (k = 0; k < 2; k++)
            nodes[k] =
                TINYI_MAX(c.d.bipartite ? c.seen[k] + 1 : TINYI_MAX(c.seen[0], c.seen[1]) + 1, (int64_t)c.d.n_nodes);
        c.info.n_src = (tiny_idx)nodes[0];
        c.info.n_dst = (tiny_idx)nodes[1];
        if (nodes[0] > 0x7fffffff || nodes[1] > 0x7fffffff)
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: %lld nodes, the maximum is 2147483647", in,
                            (long long)TINYI_MAX(nodes[0], nodes[1]));
    }
    if (!st) st = tinyi_bulk_runs(&c, out, name);
    tinyi_in_close(&c.look);
    tinyi_in_close(&c.in);
    for (k = 0; k < 2; k++) tinyi_out_abandon(ctx, &c.runs[k]);
    tiny_free(ctx, c.room);
    if (!st && info) *info = c.info;
    return st;
}
