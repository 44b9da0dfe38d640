/* src/llm/file/llama2c.h - the first .bin layout of llama2.c, opened as a tllm_gguf of the architecture llama
 *
 * Keys and tensors have the same names as in GGUF files of llama models, so the same code loads both. The weights stay
 * in the file. With a tokenizer file there are also the keys of the vocabulary. Blanks are replaced by U+2581, and
 * the types of tokens are derived from their texts. Token 0 is unknown; token 1 begins a text and token 2 ends it. */
#ifndef TINYI_LLAMA2C_H
#define TINYI_LLAMA2C_H
#include "llm/file/gguf.h"
TINYI_C_BEGIN

/* tokenizer: path of the tokenizer.bin that belongs to the model; NULL: none. Close with tllm_gguf_close. On failure
 * *out is NULL. */
TINY_API tiny_status tllm_llama2c_open(tiny_ctx *ctx, const char *path, const char *tokenizer, tllm_gguf **out);
/* The bytes of the model are not copied and must stay valid until the close. The tokenizer's bytes are not needed after
 * the call. tokenizer may be NULL. */
TINY_API tiny_status tllm_llama2c_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes, const void *tokenizer,
                                              size_t n_tokenizer, tllm_gguf **out);
/* The file size that the header of a .bin implies; 0: the bytes are not such a header. */
TINY_API uint64_t tllm_llama2c_bytes(const void *bytes, size_t n_bytes);

TINYI_C_END
#endif
