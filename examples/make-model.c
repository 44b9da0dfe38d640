/* examples/make-model.c - writes a model file with random weights, for measurements
 *
 *     make-model --shape 2M|15M|37M|42M|110M|1.1B|7B --type TYPE [--seed N] OUT.gguf
 *
 * The shapes are those of stories15M to 110M, TinyLlama and Llama 2; 2M and 37M have 2048 tokens, for tests. Such a
 * model generates noise. TYPE is a block format for all matrices (Q4_0, F16, ...), or Q4_K_M: Q4_K, with Q6_K for the
 * output and half of attn_v and ffn_down, the mixture that quantize makes. Blocks are drawn from a few thousand that
 * are packed once, so most of the time goes into writing the file. The vocabulary has 256 bytes, and made-up words to
 * fill the 32000 tokens of the other shapes. */
#define TINYLLM_TOOLS
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "make-model"
#include "options.h"

typedef struct shape { const char *name; uint64_t embd, layers, heads, kv, ffn, vocab, context; } shape;
static const shape shapes[] = {
    { "2M", 256, 4, 8, 8, 512, 2048, 256 },
    { "15M", 288, 6, 6, 6, 768, 32000, 256 },
    { "37M", 512, 11, 8, 8, 1376, 2048, 256 },
    { "42M", 512, 8, 8, 8, 1376, 32000, 1024 },
    { "110M", 768, 12, 12, 12, 2048, 32000, 1024 },
    { "1.1B", 2048, 22, 32, 4, 5632, 32000, 2048 },
    { "7B", 4096, 32, 32, 32, 11008, 32000, 4096 },
};
enum { POOL = 4096 };                       /* drawn from POOL * 256 / values blocks */

typedef struct pool { const tllm_format *f; unsigned char *blocks; size_t n; } pool;
static pool pools[4];
static tiny_rng rng;

static const pool *pool_of(const tllm_format *f)
{
    size_t i, b;
    int j;
    for (i = 0; i < 4 && pools[i].f && pools[i].f != f; i++) {}
    if (i == 4) return NULL;
    if (pools[i].f) return &pools[i];
    pools[i].n = (size_t)POOL * 256 / (size_t)f->values / (f->values == 256 ? 4 : 1);
    pools[i].blocks = (unsigned char *)malloc(pools[i].n * (size_t)f->bytes);
    if (!pools[i].blocks) return NULL;
    for (b = 0; b < pools[i].n; b++) {
        float x[256], ones[256];
        for (j = 0; j < f->values; j++) { x[j] = 0.02f * tiny_rng_normal(&rng); ones[j] = 1.0f; }
        f->pack(x, pools[i].blocks + b * (size_t)f->bytes, (size_t)f->values,
                f->flags & TLLM_FORMAT_WANTS_IMPORTANCE ? ones : NULL);
    }
    pools[i].f = f;
    return &pools[i];
}

typedef struct tensor { char name[64]; uint64_t dim[2]; int rank, type; } tensor;
static tensor list[400];
static size_t n_list;
static void add(int type, int rank, uint64_t a, uint64_t b, const char *format, unsigned layer)
{
    tensor *t = &list[n_list++];
    (void)snprintf(t->name, sizeof t->name, format, layer);
    t->rank = rank;
    t->dim[0] = a;
    t->dim[1] = b;
    t->type = rank == 1 ? TLLM_FORMAT_F32 : type;
}

/* one tensor, in pieces of a megabyte */
static tiny_status fill(tiny_ctx *ctx, tllm_writer *w, const tensor *t)
{
    static unsigned char piece[1 << 20];
    const tllm_format *f = tllm_format_of(t->type);
    uint64_t left = t->dim[0] * (t->rank == 2 ? t->dim[1] : 1) / (uint64_t)f->values;
    const pool *p = pool_of(f);
    tiny_status st = TINY_OK;
    if (!p) return TINY_E_MEMORY;
    while (left && !st && !stopped_by) {
        const size_t n = left < sizeof piece / (size_t)f->bytes ? (size_t)left : sizeof piece / (size_t)f->bytes;
        size_t i;
        for (i = 0; i < n; i++)
            if (t->rank == 1) {
                const unsigned char one[4] = { 0, 0, 0x80, 0x3f };     /* 1.0: norms */
                memcpy(piece + 4 * i, one, 4);
            } else
                memcpy(piece + i * (size_t)f->bytes,
                       p->blocks + (size_t)tiny_rng_below(&rng, (uint32_t)p->n) * (size_t)f->bytes, (size_t)f->bytes);
        st = tllm_writer_data(ctx, w, piece, n * (size_t)f->bytes);
        left -= n;
    }
    return st;
}

/* <unk> <s> </s>, 256 bytes, then words of letters: every second one with a space in front */
static tiny_status vocabulary(tiny_ctx *ctx, tllm_writer *w, size_t n)
{
    tllm_text *token = (tllm_text *)calloc(n, sizeof *token);
    char *text = (char *)malloc(16 * n);
    float *score = (float *)malloc(n * sizeof *score);
    int32_t *type = (int32_t *)malloc(n * sizeof *type);
    tiny_status st = TINY_E_MEMORY;
    size_t i;
    for (i = 0; token && text && score && type && i < n; i++) {
        static const char *const special[] = { "<unk>", "<s>", "</s>" };
        char *s = text + 16 * i;
        if (i < 3) (void)snprintf(s, 16, "%s", special[i]);
        else if (i < 259) (void)snprintf(s, 16, "<0x%02X>", (unsigned)(i - 3));
        else {
            size_t k = (i - 259) / 2, at = 0;
            if (i % 2 == 0) { memcpy(s, "\xe2\x96\x81", 3); at = 3; }
            do { s[at++] = (char)('a' + k % 26); k /= 26; } while (k-- > 0);
            s[at] = 0;
        }
        token[i].at = s;
        token[i].n = strlen(s);
        score[i] = i < 259 ? 0.0f : -(float)(i - 259);
        type[i] = i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1;
    }
    if (token && text && score && type) {
        st = tllm_writer_put_text(ctx, w, "tokenizer.ggml.model", "llama");
        if (!st) st = tllm_writer_put_array(ctx, w, "tokenizer.ggml.tokens", TLLM_STRING, token, n);
        if (!st) st = tllm_writer_put_array(ctx, w, "tokenizer.ggml.scores", TLLM_F32, score, n);
        if (!st) st = tllm_writer_put_array(ctx, w, "tokenizer.ggml.token_type", TLLM_I32, type, n);
        if (!st) st = tllm_writer_put_u32(ctx, w, "tokenizer.ggml.unknown_token_id", 0);
        if (!st) st = tllm_writer_put_u32(ctx, w, "tokenizer.ggml.bos_token_id", 1);
        if (!st) st = tllm_writer_put_u32(ctx, w, "tokenizer.ggml.eos_token_id", 2);
    }
    free(token);
    free(text);
    free(score);
    free(type);
    return st;
}

static const char usage[] =
    "make-model [options] OUT.gguf\n"
    "  --shape S    2M, 15M, 37M, 42M, 110M, 1.1B or 7B; default: 110M\n"
    "  --type TYPE  a block format (Q4_0, F16, ...), or Q4_K_M; default: Q4_0\n"
    "  --seed N     seed of the weights; default: 1\n";

int main(int argc, char **argv)
{
    const shape *s;
    const char *path = NULL, *type = "Q4_0", *shape_name = "110M";
    const tllm_format *f, *fine;
    tllm_writer_desc desc;
    tiny_ctx_desc ctx_desc;
    tllm_writer *w = NULL;
    tiny_ctx *ctx = NULL;
    tiny_status st;
    uint64_t seed = 1, kv;
    unsigned l;
    size_t i;
    int mixed;
    const option options[] = { THE_WORD("file", &path), A_TEXT("--shape", &shape_name), A_TEXT("--type", &type),
                               A_SEED("--seed", &seed) };
    READ_OPTIONS(argc, argv, usage, options);
    for (i = 0; i < sizeof shapes / sizeof *shapes && strcmp(shapes[i].name, shape_name); i++) {}
    if (i == sizeof shapes / sizeof *shapes)
        return fprintf(stderr, "make-model: no shape is called %s; 2M, 15M, 42M, 110M, 1.1B and 7B are\n",
                       shape_name), 2;
    s = &shapes[i];
    if (must_not_write(path, 0)) return 2;
    mixed = !strcmp(type, "Q4_K_M");
    f = tllm_format_by_name(mixed ? "Q4_K" : type);
    fine = mixed ? tllm_format_of(TLLM_FORMAT_Q6_K) : f;
    if (!f || !f->pack) return wrong("--type takes a block format or Q4_K_M", type);
    if (s->embd % (uint64_t)f->values || s->ffn % (uint64_t)f->values)
        return fprintf(stderr, "make-model: rows of %s are %d and %d numbers, not whole blocks of %s\n", s->name,
                       (int)s->embd, (int)s->ffn, f->name),
               2;
    rng = tiny_rng_make(seed, 0);
    kv = s->embd / s->heads * s->kv;
    add(f->id, 2, s->embd, s->vocab, "token_embd.weight", 0);
    for (l = 0; l < s->layers; l++) {
        const int more = l < s->layers / 8 || l >= 7 * s->layers / 8 || (l - s->layers / 8) % 3 == 2,
                  some = more ? fine->id : f->id;
        add(0, 1, s->embd, 1, "blk.%u.attn_norm.weight", l);
        add(f->id, 2, s->embd, s->embd, "blk.%u.attn_q.weight", l);
        add(f->id, 2, s->embd, kv, "blk.%u.attn_k.weight", l);
        add(some, 2, s->embd, kv, "blk.%u.attn_v.weight", l);
        add(f->id, 2, s->embd, s->embd, "blk.%u.attn_output.weight", l);
        add(0, 1, s->embd, 1, "blk.%u.ffn_norm.weight", l);
        add(f->id, 2, s->embd, s->ffn, "blk.%u.ffn_gate.weight", l);
        add(f->id, 2, s->embd, s->ffn, "blk.%u.ffn_up.weight", l);
        add(some, 2, s->ffn, s->embd, "blk.%u.ffn_down.weight", l);
    }
    add(0, 1, s->embd, 1, "output_norm.weight", 0);
    add(fine->id, 2, s->embd, s->vocab, "output.weight", 0);

    memset(&desc, 0, sizeof desc);
    desc.path = path;
    memset(&ctx_desc, 0, sizeof ctx_desc);
    ctx_desc.cancel = cancelled;            /* OUT.part is removed then too */
    ctx_desc.log = hear;
    stop_on_signals_whole();
    ctx_desc.user = &ctx;
    st = tiny_ctx_open(&ctx_desc, &ctx);
    if (!st) st = tllm_writer_open(ctx, &desc, &w);
    if (!st) st = tllm_writer_put_text(ctx, w, "general.architecture", "llama");
    if (!st) st = tllm_writer_put_text(ctx, w, "general.name", s->name);
    if (!st) st = tllm_writer_put_u32(ctx, w, "llama.context_length", (uint32_t)s->context);
    if (!st) st = tllm_writer_put_u32(ctx, w, "llama.embedding_length", (uint32_t)s->embd);
    if (!st) st = tllm_writer_put_u32(ctx, w, "llama.block_count", (uint32_t)s->layers);
    if (!st) st = tllm_writer_put_u32(ctx, w, "llama.feed_forward_length", (uint32_t)s->ffn);
    if (!st) st = tllm_writer_put_u32(ctx, w, "llama.attention.head_count", (uint32_t)s->heads);
    if (!st) st = tllm_writer_put_u32(ctx, w, "llama.attention.head_count_kv", (uint32_t)s->kv);
    if (!st) st = tllm_writer_put_u32(ctx, w, "llama.rope.dimension_count", (uint32_t)(s->embd / s->heads));
    if (!st) st = tllm_writer_put_u32(ctx, w, "llama.vocab_size", (uint32_t)s->vocab);
    if (!st) st = tllm_writer_put_f32(ctx, w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    if (!st) st = vocabulary(ctx, w, (size_t)s->vocab);
    for (i = 0; !st && i < n_list; i++) {
        tllm_text name;
        name.at = list[i].name;
        name.n = strlen(list[i].name);
        st = tllm_writer_put_tensor(ctx, w, name, list[i].type, list[i].rank, list[i].dim, NULL);
    }
    for (i = 0; !st && i < n_list; i++) st = fill(ctx, w, &list[i]);
    if (!st && stopped_by) {
        say("stopped; nothing was written");
        st = TINY_E_CANCELLED;
    } else if (!st) st = tllm_writer_finish(ctx, w);
    else if (ctx) say(*tiny_ctx_message(ctx) ? tiny_ctx_message(ctx) : tiny_status_text(st));
    if (ctx) tllm_writer_close(ctx, w);
    tiny_ctx_close(ctx);
    for (i = 0; i < 4; i++) free(pools[i].blocks);
    return exit_status(stopped_by ? 128 + stopped_by : st != TINY_OK);
}
