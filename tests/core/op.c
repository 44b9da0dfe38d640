/* tests/core/op.c - tiny_run: arguments that are refused before anything is touched, lists, recordings */
#include "t.h"

static tiny_op op_of(int kind, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = kind;
    op.in[0] = a;
    op.in[1] = b;
    op.out[0] = y;
    return op;
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    float x[32] = { 0 }, z[32];
    tiny_tensor a = tiny_tensor_2d(x, TINY_F32, 4, 4), y = tiny_tensor_2d(z, TINY_F32, 4, 4), t;
    tiny_op op = op_of(TINY_OP_ADD, &a, &a, &y);
    T_OK(tiny_run(ctx, &op));
    T_STATUS(tiny_run(ctx, NULL), TINY_E_ARGUMENT, "no operation");
    op.kind = 0;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "operation kind 0 is unknown");
    op.kind = -5;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "operation kind -5 is unknown");
    op.kind = TINY_OP_COUNT;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "is unknown");
    op.kind = TINY_OP_BASE_LLM;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "operation kind 1000 is unknown");
    op.kind = INT_MAX;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "is unknown");
    op = op_of(TINY_OP_ATTENTION, &a, NULL, &y);
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "attention: input 1 is missing");
    op = op_of(TINY_OP_ADD, &a, &a, NULL);
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "add: output 0 is missing");
    op = op_of(TINY_OP_ADD, &a, &a, &y);
    op.in[2] = &a;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "add: input 2 is given");
    op.in[2] = NULL;
    op.out[1] = &y;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "add: output 1 is given");
    op = op_of(TINY_OP_ADD, &t, &a, &y);
    t = a; t.dim[0] = -4;
    T_STATUS(tiny_run(ctx, &op), TINY_E_SHAPE, "add: input 0: a dimension is negative");
    t = a; t.data = NULL;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "add: input 0: its data is missing");
    t = a; t.dtype = (tiny_dtype)50;
    T_STATUS(tiny_run(ctx, &op), TINY_E_DTYPE, "its data type is unknown");
    t = a; t.stride[0] = TINY_IDX_MAX / 2;
    T_STATUS(tiny_run(ctx, &op), TINY_E_OVERFLOW, "larger than this machine can address");
    op = op_of(TINY_OP_ADD, &a, &a, &t);
    t = tiny_tensor_2d(z, TINY_F32, 4, 3);
    T_STATUS(tiny_run(ctx, &op), TINY_E_SHAPE, "add: output 0 is 4x3 f32, it must be 4x4 f32");
    t = tiny_tensor_2d(z, TINY_I32, 4, 4);
    T_STATUS(tiny_run(ctx, &op), TINY_E_DTYPE, "add: output 0 is 4x4 i32");
    t_close(ctx);
}

static void test_aliasing(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    const tiny_scale_params scale = { 2.0f, 0.0f };
    const tiny_permute_params turn = { { 1, 0, 2, 3 } };
    float x[64] = { 0 };
    tiny_tensor a = tiny_tensor_2d(x, TINY_F32, 4, 4), b = tiny_tensor_2d(x + 32, TINY_F32, 4, 4),
                y = tiny_tensor_2d(x + 1, TINY_F32, 4, 4);
    tiny_op op = op_of(TINY_OP_ADD, &a, &b, &y);
    T_STATUS(tiny_run(ctx, &op), TINY_E_ALIAS, "add: output 0 overlaps input 0");
    y = tiny_tensor_2d(x + 15, TINY_F32, 4, 4);             /* one number in common, at the end and at the beginning */
    T_STATUS(tiny_run(ctx, &op), TINY_E_ALIAS, "add: output 0 overlaps input 0");
    y = tiny_tensor_2d(x + 17, TINY_F32, 4, 4);
    T_STATUS(tiny_run(ctx, &op), TINY_E_ALIAS, "add: output 0 overlaps input 1");
    y = tiny_tensor_2d(x + 16, TINY_F32, 4, 4);             /* side by side */
    b = tiny_tensor_2d(x + 32, TINY_F32, 4, 4);
    T_OK(tiny_run(ctx, &op));
    y = tiny_tensor_swap(a, 0, 1);          /* the same memory in another order */
    T_STATUS(tiny_run(ctx, &op), TINY_E_ALIAS, "overlaps input 0");
    y = a;                                  /* exactly in place is allowed */
    T_OK(tiny_run(ctx, &op));
    y = b;
    op.out[0] = &y;
    T_OK(tiny_run(ctx, &op));
    y = tiny_tensor_2d(x + 16, TINY_F32, 4, 4);
    y.stride[0] = 0;                        /* four rows at one place */
    T_STATUS(tiny_run(ctx, &op), TINY_E_ALIAS, "two elements of output 0 lie at the same address");
    y.stride[0] = 2;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ALIAS, "two elements of output 0");
    /* the same where all tensors are alike, as in the usual call */
    a.stride[0] = 1;
    b = a;
    y = a;
    b.data = x + 16;
    y.data = x + 32;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ALIAS, "two elements of output 0");
    a = y = tiny_tensor_2d(x, TINY_F32, 4, 4);
    op = op_of(TINY_OP_AXPY, &a, NULL, &y);     /* it adds to its output, which is no leave to read from there */
    op.params = &scale;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ALIAS, "axpy: output 0 overlaps input 0");
    a = tiny_tensor_2d(x, TINY_F32, 4, 2);
    y = tiny_tensor_2d(x + 16, TINY_F32, 4, 2);
    op = op_of(TINY_OP_PERMUTE, &a, NULL, &y);
    op.params = &turn;
    T_STATUS(tiny_run(ctx, &op), TINY_E_SHAPE, "permute: output 0 is 4x2 f32, it must be 2x4 f32");
    t_close(ctx);
}

static void test_empty(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    tiny_tensor e = tiny_tensor_2d(NULL, TINY_F32, 0, 5);
    tiny_op op = op_of(TINY_OP_ADD, &e, &e, &e);
    T_OK(tiny_run(ctx, &op));
    T_OK(tiny_run_reference(ctx, &op));
    t_close(ctx);
}

static void test_list(tiny_target target)
{
    enum { N = 100000 };                    /* large enough for several threads */
    tiny_ctx *ctx = t_ctx(target, 3);
    float *a = t_rand(N, -1.0f, 1.0f), *b = t_guarded(N), *c = t_guarded(N), *d = t_guarded(N);
    tiny_tensor ta = tiny_tensor_1d(a, TINY_F32, N), tb = tiny_tensor_1d(b, TINY_F32, N),
                tc = tiny_tensor_1d(c, TINY_F32, N), td = tiny_tensor_1d(d, TINY_F32, N);
    tiny_op ops[3];
    const tiny_op *list[3];
    int i, bad = 0;
    ops[0] = op_of(TINY_OP_ADD, &ta, &ta, &tb);
    ops[1] = op_of(TINY_OP_MUL, &tb, &ta, &tc);
    ops[2] = op_of(TINY_OP_SUB, &tc, &tb, &td);
    for (i = 0; i < 3; i++) list[i] = &ops[i];
    T_OK(tiny_run_list(ctx, list, 3));
    for (i = 0; i < N; i++) bad += d[i] != 2 * a[i] * a[i] - 2 * a[i];
    T_EQ_INT(bad, 0);
    T_OK(tiny_run_list(ctx, list, 0));
    list[1] = NULL;
    T_STATUS(tiny_run_list(ctx, list, 3), TINY_E_ARGUMENT, "no operation");
    T_STATUS(tiny_run_list(ctx, NULL, 3), TINY_E_ARGUMENT, "no list");
    t_close(ctx);
}

/* Rows that fill their requested workspace: a list takes the maximum of each kind, in any position. */
static tiny_status fill_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    (void)ctx;
    want[0] = *op->in[0];
    return TINY_OK;
}
static void fill_ref(const tiny_op *op) { (void)op; }
static void fill_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    (void)n_threads;
    *shared = op->row->name[0] == 's' ? 1 << 20 : 0;
    *own = op->row->name[0] == 'o' ? 1 << 19 : 0;
}
static void fill_fast(tiny_team *team, const tiny_op *op)
{
    float ok = 1.0f;
    if (op->row->name[0] == 's' && team->i == 0) {
        ok = team->shared ? 1.0f : 0.0f;
        if (team->shared) memset(team->shared, 1, 1 << 20);
    }
    if (op->row->name[0] == 'o') {
        ok = team->own ? 1.0f : 0.0f;
        if (team->own) memset(team->own, 1, 1 << 19);
    }
    if (team->i == 0) *(float *)op->out[0]->data = ok;
}
static void fill_cost(const tiny_op *op, tiny_cost *c) { (void)op; c->flops = c->bytes = 1e9; }

static void test_list_workspace(void)
{
    static const char *const name[] = { "shared", "own", "none" };
    static const int order[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 2, 0 }, { 0, 2, 2 }, { 1, 2, 2 } };
    size_t q;
    int i;
    for (q = 0; q < T_COUNT(order); q++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 3);
        tiny_op_row row[3];
        tiny_op ops[3];
        const tiny_op *list[3];
        float x[1] = { 0 }, y[3] = { 0 };
        tiny_tensor a = tiny_tensor_1d(x, TINY_F32, 1), out[3];
        for (i = 0; i < 3; i++) {
            memset(&row[i], 0, sizeof row[i]);
            row[i].name = name[order[q][i]];
            row[i].n_in = row[i].n_in_needed = row[i].n_out = 1;
            row[i].shape = fill_shape;
            row[i].ref = fill_ref;
            row[i].fast = fill_fast;
            row[i].work = fill_work;
            row[i].cost = fill_cost;
            out[i] = tiny_tensor_1d(y + i, TINY_F32, 1);
            ops[i] = op_of(0, &a, NULL, &out[i]);
            ops[i].row = &row[i];
            list[i] = &ops[i];
        }
        T_OK(tiny_run_list(ctx, list, 3));
        for (i = 0; i < 3; i++) T_CLOSE(y[i], 1, 0);
        t_close(ctx);
    }
}

static void test_recording(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tiny_recording *rec, *second;
    float x[16] = { 1, 2, 3 }, y[16];
    tiny_tensor a = tiny_tensor_2d(x, TINY_F32, 4, 4), b = tiny_tensor_2d(y, TINY_F32, 4, 4);
    const tiny_op *op;
    int i;
    T_OK(tiny_record_start(ctx, &rec));
    T_STATUS(tiny_record_start(ctx, &second), TINY_E_ARGUMENT, "recording already");
    for (i = 0; i < 150; i++) {
        tiny_tensor t = a;
        t.dim[0] = b.dim[0] = 1 + i % 4;
        T_OK(tiny_add(ctx, &t, &t, &b));
    }
    T_EQ_INT(tiny_add(ctx, NULL, &a, &b), TINY_E_ARGUMENT); /* the failed operation was not run */
    T_OK(tiny_record_stop(ctx));
    b = tiny_tensor_2d(y, TINY_F32, 4, 4);
    T_OK(tiny_add(ctx, &a, &a, &b));
    T_EQ_INT(tiny_recording_count(rec), 150);
    for (i = 0; (op = tiny_recording_at(rec, (size_t)i)) != NULL; i++) {
        T_EQ_INT(op->kind, TINY_OP_ADD);
        T_EQ_INT(op->in[0]->dim[0], 1 + i % 4);             /* copies: the caller's tensor is long gone */
        T_TRUE(op->in[0]->data == x && op->out[0]->data == y);
        if (op->in[0]->dim[0] == op->out[0]->dim[0]) T_OK(tiny_run(ctx, op));
    }
    T_EQ_INT(i, 150);
    T_STATUS(tiny_record_stop(ctx), TINY_E_ARGUMENT, "not recording");
    tiny_recording_free(ctx, rec);
    tiny_recording_free(ctx, NULL);
    t_close(ctx);
}

static void test_recording_without_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tiny_recording *rec = NULL;
        float x[4] = { 0 };
        float y[4];
        tiny_tensor a = tiny_tensor_1d(x, TINY_F32, 4);
        tiny_tensor b = tiny_tensor_1d(y, TINY_F32, 4);
        if (!tiny_ctx_open(&d, &ctx)) {
            if (!tiny_record_start(ctx, &rec)) {
                tiny_status st = tiny_add(ctx, &a, &a, &b);
                T_EQ_INT(st, TINY_OK);      /* a recording that finds no memory does not hurt the computation */
                st = tiny_record_stop(ctx);
                T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
                T_EQ_INT(tiny_recording_count(rec), st ? 0 : 1);
            }
            tiny_recording_free(ctx, rec);
            tiny_ctx_close(ctx);
        }
    })
}

static void test_table(void)
{
    const tiny_op_row *row;
    size_t i, j, shared = 0;
    for (i = 0; (row = tiny_op_at(i)) != NULL; i++) {
        shared += row->kind < TINY_OP_COUNT;
        T_TRUE(row->kind > TINY_OP_NONE &&
               (row->kind < TINY_OP_COUNT ? shared == i + 1
                                          : row->kind > TINY_OP_BASE_LLM && row->kind < TINY_OP_BASE_YOURS));
        T_TRUE(tiny_op_find(row->name) == row && tiny_op_row_of(row->kind) == row);
        T_TRUE(row->shape && row->ref && row->fast && row->cost && row->cases && row->formula && row->formula[0]);
        T_TRUE(row->n_in_needed <= row->n_in && row->n_in <= TINY_OP_MAX_IN && row->n_out >= 1 &&
               row->n_out <= TINY_OP_MAX_OUT);
        T_TRUE(row->params_size <= TINY_OP_MAX_PARAMS);
        for (j = 0; j < i; j++) T_TRUE(strcmp(tiny_op_at(j)->name, row->name) != 0 && tiny_op_at(j)->kind != row->kind);
        if (t_now.checks_failed) { printf("    at row %s\n", row->name); break; }
    }
    T_EQ_INT(shared, TINY_OP_COUNT - 1);    /* the others: tests/llm/ops.c, tests/gnn/ops.c */
    T_TRUE(tiny_op_find("no such") == NULL && tiny_op_find(NULL) == NULL && tiny_op_row_of(0) == NULL &&
           tiny_op_row_of(-1) == NULL);
}

int main(void)
{
    T_RUN(test_refused);
    T_RUN(test_aliasing);
    T_RUN_TARGETS(test_empty);
    T_RUN_TARGETS(test_list);
    T_RUN(test_list_workspace);
    T_RUN(test_recording);
    T_RUN(test_recording_without_memory);
    T_RUN(test_table);
    return t_done();
}
