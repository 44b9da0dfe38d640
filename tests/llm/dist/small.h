/* tests/llm/dist/small.h - a small model with grouped attention, in memory, and its text on one rank */
#ifndef T_SMALL_H
#define T_SMALL_H
#include "rank.h"

/* mixed: the format of attn_v, ffn_down and output; 0: as the others */
typedef struct small_shape { int d, heads, kv, dk, ff, layers, vocab, format, mixed; } small_shape;
typedef struct small { tiny_ctx *ctx; tllm_writer *w; const void *at; size_t n; small_shape is; } small;

static const small_shape small_plain = { 64, 16, 8, 8, 96, 2, 80, TLLM_FORMAT_F32, 0 };
T_FN int32_t small_prompt(int i, int vocab) { return (int32_t)((i * 29 + 7) % vocab); }

T_FN void small_put(small *b, int layer, const char *name, int rows, int columns)
{
    const int other = b->is.mixed && (!strcmp(name, "attn_v.weight") || !strcmp(name, "ffn_down.weight") ||
                                      !strcmp(name, "output.weight"));
    const tllm_format *f = tllm_format_of(rows < 2 ? TLLM_FORMAT_F32 : other ? b->is.mixed : b->is.format);
    const size_t n = (size_t)rows * (size_t)columns;
    float *x = (float *)t_keep(n * sizeof *x);
    void *data = t_keep(tllm_format_bytes(f, n));
    char *full = (char *)t_keep(80);
    const float size = 2.0f / sqrtf((float)columns);
    uint64_t dim[2];
    tllm_text text;
    size_t i;
    if (layer < 0) (void)snprintf(full, 80, "%s", name);
    else (void)snprintf(full, 80, "blk.%d.%s", layer, name);
    for (i = 0; i < n; i++) x[i] = rows > 1 ? t_rand_float(-size, size) : 1.0f + t_rand_float(-0.2f, 0.2f);
    f->pack(x, data, n, NULL);
    text.at = full;
    text.n = strlen(full);
    dim[0] = (uint64_t)columns;
    dim[1] = (uint64_t)rows;
    T_OK(tllm_writer_put_tensor(b->ctx, b->w, text, f->id, rows > 1 ? 2 : 1, dim, data));
}

/* path NULL: in memory */
T_FN int small_make(small *b, const small_shape *is, const char *path)
{
    tllm_writer_desc d;
    int l;
    memset(&d, 0, sizeof d);
    memset(b, 0, sizeof *b);
    b->is = *is;
    b->ctx = t_ctx(TINY_TARGET_AUTO, 1);
    d.path = path;
    if (!T_OK(tllm_writer_open(b->ctx, &d, &b->w))) return 0;
    T_OK(tllm_writer_put_text(b->ctx, b->w, "general.architecture", "llama"));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.embedding_length", (uint32_t)is->d));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.block_count", (uint32_t)is->layers));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.context_length", 256));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.feed_forward_length", (uint32_t)is->ff));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.attention.head_count", (uint32_t)is->heads));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.attention.head_count_kv", (uint32_t)is->kv));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.attention.key_length", (uint32_t)is->dk));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.attention.value_length", (uint32_t)is->dk));
    T_OK(tllm_writer_put_f32(b->ctx, b->w, "llama.attention.layer_norm_rms_epsilon", 1e-5f));
    small_put(b, -1, "token_embd.weight", is->vocab, is->d);
    small_put(b, -1, "output_norm.weight", 1, is->d);
    small_put(b, -1, "output.weight", is->vocab, is->d);
    for (l = 0; l < is->layers; l++) {
        small_put(b, l, "attn_norm.weight", 1, is->d);
        small_put(b, l, "attn_q.weight", is->heads * is->dk, is->d);
        small_put(b, l, "attn_k.weight", is->kv * is->dk, is->d);
        small_put(b, l, "attn_v.weight", is->kv * is->dk, is->d);
        small_put(b, l, "attn_output.weight", is->d, is->heads * is->dk);
        small_put(b, l, "ffn_norm.weight", 1, is->d);
        small_put(b, l, "ffn_gate.weight", is->ff, is->d);
        small_put(b, l, "ffn_up.weight", is->ff, is->d);
        small_put(b, l, "ffn_down.weight", is->d, is->ff);
    }
    if (!T_OK(tllm_writer_finish(b->ctx, b->w))) return 0;
    if (!path) b->at = tllm_writer_memory(b->w, &b->n);
    return 1;
}
T_FN void small_unmake(small *b)
{
    tllm_writer_close(b->ctx, b->w);
    t_close(b->ctx);
}

T_FN int32_t small_best(const float *logits, int n)
{
    int32_t i, b = 0;
    for (i = 1; i < n; i++) if (logits[i] > logits[b]) b = i;
    return b;
}
#endif
