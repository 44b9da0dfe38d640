/* tests/gnn/equivariant/product_code.c - programs: registers that are read in every way, their gradients against
 * derivatives by hand, registers that are used again */
#define T_INTERNALS
#include "t.h"
#include "gnn/equivariant/product_inside.h"

/* u = x0^2 + 3 x0 + 2 x1;  v = 5 u x1 + 7 u;  out = (u v, v, x1, 4): x0 and u stand in linear rows and in pairs, x0
 * twice in one pair, and nothing reads y1 */
static void program(tiny_ctx *ctx, tinyi_pc *pc)
{
    int u, v, out, k;
    tinyi_pc_begin(pc, ctx, 2, 2, 0, 0);
    u = tinyi_pc_regs(pc, 1);
    v = tinyi_pc_regs(pc, 1);
    out = tinyi_pc_regs(pc, 4);
    tinyi_pc_row(pc, u, TINYI_PC_PAIRS);
    tinyi_pc_term(pc, 1.0, 0, 0);
    tinyi_pc_row(pc, u, TINYI_PC_ADD);
    tinyi_pc_term(pc, 3.0, 0, -1);
    tinyi_pc_term(pc, 2.0, 1, -1);
    tinyi_pc_row(pc, v, TINYI_PC_PAIRS);
    tinyi_pc_term(pc, 5.0, u, 1);
    tinyi_pc_row(pc, v, TINYI_PC_ADD);
    tinyi_pc_term(pc, 7.0, u, -1);
    tinyi_pc_row(pc, tinyi_pc_regs(pc, 1), 0);              /* read by nothing: left out */
    tinyi_pc_term(pc, 1.0, v, -1);
    for (k = 0; k < 4; k++) {
        tinyi_pc_row(pc, out + k, k == 0 ? TINYI_PC_PAIRS : 0);
        if (k == 0) tinyi_pc_term(pc, 1.0, u, v);
        if (k == 1) tinyi_pc_term(pc, 1.0, v, -1);
        if (k == 2) tinyi_pc_term(pc, 1.0, 1, -1);
        if (k == 3) tinyi_pc_term(pc, 4.0, 2, -1);
    }
    tinyi_pc_set_out(pc, out, 4);
    T_TRUE(tinyi_pc_operations(pc) == 1 + 2 + 2 + 1 + 1 + 1 + 1 + 1 + 1);
}

static void test_gradient(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double x[2] = { 0.75, -1.5 }, y[2] = { 0.5, 9 }, g[4] = { 1.25, -0.5, 2, 3 }, out[4], dx[2], dy[2];
    const double u = 0.75 * 0.75 + 3 * 0.75 + 2 * -1.5, v = 5 * u * -1.5 + 7 * u;
    const double gv = 1.25 * u - 0.5, gu = 1.25 * v + gv * (5 * -1.5 + 7);
    tinyi_pc pc, back;
    tinyi_program forward, reverse;
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F64, 1, 1, 2), ty = tiny_tensor_3d(y, TINY_F64, 1, 1, 2),
                tg = tiny_tensor_3d(g, TINY_F64, 1, 1, 4), to = tiny_tensor_3d(out, TINY_F64, 1, 1, 4),
                tdx = tiny_tensor_3d(dx, TINY_F64, 1, 1, 2), tdy = tiny_tensor_3d(dy, TINY_F64, 1, 1, 2),
                none = tiny_tensor_3d(NULL, TINY_F64, 1, 1, 0);
    tiny_op op;
    program(ctx, &pc);
    tinyi_pc_reverse(&back, &pc);
    T_OK(tinyi_pc_finish(&pc, &forward));
    T_OK(tinyi_pc_finish(&back, &reverse));
    T_EQ_INT(((int32_t *)forward.code.data)[TINYI_PC_REGS], 4 + 2 + 4);
    memset(&op, 0, sizeof op);
    op.row = tgnn_product_row();
    op.kind = op.row->kind;
    op.in[0] = &tx;
    op.in[1] = &ty;
    op.in[2] = &forward.code;
    op.in[3] = &forward.coef;
    op.out[0] = &to;
    T_OK(tiny_run(ctx, &op));
    T_CLOSE(out[0], u * v, 1e-14);
    T_CLOSE(out[1], v, 1e-14);
    T_CLOSE(out[2], -1.5, 0);
    T_CLOSE(out[3], 2, 0);
    memset(&op, 0, sizeof op);
    op.row = tgnn_product_back_row();
    op.kind = op.row->kind;
    op.in[0] = &tx;
    op.in[1] = &ty;
    op.in[2] = &reverse.code;
    op.in[3] = &reverse.coef;
    op.in[4] = &tg;
    op.out[0] = &tdx;
    op.out[1] = &tdy;
    op.out[2] = &none;
    T_OK(tiny_run(ctx, &op));
    T_CLOSE(dx[0], gu * (2 * 0.75 + 3), 1e-13);
    T_CLOSE(dx[1], gu * 2 + gv * 5 * u + 2, 1e-13);
    T_CLOSE(dy[0], 12, 0);
    T_CLOSE(dy[1], 0, 0);
    op.in[2] = &forward.code;               /* a program of the other direction */
    op.in[3] = &forward.coef;
    T_TRUE(tiny_run(ctx, &op) != TINY_OK);
    tinyi_program_free(ctx, &forward);
    tinyi_program_free(ctx, &reverse);
    tinyi_pc_free(&pc);
    tinyi_pc_free(&back);
    t_close(ctx);
}

/* A chain of a thousand rows, each of which reads the one before: two registers are enough. */
static void test_registers(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tinyi_pc pc;
    tinyi_program p;
    int at = 0, k, next;
    tinyi_pc_begin(&pc, ctx, 1, 1, 0, 0);
    for (k = 0; k < 1000; k++, at = next) {
        next = tinyi_pc_regs(&pc, 1);
        tinyi_pc_row(&pc, next, 0);
        tinyi_pc_term(&pc, 2.0, at, -1);
    }
    tinyi_pc_set_out(&pc, at, 1);
    T_OK(tinyi_pc_finish(&pc, &p));
    T_TRUE(((int32_t *)p.code.data)[TINYI_PC_REGS] <= 2 + 2 + 1);
    tinyi_program_free(ctx, &p);
    tinyi_pc_free(&pc);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_gradient);
    T_RUN(test_registers);
    return t_done();
}
