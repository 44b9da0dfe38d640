/* tests/llm/compress/divergence.h - how far a changed story model is from the one that it was made of */
#ifndef DIVERGENCE_H
#define DIVERGENCE_H
#include "t.h"

static double divergence(tiny_ctx *ctx, const tllm_gguf *base, const tllm_gguf *file)
{
    tllm_model *model[2] = { NULL, NULL };
    tllm_judge_desc d;
    tllm_judgement j;
    memset(&d, 0, sizeof d);
    d.stories = 60;
    d.samples = d.greedy = -1;
    memset(&j, 0, sizeof j);
    if (T_OK(tllm_model_open(ctx, base, &model[0])) && T_OK(tllm_model_open(ctx, file, &model[1])))
        T_OK(tllm_judge(ctx, model[1], model[0], &d, &j));
    tllm_model_close(ctx, model[0]);
    tllm_model_close(ctx, model[1]);
    return j.kl;
}

#endif
