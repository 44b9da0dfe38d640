/* tests/llm/compress/prune.c - one-shot pruning: rows worked by hand, and refused arguments */
#include "t.h"

static void test_prune(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float w[8] = { 3, -1, 2, 0.5f, -1, 1, 1, NAN };
    const float norm[4] = { 1, 1, 0.1f, 8 }, none[4] = { 1, -1, 1, 1 };
    tiny_tensor t = tiny_tensor_2d(w, TINY_F32, 2, 4);
    T_OK(tllm_csl_prune(ctx, &t, norm, 0.5));
    T_TRUE(w[0] == 3 && w[1] == 0 && w[2] == 0 && w[3] == 0.5f && w[5] == 1 && w[6] == 0 && w[4] == 0 && w[7] != w[7]);
    T_OK(tllm_csl_prune(ctx, &t, NULL, 0.75));
    T_TRUE(w[0] == 3 && w[3] == 0 && w[5] == 0 && w[7] != w[7]);
    T_STATUS(tllm_csl_prune(ctx, &t, NULL, 1.5), TINY_E_ARGUMENT, "a share of 1.5");
    T_STATUS(tllm_csl_prune(ctx, &t, NULL, (double)NAN), TINY_E_ARGUMENT, "a share of");
    T_STATUS(tllm_csl_prune(ctx, &t, none, 0.5), TINY_E_NUMERIC, "the norm of column 1 is -1");
    T_STATUS(tllm_csl_prune(ctx, NULL, NULL, 0.5), TINY_E_ARGUMENT, "a matrix of f32");
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_prune);
    return t_done();
}
