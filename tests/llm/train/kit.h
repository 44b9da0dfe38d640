/* tests/llm/train/kit.h - for the tests of trainers: small decoders of each form, and stories as tokens */
#ifndef TRAIN_KIT_H
#define TRAIN_KIT_H

T_FN tllm_train_desc small_desc(void)
{
    tllm_train_desc d;
    memset(&d, 0, sizeof d);
    d.embedding = 16;
    d.layers = 2;
    d.heads = 4;
    d.kv_heads = 2;
    d.hidden = 24;
    d.context = 20;
    d.sequences = 4;
    d.steps = 40;
    d.warmup = 5;
    return d;
}

/* a trainer of the same weights as t, in another context; NULL: it failed */
T_FN tllm_trainer *trainer_like(tiny_ctx *ctx, const tllm_train_desc *d, tllm_trainer *t)
{
    tllm_trainer *other = NULL;
    tiny_tensor from, to;
    char name[64];
    size_t i;
    if (!T_OK(tllm_trainer_open(ctx, d, &other))) return NULL;
    for (i = 0; tllm_trainer_tensor(other, i, name, &to, NULL); i++) {
        (void)tllm_trainer_tensor(t, i, name, &from, NULL);
        memcpy(to.data, from.data, (size_t)tiny_tensor_count(&to) * sizeof(float));
    }
    return other;
}

T_FN tllm_train_desc form_desc(int form)
{
    tllm_train_desc d = small_desc();
    d.form = form;
    if (form == TLLM_TRAIN_LATENT) {
        d.kv_heads = 0;                     /* one for each head */
        d.latent = 10;
        d.rotary = 6;
    }
    if (form == TLLM_TRAIN_GATED) {
        d.kv_heads = 0;
        d.rank = 6;
    }
    return d;
}

/* tokens of stories, each sequence from its beginning */
T_FN int32_t *story_tokens(const tllm_train_desc *d, uint64_t seed)
{
    int32_t *tokens = (int32_t *)t_keep((size_t)(d->sequences * (d->context + 1)) * sizeof *tokens);
    int s, i;
    for (s = 0; s < d->sequences; s++) {
        tllm_story story = tllm_story_start(seed + (uint64_t)s);
        tokens[s * (d->context + 1)] = TLLM_STORY_END;
        for (i = 1; i <= d->context; i++) tokens[s * (d->context + 1) + i] = tllm_story_draw(&story, NULL, NULL);
    }
    return tokens;
}

#endif
