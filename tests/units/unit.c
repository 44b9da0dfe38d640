/* tests/units/unit.c - one translation unit of a program, in every shape that a user may choose
 *
 *   UNIT=name                       the function that this unit defines
 *   SHAPE_l SHAPE_L ...             which headers it includes, in this order: l and g declarations of tinyllm.h and
 *                                   tinygnn.h, L and G with the implementation
 * Standard headers come first, so that nothing depends on a macro which only the first include could set.            */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined UNIT_ALL
#define TINYLLM_ALL
#define TINYGNN_ALL
#endif
#if defined SHAPE_LG || defined SHAPE_GL    /* the first header brings core and math for both */
#define TINYLLM_IMPLEMENTATION
#define TINYGNN_IMPLEMENTATION
#endif
#if defined SHAPE_L || defined SHAPE_Lg || defined SHAPE_LG || defined SHAPE_Lgl
#ifndef TINYLLM_IMPLEMENTATION
#define TINYLLM_IMPLEMENTATION
#endif
#include "tinyllm.h"
#elif defined SHAPE_l || defined SHAPE_lg || defined SHAPE_lG || defined SHAPE_lL
#include "tinyllm.h"
#endif

#if defined SHAPE_G || defined SHAPE_LG || defined SHAPE_lG || defined SHAPE_Gl || defined SHAPE_GL
#ifndef TINYGNN_IMPLEMENTATION
#define TINYGNN_IMPLEMENTATION
#endif
#include "tinygnn.h"
#elif defined UNIT_LATE
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#elif defined SHAPE_g || defined SHAPE_lg || defined SHAPE_Lg || defined SHAPE_gl || defined SHAPE_gL || \
    defined SHAPE_Lgl
#include "tinygnn.h"
#endif

#if defined SHAPE_GL || defined SHAPE_gL || defined SHAPE_lL
#ifndef TINYLLM_IMPLEMENTATION
#define TINYLLM_IMPLEMENTATION
#endif
#include "tinyllm.h"
#elif defined SHAPE_Gl || defined SHAPE_gl || defined SHAPE_Lgl
#include "tinyllm.h"
#endif

#if defined SHAPE_l || defined SHAPE_L || defined SHAPE_lL || defined SHAPE_gl || defined SHAPE_Gl || \
    defined SHAPE_gL || defined SHAPE_GL || defined SHAPE_Lgl /* tinyllm.h came last */
#define UNIT_ENDS_IN_LLM
#endif

#ifdef MY_ALLOCATOR                         /* TINY_NO_MALLOC */
static void *unit_realloc(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    (void)user;
    (void)old_bytes;
    if (n_bytes) return realloc(old, n_bytes);
    free(old);
    return NULL;
}
#endif

#ifdef __cplusplus
extern "C"
#endif
int UNIT(void);

/* 0 when a few calls of different files work. */
#ifdef TINYLLM_ONLY_CHAT
#include "chat.h"
#else
/* by name, by kind and by position */
static int unit_knows(const char *name, int kind)
{
    const tiny_op_row *row = tiny_op_find(name);
    size_t i = 0;
    while (tiny_op_at(i) && tiny_op_at(i) != row) i++;
    return row && row->kind == kind && tiny_op_row_of(kind) == row && tiny_op_at(i) == row;
}

#if defined UNIT_ENDS_IN_LLM || defined SHAPE_LG
static int unit_mixes(tiny_ctx *ctx)
{
    float x[2] = { 1, 10 }, w[4] = { 1, 2, 3, 4 }, y[2] = { 0, 0 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, 2), tw = tiny_tensor_2d(w, TINY_F32, 2, 2),
                ty = tiny_tensor_2d(y, TINY_F32, 1, 2);
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TLLM_OP_MIX_ROWS;
    op.in[0] = &tx;
    op.in[1] = &tw;
    op.out[0] = &ty;
    if (tiny_run(ctx, &op) || !(tiny_op_cost(&op).flops > 0)) return 0;
    return y[0] > 30.9f && y[0] < 31.1f && y[1] > 41.9f && y[1] < 42.1f;
}
#endif

int UNIT(void)
{
    float a[5] = { 1, 2, 3, 4, 5 }, b[5] = { 10, 20, 30, 40, 50 }, y[5] = { 0, 0, 0, 0, 0 };
    tiny_tensor ta = tiny_tensor_1d(a, TINY_F32, 5), tb = tiny_tensor_1d(b, TINY_F32, 5),
                ty = tiny_tensor_1d(y, TINY_F32, 5);
    const tiny_op_row *row = tiny_op_find("add");
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    tiny_rng rng = tiny_rng_make(1, 2);
    tiny_op op;
    int i, bad = 0;

    memset(&desc, 0, sizeof desc);
    memset(&op, 0, sizeof op);
#ifdef MY_ALLOCATOR
    desc.allocator.realloc_fn = unit_realloc;
#endif
    if (!row || strcmp(tiny_status_text(TINY_OK), "done")) return 1;
    if (tiny_rng_u32(&rng) == tiny_rng_u32(&rng)) return 2;
    if (tiny_ctx_open(&desc, &ctx)) return 3;
    op.kind = row->kind;
    op.in[0] = &ta;
    op.in[1] = &tb;
    op.out[0] = &ty;
    if (tiny_run(ctx, &op)) bad = 4;
    for (i = 0; i < 5 && !bad; i++)
        if (y[i] < 11.0f * (float)(i + 1) || y[i] > 11.0f * (float)(i + 1)) bad = 5;
    ty.dim[0] = 4;
    if (!bad && tiny_run(ctx, &op) == TINY_OK) bad = 6;
    if (!bad && !*tiny_ctx_message(ctx)) bad = 7;
    /* an omitted part is not found, is refused, and does not end the loop over the rest; a unit without the
     * implementation does not depend on the choice of the other one */
#if !defined UNIT_ALL && !defined UNIT_MORE && (defined SHAPE_L || defined SHAPE_G)
    op.kind = TINY_OP_FFT;
    if (!bad && (tiny_op_find("fft") || tiny_op_row_of(TINY_OP_FFT) || tiny_run(ctx, &op) == TINY_OK)) bad = 8;
#elif defined UNIT_ALL
    if (!bad && (!tiny_op_find("fft") || !tiny_op_find("spmm"))) bad = 8;
#endif
    for (i = 0; tiny_op_at((size_t)i); i++) {}
    if (!bad && (tiny_op_at((size_t)i - 1) == NULL || !tiny_op_find("rope") || !tiny_op_find("attention") || i < 30))
        bad = 9;
        /* each header has its own operations, and the second implementation of a unit those of both; the kind alone
         * runs one. a2q is of the LAB: a graph program without that tier does not have it */
#ifdef UNIT_ENDS_IN_LLM
    if (!bad && !unit_knows("mix_rows", TLLM_OP_MIX_ROWS)) bad = 12;
    if (!bad && !unit_mixes(ctx)) bad = 13;
#endif
#if defined UNIT_ALL && (defined SHAPE_G || defined SHAPE_LG || defined SHAPE_GL)
    if (!bad && !unit_knows("a2q", TGNN_OP_A2Q)) bad = 14;
#elif !defined UNIT_MORE && (defined SHAPE_G || defined SHAPE_LG || defined SHAPE_GL)
    if (!bad && (tiny_op_find("a2q") || tiny_op_row_of(TGNN_OP_A2Q))) bad = 14;
#endif
#if defined SHAPE_LG || defined SHAPE_GL
    if (!bad && (!unit_knows("mix_rows", TLLM_OP_MIX_ROWS) || !unit_mixes(ctx))) bad = 15;
#elif defined UNIT_ALL && (defined SHAPE_L || defined SHAPE_G)
    if (!bad && unit_knows("mix_rows", 1004) && unit_knows("a2q", 2001)) bad = 16;
#endif
    op.kind = 2999;
    if (!bad && (tiny_run(ctx, &op) != TINY_E_ARGUMENT || tiny_op_row_of(2999) || tiny_op_row_of(1000) ||
                 tiny_op_row_of(TINY_OP_BASE_GNN)))
        bad = 17;
#if defined TINYI_FORMAT_H && (defined TINY_ONLY_MODELS || defined TINYLLM_NO_FLASH)
    if (!bad && (tiny_op_find("flash_matmul") || tiny_op_row_of(TLLM_OP_FLASH_MATMUL))) bad = 18;
#endif
#ifdef TINYI_FORMAT_H
#ifdef TINYLLM_FEW_FORMATS
    if (!bad && (tllm_format_by_name("Q5_K") || tllm_format_of(TLLM_FORMAT_IQ2_S) || !tllm_format_by_name("Q6_K")))
        bad = 10;
#else
    if (!bad && (!tllm_format_by_name("Q5_K") || !tllm_format_of(TLLM_FORMAT_IQ2_S) || !tllm_format_by_name("Q6_K")))
        bad = 10;
#endif
#if (defined UNIT_ALL || defined TINY_WITH_CONFORM) && \
    !defined TINY_NO_CONFORM /* the kit uses only formats that are present and can be packed */
    {
        const tiny_op_row *rows[2] = { NULL, NULL };
        tiny_conform_desc kit;
        int n_failed = 0;
        memset(&kit, 0, sizeof kit);
        rows[0] = tllm_matmul_row();
        kit.rows = rows;
        kit.n_cases = 21;
        if (!bad && (tiny_conform(ctx, &kit, &n_failed) || n_failed)) bad = 11;
    }
#endif
#endif
    tiny_ctx_close(ctx);
    return bad;
}
#endif
