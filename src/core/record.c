/* src/core/record.c */
#include "core/state_inside.h"
#include "core/record.h"
#include <string.h>

typedef struct tinyi_recorded {
    tiny_op op;                             /* points into this struct */
    tiny_tensor in[TINY_OP_MAX_IN], out[TINY_OP_MAX_OUT];
    union { unsigned char bytes[TINY_OP_MAX_PARAMS]; double align; void *align_p; } params;
} tinyi_recorded;

/* Blocks in a chain: what was recorded never moves. */
#define TINYI_RECORD_BLOCK 64
typedef struct tinyi_record_block {
    struct tinyi_record_block *next;
    tinyi_recorded item[TINYI_RECORD_BLOCK];
} tinyi_record_block;

struct tiny_recording {
    tinyi_record_block *first, *last;
    size_t n;
    int lost;                               /* operations that found no memory */
};

TINY_API tiny_status tiny_record_start(tiny_ctx *ctx, tiny_recording **out)
{
    tiny_recording *rec;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_record_start needs an output pointer");
    if (!TINYI_HAS(OPS)) return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                                           "the recorder is not in this program: compile it with TINY_WITH_OPS");
    if (ctx->recording) return tinyi_fail(ctx, TINY_E_ARGUMENT, "this context is recording already");
    rec = (tiny_recording *)tinyi_alloc(ctx, 1, sizeof *rec);
    if (!rec) return tiny_ctx_status(ctx);
    memset(rec, 0, sizeof *rec);
    ctx->recording = *out = rec;
    return TINY_OK;
}

TINY_API tiny_status tiny_record_stop(tiny_ctx *ctx)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tiny_recording *rec;
    if (st) return st;
    rec = ctx->recording;
    if (!rec) return tinyi_fail(ctx, TINY_E_ARGUMENT, "this context is not recording");
    ctx->recording = NULL;
    if (rec->lost)
        return tinyi_fail(ctx, TINY_E_MEMORY,
                          "%d operations ran but could not be recorded for lack of memory", rec->lost);
    return TINY_OK;
}

void tinyi_record(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    tiny_recording *rec = ctx->recording;
    tinyi_recorded *r;
    size_t at = rec->n % TINYI_RECORD_BLOCK;
    int i;
    if (at == 0) {
        tinyi_record_block *b = (tinyi_record_block *)tinyi_alloc(ctx, 1, sizeof *b);
        if (!b) { rec->lost++; return; }
        b->next = NULL;
        if (rec->last) rec->last->next = b;
        else rec->first = b;
        rec->last = b;
    }
    r = &rec->last->item[at];
    r->op = *op;
    r->op.kind = row->kind;
    for (i = 0; i < TINY_OP_MAX_IN; i++)
        if (op->in[i]) { r->in[i] = *op->in[i]; r->op.in[i] = &r->in[i]; }
    for (i = 0; i < TINY_OP_MAX_OUT; i++)
        if (op->out[i]) { r->out[i] = *op->out[i]; r->op.out[i] = &r->out[i]; }
    if (op->params) {
        memcpy(r->params.bytes, op->params, row->params_size);
        r->op.params = r->params.bytes;
    }
    rec->n++;
}

TINY_API size_t tiny_recording_count(const tiny_recording *recording) { return recording ? recording->n : 0; }

TINY_API const tiny_op *tiny_recording_at(const tiny_recording *recording, size_t i)
{
    const tinyi_record_block *b;
    if (!recording || i >= recording->n) return NULL;
    for (b = recording->first; i >= TINYI_RECORD_BLOCK; i -= TINYI_RECORD_BLOCK) b = b->next;
    return &b->item[i].op;
}

TINY_API void tiny_recording_free(tiny_ctx *ctx, tiny_recording *recording)
{
    tinyi_record_block *b, *next;
    if (!recording || tinyi_ctx_check(ctx)) return;
    if (ctx->recording == recording) ctx->recording = NULL;
    for (b = recording->first; b; b = next) {
        next = b->next;
        tiny_free(ctx, b);
    }
    tiny_free(ctx, recording);
}
