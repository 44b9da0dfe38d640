/* tests/gnn/quant/a2q.c - the quantizer: numbers worked by hand, its bound, its gradient on a tape, the error it
 * lowers, the nearest group compared with a search of all, and refused arguments */
#define T_GNN
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

/* the gradient of one row, or of rows with groups, as the operation a2q_back gives it */
static void back(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *step, const tiny_tensor *bits,
                 const tiny_tensor *index, const tiny_tensor *dy, const tgnn_a2q_params *p, tiny_tensor out[3])
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.row = tgnn_a2q_back_row();
    op.in[0] = x;
    op.in[1] = step;
    op.in[2] = bits;
    op.in[3] = index;
    op.in[4] = dy;
    op.params = p;
    op.out[0] = &out[0];
    op.out[1] = &out[1];
    op.out[2] = &out[2];
    T_OK(tiny_run(ctx, &op));
}

static double error_of(const float *x, const float *q, int n)
{
    double sum = 0;
    int i;
    for (i = 0; i < n; i++) sum += fabs((double)q[i] - (double)x[i]);
    return sum / n;
}

/* every number of the worked example */
static void test_worked(tiny_target target)
{
    static const float want[4] = { 0.75f, -0.25f, 0.0f, 0.75f };
    tiny_ctx *ctx = t_ctx(target, 2);
    float x[4] = { 0.9f, -0.35f, 0.12f, 2.0f }, a = 0.25f, b = 3.0f, q[4], dy[4] = { 1, 2, 3, 4 }, dx[4], da, db;
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, 4), ta = tiny_tensor_1d(&a, TINY_F32, 1),
                tb = tiny_tensor_1d(&b, TINY_F32, 1), tq = tiny_tensor_2d(q, TINY_F32, 1, 4),
                tdy = tiny_tensor_2d(dy, TINY_F32, 1, 4), out[3];
    tgnn_a2q_params p;
    int i;
    memset(&p, 0, sizeof p);
    T_OK(tgnn_a2q(ctx, &tx, &ta, &tb, NULL, &p, &tq));
    for (i = 0; i < 4; i++) T_CLOSE(q[i], want[i], 0);
    for (i = 0; i < 4; i++) T_CLOSE(q[i] / a, i == 0 || i == 3 ? 3 : i == 1 ? -1 : 0, 0);
    T_CLOSE(error_of(x, q, 4), 0.405, 1e-6);
    out[0] = tiny_tensor_2d(dx, TINY_F32, 1, 4);
    out[1] = tiny_tensor_1d(&da, TINY_F32, 1);
    out[2] = tiny_tensor_1d(&db, TINY_F32, 1);
    back(ctx, &tx, &ta, &tb, NULL, &tdy, &p, out);
    T_CLOSE(da, -1.28, 1e-6);
    T_CLOSE(db, -0.346574, 1e-6);
    T_TRUE(dx[0] == 0 && dx[1] == 2 && dx[2] == 3 && dx[3] == 0);
    /* dL/dxq in the place of sgn / f, by hand: 1*3 + 2*(0.4) + 3*(-0.48) + 4*3; 4 ln 2 a (1 + 4) */
    p.task = 1;
    back(ctx, &tx, &ta, &tb, NULL, &tdy, &p, out);
    T_CLOSE(da, 3 + 2 * 0.4 - 3 * 0.48 + 12, 1e-5);
    T_CLOSE(db, 5 * 0.6931471805599453, 1e-5);
    a = -a;                                 /* |a| and |b| are used: their slopes turn */
    b = -b;
    T_OK(tgnn_a2q(ctx, &tx, &ta, &tb, NULL, &p, &tq));
    for (i = 0; i < 4; i++) T_CLOSE(q[i], want[i], 0);
    p.task = 0;
    back(ctx, &tx, &ta, &tb, NULL, &tdy, &p, out);
    T_CLOSE(da, 1.28, 1e-6);
    T_CLOSE(db, 0.346574, 1e-6);
    t_close(ctx);
    T_PROOF("graphs 1", "worked row: q, xq, E, dE/da, dE/db");
}

/* inside the range the error is half a step at most, outside it is the largest code; one bit gives zeros, and so does
 * a row of zeros */
static void test_bound(tiny_target target)
{
    enum { N = 60, F = 37 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(N * F, -3.0f, 3.0f), *step = t_rand(N, 0.01f, 0.8f), *bits = t_guarded(N), *q = t_guarded(N * F);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, F), ta = tiny_tensor_1d(step, TINY_F32, N),
                tb = tiny_tensor_1d(bits, TINY_F32, N), tq = tiny_tensor_2d(q, TINY_F32, N, F);
    int i, j, inside = 0, outside = 0, bad = 0;
    for (i = 0; i < N; i++) bits[i] = t_rand_float(0.6f, 8.4f);
    for (j = 0; j < F; j++) x[4 * F + j] = 0;
    T_OK(tgnn_a2q(ctx, &tx, &ta, &tb, NULL, NULL, &tq));
    for (i = 0; i < N; i++) {
        const int b = tgnn_a2q_round(bits[i]), limit = tgnn_a2q_limit(b);
        T_TRUE(b >= 1 && b <= 8 && limit == (1 << (b - 1)) - 1);
        for (j = 0; j < F; j++) {
            const float v = x[i * F + j], y = q[i * F + j];
            if (fabsf(v) <= step[i] * (float)limit) {
                inside++;
                bad += fabs((double)v - (double)y) > 0.5 * (double)step[i] * (1 + 1e-6);
            } else {
                outside++;
                bad += fabsf(y) != step[i] * (float)limit || (limit && (y < 0) != (v < 0));
            }
        }
    }
    T_EQ_INT(bad, 0);
    T_TRUE(inside > 200 && outside > 200);
    for (j = 0; j < F; j++) T_TRUE(q[4 * F + j] == 0);
    T_WALLS(q, N * F);
    t_close(ctx);
    T_PROOF("graphs 1", "error at most a / 2 inside the range");
    T_PROOF("graphs 1", "bad input: all-zero row");
}

/* on a tape: steps and bits get the local gradient for any loss, x that of the loss where it was in range;
 * columns and groups sum */
static void test_tape(void)
{
    enum { N = 6, F = 5, M = 2 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    float *x = t_rand(N * F, -1.0f, 1.0f), step[N], bits[N], gx[N * F], ga[N], gb[N];
    int32_t group[N] = { 0, 1, 1, 0, 1, 0 };
    int form, i, j, k;
    for (form = 0; form < 3; form++) {      /* rows, columns, groups */
        const int m = form == 0 ? N : form == 1 ? F : M;
        tiny_param param[3];
        tiny_tape *tape;
        tiny_tensor index = tiny_tensor_1d(group, TINY_I32, N), out[TINY_OP_MAX_OUT], loss;
        tgnn_a2q_params p;
        tiny_op op;
        double wa[N] = { 0 }, wb[N] = { 0 };
        memset(&p, 0, sizeof p);
        memset(&op, 0, sizeof op);
        memset(param, 0, sizeof param);
        memset(out, 0, sizeof out);
        p.by_column = form == 1;
        for (i = 0; i < m; i++) { step[i] = 0.1f + 0.02f * (float)i; bits[i] = (float)(2 + i % 3); }
        param[0].value = tiny_tensor_2d(x, TINY_F32, N, F);
        param[0].grad = tiny_tensor_2d(gx, TINY_F32, N, F);
        param[1].value = tiny_tensor_1d(step, TINY_F32, m);
        param[1].grad = tiny_tensor_1d(ga, TINY_F32, m);
        param[2].value = tiny_tensor_1d(bits, TINY_F32, m);
        param[2].grad = tiny_tensor_1d(gb, TINY_F32, m);
        T_OK(tiny_tape_open(ctx, NULL, &tape));
        for (i = 0; i < 3; i++) T_OK(tiny_tape_param(tape, &param[i]));
        op.row = tgnn_a2q_row();
        op.in[0] = &param[0].value;
        op.in[1] = &param[1].value;
        op.in[2] = &param[2].value;
        op.in[3] = form == 2 ? &index : NULL;
        op.params = &p;
        T_OK(tiny_tape_op(tape, &op, out));
        loss = tiny_tape_mul(tape, &out[0], &out[0]);
        loss = tiny_tape_mean(tape, &loss);
        tiny_tape_zero(tape);
        T_OK(tiny_tape_backward(tape, &loss, NULL));
        for (i = 0; i < N; i++)
            for (j = 0; j < F; j++) {
                const double v = (double)x[i * F + j];
                double a, limit, y, s;
                k = form == 0 ? i : form == 1 ? j : group[i];
                a = (double)step[k];
                limit = (double)((1 << ((int)bits[k] - 1)) - 1);
                y = (double)((float *)out[0].data)[i * F + j];
                s = (y > v ? 1.0 : y < v ? -1.0 : 0.0) / (form == 1 ? N : F);
                if (fabs(v) <= a * limit) {
                    wa[k] += s * (floor(fabs(v) / a + 0.5) * (v < 0 ? -1 : 1) - v / a);
                    T_CLOSE(gx[i * F + j], 2 * y / (N * F), 1e-7);
                } else {
                    wa[k] += s * limit * (v < 0 ? -1 : 1);
                    wb[k] += s * (v < 0 ? -1 : 1) * (limit + 1) * 0.6931471805599453 * a;
                    T_CLOSE(gx[i * F + j], 0, 0);
                }
            }
        for (k = 0; k < m; k++) {
            T_CLOSE(ga[k], wa[k], 1e-5);
            T_CLOSE(gb[k], wb[k], 1e-5);
        }
        tiny_tape_close(tape);
    }
    t_close(ctx);
}

/* steps against the local gradient lower the error of frozen features, each time */
static void test_descent(tiny_target target)
{
    enum { N = 32, F = 400, STEPS = 60 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_guarded(N * F), *q = t_guarded(N * F), *dx = t_guarded(N * F), step[N], bits[N], da[N], db[N];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, F), ta = tiny_tensor_1d(step, TINY_F32, N),
                tb = tiny_tensor_1d(bits, TINY_F32, N), tq = tiny_tensor_2d(q, TINY_F32, N, F), out[3];
    tiny_rng rng = tiny_rng_make(1, 2);
    double last = 1e30, first = 0, now;
    int i, k, rose = 0, grew = 0;
    tiny_rng_fill_normal(&rng, x, N * F);
    for (i = 0; i < N; i++) {
        step[i] = 0.02f;
        bits[i] = 3.0f;
    }
    out[0] = tiny_tensor_2d(dx, TINY_F32, N, F);
    out[1] = tiny_tensor_1d(da, TINY_F32, N);
    out[2] = tiny_tensor_1d(db, TINY_F32, N);
    for (k = 0; k < STEPS; k++) {
        T_OK(tgnn_a2q(ctx, &tx, &ta, &tb, NULL, NULL, &tq));
        now = error_of(x, q, N * F);
        if (!k) first = now;
        rose += now > last;
        last = now;
        back(ctx, &tx, &ta, &tb, NULL, &tq, NULL, out);
        for (i = 0; i < N; i++) {
            step[i] -= 2e-3f * da[i];
            bits[i] -= 0.1f * db[i];
        }
    }
    for (i = 0; i < N; i++) grew += bits[i] > 3.0f;
    T_EQ_INT(rose, 0);
    T_TRUE(last < 0.3 * first);
    T_EQ_INT(grew, N);
    t_close(ctx);
    T_PROOF("graphs 1", "training lowers E monotonically on a frozen X");
}

static void test_conformance(tiny_target target)
{
    t_conform(target, tgnn_a2q_row(), T_SLOW ? 10 : 60);
    t_conform(target, tgnn_a2q_back_row(), T_SLOW ? 10 : 60);
}

/* ---- groups */

/* all of them looked at: the nearest, of equal ones the lowest */
static int32_t by_looking(const float *step, const float *bits, int n, int published, float f)
{
    double best = 0;
    int32_t at = -1;
    int k;
    for (k = 0; k < n; k++) {
        const int b = tgnn_a2q_round(bits[k]);
        const float limit = step[k] * (float)(published ? 1 << (b - 1) : (1 << (b - 1)) - 1);
        const double d = fabs((double)f - (double)limit);
        if (at < 0 || d < best) {
            best = d;
            at = k;
        }
    }
    return at;
}

static void test_nearest(tiny_target target)
{
    static const float step4[4] = { 0.05f, 0.1f, 0.2f, 0.4f }, bits4[4] = { 2, 3, 4, 4 },
                       limit4[4] = { 0.05f, 0.3f, 1.4f, 2.8f };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *step = t_rand(300, 0.01f, 0.5f), *bits = t_guarded(300), x[6] = { 0.1f, -1.5f, 0.2f, 0, 0, 0 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 3);
    int32_t group[2];
    tgnn_nearest g;
    int i, k, ties = 0, bad = 0, published;
    T_OK(tgnn_nearest_make(ctx, step4, bits4, 4, 0, &g));
    T_EQ_INT(g.m, 4);
    for (i = 0; i < 4; i++) {
        T_CLOSE(g.limit[i], limit4[i], 1e-7);
        T_EQ_INT(g.group[i], i);
    }
    T_EQ_INT(tgnn_nearest_find(&g, 0), 0);
    T_EQ_INT(tgnn_nearest_find(&g, 100), 3);
    T_OK(tgnn_nearest_assign(ctx, &g, &tx, group));
    T_EQ_INT(group[0], 2);                  /* 1.5 */
    T_EQ_INT(group[1], 0);                  /* a row of zeros */
    tgnn_nearest_free(ctx, &g);
    for (published = 0; published < 2; published++) {
        for (i = 0; i < 300; i++) {
            bits[i] = (float)(1 + t_rand_below(8));
            /* equal limits, and numbers just between two */
            if (i % 3 == 0) step[i] = 0.125f * (float)(1 + t_rand_below(4));
        }
        T_OK(tgnn_nearest_make(ctx, step, bits, 300, published, &g));
        T_TRUE(g.m < 300);
        for (k = 0; k < 100000; k++) {
            const int at = (int)t_rand_below((uint32_t)g.m - 1);
            float f = t_rand_float(0, 40);
            if (k % 4 == 1) f = g.limit[at];
            if (k % 4 == 2) f = (float)((double)g.limit[at] / 2 + (double)g.limit[at + 1] / 2);
            ties += (double)f - (double)g.limit[at] == (double)g.limit[at + 1] - (double)f;
            bad += tgnn_nearest_find(&g, f) != by_looking(step, bits, 300, published, f);
        }
        tgnn_nearest_free(ctx, &g);
    }
    T_EQ_INT(bad, 0);
    T_TRUE(ties > 1000);
    t_close(ctx);
    T_PROOF("graphs 1", "worked groups: qmax");
    T_PROOF("graphs 1", "binary search equals linear search, 10^5 values with ties");
}

/* ---- refused arguments */

static void test_bad(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    float x[6] = { 1, 2, 3, NAN, 5, 6 }, step[3] = { 0.5f, 0, 0.5f }, bits[3] = { 3, 3, 3 }, y[6];
    int32_t group[2] = { 0, 3 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 3), ty = tiny_tensor_2d(y, TINY_F32, 2, 3),
                ts = tiny_tensor_1d(step, TINY_F32, 3), two = tiny_tensor_1d(step, TINY_F32, 2),
                tb = tiny_tensor_1d(bits, TINY_F32, 3), ti = tiny_tensor_1d(group, TINY_I32, 2),
                none = tiny_tensor_2d(x, TINY_F32, 2, 0);
    tgnn_a2q_params p;
    tgnn_nearest g;
    memset(&p, 0, sizeof p);
    T_STATUS(tgnn_a2q(ctx, &tx, &ts, &tb, NULL, &p, &ty), TINY_E_SHAPE, "one for each row");
    p.by_column = 1;
    T_STATUS(tgnn_a2q(ctx, &tx, &two, NULL, NULL, &p, &ty), TINY_E_SHAPE, "one for each column");
    T_STATUS(tgnn_a2q(ctx, &tx, &ts, &tb, &ti, &p, &ty), TINY_E_SHAPE, "and by_column must be 0");
    T_STATUS(tgnn_a2q(ctx, &tx, &ts, NULL, NULL, &p, &ty), TINY_E_ARGUMENT, "0 bits; there must be 1 to 8");
    p.bits = 9;
    T_STATUS(tgnn_a2q(ctx, &tx, &ts, NULL, NULL, &p, &ty), TINY_E_ARGUMENT, "9 bits");
    p.bits = 3;
    T_OK(tgnn_a2q(ctx, &tx, &ts, NULL, NULL, &p, &ty));        /* a step of 0 is one of 1e-8, a NaN stays one */
    T_TRUE(y[3] != y[3] && y[1] == 3e-8f && y[0] == 1.0f);
    p.by_column = 0;
    T_STATUS(tgnn_a2q(ctx, &tx, &ts, &tb, &ti, &p, &ty), TINY_E_ARGUMENT, "names a group that does not exist");
    two.dtype = TINY_I32;
    T_STATUS(tgnn_a2q(ctx, &tx, &two, NULL, NULL, &p, &ty), TINY_E_SHAPE, "must be dense f32");
    two.dtype = TINY_F32;
    T_OK(tgnn_a2q(ctx, &none, &two, NULL, NULL, &p, &none));   /* rows without features: nothing to do */
    T_STATUS(tgnn_nearest_make(ctx, step, bits, 0, 0, &g), TINY_E_ARGUMENT, "there are 0; there must be 1 to");
    T_STATUS(tgnn_nearest_make(ctx, step, bits, 3, 0, &g), TINY_E_NUMERIC, "step 1 is 0");
    step[1] = NAN;
    T_STATUS(tgnn_nearest_make(ctx, step, bits, 3, 0, &g), TINY_E_NUMERIC, "step 1 is");
    step[1] = 1;
    bits[2] = 0;
    T_STATUS(tgnn_nearest_make(ctx, step, bits, 3, 0, &g), TINY_E_NUMERIC, "0 bits at 2; there must be 1 to 8");
    bits[2] = 8.6f;
    T_STATUS(tgnn_nearest_make(ctx, step, bits, 3, 0, &g), TINY_E_NUMERIC, "8.6 bits at 2");
    bits[2] = NAN;
    T_STATUS(tgnn_a2q_check(ctx, "here", step, bits, 3), TINY_E_NUMERIC, "here: ");
    t_close(ctx);
    T_PROOF("graphs 1", "bad input: a = 0, NaN, b = 0 or > 8, empty group list, F = 0");
}

int main(void)
{
    T_RUN_FORMS(test_worked);
    T_RUN_FORMS(test_bound);
    T_RUN(test_tape);
    T_RUN_FORMS(test_descent);
    T_RUN_FORMS(test_conformance);
    T_RUN_FORMS(test_nearest);
    T_RUN_FORMS(test_bad);
    return t_done();
}
#endif
