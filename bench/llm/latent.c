/* bench/llm/latent.c - latent attention absorbed, against keys and values of all heads kept; squared-ReLU networks by
 * lists of neurons
 *
 * One layer of the shape of PLM 1.8B: 16 heads of 128 + 64, values of 128, latents of 512; network 2048 - 8192 - 2048.
 * One token after 256 to 8192: the expanded row makes the token's own keys and values and reads the stored ones of all
 * others; the absorbed row moves its query into the latent space and the result back. A slow form for comparison: heads
 * one by one, each of which reads all latents. Then 512 queries of a prompt both ways. */
#include "../bench.h"
#include <string.h>

enum { HEADS = 16, NOPE = 128, ROPE = 64, DV = 128, DC = 512, PAGE = 16, MOST = 8192, PROMPT = 512 };

typedef struct bl_arg {
    tiny_ctx *ctx;
    tiny_tensor q, latents, k, v, table, rows, w, wt, c, made, o;
    tllm_latent_params p;
    tllm_paged_params e;
} bl_arg;

static void bl_absorbed(void *arg)
{
    bl_arg *a = (bl_arg *)arg;
    b_must(a->ctx, tllm_latent_attention(a->ctx, &a->q, &a->latents, &a->table, &a->rows, &a->w, &a->p, &a->o));
}
static void bl_by_head(void *arg)
{
    bl_arg *a = (bl_arg *)arg;
    tiny_idx h;
    for (h = 0; h < HEADS; h++) {
        tiny_tensor q = a->q, w = a->w, o = a->o;
        q.dim[1] = o.dim[1] = 1;
        q.data = (float *)q.data + h * (NOPE + ROPE);
        o.data = (float *)o.data + h * DV;
        w.dim[0] = NOPE + DV;
        w.data = (uint16_t *)w.data + h * (NOPE + DV) * DC;
        b_must(a->ctx, tllm_latent_attention(a->ctx, &q, &a->latents, &a->table, &a->rows, &w, &a->p, &o));
    }
}
static void bl_expanded(void *arg)
{
    bl_arg *a = (bl_arg *)arg;
    b_must(a->ctx, tiny_matmul(a->ctx, &a->c, &a->wt, NULL, TINY_ACT_NONE, &a->made));
    b_must(a->ctx,
           tllm_paged_attention(a->ctx, &a->q, &a->k, &a->v, &a->table, &a->rows, NULL, NULL, NULL, &a->e, &a->o));
}

static void *bl_half(size_t n)
{
    float *x = (float *)b_alloc(n * sizeof *x);
    uint16_t *h = (uint16_t *)b_alloc(n * sizeof *h);
    tllm_format_of(TLLM_FORMAT_F16)->pack(x, h, n, NULL);
    b_free(x);
    return h;
}

void bench_latent(void)
{
    static const int cells[4] = { 256, 1024, 4096, 8192 };
    static int32_t table[MOST / PAGE], rows[4][4], prompt[PROMPT][4];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const char *target = tiny_target_name(tiny_op_target(ctx, TINY_OP_ATTENTION));
    const size_t blocks = MOST / PAGE;
    void *latents[2], *k[2], *v[2], *w = bl_half((size_t)HEADS * (NOPE + DV) * DC);
    float *q = (float *)b_alloc((size_t)PROMPT * HEADS * (NOPE + ROPE) * sizeof *q),
          *o = (float *)b_alloc((size_t)PROMPT * HEADS * DV * sizeof *o);
    float *c = (float *)b_alloc(DC * sizeof *c), *made = (float *)b_alloc(HEADS * (NOPE + DV) * sizeof *made);
    double x[4], y[4][4], by_head = 0.0, prompts[2];
    bl_arg a[14];
    b_row r[14];
    int i, j, half, at = 0;
    memset(a, 0, sizeof a);
    for (half = 0; half < 2; half++) {
        latents[half] =
            half ? bl_half((size_t)MOST * (DC + ROPE)) : b_alloc((size_t)MOST * (DC + ROPE) * sizeof(float));
        k[half] = half ? bl_half((size_t)MOST * HEADS * (NOPE + ROPE))
                       : b_alloc((size_t)MOST * HEADS * (NOPE + ROPE) * sizeof(float));
        v[half] = half ? bl_half((size_t)MOST * HEADS * DV) : b_alloc((size_t)MOST * HEADS * DV * sizeof(float));
    }
    for (j = 0; j < MOST / PAGE; j++) table[j] = (int32_t)((j * 37 + 11) % (MOST / PAGE));
    for (i = 0; i < 4; i++) {
        const int n = cells[i];
        rows[i][0] = rows[i][1] = 0;
        rows[i][2] = rows[i][3] = (int32_t)n;
        x[i] = n;
        memset(r, 0, sizeof r);
        for (at = 0; at < 6; at++) {
            const tiny_dtype t = at == 1 || at == 3 ? TINY_F16 : TINY_F32;
            half = t == TINY_F16;
            a[at].ctx = ctx;
            a[at].q = tiny_tensor_3d(q, TINY_F32, 1, HEADS, NOPE + ROPE);
            a[at].o = tiny_tensor_3d(o, TINY_F32, 1, HEADS, DV);
            a[at].latents = tiny_tensor_4d(latents[half], t, (tiny_idx)blocks, 1, PAGE, DC + ROPE);
            a[at].k = tiny_tensor_4d(k[half], t, (tiny_idx)blocks, HEADS, PAGE, NOPE + ROPE);
            a[at].v = tiny_tensor_4d(v[half], t, (tiny_idx)blocks, HEADS, PAGE, DV);
            a[at].table = tiny_tensor_2d(table, TINY_I32, 1, MOST / PAGE);
            a[at].rows = tiny_tensor_2d(rows[i], TINY_I32, 1, 4);
            a[at].w = tiny_tensor_2d(w, TINY_F16, HEADS * (NOPE + DV), DC);
            a[at].wt = tiny_tensor_swap(a[at].w, 0, 1);
            a[at].c = tiny_tensor_2d(c, TINY_F32, 1, DC);
            a[at].made = tiny_tensor_2d(made, TINY_F32, 1, HEADS * (NOPE + DV));
            a[at].p.d_nope = NOPE;
            a[at].p.d_v = DV;
            a[at].p.form = at == 5 ? TLLM_LATENT_EXPANDED : TLLM_LATENT_ABSORBED;
            a[at].e.d_v = DV;
            r[at].run = at < 2 ? bl_expanded : at == 4 ? bl_by_head : at == 5 && n > 1024 ? NULL : bl_absorbed;
            r[at].arg = &a[at];
            r[at].what = at == 0   ? "expanded, f32"
                         : at == 1 ? "expanded, f16"
                         : at == 2 ? "absorbed, f32"
                         : at == 3 ? "absorbed, f16"
                         : at == 4 ? "absorbed head by head"
                                   : "expanded anew each step";
            r[at].target = target;
            r[at].threads = b_threads;
            r[at].flops = 2.0 * HEADS * (at < 2 ? (double)(NOPE + ROPE + DV) * n : (double)(2 * DC + ROPE) * n) +
                          2.0 * HEADS * (NOPE + DV) * DC;
            r[at].bytes = (half ? 2.0 : 4.0) * n * (at < 2 ? HEADS * (NOPE + ROPE + DV) : DC + ROPE) +
                          2.0 * HEADS * (NOPE + DV) * DC;
            r[at].limit = at < 2 ? B_READ : B_F32;
            b_shape(&r[at], "1x%d h16", n);
        }
        b_contest("Latent attention, decode", r, 6);
        for (at = 0; at < 4; at++) y[at][i] = r[at].median_ns / 1e3;
        if (n == 256) b_verdict("256 tokens: expanded / absorbed, f32", r[0].median_ns / r[2].median_ns, ">", 0.8);
        if (n == 4096) {
            by_head = r[4].median_ns / r[2].median_ns;
            b_verdict("4096 tokens: expanded / absorbed, f32", r[0].median_ns / r[2].median_ns, ">", 1.5);
            b_verdict("4096 tokens: expanded / absorbed, f16", r[1].median_ns / r[3].median_ns, ">", 1.5);
            b_verdict("4096 tokens: absorbed head by head / absorbed", r[4].median_ns / r[2].median_ns, ">", 1.5);
            b_verdict("4096 tokens: absorbed head by head / expanded", r[4].median_ns / r[0].median_ns, ">", 1.0);
        }
    }
    {
        b_curve curve[4];
        static const char *const name[4] = { "expanded, f32", "expanded, f16", "absorbed, f32", "absorbed, f16" };
        for (at = 0; at < 4; at++) {
            curve[at].name = name[at];
            curve[at].x = x;
            curve[at].y = y[at];
            curve[at].n = 4;
        }
        b_svg("latent", "Latent attention, one token of one layer (PLM's shape)", "cached tokens", "microseconds",
              curve, 4);
    }
    memset(r, 0, sizeof r);
    for (i = 0; i < PROMPT; i++) {
        prompt[i][0] = prompt[i][1] = 0;
        prompt[i][2] = (int32_t)(2048 - PROMPT + i + 1);
        prompt[i][3] = (int32_t)(2048 - PROMPT + i);
    }
    for (at = 0; at < 4; at++) {
        const int n = at < 2 ? PROMPT : 128;
        a[at] = a[2];
        a[at].q.dim[0] = a[at].o.dim[0] = n;
        a[at].rows = tiny_tensor_2d(prompt[PROMPT - n], TINY_I32, n, 4);
        a[at].p.form = at % 2 ? TLLM_LATENT_EXPANDED : TLLM_LATENT_ABSORBED;
        r[at].run = bl_absorbed;
        r[at].arg = &a[at];
        r[at].what = at % 2 ? "expanded by pieces" : "absorbed";
        r[at].target = target;
        r[at].threads = b_threads;
        r[at].limit = B_F32;
        r[at].flops = at % 2 ? 2.0 * HEADS * ((NOPE + ROPE + DV) * 1.0 * n * (2048 - n / 2) + 2048.0 * DC * (NOPE + DV))
                             : 2.0 * HEADS * ((2 * DC + ROPE) * 1.0 * n * (2048 - n / 2) + 1.0 * n * DC * (NOPE + DV));
        r[at].bytes = 4.0 * 2048 * (DC + ROPE);
        b_shape(&r[at], "%dx2048 h16", n);
    }
    b_contest("Latent attention, prompts (the rule turns at 170 queries)", r, 4);
    b_verdict("512 queries: absorbed / expanded by pieces", r[0].median_ns / r[1].median_ns, ">", 1.0);
    b_verdict("128 queries: absorbed / expanded by pieces", r[2].median_ns / r[3].median_ns, "<", 1.2);
    prompts[0] = r[0].median_ns / r[1].median_ns;
    prompts[1] = r[2].median_ns / r[3].median_ns;
    b_headline("plm", "PLM: smallest cache and latency of its class on phones and boards",
               "one token, 16 heads of 128 + 64, latents of 512, w in f16; the expanded form computes the keys "
               "and values of its own token too",
               "expanded / absorbed after 4096 %.2f (f32 pages), %.2f (f16); after 8192 %.2f, %.2f; heads one by one / "
               "together %.2f; cache 8.9 times smaller",
               y[0][2] / y[2][2], y[1][2] / y[3][2], y[0][3] / y[2][3], y[1][3] / y[3][3], by_head);
    b_headline("plm", "PLM: prompts, the cheaper of two forms",
               "2048 tokens, 16 heads of 128 + 64, latents of 512; AUTO turns at 170 queries",
               "absorbed / expanded by pieces: 512 queries %.2f, 128 queries %.2f", prompts[0], prompts[1]);
    for (half = 0; half < 2; half++) {
        b_free(latents[half]);
        b_free(k[half]);
        b_free(v[half]);
    }
    b_free(w);
    b_free(q);
    b_free(o);
    b_free(c);
    b_free(made);
    tiny_ctx_close(ctx);
}

/* ---- networks ---------------------------------------------------------------------------------------------------- */

enum { D = 2048, FF = 8192 };
typedef struct bs_arg { tiny_ctx *ctx; tllm_relu2_ffn_desc f; const void *file; float *x, *y, *h; void *work; } bs_arg;

static void bs_sparse(void *arg)
{
    bs_arg *a = (bs_arg *)arg;
    b_must(a->ctx, tllm_relu2_ffn(a->ctx, &a->f, a->x, 1, a->work, a->y, NULL));
}
/* two products with the matrices as files have them */
static void bs_whole(void *arg)
{
    bs_arg *a = (bs_arg *)arg;
    const tiny_dtype t = a->f.format_up == TLLM_FORMAT_F16 ? TINY_F16 : TINY_F32;
    tiny_tensor x = tiny_tensor_2d(a->x, TINY_F32, 1, D), h = tiny_tensor_2d(a->h, TINY_F32, 1, FF),
                y = tiny_tensor_2d(a->y, TINY_F32, 1, D);
    tiny_tensor up = tiny_tensor_swap(tiny_tensor_2d((void *)(uintptr_t)a->f.up, t, FF, D), 0, 1),
                down = tiny_tensor_swap(tiny_tensor_2d((void *)(uintptr_t)a->file, t, D, FF), 0, 1);
    if (a->f.format_up == TLLM_FORMAT_Q8_0) {
        const tiny_idx bytes_up = D / 32 * 34, bytes_down = FF / 32 * 34;
        tiny_op op;
        up = tiny_tensor_2d((void *)(uintptr_t)a->f.up, TINY_U8, FF, bytes_up);
        down = tiny_tensor_2d((void *)(uintptr_t)a->file, TINY_U8, D, bytes_down);
        b_must(a->ctx, tllm_matmul(a->ctx, &x, TLLM_FORMAT_Q8_0, &up, NULL, &h));
        memset(&op, 0, sizeof op);
        op.kind = TINY_OP_RELU2;
        op.in[0] = op.out[0] = &h;
        b_must(a->ctx, tiny_run(a->ctx, &op));
        b_must(a->ctx, tllm_matmul(a->ctx, &h, TLLM_FORMAT_Q8_0, &down, NULL, &y));
        return;
    }
    b_must(a->ctx, tiny_matmul(a->ctx, &x, &up, NULL, TINY_ACT_RELU2, &h));
    b_must(a->ctx, tiny_matmul(a->ctx, &h, &down, NULL, TINY_ACT_NONE, &y));
}

void bench_sparse(void)
{
    static const int silent[5] = { 0, 50, 75, 90, 95 };
    static const short kinds[3] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0 };
    static const char *const title[3] = { "Squared-ReLU network, f32", "Squared-ReLU network, f16",
                                          "Squared-ReLU network, q8_0, columns as f16" };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    float *up = (float *)b_alloc((size_t)FF * D * sizeof *up), *down = (float *)b_alloc((size_t)FF * D * sizeof *down),
          *x[5];
    double gain[3][4];
    uint32_t hash = 1;
    int i, k;
    /* neuron i fires when its number in 0..1 is above the silent share: x holds 1, -share */
    for (i = 0; i < FF; i++) {
        hash = hash * 1664525u + 1013904223u;
        memset(up + (size_t)i * D, 0, D * sizeof *up);
        up[(size_t)i * D] = (float)(hash >> 8) / 16777216.0f + 1e-3f;
        up[(size_t)i * D + 32] = 1.0f;
    }
    for (k = 0; k < 5; k++) {
        x[k] = (float *)b_alloc(D * sizeof **x);
        memset(x[k], 0, D * sizeof **x);
        x[k][0] = 1.0f;
        x[k][32] = -(float)silent[k] / 100.0f;
    }
    for (i = 0; i < 3; i++) {
        const tllm_format *f = tllm_format_of(kinds[i]),
                          *g = tllm_format_of(kinds[i] == TLLM_FORMAT_Q8_0 ? TLLM_FORMAT_F16 : kinds[i]);
        const size_t n = (size_t)FF * D;
        void *u = b_alloc(tllm_format_bytes(f, n)), *file = b_alloc(tllm_format_bytes(f, n)),
             *turned = b_alloc(tllm_format_bytes(g, n));
        bs_arg a[6];
        b_row r[6];
        memset(a, 0, sizeof a);
        memset(r, 0, sizeof r);
        f->pack(up, u, n, NULL);
        f->pack(down, file, n, NULL);
        b_must(ctx, tllm_turn_rows(ctx, f->id, file, D, FF, g->id, turned));
        for (k = 0; k < 6; k++) {
            a[k].ctx = ctx;
            a[k].f.d = D;
            a[k].f.n_ff = FF;
            a[k].f.up = u;
            a[k].f.down = turned;
            a[k].f.format_up = f->id;
            a[k].f.format_down = g->id;
            a[k].file = file;
            a[k].x = x[k < 5 ? k : 3];
            a[k].y = (float *)b_alloc(D * sizeof(float));
            a[k].h = (float *)b_alloc(FF * sizeof(float));
            a[k].work = b_alloc(tllm_relu2_ffn_work(&a[k].f, 1));
            r[k].run = k == 5 ? bs_whole : bs_sparse;
            r[k].arg = &a[k];
            r[k].what = k == 5   ? "both matrices whole"
                        : k == 0 ? "all fire"
                        : k == 1 ? "50 of 100 silent"
                        : k == 2 ? "75 silent"
                        : k == 3 ? "90 silent"
                                 : "95 silent";
            r[k].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_MATMUL));
            r[k].threads = b_threads;
            r[k].bytes = (double)tllm_format_bytes(f, n) +
                         (k == 5 ? (double)tllm_format_bytes(f, n)
                                 : (double)tllm_format_bytes(g, n) * (100 - silent[k]) / 100.0);
            r[k].flops = 2.0 * (double)n * (k == 5 ? 2.0 : 1.0 + (100 - silent[k]) / 100.0);
            r[k].limit = B_READ;
            b_shape(&r[k], "1x%d-%d-%d", D, FF, D);
        }
        b_contest(title[i], r, 6);
        /* columns of q8_0 are f16, after the rule */
        if (i < 2) b_verdict("50 of 100 silent: whole / list", r[5].median_ns / r[1].median_ns, ">", 1.0);
        b_verdict("75 of 100 silent: whole / list", r[5].median_ns / r[2].median_ns, ">", i < 2 ? 1.3 : 1.2);
        b_verdict("90 of 100 silent: whole / list", r[5].median_ns / r[3].median_ns, ">", 1.6);
        b_verdict("95 of 100 silent: whole / list", r[5].median_ns / r[4].median_ns, ">", 1.7);
        for (k = 0; k < 4; k++) gain[i][k] = r[5].median_ns / r[1 + k].median_ns;
        for (k = 0; k < 6; k++) {
            b_free(a[k].y);
            b_free(a[k].h);
            b_free(a[k].work);
        }
        b_free(u);
        b_free(file);
        b_free(turned);
    }
    b_headline("plm", "PLM: 90.9 % of the neurons silent, a quarter of the parameters not read",
               "2048 - 8192 - 2048, one token, synthetic shares; 1 / (0.5 + 0.5 fired) would be 1.33, 1.6, 1.82, 1.9",
               "whole matrices / list at 50, 75, 90, 95 %% silent: f32 %.2f, %.2f, %.2f, %.2f; f16 %.2f, %.2f, %.2f, "
               "%.2f; q8_0 with columns in f16 %.2f (the rule does not take it), %.2f, %.2f, %.2f",
               gain[0][0], gain[0][1], gain[0][2], gain[0][3], gain[1][0], gain[1][1], gain[1][2], gain[1][3],
               gain[2][0], gain[2][1], gain[2][2], gain[2][3]);
    for (k = 0; k < 5; k++) b_free(x[k]);
    b_free(up);
    b_free(down);
    tiny_ctx_close(ctx);
}
