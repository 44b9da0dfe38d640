/* src/math/attention.c - plain attention
 * Papers   A. Vaswani et al., "Attention is all you need", 2017 (arXiv 1706.03762), eq. 1; grouped heads: J. Ainslie et al.,
 *          2023 (arXiv 2305.13245); the tiles with a running maximum: T. Dao et al., 2022 (arXiv 2205.14135).
 * Formula  s[c] = scale * q . k[c];  s = softcap * tanh(s / softcap);  s += bias;  p = softmax(s over the keys it sees);
 *          o = sum_c p[c] v[c].  A query that sees no key gives zeros.
 * Data     (token, head, d), any strides. One task is a tile of rows of one key head: the query heads that share it are rows
 *          of the same tile, so that keys and values are read once for the whole group.
 * Cost     2 n_query n_head n_key (d + d_v) flops (half of it when causal); a tile keeps 32 x (d + d_v + 64) floats.
 * Error    a score is off by at most (d + 3) u sum|q||k| scale, a weight by twice that, relatively, the sums by n_key u.
 *          For unit variance and d <= 128 that is at most 2e-5 max|v| = 335 u max|v|; the generated cases have d <= 70 and
 *          outputs of at least a third of max|v|: k = 200 of the largest output.
 * Left out the split over keys for one query of very many keys, windows, sinks, rotary positions: operations of their own. */
#include "math/table.h"
#include "math/rows.h"
#include <string.h>

typedef struct tinyi_att {
    const float *q, *k, *v, *bias;
    float *o;
    tiny_idx n_query, n_head, n_key, n_kv, d, d_v, group;
    tiny_idx sq[3], sk[3], sv[3], sb[3], so[3];     /* bias: head, query, key */
    float scale, softcap;
    int causal;
    tiny_dtype type;                        /* f64 for the reference only: q, k, v, bias and o point to doubles then */
} tinyi_att;

static void tinyi_att_read(const tiny_op *op, tinyi_att *a)
{
    const tiny_attention_params *p = (const tiny_attention_params *)op->params;
    const tiny_tensor *q = op->in[0], *k = op->in[1], *v = op->in[2], *b = op->in[3], *o = op->out[0];
    int i;
    a->q = (const float *)q->data; a->k = (const float *)k->data; a->v = (const float *)v->data;
    a->bias = b ? (const float *)b->data : NULL;
    a->o = (float *)o->data;
    a->n_query = q->dim[0]; a->n_head = q->dim[1]; a->d = q->dim[2];
    a->n_key = k->dim[0]; a->n_kv = k->dim[1]; a->d_v = v->dim[2];
    a->group = a->n_kv ? a->n_head / a->n_kv : 1;
    for (i = 0; i < 3; i++) {
        a->sq[i] = q->stride[i]; a->sk[i] = k->stride[i]; a->sv[i] = v->stride[i]; a->so[i] = o->stride[i];
        a->sb[i] = !b ? 0 : b->rank == 3 ? b->stride[i] : i ? b->stride[i - 1] : 0;
    }
    a->scale = p && p->scale != 0.0f ? p->scale : (float)(1.0 / tinyi_sqrt64((double)(a->d ? a->d : 1)));
    a->softcap = p ? p->softcap : 0.0f;
    a->causal = p ? p->causal : 0;
    a->type = q->dtype;
}

/* keys that query t sees: a prefix */
static tiny_idx tinyi_att_sees(const tinyi_att *a, tiny_idx t)
{
    tiny_idx n = a->n_key - a->n_query + t + 1;
    if (!a->causal || n > a->n_key) return a->n_key;
    return n < 0 ? 0 : n;
}

TINY_REF_BEGIN
static double tinyi_att_score(const tinyi_att *a, tiny_idx t, tiny_idx h, tiny_idx c)
{
    const tiny_idx q = t * a->sq[0] + h * a->sq[1], k = c * a->sk[0] + h / a->group * a->sk[1];
    double s = 0.0;
    tiny_idx i;
    for (i = 0; i < a->d; i++) s += tinyi_real(a->q, a->type, q + i * a->sq[2]) * tinyi_real(a->k, a->type, k + i * a->sk[2]);
    s *= (double)a->scale;
    if (a->softcap > 0.0f) s = (double)a->softcap * tinyi_tanh64(s / (double)a->softcap);
    if (a->bias) s += tinyi_real(a->bias, a->type, h * a->sb[0] + t * a->sb[1] + c * a->sb[2]);
    return s;
}

/* Three passes over the keys, each score computed anew: no workspace, and nothing to read but the formula. */
#define TINYI_ATT_REF 64                    /* outputs that are summed at once */
static void tinyi_att_put(const tinyi_att *a, tiny_idx at, double x)
{
    if (a->type == TINY_F64) ((double *)(void *)a->o)[at] = x;
    else a->o[at] = (float)x;
}

static void tinyi_attention_ref(const tiny_op *op)
{
    tinyi_att a;
    double sum[TINYI_ATT_REF];
    tiny_idx t, h, c, i, i0;
    tinyi_att_read(op, &a);
    for (t = 0; t < a.n_query; t++)
        for (h = 0; h < a.n_head; h++) {
            tiny_idx n = tinyi_att_sees(&a, t);
            double m = -INFINITY, l = 0.0;
            for (c = 0; c < n; c++) {
                double s = tinyi_att_score(&a, t, h, c);
                if (s > m) m = s;
            }
            for (c = 0; c < n; c++) {
                double s = tinyi_att_score(&a, t, h, c);
                l += s == -INFINITY ? 0.0 : tinyi_exp64(s - m);
            }
            for (i0 = 0; i0 < a.d_v; i0 += TINYI_ATT_REF) {
                tiny_idx n_i = TINYI_MIN(a.d_v - i0, TINYI_ATT_REF);
                for (i = 0; i < n_i; i++) sum[i] = 0.0;
                for (c = 0; c < n && l != 0.0; c++) {
                    const tiny_idx v = c * a.sv[0] + h / a.group * a.sv[1] + i0 * a.sv[2];
                    double s = tinyi_att_score(&a, t, h, c), p = s == -INFINITY ? 0.0 : tinyi_exp64(s - m);
                    for (i = 0; i < n_i && s != -INFINITY; i++) sum[i] += p * tinyi_real(a.v, a.type, v + i * a.sv[2]);
                }
                for (i = 0; i < n_i; i++) tinyi_att_put(&a, t * a.so[0] + h * a.so[1] + (i0 + i) * a.so[2], l != 0.0 ? sum[i] / l : 0.0);
            }
        }
}
TINY_REF_END

#define TINYI_ATT_LONG (TINY_IDX_MAX / 4 / (2 * (TINYI_ATT_ROWS + TINYI_ATT_KEYS) + 1) - TINYI_ATT_KEYS)    /* numbers of a head at most */
/* Keys that a bias of -inf hides have weight 0, and 0 times what was never written may be NaN: where a tile has such keys
 * and such values, its sums leave them out one by one. */
TINY_REF_BEGIN
static int tinyi_att_finite(const float *v, tiny_idx ldv, tiny_idx n_c, tiny_idx d_v)
{
    float odd = 0.0f;
    tiny_idx c, i;
    for (c = 0; c < n_c; c++)
        for (i = 0; i < d_v; i++) odd += v[c * ldv + i] - v[c * ldv + i];
    return odd == 0.0f;
}

static void tinyi_att_mix_seen(float *acc, const float *p, const float *f, const float *v, tiny_idx ldv, const int *n_vis, const uint64_t *hidden, int n_row, tiny_idx d_v)
{
    tiny_idx i;
    int c, j;
    for (j = 0; j < n_row; j++)
        for (i = 0; i < d_v; i++) {
            float a = f[j] * acc[j * d_v + i];
            for (c = 0; c < n_vis[j]; c++)
                if (!(hidden[j] >> c & 1)) a += p[j * TINYI_ATT_KEYS + c] * v[c * ldv + i];
            acc[j * d_v + i] = a;
        }
}
TINY_REF_END

/* floats of workspace of one thread: rows of q, scores, outputs; keys turned round; values where they lie apart */
static void tinyi_attention_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    size_t d = (size_t)op->in[0]->dim[2], d_v = (size_t)op->in[2]->dim[2];
    (void)n_threads;
    *shared_bytes = 0;
    *own_bytes = sizeof(float) * (TINYI_ATT_ROWS * (d + d_v + TINYI_ATT_KEYS) + TINYI_ATT_KEYS * (d + d_v));
}

static void tinyi_attention_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_fn_attention_scores_f32 scores = TINYI_K(team, attention_scores_f32);
    const tinyi_fn_attention_weights_f32 weights = TINYI_K(team, attention_weights_f32);
    const tinyi_fn_attention_mix_f32 mix = TINYI_K(team, attention_mix_f32);
    tinyi_att a;
    float *q, *s, *acc, *kt, *vc, m[TINYI_ATT_ROWS], l[TINYI_ATT_ROWS], f[TINYI_ATT_ROWS];
    tiny_idx tiles, n_rows, task, end, r, i, c, c0;
    int n_vis[TINYI_ATT_ROWS];
    uint64_t hidden[TINYI_ATT_ROWS], any;   /* a bit for each of TINYI_ATT_KEYS */
    tinyi_att_read(op, &a);
    n_rows = a.n_query * a.group;
    tiles = (n_rows + TINYI_ATT_ROWS - 1) / TINYI_ATT_ROWS;
    q = (float *)team->own;
    s = q + TINYI_ATT_ROWS * a.d;
    acc = s + TINYI_ATT_ROWS * TINYI_ATT_KEYS;
    kt = acc + TINYI_ATT_ROWS * a.d_v;
    vc = kt + TINYI_ATT_KEYS * a.d;
    while (tiny_take(team, tiles * a.n_kv, 1, &task, &end)) for (; task < end; task++) {
        /* the last tiles first: when causal they are the longest */
        tiny_idx kv = task % a.n_kv, row0 = (tiles - 1 - task / a.n_kv) * TINYI_ATT_ROWS, most = 0;
        int n = (int)TINYI_MIN(n_rows - row0, TINYI_ATT_ROWS), j;
        for (j = 0; j < n; j++) {
            tiny_idx t = (row0 + j) / a.group, h = kv * a.group + (row0 + j) % a.group;
            const float *from = a.q + t * a.sq[0] + h * a.sq[1];
            for (i = 0; i < a.d; i++) q[j * a.d + i] = from[i * a.sq[2]] * a.scale;
            m[j] = -INFINITY;
            l[j] = 0.0f;
            most = TINYI_MAX(most, tinyi_att_sees(&a, t));
        }
        memset(acc, 0, (size_t)(n * a.d_v) * sizeof *acc);
        for (c0 = 0; c0 < most; c0 += TINYI_ATT_KEYS) {
            tiny_idx n_c = TINYI_MIN(most - c0, TINYI_ATT_KEYS), ldv = a.sv[0];
            const float *k = a.k + c0 * a.sk[0] + kv * a.sk[1], *v = a.v + c0 * a.sv[0] + kv * a.sv[1];
            for (i = 0; i < a.d; i++) {
                for (c = 0; c < n_c; c++) kt[i * TINYI_ATT_KEYS + c] = k[c * a.sk[0] + i * a.sk[2]];
                for (; c < TINYI_ATT_KEYS; c++) kt[i * TINYI_ATT_KEYS + c] = 0.0f;
            }
            if (a.sv[2] != 1 && a.d_v > 1) {
                for (c = 0; c < n_c; c++) for (i = 0; i < a.d_v; i++) vc[c * a.d_v + i] = v[c * a.sv[0] + i * a.sv[2]];
                v = vc;
                ldv = a.d_v;
            }
            scores(s, q, kt, n, a.d);
            any = 0;
            for (j = 0; j < n; j++) {
                tiny_idx t = (row0 + j) / a.group, h = kv * a.group + (row0 + j) % a.group, sees = tinyi_att_sees(&a, t) - c0;
                float *row = s + j * TINYI_ATT_KEYS;
                n_vis[j] = (int)(sees < 0 ? 0 : TINYI_MIN(sees, n_c));
                f[j] = 1.0f;
                hidden[j] = 0;
                if (!n_vis[j]) continue;
                if (!a.bias) {
                    f[j] = weights(row, n_vis[j], a.softcap, &m[j], &l[j]);
                    continue;
                }
                if (a.softcap > 0.0f)
                    for (c = 0; c < n_vis[j]; c++) row[c] = a.softcap * tinyi_tanh_ref(row[c] / a.softcap);
                for (c = 0; c < n_vis[j]; c++) row[c] += a.bias[h * a.sb[0] + t * a.sb[1] + (c0 + c) * a.sb[2]];
                for (c = 0; c < n_vis[j]; c++) hidden[j] |= (uint64_t)(row[c] == -INFINITY) << c;
                any |= hidden[j];
                f[j] = weights(row, n_vis[j], 0.0f, &m[j], &l[j]);
            }
            if (any && !tinyi_att_finite(v, ldv, n_c, a.d_v)) tinyi_att_mix_seen(acc, s, f, v, ldv, n_vis, hidden, n, a.d_v);
            else mix(acc, s, f, v, ldv, n_vis, n, a.d_v);
        }
        for (j = 0; j < n; j++) {
            tiny_idx t = (row0 + j) / a.group, h = kv * a.group + (row0 + j) % a.group;
            float *to = a.o + t * a.so[0] + h * a.so[1], inv = l[j] != 0.0f ? 1.0f / l[j] : 0.0f;
            for (r = 0; r < a.d_v; r++) to[r * a.so[2]] = acc[j * a.d_v + r] * inv;
        }
    }
}

static tiny_status tinyi_attention_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_attention_params *p = (const tiny_attention_params *)op->params;
    const tiny_tensor *q = op->in[0], *k = op->in[1], *v = op->in[2], *b = op->in[3];
    char tq[96], tk[96], tv[96], tb[96];
    tiny_idx dim[3];
    if (!tinyi_is_real(q) || k->dtype != q->dtype || v->dtype != q->dtype || (b && b->dtype != q->dtype))
        return tinyi_fail(ctx, TINY_E_DTYPE, "attention: q, k, v and bias must be f32, or all f64");
    if (q->rank != 3 || k->rank != 3 || v->rank != 3 || k->dim[0] != v->dim[0] || k->dim[1] != v->dim[1] || q->dim[2] != k->dim[2])
        return tinyi_fail(ctx, TINY_E_SHAPE, "attention: q is %s, k is %s, v is %s: they must be (queries, heads, d), (keys, key heads, d), (keys, key heads, d_v)",
                          tinyi_shape_text(q, tq), tinyi_shape_text(k, tk), tinyi_shape_text(v, tv));
    /* a view of stride 0 may be longer than any memory, a tile in the workspace may not */
    if (q->dim[2] > TINYI_ATT_LONG || v->dim[2] > TINYI_ATT_LONG)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "attention: heads of %td and %td numbers; a tile of them is more than this machine can address", q->dim[2], v->dim[2]);
    if (k->dim[1] == 0 ? q->dim[1] != 0 : q->dim[1] % k->dim[1] != 0)
        return tinyi_fail(ctx, TINY_E_SHAPE, "attention: %td query heads are not a multiple of %td key heads", q->dim[1], k->dim[1]);
    if (b && !(b->rank == 2 && b->dim[0] == q->dim[0] && b->dim[1] == k->dim[0]) &&
        !(b->rank == 3 && b->dim[0] == q->dim[1] && b->dim[1] == q->dim[0] && b->dim[2] == k->dim[0]))
        return tinyi_fail(ctx, TINY_E_SHAPE, "attention: the bias is %s, it must be (%td queries, %td keys), with or without %td heads before", tinyi_shape_text(b, tb),
                          q->dim[0], k->dim[0], q->dim[1]);
    if (p && (!(p->scale > -INFINITY && p->scale < INFINITY) || !(p->softcap >= 0.0f && p->softcap < INFINITY)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "attention: scale %g and softcap %g must be finite, softcap not negative", (double)p->scale, (double)p->softcap);
    dim[0] = q->dim[0]; dim[1] = q->dim[1]; dim[2] = v->dim[2];
    tinyi_want(want, q->dtype, 3, dim);
    return TINY_OK;
}

static void tinyi_attention_cost(const tiny_op *op, tiny_cost *c)
{
    const tiny_tensor *q = op->in[0], *k = op->in[1], *v = op->in[2];
    c->flops = 2.0 * (double)q->dim[0] * (double)q->dim[1] * (double)k->dim[0] * (double)(q->dim[2] + v->dim[2]);
    c->bytes = 4.0 * ((double)q->dim[0] * (double)q->dim[1] * (double)(q->dim[2] + v->dim[2]) + (double)k->dim[0] * (double)k->dim[1] * (double)(q->dim[2] + v->dim[2]));
}

static void tinyi_attention_cases(tiny_case *c)
{
    tiny_attention_params p;
    tiny_idx q[3], k[3], v[3], b[3];
    memset(&p, 0, sizeof p);
    k[1] = 1 + tiny_case_pick(c, 3);
    q[1] = k[1] * (1 + tiny_case_pick(c, 3));
    q[0] = tiny_case_dim(c, 40);
    k[0] = tiny_case_dim(c, 150);
    q[2] = k[2] = tiny_case_dim(c, 70);
    v[0] = k[0]; v[1] = k[1]; v[2] = tiny_case_dim(c, 70);
    p.causal = tiny_case_pick(c, 2);
    if (tiny_case_pick(c, 3) == 0) p.softcap = 2.0f;
    if (tiny_case_pick(c, 3) == 0) p.scale = 0.25f;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, 3, q);
    c->in[1] = tiny_tensor_nd(NULL, TINY_F32, 3, k);
    c->in[2] = tiny_tensor_nd(NULL, TINY_F32, 3, v);
    b[0] = q[1]; b[1] = q[0]; b[2] = k[0];
    switch (tiny_case_pick(c, 3)) {
    case 0: c->in[3] = tiny_tensor_nd(NULL, TINY_F32, 3, b); break;
    case 1: c->in[3] = tiny_tensor_nd(NULL, TINY_F32, 2, b + 1); break;
    default: c->in[3].rank = -1;
    }
    c->no_specials = 1;
    memcpy(c->params.bytes, &p, sizeof p);
}

static const short tinyi_attention_kernels[] = { TINYI_K_attention_scores_f32, TINYI_K_attention_weights_f32, TINYI_K_attention_mix_f32, -1 };
TINYI_ROW tinyi_row_attention = {
    "attention", TINY_OP_ATTENTION, 4, 3, 1, sizeof(tiny_attention_params), TINY_OP_F64,
    tinyi_attention_shape, tinyi_attention_ref, tinyi_attention_fast, tinyi_attention_work, tinyi_attention_cost, tinyi_attention_cases,
    { TINY_BOUND_SCALE, 200.0, 0.0 }, NULL, TINYI_GRAD(tinyi_grad_attention), NULL, tinyi_attention_kernels,
    "o = softmax(scale q k^T + bias) v, grouped heads, causal or not"
};

TINY_API tiny_status tiny_attention(tiny_ctx *ctx, const tiny_tensor *q, const tiny_tensor *k, const tiny_tensor *v, const tiny_tensor *bias,
                                    const tiny_attention_params *params, const tiny_tensor *o)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_ATTENTION;
    op.in[0] = q; op.in[1] = k; op.in[2] = v; op.in[3] = bias;
    op.out[0] = o;
    op.params = params;
    return tiny_run(ctx, &op);
}
