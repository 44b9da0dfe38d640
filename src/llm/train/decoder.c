/* src/llm/train/decoder.c
 *
 * Papers   A. Vaswani et al., "Attention is all you need", 2017; B. Zhang, R. Sennrich, 2019 (RMSNorm); J. Su et al.,
 *          2021 (RoPE); N. Shazeer, 2020 (gated SiLU); J. Ainslie et al., 2023 (grouped queries); O. Press, L. Wolf,
 *          2017 (tied embedding); DeepSeek-AI, "DeepSeek-V2", 2024 (latent attention); C. Deng et al., "PLM", 2025 (the
 *          same with squared ReLU); S. Yang et al., 2023 (gated linear attention); B. Peng et al., "Eagle and Finch",
 *          2024 (its inputs and gates here).
 * Formula  forward, x a row of d numbers for each token:
 *              x = E[token];  h = g1 x / rms(x);  q, k, v = h W';  q, k rotated by position;
 *              o = softmax(q k' / sqrt(d_head)) v
 *              x += o O';  h = g2 x / rms(x);  x += (silu(h G') * (h U')) D';  logits = (g x / rms(x)) E'
 *          latent: q, a = h W', a of latent + d_turn numbers;  c = gc a1 / rms(a1), a1 the first `latent` of them;  k1,
 *              v = c B' for
 *              each head;  k = [k1, a2 turned], q = [q1, q2 turned];  x += relu(h U')^2 D'
 *          gated: x_i = h + (h of the token before, or 0 - h) m_i, for the gates, k, v, q and the way out, in this
 *              order from 0: z = w0 + tanh(x_0 A') B';  g = -exp z;  k = (x_1 W') (1 - exp g);  o = gla(q, k, v, g)
 *              (math/gla.h);  x += (o sigmoid(x_4 S')) O'
 *          backward, dy the gradient of what y is:
 *              y = x W':            dx = dy W,  dW = dy' x
 *              y = g x r, r = 1 / sqrt(mean x^2 + eps):   dg += dy x r,  dx = r (g dy) - x r^3 / d sum(g dy x)
 *              y = silu(a) b:       db = dy silu(a),  da = dy b s (1 + a (1 - s)),  s = sigmoid(a)
 *              y = relu(a)^2:       da = 2 relu(a) dy
 *              p = softmax(s), o = p v:   dv = p' do,  dp = do v',  ds = p (dp - sum(p dp)),  dq = ds k,  dk = ds' q
 *              rotated by an angle: rotated back
 *              k = c (1 - e^g):     dc = dk (1 - e^g),  dg += -dk c e^g;  g = -e^z:  dz = dg g
 *              loss = -log softmax(logits)[t]:   dlogits = p - [t]
 * Form     Everything that the backward pass needs is kept, except the attention weights. They are computed again, in
 *          blocks of 64 queries with their visible keys, so that scores stay in the second-level cache. q is stored as
 *          (sequence, key head, token, its query heads): one block is one dense matrix.
 * Cost     6 operations for each weight and token, plus 3.5 x 4 d context / 2 for each layer and token.
 * Left out dropout, biases, untied heads: the recipe has none. */
#include "llm/train/decoder_inside.h"
#include "llm/train/story.h"
#include "math/table_inside.h"
#include "math/matmul.h"
#include "math/elem.h"
#include <string.h>

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

#define TINYI_DEC_MOST 14 /* tensors of a layer at most, in their order: products of one row of h lie side by side */
static const int tinyi_dec_layer[TINYI_DEC_FORMS][TINYI_DEC_MOST] = {
    { TINYI_DEC_NORM1, TINYI_DEC_Q, TINYI_DEC_K, TINYI_DEC_V, TINYI_DEC_O, TINYI_DEC_NORM2, TINYI_DEC_GATE,
      TINYI_DEC_UP, TINYI_DEC_DOWN, 0, 0, 0, 0, 0 },
    { TINYI_DEC_NORM1, TINYI_DEC_Q, TINYI_DEC_KV_A, TINYI_DEC_KV_NORM, TINYI_DEC_KV_B, TINYI_DEC_O, TINYI_DEC_NORM2,
      TINYI_DEC_UP, TINYI_DEC_DOWN, 0, 0, 0, 0, 0 },
    { TINYI_DEC_NORM1, TINYI_DEC_LERP, TINYI_DEC_Q, TINYI_DEC_K, TINYI_DEC_V, TINYI_DEC_SIDE, TINYI_DEC_DECAY,
      TINYI_DEC_DECAY_A, TINYI_DEC_DECAY_B, TINYI_DEC_O, TINYI_DEC_NORM2, TINYI_DEC_GATE, TINYI_DEC_UP, TINYI_DEC_DOWN }
};
static tiny_idx tinyi_dec_each(const tinyi_dec *m) { return m->form == TINYI_DEC_GATED ? 14 : 9; }

/* numbers of a key or query of one head, of a row of what comes from h, of keys and values of all heads, of what goes
 * into the wide layer */
static tiny_idx tinyi_dec_key(const tinyi_dec *m)
{
    return m->form == TINYI_DEC_LATENT ? m->d_head + m->d_turn : m->d_head;
}
static tiny_idx tinyi_dec_row(const tinyi_dec *m)
{
    return m->form == TINYI_DEC_LATENT ? m->n_head * tinyi_dec_key(m) + m->latent + m->d_turn
                                       : m->d + 2 * m->n_kv * m->d_head;
}
static tiny_idx tinyi_dec_made(const tinyi_dec *m) { return m->form == TINYI_DEC_LATENT ? 2 * m->d : 0; }
static tiny_idx tinyi_dec_wide(const tinyi_dec *m) { return m->form == TINYI_DEC_LATENT ? m->hidden : 2 * m->hidden; }

static void tinyi_dec_shape(const tinyi_dec *m, int what, tiny_idx *rows, tiny_idx *cols)
{
    *cols = m->d;
    switch (what) {
    case TINYI_DEC_EMBD: *rows = m->vocab; return;
    case TINYI_DEC_Q: *rows = m->n_head * tinyi_dec_key(m); return;
    case TINYI_DEC_K: case TINYI_DEC_V: *rows = m->n_kv * m->d_head; return;
    case TINYI_DEC_KV_A: *rows = m->latent + m->d_turn; return;
    case TINYI_DEC_KV_NORM: *rows = 1; *cols = m->latent; return;
    case TINYI_DEC_KV_B: *rows = tinyi_dec_made(m); *cols = m->latent; return;
    case TINYI_DEC_O: *rows = m->d; return;
    case TINYI_DEC_GATE: case TINYI_DEC_UP: *rows = m->hidden; return;
    case TINYI_DEC_DOWN: *rows = m->d; *cols = m->hidden; return;
    case TINYI_DEC_LERP: *rows = 1; *cols = 5 * m->d; return;
    case TINYI_DEC_SIDE: *rows = m->d; return;
    case TINYI_DEC_DECAY_A: *rows = m->rank; return;
    case TINYI_DEC_DECAY_B: *rows = m->d; *cols = m->rank; return;
    default: *rows = 1; return;             /* norms of the stream, what gates are without an input */
    }
}
/* floats of the first n tensors of a layer */
static tiny_idx tinyi_dec_floats(const tinyi_dec *m, tiny_idx n)
{
    tiny_idx sum = 0, rows, cols, i;
    for (i = 0; i < n; i++) {
        tinyi_dec_shape(m, tinyi_dec_layer[m->form][i], &rows, &cols);
        sum += rows * cols;
    }
    return sum;
}
TINYI_FN tiny_idx tinyi_dec_tensors(const tinyi_dec *m) { return 2 + tinyi_dec_each(m) * m->n_layer; }
TINYI_FN tiny_idx tinyi_dec_params(const tinyi_dec *m)
{
    return m->vocab * m->d + m->n_layer * tinyi_dec_floats(m, tinyi_dec_each(m)) + m->d;
}

TINYI_FN tinyi_dec_tensor tinyi_dec_tensor_at(const tinyi_dec *m, tiny_idx i)
{
    tinyi_dec_tensor t;
    t.layer = -1;
    t.what = i ? TINYI_DEC_NORM : TINYI_DEC_EMBD;
    t.at = i ? tinyi_dec_params(m) - m->d : 0;
    if (i > 0 && i <= tinyi_dec_each(m) * m->n_layer) {
        t.layer = (i - 1) / tinyi_dec_each(m);
        t.what = tinyi_dec_layer[m->form][(i - 1) % tinyi_dec_each(m)];
        t.at = m->vocab * m->d + t.layer * tinyi_dec_floats(m, tinyi_dec_each(m)) +
               tinyi_dec_floats(m, (i - 1) % tinyi_dec_each(m));
    }
    tinyi_dec_shape(m, t.what, &t.rows, &t.cols);
    return t;
}

TINYI_FN void tinyi_dec_turns(const tinyi_dec *m, float *turn)
{
    const tiny_idx half = m->d_turn / 2;
    tiny_idx t, i;
    for (i = 0; i < half; i++) {
        const double speed = tinyi_exp64(-tinyi_log64((double)m->theta) * (double)(2 * i) / (double)m->d_turn);
        for (t = 0; t < m->context; t++) {
            turn[2 * (t * half + i)] = (float)tinyi_cos64((double)t * speed);
            turn[2 * (t * half + i) + 1] = (float)tinyi_sin64((double)t * speed);
        }
    }
}

/* ---- a lane ------------------------------------------------------------------------------------------------------ */

typedef struct tinyi_dec_kept {             /* of a layer, for the way back; n rows each */
    /* a, c: of the latent form, before and after its norm */
    float *x, *h1, *a, *c, *q, *k, *v, *o, *mid, *h2, *gu, *s;
    /* of the gated form: the five inputs; keys before their factor; g; tanh; sigmoid; o before it */
    float *mixed, *plain, *gate, *low, *side, *raw;
} tinyi_dec_kept;

typedef struct tinyi_dec_run {
    tiny_ctx *ctx;
    const tinyi_kernels *kernel;
    const tinyi_dec *m;
    const float *w;
    float *g;
    tiny_idx n_seq, n;                      /* rows: n_seq * context */
    tiny_status st;
    tinyi_dec_kept kept[TINYI_DEC_LAYERS];
    float *x, *h, *logits, *dx, *dh, *wide, *qkv, *made, *dc, *dq, *dk, *dv, *scores, *dscores, *part, *line;
    float *dmixed, *dqkg, *low, *state, *wide_state;    /* gated */
} tinyi_dec_run;

/* Room for everything, from room on or only counted; in floats. */
typedef struct tinyi_dec_taker { float *room; size_t used; int fits; } tinyi_dec_taker;
static float *tinyi_dec_take(tinyi_dec_taker *t, tiny_idx rows, tiny_idx cols)
{
    size_t floats, at = t->used;
    if (!tinyi_size_mul((size_t)rows, (size_t)cols, &floats) || floats > SIZE_MAX / 64 - t->used) {
        t->fits = 0;
        return NULL;
    }
    t->used += (floats + 15) / 16 * 16;
    return t->room ? t->room + at : NULL;
}
static void tinyi_dec_layout(tinyi_dec_run *r, tinyi_dec_taker *t)
{
    const tinyi_dec *m = r->m;
    const tiny_idx n = r->n, key = tinyi_dec_key(m), kv = m->n_kv * m->d_head, group = m->n_head / m->n_kv;
    const tiny_idx gated = m->form == TINYI_DEC_GATED ? m->d : 0;
    tiny_idx l;
    for (l = 0; l < m->n_layer; l++) {
        tinyi_dec_kept *k = &r->kept[l];
        k->mixed = tinyi_dec_take(t, n, 5 * gated);
        k->plain = tinyi_dec_take(t, n, gated);
        k->gate = tinyi_dec_take(t, n, gated);
        k->low = tinyi_dec_take(t, n, m->rank);
        k->side = tinyi_dec_take(t, n, gated);
        k->raw = tinyi_dec_take(t, n, gated);
        k->x = tinyi_dec_take(t, n, m->d);
        k->h1 = tinyi_dec_take(t, n, m->d);
        k->a = tinyi_dec_take(t, n, m->latent);
        k->c = tinyi_dec_take(t, n, m->latent);
        k->q = tinyi_dec_take(t, n, m->n_head * key);
        k->k = tinyi_dec_take(t, n, m->n_kv * key);
        k->v = tinyi_dec_take(t, n, kv);
        k->o = tinyi_dec_take(t, n, m->d);
        k->mid = tinyi_dec_take(t, n, m->d);
        k->h2 = tinyi_dec_take(t, n, m->d);
        k->gu = tinyi_dec_take(t, n, tinyi_dec_wide(m));
        k->s = tinyi_dec_take(t, n, m->hidden);
    }
    r->x = tinyi_dec_take(t, n, m->d);
    r->h = tinyi_dec_take(t, n, m->d);
    r->logits = tinyi_dec_take(t, n, m->vocab);
    r->dx = tinyi_dec_take(t, n, m->d);
    r->dh = tinyi_dec_take(t, n, m->d);
    r->wide = tinyi_dec_take(t, n, tinyi_dec_wide(m));
    r->qkv = tinyi_dec_take(t, n, tinyi_dec_row(m));
    r->made = tinyi_dec_take(t, n, tinyi_dec_made(m));
    r->dc = tinyi_dec_take(t, n, m->latent);
    r->dq = tinyi_dec_take(t, n, m->n_head * key);
    r->dk = tinyi_dec_take(t, n, m->n_kv * key);
    r->dv = tinyi_dec_take(t, n, kv);
    r->scores = tinyi_dec_take(t, TINYI_DEC_QUERIES * group, m->context);
    r->dscores = tinyi_dec_take(t, TINYI_DEC_QUERIES * group, m->context);
    r->part = tinyi_dec_take(t, TINYI_MAX(m->context, TINYI_DEC_QUERIES * group), key);
    r->dmixed = tinyi_dec_take(t, n, 5 * gated);
    r->dqkg = tinyi_dec_take(t, n, 3 * gated);
    r->low = tinyi_dec_take(t, n, m->rank);
    r->state = tinyi_dec_take(t, gated, m->d_head);
    r->wide_state = tinyi_dec_take(t, gated, m->d_head);
    r->line = tinyi_dec_take(t, 3, TINYI_MAX(TINYI_MAX(TINYI_MAX(m->d, m->hidden), m->context), m->latent));
}

TINYI_FN int tinyi_dec_room(const tinyi_dec *m, tiny_idx n_seq, size_t *floats)
{
    tinyi_dec_run r;
    tinyi_dec_taker t;
    size_t rows;
    if (!tinyi_size_mul((size_t)n_seq, (size_t)m->context, &rows) || rows > ((size_t)1 << 31)) return 0;
    r.m = m;
    r.n = (tiny_idx)rows;
    t.room = NULL;
    t.used = 0;
    t.fits = 1;
    tinyi_dec_layout(&r, &t);
    *floats = t.used;
    return t.fits;
}

/* y = a b, each as it is or turned; rows and columns of the memory, not of the turned view */
static void tinyi_dec_product(tinyi_dec_run *r, const float *a, tiny_idx a_rows, tiny_idx a_cols, int a_turned,
                              const float *b, tiny_idx b_rows, tiny_idx b_cols, int b_turned, float *y)
{
    tiny_tensor ta = tiny_tensor_2d((void *)(uintptr_t)a, TINY_F32, a_rows, a_cols),
                tb = tiny_tensor_2d((void *)(uintptr_t)b, TINY_F32, b_rows, b_cols), ty;
    if (r->st) return;
    if (a_turned) ta = tiny_tensor_swap(ta, 0, 1);
    if (b_turned) tb = tiny_tensor_swap(tb, 0, 1);
    ty = tiny_tensor_2d(y, TINY_F32, ta.dim[0], tb.dim[1]);
    r->st = tiny_matmul(r->ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty);
}
/* y (n, out) = x (n, in) W', W (out, in) */
static void tinyi_dec_linear(tinyi_dec_run *r, const float *x, const float *w, tiny_idx in, tiny_idx out, float *y)
{
    tinyi_dec_product(r, x, r->n, in, 0, w, out, in, 1, y);
}
/* dx = dy W, dW = dy' x */
static void tinyi_dec_linear_back(tinyi_dec_run *r, const float *dy, const float *x, const float *w, tiny_idx in,
                                  tiny_idx out, float *dx, float *dw)
{
    tinyi_dec_product(r, dy, r->n, out, 0, w, out, in, 0, dx);
    tinyi_dec_product(r, dy, r->n, out, 1, x, r->n, in, 0, dw);
}

static void tinyi_dec_norm(tinyi_dec_run *r, const float *x, const float *gain, tiny_idx width, float *y)
{
    const size_t d = (size_t)width;
    tiny_idx i;
    for (i = 0; i < r->n; i++)
        TINYI_OF(r->kernel, rmsnorm_f32)(y + (size_t)i * d, x + (size_t)i * d, gain, d, r->m->eps);
}
/* dx += the gradient through the norm of x, dy that of its result; dgain is overwritten */
static void tinyi_dec_norm_back(tinyi_dec_run *r, const float *dy, const float *x, const float *gain, tiny_idx width,
                                float *dx, float *dgain)
{
    const tinyi_kernels *k = r->kernel;
    const size_t d = (size_t)width;
    float *gd = r->line, *t = r->line + d;
    tiny_idx i;
    memset(dgain, 0, d * sizeof *dgain);
    for (i = 0; i < r->n; i++, dy += d, x += d, dx += d) {
        const double square = (double)TINYI_OF(k, dot_f32)(x, x, d) / (double)d + (double)r->m->eps;
        const float rms = (float)(1.0 / tinyi_sqrt64(square));
        float sum;
        TINYI_OF(k, binary_f32)(TINYI_BINARY_MUL, gd, gain, dy, d, 1, 1);
        sum = TINYI_OF(k, dot_f32)(gd, x, d);
        TINYI_OF(k, axpy_f32)(dx, gd, d, rms);
        TINYI_OF(k, axpy_f32)(dx, x, d, (float)(-(double)sum * (double)rms / (square * (double)d)));
        TINYI_OF(k, binary_f32)(TINYI_BINARY_MUL, t, dy, x, d, 1, 1);
        TINYI_OF(k, axpy_f32)(dgain, t, d, rms);
    }
}

/* Pairs of each head turned by the angle of their place; back: the other way. heads rows of d_turn. */
static void tinyi_dec_turn(const tinyi_dec *m, float *to, const float *from, tiny_idx heads, tiny_idx place, int back)
{
    const tiny_idx half = m->d_turn / 2;
    const float *turn = m->turn + 2 * place * half;
    tiny_idx h, i;
    for (h = 0; h < heads; h++, to += m->d_turn, from += m->d_turn)
        for (i = 0; i < half; i++) {
            const float c = turn[2 * i], s = back ? -turn[2 * i + 1] : turn[2 * i + 1], a = from[2 * i],
                        b = from[2 * i + 1];
            to[2 * i] = a * c - b * s;
            to[2 * i + 1] = a * s + b * c;
        }
}

/* Rows of qkv to q (sequence, key head, token, query heads), k and v (sequence, key head, token), and back. */
static void tinyi_dec_split(tinyi_dec_run *r, const tinyi_dec_kept *to)
{
    const tinyi_dec *m = r->m;
    const tiny_idx group = m->n_head / m->n_kv, dh = m->d_head, row = tinyi_dec_row(m);
    tiny_idx s, t, j;
    for (s = 0; s < r->n_seq; s++)
        for (t = 0; t < m->context; t++) {
            const float *from = r->qkv + (s * m->context + t) * row;
            for (j = 0; j < m->n_kv; j++) {
                const tiny_idx at = ((s * m->n_kv + j) * m->context + t) * dh;
                tinyi_dec_turn(m, to->q + at * group, from + j * group * dh, group, t, 0);
                tinyi_dec_turn(m, to->k + at, from + m->d + j * dh, 1, t, 0);
                memcpy(to->v + at, from + m->d + (m->n_kv + j) * dh, (size_t)dh * sizeof(float));
            }
        }
}
static void tinyi_dec_join(tinyi_dec_run *r)
{
    const tinyi_dec *m = r->m;
    const tiny_idx group = m->n_head / m->n_kv, dh = m->d_head, row = tinyi_dec_row(m);
    tiny_idx s, t, j;
    for (s = 0; s < r->n_seq; s++)
        for (t = 0; t < m->context; t++) {
            float *to = r->qkv + (s * m->context + t) * row;
            for (j = 0; j < m->n_kv; j++) {
                const tiny_idx at = ((s * m->n_kv + j) * m->context + t) * dh;
                tinyi_dec_turn(m, to + j * group * dh, r->dq + at * group, group, t, 1);
                tinyi_dec_turn(m, to + m->d + j * dh, r->dk + at, 1, t, 1);
                memcpy(to + m->d + (m->n_kv + j) * dh, r->dv + at, (size_t)dh * sizeof(float));
            }
        }
}

/* Latent: a row of qkv is the queries of all heads, then a1, then the key that heads share; a row of made, for each
 * head, k1 and v. */
static void tinyi_dec_latent_split(tinyi_dec_run *r, const tinyi_dec_kept *to)
{
    const tinyi_dec *m = r->m;
    const tiny_idx dh = m->d_head, key = tinyi_dec_key(m), row = tinyi_dec_row(m);
    tiny_idx s, t, j;
    for (s = 0; s < r->n_seq; s++)
        for (t = 0; t < m->context; t++) {
            const tiny_idx token = s * m->context + t;
            const float *from = r->qkv + token * row, *made = r->made + token * 2 * m->d;
            for (j = 0; j < m->n_head; j++) {
                const tiny_idx at = (s * m->n_head + j) * m->context + t;
                memcpy(to->q + at * key, from + j * key, (size_t)dh * sizeof(float));
                tinyi_dec_turn(m, to->q + at * key + dh, from + j * key + dh, 1, t, 0);
                memcpy(to->k + at * key, made + 2 * j * dh, (size_t)dh * sizeof(float));
                tinyi_dec_turn(m, to->k + at * key + dh, from + m->n_head * key + m->latent, 1, t, 0);
                memcpy(to->v + at * dh, made + (2 * j + 1) * dh, (size_t)dh * sizeof(float));
            }
        }
}
static void tinyi_dec_latent_join(tinyi_dec_run *r)
{
    const tinyi_dec *m = r->m;
    const tiny_idx dh = m->d_head, key = tinyi_dec_key(m), row = tinyi_dec_row(m);
    float *shared = r->line;
    tiny_idx s, t, j;
    for (s = 0; s < r->n_seq; s++)
        for (t = 0; t < m->context; t++) {
            const tiny_idx token = s * m->context + t;
            float *to = r->qkv + token * row, *made = r->made + token * 2 * m->d;
            memset(shared, 0, (size_t)m->d_turn * sizeof *shared);
            for (j = 0; j < m->n_head; j++) {
                const tiny_idx at = (s * m->n_head + j) * m->context + t;
                memcpy(to + j * key, r->dq + at * key, (size_t)dh * sizeof(float));
                tinyi_dec_turn(m, to + j * key + dh, r->dq + at * key + dh, 1, t, 1);
                memcpy(made + 2 * j * dh, r->dk + at * key, (size_t)dh * sizeof(float));
                TINYI_OF(r->kernel, axpy_f32)(shared, r->dk + at * key + dh, (size_t)m->d_turn, 1.0f);
                memcpy(made + (2 * j + 1) * dh, r->dv + at * dh, (size_t)dh * sizeof(float));
            }
            tinyi_dec_turn(m, to + m->n_head * key + m->latent, shared, 1, t, 1);
        }
}
/* the columns of a1 of all rows, from or to dense rows */
static void tinyi_dec_latent_columns(tinyi_dec_run *r, float *dense, int to_rows)
{
    const tinyi_dec *m = r->m;
    const tiny_idx row = tinyi_dec_row(m);
    float *a = r->qkv + m->n_head * tinyi_dec_key(m);
    tiny_idx i;
    for (i = 0; i < r->n; i++, a += row, dense += m->latent)
        memcpy(to_rows ? a : dense, to_rows ? dense : a, (size_t)m->latent * sizeof *a);
}

/* (token, all heads) from or to (sequence, key head, token, query heads) */
static void tinyi_dec_heads(const tinyi_dec_run *r, float *rows, float *blocks, int to_blocks)
{
    const tinyi_dec *m = r->m;
    const tiny_idx wide = m->n_head / m->n_kv * m->d_head;
    tiny_idx s, t, j;
    for (s = 0; s < r->n_seq; s++)
        for (j = 0; j < m->n_kv; j++)
            for (t = 0; t < m->context; t++) {
                float *a = rows + (s * m->context + t) * m->d + j * wide,
                      *b = blocks + ((s * m->n_kv + j) * m->context + t) * wide;
                memcpy(to_blocks ? b : a, to_blocks ? a : b, (size_t)wide * sizeof(float));
            }
}

/* Weights of the queries t0 .. t1 of one key head against the keys 0 .. t1, into r->scores. */
static void tinyi_dec_weights(tinyi_dec_run *r, const float *q, const float *k, tiny_idx t0, tiny_idx t1)
{
    const tinyi_dec *m = r->m;
    const tiny_idx group = m->n_head / m->n_kv, rows = (t1 - t0) * group, key = tinyi_dec_key(m);
    const float scale = 1.0f / tinyi_sqrtf((float)key);
    tiny_idx i;
    tinyi_dec_product(r, q, rows, key, 0, k, t1, key, 1, r->scores);
    for (i = 0; i < rows; i++) {
        float *s = r->scores + i * t1;
        const tiny_idx seen = t0 + i / group + 1;
        TINYI_OF(r->kernel, softmax_row_f32)(s, s, (size_t)seen, scale);
        memset(s + seen, 0, (size_t)(t1 - seen) * sizeof *s);
    }
}

/* o, as blocks, into `blocks` */
static void tinyi_dec_attend(tinyi_dec_run *r, const tinyi_dec_kept *a, float *blocks)
{
    const tinyi_dec *m = r->m;
    const tiny_idx group = m->n_head / m->n_kv, dh = m->d_head, key = tinyi_dec_key(m);
    tiny_idx b, t0;
    for (b = 0; b < r->n_seq * m->n_kv; b++) {
        const float *k = a->k + b * m->context * key, *v = a->v + b * m->context * dh;
        for (t0 = 0; t0 < m->context; t0 += TINYI_DEC_QUERIES) {
            const tiny_idx t1 = TINYI_MIN(t0 + TINYI_DEC_QUERIES, m->context), at = (b * m->context + t0) * group;
            tinyi_dec_weights(r, a->q + at * key, k, t0, t1);
            tinyi_dec_product(r, r->scores, (t1 - t0) * group, t1, 0, v, t1, dh, 0, blocks + at * dh);
        }
    }
}

/* from the gradient of o, as blocks, to r->dq, dk, dv */
static void tinyi_dec_attend_back(tinyi_dec_run *r, const tinyi_dec_kept *a, const float *blocks)
{
    const tinyi_dec *m = r->m;
    const tiny_idx group = m->n_head / m->n_kv, dh = m->d_head, key = tinyi_dec_key(m);
    const float scale = 1.0f / tinyi_sqrtf((float)key);
    tiny_idx b, t0, i;
    memset(r->dk, 0, (size_t)(r->n * m->n_kv * key) * sizeof *r->dk);
    memset(r->dv, 0, (size_t)(r->n * m->n_kv * dh) * sizeof *r->dv);
    for (b = 0; b < r->n_seq * m->n_kv; b++) {
        const float *k = a->k + b * m->context * key, *v = a->v + b * m->context * dh;
        float *dk = r->dk + b * m->context * key, *dv = r->dv + b * m->context * dh;
        for (t0 = 0; t0 < m->context; t0 += TINYI_DEC_QUERIES) {
            const tiny_idx t1 = TINYI_MIN(t0 + TINYI_DEC_QUERIES, m->context), at = (b * m->context + t0) * group,
                           rows = (t1 - t0) * group;
            const float *q = a->q + at * key, *go = blocks + at * dh;
            tinyi_dec_weights(r, q, k, t0, t1);
            tinyi_dec_product(r, r->scores, rows, t1, 1, go, rows, dh, 0, r->part);
            TINYI_OF(r->kernel, axpy_f32)(dv, r->part, (size_t)(t1 * dh), 1.0f);
            tinyi_dec_product(r, go, rows, dh, 0, v, t1, dh, 1, r->dscores);
            for (i = 0; i < rows; i++) {
                float *p = r->scores + i * t1, *dp = r->dscores + i * t1;
                const size_t seen = (size_t)(t0 + i / group + 1);
                const float mean = TINYI_OF(r->kernel, dot_f32)(p, dp, seen);
                TINYI_OF(r->kernel, scale_f32)(dp, dp, seen, scale, -mean * scale);
                TINYI_OF(r->kernel, binary_f32)(TINYI_BINARY_MUL, dp, dp, p, seen, 1, 1);
                memset(dp + seen, 0, ((size_t)t1 - seen) * sizeof *dp);
            }
            tinyi_dec_product(r, r->dscores, rows, t1, 0, k, t1, key, 0, r->dq + at * key);
            tinyi_dec_product(r, r->dscores, rows, t1, 1, q, rows, key, 0, r->part);
            TINYI_OF(r->kernel, axpy_f32)(dk, r->part, (size_t)(t1 * key), 1.0f);
        }
    }
}

static const float *tinyi_dec_w(const tinyi_dec_run *r, tiny_idx layer, int what)
{
    tiny_idx i = what == TINYI_DEC_EMBD ? 0 : tinyi_dec_tensors(r->m) - 1;
    if (layer >= 0)
        for (i = 1 + tinyi_dec_each(r->m) * layer; tinyi_dec_layer[r->m->form][(i - 1) % tinyi_dec_each(r->m)] != what;)
            i++;
    return r->w + tinyi_dec_tensor_at(r->m, i).at;
}
static float *tinyi_dec_g(const tinyi_dec_run *r, tiny_idx layer, int what)
{
    return r->g + (tinyi_dec_w(r, layer, what) - r->w);
}

/* ---- the gated form ---------------------------------------------------------------------------------------------- */

/* h and the h before it, mixed for each of the five that read them; the first token of a sequence has zeros before
 * it */
static void tinyi_dec_mix(tinyi_dec_run *r, tiny_idx l, const tinyi_dec_kept *k)
{
    const tiny_idx d = r->m->d, all = r->n * d;
    const float *mix = tinyi_dec_w(r, l, TINYI_DEC_LERP);
    tiny_idx i, t, c;
    for (i = 0; i < 5; i++, mix += d)
        for (t = 0; t < r->n; t++) {
            const float *h = k->h1 + t * d, *before = t % r->m->context ? h - d : NULL;
            float *to = k->mixed + i * all + t * d;
            for (c = 0; c < d; c++) to[c] = h[c] + ((before ? before[c] : 0.0f) - h[c]) * mix[c];
        }
}
/* r->dh from r->dmixed, and the gradient of the five shares */
static void tinyi_dec_mix_back(tinyi_dec_run *r, tiny_idx l, const tinyi_dec_kept *k)
{
    const tiny_idx d = r->m->d, all = r->n * d;
    const float *mix = tinyi_dec_w(r, l, TINYI_DEC_LERP);
    float *dmix = tinyi_dec_g(r, l, TINYI_DEC_LERP);
    tiny_idx i, t, c;
    memset(dmix, 0, (size_t)(5 * d) * sizeof *dmix);
    memset(r->dh, 0, (size_t)all * sizeof *r->dh);
    for (i = 0; i < 5; i++, mix += d, dmix += d)
        for (t = 0; t < r->n; t++) {
            const float *h = k->h1 + t * d, *before = t % r->m->context ? h - d : NULL,
                        *dx = r->dmixed + i * all + t * d;
            float *dh = r->dh + t * d;
            for (c = 0; c < d; c++) {
                dh[c] += dx[c] * (1.0f - mix[c]);
                if (before) dh[c - d] += dx[c] * mix[c];
                dmix[c] += dx[c] * ((before ? before[c] : 0.0f) - h[c]);
            }
        }
}

/* the tokens of a sequence as (context, heads, d_head) */
static tiny_tensor tinyi_dec_seq(const tinyi_dec_run *r, float *x, tiny_idx s)
{
    return tiny_tensor_3d(x + s * r->m->context * r->m->d, TINY_F32, r->m->context, r->m->n_head, r->m->d_head);
}

/* from h1 to o, the input of O */
static void tinyi_dec_gated(tinyi_dec_run *r, tiny_idx l, const tinyi_dec_kept *k)
{
    const tinyi_dec *m = r->m;
    const tinyi_kernels *kn = r->kernel;
    const tiny_idx d = m->d, all = r->n * d;
    const float *bias = tinyi_dec_w(r, l, TINYI_DEC_DECAY);
    tiny_idx s, t, i;
    tinyi_dec_mix(r, l, k);
    tinyi_dec_linear(r, k->mixed, tinyi_dec_w(r, l, TINYI_DEC_DECAY_A), d, m->rank, k->low);
    TINYI_OF(kn, tanh_f32)(k->low, k->low, (size_t)(r->n * m->rank));
    tinyi_dec_linear(r, k->low, tinyi_dec_w(r, l, TINYI_DEC_DECAY_B), m->rank, d, k->gate);
    for (t = 0; t < r->n; t++) TINYI_OF(kn, axpy_f32)(k->gate + t * d, bias, (size_t)d, 1.0f);
    TINYI_OF(kn, exp_f32)(k->gate, k->gate, (size_t)all);
    TINYI_OF(kn, scale_f32)(k->gate, k->gate, (size_t)all, -1.0f, 0.0f);
    tinyi_dec_linear(r, k->mixed + all, tinyi_dec_w(r, l, TINYI_DEC_K), d, d, k->plain);
    tinyi_dec_linear(r, k->mixed + 2 * all, tinyi_dec_w(r, l, TINYI_DEC_V), d, d, k->v);
    tinyi_dec_linear(r, k->mixed + 3 * all, tinyi_dec_w(r, l, TINYI_DEC_Q), d, d, k->q);
    tinyi_dec_linear(r, k->mixed + 4 * all, tinyi_dec_w(r, l, TINYI_DEC_SIDE), d, d, k->side);
    TINYI_OF(kn, sigmoid_f32)(k->side, k->side, (size_t)all);
    TINYI_OF(kn, exp_f32)(k->k, k->gate, (size_t)all);
    for (i = 0; i < all; i++) k->k[i] = k->plain[i] * (1.0f - k->k[i]);
    for (s = 0; s < r->n_seq && !r->st; s++) {
        tiny_tensor q = tinyi_dec_seq(r, k->q, s), key = tinyi_dec_seq(r, k->k, s), v = tinyi_dec_seq(r, k->v, s),
                    g = tinyi_dec_seq(r, k->gate, s), o = tinyi_dec_seq(r, k->raw, s);
        tiny_tensor state = tiny_tensor_3d(r->state, TINY_F32, m->n_head, m->d_head, m->d_head);
        memset(r->state, 0, (size_t)(d * m->d_head) * sizeof *r->state);
        r->st = tiny_gla(r->ctx, &state, &q, &key, &v, &g, NULL, &state, &o);
    }
    TINYI_OF(kn, binary_f32)(TINYI_BINARY_MUL, k->o, k->raw, k->side, (size_t)all, 1, 1);
}

/* from r->dh, the gradient of o, to that of h1 */
static void tinyi_dec_gated_back(tinyi_dec_run *r, tiny_idx l, const tinyi_dec_kept *k)
{
    const tinyi_dec *m = r->m;
    const tiny_idx d = m->d, all = r->n * d;
    float *dside = r->dk, *draw = r->dq, *dk = r->dqkg + all, *dg = r->dqkg + 2 * all,
          *dbias = tinyi_dec_g(r, l, TINYI_DEC_DECAY);
    tiny_idx s, t, i;
    for (i = 0; i < all; i++) {
        dside[i] = r->dh[i] * k->raw[i] * k->side[i] * (1.0f - k->side[i]);
        draw[i] = r->dh[i] * k->side[i];
    }
    memset(r->state, 0, (size_t)(d * m->d_head) * sizeof *r->state);
    for (s = 0; s < r->n_seq && !r->st; s++) {
        tiny_tensor q = tinyi_dec_seq(r, k->q, s), key = tinyi_dec_seq(r, k->k, s), v = tinyi_dec_seq(r, k->v, s),
                    g = tinyi_dec_seq(r, k->gate, s);
        tiny_tensor d_o = tinyi_dec_seq(r, draw, s), dv = tinyi_dec_seq(r, r->dv, s),
                    dqkg = tiny_tensor_4d(r->dqkg + s * m->context * d, TINY_F32, 3, m->context, m->n_head, m->d_head);
        tiny_tensor state = tiny_tensor_3d(r->state, TINY_F32, m->n_head, m->d_head, m->d_head), dstate = state;
        dqkg.stride[0] = all;
        dstate.data = r->wide_state;
        r->st = tiny_gla_backward(r->ctx, &state, &q, &key, &v, &d_o, &g, NULL, NULL, &dqkg, &dv, &dstate);
    }
    if (r->st) return;
    TINYI_OF(r->kernel, exp_f32)(draw, k->gate, (size_t)all);
    for (i = 0; i < all; i++) {             /* of z, and of keys before their factor */
        dg[i] = (dg[i] - dk[i] * k->plain[i] * draw[i]) * k->gate[i];
        dk[i] *= 1.0f - draw[i];
    }
    memset(dbias, 0, (size_t)d * sizeof *dbias);
    for (t = 0; t < r->n; t++) TINYI_OF(r->kernel, axpy_f32)(dbias, dg + t * d, (size_t)d, 1.0f);
    tinyi_dec_linear_back(r, dg, k->low, tinyi_dec_w(r, l, TINYI_DEC_DECAY_B), m->rank, d, r->low,
                          tinyi_dec_g(r, l, TINYI_DEC_DECAY_B));
    for (i = 0; i < r->n * m->rank; i++) r->low[i] *= 1.0f - k->low[i] * k->low[i];
    tinyi_dec_linear_back(r, r->low, k->mixed, tinyi_dec_w(r, l, TINYI_DEC_DECAY_A), d, m->rank, r->dmixed,
                          tinyi_dec_g(r, l, TINYI_DEC_DECAY_A));
    tinyi_dec_linear_back(r, dk, k->mixed + all, tinyi_dec_w(r, l, TINYI_DEC_K), d, d, r->dmixed + all,
                          tinyi_dec_g(r, l, TINYI_DEC_K));
    tinyi_dec_linear_back(r, r->dv, k->mixed + 2 * all, tinyi_dec_w(r, l, TINYI_DEC_V), d, d, r->dmixed + 2 * all,
                          tinyi_dec_g(r, l, TINYI_DEC_V));
    tinyi_dec_linear_back(r, r->dqkg, k->mixed + 3 * all, tinyi_dec_w(r, l, TINYI_DEC_Q), d, d, r->dmixed + 3 * all,
                          tinyi_dec_g(r, l, TINYI_DEC_Q));
    tinyi_dec_linear_back(r, dside, k->mixed + 4 * all, tinyi_dec_w(r, l, TINYI_DEC_SIDE), d, d, r->dmixed + 4 * all,
                          tinyi_dec_g(r, l, TINYI_DEC_SIDE));
    tinyi_dec_mix_back(r, l, k);
}

/* grouped: s = silu(a) b; a and b the halves of a row of gu. latent: s = relu(a)^2 */
static void tinyi_dec_gate(tinyi_dec_run *r, const tinyi_dec_kept *k)
{
    const size_t n = (size_t)r->m->hidden, all = n * (size_t)r->n;
    tiny_idx i;
    if (r->m->form == TINYI_DEC_LATENT) {
        TINYI_OF(r->kernel, relu2_f32)(k->s, k->gu, all);
        return;
    }
    for (i = 0; i < r->n; i++)
        TINYI_OF(r->kernel, swiglu_f32)
        (k->s + (size_t)i * n, k->gu + (size_t)i * 2 * n, k->gu + ((size_t)i * 2 + 1) * n, n);
}
static void tinyi_dec_gate_back(tinyi_dec_run *r, const float *ds, const float *gu, float *dgu)
{
    const tinyi_kernels *k = r->kernel;
    const size_t n = (size_t)r->m->hidden, all = n * (size_t)r->n;
    float *s = r->line, *t = r->line + n, *u = r->line + 2 * n;
    tiny_idx i;
    size_t j;
    if (r->m->form == TINYI_DEC_LATENT) {
        for (j = 0; j < all; j++) dgu[j] = gu[j] > 0.0f ? 2.0f * gu[j] * ds[j] : 0.0f;
        return;
    }
    for (i = 0; i < r->n; i++, ds += n, gu += 2 * n, dgu += 2 * n) {
        const float *a = gu, *b = gu + n;
        TINYI_OF(k, sigmoid_f32)(s, a, n);
        TINYI_OF(k, binary_f32)(TINYI_BINARY_MUL, t, a, s, n, 1, 1);              /* silu */
        TINYI_OF(k, binary_f32)(TINYI_BINARY_MUL, dgu + n, ds, t, n, 1, 1);
        TINYI_OF(k, binary_f32)(TINYI_BINARY_MUL, u, t, s, n, 1, 1);
        TINYI_OF(k, binary_f32)(TINYI_BINARY_SUB, t, t, u, n, 1, 1);
        TINYI_OF(k, binary_f32)(TINYI_BINARY_ADD, t, t, s, n, 1, 1);              /* s + a s - a s s */
        TINYI_OF(k, binary_f32)(TINYI_BINARY_MUL, u, ds, b, n, 1, 1);
        TINYI_OF(k, binary_f32)(TINYI_BINARY_MUL, dgu, u, t, n, 1, 1);
    }
}

/* Replaces the probabilities p by the gradient of the logits, p - q. q is the token that came, or with `exact` the
 * distribution of the grammar. The latter is the mean gradient over all stories with this beginning, so the randomness
 * of the draw is not in the step. If the text does not follow the grammar, q is the token that came. */
static void tinyi_dec_target(const tinyi_dec_run *r, tllm_story *story, int *is_story, int32_t next, float share,
                             float *p)
{
    tllm_story_items items;
    int tag = TLLM_STORY_PLAIN, i;
    float weight = share;
    items.n = 0;
    if (*is_story) tllm_story_next(story, &items);
    *is_story = *is_story && tllm_story_take(story, next, NULL, &tag);
    if (!r->m->exact || !*is_story) p[next] -= 1.0f;
    else for (i = 0; i < items.n; i++) p[items.token[i]] -= (float)items.weight[i] / (float)items.total;
    if (*is_story && tag >= TLLM_STORY_PLACE && tag <= TLLM_STORY_COLOUR) weight *= r->m->stress;
    TINYI_OF(r->kernel, scale_f32)(p, p, (size_t)r->m->vocab, weight, 0.0f);
}

/* The sum of -log p of what came, and, if asked for, the gradient of the logits in their place. */
static double tinyi_dec_loss(tinyi_dec_run *r, const int32_t *tokens, float share)
{
    const size_t n = (size_t)r->m->vocab;
    double sum = 0.0;
    tiny_idx s, t;
    for (s = 0; s < r->n_seq; s++) {
        tllm_story story = tllm_story_start(0);
        int is_story = r->m->exact || r->m->stress != 1.0f;
        for (t = 0; t < r->m->context; t++) {
            float *p = r->logits + (size_t)(s * r->m->context + t) * n;
            const int32_t next = tokens[s * (r->m->context + 1) + t + 1];
            const double x = (double)p[next] - (double)TINYI_OF(r->kernel, max_f32)(p, n);
            TINYI_OF(r->kernel, softmax_row_f32)(p, p, n, 1.0f);
            /* a number too small for a float is given by its distance from the largest */
            sum -= p[next] > 1e-30f || !(p[next] >= 0.0f) ? tinyi_log64((double)p[next]) : x;
            if (r->g) tinyi_dec_target(r, &story, &is_story, next, share, p);
        }
    }
    return sum;
}

/* from h1 to q, k, v, and from their gradients to dh, the first norm's */
static void tinyi_dec_attention_in(tinyi_dec_run *r, tiny_idx l, const tinyi_dec_kept *k)
{
    const tinyi_dec *m = r->m;
    tinyi_dec_linear(r, k->h1, tinyi_dec_w(r, l, TINYI_DEC_Q), m->d, tinyi_dec_row(m), r->qkv);
    if (m->form != TINYI_DEC_LATENT) {
        tinyi_dec_split(r, k);
        return;
    }
    tinyi_dec_latent_columns(r, k->a, 0);
    tinyi_dec_norm(r, k->a, tinyi_dec_w(r, l, TINYI_DEC_KV_NORM), m->latent, k->c);
    tinyi_dec_linear(r, k->c, tinyi_dec_w(r, l, TINYI_DEC_KV_B), m->latent, tinyi_dec_made(m), r->made);
    tinyi_dec_latent_split(r, k);
}
static void tinyi_dec_attention_in_back(tinyi_dec_run *r, tiny_idx l, const tinyi_dec_kept *k)
{
    const tinyi_dec *m = r->m;
    if (m->form != TINYI_DEC_LATENT) tinyi_dec_join(r);
    else {
        tinyi_dec_latent_join(r);
        tinyi_dec_linear_back(r, r->made, k->c, tinyi_dec_w(r, l, TINYI_DEC_KV_B), m->latent, tinyi_dec_made(m), r->dh,
                              tinyi_dec_g(r, l, TINYI_DEC_KV_B));
        memset(r->dc, 0, (size_t)(r->n * m->latent) * sizeof *r->dc);
        tinyi_dec_norm_back(r, r->dh, k->a, tinyi_dec_w(r, l, TINYI_DEC_KV_NORM), m->latent, r->dc,
                            tinyi_dec_g(r, l, TINYI_DEC_KV_NORM));
        tinyi_dec_latent_columns(r, r->dc, 1);
    }
    tinyi_dec_linear_back(r, r->qkv, k->h1, tinyi_dec_w(r, l, TINYI_DEC_Q), m->d, tinyi_dec_row(m), r->dh,
                          tinyi_dec_g(r, l, TINYI_DEC_Q));
}

static void tinyi_dec_forward(tinyi_dec_run *r, const int32_t *tokens)
{
    const tinyi_dec *m = r->m;
    const tiny_idx wide = tinyi_dec_wide(m);
    const int first = m->form == TINYI_DEC_LATENT ? TINYI_DEC_UP : TINYI_DEC_GATE;
    const size_t all = (size_t)(r->n * m->d);
    const float *embd = tinyi_dec_w(r, -1, TINYI_DEC_EMBD);
    tiny_idx s, t, l;
    for (s = 0; s < r->n_seq; s++)
        for (t = 0; t < m->context; t++)
            memcpy(r->kept[0].x + (s * m->context + t) * m->d, embd + tokens[s * (m->context + 1) + t] * m->d,
                   (size_t)m->d * sizeof *embd);
    for (l = 0; l < m->n_layer && !r->st; l++) {
        const tinyi_dec_kept *k = &r->kept[l];
        float *out = l + 1 < m->n_layer ? r->kept[l + 1].x : r->x;
        tinyi_dec_norm(r, k->x, tinyi_dec_w(r, l, TINYI_DEC_NORM1), m->d, k->h1);
        if (m->form == TINYI_DEC_GATED) tinyi_dec_gated(r, l, k);
        else {
            tinyi_dec_attention_in(r, l, k);
            tinyi_dec_attend(r, k, r->dh);
            tinyi_dec_heads(r, k->o, r->dh, 0);
        }
        tinyi_dec_linear(r, k->o, tinyi_dec_w(r, l, TINYI_DEC_O), m->d, m->d, k->mid);
        TINYI_OF(r->kernel, axpy_f32)(k->mid, k->x, all, 1.0f);
        tinyi_dec_norm(r, k->mid, tinyi_dec_w(r, l, TINYI_DEC_NORM2), m->d, k->h2);
        tinyi_dec_linear(r, k->h2, tinyi_dec_w(r, l, first), m->d, wide, k->gu);
        tinyi_dec_gate(r, k);
        tinyi_dec_linear(r, k->s, tinyi_dec_w(r, l, TINYI_DEC_DOWN), m->hidden, m->d, out);
        TINYI_OF(r->kernel, axpy_f32)(out, k->mid, all, 1.0f);
    }
    tinyi_dec_norm(r, r->x, tinyi_dec_w(r, -1, TINYI_DEC_NORM), m->d, r->h);
    tinyi_dec_linear(r, r->h, embd, m->d, m->vocab, r->logits);
}

static void tinyi_dec_backward(tinyi_dec_run *r, const int32_t *tokens)
{
    const tinyi_dec *m = r->m;
    const tiny_idx wide = tinyi_dec_wide(m);
    const int first = m->form == TINYI_DEC_LATENT ? TINYI_DEC_UP : TINYI_DEC_GATE;
    const size_t all = (size_t)(r->n * m->d);
    float *dembd = tinyi_dec_g(r, -1, TINYI_DEC_EMBD);
    tiny_idx s, t, l;
    tinyi_dec_linear_back(r, r->logits, r->h, tinyi_dec_w(r, -1, TINYI_DEC_EMBD), m->d, m->vocab, r->dh, dembd);
    memset(r->dx, 0, all * sizeof *r->dx);
    tinyi_dec_norm_back(r, r->dh, r->x, tinyi_dec_w(r, -1, TINYI_DEC_NORM), m->d, r->dx,
                        tinyi_dec_g(r, -1, TINYI_DEC_NORM));
    for (l = m->n_layer - 1; l >= 0 && !r->st; l--) {
        const tinyi_dec_kept *k = &r->kept[l];
        /* ds goes where s was: dD is taken from s first */
        tinyi_dec_product(r, r->dx, r->n, m->d, 1, k->s, r->n, m->hidden, 0, tinyi_dec_g(r, l, TINYI_DEC_DOWN));
        tinyi_dec_product(r, r->dx, r->n, m->d, 0, tinyi_dec_w(r, l, TINYI_DEC_DOWN), m->d, m->hidden, 0, k->s);
        tinyi_dec_gate_back(r, k->s, k->gu, r->wide);
        tinyi_dec_linear_back(r, r->wide, k->h2, tinyi_dec_w(r, l, first), m->d, wide, r->dh, tinyi_dec_g(r, l, first));
        tinyi_dec_norm_back(r, r->dh, k->mid, tinyi_dec_w(r, l, TINYI_DEC_NORM2), m->d, r->dx,
                            tinyi_dec_g(r, l, TINYI_DEC_NORM2));
        tinyi_dec_linear_back(r, r->dx, k->o, tinyi_dec_w(r, l, TINYI_DEC_O), m->d, m->d, r->dh,
                              tinyi_dec_g(r, l, TINYI_DEC_O));
        if (m->form == TINYI_DEC_GATED) tinyi_dec_gated_back(r, l, k);
        else {
            tinyi_dec_heads(r, r->dh, k->o, 1);
            tinyi_dec_attend_back(r, k, k->o);
            tinyi_dec_attention_in_back(r, l, k);
        }
        tinyi_dec_norm_back(r, r->dh, k->x, tinyi_dec_w(r, l, TINYI_DEC_NORM1), m->d, r->dx,
                            tinyi_dec_g(r, l, TINYI_DEC_NORM1));
    }
    for (s = 0; s < r->n_seq; s++)
        for (t = 0; t < m->context; t++)
            TINYI_OF(r->kernel, axpy_f32)
            (dembd + tokens[s * (m->context + 1) + t] * m->d, r->dx + (s * m->context + t) * m->d, (size_t)m->d, 1.0f);
}

TINYI_FN tiny_status tinyi_dec_lane(tiny_ctx *one, const tinyi_dec *m, const float *w, float *g, float *room,
                                    const int32_t *tokens, tiny_idx n_seq, float share, double *nats)
{
    tinyi_dec_run r;
    tinyi_dec_taker t;
    r.ctx = one;
    r.kernel = one->k;
    r.m = m;
    r.w = w;
    r.g = g;
    r.n_seq = n_seq;
    r.n = n_seq * m->context;
    r.st = TINY_OK;
    t.room = room;
    t.used = 0;
    t.fits = 1;
    tinyi_dec_layout(&r, &t);
    tinyi_dec_forward(&r, tokens);
    if (r.st) return r.st;
    *nats = tinyi_dec_loss(&r, tokens, share);
    if (g) tinyi_dec_backward(&r, tokens);
    return r.st;
}
