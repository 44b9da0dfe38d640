/* tests/llm/lab/vision/merge.c - merging with re-activation: against plain loops, as plain merging where pb is 0,
 * gradients, bad input */
#include "t.h"

/* one image: y, and the whole of PYRA, as the text has it; pairs in the order of the match */
typedef struct image {
    int t, r, d;
    const double *x, *size, *pa, *pb, *g, *b;
    const int32_t *src, *dst, *to, *from;
} image;
static void plain(const image *m, double eps, double *y)
{
    static double z[16][16], src[16][16];
    double w1[16], w2[16], s[40];
    int i, j, o;
    for (i = 0; i < m->r; i++) {
        const double *a = m->x + m->src[i] * m->d, *c = m->x + m->dst[i] * m->d;
        double mean = 0, var = 0;
        for (j = 0; j < m->d; j++) {
            src[i][j] = a[j] * m->size[m->src[i]];
            z[i][j] = src[i][j] + c[j] * m->size[m->dst[i]];
            mean += z[i][j] / m->d;
        }
        for (j = 0; j < m->d; j++) var += (z[i][j] - mean) * (z[i][j] - mean) / m->d;
        for (j = 0; j < m->d && m->pa; j++) z[i][j] = m->g[j] * (z[i][j] - mean) / sqrt(var + eps) + m->b[j];
    }
    for (j = 0; j < m->d && m->pa; j++) {
        double u = 0;
        for (i = 0; i < m->r; i++) u += m->pa[i] * z[i][j];
        w1[j] = 2 / (1 + exp(-u));
    }
    for (i = 0; i < m->r && m->pa; i++) {
        double v = 0;
        for (j = 0; j < m->d; j++) v += z[i][j] * m->pb[j];
        w2[i] = 2 / (1 + exp(-v)) - 1;
    }
    for (o = 0; o < m->t - m->r; o++) {
        s[o] = m->size[m->from[o]];
        for (j = 0; j < m->d; j++) y[o * m->d + j] = m->x[m->from[o] * m->d + j] * s[o];
    }
    for (i = 0; i < m->r; i++) {
        o = m->to[m->src[i]];
        s[o] += m->size[m->src[i]];
        for (j = 0; j < m->d; j++) y[o * m->d + j] += src[i][j] * (m->pa ? 1 + w1[j] * w2[i] : 1);
    }
    for (o = 0; o < m->t - m->r; o++) for (j = 0; j < m->d; j++) y[o * m->d + j] /= s[o];
}

enum { T = 17, B = 2, D = 11, R = 6 };

typedef struct set {
    double x[T * B * D], size[T * B], w[4][D > R ? D : R], y[(T - R) * B * D], dy[(T - R) * B * D], dx[T * B * D],
        d_pa[R], d_pbn[3 * D];
    int32_t m[(2 * T + R) * B];
    tiny_tensor tx, ts, tm, tw[4], ty, tdy, tdx, tpa, tpbn;
    tllm_pyra_weights weights;
} set;

static void make(set *s, tiny_ctx *ctx)
{
    int i, k;
    memset(s, 0, sizeof *s);
    for (i = 0; i < T * B * D; i++) s->x[i] = (double)t_rand_float(-1, 1);
    for (i = 0; i < T * B; i++) s->size[i] = (double)(1 + t_rand_below(4));
    for (i = 0; i < (T - R) * B * D; i++) s->dy[i] = (double)t_rand_float(-1, 1);
    for (k = 0; k < 4; k++)
        for (i = 0; i < D; i++)
            if (i < (int)T_COUNT(s->w[k])) s->w[k][i] = (double)t_rand_float(-1, 1) + (k == 2);
    s->tx = tiny_tensor_3d(s->x, TINY_F64, T, B, D);
    s->ts = tiny_tensor_2d(s->size, TINY_F64, T, B);
    s->tm = tiny_tensor_2d(s->m, TINY_I32, 2 * T + R, B);
    for (k = 0; k < 4; k++) s->tw[k] = tiny_tensor_1d(s->w[k], TINY_F64, k ? D : R);
    s->ty = tiny_tensor_3d(s->y, TINY_F64, T - R, B, D);
    s->tdy = tiny_tensor_3d(s->dy, TINY_F64, T - R, B, D);
    s->tdx = tiny_tensor_3d(s->dx, TINY_F64, T, B, D);
    s->tpa = tiny_tensor_1d(s->d_pa, TINY_F64, R);
    s->tpbn = tiny_tensor_2d(s->d_pbn, TINY_F64, 3, D);
    s->weights.pa = &s->tw[0]; s->weights.pb = &s->tw[1]; s->weights.norm_g = &s->tw[2]; s->weights.norm_b = &s->tw[3];
    T_OK(tllm_tome_match(ctx, &s->tx, B, TLLM_TOME_CLASS, &s->tm));
}

static double total(const set *s, int weights, double *keep)    /* dy . y by the plain loops */
{
    double sum = 0, x[T * D], size[T], y[(T - R) * D];
    int32_t m[2 * T + R];
    int b, i;
    for (b = 0; b < B; b++) {
        image im;
        for (i = 0; i < T * D; i++) x[i] = s->x[(i / D * B + b) * D + i % D];
        for (i = 0; i < T; i++) size[i] = s->size[i * B + b];
        for (i = 0; i < 2 * T + R; i++) m[i] = s->m[i * B + b];
        im.t = T; im.r = R; im.d = D;
        im.x = x; im.size = size;
        im.to = m; im.from = m + T; im.src = m + 2 * T - R; im.dst = m + 2 * T;
        im.pa = weights ? s->w[0] : NULL; im.pb = s->w[1]; im.g = s->w[2]; im.b = s->w[3];
        plain(&im, (double)1e-5f, y);
        for (i = 0; i < (T - R) * D; i++) {
            sum += s->dy[(i / D * B + b) * D + i % D] * y[i];
            if (keep) keep[(i / D * B + b) * D + i % D] = y[i];
        }
    }
    return sum;
}

static void differences(set *s, int weights, double *at, const double *got, int n)
{
    double most = 1e-3;
    int i;
    for (i = 0; i < n; i++) most = fabs(got[i]) > most ? fabs(got[i]) : most;
    for (i = 0; i < n; i++) {
        const double was = at[i];
        double up, down;
        at[i] = was + 1e-5;
        up = total(s, weights, NULL);
        at[i] = was - 1e-5;
        down = total(s, weights, NULL);
        at[i] = was;
        T_CLOSE(got[i], (up - down) / 2e-5, 1e-8 * most);
    }
}

static void test_plain_and_gradient(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    set *s = (set *)t_keep(sizeof *s);
    double want[(T - R) * B * D];
    int k, i;
    for (k = 0; k < 2; k++) {
        make(s, ctx);
        T_OK(tllm_tome_merge(ctx, &s->tx, &s->ts, &s->tm, k ? &s->weights : NULL, &s->ty));
        (void)total(s, k, want);
        for (i = 0; i < (T - R) * B * D; i++) T_CLOSE(s->y[i], want[i], 1e-12);
        T_OK(tllm_tome_merge_backward(ctx, &s->tx, &s->ts, &s->tm, k ? &s->weights : NULL, &s->tdy, &s->tdx, &s->tpa,
                                      &s->tpbn));
        differences(s, k, s->x, s->dx, T * B * D);
        for (i = 0; i < R && !k; i++) T_TRUE(s->d_pa[i] == 0);
        for (i = 0; i < 3 * D && !k; i++) T_TRUE(s->d_pbn[i] == 0);
        if (!k) continue;
        differences(s, 1, s->w[0], s->d_pa, R);
        for (i = 0; i < 3; i++) differences(s, 1, s->w[1 + i], s->d_pbn + i * D, D);
    }
    t_close(ctx);
    T_PROOF("attention 9", "gradient check");
}

/* pb = 0: bit for bit plain merging; no merge: x itself; equal tokens stay equal */
static void test_same_bits(tiny_target target)
{
    enum { TT = 31, BB = 2, DD = 37, RR = 11 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(TT * BB * DD, -3, 3), *size = t_rand(TT * BB, 1, 1), *pa = t_rand(RR, -1, 1),
          *g = t_rand(DD, 1, 1), *zero = t_rand(DD, 0, 0), *y = t_guarded((TT - RR) * BB * DD),
          *z = t_guarded((TT - RR) * BB * DD);
    float *back = t_guarded(TT * BB * DD);
    int32_t *m = (int32_t *)t_guarded_bytes((2 * TT + RR) * BB * 4);
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, TT, BB, DD), ts = tiny_tensor_2d(size, TINY_F32, TT, BB),
                tm = tiny_tensor_2d(m, TINY_I32, 2 * TT + RR, BB), ty = tiny_tensor_3d(y, TINY_F32, TT - RR, BB, DD);
    tiny_tensor tz = tiny_tensor_3d(z, TINY_F32, TT - RR, BB, DD), tb = tiny_tensor_3d(back, TINY_F32, TT, BB, DD),
                tpa = tiny_tensor_1d(pa, TINY_F32, RR), tg = tiny_tensor_1d(g, TINY_F32, DD),
                t0 = tiny_tensor_1d(zero, TINY_F32, DD);
    tiny_tensor to;
    tllm_pyra_weights w;
    int i;
    w.pa = &tpa; w.pb = &t0; w.norm_g = &tg; w.norm_b = &t0;
    for (i = 0; i < TT * BB; i++) size[i] = (float)(1 + i % 3);
    T_OK(tllm_tome_match(ctx, &tx, BB, TLLM_TOME_CLASS, &tm));
    T_OK(tllm_tome_merge(ctx, &tx, &ts, &tm, NULL, &ty));
    T_RAN_ON(ctx, t_vectors(target));
    T_OK(tllm_tome_merge(ctx, &tx, &ts, &tm, &w, &tz));
    T_SAME(y, z, (TT - RR) * BB * DD);
    T_WALLS(y, (TT - RR) * BB * DD);
    /* equal tokens: matched in order, and unchanged */
    for (i = 0; i < TT * BB * DD; i++) x[i] = (float)(i % DD) * 0.37f - 5.1f;
    T_OK(tllm_tome_match(ctx, &tx, BB, TLLM_TOME_CLASS, &tm));
    T_OK(tllm_tome_merge(ctx, &tx, &ts, &tm, NULL, &ty));
    to = tllm_tome_part(&tm, TT, TLLM_TOME_TO);
    T_OK(tllm_tome_unmerge(ctx, &ty, &to, &tb));
    for (i = 0; i < TT * BB * DD; i++) T_CLOSE(back[i], x[i], 12 * 6e-8 * 10);      /* a sum of 12 */
    tm.dim[0] = 2 * TT;                     /* nothing merges */
    ty.dim[0] = TT;
    ty.data = back;
    for (i = 0; i < TT * BB * DD; i++) x[i] = t_rand_float(-1, 1);
    T_OK(tllm_tome_match(ctx, &tx, BB, 0, &tm));
    T_OK(tllm_tome_merge(ctx, &tx, &ts, &tm, NULL, &ty));
    for (i = 0; i < TT * BB; i++) {         /* first the even ones, by score, then the odd ones */
        const tiny_tensor from = tllm_tome_part(&tm, TT, TLLM_TOME_FROM);
        T_SAME(back + i * DD, x + (((int32_t *)from.data)[i] * BB + i % BB) * DD, DD);
    }
    t_close(ctx);
    T_PROOF("attention 9", "pb = 0 equals ToMe bit for bit");
    T_PROOF("attention 9", "r = 0 is the identity");
    T_PROOF("attention 9", "unmerge of merge of constant x is the identity");
}

static void test_conformance(tiny_target target)
{
    t_conform(target, tllm_tome_merge_row(), T_SLOW ? 12 : 60);
    t_conform(target, tllm_tome_merge_backward_row(), T_SLOW ? 8 : 40);
    T_PROOF("attention 9", "gradient check");
}

static void test_bad(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    set *s = (set *)t_keep(sizeof *s);
    tiny_tensor wrong;
    tllm_pyra_weights w;
    make(s, ctx);
    w = s->weights;
    wrong = s->tw[0];
    wrong.dim[0] = R - 1;
    w.pa = &wrong;
    T_STATUS(tllm_tome_merge(ctx, &s->tx, &s->ts, &s->tm, &w, &s->ty), TINY_E_SHAPE,
             "it was learnt for that many merges");
    w.pa = NULL;
    T_STATUS(tllm_tome_merge(ctx, &s->tx, &s->ts, &s->tm, &w, &s->ty), TINY_E_ARGUMENT, "go together");
    w = s->weights;
    wrong = s->tw[1];
    wrong.stride[0] = 0;
    w.pb = &wrong;
    T_STATUS(tllm_tome_merge(ctx, &s->tx, &s->ts, &s->tm, &w, &s->ty), TINY_E_SHAPE, "pb is");
    wrong = s->ts;
    wrong.dim[0]--;
    T_STATUS(tllm_tome_merge(ctx, &s->tx, &wrong, &s->tm, NULL, &s->ty), TINY_E_SHAPE, "sizes are");
    wrong = s->tm;
    wrong.dim[0] = 2 * T - 1;
    T_STATUS(tllm_tome_merge(ctx, &s->tx, &s->ts, &wrong, NULL, &s->ty), TINY_E_SHAPE, "the match is");
    wrong = s->tdy;
    wrong.dim[0]--;
    T_STATUS(tllm_tome_merge_backward(ctx, &s->tx, &s->ts, &s->tm, NULL, &wrong, &s->tdx, &s->tpa, &s->tpbn),
             TINY_E_SHAPE, "dy is");
    s->m[0] = T;
    T_STATUS(tllm_tome_merge_backward(ctx, &s->tx, &s->ts, &s->tm, NULL, &s->tdy, &s->tdx, &s->tpa, &s->tpbn),
             TINY_E_ARGUMENT, "number 0 of the match is 17");
    t_close(ctx);
    T_PROOF("attention 9", "bad input: r mismatch with pa");
}

int main(void)
{
    T_RUN_FORMS(test_plain_and_gradient);
    T_RUN_FORMS(test_same_bits);
    T_RUN_TARGETS(test_conformance);
    T_RUN_FORMS(test_bad);
    return t_done();
}
