/* tests/llm/token/kit.h - for the tests of vocabularies: files of the oracle, and vocabularies written by hand */
#ifndef TOKEN_KIT_H
#define TOKEN_KIT_H

#define ORACLE "oracle/tokenizer"           /* under one of the folders of t_find */

/* a file of the oracle by its name, any other path unchanged */
T_FN const char *here(const char *path)
{
    const char *full = strncmp(path, "oracle/", 7) ? NULL : t_find(path);
    return full ? full : path;
}
T_FN char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(here(path), "rb");
    char *text = NULL;
    long bytes;
    if (!f) return NULL;
    if (!fseek(f, 0, SEEK_END) && (bytes = ftell(f)) >= 0 && !fseek(f, 0, SEEK_SET)) {
        text = (char *)t_keep((size_t)bytes + 1);
        *n = fread(text, 1, (size_t)bytes, f);
    }
    (void)fclose(f);
    return text;
}

T_FN tllm_vocab *open_vocab(tiny_ctx *ctx, const char *path, tllm_gguf **g)
{
    tllm_vocab *v = NULL;
    if (T_OK(tllm_gguf_open(ctx, here(path), g))) (void)T_OK(tllm_vocab_open(ctx, *g, &v));
    return v;
}

T_FN int have_oracle(void) { return t_find(ORACLE "/README.md") != NULL; }

enum { MOST = 400 };
typedef struct made {
    tllm_text text[MOST];
    float score[MOST];
    int32_t type[MOST], special[TLLM_SPECIAL_COUNT];
    tllm_vocab_desc d;
} made;

T_FN void start(made *m, const char *model, const char *pre)
{
    int i;
    memset(m, 0, sizeof *m);
    m->d.model = model;
    m->d.pre = pre;
    m->d.text = m->text;
    m->d.score = m->score;
    m->d.type = m->type;
    m->d.special = m->special;
    for (i = 0; i < TLLM_SPECIAL_COUNT; i++) m->special[i] = -1;
}
T_FN int32_t token(made *m, const char *text, float score, int32_t type)
{
    size_t i = m->d.n_tokens++;
    m->text[i].at = text;
    m->text[i].n = strlen(text);
    m->score[i] = score;
    m->type[i] = type;
    return (int32_t)i;
}

#endif
