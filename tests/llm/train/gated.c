/* tests/llm/train/gated.c - the gated form of the trainer: its gradient against central differences of a forward pass
 * written again in double
 *
 * The twin walks token by token and head by head, from the formulas of the paper: it has no chunks, no kept halves, no
 * matrices of all tokens. */
#include "t.h"
#include "llm/train/kit.h"

enum {
    EMBD,
    NORM1,
    LERP,
    Q,
    K,
    V,
    SIDE,
    DECAY,
    DECAY_A,
    DECAY_B,
    O,
    NORM2,
    GATE,
    UP,
    DOWN,
    EACH = 14,
    VOCAB = 544,
    WIDE = 24,
    D = 16
};
typedef struct twin { const tllm_train_desc *d; double *w[2 + EACH * 2]; } twin;

static void norm(const double *x, const double *g, double *y)
{
    double s = 0;
    int i;
    for (i = 0; i < D; i++) s += x[i] * x[i];
    for (i = 0; i < D; i++) y[i] = g[i] * x[i] / sqrt(s / D + 1e-5);
}
static void apply(const double *w, int rows, int cols, const double *x, double *y)
{
    int r, c;
    for (r = 0; r < rows; r++)
        for (y[r] = 0, c = 0; c < cols; c++) y[r] += w[r * cols + c] * x[c];
}

/* a layer on the tokens of a sequence, x (n, D) */
static void layer(const twin *m, double *const *w, double *x, int n)
{
    const int heads = m->d->heads, s = D / heads, rank = m->d->rank, hidden = m->d->hidden;
    double state[D * D], before[D], h[D], in[5][D], low[D], q[D], k[D], v[D], side[D], left[D], o[D], y[D], a[WIDE],
        b[WIDE];
    int t, i, j, c;
    memset(state, 0, sizeof state);
    memset(before, 0, sizeof before);
    for (t = 0; t < n; t++, x += D) {
        norm(x, w[NORM1], h);
        for (i = 0; i < 5; i++)
            for (c = 0; c < D; c++) in[i][c] = h[c] * (1 - w[LERP][i * D + c]) + before[c] * w[LERP][i * D + c];
        memcpy(before, h, sizeof before);
        apply(w[DECAY_A], rank, D, in[0], low);
        for (i = 0; i < rank; i++) low[i] = tanh(low[i]);
        apply(w[DECAY_B], D, rank, low, left);
        apply(w[K], D, D, in[1], k);
        apply(w[V], D, D, in[2], v);
        apply(w[Q], D, D, in[3], q);
        apply(w[SIDE], D, D, in[4], side);
        for (c = 0; c < D; c++) {
            left[c] = exp(-exp(left[c] + w[DECAY][c]));
            k[c] *= 1 - left[c];
        }
        for (j = 0; j < D; j++) {
            const int head = j / s;
            for (o[j] = 0, i = 0; i < s; i++) {
                double *at = &state[(head * s + i) * D + j];
                *at = left[head * s + i] * *at + k[head * s + i] * v[j];
                o[j] += q[head * s + i] * *at / sqrt((double)s);
            }
            o[j] /= 1 + exp(-side[j]);
        }
        apply(w[O], D, D, o, y);
        for (c = 0; c < D; c++) x[c] += y[c];
        norm(x, w[NORM2], h);
        apply(w[GATE], hidden, D, h, a);
        apply(w[UP], hidden, D, h, b);
        for (i = 0; i < hidden; i++) a[i] = a[i] / (1 + exp(-a[i])) * b[i];
        apply(w[DOWN], D, hidden, a, y);
        for (c = 0; c < D; c++) x[c] += y[c];
    }
}

static double twin_loss(const twin *m, const int32_t *tokens)
{
    const int n = m->d->context;
    static double x[80 * D];
    double p[VOCAB], h[D], sum = 0;
    int s, t, l, i;
    for (s = 0; s < m->d->sequences; s++, tokens += n + 1) {
        for (t = 0; t < n; t++)
            for (i = 0; i < D; i++) x[t * D + i] = m->w[EMBD][tokens[t] * D + i];
        for (l = 0; l < m->d->layers; l++) layer(m, m->w + EACH * l, x, n);
        for (t = 0; t < n; t++) {
            double z = 0;
            norm(x + t * D, m->w[1 + EACH * m->d->layers], h);
            apply(m->w[EMBD], VOCAB, D, h, p);
            for (i = 0; i < VOCAB; i++) z += exp(p[i]);
            sum += log(z) - p[tokens[t + 1]];
        }
    }
    return sum / (m->d->sequences * n);
}

/* Every tensor: along a random direction, and in two single numbers. 70 tokens are more than the recurrent form takes,
 * so that forward is chunked. strong: gates that forget within a token or two. */
static void check(int strong)
{
    tllm_train_desc d = form_desc(TLLM_TRAIN_GATED);
    enum { POINTS = 2 };
    const double step = 1e-5;
    double want[2 + EACH * 2], point[2 + EACH * 2][POINTS], *direction[2 + EACH * 2], loss, bits;
    tiny_ctx *first = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_trainer *t = NULL;
    tiny_tensor v, g;
    int32_t *tokens;
    char name[64];
    size_t i, k, n, tensors = 0;
    int target;
    twin m;
    d.context = 70;
    m.d = &d;
    tokens = story_tokens(&d, 21);
    if (!T_OK(tllm_trainer_open(first, &d, &t))) { t_close(first); return; }
    for (; tllm_trainer_tensor(t, tensors, name, &v, NULL) && tensors < 2 + EACH * 2; tensors++) {
        float *x = (float *)v.data;
        n = (size_t)tiny_tensor_count(&v);
        m.w[tensors] = (double *)t_keep(n * sizeof(double));
        direction[tensors] = (double *)t_keep(n * sizeof(double));
        for (k = 0; k < n; k++) {
            if (strstr(name, "time_mix_decay.")) x[k] = strong ? t_rand_float(0.5f, 3.5f) : t_rand_float(-4.0f, 1.0f);
            else if (strstr(name, "lerp")) x[k] = t_rand_float(0.1f, 0.9f);
            else if (v.dim[0] == 1) x[k] = t_rand_float(0.5f, 1.5f);
            else if (strstr(name, "decay_w2")) x[k] *= 6.0f;
            else if (tensors) x[k] *= 1.5f;
            m.w[tensors][k] = (double)x[k];
            direction[tensors][k] = (double)t_rand_float(-1.0f, 1.0f);
        }
    }
    T_EQ_INT(tensors, 2 + EACH * 2);
    for (i = 0; i < tensors; i++) {
        double up;
        (void)tllm_trainer_tensor(t, i, name, &v, NULL);
        n = (size_t)tiny_tensor_count(&v);
        for (k = 0; k < n; k++) m.w[i][k] += step * direction[i][k];
        up = twin_loss(&m, tokens);
        for (k = 0; k < n; k++) m.w[i][k] -= 2 * step * direction[i][k];
        want[i] = (up - twin_loss(&m, tokens)) / (2 * step);
        for (k = 0; k < n; k++) m.w[i][k] = (double)((float *)v.data)[k];
        for (k = 0; k < POINTS; k++) {
            double *at = m.w[i] + (i ? (k + 1) * 7919 % n : (size_t)tokens[3 * k + 1] * D + k), was = *at;
            *at = was + step;
            up = twin_loss(&m, tokens);
            *at = was - step;
            point[i][k] = (up - twin_loss(&m, tokens)) / (2 * step);
            *at = was;
        }
    }
    loss = twin_loss(&m, tokens) / log(2.0);
    for (target = TINY_TARGET_REFERENCE; target < TINY_TARGET_COUNT; target++) {
        tllm_trainer *other;
        tiny_ctx *ctx;
        if (!tiny_target_runs_here((tiny_target)target)) continue;
        ctx = t_ctx((tiny_target)target, 2);
        other = trainer_like(ctx, &d, t);
        if (!other) { t_close(ctx); break; }
        T_OK(tllm_trainer_gradient(other, tokens, &bits));
        T_CLOSE(bits, loss, 2e-6 * loss);
        for (i = 0; tllm_trainer_tensor(other, i, name, &v, &g); i++) {
            const float *x = (const float *)g.data;
            double got = 0, size = 0, largest = 0;
            n = (size_t)tiny_tensor_count(&g);
            for (k = 0; k < n; k++) {
                got += (double)x[k] * direction[i][k];
                size += (double)x[k] * (double)x[k];
                if (fabs((double)x[k]) > largest) largest = fabs((double)x[k]);
            }
            if (!T_CLOSE(got, want[i], 1e-5 * sqrt(size))) printf("    in %s\n", name);
            for (k = 0; k < POINTS; k++)
                if (!T_CLOSE(x[i ? (k + 1) * 7919 % n : (size_t)tokens[3 * k + 1] * D + k], point[i][k],
                             1e-5 * largest))
                    printf("    in %s\n", name);
        }
        tllm_trainer_close(other);
        t_close(ctx);
    }
    tllm_trainer_close(t);
    t_close(first);
}

static void test_gradient(void) { check(0); }
static void test_gradient_strong(void) { check(1); }

int main(void)
{
    T_RUN(test_gradient);
    T_RUN(test_gradient_strong);
    return t_done();
}
