/* src/llm/targets.c - compiles the kernels of tinyllm.h once for each target */
#include "llm/block/block_inside.h"
#include "llm/dist/moe_fold_inside.h"
#include "llm/dist/zero_inside.h"
#include "llm/lab/bipolar/bipolar_inside.h"
#include "llm/lab/flashllm/flash_inside.h"
#include "llm/lab/nets/share_inside.h"
#include "llm/lab/vptq/kmeans_inside.h"
#include "llm/lab/vptq/vptq_inside.h"
#include "llm/lab/weave/weave_inside.h"
#include "core/target.h"

#define TINYI_PASS_FILE "llm/kernels.h"
#include "core/each_target.h"
