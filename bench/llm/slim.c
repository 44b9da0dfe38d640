/* bench/llm/slim.c - networks cut in two: the device's share of a frame at each width, against plain loops, against one
 * stack cut by channels, and a change of the width against reading a separate model */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

#ifdef TINYLLM_NO_SLIM
void bench_slim(void) { }
#else

enum { BS_K = 4, BS_C = 4, BS_CB = 2 };
static const char bs_path[] = "build/bench-slim.net";

typedef struct bs_job {
    tiny_ctx *ctx;
    tllm_slim *slim;
    int m;
    float *x, *z, *w;
    unsigned char *frame;
} bs_job;

static void bs_frame(void *arg)
{
    bs_job *j = (bs_job *)arg;
    size_t n;
    b_must(j->ctx, tllm_slim_encode(j->slim, j->x, 0, j->m, j->z));
    b_must(j->ctx, tllm_slim_pack(j->slim, j->z, 0, j->m, NULL, j->frame, 4096, &n));
}

static void bs_load(void *arg)
{
    bs_job *j = (bs_job *)arg;
    b_must(j->ctx, tllm_slim_load(j->slim, bs_path));
}

static void bs_tail(void *arg)
{
    bs_job *j = (bs_job *)arg;
    float logits[10];
    b_must(j->ctx, tllm_slim_tail(j->slim, j->z, j->m, logits));
}

/* 3 x 3, step 2, relu; y has a border of zeros */
static void bs_conv(const float *x, int n_in, int side, const float *w, int n_out, float *y)
{
    const int row = side + 2, half = side / 2, to = half + 2;
    int o, i, a, b, r, q;
    for (o = 0; o < n_out; o++)
        for (a = 0; a < half; a++)
            for (b = 0; b < half; b++) {
                float sum = 0.0f;
                for (i = 0; i < n_in; i++)
                    for (r = 0; r < 3; r++)
                        for (q = 0; q < 3; q++)
                            sum += w[((o * n_in + i) * 3 + r) * 3 + q] * x[(i * row + 2 * a + r) * row + 2 * b + q];
                y[(o * to + a + 1) * to + b + 1] = sum > 0.0f ? sum : 0.0f;
            }
}

static void bs_loops(void *arg)
{
    static float in[34 * 34], mid[BS_C * 18 * 18], out[BS_C * 10 * 10];
    bs_job *j = (bs_job *)arg;
    int k, a, i, o;
    for (a = 0; a < 32; a++) memcpy(in + (a + 1) * 34 + 1, j->x + 32 * a, 32 * sizeof(float));
    for (k = 0; k < BS_K; k++) {
        bs_conv(in, 1, 32, j->w, BS_C, mid);
        bs_conv(mid, BS_C, 16, j->w + 36, BS_C, out);
        for (o = 0; o < BS_CB; o++)
            for (a = 0; a < 64; a++) {
                float sum = 0.0f;
                int q;
                for (i = 0; i < BS_C; i++) sum += j->w[180 + o * BS_C + i] * out[(i * 10 + a / 8 + 1) * 10 + a % 8 + 1];
                q = (int)(sum * 3.5f + (sum < 0.0f ? -0.5f : 0.5f));
                j->frame[(k * BS_CB + o) * 64 + a] = (unsigned char)(q < -7 ? 0 : q > 7 ? 14 : q + 7);
            }
    }
}

void bench_slim(void)
{
    static const char *const what[8] = { "frame, 1 of 4 members", "frame, 2 of 4",  "frame, 3 of 4",
                                         "frame, 4 of 4",         "the same, plain loops",
                                         "frame, cut to all channels", "separate model read", "tail, 4 of 4" };
    tllm_slim_desc d;
    tllm_slim_cost cost;
    tllm_slim *slim, *cut;
    bs_job j[8];
    b_row r[8];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    int k;
    memset(&d, 0, sizeof d);
    memset(j, 0, sizeof j);
    memset(r, 0, sizeof r);
    d.in[0] = 1;
    d.in[1] = d.in[2] = 32;
    d.members = BS_K;
    d.width = BS_C;
    d.send = BS_CB;
    d.n_class = 10;
    d.seed = 1;
    b_must(ctx, tllm_slim_open(ctx, &d, &slim));
    b_must(ctx, tllm_slim_save(slim, bs_path));
    d.prefix = 1;
    b_must(ctx, tllm_slim_open(ctx, &d, &cut));
    for (k = 0; k < 8; k++) {
        j[k].ctx = ctx;
        j[k].slim = k == 5 ? cut : slim;
        j[k].m = k < 4 ? k + 1 : BS_K;
        j[k].x = (float *)b_alloc(1024 * sizeof(float));
        j[k].z = (float *)b_alloc(4096 * sizeof(float));
        j[k].w = (float *)b_alloc(1024 * sizeof(float));
        j[k].frame = (unsigned char *)b_alloc(4096);
        b_must(ctx, tllm_slim_cost_of(j[k].slim, j[k].m, &cost));
        r[k].what = what[k];
        r[k].run = k == 4 ? bs_loops : k == 6 ? bs_load : k == 7 ? bs_tail : bs_frame;
        r[k].arg = &j[k];
        r[k].target = k == 4 || k == 6 ? "C" : tiny_target_name(tiny_op_target(ctx, TINY_OP_CONV2D));
        r[k].threads = 1;
        r[k].flops = k == 6 ? 0.0 : 2.0 * (k == 7 ? cost.tail : cost.encoder);
        r[k].limit = k == 6 ? B_NONE : B_F32;
        b_shape(&r[k], "1 x 32 x 32");
    }
    b_contest("Networks cut in two: the device's share of a frame", r, 8);
    b_verdict("plain loops over ours, 4 members", r[4].median_ns / r[3].median_ns, ">", 1.0);
    b_verdict("one member over four", r[0].median_ns / r[3].median_ns, "<=", 0.4);
    b_headline("slimmable", "adapts load and bytes in real time with minimal overhead",
               "an image of 32 x 32, members of 4 channels that send 2, codes of 4 bits, one thread",
               "a frame of 1 to 4 members takes %.1f, %.1f, %.1f and %.1f us, 4 in plain loops %.1f us; another width "
               "costs nothing, reading a separate model %.0f us",
               r[0].median_ns * 1e-3, r[1].median_ns * 1e-3, r[2].median_ns * 1e-3, r[3].median_ns * 1e-3,
               r[4].median_ns * 1e-3, r[6].median_ns * 1e-3);
    for (k = 0; k < 8; k++) {
        b_free(j[k].x);
        b_free(j[k].z);
        b_free(j[k].w);
        b_free(j[k].frame);
    }
    tllm_slim_close(slim);
    tllm_slim_close(cut);
    (void)remove(bs_path);
    tiny_ctx_close(ctx);
}
#endif
