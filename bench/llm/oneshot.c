/* bench/llm/oneshot.c - one-shot pruning: half of a layer set to zero in three ways, its loss, and its time next to
 * GPTQ of the same layer, which goes through the same columns; story.gguf with half of its weights, and
 * without some heads or neurons, judged */
#include "grids.h"
#include <stdio.h>
#include <string.h>

#ifdef TINYLLM_NO_ONESHOT
void bench_oneshot(void) { }
#else

static const char *const bo_way[TLLM_ONESHOT_WAYS] = { "magnitude", "Wanda", "SparseGPT" };

/* products of inputs that depend on each other, some of them ten times as large */
static tllm_calib *bo_inputs(tiny_ctx *ctx, tiny_idx n, uint64_t seed)
{
    const tiny_idx tokens = 2 * n;
    float *x = (float *)b_alloc((size_t)(tokens * n) * sizeof *x), *z = (float *)b_alloc((size_t)(tokens * 16) * 4),
          *mix = (float *)b_alloc((size_t)(16 * n) * 4);
    tllm_calib *c = NULL;
    tiny_idx t, i;
    int k;
    bg_normal(x, (size_t)(tokens * n), seed);
    bg_normal(z, (size_t)(tokens * 16), seed + 1);
    bg_normal(mix, (size_t)(16 * n), seed + 2);
    for (t = 0; t < tokens; t++)
        for (i = 0; i < n; i++) {
            float v = 0.5f * x[t * n + i];
            for (k = 0; k < 16; k++) v += 0.25f * z[t * 16 + k] * mix[k * n + i];
            x[t * n + i] = i % 32 == 5 ? 10.0f * v : v;
        }
    b_must(ctx, tllm_calib_open(ctx, n, TLLM_CALIB_PRODUCTS, &c));
    b_must(ctx, tllm_calib_add(ctx, c, x, tokens, n));
    b_free(mix);
    b_free(z);
    b_free(x);
    return c;
}

/* loss of the outputs over that of magnitude: mean, least and most of some seeds */
static void bo_losses(tiny_ctx *ctx)
{
    enum { N = 128, SEEDS = 10 };
    static float w[N * N];
    double ratio[2][TLLM_ONESHOT_WAYS][3], ahead = 0;
    int seed, way, pattern;
    memset(ratio, 0, sizeof ratio);
    for (seed = 0; seed < SEEDS; seed++) {
        tllm_calib *c = bo_inputs(ctx, N, 500 + 10 * (uint64_t)seed);
        const tiny_tensor h = tllm_calib_products(c);
        for (pattern = 0; pattern < 2; pattern++) {
            double by_magnitude = 1.0;
            for (way = 0; way < TLLM_ONESHOT_WAYS; way++) {
                tllm_oneshot_desc d;
                tllm_oneshot_about a;
                double *r = ratio[pattern][way], v;
                memset(&d, 0, sizeof d);
                d.by = way;
                if (pattern) {
                    d.zeros = 2;
                    d.of = 4;
                }
                bg_normal(w, N * N, 900 + (uint64_t)seed);
                b_must(ctx, tllm_oneshot(ctx, &d, w, N, N, &h, &a));
                if (!way) by_magnitude = a.loss;
                v = a.loss / by_magnitude;
                r[0] += v / SEEDS;
                if (!seed || v < r[1]) r[1] = v;
                if (!seed || v > r[2]) r[2] = v;
                if (way == TLLM_ONESHOT_SPARSEGPT) ahead += v < 1.0;
            }
        }
        tllm_calib_close(ctx, c);
    }
    for (pattern = 0; pattern < 2; pattern++)
        for (way = 1; way < TLLM_ONESHOT_WAYS; way++)
            b_note("a layer of 128 x 128, inputs with a common part and outliers, half zeros%s: loss by %s over that "
                   "by magnitude %.3f (%.3f to %.3f of %d seeds)",
                   pattern ? ", 2 of 4" : "", bo_way[way], ratio[pattern][way][0], ratio[pattern][way][1],
                   ratio[pattern][way][2], SEEDS);
    b_verdict("layers of 20 where SparseGPT loses less than magnitude", ahead, ">", 19.5);
}

/* ---- time of a layer */

typedef struct bo_job {
    tiny_ctx *ctx;
    tllm_oneshot_desc d;
    float *from, *w;
    tiny_idx n;
    tiny_tensor h;
    tllm_plain q;
} bo_job;

static void bo_prune(void *arg)
{
    bo_job *j = (bo_job *)arg;
    memcpy(j->w, j->from, (size_t)(j->n * j->n) * sizeof *j->w);
    b_must(j->ctx, tllm_oneshot(j->ctx, &j->d, j->w, j->n, j->n, &j->h, NULL));
}
static void bo_gptq(void *arg)
{
    bo_job *j = (bo_job *)arg;
    tllm_gptq_desc d;
    memset(&d, 0, sizeof d);
    d.grid.bits = 3;
    d.grid.group = TLLM_PLAIN_ROW;
    b_must(j->ctx, tllm_gptq(j->ctx, &d, j->from, j->n, j->n, &j->h, &j->q, NULL));
}

static void bo_times(tiny_ctx *ctx)
{
    const tiny_idx n = b_quick ? 256 : 1024;
    tllm_calib *c = bo_inputs(ctx, n, 77);
    bo_job job[4];
    b_row row[4];
    int i;
    memset(job, 0, sizeof job);
    memset(row, 0, sizeof row);
    for (i = 0; i < 4; i++) {
        bo_job *j = &job[i];
        j->ctx = ctx;
        j->n = n;
        j->h = tllm_calib_products(c);
        j->d.by = i < TLLM_ONESHOT_WAYS ? i : 0;
        j->from = i ? job[0].from : (float *)b_alloc((size_t)(n * n) * sizeof(float));
        j->w = i ? job[0].w : (float *)b_alloc((size_t)(n * n) * sizeof(float));
        j->q.code = i ? job[0].q.code : (uint8_t *)b_alloc((size_t)(n * n));
        j->q.scale = i ? job[0].q.scale : (uint16_t *)b_alloc((size_t)n * 2);
        j->q.zero = i ? job[0].q.zero : (uint8_t *)b_alloc((size_t)n);
        if (!i) bg_normal(j->from, (size_t)(n * n), 78);
        row[i].what = i < TLLM_ONESHOT_WAYS ? bo_way[i] : "GPTQ, 3 bits";
        row[i].target = tiny_target_name(tiny_ctx_target(ctx));
        row[i].threads = b_threads;
        row[i].run = i < TLLM_ONESHOT_WAYS ? bo_prune : bo_gptq;
        row[i].arg = j;
        b_shape(&row[i], "%dx%d", (int)n, (int)n);
    }
    b_contest("one-shot pruning of a layer", row, 4);
    b_verdict("time of SparseGPT over that of GPTQ of the same layer", row[2].median_ns / row[3].median_ns, "<", 2.0);
    b_free(job[0].q.zero);
    b_free(job[0].q.scale);
    b_free(job[0].q.code);
    b_free(job[0].w);
    b_free(job[0].from);
    tllm_calib_close(ctx, c);
}

/* ---- the story model */

/* a copy of the file with pruned matrices, in their formats; the numbers stay in the writer */
static tllm_judgement bo_judged(tiny_ctx *ctx, const tllm_gguf *g, int way, int pattern, const int32_t *token,
                                tiny_idx n_token)
{
    const size_t n = tllm_gguf_n_tensors(g);
    tllm_oneshot_tensor *list = (tllm_oneshot_tensor *)b_alloc(n * sizeof *list);
    tllm_oneshot_desc d;
    tllm_judge_desc jd;
    tllm_judgement result;
    tllm_model *model = NULL, *from = NULL;
    tllm_writer *w = NULL;
    tllm_gguf *made = NULL;
    const void *bytes;
    size_t i, k, n_list = 0, n_bytes;
    memset(&d, 0, sizeof d);
    memset(list, 0, n * sizeof *list);
    d.by = way;
    d.window = BG_WINDOW;
    if (pattern) {
        d.zeros = 2;
        d.of = 4;
    }
    for (i = 0; i < n; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        if (!bg_is_matrix(t)) continue;
        list[n_list].t = t;
        list[n_list++].to = (float *)b_alloc((size_t)(t->dim[0] * t->dim[1]) * sizeof(float));
    }
    b_must(ctx, tllm_oneshot_model(ctx, g, &d, token, n_token, list, n_list));
    b_must(ctx, tllm_writer_open(ctx, NULL, &w));
    for (i = 0; i < tllm_gguf_n_meta(g); i++) b_must(ctx, tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(g, i)));
    for (i = k = 0; i < n; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        const int pruned = k < n_list && list[k].t == t;
        b_must(ctx, tllm_writer_put_tensor(ctx, w, t->name, pruned ? TLLM_FORMAT_F32 : t->type, t->rank, t->dim,
                                           pruned ? (const void *)list[k].to : (const void *)t->data));
        k += (size_t)pruned;
    }
    b_must(ctx, tllm_writer_finish(ctx, w));
    bytes = tllm_writer_memory(w, &n_bytes);
    b_must(ctx, tllm_gguf_open_memory(ctx, bytes, n_bytes, &made));
    memset(&jd, 0, sizeof jd);
    jd.stories = b_quick ? 20 : 500;
    jd.samples = jd.greedy = -1;
    b_must(ctx, tllm_model_open(ctx, g, &from));
    b_must(ctx, tllm_model_open(ctx, made, &model));
    b_must(ctx, tllm_judge(ctx, model, from, &jd, &result));
    tllm_model_close(ctx, model);
    tllm_model_close(ctx, from);
    tllm_gguf_close(ctx, made);
    tllm_writer_close(ctx, w);
    for (i = 0; i < n_list; i++) b_free(list[i].to);
    b_free(list);
    return result;
}

/* whole heads and neurons that go */
static double bo_thinned(tiny_ctx *ctx, const tllm_gguf *g, double heads, double neurons, int plain,
                         const int32_t *token, tiny_idx n_token, double *params)
{
    tllm_thin_desc d;
    tllm_thin_about a;
    tllm_judge_desc jd;
    tllm_judgement j;
    tllm_thin *t = NULL;
    tllm_writer *w = NULL;
    tllm_gguf *made = NULL;
    tllm_model *model = NULL, *from = NULL;
    const void *bytes;
    size_t n_bytes;
    memset(&d, 0, sizeof d);
    memset(&jd, 0, sizeof jd);
    d.heads = heads;
    d.neurons = neurons;
    d.plain = plain;
    d.window = BG_WINDOW;
    jd.stories = b_quick ? 20 : 500;
    jd.samples = jd.greedy = -1;
    b_must(ctx, tllm_thin_open(ctx, g, &d, &t));
    b_must(ctx, tllm_writer_open(ctx, NULL, &w));
    b_must(ctx, tllm_thin_put(ctx, t, token, n_token, w));
    b_must(ctx, tllm_writer_finish(ctx, w));
    bytes = tllm_writer_memory(w, &n_bytes);
    b_must(ctx, tllm_gguf_open_memory(ctx, bytes, n_bytes, &made));
    b_must(ctx, tllm_model_open(ctx, g, &from));
    b_must(ctx, tllm_model_open(ctx, made, &model));
    b_must(ctx, tllm_judge(ctx, model, from, &jd, &j));
    a = tllm_thin_what(t);
    *params = a.params / a.params_before;
    tllm_model_close(ctx, model);
    tllm_model_close(ctx, from);
    tllm_gguf_close(ctx, made);
    tllm_writer_close(ctx, w);
    tllm_thin_close(ctx, t);
    return j.kl;
}

static void bo_units(tiny_ctx *ctx, const tllm_gguf *g, const int32_t *token, tiny_idx n_token)
{
    static const double share[3][2] = { { 0, 0.125 }, { 0, 0.25 }, { 0.25, 0 } };
    double kl[3][2], params[3];
    int k, plain;
    for (k = 0; k < 3; k++) {
        for (plain = 0; plain < 2; plain++)
            kl[k][plain] = bo_thinned(ctx, g, share[k][0], share[k][1], plain, token, n_token, &params[k]);
        b_note("story.gguf without %.1f %% of the heads and %.1f %% of the neurons, %.1f %% of the parameters: "
               "divergence %.4f bits a token, cut alone %.4f",
               100 * share[k][0], 100 * share[k][1], 100 * params[k], kl[k][0], kl[k][1]);
        b_verdict("divergence fitted over cut alone", kl[k][0] / kl[k][1], "<", 1.0);
    }
}

void bench_oneshot(void)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const tiny_idx n_token = b_quick ? 2048 : BG_TOKENS;
    int32_t *token = bg_stories(BG_TOKENS);
    tllm_gguf *g = NULL;
    double kl[2][TLLM_ONESHOT_WAYS];
    int pattern, way;
    bo_losses(ctx);
    bo_times(ctx);
    b_must(ctx, tllm_gguf_open(ctx, "examples/models/story.gguf", &g));
    for (pattern = 0; pattern < 2; pattern++)
        for (way = 0; way < TLLM_ONESHOT_WAYS; way++) {
            const tllm_judgement j = bo_judged(ctx, g, way, pattern, token, n_token);
            kl[pattern][way] = j.kl;
            b_note("story.gguf, half zeros%s, by %s: divergence %.4f bits a token (%.4f to %.4f)",
                   pattern ? ", 2 of 4" : "", bo_way[way], j.kl, j.kl_low, j.kl_high);
        }
    b_verdict("divergence by magnitude over that by SparseGPT, half zeros", kl[0][0] / kl[0][2], ">", 1.0);
    b_verdict("the same, 2 of 4", kl[1][0] / kl[1][2], ">", 1.0);
    b_headline("oneshot",
               "SparseGPT and Wanda: a 7B model with half of its weights zero has a perplexity of 6.51 and 6.42, by "
               "magnitude 14.89",
               "examples/models/story.gguf, 16384 tokens read, judged on 500 stories, matrices of layers as floats",
               "divergence, bits a token, by magnitude, Wanda, SparseGPT: %.4f, %.4f, %.4f; 2 of 4: %.4f, %.4f, %.4f",
               kl[0][0], kl[0][1], kl[0][2], kl[1][0], kl[1][1], kl[1][2]);
    bo_units(ctx, g, token, n_token);
    tllm_gguf_close(ctx, g);
    b_free(token);
    tiny_ctx_close(ctx);
}
#endif
