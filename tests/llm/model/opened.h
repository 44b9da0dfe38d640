/* tests/llm/model/opened.h - a model file of the tests, opened on a target; t.h comes first */
#ifndef OPENED_H
#define OPENED_H

/* llama, 8 heads of 32, 2 key heads, Q8_0, 544 tokens */
static const char story[] = "examples/models/story.gguf";

typedef struct model_at { tiny_ctx *ctx; tllm_gguf *file; tllm_model *model; tllm_about about; } model_at;

static int open_at(model_at *m, tiny_target target, int threads, const char *path)
{
    memset(m, 0, sizeof *m);
    if (path != story && (path = t_one_of(path)) == NULL) return 0;
    m->ctx = t_ctx(target, threads);
    if (!T_OK(tllm_gguf_open(m->ctx, path, &m->file)) || !T_OK(tllm_model_open(m->ctx, m->file, &m->model))) return 0;
    tllm_model_about(m->model, &m->about);
    return 1;
}
static void close_at(model_at *m)
{
    tllm_model_close(m->ctx, m->model);
    tllm_gguf_close(m->ctx, m->file);
    t_close(m->ctx);
}
#endif
