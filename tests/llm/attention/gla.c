/* tests/llm/attention/gla.c - gated linear attention: the proofs of attention 4 (GLA, arXiv 2312.06635)
 *
 * Truth    a case worked by hand; figures of numpy's float64 matrices (the parallel form, tril of (Q
 *          e^b)(K e^-b)^T, and its gradient by sums of the same matrices, on inputs made of sines); the reference in
 *          double; differences of the loss; plain sums of outer products where no gate is. tests/math/grad.c has
 *          central differences too, the conformance kit generated cases. */
#include "t.h"

enum { T = 37, K = 8, V = 6, LONG = 300 };
static const int forms[3] = { TINY_GLA_RECURRENT, TINY_GLA_CHUNKED, TINY_GLA_PARALLEL };

typedef struct gla {
    tiny_ctx *ctx;
    tiny_tensor state, q, k, v, g, to, o;
    tiny_gla_params p;
} gla;

static void *numbers(tiny_dtype type, tiny_idx n) { return t_keep((size_t)(n ? n : 1) * (type == TINY_F64 ? 8 : 4)); }
static void put(tiny_tensor *x, tiny_idx i, double value)
{
    if (x->dtype == TINY_F64) ((double *)x->data)[i] = value;
    else ((float *)x->data)[i] = (float)value;
}
static double get(const tiny_tensor *x, tiny_idx i)
{
    return x->dtype == TINY_F64 ? ((double *)x->data)[i] : (double)((float *)x->data)[i];
}
static gla make(tiny_ctx *ctx, tiny_dtype type, tiny_idx n, tiny_idx heads, tiny_idx key, tiny_idx value, int form)
{
    gla a;
    memset(&a, 0, sizeof a);
    a.ctx = ctx;
    a.p.form = form;
    a.state = tiny_tensor_3d(numbers(type, heads * key * value), type, heads, key, value);
    a.to = tiny_tensor_3d(numbers(type, heads * key * value), type, heads, key, value);
    a.q = tiny_tensor_3d(numbers(type, n * heads * key), type, n, heads, key);
    a.k = tiny_tensor_3d(numbers(type, n * heads * key), type, n, heads, key);
    a.g = tiny_tensor_3d(numbers(type, n * heads * key), type, n, heads, key);
    a.v = tiny_tensor_3d(numbers(type, n * heads * value), type, n, heads, value);
    a.o = tiny_tensor_3d(numbers(type, n * heads * value), type, n, heads, value);
    return a;
}
static tiny_status run(gla *a) { return tiny_gla(a->ctx, &a->state, &a->q, &a->k, &a->v, &a->g, &a->p, &a->to, &a->o); }
/* random numbers; gates of -strength |x| */
static void fill(gla *a, double strength)
{
    tiny_tensor *x[5];
    tiny_idx i;
    int j;
    x[0] = &a->state; x[1] = &a->q; x[2] = &a->k; x[3] = &a->v; x[4] = &a->g;
    for (j = 0; j < 5; j++)
        for (i = 0; i < tiny_tensor_count(x[j]); i++)
            put(x[j], i, (double)(j < 4 ? t_rand_float(-1.5f, 1.5f) : t_rand_float((float)-strength, 0.0f)));
}
static gla same_in(tiny_ctx *ctx, const gla *a, tiny_dtype type, int form)
{
    gla b = make(ctx, type, a->q.dim[0], a->q.dim[1], a->q.dim[2], a->v.dim[2], form);
    tiny_idx i;
    for (i = 0; i < tiny_tensor_count(&a->state); i++) put(&b.state, i, get(&a->state, i));
    for (i = 0; i < tiny_tensor_count(&a->q); i++) {
        put(&b.q, i, get(&a->q, i));
        put(&b.k, i, get(&a->k, i));
        put(&b.g, i, get(&a->g, i));
    }
    for (i = 0; i < tiny_tensor_count(&a->v); i++) put(&b.v, i, get(&a->v, i));
    b.p.scale = a->p.scale;
    return b;
}
static double largest(const tiny_tensor *x)
{
    double top = 0;
    tiny_idx i;
    for (i = 0; i < tiny_tensor_count(x); i++) top = fabs(get(x, i)) > top ? fabs(get(x, i)) : top;
    return top;
}
/* off: of the largest number */
static void about(const tiny_tensor *got, const tiny_tensor *want, double off)
{
    const double bound = off * largest(want);
    tiny_idx i;
    for (i = 0; i < tiny_tensor_count(want); i++)
        if (!T_CLOSE(get(got, i), get(want, i), bound)) return;
}
static void sines(gla *a, double gates)
{
    tiny_idx t, d, j;
    for (t = 0; t < T; t++)
        for (d = 0; d < K; d++) {
            put(&a->q, t * K + d, sin(0.3 * (double)t + 0.7 * (double)d));
            put(&a->k, t * K + d, cos(0.5 * (double)t - 0.4 * (double)d));
            put(&a->g, t * K + d, -gates * (1 + sin(1.1 * (double)t + 0.9 * (double)d)));
            for (j = 0; j < V && d == 0; j++) put(&a->v, t * V + j, sin(0.2 * (double)t * (double)(1 + j) + 0.1));
        }
    memset(a->state.data, 0, (size_t)(K * V) * (a->state.dtype == TINY_F64 ? 8 : 4));
}

/* K = V = 1, gates .5 .5 .8, k 1 2 1, v 1 1 2, q and scale 1: o = 1, 2.5, 4 */
static void test_proof_4_worked(tiny_target target)
{
    static const double gate[3] = { 0.5, 0.5, 0.8 }, k[3] = { 1, 2, 1 }, v[3] = { 1, 1, 2 }, want[3] = { 1, 2.5, 4 };
    int f, t;
    for (f = 0; f < 3; f++) {
        gla a = make(t_ctx(target, 1), TINY_F32, 3, 1, 1, 1, forms[f]);
        a.p.scale = 1;
        a.p.chunk = 2;
        a.p.sub = 1;
        put(&a.state, 0, 0);
        for (t = 0; t < 3; t++) {
            put(&a.q, t, 1);
            put(&a.k, t, k[t]);
            put(&a.v, t, v[t]);
            put(&a.g, t, log(gate[t]));
        }
        T_OK(run(&a));
        if (f < 2) T_RAN_ON(a.ctx, t_vectors(target));
        for (t = 0; t < 3; t++) T_CLOSE(get(&a.o, t), want[t], 1e-6);
        T_CLOSE(get(&a.to, 0), 4, 1e-6);
        t_close(a.ctx);
    }
    T_PROOF("attention 4", "tiny case: o = 1, 2.5, 4");
}

/* T=37 K=8 V=6, chunks of 16 in parts of 4 */
static void test_proof_4_forms_agree(tiny_target target)
{
    static const struct {
        int t, j;
        double o;
    } at[5] = { { 0, 0, 0.11638306594798377 },
                { 5, 1, -1.6195719235038608 },
                { 17, 3, 0.9534796565835105 },
                { 36, 0, -1.6641593984035248 },
                { 36, 5, 1.1306939959146967 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    gla a = make(ctx, TINY_F64, T, 1, K, V, TINY_GLA_RECURRENT), b, c;
    int i;
    sines(&a, 0.6);
    b = same_in(ctx, &a, TINY_F64, TINY_GLA_PARALLEL);
    c = same_in(ctx, &a, TINY_F32, TINY_GLA_CHUNKED);
    c.p.chunk = 16;
    c.p.sub = 4;
    T_OK(run(&a));
    T_OK(run(&b));
    T_OK(run(&c));
    about(&b.o, &a.o, 4e-15);
    about(&b.to, &a.to, 1e-15);
    about(&c.o, &a.o, 20 * 6e-8);
    about(&c.to, &a.to, 20 * 6e-8);
    for (i = 0; i < 5; i++) T_CLOSE(get(&a.o, at[i].t * V + at[i].j), at[i].o, 1e-14);
    T_CLOSE(get(&a.to, 0), 0.5566989357901486, 1e-14);
    T_CLOSE(get(&a.to, 3 * V + 2), -1.7109940460854316, 1e-14);
    T_CLOSE(get(&a.to, 7 * V + 5), 0.7346854206847426, 1e-14);
    t_close(ctx);
    T_PROOF("attention 4", "three forms agree at T = 37: in double to 4e-15, chunks in float to 20 units");
}

/* A form that divides by e^b in float, even for each chunk alone: it passes with mild gates, and gives NaN with strong
 * ones. */
static int divided_is_finite(const gla *a)
{
    int t, u, d, bad = 0;
    for (t = 0; t < T; t++)
        for (u = 0; u <= t; u++) {
            float s = 0;
            for (d = 0; d < K; d++) {
                float b = 0, c = 0;
                int i;
                for (i = 0; i <= t; i++) {
                    b += (float)get(&a->g, i * K + d);
                    if (i <= u) c += (float)get(&a->g, i * K + d);
                }
                s += (float)get(&a->q, t * K + d) * (float)exp((double)b) *
                     ((float)get(&a->k, u * K + d) * (float)exp((double)-c));
            }
            bad |= !(fabsf(s) < INFINITY);
        }
    return !bad;
}
static void test_proof_4_strong_gates(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    gla mild = make(ctx, TINY_F32, T, 1, K, V, TINY_GLA_CHUNKED), a = make(ctx, TINY_F32, T, 1, K, V, TINY_GLA_CHUNKED),
        b;
    const double strength[3] = { 12.0, 60.0, 400.0 };
    int i;
    sines(&mild, 0.6);
    T_TRUE(divided_is_finite(&mild));
    for (i = 0; i < 3; i++) {               /* 20 times, the sum of gates is -466; then more */
        sines(&a, strength[i]);
        T_TRUE(!divided_is_finite(&a));
        b = same_in(ctx, &a, TINY_F64, TINY_GLA_RECURRENT);
        T_OK(run(&a));
        T_OK(run(&b));
        about(&a.o, &b.o, 20 * 6e-8);
        about(&a.to, &b.to, 20 * 6e-8);
        a.p.form = TINY_GLA_PARALLEL;
        T_STATUS(run(&a), TINY_E_ARGUMENT,
                 "the parallel form needs exp of minus that sum, at most e^80: use the chunked form");
        a.p.form = TINY_GLA_CHUNKED;
    }
    /* one strong gate among mild ones: the tokens after it are as exact as those before */
    a = make(ctx, TINY_F32, LONG, 2, 33, 17, TINY_GLA_CHUNKED);
    fill(&a, 0.05);
    for (i = 0; i < 33; i++) put(&a.g, 70 * 66 + i, -3000.0 - i);
    b = same_in(ctx, &a, TINY_F64, TINY_GLA_RECURRENT);
    T_OK(run(&a));
    T_OK(run(&b));
    about(&a.o, &b.o, 40 * 6e-8);
    about(&a.to, &b.to, 40 * 6e-8);
    t_close(ctx);
    T_PROOF("attention 4", "gates 20 times: parallel refused, chunked exact");
}

static void test_proof_4_no_gate_is_a_sum(tiny_target target)
{
    int f;
    for (f = 0; f < 2; f++) {
        gla a = make(t_ctx(target, 2), TINY_F32, 150, 2, 19, 21, forms[f]), b;
        double want[19 * 21], o;
        int t, d, j;
        fill(&a, 0.0);
        b = same_in(a.ctx, &a, TINY_F32, forms[f]);
        T_OK(tiny_gla(a.ctx, &a.state, &a.q, &a.k, &a.v, NULL, &a.p, &a.to, &a.o));
        T_OK(run(&b));                      /* gates of 0: the same bits as no gates */
        T_SAME((float *)a.o.data, (float *)b.o.data, tiny_tensor_count(&a.o));
        T_SAME((float *)a.to.data, (float *)b.to.data, tiny_tensor_count(&a.to));
        for (d = 0; d < 19; d++) for (j = 0; j < 21; j++) want[d * 21 + j] = get(&a.state, (19 + d) * 21 + j);
        for (t = 0; t < 150; t++)
            for (j = 0; j < 21; j++) {      /* of the second head */
                for (o = 0, d = 0; d < 19; d++) {
                    want[d * 21 + j] += get(&a.k, (t * 2 + 1) * 19 + d) * get(&a.v, (t * 2 + 1) * 21 + j);
                    o += get(&a.q, (t * 2 + 1) * 19 + d) * want[d * 21 + j] / sqrt(19.0);
                }
                if (!T_CLOSE(get(&a.o, (t * 2 + 1) * 21 + j), o, 2e-4)) break;
            }
        t_close(a.ctx);
    }
    T_PROOF("attention 4", "g = 0 equals the cumulative sum of outer products");
}

/* -inf drops the state, also values that were not finite; nothing becomes NaN by 0 times infinity */
static void test_proof_4_reset(tiny_target target)
{
    int f;
    tiny_idx i;
    for (f = 0; f < 2; f++) {
        gla a = make(t_ctx(target, 2), TINY_F32, 130, 1, 16, 24, forms[f]), b;
        fill(&a, 0.2);
        for (i = 0; i < 16; i++) put(&a.g, 40 * 16 + i, (double)-INFINITY);
        b = same_in(a.ctx, &a, TINY_F32, forms[f]);
        for (i = 0; i < 16 * 24; i++) put(&b.state, i, i % 2 ? (double)INFINITY : 7.0);
        put(&b.v, 3, (double)NAN);
        T_OK(run(&a));
        T_OK(run(&b));
        for (i = 40 * 24; i < 130 * 24; i++)
            if (!T_CLOSE(get(&b.o, i), get(&a.o, i), 1e-5 * largest(&a.o))) break;
        about(&b.to, &a.to, 1e-5);
        t_close(a.ctx);
    }
    T_PROOF("attention 4", "g = -inf resets a channel");
}

/* any cut, the state handed over: a prompt, single tokens, a prompt again; in place too */
static void test_proof_4_cuts(tiny_target target)
{
    static const tiny_idx cut[][4] = {
        { 0, 300, 300, 300 }, { 100, 101, 102, 300 }, { 64, 128, 129, 300 }, { 1, 66, 200, 201 }
    };
    int f, c, i;
    for (f = 0; f < 3; f++) {               /* the last: as the library chooses */
        gla a = make(t_ctx(target, 2), TINY_F32, LONG, 2, 20, 36, f < 2 ? forms[f] : TINY_GLA_AUTO), b;
        fill(&a, 0.4);
        T_OK(run(&a));
        for (c = 0; c < (int)T_COUNT(cut); c++) {
            tiny_idx from = 0;
            b = same_in(a.ctx, &a, TINY_F32, a.p.form);
            for (i = 0; i < 5; i++) {
                const tiny_idx to = i < 4 ? cut[c][i] : LONG, n = to - from;
                tiny_tensor q = b.q, k = b.k, v = b.v, g = b.g, o = b.o;
                q.dim[0] = k.dim[0] = v.dim[0] = g.dim[0] = o.dim[0] = n;
                q.data = (float *)b.q.data + from * 40;
                k.data = (float *)b.k.data + from * 40;
                g.data = (float *)b.g.data + from * 40;
                v.data = (float *)b.v.data + from * 72;
                o.data = (float *)b.o.data + from * 72;
                /* 0 tokens at times: nothing changes */
                T_OK(tiny_gla(b.ctx, &b.state, &q, &k, &v, &g, &b.p, &b.state, &o));
                from = to;
            }
            /* the same steps: the same bits. The reference rounds its sums, which are double, at each cut */
            if (f == 0 && target != TINY_TARGET_REFERENCE) {
                T_SAME((float *)b.o.data, (float *)a.o.data, tiny_tensor_count(&a.o));
                T_SAME((float *)b.state.data, (float *)a.to.data, tiny_tensor_count(&a.to));
            }
            about(&b.o, &a.o, 20 * 6e-8);
            about(&b.state, &a.to, 20 * 6e-8);
        }
        t_close(a.ctx);
    }
    T_PROOF("attention 4", "splitting anywhere and passing the state changes nothing");
}

static void test_proof_4_lengths_and_chunks(tiny_target target)
{
    static const tiny_idx length[] = { 1, 2, 15, 16, 17, 63, 64, 65, 127, 129, 200 };
    static const int chunk[][2] = { { 0, 0 }, { 16, 4 }, { 60, 12 }, { 7, 7 }, { 5, 1 }, { 256, 64 }, { 0, 32 } };
    tiny_ctx *ctx = t_ctx(target, 3);
    size_t i, c;
    for (i = 0; i < T_COUNT(length); i++) {
        gla a = make(ctx, TINY_F32, length[i], 1 + (tiny_idx)i % 2, 1 + 13 * (tiny_idx)i % 70,
                     1 + 29 * (tiny_idx)i % 80, TINY_GLA_CHUNKED),
            b;
        fill(&a, i % 2 ? 0.1 : 5.0);
        b = same_in(ctx, &a, TINY_F64, TINY_GLA_RECURRENT);
        T_OK(run(&b));
        for (c = 0; c < T_COUNT(chunk); c++) {
            a.p.chunk = chunk[c][0];
            a.p.sub = chunk[c][1];
            T_OK(run(&a));
            about(&a.o, &b.o, 60 * 6e-8);
            about(&a.to, &b.to, 60 * 6e-8);
        }
    }
    t_close(ctx);
    T_PROOF("attention 4", "T no multiple of C");
}

/* a changed token, NaN included, never affects the tokens before it */
static void test_proof_4_causal(tiny_target target)
{
    int f, change;
    for (f = 0; f < 2; f++)
        for (change = 0; change < 6; change++) {         /* 4, 5: the values alone, or the keys */
            const double x = change == 1 || change == 5   ? (double)INFINITY
                             : change == 2 || change == 4 ? (double)NAN
                             : change == 3                ? 3e38
                                                          : 9.0;
            gla a = make(t_ctx(target, 2), TINY_F32, 150, 1, 24, 40, forms[f]), b;
            int i;
            fill(&a, 0.3);
            b = same_in(a.ctx, &a, TINY_F32, forms[f]);
            for (i = 0; i < 40 && change != 5; i++) put(&b.v, 90 * 40 + i, x);
            for (i = 0; i < 24 && change == 5; i++) put(&b.k, 90 * 24 + i, x);
            for (i = 0; i < 24 && change < 4; i++) {
                put(&b.k, 90 * 24 + i, x);
                put(&b.q, 90 * 24 + i, x);
                put(&b.g, 90 * 24 + i, -x * x >= -1e30 ? -x * x : -1e30);
            }
            T_OK(run(&a));
            T_OK(run(&b));
            if (change == 0) T_SAME((float *)a.o.data, (float *)b.o.data, 90 * 40);
            else for (i = 0; i < 90 * 40; i++)      /* of the same chunk: by the other form */
                if (!T_CLOSE(get(&b.o, i), get(&a.o, i), 1e-6 * largest(&a.o))) break;
            T_TRUE(get(&a.o, 90 * 40) != get(&b.o, 90 * 40));
            t_close(a.ctx);
        }
    T_PROOF("attention 4", "causality: o before a changed token is the same bits");
}

/* one gate for all channels of a head (as RetNet has them), and keys, values and gates of one head for three: views of
 * stride 0 */
static void test_shared(tiny_target target)
{
    gla a = make(t_ctx(target, 2), TINY_F32, 100, 3, 12, 10, TINY_GLA_CHUNKED), b;
    tiny_idx t, h, d;
    fill(&a, 0.3);
    for (t = 0; t < 100; t++)
        for (h = 0; h < 3; h++)
            for (d = 0; d < 12; d++) {
                put(&a.g, (t * 3 + h) * 12 + d, get(&a.g, t * 3 * 12));
                put(&a.k, (t * 3 + h) * 12 + d, get(&a.k, t * 3 * 12 + d));
                if (d < 10) put(&a.v, (t * 3 + h) * 10 + d, get(&a.v, t * 3 * 10 + d));
            }
    b = same_in(a.ctx, &a, TINY_F32, TINY_GLA_CHUNKED);
    b.k.stride[1] = b.v.stride[1] = b.g.stride[1] = b.g.stride[2] = 0;
    T_OK(run(&a));
    T_OK(run(&b));
    T_SAME((float *)a.o.data, (float *)b.o.data, tiny_tensor_count(&a.o));
    T_SAME((float *)a.to.data, (float *)b.to.data, tiny_tensor_count(&a.to));
    t_close(a.ctx);
}

typedef struct back { tiny_tensor d_o, d_to, dqkg, dv, ds; } back;
static back make_back(const gla *a)
{
    const tiny_dtype type = a->q.dtype;
    const tiny_idx n = a->q.dim[0], h = a->q.dim[1], k = a->q.dim[2], v = a->v.dim[2];
    back b;
    b.d_o = tiny_tensor_3d(numbers(type, n * h * v), type, n, h, v);
    b.dv = tiny_tensor_3d(numbers(type, n * h * v), type, n, h, v);
    b.d_to = tiny_tensor_3d(numbers(type, h * k * v), type, h, k, v);
    b.ds = tiny_tensor_3d(numbers(type, h * k * v), type, h, k, v);
    b.dqkg = tiny_tensor_4d(numbers(type, 3 * n * h * k), type, 3, n, h, k);
    return b;
}
static tiny_status run_back(gla *a, back *b, int last)
{
    return tiny_gla_backward(a->ctx, &a->state, &a->q, &a->k, &a->v, &b->d_o, &a->g, last ? &b->d_to : NULL, &a->p,
                             &b->dqkg, &b->dv, &b->ds);
}

/* numpy's figures; the identity of the paper, dg_t = sum_{r >= t} (q dq - k dk) + sum of the row of S_T dS_T;
 * differences of the loss of fourth order */
static void test_proof_4_gradient(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    gla a = make(ctx, TINY_F64, T, 1, K, V, TINY_GLA_AUTO);
    back b = make_back(&a);
    tiny_tensor *x[5];
    tiny_idx t, d, j;
    int i, s;
    sines(&a, 0.6);
    for (t = 0; t < T; t++) for (j = 0; j < V; j++) put(&b.d_o, t * V + j, cos(0.7 * (double)t + 0.3 * (double)j));
    T_OK(run_back(&a, &b, 0));
    T_CLOSE(get(&b.dqkg, 9 * K + 2), -0.3726417471947788, 1e-14);
    T_CLOSE(get(&b.dqkg, (T + 9) * K + 2), -0.26902622262282316, 1e-14);
    T_CLOSE(get(&b.dqkg, (2 * T + 9) * K + 2), 0.19980877323211896, 1e-14);
    T_CLOSE(get(&b.dqkg, (2 * T + 36) * K + 7), -0.0008631748648556706, 1e-14);
    T_CLOSE(get(&b.dv, 9 * V + 2), 0.8827772879420809, 1e-14);
    T_CLOSE(get(&b.dv, 5), -0.7646659245446554, 1e-14);
    for (i = 0; i < K * V; i++) {
        put(&a.state, i, (double)t_rand_float(-1, 1));
        put(&b.d_to, i, (double)t_rand_float(-1, 1));
    }
    T_OK(run(&a));
    T_OK(run_back(&a, &b, 1));
    for (d = 0; d < K; d++) {
        double sum = 0;
        for (j = 0; j < V; j++) sum += get(&a.to, d * V + j) * get(&b.d_to, d * V + j);
        for (t = T; t-- > 0;) {
            sum +=
                get(&a.q, t * K + d) * get(&b.dqkg, t * K + d) - get(&a.k, t * K + d) * get(&b.dqkg, (T + t) * K + d);
            T_CLOSE(get(&b.dqkg, (2 * T + t) * K + d), sum, 1e-13);
        }
    }
    x[0] = &a.state; x[1] = &a.q; x[2] = &a.k; x[3] = &a.v; x[4] = &a.g;
    for (i = 0; i < 5; i++) {
        const tiny_idx n = tiny_tensor_count(x[i]);
        double *way = (double *)t_keep((size_t)n * 8), *was = (double *)t_keep((size_t)n * 8), loss[4], want = 0, got;
        static const double step[4] = { 2e-3, 1e-3, -1e-3, -2e-3 };
        for (j = 0; j < n; j++) {
            way[j] = (double)t_rand_float(-1, 1) * (i == 4 ? 0.5 * -get(x[i], j) : 1.0);     /* gates stay gates */
            was[j] = get(x[i], j);
            want += way[j] * (i == 0   ? get(&b.ds, j)
                              : i == 3 ? get(&b.dv, j)
                                       : get(&b.dqkg, j + (i == 1   ? 0
                                                           : i == 2 ? 1
                                                                    : 2) *
                                                              T * K));
        }
        for (s = 0; s < 4; s++) {
            for (j = 0; j < n; j++) put(x[i], j, was[j] + step[s] * way[j]);
            T_OK(run(&a));
            loss[s] = 0;
            for (j = 0; j < T * V; j++) loss[s] += get(&a.o, j) * get(&b.d_o, j);
            for (j = 0; j < K * V; j++) loss[s] += get(&a.to, j) * get(&b.d_to, j);
        }
        for (j = 0; j < n; j++) put(x[i], j, was[j]);
        got = (8 * (loss[1] - loss[2]) - (loss[0] - loss[3])) / 12e-3;
        T_CLOSE(got, want, 4e-10 * (1 + fabs(want)));
    }
    t_close(ctx);
    T_PROOF("attention 4", "gradients match differences to 4e-10");
}

/* every target against the reference in double, gates of all strengths, blocks of states of all sizes; a small dg
 * alone, not among large ones */
static void test_gradient_targets(tiny_target target)
{
    static const tiny_idx length[] = { 1, 16, 40, 270, 1100 };
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    size_t i;
    for (i = 0; i < T_COUNT(length); i++) {
        const tiny_idx n = length[i];
        gla a = make(ctx, TINY_F32, n, 2, n > 300 ? 3 : 19, n > 300 ? 5 : 37, TINY_GLA_AUTO), b;
        back x = make_back(&a), y;
        tiny_idx j, count;
        double most;
        fill(&a, i % 2 ? 12.0 : 0.2);
        b = same_in(plain, &a, TINY_F64, TINY_GLA_AUTO);
        y = make_back(&b);
        for (j = 0; j < tiny_tensor_count(&x.d_o); j++) {
            put(&x.d_o, j, (double)t_rand_float(-1, 1));
            put(&y.d_o, j, get(&x.d_o, j));
        }
        for (j = 0; j < tiny_tensor_count(&x.d_to); j++) {
            put(&x.d_to, j, (double)t_rand_float(-1, 1));
            put(&y.d_to, j, get(&x.d_to, j));
        }
        T_OK(run_back(&a, &x, 1));
        T_RAN_ON(ctx, t_vectors(target));
        T_OK(run_back(&b, &y, 1));
        about(&x.dqkg, &y.dqkg, 40 * 6e-8);
        about(&x.dv, &y.dv, 40 * 6e-8);
        about(&x.ds, &y.ds, 40 * 6e-8);
        count = tiny_tensor_count(&a.q);
        most = largest(&y.dqkg);
        for (j = 0; j < count; j++) {       /* dg is e^g times a sum: as exact as that factor is small */
            const double left = exp(get(&a.g, j));
            if (!T_CLOSE(get(&x.dqkg, 2 * count + j), get(&y.dqkg, 2 * count + j), left * 3e-5 * (1 + most))) break;
        }
    }
    t_close(plain);
    t_close(ctx);
    T_PROOF("attention 4", "gradients match differences to 4e-10");
}

static void test_proof_4_bad_input(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    gla a = make(ctx, TINY_F32, 70, 2, 5, 6, TINY_GLA_AUTO), b;
    back x = make_back(&a);
    tiny_tensor wrong;
    static const double little[3] = { 1e-6, 1e-9, 2e-38 };
    int i;
    fill(&a, 0.5);
    fill(&a, 0.5);
    memset(x.d_o.data, 0, (size_t)tiny_tensor_count(&x.d_o) * 4);
    put(&a.g, 3 * 10 + 5 + 2, 0.25);
    T_STATUS(run(&a), TINY_E_ARGUMENT,
             "gla: the gate of token 3, head 1, channel 2 is 0.25; gates are logarithms, at most 0 (params.clamp "
             "treats larger ones as 0)");
    T_STATUS(run_back(&a, &x, 0), TINY_E_ARGUMENT, "gla_backward: the gate of token 3, head 1, channel 2 is 0.25");
    for (i = 0; i < 3; i++)                 /* however little above 0, in every form */
        for (a.p.form = 0; a.p.form <= TINY_GLA_PARALLEL; a.p.form++) {
            put(&a.g, 3 * 10 + 5 + 2, little[i]);
            T_STATUS(run(&a), TINY_E_ARGUMENT, "the gate of token 3, head 1, channel 2 is");
        }
    a.p.form = 0;
    put(&a.g, 3 * 10 + 5 + 2, -0.0);
    T_OK(run(&a));
    put(&a.g, 3 * 10 + 5 + 2, 0.25);
    b = same_in(ctx, &a, TINY_F32, TINY_GLA_AUTO);
    put(&b.g, 3 * 10 + 5 + 2, 0);
    a.p.clamp = 1;
    T_OK(run(&a));
    T_OK(run(&b));
    T_SAME((float *)a.o.data, (float *)b.o.data, tiny_tensor_count(&a.o));
    T_OK(run_back(&a, &x, 0));
    T_TRUE(get(&x.dqkg, 2 * 700 + 3 * 10 + 5 + 2) == 0);
    put(&a.g, 9, (double)NAN);
    T_STATUS(run(&a), TINY_E_ARGUMENT, "the gate of token 0, head 1, channel 4 is not a number");
    put(&a.g, 9, -1);
    a.p.chunk = 30;
    a.p.sub = 16;
    T_STATUS(run(&a), TINY_E_ARGUMENT, "chunks of 30 cannot be divided into parts of 16");
    a.p.chunk = 257;
    T_STATUS(run(&a), TINY_E_ARGUMENT, "chunks of 257 in parts of 16; they must be 1 to 256");
    a.p.chunk = a.p.sub = 0;
    a.p.form = 4;
    T_STATUS(run(&a), TINY_E_ARGUMENT, "form 4 is unknown; it must be 0 to 3");
    a.p.form = 0;
    a.p.scale = NAN;
    T_STATUS(run(&a), TINY_E_ARGUMENT, "must be finite");
    a.p.scale = 0;
    T_STATUS(tiny_gla(ctx, NULL, &a.q, &a.k, &a.v, &a.g, &a.p, &a.to, &a.o), TINY_E_ARGUMENT,
             "gla: input 0 is missing");
    T_STATUS(tiny_gla(ctx, &a.state, &a.q, &a.k, &a.v, &a.g, &a.p, &a.to, NULL), TINY_E_ARGUMENT,
             "gla: output 1 is missing");
    wrong = a.k;
    wrong.dim[2] = 4;
    T_STATUS(tiny_gla(ctx, &a.state, &a.q, &wrong, &a.v, &a.g, &a.p, &a.to, &a.o), TINY_E_SHAPE,
             "state is 2x5x6 f32, q is 70x2x5 f32, k is 70x2x4 f32, v is 70x2x6 f32");
    T_STATUS(tiny_gla(ctx, &a.state, &a.q, &a.k, &a.v, &wrong, &a.p, &a.to, &a.o), TINY_E_SHAPE,
             "the gates are 70x2x4 f32, they must have the shape of q: 70x2x5 f32");
    wrong = a.state;
    wrong.dim[0] = 1;
    T_STATUS(tiny_gla(ctx, &wrong, &a.q, &a.k, &a.v, &a.g, &a.p, &wrong, &a.o), TINY_E_SHAPE,
             "they must be (H, K, V), (T, H, K), (T, H, K) and (T, H, V)");
    T_STATUS(tiny_gla_backward(ctx, &a.state, &a.q, &a.k, &a.v, &a.q, &a.g, NULL, &a.p, &x.dqkg, &x.dv, &x.ds),
             TINY_E_SHAPE, "d_o is 70x2x5 f32, it must have the shape of v: 70x2x6 f32");
    T_STATUS(tiny_gla(ctx, &a.state, &a.q, &a.k, &a.v, &a.g, &a.p, &a.to, &a.v), TINY_E_ALIAS, "overlaps");
    b = make(ctx, TINY_F32, 300, 1, 1, 1, TINY_GLA_PARALLEL);
    fill(&b, 0.0);
    T_STATUS(run(&b), TINY_E_UNSUPPORTED, "300 tokens in the parallel form; 256 at most");
    wrong = tiny_tensor_3d(a.q.data, TINY_F32, 1, 1, 1025);
    b.state = tiny_tensor_3d(a.q.data, TINY_F32, 1, 1025, 0);
    b.v = tiny_tensor_3d(a.q.data, TINY_F32, 1, 1, 0);
    T_STATUS(tiny_gla(ctx, &b.state, &wrong, &wrong, &b.v, NULL, NULL, &b.state, &b.v), TINY_E_UNSUPPORTED,
             "keys of 1025 numbers; 1024 at most");
    /* no tokens: the state stays as it is */
    a.q.dim[0] = a.k.dim[0] = a.v.dim[0] = a.g.dim[0] = a.o.dim[0] = 0;
    T_OK(run(&a));
    T_SAME((float *)a.to.data, (float *)a.state.data, 60);
    t_close(ctx);
    T_PROOF("attention 4", "bad input: g > 0, NaN gate, T = 0, C no multiple of c, state null");
}

static void test_out_of_memory(void)
{
    T_EACH_ALLOCATION(
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 2);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&d, &ctx)) {
            gla a = make(ctx, TINY_F32, 80, 2, 40, 48, TINY_GLA_CHUNKED);
            back x = make_back(&a);
            fill(&a, 0.1);
            memset(x.d_o.data, 0, (size_t)tiny_tensor_count(&x.d_o) * 4);
            if (run(&a)) T_TRUE(tiny_ctx_message(ctx)[0] != 0);
            if (run_back(&a, &x, 0)) T_TRUE(tiny_ctx_message(ctx)[0] != 0);
            tiny_ctx_close(ctx);
        }
    )
}

int main(void)
{
    T_RUN_FORMS(test_proof_4_worked);
    T_RUN_FORMS(test_proof_4_forms_agree);
    T_RUN_FORMS(test_proof_4_strong_gates);
    T_RUN_FORMS(test_proof_4_no_gate_is_a_sum);
    T_RUN_FORMS(test_proof_4_reset);
    T_RUN_FORMS(test_proof_4_cuts);
    T_RUN_FORMS(test_proof_4_lengths_and_chunks);
    T_RUN_FORMS(test_proof_4_causal);
    T_RUN_FORMS(test_shared);
    T_RUN_FORMS(test_proof_4_gradient);
    T_RUN_FORMS(test_gradient_targets);
    T_RUN_FORMS(test_proof_4_bad_input);
    T_RUN(test_out_of_memory);
    return t_done();
}
