/* src/llm/sample/sample.c - the steps, one function each, over arrays of candidates
 *
 * Probabilities are computed in double with the library's own exp, in the order of the candidates, so a draw is the
 * same on every machine. The kernels only compare floats, which gives the same result on every target.
 * Candidates are in the order of their token numbers until a step sorts them; ties go to the lower index.
 * Cost: no step sorts the vocabulary. top_k finds its limit while reading. Cuts at a logit (min_p, top_n_sigma,
 * mirostat 2) read once for the limit and once for the tokens above it. top_p and typical sort weights into buckets by
 * distance, and sort only the bucket in which the sum is reached. penalties, dry and bias touch only the tokens that
 * they name. */
#include "llm/sample/sample.h"
#include "core/rng.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/sort.h"
#include "math/table_inside.h"
#include <string.h>

enum { TINYI_SAMPLER_NOTHING, TINYI_SAMPLER_WEIGHTS, TINYI_SAMPLER_TOTAL };     /* what of the softmax is computed */

struct tllm_sampler {
    tiny_ctx *ctx;
    tllm_step *chain;
    size_t n_steps;
    int32_t n_vocab;
    uint64_t seed;
    tiny_rng rng;
    double mu;                              /* of mirostat: twice tau at the start */
    float *x;                               /* logits of the candidates, finite */
    int32_t *token;                         /* their numbers; not written while whole */
    double *w;                              /* exp(x - the largest) */
    double total;                           /* sum of w, in their order */
    /* n_vocab each, one after the other, and a little more: for sorting, lists of places, the k largest */
    uint64_t *item, *scratch;
    /* of each token in the window, a length for dry, or bits of a bias; zeros between steps */
    int32_t *count;
    size_t n, sorted;                       /* candidates left; the first `sorted` are the largest, in order */
    int whole;                              /* candidate i is token i: nothing was taken away */
    int have;                               /* TINYI_SAMPLER_NOTHING ... */
    /* what was accepted, oldest first; the last `window` of it when there is one */
    int32_t *text;
    size_t n_text, text_room, window;       /* window 0: all of it is kept */
    uint32_t *z;                            /* for dry, as long as text_room */
};

static tllm_step tinyi_step(tllm_step_kind kind, float x0, float x1, float x2, int32_t n)
{
    tllm_step s;
    memset(&s, 0, sizeof s);
    s.kind = kind;
    s.x[0] = x0;
    s.x[1] = x1;
    s.x[2] = x2;
    s.n = n;
    return s;
}
TINY_API tllm_step tllm_step_greedy(void) { return tinyi_step(TLLM_STEP_GREEDY, 0, 0, 0, 0); }
TINY_API tllm_step tllm_step_temperature(float t) { return tinyi_step(TLLM_STEP_TEMPERATURE, t, 0, 0, 0); }
TINY_API tllm_step tllm_step_top_k(int32_t k) { return tinyi_step(TLLM_STEP_TOP_K, 0, 0, 0, k); }
TINY_API tllm_step tllm_step_top_p(float p) { return tinyi_step(TLLM_STEP_TOP_P, p, 0, 0, 0); }
TINY_API tllm_step tllm_step_min_p(float p) { return tinyi_step(TLLM_STEP_MIN_P, p, 0, 0, 0); }
TINY_API tllm_step tllm_step_typical(float p) { return tinyi_step(TLLM_STEP_TYPICAL, p, 0, 0, 0); }
TINY_API tllm_step tllm_step_top_n_sigma(float n) { return tinyi_step(TLLM_STEP_TOP_N_SIGMA, n, 0, 0, 0); }
TINY_API tllm_step tllm_step_xtc(float chance, float threshold)
{
    return tinyi_step(TLLM_STEP_XTC, chance, threshold, 0, 0);
}
TINY_API tllm_step tllm_step_penalties(int32_t n_last, float repeat, float frequency, float presence)
{
    return tinyi_step(TLLM_STEP_PENALTIES, repeat, frequency, presence, n_last);
}
TINY_API tllm_step tllm_step_dry(int32_t n_last, float multiplier, float base, int32_t allowed, const int32_t *breakers,
                                 int32_t n_breakers)
{
    tllm_step s = tinyi_step(TLLM_STEP_DRY, multiplier, base, (float)n_breakers, n_last);
    s.allowed = allowed;
    s.breakers = breakers;
    return s;
}
TINY_API tllm_step tllm_step_bias(const tllm_bias *bias, int32_t n)
{
    tllm_step s = tinyi_step(TLLM_STEP_BIAS, 0, 0, 0, n);
    s.bias = bias;
    return s;
}
TINY_API tllm_step tllm_step_filter(int (*allow)(void *user, int32_t token), void *user)
{
    tllm_step s = tinyi_step(TLLM_STEP_FILTER, 0, 0, 0, 0);
    s.allow = allow;
    s.user = user;
    return s;
}
TINY_API tllm_step tllm_step_mirostat_1(float tau, float eta)
{
    return tinyi_step(TLLM_STEP_MIROSTAT_1, tau, eta, 0, 0);
}
TINY_API tllm_step tllm_step_mirostat_2(float tau, float eta)
{
    return tinyi_step(TLLM_STEP_MIROSTAT_2, tau, eta, 0, 0);
}

/* what a step must satisfy: name, its numbers from low[i] to high[i], and whether n may be -1 or more (else 0 or
 * more) */
typedef struct tinyi_step_limits { const char *name, *value[3]; float low[3], high[3]; } tinyi_step_limits;
#define TINYI_HUGE 1e20f
static const tinyi_step_limits tinyi_step_limit[TLLM_STEP_COUNT] = {
    { "greedy", { "", "", "" }, { 0, 0, 0 }, { 0, 0, 0 } },
    { "temperature", { "t", "", "" }, { 0, 0, 0 }, { TINYI_HUGE, 0, 0 } },
    { "top-k", { "", "", "" }, { 0, 0, 0 }, { 0, 0, 0 } },
    { "top-p", { "p", "", "" }, { 0, 0, 0 }, { 1, 0, 0 } },
    { "min-p", { "p", "", "" }, { 0, 0, 0 }, { 1, 0, 0 } },
    { "typical", { "p", "", "" }, { 0, 0, 0 }, { 1, 0, 0 } },
    { "top-n-sigma", { "n", "", "" }, { 0, 0, 0 }, { TINYI_HUGE, 0, 0 } },
    { "xtc", { "chance", "threshold", "" }, { 0, 0, 0 }, { 1, 1, 0 } },
    { "penalties",
      { "repeat", "frequency", "presence" },
      { 1e-6f, -TINYI_HUGE, -TINYI_HUGE },
      { TINYI_HUGE, TINYI_HUGE, TINYI_HUGE } },
    { "dry", { "multiplier", "base", "number of breakers" }, { 0, 1, 0 }, { TINYI_HUGE, TINYI_HUGE, 65536 } },
    { "bias", { "", "", "" }, { 0, 0, 0 }, { 0, 0, 0 } },
    { "filter", { "", "", "" }, { 0, 0, 0 }, { 0, 0, 0 } },
    { "mirostat 1", { "tau", "eta", "" }, { 0, 0, 0 }, { TINYI_HUGE, 1, 0 } },
    { "mirostat 2", { "tau", "eta", "" }, { 0, 0, 0 }, { TINYI_HUGE, 1, 0 } },
};

static tiny_status tinyi_step_check(tiny_ctx *ctx, const tllm_step *s, int32_t n_vocab, int last)
{
    const tinyi_step_limits *l;
    int32_t i;
    if ((int)s->kind < 0 || s->kind >= TLLM_STEP_COUNT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: step kind %d is unknown", (int)s->kind);
    l = &tinyi_step_limit[s->kind];
    for (i = 0; i < 3; i++)
        if (!(s->x[i] >= l->low[i] && s->x[i] <= l->high[i]))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: %s: %s is %g, it must be %g to %g", l->name, l->value[i],
                              (double)s->x[i], (double)l->low[i], (double)l->high[i]);
    if (s->n < (s->kind == TLLM_STEP_PENALTIES || s->kind == TLLM_STEP_DRY ? -1 : 0) || s->allowed < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: %s: %d is negative", l->name,
                          (int)(s->allowed < 0 ? s->allowed : s->n));
    if ((s->kind == TLLM_STEP_MIROSTAT_1 || s->kind == TLLM_STEP_MIROSTAT_2) && !last)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: %s must be the last step: it draws", l->name);
    if (s->kind == TLLM_STEP_FILTER && !s->allow)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: filter: the callback is NULL");
    if (s->kind == TLLM_STEP_BIAS) {
        if (s->n && !s->bias) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: bias: the list is NULL");
        for (i = 0; i < s->n; i++) {
            if (s->bias[i].token < 0 || s->bias[i].token >= n_vocab)
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: bias: token %d is outside the vocabulary of %d",
                                  (int)s->bias[i].token, (int)n_vocab);
            if (!(s->bias[i].add < TINYI_HUGE))
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: bias: %g is invalid for token %d",
                                  (double)s->bias[i].add, (int)s->bias[i].token);
        }
    }
    if (s->kind == TLLM_STEP_DRY && s->x[2] > 0 && !s->breakers)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: dry: the list of breakers is NULL");
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_sampler_check(tiny_ctx *ctx, const tllm_step *chain, size_t n_steps, int32_t n_vocab)
{
    size_t i;
    tiny_status st = TINY_OK;
    for (i = 0; i < n_steps && !st; i++) st = tinyi_step_check(ctx, &chain[i], n_vocab, i + 1 == n_steps);
    return st;
}

TINY_API tiny_status tllm_sampler_open(tiny_ctx *ctx, const tllm_step *chain, size_t n_steps, int32_t n_vocab,
                                       uint64_t seed, tllm_sampler **out)
{
    tllm_sampler *s;
    size_t i, window = 0, n = (size_t)n_vocab;
    int all = 0, looks = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out || (n_steps && !chain))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: the chain or the result pointer is NULL");
    if (n_vocab < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: a vocabulary cannot have %d tokens", (int)n_vocab);
    st = tinyi_sampler_check(ctx, chain, n_steps, n_vocab);
    if (st) return st;
    for (i = 0; i < n_steps; i++) {
        if (chain[i].kind != TLLM_STEP_PENALTIES && chain[i].kind != TLLM_STEP_DRY) continue;
        looks = 1;
        all |= chain[i].n < 0;
        if (chain[i].n > 0) window = TINYI_MAX(window, (size_t)chain[i].n);
    }
    s = (tllm_sampler *)tiny_alloc(ctx, sizeof *s);
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    s->n_steps = n_steps;
    s->n_vocab = n_vocab;
    s->seed = seed;
    s->window = all ? 0 : window;
    s->text_room = !looks ? 0 : all ? TINYI_MAX(window, 256) : window;
    s->chain = (tllm_step *)tinyi_alloc(ctx, n_steps, sizeof *s->chain);
    s->x = (float *)tinyi_alloc(ctx, n, sizeof *s->x);
    s->token = (int32_t *)tinyi_alloc(ctx, n, sizeof *s->token);
    s->w = (double *)tinyi_alloc(ctx, n, sizeof *s->w);
    s->item = (uint64_t *)tinyi_alloc(ctx, 2 * n + 1024, sizeof *s->item);
    s->count = (int32_t *)tinyi_alloc(ctx, n, sizeof *s->count);
    s->text = (int32_t *)tinyi_alloc(ctx, s->text_room, sizeof *s->text);
    s->z = (uint32_t *)tinyi_alloc(ctx, s->text_room, sizeof *s->z);
    if (!s->chain || !s->x || !s->token || !s->w || !s->item || !s->count || !s->text || !s->z) {
        tllm_sampler_close(s);
        return tiny_ctx_status(ctx);
    }
    s->scratch = s->item + n;
    memset(s->count, 0, n * sizeof *s->count);
    if (n_steps) memcpy(s->chain, chain, n_steps * sizeof *chain);
    tllm_sampler_reset(s);
    *out = s;
    return TINY_OK;
}

TINY_API void tllm_sampler_close(tllm_sampler *s)
{
    tiny_ctx *ctx;
    if (!s) return;
    ctx = s->ctx;
    tiny_free(ctx, s->chain);
    tiny_free(ctx, s->x);
    tiny_free(ctx, s->token);
    tiny_free(ctx, s->w);
    tiny_free(ctx, s->item);
    tiny_free(ctx, s->count);
    tiny_free(ctx, s->text);
    tiny_free(ctx, s->z);
    tiny_free(ctx, s);
}

TINY_API void tllm_sampler_reset(tllm_sampler *s)
{
    if (!s) return;
    s->rng = tiny_rng_make(s->seed, 0);
    s->n_text = s->n = s->sorted = 0;
    s->have = TINYI_SAMPLER_NOTHING;
    s->mu = s->n_steps ? 2.0 * (double)s->chain[s->n_steps - 1].x[0] : 0.0;
}

TINY_API tiny_status tllm_sampler_accept(tllm_sampler *s, int32_t token)
{
    if (!s) return TINY_E_ARGUMENT;
    if (token < 0 || token >= s->n_vocab)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "sampler: token %d is outside the vocabulary of %d", (int)token,
                          (int)s->n_vocab);
    if (!s->text_room) return TINY_OK;
    if (s->n_text == s->text_room) {
        if (s->window) {
            memmove(s->text, s->text + 1, (s->n_text - 1) * sizeof *s->text);
            s->n_text--;
        } else {
            const size_t room = 2 * s->text_room;   /* never near SIZE_MAX: the text itself is in memory */
            int32_t *text = (int32_t *)tinyi_alloc(s->ctx, room, sizeof *text);
            uint32_t *z = text ? (uint32_t *)tinyi_alloc(s->ctx, room, sizeof *z) : NULL;
            if (!z) {
                tiny_free(s->ctx, text);
                return tiny_ctx_status(s->ctx);
            }
            memcpy(text, s->text, s->n_text * sizeof *text);
            tiny_free(s->ctx, s->text);
            tiny_free(s->ctx, s->z);
            s->text = text;
            s->z = z;
            s->text_room = room;
        }
    }
    s->text[s->n_text++] = token;
    return TINY_OK;
}

TINY_REF_BEGIN

static int32_t tinyi_sampler_token(const tllm_sampler *s, size_t i) { return s->whole ? (int32_t)i : s->token[i]; }

static uint32_t tinyi_sampler_key(float x)
{
    uint32_t bits;
    x += 0.0f;                              /* one zero */
    memcpy(&bits, &x, 4);
    return tinyi_sort_key_f32(bits);
}

/* The candidates at the n places hit[0] < hit[1] < ... stay. */
static void tinyi_sampler_gather(tllm_sampler *s, const uint32_t *hit, size_t n)
{
    size_t i;
    if (n == s->n) return;
    for (i = 0; i < n; i++) {
        s->x[i] = s->x[hit[i]];
        s->token[i] = tinyi_sampler_token(s, hit[i]);
    }
    if (s->have)
        for (i = 0; i < n; i++) s->w[i] = s->w[hit[i]];
    if (s->have) s->have = TINYI_SAMPLER_WEIGHTS;
    s->sorted = s->sorted == s->n ? n : 0;
    s->whole = 0;
    s->n = n;
}

/* The candidates in the order of the first n items, whose low halves (turned over where flip is ~0) are their places; n
 * <= s->n.
 * The scratch memory after the items is used. */
static void tinyi_sampler_order(tllm_sampler *s, const uint64_t *item, size_t n, uint32_t flip)
{
    float *x = (float *)(void *)s->scratch;
    int32_t *token = (int32_t *)(void *)(x + n);
    double *w = (double *)(void *)s->scratch;
    size_t i;
    for (i = 0; i < n; i++) {
        const uint32_t at = (uint32_t)item[i] ^ flip;
        x[i] = s->x[at];
        token[i] = tinyi_sampler_token(s, at);
    }
    memcpy(s->x, x, n * sizeof *x);
    memcpy(s->token, token, n * sizeof *token);
    if (s->have) {
        for (i = 0; i < n; i++) w[i] = s->w[(uint32_t)item[i] ^ flip];
        memcpy(s->w, w, n * sizeof *w);
        s->have = TINYI_SAMPLER_WEIGHTS;    /* the sum goes in the order of the candidates */
    }
    s->whole = 0;
    s->n = s->sorted = n;
}

static void tinyi_sampler_sort(tllm_sampler *s)
{
    size_t i;
    if (s->sorted >= s->n) return;
    for (i = 0; i < s->n; i++) s->item[i] = (uint64_t)~tinyi_sampler_key(s->x[i]) << 32 | (uint32_t)i;
    tinyi_sort_pairs(s->item, s->scratch, s->n);
    tinyi_sampler_order(s, s->item, s->n, 0);
}

static double tinyi_sampler_peak(const tllm_sampler *s)
{
    return (double)(s->sorted ? s->x[0] : TINYI_OF(s->ctx->k, max_f32)(s->x, s->n));
}

static void tinyi_sampler_softmax(tllm_sampler *s)
{
    size_t i;
    if (s->have < TINYI_SAMPLER_WEIGHTS) tinyi_exp64_below(s->w, s->x, tinyi_sampler_peak(s), s->n);
    if (s->have < TINYI_SAMPLER_TOTAL)
        for (s->total = 0.0, i = 0; i < s->n; i++) s->total += s->w[i];
    s->have = TINYI_SAMPLER_TOTAL;
}

/* The first n of what is sorted. */
static void tinyi_sampler_keep(tllm_sampler *s, size_t n)
{
    if (n >= s->n) return;
    s->n = n;
    s->sorted = TINYI_MIN(s->sorted, n);
    if (s->have) s->have = TINYI_SAMPLER_WEIGHTS;
}

/* The k largest, in order. */
static void tinyi_sampler_top_k(tllm_sampler *s, size_t k)
{
    if (k >= s->n) return;
    if (s->sorted < k) {
        tinyi_sampler_order(s, tinyi_topk_row(s->item, s->x, s->n, k, TINYI_OF(s->ctx->k, topk_scan_f32)), k,
                            0xffffffffu);
    } else tinyi_sampler_keep(s, k);
}

/* The largest float below x, which is finite. */
static float tinyi_sampler_below(float x)
{
    uint32_t u;
    x += 0.0f;
    memcpy(&u, &x, 4);
    u = u == 0 ? 0x80000001u : u >> 31 ? u + 1 : u - 1;
    memcpy(&x, &u, 4);
    return x;
}

/* Keeps those of at least this logit. Order stays. */
static void tinyi_sampler_above(tllm_sampler *s, double least)
{
    uint32_t *hit = (uint32_t *)(void *)s->scratch;
    float limit;
    if (!(least >= -3.4028234e38)) return;
    limit = (float)least;                   /* to the nearest: the limit is the largest float below least */
    if ((double)limit >= least) limit = tinyi_sampler_below(limit);
    tinyi_sampler_gather(s, hit, TINYI_OF(s->ctx->k, topk_scan_f32)(hit, s->x, s->n, limit));
}

/* How far a candidate is, the smaller the nearer: from the largest logit, or (inside) from a middle between them. */
TINYI_INLINE float tinyi_sampler_away(float x, double middle, int inside)
{
    float d = (float)((double)x - middle);
    uint32_t u;
    if (!inside) return -x;
    /* by bits: a branch on the sign of noise is mispredicted half of the time */
    memcpy(&u, &d, 4);
    u &= 0x7fffffffu;
    memcpy(&d, &u, 4);
    return d;
}
/* Buckets of 1/32; what is farther than 32 shares the last one. */
enum { TINYI_SAMPLER_BUCKETS = 1025 };
TINYI_INLINE int tinyi_sampler_bucket(float away, double middle, int inside)
{
    const double d = inside ? (double)away : middle + (double)away;
    return (int)((d < 32.0 ? d : 32.0) * 32.0);
}

/* The fewest candidates, the nearest first (of equals the first), whose weights reach sum. Weights are summed by
 * buckets, and in the bucket that reaches it in order. */
static void tinyi_sampler_reach(tllm_sampler *s, double middle, int inside, double sum)
{
    double bucket[TINYI_SAMPLER_BUCKETS], before = 0.0;
    uint32_t count[TINYI_SAMPLER_BUCKETS], *hit = (uint32_t *)(void *)s->scratch, last = 0;
    float limit;
    size_t i, n = 0;
    int b = 0;
    memset(bucket, 0, sizeof bucket);
    memset(count, 0, sizeof count);
    for (i = 0; i < s->n; i++) {
        const int at = tinyi_sampler_bucket(tinyi_sampler_away(s->x[i], middle, inside), middle, inside);
        bucket[at] += s->w[i];
        count[at]++;
    }
    while (b < TINYI_SAMPLER_BUCKETS && (!count[b] || before + bucket[b] < sum)) before += bucket[b++];
    if (b == TINYI_SAMPLER_BUCKETS) return;
    for (i = 0; i < s->n; i++) {
        const float away = tinyi_sampler_away(s->x[i], middle, inside);
        if (tinyi_sampler_bucket(away, middle, inside) == b)
            s->item[n++] = (uint64_t)tinyi_sampler_key(away) << 32 | (uint32_t)i;
    }
    tinyi_sort_pairs(s->item, s->scratch, n);
    for (i = 0; i < n; i++) {
        last = (uint32_t)s->item[i];
        if ((before += s->w[last]) >= sum) break;
    }
    limit = tinyi_sampler_away(s->x[last], middle, inside);
    for (n = 0, i = 0; i < s->n; i++) {
        const float away = tinyi_sampler_away(s->x[i], middle, inside);
        hit[n] = (uint32_t)i;               /* written either way: no branch */
        n += (size_t)((away < limit) | ((away == limit) & (i <= last)));
    }
    tinyi_sampler_gather(s, hit, n);
}

static void tinyi_sampler_top_p(tllm_sampler *s, double p)
{
    if (p >= 1.0) return;
    tinyi_sampler_softmax(s);
    tinyi_sampler_reach(s, tinyi_sampler_peak(s), 0, p * s->total);
}

/* By |-log p - entropy|: log p is x - log total, the entropy log total - sum p x, and so it is the distance from sum p
 * x. */
static void tinyi_sampler_typical(tllm_sampler *s, double p)
{
    double mean = 0.0;
    size_t i;
    if (p >= 1.0) return;
    tinyi_sampler_softmax(s);
    for (i = 0; i < s->n; i++) mean += s->w[i] * (double)s->x[i];
    tinyi_sampler_reach(s, mean / s->total, 1, p * s->total);
    s->have = TINYI_SAMPLER_NOTHING;        /* the largest may be gone */
}

/* Of logits that are no bans of the caller's: the sum of x - mean, or of its squares. */
static double tinyi_sampler_sum(const tllm_sampler *s, double mean, int square, double *n)
{
    double sum[4] = { 0.0, 0.0, 0.0, 0.0 };     /* four, so that one does not wait for the other */
    size_t i;
    for (*n = 0.0, i = 0; i < s->n; i++) {
        const double d = (double)s->x[i] - mean;
        if (s->x[i] <= -1e38f) continue;
        sum[i & 3] += square ? d * d : d;
        *n += 1.0;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void tinyi_sampler_sigma(tllm_sampler *s, double k)
{
    double n, mean;
    if (k <= 0.0) return;
    mean = tinyi_sampler_sum(s, 0.0, 0, &n);
    if (n > 0.0)
        tinyi_sampler_above(s, tinyi_sampler_peak(s) - k * tinyi_sqrt(tinyi_sampler_sum(s, mean / n, 1, &n) / n));
}

/* All above the threshold but the least probable of them, of equals the last. */
static void tinyi_sampler_xtc(tllm_sampler *s, double chance, double threshold)
{
    uint32_t *hit = (uint32_t *)(void *)s->scratch;
    size_t i, n = 0, above = 0, stays = 0;
    if (chance <= 0.0 || threshold > 0.5 || tiny_rng_uniform64(&s->rng) >= chance) return;
    tinyi_sampler_softmax(s);
    for (i = 0; i < s->n; i++)
        if (s->w[i] / s->total >= threshold && (!above++ || s->x[i] <= s->x[stays])) stays = i;
    if (above < 2) return;
    for (i = 0; i < s->n; i++)
        if (i == stays || s->w[i] / s->total < threshold) hit[n++] = (uint32_t)i;
    tinyi_sampler_gather(s, hit, n);
    s->have = TINYI_SAMPLER_NOTHING;        /* the largest is another */
}

static size_t tinyi_sampler_window(const tllm_sampler *s, int32_t n)
{
    return n < 0 ? s->n_text : TINYI_MIN(s->n_text, (size_t)n);
}

/* Changes the logit of every candidate whose count is not 0, and clears the counts, which the tokens list[i * stride]
 * have. */
typedef void tinyi_sampler_change(float *x, int32_t count, const tllm_step *step);
static void tinyi_sampler_touch(tllm_sampler *s, const tllm_step *step, tinyi_sampler_change *change,
                                const int32_t *list, size_t stride, size_t n)
{
    size_t i;
    if (s->whole) {
        for (i = 0; i < n; i++) {
            const int32_t t = list[i * stride];
            if (s->count[t]) change(&s->x[t], s->count[t], step);
            s->count[t] = 0;
        }
    } else {
        for (i = 0; i < s->n; i++)
            if (s->count[s->token[i]]) change(&s->x[i], s->count[s->token[i]], step);
        for (i = 0; i < n; i++) s->count[list[i * stride]] = 0;
    }
    s->sorted = 0;
    s->have = TINYI_SAMPLER_NOTHING;
}

static void tinyi_sampler_penalty(float *x, int32_t times, const tllm_step *step)
{
    *x = *x > 0.0f ? *x / step->x[0] : *x * step->x[0];
    *x -= (float)times * step->x[1];
    *x -= step->x[2];
    if (*x > 3.40282347e38f) *x = 3.40282347e38f;
}
static void tinyi_sampler_penalties(tllm_sampler *s, const tllm_step *step)
{
    const size_t n = tinyi_sampler_window(s, step->n);
    size_t i;
    if (!n) return;
    for (i = s->n_text - n; i < s->n_text; i++) s->count[s->text[i]]++;
    tinyi_sampler_touch(s, step, tinyi_sampler_penalty, s->text + (s->n_text - n), 1, n);
}

static void tinyi_sampler_dry_penalty(float *x, int32_t length, const tllm_step *step)
{
    const double grown = (double)(length - step->allowed) * tinyi_log64((double)step->x[1]);
    if (length >= step->allowed) *x = (float)((double)*x - (double)step->x[0] * tinyi_exp64(TINYI_MIN(grown, 80.0)));
}
/* For each earlier place whose tokens before it repeat the end of the text, the token that stood there would make the
 * repetition longer. The lengths are the Z array of the text backwards, in linear time (D. Gusfield, 1997); a breaker
 * ends both. */
static void tinyi_sampler_dry(tllm_sampler *s, const tllm_step *step)
{
    const size_t all = tinyi_sampler_window(s, step->n);
    const int32_t *t = s->text + s->n_text;     /* t[-1] is the last token */
    size_t n, i, j, left = 0, right = 0;
    const size_t n_breakers = (size_t)step->x[2];
    if (step->x[0] <= 0.0f || all < 2) return;
    /* a repetition of the end never reaches across a breaker */
    for (i = 0; i < all; i++) {
        for (j = 0; j < n_breakers && step->breakers[j] != t[-1 - (ptrdiff_t)i]; j++) {}
        if (j < n_breakers) break;
    }
    n = i;
    if (n == 0) return;
    for (i = 1; i < all; i++) {             /* z[i]: how many tokens before place -i equal the end, at most n */
        size_t z = i < right ? TINYI_MIN(right - i, (size_t)s->z[i - left]) : 0;
        while (i + z < all && z < n && t[-1 - (ptrdiff_t)z] == t[-1 - (ptrdiff_t)(i + z)]) z++;
        s->z[i] = (uint32_t)z;
        if (i + z > right) { left = i; right = i + z; }
        if (z >= (size_t)step->allowed && z > 0) {
            const int32_t next = t[-(ptrdiff_t)i];
            for (j = 0; j < n_breakers && step->breakers[j] != next; j++) {}
            if (j == n_breakers && (size_t)s->count[next] < z)
                s->count[next] = (int32_t)TINYI_MIN(z, (size_t)INT32_MAX);
        }
    }
    tinyi_sampler_touch(s, step, tinyi_sampler_dry_penalty, s->text + (s->n_text - all), 1, all);
}

/* a token may be in the list more than once: its entries are summed as floats in count */
static void tinyi_sampler_add(float *x, int32_t bits, const tllm_step *step)
{
    float add;
    (void)step;
    memcpy(&add, &bits, 4);
    *x += add;
}
static void tinyi_sampler_bias(tllm_sampler *s, const tllm_step *step)
{
    size_t i;
    if (!step->n) return;
    for (i = 0; i < (size_t)step->n; i++) {
        float add;
        memcpy(&add, &s->count[step->bias[i].token], 4);
        add += step->bias[i].add;
        memcpy(&s->count[step->bias[i].token], &add, 4);
    }
    tinyi_sampler_touch(s, step, tinyi_sampler_add, &step->bias[0].token, sizeof *step->bias / sizeof(int32_t),
                        (size_t)step->n);
}

static void tinyi_sampler_filter(tllm_sampler *s, const tllm_step *step)
{
    uint32_t *hit = (uint32_t *)(void *)s->scratch;
    size_t i, n = 0;
    for (i = 0; i < s->n; i++)
        if (step->allow(step->user, tinyi_sampler_token(s, i))) hit[n++] = (uint32_t)i;
    tinyi_sampler_gather(s, hit, n);
    s->have = TINYI_SAMPLER_NOTHING;        /* the largest may be gone */
}

/* A draw in proportion to the weights; the last candidate when rounding leaves their sum below the drawn number. */
static size_t tinyi_sampler_draw(tllm_sampler *s)
{
    double u, sum = 0.0;
    size_t i;
    if (s->n == 1) return 0;
    tinyi_sampler_softmax(s);
    u = tiny_rng_uniform64(&s->rng) * s->total;
    for (i = 0; i + 1 < s->n; i++)
        if ((sum += s->w[i]) > u) break;
    while (i > 0 && s->w[i] == 0.0) i--;    /* never one of no probability */
    return i;
}

/* Mirostat: the surprise of what was drawn, in bits, moves mu toward tau. Version 1 fits p_i ~ i^-e to the 100 most
 * probable and keeps the k whose estimated surprise is mu; version 2 keeps those of at most mu bits. */
static size_t tinyi_sampler_mirostat(tllm_sampler *s, const tllm_step *step)
{
    const double ln2 = 0.69314718055994530942;
    size_t i;
    if (step->kind == TLLM_STEP_MIROSTAT_1) {
        const size_t head = TINYI_MIN(s->n, 100);
        const uint64_t *item = tinyi_topk_row(s->item, s->x, s->n, head, TINYI_OF(s->ctx->k, topk_scan_f32));
        const double vocab = (double)s->n_vocab;
        double tb = 0.0, tt = 0.0, e, k, eps, b;
        size_t n = s->n;
        for (i = 0; i + 1 < head; i++) {    /* b = log(p[i] / p[i + 1]) */
            const double t = tinyi_log64(((double)i + 2.0) / ((double)i + 1.0));
            b = (double)s->x[~(uint32_t)item[i]] - (double)s->x[~(uint32_t)item[i + 1]];
            if (b > 700.0) break;
            tb += t * b;
            tt += t * t;
        }
        e = tt > 0.0 ? tb / tt : 0.0;
        eps = e - 1.0;
        /* k = (eps 2^mu / (1 - N^-eps))^(1/e); at eps = 0 its limit */
        if (e > 0.0) {
            const double tail =
                eps > -1e-9 && eps < 1e-9 ? tinyi_log64(vocab) : (1.0 - tinyi_exp64(-eps * tinyi_log64(vocab))) / eps;
            k = (s->mu * ln2 - tinyi_log64(TINYI_MAX(tail, 1e-300))) / e;
            if (k < tinyi_log64((double)n)) n = k <= 0.0 ? 1 : (size_t)tinyi_exp64(k);
        }
        tinyi_sampler_top_k(s, TINYI_MAX(n, 1));
    } else {                                /* -log p <= mu ln 2, and always the largest */
        const double peak = tinyi_sampler_peak(s);
        tinyi_sampler_softmax(s);
        tinyi_sampler_above(s, TINYI_MIN(peak + tinyi_log64(s->total) - s->mu * ln2, peak));
    }
    i = tinyi_sampler_draw(s);
    tinyi_sampler_softmax(s);
    s->mu -= (double)step->x[1] * (-tinyi_log64(s->w[i] / s->total) / ln2 - (double)step->x[0]);
    return i;
}

static int tinyi_sampler_fits(float x) { return x >= -3.40282347e38f && x <= 3.40282347e38f; }

static void tinyi_sampler_divide(float *x, size_t n, float t)
{
    size_t i = 0, j;
    for (; i + 16 <= n; i += 16)
        for (j = 0; j < 16; j++) x[i + j] /= t;     /* a length that compilers know becomes vectors */
    for (; i < n; i++) x[i] /= t;
}

/* After a step that may have banned: -infinity is no candidate. */
static void tinyi_sampler_drop(tllm_sampler *s)
{
    uint32_t *hit = (uint32_t *)(void *)s->scratch;
    if (s->n && TINYI_OF(s->ctx->k, min_f32)(s->x, s->n) < -3.40282347e38f)
        tinyi_sampler_gather(s, hit, TINYI_OF(s->ctx->k, topk_scan_f32)(hit, s->x, s->n, -INFINITY));
}

TINY_API tiny_status tllm_sample(tllm_sampler *s, const float *logits, int32_t *token)
{
    size_t i;
    if (!s) return TINY_E_ARGUMENT;
    if (!logits || !token)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "sampler: the logits or the token pointer is NULL");
    if (TINYI_OF(s->ctx->k, topk_scan_f32)((uint32_t *)(void *)s->scratch, logits, (size_t)s->n_vocab,
                                           3.40282347e38f)) {
        i = *(const uint32_t *)(const void *)s->scratch;
        return tinyi_fail(s->ctx, TINY_E_NUMERIC, "sampler: the logit of token %d is %g", (int)i, (double)logits[i]);
    }
    memcpy(s->x, logits, (size_t)s->n_vocab * sizeof *logits);
    s->n = (size_t)s->n_vocab;
    s->sorted = 0;
    s->whole = 1;
    s->have = TINYI_SAMPLER_NOTHING;
    tinyi_sampler_drop(s);
    for (i = 0; i < s->n_steps && s->n; i++) {
        const tllm_step *step = &s->chain[i];
        switch (step->kind) {
        case TLLM_STEP_TEMPERATURE:
            if (step->x[0] == 1.0f) break;
            if (step->x[0] > 0.0f && tinyi_sampler_fits((float)tinyi_sampler_peak(s) / step->x[0])) {
                tinyi_sampler_divide(s->x, s->n, step->x[0]);
                s->have = TINYI_SAMPLER_NOTHING;
                tinyi_sampler_drop(s);
                break;
            }
            /* t = 0, and one so small that quotients overflow, is greedy */
            /* fall through */
        case TLLM_STEP_GREEDY: tinyi_sampler_top_k(s, 1); break;
        case TLLM_STEP_TOP_K:
            if (step->n) tinyi_sampler_top_k(s, (size_t)step->n);
            break;
        case TLLM_STEP_TOP_P: tinyi_sampler_top_p(s, (double)step->x[0]); break;
        case TLLM_STEP_MIN_P:
            if (step->x[0] > 0.0f) tinyi_sampler_above(s, tinyi_sampler_peak(s) + tinyi_log64((double)step->x[0]));
            break;
        case TLLM_STEP_TYPICAL: tinyi_sampler_typical(s, (double)step->x[0]); break;
        case TLLM_STEP_TOP_N_SIGMA: tinyi_sampler_sigma(s, (double)step->x[0]); break;
        case TLLM_STEP_XTC: tinyi_sampler_xtc(s, (double)step->x[0], (double)step->x[1]); break;
        case TLLM_STEP_PENALTIES: tinyi_sampler_penalties(s, step); tinyi_sampler_drop(s); break;
        case TLLM_STEP_DRY: tinyi_sampler_dry(s, step); tinyi_sampler_drop(s); break;
        case TLLM_STEP_BIAS: tinyi_sampler_bias(s, step); tinyi_sampler_drop(s); break;
        case TLLM_STEP_FILTER: tinyi_sampler_filter(s, step); break;
        case TLLM_STEP_MIROSTAT_1: case TLLM_STEP_MIROSTAT_2:
            *token = tinyi_sampler_token(s, tinyi_sampler_mirostat(s, step));
            return TINY_OK;
        default: break;
        }
    }
    if (!s->n) return tinyi_fail(s->ctx, TINY_E_NUMERIC, "sampler: no candidate is left");
    *token = tinyi_sampler_token(s, tinyi_sampler_draw(s));
    return TINY_OK;
}

TINY_API int tllm_sampler_left(tllm_sampler *s, size_t i, int32_t *token, double *probability)
{
    if (!s || !token || !probability || i >= s->n) return 0;
    tinyi_sampler_sort(s);
    tinyi_sampler_softmax(s);
    *token = tinyi_sampler_token(s, i);
    *probability = s->w[i] / s->total;
    return 1;
}

static double tinyi_logsumexp(const float *x, int32_t n)
{
    double sum = 0.0, e[256];
    float m = x[0];
    int32_t i, j, k;
    for (i = 1; i < n; i++)
        if (x[i] > m) m = x[i];
    for (i = 0; i < n; i += k) {
        k = TINYI_MIN(n - i, 256);
        tinyi_exp64_below(e, x + i, (double)m, (size_t)k);
        for (j = 0; j < k; j++) sum += e[j];
    }
    return (double)m + tinyi_log64(sum);
}

static tiny_status tinyi_logprob_check(tiny_ctx *ctx, const float *logits, int32_t n, const void *out)
{
    int32_t i, numbers = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!logits || !out || n < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "log-probabilities: %d logits, or a pointer is NULL",
                          (int)n);
    for (i = 0; i < n; i++) {
        if (!(logits[i] <= 3.40282347e38f))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "log-probabilities: the logit of token %d is %g", (int)i,
                              (double)logits[i]);
        numbers |= logits[i] >= -3.40282347e38f;
    }
    return numbers ? TINY_OK : tinyi_fail(ctx, TINY_E_NUMERIC, "log-probabilities: every logit is -infinity");
}

TINY_API tiny_status tllm_logprob(tiny_ctx *ctx, const float *logits, int32_t n_vocab, int32_t token, double *logprob)
{
    tiny_status st = tinyi_logprob_check(ctx, logits, n_vocab, logprob);
    if (st) return st;
    if (token < 0 || token >= n_vocab)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "log-probabilities: token %d is outside the vocabulary of %d",
                          (int)token, (int)n_vocab);
    *logprob = (double)logits[token] - tinyi_logsumexp(logits, n_vocab);
    return TINY_OK;
}

/* k is small: insertion into a sorted list */
TINY_API tiny_status tllm_logprobs(tiny_ctx *ctx, const float *logits, int32_t n_vocab, int32_t k, int32_t *tokens,
                                   double *logprobs)
{
    double z;
    int32_t i, j, n = 0;
    tiny_status st = tinyi_logprob_check(ctx, logits, n_vocab, tokens);
    if (st) return st;
    if (!logprobs || k < 1 || k > n_vocab)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "log-probabilities: %d tokens are wanted of %d", (int)k, (int)n_vocab);
    for (i = 0; i < n_vocab; i++) {
        if (n == k && logits[i] <= logits[tokens[n - 1]]) continue;
        for (j = n < k ? n++ : n - 1; j > 0 && logits[i] > logits[tokens[j - 1]]; j--) tokens[j] = tokens[j - 1];
        tokens[j] = i;
    }
    z = tinyi_logsumexp(logits, n_vocab);
    for (i = 0; i < k; i++) logprobs[i] = (double)logits[tokens[i]] - z;
    return TINY_OK;
}

TINY_REF_END
