/* tests/llm/model/corpus.c - a small model written by hand, and false statements in its file
 *
 * A row for each false statement, a file for each in tests/fuzz/corpus/gguf (T_CORPUS=folder writes them again), and
 * the sentence that refuses it, or the numbers that it gives. Then the model, one as a .bin of llama2.c with its
 * tokenizer, and a safetensors file, each with every bit flipped and cut at every byte: a file that still opens is read
 * in full, its vocabulary read and written, and one token run; no call holds more than twice the file and 1 MB. */
#include "t.h"
#include "llm/file/kit.h"

enum { D = 12, HEAD = 6, FF = 10, VOCAB = 12 };         /* heads of 6: no vector width divides them */

/* a key that gets another value; a tensor ("/" first) that is removed (NONE), or gets a type or a first dimension */
typedef enum lie_kind { KEEP, U32, I32, F32, TEXT, NO_ITEMS, NONE, TYPE, DIM, TOKENS } lie_kind;
typedef struct lie { const char *file, *what; lie_kind kind; double v; tiny_status status; const char *says; } lie;

static const lie lies[] = {
    { "head-size-6", "", KEEP, 0, TINY_OK, NULL },
    { "block-count-2e31", "llama.block_count", U32, 2147483647.0, TINY_E_FORMAT,
      "llama.block_count is 2147483647, not in 1..4096" },
    { "block-count-2e32", "llama.block_count", U32, 4294967295.0, TINY_E_FORMAT,
      "llama.block_count is 4294967295, not in 1..4096" },
    { "block-count-negative", "llama.block_count", I32, -1, TINY_E_FORMAT, "llama.block_count is -1, not in 1..4096" },
    { "block-count-513", "llama.block_count", U32, 513, TINY_E_FORMAT, "tensor blk.1.attn_norm.weight is missing" },
    { "block-count-4097", "llama.block_count", U32, 4097, TINY_E_FORMAT, "llama.block_count is 4097, not in 1..4096" },
    { "block-count-0", "llama.block_count", U32, 0, TINY_E_FORMAT, "llama.block_count is 0, not in 1..4096" },
    { "block-count-is-f32", "llama.block_count", F32, 1, TINY_E_FORMAT, "llama.block_count" },
    { "block-count-is-text", "llama.block_count", TEXT, 0, TINY_E_FORMAT, "llama.block_count" },
    { "heads-0", "llama.attention.head_count", U32, 0, TINY_E_FORMAT, "head_count" },
    { "heads-2e32", "llama.attention.head_count", U32, 4294967295.0, TINY_E_FORMAT,
      "llama.attention.head_count is 4294967295, not in 0..65536" },
    { "heads-negative", "llama.attention.head_count", I32, -2, TINY_E_FORMAT,
      "llama.attention.head_count is -2, not in 0..65536" },
    { "heads-5", "llama.attention.head_count", U32, 5, TINY_E_FORMAT,
      "embedding_length 12 is not a multiple of the 5 heads" },
    { "heads-list-empty", "llama.attention.head_count", NO_ITEMS, 0, TINY_E_FORMAT, "llama.attention.head_count" },
    { "key-heads-0", "llama.attention.head_count_kv", U32, 0, TINY_E_FORMAT,
      "llama.attention.head_count_kv is 0, it must be at least 1" },
    { "key-heads-no-divisor", "llama.attention.head_count_kv", U32, 3, TINY_E_FORMAT,
      "2 heads, not a multiple of its 3 key heads" },
    { "embedding-2e31", "llama.embedding_length", U32, 2147483648.0, TINY_E_FORMAT,
      "llama.embedding_length is 2147483648, not in 1..67108864" },
    { "embedding-disagrees", "llama.embedding_length", U32, 14, TINY_E_FORMAT,
      "token_embd.weight is 12x12, not 14x12" },
    { "feed-forward-2e32", "llama.feed_forward_length", U32, 4294967295.0, TINY_E_FORMAT,
      "llama.feed_forward_length is 4294967295, not in 1..67108864" },
    { "context-2e32", "llama.context_length", U32, 4294967295.0, TINY_E_FORMAT,
      "llama.context_length is 4294967295, not in 1..2147483647" },
    { "context-0", "llama.context_length", U32, 0, TINY_E_FORMAT, "llama.context_length is 0, not in 1..2147483647" },
    { "vocabulary-short", "tokenizer.ggml.tokens", TOKENS, VOCAB - 1, TINY_E_FORMAT,
      "the vocabulary has 11 tokens, but token_embd.weight 12 rows" },
    { "vocab-size-disagrees", "llama.vocab_size", U32, 13, TINY_E_FORMAT,
      "llama.vocab_size is 13, but token_embd.weight has 12 rows" },
    { "rope-dimensions-odd", "llama.rope.dimension_count", U32, 5, TINY_E_FORMAT, "even number" },
    { "rope-dimensions-above-head", "llama.rope.dimension_count", U32, 8, TINY_E_FORMAT,
      "llama.rope.dimension_count is 8, not in 0..6" },
    { "rope-base-0", "llama.rope.freq_base", F32, 0, TINY_E_FORMAT, "rope bases" },
    { "epsilon-negative", "llama.attention.layer_norm_rms_epsilon", F32, -1, TINY_E_FORMAT,
      "add -1 to a variance: not in 0..1" },
    { "epsilon-infinite", "llama.attention.layer_norm_rms_epsilon", F32, 1e39, TINY_E_FORMAT, "finite" },
    { "experts-2e31", "llama.expert_count", U32, 2147483648.0, TINY_E_FORMAT,
      "llama.expert_count is 2147483648, not in 0..4096" },
    { "experts-used-without-experts", "llama.expert_used_count", U32, 2, TINY_E_FORMAT,
      "llama.expert_used_count is 2, not in 0..0" },
    { "key-length-2e26", "llama.attention.key_length", U32, 67108864.0, TINY_E_FORMAT,
      "heads that rotate 67108864 numbers cannot be in a file of" },
    /* hidden states: a session gives no text */
    { "pooling-decoder", "llama.pooling_type", U32, 3, TINY_OK, NULL },
    { "nextn-all-layers", "llama.nextn_predict_layers", U32, 1, TINY_E_FORMAT,
      "llama.nextn_predict_layers is 1, not in 0..0" },
    { "architecture-unknown", "general.architecture", TEXT, 0, TINY_E_UNSUPPORTED,
      "the architecture \"another\" is unknown; similar known names" },
    { "architecture-is-u32", "general.architecture", U32, 1, TINY_E_FORMAT,
      "general.architecture is missing or not a text" },
    { "tensor-missing", "/blk.0.ffn_down.weight", NONE, 0, TINY_E_FORMAT, "tensor blk.0.ffn_down.weight is missing" },
    { "tensor-i32", "/blk.0.attn_q.weight", TYPE, 26, TINY_OK, NULL }, /* whole numbers are numbers */
    { "tensor-i64", "/blk.0.attn_q.weight", TYPE, 27, TINY_OK, NULL },
    { "tensor-transposed", "/blk.0.attn_k.weight", DIM, HEAD, TINY_E_FORMAT,
      "tensor blk.0.attn_k.weight is 6x12, not 12x6" },
    { "norm-is-f32", "/output_norm.weight", TYPE, 0, TINY_OK, NULL },
    { "norm-short", "/output_norm.weight", DIM, 6, TINY_E_FORMAT, "tensor output_norm.weight is 6, not 12 numbers" }
};

static tllm_writer *build(tiny_ctx *ctx, const lie *l)
{
    static const char spaced[] = "\xe2\x96\x81" "a";
    static const char *const words[VOCAB] = { "<unk>", "<s>", "</s>", "<0x41>", "<0x42>", "\xe2\x96\x81",
                                              "a",     "b",   "ab",   spaced,   "c",      "." };
    static const int32_t types[VOCAB] = { 2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1 };
    static const struct { const char *name; uint64_t in, out;
    } tensors[] = { { "token_embd.weight", D, VOCAB },    { "output_norm.weight", D, 0 },
                    { "blk.0.attn_norm.weight", D, 0 },   { "blk.0.attn_q.weight", D, D },
                    { "blk.0.attn_k.weight", D, HEAD },   { "blk.0.attn_v.weight", D, HEAD },
                    { "blk.0.attn_output.weight", D, D }, { "blk.0.ffn_norm.weight", D, 0 },
                    { "blk.0.ffn_gate.weight", D, FF },   { "blk.0.ffn_up.weight", D, FF },
                    { "blk.0.ffn_down.weight", FF, D } };
    static uint16_t weights[4 * VOCAB * D];      /* F16; a tensor of another type takes the same bytes */
    /* 1 -0.5 0.25 -1 0.1 0.75 -0.2 0.333 */
    static const uint16_t some[8] = { 0x3c00, 0xb800, 0x3400, 0xbc00, 0x2e66, 0x3a00, 0xb266, 0x3555 };
    tllm_writer_desc wd;
    static const uint32_t pair[2] = { 2, 2 };
    const char *what = l->what[0] == '/' ? l->what + 1 : "";
    tllm_writer *w = NULL;
    tllm_text text[VOCAB];
    float scores[VOCAB], eps = 1e-5f, base = 10000.0f, f = l->v > 3e38 ? (float)HUGE_VAL : (float)l->v;
    uint32_t u = l->v > 0 && l->kind == U32 ? (uint32_t)l->v : 0;
    size_t i;
    for (i = 0; i < VOCAB; i++) {
        text[i] = kit_name(words[i]);
        scores[i] = -(float)i;
    }
    for (i = 0; i < T_COUNT(weights); i++) weights[i] = some[i * 37 % 101 % 8];
    memset(&wd, 0, sizeof wd);
    wd.alignment = 8;
    T_OK(tllm_writer_open(ctx, &wd, &w));
    T_OK(tllm_writer_put_text(ctx, w, "general.architecture", "llama"));
    T_OK(tllm_writer_put_u32(ctx, w, "llama.block_count", 1));
    T_OK(tllm_writer_put_u32(ctx, w, "llama.context_length", 16));
    T_OK(tllm_writer_put_u32(ctx, w, "llama.embedding_length", D));
    T_OK(tllm_writer_put_u32(ctx, w, "llama.feed_forward_length", FF));
    T_OK(tllm_writer_put_u32(ctx, w, "llama.attention.head_count", D / HEAD));
    T_OK(tllm_writer_put_u32(ctx, w, "llama.attention.head_count_kv", 1));
    T_OK(tllm_writer_put(ctx, w, "llama.attention.layer_norm_rms_epsilon", TLLM_F32, &eps));
    T_OK(tllm_writer_put(ctx, w, "llama.rope.freq_base", TLLM_F32, &base));
    T_OK(tllm_writer_put_text(ctx, w, "tokenizer.ggml.model", "llama"));
    T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.tokens", TLLM_STRING, text,
                               l->kind == TOKENS ? (size_t)l->v : (size_t)VOCAB));
    T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.scores", TLLM_F32, scores, VOCAB));
    T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.token_type", TLLM_I32, types, VOCAB));
    switch (l->kind) {
    case U32: T_OK(tllm_writer_put_u32(ctx, w, l->what, u)); break;
    case I32: T_OK(tllm_writer_put_i32(ctx, w, l->what, (int32_t)l->v)); break;
    case F32: T_OK(tllm_writer_put(ctx, w, l->what, TLLM_F32, &f)); break;
    case TEXT: T_OK(tllm_writer_put_text(ctx, w, l->what, "another")); break;
    case NO_ITEMS: T_OK(tllm_writer_put_array(ctx, w, l->what, TLLM_U32, pair, 0)); break;
    default: break;
    }
    for (i = 0; i < T_COUNT(tensors); i++) {
        const int this_one = !strcmp(tensors[i].name, what), norm = !tensors[i].out;
        uint64_t dim[2];
        int type = 1, rank = norm ? 1 : 2;
        dim[0] = tensors[i].in;
        dim[1] = norm ? 1 : tensors[i].out;
        if (this_one && l->kind == NONE) continue;
        if (this_one && l->kind == TYPE) type = (int)l->v;
        if (this_one && l->kind == DIM) {
            dim[1] = norm ? 1 : dim[0] * dim[1] / (uint64_t)l->v;
            dim[0] = (uint64_t)l->v;
        }
        T_OK(tllm_writer_put_tensor(ctx, w, kit_name(tensors[i].name), type, rank, dim, weights));
    }
    T_OK(tllm_writer_finish(ctx, w));
    return w;
}

static void test_false_descriptions(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *corpus = getenv("T_CORPUS");
    size_t i, n_right = 0, n_files = 0;
    for (i = 0; i < T_COUNT(lies); i++) {
        tllm_writer *w = build(ctx, &lies[i]);
        tllm_gguf *g = NULL;
        tiny_file f;
        kit_used used;
        size_t n, before;
        const void *bytes = tllm_writer_memory(w, &n);
        char path[400];
        (void)snprintf(path, sizeof path, "%s/gguf/model-%s.gguf", corpus ? corpus : "tests/fuzz/corpus", lies[i].file);
        if (corpus) T_OK(tiny_file_write(ctx, path, bytes, n));
        if (!tiny_file_copy(ctx, path, &f)) {           /* the tests may run elsewhere: then from memory only */
            n_files += (size_t)(f.n_bytes == n && !memcmp(f.bytes, bytes, n));
            tiny_file_close(ctx, &f);
        }
        t_alloc.most_bytes = before = t_alloc.live_bytes;
        if (T_OK(tllm_gguf_open_memory(ctx, bytes, n, &g))) {
            const char *wrong = kit_use(ctx, g, &used);
            const tiny_status st = used.model;
            if (wrong) t_fail(__FILE__, __LINE__, "%s: %s", lies[i].file, wrong);
            T_TRUE(t_alloc.most_bytes - before <= 2 * n + 1000000);     /* key-length-2e26 once took 256 MB */
            if (T_TRUE(st == lies[i].status && (!st || strstr(tiny_ctx_message(ctx), lies[i].says))) &&
                T_TRUE(used.ran == !lies[i].status))
                n_right++;
            else printf("  %s: status %d, %s\n", lies[i].file, (int)st, st ? tiny_ctx_message(ctx) : "opens");
        }
        tllm_gguf_close(ctx, g);
        tllm_writer_close(ctx, w);
    }
    printf("false descriptions: %lu of %lu as expected, each refused with its sentence; %lu of the files are in the "
           "corpus\n",
           (unsigned long)n_right, (unsigned long)T_COUNT(lies), (unsigned long)n_files);
    t_close(ctx);                           /* checks that everything was freed */
}

/* heads that no vector width divides: another engine reads past them; here every target gives the numbers of the
 * reference */
static void test_head_size(tiny_target target)
{
    static const int32_t tokens[5] = { 1, 9, 7, 6, 11 };
    tiny_ctx *ref = t_ctx(TINY_TARGET_REFERENCE, 1), *ctx = t_ctx(target, 2);
    tllm_writer *w = build(ctx, &lies[0]);
    float *want = t_guarded(5 * VOCAB), *got = t_guarded(5 * VOCAB);
    size_t n, i;
    const void *bytes = tllm_writer_memory(w, &n);
    int k;
    for (k = 0; k < 2; k++) {
        tiny_ctx *c = k ? ctx : ref;
        tllm_gguf *g = NULL;
        tllm_model *model = NULL;
        tllm_state *state = NULL;
        if (T_OK(tllm_gguf_open_memory(c, bytes, n, &g)) && T_OK(tllm_model_open(c, g, &model)) &&
            T_OK(tllm_state_open(c, model, NULL, &state)))
            T_OK(tllm_forward(state, tokens, 5, 0, 5, k ? got : want));
        tllm_state_close(c, state);
        tllm_model_close(c, model);
        tllm_gguf_close(c, g);
    }
    T_WALLS(want, 5 * VOCAB);
    T_WALLS(got, 5 * VOCAB);
    for (i = 0; i < 5 * VOCAB; i++) T_CLOSE(got[i], want[i], 1e-5 * (1 + fabs((double)want[i])));
    tllm_writer_close(ctx, w);
    t_close(ctx);
    t_close(ref);
}

/* ---- every bit flipped, and cut at every byte; the bytes end where the next page faults -------------------------- */

static kit_image bin_model, bin_tokens;

static tiny_status open_gguf(tiny_ctx *ctx, const void *p, size_t n, tllm_gguf **g)
{
    return tllm_gguf_open_memory(ctx, p, n, g);
}
static tiny_status open_safetensors(tiny_ctx *ctx, const void *p, size_t n, tllm_gguf **g)
{
    return tllm_safetensors_open_memory(ctx, p, n, g);
}
static tiny_status open_bin(tiny_ctx *ctx, const void *p, size_t n, tllm_gguf **g)
{
    return tllm_llama2c_open_memory(ctx, p, n, bin_tokens.b, bin_tokens.n, g);
}
static tiny_status open_bin_tokens(tiny_ctx *ctx, const void *p, size_t n, tllm_gguf **g)
{
    return tllm_llama2c_open_memory(ctx, bin_model.b, bin_model.n, p, n, g);
}

typedef struct flipped { size_t n, opened, models, ran; } flipped;

/* after the first n_head bytes all bytes are alike: where programs run slowly, every seventh bit of them */
static flipped flip_and_cut(const char *what, const unsigned char *good, size_t n, size_t n_head, size_t n_beside,
                            tiny_status (*open)(tiny_ctx *, const void *, size_t, tllm_gguf **))
{
    tiny_ctx_desc d = t_desc(TINY_TARGET_SCALAR, 1);
    tiny_ctx *ctx = NULL;
    flipped f = { 0, 0, 0, 0 };
    size_t i, most = 0;
    unsigned char *end = (unsigned char *)t_guarded_bytes(n) + n;
    const uint64_t start = tiny_now_ns();
    d.max_bytes = (size_t)64 << 20;
    if (!T_OK(tiny_ctx_open(&d, &ctx))) return f;
    for (i = 0; i < 9 * n; i += T_SLOW && i >= 8 * n_head && i < 8 * n ? 7 : 1) {
        const size_t size = i < 8 * n ? n : i - 8 * n, before = t_alloc.live_bytes;
        tllm_gguf *g = NULL;
        const char *wrong = NULL;
        kit_used used;
        f.n++;
        memcpy(end - size, good, size);
        if (i < 8 * n) end[-(ptrdiff_t)n + (ptrdiff_t)(i / 8)] ^= (unsigned char)(1u << i % 8);
        t_alloc.most_bytes = t_alloc.live_bytes;
        if (!open(ctx, end - size, size, &g)) {
            f.opened++;
            if (i >= 8 * n) wrong = "a cut file opens";         /* its last tensor, or its last token, ends with it */
            else wrong = kit_use(ctx, g, &used);
            f.models += (size_t)(!wrong && !used.model);
            f.ran += (size_t)(!wrong && used.ran);
        } else if (g || !*tiny_ctx_message(ctx)) wrong = "refused without a sentence";
        if (wrong)
            t_fail(__FILE__, __LINE__, "%s, %s %lu: %s", what, i < 8 * n ? "bit" : "cut at",
                   (unsigned long)(i < 8 * n ? i : size), wrong);
        if (t_alloc.most_bytes - before > most) most = t_alloc.most_bytes - before;
        if (t_alloc.most_bytes - before > 2 * (size + n_beside) + 1000000)
            t_fail(__FILE__, __LINE__, "%s, %lu: %lu bytes for a file of %lu", what, (unsigned long)i,
                   (unsigned long)(t_alloc.most_bytes - before), (unsigned long)size);
        tllm_gguf_close(ctx, g);
    }
    printf("%s of %lu bytes: %lu flipped bits and cuts in %.1f s: %lu opened, %lu were models, %lu ran a token; at "
           "most %lu bytes held\n",
           what, (unsigned long)n, (unsigned long)f.n, (double)(tiny_now_ns() - start) * 1e-9, (unsigned long)f.opened,
           (unsigned long)f.models, (unsigned long)f.ran, (unsigned long)most);
    t_close(ctx);
    return f;
}

static void test_flipped_and_cut(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tllm_writer *w = build(ctx, &lies[0]);
    size_t n;
    const unsigned char *good = (const unsigned char *)tllm_writer_memory(w, &n);
    const flipped f = flip_and_cut("a model", good, n, n, 0, open_gguf);
    T_TRUE(f.ran > n && f.ran <= f.models && f.models < f.opened);
    tllm_writer_close(ctx, w);
    t_close(ctx);
}

static void test_bin_flipped_and_cut(void)
{
    static const int32_t head[7] = KIT_LLAMA2C;
    flipped f;
    kit_llama2c(&bin_model, head, KIT_LLAMA2C_FLOATS);
    kit_llama2c_tokens(&bin_tokens, 6, 5);
    f = flip_and_cut("a .bin", bin_model.b, bin_model.n, 28, bin_tokens.n, open_bin);
    /* all but the cuts and bits of the head: any bits are a weight */
    T_TRUE(f.opened >= f.n - bin_model.n - 8 * 28);
    T_TRUE(f.ran == f.models && f.models == f.opened);
    f = flip_and_cut("the tokenizer of a .bin", bin_tokens.b, bin_tokens.n, bin_tokens.n, bin_model.n, open_bin_tokens);
    T_TRUE(f.opened >= 8 * 4 * 5);                              /* scores at least */
    T_TRUE(f.ran == f.models && f.models > 0);
    kit_free(&bin_model);
    kit_free(&bin_tokens);
}

/* A safetensors file holds tensors and texts, no model: it opens, is read in full, and is refused as a model with a
 * sentence. This one pretends. */
static void test_safetensors_flipped_and_cut(void)
{
    static const char json[] = "{\"__metadata__\":{\"general.architecture\":\"llama\",\"llama.block_count\":\"1\","
                               "\"tokenizer.ggml.model\":\"llama\"},\n"
                               "\"token_embd.weight\":{\"dtype\":\"F16\",\"shape\":[3,4],\"data_offsets\":[0,24]},"
                               "\"output_norm.weight\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[24,40]},"
                               "\"\\u0062lk.0.none\":{\"dtype\":\"I64\",\"shape\":[3,0],\"data_offsets\":[40,40]}}  ";
    kit_image m;
    flipped f;
    kit_safetensors(&m, json, 40);
    f = flip_and_cut("a safetensors file", m.b, m.n, m.n, 0, open_safetensors);
    T_TRUE(f.opened >= 8 * 40 && !f.models && !f.ran);
    kit_free(&m);
}

int main(void)
{
    T_RUN(test_false_descriptions);
    T_RUN_TARGETS(test_head_size);
    T_RUN(test_flipped_and_cut);
    T_RUN(test_bin_flipped_and_cut);
    T_RUN(test_safetensors_flipped_and_cut);
    return t_done();
}
