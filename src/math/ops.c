/* src/math/ops.c - the table itself */
#include "math/table.h"
#include <string.h>

#if !TINYI_CHAT
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
static const tiny_op_row *const tinyi_rows[] = { NULL, TINYI_OPS_OF(TINYI_ROW_POINTER, TINYI_ROW_CONV, TINYI_ROW_TRANSFORM, TINYI_ROW_TRAIN, TINYI_ROW_EDGES) };
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

TINY_API const tiny_op_row *tiny_op_row_of(int kind)
{
#if TINYI_CHAT
    return tinyi_chat_row(kind);
#else
    return kind > TINY_OP_NONE && kind < TINY_OP_COUNT ? tinyi_rows[kind] : NULL;
#endif
}

const tiny_op_row *tinyi_op_row(const tiny_op *op) { return op->row ? op->row : tiny_op_row_of(op->kind); }

TINY_API const tiny_op_row *tiny_op_at(size_t i)
{
    size_t at = 1;
    while (at < (size_t)TINY_OP_COUNT && (!tiny_op_row_of((int)at) || i-- > 0)) at++;
    return at < (size_t)TINY_OP_COUNT ? tiny_op_row_of((int)at) : NULL;
}

TINY_API const tiny_op_row *tiny_op_find(const char *name)
{
    size_t i;
    for (i = 1; name && i < (size_t)TINY_OP_COUNT; i++)
        if (tiny_op_row_of((int)i) && !strcmp(tiny_op_row_of((int)i)->name, name)) return tiny_op_row_of((int)i);
    return NULL;
}

size_t tinyi_kernels_bytes(void) { return sizeof(tinyi_kernels); }

tiny_target tinyi_kernel_from(const tinyi_kernels *k, int slot) { return (tiny_target)k->from[slot]; }

const char *tinyi_kernel_name(int slot) { return tinyi_slot_names[slot]; }
