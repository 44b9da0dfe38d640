/* src/math/attention.c - plain attention
 * Papers   A. Vaswani et al., "Attention is all you need", 2017 (arXiv 1706.03762), eq. 1; grouped heads: J. Ainslie et
 *          al., 2023 (arXiv 2305.13245); the tiles with a running maximum: T. Dao et al., 2022 (arXiv 2205.14135).
 * Formula  s[c] = scale * q . k[c];  s = softcap * tanh(s / softcap);  s += bias;  p = softmax(s over the visible
 *          keys); o = sum_c p[c] v[c].  A query that sees no key gives zeros.
 *          Twisted (math/twist.h): e[c] = exp(s[c] - m), l = sum e; trivial: e <= t, low_sum = their sum;
 *          o = (sum of the others e v + s / (low_sum + 1e-6 l) sum of the trivial e^2 v) / l.  Two passes over the
 *          keys, for m and for the rest, and one over the values. If the scores of all keys fit into 512 KB, the second
 *          pass does not read the keys.
 * Data     (token, head, d), any strides. One task is a tile of rows of one key head. The query heads that share the
 *          key head are rows of the same tile, so keys and values are read once for the whole group.
 * Cost     2 n_query n_head n_key (d + d_v) flops (half of it when causal); A tile keeps 96 x (d + d_v + 67) floats, a
 *          twisted one at most 131072 + 96 x (d_v + 1) more. Twisting adds no products for up to 4096 keys; beyond that
 *          both products, q k and p v, are computed twice.
 * Error    a score is off by at most (d + 3) u sum|q||k| scale, a weight by twice that (relative), the sums by n_key u.
 *          For unit variance and d <= 128 that is at most 2e-5 max|v| = 335 u max|v|; the generated cases have d <= 70
 *          and outputs of at least a third of max|v|: k = 200 of the largest output.
 * Left out the split over keys for one query with very many keys; windows; sinks; rotary positions, which are an
 * operation of their own. */
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include "math/twist.h"
#include <string.h>

TINYI_FN double tinyi_twist_s(float s, const tiny_tensor *given)
{
    return given ? tinyi_real(given->data, given->dtype, 0) : (double)s;
}

TINYI_FN tiny_status tinyi_twist_check(tiny_ctx *ctx, const char *name, const tiny_op *op, float t, float s,
                                       const tiny_tensor *given)
{
    char text[96];
    double x;
    if (given && given->dtype != op->in[0]->dtype)
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: s is %s, the weights %s", name, tiny_dtype_name(given->dtype),
                          tiny_dtype_name(op->in[0]->dtype));
    if (given && tiny_tensor_count(given) != 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: s is %s, it must be one number", name, tinyi_shape_text(given, text));
    if (!(t >= 0.0f && t < INFINITY))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the threshold t is %g; it must be finite and at least 0", name,
                          (double)t);
    if (given && (!op->out[0] || !given->data)) return TINY_OK; /* asked for shapes alone, there may be no data */
    x = tinyi_twist_s(s, given);
    /* s / 1e-6 is a float */
    if (!(x > -1e30 && x < 1e30))
        return tinyi_fail(ctx, TINY_E_NUMERIC, "%s: the factor s is %g; it must be finite, and below 1e30", name, x);
    return TINY_OK;
}

typedef struct tinyi_att {
    const float *q, *k, *v, *bias;
    float *o;
    tiny_idx n_query, n_head, n_key, n_kv, d, d_v, group;
    tiny_idx sq[3], sk[3], sv[3], sb[3], so[3];     /* bias: head, query, key */
    float scale, softcap, twist_t;
    double twist_s;
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
    a->twist_t = p ? p->twist_t : 0.0f;
    a->twist_s = tinyi_twist_s(p ? p->twist_s : 0.0f, op->in[4]);
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
    for (i = 0; i < a->d; i++)
        s += tinyi_real(a->q, a->type, q + i * a->sq[2]) * tinyi_real(a->k, a->type, k + i * a->sk[2]);
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
            double m = -INFINITY, l = 0.0, low_sum = 0.0;
            for (c = 0; c < n; c++) {
                double s = tinyi_att_score(&a, t, h, c);
                if (s > m) m = s;
            }
            for (c = 0; c < n; c++) {
                double s = tinyi_att_score(&a, t, h, c), p = s == -INFINITY ? 0.0 : tinyi_exp64(s - m);
                l += p;
                if (p <= (double)a.twist_t) low_sum += p;
            }
            for (i0 = 0; i0 < a.d_v; i0 += TINYI_ATT_REF) {
                tiny_idx n_i = TINYI_MIN(a.d_v - i0, TINYI_ATT_REF);
                for (i = 0; i < n_i; i++) sum[i] = 0.0;
                for (c = 0; c < n && l != 0.0; c++) {
                    const tiny_idx v = c * a.sv[0] + h / a.group * a.sv[1] + i0 * a.sv[2];
                    double s = tinyi_att_score(&a, t, h, c), p = s == -INFINITY ? 0.0 : tinyi_exp64(s - m);
                    if (a.twist_s != 0.0 && p <= (double)a.twist_t)
                        p = a.twist_s * p * p / (low_sum + TINYI_TWIST_LEAST * l);
                    for (i = 0; i < n_i && s != -INFINITY; i++) sum[i] += p * tinyi_real(a.v, a.type, v + i * a.sv[2]);
                }
                for (i = 0; i < n_i; i++)
                    tinyi_att_put(&a, t * a.so[0] + h * a.so[1] + (i0 + i) * a.so[2], l != 0.0 ? sum[i] / l : 0.0);
            }
        }
}
TINY_REF_END

#define TINYI_ATT_LONG                                                  \
    (TINY_IDX_MAX / 4 / (3 * TINYI_ATT_ROWS + 2 * TINYI_ATT_KEYS + 1) - \
     2 * TINYI_ATT_KEYS) /* numbers of a head at most */
/* ---- the tile */

TINYI_FN float *tinyi_att_tile_open(tinyi_att_tile *t, float *memory, tiny_idx d, tiny_idx d_v, int n_row)
{
    t->n = n_row;
    t->few = n_row <= TINYI_ATT_FEW;
    /* few: several keys make a vector */
    t->ld = n_row > TINYI_ATT_FEW ? TINYI_ATT_ROWS : n_row > 4 ? 8 : n_row > 2 ? 4 : n_row;
    t->d = d;
    t->d_v = d_v;
    t->s = memory;                          /* aligned first */
    /* a product of few rows reads the weights of its neighbours */
    t->q = t->s + TINYI_ATT_ROWS * TINYI_ATT_KEYS + 16;
    t->acc = t->q + TINYI_ATT_ROWS * d;
    t->m = t->acc + TINYI_ATT_ROWS * d_v;
    t->l = t->m + TINYI_ATT_ROWS;
    t->f = t->l + TINYI_ATT_ROWS;
    return t->f + TINYI_ATT_ROWS;
}

TINYI_FN void tinyi_att_tile_begin(tinyi_att_tile *t)
{
    int j;
    for (j = 0; j < TINYI_MAX(t->ld, TINYI_ATT_FEW_LD); j++) {
        t->m[j] = -INFINITY;
        t->l[j] = 0.0f;
    }
    memset(t->acc, 0, (size_t)(t->n * t->d_v) * sizeof(float));
    /* rows that are not there: lanes that are computed and dropped, but not with what would be slow */
    if (t->few) memset(t->s, 0, TINYI_ATT_KEYS * TINYI_ATT_FEW_LD * sizeof(float));
    else if (t->n % TINYI_ATT_STEP) {
        const int end = (t->n / TINYI_ATT_STEP + 1) * TINYI_ATT_STEP;
        tiny_idx i;
        for (i = 0; i < t->d; i++) memset(t->q + i * TINYI_ATT_ROWS + t->n, 0, (size_t)(end - t->n) * sizeof(float));
    }
}

TINYI_FN void tinyi_att_tile_query(tinyi_att_tile *t, int j, const float *q, tiny_idx step, float scale)
{
    tiny_idx i;
    if (t->few) for (i = 0; i < t->d; i++) t->q[j * t->d + i] = q[i * step] * scale;
    else for (i = 0; i < t->d; i++) t->q[i * TINYI_ATT_ROWS + j] = q[i * step] * scale;
}

TINYI_FN void tinyi_att_tile_dots(tiny_team *team, tinyi_att_tile *t, const tinyi_att_span *k, int n_k, int type,
                                  tiny_idx row)
{
    TINYI_K(team, attention_dot)(t->s, t->ld, k, n_k, type, row, t->q, t->n, t->d);
}

TINYI_FN void tinyi_att_tile_scores(tiny_team *team, tinyi_att_tile *t, const float *k, tiny_idx ldk, int n, int j0,
                                    int j1)
{
    if (t->few) {
        const tinyi_fn_gemv_dot dot = TINYI_K(team, gemv_dot);
        for (; j0 < j1; j0 += 4)
            dot(t->s + j0, t->ld, 1, k, (int)TINY_F32, ldk, (size_t)n, t->q + j0 * t->d, t->d, TINYI_MIN(j1 - j0, 4),
                (size_t)t->d);
    } else TINYI_K(team, attention_scores_f32)(t->s, t->ld, k, ldk, n, t->q, TINYI_ATT_ROWS, j0, j1, t->d);
}

TINYI_FN void tinyi_att_tile_cap(tiny_team *team, tinyi_att_tile *t, int n, float cap, int j0, int j1)
{
    TINYI_K(team, attention_cap_f32)(t->s, t->ld, n, j0, j1, cap);
}

/* 0 times what was never written may be NaN: where a tile has hidden keys and such values, its sums leave them out one
 * by one. */
TINY_REF_BEGIN
static void tinyi_att_mix_seen(tinyi_att_tile *t, const float *v, tiny_idx ldv, int n, const uint64_t *hidden, int j0,
                               int j1)
{
    tiny_idx i;
    int c, j;
    for (j = j0; j < j1; j++)
        for (i = 0; i < t->d_v; i++) {
            float a = t->f[j] * t->acc[j * t->d_v + i];
            for (c = 0; c < n; c++)
                if (!(hidden[j] >> c & 1)) a += t->s[c * t->ld + j] * v[c * ldv + i];
            t->acc[j * t->d_v + i] = a;
        }
}
TINY_REF_END

/* some value is not finite */
static int tinyi_att_odd(tiny_team *team, const tinyi_att_tile *t, const float *v, tiny_idx ldv, int n)
{
    return !TINYI_K(team, attention_finite_f32)(v, ldv, n, t->d_v);
}

/* hidden has a bit for each of TINYI_ATT_KEYS keys: its score or weight is x */
static const uint64_t *tinyi_att_marks(const tinyi_att_tile *t, int n, float x, uint64_t *hidden, int j0, int j1)
{
    int c, j;
    for (j = j0; j < j1; j++)
        for (c = 0, hidden[j] = 0; c < n; c++) hidden[j] |= (uint64_t)(t->s[c * t->ld + j] == x) << c;
    return hidden;
}

/* acc = f acc + the weights times the values; hidden: NULL, or keys that are left out one by one */
static void tinyi_att_mix(tiny_team *team, tinyi_att_tile *t, const float *v, tiny_idx ldv, int n,
                          const uint64_t *hidden, int j0, int j1)
{
    if (hidden) tinyi_att_mix_seen(t, v, ldv, n, hidden, j0, j1);
    else
        TINYI_K(team, attention_mix_f32)(t->acc + j0 * t->d_v, t->d_v, t->s + j0, t->ld, t->f + j0, v, ldv, n, j1 - j0);
}

TINYI_FN void tinyi_att_tile_absorb(tiny_team *team, tinyi_att_tile *t, const float *v, tiny_idx ldv, int n, int hides,
                                    int j0, int j1)
{
    uint64_t room[TINYI_ATT_ROWS];
    const uint64_t *hidden =
        hides && tinyi_att_odd(team, t, v, ldv, n) ? tinyi_att_marks(t, n, -INFINITY, room, j0, j1) : NULL;
    TINYI_K(team, attention_weights_f32)(t->s, t->ld, n, t->m, t->l, t->f, j0, j1);
    tinyi_att_mix(team, t, v, ldv, n, hidden, j0, j1);
}

TINYI_FN void tinyi_att_tile_blend(tiny_team *team, tinyi_att_tile *t, const tinyi_att_span *v, int n_v, int type,
                                   tiny_idx row)
{
    tiny_idx n = 0;
    int i;
    for (i = 0; i < n_v; i++) n += v[i].n;
    TINYI_K(team, attention_weights_f32)(t->s, t->ld, (int)n, t->m, t->l, t->f, 0, t->n);
    TINYI_K(team, attention_blend)(t->acc, t->d_v, t->s, t->ld, t->f, v, n_v, type, row, t->n);
}

TINY_REF_BEGIN
TINYI_FN void tinyi_att_merge(float *m, float *l, float *acc, float m2, float l2, const float *acc2, tiny_idx d_v)
{
    const float top = *m < m2 ? m2 : *m;
    /* a state without keys has weight 0; the sum of one whose scores were NaN is NaN, and stays so */
    const float w = *m == top ? 1.0f : *m == -INFINITY ? (*l == *l ? 0.0f : 1.0f) : tinyi_exp_ref(*m - top);
    const float w2 = m2 == top ? 1.0f : m2 == -INFINITY ? (l2 == l2 ? 0.0f : 1.0f) : tinyi_exp_ref(m2 - top);
    tiny_idx i;
    *m = top;
    *l = w * *l + w2 * l2;
    for (i = 0; i < d_v; i++) acc[i] = w * acc[i] + w2 * acc2[i];
}
TINY_REF_END

/* ---- fast */

/* Of twisted weights scores are kept, 512 KB of a thread at most: those of all keys where that is enough, as it is up
 * to 4096; else the last ones. */
#define TINYI_ATT_KEPT (64 * TINYI_ATT_STEP * TINYI_ATT_KEYS)
static tiny_idx tinyi_att_tiles(tiny_idx n_key) { return n_key / TINYI_ATT_KEYS + (n_key % TINYI_ATT_KEYS != 0); }
static tiny_idx tinyi_att_kept(tiny_idx n_key)
{
    const tiny_idx each = TINYI_ATT_KEYS * TINYI_ATT_ROWS, most = TINYI_ATT_KEPT;
    return tinyi_att_tiles(n_key) <= most / each ? tinyi_att_tiles(n_key) * each : most;
}
static int tinyi_att_keeps(tiny_idx n_key, tiny_idx ld)
{
    return tinyi_att_tiles(n_key) <= TINYI_ATT_KEPT / (TINYI_ATT_KEYS * ld);
}

/* floats of workspace of one thread: a tile, and room for keys and values where they lie apart */
static void tinyi_attention_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    const tiny_attention_params *p = (const tiny_attention_params *)op->params;
    size_t d = (size_t)op->in[0]->dim[2], d_v = (size_t)op->in[2]->dim[2];
    (void)n_threads;
    *shared_bytes = 0;
    *own_bytes = sizeof(float) * (tinyi_att_tile_floats(d, d_v) + TINYI_ATT_KEYS * (d + d_v));
    if (op->in[4] || (p && p->twist_s != 0.0f))
        *own_bytes += sizeof(float) * ((size_t)tinyi_att_kept(op->in[1]->dim[0]) + 16 + TINYI_ATT_ROWS * (d_v + 1));
}

/* a tile of keys or values as rows of d numbers one after the other; where they lie if that is so already, or near
 * enough */
static const float *tinyi_att_rows(const float *x, tiny_idx step, tiny_idx each, tiny_idx n, tiny_idx d, int few,
                                   float *room, tiny_idx *ld)
{
    tiny_idx c, i;
    *ld = step;
    if ((each == 1 || d == 1) && (few || step == d)) return x;
    *ld = d;
    for (c = 0; c < n; c++)
        if (each == 1) memcpy(room + c * d, x + c * step, (size_t)d * sizeof *x);
        else for (i = 0; i < d; i++) room[c * d + i] = x[c * step + i * each];
    return room;
}

/* bias is added, hidden keys get -inf; whether some score may be -inf */
static int tinyi_att_hide(const tinyi_att *a, const tinyi_att_tile *x, tiny_idx row0, tiny_idx kv, tiny_idx c0, int n_c,
                          int j0, int j1)
{
    int c, j, hides = a->bias != NULL;
    for (j = j0; j < j1; j++) {
        const tiny_idx t = (row0 + j) / a->group, h = kv * a->group + (row0 + j) % a->group,
                       sees = tinyi_att_sees(a, t) - c0;
        const float *bias = a->bias ? a->bias + h * a->sb[0] + t * a->sb[1] + c0 * a->sb[2] : NULL;
        float *s = x->s + j;
        if (bias) for (c = 0; c < n_c; c++) s[c * x->ld] += bias[c * a->sb[2]];
        for (c = (int)TINYI_MAX(sees, 0); c < n_c; c++) {
            s[c * x->ld] = -INFINITY;
            hides = 1;
        }
    }
    return hides;
}

/* rows row0 .. row0 + n of a key head; they see the keys in front of most */
typedef struct tinyi_att_task {
    const tinyi_att *a;
    tinyi_att_tile x;
    tiny_idx kv, row0, most;
    float *room_k, *room_v, *room_w;        /* for keys and values that lie apart, for twisted weights */
    int n;
} tinyi_att_task;

/* The first row of the tile that sees keys from c0 on, about: those in front of it see none. */
static int tinyi_att_from(const tinyi_att_task *t, tiny_idx c0)
{
    int j0 = 0;
    while (j0 + TINYI_ATT_STEP < t->n && tinyi_att_sees(t->a, (t->row0 + j0 + TINYI_ATT_STEP - 1) / t->a->group) <= c0)
        j0 += TINYI_ATT_STEP;
    return j0;
}

/* the scores of keys c0 .. c0 + n_c; whether some may be hidden */
static int tinyi_att_meet(tiny_team *team, tinyi_att_task *t, tiny_idx c0, int n_c, int j0)
{
    const tinyi_att *a = t->a;
    tiny_idx ldk;
    const float *k = tinyi_att_rows(a->k + c0 * a->sk[0] + t->kv * a->sk[1], a->sk[0], a->sk[2], n_c, a->d, t->x.few,
                                    t->room_k, &ldk);
    tinyi_att_tile_scores(team, &t->x, k, ldk, n_c, j0, t->n);
    if (a->softcap > 0.0f) tinyi_att_tile_cap(team, &t->x, n_c, a->softcap, j0, t->n);
    return tinyi_att_hide(a, &t->x, t->row0, t->kv, c0, n_c, j0, t->n);
}

static const float *tinyi_att_values(const tinyi_att_task *t, tiny_idx c0, int n_c, tiny_idx *ldv)
{
    const tinyi_att *a = t->a;
    return tinyi_att_rows(a->v + c0 * a->sv[0] + t->kv * a->sv[1], a->sv[0], a->sv[2], n_c, a->d_v, t->x.few, t->room_v,
                          ldv);
}

static float *tinyi_att_out(const tinyi_att_task *t, int j)
{
    return t->a->o + (t->row0 + j) / t->a->group * t->a->so[0] +
           (t->kv * t->a->group + (t->row0 + j) % t->a->group) * t->a->so[1];
}

static void tinyi_att_plain(tiny_team *team, tinyi_att_task *t)
{
    const tinyi_att *a = t->a;
    tiny_idx c0, ldv, i;
    int j;
    for (c0 = 0; c0 < t->most; c0 += TINYI_ATT_KEYS) {
        const int n_c = (int)TINYI_MIN(t->most - c0, TINYI_ATT_KEYS), j0 = tinyi_att_from(t, c0),
                  hides = tinyi_att_meet(team, t, c0, n_c, j0);
        const float *v = tinyi_att_values(t, c0, n_c, &ldv);
        tinyi_att_tile_absorb(team, &t->x, v, ldv, n_c, hides, j0, t->n);
    }
    for (j = 0; j < t->n; j++) {
        const float inv = t->x.l[j] != 0.0f ? 1.0f / t->x.l[j] : 0.0f;
        float *to = tinyi_att_out(t, j);
        for (i = 0; i < a->d_v; i++) to[i * a->so[2]] = t->x.acc[j * a->d_v + i] * inv;
    }
}

/* what e^2 of a trivial weight is multiplied by */
static float tinyi_att_factor(const tinyi_att *a, float l, float low_sum)
{
    return l != 0.0f ? (float)a->twist_s / (low_sum + (float)TINYI_TWIST_LEAST * l) : 0.0f;
}

typedef struct tinyi_att_part { tiny_idx c0; int n, j0; } tinyi_att_part;

/* the keys of a tile; its scores lie in kept, where those of a tile long before lay */
static tinyi_att_part tinyi_att_at(tinyi_att_task *t, tiny_idx tile, float *kept)
{
    const tiny_idx slot = TINYI_ATT_KEYS * t->x.ld;
    tinyi_att_part at;
    at.c0 = tile * TINYI_ATT_KEYS;
    at.n = (int)TINYI_MIN(t->most - at.c0, TINYI_ATT_KEYS);
    at.j0 = tinyi_att_from(t, at.c0);
    t->x.s = kept + tile % (TINYI_ATT_KEPT / slot) * slot;
    return at;
}

/* Twisted weights want m and low_sum before the first value. Where the scores of all keys are kept, this is three looks
 * at them, and one kind of weights; else those of the last tiles are kept, the others made again on the way back, and
 * trivial weights summed beside the others: their factor is known at the end. */
static void tinyi_att_twisted(tiny_team *team, tinyi_att_task *t)
{
    const tinyi_att *a = t->a;
    const tiny_idx n_tile = tinyi_att_tiles(t->most), n_slot = TINYI_ATT_KEPT / (TINYI_ATT_KEYS * t->x.ld);
    const int all = tinyi_att_keeps(t->most, t->x.ld);
    float *kept = t->room_w, *low_sum = kept + tinyi_att_kept(a->n_key) + 16;
    /* weights that are not trivial; s of the tile itself, its scores lie in kept */
    tinyi_att_tile big = t->x;
    uint64_t hidden[TINYI_ATT_ROWS];
    tinyi_att_part at;
    tiny_idx tile, ldv, i;
    int j;
    big.acc = low_sum + TINYI_ATT_ROWS;
    if (t->x.few) memset(kept, 0, (size_t)(TINYI_MIN(n_tile, n_slot) * TINYI_ATT_KEYS * t->x.ld) * sizeof *kept);
    for (j = 0; j < t->x.ld; j++) {
        low_sum[j] = 0.0f;
        t->x.f[j] = 1.0f;                   /* under the last maximum no sum is ever brought down */
    }
    for (tile = 0; tile < n_tile; tile++) {
        at = tinyi_att_at(t, tile, kept);
        (void)tinyi_att_meet(team, t, at.c0, at.n, at.j0);
        TINYI_K(team, attention_peak_f32)(t->x.s, t->x.ld, at.n, t->x.m, at.j0, t->n);
    }
    for (tile = 0; all && tile < n_tile; tile++) {
        at = tinyi_att_at(t, tile, kept);
        TINYI_K(team, attention_level_f32)(t->x.s, t->x.ld, at.n, t->x.m, t->x.l, low_sum, a->twist_t, at.j0, t->n);
    }
    if (!all) memset(big.acc, 0, (size_t)(t->n * a->d_v) * sizeof *big.acc);
    else for (j = 0; j < t->x.ld; j++) low_sum[j] = tinyi_att_factor(a, t->x.l[j], low_sum[j]);
    for (tile = n_tile; tile-- > 0;) {
        const float *v;
        int kinds = 1, odd;                 /* a weight of 0 may not meet what is not finite */
        at = tinyi_att_at(t, tile, kept);
        v = tinyi_att_values(t, at.c0, at.n, &ldv);
        odd = tinyi_att_odd(team, &t->x, v, ldv, at.n);
        if (tile + n_slot < n_tile) (void)tinyi_att_meet(team, t, at.c0, at.n, at.j0);
        if (all) TINYI_K(team, attention_weigh_f32)(t->x.s, t->x.ld, at.n, low_sum, a->twist_t, at.j0, t->n);
        else {
            TINYI_K(team, attention_level_f32)(t->x.s, t->x.ld, at.n, t->x.m, t->x.l, low_sum, a->twist_t, at.j0, t->n);
            kinds = TINYI_K(team, attention_split_f32)(t->x.s, big.s, t->x.ld, at.n, a->twist_t, at.j0, t->n);
        }
        if (kinds & 1)
            tinyi_att_mix(team, &t->x, v, ldv, at.n,
                          odd ? tinyi_att_marks(&t->x, at.n, 0.0f, hidden, at.j0, t->n) : NULL, at.j0, t->n);
        if (kinds & 2)
            tinyi_att_mix(team, &big, v, ldv, at.n, odd ? tinyi_att_marks(&big, at.n, 0.0f, hidden, at.j0, t->n) : NULL,
                          at.j0, t->n);
    }
    for (j = 0; j < t->n; j++) {
        const float inv = t->x.l[j] != 0.0f ? 1.0f / t->x.l[j] : 0.0f,
                    f = all ? 0.0f : tinyi_att_factor(a, t->x.l[j], low_sum[j]);
        const float *x = t->x.acc + j * a->d_v, *y = big.acc + j * a->d_v;
        float *to = tinyi_att_out(t, j);
        if (all) for (i = 0; i < a->d_v; i++) to[i * a->so[2]] = x[i] * inv;
        else for (i = 0; i < a->d_v; i++) to[i * a->so[2]] = (y[i] + f * x[i]) * inv;
    }
}

static void tinyi_attention_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_att a;
    tinyi_att_task t;
    tiny_idx tiles, n_rows, most_rows = TINYI_ATT_ROWS, task, end;
    int j;
    tinyi_att_read(op, &a);
    (void)TINYI_K(team, attention_weights_f32);     /* thread 0 tells where it ran, with a task or without */
    n_rows = a.n_query * a.group;
    while (most_rows > TINYI_ATT_STEP && (n_rows + most_rows - 1) / most_rows * a.n_kv < 4 * team->n)
        most_rows -= TINYI_ATT_STEP;
    if (a.twist_s != 0.0 && tinyi_att_keeps(a.n_key, TINYI_ATT_STEP))   /* fewer rows, so that no score is made twice */
        while (!tinyi_att_keeps(a.n_key, most_rows)) most_rows -= TINYI_ATT_STEP;
    tiles = (n_rows + most_rows - 1) / most_rows;
    t.a = &a;
    while (tiny_take(team, tiles * a.n_kv, 1, &task, &end)) for (; task < end; task++) {
        /* the last tiles first: when causal they are the longest */
        t.kv = task % a.n_kv;
        t.row0 = (tiles - 1 - task / a.n_kv) * most_rows;
        t.n = (int)TINYI_MIN(n_rows - t.row0, most_rows);
        t.most = tinyi_att_sees(&a, (t.row0 + t.n - 1) / a.group);
        t.room_k = tinyi_att_tile_open(&t.x, (float *)team->own, a.d, a.d_v, t.n);
        t.room_v = t.room_k + TINYI_ATT_KEYS * a.d;
        t.room_w = t.room_v + TINYI_ATT_KEYS * a.d_v;
        tinyi_att_tile_begin(&t.x);
        for (j = 0; j < t.n; j++)
            tinyi_att_tile_query(
                &t.x, j, a.q + (t.row0 + j) / a.group * a.sq[0] + (t.kv * a.group + (t.row0 + j) % a.group) * a.sq[1],
                a.sq[2], a.scale);
        if (a.twist_s != 0.0) {
            t.x.ld = t.x.few ? TINYI_ATT_FEW_LD : most_rows;    /* its kernels want whole vectors of rows */
            tinyi_att_twisted(team, &t);
        } else tinyi_att_plain(team, &t);
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
    if (q->rank != 3 || k->rank != 3 || v->rank != 3 || k->dim[0] != v->dim[0] || k->dim[1] != v->dim[1] ||
        q->dim[2] != k->dim[2])
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "attention: q is %s, k is %s, v is %s: they must be (queries, heads, d), (keys, key heads, "
                          "d), (keys, key heads, d_v)",
                          tinyi_shape_text(q, tq), tinyi_shape_text(k, tk), tinyi_shape_text(v, tv));
    /* a view of stride 0 may be longer than any memory, a tile in the workspace may not */
    if (q->dim[2] > TINYI_ATT_LONG || v->dim[2] > TINYI_ATT_LONG)
        return tinyi_fail(
            ctx, TINY_E_OVERFLOW,
            "attention: heads of %td and %td numbers; a tile of them is more than this machine can address", q->dim[2],
            v->dim[2]);
    if (k->dim[1] == 0 ? q->dim[1] != 0 : q->dim[1] % k->dim[1] != 0)
        return tinyi_fail(ctx, TINY_E_SHAPE, "attention: %td query heads are not a multiple of %td key heads",
                          q->dim[1], k->dim[1]);
    if (b && !(b->rank == 2 && b->dim[0] == q->dim[0] && b->dim[1] == k->dim[0]) &&
        !(b->rank == 3 && b->dim[0] == q->dim[1] && b->dim[1] == q->dim[0] && b->dim[2] == k->dim[0]))
        return tinyi_fail(
            ctx, TINY_E_SHAPE,
            "attention: the bias is %s, it must be (%td queries, %td keys), with or without %td heads before",
            tinyi_shape_text(b, tb), q->dim[0], k->dim[0], q->dim[1]);
    if (p && (!(p->scale > -INFINITY && p->scale < INFINITY) || !(p->softcap >= 0.0f && p->softcap < INFINITY)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "attention: scale %g and softcap %g must be finite, softcap not negative", (double)p->scale,
                          (double)p->softcap);
    if (p || op->in[4]) {
        const tiny_status st =
            tinyi_twist_check(ctx, "attention", op, p ? p->twist_t : 0.0f, p ? p->twist_s : 0.0f, op->in[4]);
        if (st) return st;
    }
    dim[0] = q->dim[0]; dim[1] = q->dim[1]; dim[2] = v->dim[2];
    tinyi_want(want, q->dtype, 3, dim);
    return TINY_OK;
}

static void tinyi_attention_cost(const tiny_op *op, tiny_cost *c)
{
    const tiny_tensor *q = op->in[0], *k = op->in[1], *v = op->in[2];
    c->flops = 2.0 * (double)q->dim[0] * (double)q->dim[1] * (double)k->dim[0] * (double)(q->dim[2] + v->dim[2]);
    c->bytes = 4.0 * ((double)q->dim[0] * (double)q->dim[1] * (double)(q->dim[2] + v->dim[2]) +
                      (double)k->dim[0] * (double)k->dim[1] * (double)(q->dim[2] + v->dim[2]));
}

/* Scores on a grid of sixteenths, exact in every form: whether a weight is trivial may not hang on a rounding. */
static void tinyi_attention_fill(tiny_case *c, int i_input, void *data)
{
    tiny_idx i, n = tiny_tensor_count(&c->in[i_input]);
    for (i = 0; i < n; i++)
        ((float *)data)[i] = i_input < 2            ? 0.5f * (float)(tiny_case_pick(c, 5) - 2)
                             : tiny_case_pick(c, 8) ? (float)(tiny_case_pick(c, 33) - 16) / 16.0f
                                                    : -INFINITY;
}

static void tinyi_attention_cases(tiny_case *c)
{
    static const float twist_t[] = { 0.1f, 0.05f, 0.3f, 1.0f };
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
    c->in[4].rank = -1;
    if (tiny_case_pick(c, 3) == 0) {
        p.scale = 0.25f;
        p.twist_t = twist_t[tiny_case_pick(c, 4)];
        p.twist_s = 0.25f * (float)(1 + tiny_case_pick(c, 8));
        c->in[4].rank = tiny_case_pick(c, 3) - 1;
        c->in[4].dim[0] = 1;
        c->fill[4] = TINY_FILL_POSITIVE;
        c->fill[0] = c->fill[1] = c->fill[3] = TINY_FILL_TABLE;
        c->fill_table = tinyi_attention_fill;
    }
    c->no_specials = 1;
    memcpy(c->params.bytes, &p, sizeof p);
}

static const short tinyi_attention_kernels[] = { TINYI_K_attention_scores_f32,
                                                 TINYI_K_attention_cap_f32,
                                                 TINYI_K_attention_weights_f32,
                                                 TINYI_K_attention_mix_f32,
                                                 TINYI_K_attention_finite_f32,
                                                 TINYI_K_attention_peak_f32,
                                                 TINYI_K_attention_level_f32,
                                                 TINYI_K_attention_weigh_f32,
                                                 TINYI_K_attention_split_f32,
                                                 TINYI_K_gemv_dot,
                                                 -1 };
TINYI_ROW tinyi_row_attention = TINYI_ROW_OF("attention", TINY_OP_ATTENTION, TAKES(5, 3), GIVES(1),
    PARAMS(tiny_attention_params), FLAGS(TINY_OP_F64),
    SHAPE(tinyi_attention_shape), REFERENCE(tinyi_attention_ref), FAST(tinyi_attention_fast, tinyi_attention_work),
    COST(tinyi_attention_cost), CASES(tinyi_attention_cases), BOUND(TINY_BOUND_SCALE, 200.0, 0.0), TERMS(NULL),
    GRADIENT(tinyi_grad_attention), KERNELS(tinyi_attention_kernels),
    SAYS("o = softmax(scale q k^T + bias) v, grouped heads, causal or not"));

TINY_API tiny_status tiny_attention(tiny_ctx *ctx, const tiny_tensor *q, const tiny_tensor *k, const tiny_tensor *v,
                                    const tiny_tensor *bias, const tiny_attention_params *params, const tiny_tensor *o)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_ATTENTION;
    op.in[0] = q; op.in[1] = k; op.in[2] = v; op.in[3] = bias;
    op.out[0] = o;
    op.params = params;
    return tiny_run(ctx, &op);
}
