/* bench/llm/gla.c - gated linear attention: chunks against token by token, and both against attention with softmax
 *
 * GLA (arXiv 2312.06635) reports a layer faster than FlashAttention-2 from texts of one to four thousand tokens on.
 * Here: 4 heads with keys of 64 and values of 128 numbers, attention of equal width by tiles, causal, as the other way;
 * and the heads of the paper's model of 1.3 billion weights, 256 and 512, whose states no second-level cache holds. And
 * one more token of a text, with the state and with a cache of keys. */
#include "../bench.h"
#include <string.h>

enum { HEADS = 4, LONGEST = 16384 };

typedef struct bg_arg { tiny_ctx *ctx; tiny_tensor state, q, k, v, g, o, dqkg, dv, ds; tiny_gla_params p; } bg_arg;

static void bg_run(void *arg)
{
    bg_arg *a = (bg_arg *)arg;
    b_must(a->ctx, tiny_gla(a->ctx, &a->state, &a->q, &a->k, &a->v, &a->g, &a->p, &a->state, &a->o));
}
static void bg_back(void *arg)
{
    bg_arg *a = (bg_arg *)arg;
    b_must(a->ctx, tiny_gla_backward(a->ctx, &a->state, &a->q, &a->k, &a->v, &a->o, &a->g, NULL, NULL, &a->dqkg, &a->dv,
                                     &a->ds));
}
static void bg_attention(void *arg)
{
    static const tiny_attention_params causal = { 0.0f, 0.0f, 1, 0.0f, 0.0f };
    bg_arg *a = (bg_arg *)arg;
    b_must(a->ctx, tiny_attention(a->ctx, &a->q, &a->k, &a->v, NULL, &causal, &a->o));
}

/* n tokens on the memory of m; the state begins at zero, and its gates bound it */
static void bg_sizes(bg_arg *a, const bg_arg *m, tiny_idx n_query, tiny_idx n)
{
    *a = *m;
    a->q.dim[0] = a->g.dim[0] = a->o.dim[0] = n_query;
    a->k.dim[0] = a->v.dim[0] = n;
}
static void bg_open(bg_arg *a, tiny_ctx *ctx, tiny_idx n, tiny_idx key, tiny_idx value, int back)
{
    float *g;
    tiny_idx i;
    memset(a, 0, sizeof *a);
    a->ctx = ctx;
    a->state = tiny_tensor_3d(b_alloc((size_t)(HEADS * key * value) * sizeof(float)), TINY_F32, HEADS, key, value);
    a->q = tiny_tensor_3d(b_alloc((size_t)(n * HEADS * key) * sizeof(float)), TINY_F32, n, HEADS, key);
    a->k = tiny_tensor_3d(b_alloc((size_t)(n * HEADS * key) * sizeof(float)), TINY_F32, n, HEADS, key);
    a->g = tiny_tensor_3d(b_alloc((size_t)(n * HEADS * key) * sizeof(float)), TINY_F32, n, HEADS, key);
    a->v = tiny_tensor_3d(b_alloc((size_t)(n * HEADS * value) * sizeof(float)), TINY_F32, n, HEADS, value);
    a->o = tiny_tensor_3d(b_alloc((size_t)(n * HEADS * value) * sizeof(float)), TINY_F32, n, HEADS, value);
    memset(a->state.data, 0, (size_t)(HEADS * key * value) * sizeof(float));
    g = (float *)a->g.data;
    /* logsigmoid(x) / 16 */
    for (i = 0; i < n * HEADS * key; i++) g[i] = -0.001f - 0.08f * (float)(i * 40503 % 1024) / 1024.0f;
    if (!back) return;
    a->dqkg = tiny_tensor_4d(b_alloc((size_t)(3 * n * HEADS * key) * sizeof(float)), TINY_F32, 3, n, HEADS, key);
    a->dv = tiny_tensor_3d(b_alloc((size_t)(n * HEADS * value) * sizeof(float)), TINY_F32, n, HEADS, value);
    a->ds = tiny_tensor_3d(b_alloc((size_t)(HEADS * key * value) * sizeof(float)), TINY_F32, HEADS, key, value);
}
static void bg_close(bg_arg *a)
{
    b_free(a->state.data);
    b_free(a->q.data);
    b_free(a->k.data);
    b_free(a->v.data);
    b_free(a->g.data);
    b_free(a->o.data);
    b_free(a->dqkg.data); b_free(a->dv.data); b_free(a->ds.data);
}

static void bg_row(b_row *r, bg_arg *a, const char *what, void (*run)(void *), const char *target, double flops,
                   double bytes)
{
    memset(r, 0, sizeof *r);
    r->what = what;
    r->run = run;
    r->arg = a;
    r->target = target;
    r->threads = b_threads;
    r->flops = flops;
    r->bytes = bytes;
}

void bench_gla(void)
{
    static const tiny_idx length[] = { 512, 1024, 2048, 4096, LONGEST };
    static const double x[] = { 512, 1024, 2048, 4096, LONGEST };
    double us[3][5], over[5], step[2], steps[5];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const char *target = tiny_target_name(tiny_op_target(ctx, TINY_OP_GLA));
    const tiny_idx key = 64, value = 128;
    const int n_length = b_quick ? 4 : 5;
    bg_arg most, a[4];
    b_row r[4];
    b_curve curve[3];
    int i, j;
    bg_open(&most, ctx, LONGEST, key, value, 0);
    for (i = 0; i < n_length; i++) {
        const double n = (double)length[i], each = n * HEADS, state = (double)(HEADS * key * value);
        for (j = 0; j < 3; j++) bg_sizes(&a[j], &most, length[i], length[i]);
        a[0].p.form = TINY_GLA_CHUNKED;
        a[1].p.form = TINY_GLA_RECURRENT;
        bg_row(&r[0], &a[0], "in chunks of 64", bg_run, target, each * (4.0 * 64 * 128 + 80.0 * 192),
               4.0 * (each * (3 * 64 + 2 * 128) + 2 * state));
        bg_row(&r[1], &a[1], "token by token", bg_run, target, each * 6.0 * 64 * 128,
               4.0 * (each * (3 * 64 + 2 * 128) + 2 * state));
        bg_row(&r[2], &a[2], "attention by tiles", bg_attention, target, each * n * 192,
               4.0 * each * (2 * 64 + 2 * 128));
        r[0].limit = r[1].limit = r[2].limit = B_F32;
        for (j = 0; j < 3; j++) b_shape(&r[j], "t%td h%d k64 v128", length[i], (int)HEADS);
        b_contest("Gated linear attention", r, 3);
        for (j = 0; j < 3; j++) us[j][i] = r[j].median_ns / n * 1e-3;
        over[i] = r[2].median_ns / r[0].median_ns;
        steps[i] = r[1].median_ns / r[0].median_ns;
        if (length[i] == 4096)
            b_verdict("T=4096, heads of 64 x 128: token by token / chunks", r[1].median_ns / r[0].median_ns, ">", 2.0);
        if (length[i] == LONGEST)
            b_verdict("T=16384: attention by tiles / chunks", r[2].median_ns / r[0].median_ns, ">", 5.0);
    }
    for (j = 0; j < 3; j++) {
        curve[j].name = r[j].what;
        curve[j].x = x;
        curve[j].y = us[j];
        curve[j].n = n_length;
    }
    b_svg("gla", "Gated linear attention, 4 heads of 64 and 128 numbers", "tokens", "us a token", curve, 3);
    /* one more token: a state, or the keys and values of all tokens before */
    for (j = 0; j < 4; j++) bg_sizes(&a[j], &most, 1, j == 0 ? 1 : length[j]);
    a[3].k.dim[0] = a[3].v.dim[0] = LONGEST;
    bg_row(&r[0], &a[0], "a step with a state", bg_run, target, HEADS * 6.0 * 64 * 128, 8.0 * HEADS * 64 * 128);
    b_shape(&r[0], "any t, 128 KB");
    for (j = 1; j < 4; j++) {
        const double n = j < 3 ? x[j] : LONGEST;
        bg_row(&r[j], &a[j], "a step with a cache", bg_attention, target, HEADS * n * 2 * 192, 4.0 * HEADS * n * 192);
        b_shape(&r[j], "t%.0f, %.0f KB", n, 4.0 * HEADS * n * 192 / 1024);
    }
    b_contest("Gated linear attention: a token more", r, 4);
    step[0] = r[0].median_ns * 1e-3;
    step[1] = r[3].median_ns * 1e-3;
    b_note("the state is 4 x 64 x 128 numbers, 128 KB, at any length; keys and values in f32 are 3 KB a token");
    bg_close(&most);
    /* heads of the paper's larger model, and the backward pass */
    bg_open(&most, ctx, 1024, 256, 512, 0);
    for (j = 0; j < 2; j++) {
        bg_sizes(&a[j], &most, 1024, 1024);
        a[j].p.form = j ? TINY_GLA_RECURRENT : TINY_GLA_CHUNKED;
        bg_row(&r[j], &a[j], j ? "token by token" : "in chunks of 64", bg_run, target,
               4096.0 * (j ? 6.0 * 256 * 512 : 4.0 * 256 * 512 + 80.0 * 768), 4.0 * 4096 * (3 * 256 + 2 * 512));
        r[j].limit = B_F32;
        b_shape(&r[j], "t1024 h%d k256 v512", (int)HEADS);
    }
    b_contest("Gated linear attention, states of 512 KB", r, 2);
    b_verdict("T=1024, heads of 256 x 512: token by token / chunks", r[1].median_ns / r[0].median_ns, ">", 2.0);
    b_headline("gla", "GLA: a layer faster than FlashAttention-2 from 1K to 4K tokens on",
               "attention by tiles of equal width / chunks; 4 heads, keys of 64, values of 128, f32",
               "%.1f times as fast at 512 tokens, %.1f at 1024, %.1f at 4096, %.1f at %d", over[0], over[1], over[3],
               over[n_length - 1], (int)length[n_length - 1]);
    b_headline("gla", "GLA: matrix products instead of outer products",
               "token by token / chunks; 4 heads, keys of 64, values of 128, f32; goal: 2 at 4096",
               "%.2f at 512 tokens, %.2f at 4096; heads of 256 x 512: %.2f at 1024", steps[0], steps[3],
               r[1].median_ns / r[0].median_ns);
    b_headline(
        "gla", "GLA: a state of constant size", "a token more; 4 heads, keys of 64, values of 128, f32",
        "128 KB at any length, a step %.1f us; attention's step with 48 MB of keys and values of 16384 tokens %.0f us",
        step[0], step[1]);
    bg_close(&most);
    bg_open(&most, ctx, 1024, 64, 128, 1);
    bg_row(&r[0], &most, "forward", bg_run, target, 4096.0 * (4.0 * 64 * 128 + 80.0 * 192), 0.0);
    bg_row(&r[1], &most, "back", bg_back, target, 4096.0 * 22.0 * 64 * 128, 0.0);
    for (j = 0; j < 2; j++) b_shape(&r[j], "t1024 h%d k64 v128", (int)HEADS);
    b_contest("Gated linear attention and its gradient", r, 2);
    bg_close(&most);
    tiny_ctx_close(ctx);
}
