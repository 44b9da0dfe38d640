/* tests/gnn/equivariant/paths.c - weighted products of irreps: recorded numbers of e3nn, every mode by plain sums,
 * gradients by differences, sums over edges, equivariance, bad input */
#define T_GNN
#include "t.h"

enum { BLOCKS = 8 };

typedef struct irreps { tgnn_irrep list[BLOCKS]; int n; tiny_idx dim; } irreps;

static irreps parse(tiny_ctx *ctx, const char *text)
{
    irreps r;
    T_OK(tgnn_irreps_parse(ctx, text, r.list, BLOCKS, &r.n));
    r.dim = tgnn_irreps_dim(r.list, r.n);
    return r;
}

static tgnn_paths_desc describe(const irreps *a, const irreps *b, const irreps *c)
{
    tgnn_paths_desc d;
    memset(&d, 0, sizeof d);
    d.in1 = a->list;
    d.n_in1 = a->n;
    d.in2 = b->list;
    d.n_in2 = b->n;
    d.out = c->list;
    d.n_out = c->n;
    return d;
}

/* the paths of each irrep of a with each of b, in e3nn's order, each to a block of its own: mode UVU */
static tgnn_paths_desc all_uvu(const irreps *a, const irreps *b, int l_max, irreps *out, tgnn_path *path)
{
    tgnn_paths_desc d;
    int i, j, l;
    out->n = 0;
    memset(path, 0, BLOCKS * 4 * sizeof *path);
    d = describe(a, b, out);
    for (i = 0; i < a->n; i++)
        for (j = 0; j < b->n; j++)
            for (l = abs(a->list[i].l - b->list[j].l); l <= a->list[i].l + b->list[j].l && l <= l_max; l++) {
                const int parity = a->list[i].parity * b->list[j].parity;
                if (parity != (l & 1 ? -1 : 1)) continue;
                path[d.n_path].in1 = i;
                path[d.n_path].in2 = j;
                path[d.n_path].out = d.n_path;
                path[d.n_path++].mode = TGNN_PATH_UVU;
            }
    d.path = path;
    return d;
}

static float *narrow(const double *x, size_t n)
{
    float *y = (float *)t_keep(n * sizeof *y);
    size_t i;
    for (i = 0; i < n; i++) y[i] = (float)x[i];
    return y;
}

/* (mul, 2 l + 1) blocks to (2 l + 1, mul), or back, row by row */
static void turn_rows(float *to, const float *from, tiny_idx n, const irreps *r, int back)
{
    tiny_idx z, at;
    int i, u, k;
    for (z = 0; z < n; z++)
        for (i = 0, at = z * r->dim; i < r->n; at += r->list[i].mul * (2 * r->list[i].l + 1), i++)
            for (u = 0; u < r->list[i].mul; u++)
                for (k = 0; k < 2 * r->list[i].l + 1; k++) {
                    const tiny_idx a = at + u * (2 * r->list[i].l + 1) + k, b = at + k * r->list[i].mul + u;
                    to[back ? a : b] = from[back ? b : a];
                }
}

/* a file of the oracle, or of its second set with other numbers, which a clone does not have */
static void *recorded_file(int second, const char *file, size_t bytes)
{
    char path[100];
    (void)snprintf(path, sizeof path, "oracle/gnn/%s%.60s", second ? "medium/" : "", file);
    return (void *)t_shared_bytes(path, bytes);
}

static void test_tp_full(tiny_target target, int set)
{
    enum { N = 5, DX = 46, DY = 9, DW = 376 };
    tiny_ctx *ctx = t_ctx(target, 2);
    double *x = (double *)recorded_file(set, "tp_full/in1.f64", N * DX * sizeof(double)),
           *y = (double *)recorded_file(set, "tp_full/in2.f64", N * DY * sizeof(double)),
           *w = (double *)recorded_file(set, "tp_full/weight.f64", DW * sizeof(double)),
           *want = (double *)recorded_file(set, "tp_full/out.f64", N * DX * sizeof(double)), got[N * DX];
    const irreps a = parse(ctx, "8x0e+6x1o+4x2e"), b = parse(ctx, "1x0e+1x1o+1x2e");
    tgnn_paths_desc d = describe(&a, &b, &a);
    tgnn_product *p;
    int i, last;
    for (last = 0; x && y && w && want && last < 2; last++) {
        float *fx = narrow(x, N * DX), *fy = narrow(y, N * DY), *fw = narrow(w, DW), *out = t_guarded(N * DX),
              *turned = (float *)t_keep(N * DX * sizeof(float));
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F64, N, DX), ty = tiny_tensor_2d(y, TINY_F64, N, DY),
                    tw = tiny_tensor_2d(w, TINY_F64, 1, DW), to = tiny_tensor_2d(got, TINY_F64, N, DX);
        double size = 0;
        d.last = last;
        if (!T_OK(tgnn_paths_open(ctx, &d, &p))) break;
        T_EQ_INT(tgnn_product_dim(p, TGNN_PRODUCT_W), DW);
        T_EQ_INT(tgnn_product_dim(p, TGNN_PRODUCT_X), DX);
        T_EQ_INT(tgnn_product_dim(p, TGNN_PRODUCT_OUT), DX);
        if (!last) {
            T_OK(tgnn_paths_run(ctx, p, &tx, &ty, &tw, &to));
            for (i = 0; i < N * DX; i++) T_CLOSE(got[i], want[i], 1e-13);
        }
        for (i = 0; i < N * DX; i++) size = fmax(size, fabs(want[i]));
        if (last) {
            turn_rows(turned, fx, N, &a, 0);
            fx = turned;
        }
        tx = tiny_tensor_2d(fx, TINY_F32, N, DX);
        ty = tiny_tensor_2d(fy, TINY_F32, N, DY);
        tw = tiny_tensor_2d(fw, TINY_F32, 1, DW);
        to = tiny_tensor_2d(out, TINY_F32, N, DX);
        T_OK(tgnn_paths_run(ctx, p, &tx, &ty, &tw, &to));
        T_WALLS(out, N * DX);
        T_RAN_ON(ctx, t_vectors(target));
        if (last) {
            float *back = (float *)t_keep(N * DX * sizeof(float));
            turn_rows(back, out, N, &a, 1);
            out = back;
        }
        for (i = 0; i < N * DX; i++) T_CLOSE(out[i], want[i], 40 * FLT_EPSILON * size);
        tgnn_product_close(ctx, p);
    }
    t_close(ctx);
}

/* offsets of the edges by their receivers, and in which order they stand then */
static void by_receiver(const int32_t *edge, int m, int n, int64_t *offset, int32_t *order)
{
    int p, r, at = 0;
    for (r = 0; r < n; r++) {
        offset[r] = at;
        for (p = 0; p < m; p++)
            if (edge[m + p] == r) order[at++] = p;
    }
    offset[n] = at;
}

static void test_tp_conv(tiny_target target, int set)
{
    enum { DX = 36, DY = 9, DW = 44, D = 140, MOST_N = 120, MOST_M = 899 };
    const int n = set ? MOST_N : 17, m = set ? MOST_M : 59;
    const size_t rows = (size_t)n * sizeof(double), edges = (size_t)m * sizeof(double);
    tiny_ctx *ctx = t_ctx(target, 2);
    double *x = (double *)recorded_file(set, "tp_conv/node_in.f64", DX * rows),
           *y = (double *)recorded_file(set, "tp_conv/edge_sh.f64", DY * edges),
           *w = (double *)recorded_file(set, "tp_conv/edge_weight.f64", DW * edges),
           *message = t_find("oracle/gnn/tp_conv/message.f64")      /* too large for a clone */
                          ? (double *)recorded_file(set, "tp_conv/message.f64", D * edges) : NULL,
           *want = (double *)recorded_file(set, "tp_conv/out.f64", D * rows);
    const int32_t *edge = (const int32_t *)recorded_file(set, "tp_conv/edge_index.i32", (size_t)m * 8);
    static double xs[MOST_M * DX], ys[MOST_M * DY], ws[MOST_M * DW], got[MOST_M * D];
    irreps a = parse(ctx, "4x0e+4x1o+4x2e"), b = parse(ctx, "1x0e+1x1o+1x2e"), out;
    tgnn_irrep blocks[4 * BLOCKS];
    tgnn_path path[4 * BLOCKS];
    int64_t offset[MOST_N + 1];
    int32_t order[MOST_M], col[MOST_M];
    tgnn_product *p = NULL;
    int i, k, last;
    for (last = 0; x && y && w && want && edge && last < 2; last++) {
        tgnn_paths_desc d = all_uvu(&a, &b, 2, &out, path);
        tiny_tensor tx, ty, tw, to, toff, tcol;
        double size = 0;
        float *res = t_guarded((size_t)(n * D)), *fx = narrow(x, (size_t)(n * DX));
        T_EQ_INT(d.n_path, 11);
        for (i = 0; i < d.n_path; i++) {    /* the irreps of the result, in the order of index.tsv */
            static const int l[11] = { 0, 1, 2, 1, 0, 2, 1, 2, 1, 0, 2 };
            blocks[i].mul = 4;
            blocks[i].l = l[i];
            blocks[i].parity = l[i] & 1 ? -1 : 1;
        }
        d.out = blocks;
        d.n_out = d.n_path;
        d.last = last;
        if (!T_OK(tgnn_paths_open(ctx, &d, &p))) break;
        T_EQ_INT(tgnn_product_dim(p, TGNN_PRODUCT_OUT), D);
        T_EQ_INT(tgnn_product_dim(p, TGNN_PRODUCT_W), DW);
        by_receiver(edge, m, n, offset, order);
        for (i = 0; i < m; i++) {
            col[i] = edge[order[i]];
            for (k = 0; k < DX; k++) xs[i * DX + k] = x[col[i] * DX + k];
            for (k = 0; k < DY; k++) ys[i * DY + k] = y[order[i] * DY + k];
            for (k = 0; k < DW; k++) ws[i * DW + k] = w[order[i] * DW + k];
        }
        toff = tiny_tensor_1d(offset, TINY_I64, n + 1);
        tcol = tiny_tensor_1d(col, TINY_I32, m);
        if (!last) {
            tx = tiny_tensor_2d(xs, TINY_F64, m, DX);
            ty = tiny_tensor_2d(ys, TINY_F64, m, DY);
            tw = tiny_tensor_2d(ws, TINY_F64, m, DW);
            to = tiny_tensor_2d(got, TINY_F64, m, D);
            T_OK(tgnn_paths_run(ctx, p, &tx, &ty, &tw, &to));
            for (i = 0; message && i < m; i++)
                for (k = 0; k < D; k++) T_CLOSE(got[i * D + k], message[order[i] * D + k], 1e-12);
            tx = tiny_tensor_2d(x, TINY_F64, n, DX);
            to = tiny_tensor_2d(got, TINY_F64, n, D);
            T_OK(tgnn_paths_conv(ctx, p, &toff, &tx, &tcol, &ty, &tw, &to));
            for (i = 0; i < n * D; i++) T_CLOSE(got[i], want[i], 1e-12);
        }
        for (i = 0; i < n * D; i++) size = fmax(size, fabs(want[i]));
        if (last) {
            float *turned = (float *)t_keep((size_t)(n * DX) * sizeof(float));
            turn_rows(turned, fx, n, &a, 0);
            fx = turned;
        }
        tx = tiny_tensor_2d(fx, TINY_F32, n, DX);
        ty = tiny_tensor_2d(narrow(ys, (size_t)(m * DY)), TINY_F32, m, DY);
        tw = tiny_tensor_2d(narrow(ws, (size_t)(m * DW)), TINY_F32, m, DW);
        to = tiny_tensor_2d(res, TINY_F32, n, D);
        T_OK(tgnn_paths_conv(ctx, p, &toff, &tx, &tcol, &ty, &tw, &to));
        T_WALLS(res, n * D);
        T_RAN_ON(ctx, t_vectors(target));
        for (i = 0; i < n; i++) {
            int block, u, c, at = 0;
            for (block = 0; block < d.n_out; block++)
                for (u = 0; u < 4; u++)
                    for (c = 0; c < 2 * blocks[block].l + 1; c++, at++) {
                        const int start = at - u * (2 * blocks[block].l + 1) - c;
                        T_CLOSE(res[i * D + (last ? start + 4 * c + u : at)], want[i * D + at],
                                60 * FLT_EPSILON * size);
                    }
        }
        tgnn_product_close(ctx, p);
    }
    t_close(ctx);
}

static void test_recorded(tiny_target target)
{
    test_tp_full(target, 0);
    test_tp_conv(target, 0);
    if (t_find("oracle/gnn/medium/tp_conv/out.f64")) {
        test_tp_full(target, 1);
        test_tp_conv(target, 1);
    }
    T_PROOF("geometry 0", "weighted tensor product: tp_full of e3nn to 1e-13, both layouts");
    T_PROOF("geometry 0", "uvu convolution: tp_conv of e3nn to 1e-12, messages and their sums");
}

/* ---- every mode and norm against sums written out here, from the whole tensors of tgnn_wigner_3j */

typedef struct mode_case { const char *in1, *in2, *out; int mode; } mode_case;
static const mode_case modes[] = { { "3x1o+2x0e", "2x1o+1x2e", "4x2e+3x1e", TGNN_PATH_UVW },
                                   { "3x1o+2x2e", "2x1o", "3x2e+2x1o", TGNN_PATH_UVU },
                                   { "3x1o", "2x1o+4x2e", "2x0e+4x1o", TGNN_PATH_UVV },
                                   { "3x1o+2x2e", "3x1o+2x2e", "5x2e+4x0e", TGNN_PATH_UUW },
                                   { "3x1o+2x2e", "3x1o+2x1o", "3x1e+2x3o", TGNN_PATH_UUU } };

static int joined(int mode, int u, int v, int w)
{
    return mode == TGNN_PATH_UVW || (mode == TGNN_PATH_UVU && u == w) || (mode == TGNN_PATH_UVV && v == w) ||
           (mode == TGNN_PATH_UUW && u == v) || (mode == TGNN_PATH_UUU && u == v && v == w);
}

static double fan(int mode, int mul1, int mul2)
{
    return mode == TGNN_PATH_UVW ? mul1 * mul2 : mode == TGNN_PATH_UVU ? mul2 : mode == TGNN_PATH_UUU ? 1 : mul1;
}

static int start_of(const irreps *r, int i) { return (int)tgnn_irreps_dim(r->list, i); }

static void by_sums(tiny_ctx *ctx, const irreps *r, const tgnn_paths_desc *d, const double *x, const double *y,
                    const double *w, double *out)
{
    double c[25 * 25 * 25];
    int p, q, at = 0, u, v, k, i, j, m;
    memset(out, 0, (size_t)r[2].dim * sizeof *out);
    for (p = 0; p < d->n_path; p++) {
        const tgnn_path *path = d->path + p;
        const tgnn_irrep a = r[0].list[path->in1], b = r[1].list[path->in2], o = r[2].list[path->out];
        const int na = 2 * a.l + 1, nb = 2 * b.l + 1, no = 2 * o.l + 1;
        double s = 0, coef;
        int same = 0;
        for (q = 0; q < d->n_path; q++)
            if (d->path[q].out == path->out) {
                s += fan(d->path[q].mode, r[0].list[d->path[q].in1].mul, r[1].list[d->path[q].in2].mul);
                same++;
            }
        if (d->path_norm == TGNN_PATHS_PATH) s = same * fan(path->mode, a.mul, b.mul);
        coef = sqrt((d->irrep_norm == TGNN_PATHS_NORM ? na * nb : no) * (path->factor > 0 ? path->factor : 1) / s);
        T_OK(tgnn_wigner_3j(ctx, a.l, b.l, o.l, c));
        for (u = 0; u < a.mul; u++)
            for (v = 0; v < b.mul; v++)
                for (k = 0; k < o.mul; k++) {
                    if (!joined(path->mode, u, v, k)) continue;
                    for (i = 0; i < na; i++)
                        for (j = 0; j < nb; j++)
                            for (m = 0; m < no; m++)
                                out[start_of(&r[2], path->out) + k * no + m] +=
                                    coef * (path->unweighted ? 1 : w[at]) * c[(i * nb + j) * no + m] *
                                    x[start_of(&r[0], path->in1) + u * na + i] *
                                    y[start_of(&r[1], path->in2) + v * nb + j];
                    if (!path->unweighted) at++;
                }
    }
}

/* the paths of a mode case: every three blocks that couple and fit the mode */
static tgnn_paths_desc mode_paths(tiny_ctx *ctx, const mode_case *m, irreps r[3], tgnn_path *path)
{
    tgnn_paths_desc d;
    int a, b, c;
    r[0] = parse(ctx, m->in1);
    r[1] = parse(ctx, m->in2);
    r[2] = parse(ctx, m->out);
    memset(path, 0, 4 * BLOCKS * sizeof *path);
    d = describe(&r[0], &r[1], &r[2]);
    d.path = path;
    for (a = 0; a < r[0].n; a++)
        for (b = 0; b < r[1].n; b++)
            for (c = 0; c < r[2].n; c++) {
                const tgnn_irrep *i = r[0].list + a, *j = r[1].list + b, *o = r[2].list + c;
                if (o->l > i->l + j->l || i->l > j->l + o->l || j->l > i->l + o->l ||
                    i->parity * j->parity != o->parity)
                    continue;
                if ((m->mode == TGNN_PATH_UVU && i->mul != o->mul) || (m->mode == TGNN_PATH_UVV && j->mul != o->mul) ||
                    (m->mode >= TGNN_PATH_UUW && i->mul != j->mul) || (m->mode == TGNN_PATH_UUU && j->mul != o->mul))
                    continue;
                path[d.n_path].in1 = a;
                path[d.n_path].in2 = b;
                path[d.n_path].out = c;
                path[d.n_path].factor = d.n_path == 1 ? 2.5 : 0;
                path[d.n_path].unweighted =
                    d.n_path == 1 && m->mode != TGNN_PATH_UVW && m->mode != TGNN_PATH_UUW;
                path[d.n_path++].mode = m->mode;
            }
    return d;
}

static void test_modes(tiny_target target)
{
    enum { N = 19 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    int form, i, z;
    for (c = 0; c < T_COUNT(modes); c++)
        for (form = 0; form < 4; form++) {
            irreps r[3];
            tgnn_path path[4 * BLOCKS];
            tgnn_paths_desc d = mode_paths(ctx, &modes[c], r, path);
            tgnn_product *p = NULL;
            float *x = t_rand(N * (size_t)r[0].dim, -1, 1), *y = t_rand(N * (size_t)r[1].dim, -1, 1), *w, *out;
            double *x64 = (double *)t_keep(N * (size_t)(r[0].dim + r[1].dim + r[2].dim) * sizeof(double)), *y64, *want,
                   *w64;
            tiny_tensor tx, ty, tw, to;
            tiny_idx n_w;
            T_TRUE(d.n_path >= 2);
            d.irrep_norm = form & 1;
            d.path_norm = form >> 1;
            if (!T_OK(tgnn_paths_open(ctx, &d, &p))) continue;
            n_w = tgnn_product_dim(p, TGNN_PRODUCT_W);
            w = t_rand(N * (size_t)n_w, -1, 1);
            w64 = (double *)t_keep((size_t)n_w * sizeof(double));
            out = t_guarded(N * (size_t)r[2].dim);
            y64 = x64 + N * r[0].dim;
            want = y64 + N * r[1].dim;
            tx = tiny_tensor_2d(x, TINY_F32, N, r[0].dim);
            ty = tiny_tensor_2d(y, TINY_F32, N, r[1].dim);
            tw = tiny_tensor_2d(w, TINY_F32, form == 1 ? 1 : N, n_w);
            to = tiny_tensor_2d(out, TINY_F32, N, r[2].dim);
            T_OK(tgnn_paths_run(ctx, p, &tx, &ty, &tw, &to));
            T_WALLS(out, N * r[2].dim);
            for (z = 0; z < N; z++) {
                for (i = 0; i < r[0].dim; i++) x64[i] = (double)x[z * r[0].dim + i];
                for (i = 0; i < r[1].dim; i++) y64[i] = (double)y[z * r[1].dim + i];
                for (i = 0; i < n_w; i++) w64[i] = (double)w[(form == 1 ? 0 : z * n_w) + i];
                by_sums(ctx, r, &d, x64, y64, w64, want);
                for (i = 0; i < r[2].dim; i++) T_CLOSE(out[z * r[2].dim + i], want[i], 3e-6);
                if (z || form == 1) continue;
                {
                    double *got = (double *)t_keep((size_t)r[2].dim * sizeof(double));
                    tiny_tensor a = tiny_tensor_2d(x64, TINY_F64, 1, r[0].dim),
                                b = tiny_tensor_2d(y64, TINY_F64, 1, r[1].dim),
                                e = tiny_tensor_2d(w64, TINY_F64, 1, n_w),
                                o = tiny_tensor_2d(got, TINY_F64, 1, r[2].dim);
                    T_OK(tgnn_paths_run(ctx, p, &a, &b, &e, &o));
                    for (i = 0; i < r[2].dim; i++) T_CLOSE(got[i], want[i], 1e-14);
                }
            }
            tgnn_product_close(ctx, p);
        }
    t_close(ctx);
    T_PROOF("geometry 0", "every mode and norm of the weighted product against sums written out");
}

/* ---- gradients by central differences in double */

typedef struct slopes { tgnn_product *p; tiny_tensor x, y, w, out; double *g; } slopes;

static double loss(tiny_ctx *ctx, slopes *s)
{
    double sum = 0;
    tiny_idx i;
    T_OK(tgnn_paths_run(ctx, s->p, &s->x, &s->y, &s->w, &s->out));
    for (i = 0; i < tiny_tensor_count(&s->out); i++) sum += s->g[i] * ((double *)s->out.data)[i];
    return sum;
}

static void test_gradients(void)
{
    enum { N = 3 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    size_t c;
    int shared, which;
    tiny_idx i;
    for (c = 0; c < T_COUNT(modes); c++)
        for (shared = 0; shared < 2; shared++) {
            irreps r[3];
            tgnn_path path[4 * BLOCKS];
            tgnn_paths_desc d = mode_paths(ctx, &modes[c], r, path);
            slopes s;
            tiny_tensor tg, grad[3], *in[3];
            T_OK(tgnn_paths_open(ctx, &d, &s.p));
            s.x = tiny_tensor_2d(t_keep(N * (size_t)r[0].dim * 8), TINY_F64, N, r[0].dim);
            s.y = tiny_tensor_2d(t_keep(N * (size_t)r[1].dim * 8), TINY_F64, N, r[1].dim);
            s.w = tiny_tensor_2d(t_keep(N * (size_t)tgnn_product_dim(s.p, TGNN_PRODUCT_W) * 8), TINY_F64,
                                 shared ? 1 : N, tgnn_product_dim(s.p, TGNN_PRODUCT_W));
            s.out = tiny_tensor_2d(t_keep(N * (size_t)r[2].dim * 8), TINY_F64, N, r[2].dim);
            s.g = (double *)t_keep(N * (size_t)r[2].dim * 8);
            tg = s.out;
            tg.data = s.g;
            in[0] = &s.x;
            in[1] = &s.y;
            in[2] = &s.w;
            for (i = 0; i < N * r[2].dim; i++) s.g[i] = (double)t_rand_float(-1, 1);
            for (which = 0; which < 3; which++) {
                grad[which] = *in[which];
                grad[which].data = t_keep((size_t)tiny_tensor_count(in[which]) * 8);
                for (i = 0; i < tiny_tensor_count(in[which]); i++)
                    ((double *)in[which]->data)[i] = (double)t_rand_float(-1, 1);
            }
            T_OK(tgnn_paths_back(ctx, s.p, &s.x, &s.y, &s.w, &tg, &grad[0], &grad[1], &grad[2]));
            for (which = 0; which < 3; which++)
                for (i = 0; i < tiny_tensor_count(in[which]); i += 1 + i % 3) {
                    double *at = (double *)in[which]->data + i, kept = *at, up, down;
                    /* the product is linear in each: the difference has no error but rounding */
                    *at = kept + 1e-3;
                    up = loss(ctx, &s);
                    *at = kept - 1e-3;
                    down = loss(ctx, &s);
                    *at = kept;
                    T_CLOSE(((double *)grad[which].data)[i], (up - down) / 2e-3, 1e-10);
                }
            tgnn_product_close(ctx, s.p);
        }
    t_close(ctx);
    T_PROOF("geometry 0", "gradients of the weighted product by finite differences");
}

/* On a tape: product, and sums over edges; differences of an f64 loss. */
typedef struct model { tgnn_product *p; tiny_param param[3]; tiny_tensor offset, col, g; int conv; } model;

static double tape_loss(tiny_ctx *ctx, model *m, int back)
{
    tiny_tape_desc d;
    tiny_tape *tape;
    tiny_tensor y, zero;
    double loss = 0;
    int i;
    memset(&d, 0, sizeof d);
    d.bytes = 1 << 20;
    d.no_grad = !back;
    if (!T_OK(tiny_tape_open(ctx, &d, &tape))) return 0;
    for (i = 0; i < 3; i++) T_OK(tiny_tape_param(tape, &m->param[i]));
    y = m->conv ? tgnn_tape_paths_conv(tape, m->p, &m->offset, &m->param[0].value, &m->col, &m->param[1].value,
                                       &m->param[2].value)
                : tgnn_tape_paths(tape, m->p, &m->param[0].value, &m->param[1].value, &m->param[2].value);
    T_OK(tiny_tape_status(tape));
    zero = tiny_tape_mul(tape, &y, &m->g);
    y = tiny_tape_mean(tape, &zero);
    T_OK(tiny_tape_status(tape));
    if (y.data) loss = *(double *)y.data;
    if (back) {
        tiny_tape_zero(tape);
        T_OK(tiny_tape_backward(tape, &y, NULL));
    }
    tiny_tape_close(tape);
    return loss;
}

static void test_tape(void)
{
    enum { N = 4, M = 7 };
    static const int32_t col[M] = { 3, 0, 1, 1, 2, 0, 3 };
    static const int64_t offset[N + 1] = { 0, 2, 2, 6, 7 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    int conv, which, shared;
    tiny_idx i;
    for (conv = 0; conv < 2; conv++)
        for (shared = 0; shared < 2; shared++) {
            irreps r[3];
            tgnn_path path[4 * BLOCKS];
            tgnn_paths_desc d = mode_paths(ctx, &modes[1], r, path);
            model m;
            tiny_idx rows[3], width[3];
            memset(&m, 0, sizeof m);
            T_OK(tgnn_paths_open(ctx, &d, &m.p));
            m.conv = conv;
            m.offset = tiny_tensor_1d((void *)(uintptr_t)offset, TINY_I64, N + 1);
            m.col = tiny_tensor_1d((void *)(uintptr_t)col, TINY_I32, M);
            rows[0] = N;
            rows[1] = conv ? M : N;
            rows[2] = shared ? 1 : rows[1];
            for (which = 0; which < 3; which++) {
                width[which] = tgnn_product_dim(m.p, which);
                m.param[which].value = tiny_tensor_2d(t_keep((size_t)(rows[which] * width[which]) * 8), TINY_F64,
                                                      rows[which], width[which]);
                m.param[which].grad = tiny_tensor_2d(t_keep((size_t)(rows[which] * width[which]) * 8), TINY_F64,
                                                     rows[which], width[which]);
                m.param[which].name = "p";
                for (i = 0; i < rows[which] * width[which]; i++)
                    ((double *)m.param[which].value.data)[i] = (double)t_rand_float(-1, 1);
            }
            m.g = tiny_tensor_2d(t_keep(N * (size_t)r[2].dim * 8), TINY_F64, N, r[2].dim);
            for (i = 0; i < N * r[2].dim; i++) ((double *)m.g.data)[i] = (double)t_rand_float(-1, 1);
            (void)tape_loss(ctx, &m, 1);
            for (which = 0; which < 3; which++)
                for (i = 0; i < rows[which] * width[which]; i += 1 + i % 3) {
                    double *at = (double *)m.param[which].value.data + i, kept = *at, up, down;
                    *at = kept + 1e-3;
                    up = tape_loss(ctx, &m, 0);
                    *at = kept - 1e-3;
                    down = tape_loss(ctx, &m, 0);
                    *at = kept;
                    T_CLOSE(((double *)m.param[which].grad.data)[i], (up - down) / 2e-3, 1e-11);
                }
            tgnn_product_close(ctx, m.p);
        }
    t_close(ctx);
}

/* ---- conv: the fold and the general form against products that are summed afterwards; any strides; threads */

static void test_conv(tiny_target target)
{
    static const struct { const char *in1, *in2, *out; int mode; } cases[] = {
        { "5x0e+5x1o+5x2e", "1x0e+1x1o+1x2e", "5x0e+5x1o+5x2e+5x1e", TGNN_PATH_UVU },
        { "40x0e+40x1o", "1x0e+1x1o+1x2e+1x3o", "40x1o+40x2o+40x0e", TGNN_PATH_UVU },
        { "3x0e+2x1o", "2x1o+1x0e", "4x1o+3x0e", TGNN_PATH_UVW }
    };
    enum { N = 13, M = 90 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    int last, i, k, r0;
    for (c = 0; c < T_COUNT(cases); c++)
        for (last = 0; last < 2; last++) {
            mode_case m;
            irreps r[3];
            tgnn_path path[4 * BLOCKS];
            tgnn_paths_desc d;
            tgnn_product *p = NULL;
            float *x, *y, *w, *xs, *out, *edges, *gap;
            int64_t offset[N + 1];
            int32_t col[M];
            tiny_tensor tx, ty, tw, to, txs, te, toff, tcol, tgap;
            tiny_idx n_w;
            m.in1 = cases[c].in1;
            m.in2 = cases[c].in2;
            m.out = cases[c].out;
            m.mode = cases[c].mode;
            d = mode_paths(ctx, &m, r, path);
            d.last = last;
            if (!T_OK(tgnn_paths_open(ctx, &d, &p))) continue;
            n_w = tgnn_product_dim(p, TGNN_PRODUCT_W);
            x = t_rand(N * (size_t)r[0].dim, -1, 1);
            y = t_rand(M * (size_t)r[1].dim, -1, 1);
            w = t_rand(M * (size_t)n_w, -1, 1);
            xs = (float *)t_keep(M * (size_t)r[0].dim * 4);
            out = t_guarded(N * (size_t)r[2].dim);
            gap = t_guarded(2 * N * (size_t)r[2].dim);
            edges = (float *)t_keep(M * (size_t)r[2].dim * 4);
            for (i = 0; i <= N; i++) offset[i] = i == N ? M : i < 5 ? 0 : (i - 4) * 9; /* the first rows have none */
            for (i = 0; i < M; i++) col[i] = (i * 7 + i / 3) % N;
            for (i = 0; i < M; i++) memcpy(xs + i * r[0].dim, x + col[i] * r[0].dim, (size_t)r[0].dim * 4);
            tx = tiny_tensor_2d(x, TINY_F32, N, r[0].dim);
            txs = tiny_tensor_2d(xs, TINY_F32, M, r[0].dim);
            ty = tiny_tensor_2d(y, TINY_F32, M, r[1].dim);
            tw = tiny_tensor_2d(w, TINY_F32, M, n_w);
            to = tiny_tensor_2d(out, TINY_F32, N, r[2].dim);
            te = tiny_tensor_2d(edges, TINY_F32, M, r[2].dim);
            toff = tiny_tensor_1d(offset, TINY_I64, N + 1);
            tcol = tiny_tensor_1d(col, TINY_I32, M);
            T_OK(tgnn_paths_conv(ctx, p, &toff, &tx, &tcol, &ty, &tw, &to));
            T_RAN_ON(ctx, t_vectors(target));
            T_WALLS(out, N * r[2].dim);
            T_OK(tgnn_paths_run(ctx, p, &txs, &ty, &tw, &te));
            for (r0 = 0; r0 < N; r0++)
                for (k = 0; k < r[2].dim; k++) {
                    double sum = 0, size = 0;
                    int64_t e;
                    for (e = offset[r0]; e < offset[r0 + 1]; e++) {
                        sum += (double)edges[e * r[2].dim + k];
                        size += fabs((double)edges[e * r[2].dim + k]);
                    }
                    T_CLOSE(out[r0 * r[2].dim + k], sum, 2e-6 * (1 + size));
                }
            /* into rows with gaps and from columns: the same bits */
            tgap = tiny_tensor_2d(gap, TINY_F32, N, r[2].dim);
            tgap.stride[0] = 2 * r[2].dim;
            tgap.stride[1] = 2;
            {
                float *across = (float *)t_keep(N * (size_t)r[0].dim * 4),
                      *wide = (float *)t_keep(2 * M * (size_t)n_w * 4),
                      *why = (float *)t_keep(2 * M * (size_t)r[1].dim * 4);
                tiny_tensor ta = tiny_tensor_2d(across, TINY_F32, r[0].dim, N), tw2 = tw, ty2 = ty;
                for (i = 0; i < N; i++)
                    for (k = 0; k < r[0].dim; k++) across[k * N + i] = x[i * r[0].dim + k];
                for (i = 0; i < M * n_w; i++) wide[2 * i] = w[i];
                for (i = 0; i < M * r[1].dim; i++) why[2 * i] = y[i];
                ta = tiny_tensor_swap(ta, 0, 1);
                tw2.data = wide;
                tw2.stride[0] = 2 * n_w;
                tw2.stride[1] = 2;
                ty2.data = why;
                ty2.stride[0] = 2 * r[1].dim;
                ty2.stride[1] = 2;
                T_OK(tgnn_paths_conv(ctx, p, &toff, &ta, &tcol, &ty2, &tw2, &tgap));
                for (i = 0; i < N * r[2].dim; i++) T_SAME(&gap[2 * i], &out[i], 1);
                T_WALLS(gap, 2 * N * r[2].dim);
            }
            {                               /* one row of weights for all edges */
                tiny_tensor one = tw, all = tw;
                float *again = t_guarded(N * (size_t)r[2].dim), *first = t_guarded(N * (size_t)r[2].dim);
                one.dim[0] = 1;
                all.stride[0] = 0;
                to.data = again;
                T_OK(tgnn_paths_conv(ctx, p, &toff, &tx, &tcol, &ty, &one, &to));
                to.data = first;
                T_OK(tgnn_paths_conv(ctx, p, &toff, &tx, &tcol, &ty, &all, &to));
                for (i = 0; i < N * r[2].dim; i++) T_CLOSE(again[i], first[i], 1e-6 * (1 + fabs((double)first[i])));
            }
            tgnn_product_close(ctx, p);
            t_free_blocks();
        }
    t_close(ctx);
}

/* products, gradients summed over the samples, and sums over edges: the same bits on one thread and on three */
static void test_threads(tiny_target target)
{
    enum { N = 1500, ROWS = 100 };
    tiny_ctx *ctx[2];
    const irreps a = parse(t_ctx(target, 1), "8x0e+6x1o+4x2e");
    irreps b;
    tgnn_paths_desc d;
    tgnn_product *p = NULL;
    int64_t offset[ROWS + 1];
    int32_t *col = (int32_t *)t_keep(N * sizeof *col);
    float *x = t_rand(N * 46, -1, 1), *y = t_rand(N * 9, -1, 1), *w = t_rand(376, -1, 1), *g = t_rand(N * 46, -1, 1);
    float *got[2][5];
    int k, i;
    ctx[0] = t_now.ctx;
    ctx[1] = t_ctx(target, 3);
    b = parse(ctx[1], "1x0e+1x1o+1x2e");
    d = describe(&a, &b, &a);
    T_OK(tgnn_paths_open(ctx[0], &d, &p));
    for (i = 0; i <= ROWS; i++) offset[i] = (int64_t)i * N / ROWS;
    for (i = 0; i < N; i++) col[i] = (i * 37) % N;
    for (k = 0; p && k < 2; k++) {
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, 46), ty = tiny_tensor_2d(y, TINY_F32, N, 9),
                    tw = tiny_tensor_2d(w, TINY_F32, 1, 376), tg = tiny_tensor_2d(g, TINY_F32, N, 46), out, dx, dy, dw,
                    sum, toff = tiny_tensor_1d(offset, TINY_I64, ROWS + 1), tcol = tiny_tensor_1d(col, TINY_I32, N);
        for (i = 0; i < 5; i++) got[k][i] = t_guarded(N * 46);
        out = tiny_tensor_2d(got[k][0], TINY_F32, N, 46);
        dx = tiny_tensor_2d(got[k][1], TINY_F32, N, 46);
        dy = tiny_tensor_2d(got[k][2], TINY_F32, N, 9);
        dw = tiny_tensor_2d(got[k][3], TINY_F32, 1, 376);
        sum = tiny_tensor_2d(got[k][4], TINY_F32, ROWS, 46);
        T_OK(tgnn_paths_run(ctx[k], p, &tx, &ty, &tw, &out));
        T_OK(tgnn_paths_back(ctx[k], p, &tx, &ty, &tw, &tg, &dx, &dy, &dw));
        T_OK(tgnn_paths_conv(ctx[k], p, &toff, &tx, &tcol, &ty, &tw, &sum));
    }
    for (i = 0; i < 5; i++) T_SAME(got[0][i], got[1][i], i == 2 ? N * 9 : i == 3 ? 376 : i == 4 ? ROWS * 46 : N * 46);
    tgnn_product_close(ctx[0], p);
    t_close(ctx[0]);
    t_now.ctx = ctx[1];
    t_close(ctx[1]);
}

#ifndef TINY_NO_CONFORM
static void test_conform(tiny_target target)
{
    t_conform(target, tgnn_paths_row(), 60);
    t_conform(target, tgnn_paths_back_row(), 60);
    t_conform(target, tgnn_paths_conv_row(), 60);
}
#endif

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    const irreps a = parse(ctx, "2x0e+3x1o"), b = parse(ctx, "1x1o"), c = parse(ctx, "2x1o+3x1e");
    tgnn_paths_desc d = describe(&a, &b, &c), bad;
    tgnn_path path[2] = { { 0, 0, 0, TGNN_PATH_UVU, 0, 0 }, { 1, 0, 1, TGNN_PATH_UVU, 0, 0 } }, one = path[0];
    tgnn_product *p = NULL, *degrees = NULL;
    float x[2 * 11] = { 0 }, y[2 * 3] = { 0 }, w[2 * 5] = { 0 }, out[2 * 15], wide[100] = { 0 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 11), ty = tiny_tensor_2d(y, TINY_F32, 2, 3),
                tw = tiny_tensor_2d(w, TINY_F32, 2, 5), to = tiny_tensor_2d(out, TINY_F32, 2, 15), bent;
    int64_t offset[3] = { 0, 1, 2 };
    int32_t col[2] = { 0, 1 };
    tiny_tensor toff = tiny_tensor_1d(offset, TINY_I64, 3), tcol = tiny_tensor_1d(col, TINY_I32, 2);
    tgnn_product_desc pd;
    memset(&pd, 0, sizeof pd);
    d.path = path;
    d.n_path = 2;
    T_STATUS(tgnn_paths_open(ctx, NULL, &p), TINY_E_ARGUMENT, "is missing");
    T_STATUS(tgnn_paths_open(ctx, &d, NULL), TINY_E_ARGUMENT, "is missing");
    bad = d;
    bad.n_in1 = -1;
    T_STATUS(tgnn_paths_open(ctx, &bad, &p), TINY_E_ARGUMENT, "the irreps of x are invalid");
    bad = d;
    bad.irrep_norm = 2;
    T_STATUS(tgnn_paths_open(ctx, &bad, &p), TINY_E_ARGUMENT, "norms 2 and 0");
    bad = d;
    bad.path = &one;
    bad.n_path = 1;
    one.in1 = 2;
    T_STATUS(tgnn_paths_open(ctx, &bad, &p), TINY_E_ARGUMENT, "path 0 joins blocks 2, 0 and 0, there are 2, 1 and 2");
    one = path[0];
    one.mode = 5;
    T_STATUS(tgnn_paths_open(ctx, &bad, &p), TINY_E_ARGUMENT, "mode 5");
    one = path[0];
    one.out = 1;                            /* 0e x 1o has odd parity */
    T_STATUS(tgnn_paths_open(ctx, &bad, &p), TINY_E_ARGUMENT, "path 0: 2x0e and 1x1o do not couple to 3x1e");
    one = path[0];
    one.mode = TGNN_PATH_UUW;
    T_STATUS(tgnn_paths_open(ctx, &bad, &p), TINY_E_ARGUMENT,
             "mode UUW does not fit the copies of 2x0e, 1x1o and 2x1o");
    one.mode = TGNN_PATH_UVW;
    one.unweighted = 1;
    T_STATUS(tgnn_paths_open(ctx, &bad, &p), TINY_E_ARGUMENT, "mode UVW needs weights");
    one = path[0];
    one.factor = NAN;
    T_STATUS(tgnn_paths_open(ctx, &bad, &p), TINY_E_NUMERIC, "factor");
    T_TRUE(!p);
    if (!T_OK(tgnn_paths_open(ctx, &d, &p))) return;
    T_EQ_INT(tgnn_product_kind(p), TGNN_PRODUCT_PATHS);
    T_OK(tgnn_paths_run(ctx, p, &tx, &ty, &tw, &to));
    bent = tx;
    bent.dim[1] = 10;
    T_STATUS(tgnn_paths_run(ctx, p, &bent, &ty, &tw, &to), TINY_E_SHAPE, "x has rows of 10 numbers, the plan has 11");
    bent = tiny_tensor_2d(wide, TINY_F32, 2, 20);
    T_STATUS(tgnn_paths_run(ctx, p, &bent, &ty, &tw, &to), TINY_E_SHAPE, "x has rows of 20 numbers");
    bent = ty;
    bent.dim[0] = 1;
    T_STATUS(tgnn_paths_run(ctx, p, &tx, &bent, &tw, &to), TINY_E_SHAPE, "y is 1x3 f32");
    T_STATUS(tgnn_paths_run(ctx, p, &tx, &ty, NULL, &to), TINY_E_ARGUMENT, "path 0 does not fit");
    T_STATUS(tgnn_paths_run(ctx, p, &tx, NULL, &tw, &to), TINY_E_ARGUMENT, "is missing");
    T_STATUS(tgnn_paths_run(ctx, NULL, &tx, &ty, &tw, &to), TINY_E_ARGUMENT, "the plan is missing");
    bent = to;
    bent.dim[1] = 14;
    T_STATUS(tgnn_paths_run(ctx, p, &tx, &ty, &tw, &bent), TINY_E_SHAPE, "output 0");
    T_OK(tgnn_paths_conv(ctx, p, &toff, &tx, &tcol, &ty, &tw, &to));
    col[1] = 2;
    T_STATUS(tgnn_paths_conv(ctx, p, &toff, &tx, &tcol, &ty, &tw, &to), TINY_E_ARGUMENT, "edge 1 comes from row 2");
    col[1] = -1;
    T_STATUS(tgnn_paths_conv(ctx, p, &toff, &tx, &tcol, &ty, &tw, &to), TINY_E_ARGUMENT, "edge 1 comes from row -1");
    col[1] = 1;
    offset[1] = 3;
    T_STATUS(tgnn_paths_conv(ctx, p, &toff, &tx, &tcol, &ty, &tw, &to), TINY_E_ARGUMENT,
             "row 0 has the edges 0 to 3 of 2");
    offset[1] = 1;
    bent = toff;
    bent.dtype = TINY_I32;
    T_STATUS(tgnn_paths_conv(ctx, p, &bent, &tx, &tcol, &ty, &tw, &to), TINY_E_DTYPE, "offset must be i64");
    T_OK(tgnn_product_open(ctx, &pd, &degrees));
    T_STATUS(tgnn_paths_run(ctx, degrees, &tx, &ty, &tw, &to), TINY_E_ARGUMENT, "not one for irreps");
    T_STATUS(tgnn_product_run(ctx, p, &tx, &ty, &tw, &to), TINY_E_ARGUMENT, "a plan for irreps");
    tgnn_product_close(ctx, degrees);
    tgnn_product_close(ctx, p);
    tgnn_product_close(ctx, NULL);
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_ctx *own = NULL;
        tgnn_product *q = NULL;
        if (tiny_ctx_open(&desc, &own)) continue;
        if (!tgnn_paths_open(own, &d, &q)) (void)tgnn_paths_run(own, q, &tx, &ty, &tw, &to);
        tgnn_product_close(own, q);
        tiny_ctx_close(own);
    })
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_recorded);
    T_RUN_TARGETS(test_modes);
    T_RUN(test_gradients);
    T_RUN(test_tape);
    T_RUN_TARGETS(test_conv);
    T_RUN_TARGETS(test_threads);
#ifndef TINY_NO_CONFORM
    T_RUN_TARGETS(test_conform);
#endif
    T_RUN(test_bad);
    return t_done();
}
