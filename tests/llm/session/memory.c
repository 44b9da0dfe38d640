/* tests/llm/session/memory.c - tllm_session_memory reports the memory of a session, by the count of the allocator
 *
 * Reported in one context, allocated in another: the peak while a session opens, reads a prompt of several pieces,
 * writes and continues with other sequences, over models of many kinds, each form of the cache, one sequence and many.
 * The weights stay in the file's mapping and are not counted. 5 % is the promise. */
#include "t.h"
#include <string.h>

enum { PROMPT = 70, ROUNDS = 6 };

static const char story[] = "examples/models/story.gguf";
static const char *const files[] = { story,
                                     "data/tinystories/stories260K-f32.gguf",
                                     "data/tinystories/stories260K-f16.gguf",
                                     "data/tinystories/stories260K.bin",
                                     "oracle/llm/llama.gguf",
                                     "oracle/llm/llama-q8_0.gguf",
                                     "oracle/llm/qwen3.gguf",
                                     "oracle/llm/gemma3n.gguf",
                                     "oracle/llm/deepseek2.gguf",
                                     "oracle/llm/mixtral.gguf",
                                     "oracle/llm/mamba.gguf",
                                     "oracle/llm/rwkv7-b.gguf",
                                     "oracle/llm/jamba.gguf",
                                     "oracle/llm/qwen3next.gguf",
                                     "oracle/llm/gpt-oss-mxfp4.gguf" };

/* a prompt and tokens one by one for sequence 0, and a token of each other sequence in a batch */
static tiny_status use(tllm_session *s, tiny_idx n_seq)
{
    int32_t prompt[PROMPT], next = 3;
    const float *logits = NULL;
    tllm_item x[8];
    tiny_status st;
    int i, k;
    for (i = 0; i < PROMPT; i++) prompt[i] = 1 + i * 37 % 15;       /* the least vocabulary of them has 16 */
    st = tllm_session_feed(s, prompt, PROMPT, &logits);
    for (i = 0; i < ROUNDS && !st; i++) st = tllm_session_feed(s, &next, 1, &logits);
    for (i = 0; i < ROUNDS && !st && n_seq > 1; i++) {
        for (k = 1; k < n_seq; k++) {
            memset(&x[k - 1], 0, sizeof *x);
            x[k - 1].token = 5 + k;
            x[k - 1].seq = k;
            x[k - 1].pos = -1;
        }
        st = tllm_forward_batch(tllm_session_state(s), x, (tiny_idx)(n_seq - 1), NULL);
    }
    return st;
}

static void one(const char *path, const tllm_state_desc *d, double *worst, int *n)
{
    tiny_ctx *asking, *ctx;
    tllm_session *s = NULL;
    size_t told = 0, before, held = 0, most;
    long blocks = t_alloc.live_blocks;
    asking = t_ctx(TINY_TARGET_AUTO, 2);
    before = tiny_ctx_bytes(asking);
    /* the query leaves no memory */
    if (T_OK(tllm_session_memory(asking, path, d, &told))) T_TRUE(tiny_ctx_bytes(asking) == before);
    t_close(asking);
    ctx = t_ctx(TINY_TARGET_AUTO, 2);
    t_alloc.most_bytes = before = t_alloc.live_bytes;
    if (T_OK(tllm_session_open(ctx, path, d, &s))) {
        held = t_alloc.live_bytes - before;
        blocks = t_alloc.live_blocks - blocks;
        T_OK(use(s, d->n_seq ? d->n_seq : 1));
    }
    most = t_alloc.most_bytes - before;
    if (most) {
        const double off = ((double)most - (double)told) / (double)told;
        /* closer than promised: the context requests at most 96 bytes more than each block, and the work allocates
         * nothing else */
        const int exact = held + 64 >= told && held <= told + 96 * (size_t)blocks && most <= held + 512;
        if (!T_TRUE(off <= 0.05 && off >= -0.05 && exact) || getenv("T_VERBOSE"))
            printf("  %s, %d sequences, keys of format %d, values of %d: reported %lu, held %lu in %ld blocks, "
                   "most %lu: %+.1f %%\n",
                   path, (int)d->n_seq, d->type_k, d->type_v, (unsigned long)told, (unsigned long)held, blocks,
                   (unsigned long)most, 100 * off);
        if (off > *worst) *worst = off;
        if (-off > *worst) *worst = -off;
        ++*n;
    }
    tllm_session_close(s);
    t_close(ctx);
}

static void test_reported_memory_is_allocated(void)
{
    static const int types[4] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    double worst = 0;
    size_t i;
    int n = 0, k;
    for (i = 0; i < T_COUNT(files); i++)
        for (k = 0; k < 6; k++) {
            const char *path = i ? t_one_of(files[i]) : story;
            tllm_state_desc d;
            if (!path) break;
            memset(&d, 0, sizeof d);
            /* without keys and values, or with rows no block divides */
            if (k >= 2 && i >= 7) break;
            if (k) {
                d.n_ctx = 200;
                d.n_seq = k == 1 ? 1 : 5;
                d.n_cells = k == 3 ? 700 : 0;                   /* fewer pages than the sequences could fill */
                d.n_batch = 33;
                d.type_k = types[k < 2 ? 0 : k - 2];
                d.type_v = types[k < 2 ? 0 : (k - 1) % 4];
            }
            one(path, &d, &worst, &n);
        }
    T_TRUE(n >= 6);
    printf("memory reported and allocated: %d sessions, at most %.2f %% apart\n", n, 100 * worst);
}

static tiny_status put(tiny_ctx *ctx, tllm_writer *w, const char *name, int format, uint64_t n_in, uint64_t n_out)
{
    const tllm_format *f = tllm_format_of(format);
    const uint64_t dim[2] = { n_in, n_out };
    const size_t bytes = tllm_format_bytes(f, n_in) * (size_t)n_out;
    tllm_text text;
    text.at = name;
    text.n = strlen(name);
    return tllm_writer_put_tensor(ctx, w, text, format, n_out > 1 ? 2 : 1, dim, memset(t_keep(bytes), 0, bytes));
}

/* one layer whose three products of one row have formats of their own: memory that one shares and another keeps for
 * each thread is held together while they run as a list */
static void test_mixed_formats(void)
{
    enum { D = 128, KV = 32, FF = 32 };
    static const int formats[] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    const char *path = "build/mixed-formats.tmp";
    double worst = 0;
    size_t i, k;
    int n = 0;
    for (i = 0; i < T_COUNT(formats); i++)
        for (k = 0; k < T_COUNT(formats); k++) {
            tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
            tllm_writer_desc desc;
            tllm_writer *w = NULL;
            tllm_state_desc d;
            int bad;
            memset(&desc, 0, sizeof desc);
            desc.path = path;
            bad = tllm_writer_open(ctx, &desc, &w) != TINY_OK;
            bad = bad || tllm_writer_put_text(ctx, w, "general.architecture", "llama") ||
                  tllm_writer_put_u32(ctx, w, "llama.embedding_length", D) ||
                  tllm_writer_put_u32(ctx, w, "llama.block_count", 1) ||
                  tllm_writer_put_u32(ctx, w, "llama.context_length", 128) ||
                  tllm_writer_put_u32(ctx, w, "llama.feed_forward_length", FF) ||
                  tllm_writer_put_u32(ctx, w, "llama.attention.head_count", 4) ||
                  tllm_writer_put_u32(ctx, w, "llama.attention.head_count_kv", 1) ||
                  tllm_writer_put_u32(ctx, w, "llama.vocab_size", 64) ||
                  tllm_writer_put_f32(ctx, w, "llama.attention.layer_norm_rms_epsilon", 1e-5f) ||
                  tllm_writer_put_text(ctx, w, "tokenizer.ggml.model", "no_vocab");
            bad = bad || put(ctx, w, "token_embd.weight", TLLM_FORMAT_F16, D, 64) ||
                  put(ctx, w, "output_norm.weight", TLLM_FORMAT_F32, D, 1) ||
                  put(ctx, w, "blk.0.attn_norm.weight", TLLM_FORMAT_F32, D, 1) ||
                  put(ctx, w, "blk.0.ffn_norm.weight", TLLM_FORMAT_F32, D, 1) ||
                  put(ctx, w, "blk.0.attn_q.weight", formats[i], D, D) ||
                  put(ctx, w, "blk.0.attn_k.weight", formats[k], D, KV) ||
                  put(ctx, w, "blk.0.attn_v.weight", formats[k], D, KV) ||
                  put(ctx, w, "blk.0.attn_output.weight", TLLM_FORMAT_F32, D, D) ||
                  put(ctx, w, "blk.0.ffn_gate.weight", formats[i], D, FF) ||
                  put(ctx, w, "blk.0.ffn_up.weight", formats[k], D, FF) ||
                  put(ctx, w, "blk.0.ffn_down.weight", TLLM_FORMAT_F32, FF, D);
            bad = bad || tllm_writer_finish(ctx, w);
            if (!T_TRUE(!bad)) puts(tiny_ctx_message(ctx));
            tllm_writer_close(ctx, w);
            t_close(ctx);
            memset(&d, 0, sizeof d);
            d.n_ctx = 150;
            for (d.n_batch = 1; d.n_batch < 200 && !bad; d.n_batch = d.n_batch == 1 ? 12 : 3 * d.n_batch)
                one(path, &d, &worst, &n);
        }
    remove(path);
    printf("products of mixed formats: %d sessions, at most %.2f %% apart\n", n, 100 * worst);
}

/* A session for a context of 100 000 tokens is resident only with the pages that its first tokens wrote, not with a
 * large page for each layer: the keys and values of this model would take 8 of 2 MB. */
static void test_resident(void)
{
    const char *path = story;
    tiny_ctx_desc cd;
    tllm_state_desc d;
    tllm_session *s = NULL;
    tiny_ctx *ctx;
    size_t told = 0;
    unsigned long before, after;
    if (!t_resident()) {
        T_SKIP("the system does not report resident memory");
        return;
    }
    memset(&cd, 0, sizeof cd);              /* the default allocator: the one of t_ctx is a user's */
    memset(&d, 0, sizeof d);
    cd.n_threads = 1;
    d.n_ctx = 100000;
    d.n_batch = 16;
    T_OK(tiny_ctx_open(&cd, &ctx));
    t_use(ctx);
    before = t_resident();
    if (T_OK(tllm_session_memory(ctx, path, &d, &told)) && T_OK(tllm_session_open(ctx, path, &d, &s))) {
        T_OK(use(s, 1));
        after = t_resident();
        T_TRUE(told > (size_t)60 << 20 && after - before < 8192);
        if (getenv("T_VERBOSE"))
            printf("  reported %lu KB, resident after %d tokens %lu KB\n", (unsigned long)(told >> 10), PROMPT + ROUNDS,
                   after - before);
    }
    tllm_session_close(s);
    t_close(ctx);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_state_desc d;
    const char *path = story;
    size_t told = 7;
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_session_memory(ctx, NULL, NULL, &told), TINY_E_ARGUMENT, "the path is NULL");
    T_EQ_INT(told, 0);
    T_STATUS(tllm_session_memory(ctx, "x", NULL, NULL), TINY_E_ARGUMENT, "the result pointer is NULL");
    T_STATUS(tllm_session_memory(ctx, "no/such/file.gguf", NULL, &told), TINY_E_IO, "no/such/file.gguf");
    d.n_ctx = -1;
    T_STATUS(tllm_session_memory(ctx, path, &d, &told), TINY_E_ARGUMENT, "a state of -1 tokens");
    T_EQ_INT(told, 0);
    t_close(ctx);
    d.n_ctx = 64;
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_SCALAR, 1);
        if (!tiny_ctx_open(&cd, &ctx)) {
            if (tllm_session_memory(ctx, path, &d, &told)) T_TRUE(*tiny_ctx_message(ctx) && !told);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN(test_reported_memory_is_allocated);
    T_RUN(test_mixed_formats);
    T_RUN(test_resident);
    T_RUN(test_refused);
    return t_done();
}
