/* bench/llm/weave.c - bit-weaved data: an epoch at s bits compared with one on floats and one on stored bytes, and the
 * losses
 *
 * The rivals are written for a precision that is known in advance: the same batches, eight samples at a
 * time multiplied and added to the gradient while they are in the first cache, AVX2 by hand where the compiler knows
 * it. Bytes become floats once for both uses.
 * With two threads each side trains two models on halves of the samples (average = 2): with a barrier for each batch
 * the barriers would be measured. */
#include "../bench.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BW_FEATURES = 512, BW_BATCH = 16, BW_PIECE = 4096, BW_EPOCHS = 30, BW_ROWS = 11 };

typedef struct bw_set {
    tiny_ctx *ctx;
    tiny_idx n;
    float *x;
    unsigned char *byte;
    float *label, *line;
    tllm_weave weave;
} bw_set;
typedef struct bw_arg {
    const bw_set *set;
    tiny_ctx *ctx;
    int bytes;                              /* the rival's form: floats or bytes */
    tllm_weave_sgd_desc d;
    tllm_weave_state s;
    float *model;                           /* a model a thread, the rival's */
} bw_arg;

/* ---- the rivals -------------------------------------------------------------------------------------------------- */

#if defined __x86_64__ && (defined __GNUC__ || defined __clang__)
#include <immintrin.h>
#define BW_HERE (tiny_target_runs_here(TINY_TARGET_AVX2))
__attribute__((target("avx2,fma"))) static float bw_dot(const float *x, const float *w)
{
    __m256 s[4] = { _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps() };
    __m128 t;
    int j;
    for (j = 0; j < BW_FEATURES; j += 32) {
        s[0] = _mm256_fmadd_ps(_mm256_loadu_ps(x + j), _mm256_loadu_ps(w + j), s[0]);
        s[1] = _mm256_fmadd_ps(_mm256_loadu_ps(x + j + 8), _mm256_loadu_ps(w + j + 8), s[1]);
        s[2] = _mm256_fmadd_ps(_mm256_loadu_ps(x + j + 16), _mm256_loadu_ps(w + j + 16), s[2]);
        s[3] = _mm256_fmadd_ps(_mm256_loadu_ps(x + j + 24), _mm256_loadu_ps(w + j + 24), s[3]);
    }
    s[0] = _mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3]));
    t = _mm_add_ps(_mm256_castps256_ps128(s[0]), _mm256_extractf128_ps(s[0], 1));
    t = _mm_hadd_ps(t, t);
    return _mm_cvtss_f32(_mm_hadd_ps(t, t));
}
#define BW_FLOATS(at) \
    _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(b + (at)))))
__attribute__((target("avx2,fma"))) static float bw_dot_bytes(float *x, const unsigned char *b, const float *w)
{
    __m256 s[4] = { _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps() }, a[4];
    __m128 t;
    int j;
    for (j = 0; j < BW_FEATURES; j += 32) {
        a[0] = BW_FLOATS(j);
        a[1] = BW_FLOATS(j + 8);
        a[2] = BW_FLOATS(j + 16);
        a[3] = BW_FLOATS(j + 24);
        _mm256_storeu_ps(x + j, a[0]);
        _mm256_storeu_ps(x + j + 8, a[1]);
        _mm256_storeu_ps(x + j + 16, a[2]);
        _mm256_storeu_ps(x + j + 24, a[3]);
        s[0] = _mm256_fmadd_ps(a[0], _mm256_loadu_ps(w + j), s[0]);
        s[1] = _mm256_fmadd_ps(a[1], _mm256_loadu_ps(w + j + 8), s[1]);
        s[2] = _mm256_fmadd_ps(a[2], _mm256_loadu_ps(w + j + 16), s[2]);
        s[3] = _mm256_fmadd_ps(a[3], _mm256_loadu_ps(w + j + 24), s[3]);
    }
    s[0] = _mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3]));
    t = _mm_add_ps(_mm256_castps256_ps128(s[0]), _mm256_extractf128_ps(s[0], 1));
    t = _mm_hadd_ps(t, t);
    return _mm_cvtss_f32(_mm_hadd_ps(t, t));
}
__attribute__((target("avx2,fma"))) static void bw_add(float *g, const float *x, const float *d, int first)
{
    __m256 by[8];
    int i, j;
    for (i = 0; i < 8; i++) by[i] = _mm256_set1_ps(d[i]);
    for (j = 0; j < BW_FEATURES; j += 8) {
        __m256 s = first ? _mm256_setzero_ps() : _mm256_loadu_ps(g + j);
        s = _mm256_fmadd_ps(by[0], _mm256_loadu_ps(x + j), s);
        s = _mm256_fmadd_ps(by[1], _mm256_loadu_ps(x + BW_FEATURES + j), s);
        s = _mm256_fmadd_ps(by[2], _mm256_loadu_ps(x + 2 * BW_FEATURES + j), s);
        s = _mm256_fmadd_ps(by[3], _mm256_loadu_ps(x + 3 * BW_FEATURES + j), s);
        s = _mm256_fmadd_ps(by[4], _mm256_loadu_ps(x + 4 * BW_FEATURES + j), s);
        s = _mm256_fmadd_ps(by[5], _mm256_loadu_ps(x + 5 * BW_FEATURES + j), s);
        s = _mm256_fmadd_ps(by[6], _mm256_loadu_ps(x + 6 * BW_FEATURES + j), s);
        s = _mm256_fmadd_ps(by[7], _mm256_loadu_ps(x + 7 * BW_FEATURES + j), s);
        _mm256_storeu_ps(g + j, s);
    }
}
__attribute__((target("avx2,fma"))) static void bw_move(float *w, const float *g, float by)
{
    int j;
    for (j = 0; j < BW_FEATURES; j += 8)
        _mm256_storeu_ps(w + j, _mm256_fnmadd_ps(_mm256_set1_ps(by), _mm256_loadu_ps(g + j), _mm256_loadu_ps(w + j)));
}
#else /* plain loops: compilers make vectors of them, of the sums only with -ffast-math */
#define BW_HERE 1
static float bw_dot(const float *x, const float *w)
{
    float s[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
    int i, j;
    for (j = 0; j < BW_FEATURES; j += 8) for (i = 0; i < 8; i++) s[i] += x[j + i] * w[j + i];
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}
static float bw_dot_bytes(float *x, const unsigned char *b, const float *w)
{
    int j;
    for (j = 0; j < BW_FEATURES; j++) x[j] = (float)b[j];
    return bw_dot(x, w);
}
static void bw_add(float *g, const float *x, const float *d, int first)
{
    int i, j;
    if (first) memset(g, 0, BW_FEATURES * sizeof *g);
    for (i = 0; i < 8; i++) for (j = 0; j < BW_FEATURES; j++) g[j] += d[i] * x[i * BW_FEATURES + j];
}
static void bw_move(float *w, const float *g, float by)
{
    int j;
    for (j = 0; j < BW_FEATURES; j++) w[j] -= by * g[j];
}
#endif

/* samples i .. end, whole batches; a byte is 256 times its number, which the steps take back */
static void bw_rival(const bw_set *s, int bytes, float lr, float *w, tiny_idx i, tiny_idx end)
{
    float g[BW_FEATURES], room[8 * BW_FEATURES], d[8];
    const float unit = bytes ? 1.0f / 256.0f : 1.0f;
    int k, half;
    for (k = 0; k < BW_FEATURES; k++) w[k] *= unit;
    for (; i < end; i += BW_BATCH) {
        for (half = 0; half < BW_BATCH; half += 8) {
            const tiny_idx at = i + half;
            for (k = 0; k < 8; k++)
                d[k] = (bytes ? bw_dot_bytes(room + k * BW_FEATURES, s->byte + (at + k) * BW_FEATURES, w)
                              : bw_dot(s->x + (at + k) * BW_FEATURES, w)) -
                       s->label[at + k];
            bw_add(g, bytes ? room : s->x + at * BW_FEATURES, d, half == 0);
        }
        bw_move(w, g, lr / BW_BATCH * unit * unit);
    }
    for (k = 0; k < BW_FEATURES; k++) w[k] /= unit;
}
static void bw_rival_team(tiny_team *team, void *arg)
{
    const bw_arg *a = (const bw_arg *)arg;
    const tiny_idx each = a->set->n / BW_BATCH / team->n * BW_BATCH;
    bw_rival(a->set, a->bytes, (float)a->d.lr, a->model + team->i * BW_FEATURES, each * team->i,
             team->i + 1 < team->n ? each * (team->i + 1) : a->set->n);
}
static void bw_rival_run(void *arg)
{
    bw_arg *a = (bw_arg *)arg;
    const int n = tiny_ctx_threads(a->ctx);
    int i, j;
    for (i = 1; i < n; i++) memcpy(a->model + i * BW_FEATURES, a->model, BW_FEATURES * sizeof(float));
    b_must(a->ctx, tiny_parallel(a->ctx, n, 0, 0, bw_rival_team, a));
    for (j = 0; j < BW_FEATURES; j++) {
        for (i = 1; i < n; i++) a->model[j] += a->model[i * BW_FEATURES + j];
        a->model[j] /= (float)n;
    }
}

static void bw_weave_run(void *arg)
{
    bw_arg *a = (bw_arg *)arg;
    b_must(a->ctx, tllm_weave_epoch(a->ctx, &a->set->weave, a->set->label, &a->d, &a->s, a->model));
}

/* ---- the set ----------------------------------------------------------------------------------------------------- */

/* uniform features, labels 0 and 1 by the side of a plane, one in twenty flipped: a loss that any linear model has */
static void bw_open(bw_set *s, tiny_ctx *ctx, tiny_idx n)
{
    tiny_rng r = tiny_rng_make(11, 1);
    float low[BW_FEATURES], high[BW_FEATURES];
    tiny_idx i, k;
    int j;
    s->ctx = ctx;
    s->n = n;
    s->x = (float *)tiny_alloc(ctx, (size_t)n * BW_FEATURES * sizeof(float));
    s->byte = (unsigned char *)tiny_alloc(ctx, (size_t)n * BW_FEATURES);
    s->label = (float *)b_alloc((size_t)n * sizeof(float));
    s->line = (float *)b_alloc(BW_FEATURES * sizeof(float));
    if (!s->x || !s->byte) b_must(ctx, tiny_ctx_status(ctx));
    for (j = 0; j < BW_FEATURES; j++) {
        s->line[j] = tiny_rng_normal(&r);
        low[j] = 0.0f;
        high[j] = 1.0f;
    }
    b_must(ctx, tllm_weave_open(ctx, n, BW_FEATURES, low, high, &s->weave));
    for (i = 0; i < n; i += BW_PIECE) {
        const tiny_idx m = n - i < BW_PIECE ? n - i : BW_PIECE;
        tiny_tensor x = tiny_tensor_2d(s->x + i * BW_FEATURES, TINY_F32, m, BW_FEATURES),
                    q = tiny_tensor_2d(s->byte + i * BW_FEATURES, TINY_U8, m, BW_FEATURES);
        tiny_rng_fill_uniform(&r, s->x + i * BW_FEATURES, (size_t)(m * BW_FEATURES), 0.0f, 1.0f);
        b_must(ctx, tllm_weave_put(ctx, &s->weave, i, &x));
        b_must(ctx, tllm_weave_read(ctx, &s->weave, i, 8, &q));
        for (k = i; k < i + m; k++) {
            double z = 0;
            for (j = 0; j < BW_FEATURES; j++) z += ((double)s->x[k * BW_FEATURES + j] - 0.5) * (double)s->line[j];
            s->label[k] = (z > 0) != (tiny_rng_uniform(&r) < 0.05f) ? 1.0f : 0.0f;
        }
    }
}

static void bw_times(const bw_set *s, tiny_ctx *ctx, double *ns)
{
    static const int bits[BW_ROWS] = { 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 32 };
    const int threads = tiny_ctx_threads(ctx);
    const char *target = tiny_target_name(tiny_op_target(ctx, TINY_OP_MATMUL));
    float *models = (float *)b_alloc((size_t)(BW_ROWS * threads) * BW_FEATURES * sizeof(float));
    char what[BW_ROWS][32];
    bw_arg a[BW_ROWS];
    b_row r[BW_ROWS];
    int i;
    memset(a, 0, sizeof a);
    memset(r, 0, sizeof r);
    memset(models, 0, (size_t)(BW_ROWS * threads) * BW_FEATURES * sizeof(float));
    for (i = 0; i < BW_ROWS; i++) {
        a[i].set = s;
        a[i].ctx = ctx;
        a[i].bytes = i == 1;
        a[i].d.lr = 1.0 / BW_FEATURES;
        a[i].d.batch = BW_BATCH;
        a[i].d.bits = bits[i];
        a[i].d.average = threads > 1 ? threads : 0;
        a[i].model = models + (size_t)(i * threads) * BW_FEATURES;
        if (i < 2) (void)snprintf(what[i], sizeof what[i], i ? "bytes, stored apart" : "floats");
        else (void)snprintf(what[i], sizeof what[i], "weave, %d bit%s", bits[i], bits[i] > 1 ? "s" : "");
        r[i].what = what[i];
        r[i].target = i < 2 && BW_HERE ? "by hand" : target;
        r[i].threads = threads;
        r[i].limit = B_READ;
        r[i].flops = 4.0 * (double)s->n * BW_FEATURES;
        r[i].bytes = (double)s->n * BW_FEATURES * (i == 0 ? 4.0 : i == 1 ? 1.0 : bits[i] / 8.0);
        r[i].run = i < 2 ? BW_HERE ? bw_rival_run : NULL : bw_weave_run;
        r[i].arg = &a[i];
        b_shape(&r[i], "%tdx%d", s->n, BW_FEATURES);
    }
    b_contest(threads > 1 ? "MLWeaving: an epoch of least squares, a model a thread"
                          : "MLWeaving: an epoch of least squares, batches of 16",
              r, BW_ROWS);
    for (i = 0; i < BW_ROWS; i++) ns[i] = r[i].median_ns;
    if (r[0].run) {
        b_verdict("floats / weave of 1 bit", ns[0] / ns[2], ">", 3);
        b_verdict("floats / weave of 2 bits", ns[0] / ns[3], ">", 3);
        b_verdict("floats / weave of 4 bits", ns[0] / ns[5], ">", 3);
        b_verdict("floats / weave of 8 bits", ns[0] / ns[9], ">", 2);
        b_verdict("floats / weave of 32 bits", ns[0] / ns[10], ">", 0.5);
        b_verdict("bytes stored apart / weave of 8 bits", ns[1] / ns[9], ">", 0.8);
    }
    b_free(models);
}

/* loss on 32 bits after each epoch against the bytes that the steps have read */
static void bw_losses(const bw_set *s, tiny_ctx *ctx, double *last, double *mean_bits)
{
    static const int bits[8] = { 1, 2, 3, 4, 6, 8, 32, 0 };
    static double mb[8][BW_EPOCHS], loss[8][BW_EPOCHS];
    b_curve curve[8];
    char name[8][24];
    int i, e;
    for (i = 0; i < 8; i++) {
        float model[BW_FEATURES];
        tllm_weave_sgd_desc d;
        tllm_weave_state st;
        memset(&d, 0, sizeof d);
        memset(&st, 0, sizeof st);
        memset(model, 0, sizeof model);
        d.bits = bits[i];
        d.lr = 0.5 / BW_FEATURES;
        d.loss = 1;
        for (e = 0; e < BW_EPOCHS; e++) {
            b_must(ctx, tllm_weave_epoch(ctx, &s->weave, s->label, &d, &st, model));
            mb[i][e] = (double)st.bytes * 1e-6;
            loss[i][e] = st.loss;
        }
        last[i] = st.loss;
        if (!bits[i]) *mean_bits = 32.0 * (double)st.bytes / (double)s->weave.n_bytes / BW_EPOCHS;
        if (bits[i]) (void)snprintf(name[i], sizeof name[i], "%d bit%s", bits[i], bits[i] > 1 ? "s" : "");
        else (void)snprintf(name[i], sizeof name[i], "2 to 8, as requested");
        b_note("%s: loss %.4f after %d epochs, %.0f MB read", name[i], st.loss, BW_EPOCHS, mb[i][BW_EPOCHS - 1]);
        curve[i].name = name[i];
        curve[i].x = mb[i];
        curve[i].y = loss[i];
        curve[i].n = BW_EPOCHS;
    }
    b_svg("weave", "Loss on all bits by bytes read, least squares on bits of one store", "MB read by the steps", "loss",
          curve, 8);
    b_verdict("loss at 4 bits / at 32 bits", last[3] / last[6], "<", 1.03);
    b_verdict("loss of the schedule / at 32 bits", last[7] / last[6], "<", 1.03);
}

void bench_weave(void)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1), *all = b_ctx(TINY_TARGET_AUTO, b_threads);
    double ns[2][BW_ROWS], last[8], bits = 0;
    char on[160];
    bw_set s;
    memset(&s, 0, sizeof s);
    bw_open(&s, all, b_quick ? 24000 : 200000);
    bw_times(&s, ctx, ns[0]);
    if (b_threads > 1) bw_times(&s, all, ns[1]);
    else memcpy(ns[1], ns[0], sizeof ns[0]);
    bw_losses(&s, all, last, &bits);
    (void)snprintf(on, sizeof on,
                   "an epoch of %td samples of %d features, compared with a hand-written loop over floats, on 1 and %d "
                   "threads",
                   s.n, BW_FEATURES, b_threads);
    b_headline("weave", "up to 16 times faster convergence than low-precision CPU methods (on an FPGA)", on,
               "1 bit %.1f and %.1f times, 2 bits %.1f and %.1f, 4 bits %.1f and %.1f, 8 bits %.1f and %.1f, 32 bits "
               "%.2f and %.2f",
               ns[0][0] / ns[0][2], ns[1][0] / ns[1][2], ns[0][0] / ns[0][3], ns[1][0] / ns[1][3], ns[0][0] / ns[0][5],
               ns[1][0] / ns[1][5], ns[0][0] / ns[0][9], ns[1][0] / ns[1][9], ns[0][0] / ns[0][10],
               ns[1][0] / ns[1][10]);
    (void)snprintf(on, sizeof on, "%d epochs, the loss on all bits; 1, 2, 3, 4, 8 and 32 bits, and 2 to 8 as requested",
                   BW_EPOCHS);
    b_headline("weave", "few bits are enough: the same loss from 4 bits on, within 3 in a hundred", on,
               "%.4f, %.4f, %.4f, %.4f, %.4f and %.4f; %.4f at %.1f bits", last[0], last[1], last[2], last[3], last[5],
               last[6], last[7], bits);
    tllm_weave_close(all, &s.weave);
    tiny_free(all, s.x);
    tiny_free(all, s.byte);
    b_free(s.label);
    b_free(s.line);
    tiny_ctx_close(all);
    tiny_ctx_close(ctx);
}
