/* src/gnn/train/links.c - training for links: a net gives each node a vector; the larger the product of two vectors,
 * the likelier the link
 * Papers   T. Kipf, M. Welling, "Variational Graph Auto-Encoders", 2016 (arXiv 1611.07308), the non-variational form of
 *          section 2: p = 1 / (1 + e^-(z_s . z_d)), with cross-entropy over the edges and the same number of pairs
 *          without an edge, which are drawn again for each step.
 * Measure  the area under the ROC curve: of all combinations of a link and a pair that is not a link, the share in
 *          which the link has the larger product; ties count half. The links of the validation and test parts are
 *          removed from the graph, and their pairs drawn, before training. */
#include <math.h>
#include <string.h>
#include "gnn/train/kit_inside.h"
#include "gnn/graph/graph_inside.h"
#include "core/state_inside.h"
#include "math/sort.h"

/* is there an edge a -> b? rows ascend */
static int tinyi_link_there(const tiny_sparse *g, int32_t a, int32_t b)
{
    int64_t low, high, end;
    tinyi_row_range(g, b, &low, &end);
    for (high = end; low < high;) {
        const int64_t mid = low + (high - low) / 2;
        if (g->col[mid] < a) low = mid + 1;
        else high = mid;
    }
    return low < end && g->col[low] == a;
}

/* n pairs of two nodes without an edge in either direction: src of all, then dst of all. In a graph that is nearly
 * complete there are not enough: after 100 tries a pair is taken as it is. */
static void tinyi_link_none(const tiny_sparse *g, tiny_rng *rng, int32_t *src, int32_t *dst, tiny_idx n)
{
    const uint32_t nodes = (uint32_t)g->n_rows;
    tiny_idx i;
    int tries;
    for (i = 0; i < n; i++)
        for (tries = 0; tries < 100; tries++) {
            src[i] = (int32_t)tiny_rng_below(rng, nodes);
            dst[i] = (int32_t)tiny_rng_below(rng, nodes);
            if (src[i] != dst[i] && !tinyi_link_there(g, src[i], dst[i]) && !tinyi_link_there(g, dst[i], src[i])) break;
        }
}

/* The pairs with an edge, each once, whatever its direction and how many edges it has; no loops. pair NULL: they are
 * counted; else there is room for m of them. */
static tiny_status tinyi_links_pairs(tiny_ctx *ctx, const tiny_sparse *a, int32_t *pair, tiny_idx *m)
{
    const tiny_idx room = *m;
    tiny_idx r, n = 0;
    int64_t p, p1 = 0;
    int bad = 0;
    for (r = 0; r < a->n_rows && tinyi_row_next(a, r, &p, &p1); r++) {
        int32_t before = -1;
        for (; p < p1; p++) {
            const int32_t c = tinyi_row_col(a, p, &bad);
            const int again = c == before;
            before = c;
            if (c == r || again || (c > r && tinyi_link_there(a, (int32_t)r, c))) continue;
            if (pair && n < room) {
                pair[n * 2] = c;
                pair[n * 2 + 1] = (int32_t)r;
            }
            n++;
        }
    }
    if (bad || r < a->n_rows || (pair && n != room)) return tinyi_rows_changed(ctx, "links", a);
    *m = n;
    return TINY_OK;
}

TINY_API void tgnn_links_free(tiny_ctx *ctx, tgnn_links *l)
{
    int k;
    if (!l) return;
    tgnn_graph_close(ctx, l->graph);
    for (k = 0; k < 3; k++) {
        tiny_free(ctx, l->link[k]);
        tiny_free(ctx, l->none[k]);
    }
    memset(l, 0, sizeof *l);
}

TINY_API tiny_status tgnn_links_split(tiny_ctx *ctx, const tgnn_graph *g, double val, double test, uint64_t seed,
                                      tgnn_links *out)
{
    const tiny_sparse *a;
    tiny_rng rng = tiny_rng_make(seed, 0x6c696e6b);
    uint32_t *order = NULL;
    int32_t *pair = NULL;
    tgnn_graph_desc d;
    tgnn_edges e;
    tiny_idx m = 0, i, from;
    int k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!g || !out || !(val >= 0.0) || !(test >= 0.0) || !(val + test < 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "links: a graph, an output pointer, and shares of validation and test below 1 (%g, %g) are "
                          "required", val,
                          test);
    memset(out, 0, sizeof *out);
    a = tgnn_graph_in(g);
    if (a->n_rows != a->n_cols || a->n_rows < 2)
        return tinyi_fail(ctx, TINY_E_SHAPE, "links: the graph must have at least two nodes and must not be bipartite");
    st = tinyi_links_pairs(ctx, a, NULL, &m);
    if (st) return st;
    if (m < 1 || m > 0x7fffffff)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "links: the graph has %td pairs with an edge", m);
    pair = (int32_t *)tinyi_alloc(ctx, (size_t)m * 2, sizeof *pair);
    order = pair ? (uint32_t *)tinyi_alloc(ctx, (size_t)m, sizeof *order) : NULL;
    st = order ? tinyi_links_pairs(ctx, a, pair, &m) : tiny_ctx_status(ctx);
    if (!st) tiny_rng_permutation(&rng, order, (uint32_t)m);
    out->n[1] = (tiny_idx)((double)m * val);
    out->n[2] = (tiny_idx)((double)m * test);
    out->n[0] = m - out->n[1] - out->n[2];
    for (k = 0, from = 0; !st && k < 3; from += out->n[k++]) {
        const tiny_idx n = out->n[k];
        out->link[k] = (int32_t *)tinyi_alloc(ctx, (size_t)n * 2, sizeof *out->link[k]);
        out->none[k] = out->link[k] && k ? (int32_t *)tinyi_alloc(ctx, (size_t)n * 2, sizeof *out->none[k]) : NULL;
        if (!out->link[k] || (k && !out->none[k])) {
            st = tiny_ctx_status(ctx);
            break;
        }
        for (i = 0; i < n; i++) {
            out->link[k][i] = pair[(tiny_idx)order[from + i] * 2];
            out->link[k][n + i] = pair[(tiny_idx)order[from + i] * 2 + 1];
        }
        if (k) tinyi_link_none(a, &rng, out->none[k], out->none[k] + n, n);
    }
    tiny_free(ctx, pair);
    tiny_free(ctx, order);
    memset(&e, 0, sizeof e);
    memset(&d, 0, sizeof d);
    e.n_src = e.n_dst = a->n_rows;
    e.n = (int64_t)out->n[0];
    e.src = out->link[0];
    e.dst = out->link[0] ? out->link[0] + out->n[0] : NULL;
    d.symmetrize = 1;
    d.n_nodes = a->n_rows;
    if (!st) st = tgnn_graph_make(ctx, &e, &d, &out->graph);
    if (st) tgnn_links_free(ctx, out);
    return st;
}

tiny_status tinyi_area(tiny_ctx *ctx, const float *score, uint32_t *order, tiny_idx first, tiny_idx n, double *area)
{
    tiny_idx i, j, k;
    double sum = 0.0;
    tiny_status st = tiny_argsort_f32(ctx, score, order, (size_t)n, 0);
    for (i = 0, k = 0; !st && i < n; i = j) {           /* k of the others lie below */
        tiny_idx ours = 0;
        for (j = i; j < n && score[order[j]] == score[order[i]]; j++) ours += (tiny_idx)order[j] < first;
        if (j == i) return tinyi_fail(ctx, TINY_E_NUMERIC, "area: score %lu is not a number", (unsigned long)order[i]);
        sum += (double)ours * ((double)k + 0.5 * (double)(j - i - ours));
        k += j - i - ours;
    }
    if (!st) *area = sum / ((double)first * (double)(n - first));
    return st;
}

TINY_API tiny_status tgnn_links_area(tiny_ctx *ctx, const tiny_tensor *z, const int32_t *link, const int32_t *none,
                                     tiny_idx n, double *area)
{
    float *score;
    uint32_t *order;
    tiny_idx i, f;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!z || tiny_tensor_check(z) || z->dtype != TINY_F32 || z->rank != 2 || !link || !none || n < 1 ||
        n > 0x3fffffff || !area)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "links: vectors of the nodes and pairs of both kinds are required");
    for (i = 0; i < n * 2; i++)
        if (link[i] < 0 || link[i] >= z->dim[0] || none[i] < 0 || none[i] >= z->dim[0])
            return tinyi_fail(ctx, TINY_E_FORMAT, "links: pair %td has a node that does not exist (there are %td)",
                              i % n, z->dim[0]);
    score = (float *)tinyi_alloc(ctx, (size_t)n * 2, sizeof *score);
    order = score ? (uint32_t *)tinyi_alloc(ctx, (size_t)n * 2, sizeof *order) : NULL;
    st = order ? TINY_OK : tiny_ctx_status(ctx);
    for (i = 0; !st && i < n * 2; i++) {    /* links first */
        const int32_t *of = i < n ? link + i : none + (i - n);
        const float *a = (const float *)z->data + of[0] * z->stride[0],
                    *b = (const float *)z->data + of[n] * z->stride[0];
        double s = 0.0;
        for (f = 0; f < z->dim[1]; f++) s += (double)a[f * z->stride[1]] * (double)b[f * z->stride[1]];
        score[i] = (float)s;
        if (!(s - s == 0.0))
            st = tinyi_fail(ctx, TINY_E_NUMERIC, "links: the product of pair %td is not a finite number", i % n);
    }
    if (!st) st = tinyi_area(ctx, score, order, n, n * 2, area);
    tiny_free(ctx, score);
    tiny_free(ctx, order);
    return st;
}

typedef struct tinyi_link_task {
    tiny_ctx *ctx;
    tinyi_pass *pass;
    tinyi_pass_input in;
    const tgnn_links *data;
    uint64_t seed;
    tiny_idx m;                             /* links to train on */
    int32_t *src, *dst, *is;                /* 2 m: the links, then pairs of this step */
    tiny_tape *eyes;
} tinyi_link_task;

static tiny_tensor tinyi_link_vectors(tiny_tape *t, void *user)
{
    return tinyi_pass_run(t, ((tinyi_link_task *)user)->pass, &((tinyi_link_task *)user)->in);
}

static tiny_status tinyi_link_next(void *user, int epoch, int step)
{
    tinyi_link_task *t = (tinyi_link_task *)user;
    tiny_rng rng = tiny_rng_make(t->seed, 0x70616972u + ((uint64_t)epoch << 32));
    (void)step;
    tinyi_link_none(tgnn_graph_in(t->data->graph), &rng, t->src + t->m, t->dst + t->m, t->m);
    return TINY_OK;
}

/* cross-entropy of the two classes with the numbers 0 and z . z */
static tiny_tensor tinyi_link_loss(tiny_tape *tape, void *user)
{
    tinyi_link_task *t = (tinyi_link_task *)user;
    static const tiny_idx before[2] = { 0, 1 }, after[2] = { 0, 0 };
    tiny_tensor z = tinyi_link_vectors(tape, user), src = tiny_tensor_1d(t->src, TINY_I32, 2 * t->m),
                dst = tiny_tensor_1d(t->dst, TINY_I32, 2 * t->m);
    tiny_tensor is = tiny_tensor_1d(t->is, TINY_I32, 2 * t->m),
                a = tiny_tape_call(tape, TINY_OP_GATHER, &z, &src, NULL, NULL, NULL),
                b = tiny_tape_call(tape, TINY_OP_GATHER, &z, &dst, NULL, NULL, NULL);
    tiny_reduce_params keep;
    memset(&keep, 0, sizeof keep);
    keep.keep = 1;
    a = tiny_tape_call(tape, TINY_OP_DOT, &a, &b, NULL, NULL, &keep);
    a = tiny_tape_pad(tape, &a, before, after);
    return tiny_tape_cross_entropy(tape, &a, &is, 0.0);
}

static tiny_status tinyi_link_judge(void *user, tgnn_epoch *e)
{
    tinyi_link_task *t = (tinyi_link_task *)user;
    const tiny_tape_mark mark = tiny_tape_now(t->eyes);
    const tiny_tensor z = tinyi_link_vectors(t->eyes, t);
    double *to[3];
    int k;
    tiny_status st = tiny_tape_status(t->eyes);
    to[1] = &e->val;
    to[2] = &e->test;
    e->train = e->val = e->test = e->val_loss = (double)NAN;
    for (k = 1; !st && k < 3; k++)
        if (t->data->n[k]) st = tgnn_links_area(t->ctx, &z, t->data->link[k], t->data->none[k], t->data->n[k], to[k]);
    if (!st) e->val_loss = 1.0 - e->val;
    tiny_tape_release(t->eyes, mark);
    return st;
}

TINY_API tiny_status tgnn_train_links(tiny_ctx *ctx, tgnn_net *net, const tgnn_links *data, const tiny_tensor *x,
                                      const tgnn_train_desc *desc, tgnn_epoch *last)
{
    tgnn_train_desc none;
    tinyi_link_task t;
    tinyi_kit kit;
    tiny_idx i;
    int k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&none, 0, sizeof none);
    if (!desc) desc = &none;
    if (!data || !data->graph || !x || !data->link[0] || data->n[0] < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "train: x and links of tgnn_links_split are required");
    st = tinyi_kit_check(ctx, net, desc);
    if (!st && desc->a2q) st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "train: nets for links cannot be quantized");
    for (k = 0; !st && k < net->n_stages; k++)
        if (net->stage[k].kind == TGNN_STAGE_READOUT)
            st = tinyi_fail(ctx, TINY_E_ARGUMENT,
                            "train: a net with a readout gives results for graphs, not for nodes");
    if (!st && desc->patience && !data->n[1])
        st = tinyi_fail(ctx, TINY_E_ARGUMENT,
                        "train: patience %d, but no link is in the validation part", desc->patience);
    if (st) return st;
    memset(&t, 0, sizeof t);
    memset(&kit, 0, sizeof kit);
    t.ctx = ctx;
    t.data = data;
    t.seed = desc->seed;
    t.m = data->n[0];
    t.src = (int32_t *)tinyi_alloc(ctx, (size_t)t.m * 6, sizeof *t.src);
    if (!t.src) return tiny_ctx_status(ctx);
    t.dst = t.src + t.m * 2;
    t.is = t.dst + t.m * 2;
    memcpy(t.src, data->link[0], (size_t)t.m * sizeof *t.src);
    memcpy(t.dst, data->link[0] + t.m, (size_t)t.m * sizeof *t.src);
    for (i = 0; i < t.m * 2; i++) t.is[i] = i < t.m;
    st = tinyi_pass_open(ctx, net, desc->batch_norm, desc->seed, &t.pass);
    if (!st) st = tinyi_pass_input_open(t.pass, data->graph, NULL, 0, x, 1, &t.in);
    if (!st) st = tinyi_pass_tape(t.pass, tinyi_link_vectors, &t, 1, &t.eyes);
    kit.ctx = ctx;
    kit.pass = t.pass;
    kit.desc = desc;
    kit.task = &t;
    kit.steps = 1;
    kit.next = tinyi_link_next;
    kit.loss = tinyi_link_loss;
    kit.judge = tinyi_link_judge;
    if (!st) st = tinyi_kit_run(&kit, last);
    tiny_tape_close(t.eyes);
    if (t.pass) tinyi_pass_input_close(t.pass, &t.in);
    tinyi_pass_close(t.pass);
    tiny_free(ctx, t.src);
    return st;
}
