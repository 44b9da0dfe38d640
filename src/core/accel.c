/* src/core/accel.c - operations on the accelerator, and the list of outputs that are away on the device
 *
 * A back end of version 2 leaves outputs in its own memory. The context lists them, each as the tensor that it was. An
 * entry is away from the end of its operation until it is fetched or discarded. No two entries share a byte.
 *   input    the device has it if it lies in one dense entry, or if it is the same view as an entry (for a dense one:
 *            the same numbers, in any axes). Otherwise the entries that it touches are fetched.
 *   output   the same view as an entry: the entry stays. An entry that a dense output covers is discarded. All others
 *            that it touches are fetched.
 * If the list cannot grow, the output is fetched at once. */
#include "core/state_inside.h"
#include <string.h>

typedef struct tinyi_away { tiny_tensor t; uintptr_t first, end; } tinyi_away;

static int tinyi_accel_stays(const tiny_ctx *ctx)
{
    return ctx->desc.accel && ctx->desc.accel->version > 1 && ctx->desc.accel->fetch;
}

static void tinyi_accel_gone(tiny_ctx *ctx, size_t i) { ctx->away[i] = ctx->away[--ctx->n_away]; }

static tiny_status tinyi_accel_fetch(tiny_ctx *ctx, const tiny_tensor *t, char says[256])
{
    tiny_status st;
    says[0] = 0;
    st = ctx->desc.accel->fetch(ctx->desc.accel->user, t, says);
    says[255] = 0;
    ctx->accel_fetched++;
    return st;
}

static tiny_status tinyi_accel_home_at(tiny_ctx *ctx, size_t i)
{
    char says[256];
    const tiny_tensor t = ctx->away[i].t;
    tiny_status st;
    tinyi_accel_gone(ctx, i);
    st = tinyi_accel_fetch(ctx, &t, says);
    if (!st) return st;
    ctx->accel_failed++;
    return tinyi_fail(ctx, st, "accelerator %s: results that stayed there are lost: %s",
                      ctx->desc.accel->name ? ctx->desc.accel->name : "?", says[0] ? says : tiny_status_text(st));
}

static int tinyi_accel_meets(const tinyi_away *e, uintptr_t first, uintptr_t end)
{
    return e->first < end && first < e->end;
}

/* from first to before end */
static tiny_status tinyi_accel_home_range(tiny_ctx *ctx, uintptr_t first, uintptr_t end)
{
    tiny_status st = TINY_OK;
    size_t i;
    for (i = ctx->n_away; i-- > 0 && !st;)
        if (tinyi_accel_meets(&ctx->away[i], first, end)) st = tinyi_accel_home_at(ctx, i);
    return st;
}

static uintptr_t tinyi_accel_end(const void *p, size_t bytes)
{
    return bytes > UINTPTR_MAX - (uintptr_t)p ? UINTPTR_MAX : (uintptr_t)p + bytes;
}

tiny_status tinyi_accel_home(tiny_ctx *ctx, const void *p, size_t bytes)
{
    return tinyi_accel_home_range(ctx, (uintptr_t)p, tinyi_accel_end(p, bytes));
}

void tinyi_accel_drop(tiny_ctx *ctx, const void *p, size_t bytes)
{
    const uintptr_t first = (uintptr_t)p, end = tinyi_accel_end(p, bytes);
    size_t i;
    for (i = ctx->n_away; i-- > 0;)
        if (tinyi_accel_meets(&ctx->away[i], first, end)) {
            const tiny_tensor t = ctx->away[i].t;
            tinyi_accel_gone(ctx, i);
            ctx->desc.accel->discard(ctx->desc.accel->user, &t);
        }
}

/* one view, or the same numbers without gaps in other axes */
static int tinyi_accel_same(const tiny_tensor *a, const tiny_tensor *b)
{
    int i;
    if (a->data != b->data || a->dtype != b->dtype) return 0;
    if (tiny_tensor_is_dense(a) && tiny_tensor_is_dense(b)) return tiny_tensor_count(a) == tiny_tensor_count(b);
    if (a->rank != b->rank) return 0;
    for (i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i] || (a->dim[i] > 1 && a->stride[i] != b->stride[i])) return 0;
    return 1;
}

static tiny_status tinyi_accel_home_tensor(tiny_ctx *ctx, const tiny_tensor *t)
{
    uintptr_t first = 0, end = 0;
    if (!t || tinyi_tensor_reach(t, &first, &end)) return TINY_OK;      /* the checks say what is wrong with it */
    return tinyi_accel_home_range(ctx, first, end);
}

tiny_status tinyi_accel_home_numbers(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    tiny_status st = TINY_OK;
    int i;
    for (i = 0; i < row->n_in && !st; i++)
        if (op->in[i] && op->in[i]->dtype == TINY_I32) st = tinyi_accel_home_tensor(ctx, op->in[i]);
    return st;
}

tiny_status tinyi_accel_home_op(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    tiny_status st = TINY_OK;
    int i;
    for (i = 0; i < row->n_in && !st; i++) st = tinyi_accel_home_tensor(ctx, op->in[i]);
    for (i = 0; i < row->n_out && !st; i++) st = tinyi_accel_home_tensor(ctx, op->out[i]);
    return st;
}

/* Fetches what the device cannot read in place, and gives up what an output covers. */
static tiny_status tinyi_accel_ready(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    uintptr_t first, end;
    tiny_status st = TINY_OK;
    size_t k;
    int i;
    for (i = 0; i < row->n_in && !st; i++) {
        if (!op->in[i] || tinyi_tensor_reach(op->in[i], &first, &end)) continue;
        for (k = ctx->n_away; k-- > 0 && !st;) {
            const tinyi_away *e = &ctx->away[k];
            const int there =
                tinyi_accel_same(&e->t, op->in[i]) ||
                (tiny_tensor_is_dense(&e->t) && e->t.dtype == op->in[i]->dtype && e->first <= first && end <= e->end);
            if (tinyi_accel_meets(e, first, end) && !there) st = tinyi_accel_home_at(ctx, k);
        }
    }
    for (i = 0; i < row->n_out && !st; i++) {
        if (tinyi_tensor_reach(op->out[i], &first, &end)) continue;
        for (k = ctx->n_away; k-- > 0 && !st;) {
            const tinyi_away *e = &ctx->away[k];
            if (!tinyi_accel_meets(e, first, end) || tinyi_accel_same(&e->t, op->out[i])) continue;
            if (tiny_tensor_is_dense(op->out[i]) && first <= e->first && e->end <= end &&
                !(row->flags & TINY_OP_ACCUMULATES)) {
                const tiny_tensor t = e->t;
                tinyi_accel_gone(ctx, k);
                ctx->desc.accel->discard(ctx->desc.accel->user, &t);
            } else st = tinyi_accel_home_at(ctx, k);
        }
    }
    return st;
}

/* 0: no memory for it */
static int tinyi_accel_note(tiny_ctx *ctx, const tiny_tensor *t)
{
    tinyi_away *more;
    size_t k;
    for (k = 0; k < ctx->n_away; k++)
        if (tinyi_accel_same(&ctx->away[k].t, t)) return 1;
    if (ctx->n_away == ctx->cap_away) {
        more = (tinyi_away *)tinyi_alloc(ctx, ctx->cap_away ? 2 * ctx->cap_away : 64, sizeof *more);
        if (!more) return 0;
        if (ctx->n_away) memcpy(more, ctx->away, ctx->n_away * sizeof *more);
        tiny_free(ctx, ctx->away);
        ctx->away = more;
        ctx->cap_away = ctx->cap_away ? 2 * ctx->cap_away : 64;
    }
    ctx->away[ctx->n_away].t = *t;
    (void)tinyi_tensor_reach(t, &ctx->away[ctx->n_away].first, &ctx->away[ctx->n_away].end);
    ctx->n_away++;
    return 1;
}

/* After an answer: outputs are noted, or fetched at once. *lost: what was an entry before cannot be computed again. */
static tiny_status tinyi_accel_settle(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row, char says[256],
                                      int *lost)
{
    tiny_status st = TINY_OK, now;
    size_t k;
    int j, was;
    for (j = 0; j < row->n_out; j++) {
        if (tiny_tensor_count(op->out[j]) == 0) continue;
        if (ctx->stay && !st && tinyi_accel_note(ctx, op->out[j])) { ctx->accel_kept++; continue; }
        for (k = 0; k < ctx->n_away && !tinyi_accel_same(&ctx->away[k].t, op->out[j]); k++) {}
        was = k < ctx->n_away;
        if (was) now = tinyi_accel_home_at(ctx, k);
        else now = tinyi_accel_fetch(ctx, op->out[j], says);
        *lost |= was && now;
        if (now && !st) st = now;
    }
    return st;
}

tiny_status tinyi_accel_run(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row, int wide, int *answered)
{
    const tiny_accel *a = ctx->desc.accel;
    const int stays = tinyi_accel_stays(ctx);
    char says[256];
    tiny_status st;
    tiny_op whole;
    int lost = 0;
    *answered = 0;
    if (op->kind != row->kind) {
        whole = *op;
        whole.kind = row->kind;
        op = &whole;
    }
    if (wide || !a->can_run(a->user, op, row)) {
        if (!wide) ctx->accel_declined++;
        return ctx->n_away ? tinyi_accel_home_op(ctx, op, row) : TINY_OK;
    }
    if (ctx->n_away) {
        st = tinyi_accel_ready(ctx, op, row);
        if (st) return st;
    }
    says[0] = 0;
    st = a->run(a->user, op, row, says);
    if (!st && stays) st = tinyi_accel_settle(ctx, op, row, says, &lost);
    else if (!st && a->synchronize) st = a->synchronize(a->user, says);
    says[sizeof says - 1] = 0;
    if (!st) {
        ctx->accel_answered++;
        *answered = 1;
        return st;
    }
    if (lost) return st;
    ctx->accel_failed++;
    if (!ctx->accel_said) {
        ctx->accel_said = 1;
        tinyi_log(ctx, TINY_LOG_WARNING,
                  "accelerator %s failed at %s (%s); the processor computes what it fails at, without further notice",
                  a->name ? a->name : "?", row->name, says[0] ? says : tiny_status_text(st));
    }
    return ctx->n_away ? tinyi_accel_home_op(ctx, op, row) : TINY_OK;
}

/* ---- the functions that programs call ---------------------------------------------------------------------------- */

static tiny_status tinyi_accel_pass(tiny_ctx *ctx, const tiny_tensor *host, int which)
{
    const tiny_accel *a;
    char says[256];
    uintptr_t first = 0, end = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    st = tiny_tensor_check(host);
    if (!st) st = tinyi_tensor_reach(host, &first, &end);
    if (st)
        return tinyi_fail(ctx, st, "the tensor for the accelerator: %s",
                          st == TINY_E_ARGUMENT ? "its data is missing or its rank is not 0 to 4"
                                                : tiny_status_text(st));
    a = ctx->desc.accel;
    if (!a) return TINY_OK;
    if (which == 2) tinyi_accel_drop(ctx, (const void *)first, (size_t)(end - first));
    else st = tinyi_accel_home_range(ctx, first, end);
    if (st) return st;
    says[0] = 0;
    if (which == 0 && a->upload) st = a->upload(a->user, host, says);
    if (which == 1 && a->download) st = a->download(a->user, host, says);
    if (which == 2 && a->forget) a->forget(a->user, host);
    says[sizeof says - 1] = 0;
    return st ? tinyi_fail(ctx, st, "accelerator %s: %s", a->name ? a->name : "?",
                           says[0] ? says : tiny_status_text(st))
              : TINY_OK;
}

TINY_API tiny_status tiny_upload(tiny_ctx *ctx, const tiny_tensor *host) { return tinyi_accel_pass(ctx, host, 0); }
TINY_API tiny_status tiny_download(tiny_ctx *ctx, const tiny_tensor *host) { return tinyi_accel_pass(ctx, host, 1); }
TINY_API tiny_status tiny_forget(tiny_ctx *ctx, const tiny_tensor *host) { return tinyi_accel_pass(ctx, host, 2); }

TINY_API void tiny_stay(tiny_ctx *ctx, int on)
{
    if (tinyi_ctx_check(ctx)) return;
    if (on) ctx->stay++;
    else if (ctx->stay > 0) ctx->stay--;
}

TINY_API void tiny_stay_counts(const tiny_ctx *ctx, uint64_t *kept, uint64_t *fetched)
{
    const int none = tinyi_ctx_check(ctx) != TINY_OK;
    if (kept) *kept = none ? 0 : ctx->accel_kept;
    if (fetched) *fetched = none ? 0 : ctx->accel_fetched;
}

TINY_API void tiny_accel_counts(const tiny_ctx *ctx, uint64_t *answered, uint64_t *declined, uint64_t *failed)
{
    const int none = tinyi_ctx_check(ctx) != TINY_OK;
    if (answered) *answered = none ? 0 : ctx->accel_answered;
    if (declined) *declined = none ? 0 : ctx->accel_declined;
    if (failed) *failed = none ? 0 : ctx->accel_failed;
}
