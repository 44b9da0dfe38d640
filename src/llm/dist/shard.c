/* src/llm/dist/shard.c - a plan of tensor parallelism on a graph: its cost, and its execution
 * Method   as in Redco (llm/dist/rules.c) and M. Shoeybi et al., "Megatron-LM", 2019 (arXiv 1909.08053), 3. With p
 *          ranks, a matrix (in, out) that is
 *          whole     takes a whole value and gives a whole one
 *          columns   (dim 1) takes a whole value and gives a split one
 *          rows      (dim 0) takes a split value and gives a sum; of a whole value each rank takes its part
 *          An embedding split over the vocabulary gives a sum: a rank gives zeros for tokens that it has not. Attention
 *          takes q, k, v split by heads where p divides the heads.
 * Cost     of a token, sent by a rank over a ring: a sum of n floats 2 (p - 1) / p 4n bytes, collecting n floats half.
 *          What a reader made whole, or cut, stays so for the next reader of the value.
 * Error    executed, sums are added in another order than on one rank: 1e-4 of the largest result in the tests.
 * Both run one walk over the graph (tinyi_shard_walk), so a plan costs what its execution sends. */
#include "core/state_inside.h"
#include "llm/dist/shard.h"
#include "math/elem.h"
#include "math/matmul.h"
#include <stdio.h>
#include <string.h>

enum { TINYI_SHARD_WHOLE, TINYI_SHARD_SPLIT, TINYI_SHARD_SUM };

typedef struct tinyi_shard_value {
    uint64_t width;                         /* of the whole value */
    uint64_t part[3];                       /* split: cut inside each of these; part[0] = width: one */
    int state;
    float *x;                               /* (n_tokens, width or width / p) */
} tinyi_shard_value;

typedef struct tinyi_shard_walk {
    tiny_ctx *ctx;
    const tllm_rules *rules;
    const tllm_shard_node *node;
    size_t n;
    tinyi_shard_value *value;               /* (n) */
    tllm_shard_cost_of cost;
    uint64_t p;
    int rank;
    const tllm_shard_desc *run;             /* NULL: only the cost */
    float *room;                            /* parts of all ranks */
} tinyi_shard_walk;

static tiny_status tinyi_shard_not(const tinyi_shard_walk *w, size_t i, const char *what)
{
    return tinyi_fail(w->ctx, TINY_E_SHAPE, "node %zu of the graph: %s", i, what);
}

static int tinyi_shard_is_embedding(const tllm_rule_tensor *t)
{
    const size_t n = strlen(t->path);
    return n >= 9 && !strcmp(t->path + n - 9, "embedding") && t->rank == 2;
}

static int tinyi_shard_ways(const tinyi_shard_value *v) { return 1 + (v->part[1] > 0) + (v->part[2] > 0); }

/* ---- between layers ---------------------------------------------------------------------------------------------- */

static size_t tinyi_shard_local(const tinyi_shard_walk *w, const tinyi_shard_value *v)
{
    return (size_t)(v->state == TINYI_SHARD_SPLIT ? v->width / w->p : v->width);
}

static void tinyi_shard_one(tinyi_shard_value *v)
{
    v->part[0] = v->width;
    v->part[1] = v->part[2] = 0;
}

/* makes a value whole */
static tiny_status tinyi_shard_whole(tinyi_shard_walk *w, tinyi_shard_value *v)
{
    const double p = (double)w->p, bytes = 4.0 * (double)v->width * (p - 1) / p;
    const int state = v->state;
    uint64_t cut[3];
    size_t t, r, k, from, to, local, n;
    tiny_status st;
    if (state == TINYI_SHARD_WHOLE) return TINY_OK;
    w->cost.bytes += state == TINYI_SHARD_SUM ? 2 * bytes : bytes;
    w->cost.n_sums += state == TINYI_SHARD_SUM;
    w->cost.n_collected += state == TINYI_SHARD_SPLIT;
    local = tinyi_shard_local(w, v);
    v->state = TINYI_SHARD_WHOLE;
    memcpy(cut, v->part, sizeof cut);
    tinyi_shard_one(v);
    if (!w->run) return TINY_OK;
    n = w->run->n_tokens;
    if (state == TINYI_SHARD_SUM)
        return tiny_coll_allreduce(w->ctx, w->run->coll, TINY_COMM_RING, v->x, n * (size_t)v->width);
    memcpy(w->room + (size_t)w->rank * n * local, v->x, n * local * sizeof *v->x);
    st = tiny_coll_allgather(w->ctx, w->run->coll, TINY_COLL_RING, w->room, n * local);
    for (r = 0; r < (size_t)w->p && !st; r++)
        for (t = 0; t < n; t++)
            for (k = from = to = 0; k < 3; k++) {
                const size_t part = (size_t)(cut[k] / w->p);
                memcpy(v->x + t * (size_t)v->width + to + r * part, w->room + (r * n + t) * local + from,
                       part * sizeof *v->x);
                from += part;
                to += (size_t)cut[k];
            }
    return st;
}

/* this rank's part of a whole value, in place: costs nothing */
static void tinyi_shard_slice(tinyi_shard_walk *w, tinyi_shard_value *v)
{
    size_t t, local;
    if (v->state != TINYI_SHARD_WHOLE) return;
    v->state = TINYI_SHARD_SPLIT;
    tinyi_shard_one(v);
    local = (size_t)(v->width / w->p);
    for (t = 0; w->run && t < w->run->n_tokens; t++)
        memmove(v->x + t * local, v->x + t * (size_t)v->width + (size_t)w->rank * local, local * sizeof *v->x);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static tiny_status tinyi_shard_lookup(tinyi_shard_walk *w, size_t i, tinyi_shard_value *y)
{
    const size_t tensor = w->node[i].tensor;
    const tllm_rule_tensor *t = tllm_rules_tensor(w->rules, tensor);
    const int dim = tllm_rules_dim(w->rules, tensor);
    size_t k, j, width, rows, from;
    if (!t || t->rank != 2) return tinyi_shard_not(w, i, "it looks up in a tensor that is no matrix");
    y->width = y->part[0] = t->dim[1];
    y->state = dim < 0 ? TINYI_SHARD_WHOLE : dim ? TINYI_SHARD_SPLIT : TINYI_SHARD_SUM;
    if (!w->run) return TINY_OK;
    width = tinyi_shard_local(w, y);
    from = dim == 1 ? (size_t)w->rank * width : 0;
    rows = (size_t)(dim == 0 ? t->dim[0] / w->p : t->dim[0]);
    for (k = 0; k < w->run->n_tokens; k++) {
        const int32_t id = w->run->token[k];
        const size_t first = dim == 0 ? (size_t)w->rank * rows : 0;
        const float *row;
        if (id < 0 || (uint64_t)id >= t->dim[0])
            return tinyi_fail(w->ctx, TINY_E_ARGUMENT, "token %d, there are %llu", id,
                              (unsigned long long)t->dim[0]);
        row = w->run->weight[tensor] + (size_t)id * (size_t)t->dim[1] + from;
        for (j = 0; j < width; j++)
            y->x[k * width + j] = (size_t)id >= first && (size_t)id < first + rows ? row[j] : 0.0f;
    }
    return TINY_OK;
}

/* y[:, at ..] = x times rows out0 .. of the matrix (out, in), its columns in0 .. */
static tiny_status tinyi_shard_product(tinyi_shard_walk *w, const float *x, size_t n_in, size_t x_step,
                                       const float *weight, size_t in, size_t in0, size_t out0, size_t n_out, float *y,
                                       size_t y_step)
{
    const tiny_idx n = (tiny_idx)w->run->n_tokens;
    tiny_tensor tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, n, (tiny_idx)n_in), ty, tw;
    tw = tiny_tensor_2d((void *)(uintptr_t)(weight + out0 * in + in0), TINY_F32, (tiny_idx)n_out, (tiny_idx)n_in);
    ty = tiny_tensor_2d(y, TINY_F32, n, (tiny_idx)n_out);
    tx.stride[0] = (tiny_idx)x_step;
    ty.stride[0] = (tiny_idx)y_step;
    tw.stride[0] = (tiny_idx)in;
    tw = tiny_tensor_swap(tw, 0, 1);
    return tiny_matmul(w->ctx, &tx, &tw, NULL, TINY_ACT_NONE, &ty);
}

static tiny_status tinyi_shard_matmul(tinyi_shard_walk *w, size_t i, tinyi_shard_value *x, tinyi_shard_value *y)
{
    const size_t tensor = w->node[i].tensor;
    const tllm_rule_tensor *t = tllm_rules_tensor(w->rules, tensor);
    int dim = tllm_rules_dim(w->rules, tensor), turned, k;
    uint64_t in, out;
    size_t at, from, part, in0;
    tiny_status st = TINY_OK;
    if (!t || t->rank != 2) return tinyi_shard_not(w, i, "it multiplies by a tensor that is no matrix");
    turned = tinyi_shard_is_embedding(t);   /* (vocabulary, width): what comes out is the vocabulary */
    in = t->dim[turned ? 1 : 0];
    out = t->dim[turned ? 0 : 1];
    if (turned && dim >= 0) dim = 1 - dim;
    if (in != x->width) return tinyi_shard_not(w, i, "its matrix does not fit what comes in");
    y->width = out;
    y->part[0] = !turned && t->part[0] ? t->part[0] : out;
    if (!turned && t->part[0]) {
        y->part[1] = t->part[1];
        y->part[2] = t->part[2];
    }
    y->state = dim < 0 ? TINYI_SHARD_WHOLE : dim ? TINYI_SHARD_SPLIT : TINYI_SHARD_SUM;
    if (dim != 0 || x->state == TINYI_SHARD_SUM || (x->state == TINYI_SHARD_SPLIT && tinyi_shard_ways(x) > 1))
        st = tinyi_shard_whole(w, x);
    if (st || !w->run) return st;
    in0 = dim == 0 ? (size_t)(in / w->p) * (size_t)w->rank : 0;
    if (dim != 1)
        return tinyi_shard_product(w, x->x + (x->state == TINYI_SHARD_WHOLE ? in0 : 0),
                                   (size_t)(dim == 0 ? in / w->p : in), tinyi_shard_local(w, x),
                                   w->run->weight[tensor], (size_t)in, in0, 0, (size_t)out, y->x, (size_t)out);
    for (k = 0, at = from = 0; k < 3 && !st; k++) {
        part = (size_t)(y->part[k] / w->p);
        if (part)
            st = tinyi_shard_product(w, x->x, (size_t)in, (size_t)in, w->run->weight[tensor], (size_t)in, 0,
                                     from + part * (size_t)w->rank, part, y->x + at, (size_t)(out / w->p));
        at += part;
        from += (size_t)y->part[k];
    }
    return st;
}

static float tinyi_shard_silu(float v) { return v / (1.0f + tinyi_exp_ref(-v)); }

/* norm, silu and add */
static tiny_status tinyi_shard_each(tinyi_shard_walk *w, size_t i, tinyi_shard_value *a, tinyi_shard_value *b,
                                    tinyi_shard_value *y)
{
    const int kind = w->node[i].kind;
    size_t k, j, width;
    tiny_status st = TINY_OK;
    if (kind == TLLM_SHARD_ADD) {
        if (b->width != a->width) return tinyi_shard_not(w, i, "it adds values of different widths");
        if (a->state != b->state || memcmp(a->part, b->part, sizeof a->part)) {
            st = tinyi_shard_whole(w, a);
            if (!st) st = tinyi_shard_whole(w, b);
        }
    } else if (kind == TLLM_SHARD_NORM || a->state == TINYI_SHARD_SUM) st = tinyi_shard_whole(w, a);
    y->width = a->width;
    memcpy(y->part, a->part, sizeof y->part);
    y->state = a->state;
    width = tinyi_shard_local(w, y);
    for (k = 0; !st && w->run && k < w->run->n_tokens; k++) {
        const float *from = a->x + k * width;
        float *to = y->x + k * width;
        double s = 0.0;
        for (j = 0; j < width && kind == TLLM_SHARD_NORM; j++) s += (double)from[j] * (double)from[j];
        s = 1.0 / tinyi_sqrt(s / (double)TINYI_MAX(width, 1) + 1e-5);
        for (j = 0; j < width; j++)
            to[j] = kind == TLLM_SHARD_NORM   ? (float)(s * (double)from[j])
                    : kind == TLLM_SHARD_SILU ? tinyi_shard_silu(from[j])
                                              : from[j] + b->x[k * width + j];
    }
    return st;
}

static tiny_status tinyi_shard_glu(tinyi_shard_walk *w, size_t i, tinyi_shard_value *a, tinyi_shard_value *b,
                                   tinyi_shard_value *y)
{
    size_t k, j, n, step;
    int whole;
    tiny_status st = TINY_OK;
    if (b && b->width != a->width) return tinyi_shard_not(w, i, "the two halves of its network differ");
    if (!b && a->width % 2) return tinyi_shard_not(w, i, "its two halves cannot be equal");
    if (b) whole = b->state != a->state || tinyi_shard_ways(a) > 1 || tinyi_shard_ways(b) > 1;
    else whole = a->state != TINYI_SHARD_SPLIT || a->part[0] != a->part[1] || a->part[2];
    if (whole || a->state == TINYI_SHARD_SUM) st = tinyi_shard_whole(w, a);
    if (!st && b && b->state != a->state) st = tinyi_shard_whole(w, b);
    y->width = y->part[0] = b ? a->width : a->width / 2;
    y->state = a->state;
    step = tinyi_shard_local(w, a);
    n = tinyi_shard_local(w, y);
    for (k = 0; !st && w->run && k < w->run->n_tokens; k++)
        for (j = 0; j < n; j++)
            y->x[k * n + j] = tinyi_shard_silu(a->x[k * step + j]) *
                              (b ? b->x[k * step + j] : a->x[k * step + n + j]);
    return st;
}

/* softmax(q k / sqrt d) v of each head over the tokens up to its own, with a running maximum */
static void tinyi_shard_attend(const tinyi_shard_walk *w, size_t heads, size_t kv_heads, const float *q, size_t q_step,
                               const float *k, size_t k_step, const float *v, size_t v_step, size_t d, size_t d_v,
                               float *y, size_t y_step)
{
    const float scale = (float)(1.0 / tinyi_sqrt((double)d));
    size_t t, h, s, j;
    for (t = 0; t < w->run->n_tokens; t++)
        for (h = 0; h < heads; h++) {
            const float *a = q + t * q_step + h * d;
            float *to = y + t * y_step + h * d_v, top = 0.0f, sum = 0.0f;
            for (j = 0; j < d_v; j++) to[j] = 0.0f;
            for (s = 0; s <= t; s++) {
                const float *b = k + s * k_step + h / (heads / kv_heads) * d,
                            *c = v + s * v_step + h / (heads / kv_heads) * d_v;
                float dot = 0.0f, e;
                for (j = 0; j < d; j++) dot += a[j] * b[j];
                dot *= scale;
                if (s == 0 || dot > top) {
                    e = s ? tinyi_exp_ref(top - dot) : 0.0f;
                    for (j = 0; j < d_v; j++) to[j] *= e;
                    sum *= e;
                    top = dot;
                }
                e = tinyi_exp_ref(dot - top);
                for (j = 0; j < d_v; j++) to[j] += e * c[j];
                sum += e;
            }
            for (j = 0; j < d_v; j++) to[j] /= sum;
        }
}

static tiny_status tinyi_shard_attention(tinyi_shard_walk *w, size_t i, tinyi_shard_value **in, tinyi_shard_value *y)
{
    const uint64_t heads = (uint64_t)w->node[i].heads, kv = (uint64_t)w->node[i].kv_heads;
    const int by_heads = kv && !(heads % w->p) && !(kv % w->p);
    uint64_t q, k, v, d, cut;
    size_t step;
    int a, some = 0;
    tiny_status st = TINY_OK;
    if (w->node[i].heads < 1 || w->node[i].kv_heads < 1 || heads % kv)
        return tinyi_shard_not(w, i, "its heads cannot be divided by its key heads");
    if (!in[1]) {                           /* q, k, v side by side: what the graph knows, whatever the matrix says */
        d = in[0]->width / (heads + 2 * kv);
        q = heads * d;
        k = v = kv * d;
        if (q + k + v != in[0]->width) return tinyi_shard_not(w, i, "q, k and v do not fill what comes in");
        if (!by_heads || in[0]->state != TINYI_SHARD_SPLIT || in[0]->part[0] != q || in[0]->part[1] != k ||
            in[0]->part[2] != v)
            st = tinyi_shard_whole(w, in[0]);
    } else {
        q = in[0]->width;
        k = in[1]->width;
        v = in[2]->width;
        if (q % heads || k % kv || v % kv || q / heads != k / kv)
            return tinyi_shard_not(w, i, "q, k and v do not fit its heads");
        for (a = 0; a < 3; a++) some |= in[a]->state == TINYI_SHARD_SPLIT && tinyi_shard_ways(in[a]) == 1;
        for (a = 0; a < 3 && !st; a++)
            if (!by_heads || !some || in[a]->state == TINYI_SHARD_SUM || tinyi_shard_ways(in[a]) > 1)
                st = tinyi_shard_whole(w, in[a]);
        for (a = 0; a < 3 && by_heads && some && !st; a++) tinyi_shard_slice(w, in[a]);
    }
    y->width = y->part[0] = heads * (v / kv);
    y->state = in[0]->state;
    if (st || !w->run) return st;
    cut = y->state == TINYI_SHARD_SPLIT ? w->p : 1;
    step = tinyi_shard_local(w, in[0]);
    tinyi_shard_attend(w, (size_t)(heads / cut), (size_t)(kv / cut), in[0]->x, step,
                       in[1] ? in[1]->x : in[0]->x + q / cut, in[1] ? (size_t)(k / cut) : step,
                       in[1] ? in[2]->x : in[0]->x + (q + k) / cut, in[1] ? (size_t)(v / cut) : step,
                       (size_t)(q / heads), (size_t)(v / kv), y->x, tinyi_shard_local(w, y));
    return TINY_OK;
}

/* ---- a walk ------------------------------------------------------------------------------------------------------ */

static int tinyi_shard_inputs(const tllm_shard_node *n)
{
    return n->kind == TLLM_SHARD_LOOKUP                                     ? 0
           : n->kind == TLLM_SHARD_ADD                                      ? 2
           : n->kind == TLLM_SHARD_GLU                                      ? 1 + (n->in[1] >= 0)
           : n->kind == TLLM_SHARD_ATTENTION && (n->in[1] >= 0 || n->in[2] >= 0) ? 3
                                                                            : 1;
}

static tiny_status tinyi_shard_go(tinyi_shard_walk *w, size_t i)
{
    const tllm_shard_node *n = &w->node[i];
    tinyi_shard_value *in[3] = { NULL, NULL, NULL }, *y = &w->value[i];
    float *x = y->x;
    int k;
    if (n->kind < 0 || n->kind > TLLM_SHARD_ATTENTION) return tinyi_shard_not(w, i, "its kind is not known");
    for (k = 0; k < tinyi_shard_inputs(n); k++) {
        if (n->in[k] < 0 || (size_t)n->in[k] >= i)
            return tinyi_shard_not(w, i, "it reads a node that is not before it");
        in[k] = &w->value[n->in[k]];
    }
    memset(y, 0, sizeof *y);
    y->x = x;
    if (w->run && (n->kind == TLLM_SHARD_LOOKUP || n->kind == TLLM_SHARD_MATMUL) &&
        n->tensor < tllm_rules_tensors(w->rules) && !w->run->weight[n->tensor])
        return tinyi_shard_not(w, i, "its weights are missing");
    switch (n->kind) {
    case TLLM_SHARD_LOOKUP: return tinyi_shard_lookup(w, i, y);
    case TLLM_SHARD_MATMUL: return tinyi_shard_matmul(w, i, in[0], y);
    case TLLM_SHARD_GLU: return tinyi_shard_glu(w, i, in[0], in[1], y);
    case TLLM_SHARD_ATTENTION: return tinyi_shard_attention(w, i, in, y);
    default: return tinyi_shard_each(w, i, in[0], in[1], y);
    }
}

static tiny_status tinyi_shard_walk_all(tinyi_shard_walk *w)
{
    size_t i;
    tiny_status st = TINY_OK;
    for (i = 0; i < w->n && !st; i++) st = tinyi_shard_go(w, i);
    if (!st && w->value[w->n - 1].state == TINYI_SHARD_SUM) st = tinyi_shard_whole(w, &w->value[w->n - 1]);
    return st;
}

static tiny_status tinyi_shard_begin(tinyi_shard_walk *w, tiny_ctx *ctx, const tllm_rules *rules,
                                     const tllm_shard_node *node, size_t n)
{
    memset(w, 0, sizeof *w);
    if (!rules || !node || !n || n > TLLM_SHARD_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a plan needs rules and a graph of 1 to %d nodes", TLLM_SHARD_MOST);
    w->ctx = ctx;
    w->rules = rules;
    w->node = node;
    w->n = n;
    w->p = (uint64_t)tllm_rules_ranks(rules);
    w->value = (tinyi_shard_value *)tinyi_alloc(ctx, n, sizeof *w->value);
    if (!w->value) return tiny_ctx_status(ctx);
    memset(w->value, 0, n * sizeof *w->value);
    return TINY_OK;
}

TINY_API tiny_status tllm_shard_cost(tiny_ctx *ctx, const tllm_rules *rules, const tllm_shard_node *node, size_t n,
                                     tllm_shard_cost_of *cost)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tinyi_shard_walk w;
    if (cost) memset(cost, 0, sizeof *cost);
    if (st) return st;
    if (!cost) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_shard_cost needs room for its answer");
    st = tinyi_shard_begin(&w, ctx, rules, node, n);
    if (!st) st = tinyi_shard_walk_all(&w);
    if (!st) *cost = w.cost;
    tiny_free(ctx, w.value);
    return st;
}

TINY_API tiny_status tllm_shard_by_hand(tiny_ctx *ctx, tllm_rules *rules, const tllm_shard_node *node, size_t n)
{
    tiny_status st = tinyi_ctx_check(ctx);
    size_t i;
    if (st) return st;
    if (!rules || !node || !n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a plan by hand needs rules and a graph");
    for (i = 0; i < n && !st; i++) {
        const tllm_rule_tensor *t = tllm_rules_tensor(rules, node[i].tensor);
        int dim = 1;
        if (node[i].kind != TLLM_SHARD_LOOKUP && node[i].kind != TLLM_SHARD_MATMUL) continue;
        if (!t) return tinyi_fail(ctx, TINY_E_ARGUMENT, "node %zu of the graph: there is no tensor %zu", i,
                                  node[i].tensor);
        if (tinyi_shard_is_embedding(t)) dim = 0;
        else if (node[i].in[0] >= 0 && (size_t)node[i].in[0] < i) {
            const int before = node[node[i].in[0]].kind;
            if (before == TLLM_SHARD_ATTENTION || before == TLLM_SHARD_SILU || before == TLLM_SHARD_GLU) dim = 0;
        }
        if (tllm_rules_set(ctx, rules, node[i].tensor, dim)) st = tllm_rules_set(ctx, rules, node[i].tensor, -1);
    }
    return st;
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

/* the widest value of the graph, and the sum of all widths */
static tiny_status tinyi_shard_widths(tiny_ctx *ctx, const tllm_shard_desc *d, size_t *most, size_t *all)
{
    tinyi_shard_walk w;
    tiny_status st = tinyi_shard_begin(&w, ctx, d->rules, d->node, d->n_nodes);
    size_t i;
    *most = *all = 0;
    if (!st) st = tinyi_shard_walk_all(&w);
    for (i = 0; i < d->n_nodes && !st; i++) {
        if (w.value[i].width > SIZE_MAX || !tinyi_size_add(*all, (size_t)w.value[i].width, all))
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "the graph is wider than this machine can address");
        *most = TINYI_MAX(*most, (size_t)w.value[i].width);
    }
    tiny_free(ctx, w.value);
    return st;
}

TINY_API size_t tllm_shard_work(const tllm_shard_desc *d)
{
    size_t most = 1, n;
    size_t i;
    if (!d || !d->rules) return 0;
    for (i = 0; i < tllm_rules_tensors(d->rules); i++) {
        const tllm_rule_tensor *t = tllm_rules_tensor(d->rules, i);
        int k;
        for (k = 0; k < t->rank; k++) {
            if (t->dim[k] > SIZE_MAX / 16) return SIZE_MAX;
            most = TINYI_MAX(most, (size_t)t->dim[k]);
        }
    }
    return tinyi_size_mul(most, d->n_tokens, &n) && tinyi_size_mul(n, sizeof(float), &n) ? n : SIZE_MAX;
}

TINY_API tiny_status tllm_shard_run(tiny_ctx *ctx, const tllm_shard_desc *d, float *result, size_t *at, size_t *size)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tinyi_shard_walk w;
    size_t most, all, n, i, k, bytes;
    float *memory = NULL, *next;
    if (at) *at = 0;
    if (size) *size = 0;
    if (st) return st;
    if (!d || !result || !at || !size || !d->rules || !d->node || !d->n_nodes || !d->weight || !d->coll ||
        !d->coll->net || (!d->token && d->n_tokens))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_shard_run needs rules, a graph, weights, tokens and a net");
    if (d->coll->net->world != tllm_rules_ranks(d->rules))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "the rules are for %d ranks, there are %d", tllm_rules_ranks(d->rules),
                          d->coll->net->world);
    st = tinyi_shard_widths(ctx, d, &most, &all);
    if (st) return st;
    n = d->n_tokens;
    if (!tinyi_size_add(all, most, &all) || !tinyi_size_mul(all, n, &all) ||
        !tinyi_size_mul(all, sizeof *memory, &bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "the values of %zu tokens are more than this machine can address", n);
    st = tinyi_shard_begin(&w, ctx, d->rules, d->node, d->n_nodes);
    if (!st && !(memory = (float *)tinyi_alloc(ctx, TINYI_MAX(all, 1), sizeof *memory))) st = tiny_ctx_status(ctx);
    if (!st) {
        tinyi_shard_walk sizes = w;         /* the widths once more, for the places of the values */
        st = tinyi_shard_walk_all(&sizes);
        for (i = 0, next = memory; i < w.n; i++) {
            const size_t width = (size_t)w.value[i].width;
            w.value[i].x = next;
            next += n * width;
        }
        w.room = next;
        w.run = d;
        w.rank = d->coll->net->rank;
        d->coll->type = TINY_COLL_F32;
        d->coll->op = TINY_COLL_SUM;
    }
    if (!st) st = tinyi_shard_walk_all(&w);
    if (!st) {
        const tinyi_shard_value *v = &w.value[w.n - 1];
        const size_t local = tinyi_shard_local(&w, v), width = (size_t)v->width;
        *size = local;
        *at = v->state == TINYI_SHARD_SPLIT ? local * (size_t)w.rank : 0;
        if (v->state == TINYI_SHARD_SPLIT && tinyi_shard_ways(v) > 1)
            st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "the result of the graph is split inside several parts");
        for (k = 0; k < n && !st; k++)
            memcpy(result + k * width + *at, v->x + k * local, local * sizeof *result);
    }
    tiny_free(ctx, memory);
    tiny_free(ctx, w.value);
    return st;
}

/* ---- the layers of a file ---------------------------------------------------------------------------------------- */

typedef struct tinyi_shard_maker {
    tiny_ctx *ctx;
    const tllm_gguf *file;
    tllm_shard_node *node;
    size_t room, n;
    tiny_status st;
} tinyi_shard_maker;

static int tinyi_shard_add(tinyi_shard_maker *m, int kind, int a, int b, int c, size_t tensor)
{
    tllm_shard_node *n;
    if (m->st) return 0;
    if (m->n >= m->room || m->n >= TLLM_SHARD_MOST) {
        m->st = tinyi_fail(m->ctx, TINY_E_WORKSPACE, "%s: the graph has more than %zu nodes",
                           tllm_gguf_path(m->file, 0), m->room);
        return 0;
    }
    n = &m->node[m->n];
    memset(n, 0, sizeof *n);
    n->kind = kind;
    n->in[0] = a;
    n->in[1] = b;
    n->in[2] = c;
    n->tensor = tensor;
    return (int)m->n++;
}
/* 0: there is no such matrix; else 1 + its number */
static size_t tinyi_shard_number(const tinyi_shard_maker *m, const char *name)
{
    const tllm_gguf_tensor *t = tllm_gguf_tensor_find(m->file, name);
    return t && t->rank == 2 ? (size_t)(t - tllm_gguf_tensor_at(m->file, 0)) + 1 : 0;
}
static size_t tinyi_shard_find(const tinyi_shard_maker *m, size_t layer, const char *name)
{
    char full[80];
    (void)snprintf(full, sizeof full, "blk.%zu.%s.weight", layer, name);
    return tinyi_shard_number(m, full);
}
static int tinyi_shard_times(tinyi_shard_maker *m, int x, size_t layer, const char *name)
{
    const size_t t = tinyi_shard_find(m, layer, name);
    if (!t && !m->st)
        m->st = tinyi_fail(m->ctx, TINY_E_UNSUPPORTED, "%s: layer %zu has no matrix %s, so its graph is not known",
                           tllm_gguf_path(m->file, 0), layer, name);
    return tinyi_shard_add(m, TLLM_SHARD_MATMUL, x, -1, -1, t ? t - 1 : 0);
}


TINY_API tiny_status tllm_shard_graph(tiny_ctx *ctx, const tllm_gguf *file, tllm_shard_node *node, size_t room,
                                      size_t *n)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tinyi_shard_maker m;
    uint64_t layers = 0, heads = 0, kv = 0;
    size_t l, embedding, output;
    int x;
    if (n) *n = 0;
    if (st) return st;
    if (!file || !node || !n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_shard_graph needs a file and room");
    memset(&m, 0, sizeof m);
    m.ctx = ctx;
    m.file = file;
    m.node = node;
    m.room = room;
    embedding = tinyi_shard_number(&m, "token_embd.weight");
    output = tinyi_shard_number(&m, "output.weight");
    if (!embedding || !tinyi_rule_number(file, "block_count", &layers) || !layers || layers > TLLM_SHARD_MOST ||
        !tinyi_rule_heads(file, &heads, &kv))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: its graph is not known: it needs an embedding, layers and heads",
                          tllm_gguf_path(file, 0));
    x = tinyi_shard_add(&m, TLLM_SHARD_LOOKUP, -1, -1, -1, embedding - 1);
    for (l = 0; l < (size_t)layers && !m.st; l++) {
        int y = tinyi_shard_add(&m, TLLM_SHARD_NORM, x, -1, -1, 0), q, k = -1, v = -1, up;
        if (tinyi_shard_find(&m, l, "attn_qkv")) q = tinyi_shard_times(&m, y, l, "attn_qkv");
        else {
            q = tinyi_shard_times(&m, y, l, "attn_q");
            k = tinyi_shard_times(&m, y, l, "attn_k");
            v = tinyi_shard_times(&m, y, l, "attn_v");
        }
        y = tinyi_shard_add(&m, TLLM_SHARD_ATTENTION, q, k, v, 0);
        if (!m.st) {
            node[y].heads = (int)heads;
            node[y].kv_heads = (int)kv;
        }
        y = tinyi_shard_times(&m, y, l, "attn_output");
        x = tinyi_shard_add(&m, TLLM_SHARD_ADD, x, y, -1, 0);
        y = tinyi_shard_add(&m, TLLM_SHARD_NORM, x, -1, -1, 0);
        up = tinyi_shard_times(&m, y, l, "ffn_up");
        if (tinyi_shard_find(&m, l, "ffn_gate"))
            y = tinyi_shard_add(&m, TLLM_SHARD_GLU, tinyi_shard_times(&m, y, l, "ffn_gate"), up, -1, 0);
        else if (!m.st && tinyi_rule_halves(file, tllm_gguf_tensor_at(file, node[up].tensor)))
            y = tinyi_shard_add(&m, TLLM_SHARD_GLU, up, -1, -1, 0);
        else y = tinyi_shard_add(&m, TLLM_SHARD_SILU, up, -1, -1, 0);
        y = tinyi_shard_times(&m, y, l, "ffn_down");
        x = tinyi_shard_add(&m, TLLM_SHARD_ADD, x, y, -1, 0);
    }
    x = tinyi_shard_add(&m, TLLM_SHARD_NORM, x, -1, -1, 0);
    (void)tinyi_shard_add(&m, TLLM_SHARD_MATMUL, x, -1, -1, output ? output - 1 : embedding - 1);
    if (!m.st) *n = m.n;
    return m.st;
}
