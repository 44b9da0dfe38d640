/* src/llm/train/judge.c
 *
 * Formula  excess = mean of -log2 q(t) + log2 p(t) over the tokens of held-out stories, q of the model, p of the
 *          grammar. Its interval comes from resampling whole stories (B. Efron, "Bootstrap methods", 1979), because
 *          tokens of one story depend on each other.
 *          KL = mean over positions of sum_t b(t) log2(b(t) / q(t)), b of the base. */
#include "llm/train/judge.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include <string.h>

#define TINYI_JUDGE_ROUNDS 1000             /* of the bootstrap */
#define TINYI_JUDGE_BITS 1.4426950408889634

typedef struct tinyi_judge {
    tiny_ctx *ctx;
    tllm_state *state, *base;
    int32_t token[TLLM_STORY_LONGEST + 1];
    double bits[TLLM_STORY_LONGEST];
    uint8_t tag[TLLM_STORY_LONGEST];
    float *logits, *other;                  /* (TLLM_STORY_LONGEST, vocabulary) */
    double *excess, *lost, *kl, *length;    /* of each story: above the floor, more than the base, divergence, tokens */
} tinyi_judge;

static int32_t tinyi_judge_best(const float *x)
{
    int32_t i, best = 1;
    for (i = 2; i < TLLM_STORY_VOCAB; i++)
        if (x[i] > x[best]) best = i;
    return best;
}
/* log of the sum of exp */
static double tinyi_judge_log_sum(const float *x)
{
    double sum = 0.0, top = (double)x[0];
    int i;
    for (i = 1; i < TLLM_STORY_VOCAB; i++) top = TINYI_MAX(top, (double)x[i]);
    for (i = 0; i < TLLM_STORY_VOCAB; i++) sum += tinyi_exp64((double)x[i] - top);
    return top + tinyi_log64(sum);
}

static tiny_status tinyi_judge_read(tinyi_judge *j, tllm_state *state, tiny_idx n, float *logits)
{
    tllm_state_clear(state);
    return tllm_forward(state, j->token, n, 0, n, logits);
}

static tiny_status tinyi_judge_story(tinyi_judge *j, tllm_story *s, size_t at, tllm_judgement *out)
{
    tiny_idx n = 0, i;
    tiny_status st;
    double story = 0.0, lost = 0.0, kl = 0.0;
    int tag, k;
    j->token[0] = TLLM_STORY_END;
    do {
        j->token[n + 1] = tllm_story_draw(s, &j->bits[n], &tag);
        j->tag[n] = (uint8_t)tag;
    } while (j->token[++n] != TLLM_STORY_END && n < TLLM_STORY_LONGEST);
    st = tinyi_judge_read(j, j->state, n, j->logits);
    if (!st && j->base) st = tinyi_judge_read(j, j->base, n, j->other);
    for (i = 0; !st && i < n; i++) {
        const float *x = j->logits + i * TLLM_STORY_VOCAB, *b = j->other + i * TLLM_STORY_VOCAB;
        const double log_sum = tinyi_judge_log_sum(x), bits = (log_sum - (double)x[j->token[i + 1]]) * TINYI_JUDGE_BITS;
        const int32_t best = tinyi_judge_best(x);
        tllm_judge_tag *t = &out->tag[j->tag[i]];
        if (!(bits - bits == 0.0))
            return tinyi_fail(j->ctx, TINY_E_NUMERIC, "judge: story %zu, token %lld: the model gives %g bits", at,
                              (long long)i, bits);
        t->n++;
        t->right += best == j->token[i + 1];
        t->excess += bits - j->bits[i];
        out->bits += bits;
        out->floor += j->bits[i];
        story += bits - j->bits[i];
        if (j->base) {
            const double base_sum = tinyi_judge_log_sum(b);
            for (k = 0; k < TLLM_STORY_VOCAB; k++) {
                const double lb = (double)b[k] - base_sum;
                if (lb > -80.0) kl += tinyi_exp64(lb) * (lb - ((double)x[k] - log_sum)) * TINYI_JUDGE_BITS;
            }
            lost += bits;
            lost -= (base_sum - (double)b[j->token[i + 1]]) * TINYI_JUDGE_BITS;
            out->base_bits += (base_sum - (double)b[j->token[i + 1]]) * TINYI_JUDGE_BITS;
            out->agree += tinyi_judge_best(b) == best;
        }
    }
    out->tokens += (size_t)n;
    out->kl += kl;
    j->excess[at] = story;
    j->lost[at] = lost;
    j->kl[at] = kl;
    j->length[at] = (double)n;
    return st;
}

/* Where the mean of value / length lies in 95 of 100 samples of n stories. */
static void tinyi_judge_interval(const double *value, const double *n_tokens, size_t n, double *low, double *high)
{
    double mean[TINYI_JUDGE_ROUNDS];
    tiny_rng rng = tiny_rng_make(1, 0);
    size_t r, i;
    for (r = 0; r < TINYI_JUDGE_ROUNDS; r++) {
        double sum = 0.0, length = 0.0;
        size_t at;
        for (i = 0; i < n; i++) {
            const uint32_t k = tiny_rng_below(&rng, (uint32_t)n);
            sum += value[k];
            length += n_tokens[k];
        }
        for (at = r; at > 0 && mean[at - 1] > sum / length; at--) mean[at] = mean[at - 1];
        mean[at] = sum / length;
    }
    *low = mean[TINYI_JUDGE_ROUNDS / 40];
    *high = mean[TINYI_JUDGE_ROUNDS - 1 - TINYI_JUDGE_ROUNDS / 40];
}

/* One number in [0, 1) against the weights exp(x - top). */
static int32_t tinyi_judge_draw(const float *x, double u)
{
    const double log_sum = tinyi_judge_log_sum(x);
    int32_t i, last = 1;
    for (i = 0; i < TLLM_STORY_VOCAB; i++) {
        const double p = tinyi_exp64((double)x[i] - log_sum);
        if (p > 0.0) last = i;
        u -= p;
        if (u < 0.0) return i;
    }
    return last;
}

/* The model generates a story after the first n tokens in j->token, by sampling or greedily. */
static tiny_status tinyi_judge_tell(tinyi_judge *j, tllm_story *s, tiny_idx n, tiny_rng *rng, tllm_told *out)
{
    tiny_status st;
    tiny_idx i;
    int32_t t = 0;
    tllm_state_clear(j->state);
    st = tllm_forward(j->state, j->token, n, 0, 1, j->logits);
    out->n++;
    for (i = n; !st && i < TLLM_STORY_LONGEST; i++) {
        tllm_story_items q;
        t = rng ? tinyi_judge_draw(j->logits, tiny_rng_uniform64(rng)) : tinyi_judge_best(j->logits);
        tllm_story_next(s, &q);
        if (!tllm_story_take(s, t, NULL, NULL)) {
            out->fault[q.tag]++;
            return TINY_OK;
        }
        out->tokens++;
        if (t == TLLM_STORY_END) {
            out->valid++;
            return TINY_OK;
        }
        st = tllm_forward(j->state, &t, 1, i, 1, j->logits);
    }
    out->unfinished += !st;
    return st;
}

/* From the token before the first sentence that the model chooses: one opening per story. */
static tiny_status tinyi_judge_opening(tinyi_judge *j, tllm_story *stream, tllm_told *out)
{
    tllm_story s = *stream, told;
    tiny_idx n = 1;
    int dots = 0;
    j->token[0] = TLLM_STORY_END;
    told = s;
    /* three sentences: place, own things, things of the friend; "named Max . he was" is one more */
    while (dots < 3) {
        const int32_t t = tllm_story_draw(&s, NULL, NULL);
        j->token[n++] = t;
        (void)tllm_story_take(&told, t, NULL, NULL);
        if (t == tllm_story_find(".", 1)) dots++;
        if (n == 2 && t == tllm_story_find("there", 5)) dots = -1;
    }
    while (tllm_story_draw(&s, NULL, NULL) != TLLM_STORY_END) {}
    *stream = s;
    return tinyi_judge_tell(j, &told, n, NULL, out);
}

/* Every sum of the lessons after the same opening. */
static tiny_status tinyi_judge_sums(tinyi_judge *j, tllm_judgement *out)
{
    static const char *const number[21] = { "zero",     "one",      "two",      "three",   "four",    "five",
                                            "six",      "seven",    "eight",    "nine",    "ten",     "eleven",
                                            "twelve",   "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
                                            "eighteen", "nineteen", "twenty" };
    static const char *const frame[] = { "one",    "day", ",",       "Ben",   "was",    "in",     "the",  "park",
                                         ".",      "he",  "had",     "two",   "red",    "apples", ".",    "his",
                                         "friend", "Mia", "had",     "three", "stones", ".",      "at",   "school",
                                         ",",      "the", "teacher", "asked", ",",      "\"",     "what", "is" };
    static const char *const behind[] = { "?", "\"", "Ben", "said", ",", "\"" };
    int a, b, minus;
    size_t i;
    for (a = 1; a <= 10; a++)
        for (minus = 0; minus < 2; minus++)
            for (b = 1; b <= (minus ? a : 10); b++) {
                tiny_idx n = 1;
                const char *answer = number[minus ? a - b : a + b];
                tiny_status st;
                j->token[0] = TLLM_STORY_END;
                for (i = 0; i < TINYI_COUNT(frame); i++) j->token[n++] = tllm_story_find(frame[i], strlen(frame[i]));
                j->token[n++] = tllm_story_find(number[a], strlen(number[a]));
                j->token[n++] = minus ? tllm_story_find("minus", 5) : tllm_story_find("plus", 4);
                j->token[n++] = tllm_story_find(number[b], strlen(number[b]));
                for (i = 0; i < TINYI_COUNT(behind); i++) j->token[n++] = tllm_story_find(behind[i], strlen(behind[i]));
                tllm_state_clear(j->state);
                st = tllm_forward(j->state, j->token, n, 0, 1, j->logits);
                if (st) return st;
                out->sums++;
                out->sums_right += tinyi_judge_best(j->logits) == tllm_story_find(answer, strlen(answer));
            }
    return TINY_OK;
}

static tiny_status tinyi_judge_all(tinyi_judge *j, const tllm_judge_desc *d, tllm_judgement *out)
{
    tllm_story s = tllm_story_start(d->seed);
    tiny_rng rng = tiny_rng_make(d->seed, 1);
    tiny_status st = TINY_OK;
    int i;
    for (i = 0; !st && i < d->stories; i++) st = tinyi_judge_story(j, &s, (size_t)i, out);
    if (st) return st;
    out->stories = (size_t)d->stories;
    out->bits /= (double)out->tokens;
    out->floor /= (double)out->tokens;
    out->base_bits /= (double)out->tokens;
    out->kl /= (double)out->tokens;
    out->agree /= (double)out->tokens;
    for (i = 0; i < TLLM_STORY_TAGS; i++)
        if (out->tag[i].n) out->tag[i].excess /= (double)out->tag[i].n;
    tinyi_judge_interval(j->excess, j->length, out->stories, &out->low, &out->high);
    if (j->base) {
        tinyi_judge_interval(j->lost, j->length, out->stories, &out->lost_low, &out->lost_high);
        tinyi_judge_interval(j->kl, j->length, out->stories, &out->kl_low, &out->kl_high);
    }
    st = tinyi_judge_sums(j, out);
    for (i = 0; !st && i < d->samples; i++) {
        tllm_story told = tllm_story_start(0);
        j->token[0] = TLLM_STORY_END;
        st = tinyi_judge_tell(j, &told, 1, &rng, &out->drawn);
    }
    s = tllm_story_start(d->seed);
    for (i = 0; !st && i < d->greedy; i++) st = tinyi_judge_opening(j, &s, &out->greedy);
    return st;
}

TINY_API tiny_status tllm_judge(tiny_ctx *ctx, const tllm_model *model, const tllm_model *base,
                                const tllm_judge_desc *desc, tllm_judgement *out)
{
    tllm_judge_desc d;
    tllm_about about;
    tllm_state_desc sd, own;
    tinyi_judge *j;
    tiny_status st = TINY_OK;
    int i;
    if (!ctx || !model || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "judge: the %s is NULL", model ? "result pointer" : "model");
    memset(out, 0, sizeof *out);
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if (!d.seed) d.seed = 999;
    if (!d.stories) d.stories = 2000;
    if (!d.samples) d.samples = 1000;
    if (!d.greedy) d.greedy = 1000;
    if (d.stories < 1 || d.stories > 10000000)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "judge: %d stories; the limits are 1 and 10000000", d.stories);
    for (i = 0; i < 2; i++) {
        if (i && !base) continue;
        tllm_model_about(i ? base : model, &about);
        if (about.output != TLLM_LOGITS || about.is_encoder || about.has_decoder)
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "judge: this %s model does not predict text", about.arch);
        if (about.n_vocab != TLLM_STORY_VOCAB)
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                              "judge: a %s model of %lld tokens does not read stories, whose vocabulary has %d",
                              about.arch, (long long)about.n_vocab, TLLM_STORY_VOCAB);
    }
    j = (tinyi_judge *)tinyi_alloc(ctx, 1, sizeof *j);
    if (!j) return tiny_ctx_status(ctx);
    memset(j, 0, sizeof *j);
    j->ctx = ctx;
    memset(&sd, 0, sizeof sd);
    sd.n_ctx = sd.n_batch = TLLM_STORY_LONGEST;
    own = d.state ? *d.state : sd;
    own.n_ctx = own.n_batch = sd.n_ctx;
    j->logits = (float *)tinyi_alloc(ctx, (size_t)TLLM_STORY_LONGEST * TLLM_STORY_VOCAB, sizeof(float));
    j->other = (float *)tinyi_alloc(ctx, (size_t)TLLM_STORY_LONGEST * TLLM_STORY_VOCAB, sizeof(float));
    j->excess = (double *)tinyi_alloc(ctx, (size_t)d.stories, sizeof(double));
    j->length = (double *)tinyi_alloc(ctx, (size_t)d.stories, sizeof(double));
    j->lost = (double *)tinyi_alloc(ctx, (size_t)d.stories, sizeof(double));
    j->kl = (double *)tinyi_alloc(ctx, (size_t)d.stories, sizeof(double));
    if (!j->logits || !j->other || !j->excess || !j->length || !j->lost || !j->kl) st = tiny_ctx_status(ctx);
    if (!st) st = tllm_state_open(ctx, model, &own, &j->state);
    if (!st && base) st = tllm_state_open(ctx, base, &sd, &j->base);
    out->has_base = base != NULL;
    if (!st) st = tinyi_judge_all(j, &d, out);
    tllm_state_close(ctx, j->base);
    tllm_state_close(ctx, j->state);
    tiny_free(ctx, j->kl);
    tiny_free(ctx, j->lost);
    tiny_free(ctx, j->length);
    tiny_free(ctx, j->excess);
    tiny_free(ctx, j->other);
    tiny_free(ctx, j->logits);
    tiny_free(ctx, j);
    return st;
}
