/* tests/gnn/equivariant/layers.c - linear maps of irreps: recorded numbers of e3nn, sums written out; gates: worked
 * numbers, equivariance; gradients of both by differences; bad input */
#define T_GNN
#include "t.h"

enum { SIDE = 2 * TGNN_L_MAX + 1 };

static tgnn_irreps_linear_desc linear_of(tiny_ctx *ctx, const char *in, const char *out, tgnn_irrep *list)
{
    tgnn_irreps_linear_desc d;
    memset(&d, 0, sizeof d);
    T_OK(tgnn_irreps_parse(ctx, in, list, 8, &d.n_in));
    T_OK(tgnn_irreps_parse(ctx, out, list + 8, 8, &d.n_out));
    d.in = list;
    d.out = list + 8;
    return d;
}

/* a file of the oracle, or of its second set with other numbers, which a clone does not have */
static double *recorded_file(int second, const char *file, size_t bytes)
{
    char path[100];
    (void)snprintf(path, sizeof path, "oracle/gnn/%s%.60s", second ? "medium/" : "", file);
    return (double *)t_shared_bytes(path, bytes);
}

static void test_recorded(tiny_target target)
{
    enum { N = 5, D = 46, W = 116 };
    tiny_ctx *ctx = t_ctx(target, 2);
    tgnn_irrep list[16];
    const tgnn_irreps_linear_desc d = linear_of(ctx, "8x0e+6x1o+4x2e", "8x0e+6x1o+4x2e", list);
    int i, set;
    T_EQ_INT(tgnn_irreps_linear_weights(&d), W);
    T_EQ_INT(tgnn_irreps_linear_biases(&d), 8);
    for (set = 0; set < (t_find("oracle/gnn/medium/o3_linear/in.f64") ? 2 : 1); set++) {
        double *x = recorded_file(set, "o3_linear/in.f64", N * D * sizeof(double)),
               *w = recorded_file(set, "o3_linear/weight.f64", W * sizeof(double)),
               *want = recorded_file(set, "o3_linear/out.f64", N * D * sizeof(double)), y[N * D];
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F64, N, D), tw = tiny_tensor_1d(w, TINY_F64, W),
                    ty = tiny_tensor_2d(y, TINY_F64, N, D);
        float fx[N * D], fw[W], *fy = t_guarded(N * D);
        if (!x || !w || !want) break;
        T_OK(tgnn_irreps_linear(ctx, &d, &tx, &tw, NULL, &ty));
        for (i = 0; i < N * D; i++) T_CLOSE(y[i], want[i], 1e-13);
        for (i = 0; i < N * D; i++) fx[i] = (float)x[i];
        for (i = 0; i < W; i++) fw[i] = (float)w[i];
        tx = tiny_tensor_2d(fx, TINY_F32, N, D);
        tw = tiny_tensor_1d(fw, TINY_F32, W);
        ty = tiny_tensor_2d(fy, TINY_F32, N, D);
        T_OK(tgnn_irreps_linear(ctx, &d, &tx, &tw, NULL, &ty));
        T_WALLS(fy, N * D);
        for (i = 0; i < N * D; i++) T_CLOSE(fy[i], want[i], 3e-6);
    }
    t_close(ctx);
    T_PROOF("geometry 0", "linear layer of irreps: o3_linear of e3nn to 1e-13");
}

/* several blocks of one irrep, blocks without a partner, biases, both layouts; sums written out */
static void test_sums(tiny_target target)
{
    enum { N = 7 };
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_irrep list[16];
    tgnn_irreps_linear_desc d = linear_of(ctx, "3x0e+2x1o+4x0e+1x2e+2x1o", "5x0e+3x1e+2x1o+2x0o+1x0e", list);
    const tiny_idx dx = tgnn_irreps_dim(d.in, d.n_in), dy = tgnn_irreps_dim(d.out, d.n_out),
                   dw = tgnn_irreps_linear_weights(&d), db = tgnn_irreps_linear_biases(&d);
    float *x = t_rand((size_t)(N * dx), -1, 1), *w = t_rand((size_t)dw, -1, 1), *b = t_rand((size_t)db, -1, 1);
    int i, o, u, v, k, z;
    T_EQ_INT(dw, 3 * 5 + 3 * 1 + 2 * 2 + 4 * 5 + 4 * 1 + 2 * 2);
    T_EQ_INT(db, 6);
    for (d.last = 0; d.last < 2; d.last++) {
        float *y = t_guarded((size_t)(N * dy));
        const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, dx), tw = tiny_tensor_1d(w, TINY_F32, dw),
                          tb = tiny_tensor_1d(b, TINY_F32, db), ty = tiny_tensor_2d(y, TINY_F32, N, dy);
        T_OK(tgnn_irreps_linear(ctx, &d, &tx, &tw, &tb, &ty));
        T_WALLS(y, N * dy);
        for (z = 0; z < N; z++) {
            int at_o = 0, at_b = 0;
            for (o = 0; o < d.n_out; at_o += d.out[o].mul * (2 * d.out[o].l + 1), o++) {
                const int side = 2 * d.out[o].l + 1, scalar = d.out[o].l == 0 && d.out[o].parity == 1;
                for (v = 0; v < d.out[o].mul; v++)
                    for (k = 0; k < side; k++) {
                        double sum = 0, copies = 0;
                        int at_w = 0, at_i = 0, q;
                        for (i = 0; i < d.n_in; at_i += d.in[i].mul * (2 * d.in[i].l + 1), i++) {
                            const int same = d.in[i].l == d.out[o].l && d.in[i].parity == d.out[o].parity;
                            for (q = 0; q < o; q++)
                                if (d.in[i].l == d.out[q].l && d.in[i].parity == d.out[q].parity)
                                    at_w += d.in[i].mul * d.out[q].mul;
                            for (u = 0; same && u < d.in[i].mul; u++)
                                sum += (double)w[at_w + u * d.out[o].mul + v] *
                                       (double)x[z * dx + at_i + (d.last ? k * d.in[i].mul + u : u * side + k)];
                            if (same) copies += d.in[i].mul;
                            for (q = o; q < d.n_out; q++)
                                if (d.in[i].l == d.out[q].l && d.in[i].parity == d.out[q].parity)
                                    at_w += d.in[i].mul * d.out[q].mul;
                        }
                        sum = copies > 0 ? sum / sqrt(copies) : 0;
                        if (scalar) sum += (double)b[at_b + v];
                        T_CLOSE(y[z * dy + at_o + (d.last ? k * d.out[o].mul + v : v * side + k)], sum, 2e-6);
                    }
                if (scalar) at_b += d.out[o].mul;
            }
        }
    }
    t_close(ctx);
}

static void test_gate(tiny_target target)
{
    enum { N = 2, IN = 2 + 1 + 3 + 2 * 3 + 5, OUT = 3 + 2 * 3 + 5 };
    /* 1 / sqrt(E f(z)^2), z normal: an integral by another program, in Python */
    static const double silu = 1.676532, tanh2 = 1.592537, sigmoid = 1.846229;
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_irrep gated[2] = { { 2, 1, -1 }, { 1, 2, 1 } };
    tgnn_gate_desc d;
    float *x = t_rand(N * IN, -2, 2), *y = t_guarded(N * OUT);
    const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, IN), ty = tiny_tensor_2d(y, TINY_F32, N, OUT);
    int z, i, k;
    memset(&d, 0, sizeof d);
    d.n_even = 2;
    d.n_odd = 1;
    d.gated = gated;
    d.n_gated = 2;
    T_EQ_INT(tgnn_gate_dim_in(&d), IN);
    T_EQ_INT(tgnn_gate_dim_out(&d), OUT);
    for (d.raw = 0; d.raw < 2; d.raw++)
        for (d.last = 0; d.last < 2; d.last++) {
            T_OK(tgnn_gate(ctx, &d, &tx, &ty));
            T_WALLS(y, N * OUT);
            for (z = 0; z < N; z++) {
                const float *a = x + z * IN, *b = y + z * OUT;
                for (i = 0; i < 2; i++)
                    T_CLOSE(b[i], (d.raw ? 1 : silu) * (double)a[i] / (1 + exp(-(double)a[i])), 1e-5);
                T_CLOSE(b[2], (d.raw ? 1 : tanh2) * tanh((double)a[2]), 1e-5);
                for (i = 0; i < 3; i++)
                    for (k = 0; k < (i < 2 ? 3 : 5); k++) {
                        const int at = i == 2 ? 6 + k : d.last ? 2 * k + i : 3 * i + k;
                        T_CLOSE(b[3 + at], (d.raw ? 1 : sigmoid) * (double)a[6 + at] / (1 + exp(-(double)a[3 + i])),
                                2e-5);
                    }
            }
        }
    t_close(ctx);
}

/* a linear layer and a gate turn with their input, reflections too */
static void test_turned(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tgnn_irrep list[16], gated[2] = { { 3, 1, -1 }, { 2, 2, 1 } };
    static double d_l[SIDE * SIDE];
    tgnn_irreps_linear_desc d = linear_of(ctx, "4x0e+2x0o+3x1o+2x2e", "3x0e+2x0o+5x0e+3x1o+2x2e", list);
    tgnn_gate_desc g;
    const tiny_idx dx = tgnn_irreps_dim(d.in, d.n_in), dm = tgnn_irreps_dim(d.out, d.n_out);
    const tiny_idx dw = tgnn_irreps_linear_weights(&d);
    double *x = (double *)t_keep((size_t)dx * 8), *tx = (double *)t_keep((size_t)dx * 8),
           *w = (double *)t_keep((size_t)dw * 8), *m = (double *)t_keep((size_t)dm * 8), y[2][40], want[40];
    int k, i, u, a, b, side, at, turn;
    memset(&g, 0, sizeof g);
    g.n_even = 3;
    g.n_odd = 2;
    g.gated = gated;
    g.n_gated = 2;
    T_EQ_INT(tgnn_gate_dim_in(&g), dm);
    for (i = 0; i < dw; i++) w[i] = (double)t_rand_float(-1, 1);
    for (i = 0; i < dx; i++) x[i] = (double)t_rand_float(-1, 1);
    for (k = 0; k < 4; k++) {
        double r[9];
        T_OK(tgnn_rotation_random(ctx, 21, (uint64_t)k, r));
        for (i = 0; k & 1 && i < 9; i++) r[i] = -r[i];
        for (turn = 0; turn < 2; turn++) {
            const tgnn_irrep out[4] = { { 3, 0, 1 }, { 2, 0, -1 }, { 3, 1, -1 }, { 2, 2, 1 } };
            const tgnn_irrep *block = turn ? out : d.in;
            const double *from = turn ? y[0] : x;
            double *to = turn ? want : tx;
            for (i = 0, at = 0; i < 4; i++) {
                const double sign = k & 1 ? block[i].parity * (block[i].l & 1 ? -1 : 1) : 1;
                side = 2 * block[i].l + 1;
                T_OK(tgnn_wigner_d(ctx, block[i].l, r, d_l));
                for (u = 0; u < block[i].mul; u++, at += side)
                    for (a = 0; a < side; a++) {
                        double sum = 0;
                        for (b = 0; b < side; b++) sum += d_l[a * side + b] * from[at + b];
                        to[at + a] = sign * sum;
                    }
            }
            if (turn) break;
            for (u = 0; u < 2; u++) {
                const tiny_tensor in = tiny_tensor_2d(u ? tx : x, TINY_F64, 1, dx),
                                  tw = tiny_tensor_1d(w, TINY_F64, dw), tm = tiny_tensor_2d(m, TINY_F64, 1, dm),
                                  ty = tiny_tensor_2d(y[u], TINY_F64, 1, tgnn_gate_dim_out(&g));
                T_OK(tgnn_irreps_linear(ctx, &d, &in, &tw, NULL, &tm));
                T_OK(tgnn_gate(ctx, &g, &tm, &ty));
            }
        }
        for (i = 0; i < tgnn_gate_dim_out(&g); i++) T_CLOSE(y[1][i], want[i], 1e-12);
    }
    t_close(ctx);
}

/* both on a tape in double */
static void test_gradients(void)
{
    enum { N = 3 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tgnn_irrep list[16], gated[1] = { { 2, 1, -1 } };
    const tgnn_irreps_linear_desc d = linear_of(ctx, "2x0e+3x1o+1x0e", "2x0e+2x0e+2x1o", list);
    tgnn_gate_desc g;
    tiny_param p[3];
    double *g_out = (double *)t_keep(N * 8 * sizeof(double)), at[2] = { 0, 0 };
    tiny_tensor tg = tiny_tensor_2d(g_out, TINY_F64, N, 8);
    tiny_idx size[3];
    int which, i, side;
    memset(&g, 0, sizeof g);
    g.n_even = 2;
    g.gated = gated;
    g.n_gated = 1;
    memset(p, 0, sizeof p);
    size[0] = N * tgnn_irreps_dim(d.in, d.n_in);
    size[1] = tgnn_irreps_linear_weights(&d);
    size[2] = tgnn_irreps_linear_biases(&d);
    T_EQ_INT(tgnn_gate_dim_out(&g), 8);
    for (i = 0; i < N * 8; i++) g_out[i] = (double)t_rand_float(-1, 1);
    for (which = 0; which < 3; which++) {
        double *v = (double *)t_keep((size_t)size[which] * 8), *s = (double *)t_keep((size_t)size[which] * 8);
        for (i = 0; i < size[which]; i++) v[i] = (double)t_rand_float(-1, 1);
        p[which].name = "p";
        p[which].value = which ? tiny_tensor_1d(v, TINY_F64, size[which]) : tiny_tensor_2d(v, TINY_F64, N, size[0] / N);
        p[which].grad = p[which].value;
        p[which].grad.data = s;
    }
    for (which = -1; which < 3; which++)
        for (i = 0; i < (which < 0 ? 1 : size[which]); i++)
            for (side = 0; side < (which < 0 ? 1 : 2); side++) {
                double *v = which < 0 ? NULL : (double *)p[which].value.data + i, kept = v ? *v : 0;
                tiny_tape_desc desc;
                tiny_tape *tape;
                tiny_tensor y;
                int k;
                memset(&desc, 0, sizeof desc);
                desc.bytes = 1 << 20;
                if (v) *v = kept + (side ? -1e-4 : 1e-4);
                T_OK(tiny_tape_open(ctx, &desc, &tape));
                for (k = 0; k < 3; k++) T_OK(tiny_tape_param(tape, &p[k]));
                y = tgnn_tape_irreps_linear(tape, &d, &p[0].value, &p[1].value, &p[2].value);
                y = tgnn_tape_gate(tape, &g, &y);
                y = tiny_tape_mul(tape, &y, &tg);
                y = tiny_tape_mean(tape, &y);
                T_OK(tiny_tape_status(tape));
                if (y.data) at[side] = *(double *)y.data;
                if (which < 0) {
                    tiny_tape_zero(tape);
                    T_OK(tiny_tape_backward(tape, &y, NULL));
                }
                tiny_tape_close(tape);
                if (v) *v = kept;
                if (side) T_CLOSE(((double *)p[which].grad.data)[i], (at[0] - at[1]) / 2e-4, 1e-8);
            }
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tgnn_irrep list[16];
    tgnn_irreps_linear_desc d = linear_of(ctx, "2x0e+1x1o", "1x0e+2x1o", list);
    tgnn_gate_desc g;
    float x[2 * 5] = { 0 }, w[4] = { 0 }, y[2 * 7];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 5), tw = tiny_tensor_1d(w, TINY_F32, 4),
                ty = tiny_tensor_2d(y, TINY_F32, 2, 7), bent;
    memset(&g, 0, sizeof g);
    T_OK(tgnn_irreps_linear(ctx, &d, &tx, &tw, NULL, &ty));
    bent = tw;
    bent.dim[0] = 3;
    T_STATUS(tgnn_irreps_linear(ctx, &d, &tx, &bent, NULL, &ty), TINY_E_SHAPE, "w or bias");
    T_STATUS(tgnn_irreps_linear(ctx, &d, &tx, &tw, &tw, &ty), TINY_E_SHAPE, "w or bias");
    bent = tx;
    bent.dim[1] = 4;
    T_STATUS(tgnn_irreps_linear(ctx, &d, &bent, &tw, NULL, &ty), TINY_E_SHAPE, "x must have rows");
    T_STATUS(tgnn_irreps_linear(ctx, &d, &tx, &tw, NULL, NULL), TINY_E_ARGUMENT, "missing");
    T_STATUS(tgnn_irreps_linear(ctx, NULL, &tx, &tw, NULL, &ty), TINY_E_SHAPE, "the irreps are invalid");
    list[0].l = -1;
    T_STATUS(tgnn_irreps_linear(ctx, &d, &tx, &tw, NULL, &ty), TINY_E_SHAPE, "the irreps are invalid");
    T_TRUE(tgnn_irreps_linear_weights(&d) == -1 && tgnn_irreps_linear_weights(NULL) == -1);
    g.n_even = -1;
    T_STATUS(tgnn_gate(ctx, &g, &tx, &ty), TINY_E_SHAPE, "invalid");
    g.n_even = 4;
    T_STATUS(tgnn_gate(ctx, &g, &tx, &ty), TINY_E_SHAPE, "x must have rows");
    g.n_odd = 1;
    g.odd = TINY_OP_SILU;
    T_STATUS(tgnn_gate(ctx, &g, &tx, &ty), TINY_E_SHAPE, "must be odd");
    g.odd = TINY_OP_ADD;
    T_STATUS(tgnn_gate(ctx, &g, &tx, &ty), TINY_E_SHAPE, "a function must be one of");
    T_TRUE(tgnn_gate_dim_in(NULL) == -1);
    list[0].l = 0;
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_ctx *own = NULL;
        if (tiny_ctx_open(&desc, &own)) continue;
        (void)tgnn_irreps_linear(own, &d, &tx, &tw, NULL, &ty);
        tiny_ctx_close(own);
    })
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_recorded);
    T_RUN_TARGETS(test_sums);
    T_RUN_TARGETS(test_gate);
    T_RUN(test_turned);
    T_RUN(test_gradients);
    T_RUN(test_bad);
    return t_done();
}
