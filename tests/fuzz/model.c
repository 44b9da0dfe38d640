/* tests/fuzz/model.c - a valid model of each family with its numbers, names, types and shapes changed: it is refused
 * with a sentence, or it runs a few tokens, alone and in a session
 *
 * The first byte chooses the model, those that tests/place.h finds and those of examples/models. The others are
 * changes: an object (a number of a key, one of its items, a dimension, a type, a name, any byte before the data, bytes
 * of the data, the end), its place, and the new value. So the first input already reaches the pass of each
 * architecture, and the engine searches for values that a pass trusts. */
#include "tinyllm.h"
#include "place.h"
#include "llm/file/kit.h"

static const char *const names[] = { "llama",
                                     "mamba",
                                     "deepseek2",
                                     "bert",
                                     "gpt2",
                                     "gpt-oss-mxfp4",
                                     "qwen3next",
                                     "rwkv7-b",
                                     "rwkv6",
                                     "jamba",
                                     "mamba2-b",
                                     "falcon-h1",
                                     "gemma3n",
                                     "gemma4",
                                     "t5",
                                     "mixtral",
                                     "lfm2",
                                     "plamo2",
                                     "kimi-linear",
                                     "deepseek32",
                                     "llama4-b",
                                     "granitehybrid-moe",
                                     "nemotron_h",
                                     "modern-bert",
                                     "phi3",
                                     "bloom",
                                     "glm4moe",
                                     "minimax-m2",
                                     "qwen3-rerank",
                                     "smallthinker",
                                     "bitnet",
                                     "llama-q4_k",
                                     "hy_v3",
                                     "minimax-m3",
                                     "bailingmoe3",
                                     "bailingmoe3-lora",
                                     "kimi-k3",
                                     "kimi-k3-plain",
                                     "deepseek4",
                                     "granite_swa",
                                     "granite_swa-moe",
                                     "nanbeige",
                                     "nanbeige-skip",
                                     "plamo3",
                                     "mellum",
                                     "afmoe",
                                     "mimo2",
                                     "step35",
                                     "laguna",
                                     "laguna-each",
                                     "plm",
                                     "laguna-dense",
                                     "minimax-m3-dense",
                                     "step35-same",
                                     "llama-q4_0",
                                     "llama-q8_0",
                                     "llama-q4_k_m",
                                     "story",
                                     "story-small",
                                     "story-gla",
                                     "story-latent" };
enum { N_MODELS = sizeof names / sizeof *names, N_FIRST = 32, EDITS = 12 };

/* first bytes from 160 on choose among the later ones, those of the corpus in order: more models leave each of its
 * files its own */
static unsigned model_of(unsigned first)
{
    return first < 160 ? first % N_FIRST : N_FIRST + (first - 160) % (N_MODELS - N_FIRST);
}

/* bytes: good with the changes, of which the first `left` are the file */
typedef struct sample { int asked; unsigned char *bytes, *good; size_t n, head, left; tllm_gguf *view; } sample;

static tiny_ctx *keeper;                    /* of the unchanged files */

static int load(sample *s, const char *name)
{
    const char *place = "";
    size_t i;
    if (s->asked) return s->view != NULL;
    s->asked = 1;
    if (!keeper && tiny_ctx_open(NULL, &keeper)) abort();
    for (i = 0; place && !s->good; i++) {
        char path[200];
        tiny_file f;
        place = t_place((int)i);
        (void)snprintf(path, sizeof path, "%s%s/%s.gguf", place ? place : "examples/models", place ? "/oracle/llm" : "",
                       name);
        if (tiny_file_open(keeper, path, &f)) continue;
        s->n = f.n_bytes;
        s->good = (unsigned char *)malloc(s->n);
        s->bytes = (unsigned char *)malloc(s->n);       /* of its own size: the sanitizer sees the byte after it */
        if (!s->good || !s->bytes) exit(2);
        memcpy(s->good, f.bytes, s->n);
        memcpy(s->bytes, f.bytes, s->n);
        tiny_file_close(keeper, &f);
    }
    if (!s->good || tllm_gguf_open_memory(keeper, s->good, s->n, &s->view)) return 0;
    s->head = s->n;
    for (i = 0; i < tllm_gguf_n_tensors(s->view); i++) {
        const size_t at = tllm_gguf_offset(s->view, tllm_gguf_tensor_at(s->view, i));
        if (at < s->head) s->head = at;
    }
    return s->head > 0;
}

typedef struct bytes { const unsigned char *at; size_t left; } bytes;

static unsigned take(bytes *b)
{
    if (!b->left) return 0;
    b->left--;
    return *b->at++;
}

static uint64_t number(bytes *b)
{
    static const uint64_t hostile[] = {
        0,          1,          0x7fffffff, 0x80000000u, 0xffffffffu, UINT64_C(1) << 32, UINT64_C(1) << 62, UINT64_MAX,
        0x3f800000, 0x7fc00000, 0x7f800000, 4096,        65536
    };
    const unsigned how = take(b);
    if (how < 160) return how;              /* small ones are the likely ones */
    if (how < 200) return hostile[how % (sizeof hostile / sizeof *hostile)];
    return take(b) | (uint64_t)take(b) << 8 | (uint64_t)take(b) << 16 | (uint64_t)take(b) << 24;
}

/* one change; those that hit nothing do nothing */
static void change(sample *s, bytes *b)
{
    const unsigned raw = take(b), what = raw % 7, where = take(b) | take(b) << 8;
    const uint64_t v = number(b);
    const tllm_meta *m = tllm_gguf_meta_at(s->view, where % tllm_gguf_n_meta(s->view));
    const tllm_gguf_tensor *t = tllm_gguf_tensor_at(s->view, where % tllm_gguf_n_tensors(s->view));
    /* u32 rank, u64 dims, u32 type, u64 offset */
    const size_t info = (size_t)((const unsigned char *)t->name.at - s->good) + t->name.n;
    size_t at = 0, width = 0;
    if (raw >= 248 && raw < 252) {          /* the end is missing: of the head, or of the data */
        s->left = (where | (size_t)take(b) << 16) % (raw < 250 ? s->head : s->n);
        return;
    }
    if (raw >= 252) {                       /* numbers and scales of weights */
        at = s->head + (where | (size_t)take(b) << 16) % (s->n - s->head);
        kit_put_le(s->bytes + at, v, s->n - at < 4 ? 1 : (size_t)1 << raw % 3);
        return;
    }
    switch (what) {
    case 0: case 1:
        if (m->item_type == TLLM_STRING || !m->count) return;
        width = tllm_value_bytes(m->item_type);
        at = (size_t)(m->at - s->good) + (what ? take(b) % m->count : 0) * width;
        break;
    case 2:
        at = info + 4 + 8 * (take(b) % (unsigned)(t->rank ? t->rank : 1));
        width = 8;
        break;
    case 3:
        at = info + 4 + 8 * (size_t)t->rank;
        width = 4;
        break;
    case 4: at = (size_t)((const unsigned char *)m->key.at - s->good) + m->key.n - 1; width = 1; break;
    case 5: at = info - 1; width = 1; break;
    default:
        at = (where | (size_t)take(b) << 16) % s->head;
        width = 1;
    }
    if (at <= s->head && width <= s->head - at) kit_put_le(s->bytes + at, v, width);
}

/* all; taken as models; run; gave numbers; wrote text in a session */
static unsigned long n_inputs, n_opened, n_ran, n_answered, n_said;
static void count(void)
{
    fprintf(stderr, "model: %lu files, %lu refused, %lu opened, %lu ran, %lu to their numbers, %lu wrote\n", n_inputs,
            n_inputs - n_opened, n_opened, n_ran, n_answered, n_said);
}

/* 1: it was small enough to be run */
static int run(tiny_ctx *ctx, const tllm_model *model, unsigned how)
{
    static const int types[4] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    const int32_t token[3] = { 0, 1, 2 };
    tllm_state_desc d;
    tllm_about about;
    tllm_state *s = NULL;
    size_t need = 0;
    float *out;
    int answered = 0;
    memset(&d, 0, sizeof d);
    d.n_ctx = 6;
    d.n_page = 4;
    d.n_seq = 2;
    d.type_k = d.type_v = types[how % 4];
    tllm_model_about(model, &about);
    if (tllm_state_memory(ctx, model, &d, &need) || need > (size_t)1 << 26 || about.n_out > 1 << 16 ||
        tllm_state_open(ctx, model, &d, &s))
        return 0;
    out = (float *)malloc((size_t)about.n_out * 3 * sizeof *out + 1);
    if (!out) exit(2);
    if (about.is_encoder || about.has_decoder || about.output != TLLM_LOGITS)
        answered = !tllm_forward_all(s, token, 3, about.has_decoder ? NULL : out) && !about.has_decoder;
    if (!about.is_encoder && about.output == TLLM_LOGITS) {
        if (!tllm_forward(s, token, 3, 0, 1, out) && ++answered && !tllm_seq_fork(s, 0, 1) &&
            !tllm_forward(s, token, 1, 3, 1, out)) {
            (void)tllm_seq_shift(s, 0, 1, 1);
            (void)tllm_state_trim(s, 2);
            (void)tllm_forward(s, token, 1, 5, 1, out);
        }
    }
    n_answered += answered != 0;
    free(out);
    tllm_state_close(ctx, s);
    return 1;
}

/* the same file as a program uses it: a session that writes text, shifts, searches, or gives vectors */
static void talk(tiny_ctx *ctx, const unsigned char *bytes, size_t n, unsigned how)
{
    tllm_state_desc d;
    tllm_generate_desc g;
    tllm_about about;
    tllm_session *s = NULL;
    const float *logits;
    volatile float last = 0.0f;
    float *out;
    (void)last;
    memset(&d, 0, sizeof d);
    memset(&g, 0, sizeof g);
    d.n_ctx = 8;
    d.n_seq = 2;
    g.n_most = 4;
    g.shift = (int)(how & 1);
    if (tllm_session_open_memory(ctx, bytes, n, &d, &s)) return;
    tllm_model_about(tllm_session_model(s), &about);
    if (about.n_out <= 1 << 16 && about.n_vocab <= 1 << 20) {
        if (!tllm_generate(s, "an a", 4, &g, NULL)) n_said++;
        else if (!*tiny_ctx_message(ctx)) abort();
        /* the file exists */
        if (!tllm_session_feed(s, NULL, 0, &logits) && logits && about.n_vocab) last = logits[about.n_vocab - 1];
        out = (float *)malloc((size_t)about.n_out * sizeof *out + 1);
        if (!out) exit(2);
        (void)tllm_embed(s, "an a", 4, (int)(how % 5) - 1, out);
        free(out);
    }
    tllm_session_close(s);
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    static sample samples[N_MODELS];
    bytes b;
    sample *s;
    tllm_gguf *g;
    tllm_model *model = NULL;
    tllm_vocab *v = NULL;
    unsigned char *file, *cut = NULL;
    unsigned first, i;
    b.at = data;
    b.left = size;
    first = take(&b);
    s = &samples[model_of(first)];
    if (!load(s, names[model_of(first)])) return;
    first = take(&b);
    if (!n_inputs++) (void)atexit(count);
    s->left = s->n;
    for (i = 0; i < EDITS && b.left; i++) change(s, &b);
    if (s->left < s->n && (cut = (unsigned char *)malloc(s->left ? s->left : 1)) == NULL) exit(2);
    file = cut ? (unsigned char *)memcpy(cut, s->bytes, s->left) : s->bytes;
    if (!tllm_gguf_open_memory(ctx, file, s->left, &g)) {
        int runs = 0;
        if (tllm_vocab_open(ctx, g, &v) && (v || !*tiny_ctx_message(ctx))) abort();
        if (!tllm_model_open(ctx, g, &model)) {
            n_opened++;
            n_ran += (unsigned long)(runs = run(ctx, model, first));
        } else if (model || !*tiny_ctx_message(ctx)) abort();
        tllm_vocab_close(ctx, v);
        tllm_model_close(ctx, model);
        tllm_gguf_close(ctx, g);
        if (runs) talk(ctx, file, s->left, first >> 2);
    } else if (g || !*tiny_ctx_message(ctx)) abort();
    memcpy(s->bytes, s->good, s->n);
    free(cut);
}

#define FUZZ_NAME "model"
#define FUZZ_CTX_EACH
#define FUZZ_EXTRA ((size_t)1 << 28) /* of models of half a megabyte; the limit of the others is that of their target \
                                      */
#include "engine.h"
