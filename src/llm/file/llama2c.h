/* src/llm/file/llama2c.h - the first .bin layout of llama2.c, seen as a tllm_gguf of the architecture llama
 *
 * Keys and tensors carry the names that GGUF files of llama models have, so that what loads those loads these; the
 * weights stay where they are in the file. With a tokenizer file its tokens, scores and types stand there too: blanks
 * are written as U+2581, the types follow from the texts, 0 is unknown, 1 begins and 2 ends a text. */
#ifndef TINYI_LLAMA2C_H
#define TINYI_LLAMA2C_H
#include "llm/file/gguf.h"
TINYI_C_BEGIN

/* tokenizer: path of the tokenizer.bin that belongs to the model; NULL: none */
TINY_API tiny_status tllm_llama2c_open(tiny_ctx *ctx, const char *path, const char *tokenizer, tllm_gguf **out);
/* No copy of the model; the tokenizer's bytes are not needed after the call. tokenizer may be NULL. */
TINY_API tiny_status tllm_llama2c_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes, const void *tokenizer,
                                              size_t n_tokenizer, tllm_gguf **out);
/* The size that the header of a .bin asks for; 0 when it is no such header. */
TINY_API uint64_t tllm_llama2c_bytes(const void *bytes, size_t n_bytes);

TINYI_C_END
#endif
