/* tests/llm/lab/gla/gla.c - the layer of gated linear attention: against plain loops, and every gradient against
 * central differences */
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

enum { N = 9, D = 6, HEADS = 4, KV = 2, KEY = 3, VALUE = 5, RANK = 2, WIDTH = 4, PARTS = 14 };
enum { X, WQ, WK, WV, WA, WB, BIAS, SIDE, GAIN, OUT, CQ, CK, CV, STATE };
static const tiny_idx dims[PARTS][4] = { { 2, N, D },
                                         { 2, HEADS *KEY, D },
                                         { 2, KV *KEY, D },
                                         { 2, KV *VALUE, D },
                                         { 2, RANK, D },
                                         { 2, KV *KEY, RANK },
                                         { 1, KV *KEY },
                                         { 2, HEADS *VALUE, D },
                                         { 1, VALUE },
                                         { 2, D, HEADS *VALUE },
                                         { 3, HEADS *KEY, 1, WIDTH },
                                         { 3, KV *KEY, 1, WIDTH },
                                         { 3, KV *VALUE, 1, WIDTH },
                                         { 3, HEADS, KEY, VALUE } };
static const char *const names[PARTS] = { "x",    "q",    "k",   "v",      "gate_a", "gate_b", "gate_bias",
                                          "side", "norm", "out", "conv_q", "conv_k", "conv_v", "state" };

typedef struct set { tiny_param p[PARTS]; } set;
static double *data(set *s, int i) { return (double *)s->p[i].value.data; }

static void make(set *s)
{
    int i;
    tiny_idx j;
    memset(s, 0, sizeof *s);
    for (i = 0; i < PARTS; i++) {
        const int rank = (int)dims[i][0];
        const tiny_idx n = dims[i][1] * (rank > 1 ? dims[i][2] : 1) * (rank > 2 ? dims[i][3] : 1);
        s->p[i].name = names[i];
        s->p[i].value = tiny_tensor_nd(t_keep((size_t)n * 8), TINY_F64, rank, dims[i] + 1);
        s->p[i].grad = tiny_tensor_nd(t_keep((size_t)n * 8), TINY_F64, rank, dims[i] + 1);
        for (j = 0; j < n; j++) data(s, i)[j] = (double)t_rand_float(-1.0f, 1.0f) * (i == BIAS ? 8.0 : 1.0);
    }
}

static double eps_of_norm = (double)1e-5f;
/* the layer once more, token by token; y (N, D) */
static void plain(set *s, int conv, double divide, double floor, double *y)
{
    static double q[N][HEADS * KEY], k[N][KV * KEY], v[N][KV * VALUE], g[N][KV * KEY];
    double state[HEADS][KEY][VALUE], o[HEADS * VALUE];
    int t, i, j, h, w;
    memcpy(state, data(s, STATE), sizeof state);
    for (t = 0; t < N; t++) {
        double low[RANK];
        const double *x = data(s, X) + t * D;
        for (i = 0; i < HEADS * KEY; i++) for (q[t][i] = 0, j = 0; j < D; j++) q[t][i] += data(s, WQ)[i * D + j] * x[j];
        for (i = 0; i < KV * KEY; i++) for (k[t][i] = 0, j = 0; j < D; j++) k[t][i] += data(s, WK)[i * D + j] * x[j];
        for (i = 0; i < KV * VALUE; i++) for (v[t][i] = 0, j = 0; j < D; j++) v[t][i] += data(s, WV)[i * D + j] * x[j];
        for (i = 0; i < RANK; i++) for (low[i] = 0, j = 0; j < D; j++) low[i] += data(s, WA)[i * D + j] * x[j];
        for (i = 0; i < KV * KEY; i++) {
            double z = data(s, BIAS)[i];
            for (j = 0; j < RANK; j++) z += data(s, WB)[i * RANK + j] * low[j];
            g[t][i] = log(1 / (1 + exp(-z))) / divide;
            if (floor < 0 && g[t][i] < floor) g[t][i] = floor;
        }
    }
    for (t = N - 1; t >= 0 && conv; t--) {
#define CONV(a, n, c)                                                                               \
    for (i = 0; i < (n); i++) {                                                                     \
        double sum = 0;                                                                             \
        for (w = 0; w < WIDTH; w++)                                                                 \
            if (t - WIDTH + 1 + w >= 0) sum += data(s, c)[i * WIDTH + w] * a[t - WIDTH + 1 + w][i]; \
        a[t][i] = sum / (1 + exp(-sum));                                                            \
    }
        CONV(q, HEADS * KEY, CQ)
        CONV(k, KV * KEY, CK)
        CONV(v, KV * VALUE, CV)
#undef CONV
    }
    for (t = 0; t < N; t++) {
        for (h = 0; h < HEADS; h++) {
            const int hk = h / (HEADS / KV);
            double square = 0;
            for (j = 0; j < VALUE; j++) {
                double sum = 0;
                for (i = 0; i < KEY; i++) {
                    state[h][i][j] =
                        exp(g[t][hk * KEY + i]) * state[h][i][j] + k[t][hk * KEY + i] * v[t][hk * VALUE + j];
                    sum += q[t][h * KEY + i] * state[h][i][j] / sqrt((double)KEY);
                }
                o[h * VALUE + j] = sum;
                square += sum * sum;
            }
            for (j = 0; j < VALUE; j++) {
                double z = 0;
                for (i = 0; i < D; i++) z += data(s, SIDE)[(h * VALUE + j) * D + i] * data(s, X)[t * D + i];
                o[h * VALUE + j] *= data(s, GAIN)[j] / sqrt(square / VALUE + eps_of_norm) * z / (1 + exp(-z));
            }
        }
        for (i = 0; i < D; i++)
            for (y[t * D + i] = 0, j = 0; j < HEADS * VALUE; j++)
                y[t * D + i] += data(s, OUT)[i * HEADS * VALUE + j] * o[j];
    }
}

static tiny_tensor layer(tiny_tape *tape, set *s, int conv, const tllm_gla_layer_params *p, tiny_tensor *state)
{
    const tllm_gla_layer_weights w = { &s->p[WQ].value,
                                       &s->p[WK].value,
                                       &s->p[WV].value,
                                       &s->p[WA].value,
                                       &s->p[WB].value,
                                       &s->p[BIAS].value,
                                       &s->p[SIDE].value,
                                       &s->p[GAIN].value,
                                       &s->p[OUT].value,
                                       conv ? &s->p[CQ].value : NULL,
                                       conv ? &s->p[CK].value : NULL,
                                       conv ? &s->p[CV].value : NULL };
    return tllm_gla_layer(tape, &s->p[X].value, &w, p, &s->p[STATE].value, state);
}

static void check(int conv, float divide, float floor, float eps)
{
    const tllm_gla_layer_params p = { HEADS, KV, divide, floor, eps, 0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_tape_desc td;
    tiny_tape *tape = NULL;
    tiny_tensor y, loss, weight;
    double want[N * D], *by = (double *)t_keep(N * D * 8);
    set s;
    int i, j;
    eps_of_norm = (double)(eps > 0 ? eps : 1e-5f);
    make(&s);
    memset(&td, 0, sizeof td);
    td.bytes = 1 << 20;
    weight = tiny_tensor_2d(by, TINY_F64, N, D);
    for (i = 0; i < N * D; i++) by[i] = (double)t_rand_float(-1, 1);
    if (!T_OK(tiny_tape_open(ctx, &td, &tape))) { t_close(ctx); return; }
    for (i = 0; i < PARTS; i++) if (conv || i < CQ || i == STATE) T_OK(tiny_tape_param(tape, &s.p[i]));
    y = layer(tape, &s, conv, &p, NULL);
    loss = tiny_tape_mul(tape, &y, &weight);
    loss = tiny_tape_mean(tape, &loss);
    tiny_tape_zero(tape);
    if (T_OK(tiny_tape_backward(tape, &loss, NULL))) {
        plain(&s, conv, divide > 0 ? (double)divide : 16, (double)floor, want);
        for (i = 0; i < N * D; i++) T_CLOSE(((double *)y.data)[i], want[i], 1e-12 * (1 + fabs(want[i])));
        for (i = 0; i < PARTS; i++) {
            const tiny_idx n = tiny_tensor_count(&s.p[i].value);
            double most = 1e-3;
            if (!conv && i >= CQ && i <= CV) continue;
            for (j = 0; j < n; j++)
                most = fabs(((double *)s.p[i].grad.data)[j]) > most ? fabs(((double *)s.p[i].grad.data)[j]) : most;
            for (j = 0; j < n; j += 1 + (int)n / 12) {
                double *at = data(&s, i) + j, was = *at, up = 0, down = 0;
                int k;
                *at = was + 1e-5;
                plain(&s, conv, divide > 0 ? (double)divide : 16, (double)floor, want);
                for (k = 0; k < N * D; k++) up += by[k] * want[k] / (N * D);
                *at = was - 1e-5;
                plain(&s, conv, divide > 0 ? (double)divide : 16, (double)floor, want);
                for (k = 0; k < N * D; k++) down += by[k] * want[k] / (N * D);
                *at = was;
                if (!T_CLOSE(((double *)s.p[i].grad.data)[j], (up - down) / 2e-5, 1e-6 * most))
                    printf("    in %s\n", names[i]);
            }
        }
    }
    tiny_tape_close(tape);
    t_close(ctx);
}

static void test_layer(void) { check(0, 0, 0, 0); }
static void test_layer_with_convolutions(void) { check(1, 0, 0, 0); }
static void test_layer_strong_gates_with_a_floor(void) { check(0, 0.5f, -3.0f, 0); }
static void test_layer_with_an_eps(void) { check(0, 0, 0, 0.25f); }

/* in float, in two pieces with the state handed over: as in one */
static void test_pieces(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    const tllm_gla_layer_params p = { HEADS, KV, 0, 0, 0, 0 };
    tiny_tape_desc td;
    tiny_tape *tape = NULL;
    set s;
    tiny_tensor all, a, b, x, state, whole;
    int i;
    make(&s);
    for (i = 0; i < PARTS; i++) {           /* the same numbers as floats, in place */
        const tiny_idx n = tiny_tensor_count(&s.p[i].value);
        float *to = (float *)t_keep((size_t)n * 4);
        tiny_idx j;
        for (j = 0; j < n; j++) to[j] = (float)data(&s, i)[j];
        s.p[i].value = tiny_tensor_nd(to, TINY_F32, (int)dims[i][0], dims[i] + 1);
    }
    memset(&td, 0, sizeof td);
    td.bytes = 1 << 20;
    td.no_grad = 1;
    if (T_OK(tiny_tape_open(ctx, &td, &tape))) {
        x = s.p[X].value;
        all = layer(tape, &s, 0, &p, &whole);
        s.p[X].value.dim[0] = 4;
        a = layer(tape, &s, 0, &p, &state);
        s.p[X].value.dim[0] = N - 4;
        s.p[X].value.data = (float *)x.data + 4 * D;
        s.p[STATE].value = state;
        b = layer(tape, &s, 0, &p, &state);
        if (T_OK(tiny_tape_status(tape))) {
            for (i = 0; i < N * D; i++)
                T_CLOSE(i < 4 * D ? ((float *)a.data)[i] : ((float *)b.data)[i - 4 * D], ((float *)all.data)[i], 2e-5);
            for (i = 0; i < HEADS * KEY * VALUE; i++) T_CLOSE(((float *)state.data)[i], ((float *)whole.data)[i], 2e-5);
        }
    }
    tiny_tape_close(tape);
    t_close(ctx);
}

static void test_refused(void)
{
    static const struct { int part; tiny_idx rows, cols; const char *says;
    } bad[] = { { WQ, HEADS * KEY + 1, D, "rows of q, k, v and gate_b do not divide into their heads" },
                { WB, KV * KEY + 1, RANK, "rows of q, k, v and gate_b" },
                { SIDE, HEADS * VALUE - 1, D, "rows of side and columns of out must be n_head heads of values" },
                { OUT, D, 3, "rows of side and columns of out" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_tape *tape = NULL;
    tllm_gla_layer_params p = { HEADS, KV, 0, 0, 0, 0 };
    size_t i;
    set s;
    make(&s);
    if (T_OK(tiny_tape_open(ctx, NULL, &tape))) {
        const tiny_tape_mark mark = tiny_tape_now(tape);
        for (i = 0; i < T_COUNT(bad); i++) {
            const tiny_tensor was = s.p[bad[i].part].value;
            s.p[bad[i].part].value.dim[0] = bad[i].rows;
            s.p[bad[i].part].value.dim[1] = bad[i].cols;
            (void)layer(tape, &s, 0, &p, NULL);
            T_STATUS(tiny_tape_status(tape), TINY_E_SHAPE, bad[i].says);
            s.p[bad[i].part].value = was;
            tiny_tape_release(tape, mark);
        }
        s.p[CQ].value.dim[1] = 2;
        (void)layer(tape, &s, 1, &p, NULL);
        T_STATUS(tiny_tape_status(tape), TINY_E_SHAPE, "a convolution must be (rows of its matrix, 1, width)");
        tiny_tape_release(tape, mark);
        p.n_head_kv = 3;
        (void)layer(tape, &s, 0, &p, NULL);
        T_STATUS(tiny_tape_status(tape), TINY_E_SHAPE, "n_head must be a multiple of n_head_kv");
        tiny_tape_release(tape, mark);
        p.n_head_kv = KV;
        p.floor = 1;
        (void)layer(tape, &s, 0, &p, NULL);
        T_STATUS(tiny_tape_status(tape), TINY_E_SHAPE, "floor not above 0");
    }
    tiny_tape_close(tape);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_layer);
    T_RUN(test_layer_with_convolutions);
    T_RUN(test_layer_strong_gates_with_a_floor);
    T_RUN(test_layer_with_an_eps);
    T_RUN_TARGETS(test_pieces);
    T_RUN(test_refused);
    return t_done();
}
#endif
