/* src/llm/ops.h - the kinds of operations that tinyllm.h adds to those of core and math
 *
 * This one list gives the kinds and the table (tiny_op_at, tiny_op_find, tiny_op_row_of). The conformance kit, the
 * checksums, the catalogue, and tiny_run by kind are made from it. Add a new operation at the end: kinds never
 * change. */
#ifndef TINYI_LLM_OPS_H
#define TINYI_LLM_OPS_H
#include "core/op.h"
TINYI_C_BEGIN

/* ROW(kind, function that returns its row, 1 if this program contains it, else 0) */
#define TINYI_OPS_LLM(ROW)                                                  \
    ROW(TLLM_OP_MATMUL_BLOCKS, tllm_matmul_row, 1)                          \
    ROW(TLLM_OP_PAGED_ATTENTION, tllm_paged_attention_row, 1)               \
    ROW(TLLM_OP_LATENT_ATTENTION, tllm_latent_attention_row, 1)             \
    ROW(TLLM_OP_MIX_ROWS, tllm_mix_rows_row, 1)                             \
    ROW(TLLM_OP_BIPOLAR, tllm_bipolar_row, TINYI_HAS(BIPOLAR))               \
    ROW(TLLM_OP_FLASH_MATMUL, tllm_flash_row, TINYI_HAS(FLASH))              \
    ROW(TLLM_OP_VPTQ_MATMUL, tllm_vptq_row, TINYI_HAS(VPTQ))                 \
    ROW(TLLM_OP_TOME_MERGE, tllm_tome_merge_row, TINYI_HAS(VISION))          \
    ROW(TLLM_OP_TOME_MERGE_BACKWARD, tllm_tome_merge_backward_row, TINYI_HAS(VISION)) \
    ROW(TLLM_OP_TURN_PAIRS, tllm_turn_pairs_row, 1)                         \
    ROW(TLLM_OP_PUT_ROWS, tllm_put_rows_row, 1)

#define TINYI_LLM_KIND(kind, row, here) kind,
enum { TLLM_OP_NONE = TINY_OP_BASE_LLM, TINYI_OPS_LLM(TINYI_LLM_KIND) TLLM_OP_END };
#undef TINYI_LLM_KIND

TINYI_C_END
#endif
