/* src/llm/sample/sample.c - the steps, one function each, over an array of candidates
 *
 * All probabilities are computed in double by our own exp and log, in the order of the candidates, so that a draw is the same
 * everywhere. A step that needs an order sorts at most once: the array remembers how much of its front is sorted.              */
#include "llm/sample/sample.h"
#include "core/rng.h"
#include "core/state.h"
#include "math/elem.h"
#include "math/sort.h"
#include <string.h>

typedef struct tinyi_candidate { float logit; int32_t token; } tinyi_candidate;

struct tllm_sampler {
    tiny_ctx *ctx;
    tllm_step *chain;
    size_t n_steps;
    int32_t n_vocab;
    uint64_t seed;
    tiny_rng rng;
    double mu;                              /* of mirostat: twice tau at the start */
    tinyi_candidate *c;
    double *p;                              /* probabilities of c */
    uint64_t *item, *scratch;               /* for sorting */
    int32_t *count;                         /* of each token in the window, or a length for dry */
    size_t n, sorted;                       /* candidates left; so many at the front are the largest, in order */
    int have_p;
    int32_t *text;                          /* what was accepted, oldest first; the last `window` of it when there is one */
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
TINY_API tllm_step tllm_step_xtc(float chance, float threshold) { return tinyi_step(TLLM_STEP_XTC, chance, threshold, 0, 0); }
TINY_API tllm_step tllm_step_penalties(int32_t n_last, float repeat, float frequency, float presence)
{
    return tinyi_step(TLLM_STEP_PENALTIES, repeat, frequency, presence, n_last);
}
TINY_API tllm_step tllm_step_dry(int32_t n_last, float multiplier, float base, int32_t allowed, const int32_t *breakers, int32_t n_breakers)
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
TINY_API tllm_step tllm_step_mirostat_1(float tau, float eta) { return tinyi_step(TLLM_STEP_MIROSTAT_1, tau, eta, 0, 0); }
TINY_API tllm_step tllm_step_mirostat_2(float tau, float eta) { return tinyi_step(TLLM_STEP_MIROSTAT_2, tau, eta, 0, 0); }

/* what a step must satisfy: name, its numbers from low[i] to high[i], and whether n may be -1 or more (else 0 or more) */
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
    { "penalties", { "repeat", "frequency", "presence" }, { 1e-6f, -TINYI_HUGE, -TINYI_HUGE }, { TINYI_HUGE, TINYI_HUGE, TINYI_HUGE } },
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
    if ((int)s->kind < 0 || s->kind >= TLLM_STEP_COUNT) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: step kind %d is unknown", (int)s->kind);
    l = &tinyi_step_limit[s->kind];
    for (i = 0; i < 3; i++)
        if (!(s->x[i] >= l->low[i] && s->x[i] <= l->high[i]))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: %s: %s is %g, it must be %g to %g", l->name, l->value[i], (double)s->x[i], (double)l->low[i], (double)l->high[i]);
    if (s->n < (s->kind == TLLM_STEP_PENALTIES || s->kind == TLLM_STEP_DRY ? -1 : 0) || s->allowed < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: %s: %d is negative", l->name, (int)(s->allowed < 0 ? s->allowed : s->n));
    if ((s->kind == TLLM_STEP_MIROSTAT_1 || s->kind == TLLM_STEP_MIROSTAT_2) && !last)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: %s must be the last step: it draws", l->name);
    if (s->kind == TLLM_STEP_FILTER && !s->allow) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: filter: there is no callback");
    if (s->kind == TLLM_STEP_BIAS) {
        if (s->n && !s->bias) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: bias: there is no list");
        for (i = 0; i < s->n; i++) {
            if (s->bias[i].token < 0 || s->bias[i].token >= n_vocab)
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: bias: token %d is not one of the %d", (int)s->bias[i].token, (int)n_vocab);
            if (!(s->bias[i].add < TINYI_HUGE)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: bias: %g for token %d", (double)s->bias[i].add, (int)s->bias[i].token);
        }
    }
    if (s->kind == TLLM_STEP_DRY && s->x[2] > 0 && !s->breakers) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: dry: there is no list of breakers");
    return TINY_OK;
}

TINY_API tiny_status tllm_sampler_open(tiny_ctx *ctx, const tllm_step *chain, size_t n_steps, int32_t n_vocab, uint64_t seed, tllm_sampler **out)
{
    tllm_sampler *s;
    size_t i, window = 0, n = (size_t)n_vocab;
    int all = 0, looks = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out || (n_steps && !chain)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: the chain or the place for the result is missing");
    *out = NULL;
    if (n_vocab < 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sampler: a vocabulary of %d tokens", (int)n_vocab);
    for (i = 0; i < n_steps; i++) {
        st = tinyi_step_check(ctx, &chain[i], n_vocab, i + 1 == n_steps);
        if (st) return st;
        if (chain[i].kind != TLLM_STEP_PENALTIES && chain[i].kind != TLLM_STEP_DRY) continue;
        looks = 1;
        all |= chain[i].n < 0;
        if (chain[i].n > 0) window = TINYI_MAX(window, (size_t)chain[i].n);
    }
    s = (tllm_sampler *)tiny_alloc(ctx, sizeof *s);
    if (!s) return TINY_E_MEMORY;
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    s->n_steps = n_steps;
    s->n_vocab = n_vocab;
    s->seed = seed;
    s->window = all ? 0 : window;
    s->text_room = !looks ? 0 : all ? TINYI_MAX(window, 256) : window;
    s->chain = (tllm_step *)tinyi_alloc(ctx, n_steps, sizeof *s->chain);
    s->c = (tinyi_candidate *)tinyi_alloc(ctx, n, sizeof *s->c);
    s->p = (double *)tinyi_alloc(ctx, n, sizeof *s->p);
    s->item = (uint64_t *)tinyi_alloc(ctx, n, sizeof *s->item);
    s->scratch = (uint64_t *)tinyi_alloc(ctx, n, sizeof *s->scratch);
    s->count = (int32_t *)tinyi_alloc(ctx, n, sizeof *s->count);
    s->text = (int32_t *)tinyi_alloc(ctx, s->text_room, sizeof *s->text);
    s->z = (uint32_t *)tinyi_alloc(ctx, s->text_room, sizeof *s->z);
    if (!s->chain || !s->c || !s->p || !s->item || !s->scratch || !s->count || !s->text || !s->z) {
        tllm_sampler_close(s);
        return TINY_E_MEMORY;
    }
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
    tiny_free(ctx, s->c);
    tiny_free(ctx, s->p);
    tiny_free(ctx, s->item);
    tiny_free(ctx, s->scratch);
    tiny_free(ctx, s->count);
    tiny_free(ctx, s->text);
    tiny_free(ctx, s->z);
    tiny_free(ctx, s);
}

TINY_API void tllm_sampler_reset(tllm_sampler *s)
{
    s->rng = tiny_rng_make(s->seed, 0);
    s->n_text = s->n = s->sorted = 0;
    s->have_p = 0;
    s->mu = s->n_steps ? 2.0 * (double)s->chain[s->n_steps - 1].x[0] : 0.0;
}

TINY_API tiny_status tllm_sampler_accept(tllm_sampler *s, int32_t token)
{
    if (token < 0 || token >= s->n_vocab) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "sampler: token %d is not one of the %d", (int)token, (int)s->n_vocab);
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
                return TINY_E_MEMORY;
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

/* The k largest to the front, in order; equal logits by token number. */
static void tinyi_sampler_sort(tllm_sampler *s, size_t k)
{
    size_t i;
    k = TINYI_MIN(k, s->n);
    if (s->sorted >= k) return;
    for (i = 0; i < s->n; i++) {
        const float x = s->c[i].logit + 0.0f;       /* one zero */
        uint32_t bits;
        memcpy(&bits, &x, 4);
        s->item[i] = (uint64_t)~tinyi_sort_key_f32(bits) << 32 | (uint32_t)s->c[i].token;
    }
    if (k == 1) {
        size_t best = 0;
        tinyi_candidate t;
        for (i = 1; i < s->n; i++)
            if (s->item[i] < s->item[best]) best = i;
        t = s->c[0];
        s->c[0] = s->c[best];
        s->c[best] = t;
    } else {
        /* item and c change places by the token: its logit is kept in p's room until the order is known */
        float *by_token = (float *)(void *)s->p;
        for (i = 0; i < s->n; i++) by_token[s->c[i].token] = s->c[i].logit;
        tinyi_sort_pairs(s->item, s->scratch, s->n);
        for (i = 0; i < s->n; i++) {
            s->c[i].token = (int32_t)(uint32_t)s->item[i];
            s->c[i].logit = by_token[s->c[i].token];
        }
        k = s->n;
    }
    s->sorted = k;
    s->have_p = 0;
}

static double tinyi_sampler_peak(const tllm_sampler *s)
{
    float m = s->c[0].logit;
    size_t i;
    for (i = s->sorted ? s->n : 1; i < s->n; i++)
        if (s->c[i].logit > m) m = s->c[i].logit;
    return (double)m;
}

static void tinyi_sampler_softmax(tllm_sampler *s)
{
    double sum = 0.0;
    const double m = tinyi_sampler_peak(s);
    size_t i;
    if (s->have_p) return;
    for (i = 0; i < s->n; i++) sum += s->p[i] = tinyi_exp64((double)s->c[i].logit - m);
    for (i = 0; i < s->n; i++) s->p[i] /= sum;
    s->have_p = 1;
}

static void tinyi_sampler_keep(tllm_sampler *s, size_t n)
{
    if (n >= s->n) return;
    s->n = n;
    s->sorted = TINYI_MIN(s->sorted, n);
    s->have_p = 0;
}

/* Keeps those of at least this logit. Order stays. */
static void tinyi_sampler_above(tllm_sampler *s, double least)
{
    size_t i, n = 0;
    for (i = 0; i < s->n; i++)
        if ((double)s->c[i].logit >= least) s->c[n++] = s->c[i];
    s->sorted = s->sorted == s->n ? n : TINYI_MIN(s->sorted, TINYI_MIN(n, 1));
    s->n = n;
    s->have_p = 0;
}

static void tinyi_sampler_top_p(tllm_sampler *s, double p)
{
    double sum = 0.0;
    size_t i;
    if (p >= 1.0) return;
    tinyi_sampler_sort(s, s->n);
    tinyi_sampler_softmax(s);
    for (i = 0; i < s->n; i++)
        if ((sum += s->p[i]) >= p) {
            tinyi_sampler_keep(s, i + 1);
            return;
        }
}

/* By |-log p - entropy|, smallest first, until p is reached. */
static void tinyi_sampler_typical(tllm_sampler *s, double p)
{
    double entropy = 0.0, sum = 0.0;
    size_t i, n = 0;
    if (p >= 1.0) return;
    tinyi_sampler_sort(s, s->n);
    tinyi_sampler_softmax(s);
    for (i = 0; i < s->n; i++)
        if (s->p[i] > 0.0) entropy -= s->p[i] * tinyi_log64(s->p[i]);
    for (i = 0; i < s->n; i++) {
        const double d = s->p[i] > 0.0 ? -tinyi_log64(s->p[i]) - entropy : 1e30;
        const float f = (float)(d < 0.0 ? -d : d) + 0.0f;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        s->item[i] = (uint64_t)tinyi_sort_key_f32(bits) << 32 | (uint32_t)i;
    }
    tinyi_sort_pairs(s->item, s->scratch, s->n);
    while (n < s->n) {
        sum += s->p[(uint32_t)s->item[n]];
        n++;
        if (sum >= p) break;
    }
    /* the chosen in the order of their logits */
    for (i = 0; i < n; i++) s->item[i] = (uint32_t)s->item[i];
    tinyi_sort_pairs(s->item, s->scratch, n);
    for (i = 0; i < n; i++) s->c[i] = s->c[(uint32_t)s->item[i]];
    s->n = s->sorted = n;
    s->have_p = 0;
}

static void tinyi_sampler_sigma(tllm_sampler *s, double k)
{
    double mean = 0.0, square = 0.0, n = 0.0;
    size_t i;
    if (k <= 0.0) return;
    for (i = 0; i < s->n; i++)
        if ((double)s->c[i].logit > -1e38) { mean += (double)s->c[i].logit; n += 1.0; }
    if (n == 0.0) return;
    mean /= n;
    for (i = 0; i < s->n; i++)
        if ((double)s->c[i].logit > -1e38) square += ((double)s->c[i].logit - mean) * ((double)s->c[i].logit - mean);
    tinyi_sampler_above(s, tinyi_sampler_peak(s) - k * tinyi_sqrt(square / n));
}

static void tinyi_sampler_xtc(tllm_sampler *s, double chance, double threshold)
{
    size_t n = 0;
    if (chance <= 0.0 || threshold > 0.5 || tiny_rng_uniform64(&s->rng) >= chance) return;
    tinyi_sampler_sort(s, s->n);
    tinyi_sampler_softmax(s);
    while (n < s->n && s->p[n] >= threshold) n++;
    if (n < 2) return;
    memmove(s->c, s->c + n - 1, (s->n - (n - 1)) * sizeof *s->c);
    s->n -= n - 1;
    s->sorted = s->n;
    s->have_p = 0;
}

static size_t tinyi_sampler_window(const tllm_sampler *s, int32_t n) { return n < 0 ? s->n_text : TINYI_MIN(s->n_text, (size_t)n); }

static void tinyi_sampler_penalties(tllm_sampler *s, const tllm_step *step)
{
    const size_t n = tinyi_sampler_window(s, step->n);
    size_t i;
    if (!n) return;
    memset(s->count, 0, (size_t)s->n_vocab * sizeof *s->count);
    for (i = s->n_text - n; i < s->n_text; i++) s->count[s->text[i]]++;
    for (i = 0; i < s->n; i++) {
        const int32_t times = s->count[s->c[i].token];
        float *x = &s->c[i].logit;
        if (!times) continue;
        *x = *x > 0.0f ? *x / step->x[0] : *x * step->x[0];
        *x -= (float)times * step->x[1];
        *x -= step->x[2];
    }
    s->sorted = 0;
    s->have_p = 0;
}

/* For each earlier place whose tokens before it repeat the end of the text, the token that stood there would make the
 * repetition longer. The lengths are the Z array of the text backwards, in linear time (D. Gusfield, 1997); a breaker ends both. */
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
    memset(s->count, 0, (size_t)s->n_vocab * sizeof *s->count);
    for (i = 1; i < all; i++) {             /* z[i]: how many tokens before place -i equal the end, at most n */
        size_t z = i < right ? TINYI_MIN(right - i, (size_t)s->z[i - left]) : 0;
        while (i + z < all && z < n && t[-1 - (ptrdiff_t)z] == t[-1 - (ptrdiff_t)(i + z)]) z++;
        s->z[i] = (uint32_t)z;
        if (i + z > right) { left = i; right = i + z; }
        if (z >= (size_t)step->allowed && z > 0) {
            const int32_t next = t[-(ptrdiff_t)i];
            for (j = 0; j < n_breakers && step->breakers[j] != next; j++) {}
            if (j == n_breakers && (size_t)s->count[next] < z) s->count[next] = (int32_t)TINYI_MIN(z, (size_t)INT32_MAX);
        }
    }
    for (i = 0; i < s->n; i++) {
        const int32_t length = s->count[s->c[i].token];
        double penalty;
        if (!length || length < step->allowed) continue;
        penalty = (double)(length - step->allowed) * tinyi_log64((double)step->x[1]);
        penalty = (double)step->x[0] * tinyi_exp64(TINYI_MIN(penalty, 80.0));
        s->c[i].logit = (float)((double)s->c[i].logit - penalty);
    }
    s->sorted = 0;
    s->have_p = 0;
}

static void tinyi_sampler_bias(tllm_sampler *s, const tllm_step *step)
{
    float *add = (float *)(void *)s->count;
    size_t i;
    memset(s->count, 0, (size_t)s->n_vocab * sizeof *s->count);
    for (i = 0; i < (size_t)step->n; i++) add[step->bias[i].token] += step->bias[i].add;
    for (i = 0; i < s->n; i++) s->c[i].logit += add[s->c[i].token];
    s->sorted = 0;
    s->have_p = 0;
}

static void tinyi_sampler_filter(tllm_sampler *s, const tllm_step *step)
{
    size_t i, n = 0;
    const size_t before = s->n;
    for (i = 0; i < s->n; i++)
        if (step->allow(step->user, s->c[i].token)) s->c[n++] = s->c[i];
    s->n = n;
    s->sorted = s->sorted == before ? n : 0;
    s->have_p = 0;
}

/* A draw in proportion to p; the last candidate when rounding leaves the sum below the drawn number. */
static size_t tinyi_sampler_draw(tllm_sampler *s)
{
    double u, sum = 0.0;
    size_t i;
    if (s->n == 1) return 0;
    tinyi_sampler_softmax(s);
    u = tiny_rng_uniform64(&s->rng);
    for (i = 0; i + 1 < s->n; i++)
        if ((sum += s->p[i]) > u) break;
    while (i > 0 && s->p[i] == 0.0) i--;    /* never one of no probability */
    return i;
}

/* Mirostat: the surprise of what was drawn, in bits, moves mu toward tau. Version 1 fits p_i ~ i^-e to the 100 most probable and
 * keeps the k whose estimated surprise is mu; version 2 keeps those of at most mu bits. */
static size_t tinyi_sampler_mirostat(tllm_sampler *s, const tllm_step *step)
{
    const double ln2 = 0.69314718055994530942;
    size_t i, n = 0;
    tinyi_sampler_sort(s, s->n);
    tinyi_sampler_softmax(s);
    if (step->kind == TLLM_STEP_MIROSTAT_1) {
        double tb = 0.0, tt = 0.0, e, k, eps;
        const double vocab = (double)s->n_vocab;
        for (i = 0; i + 1 < s->n && i < 99 && s->p[i + 1] > 0.0; i++) {
            const double t = tinyi_log64(((double)i + 2.0) / ((double)i + 1.0)), b = tinyi_log64(s->p[i] / s->p[i + 1]);
            tb += t * b;
            tt += t * t;
        }
        e = tt > 0.0 ? tb / tt : 0.0;
        eps = e - 1.0;
        /* k = (eps 2^mu / (1 - N^-eps))^(1/e); at eps = 0 its limit */
        if (e <= 0.0) n = s->n;
        else {
            const double tail = eps > -1e-9 && eps < 1e-9 ? tinyi_log64(vocab) : (1.0 - tinyi_exp64(-eps * tinyi_log64(vocab))) / eps;
            k = (s->mu * ln2 - tinyi_log64(TINYI_MAX(tail, 1e-300))) / e;
            n = k >= tinyi_log64((double)s->n) ? s->n : k <= 0.0 ? 1 : (size_t)tinyi_exp64(k);
        }
    } else
        while (n < s->n && s->p[n] > 0.0 && -tinyi_log64(s->p[n]) / ln2 <= s->mu) n++;
    tinyi_sampler_keep(s, TINYI_MAX(n, 1));
    tinyi_sampler_softmax(s);
    i = tinyi_sampler_draw(s);
    s->mu -= (double)step->x[1] * (-tinyi_log64(s->p[i]) / ln2 - (double)step->x[0]);
    return i;
}

TINY_API tiny_status tllm_sample(tllm_sampler *s, const float *logits, int32_t *token)
{
    size_t i;
    if (!logits || !token) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "sampler: the logits or the place for the token are missing");
    s->n = 0;
    for (i = 0; i < (size_t)s->n_vocab; i++) {
        const float x = logits[i];
        if (!(x <= 3.40282347e38f)) return tinyi_fail(s->ctx, TINY_E_NUMERIC, "sampler: the logit of token %d is %g", (int)i, (double)x);
        if (x < -3.40282347e38f) continue;  /* -infinity: banned */
        s->c[s->n].logit = x;
        s->c[s->n++].token = (int32_t)i;
    }
    s->sorted = 0;
    s->have_p = 0;
    for (i = 0; i < s->n_steps && s->n; i++) {
        const tllm_step *step = &s->chain[i];
        size_t j;
        switch (step->kind) {
        case TLLM_STEP_TEMPERATURE:
            if (step->x[0] > 0.0f) {
                const float top = (float)tinyi_sampler_peak(s) / step->x[0];
                if (step->x[0] == 1.0f) break;
                if (top <= 3.40282347e38f) {
                    for (j = 0; j < s->n; j++) s->c[j].logit /= step->x[0];
                    s->have_p = 0;
                    break;
                }
            }
            /* t = 0, and one so small that quotients overflow, is greedy */
            /* fall through */
        case TLLM_STEP_GREEDY:
            tinyi_sampler_sort(s, 1);
            tinyi_sampler_keep(s, 1);
            break;
        case TLLM_STEP_TOP_K:
            if (!step->n || (size_t)step->n >= s->n) break;
            tinyi_sampler_sort(s, (size_t)step->n);
            tinyi_sampler_keep(s, (size_t)step->n);
            break;
        case TLLM_STEP_TOP_P: tinyi_sampler_top_p(s, (double)step->x[0]); break;
        case TLLM_STEP_MIN_P:
            if (step->x[0] > 0.0f) tinyi_sampler_above(s, tinyi_sampler_peak(s) + tinyi_log64((double)step->x[0]));
            break;
        case TLLM_STEP_TYPICAL: tinyi_sampler_typical(s, (double)step->x[0]); break;
        case TLLM_STEP_TOP_N_SIGMA: tinyi_sampler_sigma(s, (double)step->x[0]); break;
        case TLLM_STEP_XTC: tinyi_sampler_xtc(s, (double)step->x[0], (double)step->x[1]); break;
        case TLLM_STEP_PENALTIES: tinyi_sampler_penalties(s, step); break;
        case TLLM_STEP_DRY: tinyi_sampler_dry(s, step); break;
        case TLLM_STEP_BIAS: tinyi_sampler_bias(s, step); break;
        case TLLM_STEP_FILTER: tinyi_sampler_filter(s, step); break;
        case TLLM_STEP_MIROSTAT_1: case TLLM_STEP_MIROSTAT_2:
            *token = s->c[tinyi_sampler_mirostat(s, step)].token;
            return TINY_OK;
        default: break;
        }
        for (j = 0; j < s->n && s->c[j].logit >= -3.40282347e38f; j++) {}
        if (j < s->n) tinyi_sampler_above(s, -3.40282347e38);   /* a bias may ban */
    }
    if (!s->n) return tinyi_fail(s->ctx, TINY_E_NUMERIC, "sampler: no candidate is left");
    *token = s->c[tinyi_sampler_draw(s)].token;
    return TINY_OK;
}

TINY_API int tllm_sampler_left(tllm_sampler *s, size_t i, int32_t *token, double *probability)
{
    if (i >= s->n) return 0;
    tinyi_sampler_sort(s, s->n);
    tinyi_sampler_softmax(s);
    *token = s->c[i].token;
    *probability = s->p[i];
    return 1;
}

static double tinyi_logsumexp(const float *x, int32_t n)
{
    double sum = 0.0;
    float m = x[0];
    int32_t i;
    for (i = 1; i < n; i++)
        if (x[i] > m) m = x[i];
    for (i = 0; i < n; i++) sum += tinyi_exp64((double)x[i] - (double)m);
    return (double)m + tinyi_log64(sum);
}

static tiny_status tinyi_logprob_check(tiny_ctx *ctx, const float *logits, int32_t n, const void *out)
{
    int32_t i, numbers = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!logits || !out || n < 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "log-probabilities: %d logits, or the place for the result is missing", (int)n);
    for (i = 0; i < n; i++) {
        if (!(logits[i] <= 3.40282347e38f)) return tinyi_fail(ctx, TINY_E_NUMERIC, "log-probabilities: the logit of token %d is %g", (int)i, (double)logits[i]);
        numbers |= logits[i] >= -3.40282347e38f;
    }
    return numbers ? TINY_OK : tinyi_fail(ctx, TINY_E_NUMERIC, "log-probabilities: every logit is -infinity");
}

TINY_API tiny_status tllm_logprob(tiny_ctx *ctx, const float *logits, int32_t n_vocab, int32_t token, double *logprob)
{
    tiny_status st = tinyi_logprob_check(ctx, logits, n_vocab, logprob);
    if (st) return st;
    if (token < 0 || token >= n_vocab) return tinyi_fail(ctx, TINY_E_ARGUMENT, "log-probabilities: token %d is not one of the %d", (int)token, (int)n_vocab);
    *logprob = (double)logits[token] - tinyi_logsumexp(logits, n_vocab);
    return TINY_OK;
}

/* k is small: insertion into a sorted list */
TINY_API tiny_status tllm_logprobs(tiny_ctx *ctx, const float *logits, int32_t n_vocab, int32_t k, int32_t *tokens, double *logprobs)
{
    double z;
    int32_t i, j, n = 0;
    tiny_status st = tinyi_logprob_check(ctx, logits, n_vocab, tokens);
    if (st) return st;
    if (!logprobs || k < 1 || k > n_vocab) return tinyi_fail(ctx, TINY_E_ARGUMENT, "log-probabilities: the %d largest of %d", (int)k, (int)n_vocab);
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
