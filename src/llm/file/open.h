/* src/llm/file/open.h - a model file of any kind: GGUF, safetensors, .bin of llama2.c
 *
 * The kind is detected from the bytes, not from the name. All kinds are opened as a tllm_gguf. */
#ifndef TINYI_OPEN_H
#define TINYI_OPEN_H
#include "llm/file/gguf.h"
#include "llm/file/safetensors.h"
#include "llm/file/llama2c.h"
TINYI_C_BEGIN

enum { TLLM_FILE_GGUF, TLLM_FILE_SAFETENSORS, TLLM_FILE_LLAMA2C };

/* For a .bin of N tokens, the tokenizer is looked for in the same folder: tokN.bin, tokenizerN.bin, tokenizer.bin. One
 * that does not fit the model is skipped, and the reason is logged. Close with tllm_gguf_close. On failure *out is
 * NULL. */
TINY_API tiny_status tllm_file_open(tiny_ctx *ctx, const char *path, tllm_gguf **out);
/* the bytes are not copied and must stay valid until the close */
TINY_API tiny_status tllm_file_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_gguf **out);
/* the TLLM_FILE_ of an open file */
TINY_API int tllm_file_kind(const tllm_gguf *g);
TINY_API const char *tllm_file_kind_name(const tllm_gguf *g);      /* "GGUF" */
/* the TLLM_FILE_ that the bytes look like, or -1 */
TINY_API int tllm_file_looks(const void *bytes, size_t n_bytes);

TINYI_C_END
#endif
