/* bench/llm/vision.c - a vision transformer of the size of ViT-B, plain, with merged tokens, and with PYRA
 *
 * ToMe and PYRA (arXiv 2210.09461, 2403.09192) take multiply-adds away: 2.02 times by the schedule "base low" (197 tokens end as 11), 3.52 times by
 * "base high" (5). Here: 12 blocks of 768 numbers and 12 heads with random weights, one image, on a tape that records nothing; and what
 * matching and merging cost by themselves.                                                                                    */
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
        tiny_tensor keys = tiny_tensor_3d(a->x, TINY_F32, t, HEADS, D / HEADS), x = tiny_tensor_3d(a->x, TINY_F32, t, 1, D), y, size = tiny_tensor_2d(a->size, TINY_F32, t, 1), next, match;
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

void bench_vision(void)
{
    static const char *const what[5] = { "plain", "merged, low", "merged, high", "PYRA, high", "matching and merging, low" };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const tiny_idx *low = tllm_tome_scheduled(TLLM_TOME_BASE_LOW, NULL), *high = tllm_tome_scheduled(TLLM_TOME_BASE_HIGH, NULL);
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
    for (k = 0; k < 4; k++) tllm_pyra_close(a[k].pyra);
    tiny_tape_close(a[0].tape);
    b_free(a[0].image.data); b_free(a[0].x); b_free(a[0].y); b_free(a[0].size); b_free(a[0].match);
    tllm_vit_close(vit);
    tiny_ctx_close(ctx);
}
#endif
