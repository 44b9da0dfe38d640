/* tests/llm/lab/nets/kit.h - the two tiny networks of tests/golden/nets.h */
#include "golden/nets.h"

typedef struct golden_net { tllm_nn *nn; tllm_nn_set set; size_t n; } golden_net;

T_FN double fraction(size_t i, size_t a, size_t b, size_t m, double low, double scale)
{
    return ((double)((i * a + b) % m) - low) / scale;
}

T_FN void put_number(const tiny_tensor *t, size_t i, double x)
{
    if (t->dtype == TINY_F64) ((double *)t->data)[i] = x;
    else ((float *)t->data)[i] = (float)x;
}
T_FN double number(const tiny_tensor *t, size_t i)
{
    return t->dtype == TINY_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

/* mlp: 5-7-6-3; else 1 x 6 x 6, a convolution of 3 channels, a pool, 27-4 */
T_FN golden_net golden_open(tiny_ctx *ctx, int mlp, tiny_dtype dtype)
{
    tllm_nn_layer l[3];
    tllm_nn_desc d;
    golden_net g;
    const tiny_param *p;
    size_t n_param, i, k, w = 0, b = 0, n = mlp ? 7 : 8, each = mlp ? 5 : 36;
    float *x = (float *)t_keep(n * each * sizeof *x);
    int32_t *label = (int32_t *)t_keep(n * sizeof *label);
    memset(&g, 0, sizeof g);
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    d.layer = l;
    d.n_layer = 3;
    d.dtype = dtype;
    d.in[0] = mlp ? 5 : 1;
    if (mlp) {
        l[0].n_out = 7; l[1].n_out = 6; l[2].n_out = 3;
        l[0].relu = l[1].relu = 1;
    } else {
        d.in[1] = d.in[2] = 6;
        l[0].kind = TLLM_NN_CONV; l[0].n_out = 3; l[0].relu = 1;
        l[1].kind = TLLM_NN_MAX_POOL;
        l[2].n_out = 4;
    }
    T_OK(tllm_nn_open(ctx, &d, &g.nn));
    p = tllm_nn_params(g.nn, &n_param);
    for (i = 0; i < n_param; i++)
        for (k = 0; k < (size_t)tiny_tensor_count(&p[i].value); k++)
            put_number(&p[i].value, k,
                       p[i].group ? fraction(b++, 23, 5, 31, 15, 64) : fraction(w++, 37, 11, 97, 48, 64));
    for (i = 0; i < n * each; i++) x[i] = (float)fraction(i, 29, 7, 61, 30, 16);
    for (i = 0; i < n; i++) label[i] = (int32_t)(i % (mlp ? 3 : 4));
    g.set.x = mlp ? tiny_tensor_2d(x, TINY_F32, 7, 5) : tiny_tensor_4d(x, TINY_F32, 8, 1, 6, 6);
    g.set.label = tiny_tensor_1d(label, TINY_I32, (tiny_idx)n);
    g.n = tllm_nn_cost_of(g.nn).n_weight;
    return g;
}
