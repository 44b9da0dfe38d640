/* src/math/ops.c - the table of operations */
#include "math/table_inside.h"
#include <string.h>

#ifndef TINYI_NO_OPS
#define TINYI_ROW_POINTER(KIND, name) &tinyi_row_##name,
#define TINYI_ROW_NONE(KIND, name) NULL,
#ifdef TINYI_NO_CONV
#define TINYI_ROW_CONV TINYI_ROW_NONE
#else
#define TINYI_ROW_CONV TINYI_ROW_POINTER
#endif
#ifdef TINYI_NO_TRANSFORM
#define TINYI_ROW_TRANSFORM TINYI_ROW_NONE
#else
#define TINYI_ROW_TRANSFORM TINYI_ROW_POINTER
#endif
#ifdef TINYI_NO_TRAIN
#define TINYI_ROW_TRAIN TINYI_ROW_NONE
#else
#define TINYI_ROW_TRAIN TINYI_ROW_POINTER
#endif
#ifdef TINYI_NO_EDGES
#define TINYI_ROW_EDGES TINYI_ROW_NONE
#else
#define TINYI_ROW_EDGES TINYI_ROW_POINTER
#endif
static const tiny_op_row *const tinyi_rows[] = {
    NULL, TINYI_OPS_OF(TINYI_ROW_POINTER, TINYI_ROW_CONV, TINYI_ROW_TRANSFORM, TINYI_ROW_TRAIN, TINYI_ROW_EDGES)
};
#undef TINYI_ROW_POINTER
#undef TINYI_ROW_NONE
#undef TINYI_ROW_CONV
#undef TINYI_ROW_TRANSFORM
#undef TINYI_ROW_TRAIN
#undef TINYI_ROW_EDGES
#endif

#define TINYI_SLOT_NAME(name, type, params) #name,
static const char *const tinyi_slot_names[] = { TINYI_KERNELS(TINYI_SLOT_NAME) "" };
#undef TINYI_SLOT_NAME

/* A program without OPS has no table: its wings name the few rows of math that they call. */
static const tiny_op_row *tinyi_op_row_shared(int kind)
{
#ifndef TINYI_NO_OPS
    if (kind > TINY_OP_NONE && kind < TINY_OP_COUNT) return tinyi_rows[kind];
#endif
    (void)kind;
    return NULL;
}

static TINYI_NOINLINE const tiny_op_row *tinyi_op_row_of_wing(const tinyi_wing *const *wings, int kind)
{
    for (; *wings; wings++)
        if (kind >= (*wings)->first && kind < (*wings)->end) return (*wings)->row(kind);
    return NULL;
}

const tiny_op_row *tinyi_op_row_of(const tinyi_wing *const *wings, int kind)
{
    return TINYI_HAS(OPS) && kind < TINY_OP_COUNT ? tinyi_op_row_shared(kind) : tinyi_op_row_of_wing(wings, kind);
}

const tiny_op_row *tinyi_op_row(const tiny_op *op) { return op->row ? op->row : tinyi_op_row_shared(op->kind); }

const tiny_op_row *tinyi_op_row_in(const tiny_ctx *ctx, const tiny_op *op)
{
    return op->row ? op->row : tinyi_op_row_of(ctx->wings, op->kind);
}

/* The i-th row, or the one of that name, of a range of kinds; *i is what is left to count. */
static const tiny_op_row *tinyi_op_row_among(const tinyi_wing *wing, int first, int end, size_t *i, const char *name)
{
    for (; first < end; first++) {
        const tiny_op_row *row = wing ? wing->row(first) : tinyi_op_row_shared(first);
        if (row && (name ? !strcmp(row->name, name) : (*i)-- == 0)) return row;
    }
    return NULL;
}

static const tiny_op_row *tinyi_op_row_walk(const tinyi_wing *const *wings, size_t i, const char *name)
{
    const tiny_op_row *row = tinyi_op_row_among(NULL, TINY_OP_NONE + 1, TINY_OP_COUNT, &i, name);
    for (; !row && *wings; wings++) row = tinyi_op_row_among(*wings, (*wings)->first, (*wings)->end, &i, name);
    return row;
}

const tiny_op_row *tinyi_op_row_at(const tinyi_wing *const *wings, size_t i)
{
    return tinyi_op_row_walk(wings, i, NULL);
}

const tiny_op_row *tinyi_op_row_find(const tinyi_wing *const *wings, const char *name)
{
    return name ? tinyi_op_row_walk(wings, 0, name) : NULL;
}

size_t tinyi_kernels_bytes(void) { return sizeof(tinyi_kernels); }

tiny_target tinyi_kernel_from(const tinyi_kernels *k, int slot) { return (tiny_target)k->from[slot]; }

const char *tinyi_kernel_name(int slot) { return tinyi_slot_names[slot]; }
