/* src/core/op.c - the door: every operation is checked here, once, and then run */
#include "core/state_inside.h"
#include "core/conform.h"
#include "core/tune.h"
#include <string.h>

/* About what one thread does in a microsecond; below twenty of them a region costs more than it brings. */
#define TINYI_FLOPS_PER_US 16000.0
#define TINYI_BYTES_PER_US 8000.0
#define TINYI_US_PER_THREAD 10.0

static const char *tinyi_op_tensor_fault(tiny_status st)
{
    switch (st) {
    case TINY_E_DTYPE: return "its data type is unknown";
    case TINY_E_SHAPE: return "a dimension is negative";
    case TINY_E_OVERFLOW: return "its size is larger than this machine can address";
    default: return "its data is missing or its rank is not 0 to 4";
    }
}

static int tinyi_op_same_view(const tiny_tensor *a, const tiny_tensor *b)
{
    int i;
    if (a->data != b->data || a->dtype != b->dtype || a->rank != b->rank) return 0;
    for (i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i] || (a->dim[i] > 1 && a->stride[i] != b->stride[i])) return 0;
    return 1;
}

/* Two indices of an output must not name the same number: threads would race for it. Strides sorted by size
 * must each step over all that the smaller ones reach. */
static int tinyi_op_folds(const tiny_tensor *t)
{
    size_t step[TINY_MAX_RANK], dim[TINY_MAX_RANK], reach = 0;
    int i, j, n = 0;
    if (t->rank == 1) return t->dim[0] > 1 && t->stride[0] == 0;
    for (i = 0; i < t->rank; i++) {
        const size_t d = (size_t)t->dim[i],
                     s = t->stride[i] < 0 ? (size_t)0 - (size_t)t->stride[i] : (size_t)t->stride[i];
        if (d == 0) return 0;
        if (d == 1) continue;
        for (j = n++; j > 0 && step[j - 1] > s; j--) { step[j] = step[j - 1]; dim[j] = dim[j - 1]; }
        step[j] = s;
        dim[j] = d;
    }
    for (i = 0; i < n; i++) {
        if (step[i] <= reach) return 1;
        reach += step[i] * (dim[i] - 1);
    }
    return 0;
}

/* tinyi_tensor_reach of what is small and steps forward, here for the sake of the door: four numbers of a quarter of a
 * size_t less two bits, times 8 bytes, always fit; nothing, and less, is wide too. */
TINYI_FORCE_INLINE tiny_status tinyi_op_reach(const tiny_tensor *t, uintptr_t *first, uintptr_t *end)
{
    if ((unsigned)t->rank - 1 < TINY_MAX_RANK && t->data) {
        const size_t bytes = tiny_dtype_bytes(t->dtype);
        size_t wide = (size_t)t->dim[0] - 1, above = wide * (size_t)t->stride[0];
        int i;
        wide |= (size_t)t->stride[0];
        for (i = 1; i < t->rank; i++) {
            const size_t more = (size_t)t->dim[i] - 1, step = (size_t)t->stride[i];
            wide |= more | step;
            above += more * step;
        }
        if (!(wide >> (2 * sizeof(size_t) - 2)) && bytes) {
            *first = (uintptr_t)t->data;
            *end = *first + (above + 1) * bytes;
            return TINY_OK;
        }
    }
    return tinyi_tensor_reach(t, first, end);
}

static TINYI_NOINLINE tiny_status tinyi_op_check_all(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    tiny_tensor want[TINY_OP_MAX_OUT];
    uintptr_t in_first[TINY_OP_MAX_IN], in_end[TINY_OP_MAX_IN], out_first[TINY_OP_MAX_OUT], out_end[TINY_OP_MAX_OUT];
    char have_text[96], want_text[96];
    tiny_status st;
    int i, j;
    for (i = 0; i < row->n_in; i++) {
        if (!op->in[i]) {
            if (i >= row->n_in_needed) continue;
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: input %d is missing", row->name, i);
        }
        st = tinyi_op_reach(op->in[i], &in_first[i], &in_end[i]);
        if (st) return tinyi_fail(ctx, st, "%s: input %d: %s", row->name, i, tinyi_op_tensor_fault(st));
    }
    for (; i < TINY_OP_MAX_IN; i++)
        if (op->in[i])
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "%s: input %d is given, but the operation takes only %d", row->name, i,
                              row->n_in);
    for (i = 0; i < row->n_out; i++) {
        if (!op->out[i]) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: output %d is missing", row->name, i);
        st = tinyi_op_reach(op->out[i], &out_first[i], &out_end[i]);
        if (st) return tinyi_fail(ctx, st, "%s: output %d: %s", row->name, i, tinyi_op_tensor_fault(st));
        want[i] = *op->out[i];
    }
    for (; i < TINY_OP_MAX_OUT; i++)
        if (op->out[i])
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "%s: output %d is given, but the operation has only %d", row->name, i,
                              row->n_out);
    st = row->shape(ctx, op, want);
    if (st) return st;
    for (i = 0; i < row->n_out; i++) {
        const tiny_tensor *out = op->out[i];
        int same = out->dtype == want[i].dtype && out->rank == want[i].rank;
        for (j = 0; same && j < out->rank; j++) same = out->dim[j] == want[i].dim[j];
        if (!same)
            return tinyi_fail(ctx, out->dtype != want[i].dtype ? TINY_E_DTYPE : TINY_E_SHAPE,
                              "%s: output %d is %s, it must be %s", row->name, i, tinyi_shape_text(out, have_text),
                              tinyi_shape_text(&want[i], want_text));
        if (tinyi_op_folds(out))
            return tinyi_fail(ctx, TINY_E_ALIAS, "%s: two elements of output %d lie at the same address", row->name, i);
        for (j = 0; j < row->n_in; j++) {
            const int may =
                i == 0 && ((j == 0 && row->flags & TINY_OP_INPLACE) || (j == 1 && row->flags & TINY_OP_INPLACE_1));
            if (!op->in[j] || out_first[i] >= in_end[j] || in_first[j] >= out_end[i] ||
                (may && tinyi_op_same_view(out, op->in[j])))
                continue;
            return tinyi_fail(ctx, TINY_E_ALIAS, "%s: output %d overlaps input %d", row->name, i, j);
        }
        for (j = 0; j < i; j++)
            if (out_first[i] < out_end[j] && out_first[j] < out_end[i])
                return tinyi_fail(ctx, TINY_E_ALIAS, "%s: outputs %d and %d overlap", row->name, j, i);
    }
    return TINY_OK;
}

/* Fast check of the usual call: one output, every input given, all of the same type, shape and layout. One reach then
 * holds for all: two of them overlap if they begin less than that apart, and an input that may be overwritten must
 * begin where the output does. 1: checked, with the result of the shape rule. 0: not such a call or invalid:
 * tinyi_op_check_all checks everything. */
TINYI_FORCE_INLINE int tinyi_op_plain(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row, tiny_status *st)
{
    const tiny_tensor *y = op->out[0], *const *more;
    tiny_tensor want;
    uintptr_t first, end, reach;
    int i, j;
    for (more = op->out + 1; more < op->out + TINY_OP_MAX_OUT; more++)
        if (*more) return 0;
    if (row->n_out != 1 || !y || tinyi_op_reach(y, &first, &end) || !end || tinyi_op_folds(y)) return 0;
    reach = end - first - 1;
    for (i = 0; i < row->n_in; i++) {
        const tiny_tensor *t = op->in[i];
        if (!t || !t->data || t->dtype != y->dtype || t->rank != y->rank) return 0;
        for (j = 0; j < y->rank; j++)
            if (t->dim[j] != y->dim[j] || t->stride[j] != y->stride[j]) return 0;
        if ((uintptr_t)t->data - (uintptr_t)y->data + reach <= 2 * reach &&
            !(t->data == y->data &&
              ((i == 0 && row->flags & TINY_OP_INPLACE) || (i == 1 && row->flags & TINY_OP_INPLACE_1))))
            return 0;
    }
    for (more = op->in + i; more < op->in + TINY_OP_MAX_IN; more++)
        if (*more) return 0;
    /* field by field: as a whole gcc copies it word by word, which takes a fifth as long as the door */
    want.data = y->data;
    want.dtype = y->dtype;
    want.rank = y->rank;
    for (j = 0; j < TINY_MAX_RANK; j++) {
        want.dim[j] = y->dim[j];
        want.stride[j] = y->stride[j];
    }
    *st = row->shape(ctx, op, &want);
    if (*st) return 1;
    if (want.rank != y->rank) return 0;
    for (j = 0; j < y->rank; j++)
        if (want.dim[j] != y->dim[j]) return 0;
    return want.dtype == y->dtype;
}

static tiny_status tinyi_op_check(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    tiny_status st;
    return tinyi_op_plain(ctx, op, row, &st) ? st : tinyi_op_check_all(ctx, op, row);
}

/* f64 for a row whose fast path is f32: only the reference takes it, and accelerators are not tried. */
static int tinyi_op_wide(const tiny_op *op, const tiny_op_row *row)
{
    /* in[0] may be offsets */
    return row->flags & TINY_OP_F64 && (op->in[0]->dtype == TINY_F64 || op->out[0]->dtype == TINY_F64);
}

int tinyi_cost_threads(const tiny_ctx *ctx, const tiny_cost *c)
{
    /* threads that either would keep busy; products, since a division is a tenth of the door */
    const double flops = c->flops * (1.0 / (TINYI_FLOPS_PER_US * TINYI_US_PER_THREAD)),
                 bytes = c->bytes * (1.0 / (TINYI_BYTES_PER_US * TINYI_US_PER_THREAD));
    const double n = flops > bytes ? flops : bytes;
    return n >= ctx->n_threads ? ctx->n_threads : n < 2.0 ? 1 : (int)n;
}

TINYI_FORCE_INLINE int tinyi_op_threads(const tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    tiny_cost c;
    if (ctx->n_threads == 1) return 1;
    row->cost(op, &c);
    return tinyi_cost_threads(ctx, &c);
}

typedef struct tinyi_op_job {
    const tiny_ctx *ctx;
    const tiny_op *const *ops;
    const tiny_op_row *row;                 /* of the only one */
    size_t n;
} tinyi_op_job;

/* A late thread runs through the finished operations. That is safe only if these read nothing but shapes: otherwise it
 * would read data that the next operation is writing. */
static void tinyi_op_member(tiny_team *team, void *arg)
{
    const tinyi_op_job *job = (const tinyi_op_job *)arg;
    int late = 1;
    size_t i;
    for (i = 0; i < job->n; i++) {
        const tiny_op_row *row = tinyi_op_row_in(job->ctx, job->ops[i]);
        const int fast = row->fast && !tinyi_op_wide(job->ops[i], row), free = !fast || row->flags & TINY_OP_LATE;
        if (late && (i || free)) tinyi_team_until(team, free ? PTRDIFF_MAX : team->phase + 1);
#ifndef TINYI_NO_TUNE
        if (job->ctx->tune) team->k = tinyi_tune_kernels(job->ctx, job->ops[i], row);
#endif
        if (fast) row->fast(team, job->ops[i]);
        else if (team->i == 0) row->ref(job->ops[i]);
        late = late && free;
        if (i + 1 < job->n) {
            if (!late) tinyi_team_until(team, 0);
            tiny_barrier(team);
        }
    }
}

/* the same for one operation; a reference passes no barrier, so a late worker cannot miss one */
static void tinyi_op_only(tiny_team *team, void *arg)
{
    const tinyi_op_job *job = (const tinyi_op_job *)arg;
    const tiny_op_row *row = job->row;
    const tiny_op *op = job->ops[0];
    const int fast = row->fast && !tinyi_op_wide(op, row);
    if (row->flags & TINY_OP_LATE) tinyi_team_until(team, PTRDIFF_MAX);
    if (fast) row->fast(team, op);
    else if (team->i == 0) row->ref(op);
}

/* whose row came with the call may share its work as it likes, unless it says how */
static int tinyi_op_strict(const tiny_op *op) { return op->row && !(op->row->flags & TINY_OP_LOOSE); }

TINYI_FORCE_INLINE tiny_status tinyi_op_here(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    tinyi_op_job job;
    size_t shared = 0, own = 0;
    int n = tinyi_op_threads(ctx, op, row);
    if (row->work) row->work(op, n, &shared, &own);
    job.ctx = ctx;
    job.ops = &op;
    job.row = row;
    job.n = 1;
    return tinyi_region_open(ctx, n, shared, own, tinyi_op_only, &job, !tinyi_op_strict(op));
}

#ifndef TINYI_NO_TUNE
tiny_status tinyi_op_fast_now(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    return tinyi_op_here(ctx, op, row);
}
#endif

TINYI_FORCE_INLINE tiny_status tinyi_op_fast(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
#ifndef TINYI_NO_TUNE
    if (ctx->tune) return tinyi_tune_run(ctx, op, row);
#endif
    return tinyi_op_here(ctx, op, row);
}

/* A row that comes with the call is not trusted: its counts and sizes are checked before use. Accelerators and shared
 * references read op->kind, so it must match the row. For a row of llm or gnn it may be 0: no reference there reads it,
 * and accelerators and recordings get the kind of the row. */
static TINYI_NOINLINE tiny_status tinyi_op_own_row(tiny_ctx *ctx, const tiny_op *op)
{
    const tiny_op_row *r = op->row;
    if (!r->name || !r->shape || !r->ref || !r->cost)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "the row of %.40s lacks its name, shape, ref or cost",
                          r->name ? r->name : "an operation");
    if (r->n_in < 0 || r->n_in > TINY_OP_MAX_IN || r->n_in_needed > r->n_in || r->n_out < 1 ||
        r->n_out > TINY_OP_MAX_OUT || r->params_size > TINY_OP_MAX_PARAMS)
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "%.40s: a row has at most %d inputs, 1 to %d outputs and %d bytes of params, not %d, %d and %zu", r->name,
            TINY_OP_MAX_IN, TINY_OP_MAX_OUT, TINY_OP_MAX_PARAMS, r->n_in, r->n_out, r->params_size);
    if (op->kind != r->kind && (op->kind || r->kind < TINY_OP_BASE_LLM || r->kind >= TINY_OP_BASE_YOURS))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%.40s: its row is of kind %d, but the operation has kind %d", r->name,
                          r->kind, op->kind);
    return TINY_OK;
}

static tiny_status tinyi_op_left_out(tiny_ctx *ctx, const tiny_op_row *row)
{
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                      "%s: single operations are not in this program: compile it with TINY_WITH_OPS",
                      row->name);
}

TINYI_FORCE_INLINE tiny_status tinyi_op_enter(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row **row)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!op) return tinyi_fail(ctx, TINY_E_ARGUMENT, "there is no operation to run");
    *row = tinyi_op_row_in(ctx, op);
    if (!*row) return tinyi_fail(ctx, TINY_E_ARGUMENT, "operation kind %d is unknown", op->kind);
    if (!TINYI_HAS(OPS) && !(*row)->shape) return tinyi_op_left_out(ctx, *row);
    if (op->row) {
        st = tinyi_op_own_row(ctx, op);
        if (st) return st;
    }
    if (TINYI_HAS(OPS) && ctx->n_away) {
        st = tinyi_accel_home_numbers(ctx, op, *row);
        if (st) return st;
    }
    return tinyi_op_check(ctx, op, *row);
}

tiny_status tinyi_op_checked(tiny_ctx *ctx, const tiny_op *op)
{
    const tiny_op_row *row = NULL;
    return tinyi_op_enter(ctx, op, &row);
}

TINY_API tiny_status tiny_run(tiny_ctx *ctx, const tiny_op *op)
{
    const tiny_op_row *row = NULL;
    tiny_status st = tinyi_op_enter(ctx, op, &row);
    if (st) return st;
    if (ctx->desc.cancel && ctx->desc.cancel(ctx->desc.user))
        return tinyi_fail(ctx, TINY_E_CANCELLED, "%s: the cancel callback asked to stop", row->name);
    if (TINYI_HAS(OPS) && ctx->desc.accel) {
        int answered = 0;
        st = tinyi_accel_run(ctx, op, row, tinyi_op_wide(op, row), &answered);
        if (st || answered) {
            if (!st && ctx->recording) tinyi_record(ctx, op, row);
            return st;
        }
    }
    if (ctx->target == TINY_TARGET_REFERENCE || tinyi_op_wide(op, row)) {
        row->ref(op);
        ctx->ran_on = TINY_TARGET_REFERENCE;
    } else st = tinyi_op_fast(ctx, op, row);
    if (!st && ctx->recording) tinyi_record(ctx, op, row);
    return st;
}

tiny_status tinyi_call(tiny_ctx *ctx, int kind, const tiny_tensor *a, const tiny_tensor *b, const void *params,
                       const tiny_tensor *y)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = kind;
    op.in[0] = a;
    op.in[1] = b;
    op.out[0] = y;
    op.params = params;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tiny_run_reference(tiny_ctx *ctx, const tiny_op *op)
{
    const tiny_op_row *row = NULL;
    tiny_status st = tinyi_op_enter(ctx, op, &row);
    if (!st && TINYI_HAS(OPS) && ctx->n_away) st = tinyi_accel_home_op(ctx, op, row);
    if (st) return st;
    row->ref(op);
    ctx->ran_on = TINY_TARGET_REFERENCE;
    return TINY_OK;
}

static tiny_status tinyi_op_list(tiny_ctx *ctx, const tiny_op *const *ops, size_t n)
{
    tinyi_op_job job;
    size_t i, shared = 0, own = 0;
    int threads = 1, strict = 0;
#ifndef TINYI_NO_TUNE
    if (ctx->tune && !tinyi_tune_settled(ctx, ops, n)) {        /* one by one, by the clock */
        tiny_status st = TINY_OK;
        for (i = 0; i < n && !st; i++) {
            const tiny_op_row *row = tinyi_op_row_in(ctx, ops[i]);
            if (row->fast && !tinyi_op_wide(ops[i], row)) st = tinyi_op_fast(ctx, ops[i], row);
            else row->ref(ops[i]);
        }
        return st;
    }
#endif
    for (i = 0; i < n; i++) {
        threads = TINYI_MAX(threads, tinyi_op_threads(ctx, ops[i], tinyi_op_row_in(ctx, ops[i])));
        strict |= tinyi_op_strict(ops[i]);
    }
    for (i = 0; i < n; i++) {
        const tiny_op_row *row = tinyi_op_row_in(ctx, ops[i]);
        size_t s = 0, o = 0;
        if (row->work && !tinyi_op_wide(ops[i], row)) row->work(ops[i], threads, &s, &o);
        if (s > shared) shared = s;
        if (o > own) own = o;
    }
    job.ctx = ctx;
    job.ops = ops;
    job.row = NULL;
    job.n = n;
    return tinyi_region_open(ctx, threads, shared, own, tinyi_op_member, &job, !strict);
}

TINY_API tiny_status tiny_run_list(tiny_ctx *ctx, const tiny_op *const *ops, size_t n)
{
    const tiny_op_row *row = NULL;
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!ops && n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "there is no list of operations");
    if (ctx->desc.accel || ctx->target == TINY_TARGET_REFERENCE) {
        for (i = 0; !st && i < n; i++) st = tiny_run(ctx, ops[i]);
        return st;
    }
    for (i = 0; i < n; i++) {
        st = tinyi_op_enter(ctx, ops[i], &row);
        if (st) return st;
    }
    st = tinyi_op_list(ctx, ops, n);
    for (i = 0; !st && ctx->recording && i < n; i++) tinyi_record(ctx, ops[i], tinyi_op_row_in(ctx, ops[i]));
    return st;
}

/* True if a recorder, an accelerator or the reference must see every operation. Cancel is polled in tiny_take. */
int tinyi_op_watched(const tiny_ctx *ctx)
{
    return TINYI_HAS(OPS) && (ctx->target == TINY_TARGET_REFERENCE || ctx->desc.accel || ctx->recording);
}

tiny_status tinyi_op_known(tiny_ctx *ctx, const tiny_op *op)
{
    const tiny_op_row *row = tinyi_op_row_in(ctx, op);
    if (!TINYI_HAS(OPS) && !row)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "operation %d is not in this program", op->kind);
    return TINYI_HAS(OPS) && (tinyi_op_watched(ctx) || !row || !row->fast) ? tiny_run(ctx, op)
                                                                           : tinyi_op_fast(ctx, op, row);
}

tiny_status tinyi_ops_known(tiny_ctx *ctx, const tiny_op *const *ops, size_t n)
{
    tiny_status st = TINY_OK;
    size_t i;
    if (ctx->n_threads > 1 && !tinyi_op_watched(ctx)) return tinyi_op_list(ctx, ops, n);
    for (i = 0; i < n && !st; i++) st = tinyi_op_known(ctx, ops[i]);
    return st;
}

TINY_API tiny_status tiny_op_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_op_row *row;
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (st) return st;
    row = op ? tinyi_op_row_in(ctx, op) : NULL;
    if (!row || !want)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "tiny_op_shape needs an operation of a known kind and an output");
    for (i = 0; i < row->n_in; i++) {
        if (!op->in[i] && i < row->n_in_needed)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: input %d is missing", row->name, i);
        st = op->in[i] ? tiny_tensor_check(op->in[i]) : TINY_OK;
        /* shapes may be asked for before there is data */
        if (st &&
            !(st == TINY_E_ARGUMENT && !op->in[i]->data && op->in[i]->rank >= 0 && op->in[i]->rank <= TINY_MAX_RANK))
            return tinyi_fail(ctx, st, "%s: input %d: %s", row->name, i, tinyi_op_tensor_fault(st));
    }
    return row->shape ? row->shape(ctx, op, want) : tinyi_op_left_out(ctx, row);
}

tiny_cost tinyi_op_row_cost(const tinyi_wing *const *wings, const tiny_op *op)
{
    tiny_cost c;
    const tiny_op_row *row = !op ? NULL : op->row ? op->row : tinyi_op_row_of(wings, op->kind);
    c.flops = c.bytes = 0;
    if (row) row->cost(op, &c);
    return c;
}

TINY_API tiny_target tiny_op_target(const tiny_ctx *ctx, int kind)
{
    const tiny_op_row *row = tinyi_ctx_check(ctx) ? NULL : tinyi_op_row_of(ctx->wings, kind);
    if (!row || !row->fast || ctx->target == TINY_TARGET_REFERENCE) return TINY_TARGET_REFERENCE;
    return row->kernels && row->kernels[0] >= 0 ? tinyi_kernel_from(ctx->k, row->kernels[0]) : TINY_TARGET_SCALAR;
}

TINY_API int tiny_case_pick(tiny_case *c, int n) { return c && n > 0 ? (int)tiny_rng_below(&c->rng, (uint32_t)n) : 0; }

TINY_API tiny_idx tiny_case_dim(tiny_case *c, tiny_idx limit)
{
    static const short lengths[] = {
        1,   2,   3,    5,    7,    8,    9,    15,   16,   17,   31,   32,   33,   47,
        63,  64,  65,   96,   100,  127,  128,  129,  191,  255,  256,  257,  320,  511,
        513, 768, 1000, 1023, 1025, 1536, 2047, 2049, 3000, 4096, 4099, 6000, 8191, 10007
    };
    int n = 0;
    if (limit <= 1 || c->index == 0) return TINYI_MIN(limit, 1);
    if (tiny_case_pick(c, 12) == 0) return limit;
    while (n < (int)TINYI_COUNT(lengths) && lengths[n] <= limit) n++;
    if (c->index < 8) n = TINYI_MIN(n, 4 + 2 * c->index);   /* a failure of an early case is easy to look at */
    return lengths[tiny_case_pick(c, n)];
}
