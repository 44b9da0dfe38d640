/* tests/llm/file/kit.h - for the tests and the fuzz targets of model files: bytes put together by hand, a walk over
 * everything that an opened file hands out, and its use as a model */
#ifndef KIT_H
#define KIT_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined __GNUC__ || defined __clang__
#define KIT_FN static __attribute__((unused))
#else
#define KIT_FN static
#endif

/* ---- bytes, little endian ---------------------------------------------------------------------------------------- */

typedef struct kit_image { unsigned char *b; size_t n, room; } kit_image;

KIT_FN void kit_bytes(kit_image *m, const void *p, size_t n)
{
    if (m->n + n > m->room) {
        m->room = 2 * (m->n + n) + 256;
        m->b = (unsigned char *)realloc(m->b, m->room);
        if (!m->b) { puts("the test itself has no memory"); exit(2); }
    }
    if (n) memcpy(m->b + m->n, p, n);
    m->n += n;
}
KIT_FN void kit_le(kit_image *m, uint64_t v, size_t n)
{
    unsigned char p[8];
    size_t i;
    for (i = 0; i < n; i++) p[i] = (unsigned char)(v >> 8 * i);
    kit_bytes(m, p, n);
}
KIT_FN void kit_put_le(unsigned char *p, uint64_t v, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) p[i] = (unsigned char)(v >> 8 * i);
}
KIT_FN uint64_t kit_get_le(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    while (n) v = v << 8 | p[--n];
    return v;
}
KIT_FN void kit_u32(kit_image *m, uint32_t v) { kit_le(m, v, 4); }
KIT_FN void kit_u64(kit_image *m, uint64_t v) { kit_le(m, v, 8); }
KIT_FN void kit_text(kit_image *m, const char *s)
{
    kit_u64(m, strlen(s));
    kit_bytes(m, s, strlen(s));
}
KIT_FN tllm_text kit_name(const char *s)
{
    tllm_text t;
    t.at = s;
    t.n = strlen(s);
    return t;
}
KIT_FN void kit_free(kit_image *m)
{
    free(m->b);
    memset(m, 0, sizeof *m);
}

/* XXH64 with seed 0, written from its description, for tests that correct the checksum of a changed state */
KIT_FN uint64_t kit_rotl(uint64_t x, int n) { return x << n | x >> (64 - n); }
KIT_FN uint64_t kit_xxh64(const unsigned char *p, size_t n)
{
    static const uint64_t prime[5] = { UINT64_C(11400714785074694791), UINT64_C(14029467366897019727),
                                       UINT64_C(1609587929392839161), UINT64_C(9650029242287828579),
                                       UINT64_C(2870177450012600261) };
    uint64_t acc[4], h = prime[4];
    size_t left = n;
    int i;
    acc[0] = prime[0] + prime[1];
    acc[1] = prime[1];
    acc[2] = 0;
    acc[3] = 0 - prime[0];
    for (; left >= 32; left -= 32)
        for (i = 0; i < 4; i++, p += 8) acc[i] = kit_rotl(acc[i] + kit_get_le(p, 8) * prime[1], 31) * prime[0];
    if (n >= 32) {
        h = kit_rotl(acc[0], 1) + kit_rotl(acc[1], 7) + kit_rotl(acc[2], 12) + kit_rotl(acc[3], 18);
        for (i = 0; i < 4; i++) h = (h ^ kit_rotl(acc[i] * prime[1], 31) * prime[0]) * prime[0] + prime[3];
    }
    h += n;
    for (; left >= 8; left -= 8, p += 8)
        h = kit_rotl(h ^ kit_rotl(kit_get_le(p, 8) * prime[1], 31) * prime[0], 27) * prime[0] + prime[3];
    for (; left >= 4; left -= 4, p += 4) h = kit_rotl(h ^ kit_get_le(p, 4) * prime[0], 23) * prime[1] + prime[2];
    for (; left; left--, p++) h = kit_rotl(h ^ *p * prime[4], 11) * prime[0];
    h = (h ^ h >> 33) * prime[1];
    h = (h ^ h >> 29) * prime[2];
    return h ^ h >> 32;
}

/* ---- GGUF -------------------------------------------------------------------------------------------------------- */

KIT_FN void kit_head(kit_image *m, uint32_t version, uint64_t n_tensors, uint64_t n_keys)
{
    kit_bytes(m, "GGUF", 4);
    kit_u32(m, version);
    kit_u64(m, n_tensors);
    kit_u64(m, n_keys);
}
KIT_FN void kit_key(kit_image *m, const char *key, uint32_t type)
{
    kit_text(m, key);
    kit_u32(m, type);
}
KIT_FN void kit_key_u32(kit_image *m, const char *key, uint32_t v)
{
    kit_key(m, key, TLLM_U32);
    kit_u32(m, v);
}
KIT_FN void kit_array(kit_image *m, const char *key, uint32_t item_type, uint64_t count)
{
    kit_key(m, key, TLLM_ARRAY);
    kit_u32(m, item_type);
    kit_u64(m, count);
}
KIT_FN void kit_tensor(kit_image *m, const char *name, uint32_t rank, uint64_t dim0, uint64_t dim1, uint32_t type,
                       uint64_t offset)
{
    uint32_t a;
    kit_text(m, name);
    kit_u32(m, rank);
    for (a = 0; a < rank; a++) kit_u64(m, a == 0 ? dim0 : a == 1 ? dim1 : 1);
    kit_u32(m, type);
    kit_u64(m, offset);
}
KIT_FN void kit_pad(kit_image *m, size_t alignment)
{
    while (m->n % alignment) kit_le(m, 0, 1);
}
KIT_FN void kit_data(kit_image *m, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) kit_le(m, i * 37 + 1, 1);
}

/* ---- safetensors, and the .bin of llama2.c with its tokenizer ---------------------------------------------------- */

KIT_FN void kit_safetensors(kit_image *m, const char *json, size_t n_data)
{
    memset(m, 0, sizeof *m);
    kit_u64(m, strlen(json));
    kit_bytes(m, json, strlen(json));
    kit_data(m, n_data);
}

/* dim 8, hidden 6, 2 layers, 2 heads, 1 key/value head, 5 tokens, 3 positions */
#define KIT_LLAMA2C { 8, 6, 2, 2, 1, 5, 3 }
#define KIT_LLAMA2C_LAYER (8 + 64 + 32 + 32 + 64 + 8 + 48 * 3)
#define KIT_LLAMA2C_FLOATS (5 * 8 + 2 * KIT_LLAMA2C_LAYER + 8 + 2 * 3 * 2)

KIT_FN void kit_llama2c(kit_image *m, const int32_t head[7], size_t n_floats)
{
    size_t i;
    memset(m, 0, sizeof *m);
    for (i = 0; i < 7; i++) kit_u32(m, (uint32_t)head[i]);
    for (i = 0; i < n_floats; i++) kit_u32(m, (uint32_t)(0x3f000000u + i));
}
KIT_FN void kit_llama2c_tokens(kit_image *m, uint32_t longest, int n)
{
    static const char *const words[] = { "<unk>", "\n<s>\n", "\n</s>\n", "<0x0A>", " a b", "more" };
    int i;
    memset(m, 0, sizeof *m);
    kit_u32(m, longest);
    for (i = 0; i < n; i++) {
        kit_u32(m, 0xbf800000u);
        kit_u32(m, (uint32_t)strlen(words[i]));
        kit_bytes(m, words[i], strlen(words[i]));
    }
}

/* ---- the walk: every value by every call, every tensor to its last byte; the fault, or NULL ---------------------- */

static volatile unsigned kit_sink;          /* so that no read is skipped */

KIT_FN const char *kit_walk(const tllm_gguf *g)
{
    size_t i, k;
    unsigned sum = 0;
    char name[300];
    for (i = 0; i < tllm_gguf_n_meta(g); i++) {
        const tllm_meta *m = tllm_gguf_meta_at(g, i);
        if (!m || !m->key.n) return "a key is missing";
        if (m->type != TLLM_ARRAY && (m->count != 1 || m->item_type != m->type)) return "a scalar is no scalar";
        for (k = 0; k < m->count; k++) {
            int64_t i64 = 0;
            uint64_t u64 = 0;
            double f64 = 0;
            int yes = 0, n = 0;
            tllm_text t;
            n += tllm_meta_i64(m, k, &i64);
            n += tllm_meta_u64(m, k, &u64);
            n += tllm_meta_f64(m, k, &f64);
            n += tllm_meta_bool(m, k, &yes);
            if (tllm_meta_text(m, k, &t)) {
                n++;
                if (t.n) sum += (unsigned char)t.at[0] + (unsigned char)t.at[t.n - 1];
            }
            if (!n) return "an item has no value";
            sum += (unsigned)i64 + (unsigned)u64 + (unsigned)yes + (f64 > 1);
        }
        {
            tllm_text t;
            double f64;
            if (tllm_meta_text(m, m->count, &t) || tllm_meta_f64(m, m->count, &f64))
                return "an item past the end has a value";
        }
        if (m->key.n < sizeof name && !memchr(m->key.at, 0, m->key.n)) {
            memcpy(name, m->key.at, m->key.n);
            name[m->key.n] = 0;
            if (tllm_gguf_find(g, name) != m) return "a key is not found by its name";
        }
    }
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        size_t at = tllm_gguf_offset(g, t);
        if (!t || t->rank < 0 || t->rank > TLLM_MAX_RANK) return "a tensor is missing or has no rank";
        if (t->part >= tllm_gguf_n_parts(g)) return "a tensor is in no part";
        if (at > tllm_gguf_bytes(g, t->part) || t->bytes > tllm_gguf_bytes(g, t->part) - at)
            return "a tensor is not inside its file";
        if (t->bytes) sum += t->data[0] + (unsigned)t->data[t->bytes / 2] + t->data[t->bytes - 1];
        if (!strcmp(tllm_type_name(t->type), "?")) return "a tensor has an unknown type";
        if (t->name.n < sizeof name && !memchr(t->name.at, 0, t->name.n)) {
            memcpy(name, t->name.at, t->name.n);
            name[t->name.n] = 0;
            if (tllm_gguf_tensor_find(g, name) != t) return "a tensor is not found by its name";
        }
    }
    if (tllm_gguf_meta_at(g, tllm_gguf_n_meta(g)) || tllm_gguf_tensor_at(g, tllm_gguf_n_tensors(g)))
        return "there is something past the end";
    kit_sink = sum;
    return NULL;
}

/* ---- use: read in full, then its vocabulary encodes and decodes a text, then a model runs one token -------------- */

/* the status of tllm_model_open; 1: a token was run */
typedef struct kit_used { tiny_status model; int ran; } kit_used;

/* the fault, or NULL; the sentence of a refused model stays in ctx */
KIT_FN const char *kit_use(tiny_ctx *ctx, const tllm_gguf *g, kit_used *used)
{
    static const char text[] = "ab \xe2\x96\x81<s> a\xff 12\n.";
    const char *wrong = kit_walk(g);
    tllm_vocab *v = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc d;
    tllm_about about;
    tllm_tokens t;
    tllm_bytes back;
    size_t bytes = 0;
    memset(used, 0, sizeof *used);
    memset(&d, 0, sizeof d);
    memset(&t, 0, sizeof t);
    memset(&back, 0, sizeof back);
    d.n_ctx = 4;
    if (wrong) return wrong;
    if (!tllm_vocab_open(ctx, g, &v)) {
        if (!tllm_encode(ctx, v, text, sizeof text - 1, TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL, &t) &&
            tllm_decode(ctx, v, t.id, t.n, 0, &back))
            wrong = "its own tokens are not decoded";
        tllm_tokens_free(ctx, &t);
        tllm_bytes_free(ctx, &back);
        tllm_vocab_close(ctx, v);
    } else if (v || !*tiny_ctx_message(ctx)) wrong = "a vocabulary is refused without a sentence";
    used->model = tllm_model_open(ctx, g, &model);
    if (used->model)
        return wrong ? wrong : model || !*tiny_ctx_message(ctx) ? "a model is refused without a sentence" : NULL;
    tllm_model_about(model, &about);
    if (!tllm_state_memory(ctx, model, &d, &bytes) && bytes < (size_t)1 << 26 && about.n_out < 1 << 16 &&
        !tllm_state_open(ctx, model, &d, &state)) {
        float *out = (float *)malloc((size_t)about.n_out * sizeof *out + 1);
        const int32_t one[1] = { 0 };
        if (!out) { puts("the test itself has no memory"); exit(2); }
        if (about.is_encoder || about.has_decoder || about.output != TLLM_LOGITS)
            used->ran = !tllm_forward_all(state, one, 1, about.has_decoder ? NULL : out);
        else used->ran = !tllm_forward(state, one, 1, 0, 1, out);
        free(out);
    }
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    return wrong;
}
#endif
