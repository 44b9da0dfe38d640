/* src/llm/train/trainer.c
 *
 * Papers   K. Jordan et al., "Muon", 2024; I. Loshchilov, F. Hutter, 2019 (AdamW); S. Hu et al., "MiniCPM", 2024:
 *          warm-up, a constant rate, and a fall to zero at the end.
 * Form     A step: free threads take lanes (forward, backward); the gradients are summed in the order of the lanes, and
 *          their norm computed; then each thread runs the optimiser for its own tensors. There are two barriers per
 *          step. Each thread has a context of one thread for the operations of a lane; their memory comes from the
 *          caller's context, one at a time.
 * Checked  gradients against central differences in double, a resumed run against an uninterrupted one, one thread
 *          against four. */
#include "llm/train/trainer.h"
#include "llm/train/config_inside.h"
#include "llm/train/decoder_inside.h"
#include "llm/train/story.h"
#include "llm/block/format.h"
#include "core/state_inside.h"
#include "core/box/checkpoint.h"
#include "math/table_inside.h"
#include "math/optim.h"
#include "math/elem.h"
#include <stdio.h>
#include <string.h>

#define TINYI_TRAIN_PIECE 16384             /* gradients that a thread adds at once */

struct tllm_trainer {
    tiny_ctx *ctx;
    tllm_train_desc desc;
    tinyi_dec m;
    size_t n;                               /* weights */
    int n_workers;
    tiny_idx busy;                          /* a worker is in the allocator of ctx */
    tiny_ctx *one[TLLM_TRAIN_LANES];        /* of each worker */
    tiny_optim *optim[TLLM_TRAIN_LANES];    /* of its tensors */
    float *w, *g[TLLM_TRAIN_LANES], *turn, *room[TLLM_TRAIN_LANES];
    double *square;                         /* of each piece of the gradient */
    tiny_param *param;
    char (*name)[64];
    int32_t *tokens;                        /* (sequences, context + 1) */
    double nats[TLLM_TRAIN_LANES];
    int64_t steps;
    uint64_t stories;                       /* state of the stream of stories */
    /* of the step that runs */
    const int32_t *batch;
    float share, scale;
    int want_gradient, has_gradient;
    double factor;
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Workers ask for memory while others run: one at a time is in the caller's allocator. */
static void *tinyi_train_realloc(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    tllm_trainer *t = (tllm_trainer *)user;
    const tiny_allocator *a = &t->ctx->desc.allocator;
    void *p;
    while (!tinyi_atomic_swap_if(&t->busy, 0, 1)) tinyi_pause();
    p = a->realloc_fn(a->user, old, old_bytes, n_bytes);
    tinyi_atomic_set(&t->busy, 0);
    return p;
}

static void tinyi_train_name(const tinyi_dec *m, const tinyi_dec_tensor *t, char name[64])
{
    static const char *const what[] = { "token_embd",       "attn_norm",      "attn_q",
                                        "attn_k",           "attn_v",         "attn_kv_a_mqa",
                                        "attn_kv_a_norm",   "attn_kv_b",      "attn_output",
                                        "ffn_norm",         "ffn_gate",       "ffn_up",
                                        "ffn_down",         "output_norm",    "time_mix_lerp_fused",
                                        "time_mix_gate",    "time_mix_decay", "time_mix_decay_w1",
                                        "time_mix_decay_w2" };
    static const struct {
        int what;
        const char *name;
    } gated[] = { { TINYI_DEC_Q, "time_mix_receptance" },
                  { TINYI_DEC_K, "time_mix_key" },
                  { TINYI_DEC_V, "time_mix_value" },
                  { TINYI_DEC_O, "time_mix_output" } };
    const char *at = what[t->what];
    size_t i;
    for (i = 0; i < TINYI_COUNT(gated) && m->form == TINYI_DEC_GATED; i++)
        if (gated[i].what == t->what) at = gated[i].name;
    if (t->layer < 0) (void)snprintf(name, 64, "%s.weight", at);
    else (void)snprintf(name, 64, "blk.%d.%s.weight", (int)t->layer, at);
}

/* What a gate is without an input, z of g = -exp z: from channels of a head that keep 0.993 a token to ones that keep
 * half. */
static double tinyi_train_gate(const tllm_trainer *t, size_t channel)
{
    return -5.0 + 4.6 * (double)(channel % (size_t)t->m.d_head) / (double)TINYI_MAX(t->m.d_head - 1, 1);
}

/* The initial weights: normal numbers; matrices that write to the stream x are scaled down by the number of terms. The
 * embedding must be large compared with the output of the first layers: with 0.02 the model learned names, but no
 * nouns, in 600 steps. The last norm compensates that for the logits. */
static void tinyi_train_start(tllm_trainer *t)
{
    const tiny_idx n = tinyi_dec_tensors(&t->m);
    tiny_idx i;
    for (i = 0; i < n; i++) {
        const tinyi_dec_tensor p = tinyi_dec_tensor_at(&t->m, i);
        const size_t count = (size_t)(p.rows * p.cols);
        float *w = t->w + p.at;
        tiny_rng rng = tiny_rng_make(t->desc.seed, (uint64_t)i);
        size_t k;
        double deviation = 1.0 / tinyi_sqrt64((double)p.cols);
        const float gain = p.what == TINYI_DEC_NORM
                               ? (float)TINYI_MIN(1.0, 1.0 / (t->desc.spread * tinyi_sqrt64((double)p.cols)))
                               : 1.0f;
        if (p.what == TINYI_DEC_EMBD) deviation = t->desc.spread;
        if (p.what == TINYI_DEC_O || p.what == TINYI_DEC_DOWN) deviation /= tinyi_sqrt64(2.0 * (double)t->m.n_layer);
        if (p.what == TINYI_DEC_DECAY_B) deviation *= 0.1;
        if (p.what == TINYI_DEC_DECAY) for (k = 0; k < count; k++) w[k] = (float)tinyi_train_gate(t, k);
        else if (p.what == TINYI_DEC_LERP)
            for (k = 0; k < count; k++)
                w[k] = (float)((double)(k % (size_t)t->m.d) / (double)t->m.d); /* channels look back more and more */
        else if (p.rows == 1) for (k = 0; k < count; k++) w[k] = gain;
        else for (k = 0; k < count; k++) w[k] = (float)(deviation * (double)tiny_rng_normal(&rng));
        /* 1 - e^g is small where a channel keeps much: keys begin a part of that larger */
        for (k = 0; k < count && p.what == TINYI_DEC_K && t->m.form == TINYI_DEC_GATED; k++) {
            const double rest = 1.0 - tinyi_exp64(-tinyi_exp64(tinyi_train_gate(t, k / (size_t)p.cols)));
            w[k] *= (float)TINYI_MIN(1.0 / rest, 4.0);
        }
    }
}

static tiny_status tinyi_train_workers(tllm_trainer *t)
{
    const tiny_idx n = tinyi_dec_tensors(&t->m);
    size_t floats;
    tiny_status st;
    tiny_optim_desc od;
    int i;
    memset(&od, 0, sizeof od);
    od.group[0].kind = TINY_OPTIM_ADAMW;    /* norms and the embedding */
    od.group[0].lr = t->desc.rate;
    od.group[0].beta1 = t->desc.beta1;
    od.group[0].beta2 = t->desc.beta2;
    od.group[0].eps = t->desc.eps;
    od.group[1] = od.group[0];
    od.group[1].lr = t->desc.matrix_rate;
    od.group[1].decay = t->desc.decay;
    if (t->desc.optimizer == TLLM_TRAIN_MUON) {
        od.group[1].kind = TINY_OPTIM_MUON;
        od.group[1].momentum = t->desc.momentum;
    }
    if (!tinyi_dec_room(&t->m, t->desc.sequences / TLLM_TRAIN_LANES, &floats))
        return tinyi_fail(t->ctx, TINY_E_OVERFLOW,
                          "training: a lane of %d sequences of %d tokens is larger than this machine can address",
                          t->desc.sequences / TLLM_TRAIN_LANES, t->desc.context);
    for (i = 0; i < t->n_workers; i++) {
        tiny_ctx_desc d;
        size_t own = 0;
        tiny_idx k;
        memset(&d, 0, sizeof d);
        d.allocator.realloc_fn = tinyi_train_realloc;
        d.allocator.user = t;
        d.n_threads = 1;
        d.target = t->ctx->target;
        st = tiny_ctx_open(&d, &t->one[i]);
        if (st) return tinyi_fail(t->ctx, st, "training: no context for thread %d", i);
        t->room[i] = (float *)tinyi_alloc(t->ctx, floats, sizeof(float));
        if (!t->room[i]) return tiny_ctx_status(t->ctx);
        for (k = 0; k < n; k++) {
            const tinyi_dec_tensor p = tinyi_dec_tensor_at(&t->m, k);
            tiny_param *to = &t->param[own];
            if (k % t->n_workers != i) continue;
            tinyi_train_name(&t->m, &p, t->name[own]);
            to->name = t->name[own++];
            to->value = p.rows == 1 ? tiny_tensor_1d(t->w + p.at, TINY_F32, p.cols)
                                    : tiny_tensor_2d(t->w + p.at, TINY_F32, p.rows, p.cols);
            to->grad = to->value;
            to->grad.data = t->g[0] + p.at;
            to->group = p.rows > 1 && p.what != TINYI_DEC_EMBD;
        }
        st = tiny_optim_open(t->one[i], t->param, own, &od, &t->optim[i]);
        if (st) return tinyi_fail(t->ctx, st, "training: %s", tiny_ctx_message(t->one[i]));
    }
    return TINY_OK;
}

static tiny_status tinyi_train_make(tllm_trainer *t)
{
    const size_t n_tensors = (size_t)tinyi_dec_tensors(&t->m);
    tiny_status st = TINY_OK;
    int i;
    t->n = (size_t)tinyi_dec_params(&t->m);
    t->w = (float *)tinyi_alloc(t->ctx, t->n, sizeof(float));
    t->turn = (float *)tinyi_alloc(t->ctx, (size_t)(t->m.context * t->m.d_turn), sizeof(float));
    t->square = (double *)tinyi_alloc(t->ctx, t->n / TINYI_TRAIN_PIECE + 1, sizeof(double));
    t->param = (tiny_param *)tinyi_alloc(t->ctx, n_tensors, sizeof *t->param);
    t->name = (char (*)[64])tinyi_alloc(t->ctx, n_tensors, 64);
    t->tokens =
        (int32_t *)tinyi_alloc(t->ctx, (size_t)t->desc.sequences * ((size_t)t->desc.context + 1), sizeof *t->tokens);
    if (!t->w || !t->turn || !t->square || !t->param || !t->name || !t->tokens) return tiny_ctx_status(t->ctx);
    for (i = 0; i < TLLM_TRAIN_LANES; i++) {
        t->g[i] = (float *)tinyi_alloc(t->ctx, t->n, sizeof(float));
        if (!t->g[i]) return tiny_ctx_status(t->ctx);
        memset(t->g[i], 0, t->n * sizeof(float));
    }
    tinyi_dec_turns(&t->m, t->turn);
    t->m.turn = t->turn;
    tinyi_train_start(t);
    st = tinyi_train_workers(t);
    /* "stories!": never the stream of a small seed, which is what is held out */
    t->stories = t->desc.seed ^ UINT64_C(0x73746f7269657321);
    return st;
}

TINY_API void tllm_trainer_close(tllm_trainer *t)
{
    tiny_ctx *ctx;
    int i;
    if (!t) return;
    ctx = t->ctx;
    for (i = 0; i < TLLM_TRAIN_LANES; i++) {
        tiny_optim_close(t->optim[i]);
        tiny_ctx_close(t->one[i]);
        tiny_free(ctx, t->room[i]);
        tiny_free(ctx, t->g[i]);
    }
    tiny_free(ctx, t->tokens);
    tiny_free(ctx, t->name);
    tiny_free(ctx, t->param);
    tiny_free(ctx, t->square);
    tiny_free(ctx, t->turn);
    tiny_free(ctx, t->w);
    tiny_free(ctx, t);
}

TINY_API tiny_status tllm_trainer_open(tiny_ctx *ctx, const tllm_train_desc *desc, tllm_trainer **out)
{
    tllm_trainer *t;
    tllm_train_desc d;
    tiny_status st;
    if (out) *out = NULL;
    if (!ctx || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "trainer: the result pointer is NULL");
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    tinyi_train_defaults(&d);
    st = tinyi_train_check(ctx, &d);
    if (st) return st;
    t = (tllm_trainer *)tinyi_alloc(ctx, 1, sizeof *t);
    if (!t) return tiny_ctx_status(ctx);
    memset(t, 0, sizeof *t);
    t->ctx = ctx;
    t->desc = d;
    t->m.form = d.form == TLLM_TRAIN_LATENT  ? TINYI_DEC_LATENT
                : d.form == TLLM_TRAIN_GATED ? TINYI_DEC_GATED
                                             : TINYI_DEC_GROUPED;
    t->m.d = d.embedding;
    t->m.n_layer = d.layers;
    t->m.n_head = d.heads;
    t->m.n_kv = d.kv_heads;
    t->m.d_head = d.embedding / d.heads;
    t->m.d_turn = d.form == TLLM_TRAIN_LATENT ? d.rotary : t->m.d_head;
    t->m.latent = d.latent;
    t->m.rank = d.rank;
    t->m.hidden = d.hidden;
    t->m.context = d.context;
    t->m.vocab = TLLM_STORY_VOCAB;
    t->m.theta = (float)d.rope_base;
    t->m.eps = (float)d.norm_eps;
    t->m.exact = d.exact;
    t->m.stress = (float)d.stress;
    t->n_workers = TINYI_MIN(tiny_ctx_threads(ctx), TLLM_TRAIN_LANES);
    st = tinyi_train_make(t);
    if (st) {
        tllm_trainer_close(t);
        return st;
    }
    *out = t;
    return TINY_OK;
}

TINY_API const tllm_train_desc *tllm_trainer_desc(const tllm_trainer *t) { return t ? &t->desc : NULL; }
TINY_API int64_t tllm_trainer_at(const tllm_trainer *t) { return t ? t->steps : 0; }
TINY_API size_t tllm_trainer_params(const tllm_trainer *t) { return t ? t->n : 0; }

TINY_API int tllm_trainer_tensor(const tllm_trainer *t, size_t i, char name[64], tiny_tensor *value,
                                 tiny_tensor *gradient)
{
    tinyi_dec_tensor p;
    if (!t || i >= (size_t)tinyi_dec_tensors(&t->m)) return 0;
    p = tinyi_dec_tensor_at(&t->m, (tiny_idx)i);
    if (name) tinyi_train_name(&t->m, &p, name);
    if (value) *value = tiny_tensor_2d(t->w + p.at, TINY_F32, p.rows, p.cols);
    if (gradient) *gradient = tiny_tensor_2d(t->g[0] + p.at, TINY_F32, p.rows, p.cols);
    return 1;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static tiny_idx tinyi_train_pieces(const tllm_trainer *t)
{
    return ((tiny_idx)t->n + TINYI_TRAIN_PIECE - 1) / TINYI_TRAIN_PIECE;
}

/* the sentence of a worker's own context, as far as a team keeps one */
static void tinyi_train_failed(tiny_team *team, tiny_status st, const tiny_ctx *one)
{
    const char *from = tiny_ctx_message(one);
    char says[240];
    size_t i;
    for (i = 0; i + 1 < sizeof says && from[i]; i++) says[i] = from[i];
    says[i] = 0;
    tiny_team_fail(team, st, says);
}

static void tinyi_train_lanes(tiny_team *team, void *arg)
{
    tllm_trainer *t = (tllm_trainer *)arg;
    const tiny_idx each = t->desc.sequences / TLLM_TRAIN_LANES, pieces = tinyi_train_pieces(t);
    tiny_idx i, i1, k;
    while (team->i < t->n_workers && tiny_take(team, TLLM_TRAIN_LANES, 1, &i, &i1))
        for (; i < i1; i++) {
            tiny_ctx *one = t->one[team->i];
            tiny_status st = tinyi_dec_lane(one, &t->m, t->w, t->want_gradient ? t->g[i] : NULL, t->room[team->i],
                                            t->batch + i * each * (t->desc.context + 1), each, t->share, &t->nats[i]);
            if (st) tinyi_train_failed(team, st, one);
        }
    tiny_barrier(team);
    while (t->want_gradient && tiny_take(team, pieces, 1, &i, &i1))
        for (; i < i1; i++) {
            const size_t at = (size_t)i * TINYI_TRAIN_PIECE, n = TINYI_MIN(t->n - at, (size_t)TINYI_TRAIN_PIECE);
            double sum = 0.0;
            for (k = 1; k < TLLM_TRAIN_LANES; k++) TINYI_OF(team->k, axpy_f32)(t->g[0] + at, t->g[k] + at, n, 1.0f);
            for (k = 0; k < (tiny_idx)n; k += 1024) {
                const float *g = t->g[0] + at + k;
                sum += (double)TINYI_OF(team->k, dot_f32)(g, g, TINYI_MIN(n - (size_t)k, (size_t)1024));
            }
            t->square[i] = sum;
        }
    tiny_barrier(team);
}

static void tinyi_train_update(tiny_team *team, void *arg)
{
    tllm_trainer *t = (tllm_trainer *)arg;
    const tiny_idx n = tinyi_dec_tensors(&t->m);
    int i;
    for (i = team->i; i < t->n_workers; i += team->n) {
        tiny_status st;
        tiny_idx k;
        for (k = i; k < n && t->scale != 1.0f; k += t->n_workers) {
            const tinyi_dec_tensor p = tinyi_dec_tensor_at(&t->m, k);
            TINYI_OF(team->k, scale_f32)(t->g[0] + p.at, t->g[0] + p.at, (size_t)(p.rows * p.cols), t->scale, 0.0f);
        }
        st = tiny_optim_step(t->optim[i], t->factor);
        if (st) tinyi_train_failed(team, st, t->one[i]);
    }
}

static int tinyi_train_finite(double x) { return x - x == 0.0; }

/* Which tensor is to blame: weights first, then gradients, in the order of the file. */
static tiny_status tinyi_train_blame(tllm_trainer *t, double bits)
{
    const tiny_idx n = tinyi_dec_tensors(&t->m);
    int pass;
    tiny_idx i, k;
    for (pass = 0; pass < 1 + (t->want_gradient != 0); pass++)
        for (i = 0; i < n; i++) {
            const tinyi_dec_tensor p = tinyi_dec_tensor_at(&t->m, i);
            const float *x = (pass ? t->g[0] : t->w) + p.at;
            char name[64];
            for (k = 0; k < p.rows * p.cols; k++)
                if (!tinyi_train_finite((double)x[k])) {
                    tinyi_train_name(&t->m, &p, name);
                    return tinyi_fail(
                        t->ctx, TINY_E_NUMERIC,
                        "training: step %lld: %s of %s is %g at row %lld, column %lld; nothing was changed",
                        (long long)t->steps + 1, pass ? "the gradient" : "the weight", name, (double)x[k],
                        (long long)(k / p.cols), (long long)(k % p.cols));
                }
        }
    return tinyi_fail(t->ctx, TINY_E_NUMERIC,
                      "training: step %lld: the loss is %g bits per token, or the norm of the gradient is more than a "
                      "double holds; nothing was changed",
                      (long long)t->steps + 1, bits);
}

/* loss, and gradient if asked for */
static tiny_status tinyi_train_run(tllm_trainer *t, const int32_t *tokens, int want_gradient, double *bits,
                                   double *length)
{
    const size_t n = (size_t)t->desc.sequences * (size_t)t->desc.context,
                 all = (size_t)t->desc.sequences * ((size_t)t->desc.context + 1);
    double nats = 0.0, square = 0.0;
    tiny_status st;
    tiny_idx i;
    size_t k;
    for (k = 0; k < all; k++)
        if (tokens[k] < 0 || tokens[k] >= TLLM_STORY_VOCAB)
            return tinyi_fail(t->ctx, TINY_E_ARGUMENT, "training: token %zu is %ld; the vocabulary has 0 to %d", k,
                              (long)tokens[k], TLLM_STORY_VOCAB - 1);
    t->batch = tokens;
    t->want_gradient = want_gradient;
    t->share = (float)(1.0 / (double)n);
    st = tiny_parallel(t->ctx, t->n_workers, 0, 0, tinyi_train_lanes, t);
    if (st) return st;
    for (i = 0; i < TLLM_TRAIN_LANES; i++) nats += t->nats[i];
    for (i = 0; want_gradient && i < tinyi_train_pieces(t); i++) square += t->square[i];
    *bits = nats / (double)n * 1.4426950408889634;
    *length = tinyi_sqrt64(square);
    return tinyi_train_finite(*bits) && tinyi_train_finite(square) ? TINY_OK : tinyi_train_blame(t, *bits);
}

/* the step, counted from 0, after which the rates fall */
static double tinyi_train_falls(double constant, double steps) { return (double)(int64_t)(constant * steps); }

static double tinyi_train_factor(const tllm_trainer *t)
{
    tiny_schedule s;
    memset(&s, 0, sizeof s);
    s.kind = TINY_SCHEDULE_WSD;
    s.warmup = t->desc.warmup;
    s.total = t->desc.steps;
    s.decay_at = (int64_t)tinyi_train_falls(t->desc.constant, (double)t->desc.steps);
    return tiny_schedule_at(&s, t->steps);
}

TINY_API tiny_status tllm_trainer_step_on(tllm_trainer *t, const int32_t *tokens, tllm_train_report *report)
{
    tllm_train_report r;
    tiny_status st;
    if (!t || !tokens) return TINY_E_ARGUMENT;
    memset(&r, 0, sizeof r);
    if (t->steps >= t->desc.steps)
        return tinyi_fail(t->ctx, TINY_E_ARGUMENT, "training: all %d steps are done", t->desc.steps);
    st = tinyi_train_run(t, tokens, 1, &r.bits, &r.length);
    if (st) return st;
    t->factor = r.factor = tinyi_train_factor(t);
    t->scale = r.length > t->desc.clip ? (float)(t->desc.clip / r.length) : 1.0f;
    st = tiny_parallel(t->ctx, t->n_workers, 0, 0, tinyi_train_update, t);
    if (st) return st;
    r.step = ++t->steps;
    r.tokens = (size_t)t->desc.sequences * (size_t)t->desc.context;
    if (report) *report = r;
    return TINY_OK;
}

/* Fills (sequences, context + 1) from the stream; the floor of them in bits, all together. */
static double tinyi_train_draw(const tllm_trainer *t, uint64_t *stories, int32_t *tokens)
{
    double floor = 0.0, bits;
    int s, i;
    for (s = 0; s < t->desc.sequences; s++) {
        tllm_story story = tllm_story_start(*stories);
        *tokens++ = TLLM_STORY_END;
        for (i = 0; i < t->desc.context; i++) {
            *tokens++ = tllm_story_draw(&story, &bits, NULL);
            floor += bits;
        }
        *stories = story.seed;
    }
    return floor;
}

TINY_API tiny_status tllm_trainer_step(tllm_trainer *t, tllm_train_report *report)
{
    tllm_train_report r;
    uint64_t stories;
    double floor;
    tiny_status st;
    if (!t) return TINY_E_ARGUMENT;
    stories = t->stories;
    floor = tinyi_train_draw(t, &stories, t->tokens);
    st = tllm_trainer_step_on(t, t->tokens, &r);
    if (st) return st;
    t->stories = stories;
    r.floor = floor / (double)r.tokens;
    if (report) *report = r;
    return TINY_OK;
}

TINY_API tiny_status tllm_trainer_gradient(tllm_trainer *t, const int32_t *tokens, double *bits)
{
    double length, b;
    tiny_status st;
    if (!t || !tokens) return TINY_E_ARGUMENT;
    st = tinyi_train_run(t, tokens, 1, &b, &length);
    if (!st && bits) *bits = b;
    return st;
}

TINY_API tiny_status tllm_trainer_heldout(tllm_trainer *t, uint64_t seed, int n_batches, double *bits, double *floor)
{
    double b = 0.0, f = 0.0, x, length;
    tiny_status st = TINY_OK;
    int i;
    if (!t || !bits || !floor) return TINY_E_ARGUMENT;
    if (n_batches < 1)
        return tinyi_fail(t->ctx, TINY_E_ARGUMENT, "training: %d held-out batches; at least 1 is needed", n_batches);
    for (i = 0; i < n_batches && !st; i++) {
        f += tinyi_train_draw(t, &seed, t->tokens);
        st = tinyi_train_run(t, t->tokens, 0, &x, &length);
        b += x;
    }
    if (st) return st;
    *bits = b / (double)n_batches;
    *floor = f / ((double)n_batches * (double)t->desc.sequences * (double)t->desc.context);
    return TINY_OK;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

static const char *tinyi_train_kind(const tllm_trainer *t)
{
    return t->desc.form == TLLM_TRAIN_LATENT  ? "story trainer 1, latent"
           : t->desc.form == TLLM_TRAIN_GATED ? "story trainer 1, gated"
                                              : "story trainer 1";
}
/* What a checkpoint of this form says of its description in numbers: keys of other forms are not in it. */
static int tinyi_train_told(const tllm_trainer *t, const tinyi_train_key *k)
{
    if (k->kind == TINYI_TK_SEED || k->kind == TINYI_TK_FORM) return 0;
    if (k->at == offsetof(tllm_train_desc, latent) || k->at == offsetof(tllm_train_desc, rotary))
        return t->desc.form == TLLM_TRAIN_LATENT;
    return k->at != offsetof(tllm_train_desc, rank) || t->desc.form == TLLM_TRAIN_GATED;
}

TINY_API tiny_status tllm_trainer_save(tllm_trainer *t, const char *path)
{
    tiny_checkpoint_writer_desc d;
    tiny_checkpoint_writer *w;
    tiny_status st;
    const tinyi_train_key *k;
    size_t i;
    int worker;
    char name[128];
    tiny_tensor x;
    if (!t || !path) return TINY_E_ARGUMENT;
    memset(&d, 0, sizeof d);
    d.path = path;
    st = tiny_checkpoint_create(t->ctx, &d, &w);
    if (st) return st;
    (void)tiny_checkpoint_put_text(t->ctx, w, "kind", tinyi_train_kind(t));
    for (i = 0; (k = tinyi_train_key_at(i)) != NULL; i++)
        if (tinyi_train_told(t, k)) (void)tiny_checkpoint_put_f64(t->ctx, w, k->name, tinyi_train_get(&t->desc, k));
    (void)tiny_checkpoint_put_u64(t->ctx, w, "seed", t->desc.seed);
    (void)tiny_checkpoint_put_u64(t->ctx, w, "step", (uint64_t)t->steps);
    (void)tiny_checkpoint_put_u64(t->ctx, w, "stories", t->stories);
    for (i = 0; tllm_trainer_tensor(t, i, name, &x, NULL); i++) (void)tiny_checkpoint_put_tensor(t->ctx, w, name, &x);
    for (worker = 0; worker < t->n_workers; worker++)
        for (i = 0; tiny_optim_state(t->optim[worker], i, name, &x); i++)
            (void)tiny_checkpoint_put_tensor(t->ctx, w, name, &x);
    st = tiny_checkpoint_finish(t->ctx, w);
    tiny_checkpoint_writer_close(t->ctx, w);
    return st;
}

static tiny_status tinyi_train_compare(tllm_trainer *t, const tiny_checkpoint *c, const char *path)
{
    const tinyi_train_key *k;
    const char *kind;
    uint64_t seed, steps = 0;
    double other_steps = 0.0, other_constant = 0.0;
    size_t i;
    int both_whole;
    tiny_status st = tiny_checkpoint_get_text(t->ctx, c, "kind", &kind);
    if (!st && strcmp(kind, tinyi_train_kind(t)))
        return tinyi_fail(t->ctx, TINY_E_FORMAT, "%s: this is a checkpoint of \"%.60s\", not of \"%s\"", path, kind,
                          tinyi_train_kind(t));
    if (!st) st = tiny_checkpoint_get_u64(t->ctx, c, "step", &steps);
    if (!st) st = tiny_checkpoint_get_f64(t->ctx, c, "steps", &other_steps);
    if (!st) st = tiny_checkpoint_get_f64(t->ctx, c, "constant", &other_constant);
    /* where the rates have not begun to fall, neither here nor there, the length of the run did not enter yet */
    both_whole = (double)steps <= tinyi_train_falls(t->desc.constant, (double)t->desc.steps) &&
                 (double)steps <= tinyi_train_falls(other_constant, other_steps);
    for (i = 0; !st && (k = tinyi_train_key_at(i)) != NULL; i++) {
        double x;
        if (!tinyi_train_told(t, k) ||
            (both_whole && (k->at == offsetof(tllm_train_desc, steps) || k->at == offsetof(tllm_train_desc, constant))))
            continue;
        x = k->at == offsetof(tllm_train_desc, stress) ? 1.0 : 0.0;
        if ((k->at != offsetof(tllm_train_desc, exact) && k->at != offsetof(tllm_train_desc, stress)) ||
            tiny_checkpoint_find(c, k->name))
            st = tiny_checkpoint_get_f64(t->ctx, c, k->name,
                                         &x); /* older checkpoints do not say these two: they were not there to set */
        if (!st && x != tinyi_train_get(&t->desc, k))
            return tinyi_fail(t->ctx, TINY_E_ARGUMENT, "%s: the checkpoint was made with %s = %g, but this run has %g",
                              path, k->name, x, tinyi_train_get(&t->desc, k));
    }
    if (!st) st = tiny_checkpoint_get_u64(t->ctx, c, "seed", &seed);
    if (!st && seed != t->desc.seed)
        return tinyi_fail(t->ctx, TINY_E_ARGUMENT, "%s: the checkpoint was made with seed %llu, but this run has %llu",
                          path, (unsigned long long)seed, (unsigned long long)t->desc.seed);
    return st;
}

TINY_API tiny_status tllm_trainer_load(tllm_trainer *t, const char *path)
{
    tiny_checkpoint_desc d;
    tiny_checkpoint *c;
    tiny_status st;
    uint64_t steps = 0, stories = 0;
    char name[128];
    tiny_tensor x;
    size_t i;
    int pass, k;
    if (!t || !path) return TINY_E_ARGUMENT;
    memset(&d, 0, sizeof d);
    d.path = path;
    d.copy = 1;                             /* the next save may take its place */
    st = tiny_checkpoint_open(t->ctx, &d, &c);
    if (st) return st;
    st = tinyi_train_compare(t, c, path);
    if (!st) st = tiny_checkpoint_get_u64(t->ctx, c, "step", &steps);
    if (!st) st = tiny_checkpoint_get_u64(t->ctx, c, "stories", &stories);
    if (!st && steps > (uint64_t)t->desc.steps)
        st = tinyi_fail(t->ctx, TINY_E_FORMAT, "%s: step %llu of %d", path, (unsigned long long)steps, t->desc.steps);
    for (pass = 0; pass < 2; pass++) {      /* ask for all, then read all */
        for (i = 0; !st && tllm_trainer_tensor(t, i, name, &x, NULL); i++)
            st = pass ? tiny_checkpoint_get_tensor(t->ctx, c, name, &x) : tiny_checkpoint_expect(t->ctx, c, name, &x);
        for (k = 0; k < t->n_workers; k++)
            for (i = 0; !st && tiny_optim_state(t->optim[k], i, name, &x); i++)
                st = pass ? tiny_checkpoint_get_tensor(t->ctx, c, name, &x)
                          : tiny_checkpoint_expect(t->ctx, c, name, &x);
    }
    for (k = 0; !st && k < t->n_workers; k++) st = tiny_optim_resume(t->optim[k], (int64_t)steps);
    tiny_checkpoint_close(t->ctx, c);
    if (st) return st;
    t->steps = (int64_t)steps;
    t->stories = stories;
    return TINY_OK;
}

/* ---- the model file ---------------------------------------------------------------------------------------------- */

/* keys of the architecture start with its name */
static const char *tinyi_train_arch(const tllm_trainer *t)
{
    return t->desc.form == TLLM_TRAIN_LATENT ? "plm" : t->desc.form == TLLM_TRAIN_GATED ? "rwkv6qwen2" : "llama";
}
static const char *tinyi_train_arch_key(const tllm_trainer *t, char key[64], const char *name)
{
    (void)snprintf(key, 64, "%s.%s", tinyi_train_arch(t), name);
    return key;
}
static tiny_status tinyi_train_keys_put(tllm_trainer *t, tllm_writer *w, const tllm_format *f)
{
    tiny_ctx *c = t->ctx;
    const tllm_train_desc *d = &t->desc;
    /* no heads of queries, as converters write it; no positions */
    const struct { const char *name; int value;
    } gated[] = { { "attention.head_count", 0 },         { "attention.head_count_kv", d->heads },
                  { "wkv.head_size", (int)t->m.d_head }, { "time_mix_extra_dim", 1 },
                  { "time_decay_extra_dim", d->rank },   { "token_shift_count", 1 } },
      number[] = { { "vocab_size", TLLM_STORY_VOCAB },
                   { "context_length", d->context },
                   { "embedding_length", d->embedding },
                   { "block_count", d->layers },
                   { "feed_forward_length", d->hidden },
                   { "attention.head_count", d->heads },
                   { "attention.head_count_kv", d->kv_heads },
                   { "rope.dimension_count", (int)t->m.d_turn },
                   { "attention.key_length", (int)(t->m.d_head + t->m.d_turn) },
                   { "attention.value_length", (int)t->m.d_head },
                   { "attention.kv_lora_rank", d->latent } };
    /* the last three are those of latent attention */
    const size_t numbers = TINYI_COUNT(number) - (d->form == TLLM_TRAIN_LATENT  ? 0
                                                  : d->form == TLLM_TRAIN_GATED ? 6
                                                                                : 3);
    char key[64];
    size_t i;
    (void)tllm_writer_put_text(c, w, "general.architecture", tinyi_train_arch(t));
    (void)tllm_writer_put_text(c, w, "general.name", "story");
    (void)tllm_writer_put_text(c, w, "general.license", "mit");
    (void)tllm_writer_put_text(c, w, "general.description",
                               "trained on stories of a generated language whose entropy is known");
    if (f->id == TLLM_FORMAT_F32 || f->id == TLLM_FORMAT_F16 || f->id == TLLM_FORMAT_Q8_0)
        (void)tllm_writer_put_u32(c, w, "general.file_type",
                                  f->id == TLLM_FORMAT_F32   ? 0u
                                  : f->id == TLLM_FORMAT_F16 ? 1u
                                                             : 7u);
    (void)tllm_writer_put_u32(c, w, "general.quantization_version", 2);
    for (i = 0; i < numbers; i++) {
        if (i == 7)
            (void)tllm_writer_put_f32(c, w, tinyi_train_arch_key(t, key, "attention.layer_norm_rms_epsilon"),
                                      (float)d->norm_eps);
        (void)tllm_writer_put_u32(c, w, tinyi_train_arch_key(t, key, number[i].name), (uint32_t)number[i].value);
    }
    if (d->form == TLLM_TRAIN_GATED) {
        (void)tllm_writer_put_f32(c, w, tinyi_train_arch_key(t, key, "attention.layer_norm_rms_epsilon"),
                                  (float)d->norm_eps);
        for (i = 0; i < TINYI_COUNT(gated); i++)
            (void)tllm_writer_put_u32(c, w, tinyi_train_arch_key(t, key, gated[i].name), (uint32_t)gated[i].value);
    } else (void)tllm_writer_put_f32(c, w, tinyi_train_arch_key(t, key, "rope.freq_base"), (float)d->rope_base);
    (void)tllm_writer_put_u64(c, w, "training.seed", d->seed);
    (void)tllm_writer_put_u32(c, w, "training.steps", (uint32_t)t->steps);
    return tllm_story_vocab_put(c, w);
}

/* Tensors of a gated file that are not trained. In this architecture the shares of the five inputs can depend on the
 * token by two small matrices; these and their input are zero here. Other engines also need the head next to the
 * embedding. Tensor i of them; 0: no more. */
static int tinyi_train_extra(const tllm_trainer *t, int i, char name[64], uint64_t dim[3], int *rank)
{
    static const char *const each[] = { "time_mix_lerp_x", "time_mix_w1", "time_mix_w2" };
    const uint64_t d = (uint64_t)t->desc.embedding;
    if (t->desc.form != TLLM_TRAIN_GATED || i > 3 * t->desc.layers) return 0;
    if (i == 3 * t->desc.layers) {
        (void)snprintf(name, 64, "output.weight");
        *rank = 2;
        dim[0] = d;
        dim[1] = TLLM_STORY_VOCAB;
        return 1;
    }
    (void)snprintf(name, 64, "blk.%d.%s.weight", i / 3, each[i % 3]);
    *rank = 1 + i % 3;
    dim[0] = i % 3 == 2 ? 1 : d;
    dim[1] = i % 3 == 2 ? d : 5;
    dim[2] = 5;
    return 1;
}

TINY_API tiny_status tllm_trainer_model(tllm_trainer *t, const char *path, const char *format)
{
    const tllm_format *f = tllm_format_by_name(format ? format : "F32"), *plain = tllm_format_of(TLLM_FORMAT_F32);
    tllm_writer_desc wd;
    tllm_writer *w = NULL;
    unsigned char *packed;
    tiny_status st;
    tiny_tensor x;
    char name[64];
    uint64_t dim[4];
    tllm_text text;
    size_t i, most = 0;
    int k, rank;
    if (!t || !path) return TINY_E_ARGUMENT;
    if (!f || !f->pack || (f->flags & TLLM_FORMAT_ACTIVATIONS))
        return tinyi_fail(t->ctx, TINY_E_ARGUMENT, "%s: unknown format \"%.40s\" for weights", path, format);
    for (i = 0; tllm_trainer_tensor(t, i, name, &x, NULL); i++) {
        const size_t n = (size_t)tiny_tensor_count(&x);
        if (x.dim[0] > 1 && x.dim[1] % f->values)
            return tinyi_fail(t->ctx, TINY_E_SHAPE,
                              "%s: rows of %s have %lld numbers, not whole blocks of %s, which have %d", path, name,
                              (long long)x.dim[1], f->name, f->values);
        most = TINYI_MAX(most, n * 4);
        if (x.dim[0] > 1) most = TINYI_MAX(most, tllm_format_bytes(f, n));
    }
    packed = (unsigned char *)tinyi_alloc(t->ctx, most, 1);
    if (!packed) return tiny_ctx_status(t->ctx);
    memset(&wd, 0, sizeof wd);
    wd.path = path;
    st = tllm_writer_open(t->ctx, &wd, &w);
    if (!st) st = tinyi_train_keys_put(t, w, f);
    for (i = 0; !st && tllm_trainer_tensor(t, i, name, &x, NULL); i++) {
        const int is_row = x.dim[0] == 1, five = is_row && x.dim[1] == 5 * (tiny_idx)t->desc.embedding;
        text.at = name;
        text.n = strlen(name);
        dim[0] = (uint64_t)(five ? t->desc.embedding : x.dim[1]);
        dim[1] = five ? 1 : (uint64_t)x.dim[0];
        dim[2] = 1;
        dim[3] = 5;
        st = tllm_writer_put_tensor(t->ctx, w, text, is_row ? plain->id : f->id, five ? 4 : is_row ? 1 : 2, dim, NULL);
    }
    for (k = 0; !st && tinyi_train_extra(t, k, name, dim, &rank); k++) {
        text.at = name;
        text.n = strlen(name);
        st = tllm_writer_put_tensor(t->ctx, w, text, k == 3 * t->desc.layers ? f->id : plain->id, rank, dim, NULL);
    }
    for (i = 0; !st && tllm_trainer_tensor(t, i, name, &x, NULL); i++) {
        const size_t n = (size_t)tiny_tensor_count(&x);
        const tllm_format *to = x.dim[0] == 1 ? plain : f;
        to->pack((const float *)x.data, packed, n, NULL);
        st = tllm_writer_data(t->ctx, w, packed, tllm_format_bytes(to, n));
    }
    for (k = 0; !st && tinyi_train_extra(t, k, name, dim, &rank); k++) {
        size_t n = (size_t)t->desc.embedding * (rank == 1 ? 1 : 5) * 4;
        memset(packed, 0, n);               /* no more than a matrix of the layer, which has 8 rows or more */
        if (k == 3 * t->desc.layers && tllm_trainer_tensor(t, 0, NULL, &x, NULL)) {
            n = tllm_format_bytes(f, (uint64_t)tiny_tensor_count(&x));
            f->pack((const float *)x.data, packed, (size_t)tiny_tensor_count(&x), NULL);
        }
        st = tllm_writer_data(t->ctx, w, packed, n);
    }
    if (!st) st = tllm_writer_finish(t->ctx, w);
    tllm_writer_close(t->ctx, w);
    tiny_free(t->ctx, packed);
    return st;
}
