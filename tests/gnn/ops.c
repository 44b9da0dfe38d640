/* tests/gnn/ops.c - the operations of graph networks have kinds: each is found, and the kind alone runs it */
#define T_GNN
#include "t.h"

static void test_table(void)
{
    const tiny_op_row *row;
    size_t i, n = 0;
    T_EQ_INT(TGNN_OP_A2Q, 2001);                /* programs were compiled with these numbers */
    T_EQ_INT(TGNN_OP_A2Q_BACK, 2002);
    T_EQ_INT(TGNN_OP_MODES, 2011);
    T_EQ_INT(TGNN_OP_MODES_MIX, 2013);
    for (i = 0; (row = tiny_op_at(i)) != NULL; i++)
        if (row->kind >= TINY_OP_COUNT) {
            T_TRUE(row->kind > TINY_OP_BASE_GNN && row->kind < TGNN_OP_END && row->flags & TINY_OP_LOOSE);
            T_TRUE(tiny_op_row_of(row->kind) == row && tiny_op_find(row->name) == row);
            n++;
        }
    T_EQ_INT(n, TGNN_OP_END - TGNN_OP_NONE - 1);
    T_TRUE(tiny_op_row_of(TGNN_OP_A2Q) == tgnn_a2q_row() && tiny_op_row_of(TGNN_OP_A2Q_BACK) == tgnn_a2q_back_row());
    T_TRUE(!tiny_op_row_of(TGNN_OP_NONE) && !tiny_op_row_of(TGNN_OP_END) && !tiny_op_row_of(TINY_OP_BASE_LLM + 1) &&
           !tiny_op_find("matmul_blocks"));
}

static void test_by_kind(tiny_target target)
{
    float *x = t_rand(12, -1, 1), step[4] = { 0.25f, 0.5f, 0.125f, 1.0f }, bits[4] = { 4, 3, 5, 8 }, want[12], got[12];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 4, 3), ts = tiny_tensor_1d(step, TINY_F32, 4),
                tb = tiny_tensor_1d(bits, TINY_F32, 4), ty = tiny_tensor_2d(want, TINY_F32, 4, 3);
    tiny_ctx *ctx = t_ctx(target, 2);
    char says[64];
    tiny_op op;
    memset(&op, 0, sizeof op);
    T_OK(tgnn_a2q(ctx, &tx, &ts, &tb, NULL, NULL, &ty));
    op.kind = TGNN_OP_A2Q;
    op.in[0] = &tx;
    op.in[1] = &ts;
    op.in[2] = &tb;
    op.out[0] = &ty;
    ty.data = got;
    T_OK(tiny_run(ctx, &op));
    T_SAME(got, want, 12);
    op.kind = TGNN_OP_END;
    (void)snprintf(says, sizeof says, "operation kind %d is unknown", (int)TGNN_OP_END);
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, says);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_table);
    T_RUN_TARGETS(test_by_kind);
    return t_done();
}
