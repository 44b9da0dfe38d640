/* bench/gnn/deepwalk.c - DeepWalk, the rival that the paper of FastRP names; no part of the library
 * Paper    B. Perozzi, R. Al-Rfou, S. Skiena, "DeepWalk: Online Learning of Social Representations", 2014 (arXiv
 *          1403.6652), with the settings of their BlogCatalog: 80 walks of 40 nodes from each node, window 10, the rate
 *          of learning from 0.025 down to 0.
 * Formula  Each node c of a walk and each node x within b of it, b drawn from 1 .. 10: of the rows in[x] and out[t], t
 *          = c (label 1) and 5 nodes of noise drawn by degree^0.75 (label 0), both follow (label - sigmoid(in[x] .
 *          out[t])) rate times the other.
 * Method   Negative sampling (T. Mikolov et al., 2013) in the place of the hierarchical softmax: 6 rows a pair instead
 *          of 13 or more.
 *          All pairs of one window share the 5 nodes of noise (S. Ji et al., "Parallelizing Word2Vec in Shared and
 *          Distributed Memory", 2016), so that each number of in[x] is loaded once for 6 products: no later word2vec of
 *          one machine is much faster.
 *          Threads write the same rows without locks, as word2vec does (Hogwild); the lost updates do not show.
 * Left out storing the walks (each is used as soon as it is drawn), and the counts of visits: a long walk visits a node
 *          in proportion to its degree.
 *
 * With -DB_DEEPWALK_MAIN a program, which bench/peers/fastrp.py builds: deepwalk EDGES -d 128 -o out.npy [--seed N]
 * [--share S] */
#include "deepwalk.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined __GNUC__ && (__GNUC__ >= 9 || defined __clang__)
#if !defined __clang__
#pragma GCC optimize("fp-contract=fast")    /* strict C99 would round the product of a fused sum */
#endif
#define BD_INLINE static inline __attribute__((always_inline))

enum { OUT = 1 + B_NOISE, SIGMOIDS = 4096 };
typedef float bd_v8 __attribute__((vector_size(32), aligned(4), may_alias));

struct b_deepwalk {
    tiny_ctx *ctx;
    const tiny_sparse *a;
    tiny_idx d;
    float *in, *out;                        /* (nodes, d) */
    /* starts are shuffled; noise: a node, or with the rest of chance its alias */
    uint32_t *order, *alias;
    float *chance;
    uint64_t seed;
    int64_t from, to;                       /* walks of this run; n * B_WALKS is all */
    float sigmoid[SIGMOIDS];                /* of -8 .. 8 */
    void (*window)(float *const *x, int n, float *const *o, tiny_idx d, float rate, const float *sigmoid);
};

/* s[t] = x . o[t] */
BD_INLINE void bd_dots(float *s, const float *x, float *const *o, tiny_idx d)
{
    bd_v8 sum[OUT] = { { 0 } };
    tiny_idx c;
    int t;
    for (c = 0; c < d; c += 8) {
        const bd_v8 v = *(const bd_v8 *)(const void *)(x + c);
#pragma GCC unroll 6
        for (t = 0; t < OUT; t++) sum[t] += v * *(const bd_v8 *)(const void *)(o[t] + c);
    }
#pragma GCC unroll 6
    for (t = 0; t < OUT; t++)
        s[t] =
            ((sum[t][0] + sum[t][4]) + (sum[t][1] + sum[t][5])) + ((sum[t][2] + sum[t][6]) + (sum[t][3] + sum[t][7]));
}

/* One window: the rows x[0 .. n) and the rows o[0 .. 6), the first of which is the node in the middle. Rows of x learn
 * from o as it was before the window, and o from x as it was. */
BD_INLINE void bd_body(float *const *x, int n, float *const *o, tiny_idx d, float rate, const float *sigmoid)
{
    float g[2 * B_WINDOW][OUT];
    tiny_idx c;
    int i, t;
    for (i = 0; i < n; i++) {
        bd_dots(g[i], x[i], o, d);
        for (t = 0; t < OUT; t++) {
            float at = g[i][t] * (SIGMOIDS / 16.0f) + SIGMOIDS / 2;
            at = at > 0.0f ? at : 0.0f;                         /* of NaN 0 as well */
            at = at < SIGMOIDS - 1 ? at : SIGMOIDS - 1;
            g[i][t] = ((t == 0 ? 1.0f : 0.0f) - sigmoid[(int)at]) * rate;
        }
    }
    for (c = 0; c < d; c += 8) {
        bd_v8 more[OUT] = { { 0 } }, row[OUT];
#pragma GCC unroll 6
        for (t = 0; t < OUT; t++) row[t] = *(const bd_v8 *)(const void *)(o[t] + c);
        for (i = 0; i < n; i++) {
            bd_v8 *at = (bd_v8 *)(void *)(x[i] + c), v = *at, sum = v;
#pragma GCC unroll 6
            for (t = 0; t < OUT; t++) {
                sum += g[i][t] * row[t];
                more[t] += g[i][t] * v;
            }
            *at = sum;
        }
        /* added, not put in place: one node may be drawn twice */
#pragma GCC unroll 6
        for (t = 0; t < OUT; t++) *(bd_v8 *)(void *)(o[t] + c) += more[t];
    }
}

static void bd_window(float *const *x, int n, float *const *o, tiny_idx d, float rate, const float *sigmoid)
{
    bd_body(x, n, o, d, rate, sigmoid);
}
#if defined __x86_64__ || defined __i386__
__attribute__((target("avx2,fma"))) static void bd_window_avx2(float *const *x, int n, float *const *o, tiny_idx d,
                                                               float rate, const float *sigmoid)
{
    bd_body(x, n, o, d, rate, sigmoid);
}
#endif

static inline uint32_t bd_draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 32) * below >> 32);
}

/* the rows of one node and its noise, prefetched while the window before it is computed */
static void bd_outs(const b_deepwalk *w, uint64_t *state, uint32_t node, float **o)
{
    const uint32_t n = (uint32_t)w->a->n_rows;
    tiny_idx c;
    int t;
    for (t = 0; t < OUT; t++) {
        uint32_t v = t == 0 ? node : bd_draw(state, n);
        if (t > 0 && (float)bd_draw(state, 1 << 24) >= w->chance[v] * (float)(1 << 24)) v = w->alias[v];
        if (t > 0 && v == node) v = bd_draw(state, n);
        o[t] = w->out + v * (size_t)w->d;
        for (c = 0; c < w->d; c += 16) __builtin_prefetch(o[t] + c, 1);
    }
}

static void bd_team(tiny_team *team, void *arg)
{
    b_deepwalk *w = (b_deepwalk *)arg;
    const uint32_t n = (uint32_t)w->a->n_rows;
    const int64_t all = (int64_t)n * B_WALKS;
    tiny_idx k, k1;
    while (tiny_take(team, (tiny_idx)(w->to - w->from), 16, &k, &k1))
        for (; k < k1; k++) {
            const int64_t i = (w->from + k) % all;
            const float rate = 0.025f * (1.0f - (float)((double)i / (double)all));
            uint64_t state = ((uint64_t)i ^ w->seed << 40) * 0x9E3779B97F4A7C15u;
            uint32_t walk[B_WALK];
            float *o[2][OUT];
            int length = 0, at, j;
            walk[length++] = w->order[i % n];
            while (length < B_WALK) {
                const int64_t first = w->a->offset[walk[length - 1]],
                              degree = w->a->offset[walk[length - 1] + 1] - first;
                if (degree == 0) break;
                walk[length] = (uint32_t)w->a->col[first + bd_draw(&state, (uint32_t)degree)];
                __builtin_prefetch(w->a->offset + walk[length]);
                length++;
            }
            if (length < 2) continue;
            bd_outs(w, &state, walk[0], o[0]);
            for (at = 0; at < length; at++) {
                const int reach = 1 + (int)bd_draw(&state, B_WINDOW),
                          last = at + reach < length ? at + reach : length - 1;
                float *x[2 * B_WINDOW];
                int m = 0;
                if (at + 1 < length) bd_outs(w, &state, walk[at + 1], o[(at + 1) & 1]);
                for (j = at > reach ? at - reach : 0; j <= last; j++)
                    if (j != at) x[m++] = w->in + walk[j] * (size_t)w->d;
                w->window(x, m, o[at & 1], w->d, rate, w->sigmoid);
            }
        }
}

/* A. Walker's alias method in the form of M. Vose, 1991 */
static void bd_noise(b_deepwalk *w)
{
    const uint32_t n = (uint32_t)w->a->n_rows;
    double *p = (double *)b_alloc(n * sizeof *p), total = 0.0;
    uint32_t *todo = (uint32_t *)b_alloc(n * sizeof *todo), low = 0, high = n, v;
    for (v = 0; v < n; v++) total += p[v] = pow((double)(w->a->offset[v + 1] - w->a->offset[v]), 0.75);
    for (v = 0; v < n; v++) {
        p[v] = total > 0.0 ? p[v] * n / total : 1.0;
        if (p[v] < 1.0) todo[low++] = v;
        else todo[--high] = v;
        w->chance[v] = 1.0f;
        w->alias[v] = v;
    }
    while (low > 0 && high < n) {
        const uint32_t small = todo[--low], large = todo[high];
        w->chance[small] = (float)p[small];
        w->alias[small] = large;
        p[large] -= 1.0 - p[small];
        if (p[large] < 1.0) {
            high++;
            todo[low++] = large;
        }
    }
    b_free(p);
    b_free(todo);
}

b_deepwalk *b_deepwalk_open(tiny_ctx *ctx, const tgnn_graph *g, tiny_idx d, uint64_t seed)
{
    b_deepwalk *w = (b_deepwalk *)b_alloc(sizeof *w);
    tiny_rng rng = tiny_rng_make(seed, 0);
    const size_t n = (size_t)tgnn_graph_nodes(g);
    int i;
    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    w->a = tgnn_graph_in(g);
    w->d = d;
    w->seed = seed;
    w->window = bd_window;
#if defined __x86_64__ || defined __i386__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) w->window = bd_window_avx2;
#endif
    w->in = (float *)b_alloc(n * (size_t)d * sizeof(float));
    w->out = (float *)b_alloc(n * (size_t)d * sizeof(float));
    w->order = (uint32_t *)b_alloc(n * sizeof(uint32_t));
    w->alias = (uint32_t *)b_alloc(n * sizeof(uint32_t));
    w->chance = (float *)b_alloc(n * sizeof(float));
    tiny_rng_fill_uniform(&rng, w->in, n * (size_t)d, -0.5f / (float)d, 0.5f / (float)d);
    memset(w->out, 0, n * (size_t)d * sizeof(float));
    tiny_rng_permutation(&rng, w->order, (uint32_t)n);
    bd_noise(w);
    for (i = 0; i < SIGMOIDS; i++) w->sigmoid[i] = (float)(1.0 / (1.0 + exp(8.0 - (i + 0.5) * 16.0 / SIGMOIDS)));
    return w;
}

void b_deepwalk_run(b_deepwalk *w, double share)
{
    w->to = w->from + (int64_t)(share * (double)w->a->n_rows * B_WALKS + 0.5);
    b_must(w->ctx, tiny_parallel(w->ctx, 0, 0, 0, bd_team, w));
    w->from = w->to % ((int64_t)w->a->n_rows * B_WALKS);
}

const float *b_deepwalk_rows(const b_deepwalk *w) { return w->in; }

void b_deepwalk_close(b_deepwalk *w)
{
    if (!w) return;
    b_free(w->in);
    b_free(w->out);
    b_free(w->order);
    b_free(w->alias);
    b_free(w->chance);
    b_free(w);
}

#else
b_deepwalk *b_deepwalk_open(tiny_ctx *ctx, const tgnn_graph *g, tiny_idx d, uint64_t seed)
{
    (void)ctx;
    (void)g;
    (void)d;
    (void)seed;
    return NULL;
}
void b_deepwalk_run(b_deepwalk *w, double share) { (void)w; (void)share; }
const float *b_deepwalk_rows(const b_deepwalk *w) { (void)w; return NULL; }
void b_deepwalk_close(b_deepwalk *w) { (void)w; }
#endif

#if defined B_DEEPWALK_MAIN
static tiny_ctx *bd_ctx;

void b_must(tiny_ctx *ctx, tiny_status status)
{
    if (!status) return;
    fprintf(stderr, "deepwalk: %s\n", ctx ? tiny_ctx_message(ctx) : tiny_status_text(status));
    exit(1);
}

void *b_alloc(size_t bytes)
{
    void *p = tiny_alloc(bd_ctx, bytes);
    if (p) return p;
    fprintf(stderr, "deepwalk: no %zu bytes\n", bytes);
    exit(1);
}

void b_free(void *p) { tiny_free(bd_ctx, p); }

int main(int argc, char **argv)
{
    const char *edges = NULL, *out = "deepwalk.npy";
    tgnn_graph_desc how = { 0 };
    tgnn_graph *g = NULL;
    tiny_tensor y;
    b_deepwalk *w;
    double share = 1.0;
    uint64_t seed = 1, start;
    tiny_idx d = 128;
    int i;
    how.symmetrize = 1;
    how.duplicates = TINY_DUPLICATES_FIRST;
    for (i = 1; i < argc; i++) {
        if (argv[i][0] != '-') edges = argv[i];
        else if (i + 1 == argc) return 2;
        else if (!strcmp(argv[i], "-d")) d = strtol(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "-o")) out = argv[++i];
        else if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--share")) share = atof(argv[++i]);
        else return 2;
    }
    if (!edges || d < 8 || d % 8 || d > 4096 || !(share > 0.0 && share <= 1.0)) {
        fputs("usage: deepwalk EDGES [-d COLUMNS, a multiple of 8] [-o OUT.npy] [--seed N] [--share S, 0 to 1 of the "
              "walks]\n",
              stderr);
        return 2;
    }
    b_must(NULL, tiny_ctx_open(NULL, &bd_ctx));
    b_must(bd_ctx, tgnn_graph_read(bd_ctx, edges, &how, &g));
    w = b_deepwalk_open(bd_ctx, g, d, seed);
    if (!w) {
        fputs("deepwalk: compiled without the vectors of GNU C\n", stderr);
        return 1;
    }
    start = tiny_now_ns();
    b_deepwalk_run(w, share);
    printf("%d threads, %g of the walks, embedded in %.2f s\n", tiny_ctx_threads(bd_ctx), share,
           (double)(tiny_now_ns() - start) * 1e-9);
    y = tiny_tensor_2d((void *)(uintptr_t)b_deepwalk_rows(w), TINY_F32, tgnn_graph_nodes(g), d);
    b_must(bd_ctx, tgnn_array_write(bd_ctx, out, &y));
    b_deepwalk_close(w);
    tgnn_graph_close(bd_ctx, g);
    tiny_ctx_close(bd_ctx);
    return 0;
}
#endif
