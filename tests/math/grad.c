/* tests/math/grad.c - every row that has a gradient, against central differences in double; the rows that have none, by
 * name
 *
 * Cases come from the rows' own generators; those of at most MOST numbers are taken. The loss is sum dy y over all
 * outputs, dy random. Inputs are dense, or stored with their last two axes exchanged. h = 1e-5: the difference is off
 * by h^2/6 of the third derivative and 1e-16 / h of the loss, both below 1e-9 for numbers of order one. */
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

#define MOST 700
#define CASES 8
#define PROBES 24                           /* numbers of each input that are moved */

static const char *const without[] = { "convert",
                                       "quantize_i8",
                                       "dequantize_i8",
                                       "argmax",
                                       "matmul_i8",
                                       "topk",
                                       "cumsum",
                                       "fft",
                                       "rfft",
                                       "irfft",
                                       "slope",
                                       "gla_backward",
                                       "twist_backward",
                                       "matmul_blocks",
                                       "paged_attention",
                                       "latent_attention",
                                       "mix_rows",
                                       "bipolar",
                                       "flash_matmul",
                                       "vptq_matmul",
                                       "tome_merge_backward",
                                       "turn_pairs",
                                       "put_rows" };

static int is_real(tiny_dtype t) { return t == TINY_F32 || t == TINY_F16 || t == TINY_BF16 || t == TINY_F64; }

static double normal(void)
{
    double s = 0.0;
    int i;
    for (i = 0; i < 12; i++) s += (double)t_rand_float(0, 1);
    return s - 6.0;
}

/* where the function is smooth */
static double number(const tiny_op_row *row, int i, tiny_fill fill)
{
    double x = normal();
    if (!strcmp(row->name, "log") || !strcmp(row->name, "sqrt") || !strcmp(row->name, "rsqrt") ||
        fill == TINY_FILL_POSITIVE)
        return 0.2 + fabs(x);
    if (!strcmp(row->name, "gla") && i == 4) return -fabs(x);               /* a gate */
    if (!strcmp(row->name, "div") && i == 1) return x < 0 ? x - 0.5 : x + 0.5;
    return x;
}

typedef struct problem {
    const tiny_op_row *row;
    tiny_op op;
    tiny_tensor in[TINY_OP_MAX_IN], out[TINY_OP_MAX_OUT], dy[TINY_OP_MAX_OUT];
    tiny_param param[TINY_OP_MAX_IN];
    int is_param[TINY_OP_MAX_IN];
} problem;

static tiny_idx numbers(const tiny_case *c, int n_in)
{
    tiny_idx n = 0;
    int i;
    for (i = 0; i < n_in; i++)
        if (c->in[i].rank >= 0) n += tiny_tensor_count(&c->in[i]);
    return n;
}

/* a case of the row in doubles; 0: too large, or not possible */
static int make(tiny_ctx *ctx, const tiny_op_row *row, tiny_case *c, problem *p, int swapped)
{
    int i, j;
    tiny_idx k;
    memset(p, 0, sizeof *p);
    p->row = row;
    p->op.kind = row->kind;
    p->op.row = tiny_op_row_of(row->kind) == row ? NULL : row;
    if (numbers(c, row->n_in) > MOST) return 0;
    for (i = 0; i < row->n_in; i++) {
        tiny_idx n, dim[TINY_MAX_RANK];
        int rank = c->in[i].rank, turn;
        if (rank < 0) continue;
        memcpy(dim, c->in[i].dim, sizeof dim);
        for (j = rank; j < TINY_MAX_RANK; j++) dim[j] = 1;
        n = tiny_tensor_count(&c->in[i]);
        if (n == 0) return 0;
        p->op.in[i] = &p->in[i];
        if (c->fill[i] == TINY_FILL_TABLE && !is_real(c->in[i].dtype)) {
            void *table = t_keep((size_t)n * tiny_dtype_bytes(c->in[i].dtype));
            c->fill_table(c, i, table);
            p->in[i] = tiny_tensor_nd(table, c->in[i].dtype, rank, dim);
            continue;
        }
        if (c->fill[i] == TINY_FILL_INDEX || !is_real(c->in[i].dtype)) {
            int32_t *at = (int32_t *)t_keep((size_t)n * sizeof *at);
            int64_t *wide = (int64_t *)t_keep((size_t)n * sizeof *wide);
            if (c->fill[i] != TINY_FILL_INDEX) return 0;
            for (k = 0; k < n; k++)
                wide[k] = at[k] = (int32_t)t_rand_below((uint32_t)(c->limit[i] > 0 ? c->limit[i] : 1));
            p->in[i] =
                tiny_tensor_nd(c->in[i].dtype == TINY_I64 ? (void *)wide : (void *)at, c->in[i].dtype, rank, dim);
            continue;
        }
        turn = swapped && rank >= 2 && !c->dense[i];
        if (turn) {
            tiny_idx d = dim[rank - 1];
            dim[rank - 1] = dim[rank - 2];
            dim[rank - 2] = d;
        }
        p->is_param[i] = 1;
        p->param[i].name = row->name;
        p->param[i].value = tiny_tensor_nd(t_keep((size_t)n * sizeof(double)), TINY_F64, rank, dim);
        p->param[i].grad = tiny_tensor_nd(t_keep((size_t)n * sizeof(double)), TINY_F64, rank, dim);
        for (k = 0; k < n; k++) ((double *)p->param[i].value.data)[k] = number(row, i, c->fill[i]);
        p->in[i] = turn ? tiny_tensor_swap(p->param[i].value, rank - 1, rank - 2) : p->param[i].value;
    }
    p->op.params = row->params_size ? c->params.bytes : NULL;
    if (tiny_op_shape(ctx, &p->op, p->out)) return 0;
    for (i = 0; i < row->n_out; i++) {
        tiny_idx n;
        p->out[i] = tiny_tensor_nd(ctx, p->out[i].dtype, p->out[i].rank, p->out[i].dim);
        n = tiny_tensor_count(&p->out[i]);
        p->out[i].data = t_keep((size_t)n * sizeof(double));
        p->op.out[i] = &p->out[i];
        p->dy[i] = tiny_tensor_nd(t_keep((size_t)n * sizeof(double)), TINY_F64, p->out[i].rank, p->out[i].dim);
        for (k = 0; k < n; k++) ((double *)p->dy[i].data)[k] = normal();
    }
    return 1;
}

static double loss_of(tiny_ctx *ctx, problem *p)
{
    double sum = 0.0;
    tiny_idx k;
    int i;
    for (i = 0; i < p->row->n_out; i++)
        memset(p->out[i].data, 0, (size_t)tiny_tensor_count(&p->out[i]) * sizeof(double));
    T_OK(tiny_run_reference(ctx, &p->op));
    for (i = 0; i < p->row->n_out; i++)
        for (k = 0; k < tiny_tensor_count(&p->out[i]); k++)
            sum += ((double *)p->dy[i].data)[k] * ((double *)p->out[i].data)[k];
    return sum;
}

/* The gradients of the tape against differences: the largest error relative to the largest gradient of its input. */
static double check(tiny_ctx *ctx, problem *p)
{
    tiny_tape_desc d = { 0 };
    tiny_tape *tape;
    tiny_tensor out[TINY_OP_MAX_OUT], loss, part;
    tiny_reduce_params all = { 0, 0, 0 };
    tiny_op op = p->op;
    double worst = 0.0, scale;
    tiny_idx k, n, at;
    int i, j;
    all.all = 1;
    d.bytes = 1 << 22;
    T_OK(tiny_tape_open(ctx, &d, &tape));
    for (i = 0; i < TINY_OP_MAX_OUT; i++) op.out[i] = NULL;
    for (i = 0; i < p->row->n_in; i++)
        if (p->is_param[i]) T_OK(tiny_tape_param(tape, &p->param[i]));
    T_OK(tiny_tape_op(tape, &op, out));
    memset(&loss, 0, sizeof loss);
    for (i = 0; i < p->row->n_out; i++) {
        part = tiny_tape_call(tape, TINY_OP_DOT, &out[i], &p->dy[i], NULL, NULL, &all);
        loss = i ? tiny_tape_add(tape, &loss, &part) : part;
    }
    if (!T_OK(tiny_tape_backward(tape, &loss, NULL))) worst = INFINITY;
    tiny_tape_close(tape);
    for (i = 0; i < p->row->n_in && worst < 1.0; i++) {
        double *x, *g;
        if (!p->is_param[i]) continue;
        x = (double *)p->param[i].value.data;
        g = (double *)p->param[i].grad.data;
        n = tiny_tensor_count(&p->param[i].value);
        for (k = 0, scale = 1e-3; k < n; k++) scale = fmax(scale, fabs(g[k]));
        for (j = 0; j < PROBES; j++) {
            const double h = 1e-5, keep = x[at = (tiny_idx)t_rand_below((uint32_t)n)];
            double up, down;
            x[at] = keep + h;
            up = loss_of(ctx, p);
            x[at] = keep - h;
            down = loss_of(ctx, p);
            x[at] = keep;
            worst = fmax(worst, fabs((up - down) / (2 * h) - g[at]) / scale);
            if (!(worst < INFINITY)) return worst;
        }
    }
    return worst;
}

/* cases of one row; returns how many */
static int check_row(tiny_ctx *ctx, const tiny_op_row *row, double *worst)
{
    int done = 0, i;
    *worst = 0.0;
    for (i = 0; i < 4000 && done < CASES; i++) {
        tiny_case c;
        problem p;
        double e;
        memset(&c, 0, sizeof c);
        c.rng = tiny_rng_make((uint64_t)i, 99);
        c.index = i;
        row->cases(&c);
        if (!make(ctx, row, &c, &p, done & 1)) continue;
        e = check(ctx, &p);
        if (e > *worst || e != e) *worst = e;
        if (!(e <= 1e-6)) printf("    %s: case %d is off by %.2g\n", row->name, i, e);
        done++;
        t_free_blocks();
    }
    return done;
}

static void test_every_row(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_op_row *row;
    size_t i, none = 0;
    double worst, most = 0.0;
    int n, rows = 0, cases = 0;
    for (i = 0; (row = tiny_op_at(i)) != NULL; i++) {
        if (!row->grad) {
            T_TRUE(none < T_COUNT(without));
            if (none < T_COUNT(without)) T_EQ_TEXT(row->name, without[none]);
            none++;
            continue;
        }
        if (!strcmp(row->name, "round")) continue;      /* straight through on purpose: test_round */
        /* sizes and matches are no parameters: tests/llm/lab/vision/merge.c */
        if (!strcmp(row->name, "tome_merge")) continue;
        n = check_row(ctx, row, &worst);
        T_TRUE(n >= 3);
        if (n < 3) printf("    %s: only %d cases are small enough\n", row->name, n);
        T_TRUE(worst <= 1e-6);
        most = fmax(most, worst);
        rows++;
        cases += n;
    }
    T_EQ_INT(none, T_COUNT(without));
    printf("    gradients of %d rows, %d cases: largest relative error %.2g\n", rows, cases, most);
    t_close(ctx);
}

static void test_round(void)
{
    double x[3] = { 0.4, -1.6, 2.5 }, g[3], dy[3] = { 1, 2, 3 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_param p;
    tiny_tape *tape;
    tiny_tensor y, d = tiny_tensor_1d(dy, TINY_F64, 3);
    memset(&p, 0, sizeof p);
    p.value = tiny_tensor_1d(x, TINY_F64, 3);
    p.grad = tiny_tensor_1d(g, TINY_F64, 3);
    T_OK(tiny_tape_open(ctx, NULL, &tape));
    T_OK(tiny_tape_param(tape, &p));
    y = tiny_tape_call(tape, TINY_OP_ROUND, &p.value, NULL, NULL, NULL, NULL);
    T_OK(tiny_tape_backward(tape, &y, &d));
    T_CLOSE(((double *)y.data)[0], 0, 0);
    T_CLOSE(((double *)y.data)[1], -2, 0);
    T_CLOSE(((double *)y.data)[2], 2, 0);
    T_SAME(g, dy, 3);
    tiny_tape_close(tape);
    t_close(ctx);
}

/* a row of our own whose gradient lacks a factor, has a wrong sign, skips an input: all are found */
static int wrong;
static tiny_status wrong_grad(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *dy = tiny_grad_of(g, 0);
    tiny_tensor t;
    tiny_status st = tiny_grad_run(g, TINY_OP_MUL, dy, op->in[1], NULL, &t);
    if (st) return st;
    st = wrong == 1   ? tiny_grad_give(g, 0, TINY_OP_NEG, &t, NULL, NULL)
         : wrong == 2 ? tiny_grad_add(g, 0, dy)
                      : tiny_grad_add(g, 0, &t);
    if (st || wrong == 3) return st;
    return tiny_grad_give(g, 1, TINY_OP_MUL, dy, op->in[0], NULL);
}

static void test_a_wrong_gradient_is_caught(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_op_row row = *tiny_op_row_of(TINY_OP_SWIGLU);
    const tiny_op_row *mul = tiny_op_row_of(TINY_OP_MUL);
    row.name = "my_mul";
    row.kind = TINY_OP_MUL;
    row.ref = mul->ref;
    row.shape = mul->shape;
    row.fast = mul->fast;
    row.grad = wrong_grad;
    for (wrong = 0; wrong < 4; wrong++) {
        tiny_case c;
        problem p;
        double e;
        int i;
        for (i = 0; i < 1000; i++) {
            memset(&c, 0, sizeof c);
            c.rng = tiny_rng_make((uint64_t)i, 5);
            c.index = i;
            row.cases(&c);
            if (numbers(&c, 2) > 8 && make(ctx, &row, &c, &p, 0)) break;
        }
        e = check(ctx, &p);
        T_TRUE(wrong ? e > 0.01 : e <= 1e-6);
    }
    t_close(ctx);
}

/* the fast path in f32 against f64 on each target, where no small case is badly conditioned */
static void test_fast_path(tiny_target target)
{
    static const char *const rows[] = { "matmul",      "conv2d",        "conv1d", "attention", "rmsnorm",  "layernorm",
                                        "groupnorm",   "swiglu",        "gelu",   "silu",      "tanh",     "softmax",
                                        "log_softmax", "cross_entropy", "rope",   "gather",    "avg_pool", "im2col",
                                        "col2im",      "add",           "mul",    "sum",       "mean",     "fwht" };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t r;
    for (r = 0; r < T_COUNT(rows); r++) {
        const tiny_op_row *row = tiny_op_find(rows[r]);
        int done = 0, i, j;
        tiny_idx k;
        T_TRUE(row != NULL);
        for (i = 0; row && i < 4000 && done < 4; i++) {
            tiny_param narrow[TINY_OP_MAX_IN];
            tiny_tensor in[TINY_OP_MAX_IN], out[TINY_OP_MAX_OUT], loss, dy;
            tiny_tape_desc d = { 0 };
            tiny_tape *tape;
            tiny_reduce_params all = { 0, 0, 0 };
            tiny_case c;
            tiny_op op;
            problem p;
            all.all = 1;
            memset(&c, 0, sizeof c);
            c.rng = tiny_rng_make((uint64_t)i, 77);
            c.index = i;
            row->cases(&c);
            if (!make(ctx, row, &c, &p, 0)) continue;
            if (!(check(ctx, &p) <= 1e-6)) T_TRUE(!"the gradient in double");
            done++;
            op = p.op;
            d.bytes = 1 << 22;
            T_OK(tiny_tape_open(ctx, &d, &tape));
            for (j = 0; j < TINY_OP_MAX_OUT; j++) op.out[j] = NULL;
            for (j = 0; j < row->n_in; j++) {
                if (!op.in[j] || !p.is_param[j]) continue;
                narrow[j] = p.param[j];
                narrow[j].value = tiny_tensor_nd(t_keep((size_t)tiny_tensor_count(&p.in[j]) * 4), TINY_F32,
                                                 p.in[j].rank, p.in[j].dim);
                narrow[j].grad = tiny_tensor_nd(t_keep((size_t)tiny_tensor_count(&p.in[j]) * 4), TINY_F32, p.in[j].rank,
                                                p.in[j].dim);
                for (k = 0; k < tiny_tensor_count(&p.in[j]); k++)
                    ((float *)narrow[j].value.data)[k] = (float)((double *)p.in[j].data)[k];
                in[j] = narrow[j].value;
                op.in[j] = &in[j];
                T_OK(tiny_tape_param(tape, &narrow[j]));
            }
            dy = tiny_tensor_nd(t_keep((size_t)tiny_tensor_count(&p.dy[0]) * 4), TINY_F32, p.dy[0].rank, p.dy[0].dim);
            for (k = 0; k < tiny_tensor_count(&dy); k++) ((float *)dy.data)[k] = (float)((double *)p.dy[0].data)[k];
            T_OK(tiny_tape_op(tape, &op, out));
            loss = tiny_tape_call(tape, TINY_OP_DOT, &out[0], &dy, NULL, NULL, &all);
            T_OK(tiny_tape_backward(tape, &loss, NULL));
            for (j = 0; j < row->n_in; j++) {
                double scale = 1e-3, worst = 0.0;
                const double *g;
                if (!op.in[j] || !p.is_param[j]) continue;
                g = (const double *)p.param[j].grad.data;
                for (k = 0; k < tiny_tensor_count(&p.in[j]); k++) scale = fmax(scale, fabs(g[k]));
                for (k = 0; k < tiny_tensor_count(&p.in[j]); k++)
                    worst = fmax(worst, fabs(((float *)narrow[j].grad.data)[k] - g[k]) / scale);
                if (!(worst <= 1e-4)) printf("    %s: case %d, input %d: f32 is off by %.2g\n", row->name, i, j, worst);
                T_TRUE(worst <= 1e-4);      /* some hundred roundings of numbers of order one */
            }
            tiny_tape_close(tape);
            t_free_blocks();
        }
        T_TRUE(done >= 2);
    }
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_every_row);
    T_RUN(test_round);
    T_RUN(test_a_wrong_gradient_is_caught);
    T_RUN_TARGETS(test_fast_path);
    return t_done();
}
#endif
