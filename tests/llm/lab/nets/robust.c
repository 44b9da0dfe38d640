/* tests/llm/lab/nets/robust.c - geometry of features, comparisons, corruptions, masks of untrained networks */
#include "t.h"

#ifdef TINYLLM_NO_NETS
int main(void) { return t_done(); }
#else

static tllm_nn *mlp_open(tiny_ctx *ctx, tiny_idx hidden, uint64_t seed, tiny_dtype dtype)
{
    tllm_nn_layer l[3];
    tllm_nn_desc d;
    tllm_nn *nn = NULL;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    l[0].n_out = l[1].n_out = hidden;
    l[0].relu = l[1].relu = 1;
    l[2].n_out = 10;
    d.in[0] = 32; d.layer = l; d.n_layer = 3; d.seed = seed; d.dtype = dtype;
    T_OK(tllm_nn_open(ctx, &d, &nn));
    return nn;
}

static tllm_geometry of(tiny_ctx *ctx, const double *f, tiny_idx n, tiny_idx d, const int32_t *label, const double *w,
                        tiny_idx n_class, const double *bias)
{
    const tiny_tensor ft = tiny_tensor_2d((void *)(uintptr_t)f, TINY_F64, n, d),
                      wt = tiny_tensor_2d((void *)(uintptr_t)w, TINY_F64, n_class, d),
                      lt = tiny_tensor_1d((void *)(uintptr_t)label, TINY_I32, n),
                      bt = tiny_tensor_1d((void *)(uintptr_t)bias, TINY_F64, n_class);
    tllm_geometry g;
    T_OK(tllm_geometry_of(ctx, &ft, &lt, &wt, bias ? &bt : NULL, &g));
    return g;
}

/* The example of the specification: w = (3,0), (0,1), (-2,0), f = (1,1). */
static void test_example(void)
{
    static const double w[6] = { 3, 0, 0, 1, -2, 0 }, f[2] = { 1, 1 };
    static const double logit[3] = { 3, 1, -2 }, angle[3] = { 45, 45, 135 };
    static const double part[3] = { .8756, .1185, .0059 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double got[3];
    int32_t y;
    int c;
    for (y = 0; y < 3; y++) {
        tllm_geometry g = of(ctx, f, 1, 2, &y, w, 3, NULL);
        const double *v = g.sample[0].value;
        T_CLOSE(v[TLLM_GEOMETRY_LENGTH], 1.41421, 5e-6);
        T_CLOSE(v[TLLM_GEOMETRY_ANGLE], angle[y], 1e-9);
        T_CLOSE(v[TLLM_GEOMETRY_CONFIDENCE], part[y], 5e-5);
        T_EQ_INT(g.sample[0].answer, 0);
        T_EQ_INT(g.n_right, y == 0);
        T_OK(tllm_geometry_mix(ctx, &g, &g, &g, got));
        for (c = 0; c < 3; c++) T_CLOSE(got[c], logit[c], 1e-12);
        if (!y) {
            T_CLOSE(v[TLLM_GEOMETRY_MARGIN], .63246, 5e-6);             /* to class 1; to class 2 it is 1 */
            T_CLOSE(v[TLLM_GEOMETRY_ANGLE_WRONG], 45, 1e-9);
            T_EQ_INT(g.sample[0].rival, 1);
        }
        T_CLOSE(g.between[1], 90, 1e-9);
        T_CLOSE(g.between[2], 180, 1e-9);
        tllm_geometry_close(ctx, &g);
    }
    t_close(ctx);
    T_PROOF("compression 9", "the worked example: logits, softmax, angles, length, margin");
}

enum { N = 200, D = 7, C = 5 };
static void draw(double *f, double *w, double *bias, int32_t *label)
{
    tiny_rng rng = tiny_rng_make(4, 4);
    int i;
    for (i = 0; i < N * D; i++) f[i] = (double)tiny_rng_normal(&rng);
    for (i = 0; i < C * D; i++) w[i] = (double)tiny_rng_normal(&rng);
    for (i = 0; i < C; i++) bias[i] = 0.3 * (double)tiny_rng_normal(&rng);
    for (i = 0; i < N; i++) label[i] = (int32_t)tiny_rng_below(&rng, C);
}

static void test_invariants(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static double f[N * D], w[C * D], bias[C], f2[N * D], w2[C * D], h[D], x[N];
    int32_t label[N];
    tllm_geometry g, s;
    int i, k, c, right = 0;
    double hh = 0.0, q[3], sum;
    static const double at[3] = { 0.0, 0.5, 1.0 };
    draw(f, w, bias, label);
    g = of(ctx, f, N, D, label, w, C, NULL);
    for (i = 0; i < N * D; i++) f2[i] = 3.5 * f[i];             /* scaled */
    s = of(ctx, f2, N, D, label, w, C, NULL);
    for (i = 0; i < N; i++) {
        T_CLOSE(s.sample[i].value[0], 3.5 * g.sample[i].value[0], 1e-9);
        T_CLOSE(s.sample[i].value[3], 3.5 * g.sample[i].value[3], 1e-9);
        T_CLOSE(s.sample[i].value[1], g.sample[i].value[1], 1e-9);
        T_CLOSE(s.sample[i].value[2], g.sample[i].value[2], 1e-9);
    }
    tllm_geometry_close(ctx, &s);
    tllm_geometry_close(ctx, &g);
    g = of(ctx, f, N, D, label, w, C, bias);
    for (k = 0; k < D; k++) {
        h[k] = k + 0.5;
        hh += h[k] * h[k];
    }
    for (i = 0; i < N + C; i++) {                               /* I - 2 h h' / h'h, a rotation with a reflection */
        const double *from = i < N ? f + i * D : w + (i - N) * D;
        double *to = i < N ? f2 + i * D : w2 + (i - N) * D, dot = 0.0;
        for (k = 0; k < D; k++) dot += from[k] * h[k];
        for (k = 0; k < D; k++) to[k] = from[k] - 2.0 * dot / hh * h[k];
    }
    s = of(ctx, f2, N, D, label, w2, C, bias);
    for (i = 0; i < N; i++)
        for (k = 0; k < TLLM_GEOMETRY_VALUES; k++) T_CLOSE(s.sample[i].value[k], g.sample[i].value[k], 1e-9);
    for (i = 0; i < C * C; i++) T_CLOSE(s.between[i], g.between[i], 1e-9);
    tllm_geometry_close(ctx, &s);
    for (i = 0; i < N; i++) {                                   /* margins: right or wrong, and a real distance */
        const tllm_geometry_sample *p = &g.sample[i];
        T_TRUE((p->value[TLLM_GEOMETRY_MARGIN] > 0.0) == (p->answer == p->label));
        right += p->answer == p->label;
    }
    T_EQ_INT(right, g.n_right);
    for (i = 0; i < N; i++) {
        const tllm_geometry_sample *p = &g.sample[i];
        double best = 1e300, angle;
        for (c = 0; c < C; c++) {
            double dl = bias[label[i]] - bias[c], dw = 0.0;
            if (c == label[i]) continue;
            for (k = 0; k < D; k++) {
                const double t = w[label[i] * D + k] - w[c * D + k];
                dl += t * f[i * D + k];
                dw += t * t;
            }
            best = fmin(best, dl / sqrt(dw));
        }
        T_CLOSE(p->value[TLLM_GEOMETRY_MARGIN], best, 1e-9);
        for (sum = 0.0, k = 0; k < D; k++) sum += f[i * D + k] * w[label[i] * D + k];
        angle = acos(sum / (p->value[0] * g.w_length[label[i]])) * 180.0 / 3.14159265358979323846;
        T_CLOSE(p->value[TLLM_GEOMETRY_ANGLE], angle, 1e-9);
        x[i] = p->value[TLLM_GEOMETRY_ANGLE];
    }
    T_OK(tllm_geometry_quantiles(ctx, &g, TLLM_GEOMETRY_ANGLE, -1, 3, at, q));
    for (i = k = c = 0; i < N; i++) {
        k += x[i] < q[1];
        c += x[i] < q[0] || x[i] > q[2];
    }
    T_EQ_INT(k, N / 2);
    T_EQ_INT(c, 0);
    T_STATUS(tllm_geometry_quantiles(ctx, &g, 5, -1, 3, at, q), TINY_E_ARGUMENT, "value 5");
    T_STATUS(tllm_geometry_quantiles(ctx, &g, 0, C, 3, at, q), TINY_E_ARGUMENT, "class 5");
    tllm_geometry_close(ctx, &g);
    t_close(ctx);
    T_PROOF("compression 9", "scaling f scales length and margin, not angles");
    T_PROOF("compression 9", "rotating f and all w changes nothing");
    T_PROOF("compression 9", "the margin is above 0 where the sample is right, and only there");
}

static void test_compare(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static double f[N * D], w[C * D], bias[C], f2[N * D], logit[N * C], matrix[9];
    int32_t label[N];
    tllm_geometry a, b, c;
    const tllm_geometry *kinds[3];
    tllm_geometry_report r;
    size_t i, k, lost = 0;
    double pairs = 0.0, of_pairs = 0.0;
    char text[64];
    FILE *file;
    draw(f, w, bias, label);
    a = of(ctx, f, N, D, label, w, C, bias);
    for (i = 0; i < N; i++) label[i] = a.sample[i].answer;      /* most are right */
    for (i = 0; i < N; i += 9) label[i] = (label[i] + 1) % C;
    tllm_geometry_close(ctx, &a);
    a = of(ctx, f, N, D, label, w, C, bias);
    for (i = 0; i < N * D; i++) f2[i] = 0.6 * f[i] + 0.4 * f[(i * 31 + 5) % (N * D)];
    b = of(ctx, f2, N, D, label, w, C, bias);
    T_OK(tllm_geometry_compare(ctx, &a, &a, &r));               /* with itself */
    T_EQ_INT(r.moved[0][1] + r.moved[1][0], 0);
    T_CLOSE(r.margin_rank, 1.0, 1e-12);
    for (k = 0; k < TLLM_GEOMETRY_VALUES; k++) T_TRUE(r.mean[k] == 0.0);
    T_TRUE(r.auc != r.auc && r.by_angle != r.by_angle);
    tllm_geometry_report_close(ctx, &r);
    T_OK(tllm_geometry_mix(ctx, &a, &a, &a, logit));
    for (i = 0; i < N; i++)
        for (k = 0; k < C; k++) {
            double sum = bias[k];
            int d;
            for (d = 0; d < D; d++) sum += f[i * D + (size_t)d] * w[k * D + (size_t)d];
            T_CLOSE(logit[i * C + k], sum, 1e-12);
        }
    T_PROOF("compression 9", "swaps of angle and length between identical models are the identity");
    T_OK(tllm_geometry_compare(ctx, &a, &b, &r));
    T_EQ_INT(r.moved[0][0] + r.moved[0][1] + r.moved[1][0] + r.moved[1][1], N);
    for (k = 0; k < 2; k++) T_CLOSE(r.share[k][0] + r.share[k][1], 1.0, 1e-12);
    T_PROOF("compression 9", "rows of the transition table sum to 1");
    T_TRUE(r.n_fragile > 10 && r.n_robust > 10);
    T_EQ_INT(r.n_fragile, r.moved[1][0]);
    T_EQ_INT(r.n_robust, r.moved[1][1]);
    T_CLOSE(r.by_angle + r.by_length + r.by_either + r.by_both, 1.0, 1e-12);
    T_TRUE(r.by_angle > 0.5);                                   /* f2 points elsewhere */
    for (i = 0; i < r.n_fragile; i++) {
        const uint32_t p = r.fragile[i];
        T_TRUE(a.sample[p].answer == label[p] && b.sample[p].answer != label[p]);
        for (k = 0; k < r.n_robust; k++) {                      /* the area by its definition */
            const double x = a.sample[p].value[3], y = a.sample[r.robust[k]].value[3];
            pairs += x < y ? 1.0 : x == y ? 0.5 : 0.0;
            of_pairs += 1.0;
        }
    }
    T_CLOSE(r.auc, pairs / of_pairs, 1e-12);
    for (i = 1; i < N; i++)
        lost += b.sample[r.order[i]].value[3] - a.sample[r.order[i]].value[3] <
                b.sample[r.order[i - 1]].value[3] - a.sample[r.order[i - 1]].value[3];
    T_EQ_INT(lost, 0);
    T_OK(tllm_geometry_json(ctx, &r, "build/t-robust.json"));
    file = fopen("build/t-robust.json", "r");
    T_TRUE(file && fgets(text, sizeof text, file) && fgets(text, sizeof text, file));
    T_EQ_TEXT(text, "  \"samples\": 200,\n");
    if (file) (void)fclose(file);
    T_OK(tllm_geometry_csv(ctx, &a, "build/t-robust.csv"));
    file = fopen("build/t-robust.csv", "r");
    for (i = 0; file && fgets(text, sizeof text, file);) i += strchr(text, '\n') != NULL;
    T_EQ_INT(i, N + 1);
    if (file) (void)fclose(file);
    (void)remove("build/t-robust.json");
    (void)remove("build/t-robust.csv");
    tllm_geometry_report_close(ctx, &r);
    /* the lengths alone: half of f, with a bias that then decides */
    for (i = 0; i < N * D; i++) f2[i] = 0.2 * f[i];
    c = of(ctx, f2, N, D, label, w, C, bias);
    T_OK(tllm_geometry_compare(ctx, &a, &c, &r));
    T_TRUE(r.n_fragile > 0);
    T_CLOSE(r.by_length, 1.0, 1e-12);
    tllm_geometry_report_close(ctx, &r);
    kinds[0] = &b; kinds[1] = &b; kinds[2] = &a;                /* the same corruption twice, and none */
    T_OK(tllm_geometry_alike(ctx, &a, kinds, 3, matrix));
    T_CLOSE(matrix[1], 1.0, 1e-12);
    T_TRUE(matrix[2] == 0.0 && matrix[8] == 0.0);
    c.sample[3].label = (c.sample[3].label + 1) % C;
    T_STATUS(tllm_geometry_compare(ctx, &a, &c, &r), TINY_E_ARGUMENT, "sample 3 has the label");
    tllm_geometry_close(ctx, &a);
    tllm_geometry_close(ctx, &b);
    tllm_geometry_close(ctx, &c);
    t_close(ctx);
}

static void test_bad(void)
{
    static const double w[6] = { 3, 0, 0, 1, 3, 0 }, f[4] = { 0, 0, 1, 1 };
    static const int32_t label[2] = { 0, 1 }, off[2] = { 0, 3 };
    double g[4] = { 1, 2, 3, 4 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_tensor ft = tiny_tensor_2d(g, TINY_F64, 2, 2), wt = tiny_tensor_2d((void *)(uintptr_t)w, TINY_F64, 3, 2),
                lt = tiny_tensor_1d((void *)(uintptr_t)label, TINY_I32, 2);
    tllm_geometry q = of(ctx, f, 2, 2, label, w, 2, NULL);      /* a feature of zeros: 90 degrees, no margin */
    T_CLOSE(q.sample[0].value[TLLM_GEOMETRY_ANGLE], 90.0, 0.0);
    T_CLOSE(q.sample[0].value[TLLM_GEOMETRY_ANGLE_WRONG], 90.0, 0.0);
    T_TRUE(q.sample[0].value[TLLM_GEOMETRY_MARGIN] == 0.0);
    tllm_geometry_close(ctx, &q);
    T_PROOF("compression 9", "bad input: a zero feature has an angle of 90");
    T_STATUS(tllm_geometry_of(ctx, &ft, &lt, &wt, NULL, &q), TINY_E_NUMERIC, "classes 0 and 2 have the same direction");
    T_PROOF("compression 9", "bad input: duplicate class vectors");
    lt.data = (void *)(uintptr_t)off;
    T_STATUS(tllm_geometry_of(ctx, &ft, &lt, &wt, NULL, &q), TINY_E_ARGUMENT, "sample 1 has the label 3");
    T_PROOF("compression 9", "bad input: label out of range");
    lt.data = (void *)(uintptr_t)label;
    wt.dim[0] = 2;
    g[3] = NAN;
    T_STATUS(tllm_geometry_of(ctx, &ft, &lt, &wt, NULL, &q), TINY_E_NUMERIC, "feature 1 of sample 1");
    T_STATUS(tllm_geometry_of(ctx, NULL, &lt, &wt, NULL, &q), TINY_E_SHAPE, "features (n, d)");
    wt.dim[0] = 1;
    T_STATUS(tllm_geometry_of(ctx, &ft, &lt, &wt, NULL, &q), TINY_E_SHAPE, "2 to 65536 classes");
    t_close(ctx);
}

/* ---- corruptions */

static void test_corrupt(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float *x = t_rand(4 * 2 * 6 * 6, -1.0f, 1.0f), *y = t_guarded(288), *z = t_guarded(288);
    int image, kind, s, i;
    for (image = 0; image < 2; image++) {
        const tiny_tensor xt = image ? tiny_tensor_4d(x, TINY_F32, 4, 2, 6, 6) : tiny_tensor_2d(x, TINY_F32, 4, 72),
                          yt = image ? tiny_tensor_4d(y, TINY_F32, 4, 2, 6, 6) : tiny_tensor_2d(y, TINY_F32, 4, 72),
                          zt = image ? tiny_tensor_4d(z, TINY_F32, 4, 2, 6, 6) : tiny_tensor_2d(z, TINY_F32, 4, 72);
        for (kind = 0; kind < TLLM_CORRUPTIONS; kind++) {
            double before = 0.0;
            T_TRUE(tllm_corruption_name(kind) != NULL);
            T_OK(tllm_corrupt(ctx, &xt, kind, 0, 1, &yt));
            T_SAME(x, y, 288);
            for (s = 1; s <= TLLM_SEVERITIES; s++) {
                double far = 0.0;
                T_OK(tllm_corrupt(ctx, &xt, kind, s, 1, &yt));
                T_OK(tllm_corrupt(ctx, &xt, kind, s, 1, &zt));
                T_WALLS(y, 288);
                T_SAME(y, z, 288);
                for (i = 0; i < 288; i++) far += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
                if (kind != TLLM_CORRUPT_SHIFT) T_TRUE(far > before);   /* a larger severity changes more */
                else T_TRUE(far > 0.0);
                before = far;
            }
        }
    }
    {   /* by hand: of 1, 3, 1, 3 the mean is 2 and the deviation 1 */
        float four[4] = { 1, 3, 1, 3 }, got[4];
        static const float bright[4] = { 2, 4, 2, 4 };
        const tiny_tensor a = tiny_tensor_2d(four, TINY_F32, 2, 2), b = tiny_tensor_2d(got, TINY_F32, 2, 2);
        int up = 0, down = 0, gone = 0, seed;
        T_OK(tllm_corrupt(ctx, &a, TLLM_CORRUPT_CONTRAST, 1, 1, &b));
        for (i = 0; i < 4; i++) T_CLOSE(got[i], i % 2 ? 2.75 : 1.25, 1e-6);
        T_OK(tllm_corrupt(ctx, &a, TLLM_CORRUPT_BRIGHTNESS, 5, 1, &b));
        T_SAME(got, bright, 4);
        for (seed = 0; seed < 1000; seed++) {           /* of 4000 numbers a quarter becomes 5 or -1, 45 % 0 */
            T_OK(tllm_corrupt(ctx, &a, TLLM_CORRUPT_IMPULSE, 5, (uint64_t)seed, &b));
            for (i = 0; i < 4; i++) {
                T_TRUE(got[i] == four[i] || got[i] == 5.0f || got[i] == -1.0f);
                up += got[i] == 5.0f;
                down += got[i] == -1.0f;
            }
            T_OK(tllm_corrupt(ctx, &a, TLLM_CORRUPT_DROP, 5, (uint64_t)seed, &b));
            for (i = 0; i < 4; i++) gone += got[i] == 0.0f;
        }
        T_CLOSE(up, 500, 100.0);
        T_CLOSE(down, 500, 100.0);
        T_CLOSE(gone, 1800, 150.0);
    }
    {   /* by hand: a bright pixel blurred once; moved by half a pixel down and right */
        float one[9] = { 0, 0, 0, 0, 16, 0, 0, 0, 0 }, got[9];
        static const float blurred[9] = { 1, 2, 1, 2, 4, 2, 1, 2, 1 }, moved[9] = { 0, 0, 0, 0, 4, 4, 0, 4, 4 };
        const tiny_tensor a = tiny_tensor_4d(one, TINY_F32, 1, 1, 3, 3), b = tiny_tensor_4d(got, TINY_F32, 1, 1, 3, 3);
        T_OK(tllm_corrupt(ctx, &a, TLLM_CORRUPT_BLUR, 1, 1, &b));
        T_SAME(got, blurred, 9);
        T_OK(tllm_corrupt(ctx, &a, TLLM_CORRUPT_SHIFT, 1, 1, &b));
        T_SAME(got, moved, 9);
        T_STATUS(tllm_corrupt(ctx, &a, 7, 1, 1, &b), TINY_E_ARGUMENT, "kind 7 of 0 to 6");
        T_STATUS(tllm_corrupt(ctx, &a, 0, 6, 1, &b), TINY_E_ARGUMENT, "severity 6 of 0 to 5");
        T_STATUS(tllm_corrupt(ctx, &a, 0, 1, 1, &a), TINY_E_SHAPE, "not the same memory");
    }
    t_close(ctx);
}

/* ---- networks */

static void test_network(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_nn_task task;
    int type;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 60, 300, &task));
    for (type = 0; type < 2; type++) {
        tllm_nn *nn = mlp_open(ctx, 16, 3, type ? TINY_F64 : TINY_F32);
        tllm_geometry g;
        tllm_mask mask;
        tiny_idx right = 0;
        size_t i;
        T_OK(tllm_mask_open(ctx, tllm_nn_cost_of(nn).n_weight, &mask));
        for (i = 0; i < mask.n; i++) tllm_mask_put(&mask, i, i % 3 != 0);
        T_OK(tllm_nn_mask(nn, &mask));
        T_OK(tllm_nn_right(nn, &task.test, &right));
        T_OK(tllm_nn_geometry(nn, &task.test, &g));             /* the mask counts, and two pieces of 250 and 50 */
        T_EQ_INT(g.n, 300);
        T_EQ_INT(g.n_right, right);
        tllm_geometry_close(ctx, &g);
        tllm_mask_close(ctx, &mask);
        tllm_nn_close(nn);
    }
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
}

/* A popup by hand for a net of one layer, where the gradient is a product: the scores move against it. */
static void test_popup(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_nn_task task;
    tllm_popup_desc d;
    tllm_nn_fit_state last;
    tllm_nn *nn = mlp_open(ctx, 32, 3, TINY_F32), *first = mlp_open(ctx, 32, 3, TINY_F32);
    const tllm_nn_weight *w = tllm_nn_weights(nn, NULL);
    tiny_idx before = 0, after = 0;
    size_t l;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 600, 300, &task));
    memset(&d, 0, sizeof d);
    d.keep = 0.5;
    d.fit.batch = 30;
    d.fit.epochs = 8;
    d.fit.lr = 0.02;
    T_OK(tllm_nn_right(first, &task.test, &before));
    T_OK(tllm_nn_popup(nn, &task.train, &d, &last));
    T_OK(tllm_nn_right(nn, &task.test, &after));
    T_TRUE(after > before + 60);                                /* more than 20 points without a trained weight */
    T_EQ_INT(last.step, 160);
    T_SAME((float *)w[0].value.data, (float *)tllm_nn_weights(first, NULL)[0].value.data,
           tllm_nn_cost_of(nn).n_weight);
    for (l = 0; l < 3; l++) {
        const size_t n = (size_t)tiny_tensor_count(&w[l].value);
        T_EQ_INT(tllm_mask_count(tllm_nn_masked(nn), w[l].first, n), n / 2);
    }
    T_STATUS(tllm_nn_popup(nn, &task.train, &d, NULL), TINY_E_ARGUMENT, "without a mask");
    d.keep = 0.0;
    T_STATUS(tllm_nn_popup(first, &task.train, &d, NULL), TINY_E_ARGUMENT, "a share to keep");
    tllm_nn_close(nn);
    tllm_nn_close(first);
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
    T_PROOF("compression 9", "an edge-popup mask learns while the weights keep their bits");
}

/* One round with the rate rewound, by hand: train, prune, train on from step 7 of the schedule. */
static void test_rate(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_nn_task task;
    tllm_nn_lottery_desc d;
    tllm_nn *nn = mlp_open(ctx, 16, 3, TINY_F32), *by_hand = mlp_open(ctx, 16, 3, TINY_F32);
    const size_t n = tllm_nn_cost_of(nn).n_weight;
    double *score = (double *)t_keep(n * sizeof *score);
    const float *theta = (const float *)tllm_nn_weights(by_hand, NULL)[0].value.data;
    tllm_mask mask;
    size_t i;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 300, 100, &task));
    memset(&d, 0, sizeof d);
    d.fit.batch = 30;
    d.fit.epochs = 3;
    d.keep = d.share = 0.5;
    d.rewind = 7;
    d.rate_only = 1;
    T_OK(tllm_nn_lottery(nn, &task.train, &d, NULL));
    T_OK(tllm_nn_fit(by_hand, &task.train, &d.fit, NULL));
    T_OK(tllm_mask_open(ctx, n, &mask));
    for (i = 0; i < n; i++) score[i] = fabs((double)theta[i]);
    T_OK(tllm_mask_top(ctx, &mask, 0, n, score, tllm_mask_part(0.5, n)));
    T_OK(tllm_nn_mask(by_hand, &mask));
    d.fit.first = 7;
    T_OK(tllm_nn_fit(by_hand, &task.train, &d.fit, NULL));
    T_SAME((const float *)tllm_nn_weights(nn, NULL)[0].value.data, theta, n);
    tllm_mask_close(ctx, &mask);
    tllm_nn_close(nn);
    tllm_nn_close(by_hand);
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
    T_PROOF("compression 9", "rate rewinding keeps the trained weights");
}

static void test_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&cd, &ctx)) {
            tllm_nn_task task;
            tllm_nn_layer l[1];
            tllm_nn_desc d;
            tllm_popup_desc pd;
            tllm_geometry a, b;
            tllm_geometry_report r;
            const tllm_geometry *kinds[1];
            double matrix[1];
            tllm_nn *nn = NULL;
            float noisy[20 * 32];
            tllm_nn_set set;
            memset(l, 0, sizeof l);
            memset(&d, 0, sizeof d);
            memset(&pd, 0, sizeof pd);
            memset(&a, 0, sizeof a);
            memset(&b, 0, sizeof b);
            memset(&r, 0, sizeof r);
            l[0].n_out = 10;
            d.in[0] = 32; d.layer = l; d.n_layer = 1;
            pd.keep = 0.5; pd.fit.batch = 10; pd.fit.epochs = 1;
            kinds[0] = &b;
            if (!tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 20, 10, &task) && !tllm_nn_open(ctx, &d, &nn) &&
                !tllm_nn_popup(nn, &task.train, &pd, NULL)) {
                set = task.train;
                set.x.data = noisy;
                if (!tllm_corrupt(ctx, &task.train.x, TLLM_CORRUPT_BLUR, 2, 1, &set.x) &&
                    !tllm_nn_geometry(nn, &task.train, &a) && !tllm_nn_geometry(nn, &set, &b) &&
                    !tllm_geometry_compare(ctx, &a, &b, &r) && !tllm_geometry_alike(ctx, &a, kinds, 1, matrix) &&
                    !tllm_geometry_csv(ctx, &a, "build/t-robust-memory.csv"))
                    (void)tllm_geometry_json(ctx, &r, "build/t-robust-memory.json");
            }
            tllm_geometry_report_close(ctx, &r);
            tllm_geometry_close(ctx, &a);
            tllm_geometry_close(ctx, &b);
            tllm_nn_close(nn);
            tllm_nn_task_close(ctx, &task);
            tiny_ctx_close(ctx);
        }
    })
    (void)remove("build/t-robust-memory.csv");
    (void)remove("build/t-robust-memory.json");
}

int main(void)
{
    T_RUN(test_example);
    T_RUN(test_invariants);
    T_RUN(test_compare);
    T_RUN(test_bad);
    T_RUN(test_corrupt);
    T_RUN(test_network);
    T_RUN(test_popup);
    T_RUN(test_rate);
    T_RUN(test_memory);
    return t_done();
}
#endif
