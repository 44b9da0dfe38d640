/* tests/llm/model/apart.h - how far results are from those of another model */
#ifndef T_APART_H
#define T_APART_H
#include "t.h"
#include <math.h>

/* |a - b| over |a| */
T_FN double apart(const float *a, const float *b, size_t n)
{
    double off = 0, size = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)a[i] * (double)a[i];
    }
    return sqrt(off / size);
}

/* ---- models made of others ---- */

enum { TOKENS = 20 };

T_FN int all_of_it(void *user, const tllm_gguf_tensor *t)
{
    (void)user;
    return tllm_format_of(t->type) != NULL && t->rank >= 2 && t->dim[1] > 1;
}

/* a model that was written into memory */
typedef struct made { tllm_writer *w; tllm_gguf *file; } made;
T_FN int made_end(tiny_ctx *ctx, made *m)
{
    const void *bytes;
    size_t n;
    if (!T_OK(tllm_writer_finish(ctx, m->w))) return 0;
    bytes = tllm_writer_memory(m->w, &n);
    return T_OK(tllm_gguf_open_memory(ctx, bytes, n, &m->file));
}
/* its folds unchanged, and all matrices in floats */
T_FN int make(tiny_ctx *ctx, const tllm_folds *f, made *m)
{
    tllm_folds_edit all;
    memset(&all, 0, sizeof all);
    memset(m, 0, sizeof *m);
    all.wants = all_of_it;
    return T_OK(tllm_writer_open(ctx, NULL, &m->w)) && T_OK(tllm_folds_put(ctx, f, m->w, &all)) && made_end(ctx, m);
}
T_FN void drop(tiny_ctx *ctx, made *m)
{
    tllm_gguf_close(ctx, m->file);
    tllm_writer_close(ctx, m->w);
}

/* of a layer */
T_FN int is_matrix(const tllm_gguf_tensor *t)
{
    return t->rank == 2 && t->dim[1] > 1 && t->name.n > 4 && !memcmp(t->name.at, "blk.", 4);
}

/* the file with the matrices of its layers in a format; in floats the embedding too: then nothing rounds */
T_FN int packed(tiny_ctx *ctx, const tllm_gguf *g, int format, made *m)
{
    const int all = format == TLLM_FORMAT_F32;
    const tllm_format *f = tllm_format_of(format);
    size_t i;
    memset(m, 0, sizeof *m);
    T_OK(tllm_writer_open(ctx, NULL, &m->w));
    for (i = 0; i < tllm_gguf_n_meta(g); i++) T_OK(tllm_writer_put_meta(ctx, m->w, tllm_gguf_meta_at(g, i)));
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        T_OK(tllm_writer_put_tensor(ctx, m->w, t->name, is_matrix(t) || (all && t->rank == 2) ? format : t->type,
                                    t->rank, t->dim, NULL));
    }
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        const size_t n = (size_t)(t->dim[0] * t->dim[1]);
        float *x;
        unsigned char *q;
        if (!is_matrix(t) && !(all && t->rank == 2)) {
            T_OK(tllm_writer_data(ctx, m->w, t->data, t->bytes));
            continue;
        }
        x = (float *)malloc(n * sizeof *x);
        q = (unsigned char *)malloc(tllm_format_bytes(f, n));
        tllm_format_of(t->type)->unpack(t->data, x, n);
        f->pack(x, q, n, NULL);
        T_OK(tllm_writer_data(ctx, m->w, q, tllm_format_bytes(f, n)));
        free(x);
        free(q);
    }
    return made_end(ctx, m);
}

/* rows of results of a model that is in floats; how many numbers */
T_FN float *results(tiny_ctx *ctx, const tllm_gguf *file, size_t *n)
{
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc d;
    tllm_about about;
    int32_t token[TOKENS];
    float *y;
    int i;
    memset(&d, 0, sizeof d);
    d.n_ctx = 32;
    if (!T_OK(tllm_model_open(ctx, file, &model))) return NULL;
    tllm_model_about(model, &about);
    T_OK(tllm_state_open(ctx, model, &d, &state));
    for (i = 0; i < TOKENS; i++) token[i] = (7 * i * i + 3 * i + 1) % (int32_t)about.n_vocab;
    *n = (size_t)about.n_out * (about.output == TLLM_RANK ? 1 : TOKENS);
    y = t_guarded(*n);
    if (about.is_encoder) T_OK(tllm_forward_all(state, token, TOKENS, y));
    else T_OK(tllm_forward(state, token, TOKENS, 0, TOKENS, y));
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    return y;
}

/* fn for each model of the large oracle and of tests/golden, in a context of its own; returns their number */
typedef void (*model_fn)(tiny_ctx *ctx, const tllm_gguf *g, const char *name, void *arg);
T_FN int each_model(model_fn fn, void *arg)
{
    const char *index = t_shared("oracle/llm/index.tsv");
    static char line[65536], seen[256][80];
    int n = 0, n_seen = 0, k, i;
    /* the large oracle if present, then the models that only tests/golden has */
    for (k = 0; k < 2 && index; k++) {
        FILE *in = fopen(k ? "tests/golden/oracle/llm/index.tsv" : index, "r");
        while (in && fgets(line, sizeof line, in) && n_seen < 256) {
            char *name = seen[n_seen], path[120];
            const char *at;
            tllm_gguf *g = NULL;
            tiny_ctx *ctx;
            if (sscanf(line, "%79[^\t]", name) != 1 || !strcmp(name, "name")) continue;
            for (i = 0; i < n_seen && strcmp(seen[i], name); i++) {}
            if (i < n_seen++) continue;
            (void)snprintf(path, sizeof path, "oracle/llm/%s.gguf", name);
            at = t_shared(path);
            if (!at) continue;
            ctx = t_ctx(TINY_TARGET_AUTO, 1);
            if (T_OK(tllm_gguf_open(ctx, at, &g))) fn(ctx, g, name, arg);
            n++;
            tllm_gguf_close(ctx, g);
            t_close(ctx);
            t_free_blocks();
        }
        if (in) (void)fclose(in);
    }
    t_all_models(n);
    return n;
}

/* n tokens of stories */
T_FN void stories(int32_t *token, int n, uint64_t seed)
{
    tllm_story s = tllm_story_start(seed);
    int i;
    token[0] = TLLM_STORY_END;
    for (i = 1; i < n; i++) token[i] = tllm_story_draw(&s, NULL, NULL);
}

#endif
