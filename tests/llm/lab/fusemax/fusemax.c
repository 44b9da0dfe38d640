/* tests/llm/lab/fusemax/fusemax.c - the four attention cascades, their counts, the mapping model; the language:
 * tests/llm/plan/cascade.c
 *
 * Truth    the passes, levels, counts and cycles worked out by hand; attention by its formula in double,
 *          written here; and three ways to a count that must agree: from the description, by running the description,
 *          by running the kernels. */
#include "t.h"
#include <math.h>

/* ---- the four cascades */

typedef struct made { tiny_tensor q, k, v, o; float *out, *want, *ref; tllm_fusemax_shape s; tiny_idx kv; } made;

static void make(made *d, tiny_idx p, tiny_idx m, tiny_idx heads, tiny_idx kv, tiny_idx e, tiny_idx f)
{
    float *q = t_rand((size_t)(p * heads * e), -1.7f, 1.7f), *k = t_rand((size_t)(m * kv * e), -1.7f, 1.7f),
          *v = t_rand((size_t)(m * kv * f), -1.7f, 1.7f);
    double *s = (double *)t_keep((size_t)m * sizeof *s);
    tiny_idx h, i, j, c;
    d->s.e = e; d->s.f = f; d->s.m = m; d->s.p = p; d->s.heads = heads;
    d->kv = kv;
    d->out = t_guarded((size_t)(p * heads * f));
    d->ref = t_guarded((size_t)(p * heads * f));
    d->want = t_guarded((size_t)(p * heads * f));
    d->q = tiny_tensor_3d(q, TINY_F32, p, heads, e);
    d->k = tiny_tensor_3d(k, TINY_F32, m, kv, e);
    d->v = tiny_tensor_3d(v, TINY_F32, m, kv, f);
    d->o = tiny_tensor_3d(d->out, TINY_F32, p, heads, f);
    for (i = 0; i < p; i++)
        for (h = 0; h < heads; h++) {
            double sum = 0;
            for (c = 0; c < m; c++) {
                s[c] = 0;
                for (j = 0; j < e; j++)
                    s[c] += (double)q[(i * heads + h) * e + j] * (double)k[(c * kv + h / (heads / kv)) * e + j];
                s[c] = exp(s[c] / sqrt((double)e));
                sum += s[c];
            }
            for (j = 0; j < f; j++) {
                double y = 0;
                for (c = 0; c < m; c++) y += s[c] * (double)v[(c * kv + h / (heads / kv)) * f + j];
                d->want[(i * heads + h) * f + j] = (float)(y / sum);
            }
        }
}

static void same_ops(const tllm_cascade_ops *a, const tllm_cascade_ops *b)
{
    T_CLOSE(a->exps, b->exps, 0);
    T_CLOSE(a->multiplies, b->multiplies, 0);
    T_CLOSE(a->divides, b->divides, 0);
    T_CLOSE(a->adds, b->adds, 0);
    T_CLOSE(a->maxima, b->maxima, 0);
    T_CLOSE(a->rescales, b->rescales, 0);
}

/* agreement with double, and counts that are exact, over tiles and buffers, the last chunk short */
static void test_cascades(tiny_target target)
{
    static const tiny_idx shape[][6] = { { 1, 1, 1, 1, 1, 1 },       { 5, 7, 1, 1, 3, 2 },
                                         { 33, 70, 2, 1, 64, 33 },   { 40, 130, 4, 2, 17, 64 },
                                         { 6, 257, 3, 3, 128, 128 }, { 40, 600, 2, 1, 8, 4 } };
    static const tiny_idx tile[][2] = { { 0, 0 }, { 4, 16 }, { 7, 33 }, { 32, 64 }, { 64, 1000 } };
    static const size_t buffer[] = { 0, (size_t)1 << 20, (size_t)1 << 30 };
    tiny_ctx *ctx = t_ctx(target, 2), *ref = t_ctx(TINY_TARGET_REFERENCE, 1);
    size_t s, t, i, n;
    int which;
    for (s = 0; s < T_COUNT(shape); s++) {
        made d;
        make(&d, shape[s][0], shape[s][1], shape[s][2], shape[s][3], shape[s][4], shape[s][5]);
        n = (size_t)(d.s.p * d.s.heads * d.s.f);
        for (which = 0; which < TLLM_FUSEMAX_CASCADES; which++)
            for (t = 0; t < T_COUNT(tile); t++) {
                tllm_fusemax_desc how = { 0, 0, 0, 0.0f, 0 };
                tllm_fusemax_counts got, want;
                how.cascade = which;
                how.p0 = tile[t][0];
                how.m0 = tile[t][1];
                how.buffer_bytes = t ? buffer[1 + t % 2] : 0;
                if (t == 1) how.buffer_bytes = (size_t)160 << 10;
                /* the stored scores do not fit, nor do all keys; the values do */
                if (s == 5 && t < 4) how.buffer_bytes = (size_t)(t ? 16 : 8) << 10;
                t_use(ctx);
                T_OK(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, &got));
                T_RAN_ON(ctx, t_vectors(target));
                for (i = 0; i < n; i++) T_CLOSE(d.out[i], d.want[i], 2e-5 * 1.7);
                T_WALLS(d.out, n);
                T_OK(tllm_fusemax_predict(ctx, &how, &d.s, d.kv, &want));
                same_ops(&got.ops, &want.ops);
                T_CLOSE(got.read_q, want.read_q, 0);
                T_CLOSE(got.read_k, want.read_k, 0);
                T_CLOSE(got.read_v, want.read_v, 0);
                T_CLOSE(got.read_kept, want.read_kept, 0);
                T_CLOSE(got.written_kept, want.written_kept, 0);
                T_CLOSE(got.written_o, want.written_o, 0);
                T_EQ_INT(got.live_bytes, want.live_bytes);
                if (s == 5 && t == 3)
                    T_TRUE((got.written_kept > 0) == (which != TLLM_FUSEMAX_1_PASS) && got.read_k > got.read_v * 2);
                if (t > 2 || s > 3) continue;                               /* the text itself, slowly */
                d.o.data = d.ref;
                t_use(ref);
                T_OK(tllm_fusemax(ref, &how, &d.q, &d.k, &d.v, &d.o, &got));
                T_RAN_ON(ref, TINY_TARGET_REFERENCE);
                for (i = 0; i < n; i++) T_CLOSE(d.ref[i], d.want[i], 3e-7 * 1.7);
                d.o.data = d.out;
                if (t) same_ops(&got.ops, &want.ops);
            }
        t_use(ctx);
        T_OK(tllm_fusemax(ctx, NULL, &d.q, &d.k, &d.v, &d.o, NULL));        /* the public call: tiny_attention */
        T_RAN_ON(ctx, t_vectors(target));
        for (i = 0; i < n; i++) T_CLOSE(d.out[i], d.want[i], 2e-5 * 1.7);
    }
    t_close(ref);
    t_close(ctx);
    T_PROOF("attention 2", "counters of the executor equal the analytic counts");
    T_PROOF("attention 2", "all cascades agree with double to 2e-5");
}

/* scores far apart and far from 0: only the maximum keeps exp in its range */
static void test_large_scores(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float q[2] = { 100, -100 }, k[6] = { 1, 3, -3, 2, 3, 2 }, v[6] = { 1, 2, 3, 4, 5, 6 }, o[2];
    tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, 2, 1, 1), tk = tiny_tensor_3d(k, TINY_F32, 6, 1, 1),
                tv = tiny_tensor_3d(v, TINY_F32, 6, 1, 1), to = tiny_tensor_3d(o, TINY_F32, 2, 1, 1);
    tllm_fusemax_desc how = { 0, 0, 2, 1.0f, 0 };
    for (how.cascade = 0; how.cascade < TLLM_FUSEMAX_CASCADES; how.cascade++) {
        T_OK(tllm_fusemax(ctx, &how, &tq, &tk, &tv, &to, NULL));
        T_CLOSE(o[0], 3.5, 1e-6);               /* keys 1 and 4 share the maximum */
        T_CLOSE(o[1], 3, 1e-6);
    }
    t_close(ctx);
}

static void test_counts_of_the_paper(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_fusemax_shape s = { 64, 64, 1024, 1024, 1 };
    tllm_fusemax_desc how = { 0, 0, 256, 0.0f, 0 };
    tllm_fusemax_counts n, more;
    how.buffer_bytes = (size_t)256 << 10;
    T_OK(tllm_fusemax_predict(ctx, &how, &s, 1, &n));
    T_TRUE(n.ops.exps == 1052672 && n.ops.divides == 65536 && n.ops.rescales == 266240);
    T_TRUE(n.read_kept == 0 && n.written_kept == 0);
    s.m = 65536;
    T_OK(tllm_fusemax_predict(ctx, &how, &s, 1, &more));
    T_EQ_INT(more.live_bytes, n.live_bytes);        /* one pass: not a byte more for 64 times the keys */
    for (how.cascade = TLLM_FUSEMAX_2_PASS; how.cascade < TLLM_FUSEMAX_CASCADES; how.cascade++) {
        s.m = 1024;
        how.m0 = 128;
        how.p0 = 64;
        T_OK(tllm_fusemax_predict(ctx, &how, &s, 1, &n));
        T_CLOSE(n.ops.divides,
                how.cascade == TLLM_FUSEMAX_3_PASS   ? 1048576
                : how.cascade == TLLM_FUSEMAX_2_PASS ? 8 * 1024
                                                     : 65536,
                0);
        T_CLOSE(n.written_kept, 0, 0);              /* 64 x 1024 floats are the buffer */
        s.m = 2048;
        T_OK(tllm_fusemax_predict(ctx, &how, &s, 1, &more));
        T_TRUE(more.live_bytes >= n.live_bytes + 64 * 1024 * 4);
        T_CLOSE(more.written_kept, (how.cascade == TLLM_FUSEMAX_3_PASS ? 2.0 : 1.0) * 1024 * 2048, 0);
        T_CLOSE(more.read_kept, more.written_kept, 0);
        T_CLOSE(more.read_k, 16.0 * 2048 * 64, 0);  /* 512 KB of keys, once for each of 16 tiles of queries */
    }
    t_close(ctx);
    T_PROOF("attention 2", "1-pass live bytes do not depend on M");
}

static void test_mapping_model(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    static const struct {
        tiny_idx n;
        double cycles, use;
    } worked[] = { { 1024, 2464, 0.890 }, { 4096, 36352, 0.965 }, { 16384, 569344, 0.986 } };
    tllm_fusemax_shape s = { 64, 64, 0, 0, 1 };
    tllm_machine cpu;
    tllm_fusemax_plan p;
    int i;
    for (i = 0; i < 3; i++) {
        s.m = s.p = worked[i].n;
        memset(&p, 0, sizeof p);
        T_OK(tllm_fusemax_model(ctx, NULL, &s, &p));
        T_CLOSE(p.cycles, worked[i].cycles, 0);
        T_CLOSE(p.use_2d, worked[i].use, 5e-4);
        T_EQ_INT(p.m0, 256);
        T_EQ_INT(p.p0, worked[i].n);                /* all queries fit: 16384 x 130 x 2 bytes */
    }
    memset(&cpu, 0, sizeof cpu);
    cpu.buffer_bytes = 1 << 20;                     /* P1 x 256 x 260 <= 2^20 - 65536: 14, and of 64 the factor 8 */
    memset(&p, 0, sizeof p);
    T_OK(tllm_fusemax_model(ctx, &cpu, &s, &p));
    T_EQ_INT(p.p0, 8 * 256);
    cpu.bytes_per_s = 1e9;
    T_OK(tllm_fusemax_model(ctx, &cpu, &s, &p));
    T_CLOSE(p.bytes, 2.0 * (2 * 16384 * 64 + 8.0 * 2 * 16384 * 64), 0);
    T_CLOSE(p.seconds, p.bytes / 1e9, 1e-12);
    cpu.buffer_bytes = 100000;
    p.p0 = 0;
    T_STATUS(tllm_fusemax_model(ctx, &cpu, &s, &p), TINY_E_WORKSPACE, "is too small for a tile of 256 queries");
    cpu = tllm_machine_of(ctx, 0, 20e9);
    T_OK(tllm_fusemax_best(ctx, &cpu, &s, &p));
    for (i = 0; i < TLLM_FUSEMAX_CASCADES; i++) {   /* none is faster than the best */
        tllm_fusemax_plan other;
        memset(&other, 0, sizeof other);
        other.cascade = i;
        other.p0 = other.m0 = 64;
        T_OK(tllm_fusemax_model(ctx, &cpu, &s, &other));
        T_TRUE(other.seconds >= p.seconds);
    }
    cpu.bytes_per_s = 1e8;                          /* with slow memory the form that keeps data in the buffer wins */
    T_OK(tllm_fusemax_best(ctx, &cpu, &s, &p));
    T_EQ_INT(p.cascade, TLLM_FUSEMAX_1_PASS);
    t_close(ctx);
    T_PROOF("attention 2", "model: cycles and 2-D use at 1024, 4096, 16384");
}

static void test_bad_input(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    made d;
    tiny_tensor t;
    tllm_fusemax_desc how = { 0, 0, 0, 0.0f, 0 };
    tllm_fusemax_counts n;
    tllm_fusemax_shape s = { 64, 64, 0, 5, 1 };
    tllm_machine m;
    tllm_fusemax_plan p;
    make(&d, 3, 8, 2, 1, 4, 4);
    T_STATUS(tllm_fusemax(ctx, NULL, &d.q, NULL, &d.v, &d.o, NULL), TINY_E_ARGUMENT, "k is missing");
    t = d.k; t.dtype = TINY_F16;
    T_STATUS(tllm_fusemax(ctx, NULL, &d.q, &t, &d.v, &d.o, NULL), TINY_E_DTYPE, "k is f16");
    t = d.k; t.stride[2] = 2; t.dim[2] = 2;
    T_STATUS(tllm_fusemax(ctx, NULL, &d.q, &t, &d.v, &d.o, NULL), TINY_E_SHAPE, "contiguous");
    t = d.k; t.dim[0] = 7;
    T_STATUS(tllm_fusemax(ctx, NULL, &d.q, &t, &d.v, &d.o, NULL), TINY_E_SHAPE, "(queries, heads, e)");
    t = d.k; t.dim[0] = 0;
    {
        tiny_tensor v = d.v;
        v.dim[0] = 0;
        T_STATUS(tllm_fusemax(ctx, NULL, &d.q, &t, &v, &d.o, NULL), TINY_E_SHAPE, "must be at least 1");
    }
    T_STATUS(tllm_fusemax(ctx, NULL, &d.q, &d.k, &d.v, &d.q, NULL), TINY_E_ALIAS, "o overlaps q");
    how.cascade = 4;
    T_STATUS(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, NULL), TINY_E_ARGUMENT, "no cascade 4");
    how.cascade = 1;
    how.p0 = -1;
    T_STATUS(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, NULL), TINY_E_ARGUMENT, "a tile of -1 queries");
    how.p0 = how.m0 = 2;
    how.buffer_bytes = 64;
    T_STATUS(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, NULL), TINY_E_WORKSPACE, "the buffer has 64");
    how.p0 = how.m0 = 0;
    T_STATUS(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, NULL), TINY_E_WORKSPACE, "a tile of 1 queries and 1 keys");
    how.buffer_bytes = 0;
    how.scale = NAN;
    T_STATUS(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, NULL), TINY_E_ARGUMENT, "must be finite");
    T_STATUS(tllm_fusemax_predict(ctx, NULL, &s, 1, &n), TINY_E_SHAPE, "0 keys");
    s.m = TINY_IDX_MAX;
    T_STATUS(tllm_fusemax_predict(ctx, NULL, &s, 1, &n), TINY_E_OVERFLOW, "no size may be larger");
    s.m = 8;
    s.heads = 3;
    T_STATUS(tllm_fusemax_predict(ctx, NULL, &s, 2, &n), TINY_E_SHAPE, "not a multiple of 2");
    memset(&m, 0, sizeof m);
    m.hertz = -1;
    p.cascade = 0;
    T_STATUS(tllm_fusemax_model(ctx, &m, &s, &p), TINY_E_ARGUMENT, "above 0");
    T_TRUE(!tllm_fusemax_text(-1) && !tllm_fusemax_name(4));
    t_close(ctx);
    T_PROOF("attention 2", "bad input: buffer too small for one tile");
}

static void test_memory(void)
{
    static float x[64];
    int which;
    for (which = 0; which < 2; which++)
        T_EACH_ALLOCATION(
            tiny_ctx_desc desc = t_desc(which ? TINY_TARGET_REFERENCE : TINY_TARGET_AUTO, 1);
            tiny_ctx *ctx = NULL;
            if (!tiny_ctx_open(&desc, &ctx)) {
                float o[8];
                tiny_tensor q = tiny_tensor_3d(x, TINY_F32, 2, 1, 4);
                tiny_tensor k = tiny_tensor_3d(x + 8, TINY_F32, 5, 1, 4);
                tiny_tensor to = tiny_tensor_3d(o, TINY_F32, 2, 1, 4);
                tllm_fusemax_desc how = { TLLM_FUSEMAX_2_PASS, 0, 2, 0.0f, 0 };
                tllm_fusemax_counts n;
                tiny_status st = tllm_fusemax(ctx, &how, &q, &k, &k, &to, &n);
                T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
                tiny_ctx_close(ctx);
            }
        )
}

int main(void)
{
    T_RUN_FORMS(test_counts_of_the_paper);
    T_RUN_FORMS(test_mapping_model);
    T_RUN_FORMS(test_bad_input);
    T_RUN(test_memory);
    T_RUN_TARGETS(test_cascades);
    T_RUN_FORMS(test_large_scores);
    return t_done();
}
