/* bench/llm/rotate.c - QuaRot: the rotations while a model runs, compared with the products after them; and a story
 * model with everything in four bits
 *
 * QuaRot (arXiv 2404.00456) reports a 70B model with weights, inputs and cache in 4 bits at no more than 0.47
 * perplexity lost, and transforms that cost at most 7 % of a layer. Its models have channels of the stream that are far
 * larger than the others; ours have none, so they are also judged in the principal axes of their embedding, where some
 * channels are larger. */
#include "grids.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- speed ------------------------------------------------------------------------------------------------------- */

enum { BR_PRODUCT, BR_TURN, BR_ROUND, BR_KINDS };
typedef struct br_arg { tiny_ctx *ctx; int kind; tiny_idx n, rows, tokens; float *x, *y; unsigned char *w; } br_arg;

static void br_run(void *arg)
{
    br_arg *a = (br_arg *)arg;
    const tiny_tensor x = tiny_tensor_2d(a->x, TINY_F32, a->tokens, a->n),
                      turned = tiny_tensor_2d(a->y, TINY_F32, a->tokens, a->n);
    const tiny_tensor y = tiny_tensor_2d(a->y, TINY_F32, a->tokens, a->rows),
                      w = tiny_tensor_2d(a->w, TINY_U8, a->rows, a->n / 32 * 18);
    if (a->kind == BR_PRODUCT) b_must(a->ctx, tllm_matmul(a->ctx, &x, TLLM_FORMAT_Q4_0, &w, NULL, &y));
    else if (a->kind == BR_TURN) b_must(a->ctx, tiny_fwht(a->ctx, &x, NULL, &turned));
    else b_must(a->ctx, tllm_round_rows(a->ctx, a->x, a->tokens, a->n, a->n, 4, 1.0f));
}

/* share of the product that the transform before it takes */
static double br_share(tiny_idx n, tiny_idx rows, tiny_idx tokens)
{
    static const char *const what[BR_KINDS] = { "Q4_0 product", "its inputs turned", "its inputs to 4 bits" };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    br_arg a[BR_KINDS];
    b_row r[BR_KINDS];
    char title[80];
    double stages = 0, m = (double)n;
    int k;
    memset(a, 0, sizeof a);
    memset(r, 0, sizeof r);
    for (; fmod(m, 2.0) == 0.0; m /= 2) stages++;
    if (m > 1) stages += 4 * m - 2;         /* H of four times the odd part */
    a[0].ctx = ctx;
    a[0].n = n;
    a[0].rows = rows;
    a[0].tokens = tokens;
    a[0].x = (float *)b_alloc((size_t)(tokens * n) * sizeof(float));
    a[0].y = (float *)b_alloc((size_t)(tokens * (n > rows ? n : rows)) * sizeof(float));
    a[0].w = (unsigned char *)b_alloc((size_t)(rows * n / 32 * 18));
    memset(a[0].w, 0x31, (size_t)(rows * n / 32 * 18));
    bg_normal(a[0].x, (size_t)(tokens * n), 1);
    for (k = 0; k < BR_KINDS; k++) {
        a[k] = a[0];
        a[k].kind = k;
        r[k].what = what[k];
        r[k].target = tiny_target_name(tiny_op_target(ctx, k == BR_PRODUCT ? TINY_OP_MATMUL : TINY_OP_FWHT));
        r[k].threads = b_threads;
        r[k].limit = k == BR_PRODUCT && tokens == 1 ? B_READ : B_F32;
        r[k].flops = k == BR_PRODUCT ? 2.0 * (double)(tokens * n) * (double)rows
                     : k == BR_TURN  ? (stages + 1) * (double)(tokens * n)
                                     : 4.0 * (double)(tokens * n);
        r[k].bytes = k == BR_PRODUCT ? (double)(rows * n / 32 * 18) : 8.0 * (double)(tokens * n);
        r[k].run = br_run;
        r[k].arg = &a[k];
        b_shape(&r[k], "%dx%dx%d", (int)tokens, (int)rows, (int)n);
    }
    (void)snprintf(title, sizeof title, "rotation while a model runs: %d token%s, a network of %d", (int)tokens,
                   tokens > 1 ? "s" : "", (int)n);
    b_contest(title, r, BR_KINDS);
    b_free(a[0].x);
    b_free(a[0].y);
    b_free(a[0].w);
    tiny_ctx_close(ctx);
    return r[BR_TURN].median_ns / r[BR_PRODUCT].median_ns;
}

/* ---- the story models -------------------------------------------------------------------------------------------- */

typedef struct br_made { tllm_writer *w; tllm_gguf *file; } br_made;
static void br_end(tiny_ctx *ctx, br_made *m)
{
    const void *bytes;
    size_t n;
    b_must(ctx, tllm_writer_finish(ctx, m->w));
    bytes = tllm_writer_memory(m->w, &n);
    b_must(ctx, tllm_gguf_open_memory(ctx, bytes, n, &m->file));
}
static void br_drop(tiny_ctx *ctx, br_made *m)
{
    tllm_gguf_close(ctx, m->file);
    tllm_writer_close(ctx, m->w);
}
static br_made br_rotated(tiny_ctx *ctx, const tllm_gguf *g, int axes, unsigned online)
{
    tllm_rotated *r = NULL;
    tllm_rotated_desc d;
    br_made m = { NULL, NULL };
    memset(&d, 0, sizeof d);
    d.axes = axes;
    d.online = online;
    b_must(ctx, tllm_rotated_open(ctx, g, &d, &r));
    b_must(ctx, tllm_writer_open(ctx, NULL, &m.w));
    b_must(ctx, tllm_rotated_put(ctx, r, m.w));
    br_end(ctx, &m);
    tllm_rotated_close(ctx, r);
    return m;
}

/* matrices of the layers as Q4_0: rounded, or by GPTQ over token */
static br_made br_packed(tiny_ctx *ctx, const tllm_gguf *g, const int32_t *token, int gptq)
{
    const tllm_format *to = tllm_format_of(TLLM_FORMAT_Q4_0);
    const size_t n = tllm_gguf_n_tensors(g);
    tllm_gptq_tensor *list = (tllm_gptq_tensor *)b_alloc(n * sizeof *list);
    tllm_gptq_model_desc d;
    br_made m = { NULL, NULL };
    size_t i, n_list = 0;
    memset(list, 0, n * sizeof *list);
    memset(&d, 0, sizeof d);
    d.window = BG_WINDOW;
    b_must(ctx, tllm_writer_open(ctx, NULL, &m.w));
    for (i = 0; i < tllm_gguf_n_meta(g); i++) b_must(ctx, tllm_writer_put_meta(ctx, m.w, tllm_gguf_meta_at(g, i)));
    for (i = 0; i < n; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        b_must(ctx, tllm_writer_put_tensor(ctx, m.w, t->name, bg_is_matrix(t) ? TLLM_FORMAT_Q4_0 : t->type, t->rank,
                                           t->dim, NULL));
        if (!bg_is_matrix(t)) continue;
        list[n_list].t = t;
        list[n_list].format = TLLM_FORMAT_Q4_0;
        list[n_list++].to = b_alloc(tllm_format_bytes(to, t->dim[0]) * (size_t)t->dim[1]);
    }
    if (gptq) b_must(ctx, tllm_gptq_model(ctx, g, &d, token, BG_TOKENS, list, n_list));
    for (i = 0, n_list = 0; i < n; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        const size_t count = (size_t)(t->dim[0] * t->dim[1]);
        if (!bg_is_matrix(t)) {
            b_must(ctx, tllm_writer_data(ctx, m.w, t->data, t->bytes));
            continue;
        }
        if (!gptq || !list[n_list].found) {
            float *x = (float *)b_alloc(count * sizeof *x);
            tllm_format_of(t->type)->unpack(t->data, x, count);
            to->pack(x, list[n_list].to, count, NULL);
            b_free(x);
        }
        b_must(ctx, tllm_writer_data(ctx, m.w, list[n_list].to, tllm_format_bytes(to, count)));
        b_free(list[n_list++].to);
    }
    b_free(list);
    br_end(ctx, &m);
    return m;
}

/* the loss with inputs in 4 bits, keys and values as Q4_0: divergence from base, and additional bits per token */
/* and the interval of 95 of 100 samples of the stories */
typedef struct br_lost { double kl, bits, kl_low, kl_high, low, high; } br_lost;
static br_lost br_judged(tiny_ctx *ctx, const tllm_gguf *base, const tllm_gguf *g)
{
    tllm_model *from = NULL, *model = NULL;
    tllm_state_desc s;
    tllm_judge_desc d;
    tllm_judgement j;
    br_lost lost;
    memset(&s, 0, sizeof s);
    memset(&d, 0, sizeof d);
    d.stories = b_quick ? 50 : 1000;
    d.samples = d.greedy = -1;
    d.state = &s;
    s.x_bits = 4;
    s.type_k = s.type_v = TLLM_FORMAT_Q4_0;
    b_must(ctx, tllm_model_open(ctx, base, &from));
    b_must(ctx, tllm_model_open(ctx, g, &model));
    b_must(ctx, tllm_judge(ctx, model, from, &d, &j));
    tllm_model_close(ctx, model);
    tllm_model_close(ctx, from);
    lost.kl = j.kl;
    lost.bits = j.bits - j.base_bits;
    lost.kl_low = j.kl_low;
    lost.kl_high = j.kl_high;
    lost.low = j.lost_low;
    lost.high = j.lost_high;
    return lost;
}

/* lost[]: everything in 4 bits: rounded plainly, by GPTQ; stream and values rotated before; all of QuaRot; and with
 * GPTQ */
enum { BR_ROUNDED, BR_GPTQ, BR_BEFORE, BR_QUAROT, BR_BOTH, BR_WAYS };
static void br_story(tiny_ctx *ctx, const tllm_gguf *g, const int32_t *token, br_lost lost[BR_WAYS])
{
    static const struct { int rotated, gptq; } way[BR_WAYS] = { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 2, 0 }, { 2, 1 } };
    int k;
    for (k = 0; k < BR_WAYS; k++) {
        br_made turned = { NULL, NULL }, q;
        if (way[k].rotated) turned = br_rotated(ctx, g, 0, way[k].rotated == 2 ? TLLM_ROTATE_ALL : 0u);
        q = br_packed(ctx, way[k].rotated ? turned.file : g, token, way[k].gptq);
        lost[k] = br_judged(ctx, g, q.file);
        br_drop(ctx, &q);
        br_drop(ctx, &turned);
    }
}

void bench_rotate(void)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    tllm_gguf *g = NULL;
    double share[4];
    br_lost lost[2][BR_WAYS];
    int32_t *token;
    br_made in_axes;
    int k;
    share[0] = br_share(5632, 2048, 1);
    share[1] = br_share(11008, 4096, 1);
    share[2] = br_share(14336, 4096, 1);
    share[3] = br_share(14336, 4096, b_quick ? 32 : 128);
    b_verdict("the transform compared with its product, one token, 14336", share[2], "<", 0.07);
    b_verdict("the transform compared with its product, 128 tokens, 14336", share[3], "<", 0.07);
    b_headline("quarot", "QuaRot: transforms take at most 7 % of a layer",
               "the last matrix of a network in Q4_0 (5632 to 2048, 11008 to 4096, 14336 to 4096), two threads",
               "one token: %.1f, %.1f and %.1f %% of that product; 128 tokens: %.1f %%", 100 * share[0], 100 * share[1],
               100 * share[2], 100 * share[3]);
    b_must(ctx, tllm_gguf_open(ctx, "examples/models/story.gguf", &g));
    token = bg_stories(BG_TOKENS);
    in_axes = br_rotated(ctx, g, 1, 0);
    br_story(ctx, g, token, lost[0]);
    br_story(ctx, in_axes.file, token, lost[1]);
    for (k = 0; k < 2; k++)
        b_note(
            "story.gguf%s, weights, inputs and cache in 4 bits, divergence (bits lost) a token: rounded %.4f (%.4f), "
            "GPTQ %.4f (%.4f); rotated beforehand %.4f (%.4f); all of QuaRot %.4f (%.4f), with GPTQ %.4f (%.4f)",
            k ? " in the axes of its embedding" : "", lost[k][0].kl, lost[k][0].bits, lost[k][1].kl, lost[k][1].bits,
            lost[k][2].kl, lost[k][2].bits, lost[k][3].kl, lost[k][3].bits, lost[k][4].kl, lost[k][4].bits);
    for (k = 0; k < 2; k++)
        b_note("95 of 100 samples of the stories%s: divergence rounded %.4f to %.4f, QuaRot with GPTQ %.4f to %.4f; "
               "bits lost %.4f to %.4f, %.4f to %.4f",
               k ? " in the axes" : "", lost[k][BR_ROUNDED].kl_low, lost[k][BR_ROUNDED].kl_high,
               lost[k][BR_BOTH].kl_low, lost[k][BR_BOTH].kl_high, lost[k][BR_ROUNDED].low, lost[k][BR_ROUNDED].high,
               lost[k][BR_BOTH].low, lost[k][BR_BOTH].high);
    b_verdict("story model, all in 4 bits: divergence / divergence with QuaRot and GPTQ",
              lost[0][BR_ROUNDED].kl / lost[0][BR_BOTH].kl, ">", 1.5);
    b_verdict("story model in its axes, all in 4 bits: divergence / divergence with QuaRot and GPTQ",
              lost[1][BR_ROUNDED].kl / lost[1][BR_BOTH].kl, ">", 2);
    b_headline("quarot", "QuaRot: weights, inputs and cache of a 70B model in 4 bits, at most 0.47 perplexity lost",
               "examples/models/story.gguf, matrices of the layers Q4_0, inputs S1 a token, keys and values Q4_0, 1000 "
               "stories; divergence from the model in floats, bits a token; in brackets the same model in the "
               "principal axes of its embedding",
               "rounded %.4f (%.4f), GPTQ %.4f (%.4f), QuaRot %.4f (%.4f), QuaRot with GPTQ %.4f (%.4f), which is %.4f "
               "(%.4f) bits a token lost",
               lost[0][BR_ROUNDED].kl, lost[1][BR_ROUNDED].kl, lost[0][BR_GPTQ].kl, lost[1][BR_GPTQ].kl,
               lost[0][BR_QUAROT].kl, lost[1][BR_QUAROT].kl, lost[0][BR_BOTH].kl, lost[1][BR_BOTH].kl,
               lost[0][BR_BOTH].bits, lost[1][BR_BOTH].bits);
    br_drop(ctx, &in_axes);
    b_free(token);
    tllm_gguf_close(ctx, g);
    tiny_ctx_close(ctx);
}
