/* tests/core/own_row.c - an operation outside the table: its row comes with the call */
#include "t.h"

static tiny_status triple_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    (void)ctx;
    want[0] = *op->in[0];
    return TINY_OK;
}
static float *at(const tiny_tensor *t, tiny_idx i, tiny_idx j)
{
    return (float *)t->data + i * t->stride[0] + j * t->stride[1];
}
static void triple(const tiny_op *op, tiny_idx i0, tiny_idx i1, float factor)
{
    tiny_idx i, j;
    for (i = i0; i < i1; i++)
        for (j = 0; j < op->in[0]->dim[1]; j++) *at(op->out[0], i, j) = factor * *at(op->in[0], i, j);
}
static void triple_ref(const tiny_op *op) { triple(op, 0, op->in[0]->dim[0], 3.0f); }
static void triple_fast(tiny_team *team, const tiny_op *op)
{
    tiny_idx i0, i1;
    while (tiny_take(team, op->in[0]->dim[0], 4, &i0, &i1)) triple(op, i0, i1, 3.0f);
}
static void triple_wrong(tiny_team *team, const tiny_op *op)
{
    if (team->i == 0) triple(op, 0, op->in[0]->dim[0], 3.000001f);
}
static void triple_cost(const tiny_op *op, tiny_cost *c)
{
    c->flops = (double)tiny_tensor_count(op->in[0]);
    c->bytes = 8.0 * c->flops;
}
static void triple_cases(tiny_case *c)
{
    tiny_idx dim[2];
    dim[0] = tiny_case_dim(c, 300);
    dim[1] = tiny_case_dim(c, 300);
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, 2, dim);
}

static tiny_op_row triple_row(int wrong)
{
    tiny_op_row r;
    memset(&r, 0, sizeof r);
    r.name = "triple";
    r.n_in = r.n_in_needed = r.n_out = 1;
    r.flags = TINY_OP_INPLACE;
    r.shape = triple_shape;
    r.ref = triple_ref;
    r.fast = wrong ? triple_wrong : triple_fast;
    r.cost = triple_cost;
    r.cases = triple_cases;
    r.bound.kind = TINY_BOUND_EXACT;
    return r;
}

static void test_run_and_record(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    const tiny_op_row row = triple_row(0);
    float x[6] = { 1, 2, 3, 4, 5, 6 }, y[6], z[6];
    tiny_tensor a = tiny_tensor_2d(x, TINY_F32, 2, 3), b = tiny_tensor_2d(y, TINY_F32, 2, 3),
                c = tiny_tensor_2d(z, TINY_F32, 2, 3), small = tiny_tensor_2d(y, TINY_F32, 1, 3);
    tiny_op op = { 0 }, next = { 0 };
    const tiny_op *list[2];
    tiny_recording *rec;
    tiny_tensor want;
    int i;
    op.row = &row;
    op.in[0] = &a;
    op.out[0] = &b;
    next = op;
    next.in[0] = &b;
    next.out[0] = &c;
    list[0] = &op;
    list[1] = &next;
    T_OK(tiny_record_start(ctx, &rec));
    T_OK(tiny_run_list(ctx, list, 2));
    T_OK(tiny_record_stop(ctx));
    for (i = 0; i < 6; i++) T_TRUE(y[i] == 3.0f * x[i] && z[i] == 9.0f * x[i]);
    T_EQ_INT(tiny_recording_count(rec), 2);
    T_TRUE(tiny_recording_at(rec, 1)->row == &row);
    tiny_recording_free(ctx, rec);
    T_OK(tiny_run_reference(ctx, &next));
    T_OK(tiny_op_shape(ctx, &op, &want));
    T_TRUE(want.dim[1] == 3 && tiny_op_cost(&op).flops == 6.0);
    op.kind = TINY_OP_RELU;                 /* a back end that knows relu would answer with it */
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "triple: its row is of kind 0, but the operation has kind");
    op.kind = row.kind;
    op.out[0] = &small;
    T_STATUS(tiny_run(ctx, &op), TINY_E_SHAPE, "triple: output 0 is 1x3 f32, it must be 2x3 f32");
    op.in[0] = NULL;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "triple: input 0 is missing");
    t_close(ctx);
}

/* A row from outside states how much is indexed and copied. A row of the table needs its kind as well, since families
 * test the kind. */
static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    static const char params[1000] = { 0 };
    float x[6] = { 1, 2, 3, 4, 5, 6 }, y[6];
    tiny_tensor a = tiny_tensor_2d(x, TINY_F32, 2, 3), b = tiny_tensor_2d(y, TINY_F32, 2, 3);
    tiny_recording *rec;
    int k;
    T_OK(tiny_record_start(ctx, &rec));
    for (k = 0; k < 7; k++) {
        tiny_op_row row = triple_row(0);
        tiny_op op = { 0 };
        if (k == 0) row.params_size = sizeof params;
        if (k == 1) row.n_in = TINY_OP_MAX_IN + 1;
        if (k == 2) row.n_out = TINY_OP_MAX_OUT + 1;
        if (k == 3) row.n_out = 0;
        if (k == 4) row.shape = NULL;
        if (k == 5) row.name = NULL;
        op.row = k == 6 ? tiny_op_find("add") : &row;
        op.params = params;
        op.in[0] = &a;
        if (k == 6) op.in[1] = &a;
        op.out[0] = &b;
        T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, k == 6 ? "add: its row is of kind" : "");
        T_STATUS(tiny_run_reference(ctx, &op), TINY_E_ARGUMENT, NULL);
        if (k < 6) continue;
        op.kind = op.row->kind;
        op.params = NULL;
        T_OK(tiny_run(ctx, &op));
        T_CLOSE(y[5], 12, 0);
    }
    T_OK(tiny_record_stop(ctx));
    tiny_recording_free(ctx, rec);
    t_close(ctx);
}

/* The kit judges the row, and the case that fails is the fault's, not the kit's. */
static void test_conformance(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    tiny_op_row right = triple_row(0), wrong = triple_row(1);
    const tiny_op_row *rows[3];
    tiny_conform_desc desc;
    int failed = -1;
    memset(&desc, 0, sizeof desc);
    rows[0] = &right;
    rows[1] = NULL;
    desc.rows = rows;
    T_OK(tiny_conform(ctx, &desc, &failed));
    T_EQ_INT(failed, 0);
    desc.op = "softmax";
    T_STATUS(tiny_conform(ctx, &desc, &failed), TINY_E_ARGUMENT, "no operation named softmax");
    rows[0] = &wrong;
    desc.op = "triple";
    T_OK(tiny_conform(ctx, &desc, &failed));
    T_TRUE(target == TINY_TARGET_REFERENCE ? failed == 0 : failed > 0);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_refused);
    T_RUN(test_run_and_record);
    T_RUN_TARGETS(test_conformance);
    return t_done();
}
