/* src/llm/file/safetensors.h - safetensors files, opened as a tllm_gguf
 *
 * The keys are those of __metadata__; all values are texts. Shapes are reversed: dim[0] is the innermost. Types that
 * GGUF lacks have the numbers TLLM_TYPE_BOOL and up. Tensors may have up to TLLM_MAX_RANK dimensions, and some may be
 * 0.
 *
 * The header is read strictly, as the format requires: one object without duplicate keys, and every byte of the data in
 * exactly one tensor. */
#ifndef TINYI_SAFETENSORS_H
#define TINYI_SAFETENSORS_H
#include "core/safetensors.h"
#include "llm/file/gguf.h"
TINYI_C_BEGIN

#define TLLM_MAX_SAFETENSORS_HEADER TINYI_SAFETENSORS_MAX_HEADER   /* bytes */

/* Close with tllm_gguf_close. On failure *out is NULL. */
TINY_API tiny_status tllm_safetensors_open(tiny_ctx *ctx, const char *path, tllm_gguf **out);
/* the bytes are not copied and must stay valid until the close */
TINY_API tiny_status tllm_safetensors_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_gguf **out);

TINYI_C_END
#endif
