/* src/llm/file/safetensors.h - safetensors files, seen as a tllm_gguf
 *
 * Keys are those of __metadata__, all of them texts. Shapes are turned round: dim[0] is the innermost. Types that GGUF
 * has no number for are TLLM_TYPE_BOOL and so on. Tensors may have up to TLLM_MAX_RANK dimensions, some of them 0.
 *
 * The header is read strictly, as the format says: one object with no value twice, every byte of the data in exactly
 * one
 * tensor. */
#ifndef TINYI_SAFETENSORS_H
#define TINYI_SAFETENSORS_H
#include "core/safetensors.h"
#include "llm/file/gguf.h"
TINYI_C_BEGIN

#define TLLM_MAX_SAFETENSORS_HEADER TINYI_SAFETENSORS_MAX_HEADER   /* bytes */

TINY_API tiny_status tllm_safetensors_open(tiny_ctx *ctx, const char *path, tllm_gguf **out);
/* no copy */
TINY_API tiny_status tllm_safetensors_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_gguf **out);

TINYI_C_END
#endif
