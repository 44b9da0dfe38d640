/* bench/math/twist.c - suppressed trivial attention: its cost after a softmax over rows, and inside the tiles
 *
 * Scores of unit variance, t 0.1: about one weight in seven is not trivial among 2048, so that neither kind is rare.
 * Rows: S = Q K^T, softmax, O = P V for a head after the other, with our products, and the same with the row form
 * between softmax and product, the straightforward way. Tiles: tiny_attention with and without its option. */
#include "../bench.h"
#include <math.h>
#include <string.h>

typedef struct bw_arg {
    tiny_ctx *ctx;
    tiny_tensor q, k, v, o, s, y;
    tiny_attention_params p;
    tiny_twist_params w;
} bw_arg;

static void bw_tiles(void *arg)
{
    bw_arg *a = (bw_arg *)arg;
    b_must(a->ctx, tiny_attention(a->ctx, &a->q, &a->k, &a->v, NULL, &a->p, &a->o));
}
static void bw_rows(void *arg)
{
    bw_arg *a = (bw_arg *)arg;
    tiny_softmax_params p;
    tiny_idx h;
    memset(&p, 0, sizeof p);
    p.scale = 1.0f / sqrtf((float)a->q.dim[2]);
    for (h = 0; h < a->q.dim[1]; h++) {
        tiny_tensor q = b_head(&a->q, h), k = b_head(&a->k, h), v = b_head(&a->v, h), o = b_head(&a->o, h),
                    kt = tiny_tensor_swap(k, 0, 1);
        b_must(a->ctx, tiny_matmul(a->ctx, &q, &kt, NULL, TINY_ACT_NONE, &a->s));
        b_must(a->ctx, tiny_softmax(a->ctx, &a->s, &p, &a->s));
        if (a->w.s != 0.0f) b_must(a->ctx, tiny_twist(a->ctx, &a->s, NULL, &a->w, &a->s));
        b_must(a->ctx, tiny_matmul(a->ctx, &a->s, &v, NULL, TINY_ACT_NONE, &o));
    }
}
static void bw_twist(void *arg)
{
    bw_arg *a = (bw_arg *)arg;
    b_must(a->ctx, tiny_twist(a->ctx, &a->s, NULL, &a->w, &a->y));
}
static void bw_back(void *arg)
{
    bw_arg *a = (bw_arg *)arg;
    tiny_tensor ds = tiny_tensor_2d(a->o.data, TINY_F32, a->s.dim[0], 1);
    b_must(a->ctx, tiny_twist_backward(a->ctx, &a->s, &a->s, NULL, &a->w, &a->y, &ds));
}

void bench_twist(void)
{
    enum { MOST = 2048, KINDS = 6 };
    static const struct {
        tiny_idx n, heads;
        int causal;
    } shape[] = { { 65, 48, 0 }, { 197, 12, 0 }, { 2048, 8, 0 }, { 2048, 8, 1 } };
    static const char *const what[KINDS] = {
        "tiles", "tiles, suppressed", "rows", "rows, suppressed", "row form, a head", "gradient, a head"
    };
    const size_t numbers = (size_t)MOST * 8 * 64;
    float *x = (float *)b_alloc(4 * numbers * sizeof *x), *s = (float *)b_alloc(2 * sizeof *s * MOST * MOST);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    tiny_rng rng = tiny_rng_make(5, 5);
    double tiles[4] = { 0 }, by_rows[3] = { 0 };
    size_t c, i;
    int j;
    tiny_rng_fill_normal(&rng, x, 3 * numbers);
    for (c = 0; c < sizeof shape / sizeof *shape; c++) {
        const tiny_idx n = shape[c].n, h = shape[c].heads;
        const double pairs = (double)n * (double)n * (shape[c].causal ? 0.5 : 1.0);
        const int n_rows = shape[c].causal ? 2 : 5;
        bw_arg a, plain;
        b_row r[5];
        size_t big = 0;
        memset(&a, 0, sizeof a);
        memset(r, 0, sizeof r);
        a.ctx = ctx;
        a.q = tiny_tensor_3d(x, TINY_F32, n, h, 64);
        a.k = tiny_tensor_3d(x + numbers, TINY_F32, n, h, 64);
        a.v = tiny_tensor_3d(x + 2 * numbers, TINY_F32, n, h, 64);
        a.o = tiny_tensor_3d(x + 3 * numbers, TINY_F32, n, h, 64);
        a.s = tiny_tensor_2d(s, TINY_F32, n, n);
        a.y = tiny_tensor_2d(s + (size_t)MOST * MOST, TINY_F32, n, n);
        a.p.causal = shape[c].causal;
        plain = a;
        a.p.twist_t = a.w.t = 0.1f;
        a.p.twist_s = a.w.s = 0.5f;
        bw_rows(&plain);                    /* the last head's weights stay in s, for the row form */
        for (j = 0; j < n_rows; j++) {
            r[j].what = what[j];
            r[j].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_TWIST));
            r[j].threads = b_threads;
            r[j].run = j < 2 ? bw_tiles : j < 4 ? bw_rows : bw_twist;
            r[j].arg = j == 0 || j == 2 ? &plain : &a;
            r[j].flops = j < 4 ? 256.0 * (double)h * pairs : 0.0;
            r[j].bytes = j < 4 ? 0.0 : 8.0 * pairs;
            r[j].limit = j < 4 ? B_F32 : B_COPY;
            b_shape(&r[j], "%tdx%td h%td d64%s", n, n, h, shape[c].causal ? " causal" : "");
        }
        b_contest("Suppressed trivial attention", r, n_rows);
        b_verdict(shape[c].causal ? "2048 causal: tiles suppressed / tiles"
                  : n == 2048     ? "2048: tiles suppressed / tiles"
                  : n == 197      ? "197 tokens: tiles suppressed / tiles"
                                  : "65 tokens: tiles suppressed / tiles",
                  r[1].median_ns / r[0].median_ns, "<", 1.5);
        tiles[c] = r[1].median_ns / r[0].median_ns;
        if (shape[c].causal) continue;
        by_rows[c] = r[3].median_ns / r[2].median_ns;
        b_verdict(n == 2048  ? "2048: rows suppressed / rows"
                  : n == 197 ? "197 tokens: rows suppressed / rows"
                             : "65 tokens: rows suppressed / rows",
                  r[3].median_ns / r[2].median_ns, "<", 1.05);
        for (i = 0; i < (size_t)n; i++) {
            const float *row = s + i * (size_t)n;
            float top = 0.0f;
            tiny_idx t;
            for (t = 0; t < n; t++) top = row[t] > top ? row[t] : top;
            for (t = 0; t < n; t++) big += row[t] > 0.1f * top;
        }
        b_note("%td tokens: %.1f %% of the weights are not trivial", n, 100.0 * (double)big / ((double)n * (double)n));
        if (n < 2048) continue;
        memset(r, 0, sizeof r);             /* over one head's weights */
        for (j = 0; j < 2; j++) {
            r[j].what = what[j ? 5 : 4];
            r[j].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_TWIST));
            r[j].threads = b_threads;
            r[j].run = j ? bw_back : bw_twist;
            r[j].arg = &a;
            r[j].bytes = (j ? 12.0 : 8.0) * pairs;
            r[j].limit = B_COPY;
            b_shape(&r[j], "%td rows of %td", n, n);
        }
        b_contest("The row form and its gradient", r, 2);
    }
    b_headline("twist", "SATA, TWIST: nearly no cost, inside tiles",
               "t 0.1, scores of unit variance, heads of 64; 1.3 to 1.5 was expected",
               "tiles with / without: 65 keys %.2f, 197 %.2f, 2048 %.2f, 2048 causal %.2f", tiles[0], tiles[1],
               tiles[2], tiles[3]);
    b_headline("twist", "SATA, TWIST: nearly no cost, after a softmax over rows",
               "compared with S = Q K^T, softmax, O = P V; goal: at most 1.05",
               "rows with / without: 65 keys %.2f, 197 %.2f, 2048 %.2f", by_rows[0], by_rows[1], by_rows[2]);
    b_free(x);
    b_free(s);
    tiny_ctx_close(ctx);
}
