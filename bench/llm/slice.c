/* bench/llm/slice.c - SliceGPT: what a model loses by a narrower stream, and what it gains in speed
 *
 * SliceGPT (arXiv 2401.15024) deletes up to 25 % of the parameters of a 70B model at 99 % of its zero-shot score. The
 * story models are judged instead, against slices by the energy of channels and by random directions. Speed is compared
 * with the share of the parameters that a token reads, on two targets, in turns with the model before. */
#include "grids.h"
#include <stdio.h>
#include <string.h>

typedef struct bs_made { tllm_writer *w; tllm_gguf *file; tllm_sliced_about about; } bs_made;
static void bs_end(tiny_ctx *ctx, bs_made *m)
{
    const void *bytes;
    size_t n;
    b_must(ctx, tllm_writer_finish(ctx, m->w));
    bytes = tllm_writer_memory(m->w, &n);
    b_must(ctx, tllm_gguf_open_memory(ctx, bytes, n, &m->file));
}
static void bs_drop(tiny_ctx *ctx, bs_made *m)
{
    tllm_gguf_close(ctx, m->file);
    tllm_writer_close(ctx, m->w);
}
static bs_made bs_sliced(tiny_ctx *ctx, const tllm_gguf *g, const tllm_sliced_desc *d, const int32_t *token, tiny_idx n)
{
    tllm_sliced *s = NULL;
    bs_made m;
    memset(&m, 0, sizeof m);
    b_must(ctx, tllm_sliced_open(ctx, g, d, &s));
    b_must(ctx, tllm_writer_open(ctx, NULL, &m.w));
    b_must(ctx, tllm_sliced_put(ctx, s, token, n, m.w));
    bs_end(ctx, &m);
    m.about = tllm_sliced_what(s);
    tllm_sliced_close(ctx, s);
    return m;
}

/* ---- a model of random numbers, in halves ------------------------------------------------------------------------ */

typedef struct bs_shape { uint64_t embd, layers, heads, ffn, vocab; } bs_shape;
static void bs_tensor(tiny_ctx *ctx, bs_made *m, const char *name, uint64_t a, uint64_t b)
{
    uint64_t dim[2];
    tllm_text text;
    dim[0] = a;
    dim[1] = b;
    text.at = name;
    text.n = strlen(name);
    b_must(ctx, tllm_writer_put_tensor(ctx, m->w, text, b > 1 ? TLLM_FORMAT_F16 : TLLM_FORMAT_F32, b > 1 ? 2 : 1, dim,
                                       NULL));
}
static bs_made bs_random(tiny_ctx *ctx, const bs_shape *s)
{
    static const struct { const char *name; int in, out; } t[] = {
        { "attn_norm", 0, 9 }, { "attn_q", 0, 0 },   { "attn_k", 0, 0 }, { "attn_v", 0, 0 },  { "attn_output", 0, 0 },
        { "ffn_norm", 0, 9 },  { "ffn_gate", 0, 1 }, { "ffn_up", 0, 1 }, { "ffn_down", 1, 0 }
    };
    const uint64_t wide = s->ffn > s->embd ? s->ffn : s->embd, most = wide * (s->vocab > wide ? s->vocab : wide);
    uint64_t size[3], i, k;
    size_t j;
    float *x = (float *)b_alloc(4096 * sizeof *x);
    uint16_t *half = (uint16_t *)b_alloc((size_t)most * sizeof *half);
    tiny_rng rng = tiny_rng_make(3, 0);
    char name[64];
    bs_made m;
    memset(&m, 0, sizeof m);
    size[0] = s->embd;
    size[1] = s->ffn;
    size[2] = 1;
    b_must(ctx, tllm_writer_open(ctx, NULL, &m.w));
    b_must(ctx, tllm_writer_put_text(ctx, m.w, "general.architecture", "llama"));
    b_must(ctx, tllm_writer_put_u32(ctx, m.w, "llama.embedding_length", (uint32_t)s->embd));
    b_must(ctx, tllm_writer_put_u32(ctx, m.w, "llama.block_count", (uint32_t)s->layers));
    b_must(ctx, tllm_writer_put_u32(ctx, m.w, "llama.feed_forward_length", (uint32_t)s->ffn));
    b_must(ctx, tllm_writer_put_u32(ctx, m.w, "llama.attention.head_count", (uint32_t)s->heads));
    b_must(ctx, tllm_writer_put_u32(ctx, m.w, "llama.context_length", 1024));
    b_must(ctx, tllm_writer_put_f32(ctx, m.w, "llama.attention.layer_norm_rms_epsilon", 1e-5f));
    bs_tensor(ctx, &m, "token_embd.weight", s->embd, s->vocab);
    for (i = 0; i < s->layers; i++)
        for (j = 0; j < sizeof t / sizeof *t; j++) {
            (void)snprintf(name, sizeof name, "blk.%d.%s.weight", (int)i, t[j].name);
            bs_tensor(ctx, &m, name, size[t[j].in], t[j].out == 9 ? 1 : size[t[j].out]);
        }
    bs_tensor(ctx, &m, "output_norm.weight", s->embd, 1);
    bs_tensor(ctx, &m, "output.weight", s->embd, s->vocab);
    tiny_rng_fill_uniform(&rng, x, 4096, -0.06f, 0.06f);
    for (k = 0; k < most; k += 4096)
        tllm_format_of(TLLM_FORMAT_F16)->pack(x, half + k, (size_t)(most - k < 4096 ? most - k : 4096), NULL);
    /* each matrix begins elsewhere in the same numbers */
    b_must(ctx, tllm_writer_data(ctx, m.w, half, (size_t)(s->embd * s->vocab) * 2));
    for (i = 0; i < s->layers; i++)
        for (j = 0; j < sizeof t / sizeof *t; j++) {
            const uint64_t n = size[t[j].in] * (t[j].out == 9 ? 1 : size[t[j].out]);
            const uint64_t at = n < most ? (i * 977 + j * 131) % (most - n) : 0;
            if (t[j].out == 9) {
                for (k = 0; k < n; k++) x[k] = 1.0f;
                b_must(ctx, tllm_writer_data(ctx, m.w, x, (size_t)n * 4));
            } else b_must(ctx, tllm_writer_data(ctx, m.w, half + at, (size_t)n * 2));
        }
    b_must(ctx, tllm_writer_data(ctx, m.w, x, (size_t)s->embd * 4));
    b_must(ctx, tllm_writer_data(ctx, m.w, half, (size_t)(s->embd * s->vocab) * 2));
    bs_end(ctx, &m);
    b_free(half);
    b_free(x);
    return m;
}

/* ---- speed ------------------------------------------------------------------------------------------------------- */

enum { BS_PROMPT = 64 };
typedef struct bs_arg { tiny_ctx *ctx; tllm_model *model; tllm_state *state; tiny_idx n; float *y; } bs_arg;
static void bs_run(void *arg)
{
    bs_arg *a = (bs_arg *)arg;
    int32_t token[BS_PROMPT];
    tiny_idx i;
    for (i = 0; i < a->n; i++) token[i] = (int32_t)(i * 37 % 1000);
    tllm_state_clear(a->state);
    b_must(a->ctx, tllm_forward(a->state, token, a->n, 0, 1, a->y));
}

/* time of the sliced model over that of the model before */
static double bs_speed(tiny_target target, const tllm_gguf *before, const bs_made *after, tiny_idx n, double numbers,
                       double share)
{
    tiny_ctx *ctx = b_ctx(target, 1);
    bs_arg a[2];
    b_row r[2];
    char title[120], shape[40];
    int k;
    memset(a, 0, sizeof a);
    memset(r, 0, sizeof r);
    for (k = 0; k < 2; k++) {
        tllm_state_desc room;
        tllm_about about;
        memset(&room, 0, sizeof room);
        room.n_ctx = BS_PROMPT;
        a[k].ctx = ctx;
        a[k].n = n;
        b_must(ctx, tllm_model_open(ctx, k ? after->file : before, &a[k].model));
        b_must(ctx, tllm_state_open(ctx, a[k].model, &room, &a[k].state));
        tllm_model_about(a[k].model, &about);
        a[k].y = (float *)b_alloc((size_t)about.n_out * sizeof(float));
        r[k].what = k ? "sliced, 576 wide" : "as it was, 768 wide";
        r[k].target = tiny_target_name(tiny_ctx_target(ctx));
        r[k].threads = 1;
        r[k].limit = n == 1 ? B_READ : B_F32;
        r[k].flops = 2.0 * (double)n * numbers * (k ? share : 1.0);
        r[k].bytes = 2.0 * numbers * (k ? share : 1.0);
        r[k].run = bs_run;
        r[k].arg = &a[k];
        (void)snprintf(shape, sizeof shape, "%d token%s, f16", (int)n, n > 1 ? "s" : "");
        b_shape(&r[k], "%s", shape);
    }
    (void)snprintf(title, sizeof title, "a sliced model of 8 layers: %d token%s on %s", (int)n, n > 1 ? "s" : "",
                   r[0].target);
    b_contest(title, r, 2);
    for (k = 0; k < 2; k++) {
        b_free(a[k].y);
        tllm_state_close(ctx, a[k].state);
        tllm_model_close(ctx, a[k].model);
    }
    tiny_ctx_close(ctx);
    return r[1].median_ns / r[0].median_ns;
}

static void bs_speeds(void)
{
    static const bs_shape shape = { 768, 8, 12, 2048, 4096 };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const tiny_target best = tiny_ctx_target(ctx),
                      other = best != TINY_TARGET_AVX2 && tiny_target_runs_here(TINY_TARGET_AVX2) ? TINY_TARGET_AVX2
                                                                                                  : TINY_TARGET_W128;
    const double embd = (double)(shape.embd * shape.vocab);
    double ratio[2][2], share, numbers;
    int32_t token[512];
    tllm_sliced_desc d;
    bs_made before, after;
    int k, two;
    for (k = 0; k < 512; k++) token[k] = k * 37 % 4096;
    memset(&d, 0, sizeof d);
    d.format = TLLM_FORMAT_F16;
    before = bs_random(ctx, &shape);
    after = bs_sliced(ctx, before.file, &d, token, b_quick ? 128 : 512);
    /* a token reads one row of the embedding */
    numbers = after.about.params_before - embd;
    share = (after.about.params - embd * 0.75) / numbers;
    b_note("a model of 8 layers, 768 wide, networks of 2048, sliced to 576: %.1f %% of the bytes, %.1f %% of the "
           "numbers that a token reads",
           100.0 * (double)after.about.bytes / (double)after.about.bytes_before, 100.0 * share);
    for (two = 0; two < 2; two++)
        for (k = 0; k < 2; k++)
            ratio[two][k] =
                bs_speed(two ? other : best, before.file, &after, k ? BS_PROMPT : 1, numbers, share);
    for (two = 0; two < 2; two++) {
        char text[120];
        (void)snprintf(text, sizeof text, "time of a token over the share of the numbers that it reads, %s",
                       tiny_target_name(two ? other : best));
        b_verdict(text, ratio[two][0] / share, "<", 1.05);
    }
    b_headline("slicegpt", "SliceGPT: 25 % of the width deleted, compute 64 to 66 % of dense, on fewer GPUs",
               "random model, 8 layers, 768 wide, networks of 2048, f16, one thread; sliced to 576 with its "
               "shortcuts; in turns with the model before",
               "numbers that a token reads %.3f of before; time of a token %.3f (%s), %.3f (%s); of a prompt of 64 "
               "%.3f, %.3f",
               share, ratio[0][0], tiny_target_name(best), ratio[1][0], tiny_target_name(other), ratio[0][1],
               ratio[1][1]);
    bs_drop(ctx, &after);
    bs_drop(ctx, &before);
    tiny_ctx_close(ctx);
}

/* seconds for 110 million parameters */
static void bs_time(void)
{
    static const bs_shape shape = { 768, 12, 12, 2048, 32000 };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    int32_t *token = (int32_t *)b_alloc(BG_TOKENS * sizeof *token);
    tllm_sliced_desc d;
    bs_made before, after;
    double start;
    int i;
    for (i = 0; i < BG_TOKENS; i++) token[i] = (int32_t)((uint32_t)i * 2654435761u % 32000);
    memset(&d, 0, sizeof d);
    d.format = TLLM_FORMAT_F16;
    d.window = BG_WINDOW;
    before = bs_random(ctx, &shape);
    start = b_now();
    after = bs_sliced(ctx, before.file, &d, token, BG_TOKENS);
    b_verdict("seconds for a 110M shape over 16384 tokens", b_now() - start, "<", 120);
    bs_drop(ctx, &after);
    bs_drop(ctx, &before);
    b_free(token);
    tiny_ctx_close(ctx);
}

/* ---- the story models -------------------------------------------------------------------------------------------- */

enum { BS_KEEPS = 5, BS_WAYS = 3 };
static const double bs_keep[BS_KEEPS] = { 0.9, 0.8, 0.75, 0.7, 0.6 };
typedef struct bs_lost { double kl, lost, params; } bs_lost;
static bs_lost bs_judged(tiny_ctx *ctx, const tllm_gguf *g, double keep, int by, const int32_t *token)
{
    tllm_model *model = NULL, *from = NULL;
    tllm_sliced_desc d;
    tllm_judge_desc jd;
    tllm_judgement j;
    bs_lost lost;
    bs_made m;
    memset(&d, 0, sizeof d);
    memset(&jd, 0, sizeof jd);
    d.keep = keep;
    d.by = by;
    d.window = BG_WINDOW;
    jd.stories = b_quick ? 20 : 500;
    jd.samples = jd.greedy = -1;
    m = bs_sliced(ctx, g, &d, token, b_quick ? 2048 : BG_TOKENS);
    b_must(ctx, tllm_model_open(ctx, g, &from));
    b_must(ctx, tllm_model_open(ctx, m.file, &model));
    b_must(ctx, tllm_judge(ctx, model, from, &jd, &j));
    tllm_model_close(ctx, model);
    tllm_model_close(ctx, from);
    lost.kl = j.kl;
    lost.lost = j.bits - j.base_bits;
    lost.params = m.about.params / m.about.params_before;
    bs_drop(ctx, &m);
    return lost;
}

void bench_slice(void)
{
    static const char *const way[BS_WAYS] = { "principal components", "channels of most energy", "random directions" };
    static const char *const file[2] = { "story", "story-small" };
    static bs_lost lost[2][BS_WAYS][BS_KEEPS];
    double x[BS_KEEPS], y[BS_WAYS][BS_KEEPS];
    b_curve curve[BS_WAYS];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    int32_t *token = bg_stories(BG_TOKENS);
    int k, i, w, ahead = 0;
    bs_speeds();
    if (!b_quick) bs_time();
    for (k = 0; k < 2; k++) {
        tllm_gguf *g = NULL;
        char path[64];
        (void)snprintf(path, sizeof path, "examples/models/%s.gguf", file[k]);
        b_must(ctx, tllm_gguf_open(ctx, path, &g));
        for (i = 0; i < BS_KEEPS; i++) {
            for (w = 0; w < BS_WAYS; w++) lost[k][w][i] = bs_judged(ctx, g, bs_keep[i], w, token);
            for (w = 1; w < BS_WAYS; w++) ahead += lost[k][0][i].kl < lost[k][w][i].kl;
            b_note("%s.gguf, %.2f of the width, %.1f %% of the parameters: divergence (bits lost) a token: principal "
                   "components %.4f (%.4f), channels of most energy %.4f (%.4f), random directions %.4f (%.4f)",
                   file[k], bs_keep[i], 100.0 * lost[k][0][i].params, lost[k][0][i].kl, lost[k][0][i].lost,
                   lost[k][1][i].kl, lost[k][1][i].lost, lost[k][2][i].kl, lost[k][2][i].lost);
        }
        tllm_gguf_close(ctx, g);
    }
    b_verdict("points of 20 where principal components are ahead of the other two ways", ahead, ">", 19.5);
    for (i = 0; i < BS_KEEPS; i++) x[i] = bs_keep[BS_KEEPS - 1 - i];
    for (w = 0; w < BS_WAYS; w++) {
        for (i = 0; i < BS_KEEPS; i++) y[w][i] = lost[0][w][BS_KEEPS - 1 - i].kl;
        curve[w].name = way[w];
        curve[w].x = x;
        curve[w].y = y[w];
        curve[w].n = BS_KEEPS;
    }
    if (!b_quick)
        b_svg("slicegpt", "story.gguf with a narrower stream: divergence from the model before", "share of the width",
              "bits a token", curve, BS_WAYS);
    b_headline("slicegpt", "SliceGPT: 25 % of the parameters of LLaMA-2 70B deleted at 99 % of the zero-shot score",
               "examples/models/story.gguf (story-small.gguf), 16384 tokens read, judged on 500 stories, bits a token; "
               "with shortcuts the files keep 95 % and 98 % of their parameters at 0.75 of the width",
               "divergence at 0.9, 0.8, 0.75, 0.7, 0.6 of the width: %.4f, %.4f, %.4f, %.4f, %.4f (%.4f, %.4f, %.4f, "
               "%.4f, %.4f); at 0.75 by channels %.2f (%.2f), by random directions %.2f (%.2f)",
               lost[0][0][0].kl, lost[0][0][1].kl, lost[0][0][2].kl, lost[0][0][3].kl, lost[0][0][4].kl,
               lost[1][0][0].kl, lost[1][0][1].kl, lost[1][0][2].kl, lost[1][0][3].kl, lost[1][0][4].kl,
               lost[0][1][2].kl, lost[1][1][2].kl, lost[0][2][2].kl, lost[1][2][2].kl);
    b_free(token);
    tiny_ctx_close(ctx);
}
