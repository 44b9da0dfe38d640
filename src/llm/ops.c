/* src/llm/ops.c - the rows of language models next to those of core and math, and the functions that use both */
#include "core/state_inside.h"
#include "llm/ops.h"
#include "llm/model/model_inside.h"
#include "llm/block/matmul.h"
#include "llm/block/sparse.h"
#include "llm/lab/bipolar/bipolar.h"
#include "llm/lab/flashllm/flashllm.h"
#include "llm/lab/vptq/vptq.h"
#include "llm/attention/paged.h"
#include "llm/attention/latent.h"
#include "llm/attention/place.h"
#include "llm/lab/vision/merge.h"

#ifdef TINYI_NO_OPS
/* the rows of math that models call */
static const tinyi_wing tinyi_llm_wing = { TINY_OP_NONE + 1, TINY_OP_COUNT, tinyi_lm_row_of };
#else
static const tiny_op_row *tinyi_llm_row(int kind)
{
    switch (kind) {
    TINYI_OPS_LLM(TINYI_WING_CASE)
    default: return NULL;
    }
}

static const tinyi_wing tinyi_llm_wing = { TLLM_OP_NONE + 1, TLLM_OP_END, tinyi_llm_row };
#endif
static const tinyi_wing *const tinyi_llm_wings[] = { &tinyi_llm_wing, TINYI_WINGS_BEFORE NULL };
#undef TINYI_WINGS_BEFORE
#define TINYI_WINGS_BEFORE &tinyi_llm_wing,

TINYI_DOORS(tinyi_llm_wings)
