/* tests/llm/ops.c - the operations of language models have kinds: each is found, and the kind alone runs it */
#include "t.h"

#define KIND(kind, row, here) { kind, row },
static const struct { int kind; const tiny_op_row *(*row)(void); } listed[] = { TINYI_OPS_LLM(KIND) };
#undef KIND

/* Numbers that are compiled into programs: a changed one is a fault. */
static void test_numbers(void)
{
    T_EQ_INT(TLLM_OP_MATMUL_BLOCKS, 1001);
    T_EQ_INT(TLLM_OP_PAGED_ATTENTION, 1002);
    T_EQ_INT(TLLM_OP_LATENT_ATTENTION, 1003);
    T_EQ_INT(TLLM_OP_MIX_ROWS, 1004);
    T_EQ_INT(TLLM_OP_BIPOLAR, 1005);
    T_EQ_INT(TLLM_OP_FLASH_MATMUL, 1006);
    T_EQ_INT(TLLM_OP_VPTQ_MATMUL, 1007);
    T_EQ_INT(TLLM_OP_TOME_MERGE, 1008);
    T_EQ_INT(TLLM_OP_TOME_MERGE_BACKWARD, 1009);
    T_EQ_INT(TLLM_OP_TURN_PAIRS, 1010);
    T_EQ_INT(TLLM_OP_PUT_ROWS, 1011);
    T_TRUE((int)TINY_OP_COUNT < TINY_OP_BASE_LLM && (int)TLLM_OP_END <= TINY_OP_BASE_GNN);
}

static void test_table(void)
{
    const tiny_op_row *row;
    size_t i, n = 0;
    for (i = 0; (row = tiny_op_at(i)) != NULL; i++)
        if (row->kind > TINY_OP_BASE_LLM) {
            T_TRUE(row->kind < TLLM_OP_END && row->flags & TINY_OP_LOOSE);
            T_TRUE(n < T_COUNT(listed) && row->kind == listed[n].kind && row == listed[n].row());
            n++;
        } else T_EQ_INT(n, 0);
    T_EQ_INT(n, T_COUNT(listed));
    for (i = 0; i < T_COUNT(listed); i++) {
        row = listed[i].row();
        T_EQ_INT(row->kind, listed[i].kind);
        T_TRUE(tiny_op_row_of(row->kind) == row && tiny_op_find(row->name) == row);
    }
    T_TRUE(!tiny_op_row_of(TLLM_OP_NONE) && !tiny_op_row_of(TLLM_OP_END) && !tiny_op_row_of(TINY_OP_BASE_GNN + 1) &&
           !tiny_op_find("a2q"));
}

enum { N = 3, OUT = 5, IN = 64 };

static int seen_kind;
static int can_run(void *user, const tiny_op *op, const tiny_op_row *row)
{
    (void)user;
    seen_kind = op->kind;
    T_TRUE(row == tllm_matmul_row());
    return 0;
}
static tiny_status never_run(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    (void)user; (void)op; (void)row; (void)says;
    return TINY_E_UNSUPPORTED;
}

/* matmul_blocks by its kind alone, by its row alone as before it had a kind, and by both: one answer. */
static void test_by_kind(tiny_target target)
{
    const tllm_format *f = tllm_format_by_name("Q8_0");
    const size_t row_bytes = (size_t)tllm_format_bytes(f, IN);
    unsigned char *w = (unsigned char *)t_keep(OUT * row_bytes);
    float *x = t_rand(N * IN, -1, 1), *dense = t_rand(OUT * IN, -1, 1), want[N * OUT], got[N * OUT];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, IN), tw = tiny_tensor_2d(w, TINY_U8, OUT, (tiny_idx)row_bytes),
                ty = tiny_tensor_2d(got, TINY_F32, N, OUT), shape[TINY_OP_MAX_OUT];
    tllm_matmul_params p;
    tiny_accel back;
    tiny_ctx_desc desc;
    tiny_recording *rec = NULL;
    const tiny_op *list[2], *done;
    tiny_op op;
    tiny_ctx *ctx = t_ctx(target, 2), *watched = NULL;
    int way, i;
    for (i = 0; i < OUT; i++) f->pack(dense + i * IN, w + (size_t)i * row_bytes, IN, NULL);
    memset(&p, 0, sizeof p);
    p.format = f->id;
    memset(&desc, 0, sizeof desc);
    memset(&back, 0, sizeof back);
    back.version = TINY_ACCEL_VERSION;
    back.name = "eyes";
    back.can_run = can_run;
    back.run = never_run;
    desc.target = target;
    desc.n_threads = 2;
    desc.accel = &back;
    T_OK(tiny_ctx_open(&desc, &watched));
    ty.data = want;
    T_OK(tllm_matmul(ctx, &tx, f->id, &tw, NULL, &ty));
    ty.data = got;
    for (way = 0; way < 3; way++) {
        memset(&op, 0, sizeof op);
        op.kind = way == 1 ? 0 : TLLM_OP_MATMUL_BLOCKS;
        op.row = way == 0 ? NULL : tllm_matmul_row();
        op.in[0] = &tx;
        op.in[1] = &tw;
        op.out[0] = &ty;
        op.params = &p;
        memset(got, 0, sizeof got);
        T_OK(tiny_run(ctx, &op));
        T_SAME(got, want, N * OUT);
        memset(got, 0, sizeof got);
        list[0] = list[1] = &op;
        T_OK(tiny_record_start(ctx, &rec));
        T_OK(tiny_run_list(ctx, list, 2));
        T_OK(tiny_record_stop(ctx));
        T_SAME(got, want, N * OUT);
        done = tiny_recording_at(rec, 1);
        T_TRUE(done && done->kind == TLLM_OP_MATMUL_BLOCKS);
        tiny_recording_free(ctx, rec);
        memset(shape, 0, sizeof shape);
        T_OK(tiny_op_shape(ctx, &op, shape));
        T_TRUE(shape[0].dim[0] == N && shape[0].dim[1] == OUT && tiny_op_cost(&op).flops > 0);
        seen_kind = 0;
        T_OK(tiny_run(watched, &op));
        T_EQ_INT(seen_kind, TLLM_OP_MATMUL_BLOCKS);
        T_OK(tiny_run_reference(ctx, &op));
    }
    op.kind = TLLM_OP_MIX_ROWS;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "its row is of kind 1001, but the operation has kind 1004");
    op.kind = TLLM_OP_END;
    op.row = NULL;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "operation kind 1012 is unknown");
    tiny_ctx_close(watched);
    t_close(ctx);
}

/* The kit finds them by name, without rows. */
static void test_by_name(tiny_target target)
{
    static const char *const names[] = { "matmul_blocks", "paged_attention", "latent_attention",
                                         "mix_rows",      "turn_pairs",      "put_rows" };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t i;
    for (i = 0; i < T_COUNT(names); i++) {
        tiny_conform_desc kit;
        int n_failed = -1;
        memset(&kit, 0, sizeof kit);
        kit.op = names[i];
        kit.n_cases = 4;
        T_OK(tiny_conform(ctx, &kit, &n_failed));
        T_EQ_INT(n_failed, 0);
    }
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_numbers);
    T_RUN(test_table);
    T_RUN_TARGETS(test_by_kind);
    T_RUN_TARGETS(test_by_name);
    return t_done();
}
