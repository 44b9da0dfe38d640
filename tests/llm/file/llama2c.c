/* tests/llm/file/llama2c.c - the first .bin layout of llama2.c: the same keys, tokens and weights as the GGUF file of
 * the model
 *
 * The refused ones are in tests/fuzz/corpus/llama2c too; T_CORPUS=folder in the environment writes them again. */
#include "t.h"
#include "llm/file/kit.h"

static void same_value(const tllm_meta *a, const tllm_meta *b)
{
    size_t i;
    if (!T_TRUE(a && b && a->type == b->type && a->item_type == b->item_type && a->count == b->count)) return;
    for (i = 0; i < a->count; i++) {
        tllm_text s, t;
        double x, y;
        if (tllm_meta_text(a, i, &s)) T_TRUE(tllm_meta_text(b, i, &t) && s.n == t.n && !memcmp(s.at, t.at, s.n));
        else T_TRUE(tllm_meta_f64(a, i, &x) && tllm_meta_f64(b, i, &y) && x == y);
    }
}

static void test_stories(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *bin = t_shared("data/tinystories/stories260K.bin"),
               *tok = bin ? t_shared("data/tinystories/tok512.bin") : NULL;
    const char *gguf = bin ? t_shared("data/tinystories/stories260K-f32.gguf") : NULL;
    tllm_gguf *a = NULL, *b = NULL;
    size_t i, n_equal = 0;
    if (bin && tok && gguf && T_OK(tllm_llama2c_open(ctx, bin, tok, &a)) && T_OK(tllm_gguf_open(ctx, gguf, &b))) {
        T_TRUE(kit_walk(a) == NULL);
        T_EQ_INT(tllm_file_kind(a), TLLM_FILE_LLAMA2C);
        for (i = 0; i < tllm_gguf_n_meta(b); i++) {
            char key[100];
            const tllm_meta *m = tllm_gguf_meta_at(b, i);
            (void)snprintf(key, sizeof key, "%.*s", (int)m->key.n, m->key.at);
            if (strcmp(key, "general.name")) same_value(tllm_gguf_find(a, key), m);
        }
        T_EQ_INT(tllm_gguf_n_tensors(a), tllm_gguf_n_tensors(b));
        for (i = 0; i < tllm_gguf_n_tensors(b); i++) {
            char name[100];
            const tllm_gguf_tensor *t = tllm_gguf_tensor_at(b, i), *s;
            (void)snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.at);
            s = tllm_gguf_tensor_find(a, name);
            if (T_TRUE(s && s->type == t->type && s->rank == t->rank && s->dim[0] == t->dim[0] &&
                       s->dim[1] == t->dim[1] && s->bytes == t->bytes))
                n_equal += (size_t)T_TRUE(!memcmp(s->data, t->data, t->bytes));
        }
        printf("stories260K: %lu of %lu tensors of the .bin are those of the GGUF file\n", (unsigned long)n_equal,
               (unsigned long)tllm_gguf_n_tensors(b));
    }
    tllm_gguf_close(ctx, a);
    tllm_gguf_close(ctx, b);
    if (bin && T_OK(tllm_file_open(ctx, bin, &a))) {           /* finds tok512.bin next to it */
        const tllm_meta *m = tllm_gguf_find(a, "tokenizer.ggml.tokens");
        T_TRUE(m && m->count == 512);
        tllm_gguf_close(ctx, a);
    }
    t_close(ctx);
}

static const int32_t head[7] = KIT_LLAMA2C;

static void test_by_hand(void)
{
    static const char *const words[5] = { "<unk>", "<s>", "</s>", "<0x0A>", "\xe2\x96\x81" "a\xe2\x96\x81" "b" };
    static const int kinds[5] = { 2, 3, 3, 6, 1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    kit_image m, k;
    tllm_gguf *g;
    int32_t h[7];
    int i;
    kit_llama2c(&m, head, KIT_LLAMA2C_FLOATS);
    kit_llama2c_tokens(&k, 6, 5);
    T_TRUE(tllm_llama2c_bytes(m.b, m.n) == m.n && tllm_llama2c_bytes(m.b, 27) == 0);
    if (T_OK(tllm_llama2c_open_memory(ctx, m.b, m.n, k.b, k.n, &g))) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_find(g, "blk.1.ffn_down.weight");
        uint32_t bits;
        T_TRUE(kit_walk(g) == NULL);
        T_EQ_INT(tllm_gguf_n_tensors(g), 2 + 2 * 9);
        T_TRUE(t && t->dim[0] == 6 && t->dim[1] == 8 && t->rank == 2);
        if (t) {                            /* after all gates, the down matrix of layer 0 */
            bits = (uint32_t)t->data[0] | (uint32_t)t->data[1] << 8 | (uint32_t)t->data[2] << 16 |
                   (uint32_t)t->data[3] << 24;
            T_TRUE(bits == 0x3f000000u + 5 * 8 + 2 * (8 + 64 + 32 + 32 + 64 + 8) + 2 * 48 + 48);
        }
        for (i = 0; i < 5; i++) {
            tllm_text s;
            int64_t v;
            double d;
            T_TRUE(tllm_meta_text(tllm_gguf_find(g, "tokenizer.ggml.tokens"), (size_t)i, &s) &&
                   tllm_text_is(s, words[i]));
            T_TRUE(tllm_meta_i64(tllm_gguf_find(g, "tokenizer.ggml.token_type"), (size_t)i, &v) && v == kinds[i]);
            T_TRUE(tllm_meta_f64(tllm_gguf_find(g, "tokenizer.ggml.scores"), (size_t)i, &d) && d == -1.0);
        }
        T_TRUE(!tllm_gguf_tensor_find(g, "output.weight"));
        tllm_gguf_close(ctx, g);
    }
    if (T_OK(tllm_file_open_memory(ctx, m.b, m.n, &g))) {      /* recognised by its size, without a tokenizer */
        T_TRUE(!tllm_gguf_find(g, "tokenizer.ggml.tokens") && tllm_file_kind(g) == TLLM_FILE_LLAMA2C);
        tllm_gguf_close(ctx, g);
    }
    kit_free(&m);
    memcpy(h, head, sizeof h);
    h[5] = -5;                              /* a separate output matrix */
    kit_llama2c(&m, h, KIT_LLAMA2C_FLOATS + 40);
    if (T_OK(tllm_llama2c_open_memory(ctx, m.b, m.n, NULL, 0, &g))) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_find(g, "output.weight");
        T_TRUE(t && t->dim[0] == 8 && t->dim[1] == 5 && t->data + 160 == m.b + m.n);
        tllm_gguf_close(ctx, g);
    }
    kit_free(&m);
    kit_free(&k);
    t_close(ctx);
}

static void test_tokenizer_beside_model(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    kit_image m, k;
    tllm_gguf *g;
    kit_llama2c(&m, head, KIT_LLAMA2C_FLOATS);
    kit_llama2c_tokens(&k, 6, 6);                       /* one token too many: left alone */
    T_OK(tiny_file_write(ctx, "tiny-l2c.bin", m.b, m.n));
    T_OK(tiny_file_write(ctx, "tok5.bin", k.b, k.n));
    if (T_OK(tllm_file_open(ctx, "tiny-l2c.bin", &g))) {
        T_TRUE(!tllm_gguf_find(g, "tokenizer.ggml.tokens"));
        tllm_gguf_close(ctx, g);
    }
    kit_free(&k);
    kit_llama2c_tokens(&k, 6, 5);
    T_OK(tiny_file_write(ctx, "tok5.bin", k.b, k.n));
    if (T_OK(tllm_file_open(ctx, "tiny-l2c.bin", &g))) {
        T_TRUE(tllm_gguf_find(g, "tokenizer.ggml.tokens") != NULL);
        tllm_gguf_close(ctx, g);
    }
    T_STATUS(tllm_llama2c_open(ctx, "tiny-l2c.bin", "none.bin", &g), TINY_E_IO, "none.bin: cannot be opened");
    T_STATUS(tllm_llama2c_open(ctx, NULL, NULL, &g), TINY_E_ARGUMENT, "the path");
    T_OK(tiny_file_write(ctx, "tiny-l2c.bin", m.b, m.n - 1));
    T_STATUS(tllm_file_open(ctx, "tiny-l2c.bin", &g), TINY_E_FORMAT, "tiny-l2c.bin: the .bin header implies");
    T_OK(tiny_file_write(ctx, "tiny-l2c.xyz", m.b, m.n - 1));
    T_STATUS(tllm_file_open(ctx, "tiny-l2c.xyz", &g), TINY_E_FORMAT,
             "tiny-l2c.xyz: is neither GGUF nor safetensors nor a .bin of llama2.c: it begins with 08 00");
    T_OK(tiny_file_write(ctx, "tiny-l2c.xyz", m.b, 7));
    T_STATUS(tllm_file_open(ctx, "tiny-l2c.xyz", &g), TINY_E_FORMAT, "has 7 bytes, too few for any model file");
    T_OK(tiny_file_write(ctx, "tiny-l2c.xyz", m.b, 0));
    T_STATUS(tllm_file_open(ctx, "tiny-l2c.xyz", &g), TINY_E_FORMAT, "has 0 bytes, too few for any model file");
    T_STATUS(tllm_file_open_memory(ctx, m.b, 0, &g), TINY_E_FORMAT, "memory: has 0 bytes, too few for any model file");
    T_STATUS(tllm_file_open_memory(ctx, m.b, 100, &g), TINY_E_FORMAT, "memory: is neither GGUF nor safetensors");
    T_STATUS(tllm_file_open_memory(ctx, NULL, 0, &g), TINY_E_ARGUMENT, "the bytes or the result");
    T_STATUS(tllm_file_open(ctx, NULL, &g), TINY_E_ARGUMENT, "the path");
    (void)remove("tiny-l2c.bin");
    (void)remove("tiny-l2c.xyz");
    (void)remove("tok5.bin");
    kit_free(&m);
    kit_free(&k);
    t_close(ctx);
}

static void test_hostile(void)
{
    static const struct { const char *file; int32_t h[7]; tiny_status status; const char *says;
    } row[] = { { "dim-0", { 0, 6, 2, 2, 1, 5, 3 }, TINY_E_FORMAT, "dim is 0 in the .bin header" },
                { "dim-negative", { -8, 6, 2, 2, 1, 5, 3 }, TINY_E_FORMAT, "dim is -8 in the .bin header" },
                { "hidden-0", { 8, 0, 2, 2, 1, 5, 3 }, TINY_E_FORMAT, "hidden_dim is 0" },
                { "layers-0", { 8, 6, 0, 2, 1, 5, 3 }, TINY_E_FORMAT, "n_layers is 0" },
                { "heads-0", { 8, 6, 2, 0, 1, 5, 3 }, TINY_E_FORMAT, "n_heads is 0" },
                { "kv-heads-0", { 8, 6, 2, 2, 0, 5, 3 }, TINY_E_FORMAT, "n_kv_heads is 0" },
                { "vocabulary-0", { 8, 6, 2, 2, 1, 0, 3 }, TINY_E_FORMAT, "vocab_size is 0" },
                { "vocabulary-int-min", { 8, 6, 2, 2, 1, INT32_MIN, 3 }, TINY_E_FORMAT, "vocab_size is -2147483648" },
                { "context-negative", { 8, 6, 2, 2, 1, 5, -1 }, TINY_E_FORMAT, "seq_len is -1" },
                { "heads-odd",
                  { 8, 6, 2, 3, 1, 5, 3 },
                  TINY_E_FORMAT,
                  "dim 8 and n_heads 3 of the .bin header do not give heads of an even size" },
                { "head-size-1", { 8, 6, 2, 8, 1, 5, 3 }, TINY_E_FORMAT, "do not give heads of an even size" },
                { "kv-heads-no-divisor",
                  { 16, 6, 2, 4, 3, 5, 3 },
                  TINY_E_FORMAT,
                  "n_heads 4 of the .bin header is not a multiple of n_kv_heads 3" },
                { "layers-2e31", { 8, 6, 2147483647, 2, 1, 5, 3 }, TINY_E_FORMAT, "the .bin header implies" },
                { "all-2e31",
                  { 2147483646, 2147483647, 2147483647, 1, 1, 2147483647, 2147483647 },
                  TINY_E_FORMAT,
                  "the .bin header implies 18446744073709551615 bytes" },
                { "version-1", { 0x616b3432, 1, 2, 2, 1, 5, 3 }, TINY_E_UNSUPPORTED, "is a .bin of a later version" },
                { "one-row-more", { 8, 6, 2, 2, 1, 6, 3 }, TINY_E_FORMAT, "the .bin header implies" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *corpus = getenv("T_CORPUS");
    unsigned n_refused = 0;
    size_t i;
    kit_image m, k;
    tllm_gguf *g;
    char path[300];
    for (i = 0; i < T_COUNT(row); i++) {
        kit_llama2c(&m, row[i].h, KIT_LLAMA2C_FLOATS);
        if (t_status(tllm_llama2c_open_memory(ctx, m.b, m.n, NULL, 0, &g), row[i].status, row[i].says, __FILE__,
                     __LINE__, row[i].file) &&
            !g)
            n_refused++;
        (void)snprintf(path, sizeof path, "%s/llama2c/%s.bin", corpus ? corpus : "", row[i].file);
        if (corpus) T_OK(tiny_file_write(ctx, path, m.b, 28 + 64));
        kit_free(&m);
    }
    printf("hostile .bin files: %u of %u refused, each with its sentence\n", n_refused, (unsigned)T_COUNT(row));
    kit_llama2c(&m, head, KIT_LLAMA2C_FLOATS);
    kit_llama2c_tokens(&k, 6, 5);
    (void)snprintf(path, sizeof path, "%s/llama2c/good.bin", corpus ? corpus : "");
    if (corpus) {                           /* the tokenizer first, its length before it: as the fuzz target cuts it */
        kit_image both = { NULL, 0, 0 };
        kit_le(&both, k.n, 2);
        kit_bytes(&both, k.b, k.n);
        kit_bytes(&both, m.b, m.n);
        T_OK(tiny_file_write(ctx, path, both.b, both.n));
        kit_free(&both);
    }
    T_STATUS(tllm_llama2c_open_memory(ctx, m.b, m.n, k.b, 3, &g), TINY_E_FORMAT,
             "truncated in the length of the longest token");
    T_STATUS(tllm_llama2c_open_memory(ctx, m.b, m.n, k.b, 20, &g), TINY_E_FORMAT,
             "the model has 5 tokens; the 20 bytes of this tokenizer hold at most 2");
    T_STATUS(tllm_llama2c_open_memory(ctx, m.b, m.n, k.b, k.n - 1, &g), TINY_E_FORMAT,
             "token 4 of 5 has 4 bytes; 3 are left");
    k.b[8] = 0xff;
    k.b[11] = 0xff;
    T_STATUS(tllm_llama2c_open_memory(ctx, m.b, m.n, k.b, k.n, &g), TINY_E_FORMAT,
             "token 0 of 5 has 4278190335 bytes");
    kit_free(&k);
    kit_llama2c_tokens(&k, 5, 5);
    T_STATUS(tllm_llama2c_open_memory(ctx, m.b, m.n, k.b, k.n, &g), TINY_E_FORMAT, "the limit is 5");
    kit_free(&k);
    kit_llama2c_tokens(&k, 6, 6);
    T_STATUS(tllm_llama2c_open_memory(ctx, m.b, m.n, k.b, k.n, &g), TINY_E_FORMAT,
             "12 bytes are left after the 5 tokens of the model");
    kit_free(&k);
    kit_free(&m);
    t_close(ctx);
}

static void test_cut_and_flipped(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t n, held = tiny_ctx_bytes(ctx);
    kit_image m, k;
    unsigned char *at, *tok;
    kit_llama2c(&m, head, KIT_LLAMA2C_FLOATS);
    kit_llama2c_tokens(&k, 6, 5);
    at = (unsigned char *)t_guarded_bytes(m.n);
    tok = (unsigned char *)t_guarded_bytes(k.n);
    for (n = 0; n < m.n; n++) {
        tllm_gguf *g;
        memcpy(at + m.n - n, m.b, n);
        T_TRUE(tllm_llama2c_open_memory(ctx, at + m.n - n, n, NULL, 0, &g) == TINY_E_FORMAT && !g);
    }
    memcpy(at, m.b, m.n);
    for (n = 0; n < k.n; n++) {
        tllm_gguf *g;
        memcpy(tok + k.n - n, k.b, n);
        T_TRUE(tllm_llama2c_open_memory(ctx, at, m.n, tok + k.n - n, n, &g) == TINY_E_FORMAT && !g);
    }
    for (n = 0; n < 8 * (28 + k.n); n++) {
        tllm_gguf *g;
        memcpy(at, m.b, m.n);
        memcpy(tok, k.b, k.n);
        if (n < 8 * 28) at[n / 8] = (unsigned char)(at[n / 8] ^ 1u << n % 8);
        else tok[n / 8 - 28] = (unsigned char)(tok[n / 8 - 28] ^ 1u << n % 8);
        if (!tllm_llama2c_open_memory(ctx, at, m.n, tok, k.n, &g)) T_TRUE(kit_walk(g) == NULL);
        else T_TRUE(*tiny_ctx_message(ctx) && !g);
        tllm_gguf_close(ctx, g);
    }
    T_EQ_INT(tiny_ctx_bytes(ctx), held);
    kit_free(&m);
    kit_free(&k);
    t_close(ctx);
}

static void test_each_allocation(void)
{
    kit_image m, k;
    kit_llama2c(&m, head, KIT_LLAMA2C_FLOATS);
    kit_llama2c_tokens(&k, 6, 5);
    T_EACH_ALLOCATION({
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&d, &ctx)) {
            tllm_gguf *g;
            tiny_status st = tllm_llama2c_open_memory(ctx, m.b, m.n, k.b, k.n, &g);
            T_TRUE((!st && g) || (st == TINY_E_MEMORY && !g));
            tllm_gguf_close(ctx, g);
            if (!tiny_file_write(ctx, "tiny-each.bin", m.b, m.n)) {
                st = tllm_file_open(ctx, "tiny-each.bin", &g);
                T_TRUE((!st && g) || (st == TINY_E_MEMORY && !g));
                tllm_gguf_close(ctx, g);
            }
            tiny_ctx_close(ctx);
        }
    })
    (void)remove("tiny-each.bin");
    kit_free(&m);
    kit_free(&k);
}

int main(void)
{
    T_RUN(test_stories);
    T_RUN(test_by_hand);
    T_RUN(test_tokenizer_beside_model);
    T_RUN(test_hostile);
    T_RUN(test_cut_and_flipped);
    T_RUN(test_each_allocation);
    return t_done();
}
