/* src/llm/file/open.h - a model file of whatever kind: GGUF, safetensors, .bin of llama2.c
 *
 * The kind is told from the bytes, not from the name. What is given back is the same view for all of them. */
#ifndef TINYI_OPEN_H
#define TINYI_OPEN_H
#include "llm/file/gguf.h"
#include "llm/file/safetensors.h"
#include "llm/file/llama2c.h"
TINYI_C_BEGIN

enum { TLLM_FILE_GGUF, TLLM_FILE_SAFETENSORS, TLLM_FILE_LLAMA2C };

/* Beside a .bin of n tokens a tokenizer is looked for: tokN.bin, tokenizerN.bin, tokenizer.bin. One that does not fit
 * the model is left alone, and the log hears why. */
TINY_API tiny_status tllm_file_open(tiny_ctx *ctx, const char *path, tllm_gguf **out);
/* no copy */
TINY_API tiny_status tllm_file_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_gguf **out);
TINY_API int tllm_file_kind(const tllm_gguf *g);
TINY_API const char *tllm_file_kind_name(const tllm_gguf *g);      /* "GGUF" */
/* what the bytes look like; -1: like none of them */
TINY_API int tllm_file_looks(const void *bytes, size_t n_bytes);

TINYI_C_END
#endif
