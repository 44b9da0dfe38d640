/* bench/llm/vision.c - a vision transformer of the size of ViT-B, plain, with merged tokens, and with PYRA; a recursive
 * stage, sliced and whole
 *
 * ToMe and PYRA (arXiv 2210.09461, 2403.09192) save multiply-adds: 2.02 times by the schedule "base low" (197
 * tokens end as 11), 3.52 times by "base high" (5). Here: 12 blocks of 768 numbers and 12 heads with random weights,
 * one image, on a tape that records nothing; and the cost of matching and merging alone. SReT (2111.05297): the
 * first stage of SReT-T, 784 tokens of 64 numbers, 2 blocks run twice. */
#include "../bench.h"
#include <string.h>

#ifdef TINY_NO_TRAIN
void bench_vision(void) {}
#else

enum { BLOCKS = 12, TOKENS = 197, D = 768, HEADS = 12 };

typedef struct bv_arg {
    tiny_ctx *ctx;
    tiny_tape *tape;
    const tllm_vit *vit;
    tiny_tensor image;
    tllm_pyra *pyra;                        /* NULL: plain */
    const tiny_idx *r;                      /* of the row that merges only */
    float *x, *y, *size;
    int32_t *match;
} bv_arg;

static void bv_run(void *arg)
{
    bv_arg *a = (bv_arg *)arg;
    const tiny_tape_mark mark = tiny_tape_now(a->tape);
    (void)tllm_vit_run(a->tape, a->vit, &a->image, tllm_pyra_hooks(a->pyra));
    b_must(a->ctx, tiny_tape_status(a->tape));
    tiny_tape_release(a->tape, mark);
}

static void bv_merge(void *arg)
{
    bv_arg *a = (bv_arg *)arg;
    tiny_idx t = TOKENS, r, i;
    for (i = 0; i < BLOCKS; i++, t -= r) {
        tiny_tensor keys = tiny_tensor_3d(a->x, TINY_F32, t, HEADS, D / HEADS),
                    x = tiny_tensor_3d(a->x, TINY_F32, t, 1, D), y, size = tiny_tensor_2d(a->size, TINY_F32, t, 1),
                    next, match;
        r = tllm_tome_count(t, a->r[i], TLLM_TOME_CLASS);
        match = tiny_tensor_2d(a->match, TINY_I32, 2 * t + r, 1);
        y = tiny_tensor_3d(a->y, TINY_F32, t - r, 1, D);
        next = tiny_tensor_2d(a->size + TOKENS, TINY_F32, t - r, 1);
        b_must(a->ctx, tllm_tome_match(a->ctx, &keys, 1, TLLM_TOME_CLASS, &match));
        b_must(a->ctx, tllm_tome_merge(a->ctx, &x, &size, &match, NULL, &y));
        b_must(a->ctx, tllm_tome_sizes(a->ctx, &size, &match, &next));
    }
}

/* multiply-adds of all blocks, twice */
static double bv_flops(const tiny_idx *r)
{
    double sum = 0.0;
    tiny_idx t = TOKENS, i;
    for (i = 0; i < BLOCKS; i++) {
        sum += 4.0 * D * D * (double)t + 2.0 * (double)(t * t) * D;
        if (r) t -= tllm_tome_count(t, r[i], TLLM_TOME_CLASS);
        sum += 8.0 * D * D * (double)t;
    }
    return 2.0 * sum;
}

typedef struct bv_stage {
    tiny_ctx *ctx;
    tiny_tape *tape;
    tllm_sret *sret;
    tiny_tensor x, heads;
    tiny_idx slices;
} bv_stage;

static void bv_stage_run(void *arg)
{
    bv_stage *a = (bv_stage *)arg;
    const tiny_tape_mark mark = tiny_tape_now(a->tape);
    if (a->sret) (void)tllm_sret_stage_run(a->tape, a->sret, 0, &a->x);
    else (void)tllm_sliced_attention(a->tape, &a->heads, &a->heads, &a->heads, a->slices, 0, NULL);
    b_must(a->ctx, tiny_tape_status(a->tape));
    tiny_tape_release(a->tape, mark);
}

static void bv_stages(tiny_ctx *ctx)
{
    static const char *const what[5] = { "stage, whole attention", "stage, slices 8 and 2", "attention alone, whole",
                                         "attention alone, 2 slices", "attention alone, 8 slices" };
    tllm_sret_desc d;
    tiny_tape_desc td;
    bv_stage a[5];
    b_row r[5];
    int k;
    memset(a, 0, sizeof a);
    memset(r, 0, sizeof r);
    memset(&td, 0, sizeof td);
    td.no_grad = 1;
    td.bytes = 64u << 20;
    b_must(ctx, tiny_tape_open(ctx, &td, &a[0].tape));
    a[0].ctx = ctx;
    a[0].x = tiny_tensor_3d(b_alloc(784 * 64 * sizeof(float)), TINY_F32, 784, 1, 64);
    a[0].heads = tiny_tensor_3d(a[0].x.data, TINY_F32, 784, 2, 32);
    for (k = 0; k < 5; k++) {
        const tiny_idx n = 784, first = k == 1 ? 8 : 1, again = k == 1 ? 2 : 1;
        a[k] = a[0];
        a[k].sret = NULL;
        a[k].slices = k == 4 ? 8 : k == 3 ? 2 : 1;
        tllm_sret_tiny(&d);
        d.n_stage = 1;
        d.n_class = 10;
        d.stage[0].first = first;
        d.stage[0].again = again;
        if (k < 2) b_must(ctx, tllm_sret_open(ctx, &d, &a[k].sret));
        r[k].what = what[k];
        r[k].run = bv_stage_run;
        r[k].arg = &a[k];
        r[k].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_MATMUL));
        r[k].threads = b_threads;
        r[k].limit = B_F32;
        r[k].flops = k < 2 ? 2.0 * (4.0 * (4 + 7.2 + 2) * 64 * 64 * (double)n +
                                    4.0 * (double)(n * n) * 64 * (1.0 / (double)first + 1.0 / (double)again))
                           : 4.0 * (double)(n * n) * 64 / (double)a[k].slices;
        b_shape(&r[k], "784 x 64, 2 heads");
    }
    b_contest("A stage of SReT-T, one image", r, 5);
    b_verdict("stage: sliced / whole (multiply-adds: 0.55)", r[1].median_ns / r[0].median_ns, "<", 0.85);
    b_verdict("attention: 8 slices / whole", r[4].median_ns / r[2].median_ns, "<", 1.3 / 8);
    b_verdict("attention: 2 slices / whole", r[3].median_ns / r[2].median_ns, "<", 1.3 / 2);
    b_headline("sret", "SReT: 10 to 30 % of the cost saved by slicing",
               "first stage of SReT-T, 784 tokens of 64 numbers, 2 blocks run twice; multiply-adds 0.55, attention 1/2 "
               "and 1/8",
               "sliced / whole: stage %.2f; attention alone in 2 slices %.2f, in 8 slices %.2f",
               r[1].median_ns / r[0].median_ns, r[3].median_ns / r[2].median_ns, r[4].median_ns / r[2].median_ns);
    for (k = 0; k < 2; k++) tllm_sret_close(a[k].sret);
    tiny_tape_close(a[0].tape);
    b_free(a[0].x.data);
}

void bench_vision(void)
{
    static const char *const what[5] = { "plain", "merged, low", "merged, high", "PYRA, high",
                                         "matching and merging, low" };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const tiny_idx *low = tllm_tome_scheduled(TLLM_TOME_BASE_LOW, NULL),
                   *high = tllm_tome_scheduled(TLLM_TOME_BASE_HIGH, NULL);
    tllm_vit_desc vd;
    tllm_pyra_desc pd;
    tiny_tape_desc td;
    tllm_vit *vit;
    bv_arg a[5];
    b_row r[5];
    size_t i;
    int k;
    memset(&vd, 0, sizeof vd);
    memset(&pd, 0, sizeof pd);
    memset(&td, 0, sizeof td);
    memset(a, 0, sizeof a);
    memset(r, 0, sizeof r);
    vd.image = 224; vd.patch = 16; vd.d = D; vd.n_head = HEADS; vd.n_block = BLOCKS; vd.n_class = 10;
    td.no_grad = 1;
    td.bytes = 256u << 20;
    b_must(ctx, tllm_vit_open(ctx, &vd, &vit));
    a[0].ctx = ctx;
    a[0].vit = vit;
    a[0].image = tiny_tensor_4d(b_alloc(3 * 224 * 224 * sizeof(float)), TINY_F32, 1, 3, 224, 224);
    a[0].x = (float *)b_alloc(TOKENS * D * sizeof(float));
    a[0].y = (float *)b_alloc(TOKENS * D * sizeof(float));
    a[0].size = (float *)b_alloc(2 * TOKENS * sizeof(float));
    a[0].match = (int32_t *)b_alloc(3 * TOKENS * sizeof(int32_t));
    for (i = 0; i < TOKENS; i++) a[0].size[i] = 1.0f;
    b_must(ctx, tiny_tape_open(ctx, &td, &a[0].tape));
    for (k = 0; k < 5; k++) {
        a[k] = a[0];
        a[k].r = k == 0 ? NULL : k == 1 || k == 4 ? low : high;
        pd.r = a[k].r;
        pd.n_block = BLOCKS;
        pd.plain = k < 3;
        a[k].pyra = NULL;
        if (k > 0 && k < 4) b_must(ctx, tllm_pyra_open(ctx, vit, &pd, &a[k].pyra));
        r[k].what = what[k];
        r[k].run = k < 4 ? bv_run : bv_merge;
        r[k].arg = &a[k];
        r[k].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_MATMUL));
        r[k].threads = b_threads;
        r[k].flops = k < 4 ? bv_flops(a[k].r) : 0.0;
        r[k].limit = k < 4 ? B_F32 : B_NONE;
        b_shape(&r[k], "12 blocks, 197 to %d", k == 0 ? TOKENS : k == 1 || k == 4 ? 11 : 5);
    }
    b_contest("Vision transformer of the size of ViT-B, one image", r, 5);
    b_verdict("plain / merged, low (multiply-adds: 2.02)", r[0].median_ns / r[1].median_ns, ">", 1.7);
    b_verdict("plain / merged, high (3.52)", r[0].median_ns / r[2].median_ns, ">", 2.7);
    b_verdict("plain / PYRA, high", r[0].median_ns / r[3].median_ns, ">", 2.7);
    b_verdict("matching and merging, part of merged low", r[4].median_ns / r[1].median_ns, "<", 0.05);
    b_headline(
        "pyra", "PYRA, ToMe: 2.02 and 3.52 times fewer multiply-adds; matching 0.03 % of them",
        "12 blocks of ViT-B, one image of 224 x 224, random weights, schedules base low and base high",
        "plain / merged %.2f and %.2f in time, %.2f with PYRA's weights; matching and merging %.2f %% of the time",
        r[0].median_ns / r[1].median_ns, r[0].median_ns / r[2].median_ns, r[0].median_ns / r[3].median_ns,
        100.0 * r[4].median_ns / r[1].median_ns);
    for (k = 0; k < 4; k++) tllm_pyra_close(a[k].pyra);
    tiny_tape_close(a[0].tape);
    b_free(a[0].image.data); b_free(a[0].x); b_free(a[0].y); b_free(a[0].size); b_free(a[0].match);
    tllm_vit_close(vit);
    bv_stages(ctx);
    tiny_ctx_close(ctx);
}
#endif
